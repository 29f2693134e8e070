//! Maps: creation, and the operations that programs and user space share.
//!
//! Programs pass keys and values by address and get addresses back; user space passes bytes. Both end in the same
//! few operations on a [`Storage`]. Errors are the kernel's, operation by operation.
//!
//! A map is known to programs by its *handle*, a number that is no valid address: [`handle`] and [`index_of_handle`].

mod hash;
mod queue;
mod ring;
mod trie;
mod user;
mod values;

use std::io;

use kiln_platform::MapType;
use kiln_program::FunctionId;

use crate::errno::Errno;
use crate::memory::{Access, Memory, RegionId};
pub use hash::Hash;
pub use queue::{Bloom, Queue};
pub use ring::Ring;
pub use trie::Trie;
pub use user::Entries;
pub use values::Values;

/// Flags of `BPF_MAP_CREATE` that change what the VM does (`include/uapi/linux/bpf.h`).
mod flag {
    pub const NO_PREALLOC: u32 = 1 << 0;
    pub const RDONLY_PROG: u32 = 1 << 7;
    /// An inner array may have another number of entries than its template.
    pub const INNER_MAP: u32 = 1 << 12;
}

/// Handles begin here: not canonical on x86-64, so that using one as an address faults.
const HANDLE_BASE: u64 = 0x4d41_5000_0000_0000;

/// What programs hold for the map with this index.
pub const fn handle(index: u32) -> u64 {
    HANDLE_BASE | index as u64
}

/// The index of the map behind a handle, should it be one.
#[inline]
pub const fn index_of_handle(handle: u64) -> Option<usize> {
    if handle >> 32 == HANDLE_BASE >> 32 { Some(handle as u32 as usize) } else { None }
}

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
    /// From the flags argument. `BPF_F_LOCK` is taken as done: nothing runs beside the program.
    ///
    /// # Errors
    /// `EINVAL` for anything else.
    pub const fn from_bits(bits: u64) -> Result<UpdateFlag, Errno> {
        const LOCK: u64 = 4;
        match bits & !LOCK {
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
}

impl Definition {
    /// What the object says. A perf event array of 0 entries gets one per CPU, as libbpf does it.
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
        }
    }
}

impl Definition {
    /// Whether a map may stand where this one is the template, as the kernel's `map_meta_equal` has it: the verifier
    /// judged accesses to it by the template.
    pub fn may_be_replaced_by(&self, other: &Definition) -> bool {
        let fixed_entries = self.map_type == MapType::Array && self.flags & flag::INNER_MAP == 0;
        self.map_type == other.map_type
            && self.key_size == other.key_size
            && self.value_size == other.value_size
            && self.flags == other.flags
            && (!fixed_entries || self.max_entries == other.max_entries)
    }
}

/// Why a map cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The VM lacks this type.
    #[error("map {name}: the VM does not support {map_type} maps")]
    Unsupported {
        /// The map.
        name: String,
        /// Its type.
        map_type: MapType,
    },
    /// Sizes that the type does not allow.
    #[error("map {name}: {what} does not suit a {map_type} map")]
    Invalid {
        /// The map.
        name: String,
        /// Its type.
        map_type: MapType,
        /// Which size, and its value.
        what: String,
    },
    /// More memory than allowed.
    #[error("map {name} needs {bytes} bytes; the limit is {limit}")]
    Limit {
        /// The map.
        name: String,
        /// What it needs.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The operating system refused.
    #[error("map {name}: {source}")]
    Os {
        /// The map.
        name: String,
        /// Why.
        source: io::Error,
    },
}

/// A map.
#[derive(Debug)]
pub struct Map {
    /// What it is.
    pub definition: Definition,
    storage: Storage,
    /// User space may not change it any more (`BPF_MAP_FREEZE`).
    frozen: bool,
}

/// How a map keeps its entries.
#[derive(Debug)]
pub(crate) enum Storage {
    /// Every index has a value.
    Array(Values),
    Hash(Hash),
    Trie(Trie),
    /// Indices may be empty: targets of redirection, perf events, cgroups.
    Slots {
        values: Values,
        present: Vec<bool>,
    },
    Programs(Vec<Option<FunctionId>>),
    /// Handles of maps by index; 0 is none.
    MapArray(Vec<u64>),
    MapHash(Hash),
    Queue(Queue),
    Bloom(Bloom),
    Ring(Ring),
    /// The VM lacks it: see [`crate::stand_in`].
    Absent,
}

impl Map {
    /// Creates a map with zero values.
    ///
    /// # Errors
    /// [`CreateError`]: a type the VM lacks, sizes the type does not allow, more than `limit` bytes.
    pub fn new(definition: Definition, memory: &mut Memory, cpus: u32, limit: u64) -> Result<Map, CreateError> {
        check(&definition, cpus, limit)?;
        let storage = create(&definition, memory, cpus)
            .map_err(|source| CreateError::Os { name: definition.name.clone(), source })?;
        let Some(storage) = storage else {
            return Err(CreateError::Unsupported { name: definition.name, map_type: definition.map_type });
        };
        let map = Map { definition, storage, frozen: false };
        if map.definition.flags & flag::RDONLY_PROG != 0 {
            map.protect(memory);
        }
        Ok(map)
    }

    /// A map that the VM lacks. Nothing can be done with it; calls that take it have stand-ins.
    pub(crate) const fn absent(definition: Definition) -> Map {
        Map { definition, storage: Storage::Absent, frozen: false }
    }

    /// Ends all changes by user space, as `BPF_MAP_FREEZE`: what the verifier took for constants stays.
    pub fn freeze(&mut self) {
        self.frozen = true;
    }

    /// Whether user space may change it.
    ///
    /// # Errors
    /// `EPERM` once it is frozen.
    pub fn check_not_frozen(&self) -> Result<(), Errno> {
        if self.frozen { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// Makes its values read-only for programs.
    pub fn protect(&self, memory: &mut Memory) {
        if let Some(region) = self.values().map(Values::region) {
            memory.set_access(region, Access::Read);
        }
    }

    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    pub(crate) fn storage_mut(&mut self) -> &mut Storage {
        &mut self.storage
    }

    fn values(&self) -> Option<&Values> {
        match &self.storage {
            Storage::Array(values) | Storage::Slots { values, .. } => Some(values),
            Storage::Hash(hash) | Storage::MapHash(hash) => Some(&hash.values),
            Storage::Trie(trie) => Some(&trie.values),
            _ => None,
        }
    }

    /// The region its values are in, if they are in one.
    pub fn region(&self) -> Option<RegionId> {
        self.values().map(Values::region)
    }

    /// For maps that programs may index without asking (plain arrays): the first value's address and the bytes from
    /// one value to the next.
    pub fn direct_values(&self) -> Option<(u64, u64)> {
        match &self.storage {
            Storage::Array(values) if !self.definition.map_type.rules().per_cpu => {
                Some((values.address(0, 0), values.element_stride()))
            }
            _ => None,
        }
    }

    /// Bytes in a value.
    #[inline]
    pub fn value_size(&self) -> usize {
        self.definition.value_size as usize
    }

    /// What `bpf_map_lookup_elem` returns: a value's address, an inner map's handle, or 0.
    #[inline]
    pub fn look_up(&mut self, memory: &Memory, key: u64, cpu: u32) -> Option<u64> {
        let bytes = memory.bytes(key, self.definition.key_size as usize)?;
        Some(match &mut self.storage {
            Storage::Array(values) => match index(bytes, self.definition.max_entries) {
                Some(index) => values.address(index, if values.cpus() == 1 { 0 } else { cpu }),
                None => 0,
            },
            Storage::Hash(hash) => match hash.look_up(bytes) {
                Some(slot) => hash.values.address(slot, if hash.values.cpus() == 1 { 0 } else { cpu }),
                None => 0,
            },
            Storage::Trie(trie) => trie.find_longest(bytes).map_or(0, |slot| trie.values.address(slot, 0)),
            Storage::Slots { values, present } => match index(bytes, present.len() as u32) {
                Some(index) if present[index as usize] => values.address(index, 0),
                _ => 0,
            },
            Storage::MapArray(handles) => index(bytes, handles.len() as u32).map_or(0, |index| handles[index as usize]),
            Storage::MapHash(hash) => match hash.find(bytes) {
                Some(slot) => {
                    let value = hash.values.get(memory, slot, 0);
                    handle(u32::from_ne_bytes(value.try_into().unwrap_or_default()))
                }
                None => 0,
            },
            Storage::Programs(_) | Storage::Queue(_) | Storage::Bloom(_) | Storage::Ring(_) | Storage::Absent => 0,
        })
    }

    /// What `bpf_map_lookup_percpu_elem` returns.
    pub fn look_up_on(&mut self, memory: &Memory, key: u64, cpu: u32) -> Option<u64> {
        match self.values() {
            Some(values) if cpu < values.cpus() => self.look_up(memory, key, cpu),
            _ => Some(0),
        }
    }

    /// `bpf_map_update_elem`. `Ok(Err(..))` is the kernel's refusal; `None` is memory that is not the program's.
    #[inline]
    pub fn update(
        &mut self,
        memory: &mut Memory,
        key: u64,
        value: u64,
        flags: u64,
        cpu: u32,
    ) -> Option<Result<(), Errno>> {
        let flag = match UpdateFlag::from_bits(flags) {
            Ok(flag) => flag,
            Err(errno) => return Some(Err(errno)),
        };
        let mut buffer = [0; kiln_platform::limits::MAX_KEY_BYTES as usize];
        let bytes = memory.bytes(key, self.definition.key_size as usize)?;
        let key = buffer.get_mut(..bytes.len())?;
        key.copy_from_slice(bytes);
        memory.bytes(value, self.definition.value_size as usize)?;
        let (slot, values) = match self.place(memory, key, flag) {
            Ok(found) => found,
            Err(errno) => return Some(Err(errno)),
        };
        let cpu = if values.cpus() == 1 { 0 } else { cpu };
        Some(values.copy_in(memory, slot, cpu, value).ok_or(Errno::EPERM))
    }

    /// Where the value of a key is to be written.
    fn place(&mut self, memory: &mut Memory, key: &[u8], flag: UpdateFlag) -> Result<(u32, &Values), Errno> {
        match &mut self.storage {
            Storage::Array(values) => {
                let index = index(key, self.definition.max_entries).ok_or(Errno::E2BIG)?;
                if flag == UpdateFlag::NoExist { Err(Errno::EEXIST) } else { Ok((index, values)) }
            }
            Storage::Hash(hash) => Ok((hash.prepare(memory, key, flag)?, &hash.values)),
            Storage::Trie(trie) => Ok((trie.prepare(key, flag)?, &trie.values)),
            Storage::Slots { values, present } => {
                let index = index(key, present.len() as u32).ok_or(Errno::E2BIG)?;
                if flag == UpdateFlag::NoExist {
                    return Err(Errno::EEXIST);
                }
                present[index as usize] = true;
                Ok((index, values))
            }
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// `bpf_map_delete_elem`. `None` is memory that is not the program's.
    pub fn delete(&mut self, memory: &Memory, key: u64) -> Option<Result<(), Errno>> {
        let key = memory.bytes(key, self.definition.key_size as usize)?;
        Some(self.delete_key(key))
    }

    fn delete_key(&mut self, key: &[u8]) -> Result<(), Errno> {
        match &mut self.storage {
            Storage::Array(_) => Err(Errno::EINVAL),
            Storage::Hash(hash) | Storage::MapHash(hash) => hash.remove(key).map(|_| ()),
            Storage::Trie(trie) => trie.remove(key),
            Storage::Slots { present, .. } => {
                let perf = self.definition.map_type == MapType::PerfEventArray;
                let slot = slot(key, present)?;
                if perf && !*slot {
                    return Err(Errno::ENOENT);
                }
                *slot = false;
                Ok(())
            }
            Storage::Programs(targets) => slot(key, targets)?.take().map(|_| ()).ok_or(Errno::ENOENT),
            Storage::MapArray(handles) => match std::mem::take(slot(key, handles)?) {
                0 => Err(Errno::ENOENT),
                _ => Ok(()),
            },
            Storage::Queue(_) => Err(Errno::EINVAL),
            Storage::Bloom(_) | Storage::Ring(_) | Storage::Absent => Err(Errno::EOPNOTSUPP),
        }
    }

    /// `bpf_map_push_elem`.
    pub fn push(&mut self, memory: &Memory, value: u64, flags: u64) -> Option<Result<(), Errno>> {
        let value = memory.bytes(value, self.value_size())?;
        let lock_free = if flags > 2 { Err(Errno::EINVAL) } else { UpdateFlag::from_bits(flags) };
        Some(lock_free.and_then(|flag| self.push_value(value, flag)))
    }

    fn push_value(&mut self, value: &[u8], flag: UpdateFlag) -> Result<(), Errno> {
        match &mut self.storage {
            Storage::Queue(queue) => queue.push(value, flag),
            Storage::Bloom(bloom) if flag == UpdateFlag::Any => {
                bloom.push(value);
                Ok(())
            }
            Storage::Bloom(_) => Err(Errno::EINVAL),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// `bpf_map_pop_elem` and `bpf_map_peek_elem`.
    pub fn take(&mut self, memory: &mut Memory, value: u64, remove: bool) -> Option<Result<(), Errno>> {
        let size = self.value_size();
        let target = memory.bytes_mut(value, size)?;
        Some(match &mut self.storage {
            Storage::Queue(queue) => match queue.peek() {
                Some(bytes) => {
                    target.copy_from_slice(bytes);
                    if remove {
                        queue.pop();
                    }
                    Ok(())
                }
                None => {
                    target.fill(0);
                    Err(Errno::ENOENT)
                }
            },
            Storage::Bloom(bloom) if !remove => {
                if bloom.contains(target) {
                    Ok(())
                } else {
                    Err(Errno::ENOENT)
                }
            }
            _ => Err(Errno::EOPNOTSUPP),
        })
    }

    /// A run has ended.
    pub fn end_of_run(&mut self) {
        if let Storage::Hash(hash) | Storage::MapHash(hash) = &mut self.storage {
            hash.end_of_run();
        }
    }
}

/// The index that a four-byte key is, where it is below `count`.
#[inline]
fn index(key: &[u8], count: u32) -> Option<u32> {
    let index = u32::from_ne_bytes(key.try_into().ok()?);
    (index < count).then_some(index)
}

fn slot<'s, T>(key: &[u8], slots: &'s mut [T]) -> Result<&'s mut T, Errno> {
    let index = u32::from_ne_bytes(key.try_into().map_err(|_| Errno::EINVAL)?);
    slots.get_mut(index as usize).ok_or(Errno::E2BIG)
}

fn check(definition: &Definition, cpus: u32, limit: u64) -> Result<(), CreateError> {
    use kiln_platform::MapType as Type;
    let Definition { name, map_type, key_size, value_size, max_entries, .. } = definition;
    let rules = map_type.rules();
    for (rule, what, size) in [
        (rules.key, "a key size of", *key_size),
        (rules.value, "a value size of", *value_size),
        (rules.entries, "max_entries =", *max_entries),
    ] {
        if !rule.allows(size) {
            return Err(CreateError::Invalid {
                name: name.clone(),
                map_type: *map_type,
                what: format!("{what} {size}"),
            });
        }
    }
    let copies = if rules.per_cpu { u64::from(cpus) } else { 1 };
    let entry = u64::from(*key_size) + u64::from(*value_size).next_multiple_of(8) * copies + 16;
    let bytes = match map_type {
        Type::Ringbuf => 2 * u64::from(*max_entries),
        Type::BloomFilter => u64::from(*max_entries) * 4,
        _ => (u64::from(*max_entries) + 1).saturating_mul(entry),
    };
    if bytes > limit {
        return Err(CreateError::Limit { name: name.clone(), bytes, limit });
    }
    Ok(())
}

fn create(definition: &Definition, memory: &mut Memory, cpus: u32) -> io::Result<Option<Storage>> {
    use kiln_platform::MapType as Type;
    let &Definition { map_type, key_size, value_size, max_entries, flags, extra, .. } = definition;
    let count = max_entries as usize;
    let rules = map_type.rules();
    let copies = if rules.per_cpu { cpus } else { 1 };
    let mut values = |extra: u64, size| Values::new(memory, u64::from(max_entries) + extra, size, copies);
    let shape = |least_recently_used| hash::Shape {
        key_size,
        max_entries,
        least_recently_used,
        per_cpu: rules.per_cpu,
        no_preallocation: flags & flag::NO_PREALLOC != 0,
    };
    Ok(Some(match map_type {
        Type::Array | Type::PercpuArray => Storage::Array(values(0, value_size)?),
        Type::Hash | Type::PercpuHash | Type::DevmapHash | Type::StackTrace | Type::Sockhash => {
            Storage::Hash(Hash::new(shape(false), values(1, value_size)?))
        }
        Type::LruHash | Type::LruPercpuHash => Storage::Hash(Hash::new(shape(true), values(1, value_size)?)),
        Type::LpmTrie => Storage::Trie(Trie::new(key_size, max_entries, values(1, value_size)?)),
        Type::Devmap
        | Type::Cpumap
        | Type::Xskmap
        | Type::Sockmap
        | Type::ReuseportSockarray
        | Type::CgroupArray
        | Type::PerfEventArray => Storage::Slots { values: values(0, value_size)?, present: vec![false; count] },
        // One storage: the VM is one cgroup.
        Type::CgroupStorage | Type::PercpuCgroupStorage => Storage::Array(values(1, value_size)?),
        Type::ProgArray => Storage::Programs(vec![None; count]),
        Type::ArrayOfMaps => Storage::MapArray(vec![0; count]),
        Type::HashOfMaps => Storage::MapHash(Hash::new(shape(false), values(1, 4)?)),
        Type::Queue => Storage::Queue(Queue::new(value_size, max_entries, false)),
        Type::Stack => Storage::Queue(Queue::new(value_size, max_entries, true)),
        Type::BloomFilter => Storage::Bloom(Bloom::new(max_entries, extra)),
        Type::Ringbuf => Storage::Ring(Ring::new(memory, max_entries)?),
        Type::SkStorage
        | Type::InodeStorage
        | Type::TaskStorage
        | Type::CgrpStorage
        | Type::StructOps
        | Type::UserRingbuf
        | Type::Arena => return Ok(None),
    }))
}
