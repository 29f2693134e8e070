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

    /// The loaded program with this [`ProgramHandle::number`].
    ///
    /// # Errors
    /// [`Error::Missing`] if there are fewer programs.
    #[inline]
    pub fn program_at(&self, number: usize) -> Result<ProgramHandle<'_>, Error> {
        if number >= self.programs.len() {
            return Err(Error::Missing { what: format!("loaded program {number}") });
        }
        Ok(ProgramHandle { vm: self, at: number, cpu: self.options.surroundings.cpu })
    }
}

impl ProgramHandle<'_> {
    /// Its number among the VM's loaded programs, which stays: for callers that cannot keep a handle.
    pub fn number(&self) -> usize {
        self.at
    }

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
    pub fn run_input(&self, input: &Input<'_>) -> Result<u64, Error> {
        let cpu = &mut *self.vm.occupy(self.cpu)?;
        self.run_there(cpu, input)
    }

    /// Runs it as machine code on a packet in place: `packet` is as the program left it. Returns R0.
    ///
    /// ```
    /// # let text = "; program xdp name pass\n r0 = 2\n exit\n";
    /// # let object = kiln_program::text::parse(text).unwrap();
    /// let mut vm = kiln_vm::Vm::new(&object, kiln_vm::Options::default())?;
    /// vm.load("pass")?;
    /// let mut packet = [0; 64];
    /// assert_eq!(vm.program("pass")?.run(&mut packet)?, 2);
    /// # Ok::<(), kiln_vm::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`ProgramHandle::run_input`]; [`Error::Resized`] if the packet's length is another one afterwards. Its bytes are then
    /// as before; [`ProgramHandle::run_into`] takes any length.
    #[inline]
    pub fn run(&self, packet: &mut [u8]) -> Result<u64, Error> {
        let cpu = &mut *self.vm.occupy(self.cpu)?;
        let value = self.run_there(cpu, &Input::packet(packet))?;
        cpu.packet.read_packet(&cpu.memory, packet).map_err(|bytes| Error::Resized { bytes })?;
        Ok(value)
    }

    /// Runs it as machine code on a context in place, for hooks without packets: `context` is as the program left it.
    /// Returns R0. With a `syscall` program, which may read and write all of its context, this is a run on the caller's
    /// memory.
    ///
    /// # Errors
    /// As [`ProgramHandle::run_input`].
    #[inline]
    pub fn run_context(&self, context: &mut [u8]) -> Result<u64, Error> {
        let cpu = &mut *self.vm.occupy(self.cpu)?;
        let value = self.run_there(cpu, &Input::context(context))?;
        cpu.packet.read_context(&cpu.memory, context);
        Ok(value)
    }

    /// Runs it as machine code. Returns R0 and copies the packet, metadata first, to the caller's buffer.
    ///
    /// # Errors
    /// As [`ProgramHandle::run_input`].
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
        let ran = self.vm.execute(cpu, loaded, loaded.code()?, input.repeat.max(1))?;
        let (value, _) = ran.map_err(|trap| Error::Stopped { program: loaded.name.clone(), trap })?;
        Ok(value)
    }
}
