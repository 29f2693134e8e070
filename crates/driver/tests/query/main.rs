//! Queries: every split of every query loads, and all splits give one answer.

mod commonest;
mod costs;
mod functions;
mod memory;
mod probes;
mod questions;
mod tables;
mod threads;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kiln_driver::query::budget::{Sample, plan_at, plan_within};
use kiln_driver::query::live::{self, Watch};
use kiln_driver::query::replay::{self, Recorder, Recording};
use kiln_driver::query::{Limits, Row, Session, Settings, Split, Summary, Value, plan};

/// Queries of every kind of operator.
const QUERIES: &[&str] = &[
    "SELECT pid, name, max(latency_ns) FROM syscalls GROUP BY pid, name WINDOW 1 SECOND",
    "SELECT pid, name, max(latency_ns) AS slowest FROM syscalls GROUP BY pid, name ORDER BY slowest DESC LIMIT 3 WINDOW 1sec",
    "SELECT * FROM syscalls WHERE latency_ns > 1000000 AND comm <> 'sh' LIMIT 10",
    "SELECT comm, count(*), sum(latency_ns), min(ret), max(args[1]) FROM syscalls WHERE ret < 0 OR nr IN (0, 1) GROUP BY comm",
    "SELECT count(*), avg(latency_ns), p99(latency_ns), stddev(ret), histogram(latency_ns) FROM syscalls",
    "SELECT name, count(DISTINCT pid) AS pids FROM syscalls GROUP BY 1 HAVING count(DISTINCT pid) > 1 ORDER BY pids",
    "SELECT prev_tid, next_tid, cpu FROM sched_switches WHERE NOT (prev_state = 0 AND cpu = 0) OR next_tid = 1",
    "SELECT cpu, count(*) FROM sched_switches GROUP BY cpu WINDOW 1 SECOND EVERY 100 MS",
    "SELECT bytes & 0xfff, max(service_ns - 5) FROM block_io GROUP BY bytes & 0xfff",
    "SELECT CASE WHEN signal = 9 THEN 'kill' ELSE comm END AS what, count(*) FROM signals GROUP BY what",
    "SELECT DISTINCT vec FROM softirqs WHERE duration_ns BETWEEN 100 AND 1000000",
    "SELECT irq, sum(duration_ns) FROM irqs GROUP BY irq",
    "SELECT old, new, sport FROM tcp_states WHERE family = 2",
    "SELECT count(*) FROM tcp_retransmits",
    "SELECT address, ip FROM page_faults WHERE comm LIKE 'k%' AND uid = 0",
    "SELECT target_pid, count(*) FROM wakeups WHERE prio < 100 GROUP BY target_pid",
    "SELECT * FROM tracepoint.sched.sched_process_exit",
    "SELECT comm, pid FROM execs UNION ALL SELECT comm, pid FROM exits ORDER BY comm LIMIT 3 OFFSET 1",
    "SELECT e.comm, x.exit_code FROM execs e JOIN exits x ON e.pid = x.pid AND x.ts > e.ts WITHIN 5 SECONDS",
    "SELECT n.name, count(*) FROM syscalls s LEFT JOIN errno n ON n.errno = -s.ret WHERE s.ret < 0 GROUP BY n.name",
    "SELECT u.name, p.exe, count(*) FROM syscalls s JOIN users u USING (uid) JOIN processes p USING (pid) GROUP BY 1, 2",
    "SELECT pid, count(*) FROM forks GROUP BY pid WINDOW SESSION 10 MS",
    "SELECT kstack, ustack, sum(wait_ns) FROM lock_contention GROUP BY kstack, ustack",
    "SELECT daddr, dport, count(*) FROM tcp_states WHERE dport = 443 AND saddr << '10.0.0.0/8' GROUP BY daddr, dport",
    "SELECT filename, ppid FROM execs WHERE filename LIKE '%/sh'",
    "SELECT * FROM tracepoint.sched.sched_process_exec",
    "WITH slow (who, ns) AS (SELECT comm, latency_ns FROM syscalls WHERE latency_ns > 1000) \
     SELECT who, count(*), max(ns) FROM slow WHERE ns < 1000000 GROUP BY who",
];

fn session(sql: &str) -> Option<Session> {
    match Session::new(sql) {
        Ok(session) => Some(session),
        Err(kiln_driver::Error::Unsupported(why)) => {
            println!("skipped: {why}");
            None
        }
        Err(error) => panic!("{sql}\n{error}"),
    }
}

fn may_load() -> bool {
    kiln_driver::require_kernel().map_err(|why| println!("skipped: {why}")).is_ok()
}

#[test]
fn every_split_of_every_query_is_accepted() {
    let kernel = may_load();
    for sql in QUERIES {
        let Some(session) = session(sql) else { return };
        let plan = plan::plan(&session, &Settings::default(), None).unwrap_or_else(|error| panic!("{sql}\n{error}"));
        for step in &plan.steps {
            assert_eq!(step.refused, None, "{sql}: {:?}", step.split);
        }
        assert!(plan.steps.iter().any(|step| step.split == Split::Mvsf));
        for generated in plan.accepted.iter().filter(|_| kernel) {
            if let Err(failure) = kiln_linux::load_images(&generated.object) {
                panic!("{sql}: {:?}: {failure}\n{}", generated.split, failure.messages);
            }
        }
    }
}

/// This thread, as the kernel numbers it: other tests run beside this one.
fn own_thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Makes this many system calls that nothing else in this thread makes.
fn call(times: u32) {
    for _ in 0..times {
        let _ = rustix::process::getppid();
    }
}

fn run(sql: &str, split: Option<Split>, work: impl FnOnce()) -> Option<(Vec<Row>, Summary)> {
    run_with(&Settings::default(), sql, split, work)
}

fn run_with(settings: &Settings, sql: &str, split: Option<Split>, work: impl FnOnce()) -> Option<(Vec<Row>, Summary)> {
    let session = session(sql)?;
    let plan = plan::plan(&session, settings, split).expect("it can be planned");
    let (ready, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut rows = Vec::new();
    let summary = std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let stop = || {
                ready.store(true, Ordering::SeqCst);
                over.load(Ordering::SeqCst)
            };
            let duration = Some(Duration::from_secs(30));
            let watch = Watch {
                duration,
                stop: &stop,
                interrupt: Arc::default(),
                limits: Limits::default(),
                measure: false,
                max_overhead: None,
                status: None,
            };
            let sink = &mut |mut more: Vec<Row>| {
                rows.append(&mut more);
                true
            };
            live::run(&session, plan, &watch, &mut |_, _| {}, sink)
        });
        while !ready.load(Ordering::SeqCst) && !looking.is_finished() {
            // Not a sleep, which a query may count.
            std::thread::park_timeout(Duration::from_millis(1));
        }
        work();
        over.store(true, Ordering::SeqCst);
        looking.join().expect("it does not panic")
    });
    let summary = summary.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    assert_eq!(summary.lost_in_all(), 0);
    Some((rows, summary))
}

#[test]
fn all_splits_count_the_same_system_calls() {
    if !may_load() {
        return;
    }
    let sql = format!(
        "SELECT name, count(*), min(ret), max(ret) FROM syscalls WHERE tid = {} AND name = 'getppid' GROUP BY name",
        own_thread()
    );
    for split in [Split::Mvsf, Split::Columns, Split::Filter, Split::Pair, Split::Aggregate] {
        let Some((rows, _)) = run(&sql, Some(split), || call(1000)) else { return };
        let parent = i64::from(std::os::unix::process::parent_id());
        let expected = vec![Value::text("getppid"), Value::Uint(1000), Value::Int(parent), Value::Int(parent)];
        assert_eq!(rows.iter().map(|row| row.values.clone()).collect::<Vec<_>>(), [expected], "{split:?}");
    }
}

#[test]
fn a_group_on_two_processors_has_one_sum() {
    if !may_load() {
        return;
    }
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(2);
    let sql = format!(
        "SELECT count(*), sum(nr), sum(0 - nr), sum(latency_ns) > 0 FROM syscalls WHERE tid = {} AND name = 'getppid'",
        own_thread()
    );
    let work = || {
        for processor in 0..processors {
            let mut own = rustix::thread::CpuSet::new();
            own.set(processor);
            // A processor that the test may not use has no calls.
            let _ = rustix::thread::sched_setaffinity(None, &own);
            call(100);
        }
    };
    let calls = 100 * processors as i64;
    let number = 110;
    tables::in_every_split(&sql, &work, &|split, rows| {
        let sum = calls * number;
        let expected = [calls.to_string(), sum.to_string(), (-sum).to_string(), "true".to_owned()];
        assert_eq!(rows, [expected], "{split:?}");
    });
}

/// Queries of docs/reference/query-one-liners.md.
fn one_liners() -> Vec<String> {
    let text = include_str!("../../../../docs/reference/query-one-liners.md");
    let blocks = text.split("```sql\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap_or_default().trim().to_owned()).collect()
}

#[test]
fn one_liners_run() {
    let queries = one_liners();
    assert!(queries.len() >= 30, "{}", queries.len());
    let kernel = may_load();
    for sql in queries {
        let Some(session) = session(&sql) else { return };
        let plan = match plan::plan(&session, &Settings::default(), None) {
            Ok(plan) => plan,
            Err(kiln_driver::Error::Unsupported(why)) if why.contains("which this kernel does not have") => {
                println!("skipped: {sql}: {why}");
                continue;
            }
            Err(error) => panic!("{sql}\n{error}"),
        };
        for step in &plan.steps {
            assert_eq!(step.refused, None, "{sql}: {:?}", step.split);
        }
        let cheapest = plan.accepted.last().map(|generated| generated.split);
        if kernel {
            let duration = Some(Duration::from_millis(1));
            let watch = Watch {
                duration,
                stop: &|| false,
                interrupt: Arc::default(),
                limits: Limits::default(),
                measure: false,
                max_overhead: None,
                status: None,
            };
            let summary = match live::run(&session, plan, &watch, &mut |_, _| {}, &mut |_| true) {
                Err(error) if error.to_string().contains("tracefs") || sql.contains("FROM uprobe.") => {
                    println!("skipped: {sql}: {error}");
                    continue;
                }
                other => other.unwrap_or_else(|error| panic!("{sql}\n{error}")),
            };
            assert_eq!(summary.split, cheapest, "{sql}");
        }
    }
}

#[test]
fn processes_files_and_waits_are_seen() {
    if !may_load() {
        return;
    }
    let missing = "/proc/self/no-such-file-of-kilns";
    let own = own_thread();
    let open = format!("SELECT path, ret, count(*) FROM file_opens WHERE tid = {own} AND ret < 0 GROUP BY path, ret");
    for split in [Split::Mvsf, Split::Pair] {
        let Some((rows, _)) = run(&open, Some(split), || drop(std::fs::File::open(missing))) else { return };
        let expected = vec![Value::text(missing), Value::Int(-2), Value::Uint(1)];
        assert!(rows.iter().any(|row| row.values == expected), "{split:?}: {rows:?}");
    }
    let child = || {
        let status = std::process::Command::new("/bin/sh").args(["-c", "exit 3"]).status().expect("a shell");
        assert_eq!(status.code(), Some(3));
    };
    let parent = std::process::id();
    let ends = format!("SELECT exit_code, lifetime_ns FROM exits WHERE ppid = {parent} AND exit_code = 768");
    let Some((rows, _)) = run(&ends, None, child) else { return };
    let lifetime = rows.first().and_then(|row| row.values[1].bits());
    assert!(lifetime.is_some_and(|lifetime| (100_000..30_000_000_000).contains(&lifetime)), "{rows:?}");
    let Some((rows, _)) = run(&format!("SELECT comm FROM execs WHERE ppid = {parent}"), None, child) else { return };
    assert!(rows.iter().any(|row| row.values[0] == Value::text("sh")), "{rows:?}");
    let sleeps = || (0..20).for_each(|_| std::thread::sleep(Duration::from_millis(2)));
    let waits = format!("SELECT count(*), max(wait_ns) FROM runq WHERE tid = {}", own_thread());
    for split in [Split::Mvsf, Split::Aggregate] {
        let Some((rows, _)) = run(&waits, Some(split), sleeps) else { return };
        let [count, longest] = [0, 1].map(|at| rows[0].values[at].bits().unwrap_or_default());
        assert!((15..200).contains(&count) && longest > 0 && longest < 10_000_000_000, "{split:?}: {rows:?}");
    }
}

#[test]
fn a_query_ends_where_it_costs_more_than_allowed() {
    if !may_load() {
        return;
    }
    let Some(session) = session("SELECT count(*) FROM syscalls") else { return };
    for (allowed, ends) in [(1e-6, true), (1e6, false)] {
        let plan = plan::plan(&session, &Settings::default(), None).expect("it can be planned");
        let stop = || {
            call(100);
            false
        };
        let duration = Some(Duration::from_millis(1200));
        let limits = Limits::default();
        let watch = Watch {
            duration,
            stop: &stop,
            interrupt: Arc::default(),
            limits,
            measure: false,
            max_overhead: Some(allowed),
            status: None,
        };
        let summary = live::run(&session, plan, &watch, &mut |_, _| {}, &mut |_| true).expect("it runs");
        assert_eq!(summary.over_budget.is_some(), ends, "{summary:?}");
        assert!(summary.program_ns > Some(0), "{summary:?}");
    }
}

#[test]
fn a_query_that_cannot_fit_is_refused_or_sampled() {
    if !may_load() {
        return;
    }
    let sql = format!("SELECT count(*), min(ret) FROM syscalls WHERE tid = {} AND name = 'getppid'", own_thread());
    let Some(session) = session(&sql) else { return };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Events, while they are counted; not for ever, should one of the claims fail.
        scope.spawn(|| {
            let begun = std::time::Instant::now();
            while !over.load(Ordering::SeqCst) && begun.elapsed() < Duration::from_secs(20) {
                call(1000);
            }
        });
        let planned = |allowed, sample| plan_within(&session, &Settings::default(), None, Some(allowed), sample);
        let refused = planned(1e-7, Sample::All).map(|_| ()).expect_err("no plan is that cheap").to_string();
        assert!(refused.contains("was not started") && refused.contains("sys_enter"), "{refused}");
        assert!(planned(1e-7, Sample::Auto).is_err());
        over.store(true, Ordering::SeqCst);
    });
    let rates = [1e6, 1e6];
    let planned = |allowed, sample| plan_at(&session, &Settings::default(), None, allowed, sample, &rates);
    let (all, forecast) = planned(100.0, Sample::Auto).expect("it fits");
    assert_eq!(all.accepted[0].sample, 1);
    let between = (forecast.parts.least + forecast.parts.most) / 2.0;
    let (part, sampled) = planned(between, Sample::Auto).expect("a sample fits");
    assert!(part.accepted[0].sample > 1 && sampled.parts.most <= between, "{forecast:?} {sampled:?}");
    // Without a sample it is tried: it may be that the conditions hold rarely.
    assert!(planned(between, Sample::All).is_ok() && planned(0.9 * forecast.parts.least, Sample::All).is_err());
    let (plan, _) = plan_within(&session, &Settings::default(), None, None, Sample::OneIn(8)).expect("it is planned");
    let mut counts = Vec::new();
    let over = AtomicBool::new(false);
    let stop = || {
        let first = !over.swap(true, Ordering::SeqCst);
        if first {
            call(40_000);
        }
        !first
    };
    let limits = Limits::default();
    let watch = Watch {
        duration: None,
        stop: &stop,
        interrupt: Arc::default(),
        limits,
        measure: false,
        max_overhead: None,
        status: None,
    };
    let summary = live::run(&session, plan, &watch, &mut |_, _| {}, &mut |rows| {
        counts.extend(rows.iter().filter_map(|row| row.values[0].bits()));
        true
    });
    assert_eq!(summary.expect("it runs").sample, 8);
    // 5,000 of 40,000 with a deviation of 66: a tenth is seven deviations.
    assert!(counts.iter().all(|count| (36_000..44_000).contains(count) && count % 8 == 0), "{counts:?}");
    assert_eq!(counts.len(), 1);
}

#[test]
fn subqueries_are_merged_or_run_in_stages() {
    if !may_load() {
        return;
    }
    let own = own_thread();
    let calls = format!("SELECT ret AS parent, nr FROM syscalls WHERE tid = {own} AND name = 'getppid'");
    let merged = format!("SELECT count(*), max(parent) FROM ({calls}) WHERE parent > 0");
    let Some(session) = session(&merged) else { return };
    assert!(session.stages().is_empty() && Split::of(session.query()).contains(&Split::Aggregate));
    let parent = Value::Int(i64::from(std::os::unix::process::parent_id()));
    let Some((rows, _)) = run(&merged, None, || call(70)) else { return };
    assert_eq!(rows[0].values, [Value::Uint(70), parent]);

    let counts = format!(
        "SELECT nr, count(*) AS n FROM syscalls WHERE tid = {own} AND name = 'getppid' GROUP BY nr WINDOW 100 MS"
    );
    let outer = format!("SELECT sum(n) AS all_calls, count(*) AS groups FROM ({counts}) AS counts");
    let Some((rows, _)) = run(&outer, None, || call(90)) else { return };
    let total: u64 = rows.iter().filter_map(|row| row.values[0].bits()).sum();
    assert_eq!(total, 90, "{rows:?}");
    assert!(rows.iter().all(|row| row.window.is_some() && row.values[1] == Value::Uint(1)), "{rows:?}");
}

#[test]
fn all_tables_of_a_query_see_the_same_events() {
    if !may_load() {
        return;
    }
    let (is_over, (tell, told)) = (AtomicBool::new(false), std::sync::mpsc::channel());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            tell.send(own_thread()).expect("it is awaited");
            while !is_over.load(Ordering::Relaxed) {
                call(1);
            }
        });
        let calls = format!("FROM syscalls WHERE tid = {} AND name = 'getppid'", told.recv().expect("a thread"));
        let sql = format!("SELECT count(*) AS n, (SELECT count(*) {calls}) AS t {calls}");
        for split in [Split::Mvsf, Split::Pair, Split::Aggregate] {
            // The calls began before the query, and go on behind it.
            let Some((rows, _)) = run(&sql, Some(split), || std::thread::sleep(Duration::from_millis(60))) else {
                break;
            };
            let [n, t] = [0, 1].map(|at| rows[0].values[at].bits().expect("a count"));
            assert!(n > 0 && n.abs_diff(t) <= 2, "{split:?}: {n}, {t}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn windows_hold_all_rows_between_them() {
    if !may_load() {
        return;
    }
    let sql = format!("SELECT count(*) FROM syscalls WHERE tid = {} AND name = 'getppid' WINDOW 100 MS", own_thread());
    for split in [Split::Columns, Split::Aggregate] {
        let work = || {
            for _ in 0..10 {
                call(50);
                std::thread::sleep(Duration::from_millis(40));
            }
        };
        let Some((rows, _)) = run(&sql, Some(split), work) else { return };
        let counts = rows.iter().map(|row| row.values[0].bits().expect("a count")).collect::<Vec<_>>();
        assert_eq!(counts.iter().sum::<u64>(), 500, "{split:?}");
        assert!(counts.len() >= 4, "{split:?}: {counts:?}");
        let starts: Vec<_> = rows.iter().map(|row| row.window.expect("a window")[0]).collect();
        assert!(starts.is_sorted() && starts.windows(2).all(|pair| pair[0] != pair[1]), "{split:?}: {starts:?}");
    }
}

#[test]
fn a_recording_answers_what_was_seen_live() {
    if !may_load() {
        return;
    }
    let all = "SELECT * FROM syscalls";
    let Some(session) = session(all) else { return };
    let plan = plan::plan(&session, &Settings::default(), Some(Split::Mvsf)).expect("it can be planned");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("calls.kev");
    let file = std::fs::File::create(&path).expect("a file");
    let mut recorder = Recorder::new(file, session.query(), &plan.accepted[0].records).expect("it begins");
    let over = AtomicBool::new(false);
    let stop = || {
        // The programs are attached by now.
        if !over.swap(true, Ordering::SeqCst) {
            call(300);
            return false;
        }
        true
    };
    let watch = Watch {
        duration: None,
        stop: &stop,
        interrupt: Arc::default(),
        limits: Limits::default(),
        measure: false,
        max_overhead: None,
        status: None,
    };
    let tap = &mut |_: usize, record: &[u8]| recorder.add(record).expect("it is written");
    let mut live_rows = 0;
    live::run(&session, plan, &watch, tap, &mut |rows| {
        live_rows += rows.len();
        true
    })
    .expect("it runs");
    recorder.finish().expect("it ends");

    let asked = |sql: &str| {
        let session = Session::new(sql).expect("it is a query");
        let mut rows = Vec::new();
        let recording = Recording::open(&session, &path)?;
        replay::run(&session, recording, Limits::default(), &mut |mut more| {
            rows.append(&mut more);
            true
        })
        .map(|_| rows)
    };
    let count = |sql: &str| asked(sql).expect("it is a recording")[0].values[0].clone();
    assert_eq!(count("SELECT count(*) FROM syscalls"), Value::Uint(live_rows as u64));
    let own = own_thread();
    let calls = count(&format!("SELECT count(*) FROM syscalls WHERE name = 'getppid' AND tid = {own}"));
    assert_eq!(calls, Value::Uint(300));
    let wrong = asked("SELECT count(*) FROM signals").expect_err("it is of another table");
    assert!(wrong.to_string().contains("it is of table `syscalls`"), "{wrong}");
    std::fs::write(&path, "{\"format\":\"kiln-events-1\"}\n").expect("a file");
    assert!(asked(all).is_err());
}

#[test]
fn what_is_wrong_with_a_query_is_said_where_it_is() {
    for (sql, expected) in [
        ("SELECT latencyns FROM syscalls", "did you mean `latency_ns`?"),
        ("SELECT e.pid FROM execs e JOIN exits x ON e.pid = x.pid", "WITHIN 5 SECONDS"),
        ("SELECT e.pid FROM execs e JOIN exits x ON e.pid > x.pid WITHIN 1 S", "ON e.pid = x.pid"),
        ("SELECT pid FROM execs e JOIN exits x ON e.pid = x.pid WITHIN 1 S", "e.pid or x.pid"),
        ("SELECT y.pid FROM execs e JOIN exits x ON e.pid = x.pid WITHIN 1 S", "its tables are `e` and `x`"),
        ("SELECT e.pid FROM execs e RIGHT JOIN exits x USING (pid) WITHIN 1 S", "need ON"),
        ("SELECT s.pid FROM syscalls s FULL JOIN errno n ON n.errno = s.ret", "only JOIN and LEFT JOIN go with lookup"),
        ("SELECT pid FROM execs WITHIN 1 S", "is of no JOIN"),
        ("SELECT pid FROM tcp_states WHERE daddr << '10.0.0/8'", "`10.0.0/8` is no network"),
        ("SELECT pid FROM tcp_states WHERE cidr(daddr_be, '10.0.0.0/8')", "an address is text, and this is u64"),
        ("SELECT pid FROM tcp_states WHERE cidr(saddr, daddr)", "a network is a constant"),
        ("SELECT * FROM uprobe.'/lib/libc.so.6'", "is no function of a file"),
        ("SELECT * FROM syscalls s JOIN users u ON s.uid > u.uid", "has to be equal"),
        ("SELECT * FROM execs JOIN processes p ON p.comm = execs.comm", "processes are looked up by `pid`"),
        ("SELECT pid FROM execs UNION ALL SELECT pid, comm FROM exits", "have 1 and 2 columns"),
        ("SELECT pid FROM execs UNION ALL SELECT comm FROM exits", "`pid` is u64 on one side of the UNION and text"),
        ("SELECT count(*) FROM execs UNION ALL SELECT count(*) FROM exits WINDOW 1 S", "(SELECT ... WINDOW 1 S) UNION"),
        ("SELECT count(*) FROM forks WINDOW SESSION 1 S EVERY 1 S", "leave out EVERY"),
        ("SELECT count(*) AS n FROM forks ORDER BY n WINDOW SESSION 1 S", "put the query into a subquery"),
        ("SELECT top_k(comm, 0) FROM forks", "top_k(comm, 5)"),
        ("SELECT pid, uid FROM forks ORDER BY 3", "there is no column 3: the result has 2"),
        ("SELECT pid, row_number() OVER (ORDER BY pid) FROM processes ORDER BY 9", "there is no column 9"),
        ("SELECT pid, count(*) FROM forks GROUP BY 0", "there is no column 0"),
        ("SELECT 18446744073709551616 AS x FROM errno", "has more than 64 bits"),
        ("SELECT -9223372036854775809, row_number() OVER (ORDER BY errno) FROM errno", "has more than 64 bits"),
        ("SELECT pid FROM forks LIMIT 3 OFFSET -1", "OFFSET takes a whole number"),
        ("SELECT pid FROM syscals", "did you mean `syscalls`?"),
        ("SELECT pid, count(*) FROM syscalls", "`pid` differs between the rows of a group"),
        ("SELECT pid FROM syscalls WHERE count(*) > 1", "conditions on aggregates go into HAVING"),
        ("SELECT pid FROM syscalls WHERE comm = 3", "`=` does not go between text and u64"),
        ("SELECT count(*) FROM syscalls WINDOW 1 parsec", "a unit of time is expected"),
        ("SELECT pid FROM", "Expected"),
        ("SELECT maxx(pid) FROM syscalls", "did you mean `max`?"),
        ("DELETE FROM syscalls", "only SELECT"),
        ("SELECT x FROM (SELECT pid FROM syscalls) AS s", "table `s` has no column `x`"),
        ("WITH s AS (SELECT pid FROM forks) SELECT x FROM s", "table `s` has no column `x`"),
        ("WITH s AS (SELECT pid FROM forks), s AS (SELECT pid FROM execs) SELECT pid FROM s", "two queries `s`"),
        ("WITH s (a, b) AS (SELECT pid FROM forks) SELECT a FROM s", "names 2 columns of a query that has 1"),
        ("WITH RECURSIVE s AS (SELECT pid FROM s) SELECT pid FROM s", "WITH RECURSIVE"),
        ("WITH s AS (SELECT pid FROM t), t AS (SELECT pid FROM forks) SELECT pid FROM s", "there is no table `t`"),
        ("SELECT a FROM forks f (a)", "keep their names"),
        ("SELECT count(*) FROM (SELECT pid FROM syscalls LIMIT 3) WINDOW 1 s", "do not say when they happened"),
        ("SELECT pid FROM syscalls WHERE pid = (1 WINDOW 1 s)", "this WINDOW is of no SELECT"),
        ("SELECT count(*) FROM syscalls WINDOW 1 s WINDOW 2 s", "a query has one WINDOW"),
    ] {
        match Session::new(sql).map(drop) {
            Err(kiln_driver::Error::InvalidQuery(text)) => assert!(text.contains(expected), "{sql}\n{text}"),
            Err(kiln_driver::Error::Unsupported(why)) => return println!("skipped: {why}"),
            other => panic!("{sql}: {other:?}"),
        }
    }
}
