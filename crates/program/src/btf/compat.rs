//! Decides whether a type of an object and a type of another kernel's are versions of one type, as libbpf does.

use super::{Btf, Kind, MAX_DEPTH, TypeId};

type Result<T> = std::result::Result<T, String>;

/// A name without its flavor: `task_struct___v5` is `task_struct`. Exactly three underscores separate the two.
pub fn essential(name: &str) -> &str {
    let separates = |window: &[u8]| window[0] != b'_' && &window[1..4] == b"___" && window[4] != b'_';
    match name.as_bytes().windows(5).rposition(separates) {
        Some(at) => name.get(..=at).unwrap_or(name),
        None => name,
    }
}

/// Whether two kinds can be versions of each other: they are equal, and all enums count as one kind.
pub fn same_kind(local: &Kind, target: &Kind) -> bool {
    match (local, target) {
        (Kind::Composite { union: a, .. }, Kind::Composite { union: b, .. }) => a == b,
        (Kind::Qualifier { qualifier: a, .. }, Kind::Qualifier { qualifier: b, .. }) => a == b,
        _ => std::mem::discriminant(local) == std::mem::discriminant(target),
    }
}

/// A comparison in progress; every step is counted against the budget.
pub struct Compare<'a> {
    /// The object's types.
    pub local: &'a Btf,
    /// The other kernel's.
    pub target: &'a Btf,
    /// Steps that are left.
    pub budget: &'a mut u32,
}

impl Compare<'_> {
    fn resolved(&mut self, local: TypeId, target: TypeId) -> Result<(TypeId, TypeId)> {
        *self.budget = self.budget.checked_sub(1).ok_or("comparing the types takes too long")?;
        let both = self.local.resolve(local).zip(self.target.resolve(target));
        both.ok_or_else(|| "a type refers to itself".to_owned())
    }

    fn same_name(&self, local: u32, target: u32) -> bool {
        essential(self.local.text(local)) == essential(self.target.text(target))
    }

    fn type_names(&self, local: TypeId, target: TypeId) -> (&str, &str) {
        (essential(self.local.name(local)), essential(self.target.name(target)))
    }

    /// Whether a member of one type can replace a member of the other. The check is loose, because only its place is
    /// needed.
    ///
    /// # Errors
    /// Says what is wrong with the types, or that comparing them takes too long.
    pub fn fields_are_compatible(&mut self, mut local: TypeId, mut target: TypeId) -> Result<bool> {
        for _ in 0..MAX_DEPTH {
            (local, target) = self.resolved(local, target)?;
            let (a, b) = (self.local.kind(local), self.target.kind(target));
            if matches!((a, b), (Kind::Composite { .. }, Kind::Composite { .. })) {
                return Ok(true);
            }
            if !same_kind(a, b) {
                return Ok(false);
            }
            match (a, b) {
                (Kind::Pointer { .. } | Kind::Float { .. }, _) => return Ok(true),
                (Kind::Forward { .. } | Kind::Enum { .. }, _) => {
                    let (a, b) = self.type_names(local, target);
                    return Ok(a.is_empty() || b.is_empty() || a == b);
                }
                (Kind::Int { bit_offset: a, .. }, Kind::Int { bit_offset: b, .. }) => return Ok(*a == 0 && *b == 0),
                (Kind::Array { element: a, .. }, Kind::Array { element: b, .. }) => (local, target) = (*a, *b),
                _ => return Ok(false),
            }
        }
        Err("arrays nest too deep".to_owned())
    }

    /// Whether two types of the same name are versions of one type (`bpf_core_type_exists`).
    ///
    /// # Errors
    /// Says what is wrong with the types, or that comparing them takes too long.
    pub fn types_are_compatible(&mut self, local: TypeId, target: TypeId) -> Result<bool> {
        self.compatible(local, target, MAX_DEPTH)
    }

    fn compatible(&mut self, mut local: TypeId, mut target: TypeId, depth: usize) -> Result<bool> {
        let depth = depth.checked_sub(1).ok_or("types nest too deep")?;
        for _ in 0..MAX_DEPTH {
            (local, target) = self.resolved(local, target)?;
            let (a, b) = (self.local.kind(local), self.target.kind(target));
            if !same_kind(a, b) {
                return Ok(false);
            }
            match (a, b) {
                (Kind::Void | Kind::Composite { .. } | Kind::Enum { .. } | Kind::Forward { .. }, _) => return Ok(true),
                (Kind::Int { bit_offset: a, .. }, Kind::Int { bit_offset: b, .. }) => return Ok(*a == 0 && *b == 0),
                (Kind::Pointer { target: a }, Kind::Pointer { target: b })
                | (Kind::Array { element: a, .. }, Kind::Array { element: b, .. }) => (local, target) = (*a, *b),
                (Kind::Prototype { result: a, .. }, Kind::Prototype { result: b, .. }) => {
                    let (results, parameters) = ((*a, *b), self.parameters(local, target));
                    let Some(parameters) = parameters else { return Ok(false) };
                    for (a, b) in parameters {
                        if !self.compatible(a, b, depth)? {
                            return Ok(false);
                        }
                    }
                    (local, target) = results;
                }
                _ => return Ok(false),
            }
        }
        Err("types nest too deep".to_owned())
    }

    /// The pairs of parameter types; `None` if the counts differ.
    fn parameters(&self, local: TypeId, target: TypeId) -> Option<Vec<(TypeId, TypeId)>> {
        let (a, b) = (self.local.parameters(local), self.target.parameters(target));
        (a.len() == b.len()).then(|| a.iter().zip(b).map(|(a, b)| (a.type_id, b.type_id)).collect())
    }

    /// Whether the target's type has everything that the object's has (`bpf_core_type_matches`).
    ///
    /// # Errors
    /// Says what is wrong with the types, or that comparing them takes too long.
    pub fn matches(
        &mut self,
        mut local: TypeId,
        mut target: TypeId,
        mut behind_pointer: bool,
        depth: usize,
    ) -> Result<bool> {
        let depth = depth.checked_sub(1).ok_or("types nest too deep")?;
        for _ in 0..MAX_DEPTH {
            (local, target) = self.resolved(local, target)?;
            let (a, b) = self.type_names(local, target);
            if a != b {
                return Ok(false);
            }
            let (a, b) = (self.local.kind(local), self.target.kind(target));
            match (a, b) {
                (Kind::Void, Kind::Void) => return Ok(true),
                (Kind::Forward { union: a }, Kind::Forward { union: b }) => return Ok(a == b),
                (Kind::Forward { union: a }, Kind::Composite { union: b, .. })
                | (Kind::Composite { union: a, .. }, Kind::Forward { union: b }) => return Ok(behind_pointer && a == b),
                (Kind::Composite { union: a, .. }, Kind::Composite { union: b, .. }) => {
                    return if behind_pointer || a != b {
                        Ok(a == b)
                    } else {
                        self.members_match(local, target, depth)
                    };
                }
                (Kind::Enum { size: a, .. }, Kind::Enum { size: b, .. }) => {
                    return Ok(a == b && self.values_match(local, target)?);
                }
                (Kind::Int { size: a, signed: c, .. }, Kind::Int { size: b, signed: d, .. }) => {
                    return Ok(a == b && c == d);
                }
                (Kind::Pointer { target: a }, Kind::Pointer { target: b }) => {
                    behind_pointer = true;
                    (local, target) = (*a, *b);
                }
                (Kind::Array { element: a, count: c, .. }, Kind::Array { element: b, count: d, .. }) => {
                    if c != d {
                        return Ok(false);
                    }
                    (local, target) = (*a, *b);
                }
                (Kind::Prototype { result: a, .. }, Kind::Prototype { result: b, .. }) => {
                    let (results, parameters) = ((*a, *b), self.parameters(local, target));
                    let Some(parameters) = parameters else { return Ok(false) };
                    for (a, b) in parameters {
                        if !self.matches(a, b, behind_pointer, depth)? {
                            return Ok(false);
                        }
                    }
                    (local, target) = results;
                }
                _ => return Ok(false),
            }
        }
        Err("types nest too deep".to_owned())
    }

    fn members_match(&mut self, local: TypeId, target: TypeId, depth: usize) -> Result<bool> {
        let (own, others) = (self.local.members(local).to_vec(), self.target.members(target).to_vec());
        if own.len() > others.len() {
            return Ok(false);
        }
        for member in own {
            let mut found = false;
            for other in &others {
                *self.budget = self.budget.checked_sub(1).ok_or("comparing the types takes too long")?;
                let named = self.same_name(member.name, other.name);
                if named && self.matches(member.type_id, other.type_id, false, depth)? {
                    found = true;
                    break;
                }
            }
            if !found {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn values_match(&mut self, local: TypeId, target: TypeId) -> Result<bool> {
        let (own, others) = (self.local.values(local), self.target.values(target));
        let cost = own.len().saturating_mul(others.len());
        let left = u32::try_from(cost).ok().and_then(|cost| self.budget.checked_sub(cost));
        *self.budget = left.ok_or("comparing the types takes too long")?;
        let found = |name: u32| others.iter().any(|other| self.same_name(name, other.name));
        Ok(own.len() <= others.len() && own.iter().all(|value| found(value.name)))
    }
}
