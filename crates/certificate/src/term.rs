//! Bit-vector terms that print as SMT-LIB 2.
//!
//! A [`Term`] is an index into an [`Arena`] that stores equal terms once. Building a term folds constants, collects the
//! constant part of a sum and joins neighbouring parts of one word. So most values that both functions compute are the
//! same term and need no query. Every such step is an identity over bit vectors; `tests/terms.rs` compares it with
//! evaluation.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::rc::Rc;

use kiln_isa::semantics::{BitVec, Bits, mask};

/// A binary operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Binary {
    Add,
    Mul,
    Udiv,
    Urem,
    Sdiv,
    Srem,
    And,
    Or,
    Xor,
    Shl,
    Lshr,
    Ashr,
    Eq,
    Ult,
    Slt,
}

impl Binary {
    const fn word(self) -> &'static str {
        match self {
            Binary::Add => "bvadd",
            Binary::Mul => "bvmul",
            Binary::Udiv => "bvudiv",
            Binary::Urem => "bvurem",
            Binary::Sdiv => "bvsdiv",
            Binary::Srem => "bvsrem",
            Binary::And => "bvand",
            Binary::Or => "bvor",
            Binary::Xor => "bvxor",
            Binary::Shl => "bvshl",
            Binary::Lshr => "bvlshr",
            Binary::Ashr => "bvashr",
            Binary::Eq => "=",
            Binary::Ult => "bvult",
            Binary::Slt => "bvslt",
        }
    }

    const fn is_comparison(self) -> bool {
        matches!(self, Binary::Eq | Binary::Ult | Binary::Slt)
    }

    const fn commutes(self) -> bool {
        matches!(self, Binary::Add | Binary::Mul | Binary::And | Binary::Or | Binary::Xor | Binary::Eq)
    }

    /// The meaning over numbers, division by zero as in SMT-LIB.
    fn apply(self, a: Bits, b: Bits) -> Bits {
        let ones = a.like(u64::MAX);
        let truth = |holds: bool| Bits::new(1, u64::from(holds));
        match self {
            Binary::Add => a.add(&b),
            Binary::Mul => a.mul(&b),
            Binary::Udiv if b.value() == 0 => ones,
            Binary::Urem | Binary::Srem if b.value() == 0 => a,
            Binary::Sdiv if b.value() == 0 => {
                if a.signed() < 0 {
                    a.like(1)
                } else {
                    ones
                }
            }
            Binary::Udiv => a.udiv(&b),
            Binary::Urem => a.urem(&b),
            Binary::Sdiv => a.sdiv(&b),
            Binary::Srem => a.srem(&b),
            Binary::And => a.and(&b),
            Binary::Or => a.or(&b),
            Binary::Xor => a.xor(&b),
            Binary::Shl if b.value() >= u64::from(a.bits()) => a.like(0),
            Binary::Lshr if b.value() >= u64::from(a.bits()) => a.like(0),
            Binary::Shl => a.shl(&b),
            Binary::Lshr => a.lshr(&b),
            Binary::Ashr => a.ashr(&b),
            Binary::Eq => truth(BitVec::eq(&a, &b)),
            Binary::Ult => truth(a.ult(&b)),
            Binary::Slt => truth(a.slt(&b)),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Shape {
    Constant(u64),
    /// A variable (no operands) or an uninterpreted function.
    Apply(Rc<str>, Box<[u32]>),
    Not(u32),
    Binary(Binary, u32, u32),
    /// Bits from this one on.
    Extract(u32, u32),
    /// Upper part, lower part.
    Concat(u32, u32),
    SignExtend(u32),
    Ite(u32, u32, u32),
}

/// Owns terms.
#[derive(Default)]
pub struct Arena {
    shapes: RefCell<Vec<(Shape, u32)>>,
    /// Bits of each term that are zero whatever the variables are.
    zeros: RefCell<Vec<u64>>,
    index: RefCell<HashMap<(Shape, u32), u32>>,
}

/// A bit vector of 1 to 64 bits; of one bit, a truth value.
#[derive(Clone, Copy)]
pub struct Term<'a> {
    arena: &'a Arena,
    id: u32,
    bits: u32,
}

impl PartialEq for Term<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl std::fmt::Debug for Term<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "t{}", self.id)
    }
}

impl Arena {
    /// How many terms it holds.
    pub fn len(&self) -> usize {
        self.shapes.borrow().len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn term(&self, shape: Shape, bits: u32) -> Term<'_> {
        let key = (shape, bits);
        if let Some(id) = self.index.borrow().get(&key) {
            return Term { arena: self, id: *id, bits };
        }
        let zeros = self.zeros_of(&key.0, bits);
        self.zeros.borrow_mut().push(zeros);
        let mut shapes = self.shapes.borrow_mut();
        let id = u32::try_from(shapes.len()).expect("an arena's size is limited");
        shapes.push(key.clone());
        self.index.borrow_mut().insert(key, id);
        Term { arena: self, id, bits }
    }

    /// Found once for each term: terms share operands, and a walk over them would take time exponential in their depth.
    fn zeros_of(&self, shape: &Shape, bits: u32) -> u64 {
        let (known, all) = (self.zeros.borrow(), mask(bits));
        let of = |id: u32| known[id as usize];
        match *shape {
            Shape::Constant(value) => !value & all,
            Shape::Concat(high, low) => of(high) << self.at(low).bits | of(low),
            Shape::Binary(Binary::And, a, b) => of(a) | of(b),
            Shape::Binary(Binary::Or | Binary::Xor, a, b) | Shape::Ite(_, a, b) => of(a) & of(b),
            Shape::Extract(a, low) => of(a) >> low & all,
            // Below the lowest bit that either has, a sum has none.
            Shape::Binary(Binary::Add, a, b) => mask((of(a) & of(b)).trailing_ones()) & all,
            _ => 0,
        }
    }

    fn at(&self, id: u32) -> Term<'_> {
        let bits = self.shapes.borrow()[id as usize].1;
        Term { arena: self, id, bits }
    }

    /// A constant.
    pub fn constant(&self, bits: u32, value: u64) -> Term<'_> {
        self.term(Shape::Constant(value & mask(bits)), bits)
    }

    /// A truth value.
    pub fn truth(&self, holds: bool) -> Term<'_> {
        self.constant(1, u64::from(holds))
    }

    /// A variable.
    pub fn symbol(&self, name: &str, bits: u32) -> Term<'_> {
        self.apply(name, &[], bits)
    }

    /// An uninterpreted function of some terms. One name has one width and operands of the same widths.
    pub fn apply(&self, name: &str, operands: &[Term<'_>], bits: u32) -> Term<'_> {
        self.term(Shape::Apply(name.into(), operands.iter().map(|term| term.id).collect()), bits)
    }

    /// All of these.
    pub fn all<'a>(&'a self, terms: &[Term<'a>]) -> Term<'a> {
        terms.iter().fold(self.truth(true), |all, term| all.and(term))
    }

    /// The question whether `assumptions` can hold and `goal` fail, in SMT-LIB 2. `unsat`: the goal follows.
    pub fn query(&self, assumptions: &[Term<'_>], goal: Term<'_>) -> String {
        let mut roots: Vec<u32> = assumptions.iter().map(|term| term.id).collect();
        roots.push(goal.id);
        let cone = self.cone(&roots);
        let shapes = self.shapes.borrow();
        let mut text = String::from("(set-logic QF_UFBV)\n");
        let mut functions: BTreeMap<&str, (Vec<u32>, u32)> = BTreeMap::new();
        for id in &cone {
            if let (Shape::Apply(name, operands), bits) = &shapes[*id as usize] {
                let widths = operands.iter().map(|operand| shapes[*operand as usize].1).collect();
                functions.insert(name, (widths, *bits));
            }
        }
        for (name, (widths, bits)) in functions {
            let widths: Vec<String> = widths.iter().map(|bits| format!("(_ BitVec {bits})")).collect();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "(declare-fun {name} ({}) (_ BitVec {bits}))", widths.join(" "));
        }
        for id in &cone {
            let (shape, bits) = &shapes[*id as usize];
            if !matches!(shape, Shape::Constant(_)) {
                let _ = writeln!(text, "(define-fun t{id} () (_ BitVec {bits}) {})", print(&shapes, shape, *bits));
            }
        }
        for term in assumptions {
            let _ = writeln!(text, "(assert (= {} #b1))", operand(&shapes, term.id));
        }
        let _ = writeln!(text, "(assert (= {} #b0))", operand(&shapes, goal.id));
        text.push_str("(check-sat)\n");
        text
    }

    /// Terms that these are made of, operands first.
    fn cone(&self, roots: &[u32]) -> Vec<u32> {
        let shapes = self.shapes.borrow();
        let mut seen = std::collections::BTreeSet::new();
        let mut pending = roots.to_vec();
        while let Some(id) = pending.pop() {
            if seen.insert(id) {
                pending.extend(operands(&shapes[id as usize].0));
            }
        }
        seen.into_iter().collect()
    }

    /// Names of variables and functions that terms are made of.
    pub fn names(&self, terms: &[Term<'_>]) -> Vec<String> {
        let cone = self.cone(&terms.iter().map(|term| term.id).collect::<Vec<_>>());
        let shapes = self.shapes.borrow();
        let name = |id: &u32| match &shapes[*id as usize].0 {
            Shape::Apply(name, _) => Some(name.to_string()),
            _ => None,
        };
        cone.iter().filter_map(name).collect()
    }

    /// The value of a term, where `value` gives that of variables and functions by name and operands.
    pub fn evaluate(&self, term: Term<'_>, value: &dyn Fn(&str, &[u64]) -> u64) -> u64 {
        let shapes = self.shapes.borrow();
        let mut values: HashMap<u32, u64> = HashMap::new();
        for id in self.cone(&[term.id]) {
            let (shape, bits) = &shapes[id as usize];
            let bits_of = |id: u32| Bits::new(shapes[id as usize].1, values[&id]);
            let result = match shape {
                Shape::Constant(number) => *number,
                Shape::Apply(name, operands) => {
                    value(name, &operands.iter().map(|id| values[id]).collect::<Vec<_>>()) & mask(*bits)
                }
                Shape::Not(a) => !values[a] & mask(*bits),
                Shape::Binary(op, a, b) => op.apply(bits_of(*a), bits_of(*b)).value(),
                Shape::Extract(a, low) => values[a] >> low & mask(*bits),
                Shape::Concat(high, low) => values[high] << shapes[*low as usize].1 | values[low],
                Shape::SignExtend(a) => bits_of(*a).sign_extend(*bits).value(),
                Shape::Ite(condition, a, b) => {
                    if values[condition] == 1 {
                        values[a]
                    } else {
                        values[b]
                    }
                }
            };
            values.insert(id, result);
        }
        values[&term.id]
    }
}

fn operands(shape: &Shape) -> Vec<u32> {
    match shape {
        Shape::Constant(_) => Vec::new(),
        Shape::Apply(_, operands) => operands.to_vec(),
        Shape::Not(a) | Shape::Extract(a, _) | Shape::SignExtend(a) => vec![*a],
        Shape::Binary(_, a, b) | Shape::Concat(a, b) => vec![*a, *b],
        Shape::Ite(a, b, c) => vec![*a, *b, *c],
    }
}

fn operand(shapes: &[(Shape, u32)], id: u32) -> String {
    match &shapes[id as usize] {
        (Shape::Constant(value), bits) => format!("#b{value:0width$b}", width = *bits as usize),
        _ => format!("t{id}"),
    }
}

fn print(shapes: &[(Shape, u32)], shape: &Shape, bits: u32) -> String {
    let text = |id: &u32| operand(shapes, *id);
    match shape {
        Shape::Constant(_) => String::new(),
        Shape::Apply(name, operands) if operands.is_empty() => name.to_string(),
        Shape::Apply(name, operands) => format!("({name} {})", operands.iter().map(text).collect::<Vec<_>>().join(" ")),
        Shape::Not(a) => format!("(bvnot {})", text(a)),
        Shape::Binary(op, a, b) if op.is_comparison() => {
            format!("(ite ({} {} {}) #b1 #b0)", op.word(), text(a), text(b))
        }
        Shape::Binary(op, a, b) => format!("({} {} {})", op.word(), text(a), text(b)),
        Shape::Extract(a, low) => format!("((_ extract {} {low}) {})", low + bits - 1, text(a)),
        Shape::Concat(high, low) => format!("(concat {} {})", text(high), text(low)),
        Shape::SignExtend(a) => format!("((_ sign_extend {}) {})", bits - shapes[*a as usize].1, text(a)),
        Shape::Ite(c, a, b) => format!("(ite (= {} #b1) {} {})", text(c), text(a), text(b)),
    }
}

impl<'a> Term<'a> {
    /// Its number in the arena.
    pub fn id(self) -> u32 {
        self.id
    }

    /// The arena that it is of.
    pub fn arena(self) -> &'a Arena {
        self.arena
    }

    fn shape(self) -> Shape {
        self.arena.shapes.borrow()[self.id as usize].0.clone()
    }

    fn part(self, id: u32) -> Term<'a> {
        self.arena.at(id)
    }

    /// Its value, if it is a constant.
    pub fn as_constant(self) -> Option<u64> {
        match &self.arena.shapes.borrow()[self.id as usize].0 {
            Shape::Constant(value) => Some(*value),
            _ => None,
        }
    }

    /// The term without the constant that is added to it, and that constant.
    pub fn split(self) -> (Term<'a>, u64) {
        match self.shape() {
            Shape::Binary(Binary::Add, a, b) => match self.part(b).as_constant() {
                Some(constant) => (self.part(a), constant),
                None => (self, 0),
            },
            Shape::Constant(value) => (self.like(0), value),
            _ => (self, 0),
        }
    }

    fn binary(self, op: Binary, other: Term<'a>) -> Term<'a> {
        let bits = if op.is_comparison() { 1 } else { self.bits };
        let (mut a, mut b) = (self, other);
        if let (Some(x), Some(y)) = (a.as_constant(), b.as_constant()) {
            return self.arena.constant(bits, op.apply(Bits::new(self.bits, x), Bits::new(self.bits, y)).value());
        }
        if op.commutes() && (a.as_constant().is_some() || b.as_constant().is_none() && a.id > b.id) {
            (a, b) = (b, a);
        }
        if let Some(simple) = simplified(op, a, b) {
            return simple;
        }
        self.arena.term(Shape::Binary(op, a.id, b.id), bits)
    }

    /// `bits` bits from `low` on.
    pub fn extract(self, low: u32, bits: u32) -> Term<'a> {
        if low == 0 && bits == self.bits {
            return self;
        }
        match self.shape() {
            Shape::Constant(value) => return self.arena.constant(bits, value >> low),
            Shape::Extract(base, first) => return self.part(base).extract(first + low, bits),
            Shape::Concat(high, lower) => {
                let (high, lower) = (self.part(high), self.part(lower));
                if low + bits <= lower.bits {
                    return lower.extract(low, bits);
                }
                if low >= lower.bits {
                    return high.extract(low - lower.bits, bits);
                }
                let below = lower.bits - low;
                return high.extract(0, bits - below).concat(lower.extract(low, below));
            }
            Shape::SignExtend(base) if low + bits <= self.part(base).bits => return self.part(base).extract(low, bits),
            Shape::Binary(op @ (Binary::And | Binary::Or | Binary::Xor), a, b) => {
                return self.part(a).extract(low, bits).binary(op, self.part(b).extract(low, bits));
            }
            Shape::Binary(op @ (Binary::Add | Binary::Mul), a, b) if low == 0 => {
                return self.part(a).extract(0, bits).binary(op, self.part(b).extract(0, bits));
            }
            Shape::Ite(condition, a, b) => {
                let (a, b) = (self.part(a).extract(low, bits), self.part(b).extract(low, bits));
                return Term::ite(&self.part(condition), &a, &b);
            }
            _ => {}
        }
        self.arena.term(Shape::Extract(self.id, low), bits)
    }

    /// This above `low`.
    pub fn concat(self, low: Term<'a>) -> Term<'a> {
        let bits = self.bits + low.bits;
        if let (Some(high), Some(value)) = (self.as_constant(), low.as_constant()) {
            return self.arena.constant(bits, high << low.bits | value);
        }
        match (self.shape(), low.shape()) {
            (Shape::Extract(base, first), Shape::Extract(other, second))
                if base == other && first == second + low.bits =>
            {
                return self.part(base).extract(second, bits);
            }
            // The lowest of the upper part may join with the lower one.
            (Shape::Concat(upper, middle), _) => {
                let joined = self.part(middle).concat(low);
                if !matches!(joined.shape(), Shape::Concat(..)) {
                    return self.part(upper).concat(joined);
                }
            }
            (_, Shape::Concat(middle, lower)) => {
                let joined = self.concat(low.part(middle));
                if !matches!(joined.shape(), Shape::Concat(..)) {
                    return joined.concat(low.part(lower));
                }
            }
            _ => {}
        }
        self.arena.term(Shape::Concat(self.id, low.id), bits)
    }
}

/// What a binary operation is where one operand makes it simple. A constant is the second operand of what commutes.
// long: one arm for each operation
fn simplified<'a>(op: Binary, a: Term<'a>, b: Term<'a>) -> Option<Term<'a>> {
    let ones = mask(a.bits);
    let constant = b.as_constant();
    match op {
        Binary::Add => {
            if constant == Some(0) {
                return Some(a);
            }
            let ((left, x), (right, y)) = (a.split(), b.split());
            if constant.is_some() && x != 0 {
                return Some(left.binary(Binary::Add, a.like(x.wrapping_add(y))));
            }
            if constant.is_none() && (x != 0 || y != 0) {
                return Some(left.binary(Binary::Add, right).binary(Binary::Add, a.like(x.wrapping_add(y))));
            }
            // What was subtracted is added.
            let negated = |of: Term<'a>, other: Term<'a>| match of.shape() {
                Shape::Binary(Binary::Mul, base, factor) => {
                    base == other.id && of.part(factor).as_constant() == Some(ones)
                }
                _ => false,
            };
            if negated(a, b) || negated(b, a) {
                return Some(a.like(0));
            }
            None
        }
        Binary::Mul => match constant {
            Some(0) => Some(b),
            Some(1) => Some(a),
            _ => None,
        },
        Binary::And => match constant {
            _ if a == b => Some(a),
            Some(0) => Some(b),
            Some(value) if value == ones => Some(a),
            // A mask of low bits.
            Some(value) if value & value.wrapping_add(1) == 0 => {
                let low = 64 - value.leading_zeros();
                Some(a.like(0).extract(0, a.bits - low).concat(a.extract(0, low)))
            }
            _ => None,
        },
        Binary::Or => match constant {
            _ if a == b => Some(a),
            Some(0) => Some(a),
            Some(value) if value == ones => Some(b),
            _ => None,
        },
        Binary::Xor => match constant {
            _ if a == b => Some(a.like(0)),
            Some(0) => Some(a),
            _ => None,
        },
        Binary::Shl | Binary::Lshr => match constant {
            Some(0) => Some(a),
            Some(amount) if amount >= u64::from(a.bits) => Some(a.like(0)),
            Some(amount) => {
                let (amount, zeros) = (amount as u32, a.arena.constant(amount as u32, 0));
                Some(match op {
                    Binary::Shl => a.extract(0, a.bits - amount).concat(zeros),
                    _ => zeros.concat(a.extract(amount, a.bits - amount)),
                })
            }
            None => None,
        },
        Binary::Ashr => (constant == Some(0)).then_some(a),
        Binary::Eq if a == b => Some(a.arena.truth(true)),
        Binary::Eq => {
            // Two sums that differ by a constant are not equal.
            let ((left, x), (right, y)) = (a.split(), b.split());
            if left == right && x != y {
                return Some(a.arena.truth(false));
            }
            if a.bits == 1 {
                return constant.map(|value| if value == 1 { a } else { Term::not(&a) });
            }
            // Zeros above: the lower part decides.
            let (Shape::Concat(high, low), Some(value)) = (a.shape(), constant) else { return None };
            let (high, low) = (a.part(high), a.part(low));
            (high.as_constant() == Some(0)).then(|| match value >> low.bits {
                0 => low.binary(Binary::Eq, a.arena.constant(low.bits, value)),
                _ => a.arena.truth(false),
            })
        }
        Binary::Ult | Binary::Slt if a == b => Some(a.arena.truth(false)),
        Binary::Ult if constant == Some(0) => Some(a.arena.truth(false)),
        _ => None,
    }
}

impl<'a> BitVec for Term<'a> {
    type Bool = Term<'a>;

    fn bits(&self) -> u32 {
        self.bits
    }
    fn like(&self, value: u64) -> Term<'a> {
        self.arena.constant(self.bits, value)
    }
    fn add(&self, other: &Self) -> Self {
        self.binary(Binary::Add, *other)
    }
    fn sub(&self, other: &Self) -> Self {
        let negated = match other.as_constant() {
            Some(value) => other.like(value.wrapping_neg()),
            None => other.binary(Binary::Mul, other.like(u64::MAX)),
        };
        if self == other { self.like(0) } else { self.binary(Binary::Add, negated) }
    }
    fn mul(&self, other: &Self) -> Self {
        self.binary(Binary::Mul, *other)
    }
    fn udiv(&self, other: &Self) -> Self {
        self.binary(Binary::Udiv, *other)
    }
    fn urem(&self, other: &Self) -> Self {
        self.binary(Binary::Urem, *other)
    }
    fn sdiv(&self, other: &Self) -> Self {
        self.binary(Binary::Sdiv, *other)
    }
    fn srem(&self, other: &Self) -> Self {
        self.binary(Binary::Srem, *other)
    }
    fn and(&self, other: &Self) -> Self {
        self.binary(Binary::And, *other)
    }
    fn or(&self, other: &Self) -> Self {
        self.binary(Binary::Or, *other)
    }
    fn xor(&self, other: &Self) -> Self {
        self.binary(Binary::Xor, *other)
    }
    fn shl(&self, amount: &Self) -> Self {
        self.binary(Binary::Shl, *amount)
    }
    fn lshr(&self, amount: &Self) -> Self {
        self.binary(Binary::Lshr, *amount)
    }
    fn ashr(&self, amount: &Self) -> Self {
        self.binary(Binary::Ashr, *amount)
    }
    fn truncate(&self, bits: u32) -> Self {
        self.extract(0, bits)
    }
    fn zero_extend(&self, bits: u32) -> Self {
        if bits == self.bits { *self } else { self.arena.constant(bits - self.bits, 0).concat(*self) }
    }
    fn sign_extend(&self, bits: u32) -> Self {
        match self.as_constant() {
            _ if bits == self.bits => *self,
            Some(value) => self.arena.constant(bits, Bits::new(self.bits, value).sign_extend(bits).value()),
            None => self.arena.term(Shape::SignExtend(self.id), bits),
        }
    }
    fn eq(&self, other: &Self) -> Self {
        self.binary(Binary::Eq, *other)
    }
    fn ult(&self, other: &Self) -> Self {
        self.binary(Binary::Ult, *other)
    }
    fn slt(&self, other: &Self) -> Self {
        self.binary(Binary::Slt, *other)
    }
    fn not(value: &Self) -> Self {
        match value.shape() {
            Shape::Constant(number) => value.like(!number),
            Shape::Not(inner) => value.part(inner),
            _ => value.arena.term(Shape::Not(value.id), value.bits),
        }
    }
    fn ite(condition: &Self, then: &Self, otherwise: &Self) -> Self {
        match condition.as_constant() {
            Some(1) => *then,
            Some(_) => *otherwise,
            None if then == otherwise => *then,
            None => {
                let shape = Shape::Ite(condition.id, then.id, otherwise.id);
                then.arena.term(shape, then.bits)
            }
        }
    }
}

impl<'a> Term<'a> {
    /// Bits that are zero whatever the variables are, as far as the term's form shows.
    pub fn zeros(self) -> u64 {
        self.arena.zeros.borrow()[self.id as usize]
    }

    /// The term and the constant that this says to be equal, if it does.
    pub fn equated(self) -> Option<(Term<'a>, u64)> {
        match self.shape() {
            Shape::Binary(Binary::Eq, a, b) => Some((self.part(a), self.part(b).as_constant()?)),
            _ => None,
        }
    }

    /// The name of a variable.
    pub fn name(self) -> Option<String> {
        match self.shape() {
            Shape::Apply(name, operands) if operands.is_empty() => Some(name.to_string()),
            _ => None,
        }
    }

    /// An operand of a variable or function.
    pub fn operand(self, index: usize) -> Option<Term<'a>> {
        match self.shape() {
            Shape::Apply(_, operands) => operands.get(index).map(|id| self.part(*id)),
            _ => None,
        }
    }
}
