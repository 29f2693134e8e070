//! The way that a path came, for a kernel that loses it.
//!
//! Linux 6.18.44, 7.0 and 7.1 walk from the caller straight to a packet load that failed in a static function, and takes the function's
//! instructions for the caller's:
//!
//! ```text
//!   main:  r8 = 4              <- never reached: 5 is taken for the call that began the function
//!   5      call load               and r8 is not one of its arguments: "static subprog unexpected regs"
//!   6      r2 += r8            r8 of main must be precise; from 6 the walk goes to 12
//!   load:
//!   11     r6 = r1             a write of r8 here would end the walk: it is taken for main's r8
//!   12     r0 = skb[12]        fails: the function returns 0 to 6
//! ```
//!
//! [`Trail::way_back`] does this walk when the load fails, for each number that the caller kept, and gives the number an
//! origin that says where the walk ends: at an instruction of the function (0), at a packet load ([`EVERYTHING`]), or at
//! the call ([`LOST`]). Kept states that are passed may end the walk, so they are on the way to it
//! ([`Origins::detour`](super::precision::Origins::detour)).

use std::collections::HashMap;

use kiln_isa::{AluOp, AtomicOp, CallTarget, Insn, Reg, RegSet, Source};

use super::precision::{EVERYTHING, LOST, Origin, Origins};
use crate::code::{Code, Position};
use crate::state::{Byte, Frame, Kind, Register, State};

/// Instructions between two kept states, after which a number counts as lost.
const MAX_WALK: usize = 1 << 14;
/// Kept states that a walk may come past before a number counts as lost.
const MAX_PASSED: usize = 256;

/// An instruction that was carried out.
#[derive(Clone, Copy, Debug)]
struct Footstep {
    /// The one before, 0 for none.
    before: u32,
    at: Position,
    /// The frame that it was carried out in.
    depth: u8,
    /// The frame and slot that it spilled a register to, or read one back from.
    slot: Option<(u8, u8)>,
    /// The last state kept before it.
    kept: u32,
}

/// What was carried out on all paths, where some path may need it.
pub(crate) struct Trail {
    steps: Vec<Footstep>,
    /// Frames of kept states: their numbers are cells.
    kept: HashMap<u32, Vec<Frame>>,
}

/// A place whose number is looked for: a register or a slot of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Place {
    Register(usize, Reg),
    Slot(usize, usize),
}

/// What is looked for on a walk, and in which frame the kernel believes to be.
struct Walk {
    frame: usize,
    registers: Vec<RegSet>,
    slots: Vec<u64>,
}

/// What an instruction does to a walk.
enum Found {
    GoOn,
    End(Origin),
}

impl Trail {
    pub(crate) fn new() -> Trail {
        let none = Footstep { before: 0, at: 0, depth: 0, slot: None, kept: 0 };
        Trail { steps: vec![none], kept: HashMap::new() }
    }

    /// Notes that a path carries out the instruction at `at`.
    pub(crate) fn step(&mut self, state: &mut State, at: Position) {
        let depth = (state.frames.len() - 1) as u8;
        let step = Footstep { before: state.trail, at, depth, slot: None, kept: state.parent };
        if self.steps[state.trail as usize].kept != state.parent {
            self.kept.entry(state.parent).or_insert_with(|| state.frames.to_vec());
        }
        self.steps.push(step);
        state.trail = (self.steps.len() - 1) as u32;
    }

    /// Notes that a path's last instruction spilled a register or read one back.
    pub(crate) fn access(&mut self, state: &State, frame: usize, slot: usize) {
        self.steps[state.trail as usize].slot = Some((frame as u8, slot as u8));
    }

    /// Bytes that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        let frames: usize = self.kept.values().map(Vec::len).sum();
        self.steps.len() * size_of::<Footstep>() + frames * size_of::<Frame>()
    }

    /// Gives the numbers of a state the origins that the kernel finds for them after the packet load at the end of `trail`
    /// failed. The state's last frame is the caller's.
    pub(crate) fn lead_back(&self, origins: &mut Origins, code: &Code<'_>, trail: u32, state: &mut State) {
        let mut search = Search { trail: self, origins, code, known: HashMap::new(), passed: 0 };
        let caller = state.frames.len() - 1;
        for (depth, frame) in state.frames.iter_mut().enumerate() {
            for reg in Reg::all().skip(1).take(9) {
                let register = &mut frame.registers[reg.index()];
                if register.kind() == Kind::Scalar {
                    register.origin = search.way_back(trail, caller, Place::Register(depth, reg));
                }
            }
            for index in 0..frame.stack.slots().len() {
                if is_spilled_number(frame, index) {
                    let origin = search.way_back(trail, caller, Place::Slot(depth, index));
                    frame.stack.slot_mut(index).register.origin = origin;
                }
            }
        }
    }
}

/// The search for the origins of all numbers of one state.
struct Search<'a> {
    trail: &'a Trail,
    origins: &'a mut Origins,
    code: &'a Code<'a>,
    known: HashMap<(u32, usize, Place), Origin>,
    /// Kept states that the current walk came past.
    passed: usize,
}

impl Search<'_> {
    /// Returns the origin of a place's number, looked for from the end of a trail backwards, in the frame `frame`.
    fn way_back(&mut self, trail: u32, frame: usize, place: Place) -> Origin {
        if let Some(origin) = self.known.get(&(trail, frame, place)) {
            return *origin;
        }
        self.passed += 1;
        let origin = if self.passed > MAX_PASSED { LOST } else { self.walk(trail, frame, place) };
        self.passed -= 1;
        self.known.insert((trail, frame, place), origin);
        origin
    }

    fn walk(&mut self, trail: u32, frame: usize, place: Place) -> Origin {
        let mut walk = Walk::new(frame, place);
        let (mut at, mut after) = (trail, None);
        for _ in 0..MAX_WALK {
            let step = self.trail.steps[at as usize];
            if at == 0 {
                return LOST;
            }
            match walk.pass(self.code, &step, after) {
                Found::End(origin) => return origin,
                Found::GoOn if walk.is_empty() => return 0,
                Found::GoOn => {}
            }
            let before = self.trail.steps[step.before as usize];
            if before.kept != step.kept
                && let Some(frames) = self.trail.kept.get(&step.kept)
            {
                return self.pass_kept(frames, step.before, &walk);
            }
            (at, after) = (step.before, Some(step));
        }
        LOST
    }

    /// Goes on before a kept state, with what is a number there and does not matter yet.
    fn pass_kept(&mut self, frames: &[Frame], trail: u32, walk: &Walk) -> Origin {
        let mut all = 0;
        for place in walk.places() {
            let Some(cell) = place.number(frames).map(|number| number.origin) else { continue };
            let further = self.way_back(trail, walk.frame, place);
            let found = self.origins.detour(cell, further);
            all = self.origins.join(all, found);
        }
        all
    }
}

impl Place {
    /// The number that it holds, which only a register of the caller's own or a spilled register is.
    fn number(self, frames: &[Frame]) -> Option<&Register> {
        match self {
            Place::Register(frame, reg) => {
                Some(&frames.get(frame)?.registers[reg.index()]).filter(|register| register.kind() == Kind::Scalar)
            }
            Place::Slot(frame, index) => {
                let frame = frames.get(frame).filter(|frame| is_spilled_number(frame, index))?;
                Some(&frame.stack.slot(index).register)
            }
        }
    }
}

fn is_spilled_number(frame: &Frame, index: usize) -> bool {
    let slot = frame.stack.slot(index);
    slot.bytes[0] == Byte::Spill && slot.register.kind() == Kind::Scalar
}

impl Walk {
    fn new(frame: usize, place: Place) -> Walk {
        let mut walk = Walk { frame, registers: Vec::new(), slots: Vec::new() };
        match place {
            Place::Register(of, reg) => walk.look_for(of, reg),
            Place::Slot(of, index) => walk.look_for_slot(of, index),
        }
        walk
    }

    fn reach(&mut self, frame: usize) {
        if self.registers.len() <= frame {
            self.registers.resize(frame + 1, RegSet::EMPTY);
            self.slots.resize(frame + 1, 0);
        }
    }

    fn look_for(&mut self, frame: usize, reg: Reg) {
        self.reach(frame);
        if reg != Reg::R10 {
            self.registers[frame].insert(reg);
        }
    }

    fn look_for_slot(&mut self, frame: usize, index: usize) {
        self.reach(frame);
        self.slots[frame] |= 1 << index;
    }

    /// The registers that are looked for in the frame that it believes to be in.
    fn here(&self) -> RegSet {
        self.registers.get(self.frame).copied().unwrap_or(RegSet::EMPTY)
    }

    /// Whether the register is looked for; it is not any more.
    fn take(&mut self, reg: Reg) -> bool {
        let found = self.here().contains(reg);
        if found {
            self.registers[self.frame].remove(reg);
        }
        found
    }

    fn take_slot(&mut self, (frame, index): (u8, u8)) -> bool {
        let Some(slots) = self.slots.get_mut(usize::from(frame)) else { return false };
        let found = *slots >> index & 1 != 0;
        *slots &= !(1 << index);
        found
    }

    /// Frames above the one that it believes to be in do not count.
    fn is_empty(&self) -> bool {
        let counted = self.registers.iter().zip(&self.slots).take(self.frame + 1);
        counted.into_iter().all(|(registers, slots)| registers.is_empty() && *slots == 0)
    }

    fn places(&self) -> Vec<Place> {
        let frames = self.registers.iter().zip(&self.slots).enumerate().take(self.frame + 1);
        let of = |(frame, (registers, slots)): (usize, (&RegSet, &u64))| {
            let slots = *slots;
            let registers = registers.iter().map(move |reg| Place::Register(frame, reg));
            registers.chain((0..64).filter(move |at| slots >> at & 1 != 0).map(move |at| Place::Slot(frame, at)))
        };
        frames.flat_map(of).collect()
    }

    /// Goes back over an instruction, as the kernel's `backtrack_insn` does. `after`: the one that was carried out next.
    fn pass(&mut self, code: &Code<'_>, step: &Footstep, after: Option<Footstep>) -> Found {
        match code.op(step.at).node.insn {
            Insn::Alu { op: AluOp::Mov, dst, src, .. } => self.replace(dst, register_of(src)),
            Insn::MoveSignExtend { dst, src, .. } | Insn::AddressSpaceCast { dst, src, .. } => {
                self.replace(dst, Some(src))
            }
            Insn::LoadImm64 { dst, .. } => self.replace(dst, None),
            Insn::Alu { dst, src: Source::Reg(src), .. } if self.here().contains(dst) => self.look_for(self.frame, src),
            Insn::Load { dst, .. } | Insn::LoadAcquire { dst, .. } => self.read_back(dst, step),
            Insn::Atomic { op, fetch: true, src, .. } => {
                self.read_back(if op == AtomicOp::CompareExchange { Reg::R0 } else { src }, step);
            }
            Insn::Store { address, src, .. } => return self.stored(address.base, register_of(src), step),
            Insn::StoreRelease { address, src, .. } | Insn::Atomic { address, src, .. } => {
                return self.stored(address.base, Some(src), step);
            }
            Insn::Branch { dst, src: Source::Reg(src), .. } => {
                if self.here().contains(dst) || self.here().contains(src) {
                    self.look_for(self.frame, dst);
                    self.look_for(self.frame, src);
                }
            }
            Insn::LoadPacket { .. } if self.here().contains(Reg::R0) => return Found::End(EVERYTHING),
            Insn::Call(target) => return self.call(target, step, after),
            Insn::Exit => return self.exit(),
            _ => {}
        }
        Found::GoOn
    }

    /// The register was copied from another, or set.
    fn replace(&mut self, dst: Reg, src: Option<Reg>) {
        if self.take(dst)
            && let Some(src) = src
        {
            self.look_for(self.frame, src);
        }
    }

    /// The register was read back from a slot, or holds what other memory held.
    fn read_back(&mut self, dst: Reg, step: &Footstep) {
        if self.take(dst)
            && let Some((frame, index)) = step.slot
        {
            self.look_for_slot(usize::from(frame), usize::from(index));
        }
    }

    fn stored(&mut self, base: Reg, src: Option<Reg>, step: &Footstep) -> Found {
        if self.here().contains(base) {
            return Found::End(EVERYTHING);
        }
        if step.slot.is_some_and(|slot| self.take_slot(slot))
            && let Some(src) = src
        {
            self.look_for(self.frame, src);
        }
        Found::GoOn
    }

    fn call(&mut self, target: CallTarget, step: &Footstep, after: Option<Footstep>) -> Found {
        let arguments = RegSet::arguments(5);
        let entered = after.is_some_and(|after| after.depth > step.depth);
        if !entered {
            self.take(Reg::R0);
            return if self.here().intersection(arguments).is_empty() { Found::GoOn } else { Found::End(LOST) };
        }
        let called = matches!(target, CallTarget::Subprogram(_));
        let slots = self.slots.get(self.frame).copied().unwrap_or(0);
        // Nothing below frame 0 can be gone back to, and only arguments come from the caller.
        if !called || self.frame == 0 || slots != 0 || !self.here().difference(arguments).is_empty() {
            return Found::End(LOST);
        }
        let passed = std::mem::replace(&mut self.registers[self.frame], RegSet::EMPTY);
        self.frame -= 1;
        for reg in passed.iter() {
            self.look_for(self.frame, reg);
        }
        Found::GoOn
    }

    fn exit(&mut self) -> Found {
        if !self.here().intersection(RegSet::arguments(5)).is_empty() {
            return Found::End(LOST);
        }
        let result = self.take(Reg::R0);
        self.frame += 1;
        self.reach(self.frame);
        if result {
            self.look_for(self.frame, Reg::R0);
        }
        Found::GoOn
    }
}

fn register_of(source: Source) -> Option<Reg> {
    match source {
        Source::Reg(reg) => Some(reg),
        Source::Imm(_) => None,
    }
}
