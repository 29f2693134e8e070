//! Repairs a safe program that the verifier rejects all the same.
//!
//! A compiler tests one register and uses another, and the verifier does not connect the two:
//!
//! ```text
//!   3: r2 = r1                      3: r2 = r1
//!   4: r2 += -1                     4: r2 += -1
//!   5: if r2 > 63 goto 9            5: if r2 > 63 goto 9
//!   6: r0 += r1    (no bound)  -->     if r1 <= 64 goto 6     never false: r1 is 1 to 64 here
//!                                      r1 = 64
//!                                   6: r0 += r1
//! ```
//!
//! [`repair`] looks for a register near the rejected instruction ([`places`]) that the verifier would accept in some
//! range, and for the widest such range by bisection ([`range`]). It then tries [`means::MEANS`], the cheapest first.
//! A change is kept only if the verifier accepts it **and** the caller's proof says that the program still does the
//! same. So nothing here is trusted: a wrong proposal costs time only.
#![forbid(unsafe_code)]

pub mod means;
mod places;
mod range;

use kiln_isa::Reg;
use kiln_program::{FunctionId, InsnId, Object, Program, SourceLine};
use kiln_verifier::{Error, Options, Rejection};

use crate::means::Means;
use crate::places::Place;
use crate::range::Range;

/// Changes to one program at most; each removes one rejection.
const MAX_CHANGES: usize = 16;

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
}

/// What became of a program.
#[derive(Debug)]
pub enum Outcome {
    /// The verifier accepts it as it is.
    Accepted,
    /// The verifier accepts it with these changes, and each is proved to change nothing.
    Repaired(Object, Vec<Change>),
    /// It is as it was.
    Undecided(Undecided),
}

/// A program that was not repaired.
#[derive(Debug)]
pub struct Undecided {
    /// How the verifier rejects the original program; none for a limit.
    pub rejection: Option<Box<Rejection>>,
    /// Why it was not repaired.
    pub reason: String,
    /// How many rejections were removed before the one that could not be.
    pub removed: usize,
    /// A change that the verifier would accept, and that is not proved to change nothing.
    pub unproved: Option<Change>,
}

/// Repairs a program. `prove` says whether a changed object does what the original does, or why that is not known;
/// `go_on` is asked before each step and ends the search by `false`.
pub fn repair(
    original: &Object,
    program: &Program,
    options: &Options,
    prove: &mut dyn FnMut(&Object) -> Result<(), String>,
    go_on: &mut dyn FnMut() -> bool,
) -> Outcome {
    let options = Options { skip_facts: true, explain: false, ..options.clone() };
    let first = match check(original, program, &options) {
        Standing::Accepted => return Outcome::Accepted,
        Standing::Unknown(reason) => {
            return Outcome::Undecided(Undecided { rejection: None, reason, removed: 0, unproved: None });
        }
        Standing::Rejected(rejection) => rejection,
    };
    let mut search = Search { program, options, prove, go_on, unproved: None };
    let (mut object, mut changes) = (original.clone(), Vec::new());
    let mut current = first.clone();
    let reason = loop {
        if changes.len() == MAX_CHANGES {
            break format!("it is still rejected after {MAX_CHANGES} changes");
        }
        match search.remove(&object, &current) {
            Ok((next, change, standing)) => {
                object = next;
                changes.push(change);
                match standing {
                    Some(rejection) => current = rejection,
                    None => {
                        search.drop_needless(&mut object, &mut changes);
                        return Outcome::Repaired(object, changes);
                    }
                }
            }
            Err(reason) => break reason,
        }
    };
    let unproved = search.unproved.take();
    Outcome::Undecided(Undecided { rejection: Some(first), reason, removed: changes.len(), unproved })
}

/// What the verifier says.
enum Standing {
    Accepted,
    Rejected(Box<Rejection>),
    Unknown(String),
}

fn check(object: &Object, program: &Program, options: &Options) -> Standing {
    match kiln_verifier::verify(object, program, options) {
        Ok(_) => Standing::Accepted,
        Err(Error::Rejected(rejection)) => Standing::Rejected(rejection),
        Err(error) => Standing::Unknown(error.to_string()),
    }
}

struct Search<'s> {
    program: &'s Program,
    options: Options,
    prove: &'s mut dyn FnMut(&Object) -> Result<(), String>,
    go_on: &'s mut dyn FnMut() -> bool,
    unproved: Option<Change>,
}

type Removed = (Object, Change, Option<Box<Rejection>>);

impl Search<'_> {
    /// Removes one rejection; returns the changed object, and the rejection that follows if there is one.
    fn remove(&mut self, object: &Object, rejection: &Rejection) -> Result<Removed, String> {
        let mut reason = None;
        for place in places::near(object, self.program, rejection.insn) {
            for seed in range::seeds(object.function(place.function)) {
                if !(self.go_on)() {
                    return Err("there was no time to go on".to_owned());
                }
                let mut accepts = |range: Range| {
                    let standing = self.try_change(object, rejection.insn, &place, range, &means::PROBE);
                    standing.is_some()
                };
                let Some(widest) = range::widest(seed, &mut accepts) else { continue };
                match self.prove_one(object, rejection.insn, &place, widest) {
                    Ok(removed) => return Ok(removed),
                    Err(why) => reason = reason.or(Some(why)),
                }
                // Another seed is in the same range, or in one that only another place needs.
                break;
            }
        }
        let none = || "no range of one number near the instruction makes the verifier accept it".to_owned();
        Err(reason.unwrap_or_else(none))
    }

    /// Tries the means for a range in turn. Why the last one is not proved is the reason; it is the least strict one.
    fn prove_one(&mut self, object: &Object, at: InsnId, place: &Place, range: Range) -> Result<Removed, String> {
        let mut reason = String::new();
        for means in means::MEANS {
            let Some((changed, change, standing)) = self.try_change(object, at, place, range, means) else { continue };
            match (self.prove)(&changed) {
                Ok(()) => return Ok((changed, change, standing)),
                Err(why) => {
                    reason = format!(
                        "that {} is {} to {} is not proved: {why}",
                        change.register, change.range[0], change.range[1]
                    );
                    self.unproved.get_or_insert(change);
                }
            }
        }
        Err(reason)
    }

    /// Makes a change; returns it if it removes the rejection at `at`.
    fn try_change(
        &self,
        object: &Object,
        at: InsnId,
        place: &Place,
        range: Range,
        means: &'static Means,
    ) -> Option<Removed> {
        let (changed, change) = means.apply(object, place, range)?;
        match check(&changed, self.program, &self.options) {
            Standing::Accepted => Some((changed, change, None)),
            Standing::Rejected(next) if next.insn != at && !change.inserted.contains(&next.insn) => {
                Some((changed, change, Some(next)))
            }
            _ => None,
        }
    }

    /// Drops changes that those after them made needless.
    fn drop_needless(&mut self, object: &mut Object, changes: &mut Vec<Change>) {
        let mut index = 0;
        while index < changes.len() && changes.len() > 1 {
            let mut without = object.clone();
            means::take_out(&mut without, &changes[index]);
            let accepted = matches!(check(&without, self.program, &self.options), Standing::Accepted);
            if accepted && (self.prove)(&without).is_ok() {
                *object = without;
                changes.remove(index);
            } else {
                index += 1;
            }
        }
    }
}
