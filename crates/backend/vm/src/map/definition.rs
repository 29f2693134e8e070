//! The definition of a map, and the flags of its creation and of updates.

use kiln_platform::MapType;

use crate::errno::Errno;
use crate::memory::Access;

/// Flags of `BPF_MAP_CREATE` that change what the VM does (`include/uapi/linux/bpf.h`).
pub(super) mod flag {
    pub const NO_PREALLOC: u32 = 1 << 0;
    /// An inner array may have another number of entries than its template.
    pub const INNER_MAP: u32 = 1 << 12;
}

/// `BPF_F_LOCK`: an update writes under the value's lock.
pub(super) const LOCK: u64 = 4;

/// When an update applies (`BPF_ANY`, `BPF_NOEXIST`, `BPF_EXIST`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UpdateFlag {
    /// Always.
    #[default]
    Any,
    /// Only to a new key.
    NoExist,
    /// Only to a key that is there.
    Exist,
}

impl UpdateFlag {
    /// From the flags argument, without [`LOCK`].
    ///
    /// # Errors
    /// `EINVAL` for anything else.
    pub const fn from_bits(bits: u64) -> Result<UpdateFlag, Errno> {
        match bits {
            0 => Ok(UpdateFlag::Any),
            1 => Ok(UpdateFlag::NoExist),
            2 => Ok(UpdateFlag::Exist),
            _ => Err(Errno::EINVAL),
        }
    }
}

/// What a map is: the parts of a definition that the VM goes by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// Its type.
    pub map_type: MapType,
    /// Bytes in a key.
    pub key_size: u32,
    /// Bytes in a value.
    pub value_size: u32,
    /// Entries at most (bytes, for ring buffers).
    pub max_entries: u32,
    /// Flags of its creation.
    pub flags: u32,
    /// `map_extra`.
    pub extra: u64,
    /// Offsets of `bpf_spin_lock`s in a value, ascending.
    pub locks: Vec<u32>,
}

impl Definition {
    /// What the object says, but for locks, which its types say. A perf event array of 0 entries gets one per CPU, as libbpf does it.
    pub fn of(map: &kiln_program::Map, cpus: u32) -> Definition {
        let sized_by_cpus = map.map_type == MapType::PerfEventArray && map.max_entries == 0;
        Definition {
            name: map.name.clone(),
            map_type: map.map_type,
            key_size: map.key_size,
            value_size: map.value_size,
            max_entries: if sized_by_cpus { cpus } else { map.max_entries },
            flags: map.flags,
            extra: map.extra,
            locks: Vec::new(),
        }
    }
}

impl Definition {
    /// What programs may do with values.
    pub(super) fn access(&self) -> Access {
        let read_only = self.flags & kiln_program::READ_ONLY_FLAG != 0 || self.map_type == MapType::InsnArray;
        if read_only { Access::Read } else { Access::ReadWrite }
    }

    /// Whether a map may replace this template, as in the kernel's `map_meta_equal`: the verifier checked accesses by
    /// the template.
    pub fn may_be_replaced_by(&self, other: &Definition) -> bool {
        let fixed_entries = self.map_type == MapType::Array && self.flags & flag::INNER_MAP == 0;
        self.map_type == other.map_type
            && self.key_size == other.key_size
            && self.value_size == other.value_size
            && self.flags == other.flags
            && self.locks == other.locks
            && (!fixed_entries || self.max_entries == other.max_entries)
    }
}
