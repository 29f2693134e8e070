//! What to try: rules propose, [`crate::windows::region`] proves.
//!
//! A rule looks at one instruction of a run, its facts and where its operands come from ([`Trace`]), and proposes whole
//! new runs. It need not be right: a proposal that is not proved equal is dropped. So a rule has only those side
//! conditions that save questions. Dead instructions are removed before a proposal is weighed, so a rule only has to
//! redirect readers.
//!
//! Rules that need only their own few instructions are data ([`crate::rules::data`]). They are tried first.
//!
//! To add a rule: write its function, give it a row in [`RULES`], and a positive and a trap example in
//! `tests/rules.rs`.

mod bits;
mod branches;
mod copies;
mod exchange;
mod memory;
mod operands;

pub(crate) use copies::{reading, writing};
pub(crate) use memory::with_address;
pub(crate) use operands::{constant, one_slot_move};

use kiln_program::Node;

use crate::windows::region::Region;
use crate::windows::trace::Trace;

/// A rule.
pub struct Rule {
    /// Its name in evidence.
    pub name: &'static str,
    /// What it is used for, and what it proposes.
    pub example: &'static str,
    /// What it does, in one sentence.
    pub doc: &'static str,
    /// Whether what it proposes relies on instructions before those it changes.
    pub contextual: bool,
    /// Proposes new runs for the instruction at a position.
    pub propose: fn(&Region<'_>, &Trace, usize) -> Vec<Vec<Node>>,
}

/// All rules, in the order they are tried at each instruction.
pub const RULES: &[Rule] = &[
    Rule {
        name: "no-effect",
        example: "r1 &= 0xff of a loaded byte  -->  nothing",
        doc: "An instruction that does not change its register is removed.",
        contextual: false,
        propose: bits::no_effect,
    },
    Rule {
        name: "known-result",
        example: "r1 &= 1 where the facts leave one value  -->  r1 = 0",
        doc: "A result with only one possible value becomes that constant.",
        contextual: true,
        propose: operands::known_result,
    },
    Rule {
        name: "immediate-operand",
        example: "r1 = 7; *(u32 *)(r10 - 4) = r1  -->  *(u32 *)(r10 - 4) = 7",
        doc: "An operand with only one possible value becomes an immediate.",
        contextual: true,
        propose: operands::immediate_operand,
    },
    Rule {
        name: "one-load",
        example: "two byte loads, shift and or  -->  one wider load, and a byte swap if necessary",
        doc: "A value combined from loaded bytes is loaded at once.",
        contextual: true,
        propose: memory::one_load,
    },
    Rule {
        name: "one-store",
        example: "adjacent stores  -->  one wider store",
        doc: "Adjacent stores become one wider store.",
        contextual: true,
        propose: memory::one_store,
    },
    Rule {
        name: "two-stores",
        example: "r1 = 0x123456789 ll; *(u64 *)(r10 - 8) = r1  -->  two stores of 32 bits",
        doc: "A store of a two-slot constant becomes two stores of its halves.",
        contextual: true,
        propose: memory::two_stores,
    },
    Rule {
        name: "value-at-hand",
        example: "a load of what a register holds  -->  that register",
        doc: "Redundant load elimination: a load of a value that a register still holds becomes a move.",
        contextual: true,
        propose: memory::value_at_hand,
    },
    Rule {
        name: "folded-offset",
        example: "r1 += 14; *(u8 *)(r1 + 0)  -->  *(u8 *)(r1 + 14)",
        doc: "A constant added to an address becomes part of the accesses' offsets.",
        contextual: false,
        propose: memory::folded_offset,
    },
    Rule {
        name: "direct-address",
        example: "r2 = r10; r2 += -8; *(u64 *)(r2 + 0)  -->  *(u64 *)(r10 - 8)",
        doc: "An access through a derived pointer uses the pointer that it was derived from.",
        contextual: true,
        propose: memory::direct_address,
    },
    Rule {
        name: "copied-operand",
        example: "r2 = r1; ... r2 ...  -->  ... r1 ...",
        doc: "Copy propagation: readers of a copy read the original.",
        contextual: true,
        propose: copies::copied_operand,
    },
    Rule {
        name: "same-value",
        example: "r3 = r6; r3 += 14 where r2 holds that  -->  r3 = r2",
        doc: "A computation of a value that another register holds becomes a copy of that register.",
        contextual: true,
        propose: copies::same_value,
    },
    Rule {
        name: "relocated-operand",
        example: "r1 = FIELD; r2 += r1 where the loader writes FIELD  -->  r2 += FIELD",
        doc: "A constant that the loader writes becomes the immediate of the operation that uses it.",
        contextual: true,
        propose: operands::relocated_operand,
    },
    Rule {
        name: "section-place",
        example: "r1 = map_value[.bss] + 0; r1 += 8  -->  r1 = map_value[.bss] + 8",
        doc: "A constant added to the address of a data section becomes part of the address.",
        contextual: false,
        propose: operands::section_place,
    },
    Rule {
        name: "type-number",
        example: "r1 = 17 ll where that is the number of a type  -->  r1 = 17",
        doc: "A type id of the object fits a move of one slot.",
        contextual: false,
        propose: operands::type_number,
    },
    Rule {
        name: "copied-block",
        example: "copies of two bytes each, from and to memory  -->  copies of four and eight",
        doc: "Bytes copied from memory to memory are copied in wider pieces.",
        contextual: true,
        propose: memory::copied_block,
    },
    Rule {
        name: "exchanged-fields",
        example: "bytes copied in another order, such as two addresses exchanged  -->  wider accesses, with shifts",
        doc: "Bytes copied in another order are copied in wider pieces, with shifts.",
        contextual: true,
        propose: exchange::exchanged_fields,
    },
    Rule {
        name: "repeated-copy",
        example: "r6 = r1; ...; r1 = r6  -->  r6 = r1; ...",
        doc: "A copy of a value that the register still holds is removed.",
        contextual: true,
        propose: copies::repeated_copy,
    },
    Rule {
        name: "compared-constant",
        example: "r1 = 5; if r2 == r1  -->  if r2 == 5",
        doc: "A comparison with a register that has only one possible value becomes one with that constant.",
        contextual: true,
        propose: branches::compared_constant,
    },
    Rule {
        name: "compared-directly",
        example: "r1 = r2; r1 += -7; if r1 == 0  -->  if r2 == 7",
        doc: "An addition or a mask before a comparison with a constant becomes part of the comparison.",
        contextual: true,
        propose: branches::compared_directly,
    },
    Rule {
        name: "compared-half",
        example: "r1 = r2; r1 <<= 32; r1 s>>= 32; if r1 s< 0  -->  if w2 s< 0",
        doc: "A comparison of a sign-extended lower half with a constant becomes a 32-bit comparison.",
        contextual: true,
        propose: branches::compared_half,
    },
    Rule {
        name: "narrow-comparison",
        example: "w1 = w1; if r1 == 0  -->  if w1 == 0",
        doc: "A comparison of registers whose upper halves are zero becomes one of the lower halves.",
        contextual: true,
        propose: branches::narrow_comparison,
    },
    Rule {
        name: "final-register",
        example: "r2 = ...; r1 = r2  -->  r1 = ...",
        doc: "A value that is finally moved to another register is computed there.",
        contextual: false,
        propose: copies::final_register,
    },
];
