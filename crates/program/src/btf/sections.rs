//! Data sections as a loader completes them.
//!
//! A compiler leaves a data section's size, and the offsets of its global variables, at zero: the symbol table has
//! them.
//!
//! ```text
//!   [87] section ".bss" size 0              [87] section ".bss" size 24
//!        lock  at 0, 4 bytes         -->         lock  at 0, 4 bytes
//!        head  at 0, 16 bytes                    head  at 8, 16 bytes
//! ```

use super::{Btf, Kind, Linkage, TypeId};

/// Bytes of a record before what its kind adds.
const RECORD_BYTES: usize = 12;

impl Btf {
    /// Returns the bytes that this table was parsed from, with sizes of data sections and offsets of their global
    /// variables filled in if the size is zero and `size` returns it. A variable that `offset` does not know keeps its
    /// offset.
    pub fn with_sections_filled(
        &self,
        bytes: &[u8],
        size: impl Fn(&str) -> Option<u32>,
        offset: impl Fn(&str, &str) -> Option<u32>,
    ) -> Vec<u8> {
        let mut filled = bytes.to_vec();
        let mut put = |at: usize, word: u32| {
            if let Some(slot) = filled.get_mut(at..at + 4) {
                slot.copy_from_slice(&word.to_le_bytes());
            }
        };
        let word = |at: usize| {
            bytes.get(at..at + 4).map_or(0, |word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        };
        let mut at = word(4) as usize + word(8) as usize;
        for id in self.own_ids().filter(|id| *id != TypeId::VOID) {
            if let Kind::Section { size: 0, .. } = self.kind(id)
                && let Some(size) = size(self.name(id))
            {
                put(at + 8, size);
                for (index, variable) in self.variables(id).iter().enumerate() {
                    let fixed = matches!(self.kind(variable.type_id), Kind::Variable { linkage: Linkage::Static, .. });
                    if let (false, Some(offset)) = (fixed, offset(self.name(id), self.name(variable.type_id))) {
                        put(at + RECORD_BYTES + 12 * index + 4, offset);
                    }
                }
            }
            at += RECORD_BYTES + self.added_bytes(id);
        }
        filled
    }

    /// Bytes of the type's record after the part that all have.
    pub(super) fn added_bytes(&self, id: TypeId) -> usize {
        match self.kind(id) {
            Kind::Int { .. } | Kind::Variable { .. } | Kind::DeclTag { .. } => 4,
            Kind::Array { .. } => 12,
            Kind::Composite { members, .. } => 12 * members.len(),
            Kind::Enum { wide, values, .. } => values.len() * if *wide { 12 } else { 8 },
            Kind::Prototype { parameters, .. } => 8 * parameters.len(),
            Kind::Section { variables, .. } => 12 * variables.len(),
            _ => 0,
        }
    }
}
