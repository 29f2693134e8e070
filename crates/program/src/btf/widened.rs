//! Functions that take one more argument, a number of 64 bits.
//!
//! ```text
//!   [7] func "walk" -> [6]                        [7] func "walk" -> [41]
//!   [6] prototype (ctx -> [2])           -->      [6] prototype (ctx -> [2])      others may share it
//!                                                 [40] int "deadline" 8 bytes
//!                                                 [41] prototype (ctx -> [2], deadline -> [40])
//! ```

use super::{Btf, Kind, TypeId};

/// Bytes of a record before what its kind adds.
const RECORD_BYTES: usize = 12;
const INT: u32 = 1 << 24;
const PROTOTYPE: u32 = 13 << 24;

impl Btf {
    /// Returns the bytes that this table was parsed from, with one more parameter for each of `functions`, an unsigned number of
    /// 64 bits. It is called `name`, as is its type.
    pub fn with_parameter(&self, bytes: &[u8], functions: &[TypeId], name: &str) -> Vec<u8> {
        let word = |at: usize| {
            bytes.get(at..at + 4).map_or(0, |word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        };
        let header = word(4) as usize;
        let part = |offset: usize, length: usize| {
            let begin = header + word(offset) as usize;
            bytes.get(begin..begin + word(length) as usize).unwrap_or_default().to_vec()
        };
        let (mut types, mut strings) = (part(8, 12), part(16, 20));
        let named = strings.len() as u32;
        strings.extend(name.bytes().chain([0]));
        let mut next = self.type_count() as u32;
        let number = next;
        let mut added: Vec<u32> = vec![named, INT, 8, 64];
        let mut at = 0;
        for id in self.own_ids().filter(|id| *id != TypeId::VOID) {
            if let Kind::Function { prototype, .. } = self.kind(id)
                && let Kind::Prototype { result, .. } = self.kind(*prototype)
                && functions.contains(&id)
            {
                next += 1;
                let parameters = self.parameters(*prototype);
                added.extend([0, PROTOTYPE | (parameters.len() as u32 + 1), result.0]);
                added.extend(parameters.iter().flat_map(|parameter| [parameter.name, parameter.type_id.0]));
                added.extend([named, number]);
                if let Some(slot) = types.get_mut(at + 8..at + 12) {
                    slot.copy_from_slice(&next.to_le_bytes());
                }
            }
            at += RECORD_BYTES + self.added_bytes(id);
        }
        types.extend(added.into_iter().flat_map(u32::to_le_bytes));
        let mut all = bytes[..header.min(bytes.len())].to_vec();
        for (at, value) in [(8, 0), (12, types.len()), (16, types.len()), (20, strings.len())] {
            if let Some(slot) = all.get_mut(at..at + 4) {
                slot.copy_from_slice(&(value as u32).to_le_bytes());
            }
        }
        all.extend(types);
        all.extend(strings);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// int "a", prototype (x: int) -> int, functions "f" and "g" of that prototype.
    fn two_functions() -> Vec<u8> {
        let strings = b"\0a\0x\0f\0g\0";
        let types = [1, INT, 4, 32, 0, PROTOTYPE | 1, 1, 3, 1, 5, 12 << 24 | 1, 2, 7, 12 << 24 | 1, 2];
        let mut bytes = vec![0x9f, 0xeb, 1, 0, 24, 0, 0, 0];
        let lengths = [0, 4 * types.len() as u32, 4 * types.len() as u32, strings.len() as u32];
        bytes.extend(lengths.into_iter().chain(types).flat_map(u32::to_le_bytes));
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn one_function_takes_one_more_and_the_other_does_not() {
        let bytes = two_functions();
        let btf = Btf::parse(&bytes).expect("types");
        let widened = btf.with_parameter(&bytes, &[TypeId(3)], "deadline");
        let new = Btf::parse(&widened).expect("types");
        let parameters = |id: u32| match new.kind(TypeId(id)) {
            Kind::Function { prototype, .. } => new.parameters(*prototype).to_vec(),
            kind => panic!("{kind:?}"),
        };
        assert_eq!(parameters(4).len(), 1);
        let [first, last] = parameters(3)[..] else { panic!("{:?}", parameters(3)) };
        assert_eq!((first.type_id, new.text(first.name)), (TypeId(1), "x"));
        assert_eq!((new.size_of(last.type_id), new.text(last.name)), (Some(8), "deadline"));
    }
}
