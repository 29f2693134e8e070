//! One program of an object, in the running kernel.

mod ask;
pub mod verdict;

use kiln_linux::{LOG_STATISTICS, LoadFailure, LoadedObject, ObjectFile, Prog, ProgInfo, TestInput, TestOutput};
use kiln_platform::ProgramType;
use kiln_program::{MapContents, Needs, Object, Program};

pub use ask::{Answer, NotAsked, ask, ask_unread};

use kiln_inspect::input::Input;
use kiln_program::Error;

/// A program loaded by libbpf from an object file's bytes, alone with the maps it uses.
pub struct KernelProgram {
    /// The object, which keeps the maps alive.
    pub object: LoadedObject,
    /// The program.
    pub prog: Prog,
    /// How many native operations the kernel was told of.
    pub native_operations: usize,
}

/// A function of a loaded program, which another program is to replace (`freplace`) or trace.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The program that has it.
    pub program: &'a Prog,
    /// Its name.
    pub function: &'a str,
}

/// Loads one program of an object file. `object` is the same file as read by Kiln.
///
/// # Errors
/// [`LoadFailure`] with the verifier's log.
pub fn load(bytes: &[u8], object: &Object, program: &Program) -> Result<KernelProgram, LoadFailure> {
    load_logged(bytes, object, program, None, 0, None)
}

/// Loads one program of an object file, for a function of another program.
///
/// # Errors
/// As [`load`].
pub fn load_for(
    bytes: &[u8],
    object: &Object,
    program: &Program,
    target: Option<Target<'_>>,
) -> Result<KernelProgram, LoadFailure> {
    load_logged(bytes, object, program, target, 0, None)
}

/// Loads one program of an object file for its verdict: like [`load_for`], but the log has messages and statistics
/// without the states of the paths, and the kernel verifies a rejected program once, not twice. Where a machine is
/// emulated, printing states takes most of the time.
///
/// # Errors
/// As [`load`].
pub(crate) fn load_tersely(
    bytes: &[u8],
    object: &Object,
    program: &Program,
    target: Option<Target<'_>>,
) -> Result<KernelProgram, LoadFailure> {
    load_logged(bytes, object, program, target, LOG_STATISTICS, None)
}

/// Loads one program of an object file with the statistics of its verification (see [`LoadedObject::logs`]).
///
/// # Errors
/// As [`load`].
pub fn load_with_statistics(bytes: &[u8], object: &Object, program: &Program) -> Result<KernelProgram, LoadFailure> {
    load_logged(bytes, object, program, None, LOG_STATISTICS, None)
}

/// Loads several programs of an object file at once: for an object of many, each load of one reads all of it. Programs
/// that need a load of their own (`struct_ops`, `freplace`) are not among them. Returns what the kernel says of each.
///
/// # Errors
/// As [`load`], if the kernel takes one of them only with less than all of them.
pub(crate) fn load_together(
    bytes: &[u8],
    object: &Object,
    programs: &[&Program],
) -> Result<Vec<Result<ProgInfo, kiln_linux::Error>>, LoadFailure> {
    let mut needs = Needs::default();
    programs.iter().for_each(|program| needs.add(object, program));
    let mut file = opened(bytes, object, programs, needs, &|_| false)?;
    file.size_empty_maps(kiln_platform::LOAD_TIME_ENTRIES);
    let loaded = file.load_with_log(LOG_STATISTICS)?;
    programs.iter().map(|program| Ok(loaded.program(&program.name)?.info())).collect()
}

/// Opens an object for some of its programs, with the maps that they need and those that are fed.
fn opened<'a>(
    bytes: &[u8],
    object: &'a Object,
    programs: &[&Program],
    mut used: Needs<'a>,
    fed: &dyn Fn(&str) -> bool,
) -> Result<ObjectFile, LoadFailure> {
    used.add_filled_prog_arrays(object);
    // libbpf looks for every symbol of the object, and fails for those that only other programs need.
    let weakened = kiln_elf::with_weak_externs(&object.name, bytes, |name| used.externs.contains(name)).ok();
    let mut file = ObjectFile::open(&object.name, weakened.as_deref().unwrap_or(bytes))?;
    file.only(&used.programs.iter().map(|name| &**name).collect::<Vec<_>>())?;
    let entries = file.programs();
    for program in programs {
        let known = entries.iter().any(|entry| entry.name == program.name && entry.program_type != 0);
        if let (false, Some(program_type)) = (known, program.program_type) {
            file.set_type(program, program_type)?;
        }
    }
    file.without_maps(|name| {
        !fed(name)
            && object.maps.iter().any(|map| same_map(&map.name, name))
            && !used.maps.iter().any(|own| same_map(own, name))
    });
    Ok(file)
}

fn load_logged(
    bytes: &[u8],
    object: &Object,
    program: &Program,
    target: Option<Target<'_>>,
    level: u32,
    feed: Option<&[String]>,
) -> Result<KernelProgram, LoadFailure> {
    let mut used = Needs::of(object, program);
    for program in object.programs.iter().filter(|program| feed.is_some_and(|more| more.contains(&program.name))) {
        used.add(object, program);
    }
    let fed = |map: &str| feed.is_some_and(|names| names.iter().any(|name| same_map(name, map)));
    let mut file = opened(bytes, object, &[program], used, &fed)?;
    if program.program_type == Some(ProgramType::StructOps) {
        file.only_in_slots(&program.name)?;
    }
    if let Some(target) = target {
        file.set_target(&program.name, target.program, target.function)?;
    }
    file.size_empty_maps(kiln_platform::LOAD_TIME_ENTRIES);
    for map in object.maps.iter().filter(|_| feed.is_some()) {
        if let MapContents::Data(bytes) | MapContents::ReadOnly(bytes) = &map.contents {
            file.set_contents(&map.name, bytes);
        }
    }
    let loaded = file.load_with_log(level)?;
    if target.is_none()
        && let Some(native) = loaded.native_program(object, program)
    {
        return Ok(KernelProgram { object: loaded, prog: native.prog, native_operations: native.records });
    }
    let prog = loaded.program(&program.name)?;
    Ok(KernelProgram { object: loaded, prog, native_operations: 0 })
}

/// Loads one program of an input, an object file, through libbpf. With `feed`, the contents of data sections are those
/// of `object`, and programs and maps of these names are loaded, too.
///
/// # Errors
/// [`Error::Rejected`] with the verifier's reason; [`Error::Os`] where the kernel refuses before its verifier looks at the program,
/// [`Error::Unsupported`] for text, which has no file to load.
pub(crate) fn load_fed(
    input: &Input,
    object: &Object,
    program: &Program,
    feed: Option<&[String]>,
) -> Result<KernelProgram, Error> {
    if !input.bytes.starts_with(b"\x7fELF") {
        return Err(Error::Unsupported("the kernel loads object files, not text".to_owned()));
    }
    load_logged(&input.bytes, object, program, None, 0, feed).map_err(|failure| match failure.reason() {
        Some(reason) => Error::Rejected(format!("the kernel rejects {}: {reason}", program.name)),
        // Without a log the verifier was not reached.
        None => match failure.error {
            kiln_linux::Error::Os { call, errno } => Error::Os {
                call: format!("loading {}: {call}", program.name),
                errno,
                advice: format!("{}\n{}", kiln_linux::advice(errno), failure.messages),
            },
            other => other.into(),
        },
    })
}

/// libbpf prefixes data sections with the object's name.
pub(crate) fn same_map(own: &str, libbpf: &str) -> bool {
    own == libbpf || own.starts_with('.') && libbpf.ends_with(own)
}

/// Whether the kernel can test-run a program type, and whether it takes a packet.
pub fn takes_packet(program_type: ProgramType) -> bool {
    matches!(
        program_type,
        ProgramType::Xdp
            | ProgramType::SchedCls
            | ProgramType::SchedAct
            | ProgramType::SocketFilter
            | ProgramType::CgroupSkb
            | ProgramType::LwtIn
            | ProgramType::LwtOut
            | ProgramType::LwtXmit
            | ProgramType::LwtSeg6local
            | ProgramType::SkSkb
            | ProgramType::FlowDissector
    )
}

impl KernelProgram {
    /// Runs it on a packet.
    ///
    /// # Errors
    /// What `BPF_PROG_TEST_RUN` answered.
    pub fn run_packet(&self, packet: &[u8], repeat: u32) -> Result<TestOutput, kiln_linux::Error> {
        self.prog.test_run(&TestInput { packet: packet.to_vec(), context: Vec::new(), repeat })
    }

    /// What its maps hold, sorted, for comparing two runs; maps that cannot be walked are left out.
    pub fn map_state(&self) -> Vec<(String, Vec<(Vec<u8>, Vec<u8>)>)> {
        let mut state = Vec::new();
        let mut names = self.object.map_names();
        names.sort();
        for name in names {
            if let Ok(map) = self.object.map(&name)
                && let Ok(entries) = map.entries(MAP_ENTRIES)
            {
                state.push((name, entries));
            }
        }
        state
    }
}

/// Entries of a map that a comparison looks at.
const MAP_ENTRIES: usize = 4096;
