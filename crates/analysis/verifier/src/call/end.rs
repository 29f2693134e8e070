//! Where a path ends or leaves a function: nothing is held, and what is returned may be.

use kiln_platform::{AttachType, Feature, ReturnRule};

use crate::code::Code;
use crate::domain::Scalar;
use crate::error::{Step, refuse, reject};
use crate::options::Options;
use crate::path::Findings;
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::{Kind, Register, State};
use crate::types::Types;
use crate::types::hook::HookReturn;

impl State {
    pub(crate) fn check_nothing_held(&self, code: &Code<'_>, when: &str) -> Step<()> {
        if let Some(held) = self.references.first() {
            let op = code.op(held.at);
            let site = op.helper.map_or_else(|| op.node.insn.to_string(), |helper| format!("bpf_{}", helper.name));
            return reject(
                Reason::UnreleasedReference,
                format!(
                    "{when} while the reference acquired by `{site}` (slot {}) is held",
                    code.slots()[held.at as usize]
                ),
            );
        }
        if !self.locks.is_empty() {
            return reject(Reason::LockDiscipline, format!("{when} while a lock is held"));
        }
        self.check_sections_left(when)
    }
}

impl Findings {
    pub(crate) fn check_program_end(
        &mut self,
        code: &Code<'_>,
        options: &Options,
        types: &Types,
        state: &State,
        result: &Register,
    ) -> Step<()> {
        state.check_nothing_held(code, "the program ends")?;
        let rule = code.program_type.return_rule(code.program.attach_type);
        match types.allowed_results(code, options)? {
            Some((minimum, maximum)) => self.check_returned_range(result, minimum, maximum),
            None if rule == ReturnRule::AnyScalar || code.program.replaces.is_some() => {
                options.check_leak(result, "is returned")
            }
            None => Ok(()),
        }
    }

    pub(crate) fn check_returned_range(&mut self, result: &Register, minimum: i32, maximum: i32) -> Step<()> {
        if result.kind() != Kind::Scalar {
            return reject(Reason::ReturnValue, "r0 is a pointer at the end of the program");
        }
        self.mark_precise(result);
        let Scalar { s32_min, s32_max, .. } = result.scalar;
        if s32_min < minimum || s32_max > maximum {
            return refuse(
                Reason::ReturnValue,
                Case::Returned { lowest: minimum.into(), highest: maximum.into() },
                match s32_min == s32_max {
                    true => format!("the program may return {s32_min}, allowed are {minimum} to {maximum}"),
                    false => {
                        format!("the program may return {s32_min} to {s32_max}, allowed are {minimum} to {maximum}")
                    }
                },
            );
        }
        Ok(())
    }

    pub(crate) fn check_callback_result(&mut self, result: &Register, lowest: i64, highest: i64) -> Step<()> {
        self.mark_precise(result);
        let inside = result.kind() == Kind::Scalar && lowest <= result.scalar.smin && result.scalar.smax <= highest;
        if inside {
            return Ok(());
        }
        let message = format!("the callback may return other values than {lowest} to {highest}");
        refuse(Reason::ReturnValue, Case::CallbackReturned { lowest, highest }, message)
    }
}

impl Types {
    /// The lowest and the highest value that the program may return; `None` if its hook takes any, or nothing.
    pub(crate) fn allowed_results(&self, code: &Code<'_>, options: &Options) -> Step<Option<(i32, i32)>> {
        if code.program.replaces.is_some() {
            return Ok(None);
        }
        Ok(match options.profile.return_rule(code.program_type, code.program.attach_type) {
            ReturnRule::AnyScalar => None,
            ReturnRule::Range { minimum, maximum } => Some((minimum, maximum)),
            ReturnRule::DependsOnHook => match self.hook_return(code)? {
                // A cgroup's programs have been held to it from the first.
                HookReturn::Range(minimum, maximum)
                    if options.kernel_has(Feature::HookReturnValues)
                        || code.program.attach_type == Some(AttachType::LsmCgroup) =>
                {
                    Some((minimum, maximum))
                }
                HookReturn::Nothing | HookReturn::Any | HookReturn::Range(..) => None,
            },
        })
    }

    /// Whether what is in R0 at the end is of no interest: the hook returns nothing.
    pub(crate) fn returns_nothing(&self, code: &Code<'_>) -> bool {
        if code.program.replaces.is_some() {
            return self.signatures[0].as_ref().is_some_and(|signature| signature.returns_nothing);
        }
        let rule = code.program_type.return_rule(code.program.attach_type);
        rule == ReturnRule::DependsOnHook && matches!(self.hook_return(code), Ok(HookReturn::Nothing))
    }
}
