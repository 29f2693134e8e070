//! Tier "accepted": programs that the verifier accepts, run everywhere.

use kiln_program::{Interpreter, MapId, Object, Trap};
use kiln_test::bare::{Bare, CONTEXT};
use kiln_test::oracle::{self, Canary, Finding};
use kiln_verifier::Facts;
use kiln_vm::{Engine, Input, Vm};

use super::{Depth, ensure};
use crate::choices::Choices;
use crate::program::{PACKET_BYTES, tame};
use crate::random::Random;
use crate::subject::{Subject, Verdict};

/// Instructions of one run at most; programs of this tier need a few hundred.
const BUDGET: u64 = 100_000;

/// What a run leaves behind.
#[derive(PartialEq, Eq, Debug)]
struct Ran {
    value: u32,
    packet: Vec<u8>,
    map: Vec<u8>,
}

/// Grows a program and asks for its verdict.
fn grown(subject: &Subject, bytes: &[u8]) -> Option<(Object, Facts)> {
    let object = tame(&mut Choices::new(bytes));
    match (subject.verify)(&object, &object.programs[0]) {
        Verdict::Accepted(facts) => Some((object, facts)),
        Verdict::Refused(_) | Verdict::Unanswered(_) => None,
    }
}

/// Packets for a program: the least that it takes, longer ones, one too short. They depend on the input.
fn packets(bytes: &[u8]) -> Vec<Vec<u8>> {
    let seed = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    let mut random = Random::new(seed);
    let mut packets: Vec<Vec<u8>> = [PACKET_BYTES, PACKET_BYTES + 7, 128, 20].map(|length| random.bytes(length)).into();
    // Small numbers and all ones take other branches than random bytes.
    packets[1].fill(0xff);
    packets[2].iter_mut().for_each(|byte| *byte &= 3);
    packets
}

/// Runs in the bare environment.
fn reference(object: &Object, packet: &[u8]) -> Result<Ran, String> {
    let mut bare = Bare::new(object, object.programs[0].program_type, packet);
    let outcome = Interpreter::new(object).run(object.programs[0].entry, CONTEXT, &mut bare, BUDGET);
    match outcome {
        Ok(outcome) => {
            Ok(Ran { value: outcome.value as u32, map: bare.values(MapId(0)).to_vec(), packet: bare.packet })
        }
        Err(Trap::Budget { .. }) => Err("accepted, but it does not end".to_owned()),
        Err(trap) => Err(format!("accepted, but it faults: {trap}")),
    }
}

fn held(what: &str, finding: Finding) -> Result<(), String> {
    match finding {
        Finding::Broken(why) => Err(format!("{what}: {why}")),
        Finding::Held | Finding::NotApplicable(_) => Ok(()),
    }
}

fn vm(object: &Object, engine: Engine, packet: &[u8]) -> Result<Ran, String> {
    let options = kiln_vm::Options { budget: BUDGET, ..kiln_vm::Options::default() };
    let mut vm = Vm::new(object, options).map_err(|error| error.to_string())?;
    // The caller holds the verdict, or a canary's; a program that faults has been found before it gets here.
    vm.load_unverified("entry").map_err(|error| error.to_string())?;
    let ran = vm.run("entry", &Input::packet(packet), engine).map_err(|error| error.to_string())?;
    let entries = vm.entries(MapId(0)).map_err(|error| error.to_string())?;
    let map = entries.into_iter().flat_map(|(_, value)| value).collect();
    Ok(Ran { value: ran.value as u32, packet: ran.packet, map })
}

fn agree(who: &str, expected: &Ran, ran: Result<Ran, String>) -> Result<(), String> {
    let ran = ran.map_err(|error| format!("{who} fails: {error}"))?;
    ensure(ran.value == expected.value, || {
        format!("{who} disagrees: returned {:#x}, not {:#x}", ran.value, expected.value)
    })?;
    ensure(ran.packet == expected.packet, || format!("{who} disagrees about the packet"))?;
    ensure(ran.map == expected.map, || format!("{who} disagrees about the map"))
}

/// No fault, states within the facts, VM and JIT agree with the reference.
pub fn run(subject: &Subject, bytes: &[u8]) -> Result<Depth, String> {
    let Some((object, facts)) = grown(subject, bytes) else { return Ok(Depth::Shallow) };
    let program = &object.programs[0];
    for packet in packets(bytes) {
        // Whether it is safe comes first: the machine code checks nothing.
        let expected = reference(&object, &packet)?;
        held("facts", oracle::facts::hold(&object, program, &facts, &packet, Canary::Absent))?;
        held("liveness", oracle::liveness::dead_is_dead(&object, program, &facts, &packet, Canary::Absent))?;
        agree("VM", &expected, vm(&(subject.interpreted)(&object), Engine::Interpreter, &packet))?;
        agree("JIT", &expected, vm(&(subject.compiled)(&object), Engine::Jit, &packet))?;
    }
    Ok(Depth::Deep)
}

/// The optimized program does what the original does.
pub fn optimize(subject: &Subject, bytes: &[u8]) -> Result<Depth, String> {
    let Some((object, _)) = grown(subject, bytes) else { return Ok(Depth::Shallow) };
    let optimized = (subject.optimize)(&object);
    ensure(optimized.program_slots(&optimized.programs[0]) <= object.program_slots(&object.programs[0]), || {
        "the optimized program is larger".to_owned()
    })?;
    for packet in packets(bytes) {
        let expected = reference(&object, &packet)?;
        agree("optimized", &expected, reference(&optimized, &packet))?;
    }
    Ok(if optimized == object { Depth::Shallow } else { Depth::Deep })
}

/// The kernel does what the reference interpreter does. What the kernel's verifier refuses says nothing.
pub fn kernel(subject: &Subject, bytes: &[u8]) -> Result<Depth, String> {
    if kiln_test::engine::kernel_available().is_err() {
        return Ok(Depth::Shallow);
    }
    let Some((object, _)) = grown(subject, bytes) else { return Ok(Depth::Shallow) };
    let given = (subject.in_kernel)(&object);
    for packet in packets(bytes) {
        // Loaded anew each time: the reference begins with fresh maps, too.
        let Ok(loaded) = kiln_linux::load_image(&given, &given.programs[0]) else { return Ok(Depth::Shallow) };
        let expected = reference(&object, &packet)?;
        let input = kiln_linux::TestInput { packet: packet.clone(), context: Vec::new(), repeat: 1 };
        let ran = loaded.prog.test_run(&input).map_err(|error| format!("kernel fails: {error}"))?;
        ensure(ran.value == expected.value, || {
            format!("kernel disagrees: returned {:#x}, not {:#x}", ran.value, expected.value)
        })?;
        ensure(ran.packet == expected.packet, || "kernel disagrees about the packet".to_owned())?;
    }
    Ok(Depth::Deep)
}
