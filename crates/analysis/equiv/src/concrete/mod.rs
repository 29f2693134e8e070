//! Concrete runs: the cheap judge that refutes.
//!
//! ```text
//!   Tester::new(&window, 24)     runs `before` on 24 inputs that the facts allow; keeps the final states
//!   tester.matches(&candidate)   runs the candidate on them, worst input first; stops at the first difference
//! ```
//!
//! An [`Input`] is registers and bytes at plain addresses, so that the reference interpreter can replay it. What the
//! original reads is invented when it reads it. A candidate may then touch only those bytes (and what the facts say
//! is readable), and store only where the original stored, or on the stack.

mod code;
mod invent;
mod tester;

use std::collections::BTreeMap;

use kiln_isa::Reg;
use kiln_program::Reference;
use kiln_verifier::Scalar;

pub use code::{Code, Memory, Op, Registers, calculate};
pub use tester::{Case, Difference, Tester};

/// A state before a window.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Input {
    /// R0 to R10.
    pub registers: [u64; Reg::COUNT],
    /// Bytes by address.
    pub memory: BTreeMap<u64, u8>,
    /// What `ld_imm64`s with references give.
    pub references: Vec<(Reference, u64)>,
}

/// A small deterministic generator (splitmix64): a run can be repeated.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// Below `limit`, which is not zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A number of the kind that breaks things: corners, small numbers, single bits, random ones.
    pub fn corner(&mut self) -> u64 {
        const CORNERS: [u64; 12] = [
            0,
            1,
            u64::MAX,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            0x1_0000_0000,
            i64::MAX as u64,
            i64::MIN as u64,
            0xffff_ffff_8000_0000,
            0xff,
            0x80,
        ];
        match self.below(8) {
            0 | 1 => CORNERS[self.below(CORNERS.len() as u64) as usize],
            2 => self.below(64),
            3 => 1 << self.below(64),
            4 => self.next() & 0xffff_ffff,
            _ => self.next(),
        }
    }

    /// A number that a scalar allows; `None` when none was found.
    pub fn scalar(&mut self, scalar: &Scalar) -> Option<u64> {
        let corners = [scalar.umin, scalar.umax, scalar.smin as u64, scalar.smax as u64];
        for attempt in 0..32 {
            let span = scalar.umax.wrapping_sub(scalar.umin).wrapping_add(1);
            let raw = match attempt {
                0 if self.below(3) == 0 => corners[self.below(4) as usize],
                _ if span != 0 && attempt % 2 == 0 => scalar.umin.wrapping_add(self.below(span)),
                _ => self.corner(),
            };
            let fitted = raw & scalar.tnum.mask | scalar.tnum.value;
            if let Some(value) = [raw, fitted].into_iter().find(|value| scalar.contains(*value)) {
                return Some(value);
            }
        }
        corners.into_iter().find(|value| scalar.contains(*value))
    }
}

/// Why a concrete run stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It touched memory that it may not.
    Memory,
    /// It read a register that may be uninitialised, or wrote R10.
    Register,
    /// It holds an instruction that has no concrete meaning here.
    Unsupported,
}
