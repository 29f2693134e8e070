//! Running one program often.

use crate::cpu::Cpu;
use crate::exec;
use crate::interface::{Error, Input};
use crate::loaded::Loaded;
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

impl<'vm> ProgramHandle<'vm> {
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

    /// Reserves its CPU, until what is returned is dropped: runs of a held program take no lock. Others that run something
    /// there wait.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a program that was not compiled; memory.
    pub fn hold(&self) -> Result<HeldProgram<'vm>, Error> {
        Ok(HeldProgram { code: self.code()?, cpu: self.vm.occupy(self.cpu)? })
    }

    #[inline]
    fn code(&self) -> Result<Code<'vm>, Error> {
        let (vm, loaded) = (self.vm, &self.vm.programs[self.at]);
        Ok(Code { vm, loaded, code: loaded.code()? })
    }

    /// Runs it as machine code and returns R0. Its changes to packet and context are discarded.
    ///
    /// # Errors
    /// As [`Vm::run`]; [`Error::Unsupported`] for a program that was not compiled.
    #[inline]
    pub fn run_input(&self, input: &Input<'_>) -> Result<u64, Error> {
        self.code()?.run_input(&mut *self.vm.occupy(self.cpu)?, input)
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
        self.code()?.run(&mut *self.vm.occupy(self.cpu)?, packet)
    }

    /// Runs it as machine code on a context in place, for hooks without packets: `context` is as the program left it.
    /// Returns R0. With a `syscall` program, which may read and write all of its context, this is a run on the caller's
    /// memory.
    ///
    /// A program whose accesses to its context are all known, and lie within `context`, runs on it where it is. For others,
    /// such as those that pass it to a helper, it is copied.
    ///
    /// # Errors
    /// As [`ProgramHandle::run_input`].
    #[inline]
    pub fn run_context(&self, context: &mut [u8]) -> Result<u64, Error> {
        self.code()?.run_context(&mut *self.vm.occupy(self.cpu)?, context)
    }

    /// Runs it as machine code. Returns R0 and copies the packet, metadata first, to the caller's buffer.
    ///
    /// # Errors
    /// As [`ProgramHandle::run_input`].
    pub fn run_into(&self, input: &Input<'_>, packet: &mut Vec<u8>) -> Result<u64, Error> {
        let state = &mut *self.vm.occupy(self.cpu)?;
        let value = self.code()?.run_input(state, input)?;
        packet.clear();
        packet.extend_from_slice(&state.packet.output(&state.memory));
        Ok(value)
    }
}

/// A program with a CPU of its own, to be run very often by one thread.
///
/// ```
/// # let text = "; program syscall name double\n r2 = *(u64 *)(r1 + 0)\n r2 += r2\n *(u64 *)(r1 + 0) = r2\n r0 = 0\n exit\n";
/// # let object = kiln_program::text::parse(text).unwrap();
/// let vm = kiln_vm::Vm::open(&object, "double", kiln_vm::Options::default())?;
/// let mut double = vm.program("double")?.hold()?;
/// let mut memory = 1u64.to_ne_bytes();
/// for _ in 0..10 {
///     double.run_context(&mut memory)?;
/// }
/// assert_eq!(u64::from_ne_bytes(memory), 1024);
/// # Ok::<(), kiln_vm::Error>(())
/// ```
pub struct HeldProgram<'vm> {
    code: Code<'vm>,
    cpu: Cpu<'vm>,
}

impl HeldProgram<'_> {
    /// As [`ProgramHandle::run_input`].
    ///
    /// # Errors
    /// As [`Vm::run`].
    #[inline]
    pub fn run_input(&mut self, input: &Input<'_>) -> Result<u64, Error> {
        self.code.run_input(&mut self.cpu, input)
    }

    /// As [`ProgramHandle::run`].
    ///
    /// # Errors
    /// As [`ProgramHandle::run`].
    #[inline]
    pub fn run(&mut self, packet: &mut [u8]) -> Result<u64, Error> {
        self.code.run(&mut self.cpu, packet)
    }

    /// As [`ProgramHandle::run_context`].
    ///
    /// # Errors
    /// As [`ProgramHandle::run_context`].
    #[inline]
    pub fn run_context(&mut self, context: &mut [u8]) -> Result<u64, Error> {
        self.code.run_context(&mut self.cpu, context)
    }
}

/// A program's machine code, to be run on any CPU.
#[derive(Clone, Copy)]
struct Code<'vm> {
    vm: &'vm Vm,
    loaded: &'vm Loaded,
    code: &'vm exec::Program,
}

impl Code<'_> {
    #[inline]
    fn run_input(self, state: &mut State, input: &Input<'_>) -> Result<u64, Error> {
        self.loaded.prepare_run(state, input)?;
        let context = state.packet.context_address();
        self.execute(state, context, input.repeat.max(1))
    }

    #[inline]
    fn run(self, state: &mut State, packet: &mut [u8]) -> Result<u64, Error> {
        let value = self.run_input(state, &Input::packet(packet))?;
        state.packet.read_packet(&state.memory, packet).map_err(|bytes| Error::Resized { bytes })?;
        Ok(value)
    }

    #[inline]
    fn run_context(self, state: &mut State, context: &mut [u8]) -> Result<u64, Error> {
        if self.loaded.can_borrow(context) {
            self.loaded.prepare_borrowed(state);
            return self.execute(state, context.as_mut_ptr().expose_provenance() as u64, 1);
        }
        let value = self.run_input(state, &Input::context(context))?;
        state.packet.read_context(&state.memory, context);
        Ok(value)
    }

    #[inline]
    fn execute(self, state: &mut State, context: u64, repeat: u32) -> Result<u64, Error> {
        let ran = self.vm.execute(state, self.loaded, self.code, context, repeat)?;
        let (value, _) = ran.map_err(|trap| Error::Stopped { program: self.loaded.name.clone(), trap })?;
        Ok(value)
    }
}
