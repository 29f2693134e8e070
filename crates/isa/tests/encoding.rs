//! Decoding is total, strict and lossless; so are printing and parsing.

use kiln_isa::encoding::{decode_all, encode_all};
use kiln_isa::forms::forms;
use kiln_isa::text::{parse, parse_symbolic};
use kiln_isa::{DecodeError, Insn, Slot, decode, encode};
use proptest::prelude::*;

/// Two slots; often with an opcode that exists and fields that are zero, so that many decode.
fn slots() -> impl Strategy<Value = [Slot; 2]> {
    let opcodes: Vec<u8> = forms().iter().map(|form| encode(&form.insn).0.opcode).collect();
    let opcode = prop_oneof![4 => proptest::sample::select(opcodes), 1 => any::<u8>()];
    let register = prop_oneof![1 => Just(0), 3 => 0_u8..16];
    let offset = prop_oneof![2 => Just(0_i16), 1 => 0_i16..40, 1 => any::<i16>()];
    let special = vec![1, 16, 32, 64, 0x40, 0x41, 0x50, 0xa1, 0xe1, 0xf1, 0x100, 0x110];
    let imm = prop_oneof![2 => Just(0_i32), 1 => proptest::sample::select(special), 2 => any::<i32>()];
    let second = prop_oneof![3 => any::<i32>().prop_map(|imm| Slot { imm, ..Slot::default() }), 1 => any_slot()];
    (opcode, register.clone(), register, offset, imm, second)
        .prop_map(|(opcode, dst, src, offset, imm, second)| [Slot { opcode, dst, src, offset, imm }, second])
}

fn any_slot() -> impl Strategy<Value = Slot> {
    any::<[u8; 8]>().prop_map(Slot::from_bytes)
}

fn slots_of(insn: &Insn) -> Vec<Slot> {
    encode_all([insn])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_decodes_encodes_to_the_same_slots(slots in slots()) {
        if let Ok(insn) = decode(&slots) {
            prop_assert_eq!(&slots_of(&insn)[..], &slots[..insn.slots() as usize]);
        }
    }

    #[test]
    fn what_is_printed_parses_to_the_same_instruction(slots in slots()) {
        if let Ok(insn) = decode(&slots) {
            prop_assert_eq!(parse(&insn.to_string()), Ok(insn), "{}", insn);
        }
    }

    #[test]
    fn bytes_and_slots_are_one(bytes in any::<[u8; 8]>()) {
        prop_assert_eq!(Slot::from_bytes(bytes).to_bytes(), bytes);
    }

    #[test]
    fn sequences_decode_like_their_parts(parts in proptest::collection::vec(slots(), 0..20)) {
        let insns: Vec<Insn> = parts.iter().filter_map(|slots| decode(slots).ok()).collect();
        let all = encode_all(&insns);
        let decoded: Vec<Insn> = decode_all(&all).unwrap().into_iter().map(|(_, insn)| insn).collect();
        prop_assert_eq!(decoded, insns);
    }

    #[test]
    fn parsing_never_panics(line in "\\PC{0,40}") {
        let _ = parse_symbolic(&line);
    }

    #[test]
    fn damaged_text_never_panics(slots in slots(), at in 0_usize..40, with in "\\PC{0,3}", cut in 0_usize..4) {
        if let Ok(insn) = decode(&slots) {
            let text = insn.to_string();
            let characters: Vec<char> = text.chars().collect();
            let at = at.min(characters.len());
            let rest = &characters[(at + cut).min(characters.len())..];
            let damaged: String = characters[..at].iter().copied().chain(with.chars()).chain(rest.iter().copied()).collect();
            if let Err(error) = parse_symbolic(&damaged) {
                prop_assert!(error.column >= 1 && error.column <= damaged.len() + 1);
            }
        }
    }
}

#[test]
fn every_form_survives_all_conversions() {
    let forms = forms();
    for form in &forms {
        let slots = slots_of(&form.insn);
        assert_eq!(decode(&slots), Ok(form.insn));
        assert_eq!(parse(&form.insn.to_string()), Ok(form.insn));
    }
    let texts: std::collections::HashSet<_> = forms.iter().map(|form| form.insn.to_string()).collect();
    assert_eq!(texts.len(), forms.len(), "no form is listed twice");
}

/// Every opcode byte that decodes at all is one of the forms', so that [`forms`] is complete.
#[test]
fn every_opcode_that_decodes_is_a_form() {
    let known: std::collections::HashSet<u8> = forms().iter().map(|form| encode(&form.insn).0.opcode).collect();
    for opcode in 0..=u8::MAX {
        let decodes = (0..7).any(|src| {
            [0, 1, 8, 16, 32].iter().any(|offset| {
                [0, 1, 16, 0x100].iter().any(|imm| {
                    decode(&[Slot { opcode, dst: 0, src, offset: *offset, imm: *imm }, Slot::default()]).is_ok()
                })
            })
        });
        assert_eq!(decodes, known.contains(&opcode), "opcode {opcode:#04x}");
    }
}

#[test]
fn errors_name_the_field() {
    let slot = |bytes: [u8; 8]| decode(&[Slot::from_bytes(bytes)]);
    assert_eq!(slot([0xff, 0, 0, 0, 0, 0, 0, 0]), Err(DecodeError::Opcode { opcode: 0xff }));
    assert_eq!(slot([0xb7, 0x0b, 0, 0, 0, 0, 0, 0]), Err(DecodeError::Register { number: 11 }));
    assert_eq!(slot([0x18, 0, 0, 0, 0, 0, 0, 0]), Err(DecodeError::Truncated));
    assert_eq!(decode(&[]), Err(DecodeError::Truncated));
    let reserved = |field, value| Err(DecodeError::Reserved { opcode: 0xb7, field, value });
    assert_eq!(slot([0xb7, 0x10, 0, 0, 0, 0, 0, 0]), reserved("src", 1));
    assert_eq!(slot([0xb7, 0, 2, 0, 0, 0, 0, 0]), reserved("offset", 2));
    assert_eq!(Slot::parse_all(&[0; 12]), None);
    assert_eq!(Slot::parse_all(&[0; 16]).map(|slots| slots.len()), Some(2));
}
