//! Bit-vector terms that print as SMT-LIB 2.
//!
//! A [`Term`] is an index into an [`Arena`] that stores equal terms once. Building a term folds constants, collects the
//! constant part of a sum and joins neighbouring parts of one word (the module `algebra`). So most values that both
//! functions compute are the same term and need no query.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use kiln_isa::semantics::{BitVec, Bits, mask};

/// A binary operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Binary {
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

    pub(crate) const fn is_comparison(self) -> bool {
        matches!(self, Binary::Eq | Binary::Ult | Binary::Slt)
    }

    pub(crate) const fn commutes(self) -> bool {
        matches!(self, Binary::Add | Binary::Mul | Binary::And | Binary::Or | Binary::Xor | Binary::Eq)
    }

    /// The meaning over numbers, division by zero as in SMT-LIB.
    pub(crate) fn apply(self, a: Bits, b: Bits) -> Bits {
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

/// What a term is made of. Operands are indices in the arena.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Shape {
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
    pub(crate) shapes: RefCell<Vec<(Shape, u32)>>,
    /// Bits of each term that are zero whatever the variables are.
    zeros: RefCell<Vec<u64>>,
    /// A hash of each term, the same in every arena. Only the search for certificates uses it.
    hashes: RefCell<Vec<u64>>,
    index: RefCell<HashMap<(Shape, u32), u32>>,
    /// Parts of terms that were built: by term, lowest bit and width.
    parts: RefCell<HashMap<Part, u32>>,
}

/// Some bits of a term: its number, the lowest bit and how many.
pub(crate) type Part = (u32, u32, u32);

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

    pub(crate) fn term(&self, shape: Shape, bits: u32) -> Term<'_> {
        let key = (shape, bits);
        if let Some(id) = self.index.borrow().get(&key) {
            return Term { arena: self, id: *id, bits };
        }
        let zeros = self.zeros_of(&key.0, bits);
        self.zeros.borrow_mut().push(zeros);
        let hash = self.hash_of(&key.0, bits);
        self.hashes.borrow_mut().push(hash);
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

    fn hash_of(&self, shape: &Shape, bits: u32) -> u64 {
        let known = self.hashes.borrow();
        let mut hasher = DefaultHasher::new();
        (std::mem::discriminant(shape), bits).hash(&mut hasher);
        match shape {
            Shape::Constant(value) => value.hash(&mut hasher),
            Shape::Apply(name, _) => name.hash(&mut hasher),
            Shape::Binary(op, ..) => op.hash(&mut hasher),
            Shape::Extract(_, low) => low.hash(&mut hasher),
            _ => {}
        }
        operands(shape).iter().for_each(|id| known[*id as usize].hash(&mut hasher));
        hasher.finish()
    }

    /// The term that was built for these bits, if one was.
    pub(crate) fn part(&self, part: &Part) -> Option<Term<'_>> {
        self.parts.borrow().get(part).map(|id| self.at(*id))
    }

    pub(crate) fn keep_part(&self, part: Part, built: Term<'_>) {
        self.parts.borrow_mut().insert(part, built.id);
    }

    pub(crate) fn at(&self, id: u32) -> Term<'_> {
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
    pub(crate) fn cone(&self, roots: &[u32]) -> Vec<u32> {
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
}

pub(crate) fn operands(shape: &Shape) -> Vec<u32> {
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

    /// Its width.
    pub(crate) fn width(self) -> u32 {
        self.bits
    }

    /// A hash of what it is made of, the same in every arena.
    pub(crate) fn hash(self) -> u64 {
        self.arena.hashes.borrow()[self.id as usize]
    }

    /// The arena that it is of.
    pub fn arena(self) -> &'a Arena {
        self.arena
    }

    pub(crate) fn shape(self) -> Shape {
        self.arena.shapes.borrow()[self.id as usize].0.clone()
    }

    pub(crate) fn part(self, id: u32) -> Term<'a> {
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
