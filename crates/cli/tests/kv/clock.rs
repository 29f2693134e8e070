//! `kiln kv` while somebody sets the wall clock: a library in front of the system's tells the server another time.

use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Client, Server};

/// Seconds that the file `KV_CLOCK` has are added to the wall clock, and to no other.
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *time)
{
	int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime"), result = real(clock, time);
	FILE *file = clock == CLOCK_REALTIME ? fopen(getenv("KV_CLOCK"), "r") : 0;
	long ahead;
	if (file && fscanf(file, "%ld", &ahead) == 1)
		time->tv_sec += ahead;
	if (file)
		fclose(file);
	return result;
}
"#;

const YEAR: i64 = 365 * 86_400;

/// Sets the clock of the servers that are started with it.
fn set_clock(folder: &Path, ahead: i64) {
    // Renamed, so that nobody reads a half.
    let (new, file) = (folder.join("new"), folder.join("clock"));
    std::fs::write(&new, ahead.to_string()).and_then(|()| std::fs::rename(&new, &file)).expect("is written");
}

/// Seconds since 1970 by that clock.
fn wall(ahead: i64) -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64 + ahead
}

fn start(protocol: &str, folder: &Path, more: &[&str]) -> Server {
    let library = folder.join("clock.so");
    if !library.exists() {
        let source = folder.join("clock.c");
        std::fs::write(&source, LIBRARY).expect("is written");
        let mut compiler = Command::new("cc");
        let status = compiler.args(["-shared", "-fPIC", "-o"]).args([&library, &source]).arg("-ldl").status();
        assert!(status.expect("cc runs").success(), "cc refuses the library");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.args(["kv", protocol, "--format", "json", "--listen", "127.0.0.1:0"]).args(more);
    command.env("LD_PRELOAD", &library).env("KV_CLOCK", folder.join("clock"));
    Server::start_command(&mut command).expect("it starts").0
}

/// The number in a reply of Redis' protocol.
fn number(client: &mut Client, request: &str) -> i64 {
    let reply = client.ask(format!("{request}\r\n").as_bytes(), "\r\n");
    reply.trim_end().trim_start_matches(':').parse().unwrap_or_else(|_| panic!("{request}: {reply:?}"))
}

#[test]
fn a_step_of_the_clock_ends_no_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    set_clock(folder, 0);
    let data = folder.join("data");
    let more = ["--data", data.to_str().expect("text"), "--sync", "always"];
    let server = start("redis", folder, &more);
    let mut client = Client::connect(&server.address());
    assert_eq!(client.ask(b"SET k v EX 1000\r\n", "\r\n"), "+OK\r\n");
    for ahead in [YEAR, -YEAR, 0, 7 * 3600] {
        set_clock(folder, ahead);
        assert_eq!(client.ask(b"GET k\r\n", "v\r\n"), "$1\r\nv\r\n", "{ahead} seconds ahead");
        let left = number(&mut client, "TTL k");
        assert!((900..=1000).contains(&left), "{left} seconds are left, {ahead} ahead");
        let end = number(&mut client, "EXPIRETIME k") - wall(ahead);
        assert!((left - 3..=left + 3).contains(&end), "{end} for {left}, {ahead} ahead");
        // A date is one of the clock as it is now.
        let date = wall(ahead) + 500;
        assert_eq!(number(&mut client, &format!("SETNX date{ahead} v")), 1);
        assert_eq!(number(&mut client, &format!("EXPIREAT date{ahead} {date}")), 1);
        assert_eq!(number(&mut client, &format!("EXPIRETIME date{ahead}")), date);
        let left = number(&mut client, &format!("TTL date{ahead}"));
        assert!((400..=501).contains(&left), "{left} seconds are left, {ahead} ahead");
        assert_eq!(number(&mut client, &format!("EXPIREAT date{ahead} {}", wall(ahead) - 1)), 1);
        assert_eq!(number(&mut client, &format!("EXISTS date{ahead}")), 0, "{ahead} ahead");
    }
    // The log has dates: of the clock that is right when they are recorded.
    assert_eq!(client.ask(b"SET late v EX 1000\r\n", "\r\n"), "+OK\r\n");
    assert_eq!(server.end(), Some(0));
    let server = start("redis", folder, &more);
    let left = number(&mut Client::connect(&server.address()), "TTL late");
    assert!((900..=1000).contains(&left), "{left} seconds are left after a restart");
}

#[test]
fn a_step_of_the_clock_ends_no_item() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    set_clock(folder, 0);
    let server = start("memcached", folder, &[]);
    let mut client = Client::connect(&server.address());
    let left = |client: &mut Client, key: &str| -> i64 {
        let reply = client.ask(format!("mg {key} t\r\n").as_bytes(), "\r\n");
        reply.trim_end().trim_start_matches("HD t").parse().unwrap_or_else(|_| panic!("{key}: {reply:?}"))
    };
    assert_eq!(client.ask(b"set k 0 1000 1\r\nv\r\n", "\r\n"), "STORED\r\n");
    for ahead in [YEAR, -YEAR, 0, 7 * 3600] {
        set_clock(folder, ahead);
        let of_key = left(&mut client, "k");
        let date = wall(ahead) + 500;
        assert_eq!(client.ask(format!("set date 0 {date} 1\r\nv\r\n").as_bytes(), "\r\n"), "STORED\r\n");
        let of_date = left(&mut client, "date");
        assert!((900..=1000).contains(&of_key) && (400..=501).contains(&of_date), "{of_key}, {of_date}, {ahead} ahead");
        assert_eq!(client.ask(format!("touch date {}\r\n", wall(ahead) - 1).as_bytes(), "\r\n"), "TOUCHED\r\n");
        assert_eq!(client.ask(b"mg date t\r\n", "\r\n"), "EN\r\n", "{ahead} ahead");
    }
}
