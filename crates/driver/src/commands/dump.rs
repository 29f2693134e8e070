//! `kiln dump --native`: each BPF instruction with the machine instructions that the JIT makes of it.
//!
//! ```text
//!       0: r1 = *(u32 *)(r1 + 0x0)
//!                                             0x0000  8b3f               mov edi, [rdi]
//!       1: w1 &= 0x8
//!       2: if w1 == 0x0 goto L5
//!                                             0x0002  40f6c708           test dil, 8
//!                                             0x0006  740b               je 0x13
//! ```
//!
//! Instructions that are compiled together stand together. The order is the machine code's: a marked operation's
//! instructions move to its end.

use std::collections::HashMap;
use std::fmt::{Display, Formatter};

pub use kiln_isa::operation::Arch;
use kiln_isa::operation::Registry;
use kiln_jit::{Part, Span};
use kiln_program::{FunctionId, InsnId, Object, Program};
use serde::Serialize;

use crate::disassembly::{MachineInsn, disassemble};
use crate::loading;
use kiln_inspect::dump;
use kiln_inspect::show::shown::{Shown, count};
use kiln_program::Error;

/// A program's listing with its machine code.
#[derive(Clone, Debug, Serialize)]
pub struct Listing {
    /// The BPF instructions.
    #[serde(flatten)]
    pub listing: dump::Listing,
    /// What they became.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
    /// Why there is no machine code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_native: Option<Shown>,
}

/// Machine code of a program with all its functions.
#[derive(Clone, Debug, Serialize)]
pub struct Native {
    /// The machine: `x86_64` or `aarch64`.
    pub machine: &'static str,
    /// Its bytes.
    pub bytes: usize,
    /// Its parts, in order and without gaps.
    pub spans: Vec<NativeSpan>,
}

/// Machine code with one purpose.
#[derive(Clone, Debug, Serialize)]
pub struct NativeSpan {
    /// `insns`, or `rare` for the rare case of one; `padding`, `prologue`, `epilogue`, `callback` (the entry by which
    /// helpers call a function).
    pub part: &'static str,
    /// The function, as an index into the listing's functions; none for padding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<usize>,
    /// The BPF instructions that it does, by their slots in the function.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<u32>,
    /// Where it begins.
    pub offset: usize,
    /// Its length in bytes; 0 for an instruction that needs no code, and for the beginning of a function without frame.
    pub bytes: usize,
    /// The instructions.
    pub code: Vec<MachineInsn>,
}

/// Listings of programs with their machine code as one document, each made when it is written.
pub struct Listings<'a> {
    /// With marks for the operations that the VM recognizes.
    object: Object,
    programs: &'a [&'a Program],
    options: dump::Options,
    arch: Arch,
}

impl<'a> Listings<'a> {
    /// The programs to list, and the machine that they are compiled for; none for this one.
    ///
    /// # Errors
    /// As [`dump::check_size`]; [`Error::Unsupported`] if the JIT does not have this machine.
    pub fn new(
        object: &Object,
        programs: &'a [&'a Program],
        options: dump::Options,
        arch: Option<Arch>,
    ) -> Result<Listings<'a>, Error> {
        dump::check_size(object, programs)?;
        let unsupported =
            || Error::Unsupported("the JIT does not have this machine; name one with --machine".to_owned());
        let arch = arch.or(kiln_vm::HERE).ok_or_else(unsupported)?;
        Ok(Listings { object: kiln_vm::marked(object.clone(), &Registry::BUILTIN.on(arch)), programs, options, arch })
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Listing> + '_ {
        self.programs.iter().map(|program| listing(&self.object, program, self.options.clone(), self.arch))
    }
}

impl Serialize for Listings<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

fn listing(object: &Object, program: &Program, options: dump::Options, arch: Arch) -> Listing {
    let listing = dump::listing(object, program, options);
    match native(object, program, arch) {
        Ok(native) => Listing { listing, native: Some(native), no_native: None },
        Err(error) => Listing { listing, native: None, no_native: Some(error.to_string().into()) },
    }
}

fn native(object: &Object, program: &Program, arch: Arch) -> Result<Native, Error> {
    let mut vm = loading::new_vm(object, program, kiln_vm::Options::default())?;
    vm.load(&program.name)?;
    let code = vm.machine_code(&program.name, arch)?.code;
    let places = Places::of(object, program);
    let spans = code.spans.iter().map(|span| places.span(span, &code.bytes, arch)).collect();
    Ok(Native { machine: arch.name(), bytes: code.bytes.len(), spans })
}

/// Where functions and instructions are in the listing.
struct Places {
    functions: HashMap<FunctionId, usize>,
    /// Index of the function, and slot.
    insns: HashMap<InsnId, (usize, u32)>,
}

impl Places {
    fn of(object: &Object, program: &Program) -> Places {
        let mut places = Places { functions: HashMap::new(), insns: HashMap::new() };
        for (index, id) in object.reachable_functions(program.entry).into_iter().enumerate() {
            places.functions.insert(id, index);
            let mut slot = 0;
            for node in &object.function(id).nodes {
                places.insns.insert(node.id, (index, slot));
                slot += node.insn.slots();
            }
        }
        places
    }

    fn span(&self, span: &Span, bytes: &[u8], arch: Arch) -> NativeSpan {
        let (part, function, insns) = match &span.part {
            Part::Padding => ("padding", None, &[][..]),
            Part::Prologue(id) => ("prologue", Some(*id), &[][..]),
            Part::Insns(insns) => ("insns", None, &insns[..]),
            Part::Rare(insn) => ("rare", None, std::slice::from_ref(insn)),
            Part::Epilogue(id) => ("epilogue", Some(*id), &[][..]),
            Part::Callback(id) => ("callback", Some(*id), &[][..]),
            Part::Refill => ("refill", None, &[][..]),
        };
        let at = |insn: &InsnId| self.insns.get(insn).copied();
        let of_insns = insns.first().and_then(at).map(|(function, _)| function);
        let offset = span.bytes.start;
        let code = bytes.get(span.bytes.clone()).map_or_else(Vec::new, |bytes| disassemble(arch, bytes, offset));
        NativeSpan {
            part,
            function: function.and_then(|id| self.functions.get(&id).copied()).or(of_insns),
            slots: insns.iter().filter_map(at).map(|(_, slot)| slot).collect(),
            offset,
            bytes: span.bytes.len(),
            code,
        }
    }
}

impl Display for Listing {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        let Some(native) = &self.native else {
            if let Some(why) = &self.no_native {
                writeln!(out, "; no machine code: {why}")?;
            }
            return self.listing.fmt(out);
        };
        writeln!(out, "; {} of {}", count(native.bytes, "byte"), native.machine)?;
        let mut place = String::new();
        for span in &native.spans {
            let function = span.function.and_then(|index| self.listing.functions.get(index));
            if let (Some(function), "prologue") = (function, span.part) {
                dump::write_head(out, &self.listing, function)?;
                place.clear();
            }
            let lines = function.map_or(&[][..], |function| &function.instructions);
            for slot in &span.slots {
                match lines.binary_search_by_key(slot, |line| line.slot).ok().and_then(|at| lines.get(at)) {
                    Some(_) if span.part == "rare" => writeln!(out, "; rare case of {slot}")?,
                    Some(line) => dump::write_line(out, line, &mut place)?,
                    None => {}
                }
            }
            if !matches!(span.part, "insns" | "rare") && !span.code.is_empty() {
                writeln!(out, "; {}", span.part)?;
            }
            for insn in &span.code {
                writeln!(out, "{:44}{:#06x}  {:20} {}", "", insn.offset, insn.bytes, insn.text)?;
            }
        }
        Ok(())
    }
}
