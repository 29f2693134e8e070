//! Runs that the verifier follows: of a program that it accepts it rejects no run, and a safe program that it rejects has no
//! input that would say that it is unsafe.

use std::path::Path;
use std::process::Command;

use kiln_driver::input::{self, running_kernel_types};
use kiln_driver::{packets, repair};
use kiln_program::{Object, Program};
use kiln_test::corpus;
use kiln_verifier::{Error, Followed, Options, Passed, Prepared, verify};
use kiln_vm::stand_in::World;
use kiln_vm::{Clock, Surroundings};

/// Of so many objects of the corpora, one is tried.
const STRIDE: usize = 5;
/// Runs of each program, and instructions of each run.
const RUNS: u64 = 4;
const RUN_INSNS: u64 = 5_000;

/// Runs of a program: how many were followed to their end, and what was rejected.
fn followed(object: &Object, program: &Program, options: &Options) -> (u64, Option<String>) {
    let object = &kiln_vm::with_sized_maps(object.clone());
    let surroundings = Surroundings { clock: Clock::Fixed(1 << 40), ..Default::default() };
    let settings = kiln_vm::Options { budget: RUN_INSNS, surroundings, ..Default::default() };
    let Ok(mut world) = World::new(object, settings, options.kernel_types.clone()) else { return (0, None) };
    let Ok(mut runs) = world.strict_runs(&program.name) else { return (0, None) };
    let (prepared, context) = (Prepared::new(object, options), [0; 64]);
    let mut whole = 0;
    for (packet, seed) in packets::corpus(41, RUNS as usize).iter().zip(1..) {
        let context =
            (!kiln_driver::kernel::takes_packet(program.program_type.expect("a type"))).then_some(&context[..]);
        let input = kiln_vm::Input { packet, context, repeat: 1 };
        let seen = runs.run_strictly(&input, seed, RUN_INSNS as usize);
        let passed = seen.steps.iter().map(|own| Passed { insn: own.insn, depth: own.depth, registers: own.registers });
        match prepared.follow(program, options, &passed.collect::<Vec<_>>()) {
            Ok(Followed::Whole) => whole += u64::from(!seen.steps.is_empty()),
            Ok(Followed::Rejected(_, rejection)) => return (whole, Some(rejection.to_string())),
            Ok(Followed::Apart(_)) | Err(_) => {}
        }
    }
    (whole, None)
}

#[test]
fn no_run_of_an_accepted_program_is_rejected() {
    let (mut programs, mut whole) = (0, 0);
    for entry in corpus::objects().iter().step_by(STRIDE) {
        let Ok(input) = entry.read() else { continue };
        let options = Options { skip_facts: true, kernel_types: running_kernel_types(), ..Options::default() };
        for program in &input.object.programs {
            if verify(&input.object, program, &options).is_err() {
                continue;
            }
            let (own, rejected) = followed(&input.object, program, &options);
            assert_eq!(rejected, None, "{} {}", entry.path.display(), program.name);
            (programs, whole) = (programs + 1, whole + own);
        }
    }
    eprintln!("{programs} programs, {whole} of {} runs followed to their end", programs * RUNS);
    assert!(programs == 0 || 2 * whole > programs * RUNS, "{whole} runs of {programs} programs");
}

#[test]
fn a_safe_program_has_no_input_that_says_otherwise() {
    let folder = tempfile::tempdir().expect("a folder");
    let object = folder.path().join("a.o");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/repair");
    let mut tried = 0;
    for entry in std::fs::read_dir(&sources).expect("sources") {
        let source = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&source).expect("a source");
        let Some(version) =
            text.lines().find_map(|own| own.strip_prefix("// repair: ")?.strip_suffix(" repaired-proved"))
        else {
            continue;
        };
        let mut clang = Command::new("clang-19");
        clang.args(["-target", "bpf", "-g", "-O2", &format!("-mcpu={version}"), "-c"]);
        clang.args(["-idirafter", &format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH)]);
        let Ok(status) = clang.arg(&source).arg("-o").arg(&object).status() else {
            eprintln!("skipped: no clang-19");
            return;
        };
        assert!(status.success(), "{}", source.display());
        let input = input::open(&object, &[]).expect("an object");
        let options = Options { skip_facts: true, ..input.verifier_options() };
        for program in &input.object.programs {
            let Err(Error::Rejected(rejection)) = verify(&input.object, program, &options) else { continue };
            let found = repair::find_input(&input, program, &rejection, &options, &mut || true);
            assert!(found.is_none(), "{}: {found:?}", source.display());
            tried += 1;
        }
    }
    assert!(tried >= 10, "{tried}");
}
