//! Corrupted queries: the front end returns a plan or an error, and never panics.
//!
//! `KILN_BROKEN_QUERIES` sets their number.

use kiln_plan::execute::{Executor, Limits};
use kiln_plan::{DataType, Query, Value};

/// Constructs that the queries of docs/reference/query-one-liners.md do not have.
const SEEDS: &[&str] = &[
    "EXPLAIN ANALYZE SELECT DISTINCT pid, -args[0] FROM syscalls WHERE NOT (ret BETWEEN -1 AND 2) LIMIT 3",
    "SELECT CASE comm WHEN 'a' THEN 1 WHEN 'b' THEN NULL ELSE 0x10 END AS x FROM signals ORDER BY x DESC",
    "SELECT quantile(latency_ns, 0.99) FROM syscalls GROUP BY pid HAVING count(DISTINCT tid) > 1 WINDOW 1 s EVERY 100 ms",
    "SELECT max(n) FROM (SELECT pid, count(*) AS n FROM syscalls GROUP BY 1 WINDOW 10 ms) AS s WHERE n > 3",
    "SELECT coalesce(log2(cpu), abs(-1)) << 70 FROM wakeups WHERE lower(comm) ILIKE '%A_' OR comm IS NULL",
    "SELECT top_k(comm, 5), approx_distinct(pid) FROM forks GROUP BY cpu WINDOW SESSION 100 MS",
    "SELECT pid, count(*) FROM exits GROUP BY pid ORDER BY 2 DESC LIMIT 5 OFFSET 10",
    "SELECT text0, arg1 FROM uprobe.'/lib/libc.so.6:fopen' WHERE pid = 7",
    "SELECT text0, ret_int, latency_ns FROM uretprobe.'/lib/libc.so.6:getaddrinfo' WHERE ret_int <> 0",
    "SELECT daddr, dport, kstack FROM tcp_states WHERE daddr << '10.0.0.0/8' OR cidr(saddr, '::/0')",
    "SELECT pid, comm FROM execs UNION ALL SELECT pid, comm FROM exits ORDER BY comm LIMIT 9",
    "SELECT e.comm, x.exit_code FROM execs e JOIN exits x ON e.pid = x.pid AND x.ts > e.ts WITHIN 5 SECONDS",
    "SELECT n.name, count(*) FROM syscalls s LEFT JOIN errno n ON n.errno = -s.ret WHERE s.ret < 0 GROUP BY n.name",
    "WITH s (who) AS (SELECT pid FROM forks), n AS (SELECT who, count(*) AS c FROM s GROUP BY who) SELECT max(c) FROM n",
];

/// Tokens that are inserted into queries.
const WORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "WINDOW",
    "EVERY",
    "(",
    ")",
    ",",
    "'",
    "\"",
    "`",
    "*",
    "-",
    "--",
    "/*",
    "1 s",
    "0",
    "18446744073709551615",
    "18446744073709551616",
    "1e999",
    "0x",
    "NULL",
    "NOT",
    "AND",
    "CASE",
    "END",
    "IN ()",
    "LIKE",
    "syscalls",
    "pid",
    "ärger",
    "\u{1F600}",
    "\0",
    "\n",
    "\t",
    ";",
    "UNION ALL",
    "UNION",
    "JOIN",
    "WITH s AS (SELECT pid FROM forks)",
    "FROM s",
    "LEFT JOIN errno e ON e.errno = -ret",
    "JOIN execs x ON x.pid = pid WITHIN 1 S",
    "USING (pid)",
    "WITHIN 1 S",
    "<< '10.0.0.0/8'",
    "cidr(",
    "uprobe.'/a:b'",
    "'::/129'",
    "e.*",
    "count(*)",
    "p99(",
    "args[9999]",
    "args[",
    "/ 0",
    "% 0",
    "<< 64",
    ">> 99",
    "WINDOW SESSION",
    "SESSION 1 ns",
    "OFFSET 3",
    "top_k(",
    "WINDOW 0 s",
    "WINDOW 9999999999999999999 h",
    "LIMIT -1",
];

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % count.max(1)
    }
}

/// Changes a query in one place.
fn broken(sql: &str, numbers: &mut Numbers) -> String {
    if sql.is_empty() {
        return WORDS[numbers.below(WORDS.len())].to_owned();
    }
    let mut words: Vec<&str> = sql.split_inclusive(' ').collect();
    let at = numbers.below(words.len());
    match numbers.below(6) {
        0 => drop(words.remove(at)),
        1 => words.insert(at, WORDS[numbers.below(WORDS.len())]),
        2 => words[at] = WORDS[numbers.below(WORDS.len())],
        3 => words.swap(at, numbers.below(sql.split_inclusive(' ').count())),
        4 => words.truncate(at),
        _ => {
            let chars: Vec<char> = sql.chars().collect();
            let at = numbers.below(chars.len());
            let other = char::from_u32(numbers.below(0x300) as u32).unwrap_or('x');
            return chars.iter().enumerate().map(|(own, char)| if own == at { other } else { *char }).collect();
        }
    }
    words.concat()
}

/// Runs a query on rows of extreme values.
fn run(query: &Query, numbers: &mut Numbers) {
    let limits = Limits { starts: 16, groups: 64, bytes: 1 << 16, rows: 64, late_ns: 0 };
    let mut executor = Executor::of_rows(query.clone(), limits);
    for _ in 0..20 {
        let value = |data_type: DataType| match (data_type, numbers.below(4)) {
            (_, 0) => Value::Null,
            (DataType::Text, which) => Value::text(["", "sh", "ärger\u{1F600}", "x"][which]),
            (DataType::Int, which) => Value::Int([0, -1, i64::MIN, i64::MAX][which]),
            (_, which) => Value::Uint([0, 1, u64::MAX, 1 << 63][which]),
        };
        let row = query.table.types().into_iter().map(value).collect();
        executor.row(row);
        executor.advance_to_latest();
    }
    executor.finish();
    assert!(executor.take_rows().len() <= 20 * 1000);
}

#[test]
fn broken_queries_are_answered_or_refused() {
    let count = std::env::var("KILN_BROKEN_QUERIES").ok().and_then(|text| text.parse().ok()).unwrap_or(5_000);
    let documented = include_str!("../../../../docs/reference/query-one-liners.md");
    let documented = documented.split("```sql\n").skip(1).filter_map(|block| block.split("```").next()).map(str::trim);
    let seeds: Vec<&str> = documented.chain(SEEDS.iter().copied()).collect();
    let mut numbers = Numbers(7);
    let mut understood = 0;
    for _ in 0..count {
        let mut sql = seeds[numbers.below(seeds.len())].to_owned();
        for _ in 0..1 + numbers.below(4) {
            sql = broken(&sql, &mut numbers);
        }
        match kiln_sql::parse(&sql, None) {
            Ok(parsed) => {
                understood += 1;
                parsed.flow.scans().into_iter().chain(&parsed.flow.stages).for_each(|query| run(query, &mut numbers));
            }
            Err(error) => {
                assert!(!error.message.is_empty(), "{sql}");
                assert!(error.at.as_ref().is_none_or(|at| at.end <= sql.len()), "{sql}: {error:?}");
                assert!(error.shown(&sql).starts_with("error: "));
            }
        }
    }
    assert!(understood > count / 50 && understood < count, "{understood} of {count} are queries");
}

#[test]
fn deep_and_long_queries_are_bounded() {
    let nested = |open: &str, close: &str, depth| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    for depth in [10, 100, 1_000, 10_000] {
        for (open, close) in [("(", ")"), ("abs(", ")"), ("NOT ", ""), ("- ", ""), ("CASE WHEN 1 THEN ", " END")] {
            let sql = format!("SELECT {} FROM syscalls", nested(open, close, depth));
            if let Ok(parsed) = kiln_sql::parse(&sql, None) {
                run(parsed.flow.scans()[0], &mut Numbers(1));
            }
        }
        let sql = format!("SELECT count(*) FROM syscalls WHERE pid = 1{}", " OR pid = 2".repeat(depth));
        assert_eq!(kiln_sql::parse(&sql, None).is_ok(), depth <= 100, "{depth}");
        // Each query of WITH would double the tables that are read.
        let mut common = "WITH s0 AS (SELECT pid AS a FROM syscalls)".to_owned();
        let level = |at: usize| format!(", s{} AS (SELECT a FROM s{at} UNION ALL SELECT a FROM s{at})", at + 1);
        (0..depth.min(40)).for_each(|at| common += &level(at));
        let error = kiln_sql::parse(&format!("{common} SELECT a FROM s0"), None).expect_err("too many tables");
        assert!(error.message.contains("tables of events"), "{error:?}");
        // Each level would double the expression.
        let mut subquery = "SELECT pid AS a FROM syscalls".to_owned();
        (0..depth.min(40)).for_each(|_| subquery = format!("SELECT a + a AS a FROM ({subquery})"));
        if let Ok(parsed) = kiln_sql::parse(&subquery, None) {
            assert!(depth > 10 || parsed.flow.stages.is_empty());
            run(parsed.flow.scans()[0], &mut Numbers(1));
        }
    }
}
