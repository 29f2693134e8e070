//! Races: programs on two CPUs and a process of user space on one structure at a time, which all run `races.h`.
//!
//! Each racer knows what it has stored under its own keys. The process also takes the lock now and then and checks the
//! whole structure; in the end everything is counted. User space is another process, so that it can be killed while it holds a
//! lock.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kiln_heap::{Memory as _, lock};
use kiln_linux::{Prog, TestInput};
use kiln_vm::{Engine, Vm};

use crate::world::{Extension, Place, World, compile, compile_native, compile_with, word};

const SOURCE: &str = "tests/heaps/races.bpf.c";
const NATIVE: &str = "tests/heaps/races.native.c";
const STRUCTURES: [&str; 11] =
    ["hash", "tree", "skip", "list", "clock", "cuckoo", "ring", "bloom", "wheel", "countmin", "malloc"];
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
/// Longer than any operation: a program that is cancelled while it holds the lock leaves the structure half changed.
const QUANTUM: Duration = Duration::from_secs(20);
/// Who holds a lock may have no CPU for long, and whoever waits should get it then.
const PATIENCE: &str = "-DKILN_LOCK_PATIENCE_NS=1000000000ull";
const SUPPLY_BYTES: usize = 4 << 20;
/// Steps of one run.
const STEPS: u64 = 500;
/// `world->stop`.
const STOP: usize = 0;

/// `struct request`.
fn request(world: u64, times: u64, racer: u64) -> Vec<u8> {
    [world, times, racer, 0].iter().flat_map(|field| field.to_le_bytes()).collect()
}

fn result(packet: &[u8]) -> u64 {
    word(packet, 24)
}

/// Makes the structures, for so many racers.
fn create(world: &World, racers: u64) -> u64 {
    assert!(world.supply(SUPPLY_BYTES), "there is an allocator");
    let (returned, packet) = world.run("setup", &request(0, racers, 0));
    assert_eq!(returned, XDP_TX);
    let made = result(&packet);
    assert!(made != 0, "the memory suffices");
    made
}

/// What a racer did, and how many of its runs were cancelled while they waited for a lock.
#[derive(Debug, Default)]
struct Done {
    steps: u64,
    cancelled: u64,
}

fn race_in_kernel(program: &Prog, cpu: usize, world: u64, [stop, ran]: [&AtomicBool; 2]) -> Done {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu);
    rustix::thread::sched_setaffinity(None, &cpus).expect("may choose its CPU");
    let mut done = Done::default();
    while !stop.load(Relaxed) {
        let input = TestInput { packet: request(world, STEPS, cpu as u64), ..TestInput::default() };
        let output = program.test_run(&input).expect("runs");
        match output.value {
            XDP_TX => {
                done.steps += result(&output.packet);
                ran.store(true, Relaxed);
            }
            other => {
                assert_eq!(other, XDP_PASS, "the stated value");
                done.cancelled += 1;
            }
        }
    }
    done
}

/// A process with the heap as it is mapped here.
fn process(native: &Path, world: &World, arguments: &[&str], more: &[u64]) -> Child {
    let Place::Kernel(loaded) = &world.place else { unreachable!("kernel only") };
    let arena = loaded.map("kiln_heap_map").expect("the heap");
    let heap = world.heap();
    let numbers = [heap.address(), heap.bytes() as u64].into_iter().chain(more.iter().copied());
    Command::new(native)
        .args(arguments)
        .args(numbers.map(|number| number.to_string()))
        .stdin(Stdio::from(arena.fd().try_clone_to_owned().expect("a file descriptor")))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the process starts")
}

/// What is wrong with a stopped world, counted natively on a copy of its heap.
fn check(native: &Path, heap: &dyn kiln_heap::Memory, world: u64) -> (u64, String) {
    let mut copy = tempfile::tempfile().expect("a file");
    let words = (0..heap.bytes()).step_by(8).flat_map(|at| heap.load(at).expect("in the heap").to_le_bytes());
    copy.write_all(&words.collect::<Vec<u8>>()).expect("written");
    let numbers = [heap.address(), heap.bytes() as u64, world].map(|number| number.to_string());
    let output =
        Command::new(native).args(["check", "-"]).args(numbers).stdin(Stdio::from(copy)).output().expect("runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrongs = text.lines().next().and_then(|line| line.parse().ok());
    (wrongs.unwrap_or_else(|| panic!("{output:?}")), text)
}

/// Two CPUs and a process for so long. Returns what each did, and the final check.
fn kernel(extension: &Extension, native: &Path, structure: &str, time: Duration) -> Option<(Vec<Done>, u64, String)> {
    let world = World::kernel(extension)?;
    let made = create(&world, 3);
    let Place::Kernel(loaded) = &world.place else { unreachable!("asked for") };
    let (stop, ran) = (AtomicBool::new(false), [const { AtomicBool::new(false) }; 2]);
    let user = process(native, &world, &["race", structure], &[made, 2]);
    let mut done = std::thread::scope(|scope| {
        let racers = [0, 1].map(|cpu| {
            let (program, flags) = (loaded.program("race").expect("loaded"), [&stop, &ran[cpu]]);
            scope.spawn(move || race_in_kernel(&program, cpu, made, flags))
        });
        std::thread::sleep(time);
        // A busy machine may not have let everybody run yet.
        let late = Instant::now() + Duration::from_secs(20);
        while ran.iter().any(|ran| !ran.load(Relaxed)) && Instant::now() < late {
            std::thread::sleep(Duration::from_millis(10));
        }
        stop.store(true, Relaxed);
        racers.map(|racer| racer.join().expect("ends")).into_iter().collect::<Vec<_>>()
    });
    let heap = world.heap();
    heap.store(heap.offset(made).expect("in the heap") + STOP, 1).expect("in the heap");
    let output = user.wait_with_output().expect("the process ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [steps, checks, wrongs] = numbers[..] else { panic!("{structure}: {output:?}") };
    println!("{structure}: {steps} steps of user space, {checks} checks of the whole structure meanwhile");
    done.push(Done { steps, cancelled: 0 });
    let (wrong_after, said) = check(native, &heap, made);
    Some((done, wrongs + wrong_after, said))
}

/// Two CPUs of the VM for so long.
fn vm(extension: &Extension, native: &Path, time: Duration) -> Option<(Vec<Done>, u64, String)> {
    let surroundings = kiln_vm::Surroundings { cpus: 2, ..Default::default() };
    let options = kiln_vm::Options { surroundings, ..Default::default() };
    let mut vm = Vm::new(&extension.object, options).expect("the VM has its maps");
    for program in ["setup", "race"] {
        vm.load(program).expect("loads");
    }
    if let Err(why) = vm.compiled("race") {
        println!("skipped: compiled code: {why}");
        return None;
    }
    let world = World::new(extension, Place::Vm(Box::new(vm), Engine::Jit));
    let made = create(&world, 2);
    let Place::Vm(vm, _) = &world.place else { unreachable!("made above") };
    let end = Instant::now() + time;
    let done = std::thread::scope(|scope| {
        let racers = [0, 1].map(|cpu| {
            let vm = &**vm;
            scope.spawn(move || {
                let program = vm.program("race").expect("loaded").on(cpu).expect("a CPU");
                let (mut done, mut packet) = (Done::default(), Vec::new());
                // A busy machine may not have let this one run yet.
                let late = end + Duration::from_secs(20);
                while Instant::now() < end || done.steps == 0 && Instant::now() < late {
                    let asked = request(made, STEPS, u64::from(cpu));
                    match program.run_into(&kiln_vm::Input::packet(&asked), &mut packet).expect("runs") as u32 {
                        XDP_TX => done.steps += result(&packet),
                        _ => done.cancelled += 1,
                    }
                }
                done
            })
        });
        racers.map(|racer| racer.join().expect("ends")).into_iter().collect::<Vec<_>>()
    });
    let (wrongs, said) = check(native, &world.heap(), made);
    Some((done, wrongs, said))
}

fn native(arguments: &[&str]) -> Option<(tempfile::TempDir, PathBuf)> {
    if std::thread::available_parallelism().map_or(1, |count| count.get()) < 2 {
        println!("skipped: racers need two CPUs");
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile_native(NATIVE, folder.path(), arguments);
    Some((folder, program))
}

/// Lets everybody race on each structure for so long, in the kernel and in the VM.
fn race<'s>(structures: impl Iterator<Item = &'s str>, time: Duration) {
    let Some((_folder, native)) = native(&[]) else { return };
    for structure in structures {
        let Some(extension) = compile_with(SOURCE, QUANTUM, &[&format!("-DRACES={structure}"), PATIENCE]) else {
            return;
        };
        let in_vm = vm(&extension, &native, time).map(|found| ("VM", found));
        let in_kernel = kernel(&extension, &native, structure, time).map(|found| ("kernel", found));
        for (place, (done, wrongs, said)) in in_vm.into_iter().chain(in_kernel) {
            println!("{structure}, {place}: {done:?}");
            assert!(done.iter().all(|done| done.steps > 0), "{structure}, {place}: {done:?}");
            assert_eq!(wrongs, 0, "{structure}, {place}: {done:?}\n{said}");
        }
    }
}

#[test]
fn nothing_is_lost_on_two_cpus_and_in_user_space() {
    race(STRUCTURES.into_iter(), Duration::from_millis(200));
}

/// Minutes on each structure; `KILN_RACE_SECONDS` says how many seconds, in the kernel and in the VM each, and
/// `KILN_RACE_STRUCTURE` on which one only. The B+ tree takes the sandbox long.
#[test]
#[ignore = "takes half an hour"]
fn nothing_is_lost_in_minutes() {
    let asked = std::env::var("KILN_RACE_SECONDS").ok().and_then(|text| text.parse().ok());
    let only = std::env::var("KILN_RACE_STRUCTURE").ok();
    let chosen = STRUCTURES.into_iter().chain(["bp"]).filter(|name| only.as_ref().is_none_or(|only| only == name));
    race(chosen, Duration::from_secs(asked.unwrap_or(60)));
}

/// The canary of the tests above: without locks, something is lost.
#[test]
fn without_locks_something_is_lost() {
    const UNLOCKED: &str = "-DRACES_UNLOCKED";
    let Some((_folder, native)) = native(&[UNLOCKED]) else { return };
    let Some(extension) = compile_with(SOURCE, QUANTUM, &["-DRACES=countmin", UNLOCKED]) else { return };
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        let Some((done, wrongs, _)) = kernel(&extension, &native, "countmin", Duration::from_secs(1)) else { return };
        println!("without locks: {wrongs} wrong after {done:?}");
        if wrongs > 0 {
            return;
        }
    }
    panic!("the race does not show what it should");
}

/// A process takes the lock and is killed. A run that needs the lock ends with the stated value at the end of the quantum; after some
/// milliseconds the lock is known as abandoned, and runs end at once, until user space frees the lock of the dead. It is known who held
/// it all the time.
#[test]
fn a_killed_holder_stops_runs_for_a_quantum_once() {
    const OWN_QUANTUM: Duration = Duration::from_millis(5);
    let Some((_folder, native)) = native(&[]) else { return };
    let Some(extension) = compile("tests/heaps/locks.bpf.c", OWN_QUANTUM) else { return };
    let Some(world) = World::kernel(&extension) else { return };
    let heap = world.heap();
    heap.populate(4096, 4096).expect("pages");
    let address = heap.address() + 4096;
    let mut child = process(&native, &world, &["hold", "-"], &[address]);
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("it says so");
    assert_eq!(line, "held\n");
    let thread = child.id();
    let packet: Vec<u8> = [address, 10].iter().flat_map(|field| field.to_le_bytes()).collect();
    assert_eq!(lock::holder(&heap, 4096), Some(lock::Holder::Thread(thread)));
    let refused = lock::take(&heap, 4096, 1, Duration::from_millis(1));
    assert_eq!(refused, Err(lock::Holder::Thread(thread)));
    assert_eq!(lock::free_of_the_dead(&heap, 4096), Some(false), "its holder is alive");
    child.kill().expect("kills");
    let waits = || {
        let Place::Kernel(loaded) = &world.place else { unreachable!("asked for") };
        let input = TestInput { packet: packet.clone(), ..TestInput::default() };
        let output = loaded.program("locks").expect("loaded").test_run(&input).expect("runs");
        assert_eq!(output.value, XDP_PASS, "the stated value");
        Duration::from_nanos(output.duration_ns.into())
    };
    let costs_a_quantum_once = |which: &str| {
        let spent = [(); 12].map(|()| waits());
        println!("{which}: cancelled after {spent:?}");
        // 4 ms of patience at least, and what a busy machine adds.
        let all: Duration = spent.iter().sum();
        assert!(all >= Duration::from_millis(4) && all < Duration::from_secs(2), "{which}: {spent:?}");
        assert!(spent[4..].iter().min() < Some(&Duration::from_millis(1)), "{which}: {spent:?}");
        assert_eq!(lock::holder(&heap, 4096), Some(lock::Holder::Thread(thread)), "{which}");
    };
    costs_a_quantum_once("a killed holder");
    // A dead child that nobody has waited for is dead as well.
    assert_eq!(lock::free_of_the_dead(&heap, 4096), Some(true));
    assert_eq!(world.run("locks", &packet).0, XDP_TX, "the lock is free");
    child.wait().expect("ends");
    // User space in C does the same.
    heap.store(4096, u64::from(lock::USER | thread)).expect("in the heap");
    costs_a_quantum_once("once more");
    let output = process(&native, &world, &["break", "-"], &[address]).wait_with_output().expect("ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n");
    assert_eq!(world.run("locks", &packet).0, XDP_TX, "the lock is free");
    let own = std::process::id();
    lock::take(&heap, 4096, own, Duration::ZERO).expect("free");
    lock::release(&heap, 4096).expect("in the heap");
    assert_eq!(world.run("locks", &packet).0, XDP_TX);
}
