//! Tier "accepted": programs that the verifier accepts, run everywhere.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use kiln_driver::input::running_kernel_types;
use kiln_driver::packets::Random;
use kiln_program::text::listing;
use kiln_program::{Interpreter, MapId, Object, Trap};
use kiln_superopt::Goal;
use kiln_superopt::search::NAME;
use kiln_superopt::{Options, Unverified};
use kiln_test::bare::{Bare, CONTEXT};
use kiln_test::havoc::{self, Tally};
use kiln_test::oracle::{self, Canary, Finding};
use kiln_verifier::Facts;
use kiln_vm::{Engine, Input, Vm};

use super::target::{Depth, ensure};
use crate::choices::Choices;
use crate::composed::composed;
use crate::coverage;
use crate::differential::{in_kernel, in_vm};
use crate::program::{PACKET_BYTES, tame};
use crate::subject::{Subject, Verdict};

/// Maximum number of instructions of one run; programs of this tier need a few hundred.
const BUDGET: u64 = 100_000;

/// The results of a run.
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

/// Packets for all programs that are optimized, so that a failing one can be made smaller: of several lengths, with any
/// bytes, small numbers, corners.
fn different_packets() -> Vec<Vec<u8>> {
    let mut random = Random::new(7);
    let mut packets = packets(&[]);
    packets.extend([vec![0; PACKET_BYTES], vec![1; 14], random.bytes(40), random.bytes(80)]);
    for length in [65, 72, 100, 110] {
        packets.push((0..length).map(|_| random.pick(&[0, 1, 2, 0x7f, 0x80, 0xff])).collect());
    }
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
    vm.load("entry").map_err(|error| error.to_string())?;
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
        // Safety is checked first, because the machine code checks nothing.
        let expected = reference(&object, &packet)?;
        held("facts", oracle::facts::hold(&object, program, &facts, &packet, Canary::Absent))?;
        held("liveness", oracle::liveness::dead_is_dead(&object, program, &facts, &packet, Canary::Absent))?;
        agree("VM", &expected, vm(&(subject.interpreted)(&object), Engine::Interpreter, &packet))?;
        agree("JIT", &expected, vm(&(subject.compiled)(&object), Engine::Jit, &packet))?;
    }
    Ok(Depth::Deep)
}

/// Composed programs: states within the facts whatever helpers return, dead values are dead, and both engines of the VM
/// agree.
pub fn answers(subject: &Subject, bytes: &[u8]) -> Result<Depth, String> {
    let (object, _) = composed(&mut Choices::new(bytes));
    let program = &object.programs[0];
    let Verdict::Accepted(facts) = (subject.verify)(&object, program) else { return Ok(Depth::Shallow) };
    let mut tally = Tally::default();
    let packets = different_packets();
    for (seed, packet) in packets.iter().enumerate() {
        havoc::check(&object, program, &facts, packet, seed as u64 + 1, Canary::Absent, &mut tally)
            .map_err(|what| format!("facts: {what}"))?;
    }
    let interpreted = in_vm(&(subject.interpreted)(&object), &packets, Engine::Interpreter);
    let compiled = in_vm(&(subject.compiled)(&object), &packets, Engine::Jit);
    ensure(interpreted == compiled, || format!("JIT disagrees: {compiled:x?} instead of {interpreted:x?}"))?;
    Ok(if tally.to_the_end > 0 { Depth::Deep } else { Depth::Shallow })
}

/// What the optimizer is asked for, and of which program: the first choices of an input.
struct Task {
    object: Object,
    options: Options,
    in_kernel: bool,
    fragments: Vec<&'static str>,
}

impl Task {
    fn of(bytes: &[u8]) -> Task {
        let mut choices = Choices::new(bytes);
        let options = Options {
            goal: choices.pick(&[Goal::Balanced, Goal::Size, Goal::Speed, Goal::Complexity]),
            // Few programs are searched: it takes far longer than all passes, and is a judge of its own.
            without: if choices.one_in(16) { BTreeSet::new() } else { BTreeSet::from([NAME.to_owned()]) },
            isa: if choices.one_in(4) { 4 } else { 3 },
            unverified: if choices.one_in(8) { Unverified::All } else { Unverified::None },
            budget: Duration::from_secs(2),
            kernel_types: running_kernel_types(),
            threads: 1,
            ..Options::default()
        };
        let in_kernel = choices.one_in(4) && kiln_test::engine::kernel_available().is_ok();
        let (object, fragments) = match choices.below(5) {
            4 => (tame(&mut choices), Vec::new()),
            _ => composed(&mut choices),
        };
        Task { object, options, in_kernel, fragments }
    }
}

/// The program of an input, the goal, what became of it, and why.
pub fn show_optimized(subject: &Subject, bytes: &[u8]) -> String {
    let task = Task::of(bytes);
    let rewrite = (subject.optimize)(&task.object, &task.options);
    let mut text = format!("; goal {}, without {:?}\n", task.options.goal.name(), task.options.without);
    text.push_str(&listing(&task.object));
    for one in &rewrite.evidence {
        let _ = writeln!(text, "; {}: {:?} -> {:?}", one.because.name(), one.before, one.after);
    }
    text + &listing(&rewrite.object)
}

/// The optimized program does what the original does: what it returns, packets, maps.
pub fn optimize(subject: &Subject, bytes: &[u8]) -> Result<Depth, String> {
    let task = Task::of(bytes);
    let object = &task.object;
    if let Verdict::Refused(_) | Verdict::Unanswered(_) = (subject.verify)(object, &object.programs[0]) {
        return Ok(Depth::Shallow);
    }
    task.fragments.iter().for_each(|fragment| coverage::count("fragments", fragment));
    let packets = different_packets();
    let Ok(expected) = in_vm(object, &packets, Engine::Jit) else { return Ok(Depth::Shallow) };
    let rewrite = (subject.optimize)(object, &task.options);
    for one in &rewrite.evidence {
        coverage::count(if one.because.is_law() { "laws" } else { "rules" }, one.because.name());
    }
    let optimized = &rewrite.object;
    let slots = |object: &Object| object.program_slots(&object.programs[0]);
    ensure(task.options.goal.may_grow() || slots(optimized) <= slots(object), || {
        "the optimized program is larger".to_owned()
    })?;
    let ran = in_vm(optimized, &packets, Engine::Jit).map_err(|error| format!("optimized, it fails: {error}"))?;
    ensure(ran == expected, || format!("optimized, it differs: {ran:x?} instead of {expected:x?}"))?;
    if task.in_kernel
        && let Ok(expected) = in_kernel(object, &packets)
    {
        let ran = in_kernel(optimized, &packets).map_err(|error| format!("optimized, the kernel fails: {error}"))?;
        ensure(ran == expected, || format!("optimized, it differs in the kernel: {ran:x?} instead of {expected:x?}"))?;
    }
    Ok(if optimized == object { Depth::Shallow } else { Depth::Deep })
}

/// The kernel does what the reference interpreter does. Programs that the kernel's verifier refuses are skipped.
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
