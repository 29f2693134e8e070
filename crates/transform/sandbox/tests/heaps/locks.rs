//! Locks in the heap: two held at once, by programs on two CPUs and by user space. No increment is lost.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use kiln_heap::lock;
use kiln_linux::TestInput;
use kiln_sandbox::supply::Memory;
use kiln_vm::{Engine, Vm};

use crate::world::{Extension, Heap, Place, World, compile_with};

const SOURCE: &str = "tests/heaps/locks.bpf.c";
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
/// Where `struct shared` is in the heap, and its fields.
const SHARED: usize = 4096;
const FIRST: usize = SHARED;
const SECOND: usize = SHARED + 8;
const COUNTS: [usize; 2] = [SHARED + 16, SHARED + 24];
/// Increments of a run, runs of a CPU, increments by user space.
const TIMES: u64 = 200;
const RUNS: u64 = 100;
const OWN: u64 = 20_000;

/// Counts from user space under the same locks. It stops if a program is cancelled, because that does not release its
/// locks.
fn count(heap: &Heap<'_>, cancelled: &AtomicBool) {
    let take = |lock: usize| {
        while heap.compare_exchange(lock, 0, 1).expect("in the heap") != 0 && !cancelled.load(Relaxed) {
            std::thread::yield_now();
        }
    };
    for _ in 0..OWN {
        take(FIRST);
        take(SECOND);
        if cancelled.load(Relaxed) {
            return;
        }
        for (at, step) in COUNTS.into_iter().zip([1, 2]) {
            let old = heap.load(at).expect("in the heap");
            heap.store(at, old + step).expect("in the heap");
        }
        heap.store(SECOND, 0).expect("in the heap");
        heap.store(FIRST, 0).expect("in the heap");
    }
}

fn check(heap: &Heap<'_>, place: &str) {
    let counted = OWN + 2 * RUNS * TIMES;
    let found = COUNTS.map(|at| heap.load(at).expect("in the heap"));
    assert_eq!(found, [counted, 2 * counted], "{place}: increments were lost");
}

fn request(world: &World) -> Vec<u8> {
    let address = world.heap().address() + SHARED as u64;
    [address, TIMES].iter().flat_map(|field| field.to_le_bytes()).collect()
}

fn in_the_vm(extension: &Extension) {
    let surroundings = kiln_vm::Surroundings { cpus: 2, ..Default::default() };
    let options = kiln_vm::Options { surroundings, ..Default::default() };
    let mut vm = Vm::new(&extension.object, options).expect("the VM has its maps");
    vm.load("locks").expect("loads");
    if let Err(why) = vm.compiled("locks") {
        println!("skipped: compiled code: {why}");
        return;
    }
    let world = World::new(extension, Place::Vm(Box::new(vm), Engine::Jit));
    let packet = request(&world);
    let never = AtomicBool::new(false);
    let Place::Vm(vm, _) = &world.place else { unreachable!("made above") };
    std::thread::scope(|scope| {
        for cpu in 0..2 {
            let (vm, packet) = (&**vm, &packet);
            scope.spawn(move || {
                let program = vm.program("locks").expect("loaded").on(cpu).expect("a CPU");
                for _ in 0..RUNS {
                    let value = program.run_input(&kiln_vm::Input::packet(packet)).expect("runs");
                    assert_eq!(value as u32, XDP_TX);
                }
            });
        }
        count(&world.heap(), &never);
    });
    check(&world.heap(), "VM");
}

fn in_the_kernel(extension: &Extension) {
    let Some(world) = World::kernel(extension) else { return };
    world.heap().populate(SHARED, 4096).expect("pages");
    let packet = request(&world);
    let Place::Kernel(loaded) = &world.place else { unreachable!("made above") };
    let program = loaded.program("locks").expect("loaded");
    let cancelled = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..RUNS {
                    let input = TestInput { packet: packet.clone(), ..TestInput::default() };
                    if program.test_run(&input).expect("runs").value != XDP_TX {
                        cancelled.store(true, Relaxed);
                    }
                }
            });
        }
        count(&world.heap(), &cancelled);
    });
    if cancelled.load(Relaxed) {
        // may_goto allows 250 ms; user space may wait longer for a CPU while it holds a lock.
        println!("skipped: locks in the kernel: the machine is so busy that a waiting program was cancelled");
        return;
    }
    check(&world.heap(), "kernel");
}

#[test]
fn two_locks_are_shared_with_user_space() {
    // User space may be without a CPU for long while it holds a lock.
    let patient = ["-DKILN_LOCK_PATIENCE_NS=1000000000ull"];
    let Some(extension) = compile_with(SOURCE, Duration::from_secs(20), &patient) else { return };
    in_the_vm(&extension);
    in_the_kernel(&extension);
}

/// The time of a run that is cancelled.
fn cancelled_after(world: &World, packet: &[u8]) -> Duration {
    let begun = std::time::Instant::now();
    if let Place::Kernel(loaded) = &world.place {
        let input = TestInput { packet: packet.to_vec(), ..TestInput::default() };
        let output = loaded.program("locks").expect("loaded").test_run(&input).expect("runs");
        assert_eq!(output.value, XDP_PASS);
        return Duration::from_nanos(output.duration_ns.into());
    }
    assert_eq!(world.run("locks", packet).0, XDP_PASS);
    begun.elapsed()
}

/// User space takes a lock and does not release it: a run is cancelled at the end of its quantum. After that the lock is known as
/// abandoned, and runs are cancelled at once. When it is free, runs work again.
#[test]
fn a_lock_that_is_never_given_back_costs_a_quantum_once() {
    const QUANTUM: Duration = Duration::from_millis(20);
    const LATER_RUNS: usize = 21;
    let Some(extension) = compile_with(SOURCE, QUANTUM, &["-DKILN_LOCK_PATIENCE_NS=8000000ull"]) else { return };
    for (name, world) in World::all(&extension, &["locks"]) {
        let heap = world.heap();
        heap.populate(SHARED, 4096).expect("pages");
        let packet = request(&world);
        for held in [1, u64::from(lock::USER | 4_194_303)] {
            heap.store(SECOND, held).expect("in the heap");
            let begun = std::time::Instant::now();
            // One run, or a few if this thread had no CPU in between.
            let first = (1..=5).find(|_| {
                assert_eq!(world.run("locks", &packet).0, XDP_PASS, "{name}: the default of its hook");
                // The cancelled run still holds the first lock.
                assert_eq!(heap.load(FIRST), Some(1), "{name}");
                heap.store(FIRST, 0).expect("in the heap");
                lock::is_abandoned(&heap, SECOND) == Some(true)
            });
            let spent = begun.elapsed();
            assert!(first.is_some() && spent >= QUANTUM / 4, "{name}: {first:?} runs, {spent:?}");
            let mut later: Vec<Duration> = (0..LATER_RUNS)
                .map(|_| {
                    let spent = cancelled_after(&world, &packet);
                    heap.store(FIRST, 0).expect("in the heap");
                    spent
                })
                .collect();
            later.sort_unstable();
            println!("{name}: {first:?} runs took {spent:?}, later ones {:?} to {:?}", later[0], later[LATER_RUNS - 1]);
            // The least: other tests have the CPUs as well.
            assert!(later[0] < QUANTUM / 4, "{name}: {later:?}");
            assert_eq!(COUNTS.map(|at| heap.load(at)), [Some(0); 2], "{name}: counted without the lock");
            lock::release(&heap, SECOND).expect("in the heap");
        }
        assert_eq!(world.run("locks", &packet).0, XDP_TX, "{name}");
        assert_eq!(COUNTS.map(|at| heap.load(at)), [Some(TIMES), Some(2 * TIMES)], "{name}");
    }
}
