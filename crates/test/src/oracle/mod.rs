//! Properties that hold for every program.
//!
//! | oracle | what must agree | canary bug |
//! |---|---|---|
//! | [`codec`] | decoding and encoding, printing and parsing | an encoder that drops the offset of negative branches |
//! | [`engines`] | reference interpreter, VM interpreter, JIT, kernel | unsigned division instead of signed |
//! | [`facts`] | every concrete state and the verifier's facts | facts that forget the sign |
//! | [`liveness`] | a run, and the same run with all dead values overwritten | a live register that counts as dead |
//! | [`safety`] | an accepted program never faults | a verifier that trusts every null check |
//! | [`rewrite`] | a program and its rewritten form | `w1 = -1; *(u64 *)(r10 - 8) = r1` stored as -1 |
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
    /// Whether the bug is active.
    pub fn is_present(self) -> bool {
        self == Canary::Present
    }
}

/// What an oracle says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// It held.
    Held,
    /// It does not apply to this input.
    NotApplicable(String),
    /// It did not hold.
    Broken(String),
}
