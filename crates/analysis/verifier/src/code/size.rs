//! What the kernel counts before it looks at any path: functions, maps, kernel functions and slots of a program.
//!
//! A program beyond one of these limits is refused before it is laid out, which costs time and memory for each function
//! that it reaches.

use std::collections::BTreeSet;

use kiln_isa::Insn;
use kiln_platform::Profile;
use kiln_platform::limits::{MAX_FUNCTIONS, MAX_KFUNCS, MAX_MAPS};
use kiln_program::{ExternId, ExternKind, FunctionId, MapId, Node, Object, Program, Reference};

use crate::reason::Reason;
use crate::rejection::{Cause, Rejection};

/// What a program has had so far.
struct Size<'a> {
    object: &'a Object,
    program: &'a Program,
    /// Functions in the order in which they were found; the first is the program's own.
    functions: Vec<FunctionId>,
    found: BTreeSet<FunctionId>,
    maps: BTreeSet<MapId>,
    kfuncs: BTreeSet<ExternId>,
    slots: usize,
    /// Slots that the kernel takes.
    most_slots: usize,
}

/// Returns a rejection if a program has more of something than the kernel takes.
pub(crate) fn too_large(object: &Object, program: &Program, profile: &Profile) -> Option<Rejection> {
    let mut size = Size {
        object,
        program,
        functions: vec![program.entry],
        found: BTreeSet::from([program.entry]),
        maps: BTreeSet::new(),
        kfuncs: BTreeSet::new(),
        slots: 0,
        most_slots: profile.limits().slots,
    };
    let mut next = 0;
    while let Some(id) = size.functions.get(next).copied() {
        let nodes = object.functions.get(id.index()).map_or(&[][..], |function| &function.nodes);
        for (at, node) in nodes.iter().enumerate() {
            if let Some((message, kernel_message)) = size.add(node) {
                return Some(size.rejection(id, at, node, message, kernel_message));
            }
        }
        next += 1;
    }
    None
}

impl Size<'_> {
    /// Counts an instruction. Returns what is wrong, and what the kernel says of it, if that is one too many.
    fn add(&mut self, node: &Node) -> Option<(String, Option<String>)> {
        self.slots += node.insn.slots() as usize;
        if self.slots > self.most_slots {
            // `bpf(2)` fails with E2BIG before there is a log.
            return Some((format!("the program has more than {} slots", self.most_slots), None));
        }
        match (node.insn, node.reference) {
            (_, Reference::Function(callee)) if self.found.insert(callee) => self.functions.push(callee),
            (_, Reference::Map(map) | Reference::MapValue { map, .. }) => {
                self.maps.insert(map);
            }
            (insn, Reference::Extern(id)) => match self.object.externs[id.index()].kind {
                ExternKind::Kconfig { map, .. } => {
                    self.maps.insert(map);
                }
                ExternKind::Kfunc if matches!(insn, Insn::Call(_)) => {
                    self.kfuncs.insert(id);
                }
                _ => {}
            },
            _ => {}
        }
        if self.functions.len() > MAX_FUNCTIONS {
            let message = format!("the program has more than {MAX_FUNCTIONS} functions, itself included");
            return Some((message, Some("too many subprograms".to_owned())));
        }
        if self.maps.len() > MAX_MAPS {
            let words = format!("The total number of maps per program has reached the limit of {MAX_MAPS}");
            return Some((format!("the program uses more than {MAX_MAPS} maps"), Some(words)));
        }
        (self.kfuncs.len() > MAX_KFUNCS).then(|| {
            let message = format!("the program calls more than {MAX_KFUNCS} kernel functions");
            (message, Some("too many different kernel function calls".to_owned()))
        })
    }

    fn rejection(
        &self,
        function: FunctionId,
        at: usize,
        node: &Node,
        message: String,
        kernel_message: Option<String>,
    ) -> Rejection {
        Rejection {
            program: self.program.name.clone(),
            insn: node.id,
            position: (self.object.function(function).name.clone(), at),
            listing: node.insn.to_string(),
            line: self.object.line(node).cloned(),
            reason: Reason::TooLarge,
            message,
            kernel_message,
            story: Vec::new(),
            help: Reason::TooLarge.fix().to_owned(),
            wanted: crate::rejection::Wanted::default(),
            cause: Cause::default(),
        }
    }
}
