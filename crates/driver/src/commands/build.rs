//! `kiln build`: a program as machine code for those who embed it.
//!
//! ```text
//!   program --verify--> LLVM's text --clang--> code --the same inputs as the interpreter--> equal? --> the fastest setting
//!                                                                                                         |
//!                                     NAME.so, NAME.a, NAME.h  <------------------------------------------+
//! ```

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use kiln_jit::llvm::{Address, Module, entry_symbol, table_symbol};
use kiln_native::{Setting, Toolchain};
use kiln_platform::Helper;
use kiln_program::{Object, Program};
use kiln_vm::{Engine, Vm};
use serde::Serialize;

use crate::clang::toolchain;
use crate::compare::{Comparison, Trace, judge, vm_trace};
use crate::tier::{self, Code};
use crate::{kernel, output};
use crate::{loading, packets};
use kiln_inspect::input::Input;
use kiln_inspect::show::shown::Shown;
use kiln_program::Error;

/// Inputs that code is compared on.
const INPUTS: usize = 256;
/// Inputs that code is timed on.
const TIMED: usize = 32;
/// How long measuring one program may take.
const MEASURING: Duration = Duration::from_secs(10);
/// Runs of one sample: what surrounds a run takes longer than most programs.
const RUNS: u32 = 32;
/// Words of a context for program types without packets: arguments of a tracepoint.
const CONTEXT_WORDS: usize = 12;

/// How to build.
#[derive(Clone, Debug)]
pub struct Options {
    /// The setting; `None` takes the one that is fastest here.
    pub setting: Option<Setting>,
    /// The CPU that the code is for, by clang's name; `None` is this machine's.
    pub cpu: Option<String>,
    /// The folder for the files.
    pub folder: PathBuf,
}

/// What was built.
#[derive(Clone, Debug, Serialize)]
pub struct Built {
    /// The program.
    pub program: Shown,
    /// The setting that its code was made with.
    pub setting: &'static str,
    /// Bytes of instructions.
    pub code_bytes: usize,
    /// How the code compares with the interpreter.
    pub compared: Comparison,
    /// The time of a run, by engine.
    pub times: Vec<Timed>,
    /// Whether the JIT's code is faster than what was built.
    pub is_slower_than_jit: bool,
    /// The files.
    pub files: Vec<PathBuf>,
    /// What who runs it must fill the table with.
    pub addresses: Vec<Shown>,
}

pub use crate::tier::Timed;

/// Builds programs of an object.
///
/// # Errors
/// [`Error::Rejected`] by the verifier, or for code that differs from the interpreter; [`Error::Unsupported`] for what the
/// VM lacks; [`Error::Os`] without the compiler.
pub fn build(
    input: &Input,
    programs: &[&Program],
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Built>, Error> {
    let toolchain = toolchain()?;
    programs.iter().map(|program| build_one(input, program, options, &toolchain, progress)).collect()
}

fn build_one(
    input: &Input,
    program: &Program,
    options: &Options,
    toolchain: &Toolchain,
    progress: &mut dyn FnMut(&str),
) -> Result<Built, Error> {
    let object = &input.object;
    let inputs = inputs(program);
    let settings = options.setting.map_or(vec![Setting::Fast, Setting::Scalar], |setting| vec![setting]);
    let mut checked = Vec::new();
    for setting in settings {
        progress(&format!("{} ({})", program.name, setting.name()));
        let compared = compare(object, program, toolchain, setting, &inputs);
        if let Comparison::Different(what) = compared {
            let message = format!("{}: code of {} differs from the interpreter: {what}", program.name, setting.name());
            return Err(Error::Rejected(message));
        }
        checked.push((setting, compared));
    }
    progress(&format!("{} (measuring)", program.name));
    let times = measure(object, program, toolchain, &checked, &inputs)?;
    // The JIT's code cannot be written to a library.
    let fastest = tier::fastest(times.iter().filter(|own| own.code != Code::Jit));
    let fastest = fastest.and_then(|code| checked.iter().find(|(setting, _)| Code::Native(*setting) == code));
    let (setting, compared) = fastest.or(checked.first()).cloned().unwrap_or((Setting::Fast, Comparison::Equal(0)));
    let is_slower_than_jit = tier::fastest(&times) == Some(Code::Jit);
    let (code_bytes, addresses, files) = write(object, program, options, toolchain, setting)?;
    let program = program.name.as_str().into();
    Ok(Built { program, setting: setting.name(), code_bytes, compared, times, is_slower_than_jit, files, addresses })
}

/// What programs of a type run on: packets, or contexts of arbitrary words.
struct Inputs {
    packets: bool,
    bytes: Vec<Vec<u8>>,
}

impl Inputs {
    fn iter(&self) -> impl Iterator<Item = kiln_vm::Input<'_>> {
        self.bytes.iter().map(|bytes| match self.packets {
            true => kiln_vm::Input::packet(bytes),
            false => kiln_vm::Input::context(bytes),
        })
    }
}

fn inputs(program: &Program) -> Inputs {
    const SEED: u64 = 1;
    if program.program_type.is_some_and(kernel::takes_packet) {
        return Inputs { packets: true, bytes: packets::corpus(SEED, INPUTS) };
    }
    let mut random = packets::Random::new(SEED);
    Inputs { packets: false, bytes: (0..INPUTS).map(|_| random.bytes(CONTEXT_WORDS * size_of::<u64>())).collect() }
}

fn compare(object: &Object, program: &Program, toolchain: &Toolchain, setting: Setting, inputs: &Inputs) -> Comparison {
    let trace = |engine: Engine| -> Result<Trace, String> {
        // A new one each time, because runs change maps.
        let vm = prepared(object, program, (engine == Engine::Native).then_some((toolchain, setting)));
        vm_trace(&vm.map_err(|error| error.to_string())?, program, inputs.iter(), engine)
    };
    judge(|| trace(Engine::Interpreter), || trace(Engine::Native), &inputs.bytes)
}

/// A VM with the program, as native code where a setting says how.
fn prepared(object: &Object, program: &Program, native: Option<(&Toolchain, Setting)>) -> Result<Vm, Error> {
    let vm = loading::new_vm(object, program, kiln_vm::Options::default())?;
    if let Some((toolchain, setting)) = native {
        vm.load_native(&program.name, toolchain, setting)?;
    }
    Ok(vm)
}

fn measure(
    object: &Object,
    program: &Program,
    toolchain: &Toolchain,
    settings: &[(Setting, Comparison)],
    inputs: &Inputs,
) -> Result<Vec<Timed>, Error> {
    let mut codes = vec![Code::Jit];
    codes.extend(settings.iter().map(|(setting, _)| Code::Native(*setting)));
    let native = |code: &Code| match code {
        Code::Jit => None,
        Code::Native(setting) => Some((toolchain, *setting)),
    };
    let vms = codes.iter().map(|code| prepared(object, program, native(code))).collect::<Result<Vec<_>, _>>()?;
    Ok(tier::measure(&codes, MEASURING, &mut |at| {
        let run =
            |input: kiln_vm::Input<'_>| vms[at].run(&program.name, &input.repeated(RUNS), codes[at].engine()).ok();
        let times: Vec<f64> = inputs.iter().take(TIMED).filter_map(run).map(|ran| ran.duration_ns).collect();
        (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
    }))
}

/// Writes the shared object, the static library and the header.
fn write(
    object: &Object,
    program: &Program,
    options: &Options,
    toolchain: &Toolchain,
    setting: Setting,
) -> Result<(usize, Vec<Shown>, Vec<PathBuf>), Error> {
    let symbols = symbols(&program.name);
    let vm = prepared(object, program, None)?;
    let module = vm.native_module(&program.name, setting, &symbols)?;
    let toolchain = match &options.cpu {
        Some(cpu) => &toolchain.clone().for_cpu(cpu),
        None => toolchain,
    };
    let shared = toolchain.compile(&module.text, setting)?;
    let words = module.addresses.len();
    let image = kiln_native::Image::read(&shared, &entry_symbol(&symbols), &table_symbol(&symbols), words)?;
    let library = toolchain.archive(&module.text, setting, &symbols)?;
    std::fs::create_dir_all(&options.folder).map_err(|error| Error::file(&options.folder, &error))?;
    let addresses: Vec<String> = module.addresses.iter().map(|address| described(*address, object)).collect();
    let header = header(program, &symbols, setting, options, &module, &addresses);
    let file = |end: &str| options.folder.join(format!("{symbols}.{end}"));
    let files = [(file("so"), shared), (file("a"), library), (file("h"), header.into_bytes())];
    for (path, bytes) in &files {
        output::write_whole(path, bytes)?;
    }
    let addresses = addresses.into_iter().map(Shown::from).collect();
    Ok((image.code_bytes, addresses, files.into_iter().map(|(path, _)| path).collect()))
}

/// A program's name as a C identifier.
fn symbols(name: &str) -> String {
    let letters = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
    let text: String = letters.collect();
    if text.starts_with(|first: char| first.is_ascii_digit()) { format!("_{text}") } else { text }
}

/// A word of the table, for those who fill it.
fn described(address: Address, object: &Object) -> String {
    let map = |map: kiln_program::MapId| object.maps.get(map.index()).map_or("?", |map| map.name.as_str());
    match address {
        Address::Map(id) => format!("map {}: what helpers take for it", map(id)),
        Address::MapValue { map: id, offset } => {
            format!("map {}: address of byte {offset} of its first value", map(id))
        }
        Address::Array(id) => format!("map {}: address of its first value; values are adjacent", map(id)),
        Address::Helper(id) => match Helper::by_id(id) {
            Some(helper) => format!("helper bpf_{}", helper.name),
            None => format!("helper {id}"),
        },
        Address::Extern(id) => {
            let name = object.externs.get(id.index()).map_or("?", |symbol| symbol.name.as_str());
            format!("{name}: a kfunc's or a kernel symbol's address")
        }
        Address::PacketLoad => {
            "classic packet loads: (context, offset, bytes) to the value in host order, or -1".to_owned()
        }
        Address::Arena => "the arena's first byte, at a multiple of 4 GiB".to_owned(),
        Address::Refill => "the routine to ask when the budget is spent: (runtime, 1 at a may_goto)".to_owned(),
    }
}

fn header(
    program: &Program,
    symbols: &str,
    setting: Setting,
    options: &Options,
    module: &Module,
    addresses: &[String],
) -> String {
    let guard = format!("KILN_{symbols}_H");
    let cpu = options.cpu.as_deref().unwrap_or("the one that it was built on");
    let type_name = program.program_type.map_or("program", |known| known.name());
    let (entry, table) = (entry_symbol(symbols), table_symbol(symbols));
    let mut text = format!(
        "/*\n * {name}: a verified {type_name} program as machine code ({setting}), for this CPU: {cpu}.\n \
         * The program was verified, not this code's caller: the context must be one of its type, and the table must\n \
         * hold what it says. A context's 32-bit addresses (data, data_end) are of memory below 4 GiB: mmap with MAP_32BIT.\n \
         */\n#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n\n\
         #ifndef KILN_RUNTIME\n#define KILN_RUNTIME\n\
         struct kiln_runtime {{\n\
         \tint64_t budget;        /* instructions that a run may take; negative afterwards: it was stopped */\n\
         \tuint64_t trap;         /* for helpers */\n\
         \tuint64_t tail_context; /* for compiled code */\n}};\n\n\
         typedef uint64_t (*kiln_helper)(uint64_t r1, uint64_t r2, uint64_t r3, uint64_t r4, uint64_t r5,\n\
         \t\t\t\tstruct kiln_runtime *runtime);\n#endif\n\n\
         #ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n",
        // A name may hold what ends a comment.
        name = symbols,
        setting = setting.name(),
    );
    for (place, what) in addresses.iter().enumerate() {
        let what: String = kiln_program::Clean(what).to_string().replace("*/", "* /");
        let _ = writeln!(text, "/* {table}[{place}]: {what} */");
    }
    let words = module.addresses.len().max(1);
    let _ = write!(
        text,
        "/* Addresses that the code needs; to be filled before the first run. */\n\
         #define {symbols}_ADDRESSES {count}\nextern uint64_t {table}[{words}];\n\n\
         /* Runs it once. Returns R0. */\n\
         uint64_t {entry}(uint64_t context, struct kiln_runtime *runtime);\n\n\
         #ifdef __cplusplus\n}}\n#endif\n#endif\n",
        count = addresses.len(),
    );
    text
}
