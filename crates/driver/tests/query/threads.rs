//! When threads run and when they do not: `on_cpu`, `off_cpu`.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::tables::{burn_the_processor, in_every_split};
use super::{may_load, own_thread};

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

#[test]
fn a_thread_that_sleeps_does_not_run() {
    if !may_load() {
        return;
    }
    let sleep = || {
        let begun = Instant::now();
        (0..20).for_each(|_| std::thread::sleep(Duration::from_millis(10)));
        begun.elapsed()
    };
    // 0: it would have gone on.
    let sql = format!(
        "SELECT count(*), sum(off_ns) FROM off_cpu WHERE tid = {} AND state > 0 AND off_ns >= 5ms",
        own_thread()
    );
    measure(&sql, &sleep, &|numbers, own| {
        let [count, sum] = *numbers else { return false };
        // A busy machine makes short sleeps longer, and takes the processor from a thread that is about to sleep: half of a
        // sleep tells both apart.
        (20..=22).contains(&count) && sum >= own * 9 / 10 && sum <= own * 2
    });
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
