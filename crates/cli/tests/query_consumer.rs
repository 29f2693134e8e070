//! What becomes of a query whose process is killed, and of one in a time namespace.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long one condition may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A process that is killed with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn may_load() -> bool {
    kiln_driver::require_kernel().map_err(|why| println!("skipped: {why}")).is_ok()
}

/// The programs that a process holds, by their numbers in the kernel.
fn programs(process: u32) -> Vec<u32> {
    let files = std::fs::read_dir(format!("/proc/{process}/fdinfo")).into_iter().flatten().flatten();
    let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    texts.filter_map(|text| text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok())).collect()
}

fn is_loaded(program: u32) -> bool {
    let output = Command::new("bpftool").args(["prog", "show", "id", &program.to_string()]).output();
    output.is_ok_and(|output| output.status.success())
}

/// Waits until something is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn nothing_is_left_attached_when_a_query_is_killed() {
    if !Command::new("bpftool").arg("version").output().is_ok_and(|output| output.status.success()) {
        return println!("skipped: no bpftool is installed");
    }
    if !may_load() {
        return;
    }
    let sql = "SELECT name, count(*) FROM syscalls GROUP BY name WINDOW 1 S";
    let mut kiln = Command::new(env!("CARGO_BIN_EXE_kiln"));
    kiln.args(["query", sql, "--duration", "60s"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut query = Killed(kiln.spawn().expect("kiln runs"));
    until("two programs are loaded", || programs(query.0.id()).len() >= 2);
    let programs = programs(query.0.id());
    assert!(programs.iter().all(|program| is_loaded(*program)), "{programs:?}");
    query.0.kill().expect("it runs");
    query.0.wait().expect("it ends");
    // The kernel frees what nobody holds after a grace period.
    until("programs are left", || !programs.iter().any(|program| is_loaded(*program)));
}

/// In a time namespace, this process's monotonic clock is ahead of the one that programs read, or behind it.
#[test]
fn windows_end_in_time_namespaces() {
    if !may_load() {
        return;
    }
    let within = |offset: &str| {
        let mut command = Command::new("unshare");
        command.args(["--time", "--monotonic", offset, "--fork", "--kill-child"]);
        command
    };
    for offset in ["1000000", "-20"] {
        if !within(offset).arg("true").output().is_ok_and(|output| output.status.success()) {
            return println!("skipped: no time namespaces");
        }
        let _work =
            Killed(Command::new("sh").args(["-c", "while :; do /bin/true; sleep 0.01; done"]).spawn().expect("sh"));
        let sql = "SELECT count(*) AS n FROM forks WINDOW 100 MS";
        let mut command = within(offset);
        command.arg(env!("CARGO_BIN_EXE_kiln")).args(["query", sql, "--format", "ndjson", "--duration", "2s"]);
        let begun = Instant::now();
        let mut query = Killed(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs"));
        let mut lines = BufReader::new(query.0.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let first = lines.next().unwrap_or_else(|| panic!("{offset}: no window ended"));
        let after = begun.elapsed();
        let count = 1 + lines.count();
        let said = std::io::read_to_string(query.0.stderr.take().expect("a pipe")).expect("it says how it went");
        assert!(first.contains("\"n\""), "{offset}: {first}");
        assert!(
            after < Duration::from_millis(1800) && count >= 8,
            "{offset}: {count} windows, the first after {after:?}"
        );
        assert!(said.contains("nothing lost"), "{offset}: {said}");
    }
}

#[test]
fn a_traced_command_begins_at_its_exec() {
    if !may_load() {
        return;
    }
    let mut kiln = Command::new(env!("CARGO_BIN_EXE_kiln"));
    let output = kiln.args(["query", "SELECT name FROM syscalls", "--format", "csv", "--", "true"]).output();
    let output = output.expect("kiln runs");
    let rows = String::from_utf8_lossy(&output.stdout);
    let first = rows.lines().nth(1);
    assert_eq!(first, Some("execve"), "{rows}{}", String::from_utf8_lossy(&output.stderr));
}

/// How long after its end each window is shown, in milliseconds and in order.
fn latencies_ms(sql: &str, duration: &str) -> Vec<f64> {
    let mut kiln = Command::new(env!("CARGO_BIN_EXE_kiln"));
    kiln.args(["query", sql, "--format", "csv", "--duration", duration]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut query = Killed(kiln.spawn().expect("kiln runs"));
    let mut latencies = Vec::new();
    for line in BufReader::new(query.0.stdout.take().expect("a pipe")).lines().map_while(Result::ok).skip(1) {
        let now = kiln_driver::query::live::now_ns();
        let end = line.split(',').nth(1).and_then(|end| end.parse::<f64>().ok()).unwrap_or_else(|| panic!("{line}"));
        latencies.push((now as f64 - end) / 1e6);
    }
    // The last window is shown when the query ends, before it does.
    latencies.retain(|latency| *latency >= 0.0);
    latencies.sort_by(f64::total_cmp);
    latencies
}

#[test]
#[ignore = "a measurement: how long after its end a window is shown, with `--ignored --nocapture`"]
fn measure_latency_of_windows() {
    let sql = "SELECT count(*) FROM syscalls WINDOW 100 MS";
    let latencies = latencies_ms(sql, "30s");
    let part = |part: usize| latencies[(latencies.len() - 1) * part / 100];
    println!("{} windows: p50 {:.1} ms, p99 {:.1} ms, most {:.1} ms", latencies.len(), part(50), part(99), part(100));
}
