//! Objects, from disk: BPF ELF files, or Kiln's text form.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use kiln_elf::{ElfObject, KernelConfig, Unreadable};
use kiln_isa::operation::Registry;
use kiln_platform::{KernelVersion, Profile, ProgramType};
use kiln_program::btf::Btf;
use kiln_program::{FunctionId, Linkage, Node, Object, Program, Reference};
use kiln_verifier::Prepared;

use crate::file;
use kiln_program::Error;

/// Bytes of an object file at most: the largest in use are a few MiB.
pub const MAX_FILE_BYTES: u64 = 256 << 20;

/// An object, read.
#[derive(Debug)]
pub struct Input {
    /// The file as it is.
    pub bytes: Vec<u8>,
    /// What it holds.
    pub object: Object,
    /// Its ELF side, which a drop-in is written from; `None` for text.
    pub elf: Option<ElfObject>,
    /// The types of the kernel that it is for, see [`Input::use_kernel_types`].
    pub kernel_types: Option<Arc<Btf>>,
    /// It is to be loaded without privilege.
    pub unprivileged: bool,
    /// The object with the functions that its `freplace` programs stand for.
    pub target: Option<Arc<Input>>,
    /// Why a `freplace` program cannot stand for its function of the target, by the program's name.
    pub unlike: BTreeMap<String, String>,
}

/// Program types given by the caller, for sections whose names say nothing: by program name, or for all of those
/// with an empty name.
pub type Types = [(String, ProgramType)];

/// Reads an object file.
///
/// # Errors
/// [`Error::InvalidInput`] when the file cannot be read or is no BPF object, or a type names no program.
pub fn open(path: &Path, types: &Types) -> Result<Input, Error> {
    parse(&path.display().to_string(), file::read(path, MAX_FILE_BYTES)?, types)
}

/// Reads an object from memory; see [`open`].
///
/// # Errors
/// As [`open`].
pub fn parse(name: &str, bytes: Vec<u8>, types: &Types) -> Result<Input, Error> {
    let file_name = Path::new(name).file_name().map_or(name.into(), |name| name.to_string_lossy());
    let invalid = |error: String| Error::InvalidInput(format!("{name}: {error}"));
    let mut input = if name.ends_with(".bpf") {
        let text = std::str::from_utf8(&bytes).map_err(|error| invalid(error.to_string()))?;
        let mut object = kiln_program::text::parse(text).map_err(|error| invalid(error.to_string()))?;
        if object.name.is_empty() {
            object.name = file_name.into_owned();
        }
        Input { bytes, ..of_object(object) }
    } else {
        check_header(&bytes).map_err(invalid)?;
        let elf = kiln_elf::read(&file_name, &bytes).map_err(|error| elf_error(name, error))?;
        Input { bytes, elf: Some(elf.clone()), ..of_object(elf.object) }
    };
    kiln_program::validate(&input.object).map_err(|error| invalid(error.to_string()))?;
    check_marks(&input.object)?;
    match input.set_types(types).first() {
        Some(name) => Err(input.no_program(name)),
        None => Ok(input),
    }
}

/// Refuses an object whose marks are not true of its programs.
///
/// # Errors
/// [`Error::InvalidInput`] with the mark, its place and the reason.
fn check_marks(object: &Object) -> Result<(), Error> {
    kiln_program::operation::check(object, &Registry::BUILTIN).map_err(|refused| {
        let at = refused.insn.and_then(|insn| {
            object.functions.iter().find_map(|function| {
                let position = function.position(insn)?;
                let slot: u32 = function.nodes[..position].iter().map(|node| node.insn.slots()).sum();
                Some(format!(" (function {}, slot {slot})", function.name))
            })
        });
        Error::InvalidInput(format!("{}: {refused}{}", object.name, at.unwrap_or_default()))
    })
}

/// An input that was never a file, such as a generated one.
pub fn of_object(object: Object) -> Input {
    Input {
        bytes: Vec::new(),
        object,
        elf: None,
        kernel_types: None,
        unprivileged: false,
        target: None,
        unlike: BTreeMap::new(),
    }
}

/// Where the running kernel says its types.
pub const RUNNING_KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Reads a file of kernel types.
///
/// # Errors
/// Returns [`Error::InvalidInput`] if the file cannot be read or has no BTF.
pub fn read_types(path: &Path) -> Result<Arc<Btf>, Error> {
    parse_types(path, &file::read(path, MAX_FILE_BYTES)?)
}

/// Parses the content of a file of kernel types.
///
/// # Errors
/// Returns [`Error::InvalidInput`] if it is no BTF.
pub fn parse_types(path: &Path, bytes: &[u8]) -> Result<Arc<Btf>, Error> {
    let invalid = |error: kiln_program::btf::BtfError| Error::InvalidInput(format!("{}: {error}", path.display()));
    Btf::parse(bytes).map(Arc::new).map_err(invalid)
}

/// The release whose rules apply where no kernel is named: the running kernel's, as far as the tables go.
pub fn default_release() -> KernelVersion {
    rules_of(running_release()).0
}

/// [`default_release`] in words, which say so if the running kernel is newer than the tables.
pub fn default_release_in_words() -> String {
    let (release, other) = rules_of(running_release());
    match other {
        Some(running) => outside_tables(running),
        None if cfg!(target_os = "linux") && !Path::new("/proc/self").exists() => {
            format!("{release} (which kernel runs here is not known: mount /proc)")
        }
        None => release.to_string(),
    }
}

/// What is said of a kernel that is newer than all rows of the tables, or older.
pub(crate) fn outside_tables(release: KernelVersion) -> String {
    let (nearest, which) = match release > KernelVersion::NEWEST {
        true => (KernelVersion::NEWEST, "newest"),
        false => (Profile::OLDEST, "oldest"),
    };
    format!("{nearest} (the {which} that Kiln describes; {release} runs here)")
}

pub(crate) fn running_release() -> Option<KernelVersion> {
    static RELEASE: OnceLock<Option<KernelVersion>> = OnceLock::new();
    let read = || std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?.trim().parse().ok();
    *RELEASE.get_or_init(read)
}

/// The release whose rules stand for a running one; and that one, if the tables do not describe it.
fn rules_of(running: Option<KernelVersion>) -> (KernelVersion, Option<KernelVersion>) {
    let release = running.unwrap_or(KernelVersion::DESCRIBED);
    let nearest = release.clamp(Profile::OLDEST, KernelVersion::NEWEST);
    (nearest, (nearest != release).then_some(release))
}

/// The types of the running kernel, where they can be read; parsed once.
pub fn running_kernel_types() -> Option<Arc<Btf>> {
    static TYPES: OnceLock<Option<Arc<Btf>>> = OnceLock::new();
    let read = || Some(Arc::new(Btf::parse(&std::fs::read(RUNNING_KERNEL_TYPES).ok()?).ok()?));
    TYPES.get_or_init(read).clone()
}

/// Returns an object as it would be loaded into the kernel with these types, the running one in most cases: what `kiln
/// check` verifies, with [`Input::verifier_options`]. CO-RE relocations are resolved, and the configuration's values are
/// filled in. Instructions keep their ids. An object that was resolved for these types stays as it is.
///
/// # Errors
/// Returns [`Error::InvalidInput`] if a relocation is malformed.
pub fn as_loaded(object: &Object, types: Option<&Arc<Btf>>) -> Result<Object, Error> {
    let mut loaded = object.clone();
    if let Some(types) = types {
        kiln_elf::resolve_core(&mut loaded, types).map_err(|error| elf_error(&object.name, error))?;
    }
    if let Some(config) = config_of(types) {
        kiln_elf::resolve_kconfig(&mut loaded, config);
    }
    Ok(loaded)
}

/// The running kernel's configuration, unless the types are another kernel's.
pub(crate) fn config_of(types: Option<&Arc<Btf>>) -> Option<&'static KernelConfig> {
    running_kernel_config().filter(|_| types.is_none_or(are_running))
}

fn are_running(types: &Arc<Btf>) -> bool {
    running_kernel_types().is_some_and(|running| Arc::ptr_eq(types, &running))
}

/// Whether the kernel with these types has no address for a variable: the running one does not list it in
/// `/proc/kallsyms`. Without the list, and of other kernels, nothing is known.
pub(crate) fn lacks_address(variable: &str, types: Option<&Arc<Btf>>) -> bool {
    static NAMES: OnceLock<HashSet<String>> = OnceLock::new();
    let read = || {
        let text = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        text.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect()
    };
    let names = || NAMES.get_or_init(read);
    types.is_some_and(are_running) && !names().is_empty() && !names().contains(variable)
}

/// Says why [`running_kernel_types`] has none, and what to do.
pub fn lack_of_kernel_types() -> &'static str {
    match Path::new("/sys/kernel").exists() {
        true => "/sys/kernel/btf/vmlinux is not there: this kernel was built without CONFIG_DEBUG_INFO_BTF",
        false => "/sys/kernel/btf/vmlinux is not there: mount /sys",
    }
}

/// The running kernel's configuration with the values that loaders add; read once. Where its text cannot be read, only
/// the loaders' values are known. `None` if the kernel does not say its release.
pub fn running_kernel_config() -> Option<&'static KernelConfig> {
    static CONFIG: OnceLock<Option<KernelConfig>> = OnceLock::new();
    CONFIG.get_or_init(read_kernel_config).as_ref()
}

/// The files that [`running_kernel_config`] may be read from, as they are: what they hold decides what it says.
pub fn running_kernel_config_bytes() -> Vec<Vec<u8>> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let paths = [format!("/boot/config-{}", release.trim()), "/proc/config.gz".to_owned()];
    paths.map(|path| std::fs::read(path).unwrap_or_default()).to_vec()
}

fn read_kernel_config() -> Option<KernelConfig> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let release = release.trim();
    let plain = std::fs::read_to_string(format!("/boot/config-{release}")).ok();
    let text = plain.or_else(|| {
        let output = std::process::Command::new("gzip").args(["-dc", "/proc/config.gz"]).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    });
    let numbers: Vec<u64> =
        release.split(|c: char| !c.is_ascii_digit()).take(3).map(|part| part.parse().unwrap_or(0)).collect();
    let config = text.map_or_else(KernelConfig::unknown, |text| KernelConfig::parse(&text));
    Some(with_loaders_values(config, numbers.try_into().ok()?))
}

/// A configuration of which only the values that loaders add are known: those of a release.
pub fn release_config(version: kiln_platform::KernelVersion) -> KernelConfig {
    with_loaders_values(KernelConfig::unknown(), [version.major.into(), version.minor.into(), 0])
}

/// Adds the values that loaders add to a kernel's configuration: its version, and what follows from it.
pub fn with_loaders_values(config: KernelConfig, [major, minor, patch]: [u64; 3]) -> KernelConfig {
    let version = (major << 16) + (minor << 8) + patch.min(255);
    // Every kernel with BTF of its own and a `bpf_get_attach_cookie` since 5.15, and system calls wrapped since 4.17.
    let config = config.with_number("LINUX_KERNEL_VERSION", version);
    let config = config.with_number("LINUX_HAS_BPF_COOKIE", u64::from((major, minor) >= (5, 15)));
    let wrapped = cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) && (major, minor) >= (4, 17);
    config.with_number("LINUX_HAS_SYSCALL_WRAPPER", u64::from(wrapped))
}

/// One more than the highest number that a processor of this machine can have, where the system says.
pub fn possible_processors() -> Option<u32> {
    let ranges = std::fs::read_to_string("/sys/devices/system/cpu/possible").ok()?;
    let last = ranges.trim().rsplit([',', '-']).next()?;
    last.parse::<u32>().ok()?.checked_add(1)
}

/// Says what a file that is no BPF object is instead, where its first bytes tell.
fn check_header(bytes: &[u8]) -> Result<(), String> {
    const MACHINE_AT: usize = 18;
    let machine = || Some(u16::from_le_bytes(bytes.get(MACHINE_AT..MACHINE_AT + 2)?.try_into().ok()?));
    if bytes.is_empty() {
        return Err("the file is empty".to_owned());
    }
    if !bytes.starts_with(b"\x7fELF") {
        return Err("not an ELF file; Kiln reads BPF objects (clang -target bpf) and text that ends in .bpf".to_owned());
    }
    let other = match machine() {
        Some(3 | 62) => "x86",
        Some(40 | 183) => "Arm",
        Some(243) => "RISC-V",
        _ => {
            const SECTION_HEADERS_AT: usize = 40;
            let at =
                bytes.get(SECTION_HEADERS_AT..).and_then(|rest| rest.first_chunk()).map(|at| u64::from_le_bytes(*at));
            let little_endian = bytes.get(5) == Some(&1);
            return match at {
                Some(at) if little_endian && at > bytes.len() as u64 => Err(format!(
                    "the file is cut off: its section headers should begin at byte {at}, and it has {}",
                    bytes.len()
                )),
                _ => Ok(()),
            };
        }
    };
    Err(format!("compiled for {other}, not for BPF; compile with clang -target bpf"))
}

/// The reader's error under the path, or the program's name, that the user knows.
pub fn elf_error(name: &str, error: kiln_elf::Error) -> Error {
    let place = |section: &str, offset: u64| match (section, offset) {
        ("", 0) => String::new(),
        ("", offset) => format!(" (at offset {offset:#x})"),
        (section, offset) => format!(" (section {section}, offset {offset:#x})"),
    };
    match error {
        kiln_elf::Error::InvalidInput { section, offset, message, .. }
        | kiln_elf::Error::Unlinked { section, offset, message, .. } => {
            Error::InvalidInput(format!("{name}: {message}{}", place(&section, offset)))
        }
        kiln_elf::Error::Unsupported { section, offset, what, .. } => {
            Error::Unsupported(format!("{name}: {what}{}", place(&section, offset)))
        }
        other => Error::InvalidInput(other.to_string()),
    }
}

/// The known name that was probably meant, if one is near.
pub fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |known: &str| strsim::damerau_levenshtein(name, known);
    // One slip in three characters.
    let near = |(distance, known): &(usize, &str)| 3 * distance <= known.len().max(name.len());
    known
        .map(|known| (distance(known), known))
        .filter(near)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// A hint after a name that is not known, ` (did you mean NAME?)`; nothing if no known name is near.
pub fn meant<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let near = closest(name, known).filter(|near| *near != name);
    near.map_or(String::new(), |near| format!(" (did you mean {near}?)"))
}

impl Input {
    /// Programs that the object lacks because they cannot be read.
    pub fn unreadable(&self) -> impl Iterator<Item = &Unreadable> {
        let functions = self.elf.iter().flat_map(|elf| &elf.unreadable);
        functions.filter(|function| function.is_program())
    }

    /// Gives programs their types, and makes programs of functions in `.text` that are given one by name. A type for
    /// all makes programs of the global functions there that nothing refers to, where the object has no other program.
    /// Answers with the names that no program has.
    pub fn set_types<'t>(&mut self, types: &'t Types) -> Vec<&'t str> {
        let mut unknown = Vec::new();
        self.add_text_programs(types);
        for (name, program_type) in types {
            let mut found = name.is_empty();
            for program in &mut self.object.programs {
                let untyped = name.is_empty() && program.program_type.is_none();
                if untyped || program.name == *name {
                    program.set_type(*program_type);
                    found = true;
                }
            }
            if !found {
                unknown.push(name.as_str());
            }
        }
        unknown
    }

    /// Has each `freplace` program stand for a function of the target: the one that its section names, unless one is given.
    /// A program for which there is no such function, or an unlike one, is noted in [`Input::unlike`].
    pub fn replace(&mut self, target: Arc<Input>, function: Option<&str>) {
        let options = target.verifier_options();
        let [own, others] = [&self.object, &target.object].map(|object| Prepared::new(object, &options));
        let replacing = |program: &Program| {
            let named = program.section.split_once('/').map(|(_, named)| named);
            let function = function.or(named).ok_or_else(|| {
                "its section names no function; name one after the target, as in PROG.o:FUNCTION".to_owned()
            })?;
            kiln_verifier::replacing(&own, program, &others, function, &options)
        };
        let all = self.object.programs.iter().enumerate();
        let replaced: Vec<_> = all
            .filter(|(_, program)| program.program_type == Some(ProgramType::Ext))
            .map(|(at, program)| (at, replacing(program)))
            .collect();
        for (at, result) in replaced {
            match result {
                Ok(program) => self.object.programs[at] = program,
                Err(why) => drop(self.unlike.insert(self.object.programs[at].name.clone(), why)),
            }
        }
        self.target = Some(target);
    }

    fn add_text_programs(&mut self, types: &Types) {
        let object = &self.object;
        let nodes = || object.functions.iter().flat_map(|function| &function.nodes);
        let lone = object.programs.is_empty() && types.iter().any(|(name, _)| name.is_empty());
        let callee = |node: &Node| match node.reference {
            Reference::Function(id) => Some(id),
            _ => None,
        };
        let referred: HashSet<FunctionId> = nodes().filter(|_| lone).filter_map(callee).collect();
        let mut added = Vec::new();
        for (index, function) in object.functions.iter().enumerate() {
            let entry = FunctionId(index as u32);
            let named = types.iter().any(|(name, _)| *name == function.name);
            let lone = lone && function.linkage != Linkage::Static && !referred.contains(&entry);
            let known = || object.programs.iter().any(|program| program.name == function.name);
            if function.section == ".text" && (named || lone) && !known() {
                added.push(Program::new(&function.name, &function.section, None, entry));
            }
        }
        self.object.programs.extend(added);
    }

    /// Verifies against the types of the running kernel from now on, where they can be read.
    pub fn use_kernel_types(&mut self) {
        self.kernel_types = running_kernel_types();
    }

    /// Reads the object as loading it into the running kernel would: CO-RE relocations are resolved against that kernel's
    /// types, and its configuration values are filled in, where the kernel says them.
    ///
    /// # Errors
    /// Returns [`Error::InvalidInput`] if a relocation is malformed.
    pub fn resolve_for_running_kernel(&mut self) -> Result<(), Error> {
        self.use_kernel_types();
        self.object = self.as_loaded()?;
        Ok(())
    }

    /// Returns the object as it would be loaded into the kernel whose types it has: see [`as_loaded`].
    ///
    /// # Errors
    /// Returns [`Error::InvalidInput`] if a relocation is malformed.
    pub fn as_loaded(&self) -> Result<Object, Error> {
        as_loaded(&self.object, self.kernel_types.as_ref())
    }

    /// Resolves CO-RE relocations against a kernel's BTF, which was read from `path`, as loading there would, and verifies
    /// against its types from now on.
    ///
    /// # Errors
    /// Returns [`Error::InvalidInput`] if a relocation is malformed.
    pub fn resolve_for(&mut self, path: &Path, types: &Arc<Btf>) -> Result<(), Error> {
        let name = self.object.name.clone();
        kiln_elf::resolve_core(&mut self.object, types).map_err(|error| elf_error(&name, error))?;
        self.kernel_types = Some(types.clone());
        if path == Path::new(RUNNING_KERNEL_TYPES) {
            self.resolve_kconfig();
        }
        Ok(())
    }

    /// Fills in the kernel's configuration values as loading into the running kernel would, where that can be read.
    pub fn resolve_kconfig(&mut self) {
        if let Some(config) = running_kernel_config() {
            kiln_elf::resolve_kconfig(&mut self.object, config);
        }
    }

    /// How its programs are verified.
    pub fn verifier_options(&self) -> kiln_verifier::Options {
        let (kernel_types, unprivileged) = (self.kernel_types.clone(), self.unprivileged);
        let profile = Profile::of(default_release());
        kiln_verifier::Options { kernel_types, unprivileged, profile, ..Default::default() }
    }

    /// The programs of these names, or all of them when there are none.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a name the object lacks, with the names it has.
    pub fn select(&self, names: &[String]) -> Result<Vec<&Program>, Error> {
        if names.is_empty() {
            return Ok(self.object.programs.iter().collect());
        }
        names.iter().map(|name| self.program(name)).collect()
    }

    /// The one program a run is about: the named one, or the only one.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when there is no such program, or several and no name.
    pub fn single(&self, names: &[String]) -> Result<&Program, Error> {
        match (names, self.object.programs.as_slice()) {
            ([name], _) => self.program(name),
            ([], [program]) => Ok(program),
            _ => Err(Error::InvalidInput(format!("choose one program with --program: {}", self.names()))),
        }
    }

    fn program(&self, name: &str) -> Result<&Program, Error> {
        self.object.program(name).ok_or_else(|| self.no_program(name))
    }

    /// Why the object holds no programs, and what to do.
    pub fn holds_no_programs(&self) -> Error {
        let functions = self.object.functions.iter();
        let mut text = functions.filter(|function| function.section == ".text" && function.linkage != Linkage::Static);
        let why = match (self.elf.as_ref().and_then(ElfObject::untyped_code), text.next()) {
            (Some(why), _) => format!(": {why}"),
            (None, Some(function)) => {
                format!(": its functions are in .text; say what they are: --type {}=TYPE", function.name)
            }
            (None, None) => String::new(),
        };
        Error::InvalidInput(format!("{} holds no programs{why}", self.object.name))
    }

    /// What an object without any code is for, such as `struct_ops` tables alone; `None` if it has code, or no maps either.
    pub fn only_maps(&self) -> Option<String> {
        let object = &self.object;
        let code = !object.functions.is_empty() || self.unreadable().next().is_some();
        if code || self.elf.as_ref().and_then(ElfObject::untyped_code).is_some() {
            return None;
        }
        let names: Vec<String> =
            object.maps.iter().map(|map| format!("{} ({})", map.name, map.map_type.name())).collect();
        (!names.is_empty()).then(|| format!("{} holds no programs, only maps: {}", object.name, names.join(", ")))
    }

    fn no_program(&self, name: &str) -> Error {
        if let Some(function) = self.unreadable().find(|function| function.function == name) {
            return elf_error(name, function.reason.clone());
        }
        if self.object.programs.is_empty() && self.unreadable().next().is_none() {
            return self.holds_no_programs();
        }
        let known = self.object.programs.iter().map(|program| program.name.as_str());
        Error::InvalidInput(format!("no program {name}{}; there are: {}", meant(name, known), self.names()))
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.object.programs.iter().map(|program| program.name.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_are_those_of_the_nearest_release() {
        let of = |major, minor| KernelVersion::new(major, minor);
        assert_eq!(rules_of(None), (of(6, 18), None));
        assert_eq!(rules_of(Some(of(6, 1))), (of(6, 1), None));
        assert_eq!(rules_of(Some(of(4, 19))), (of(4, 19), None));
        assert_eq!(rules_of(Some(of(4, 9))), (Profile::OLDEST, Some(of(4, 9))));
        assert_eq!(rules_of(Some(of(7, 2))), (of(7, 2), None));
        assert_eq!(rules_of(Some(of(9, 1))), (KernelVersion::NEWEST, Some(of(9, 1))));
        assert_eq!(outside_tables(of(9, 1)), "7.3 (the newest that Kiln describes; 9.1 runs here)");
        assert_eq!(outside_tables(of(4, 9)), "4.18 (the oldest that Kiln describes; 4.9 runs here)");
    }
}
