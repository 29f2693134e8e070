//! Collecting facts while exploring.
//!
//! Every visit of an instruction joins the state into what is kept for it, so the facts hold for every explored path.
//! A path that ended in a kept state was not explored further: it is covered in all that matters for safety, but a
//! number on which nothing depended may differ. Those differences are noted here and followed through the program
//! afterwards by [`super::repair`], which takes back what they make untrue.

use std::collections::HashMap;

use kiln_isa::{Insn, Reg, RegSet};
use kiln_program::MapId;

use super::{Facts, InsnFacts, KERNEL_STRUCTURE, Places, Pointer, Region, Section, StackSet, UNTRUSTED_MEMORY, Value};
use crate::code::{Code, Position};
use crate::domain::{Scalar, apply};
use crate::path::{Accesses, Written};
use crate::state::ids::{broken_links, strictly_within};
use crate::state::{Begun, Byte, Caller, Holds, Kind, Register, Slot, Stack, State, Trust};

/// Where facts no longer hold: registers and slots whose value was not covered.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Doubt {
    /// Registers, one bit each.
    pub registers: u16,
    /// Slots of the own frame, one bit each.
    pub slots: u64,
    /// Some slot of an outer frame.
    pub outer: bool,
    /// The bytes known of the packet.
    pub packet: bool,
    /// Every number: something was learned by comparing with a number in doubt.
    pub numbers: bool,
}

impl Doubt {
    pub(super) fn is_none(&self) -> bool {
        *self == Doubt::default()
    }

    pub(super) fn union(self, other: Doubt) -> Doubt {
        Doubt {
            registers: self.registers | other.registers,
            slots: self.slots | other.slots,
            outer: self.outer || other.outer,
            packet: self.packet || other.packet,
            numbers: self.numbers || other.numbers,
        }
    }
}

/// What is kept for one instruction.
pub(super) struct Visited {
    pub registers: [Register; Reg::COUNT],
    pub stack: Vec<Register>,
    last_stack: Stack,
    pub packet_bytes: u32,
    /// Where what some path holds here was acquired.
    held: Vec<(Position, Places)>,
    locks: usize,
    begun: Vec<Begun>,
    /// Another path began others.
    mixed: bool,
}

impl Visited {
    /// Joins what another path holds. A path that does not hold a reference has 0 in its places, or they are none.
    fn join_held(&mut self, state: &State) {
        if self.held.is_empty() && state.references.is_empty() {
            return;
        }
        let stack = state.frame().stack.slots().iter().map(slot_value).collect::<Vec<_>>();
        let zeros = Places::zeros(&state.frame().registers, &stack);
        for (at, known) in &mut self.held {
            if !state.references.iter().any(|held| held.at == *at) {
                *known = known.or_zero(zeros);
            }
        }
        let before = Places::zeros(&self.registers, &self.stack);
        for held in &state.references {
            let kept = places(state, held.id);
            match self.held.iter_mut().find(|(at, _)| *at == held.at) {
                Some((_, known)) => *known = known.common(kept),
                None => self.held.push((held.at, kept.or_zero(before))),
            }
        }
    }
}

impl Places {
    /// The registers and slots that hold 0.
    fn zeros(registers: &[Register], stack: &[Register]) -> Places {
        let slots = stack.iter().take(64).enumerate().filter(|(_, slot)| slot.is_zero());
        Places {
            registers: Reg::all().filter(|reg| registers[reg.index()].is_zero()).collect(),
            slots: slots.fold(0, |bits, (index, _)| bits | 1 << index),
            ..Places::default()
        }
    }

    /// Where a path keeps it, or another path has 0.
    fn or_zero(self, zeros: Places) -> Places {
        Places { nullable: true, ..self.common(zeros) }
    }
}

pub(crate) struct Recorder {
    pub(super) visited: Vec<Option<Box<Visited>>>,
    pub(super) doubts: HashMap<Position, Doubt>,
    /// Bytes of `visited`.
    visited_bytes: usize,
    /// The stack of the last visit, which is often the next one's too.
    recent: Stack,
}

impl Recorder {
    pub(crate) fn new(positions: usize) -> Recorder {
        Recorder {
            visited: (0..positions).map(|_| None).collect(),
            doubts: HashMap::new(),
            visited_bytes: 0,
            recent: Stack::default(),
        }
    }

    /// Bytes that all of it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        let place = size_of::<Option<Box<Visited>>>() + Accesses::BYTES;
        self.visited.len() * place + self.visited_bytes
    }

    pub(crate) fn visit(&mut self, at: Position, state: &State) {
        let depth = state.frames.len() - 1;
        let frame = state.frame();
        match &mut self.visited[at as usize] {
            None => {
                let mut registers = frame.registers;
                registers.iter_mut().for_each(|register| *register = relative(register, depth));
                let stack = frame.stack.slots().iter().map(|slot| relative(&slot_value(slot), depth)).collect();
                let packet_bytes = state.packet_bytes;
                let held = state.references.iter().map(|held| (held.at, places(state, held.id))).collect();
                let (last_stack, locks) = (frame.stack.clone(), state.locks.len());
                let slots = frame.stack.slots().len();
                self.visited_bytes += size_of::<Visited>() + slots * size_of::<Register>();
                if !self.recent.same(&frame.stack) {
                    self.visited_bytes += std::mem::size_of_val(frame.stack.slots());
                    self.recent = frame.stack.clone();
                }
                let begun = begun(state);
                let visited = Visited { registers, stack, last_stack, packet_bytes, held, locks, begun, mixed: false };
                self.visited[at as usize] = Some(Box::new(visited));
            }
            Some(visited) => {
                visited.join_held(state);
                for (known, now) in visited.registers.iter_mut().zip(&frame.registers) {
                    join(known, now, depth);
                }
                visited.packet_bytes = visited.packet_bytes.min(state.packet_bytes);
                visited.locks = visited.locks.max(state.locks.len());
                visited.mixed |= visited.begun.len() != state.begun.len() || visited.begun != begun(state);
                if !visited.last_stack.same(&frame.stack) {
                    visited.last_stack = frame.stack.clone();
                    let slots = frame.stack.slots();
                    visited.stack.truncate(slots.len());
                    for (known, slot) in visited.stack.iter_mut().zip(slots) {
                        if known.kind() != Kind::Mixed {
                            join(known, &slot_value(slot), depth);
                        }
                    }
                }
            }
        }
    }

    /// A path ended in a kept state; what differs there is in doubt from there on.
    pub(crate) fn pruned(&mut self, at: Position, old: &State, current: &State) {
        let top = old.frames.len() - 1;
        let broken = broken_links(old, current);
        let linked = |register: &Register| register.kind() == Kind::Scalar && broken.contains(&register.id);
        let mut doubt = Doubt { packet: current.packet_bytes < old.packet_bytes, ..Doubt::default() };
        for (index, (left, right)) in old.frames.iter().zip(&current.frames).enumerate() {
            let mut outside = Doubt::default();
            for (bit, (a, b)) in left.registers.iter().zip(&right.registers).enumerate() {
                if !strictly_within(a, b) || linked(a) {
                    outside.registers |= 1 << bit;
                }
            }
            for (slot, a) in left.stack.slots().iter().enumerate() {
                if !slot_within(a, right.stack.slot(slot)) || a.spilled_bytes() > 0 && linked(&a.register) {
                    outside.slots |= 1 << slot;
                }
            }
            if index == top {
                doubt = doubt.union(outside);
            } else {
                // Outer frames go on after the call; doubt about them begins there.
                doubt.outer |= outside.slots != 0;
                let inner = &old.frames[index + 1];
                if inner.caller != Caller::Call {
                    // A callback returns to the call, which is carried out again.
                    let entry = self.doubts.entry(inner.call_site).or_default();
                    *entry = entry.union(outside);
                }
                outside.registers &= !0x3f;
                if !outside.is_none() {
                    let entry = self.doubts.entry(inner.call_site + 1).or_default();
                    *entry = entry.union(outside);
                }
            }
        }
        if !doubt.is_none() {
            let entry = self.doubts.entry(at).or_default();
            *entry = entry.union(doubt);
        }
    }

    /// The facts of an accepted program.
    pub(crate) fn finish(mut self, accesses: &Accesses, code: &Code<'_>, names: &crate::types::Types) -> Facts {
        super::repair::repair(&mut self, accesses, code);
        let live = stack_liveness(accesses, code);
        let mut facts = Facts::default();
        for (at, visited) in std::mem::take(&mut self.visited).into_iter().enumerate() {
            let Some(visited) = visited else { continue };
            let op = &code.ops[at];
            let aliased = accesses.aliased.get(&op.function).copied().unwrap_or(StackSet::EMPTY);
            let stack = visited.stack.iter().enumerate().filter_map(|(slot, register)| {
                let value = value_of(register, names);
                let lowest = -8 * (slot as i32 + 1);
                let known = !matches!(value, Value::Unknown | Value::Uninit)
                    && !(lowest..lowest + 8).any(|byte| aliased.contains(byte));
                known.then_some((lowest as i16, value))
            });
            let live_after = code
                .successors(at as Position)
                .filter_map(|next| code.ops.get(next as usize))
                .fold(RegSet::EMPTY, |live, next| live.union(next.needed));
            let live_after = if op.node.insn == Insn::Exit { RegSet::of(&[Reg::R0]) } else { live_after };
            if !visited.held.is_empty() || !visited.begun.is_empty() || visited.mixed {
                let named = |begun: &Begun| super::Begun {
                    what: begun.what,
                    insn: code.op(begun.at).node.id,
                    flags: (begun.what == Section::Interrupts).then_some(begun.id),
                };
                let mut held = super::Held {
                    locks: visited.locks,
                    begun: visited.begun.iter().map(named).collect(),
                    mixed: visited.mixed,
                    ..super::Held::default()
                };
                visited.held.iter().for_each(|(at, places)| held.add(code.op(*at).node.id, *places));
                facts.hold(op.node.id, held);
            }
            facts.set(
                op.node.id,
                InsnFacts {
                    registers: std::array::from_fn(|reg| value_of(&visited.registers[reg], names)),
                    stack: stack.collect(),
                    packet_bytes: visited.packet_bytes,
                    live_after,
                    stack_live_after: live[at].union(&aliased),
                },
            );
        }
        facts
    }
}

/// Bytes of the own frame that may be read after each instruction: backward, to a fixpoint.
fn stack_liveness(accesses: &Accesses, code: &Code<'_>) -> Vec<StackSet> {
    let count = code.ops.len();
    let mut before = vec![StackSet::EMPTY; count];
    let mut after = vec![StackSet::EMPTY; count];
    code.backward(|at| {
        let out = code
            .successors(at as Position)
            .fold(StackSet::EMPTY, |set, next| before.get(next as usize).map_or(set, |live| set.union(live)));
        let mut live = out;
        if let Written::Always { lowest, bytes } = accesses.writes[at] {
            live.remove(lowest, bytes);
        }
        live = live.union(&accesses.reads[at]);
        after[at] = out;
        std::mem::replace(&mut before[at], live) != live
    });
    after
}

/// Where the current frame keeps a reference.
/// What has begun; instead of the flags' id, the slot of the frame with them.
fn begun(state: &State) -> Vec<Begun> {
    let slot = |id: u32| {
        let flags = |slot: &Slot| slot.object.is_some_and(|object| object.is_irq_flags() && object.id == id);
        state.frame().stack.slots().iter().position(flags).map_or(u32::MAX, |slot| slot as u32)
    };
    let named = |begun: &Begun| match begun.what {
        Section::Interrupts => Begun { id: slot(begun.id), ..*begun },
        _ => *begun,
    };
    state.begun.iter().map(named).collect()
}

fn places(state: &State, reference: u32) -> Places {
    let frame = state.frame();
    let is_of = |slot: &Slot| slot.object.is_some_and(|object| object.reference == reference && object.part == 0);
    // A pointer to an iterator's element or a dynptr's bytes carries the reference, and does not give it back.
    let on_stack = state.frames.iter().any(|frame| frame.stack.slots().iter().any(is_of));
    let holds = |register: &Register| register.reference == reference && !on_stack;
    let mut places = Places::default();
    for reg in Reg::all().filter(|reg| holds(&frame.registers[reg.index()])) {
        places.registers.insert(reg);
        places.nullable |= frame.registers[reg.index()].nullable;
    }
    for (index, slot) in frame.stack.slots().iter().enumerate().take(64) {
        if slot.spilled_bytes() == 8 && holds(&slot.register) {
            places.slots |= 1 << index;
            places.nullable |= slot.register.nullable;
        }
        if is_of(slot) {
            places.objects |= 1 << index;
        }
    }
    places
}

/// Stack pointers say how many frames up they point instead of which frame.
fn relative(register: &Register, depth: usize) -> Register {
    match register.holds {
        Holds::Stack(frame) => Register { holds: Holds::Stack((depth as u32).saturating_sub(frame)), ..*register },
        _ => *register,
    }
}

/// A slot as one value, where it is one.
fn slot_value(slot: &Slot) -> Register {
    if slot.spilled_bytes() == 8 {
        return slot.register;
    }
    if slot.bytes.iter().all(|byte| *byte == Byte::Zero) {
        return Register::constant(0);
    }
    Register { holds: Holds::Mixed, ..Register::UNINIT }
}

/// Whether all that loads could learn from the old slot holds for the current one.
fn slot_within(old: &Slot, current: &Slot) -> bool {
    let spilled = old.spilled_bytes();
    let register =
        spilled == 0 || spilled == current.spilled_bytes() && strictly_within(&old.register, &current.register);
    let zeros = old.bytes.iter().zip(&current.bytes).all(|(a, b)| *a != Byte::Zero || *b == Byte::Zero);
    register && zeros
}

fn join(known: &mut Register, now: &Register, depth: usize) {
    if known.kind() == Kind::Uninit {
        return;
    }
    if known.kind() == Kind::Scalar && now.kind() == Kind::Scalar {
        if !known.scalar.includes(&now.scalar) {
            known.scalar = known.scalar.join(&now.scalar);
        }
        return;
    }
    let now = &relative(now, depth);
    if now.kind() == Kind::Uninit {
        *known = Register::UNINIT;
        return;
    }
    if known.kind() == Kind::Mixed {
        return;
    }
    let alike = known.holds == now.holds && known.inner == now.inner;
    if alike {
        known.nullable |= now.nullable;
        known.relocated |= now.relocated;
        known.read_only |= now.read_only;
        known.trust = known.trust.with(now.trust);
        if known.offset != now.offset {
            known.scalar = total_offset(known).join(&total_offset(now));
            known.offset = 0;
        } else if !known.scalar.includes(&now.scalar) {
            known.scalar = known.scalar.join(&now.scalar);
        }
    } else if known.is_zero() && now.is_pointer() {
        *known = Register { nullable: true, ..*now };
    } else if now.is_zero() && known.is_pointer() {
        known.nullable = true;
    } else if may_be_any_address(known) && may_be_any_address(now) {
        let scalar = Scalar::of_width(64);
        *known = Register { nullable: true, scalar, ..Register::UNTRUSTED_BYTES };
    } else {
        *known = Register { holds: Holds::Mixed, ..Register::UNINIT };
    }
}

/// Whether it is a number or an address that may be any outside the program's frames.
fn may_be_any_address(register: &Register) -> bool {
    matches!(register.kind(), Kind::Scalar | Kind::BtfId) || register.is_untrusted_bytes()
}

fn total_offset(register: &Register) -> Scalar {
    let fixed = Scalar::constant(i64::from(register.offset) as u64);
    apply(kiln_isa::AluOp::Add, kiln_isa::Width::W64, &register.scalar, &fixed)
}

fn value_of(register: &Register, names: &crate::types::Types) -> Value {
    let region = match register.holds {
        Holds::Uninit => return Value::Uninit,
        Holds::Mixed => return Value::Unknown,
        Holds::Scalar => return Value::Scalar(register.scalar),
        // The offset of these is unknown, too: nothing is said that is wrong on another kernel.
        _ if register.relocated && !matches!(register.kind(), Kind::BtfId | Kind::Context) => return Value::Unknown,
        Holds::Context => Region::Context,
        Holds::Stack(up) => Region::Stack { up },
        Holds::Map(map) if !register.inner => Region::Map(MapId(map)),
        Holds::MapValue(map) if !register.inner => Region::MapValue(MapId(map)),
        Holds::Packet => Region::Packet,
        Holds::PacketMeta => Region::PacketMeta,
        Holds::PacketEnd => Region::PacketEnd,
        Holds::Structure(index) => Region::Other(format!("{KERNEL_STRUCTURE}{}", names.name(index))),
        Holds::Memory(_) if register.trust.has(Trust::UNTRUSTED) => Region::Other(UNTRUSTED_MEMORY.to_owned()),
        holds => Region::Other(holds.kind().name().to_owned()),
    };
    Value::Pointer(Pointer { region, offset: total_offset(register), nullable: register.nullable })
}
