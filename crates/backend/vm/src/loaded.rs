//! Loaded programs.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use kiln_jit::llvm::Place;
use kiln_platform::ProgramType;
use kiln_program::{FunctionId, InsnId};

use crate::exec;
use crate::interface::{Error, Input};
use crate::packet::InputError;
use crate::state::State;

/// A verified program, ready to run.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) name: String,
    pub(crate) program_type: ProgramType,
    pub(crate) entry: FunctionId,
    pub(crate) compiled: Result<exec::Program, String>,
    /// Code of the function that handles its exceptions, if it has one.
    pub(crate) handler: Option<exec::Program>,
    /// Bytes of its context that it may access, where they are known: [`crate::context_reach`].
    pub(crate) context_reach: Option<u32>,
    /// How it is to be compiled.
    pub(crate) code_options: CodeOptions,
    /// What an optimizing compiler made of it, once that is done.
    pub(crate) native: Arc<OnceLock<exec::Program>>,
}

/// What compilers must know of a program.
#[derive(Clone, Debug)]
pub(crate) struct CodeOptions {
    /// [`kiln_jit::Options::cleared_bytes`].
    pub(crate) cleared_bytes: u32,
    /// [`kiln_jit::Options::metered`].
    pub(crate) metered: bool,
    /// [`kiln_jit::Options::blind`].
    pub(crate) blind: Option<u64>,
    /// What is known of the addresses that instructions access; `None`: the verifier can be asked.
    #[cfg_attr(not(feature = "native"), allow(dead_code, reason = "only the optimizing compiler asks"))]
    pub(crate) places: Option<HashMap<InsnId, Place>>,
    /// The function that handles the program's exceptions, if it names one.
    pub(crate) handler: Option<FunctionId>,
}

impl Loaded {
    /// The JIT's code.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if there is none.
    #[inline]
    pub(crate) fn jit(&self) -> Result<&exec::Program, Error> {
        self.compiled.as_ref().map_err(|what| self.lacks(what))
    }

    /// The optimizing compiler's code.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if there is none yet.
    #[inline]
    pub(crate) fn native(&self) -> Result<&exec::Program, Error> {
        self.native.get().ok_or_else(|| self.lacks("native code before Vm::load_native"))
    }

    /// The optimizing compiler's code if there is some, else the JIT's.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if there is neither.
    #[inline]
    pub(crate) fn code(&self) -> Result<&exec::Program, Error> {
        self.native.get().map_or_else(|| self.jit(), Ok)
    }

    #[cold]
    fn lacks(&self, what: &str) -> Error {
        Error::Unsupported { program: self.name.clone(), insn: None, what: what.to_owned() }
    }

    /// Gives a CPU a program's input.
    #[inline]
    pub(crate) fn prepare_run(&self, state: &mut State, input: &Input<'_>) -> Result<(), InputError> {
        self.begin(state);
        let State { packet, memory, .. } = state;
        packet.prepare(memory, self.program_type, input.packet, input.context, self.context_reach)
    }

    /// Gives a CPU no packet, for a run whose context is the caller's memory.
    #[inline]
    pub(crate) fn prepare_borrowed(&self, state: &mut State) {
        self.begin(state);
        state.packet.prepare_none(&mut state.memory);
    }

    /// Whether the program can run on a context of these bytes where it is.
    #[inline]
    pub(crate) fn can_borrow(&self, context: &[u8]) -> bool {
        self.context_reach.is_some_and(|reach| reach as usize <= context.len())
    }

    #[inline]
    fn begin(&self, state: &mut State) {
        state.output.clear();
        state.running = Some(self.program_type);
        state.clear_local_storage();
    }
}
