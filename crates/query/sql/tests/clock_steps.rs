//! Clocks that are set, and rows whose times jump: windows end, do not go backwards, and every row is counted or said to be
//! lost. Programs read the monotonic clock, which nobody sets; recordings can hold any time.

use kiln_plan::execute::flow::{Running, no_engine};
use kiln_plan::execute::{Executor, Limits, Lost};
use kiln_plan::{Row, Value};

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3600 * SECOND;
/// Rows of a sequence of times.
const ROWS: u64 = 1000;
/// What is kept, so that it can be reached.
const LIMITS: Limits = Limits { starts: 64, groups: 64, bytes: 1 << 20, rows: 64, late_ns: 100_000_000 };

/// Times of rows, with steps.
fn sequences() -> Vec<(&'static str, Vec<u64>)> {
    let steady = |at: u64| 2 * HOUR + at * SECOND / 100;
    let half = ROWS / 2;
    let of = |time: &dyn Fn(u64) -> u64| (0..ROWS).map(time).collect::<Vec<u64>>();
    vec![
        ("steady", of(&steady)),
        ("an hour ahead", of(&|at| steady(at) + if at < half { 0 } else { HOUR })),
        ("an hour back", of(&|at| steady(at) - if at < half { 0 } else { HOUR })),
        ("ahead for a moment", of(&|at| steady(at) + if at / 10 == 50 { HOUR } else { 0 })),
        ("back for a moment", of(&|at| steady(at) - if at / 10 == 50 { HOUR } else { 0 })),
        ("to and fro", of(&|at| steady(at) + (at % 7) * 10 * SECOND)),
        ("extremes", of(&|at| [0, u64::MAX, 1, u64::MAX - 1, HOUR][at as usize % 5])),
        ("one at the end of time", of(&|at| if at == half { u64::MAX } else { steady(at) })),
    ]
}

/// Runs a query on rows at these times. The clock is that of the rows, as in a replay, or one that moves on steadily.
fn run(sql: &str, times: &[u64], clock_of_rows: bool) -> (Vec<Row>, Lost) {
    let parsed = kiln_sql::parse(sql, None).unwrap_or_else(|error| panic!("{sql}: {}", error.message));
    let scans = parsed.flow.scans();
    let mut executors: Vec<Executor> = scans.iter().map(|scan| Executor::of_rows((*scan).clone(), LIMITS)).collect();
    let mut flow = Running::new(&parsed.flow, LIMITS, &no_engine).expect("no engine is needed");
    let mut shown = Vec::new();
    let pass = |executors: &mut [Executor], flow: &mut Running, now: u64, is_over: bool| {
        let mut rows: Vec<Vec<Row>> = executors.iter_mut().map(Executor::take_rows).collect();
        flow.pass(&mut rows, now, is_over)
    };
    for (at, time) in times.iter().enumerate() {
        for executor in &mut executors {
            let table = &executor.query().table;
            let mut row = vec![Value::Null; table.columns.len()];
            row[table.column("ts").expect("every table has it")] = Value::Uint(*time);
            row[table.column("pid").expect("every table has it")] = Value::Uint(at as u64 % 3);
            executor.row(row);
        }
        let latest = executors.iter().map(Executor::latest_ns).max().unwrap_or_default();
        let now = if clock_of_rows { latest } else { 2 * HOUR + at as u64 * SECOND / 100 };
        executors.iter_mut().for_each(|executor| executor.advance(now));
        shown.append(&mut pass(&mut executors, &mut flow, now, false));
    }
    executors.iter_mut().for_each(Executor::finish);
    shown.append(&mut pass(&mut executors, &mut flow, u64::MAX, true));
    let mut lost = flow.lost();
    executors.iter().for_each(|executor| lost.add(executor.lost()));
    (shown, lost)
}

fn counted(rows: &[Row]) -> u64 {
    rows.iter().map(|row| row.values[0].bits().expect("a count")).sum()
}

#[test]
fn windows_count_each_row_once_or_say_it_is_lost() {
    for (name, times) in sequences() {
        for clock_of_rows in [true, false] {
            let (rows, lost) = run("SELECT count(*) FROM forks WINDOW 1 SECOND", &times, clock_of_rows);
            assert_eq!(counted(&rows) + lost.late + lost.groups, ROWS, "{name}: {lost:?}");
            let starts: Vec<u64> = rows.iter().map(|row| row.window.expect("a window")[0]).collect();
            assert!(starts.is_sorted() && starts.windows(2).all(|two| two[0] < two[1]), "{name}: {starts:?}");
            match name {
                "steady" => assert_eq!((lost, rows.len()), (Lost::default(), 10), "{name}"),
                // A replay goes on from the latest time; the rows before it are late.
                "an hour back" => assert!(lost.late >= ROWS / 2 - 200, "{name}: {lost:?}"),
                "ahead for a moment" if !clock_of_rows => assert_eq!(lost.late, 0, "{name}"),
                _ => {}
            }
        }
    }
}

#[test]
fn windows_that_overlap_count_each_row_in_each_or_say_so() {
    for (name, times) in sequences() {
        let windows = |time: &u64| (time / (SECOND / 100) + 1).min(100);
        let expected: u64 = times.iter().map(windows).sum();
        for clock_of_rows in [true, false] {
            let sql = "SELECT count(*), pid FROM forks GROUP BY pid WINDOW 1 SECOND EVERY 10 MS";
            let (rows, lost) = run(sql, &times, clock_of_rows);
            assert_eq!(counted(&rows) + lost.late + lost.groups, expected, "{name}: {lost:?}");
            assert!(rows.iter().map(|row| row.window).is_sorted(), "{name}");
        }
    }
}

#[test]
fn sessions_end_and_count_each_row_or_say_it_is_lost() {
    for (name, times) in sequences() {
        for clock_of_rows in [true, false] {
            let sql = "SELECT count(*), pid FROM forks GROUP BY pid WINDOW SESSION 100 MS";
            let (rows, lost) = run(sql, &times, clock_of_rows);
            assert_eq!(counted(&rows) + lost.late + lost.groups + lost.rows, ROWS, "{name}: {lost:?}");
            assert!(rows.iter().all(|row| row.window.is_some_and(|[first, last]| first <= last)), "{name}");
            if name == "steady" {
                assert_eq!((lost, rows.len()), (Lost::default(), 3), "{name}");
            }
        }
    }
}

#[test]
fn joins_keep_bounded_rows_whatever_the_clock_says() {
    for (name, times) in sequences() {
        for clock_of_rows in [true, false] {
            let sql = "SELECT e.pid, x.ts - e.ts AS between FROM execs e LEFT JOIN exits x \
                       ON e.pid = x.pid AND x.ts >= e.ts WITHIN 50 MS";
            let (rows, lost) = run(sql, &times, clock_of_rows);
            let pairs = rows.iter().filter(|row| !row.values[1].is_null());
            let most = pairs.clone().filter_map(|row| row.values[1].bits()).max().unwrap_or_default();
            assert!(most <= SECOND / 20, "{name}: {most}");
            if name == "steady" {
                // A row meets the one of its time, and the one 30 ms later.
                assert_eq!((pairs.count() as u64, lost), (2 * ROWS - 3, Lost::default()), "{name}");
            }
            // Each row of the left side is shown, or counted.
            assert!(rows.len() as u64 + lost.late + lost.rows + lost.evicted >= ROWS, "{name}: {lost:?}");
        }
    }
}

/// Groups that found no room are named wherever they are: in windows, in sessions, and in queries over windows of others.
#[test]
fn groups_without_room_are_named() {
    for (sql, first) in [
        ("SELECT pid, ts, count(*) FROM forks GROUP BY pid, ts", "pid="),
        ("SELECT pid, ts, count(*) FROM forks GROUP BY pid, ts WINDOW SESSION 10 MS", "pid="),
        ("SELECT n, count(*) FROM (SELECT pid, ts AS n FROM forks) GROUP BY n", "n="),
    ] {
        let parsed = kiln_sql::parse(sql, None).unwrap_or_else(|error| panic!("{sql}: {}", error.message));
        let limits = Limits { groups: 8, ..LIMITS };
        let mut executor = Executor::of_rows(parsed.flow.scans()[0].clone(), limits);
        let mut flow = Running::new(&parsed.flow, limits, &no_engine).expect("no engine is needed");
        for at in 0..20 {
            let table = &executor.query().table;
            let mut row = vec![Value::Null; table.columns.len()];
            row[table.column("ts").expect("it has one")] = Value::Uint(2 * HOUR + at);
            row[table.column("pid").expect("it has one")] = Value::Uint(at);
            executor.row(row);
        }
        executor.finish();
        flow.pass(&mut [executor.take_rows()], u64::MAX, true);
        let said: Vec<String> = executor.refused().into_iter().chain(flow.refused()).collect();
        assert!(said.len() == 1 && said[0].contains("12 groups") && said[0].contains(first), "{sql}: {said:?}");
    }
}

/// What all queries of a statement may take together is shared out.
#[test]
fn every_query_with_groups_has_its_part_of_the_memory() {
    let of =
        |sql: &str| kiln_sql::parse(sql, None).map(|parsed| parsed.flow.groupings()).map_err(|error| error.message);
    assert_eq!(of("SELECT pid FROM forks"), Ok(0));
    assert_eq!(of("SELECT pid, count(*) FROM forks GROUP BY pid"), Ok(1));
    let inner = "SELECT pid, count(*) AS n FROM forks GROUP BY pid";
    assert_eq!(of(&format!("SELECT n, count(*) FROM ({inner}) GROUP BY n")), Ok(2));
    assert_eq!(of(&format!("SELECT n, count(*) FROM ({inner} UNION ALL {inner}) GROUP BY n")), Ok(3));
    assert_eq!(LIMITS.shared_by(3).bytes, (1 << 20) / 3);
    assert_eq!(LIMITS.shared_by(0).bytes, 1 << 20);
}
