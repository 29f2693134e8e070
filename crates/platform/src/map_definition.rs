//! What the kernel makes a map of (`BPF_MAP_CREATE`), and what it refuses: sizes, flags, `map_extra`.
//!
//! ```
//! use kiln_platform::{KernelVersion, MapDefinition, MapType};
//! let trie = MapDefinition { map_type: MapType::LpmTrie, key: 8, value: 4, entries: 16, flags: 1, extra: 0 };
//! let kernel = KernelVersion::new(6, 18);
//! assert_eq!(trie.refused(kernel), None);
//! let short = MapDefinition { key: 4, ..trie }.refused(kernel).unwrap();
//! assert_eq!(short, "a key of 4 bytes; lpm_trie takes 5 to 260");
//! ```

use crate::map_type::SizeRule;
use crate::{KernelVersion, MapType, MapTypes};

/// The definition of a map, as the kernel gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapDefinition {
    /// Its type.
    pub map_type: MapType,
    /// Bytes in a key.
    pub key: u32,
    /// Bytes in a value.
    pub value: u32,
    /// `max_entries`.
    pub entries: u32,
    /// `map_flags`.
    pub flags: u32,
    /// `map_extra`.
    pub extra: u64,
}

/// A flag of `BPF_MAP_CREATE` that an object may ask for.
struct MapFlag {
    /// Its name in the kernel's headers.
    name: &'static str,
    bit: u32,
    since: KernelVersion,
    /// The types that take it.
    types: MapTypes,
    /// The types of which the kernel makes no map without it.
    needed: MapTypes,
}

const fn flag(name: &'static str, bit: u32, (major, minor): (u8, u8), types: MapTypes) -> MapFlag {
    MapFlag { name, bit: 1 << bit, since: KernelVersion::new(major, minor), types, needed: MapTypes::NONE }
}

const fn needed(types: MapTypes, row: MapFlag) -> MapFlag {
    MapFlag { needed: types, ..row }
}

use MapType::*;

const LOCAL_STORAGE: MapTypes = MapTypes::of(&[SkStorage, InodeStorage, TaskStorage, CgrpStorage]);
const PLAIN_HASHES: MapTypes = MapTypes::of(&[Hash, PercpuHash, HashOfMaps]);
const LRU_HASHES: MapTypes = MapTypes::of(&[LruHash, LruPercpuHash]);
const HASHES: MapTypes = PLAIN_HASHES.union(LRU_HASHES);
/// Arrays of the kernel's own objects, which only user space fills.
const OBJECT_ARRAYS: MapTypes = MapTypes::of(&[ProgArray, PerfEventArray, CgroupArray, ArrayOfMaps]);
/// Types of which programs may be kept from reading or writing.
const FOR_PROGRAMS: MapTypes = MapTypes::of(&[
    Array,
    PercpuArray,
    LpmTrie,
    Queue,
    Stack,
    BloomFilter,
    CgroupStorage,
    PercpuCgroupStorage,
    ReuseportSockarray,
])
.union(HASHES);
/// Types of which user space may be kept from reading or writing.
const FOR_USERS: MapTypes =
    FOR_PROGRAMS.union(OBJECT_ARRAYS).union(MapTypes::of(&[StackTrace, Devmap, DevmapHash, Sockmap, Sockhash, Xskmap]));
const NOT_ON_A_NODE: MapTypes =
    LOCAL_STORAGE.union(MapTypes::of(&[StructOps, Arena, PercpuArray, PercpuHash, LruPercpuHash]));

const FLAGS: &[MapFlag] = &[
    needed(
        LOCAL_STORAGE.union(MapTypes::of(&[LpmTrie, Rhash])),
        flag("BPF_F_NO_PREALLOC", 0, (4, 6), LOCAL_STORAGE.union(PLAIN_HASHES).union(MapTypes::of(&[LpmTrie, Rhash]))),
    ),
    flag("BPF_F_NO_COMMON_LRU", 1, (4, 10), LRU_HASHES),
    flag("BPF_F_NUMA_NODE", 2, (4, 14), MapTypes::ALL.without(NOT_ON_A_NODE)),
    flag("BPF_F_RDONLY", 3, (4, 15), FOR_USERS),
    flag("BPF_F_WRONLY", 4, (4, 15), FOR_USERS),
    flag("BPF_F_STACK_BUILD_ID", 5, (4, 17), MapTypes::of(&[StackTrace])),
    flag("BPF_F_ZERO_SEED", 6, (5, 0), HASHES.union(MapTypes::of(&[BloomFilter]))),
    flag("BPF_F_RDONLY_PROG", 7, (5, 2), FOR_PROGRAMS),
    flag("BPF_F_WRONLY_PROG", 8, (5, 2), FOR_PROGRAMS),
    flag("BPF_F_CLONE", 9, (5, 4), LOCAL_STORAGE),
    needed(MapTypes::of(&[Arena]), flag("BPF_F_MMAPABLE", 10, (5, 5), MapTypes::of(&[Array, Arena]))),
    flag("BPF_F_PRESERVE_ELEMS", 11, (5, 10), MapTypes::of(&[PerfEventArray])),
    flag("BPF_F_INNER_MAP", 12, (5, 10), MapTypes::of(&[Array])),
    flag("BPF_F_SEGV_ON_FAULT", 17, (6, 9), MapTypes::of(&[Arena])),
    flag("BPF_F_NO_USER_CONV", 18, (6, 9), MapTypes::of(&[Arena])),
    flag("BPF_F_RB_OVERWRITE", 19, (6, 19), MapTypes::of(&[Ringbuf])),
];

/// Types whose keys or values had other sizes before a release.
struct Earlier {
    before: KernelVersion,
    types: MapTypes,
    is_key: bool,
    rule: SizeRule,
}

const fn earlier((major, minor): (u8, u8), types: MapTypes, is_key: bool, rule: SizeRule) -> Earlier {
    Earlier { before: KernelVersion::new(major, minor), types, is_key, rule }
}

/// Measured under Linux 5.4 and 5.10; between two of the kernels asked, the release is that of the kernel's history.
const EARLIER: &[Earlier] = &[
    earlier((5, 11), HASHES, true, SizeRule::Between(1, 512)),
    earlier((5, 7), MapTypes::of(&[Sockmap, Sockhash]), false, SizeRule::Exactly(4)),
    earlier((5, 8), MapTypes::of(&[Devmap, DevmapHash]), false, SizeRule::Exactly(4)),
    earlier((5, 9), MapTypes::of(&[Cpumap]), false, SizeRule::Exactly(4)),
    earlier((5, 9), MapTypes::of(&[CgroupStorage, PercpuCgroupStorage]), true, SizeRule::Exactly(16)),
    earlier((5, 15), MapTypes::of(&[CgroupStorage, PercpuCgroupStorage]), false, SizeRule::Between(1, 4096)),
];

/// Bytes of a hash table's key and value: with its own fields, an element is less than `KMALLOC_MAX_SIZE`.
const MOST_OF_AN_ELEMENT: u64 = (4 << 20) - 49;

/// The flag of stack traces whose frames are build ids and offsets, of this many bytes.
const STACK_BUILD_ID: u32 = 1 << 5;
const BUILD_ID_BYTES: u32 = 32;

/// Flags that exclude each other.
const EXCLUSIVE: &[(u32, &str)] =
    &[(3 << 3, "BPF_F_RDONLY and BPF_F_WRONLY"), (3 << 7, "BPF_F_RDONLY_PROG and BPF_F_WRONLY_PROG")];

impl MapDefinition {
    /// What a kernel of this release refuses in it, and what it takes instead; `None` if it makes the map.
    pub fn refused(&self, kernel: KernelVersion) -> Option<String> {
        self.refused_size(kernel).or_else(|| self.refused_flags(kernel)).or_else(|| {
            let (most, words) = match self.map_type {
                Arena => return None,
                BloomFilter => (15, "0 to 15"),
                _ => (0, "none"),
            };
            (self.extra > most).then(|| format!("map_extra {}; {} takes {words}", self.extra, self.map_type))
        })
    }

    fn refused_size(&self, kernel: KernelVersion) -> Option<String> {
        let rules = self.map_type.rules();
        let of = |is_key: bool, now: SizeRule| {
            let then =
                |row: &&Earlier| row.is_key == is_key && row.types.contains(self.map_type) && kernel < row.before;
            EARLIER.iter().find(then).map_or(now, |row| row.rule)
        };
        let sizes = [
            (of(true, rules.key), self.key, "a key of", " bytes"),
            (of(false, rules.value), self.value, "a value of", " bytes"),
            (rules.entries, self.entries, "max_entries", ""),
        ];
        if let Some((rule, size, what, unit)) = sizes.into_iter().find(|(rule, size, ..)| !rule.allows(*size)) {
            return Some(format!("{what} {size}{unit}; {} takes {}", self.map_type, words(rule)));
        }
        let has_build_ids = self.map_type == StackTrace && self.flags & STACK_BUILD_ID != 0;
        if has_build_ids && !self.value.is_multiple_of(BUILD_ID_BYTES) {
            let size = self.value;
            return Some(format!("a value of {size} bytes; with build ids it has multiples of {BUILD_ID_BYTES}"));
        }
        let element = u64::from(self.key) + u64::from(self.value);
        (HASHES.contains(self.map_type) && element > MOST_OF_AN_ELEMENT)
            .then(|| format!("keys and values of {element} bytes; {} takes {MOST_OF_AN_ELEMENT}", self.map_type))
    }

    fn refused_flags(&self, kernel: KernelVersion) -> Option<String> {
        let has = |row: &&MapFlag| row.since <= kernel;
        let known = FLAGS.iter().filter(has).filter(|row| row.types.contains(self.map_type));
        let unknown = self.flags & !known.fold(0, |bits, row| bits | row.bit);
        if unknown != 0 {
            let named = FLAGS.iter().find(|row| row.bit & unknown != 0);
            let flag = named.map_or_else(|| format!("map_flags {unknown:#x}"), |row| row.name.to_owned());
            return Some(format!("{flag}; {} does not take it", self.map_type));
        }
        if let Some((_, both)) = EXCLUSIVE.iter().find(|(both, _)| self.flags & both == *both) {
            return Some(format!("{both}; it is one or the other"));
        }
        let lacks = |row: &&MapFlag| row.needed.contains(self.map_type) && self.flags & row.bit == 0;
        let missing = FLAGS.iter().filter(has).find(lacks)?;
        Some(format!("no {}; {} needs it", missing.name, self.map_type))
    }
}

/// A rule in words.
fn words(rule: SizeRule) -> String {
    match rule {
        SizeRule::Exactly(only) => only.to_string(),
        SizeRule::OneOf(sizes) => sizes.iter().map(u32::to_string).collect::<Vec<_>>().join(" or "),
        SizeRule::Between(low, u32::MAX) => format!("at least {low}"),
        SizeRule::Between(low, high) => format!("{low} to {high}"),
        SizeRule::MultipleBetween(low, high, unit) => format!("multiples of {unit} from {low} to {high}"),
        SizeRule::PowerOfTwoPages => "a power of two of at least a page".to_owned(),
    }
}
