//! When threads run and when they do not: `on_cpu`, `off_cpu`.

use std::time::{Duration, Instant};

use super::tables::in_every_split;
use super::{may_load, own_thread};

/// Processor time that this thread has used.
fn used() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

/// Uses a processor for so long.
fn work(time: Duration) {
    let end = used() + time;
    while used() < end {
        std::hint::spin_loop();
    }
}

fn numbers(row: &[String]) -> Vec<u64> {
    row.iter().map(|value| value.parse().unwrap_or_default()).collect()
}

#[test]
fn a_thread_that_sleeps_does_not_run() {
    if !may_load() {
        return;
    }
    let took = std::cell::Cell::new(Duration::ZERO);
    let sleeps = || {
        let begun = Instant::now();
        (0..20).for_each(|_| std::thread::sleep(Duration::from_millis(3)));
        took.set(begun.elapsed());
    };
    // 0: it would have gone on.
    let sql = format!(
        "SELECT count(*), sum(off_ns) FROM off_cpu WHERE tid = {} AND state > 0 AND off_ns >= 3ms",
        own_thread()
    );
    in_every_split(&sql, &sleeps, &|split, rows| {
        let [count, sum] = numbers(&rows[0])[..] else { panic!("{rows:?}") };
        let own = took.get().as_nanos() as u64;
        // On a busy machine, the thread's shorter sleep before may take as long.
        assert!((20..=22).contains(&count) && sum >= 60_000_000 && sum <= own * 2, "{split:?}: {rows:?} of {own}");
    });
}

#[test]
fn a_thread_runs_as_long_as_its_clock_says() {
    if !may_load() {
        return;
    }
    let took = std::cell::Cell::new(Duration::ZERO);
    let work_and_sleep = || {
        // What it runs at the beginning and at the end is not seen whole.
        std::thread::sleep(Duration::from_millis(2));
        let begun = used();
        for _ in 0..20 {
            work(Duration::from_millis(4));
            std::thread::sleep(Duration::from_millis(1));
        }
        took.set(used() - begun);
    };
    let sql = format!("SELECT count(*), sum(run_ns), max(run_ns) FROM on_cpu WHERE tid = {}", own_thread());
    in_every_split(&sql, &work_and_sleep, &|split, rows| {
        let [count, sum, longest] = numbers(&rows[0])[..] else { panic!("{rows:?}") };
        let own = took.get().as_nanos() as u64;
        // Interrupts take time that is not the thread's.
        assert!(count >= 20 && longest <= sum && sum >= own * 9 / 10 && sum <= own * 2, "{split:?}: {rows:?} of {own}");
    });
}
