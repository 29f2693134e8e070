//! Verdicts, with their explanations as text and JSON.

use std::ffi::{CString, c_char};

use kiln_inspect::check::{self, Verdict};
use kiln_inspect::input::running_kernel_types;
use kiln_inspect::kernels::{self, Kernel, RunningTypes};
use kiln_linux::running;
use kiln_program::Error;

use crate::failure::{Failure, c_text, guard, kiln_status};
use crate::object::kiln_object;
use crate::pointer;

/// The verdicts on an object's programs.
pub struct kiln_check {
    programs: Vec<Program>,
    json: CString,
}

struct Program {
    name: CString,
    verdict: kiln_status,
    story: CString,
}

impl Program {
    fn new(name: &str, verdict: &Verdict) -> Program {
        let (status, story) = match verdict {
            Verdict::Accepted { processed_insns, .. } => {
                (kiln_status::KILN_OK, format!("accepted, {processed_insns} instructions processed"))
            }
            Verdict::Rejected { explanation, .. } => (kiln_status::KILN_REJECTED, explanation.clone()),
            Verdict::Invalid { reason } => (kiln_status::KILN_INVALID_INPUT, reason.to_string()),
            Verdict::Unsupported { reason } => (kiln_status::KILN_UNSUPPORTED, reason.to_string()),
        };
        Program { name: c_text(name), verdict: status, story: c_text(&story) }
    }
}

/// Verifies every program of an object. `kernel` is a release such as `5.15`, or `running`, and null for the newest that
/// Kiln describes. `KILN_OK` says that there are verdicts, whichever they are.
///
/// # Safety
/// `object` is an object, `kernel` null or a string, `check` a place for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_check_new(
    object: *const kiln_object,
    kernel: *const c_char,
    check: *mut *mut kiln_check,
) -> kiln_status {
    guard(|| {
        // SAFETY: an object, as the caller promises.
        let input = &unsafe { pointer::reference(object, "the object") }?.input;
        let programs = input.select(&[])?;
        let (programs, json) = if kernel.is_null() {
            let checked = check::check(input, &programs);
            let each = checked.iter().map(|one| Program::new(&one.program.to_string(), &one.verdict));
            (each.collect(), serde_json::to_string(&checked))
        } else {
            // SAFETY: a string, as the caller promises.
            let kernel: Kernel = unsafe { pointer::text(kernel, "the kernel") }?.parse().map_err(Failure::invalid)?;
            let ask = || running::profile(&[&input.object], running_kernel_types().as_deref());
            let profiles = kernels::profiles(&[kernel], ask)?;
            let matrix = kernels::check(input, &programs, &profiles, &RunningTypes, None)?;
            let each = matrix.programs.iter().map(|row| Program::new(&row.program.to_string(), &row.verdicts[0]));
            (each.collect(), serde_json::to_string(&matrix))
        };
        let json = json.map_err(|error| Error::Unsupported(error.to_string()))?;
        // SAFETY: a place for a handle, as the caller promises.
        unsafe { pointer::give_handle(check, kiln_check { programs, json: c_text(&json) }) }
    })
}

/// How many programs have a verdict; 0 for a null pointer.
///
/// # Safety
/// `check` is null or a check.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_check_count(check: *const kiln_check) -> usize {
    // SAFETY: a check, as the caller promises.
    unsafe { pointer::reference(check, "the check") }.map_or(0, |check| check.programs.len())
}

/// # Safety
/// As [`kiln_check_count`].
unsafe fn program<'a>(check: *const kiln_check, index: usize) -> Option<&'a Program> {
    // SAFETY: a check, as the caller promises.
    unsafe { pointer::reference(check, "the check") }.ok()?.programs.get(index)
}

/// The verdict on a program: `KILN_OK` is accepted. `KILN_INVALID_INPUT` also if there is no such program.
///
/// # Safety
/// `check` is null or a check.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_check_verdict(check: *const kiln_check, index: usize) -> kiln_status {
    // SAFETY: a check, as the caller promises.
    unsafe { program(check, index) }.map_or(kiln_status::KILN_INVALID_INPUT, |program| program.verdict)
}

/// The name of a program; null if there is no such program. Valid as long as the check.
///
/// # Safety
/// `check` is null or a check.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_check_name(check: *const kiln_check, index: usize) -> *const c_char {
    // SAFETY: a check, as the caller promises.
    unsafe { program(check, index) }.map_or(std::ptr::null(), |program| program.name.as_ptr())
}

/// The explanation of a verdict, as `kiln check` prints it; null if there is no such program. Valid as long as the check.
///
/// # Safety
/// `check` is null or a check.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_check_story(check: *const kiln_check, index: usize) -> *const c_char {
    // SAFETY: a check, as the caller promises.
    unsafe { program(check, index) }.map_or(std::ptr::null(), |program| program.story.as_ptr())
}

/// All verdicts as JSON, in the words of `kiln check --format json`: an array of programs, or with a kernel its table.
/// Null for a null pointer. Valid as long as the check.
///
/// # Safety
/// `check` is null or a check.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_check_json(check: *const kiln_check) -> *const c_char {
    // SAFETY: a check, as the caller promises.
    unsafe { pointer::reference(check, "the check") }.map_or(std::ptr::null(), |check| check.json.as_ptr())
}

/// Frees a check; null is none.
///
/// # Safety
/// `check` is null or a check that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_check_free(check: *mut kiln_check) {
    // SAFETY: as the caller promises.
    unsafe { pointer::free(check) }
}
