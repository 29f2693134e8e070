//! The pool (`bpf/include/kiln/pool.h`): generated operations against a model, and readers beside writers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kiln_linux::TestInput;

use crate::world::{Extension, Place, World, compile_plain, compile_with, stay_on_one_cpu, word};

const SOURCE: &str = "tests/heaps/pool.bpf.c";
const ARENA: &str = "-DKILN_POOL_STORE=3";
const STORES: [(&str, &str); 3] = [("hash", "-DKILN_POOL_STORE=1"), ("array", "-DKILN_POOL_STORE=2"), ("arena", ARENA)];
/// At least `KILN_POOL_SUPPLY`.
const SUPPLY_BYTES: usize = 1100 << 10;
const XDP_DROP: u32 = 1;

/// As in the source.
const ALLOC: u32 = 0;
const FREE: u32 = 1;
const RESIZE: u32 = 2;
const READ: u32 = 3;
const WRITE: u32 = 4;
const OBJECTS: usize = 64;
const POOL_BYTES: usize = 24_576;
const BLOCKS: usize = POOL_BYTES / BLOCK_BYTES;
const BLOCK_BYTES: usize = 128;
const MOST_BYTES: usize = 1024;
const ORDER_BYTES: usize = 32;

/// `flags` of a write.
const ANY: u64 = 0;
const NOEXIST: u64 = 1;
const EXIST: u64 = 2;

const ENOENT: i64 = -2;
const E2BIG: i64 = -7;
const ENOMEM: i64 = -12;
const EEXIST: i64 = -17;
const ENOSPC: i64 = -28;

fn compile(store: &str, more: &[&str]) -> Option<Extension> {
    if store == ARENA {
        return compile_with(SOURCE, Duration::from_millis(100), &[&["-D__TARGET_ARCH_x86", store], more].concat());
    }
    compile_plain(SOURCE, &[&["-mcpu=v3", "-D__TARGET_ARCH_x86", store], more].concat())
}

/// Gives the arena store its memory.
fn supply(store: &str, world: &World) {
    if store == "arena" {
        assert!(world.supply(SUPPLY_BYTES), "it has a heap");
    }
}

/// What is asked for.
#[derive(Debug)]
struct Order {
    operation: u32,
    id: u64,
    flags: u64,
    bytes: usize,
    /// What follows the order in the packet: what is written, or the room for what is read.
    room: usize,
    fill: u8,
}

impl Order {
    fn packet(&self) -> Vec<u8> {
        let mut packet = self.operation.to_le_bytes().to_vec();
        packet.extend((self.bytes as u32).to_le_bytes());
        packet.extend(self.id.to_le_bytes());
        packet.extend(self.flags.to_le_bytes());
        packet.extend(0u64.to_le_bytes());
        packet.extend(self.contents());
        packet
    }

    fn contents(&self) -> Vec<u8> {
        (0..self.room).map(|at| self.fill.wrapping_add(at as u8).wrapping_mul(31)).collect()
    }
}

fn orders(seed: u64, count: usize) -> Vec<Order> {
    let mut random = seed;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) % below
    };
    let sizes = [0, 1, 7, 8, 100, 127, 128, 129, 136, 255, 256, 777, 1000, 1023, 1024, 1025];
    (0..count)
        .map(|_| {
            let bytes = if next(3) == 0 { sizes[next(16) as usize] } else { next(MOST_BYTES as u64 + 1) as usize };
            let operation = [ALLOC, FREE, RESIZE, READ, READ, WRITE, WRITE, WRITE][next(8) as usize];
            // Now and then the packet is a little short.
            let room = if next(10) == 0 { bytes.saturating_sub(1 + next(9) as usize) } else { MOST_BYTES + 8 };
            let flags = [ANY, ANY, NOEXIST, EXIST][next(4) as usize];
            Order { operation, id: next(90), flags, bytes, room, fill: next(256) as u8 }
        })
        .collect()
}

/// The pool as `kiln/pool.h` describes it.
#[derive(Debug)]
struct Model {
    objects: HashMap<u64, Vec<u8>>,
    /// Contents are in blocks that every object may use; otherwise in items, whose contents are counted byte by byte.
    has_blocks: bool,
}

impl Model {
    fn new(store: &str) -> Model {
        Model { objects: HashMap::new(), has_blocks: store != "arena" }
    }

    /// Whether there is room for an object, of which `kept` bytes may stay where they are.
    fn has_room(&self, bytes: usize, kept: usize) -> bool {
        let lengths = self.objects.values().map(Vec::len);
        if !self.has_blocks {
            return lengths.sum::<usize>() + bytes <= POOL_BYTES;
        }
        let more = bytes.div_ceil(BLOCK_BYTES).saturating_sub(kept.div_ceil(BLOCK_BYTES));
        lengths.map(|bytes| bytes.div_ceil(BLOCK_BYTES)).sum::<usize>() + more <= BLOCKS
    }

    fn put(&mut self, order: &Order, contents: Vec<u8>, flags: u64) -> i64 {
        // The new contents are stored before the old ones are given back.
        if !self.has_room(contents.len(), 0) {
            return ENOMEM;
        }
        let refused = match self.objects.contains_key(&order.id) {
            true if flags == NOEXIST => EEXIST,
            false if flags == EXIST => ENOENT,
            false if self.objects.len() == OBJECTS => ENOMEM,
            _ => 0,
        };
        if refused == 0 {
            self.objects.insert(order.id, contents);
        }
        refused
    }

    fn resize(&mut self, order: &Order) -> i64 {
        let Some(had) = self.objects.get(&order.id).map(Vec::len) else { return ENOENT };
        if !self.has_room(order.bytes, had) {
            return ENOMEM;
        }
        self.objects.get_mut(&order.id).expect("is there").resize(order.bytes, 0);
        0
    }

    fn free(&mut self, id: u64) -> i64 {
        if self.objects.remove(&id).is_some() { 0 } else { ENOENT }
    }

    /// The result, and the object's bytes if they are read.
    fn run(&mut self, order: &Order) -> (i64, Option<Vec<u8>>) {
        let too_large = order.bytes > MOST_BYTES;
        let result = match order.operation {
            ALLOC | RESIZE | WRITE if too_large => E2BIG,
            ALLOC => self.put(order, vec![0; order.bytes], NOEXIST),
            FREE => self.free(order.id),
            RESIZE => self.resize(order),
            READ => match self.objects.get(&order.id) {
                None => ENOENT,
                Some(object) if object.len() > order.room => ENOSPC,
                Some(object) => return (object.len() as i64, Some(object.clone())),
            },
            _ if order.room < order.bytes => ENOSPC,
            _ => {
                let mut contents = order.contents();
                contents.truncate(order.bytes);
                self.put(order, contents, order.flags)
            }
        };
        (result, None)
    }
}

#[test]
fn a_pool_does_what_its_header_says() {
    stay_on_one_cpu();
    for (store, define) in STORES {
        let Some(extension) = compile(define, &[]) else { return };
        for (name, world) in World::all(&extension, &["pool"]) {
            supply(store, &world);
            let mut model = Model::new(store);
            let mut full = 0;
            for (step, order) in orders(0x9e37_79b9_7f4a_7c15, 4000).iter().enumerate() {
                let (returned, packet) = world.run("pool", &order.packet());
                assert_eq!(returned, XDP_DROP, "{store}, {name}, step {step}");
                let (result, read) = model.run(order);
                assert_eq!(word(&packet, 24) as i64, result, "{store}, {name}, step {step}: {order:?}");
                if let Some(read) = read {
                    let found = &packet[ORDER_BYTES..ORDER_BYTES + read.len()];
                    assert_eq!(found, read, "{store}, {name}, step {step}: {order:?}");
                    let untouched = &order.contents()[read.len()..];
                    assert_eq!(&packet[ORDER_BYTES + read.len()..], untouched, "{store}, {name}, step {step}");
                }
                full += usize::from(result == ENOMEM);
            }
            assert!(full > 50, "{store}, {name}: the pool was full {full} times only");
        }
    }
}

/// Readers pause between blocks, about as long as a write takes, so that writers come in between.
const PAUSE: &str = "-DKILN_POOL_PAUSE()=({ for (int i = 0; i < 8; i++) bpf_ktime_get_ns(); })";

/// What the racers of one side counted.
#[derive(Debug, Default)]
struct Counted {
    reads: u64,
    writes: u64,
    torn: u64,
    failed: u64,
}

/// Runs of one call. Each call waits some 20 ms for the kernel before its first run, in which it would race with nobody.
const REPEAT: u32 = 200_000;

fn race_on(program: &kiln_linux::Prog, cpu: usize, seed: u64, stop: &AtomicBool) -> Counted {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu);
    rustix::thread::sched_setaffinity(None, &cpus).expect("may choose its CPU");
    let mut packet = vec![0; 64 + MOST_BYTES];
    packet[8..16].copy_from_slice(&seed.to_le_bytes());
    while !stop.load(Relaxed) {
        let input = TestInput { packet, repeat: REPEAT, ..TestInput::default() };
        packet = program.test_run(&input).expect("runs").packet;
    }
    let [reads, writes, torn, failed] = [16, 24, 32, 40].map(|at| word(&packet, at));
    Counted { reads, writes, torn, failed }
}

/// Lets one CPU write and another read the same few objects.
fn race(store: &str, extension: &Extension, time: Duration) -> Option<(Counted, Counted)> {
    let world = World::kernel(extension)?;
    supply(store, &world);
    let Place::Kernel(loaded) = &world.place else { unreachable!("asked for") };
    let stop = AtomicBool::new(false);
    Some(std::thread::scope(|scope| {
        let [write, read] = ["writer", "reader"].map(|name| loaded.program(name).expect("loaded"));
        let stop = &stop;
        let writer = scope.spawn(move || race_on(&write, 0, 88_172_645_463_325_252, stop));
        let reader = scope.spawn(move || race_on(&read, 1, 1_234_567_890_123_457, stop));
        let end = Instant::now() + time;
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        stop.store(true, Relaxed);
        (writer.join().expect("ends"), reader.join().expect("ends"))
    }))
}

/// How long racers run, in seconds: `KILN_POOL_RACE_SECONDS`, or 2.
fn race_time() -> Duration {
    let asked = std::env::var("KILN_POOL_RACE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(asked.unwrap_or(2))
}

fn two_cpus() -> bool {
    let enough = std::thread::available_parallelism().is_ok_and(|count| count.get() >= 2);
    if !enough {
        println!("skipped: racers need two CPUs");
    }
    enough
}

#[test]
fn a_read_is_never_a_mixture() {
    if !two_cpus() {
        return;
    }
    for (store, define) in STORES {
        let Some(extension) = compile(define, &[PAUSE]) else { return };
        let Some((writer, reader)) = race(store, &extension, race_time()) else { return };
        println!("{store}: {} writes, {} reads, {} without a quiet moment", writer.writes, reader.reads, reader.failed);
        assert!(writer.writes > 0 && reader.reads > 0, "{store}: both ran");
        assert_eq!((writer.failed, reader.torn), (0, 0), "{store}: {writer:?} {reader:?}");
        assert!(reader.failed * 2 < reader.reads, "{store}: {reader:?}");
    }
}

/// The canary of the test above: without the second look at the version, mixtures are found.
#[test]
fn without_the_check_mixtures_are_found() {
    if !two_cpus() {
        return;
    }
    for (store, define) in STORES {
        let Some(extension) = compile(define, &[PAUSE, "-DKILN_POOL_UNCHECKED"]) else { return };
        let (mut torn, mut reads) = (0, 0);
        let end = Instant::now() + Duration::from_secs(60);
        while torn == 0 && Instant::now() < end {
            let Some((_, reader)) = race(store, &extension, Duration::from_secs(1)) else { return };
            torn += reader.torn;
            reads += reader.reads;
        }
        println!("{store}: {torn} mixtures in {reads} reads");
        assert!(torn > 0, "{store}: the race does not show what it should");
    }
}
