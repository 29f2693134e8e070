//! Clauses that the parser reads and nothing here understands are refused, whichever half would answer: what is ignored gives
//! a wrong answer.

use kiln_plan::programs::Known;

/// Reads a query, without and with an engine for the rest of SQL.
fn said(sql: &str) -> [String; 2] {
    let lookups = kiln_plan::lookup::constant();
    let said = |parsed: Result<_, kiln_sql::Error>| match parsed {
        Ok(_) => "parsed".to_owned(),
        Err(error) => error.shown(sql),
    };
    [said(kiln_sql::parse(sql, None)), said(kiln_sql::parse_for_engine(sql, Known::default(), &lookups, |_| Ok(())))]
}

#[test]
fn clauses_are_understood_or_refused() {
    for (sql, clause) in [
        ("SELECT TOP 1 PERCENT comm FROM forks", "TOP"),
        ("SELECT TOP 1 comm FROM forks LIMIT 2", "TOP"),
        ("SELECT DISTINCT ON (comm) comm, pid FROM forks ORDER BY pid", "DISTINCT ON"),
        ("SELECT comm, pid, count(*) FROM forks GROUP BY CUBE (comm, pid, ts, tid, cpu)", "16 sets"),
        ("SELECT comm, pid, count(*) FROM forks GROUP BY ROLLUP (comm, pid), CUBE (ts, tid, cpu)", "16 sets"),
        ("SELECT comm FROM forks WHERE comm SIMILAR TO 'a' ESCAPE 'x'", "ESCAPE"),
        ("SELECT comm FROM syscalls WHERE errno = 'ENOENT'", "ret = -ENOENT"),
        ("SELECT path FROM http", "split_part(line, ' ', 2)"),
        ("SELECT * EXCLUDE (com) FROM forks", "did you mean `comm`?"),
        ("SELECT * REPLACE (1 AS comm) FROM forks", "REPLACE"),
        ("SELECT comm FROM forks PREWHERE pid = 1", "PREWHERE"),
        ("SELECT comm FROM forks SORT BY comm", "SORT BY"),
        ("SELECT comm FROM forks CLUSTER BY comm", "CLUSTER BY"),
        ("SELECT comm FROM forks DISTRIBUTE BY comm", "CLUSTER BY"),
        ("SELECT comm INTO x FROM forks", "INTO"),
        ("SELECT comm FROM forks LATERAL VIEW explode(a) t", "LATERAL VIEW"),
        ("SELECT comm FROM forks FOR UPDATE", "FOR"),
        ("SELECT comm FROM forks FORMAT JSON", "FORMAT"),
        ("SELECT comm FROM forks SETTINGS a = 1", "SETTINGS"),
        ("SELECT comm FROM forks f WITH (NOLOCK)", "a hint"),
        ("SELECT comm FROM forks PARTITION (p)", "PARTITION"),
        ("SELECT comm FROM forks TABLESAMPLE (1)", "TABLESAMPLE"),
        ("SELECT comm FROM (SELECT comm FROM forks) TABLESAMPLE (1)", "TABLESAMPLE"),
        ("SELECT n.name FROM syscalls s JOIN errno n TABLESAMPLE (1) ON n.errno = -s.ret", "TABLESAMPLE"),
        ("FROM forks", "FROM without SELECT"),
        ("SELECT abs(pid) FILTER (WHERE pid > 1) FROM forks", "FILTER is for aggregates"),
        ("SELECT abs(DISTINCT pid) FROM forks", "DISTINCT is for aggregates"),
        ("SELECT comm, count(*) FROM forks GROUP BY comm WITH TOTALS", "TOTALS"),
        ("SELECT comm FROM forks FETCH FIRST 10 PERCENT ROWS ONLY", "FETCH"),
        ("SELECT comm FROM forks LIMIT 1 FETCH FIRST 10 ROWS ONLY", "not both"),
    ] {
        for said in said(sql) {
            assert!(said.contains(clause), "{sql}\n{said}");
        }
    }
    let [_, engine] = said("SELECT abs(pid) OVER () FROM forks");
    assert!(engine.contains("there is no function `abs` with OVER"), "{engine}");
}

/// Other ways to write what there is.
#[test]
fn what_other_engines_call_it_is_the_same() {
    let parsed = |sql: &str| match kiln_sql::parse(sql, None) {
        Ok(mut parsed) => {
            parsed.flow.outputs_mut().iter_mut().for_each(|output| output.name.clear());
            parsed.flow
        }
        Err(error) => panic!("{}", error.shown(sql)),
    };
    for (one, other) in [
        ("SELECT comm FROM forks FETCH FIRST 3 ROWS ONLY", "SELECT comm FROM forks LIMIT 3"),
        ("SELECT comm FROM forks OFFSET 1 FETCH FIRST ROW ONLY", "SELECT comm FROM forks LIMIT 1 OFFSET 1"),
        ("SELECT comm, pid, count(*) FROM forks GROUP BY ALL", "SELECT comm, pid, count(*) FROM forks GROUP BY 1, 2"),
        ("SELECT count(*) FROM forks GROUP BY ALL", "SELECT count(*) FROM forks"),
        ("SELECT count_if(ret < 0) FROM syscalls", "SELECT count(*) FILTER (WHERE ret < 0) FROM syscalls"),
        ("SELECT p999(ret) FROM syscalls", "SELECT quantile(ret, 0.999) FROM syscalls"),
        ("SELECT approx_percentile(ret, 0.9) FROM syscalls", "SELECT p90(ret) FROM syscalls"),
        ("SELECT pid FROM syscalls WHERE ret = -ENOENT", "SELECT pid FROM syscalls WHERE ret = -2"),
        ("SELECT EAGAIN, count(*) FROM forks", "SELECT 11, count(*) FROM forks"),
        ("SELECT d.question FROM dns d", "SELECT d.name FROM dns d"),
        ("SELECT time, command FROM forks", "SELECT ts, comm FROM forks"),
        ("SELECT max(latency) FROM runq", "SELECT max(wait_ns) FROM runq"),
        ("SELECT TOP 3 comm FROM forks", "SELECT comm FROM forks LIMIT 3"),
        ("SELECT pid FROM (SELECT TOP (1) pid FROM forks)", "SELECT pid FROM (SELECT pid FROM forks LIMIT 1)"),
        (
            "SELECT pid FROM forks UNION SELECT TOP 1 pid FROM exits",
            "SELECT pid FROM forks UNION (SELECT pid FROM exits LIMIT 1)",
        ),
        (
            "SELECT * EXCLUDE (ts, pid) FROM (SELECT ts, pid, comm FROM forks)",
            "SELECT comm FROM (SELECT ts, pid, comm FROM forks)",
        ),
        ("SELECT * EXCEPT (ts) FROM (SELECT ts, pid FROM forks)", "SELECT pid FROM (SELECT ts, pid FROM forks)"),
        ("SELECT time_bucket('2 ms', ts) FROM forks", "SELECT ts - ts % 2ms FROM forks"),
        (
            "SELECT time_bucket(10s, ts) AS t, count(*) FROM forks GROUP BY t",
            "SELECT ts - ts % 10s AS t, count(*) FROM forks GROUP BY t",
        ),
        ("SELECT variance(ret) FROM syscalls", "SELECT power(stddev(ret), 2) FROM syscalls"),
        (
            "SELECT comm, p99.9(latency_ns) FROM syscalls GROUP BY comm",
            "SELECT comm, p999(latency_ns) FROM syscalls GROUP BY comm",
        ),
        (
            "SELECT comm, pid, count(*) FROM forks GROUP BY ROLLUP (1, pid)",
            "SELECT comm, pid, count(*) FROM forks GROUP BY 1, 2 \
             UNION ALL SELECT comm, NULL AS pid, count(*) FROM forks GROUP BY 1 \
             UNION ALL SELECT NULL AS comm, NULL AS pid, count(*) FROM forks",
        ),
        (
            "SELECT comm, cpu, max(pid) FROM forks GROUP BY comm, GROUPING SETS ((pid), (cpu))",
            "SELECT comm, NULL AS cpu, max(pid) FROM forks GROUP BY comm, pid \
             UNION ALL SELECT comm, cpu, max(pid) FROM forks GROUP BY comm, cpu",
        ),
    ] {
        assert_eq!(parsed(one), parsed(other), "{one}");
    }
}

#[test]
fn functions_of_other_engines_are_refused_with_what_to_write() {
    for (sql, help) in [
        ("SELECT comm, stddev_pop(latency_ns) FROM syscalls GROUP BY comm", "stddev(x)"),
        ("SELECT now() - ts FROM syscalls", "the time since boot"),
        ("SELECT tumble(ts) AS t, count(*) FROM syscalls GROUP BY t", "WINDOW 10 SECONDS"),
        ("SELECT hist(latency_ns) FROM syscalls", "histogram(latency_ns)"),
    ] {
        for said in said(sql) {
            assert!(said.contains("there is no function") && said.contains(help), "{sql}\n{said}");
        }
    }
}

/// What is null in one part of a union has the type of the other part.
#[test]
fn keys_of_sets_keep_their_types() {
    let lookups = kiln_plan::lookup::constant();
    for sql in [
        "SELECT pid, count(*) AS c FROM forks GROUP BY ROLLUP (pid)",
        "SELECT NULL AS pid, 1 AS c FROM forks UNION ALL SELECT NULL, 2 FROM forks UNION ALL SELECT pid, 3 FROM forks",
    ] {
        let mut parsed = match kiln_sql::parse_for_engine(sql, Known::default(), &lookups, |_| Ok(())) {
            Ok(parsed) => parsed,
            Err(error) => panic!("{}", error.shown(sql)),
        };
        assert_eq!(parsed.flow.outputs_mut()[0].data_type.name(), "u64", "{sql}");
    }
}
