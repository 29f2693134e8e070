//! A longer budget is never worse than a shorter one, and time ends nothing with less than was accepted before.

use std::path::Path;
use std::time::{Duration, Instant};

use kiln_program::text::parse;
use kiln_program::{Object, ProgramId};
use kiln_superopt::search::EFFORTS;
use kiln_superopt::{Judge, Options, Progress, optimize_judged};

/// Filetests of one program, with something to save in steps.
const FILES: &[&str] = &[
    "blocks-alike-by-a-constant",
    "bytes-recomposed",
    "adjacent-copies",
    "address-kept-from-its-first-use",
    "tail-behind-other-instructions",
    "counter-atomic-across-a-load",
];
/// Steps beyond which none of them has any more to do.
const MANY_STEPS: usize = 400;

fn object(name: &str) -> Object {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/filetests/superopt");
    let text = std::fs::read_to_string(folder.join(format!("{name}.bpf"))).expect("a filetest");
    parse(&text).unwrap_or_else(|error| panic!("{error}"))
}

fn slots(object: &Object) -> u32 {
    object.programs.iter().map(|program| object.program_slots(program)).sum()
}

/// A budget in steps: the machine's speed has no say.
struct Steps(usize);

impl Progress for Steps {
    fn step(&mut self, _: &'static str, _: u32, _: Duration) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }
}

/// Refuses what has fewer slots, after some time.
struct Least {
    slots: u32,
    takes: Duration,
}

impl Judge for Least {
    fn judge(&self, object: &Object, programs: &[ProgramId]) -> Vec<(ProgramId, String)> {
        std::thread::sleep(self.takes);
        let refused = slots(object) < self.slots;
        programs.iter().filter(|_| refused).map(|id| (*id, "too small".to_owned())).collect()
    }
}

#[test]
fn more_steps_are_never_worse_when_the_judge_refuses_late() {
    for name in FILES {
        let object = object(name);
        let options = Options { budget: Duration::from_secs(3600), search: 0, threads: 1, ..Options::default() };
        let best = slots(&optimize_judged(&object, &options, &mut Steps(MANY_STEPS), None).object);
        assert!(best < slots(&object), "{name} has something to save");
        for refused_below in [0, best + 1, (best + 2).min(slots(&object)), slots(&object)] {
            let judge = Least { slots: refused_below, takes: Duration::ZERO };
            let mut last = u32::MAX;
            for steps in (1..60).chain([80, 120, 200, MANY_STEPS]) {
                let rewrite = optimize_judged(&object, &options, &mut Steps(steps), Some(&judge));
                let now = slots(&rewrite.object);
                assert!(now <= last, "{name}: {now} slots after {steps} steps, {last} after fewer");
                assert!(now >= refused_below, "{name}: {now} slots, which was refused");
                last = now;
            }
            assert!(last <= best.max(refused_below) + 1, "{name}: {last} slots, where {best} are possible");
        }
    }
}

#[test]
fn a_budget_bounds_the_wall_time_with_the_judges() {
    let object = object("blocks-alike-by-a-constant");
    let begun = slots(&object);
    for (budget_ms, takes_ms) in [(300, 20), (1500, 100), (3000, 100)] {
        let (budget, takes) = (Duration::from_millis(budget_ms), Duration::from_millis(takes_ms));
        let judge = Least { slots: begun - 2, takes };
        let options = Options { budget, reserve: 4 * takes, search: EFFORTS.len(), ..Options::default() };
        let start = Instant::now();
        let rewrite = optimize_judged(&object, &options, &mut (), Some(&judge));
        // One question of the judge, and what a busy machine adds.
        let most = budget + takes + Duration::from_millis(1500);
        assert!(start.elapsed() < most, "{:?} of {budget:?}", start.elapsed());
        assert!(slots(&rewrite.object) >= begun - 2);
        if budget_ms > 1000 {
            assert!(slots(&rewrite.object) < begun, "what the judge had taken was lost");
        }
    }
}
