//! What the kernel's verifier (Linux 6.18) prints as its reason for a rejection, so that people can search for it.
//!
//! ```text
//!   r1 = *(u64 *)(r0 + 0)    r0 a map value or null      R0 invalid mem access 'map_value_or_null'
//!   r0 = *(u8 *)(r1 + 14)    14 bytes are known          R1 offset is outside of the packet
//! ```
//!
//! The message depends on the reason, on the instruction and on what the registers hold; where this module knows none, it
//! says none. `crates/test/tests/kernel_words.rs` holds it to what the running kernel prints for the corpora.

mod calls;

use kiln_isa::{AluOp, Insn, Reg, Source};
use kiln_platform::{ArgKind, MapType, ProgramType, ReturnRule};

use crate::code::{Code, Position};
use crate::error::Refused;
use crate::explain::kernel_names::{slot, tnum, type_name};
use crate::path::Path;
use crate::reason::Reason;
use crate::rejection::{Case, Cause};
use crate::state::{Caller, Kind, Register, Trust};

/// The kernel's message for a rejection at the path's position.
pub(crate) fn message(path: &Path<'_>, refused: &Refused) -> Option<String> {
    Words { path, cause: &refused.cause, insn: path.code.op(path.at).node.insn }.of(refused.reason)
}

/// The kernel's message for an instruction that no path reaches.
pub(crate) fn unreachable(code: &Code<'_>, at: Position) -> String {
    format!("unreachable insn {}", slot(code, at))
}

/// The kernel's message for an indirect jump of a function without a table.
pub(crate) fn without_table(code: &Code<'_>, at: Position) -> String {
    let start = code.functions[code.op(at).function].start;
    format!("no jump tables found for subprog starting at {}", slot(code, start))
}

/// What a kernel that takes an indirect jump for one over no instructions says of one at a function's end.
pub(crate) fn behind_the_end(code: &Code<'_>, at: Position) -> String {
    let slot = slot(code, at);
    format!("jump out of range from insn {slot} to {}", slot + 1)
}

/// What the kernel says where a pointer must be passed or read as it was made, and it was moved.
fn moved_pointer(reg: u8, register: &Register) -> String {
    let name = type_name(register);
    match register.fixed_offset() {
        Some(moved) if moved < 0 => format!("negative offset {name} ptr R{reg} off={moved} disallowed"),
        Some(moved) => format!("dereference of modified {name} ptr R{reg} off={moved} disallowed"),
        None => format!("variable {name} access var_off={} disallowed", tnum(register)),
    }
}

fn is_far(distance: i64) -> bool {
    const MOST: i64 = 1 << 29;
    distance >= MOST || distance <= -MOST
}

/// What the kernel says of a number that no pointer is moved by.
fn too_far(pointer: &str, number: &Register) -> Option<String> {
    let lowest = number.scalar.smin;
    match number.scalar.as_constant().map(|value| value as i64) {
        Some(value) if is_far(value) => Some(format!("math between {pointer} pointer and {value} is not allowed")),
        None if lowest == i64::MIN => {
            Some(format!("math between {pointer} pointer and register with unbounded min value is not allowed"))
        }
        None if is_far(lowest) => Some(format!("value {lowest} makes {pointer} pointer be out of bounds")),
        _ => None,
    }
}

struct Words<'a> {
    path: &'a Path<'a>,
    /// What is at fault.
    cause: &'a Cause,
    insn: Insn,
}

impl Words<'_> {
    fn of(&self, reason: Reason) -> Option<String> {
        if self.cause.case == Case::NullTaken {
            return None;
        }
        if let Some(message) = self.in_callback().or_else(|| self.global_call(reason)) {
            return Some(message);
        }
        match reason {
            Reason::UninitializedRegister => Some(format!("R{} !read_ok", self.reg()?.number())),
            Reason::PossiblyNull => self.possibly_null(),
            Reason::PacketBounds => Some(format!("R{} offset is outside of the packet", self.reg()?.number())),
            Reason::MapValueBounds | Reason::MemoryBounds => self.region(),
            Reason::StackBounds => self.stack(),
            Reason::UninitializedStack => self.uninitialized_stack(),
            Reason::ContextAccess => self.context(),
            Reason::NotAPointer => self.not_a_pointer(),
            Reason::PointerArithmetic => self.arithmetic(),
            Reason::UnboundedOffset => self.offset(),
            Reason::ArgumentType => self.argument(),
            Reason::ArgumentSize => self.size(),
            Reason::HelperNotAllowed => self.helper(),
            Reason::KernelLacks if self.path.code.missing_in_kernel(self.path.at).is_some() => self.helper(),
            Reason::Unreachable => Some("No program to jit".to_owned()),
            Reason::GplOnly => Some("cannot call GPL-restricted function from non-GPL compatible program".to_owned()),
            Reason::MapHelperMismatch => self.map_helper(),
            Reason::ReadOnlyMemory => self.read_only(),
            Reason::Misaligned => self.misaligned(),
            Reason::UnreleasedReference => Some(format!("{} would lead to reference leak", self.ending()?)),
            Reason::NotHeld => self.not_held(),
            Reason::LockDiscipline => self.lock(),
            Reason::InfiniteLoop => {
                Some(format!("infinite loop detected at insn {}", slot(self.path.code, self.path.at)))
            }
            Reason::TooComplex => Some(self.complexity()),
            Reason::CallDepth => {
                let frames = kiln_platform::limits::MAX_CALL_FRAMES + 1;
                Some(format!("the call stack of {frames} frames is too deep !"))
            }
            Reason::ReturnValue => self.return_value(),
            Reason::BadInstruction => self.instruction(),
            Reason::SpecialField => self.special_field(),
            // The kernel adds the registers or slots in hexadecimal.
            Reason::LostPrecision => Some("verifier bug: static subprog unexpected regs".to_owned()),
            Reason::DynptrMisuse => self.dynptr(),
            Reason::IteratorMisuse => self.iterator(),
            Reason::CriticalSection => self.section(),
            _ => None,
        }
    }

    /// The register at fault: where the cause says none, the one that the instruction accesses memory through.
    fn reg(&self) -> Option<Reg> {
        self.cause.reg.or(match self.insn {
            Insn::Load { address, .. } | Insn::LoadAcquire { address, .. } | Insn::Atomic { address, .. } => {
                Some(address.base)
            }
            Insn::Store { address, .. } | Insn::StoreRelease { address, .. } => Some(address.base),
            Insn::Alu { dst, .. } | Insn::Neg { dst, .. } | Insn::Endian { dst, .. } => Some(dst),
            Insn::Exit => Some(Reg::R0),
            _ => None,
        })
    }

    fn register(&self) -> Option<Register> {
        let frame = self.path.state.frames.last()?;
        Some(frame.registers[self.reg()?.index()])
    }

    /// Offset and bytes of the access, and whether it writes.
    fn access(&self) -> Option<(i64, i64, bool)> {
        let (address, size, writes) = match self.insn {
            Insn::Load { address, size, .. } | Insn::LoadAcquire { address, size, .. } => (address, size, false),
            Insn::Store { address, size, .. } | Insn::StoreRelease { address, size, .. } => (address, size, true),
            // The kernel checks the load that an atomic operation is first.
            Insn::Atomic { address, size, .. } => (address, size, false),
            _ => return None,
        };
        Some((i64::from(address.offset), i64::from(size.bytes()), writes))
    }

    fn dynptr(&self) -> Option<String> {
        match self.cause.case {
            Case::DynptrOverwritten => Some("cannot overwrite referenced dynptr".to_owned()),
            Case::DynptrWritten { at } => Some(format!("potential write to dynptr at off={at} disallowed")),
            Case::DynptrMoved => {
                let moved = self.register()?.fixed_offset()?;
                let how = if moved < 0 { "negative offset" } else { "dereference of modified" };
                Some(format!("{how} dynptr_ptr ptr R{} off={moved} disallowed", self.reg()?.number()))
            }
            Case::NoDynptr => Some(format!("Expected an initialized dynptr as arg #{}", self.reg()?.number() - 1)),
            _ => None,
        }
    }

    fn iterator(&self) -> Option<String> {
        let reg = self.reg()?.number();
        let Case::NoIterator { name } = &self.cause.case else { return None };
        Some(format!("expected an initialized {} as arg #{}", name.trim_start_matches("bpf_"), reg - 1))
    }

    fn section(&self) -> Option<String> {
        let sections = &self.path.state.sections;
        let region = if sections.rcu > 0 {
            "bpf_rcu_read_lock"
        } else if sections.preemption_off > 0 {
            "bpf_preempt_disable"
        } else {
            "bpf_local_irq_save"
        };
        match self.insn {
            Insn::Exit => Some(format!("{} cannot be used inside {region}-ed region", self.ending()?)),
            _ => None,
        }
    }

    fn possibly_null(&self) -> Option<String> {
        let (reg, register) = (self.reg()?.number(), self.register()?);
        let name = type_name(&register);
        if self.access().is_some() {
            return Some(format!("R{reg} invalid mem access '{name}'"));
        }
        if let Insn::Alu { .. } = self.insn {
            return Some(format!("R{reg} pointer arithmetic on {name} prohibited, null-check it first"));
        }
        self.argument()
    }

    /// Memory of a known size (kernel `check_mem_region_access`).
    fn region(&self) -> Option<String> {
        let (reg, register) = (self.reg()?.number(), self.register()?);
        let (offset, bytes) = match self.access() {
            Some((offset, bytes, _)) => (offset, bytes),
            None => (0, self.argument_bytes()?),
        };
        let fixed = i64::from(register.offset) + offset;
        let size = self.region_bytes(&register)?;
        let scalar = &register.scalar;
        let lowest = scalar.smin.saturating_add(fixed);
        if scalar.smin < 0 && (scalar.smin == i64::MIN || i64::from(lowest as i32) != lowest || lowest < 0) {
            return Some(format!(
                "R{reg} min value is negative, either use unsigned index or do a if (index >=0) check."
            ));
        }
        let outside = |start: i64| start < 0 || start.saturating_add(bytes) > size;
        if outside(lowest) {
            return Some(format!("R{reg} min value is outside of the allowed memory range"));
        }
        if scalar.umax >= 1 << 29 {
            return Some(format!("R{reg} unbounded memory access, make sure to bounds check any such access"));
        }
        Some(format!("R{reg} max value is outside of the allowed memory range"))
    }

    fn region_bytes(&self, register: &Register) -> Option<i64> {
        match register.kind() {
            Kind::MapValue => self.path.code.map_of(register).and_then(|map| i64::try_from(map.direct_bytes()).ok()),
            Kind::MapKey => self.path.code.map_of(register).map(|map| i64::from(map.key_size)),
            Kind::Memory | Kind::RingBuffer => Some(i64::from(register.bytes())),
            _ => None,
        }
    }

    /// Bytes of a memory argument.
    fn argument_bytes(&self) -> Option<i64> {
        match self.cause.case {
            Case::Access { bytes } => i64::try_from(bytes).ok(),
            _ => None,
        }
    }

    fn stack(&self) -> Option<String> {
        let (reg, register) = (self.reg()?.number(), self.register()?);
        let (offset, bytes, how) = match self.access() {
            Some((offset, bytes, true)) => (offset, bytes, " write to"),
            Some((offset, bytes, false)) => (offset, bytes, " read from"),
            None if self.argument_writes() => (0, self.argument_bytes()?, " write to"),
            None => (0, self.argument_bytes()?, " read from"),
        };
        if let (Some(fixed), true) = (register.fixed_offset(), self.access().is_some())
            && (fixed + offset) % bytes != 0
        {
            return self.misaligned();
        }
        let scalar = &register.scalar;
        if let Some(fixed) = register.fixed_offset() {
            return Some(format!("invalid{how} stack R{reg} off={} size={bytes}", fixed + offset));
        }
        const MOST: i64 = 1 << 29;
        if scalar.smax >= MOST || scalar.smin <= -MOST {
            return Some(format!("invalid unbounded variable-offset{how} stack R{reg}"));
        }
        let fixed = i64::from(register.offset) + offset;
        let bits = tnum(&register);
        Some(format!("invalid variable-offset{how} stack R{reg} var_off={bits} off={fixed} size={bytes}"))
    }

    fn uninitialized_stack(&self) -> Option<String> {
        let (offset, bytes, _) = self.access()?;
        let fixed = self.register()?.fixed_offset()? + offset;
        Some(format!("invalid read from stack off {fixed}+0 size {bytes}"))
    }

    fn context(&self) -> Option<String> {
        let (reg, register) = (self.reg()?.number(), self.register()?);
        let (offset, bytes, writes) = self.access()?;
        let name = type_name(&register);
        if register.kind() == Kind::FlowKeys {
            let at = register.fixed_offset()? + offset;
            return Some(format!("invalid access to flow keys off={at} size={bytes}"));
        }
        if register.kind() != Kind::Context {
            if writes {
                return Some(format!("R{reg} cannot write into {name}"));
            }
            let at = register.fixed_offset()? + offset;
            return Some(format!("R{reg} invalid {name} access off={at} size={bytes}"));
        }
        match register.fixed_offset() {
            Some(0) => Some(format!("invalid bpf_context access off={offset} size={bytes}")),
            Some(moved) if moved > 0 && self.path.is_context_memory() => {
                Some(format!("invalid bpf_context access off={} size={bytes}", moved + offset))
            }
            _ => Some(moved_pointer(reg, &register)),
        }
    }

    fn not_a_pointer(&self) -> Option<String> {
        let fixed = match self.cause.case {
            Case::TwoKinds => Some("same insn cannot be used with different pointers"),
            Case::PartOfSpilledPointer => Some("invalid size of register fill"),
            Case::PartOfPointer => Some("invalid size of register spill"),
            Case::StackPointerInCaller => Some("cannot spill pointers to stack into stack frame of the caller"),
            _ => None,
        };
        if let Some(fixed) = fixed {
            return Some(fixed.to_owned());
        }
        let (reg, register) = (self.reg()?.number(), self.register()?);
        if let (Kind::Map, Some((_, _, true))) = (register.kind(), self.access()) {
            return Some("only read from bpf_array is supported".to_owned());
        }
        Some(format!("R{reg} invalid mem access '{}'", type_name(&register)))
    }

    fn arithmetic(&self) -> Option<String> {
        let Insn::Alu { op, dst, src, width } = self.insn else { return None };
        let reg = dst.number();
        let frame = self.path.state.frames.last()?;
        let first = frame.registers[dst.index()];
        let second = match src {
            Source::Reg(src) => frame.registers[src.index()],
            Source::Imm(imm) => Register::constant(i64::from(imm) as u64),
        };
        if self.cause.case == Case::LostFrame {
            // It refuses what is done with the sum, if anything.
            return None;
        }
        let symbol = op.row().symbol;
        if first.is_pointer() && second.is_pointer() {
            return Some(format!("R{reg} pointer {symbol} pointer prohibited"));
        }
        let pointer = if first.is_pointer() { first } else { second };
        let name = type_name(&pointer);
        if op == AluOp::Sub && !first.is_pointer() {
            return Some(format!("R{reg} tried to subtract pointer from scalar"));
        }
        if width == kiln_isa::Width::W32 {
            return Some(format!("R{reg} 32-bit pointer arithmetic prohibited"));
        }
        if self.cause.case == Case::NoArithmetic {
            return Some(format!("R{reg} pointer arithmetic on {name} prohibited"));
        }
        if self.cause.case == Case::StackSubtraction {
            return Some(format!("R{reg} subtraction from stack pointer prohibited"));
        }
        let number = if first.is_pointer() { second } else { first };
        if let Some(message) = too_far(&name, &number) {
            return Some(message);
        }
        Some(match op {
            AluOp::And | AluOp::Or | AluOp::Xor => format!("R{reg} bitwise operator {symbol} on pointer prohibited"),
            _ => format!("R{reg} pointer arithmetic with {symbol} operator prohibited"),
        })
    }

    /// How far a pointer may be moved (kernel `check_reg_sane_offset`).
    fn offset(&self) -> Option<String> {
        let Insn::Alu { op, dst, src, .. } = self.insn else { return None };
        let frame = self.path.state.frames.last()?;
        let first = frame.registers[dst.index()];
        let second = match src {
            Source::Reg(src) => frame.registers[src.index()],
            Source::Imm(imm) => Register::constant(i64::from(imm) as u64),
        };
        let (pointer, number) = if first.is_pointer() { (first, second) } else { (second, first) };
        let name = type_name(&pointer);
        if let Some(message) = too_far(&name, &number) {
            return Some(message);
        }
        let scalar = &number.scalar;
        let known = scalar.as_constant().map(|value| value as i64);
        // The sum is what is too far.
        let moved = known.map(|value| if op == AluOp::Sub { -value } else { value }).unwrap_or(0);
        let fixed = i64::from(pointer.offset).saturating_add(moved);
        if is_far(fixed) {
            return Some(format!("{name} pointer offset {fixed} is not allowed"));
        }
        let lowest = pointer.scalar.smin.saturating_add(if known.is_none() { scalar.smin } else { 0 });
        Some(format!("value {lowest} makes {name} pointer be out of bounds"))
    }

    fn read_only(&self) -> Option<String> {
        if self.cause.case == Case::PacketIsReadOnly {
            return Some("cannot write into packet".to_owned());
        }
        let (reg, register) = (self.reg()?.number(), self.register()?);
        if let (Kind::BtfId, Some(helper)) = (register.kind(), self.path.code.op(self.path.at).helper) {
            let name = type_name(&register);
            return Some(format!("bpf_{}() may write into memory pointed by R{reg} type={name}", helper.name));
        }
        if let (Kind::MapKey, Some((_, _, true))) = (register.kind(), self.access()) {
            return Some(format!("write to change key R{reg} not allowed"));
        }
        if register.kind() == Kind::MapValue {
            let (offset, bytes, writes) = self.access().or_else(|| {
                let size = self.path.state.frames.last()?.registers.get(self.reg()?.index() + 1)?;
                Some((0, i64::try_from(size.scalar.umax).ok()?, self.argument_writes()))
            })?;
            let how = if writes && self.cause.case != Case::WriteOnlyMap { "write into" } else { "read from" };
            let size = self.region_bytes(&register)?;
            let at = i64::from(register.offset) + register.scalar.smin + offset;
            return Some(format!("{how} map forbidden, value_size={size} off={at} size={bytes}"));
        }
        let name = type_name(&register);
        let bare = name.trim_start_matches("rdonly_");
        let prefix = if register.read_only { "rdonly_" } else { "" };
        let untrusted = register.kind() == Kind::Memory && register.trust.has(Trust::UNTRUSTED);
        let trust = if untrusted { "untrusted_" } else { "" };
        Some(format!("R{reg} cannot write into {prefix}{trust}{bare}"))
    }

    fn misaligned(&self) -> Option<String> {
        let register = self.register()?;
        let (offset, bytes) = self.aligned_access()?;
        let what = match register.kind() {
            Kind::Stack => "stack ",
            Kind::MapValue => "value ",
            Kind::Packet | Kind::PacketMeta => "packet ",
            Kind::Context => "context ",
            _ => "",
        };
        let variable = match register.scalar.as_constant() {
            Some(value) => (value as i64).to_string(),
            None => tnum(&register),
        };
        Some(format!("misaligned {what}access off {variable}+{}+{offset} size {bytes}", register.offset))
    }

    /// Offset and bytes of an access, or of what a helper writes through an argument.
    fn aligned_access(&self) -> Option<(i64, i64)> {
        if let Some((offset, bytes, _)) = self.access() {
            return Some((offset, bytes));
        }
        let prototype = self.path.code.op(self.path.at).helper?.prototype;
        match prototype.args.get(usize::from(self.reg()?.number()).checked_sub(1)?)? {
            ArgKind::FixedMemory { size, .. } => Some((0, i64::from(*size))),
            _ => None,
        }
    }

    fn not_held(&self) -> Option<String> {
        let (reg, register) = (self.reg()?.number(), self.register()?);
        Some(if !register.owns() {
            format!("R{reg} must be referenced when passed to release function")
        } else {
            format!("R{reg} must have zero offset when passed to release func or trusted arg to kfunc")
        })
    }

    fn lock(&self) -> Option<String> {
        if let Insn::Exit | Insn::LoadPacket { .. } = self.insn {
            return Some(format!("{} cannot be used inside bpf_spin_lock-ed region", self.ending()?));
        }
        let fixed = match self.cause.case {
            Case::SecondLock => "Locking two bpf_spin_locks are not allowed",
            Case::OtherLock => "bpf_spin_unlock of different lock",
            Case::NoLock => "bpf_spin_unlock without taking a lock",
            Case::GlobalUnderLock => "use static function instead",
            Case::CallUnderLock => "function calls are not allowed while holding a lock",
            _ => return None,
        };
        Some(fixed.to_owned())
    }

    fn complexity(&self) -> String {
        let limits = self.path.options.profile.limits();
        if self.cause.case == Case::Branches {
            return format!("The sequence of {} jumps is too complex.", limits.pending + 1);
        }
        format!("BPF program is too large. Processed {} insn", limits.processed + 1)
    }

    fn return_value(&self) -> Option<String> {
        let frame = self.path.state.frames.last()?;
        let reg = if self.throws() { Reg::R1 } else { Reg::R0 };
        let register = frame.registers[reg.index()];
        let reg = reg.number();
        let callback = matches!(self.cause.case, Case::CallbackReturned { .. });
        let end = match frame.caller {
            Caller::Later { .. } if callback => "At async callback return",
            _ if callback => "At callback return",
            _ => "At program exit",
        };
        if register.kind() == Kind::Stack && self.path.state.frames.len() > 1 {
            return Some("cannot return stack pointer to the caller".to_owned());
        }
        if register.kind() != Kind::Scalar {
            return Some(format!("{end} the register R{reg} is not a known value ({})", type_name(&register)));
        }
        let (lowest, highest) = match self.path.code.program_type.return_rule(self.path.code.program.attach_type) {
            ReturnRule::Range { minimum, maximum } if !callback => (i64::from(minimum), i64::from(maximum)),
            _ => self.allowed_range()?,
        };
        let mut text = format!("{end} the register R{reg} has");
        let scalar = &register.scalar;
        if scalar.smin > i64::MIN {
            text.push_str(&format!(" smin={}", scalar.smin));
        }
        if scalar.smax < i64::MAX {
            text.push_str(&format!(" smax={}", scalar.smax));
        }
        if scalar.smin == i64::MIN && scalar.smax == i64::MAX {
            text.push_str(" unknown scalar value");
        }
        text.push_str(&format!(" should have been in [{lowest}, {highest}]"));
        Some(text)
    }

    /// What may be returned, as the cause says.
    fn allowed_range(&self) -> Option<(i64, i64)> {
        match self.cause.case {
            Case::Returned { lowest, highest } | Case::CallbackReturned { lowest, highest } => Some((lowest, highest)),
            _ => None,
        }
    }

    fn instruction(&self) -> Option<String> {
        match self.cause.case {
            Case::SecondMap { of: MapType::Arena } => return Some("Only one arena per program".to_owned()),
            Case::SecondMap { .. } => return Some("only one cgroup storage of each type is allowed".to_owned()),
            Case::FramePointer => return Some("frame pointer is read only".to_owned()),
            Case::NoFunctionTypes => return Some("missing btf func_info".to_owned()),
            Case::NoProgramTypes => {
                return Some("bpf_obj_new/bpf_percpu_obj_new requires prog BTF".to_owned());
            }
            Case::PartOfEntry { bytes } => return Some(format!("Invalid read of {bytes} bytes from insn_array")),
            _ => {}
        }
        match self.insn {
            Insn::Alu { op: AluOp::Div | AluOp::Sdiv | AluOp::Mod | AluOp::Smod, src: Source::Imm(0), .. } => {
                Some("div by zero".to_owned())
            }
            Insn::Alu { op: AluOp::Lsh | AluOp::Rsh | AluOp::Arsh, src: Source::Imm(imm), .. } => {
                Some(format!("invalid shift {imm}"))
            }
            Insn::JumpIndirect { dst } => {
                let name = type_name(&self.path.state.frames.last()?.registers[dst.index()]);
                Some(format!("R{} has type {name}, expected PTR_TO_INSN", dst.number()))
            }
            Insn::LoadPacket { .. } if self.cause.case == Case::NoNumber => {
                Some("LD_ABS is only allowed in functions that return 'int'.".to_owned())
            }
            Insn::LoadPacket { .. } => {
                Some("BPF_LD_[ABS|IND] instructions not allowed for this program type".to_owned())
            }
            Insn::Call(_) if self.cause.case == Case::NoNumber => {
                Some("tail_call is only allowed in functions that return 'int'.".to_owned())
            }
            Insn::Atomic { address, .. } => {
                let name = type_name(&self.register()?);
                Some(format!("BPF_ATOMIC stores into R{} {name} is not allowed", address.base.number()))
            }
            _ => None,
        }
    }

    fn special_field(&self) -> Option<String> {
        let Case::Field { name } = self.cause.case else { return None };
        let programs =
            if self.path.code.program_type == ProgramType::SocketFilter { "socket filter" } else { "tracing" };
        Some(format!("{programs} progs cannot use {name} yet"))
    }
}
