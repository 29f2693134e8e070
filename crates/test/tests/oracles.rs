//! The oracles on generated programs and on all filetests, and their canaries.

use std::path::Path;

use kiln_driver::packets::{self, Random};
use kiln_platform::ProgramType;
use kiln_program::Object;
use kiln_test::corpus;
use kiln_test::engine::{Engine, kernel_available};
use kiln_test::filetest::{Check, Filetest};
use kiln_test::generate;
use kiln_test::oracle::{Canary, Finding, engines, facts, liveness, rewrite, safety};

/// Generated programs with a packet each.
fn generated(seed: u64, count: usize) -> Vec<(Object, Vec<u8>)> {
    let mut random = Random::new(seed);
    let packets = packets::corpus(seed, count);
    packets
        .into_iter()
        .enumerate()
        .map(|(index, mut packet)| {
            // Socket buffers that end within their headers are refused before any program sees them.
            packet.resize(packet.len().max(64), 0);
            let length = 4 + random.below(60) as usize;
            let object = match index % 3 {
                0 => generate::arithmetic(&mut random, ProgramType::Xdp, length),
                1 => generate::arithmetic(&mut random, ProgramType::SchedCls, length),
                _ => generate::packet_program(&mut random, length),
            };
            (object, packet)
        })
        .collect()
}

/// Programs that the kernel accepts, from the filetests, with packets.
fn accepted_filetests() -> Vec<(Object, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/filetests");
    let files = Filetest::find(&folder).unwrap();
    let read = files.iter().map(|path| Filetest::read(&folder, path).unwrap());
    let accepted = read.filter(|file| file.expectations.check == Some(Check::Accept));
    accepted
        .flat_map(|file| {
            let own = file.expectations.runs.iter().map(|run| run.packet.clone()).collect::<Vec<_>>();
            let packets = own.into_iter().chain(packets::corpus(9, 8));
            packets.map(move |packet| (file.object.clone(), packet)).collect::<Vec<_>>()
        })
        .collect()
}

fn everything(seed: u64, count: usize) -> Vec<(Object, Vec<u8>)> {
    generated(seed, count).into_iter().chain(accepted_filetests()).collect()
}

/// Runs an oracle over programs. It must hold wherever it applies, and apply to at least half of them.
#[track_caller]
fn holds(inputs: &[(Object, Vec<u8>)], oracle: impl Fn(&Object, &[u8]) -> Finding) {
    let mut held = 0;
    for (object, packet) in inputs {
        match oracle(object, packet) {
            Finding::Held => held += 1,
            Finding::NotApplicable(_) => {}
            Finding::Broken(what) => panic!("{}: {what}", object.name),
        }
    }
    assert!(held * 2 >= inputs.len(), "it held for only {held} of {} programs", inputs.len());
    println!("held for {held} of {} programs", inputs.len());
}

/// With the canary bug the oracle must find something.
#[track_caller]
fn finds(inputs: &[(Object, Vec<u8>)], oracle: impl Fn(&Object, &[u8]) -> Finding) {
    let found = inputs.iter().filter(|(object, packet)| matches!(oracle(object, packet), Finding::Broken(_))).count();
    assert!(found > 0, "the canary was not found in {} programs", inputs.len());
}

const LOCAL: [Engine; 3] = [Engine::Reference, Engine::Interpreter, Engine::Jit];

#[test]
fn interpreters_and_jit_agree() {
    let agree = |canary| {
        move |object: &Object, packet: &[u8]| engines::agree(object, &object.programs[0], packet, &LOCAL, canary)
    };
    holds(&generated(1, 1500), agree(Canary::Absent));
    finds(&generated(1, 100), agree(Canary::Present));
}

#[test]
fn jit_and_kernel_agree() {
    if let Err(reason) = kernel_available() {
        println!("skipped: kernel: {reason}");
        return;
    }
    let agree = |canary| {
        move |object: &Object, packet: &[u8]| {
            engines::agree(object, &object.programs[0], packet, &[Engine::Jit, Engine::Kernel], canary)
        }
    };
    holds(&generated(2, 600), agree(Canary::Absent));
    finds(&generated(2, 60), agree(Canary::Present));
}

#[test]
fn generated_programs_are_accepted() {
    for (object, _) in generated(3, 300) {
        if let Err(Finding::NotApplicable(reason)) = safety::accepted(&object, &object.programs[0]) {
            panic!("{reason}\n{}", kiln_program::text::listing(&object));
        }
    }
}

#[test]
fn concrete_states_are_within_facts() {
    let within = |canary| {
        move |object: &Object, packet: &[u8]| match safety::accepted(object, &object.programs[0]) {
            Ok(learned) => facts::hold(object, &object.programs[0], &learned, packet, canary),
            Err(finding) => finding,
        }
    };
    holds(&everything(4, 600), within(Canary::Absent));
    finds(&generated(4, 20), within(Canary::Present));
}

#[test]
fn what_is_dead_does_not_matter() {
    let dead = |canary| {
        move |object: &Object, packet: &[u8]| match safety::accepted(object, &object.programs[0]) {
            Ok(learned) => liveness::dead_is_dead(object, &object.programs[0], &learned, packet, canary),
            Err(finding) => finding,
        }
    };
    holds(&everything(5, 600), dead(Canary::Absent));
    finds(&generated(5, 20), dead(Canary::Present));
}

#[test]
fn accepted_programs_do_not_fault() {
    let safe = |canary| {
        move |object: &Object, packet: &[u8]| match safety::accepted(object, &object.programs[0]) {
            Ok(_) => safety::does_not_fault(object, &object.programs[0], packet, canary),
            Err(finding) => finding,
        }
    };
    holds(&everything(6, 300), safe(Canary::Absent));
    finds(&accepted_filetests(), safe(Canary::Present));
}

#[test]
fn rewritten_programs_do_the_same() {
    let same = |canary| {
        move |object: &Object, packet: &[u8]| {
            let after = rewrite::optimized(object, canary);
            let mut packets = packets::corpus(7, 4);
            packets.push(packet.to_vec());
            rewrite::same(object, &after, &object.programs[0], &packets, Engine::Reference)
        }
    };
    let miscompiled = "; program xdp\nw1 = -1\n*(u64 *)(r10 - 8) = r1\nr0 = *(u64 *)(r10 - 8)\nr0 >>= 32\nexit";
    let miscompiled = (kiln_program::text::parse(miscompiled).unwrap(), vec![0; 64]);
    finds(std::slice::from_ref(&miscompiled), same(Canary::Present));
    holds(&[miscompiled], same(Canary::Absent));
    holds(&generated(7, 60), same(Canary::Absent));
}

/// Whether the bare environment has all that the context of this program type points to.
fn has_packet(program_type: ProgramType) -> bool {
    use ProgramType::{CgroupSkb, LwtIn, LwtOut, LwtXmit, SchedAct, SchedCls, SocketFilter, Xdp};
    matches!(program_type, Xdp | SchedCls | SchedAct | SocketFilter | CgroupSkb | LwtIn | LwtOut | LwtXmit)
}

fn is_may_goto(insn: &kiln_isa::Insn) -> bool {
    matches!(insn, kiln_isa::Insn::MayGoto { .. })
}

/// The facts about real programs: up to the first helper that the bare environment lacks, states were within the facts,
/// and overwriting dead values changed nothing.
#[test]
fn facts_about_the_corpus_hold() {
    let packets = packets::corpus(11, 12);
    let (mut programs, mut runs, mut whole_runs) = (0, 0, 0);
    let mut broken = Vec::new();
    for entry in corpus::objects() {
        let Ok(input) = entry.read() else { continue };
        let object = &input.object;
        for program in object.programs.iter().filter(|program| program.program_type.is_some_and(has_packet)) {
            // The loop budget of `may_goto` is unlimited in the bare environment.
            if object.functions.iter().flat_map(|function| &function.nodes).any(|node| is_may_goto(&node.insn)) {
                continue;
            }
            let Ok(learned) = safety::accepted(object, program) else { continue };
            programs += 1;
            for packet in &packets {
                let findings = [
                    facts::hold(object, program, &learned, packet, Canary::Absent),
                    liveness::dead_is_dead(object, program, &learned, packet, Canary::Absent),
                ];
                let found = findings.iter().find_map(|finding| match finding {
                    Finding::Broken(what) => Some(what),
                    _ => None,
                });
                if let Some(what) = found {
                    broken.push(format!("{} {}: {what}", entry.path.display(), program.name));
                    break;
                }
                runs += 1;
                whole_runs += usize::from(findings[0] == Finding::Held);
            }
        }
    }
    println!("{runs} runs of {programs} programs, {whole_runs} of them to the end");
    assert!(broken.is_empty(), "{} programs:\n{}", broken.len(), broken.join("\n\n"));
}
