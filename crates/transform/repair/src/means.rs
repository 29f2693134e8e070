//! How a range is made known to the verifier, as data: instructions that change nothing while the number is in it.

use kiln_isa::{AluOp, Insn, JumpOp, Source, Width};
use kiln_program::{InsnId, Object, Reference};

use crate::Change;
use crate::places::Place;
use crate::range::Range;

/// One instruction of a means. `low` and `high` are the ends of the range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// `r &= high`.
    And,
    /// If `r OP end` does not hold, the next step sets it.
    Unless(JumpOp, End),
    /// `r = end`.
    Set(End),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Low,
    High,
}

/// A way to make a range known.
#[derive(Debug)]
pub struct Means {
    /// Its name, as reports say it.
    pub name: &'static str,
    /// What an author would write by hand, with the number as `n`.
    pub source: &'static str,
    steps: &'static [Step],
    is_for: fn(Range) -> bool,
}

/// Sets the number to the nearest end if it is outside.
const BOTH_BOUNDS: &[Step] = &[
    Step::Unless(JumpOp::Ge, End::Low),
    Step::Set(End::Low),
    Step::Unless(JumpOp::Le, End::High),
    Step::Set(End::High),
];

/// Makes any range known: what the search for a range uses.
pub(crate) static PROBE: Means = Means { name: "probe", source: "", steps: BOTH_BOUNDS, is_for: |_| true };

/// All means, the cheapest first.
pub static MEANS: &[&Means] = &[
    &Means { name: "mask", source: "n &= HIGH;", steps: &[Step::And], is_for: |[low, high]| low == 0 && is_mask(high) },
    &Means {
        name: "upper bound",
        source: "if (n > HIGH) n = HIGH;",
        steps: &[Step::Unless(JumpOp::Le, End::High), Step::Set(End::High)],
        is_for: |[low, _]| low == 0,
    },
    &Means {
        name: "lower bound",
        source: "if (n < LOW) n = LOW;",
        steps: &[Step::Unless(JumpOp::Ge, End::Low), Step::Set(End::Low)],
        is_for: |[low, high]| low > 0 && high == i32::MAX,
    },
    &Means {
        name: "clamp",
        source: "if (n < LOW) n = LOW; if (n > HIGH) n = HIGH;",
        steps: BOTH_BOUNDS,
        is_for: |[low, high]| low > 0 && high < i32::MAX,
    },
];

fn is_mask(high: i32) -> bool {
    high > 0 && high & high.wrapping_add(1) == 0
}

impl Means {
    /// Inserts the instructions in front of a place. Branches to that place lead to them.
    pub(crate) fn apply(&'static self, object: &Object, place: &Place, range: Range) -> Option<(Object, Change)> {
        if !(self.is_for)(range) {
            return None;
        }
        let mut changed = object.clone();
        let old = object.function(place.function).nodes.get(place.position)?;
        let mut nodes: Vec<_> =
            self.steps.iter().map(|step| changed.new_node(insn(*step, place, range), Reference::None)).collect();
        let after: Vec<InsnId> = nodes.iter().skip(2).map(|node| node.id).chain([old.id, old.id]).collect();
        for (node, target) in nodes.iter_mut().zip(after) {
            node.line = old.line;
            if matches!(node.insn, Insn::Branch { .. }) {
                node.reference = Reference::Branch(target);
            }
        }
        let inserted: Vec<InsnId> = nodes.iter().map(|node| node.id).collect();
        let first = *inserted.first()?;
        let function = changed.functions.get_mut(place.function.index())?;
        retarget(function, old.id, first);
        function.nodes.splice(place.position..place.position, nodes);
        let line = object.line(old).cloned();
        let (function, before, register) = (place.function, old.id, place.register);
        Some((changed, Change { function, before, register, range, means: self, line, inserted }))
    }
}

/// Takes out what a change inserted.
pub(crate) fn take_out(object: &mut Object, change: &Change) {
    let Some(function) = object.functions.get_mut(change.function.index()) else { return };
    function.nodes.retain(|node| !change.inserted.contains(&node.id));
    if let Some(first) = change.inserted.first() {
        retarget(function, *first, change.before);
    }
}

fn retarget(function: &mut kiln_program::Function, from: InsnId, to: InsnId) {
    for node in &mut function.nodes {
        if node.reference == Reference::Branch(from) {
            node.reference = Reference::Branch(to);
        }
    }
}

fn insn(step: Step, place: &Place, [low, high]: Range) -> Insn {
    let end = |end: End| Source::Imm(if end == End::Low { low } else { high });
    let (dst, width) = (place.register, Width::W64);
    match step {
        Step::And => Insn::Alu { op: AluOp::And, width, dst, src: Source::Imm(high) },
        Step::Unless(op, own) => Insn::Branch { op, width, dst, src: end(own), offset: 0 },
        Step::Set(own) => Insn::Alu { op: AluOp::Mov, width, dst, src: end(own) },
    }
}
