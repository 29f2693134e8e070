//! The check of an operation's native code by itself, before any program has marks of it.

use kiln_isa::operation::{Arch, Operation};

use crate::{aarch64, x86_64};

/// Checks the native code of an operation against the instructions that rows may use on each machine. Where a row does
/// not fit them, code for its marks is the proof sequence's.
///
/// # Errors
/// Returns what is wrong with the row: an instruction that the machine's table does not have, operands of other kinds, a
/// write of what is neither a result nor a temporary, an access to memory or a branch that the proof sequences lack.
pub fn check_operation(operation: &Operation) -> Result<(), String> {
    for native in operation.native {
        let check = match native.arch {
            Arch::X86_64 => x86_64::native::check,
            Arch::Aarch64 => aarch64::native::check,
        };
        check(native, operation).map_err(|what| format!("native code for {}: {what}", native.arch.name()))?;
    }
    Ok(())
}
