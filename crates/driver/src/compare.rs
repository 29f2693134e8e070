//! Two objects side by side: the same return values, packets and maps on the same inputs.
//!
//! The oracle of every rewrite. A program and its rewritten self each get a fresh load, so that their maps begin
//! equal, and run on the same packets in the same order; after the last one, everything observable is compared.
//! What differs from run to run by nature (clocks, random numbers, addresses) is found by running the *original*
//! twice first: where it disagrees with itself, a comparison says nothing, and is reported as such.

use kiln_program::{Object, Program};
use kiln_vm::{Engine, Vm};
use serde::Serialize;

use crate::kernel::{self, KernelProgram};
use crate::loading;
use kiln_inspect::hex::hex;

/// How a comparison ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict", content = "detail")]
pub enum Comparison {
    /// Everything observable was equal on this many inputs.
    Equal(usize),
    /// The original differs from itself: what it computes depends on more than its input.
    Nondeterministic(String),
    /// They differ.
    Different(String),
    /// It could not be run.
    NotRun(String),
}

/// What a program did on a list of inputs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    /// Return value and packet of each run; `None` for an input that the program type does not take, such as a cut-off
    /// IP header for programs on socket buffers.
    pub runs: Vec<Option<(u64, Vec<u8>)>>,
    /// Map entries afterwards, by map name.
    pub maps: Vec<(String, Vec<(Vec<u8>, Vec<u8>)>)>,
}

/// Compares two traces of equal inputs; `None` when they are equal.
pub fn difference(before: &Trace, after: &Trace, inputs: &[Vec<u8>]) -> Option<String> {
    for (index, (old, new)) in before.runs.iter().zip(&after.runs).enumerate() {
        let input = inputs.get(index).map(|bytes| hex(bytes)).unwrap_or_default();
        match (old, new) {
            (Some(old), Some(new)) if old.0 != new.0 => {
                return Some(format!("input {index}: returned {} instead of {} on {input}", new.0, old.0));
            }
            (Some(old), Some(new)) if old.1 != new.1 => {
                let first = old.1.iter().zip(&new.1).position(|(a, b)| a != b);
                let at = first.unwrap_or(old.1.len().min(new.1.len()));
                return Some(format!("input {index}: the packet differs from byte {at} on {input}"));
            }
            (Some(_), None) | (None, Some(_)) => {
                return Some(format!("input {index}: only one of the two runs on {input}"));
            }
            _ => {}
        }
    }
    for ((name, old), (_, new)) in before.maps.iter().zip(&after.maps) {
        if old != new {
            return Some(format!("map {name} differs afterwards"));
        }
    }
    (before.runs.len() != after.runs.len() || before.maps.len() != after.maps.len())
        .then(|| "the numbers of runs or maps differ".to_owned())
}

/// Compares a program of two object files in the running kernel.
pub fn in_kernel(before: (&[u8], &Object), after: &[u8], program: &Program, packets: &[Vec<u8>]) -> Comparison {
    let Some(program_type) = program.program_type else {
        return Comparison::NotRun("the program has no type".to_owned());
    };
    if !kernel::takes_packet(program_type) {
        return Comparison::NotRun(format!("no packets for {} programs", program_type.name()));
    }
    // The original says which maps are loaded: a rewrite may need fewer, and what it leaves of them counts too.
    let trace = |bytes: &[u8]| kernel_trace(bytes, before.1, program, packets);
    judge(|| trace(before.0), || trace(after), packets)
}

/// What a program of an object file does with packets in the running kernel, one after the other. `object` says which maps
/// are loaded.
///
/// # Errors
/// Fails if the kernel does not load the program, or if a run fails, but not for a packet that it does not take.
pub fn kernel_trace(bytes: &[u8], object: &Object, program: &Program, packets: &[Vec<u8>]) -> Result<Trace, String> {
    let loaded = kernel::load(bytes, object, program).map_err(|failure| failure.why())?;
    run_all(&loaded, packets).map_err(|error| error.to_string())
}

/// Compares a program of two objects in the VM.
pub fn in_vm(
    before: &Object,
    after: &Object,
    program: &Program,
    packets: &[Vec<u8>],
    engines: (Engine, Engine),
) -> Comparison {
    let Some(program_type) = program.program_type else {
        return Comparison::NotRun("the program has no type".to_owned());
    };
    if !kernel::takes_packet(program_type) {
        return Comparison::NotRun(format!("no packets for {} programs", program_type.name()));
    }
    let trace = |object: &Object, engine: Engine| -> Result<Trace, String> {
        let own = object.program(&program.name).ok_or("the program is gone")?;
        let vm = loading::new_vm(object, own, kiln_vm::Options::default()).map_err(|error| error.to_string())?;
        vm_trace(&vm, own, packets.iter().map(|packet| kiln_vm::Input::packet(packet)), engine)
    };
    judge(|| trace(before, engines.0), || trace(after, engines.1), packets)
}

/// What a program of a new VM does with inputs, one after the other.
///
/// # Errors
/// Fails if a run does, but not for an input that the program does not take.
pub fn vm_trace<'a>(
    vm: &Vm,
    program: &Program,
    inputs: impl Iterator<Item = kiln_vm::Input<'a>>,
    engine: Engine,
) -> Result<Trace, String> {
    let mut runs = Vec::with_capacity(inputs.size_hint().0);
    for input in inputs {
        runs.push(match vm.run(&program.name, &input, engine) {
            Ok(ran) => Some((ran.value & 0xffff_ffff, ran.packet)),
            Err(kiln_vm::Error::Input(_)) => None,
            Err(error) => return Err(error.to_string()),
        });
    }
    Ok(Trace { runs, maps: vm.snapshot().into_iter().collect() })
}

/// Runs of the original that must agree before a difference is the rewrite's.
const WITNESSES: usize = 6;

/// Runs the original twice and the other once, and compares; where they differ, the original some more times, for what
/// depends on more than the input may still have come out equal twice.
pub fn judge(
    mut before: impl FnMut() -> Result<Trace, String>,
    mut after: impl FnMut() -> Result<Trace, String>,
    inputs: &[Vec<u8>],
) -> Comparison {
    let (first, second) = match (before(), before()) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(reason), _) | (_, Err(reason)) => return Comparison::NotRun(reason),
    };
    let third = match after() {
        Ok(trace) => trace,
        Err(reason) => return Comparison::Different(format!("only the original runs: {reason}")),
    };
    match (difference(&first, &third, inputs), difference(&first, &second, inputs)) {
        (None, _) => match first.runs.iter().flatten().count() {
            0 => Comparison::NotRun("the program type takes none of the inputs".to_owned()),
            count => Comparison::Equal(count),
        },
        (Some(_), Some(own)) => Comparison::Nondeterministic(own),
        (Some(found), None) => {
            let more = (2..WITNESSES).filter_map(|_| difference(&first, &before().ok()?, inputs));
            more.map(Comparison::Nondeterministic).next().unwrap_or(Comparison::Different(found))
        }
    }
}

/// What a test run answers to an input that the program type does not take.
const EINVAL: i32 = 22;

fn run_all(loaded: &KernelProgram, packets: &[Vec<u8>]) -> Result<Trace, kiln_linux::Error> {
    let mut runs = Vec::with_capacity(packets.len());
    for packet in packets {
        runs.push(match loaded.run_packet(packet, 1) {
            Ok(output) => Some((u64::from(output.value), output.packet)),
            Err(error) if error.errno() == Some(EINVAL) => None,
            Err(error) => return Err(error),
        });
    }
    Ok(Trace { runs, maps: loaded.map_state() })
}
