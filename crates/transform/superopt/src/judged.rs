//! The last word: somebody else's, such as the running kernel's.
//!
//! ```text
//!   optimize --> judge: these functions are to blame --> without one law or rule in them --> judge again ...
//! ```
//!
//! What our verifier accepts, the kernel may still refuse or find harder to verify. Then the rules and laws used in the
//! functions to blame are left out there, one by one and then several at once, the ones that move code about first and
//! those that save most last, until the judge is content.
//! What is blamed even so keeps its original instructions.

use std::collections::BTreeSet;
use std::time::Instant;

use kiln_program::{FunctionId, Object};

use crate::evidence::Law;
use crate::pipeline::{Options, Progress, Rewrite, optimize};

/// Laws that change the order in which a verifier walks the program: the first suspects.
const SUSPECTS: [Law; 8] = [
    Law::Layout,
    Law::InvertedBranch,
    Law::SharedTail,
    Law::KeptAddress,
    Law::HoistedArm,
    Law::SharedHead,
    Law::JumpToExit,
    Law::ThreadedJump,
];

/// Optimizes until `judge` blames no function. It is given each result, and names the functions of programs that it
/// refuses or finds worse. Each thing left out is noted in [`Rewrite::refused`].
pub fn optimize_judged(
    object: &Object,
    options: &Options,
    progress: &mut dyn Progress,
    judge: &mut dyn FnMut(&Rewrite) -> BTreeSet<FunctionId>,
) -> Rewrite {
    let begun = Instant::now();
    let mut options = options.clone();
    let mut refused = Vec::new();
    let mut rewrite = optimize(object, &options, progress);
    let mut blamed = judge(&rewrite);
    while !blamed.is_empty() {
        let deadline = begun + options.budget;
        let better = leave_one_out(object, &options, &rewrite, &blamed, deadline, progress, judge);
        let (found, still, why) = match better {
            Some(better) => better,
            None => {
                // Its callers may be blamed for a function they share: each round freezes more, so this ends.
                let before = options.frozen.len();
                options.frozen.extend(&blamed);
                if options.frozen.len() == before {
                    break;
                }
                let again = optimize(object, &options, progress);
                let still = judge(&again);
                (Tried { options: options.clone(), rewrite: again }, still, "all rewrites".to_owned())
            }
        };
        for function in &blamed {
            refused.push(("judge", object.function(*function).name.clone(), format!("left out: {why}")));
        }
        (options, rewrite, blamed) = (found.options, found.rewrite, still);
    }
    rewrite.refused.extend(refused);
    rewrite.spent = begun.elapsed();
    rewrite
}

/// An attempt and how it was made.
struct Tried {
    options: Options,
    rewrite: Rewrite,
}

/// The attempt without one law or rule in the functions to blame that leaves the fewest to blame, if any are fewer.
fn leave_one_out(
    object: &Object,
    options: &Options,
    rewrite: &Rewrite,
    blamed: &BTreeSet<FunctionId>,
    deadline: Instant,
    progress: &mut dyn Progress,
    judge: &mut dyn FnMut(&Rewrite) -> BTreeSet<FunctionId>,
) -> Option<(Tried, BTreeSet<FunctionId>, String)> {
    let own = rewrite.evidence.iter().filter(|one| blamed.contains(&one.function));
    let mut names: Vec<&'static str> = own.map(|one| one.because.name()).collect::<BTreeSet<_>>().into_iter().collect();
    let rank = |name: &str| SUSPECTS.iter().position(|law| law.name() == name).unwrap_or(SUSPECTS.len());
    let gain = |name: &str| -> i64 {
        let own = rewrite.evidence.iter().filter(|one| blamed.contains(&one.function) && one.because.name() == name);
        own.map(|one| one.slots_saved).sum()
    };
    names.sort_by_key(|name| (rank(name), gain(name)));
    // One at a time; then, from the first suspect on, ever more at once.
    let one = names.iter().map(|name| vec![*name]);
    let more = (2..names.len()).map(|count| names[..count].to_vec());
    let sets: Vec<Vec<&'static str>> = one.chain(more).collect();
    for set in &sets {
        // What it costs again is about what it cost before; a program that takes longer keeps its original code.
        if Instant::now() + rewrite.spent >= deadline {
            return None;
        }
        let mut options = options.clone();
        options.without_in.extend(blamed.iter().flat_map(|function| set.iter().map(|name| (*function, *name))));
        let rewrite = optimize(object, &options, progress);
        let still = judge(&rewrite);
        if still.len() < blamed.len() && still.is_subset(blamed) {
            return Some((Tried { options, rewrite }, still, set.join(", ")));
        }
    }
    None
}
