//! Certificates of real objects, replayed by a solver that Kiln does not use; and forgeries, which must not be accepted.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use kiln_driver::{evidence, optimize, verify_evidence};
use kiln_test::corpus;

/// The solver that is not Kiln's own.
const SOLVER: &str = "cvc5";
/// Objects of the sample: with calls, several programs, sections that are frozen.
const SAMPLE: &[&str] = &["xdpdump_xdp.o", "xdp-dispatcher.o", "xdpfilt_alw_eth.o", "ibumad_kern.o"];

/// Says something past the test harness's capture.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

fn verify(folder: &Path) -> verify_evidence::Recheck {
    let solver = Some(SOLVER.to_owned());
    let mut options = verify_evidence::Options::default();
    options.solver = solver;
    options.timeout = Duration::from_secs(600);
    options.jobs = 2;
    options.original = None;
    options.object = None;
    verify_evidence::verify(folder, &options, &|_, _| true).expect("it is checked")
}

/// Changes one line of a compressed file, the first that can be.
fn forge(path: &Path, forge: impl Fn(&str) -> Option<String>) {
    let bytes = std::fs::read(path).expect("a file of the evidence");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("it is compressed");
    let mut done = false;
    let lines: Vec<String> = text
        .lines()
        .map(|line| match forge(line).filter(|_| !done) {
            Some(forged) => {
                done = true;
                forged
            }
            None => line.to_owned(),
        })
        .collect();
    assert!(done, "{} holds nothing to forge", path.display());
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all((lines.join("\n") + "\n").as_bytes()).expect("it is compressed");
    std::fs::write(path, encoder.finish().expect("it is compressed")).expect("it is written");
}

#[test]
fn another_solver_replays_every_certificate() {
    if std::process::Command::new(SOLVER).arg("--version").output().is_err() {
        say(&format!("skipped: {SOLVER} is not installed"));
        return;
    }
    let named = |path: &Path| path.file_name().is_some_and(|name| SAMPLE.iter().any(|own| *own == name));
    let objects: Vec<_> = corpus::objects().into_iter().filter(|object| named(&object.path)).collect();
    if objects.is_empty() {
        say("skipped: no corpora");
        return;
    }
    let (mut functions, mut queries) = (0, 0);
    for object in objects {
        let input = object.read().expect("a sound object");
        let budget = optimize::default_budget(&input.object);
        let mut options = optimize::Options::default();
        options.budget = budget;
        options.certify = true;
        let outcome = optimize::optimize(&input, &options, &mut ()).expect("it is optimized");
        let folder = tempfile::tempdir().expect("a temporary folder");
        evidence::write(folder.path(), &input.object, &outcome.object, &outcome.proofs, [&input.bytes, &outcome.bytes])
            .expect("it is written");
        let checked = verify(folder.path());
        assert!(checked.is_proved(), "{}: {:#?}", object.path.display(), checked.problems);
        assert_eq!(checked.proved, outcome.proofs.values().map(Vec::len).sum::<usize>());
        assert!(checked.proved > 0, "{}: nothing is optimized: {:?}", object.path.display(), outcome.refused);
        functions += checked.functions;
        queries += checked.queries;
        // Changes one instruction of the result, and then also the chain.
        let other = |line: &str| {
            let (before, _) = line.split_once(" = 0x").filter(|(before, _)| before.starts_with("  "))?;
            Some(format!("{before} = 0x7fffff01"))
        };
        forge(&folder.path().join(evidence::OPTIMIZED), other);
        assert!(!verify(folder.path()).is_proved(), "{}: a forged result", object.path.display());
    }
    say(&format!("{SOLVER} replayed {functions} functions by {queries} queries"));
    assert!(functions > 0 && queries > 0);
}

/// If there is no time for certificates, all functions stay unchanged, and each is named.
#[test]
fn without_time_for_a_certificate_nothing_changes() {
    let named = |path: &Path| path.file_name().is_some_and(|name| name == SAMPLE[3]);
    let Some(object) = corpus::objects().into_iter().find(|object| named(&object.path)) else {
        say("skipped: no corpora");
        return;
    };
    let input = object.read().expect("a sound object");
    let mut options = optimize::Options::default();
    options.budget = Duration::from_secs(10);
    let optimized = optimize::optimize(&input, &options, &mut ()).expect("it is optimized").object;
    let limits = evidence::Limits::time(Duration::ZERO, evidence::Clock::Wall);
    let (proofs, refused, _) = evidence::certify(&input.object, &optimized, &[], limits, &mut || true);
    let changed = input.object.functions.iter().zip(&optimized.functions).filter(|(old, new)| old.nodes != new.nodes);
    let changed = changed.count();
    assert!(changed > 0 && proofs.is_empty());
    assert_eq!(refused.len(), changed);
    assert!(refused.values().all(|why| why.contains("no time")), "{refused:?}");
}
