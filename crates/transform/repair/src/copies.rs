//! Which copies of accesses through a moved pointer a program needs: see [`moved`].
//!
//! If the number is a constant on each path, as in a loop that the verifier follows turn by turn, the accesses themselves
//! stay behind the copies, and each rejection says which copy is missing. If it is a number of several values, such as
//! `n & 12`, the verifier does not tell one from another. Then every value is tried, and a run with any other ends. Two
//! proofs, with different values at that end, say that there is no such run.

use kiln_program::Object;
use kiln_verifier::{Reason, Rejection};

use crate::means::{self, Change};
use crate::moved::{self, Accesses, Case, Otherwise};
use crate::search::{Removed, Search, Standing, UNLIKELY, check};

/// Distances of one pointer that get a copy of its accesses.
const MAX_COPIES: usize = 16;
/// Differences between the values of a number that are tried.
const STEPS: [i32; 4] = [8, 4, 2, 1];

impl Search<'_> {
    /// Copies accesses through a moved pointer for each distance by which it is moved; `None` if the verifier does not
    /// accept that.
    pub(crate) fn copy(&mut self, object: &Object, rejection: &Rejection) -> Option<Result<Removed, String>> {
        if rejection.reason != Reason::ContextAccess {
            return None;
        }
        let found = moved::around(object, self.program, rejection.insn);
        let Some(by) = rejection.moved_by() else { return self.copy_each(object, &found) };
        let by = i32::try_from(by).ok()?;
        let removed = found.iter().find_map(|accesses| self.copies(object, accesses, by))?;
        let proved = (self.prove)(&self.base, &removed.0);
        Some(self.told(removed, proved))
    }

    fn told(&mut self, removed: Removed, proved: Result<(), String>) -> Result<Removed, String> {
        match proved {
            Ok(()) => Ok(removed),
            Err(why) => {
                self.note_unproved(removed.1, removed.2.as_deref());
                Err(format!("that a copy for each offset does the same is not proved: {why}"))
            }
        }
    }

    /// A copy for each distance of the pointer with which the verifier rejects the accesses, beginning with one.
    fn copies(&mut self, object: &Object, accesses: &Accesses, first: i32) -> Option<Removed> {
        let mut distances = vec![first];
        while distances.len() <= MAX_COPIES && (self.go_on)() {
            let cases: Option<Vec<Case>> = distances.iter().map(|distance| accesses.case(*distance)).collect();
            let (changed, inserted) = moved::apply(object, accesses, &cases?, Otherwise::Same)?;
            let standing = match check(&changed, self.program, &self.verifier) {
                Standing::Accepted => None,
                Standing::Rejected(next) if accesses.contain(object, next.insn) => {
                    let distance = i32::try_from(next.moved_by()?).ok()?;
                    if distances.contains(&distance) {
                        return None;
                    }
                    distances.push(distance);
                    continue;
                }
                Standing::Rejected(next) if !inserted.contains(&next.insn) => Some(next),
                _ => return None,
            };
            return Some((changed, Change::copy(object, accesses, inserted)?, standing));
        }
        None
    }

    /// A copy for each value that a number may have, and an end for all others that no run reaches.
    fn copy_each(&mut self, object: &Object, found: &[Accesses]) -> Option<Result<Removed, String>> {
        let mut last = None;
        for accesses in found.iter().filter(|accesses| accesses.is_first()) {
            for step in STEPS {
                let cases = self.cases(object, accesses, step);
                let Some(removed) = self.ends_otherwise(object, accesses, &cases, 0) else { continue };
                let proved = UNLIKELY.into_iter().chain([0]).try_for_each(|value| {
                    let with = moved::apply(object, accesses, &cases, Otherwise::Ends(value));
                    let (changed, _) = with.ok_or("there is no copy for it")?;
                    (self.prove)(&self.base, &changed)
                });
                match self.told(removed, proved) {
                    Ok(removed) => return Some(Ok(removed)),
                    Err(why) => last = Some(Err(why)),
                }
            }
        }
        last
    }

    /// The values that a number may have as far as the verifier knows, with the distance of the pointer for each.
    fn cases(&mut self, object: &Object, accesses: &Accesses, step: i32) -> Vec<Case> {
        let mut cases = Vec::new();
        for value in (0..MAX_COPIES as i32).map(|number| number * step) {
            let probe = Case { value, distance: 0 };
            let Some((probed, inserted)) = moved::apply(object, accesses, &[probe], Otherwise::Ends(0)) else { break };
            if !(self.go_on)() {
                break;
            }
            match check(&probed, self.program, &self.verifier) {
                Standing::Rejected(next) if inserted.contains(&next.insn) => {
                    let distance = next.moved_by().and_then(|by| i32::try_from(by).ok());
                    cases.extend(distance.map(|distance| Case { value, distance }));
                }
                // Nothing is wrong with a pointer that is not moved.
                _ if value == 0 => cases.push(probe),
                _ => {}
            }
        }
        cases
    }

    fn ends_otherwise(&self, object: &Object, accesses: &Accesses, cases: &[Case], value: i32) -> Option<Removed> {
        let (changed, inserted) = moved::apply(object, accesses, cases, Otherwise::Ends(value))?;
        let at = object.function(accesses.function).nodes.get(accesses.range.start)?.id;
        self.judged(changed, Change::copy(object, accesses, inserted)?, at)
    }
}

impl Change {
    fn copy(object: &Object, accesses: &Accesses, inserted: Vec<kiln_program::InsnId>) -> Option<Change> {
        let first = object.function(accesses.function).nodes.get(accesses.range.start)?;
        let line = object.line(first).cloned();
        let change = Change::without_number(accesses.function, first.id, &means::COPY, line);
        Some(Change { register: accesses.number, inserted, ..change })
    }
}
