//! Constant blinding: no constant of a program's author is in its machine code.
//!
//! Machine code that can be entered at any byte is a source of instructions that nobody verified: an attacker who can
//! already redirect a jump would aim it into the middle of an instruction, at an immediate that is an instruction itself.
//!
//! ```text
//!   r0 = 0x3cd31fb0      b8 b0 1f d3 3c            at byte 1: mov al, 0x1f ; rol dword [rsp + ..]
//!   the same, blinded    b8 5d 81 47 e2            a random number
//!                        35 ed 9e 94 de            another one; both together are the constant
//! ```
//!
//! Each use of a constant has a number of its own. As in the kernel (`bpf_jit_blind_constants`), shift amounts, of six
//! bits, and offsets of accesses, of sixteen, stay as they are. On 64-bit Arm, where no instruction begins in the middle
//! of another one, blinding hides constants in the same way.

/// Numbers that hide constants: as unpredictable as their seed.
#[derive(Clone, Debug)]
pub(crate) struct Keys(u64);

impl Keys {
    pub fn new(seed: u64) -> Keys {
        Keys(seed)
    }

    /// The next number. None of its bytes is zero, so that no byte of a constant stays as it is.
    pub fn next(&mut self) -> u32 {
        loop {
            // SplitMix64.
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            let key = (mixed ^ mixed >> 31) as u32;
            if key.to_le_bytes().iter().all(|byte| *byte != 0) {
                return key;
            }
        }
    }
}
