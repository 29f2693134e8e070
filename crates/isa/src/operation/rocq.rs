//! The rows as definitions in Rocq, which `proofs/` has theorems about.
//!
//! A row becomes three lists of a condition and a piece of code each, as functions of its operands: the proof
//! sequences, and the native code of each machine. For each machine that it has native code for, it becomes a statement
//! as well: that the two agree. `proofs/Generated.v` has the definitions, `proofs/Required.v` asks for a proof of each
//! statement, by the name of the row and the machine; a test compares both files.

use std::fmt::Write as _;

use super::{
    Arch, Condition, Exit, Form, From, Imm, Index, Native, NativeInsn, NativeOperand, Operand, OperandKind, Operation,
    Registry, Template, Test,
};
use crate::insn::Width;
use crate::table::JumpOp;

/// The rows of the registry and their statements: `proofs/Generated.v`.
pub fn definitions(registry: &Registry) -> String {
    let mut text = String::from(
        "(** The rows of the operation table. Written by `BLESS=1 cargo test -p kiln-isa --test rocq`. *)\n\n\
         From Coq Require Import ZArith List.\nFrom Kiln Require Import Bpf Agreement.\nFrom Kiln Require X86 A64.\nImport ListNotations.\n\
         Open Scope Z_scope.\n",
    );
    for operation in registry.operations() {
        text.push_str(&row(operation));
    }
    text
}

/// What must be proved, one theorem for each row and machine: `proofs/Required.v`.
pub fn required(registry: &Registry) -> String {
    let mut text = String::from(
        "(** The proof of each row's statement, and what the proofs rest on; `proofs/check` compares what this prints with\n    \
         `assumptions.txt`. Written by `BLESS=1 cargo test -p kiln-isa --test rocq`. *)\n\n\
         From Kiln Require Import Generated Rotate RotateRegister Arithmetic Memory Flag Select Chain BitTest Hint Pair.\n\n",
    );
    let names = registry.operations().flat_map(statements);
    let typed: Vec<String> = names.map(|name| format!("  ({name}_agrees : Generated.{name}_statement)")).collect();
    let _ = writeln!(text, "Definition theorems := (\n{}\n).\n\nPrint Assumptions theorems.", typed.join(",\n"));
    text
}

/// The names of the theorems about one of Kiln's own rows: one for each machine that it has native code for.
pub fn theorems(operation: &Operation) -> impl Iterator<Item = String> + use<> {
    statements(operation).map(|name| format!("{name}_agrees"))
}

/// The names of a row's statements, without what they end in.
fn statements(operation: &Operation) -> impl Iterator<Item = String> + use<> {
    let (name, own) = (operation.name, Arch::ALL.map(|arch| (arch, operation.is_native_on(arch))));
    own.into_iter().filter(|(_, is_native)| *is_native).map(move |(arch, _)| format!("{name}_{}", suffix(arch)))
}

/// What the names of a machine's definitions end in.
const fn suffix(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "x86",
        Arch::Aarch64 => "a64",
    }
}

const fn module(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "X86",
        Arch::Aarch64 => "A64",
    }
}

/// A row's definitions and statements.
pub fn row(operation: &Operation) -> String {
    let mut text = String::new();
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
    list(&mut text, &format!("{name}_forms {parameters} : list (Prop * list template)"), &forms);
    for arch in Arch::ALL {
        let own = operation.native.iter().filter(|native| native.arch == arch);
        let ways: Vec<String> = own.map(|native| native_text(operation, native)).collect();
        let head = format!("{name}_{} {parameters} : list (Prop * list {}.insn)", suffix(arch), module(arch));
        list(&mut text, &head, &ways);
        if operation.is_native_on(arch) {
            statement(&mut text, operation, arch);
        }
    }
    text
}

/// That the proof sequences and the native code of a machine agree, whatever BPF registers the operands are.
fn statement(text: &mut String, operation: &Operation, arch: Arch) {
    let (name, suffix) = (operation.name, suffix(arch));
    let kind = |operand: &Operand| match operand.kind {
        OperandKind::Comparison => format!("({} : condition)", operand.name),
        _ => format!("({} : Z)", operand.name),
    };
    let given = |operand: &Operand| match operand.kind {
        OperandKind::Immediate { .. } | OperandKind::Comparison => operand.name.to_owned(),
        _ => format!("(Bpf {})", operand.name),
    };
    let listed = |kind: OperandKind| {
        let own = operation.operands.iter().filter(|operand| operand.kind == kind);
        own.map(|operand| format!("Bpf {}", operand.name)).collect::<Vec<_>>().join("; ")
    };
    let all = |of: &dyn Fn(&Operand) -> String| operation.operands.iter().map(of).collect::<Vec<_>>().join(" ");
    let (parameters, given) = (all(&kind), all(&given));
    let (results, temporaries) = (listed(OperandKind::Result), listed(OperandKind::Temporary));
    let (state, regs, after, order) = match arch {
        Arch::X86_64 => ("X86.state", "(X86.gprs st)", "(X86.gprs (X86.run native st))", "same_in_order"),
        Arch::Aarch64 => ("regs", "st", "(A64.run native st)", "same_in_any_order"),
    };
    let _ = writeln!(
        text,
        "Definition {name}_{suffix}_statement : Prop :=\n  \
         forall {parameters} cond form code cond' native (st : {state}), well_formed {regs} ->\n  \
         {name}_allowed {given} ->\n  \
         In (cond, form) ({name}_forms {given}) -> cond -> instances form code ->\n  \
         In (cond', native) ({name}_{suffix} {given}) -> cond' ->\n  \
         agrees [{results}] [{temporaries}] {regs} (run code {regs}) {after} /\\\n  \
         {order} (trace code {regs}) ({}.trace native st).",
        module(arch)
    );
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
    let module = module(arch);
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
