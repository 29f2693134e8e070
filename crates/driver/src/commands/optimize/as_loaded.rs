//! Verdicts on what a loader makes of programs here.

use std::time::{Duration, Instant};

use kiln_inspect::check::{self, Verdict};
use kiln_inspect::input::{Input, as_loaded};
use kiln_program::{Object, Program};
use kiln_verifier::Prepared;

use super::changed;

/// A verdict, or two, and whether the time was over before it was known.
type Timed<V = Verdict> = (V, bool);

/// The verdicts of `kiln check`, which verifies what a loader makes of CO-RE relocations and of the kernel's configuration,
/// on the programs of which it makes something else. The optimizer may not rely on them, because the result is to load
/// elsewhere, too.
pub(super) struct AsLoaded {
    object: Object,
    options: kiln_verifier::Options,
    /// The verdict on each original program; `None` where it is that on the program as it is.
    before: Vec<Option<Timed>>,
    /// How long they took.
    pub(super) spent: Duration,
}

impl AsLoaded {
    pub(super) fn new(input: &Input, verifier: &kiln_verifier::Options, until: Instant) -> Option<AsLoaded> {
        let begun = Instant::now();
        let object = input.as_loaded().ok()?;
        let same_maps = object.maps == input.object.maps;
        let differs = |program: &&Program| !same_maps || changed(&input.object, &object, program);
        if !object.programs.iter().any(|program| differs(&program)) {
            return None;
        }
        let (explain, skip_facts, deadline) = (true, true, Some(until));
        let options = kiln_verifier::Options { explain, skip_facts, deadline, ..verifier.clone() };
        let before = {
            let prepared = Prepared::new(&object, &options);
            let verdict = |program: &Program| differs(&program).then(|| timed(&prepared, program, &options));
            object.programs.iter().map(verdict).collect::<Vec<_>>()
        };
        Some(AsLoaded { object, options, before, spent: begun.elapsed() })
    }

    /// The verdicts on each original program and on what became of it; `None` where the programs' own verdicts stand.
    pub(super) fn beside(
        self,
        input: &Input,
        after: &Object,
        until: Option<Instant>,
    ) -> Option<Vec<Option<Timed<[Verdict; 2]>>>> {
        let after = as_loaded(after, input.kernel_types.as_ref()).ok()?;
        let options = kiln_verifier::Options { deadline: until, ..self.options };
        let prepared = Prepared::new(&after, &options);
        let both = |(program, before): (&Program, Option<Timed>)| {
            let (before, is_late) = before?;
            let (after, is_later) = match !is_late && changed(&self.object, &after, program) {
                true => timed(&prepared, program, &options),
                false => (before.clone(), is_late),
            };
            Some(([before, after], is_later))
        };
        Some(after.programs.iter().zip(self.before).map(both).collect())
    }
}

fn timed(object: &Prepared<'_>, program: &Program, options: &kiln_verifier::Options) -> Timed {
    let verdict = check::verdict(object, program, options);
    let is_over = options.deadline.is_some_and(|deadline| Instant::now() >= deadline);
    let is_late = is_over && matches!(verdict, Verdict::Unsupported { .. });
    (verdict, is_late)
}
