//! How to sandbox.

/// Where the result is to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Target {
    /// Linux, and the VM too.
    #[default]
    Linux,
    /// The VM only. It has a clock of its own, so the program does not read one: its `may_goto` is all that a cancellation
    /// point needs.
    Vm,
}

/// How to sandbox.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the result is to run.
    pub target: Target,
    /// Nanoseconds that one invocation may spend in loops, callees included, before it is cancelled. [`Target::Vm`] does not
    /// use it: whoever runs the program there says it.
    pub quantum_ns: u64,
    /// What a cancelled program returns; the default of its hook when `None`.
    pub cancelled_return: Option<i32>,
    /// Leave out guards and cancellation points that are unnecessary by the Facts.
    pub elide: bool,
    /// Once so many runs were cancelled, every further run returns at once, as if it were cancelled.
    pub detach_after: Option<u32>,
    /// Hide the numbers that a loop changes from the verifier in every iteration, not only where the loop is entered; see
    /// [`sandbox_for`](crate::sandbox_for). Costs two instructions per number and iteration.
    pub hide: bool,
    /// For tests: the terminate word cancels at this point only, in its first iteration.
    #[doc(hidden)]
    pub forced: Option<usize>,
    /// What the verifier assumes.
    pub verifier: kiln_verifier::Options,
}

impl Options {
    /// Nanoseconds that may pass in iterations of loops without a look at the clock.
    pub(crate) fn unseen_ns(&self) -> u64 {
        self.quantum_ns / 16
    }

    /// Nanoseconds that may pass besides.
    pub(crate) fn straight_ns(&self) -> u64 {
        self.quantum_ns / 8
    }

    /// The same, but the verifier gives up after so many instructions of a program.
    pub(crate) fn within(&self, insns: u64) -> Options {
        let verifier = kiln_verifier::Options { most_insns: Some(insns), ..self.verifier.clone() };
        Options { verifier, ..self.clone() }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            target: Target::default(),
            quantum_ns: 10_000_000,
            cancelled_return: None,
            elide: true,
            detach_after: None,
            hide: false,
            forced: None,
            verifier: kiln_verifier::Options::default(),
        }
    }
}
