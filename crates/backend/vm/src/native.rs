//! Programs as an optimizing compiler's code.
//!
//! ```text
//!   Vm::load ---> Facts, JIT code ---> runs
//!     \--- kiln_jit::llvm ---> text ---> clang ---> image, its table filled ---> runs instead, once it is there
//! ```
//!
//! The program is the one that the verifier accepted, and the symbols are those of the JIT's code, so the memory and
//! termination guarantees are the same. What is trusted in addition is clang and the linker (`docs/internals/trusted-base.md`).

use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use kiln_jit::llvm::{self, Aim, Module};
use kiln_native::{Image, Setting, Toolchain};

use crate::exec;
use crate::interface::Error;
use crate::perf::PerfFiles;
use crate::vm::Vm;

/// What symbols of code for this process begin with.
const SYMBOLS: &str = "kiln";

/// What [`Vm::load_native`] made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NativeCode {
    /// Bytes of instructions.
    pub code_bytes: usize,
}

/// Text and addresses, ready to be compiled in any thread.
struct Job {
    program: String,
    module: Module,
    words: Vec<u64>,
    slot: Arc<OnceLock<exec::Program>>,
    perf: PerfFiles,
}

impl Vm {
    /// A loaded program as LLVM's text, without the addresses of this process. Its symbols begin with `symbols`
    /// ([`llvm::entry_symbol`]). It ends when its budget is spent: it does not ask for more.
    ///
    /// # Errors
    /// [`Error::Missing`] for a program that is not loaded, [`Error::Unsupported`] for instructions that have no
    /// translation.
    pub fn native_module(&self, name: &str, setting: Setting, symbols: &str) -> Result<Module, Error> {
        self.module(name, setting, symbols, false)
    }

    fn module(&self, name: &str, setting: Setting, symbols: &str, refills: bool) -> Result<Module, Error> {
        let loaded = &self.programs[self.loaded(name)?];
        if self.options.blind {
            let what = "hidden constants in clang's code".to_owned();
            return Err(Error::Unsupported { program: name.to_owned(), insn: None, what });
        }
        let options = kiln_jit::Options { refills, ..self.jit_options(&loaded.code_options) };
        let aim = if setting == Setting::Size { Aim::Size } else { Aim::Speed };
        let places = self.private_places(loaded)?;
        let settings = llvm::Settings { options: &options, places: &places, aim, name: symbols };
        llvm::translate(&self.object, loaded.entry, &self.symbols, &settings).map_err(|error| Error::Unsupported {
            program: name.to_owned(),
            insn: None,
            what: error.to_string(),
        })
    }

    /// Compiles a loaded program through clang. [`crate::ProgramHandle`]s run the result from then on, and
    /// [`crate::Engine::Native`] names it. A second call changes nothing.
    ///
    /// # Errors
    /// As [`Vm::native_module`]; [`Error::Native`] if the compiler gives no code.
    pub fn load_native(&self, name: &str, toolchain: &Toolchain, setting: Setting) -> Result<NativeCode, Error> {
        self.native_job(name, setting)?.compile(toolchain, setting)
    }

    /// As [`Vm::load_native`], in a thread: until it is done, the JIT's code runs. Threads that run the program change over
    /// by themselves.
    ///
    /// # Errors
    /// As [`Vm::native_module`]; the thread returns what else fails.
    pub fn load_native_later(
        &self,
        name: &str,
        toolchain: &Toolchain,
        setting: Setting,
    ) -> Result<JoinHandle<Result<NativeCode, Error>>, Error> {
        let (job, toolchain) = (self.native_job(name, setting)?, toolchain.clone());
        let thread = std::thread::Builder::new().name("kiln-native".to_owned());
        Ok(thread.spawn(move || job.compile(&toolchain, setting))?)
    }

    fn native_job(&self, name: &str, setting: Setting) -> Result<Job, Error> {
        let module = self.module(name, setting, SYMBOLS, true)?;
        let words = module.resolve(&self.symbols).map_err(|address| Error::Unsupported {
            program: name.to_owned(),
            insn: None,
            what: format!("{address:?}"),
        })?;
        let slot = Arc::clone(&self.programs[self.loaded(name)?].native);
        let perf = self.options.perf.clone();
        Ok(Job { program: name.to_owned(), module, words, slot, perf })
    }
}

impl Job {
    fn compile(&self, toolchain: &Toolchain, setting: Setting) -> Result<NativeCode, Error> {
        let failed = |source| Error::Native { program: self.program.clone(), source };
        let file = toolchain.compile(&self.module.text, setting).map_err(failed)?;
        let image = Image::read(&file, &llvm::entry_symbol(SYMBOLS), &llvm::table_symbol(SYMBOLS), self.words.len())
            .map_err(failed)?;
        let bytes = image.with_table(&self.words).map_err(failed)?;
        let program = exec::Program::with_entry(&bytes, image.entry_offset)?;
        if self.perf.wanted() {
            self.perf.write_native(&self.program, program.start(), bytes).map_err(Error::Perf)?;
        }
        // The first result stays: somebody may be running it.
        let _ = self.slot.set(program);
        Ok(NativeCode { code_bytes: image.code_bytes })
    }
}
