//! Walking hand-made structures.

use kiln_program::btf::{Btf, TypeId};

use super::walk::{Found, access};
use super::{Pointed, Types};
use crate::state::Trust;

/// BTF records as words, with the strings they name.
#[derive(Default)]
struct Builder {
    words: Vec<u32>,
    strings: Vec<u8>,
    types: u32,
}

impl Builder {
    fn name(&mut self, name: &str) -> u32 {
        if self.strings.is_empty() {
            self.strings.push(0);
        }
        if name.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend(name.as_bytes());
        self.strings.push(0);
        at
    }

    fn record(&mut self, name: &str, kind: u32, count: u32, size_or_type: u32, rest: &[u32]) -> u32 {
        let name = self.name(name);
        self.words.extend([name, kind << 24 | count, size_or_type]);
        self.words.extend(rest);
        self.types += 1;
        self.types
    }

    fn int(&mut self, name: &str, bytes: u32) -> u32 {
        self.record(name, 1, 0, bytes, &[8 * bytes])
    }

    fn pointer(&mut self, target: u32) -> u32 {
        self.record("", 2, 0, target, &[])
    }

    fn array(&mut self, element: u32, count: u32) -> u32 {
        self.record("", 3, 0, 0, &[element, 1, count])
    }

    /// Members: name, type, offset in bytes.
    fn composite(&mut self, union: bool, name: &str, bytes: u32, members: &[(&str, u32, u32)]) -> u32 {
        let rest: Vec<u32> = members.iter().flat_map(|(name, of, offset)| [self.name(name), *of, 8 * offset]).collect();
        self.record(name, if union { 5 } else { 4 }, members.len() as u32, bytes, &rest)
    }

    fn build(self) -> Btf {
        let bytes = 4 * self.words.len() as u32;
        let mut section = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, bytes, bytes, self.strings.len() as u32].iter().chain(&self.words) {
            section.extend(word.to_le_bytes());
        }
        section.extend(&self.strings);
        Btf::parse(&section).expect("the builder writes BTF")
    }
}

/// ```c
/// struct inner { u32 a; struct inner *next; };
/// struct outer { struct inner first; u8 name[16]; union { struct inner *one; u64 other; };
///                union { struct inner *only; }; u32 tail; struct inner rest[]; };
/// ```
struct Sample {
    btf: Btf,
    inner: TypeId,
    outer: TypeId,
}

fn sample() -> Sample {
    let mut builder = Builder::default();
    let (byte, word, long) = (builder.int("u8", 1), builder.int("u32", 4), builder.int("u64", 8));
    // Numbers are given in order: the pointer comes before the structure that it points to.
    let to_inner = builder.pointer(5);
    let inner = builder.composite(false, "inner", 16, &[("a", word, 0), ("next", to_inner, 8)]);
    assert_eq!(inner, 5);
    let name = builder.array(byte, 16);
    let either = builder.composite(true, "", 8, &[("one", to_inner, 0), ("other", long, 0)]);
    let single = builder.composite(true, "", 8, &[("only", to_inner, 0)]);
    let rest = builder.array(inner, 0);
    let members = [
        ("first", inner, 0),
        ("name", name, 16),
        ("", either, 32),
        ("", single, 40),
        ("tail", word, 48),
        ("rest", rest, 56),
    ];
    let outer = builder.composite(false, "outer", 56, &members);
    Sample { btf: builder.build(), inner: TypeId(inner), outer: TypeId(outer) }
}

fn found(sample: &Sample, offset: u32, size: u32) -> Result<Found, String> {
    access(&sample.btf, sample.outer, offset, size, true)
}

fn pointer(sample: &Sample, field: &str, trust: Trust) -> Result<Found, String> {
    Ok(Found::Pointer { target: sample.inner, field: field.to_owned(), trust })
}

#[test]
fn nested_structures_are_walked_into() {
    let sample = sample();
    assert_eq!(found(&sample, 0, 4), Ok(Found::Number));
    assert_eq!(found(&sample, 8, 8), pointer(&sample, "next", Trust::NONE));
    assert!(found(&sample, 8, 4).is_err(), "half of a pointer");
    assert!(found(&sample, 12, 4).is_err(), "the other half");
}

#[test]
fn an_array_of_numbers_is_one_field() {
    let sample = sample();
    assert_eq!(found(&sample, 17, 8), Ok(Found::Number));
    assert_eq!(found(&sample, 16, 16), Ok(Found::Number));
    assert!(found(&sample, 28, 8).is_err(), "it ends at 32");
    assert!(found(&sample, 52, 4).is_err(), "nothing but padding");
}

#[test]
fn unions_of_several_members_are_not_trusted() {
    let sample = sample();
    assert_eq!(found(&sample, 32, 8), pointer(&sample, "one", Trust::UNTRUSTED));
    assert_eq!(found(&sample, 40, 8), pointer(&sample, "only", Trust::NONE));
}

#[test]
fn arrays_of_unknown_length_go_on() {
    let sample = sample();
    assert_eq!(found(&sample, 56 + 3 * 16 + 8, 8), pointer(&sample, "next", Trust::NONE));
    assert!(access(&sample.btf, sample.outer, 56, 4, false).is_err(), "where they may not be walked into");
    assert!(access(&sample.btf, sample.inner, 16, 4, true).is_err(), "a structure without one ends");
    assert!(found(&sample, u32::MAX, 8).is_err(), "the last byte of a pointer, far behind");
}

#[test]
fn a_structure_stands_for_the_one_it_begins_with() {
    let Sample { btf, inner, outer } = sample();
    let mut types = Types::new(None, Some(std::sync::Arc::new(btf)));
    let [inner, outer] = [inner, outer].map(|id| {
        let index = types.program_type(id);
        types.pointed(index).cloned().unwrap_or_else(|| unreachable!("it was just put there"))
    });
    let at = |held: &Pointed, offset, wanted: &Pointed, strictly| types.is_at(held, offset, wanted, strictly, true);
    assert!(at(&outer, 0, &outer, true));
    assert!(at(&outer, 0, &inner, false));
    assert!(!at(&outer, 0, &inner, true), "not itself");
    assert!(!at(&outer, 16, &inner, false), "a name lies there");
    assert!(!at(&inner, 0, &outer, false), "the other way round");
    assert!(!at(&outer, -16, &inner, false));
}
