//! Map types: sizes of keys and values, results of lookups, and the helpers that accept the map.
//!
//! ```
//! use kiln_platform::{Helper, MapType};
//! let redirect_map = Helper::by_name("redirect_map").unwrap();
//! assert!(MapType::Devmap.allows_helper(redirect_map));
//! assert!(!MapType::Hash.allows_helper(redirect_map));
//! ```

use crate::kind::kernel_enum;
use crate::limits::MAX_KEY_BYTES;
use crate::rows::setters;
use crate::{AttachType, HELPER_COUNT, Helper, ProgramType, ProgramTypes, helper_id};
use std::sync::LazyLock;

kernel_enum! {
    /// What kind of map this is (`enum bpf_map_type`).
    enum MapType, set MapTypes;
    Hash = 1, "hash", "BPF_MAP_TYPE_HASH", (3, 19);
    Array = 2, "array", "BPF_MAP_TYPE_ARRAY", (3, 19);
    ProgArray = 3, "prog_array", "BPF_MAP_TYPE_PROG_ARRAY", (4, 2);
    PerfEventArray = 4, "perf_event_array", "BPF_MAP_TYPE_PERF_EVENT_ARRAY", (4, 3);
    PercpuHash = 5, "percpu_hash", "BPF_MAP_TYPE_PERCPU_HASH", (4, 6);
    PercpuArray = 6, "percpu_array", "BPF_MAP_TYPE_PERCPU_ARRAY", (4, 6);
    StackTrace = 7, "stack_trace", "BPF_MAP_TYPE_STACK_TRACE", (4, 6);
    CgroupArray = 8, "cgroup_array", "BPF_MAP_TYPE_CGROUP_ARRAY", (4, 8);
    LruHash = 9, "lru_hash", "BPF_MAP_TYPE_LRU_HASH", (4, 10);
    LruPercpuHash = 10, "lru_percpu_hash", "BPF_MAP_TYPE_LRU_PERCPU_HASH", (4, 10);
    LpmTrie = 11, "lpm_trie", "BPF_MAP_TYPE_LPM_TRIE", (4, 11);
    ArrayOfMaps = 12, "array_of_maps", "BPF_MAP_TYPE_ARRAY_OF_MAPS", (4, 12);
    HashOfMaps = 13, "hash_of_maps", "BPF_MAP_TYPE_HASH_OF_MAPS", (4, 12);
    Devmap = 14, "devmap", "BPF_MAP_TYPE_DEVMAP", (4, 14);
    Sockmap = 15, "sockmap", "BPF_MAP_TYPE_SOCKMAP", (4, 14);
    Cpumap = 16, "cpumap", "BPF_MAP_TYPE_CPUMAP", (4, 15);
    Xskmap = 17, "xskmap", "BPF_MAP_TYPE_XSKMAP", (4, 18);
    Sockhash = 18, "sockhash", "BPF_MAP_TYPE_SOCKHASH", (4, 18);
    CgroupStorage = 19, "cgroup_storage", "BPF_MAP_TYPE_CGROUP_STORAGE", (4, 19);
    ReuseportSockarray = 20, "reuseport_sockarray", "BPF_MAP_TYPE_REUSEPORT_SOCKARRAY", (4, 19);
    PercpuCgroupStorage = 21, "percpu_cgroup_storage", "BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE", (4, 20);
    Queue = 22, "queue", "BPF_MAP_TYPE_QUEUE", (4, 20);
    Stack = 23, "stack", "BPF_MAP_TYPE_STACK", (4, 20);
    SkStorage = 24, "sk_storage", "BPF_MAP_TYPE_SK_STORAGE", (5, 2);
    DevmapHash = 25, "devmap_hash", "BPF_MAP_TYPE_DEVMAP_HASH", (5, 4);
    StructOps = 26, "struct_ops", "BPF_MAP_TYPE_STRUCT_OPS", (5, 6);
    Ringbuf = 27, "ringbuf", "BPF_MAP_TYPE_RINGBUF", (5, 8);
    InodeStorage = 28, "inode_storage", "BPF_MAP_TYPE_INODE_STORAGE", (5, 10);
    TaskStorage = 29, "task_storage", "BPF_MAP_TYPE_TASK_STORAGE", (5, 11);
    BloomFilter = 30, "bloom_filter", "BPF_MAP_TYPE_BLOOM_FILTER", (5, 16);
    UserRingbuf = 31, "user_ringbuf", "BPF_MAP_TYPE_USER_RINGBUF", (6, 1);
    CgrpStorage = 32, "cgrp_storage", "BPF_MAP_TYPE_CGRP_STORAGE", (6, 2);
    Arena = 33, "arena", "BPF_MAP_TYPE_ARENA", (6, 9);
    InsnArray = 34, "insn_array", "BPF_MAP_TYPE_INSN_ARRAY", (6, 19);
    Rhash = 35, "rhash", "BPF_MAP_TYPE_RHASH", (7, 2);
}

/// What a size (of a key, a value, or the number of entries) must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeRule {
    /// Exactly this.
    Exactly(u32),
    /// One of these.
    OneOf(&'static [u32]),
    /// From the first to the second, both included.
    Between(u32, u32),
    /// From the first to the second, and a multiple of the third.
    MultipleBetween(u32, u32, u32),
    /// A power of two, of at least a page.
    PowerOfTwoPages,
}

impl SizeRule {
    /// Whether the size follows the rule.
    pub fn allows(self, size: u32) -> bool {
        match self {
            SizeRule::Exactly(only) => size == only,
            SizeRule::OneOf(sizes) => sizes.contains(&size),
            SizeRule::Between(low, high) => (low..=high).contains(&size),
            SizeRule::MultipleBetween(low, high, unit) => {
                (low..=high).contains(&size) && size.checked_rem(unit) == Some(0)
            }
            SizeRule::PowerOfTwoPages => size.is_power_of_two() && size >= PAGE_BYTES,
        }
    }
}

/// The result of `map_lookup_elem` in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lookup {
    /// The map has no lookup from programs.
    None,
    /// A pointer to the value, which may be read and written. Its address stays valid for the whole run.
    Value,
    /// The value, for reading only, as the kernel's view of an entry.
    ReadOnlyValue,
    /// An inner map.
    InnerMap,
    /// A socket, as a reference to release.
    Socket,
    /// An `AF_XDP` socket.
    XdpSocket,
}

/// The rules of one map type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapRules {
    /// Bytes of a key.
    pub key: SizeRule,
    /// Bytes of a value.
    pub value: SizeRule,
    /// `max_entries`.
    pub entries: SizeRule,
    /// Each CPU has values of its own.
    pub per_cpu: bool,
    /// Keys are indices below `max_entries`, every value exists from the start, and none can be deleted.
    pub indexed: bool,
    /// The result of a lookup in a program.
    pub lookup: Lookup,
    /// A looked-up element is never replaced: its address is a function of map and key for the whole run.
    pub elements_stay: bool,
    /// A lookup does not change the map: it updates no order of use and takes no reference.
    pub forgets_lookups: bool,
    /// A lookup of a key below `max_entries` always finds a value.
    pub finds_every_key: bool,
    /// An instruction may load the address of a value (`BPF_PSEUDO_MAP_VALUE`).
    pub values_have_addresses: bool,
    /// It keeps a value for each of some kernel objects, which a helper makes (`bpf_sk_storage_get`).
    pub per_object: bool,
    /// The kernel's structure that programs see behind a pointer to such a map.
    pub structure: &'static str,
    /// The helpers that accept it; `None` means all that accept maps and are not restricted to other types.
    pub helpers: Option<&'static [&'static str]>,
}

const MAX: u32 = u32::MAX;
const PAGE_BYTES: u32 = 4096;
const ANY_KEY: SizeRule = SizeRule::Between(1, MAX);
const ANY_VALUE: SizeRule = SizeRule::Between(1, MAX);
/// At most `KMALLOC_MAX_SIZE`.
const ALLOCATED_VALUE: SizeRule = SizeRule::Between(1, 4 << 20);
const SOME: SizeRule = SizeRule::Between(1, MAX);
/// As many as a hash table can have buckets.
const BUCKETS: SizeRule = SizeRule::Between(1, 1 << 27);
const FOUR: SizeRule = SizeRule::Exactly(4);
const NOTHING: SizeRule = SizeRule::Exactly(0);
/// The largest value of storage attached to sockets, tasks, inodes and cgroups.
const LOCAL_STORAGE_VALUE: SizeRule = SizeRule::Between(1, 65_176);

const fn rules(key: SizeRule, value: SizeRule, entries: SizeRule, lookup: Lookup) -> MapRules {
    MapRules {
        key,
        value,
        entries,
        per_cpu: false,
        indexed: false,
        lookup,
        elements_stay: false,
        forgets_lookups: false,
        finds_every_key: false,
        values_have_addresses: false,
        per_object: false,
        structure: "bpf_map",
        helpers: None,
    }
}

/// Entries that Kiln gives to maps that leave their number to the loader.
pub const LOAD_TIME_ENTRIES: u32 = 64;

impl MapRules {
    /// The number of entries of a map that leaves it to the loader: [`LOAD_TIME_ENTRIES`] where the type allows them, a page
    /// for ring buffers, and 0 for what has no number of entries (storage of sockets and tasks).
    pub fn load_time_entries(&self) -> u32 {
        [LOAD_TIME_ENTRIES, PAGE_BYTES].into_iter().find(|entries| self.entries.allows(*entries)).unwrap_or(0)
    }
}

setters! { MapRules:
    per_cpu => per_cpu = true;
    indexed => indexed = true;
    elements_stay => elements_stay = true;
    forgets_lookups => forgets_lookups = true;
    finds_every_key => finds_every_key = true;
    values_have_addresses => values_have_addresses = true;
    per_object => per_object = true;
    seen_as(structure: &'static str) => structure = structure;
    only(helpers: &'static [&'static str]) => helpers = Some(helpers);
}

impl MapType {
    /// The rules of this type.
    // long: one row for each map type
    pub const fn rules(self) -> MapRules {
        use Lookup::{InnerMap, None as NoLookup, ReadOnlyValue, Socket, Value, XdpSocket};
        match self {
            MapType::Hash => rules(ANY_KEY, ANY_VALUE, BUCKETS, Value).forgets_lookups().seen_as("bpf_htab"),
            MapType::LruHash => rules(ANY_KEY, ANY_VALUE, BUCKETS, Value).seen_as("bpf_htab"),
            MapType::PercpuHash => rules(ANY_KEY, SizeRule::Between(1, 32_768), BUCKETS, Value)
                .per_cpu()
                .forgets_lookups()
                .seen_as("bpf_htab"),
            MapType::LruPercpuHash => {
                rules(ANY_KEY, SizeRule::Between(1, 32_768), BUCKETS, Value).per_cpu().seen_as("bpf_htab")
            }
            MapType::Array => rules(FOUR, ANY_VALUE, SOME, Value)
                .indexed()
                .elements_stay()
                .forgets_lookups()
                .finds_every_key()
                .values_have_addresses()
                .seen_as("bpf_array"),
            MapType::PercpuArray => rules(FOUR, SizeRule::Between(1, 32_768), SOME, Value)
                .indexed()
                .per_cpu()
                .elements_stay()
                .forgets_lookups()
                .finds_every_key()
                .seen_as("bpf_array"),
            MapType::LpmTrie => rules(SizeRule::Between(5, 260), SizeRule::Between(1, 4_194_024), SOME, Value)
                .forgets_lookups()
                .seen_as("lpm_trie"),
            MapType::ProgArray => rules(FOUR, FOUR, SOME, NoLookup).indexed().only(&["tail_call"]).seen_as("bpf_array"),
            MapType::PerfEventArray => rules(FOUR, FOUR, SOME, NoLookup)
                .indexed()
                .only(&["perf_event_read", "perf_event_output", "perf_event_read_value", "skb_output", "xdp_output"])
                .seen_as("bpf_array"),
            MapType::StackTrace => rules(FOUR, SizeRule::MultipleBetween(8, 8 * 1024, 8), SOME, NoLookup)
                .only(&["get_stackid"])
                .seen_as("bpf_stack_map"),
            MapType::CgroupArray => rules(FOUR, FOUR, SOME, NoLookup)
                .indexed()
                .only(&["skb_under_cgroup", "current_task_under_cgroup"])
                .seen_as("bpf_array"),
            MapType::ArrayOfMaps => rules(FOUR, FOUR, SOME, InnerMap)
                .indexed()
                .forgets_lookups()
                .only(&["map_lookup_elem"])
                .seen_as("bpf_array"),
            MapType::HashOfMaps => {
                rules(ANY_KEY, FOUR, SOME, InnerMap).forgets_lookups().only(&["map_lookup_elem"]).seen_as("bpf_htab")
            }
            MapType::Devmap => rules(FOUR, SizeRule::OneOf(&[4, 8]), SOME, ReadOnlyValue)
                .indexed()
                .only(&["redirect_map", "map_lookup_elem"])
                .seen_as("bpf_dtab"),
            MapType::DevmapHash => rules(FOUR, SizeRule::OneOf(&[4, 8]), SOME, ReadOnlyValue)
                .only(&["redirect_map", "map_lookup_elem"])
                .seen_as("bpf_dtab"),
            MapType::Cpumap => rules(FOUR, SizeRule::OneOf(&[4, 8]), SOME, NoLookup)
                .indexed()
                .only(&["redirect_map"])
                .seen_as("bpf_cpu_map"),
            MapType::Xskmap => rules(FOUR, FOUR, SOME, XdpSocket)
                .indexed()
                .only(&["redirect_map", "map_lookup_elem"])
                .seen_as("xsk_map"),
            MapType::Sockmap => {
                rules(FOUR, SizeRule::OneOf(&[4, 8]), SOME, Socket).indexed().only(SOCKMAP_HELPERS).seen_as("bpf_stab")
            }
            MapType::Sockhash => rules(SizeRule::Between(1, MAX_KEY_BYTES), SizeRule::OneOf(&[4, 8]), SOME, Socket)
                .only(SOCKHASH_HELPERS)
                .seen_as("bpf_shtab"),
            MapType::CgroupStorage => rules(SizeRule::OneOf(&[8, 16]), SizeRule::Between(1, 65_176), NOTHING, NoLookup)
                .only(&["get_local_storage"])
                .seen_as("bpf_cgroup_storage_map"),
            MapType::PercpuCgroupStorage => {
                rules(SizeRule::OneOf(&[8, 16]), SizeRule::Between(1, 32_768), NOTHING, NoLookup)
                    .per_cpu()
                    .only(&["get_local_storage"])
                    .seen_as("bpf_cgroup_storage_map")
            }
            MapType::ReuseportSockarray => rules(FOUR, SizeRule::OneOf(&[4, 8]), SOME, NoLookup)
                .indexed()
                .only(&["sk_select_reuseport"])
                .seen_as("reuseport_array"),
            MapType::Queue | MapType::Stack => rules(NOTHING, ALLOCATED_VALUE, SOME, NoLookup)
                .only(&["map_peek_elem", "map_pop_elem", "map_push_elem"])
                .seen_as("bpf_queue_stack"),
            MapType::SkStorage => rules(FOUR, LOCAL_STORAGE_VALUE, NOTHING, NoLookup)
                .only(&["sk_storage_get", "sk_storage_delete", "kptr_xchg"])
                .per_object()
                .seen_as("bpf_local_storage_map"),
            MapType::InodeStorage => rules(FOUR, LOCAL_STORAGE_VALUE, NOTHING, NoLookup)
                .only(&["inode_storage_get", "inode_storage_delete", "kptr_xchg"])
                .per_object()
                .seen_as("bpf_local_storage_map"),
            MapType::TaskStorage => rules(FOUR, LOCAL_STORAGE_VALUE, NOTHING, NoLookup)
                .only(&["task_storage_get", "task_storage_delete", "kptr_xchg"])
                .per_object()
                .seen_as("bpf_local_storage_map"),
            MapType::CgrpStorage => rules(FOUR, LOCAL_STORAGE_VALUE, NOTHING, NoLookup)
                .only(&["cgrp_storage_get", "cgrp_storage_delete", "kptr_xchg"])
                .per_object()
                .seen_as("bpf_local_storage_map"),
            MapType::StructOps => rules(FOUR, ANY_VALUE, SizeRule::Exactly(1), NoLookup).seen_as("bpf_struct_ops_map"),
            MapType::Ringbuf => rules(NOTHING, NOTHING, SizeRule::PowerOfTwoPages, NoLookup)
                .only(&[
                    "ringbuf_output",
                    "ringbuf_reserve",
                    "ringbuf_query",
                    "ringbuf_reserve_dynptr",
                    "ringbuf_submit_dynptr",
                    "ringbuf_discard_dynptr",
                ])
                .seen_as("bpf_ringbuf_map"),
            MapType::UserRingbuf => rules(NOTHING, NOTHING, SizeRule::PowerOfTwoPages, NoLookup)
                .only(&["user_ringbuf_drain"])
                .seen_as("bpf_ringbuf_map"),
            MapType::BloomFilter => rules(NOTHING, ALLOCATED_VALUE, SOME, NoLookup)
                .only(&["map_peek_elem", "map_push_elem"])
                .seen_as("bpf_bloom_filter"),
            MapType::Arena => rules(NOTHING, NOTHING, SOME, NoLookup).only(&[]).seen_as("bpf_arena"),
            MapType::InsnArray => rules(FOUR, SizeRule::Exactly(16), SOME, NoLookup)
                .indexed()
                .values_have_addresses()
                .only(&[])
                .seen_as("bpf_insn_array"),
            // It grows, so an element may move to another bucket, but its address stays until it is deleted.
            MapType::Rhash => rules(ANY_KEY, ANY_VALUE, SOME, Value).forgets_lookups().seen_as("bpf_rhtab"),
        }
    }

    /// Whether a map of maps may hold such maps.
    pub fn allowed_in_maps(self) -> bool {
        !NOT_IN_MAPS.contains(self)
    }

    /// Whether sleepable programs may refer to such a map.
    pub const fn allowed_in_sleepable(self) -> bool {
        SLEEPABLE.contains(self)
    }

    /// Whether a helper with a map argument accepts a map of this type. Meaningless for other helpers.
    pub fn allows_helper(self, helper: &Helper) -> bool {
        MAPS_BY_HELPER.get(helper.id as usize).is_some_and(|types| types.contains(self))
    }

    /// Whether a program of this type, at this attach type, may pass such a map to the helper. Only some program types
    /// may put sockets into maps of sockets: those that cannot be holding a socket's lock.
    pub fn allows_helper_in(self, helper: &Helper, program_type: ProgramType, attach: Option<AttachType>) -> bool {
        let changes_sockets = matches!(self, MapType::Sockmap | MapType::Sockhash)
            && matches!(helper.id, helper_id::MAP_UPDATE_ELEM | helper_id::MAP_DELETE_ELEM);
        let may_change = match program_type {
            ProgramType::Tracing => attach == Some(AttachType::TraceIter),
            ProgramType::SockOps => helper.id == helper_id::MAP_DELETE_ELEM,
            _ => MAY_CHANGE_SOCKET_MAPS.contains(program_type),
        };
        self.allows_helper(helper) && (!changes_sockets || may_change)
    }

    /// Whether the helper puts a socket into a map of this type, or takes one out, in a program on packets. Kernels since
    /// 7.3 refuse that.
    pub fn may_lock_sockets(self, helper: &Helper, program_type: ProgramType) -> bool {
        let changes_sockets = matches!(self, MapType::Sockmap | MapType::Sockhash)
            && matches!(helper.id, helper_id::MAP_UPDATE_ELEM | helper_id::MAP_DELETE_ELEM);
        changes_sockets
            && !matches!(program_type, ProgramType::SkReuseport | ProgramType::SkLookup)
            && MAY_CHANGE_SOCKET_MAPS.contains(program_type)
    }
}

/// For each helper number, the map types it takes: what both the map's rules and the helper's allow.
static MAPS_BY_HELPER: LazyLock<[MapTypes; HELPER_COUNT]> = LazyLock::new(|| {
    std::array::from_fn(|id| match Helper::by_id(id as u32) {
        Some(helper) => maps_of(helper.name),
        None => MapTypes::NONE,
    })
});

fn maps_of(helper: &str) -> MapTypes {
    let kept_to = HELPERS_KEPT_TO_TYPES.iter().find(|(names, _)| names.contains(&helper));
    let candidates = kept_to.map_or(MapTypes::ALL, |(_, types)| *types);
    let takes = |map_type: &MapType| map_type.rules().helpers.is_none_or(|names| names.contains(&helper));
    let types: Vec<MapType> = candidates.iter().filter(takes).collect();
    MapTypes::of(&types)
}

const MAY_CHANGE_SOCKET_MAPS: ProgramTypes = ProgramTypes::of(&[
    ProgramType::SocketFilter,
    ProgramType::SchedCls,
    ProgramType::SchedAct,
    ProgramType::Xdp,
    ProgramType::SkReuseport,
    ProgramType::FlowDissector,
    ProgramType::SkLookup,
]);

/// Map types whose elements are walked with a callback.
const WALKED: MapTypes = MapTypes::of(&[
    MapType::Hash,
    MapType::LruHash,
    MapType::PercpuHash,
    MapType::LruPercpuHash,
    MapType::Array,
    MapType::PercpuArray,
    MapType::Rhash,
]);

/// Map types that no map holds.
const NOT_IN_MAPS: MapTypes = MapTypes::of(&[
    MapType::ProgArray,
    MapType::ArrayOfMaps,
    MapType::HashOfMaps,
    MapType::CgroupStorage,
    MapType::PercpuCgroupStorage,
    MapType::StructOps,
]);

/// Map types whose elements cannot be freed while a program sleeps.
const SLEEPABLE: MapTypes = WALKED.union(MapTypes::of(&[
    MapType::ArrayOfMaps,
    MapType::HashOfMaps,
    MapType::Ringbuf,
    MapType::UserRingbuf,
    MapType::InodeStorage,
    MapType::SkStorage,
    MapType::TaskStorage,
    MapType::CgrpStorage,
    MapType::Queue,
    MapType::Stack,
    MapType::Arena,
    MapType::InsnArray,
]));

const SOCKMAP_HELPERS: &[&str] = &[
    "sk_redirect_map",
    "sock_map_update",
    "msg_redirect_map",
    "sk_select_reuseport",
    "map_lookup_elem",
    "map_update_elem",
    "map_delete_elem",
];

const SOCKHASH_HELPERS: &[&str] = &[
    "sk_redirect_hash",
    "sock_hash_update",
    "msg_redirect_hash",
    "sk_select_reuseport",
    "map_lookup_elem",
    "map_update_elem",
    "map_delete_elem",
];

/// Helpers that accept only certain map types.
const HELPERS_KEPT_TO_TYPES: &[(&[&str], MapTypes)] = &[
    (&["tail_call"], MapTypes::of(&[MapType::ProgArray])),
    (
        &["perf_event_read", "perf_event_output", "perf_event_read_value", "skb_output", "xdp_output"],
        MapTypes::of(&[MapType::PerfEventArray]),
    ),
    (
        &[
            "ringbuf_output",
            "ringbuf_reserve",
            "ringbuf_query",
            "ringbuf_reserve_dynptr",
            "ringbuf_submit_dynptr",
            "ringbuf_discard_dynptr",
        ],
        MapTypes::of(&[MapType::Ringbuf]),
    ),
    (&["user_ringbuf_drain"], MapTypes::of(&[MapType::UserRingbuf])),
    (&["get_stackid"], MapTypes::of(&[MapType::StackTrace])),
    (&["skb_under_cgroup", "current_task_under_cgroup"], MapTypes::of(&[MapType::CgroupArray])),
    (&["redirect_map"], MapTypes::of(&[MapType::Devmap, MapType::DevmapHash, MapType::Cpumap, MapType::Xskmap])),
    (&["sk_redirect_map", "msg_redirect_map", "sock_map_update"], MapTypes::of(&[MapType::Sockmap])),
    (&["sk_redirect_hash", "msg_redirect_hash", "sock_hash_update"], MapTypes::of(&[MapType::Sockhash])),
    (&["get_local_storage"], MapTypes::of(&[MapType::CgroupStorage, MapType::PercpuCgroupStorage])),
    (&["sk_select_reuseport"], MapTypes::of(&[MapType::ReuseportSockarray, MapType::Sockmap, MapType::Sockhash])),
    (&["map_pop_elem"], MapTypes::of(&[MapType::Queue, MapType::Stack])),
    (&["map_peek_elem", "map_push_elem"], MapTypes::of(&[MapType::Queue, MapType::Stack, MapType::BloomFilter])),
    (&["map_lookup_percpu_elem"], MapTypes::of(&[MapType::PercpuArray, MapType::PercpuHash, MapType::LruPercpuHash])),
    (&["for_each_map_elem"], WALKED),
    (&["sk_storage_get", "sk_storage_delete"], MapTypes::of(&[MapType::SkStorage])),
    (&["inode_storage_get", "inode_storage_delete"], MapTypes::of(&[MapType::InodeStorage])),
    (&["task_storage_get", "task_storage_delete"], MapTypes::of(&[MapType::TaskStorage])),
    (&["cgrp_storage_get", "cgrp_storage_delete"], MapTypes::of(&[MapType::CgrpStorage])),
];
