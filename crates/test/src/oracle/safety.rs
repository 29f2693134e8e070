//! An accepted program does not fault.

use kiln_isa::{Insn, JumpOp, Source};
use kiln_program::{Interpreter, Object, Program, Trap};
use kiln_verifier::{Facts, Options, verify};

use super::{Canary, Finding};
use crate::bare::{Bare, CONTEXT};
use crate::engine::BUDGET;

/// Verifies a program. Returns the result, or why the oracles that run programs do not apply.
///
/// # Errors
/// [`Finding::NotApplicable`].
pub fn accepted(object: &Object, program: &Program) -> Result<Facts, Finding> {
    match verify(object, program, &Options::default()) {
        Ok(verified) => Ok(verified.facts),
        Err(error) => Err(Finding::NotApplicable(error.to_string())),
    }
}

/// Whether a run of an accepted program on this packet ends well. The canary: the program that runs lacks the
/// comparisons with zero and with the end of the packet, on which safety depends.
pub fn does_not_fault(object: &Object, program: &Program, packet: &[u8], canary: Canary) -> Finding {
    let unchecked = canary.is_present().then(|| without_checks(object));
    let object = unchecked.as_ref().unwrap_or(object);
    let mut bare = Bare::new(object, program.program_type, packet);
    match Interpreter::new(object).run(program.entry, CONTEXT, &mut bare, BUDGET) {
        Ok(_) => Finding::Held,
        Err(Trap::Fault { fault: kiln_program::interpret::Fault::Unsupported(what), .. }) => {
            Finding::NotApplicable(what)
        }
        Err(Trap::Budget { .. }) => Finding::NotApplicable("a long run".to_owned()),
        Err(trap) => {
            Finding::Broken(format!("an accepted program traps: {trap}\n{}", kiln_program::text::listing(object)))
        }
    }
}

/// Every ordered comparison of two registers falls through, so the verifier's checks are missing at run time.
fn without_checks(object: &Object) -> Object {
    let mut object = object.clone();
    for node in object.functions.iter_mut().flat_map(|function| &mut function.nodes) {
        if let Insn::Branch { op, src, dst, .. } = &mut node.insn {
            let ordered = !matches!(op, JumpOp::Eq | JumpOp::Ne | JumpOp::Set);
            if let (true, Source::Reg(_)) = (ordered, *src) {
                (*op, *src) = (JumpOp::Ne, Source::Reg(*dst));
            }
        }
    }
    object
}
