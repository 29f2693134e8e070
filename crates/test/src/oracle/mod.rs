//! What must hold of any program, whoever wrote it.
//!
//! | oracle | what must agree | canary bug |
//! |---|---|---|
//! | [`codec`] | decoding and encoding, printing and parsing | an encoder that drops the offset of negative branches |
//! | [`engines`] | reference interpreter, VM interpreter, JIT, kernel | signed division taken for unsigned |
//! | [`facts`] | every concrete state and the verifier's facts | facts that forget the sign |
//! | [`liveness`] | a run, and the same run with everything dead spoiled | a register called dead that is not |
//! | [`safety`] | what the verifier accepts never faults | a verifier that believes every null check |
//! | [`rewrite`] | a program and its rewritten self | `w1 = -1; *(u64 *)(r10 - 8) = r1` stored as -1 |
//!
//! An oracle that finds nothing proves nothing unless it would have found something: each takes a [`Canary`], and the
//! tests and the fuzzer check that with it the bug is found.

pub mod codec;
pub mod engines;
pub mod facts;
pub mod liveness;
pub mod rewrite;
pub mod safety;

/// Whether an oracle is run with its canary bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Canary {
    /// As it is.
    Absent,
    /// With the bug that it must find.
    Present,
}

impl Canary {
    /// Whether the bug is there.
    pub fn is_present(self) -> bool {
        self == Canary::Present
    }
}

/// What an oracle says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// It held.
    Held,
    /// It does not speak of this input.
    NotApplicable(String),
    /// It did not hold.
    Broken(String),
}
