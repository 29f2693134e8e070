//! Where the stack of a chain of calls goes.
//!
//! ```text
//!   1: outer takes 304 bytes of stack: up to 300 of them from r10-304 on, first used here
//!   2: inner takes 304 bytes of stack: ...
//! ```
//!
//! BTF names no local variables, and DWARF is not read. So the largest local of a function is found from the code: a
//! local variable begins where the code takes an address on the stack, or below all such addresses where it accesses the
//! stack at a constant offset, and ends where the next one begins. What one source line uses is one variable.

use std::collections::{BTreeMap, HashMap};

use kiln_isa::{AluOp, Insn, Reg, Source};
use kiln_platform::limits::MAX_CALL_FRAMES;

use super::rejection;
use crate::call::function::TooDeep;
use crate::code::{Code, Position};
use crate::path::Findings;
use crate::reason::Reason;
use crate::rejection::{Part, Rejection, StoryStep};

/// A part of a frame that is used as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Local {
    /// Its lowest byte, from the frame pointer.
    lowest: i32,
    bytes: u32,
    /// The first instruction that uses it, in the order of the code.
    at: Position,
}

/// The rejection of a chain of calls, where its last function begins.
pub(crate) fn too_deep(code: &Code<'_>, deep: &TooDeep) -> Rejection {
    let plain = rejection(code, code.functions[deep.function].start, Reason::CallDepth, deep.message());
    Rejection { kernel_message: Some(deep.kernel_message()), ..plain }
}

/// The steps of the story, one for each function of the chain that takes most stack, and what helps.
pub(crate) fn told(code: &Code<'_>, findings: &Findings) -> (Vec<StoryStep>, Option<String>) {
    let chain = heaviest(code, findings, 0, 0, &mut HashMap::new()).1;
    let mut steps = Vec::new();
    let mut largest: Option<(&str, Local)> = None;
    for function in chain {
        let routine = &code.functions[function];
        let bytes = findings.noted.counted_stack_bytes(code, function);
        let local = locals(code, function).into_iter().max_by_key(|local| local.bytes);
        let (at, most) = match local.filter(|local| local.bytes < bytes) {
            Some(local) => {
                (local.at, format!(": up to {} of them from r10{:+} on, first used here", local.bytes, local.lowest))
            }
            None => (local.map_or(routine.start, |local| local.at), String::new()),
        };
        steps.push(StoryStep::at(code, at, Part::Call, format!("{} takes {bytes} bytes of stack{most}", routine.name)));
        if let Some(local) = local.filter(|local| largest.is_none_or(|(_, known)| local.bytes > known.bytes)) {
            largest = Some((routine.name, local));
        }
    }
    let help = largest.map(|(name, local)| {
        let Local { bytes, .. } = local;
        format!("move the largest local variable ({bytes} bytes, in {name}) into a per-CPU array map, or make the chain shorter")
    });
    (steps, help)
}

/// The bytes of the chain of calls below a function that takes most, and its functions.
fn heaviest(
    code: &Code<'_>,
    findings: &Findings,
    function: usize,
    depth: usize,
    known: &mut HashMap<usize, (u32, Vec<usize>)>,
) -> (u32, Vec<usize>) {
    if let Some(known) = known.get(&function) {
        return known.clone();
    }
    let mut most = (0, Vec::new());
    if depth < MAX_CALL_FRAMES {
        let routine = &code.functions[function];
        let callees = code.ops[routine.start as usize..routine.end as usize].iter().filter_map(|op| op.callee);
        for callee in callees.filter(|callee| *callee != function) {
            let below = heaviest(code, findings, callee, depth + 1, known);
            if below.0 > most.0 {
                most = below;
            }
        }
    }
    let (below, mut chain) = most;
    chain.insert(0, function);
    let own = (findings.noted.counted_stack_bytes(code, function).saturating_add(below), chain);
    known.insert(function, own.clone());
    own
}

/// The local variables of a function, lowest first.
fn locals(code: &Code<'_>, function: usize) -> Vec<Local> {
    let routine = &code.functions[function];
    let mut starts: BTreeMap<i32, Position> = BTreeMap::new();
    let mut direct: BTreeMap<i32, Position> = BTreeMap::new();
    let mut copies = [false; Reg::COUNT];
    for at in routine.start..routine.end {
        let op = code.op(at);
        let insn = op.node.insn;
        let (taken, accessed) = match insn {
            Insn::Alu { op: AluOp::Add, dst, src: Source::Imm(offset), .. } if copies[dst.index()] => {
                (Some(offset), None)
            }
            _ => (None, insn.address().filter(|address| address.base == Reg::R10)),
        };
        if let Some(lowest) = taken.filter(|lowest| *lowest < 0) {
            starts.entry(lowest).or_insert(at);
        }
        if let Some(address) = accessed {
            direct.entry(i32::from(address.offset)).or_insert(at);
        }
        if let Some(written) = insn.written() {
            let copied = matches!(insn, Insn::Alu { op: AluOp::Mov, src: Source::Reg(Reg::R10), .. });
            copies[written.index()] = copied;
        }
    }
    let lowest_address = starts.keys().next().copied().unwrap_or(0);
    starts.extend(direct.into_iter().filter(|(lowest, _)| *lowest < lowest_address));
    let line = |at: Position| code.object.line(code.op(at).node).map(|line| line.line).filter(|line| *line != 0);
    let mut found: Vec<Local> = Vec::new();
    let ends = starts.keys().skip(1).copied().chain([0]);
    for ((lowest, at), end) in starts.iter().zip(ends) {
        let bytes = (end - lowest) as u32;
        match found.last_mut().filter(|last| line(last.at).is_some() && line(last.at) == line(*at)) {
            Some(last) => last.bytes += bytes,
            None => found.push(Local { lowest: *lowest, bytes, at: *at }),
        }
    }
    found
}
