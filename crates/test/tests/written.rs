//! The running kernel loads what `kiln optimize --offline` writes: it still accepts each program that it accepted before,
//! and writes nothing about one into its log.
//!
//! ```text
//!   corpora, generated programs -> kernel: takes it? -> optimize, kernel not asked -> kernel: takes it still?
//!                                        /dev/kmsg: no new line of kernel/bpf  <-----------+
//! ```
//!
//! The optimizer asks our verifier only, as in CI. `make test` takes a sample; `make test-long` takes
//! `KILN_WRITTEN` programs (2,000 by default) of all corpora that are built, and generated ones for the rest.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kiln_driver::check::KernelVerdict;
use kiln_driver::kernel::verdict::verdict;
use kiln_driver::packets::Random;
use kiln_driver::{Input, input, optimize};
use kiln_platform::ProgramType;
use kiln_program::Object;
use kiln_superopt::Goal;
use kiln_test::corpus::{self, CorpusObject};
use kiln_test::engine::kernel_available;
use kiln_test::generate;

/// Random instructions of a generated program at most.
const LENGTH: u64 = 120;
/// Budget of one object.
const BUDGET: Duration = Duration::from_secs(5);

/// What became of the programs.
#[derive(Default)]
struct Account {
    /// Programs that the kernel accepts before they are optimized.
    programs: usize,
    /// Programs that the optimizer changed.
    changed: usize,
    slots: [u64; 2],
    /// Programs that the kernel no longer accepts, and why.
    refused: Vec<String>,
    /// Objects that were not written, and why.
    unwritten: Vec<String>,
}

impl Account {
    fn add(&mut self, name: &str, input: &Input) {
        let takes = |bytes: &[u8], object: &Object, at: usize| match verdict(bytes, object, &object.programs[at]) {
            KernelVerdict::Accepted { .. } => Ok(()),
            KernelVerdict::Rejected { reason } | KernelVerdict::NotAsked { reason, .. } => Err(reason),
        };
        let before = |at: &usize| takes(&input.bytes, &input.object, *at).is_ok();
        let taken: Vec<usize> = (0..input.object.programs.len()).filter(before).collect();
        if taken.is_empty() {
            return;
        }
        let mut options = optimize::Options::default();
        options.budget = BUDGET;
        let outcome = match optimize::optimize(input, &options, &mut ()) {
            Ok(outcome) => outcome,
            Err(error) => return self.unwritten.push(format!("{name}: {error}")),
        };
        for at in taken {
            let account = &outcome.programs[at];
            self.programs += 1;
            self.slots[0] += u64::from(account.slots_before);
            self.slots[1] += u64::from(account.slots_after);
            let reached = |object: &Object| object.reachable_functions(object.programs[at].entry);
            let functions: BTreeSet<_> = reached(&input.object).into_iter().chain(reached(&outcome.object)).collect();
            if functions
                .iter()
                .all(|id| input.object.functions.get(id.index()) == outcome.object.functions.get(id.index()))
            {
                continue;
            }
            self.changed += 1;
            if let Err(why) = takes(&outcome.bytes, &outcome.object, at) {
                self.refused.push(format!("{name}:{}: {why}", account.program));
            }
        }
    }
}

/// What the kernel logs of BPF from now on.
struct KernelLog(Option<rustix::fd::OwnedFd>);

impl KernelLog {
    fn open() -> KernelLog {
        use rustix::fs::{Mode, OFlags, SeekFrom};
        let log = rustix::fs::open("/dev/kmsg", OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).ok();
        if let Some(log) = &log {
            rustix::fs::seek(log, SeekFrom::End(0)).expect("the kernel's log can be sought");
        }
        KernelLog(log)
    }

    /// The lines since then that the kernel's verifier wrote.
    fn lines(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut line = vec![0; 8192];
        while let Some(Ok(length)) = self.0.as_ref().map(|log| rustix::io::read(log, &mut line)) {
            let text = String::from_utf8_lossy(&line[..length]);
            // What others do on the machine is logged there too.
            if ["kernel/bpf", "verifier bug"].iter().any(|word| text.contains(word)) {
                found.push(text.trim().to_owned());
            }
        }
        found
    }
}

/// A generated program: half of them compute with numbers only, half with the bytes of a packet.
fn generated(seed: u64) -> Input {
    let mut random = Random::new(seed);
    let length = 1 + random.below(LENGTH) as usize;
    let object = match seed % 2 {
        0 => generate::arithmetic(&mut random, ProgramType::Xdp, length),
        _ => generate::packet_program(&mut random, length),
    };
    let text = kiln_program::text::print(&object);
    input::parse("generated.bpf", text.into_bytes(), &[]).expect("what is printed can be read")
}

/// Optimizes and loads `wanted` programs: of the corpora's objects, then generated ones.
fn campaign(objects: Vec<CorpusObject>, wanted: usize) {
    if let Err(reason) = kernel_available() {
        eprintln!("skipped: kernel: {reason}");
        return;
    }
    let begun = Instant::now();
    let log = KernelLog::open();
    let mut account = Account::default();
    for entry in objects.iter().filter(|entry| entry.refused().is_none()) {
        if account.programs >= wanted {
            break;
        }
        if let Ok(input) = entry.read() {
            account.add(&entry.path.to_string_lossy(), &input);
        }
    }
    let real = account.programs;
    let mut seed = 0;
    while account.programs < wanted {
        account.add(&format!("generated {seed}"), &generated(seed));
        seed += 1;
        assert!(seed < 2 * wanted as u64, "the kernel takes too few of the generated programs");
    }
    let lines = log.lines();
    let Account { programs, changed, slots, refused, unwritten } = &account;
    println!("{programs} programs ({real} of the corpora), {changed} changed, {} -> {} slots", slots[0], slots[1]);
    println!(
        "{} refused, {} lines in the kernel's log, {} objects not written",
        refused.len(),
        lines.len(),
        unwritten.len()
    );
    println!("{:.0} s", begun.elapsed().as_secs_f64());
    for line in refused.iter().chain(unwritten).chain(&lines) {
        println!("  {line}");
    }
    assert!(refused.is_empty() && lines.is_empty(), "the kernel refuses or reports what Kiln wrote");
}

/// An object of one static function and these programs, each of which calls it.
fn sharing(programs: &[&str]) -> Option<Input> {
    let mut source = String::from(
        "struct xdp_md { unsigned data, data_end, data_meta, ifindex; };
         static __attribute__((noinline)) int shared(struct xdp_md *ctx, unsigned by) {
             unsigned sum = ctx->ifindex * 31 + by;
             sum ^= sum >> 7; sum *= 2654435761u; sum ^= sum >> 13; sum += ctx->data_end - ctx->data;
             return sum & 1 ? 2 : 1;
         }
",
    );
    for (number, name) in programs.iter().enumerate() {
        source += &format!(
            "__attribute__((section(\"xdp\"), used)) int {name}(struct xdp_md *ctx) {{ return shared(ctx, {number} + ctx->ifindex); }}\n"
        );
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (input, output) = (folder.path().join("shared.c"), folder.path().join("shared.o"));
    std::fs::write(&input, source).expect("a file");
    let mut clang = std::process::Command::new("clang-19");
    match clang.args(["-target", "bpf", "-O2", "-g", "-c", "-o"]).arg(&output).arg(&input).status() {
        Ok(status) => assert!(status.success(), "clang fails"),
        Err(error) => {
            eprintln!("skipped: clang-19: {error}");
            return None;
        }
    }
    Some(input::open(&output, &[]).expect("it is an object"))
}

fn optimized(input: &Input, goal: Goal) -> optimize::Outcome {
    let mut options = optimize::Options::default();
    (options.goal, options.budget) = (goal, BUDGET);
    let outcome = optimize::optimize(input, &options, &mut ()).expect("it is optimized");
    if kernel_available().is_ok() {
        for program in &outcome.object.programs {
            let verdict = verdict(&outcome.bytes, &outcome.object, program);
            assert!(matches!(verdict, KernelVerdict::Accepted { .. }), "{}: {verdict:?}", program.name);
        }
    }
    let again = input::parse("again.o", outcome.bytes.clone(), &[]).expect("what is written can be read").object;
    let slots: u64 = again.functions.iter().map(|function| u64::from(function.slots())).sum();
    assert_eq!(slots, outcome.object_slots[1], "the account is of what is written");
    outcome
}

#[test]
fn a_function_that_was_inlined_leaves_the_object() {
    let Some(input) = sharing(&["one"]) else { return };
    let outcome = optimized(&input, Goal::Balanced);
    assert_eq!(outcome.removed.iter().map(ToString::to_string).collect::<Vec<_>>(), ["shared"]);
    assert_eq!(
        outcome.object_slots.map(|slots| slots as u32),
        [outcome.programs[0].slots_before, outcome.programs[0].slots_after]
    );
}

#[test]
fn for_size_no_object_grows() {
    let Some(input) = sharing(&["one", "two", "three", "four"]) else { return };
    let (balanced, size) = (optimized(&input, Goal::Balanced), optimized(&input, Goal::Size));
    assert!(balanced.object_slots[1] > balanced.object_slots[0], "four copies: {:?}", balanced.object_slots);
    assert!(size.object_slots[1] < size.object_slots[0], "{:?}", size.object_slots);
    assert!(size.removed.is_empty() && !balanced.removed.is_empty());
}

/// Every such object of the corpora, after those that once were refused.
fn sample(stride: usize) -> Vec<CorpusObject> {
    let (known, others): (Vec<_>, Vec<_>) =
        corpus::objects().into_iter().partition(|entry| entry.path.ends_with("sockex2_kern.o"));
    known.into_iter().chain(others.into_iter().step_by(stride)).collect()
}

#[test]
fn a_sample() {
    campaign(sample(12), 40);
}

#[test]
#[ignore = "long: 2,000 programs"]
fn many() {
    let wanted = std::env::var("KILN_WRITTEN").ok().and_then(|number| number.parse().ok()).unwrap_or(2_000);
    campaign(sample(1), wanted);
}
