//! The promise that any valid query loads, and that all its splits give one answer.
//!
//! ```text
//!   numbers --> a recording of a table's events --------------+
//!           --> valid queries of that table ------------------+--> smallest split, in user space --> answer
//!                 |                                           +--> each split, its kernel half in the kernel --> the same
//!                 |                                           +--> SQLite, where it understands the query --> the same
//!                 +--> each split's programs for the hooks: accepted by our verifier and loaded in the kernel
//! ```
//!
//! The kernel's half of each split is handed the recorded events by `BPF_PROG_TEST_RUN`, so that all splits see the same.
//! `KILN_QUERIES` says how many queries, `KILN_QUERIES_FROM` the number of the first. A failure names the number of its
//! query.
#![forbid(unsafe_code)]

mod events;
mod generator;
mod joins;
mod sqlite;

use std::collections::BTreeMap;
use std::time::Instant;

use generator::{Generated, Generator, Numbers};
use kiln_driver::query::replay::{self, Recording};
use kiln_driver::query::{Limits, Row, Session, Settings, Split, Summary, Value, plan};

/// Queries of one recording.
const OF_ONE_RECORDING: u64 = 50;
/// Events of a recording.
const EVENTS: usize = 300;

/// Failures after which the rest is not looked at.
const MOST_FAILURES: usize = 20;

/// What was done.
#[derive(Default)]
struct Counts {
    queries: u64,
    loaded: u64,
    by_split: BTreeMap<&'static str, u64>,
    compared: u64,
    by_sqlite: u64,
    rows: u64,
    /// Queries that are refused because a constant in them has more than 64 bits.
    too_large: u64,
}

/// The tables of this kernel.
fn tables() -> Vec<String> {
    let own = kiln_driver::tables::describe_tables(None).expect("there are tables");
    let there = own
        .into_iter()
        .filter(|table| table.lacks.is_none() && !table.hooks.is_empty())
        .map(|table| table.name.exact().to_owned());
    let others = [
        "tracepoint.sched.sched_switch",
        "tracepoint.sched.sched_wakeup",
        "tracepoint.irq.softirq_entry",
        "tracepoint.sched.sched_process_exec",
    ];
    let other = others.iter().filter(|name| Session::new(&format!("SELECT * FROM {name}")).is_ok());
    there.chain(other.map(|name| (*name).to_owned())).collect()
}

struct Ground {
    kernel: bool,
    file: Vec<u8>,
    rows: Vec<Vec<Value>>,
    database: rusqlite::Connection,
    settings: Settings,
}

fn replayed(session: &Session, file: &[u8]) -> (Vec<Row>, Summary) {
    let recording = Recording::new(session, "memory".to_owned(), file).expect("it is a recording");
    let mut rows = Vec::new();
    let summary = replay::run(session, recording, Limits::default(), &mut |mut more| {
        rows.append(&mut more);
        true
    });
    (rows, summary.expect("it can be replayed"))
}

/// The query for all columns of a table, with those that `*` does not show.
fn every_column(table: &str) -> Option<String> {
    let columns = kiln_driver::tables::describe_tables(Some(table)).ok()?.pop()?.columns;
    let names: Vec<&str> = columns.iter().map(|column| column.name.exact()).collect();
    Some(format!("SELECT {} FROM {table}", names.join(", ")))
}

fn ground(table: &str, kernel: bool, numbers: &mut Numbers) -> Option<Ground> {
    let session = Session::new(&every_column(table)?).ok()?;
    let wild = numbers.once_in(2);
    let file = events::recording(&session, EVENTS, wild, numbers).expect("its smallest split is accepted");
    let (rows, summary) = replayed(&session, &file);
    assert_eq!(summary.lost_in_all(), 0, "{table}");
    assert!(rows.len() > 20, "{table}: the recording has {} rows only", rows.len());
    let rows: Vec<Vec<Value>> = rows.into_iter().map(|row| row.values).collect();
    let database = sqlite::database(&session.query().table, &rows).expect("SQLite takes the rows");
    let settings = Settings { ring_bytes: 1 << 17, max_groups: 1 << 10, max_starts: 1 << 8, ..Settings::default() };
    Some(Ground { kernel, file, rows, database, settings })
}

/// Checks one query. Says what is wrong.
fn check(ground: &Ground, query: &Generated, counts: &mut Counts) -> Result<(), String> {
    let session = match Session::new(&query.sql) {
        // Constants whose result would be a wrong number.
        Err(error) if error.to_string().contains("has more than 64 bits") => {
            counts.too_large += 1;
            return Ok(());
        }
        other => other.map_err(|error| format!("it is not understood: {error}"))?,
    };
    let plan = plan::plan(&session, &ground.settings, None).map_err(|error| format!("it has no plan: {error}"))?;
    if let Some(step) = plan.steps.iter().find(|step| step.refused.is_some()) {
        return Err(format!("split {}: {}", step.split.name(), step.refused.as_ref().map_or("", |why| why.exact())));
    }
    counts.queries += 1;
    let (expected, summary) = replayed(&session, &ground.file);
    if summary.lost_in_all() > 0 {
        return Err(format!("user space lost {:?}", summary.lost));
    }
    counts.rows += expected.len() as u64;
    for generated in plan.accepted.iter().filter(|_| ground.kernel) {
        let split = generated.split;
        kiln_linux::load_images(&generated.object).map_err(|failure| {
            format!("split {}: the kernel refuses it: {failure}\n{}", split.name(), failure.messages)
        })?;
        counts.loaded += generated.object.programs.len() as u64;
        *counts.by_split.entry(split.name()).or_default() += 1;
        let answer = in_kernel(&session, ground, split)?;
        if answer != expected {
            return Err(differ(&format!("split {}", split.name()), &expected, &answer));
        }
        counts.compared += 1;
    }
    if let Some(sql) = &query.sqlite {
        let wrong = |error: rusqlite::Error| format!("SQLite on {sql}: {error}");
        if let Some(window) = query.window {
            sqlite::windows(&ground.database, &session.query().table, window).map_err(wrong)?;
        }
        let theirs = sqlite::ask(&ground.database, sql).map_err(wrong)?;
        // Rows that differ come in the order in which the first of each was complete, which SQLite does not know.
        let distinct_rows = query.sql.starts_with("SELECT DISTINCT") && !query.sql.contains(" ORDER BY ");
        let in_order = query.window.is_none() && !distinct_rows && !query.sql.contains(" WINDOW SESSION ");
        if !sqlite::same(sqlite::as_theirs(&expected), theirs.clone(), in_order) {
            let shown = |rows: &[Vec<Value>]| format!("{rows:?}").chars().take(600).collect::<String>();
            let [theirs, own] = [shown(&theirs), shown(&sqlite::as_theirs(&expected))];
            return Err(format!("SQLite on {sql}:\n{theirs}\nKiln:\n{own}"));
        }
        counts.by_sqlite += 1;
    }
    Ok(())
}

fn in_kernel(session: &Session, ground: &Ground, split: Split) -> Result<Vec<Row>, String> {
    let recording = Recording::new(session, "memory".to_owned(), &ground.file[..]).expect("it is a recording");
    let mut rows = Vec::new();
    let mut sink = |mut more: Vec<Row>| {
        rows.append(&mut more);
        true
    };
    let summary = replay::run_in_kernel(session, recording, split, &ground.settings, Limits::default(), &mut sink)
        .map_err(|error| format!("split {} on recorded events: {error}", split.name()))?;
    if summary.lost_in_all() > 0 {
        return Err(format!("split {} lost {:?} {:?}", split.name(), summary.lost_in_kernel, summary.lost));
    }
    Ok(rows)
}

fn differ(who: &str, expected: &[Row], answer: &[Row]) -> String {
    let at = expected.iter().zip(answer).position(|(one, other)| one != other);
    let at = at.unwrap_or(expected.len().min(answer.len()));
    format!(
        "{who} gives {} rows instead of {}; number {at} is {:?} instead of {:?}",
        answer.len(),
        expected.len(),
        answer.get(at),
        expected.get(at)
    )
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Checks so many queries; ends after twenty that went wrong.
fn check_queries(count: u64) {
    let kernel = kiln_driver::require_kernel().map_err(|why| println!("skipped: {why}")).is_ok();
    let tables = tables();
    let mut counts = Counts::default();
    let mut failures = Vec::new();
    let first = number("KILN_QUERIES_FROM", 0);
    let begun = Instant::now();
    let mut query = first;
    while query < first + count && failures.len() < MOST_FAILURES {
        // A query depends on its own number and on its recording's, not on where the run began.
        let of_recording = query / OF_ONE_RECORDING;
        let mut numbers = Numbers(of_recording << 20);
        let table = numbers.one(&tables).clone();
        let Some(ground) = ground(&table, kernel, &mut numbers) else { return println!("skipped: no kernel types") };
        let session = Session::new(&format!("SELECT * FROM {table}")).expect("it was one before");
        while query / OF_ONE_RECORDING == of_recording && query < first + count && failures.len() < MOST_FAILURES {
            let numbers = Numbers(query.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5eed);
            let mut generator = Generator { table: &session.query().table, rows: &ground.rows, numbers };
            let generated = generator.query();
            if let Err(why) = check(&ground, &generated, &mut counts) {
                println!("query {query}: {}\n  {why}", generated.sql);
                failures.push(query);
            }
            query += 1;
        }
    }
    println!(
        "{} queries of {} tables in {:.1} s: {} programs loaded, splits {:?}, {} answers of the kernel's compared, {} of SQLite's; {} rows; {} constants too large",
        counts.queries,
        tables.len(),
        begun.elapsed().as_secs_f64(),
        counts.loaded,
        counts.by_split,
        counts.compared,
        counts.by_sqlite,
        counts.rows,
        counts.too_large
    );
    assert!(counts.too_large <= count / 20, "{} queries are refused", counts.too_large);
    assert!(failures.is_empty(), "queries {failures:?}: see above");
    assert!(count < 100 || counts.by_sqlite > count / 10, "SQLite understood {} only", counts.by_sqlite);
}

/// Queries that were refused or had two answers once.
const FOUND: [&str; 14] = [
    // What has more than 64 bits is null in every split.
    "SELECT arg0 * arg1, -ret, ret - 9223372036854775807 FROM syscalls WHERE arg0 + arg1 > 7",
    "SELECT arg0 * 5000000000 AS product, sum(ret * arg2), max(-ret), count(*) FROM syscalls GROUP BY product",
    "SELECT -ret AS error, count(*), max(arg0 + 1) FROM syscalls WHERE ret BETWEEN -4095 AND -1 GROUP BY error",
    "SELECT coalesce(1 % 0, CASE WHEN 7 <= end_ts THEN arg0 ELSE 4 END) - 2 FROM syscalls",
    "SELECT comm, 5 FROM sched_switches WHERE 13 = 14",
    "SELECT pid, cgroup_id, count(ts >> 7) FROM syscalls WHERE cpu <= pid GROUP BY pid, cgroup_id",
    "SELECT comm, count(*) FROM syscalls WHERE comm = 'cargo' AND name <> 'read' GROUP BY comm",
    "SELECT count(*), count(pid / 0) FROM signals",
    "SELECT vec, duration_ns FROM softirqs",
    "SELECT cpu, stddev(5 % 0) FROM signals GROUP BY cpu",
    "SELECT count(*) FROM runq WHERE wait_ns NOT BETWEEN 9223372036854775808 AND 4294967296",
    "SELECT (2 + target_pid) * (3414719210 - 179) AS product, count(*) FROM wakeups GROUP BY product",
    "SELECT count(*) FROM timers WHERE (1 + pid) <> (6 | timer)",
    "SELECT path, count(*) FROM file_opens WHERE path = '/' GROUP BY path",
];

#[test]
fn queries_that_failed_once() {
    let kernel = kiln_driver::require_kernel().map_err(|why| println!("skipped: {why}")).is_ok();
    let mut counts = Counts::default();
    for sql in FOUND {
        let Ok(session) = Session::new(sql) else { return println!("skipped: no kernel types") };
        for of_recording in 0..4 {
            let mut numbers = Numbers(of_recording);
            let Some(ground) = ground(&session.query().table.name, kernel, &mut numbers) else { return };
            let query = Generated { sql: sql.to_owned(), sqlite: None, window: None };
            check(&ground, &query, &mut counts).unwrap_or_else(|why| panic!("{sql}\n{why}"));
        }
    }
    assert_eq!(counts.queries, 4 * FOUND.len() as u64);
}

#[test]
fn generated_queries_load_and_all_splits_give_one_answer() {
    check_queries(number("KILN_QUERIES", 150));
}

#[test]
#[ignore = "takes minutes: make 10,000 queries"]
fn ten_thousand_generated_queries() {
    check_queries(number("KILN_QUERIES", 10_000));
}
