//! One interface to every engine that runs a program.

use kiln_platform::ProgramType;
use kiln_program::interpret::Fault;
use kiln_program::{Interpreter, Object, Program, Trap};

use crate::bare::Bare;

/// Something that runs programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// The reference interpreter in the bare environment.
    Reference,
    /// The VM's interpreter.
    Interpreter,
    /// The VM's machine code.
    Jit,
    /// The VM's code from an optimizing compiler.
    Native,
    /// The running kernel, through `BPF_PROG_TEST_RUN`.
    Kernel,
}

impl Engine {
    /// All of them.
    pub const ALL: [Engine; 5] = [Engine::Reference, Engine::Interpreter, Engine::Jit, Engine::Native, Engine::Kernel];

    /// Its name in `; except:` directives and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Engine::Reference => "reference",
            Engine::Interpreter => "interpreter",
            Engine::Jit => "jit",
            Engine::Native => "native",
            Engine::Kernel => "kernel",
        }
    }
}

/// What a run gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ran {
    /// The lower half of R0, which is what every hook sees.
    pub value: u32,
    /// The packet afterwards.
    pub packet: Vec<u8>,
}

/// Why there was no run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoRun {
    /// The engine is not available or lacks a feature: a skip.
    Skipped(String),
    /// The run failed.
    Failed(String),
}

/// Maximum number of instructions, on engines that count.
pub const BUDGET: u64 = 1_000_000;

/// Runs a program on a packet.
///
/// # Errors
/// [`NoRun`].
pub fn run(engine: Engine, object: &Object, program: &Program, packet: &[u8]) -> Result<Ran, NoRun> {
    match engine {
        Engine::Reference => reference(object, program, packet),
        Engine::Interpreter => vm(kiln_vm::Engine::Interpreter, object, program, packet),
        Engine::Jit => vm(kiln_vm::Engine::Jit, object, program, packet),
        Engine::Native => {
            toolchain().as_ref().map_err(|why| NoRun::Skipped(format!("native: {why}")))?;
            vm(kiln_vm::Engine::Native, object, program, packet)
        }
        Engine::Kernel => kernel(object, program, packet),
    }
}

fn reference(object: &Object, program: &Program, packet: &[u8]) -> Result<Ran, NoRun> {
    let mut bare = Bare::new(object, program.program_type, packet);
    match Interpreter::new(object).run(program.entry, crate::bare::CONTEXT, &mut bare, BUDGET) {
        Ok(outcome) => Ok(Ran { value: outcome.value as u32, packet: bare.packet }),
        Err(Trap::Fault { fault: Fault::Unsupported(_), .. }) => {
            Err(NoRun::Skipped("reference: it calls what the bare environment lacks; the VM runs it".to_owned()))
        }
        Err(trap) => Err(NoRun::Failed(trap.to_string())),
    }
}

fn vm(engine: kiln_vm::Engine, object: &Object, program: &Program, packet: &[u8]) -> Result<Ran, NoRun> {
    let kernel_types = kiln_driver::input::running_kernel_types();
    let options = kiln_vm::Options { budget: BUDGET, kernel_types, ..kiln_vm::Options::default() };
    let mut object = object.clone();
    kiln_idiom::annotate(&mut object, &options.operations);
    let outcome = kiln_vm::Vm::new(&object, options).and_then(|mut vm| {
        vm.load(&program.name)?;
        if let (kiln_vm::Engine::Native, Ok(toolchain)) = (engine, toolchain()) {
            vm.load_native(&program.name, toolchain, kiln_vm::Setting::Scalar)?;
        }
        vm.run(&program.name, &kiln_vm::Input::packet(packet), engine)
    });
    match outcome {
        Ok(result) => Ok(Ran { value: result.value as u32, packet: result.packet }),
        Err(kiln_vm::Error::Unsupported { what, .. }) => Err(NoRun::Skipped(format!("VM: it lacks {what}"))),
        // If the kernel accepts what our verifier refuses, the VM does not run it: it runs only verified programs.
        Err(error @ (kiln_vm::Error::Input(_) | kiln_vm::Error::Rejected { .. })) => {
            Err(NoRun::Skipped(format!("VM: {error}")))
        }
        Err(error) => Err(NoRun::Failed(error.to_string())),
    }
}

/// The compiler of native code, whose results are kept: the same programs run often.
fn toolchain() -> &'static Result<kiln_vm::Toolchain, String> {
    static TOOLCHAIN: std::sync::OnceLock<Result<kiln_vm::Toolchain, String>> = std::sync::OnceLock::new();
    TOOLCHAIN.get_or_init(|| {
        let toolchain = kiln_vm::Toolchain::new(kiln_vm::Toolchain::CLANG).map_err(|error| error.to_string())?;
        Ok(toolchain.keeping(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/native-code")))
    })
}

/// Whether this process may use `bpf(2)`, asked once.
pub fn kernel_available() -> Result<(), String> {
    static ANSWER: std::sync::OnceLock<Result<(), String>> = std::sync::OnceLock::new();
    ANSWER.get_or_init(|| kiln_linux::available().map_err(|error| error.to_string())).clone()
}

/// Whether the kernel test-runs programs of a type on packets.
pub fn takes_packet(program_type: ProgramType) -> bool {
    program_type == ProgramType::Xdp || program_type.has_socket_buffer()
}

fn kernel(object: &Object, program: &Program, packet: &[u8]) -> Result<Ran, NoRun> {
    let skipped = |why: String| NoRun::Skipped(format!("kernel: {why}"));
    kernel_available().map_err(skipped)?;
    if !program.program_type.is_some_and(takes_packet) {
        return Err(skipped("this program type is not test-run on packets".to_owned()));
    }
    let loaded = kiln_linux::load_image(object, program).map_err(|failure| {
        let reason = failure.why();
        NoRun::Failed(format!("the kernel does not load it: {reason}"))
    })?;
    let input = kiln_linux::TestInput { packet: packet.to_vec(), context: Vec::new(), repeat: 1 };
    match loaded.prog.test_run(&input) {
        Ok(output) => Ok(Ran { value: output.value, packet: output.packet }),
        Err(error) => Err(NoRun::Failed(error.to_string())),
    }
}
