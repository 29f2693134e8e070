//! Rules back to text: what [`crate::rule::text::parse_rules`] reads.

use std::fmt;

use kiln_isa::{AluOp, Insn, RegSet};

use crate::rule::{Condition, Expression, HOLES, Rule, as_offset_hole, expression_hole, immediate_hole, offset_hole};

/// The name of an immediate: `a`, `b`, ...
fn letter(hole: u8) -> char {
    char::from(b'a' + hole)
}

/// The name of an offset: `o`, `p`, ...
fn offset_letter(hole: usize) -> char {
    char::from(b'o' + hole as u8)
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
    fn insn_text(&self, insn: &Insn) -> String {
        let mut text = insn.to_string();
        for hole in 0..HOLES as u8 {
            text = text.replace(&format!("{:#x}", immediate_hole(hole)), &format!("${}", letter(hole)));
            if let Some(expression) = self.expressions.get(usize::from(hole)) {
                text = text.replace(&format!("{:#x}", expression_hole(hole)), &format!("$({expression})"));
            }
        }
        if let Some((hole, plus)) = insn.address().and_then(|address| as_offset_hole(address.offset)) {
            let reserved = format!("{:#x})", offset_hole(hole as u8, plus as i8));
            let name = offset_letter(hole);
            let named = match plus {
                0 => format!("@{name})"),
                1.. => format!("@{name} + {plus})"),
                _ => format!("@{name} - {})", -plus),
            };
            text = text.replace(&reserved, &named);
        }
        match insn {
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
        for insn in &self.before {
            writeln!(f, "  {}", self.insn_text(insn))?;
        }
        writeln!(f, "=>")?;
        for insn in &self.after {
            writeln!(f, "  {}", self.insn_text(insn))?;
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
