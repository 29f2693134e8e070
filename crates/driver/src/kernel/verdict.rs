//! The running kernel's verdicts, beside Kiln's own.

use kiln_inspect::Input;
use kiln_inspect::check::{Checked, KernelVerdict};
use kiln_program::{Object, Program};

/// Adds the running kernel's verdict to each of Kiln's. `checked` are the verdicts on `programs`, in their order.
pub fn add(checked: &mut [Checked], input: &Input, programs: &[&Program]) {
    for (checked, program) in checked.iter_mut().zip(programs) {
        checked.kernel = Some(verdict(&input.bytes, &input.object, program));
    }
}

/// Asks the running kernel, by loading the program and unloading it again.
pub fn verdict(bytes: &[u8], object: &Object, program: &Program) -> KernelVerdict {
    let loaded = if bytes.starts_with(b"\x7fELF") {
        super::load(bytes, object, program).map(|loaded| loaded.prog.info())
    } else {
        kiln_linux::load_image(object, program).map(|loaded| loaded.prog.info())
    };
    match loaded {
        Ok(info) => KernelVerdict::Accepted { processed_insns: info.map_or(0, |info| info.verified_insns) },
        Err(failure) => refused(&failure),
    }
}

/// What a failed load says of the program: what the verifier refuses has a log, or is too large for it to begin.
fn refused(failure: &kiln_linux::LoadFailure) -> KernelVerdict {
    const E2BIG: i32 = 7;
    let errno = failure.error.errno();
    match failure.reason() {
        Some(reason) => KernelVerdict::Rejected { reason: reason.into() },
        None if errno == Some(E2BIG) => KernelVerdict::Rejected { reason: failure.to_string().into() },
        None => KernelVerdict::NotAsked { reason: failure.to_string().into(), errno },
    }
}
