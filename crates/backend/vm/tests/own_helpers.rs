//! Helpers of the embedder's own, on both engines: what the verifier asks, what they may touch, and panics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use kiln_platform::{ArgKind, Helper, Memory};
use kiln_program::text::parse;
use kiln_vm::{Engine, Error, Input, Options, OwnHelper, Vm};

static ADD: Helper = Helper::own(65_536, "add", &[ArgKind::Anything, ArgKind::Anything]);
static SUM: Helper =
    Helper::own(65_537, "sum", &[ArgKind::Memory(Memory::READ), ArgKind::Size { zero_allowed: false }]);
static FILL: Helper =
    Helper::own(65_538, "fill", &[ArgKind::FixedMemory { size: 8, memory: Memory::WRITE_UNINIT, aligned: false }]);
static PANIC: Helper = Helper::own(65_600, "panic", &[]);

fn vm(text: &str, own_helpers: Vec<OwnHelper>) -> Result<Vm, Error> {
    let object = parse(text).expect("the text is well formed");
    let mut vm = Vm::new(&object, Options { own_helpers, ..Options::default() })?;
    vm.load("p")?;
    Ok(vm)
}

fn run(vm: &Vm, engine: Engine) -> Result<u64, Error> {
    vm.run("p", &Input::packet(&[0; 64]), engine).map(|ran| ran.value)
}

const ENGINES: [Engine; 2] = [Engine::Interpreter, Engine::Jit];

#[test]
fn integers_and_memory() {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let add = OwnHelper::new(&ADD, move |call| {
        counted.fetch_add(1, Ordering::Relaxed);
        call.arguments[0].wrapping_add(call.arguments[1])
    });
    let sum = OwnHelper::new(&SUM, |call| {
        let bytes = call.read(call.arguments[0], call.arguments[1] as usize).expect("the verifier checked it");
        bytes.iter().map(|byte| u64::from(*byte)).sum()
    });
    let fill = OwnHelper::new(&FILL, |call| {
        let to = call.arguments[0];
        // Neither before nor behind what the declaration says.
        assert!(call.write(to - 1, &[1]).is_none() && call.write(to + 1, &[1; 8]).is_none());
        assert!(call.write(to, &[5; 8]).is_some());
        0
    });
    let text = "; program xdp name p\n r1 = r10\n r1 += -8\n call 65538\n r1 = r10\n r1 += -8\n r2 = 8\n call 65537\n\
                \x20r1 = r0\n r2 = 2\n call 65536\n exit\n";
    let vm = vm(text, vec![add, sum, fill]).expect("loads");
    for engine in ENGINES {
        assert_eq!(run(&vm, engine).expect("runs"), 42, "{engine:?}");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    let mut packet = [0; 64];
    assert_eq!(vm.program("p").expect("loaded").run(&mut packet).expect("runs"), 42);
}

#[test]
fn the_verifier_checks_calls() {
    let fill = || vec![OwnHelper::new(&FILL, |_| 0)];
    let small = "; program xdp name p\n r1 = r10\n r1 += -4\n call 65538\n r0 = 0\n exit\n";
    assert!(matches!(vm(small, fill()), Err(Error::Rejected { .. })), "four bytes where eight are written");
    let number = "; program xdp name p\n r1 = 0\n call 65538\n r0 = 0\n exit\n";
    assert!(matches!(vm(number, fill()), Err(Error::Rejected { .. })), "a number for memory");
    let unknown = "; program xdp name p\n call 65539\n exit\n";
    assert!(matches!(vm(unknown, fill()), Err(Error::Rejected { .. })), "no helper has this number");
}

#[test]
fn a_panic_ends_the_run() {
    let text = "; program xdp name p\n call 65600\n r0 = 1\n exit\n";
    let vm = vm(text, vec![OwnHelper::new(&PANIC, |_| panic!("on purpose"))]).expect("loads");
    for engine in ENGINES {
        let error = run(&vm, engine).expect_err("the helper panicked");
        assert!(error.to_string().contains("a panic in helper panic"), "{engine:?}: {error}");
    }
}

/// A CPU runs one program at a time: a helper that runs another one there would wait for itself.
#[test]
fn a_helper_that_runs_a_program() {
    static RUN: Helper = Helper::own(65_601, "run", &[ArgKind::Anything]);
    let text = "; program xdp name p\n r1 = 1\n call 65601\n r0 += 40\n exit\n";
    let inner = vm("; program xdp name p\n r0 = 2\n exit\n", Vec::new()).expect("loads");
    let own: Arc<OnceLock<Vm>> = Arc::default();
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let (known, messages) = (Arc::clone(&own), Arc::clone(&said));
    let run = OwnHelper::new(&RUN, move |_| {
        let own = known.get().expect("made before it runs");
        let nested = [self::run(own, Engine::Jit).map(drop), own.program("p").expect("loaded").hold().map(drop)];
        messages.lock().unwrap().extend(nested.map(|result| result.expect_err("the CPU is in use").to_string()));
        self::run(&inner, Engine::Jit).expect("another VM has CPUs of its own")
    });
    let vm = own.get_or_init(|| self::vm(text, vec![run]).expect("loads"));
    for engine in ENGINES {
        assert_eq!(self::run(vm, engine).expect("runs"), 42, "{engine:?}");
    }
    let held = vm.program("p").expect("loaded").hold().expect("the CPU is free");
    said.lock().unwrap().push(self::run(vm, Engine::Jit).expect_err("it is held").to_string());
    drop(held);
    let said = said.lock().unwrap();
    assert_eq!(said.len(), 5);
    assert!(said.iter().all(|said| said.contains("CPU 0 is in use by this thread")), "{said:?}");
}

#[test]
fn lists_that_cannot_be() {
    static KERNEL: Helper = Helper { id: 1, ..ADD };
    static POINTER: Helper = Helper { acquires: true, ..ADD };
    let text = "; program xdp name p\n r0 = 0\n exit\n";
    let list = |declarations: &[&'static Helper]| declarations.iter().map(|it| OwnHelper::new(it, |_| 0)).collect();
    for bad in [list(&[&ADD, &ADD]), list(&[&KERNEL]), list(&[&POINTER]), list(&[&ADD; 33])] {
        assert!(matches!(vm(text, bad), Err(Error::OwnHelpers(_))));
    }
}

#[test]
fn a_packet_in_place() {
    let text = "; program xdp name p\n r2 = *(u32 *)(r1 + 0)\n r3 = *(u32 *)(r1 + 4)\n r4 = r2\n r4 += 1\n\
                \x20if r4 > r3 goto end\n r5 = 7\n *(u8 *)(r2 + 0) = r5\nend:\n r0 = 2\n exit\n";
    let vm = vm(text, Vec::new()).expect("loads");
    let mut packet = [0; 64];
    assert_eq!(vm.program("p").expect("loaded").run(&mut packet).expect("runs"), 2);
    assert_eq!((packet[0], packet[1]), (7, 0));
    let shrink = "; program xdp name p\n r2 = -4\n call xdp_adjust_tail\n r0 = 2\n exit\n";
    let vm = self::vm(shrink, Vec::new()).expect("loads");
    assert!(matches!(vm.program("p").expect("loaded").run(&mut packet), Err(Error::Resized { bytes: 60 })));
}
