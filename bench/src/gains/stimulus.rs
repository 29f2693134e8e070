//! The input for timing a program: a packet and map entries on which as much of it as possible runs.
//!
//! Programs often return early: the protocol is another one, the key is not in a map, a table of CPUs is empty. On such
//! a packet, only the call and the first branch would be timed. So the original runs in the interpreter, which reports
//! which instructions ran and which keys were not found, and its input is extended with what it looks for:
//!
//! ```text
//!   packets of real protocols     --the one on which most of the program runs-->  best
//!   arrays of numbers             filled with ones, if more runs then
//!   keys asked for in vain        put into their maps
//!   constants it compares with    written into the packet, at every offset, in both byte orders; and as its length
//!                                 --as long as more runs-->  best
//! ```
//!
//! Runs are ranked by distinct instructions executed, then by instructions executed. The search is limited by the
//! number of runs, not by time. It sees the original alone, so the input on which both forms are timed does not depend
//! on the result.
//!
//! A test run passes the packet of one repetition to the next. If the packet changes the result (each run pushes a
//! header, until there is no space), it is ranked by what most of its repetitions do.

use std::collections::{BTreeMap, BTreeSet};

use kiln_driver::kernel::KernelProgram;
use kiln_driver::{Object, Program, loading, packets};
use kiln_isa::{AluOp, Insn, Source};
use kiln_platform::MapType;
use kiln_program::{InsnId, MapContents, MapId};
use kiln_superopt::CostModel;
use kiln_vm::{UpdateFlag, Vm};

/// The input for timing a program.
#[derive(Clone, Default, Debug)]
pub struct Stimulus {
    /// The packet.
    pub packet: Vec<u8>,
    /// Contents of maps, in addition to those of the object.
    pub entries: Vec<Entry>,
}

/// An entry of a map; the value is that of one CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    map: String,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// How much of a program runs. The order is that of the fields.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
struct Reach {
    /// Different instructions, each in at least half of the repetitions.
    different: usize,
    /// Instructions in all.
    executed: u64,
}

/// What one run executes, a repetition's mean.
pub type Runs = BTreeMap<InsnId, f64>;

/// Packets of real protocols to begin with.
const PACKETS: usize = 256;
/// Runs that the search for one program may take.
const MOST_RUNS: u32 = 20_000;
/// Instructions of one run.
const MOST_INSNS: u64 = 100_000;
/// Repetitions on one packet: the first may find what the second does not.
const REPETITIONS: u32 = 2;
/// Repetitions where the packet changes its length: headers pushed fill the room before a packet.
const REPETITIONS_OF_GROWING: u32 = 32;
/// Bytes of a packet that constants are written into.
const WRITTEN_BYTES: usize = 96;
/// Lengths that packets are tried with: those of small and of full frames.
const LENGTHS: [usize; 6] = [60, 64, 128, 590, 1024, 1514];
/// Entries that an array of numbers is filled with at most.
const MOST_ENTRIES: u32 = 256;
/// Rounds of keys and constants at most; each has to gain something.
const MOST_ROUNDS: usize = 16;

/// What values may be: programs ask whether they are zero, and index other maps with them.
const FILLINGS: [u32; 3] = [1, 0, u32::MAX];

struct Search<'a> {
    vm: Vm,
    object: &'a Object,
    program: &'a Program,
    best: Stimulus,
    reach: Reach,
    runs_left: u32,
}

/// The input on which most of the original runs.
///
/// # Errors
/// What the VM lacks for it, or why it takes no packet.
pub fn search(object: &Object, program: &Program) -> Result<Stimulus, String> {
    let best = Stimulus { packet: packets::corpus(1, 1).remove(0), entries: Vec::new() };
    let vm = new_vm(object, program)?;
    let mut search = Search { vm, object, program, best, reach: Reach::default(), runs_left: MOST_RUNS };
    let packets = packets::corpus(1, PACKETS);
    search.improve(&packets);
    search.fill_tables(&packets);
    let constants = constants(object, program);
    for _ in 0..MOST_ROUNDS {
        let before = search.reach;
        search.add_missing_keys();
        search.write_constants(&constants);
        if search.reach <= before || search.runs_left == 0 {
            break;
        }
    }
    if search.reach == Reach::default() {
        return Err(search.runs(&search.best.packet.clone()).err().unwrap_or_default());
    }
    Ok(search.best)
}

fn new_vm(object: &Object, program: &Program) -> Result<Vm, String> {
    let options = kiln_vm::Options { budget: MOST_INSNS, ..Default::default() };
    loading::new_vm(object, program, options).map_err(|error| error.to_string())
}

/// How often each instruction runs on an input, once what the first runs do is done.
///
/// # Errors
/// What the VM lacks for it.
pub fn runs(object: &Object, program: &Program, stimulus: &Stimulus) -> Result<Runs, String> {
    let mut vm = new_vm(object, program)?;
    stimulus.entries.iter().for_each(|entry| put(&mut vm, entry));
    repeat(&mut vm, program, &stimulus.packet, REPETITIONS_OF_GROWING).map(|(runs, _)| runs)
}

/// What the cost model says of those runs, in nanoseconds, and how many different instructions they are.
pub fn predicted_ns(object: &Object, program: &Program, runs: &Runs, model: &CostModel) -> (f64, usize) {
    let nodes = object.reachable_functions(program.entry).into_iter().flat_map(|id| &object.function(id).nodes);
    let times = nodes.filter_map(|node| Some(runs.get(&node.id)? * model.picoseconds(&node.insn) as f64));
    (times.sum::<f64>() / 1000.0, runs.values().filter(|runs| **runs >= 0.5).count())
}

fn repeat(vm: &mut Vm, program: &Program, packet: &[u8], repetitions: u32) -> Result<(Runs, bool), String> {
    let input = kiln_vm::Input::packet(packet).repeated(repetitions);
    let (result, observed) = vm.observe(&program.name, &input).map_err(|error| error.to_string())?;
    let mean = |count: u64| count as f64 / f64::from(repetitions);
    let runs = observed.runs.into_iter().map(|(insn, count)| (insn, mean(count))).collect();
    Ok((runs, result.packet.len() != packet.len()))
}

impl Search<'_> {
    fn runs(&mut self, packet: &[u8]) -> Result<Runs, String> {
        self.runs_left = self.runs_left.saturating_sub(1);
        let (runs, grows) = repeat(&mut self.vm, self.program, packet, REPETITIONS)?;
        if !grows {
            return Ok(runs);
        }
        self.runs_left = self.runs_left.saturating_sub(REPETITIONS_OF_GROWING / REPETITIONS);
        repeat(&mut self.vm, self.program, packet, REPETITIONS_OF_GROWING).map(|(runs, _)| runs)
    }

    fn reach_of(&mut self, packet: &[u8]) -> Reach {
        let Ok(runs) = self.runs(packet) else { return Reach::default() };
        let different = runs.values().filter(|runs| **runs >= 0.5).count();
        Reach { different, executed: runs.values().sum::<f64>() as u64 }
    }

    /// Uses the best of some packets, if it is better than the current one.
    fn improve(&mut self, packets: &[Vec<u8>]) {
        for packet in packets {
            let reach = self.reach_of(packet);
            if reach > self.reach {
                (self.reach, self.best.packet) = (reach, packet.clone());
            }
        }
    }

    /// Fills all tables that the loader fills, if more of the program runs then.
    fn fill_tables(&mut self, packets: &[Vec<u8>]) {
        let before = (self.reach, self.best.packet.clone());
        let tables: Vec<(usize, Vec<Entry>)> =
            (0..self.object.maps.len()).map(|index| (index, self.table(index))).collect();
        for (_, table) in &tables {
            table.iter().for_each(|entry| put(&mut self.vm, entry));
        }
        self.reach = Reach::default();
        self.improve(packets);
        if self.reach > before.0 {
            self.best.entries = tables.into_iter().flat_map(|(_, table)| table).collect();
            return;
        }
        (self.reach, self.best.packet) = before;
        if let Ok(vm) = new_vm(self.object, self.program) {
            self.vm = vm;
        }
    }

    /// What a table would be filled with; nothing where a map is none.
    fn table(&self, index: usize) -> Vec<Entry> {
        let map = &self.object.maps[index];
        let count = match map.map_type {
            MapType::Array | MapType::PercpuArray if matches!(map.contents, MapContents::Empty) => {
                map.max_entries.min(MOST_ENTRIES)
            }
            MapType::Devmap | MapType::DevmapHash => map.max_entries.min(2),
            // Each entry has a thread of its own.
            MapType::Cpumap => 1,
            _ => 0,
        };
        (0..count).map(|number| self.entry(index, number.to_ne_bytes().to_vec(), FILLINGS[0])).collect()
    }

    fn entry(&self, map: usize, key: Vec<u8>, filling: u32) -> Entry {
        let map = &self.object.maps[map];
        let mut value = filling.to_ne_bytes().repeat(map.value_size as usize / 4 + 1);
        value.truncate(map.value_size as usize);
        // After a device or the length of a queue comes the descriptor of a program; there is none.
        if matches!(map.map_type, MapType::Devmap | MapType::DevmapHash | MapType::Cpumap) {
            value.iter_mut().skip(4).for_each(|byte| *byte = 0);
        }
        Entry { map: map.name.clone(), key, value }
    }

    /// Inserts keys that the best run did not find into their maps, as long as it looks up more.
    fn add_missing_keys(&mut self) {
        let mut tried: BTreeSet<(MapId, Vec<u8>)> = BTreeSet::new();
        loop {
            let input = kiln_vm::Input::packet(&self.best.packet);
            let Ok((_, observed)) = self.vm.observe(&self.program.name, &input) else { return };
            let missed = observed.missed.into_iter().find(|missed| !tried.contains(missed) && self.may_fill(missed.0));
            let Some((map, key)) = missed.filter(|_| self.runs_left > 0) else { return };
            self.add_entry(map, &key);
            tried.insert((map, key));
        }
    }

    fn may_fill(&self, map: MapId) -> bool {
        const KEYED: [MapType; 7] = [
            MapType::Hash,
            MapType::LruHash,
            MapType::PercpuHash,
            MapType::LruPercpuHash,
            MapType::LpmTrie,
            MapType::Devmap,
            MapType::DevmapHash,
        ];
        self.object.maps.get(map.index()).is_some_and(|map| KEYED.contains(&map.map_type))
    }

    fn add_entry(&mut self, map: MapId, key: &[u8]) {
        let packet = self.best.packet.clone();
        let tried = FILLINGS.map(|filling| {
            let entry = self.entry(map.index(), key.to_vec(), filling);
            put(&mut self.vm, &entry);
            (self.reach_of(&packet), entry)
        });
        // The first of those that are equal.
        let Some((reach, entry)) = tried.into_iter().rev().max_by_key(|(reach, _)| *reach) else { return };
        if reach < self.reach {
            // It is not an error if the entry does not exist.
            let _ = self.vm.delete(map, key);
            return;
        }
        put(&mut self.vm, &entry);
        self.reach = reach;
        self.best.entries.push(entry);
    }

    /// Writes the program's constants into the best packet wherever that makes more of it run.
    fn write_constants(&mut self, constants: &[Vec<u8>]) {
        for at in 0..WRITTEN_BYTES {
            for constant in constants {
                let mut packet = self.best.packet.clone();
                let Some(bytes) = packet.get_mut(at..at + constant.len()).filter(|bytes| bytes != constant) else {
                    continue;
                };
                if self.runs_left == 0 {
                    return;
                }
                bytes.copy_from_slice(constant);
                self.improve(&[packet]);
            }
        }
        for length in LENGTHS {
            let mut packet = self.best.packet.clone();
            packet.resize(length, 0);
            self.improve(&[packet]);
        }
    }
}

/// What cannot be put is left out: hash maps get full.
fn put(vm: &mut Vm, entry: &Entry) {
    let Ok(map) = vm.map(&entry.map) else { return };
    let per_cpu = vm.definition(map).is_some_and(|definition| is_per_cpu(definition.map_type));
    let _ = vm.update(map, &entry.key, &value_of_all(entry, per_cpu, 1), UpdateFlag::Any);
}

fn is_per_cpu(map_type: MapType) -> bool {
    matches!(map_type, MapType::PercpuArray | MapType::PercpuHash | MapType::LruPercpuHash)
}

fn value_of_all(entry: &Entry, per_cpu: bool, cpus: usize) -> Vec<u8> {
    let mut value = entry.value.clone();
    if per_cpu {
        value.resize(value.len().next_multiple_of(8), 0);
        value = value.repeat(cpus);
    }
    value
}

impl Stimulus {
    /// Fills a loaded program's maps.
    pub fn fill(&self, loaded: &KernelProgram) {
        for entry in &self.entries {
            let Ok(map) = loaded.object.map(&entry.map) else { continue };
            let one = entry.value.len().next_multiple_of(8);
            let per_cpu = map.value_bytes() as usize != entry.value.len();
            let value = value_of_all(entry, per_cpu, map.value_bytes() as usize / one.max(1));
            // What cannot be put is left out, for both forms alike.
            let _ = map.update(&entry.key, &value, 0);
        }
    }
}

/// Numbers that a program compares with or masks by, as bytes of a packet in either order.
fn constants(object: &Object, program: &Program) -> Vec<Vec<u8>> {
    let mut numbers: BTreeSet<u32> = [1, 5, 6, 17].into();
    for node in object.reachable_functions(program.entry).into_iter().flat_map(|id| &object.function(id).nodes) {
        match node.insn {
            Insn::Branch { src: Source::Imm(imm), .. }
            | Insn::Alu { op: AluOp::And | AluOp::Xor | AluOp::Sub, src: Source::Imm(imm), .. } => {
                numbers.extend([imm as u32, (imm as u32).wrapping_add(1)]);
            }
            _ => {}
        }
    }
    let mut constants = BTreeSet::new();
    for number in numbers {
        let bytes = number.to_be_bytes();
        let length = match number {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            _ => 4,
        };
        let big = bytes[4 - length..].to_vec();
        constants.extend([big.iter().rev().copied().collect(), big]);
    }
    constants.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARSER: &str = "; map flows hash key 4 value 8 entries 4
; map limits array key 4 value 4 entries 1
; program xdp name p
  r6 = *(u32 *)(r1 + 0)
  r2 = *(u32 *)(r1 + 4)
  r3 = r6
  r3 += 18
  if r3 > r2 goto out
  r4 = *(u16 *)(r6 + 12)
  if r4 != 0x3412 goto out
  r5 = *(u32 *)(r6 + 14)
  *(u32 *)(r10 - 4) = r5
  r2 = r10
  r2 += -4
  r1 = map[flows] ll
  call map_lookup_elem
  if r0 == 0 goto out
  r7 = *(u64 *)(r0 + 0)
  if r7 == 0 goto out
  *(u32 *)(r10 - 4) = 0
  r2 = r10
  r2 += -4
  r1 = map[limits] ll
  call map_lookup_elem
  if r0 == 0 goto out
  r1 = *(u32 *)(r0 + 0)
  if r1 == 0 goto out
  r0 = 1
  exit
out:
  r0 = 2
  exit
";

    #[test]
    fn what_a_program_asks_for_it_gets() {
        let object = kiln_program::text::parse(&PARSER.replace(" ll", "")).expect("it parses");
        let program = &object.programs[0];
        let stimulus = search(&object, program).expect("the VM runs it");
        assert_eq!(stimulus.packet[12..14], [0x12, 0x34]);
        let runs = runs(&object, program, &stimulus).expect("the VM runs it");
        // All but the way out.
        let (ns, reached) = predicted_ns(&object, program, &runs, &CostModel::default());
        assert_eq!(reached, object.functions[0].nodes.len() - 2);
        assert!(ns > 0.0);
    }

    #[test]
    fn what_grows_until_there_is_no_room_counts_for_what_it_does_then() {
        let text = "; program xdp name p\n r2 = -20\n call xdp_adjust_head\n if r0 != 0 goto out\n r0 = 1\n r0 += 1\n \
                    r0 += 1\n exit\nout:\n r0 = 0\n exit\n";
        let object = kiln_program::text::parse(text).expect("it parses");
        let stimulus = Stimulus { packet: vec![0; 64], entries: Vec::new() };
        let runs = runs(&object, &object.programs[0], &stimulus).expect("the VM runs it");
        let [pushes, fails] = [3, 7].map(|at| runs[&object.functions[0].nodes[at].id]);
        assert!(pushes < 0.5 && fails > 0.5, "{pushes} {fails}");
    }
}
