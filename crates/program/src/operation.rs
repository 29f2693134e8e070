//! Marks, which claim that instructions are a proof sequence of a native operation, and their check.
//!
//! A mark does not change the program. It names an operation, one of its proof sequences, the operands and the
//! instructions, which may be apart in one block:
//!
//! ```text
//!   r4 = r2                   * rotate_left_64 d=r3 s=r2 t=r4 k=13
//!   r5 = *(u64 *)(r1 + 0)
//!   r4 >>= 51                 *
//!   r3 = r2                   *
//!   r5 += r6                            the others are moved in front of the last one, where the operation stands:
//!   r3 <<= 13                 *         r5 = ... ; r5 += r6 ; r4 = r2 ; r4 >>= 51 ; r3 = r2 ; r3 <<= 13 ; r3 |= r4
//!   r3 |= r4                  *
//! ```
//!
//! A sequence may have branches. What follows the first of them is side by side, so that all instructions between the
//! members run whenever the first member does. Branches lead to where the region ends, or all to one place outside, to
//! which the last instruction branches, too.
//!
//! A mark is an untrusted claim by the author of the object. [`schedule`] checks all of it:
//!
//! - the operands are allowed, and the instructions are the sequence with these operands;
//! - no jump leads between them;
//! - moving them changes nothing for the other instructions, and no access to memory moves past another one;
//! - the temporaries, which native code does not write, are dead afterwards.
//!
//! An operation that is not in the registry is not an error: its proof sequence runs.

mod arrange;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;

use kiln_isa::operation::{Binding, Exit, Form, MAX_OPERANDS, Operands, Operation, Registry, Template};
use kiln_isa::{AluOp, Insn, RegSet, Source};

use crate::liveness::{Positions, live_after, read, written};
use crate::object::{Function, FunctionId, InsnId, Node, Object, Reference};

pub use arrange::arrange;

/// Maximum number of instructions from the first to the last of a mark.
pub const MAX_SPAN: usize = 64;

/// A claim that some instructions of one block are a proof sequence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The operation's name.
    pub operation: String,
    /// Which of its proof sequences.
    pub form: u8,
    /// Operands in the operation's order: register numbers and immediates.
    pub operands: Vec<i32>,
    /// The instructions, in layout order.
    pub members: Vec<InsnId>,
}

/// Why a mark is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// It names no instruction, one twice, or one that its function does not have.
    #[error("its instructions are not instructions of one function in layout order")]
    Members,
    /// Its instructions are more than the limit apart.
    #[error("its first and last instruction are more than {MAX_SPAN} instructions apart")]
    Span,
    /// The operation has no proof sequence of this number.
    #[error("the operation has no proof sequence of this number")]
    Form,
    /// A register, immediate or condition of the operation does not hold.
    #[error("its operands are not allowed")]
    Operands,
    /// The instructions are not the proof sequence.
    #[error("its instructions are not the proof sequence with these operands")]
    Sequence,
    /// Control enters or leaves the region between its instructions.
    #[error("control enters or leaves the region between its instructions")]
    Control,
    /// An instruction between them reads or writes a register that they write, or writes one that they read, or both
    /// access memory.
    #[error("an instruction between its instructions depends on them")]
    Dependence,
    /// A register that native code does not write is read afterwards.
    #[error("a temporary register is read afterwards")]
    LiveTemporary,
    /// An instruction belongs to two marks.
    #[error("an instruction belongs to another mark too")]
    Overlap,
}

/// A refused mark.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the mark of operation {operation} is refused: {refusal}")]
pub struct Refused {
    /// The mark's position in [`Object::operations`].
    pub mark: usize,
    /// The operation that it names.
    pub operation: String,
    /// Its last instruction, where it has one.
    pub insn: Option<InsnId>,
    /// Why.
    pub refusal: Refusal,
}

/// A checked mark: a run of instructions in [`Schedule::nodes`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Region {
    /// Where it begins.
    pub start: usize,
    /// Instructions.
    pub length: usize,
    /// The operation.
    pub operation: &'static Operation,
    /// The proof sequence.
    pub form: &'static Form,
    /// The operands.
    pub operands: Operands,
}

/// A function with the instructions of each checked mark side by side.
#[derive(Clone, Debug, Default)]
pub struct Schedule<'a> {
    /// The function's instructions, moved where marks ask for it: a program of equal meaning.
    pub nodes: Cow<'a, [Node]>,
    /// The marks, by the position at which they begin.
    pub regions: HashMap<usize, Region>,
}

/// Checks the marks of a function whose operations the registry knows.
///
/// # Errors
/// Returns the first mark that is refused.
pub fn schedule<'a>(object: &'a Object, function: FunctionId, registry: &Registry) -> Result<Schedule<'a>, Refused> {
    let Some(function) = object.functions.get(function.index()) else { return Ok(Schedule::default()) };
    if object.operations.is_empty() || registry.operations().next().is_none() {
        return Ok(Schedule { nodes: Cow::Borrowed(&function.nodes), regions: HashMap::new() });
    }
    let mut checker = Checker::new(function);
    let mut own: Vec<(usize, usize)> = (0..object.operations.len())
        .filter_map(|index| Some((checker.last_member(&object.operations[index])?, index)))
        .collect();
    own.sort_unstable();
    for (_, index) in own {
        let mark = &object.operations[index];
        let Some(operation) = registry.by_name(&mark.operation) else { continue };
        checker.add(operation, mark).map_err(|refusal| Refused {
            mark: index,
            operation: mark.operation.clone(),
            insn: mark.members.last().copied(),
            refusal,
        })?;
    }
    Ok(checker.finish())
}

/// Checks the marks of all functions, and that each mark is of some function.
///
/// # Errors
/// Returns the first mark that is refused.
pub fn check(object: &Object, registry: &Registry) -> Result<(), Refused> {
    let all: std::collections::HashSet<InsnId> =
        object.functions.iter().flat_map(|function| &function.nodes).map(|node| node.id).collect();
    for (index, mark) in object.operations.iter().enumerate() {
        if mark.members.last().is_none_or(|last| !all.contains(last)) {
            let (operation, insn) = (mark.operation.clone(), mark.members.last().copied());
            return Err(Refused { mark: index, operation, insn, refusal: Refusal::Members });
        }
    }
    (0..object.functions.len() as u32).try_for_each(|id| schedule(object, FunctionId(id), registry).map(|_| ()))
}

/// Checks marks one after another, in the order of their last instructions. An instruction that a mark moves stays
/// moved for the later marks, so the check sees the instructions in the same order as the JIT.
pub struct Checker<'a> {
    nodes: &'a [Node],
    positions: Positions,
    is_target: Vec<bool>,
    /// The registers that are live after each instruction, once a mark is checked.
    live_after: OnceCell<Vec<RegSet>>,
    /// The positions in their new order.
    order: Vec<usize>,
    /// The place of each position in `order`.
    place: Vec<usize>,
    taken: Vec<bool>,
    /// The registers that are known to hold zero before each instruction, once a store is looked at.
    zeros: OnceCell<Vec<RegSet>>,
    /// Regions by the position of their last instruction, which no later mark moves.
    regions: Vec<(usize, Region)>,
}

impl<'a> Checker<'a> {
    /// For a function's instructions.
    pub fn new(function: &'a Function) -> Checker<'a> {
        let nodes = &function.nodes[..];
        let positions = Positions::of(nodes);
        let mut is_target = vec![false; nodes.len()];
        let targets = nodes.iter().filter_map(Node::target).chain(function.jump_targets());
        for target in targets.filter_map(|id| positions.get(&id)) {
            is_target[target] = true;
        }
        let order: Vec<usize> = (0..nodes.len()).collect();
        let (place, taken) = (order.clone(), vec![false; nodes.len()]);
        let (live_after, zeros, regions) = (OnceCell::new(), OnceCell::new(), Vec::new());
        Checker { nodes, positions, is_target, live_after, order, place, taken, zeros, regions }
    }

    /// The position of a mark's last instruction; `None` if the mark is not of this function.
    pub fn last_member(&self, mark: &Mark) -> Option<usize> {
        self.positions.get(mark.members.last()?)
    }

    /// Whether a branch leads to a position.
    pub fn is_target(&self, at: usize) -> bool {
        self.is_target[at]
    }

    /// Whether an instruction already belongs to a mark.
    pub fn is_taken(&self, at: usize) -> bool {
        self.taken[at]
    }

    /// Whether an instruction is an instance of a template; binds operands as [`Binding::matches`] does. A store of a
    /// register that holds zero is a store of zero, too.
    pub fn matches(&self, binding: &mut Binding, template: &Template, at: usize) -> bool {
        let insn = &self.nodes[at].insn;
        match *insn {
            Insn::Store { size, address, src: Source::Reg(src) } if self.zeros()[at].contains(src) => {
                let before = *binding;
                binding.matches(template, insn) || {
                    *binding = before;
                    binding.matches(template, &Insn::Store { size, address, src: Source::Imm(0) })
                }
            }
            _ => binding.matches(template, insn),
        }
    }

    fn zeros(&self) -> &[RegSet] {
        self.zeros.get_or_init(|| zeros(self.nodes, &self.is_target))
    }

    /// Checks a mark, and moves its instructions before its last one.
    ///
    /// # Errors
    /// Returns why it is refused; the order is then unchanged.
    pub fn add(&mut self, operation: &'static Operation, mark: &Mark) -> Result<(), Refusal> {
        let positions = |id: &InsnId| self.positions.get(id).ok_or(Refusal::Members);
        let members = mark.members.iter().map(positions).collect::<Result<Vec<_>, _>>()?;
        if members.is_empty() || !members.is_sorted_by(|left, right| left < right) {
            return Err(Refusal::Members);
        }
        let form = operation.forms.get(usize::from(mark.form)).ok_or(Refusal::Form)?;
        if mark.operands.len() != operation.operands.len() || mark.operands.len() > MAX_OPERANDS {
            return Err(Refusal::Operands);
        }
        let binding = Binding::of(&mark.operands);
        let operands = binding.complete(operation, form).ok_or(Refusal::Operands)?;
        self.add_checked(operation, form, operands, &members)
    }

    fn add_checked(
        &mut self,
        operation: &'static Operation,
        form: &'static Form,
        operands: Operands,
        members: &[usize],
    ) -> Result<(), Refusal> {
        if members.iter().any(|member| self.taken[*member]) {
            return Err(Refusal::Overlap);
        }
        self.is_sequence(form, &operands, members)?;
        let (first, last) = (members[0], members[members.len() - 1]);
        let (begin, end) = (self.place[first], self.place[last]);
        if end - begin >= MAX_SPAN {
            return Err(Refusal::Span);
        }
        self.is_movable(members, begin, end)?;
        let live_after = self.live_after.get_or_init(|| live_after(self.nodes, &self.positions));
        if !live_after[last].intersection(operands.temporaries(operation, form)).is_empty() {
            return Err(Refusal::LiveTemporary);
        }
        let is_member = |at: &usize| members.binary_search(at).is_ok();
        let window = &mut self.order[begin..=end];
        window.sort_by_key(is_member);
        for (offset, at) in window.iter().enumerate() {
            self.place[*at] = begin + offset;
        }
        for member in members {
            self.taken[*member] = true;
        }
        self.regions.push((last, Region { start: 0, length: members.len(), operation, form, operands }));
        Ok(())
    }

    /// Whether the instructions are those of the form, in an order in which each reads the same values.
    fn is_sequence(&self, form: &Form, operands: &Operands, members: &[usize]) -> Result<(), Refusal> {
        if members.len() != form.code.len() {
            return Err(Refusal::Sequence);
        }
        let plain = |at: &usize| {
            let node = &self.nodes[*at];
            let is_plain = node.reference == Reference::None || matches!(node.insn, Insn::Branch { .. });
            is_plain && node.core.is_none()
        };
        if !members.iter().all(plain) {
            return Err(Refusal::Sequence);
        }
        // The member that stands for each template, in the template's order.
        let mut chosen: Vec<usize> = Vec::with_capacity(members.len());
        for template in form.code {
            let fits = |at: &&usize| {
                let mut binding = Binding::of(operands.values());
                !chosen.contains(at)
                    && self.matches(&mut binding, template, **at)
                    && self.leads_as(template, **at, members)
            };
            chosen.push(*members.iter().find(fits).ok_or(Refusal::Sequence)?);
        }
        for (index, earlier) in chosen.iter().enumerate() {
            let swapped = |later: &&usize| *later < earlier;
            for later in chosen[index + 1..].iter().filter(swapped) {
                if depends(&self.nodes[*earlier].insn, &self.nodes[*later].insn) {
                    return Err(Refusal::Sequence);
                }
            }
        }
        Ok(())
    }

    /// Whether an instruction branches to where its template does: to the end of the region, or, as the last member, out.
    fn leads_as(&self, template: &Template, at: usize, members: &[usize]) -> bool {
        let Template::Branch { to, .. } = *template else { return true };
        let last = members[members.len() - 1];
        let target = |at: usize| self.nodes[at].target().and_then(|id| self.positions.get(&id));
        match to {
            Exit::End => target(at) == Some(last + 1),
            Exit::Out => {
                let is_branch = matches!(self.nodes[last].insn, Insn::Branch { .. });
                is_branch && target(at).is_some() && target(at) == target(last)
            }
        }
    }

    /// Whether the members can go to the end of the window `begin..=end` of the order.
    fn is_movable(&self, members: &[usize], begin: usize, end: usize) -> Result<(), Refusal> {
        let (mut reads, mut writes, mut accesses) = (RegSet::EMPTY, RegSet::EMPTY, false);
        let mut branched = false;
        let moves = end - begin + 1 != members.len();
        for (index, at) in self.order[begin..=end].iter().enumerate() {
            let insn = &self.nodes[*at].insn;
            let entered = self.is_target[*at] && (index > 0 || moves);
            let is_member = members.binary_search(at).is_ok();
            // After a branch there are only members: what it skips stays skipped.
            if entered || !is_member && (insn.is_control() || branched) {
                return Err(Refusal::Control);
            }
            if is_member {
                branched |= insn.is_control();
                (reads, writes) = (reads.union(read(insn)), writes.union(written(insn)));
                accesses |= accesses_memory(insn);
            } else {
                let disturbs = !written(insn).intersection(reads.union(writes)).is_empty()
                    || !read(insn).intersection(writes).is_empty();
                // Others see the order of accesses, and which one faults.
                if disturbs || accesses && accesses_memory(insn) {
                    return Err(Refusal::Dependence);
                }
            }
        }
        Ok(())
    }

    /// The function in its new order, with the regions.
    pub fn finish(self) -> Schedule<'a> {
        let nodes = self.order.iter().map(|at| self.nodes[*at].clone()).collect::<Vec<_>>().into();
        let regions = self.regions.into_iter().map(|(last, region)| {
            let start = self.place[last] + 1 - region.length;
            (start, Region { start, ..region })
        });
        Schedule { nodes, regions: regions.collect() }
    }
}

/// The registers that are known to hold zero before each instruction, from what its block did before it.
fn zeros(nodes: &[Node], is_target: &[bool]) -> Vec<RegSet> {
    let mut known = RegSet::EMPTY;
    let mut before = Vec::with_capacity(nodes.len());
    for (node, is_target) in nodes.iter().zip(is_target) {
        if *is_target {
            known = RegSet::EMPTY;
        }
        before.push(known);
        known = known.difference(written(&node.insn));
        if let Insn::Alu { op: AluOp::Mov, dst, src: Source::Imm(0), .. } = node.insn
            && node.reference == Reference::None
            && node.core.is_none()
        {
            known.insert(dst);
        }
    }
    before
}

/// Whether two instructions must keep their order.
fn depends(left: &Insn, right: &Insn) -> bool {
    let conflict = |a: &Insn, b: &Insn| !written(a).intersection(read(b).union(written(b))).is_empty();
    let control = left.is_control() || right.is_control();
    control || conflict(left, right) || conflict(right, left) || accesses_memory(left) && accesses_memory(right)
}

/// Whether an instruction may access memory.
pub fn accesses_memory(insn: &Insn) -> bool {
    insn.address().is_some() || matches!(insn, Insn::Call(_) | Insn::LoadPacket { .. })
}
