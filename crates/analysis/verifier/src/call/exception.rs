//! Exceptions: `bpf_throw(cookie)` ends the program at once, however deep its calls are.
//!
//! ```text
//!   SEC("tc") __exception_cb(handler)       btf_decl_tag("exception_callback:handler") on the program's function
//!   int filter(ctx)
//!     └─ check(n)  -> bpf_throw(7)          nothing may be held, in no frame; the frames are gone
//!   int handler(u64 cookie)                 runs with 7; what it returns, the program returns
//! ```
//!
//! Without a handler the cookie itself is returned, so it is held to the hook's rule for return values. A callback
//! must not throw, as the kernel code that calls it could not be unwound: neither directly nor through functions it
//! calls, on whatever path.

use kiln_isa::{Insn, Reg};
use kiln_platform::Feature;
use kiln_program::FunctionId;

use crate::code::ends::End;
use crate::code::parameter::Parameter;
use crate::code::{Code, ExceptionCallback, Op, Position};
use crate::error::{Step, reject};
use crate::path::{Findings, Next, Path};
use crate::reason::Reason;
use crate::state::Kind;
use crate::types::Types;

impl Path<'_> {
    /// `bpf_throw`: the path ends here.
    pub(crate) fn throw(&mut self) -> Step<Next> {
        let cookie = self.read(Reg::R1)?;
        if cookie.kind() != Kind::Scalar {
            return reject(Reason::ArgumentType, "bpf_throw takes a number");
        }
        if matches!(self.code.exception_callback, ExceptionCallback::Default) {
            self.findings.check_program_end(self.code, self.options, &self.types, &self.state, &cookie)?;
        } else {
            self.state.check_nothing_held(self.code, "an exception ends the program")?;
        }
        Ok(Next::Done)
    }

    /// Once all is explored: nothing calls the exception callback, and nothing ends a callback but its return.
    pub(crate) fn check_ends_of_callbacks(&mut self) -> Step<()> {
        let code = self.code;
        if !code.has_callees && matches!(code.exception_callback, ExceptionCallback::Default) {
            return Ok(());
        }
        let all = || (0..code.ops.len() as Position).map(|at| (at, code.op(at)));
        let calls = |op: &Op<'_>| {
            let is_called = op.callee.is_some_and(|callee| code.is_exception_callback(callee));
            is_called && matches!(op.node.insn, Insn::Call(_))
        };
        if let Some((at, _)) = all().find(|(_, op)| calls(op)) {
            self.at = at;
            return reject(Reason::Exception, "the exception callback is called directly");
        }
        let strict = self.options.kernel_has(Feature::CallbacksReturn);
        let mut ends = all().filter_map(|(at, op)| Some((at, op, End::of(op)?)));
        let wrong = ends
            .find(|(_, op, end)| (strict || *end == End::Throw) && self.findings.is_run_by_callback(code, op.function));
        let Some((at, _, end)) = wrong else { return Ok(()) };
        self.at = at;
        end.refuse()
    }
}

impl Findings {
    /// Checks what the program names as its exception callback; it is verified like any global function.
    pub(crate) fn begin_exceptions(&mut self, code: &Code<'_>, types: &Types) -> Step<()> {
        let callback = match &code.exception_callback {
            ExceptionCallback::Default => return Ok(()),
            ExceptionCallback::Bad(message) => return reject(Reason::Exception, message.clone()),
            ExceptionCallback::Function(callback) => *callback,
        };
        let name = code.functions[callback].name;
        let one_number =
            types.signatures[callback].as_ref().is_some_and(|known| known.parameters == [Parameter::Number]);
        if !one_number {
            return reject(Reason::Exception, format!("the exception callback {name} must take one number"));
        }
        if code.without_number[callback] {
            return reject(Reason::Exception, format!("the exception callback {name} must return a number"));
        }
        self.noted.callbacks[callback] = true;
        self.noted.globals_called.push((callback, false));
        Ok(())
    }

    /// Whether a callback is the function, or reaches it by calls.
    fn is_run_by_callback(&self, code: &Code<'_>, function: usize) -> bool {
        let mut reaching = vec![false; code.functions.len()];
        let mut pending = vec![function];
        while let Some(at) = pending.pop() {
            if std::mem::replace(&mut reaching[at], true) {
                continue;
            }
            pending.extend(code.ops.iter().filter(|op| op.callee == Some(at)).map(|op| op.function));
        }
        reaching.iter().zip(&self.noted.callbacks).any(|(reaching, callback)| *reaching && *callback)
    }
}

impl<'a> Code<'a> {
    pub(crate) fn is_exception_callback(&self, function: usize) -> bool {
        matches!(self.exception_callback, ExceptionCallback::Function(callback) if callback == function)
    }

    /// The function that runs when the program throws, if it names one.
    pub(crate) fn exception_callback_id(&self) -> Option<FunctionId> {
        match self.exception_callback {
            ExceptionCallback::Function(at) => self.functions.get(at).map(|function| function.id),
            _ => None,
        }
    }
}
