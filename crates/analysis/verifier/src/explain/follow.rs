//! Following a value back along a path, to where it came from.
//!
//! ```text
//!   path           r1 here is the offender; who wrote it, and what changed what was known of it?
//!   r0 = lookup    <- from here: the result of bpf_map_lookup_elem
//!   r6 = r0        <- a copy: go on with r0
//!   *(fp-8) = r6   <- spilled: go on with r6
//!   r1 = *(fp-8)   <- read back: go on with the slot
//!   r2 = *r1
//! ```

use kiln_isa::{Address, AluOp, CallTarget, Insn, Reg, Size, Source, Width};
use kiln_program::Reference;

use super::names::{Names, number, signed_plain};
use crate::domain::Scalar;
use crate::explore::observe::Visit;
use crate::rejection::{Loss, Part, StoryStep};
use crate::state::stack::slot_of;
use crate::state::{Kind, Register, State};

/// Where a value is. Frames are counted from the outermost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Register { frame: usize, reg: Reg },
    Slot { frame: usize, index: usize },
}

/// The most steps kept for one value: a long history is cut.
const MOST_STEPS: usize = 12;

/// Follows values back.
pub(super) struct Follower<'a> {
    pub names: &'a Names<'a>,
    pub visits: &'a [Visit],
    /// Found so far: index into the path, and the step.
    pub found: Vec<(usize, StoryStep)>,
    /// Steps that are told only on lines that nothing else marks: moves by a constant, and whose address was moved.
    pub minor: Vec<(usize, StoryStep)>,
    /// Where the first value came from, as an index into the path.
    pub origin: Option<usize>,
    /// Whether what is followed is not what is rejected: its steps are told, and no edits are placed by them.
    aside: bool,
    /// Where a call took away the value that is rejected, as an index into the path.
    pub lost: Option<usize>,
    pending: Vec<(Place, usize, bool)>,
    seen: Vec<(Place, usize)>,
}

/// What one instruction says of the place.
enum Told {
    /// Nothing: look further back.
    Nothing,
    /// The value was here before.
    From(Place),
    /// It begins here.
    Origin,
}

impl<'a> Follower<'a> {
    pub(super) fn new(names: &'a Names<'a>, visits: &'a [Visit]) -> Follower<'a> {
        Follower {
            names,
            visits,
            found: Vec::new(),
            minor: Vec::new(),
            origin: None,
            aside: false,
            lost: None,
            pending: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// Follows a value that is at a place before the instruction at that index of the path. The origin is that of the
    /// value that was followed first.
    pub(super) fn follow(&mut self, place: Place, index: usize) {
        let mut first = self.seen.is_empty();
        self.pending.push((place, index, !first));
        while let Some((place, index, aside)) = self.pending.pop() {
            self.aside = aside;
            if self.seen.contains(&(place, index)) || self.seen.len() > 4 {
                continue;
            }
            self.seen.push((place, index));
            let origin = self.follow_one(place, index);
            if first {
                self.origin = origin;
            }
            first = false;
        }
    }

    fn follow_one(&mut self, start: Place, index: usize) -> Option<usize> {
        let mut place = start;
        for at in (0..index).rev() {
            let Some(after) = self.visits.get(at + 1) else { continue };
            match self.told(place, at, &self.visits[at], &after.state) {
                Told::Nothing => {}
                Told::From(before) => place = before,
                Told::Origin => return Some(at),
            }
            if self.found.len() > MOST_STEPS {
                return None;
            }
        }
        self.beginning(place, start, index);
        None
    }

    /// The start of the path was reached, from a value that was followed from `start`, at that index of the path.
    fn beginning(&mut self, place: Place, start: Place, end: usize) {
        let Some(first) = self.visits.first() else { return };
        let function = first.state.frame().function;
        match place {
            Place::Register { reg, .. } => {
                let register = first.state.register(reg);
                let index = reg.index();
                let text = match register.kind() {
                    Kind::Uninit => format!("r{index} was not written on this path before"),
                    _ => {
                        let name = self.names.parameter(function, index.wrapping_sub(1));
                        let name = name.map_or(String::new(), |name| format!(" `{name}`"));
                        format!("the argument{name}: {}", self.names.value(register))
                    }
                };
                let is_moved = held(&self.visits[end].state, start).is_some_and(|value| value.offset != 0);
                match register.kind() {
                    // Every program has the context, so it says something only of an address in it.
                    Kind::Context if is_moved => self.tell_minor(0, Part::Origin, text),
                    Kind::Context => {}
                    _ if reg == Reg::R10 => {}
                    _ => self.tell(0, Part::Origin, text),
                }
            }
            Place::Slot { index, .. } => {
                let text = format!("nothing was written to r10{:+} on this path", -8 * (index as i32 + 1));
                self.tell(0, Part::Origin, text);
            }
        }
    }

    pub(super) fn step(&self, at: usize, part: Part, text: String) -> StoryStep {
        StoryStep::at(self.names.code, self.visits[at].at, part, text)
    }

    fn tell(&mut self, at: usize, part: Part, text: String) {
        let step = StoryStep { aside: self.aside, ..self.step(at, part, text) };
        self.found.push((at, step));
    }

    /// Adds a minor step. Turns of a loop add it once, in the first of them.
    fn tell_minor(&mut self, at: usize, part: Part, text: String) {
        let step = StoryStep { aside: true, ..self.step(at, part, text) };
        match self.minor.iter_mut().find(|(_, known)| known.insn == step.insn && known.text == step.text) {
            Some((known, _)) => *known = at,
            None => self.minor.push((at, step)),
        }
    }

    /// A call makes the value unusable.
    fn tell_loss(&mut self, at: usize, loss: Loss, text: String) {
        let step = self.step(at, Part::Lost, text);
        self.found.push((at, StoryStep { loss: Some(loss), aside: self.aside, ..step }));
    }

    fn told(&mut self, place: Place, at: usize, visit: &Visit, after: &State) -> Told {
        let depth = visit.state.frames.len() - 1;
        let top = after.frames.len() - 1;
        let (Place::Register { frame, .. } | Place::Slot { frame, .. }) = place;
        if frame > depth {
            // The frame was made here.
            return self.entered(place, at, visit);
        }
        if frame > top {
            return Told::Nothing;
        }
        match place {
            Place::Register { reg, .. } => {
                if top < depth && frame == top {
                    // A function returned to this frame.
                    return match (reg, visit.state.frame().caller) {
                        (Reg::R0, crate::state::Caller::Call) => {
                            Told::From(Place::Register { frame: depth, reg: Reg::R0 })
                        }
                        _ => self.changed(place, at, visit, after),
                    };
                }
                let insn = self.names.code.op(visit.at).node.insn;
                if frame == depth && writes(insn, reg) {
                    return self.written(frame, reg, at, visit, after, insn);
                }
                self.changed(place, at, visit, after)
            }
            Place::Slot { index, .. } => self.slot_told(frame, index, at, visit, after),
        }
    }

    /// A function's frame was made by the instruction: its registers are arguments, or nothing.
    fn entered(&mut self, place: Place, at: usize, visit: &Visit) -> Told {
        let Place::Register { frame, reg } = place else { return self.never_written(place, at) };
        let op = self.names.code.op(visit.at);
        let index = reg.index();
        match (op.node.insn, op.callee) {
            (Insn::Call(CallTarget::Subprogram(_)), Some(callee)) if (1..=5).contains(&index) => {
                let name = self.names.parameter(callee, index - 1);
                let name = name.map_or(format!("argument {index}"), |name| format!("`{name}`"));
                let text = format!("passed to {} as {name}", self.names.code.functions[callee].name);
                self.tell(at, Part::Copy, text);
                Told::From(Place::Register { frame: frame - 1, reg })
            }
            (Insn::Call(CallTarget::Helper(_)), _) if (1..=5).contains(&index) => {
                let helper = op.helper.map_or("a helper", |helper| helper.name);
                self.tell(at, Part::Origin, format!("bpf_{helper} passes it to its callback"));
                Told::Origin
            }
            _ => self.never_written(place, at),
        }
    }

    fn never_written(&mut self, place: Place, at: usize) -> Told {
        let text = match place {
            Place::Register { reg, .. } => format!("r{} is not written in this function before", reg.index()),
            Place::Slot { .. } => "this local variable is not written before".to_owned(),
        };
        self.tell(at, Part::Origin, text);
        Told::Origin
    }

    /// The instruction writes the register.
    fn written(&mut self, frame: usize, reg: Reg, at: usize, visit: &Visit, after: &State, insn: Insn) -> Told {
        let state = &visit.state;
        let now = after.frames[frame].registers[reg.index()];
        let from = |reg: Reg| Told::From(Place::Register { frame, reg });
        match insn {
            Insn::Alu { op: AluOp::Mov, src: Source::Reg(src), width, .. } => {
                let before = *state.register(src);
                if before.is_pointer() && width == Width::W32 {
                    let text = format!("only the lower 32 bits of {} are copied: a number", self.names.value(&before));
                    self.tell(at, Part::Lost, text);
                } else {
                    self.tell_if_lost(at, &before, &now, "copied as 32 bits");
                }
                from(src)
            }
            Insn::Alu { op: AluOp::Mov, .. } | Insn::LoadImm64 { .. } => {
                let text = match self.names.code.op(visit.at).node.reference {
                    Reference::MapValue { .. } => format!("the address of {}", self.names.memory(&now, 0)),
                    _ => format!("set to {}", self.names.value(&now)),
                };
                self.tell(at, Part::Origin, text);
                Told::Origin
            }
            Insn::Alu { op, src, width, .. } => self.computed(frame, reg, at, state, &now, op, width, src),
            Insn::Neg { .. } => {
                self.tell_if_lost(at, state.register(reg), &now, "negated");
                from(reg)
            }
            Insn::AddressSpaceCast { src, .. } => from(src),
            Insn::MoveSignExtend { src, .. } => {
                self.tell_if_lost(at, state.register(src), &now, "sign-extended");
                from(src)
            }
            Insn::Endian { .. } => {
                self.tell_if_lost(at, state.register(reg), &now, "put into another byte order");
                from(reg)
            }
            Insn::Load { address, size, signed, .. } => self.loaded(frame, at, state, &now, address, size, signed),
            Insn::LoadAcquire { address, size, .. } => self.loaded(frame, at, state, &now, address, size, false),
            Insn::LoadPacket { .. } if reg == Reg::R0 => {
                self.tell(at, Part::Origin, format!("read from the packet: {}", self.names.value(&now)));
                Told::Origin
            }
            Insn::Call(_) => self.called(reg, at, visit, &now),
            _ => {
                self.tell(at, Part::Origin, format!("an atomic operation gives {}", self.names.value(&now)));
                Told::Origin
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn computed(
        &mut self,
        frame: usize,
        reg: Reg,
        at: usize,
        state: &State,
        now: &Register,
        op: AluOp,
        width: Width,
        src: Source,
    ) -> Told {
        let first = *state.register(reg);
        let second = match src {
            Source::Reg(src) => *state.register(src),
            Source::Imm(imm) => Register::constant(i64::from(imm) as u64),
        };
        let place = |reg: Reg| Place::Register { frame, reg };
        let symbol = op.row().symbol;
        if now.is_pointer() {
            let (pointer, moved_by, other) = match (first.is_pointer(), src) {
                (true, Source::Reg(src)) => (reg, &second, Some(src)),
                (false, Source::Reg(src)) => (src, &first, Some(reg)),
                (_, Source::Imm(_)) => (reg, &second, None),
            };
            if moved_by.scalar.as_constant().is_none() {
                let verb = if op == AluOp::Sub { "back" } else { "forward" };
                let range = number(&moved_by.scalar);
                self.tell(at, Part::Moved, format!("the pointer is moved {verb} by {range}"));
                if let Some(other) = other {
                    self.pending.push((place(other), at, self.aside));
                }
            } else if let Some(offset) = now.fixed_offset().filter(|_| now.kind() == Kind::Stack) {
                let text = format!("the address of a local variable, r10{offset:+}");
                self.tell_minor(at, Part::Moved, text);
            } else if let Some(by) = moved_by.scalar.as_constant().filter(|by| *by != 0) {
                let by = if op == AluOp::Sub { by.wrapping_neg() } else { by } as i64;
                let verb = if by < 0 { "back" } else { "forward" };
                let text = format!("the pointer is moved {verb} by {}", signed_plain(by).trim_start_matches('-'));
                self.tell_minor(at, Part::Moved, text);
            }
            return Told::From(place(pointer));
        }
        match (first.is_pointer(), second.is_pointer()) {
            (true, true) => {
                self.tell(at, Part::Origin, "the difference of two pointers: any number".to_owned());
                return Told::Origin;
            }
            (true, false) | (false, true) => {
                let text = format!("`{symbol}` on {} makes it a number", self.names.value(&first));
                self.tell(at, Part::Lost, text);
            }
            _ => {
                let how = if width == Width::W32 { "in 32 bits, " } else { "" };
                self.tell_if_lost(at, &first, now, &format!("{how}after `{symbol}`"));
            }
        }
        // The operand that is not constant is the one with a story.
        match src {
            Source::Reg(src) if first.scalar.as_constant().is_some() && second.scalar.as_constant().is_none() => {
                Told::From(place(src))
            }
            _ if first.scalar.as_constant().is_some() && !first.is_pointer() => {
                self.tell(at, Part::Origin, format!("computed: {}", number(&now.scalar)));
                Told::Origin
            }
            _ => Told::From(place(reg)),
        }
    }

    /// Adds a step where what was known of a number is lost.
    fn tell_if_lost(&mut self, at: usize, before: &Register, now: &Register, how: &str) {
        if before.kind() != Kind::Scalar || now.kind() != Kind::Scalar {
            return;
        }
        let (old, new) = (&before.scalar, &now.scalar);
        if old.smin >= 0 && new.smin < 0 && old.umax < u64::MAX {
            let text = format!("{how} it may be below zero: {} before, {} now", number(old), number(new));
            self.tell(at, Part::Lost, text);
        } else if is_bounded(old) && !is_bounded(new) {
            let text = format!("{how} its bound is lost: {} before, {} now", number(old), number(new));
            self.tell(at, Part::Lost, text);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn loaded(
        &mut self,
        frame: usize,
        at: usize,
        state: &State,
        now: &Register,
        address: Address,
        size: Size,
        signed: bool,
    ) -> Told {
        let base = *state.register(address.base);
        let offset = i64::from(address.offset);
        if base.kind() == Kind::Stack {
            let Some(fixed) = base.fixed_offset().map(|fixed| fixed + offset) else {
                let text = format!("read from the stack at an offset that is not constant: {}", self.names.value(now));
                self.tell(at, Part::Origin, text);
                return Told::Origin;
            };
            let owner = base.frame();
            let (index, _) = slot_of(fixed as i32);
            let held = state.frames.get(owner).map(|frame| *frame.stack.slot(index));
            let spilled = held.map_or(0, |slot| slot.spilled_bytes());
            if spilled == 0 && now.scalar.as_constant().is_none() {
                let text = format!(
                    "read from the stack, where it is kept as plain bytes and nothing is known of them: {}",
                    self.names.value(now)
                );
                self.tell(at, Part::Lost, text);
            } else if spilled != size.bytes() && spilled != 0 {
                let before = held.map_or(Register::UNKNOWN, |slot| slot.register);
                self.tell_if_lost(at, &before, now, &format!("{} of its {spilled} bytes are read:", size.bytes()));
            }
            let _ = frame;
            return Told::From(Place::Slot { frame: owner, index });
        }
        let sign = if signed { ", sign-extended" } else { "" };
        let bits = if now.is_pointer() { String::new() } else { format!(" as {} bits{sign}", size.bits()) };
        let text = format!("read from {}{bits}: {}", self.names.memory(&base, offset), self.names.value(now));
        self.tell(at, Part::Origin, text);
        Told::Origin
    }

    fn called(&mut self, reg: Reg, at: usize, visit: &Visit, now: &Register) -> Told {
        let op = self.names.code.op(visit.at);
        let callee = op.helper.map(|helper| format!("bpf_{}", helper.name));
        let callee = callee
            .or_else(|| match op.node.reference {
                Reference::Extern(id) => self.names.code.object.externs.get(id.index()).map(|it| it.name.clone()),
                _ => op.callee.map(|callee| self.names.code.functions[callee].name.to_owned()),
            })
            .unwrap_or_else(|| "the function".to_owned());
        if reg != Reg::R0 || now.kind() == Kind::Uninit {
            self.tell_loss(at, Loss::Destroyed, format!("the call of {callee} destroys r{}", reg.index()));
        } else {
            self.tell(at, Part::Origin, format!("{callee} returns {}", self.names.value(now)));
        }
        Told::Origin
    }

    /// What is known of the register changed though nothing wrote it: a branch said something, or a call took the
    /// thing away.
    fn changed(&mut self, place: Place, at: usize, visit: &Visit, after: &State) -> Told {
        let (Some(before), Some(now)) = (held(&visit.state, place), held(after, place)) else { return Told::Nothing };
        if before == now {
            return Told::Nothing;
        }
        let op = self.names.code.op(visit.at);
        match op.node.insn {
            Insn::Branch { .. } => self.learned(at, &before, &now),
            Insn::Call(_) if before.is_pointer() && !now.is_pointer() => {
                let callee = op.helper.map_or("the function".to_owned(), |helper| format!("bpf_{}", helper.name));
                if before.is_packet() {
                    let text =
                        format!("{callee} may move the packet: pointers into it from before are no longer valid");
                    self.tell_loss(at, Loss::PacketMoved, text);
                } else {
                    let text = format!("{callee} gives up {}: it may not be used after", self.names.pointee(&before));
                    self.tell_loss(at, Loss::GivenUp, text);
                }
                // Where the pointer came from before is told, too.
                self.aside = true;
                self.lost = self.lost.or(Some(at));
            }
            Insn::Call(_) if before.is_packet() && now.range < before.range => {
                self.tell(at, Part::Lost, "the call may change the packet: bounds from before are void".to_owned());
            }
            _ => {}
        }
        Told::Nothing
    }

    fn learned(&mut self, at: usize, before: &Register, now: &Register) {
        let text = if before.kind() == Kind::Scalar && now.kind() == Kind::Scalar && before.scalar != now.scalar {
            let (was, is) = (number(&before.scalar), number(&now.scalar));
            if was == is {
                return;
            }
            format!("on this path it is {is}, not {was}, from here")
        } else if before.nullable && !now.nullable && now.is_pointer() {
            "on this path it is not null from here".to_owned()
        } else if before.nullable && now.is_zero() {
            "on this path it is null: nothing may be accessed through it".to_owned()
        } else if now.range > before.range {
            format!("here {} bytes of the packet are known to be there", now.range)
        } else {
            return;
        };
        self.tell(at, Part::Bounded, text);
    }

    fn slot_told(&mut self, frame: usize, index: usize, at: usize, visit: &Visit, after: &State) -> Told {
        let (Some(before), Some(now)) = (visit.state.frames.get(frame), after.frames.get(frame)) else {
            return Told::Nothing;
        };
        let insn = self.names.code.op(visit.at).node.insn;
        if let Insn::Store { address, src, size } = insn {
            let base = visit.state.register(address.base);
            let fixed = base.fixed_offset().map(|fixed| fixed + i64::from(address.offset));
            let here = base.kind() == Kind::Stack && base.frame() == frame;
            let touches = here && fixed.is_none_or(|fixed| slot_of(fixed as i32).0 == index);
            if !touches {
                return Told::Nothing;
            }
            let source = match src {
                Source::Reg(reg) if fixed.is_some() => reg,
                _ => {
                    self.tell(at, Part::Origin, "written here".to_owned());
                    return Told::Origin;
                }
            };
            let value = *visit.state.register(source);
            if fixed.is_some_and(|fixed| fixed & 7 != 0) || size != Size::B8 && !is_low(&value.scalar, size) {
                let text = format!(
                    "stored as {} of 8 bytes: what was known ({}) is lost",
                    size.bytes(),
                    number(&value.scalar)
                );
                if is_bounded(&value.scalar) {
                    self.tell(at, Part::Lost, text);
                }
            }
            return Told::From(Place::Register { frame: visit.state.frames.len() - 1, reg: source });
        }
        let (old, new) = (before.stack.slot(index), now.stack.slot(index));
        if old.bytes == new.bytes && old.register == new.register {
            return Told::Nothing;
        }
        match insn {
            Insn::Call(_) if old.bytes != new.bytes => {
                let helper = self.names.code.op(visit.at).helper;
                let callee = helper.map_or("the function".to_owned(), |helper| format!("bpf_{}", helper.name));
                self.tell(at, Part::Origin, format!("{callee} writes it: it may be anything"));
                Told::Origin
            }
            _ => self.changed(Place::Slot { frame, index }, at, visit, after),
        }
    }
}

/// What is at a place, where it is one value.
fn held(state: &State, place: Place) -> Option<Register> {
    match place {
        Place::Register { frame, reg } => Some(state.frames.get(frame)?.registers[reg.index()]),
        Place::Slot { frame, index } => Some(state.frames.get(frame)?.stack.slot(index).register),
    }
}

fn writes(insn: Insn, reg: Reg) -> bool {
    match insn {
        Insn::Call(_) | Insn::LoadPacket { .. } => reg.index() <= 5,
        insn => insn.written() == Some(reg),
    }
}

/// Whether the number has a useful bound from above.
fn is_bounded(scalar: &Scalar) -> bool {
    scalar.smin >= 0 && scalar.umax < u64::from(u32::MAX)
}

fn is_low(scalar: &Scalar, size: Size) -> bool {
    size == Size::B8 || scalar.umax >> size.bits() == 0
}
