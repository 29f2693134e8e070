//! Terms as SMT-LIB 2 text, which any solver can check without Kiln.
//!
//! ```text
//!   (set-logic QF_BV)
//!   (declare-fun r1 () (_ BitVec 64))
//!   (define-fun t3 () (_ BitVec 32) ((_ extract 31 0) r1))
//!   ...
//!   (assert (or (distinct t7 t12) (distinct t8 t15)))       ; some output differs
//!   (check-sat)                                             ; unsat: the windows are equal
//! ```

use std::collections::BTreeSet;
use std::fmt::Write;

use kiln_isa::semantics::mask;

use crate::term::{Arena, Binary, Bitwise, Shape, Symbol, Term, TermId};

impl std::fmt::Debug for Term<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&term_text(self.arena(), self.id()))
    }
}

/// All terms that these are made of, operands first.
pub fn cone(arena: &Arena, roots: &[TermId]) -> Vec<TermId> {
    let mut seen = BTreeSet::new();
    let mut pending = roots.to_vec();
    while let Some(id) = pending.pop() {
        if seen.insert(id) {
            pending.extend(operands(&arena.shape(id).0));
        }
    }
    seen.into_iter().collect()
}

/// The variables that these are made of.
pub fn symbols(arena: &Arena, roots: &[TermId]) -> Vec<(Symbol, TermId)> {
    let symbol = |id| match arena.shape(id).0 {
        Shape::Symbol(symbol) => Some((symbol, id)),
        _ => None,
    };
    cone(arena, roots).into_iter().filter_map(symbol).collect()
}

/// The terms that a shape is made of.
pub(crate) fn operands(shape: &Shape) -> Vec<TermId> {
    match shape {
        Shape::Constant(_) | Shape::Symbol(_) => Vec::new(),
        Shape::Concat(ids) | Shape::Product(ids) | Shape::Bitwise(_, ids) => ids.to_vec(),
        Shape::Sum(_, terms) => terms.iter().map(|(_, id)| *id).collect(),
        Shape::Extract(id, _) | Shape::Repeat(id) | Shape::Not(id) => vec![*id],
        Shape::Binary(_, a, b) => vec![*a, *b],
        Shape::Ite(a, b, c) => vec![*a, *b, *c],
    }
}

fn literal(bits: u32, value: u64) -> String {
    format!("(_ bv{} {bits})", value & mask(bits))
}

fn name(arena: &Arena, id: TermId) -> String {
    match arena.shape(id) {
        (Shape::Constant(value), bits) => literal(bits, value),
        (Shape::Symbol(symbol), _) => symbol.to_string(),
        _ => format!("t{}", id.0),
    }
}

/// A shape over operands that `operand` prints.
fn shape_text(shape: &Shape, bits: u32, operand: &dyn Fn(TermId) -> String) -> String {
    let nested = |op: &str, ids: &[TermId]| {
        let mut texts = ids.iter().map(|id| operand(*id));
        let first = texts.next().unwrap_or_default();
        texts.fold(first, |left, right| format!("({op} {left} {right})"))
    };
    match shape {
        Shape::Constant(value) => literal(bits, *value),
        Shape::Symbol(symbol) => symbol.to_string(),
        // SMT-LIB puts the highest part first.
        Shape::Concat(parts) => {
            let reversed: Vec<_> = parts.iter().rev().copied().collect();
            nested("concat", &reversed)
        }
        Shape::Extract(base, low) => {
            format!("((_ extract {} {low}) {})", u32::from(*low) + bits - 1, operand(*base))
        }
        Shape::Repeat(bit) => format!("((_ repeat {bits}) {})", operand(*bit)),
        Shape::Sum(constant, terms) => {
            let multiples = terms.iter().map(|(factor, id)| match *factor {
                1 => operand(*id),
                factor if factor & mask(bits) == mask(bits) => format!("(bvneg {})", operand(*id)),
                factor => format!("(bvmul {} {})", literal(bits, factor), operand(*id)),
            });
            multiples.fold(literal(bits, *constant), |left, right| format!("(bvadd {left} {right})"))
        }
        Shape::Product(factors) => nested("bvmul", factors),
        Shape::Bitwise(op, ids) => {
            let op = match op {
                Bitwise::And => "bvand",
                Bitwise::Or => "bvor",
                Bitwise::Xor => "bvxor",
            };
            nested(op, ids)
        }
        Shape::Not(id) => format!("(bvnot {})", operand(*id)),
        Shape::Binary(op, a, b) => binary_text(*op, &operand(*a), &operand(*b)),
        Shape::Ite(condition, then, otherwise) => {
            format!("(ite (= {} #b1) {} {})", operand(*condition), operand(*then), operand(*otherwise))
        }
    }
}

fn binary_text(op: Binary, a: &str, b: &str) -> String {
    let word = match op {
        Binary::Udiv => "bvudiv",
        Binary::Urem => "bvurem",
        Binary::Sdiv => "bvsdiv",
        Binary::Srem => "bvsrem",
        Binary::Shl => "bvshl",
        Binary::Lshr => "bvlshr",
        Binary::Ashr => "bvashr",
        Binary::Eq => return format!("(ite (= {a} {b}) #b1 #b0)"),
        Binary::Ult => return format!("(ite (bvult {a} {b}) #b1 #b0)"),
        Binary::Slt => return format!("(ite (bvslt {a} {b}) #b1 #b0)"),
    };
    format!("({word} {a} {b})")
}

/// One term written out whole, for messages; deep terms are cut.
pub fn term_text(arena: &Arena, id: TermId) -> String {
    fn write_out(arena: &Arena, id: TermId, depth: u32) -> String {
        let (shape, bits) = arena.shape(id);
        if depth == 0 {
            return name(arena, id);
        }
        shape_text(&shape, bits, &|operand| write_out(arena, operand, depth - 1))
    }
    write_out(arena, id, 6)
}

/// The query whether some pair differs although all assumptions hold.
pub fn query(arena: &Arena, assumptions: &[TermId], pairs: &[(TermId, TermId)]) -> String {
    let mut roots: Vec<_> = assumptions.to_vec();
    roots.extend(pairs.iter().flat_map(|(a, b)| [*a, *b]));
    let mut text = String::from("(set-logic QF_BV)\n");
    for id in cone(arena, &roots) {
        let (shape, bits) = arena.shape(id);
        // Writing to a string cannot fail.
        let _ = match shape {
            Shape::Constant(_) => Ok(()),
            Shape::Symbol(symbol) => writeln!(text, "(declare-fun {symbol} () (_ BitVec {bits}))"),
            _ => {
                let body = shape_text(&shape, bits, &|operand| name(arena, operand));
                writeln!(text, "(define-fun t{} () (_ BitVec {bits}) {body})", id.0)
            }
        };
    }
    for assumption in assumptions {
        let _ = writeln!(text, "(assert (= {} #b1))", name(arena, *assumption));
    }
    let differences: Vec<_> =
        pairs.iter().map(|(a, b)| format!("(distinct {} {})", name(arena, *a), name(arena, *b))).collect();
    let _ = match differences.as_slice() {
        [] => writeln!(text, "(assert false)"),
        [one] => writeln!(text, "(assert {one})"),
        many => writeln!(text, "(assert (or {}))", many.join(" ")),
    };
    text.push_str("(check-sat)\n");
    text
}
