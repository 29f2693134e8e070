//! Events at the machine's limit, readers that are slow and keys without number: what is counted and what is said to be lost
//! are together what happened, and memory is bounded.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kiln_driver::query::live::{self, Watch};
use kiln_driver::query::{Limits, Row, Session, Settings, Split, Summary, Value, plan};

/// One flood at a time: each needs all processors, and memory is that of the process.
static ALONE: Mutex<()> = Mutex::new(());
/// How long a flood lasts.
const FLOOD: Duration = Duration::from_millis(600);
/// What the process may grow by in a flood, in bytes. A read takes up to 4 MiB of records.
const GROWTH: u64 = 96 << 20;

/// A query that runs beside some work.
struct Watched {
    sql: String,
    split: Split,
    settings: Settings,
    limits: Limits,
    /// How long the reader of the rows takes each time.
    pause: Duration,
}

impl Watched {
    fn new(sql: String, split: Split) -> Watched {
        let settings = Settings { ring_bytes: 64 << 10, wake_bytes: 16 << 10, ..Settings::default() };
        Watched { sql, split, settings, limits: Limits::default(), pause: Duration::ZERO }
    }

    /// Runs it while `work` runs. Returns its rows and its end; nothing where queries cannot run.
    fn run<T>(&self, work: impl FnOnce() -> T) -> Option<(Vec<Row>, Summary, T)> {
        if let Err(why) = kiln_driver::require_kernel() {
            println!("skipped: {why}");
            return None;
        }
        let session = match Session::new(&self.sql) {
            Err(kiln_driver::Error::Unsupported(why)) => {
                println!("skipped: {why}");
                return None;
            }
            other => other.unwrap_or_else(|error| panic!("{}\n{error}", self.sql)),
        };
        let plan = plan::plan(&session, &self.settings, Some(self.split)).expect("it can be planned");
        let (ready, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut rows = Vec::new();
        let (summary, done) = std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let stop = || {
                    ready.store(true, Ordering::SeqCst);
                    over.load(Ordering::SeqCst)
                };
                let watch = Watch {
                    duration: Some(Duration::from_secs(60)),
                    stop: &stop,
                    interrupt: Arc::default(),
                    limits: self.limits,
                    measure: false,
                    max_overhead: None,
                    status: None,
                };
                let sink = &mut |mut more: Vec<Row>| {
                    std::thread::sleep(self.pause);
                    rows.append(&mut more);
                    true
                };
                live::run(&session, plan, &watch, &mut |_, _| {}, sink)
            });
            while !ready.load(Ordering::SeqCst) && !looking.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let done = work();
            over.store(true, Ordering::SeqCst);
            (looking.join().expect("it does not panic"), done)
        });
        Some((rows, summary.unwrap_or_else(|error| panic!("{}\n{error}", self.sql)), done))
    }
}

/// Makes as many system calls as two processors can, for [`FLOOD`]. Returns their number.
fn flood() -> u64 {
    let calls = || {
        let (begun, mut calls) = (Instant::now(), 0);
        while begun.elapsed() < FLOOD {
            for _ in 0..256 {
                let _ = rustix::process::getppid();
                calls += 1;
            }
        }
        calls
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(calls);
        calls() + other.join().expect("it does not panic")
    })
}

/// Bytes of memory that the process has.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("proc is mounted");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it says so");
    let kib: u64 = line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number");
    kib << 10
}

fn calls_of_this_process() -> String {
    format!("name = 'getppid' AND pid = {}", std::process::id())
}

/// The sum of a column.
fn sum(rows: &[Row], column: usize) -> u64 {
    rows.iter().map(|row| row.values[column].bits().expect("a number")).sum()
}

#[test]
fn a_slow_reader_is_told_how_many_rows_it_lost() {
    let _alone = ALONE.lock();
    for (pause, must_lose) in [(Duration::from_millis(60), true), (Duration::ZERO, false)] {
        let sql = format!("SELECT ret FROM syscalls WHERE {}", calls_of_this_process());
        let watched = Watched { pause, ..Watched::new(sql, Split::Pair) };
        let Some((rows, summary, calls)) = watched.run(flood) else { return };
        let lost = summary.lost_in_all();
        println!("pause {pause:?}: {} rows and {lost} lost of {calls} calls", rows.len());
        assert_eq!(rows.len() as u64 + lost, calls, "{summary:?}");
        assert_eq!(rows.len() as u64, summary.rows);
        assert!(!must_lose || lost > 0, "{summary:?}");
        assert_eq!(summary.lost_in_kernel[1..], [0, 0], "{summary:?}");
    }
}

#[test]
fn records_of_beginnings_and_ends_are_all_counted() {
    let _alone = ALONE.lock();
    // Both halves of a pair are records, and either may be lost.
    let sql = format!("SELECT count(*) FROM syscalls WHERE {}", calls_of_this_process());
    let before = resident();
    let watched = Watched { pause: Duration::ZERO, ..Watched::new(sql, Split::Filter) };
    let Some((rows, summary, calls)) = watched.run(flood) else { return };
    let grown = resident().saturating_sub(before);
    let lost = summary.lost_in_all();
    println!(
        "{} counted, {} records and {lost} lost of {calls} calls; grown by {grown} bytes",
        sum(&rows, 0),
        summary.records
    );
    assert!(lost > 0, "64 KiB are too few: {summary:?}");
    assert!(sum(&rows, 0) <= calls && calls - sum(&rows, 0) <= lost, "{summary:?}");
    assert!(grown < GROWTH, "{grown} bytes");
}

#[test]
fn groups_in_the_kernel_count_every_call_of_a_flood() {
    let _alone = ALONE.lock();
    let sql = format!(
        "SELECT tid, count(*) AS calls FROM syscalls WHERE {} GROUP BY tid WINDOW 100 MS",
        calls_of_this_process()
    );
    let watched = Watched { pause: Duration::from_millis(60), ..Watched::new(sql, Split::Aggregate) };
    let Some((rows, summary, calls)) = watched.run(flood) else { return };
    println!("{} of {calls} calls in {} groups", sum(&rows, 1), rows.len());
    assert_eq!((sum(&rows, 1), summary.lost_in_all()), (calls, 0), "{summary:?}");
    let starts: Vec<u64> = rows.iter().map(|row| row.window.expect("a window")[0]).collect();
    assert!(starts.is_sorted() && rows.len() >= 5, "{starts:?}");
}

/// Asks whether a signal could be sent to a hundred thousand processes, each once.
fn many_keys() -> u64 {
    const KEYS: u64 = 100_000;
    for key in 1..=KEYS {
        let pid = rustix::process::Pid::from_raw(key as i32).expect("it is not 0");
        // Most do not exist.
        let _ = rustix::process::test_kill_process(pid);
    }
    KEYS
}

#[test]
fn keys_without_number_find_bounded_room_and_the_rest_is_counted() {
    const ROOM: usize = 1000;
    let _alone = ALONE.lock();
    let pid = std::process::id();
    let sql = format!("SELECT arg0, count(*) FROM syscalls WHERE name = 'kill' AND pid = {pid} GROUP BY arg0");
    for split in [Split::Pair, Split::Aggregate] {
        let mut watched = Watched::new(sql.clone(), split);
        watched.settings.ring_bytes = 16 << 20;
        watched.settings.max_groups = ROOM as u32;
        watched.limits.groups = ROOM;
        let Some((rows, summary, calls)) = watched.run(many_keys) else { return };
        let lost = if split == Split::Pair { summary.lost.groups } else { summary.lost_in_kernel[2] };
        println!("{split:?}: {} groups, {lost} rows without room", rows.len());
        assert!(rows.len() <= ROOM && rows.len() > ROOM / 2, "{split:?}: {} groups", rows.len());
        assert_eq!(sum(&rows, 1) + summary.lost_in_all(), calls, "{split:?}: {summary:?}");
        assert_eq!(lost, summary.lost_in_all(), "{split:?}: {summary:?}");
        assert!(rows.iter().all(|row| row.values[1] == Value::Uint(1)), "{split:?}");
    }
}

#[test]
fn beginnings_without_number_find_bounded_room() {
    let _alone = ALONE.lock();
    let pid = std::process::id();
    // Threads that wait in a call are beginnings without an end.
    const THREADS: usize = 40;
    let sql = format!("SELECT tid FROM syscalls WHERE name = 'clock_nanosleep' AND pid = {pid}");
    let mut watched = Watched::new(sql, Split::Pair);
    watched.settings.max_starts = 8;
    let work = || {
        let wait = || std::thread::sleep(Duration::from_millis(300));
        std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(wait))));
    };
    let Some((rows, summary, ())) = watched.run(work) else { return };
    let lost = summary.lost_in_kernel[1];
    println!("{} rows, {lost} beginnings without room", rows.len());
    // A sleep that a signal interrupts is called again.
    let calls = rows.len() + lost as usize;
    assert!(lost >= (THREADS - 8) as u64 / 2 && (THREADS..THREADS + 4).contains(&calls), "{summary:?}");
}
