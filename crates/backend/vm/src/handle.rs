//! Running one program often.

use crate::interface::{Error, Input};
use crate::state::State;
use crate::vm::Vm;

/// A loaded program. Threads may use one handle at once.
#[derive(Clone, Copy)]
pub struct ProgramHandle<'vm> {
    pub(crate) vm: &'vm Vm,
    pub(crate) at: usize,
    pub(crate) cpu: u32,
}

impl Vm {
    /// A loaded program, to be run often: finding it, reading clocks and copying results is left out.
    ///
    /// # Errors
    /// [`Error::Missing`] for a program that is not loaded.
    pub fn program(&self, name: &str) -> Result<ProgramHandle<'_>, Error> {
        Ok(ProgramHandle { vm: self, at: self.loaded(name)?, cpu: self.options.surroundings.cpu })
    }
}

impl ProgramHandle<'_> {
    /// The same program on another CPU.
    ///
    /// # Errors
    /// [`Error::Missing`] for a CPU that there is not.
    pub fn on(self, cpu: u32) -> Result<Self, Error> {
        if cpu as usize >= self.vm.cpus.len() {
            return Err(Error::Missing { what: format!("CPU {cpu}") });
        }
        Ok(ProgramHandle { cpu, ..self })
    }

    /// Runs it as machine code and returns R0. Its changes to packet and context are discarded.
    ///
    /// # Errors
    /// As [`Vm::run`]; [`Error::Unsupported`] for a program that was not compiled.
    #[inline]
    pub fn run(&self, input: &Input<'_>) -> Result<u64, Error> {
        let cpu = &mut *self.vm.occupy(self.cpu)?;
        self.run_there(cpu, input)
    }

    /// Runs it as machine code. Returns R0 and copies the packet, metadata first, to the caller's buffer.
    ///
    /// # Errors
    /// As [`ProgramHandle::run`].
    pub fn run_into(&self, input: &Input<'_>, packet: &mut Vec<u8>) -> Result<u64, Error> {
        let cpu = &mut *self.vm.occupy(self.cpu)?;
        let value = self.run_there(cpu, input)?;
        packet.clear();
        packet.extend_from_slice(&cpu.packet.output(&cpu.memory));
        Ok(value)
    }

    #[inline]
    fn run_there(&self, cpu: &mut State, input: &Input<'_>) -> Result<u64, Error> {
        let loaded = &self.vm.programs[self.at];
        loaded.prepare_run(cpu, input)?;
        let ran = self.vm.execute(cpu, loaded.code()?, input.repeat.max(1))?;
        let (value, _) = ran.map_err(|trap| Error::Stopped { program: loaded.name.clone(), trap })?;
        Ok(value)
    }
}
