//! Making maps: what sizes are allowed, and which storage a type has.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

use kiln_platform::MapType;

use super::definition::{Definition, flag};
use super::hash::{self, Hash};
use super::queue::{Bloom, Queue};
use super::ring::Ring;
use super::slots::waiting_room;
use super::storage::{Map, Storage};
use super::trie::Trie;
use super::values::{Layout, Values};
use crate::arena::{self, Arena, Heaps};
use crate::grace::Grace;
use crate::memory::Places;

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
    #[error(
        "map {name} needs {bytes} bytes; the VM gives a map {limit} at most (`--map-bytes`), the kernel (`--in kernel`) as many as there are"
    )]
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

/// What maps are made with.
pub(crate) struct Making<'m> {
    /// Where their memory goes.
    pub places: &'m mut Places,
    /// CPUs there are.
    pub cpus: u32,
    /// Bytes that one map may take.
    pub limit: u64,
    /// The runs that may hold pointers into them.
    pub grace: &'m Arc<Grace>,
    /// The arenas among them.
    pub heaps: &'m mut Heaps,
}

impl Map {
    /// Creates a map with zero values.
    ///
    /// # Errors
    /// [`CreateError`]: a type the VM lacks, sizes the type does not allow, more bytes than the limit.
    pub(crate) fn new(definition: Definition, making: &mut Making<'_>) -> Result<Map, CreateError> {
        check(&definition, making.cpus, making.limit)?;
        let storage =
            create(&definition, making).map_err(|source| CreateError::Os { name: definition.name.clone(), source })?;
        let Some(storage) = storage else {
            return Err(CreateError::Unsupported { name: definition.name, map_type: definition.map_type });
        };
        Ok(Map { definition, storage, frozen: AtomicBool::new(false) })
    }

    /// A map that the VM lacks. Nothing can be done with it; calls that take it have stand-ins.
    pub(crate) const fn absent(definition: Definition) -> Map {
        Map { definition, storage: Storage::Absent, frozen: AtomicBool::new(false) }
    }
}

/// Bytes that an entry takes beside its key and value, at most.
const NODE_BYTES: u64 = 32;

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
    // Each lock is a word, and no two are in one.
    let mut end = 0;
    for lock in &definition.locks {
        if *lock < end || !lock.is_multiple_of(4) || lock.checked_add(4).is_none_or(|after| after > *value_size) {
            let what = format!("a lock at byte {lock} of the value");
            return Err(CreateError::Invalid { name: name.clone(), map_type: *map_type, what });
        }
        end = lock + 4;
    }
    let copies = if rules.per_cpu { u64::from(cpus) } else { 1 };
    let value = u64::from(*value_size).next_multiple_of(8) * copies;
    let entry = u64::from(*key_size) + value + NODE_BYTES;
    let bytes = match map_type {
        Type::Ringbuf => 2 * u64::from(*max_entries),
        Type::BloomFilter => u64::from(*max_entries) * 4,
        // Values alone, which take memory only where they are written.
        Type::Array | Type::PercpuArray => u64::from(*max_entries).saturating_mul(value),
        Type::Arena => u64::from(*max_entries) * arena::PAGE_BYTES,
        _ => (u64::from(*max_entries) + 1).saturating_mul(entry),
    };
    if bytes > limit {
        return Err(CreateError::Limit { name: name.clone(), bytes, limit });
    }
    Ok(())
}

fn create(definition: &Definition, making: &mut Making<'_>) -> io::Result<Option<Storage>> {
    use kiln_platform::MapType as Type;
    let &Definition { map_type, key_size, value_size, max_entries, flags, extra, .. } = definition;
    let rules = map_type.rules();
    let Making { places, cpus, grace, heaps, .. } = making;
    let cpus = if rules.per_cpu { *cpus } else { 1 };
    let layout = Layout { size: value_size, cpus, access: definition.access(), locks: &definition.locks };
    let numbers = || (0..max_entries).map(|_| AtomicU32::new(0)).collect();
    let shape = |least_recently_used| hash::Shape {
        key_size,
        max_entries,
        least_recently_used,
        per_cpu: rules.per_cpu,
        grace: (flags & flag::NO_PREALLOC != 0).then_some(*grace),
        values: layout,
    };
    Ok(Some(match map_type {
        Type::Array | Type::PercpuArray => Storage::Array(Values::new(places, max_entries.into(), layout)?),
        // A jump table: what programs read of it, one address after the other.
        Type::InsnArray => {
            let layout = Layout { size: kiln_program::JumpTable::ENTRY_BYTES, ..layout };
            Storage::Array(Values::new(places, max_entries.into(), layout)?)
        }
        Type::Hash | Type::Rhash | Type::PercpuHash | Type::DevmapHash | Type::StackTrace | Type::Sockhash => {
            Storage::Hash(Hash::new(places, shape(false))?)
        }
        Type::LruHash | Type::LruPercpuHash => Storage::Hash(Hash::new(places, shape(true))?),
        Type::LpmTrie => {
            let slots = max_entries.saturating_add(waiting_room(value_size.into()));
            let values = Values::new(places, slots.into(), layout)?;
            Storage::Trie(Trie::new(key_size, max_entries, slots, values, Arc::clone(grace)))
        }
        Type::Devmap
        | Type::Cpumap
        | Type::Xskmap
        | Type::Sockmap
        | Type::ReuseportSockarray
        | Type::CgroupArray
        | Type::PerfEventArray => {
            let present = (0..max_entries).map(|_| AtomicBool::new(false)).collect();
            Storage::Slots { values: Values::new(places, max_entries.into(), layout)?, present }
        }
        // One storage: the VM is one cgroup.
        Type::CgroupStorage | Type::PercpuCgroupStorage => Storage::Array(Values::new(places, 1, layout)?),
        Type::ProgArray => Storage::Programs(numbers()),
        Type::ArrayOfMaps => Storage::MapArray(numbers()),
        Type::HashOfMaps => {
            let values = Layout { size: 4, locks: &[], ..layout };
            Storage::MapHash(Hash::new(places, hash::Shape { values, ..shape(false) })?)
        }
        Type::Queue => Storage::Queue(Queue::new(value_size, max_entries, false)),
        Type::Stack => Storage::Queue(Queue::new(value_size, max_entries, true)),
        Type::BloomFilter => Storage::Bloom(Bloom::new(places, max_entries, extra)?),
        Type::Ringbuf => Storage::Ring(Ring::new(places, max_entries)?),
        Type::Arena => Storage::Arena(Arena::new(places, heaps, max_entries)?),
        Type::SkStorage
        | Type::InodeStorage
        | Type::TaskStorage
        | Type::CgrpStorage
        | Type::StructOps
        | Type::UserRingbuf => return Ok(None),
    }))
}
