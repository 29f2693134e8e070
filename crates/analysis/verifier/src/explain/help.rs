//! What fixes a rejection, for the very case: the check to write, with its numbers and names.

use kiln_isa::{AluOp, AtomicOp, Insn, Reg, Source};
use kiln_platform::limits::MAX_STACK_BYTES;
use kiln_platform::{ArgKind, Helper, MapType, ProgramType, ReturnRule};

use super::names::{argument, assigned, signed_plain};
use super::story::Story;
use crate::reason::Reason;
use crate::rejection::{Case, Loss, StoryStep};
use crate::state::{Kind, Register};

/// Bytes of a packet that the kernel follows (`MAX_PACKET_OFF`).
const MOST_PACKET_BYTES: i64 = 0xffff;

impl Story<'_> {
    /// What fixes this case; `None` where no more can be said than the reason's own advice.
    pub(super) fn help(&self, steps: &[StoryStep]) -> Option<String> {
        if let Some(help) = self.size_of_argument() {
            return Some(help);
        }
        if self.rejection.cause.case == Case::Format {
            let known =
                "%d, %i, %u, %x and %X (with l or ll), %c, %s, %p, %pK, %px, %ps, %pS, %pB, %pks, %pus, %pi4, %pI6, %%";
            return Some(format!("pass 8 bytes for each conversion; the kernel has {known}"));
        }
        if self.rejection.cause.case == Case::LostFrame {
            return Some("add the number to a copy of the pointer, instead of the pointer to the number".to_owned());
        }
        if matches!(self.rejection.cause.case, Case::NoFunctionTypes | Case::NoProgramTypes) {
            let names = "names of letters, digits and _ to all parameters and types";
            return Some(format!("compile with -g, and give {names}: the kernel refuses all types for one without"));
        }
        match self.rejection.reason {
            Reason::PossiblyNull => self.null_check(),
            Reason::PacketBounds => self.packet_check(),
            Reason::MapValueBounds => self.index_check(),
            Reason::UnboundedOffset => self.bound_number(),
            Reason::ArgumentSize => self.bound_size(),
            Reason::UnreleasedReference => self.release(),
            Reason::LockDiscipline => self.unlock(),
            Reason::ArgumentType => self.released(steps).or_else(|| self.copy_field()).or_else(|| self.special_field()),
            Reason::MapHelperMismatch => self.map_types(),
            Reason::HelperNotAllowed => self.other_types(),
            Reason::ContextAccess => self.fields(),
            Reason::ReturnValue => self.returns(),
            Reason::UninitializedRegister => self.initialize(steps),
            Reason::StackBounds | Reason::MemoryBounds => self.past_local().or_else(|| self.bound_local()),
            Reason::NotAPointer => self.keep_pointer(steps),
            Reason::BadInstruction => self.other_atomic(),
            _ => None,
        }
    }

    /// For a key or value that is smaller than its map's: both sizes. C passes pointers, so that nothing else compares them.
    fn size_of_argument(&self) -> Option<String> {
        if !matches!(self.rejection.reason, Reason::StackBounds | Reason::MapValueBounds | Reason::MemoryBounds) {
            return None;
        }
        let helper: &Helper = self.names.code.op(self.last().at).helper?;
        let reg = self.offending_register()?;
        let argument = helper.prototype.args.get(usize::from(reg.number()).checked_sub(1)?)?;
        let state = &self.last().state;
        let map = [Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5].into_iter().find_map(|reg| {
            let register = state.register(reg);
            (register.kind() == Kind::Map).then(|| self.names.map(register)).flatten()
        })?;
        let (what, wanted) = match argument {
            ArgKind::MapKey => ("keys", map.key_size),
            ArgKind::MapValue | ArgKind::UninitMapValue => ("values", map.value_size),
            _ => return None,
        };
        let value = self.offending_value()?;
        let there = match (value.kind(), value.fixed_offset()?) {
            (Kind::Stack, offset) => u32::try_from(-offset).ok()?,
            (Kind::MapValue, offset) => self.names.map(&value)?.value_size.checked_sub(u32::try_from(offset).ok()?)?,
            _ => return None,
        };
        let code = self.names.code;
        let line = code.object.line(code.op(self.last().at).node);
        let passed = line.and_then(|line| super::names::argument(line, helper.name, usize::from(reg.number()) - 1));
        let passed = passed.map(|name| name.trim_start_matches('&').to_owned()).or_else(|| self.variable());
        // A variable has a type; a place in it, or in a map's value, has what comes after it.
        let is_whole = value.kind() == Kind::Stack || value.fixed_offset() == Some(0);
        let advice = match passed.as_deref().is_none_or(is_variable) && is_whole {
            true => "give it the type that the map says".to_owned(),
            false => format!("pass a place with {wanted} bytes behind it"),
        };
        let source = passed.map_or_else(|| "what is passed".to_owned(), |name| format!("`{name}`"));
        (there < wanted).then(|| {
            format!("map `{}` has {what} of {wanted} bytes, and {source} has {there} at most: {advice}", map.name)
        })
    }

    /// For an operation on an arena that gives the old value.
    fn other_atomic(&self) -> Option<String> {
        let Insn::Atomic { fetch: true, op: AtomicOp::And | AtomicOp::Or | AtomicOp::Xor, address, .. } = self.insn()
        else {
            return None;
        };
        (self.last().state.register(address.base).kind() == Kind::Arena).then(|| {
            "ignore the old value, or compute the new one in a loop around __sync_val_compare_and_swap".to_owned()
        })
    }

    fn leave(&self) -> &'static str {
        match self.names.program_type {
            ProgramType::Xdp => "return XDP_PASS;",
            ProgramType::SchedCls | ProgramType::SchedAct => "return TC_ACT_OK;",
            _ => "return 0;",
        }
    }

    /// The variable that holds the offender, where its source line names one.
    fn variable(&self) -> Option<String> {
        let origin = self.origin_line()?;
        assigned(origin).map(str::to_owned)
    }

    fn origin_line(&self) -> Option<&kiln_program::SourceLine> {
        let value = self.offending_value()?;
        // The first instruction on the path after which a register holds this very thing.
        let at = self.path.iter().position(|visit| {
            let state = &visit.state;
            state.frames.iter().any(|frame| {
                frame.registers.iter().any(|register| {
                    register.kind() == value.kind() && register.id == value.id && register.is_pointer() && value.id != 0
                })
            })
        })?;
        let code = self.names.code;
        code.object.line(code.op(self.path.get(at.checked_sub(1)?)?.at).node)
    }

    fn null_check(&self) -> Option<String> {
        let name = self.variable().unwrap_or_else(|| "pointer".to_owned());
        Some(format!("check it before this line: `if (!{name}) {}`", self.leave()))
    }

    fn packet_check(&self) -> Option<String> {
        let value = self.offending_value()?;
        let (offset, bytes) = self.access()?;
        if value.kind() == Kind::PacketMeta {
            return Some(format!(
                "compare with the packet's start first: `if (meta + {} > data) {}`",
                i64::from(value.offset) + offset + bytes,
                self.leave()
            ));
        }
        let needed = i64::from(value.offset) + offset + bytes;
        if value.scalar.smin < 0 {
            return Some(format!(
                "make the number that is added unsigned and bound it, then compare: `if (pointer + {bytes} > data_end) {}`",
                self.leave()
            ));
        }
        if value.scalar.umax > MOST_PACKET_BYTES as u64 && value.scalar.as_constant().is_none() {
            return Some(format!(
                "bound the number before adding it: `if (offset > 1500) {}`; the kernel follows a packet for {MOST_PACKET_BYTES} \
                 bytes, so a comparison with data_end tells it nothing of a pointer that may be farther",
                self.leave()
            ));
        }
        if value.id != 0 && value.scalar.as_constant().is_none() {
            return Some(format!(
                "compare the moved pointer itself, after moving it: `if (pointer + {} > data_end) {}`",
                offset + bytes,
                self.leave()
            ));
        }
        if needed > MOST_PACKET_BYTES {
            return Some(format!(
                "bound the loop: the kernel follows {MOST_PACKET_BYTES} bytes of a packet at most; count the turns (`for (int i = \
                 0; i < N; i++)`) and compare with data_end inside of it"
            ));
        }
        let known = value.range;
        let so_far = if known == 0 {
            "no comparison with data_end covers it on this path".to_owned()
        } else {
            format!("the comparison on this path covers {known} bytes")
        };
        Some(format!("{so_far}; write `if (data + {needed} > data_end) {}` before this line", self.leave()))
    }

    /// Offset and bytes of the access, where the instruction is one.
    pub(super) fn access(&self) -> Option<(i64, i64)> {
        let (address, size) = match self.insn() {
            Insn::Load { address, size, .. } | Insn::LoadAcquire { address, size, .. } => (address, size),
            Insn::Store { address, size, .. } | Insn::StoreRelease { address, size, .. } => (address, size),
            Insn::Atomic { address, size, .. } => (address, size),
            _ => return None,
        };
        Some((i64::from(address.offset), i64::from(size.bytes())))
    }

    fn index_check(&self) -> Option<String> {
        let value = self.offending_value()?;
        let map = self.names.map(&value)?;
        let size = i64::from(map.value_size);
        if value.scalar.as_constant().is_some() {
            return Some(format!("the value of map `{}` has {size} bytes: bytes 0 to {}", map.name, size - 1));
        }
        let count = self.elements(&value)?;
        let mask = if count & (count - 1) == 0 && count > 1 {
            format!(", or mask it: `index &= {};`", count - 1)
        } else {
            String::new()
        };
        Some(format!(
            "bound the index just before this line, as an unsigned number: `if (index >= {count}) {}`{mask}",
            self.leave()
        ))
    }

    fn bound_number(&self) -> Option<String> {
        let Insn::Alu { op, src: Source::Reg(src), dst, .. } = self.insn() else { return None };
        let state = &self.last().state;
        let number = [*state.register(src), *state.register(dst)].into_iter().find(|it| !it.is_pointer())?;
        let signed = number.scalar.smin < 0;
        let what = if op == AluOp::Sub { "subtracting" } else { "adding" };
        let how = if signed {
            "it may be negative: make the variable unsigned, or compare it with 0 too"
        } else {
            "compare it with the largest value it may have"
        };
        Some(format!("bound the number before {what} it: {how}, in the same variable that is used here"))
    }

    fn bound_size(&self) -> Option<String> {
        let value = self.offending_value()?;
        let scalar = &value.scalar;
        if value.kind() != Kind::Scalar {
            return None;
        }
        let helper = self.names.code.op(self.last().at).helper.map(|helper| helper.name);
        if self.rejection.cause.case == Case::NotConstant {
            let other = match helper {
                Some("ringbuf_reserve") => ", or copy a record of any size with bpf_ringbuf_output",
                _ => "",
            };
            return Some(format!("pass a constant, such as the size of the largest record{other}"));
        }
        let has_bound = self.room_of_size().is_some_and(|room| scalar.umax <= room);
        Some(if scalar.smin < 0 {
            format!(
                "make the size unsigned and bound it: `if (size > sizeof(buffer)) {}`, or `size &= sizeof(buffer) - 1;` for a power of two",
                self.leave()
            )
        } else if scalar.umin == 0 && self.rejection.cause.case == Case::Zero {
            let (why, too_large) = match has_bound {
                true => ("leave when there is nothing to do", ""),
                false => ("bound the size from both sides, as an unsigned number", " || size > sizeof(buffer)"),
            };
            format!("{why}: `if (size == 0{too_large}) {}`", self.leave())
        } else {
            format!("bound it by the memory that is passed: `if (size > sizeof(buffer)) {}`", self.leave())
        })
    }

    /// Bytes behind the pointer that the argument before the size is, if it points to the stack at a constant place.
    fn room_of_size(&self) -> Option<u64> {
        let before = Reg::new(self.offending_register()?.number().checked_sub(1)?)?;
        let pointer = self.last().state.register(before);
        (pointer.kind() == Kind::Stack).then(|| u64::try_from(-pointer.fixed_offset()?).ok()).flatten()
    }

    /// For a timer or a lock that is not where the argument points.
    fn special_field(&self) -> Option<String> {
        let value = self.offending_value().filter(|value| value.kind() == Kind::MapValue && !value.nullable)?;
        let helper: &Helper = self.names.code.op(self.last().at).helper?;
        let index = usize::from(self.offending_register()?.number()).checked_sub(1)?;
        let field = match helper.prototype.args.get(index)? {
            ArgKind::Timer => "bpf_timer",
            ArgKind::SpinLock => "bpf_spin_lock",
            _ => return None,
        };
        let map = &self.names.map(&value)?.name;
        Some(format!(
            "give map `{map}` values of a structure with a member of type `struct {field}`, and pass that member's address"
        ))
    }

    fn release(&self) -> Option<String> {
        let held = self.last().state.references.first()?;
        let op = self.names.code.op(held.at);
        let name = op.helper.map(|helper| helper.name)?;
        let line = self.names.code.object.line(op.node);
        let variable = line.and_then(assigned).unwrap_or("it");
        let release = match name {
            "ringbuf_reserve" => format!("bpf_ringbuf_submit({variable}, 0) or bpf_ringbuf_discard({variable}, 0)"),
            "sk_lookup_tcp" | "sk_lookup_udp" | "skc_lookup_tcp" => format!("bpf_sk_release({variable})"),
            "ringbuf_reserve_dynptr" => "bpf_ringbuf_submit_dynptr or bpf_ringbuf_discard_dynptr".to_owned(),
            _ => return None,
        };
        Some(format!("call {release} on this path too, before it ends"))
    }

    fn other_types(&self) -> Option<String> {
        let helper: &Helper = self.names.code.op(self.last().at).helper?;
        if helper.allowed_in(self.names.program_type) {
            return None;
        }
        let allowed: Vec<_> =
            ProgramType::ALL.iter().filter(|known| helper.allowed_in(**known)).map(|known| known.name()).collect();
        if allowed.is_empty() {
            return None;
        }
        const SHOWN: usize = 8;
        let more = if allowed.len() > SHOWN { format!(" and {} more", allowed.len() - SHOWN) } else { String::new() };
        let shown = allowed[..allowed.len().min(SHOWN)].join(", ");
        Some(format!("bpf_{} is for programs of type {shown}{more}", helper.name))
    }

    /// For a field of the context that is passed where a helper takes memory.
    fn copy_field(&self) -> Option<String> {
        let value = self.offending_value().filter(|value| value.kind() == Kind::Context)?;
        let helper: &Helper = self.names.code.op(self.last().at).helper?;
        let index = usize::from(self.offending_register()?.number()).checked_sub(1)?;
        let takes_memory = helper.prototype.args.get(index).is_some_and(|kind| {
            matches!(kind, ArgKind::MapKey | ArgKind::MapValue | ArgKind::Memory(_) | ArgKind::FixedMemory { .. })
        });
        let field = self.names.memory(&value, 0);
        takes_memory.then(|| {
            format!("helpers do not read the context: copy {field} into a local variable, and pass its address")
        })
    }

    /// The types of maps that the helper is for.
    fn map_types(&self) -> Option<String> {
        if self.rejection.cause.case == Case::Sleeps {
            let types = "arrays, hashes, ring buffers, queues, stacks, local storage and arenas";
            return Some(format!("use another type of map ({types}), or a hook that does not sleep"));
        }
        let helper: &Helper = self.names.code.op(self.last().at).helper?;
        let types: Vec<_> =
            MapType::ALL.iter().filter(|known| known.allows_helper(helper)).map(|known| known.name()).collect();
        const SHOWN: usize = 8;
        let shown = (1..=SHOWN).contains(&types.len());
        shown.then(|| format!("bpf_{} is for maps of type {}", helper.name, types.join(", ")))
    }

    fn fields(&self) -> Option<String> {
        let value = self.offending_value()?;
        if value.kind() != Kind::Context {
            return None;
        }
        if value.scalar.as_constant().is_none() {
            return Some(
                "name each field: the kernel rewrites every access of the context, so none may have a variable index"
                    .to_owned(),
            );
        }
        let layout = self.names.program_type.context();
        let writes = matches!(self.insn(), Insn::Store { .. } | Insn::StoreRelease { .. });
        let attach = self.names.code.program.attach_type;
        let usable = |field: &&kiln_platform::Field| {
            let offset = i64::from(field.offset);
            [4, 8, 2, 1].iter().any(|width| layout.access_at(attach, offset, *width, writes).is_ok())
        };
        let fields: Vec<_> = layout.fields.iter().filter(usable).map(|field| field.name).collect();
        let what = if writes { "written" } else { "read" };
        if fields.is_empty() {
            return Some(format!("no field of struct {} may be {what} by this program type", layout.struct_name));
        }
        const SHOWN: usize = 10;
        let more = if fields.len() > SHOWN { ", ..." } else { "" };
        let shown = fields[..fields.len().min(SHOWN)].join(", ");
        Some(format!("fields of struct {} that may be {what} here: {shown}{more}", layout.struct_name))
    }

    fn returns(&self) -> Option<String> {
        if let Case::CallbackReturned { lowest, highest } = self.rejection.cause.case {
            return Some(match (lowest, highest) {
                (0, 0) => "return 0 from the callback".to_owned(),
                (0, 1) => "return 0 from the callback to go on, or 1 to end the loop".to_owned(),
                _ => format!("return a number from {lowest} to {highest} from the callback"),
            });
        }
        let attach = self.names.code.program.attach_type;
        match self.names.program_type.return_rule(attach) {
            ReturnRule::Range { minimum, maximum } if matches!(self.insn(), Insn::Exit) => {
                Some(format!("return a number from {minimum} to {maximum} on every path"))
            }
            _ => None,
        }
    }

    fn initialize(&self, steps: &[StoryStep]) -> Option<String> {
        let reg = self.offending_register()?;
        let index = reg.index();
        if index == 0 && matches!(self.insn(), Insn::Exit) {
            return Some("return a value on every path".to_owned());
        }
        let code = self.names.code;
        if let Some(callee) = code.op(self.last().at).callee.map(|callee| &code.functions[callee])
            && callee.global
        {
            let name = callee.name;
            return Some(format!(
                "use the argument in {name}, or make {name} static: clang passes nothing for one without a use"
            ));
        }
        if index <= 5 && steps.iter().any(|step| step.loss == Some(Loss::Destroyed)) {
            return Some("keep the value in a local variable across the call (r6 to r9 survive it)".to_owned());
        }
        None
    }

    /// For a helper that accesses more bytes than a local variable can have: both sizes.
    fn past_local(&self) -> Option<String> {
        let value = self.offending_value().filter(|value| value.kind() == Kind::Stack)?;
        let there = -value.fixed_offset()?;
        let code = self.names.code;
        let op = code.op(self.last().at);
        if let (None, Some((offset, _))) = (op.helper, self.access()) {
            let below = there - offset - i64::from(MAX_STACK_BYTES);
            return (below > 0).then(|| {
                format!("a frame has {MAX_STACK_BYTES} bytes, and this is {below} below: move large variables into a per-CPU array map")
            });
        }
        let Case::Access { bytes } = self.rejection.cause.case else { return None };
        let (helper, reg) = (op.helper?, self.offending_register()?);
        let index = usize::from(reg.number()).checked_sub(1)?;
        let writes = helper.prototype.args.get(index).is_some_and(|kind| kind.writes_memory());
        let line = code.object.line(op.node);
        let name = line.and_then(|line| argument(line, helper.name, index)).filter(|name| name.len() <= 40);
        let (what, size) = match name {
            Some(name) if !is_variable(name.trim_start_matches('&')) => (format!("`{name}`"), there.to_string()),
            Some(name) => (format!("`{name}`"), format!("sizeof({})", name.trim_start_matches('&'))),
            None => ("the variable".to_owned(), "its size".to_owned()),
        };
        let does = if writes { "writes" } else { "reads" };
        (0 < there && (there as u64) < bytes)
            .then(|| format!("bpf_{} {does} {bytes} bytes, and {what} has {there} at most: pass {size}", helper.name))
    }

    fn bound_local(&self) -> Option<String> {
        let value = self.offending_value()?;
        (value.scalar.as_constant().is_none() && value.is_pointer()).then(|| {
            // Beyond what a pointer may be moved by, no limit is known.
            const FAR: i64 = 1 << 32;
            let place = |bound: i64| match bound.saturating_add(i64::from(value.offset)) {
                at if at.abs() < FAR => Some(format!("byte {}", signed_plain(at))),
                _ => None,
            };
            let range = match (place(value.scalar.smin), place(value.scalar.smax)) {
                (Some(lowest), Some(highest)) => format!("from {lowest} to {highest}"),
                (Some(lowest), None) => format!("from {lowest} on"),
                (None, Some(highest)) => format!("up to {highest}"),
                (None, None) => "in memory".to_owned(),
            };
            format!("the pointer may be anywhere {range}: bound the index before it is added")
        })
    }

    /// For a kernel address that is a number to the verifier, in programs that trace.
    fn read_kernel_memory(&self, steps: &[StoryStep]) -> Option<String> {
        use ProgramType::{Kprobe, Lsm, PerfEvent, RawTracepoint, RawTracepointWritable, Tracepoint, Tracing};
        let tracing = [Kprobe, Lsm, PerfEvent, RawTracepoint, RawTracepointWritable, Tracepoint, Tracing];
        let value = self.offending_value().filter(|value| value.kind() == Kind::Scalar && !value.is_zero())?;
        if !tracing.contains(&self.names.program_type) || self.access().is_none() || value.scalar.umax <= 0xffff {
            return None;
        }
        if self.names.code.program.section.contains("sys_enter") {
            let copy = "copy what it points to with bpf_probe_read_user or bpf_probe_read_user_str";
            return Some(format!("an address of user space is a number here: {copy}"));
        }
        let task = steps.iter().any(|step| step.text.contains("bpf_get_current_task"));
        let typed =
            if task { ", or take the task from bpf_get_current_task_btf(), which may be read directly" } else { "" };
        Some(format!("a kernel address is a number here: read the field with BPF_CORE_READ(pointer, field){typed}"))
    }

    fn keep_pointer(&self, steps: &[StoryStep]) -> Option<String> {
        if steps.iter().any(|step| step.loss == Some(Loss::PacketMoved)) {
            return Some(format!(
                "read ctx->data and ctx->data_end again after that call, and compare again: `if (data + N > data_end) {}`",
                self.leave()
            ));
        }
        if let Some(help) = self.released(steps).or_else(|| self.read_kernel_memory(steps)) {
            return Some(help);
        }
        let value: Register = self.offending_value()?;
        value.is_zero().then(|| format!("it is null here: leave on that path first, `{}`", self.leave()))
    }

    fn released(&self, steps: &[StoryStep]) -> Option<String> {
        let released = steps.iter().find(|step| step.loss == Some(Loss::GivenUp))?;
        let place = released.line.as_ref().map_or(String::new(), |line| format!(" (line {})", line.line));
        Some(format!("use it before it is given up{place}, and release it once on each path"))
    }

    fn unlock(&self) -> Option<String> {
        if self.rejection.cause.case == Case::CallUnderLock {
            let helper = self.names.code.op(self.last().at).helper?;
            if helper.name == "spin_lock" {
                return Some(
                    "a program holds one lock at a time: unlock the first, or put both under one lock".to_owned(),
                );
            }
            return Some(format!(
                "call bpf_{} before the lock is taken, and keep its result in a variable",
                helper.name
            ));
        }
        matches!(self.insn(), Insn::Exit).then(|| "call bpf_spin_unlock on this path too, before it ends".to_owned())
    }
}

/// Whether an expression of C is a variable or a member of one, which has a size of its own.
fn is_variable(expression: &str) -> bool {
    expression.replace("->", ".").chars().all(|letter| letter.is_alphanumeric() || "_.[]".contains(letter))
}
