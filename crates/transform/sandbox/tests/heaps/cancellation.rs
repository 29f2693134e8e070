//! Forced cancellation: each point of each program fires once, under whatever it holds; nothing leaks.
//!
//! A build with [`Options::forced`] has one point that the terminate word fires, in its first iteration. Everything that
//! could leak is scarce or checked: a ring buffer with room for seven records, kernel locks that the next run takes, the
//! kernel's own refusal to end a program in a critical section, and the count of references of a socket.

use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};

use kiln_linux::{RingReader, TestInput};
use kiln_sandbox::counted::{POINTS, RUNS, SECTION};
use kiln_sandbox::supply::Memory;
use kiln_sandbox::{Options, Point, sandbox};

use crate::world::{Extension, Place, World, compiled, global, kernel_types, word};

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
    let mut bytes = world.globals();
    for (name, value) in [("head", heap.address() + FIRST as u64), ("rounds", 5)] {
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
    fn new(extension: &Extension, world: &World) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let one = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (other, from) = listener.accept().expect("accepts");
        let ports = [from.port(), other.local_addr().expect("bound").port()];
        let at = global(&extension.object, "tuple");
        let mut bytes = world.globals();
        let addresses = [127, 0, 0, 1, 127, 0, 0, 1].into_iter();
        let tuple = addresses.chain(ports.iter().flat_map(|port| port.to_be_bytes()));
        bytes.splice(at..at + 12, tuple);
        world.set_globals(&bytes);
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

/// One run. Records that were given back are read away; one that was not would block all later ones.
fn run(world: &World, program: &str, records: &mut RingReader) -> u32 {
    let Place::Kernel(loaded) = &world.place else { unreachable!("kernel only") };
    let input = TestInput { packet: vec![0; 64], ..TestInput::default() };
    let value = loaded.program(program).expect("loaded").test_run(&input).expect("runs").value;
    records.read(|_| unreachable!("programs submit no records")).expect("reads");
    value
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
    for (at, (function, point)) in all.iter().enumerate() {
        assert_eq!(point.number, at);
        let options = Options { forced: Some(at), ..options.clone() };
        let extension = Extension::of(&bytes, &options).unwrap_or_else(|error| panic!("{error}"));
        let Some(world) = World::kernel(&extension) else { return };
        fill(&extension, &world);
        let connection = Connection::new(&extension, &world);
        let shared = Shared(&world);
        let Place::Kernel(loaded) = &world.place else { unreachable!("kernel only") };
        let mut records = RingReader::new(&loaded.map("events").expect("the ring buffer")).expect("its reader");
        let mut fired = 0;
        for (program, _) in programs.iter().filter(|(_, reached)| reached.contains(function)) {
            let here = format!("point {at} in {function} ({:?}), program {program}", point.line);
            shared.terminate(0);
            assert_eq!(run(&world, program, &mut records), ENDED, "{here}: without cancellation");
            shared.terminate(1);
            let before = connection.references();
            let returned: Vec<u32> = (0..TIMES).map(|_| run(&world, program, &mut records)).collect();
            let counted = shared.read();
            let cancelled = returned.iter().filter(|value| **value == TC_OK).count() as u64;
            assert!(cancelled == 0 || cancelled == TIMES, "{here}: {returned:?}");
            assert_eq!(word(&counted, POINTS as usize + 8 * at), cancelled, "{here}: counted at the point");
            assert_eq!(connection.references(), before, "{here}: references to the socket");
            fired += cancelled;
            shared.terminate(0);
            assert_eq!(run(&world, program, &mut records), ENDED, "{here}: after cancellation");
        }
        assert!(fired > 0, "point {at} in {function} ({:?}) never fired", point.line);
    }
    println!("{} points, each cancelled {TIMES} times in each program that reaches it", all.len());
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
