//! Tier "decodable": valid instructions in any order.

use kiln_isa::encoding::{decode_all, encode_all};
use kiln_program::text::parse;
use kiln_program::validate;

use super::target::{Depth, ensure};
use crate::choices::Choices;
use crate::program::wild;
use crate::subject::{Subject, Verdict};

pub fn program(subject: &Subject, bytes: &[u8]) -> Result<Depth, String> {
    let object = wild(&mut Choices::new(bytes));
    validate(&object).map_err(|error| format!("the generator made an invalid object: {error}"))?;
    let printed = (subject.print)(&object);
    let again = parse(&printed).map_err(|error| format!("printed text does not parse: {error}\n{printed}"))?;
    ensure(again == object, || format!("printing and parsing changed the object:\n{printed}"))?;
    for function in &object.functions {
        let Ok(image) = (subject.lower)(function) else { continue };
        let insns = decode_all(&image.slots).map_err(|(slot, error)| format!("lowered slot: {slot}: {error}"))?;
        ensure(insns.len() == function.nodes.len(), || "lowering lost an instruction".to_owned())?;
        ensure(encode_all(insns.iter().map(|(_, insn)| insn)) == image.slots, || "encoding differs".to_owned())?;
        for (node, (slot, insn)) in function.nodes.iter().zip(&insns) {
            let same = kiln_program::lower::without_encoded_reference(*insn)
                == kiln_program::lower::without_encoded_reference(node.insn);
            ensure(same && (node.reference != kiln_program::Reference::None || *insn == node.insn), || {
                format!("lowering changed an instruction: slot {slot}: {} became {insn}", node.insn)
            })?;
        }
    }
    match (subject.verify)(&object, &object.programs[0]) {
        Verdict::Accepted(_) => Ok(Depth::Deep),
        Verdict::Refused(reason) | Verdict::Unanswered(reason) => {
            ensure(!reason.is_empty(), || "a refusal without a reason".to_owned())?;
            Ok(Depth::Deep)
        }
    }
}
