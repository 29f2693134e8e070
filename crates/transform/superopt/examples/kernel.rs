//! Whether the kernel agrees: `cargo run -p kiln-superopt --release --example kernel -- FILE.o...` (as root)
//!
//! Loads each program that the kernel takes before and after optimizing it, compares processed instructions, and
//! where it takes packets, runs both on the same ones: return values, packets and maps must be equal.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use kiln_elf::ElfObject;
use kiln_linux::{LoadFailure, LoadedObject, ObjectFile, Prog, TestInput};
use kiln_program::{ExternKind, Object, Program, ProgramId, Reference};
use kiln_superopt::{Judge, Options, Unverified, optimize_judged};

fn load(bytes: &[u8], object: &Object, program: &Program) -> Result<(LoadedObject, Prog), LoadFailure> {
    let mut file = ObjectFile::open(&object.name, bytes)?;
    file.only(&[&program.name])?;
    let known = file.programs().iter().any(|entry| entry.name == program.name && entry.program_type != 0);
    if let (false, Some(program_type)) = (known, program.program_type) {
        file.set_type(&program.name, program_type, program.attach_type)?;
    }
    let mut used: HashSet<&str> = HashSet::new();
    for function in object.reachable_functions(program.entry) {
        for node in &object.function(function).nodes {
            match node.reference {
                Reference::Map(map) | Reference::MapValue { map, .. } => {
                    used.insert(&object.map(map).name);
                }
                Reference::Extern(symbol) => {
                    if let ExternKind::Kconfig { map, .. } = object.externs[symbol.index()].kind {
                        used.insert(&object.map(map).name);
                    }
                }
                _ => {}
            }
        }
    }
    let same = |own: &str, other: &str| own == other || own.starts_with('.') && other.ends_with(own);
    let slots = object.maps.iter().any(|map| matches!(map.contents, kiln_program::MapContents::Slots(_)));
    if !slots {
        file.without_maps(|name| {
            object.maps.iter().any(|map| same(&map.name, name)) && !used.iter().any(|own| same(own, name))
        });
    }
    let loaded = file.load()?;
    let prog = loaded.program(&program.name)?;
    Ok((loaded, prog))
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *state >> 33
}

/// Packets of several protocols, with random parts and cut at random places.
fn packets() -> Vec<Vec<u8>> {
    let mut state = 7;
    (0..256)
        .map(|index| {
            let mut packet: Vec<u8> = (0..200).map(|_| random(&mut state) as u8).collect();
            let (ether, start) = if random(&mut state) % 4 == 0 { (0x8100, 18) } else { (0, 14) };
            let types = [0x0800, 0x86dd, 0x0800, 0x0806, 0x88a8];
            let kind: u16 = types[index % types.len()];
            packet[12..14].copy_from_slice(&kind.to_be_bytes());
            if ether != 0 {
                packet[12..14].copy_from_slice(&0x8100_u16.to_be_bytes());
                packet[16..18].copy_from_slice(&kind.to_be_bytes());
            }
            let protocols = [6, 17, 1, 58, 4, 41, 47, 44, 0];
            let protocol = protocols[random(&mut state) as usize % protocols.len()];
            if kind == 0x0800 {
                packet[start] = if random(&mut state) % 8 == 0 { 0x46 } else { 0x45 };
                packet[start + 6..start + 8].copy_from_slice(&[0, 0]);
                packet[start + 8] = 64;
                packet[start + 9] = protocol;
            } else {
                packet[start] = 0x60;
                packet[start + 6] = protocol;
            }
            let length = if random(&mut state) % 4 == 0 {
                14 + random(&mut state) as usize % 60
            } else {
                120 + random(&mut state) as usize % 80
            };
            packet.truncate(length);
            packet
        })
        .collect()
}

type Trace = (Vec<Result<(u32, Vec<u8>), String>>, BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>);

fn trace(loaded: &LoadedObject, prog: &Prog, packets: &[Vec<u8>]) -> Trace {
    let run = |packet: &Vec<u8>| {
        let input = TestInput { packet: packet.clone(), context: Vec::new(), repeat: 1 };
        prog.test_run(&input).map(|output| (output.value, output.packet)).map_err(|error| error.to_string())
    };
    let runs = packets.iter().map(run).collect();
    let maps = loaded.map_names().into_iter();
    let entries = |name: String| Some((name.clone(), loaded.map(&name).ok()?.entries(4096).ok()?));
    (runs, maps.filter_map(entries).collect())
}

fn cost(bytes: &[u8], object: &Object, program: &Program) -> Option<u32> {
    load(bytes, object, program).ok().and_then(|(_, prog)| Some(prog.info().ok()?.verified_insns))
}

/// The kernel's word, while optimizing: refused, or harder to verify by more than 2% (or 8 instructions).
struct Kernel<'a> {
    elf: &'a ElfObject,
    costs: Vec<Option<u32>>,
}

impl Judge for Kernel<'_> {
    fn judge(&self, object: &Object, programs: &[ProgramId]) -> Vec<(ProgramId, String)> {
        let Ok(bytes) = self.elf.write(object) else { return Vec::new() };
        let complaint = |id: &ProgramId| {
            let old = self.costs[id.index()]?;
            match cost(&bytes, object, &object.programs[id.index()]) {
                Some(new) if new <= old + (old / 50).max(8) => None,
                new => Some((*id, format!("{new:?} processed instructions instead of {old}"))),
            }
        };
        programs.iter().filter_map(complaint).collect()
    }
}

/// What all objects together gave.
#[derive(Default)]
struct Totals {
    loads: u32,
    refused: u32,
    equal: u32,
    differ: u32,
    unlike_itself: u32,
    /// Processed instructions before and after.
    cost: [u64; 2],
    /// Slots before and after.
    slots: [u32; 2],
    /// The part of its slots that each program lost.
    ratios: Vec<f64>,
}

impl Totals {
    /// Loads a program before and after, compares what the kernel says, and what both do.
    fn compare(&mut self, path: &str, own: (&[u8], &Object, &Program), new: (&[u8], &Object, &Program)) {
        let name = &own.2.name;
        let Ok((before, prog)) = load(own.0, own.1, own.2) else { return };
        self.loads += 1;
        let (one, other) = (own.1.program_slots(own.2), new.1.program_slots(new.2));
        self.slots = [self.slots[0] + one, self.slots[1] + other];
        self.ratios.push(f64::from(one - other) / f64::from(one));
        let (after, new_prog) = match load(new.0, new.1, new.2) {
            Ok(loaded) => loaded,
            Err(failure) => {
                self.refused += 1;
                println!("REFUSED {path} {name}: {}", failure.why());
                return;
            }
        };
        if let (Ok(one), Ok(other)) = (prog.info(), new_prog.info()) {
            self.cost[0] += u64::from(one.verified_insns);
            self.cost[1] += u64::from(other.verified_insns);
            if other.verified_insns > one.verified_insns {
                println!("HARDER {path} {name}: {} -> {}", one.verified_insns, other.verified_insns);
            }
        }
        let packets = packets();
        let first = trace(&before, &prog, &packets);
        if first.0.iter().all(Result::is_err) {
            return;
        }
        let second = trace(&after, &new_prog, &packets);
        if first == second {
            self.equal += 1;
            return;
        }
        let Ok((again, prog)) = load(own.0, own.1, own.2) else { return };
        if trace(&again, &prog, &packets) == first {
            self.differ += 1;
            let at = first.0.iter().zip(&second.0).position(|(one, other)| one != other);
            println!("DIFFERENT {path} {name}: packet {at:?}");
        } else {
            self.unlike_itself += 1;
        }
    }

    fn print(&self) {
        let Totals { loads, refused, equal, differ, unlike_itself, cost, slots, ratios } = self;
        println!(
            "{loads} loaded before, {refused} refused after; {equal} equal, {differ} different, {unlike_itself} unlike \
             themselves; processed instructions {} -> {}; slots {} -> {}, mean reduction {:.2}%",
            cost[0],
            cost[1],
            slots[0],
            slots[1],
            100.0 * ratios.iter().sum::<f64>() / ratios.len().max(1) as f64
        );
    }
}

fn main() {
    let (flags, files): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|argument| argument.starts_with('-'));
    let has = |name: &str| flags.iter().any(|flag| flag == name);
    let budget = flags.iter().find_map(|flag| flag.strip_prefix("--budget=")?.parse().ok()).unwrap_or(10);
    let options = Options {
        budget: Duration::from_secs(budget),
        unverified: if has("-u") { Unverified::All } else { Unverified::None },
        without: flags.iter().filter_map(|flag| flag.strip_prefix("--without=")).map(str::to_owned).collect(),
        ..Options::default()
    };
    let mut totals = Totals::default();
    for path in &files {
        let bytes = std::fs::read(path).expect("a readable file");
        let Ok(elf) = kiln_elf::read(path, &bytes) else { continue };
        let costs: Vec<Option<u32>> = elf.object.programs.iter().map(|own| cost(&bytes, &elf.object, own)).collect();
        let judge = Kernel { elf: &elf, costs };
        let rewrite = optimize_judged(&elf.object, &options, &mut (), Some(&judge));
        for (who, function, why) in rewrite.refused.iter().filter(|(who, ..)| *who == "judge") {
            println!("{who} {path} {function}: {why}");
        }
        let rewritten = match elf.write(&rewrite.object) {
            Ok(rewritten) => rewritten,
            Err(error) => {
                println!("CANNOT WRITE {path}: {error}");
                continue;
            }
        };
        for (old, new) in elf.object.programs.iter().zip(&rewrite.object.programs) {
            let same = elf.object.program_slots(old) == rewrite.object.program_slots(new);
            if !(same && has("-c")) {
                totals.compare(path, (&bytes, &elf.object, old), (&rewritten, &rewrite.object, new));
            }
        }
    }
    totals.print();
}
