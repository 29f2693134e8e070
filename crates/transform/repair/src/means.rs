//! How a range is made known to the verifier, as data: instructions that change nothing while the number is in it.

use kiln_isa::{AluOp, Insn, JumpOp, Reg, Source, Width};
use kiln_program::{FunctionId, InsnId, Node, Object, Reference, SourceLine};

use crate::places::Place;
use crate::range::Range;

/// What was inserted.
#[derive(Clone, Debug)]
pub struct Change {
    /// The function.
    pub function: FunctionId,
    /// The instruction in front of which it was inserted.
    pub before: InsnId,
    /// The number that it is about.
    pub register: Reg,
    /// The range that the verifier needs, ends included.
    pub range: [i32; 2],
    /// How it makes the range known.
    pub means: &'static Means,
    /// The source line, where known.
    pub line: Option<SourceLine>,
    /// The ids of the inserted instructions.
    pub inserted: Vec<InsnId>,
    /// The value with which it ends the run, if it is a guard.
    pub ends_with: Option<i32>,
}

/// One instruction of a means. `low` and `high` are the ends of the range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// `r &= high`.
    And,
    /// If `r OP end` does not hold, the next step sets it.
    Unless(JumpOp, End),
    /// `r = end`.
    Set(End),
    /// If the number is 0, the run ends.
    UnlessZero,
    /// `r = 0`.
    Zero,
    /// The run ends with the guard's value: two instructions.
    End,
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
    /// What an author would write by hand, with the number as `n`; empty where no line of C says it.
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

/// Makes a global function static. The kernel verifies a global function alone, for all arguments that its types allow,
/// and a static one where it is called. No instruction changes.
pub(crate) static STATIC: Means = Means { name: "static function", source: "static", steps: &[], is_for: |_| true };

/// Sends a branch past instructions that it only passes through. No line of C says that.
pub(crate) static SPLIT: Means = Means { name: "path split", source: "", steps: &[], is_for: |_| true };

/// Copies accesses through a moved pointer for each distance by which it is moved.
pub(crate) static COPY: Means = Means {
    name: "copy for each offset",
    source: "#pragma clang loop unroll(full) // in front of the loop",
    steps: &[],
    is_for: |_| true,
};

/// Copies the test of a loop behind the store of the number that it tests. No line of C says that.
pub(crate) static FORWARD: Means = Means { name: "stored number tested", source: "", steps: &[], is_for: |_| true };

/// Bounds a number by what another one leaves of a sum, with a state for each value of the other. No line of C says that.
pub(crate) static SUM: Means = Means { name: "bound of a sum", source: "", steps: &[], is_for: |_| true };

/// Divides numbers by 1, so that the verifier forgets them and explores fewer states.
pub(crate) static FORGET: Means =
    Means { name: "number forgotten", source: "asm volatile(\"%0 /= 1\" : \"+r\"(n));", steps: &[], is_for: |_| true };

/// Turns a branch, so that the verifier explores the other way first. No line of C says that.
pub(crate) static TURN: Means = Means { name: "branch turned", source: "", steps: &[], is_for: |_| true };

/// Compares a pointer with the packet's end before an access.
pub(crate) static PACKET_END: Means = Means {
    name: "comparison with data_end",
    source: "if (n + size > data_end) return 0;",
    steps: &[],
    is_for: |_| true,
};

/// Gives a register a value, in front of an instruction that reads it or where the function begins: the verifier finds a
/// path on which it holds nothing there.
pub(crate) static INITIALIZE: Means =
    Means { name: "initialisation", source: "n = 0;", steps: &[Step::Zero], is_for: |_| true };

/// A check for null that never fails.
pub(crate) static NULL_CHECK: Means = Means {
    name: "null check that never fails",
    source: "if (!n) return 0;",
    steps: &[Step::UnlessZero, Step::End],
    is_for: |range| range == NOT_NULL,
};

/// Ends the run where the number is outside of the range.
pub(crate) static GUARDS: &[&Means] = &[
    &Means {
        name: "guard against null",
        source: "if (!n) return VALUE;",
        steps: &[Step::UnlessZero, Step::End],
        is_for: |range| range == NOT_NULL,
    },
    &Means {
        name: "guard from above",
        source: "if (n > HIGH) return VALUE;",
        steps: &[Step::Unless(JumpOp::Le, End::High), Step::End],
        is_for: |[low, _]| low == 0,
    },
    &Means {
        name: "guard from below",
        source: "if (n < LOW || n > HIGH) return VALUE;",
        steps: &[Step::Unless(JumpOp::Ge, End::Low), Step::End, Step::Unless(JumpOp::Le, End::High), Step::End],
        is_for: |[low, high]| low > 0 && [low, high] != NOT_NULL,
    },
];

/// The check that ends the run outside of a range.
pub(crate) fn check_of(range: Range) -> &'static Means {
    GUARDS.iter().find(|means| (means.is_for)(range)).copied().unwrap_or(&NULL_CHECK)
}

/// The range that stands for a pointer that is not null.
pub(crate) const NOT_NULL: Range = [1, -1];

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
    /// Whether it is about a range of a number.
    pub fn has_range(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::And | Step::Unless(..)))
    }

    /// Whether it inserts other instructions than its steps, or changes some.
    pub(crate) fn replaces(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether it is about a register.
    pub fn has_register(&self) -> bool {
        !self.steps.is_empty() || [&COPY, &SUM, &PACKET_END, &FORGET].into_iter().any(|own| std::ptr::eq(self, own))
    }

    /// Inserts the instructions in front of a place. Branches to that place lead to them. A guard ends the run with
    /// `value`.
    pub(crate) fn apply(
        &'static self,
        object: &Object,
        place: &Place,
        range: Range,
        value: i32,
    ) -> Option<(Object, Change)> {
        if !(self.is_for)(range) {
            return None;
        }
        let mut changed = object.clone();
        let old = object.function(place.function).nodes.get(place.position)?;
        // The instructions of each step.
        let steps: Vec<Vec<Node>> = self
            .steps
            .iter()
            .map(|step| {
                let insns = match step {
                    Step::End => vec![Insn::mov_imm(Reg::R0, value), Insn::Exit],
                    step => vec![insn(*step, place, range)],
                };
                insns.into_iter().map(|insn| changed.new_node(insn, Reference::None)).collect()
            })
            .collect();
        let first_of = |step: usize| steps.get(step).map_or(old.id, |nodes| nodes[0].id);
        let targets: Vec<InsnId> = (0..steps.len()).map(|step| first_of(step + 2)).collect();
        let mut nodes = Vec::new();
        for (own, target) in steps.into_iter().zip(targets) {
            for mut node in own {
                node.line = old.line;
                if matches!(node.insn, Insn::Branch { .. }) {
                    node.reference = Reference::Branch(target);
                }
                nodes.push(node);
            }
        }
        let inserted: Vec<InsnId> = nodes.iter().map(|node| node.id).collect();
        let first = *inserted.first()?;
        let function = changed.functions.get_mut(place.function.index())?;
        // Where the function begins, a loop may begin, too, and on other paths the register may hold something.
        if !std::ptr::eq(self, &INITIALIZE) {
            retarget(function, old.id, first);
        }
        function.nodes.splice(place.position..place.position, nodes);
        let line = object.line(old).cloned();
        let (function, before, register) = (place.function, old.id, place.register);
        Some((changed, Change { function, before, register, range, means: self, line, inserted, ends_with: None }))
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

pub(crate) fn retarget(function: &mut kiln_program::Function, from: InsnId, to: InsnId) {
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
        Step::UnlessZero => Insn::Branch { op: JumpOp::Ne, width, dst, src: Source::Imm(0), offset: 0 },
        Step::Zero => Insn::Alu { op: AluOp::Mov, width, dst, src: Source::Imm(0) },
        Step::End => Insn::Exit,
    }
}
