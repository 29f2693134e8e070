//! Lookups in a type table.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher};

use super::{Btf, EnumValue, Kind, MAX_DEPTH, Member, Parameter, SectionVariable, Type, TypeId};

/// Maximum bytes of a string that are read; longer source lines are cut.
const MAX_STRING_BYTES: usize = 4096;
/// Bytes of a name that can be looked up (kernel `KSYM_NAME_LEN`).
const MAX_NAME_BYTES: usize = 512;

fn hash_of(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name);
    hasher.finish()
}

impl Btf {
    /// The number of types, including `void` and those of a base: type numbers are below this.
    pub fn type_count(&self) -> usize {
        self.first_type() + self.types.len()
    }

    /// The first type number of this table itself: 0, or the number of types of the base.
    fn first_type(&self) -> usize {
        self.base.as_ref().map_or(0, |base| base.type_count())
    }

    fn first_string(&self) -> usize {
        self.base.as_ref().map_or(0, |base| base.first_string() + base.strings.len())
    }

    /// The type numbers of this table itself.
    pub fn own_ids(&self) -> impl DoubleEndedIterator<Item = TypeId> + use<> {
        (self.first_type() as u32..self.type_count() as u32).map(TypeId)
    }

    /// The table, this or its base, that holds a type.
    fn owner(&self, id: TypeId) -> Option<(&Btf, usize)> {
        match (id.0 as usize).checked_sub(self.first_type()) {
            Some(index) => (index < self.types.len()).then_some((self, index)),
            None => self.base.as_deref()?.owner(id),
        }
    }

    /// The type with this number.
    pub fn get(&self, id: TypeId) -> Option<&Type> {
        self.owner(id).map(|(table, index)| &table.types[index])
    }

    /// The kind of the type with this number; `Void` if there is no such type.
    pub fn kind(&self, id: TypeId) -> &Kind {
        self.get(id).map_or(&Kind::Void, |ty| &ty.kind)
    }

    /// The string at an offset, without its zero byte, cut off at `MAX_STRING_BYTES`. `None` out of bounds.
    pub(super) fn string_bytes(&self, offset: u32) -> Option<&[u8]> {
        match (offset as usize).checked_sub(self.first_string()) {
            Some(at) if at < self.strings.len() => {
                let rest = &self.strings[at..self.strings.len().min(at + MAX_STRING_BYTES)];
                Some(rest.split(|byte| *byte == 0).next().unwrap_or(rest))
            }
            // An empty table still has the empty string.
            Some(_) => (offset == 0).then_some(&[]),
            None => self.base.as_deref()?.string_bytes(offset),
        }
    }

    /// Whether a string begins at this offset.
    pub(super) fn has_string(&self, offset: u32) -> bool {
        match (offset as usize).checked_sub(self.first_string()) {
            Some(at) => at < self.strings.len() || offset == 0,
            None => self.base.as_deref().is_some_and(|base| base.has_string(offset)),
        }
    }

    /// The string at an offset, such as a source line; invalid UTF-8 is replaced. `None` out of bounds.
    pub fn string(&self, offset: u32) -> Option<Cow<'_, str>> {
        self.string_bytes(offset).map(String::from_utf8_lossy)
    }

    /// The name at an offset; empty if there is none or it is not UTF-8.
    pub fn text(&self, offset: u32) -> &str {
        self.string_bytes(offset).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("")
    }

    /// The type's name; empty when it has none.
    pub fn name(&self, id: TypeId) -> &str {
        self.get(id).map_or("", |ty| self.text(ty.name))
    }

    /// The members of a struct or union; none for other types.
    pub fn members(&self, id: TypeId) -> &[Member] {
        match self.owner(id) {
            Some((table, index)) => match &table.types[index].kind {
                Kind::Composite { members, .. } => &table.members[members.clone()],
                _ => &[],
            },
            None => &[],
        }
    }

    /// The values of an enum; none for other types.
    pub fn values(&self, id: TypeId) -> &[EnumValue] {
        match self.owner(id) {
            Some((table, index)) => match &table.types[index].kind {
                Kind::Enum { values, .. } => &table.values[values.clone()],
                _ => &[],
            },
            None => &[],
        }
    }

    /// The parameters of a function type; none for other types.
    pub fn parameters(&self, id: TypeId) -> &[Parameter] {
        match self.owner(id) {
            Some((table, index)) => match &table.types[index].kind {
                Kind::Prototype { parameters, .. } => &table.parameters[parameters.clone()],
                _ => &[],
            },
            None => &[],
        }
    }

    /// The variables of a data section; none for other types.
    pub fn variables(&self, id: TypeId) -> &[SectionVariable] {
        match self.owner(id) {
            Some((table, index)) => match &table.types[index].kind {
                Kind::Section { variables, .. } => &table.variables[variables.clone()],
                _ => &[],
            },
            None => &[],
        }
    }

    /// All types with a name, lowest number first, those of a base included.
    pub fn named<'a>(&'a self, name: &'a str) -> Box<dyn Iterator<Item = TypeId> + 'a> {
        let (index, hash) = (self.index(), hash_of(name.as_bytes()));
        let same_hash = &index[index.partition_point(|entry| entry.0 < hash)..];
        let own = same_hash.iter().take_while(move |entry| entry.0 == hash).map(|entry| entry.1);
        let own = own.filter(move |id| self.name(*id) == name);
        match self.base.as_deref() {
            Some(base) => Box::new(base.named(name).chain(own)),
            None => Box::new(own),
        }
    }

    /// The first type with a name whose kind is wanted.
    pub fn find(&self, name: &str, wanted: impl Fn(&Kind) -> bool) -> Option<TypeId> {
        self.named(name).find(|id| wanted(self.kind(*id)))
    }

    fn index(&self) -> &[(u64, TypeId)] {
        self.by_name.get_or_init(|| {
            let mut index = Vec::with_capacity(self.types.len());
            for (ty, id) in self.types.iter().zip(self.own_ids()) {
                let name = self.string_bytes(ty.name).unwrap_or_default();
                // Overlapping long strings would take long to hash, and no real name is that long.
                if (1..=MAX_NAME_BYTES).contains(&name.len()) {
                    index.push((hash_of(name), id));
                }
            }
            index.sort_unstable();
            index
        })
    }

    /// The type without typedefs, qualifiers and type tags. `None` if they form a cycle.
    pub fn resolve(&self, mut id: TypeId) -> Option<TypeId> {
        for _ in 0..MAX_DEPTH {
            match self.kind(id) {
                Kind::Typedef { target } | Kind::Qualifier { target, .. } | Kind::TypeTag { target } => id = *target,
                _ => return Some(id),
            }
        }
        None
    }

    /// The type without qualifiers and type tags. `None` if they form a cycle.
    pub fn without_qualifiers(&self, mut id: TypeId) -> Option<TypeId> {
        for _ in 0..MAX_DEPTH {
            match self.kind(id) {
                Kind::Qualifier { target, .. } | Kind::TypeTag { target } => id = *target,
                _ => return Some(id),
            }
        }
        None
    }

    /// The type that a CO-RE access string leads to: `0:2:1` is member 1 of what member 2 of `root` is. `None` where
    /// there is no such place, or it is a bit field.
    pub fn accessed(&self, root: TypeId, access: &str) -> Option<TypeId> {
        let mut indices = access.split(':').map(|index| index.parse::<usize>().ok());
        indices.next()??;
        let mut at = self.resolve(root)?;
        for index in indices {
            let next = match self.kind(at) {
                Kind::Composite { .. } => {
                    let member = self.members(at).get(index?)?;
                    member.bitfield_bits.is_none().then_some(member.type_id)?
                }
                Kind::Array { element, .. } => *element,
                _ => return None,
            };
            at = self.resolve(next)?;
        }
        Some(at)
    }

    /// What a CO-RE access string leads to, as C would write it: `struct sock.skc.port`. The string counts members: its
    /// first number is an index as of an array, each further one a member of the struct or union (or an element of the
    /// array) reached so far; for enums the only one is the value's index. `None` where there is no such place.
    pub fn access_name(&self, root: TypeId, access: &str) -> Option<String> {
        let mut indices = access.split(':').map(|number| number.parse::<usize>().ok());
        let first = indices.next()??;
        let mut at = self.resolve(root)?;
        let keyword = match self.kind(at) {
            _ if root != at => "",
            Kind::Composite { union: true, .. } => "union ",
            Kind::Composite { .. } => "struct ",
            Kind::Enum { .. } => "enum ",
            _ => "",
        };
        let mut text = format!("{keyword}{}", self.name(root));
        if let Kind::Enum { .. } = self.kind(at) {
            let value = self.values(at).get(first)?;
            return Some(format!("{text}.{}", self.text(value.name)));
        }
        if first != 0 {
            text.push_str(&format!("[{first}]"));
        }
        for index in indices {
            let index = index?;
            let next = match self.kind(at) {
                Kind::Composite { .. } => {
                    let member = self.members(at).get(index)?;
                    let name = self.text(member.name);
                    // Members of an anonymous member are named as if they were the outer type's, as in C.
                    if !name.is_empty() {
                        text.push_str(&format!(".{name}"));
                    }
                    member.type_id
                }
                Kind::Array { element, .. } => {
                    text.push_str(&format!("[{index}]"));
                    *element
                }
                _ => return None,
            };
            at = self.resolve(next)?;
        }
        Some(text)
    }

    /// Bytes of a value of this type. `None` for `void`, functions, declarations without a definition, and types
    /// that contain themselves or are larger than 64 bits can count.
    pub fn size_of(&self, mut id: TypeId) -> Option<u64> {
        let mut count = 1u64;
        for _ in 0..MAX_DEPTH {
            match self.kind(id) {
                Kind::Int { size, .. }
                | Kind::Composite { size, .. }
                | Kind::Enum { size, .. }
                | Kind::Section { size, .. }
                | Kind::Float { size } => return count.checked_mul(u64::from(*size)),
                Kind::Pointer { .. } => return count.checked_mul(8),
                Kind::Typedef { target }
                | Kind::Qualifier { target, .. }
                | Kind::Variable { target, .. }
                | Kind::DeclTag { target, .. }
                | Kind::TypeTag { target } => id = *target,
                Kind::Array { element, count: items, .. } => {
                    count = count.checked_mul(u64::from(*items))?;
                    id = *element;
                }
                Kind::Void | Kind::Forward { .. } | Kind::Function { .. } | Kind::Prototype { .. } => return None,
            }
        }
        None
    }

    /// The alignment that the BPF ABI gives this type, in bytes. `None` if it has none or contains itself.
    pub fn align_of(&self, id: TypeId) -> Option<u32> {
        // The budget bounds the whole walk, because members may be both many and nested.
        let mut budget = 4096;
        self.align_within(id, MAX_DEPTH, &mut budget)
    }

    fn align_within(&self, id: TypeId, depth: usize, budget: &mut u32) -> Option<u32> {
        *budget = budget.checked_sub(1)?;
        let depth = depth.checked_sub(1)?;
        match self.kind(id) {
            Kind::Int { size, .. } | Kind::Enum { size, .. } | Kind::Float { size } => Some((*size).clamp(1, 8)),
            Kind::Pointer { .. } => Some(8),
            Kind::Typedef { target }
            | Kind::Qualifier { target, .. }
            | Kind::Variable { target, .. }
            | Kind::TypeTag { target } => self.align_within(*target, depth, budget),
            Kind::Array { element, .. } => self.align_within(*element, depth, budget),
            Kind::Composite { size, .. } => {
                let mut align = 1;
                for member in self.members(id) {
                    let own = self.align_within(member.type_id, depth, budget)?;
                    // If a member is not naturally aligned, the struct is packed.
                    if member.bitfield_bits.is_none() && !member.bit_offset.is_multiple_of(8 * own) {
                        return Some(1);
                    }
                    align = align.max(own);
                }
                Some(if size.is_multiple_of(align) { align } else { 1 })
            }
            _ => None,
        }
    }
}
