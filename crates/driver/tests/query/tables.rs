//! Tables of events: joins, addresses, texts, functions and stacks.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use kiln_driver::query::budget::{Sample, plan_within};
use kiln_driver::query::{Row, Settings, Split, Value};

use super::{may_load, own_thread, run, run_with, session};

#[test]
fn two_tables_of_events_are_joined_and_united() {
    if !may_load() {
        return;
    }
    let spawn = || {
        for _ in 0..5 {
            assert!(std::process::Command::new("true").status().expect("it runs").success());
        }
    };
    let own = std::process::id();
    let joined = format!(
        "SELECT e.comm, u.name, x.exit_code FROM execs e LEFT JOIN exits x ON e.pid = x.pid AND x.tid = x.pid \
         AND x.ts > e.ts WITHIN 5 SECONDS LEFT JOIN users u ON u.uid = e.uid WHERE e.ppid = {own} AND e.comm = 'true'"
    );
    let Some((rows, summary)) = run(&joined, None, spawn) else { return };
    assert!(summary.records >= 10, "both tables have programs: {}", summary.records);
    let expected = vec![Value::text("true"), Value::text("root"), Value::Int(0)];
    assert_eq!(rows.into_iter().map(|row| row.values).collect::<Vec<_>>(), vec![expected; 5]);
    let session = session(&joined).expect("it is a query");
    let (_, forecast) =
        plan_within(&session, &Settings::default(), None, Some(1.0), Sample::All).expect("it is planned");
    assert_eq!(forecast.map(|forecast| forecast.rates.len()), Some(2), "events of both tables are counted");
    let sampled = plan_within(&session, &Settings::default(), None, None, Sample::OneIn(4)).map(drop).expect_err("no");
    assert!(sampled.to_string().contains("leave out --sample"), "{sampled}");
    let united = format!(
        "SELECT what, count(DISTINCT pid) FROM (SELECT 'exec' AS what, pid FROM execs WHERE ppid = {own} AND comm = 'true' \
         UNION ALL SELECT 'exit', pid FROM exits WHERE ppid = {own} AND tid = pid AND comm = 'true') GROUP BY what"
    );
    for split in [None, Some(Split::Mvsf), Some(Split::Filter)] {
        let Some((rows, _)) = run(&united, split, spawn) else { return };
        let counts = ["exec", "exit"].map(|what| vec![Value::text(what), Value::Uint(5)]);
        assert_eq!(rows.into_iter().map(|row| row.values).collect::<Vec<_>>(), counts, "{split:?}");
    }
}

#[test]
fn addresses_and_ports_are_shown() {
    if !may_load() {
        return;
    }
    for (address, network) in [("127.0.0.1", "127.0.0.0/8"), ("::1", "::1/128")] {
        let Ok(listener) = std::net::TcpListener::bind((address, 0)) else { continue };
        let port = listener.local_addr().expect("it has one").port();
        // 1 is TCP_ESTABLISHED.
        let sql = format!(
            "SELECT saddr, daddr, dport FROM tcp_states WHERE daddr << '{network}' AND dport = {port} AND new = 1"
        );
        for split in [Split::Mvsf, Split::Filter] {
            let connect = || drop(std::net::TcpStream::connect((address, port)).expect("it listens"));
            let Some((rows, _)) = run(&sql, Some(split), connect) else { return };
            let expected = vec![Value::text(address), Value::text(address), Value::Uint(port.into())];
            assert_eq!(rows.into_iter().map(|row| row.values).collect::<Vec<_>>(), [expected], "{split:?}");
        }
    }
}

#[test]
fn texts_of_the_kernel_are_shown() {
    if !may_load() {
        return;
    }
    let own = std::process::id();
    let run_true = || assert!(std::process::Command::new("true").status().is_ok_and(|status| status.success()));
    let texts = |sql: &str, work: &dyn Fn()| -> Option<Vec<String>> {
        let (rows, _) = run(sql, None, work)?;
        Some(rows.into_iter().map(|row| row.values[0].to_string()).collect())
    };
    let execs = format!("SELECT filename FROM execs WHERE ppid = {own} AND comm = 'true'");
    let Some(found) = texts(&execs, &run_true) else { return };
    assert!(found.len() == 1 && found[0].ends_with("/true"), "{found:?}");
    // System call 2 of x86-64 is `open`, which the C library does not use.
    let perl =
        || drop(std::process::Command::new("perl").args(["-e", "my $f = '/etc/hostname'; syscall(2, $f, 0)"]).status());
    if cfg!(target_arch = "x86_64") && std::process::Command::new("perl").arg("-v").output().is_ok() {
        let opens = "SELECT path, dfd, flags FROM file_opens WHERE nr = 2 AND path = '/etc/hostname'";
        let Some(found) = texts(opens, &perl) else { return };
        assert_eq!(found, ["/etc/hostname"]);
    }
    if std::path::Path::new("/sys/kernel/tracing/events/sched").exists() {
        let recorded = "SELECT filename FROM tracepoint.sched.sched_process_exec WHERE comm = 'true'";
        let Some(found) = texts(recorded, &run_true) else { return };
        assert!(!found.is_empty() && found.iter().all(|name| name.ends_with("/true")), "{found:?}");
    }
}

#[test]
fn groups_can_be_by_stacks() {
    if !may_load() {
        return;
    }
    let sql = format!("SELECT kstack, count(*) AS n FROM sched_switches WHERE tid = {} GROUP BY kstack", own_thread());
    for split in [Split::Mvsf, Split::Columns, Split::Filter, Split::Aggregate] {
        let sleep = || (0..20).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
        let Some((rows, _)) = run(&sql, Some(split), sleep) else { return };
        let count: u64 = rows.iter().filter_map(|row| row.values[1].bits()).sum();
        assert!(count >= 20, "{split:?}: {rows:?}");
        // The innermost function is what was traced, not how programs are run.
        let sleeps = |row: &&Row| row.values[0].to_string().contains("nanosleep;");
        let slept: Vec<&Row> = rows.iter().filter(sleeps).collect();
        assert!(
            !slept.is_empty() && slept.iter().all(|row| row.values[0].to_string().ends_with("__schedule")),
            "{rows:?}"
        );
    }
}

#[test]
fn stacks_of_programs_have_names() {
    if !may_load() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [source, program] = ["stack.c", "kilnstack"].map(|name| folder.path().join(name));
    // It stays for a moment after its calls: the names of a process that is gone are not known.
    let text = "#include <unistd.h>\n\
                static long leaf(void) { long r; __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(110L) : \"rcx\", \"r11\", \
                \"memory\"); return r + 1; }\n\
                __attribute__((noinline)) long the_middle(void) { return leaf() + 1; }\n\
                int main(void) { for (int at = 0; at < 600; at++) the_middle(); sleep(1); return 0; }\n";
    std::fs::write(&source, text).expect("a file");
    let flags = ["-O0", "-fno-omit-frame-pointer", "-w", "-o"];
    let built = std::process::Command::new("cc").args(flags).args([&program, &source]).status();
    if !built.is_ok_and(|status| status.success()) || cfg!(not(target_arch = "x86_64")) {
        return println!("skipped: no C compiler for x86-64");
    }
    let sql = "SELECT ustack, count(*) FROM syscalls WHERE comm = 'kilnstack' AND name = 'getppid' GROUP BY ustack";
    for split in [Split::Pair, Split::Aggregate] {
        // The program has ended when groups are taken out of the kernel's map.
        let work = || assert!(std::process::Command::new(&program).status().expect("it runs").success());
        // A stack whose place in the kernel's map is taken is lost. Where programs begin differs from run to run, and
        // so does that place.
        let mut runs = (0..4).map_while(|_| run(sql, Some(split), work)).map(|(rows, _)| rows);
        let calls = |rows: &[Row], named: bool| -> u64 {
            let shown = |row: &&Row| match row.values[0].to_string().as_str() {
                "[lost]" => !named,
                stack => named && stack.ends_with("main;the_middle;leaf"),
            };
            rows.iter().filter(shown).filter_map(|row| row.values[1].bits()).sum()
        };
        let Some(mut rows) = runs.next() else { return };
        while calls(&rows, true) < 600 {
            assert_eq!(calls(&rows, true) + calls(&rows, false), 600, "{split:?}: {rows:?}");
            rows = runs.next().expect("a run whose stacks were kept");
        }
        assert_eq!(calls(&rows, true), 600, "{split:?}: {rows:?}");
    }
}

/// Keeps a processor busy under a name of its own.
#[inline(never)]
pub fn burn_the_processor(time: Duration) -> u64 {
    let begun = std::time::Instant::now();
    let mut number = 1u64;
    while begun.elapsed() < time {
        for _ in 0..10_000 {
            number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005) ^ 1);
        }
    }
    number
}

#[test]
fn samples_show_what_burns_the_processor() {
    if !may_load() {
        return;
    }
    let sql = format!("SELECT ustack, count(*) AS n FROM samples_999 WHERE tid = {} GROUP BY ustack", own_thread());
    for split in [Split::Mvsf, Split::Filter, Split::Aggregate] {
        let work = || {
            std::hint::black_box(burn_the_processor(Duration::from_millis(300)));
        };
        let Some((rows, _)) = run(&sql, Some(split), work) else { return };
        let of = |row: &&Row| row.values[0].to_string().contains("burn_the_processor");
        let burning: u64 = rows.iter().filter(of).filter_map(|row| row.values[1].bits()).sum();
        let all: u64 = rows.iter().filter_map(|row| row.values[1].bits()).sum();
        // On a busy machine the thread has a part of a processor.
        assert!(burning >= 10 && burning * 2 > all && all < 1000, "{split:?}: {burning} of {all}: {rows:?}");
    }
    // While a thread runs its program, it is in no function of the kernel, and no stack of it is lost.
    let sql = sql.replace("ustack", "kstack");
    let work = || {
        std::hint::black_box(burn_the_processor(Duration::from_millis(100)));
    };
    let Some((rows, _)) = run(&sql, None, work) else { return };
    let of = |text: &str| rows.iter().filter(|row| row.values[0].to_string() == text).count();
    assert!(of("") == 1 && of("[lost]") == 0, "{rows:?}");
}

#[test]
fn connections_begin_and_end() {
    if !may_load() {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let port = listener.local_addr().expect("it has one").port();
    let closed = {
        let other = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a port");
        other.local_addr().expect("it has one").port()
    };
    let connect = || {
        drop(std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens"));
        assert!(std::net::TcpStream::connect(("127.0.0.1", closed)).is_err(), "nobody listens");
    };
    let sql = format!(
        "SELECT dport, state, daddr, latency_ns FROM tcp_connects WHERE tid = {} AND dport IN ({port}, {closed}) \
         ORDER BY state",
        own_thread()
    );
    for split in [Split::Mvsf, Split::Columns, Split::Filter, Split::Pair] {
        let Some((rows, _)) = run(&sql, Some(split), connect) else { return };
        let own: Vec<_> = rows.iter().map(|row| row.values[..3].to_vec()).collect();
        let row = |port: u16, state: i64| vec![Value::Uint(port.into()), Value::Int(state), Value::text("127.0.0.1")];
        assert_eq!(own, [row(port, 1), row(closed, 7)], "{split:?}");
        let takes = |row: &Row| row.values[3].bits().is_some_and(|ns| (1..30_000_000_000).contains(&ns));
        assert!(rows.iter().all(takes), "{rows:?}");
    }
    let count = |sql: String| run(&sql, None, connect).and_then(|(rows, _)| rows[0].values[0].bits());
    let Some(accepted) = count(format!("SELECT count(*) FROM tcp_accepts WHERE sport = {port}")) else { return };
    assert_eq!(accepted, 1);
    let ended = count(format!("SELECT count(*) FROM tcp_closes WHERE dport = {closed}"));
    assert_eq!(ended, Some(1), "the connection that failed");
    // On this machine, the thread that connects runs where its own interrupts make rows.
    let without = Settings { except_pid: Some(std::process::id()), ..Settings::default() };
    for sql in [
        format!("SELECT count(*) FROM tcp_accepts WHERE sport = {port}"),
        format!("SELECT count(*) FROM tcp_closes WHERE dport = {closed}"),
    ] {
        let Some((rows, _)) = run_with(&without, &sql, None, connect) else { return };
        assert_eq!(rows[0].values[0], Value::Uint(1), "{sql}");
    }
}

#[test]
fn closed_connections_say_what_they_carried() {
    if !may_load() {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let port = listener.local_addr().expect("it has one").port();
    let talk = || {
        let mut own = std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let (mut peer, _) = listener.accept().expect("it is asked for");
        own.write_all(&[7; 10_000]).expect("it is sent");
        peer.read_exact(&mut [0; 10_000]).expect("it arrives");
        peer.write_all(&[7; 3_000]).expect("it is sent");
        own.read_exact(&mut [0; 3_000]).expect("it arrives");
        drop(own);
        assert_eq!(peer.read(&mut [0; 1]).expect("it ends"), 0);
    };
    let sql =
        format!("SELECT bytes_sent, bytes_received, retransmits, rtt_us > 0 FROM tcp_closes WHERE dport = {port}");
    in_every_split(&sql, &talk, &|split, rows| {
        assert_eq!(rows, [["10000", "3001", "0", "true"]], "{split:?}");
    });
    // Both ends, each from its beginning to its end, with all states between them passed over.
    let sql = format!(
        "SELECT began, sport = {port}, dport = {port}, bytes_sent, duration_ns BETWEEN 1 AND 1s, pid = {} FROM tcp_connections \
         WHERE dport = {port} OR sport = {port} ORDER BY began",
        std::process::id()
    );
    in_every_split(&sql, &talk, &|split, rows| {
        assert_eq!(rows.len(), 2, "{split:?}: {rows:?}");
        assert_eq!(rows[0], ["2", "false", "true", "10000", "true", "true"], "{split:?}");
        assert_eq!(rows[1][..5], ["3", "true", "false", "3000", "true"], "{split:?}");
    });
}

#[test]
fn cgroups_and_threads_that_wait_have_names() {
    if !may_load() {
        return;
    }
    let own = own_thread();
    let sql = format!(
        "SELECT cgroup, cgroup_id, count(*) FROM syscalls WHERE tid = {own} AND name = 'getppid' GROUP BY cgroup, cgroup_id"
    );
    let Some((rows, _)) = run(&sql, None, || super::call(3)) else { return };
    let path = rows[0].values[0].to_string();
    if let Ok(known) = kiln_driver::query::cgroups::of_path(std::path::Path::new(&path)) {
        assert_eq!(known.first().copied(), rows[0].values[1].bits(), "{path}");
        assert_eq!(rows[0].values[2], Value::Uint(3));
    }
    let comm = std::fs::read_to_string(format!("/proc/self/task/{own}/comm")).expect("it runs");
    let sql = format!("SELECT DISTINCT comm FROM runq WHERE tid = {own}");
    for split in [Split::Mvsf, Split::Pair] {
        let sleep = || (0..5).for_each(|_| std::thread::sleep(Duration::from_millis(2)));
        let Some((rows, _)) = run(&sql, Some(split), sleep) else { return };
        assert_eq!(rows.iter().map(|row| row.values.clone()).collect::<Vec<_>>(), [vec![Value::text(comm.trim_end())]]);
    }
}

/// A memory cgroup with a limit, in either version.
fn limited_cgroup(bytes: u64) -> Option<std::path::PathBuf> {
    let name = format!("kiln-oom-{}", std::process::id());
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")].into_iter().find_map(
        |(root, limit)| {
            let folder = std::path::Path::new(root).join(&name);
            std::fs::create_dir(&folder).ok()?;
            let made = std::fs::write(folder.join(limit), bytes.to_string());
            // Without this, memory would be swapped out first.
            let _ = std::fs::write(folder.join("memory.swap.max"), "0");
            made.inspect_err(|_| drop(std::fs::remove_dir(&folder))).ok().map(|()| folder)
        },
    )
}

#[test]
fn processes_that_are_killed_for_memory_are_named() {
    if !may_load() {
        return;
    }
    if !std::path::Path::new("/sys/kernel/tracing/events/oom/mark_victim").exists() {
        return println!("skipped: tracefs is not mounted here");
    }
    let Some(folder) = limited_cgroup(16 << 20) else { return println!("skipped: no memory cgroup") };
    let hungry = || {
        let script = format!("echo $$ > {}/cgroup.procs && exec tail /dev/zero", folder.display());
        let ended = std::process::Command::new("/bin/sh").args(["-c", &script]).status();
        assert!(ended.is_ok_and(|status| !status.success()));
    };
    let sql = "SELECT victim_comm, victim_pid, anon_kb FROM oom_kills WHERE victim_comm = 'tail'";
    let ran = run(sql, None, hungry);
    std::fs::remove_dir(&folder).expect("nothing is left in it");
    let Some((rows, _)) = ran else { return };
    assert!(!rows.is_empty() && rows[0].values[2].bits().is_some_and(|kib| kib > 1 << 10), "{rows:?}");
}

#[cfg(feature = "engine")]
#[test]
fn the_engine_answers_live() {
    if !may_load() {
        return;
    }
    let own = own_thread();
    let rows = |sql: &str| -> Option<Vec<Vec<Value>>> {
        let (rows, _) = run(sql, None, || super::call(40))?;
        Some(rows.into_iter().map(|row| row.values).collect())
    };
    // Groups are the kernel's, what is shown of them the engine's.
    let grouped = format!(
        "SELECT upper(name) || '!', count(*) AS n, rank() OVER (ORDER BY count(*) DESC), round(avg(ret) * 0.0, 2) \
         FROM syscalls WHERE tid = {own} AND name = 'getppid' GROUP BY name"
    );
    let session = session(&grouped).expect("it is a query");
    assert!(Split::of(session.query()).contains(&Split::Filter));
    let Some(found) = rows(&grouped) else { return };
    assert_eq!(found, [[Value::text("GETPPID!"), Value::Uint(40), Value::Uint(1), Value::Float(0.0)]]);
    let Some(found) =
        rows(&format!("SELECT count(*) FROM syscalls WHERE tid = {own} AND name ~ '^get.pid$' AND latency_ns < 10s"))
    else {
        return;
    };
    assert_eq!(found, [[Value::Uint(40)]]);
    // Rows are shown as they come, and the query ends where it has them.
    let Some(found) =
        rows(&format!("SELECT substr(name, 1, 3) FROM syscalls WHERE tid = {own} AND name = 'getppid' LIMIT 3"))
    else {
        return;
    };
    assert_eq!(found, vec![vec![Value::text("get")]; 3]);
    // Rows of a lookup table are there once, whenever the events come.
    let united = format!(
        "SELECT s.ret = 0 FROM syscalls s WHERE s.tid = {own} AND s.name = 'getppid' \
         UNION ALL SELECT errno > 1 FROM errno WHERE errno < 3"
    );
    let Some(mut found) = rows(&united) else { return };
    found.sort();
    assert_eq!(found.iter().filter(|row| row[0] == Value::Bool(true)).count(), 1, "{found:?}");
    assert_eq!(found.len(), 42);
    // The mean of integers is exact, and so are great numbers that are rounded.
    let numbers = "SELECT avg(CASE errno WHEN 1 THEN 9223372036854775807 WHEN 2 THEN -9223372036854775807 ELSE 1000 END), \
                   max(round(6148914691236516864.0, 2)), max(length(lpad('x', 300000))) FROM errno WHERE errno < 5";
    let Some(found) = rows(numbers) else { return };
    assert_eq!(found, [[Value::Float(500.0), Value::Float(6_148_914_691_236_516_864.0), Value::Uint(300_000)]]);
    let me = std::process::id();
    let Some(found) = rows(&format!("SELECT pid FROM processes WHERE pid = {me} AND nullif(comm, '') IS NOT NULL"))
    else {
        return;
    };
    assert_eq!(found, [[Value::Uint(me.into())]]);
    let Some(found) = rows(&format!(
        "SELECT count(*) FROM (SELECT name FROM syscalls WHERE tid = {own} AND name = 'getppid' \
         EXCEPT SELECT name FROM syscalls WHERE tid = {own} AND name = 'gettid') x"
    )) else {
        return;
    };
    assert_eq!(found, [[Value::Uint(1)]]);
}

/// A row of texts and numbers, without the times.
fn shown(rows: Vec<Row>) -> Vec<Vec<String>> {
    rows.into_iter().map(|row| row.values.iter().map(Value::to_string).collect()).collect()
}

/// Runs a query in each of its splits.
pub fn in_every_split(sql: &str, work: &dyn Fn(), check: &dyn Fn(Split, Vec<Vec<String>>)) {
    let Some(session) = session(sql) else { return };
    let splits = Split::of(session.query());
    // Of single events there are no pairs to make.
    let least = if session.query().table.is_pair() { 4 } else { 3 };
    assert!(splits.len() >= least, "{sql}: {splits:?}");
    for split in splits {
        let Some((rows, _)) = run(sql, Some(split), work) else { return };
        check(split, shown(rows));
    }
}

/// A message that asks for a name's addresses, or answers with a code and so many records.
fn message(id: u16, name: &str, flags: u16, answers: u16) -> Vec<u8> {
    let mut bytes: Vec<u8> = [id, flags, 1, answers, 0, 0].into_iter().flat_map(u16::to_be_bytes).collect();
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    // The name's end, AAAA, IN.
    bytes.extend([0, 0, 28, 0, 1]);
    bytes
}

#[test]
fn names_that_are_asked_for_are_seen_with_their_answers() {
    if !may_load() {
        return;
    }
    let _network = match kiln_linux::OwnNetwork::enter() {
        Ok(network) => network,
        Err(error) => return println!("skipped: {error}"),
    };
    let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
    if !up.is_ok_and(|status| status.success()) {
        return println!("skipped: no `ip`");
    }
    // One fits into what is kept of an answer, the other does not.
    let [long, too_long] = [9, 11].map(|labels| vec!["a234567890"; labels].join("."));
    for address in ["127.0.0.1", "::1"] {
        let bind = |port| std::net::UdpSocket::bind((address, port));
        let (Ok(server), Ok(asker)) = (bind(53), bind(0)) else { continue };
        let [port, other] = [&asker, &bind(0).expect("a port")].map(|one| one.local_addr().expect("it has one").port());
        for socket in [&server, &asker] {
            socket.set_read_timeout(Some(Duration::from_secs(10))).expect("it is set");
        }
        asker.connect((address, 53)).expect("it is there");
        let mut buffer = [0; 512];
        let buffer = std::cell::RefCell::new(&mut buffer);
        let ask = |question: &[u8], answer: Option<Vec<u8>>| {
            asker.send(question).expect("it is sent");
            let mut buffer = buffer.borrow_mut();
            let (length, from) = server.recv_from(&mut **buffer).expect("it arrives");
            assert_eq!((&buffer[..length], from.port()), (question, port));
            if let Some(answer) = answer {
                server.send_to(&answer, from).expect("it is sent");
                assert_eq!(asker.recv(&mut **buffer).expect("it arrives"), answer.len());
            }
        };
        let work = || {
            ask(&message(7, "www.Example.org", 0x100, 0), Some(message(7, "www.Example.org", 0x8180, 2)));
            // No answer, an answer to another question, and too short for a message.
            ask(&message(8, "lost.example", 0x100, 0), None);
            ask(&message(9, "odd.example", 0x100, 0), Some(message(10, "odd.example", 0x8180, 1)));
            ask(&[1; 11], Some(vec![1; 11]));
            ask(&message(11, "none.example", 0x100, 0), Some(message(11, "none.example", 0x8183, 0)));
            ask(&message(12, &long, 0x100, 0), Some(message(12, &long, 0x8180, 0)));
            ask(&message(13, &too_long, 0x100, 0), Some(message(13, &too_long, 0x8180, 0)));
        };
        let (network, own) = (format!("{address}/{}", if address == "::1" { 128 } else { 8 }), own_thread());
        let sql = format!(
            "SELECT name, type, rcode, answers, server, sport FROM dns WHERE tid = {own} AND sport = {port} \
             AND server << '{network}' AND latency_ns BETWEEN 1 AND 30000000000"
        );
        let port_text = port.to_string();
        let row = |name: &str, code: &str, answers: &str| {
            [name, "AAAA", code, answers, address, &port_text].map(str::to_owned).to_vec()
        };
        in_every_split(&sql, &work, &|split, rows| {
            let expected = [
                row("www.example.org", "NOERROR", "2"),
                row("none.example", "NXDOMAIN", "0"),
                row(&long, "NOERROR", "0"),
                ["null", "null", "NOERROR", "0", address, &port_text].map(str::to_owned).to_vec(),
            ];
            assert_eq!(rows, expected, "{split:?}");
        });
        let grouped = format!(
            "SELECT family, sport, count(*) FROM dns WHERE tid = {own} AND sport IN ({port}, {other}) GROUP BY family, sport"
        );
        let family = if address == "::1" { "10" } else { "2" };
        in_every_split(&grouped, &work, &|split, rows| assert_eq!(rows, [[family, &port_text, "4"]], "{split:?}"));
    }
}

#[test]
fn files_that_are_read_and_written_are_named() {
    use std::io::{Read as _, Seek as _, Write as _};
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};

    if !may_load() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let deep = folder.path().join("one/two/three");
    std::fs::create_dir_all(&deep).expect("folders");
    let long = "n".repeat(70);
    for (path, name, path_shown) in [
        (deep.join("known"), "known", ".../one/two/three/known"),
        (deep.join(&long), &long[..63], &*format!(".../one/two/three/{}", &long[..63])),
    ] {
        let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.expect("a file");
        let metadata = file.metadata().expect("it has some");
        let device = metadata.dev();
        let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        let inode = metadata.ino().to_string();
        let work = || {
            let mut file = &file;
            file.rewind().expect("it has a beginning");
            file.write_all(&[1; 100]).expect("it is written");
            file.write_all_at(&[2; 20], 100).expect("it is written");
            file.rewind().expect("it has a beginning");
            let mut bytes = [0; 300];
            assert_eq!(file.read(&mut bytes).expect("it is read"), 120);
            assert_eq!(file.read_at(&mut bytes[..7], 3).expect("it is read"), 7);
            assert_eq!(file.read(&mut bytes).expect("it is at its end"), 0);
            // No regular file, and a call that fails.
            let (mut one, mut other) = std::os::unix::net::UnixStream::pair().expect("sockets");
            one.write_all(&[3; 5]).expect("it is sent");
            assert_eq!(other.read(&mut bytes).expect("it arrives"), 5);
            drop(std::fs::File::open("/").expect("it is there").read(&mut bytes).expect_err("a directory"));
        };
        let own = own_thread();
        for (table, lengths) in [("file_reads", &["120", "7", "0"][..]), ("file_writes", &["100", "20"])] {
            let sql =
                format!("SELECT name, path, device, inode, ret FROM {table} WHERE tid = {own} AND latency_ns > 0");
            let expected: Vec<_> = lengths
                .iter()
                .map(|ret| [name, path_shown, &device, &inode, ret].map(str::to_owned).to_vec())
                .collect();
            in_every_split(&sql, &work, &|split, rows| {
                let ours: Vec<_> = rows.into_iter().filter(|row| row[3] == inode).collect();
                assert_eq!(ours, expected, "{split:?}");
            });
            let bytes: u64 = lengths.iter().map(|ret| ret.parse::<u64>().expect("a number")).sum();
            let grouped = format!(
                "SELECT name, inode, count(*), sum(ret) FROM {table} WHERE tid = {own} AND inode = {inode} GROUP BY name, inode"
            );
            let sums = [name, &inode, &lengths.len().to_string(), &bytes.to_string()].map(str::to_owned);
            in_every_split(&grouped, &work, &|split, rows| assert_eq!(rows, std::slice::from_ref(&sums), "{split:?}"));
        }
    }
}

#[test]
fn messages_of_http_are_seen() {
    use std::io::{Read as _, Write as _};

    if !may_load() {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let mut client = std::net::TcpStream::connect(listener.local_addr().expect("it has one")).expect("it listens");
    let mut server = listener.accept().expect("it asked").0;
    let client = std::cell::RefCell::new(&mut client);
    let server = std::cell::RefCell::new(&mut server);
    let work = || {
        let (mut client, mut server) = (client.borrow_mut(), server.borrow_mut());
        let mut bytes = [0; 256];
        for (text, answer) in
            [("GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404 Not Found\r\n\r\n"), ("hello", "GETS")]
        {
            client.write_all(text.as_bytes()).expect("it is sent");
            assert_eq!(server.read(&mut bytes).expect("it arrives"), text.len());
            server.write_all(answer.as_bytes()).expect("it is sent");
            assert_eq!(client.read(&mut bytes).expect("it arrives"), answer.len());
        }
    };
    let sql = format!("SELECT call, line FROM http WHERE tid = {}", own_thread());
    in_every_split(&sql, &work, &|split, rows| {
        let lines: Vec<&str> = rows.iter().map(|row| &*row[1]).collect();
        let [ask, answer] = ["GET /a?b HTTP/1.1", "HTTP/1.1 404 Not Found"];
        assert_eq!(lines, [ask, ask, answer, answer], "{split:?}");
        // `write` and `read`, or what the standard library has for sockets.
        let calls: Vec<&str> = rows.iter().map(|row| &*row[0]).collect();
        let known = |[sent, received]: [&str; 2]| {
            ["write", "sendto"].contains(&sent) && ["read", "recvfrom"].contains(&received)
        };
        assert!(known([calls[0], calls[1]]) && known([calls[2], calls[3]]), "{split:?}: {calls:?}");
    });
}
