//! Every program of the corpora on every engine: the VM's interpreter, its JIT with and without hidden constants, the native
//! tier, and the kernel by test run. Results, packets and maps must be those of the interpreter.
//!
//! `cargo test -p kiln-test --test engines_corpus -- --ignored --nocapture` takes minutes, because clang compiles every
//! program. `KILN_CORPUS_ONLY` limits it to paths that contain a text.
//!
//! The VM is deterministic. The kernel is not: it has other addresses, another clock and interfaces of its own, so a program
//! that differs there is listed, and only what differs between the VM's engines fails the test. One canary a stage: with a
//! mutation of the program in it, the stage must find a difference.

use std::collections::BTreeMap;
use std::path::Path;

use kiln_driver::compare::{self, Comparison, Trace};
use kiln_driver::{Engine, Setting, loading, packets};
use kiln_isa::{AluOp, Insn, Reg, Source};
use kiln_program::{Object, Program};
use kiln_test::corpus::{self, CorpusObject};
use kiln_vm::{Input, Options, Toolchain};

/// Packets that each program is given, one after the other on the same maps.
const PACKETS: usize = 32;
/// Programs that the canaries are tried on, until each is found.
const CANARIES: usize = 60;

/// What is compared with the interpreter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stage {
    Jit,
    Blinded,
    Native,
    Kernel,
}

const STAGES: [Stage; 4] = [Stage::Jit, Stage::Blinded, Stage::Native, Stage::Kernel];

/// What a stage found, by program.
#[derive(Default)]
struct Count {
    equal: usize,
    packets: usize,
    nondeterministic: usize,
    not_run: usize,
    different: Vec<String>,
    canary: bool,
}

/// A program and what it runs on.
struct Case<'a> {
    bytes: &'a [u8],
    object: &'a Object,
    program: &'a Program,
    inputs: &'a [Vec<u8>],
    packets: bool,
    toolchain: &'a Toolchain,
}

impl Case<'_> {
    fn in_vm(&self, object: &Object, engine: Engine, blind: bool) -> Result<Trace, String> {
        let options = Options { blind, ..Options::default() };
        let vm = loading::new_vm(object, self.program, options).map_err(|error| error.to_string())?;
        if engine == Engine::Native {
            let made = vm.load_native(&self.program.name, self.toolchain, Setting::Scalar);
            made.map_err(|error| error.to_string())?;
        }
        let input = |bytes| if self.packets { Input::packet(bytes) } else { Input::context(bytes) };
        compare::vm_trace(&vm, self.program, self.inputs.iter().map(|bytes| input(bytes)), engine)
    }

    /// The stage with a program, which may be a mutated one.
    fn on(&self, stage: Stage, object: &Object) -> Result<Trace, String> {
        match stage {
            Stage::Jit => self.in_vm(object, Engine::Jit, false),
            Stage::Blinded => self.in_vm(object, Engine::Jit, true),
            Stage::Native => self.in_vm(object, Engine::Native, false),
            Stage::Kernel => compare::kernel_trace(self.bytes, self.object, self.program, self.inputs),
        }
    }

    fn compared(&self, stage: Stage, object: &Object) -> Comparison {
        let interpreted = || self.in_vm(self.object, Engine::Interpreter, false);
        if stage == Stage::Kernel {
            return self.with_kernel(object);
        }
        compare::judge(interpreted, || self.on(stage, object), self.inputs)
    }

    /// The kernel's own runs tell what depends on more than the input. `object` runs in the VM.
    fn with_kernel(&self, object: &Object) -> Comparison {
        if !self.packets {
            return Comparison::NotRun("no packets".to_owned());
        }
        // Runs in the kernel are on one of its processors, those in the VM on its only one.
        let per_cpu =
            |name: &str| self.object.maps.iter().any(|map| map.name == *name && map.map_type.name().contains("percpu"));
        let Ok(known) = self.on(Stage::Kernel, self.object) else {
            return Comparison::NotRun("the kernel does not run it".to_owned());
        };
        let Ok(own) = self.in_vm(self.object, Engine::Interpreter, false) else {
            return Comparison::NotRun("the VM does not run it".to_owned());
        };
        let has = |trace: &Trace, name: &str| trace.maps.iter().any(|(other, _)| other == name);
        let common = |mut trace: Trace| {
            trace.maps.retain(|(name, _)| has(&known, name) && has(&own, name) && !per_cpu(name));
            in_order(trace)
        };
        let kernel = || self.on(Stage::Kernel, self.object).map(common);
        let in_vm = || self.in_vm(object, Engine::Interpreter, false).map(common);
        compare::judge(kernel, in_vm, self.inputs)
    }
}

/// Elements in the order of their keys: engines list them in their own.
fn in_order(mut trace: Trace) -> Trace {
    trace.maps.sort();
    for (_, elements) in &mut trace.maps {
        elements.sort();
    }
    trace
}

/// A program with another result: one more, wherever R0 is set to a constant. `None` if it is not.
fn mutated(object: &Object, program: &Program) -> Option<Object> {
    let (mut object, mut changed) = (object.clone(), false);
    for node in &mut object.functions[program.entry.index()].nodes {
        if let Insn::Alu { op: AluOp::Mov, dst: Reg::R0, src: Source::Imm(imm), .. } = &mut node.insn {
            *imm ^= 1;
            changed = true;
        }
    }
    changed.then_some(object)
}

fn takes_part(object: &CorpusObject) -> bool {
    let only = std::env::var("KILN_CORPUS_ONLY").unwrap_or_default();
    object.refused().is_none() && object.path.to_string_lossy().contains(&only)
}

#[test]
#[ignore = "minutes: clang compiles every program of the corpora"]
fn engines_agree_on_the_corpora() {
    let toolchain = match Toolchain::new(Toolchain::CLANG) {
        Ok(toolchain) => toolchain.keeping(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/native-code")),
        Err(error) => return println!("skipped: {error}"),
    };
    let kernel = kiln_driver::require_kernel().is_ok();
    let of_packets = packets::corpus(0x656e_6769_6e65, PACKETS);
    let mut random = packets::Random::new(7);
    let contexts: Vec<Vec<u8>> = (0..PACKETS).map(|_| random.bytes(96)).collect();
    let mut counts: BTreeMap<Stage, Count> = BTreeMap::new();
    let mut programs = 0;
    for corpus_object in corpus::objects().into_iter().filter(takes_part) {
        let Ok(input) = corpus_object.read() else { continue };
        for program in input.object.programs.iter().filter(|program| !corpus_object.leaves_out(&program.name)) {
            let packets = program.program_type.is_some_and(kiln_test::engine::takes_packet);
            let inputs = if packets { &of_packets } else { &contexts };
            let (bytes, object, toolchain) = (&input.bytes[..], &input.object, &toolchain);
            let case = Case { bytes, object, program, inputs, packets, toolchain };
            let name = format!("{}:{}", corpus_object.path.display(), program.name);
            programs += 1;
            for stage in STAGES.into_iter().filter(|stage| kernel || *stage != Stage::Kernel) {
                let count = counts.entry(stage).or_default();
                match case.compared(stage, object) {
                    Comparison::Equal(packets) => {
                        (count.equal, count.packets) = (count.equal + 1, count.packets + packets)
                    }
                    Comparison::Nondeterministic(_) => count.nondeterministic += 1,
                    Comparison::NotRun(_) => count.not_run += 1,
                    Comparison::Different(what) => {
                        println!("{stage:?}: {name}: {what}");
                        count.different.push(name.clone());
                        continue;
                    }
                }
                if !count.canary
                    && programs <= CANARIES
                    && let Some(other) = mutated(object, program)
                {
                    count.canary = matches!(case.compared(stage, &other), Comparison::Different(_));
                }
            }
        }
    }
    for (stage, count) in &counts {
        println!(
            "{stage:?}: of {programs} programs {} equal on {} inputs, {} depend on more than the input, {} not run, {} differ",
            count.equal,
            count.packets,
            count.nondeterministic,
            count.not_run,
            count.different.len()
        );
        assert!(count.canary || programs == 0, "{stage:?} does not find a mutation");
        assert!(count.different.is_empty() || *stage == Stage::Kernel, "{stage:?} differs: {:?}", count.different);
    }
}
