//! Rows of the table as C data for a Linux module, `kernel/modules/operation.h` says what it means.
//!
//! A row is in the module if no branch of its proof sequences leaves the region: only the JIT knows where such a branch
//! leads. Native code with vector registers is left out, because the kernel does not save them. A *variant* chooses among
//! the instructions that a template stands for. It is a number; its digits, from the first template on, are the choices.
//!
//! ```text
//!   t = s (2 widths) ; t >>= 32-k ; d <<= k ; d |= t (3 operations)        variant 2 * join + copy
//! ```

use std::fmt::Write;
use std::sync::LazyLock;

use super::pattern::{Binding, Operands};
use super::row::{
    Arch, Condition, Feature, Form, From, Imm, Native, NativeOperand, OperandKind, Operation, Template, Test,
};
use super::table::OPERATIONS;
use super::{MAX_OPERANDS, Registry};
use crate::encoding::encode;
use crate::insn::Insn;
use crate::table::JumpOp;

/// The rows that the module has.
pub fn operations() -> impl Iterator<Item = &'static Operation> {
    OPERATIONS.iter().copied().filter(|operation| {
        let leaves = operation.forms.iter().any(Form::leaves);
        !leaves && !operation.effects.is_empty() && natives(operation).next().is_some()
    })
}

/// Machine instructions of rows that use vector registers.
const VECTOR: [&str; 2] = ["xorps32", "movups32"];

/// The native implementations of a row that the kernel can run.
pub fn natives(operation: &'static Operation) -> impl Iterator<Item = &'static Native> {
    let is_vector = |native: &&Native| native.code.iter().any(|insn| VECTOR.contains(&insn.name));
    operation.native.iter().filter(move |native| !is_vector(native))
}

/// The rows that the module has, for recognition.
pub fn registry() -> Registry {
    static ROWS: LazyLock<Vec<&'static Operation>> = LazyLock::new(|| operations().collect());
    Registry::new(&ROWS)
}

/// Longest name of an operation in a record, in bytes.
const NAME_BYTES: usize = 31;

/// What `BPF_PROG_LOAD` takes for one region: `struct bpf_native_op_rec` without its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The operation's name.
    pub name: &'static str,
    /// Which of its proof sequences.
    pub form: u16,
    /// Which choices of the sequence's templates.
    pub variant: u16,
    /// The operands; those that the operation does not have are 0.
    pub operands: [i32; MAX_OPERANDS],
}

impl Record {
    /// Bytes of a record.
    pub const BYTES: usize = 72;

    /// Returns the record of instructions that are a proof sequence, in its order and with these operands; `None` if they
    /// are not, or if the module does not have the operation.
    pub fn of(name: &str, form: usize, operands: &[i32], insns: &[Insn]) -> Option<Record> {
        let operation = registry().by_name(name)?;
        let sequence = operation.forms.get(form)?;
        let bound = Binding::of(operands).complete(operation, sequence)?;
        // Branches lead to the end.
        let to_end = (0..insns.len()).rev().map(|left| left as i16);
        let choice = |((template, insn), to_end): ((&Template, &Insn), i16)| {
            let is_instance =
                |choice: &usize| instance(&bound, &template.choice(*choice), to_end).as_ref() == Some(insn);
            (0..template.choices()).find(is_instance)
        };
        let choices: Option<Vec<usize>> = sequence.code.iter().zip(insns).zip(to_end).map(choice).collect();
        let variant = variant(sequence, &choices.filter(|_| insns.len() == sequence.code.len())?)?;
        let name = Some(operation.name).filter(|name| name.len() <= NAME_BYTES)?;
        Some(Record { name, form: u16::try_from(form).ok()?, variant, operands: *bound.values() })
    }

    /// The bytes of `struct bpf_native_op_rec` for a region that begins at a slot of the program.
    pub fn to_bytes(&self, slot: u32) -> [u8; Record::BYTES] {
        let mut bytes = [0; Record::BYTES];
        bytes[..4].copy_from_slice(&slot.to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.form.to_ne_bytes());
        bytes[6..8].copy_from_slice(&self.variant.to_ne_bytes());
        bytes[8..8 + self.name.len()].copy_from_slice(self.name.as_bytes());
        for (place, operand) in bytes[40..].chunks_exact_mut(4).zip(self.operands) {
            place.copy_from_slice(&operand.to_ne_bytes());
        }
        bytes
    }
}

/// The instruction of a template, with so many instructions after it.
fn instance(operands: &Operands, template: &Template, to_end: i16) -> Option<Insn> {
    Some(match operands.instance(template)? {
        Insn::Branch { op, width, dst, src, .. } => Insn::Branch { op, width, dst, src, offset: to_end },
        insn => insn,
    })
}

/// The variant with these choices, one per template; `None` if it is too large for a record.
pub fn variant(form: &Form, choices: &[usize]) -> Option<u16> {
    let digits = form.code.iter().zip(choices).rev();
    let number = digits.fold(0, |number: usize, (template, choice)| number * template.choices() + choice);
    u16::try_from(number).ok()
}

/// The header `operations.h`.
pub fn header() -> String {
    let mut text = "/* SPDX-License-Identifier: GPL-2.0 */\n/* Written from Kiln's operation table. */\n\n\
                    static const struct kiln_operation kiln_operations[] = {\n"
        .to_owned();
    for operation in operations() {
        text += &row(operation);
    }
    text + "};\n"
}

fn row(operation: &'static Operation) -> String {
    let operands = list(operation.operands, |operand| match operand.kind {
        OperandKind::Immediate { min, max } => format!("{{ KILN_IMMEDIATE, {min}, {max} }}"),
        OperandKind::Result => "{ KILN_RESULT }".to_owned(),
        OperandKind::Source => "{ KILN_SOURCE }".to_owned(),
        OperandKind::Temporary => "{ KILN_TEMPORARY }".to_owned(),
        OperandKind::Comparison => "{ KILN_COMPARISON }".to_owned(),
    });
    let natives: Vec<Native> = natives(operation).copied().collect();
    format!(
        "\t{{\n\t\t.name = \"{}\",\n\t\t.operands = (const struct kiln_operand[]){operands},\n\
         \t\t.forms = (const struct kiln_form[]){},\n\t\t.native = (const struct kiln_native[]){},\n\
         \t\t.operand_count = {},\n\t\t.form_count = {},\n\t\t.native_count = {},\n\t}},\n",
        operation.name,
        list(operation.forms, form),
        list(&natives, native),
        operation.operands.len(),
        operation.forms.len(),
        natives.len(),
    )
}

/// An initializer: one element per line.
fn list<T>(of: &[T], text: impl Fn(&T) -> String) -> String {
    let mut out = "{\n".to_owned();
    for item in of {
        let _ = writeln!(out, "\t\t\t{},", text(item));
    }
    out + "\t\t}"
}

/// Conditions and their number; no array where there is none.
fn conditions(of: &[Condition]) -> (String, usize) {
    let one = |condition: &Condition| match *condition {
        Condition::Same(left, right) => format!("{{ KILN_SAME, {left}, {right} }}"),
        Condition::Differ(left, right) => format!("{{ KILN_DIFFER, {left}, {right} }}"),
        Condition::Is(index, reg) => format!("{{ KILN_IS, {index}, {reg} }}"),
        Condition::IsNot(index, reg) => format!("{{ KILN_IS_NOT, {index}, {reg} }}"),
        Condition::Within(..) => unreachable!("only rows that leave have a set"),
    };
    match of.len() {
        0 => ("NULL".to_owned(), 0),
        count => (format!("(const struct kiln_condition[]){}", list(of, one)), count),
    }
}

fn form(form: &Form) -> String {
    let (when, count) = conditions(form.when);
    let code = list(form.code, template);
    format!("{{ {when}, (const struct kiln_template[]){code}, {count}, {} }}", form.code.len())
}

fn template(template: &Template) -> String {
    let codes: Vec<String> =
        (0..template.choices()).map(|choice| format!("{:#04x}", opcode(&template.choice(choice)))).collect();
    let register = |index: &u8| format!(".from_reg = true, .src = {index}");
    let from = |src: &From| match src {
        From::Reg(index) => register(index),
        From::Imm(value) => format!(".imm = {}", imm(*value)),
    };
    let rest = match template {
        Template::Alu { dst, src, .. } => format!(".dst = {dst}, {}", from(src)),
        Template::Neg { dst, .. } => format!(".dst = {dst}"),
        Template::Load { size, dst, base, offset } => {
            format!(".dst = {dst}, {}, .off = {}, .bytes = {}", register(base), imm(*offset), size.bytes())
        }
        Template::Store { size, base, offset, src } => {
            format!(".dst = {base}, {}, .off = {}, .bytes = {}", from(src), imm(*offset), size.bytes())
        }
        Template::Swap { size, dst } => format!(".dst = {dst}, .imm = {}", imm(Imm::Constant(size.bits() as i32))),
        Template::Branch { test, dst, src, .. } => {
            let (kind, comparison) = match test {
                Test::Operand(index) => ("KILN_HOLDS", *index),
                Test::Opposite(index) => ("KILN_FAILS", *index),
                Test::Is(op) => ("KILN_FIXED", op.row().code),
            };
            format!(".dst = {dst}, {}, .branch = {kind}, .comparison = {comparison}", from(src))
        }
    };
    format!("{{ .choices = {}, .codes = {{ {} }}, {rest} }}", codes.len(), codes.join(", "))
}

/// The opcode byte of a template's first choice; a branch's without its comparison.
fn opcode(template: &Template) -> u8 {
    const COMPARISON: u8 = 0xf0;
    let no_operands = Operands::default();
    match *template {
        Template::Branch { width, dst, src, to, .. } => {
            let test = Test::Is(JumpOp::Eq);
            let insn = no_operands.instance(&Template::Branch { test, width, dst, src, to });
            insn.map_or(0, |insn| encode(&insn).0.opcode & !COMPARISON)
        }
        _ => no_operands.instance(template).map_or(0, |insn| encode(&insn).0.opcode),
    }
}

fn imm(imm: Imm) -> String {
    match imm {
        Imm::Operand(index) => format!("{{ KILN_OPERAND, {index}, 0 }}"),
        Imm::Complement(of, index) => format!("{{ KILN_COMPLEMENT, {index}, {of} }}"),
        Imm::Sum(more, index) => format!("{{ KILN_SUM, {index}, {more} }}"),
        Imm::Constant(value) => format!("{{ KILN_CONSTANT, 0, {value} }}"),
        Imm::Least(_) => unreachable!("only rows that leave have a set"),
    }
}

fn native(native: &Native) -> String {
    let arch = match native.arch {
        Arch::X86_64 => "KILN_X86_64",
        Arch::Aarch64 => "KILN_AARCH64",
    };
    let needs = native.needs.iter().map(|feature| match feature {
        Feature::Bmi1 => " | KILN_BMI1",
        Feature::Bmi2 => " | KILN_BMI2",
        Feature::Movbe => " | KILN_MOVBE",
    });
    let operand = |operand: &NativeOperand| match *operand {
        NativeOperand::Reg(index) => format!("{{ KILN_REG, {index} }}"),
        NativeOperand::Scratch(number) => format!("{{ KILN_SCRATCH, {number} }}"),
        NativeOperand::Bpf(number) => format!("{{ KILN_BPF, {number} }}"),
        NativeOperand::Imm(value) => format!("{{ KILN_IMM, 0, {} }}", imm(value)),
        NativeOperand::Memory(base, offset) => format!("{{ KILN_MEMORY, {base}, {} }}", imm(offset)),
        NativeOperand::Comparison(index) => format!("{{ KILN_CONDITION, {index} }}"),
        NativeOperand::Is(_) | NativeOperand::Set(_) => unreachable!("only rows that leave have these"),
    };
    let (when, count) = conditions(native.when);
    let code = list(native.code, |insn| {
        let operands: Vec<String> = insn.operands.iter().map(operand).collect();
        let name = insn.name.to_uppercase();
        format!("{{ KILN_{name}, {}, {{ {} }} }}", operands.len(), operands.join(", "))
    });
    let needs: String = needs.collect();
    let length = native.code.len();
    format!("{{ {arch}, 0{needs}, {count}, {length}, {when}, (const struct kiln_native_insn[]){code} }}")
}
