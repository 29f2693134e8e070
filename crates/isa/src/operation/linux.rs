//! Rows of the table as C data for a Linux module, `kernel/modules/operation.h` says what it means.
//!
//! A row is in the module if its proof sequences are arithmetic on registers and its native code needs neither memory
//! nor branches: the kernel's check of a record allows no more yet. A *variant* chooses among the instructions that a
//! template stands for: it is a number whose digits, from the first template on, are the choices.
//!
//! ```text
//!   t = s (2 widths) ; t >>= 32-k ; d <<= k ; d |= t (3 operations)        variant 2 * join + copy
//! ```

use std::fmt::Write;

use super::row::{Arch, Condition, Feature, Form, From, Imm, Native, NativeOperand, OperandKind, Operation, Template};
use super::table::OPERATIONS;
use crate::insn::Width;

/// The rows that the module has.
pub fn operations() -> impl Iterator<Item = &'static Operation> {
    OPERATIONS.iter().copied().filter(|operation| is_arithmetic(operation))
}

fn is_arithmetic(operation: &Operation) -> bool {
    let operand = |operand: &NativeOperand| match operand {
        NativeOperand::Reg(_) | NativeOperand::Scratch(_) | NativeOperand::Bpf(_) => true,
        NativeOperand::Imm(imm) => !matches!(imm, Imm::Least(_)),
        _ => false,
    };
    let template = |template: &Template| matches!(template, Template::Alu { .. } | Template::Neg { .. });
    operation.operands.iter().any(|operand| operand.kind == OperandKind::Result)
        && operation.operands.iter().all(|operand| operand.kind != OperandKind::Comparison)
        && operation.forms.iter().all(|form| form.code.iter().all(template))
        && operation.native.iter().flat_map(|native| native.code).all(|insn| insn.operands.iter().all(operand))
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

fn row(operation: &Operation) -> String {
    let operands = list(operation.operands, |operand| match operand.kind {
        OperandKind::Immediate { min, max } => format!("{{ KILN_IMMEDIATE, {min}, {max} }}"),
        OperandKind::Result => "{ KILN_RESULT }".to_owned(),
        OperandKind::Source => "{ KILN_SOURCE }".to_owned(),
        OperandKind::Temporary | OperandKind::Comparison => "{ KILN_TEMPORARY }".to_owned(),
    });
    format!(
        "\t{{\n\t\t.name = \"{}\",\n\t\t.operands = (const struct kiln_operand[]){operands},\n\
         \t\t.forms = (const struct kiln_form[]){},\n\t\t.native = (const struct kiln_native[]){},\n\
         \t\t.operand_count = {},\n\t\t.form_count = {},\n\t\t.native_count = {},\n\t}},\n",
        operation.name,
        list(operation.forms, form),
        list(operation.native, native),
        operation.operands.len(),
        operation.forms.len(),
        operation.native.len(),
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
        Condition::Within(..) => unreachable!("rows with arithmetic alone have no set"),
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
    let (dst, src) = match *template {
        Template::Alu { dst, src, .. } => (dst, src),
        Template::Neg { dst, .. } => (dst, From::Imm(Imm::Constant(0))),
        _ => unreachable!("rows with arithmetic alone"),
    };
    let src = match src {
        From::Reg(index) => format!("{index}, {{ 0 }}"),
        From::Imm(value) => format!("0, {}", imm(value)),
    };
    format!("{{ {}, {{ {} }}, {dst}, {src} }}", codes.len(), codes.join(", "))
}

/// The opcode byte of a template's first choice.
fn opcode(template: &Template) -> u8 {
    let class = |width: Option<&Width>| if width == Some(&Width::W64) { 0x07 } else { 0x04 };
    match *template {
        Template::Alu { ops, widths, src, .. } => {
            let source = if matches!(src, From::Reg(_)) { 0x08 } else { 0 };
            ops.first().map_or(0, |op| op.row().code << 4) | source | class(widths.first())
        }
        Template::Neg { widths, .. } => 0x80 | class(widths.first()),
        _ => unreachable!("rows with arithmetic alone"),
    }
}

fn imm(imm: Imm) -> String {
    match imm {
        Imm::Operand(index) => format!("{{ KILN_OPERAND, {index}, 0 }}"),
        Imm::Complement(of, index) => format!("{{ KILN_COMPLEMENT, {index}, {of} }}"),
        Imm::Sum(more, index) => format!("{{ KILN_SUM, {index}, {more} }}"),
        Imm::Constant(value) => format!("{{ KILN_CONSTANT, 0, {value} }}"),
        Imm::Least(_) => unreachable!("rows with arithmetic alone have no set"),
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
        _ => unreachable!("rows with arithmetic alone"),
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
