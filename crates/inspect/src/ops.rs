//! `kiln ops`: native operations, and where programs have them.

use kiln_elf::ElfObject;
use kiln_isa::Size;
use kiln_isa::operation::{Arch, Exit, Imm, Native, NativeOperand, Operation, Registry, Template, Test, linux, rocq};
use kiln_program::{Mark, Object};
use serde::Serialize;

use crate::input::Input;
use crate::show::shown::Shown;
use kiln_program::Error;

/// An operation, for listings.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// One sentence.
    pub meaning: &'static str,
    /// Its proof sequences: their names and instructions.
    pub proof_sequences: Vec<Sequence>,
    /// The ways to do it.
    pub native: Vec<Way>,
    /// Where it pays.
    pub pays: &'static str,
    /// The theorems of `proofs/` about it, one for each machine.
    pub proved_by: Vec<String>,
}

/// A proof sequence.
#[derive(Clone, Debug, Serialize)]
pub struct Sequence {
    /// Its name.
    pub name: &'static str,
    /// Its instructions, operands by name.
    pub instructions: Vec<String>,
}

/// A way to do an operation on a machine.
#[derive(Clone, Debug, Serialize)]
pub struct Way {
    /// The machine.
    pub arch: &'static str,
    /// What the processor must have.
    pub needs: Vec<&'static str>,
    /// Its instructions.
    pub instructions: Vec<String>,
}

/// A mark of an object, for listings.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// The function.
    pub function: Shown,
    /// The slot of its last instruction, in the function.
    pub slot: u32,
    /// The operation and its operands.
    pub operation: Shown,
}

/// The rows of the operation table.
pub fn rows() -> Vec<Row> {
    Registry::BUILTIN.operations().map(row).collect()
}

fn row(operation: &Operation) -> Row {
    let sequence = |form: &kiln_isa::operation::Form| Sequence {
        name: form.name,
        instructions: form.code.iter().map(|template| template_text(operation, template)).collect(),
    };
    let way = |native: &Native| Way {
        arch: native.arch.name(),
        needs: native.needs.iter().map(|feature| feature.name()).collect(),
        instructions: native_text(operation, native),
    };
    Row {
        name: operation.name,
        meaning: operation.doc,
        proof_sequences: operation.forms.iter().map(sequence).collect(),
        native: operation.native.iter().map(way).collect(),
        pays: operation.pays,
        proved_by: rocq::theorems(operation).collect(),
    }
}

fn name(operation: &Operation, index: u8) -> &'static str {
    operation.operands.get(usize::from(index)).map_or("?", |operand| operand.name)
}

fn imm_text(operation: &Operation, imm: Imm) -> String {
    match imm {
        Imm::Operand(index) => name(operation, index).to_owned(),
        Imm::Complement(of, index) => format!("{of}-{}", name(operation, index)),
        Imm::Sum(more, index) => format!("{}+{more}", name(operation, index)),
        Imm::Constant(value) => value.to_string(),
        Imm::Least(of) => format!("least({})", numbers(operation, of)),
    }
}

fn numbers(operation: &Operation, of: &[u8]) -> String {
    of.iter().map(|index| name(operation, *index)).collect::<Vec<_>>().join(", ")
}

fn template_text(operation: &Operation, template: &Template) -> String {
    match *template {
        Template::Alu { ops, dst, src, .. } => {
            let symbols: Vec<_> = ops.iter().map(|op| op.row().symbol).collect();
            let src = source_text(operation, src);
            format!("{} {} {src}", name(operation, dst), symbols.join(" or "))
        }
        Template::Neg { dst, .. } => format!("{0} = -{0}", name(operation, dst)),
        Template::Load { size, dst, base, offset } => {
            format!("{} = {}", name(operation, dst), place_text(operation, size, base, offset))
        }
        Template::Store { size, base, offset, src } => {
            format!("{} = {}", place_text(operation, size, base, offset), source_text(operation, src))
        }
        Template::Branch { test, dst, src, to, .. } => {
            let (not, comparison) = match test {
                Test::Operand(index) => ("", name(operation, index)),
                Test::Opposite(index) => ("not ", name(operation, index)),
                Test::Is(op) => ("", op.row().symbol),
            };
            let to = match to {
                Exit::End => "end",
                Exit::Out => "out",
            };
            format!("if {not}{} {comparison} {} goto {to}", name(operation, dst), source_text(operation, src))
        }
        Template::Swap { size, dst } => format!("{0} = be{1} {0}", name(operation, dst), size.bits()),
    }
}

fn source_text(operation: &Operation, src: kiln_isa::operation::From) -> String {
    match src {
        kiln_isa::operation::From::Reg(index) => name(operation, index).to_owned(),
        kiln_isa::operation::From::Imm(imm) => imm_text(operation, imm),
    }
}

fn place_text(operation: &Operation, size: Size, base: u8, offset: Imm) -> String {
    format!("*(u{} *)({} + {})", size.bits(), name(operation, base), imm_text(operation, offset))
}

fn native_text(operation: &Operation, native: &Native) -> Vec<String> {
    let operand = |operand: &NativeOperand| match *operand {
        NativeOperand::Reg(index) => name(operation, index).to_owned(),
        NativeOperand::Scratch(number) => format!("scratch{number}"),
        NativeOperand::Bpf(number) => format!("r{number}"),
        NativeOperand::Imm(imm) => imm_text(operation, imm),
        NativeOperand::Comparison(index) => name(operation, index).to_owned(),
        NativeOperand::Is(op) => op.row().symbol.to_owned(),
        NativeOperand::Set(of) => format!("set({})", numbers(operation, of)),
        NativeOperand::Memory(base, offset) => format!("[{} + {}]", name(operation, base), imm_text(operation, offset)),
    };
    let text = |insn: &kiln_isa::operation::NativeInsn| {
        format!("{} {}", insn.name, insn.operands.iter().map(operand).collect::<Vec<_>>().join(", "))
    };
    native.code.iter().map(text).collect()
}

/// Machines that an operation has native code for.
pub fn machines(row: &Row) -> String {
    let has = |arch: &Arch| row.native.iter().any(|way| way.arch == arch.name());
    Arch::ALL.iter().filter(|arch| has(arch)).map(|arch| arch.name()).collect::<Vec<_>>().join(", ")
}

/// A mark's operation with its operands, such as `rotate_left_64 d=r3 s=r2 t=r4 k=13`.
pub fn mark_text(mark: &Mark) -> String {
    let operation = Registry::BUILTIN.by_name(&mark.operation);
    let value = |(at, value): (usize, &i32)| match operation.and_then(|it| it.operands.get(at)) {
        Some(operand) if matches!(operand.kind, kiln_isa::operation::OperandKind::Immediate { .. }) => {
            format!(" {}={value}", operand.name)
        }
        Some(operand) if operand.kind == kiln_isa::operation::OperandKind::Comparison => {
            let row = kiln_isa::JumpOp::ALL.iter().map(|op| op.row()).find(|row| i32::from(row.code) == *value);
            format!(" {}={}", operand.name, row.map_or("?", |row| row.symbol))
        }
        Some(operand) => format!(" {}=r{value}", operand.name),
        None => format!(" {value}"),
    };
    let operands: String = mark.operands.iter().enumerate().map(value).collect();
    format!("{}{operands}", mark.operation)
}

/// The marks of an object, in layout order.
pub fn found(object: &Object) -> Vec<Found> {
    let mut rows = Vec::new();
    for function in &object.functions {
        let mut slot = 0;
        for node in &function.nodes {
            let marks = object.operations.iter().filter(|mark| mark.members.last() == Some(&node.id));
            rows.extend(marks.map(|mark| Found {
                function: Shown::from(function.name.as_str()),
                slot,
                operation: mark_text(mark).into(),
            }));
            slot += node.insn.slots();
        }
    }
    rows
}

/// Replaces the marks of an object by those that recognition finds.
pub fn recognize(input: &mut Input) {
    kiln_idiom::annotate(&mut input.object, &Registry::BUILTIN);
}

/// Replaces the marks of an object by those that recognition finds, and returns the file that holds them.
///
/// # Errors
/// [`Error::Unsupported`] for programs in text form, which have no place for marks.
pub fn annotate(input: &mut Input) -> Result<Vec<u8>, Error> {
    recognize(input);
    write(input, ElfObject::write_marks)
}

/// Replaces the marks of an object by those of operations that Linux's JIT can have, and moves their instructions side by
/// side, in the order of the proof sequence.
///
/// # Errors
/// [`Error::InvalidInput`] if a mark is refused, which recognition does not do.
pub fn recognize_for_linux(input: &mut Input) -> Result<(), Error> {
    let registry = linux::registry();
    kiln_idiom::annotate(&mut input.object, &registry);
    kiln_program::operation::arrange(&mut input.object, &registry)
        .map_err(|refused| Error::InvalidInput(refused.to_string()))
}

/// Marks an object as [`recognize_for_linux`] does, and returns the file with the moved instructions and the marks.
///
/// # Errors
/// As [`annotate`], and [`Error::InvalidInput`] if the code of the file cannot be moved.
pub fn annotate_for_linux(input: &mut Input) -> Result<Vec<u8>, Error> {
    recognize_for_linux(input)?;
    write(input, ElfObject::write)
}

fn write(
    input: &Input,
    by: impl Fn(&ElfObject, &Object) -> Result<Vec<u8>, kiln_elf::Error>,
) -> Result<Vec<u8>, Error> {
    match &input.elf {
        Some(elf) => by(elf, &input.object).map_err(|error| Error::InvalidInput(error.to_string())),
        None => Err(Error::Unsupported("marks are kept in object files, not in text".to_owned())),
    }
}
