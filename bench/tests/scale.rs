//! A slice of `cargo xtask bench scale`: passes take a time that grows little faster than the program.

#[path = "../examples/scale/families.rs"]
mod families;

use std::time::Duration;

use families::FAMILIES;
use kiln_superopt::{Options, Stopwatch, optimize};

const SIZES: [usize; 3] = [256, 512, 1024];
/// Families whose programs are soon done, also without compiler optimizations.
const CHEAP: [&str; 2] = ["calls", "functions"];
/// A pass that looks at everything once more for each find has 2. Timings on a busy machine are off by a tenth or two.
const STEEPEST: f64 = 1.6;

/// Processor time of the passes on a program: the lower of two.
fn seconds(family: &families::Family, slots: usize) -> f64 {
    let object = family.object(slots);
    let options = Options { budget: Duration::from_secs(600), search: 0, threads: 1, ..Options::default() };
    let once = || {
        let watch = Stopwatch::start();
        let rewrite = optimize(&object, &options, &mut ());
        assert!(rewrite.skipped.is_empty() && !rewrite.cut_short, "{}: {:?}", family.name, rewrite.skipped);
        assert_ne!(rewrite.object, object, "{}: there is something to save", family.name);
        watch.elapsed().as_secs_f64()
    };
    once().min(once())
}

#[test]
fn passes_on_cheap_families_are_nearly_linear() {
    for family in FAMILIES.iter().filter(|family| CHEAP.contains(&family.name)) {
        let times = SIZES.map(|slots| seconds(family, slots));
        let slope = (times[2] / times[0]).ln() / (SIZES[2] as f64 / SIZES[0] as f64).ln();
        assert!(slope < STEEPEST, "{}: {slope:.2}, {times:?} s at {SIZES:?} slots", family.name);
    }
}
