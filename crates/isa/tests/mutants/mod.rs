//! Mutants of rows: each is a row with one thing changed, and so another statement.

use kiln_isa::operation::{
    Condition, Exit, Form, From, Imm, Index, Native, NativeInsn, NativeOperand, OperandKind, Operation, Template, Test,
};
use kiln_isa::{AluOp, JumpOp, Width};

/// A row with one change.
pub struct Mutant {
    /// What is changed: the kind of change.
    pub kind: &'static str,
    /// The row, the place and the change, in one line.
    pub name: String,
    /// The changed row.
    pub row: Operation,
}

/// All mutants of a row.
pub fn of(row: &Operation) -> Vec<Mutant> {
    let mut all = Vec::new();
    sequences(row, &mut all);
    native_code(row, &mut all);
    operands(row, &mut all);
    all
}

/// Machine instructions that have one width, whatever their names end in.
const ONE_WIDTH: [&str; 17] = [
    "movzxw32",
    "rolw32",
    "zero32",
    "setcc32",
    "jcc64",
    "xorps32",
    "movups32",
    "prefetch64",
    "lfence64",
    "ldrh32",
    "strh32",
    "cset64",
    "bcond64",
    "reverse16",
    "prfm64",
    "dsbisb64",
    "movbestorew32",
];

fn leaked<T>(items: Vec<T>) -> &'static [T] {
    items.leak()
}

fn replaced<T: Copy>(items: &[T], at: usize, by: Option<T>) -> &'static [T] {
    let mut items = items.to_vec();
    match by {
        Some(item) => items[at] = item,
        None => drop(items.remove(at)),
    }
    leaked(items)
}

/// The register operand after this one, counted round.
fn next(row: &Operation, index: Index) -> Index {
    let is_register = |kind| matches!(kind, OperandKind::Result | OperandKind::Source | OperandKind::Temporary);
    let count = row.operands.len() as u8;
    let after = (1..=count).map(|step| (index + step) % count);
    after.into_iter().find(|index| is_register(row.operands[usize::from(*index)].kind)).unwrap_or(index)
}

fn more(imm: Imm) -> Imm {
    match imm {
        Imm::Operand(index) => Imm::Sum(1, index),
        Imm::Complement(of, index) => Imm::Complement(of - 1, index),
        Imm::Sum(of, index) => Imm::Sum(of + 1, index),
        Imm::Constant(value) => Imm::Constant(value + 1),
        Imm::Least(of) => Imm::Least(&of[1..]),
    }
}

const fn other_width(width: Width) -> Width {
    match width {
        Width::W32 => Width::W64,
        Width::W64 => Width::W32,
    }
}

const fn other_op(op: AluOp) -> AluOp {
    match op {
        AluOp::Add => AluOp::Sub,
        AluOp::Lsh => AluOp::Rsh,
        AluOp::Rsh => AluOp::Lsh,
        AluOp::Arsh => AluOp::Rsh,
        AluOp::And => AluOp::Or,
        AluOp::Or | AluOp::Xor => AluOp::And,
        _ => AluOp::Add,
    }
}

fn opposite(op: JumpOp) -> JumpOp {
    op.row().negated.unwrap_or(JumpOp::Eq)
}

fn other_source(row: &Operation, src: From) -> (&'static str, From) {
    match src {
        From::Reg(index) => ("operand", From::Reg(next(row, index))),
        From::Imm(imm) => ("immediate", From::Imm(more(imm))),
    }
}

/// What an instruction of a proof sequence can be changed to.
fn changed_template(row: &Operation, template: Template) -> Vec<(&'static str, Template)> {
    match template {
        Template::Alu { ops, widths, dst, src } => {
            let mut own = ops.to_vec();
            own.push(other_op(ops[0]));
            let (kind, other) = other_source(row, src);
            let mut all = vec![
                ("operation", Template::Alu { ops: leaked(own), widths, dst, src }),
                ("operand", Template::Alu { ops, widths, dst: next(row, dst), src }),
                (kind, Template::Alu { ops, widths, dst, src: other }),
            ];
            if let [width] = widths {
                all.push(("width", Template::Alu { ops, widths: leaked(vec![other_width(*width)]), dst, src }));
            }
            all
        }
        Template::Neg { widths, dst } => vec![("operand", Template::Neg { widths, dst: next(row, dst) })],
        Template::Load { size, dst, base, offset } => vec![
            ("operand", Template::Load { size, dst: next(row, dst), base, offset }),
            ("operand", Template::Load { size, dst, base: next(row, base), offset }),
            ("immediate", Template::Load { size, dst, base, offset: more(offset) }),
        ],
        Template::Store { size, base, offset, src } => {
            let (kind, other) = other_source(row, src);
            vec![
                ("operand", Template::Store { size, base: next(row, base), offset, src }),
                (kind, Template::Store { size, base, offset, src: other }),
                ("immediate", Template::Store { size, base, offset: more(offset), src }),
            ]
        }
        Template::Swap { size, dst } => vec![("operand", Template::Swap { size, dst: next(row, dst) })],
        Template::Branch { test, width, dst, src, to } => {
            let other = match test {
                Test::Operand(index) => Test::Opposite(index),
                Test::Opposite(index) => Test::Operand(index),
                Test::Is(op) => Test::Is(opposite(op)),
            };
            let (kind, other_src) = other_source(row, src);
            let mut all = vec![
                ("comparison", Template::Branch { test: other, width, dst, src, to }),
                ("width", Template::Branch { test, width: other_width(width), dst, src, to }),
                (kind, Template::Branch { test, width, dst, src: other_src, to }),
            ];
            if to == Exit::Out {
                all.push(("exit", Template::Branch { test, width, dst, src, to: Exit::End }));
            }
            all
        }
    }
}

fn sequences(row: &Operation, all: &mut Vec<Mutant>) {
    for (at, form) in row.forms.iter().enumerate() {
        let mut push = |kind: &'static str, place: String, form: Form| {
            let name = format!("{}: sequence {at}, {place}", row.name);
            all.push(Mutant { kind, name, row: Operation { forms: replaced(row.forms, at, Some(form)), ..*row } });
        };
        for index in 0..form.when.len() {
            let when = replaced(form.when, index, None);
            push("condition dropped", format!("without condition {index}"), Form { when, ..*form });
        }
        for (index, template) in form.code.iter().enumerate() {
            if form.code.len() > 1 {
                let code = replaced(form.code, index, None);
                push("instruction dropped", format!("without instruction {index}"), Form { code, ..*form });
            }
            // Where a row has one register, the next one is the same.
            let changed = changed_template(row, *template).into_iter().filter(|(_, other)| other != template);
            for (kind, other) in changed {
                let code = replaced(form.code, index, Some(other));
                push(kind, format!("other {kind} in instruction {index}: {other:?}"), Form { code, ..*form });
            }
        }
    }
}

/// What a machine instruction can be changed to.
fn changed_insn(row: &Operation, insn: NativeInsn) -> Vec<(&'static str, NativeInsn)> {
    let mut all = Vec::new();
    if !ONE_WIDTH.contains(&insn.name) {
        let name = if insn.name.contains("64") { insn.name.replace("64", "32") } else { insn.name.replace("32", "64") };
        all.push(("native width", NativeInsn { name: name.leak(), ..insn }));
    }
    for (at, operand) in insn.operands.iter().enumerate() {
        let (kind, other) = match *operand {
            NativeOperand::Reg(index) => ("native operand", NativeOperand::Reg(next(row, index))),
            NativeOperand::Scratch(number) => ("native operand", NativeOperand::Scratch(1 - number)),
            NativeOperand::Bpf(number) => ("native operand", NativeOperand::Bpf(number + 1)),
            NativeOperand::Imm(imm) => ("native immediate", NativeOperand::Imm(more(imm))),
            NativeOperand::Memory(base, offset) => ("native immediate", NativeOperand::Memory(base, more(offset))),
            NativeOperand::Comparison(_) => ("native comparison", NativeOperand::Is(JumpOp::Eq)),
            NativeOperand::Is(op) => ("native comparison", NativeOperand::Is(opposite(op))),
            NativeOperand::Set(of) => ("native immediate", NativeOperand::Set(&of[1..])),
        };
        if other != *operand {
            all.push((kind, NativeInsn { operands: replaced(insn.operands, at, Some(other)), ..insn }));
        }
    }
    all
}

fn native_code(row: &Operation, all: &mut Vec<Mutant>) {
    for (at, native) in row.native.iter().enumerate() {
        let mut push = |kind: &'static str, place: String, native: Native| {
            let name = format!("{}: native code {at} ({}), {place}", row.name, native.arch.name());
            all.push(Mutant { kind, name, row: Operation { native: replaced(row.native, at, Some(native)), ..*row } });
        };
        for index in 0..native.when.len() {
            let when = replaced(native.when, index, None);
            push("native condition dropped", format!("without condition {index}"), Native { when, ..*native });
        }
        for (index, condition) in native.when.iter().enumerate() {
            if let Condition::Within(distance, of) = *condition {
                let when = replaced(native.when, index, Some(Condition::Within(distance + 1, of)));
                push("native condition widened", format!("wider condition {index}"), Native { when, ..*native });
            }
        }
        for (index, insn) in native.code.iter().enumerate() {
            if native.code.len() > 1 {
                let code = replaced(native.code, index, None);
                push("native instruction dropped", format!("without instruction {index}"), Native { code, ..*native });
            }
            for (kind, other) in changed_insn(row, *insn) {
                let code = replaced(native.code, index, Some(other));
                push(kind, format!("other {kind} in instruction {index}: {other:?}"), Native { code, ..*native });
            }
        }
        for (index, operand) in row.operands.iter().enumerate() {
            if matches!(operand.kind, OperandKind::Source | OperandKind::Temporary) {
                let operands = leaked(vec![NativeOperand::Reg(index as u8), NativeOperand::Scratch(0)]);
                let mut code = native.code.to_vec();
                code.push(NativeInsn { name: "mov64", operands });
                push("clobber", format!("overwrites {}", operand.name), Native { code: leaked(code), ..*native });
            }
        }
    }
}

fn operands(row: &Operation, all: &mut Vec<Mutant>) {
    for (at, operand) in row.operands.iter().enumerate() {
        let (kind, place, other) = match operand.kind {
            OperandKind::Temporary => ("temporary", "is no temporary", OperandKind::Source),
            // The limits of an offset are those of BPF's encoding.
            OperandKind::Immediate { min, max } if min > i32::from(i16::MIN) && max < i32::from(i16::MAX) => {
                ("range", "has a wider range", OperandKind::Immediate { min: min - 1, max: max + 1 })
            }
            _ => continue,
        };
        let operands = replaced(row.operands, at, Some(kiln_isa::operation::Operand { kind: other, ..*operand }));
        let name = format!("{}: {} {place}", row.name, operand.name);
        all.push(Mutant { kind, name, row: Operation { operands, ..*row } });
    }
}
