//! Loading the IR without an ELF file: maps by `BPF_MAP_CREATE`, slots by `BPF_PROG_LOAD`.
//!
//! Filetests and oracles use objects that do not come from files. References are resolved here as a loader would: a map
//! becomes its descriptor (`BPF_PSEUDO_MAP_FD`), a byte of a data section its map's descriptor and an offset
//! (`BPF_PSEUDO_MAP_VALUE`), a kernel function its id in the kernel's types. Where the object has types of its own,
//! they are loaded before it, for its maps and functions. Other externs and CO-RE need libbpf and are refused.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::LazyLock;

use kiln_isa::Slot;
use kiln_platform::{AttachType, ProgramType, section_program_type};
use kiln_program::btf::{Btf, Kind};
use kiln_program::{ExternKind, FunctionId, Image, Map, MapContents, MapId, Object, Program, Reference};

use crate::elf::{LoadFailure, ProgramLog, loaded_size};
use crate::error::{Error, c_string, check};
use crate::map::MapHandle;
use crate::prog::Prog;

/// A program loaded from the IR, with the maps it uses.
#[derive(Debug)]
pub struct LoadedImage {
    /// The program.
    pub prog: Prog,
    /// Its maps.
    pub maps: HashMap<MapId, MapHandle>,
}

/// Several programs loaded from the IR, with the maps that they share.
#[derive(Debug)]
pub struct LoadedImages {
    /// The programs, in the object's order.
    pub progs: Vec<Prog>,
    /// Their maps.
    pub maps: HashMap<MapId, MapHandle>,
}

/// Bytes of verifier log that are kept, and the log level: 1 is the trace of a failure.
const LOG_BYTES: usize = 1 << 20;

/// Loads one program of an IR object, with its subprograms and maps.
///
/// # Errors
/// [`LoadFailure`], with the verifier's log where the verifier refused.
pub fn load_image(object: &Object, program: &Program) -> Result<LoadedImage, LoadFailure> {
    let mut maps = HashMap::new();
    let types = load_types(object)?;
    let prog = load_sharing(object, program, types.as_ref(), &mut maps)?;
    Ok(LoadedImage { prog, maps })
}

/// Loads all programs of an IR object, with one map for each that they use.
///
/// # Errors
/// As [`load_image`], of the first program that the kernel refuses.
pub fn load_images(object: &Object) -> Result<LoadedImages, LoadFailure> {
    let mut maps = HashMap::new();
    let types = load_types(object)?;
    let load = |program| load_sharing(object, program, types.as_ref(), &mut maps);
    let progs = object.programs.iter().map(load).collect::<Result<_, _>>()?;
    Ok(LoadedImages { progs, maps })
}

/// Loads one program; maps that are not there yet are created.
fn load_sharing(
    object: &Object,
    program: &Program,
    types: Option<&OwnedFd>,
    maps: &mut HashMap<MapId, MapHandle>,
) -> Result<Prog, LoadFailure> {
    load_with_maps(object, program, types, LOG_BYTES, |id| {
        let handle = match maps.entry(id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(create_map(object.map(id), types)?),
        };
        Ok(handle.fd().as_raw_fd())
    })
}

/// Loads many programs one after the other for their verdicts: maps of the same definition are created once.
#[derive(Debug, Default)]
pub struct Loader {
    maps: HashMap<String, Vec<(Map, MapHandle)>>,
}

/// Names of maps that a loader keeps at most.
const KEPT_MAPS: usize = 2000;

impl Loader {
    /// Loads one program of an IR object without types; asks for the verifier's log of a failure if wanted, which takes
    /// longer.
    ///
    /// # Errors
    /// As [`load_image`].
    pub fn load(&mut self, object: &Object, program: &Program, with_log: bool) -> Result<Prog, LoadFailure> {
        if self.maps.len() > KEPT_MAPS {
            self.maps.clear();
        }
        let log_bytes = if with_log { LOG_BYTES } else { 0 };
        load_with_maps(object, program, None, log_bytes, |id| self.map(object.map(id)))
    }

    fn map(&mut self, map: &Map) -> Result<RawFd, Error> {
        let known = self.maps.entry(map.name.clone()).or_default();
        let at = match known.iter().position(|(definition, _)| definition == map) {
            Some(at) => at,
            None => {
                known.push((map.clone(), create_map(map, None)?));
                known.len() - 1
            }
        };
        Ok(known[at].1.fd().as_raw_fd())
    }
}

/// Lays a program out, resolves its references, and loads it.
fn load_with_maps(
    object: &Object,
    program: &Program,
    types: Option<&OwnedFd>,
    log_bytes: usize,
    descriptor: impl FnMut(MapId) -> Result<RawFd, Error>,
) -> Result<Prog, LoadFailure> {
    let program_type = program
        .program_type
        .ok_or_else(|| LoadFailure::from(Error::InvalidInput(format!("program {} has no type", program.name))))?;
    let mut image = kiln_program::lower_program(object, program)
        .map_err(|error| LoadFailure::from(Error::InvalidInput(error.to_string())))?;
    let tables = create_tables(object, &image)?;
    let mut descriptor = descriptor;
    resolve(object, &mut image, |id| match tables.get(&id) {
        Some(table) => Ok(table.fd().as_raw_fd()),
        None => descriptor(id),
    })?;
    let (hook, attach) = match program_type {
        ProgramType::StructOps => member_ids(program)?,
        _ => (hook_id(program)?, program.attach_type.map_or(0, |attach_type| attach_type.number())),
    };
    let loading = Loading {
        name: &program.name,
        program_type,
        attach,
        hook,
        flags: program.flags(),
        license: &object.license,
        types: types.map(|types| (types.as_fd(), functions_of(object, &image))),
    };
    load_slots(&loading, &image.slots, log_bytes)
}

/// Loads the object's types into the kernel, if it has any.
fn load_types(object: &Object) -> Result<Option<OwnedFd>, Error> {
    let Some(bytes) = object.btf.as_deref().filter(|bytes| !bytes.is_empty()) else { return Ok(None) };
    let mut options =
        libbpf_sys::bpf_btf_load_opts { sz: size_of::<libbpf_sys::bpf_btf_load_opts>() as _, ..Default::default() };
    // SAFETY: the bytes and the options outlive the call, which is told the size of both.
    let fd = check("loading types", unsafe {
        libbpf_sys::bpf_btf_load(bytes.as_ptr().cast(), bytes.len() as _, &mut options)
    })?;
    // SAFETY: the kernel just gave us this descriptor.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Where each function begins, and its type (`struct bpf_func_info`); none unless all have one.
fn functions_of(object: &Object, image: &Image) -> Vec<[u32; 2]> {
    let typed = |(id, slot): &(FunctionId, usize)| [*slot as u32, object.function(*id).btf_id];
    let functions: Vec<[u32; 2]> = image.functions.iter().map(typed).collect();
    if functions.iter().all(|[_, type_id]| *type_id != 0) { functions } else { Vec::new() }
}

/// The running kernel's types.
pub(crate) static TYPES: LazyLock<Option<Btf>> = LazyLock::new(|| {
    let bytes = std::fs::read("/sys/kernel/btf/vmlinux").ok()?;
    Btf::parse(&bytes).ok()
});

/// The id that the running kernel's types give a function, variable or other name.
fn kernel_id(name: &str, wanted: fn(&Kind) -> bool) -> Result<i32, LoadFailure> {
    let id = TYPES.as_ref().and_then(|types| types.find(name, wanted));
    let id = id.and_then(|id| i32::try_from(id.0).ok());
    id.ok_or_else(|| Error::InvalidInput(format!("the running kernel has no {name}")).into())
}

fn is_function(kind: &Kind) -> bool {
    matches!(kind, Kind::Function { .. })
}

/// The structure of the kernel that a `struct_ops` program is put in, and the number of its member.
fn member_ids(program: &Program) -> Result<(u32, u32), LoadFailure> {
    let named = program.target.as_deref().and_then(|target| target.split_once('.'));
    let lacks = || Error::InvalidInput(format!("program {}: the running kernel has no such member", program.name));
    let found = || {
        let (structure, member) = named?;
        let types = TYPES.as_ref()?;
        let id = types.find(structure, |kind| matches!(kind, Kind::Composite { .. }))?;
        let index = types.members(id).iter().position(|own| types.text(own.name) == member)?;
        Some((id.0, index as u32))
    };
    found().ok_or_else(|| lacks().into())
}

/// The id of the hook that the program's section names, where hooks of its kind are found in the kernel's types; 0 for
/// others.
pub(crate) fn hook_id(program: &Program) -> Result<u32, LoadFailure> {
    let rule = section_program_type(&program.section).filter(|rule| rule.target_by_btf);
    let Some((rule, hook)) = rule.and_then(|rule| Some((rule, rule.hook(&program.section)?))) else { return Ok(0) };
    let id = match rule.attach_type {
        Some(AttachType::TraceRawTp) => {
            kernel_id(&format!("btf_trace_{hook}"), |kind| matches!(kind, Kind::Typedef { .. }))
        }
        Some(AttachType::TraceIter) => kernel_id(&format!("bpf_iter_{hook}"), is_function),
        Some(AttachType::LsmMac | AttachType::LsmCgroup) => kernel_id(&format!("bpf_lsm_{hook}"), is_function),
        Some(_) => kernel_id(hook, is_function),
        // A replacement's target is a program, not a kernel function.
        None => Ok(0),
    };
    Ok(id? as u32)
}

fn resolve(
    object: &Object,
    image: &mut Image,
    mut descriptor: impl FnMut(MapId) -> Result<RawFd, Error>,
) -> Result<(), LoadFailure> {
    for relocation in &image.relocations {
        let (map, offset, pseudo) = match relocation.reference {
            Reference::Map(map) => (map, 0, 1),
            Reference::MapValue { map, offset } => (map, offset, 2),
            Reference::Extern(symbol) if object.externs[symbol.index()].kind == ExternKind::Kfunc => {
                image.slots[relocation.slot].imm = kernel_id(&object.externs[symbol.index()].name, is_function)?;
                continue;
            }
            Reference::Extern(symbol) if object.externs[symbol.index()].kind == ExternKind::TypedKsym => {
                let name = &object.externs[symbol.index()].name;
                image.slots[relocation.slot].src = BPF_PSEUDO_BTF_ID;
                image.slots[relocation.slot].imm = kernel_id(name, |kind| matches!(kind, Kind::Variable { .. }))?;
                continue;
            }
            other => return Err(Error::InvalidInput(format!("{other:?} needs libbpf to resolve")).into()),
        };
        image.slots[relocation.slot].imm = descriptor(map)?;
        image.slots[relocation.slot].src = pseudo;
        image.slots[relocation.slot + 1].imm = offset as i32;
    }
    Ok(())
}

/// Creates the jump tables that a program refers to. The kernel takes a table from one program only.
fn create_tables(object: &Object, image: &Image) -> Result<HashMap<MapId, MapHandle>, Error> {
    let mut tables = HashMap::new();
    if object.functions.iter().all(|function| function.tables.is_empty()) {
        return Ok(tables);
    }
    let mut slots = HashMap::new();
    for (slot, id) in (0u32..).zip(&image.insns) {
        slots.entry(*id).or_insert(slot);
    }
    for relocation in &image.relocations {
        let Reference::MapValue { map, .. } = relocation.reference else { continue };
        let Some(table) = object.jump_table(map).filter(|_| !tables.contains_key(&map)) else { continue };
        let handle = create_map(object.map(map), None)?;
        for (index, target) in (0u32..).zip(&table.targets) {
            let Some(slot) = slots.get(target) else {
                return Err(Error::InvalidInput(format!(
                    "jump table {} leads out of the program",
                    object.map(map).name
                )));
            };
            // `struct bpf_insn_array_value`: the slot, and what the kernel fills in.
            let mut value = [0; 16];
            value[..4].copy_from_slice(&slot.to_le_bytes());
            handle.update(&index.to_le_bytes(), &value, 0)?;
        }
        handle.freeze()?;
        tables.insert(map, handle);
    }
    Ok(tables)
}

/// Creates a map of the kernel from its definition and fills in its initial contents.
///
/// # Errors
/// [`Error::Os`]; [`Error::InvalidInput`] for contents that only libbpf can set up.
pub fn create_map(map: &Map, types: Option<&OwnedFd>) -> Result<MapHandle, Error> {
    let inner = map.inner.as_deref().map(|inner| create_map(inner, types)).transpose()?;
    let types = types.filter(|_| map.value_btf != 0);
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
        map_flags: map.flags,
        map_extra: map.extra,
        btf_fd: types.map_or(0, |types| types.as_raw_fd() as u32),
        btf_key_type_id: types.map_or(0, |_| map.key_btf),
        btf_value_type_id: types.map_or(0, |_| map.value_btf),
        inner_map_fd: inner.as_ref().map_or(0, |inner| inner.fd().as_raw_fd() as u32),
        ..Default::default()
    };
    let name = c_string(&kernel_name(&map.name))?;
    // SAFETY: the name is a C string, the options state their size; both outlive the call.
    let fd = check(format!("creating map {}", map.name), unsafe {
        libbpf_sys::bpf_map_create(
            map.map_type.number(),
            name.as_ptr(),
            map.key_size,
            loaded_size(map.map_type.number(), map.value_size),
            map.max_entries,
            &options,
        )
    })?;
    // SAFETY: the kernel just gave us this descriptor.
    let handle = MapHandle::new(unsafe { OwnedFd::from_raw_fd(fd) })?;
    match &map.contents {
        MapContents::Empty | MapContents::Kconfig(_) => {}
        MapContents::Data(_) if map.map_type.rules().per_cpu => {
            return Err(Error::InvalidInput(format!("map {} needs libbpf to be filled", map.name)));
        }
        MapContents::Data(bytes) | MapContents::ReadOnly(bytes) => {
            let mut value = bytes.clone();
            value.resize(handle.value_bytes() as usize, 0);
            handle.update(&0u32.to_le_bytes(), &value, 0)?;
            if map.is_constant() {
                handle.freeze()?;
            }
        }
        MapContents::StructOps(_) | MapContents::Slots(_) => {
            return Err(Error::InvalidInput(format!("map {} needs libbpf to be filled", map.name)));
        }
    }
    Ok(handle)
}

/// `BPF_PSEUDO_BTF_ID`: a `ld_imm64` of the address of a kernel variable.
const BPF_PSEUDO_BTF_ID: u8 = 3;

/// The kernel's object names: 15 characters of letters, digits, `_` and `.`.
pub(crate) fn kernel_name(name: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' };
    name.chars().map(legal).take(15).collect()
}

/// Attributes of `BPF_PROG_LOAD` other than the slots.
pub(crate) struct Loading<'a> {
    pub name: &'a str,
    pub program_type: ProgramType,
    /// What it is attached to (`expected_attach_type`); for a `struct_ops` program, the number of a member.
    pub attach: u32,
    /// The hook's id in the kernel's types, 0 for none.
    pub hook: u32,
    pub flags: u32,
    pub license: &'a str,
    /// The program's types, and where its functions begin.
    pub types: Option<(BorrowedFd<'a>, Vec<[u32; 2]>)>,
}

/// Loads slots whose references are resolved. With `log_bytes` 0 no log is asked for.
pub(crate) fn load_slots(loading: &Loading<'_>, slots: &[Slot], log_bytes: usize) -> Result<Prog, LoadFailure> {
    let Loading { name, program_type, attach, hook, flags, license, ref types } = *loading;
    let bytes: Vec<u64> = slots.iter().map(|slot| u64::from_le_bytes(slot.to_bytes())).collect();
    let kernel_name = c_string(&kernel_name(name))?;
    let license = c_string(license)?;
    let mut log = vec![0u8; log_bytes];
    let load = |log_level: u32, log: &mut Vec<u8>| {
        let mut options = libbpf_sys::bpf_prog_load_opts {
            sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as _,
            expected_attach_type: attach,
            prog_flags: flags,
            attach_btf_id: hook,
            prog_btf_fd: types.as_ref().map_or(0, |(types, _)| types.as_raw_fd() as u32),
            func_info: types.as_ref().map_or(std::ptr::null(), |(_, functions)| functions.as_ptr().cast()),
            func_info_cnt: types.as_ref().map_or(0, |(_, functions)| functions.len() as u32),
            func_info_rec_size: size_of::<[u32; 2]>() as u32,
            log_level,
            log_size: if log_level == 0 { 0 } else { log.len() as u32 },
            log_buf: if log_level == 0 { std::ptr::null_mut() } else { log.as_mut_ptr().cast() },
            ..Default::default()
        };
        // SAFETY: strings, slots and log are valid for the sizes passed and outlive the call.
        unsafe {
            libbpf_sys::bpf_prog_load(
                program_type.number(),
                kernel_name.as_ptr(),
                license.as_ptr(),
                bytes.as_ptr().cast(),
                bytes.len() as _,
                &mut options,
            )
        }
    };
    let mut result = load(0, &mut log);
    if result < 0 && log_bytes > 0 {
        // A log that is too long for its buffer changes the error to ENOSPC: the first answer counts.
        let again = load(1, &mut log);
        result = if again < 0 { result } else { again };
    }
    let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
    let log = String::from_utf8_lossy(text).into_owned();
    match check(format!("loading program {name}"), result) {
        // SAFETY: the kernel just gave us this descriptor.
        Ok(fd) => Ok(Prog::new(unsafe { OwnedFd::from_raw_fd(fd) })),
        Err(error) => Err(LoadFailure {
            error,
            logs: vec![ProgramLog { program: name.to_owned(), log }],
            messages: String::new(),
        }),
    }
}
