//! Measures how equivalence queries are settled over the corpora, and the effect of each technique of the checker.
//!
//! ```text
//!   cargo xtask bench equiv                              all corpora
//!   KILN_CORPUS_ONLY=xdp-tools cargo xtask bench equiv   paths that contain a text
//! ```
//!
//! First the optimizer runs over every object, with its defaults, and a journal is kept of every question that it asks:
//! who settled it, and how long that took. Then a fixed set of those questions is asked again, once as always and once
//! for each idea with that idea switched off ([`kiln_equiv::ablation`]); last, the optimizer runs again over a few
//! objects with whole runs of instructions for windows.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kiln_equiv::ablation::{self, Without};
use kiln_equiv::answers::Asked;
use kiln_equiv::concrete::Code;
use kiln_equiv::{Answers, Limits, Settled, Tester, WindowRecord};
use kiln_program::Object;
use kiln_superopt::{Options, Unverified, optimize};
use kiln_test::corpus::{self, CorpusObject};

/// Time for one object at most.
const BUDGET: Duration = Duration::from_secs(3);
/// One question in so many is kept for the second part.
const KEPT: usize = 16;
/// Questions of the fixed set at most.
const FIXED: usize = 600;
/// Steps of the solver in the second part: about two seconds, so that a slow answer is seen as slow.
const SOLVER_STEPS: u32 = 5_000_000;
/// Objects of the third part.
const WHOLE: &str = "xdp-tools";

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
    let journals = run(&objects, false);
    settled(&journals);
    let kept = fixed_set(&journals);
    ablate(&objects, &kept);
    candidates(&objects, &kept);
    let some = corpus::objects().into_iter().filter(|object| object.path.to_string_lossy().contains(WHOLE));
    whole(&some.filter(|object| object.refused().is_none()).collect::<Vec<_>>());
}

/// The optimizer's journals, an object each.
fn run(objects: &[CorpusObject], whole_windows: bool) -> Vec<Vec<Asked>> {
    let next = AtomicUsize::new(0);
    let journals = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(object) = objects.get(at) else { break };
                    let Ok(input) = object.read() else { continue };
                    let answers = Arc::new(Answers::keeping_every(KEPT));
                    let options = Options {
                        budget: BUDGET,
                        unverified: Unverified::All,
                        answers: Some(answers.clone()),
                        whole_windows,
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

/// A question with the object that it is about.
type Kept<'j> = (usize, &'j WindowRecord);

/// Questions that were kept, evenly over all objects.
fn fixed_set(journals: &[Vec<Asked>]) -> Vec<Kept<'_>> {
    fn windows((at, journal): (usize, &Vec<Asked>)) -> impl Iterator<Item = Kept<'_>> {
        journal.iter().filter_map(move |asked| Some((at, &**asked.window.as_ref()?)))
    }
    let all: Vec<Kept<'_>> = journals.iter().enumerate().flat_map(windows).collect();
    let step = (all.len() / FIXED).max(1);
    all.into_iter().step_by(step).collect()
}

/// What is switched off, by name, and the row that it is compared with: what takes away more than the tests stands
/// beside the proof without tests.
const VARIANTS: [(&str, Without, usize); 9] = {
    const ON: Without =
        Without { tests: false, normal_form: false, names: false, offsets: false, classes: false, maps: false };
    const PROOF: Without = Without { tests: true, ..ON };
    [
        ("nothing", ON, 0),
        ("tests", PROOF, 0),
        ("normal form", Without { normal_form: true, ..ON }, 0),
        ("tests, normal form", Without { normal_form: true, ..PROOF }, 1),
        ("tests, byte names", Without { names: true, ..PROOF }, 1),
        ("tests, maps", Without { maps: true, ..PROOF }, 1),
        ("tests, classes", Without { classes: true, ..PROOF }, 1),
        ("tests, offsets", Without { offsets: true, ..PROOF }, 1),
        ("tests, offsets, classes", Without { offsets: true, classes: true, ..PROOF }, 1),
    ]
};

/// One question's answers and nanoseconds, a way each.
type Answered = Vec<(Settled, u64)>;

fn ablate(objects: &[CorpusObject], kept: &[Kept<'_>]) {
    let limits = Limits { solver_steps: SOLVER_STEPS, ..Limits::default() };
    let (mut all, mut memory) = (Vec::new(), Vec::new());
    for (at, object) in objects.iter().enumerate() {
        let own: Vec<&WindowRecord> = kept.iter().filter(|(of, _)| *of == at).map(|(_, window)| *window).collect();
        let Some(Ok(input)) = (!own.is_empty()).then(|| object.read()) else { continue };
        for window in own {
            let Some((answered, touches)) = ask(&input.object, window, &limits) else { continue };
            all.push(answered.clone());
            if touches {
                memory.push(answered);
            }
        }
    }
    table("all questions of the fixed set that can be asked in every way", &all);
    table("those of them that touch memory", &memory);
}

fn table(title: &str, questions: &[Answered]) {
    println!("\nswitched off, over {title} ({}; the solver gets {SOLVER_STEPS} steps):", questions.len());
    println!(
        "{:24} {:>9} {:>10} {:>10} {:>11} {:>9} {:>6} {:>9}",
        "", "mean us", "median us", "95th us", "99th us", "slowdown", "equal", "unsettled"
    );
    let times = |variant: usize| questions.iter().map(move |question| question[variant].1);
    let mean = |variant: usize| times(variant).sum::<u64>() as f64 / 1e3 / questions.len().max(1) as f64;
    for (variant, (name, _, base)) in VARIANTS.iter().enumerate() {
        let mut sorted: Vec<u64> = times(variant).collect();
        sorted.sort_unstable();
        let count =
            |kinds: &[Settled]| questions.iter().filter(|question| kinds.contains(&question[variant].0)).count();
        let (own, slowdown) = (mean(variant), mean(variant) / mean(*base).max(1e-9));
        let [median, most, extreme] = [0.5, 0.95, 0.99].map(|share| quantile(&sorted, share));
        let (equal, open) = (count(&[Settled::NormalForm, Settled::SolverEqual]), count(&[Settled::Nobody]));
        println!(
            "{name:24} {own:>9.1} {median:>10.1} {most:>10.1} {extreme:>11.1} {slowdown:>8.1}x {equal:>6} {open:>9}"
        );
    }
}

/// One question in every way, and whether it touches memory; `None` where some way cannot take it.
fn ask(object: &Object, window: &WindowRecord, limits: &Limits) -> Option<(Answered, bool)> {
    let all = window.with_window(object, |window| {
        let ask = |(_, without, _): &(&str, Without, usize)| {
            let begin = Instant::now();
            let settled = ablation::settle(window, limits, *without)?;
            Some((settled, begin.elapsed().as_nanos() as u64))
        };
        let touches = window.before.iter().any(|node| node.insn.address().is_some());
        Some((VARIANTS.iter().map(ask).collect::<Option<Answered>>()?, touches))
    });
    // What its form forbids has no formula that the others could be compared by.
    all.ok().flatten().filter(|(row, _)| row.iter().all(|(settled, _)| *settled != Settled::Form))
}

/// Candidates a second that concrete runs judge, on real windows: each window's own replacement, again and again.
fn candidates(objects: &[CorpusObject], kept: &[Kept<'_>]) {
    const ROUNDS: u32 = 2000;
    let mut rates = Vec::new();
    for (at, object) in objects.iter().enumerate() {
        let own: Vec<&WindowRecord> = kept.iter().filter(|(of, _)| *of == at).map(|(_, window)| *window).collect();
        let Some(Ok(input)) = (!own.is_empty()).then(|| object.read()) else { continue };
        for window in own {
            let rate = window.with_window(&input.object, |window| {
                let mut tester = Tester::new(window, 24)?;
                let mut code = Code::default();
                tester.decode(window.after, &mut code);
                let begin = Instant::now();
                let passed = (0..ROUNDS).filter(|_| tester.code_matches(&code)).count();
                let rate = f64::from(ROUNDS) / begin.elapsed().as_secs_f64();
                Some((passed == 0, rate))
            });
            rates.extend(rate.ok().flatten());
        }
    }
    for (name, refuted) in [("refuted", true), ("passed", false)] {
        let mut own: Vec<f64> = rates.iter().filter(|(kind, _)| *kind == refuted).map(|(_, rate)| *rate).collect();
        own.sort_by(f64::total_cmp);
        if let Some(median) = own.get(own.len() / 2) {
            println!("candidates {name} by tests: median {:.2} M/s a thread, over {} windows", median / 1e6, own.len());
        }
    }
}

/// Short windows against whole runs of instructions.
fn whole(objects: &[CorpusObject]) {
    println!("\nwindows and whole runs, {WHOLE}:");
    for (name, whole_windows) in [("windows", false), ("whole runs", true)] {
        let journals = run(objects, whole_windows);
        let fresh = journals.iter().flatten().filter(|asked| asked.settled != Settled::Before);
        let mut times: Vec<u64> = fresh.map(|asked| asked.nanoseconds).collect();
        times.sort_unstable();
        let mean = times.iter().sum::<u64>() as f64 / 1e3 / times.len().max(1) as f64;
        let (median, most) = (quantile(&times, 0.5), quantile(&times, 0.95));
        println!("{name:12} {:>8} questions, mean {mean:.1} us, median {median:.1} us, 95th {most:.1} us", times.len());
    }
}
