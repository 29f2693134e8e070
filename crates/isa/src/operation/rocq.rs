//! The rows as definitions in Rocq, which `proofs/` has theorems about.
//!
//! A row becomes three lists of a condition and a piece of code each, as functions of its operands: the proof
//! sequences, and the native code of each machine. `proofs/Generated.v` holds the text; a test compares it.

use std::fmt::Write as _;

use super::{
    Arch, Condition, Exit, Form, From, Imm, Index, Native, NativeInsn, NativeOperand, OperandKind, Operation, Registry,
    Template, Test,
};
use crate::insn::Width;
use crate::table::JumpOp;

/// `proofs/Generated.v`.
pub fn text(registry: &Registry) -> String {
    let mut text = String::from(
        "(** The rows of the operation table. Written by `BLESS=1 cargo test -p kiln-isa --test rocq`. *)\n\n\
         From Coq Require Import ZArith List.\nFrom Kiln Require Import Bpf.\nFrom Kiln Require X86 A64.\nImport ListNotations.\n\
         Open Scope Z_scope.\n",
    );
    for operation in registry.operations() {
        row(&mut text, operation);
    }
    text
}

fn row(text: &mut String, operation: &Operation) {
    let name = operation.name;
    let parameters: Vec<String> = operation
        .operands
        .iter()
        .map(|operand| match operand.kind {
            OperandKind::Immediate { .. } => format!("({} : Z)", operand.name),
            OperandKind::Comparison => format!("({} : condition)", operand.name),
            _ => format!("({} : reg)", operand.name),
        })
        .collect();
    let parameters = parameters.join(" ");
    let _ = writeln!(text, "\n(** {} *)", operation.doc);
    let ranges = operation.operands.iter().filter_map(|operand| match operand.kind {
        OperandKind::Immediate { min, max } => Some(format!("{min} <= {} <= {max}", operand.name)),
        OperandKind::Comparison => None,
        // A register, a byte of memory and a flag are different places.
        _ => has_other_places(operation).then(|| format!("is_register {}", operand.name)),
    });
    let _ = writeln!(text, "Definition {name}_allowed {parameters} : Prop := {}.", conjunction(ranges.collect()));
    let forms: Vec<String> = operation.forms.iter().map(|form| form_text(operation, form)).collect();
    list(text, &format!("{name}_forms {parameters} : list (Prop * list template)"), &forms);
    for arch in Arch::ALL {
        let own = operation.native.iter().filter(|native| native.arch == arch);
        let ways: Vec<String> = own.map(|native| native_text(operation, native)).collect();
        let (suffix, module) = if arch == Arch::X86_64 { ("x86", "X86") } else { ("a64", "A64") };
        list(text, &format!("{name}_{suffix} {parameters} : list (Prop * list {module}.insn)"), &ways);
    }
}

fn has_other_places(operation: &Operation) -> bool {
    let other = |template: &Template| template.accesses_memory() || matches!(template, Template::Branch { .. });
    operation.forms.iter().any(|form| form.code.iter().any(other))
}

fn list(text: &mut String, head: &str, items: &[String]) {
    let _ = writeln!(text, "Definition {head} :=\n  [ {} ].", items.join(";\n    "));
}

fn conjunction(parts: Vec<String>) -> String {
    if parts.is_empty() { "True".to_owned() } else { parts.join(" /\\ ") }
}

fn name(operation: &Operation, index: Index) -> &'static str {
    operation.operands.get(usize::from(index)).map_or("undefined", |operand| operand.name)
}

fn imm(operation: &Operation, imm: Imm) -> String {
    match imm {
        Imm::Operand(index) => name(operation, index).to_owned(),
        Imm::Complement(of, index) => format!("({of} - {})", name(operation, index)),
        Imm::Sum(more, index) => format!("({} + {more})", name(operation, index)),
        Imm::Constant(value) => format!("({value})"),
        Imm::Least(of) => format!("(least {})", numbers(operation, of)),
    }
}

/// Several immediate operands.
fn numbers(operation: &Operation, of: &[Index]) -> String {
    let names: Vec<&str> = of.iter().map(|index| name(operation, *index)).collect();
    format!("[{}]", names.join("; "))
}

fn comparison(op: JumpOp) -> String {
    format!("Is{op:?}")
}

fn conditions(operation: &Operation, when: &[Condition]) -> String {
    let text = |condition: &Condition| match *condition {
        Condition::Same(left, right) => format!("{} = {}", name(operation, left), name(operation, right)),
        Condition::Differ(left, right) => format!("{} <> {}", name(operation, left), name(operation, right)),
        Condition::Is(index, reg) => format!("{} = Bpf {reg}", name(operation, index)),
        Condition::IsNot(index, reg) => format!("{} <> Bpf {reg}", name(operation, index)),
        Condition::Within(distance, of) => format!("within {distance} {}", numbers(operation, of)),
    };
    conjunction(when.iter().map(text).collect())
}

fn form_text(operation: &Operation, form: &Form) -> String {
    let mut code: Vec<String> = form.code.iter().map(|template| template_text(operation, form, template)).collect();
    match form.code {
        // Branches at the end are one instruction: which of two places control comes to.
        [.., Template::Branch { .. }] => {
            let branches = code.split_off(form.code.len() - form.tail());
            code.push(format!("TLeave [{}]", branches.join(";\n       ")));
        }
        // A branch over the last one is an instruction that runs unless the comparison holds.
        [.., Template::Branch { .. }, _] => {
            let last = code.split_off(code.len() - 1).concat();
            let branch = code.split_off(code.len() - 1).concat();
            code.push(format!("TUnless {branch} ({last})"));
        }
        _ => {}
    }
    format!("({},\n     [{}])", conditions(operation, form.when), code.join(";\n      "))
}

fn widths(widths: &[Width]) -> String {
    widths.iter().map(|width| format!("W{}", width.bits())).collect::<Vec<_>>().join("; ")
}

fn template_text(operation: &Operation, form: &Form, template: &Template) -> String {
    match *template {
        Template::Alu { ops, widths: own, dst, src } => {
            let ops: Vec<String> = ops.iter().map(|op| format!("{op:?}")).collect();
            let src = source_text(operation, src);
            format!("TAlu [{}] [{}] {} {src}", ops.join("; "), widths(own), name(operation, dst))
        }
        Template::Neg { widths: own, dst } => format!("TNeg [{}] {}", widths(own), name(operation, dst)),
        Template::Load { size, dst, base, offset } => {
            format!(
                "TLoad {}%nat {} {} {}",
                size.bytes(),
                name(operation, dst),
                name(operation, base),
                imm(operation, offset)
            )
        }
        Template::Store { size, base, offset, src } => {
            format!(
                "TStore {}%nat {} {} {}",
                size.bytes(),
                name(operation, base),
                imm(operation, offset),
                source_text(operation, src)
            )
        }
        Template::Branch { test, width, dst, src, to } => {
            let test = match test {
                Test::Operand(index) => name(operation, index).to_owned(),
                Test::Opposite(index) => format!("(opposite {})", name(operation, index)),
                Test::Is(op) => comparison(op),
            };
            let (dst, src) = (name(operation, dst), source_text(operation, src));
            let text = format!("{test} W{} {dst} {src}", width.bits());
            match (form.leaves(), to) {
                (false, _) => text,
                (true, Exit::Out) => format!("LeaveIf {text}"),
                (true, Exit::End) => format!("SkipIf {text}"),
            }
        }
        Template::Swap { size, dst } => format!("TSwap {}%nat {}", size.bytes(), name(operation, dst)),
    }
}

fn source_text(operation: &Operation, src: From) -> String {
    match src {
        From::Reg(index) => format!("(Reg {})", name(operation, index)),
        From::Imm(value) => format!("(Imm {})", imm(operation, value)),
    }
}

fn native_text(operation: &Operation, native: &Native) -> String {
    let code: Vec<String> = native.code.iter().map(|insn| insn_text(operation, native.arch, insn)).collect();
    format!("({}, [{}])", conditions(operation, native.when), code.join("; "))
}

/// `rorx32 d, s, 32-k` as `X86.Rorx W32 d s (32 - k)`.
fn insn_text(operation: &Operation, arch: Arch, insn: &NativeInsn) -> String {
    let module = if arch == Arch::X86_64 { "X86" } else { "A64" };
    let width = if insn.name.contains("64") { "W64" } else { "W32" };
    let mut constructor = insn.name.replace("32", "").replace("64", "");
    if let Some(first) = constructor.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let operands = insn.operands.iter().map(|operand| match *operand {
        NativeOperand::Reg(index) => name(operation, index).to_owned(),
        NativeOperand::Scratch(number) => format!("(Scratch {number})"),
        NativeOperand::Bpf(number) => format!("(Bpf {number})"),
        NativeOperand::Imm(value) => imm(operation, value),
        NativeOperand::Comparison(index) => name(operation, index).to_owned(),
        NativeOperand::Is(op) => comparison(op),
        NativeOperand::Set(of) => format!("(set_of {})", numbers(operation, of)),
        NativeOperand::Memory(base, offset) => format!("{} {}", name(operation, base), imm(operation, offset)),
    });
    format!("{module}.{constructor} {width} {}", operands.collect::<Vec<_>>().join(" "))
}
