//! Bytes to instructions to text and back.

use kiln_isa::text::parse;
use kiln_isa::{Insn, Slot, decode, encode};

use super::{Canary, Finding};

/// Whether the instruction that the bytes begin with, if any, survives encoding, printing and parsing.
pub fn instruction(bytes: &[u8], canary: Canary) -> Finding {
    let slots: Vec<Slot> = bytes.as_chunks::<8>().0.iter().map(|chunk| Slot::from_bytes(*chunk)).collect();
    let insn = match decode(&slots) {
        Ok(insn) => insn,
        Err(error) => return Finding::NotApplicable(error.to_string()),
    };
    let encoded = encoded(&insn, canary);
    if encoded[..] != slots[..encoded.len()] {
        return Finding::Broken(format!("{insn}: {slots:02x?} became {encoded:02x?}"));
    }
    match parse(&insn.to_string()) {
        Ok(again) if again == insn => Finding::Held,
        Ok(again) => Finding::Broken(format!("`{insn}` parses as `{again}`")),
        Err(error) => Finding::Broken(format!("`{insn}` does not parse: {error}")),
    }
}

fn encoded(insn: &Insn, canary: Canary) -> Vec<Slot> {
    let (mut first, second) = encode(insn);
    if canary.is_present() && matches!(insn, Insn::Branch { offset, .. } if *offset < 0) {
        first.offset = 0;
    }
    std::iter::once(first).chain(second).collect()
}

/// Whether a text, if it parses as an object, survives printing; hostile text must not panic.
pub fn text(text: &str) -> Finding {
    let object = match kiln_program::text::parse(text) {
        Ok(object) => object,
        Err(error) => return Finding::NotApplicable(error.to_string()),
    };
    if kiln_program::validate(&object).is_err() {
        return Finding::NotApplicable("not valid".to_owned());
    }
    let printed = kiln_program::text::print(&object);
    match kiln_program::text::parse(&printed) {
        Ok(again) if again == object => Finding::Held,
        Ok(_) => Finding::Broken(format!("printing and parsing changed the object:\n{printed}")),
        Err(error) => Finding::Broken(format!("what was printed does not parse: {error}\n{printed}")),
    }
}
