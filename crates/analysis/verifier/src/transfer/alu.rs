//! Arithmetic: on numbers through the instruction table, on pointers by the kernel's rules.

use kiln_isa::semantics::BitVec;
use kiln_isa::{AluOp, ByteOrder, Imm64, Reg, Size, Source, Width};
use kiln_platform::limits::MAX_POINTER_OFFSET;
use kiln_platform::{Feature, MapType};
use kiln_program::{Extern, ExternKind, JumpTable, Reference};

use crate::code::Code;
use crate::domain::{
    Abstract, Scalar, apply, apply_as_kernel_where, multiply_as_older_kernel, narrowed_as_kernel, negate_as_kernel,
    reordered_as_kernel, sign_extended_as_kernel,
};
use crate::error::{Step, refuse, reject};
use crate::path::Path;
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::{Added, Holds, Kind, Register};

impl Path<'_> {
    pub(crate) fn alu(&mut self, op: AluOp, width: Width, dst: Reg, src: Source) -> Step<()> {
        if op == AluOp::Mov {
            return self.mov(width, dst, src);
        }
        let first = self.read(dst)?;
        let second = self.operand(src)?;
        let result = Arithmetic { path: self, op, width, dst }.result(src, first, second)?;
        self.write(dst, result)
    }

    /// Returns what is known about a result: what the kernel knows or, for facts, what the operation's meaning says.
    pub(crate) fn known(&self, kernel: Scalar, exact: impl FnOnce() -> Scalar) -> Scalar {
        let kernel = self.options.with_known_half(kernel);
        if self.options.skip_facts {
            return kernel;
        }
        let exact = exact();
        if exact != kernel && self.any_load() { exact } else { kernel }
    }

    /// The lowest bytes of a number, sign-extended to a width, then zero-extended.
    pub(crate) fn sign_extended(&self, scalar: &Scalar, from: Size, width: Width) -> Scalar {
        self.known(sign_extended_as_kernel(scalar, from, width), || {
            let low = Abstract::wide(*scalar).truncate(from.bits());
            *low.sign_extend(width.bits()).zero_extend(64).scalar()
        })
    }

    /// An operand; an immediate that another kernel's CO-RE would replace is unknown.
    pub(crate) fn operand(&self, src: Source) -> Step<Register> {
        match src {
            Source::Reg(reg) => self.read(reg),
            Source::Imm(_) if self.relocated() => Ok(Register::UNKNOWN),
            Source::Imm(imm) => Ok(Register::constant(i64::from(imm) as u64)),
        }
    }

    fn mov(&mut self, width: Width, dst: Reg, src: Source) -> Step<()> {
        let value = match (src, width) {
            (Source::Reg(reg), Width::W64) => {
                let register = self.read(reg)?;
                self.linked(reg, register)
            }
            (Source::Reg(reg), Width::W32) => {
                let register = self.read(reg)?;
                self.options.check_leak(&register, "is copied in part")?;
                if register.is_pointer() || !self.options.kernel_has(Feature::HalfCopies) {
                    Register::scalar(Scalar::of_width(32))
                } else if register.scalar.umax <= u64::from(u32::MAX) {
                    match self.options.kernel_has(Feature::NarrowCopies) {
                        true => self.linked(reg, register),
                        false => Register { id: 0, offset: 0, added: Added::Nothing, ..register },
                    }
                } else {
                    let origin = register.origin;
                    Register { origin, ..Register::scalar(narrowed_as_kernel(&register.scalar, Size::B4)) }
                }
            }
            (Source::Imm(_), _) => {
                let operand = self.operand(src)?;
                Register::scalar(apply(AluOp::Mov, width, &operand.scalar, &operand.scalar))
            }
        };
        self.write(dst, value)
    }

    /// A number about to be copied: the copies share an id, so that what a branch says of one holds for the other.
    pub(crate) fn linked(&mut self, reg: Reg, mut register: Register) -> Register {
        if register.kind() == Kind::Scalar
            && (register.id == 0 || register.added != Added::Nothing)
            && register.scalar.as_constant().is_none()
            && self.options.kernel_has(Feature::CopiesLearn)
        {
            register.id = self.fresh_id();
            (register.offset, register.added) = (0, Added::Nothing);
            self.state.set(reg, register);
        }
        register
    }

    pub(crate) fn negate(&mut self, width: Width, dst: Reg) -> Step<()> {
        let value = self.read(dst)?;
        self.options.check_leak(&value, "becomes a number")?;
        if value.is_pointer() {
            return self.write(dst, Register::scalar(Scalar::of_width(width.bits())));
        }
        let scalar = self.known(negate_as_kernel(width, &value.scalar), || {
            apply(AluOp::Sub, width, &Scalar::constant(0), &value.scalar)
        });
        self.write(dst, Register { origin: value.origin, ..Register::scalar(scalar) })
    }

    pub(crate) fn sign_extend(&mut self, width: Width, from: Size, dst: Reg, src: Reg) -> Step<()> {
        let value = self.read(src)?;
        self.options.check_leak(&value, "is copied in part")?;
        if value.is_pointer() {
            return self.write(dst, Register::scalar(Scalar::of_width(width.bits())));
        }
        let scalar = self.sign_extended(&value.scalar, from, width);
        // The kernel links them where the sign bit is known to be clear.
        if value.scalar.umax >> (from.bits() - 1) == 0 {
            let copy = self.linked(src, value);
            return self.write(dst, Register { scalar, ..copy });
        }
        self.write(dst, Register { origin: value.origin, ..Register::scalar(scalar) })
    }

    pub(crate) fn change_order(&mut self, order: ByteOrder, size: Size, dst: Reg) -> Step<()> {
        let value = self.read(dst)?;
        self.options.check_leak(&value, "becomes a number")?;
        if value.is_pointer() {
            return self.write(dst, Register::scalar(Scalar::of_width(size.bits())));
        }
        let scalar = self.known(reordered_as_kernel(order, size, &value.scalar), || {
            let low = Abstract::wide(value.scalar).truncate(size.bits());
            let result = if order == ByteOrder::Little { low } else { low.swap_bytes() };
            *result.zero_extend(64).scalar()
        });
        self.write(dst, Register { origin: value.origin, ..Register::scalar(scalar) })
    }

    pub(crate) fn load_constant(&mut self, dst: Reg, imm: Imm64) -> Step<()> {
        let value = match (self.code.reference(self.at), imm) {
            (Reference::None, Imm64::Value(_)) if self.relocated() => Register::UNKNOWN,
            (Reference::None, Imm64::Value(value)) => Register::constant(value),
            (Reference::Map(map), _) => Register::pointer(Holds::Map(map.0)),
            (Reference::MapValue { map, offset }, _) => self.code.value_address(map.0, offset)?,
            (Reference::Function(_), _) if self.code.loses_function_types() => {
                return refuse(
                    Reason::BadInstruction,
                    Case::NoFunctionTypes,
                    "the address of a function, and the kernel gets no types of the functions",
                );
            }
            (Reference::Function(_), _) => match self.code.op(self.at).callee {
                Some(callee) if self.code.functions[callee].global => {
                    return reject(
                        Reason::BadInstruction,
                        "the address of a global function: callbacks must be static",
                    );
                }
                Some(callee) => {
                    self.findings.noted.addresses.entry(callee).or_insert(self.at);
                    Register::pointer(Holds::Function(callee as u32))
                }
                None => return reject(Reason::BadInstruction, "the address of a function that does not exist"),
            },
            (Reference::Extern(id), _) => match self.code.object.externs.get(id.index()) {
                Some(Extern { kind: ExternKind::Kconfig { map, offset }, .. }) => {
                    self.code.value_address(map.0, *offset)?
                }
                Some(Extern { kind: ExternKind::Ksym, .. }) => Register::UNKNOWN,
                Some(symbol) => self.kernel_symbol(symbol)?,
                None => return reject(Reason::BadInstruction, "a symbol that does not exist"),
            },
            (_, imm) => {
                let message =
                    format!("{imm} is an address that only a loader can fill in, and nothing tells it of what");
                return reject(Reason::BadInstruction, message);
            }
        };
        self.write(dst, value)
    }
}

impl<'a> Code<'a> {
    pub(crate) fn value_address(&self, map: u32, offset: u32) -> Step<Register> {
        let Some(definition) = self.object.maps.get(map as usize) else {
            return reject(Reason::BadInstruction, "a map that does not exist");
        };
        if definition.map_type == MapType::Arena {
            return Ok(Register::UNKNOWN);
        }
        let per_cpu = definition.map_type == MapType::PercpuArray && definition.max_entries == 1;
        if !per_cpu && !definition.map_type.rules().values_have_addresses {
            return reject(
                Reason::BadInstruction,
                format!(
                    "map {} ({}) has no values with an address of their own",
                    definition.name,
                    definition.map_type.name()
                ),
            );
        }
        let size = definition.direct_bytes();
        if u64::from(offset) >= size {
            return reject(Reason::MapValueBounds, format!("offset {offset} of a value of {size} bytes"));
        }
        if definition.map_type == MapType::InsnArray && !offset.is_multiple_of(JumpTable::ENTRY_BYTES) {
            let message = format!("offset {offset} of jump table {} is inside an entry", definition.name);
            return reject(Reason::MapValueBounds, message);
        }
        let Some(fixed) = i32::try_from(offset).ok().filter(|fixed| *fixed < MAX_DIRECT_OFFSET) else {
            return reject(Reason::MapValueBounds, format!("direct value offset of {offset} is not allowed"));
        };
        let read_only = definition.is_read_only();
        Ok(Register { offset: fixed, read_only, ..Register::pointer(Holds::MapValue(map)) })
    }
}

/// One arithmetic instruction with two operands.
struct Arithmetic<'c, 'p> {
    path: &'c mut Path<'p>,
    op: AluOp,
    width: Width,
    dst: Reg,
}

impl Arithmetic<'_, '_> {
    /// Returns what the instruction leaves in the destination.
    fn result(&mut self, src: Source, first: Register, second: Register) -> Step<Register> {
        let Arithmetic { op, width, dst, .. } = *self;
        if let (Source::Imm(imm), AluOp::Lsh | AluOp::Rsh | AluOp::Arsh) = (src, op)
            && !(0..width.bits() as i32).contains(&imm)
        {
            return reject(Reason::BadInstruction, format!("shift by {imm} of {} bits", width.bits()));
        }
        if let (Source::Imm(0), AluOp::Div | AluOp::Sdiv | AluOp::Mod | AluOp::Smod) = (src, op) {
            return reject(Reason::BadInstruction, "division by the constant 0");
        }
        let second_too = second.kind() == Kind::Arena && self.path.options.kernel_has(Feature::ArenaOperands);
        let arena = first.kind() == Kind::Arena || second_too;
        self.check_arena_arithmetic(arena)?;
        if arena {
            return Ok(Register::ARENA);
        }
        self.path.options.check_leaking_arithmetic(op, width, &first, &second)?;
        if first.is_pointer() != second.is_pointer() {
            self.path.options.check_moved_pointer(dst, if first.is_pointer() { &first } else { &second }, src)?;
        }
        let result = match (first.is_pointer(), second.is_pointer()) {
            (false, false) => {
                let first = self.forked_by_sign(first, &second)?;
                self.numbers(&first, &second)
            }
            (true, true) if op == AluOp::Sub => {
                // Nothing is known about the difference of two pointers.
                Register::scalar(Scalar::of_width(width.bits()))
            }
            (true, true) => {
                return reject(
                    Reason::PointerArithmetic,
                    format!("{} with both r{} and its operand pointers", op.row().symbol, dst.number()),
                );
            }
            (true, false) => self.pointer_and_number(first, second)?,
            (false, true) => {
                if op == AluOp::Sub && width == Width::W64 {
                    return reject(Reason::PointerArithmetic, "a pointer is subtracted from a number");
                }
                let sum = self.pointer_and_number(second, first)?;
                if sum.frame() != 0 && !self.path.options.kernel_has(Feature::SumsKeepFrames) {
                    let message = "kernels before 7.2 take a number plus this stack pointer for an address in the frame of the main function";
                    return refuse(Reason::PointerArithmetic, Case::LostFrame, message);
                }
                Register { summed: sum.is_pointer(), ..sum }
            }
        };
        if first.is_pointer() != second.is_pointer() {
            self.path.findings.check_mask(
                self.path.code,
                self.path.options,
                self.path.at,
                op,
                src,
                &first,
                &second,
                &result,
            )?;
        }
        Ok(result)
    }

    /// Newer kernels make a 32-bit instruction of one that moves an arena pointer, so that it computes with no number.
    fn check_arena_arithmetic(&mut self, arena: bool) -> Step<()> {
        if self.width != Width::W64 || !self.path.options.kernel_has(Feature::ArenaArithmetic) {
            return Ok(());
        }
        let now = if arena { Kind::Arena } else { Kind::Scalar };
        let before = std::mem::replace(&mut self.path.findings.noted.computed[self.path.at as usize], now);
        if before != now && before != Kind::Uninit {
            let message = format!("r{} is an arena pointer here on one path and none on another", self.dst.number());
            return reject(Reason::NotAPointer, message);
        }
        Ok(())
    }

    fn numbers(&mut self, first: &Register, second: &Register) -> Register {
        let Arithmetic { op, width, .. } = *self;
        let divides = matches!(op, AluOp::Div | AluOp::Sdiv | AluOp::Mod | AluOp::Smod);
        let tracked = is_tracked(op, width, &second.scalar)
            && (!divides || self.path.options.kernel_has(Feature::DivisionRanges))
            && (op != AluOp::Xor || self.path.options.kernel_has(Feature::KnownXor));
        // If the result matters, so do both numbers, even where nothing is known of it.
        let origin = self.path.findings.join_origins(first.origin, second.origin);
        if !tracked && !self.path.any_load() {
            let half = width == Width::W32 && second.scalar.as_constant().is_some();
            let known = half && !self.path.options.kernel_has(Feature::UnknownHalves);
            let bits = if known { 32 } else { 64 };
            return Register { origin, ..Register::scalar(Scalar::of_width(bits)) };
        }
        let kernel = match op {
            AluOp::Mul if !self.path.options.kernel_has(Feature::ProductBits) => {
                multiply_as_older_kernel(width, &first.scalar, &second.scalar)
            }
            _ => apply_as_kernel_where(self.path.options.deduction(), op, width, &first.scalar, &second.scalar),
        };
        let scalar = self.path.known(kernel, || apply(op, width, &first.scalar, &second.scalar));
        let mut result = Register { origin, ..Register::scalar(scalar) };
        // A copy plus a constant is still tied to what it is a copy of.
        if first.id != 0
            && first.added == Added::Nothing
            && let Some(added) = added_constant(op, width, &second.scalar)
            && (width == Width::W64 || first.scalar.umax <= u64::from(u32::MAX))
            && (self.path.options.kernel_has(Feature::LinkedDifferences)
                || op == AluOp::Add && width == Width::W64 && added >= 0)
        {
            result.id = first.id;
            result.offset = added;
            result.added = if width == Width::W32 { Added::Half } else { Added::Whole };
        }
        result
    }

    /// A number that is 0 or -1, as an arithmetic shift by all of the width leaves it, is followed as two where a
    /// constant clears or sets bits of it: `r1 s>>= 63; r1 &= -22` is 0 or -22 (the kernel's `maybe_fork_scalars`).
    fn forked_by_sign(&mut self, first: Register, second: &Register) -> Step<Register> {
        let Arithmetic { op, width: _, dst, .. } = *self;
        let Scalar { smin, smax, s32_min, s32_max, .. } = first.scalar;
        let width = match () {
            () if (smin, smax) == (-1, 0) => Width::W64,
            () if (s32_min, s32_max) == (-1, 0) => Width::W32,
            () => return Ok(first),
        };
        let followed = matches!(op, AluOp::And | AluOp::Or) && second.scalar.as_constant().is_some();
        if !followed || !self.path.options.kernel_has(Feature::SignForks) {
            return Ok(first);
        }
        let with = |value: u64| Register { scalar: first.scalar.with_low(width, value), ..first };
        let mut other = self.path.state.clone();
        other.set(dst, with(0));
        self.path.push(other, self.path.at);
        Ok(with(u64::MAX))
    }

    fn pointer_and_number(&mut self, pointer: Register, number: Register) -> Step<Register> {
        let Arithmetic { op, width, dst, .. } = *self;
        let name = pointer.kind().name();
        if width == Width::W32 {
            if op == AluOp::Sub && self.path.options.kernel_has(Feature::HalfPointerDifferences) {
                return Ok(Register::scalar(Scalar::of_width(32)));
            }
            return reject(
                Reason::PointerArithmetic,
                format!("r{}: 32-bit arithmetic on a pointer ({name})", dst.number()),
            );
        }
        if pointer.nullable {
            return reject(
                Reason::PossiblyNull,
                format!("r{}: arithmetic on a pointer ({name}) that may be null", dst.number()),
            );
        }
        if pointer.is_untrusted_bytes() {
            // For older kernels a number stays the same number. In truth it changes, so nothing is known of it here.
            let moved =
                self.path.read(dst)?.is_pointer() || self.path.options.kernel_has(Feature::PointersAddedToNumbers);
            return Ok(if moved { pointer } else { Register::UNKNOWN });
        }
        let older = pointer.kind() == Kind::Map && !self.path.options.kernel_has(Feature::MapPointerArithmetic);
        if older || !takes_arithmetic(pointer.kind(), op, number.scalar.as_constant()) {
            let message = format!("r{}: arithmetic on a {name} pointer", dst.number());
            return refuse(Reason::PointerArithmetic, Case::NoArithmetic, message);
        }
        if !matches!(op, AluOp::Add | AluOp::Sub) {
            return reject(
                Reason::PointerArithmetic,
                format!("r{}: operator {} on a pointer ({name})", dst.number(), op.row().symbol),
            );
        }
        if self.loader_decides(&pointer, &number) {
            return Ok(Register { relocated: true, offset: 0, scalar: Register::UNKNOWN.scalar, ..pointer });
        }
        check_offset(&pointer, &number, dst)?;
        self.path.findings.mark_precise(&number);
        let moved = match op {
            AluOp::Add => self.moved_up(pointer, &number),
            _ if pointer.kind() == Kind::Stack => {
                let message = "subtraction from a stack pointer";
                return refuse(Reason::PointerArithmetic, Case::StackSubtraction, message);
            }
            _ => self.moved_down(pointer, &number),
        };
        let result = Register { relocated: pointer.relocated || self.path.relocated(), ..moved };
        check_offset(&result, &Register::constant(0), dst)?;
        self.path.options.check_moved_inside(self.path.code, dst, &result)?;
        Ok(result)
    }

    /// Whether only the loader knows how far a pointer moves. A kernel on which it moves too far rejects the program, so the facts
    /// need not hold there. Helpers take these pointers at any offset.
    fn loader_decides(&self, pointer: &Register, number: &Register) -> bool {
        let unknown = pointer.relocated || number.scalar.smin <= -MAX_POINTER_OFFSET;
        matches!(pointer.kind(), Kind::BtfId | Kind::Context) && unknown && self.path.any_load()
    }

    fn moved_up(&mut self, pointer: Register, number: &Register) -> Register {
        let known = number.scalar.as_constant().map(|value| value as i64);
        if let Some(offset) = known.and_then(|value| i32::try_from(i64::from(pointer.offset) + value).ok()) {
            // What was found out about the end of the packet holds for the pointer as it was.
            return Register { offset, range: pointer.range.max(0), ..pointer };
        }
        let steps = self.path.options.deduction();
        let scalar = apply_as_kernel_where(steps, AluOp::Add, Width::W64, &pointer.scalar, &number.scalar);
        let mut moved = Register { scalar, ..pointer };
        if pointer.kind() == Kind::Packet || pointer.kind() == Kind::PacketMeta {
            moved.id = self.path.fresh_id();
            moved.range = 0;
        }
        moved
    }

    fn moved_down(&mut self, pointer: Register, number: &Register) -> Register {
        let known = number.scalar.as_constant().map(|value| value as i64);
        if let Some(offset) = known.and_then(|value| i32::try_from(i64::from(pointer.offset) - value).ok()) {
            return Register { offset, range: pointer.range.max(0), ..pointer };
        }
        let steps = self.path.options.deduction();
        let scalar = apply_as_kernel_where(steps, AluOp::Sub, Width::W64, &pointer.scalar, &number.scalar);
        let mut moved = Register { scalar, ..pointer };
        if pointer.kind() == Kind::Packet || pointer.kind() == Kind::PacketMeta {
            moved.id = self.path.fresh_id();
            // Moving back, the bytes behind the old place are still there; moving by a negative number is forward.
            let whole = self.path.options.kernel_has(Feature::WholePacketOffsets);
            if number.scalar.smin < 0 || scalar.smin < 0 && !whole {
                moved.range = 0;
            } else if whole && moved.range > 0 {
                // It counts from the highest place that the pointer may be at, which moved back by that much.
                let back = i32::try_from(number.scalar.smin).unwrap_or(0);
                moved.range = moved.range.saturating_add(back).min(i32::from(u16::MAX));
            }
        }
        moved
    }
}

fn check_offset(pointer: &Register, number: &Register, dst: Reg) -> Step<()> {
    let scalar = &number.scalar;
    let sane = |value: i64| -MAX_POINTER_OFFSET < value && value < MAX_POINTER_OFFSET;
    if let Some(value) = scalar.as_constant() {
        if !sane(value as i64) {
            return reject(
                Reason::UnboundedOffset,
                format!("r{}: the constant {} is too large to move a pointer by", dst.number(), value as i64),
            );
        }
    } else if !sane(scalar.smin) {
        let how = match scalar.smin {
            i64::MIN => "has no lower bound".to_owned(),
            lowest => format!("may be as low as {lowest}"),
        };
        return reject(Reason::UnboundedOffset, format!("r{}: the number added {how}", dst.number()));
    }
    // As in the kernel, the constant by which a copy differs counts too, although it is part of the number.
    let constants = [pointer.offset, if number.is_pointer() { 0 } else { number.offset }];
    if constants.into_iter().any(|offset| !sane(i64::from(offset))) || !sane(pointer.scalar.smin) {
        return reject(Reason::UnboundedOffset, format!("r{}: the pointer may be far out of bounds", dst.number()));
    }
    Ok(())
}

/// Whether a pointer of this kind may be moved at all, by a number that may be known.
fn takes_arithmetic(kind: Kind, op: AluOp, known: Option<u64>) -> bool {
    match kind {
        Kind::FlowKeys => known.is_some(),
        Kind::Map => known == Some(0) && op == AluOp::Add,
        Kind::PacketEnd | Kind::Insn | Kind::Socket | Kind::SockCommon | Kind::TcpSock | Kind::XdpSock => false,
        _ => true,
    }
}

/// Offsets of direct value addresses are below this one (kernel `BPF_MAX_VAR_OFF`).
const MAX_DIRECT_OFFSET: i32 = 1 << 29;

/// What an addition or subtraction of a constant adds, where the kernel remembers it.
fn added_constant(op: AluOp, width: Width, second: &Scalar) -> Option<i32> {
    let constant = match width {
        Width::W64 => i32::try_from(second.as_constant()? as i64).ok()?,
        Width::W32 => second.low_constant()? as i32,
    };
    match op {
        AluOp::Add => Some(constant),
        AluOp::Sub => constant.checked_neg(),
        _ => None,
    }
}

/// Whether the kernel's verifier tracks the operation. A verdict must not depend on knowing more than the kernel does;
/// facts may know more.
fn is_tracked(op: AluOp, width: Width, second: &Scalar) -> bool {
    let constant = second.constant_at(width).is_some();
    match op {
        AluOp::Div | AluOp::Sdiv | AluOp::Mod | AluOp::Smod => constant,
        AluOp::Lsh | AluOp::Rsh | AluOp::Arsh => constant && second.umax < u64::from(width.bits()),
        _ => true,
    }
}
