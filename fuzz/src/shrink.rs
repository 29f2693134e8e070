//! Shrinks a program that the optimizer miscompiles.
//!
//! ```text
//!   drop runs of instructions: half of them, a quarter, ... one      a branch to one goes to what stands after it
//!   smaller numbers: 0, 1, half                                      one goal, one input
//!   functions and maps that nothing refers to any more
//! ```
//!
//! The result is a filetest with the original's result for the input that shows the difference.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use kiln_isa::{Imm64, Insn, Source};
use kiln_program::{Object, text};
use kiln_vm::Engine;

use crate::differential::{Difference, Plan, compare, in_vm, options};
use crate::part::without_nodes;
use crate::subject::{Subject, Verdict};

/// Numbers to try instead of one.
const CHANGES: [fn(i64) -> i64; 4] = [|_| 0, |_| 1, |number| number / 2, |number| number - number.signum()];

/// A program that still fails, and how.
struct Shrinking<'a> {
    best: Object,
    difference: Difference,
    fails: &'a dyn Fn(&Object) -> Option<Difference>,
    end: Instant,
    /// Whether it became smaller in this round.
    smaller: bool,
}

/// Shrinks a program for which [`compare`] finds a difference. `None` if it finds none.
pub fn shrink(subject: &Subject, object: &Object, plan: &Plan, time: Duration) -> Option<(Object, Difference)> {
    let difference = compare(subject, object, plan)?.err()?;
    let (kernel, interpreter) = (difference.engine == "kernel", difference.engine == "interpreter");
    let plan = Plan { goals: vec![difference.goal], kernel, interpreter, ..plan.clone() };
    let fails = |object: &Object| {
        let Verdict::Accepted(_) = (subject.verify)(object, &object.programs[0]) else { return None };
        compare(subject, object, &plan)?.err()
    };
    let end = Instant::now() + time;
    let mut shrinking = Shrinking { best: object.clone(), difference, fails: &fails, end, smaller: true };
    while shrinking.smaller && Instant::now() < end {
        shrinking.smaller = false;
        shrinking.drop_instructions();
        shrinking.smaller_numbers();
    }
    Some((shrinking.best, shrinking.difference))
}

impl Shrinking<'_> {
    /// Takes a candidate if it still fails.
    fn attempt(&mut self, candidate: Object) -> bool {
        if Instant::now() >= self.end {
            return false;
        }
        let Some(difference) = (self.fails)(&candidate) else { return false };
        (self.best, self.difference, self.smaller) = (candidate, difference, true);
        true
    }

    fn drop_instructions(&mut self) {
        for function in 0..self.best.functions.len() {
            let mut piece = self.best.functions.get(function).map_or(0, |function| function.nodes.len()) / 2;
            while piece > 0 {
                let mut at = 0;
                while let Some(count) = self.best.functions.get(function).map(|function| function.nodes.len())
                    && at < count
                {
                    let end = (at + piece).min(count);
                    let gone = self.best.functions[function].nodes[at..end].iter().map(|node| node.id).collect();
                    let candidate = without_nodes(&self.best, &gone);
                    if !candidate.is_some_and(|candidate| self.attempt(candidate)) {
                        at += piece;
                    }
                }
                piece /= 2;
            }
        }
    }

    fn smaller_numbers(&mut self) {
        for function in 0..self.best.functions.len() {
            let count = self.best.functions.get(function).map_or(0, |function| function.nodes.len());
            for at in 0..count {
                for change in CHANGES {
                    let mut candidate = self.best.clone();
                    let node = candidate.functions.get_mut(function).and_then(|function| function.nodes.get_mut(at));
                    if node.is_some_and(|node| with_number(&mut node.insn, change)) {
                        self.attempt(candidate);
                    }
                }
            }
        }
    }
}

/// Whether an instruction holds a number, which is then changed, to one that is closer to zero.
fn with_number(insn: &mut Insn, change: fn(i64) -> i64) -> bool {
    let closer = |old: i64| Some(change(old)).filter(|new| new.unsigned_abs() < old.unsigned_abs());
    match insn {
        Insn::Alu { src: Source::Imm(imm), .. }
        | Insn::Branch { src: Source::Imm(imm), .. }
        | Insn::Store { src: Source::Imm(imm), .. } => {
            let new = closer(i64::from(*imm));
            *imm = new.map_or(*imm, |new| new as i32);
            new.is_some()
        }
        Insn::LoadImm64 { imm: Imm64::Value(value), .. } => {
            let new = closer(*value as i64);
            *value = new.map_or(*value, |new| new as u64);
            new.is_some()
        }
        _ => false,
    }
}

/// The program as a filetest, and what the optimizer makes of it as a comment.
pub fn filetest(subject: &Subject, object: &Object, plan: &Plan, difference: &Difference) -> String {
    let listing = text::print(object);
    let listing: String =
        listing.lines().filter(|line| !line.starts_with("; insn ")).flat_map(|line| [line, "\n"]).collect();
    let mut file = format!("# Optimized for {} it {}.\n", difference.goal.name(), difference.what);
    let mut directives = String::from("; check: accept\n");
    if let Some(input) = &difference.input
        && let Ok((trace, _)) = in_vm(object, std::slice::from_ref(input), Engine::Jit)
    {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = writeln!(directives, "; run: packet {hex} => return {:#x}", trace[0].0);
    }
    // Directives stand after what the program is.
    let (head, body) = match listing.find("\n  ") {
        Some(at) => listing.split_at(at + 1),
        None => ("", listing.as_str()),
    };
    file.push_str(head);
    file.push_str(&directives);
    file.push_str(body);
    let goals = vec![difference.goal];
    let plan = Plan { goals, interpreter: true, kernel: difference.engine == "kernel", ..plan.clone() };
    let rewrite = (subject.optimize)(object, &options(difference.goal, &plan));
    let names: BTreeSet<&str> = rewrite.evidence.iter().map(|one| one.because.name()).collect();
    let needed = names.into_iter().filter(|name| {
        let plan = Plan { without: BTreeSet::from([(*name).to_owned()]), ..plan.clone() };
        compare(subject, object, &plan).is_some_and(|compared| compared.is_ok())
    });
    let needed: Vec<&str> = needed.collect();
    let _ = writeln!(file, "\n# It takes: {}. Optimized, {}:", needed.join(", "), difference.engine);
    for line in text::listing(&rewrite.object).lines() {
        let _ = writeln!(file, "#   {line}");
    }
    for one in &rewrite.evidence {
        let _ = writeln!(file, "# {}: {:?} -> {:?}", one.because.name(), one.before, one.after);
    }
    file
}
