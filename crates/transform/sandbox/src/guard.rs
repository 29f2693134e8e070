//! Guards: which accesses go to the heap, and where an address has to be cast.
//!
//! A guard is `addr_space_cast(r, 0, 1)`: whatever `r` holds, the result is an address in the heap or next to it, where
//! loads give 0 and stores are dropped. On x86-64 it is one `mov` of 32 bits.
//!
//! ```text
//!   r3 = *(u64 *)(r2 + 0)
//!   if r3 == 0 goto out           r3 as the program knows it
//!   r3 = addr_space_cast(r3)      guarded in place: from here on r3 is used as an address only
//!   r4 = *(u64 *)(r3 + 8)         no guard of its own: elided
//!   r3 += 16                      still within 32 KiB of a guarded address
//!   *(u64 *)(r3 + 0) = r4         elided
//! ```
//!
//! Two analyses decide. Backwards: may the register's present value still be used as a value (compared, stored, passed)?
//! If so, the guard goes into a free register. Forwards: has the address been guarded on every path, and how far has it moved
//! since, by constants or by numbers whose range the Facts know? Beyond [`REACH`] it needs a new guard.

use std::collections::{BTreeSet, HashMap};

use kiln_isa::{Address, AluOp, Insn, Reg, RegSet, Source, Width};
use kiln_platform::MapType;
use kiln_program::{InsnId, Node};
use kiln_verifier::Value;

use crate::error::Error;
use crate::frame::{free_register, load, store};
use crate::options::Options;
use crate::rebuild::Edit;

/// Bytes that a guarded address may move and still count as guarded. With an instruction's own offset of as much, it stays
/// within the 64 KiB of guard pages on both sides of an arena.
const REACH: i64 = 32 << 10;
/// Times that a register's range may grow at one instruction before it counts as unguarded.
const GROWTHS: u8 = 4;

/// What was inserted.
pub(crate) struct Count {
    pub accesses: usize,
    pub guards: usize,
    /// Guards of addresses that were just formed: loaded, returned, passed.
    pub new_pointers: usize,
}

/// How far a register is from a guarded address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Distance {
    /// Not guarded since it got its value.
    New,
    /// It was, and has moved too far, or was guarded on some paths only.
    Any,
    /// Within these bytes of it.
    Within(i64, i64),
}

/// What is known of registers before an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    distances: [Distance; Reg::COUNT],
    /// A register, else unused, that holds the guarded address of this one.
    copies: [Option<Reg>; Reg::COUNT],
}

/// What to do at an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    /// The address is guarded already.
    Nothing,
    /// This register holds the guarded address already.
    Use(Reg),
    /// Guard the address where it is.
    InPlace,
    /// Guard it in this register, which is free.
    Into(Reg),
    /// Guard it in a register that is in use and is saved on the stack in between.
    Borrow,
}

impl Action {
    fn guards(self) -> bool {
        !matches!(self, Action::Nothing | Action::Use(_))
    }
}

/// Inserts the guards of a function.
pub(crate) fn insert(edit: &mut Edit<'_>, points: &BTreeSet<InsnId>, options: &Options) -> Result<Count, Error> {
    let function = edit.function;
    let bases = heap_bases(edit);
    let flow =
        Flow { edit, positions: positions(&function.nodes), bases: &bases, elide: options.elide, headers: points };
    let uses = flow.later_uses();
    let actions = flow.actions(&uses);
    let mut count = Count { accesses: bases.iter().flatten().count(), guards: 0, new_pointers: 0 };
    for (at, node) in function.nodes.iter().enumerate() {
        let (Some(base), Some((action, distance))) = (bases[at], actions[at]) else { continue };
        count.guards += usize::from(action.guards());
        count.new_pointers += usize::from(action.guards() && distance == Distance::New);
        let address = place(edit, node, base, action)?;
        split_signed(edit, node, address);
    }
    Ok(count)
}

fn positions(nodes: &[Node]) -> HashMap<InsnId, usize> {
    nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect()
}

/// The address register of each heap access that is not through a pointer the author cast.
///
/// Accesses that no path reaches count as heap accesses. The kernel's verifier may explore them: where it makes a number
/// unknown in a loop and ours knows it, a branch is dead for ours only.
fn heap_bases(edit: &Edit<'_>) -> Vec<Option<Reg>> {
    let has_heap = edit.object.maps.iter().any(|map| map.map_type == MapType::Arena);
    let base = |node: &Node| {
        let address = node.insn.address()?;
        let Some(known) = edit.facts.at(node.id) else {
            return (has_heap && address.base != Reg::R10).then_some(address.base);
        };
        let value = &known.registers[address.base.index()];
        (edit.facts.in_arena(node.id) && !matches!(value, Value::Pointer(_))).then_some(address.base)
    };
    edit.function.nodes.iter().map(base).collect()
}

struct Flow<'e, 'a> {
    edit: &'e Edit<'a>,
    positions: HashMap<InsnId, usize>,
    bases: &'e [Option<Reg>],
    elide: bool,
    /// Where cancellation points use free registers.
    headers: &'e BTreeSet<InsnId>,
}

impl Flow<'_, '_> {
    fn nodes(&self) -> &[Node] {
        &self.edit.function.nodes
    }

    fn successors(&self, at: usize) -> impl Iterator<Item = usize> + use<'_> {
        let node = &self.nodes()[at];
        let falls = node.insn.falls_through() && at + 1 < self.nodes().len();
        let target = node.target().and_then(|id| self.positions.get(&id).copied());
        falls.then_some(at + 1).into_iter().chain(target)
    }

    /// Registers whose value after each instruction may be used as more than an address.
    fn later_uses(&self) -> Vec<RegSet> {
        let count = self.nodes().len();
        let mut before = vec![RegSet::EMPTY; count];
        let mut after = vec![RegSet::EMPTY; count];
        let mut changed = true;
        while changed {
            changed = false;
            for at in (0..count).rev() {
                let out = self.successors(at).fold(RegSet::EMPTY, |set, next| set.union(before[next]));
                let now = self.uses_before(at, out);
                changed |= out != after[at] || now != before[at];
                (after[at], before[at]) = (out, now);
            }
        }
        after
    }

    fn uses_before(&self, at: usize, after: RegSet) -> RegSet {
        let insn = &self.nodes()[at].insn;
        let mut before = after;
        match *insn {
            Insn::Alu { op: AluOp::Mov, width: Width::W64, dst, src: Source::Reg(src) } => {
                before.remove(dst);
                if after.contains(dst) {
                    before.insert(src);
                }
                return before;
            }
            Insn::Alu { op: AluOp::Add | AluOp::Sub, width: Width::W64, src, .. } => {
                if let Source::Reg(src) = src {
                    before.insert(src);
                }
                return before;
            }
            Insn::Call(_) => {
                let before = after.difference(RegSet::CALLER_SAVED);
                return before.union(RegSet::arguments(5));
            }
            _ => {}
        }
        if let Some(dst) = insn.written() {
            before.remove(dst);
        }
        let mut read = insn.read();
        if let (Some(base), false) = (self.bases[at], self.uses_base_as_value(at)) {
            read.remove(base);
        }
        before.union(read)
    }

    /// Whether an access also uses its address register as an operand.
    fn uses_base_as_value(&self, at: usize) -> bool {
        let Some(base) = self.bases[at] else { return false };
        uses_as_operand(&self.nodes()[at].insn, base)
    }

    /// What to do at each access that is reached, and how far its address was from a guarded one.
    fn actions(&self, uses: &[RegSet]) -> Vec<Option<(Action, Distance)>> {
        let count = self.nodes().len();
        let mut states: Vec<Option<State>> = vec![None; count];
        let mut growths = vec![0u8; count];
        let mut pending = Vec::new();
        if count > 0 {
            states[0] = Some(State { distances: [Distance::New; Reg::COUNT], copies: [None; Reg::COUNT] });
            pending.push(0);
        }
        while let Some(at) = pending.pop() {
            let Some(state) = states[at] else { continue };
            let after = self.after(at, state, uses[at]);
            for next in self.successors(at) {
                let merged = states[next].map_or(after, |known| joined(&known, &after, growths[next] >= GROWTHS));
                if states[next] != Some(merged) {
                    growths[next] = growths[next].saturating_add(u8::from(states[next].is_some()));
                    states[next] = Some(merged);
                    pending.push(next);
                }
            }
        }
        let action = |at: usize| {
            let (state, base) = (self.arrived(at, states[at]?), self.bases[at]?);
            Some((self.action(at, &state, uses[at])?, state.distances[base.index()]))
        };
        (0..count).map(action).collect()
    }

    /// The state behind the cancellation point of an instruction, if it has one.
    fn arrived(&self, at: usize, mut state: State) -> State {
        if self.headers.contains(&self.nodes()[at].id) {
            state.copies = [None; Reg::COUNT];
        }
        state
    }

    fn action(&self, at: usize, state: &State, later: RegSet) -> Option<Action> {
        let base = self.bases[at]?;
        let node = &self.nodes()[at];
        if self.elide {
            if matches!(state.distances[base.index()], Distance::Within(..)) {
                return Some(Action::Nothing);
            }
            if let Some(copy) = state.copies[base.index()] {
                return Some(Action::Use(copy));
            }
        }
        let overwritten = node.insn.written() == Some(base);
        if !self.uses_base_as_value(at) && (overwritten || !later.contains(base)) {
            return Some(Action::InPlace);
        }
        let mut busy = node.insn.read().union(node.insn.written().into_iter().collect());
        busy.insert(Reg::R10);
        let live = self.edit.needed_after(node.id, node.id);
        if let Some(free) = free_register(busy.union(live)) {
            return Some(Action::Into(free));
        }
        // A load's destination is free until it has loaded.
        let loads = matches!(node.insn, Insn::Load { .. } | Insn::LoadAcquire { .. });
        Some(node.insn.written().filter(|_| loads).map_or(Action::Borrow, Action::Into))
    }

    fn after(&self, at: usize, state: State, later: RegSet) -> State {
        let mut state = self.arrived(at, state);
        match (self.action(at, &state, later), self.bases[at]) {
            (Some(Action::InPlace), Some(base)) => state.distances[base.index()] = Distance::Within(0, 0),
            (Some(Action::Into(copy)), Some(base)) => {
                state.written(copy);
                state.copies[base.index()] = Some(copy);
            }
            _ => {}
        }
        match self.nodes()[at].insn {
            Insn::Alu { op: AluOp::Mov, width: Width::W64, dst, src: Source::Reg(src) } => {
                let (distance, copy) = (state.distances[src.index()], state.copies[src.index()]);
                state.written(dst);
                state.distances[dst.index()] = distance;
                state.copies[dst.index()] = copy.filter(|copy| *copy != dst);
            }
            Insn::Alu { op: op @ (AluOp::Add | AluOp::Sub), width: Width::W64, dst, src } => {
                let moved = self.moved(at, state.distances[dst.index()], op, src);
                state.written(dst);
                state.distances[dst.index()] = moved;
            }
            Insn::Call(_) => RegSet::CALLER_SAVED.iter().for_each(|reg| state.written(reg)),
            insn => insn.written().into_iter().for_each(|dst| state.written(dst)),
        }
        state
    }

    /// A distance after adding or subtracting a constant, or a value that the Facts bound.
    fn moved(&self, at: usize, from: Distance, op: AluOp, by: Source) -> Distance {
        let Distance::Within(lowest, highest) = from else { return from };
        let (least, most) = match by {
            Source::Imm(imm) => (i64::from(imm), i64::from(imm)),
            Source::Reg(reg) => {
                match self.edit.facts.at(self.nodes()[at].id).map(|known| &known.registers[reg.index()]) {
                    Some(Value::Scalar(scalar)) => (scalar.smin, scalar.smax),
                    _ => return Distance::Any,
                }
            }
        };
        let (least, most) =
            if op == AluOp::Add { (least, most) } else { (most.saturating_neg(), least.saturating_neg()) };
        within(lowest.saturating_add(least), highest.saturating_add(most))
    }
}

fn within(lowest: i64, highest: i64) -> Distance {
    if lowest >= -REACH && highest < REACH { Distance::Within(lowest, highest) } else { Distance::Any }
}

fn joined(known: &State, now: &State, settle: bool) -> State {
    let distance = |reg: usize| match (known.distances[reg], now.distances[reg]) {
        (Distance::Within(a, b), Distance::Within(c, d)) if !settle || (a <= c && d <= b) => within(a.min(c), b.max(d)),
        (Distance::New, Distance::New) => Distance::New,
        _ => Distance::Any,
    };
    let copy = |reg: usize| known.copies[reg].filter(|copy| now.copies[reg] == Some(*copy));
    State { distances: std::array::from_fn(distance), copies: std::array::from_fn(copy) }
}

impl State {
    /// The register has another value now.
    fn written(&mut self, reg: Reg) {
        self.distances[reg.index()] = Distance::New;
        self.copies[reg.index()] = None;
        for copy in &mut self.copies {
            *copy = copy.filter(|copy| *copy != reg);
        }
    }
}

/// Whether an access reads a register otherwise than as its address.
fn uses_as_operand(insn: &Insn, reg: Reg) -> bool {
    match *insn {
        Insn::Store { src, .. } => src == Source::Reg(reg),
        Insn::StoreRelease { src, .. } => src == reg,
        Insn::Atomic { op, src, .. } => src == reg || op == kiln_isa::AtomicOp::CompareExchange && reg == Reg::R0,
        _ => false,
    }
}

fn cast(dst: Reg, src: Reg) -> Insn {
    Insn::AddressSpaceCast { dst, src, to: 0, from: 1 }
}

/// Guards an access; the register that has the guarded address.
fn place(edit: &mut Edit<'_>, node: &Node, base: Reg, action: Action) -> Result<Reg, Error> {
    Ok(match action {
        Action::Nothing => base,
        Action::Use(copy) => {
            edit.replace(node.id, with_base(node.insn, copy));
            copy
        }
        Action::InPlace => {
            let guard = edit.nodes([cast(base, base)], node.line);
            edit.guard(node.id, guard);
            base
        }
        Action::Into(free) => {
            guard_in(edit, node, base, free, None);
            free
        }
        Action::Borrow => {
            let mut busy = node.insn.read().union(node.insn.written().into_iter().collect());
            busy.insert(Reg::R10);
            if edit.facts.at(node.id).is_none() {
                // A cancellation point may have destroyed it, although it is live: it is saved there only if the Facts say so.
                busy = busy.union(RegSet::CALLER_SAVED);
            }
            let none = || edit.unsupported(Some(node.id), "no register is free for a guard");
            let borrowed = free_register(busy).ok_or_else(none)?;
            edit.frame.begin_place();
            let slot = edit.shared_slot(node.id)?;
            guard_in(edit, node, base, borrowed, Some(slot));
            borrowed
        }
    })
}

fn guard_in(edit: &mut Edit<'_>, node: &Node, base: Reg, scratch: Reg, saved: Option<i16>) {
    let save = saved.map(|slot| store(Reg::R10, slot, scratch));
    let guard = edit.nodes(save.into_iter().chain([cast(scratch, base)]), node.line);
    edit.guard(node.id, guard);
    edit.replace(node.id, with_base(node.insn, scratch));
    if let Some(slot) = saved {
        let restore = edit.nodes([load(scratch, Reg::R10, slot)], node.line);
        edit.follow(node.id, restore);
    }
}

fn with_base(mut insn: Insn, base: Reg) -> Insn {
    match &mut insn {
        Insn::Load { address, .. }
        | Insn::LoadAcquire { address, .. }
        | Insn::Store { address, .. }
        | Insn::StoreRelease { address, .. }
        | Insn::Atomic { address, .. } => *address = Address { base, ..*address },
        _ => {}
    }
    insn
}

/// A sign-extending load becomes a load and a sign extension: most kernels do not sign-extend from arenas.
fn split_signed(edit: &mut Edit<'_>, node: &Node, base: Reg) {
    let Insn::Load { size, signed: true, dst, address } = node.insn else { return };
    let address = Address { base, ..address };
    edit.replace(node.id, Insn::Load { size, signed: false, dst, address });
    let extend = Insn::MoveSignExtend { width: Width::W64, from: size, dst, src: dst };
    let extend = edit.nodes([extend], node.line);
    edit.follow(node.id, extend);
}
