//! An access as a path of member names, in the object's types or in the target's.

use kiln_program::CoreRelocation;
use kiln_program::btf::{Btf, Kind, MAX_DEPTH, Member, TypeId};

use super::{
    ENUM_VALUE, ENUM_VALUE_EXISTS, FIELD_BYTE_OFFSET, FIELD_BYTE_SIZE, FIELD_EXISTS, FIELD_LSHIFT_U64,
    FIELD_RSHIFT_U64, FIELD_SIGNED, TYPE_EXISTS, TYPE_ID_LOCAL, TYPE_ID_TARGET, TYPE_MATCHES, TYPE_SIZE, compat,
    essential, only_size_differs,
};

/// Maximum count of numbers in an access string (libbpf `BPF_CORE_SPEC_MAX_LEN`).
const MAX_STEPS: usize = 64;

type Result<T> = std::result::Result<T, String>;

/// One step of an access.
#[derive(Clone, Debug)]
struct Step {
    /// The struct or union that has the member, or the array's element type, or the enum.
    type_id: TypeId,
    /// Member, element or enum value.
    index: u32,
    /// The member's or enum value's name; elements have none.
    name: Option<String>,
}

/// A path to a field, or a type alone, or an enum value.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub root: TypeId,
    steps: Vec<Step>,
    pub bit_offset: u64,
}

/// A relocation's result on one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub number: u64,
    /// Bytes of the field, if the access may have to change its size.
    pub size: Option<u64>,
    kind: Option<Kind>,
    /// Whether the compiled instruction must hold this number.
    pub exact: bool,
}

impl Value {
    pub fn number(number: u64) -> Value {
        Value { number, size: None, kind: None, exact: true }
    }

    /// Whether an access of this field reads the right value from the target's field.
    pub fn can_be_read_as(&self, target: &Value) -> bool {
        match (&self.kind, &target.kind) {
            (Some(local), Some(new)) if self.size != target.size => only_size_differs(local, new),
            _ => true,
        }
    }
}

fn is_type_question(kind: u32) -> bool {
    matches!(kind, TYPE_ID_LOCAL | TYPE_ID_TARGET | TYPE_EXISTS | TYPE_SIZE | TYPE_MATCHES)
}

fn resolved(btf: &Btf, id: TypeId) -> Result<TypeId> {
    btf.resolve(id).ok_or_else(|| "a type refers to itself".to_owned())
}

fn size_of(btf: &Btf, id: TypeId) -> Result<u64> {
    btf.size_of(id).ok_or_else(|| "a type has no size".to_owned())
}

/// `index * size` in bits.
fn scaled(index: u32, bytes: u64) -> Result<u64> {
    let bits = bytes.checked_mul(u64::from(index)).and_then(|bytes| bytes.checked_mul(8));
    bits.ok_or_else(|| "an array is too large".to_owned())
}

fn added(offset: u64, bits: u64) -> Result<u64> {
    offset.checked_add(bits).ok_or_else(|| "an offset is too large".to_owned())
}

/// An array without length at the end of its struct may be indexed anywhere.
fn is_flexible(btf: &Btf, previous: Option<&Step>, count: u32) -> bool {
    let Some(Step { type_id, index, name: Some(_) }) = previous else { return false };
    count == 0 && *index as usize + 1 == btf.members(*type_id).len()
}

impl Spec {
    /// Reads a record's access string against the object's own types.
    pub fn parse(btf: &Btf, relocation: &CoreRelocation) -> Result<Spec> {
        let root = TypeId(relocation.type_id);
        if btf.get(root).is_none() || root == TypeId::VOID {
            return Err(format!("type {} does not exist", root.0));
        }
        let numbers: Vec<u32> = relocation
            .access
            .split(':')
            .map(|number| number.parse().map_err(|_| format!("access {:?} is malformed", relocation.access)))
            .collect::<Result<_>>()?;
        if numbers.len() > MAX_STEPS {
            return Err("the access is too long".to_owned());
        }
        let kind = relocation.kind;
        if is_type_question(kind) {
            if numbers != [0] {
                return Err(format!("access {:?} of a type is malformed", relocation.access));
            }
            return Ok(Spec { root, steps: Vec::new(), bit_offset: 0 });
        }
        let id = resolved(btf, root)?;
        if matches!(kind, ENUM_VALUE_EXISTS | ENUM_VALUE) {
            let value = btf.values(id).get(numbers[0] as usize).filter(|_| numbers.len() == 1);
            let Some(value) = value else { return Err(format!("enum value {:?} does not exist", relocation.access)) };
            let name = Some(btf.text(value.name).to_owned());
            return Ok(Spec { root, steps: vec![Step { type_id: id, index: numbers[0], name }], bit_offset: 0 });
        }
        let bit_offset = scaled(numbers[0], size_of(btf, id)?)?;
        let mut spec = Spec { root, steps: vec![Step { type_id: id, index: numbers[0], name: None }], bit_offset };
        let mut id = id;
        for index in &numbers[1..] {
            id = spec.step(btf, id, *index)?;
        }
        Ok(spec)
    }

    /// Follows one number and returns the resulting type.
    fn step(&mut self, btf: &Btf, id: TypeId, index: u32) -> Result<TypeId> {
        let id = resolved(btf, id)?;
        match btf.kind(id) {
            Kind::Composite { .. } => {
                let Some(member) = btf.members(id).get(index as usize) else {
                    return Err(format!("member {index} of {} does not exist", btf.name(id)));
                };
                self.bit_offset = added(self.bit_offset, member.bit_offset.into())?;
                let name = btf.text(member.name);
                // Anonymous members are transparent: the target may nest differently.
                if !name.is_empty() {
                    self.steps.push(Step { type_id: id, index, name: Some(name.to_owned()) });
                }
                Ok(member.type_id)
            }
            Kind::Array { element, count, .. } => {
                if index >= *count && !is_flexible(btf, self.steps.last(), *count) {
                    return Err(format!("element {index} of an array of {count} does not exist"));
                }
                let element = resolved(btf, *element)?;
                self.steps.push(Step { type_id: element, index, name: None });
                self.bit_offset = added(self.bit_offset, scaled(index, size_of(btf, element)?)?)?;
                Ok(element)
            }
            _ => Err("the access goes into a type that has no parts".to_owned()),
        }
    }

    /// Finds the path in the target, beginning at a candidate; `None` if the candidate does not have it.
    pub fn find_in(
        &self,
        local: &Btf,
        target: &Btf,
        candidate: TypeId,
        kind: u32,
        budget: &mut u32,
    ) -> Result<Option<Spec>> {
        let mut found = Spec { root: candidate, steps: Vec::new(), bit_offset: 0 };
        if is_type_question(kind) {
            let mut compare = compat::Compare { local, target, budget };
            let same = if kind == TYPE_MATCHES {
                compare.matches(self.root, candidate, false, MAX_DEPTH)?
            } else {
                compare.types_are_compatible(self.root, candidate)?
            };
            return Ok(same.then_some(found));
        }
        if matches!(kind, ENUM_VALUE_EXISTS | ENUM_VALUE) {
            let id = resolved(target, candidate)?;
            let wanted = essential(self.steps[0].name.as_deref().unwrap_or_default());
            let index = target.values(id).iter().position(|value| essential(target.text(value.name)) == wanted);
            let Some(index) = index else { return Ok(None) };
            let name = self.steps[0].name.clone();
            found.steps.push(Step { type_id: id, index: index as u32, name });
            return Ok(Some(found));
        }
        let mut id = candidate;
        for (at, step) in self.steps.iter().enumerate() {
            id = resolved(target, id)?;
            if let Some(name) = &step.name {
                let Some(member) = found.member(target, id, name, budget)? else { return Ok(None) };
                let own = local.members(step.type_id).get(step.index as usize).map_or(TypeId::VOID, |own| own.type_id);
                let mut compare = compat::Compare { local, target, budget };
                if !compare.fields_are_compatible(own, member.type_id)? {
                    return Ok(None);
                }
                id = member.type_id;
                continue;
            }
            if at > 0 {
                let Kind::Array { element, count, .. } = target.kind(id) else { return Ok(None) };
                if step.index >= *count && !is_flexible(target, found.steps.last(), *count) {
                    return Ok(None);
                }
                id = resolved(target, *element)?;
            }
            found.steps.push(Step { type_id: id, index: step.index, name: None });
            found.bit_offset = added(found.bit_offset, scaled(step.index, size_of(target, id)?)?)?;
        }
        Ok(Some(found))
    }

    /// Finds a member by name, in anonymous structs and unions too, and takes the step.
    fn member<'a>(&mut self, target: &'a Btf, id: TypeId, name: &str, budget: &mut u32) -> Result<Option<&'a Member>> {
        let mut pending = vec![(id, self.bit_offset, 0)];
        while let Some((id, offset, depth)) = pending.pop() {
            *budget = budget.checked_sub(1).ok_or("comparing the types takes too long")?;
            if depth > MAX_DEPTH {
                return Err("structs nest too deep".to_owned());
            }
            let id = resolved(target, id)?;
            let mut anonymous = Vec::new();
            for (index, member) in target.members(id).iter().enumerate() {
                let bit_offset = added(offset, member.bit_offset.into())?;
                match target.text(member.name) {
                    "" => anonymous.push((member.type_id, bit_offset, depth + 1)),
                    own if own == name => {
                        self.bit_offset = bit_offset;
                        self.steps.push(Step { type_id: id, index: index as u32, name: Some(name.to_owned()) });
                        return Ok(Some(member));
                    }
                    _ => {}
                }
            }
            pending.extend(anonymous.into_iter().rev());
        }
        Ok(None)
    }

    /// The result of a relocation of `kind` for this path.
    pub fn value(&self, btf: &Btf, kind: u32) -> Result<Value> {
        match kind {
            TYPE_ID_LOCAL | TYPE_ID_TARGET => Ok(Value { exact: false, ..Value::number(self.root.0.into()) }),
            TYPE_SIZE => Ok(Value::number(size_of(btf, self.root)?)),
            TYPE_EXISTS | TYPE_MATCHES | FIELD_EXISTS | ENUM_VALUE_EXISTS => Ok(Value::number(1)),
            ENUM_VALUE => {
                let step = &self.steps[0];
                let value = btf.values(step.type_id).get(step.index as usize);
                value.map(|value| Value::number(value.value)).ok_or_else(|| "an enum value is missing".to_owned())
            }
            _ => self.field_value(btf, kind),
        }
    }

    fn field_value(&self, btf: &Btf, kind: u32) -> Result<Value> {
        let last = self.steps.last().ok_or("the access is empty")?;
        if last.name.is_none() {
            let size = size_of(btf, last.type_id)?;
            let element = Some(btf.kind(last.type_id).clone());
            return match kind {
                FIELD_BYTE_OFFSET => {
                    Ok(Value { number: self.bit_offset / 8, size: Some(size), kind: element, exact: true })
                }
                FIELD_BYTE_SIZE => Ok(Value::number(size)),
                _ => Err("an array element has no such property".to_owned()),
            };
        }
        let member = btf.members(last.type_id).get(last.index as usize).ok_or("a member is missing")?;
        let field = Field::of(btf, member, self.bit_offset)?;
        let bitfield = member.bitfield_bits.is_some();
        let number = match kind {
            FIELD_BYTE_OFFSET => {
                let size = (!bitfield).then_some(field.bytes);
                let own = (!bitfield).then(|| btf.kind(field.type_id).clone());
                return Ok(Value { number: field.byte_offset, size, kind: own, exact: !bitfield });
            }
            FIELD_BYTE_SIZE => field.bytes,
            FIELD_SIGNED => {
                let signed =
                    matches!(btf.kind(field.type_id), Kind::Int { signed: true, .. } | Kind::Enum { signed: true, .. });
                return Ok(Value::number(signed.into()));
            }
            FIELD_LSHIFT_U64 => {
                let end = self.bit_offset + field.bits - 8 * field.byte_offset;
                64u64.checked_sub(end).ok_or("a field is wider than 64 bits")?
            }
            FIELD_RSHIFT_U64 => {
                let shift = 64u64.checked_sub(field.bits).ok_or("a field is wider than 64 bits")?;
                return Ok(Value::number(shift));
            }
            other => return Err(format!("kind {other} is unknown")),
        };
        Ok(Value { exact: !bitfield, ..Value::number(number) })
    }
}

/// A member as loads see it.
struct Field {
    type_id: TypeId,
    byte_offset: u64,
    bytes: u64,
    bits: u64,
}

impl Field {
    fn of(btf: &Btf, member: &Member, bit_offset: u64) -> Result<Field> {
        let type_id = resolved(btf, member.type_id)?;
        let mut bytes = size_of(btf, type_id)?;
        let Some(bits) = member.bitfield_bits.map(u64::from) else {
            let bits = bytes.checked_mul(8).ok_or("a field is too large")?;
            return Ok(Field { type_id, byte_offset: bit_offset / 8, bytes, bits });
        };
        if bytes == 0 {
            return Err("a bitfield has no type".to_owned());
        }
        // The smallest aligned load of at least the declared type that covers all bits.
        let start = |bytes: u64| bit_offset / 8 / bytes * bytes;
        while bit_offset + bits - 8 * start(bytes) > 8 * bytes {
            if bytes >= 8 {
                return Err("a bitfield is not in any 64 bits".to_owned());
            }
            bytes *= 2;
        }
        Ok(Field { type_id, byte_offset: start(bytes), bytes, bits })
    }
}
