//! Forced cancellation: each point of each program fires once, under whatever it holds; nothing leaks.
//!
//! A build with [`Options::forced`] has one point that the terminate word fires, in its first iteration. Everything that
//! could leak is scarce or checked: a ring buffer with room for seven records, kernel locks that the next run takes, the
//! kernel's own refusal to end a program in a critical section, and the count of references of a socket. The VM counts what
//! a run still holds at its end.

use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};

use kiln_linux::{RingReader, TestInput};
use kiln_sandbox::counted::{POINTS, RUNS, SECTION};
use kiln_sandbox::supply::Memory;
use kiln_sandbox::{Options, Point, Target, sandbox};

use crate::world::{ENGINES, Extension, LOCAL, Place, REMOTE, World, compiled, global, kernel_types, word};

const SOURCE: &str = "tests/heaps/held.bpf.c";
pub const ENDED: u32 = 7;
const TC_OK: u32 = 0;
const XDP_PASS: u32 = 2;
/// How often each point fires: more often than anything that leaks could be leaked.
const TIMES: u64 = 8;

/// The shared section of a loaded extension.
pub struct Shared<'w>(pub &'w World);

impl Shared<'_> {
    pub fn read(&self) -> Vec<u8> {
        self.0.value(SECTION)
    }

    /// Sets the terminate word, and the counters to 0.
    pub fn terminate(&self, value: u64) {
        let mut bytes = vec![0; self.read().len()];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        self.0.set_value(SECTION, &bytes);
    }

    /// Sets the terminate word, and leaves the counters.
    pub fn set(&self, on: bool) {
        let mut bytes = self.read();
        bytes[..8].copy_from_slice(&u64::from(on).to_le_bytes());
        self.0.set_value(SECTION, &bytes);
    }

    /// How many runs were cancelled at a point.
    pub fn count(&self, point: usize) -> u64 {
        word(&self.read(), POINTS as usize + 8 * point)
    }
}

/// A ring of three nodes, and how far programs walk.
pub fn fill(extension: &Extension, world: &World) {
    const FIRST: usize = 4096;
    let heap = world.heap();
    heap.populate(FIRST, 4096).expect("pages");
    let node = |at: usize| FIRST + 16 * (at % 3);
    for at in 0..3 {
        heap.store(node(at), heap.address() + node(at + 1) as u64).expect("in the heap");
        heap.store(node(at) + 8, at as u64).expect("in the heap");
    }
    set_variables(extension, world, &[("head", heap.address() + FIRST as u64), ("rounds", 5)]);
}

fn set_variables(extension: &Extension, world: &World, values: &[(&str, u64)]) {
    let mut bytes = world.globals();
    for (name, value) in values {
        let at = global(&extension.object, name);
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    world.set_globals(&bytes);
}

/// A TCP connection, one end of which programs find; the kernel counts references to it, unlike to a UDP socket.
struct Connection {
    _ends: (TcpStream, TcpStream),
    ports: [u16; 2],
}

impl Connection {
    fn new() -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let one = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (other, from) = listener.accept().expect("accepts");
        let ports = [from.port(), other.local_addr().expect("bound").port()];
        Connection { _ends: (one, other), ports }
    }

    /// How many references the kernel counts to the end that programs find (`/proc/net/tcp`).
    fn references(&self) -> u64 {
        let table = std::fs::read_to_string("/proc/thread-self/net/tcp").expect("the table of sockets");
        let [remote, local] = self.ports.map(|port| format!("0100007F:{port:04X}"));
        let is_own = |line: &&str| {
            let mut words = line.split_whitespace();
            (words.nth(1), words.next()) == (Some(&local), Some(&remote))
        };
        let row = table.lines().find(is_own).expect("the socket");
        row.split_whitespace().nth(10).and_then(|field| field.parse().ok()).expect("a count of references")
    }
}

/// An extension where it runs, with what its programs hold: nodes, a socket, room for records.
struct Site<'w> {
    world: &'w World,
    /// In the kernel.
    outside: Option<(Connection, RingReader)>,
    /// Of the last run, in the VM.
    instructions: u64,
}

impl Site<'_> {
    fn new<'w>(extension: &Extension, world: &'w World) -> Site<'w> {
        fill(extension, world);
        let outside = match &world.place {
            Place::Kernel(loaded) => {
                let records = RingReader::new(&loaded.map("events").expect("the ring buffer")).expect("its reader");
                Some((Connection::new(), records))
            }
            Place::Vm(..) => None,
        };
        let ports = outside.as_ref().map_or([REMOTE.port(), LOCAL.port()], |(connection, _)| connection.ports);
        let at = global(&extension.object, "tuple");
        let mut bytes = world.globals();
        let addresses = [127, 0, 0, 1, 127, 0, 0, 1].into_iter();
        let tuple = addresses.chain(ports.iter().flat_map(|port| port.to_be_bytes()));
        bytes.splice(at..at + 12, tuple);
        world.set_globals(&bytes);
        Site { world, outside, instructions: 0 }
    }

    /// References to the socket; the VM counts what a run has not given back.
    fn references(&self) -> u64 {
        self.outside.as_ref().map_or(0, |(connection, _)| connection.references())
    }

    /// One run. Records that were given back are read away; one that was not would block all later ones.
    fn run(&mut self, program: &str) -> u32 {
        match (&self.world.place, &mut self.outside) {
            (Place::Kernel(loaded), Some((_, records))) => {
                let input = TestInput { packet: vec![0; 64], ..TestInput::default() };
                let value = loaded.program(program).expect("loaded").test_run(&input).expect("runs").value;
                records.read(|_| unreachable!("programs submit no records")).expect("reads");
                value
            }
            (Place::Vm(vm, engine), _) => {
                let ran = vm.run(program, &kiln_vm::Input::packet(&[0; 64]), *engine).expect("runs");
                assert_eq!(ran.output.unreleased, 0, "{program}: held at the end");
                let records = vm.drain(vm.map("events").expect("the ring buffer")).expect("reads");
                assert!(records.is_empty(), "programs submit no records");
                self.instructions = ran.instructions;
                ran.value as u32
            }
            (Place::Kernel(_), None) => unreachable!("`new` gave it one"),
        }
    }
}

/// A program, and the functions that it may reach.
pub type Reach = (String, BTreeSet<String>);

/// The programs, and the points of all functions, from a build without force.
pub fn points(extension: &[u8], options: &Options) -> (Vec<Reach>, Vec<(String, Point)>) {
    let object = kiln_elf::read("extension", extension).expect("an object").object;
    let rewrite = sandbox(&object, options).unwrap_or_else(|error| panic!("{error}"));
    let all = rewrite.evidence.into_iter();
    let all = all.flat_map(|of| of.points.into_iter().map(move |point| (of.function.clone(), point)));
    let reach = |entry| object.reachable_functions(entry).into_iter().map(|id| object.function(id).name.clone());
    let programs = object.programs.iter().map(|program| (program.name.clone(), reach(program.entry).collect()));
    (programs.collect(), all.collect())
}

#[test]
fn every_point_can_be_cancelled_under_everything() {
    let Some(bytes) = compiled(SOURCE, &["-mcpu=v4"]) else { return };
    let Some(types) = kernel_types() else {
        println!("skipped: the kernel's types are not readable");
        return;
    };
    let verifier = kiln_verifier::Options { kernel_types: Some(types), ..Default::default() };
    let options = Options { quantum_ns: 20_000_000_000, elide: false, verifier, ..Options::default() };
    let (programs, all) = points(&bytes, &options);
    assert!(all.len() >= 18, "{} points", all.len());
    let mut places = BTreeSet::new();
    for (at, (function, point)) in all.iter().enumerate() {
        assert_eq!(point.number, at);
        let options = Options { forced: Some(at), ..options.clone() };
        let extension = Extension::of(&bytes, &options).unwrap_or_else(|error| panic!("{error}"));
        let reaching = programs.iter().filter(|(_, reached)| reached.contains(function));
        let reaching: Vec<&str> = reaching.map(|(program, _)| program.as_str()).collect();
        for (place, world) in World::all(&extension, &reaching) {
            let here = format!("{place}: point {at} in {function} ({:?})", point.line);
            let fired: u64 = {
                let mut site = Site::new(&extension, &world);
                reaching.iter().map(|program| force(&mut site, program, at, &here)).sum()
            };
            assert!(fired > 0, "{here} never fired");
            places.insert(place);
        }
    }
    println!("{} points, each cancelled {TIMES} times in each program that reaches it: {places:?}", all.len());
}

/// Runs a program with and without the terminate word, and counts. Returns how often it was cancelled.
fn force(site: &mut Site, program: &str, point: usize, here: &str) -> u64 {
    let shared = Shared(site.world);
    shared.terminate(0);
    assert_eq!(site.run(program), ENDED, "{here}, {program}: without cancellation");
    shared.terminate(1);
    let before = site.references();
    let returned: Vec<u32> = (0..TIMES).map(|_| site.run(program)).collect();
    let counted = shared.read();
    let cancelled = returned.iter().filter(|value| **value == TC_OK).count() as u64;
    assert!(cancelled == 0 || cancelled == TIMES, "{here}, {program}: {returned:?}");
    assert_eq!(word(&counted, POINTS as usize + 8 * point), cancelled, "{here}, {program}: counted at the point");
    assert_eq!(site.references(), before, "{here}, {program}: references to the socket");
    shared.terminate(0);
    assert_eq!(site.run(program), ENDED, "{here}, {program}: after cancellation");
    cancelled
}

/// Objects for the VM have no terminate word: a budget ends at one loop or another of each program.
#[test]
fn a_spent_budget_cancels_under_everything_in_the_vm() {
    const ROUNDS: u64 = 2000;
    let Some(bytes) = compiled(SOURCE, &["-mcpu=v4"]) else { return };
    let Some(types) = kernel_types() else {
        println!("skipped: the kernel's types are not readable");
        return;
    };
    let verifier = kiln_verifier::Options { kernel_types: Some(types), ..Default::default() };
    let options = Options { target: Target::Vm, elide: false, verifier, ..Options::default() };
    let (programs, all) = points(&bytes, &options);
    let extension = Extension::of(&bytes, &options).unwrap_or_else(|error| panic!("{error}"));
    for (name, engine) in ENGINES {
        let mut fired = BTreeSet::new();
        let world = |program: &str, budget: u64| {
            World::vm(&extension, &[program], engine, kiln_vm::Options { budget, ..Default::default() })
        };
        for (program, reached) in &programs {
            let rounds = |world: &World, rounds| set_variables(&extension, world, &[("rounds", rounds)]);
            let Some(unlimited) = world(program, 1 << 32) else { return };
            let mut site = Site::new(&extension, &unlimited);
            rounds(&unlimited, ROUNDS);
            assert_eq!(site.run(program), ENDED, "{name}: {program}: without cancellation");
            let parts = 2 * all.iter().filter(|(function, _)| reached.contains(function)).count() as u64;
            for part in 0..parts {
                // The last eighth is for landing pads.
                let budget = site.instructions * (2 * part + 1) / (2 * parts) * 8 / 7;
                let Some(world) = world(program, budget) else { return };
                let here = format!("{name}: {program} with {budget} instructions");
                let mut site = Site::new(&extension, &world);
                rounds(&world, ROUNDS);
                let returned: Vec<u32> = (0..TIMES).map(|_| site.run(program)).collect();
                assert!(returned.iter().all(|value| *value == TC_OK), "{here}: {returned:?}");
                let counts: Vec<u64> = (0..all.len()).map(|point| Shared(&world).count(point)).collect();
                assert_eq!(counts.iter().sum::<u64>(), TIMES, "{here}: {counts:?}");
                fired.extend((0..all.len()).filter(|point| counts[*point] > 0));
                rounds(&world, 1);
                assert_eq!(site.run(program), ENDED, "{here}: after cancellation");
            }
        }
        println!("{name}: {} of {} points", fired.len(), all.len());
        // An iterator over three numbers is nearly always in the loop inside of its own, where the budget ends.
        assert!(fired.len() + 1 >= all.len(), "{name}: {fired:?}");
    }
}

/// After three cancelled runs, the program returns at once until user space clears the count.
#[test]
fn a_program_that_is_cancelled_too_often_is_detached() {
    let Some(bytes) = compiled("tests/heaps/structures.bpf.c", &["-mcpu=v4"]) else { return };
    let base =
        Options { quantum_ns: 20_000_000_000, cancelled_return: Some(77), detach_after: Some(3), ..Options::default() };
    let (_, all) = points(&bytes, &base);
    let at = all.iter().position(|(function, _)| function == "kiln_list_find").expect("a point");
    let extension = Extension::of(&bytes, &Options { forced: Some(at), ..base }).expect("sandboxes");
    for (name, world) in World::all(&extension, &["list"]) {
        world.supply(1 << 20);
        let order = |fields: [u64; 6]| -> Vec<u8> { fields.iter().flat_map(|field| field.to_le_bytes()).collect() };
        let (put, find) = (order([0, 1, 5, 9, 0, 0]), order([0, 0, 5, 0, 0, 0]));
        let run = |packet: &[u8]| world.run("list", packet).0;
        let shared = Shared(&world);
        assert_eq!(run(&put), XDP_PASS, "{name}");
        shared.terminate(1);
        assert_eq!([run(&find), run(&find), run(&put)], [77, 77, XDP_PASS], "{name}: twice is not too often");
        assert_eq!(run(&find), 77, "{name}");
        assert_eq!(run(&put), 77, "{name}: three times is");
        assert_eq!(word(&shared.read(), RUNS as usize), 3, "{name}");
        shared.terminate(0);
        assert_eq!([run(&put), run(&find)], [XDP_PASS; 2], "{name}: attached again");
    }
}
