//! Loading: a program is verified, checked for what the VM lacks, and compiled.
//!
//! ```text
//!   verdict ---> kinds of memory that it accesses ---> all are the VM's: compiled
//!                                                 \--> others, or an arena: verified again for its Facts
//! ```
//!
//! Facts take twice the time of the verdict. Most programs need none to be loaded: they are made for programs with arenas,
//! for the place in a refusal, and when clang compiles a program.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use kiln_jit::llvm::Place;
use kiln_platform::ProgramType;
use kiln_program::{FunctionId, InsnId, Program};
use kiln_verifier::Verified;

use crate::admit;
use crate::arena;
use crate::bounded;
use crate::exec;
use crate::interface::Error;
use crate::loaded::{CodeOptions, Loaded};
use crate::machine_code::{HERE, MachineCode};
use crate::packet::Kind;
use crate::private_memory;
use crate::state::Entry;
use crate::vm::Vm;

impl Vm {
    /// Verifies a program, by name, checks it for what the VM lacks, and compiles it. Gives what the verifier found,
    /// without facts unless the object has arenas: [`kiln_verifier::verify`] gives them.
    ///
    /// # Errors
    /// [`Error::Rejected`] by the verifier, [`Error::Unsupported`] for helpers, kfuncs, program types and kernel
    /// memory that the VM lacks.
    pub fn load(&mut self, name: &str) -> Result<Verified, Error> {
        let program = self.find(name)?;
        let verified = self.verify(&program, self.symbols.arena.is_none())?;
        let program_type = self.program_type(&program)?;
        let handler = verified.exception_callback;
        for entry in std::iter::once(program.entry).chain(handler) {
            admit::calls(&self.object, entry, &self.symbols).map_err(|refusal| unsupported(name, refusal))?;
        }
        let places = match self.symbols.arena {
            Some(place) => Some(self.admit_with_arena(&program, place, &verified)?),
            None => {
                self.admit(&program, program_type, &verified)?;
                None
            }
        };
        let cleared_bytes = if verified.reads_uninitialized_stack { verified.statistics.frame_bytes } else { 0 };
        let processed = verified.statistics.processed_insns;
        let metered = !bounded::ends_within(&self.object, program.entry, processed, self.options.budget);
        let reach = verified.context_bytes.filter(|_| Kind::of(program_type) == Kind::None);
        let code_options = CodeOptions { cleared_bytes, metered, blind: self.new_seed(), places, handler };
        self.prepare(&program, code_options, reach)?;
        Ok(verified)
    }

    fn verify(&self, program: &Program, skip_facts: bool) -> Result<Verified, Error> {
        let own_helpers = self.options.own_helpers.iter().map(|helper| helper.declaration).collect();
        let kernel_types = self.options.kernel_types.clone();
        let options = kiln_verifier::Options {
            own_helpers,
            kernel_types,
            several_arenas: true,
            skip_facts,
            profile: crate::jump_tables::profile(&self.object),
            ..Default::default()
        };
        // Whoever made the VM has looked whether its object is well formed.
        kiln_verifier::Prepared::of_well_formed(&self.object, &options)
            .verify(program, &options)
            .map_err(|source| Error::Rejected { program: program.name.clone(), source: Box::new(source) })
    }

    /// Refuses a verified program that accesses memory which the VM does not have.
    fn admit(&self, program: &Program, program_type: ProgramType, verified: &Verified) -> Result<(), Error> {
        let Some(foreign) = admit::foreign_kind(program_type, &verified.accessed) else { return Ok(()) };
        let facts = self.verify(program, false)?.facts;
        for entry in std::iter::once(program.entry).chain(verified.exception_callback) {
            admit::accesses(&self.object, entry, program_type, &facts)
                .map_err(|refusal| unsupported(&program.name, refusal))?;
        }
        // The facts of an instruction that paths reach with different pointers say nothing.
        Err(unsupported(&program.name, (None, foreign)))
    }

    /// Does so for a program of an object with arenas, and prepares its accesses to them. Returns the memory that is the
    /// run's own: what the verifier says of the program once it is prepared may be something else.
    fn admit_with_arena(
        &mut self,
        program: &Program,
        arena: arena::Place,
        verified: &Verified,
    ) -> Result<HashMap<InsnId, Place>, Error> {
        let name = &program.name;
        let program_type = self.program_type(program)?;
        for entry in std::iter::once(program.entry).chain(verified.exception_callback) {
            admit::accesses(&self.object, entry, program_type, &verified.facts)
                .map_err(|refusal| unsupported(name, refusal))?;
            arena::narrow(&mut self.object, arena, entry, &verified.facts);
            let added = self.symbols.accesses.add(&self.object, entry, &verified.facts);
            let what = "an access to the arena here, to other memory in another program".to_owned();
            added.map_err(|insn| unsupported(name, (Some(insn), what)))?;
        }
        match admit::foreign_kind(program_type, &verified.accessed) {
            Some(foreign) => Err(unsupported(name, (None, foreign))),
            None => Ok(private_memory::places(&self.object, program.entry, &verified.facts)),
        }
    }

    /// The accesses of a loaded program to memory that is the run's own, for the optimizing compiler.
    ///
    /// # Errors
    /// As [`Vm::load`].
    #[cfg(feature = "native")]
    pub(crate) fn private_places(&self, loaded: &Loaded) -> Result<HashMap<InsnId, Place>, Error> {
        if let Some(places) = &loaded.code_options.places {
            return Ok(places.clone());
        }
        let verified = self.verify(&self.find(&loaded.name)?, false)?;
        Ok(private_memory::places(&self.object, loaded.entry, &verified.facts))
    }

    /// Checks and compiles a program, by name, without verifying it: for tests of programs that the kernel's verifier
    /// has accepted.
    ///
    /// # Safety
    /// Another verifier accepted the program, or only [`Engine::Interpreter`] runs it. Running another program's compiled
    /// code is running foreign machine code.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for helpers, kfuncs and types the VM lacks.
    #[doc(hidden)]
    pub unsafe fn load_unverified(&mut self, name: &str) -> Result<(), Error> {
        let program = self.find(name)?;
        if self.symbols.arena.is_some() {
            return Err(unsupported(name, (None, "arenas without verification".to_owned())));
        }
        admit::calls(&self.object, program.entry, &self.symbols).map_err(|refusal| unsupported(name, refusal))?;
        let cleared_bytes = kiln_verifier::facts::STACK_BYTES as u32;
        self.prepare(
            &program,
            CodeOptions {
                cleared_bytes,
                metered: true,
                blind: self.new_seed(),
                places: Some(HashMap::new()),
                handler: None,
            },
            None,
        )
    }

    /// A number that nobody can predict, if constants are to be hidden: the standard library seeds its hash maps so.
    fn new_seed(&self) -> Option<u64> {
        self.options.blind.then(|| std::hash::RandomState::new().hash_one(0))
    }

    fn program_type(&self, program: &Program) -> Result<ProgramType, Error> {
        let what = || unsupported(&program.name, (None, format!("section {}", program.section)));
        let program_type = program.program_type.ok_or_else(what)?;
        admit::program_type(program_type).map_err(|refusal| unsupported(&program.name, refusal))?;
        Ok(program_type)
    }

    fn prepare(
        &mut self,
        program: &Program,
        code_options: CodeOptions,
        context_reach: Option<u32>,
    ) -> Result<(), Error> {
        if self.programs.iter().any(|loaded| loaded.name == program.name) {
            return Ok(());
        }
        let program_type = self.program_type(program)?;
        let handler = code_options.handler;
        let compiled = self.compile(program.entry, &code_options);
        let handler = handler.map(|entry| self.compile(entry, &code_options));
        // Without code for what handles its exceptions, the program has none.
        let (compiled, handler) = match handler.transpose() {
            Ok(handler) => (compiled, handler),
            Err(what) => (Err(what), None),
        };
        let address = compiled.as_ref().map_or(0, exec::Program::address);
        let mut entries = self.shared.entries.to_vec();
        entries[program.entry.index()] = Entry { loaded: true, program_type: Some(program_type), address };
        self.shared.entries = entries.into();
        self.programs.push(Loaded {
            name: program.name.clone(),
            program_type,
            entry: program.entry,
            compiled,
            handler,
            context_reach,
            code_options,
            native: Arc::default(),
        });
        self.publish();
        if self.options.perf.wanted()
            && let Some(Ok(MachineCode { code, address: Some(start) })) =
                HERE.map(|here| self.machine_code(&program.name, here))
        {
            self.options.perf.write(&self.object, &program.name, &code, start).map_err(Error::Perf)?;
        }
        Ok(())
    }

    #[cfg(all(unix, any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    fn compile(&self, entry: FunctionId, code_options: &CodeOptions) -> Result<exec::Program, String> {
        let options = kiln_jit::Options { spans: false, ..self.jit_options(code_options) };
        let code = kiln_jit::compile_here(&self.object, entry, &self.symbols, &options);
        let code = code.map_err(|error| error.to_string())?;
        exec::Program::load(&code).map_err(|error| error.to_string())
    }

    #[cfg(not(all(unix, any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    fn compile(&self, _: FunctionId, _: &CodeOptions) -> Result<exec::Program, String> {
        Err("compiled code on this machine".to_owned())
    }
}

fn unsupported(program: &str, (insn, what): admit::Refusal) -> Error {
    Error::Unsupported { program: program.to_owned(), insn, what }
}
