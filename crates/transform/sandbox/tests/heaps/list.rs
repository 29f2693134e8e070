//! The key-value store over a linked list (`examples/heap/list1.bpf.c`): against a model, and live on a veth pair.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use kiln_linux::attach::XdpMode;
use kiln_linux::{Link, OwnNetwork, load_image};
use kiln_sandbox::supply::Memory;
use kiln_vm::Vm;

use crate::world::{Extension, Place, World, compile, global, word};

const SOURCE: &str = "examples/heap/list1.bpf.c";
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
const FIRST: usize = 4096;
const ELEMENT_BYTES: usize = 24;
const QUANTUM: Duration = Duration::from_millis(10);

/// Puts a list of these keys into the heap, each with twice itself as its value.
fn fill(extension: &Extension, world: &World, keys: &[u32]) {
    let heap = world.heap();
    let base = heap.address();
    heap.populate(FIRST, keys.len() * ELEMENT_BYTES).expect("pages");
    let address = |at: usize| if at < keys.len() { base + (FIRST + at * ELEMENT_BYTES) as u64 } else { 0 };
    for (at, key) in keys.iter().enumerate() {
        let offset = FIRST + at * ELEMENT_BYTES;
        heap.store(offset, u64::from(*key) | u64::from(2 * key) << 32).expect("in the heap");
        heap.store(offset + 8, address(at + 1)).expect("in the heap");
        heap.store(offset + 16, if at == 0 { 0 } else { address(at - 1) }).expect("in the heap");
    }
    set_global(extension, world, "head", address(0));
}

fn set_global(extension: &Extension, world: &World, name: &str, value: u64) {
    let at = global(&extension.object, name);
    let mut bytes = world.globals();
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    world.set_globals(&bytes);
}

/// Keys and values from a list's head on, by following its pointers.
fn walk(extension: &Extension, world: &World, list: &str) -> Vec<(u32, u32)> {
    let heap = world.heap();
    let base = heap.address();
    let mut at = word(&world.globals(), global(&extension.object, list));
    let mut found = Vec::new();
    while at != 0 {
        assert!(found.len() < 10_000, "the list has no end");
        let offset = (at - base) as usize;
        let both = heap.load(offset).expect("in the heap");
        found.push((both as u32, (both >> 32) as u32));
        at = heap.load(offset + 8).expect("in the heap");
    }
    found
}

fn request(kind: u32, key: u32, value: u32) -> Vec<u8> {
    let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend([192, 0, 2, 2, 192, 0, 2, 1, 0x30, 0x39, 0x10, 0x92, 0, 20, 0, 0]);
    packet.extend(payload(kind, key, value));
    packet
}

fn payload(kind: u32, key: u32, value: u32) -> Vec<u8> {
    [kind, key, value].iter().flat_map(|field| field.to_be_bytes()).collect()
}

/// The reply's kind and value.
fn reply(payload: &[u8]) -> (u32, u32) {
    let field = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().expect("four bytes"));
    (field(0), field(8))
}

#[test]
fn requests_are_answered_as_by_a_map() {
    let Some(extension) = compile(SOURCE, QUANTUM) else { return };
    for (name, world) in World::all(&extension, &["list1"]) {
        let keys: Vec<u32> = (1..=40).collect();
        fill(&extension, &world, &keys);
        let mut model: BTreeMap<u32, u32> = keys.iter().map(|key| (*key, 2 * key)).collect();
        let mut random = 7u32;
        for step in 0..400 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (kind, key, value) = (random >> 8 & 3, (random >> 12) % 50, random >> 5);
            let (kind, here) = (kind.min(2), format!("{name}, step {step}"));
            let (returned, packet) = world.run("list1", &request(kind, key, value));
            assert_eq!(returned, XDP_TX, "{here}");
            let (missing, given) = reply(&packet[42..]);
            let known = model.get(&key).copied();
            assert_eq!(missing, u32::from(known.is_none()), "{here}: key {key}");
            match (kind, known) {
                (0, Some(known)) => assert_eq!(given, known, "{here}: key {key}"),
                (1, Some(_)) => drop(model.insert(key, value)),
                (2, Some(_)) => drop(model.remove(&key)),
                _ => {}
            }
        }
        let mut left = walk(&extension, &world, "head");
        left.sort_unstable();
        assert_eq!(left, model.into_iter().collect::<Vec<_>>(), "{name}");
        let unlinked = walk(&extension, &world, "unlinked").len();
        assert_eq!(left.len() + unlinked, keys.len(), "{name}: elements were lost");
    }
}

#[test]
fn a_run_without_end_is_cancelled() {
    let Some(extension) = compile(SOURCE, QUANTUM) else { return };
    for (name, world) in World::all(&extension, &["list1"]) {
        fill(&extension, &world, &[1, 2, 3]);
        // The last element leads back to the first.
        let base = world.heap().address();
        world.heap().store(FIRST + 2 * ELEMENT_BYTES + 8, base + FIRST as u64).expect("in the heap");
        let begun = Instant::now();
        let (returned, _) = world.run("list1", &request(0, 99, 0));
        let spent = begun.elapsed();
        assert_eq!(returned, XDP_PASS, "{name}: the default of its hook");
        assert!(spent >= QUANTUM && spent < Duration::from_secs(20), "{name}: cancelled after {spent:?}");
        // The lock is still held: no other program gets it, and waiting for it is cancelled too.
        let (returned, _) = world.run("list1", &request(0, 1, 0));
        assert_eq!(returned, XDP_PASS, "{name}");
        set_global(&extension, &world, "lock", 0);
        let (returned, packet) = world.run("list1", &request(0, 1, 0));
        assert_eq!((returned, reply(&packet[42..])), (XDP_TX, (0, 2)), "{name}");
    }
}

/// Two CPUs of the VM answer requests from one heap at once, while user space reads it.
#[test]
fn threads_share_a_heap() {
    const REQUESTS: u32 = 20_000;
    let Some(extension) = compile(SOURCE, Duration::from_secs(10)) else { return };
    let surroundings = kiln_vm::Surroundings { cpus: 2, ..Default::default() };
    let options = kiln_vm::Options { surroundings, ..Default::default() };
    let mut vm = Vm::new(&extension.object, options).expect("the VM has its maps");
    vm.load("list1").expect("loads");
    if let Err(why) = vm.compiled("list1") {
        println!("skipped: compiled code: {why}");
        return;
    }
    let world = World::new(&extension, Place::Vm(Box::new(vm), kiln_vm::Engine::Jit));
    fill(&extension, &world, &(0..40).collect::<Vec<_>>());
    let Place::Vm(vm, _) = &world.place else { unreachable!("made above") };
    std::thread::scope(|scope| {
        for cpu in 0..2u32 {
            scope.spawn(move || {
                let program = vm.program("list1").expect("loaded").on(cpu).expect("a CPU");
                let mut answer = Vec::new();
                for step in 0..REQUESTS {
                    // Each CPU changes keys of its own, and deletes one of them at the end.
                    let (key, last) = (2 * (step % 20) + cpu, step + 1 == REQUESTS);
                    let kind = if last { 2 } else { step / 20 % 2 };
                    let packet = request(kind, key, step);
                    let value = program.run_into(&kiln_vm::Input::packet(&packet), &mut answer).expect("runs");
                    assert_eq!(value as u32, XDP_TX);
                    let (missing, given) = reply(&answer[42..]);
                    assert_eq!(missing, 0, "CPU {cpu}, step {step}: key {key} is lost");
                    let written = if step < 20 { 2 * key } else { step - 20 };
                    assert!(kind != 0 || given == written, "CPU {cpu}, step {step}: {given} instead of {written}");
                }
            });
        }
        for _ in 0..200 {
            assert!(walk(&extension, &world, "head").len() <= 40);
        }
    });
    let served = word(&world.globals(), global(&extension.object, "served"));
    assert_eq!(served, 2 * u64::from(REQUESTS), "an increment under the lock was lost");
    assert_eq!(walk(&extension, &world, "head").len(), 38);
    assert_eq!(walk(&extension, &world, "unlinked").len(), 2);
}

fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output().map_err(|error| format!("ip: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {}", said.trim())) }
}

fn index(interface: &str) -> u32 {
    // sysfs shows the namespace it was mounted in; this file shows the thread's own.
    let table = Command::new("ip").args(["-o", "link", "show", interface]).output().expect("ip");
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    text.split(':').next().and_then(|number| number.trim().parse().ok()).expect("an interface")
}

/// The other end of the veth pair: a namespace of its own, with a program that lets native XDP_TX deliver there.
fn client(thread: &mpsc::Sender<u32>, ready: &mpsc::Receiver<()>) -> Result<Vec<(u32, u32)>, String> {
    let _network = OwnNetwork::enter().map_err(|error| error.to_string())?;
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    thread.send(own as u32).map_err(|error| error.to_string())?;
    ready.recv().map_err(|error| error.to_string())?;
    ip("link set kslist1 up")?;
    ip("addr add 192.0.2.2/24 dev kslist1")?;
    ip("neigh replace 192.0.2.1 lladdr 02:00:00:00:00:01 dev kslist1")?;
    let pass = kiln_program::text::parse("; program xdp\n r0 = 2\n exit\n").map_err(|error| error.to_string())?;
    let pass = load_image(&pass, &pass.programs[0]).map_err(|failure| failure.to_string())?;
    let _link = Link::xdp(&pass.prog, index("kslist1"), XdpMode::Native).map_err(|error| error.to_string())?;
    let socket = UdpSocket::bind("192.0.2.2:0").map_err(|error| error.to_string())?;
    socket.set_read_timeout(Some(Duration::from_secs(5))).map_err(|error| error.to_string())?;
    socket.connect("192.0.2.1:4242").map_err(|error| error.to_string())?;
    let mut replies = Vec::new();
    for key in 0..1000 {
        socket.send(&payload(0, key % 50, 0)).map_err(|error| error.to_string())?;
        let mut buffer = [0; 64];
        let bytes = socket.recv(&mut buffer).map_err(|error| format!("request {key}: {error}"))?;
        replies.push(reply(&buffer[..bytes.max(12)]));
    }
    Ok(replies)
}

#[test]
fn real_packets_are_answered_at_native_xdp() {
    let Some(extension) = compile(SOURCE, QUANTUM) else { return };
    let Some(world) = World::kernel(&extension) else { return };
    let Ok(_network) = OwnNetwork::enter().map_err(|error| println!("skipped: a network namespace: {error}")) else {
        return;
    };
    let (thread, threads) = mpsc::channel();
    let (go, ready) = mpsc::channel();
    let client = std::thread::spawn(move || client(&thread, &ready));
    let Ok(peer) = threads.recv() else { panic!("{:?}", client.join()) };
    let pair = format!("link add kslist0 address 02:00:00:00:00:01 type veth peer name kslist1 netns {peer}");
    if let Err(error) = ip(&pair).and_then(|()| ip("link set kslist0 up")) {
        println!("skipped: a veth pair: {error}");
        return;
    }
    fill(&extension, &world, &(0..40).collect::<Vec<_>>());
    let Place::Kernel(loaded) = &world.place else { unreachable!("made above") };
    let program = loaded.program("list1").expect("loaded");
    let link = Link::xdp(&program, index("kslist0"), XdpMode::Native).expect("attaches");
    go.send(()).expect("the client waits");
    let replies = client.join().expect("the client ends").expect("the client works");
    drop(link);
    assert_eq!(replies.len(), 1000);
    for (at, (missing, value)) in replies.into_iter().enumerate() {
        let key = at as u32 % 50;
        assert_eq!((missing, value), if key < 40 { (0, 2 * key) } else { (1, 0) }, "request {at}");
    }
    let served = word(&world.globals(), global(&extension.object, "served"));
    assert_eq!(served, 1000);
}
