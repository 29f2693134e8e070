//! Where map values and the program's own structures have fields that are not plain memory.
//!
//! ```text
//!   struct elem {                                    offset  field
//!     struct bpf_spin_lock lock;                          0  SpinLock
//!     struct bpf_rb_root root __contains(node, rb);       8  RbRoot { of node, whose bpf_rb_node is at 16 }
//!     struct task_struct __kptr *task;                   24  Kptr { Owned, struct task_struct of the kernel }
//!     struct inner { struct bpf_timer t; } in;           32  Timer
//!   };
//! ```
//!
//! The rules are the kernel's (`btf_parse_fields`): which structures count where, how often, how aligned, in arrays
//! and nested structures. A map whose value breaks them is made without BTF by libbpf, and then has no such field.

use kiln_platform::{Feature, MapType, ProgramType, SpecialField, SpecialType};
use kiln_program::Map;
use kiln_program::btf::{Btf, Kind as BtfKind, Qualifier, TypeId};

use crate::options::Options;

/// The most special fields of one value (kernel `BTF_FIELDS_MAX`).
const MAX_FIELDS: usize = 11;
/// The most levels of nested structures that are followed.
const MAX_NESTING: usize = 31;

/// A field that only helpers and kernel functions may touch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Field {
    pub kind: FieldKind,
    pub offset: u32,
}

/// What a field is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FieldKind {
    /// A structure of the kernel: a lock, a timer, a node.
    Structure(SpecialType),
    /// A list's head or a tree's root, and what it holds.
    Root(SpecialType, Root),
    /// A pointer to an object.
    Kptr(Kptr),
}

/// What a list or tree holds: structures of this type of the program, linked by their node at this offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Root {
    pub value: TypeId,
    pub node_offset: u32,
}

/// A pointer to an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kptr {
    pub class: KptrClass,
    pub target: Target,
}

/// What a pointer in memory says of its object (its `btf_type_tag`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KptrClass {
    /// `kptr_untrusted`: nothing.
    Untrusted,
    /// `kptr`: a reference.
    Owned,
    /// `percpu_kptr`: a reference to an object of each CPU's.
    Percpu,
    /// `uptr`: memory of the task, pinned.
    User,
}

/// The structure a pointer points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// One of the kernel.
    Kernel(TypeId),
    /// One of the program alone.
    Own(TypeId),
    /// It is not known which, as the kernel's types are not.
    Unknown(TypeId),
}

impl FieldKind {
    /// The row of the kernel's structure; none for a pointer.
    fn row(self) -> Option<&'static SpecialField> {
        match self {
            FieldKind::Structure(kind) | FieldKind::Root(kind, _) => Some(kind.row()),
            FieldKind::Kptr(_) => None,
        }
    }

    /// Whether it is a structure of this type.
    pub(crate) fn is(self, kind: SpecialType) -> bool {
        self.row().is_some_and(|row| row.kind == kind)
    }

    /// Bytes, and how they are aligned.
    pub(crate) fn layout(self) -> (u32, u32) {
        self.row().map_or((8, 8), |row| (row.bytes, row.align))
    }

    /// The kernel's name of it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FieldKind::Structure(kind) | FieldKind::Root(kind, _) => kind.row().name,
            FieldKind::Kptr(Kptr { class: KptrClass::Percpu, .. }) => "percpu_kptr",
            FieldKind::Kptr(Kptr { class: KptrClass::User, .. }) => "uptr",
            FieldKind::Kptr(_) => "kptr",
        }
    }

    /// Whether an interrupt may find it half freed (`btf_field_is_nmi_safe`).
    pub(crate) fn is_safe_in_interrupts(self) -> bool {
        let safe = [
            SpecialType::SpinLock,
            SpecialType::ResilientLock,
            SpecialType::Timer,
            SpecialType::Workqueue,
            SpecialType::TaskWork,
            SpecialType::Refcount,
        ];
        match self {
            FieldKind::Kptr(kptr) => kptr.class == KptrClass::Untrusted,
            _ => safe.iter().any(|kind| self.is(*kind)),
        }
    }

    pub(crate) fn is_lock(self) -> bool {
        self.is(SpecialType::SpinLock) || self.is(SpecialType::ResilientLock)
    }

    pub(crate) fn is_root(self) -> bool {
        matches!(self, FieldKind::Root(..))
    }

    /// Whether an array may hold several.
    fn repeats(self) -> bool {
        matches!(self, FieldKind::Root(..) | FieldKind::Kptr(_))
    }

    /// Whether there may be only one in a value.
    fn is_single(self) -> bool {
        self.row().is_some_and(|row| !row.several)
    }

    /// Whether maps of this type may have it in their values.
    fn fits(self, map: MapType) -> bool {
        match self {
            FieldKind::Structure(kind) | FieldKind::Root(kind, _) => kind.row().maps.contains(map),
            FieldKind::Kptr(Kptr { class: KptrClass::User, .. }) => map == MapType::TaskStorage,
            FieldKind::Kptr(_) => map.keeps_objects(),
        }
    }

    /// What a kernel must have for maps with it.
    pub(crate) fn needs(self) -> Option<Feature> {
        match self {
            FieldKind::Structure(kind) | FieldKind::Root(kind, _) => kind.row().needs,
            FieldKind::Kptr(Kptr { class: KptrClass::Percpu, .. }) => Some(Feature::PercpuPointers),
            FieldKind::Kptr(Kptr { class: KptrClass::User, .. }) => Some(Feature::UserPointers),
            FieldKind::Kptr(_) => Some(Feature::KernelPointers),
        }
    }

    /// Whether programs of this type may not use maps with it.
    pub(crate) fn is_refused_in(self, program_type: ProgramType, options: &Options) -> bool {
        let timer = self.is(SpecialType::Timer) && options.kernel_has(Feature::TracingTimers);
        !timer && self.row().is_some_and(|row| row.refused_in.contains(program_type))
    }
}

impl KptrClass {
    /// The class that a type tag names; before [`Feature::KptrTags`] if they are the `first` ones.
    fn of_tag(tag: &str, first: bool) -> Option<KptrClass> {
        Some(match tag {
            "kptr" if first => KptrClass::Untrusted,
            "kptr_ref" if first => KptrClass::Owned,
            _ if first => return None,
            "kptr_untrusted" => KptrClass::Untrusted,
            "kptr" => KptrClass::Owned,
            "percpu_kptr" => KptrClass::Percpu,
            "uptr" => KptrClass::User,
            _ => return None,
        })
    }
}

/// A value's special fields by offset, and how to find them again.
#[derive(Clone, Default, Debug)]
pub(crate) struct Record {
    pub fields: Vec<Field>,
    /// The kernel makes no map with this type of values; loaders try again without types.
    pub refused: bool,
}

impl Record {
    /// The field of a map's value; none where the kernel would not take the map with its BTF.
    pub(crate) fn of_map(types: &Tables<'_>, map: &Map) -> Record {
        let id = TypeId(map.value_btf);
        let refused = Record { refused: map.value_btf != 0, ..Record::default() };
        let Some(btf) = types.own.filter(|_| map.value_btf != 0) else { return refused };
        let sized = btf.size_of(id).is_some_and(|size| size == u64::from(map.value_size) || size == 0);
        // A map whose fields cannot be read is made, and has none.
        let found = types.record(id, Place::MapValue).filter(|_| sized).unwrap_or_default();
        // Read-only and write-only maps (`BPF_F_RDONLY_PROG`, `BPF_F_WRONLY_PROG`) take none.
        let writable = map.flags & (kiln_program::READ_ONLY_FLAG | kiln_program::WRITE_ONLY_FLAG) == 0;
        let fits = found.fields.iter().all(|field| writable && field.kind.fits(map.map_type));
        if fits { found } else { refused }
    }

    /// Returns the special fields of a structure that the program may allocate; `None` if the kernel refuses its layout.
    pub(crate) fn of_object(types: &Tables<'_>, id: TypeId) -> Option<Record> {
        types.record(id, Place::Object)
    }

    pub(crate) fn find(&self, offset: i64, wanted: impl Fn(FieldKind) -> bool) -> Option<&Field> {
        self.fields.iter().find(|field| i64::from(field.offset) == offset && wanted(field.kind))
    }

    pub(crate) fn has(&self, wanted: impl Fn(FieldKind) -> bool) -> bool {
        self.fields.iter().any(|field| wanted(field.kind))
    }

    /// Whether it has a lock: then values are told apart by the pointer's id.
    pub(crate) fn has_lock(&self) -> bool {
        self.has(FieldKind::is_lock)
    }

    /// The first field that these bytes touch.
    pub(crate) fn touched(&self, start: i128, end: i128) -> Option<&Field> {
        self.fields.iter().find(|field| {
            let (size, _) = field.kind.layout();
            start < i128::from(field.offset) + i128::from(size) && i128::from(field.offset) < end
        })
    }
}

/// Where a structure is: what counts as special differs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    MapValue,
    Object,
}

/// The types that structures are looked up in.
#[derive(Clone, Copy)]
pub(crate) struct Tables<'a> {
    pub own: Option<&'a Btf>,
    pub kernel: Option<&'a Btf>,
    /// For a kernel without [`Feature::KptrTags`].
    pub first_tags: bool,
}

/// The layout is not one that the kernel takes.
struct Refused;

type Found<T> = Result<T, Refused>;

impl Tables<'_> {
    /// Whether the kernel could destroy each structure of the program that has special fields.
    pub(super) fn structures_accepted(&self, btf: &Btf) -> bool {
        let search = Search { types: *self, btf, place: Place::Object, fields: Vec::new() };
        let special = |id: TypeId| match btf.kind(id) {
            BtfKind::Composite { union: false, .. } => {
                SpecialField::by_name(btf.name(id)).is_some_and(|row| row.in_objects)
            }
            BtfKind::Pointer { .. } | BtfKind::Qualifier { .. } => search.is_kptr(id),
            _ => false,
        };
        let structures = btf.own_ids().filter(|id| matches!(btf.kind(*id), BtfKind::Composite { union: false, .. }));
        let mut with_special = structures.filter(|id| btf.members(*id).iter().any(|member| special(member.type_id)));
        with_special.all(|id| self.record(id, Place::Object).is_some_and(|record| !record.fields.is_empty()))
    }

    fn record(&self, id: TypeId, place: Place) -> Option<Record> {
        let btf = self.own?;
        let mut search = Search { types: *self, btf, place, fields: Vec::new() };
        let searched = match btf.kind(id) {
            BtfKind::Composite { union: false, .. } => search.structure(id, 0, 0),
            BtfKind::Section { .. } => search.section(id),
            _ => Ok(()),
        };
        searched.ok()?;
        search.checked().ok()
    }
}

struct Search<'a> {
    types: Tables<'a>,
    btf: &'a Btf,
    place: Place,
    fields: Vec<Field>,
}

impl Search<'_> {
    fn structure(&mut self, id: TypeId, at: u64, depth: usize) -> Found<()> {
        for (index, member) in self.btf.members(id).iter().enumerate() {
            if !member.bit_offset.is_multiple_of(8) {
                // Bit fields are not special fields.
                continue;
            }
            let offset = at + u64::from(member.bit_offset / 8);
            self.variable(id, Some(index as u32), member.type_id, offset, None, depth)?;
        }
        Ok(())
    }

    fn section(&mut self, id: TypeId) -> Found<()> {
        for variable in self.btf.variables(id) {
            if let BtfKind::Variable { target, .. } = *self.btf.kind(variable.type_id) {
                let size = u64::from(variable.size);
                self.variable(variable.type_id, None, target, u64::from(variable.offset), Some(size), 0)?;
            }
        }
        Ok(())
    }

    /// A member or variable: a special field, a structure with some, or an array of those.
    fn variable(
        &mut self,
        parent: TypeId,
        component: Option<u32>,
        type_id: TypeId,
        offset: u64,
        size: Option<u64>,
        depth: usize,
    ) -> Found<()> {
        let (mut id, mut count) = (type_id, 1_u64);
        for _ in 0..MAX_NESTING {
            let BtfKind::Array { element, count: items, .. } = *self.btf.kind(id) else { break };
            count = count.saturating_mul(u64::from(items));
            id = element;
        }
        if count == 0 {
            return Ok(());
        }
        let structure = match self.btf.kind(id) {
            BtfKind::Composite { union: false, size, .. } => Some(u64::from(*size)),
            _ => None,
        };
        let first = self.fields.len();
        let bytes = match (self.kind_of(parent, component, id)?, structure) {
            (Some(kind), _) => {
                let (bytes, align) = kind.layout();
                let wrong_size = structure.is_some_and(|size| size != u64::from(bytes))
                    || size.is_some_and(|size| size != u64::from(bytes) * count);
                if wrong_size || !offset.is_multiple_of(u64::from(align)) {
                    return Ok(());
                }
                self.add(kind, offset)?;
                u64::from(bytes)
            }
            (None, Some(bytes)) => {
                if size.is_some_and(|size| size != bytes.saturating_mul(count)) {
                    return Ok(());
                }
                if depth + 1 >= MAX_NESTING {
                    return Err(Refused);
                }
                self.structure(id, offset, depth + 1)?;
                bytes
            }
            (None, None) => return Ok(()),
        };
        self.repeat(first, count, bytes)
    }

    fn add(&mut self, kind: FieldKind, offset: u64) -> Found<()> {
        let offset = u32::try_from(offset).map_err(|_| Refused)?;
        // Only structures are single, and they have no payload.
        let again = |field: &Field| field.kind == kind;
        if self.fields.len() >= MAX_FIELDS || kind.is_single() && self.fields.iter().any(again) {
            return Err(Refused);
        }
        self.fields.push(Field { kind, offset });
        Ok(())
    }

    /// The fields of an array's first element are in the others, too.
    fn repeat(&mut self, first: usize, count: u64, bytes: u64) -> Found<()> {
        let element = self.fields[first..].to_vec();
        if element.is_empty() || count == 1 {
            return Ok(());
        }
        if element.iter().any(|field| !field.kind.repeats()) {
            return Err(Refused);
        }
        for index in 1..count {
            for field in &element {
                self.add(field.kind, u64::from(field.offset).saturating_add(index.saturating_mul(bytes)))?;
            }
        }
        Ok(())
    }

    fn kind_of(&self, parent: TypeId, component: Option<u32>, id: TypeId) -> Found<Option<FieldKind>> {
        if !matches!(self.btf.kind(id), BtfKind::Composite { union: false, .. }) {
            return self.kptr(id).map(|kptr| kptr.map(FieldKind::Kptr));
        }
        let row = SpecialField::by_name(self.btf.name(id)).filter(|row| match self.place {
            Place::MapValue => !row.maps.is_empty(),
            Place::Object => row.in_objects,
        });
        let Some(row) = row else { return Ok(None) };
        Ok(Some(match row.node {
            Some(node) => FieldKind::Root(row.kind, self.root(parent, component, node.row().name)?),
            None => FieldKind::Structure(row.kind),
        }))
    }

    /// What `__contains(type, member)` says.
    fn root(&self, parent: TypeId, component: Option<u32>, node: &str) -> Found<Root> {
        let mut tags = self.btf.own_ids().filter_map(|id| match *self.btf.kind(id) {
            BtfKind::DeclTag { target, component: of } if target == parent && of == component => {
                self.btf.name(id).strip_prefix("contains:")
            }
            _ => None,
        });
        let (name, member) =
            tags.next().filter(|_| tags.next().is_none()).and_then(|tag| tag.split_once(':')).ok_or(Refused)?;
        let structure = |kind: &BtfKind| matches!(kind, BtfKind::Composite { union: false, .. });
        let value = self.btf.find(name, structure).ok_or(Refused)?;
        let mut named = self.btf.members(value).iter().filter(|known| self.btf.text(known.name) == member);
        let found = named.next().filter(|_| named.next().is_none()).ok_or(Refused)?;
        if !structure(self.btf.kind(found.type_id))
            || self.btf.name(found.type_id) != node
            || found.bit_offset % 64 != 0
        {
            return Err(Refused);
        }
        Ok(Root { value, node_offset: found.bit_offset / 8 })
    }

    /// Whether the type is such a pointer, to a structure.
    fn is_kptr(&self, mut id: TypeId) -> bool {
        if let BtfKind::Qualifier { qualifier: Qualifier::Volatile, target } = *self.btf.kind(id) {
            id = target;
        }
        let BtfKind::Pointer { target } = *self.btf.kind(id) else { return false };
        let BtfKind::TypeTag { target: inner } = *self.btf.kind(target) else { return false };
        let structure = self.btf.resolve(inner).unwrap_or(TypeId::VOID);
        KptrClass::of_tag(self.btf.name(target), self.types.first_tags).is_some_and(|class| class != KptrClass::User)
            && !matches!(self.btf.kind(inner), BtfKind::TypeTag { .. })
            && matches!(self.btf.kind(structure), BtfKind::Composite { union: false, .. })
    }

    /// A pointer with a tag that says what it may hold.
    fn kptr(&self, mut id: TypeId) -> Found<Option<Kptr>> {
        if let BtfKind::Qualifier { qualifier: Qualifier::Volatile, target } = *self.btf.kind(id) {
            id = target;
        }
        let BtfKind::Pointer { target } = *self.btf.kind(id) else { return Ok(None) };
        let BtfKind::TypeTag { target: inner } = *self.btf.kind(target) else { return Ok(None) };
        if matches!(self.btf.kind(inner), BtfKind::TypeTag { .. }) {
            return Err(Refused);
        }
        let class = KptrClass::of_tag(self.btf.name(target), self.types.first_tags).ok_or(Refused)?;
        // In a structure that is a map's value elsewhere, it is no field of its own.
        if class == KptrClass::User && self.place != Place::MapValue {
            return Ok(None);
        }
        let inner = self.btf.resolve(inner).ok_or(Refused)?;
        if !matches!(self.btf.kind(inner), BtfKind::Composite { union: false, .. }) {
            return Err(Refused);
        }
        Ok(Some(Kptr { class, target: self.target(class, inner)? }))
    }

    /// Returns the kernel's structure of this name, or the program's own if the kernel has none.
    fn target(&self, class: KptrClass, id: TypeId) -> Found<Target> {
        if class == KptrClass::User {
            return Ok(Target::Own(id));
        }
        let Some(kernel) = self.types.kernel else { return Ok(Target::Unknown(id)) };
        let name = self.btf.name(id);
        let found = kernel.find(name, |kind| matches!(kind, BtfKind::Composite { union: false, .. }));
        match found {
            None => Ok(Target::Own(id)),
            // The kernel must know how to give the object up when its map goes.
            Some(_) if class == KptrClass::Owned && !is_destructible(kernel, name) => Err(Refused),
            Some(found) => Ok(Target::Kernel(found)),
        }
    }

    fn checked(mut self) -> Found<Record> {
        self.fields.sort_by_key(|field| field.offset);
        let overlap = |pair: &[Field]| pair[0].offset + pair[0].kind.layout().0 > pair[1].offset;
        let has = |wanted: SpecialType| self.fields.iter().any(|field| field.kind.is(wanted));
        let (spin, resilient) = (has(SpecialType::SpinLock), has(SpecialType::ResilientLock));
        let shared_node = has(SpecialType::ListNode) && has(SpecialType::TreeNode) && !has(SpecialType::Refcount);
        let unprotected = self.fields.iter().any(|field| field.kind.is_root()) && !spin && !resilient;
        if self.fields.windows(2).any(overlap) || spin && resilient || shared_node || unprotected {
            return Err(Refused);
        }
        Ok(Record { fields: self.fields, refused: false })
    }
}

/// Whether the kernel knows how to release a structure of its own, so that a map may own it.
fn is_destructible(kernel: &Btf, name: &str) -> bool {
    let released = |by: &str| kernel.find(by, |kind| matches!(kind, BtfKind::Function { .. })).is_some();
    let by = RELEASED_BY.iter().find(|(structure, _)| *structure == name);
    DESTRUCTIBLE.contains(&name) || by.is_some_and(|(_, function)| released(function))
}

/// Structures that some kernels can release, and the function that does it there.
const RELEASED_BY: [(&str, &str); 2] = [("sk_buff", "bpf_kfree_skb"), ("bpf_ksock", "bpf_ksock_release_dtor")];

/// Structures that all kernels can release.
const DESTRUCTIBLE: [&str; 6] =
    ["task_struct", "cgroup", "bpf_cpumask", "bpf_crypto_ctx", "prog_test_ref_kfunc", "prog_test_member"];
