//! Loaded programs.

use kiln_platform::ProgramType;
use kiln_program::FunctionId;

use crate::exec;
use crate::interface::Input;
use crate::packet::InputError;
use crate::state::State;

/// A verified program, ready to run.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) name: String,
    pub(crate) program_type: ProgramType,
    pub(crate) entry: FunctionId,
    pub(crate) compiled: Result<exec::Program, String>,
}

impl Loaded {
    /// Gives a CPU a program's input.
    #[inline]
    pub(crate) fn prepare_run(&self, state: &mut State, input: &Input<'_>) -> Result<(), InputError> {
        state.output.clear();
        state.running = Some(self.program_type);
        state.clear_local_storage();
        state.packet.prepare(&mut state.memory, self.program_type, input.packet, input.context)
    }
}
