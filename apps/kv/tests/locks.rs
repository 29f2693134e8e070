//! Locks of buckets that somebody keeps: a process that was killed, one that lives and never lets go, and a slow thread of the server.
//! With programs beside them: `extension.rs`.

use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use kiln_heap::own::OwnHeap;
use kiln_heap::{Memory as _, lock, supply};
use kiln_kv::protocol::{Service, Session};
use kiln_kv::store::layout::{MAGIC, bucket, state};
use kiln_kv::store::{Condition, OWN_VARIABLE_BYTES, Outcome, Settings, Store, own_heap};

const SETTINGS: Settings = Settings { buckets: 4, most_bytes: 8 << 20, served: None };
/// Two quanta of a program, and what a busy machine adds.
const PATIENCE: Duration = Duration::from_millis(200 + 1000);

/// Where the locks of all buckets are.
fn locks(heap: &OwnHeap) -> impl Iterator<Item = usize> {
    let state = supply::variable(heap, MAGIC).expect("a state");
    let first = heap.offset(heap.load(state + state::BUCKETS).expect("buckets")).expect("in the heap");
    (0..SETTINGS.buckets).map(move |number| first + number * bucket::ALL + bucket::LOCK)
}

/// Has a thread hold the locks of all buckets.
fn hold_all(heap: &OwnHeap, thread: u32) {
    locks(heap).for_each(|at| lock::take(heap, at, thread, Duration::ZERO).expect("it is free"));
}

/// What needs a lock, each behind a lock that a process holds: all of it is served in time.
fn goes_on_while_held_by(thread: u32) {
    let heap = own_heap(&SETTINGS);
    let service = Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store"));
    assert_eq!(service.store.put(b"k", 0, 0, b"0", Condition::Any), Outcome::Stored);
    let ask = |text: &str| {
        let mut output = Vec::new();
        Session::new(&service).serve(text.as_bytes(), &mut output);
        String::from_utf8(output).expect("text")
    };
    for (request, wanted) in [
        ("get k\r\n", "VALUE k 0 1\r\n0\r\nEND\r\n"),
        ("set k 0 0 1\r\n1\r\n", "STORED\r\n"),
        ("incr k 1\r\n", "2\r\n"),
        ("append k 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("touch k 100\r\n", "TOUCHED\r\n"),
        ("mg k v\r\n", "VA 2\r\n2x\r\n"),
        ("delete k\r\n", "DELETED\r\n"),
    ] {
        hold_all(&heap, thread);
        let begun = Instant::now();
        assert_eq!(ask(request), wanted);
        assert!(begun.elapsed() < PATIENCE, "{request:?}: {:?}", begun.elapsed());
        locks(&heap).for_each(|at| lock::release(&heap, at).expect("it is in the heap"));
    }
}

#[test]
fn a_lock_of_a_killed_process_stops_nobody() {
    let mut child = Command::new("true").spawn().expect("it starts");
    child.wait().expect("it ends");
    goes_on_while_held_by(child.id());
}

#[test]
fn a_process_that_keeps_a_lock_stops_nobody() {
    // It ends with its pipe, whatever becomes of this test.
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    goes_on_while_held_by(child.id());
    assert!(child.try_wait().expect("its state").is_none(), "it lives");
    drop(child.stdin.take());
    child.wait().expect("it ends");
}

#[test]
fn a_lock_of_a_slow_thread_is_waited_for() {
    const SLOW: Duration = Duration::from_millis(700);
    let heap = own_heap(&SETTINGS);
    let store = Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store");
    let (held, holds) = mpsc::channel();
    std::thread::scope(|scope| {
        let heap = &heap;
        scope.spawn(move || {
            hold_all(heap, rustix::thread::gettid().as_raw_nonzero().get() as u32);
            held.send(Instant::now()).expect("somebody waits");
            std::thread::sleep(SLOW);
            locks(heap).for_each(|at| lock::release(heap, at).expect("it is in the heap"));
        });
        let begun: Instant = holds.recv().expect("it holds them");
        assert!(store.get(b"k", None).is_none());
        assert!(begun.elapsed() >= SLOW, "taken away after {:?}", begun.elapsed());
    });
}
