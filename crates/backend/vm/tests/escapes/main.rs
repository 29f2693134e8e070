//! A campaign of escape attempts: programs that try to access memory that is not theirs.
//!
//! ```text
//!   gadgets, each with odd numbers  -->  a program  --verify-->  refused: counted
//!                                                       \-->  accepted: the interpreter checks every access,
//!                                                             machine code runs between guard pages and canaries
//! ```
//!
//! An accepted program that faults, crashes, or changes a byte outside of what it may write has escaped. Each runs alone,
//! then on two CPUs at once while user space changes its maps. The test makes a few thousand programs; `KILN_ESCAPES` says
//! how many, `KILN_ESCAPE_SEED` where to begin. The program that is about to run as machine code is in
//! `target/escape.bpf`: after a crash, it is the culprit.

use std::collections::BTreeMap;

#[path = "../common/mod.rs"]
mod common;
mod maker;

use kiln_program::Trap;
use kiln_program::interpret::Fault;
use kiln_vm::{Definition, Engine, Error, Input, Options, Surroundings, UpdateFlag, Vm};

use maker::{LACKING, program};

#[derive(Default)]
struct Counts {
    made: u64,
    refused: u64,
    runs: u64,
    together: u64,
    lacking: u64,
    accepted: BTreeMap<&'static str, u64>,
    accepted_all: u64,
}

fn inner(name: &str, hash: bool) -> Definition {
    Definition {
        name: name.to_owned(),
        map_type: if hash { kiln_platform::MapType::Hash } else { kiln_platform::MapType::Array },
        key_size: 4,
        value_size: 16,
        max_entries: 2,
        flags: 0,
        extra: 0,
        locks: Vec::new(),
    }
}

/// Fills the maps anew, as a user of them might between two runs.
fn stir(vm: &Vm, round: u32, inners: &[kiln_program::MapId; 4]) -> Result<(), Error> {
    for (name, map) in [("outer", inners[(round % 2) as usize]), ("outer_table", inners[2 + (round % 2) as usize])] {
        vm.set_inner_map(vm.map(name)?, &0u32.to_ne_bytes(), map)?;
    }
    for key in 0..3u32 {
        for name in ["table", "waiting", "recent"] {
            vm.update(vm.map(name)?, &key.to_ne_bytes(), &[round as u8; 24], UpdateFlag::Any)?;
        }
        vm.update(vm.map("own_table")?, &key.to_ne_bytes(), &[1; 48], UpdateFlag::Any)?;
    }
    let prefix = [32u32.to_ne_bytes(), 0u32.to_ne_bytes()].concat();
    vm.update(vm.map("prefixes")?, &prefix, &[1; 24], UpdateFlag::Any)?;
    if round % 2 == 1 {
        vm.delete(vm.map("table")?, &0u32.to_ne_bytes())?;
    }
    let _ = vm.update(vm.map("queue")?, &[], &[3; 16], UpdateFlag::Any);
    vm.drain(vm.map("ring")?).map(drop)
}

/// Refuses every outcome but an end within the limits of the VM: a walk that other deletions keep from ending, callbacks
/// in callbacks.
fn confined(ran: Result<kiln_vm::RunResult, Error>, engine: Engine, text: &str) {
    match ran {
        Ok(_) | Err(Error::Stopped { trap: Trap::Budget { .. } | Trap::Depth { .. }, .. }) => {}
        Err(Error::Stopped { trap: Trap::Fault { fault: Fault::Unsupported(_), .. }, .. }) => {}
        Err(error) => panic!("escaped, {engine:?}: {error}\n{text}"),
    }
}

/// Runs of each of two threads.
const RUNS_TOGETHER: u32 = if cfg!(miri) { 2 } else { 12 };

/// Runs an accepted program on both CPUs at once, while user space exchanges, updates and deletes what is in its maps.
fn attempt_together(vm: &Vm, inners: &[kiln_program::MapId; 4], engine: Engine, text: &str) {
    std::thread::scope(|scope| {
        for (cpu, engine) in [(0, engine), (1, Engine::Interpreter)] {
            scope.spawn(move || {
                for run in 0..RUNS_TOGETHER {
                    let packet = vec![run as u8; [64, 14, 200, 1500][(run % 4) as usize]];
                    confined(vm.run_on(cpu, "main", &Input::packet(&packet), engine), engine, text);
                }
            });
        }
        for round in 0..RUNS_TOGETHER {
            // The programs may have filled a map.
            let _ = stir(vm, round, inners);
            std::thread::yield_now();
        }
    });
}

/// Runs an accepted program on one engine, alone and together with itself.
fn attempt(text: &str, engine: Engine, lacks: bool, counts: &mut Counts) {
    let object = kiln_program::text::parse(text).expect("it parsed before");
    let surroundings = Surroundings { cpus: 2, cpu: 1, ..Surroundings::default() };
    let options = Options { surroundings, budget: 100_000, ..Options::default() };
    let mut vm = Vm::new(&object, options).expect("a VM");
    let inners = [("a", false), ("b", false), ("c", true), ("d", true)]
        .map(|(name, hash)| vm.create_map(inner(name, hash)).expect("a map"));
    vm.update(inners[2], &[0; 4], &[1; 16], UpdateFlag::Any).expect("an update");
    match vm.load("main") {
        Err(Error::Unsupported { .. }) if lacks => {
            counts.lacking += 1;
            return;
        }
        loaded => drop(loaded.expect("it was accepted")),
    }
    assert!(!lacks, "the VM lacks what this calls:\n{text}");
    vm.load("second").expect("it is accepted");
    let jumps = vm.map("jumps").expect("the map");
    vm.set_program(jumps, 0, "second").expect("a program");
    vm.set_program(jumps, 1, "main").expect("a program");
    for round in 0..4u32 {
        stir(&vm, round, &inners).expect("maps as they were");
        let packet = vec![round as u8; [64, 14, 200, 1500][round as usize]];
        counts.runs += 1;
        confined(vm.run_on(round % 2, "main", &Input::packet(&packet), engine), engine, text);
        let outside = vm.written_outside();
        assert!(outside.is_empty(), "escaped, {engine:?}: {outside:?}\n{text}");
    }
    attempt_together(&vm, &inners, engine, text);
    counts.together += u64::from(2 * RUNS_TOGETHER);
    let outside = vm.written_outside();
    assert!(outside.is_empty(), "escaped from two CPUs, {engine:?}: {outside:?}\n{text}");
}

#[test]
fn nothing_escapes() {
    let number = |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (programs, first) = (number("KILN_ESCAPES", if cfg!(miri) { 20 } else { 3000 }), number("KILN_ESCAPE_SEED", 1));
    let last = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/escape.bpf");
    let mut counts = Counts::default();
    for seed in first..first + programs {
        let (text, used) = program(seed);
        counts.made += 1;
        let object = kiln_program::text::parse(&text).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
        let main = object.program("main").expect("the program");
        if kiln_verifier::verify(&object, main, &kiln_verifier::Options::default()).is_err() {
            counts.refused += 1;
            continue;
        }
        counts.accepted_all += 1;
        let lacks = used.contains(&LACKING);
        for name in used {
            *counts.accepted.entry(name).or_default() += 1;
        }
        attempt(&text, Engine::Interpreter, lacks, &mut counts);
        if cfg!(not(miri)) && cfg!(target_arch = "x86_64") {
            // What cannot be written is no reason not to run.
            let _ = std::fs::write(&last, &text);
            attempt(&text, Engine::Jit, lacks, &mut counts);
        }
    }
    let _ = std::fs::remove_file(&last);
    let Counts { made, refused, runs, together, lacking, accepted, accepted_all } = counts;
    println!(
        "{made} programs, {refused} refused, {accepted_all} accepted, {runs} runs, {together} beside another, {lacking} \
         times the VM lacked something, none escaped; accepted with:"
    );
    for (name, count) in &accepted {
        println!("{count:7} {name}");
    }
    assert!(cfg!(miri) || accepted.len() == 13, "every way was tried: {accepted:?}");
    assert!(accepted_all * 20 > made, "too few are accepted for the campaign to say anything");
}
