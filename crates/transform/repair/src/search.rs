//! What every way to repair a program uses: verifying a changed object, and proving that it does the same.

use kiln_isa::Reg;
use kiln_program::{FunctionId, InsnId, Object, Program, SourceLine};
use kiln_verifier::{Error, Options, Rejection};

use crate::means::{self, Change, Means};
use crate::places::Place;
use crate::range::{self, Range};

/// What a check returns that is proved never to fail.
pub(crate) const UNLIKELY: [i32; 2] = [0x2b1d_7e55, 0x51c6_03a9];

/// Says whether a changed object does what the first one does, or why that is not known.
pub type Prove<'p> = dyn FnMut(&Object, &Object) -> Result<(), String> + 'p;

/// What a loader makes of an object before it is verified; `None` if it stays as it is.
pub type Loaded<'l> = dyn Fn(&Object) -> Option<Object> + 'l;

/// How programs are verified.
#[derive(Clone)]
pub struct Verifier<'v> {
    /// As these say.
    pub options: Options,
    /// After this. Instructions keep their ids.
    pub loaded: &'v Loaded<'v>,
}

/// What the verifier says.
pub(crate) enum Standing {
    Accepted,
    Rejected(Box<Rejection>),
    Unknown(String),
}

pub(crate) fn check(object: &Object, program: &Program, verifier: &Verifier<'_>) -> Standing {
    let loaded = (verifier.loaded)(object);
    match kiln_verifier::verify(loaded.as_ref().unwrap_or(object), program, &verifier.options) {
        Ok(_) => Standing::Accepted,
        Err(Error::Rejected(rejection)) => Standing::Rejected(rejection),
        Err(error) => Standing::Unknown(error.to_string()),
    }
}

/// The search for a program's repair.
pub(crate) struct Search<'s> {
    pub(crate) program: &'s Program,
    pub(crate) verifier: Verifier<'s>,
    pub(crate) guard: Option<i32>,
    /// What changes are proved against: the original, with the guards so far.
    pub(crate) base: Object,
    pub(crate) prove: &'s mut Prove<'s>,
    pub(crate) go_on: &'s mut dyn FnMut() -> bool,
    pub(crate) unproved: Option<Change>,
}

/// The changed object, the change, and the rejection that follows.
pub(crate) type Removed = (Object, Change, Option<Box<Rejection>>);

/// The source line of an instruction, where known.
pub(crate) fn line_of(object: &Object, function: FunctionId, at: InsnId) -> Option<SourceLine> {
    let node = object.function(function).nodes.iter().find(|node| node.id == at)?;
    object.line(node).cloned()
}

impl Change {
    /// A change that inserts nothing, and is about no number.
    pub(crate) fn without_number(
        function: FunctionId,
        before: InsnId,
        means: &'static Means,
        line: Option<SourceLine>,
    ) -> Change {
        let (register, range) = (Reg::R0, [0, 0]);
        Change { function, before, register, range, means, line, inserted: Vec::new(), ends_with: None }
    }
}

impl Search<'_> {
    /// Keeps the first change with which the whole program would be accepted: `next` is what is rejected then.
    pub(crate) fn note_unproved(&mut self, change: Change, next: Option<&Rejection>) {
        if next.is_none() {
            self.unproved.get_or_insert(change);
        }
    }

    /// The widest range of a number with which an instruction is accepted.
    pub(crate) fn range_of(&self, object: &Object, at: InsnId, place: &Place) -> Option<Range> {
        let seeds = range::seeds(object.function(place.function));
        seeds.into_iter().find_map(|seed| self.widest(object, at, place, seed))
    }

    /// The widest range around a number with which an instruction is accepted.
    pub(crate) fn widest(&self, object: &Object, at: InsnId, place: &Place, seed: i32) -> Option<Range> {
        range::widest(seed, &mut |range| self.try_change(object, at, place, range, &means::PROBE).is_some())
    }

    /// Proves that a number is never outside of a range: a check there that ends the run changes nothing. That the program
    /// with a clamp does the same would not be enough, because a wild store may change nothing that anybody reads.
    pub(crate) fn prove_range(&mut self, object: &Object, place: &Place, range: Range) -> Result<(), String> {
        let means = means::check_of(range);
        // The original cannot return both of these.
        for value in UNLIKELY {
            let Some((probed, _)) = means.apply(object, place, range, value) else {
                return Err("there is no check for it".to_owned());
            };
            (self.prove)(&self.base, &probed)?;
        }
        Ok(())
    }

    /// Makes a change; returns it if it removes the rejection at `at`.
    pub(crate) fn try_change(
        &self,
        object: &Object,
        at: InsnId,
        place: &Place,
        range: Range,
        means: &'static Means,
    ) -> Option<Removed> {
        let (changed, change) = means.apply(object, place, range, 0)?;
        self.judged(changed, change, at)
    }

    /// The changed object, if the rejection at `at` is gone in it.
    pub(crate) fn judged(&self, changed: Object, change: Change, at: InsnId) -> Option<Removed> {
        match check(&changed, self.program, &self.verifier) {
            Standing::Accepted => Some((changed, change, None)),
            Standing::Rejected(next) if next.insn != at && !change.inserted.contains(&next.insn) => {
                Some((changed, change, Some(next)))
            }
            _ => None,
        }
    }
}
