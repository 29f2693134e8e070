//! When threads run and when they do not: `on_cpu`, `off_cpu`.

use std::cell::{Cell, RefCell};
use std::sync::mpsc;
use std::time::Duration;

use kiln_driver::query::live::now_ns;
use kiln_driver::query::{Settings, Split};

use super::tables::{burn_the_processor, in_every_split};
use super::{call, may_load, own_thread, run_with};

/// Processor time that this thread has used.
fn used() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

/// Asks in each split about a thread whose work says how long it took. The row's numbers, and that time in nanoseconds, must be as
/// `fits` says.
fn measure(sql: &str, work: &dyn Fn() -> Duration, fits: &dyn Fn(&[u64], u64) -> bool) {
    let took = Cell::new(Duration::ZERO);
    in_every_split(sql, &|| took.set(work()), &|split, rows| {
        let number = |value: &String| value.parse().unwrap_or_else(|_| panic!("{split:?}: {rows:?}"));
        let numbers: Vec<u64> = rows[0].iter().map(number).collect();
        let own = took.get().as_nanos() as u64;
        assert!(fits(&numbers, own), "{split:?}: {numbers:?} of {own}");
    });
}

/// How often the running thread has stopped because it wanted to, as the kernel counts it.
fn stops() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("it runs");
    let stops = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    stops.and_then(|stops| stops.trim().parse().ok()).expect("the kernel counts it")
}

/// Sleeps twenty times 10 ms. Returns how often this thread stopped, and when each sleep began and ended.
fn sleep() -> (u64, Vec<[u64; 2]>) {
    let before = stops();
    let one = |_| {
        let begun = now_ns();
        std::thread::sleep(Duration::from_millis(10));
        [begun, now_ns()]
    };
    let sleeps = (0..20).map(one).collect();
    (stops() - before, sleeps)
}

#[test]
fn a_thread_that_sleeps_does_not_run() {
    if !may_load() {
        return;
    }
    // A thread that does nothing else: it waits before the query begins, and when it ends.
    let (ask, asked) = mpsc::channel::<()>();
    let (answer, answered) = mpsc::channel();
    let (name, named) = mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        name.send(own_thread()).expect("somebody waits");
        while asked.recv().is_ok() {
            answer.send(sleep()).expect("somebody waits");
        }
    });
    let tid = named.recv().expect("it begins");
    let slept = RefCell::new((0, Vec::new()));
    let work = || {
        ask.send(()).expect("it waits");
        slept.replace(answered.recv().expect("it answers"));
    };
    // 0: it would have gone on. A busy machine takes the processor from a thread that is about to sleep, so that it sleeps
    // for a shorter time, or not at all.
    let sql = format!("SELECT ts, end_ts, off_ns FROM off_cpu WHERE tid = {tid} AND state > 0");
    in_every_split(&sql, &work, &|split, rows| {
        let rows: Vec<Vec<u64>> =
            rows.iter().map(|row| row.iter().map(|value| value.parse().expect("a number")).collect()).collect();
        let (stops, sleeps) = &*slept.borrow();
        // On a machine with load 8 and other programs coming and going, one stop in some thousands has no row: in every split, so
        // programs were not run for an event.
        let seen = rows.len() as u64;
        assert!((stops - 1..=*stops).contains(&seen), "{split:?}: {rows:?} of {sleeps:?}");
        for row in &rows {
            let is_in = |sleep: &&[u64; 2]| sleep[0] <= row[0] && row[1] <= sleep[1] && row[2] == row[1] - row[0];
            assert_eq!(sleeps.iter().filter(is_in).count(), 1, "{split:?}: {row:?} of {sleeps:?}");
        }
    });
    drop(ask);
    sleeper.join().expect("it ends");
}

#[test]
fn a_thread_runs_as_long_as_its_clock_says() {
    if !may_load() {
        return;
    }
    let burn_and_sleep = || {
        // What it runs at the beginning and at the end is not seen whole.
        std::thread::sleep(Duration::from_millis(2));
        let begun = used();
        for _ in 0..20 {
            std::hint::black_box(burn_the_processor(Duration::from_millis(4)));
            std::thread::sleep(Duration::from_millis(1));
        }
        used() - begun
    };
    let sql = format!("SELECT count(*), sum(run_ns), max(run_ns) FROM on_cpu WHERE tid = {}", own_thread());
    measure(&sql, &burn_and_sleep, &|numbers, own| {
        let [count, sum, longest] = *numbers else { return false };
        // Interrupts take time that is not the thread's.
        count >= 20 && longest <= sum && sum >= own * 9 / 10 && sum <= own * 2
    });
}

#[test]
fn threads_that_end_keep_no_room() {
    if !may_load() {
        return;
    }
    // Room for few, and many come one after the other.
    let settings = Settings { max_starts: 32, ..Settings::default() };
    let own = format!("SELECT count(*) FROM syscalls WHERE pid = {} AND name = 'getppid'", std::process::id());
    for split in [Split::Pair, Split::Aggregate] {
        let work = || (0..300).for_each(|_| std::thread::spawn(|| call(2)).join().expect("it ends"));
        let Some((rows, summary)) = run_with(&settings, &own, Some(split), work) else { return };
        assert_eq!((rows[0].values[0].bits(), summary.lost_in_all()), (Some(600), 0), "{split:?}");
    }
    // They are killed in a call, which returns before its thread ends.
    let killed = || {
        for _ in 0..100 {
            let mut sleeping = std::process::Command::new("sleep").arg("60").spawn().expect("sleep is installed");
            std::thread::sleep(Duration::from_millis(2));
            sleeping.kill().expect("it sleeps");
            sleeping.wait().expect("it was killed");
        }
    };
    let sql = "SELECT count(*) FROM syscalls WHERE comm = 'sleep'";
    let Some((_, summary)) = run_with(&settings, sql, None, killed) else { return };
    assert_eq!(summary.lost_in_all(), 0);
}
