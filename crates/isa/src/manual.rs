//! The reference manual, printed from the tables: `docs/reference/isa.md`.

use std::fmt::Write;

use crate::encoding::encode;
use crate::forms::{Form, forms};
use crate::insn::Insn;

/// The manual as Markdown.
pub fn markdown() -> String {
    let mut text = String::from(INTRODUCTION);
    let all = forms();
    for (title, belongs) in CHAPTERS {
        let _ = write!(text, "\n## {title}\n\n{HEADER}");
        for form in all.iter().filter(|form| belongs(&form.insn)) {
            let _ = writeln!(text, "{}", row(form));
        }
    }
    text
}

const INTRODUCTION: &str = "\
# The instruction set

Printed from `crates/isa` by `cargo xtask manual`; a test keeps it up to date. Each row is one form with example
operands: its text, its opcode byte (and the fields that tell it from others with the same opcode), its conformance
group (RFC 9669, or the Linux version), LLVM's ISA version, and its meaning. In meanings `d` is the destination (for
atomics `old`, what memory held), `s` the source, `B` the bit-vector type they are evaluated over; 32-bit results are
zero-extended.
";

const HEADER: &str = "\
| text | opcode | group | version | meaning | |
|---|---|---|---|---|---|
";

/// A chapter's title, and which instructions belong to it.
type Chapter = (&'static str, fn(&Insn) -> bool);

const CHAPTERS: [Chapter; 6] = [
    ("Arithmetic", |insn| matches!(insn, Insn::Alu { .. } | Insn::Neg { .. })),
    ("Sign extension and byte order", |insn| matches!(insn, Insn::MoveSignExtend { .. } | Insn::Endian { .. })),
    ("Addresses", |insn| matches!(insn, Insn::LoadImm64 { .. } | Insn::AddressSpaceCast { .. })),
    ("Memory", |insn| matches!(insn, Insn::Load { .. } | Insn::Store { .. } | Insn::LoadPacket { .. })),
    ("Atomics", |insn| matches!(insn, Insn::Atomic { .. } | Insn::LoadAcquire { .. } | Insn::StoreRelease { .. })),
    ("Control", |insn| insn.is_control() || matches!(insn, Insn::Call(_))),
];

fn row(form: &Form) -> String {
    let (slot, _) = encode(&form.insn);
    let mut opcode = format!("`{:#04x}`", slot.opcode);
    if let Some(fields) = distinguishing_fields(&form.insn) {
        let _ = write!(opcode, ", {fields}");
    }
    let meaning = if form.meaning.is_empty() { String::new() } else { format!("`{}`", code(form.meaning)) };
    let text = code(&form.insn.to_string());
    format!("| `{text}` | {opcode} | {} | {} | {meaning} | {} |", form.group.name(), form.version, form.doc.trim())
}

/// Source text within a table cell: one line, bars escaped.
fn code(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// The fields other than the opcode byte that select this form.
fn distinguishing_fields(insn: &Insn) -> Option<String> {
    let (slot, _) = encode(insn);
    match insn {
        Insn::Alu { op, .. } if op.row().offset != 0 => Some(format!("offset {}", slot.offset)),
        Insn::MoveSignExtend { .. } | Insn::AddressSpaceCast { .. } => Some(format!("offset {}", slot.offset)),
        Insn::Endian { .. } => Some(format!("imm {}", slot.imm)),
        Insn::Atomic { .. } | Insn::LoadAcquire { .. } | Insn::StoreRelease { .. } => {
            Some(format!("imm {:#x}", slot.imm))
        }
        Insn::LoadImm64 { .. } | Insn::Call(_) => Some(format!("src {}", slot.src)),
        _ => None,
    }
}
