//! Immediates as numbers.

use kiln_isa::Width;

/// An immediate as the 64 bits a register holds after a move of it.
pub(crate) fn extended(width: Width, imm: i32) -> u64 {
    match width {
        Width::W32 => u64::from(imm as u32),
        Width::W64 => i64::from(imm) as u64,
    }
}
