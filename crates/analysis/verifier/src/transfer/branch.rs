//! Branches: which outcomes are possible, and what each outcome says about registers.

use kiln_isa::{AluOp, JumpOp, Reg, RegSet, Source, Width};
use kiln_platform::Feature;
use kiln_platform::limits::MAX_PACKET_OFFSET;

use crate::code::Code;
use crate::domain::{Deduction, Scalar, Tnum, Truth, apply_as_kernel, refine, refine_as_kernel};
use crate::error::Step;
use crate::options::Options;
use crate::path::precision::Origin;
use crate::path::{Findings, Next, Path, Since};
use crate::state::{AT_END, Added, BEYOND_END, Kind, Register, State, Trust};
use crate::transfer::outcome::{decided, with_itself};
use crate::types::Types;

/// Copies of two compared numbers that the kernel notes (`LINKED_REGS_MAX`).
const MOST_LINKS: usize = 6;

impl Path<'_> {
    pub(crate) fn branch(&mut self, op: JumpOp, width: Width, dst: Reg, src: Source) -> Step<Next> {
        let target = self.code.op(self.at).target;
        let mut first = self.read(dst)?;
        let mut second = self.operand(src)?;
        self.options.check_leaking_branch(op, width, src, &first, &second)?;
        // A branch to the next instruction has two outcomes too: they say different things about its operands.
        let target = if self.code.op(self.at).node.target().is_none() { self.at + 1 } else { target };
        // Another kernel may return null where this one never does.
        let of_kernel = first.kind() == Kind::BtfId || second.kind() == Kind::BtfId;
        let halves;
        let compared = match self.options.compares_whole(op, width) {
            true => [&first, &second],
            false => {
                halves = [&first, &second].map(Options::compared);
                [&halves[0], &halves[1]]
            }
        };
        let decided = match decided(op, width, compared[0], compared[1]) {
            _ if of_kernel && self.any_load() => Truth::Unknown,
            _ if src == Source::Reg(dst)
                && first.kind() == Kind::Scalar
                && self.options.kernel_has(Feature::ComparisonsWithItself) =>
            {
                with_itself(op, width, &first.scalar)
            }
            _ if first.is_packet_pointer() && !self.options.kernel_has(Feature::PacketsBeyondEnd) => Truth::Unknown,
            _ if first.is_pointer() != second.is_pointer() && !self.options.kernel_has(Feature::OutcomesOfPointers) => {
                Truth::Unknown
            }
            _ if !first.is_pointer()
                && !second.is_pointer()
                && !self.options.may_decide(op, width, src, &first.scalar, &second.scalar) =>
            {
                Truth::Unknown
            }
            decided => decided,
        };
        match decided {
            Truth::True => {
                self.findings.decided_by(&first, &second);
                return Ok(Next::At(target));
            }
            Truth::False => {
                self.findings.decided_by(&first, &second);
                return Ok(Next::At(self.at + 1));
            }
            Truth::Unknown => {}
        }
        if [&first, &second].iter().any(|number| number.kind() == Kind::Scalar && number.id != 0) {
            self.collect_links([&first, &second]);
            (first, second) = (self.read(dst)?, self.operand(src)?);
        }
        let mut taken = self.state.clone();
        let possible_taken = self.learn(&mut taken, op, width, true, dst, src, &first, &second);
        let mut fallen = std::mem::take(&mut self.state);
        let possible_fallen = self.learn(&mut fallen, op, width, false, dst, src, &first, &second);
        match (possible_taken, possible_fallen) {
            (true, true) => {
                self.state = fallen;
                self.push(taken, target);
                Ok(Next::At(self.at + 1))
            }
            (true, false) => {
                self.findings.decided_by(&first, &second);
                self.state = taken;
                Ok(Next::At(target))
            }
            _ => {
                self.findings.decided_by(&first, &second);
                self.state = fallen;
                Ok(Next::At(self.at + 1))
            }
        }
    }

    /// Notes the copies of two numbers that are compared, all of which learn from it: as many as the kernel has room for,
    /// of those that may still be read. The others stop being copies (`collect_linked_regs`).
    fn collect_links(&mut self, [first, second]: [&Register; 2]) {
        let ids = [second, first].map(|number| if number.kind() == Kind::Scalar { number.id } else { 0 });
        let lives = |index: usize| self.code.live_in_frame(&self.state, self.at, index);
        let lives: Vec<RegSet> = (0..self.state.frames.len()).map(lives).collect();
        let copies = self.state.copies(ids, &lives);
        if copies > 1 {
            self.note_history();
        }
        if copies > MOST_LINKS && self.options.kernel_has(Feature::FewLinks) {
            self.state.cut_links(ids, &lives);
        }
    }

    /// Applies what an outcome says to a state. Returns `false` if the outcome is impossible.
    #[allow(clippy::too_many_arguments)]
    fn learn(
        &mut self,
        state: &mut State,
        op: JumpOp,
        width: Width,
        taken: bool,
        dst: Reg,
        src: Source,
        first: &Register,
        second: &Register,
    ) -> bool {
        match (first.is_pointer(), second.is_pointer()) {
            (false, false) => {
                if !self.options.learns(op, width, taken, &first.scalar, &second.scalar) {
                    self.findings.relate(state, dst, src, first.origin, second.origin);
                    return true;
                }
                let same = src == Source::Reg(dst);
                let Some((left, right)) = self.refined(op, width, taken, same, [&first.scalar, &second.scalar]) else {
                    return false;
                };
                self.findings.narrow(state, dst, first, left, second.origin);
                if let Source::Reg(src) = src {
                    self.findings.narrow(state, src, second, right, first.origin);
                }
            }
            // The kernel learns only from a comparison with the constant, and so do we: what is accepted must load.
            (true, false) if width == Width::W64 && first.nullable && src == Source::Imm(0) => {
                self.types.learn_null(self.code, state, op, taken, first);
            }
            // The zero is this path's: another path may come here with another number.
            (true, false) if width == Width::W64 && first.nullable && self.learns_from_zero(src, second) => {
                self.findings.mark_precise(second);
                self.types.learn_null(self.code, state, op, taken, first);
            }
            (true, true) if width == Width::W64 => {
                let all = self.options.kernel_has(Feature::PacketsOfCallers);
                learn_packet(state, op, taken, (dst, first), (src, second), all);
                let equal = op == JumpOp::Eq && taken || op == JumpOp::Ne && !taken;
                let equal = equal && self.options.kernel_has(Feature::PointerComparisons);
                if equal
                    && first.nullable != second.nullable
                    && first.kind() != Kind::BtfId
                    && second.kind() != Kind::BtfId
                    && is_surely_somewhere(if first.nullable { second } else { first })
                {
                    let id = if first.nullable { first.id } else { second.id };
                    self.types.set_not_null(self.code, state, id);
                }
            }
            _ => {}
        }
        true
    }

    /// Whether a comparison of a pointer with a register that holds 0 tells whether the pointer is null.
    fn learns_from_zero(&self, src: Source, second: &Register) -> bool {
        matches!(src, Source::Reg(_)) && second.is_zero() && self.options.kernel_has(Feature::ComparisonsWithZero)
    }

    /// Returns what an outcome says about two numbers; `None` if it is impossible. Only facts use that: the kernel explores
    /// impossible outcomes. `same`: both are one register.
    fn refined(
        &self,
        op: JumpOp,
        width: Width,
        taken: bool,
        same: bool,
        [first, second]: [&Scalar; 2],
    ) -> Option<(Scalar, Scalar)> {
        let (left, right) = refine_as_kernel(op, width, taken, same, self.options.deduction(), [first, second]);
        let kernel = (self.options.with_known_half(left), self.options.with_known_half(right));
        if self.options.skip_facts {
            return Some(kernel);
        }
        let exact = refine(op, width, taken, first, second);
        if exact != Some(kernel) && self.any_load() { exact } else { Some(kernel) }
    }

    pub(crate) fn may_goto(&mut self) -> Step<Next> {
        let op = self.code.op(self.at);
        let target = op.target;
        let mut again = self.state.clone();
        again.may_goto_depth += 1;
        let all = self.options.forgetful.contains(&op.node.id);
        let since = Since { site: self.at, skip_last: true, all };
        if self.options.heap && target == self.at + 1 {
            // This will become a cancellation point. The path that it leads to ends.
            self.state = again;
            return Ok(Next::Widened(target, since));
        }
        self.push_widened(again, self.at + 1, since);
        Ok(Next::At(target))
    }
}

impl Options {
    /// Whether the kernel learns from a comparison of two numbers that comes out as `taken`.
    fn learns(&self, op: JumpOp, width: Width, taken: bool, first: &Scalar, second: &Scalar) -> bool {
        if self.kernel_has(Feature::RangeComparisons) {
            return true;
        }
        let unequal = op == JumpOp::Ne && taken || op == JumpOp::Eq && !taken;
        let equality = width == Width::W64 && matches!(op, JumpOp::Eq | JumpOp::Ne);
        !unequal && (equality || first.constant_at(width).is_some() || second.constant_at(width).is_some())
    }

    /// Whether the kernel compares numbers with all that it knows of them.
    fn compares_whole(&self, op: JumpOp, width: Width) -> bool {
        let by_bits = matches!(op, JumpOp::Eq | JumpOp::Ne | JumpOp::Set);
        width == Width::W64 || by_bits || self.kernel_has(Feature::HalfRanges)
    }

    /// A number as a kernel compares it that has no ranges of lower halves: it cuts the whole number, and knows no bits.
    fn compared(side: &Register) -> Register {
        if side.kind() != Kind::Scalar {
            return *side;
        }
        let half = side.scalar.without_half();
        let tnum = if half.tnum.mask == 0 { half.tnum } else { Tnum::UNKNOWN };
        Register { scalar: Scalar { tnum, ..half }, ..*side }
    }

    /// How the kernel makes the ranges of a number narrow one another.
    pub(crate) fn deduction(&self) -> Deduction {
        Deduction { crosses: self.kernel_has(Feature::CrossedSigns), halves: self.kernel_has(Feature::HalvesNarrow) }
    }

    /// A number without what the kernel does not know of its lower half.
    pub(crate) fn with_known_half(&self, number: Scalar) -> Scalar {
        if self.kernel_has(Feature::HalfRanges) { number } else { number.without_half() }
    }

    /// Whether the kernel can know the outcome of a comparison of two numbers.
    fn may_decide(&self, op: JumpOp, width: Width, src: Source, first: &Scalar, second: &Scalar) -> bool {
        if self.kernel_has(Feature::RangeComparisons) {
            return true;
        }
        if matches!(src, Source::Reg(_)) && !self.kernel_has(Feature::OutcomesOfRegisters) {
            return false;
        }
        let (first, second) = (first.constant_at(width).is_some(), second.constant_at(width).is_some());
        if !self.kernel_has(Feature::OutcomesOfRanges) {
            return first && matches!(op, JumpOp::Eq | JumpOp::Ne);
        }
        if self.kernel_has(Feature::OutcomesByRange) {
            return first || second;
        }
        second && (first || !matches!(op, JumpOp::Eq | JumpOp::Ne))
    }
}

impl Findings {
    fn decided_by(&mut self, first: &Register, second: &Register) {
        self.mark_precise(first);
        self.mark_precise(second);
    }

    /// Two numbers were compared: if one of them matters, so does the other, whatever was learned (`backtrack_insn`).
    fn relate(&mut self, state: &mut State, dst: Reg, src: Source, first: Origin, second: Origin) {
        let Source::Reg(src) = src else { return };
        let both = self.origins.join(first, second);
        for reg in [dst, src] {
            state.frame_mut().registers[reg.index()].origin = both;
        }
    }

    /// Narrows a number and its copies. `other` is the origin of the number that it was compared with.
    fn narrow(&mut self, state: &mut State, reg: Reg, before: &Register, scalar: Scalar, other: Origin) {
        if before.id == 0 {
            let register = &mut state.frame_mut().registers[reg.index()];
            register.scalar = scalar;
            register.origin = self.origins.join(register.origin, other);
            return;
        }
        let (id, base) = (before.id, before.offset);
        // Constants added to whole numbers and to halves of them are not compared.
        let mixed = |register: &Register| {
            let added = [register.added, before.added];
            !added.contains(&Added::Nothing) && register.added != before.added
        };
        // What is known about one copy was learned through another. If one matters, all do.
        let mut origin = other;
        state.for_each_where(
            |register| register.kind() == Kind::Scalar && register.id == id,
            |register| {
                if mixed(register) {
                    return;
                }
                origin = self.origins.join(origin, register.origin);
                if register.offset == base {
                    (register.scalar, register.added) = (scalar, before.added);
                    return;
                }
                let moved = Scalar::constant((i64::from(register.offset) - i64::from(base)) as u64);
                let half = [register.added, before.added].contains(&Added::Half);
                let width = if half { Width::W32 } else { Width::W64 };
                register.scalar = apply_as_kernel(AluOp::Add, width, &scalar, &moved);
            },
        );
        state.for_each_where(
            |register| register.kind() == Kind::Scalar && register.id == id,
            |register| register.origin = origin,
        );
    }
}

impl State {
    /// Counts the live registers and the slots with a number of one of these ids, once for each id.
    fn copies(&self, ids: [u32; 2], lives: &[RegSet]) -> usize {
        let mut copies = 0;
        for (frame, live) in self.frames.iter().zip(lives) {
            let registers = live.iter().map(|reg| &frame.registers[reg.index()]);
            for number in registers.chain(frame.stack.spilled()).filter(|number| number.kind() == Kind::Scalar) {
                copies += ids.iter().filter(|id| **id != 0 && **id == number.id).count();
            }
        }
        copies
    }

    /// Leaves the first [`MOST_LINKS`] copies of numbers, from the last frame on; the others get no id.
    fn cut_links(&mut self, ids: [u32; 2], lives: &[RegSet]) {
        let mut left = MOST_LINKS;
        for id in ids.into_iter().filter(|id| *id != 0) {
            let copy = |number: &Register| number.kind() == Kind::Scalar && number.id == id;
            let mut note = |number: &mut Register| match left.checked_sub(1) {
                Some(fewer) => left = fewer,
                None => (number.id, number.offset, number.added) = (0, 0, Added::Nothing),
            };
            for (frame, live) in self.frames.iter_mut().zip(lives).rev() {
                for reg in live.iter().filter(|reg| copy(&frame.registers[reg.index()])).collect::<Vec<_>>() {
                    note(&mut frame.registers[reg.index()]);
                }
                frame.stack.for_each_spilled_where(&copy, &mut note);
            }
        }
    }
}

impl Types {
    fn learn_null(&self, code: &Code<'_>, state: &mut State, op: JumpOp, taken: bool, pointer: &Register) {
        let null = match op {
            JumpOp::Eq => taken,
            JumpOp::Ne => !taken,
            _ => return,
        };
        self.settle_null(code, state, pointer, null);
    }

    /// A pointer that may be null is null, or it is not.
    pub(crate) fn settle_null(&self, code: &Code<'_>, state: &mut State, pointer: &Register, null: bool) {
        if !null {
            self.set_not_null(code, state, pointer.id);
            return;
        }
        let (id, reference) = (pointer.id, pointer.reference);
        state.for_each_where(
            |register| register.nullable && register.id == id && register.is_pointer(),
            |register| *register = Register::constant(0),
        );
        // A null result was not acquired, so nothing has to be released.
        if reference != 0 && reference == id {
            state.references.retain(|held| held.id != reference);
        }
    }

    fn set_not_null(&self, code: &Code<'_>, state: &mut State, id: u32) {
        state.for_each_where(
            |register| register.nullable && register.id == id && register.is_pointer(),
            |register| {
                register.nullable = false;
                // Values with a lock are told apart by their ids.
                if !self.record_of(code, register).is_some_and(|record| record.has_lock()) {
                    register.id = 0;
                }
            },
        );
    }
}

/// `packet + n` compared with the packet's end, or metadata with the packet's start.
/// In all frames, or the last one only.
fn learn_packet(
    state: &mut State,
    op: JumpOp,
    taken: bool,
    left: (Reg, &Register),
    right: (Source, &Register),
    in_all: bool,
) {
    let ((dst, first), (src, second)) = (left, right);
    let is_limit = |limit: &Register, of: &Register| match of.kind() {
        Kind::Packet => limit.kind() == Kind::PacketEnd,
        Kind::PacketMeta => limit.kind() == Kind::Packet && limit.offset == 0 && limit.id == 0 && limit.is_start(),
        _ => false,
    };
    let (reg, pointer, op) = if is_limit(second, first) {
        (Some(dst), first, op)
    } else if is_limit(first, second) {
        match op.row().swapped {
            Some(swapped) => (src.reg(), second, swapped),
            None => return,
        }
    } else {
        return;
    };
    // Now it reads `pointer op limit`; inside where pointer <= limit, or pointer < limit.
    let strictly = match (op, taken) {
        (JumpOp::Gt, false) | (JumpOp::Le, true) => false,
        (JumpOp::Ge, false) | (JumpOp::Lt, true) => true,
        (JumpOp::Gt, true) | (JumpOp::Le, false) => return mark_end(state, reg, pointer, BEYOND_END),
        (JumpOp::Ge, true) | (JumpOp::Lt, false) => return mark_end(state, reg, pointer, AT_END),
        _ => return,
    };
    let Some(range) = proved_range(pointer, strictly) else { return };
    let (kind, id) = (pointer.kind(), pointer.id);
    let meant = |register: &Register| register.kind() == kind && register.id == id;
    let mut learn = |register: &mut Register| register.range = register.range.max(range as i32);
    if !in_all {
        state.frame_mut().for_each_where(&meant, &mut learn);
        return;
    }
    state.for_each_where(meant, learn);
    if kind == Kind::Packet && id == 0 {
        state.packet_bytes = state.packet_bytes.max(range);
    }
}

/// The pointer, which was compared in that register, is at the packet's end or beyond (`mark_pkt_end`). Its copies do not
/// get to know.
fn mark_end(state: &mut State, reg: Option<Reg>, pointer: &Register, range: i32) {
    if let Some(reg) = reg.filter(|_| pointer.kind() == Kind::Packet) {
        state.frame_mut().registers[reg.index()].range = range;
    }
}

/// Bytes from the pointer's variable part on that lie before the limit. `data < data_end` proves one byte, but the kernel
/// takes nothing from a comparison of a pointer without a constant offset (`find_good_pkt_pointers`).
fn proved_range(pointer: &Register, strictly: bool) -> Option<u32> {
    let offset = i64::from(pointer.offset);
    if offset <= 0 {
        return None;
    }
    let most = u64::from(MAX_PACKET_OFFSET);
    if pointer.scalar.umax > most || pointer.scalar.umax + offset as u64 > most {
        return None;
    }
    u32::try_from(offset + i64::from(strictly)).ok()
}

/// Whether a pointer that is not marked as nullable cannot be 0 either: what may fault can, and so can a pointer that was
/// moved by any distance. Kernels before 7.3 take them for pointers to something.
fn is_surely_somewhere(pointer: &Register) -> bool {
    const FAR: i64 = 1 << 29;
    let near = pointer.scalar.smin > -FAR && pointer.scalar.smax < FAR;
    near && !pointer.trust.has(Trust::UNTRUSTED)
}
