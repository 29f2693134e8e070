//! Registering a `struct_ops` structure: a kernel structure of functions whose members are programs.
//!
//! ```text
//!   programs, loaded for a member each --> map of type struct_ops: one value, the structure, with the programs'
//!                                          descriptors in place of functions --> link: registered while it lives
//! ```

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use kiln_platform::{AttachType, MapType};
use kiln_program::btf::{Kind, TypeId};

use crate::error::{Error, c_string, check};
use crate::image::TYPES;
use crate::map::MapHandle;
use crate::prog::Prog;

/// `BPF_F_LINK`: the structure is registered by a link.
const LINKED: u32 = 1 << 13;

/// A structure that the kernel has registered; dropping it unregisters it.
#[derive(Debug)]
pub struct Registered {
    _link: OwnedFd,
}

impl Registered {
    /// Registers a kernel structure such as `tcp_congestion_ops` (Linux 6.4). `programs` are its functions by their members'
    /// names, `fields` the bytes of other members.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a structure or member that the running kernel does not have, or bytes that are too
    /// long; [`Error::Os`].
    pub fn new(structure: &str, programs: &[(&str, &Prog)], fields: &[(&str, &[u8])]) -> Result<Registered, Error> {
        let types = TYPES.as_ref().ok_or_else(|| Error::InvalidInput("the running kernel has no types".to_owned()))?;
        let lacks = |what: &str| Error::InvalidInput(format!("the running kernel has no {what}"));
        let composite = |name: &str| {
            let found = types.find(name, |kind| matches!(kind, Kind::Composite { .. }));
            found.ok_or_else(|| lacks(&format!("structure {name}")))
        };
        let wrapper = composite(&format!("bpf_struct_ops_{structure}"))?;
        let inner = composite(structure)?;
        let at = |id: TypeId, name: &str| {
            let found = types.members(id).iter().find(|member| types.text(member.name) == name);
            found.map(|member| member.bit_offset as usize / 8).ok_or_else(|| lacks(&format!("member {name}")))
        };
        let size = |id: TypeId| types.size_of(id).and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or_default();
        let data = at(wrapper, "data")?;
        let mut value = vec![0; size(wrapper)];
        let descriptors =
            programs.iter().map(|(name, prog)| (*name, u64::from(prog.fd().as_raw_fd() as u32).to_le_bytes()));
        let descriptors: Vec<(&str, [u8; 8])> = descriptors.collect();
        let functions = descriptors.iter().map(|(name, bytes)| (*name, &bytes[..]));
        for (name, bytes) in functions.chain(fields.iter().copied()) {
            let begin = data + at(inner, name)?;
            let place = value.get_mut(begin..begin + bytes.len());
            place.ok_or_else(|| lacks(&format!("room for member {name}")))?.copy_from_slice(bytes);
        }
        let map = create(structure, wrapper, value.len())?;
        map.update(&0u32.to_le_bytes(), &value, 0)?;
        // SAFETY: the descriptor is open; no options are passed.
        let fd = check(format!("registering {structure}"), unsafe {
            libbpf_sys::bpf_link_create(map.fd().as_raw_fd(), 0, AttachType::StructOps.number(), std::ptr::null())
        })?;
        // SAFETY: the kernel just gave us this descriptor.
        Ok(Registered { _link: unsafe { OwnedFd::from_raw_fd(fd) } })
    }
}

/// The smallest types that the kernel loads: one integer. It wants the map to have types, and does not look at them.
fn some_types() -> Result<OwnedFd, Error> {
    const NAMES: &[u8] = b"\0int\0";
    // btf_header: magic and version, length of the header, types and strings; then btf_type of an integer.
    let header = [0x0001_eb9f, 24, 0, 16, 16, NAMES.len() as u32];
    let integer = [1, 1 << 24, 4, 32];
    let words = header.into_iter().chain(integer).flat_map(u32::to_le_bytes);
    let bytes: Vec<u8> = words.chain(NAMES.iter().copied()).collect();
    // SAFETY: the bytes are valid for their length and outlive the call; no options are passed.
    let fd = check("loading types", unsafe {
        libbpf_sys::bpf_btf_load(bytes.as_ptr().cast(), bytes.len() as _, std::ptr::null_mut())
    })?;
    // SAFETY: the kernel just gave us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes the map whose only value is the structure.
fn create(structure: &str, wrapper: TypeId, bytes: usize) -> Result<MapHandle, Error> {
    let types = some_types()?;
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
        btf_fd: types.as_raw_fd() as u32,
        map_flags: LINKED,
        btf_vmlinux_value_type_id: wrapper.0,
        ..Default::default()
    };
    let name = c_string(&structure.chars().take(15).collect::<String>())?;
    // SAFETY: the name is a C string, the options state their size; both outlive the call.
    let fd = check(format!("creating the map of {structure}"), unsafe {
        libbpf_sys::bpf_map_create(MapType::StructOps.number(), name.as_ptr(), 4, bytes as u32, 1, &options)
    })?;
    // SAFETY: the kernel just gave us this descriptor.
    MapHandle::new(unsafe { OwnedFd::from_raw_fd(fd) })
}
