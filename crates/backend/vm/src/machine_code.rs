//! The JIT's code of a loaded program, for those who want to read it.

use kiln_isa::operation::Arch;
use kiln_jit::Code;

use crate::exec;
use crate::interface::Error;
use crate::loaded::CodeOptions;
use crate::vm::Vm;

/// What the JIT makes of a program.
#[derive(Clone, Debug)]
pub struct MachineCode {
    /// The code and what its parts are for.
    pub code: Code,
    /// Where the VM runs it; `None` for another machine's code.
    pub address: Option<u64>,
}

impl Vm {
    /// Compiles a loaded program once more, for this machine or for another one. For this machine the bytes are those that
    /// the VM runs. Code for another x86-64 processor uses none of the optional features.
    ///
    /// # Errors
    /// [`Error::Missing`] for a program that is not loaded, [`Error::Unsupported`] for instructions that the machine's JIT
    /// lacks.
    pub fn machine_code(&self, name: &str, arch: Arch) -> Result<MachineCode, Error> {
        let loaded = &self.programs[self.loaded(name)?];
        let options = self.jit_options(&loaded.code_options);
        let compile = match arch {
            Arch::X86_64 => kiln_jit::x86_64::compile,
            Arch::Aarch64 => kiln_jit::aarch64::compile,
        };
        let code = compile(&self.object, loaded.entry, &self.symbols, &options)
            .map_err(|error| Error::Unsupported { program: name.to_owned(), insn: None, what: error.to_string() })?;
        let runs_here = HERE == Some(arch);
        let address = loaded.compiled.as_ref().ok().filter(|_| runs_here);
        Ok(MachineCode { address: address.map(exec::Program::start), code })
    }

    /// What compilers must know of a program, and of this machine.
    pub(crate) fn jit_options(&self, code_options: &CodeOptions) -> kiln_jit::Options {
        kiln_jit::Options {
            #[cfg(target_arch = "x86_64")]
            bmi1: std::arch::is_x86_feature_detected!("bmi1"),
            #[cfg(target_arch = "x86_64")]
            bmi2: std::arch::is_x86_feature_detected!("bmi2"),
            #[cfg(target_arch = "x86_64")]
            movbe: std::arch::is_x86_feature_detected!("movbe"),
            cleared_bytes: code_options.cleared_bytes,
            metered: code_options.metered,
            operations: self.options.operations,
            fusions: self.options.fusions,
            blind: code_options.blind,
            ..kiln_jit::Options::default()
        }
    }
}

/// The machine that this is compiled for, if the JIT has it.
pub const HERE: Option<Arch> = if cfg!(target_arch = "x86_64") {
    Some(Arch::X86_64)
} else if cfg!(target_arch = "aarch64") {
    Some(Arch::Aarch64)
} else {
    None
};
