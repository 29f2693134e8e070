//! Checks that end a run where it would be unsafe, for what is not proved.

use kiln_program::{InsnId, Object};
use kiln_verifier::{Reason, Rejection};

use crate::means::{self, Change};
use crate::places::{self, Place};
use crate::range::Range;
use crate::search::{Removed, Search};

/// Other numbers that are tried for whether they decide, too.
const MOST_OTHERS: usize = 6;

impl Search<'_> {
    /// Ends the run where the number that decides is outside of its range. The number has to decide alone: then just
    /// outside of the range every state is unsafe. In a packet no number does: the verifier only knows how long it is at
    /// least. If the rejection is about what a pointer is, only a check for null where it is used tells.
    pub(super) fn guard_one(&mut self, object: &Object, rejection: &Rejection) -> Option<Removed> {
        let value = self.guard?;
        let null = matches!(rejection.reason, Reason::PossiblyNull | Reason::NotAPointer);
        let bounds = [
            Reason::MapValueBounds,
            Reason::MemoryBounds,
            Reason::StackBounds,
            Reason::UnboundedOffset,
            Reason::ArgumentSize,
        ];
        if !null && !bounds.contains(&rejection.reason) {
            return None;
        }
        let at = rejection.insn;
        let (places, entry) = (places::near(object, self.program, at), self.program.entry);
        let is_own = |place: &Place| object.function(entry).nodes.get(place.position).is_some_and(|node| node.id == at);
        for place in places.iter().filter(|place| place.function == entry && (!null || is_own(place))) {
            let range = match null {
                true => Some(means::NOT_NULL),
                false => self.range_of(object, at, place),
            };
            let Some(range) = range.filter(|_| (self.go_on)()) else { continue };
            if !null && !self.decides(object, at, place, range, &places) {
                continue;
            }
            for means in means::GUARDS {
                let guarded = means.apply(object, place, range, value);
                let removed = guarded.and_then(|(changed, change)| {
                    self.judged(changed, Change { ends_with: Some(value), ..change }, at)
                });
                let Some(removed) = removed else { continue };
                // What later changes are proved against has this guard, too.
                self.base = removed.0.clone();
                return Some(removed);
            }
        }
        None
    }

    /// Whether no other number near the instruction makes up for one just outside of the range.
    fn decides(&self, object: &Object, at: InsnId, place: &Place, [low, high]: Range, places: &[Place]) -> bool {
        let outside = [low.checked_sub(1).filter(|low| *low >= 0), high.checked_add(1)];
        let outside = outside.into_iter().flatten();
        outside.into_iter().all(|number| {
            let Some((fixed, _)) = means::PROBE.apply(object, place, [number, number], 0) else { return false };
            let others = places::near(&fixed, self.program, at);
            let same = |other: &&Place| places.iter().any(|own| own.register == other.register);
            !others.iter().filter(|other| other.register != place.register).filter(same).take(MOST_OTHERS).any(
                |other| {
                    [0, 1]
                        .into_iter()
                        .any(|value| self.try_change(&fixed, at, other, [value, value], &means::PROBE).is_some())
                },
            )
        })
    }
}
