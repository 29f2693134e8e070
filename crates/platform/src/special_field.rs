//! Structures of the kernel that may be fields of map values and of objects that programs allocate: locks, timers, lists.
//!
//! One row for each. A structure without a row is plain memory. A pointer to an object (`__kptr` and the like) is marked
//! by a type tag instead and has no row.
//!
//! ```
//! use kiln_platform::{MapType, SpecialField, SpecialType};
//! let timer = SpecialField::by_name("bpf_timer").unwrap();
//! assert_eq!((timer.kind, timer.bytes), (SpecialType::Timer, 16));
//! assert!(timer.maps.contains(MapType::Hash) && !timer.maps.contains(MapType::PercpuHash));
//! ```

use crate::rows::setters;
use crate::{Feature, MapType, MapTypes, ProgramType, ProgramTypes};

/// What a special field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpecialType {
    /// `bpf_spin_lock`.
    SpinLock,
    /// `bpf_res_spin_lock`.
    ResilientLock,
    /// `bpf_timer`.
    Timer,
    /// `bpf_wq`.
    Workqueue,
    /// `bpf_task_work`.
    TaskWork,
    /// `bpf_list_head`.
    ListHead,
    /// `bpf_list_node`.
    ListNode,
    /// `bpf_rb_root`.
    TreeRoot,
    /// `bpf_rb_node`.
    TreeNode,
    /// `bpf_refcount`.
    Refcount,
}

/// What is true of special fields of one type. What a row does not say is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecialField {
    /// Which type it is.
    pub kind: SpecialType,
    /// The structure's name.
    pub name: &'static str,
    /// Its size.
    pub bytes: u32,
    /// Its alignment in bytes.
    pub align: u32,
    /// Map types whose values may have one.
    pub maps: MapTypes,
    /// Objects that a program allocates may have one.
    pub in_objects: bool,
    /// A value or object may have several.
    pub several: bool,
    /// For a list or tree: the field that links what it holds.
    pub node: Option<SpecialType>,
    /// What a kernel must have.
    pub needs: Option<Feature>,
    /// Programs of these types may not use maps with one.
    pub refused_in: ProgramTypes,
}

/// Maps that keep a value for each of some kernel objects.
const STORAGE: MapTypes =
    MapTypes::of(&[MapType::SkStorage, MapType::InodeStorage, MapType::TaskStorage, MapType::CgrpStorage]);
const HASHES_AND_ARRAYS: MapTypes = MapTypes::of(&[
    MapType::Hash,
    MapType::Rhash,
    MapType::PercpuHash,
    MapType::LruHash,
    MapType::LruPercpuHash,
    MapType::Array,
    MapType::PercpuArray,
]);
const LOCKABLE: MapTypes =
    MapTypes::of(&[MapType::Hash, MapType::Rhash, MapType::Array, MapType::CgroupStorage]).union(STORAGE);
const PLAIN: MapTypes = MapTypes::of(&[MapType::Hash, MapType::LruHash, MapType::Array]);
/// Maps whose values may hold what runs a function later.
const DEFERRING: MapTypes = PLAIN.union(MapTypes::of(&[MapType::Rhash]));
/// Maps whose values may hold pointers to objects, and be counted.
pub(crate) const OBJECT_KEEPERS: MapTypes = HASHES_AND_ARRAYS.union(STORAGE);

/// Programs that may interrupt the holder of a lock.
const INTERRUPTING: ProgramTypes = ProgramTypes::of(&[
    ProgramType::Kprobe,
    ProgramType::Tracepoint,
    ProgramType::PerfEvent,
    ProgramType::RawTracepoint,
    ProgramType::RawTracepointWritable,
]);
const LOCKLESS: ProgramTypes = INTERRUPTING.union(ProgramTypes::of(&[ProgramType::SocketFilter]));

const fn row(kind: SpecialType, name: &'static str, bytes: u32, align: u32) -> SpecialField {
    SpecialField {
        kind,
        name,
        bytes,
        align,
        maps: MapTypes::NONE,
        in_objects: false,
        several: false,
        node: None,
        needs: None,
        refused_in: ProgramTypes::NONE,
    }
}

/// All of them.
const ROWS: &[SpecialField] = &[
    row(SpecialType::SpinLock, "bpf_spin_lock", 4, 4)
        .in_values(LOCKABLE)
        .in_objects()
        .refused_in(LOCKLESS)
        .needs(Feature::SpinLocks),
    row(SpecialType::ResilientLock, "bpf_res_spin_lock", 4, 4)
        .in_values(LOCKABLE)
        .in_objects()
        .refused_in(LOCKLESS)
        .needs(Feature::ResilientLocks),
    row(SpecialType::Timer, "bpf_timer", 16, 8).in_values(DEFERRING).refused_in(INTERRUPTING),
    row(SpecialType::Workqueue, "bpf_wq", 16, 8)
        .in_values(DEFERRING)
        .refused_in(INTERRUPTING)
        .needs(Feature::WorkQueues),
    row(SpecialType::TaskWork, "bpf_task_work", 8, 8).in_values(DEFERRING).needs(Feature::TaskWork),
    row(SpecialType::ListHead, "bpf_list_head", 16, 8)
        .in_values(PLAIN)
        .in_objects()
        .several()
        .holds(SpecialType::ListNode)
        .refused_in(INTERRUPTING)
        .needs(Feature::Lists),
    row(SpecialType::ListNode, "bpf_list_node", 24, 8).in_objects().several().needs(Feature::Lists),
    row(SpecialType::TreeRoot, "bpf_rb_root", 16, 8)
        .in_values(PLAIN)
        .in_objects()
        .several()
        .holds(SpecialType::TreeNode)
        .refused_in(INTERRUPTING)
        .needs(Feature::Trees),
    row(SpecialType::TreeNode, "bpf_rb_node", 32, 8).in_objects().several().needs(Feature::Trees),
    row(SpecialType::Refcount, "bpf_refcount", 4, 4)
        .in_values(OBJECT_KEEPERS)
        .in_objects()
        .needs(Feature::ReferenceCounts),
];

impl SpecialField {
    /// Returns all rows.
    pub const fn all() -> &'static [SpecialField] {
        ROWS
    }

    /// Returns the row of the structure with this name.
    pub fn by_name(name: &str) -> Option<&'static SpecialField> {
        ROWS.iter().find(|row| row.name == name)
    }
}

setters! { SpecialField:
    in_values(maps: MapTypes) => maps = maps;
    in_objects => in_objects = true;
    several => several = true;
    holds(node: SpecialType) => node = Some(node);
    needs(feature: Feature) => needs = Some(feature);
    refused_in(programs: ProgramTypes) => refused_in = programs;
}

impl SpecialType {
    /// Returns what is true of fields of this type.
    pub const fn row(self) -> &'static SpecialField {
        &ROWS[self as usize]
    }
}

impl MapType {
    /// Whether values of such maps may hold pointers to objects (`__kptr`).
    pub const fn keeps_objects(self) -> bool {
        OBJECT_KEEPERS.contains(self)
    }
}

#[cfg(test)]
mod tests {
    use super::{ROWS, SpecialField};

    /// `SpecialType::row` is an index.
    #[test]
    fn rows_are_in_the_order_of_their_types() {
        for (index, row) in ROWS.iter().enumerate() {
            assert_eq!(row.kind as usize, index, "{}", row.name);
            assert_eq!(SpecialField::by_name(row.name), Some(row));
        }
    }
}
