//! Fields of map values that only helpers may touch (locks, timers, kptrs), and functions passed to helpers.

use kiln_isa::Reg;
use kiln_platform::Helper;
use kiln_program::Map;
use kiln_program::btf::{Btf, Kind as BtfKind, TypeId};

use crate::arguments::Call;
use crate::error::{Step, reject, unsupported};
use crate::explain::Reason;
use crate::explore::{Explorer, Next};
use crate::state::{Caller, Kind, Register};

/// A field of a map's value that is not plain memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpecialField {
    pub name: String,
    pub offset: u64,
    pub size: u64,
}

/// Structures that the kernel gives a meaning inside map values.
const SPECIAL: [&str; 9] = [
    "bpf_spin_lock",
    "bpf_res_spin_lock",
    "bpf_timer",
    "bpf_wq",
    "bpf_task_work",
    "bpf_list_head",
    "bpf_list_node",
    "bpf_rb_root",
    "bpf_refcount",
];

/// The special fields of a map's value.
pub(crate) fn special_fields(btf: Option<&Btf>, map: &Map) -> Vec<SpecialField> {
    let mut fields = Vec::new();
    if let (Some(btf), true) = (btf, map.value_btf != 0) {
        collect(btf, TypeId(map.value_btf), 0, 0, &mut fields);
    }
    fields
}

fn collect(btf: &Btf, id: TypeId, offset: u64, depth: usize, fields: &mut Vec<SpecialField>) {
    if depth > 8 || fields.len() > 64 {
        return;
    }
    let Some(id) = btf.without_qualifiers(id) else { return };
    match btf.kind(id) {
        BtfKind::Composite { size, .. } => {
            let name = btf.name(id);
            if SPECIAL.contains(&name) {
                fields.push(SpecialField { name: name.to_owned(), offset, size: u64::from(*size) });
                return;
            }
            for member in btf.members(id) {
                collect(btf, member.type_id, offset + u64::from(member.bit_offset / 8), depth + 1, fields);
            }
        }
        BtfKind::Typedef { target } => collect(btf, *target, offset, depth + 1, fields),
        BtfKind::Array { element, count, .. } => {
            let size = btf.size_of(*element).unwrap_or(0);
            for index in 0..u64::from(*count).min(16) {
                collect(btf, *element, offset + index * size, depth + 1, fields);
            }
        }
        BtfKind::Section { .. } => {
            for variable in btf.variables(id) {
                if let BtfKind::Variable { target, .. } = btf.kind(variable.type_id) {
                    collect(btf, *target, offset + u64::from(variable.offset), depth + 1, fields);
                }
            }
        }
        BtfKind::Pointer { target } => {
            if let BtfKind::TypeTag { .. } = btf.kind(*target)
                && matches!(btf.name(*target), "kptr" | "kptr_untrusted" | "percpu_kptr" | "uptr")
            {
                fields.push(SpecialField { name: btf.name(*target).to_owned(), offset, size: 8 });
            }
        }
        _ => {}
    }
}

impl Explorer<'_> {
    /// A plain access does not touch special fields.
    pub(crate) fn check_special_fields(&self, base: &Register, offset: i64, bytes: u64) -> Step<()> {
        let Some(fields) = self.special.get(base.object as usize).filter(|fields| !fields.is_empty()) else {
            return Ok(());
        };
        if base.inner {
            return unsupported("inner maps with special fields");
        }
        let start = i128::from(base.scalar.smin) + i128::from(i64::from(base.offset) + offset);
        let end = i128::from(base.scalar.umax) + i128::from(i64::from(base.offset) + offset) + i128::from(bytes);
        for field in fields {
            if start < i128::from(field.offset + field.size) && i128::from(field.offset) < end {
                if field.name.starts_with("kptr") || field.name == "percpu_kptr" || field.name == "uptr" {
                    return unsupported("kptrs in maps");
                }
                return reject(Reason::SpecialField, format!("the access overlaps the value's {}", field.name));
            }
        }
        Ok(())
    }

    /// Maps with locks and timers are not for every program type.
    pub(crate) fn check_map_allowed(&self, map: u32) -> Step<()> {
        use kiln_platform::ProgramType;
        let traces = matches!(
            self.program_type,
            ProgramType::Kprobe
                | ProgramType::Tracepoint
                | ProgramType::PerfEvent
                | ProgramType::RawTracepoint
                | ProgramType::RawTracepointWritable
        );
        for field in self.special.get(map as usize).into_iter().flatten() {
            let refused = match field.name.as_str() {
                "bpf_timer" | "bpf_wq" | "bpf_list_head" | "bpf_rb_root" => traces,
                "bpf_spin_lock" | "bpf_res_spin_lock" => {
                    traces || self.program_type == ProgramType::SocketFilter && field.name == "bpf_spin_lock"
                }
                _ => false,
            };
            if refused {
                return reject(
                    Reason::SpecialField,
                    format!("{} programs cannot use maps with a {}", self.program_type.name(), field.name),
                );
            }
        }
        Ok(())
    }

    pub(crate) fn check_special_argument(&self, register: &Register, name: &str, message: String) -> Step<()> {
        if register.kind != Kind::MapValue {
            if matches!(register.kind, Kind::BtfId) {
                return unsupported("locks in allocated objects");
            }
            return reject(Reason::ArgumentType, message);
        }
        let Some(fixed) = register.fixed_offset() else {
            return reject(Reason::ArgumentType, format!("{message}: its offset is not constant"));
        };
        let fields = self.special.get(register.object as usize);
        let found = fields.into_iter().flatten().any(|field| field.name == name && field.offset as i64 == fixed);
        if found { Ok(()) } else { reject(Reason::ArgumentType, format!("{message}: there is none at offset {fixed}")) }
    }

    pub(crate) fn change_lock(&mut self, helper: &Helper, lock: &Register) -> Step<()> {
        let held = (lock.kind, lock.object, lock.id);
        if helper.name == "spin_lock" {
            if self.state.lock.is_some() {
                return reject(Reason::LockDiscipline, "a second lock is taken while one is held");
            }
            self.state.lock = Some(held);
            return Ok(());
        }
        match self.state.lock.take() {
            Some(taken) if taken == held => Ok(()),
            Some(_) => reject(Reason::LockDiscipline, "another lock is given up than the one that is held"),
            None => reject(Reason::LockDiscipline, "a lock is given up that is not held"),
        }
    }

    /// A timer's callback: a program of its own that runs some time later.
    pub(crate) fn run_later(&mut self, call: &Call) -> Step<()> {
        let Some(callee) = call.callback else { return unsupported("this callback") };
        self.callbacks[callee] = true;
        let timer = *self.state.register(Reg::R1);
        let mut frame = crate::state::Frame::new(callee, 0, self.at, Caller::Later { lowest: 0, highest: 0 });
        let of_map = |kind| Register { inner: timer.inner, ..Register::pointer(kind, timer.object) };
        frame.registers[1] = of_map(Kind::Map);
        frame.registers[2] = of_map(Kind::MapKey);
        frame.registers[3] = of_map(Kind::MapValue);
        // A frame below it, which never runs on, keeps the rule that a first frame is the program's.
        let bottom = crate::state::Frame::new(0, 0, self.at, Caller::Call);
        frame.registers[10] = Register::pointer(Kind::Stack, 1);
        let state = crate::state::State {
            frames: vec![bottom, frame],
            parent: self.state.parent,
            ..crate::state::State::default()
        };
        let start = self.code.functions[callee].start;
        self.push(state, start)
    }

    /// A helper that runs a function of the program any number of times before it returns.
    pub(crate) fn call_with_callback(&mut self, helper: &'static Helper, call: &Call) -> Step<Next> {
        let Some(callee) = call.callback else { return unsupported("this callback") };
        let arguments = &self.state.frame().registers;
        let (first, third) = (arguments[1], arguments[3]);
        let mut frame = self.new_frame(callee, Caller::Callback { lowest: 0, highest: 1 })?;
        match helper.name {
            "loop" => {
                self.mark_precise(&first);
                frame.registers[1] = Register::scalar(crate::domain::Scalar::of_width(32));
                frame.registers[2] = third;
            }
            "for_each_map_elem" => {
                let Some(map) = call.map else { return unsupported("this callback") };
                let of_map = |kind| Register { inner: map.inner, ..Register::pointer(kind, map.object) };
                frame.registers[1] = map;
                frame.registers[2] = of_map(Kind::MapKey);
                frame.registers[3] = of_map(Kind::MapValue);
                frame.registers[4] = third;
            }
            "user_ringbuf_drain" => {
                self.forget_orphaned_slices();
                frame.registers[1] = self.borrowed_dynptr();
                frame.registers[2] = third;
            }
            _ => return unsupported(format!("the callback of {}", helper.name)),
        }
        let turns = if helper.name == "loop" { first.scalar.umax } else { u64::MAX };
        if u64::from(self.state.frame().callback_turns) < turns {
            let mut inside = self.state.clone();
            inside.callback_depth += 1;
            inside.frame_mut().callback_turns += 1;
            inside.frames.push(frame);
            let start = self.code.functions[callee].start;
            self.push(inside, start)?;
        }
        self.state.frame_mut().callback_turns = 0;
        self.clobber();
        let prototype = helper.prototype_for(self.program_type);
        let result = self.result_of(helper, prototype, call)?;
        self.state.set(Reg::R0, result);
        Ok(Next::At(self.at + 1))
    }
}
