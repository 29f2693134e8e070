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

mod copies;
mod end_value;
mod forget;
mod forward;
mod guards;
pub mod means;
mod moved;
mod packet;
mod places;
mod range;
mod search;
mod split;
mod sums;
mod turn;

use std::collections::HashSet;

pub use end_value::{EndValue, end_value};
use kiln_program::{FunctionId, InsnId, Linkage, Node, Object, Program};
use kiln_verifier::{Options, Reason, Rejection};
pub use means::Change;
pub use search::{Loaded, Prove, Verifier};

use crate::means::Means;
use crate::places::Place;
use crate::range::Range;
use crate::search::{Removed, Search, Standing, UNLIKELY, check, line_of};
use crate::split::Shortcut;

/// Changes to one program at most; each removes one rejection.
const MAX_CHANGES: usize = 16;
/// What became of a program.
#[derive(Debug)]
pub enum Outcome {
    /// The verifier accepts it as it is.
    Accepted,
    /// The verifier accepts it with these changes. Each is proved to change nothing, or it is a guard.
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

/// Repairs a program. `go_on` is asked before each step and ends the search by `false`. With `guard`, what is not proved
/// becomes a check that ends the run with that value. What is proved is then proved of the program with those checks.
pub fn repair(
    original: &Object,
    program: &Program,
    verifier: &Verifier<'_>,
    guard: Option<i32>,
    prove: &mut Prove<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Outcome {
    let options = Options { skip_facts: true, explain: false, ..verifier.options.clone() };
    let verifier = Verifier { options, loaded: verifier.loaded };
    let first = match check(original, program, &verifier) {
        Standing::Accepted => return Outcome::Accepted,
        Standing::Unknown(reason) => {
            return Outcome::Undecided(Undecided { rejection: None, reason, removed: 0, unproved: None });
        }
        Standing::Rejected(rejection) => rejection,
    };
    let base = original.clone();
    let reached = original.reachable_functions(program.entry);
    let mut functions = reached.iter().filter_map(|id| original.functions.get(id.index()));
    if let Some(function) = functions.find(|function| function.jumps_indirectly()) {
        let reason = format!("function {} jumps indirectly (gotox), which no change is proved over", function.name);
        return Outcome::Undecided(Undecided { rejection: Some(first), reason, removed: 0, unproved: None });
    }
    let mut search = Search { program, verifier, guard, base, prove, go_on, unproved: None };
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

impl Search<'_> {
    /// Removes one rejection; returns the changed object, and the rejection that follows if there is one.
    fn remove(&mut self, object: &Object, rejection: &Rejection) -> Result<Removed, String> {
        let mut reason = None;
        if rejection.reason == Reason::TooComplex {
            return self.simplify(object, rejection);
        }
        if let Some(removed) = self.make_static(object, rejection) {
            return Ok(removed);
        }
        if let Some(removed) = self.split(object, rejection) {
            return Ok(removed);
        }
        match self.copy(object, rejection) {
            Some(Ok(removed)) => return Ok(removed),
            Some(Err(why)) => reason = Some(why),
            None => {}
        }
        match self.forward(object, rejection) {
            Some(Ok(removed)) => return Ok(removed),
            Some(Err(why)) => reason = reason.or(Some(why)),
            None => {}
        }
        match self.packet_end(object, rejection) {
            Some(Ok(removed)) => return Ok(removed),
            Some(Err(why)) => reason = reason.or(Some(why)),
            None => {}
        }
        let (register, null) = (Reason::UninitializedRegister, Reason::PossiblyNull);
        for (own, means, places) in [
            (register, &means::INITIALIZE, places::read(object, self.program, rejection.insn)),
            (null, &means::NULL_CHECK, places::near(object, self.program, rejection.insn)),
        ] {
            for place in places.iter().filter(|_| rejection.reason == own) {
                match self.prove_with(object, rejection.insn, place, means::NOT_NULL, means) {
                    Some(Ok(removed)) => return Ok(removed),
                    Some(Err(why)) => reason = reason.or(Some(why)),
                    None => {}
                }
            }
        }
        for place in places::near(object, self.program, rejection.insn) {
            for seed in range::seeds(object.function(place.function)) {
                if !(self.go_on)() {
                    return Err("the search ended before it was through".to_owned());
                }
                let Some(widest) = self.widest(object, rejection.insn, &place, seed) else { continue };
                match self.prove_one(object, rejection.insn, &place, widest) {
                    Ok(removed) => return Ok(removed),
                    Err(why) => reason = reason.or(Some(why).filter(|why| !why.is_empty())),
                }
                // Another seed is in the same range, or in one that only another place needs.
                break;
            }
        }
        match self.sum(object, rejection) {
            Some(Ok(removed)) => return Ok(removed),
            Some(Err(why)) => reason = reason.or(Some(why)),
            None => {}
        }
        if let Some(removed) = self.guard_one(object, rejection) {
            return Ok(removed);
        }
        let none = || "no range of one number near the instruction makes the verifier accept it".to_owned();
        Err(reason.unwrap_or_else(none))
    }

    /// Makes a global function static: the one that a rejected instruction calls, the one that it is in, or one whose result
    /// may be at fault.
    fn make_static(&mut self, object: &Object, rejection: &Rejection) -> Option<Removed> {
        let at = rejection.insn;
        let reached = object.reachable_functions(self.program.entry);
        let own = reached.into_iter().find(|id| object.function(*id).position(at).is_some())?;
        let nodes = &object.function(own).nodes;
        let position = object.function(own).position(at)?;
        let called = nodes[..=position].iter().rev().filter_map(Node::callee);
        let mut functions: Vec<FunctionId> = called.collect();
        functions.insert(usize::from(nodes[position].callee().is_some()), own);
        let mut seen = HashSet::new();
        // Another object's function may take the place of a weak one.
        functions.retain(|id| {
            *id != self.program.entry && object.function(*id).linkage == Linkage::Global && seen.insert(*id)
        });
        for function in functions {
            let mut changed = object.clone();
            changed.functions.get_mut(function.index())?.linkage = Linkage::Static;
            let change = Change::without_number(function, at, &means::STATIC, rejection.line.clone());
            let Some(removed) = self.judged(changed, change, at).filter(|_| (self.go_on)()) else { continue };
            if (self.prove)(&self.base, &removed.0).is_ok() {
                return Some(removed);
            }
        }
        None
    }

    /// Sends a branch past the rejected instruction, if it only passes through.
    fn split(&mut self, object: &Object, rejection: &Rejection) -> Option<Removed> {
        for shortcut in split::shortcuts(object, self.program, rejection.insn) {
            let changed = split::apply(object, shortcut)?;
            let Shortcut { function, branch, .. } = shortcut;
            let line = line_of(object, function, branch);
            let change = Change::without_number(function, branch, &means::SPLIT, line);
            let Some(removed) = self.judged(changed, change, rejection.insn) else { continue };
            if (self.prove)(&self.base, &removed.0).is_ok() {
                return Some(removed);
            }
        }
        None
    }

    /// Copies the test of a loop behind the store of the number that it tests.
    fn forward(&mut self, object: &Object, rejection: &Rejection) -> Option<Result<Removed, String>> {
        if rejection.reason != Reason::InfiniteLoop {
            return None;
        }
        let mut last = None;
        for own in forward::forwarded(object, self.program, rejection.insn) {
            let Some((changed, inserted)) = forward::apply(object, &own).filter(|_| (self.go_on)()) else { continue };
            let line = line_of(object, own.function, own.store);
            let change = Change::without_number(own.function, own.store, &means::FORWARD, line);
            let Some(removed) = self.judged(changed, Change { inserted, ..change }, rejection.insn) else { continue };
            match (self.prove)(&self.base, &removed.0) {
                Ok(()) => return Some(Ok(removed)),
                Err(why) => {
                    self.note_unproved(removed.1, removed.2.as_deref());
                    last = Some(Err(format!("that the loop tests what it has stored is not proved: {why}")));
                }
            }
        }
        last
    }

    /// Changes what is explored, or in which order, so that fewer branches wait or fewer states differ.
    fn simplify(&mut self, object: &Object, rejection: &Rejection) -> Result<Removed, String> {
        if !rejection.is_of_waiting_branches() {
            let forgotten = self.forget(object, rejection);
            return forgotten.or_else(|why| self.turn(object, rejection).unwrap_or(Err(why)));
        }
        self.turn(object, rejection).unwrap_or_else(|| self.forget(object, rejection))
    }

    /// Turns the branches of one line in a loop, so that what is explored first ends soon.
    fn turn(&mut self, object: &Object, rejection: &Rejection) -> Option<Result<Removed, String>> {
        let mut last = None;
        for own in turn::lines(object, self.program) {
            let Some((changed, inserted)) = turn::apply(object, &own).filter(|_| (self.go_on)()) else { break };
            let &(function, branch) = own.first()?;
            let line = line_of(object, function, branch);
            let change = Change::without_number(function, branch, &means::TURN, line);
            let Some(removed) = self.judged(changed, Change { inserted, ..change }, rejection.insn) else { continue };
            if removed.2.as_ref().is_some_and(|next| next.reason == Reason::TooComplex) {
                continue;
            }
            match (self.prove)(&self.base, &removed.0) {
                Ok(()) => return Some(Ok(removed)),
                Err(why) => {
                    self.note_unproved(removed.1, removed.2.as_deref());
                    last = Some(Err(format!("that a branch turned changes nothing is not proved: {why}")));
                }
            }
        }
        last
    }

    /// Forgets sums of loops, as few as are needed, so that states are alike.
    fn forget(&mut self, object: &Object, rejection: &Rejection) -> Result<Removed, String> {
        let none = || "the program stays too complex, whatever sums its loops forget".to_owned();
        let mut chosen = Vec::new();
        let mut done = None;
        for own in forget::sums(object, self.program) {
            if !(self.go_on)() {
                return Err("the search ended before it was through".to_owned());
            }
            chosen.push(own);
            match self.without_sums(object, &chosen) {
                // Addresses cannot be divided, and some numbers are needed.
                None => drop(chosen.pop()),
                Some((_, _, true)) => {}
                Some((changed, inserted, false)) => {
                    done = Some((changed, inserted));
                    break;
                }
            }
        }
        let mut done = done.ok_or_else(none)?;
        let mut index = 0;
        while index < chosen.len() && chosen.len() > 1 && (self.go_on)() {
            let fewer: Vec<_> = chosen.iter().copied().filter(|own| *own != chosen[index]).collect();
            match self.without_sums(object, &fewer) {
                Some((changed, inserted, false)) => (done, chosen) = ((changed, inserted), fewer),
                _ => index += 1,
            }
        }
        let first = chosen.first().ok_or_else(none)?;
        let mut nodes = object.function(first.function).nodes.iter();
        let line = nodes.find(|node| node.id == first.after).and_then(|node| object.line(node)).cloned();
        let before = nodes.next().ok_or_else(none)?.id;
        let change = Change::without_number(first.function, before, &means::FORGET, line);
        let (changed, inserted) = done;
        let change = Change { register: first.register, inserted, ..change };
        let removed = self.judged(changed, change, rejection.insn).ok_or_else(none)?;
        match (self.prove)(&self.base, &removed.0) {
            Ok(()) => Ok(removed),
            Err(why) => {
                self.note_unproved(removed.1, removed.2.as_deref());
                Err(format!("that a division by 1 changes nothing is not proved: {why}"))
            }
        }
    }

    /// The object with divisions, what was inserted, and whether it is too complex all the same; `None` if it is rejected
    /// for something else.
    fn without_sums(&self, object: &Object, chosen: &[forget::Forgotten]) -> Option<(Object, Vec<InsnId>, bool)> {
        let (changed, inserted) = forget::apply(object, chosen)?;
        match check(&changed, self.program, &self.verifier) {
            Standing::Accepted => Some((changed, inserted, false)),
            Standing::Rejected(next) if next.reason == Reason::TooComplex => Some((changed, inserted, true)),
            _ => None,
        }
    }

    /// Compares a pointer with the packet's end, which it was not compared with on this path.
    fn packet_end(&mut self, object: &Object, rejection: &Rejection) -> Option<Result<Removed, String>> {
        if rejection.reason != Reason::PacketBounds {
            return None;
        }
        let mut last = None;
        for end in packet::ends(object, self.program, rejection.insn) {
            if !(self.go_on)() {
                break;
            }
            match self.compared_up_to(object, rejection, end) {
                Some(Ok(removed)) => return Some(Ok(removed)),
                other => last = other.or(last),
            }
        }
        last
    }

    /// Compares an access with the packet's end, with these bytes.
    fn compared_up_to(&mut self, object: &Object, rejection: &Rejection, end: i32) -> Option<Result<Removed, String>> {
        // The original cannot return both.
        let probed = packet::compared(object, self.program, rejection.insn, end, UNLIKELY[0])?;
        let own = packet::compared(object, self.program, rejection.insn, end, 0)?;
        let change =
            Change::without_number(self.program.entry, rejection.insn, &means::PACKET_END, rejection.line.clone());
        let change = Change { register: own.register, inserted: own.inserted, ..change };
        let removed = self.judged(own.object, change, rejection.insn)?;
        let proved = [&probed.object, &removed.0].into_iter().try_for_each(|own| (self.prove)(&self.base, own));
        Some(match proved {
            Ok(()) => Ok(removed),
            Err(why) => {
                self.note_unproved(removed.1, removed.2.as_deref());
                Err(format!("that the access ends before data_end is not proved: {why}"))
            }
        })
    }

    /// Makes a change that is not about a range; `None` if the verifier does not accept it.
    fn prove_with(
        &mut self,
        object: &Object,
        at: InsnId,
        place: &Place,
        range: Range,
        means: &'static Means,
    ) -> Option<Result<Removed, String>> {
        let (changed, change, standing) = self.try_change(object, at, place, range, means)?;
        let proved = match std::ptr::eq(means, &means::NULL_CHECK) {
            true => self.prove_range(object, place, range),
            false => Ok(()),
        };
        Some(match proved.and_then(|()| (self.prove)(&self.base, &changed)) {
            Ok(()) => Ok((changed, change, standing)),
            Err(why) => {
                let why = format!("that {} needs no {} is not proved: {why}", change.register, means.name);
                self.note_unproved(change, standing.as_deref());
                Err(why)
            }
        })
    }

    /// Tries the means for a range in turn. Why the last one is not proved is the reason; it is the least strict one.
    fn prove_one(&mut self, object: &Object, at: InsnId, place: &Place, range: Range) -> Result<Removed, String> {
        let mut reason = String::new();
        // The same for all means.
        let mut in_range = None;
        for means in means::MEANS {
            let Some((changed, change, standing)) = self.try_change(object, at, place, range, means) else { continue };
            let proved = in_range.get_or_insert_with(|| self.prove_range(object, place, range)).clone();
            match proved.and_then(|()| (self.prove)(&self.base, &changed)) {
                Ok(()) => return Ok((changed, change, standing)),
                Err(why) => {
                    reason = format!(
                        "that {} is {} to {} is not proved: {why}",
                        change.register, change.range[0], change.range[1]
                    );
                    self.note_unproved(change, standing.as_deref());
                }
            }
        }
        Err(reason)
    }

    /// Drops changes that those after them made needless.
    fn drop_needless(&mut self, object: &mut Object, changes: &mut Vec<Change>) {
        let mut index = 0;
        while index < changes.len() && changes.len() > 1 {
            let is_kept = |change: &Change| change.means.replaces() || change.ends_with.is_some();
            if changes.iter().any(is_kept) {
                return;
            }
            let mut without = object.clone();
            means::take_out(&mut without, &changes[index]);
            let accepted = matches!(check(&without, self.program, &self.verifier), Standing::Accepted);
            if accepted && (self.prove)(&self.base, &without).is_ok() {
                *object = without;
                changes.remove(index);
            } else {
                index += 1;
            }
        }
    }
}
