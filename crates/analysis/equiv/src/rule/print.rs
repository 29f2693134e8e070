//! Rules back to text: what [`crate::rule::text::parse_rules`] reads.

use std::fmt;

use kiln_isa::{AluOp, Insn, RegSet};

use crate::rule::definition::Rule;
use crate::rule::expression::{Condition, Expression};
use crate::rule::pattern::{Immediate, Offset, Pattern, map_fields};

/// Printed for a placeholder and replaced by its name: an instruction has one immediate and one offset.
const NUMBER: i32 = 0x4b1e_0000;
/// Printed for a placeholder's offset and replaced by its name.
const PLACE: i16 = 0x4b1e;

/// The name of an immediate: `a`, `b`, ...
fn letter(hole: u8) -> char {
    char::from(b'a' + hole)
}

/// The name of an offset: `o`, `p`, ...
fn offset_letter(hole: u8) -> char {
    char::from(b'o' + hole)
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Immediate(hole) => write!(f, "${}", letter(*hole)),
            Expression::Register(reg) => write!(f, "{reg}"),
            Expression::Constant(value) => match value {
                i64::MIN..0 => write!(f, "-{}", value.unsigned_abs()),
                0..10 => write!(f, "{value}"),
                _ => write!(f, "{value:#x}"),
            },
            Expression::Operation(op, _, left, right) => {
                let inner = |one: &Expression| match one {
                    Expression::Operation(..) => format!("({one})"),
                    _ => one.to_string(),
                };
                match (op, &**left, &**right) {
                    (AluOp::Sub, Expression::Constant(0), right) => write!(f, "-{}", inner(right)),
                    (AluOp::Xor, left, Expression::Constant(-1)) => write!(f, "~{}", inner(left)),
                    (op, left, right) => {
                        // The symbol of an assignment, such as `+=`.
                        let symbol = op.row().symbol.trim_end_matches('=');
                        write!(f, "{} {symbol} {}", inner(left), inner(right))
                    }
                }
            }
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Compare(op, _, left, right) => write!(f, "where {left} {} {right}", op.row().symbol),
            Condition::Fits(expression) => write!(f, "fits {expression}"),
        }
    }
}

impl Rule {
    fn insn_text(&self, pattern: &Pattern) -> String {
        let (number, place) = (pattern.immediate != Immediate::Literal, pattern.offset != Offset::Literal);
        let marked = map_fields(
            &pattern.insn,
            &mut Some,
            &mut |literal| Some(if number { NUMBER.into() } else { literal }),
            &mut |literal| Some(if place { PLACE } else { literal }),
        );
        let mut text = marked.unwrap_or(pattern.insn).to_string();
        let immediate = match pattern.immediate {
            Immediate::Literal => None,
            Immediate::Hole(hole) => Some(format!("${}", letter(hole))),
            Immediate::Expression(at) => self.expressions.get(usize::from(at)).map(|own| format!("$({own})")),
        };
        if let Some(name) = immediate {
            text = text.replace(&format!("{NUMBER:#x}"), &name);
        }
        if let Offset::Hole { hole, plus } = pattern.offset {
            let name = offset_letter(hole);
            let named = match plus {
                0 => format!("@{name})"),
                1.. => format!("@{name} + {plus})"),
                _ => format!("@{name} - {})", -i16::from(plus)),
            };
            text = text.replace(&format!("{PLACE:#x})"), &named);
        }
        match pattern.insn {
            Insn::Branch { .. } => match text.rsplit_once("goto") {
                Some((head, _)) => format!("{head}goto out"),
                None => text,
            },
            _ => text,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "rule {}", self.name)?;
        for pattern in &self.before {
            writeln!(f, "  {}", self.insn_text(pattern))?;
        }
        writeln!(f, "=>")?;
        for pattern in &self.after {
            writeln!(f, "  {}", self.insn_text(pattern))?;
        }
        let registers = |f: &mut fmt::Formatter<'_>, word: &str, set: RegSet| {
            let names: String = set.iter().map(|reg| format!(" {reg}")).collect();
            if names.is_empty() { Ok(()) } else { writeln!(f, "{word}{names}") }
        };
        registers(f, "dead", self.dead)?;
        registers(f, "narrow", self.narrow)?;
        registers(f, "distinct", self.distinct)?;
        self.conditions.iter().try_for_each(|condition| writeln!(f, "{condition}"))
    }
}
