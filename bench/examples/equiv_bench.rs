//! Measures how equivalence queries are settled over the corpora.
//!
//! ```text
//!   cargo xtask bench equiv                              all corpora
//!   KILN_CORPUS_ONLY=xdp-tools cargo xtask bench equiv   paths that contain a text
//! ```
//!
//! The optimizer runs over every object, with its defaults, and a journal is kept of every question that it asks: who
//! settled it, and how long that took.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kiln_equiv::answers::Asked;
use kiln_equiv::{Answers, Settled};
use kiln_superopt::{Options, Unverified, optimize};
use kiln_test::corpus::{self, CorpusObject};

/// Time for one object at most.
const BUDGET: Duration = Duration::from_secs(3);

fn main() {
    let only = std::env::var("KILN_CORPUS_ONLY").unwrap_or_default();
    let objects: Vec<_> = corpus::objects()
        .into_iter()
        .filter(|object| object.refused().is_none() && object.path.to_string_lossy().contains(&only))
        .collect();
    if objects.is_empty() {
        println!("skipped: no corpora (scripts/corpus makes them)");
        return;
    }
    settled(&run(&objects));
}

/// The optimizer's journals, an object each.
fn run(objects: &[CorpusObject]) -> Vec<Vec<Asked>> {
    let next = AtomicUsize::new(0);
    let journals = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(object) = objects.get(at) else { break };
                    let Ok(input) = object.read() else { continue };
                    let answers = Arc::new(Answers::default());
                    let options = Options {
                        budget: BUDGET,
                        unverified: Unverified::All,
                        answers: Some(answers.clone()),
                        ..Options::default()
                    };
                    optimize(&input.object, &options, &mut ());
                    journals.lock().expect("no thread panics").insert(at, answers.take_journal());
                }
            });
        }
    });
    let mut journals = journals.into_inner().expect("no thread panics");
    (0..objects.len()).map(|at| journals.remove(&at).unwrap_or_default()).collect()
}

/// A quantile of nanoseconds, in microseconds.
fn quantile(sorted: &[u64], share: f64) -> f64 {
    let at = ((sorted.len().saturating_sub(1)) as f64 * share).round() as usize;
    sorted.get(at).map_or(0.0, |nanoseconds| *nanoseconds as f64 / 1e3)
}

fn settled(journals: &[Vec<Asked>]) {
    let all: Vec<&Asked> = journals.iter().flatten().collect();
    println!("questions: {}, of {} objects", all.len(), journals.len());
    println!("{:16} {:>9} {:>7} {:>12} {:>12}", "settled by", "count", "share", "median us", "95th us");
    let row = |name: &str, asked: &[&Asked]| {
        let mut times: Vec<u64> = asked.iter().map(|asked| asked.nanoseconds).collect();
        times.sort_unstable();
        let share = 100.0 * asked.len() as f64 / all.len().max(1) as f64;
        let (median, most) = (quantile(&times, 0.5), quantile(&times, 0.95));
        println!("{name:16} {:>9} {share:>6.2}% {median:>12.1} {most:>12.1}", asked.len());
    };
    for kind in Settled::ALL {
        let some: Vec<&Asked> = all.iter().filter(|asked| asked.settled == kind).copied().collect();
        row(&format!("{kind:?}"), &some);
    }
    row("all", &all);
    let fresh: Vec<&Asked> = all.iter().filter(|asked| asked.settled != Settled::Before).copied().collect();
    row("all but Before", &fresh);
}
