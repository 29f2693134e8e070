//! What people type first: questions as operators write them who know SQL and bpftrace, not this dialect. The share that is
//! answered is printed; a question that is refused must be refused with what to write instead.

use kiln_driver::query::{Session, Settings, plan};

/// One question a line.
const QUESTIONS: &str = "
SELECT * FROM syscalls LIMIT 10
SELECT comm, count(*) FROM syscalls GROUP BY comm ORDER BY count(*) DESC LIMIT 10
SELECT comm, pid, count(*) AS n FROM syscalls GROUP BY comm, pid ORDER BY n DESC LIMIT 20
SELECT name, count(*) FROM syscalls GROUP BY name HAVING count(*) > 100
SELECT name, count(*) n FROM syscalls GROUP BY name HAVING n > 100 ORDER BY n DESC
SELECT name, avg(latency_ns) / 1000 AS us FROM syscalls GROUP BY name ORDER BY us DESC
SELECT name, round(avg(latency_ns) / 1000.0, 1) AS us FROM syscalls GROUP BY name ORDER BY 2 DESC
SELECT name, percentile_cont(0.99) WITHIN GROUP (ORDER BY latency_ns) FROM syscalls GROUP BY name
SELECT name, p50(latency_ns), p99(latency_ns), max(latency_ns) FROM syscalls GROUP BY name
SELECT name, count(*) FILTER (WHERE ret < 0) AS errors, count(*) AS calls FROM syscalls GROUP BY name
SELECT name, 100.0 * count(*) FILTER (WHERE ret < 0) / count(*) AS percent FROM syscalls GROUP BY name
SELECT name, sum(CASE WHEN ret < 0 THEN 1 ELSE 0 END) AS errors FROM syscalls GROUP BY name
SELECT comm, name, latency_ns FROM syscalls WHERE latency_ns > 10ms
SELECT comm, name, latency_ns FROM syscalls WHERE latency_ns > 10000000
SELECT comm, name, latency_ns FROM syscalls WHERE latency_ns > INTERVAL '10 milliseconds'
SELECT * FROM syscalls WHERE comm = 'nginx' AND name IN ('read', 'write')
SELECT * FROM syscalls WHERE comm LIKE 'ng%'
SELECT * FROM syscalls WHERE comm ILIKE 'NG%'
SELECT * FROM syscalls WHERE comm ~ '^(nginx|php)'
SELECT * FROM syscalls WHERE comm !~ 'kworker'
SELECT * FROM syscalls WHERE comm NOT LIKE 'kworker%'
SELECT * FROM syscalls WHERE comm LIKE 'a\\_%' ESCAPE '\\'
SELECT substr(comm, 1, 4) AS prefix, count(*) FROM syscalls GROUP BY prefix
SELECT substring(comm from 1 for 4), count(*) FROM syscalls GROUP BY 1
SELECT comm || ':' || pid AS who, count(*) FROM syscalls GROUP BY who
SELECT concat(comm, '/', pid), count(*) FROM syscalls GROUP BY comm, pid
SELECT CAST(latency_ns AS double) / 1e6 AS ms FROM syscalls LIMIT 5
SELECT latency_ns::float / 1000 FROM syscalls LIMIT 5
SELECT floor(latency_ns / 1000) * 1000 AS bucket, count(*) FROM syscalls GROUP BY bucket ORDER BY bucket
SELECT width, count(*) FROM (SELECT latency_ns / 1000 * 1000 AS width FROM syscalls) GROUP BY width
SELECT log2(latency_ns) AS bucket, count(*) FROM syscalls GROUP BY bucket ORDER BY bucket
SELECT histogram(latency_ns) FROM syscalls WHERE name = 'read'
SELECT nullif(ret, 0) FROM syscalls LIMIT 3
SELECT coalesce(comm, '?') FROM syscalls LIMIT 3
SELECT pid, ret IS DISTINCT FROM 0 AS odd FROM syscalls LIMIT 3
SELECT comm, count(DISTINCT pid) FROM syscalls GROUP BY comm
SELECT DISTINCT comm FROM syscalls
SELECT date_trunc('second', ts) AS s, count(*) FROM syscalls GROUP BY s ORDER BY s
SELECT extract(epoch from ts) AS s, comm FROM syscalls LIMIT 3
SELECT comm, count(*) FROM syscalls GROUP BY comm WINDOW 1 SECOND
SELECT comm, rank() OVER (ORDER BY count(*) DESC) FROM syscalls GROUP BY comm
SELECT * FROM (SELECT comm, name, count(*) AS n, row_number() OVER (PARTITION BY comm ORDER BY count(*) DESC) AS r FROM syscalls GROUP BY comm, name) WHERE r <= 3
SELECT ts, latency_ns, avg(latency_ns) OVER (ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) FROM syscalls WHERE name = 'fsync'
SELECT pid, ts - lag(ts) OVER (PARTITION BY pid ORDER BY ts) AS since FROM forks
SELECT comm, count(*) AS n, 100.0 * count(*) / sum(count(*)) OVER () AS share FROM syscalls GROUP BY comm
SELECT comm, latency_ns FROM syscalls WHERE latency_ns > (SELECT avg(latency_ns) FROM syscalls)
SELECT comm, count(*) AS n FROM syscalls GROUP BY comm HAVING n > (SELECT avg(c) FROM (SELECT count(*) AS c FROM syscalls GROUP BY comm))
SELECT comm FROM execs e WHERE EXISTS (SELECT 1 FROM exits x WHERE x.pid = e.pid AND x.exit_code <> 0)
SELECT comm FROM execs WHERE pid NOT IN (SELECT pid FROM exits)
WITH slow AS (SELECT comm, latency_ns FROM syscalls WHERE latency_ns > 1ms) SELECT comm, count(*) FROM slow GROUP BY comm
WITH per AS (SELECT comm, count(*) AS n FROM syscalls GROUP BY comm) SELECT comm, n FROM per WHERE n > (SELECT avg(n) FROM per)
SELECT comm FROM execs UNION SELECT comm FROM exits
SELECT comm FROM execs EXCEPT SELECT comm FROM exits
SELECT comm FROM execs INTERSECT SELECT comm FROM exits
SELECT comm, n FROM (SELECT comm, count(*) AS n FROM syscalls GROUP BY comm) ORDER BY n DESC NULLS LAST
SELECT CASE WHEN ret < 0 THEN 'error' ELSE 'ok' END AS result, count(*) FROM syscalls GROUP BY result
SELECT name, -ret AS errno, count(*) FROM syscalls WHERE ret < 0 GROUP BY name, errno
SELECT e.name, count(*) FROM syscalls s JOIN errno e ON e.errno = -s.ret GROUP BY e.name
SELECT u.name, count(*) FROM syscalls s JOIN users u ON u.uid = s.uid GROUP BY u.name
SELECT pid, comm, cmdline FROM processes
SELECT comm, count(*) FROM processes GROUP BY comm ORDER BY 2 DESC
SELECT p.comm, u.name FROM processes p JOIN users u ON u.uid = p.uid
SELECT name FROM syscall_names WHERE name LIKE '%open%'
SELECT * FROM errno WHERE errno = 11
SELECT cgroup, count(*) FROM syscalls GROUP BY cgroup
SELECT container, count(*) FROM syscalls WHERE container IS NOT NULL GROUP BY container
SELECT ustack, count(*) FROM samples GROUP BY ustack
SELECT kstack, count(*) FROM samples GROUP BY kstack ORDER BY 2 DESC LIMIT 20
SELECT comm, count(*) FROM samples WHERE pid > 0 GROUP BY comm ORDER BY 2 DESC
SELECT cpu, count(*) FROM samples GROUP BY cpu WINDOW 1 SECOND
SELECT cpu, count(*) FILTER (WHERE pid > 0) * 100.0 / count(*) AS busy FROM samples GROUP BY cpu WINDOW 1 SECOND
SELECT ustack, count(*) FROM samples_499 WHERE comm = 'postgres' GROUP BY ustack
SELECT comm, histogram(wait_ns) FROM runq GROUP BY comm
SELECT comm, p99(wait_ns) FROM runq GROUP BY comm ORDER BY 2 DESC
SELECT count(*) FROM runq WHERE wait_ns > 10ms
SELECT comm, path, ret FROM file_opens
SELECT path, count(*) FROM file_opens GROUP BY path ORDER BY 2 DESC LIMIT 10
SELECT comm, path FROM file_opens WHERE ret < 0
SELECT comm, path FROM file_opens WHERE path LIKE '/etc/%'
SELECT split_part(path, '/', 2) AS top, count(*) FROM file_opens GROUP BY top
SELECT reverse(split_part(reverse(path), '/', 1)) AS file FROM file_opens
SELECT regexp_replace(path, '[0-9]+', 'N', 'g') AS shape, count(*) FROM file_opens GROUP BY shape
SELECT comm, filename, ppid FROM execs
SELECT e.comm, x.ts - e.ts AS lived FROM execs e JOIN exits x ON e.pid = x.pid WITHIN 5 SECONDS
SELECT e.comm, round((x.ts - e.ts) / 1e9, 3) AS seconds FROM execs e JOIN exits x ON e.pid = x.pid WITHIN 60 SECONDS
SELECT e.comm FROM execs e JOIN exits x ON e.pid = x.pid WINDOW 10 SECONDS
SELECT e.comm FROM execs e JOIN exits x ON e.pid = x.pid
SELECT e.comm FROM execs e, exits x WHERE e.pid = x.pid
SELECT comm, count(*) FROM forks GROUP BY comm
SELECT comm, exit_code >> 8 AS status FROM exits WHERE exit_code <> 0
SELECT comm, lifetime_ns / 1e9 FROM exits
SELECT daddr, dport, latency_ns FROM tcp_connects
SELECT daddr, dport, count(*), p99(latency_ns) FROM tcp_connects GROUP BY daddr, dport
SELECT comm, daddr, dport FROM tcp_connects WHERE state <> 1
SELECT daddr, count(*) FROM tcp_retransmits GROUP BY daddr
SELECT saddr, sport, daddr, dport FROM tcp_closes
SELECT daddr, count(*) FROM tcp_accepts WHERE sport = 443 GROUP BY daddr
SELECT daddr FROM tcp_states WHERE daddr << '10.0.0.0/8' AND new = 1
SELECT histogram(service_ns) FROM block_io
SELECT sum(bytes) / 1MiB AS mib FROM block_io WINDOW 1 SECOND
SELECT comm, sum(bytes) FROM block_io GROUP BY comm HAVING sum(bytes) > 1MiB
SELECT comm, bytes, service_ns FROM block_io WHERE bytes >= 4KiB
SELECT victim_comm, victim_pid, anon_kb FROM oom_kills
SELECT comm, count(*) FROM page_faults GROUP BY comm
SELECT reason, count(*) FROM packet_drops GROUP BY reason
SELECT sum(bytes), count(*) FROM packets_received WINDOW 1 SECOND
SELECT comm, signal, count(*) FROM signals GROUP BY comm, signal
SELECT irq, count(*), sum(duration_ns) FROM irqs GROUP BY irq
SELECT vec, max(duration_ns) FROM softirqs GROUP BY vec
SELECT kstack, sum(wait_ns) FROM lock_contention GROUP BY kstack
SELECT prev_state, count(*) FROM sched_switches GROUP BY prev_state
SELECT comm, args[0] AS fd, sum(ret) FROM syscalls WHERE name = 'read' AND ret > 0 GROUP BY comm, fd
SELECT comm, to_hex(args[0]) FROM syscalls WHERE name = 'mmap' LIMIT 5
SELECT comm, sum(ret) FROM syscalls WHERE name IN ('read', 'recvfrom') AND ret > 0 GROUP BY comm
SELECT string_agg(name, ',') FROM (SELECT DISTINCT name FROM syscalls WHERE comm = 'sshd')
SELECT comm, bool_or(ret < 0) FROM syscalls GROUP BY comm
SELECT top_k(name, 5) FROM syscalls
SELECT approx_distinct(pid) FROM syscalls
SELECT comm, stddev(latency_ns), median(latency_ns) FROM syscalls GROUP BY comm
SELECT greatest(latency_ns, 1000), least(ret, 0) FROM syscalls LIMIT 3
SELECT count(*) FROM syscalls WHERE name = 'execve' AND uid = 0
SELECT upper(comm), length(comm) FROM syscalls LIMIT 1
SELECT comm, count(*) FROM syscalls WHERE pid BETWEEN 1 AND 1000 GROUP BY comm
SELECT iif(ret < 0, 'bad', 'good') AS r, count(*) FROM syscalls GROUP BY r
SELECT starts_with(comm, 'k') AS kernel, count(*) FROM syscalls GROUP BY kernel
SELECT trim(comm), lpad(pid::text, 6) FROM syscalls LIMIT 2
SELECT sign(ret), count(*) FROM syscalls GROUP BY sign(ret)
SELECT * FROM tracepoint.sched.sched_process_exec
SELECT text0, count(*) FROM uprobe.'/lib/x86_64-linux-gnu/libc.so.6:getaddrinfo' GROUP BY text0
EXPLAIN SELECT count(*) FROM syscalls
SELECT question FROM dns
SELECT path FROM http
SELECT pod, count(*) FROM syscalls GROUP BY pod
SELECT comm, sum(bytes) FROM file_reads GROUP BY comm
SELECT comm, count FROM fn.vfs_read WHERE ret > 4KiB
";

/// Fifty more, in the words of other engines: DuckDB's, ClickHouse's, PostgreSQL's, SQL Server's. One question a line.
const OF_OTHER_ENGINES: &str = "
SELECT now() - ts FROM syscalls LIMIT 1
SELECT comm, count(*) c FROM syscalls GROUP BY ALL ORDER BY c DESC
SELECT comm, count(*) FROM syscalls GROUP BY 1 ORDER BY 2 DESC FETCH FIRST 5 ROWS ONLY
SELECT TOP 10 comm, count(*) FROM syscalls GROUP BY comm
SELECT comm, name, count(*) FROM syscalls GROUP BY ROLLUP (comm, name)
SELECT comm, name, count(*) FROM syscalls GROUP BY GROUPING SETS ((comm), (name))
SELECT DISTINCT ON (comm) comm, name, latency_ns FROM syscalls ORDER BY comm, latency_ns DESC
SELECT comm, arg_max(name, latency_ns) FROM syscalls GROUP BY comm
SELECT comm, max_by(name, latency_ns) FROM syscalls GROUP BY comm
SELECT comm, array_agg(DISTINCT name) FROM syscalls GROUP BY comm
SELECT comm, variance(latency_ns) FROM syscalls GROUP BY comm
SELECT corr(latency_ns, ret) FROM syscalls
SELECT comm, mode() WITHIN GROUP (ORDER BY name) FROM syscalls GROUP BY comm
SELECT width_bucket(latency_ns, 0, 1000000, 10) AS b, count(*) FROM syscalls GROUP BY b
SELECT comm, count_if(ret < 0) FROM syscalls GROUP BY comm
SELECT comm, countIf(ret < 0) FROM syscalls GROUP BY comm
SELECT time_bucket('1 second', ts) AS t, count(*) FROM syscalls GROUP BY t
SELECT comm, approx_percentile(latency_ns, 0.99) FROM syscalls GROUP BY comm
SELECT comm, p999(latency_ns) FROM syscalls GROUP BY comm
SELECT comm, p99.9(latency_ns) FROM syscalls GROUP BY comm
SELECT * EXCLUDE (cgroup_id) FROM syscalls LIMIT 1
SELECT COUNT(1) FROM syscalls
SELECT comm, count() FROM syscalls GROUP BY comm
SELECT comm, count(*) FROM syscalls WHERE comm IN (SELECT comm FROM processes WHERE uid = 0) GROUP BY comm
SELECT s.comm, p.cmdline, count(*) FROM syscalls s LEFT JOIN processes p ON p.pid = s.pid GROUP BY 1, 2
SELECT comm, name, sum(latency_ns) AS total FROM syscalls GROUP BY comm, name QUALIFY row_number() OVER (PARTITION BY comm ORDER BY total DESC) = 1
SELECT comm FROM syscalls WHERE ret = -ENOENT
SELECT comm FROM syscalls WHERE errno = 'ENOENT'
SELECT comm, path FROM file_opens WHERE path GLOB '/etc/*'
SELECT comm, path FROM file_opens WHERE path SIMILAR TO '/etc/%'
SELECT comm, path FROM file_opens WHERE contains(path, 'passwd')
SELECT ends_with(path, '.so'), count(*) FROM file_opens GROUP BY 1
SELECT comm, latency_ns / 1e6 AS \"latency (ms)\" FROM syscalls WHERE name = 'fsync'
SELECT comm, format('%d', pid) FROM syscalls LIMIT 1
SELECT comm, CASE name WHEN 'read' THEN 'r' WHEN 'write' THEN 'w' END AS k, sum(ret) FROM syscalls GROUP BY comm, k
SELECT max(latency_ns), min(latency_ns), avg(latency_ns) FROM syscalls WHERE name LIKE '%sync%'
SELECT comm, sum(bytes) / 1024 / 1024 AS mb FROM file_writes GROUP BY comm ORDER BY mb DESC
SELECT path, sum(bytes) FROM file_writes WHERE path LIKE '%.log' GROUP BY path
SELECT f.path, count(*) FROM file_opens f JOIN processes p ON p.pid = f.pid WHERE p.exe LIKE '%nginx%' GROUP BY f.path
SELECT daddr, sum(bytes_sent), sum(bytes_received) FROM tcp_closes GROUP BY daddr
SELECT daddr, avg(rtt_us) FROM tcp_closes GROUP BY daddr ORDER BY 2 DESC
SELECT question, count(*), p99(latency_ns) FROM dns GROUP BY question
SELECT comm, kstack, sum(off_ns) FROM off_cpu GROUP BY comm, kstack ORDER BY 3 DESC LIMIT 20
SELECT comm, sum(run_ns) FROM on_cpu GROUP BY comm WINDOW 1 SECOND
SELECT ifnull(container, 'host') AS where_, count(*) FROM syscalls GROUP BY where_
SELECT c.comm AS child, p.comm AS parent FROM execs c JOIN processes p ON p.pid = c.ppid
SELECT comm, latency_ns FROM syscalls ORDER BY latency_ns DESC LIMIT 10
SELECT comm, avg(latency_ns)::int FROM syscalls GROUP BY comm
SELECT comm, flags & ~1 AS f FROM (SELECT comm, args[2] AS flags FROM syscalls WHERE name = 'openat')
SELECT comm, count, ret FROM fn.vfs_read WHERE ret < 0
";

/// Fifteen more of both kinds. One question a line.
const LATER: &str = "
SELECT TOP 5 comm, sum(run_ns) AS ns FROM on_cpu GROUP BY comm ORDER BY ns DESC
SELECT comm, avg(wait_ns) / 1ms AS ms FROM runq GROUP BY comm HAVING avg(wait_ns) > 1ms
SELECT path, count(*) AS n, sum(bytes) AS total FROM file_reads GROUP BY path ORDER BY total DESC NULLS LAST LIMIT 20
SELECT comm, count(*) FROM file_opens WHERE path LIKE '/proc/%' AND NOT comm IN ('top', 'ps') GROUP BY comm
SELECT time_bucket('10 seconds', ts) AS t, count(*) FROM execs GROUP BY t ORDER BY t
SELECT daddr, dport, max(latency_ns) AS slowest FROM tcp_connects WHERE dport IN (80, 443) GROUP BY daddr, dport ORDER BY slowest DESC
SELECT comm, count(*) FILTER (WHERE ret = -EAGAIN) AS again, count(*) FROM syscalls WHERE name = 'recvfrom' GROUP BY comm
SELECT comm, sum(off_ns) / 1e9 AS seconds FROM off_cpu GROUP BY comm ORDER BY seconds DESC LIMIT 5
SELECT e.comm, e.filename, p.comm AS parent FROM execs e LEFT JOIN processes p ON p.pid = e.ppid
SELECT comm, name, count(*) FROM syscalls GROUP BY CUBE (comm, name)
SELECT server, count(*), avg(latency_ns) FROM dns WHERE rcode <> 'NOERROR' GROUP BY server
SELECT comm, arg_max(path, latency_ns) AS slowest, max(latency_ns) FROM file_reads GROUP BY comm
SELECT container, sum(bytes) FROM packets_sent GROUP BY container
SELECT comm, array_agg(DISTINCT name ORDER BY name) FROM syscalls WHERE ret = -EPERM GROUP BY comm
SELECT username, count(*) FROM syscalls GROUP BY username
";

/// Each question that is refused, words of the help that the refusal has, and the query with these words that is answered.
const MENDED: [[&str; 3]; 7] = [
    [
        "SELECT e.comm FROM execs e JOIN exits x ON e.pid = x.pid",
        "JOIN exits x ON e.pid = x.pid WITHIN 5 SECONDS",
        "SELECT e.comm FROM execs e JOIN exits x ON e.pid = x.pid WITHIN 5 SECONDS",
    ],
    [
        "SELECT e.comm FROM execs e, exits x WHERE e.pid = x.pid",
        "WINDOW 1 SECOND",
        "SELECT e.comm FROM execs e, exits x WHERE e.pid = x.pid WINDOW 1 SECOND",
    ],
    ["SELECT path FROM http", "split_part(line, ' ', 2)", "SELECT split_part(line, ' ', 2) FROM http"],
    ["SELECT now() - ts FROM syscalls LIMIT 1", "WINDOW 1 SECOND", "SELECT count(*) FROM syscalls WINDOW 1 SECOND"],
    [
        "SELECT comm FROM syscalls WHERE errno = 'ENOENT'",
        "ret = -ENOENT",
        "SELECT comm FROM syscalls WHERE ret = -ENOENT",
    ],
    [
        "SELECT comm, format('%d', pid) FROM syscalls LIMIT 1",
        "concat(comm, '/', pid)",
        "SELECT comm, concat(comm, '/', pid) FROM syscalls LIMIT 1",
    ],
    [
        "SELECT username, count(*) FROM syscalls GROUP BY username",
        "JOIN users u USING (uid)",
        "SELECT u.name, count(*) FROM syscalls JOIN users u USING (uid) GROUP BY u.name",
    ],
];

/// Maximum part of each list that may be refused: those that need a time for a join, a calendar, or another column.
const REFUSED: [f64; 3] = [0.03, 0.07, 0.2];

#[test]
fn most_of_what_people_type_first_is_answered() {
    for (questions, most) in [QUESTIONS, OF_OTHER_ENGINES, LATER].into_iter().zip(REFUSED) {
        let all: Vec<&str> = questions.lines().filter(|line| !line.is_empty()).collect();
        let Some(refused) = refused(&all) else { return };
        println!("{} of {} questions are answered", all.len() - refused.len(), all.len());
        for (sql, why) in &refused {
            println!("{sql}\n  {}", why.replace('\n', "\n  "));
            // What cannot be parsed is shown with its place.
            let is_parsed = !why.starts_with("Expected: ") && !why.starts_with("No infix parser");
            let must_help = is_parsed && cfg!(feature = "engine");
            assert!(why.contains("help: ") || !must_help, "it says what to write instead: {sql}\n{why}");
        }
        // Without the engine, only what Kiln's own plans can do is answered.
        let allowed = if cfg!(feature = "engine") { most } else { 0.6 };
        assert!(refused.len() as f64 <= allowed * all.len() as f64, "{} of {} are refused", refused.len(), all.len());
    }
}

/// The questions that have no plan, with the reason; `None` without the kernel's types.
fn refused<'q>(all: &[&'q str]) -> Option<Vec<(&'q str, String)>> {
    let mut refused = Vec::new();
    for sql in all {
        let session = match Session::new(sql) {
            Ok(session) => session,
            Err(kiln_driver::Error::Unsupported(why)) => {
                println!("skipped: {why}");
                return None;
            }
            Err(error) => {
                refused.push((*sql, error.to_string()));
                continue;
            }
        };
        if let Err(error) = plan::plan(&session, &Settings::default(), None) {
            refused.push((*sql, error.to_string()));
        }
    }
    Some(refused)
}

#[test]
fn a_refusal_names_the_query_that_works() {
    let lists = [QUESTIONS, OF_OTHER_ENGINES, LATER];
    let all: Vec<&str> = lists.iter().flat_map(|list| list.lines()).filter(|line| !line.is_empty()).collect();
    let mended: Vec<&str> = MENDED.iter().map(|[.., query]| *query).collect();
    let (Some(refused), Some(still)) = (refused(&all), refused(&mended)) else { return };
    if !cfg!(feature = "engine") {
        return println!("skipped: without the engine more is refused");
    }
    assert_eq!(still, [], "they are answered");
    assert_eq!(refused.len(), MENDED.len(), "{refused:?}");
    for (question, why) in refused {
        let known = MENDED.iter().find(|[own, ..]| *own == question);
        let [_, words, query] = known.unwrap_or_else(|| panic!("{question}: {why}"));
        let help = why.split("help: ").nth(1).unwrap_or_default();
        let said = help.contains(words.trim_start_matches("JOIN "));
        assert!(said && query.contains(words), "{question}: {help}");
    }
}

#[test]
fn queries_with_names_are_planned() {
    for query in kiln_driver::query::named::NAMED {
        let name = format!("@{}", query.name);
        let session = match Session::new(&name) {
            Ok(session) => session,
            Err(kiln_driver::Error::Unsupported(why)) => return println!("skipped: {why}"),
            Err(error) => panic!("{name}: {error}"),
        };
        match plan::plan(&session, &Settings::default(), None) {
            Ok(plan) => assert!(plan.steps.iter().all(|step| step.refused.is_none()), "{name}"),
            // A kernel may lack a tracepoint.
            Err(kiln_driver::Error::Unsupported(why)) => println!("{name}: {why}"),
            Err(error) => panic!("{name}: {error}"),
        }
    }
    let Err(kiln_driver::Error::InvalidQuery(why)) = Session::new("@runqlatt") else { return };
    assert!(why.contains("did you mean `runqlat`?"), "{why}");
}
