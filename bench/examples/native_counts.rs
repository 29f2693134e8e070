//! Instructions that programs execute in the running kernel with native operations and without, and bytes of machine code.
//! For a machine whose clock counts instructions, a nanosecond each:
//!
//! ```text
//!   scripts/patched-kernel --count
//!     kiln ops OBJECT --target linux -o FOLDER/... --> initramfs --> native_counts FOLDER
//! ```
//!
//! Each program is loaded with records of its marks and without. It runs on the candidate packet on which it executes
//! most; what an empty program of its type takes is not counted. Result and packet must be the same with records as
//! without, on all packets, unless they differ from run to run without them, too. Programs that take no packet have only
//! their bytes compared. The kernel refuses programs that ask for more than it has (its types, a target); their number
//! is printed.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kiln_bench::candidate;
use kiln_driver::kernel::{self, KernelProgram, takes_packet};
use kiln_driver::{Object, Program, ProgramType, input, packets};
use kiln_linux::{Prog, TestInput, TestOutput};

/// Packets to choose from: of the benchmarks, and of protocols.
const CANDIDATES: u64 = 12;
const PROTOCOLS: usize = 36;
/// Runs of which the kernel gives the mean, and how often; the least is without the timer's interrupt.
const REPEAT: u32 = 1000;
const TRIES: usize = 5;
/// Runs that choose a packet.
const TRIAL: u32 = 4;
/// Programs that execute more are not run a thousand times: an emulated machine takes minutes.
const MAX_EXECUTED: u32 = 50_000;
/// Programs with more instructions are left out: an emulated machine verifies them for minutes.
const MAX_INSNS: usize = 4096;
/// Additions that the clock must count.
const ADDITIONS: u32 = 500;

/// Without records, and with them.
type Pair = [u32; 2];

/// A program that the kernel took with records.
struct Row {
    name: String,
    records: usize,
    executed: Option<Pair>,
    bytes: Pair,
}

fn main() -> ExitCode {
    match std::env::args()
        .nth(1)
        .ok_or_else(|| "usage: native_counts FOLDER".to_owned())
        .and_then(|folder| run(&folder))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("FAIL {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(folder: &str) -> Result<(), String> {
    let mut counter = Counter::new()?;
    let mut objects = Vec::new();
    find(Path::new(folder), &mut objects);
    for path in &objects {
        let name = path.strip_prefix(folder).unwrap_or(path).display().to_string();
        counter.object(path, &name)?;
    }
    counter.print_sums();
    if counter.rows.iter().any(|row| row.executed.is_some()) { Ok(()) } else { Err("no program was run".to_owned()) }
}

/// Object files below a folder, by name.
fn find(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            find(&path, found);
        } else {
            found.push(path);
        }
    }
}

struct Counter {
    packets: Vec<Vec<u8>>,
    /// Empty programs, by type.
    empty: HashMap<ProgramType, Option<Prog>>,
    rows: Vec<Row>,
    refused: usize,
    too_long: usize,
}

impl Counter {
    /// Fails unless the machine's clock counts instructions.
    fn new() -> Result<Counter, String> {
        let packets: Vec<_> = (0..CANDIDATES).map(candidate::packet).chain(packets::corpus(1, PROTOCOLS)).collect();
        let additions = |count| -> Result<u32, String> {
            let prog = example(ProgramType::Xdp, &"  r0 += 1\n".repeat(count as usize))?;
            Ok(executed(&prog, &packets[0], REPEAT)?.duration_ns)
        };
        let counted = additions(2 * ADDITIONS)?.abs_diff(additions(ADDITIONS)?);
        println!("{ADDITIONS} additions: {counted} instructions counted");
        if counted.abs_diff(ADDITIONS) > ADDITIONS / 100 {
            return Err("this machine's clock does not count instructions".to_owned());
        }
        Ok(Counter { packets, empty: HashMap::new(), rows: Vec::new(), refused: 0, too_long: 0 })
    }

    fn object(&mut self, path: &Path, name: &str) -> Result<(), String> {
        let input = input::open(path, &[]).map_err(|error| error.to_string())?;
        let object = &input.object;
        let marked: HashSet<_> = object.operations.iter().flat_map(|mark| &mark.members).collect();
        for program in object.programs.iter().filter(|program| program.program_type.is_some()) {
            let functions = object.reachable_functions(program.entry);
            let nodes = || functions.iter().flat_map(|function| &object.functions[function.index()].nodes);
            if !nodes().any(|node| marked.contains(&node.id)) {
                continue;
            }
            if nodes().count() > MAX_INSNS {
                self.too_long += 1;
                continue;
            }
            match kernel::load(&input.bytes, object, program) {
                Ok(loaded) if loaded.native_operations > 0 => self.program(&loaded, object, program, name)?,
                _ => self.refused += 1,
            }
        }
        Ok(())
    }

    fn program(
        &mut self,
        loaded: &KernelProgram,
        object: &Object,
        program: &Program,
        file: &str,
    ) -> Result<(), String> {
        let name = format!("{file}:{}", program.name);
        let failed = |error: kiln_linux::Error| format!("{name}: {error}");
        let plain = loaded.object.program(&program.name).map_err(failed)?;
        let both = [&plain, &loaded.prog];
        let bytes = both.map(|prog| prog.info().map_or(0, |info| info.jited_bytes));
        let program_type = program.program_type.filter(|own| takes_packet(*own) && !object.functions.is_empty());
        let executed = match program_type {
            Some(own) => self.executed(both, own).map_err(|why| format!("{name}: {why}"))?,
            None => None,
        };
        let row = Row { name, records: loaded.native_operations, executed, bytes };
        row.print();
        self.rows.push(row);
        Ok(())
    }

    /// Instructions of a run on the packet that takes most, an empty program's left out. `None` if the kernel cannot run it,
    /// or not so often: packets may grow from run to run.
    fn executed(&mut self, both: [&Prog; 2], program_type: ProgramType) -> Result<Option<Pair>, String> {
        let mut most = (0, 0);
        for (number, packet) in self.packets.iter().enumerate() {
            let Ok(ran) = executed(both[0], packet, TRIAL) else { return Ok(None) };
            most = most.max((ran.duration_ns, number));
            same(both, packet)?;
        }
        if most.0 > MAX_EXECUTED {
            self.too_long += 1;
            return Ok(None);
        }
        let empty = self.empty.entry(program_type).or_insert_with(|| example(program_type, "").ok());
        let Some(empty) = empty else { return Ok(None) };
        let packet = &self.packets[most.1];
        let times =
            [empty, both[0], both[1]].map(|prog| executed(prog, packet, REPEAT).ok().map(|ran| ran.duration_ns));
        let [Some(around), Some(plain), Some(native)] = times else { return Ok(None) };
        Ok(Some([plain, native].map(|own| own.saturating_sub(around))))
    }

    fn print_sums(&self) {
        let ran: Vec<(&Row, Pair)> = self.rows.iter().filter_map(|row| Some((row, row.executed?))).collect();
        let sum =
            |pairs: &mut dyn Iterator<Item = Pair>| pairs.fold([0, 0], |all, own| [all[0] + own[0], all[1] + own[1]]);
        let bytes = sum(&mut self.rows.iter().map(|row| row.bytes));
        let records: usize = self.rows.iter().map(|row| row.records).sum();
        println!(
            "{} programs with {records} records: {} bytes without, {} with; {} refused, {} too long",
            self.rows.len(),
            bytes[0],
            bytes[1],
            self.refused,
            self.too_long
        );
        let executed = sum(&mut ran.iter().map(|(_, pair)| *pair));
        println!("{} programs run: {} instructions without, {} with", ran.len(), executed[0], executed[1]);
        let ratio = |pair: &Pair| f64::from(pair[1]) / f64::from(pair[0].max(1));
        let mut ordered = ran.clone();
        ordered.sort_by(|a, b| ratio(&a.1).total_cmp(&ratio(&b.1)));
        let fewer = ran.iter().filter(|(_, pair)| pair[1] < pair[0]).count();
        let more: Vec<_> = ordered.iter().filter(|(_, pair)| pair[1] > pair[0]).collect();
        println!("{fewer} execute fewer, {} more, {} as many", more.len(), ran.len() - fewer - more.len());
        for (row, pair) in ordered.iter().take(3) {
            println!("best {} {:.3}", row.name, ratio(pair));
        }
        for (row, pair) in more {
            println!("more {} {:.3}", row.name, ratio(pair));
        }
    }
}

impl Row {
    fn print(&self) {
        let executed = self.executed.map_or("not run".to_owned(), |[plain, native]| format!("{plain} {native}"));
        let [plain, native] = self.bytes;
        println!("{} records {} instructions {executed} bytes {plain} {native}", self.name, self.records);
    }
}

/// Fails if a program does not do the same with records, although it does the same from run to run without them.
fn same(both: [&Prog; 2], packet: &[u8]) -> Result<(), String> {
    let [plain, native] = both;
    let run = |prog: &Prog| executed(prog, packet, 1).map(|ran| (ran.value, ran.packet));
    let (first, with, second) = (run(plain)?, run(native)?, run(plain)?);
    let differ = first == second && with != first;
    if differ { Err(format!("another result with records: {} and {}", first.0, with.0)) } else { Ok(()) }
}

/// Runs a program; its time is the least of some tries.
fn executed(prog: &Prog, packet: &[u8], repeat: u32) -> Result<TestOutput, String> {
    let input = TestInput { packet: packet.to_vec(), context: Vec::new(), repeat };
    let mut least: Option<TestOutput> = None;
    for _ in 0..if repeat == REPEAT { TRIES } else { 1 } {
        let ran = prog.test_run(&input).map_err(|error| error.to_string())?;
        if least.as_ref().is_none_or(|least| ran.duration_ns < least.duration_ns) {
            least = Some(ran);
        }
    }
    least.ok_or_else(|| "it was not run".to_owned())
}

/// A program of a type with these instructions between `r0 = 0` and `exit`.
fn example(program_type: ProgramType, body: &str) -> Result<Prog, String> {
    let text = format!("; program {}\n  r0 = 0\n{body}  exit\n", program_type.name());
    let object = kiln_program::text::parse(&text).map_err(|error| error.to_string())?;
    let program = object.programs.first().ok_or("no program")?;
    kiln_linux::load_image(&object, program).map(|loaded| loaded.prog).map_err(|failure| failure.why())
}
