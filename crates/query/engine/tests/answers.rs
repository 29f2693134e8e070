//! What SQLite answers of rows that are given: each query with the rows that it must have.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kiln_engine::Sqlite;
use kiln_plan::execute::engine::Engine as _;
use kiln_plan::execute::flow::Running;
use kiln_plan::execute::{Executor, Limits};
use kiln_plan::flow::{EngineQuery, When};
use kiln_plan::programs::Known;
use kiln_plan::{DataType, Row, Value, lookup};
use kiln_sql::Parsed;

const SECOND: u64 = 1_000_000_000;

fn parse(sql: &str) -> Result<Parsed, kiln_sql::Error> {
    kiln_sql::parse_for_engine(sql, Known::default(), &lookup::constant(), kiln_engine::check_pattern)
}

fn parsed(sql: &str) -> Parsed {
    parse(sql).unwrap_or_else(|error| panic!("{sql}\n{}", error.shown(sql)))
}

/// Six system calls: two threads' names, with errors, one of them in the next second.
fn calls() -> Vec<Vec<(&'static str, Value)>> {
    let call = |at: u64, pid: u64, comm: &str, nr: i64, ret: i64, latency: u64, arg: u64| {
        vec![
            ("ts", Value::Uint(at)),
            ("end_ts", Value::Uint(at + latency)),
            ("latency_ns", Value::Uint(latency)),
            ("pid", Value::Uint(pid)),
            ("comm", Value::text(comm)),
            ("nr", Value::Int(nr)),
            ("ret", Value::Int(ret)),
            ("arg0", Value::Uint(arg)),
        ]
    };
    vec![
        call(SECOND, 7, "nginx", 0, 5, 1_500, 3),
        call(SECOND + 10, 7, "nginx", 1, -2, 2_500, u64::MAX),
        call(SECOND + 20, 8, "sh", 0, 0, 40_000, 1 << 63),
        call(SECOND + 30, 9, "a_b", 0, -11, 7, 4),
        call(SECOND + 40, 9, "a%b", 1, 1, 900, 5),
        call(2 * SECOND + 40, 7, "nginx", 0, 9, 3_000, 6),
    ]
}

/// The rows of a query's answer, with the windows that they are of.
fn answered(sql: &str) -> Result<Vec<Row>, String> {
    answered_within(sql, Duration::from_secs(1))
}

fn answered_within(sql: &str, most_time: Duration) -> Result<Vec<Row>, String> {
    let parsed = parsed(sql);
    let limits = Limits { late_ns: 0, ..Limits::default() };
    let scans = parsed.flow.scans();
    let mut executors: Vec<Executor> = scans.iter().map(|scan| Executor::of_rows((*scan).clone(), limits)).collect();
    let mut flow = Running::new(&parsed.flow, limits, &|query| Ok(Box::new(Sqlite::new(query)?.within(most_time))))?;
    let mut all = Vec::new();
    for call in calls() {
        for executor in &mut executors {
            let table = executor.query().table.clone();
            let mut row = vec![Value::Null; table.columns.len()];
            for (name, value) in &call {
                if let Some(column) = table.column(name) {
                    row[column] = value.clone();
                }
            }
            executor.row(row);
        }
        let now = executors.iter().map(Executor::latest_ns).max().unwrap_or_default();
        executors.iter_mut().for_each(|executor| executor.advance(now));
        let mut rows: Vec<Vec<Row>> = executors.iter_mut().map(Executor::take_rows).collect();
        all.append(&mut flow.pass(&mut rows, now, false));
    }
    executors.iter_mut().for_each(Executor::finish);
    let mut rows: Vec<Vec<Row>> = executors.iter_mut().map(Executor::take_rows).collect();
    all.append(&mut flow.pass(&mut rows, u64::MAX, true));
    assert_eq!(flow.lost(), Default::default(), "{sql}");
    flow.failure().map_or(Ok(all), |why| Err(why.to_owned()))
}

/// An answer as text: a row after the other.
fn text(sql: &str) -> String {
    let rows = answered(sql).unwrap_or_else(|why| panic!("{sql}\n{why}"));
    let row = |row: Row| row.values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    rows.into_iter().map(row).collect::<Vec<_>>().join("; ")
}

fn engine(sql: &str) -> EngineQuery {
    parsed(sql).flow.engine().unwrap_or_else(|| panic!("{sql} is Kiln's own")).clone()
}

#[test]
fn what_is_short_for_other_clauses_has_their_answers() {
    for (sql, rows) in [
        ("SELECT TOP 1 comm, count(*) FROM syscalls GROUP BY comm ORDER BY 2 DESC", "nginx 3"),
        (
            "SELECT comm, nr, count(*) FROM syscalls WHERE pid < 9 GROUP BY ROLLUP (comm, nr) ORDER BY 1 NULLS LAST, 2 NULLS LAST",
            "nginx 0 2; nginx 1 1; nginx null 3; sh 0 1; sh null 1; null null 4",
        ),
        (
            "SELECT nr, count(DISTINCT comm) AS n FROM syscalls GROUP BY GROUPING SETS ((nr), ()) HAVING n > 0 ORDER BY nr NULLS LAST",
            "0 3; 1 2; null 4",
        ),
        (
            "SELECT DISTINCT ON (comm) comm, ret, latency_ns FROM syscalls ORDER BY comm, latency_ns DESC",
            "a%b 1 900; a_b -11 7; nginx 9 3000; sh 0 40000",
        ),
        (
            "SELECT comm, nr, sum(latency_ns) AS total FROM syscalls GROUP BY comm, nr \
             QUALIFY row_number() OVER (PARTITION BY comm ORDER BY total DESC) = 1 ORDER BY comm",
            "a%b 1 900; a_b 0 7; nginx 0 4500; sh 0 40000",
        ),
        (
            "SELECT * EXCLUDE (pid) FROM (SELECT pid, max(comm) AS c FROM syscalls GROUP BY pid) ORDER BY c || ''",
            "a_b; nginx; sh",
        ),
    ] {
        assert_eq!(text(sql), rows, "{sql}");
    }
}

#[test]
fn aggregates_of_other_engines_have_their_values() {
    for (aggregate, rows) in [
        ("arg_max(ret, latency_ns)", "1; -11; 9; 0"),
        ("min_by(ret, latency_ns)", "1; -11; 5; 0"),
        ("max_by(ret, nullif(latency_ns, 3000))", "1; -11; -2; 0"),
        ("array_agg(ret ORDER BY ret)", "{1}; {-11}; {-2,5,9}; {0}"),
        // Of the rows of a group, though they differ in nothing but the key.
        ("string_agg(comm, '+')", "a%b; a_b; nginx+nginx+nginx; sh"),
        ("array_agg(DISTINCT nr)", "{1}; {0}; {0,1}; {0}"),
        ("array_agg(nullif(comm || ', ', 'sh, '))", r#"{"a%b, "}; {"a_b, "}; {"nginx, ","nginx, ","nginx, "}; {NULL}"#),
        ("mode() WITHIN GROUP (ORDER BY nr)", "1; 0; 0; 0"),
        ("mode() WITHIN GROUP (ORDER BY ret)", "1; -11; -2; 0"),
        ("round(corr(ret, latency_ns), 3)", "null; null; 0.176; null"),
    ] {
        let sql = format!("SELECT {aggregate} FROM syscalls GROUP BY comm ORDER BY comm");
        assert_eq!(text(&sql), rows, "{sql}");
    }
    let error = parse("SELECT arg_max(ret) FROM syscalls").unwrap_err();
    assert!(error.message.contains("2 operands"), "{error}");
    let error = parse("SELECT array_agg(ret) OVER () FROM syscalls").unwrap_err();
    assert!(error.message.contains("does not go with OVER"), "{error}");
}

#[test]
fn expressions_have_the_values_of_their_rows() {
    for (expression, first) in [
        ("round(latency_ns / 1000.0, 1)", "1.500"),
        ("round(latency_ns / 1000.0)", "2.000"),
        ("floor(latency_ns / 1000.0)", "1.000"),
        ("ceil(latency_ns / 1000.0)", "2.000"),
        ("CAST(pid AS text) || '-' || comm", "7-nginx"),
        ("pid::text", "7"),
        ("'12'::int + 1", "13"),
        ("'x'::int", "null"),
        ("CAST(300 AS tinyint)", "null"),
        ("CAST(-1 AS u64)", "null"),
        ("CAST(1.9 AS bigint)", "1"),
        ("substr(comm, 2, 3)", "gin"),
        ("substring(comm from 2 for 2)", "gi"),
        ("upper(left(comm, 2)) || right(comm, 1)", "NGx"),
        ("nullif(pid, 7)", "null"),
        ("concat(comm, NULL, pid)", "nginx7"),
        ("concat_ws('/', comm, pid)", "nginx/7"),
        ("comm ~ '^ng.nx$'", "true"),
        ("comm !~* 'NGINX'", "false"),
        ("comm GLOB 'n[a-g]*'", "true"),
        ("comm NOT GLOB 'n?nx'", "true"),
        ("comm SIMILAR TO '(ng|php)%'", "true"),
        ("comm NOT SIMILAR TO 'n%'", "false"),
        ("width_bucket(latency_ns, 1000, 3000, 4)", "2"),
        ("width_bucket(latency_ns, 1600, 3000, 4)", "0"),
        ("width_bucket(latency_ns, 0, 1500, 4)", "5"),
        ("time_bucket('2 us', end_ts) + nullif(0, 1)", "1000000000"),
        ("regexp_replace(comm, '(n)(g)', '\\2\\1')", "gninx"),
        ("regexp_like(comm, 'in')", "true"),
        ("ret IS DISTINCT FROM 5", "false"),
        ("NULL IS NOT DISTINCT FROM comm", "false"),
        ("comm LIKE 'ng\\%' ESCAPE '\\'", "false"),
        ("date_trunc('second', ts)", "1000000000"),
        ("extract(second from ts)", "1"),
        ("INTERVAL '1 ms' + nullif(1, 0)", "1000001"),
        ("iif(ret > 0, 'good', 'bad')", "good"),
        ("greatest(nullif(1, 2), latency_ns)", "1500"),
        ("position('g' IN comm)", "2"),
        ("trim(BOTH 'nx' FROM comm)", "gi"),
        ("split_part('a,b,c', ',', -1) || lpad('7', 3, '0')", "c007"),
        ("to_hex(nullif(255, 0))", "ff"),
        ("(SELECT 1 + nullif(1, 0))", "2"),
        ("pid IN (SELECT nullif(7, 0))", "true"),
        ("comm || 'a''b'", "nginxa'b"),
        ("CASE nullif(pid, 0) WHEN 7 THEN 'seven' ELSE 'other' END", "seven"),
        ("nullif(true, false) IS TRUE", "true"),
        ("arg0 <=> 3", "true"),
        ("contains(comm, 'gin') AND ends_with(comm, 'x') AND NOT contains(comm, 'z')", "true"),
        ("nullif(ENOENT, 0)", "2"),
        ("nullif(NULL, 1) | 1", "null"),
        ("ifnull(NULL, nullif(NULL, 1)) + 1", "null"),
        ("round(NULL) * 2", "null"),
        ("iif(true, NULL, NULL) - least(NULL, NULL)", "null"),
        ("~nullif(pid, 0) & 15", "8"),
        ("~(~nullif(pid, 0))", "7"),
    ] {
        let sql = format!("SELECT {expression} FROM syscalls LIMIT 1");
        assert_eq!(text(&sql), first, "{sql}");
        let engine = engine(&sql);
        assert_eq!(engine.when, When::Rows, "{sql}: rows are shown as they come: {}", engine.sql);
    }
}

#[test]
fn integers_are_exact_or_null() {
    for (expression, all) in [
        ("nullif(arg0, 0) + 0", "3; 18446744073709551615; 9223372036854775808; 4; 5; 6"),
        ("nullif(arg0, 0) + 1", "4; null; 9223372036854775809; 5; 6; 7"),
        ("nullif(arg0, 0) * 2", "6; null; null; 8; 10; 12"),
        ("-nullif(arg0, 0)", "-3; null; -9223372036854775808; -4; -5; -6"),
        ("nullif(arg0, 18446744073709551615)", "3; null; 9223372036854775808; 4; 5; 6"),
        ("nullif(arg0, 0) > 9223372036854775807", "false; true; true; false; false; false"),
        ("nullif(arg0, 0) > 1e19", "false; true; false; false; false; false"),
        ("nullif(arg0, 0) < 1e20", "true; true; true; true; true; true"),
        ("nullif(arg0, 0) = 4.0", "false; false; false; true; false; false"),
        ("nullif(arg0, 0) BETWEEN 3.5 AND 1e300", "false; true; true; true; true; true"),
        ("nullif(arg0, 0) <> NULL", "null; null; null; null; null; null"),
        ("nullif(arg0, 0) / 0", "null; null; null; null; null; null"),
        ("nullif(arg0, 0) & 18446744073709551614", "2; 18446744073709551614; 9223372036854775808; 4; 4; 6"),
        ("nullif(-9223372036854775807, 0) - 2", "null; null; null; null; null; null"),
    ] {
        assert_eq!(text(&format!("SELECT {expression} FROM syscalls")), all, "{expression}");
    }
    let sum = |of: &str, more: &str| text(&format!("SELECT sum({of}){more} FROM syscalls WHERE nullif(1, 0) = 1"));
    assert_eq!(sum("arg0", ""), "null", "the sum has more than 64 bits");
    assert_eq!(sum("arg0", " FILTER (WHERE comm ~ 'a.b' OR pid = 8)"), "9223372036854775817");
    assert_eq!(text("SELECT max(arg0), min(arg0) FROM syscalls WHERE comm ~ '.'"), "18446744073709551615 3");
    let order = "SELECT arg0 FROM syscalls ORDER BY nullif(arg0, 4) DESC NULLS LAST LIMIT 3";
    assert_eq!(text(order), "18446744073709551615; 9223372036854775808; 6");
    let wrong = parse("SELECT -9223372036854775807 - 2 FROM syscalls").expect_err("it has more than 64 bits");
    assert!(wrong.message.contains("more than 64 bits") && wrong.at.is_some(), "{wrong:?}");
}

#[test]
fn clauses_that_plans_do_not_have() {
    for (sql, all) in [
        (
            "SELECT comm, count(*) FILTER (WHERE ret < 0) AS bad, round(avg(latency_ns), 1) FROM syscalls GROUP BY comm \
             HAVING count(*) > 1 ORDER BY bad DESC NULLS LAST",
            "nginx 1 2333.300",
        ),
        ("SELECT pid, rank() OVER (ORDER BY latency_ns DESC) AS r FROM syscalls ORDER BY r LIMIT 2", "8 1; 7 2"),
        (
            "SELECT pid, count(*) AS n, sum(count(*)) OVER () FROM syscalls GROUP BY pid ORDER BY n DESC, pid LIMIT 2",
            "7 3 6; 9 2 6",
        ),
        (
            "SELECT pid, sum(latency_ns) OVER (PARTITION BY pid ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) \
             FROM syscalls WHERE pid = 7",
            "7 1500; 7 4000; 7 5500",
        ),
        ("SELECT lag(pid, 1, 0) OVER (ORDER BY ts) FROM syscalls WHERE pid > 7", "0; 8; 9"),
        (
            "SELECT pid, count(*) AS n FROM syscalls GROUP BY pid HAVING n > (SELECT avg(latency_ns) / 5000 FROM syscalls) ORDER BY pid",
            "7 3; 9 2",
        ),
        (
            "WITH c AS (SELECT pid, count(*) AS n FROM syscalls GROUP BY pid) \
             SELECT pid FROM c WHERE n > (SELECT avg(n) FROM c)",
            "7",
        ),
        (
            "SELECT DISTINCT s.pid FROM syscalls s WHERE EXISTS (SELECT 1 FROM syscalls x WHERE x.pid = s.pid AND x.ret < 0) \
             ORDER BY s.pid",
            "7; 9",
        ),
        ("SELECT pid FROM syscalls WHERE ret < 0 EXCEPT SELECT pid FROM syscalls WHERE pid = 7", "9"),
        ("SELECT pid FROM syscalls WHERE ret < 0 INTERSECT SELECT pid FROM syscalls WHERE pid > 7", "9"),
        (
            "SELECT name, message FROM errno WHERE errno < 3 ORDER BY name",
            "ENOENT No such file or directory; EPERM Operation not permitted",
        ),
        ("SELECT count(*) FROM errno WHERE name ~ '^EN'", "36"),
        ("SELECT ~errno FROM errno LIMIT 1", "-2"),
        (
            "SELECT s.pid, n.name FROM syscalls s JOIN errno n ON n.errno = -s.ret WHERE comm NOT LIKE 'n%' AND substr(comm, 1, 1) = 'a'",
            "9 EAGAIN",
        ),
        ("SELECT string_agg(comm, '+') FROM (SELECT DISTINCT comm FROM syscalls WHERE pid < 9)", "nginx+sh"),
        (
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY latency_ns) FROM syscalls WHERE pid = 9 AND comm ~ '_'",
            "7",
        ),
        ("SELECT comm, round(avg(latency_ns)) FROM syscalls GROUP BY comm ORDER BY 2 DESC LIMIT 1", "sh 40000.000"),
        ("SELECT lower(comm) || '!' AS c, count(*) FROM syscalls GROUP BY c ORDER BY c LIMIT 1", "a%b! 1"),
        ("SELECT count(DISTINCT substr(comm, 1, 1)) FROM syscalls", "3"),
        ("SELECT string_agg(DISTINCT comm) FROM syscalls WHERE pid < 9", "nginx,sh"),
        ("SELECT count_if(ret < 0), p999(pid), bool_or(ret < 0) FROM syscalls WHERE comm ~ '.'", "2 9 true"),
        ("SELECT comm, bool_or(ret < 0) FROM syscalls GROUP BY ALL ORDER BY comm LIMIT 1", "a%b false"),
        ("SELECT a.pid FROM (SELECT round(pid * 1.0) AS pid FROM syscalls WHERE pid = 8) a", "8.000"),
        ("SELECT count(*) FROM syscalls WHERE latency_ns > 10us AND comm ~ '.'", "1"),
        ("SELECT count(*) FROM syscalls WHERE latency_ns < 1KiB AND comm ~ '.'", "2"),
        (
            "SELECT 5 AS five, nullif(pid, 7) AS p FROM syscalls GROUP BY five, p ORDER BY p NULLS FIRST LIMIT 1",
            "5 null",
        ),
        ("SELECT name, count(*) AS n FROM syscalls GROUP BY name HAVING n > 100", ""),
    ] {
        assert_eq!(text(sql), all, "{sql}");
    }
}

#[test]
fn windows_have_answers_of_their_own() {
    let rows =
        answered("SELECT pid, rank() OVER (ORDER BY count(*) DESC) AS r FROM syscalls GROUP BY pid WINDOW 1 SECOND");
    let rows = rows.expect("it is answered");
    let of = |row: &Row| (row.window.map(|[start, _]| start / SECOND), row.values[0].to_string());
    let expected = [(1, "7"), (1, "9"), (1, "8"), (2, "7")].map(|(at, pid)| (Some(at), pid.to_owned()));
    let mut own: Vec<_> = rows.iter().map(of).collect();
    own.sort();
    let mut expected = expected.to_vec();
    expected.sort();
    assert_eq!(own, expected);
    // Rows that Kiln's plan does not group are put into windows too.
    let sql = "SELECT a.pid, count(*) FROM syscalls a CROSS JOIN syscalls b GROUP BY a.pid ORDER BY 2 DESC, 1 LIMIT 1 WINDOW 1 S";
    assert_eq!(text(sql), "7 10; 7 1");
}

#[test]
fn what_plans_can_do_stays_with_them() {
    let engine = engine(
        "SELECT comm, round(avg(latency_ns), 1) FROM syscalls WHERE ret < 0 AND comm = 'sh' GROUP BY comm WINDOW 1 S",
    );
    assert_eq!(engine.sql, "SELECT s0.c0 AS o0, k_round(s0.c1, 1) AS o1 FROM t0 AS s0");
    let scan = engine.inputs[0].flow.last();
    assert!(scan.filter.is_some() && matches!(scan.shape, kiln_plan::query::Shape::Groups(_)));
    let half = parsed("SELECT round(latency_ns) FROM syscalls WHERE ret < 0 AND comm ~ 'x'").flow;
    assert!(half.scans()[0].filter.is_some(), "the kernel decides what it can");
    assert!(parsed("SELECT count(*) FILTER (WHERE ret < 0) FROM syscalls").flow.engine().is_none());
    assert!(parsed("SELECT count(*) AS n FROM syscalls GROUP BY pid HAVING n > 3").flow.engine().is_none());
}

#[test]
fn what_is_wrong_is_said_where_it_is() {
    for (sql, expected) in [
        ("SELECT round(latencyns) FROM syscalls", "did you mean `latency_ns`?"),
        ("SELECT pid, round(avg(ret)) FROM syscalls", "`pid` differs between the rows of a group"),
        ("SELECT rounde(pid) FROM syscalls", "did you mean `round`?"),
        ("SELECT round(comm) FROM syscalls", "round is of numbers, and this is text"),
        ("SELECT round(1), floor(comm) FROM syscalls", "floor is of numbers, and this is text"),
        ("SELECT round(1), abs(comm) FROM syscalls", "abs is of numbers, and this is text"),
        ("SELECT round(1), -comm FROM syscalls", "`-` is of numbers, and this is text"),
        ("SELECT abs(comm) FROM syscalls", "abs is of numbers, and this is text"),
        ("SELECT -comm FROM syscalls", "`-` is of numbers, and this is text"),
        ("SELECT max(comm) + count(*) FROM syscalls", "`+` does not go between text and u64"),
        ("SELECT count(*) FROM syscalls HAVING max(comm) > 3", "`>` does not go between text and u64"),
        ("SELECT pid || 1 = 3 FROM syscalls", "`=` does not go between text and u64"),
        ("SELECT e.pid FROM execs e, exits x WHERE e.pid = x.pid", "WITHIN 5 SECONDS"),
        ("SELECT CAST(pid AS jsonb) FROM syscalls", "there is no type `JSONB`"),
        ("SELECT nullif(pid) FROM syscalls", "nullif takes 2 operands"),
        ("SELECT rank() OVER (ORDER BY latencyns) FROM syscalls", "did you mean `latency_ns`?"),
        ("SELECT ranks() OVER () FROM syscalls", "did you mean `rank`?"),
        ("SELECT DISTINCT ON (pid) pid FROM syscalls ORDER BY ts", "DISTINCT ON"),
        ("SELECT INTERVAL '1 month' FROM syscalls", "is no time that is known"),
        ("SELECT 99999999999999h FROM syscalls", "has more than 64 bits"),
        ("SELECT x.pid FROM errno x", "table `x` has no column `pid`"),
        ("SELECT ~a FROM errno", "table `errno` has no column `a`"),
        ("SELECT ~name FROM errno", "`^` does not go between text and u64"),
        ("SELECT pid FROM syscalls WHERE comm ~ '('", "`(` is no regular expression"),
        ("SELECT pid FROM syscalls WHERE comm !~* ('[')", "`[` is no regular expression"),
        ("SELECT comm RLIKE '*' FROM syscalls", "`*` is no regular expression"),
        ("SELECT regexp_replace(comm, 'a{9999}{9999}', '') FROM syscalls", "is no regular expression"),
        ("SELECT count(*) FILTER (WHERE regexp_like(comm, ')')) FROM syscalls", "`)` is no regular expression"),
        ("WITH RECURSIVE s AS (SELECT round(pid) FROM s) SELECT pid FROM s", "WITH RECURSIVE"),
    ] {
        let error = parse(sql).expect_err(sql);
        assert!(error.shown(sql).contains(expected), "{sql}\n{}", error.shown(sql));
    }
    let failed = answered("SELECT comm ~ nullif('(', '') FROM syscalls").expect_err("it is no expression");
    assert!(failed.contains("`(` is no regular expression"), "{failed}");
}

#[test]
fn an_answer_is_interrupted() {
    for sql in [
        "SELECT count(*) FROM errno a, errno b, errno c, errno d, errno e",
        "SELECT sum(a.errno) OVER (ORDER BY b.errno) FROM errno a, errno b, errno c, errno d",
    ] {
        let interrupt = Arc::new(AtomicBool::new(false));
        let mut engine = Sqlite::interrupted_by(&engine(sql), Arc::clone(&interrupt)).expect("it is prepared");
        let set = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            interrupt.store(true, Ordering::SeqCst);
            Instant::now()
        });
        let failed = engine.answer(&[], 1).expect_err(sql);
        let late = set.join().expect("no panic").elapsed();
        assert!(failed.contains("was stopped while it computed an answer"), "{sql}: {failed}");
        assert!(late < Duration::from_millis(500), "{sql}: {late:?}");
    }
}

#[test]
fn what_would_not_end_is_ended() {
    let begun = Instant::now();
    for (sql, expected) in [
        ("SELECT count(*) FROM errno a, errno b, errno c, errno d, errno e", "took longer than 0.2 s"),
        (
            "SELECT a.name FROM errno a, errno b, errno c, errno d, errno e ORDER BY a.name || e.name",
            "took longer than",
        ),
        ("SELECT sum(a.errno) OVER (ORDER BY b.errno) FROM errno a, errno b, errno c, errno d", "took longer than"),
        (
            "SELECT count(*) FROM errno a, errno b, errno c WHERE repeat(a.name, 9999) || c.name ~ '(a*)*b'",
            "took longer",
        ),
    ] {
        let failed = answered_within(sql, Duration::from_millis(200)).expect_err(sql);
        assert!(failed.contains(expected), "{sql}: {failed}");
    }
    // No pattern of LIKE takes a time that grows with more than its length and the text's.
    let like = format!("SELECT repeat(comm, 50000) LIKE '{}b' FROM syscalls LIMIT 1", "%n".repeat(500));
    assert_eq!(text(&like), "false");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn patterns_and_names_are_as_in_other_engines() {
    for (sql, answer) in [
        ("SELECT 1 AS one, 'a' || 'b'", "1 ab"),
        ("SELECT \"name\" FROM \"errno\" WHERE errno = 2", "ENOENT"),
        ("SELECT count(*) FROM \"errno\" e, \"syscall_names\" s WHERE e.errno = 2 AND s.name = 'read'", "1"),
        ("SELECT name FROM errno WHERE name LIKE 'ENO!_NT' ESCAPE '!' OR name LIKE 'ENOEN_'", "ENOENT"),
        ("SELECT 'a' LIKE NULL, 'A' ILIKE 'a%', 'A' LIKE 'a'", "null true false"),
    ] {
        assert_eq!(text(sql), answer, "{sql}");
    }
    let long = format!("SELECT name FROM errno WHERE name LIKE '{}'", "%a".repeat(600));
    assert!(parse(&long).expect_err("it is too long").message.contains("up to 1024 bytes"));
    let made = "SELECT name FROM errno WHERE name LIKE repeat('%a', 600)";
    assert!(answered(made).expect_err("it is too long").contains("up to 1024 bytes"));
    for (sql, expected) in [
        ("SELECT nothing", "column `nothing`"),
        ("SHOW TABLES", "`kiln tables` lists the tables"),
        ("DESCRIBE forks", "`kiln tables forks` lists its columns"),
        ("SELECT extract(day FROM ts) FROM forks", "a time has no `day`"),
        ("SELECT date_part('hour', ts) FROM forks", "a time has no `hour`"),
        ("SELECT date_trunc('month', ts) FROM forks", "a time has no `month`"),
        ("SELECT pid FROM widgets", "`kiln tables` lists the tables"),
    ] {
        let error = parse(sql).expect_err(sql);
        assert!(error.shown(sql).contains(expected), "{sql}\n{}", error.shown(sql));
    }
}

#[test]
fn what_would_fill_the_memory_is_ended() {
    for (sql, expected) in [
        ("SELECT repeat(comm, 500000) || repeat(comm, 500000) FROM syscalls", "text of more than 1 MiB"),
        ("SELECT string_agg(repeat(name, 9999), '') FROM errno", "text of more than 1 MiB"),
        ("SELECT repeat(a.name, 100000) FROM errno a, errno b", "an answer of the rest of the query needs more than"),
        ("SELECT printf('%999999999d', pid) FROM syscalls", "there is no function `printf`"),
    ] {
        let failed = parse(sql).map_err(|error| error.message).and_then(|_| answered(sql)).expect_err(sql);
        assert!(failed.contains(expected), "{sql}: {failed}");
    }
}

/// Everything of SQLite's that reads or writes files, sets something, or makes something of any size.
#[test]
fn nothing_else_of_sqlite_can_be_reached() {
    for sql in [
        "ATTACH DATABASE '/tmp/kiln-attached' AS x",
        "ATTACH '/tmp/kiln-attached' AS x",
        "DETACH x",
        "PRAGMA database_list",
        "VACUUM INTO '/tmp/kiln-attached'",
        "CREATE TABLE x (y INT)",
        "CREATE TEMP TABLE x AS SELECT 1",
        "INSERT INTO t0 VALUES (1)",
        "DELETE FROM syscalls",
        "UPDATE syscalls SET pid = 1",
        "DROP TABLE syscalls",
        "SELECT 1 FROM syscalls; PRAGMA database_list",
        "SELECT load_extension('x') FROM syscalls",
        "SELECT writefile('/tmp/kiln-attached', comm) FROM syscalls",
        "SELECT readfile('/etc/passwd') FROM syscalls",
        "SELECT randomblob(1000000000) FROM syscalls",
        "SELECT zeroblob(1000000000) FROM syscalls",
        "SELECT sqlite_version() FROM syscalls",
        "SELECT fts3_tokenizer('x') FROM syscalls",
        "SELECT nullif(name, '') FROM sqlite_master",
        "SELECT nullif(name, '') FROM sqlite_schema",
        "SELECT round(1) FROM pragma_database_list",
        "SELECT round(1) FROM pragma_database_list()",
        "SELECT round(value) FROM generate_series(1, 1000000000)",
        "SELECT round(value) FROM json_each('[1]')",
        "SELECT round(c0) FROM t0",
        "SELECT round(c0) FROM l0",
        "SELECT nullif(s0.c0, 1) FROM syscalls",
        "SELECT nullif(rowid, 1) FROM syscalls",
        "SELECT k_add(pid, 1) FROM syscalls",
        "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT round(n) FROM x",
        "WITH x(n) AS (SELECT 1 UNION ALL SELECT round(n + 1) FROM x) SELECT n FROM x",
        "SELECT round(pid) FROM syscalls INDEXED BY x",
        "SELECT round(pid) INTO x FROM syscalls",
        "SELECT * REPLACE (1 AS pid) FROM syscalls WHERE comm ~ 'x'",
        "SELECT first_value(pid) IGNORE NULLS OVER (ORDER BY ts) FROM syscalls",
        "SELECT comm ILIKE 'axb' ESCAPE 'X' FROM syscalls WHERE comm ~ 'x'",
        "SELECT pid FROM syscalls WHERE pid IN (SELECT comm FROM execs)",
    ] {
        let error = parse(sql).map(|parsed| parsed.flow).expect_err(sql);
        assert!(!error.message.is_empty(), "{sql}");
    }
    assert!(!std::path::Path::new("/tmp/kiln-attached").exists());
    // The same, if such a text were made.
    let made = |sql: &str| {
        let query = EngineQuery { sql: sql.to_owned(), ..engine("SELECT round(pid) FROM syscalls") };
        Sqlite::new(&query).err()
    };
    assert_eq!(made("SELECT c0 FROM t0"), None);
    for sql in [
        "ATTACH '/tmp/kiln-attached' AS x",
        "PRAGMA hard_heap_limit = 0",
        "PRAGMA database_list",
        "SELECT * FROM pragma_database_list",
        "SELECT * FROM sqlite_master",
        "CREATE TABLE x (y)",
        "CREATE TEMP TABLE x (y)",
        "DROP TABLE t0",
        "UPDATE t0 SET c0 = 1",
        "SELECT load_extension('x')",
        "SELECT writefile('/tmp/kiln-attached', 'x')",
        "VACUUM INTO '/tmp/kiln-attached'",
        "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT n FROM x",
    ] {
        assert!(made(sql).is_some(), "{sql}");
    }
}

#[test]
fn clauses_are_not_ignored() {
    let calls = "FROM syscalls WHERE pid = 7";
    for (sql, all) in [
        (format!("SELECT string_agg(comm, '+' ORDER BY ts DESC) {calls} OR pid = 8"), "nginx+sh+nginx+nginx"),
        (format!("SELECT percentile_cont(1) WITHIN GROUP (ORDER BY latency_ns DESC) < 2000 {calls}"), "true"),
        (
            format!("SELECT percentile_cont(1) WITHIN GROUP (ORDER BY latency_ns DESC) < 2000 {calls} AND comm ~ 'n'"),
            "true",
        ),
        (format!("SELECT quantile(latency_ns, 1) > 2500 {calls} AND comm ~ 'n'"), "true"),
    ] {
        assert_eq!(text(&sql), all, "{sql}");
    }
}

#[test]
fn every_function_of_the_front_end_is_one_of_the_engine() {
    for name in kiln_sql::ENGINE_FUNCTIONS() {
        let found = (1..=4).any(|count| {
            ["pid", "comm", "'a'"].iter().any(|operand| {
                let operands = vec![*operand; count].join(", ");
                let sql = format!("SELECT nullif({name}({operands}), NULL) FROM syscalls");
                parse(&sql).is_ok_and(|parsed| parsed.flow.engine().map(Sqlite::new).is_some_and(|made| made.is_ok()))
            })
        });
        assert!(found, "{name}");
    }
}

#[test]
#[ignore = "a measurement: rows a second, with `--ignored --nocapture`"]
fn measure_rows_a_second() {
    const ROWS: u64 = 1 << 18;
    for sql in [
        "SELECT substr(comm, 1, 4), count(*) FROM syscalls GROUP BY 1",
        "SELECT comm, round(avg(latency_ns) FILTER (WHERE comm ~ '^n'), 1) FROM syscalls GROUP BY comm, nullif(pid, 0)",
        "SELECT count(*) FROM (SELECT rank() OVER (PARTITION BY pid ORDER BY latency_ns) AS r FROM syscalls) WHERE r < 9",
    ] {
        let query = engine(sql);
        let columns = query.inputs[0].flow.outputs();
        let value = |row: u64, data_type: DataType| match data_type {
            DataType::Text => Value::text(["nginx", "sh", "postgres"][row as usize % 3]),
            _ => Value::Uint(row.wrapping_mul(0x9e37_79b9) % 1000),
        };
        let rows = (0..ROWS).map(|row| columns.iter().map(|output| value(row, output.data_type)).collect());
        let rows = vec![rows.collect::<Vec<Vec<Value>>>()];
        let mut engine = Sqlite::new(&query).expect("it is prepared");
        let times = (0..5).map(|_| {
            let begun = Instant::now();
            let (answer, more) = engine.answer(&rows, 1 << 20).expect("it is answered");
            assert!(!answer.is_empty() && more == 0);
            begun.elapsed()
        });
        let best = times.min().expect("there are five");
        println!("{:.0} rows a second: {sql}", ROWS as f64 / best.as_secs_f64());
    }
}
