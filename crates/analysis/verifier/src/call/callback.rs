//! Functions passed to helpers and kernel functions, which run them before they return or some time later.

use kiln_isa::Reg;
use kiln_platform::{SpecialType, helper_id};

use crate::call::said::{HelperEffect, KfuncCall, KfuncEffect};
use crate::code::Code;
use crate::error::{Step, refuse, reject, unsupported};
use crate::path::{Next, Path};
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::{Caller, Frame, Holds, Register, State};
use crate::types::Types;

/// A timer or the like, and the map passed with it, must be of the same map.
pub(crate) fn check_same_map(value: &Register, map: &Register) -> Step<()> {
    let same = value.map() == map.map() && value.inner == map.inner && value.owner == map.owner;
    if same {
        Ok(())
    } else {
        refuse(Reason::ArgumentType, Case::OtherMap, "the value is of another map than the map passed with it")
    }
}

/// How a callback runs that runs later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Later {
    /// The lowest result allowed.
    pub lowest: i64,
    /// The highest result allowed.
    pub highest: i64,
    /// Whether it may sleep.
    pub sleepable: bool,
}

impl Later {
    /// `bpf_timer`: in an interrupt.
    pub(crate) const TIMER: Later = Later { lowest: 0, highest: 0, sleepable: false };
    /// `bpf_wq`: in a thread of the kernel.
    const WORKQUEUE: Later = Later { lowest: 0, highest: 0, sleepable: true };
    /// `bpf_task_work`: in the task.
    const TASK_WORK: Later = Later { lowest: i32::MIN as i64, highest: i32::MAX as i64, sleepable: true };

    /// How what a kfunc arranges for runs.
    pub(crate) fn of(what: kiln_platform::Later) -> Later {
        match what {
            kiln_platform::Later::Workqueue => Later::WORKQUEUE,
            kiln_platform::Later::TaskWork => Later::TASK_WORK,
        }
    }
}

impl Path<'_> {
    /// A callback of a timer or the like, which runs some time later as a program of its own.
    pub(crate) fn run_later(&mut self, callback: Option<usize>, value: &Register, later: Later) -> Step<()> {
        let Some(callee) = callback else { return unsupported("this callback") };
        self.findings.noted.entered[callee] = true;
        self.findings.noted.callbacks[callee] = true;
        self.findings.noted.later_callbacks[callee] = true;
        let Later { lowest, highest, sleepable } = later;
        self.findings.noted.take_results(callee, lowest, highest);
        // The callback begins in the same state for every call that arranges it.
        let start = self.code.functions[callee].start;
        let outer = self.findings.liveness.root(self.code, 0);
        let instance = self.findings.liveness.callee(self.code, outer, start, callee);
        let mut frame = Frame::new(callee, 1, start, Caller::Later { lowest, highest }, instance);
        let of_map = |holds: fn(u32) -> Holds| Register {
            inner: value.inner,
            owner: value.owner,
            ..Register::pointer(holds(value.map().unwrap_or_default()))
        };
        frame.registers[1] = of_map(Holds::Map);
        frame.registers[2] = of_map(Holds::MapKey);
        frame.registers[3] = of_map(Holds::MapValue);
        // The frame below it never continues. It is there because the first frame is always the program's.
        let bottom = Frame::new(0, 0, start, Caller::Call, outer);
        let later_entries = self.state.later_entries + 1;
        // It does not continue this path, so no state kept on this path waits for it.
        let mut state = State { sleepable, later_entries, ..self.first_state(bottom) };
        state.frames.push(frame);
        self.push(state, start);
        Ok(())
    }
}

impl KfuncEffect<'_, '_> {
    /// Arranges a callback that a kernel function runs later.
    pub(crate) fn run_kfunc_later(&mut self, later: Later) -> Step<()> {
        let KfuncEffect { call, .. } = *self;
        let Some(value) = call.value else { return unsupported("this callback") };
        self.path.run_later(call.callback, &value, later)
    }
}

impl HelperEffect<'_, '_> {
    /// A helper that runs a function of the program any number of times before it returns.
    pub(crate) fn call_with_callback(&mut self) -> Step<Next> {
        let HelperEffect { helper, call, .. } = *self;
        let Some(callee) = call.callback else { return unsupported("this callback") };
        let arguments = &self.path.state.frame().registers;
        let (first, third, fourth) = (arguments[1], arguments[3], arguments[4]);
        let mut turns = u64::MAX;
        if helper.id == helper_id::LOOP {
            if first.is_pointer() {
                // The kernel wants to make it precise, and stops: "verifier bug: backtracking misuse".
                return reject(Reason::ArgumentType, "loop takes the number of turns, r1 is a pointer");
            }
            self.path.findings.mark_precise(&first);
            turns = first.scalar.umax;
        }
        if u64::from(self.path.state.frame().callback_turns) < turns {
            self.enter_callback(callee, [first, third, fourth])?;
        }
        self.path.state.frame_mut().callback_turns = 0;
        self.path.state.clobber();
        let result = self.result_of()?;
        self.path.state.set(Reg::R0, result);
        Ok(Next::At(self.path.at + 1))
    }

    /// One more turn of the function that the helper calls.
    fn enter_callback(&mut self, callee: usize, [first, third, fourth]: [Register; 3]) -> Step<()> {
        let HelperEffect { helper, call, .. } = *self;
        let mut frame = self.path.new_frame(callee, Caller::Callback { lowest: 0, highest: 1 })?;
        self.path.findings.noted.take_results(callee, 0, 1);
        match helper.id {
            helper_id::LOOP => {
                // 32 bits in truth; the kernel takes any number (`set_loop_callback_state`).
                frame.registers[1] = Register::UNKNOWN;
                frame.registers[2] = third;
            }
            helper_id::FOR_EACH_MAP_ELEM => {
                let Some(map) = call.map else { return unsupported("this callback") };
                let id = map.map().unwrap_or_default();
                let Register { inner, owner, .. } = map;
                let of_map = |holds: fn(u32) -> Holds| Register { inner, owner, ..Register::pointer(holds(id)) };
                frame.registers[1] = map;
                frame.registers[2] = of_map(Holds::MapKey);
                // Each element is another one, and so is its lock: kernels before 7.3 take all elements for one.
                frame.registers[3] = Register { id: self.path.fresh_id(), ..of_map(Holds::MapValue) };
                frame.registers[4] = third;
            }
            helper_id::USER_RINGBUF_DRAIN => {
                self.path.state.forget_orphaned_slices(self.path.options.stale_pointer());
                frame.registers[1] = self.path.borrowed_dynptr();
                frame.registers[2] = third;
            }
            helper_id::FIND_VMA => {
                frame.registers[1] = first;
                frame.registers[2] =
                    Register::pointer(Holds::Structure(self.path.types.kernel_struct("vm_area_struct")));
                frame.registers[3] = fourth;
            }
            _ => return unsupported(format!("the callback of {}", helper.name)),
        }
        self.path.push_callback(frame, callee)
    }
}

impl Path<'_> {
    /// The kernel removes a function that nothing enters as dead code, though its address is taken: a callback of no turns,
    /// or of no call. The address is then that of the function behind it. If none is there, the kernel fails to compile the
    /// other functions.
    pub(crate) fn check_removed_callbacks(&mut self) -> Step<()> {
        let noted = &self.findings.noted;
        let stays = |function: usize| function == 0 || noted.entered[function] || noted.calls_global(function);
        let count = self.code.functions.len();
        if (0..count).filter(|function| stays(*function)).count() < 2 {
            return Ok(());
        }
        let removed = |callee: usize| !(callee..count).any(stays);
        let first = noted.addresses.iter().filter(|(callee, _)| removed(**callee)).map(|(_, at)| *at).min();
        let Some(at) = first else { return Ok(()) };
        self.at = at;
        reject(
            Reason::Unreachable,
            "the function never runs: the kernel removes it, and then fails to compile the other functions",
        )
    }
}

impl Types {
    /// A field that a kernel function takes: a workqueue or task work in a map value, a lock there or in an object.
    pub(crate) fn check_field_of_kfunc(
        &mut self,
        code: &Code<'_>,
        call: &mut KfuncCall,
        register: &Register,
        kind: SpecialType,
    ) -> Step<()> {
        let message = format!("{} takes a {} in a map value", call.kfunc.name, kind.row().name);
        if kind == SpecialType::ResilientLock {
            return self.check_lock_argument(code, register, kind, message);
        }
        self.check_field_argument(code, register, kind, message)?;
        call.value = Some(*register);
        Ok(())
    }
}
