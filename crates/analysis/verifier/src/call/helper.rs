//! Helper calls: whether the helper may be called here, and what the call does.

use kiln_isa::Reg;
use kiln_platform::{AttachType, Effect, Feature, Fills, Helper, ProgramType, Prototype, helper_id};

use crate::call::callback::Later;
use crate::call::checked::Check;
use crate::call::said::{Call, HelperEffect};
use crate::code::Code;
use crate::code::ends::End;
use crate::domain::Scalar;
use crate::error::{Step, refuse, reject, unsupported};
use crate::options::Options;
use crate::path::{Next, Path};
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::{Caller, DynptrKind, Kind, LockKind, Register, State};
use crate::types::Types;
use crate::types::hook::{HookReturn, MAX_ERRNO, lsm_range};

impl Path<'_> {
    pub(crate) fn call_helper(&mut self, number: u32) -> Step<Next> {
        let Some(helper) = self.code.op(self.at).helper else {
            if let Some(asked) = self.code.missing_in_kernel(self.at) {
                return reject(Reason::KernelLacks, format!("this kernel has no {asked}, which CO-RE asks for"));
            }
            return reject(Reason::HelperNotAllowed, format!("there is no helper number {number}"));
        };
        self.code.check_allowed(self.options, &self.types, helper)?;
        self.options.check_helper_privilege(helper)?;
        let prototype = helper.prototype_for(self.code.program_type);
        self.code.check_licence(self.options, &self.state, helper, prototype)?;
        let exchanges = helper.id == helper_id::KPTR_XCHG && self.options.kernel_has(Feature::ExchangesUnderLock);
        if !self.state.locks.is_empty() && helper.id != helper_id::SPIN_UNLOCK && !exchanges {
            let message = format!("{} is called while a lock is held", helper.name);
            return refuse(Reason::LockDiscipline, Case::CallUnderLock, message);
        }
        let mut call = Call::default();
        Check::all(self, helper, prototype, &mut call)?;
        self.code.check_map_fits(self.options, helper, &call)?;
        if helper.id == helper_id::SNPRINTF {
            self.check_format()?;
        }
        for (frame, lowest, length) in std::mem::take(&mut call.fills) {
            self.fill_stack_bytes(frame, lowest, length, helper.fills == Fills::Always)?;
        }
        HelperEffect { path: self, helper, prototype, call: &call }.carry_out()
    }

    /// Newer kernels hold the value that a program sets to what its hook may return.
    fn check_set_retval(&mut self, value: &Register) -> Step<()> {
        if !self.options.kernel_has(Feature::CheckedSetRetval) {
            return Ok(());
        }
        let Some((lowest, highest)) = self.retval_range()? else { return Ok(()) };
        self.findings.mark_precise(value);
        if value.scalar.s32_min < lowest || value.scalar.s32_max > highest {
            let message = format!("set_retval takes {lowest} to {highest} here, r1 may be something else");
            return reject(Reason::ReturnValue, message);
        }
        Ok(())
    }

    /// What the hook may return to user space, where it may not be anything.
    fn retval_range(&self) -> Step<Option<(i32, i32)>> {
        Ok(match self.code.program.attach_type {
            Some(AttachType::CgroupGetsockopt) => None,
            Some(AttachType::LsmCgroup) => match lsm_range(&self.types.hook(self.code)?.name) {
                HookReturn::Range(lowest, highest) => Some((lowest, highest)),
                _ => Some((-MAX_ERRNO, 0)),
            },
            _ => Some((-MAX_ERRNO, 0)),
        })
    }

    fn tail_call(&mut self) -> Step<()> {
        self.state.check_nothing_held(self.code, "a tail call is made")?;
        if self.code.functions.len() > 1 {
            self.options.check_feature_in_profile(Feature::TailCallsWithFunctions)?;
        }
        let map = self.state.register(Reg::R2).map().unwrap_or_default();
        self.findings.check_tail_call_map(self.options, self.at, map)?;
        let index = *self.state.register(Reg::R3);
        // The kernel makes such a call a jump where the index is a constant of the map (`record_func_key`).
        let entries = self.code.map_of(self.state.register(Reg::R2)).map_or(0, |map| u64::from(map.max_entries));
        if index.scalar.as_constant().is_some_and(|index| index < entries) {
            self.findings.mark_precise(&index);
        }
        Ok(())
    }

    /// Where a tail call of a function succeeds, another program runs in place of the function, and returns to its
    /// caller; the kernel follows this path first.
    fn return_from_tail_call(&mut self) -> Step<Next> {
        self.state.check_returns_number(self.code)?;
        if self.state.frame().caller != Caller::Call {
            return match self.options.kernel_has(Feature::CallbacksReturn) {
                true => End::TailCall.refuse(),
                false => unsupported("tail calls in callbacks"),
            };
        }
        self.push(self.state.clone(), self.at + 1);
        self.state.packet_bytes = 0;
        let stale = self.options.stale_pointer();
        self.state.for_each_where(Register::is_packet, |register| *register = stale);
        self.state.set(Reg::R0, Register::UNKNOWN);
        self.exit()
    }
}

impl HelperEffect<'_, '_> {
    /// What the call does, once its arguments are right.
    fn carry_out(&mut self) -> Step<Next> {
        let HelperEffect { helper, call, .. } = *self;
        self.release()?;
        if helper.runs_callback() {
            return self.call_with_callback();
        }
        let before = *self.path.state.register(Reg::R1);
        match helper.id {
            helper_id::TAIL_CALL => self.path.tail_call()?,
            helper_id::SPIN_LOCK => self.path.state.take_lock(self.path.code, LockKind::Spin, &before, self.path.at)?,
            helper_id::SPIN_UNLOCK => self.path.give_up_lock(LockKind::Spin, &before)?,
            helper_id::SET_RETVAL => self.path.check_set_retval(&before)?,
            helper_id::TIMER_SET_CALLBACK => self.path.run_later(call.callback, &before, Later::TIMER)?,
            helper_id::DYNPTR_FROM_MEM if before.kind() != Kind::MapValue => {
                let message = format!("dynptr_from_mem takes a map's value, r1 is {}", before.kind().name());
                return reject(Reason::ArgumentType, message);
            }
            _ => {}
        }
        let mut result = self.result_of()?;
        // Some LSM hooks return nothing, and of them nothing is known.
        if helper.id == helper_id::GET_RETVAL
            && self.path.code.program_type != ProgramType::Lsm
            && self.path.options.kernel_has(Feature::KnownRetval)
            && let Some((lowest, highest)) = self.path.retval_range()?
        {
            result = Register::scalar(Scalar::signed_range(lowest.into(), highest.into()));
        }
        self.path.state.clobber();
        let writes_packet = helper.id == helper_id::DYNPTR_WRITE
            && call.dynptr.is_some_and(|dynptr| matches!(dynptr.kind, DynptrKind::Skb | DynptrKind::SkbMeta));
        if helper.changes_packet_data || writes_packet {
            self.path.state.forget_packet(self.path.options.stale_pointer());
        }
        self.path.state.set(Reg::R0, result);
        if helper.returns_size && !self.path.options.kernel_has(Feature::OneResult) {
            self.path.fork_by_sign(call.most_bytes);
        }
        if helper.id == helper_id::TAIL_CALL && self.path.state.frames.len() > 1 {
            return self.path.return_from_tail_call();
        }
        Ok(Next::At(self.path.at + 1))
    }

    fn release(&mut self) -> Step<()> {
        let HelperEffect { helper, call, .. } = *self;
        match call.released {
            Some(id) if call.kptr.is_some() => self.path.state.give_to_kptr(
                &mut self.path.findings,
                self.path.options.stale_pointer(),
                id,
                helper.name,
            ),
            Some(id) => self.path.state.release_reference(
                &mut self.path.findings,
                self.path.options.stale_pointer(),
                id,
                helper.name,
            ),
            None => Ok(()),
        }
    }
}

impl<'a> Code<'a> {
    fn check_allowed(&self, options: &Options, types: &Types, helper: &Helper) -> Step<()> {
        let allowed = match self.program.attach_type {
            Some(attach) => helper.allowed_at(self.program_type, attach),
            None => helper.allowed_in(self.program_type),
        };
        if types.hook_allows(self, helper.name, allowed) {
            return options.check_helper_in_profile(self, helper);
        }
        reject(
            Reason::HelperNotAllowed,
            format!("{} may not be called by {} programs", helper.name, self.program_type.name()),
        )
    }

    /// Whether a helper that sleeps only in programs that may sleep does so in this one. The kernel asks the program, so in
    /// its timers' callbacks, too.
    pub(crate) fn sleeps_where_it_may(&self, options: &Options, helper: &Helper) -> bool {
        self.program.sleepable
            && matches!(helper.id, helper_id::GET_STACK | helper_id::GET_TASK_STACK)
            && options.kernel_has(Feature::SleepingTraces)
    }

    fn check_licence(&self, options: &Options, state: &State, helper: &Helper, prototype: &Prototype) -> Step<()> {
        if prototype.gpl_only && !self.is_gpl() {
            return reject(
                Reason::GplOnly,
                format!(
                    "{} is for GPL-compatible programs, this one's license is {:?}",
                    helper.name, self.object.license
                ),
            );
        }
        if prototype.might_sleep || self.sleeps_where_it_may(options, helper) {
            return state.check_may_sleep(helper.name);
        }
        Ok(())
    }

    fn check_map_fits(&self, options: &Options, helper: &Helper, call: &Call) -> Step<()> {
        let Some(map) = call.map.as_ref().and_then(|register| self.map_of(register)) else { return Ok(()) };
        // `BPF_F_RDONLY_PROG` (kernel `record_func_map`).
        if map.is_read_only() && helper.effect == Effect::ChangesItsMap {
            return reject(Reason::ReadOnlyMemory, format!("map {} is read-only: {} writes it", map.name, helper.name));
        }
        let unsafe_now =
            map.map_type.may_lock_sockets(helper, self.program_type) && options.kernel_has(Feature::SafeSocketMaps);
        if !unsafe_now && map.map_type.allows_helper_in(helper, self.program_type, self.program.attach_type) {
            return Ok(());
        }
        reject(
            Reason::MapHelperMismatch,
            format!("{} cannot be used with map {} of type {}", helper.name, map.name, map.map_type.name()),
        )
    }
}
