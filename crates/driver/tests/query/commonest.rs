//! The eight commonest questions, against what this thread did: every count is exact, in every split.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;
use std::time::Duration;

use super::tables::in_every_split;
use super::{call, may_load, own_thread};

/// Asks in every split; the rows must be these.
fn expect(sql: &str, work: &dyn Fn(), rows: &[&[&str]]) {
    in_every_split(sql, work, &|split, answer| assert_eq!(answer, rows, "{sql}: {split:?}"));
}

#[test]
fn calls_their_time_and_their_errors_are_counted() {
    if !may_load() {
        return;
    }
    let own = own_thread();
    let calls = format!("SELECT name, count(*) FROM syscalls WHERE tid = {own} AND name = 'getppid' GROUP BY name");
    expect(&calls, &|| call(1234), &[&["getppid", "1234"]]);
    let sleeps = || (0..7).for_each(|_| std::thread::sleep(Duration::from_millis(2)));
    let slow = format!(
        "SELECT name, count(*) FROM syscalls WHERE tid = {own} AND name = 'clock_nanosleep' AND latency_ns >= 2ms GROUP BY name"
    );
    expect(&slow, &sleeps, &[&["clock_nanosleep", "7"]]);
    let missing = "/proc/self/no-such-file-of-the-eight";
    let opens = || (0..5).for_each(|_| drop(std::fs::File::open(missing)));
    let failed = format!(
        "SELECT path, ret, count(*) FROM file_opens WHERE tid = {own} AND ret < 0 AND path = '{missing}' GROUP BY path, ret"
    );
    expect(&failed, &opens, &[&[missing, "-2", "5"]]);
}

#[test]
fn processes_are_counted_when_they_begin_run_and_end() {
    if !may_load() {
        return;
    }
    let (own, parent) = (own_thread(), std::process::id());
    let folder = tempfile::tempdir().expect("a folder");
    // A name that no other test runs.
    let shell = folder.path().join("shell");
    std::os::unix::fs::symlink("/bin/sh", &shell).expect("a link");
    let children = || {
        for _ in 0..3 {
            let status = Command::new(&shell).args(["-c", "exit 7"]).status().expect("a shell");
            assert_eq!(status.code(), Some(7));
        }
    };
    expect(&format!("SELECT count(*) FROM forks WHERE tid = {own}"), &children, &[&["3"]]);
    let name = shell.display();
    let execs =
        format!("SELECT filename, count(*) FROM execs WHERE ppid = {parent} AND filename = '{name}' GROUP BY filename");
    expect(&execs, &children, &[&[&name.to_string(), "3"]]);
    let exits = format!(
        "SELECT exit_code / 256, count(*) FROM exits WHERE ppid = {parent} AND exit_code = {} GROUP BY exit_code",
        7 << 8
    );
    expect(&exits, &children, &[&["7", "3"]]);
}

#[test]
fn bytes_of_files_and_connections_are_counted() {
    if !may_load() {
        return;
    }
    let own = own_thread();
    let mut file = tempfile::tempfile().expect("a file");
    let inode = file.metadata().expect("it has some").ino();
    file.write_all(b"before anybody looks").expect("it is written");
    let writes = || (1..=4).for_each(|part| (&file).write_all(&vec![1; 1000 * part]).expect("it is written"));
    let sum = format!("SELECT count(*), sum(ret) FROM file_writes WHERE tid = {own} AND inode = {inode}");
    expect(&sum, &writes, &[&["4", "10000"]]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let port = listener.local_addr().expect("it has one").port();
    let connect = || (0..6).for_each(|_| drop(TcpStream::connect(("127.0.0.1", port)).expect("it listens")));
    let connections =
        format!("SELECT daddr, count(*) FROM tcp_connects WHERE tid = {own} AND dport = {port} GROUP BY daddr");
    expect(&connections, &connect, &[&["127.0.0.1", "6"]]);
}
