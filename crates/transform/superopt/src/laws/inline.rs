//! Puts static functions that are called in one place into that place.
//!
//! ```text
//!   main                      twice (static)           main
//!   r1 = r6                   *(u32 *)(r10 - 4) = w1   r1 = r6
//!   call twice         and    r0 = *(u32 *)(r10 - 4)   *(u32 *)(r10 - 12) = w1
//!   r0 += r7                  r0 <<= 1                 r0 = *(u32 *)(r10 - 12)
//!   exit                      exit                     r0 <<= 1
//!                                                      r0 += r7
//!                                                      exit
//! ```
//!
//! The call and the exit go, and what the callee saves for its caller, moves of arguments and more goes after them.
//!
//! - A call leaves R6 to R9 alone: what the callee keeps there is kept in those of them that the caller does not need
//!   afterwards, if there are enough.
//! - A callee has a stack frame of its own: its bytes come below all bytes of the caller's ([`lowest_byte`]), and both
//!   fit in 512.
//!   A callee that reads bytes of its frame before it writes them keeps it.
//! - A tail call in a function ends that function alone, classic packet loads end it, and stack traces name it: who does
//!   or takes one keeps its frame.
//!
//! For [`Goal::Size`], a function that other programs call, too, keeps its frame: the object would hold it twice.
//!
//! Global functions are verified by themselves, may be replaced at run time, and stay.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use kiln_isa::{Address, AluOp, Insn, Reg, Source, Width};
use kiln_platform::Helper;
use kiln_platform::limits::MAX_STACK_BYTES;
use kiln_program::{Block, Cfg, Function, FunctionId, InsnId, Linkage, Node, Object, Reference};
use kiln_verifier::{Facts, Region, Value};

use crate::cost::Goal;
use crate::edit;
use crate::flow::demand::{self, Demand};
use crate::laws::context::{Change, Context};

/// Bytes of a stack frame.
const FRAME_BYTES: i32 = MAX_STACK_BYTES as i32;
/// Registers that calls leave alone.
const SAVED: [Reg; 4] = [Reg::R6, Reg::R7, Reg::R8, Reg::R9];

/// The law's name.
pub const NAME: &str = "inlined-call";

/// Puts callees in place of their only calls in a function, as many as there is fuel for.
pub fn inline_calls(context: Context<'_>) -> Vec<Change> {
    let facts = context.known();
    let Context { object, id, function, calls, banned, most, goal, .. } = context;
    let sites: Vec<usize> = (0..function.nodes.len()).filter(|at| function.nodes[*at].callee().is_some()).collect();
    if sites.is_empty() || keeps_frame(function) {
        return Vec::new();
    }
    let Some(own) = lowest_byte(object, id, facts) else { return Vec::new() };
    let mut only = only_called(object, id);
    if goal == Goal::Size {
        // A function that others still call stays: the object would grow.
        let used = calls_of_all(object);
        only.retain(|callee| used.get(callee) == Some(&1));
    }
    let cfg = Cfg::new(function);
    let ends = demand::at_block_ends(function, &cfg, calls);
    let in_block =
        |(block, end): (&Block, &Demand)| demand::after_each(&function.nodes[block.range.clone()], *end, calls);
    let after: Vec<Demand> = cfg.blocks.iter().zip(&ends).flat_map(in_block).collect();
    let caller = Caller { id, function, after, own, only, facts };
    let mut inlined: Vec<(Range<usize>, Vec<Node>)> = Vec::new();
    for at in sites.into_iter().filter(|at| !banned(function.nodes[*at].id)) {
        if inlined.len() >= most {
            break;
        }
        inlined.extend(caller.body(object, at).map(|body| (at..at + 1, body)));
    }
    let change = |(range, body): &(Range<usize>, Vec<Node>)| {
        let call = &function.nodes[range.start];
        Change::at(call.id, vec![call.clone()], body.clone())
    };
    let changes = inlined.iter().map(change).collect();
    inlined.reverse();
    edit::replace_all(function, inlined);
    changes
}

/// Whether a function does something that would mean another thing in another frame.
fn keeps_frame(function: &Function) -> bool {
    function.nodes.iter().any(|node| {
        // Nothing is known of a helper that is not in the table.
        let helper = node.helper().is_some_and(|id| Helper::by_id(id).is_none_or(|helper| helper.needs_frame));
        helper || matches!(node.insn, Insn::LoadPacket { .. } | Insn::JumpIndirect { .. })
    })
}

/// Functions that are called once in every program that runs a caller, and whose address nothing has. Putting one of them
/// in place of its call does not change this for the others.
fn only_called(object: &Object, caller: FunctionId) -> BTreeSet<FunctionId> {
    let mut only: BTreeSet<FunctionId> = (0..object.functions.len() as u32).map(FunctionId).collect();
    for program in &object.programs {
        let reached = object.reachable_functions(program.entry);
        if !reached.contains(&caller) {
            continue;
        }
        let mut uses: BTreeMap<FunctionId, (usize, bool)> = BTreeMap::new();
        for node in reached.iter().flat_map(|id| &object.function(*id).nodes) {
            if let Reference::Function(callee) = node.reference {
                let (number, are_calls) = uses.entry(callee).or_insert((0, true));
                (*number, *are_calls) = (*number + 1, *are_calls && node.callee().is_some());
            }
        }
        only.retain(|id| *id != program.entry && uses.get(id) == Some(&(1, true)));
    }
    only
}

/// How often each function is referred to in all programs together.
fn calls_of_all(object: &Object) -> BTreeMap<FunctionId, usize> {
    let entries = object.programs.iter().map(|program| program.entry);
    let reached: BTreeSet<FunctionId> = entries.flat_map(|entry| object.reachable_functions(entry)).collect();
    let mut used = BTreeMap::new();
    for node in reached.iter().flat_map(|id| &object.function(*id).nodes) {
        if let Reference::Function(callee) = node.reference {
            *used.entry(callee).or_insert(0) += 1;
        }
    }
    used
}

/// A function whose calls are looked at.
struct Caller<'a> {
    id: FunctionId,
    function: &'a Function,
    /// What is read after each instruction.
    after: Vec<Demand>,
    /// The lowest byte of its frame.
    own: i32,
    /// Functions that no other call needs.
    only: BTreeSet<FunctionId>,
    facts: &'a Facts,
}

impl Caller<'_> {
    /// The callee's instructions as they stand in place of a call, if they may.
    fn body(&self, object: &mut Object, at: usize) -> Option<Vec<Node>> {
        let callee = self.function.nodes[at].callee()?;
        if callee == self.id || !self.only.contains(&callee) {
            return None;
        }
        let body = object.function(callee).clone();
        if body.linkage != Linkage::Static || keeps_frame(&body) || reads_fresh_frame(&body, self.facts) {
            return None;
        }
        let depth = lowest_byte(object, callee, self.facts)?;
        // Frames begin at multiples of eight bytes.
        let shift = self.own & !7;
        if shift + depth < -FRAME_BYTES {
            return None;
        }
        let registers = registers(&body, &self.after[at])?;
        let next = self.function.nodes.get(at + 1).map(|node| node.id)?;
        moved(object, &body, shift, &registers, next)
    }
}

/// Whether a function may read bytes of its frame that it has not written: a frame of its own holds other bytes there.
fn reads_fresh_frame(body: &Function, facts: &Facts) -> bool {
    let Some((first, known)) = body.nodes.first().and_then(|node| Some((node, facts.at(node.id)?))) else {
        return true;
    };
    let own = first.insn.address().filter(|address| address.base == Reg::R10);
    let mut live = known.stack_live_after;
    match (first.insn, own) {
        (Insn::Store { size, .. }, Some(address)) => live.remove(address.offset.into(), size.bytes()),
        (_, Some(_)) => return true,
        _ => {}
    }
    !live.is_empty()
}

/// Where the callee's R6 to R9 are kept, given what is read after the call.
fn registers(body: &Function, after: &Demand) -> Option<HashMap<Reg, Reg>> {
    let used =
        |reg: Reg| body.nodes.iter().any(|node| node.insn.written() == Some(reg) || node.insn.read().contains(reg));
    let is_free = |reg: &Reg| after.of(*reg) == 0;
    let mut map: HashMap<Reg, Reg> =
        SAVED.into_iter().filter(|reg| used(*reg) && is_free(reg)).map(|reg| (reg, reg)).collect();
    let mut free = SAVED.into_iter().filter(|reg| is_free(reg) && !used(*reg)).collect::<Vec<_>>();
    for reg in SAVED.into_iter().filter(|reg| used(*reg)) {
        if let Entry::Vacant(entry) = map.entry(reg) {
            entry.insert(free.pop()?);
        }
    }
    Some(map)
}

/// The callee's instructions as they stand in the caller.
fn moved(
    object: &mut Object,
    body: &Function,
    shift: i32,
    registers: &HashMap<Reg, Reg>,
    next: InsnId,
) -> Option<Vec<Node>> {
    let targets = edit::targets(body);
    let ids: HashMap<InsnId, InsnId> = body.nodes.iter().map(|node| (node.id, object.fresh_insn())).collect();
    let mut nodes: Vec<Node> = Vec::with_capacity(body.nodes.len());
    // A copy of the frame pointer, which is still too high: it is lowered by the addition that follows, or by a new one.
    let mut pending: Option<Reg> = None;
    for old in &body.nodes {
        let mut node = Node { id: ids[&old.id], ..old.clone() };
        if let Reference::Branch(target) = old.reference {
            node.reference = Reference::Branch(*ids.get(&target)?);
        }
        if let Some(reg) = pending.take() {
            let add = |imm| Insn::Alu { op: AluOp::Add, width: Width::W64, dst: reg, src: Source::Imm(imm) };
            match added_to(&node, reg).filter(|_| !targets.contains(&old.id)) {
                Some(imm) => node.insn = add(imm.checked_add(shift)?),
                None => {
                    let line = nodes.last().and_then(|node| node.line);
                    nodes.push(Node { line, ..object.new_node(add(shift), Reference::None) });
                }
            }
        }
        match node.insn {
            Insn::Exit => {
                node.insn = Insn::Jump { offset: 0, long: false };
                node.reference = Reference::Branch(next);
            }
            Insn::Alu { op: AluOp::Mov, width: Width::W64, dst, src: Source::Reg(Reg::R10) } if shift != 0 => {
                pending = Some(dst);
            }
            insn if shift != 0 && insn.read().contains(Reg::R10) => {
                let address = insn.address().filter(|address| address.base == Reg::R10)?;
                if node.core.is_some() || reads_besides(&insn, Reg::R10) {
                    return None;
                }
                let offset = i16::try_from(i32::from(address.offset) + shift).ok()?;
                node.insn = crate::rules::with_address(&insn, Address { base: Reg::R10, offset })?;
            }
            _ => {}
        }
        node.insn = renamed(&node.insn, &|reg| registers.get(&reg).copied().unwrap_or(reg))?;
        pending = pending.map(|reg| registers.get(&reg).copied().unwrap_or(reg));
        nodes.push(node);
    }
    Some(nodes)
}

/// The constant that an instruction adds to a register.
fn added_to(node: &Node, reg: Reg) -> Option<i32> {
    match node.insn {
        Insn::Alu { op: AluOp::Add, width: Width::W64, dst, src: Source::Imm(imm) } => {
            (dst == reg && node.core.is_none()).then_some(imm)
        }
        _ => None,
    }
}

/// Whether an access reads a register for more than its address.
fn reads_besides(insn: &Insn, reg: Reg) -> bool {
    match insn {
        Insn::Store { src, .. } => src.reg() == Some(reg),
        Insn::Atomic { src, .. } | Insn::StoreRelease { src, .. } => *src == reg,
        _ => false,
    }
}

/// An instruction with its registers renamed; calls and exits name none.
pub(crate) fn renamed(insn: &Insn, reg: &dyn Fn(Reg) -> Reg) -> Option<Insn> {
    let source = |src: Source| src.reg().map_or(src, |own| Source::Reg(reg(own)));
    let place = |address: Address| Address { base: reg(address.base), ..address };
    Some(match *insn {
        Insn::Alu { op, width, dst, src } => Insn::Alu { op, width, dst: reg(dst), src: source(src) },
        Insn::Neg { width, dst } => Insn::Neg { width, dst: reg(dst) },
        Insn::MoveSignExtend { width, from, dst, src } => {
            Insn::MoveSignExtend { width, from, dst: reg(dst), src: reg(src) }
        }
        Insn::Endian { order, size, dst } => Insn::Endian { order, size, dst: reg(dst) },
        Insn::LoadImm64 { dst, imm } => Insn::LoadImm64 { dst: reg(dst), imm },
        Insn::Load { size, signed, dst, address } => {
            Insn::Load { size, signed, dst: reg(dst), address: place(address) }
        }
        Insn::Store { size, address, src } => Insn::Store { size, address: place(address), src: source(src) },
        Insn::Atomic { op, fetch, size, address, src } => {
            Insn::Atomic { op, fetch, size, address: place(address), src: reg(src) }
        }
        Insn::LoadAcquire { size, dst, address } => Insn::LoadAcquire { size, dst: reg(dst), address: place(address) },
        Insn::StoreRelease { size, address, src } => {
            Insn::StoreRelease { size, address: place(address), src: reg(src) }
        }
        Insn::AddressSpaceCast { dst, src, to, from } => {
            Insn::AddressSpaceCast { dst: reg(dst), src: reg(src), to, from }
        }
        Insn::Branch { op, width, dst, src, offset } => {
            Insn::Branch { op, width, dst: reg(dst), src: source(src), offset }
        }
        Insn::Jump { .. } | Insn::MayGoto { .. } | Insn::Call(_) | Insn::Exit => *insn,
        Insn::LoadPacket { .. } | Insn::JumpIndirect { .. } => return None,
    })
}

/// The lowest stack byte of its own frame that a function, or who it calls, may touch, relative to the frame pointer and
/// at most zero; `None` where that is not sure.
///
/// Addresses in a frame are made of its frame pointer and constants. From there they may go up; where one may go down
/// by a number or in a way that the facts do not follow, nothing is sure.
fn lowest_byte(object: &Object, id: FunctionId, facts: &Facts) -> Option<i32> {
    let mut lowest = 0;
    for (depth, one) in object.reachable_functions(id).into_iter().enumerate() {
        let own = depth == 0;
        let nodes = &object.function(one).nodes;
        for (at, node) in nodes.iter().enumerate() {
            let known = facts.at(node.id)?;
            // A callee's own frame is not counted. Addresses of our frame that it holds count as ours.
            let ours = |region: &Region| matches!(region, Region::Stack { up } if own == (*up == 0));
            if let Some(Address { base, offset }) = node.insn.address() {
                match &known.registers[base.index()] {
                    _ if base == Reg::R10 => lowest = if own { lowest.min(i32::from(offset)) } else { lowest },
                    Value::Pointer(pointer) if ours(&pointer.region) => {
                        let start = pointer.offset.smin.checked_add(i64::from(offset))?;
                        lowest = lowest.min(i32::try_from(start).ok()?);
                    }
                    Value::Unknown if offset < 0 => return None,
                    _ => {}
                }
            }
            let Insn::Alu { op: op @ (AluOp::Add | AluOp::Sub | AluOp::And), width: Width::W64, dst, src } = node.insn
            else {
                continue;
            };
            let from_frame = at > 0 && nodes[at - 1].insn == Insn::mov(dst, Reg::R10);
            let by = match (op, src) {
                (AluOp::Add, Source::Imm(imm)) if node.core.is_none() => Some(i64::from(imm)),
                (AluOp::Sub, Source::Imm(imm)) if node.core.is_none() => Some(-i64::from(imm)),
                (AluOp::Add, Source::Reg(src)) => match &known.registers[src.index()] {
                    Value::Scalar(scalar) if scalar.smin >= 0 => Some(0),
                    _ => None,
                },
                _ => None,
            };
            match (&known.registers[dst.index()], by) {
                (_, Some(imm)) if from_frame => lowest = if own { lowest.min(imm as i32) } else { lowest },
                (Value::Scalar(_), _) => {}
                (Value::Pointer(pointer), None) if ours(&pointer.region) => return None,
                (Value::Pointer(pointer), Some(imm)) if ours(&pointer.region) => {
                    let start = pointer.offset.smin.checked_add(imm)?;
                    lowest = lowest.min(i32::try_from(start).ok()?);
                }
                (Value::Pointer(_), _) => {}
                (_, Some(imm)) if imm >= 0 => {}
                _ => return None,
            }
        }
    }
    (lowest >= -FRAME_BYTES).then_some(lowest)
}
