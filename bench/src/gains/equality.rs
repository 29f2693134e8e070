//! Compares original and optimized program on ten thousand inputs each: return values, packets, outputs and maps.
//!
//! ```text
//!   inputs    packets (real protocols, cut, damaged, noise) or contexts (corner numbers, small ones, noise)
//!   maps      half of the inputs find them as the object has them, half filled with entries
//!   original -- once, and once more: what differs between these two (clocks, random numbers, addresses) is masked
//!   optimized -- once: everything else is equal, byte for byte
//! ```
//!
//! There are three places: the kernel runs what it can test-run, the VM runs programs whose helpers it has, and the VM
//! with stand-ins ([`kiln_vm::stand_in`]) runs nearly everything. A program runs in every possible place. In the VM the
//! clock stands still and random numbers come from one seed, so almost nothing is masked. If no place can run a
//! program, the reason is reported. A difference counts only if a dozen more runs of the original agree with its first
//! run at that point.

mod stand_in;

use std::collections::{BTreeMap, BTreeSet};

use kiln_driver::hex::hex;
use kiln_driver::kernel::{self, KernelProgram};
use kiln_driver::packets::{self, Random};
use kiln_driver::{Engine, Input, Object, Program, ProgramType, loading};
use kiln_isa::{AluOp, CallTarget, Insn, Reg, Source};
use kiln_platform::{Helper, MapType};
use kiln_vm::{Clock, UpdateFlag, Vm};
use serde::Serialize;

/// The result of a comparison in one place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Equal, with the numbers of inputs and of masked return values, packets and map bytes.
    Equal {
        /// Inputs that the program took.
        inputs: usize,
        /// Results that differ between runs of the original.
        masked: usize,
    },
    /// They differ: where, and on which input.
    Different(String),
    /// It could not be run there.
    NotRun(String),
}

/// A program's comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Equality {
    /// In the kernel, by test run.
    pub kernel: Outcome,
    /// In the VM, compiled.
    pub vm: Outcome,
    /// With stand-ins for what the VM lacks, interpreted.
    pub stand_in: Outcome,
}

impl Equality {
    /// The places and the results there.
    pub fn outcomes(&self) -> [(&'static str, &Outcome); 3] {
        [("the kernel", &self.kernel), ("the VM", &self.vm), ("the VM with stand-ins", &self.stand_in)]
    }
}

/// Inputs between two comparisons of the maps.
const BATCH: usize = 2500;
/// Entries that a map is filled with.
const FILLED: u32 = 64;
/// Bytes of a context without a packet.
const CONTEXT_BYTES: usize = 256;
/// Bytes of the context of a raw tracepoint: up to twelve arguments.
const ARGUMENT_BYTES: usize = 96;
/// Instructions of one run in the VM.
const MOST_INSNS: u64 = 10_000_000;
/// Runs of the original that must agree before a difference counts. Addresses in maps differ in few bits and may be
/// equal in several runs.
const WITNESSES: usize = 12;
/// The error of a test run for an input that the program type does not accept.
const EINVAL: i32 = 22;

/// A map's entry: after how many batches it was looked at, in which map, its key.
type Entry = (usize, String, Vec<u8>);

/// Everything that one program did: the result of each input, and the maps at each comparison.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Trace {
    runs: Vec<Option<Vec<u8>>>,
    maps: BTreeMap<Entry, Vec<u8>>,
}

/// Compares a program of two objects.
pub fn compare(before: &Input, after: &Input, program: &Program, count: usize) -> Equality {
    let Some(program_type) = program.program_type else {
        let outcome = Outcome::NotRun("it has no type".to_owned());
        return Equality { kernel: outcome.clone(), vm: outcome.clone(), stand_in: outcome };
    };
    let inputs = inputs(program_type, count);
    let in_kernel = |input: &Input| kernel_trace(before, input, program, &inputs);
    let in_vm = |input: &Input| vm_trace(&input.object, program, &inputs);
    Equality {
        kernel: judge([before, after], in_kernel),
        vm: judge([before, after], in_vm),
        stand_in: stand_in::compare(before, after, program, program_type, count),
    }
}

/// Two runs of the original, one of the other, and more of the original if they differ.
fn judge<S: Copy>([before, after]: [S; 2], trace: impl Fn(S) -> Result<Trace, String>) -> Outcome {
    let mut originals = Vec::new();
    let mut after_trace = Trace::default();
    // Programs may read the stack of the process that runs them, so all three run from one place, which the compiler
    // must not duplicate.
    for (side, is_original) in std::hint::black_box(&[(before, true), (before, true), (after, false)][..]) {
        match (trace(*side), is_original) {
            (Ok(trace), true) => originals.push(trace),
            (Ok(trace), false) => after_trace = trace,
            (Err(reason), true) => return Outcome::NotRun(reason),
            (Err(reason), false) => return Outcome::Different(format!("only the original runs: {reason}")),
        }
    }
    let inputs = originals[0].runs.iter().flatten().count();
    if inputs == 0 {
        return Outcome::NotRun("it takes none of the inputs".to_owned());
    }
    loop {
        let (difference, masked) = difference(&originals, &after_trace);
        match difference {
            None => return Outcome::Equal { inputs, masked },
            Some(found) if originals.len() == 2 + WITNESSES => return Outcome::Different(found),
            Some(_) => originals.extend(trace(before)),
        }
    }
}

/// The first difference of the other from the results on which all originals agree, and how many results they do not
/// agree on.
fn difference(originals: &[Trace], after: &Trace) -> (Option<String>, usize) {
    let (first, others) = originals.split_first().expect("the original ran");
    let mut masked = 0;
    for (at, run) in first.runs.iter().enumerate() {
        if others.iter().any(|other| other.runs[at] != *run) {
            masked += 1;
        } else if after.runs[at] != *run {
            let [old, new] = [run, &after.runs[at]].map(|run| run.as_deref().map_or("nothing".to_owned(), hex));
            return (Some(format!("input {at}: gave {new} instead of {old}")), masked);
        }
    }
    for (entry, value) in &first.maps {
        let (look, map, key) = entry;
        let here = || format!("map {map} at {} after {look} batches", hex(key));
        let Some(agreed) = others.iter().map(|other| other.maps.get(entry)).collect::<Option<Vec<_>>>() else {
            masked += 1;
            continue;
        };
        let Some(new) = after.maps.get(entry).filter(|new| new.len() == value.len()) else {
            return (Some(format!("{}: no such entry", here())), masked);
        };
        for (at, byte) in value.iter().enumerate() {
            if agreed.iter().any(|other| other.get(at) != Some(byte)) {
                masked += 1;
            } else if new[at] != *byte {
                return (Some(format!("{}: byte {at} is {:#x} instead of {byte:#x}", here(), new[at])), masked);
            }
        }
    }
    let unknown = |entry: &&Entry| originals.iter().all(|trace| !trace.maps.contains_key(*entry));
    let added: Vec<_> = after.maps.keys().filter(unknown).collect();
    if added.is_empty() {
        return (None, masked);
    }
    // Keys made of addresses, such as those of stack traces, differ between runs.
    let some_have = |entry: &&Entry| originals.iter().any(|trace| !trace.maps.contains_key(*entry));
    let entries = originals.iter().flat_map(|trace| trace.maps.keys());
    let wavering: BTreeSet<_> = entries.filter(some_have).map(|(look, map, _)| (look, map)).collect();
    let (free, fixed): (Vec<&Entry>, Vec<_>) =
        added.into_iter().partition(|(look, map, _)| wavering.contains(&(look, map)));
    let found = fixed.first().map(|(_, map, key)| format!("map {map}: an entry {} too many", hex(key)));
    (found, masked + free.len())
}

/// Inputs for a program type: packets if it has them, else contexts.
fn inputs(program_type: ProgramType, count: usize) -> Vec<Vec<u8>> {
    if kernel::takes_packet(program_type) {
        // Programs on socket buffers do not accept truncated IP headers (one packet in forty).
        let refused = if program_type.has_socket_buffer() { count / 20 } else { 0 };
        return packets::corpus(0x6571_7561, count + refused);
    }
    let bytes = if program_type == ProgramType::RawTracepoint { ARGUMENT_BYTES } else { CONTEXT_BYTES };
    let mut random = Random::new(0x636f_6e74);
    (0..count).map(|_| words(&mut random, bytes)).collect()
}

/// Bytes of 64-bit numbers as programs meet them: corners, small ones, any.
fn words(random: &mut Random, bytes: usize) -> Vec<u8> {
    const CORNERS: [u64; 9] = [0, 1, u64::MAX, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 32, 1 << 63, 0x0800];
    let word = |random: &mut Random| match random.below(4) {
        0 => CORNERS[random.below(CORNERS.len() as u64) as usize],
        1 => random.below(16),
        2 => random.below(1 << 32),
        _ => random.next(),
    };
    let mut all: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|_| word(random).to_ne_bytes()).collect();
    all.truncate(bytes);
    all
}

/// Keys and values for a map that user space may fill. Small keys come first, because programs look them up.
fn entries(map_type: MapType, key_bytes: usize, value_bytes: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut random = Random::new(0x6d61_7073);
    let entry = |number: u32| {
        let mut key = if number % 2 == 0 { vec![0; key_bytes] } else { words(&mut random, key_bytes) };
        let length = key_bytes.min(4);
        if matches!(map_type, MapType::Array | MapType::PercpuArray) || number % 2 == 0 {
            key[..length].copy_from_slice(&number.to_ne_bytes()[..length]);
        }
        (key, words(&mut random, value_bytes))
    };
    (0..FILLED).map(entry).collect()
}

/// The type of a map that takes any entries.
fn is_plain(object: &Object, name: &str) -> Option<MapType> {
    let map = object.maps.iter().find(|map| map.name == name)?;
    map.takes_any_entry().then_some(map.map_type)
}

fn kernel_trace(before: &Input, input: &Input, program: &Program, inputs: &[Vec<u8>]) -> Result<Trace, String> {
    let program_type = program.program_type.ok_or("it has no type")?;
    let packets = kernel::takes_packet(program_type);
    if !packets && !matches!(program_type, ProgramType::RawTracepoint | ProgramType::Syscall) {
        return Err(format!("the kernel does not test-run {} programs on any input", program_type.name()));
    }
    if let Some(helper) = dangerous(&before.object, program) {
        return Err(format!("it calls helper {helper}, which would reach this process"));
    }
    let mut trace = Trace::default();
    for (half, inputs) in inputs.chunks(inputs.len().div_ceil(2).max(1)).enumerate() {
        let loaded = kernel::load(&input.bytes, &before.object, program)
            .map_err(|failure| format!("does not load: {}", failure.reason().unwrap_or("the object as a whole")))?;
        if half == 1 {
            fill_kernel_maps(&loaded, &before.object);
        }
        for batch in inputs.chunks(BATCH) {
            for bytes in batch {
                let ran = match packets {
                    true => loaded.run_packet(bytes, 1).map(|output| (output.value, output.packet)),
                    false => loaded.prog.test_run_context(bytes),
                };
                trace.runs.push(match ran {
                    Ok((value, packet)) => Some([value.to_le_bytes().as_slice(), &packet].concat()),
                    Err(error) if error.errno() == Some(EINVAL) => None,
                    Err(error) => return Err(error.to_string()),
                });
            }
            trace.look(loaded.map_state());
        }
    }
    Ok(trace)
}

fn dangerous(object: &Object, program: &Program) -> Option<u32> {
    let functions = object.reachable_functions(program.entry).into_iter();
    let mut insns = functions.flat_map(|id| &object.function(id).nodes).map(|node| node.insn);
    insns.find_map(|insn| match insn {
        Insn::Call(CallTarget::Helper(number)) if Helper::by_id(number).is_none_or(|helper| helper.reaches_out) => {
            Some(number)
        }
        _ => None,
    })
}

fn fill_kernel_maps(loaded: &KernelProgram, object: &Object) {
    for name in loaded.object.map_names() {
        let (Some(map_type), Ok(map)) = (is_plain(object, &name), loaded.object.map(&name)) else { continue };
        for (key, value) in entries(map_type, map.key_bytes() as usize, map.value_bytes() as usize) {
            // Arrays have fewer entries than that, and hash maps get full.
            let _ = map.update(&key, &value, 0);
        }
    }
}

fn vm_trace(object: &Object, program: &Program, inputs: &[Vec<u8>]) -> Result<Trace, String> {
    let packets = kernel::takes_packet(program.program_type.ok_or("it has no type")?);
    let surroundings = kiln_vm::Surroundings { clock: Clock::Fixed(1 << 40), ..Default::default() };
    let options = kiln_vm::Options { budget: MOST_INSNS, surroundings, ..Default::default() };
    let mut trace = Trace::default();
    for (half, inputs) in inputs.chunks(inputs.len().div_ceil(2).max(1)).enumerate() {
        let mut vm =
            loading::new_vm(object, program, options.clone()).map_err(|error| shortened(&error.to_string()))?;
        if half == 1 {
            fill_vm_maps(&mut vm, object);
        }
        for batch in inputs.chunks(BATCH) {
            for bytes in batch {
                let input = if packets { kiln_vm::Input::packet(bytes) } else { kiln_vm::Input::context(bytes) };
                trace.runs.push(match vm.run(&program.name, &input, Engine::Jit) {
                    Ok(ran) => {
                        let output = format!("{:?}", ran.output);
                        Some(
                            [&(ran.value as u32).to_le_bytes(), &ran.packet[..], &ran.context, output.as_bytes()]
                                .concat(),
                        )
                    }
                    Err(kiln_vm::Error::Input(_)) => None,
                    Err(error) => return Err(error.to_string()),
                });
            }
            trace.look(vm.snapshot());
        }
    }
    Ok(trace)
}

/// The reason without program, map and place, so that equal reasons are counted together.
fn shortened(reason: &str) -> String {
    const FRONT: [&str; 3] = ["program ", "map ", "not supported"];
    let mut reason = reason.lines().next().unwrap_or_default();
    while let Some((front, rest)) = reason.split_once(": ")
        && FRONT.iter().any(|known| front.starts_with(known))
    {
        reason = rest;
    }
    reason.split(" (instruction").next().unwrap_or(reason).to_owned()
}

fn fill_vm_maps(vm: &mut Vm, object: &Object) {
    fill_maps(object, |name, key, value| {
        let id = vm.map(name)?;
        vm.update(id, key, value, UpdateFlag::Any)
    });
}

/// Fills the maps of an object that are plain.
fn fill_maps(object: &Object, mut update: impl FnMut(&str, &[u8], &[u8]) -> Result<(), kiln_vm::Error>) {
    for map in &object.maps {
        let Some(map_type) = is_plain(object, &map.name) else { continue };
        for (key, value) in entries(map_type, map.key_size as usize, map.value_size as usize) {
            // As above.
            let _ = update(&map.name, &key, &value);
        }
    }
}

impl Trace {
    fn look(&mut self, maps: impl IntoIterator<Item = (String, Vec<(Vec<u8>, Vec<u8>)>)>) {
        let look = self.runs.len().div_ceil(BATCH);
        for (name, entries) in maps {
            self.maps.extend(entries.into_iter().map(|(key, value)| ((look, name.clone(), key), value)));
        }
    }
}

/// The canary: makes constant results off by one, in every function. The comparison must find it wherever such a result
/// is returned. Returns whether there was one.
pub fn spoil(object: &mut Object, program: &Program) -> bool {
    let mut spoilt = false;
    for id in object.reachable_functions(program.entry) {
        for node in &mut object.functions[id.index()].nodes {
            if let Insn::Alu { op: AluOp::Mov, dst: Reg::R0, src: Source::Imm(imm), .. } = &mut node.insn {
                *imm ^= 1;
                spoilt = true;
            }
        }
    }
    spoilt
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTER: &str = "; map counters array key 4 value 8 entries 4
; program xdp name count
  r2 = *(u32 *)(r1 + 4)
  r6 = *(u32 *)(r1 + 0)
  r0 = 1
  r3 = r6
  r3 += 20
  if r3 > r2 goto out
  w1 = *(u8 *)(r6 + 12)
  w1 &= 3
  *(u32 *)(r10 - 4) = w1
  r1 = map[counters]
  r2 = r10
  r2 += -4
  call map_lookup_elem
  if r0 == 0 goto out
  r1 = *(u64 *)(r0 + 0)
  r1 += 1
  *(u64 *)(r0 + 0) = r1
  call get_prandom_u32
  r0 = 2
out:
  exit
";

    fn compared(after: &str) -> Outcome {
        let read = |text: &str| kiln_driver::input::parse("count.bpf", text.into(), &[]).expect("a program");
        let (before, after) = (read(COUNTER), read(after));
        compare(&before, &after, &before.object.programs[0], 400).vm
    }

    #[test]
    fn an_equal_program_is_equal() {
        let same = COUNTER.replace("  r3 = r6\n  r3 += 20", "  r3 = 20\n  r3 += r6");
        assert_eq!(compared(&same), Outcome::Equal { inputs: 400, masked: 0 });
    }

    #[test]
    fn wrong_programs_are_found() {
        for (right, wrong) in [
            ("r0 = 2", "r0 = 3"),
            ("r1 += 1", "r1 += 2"),
            ("w1 &= 3", "w1 &= 1"),
            ("r3 += 20", "r3 += 60"),
            ("call get_prandom_u32", "*(u8 *)(r6 + 0) = 7"),
        ] {
            let outcome = compared(&COUNTER.replace(right, wrong));
            assert!(matches!(outcome, Outcome::Different(_)), "{wrong}: {outcome:?}");
        }
    }

    #[test]
    fn what_the_original_does_not_always_do_alike_is_masked() {
        let clock = std::cell::Cell::new(0u8);
        let run = |last: u8| {
            clock.set(clock.get() + 1);
            Ok(Trace {
                runs: vec![Some(vec![clock.get()]), Some(vec![5])],
                maps: [((1, "times".to_owned(), vec![0]), vec![clock.get(), last])].into(),
            })
        };
        assert_eq!(judge([9, 9], run), Outcome::Equal { inputs: 2, masked: 2 });
        assert!(matches!(judge([9, 8], run), Outcome::Different(_)));
    }

    #[test]
    fn keys_that_are_others_each_time_are_masked() {
        let clock = std::cell::Cell::new(0u8);
        let run = |fixed: &[u8]| {
            clock.set(clock.get() + 1);
            let stacks = ((1, "stacks".to_owned(), vec![clock.get()]), vec![1]);
            let counts = fixed.iter().map(|key| ((1, "counts".to_owned(), vec![*key]), vec![1]));
            Ok(Trace { runs: vec![Some(vec![5])], maps: counts.chain([stacks]).collect() })
        };
        assert_eq!(judge([&[3][..], &[3]], run), Outcome::Equal { inputs: 1, masked: 2 });
        assert!(matches!(judge([&[3][..], &[3, 4]], run), Outcome::Different(_)));
        assert!(matches!(judge([&[3][..], &[]], run), Outcome::Different(_)));
    }

    #[test]
    fn the_canary_is_found() {
        let read = || kiln_driver::input::parse("count.bpf", COUNTER.into(), &[]).expect("a program");
        let (before, mut after) = (read(), read());
        assert!(spoil(&mut after.object, &before.object.programs[0]));
        let found = compare(&before, &after, &before.object.programs[0], 64).vm;
        assert!(matches!(found, Outcome::Different(_)), "{found:?}");
    }
}
