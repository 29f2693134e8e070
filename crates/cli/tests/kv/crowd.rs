//! `kiln kv` with ten thousand clients.

use std::io::Write as _;
use std::process::Command;
use std::time::Instant;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Client, Server};

const COUNT: usize = 10_000;

/// Lets this process have a file for each client.
fn files() -> bool {
    let before = getrlimit(Resource::Nofile);
    let is_enough = |files: Option<u64>| files.is_none_or(|files| files >= COUNT as u64 + 500);
    let all = Rlimit { current: before.maximum, ..before };
    is_enough(before.current) || (is_enough(before.maximum) && setrlimit(Resource::Nofile, all).is_ok())
}

#[test]
fn ten_thousand_connections_are_served() {
    if !files() {
        return println!("skipped: this process may not have {COUNT} files");
    }
    // The server begins with few files, and takes what it may have.
    let kiln = env!("CARGO_BIN_EXE_kiln");
    let script = format!("ulimit -S -n 1024; exec {kiln} kv redis --format json --listen 127.0.0.1:0");
    let (server, _) = Server::start_command(Command::new("sh").args(["-c", &script])).expect("it starts");
    let (address, begun) = (server.address(), Instant::now());
    let mut clients: Vec<Client> = Vec::with_capacity(COUNT);
    for number in 0..COUNT {
        let mut client = Client::connect(&address);
        client.0.write_all(format!("SET k{number} {number}\r\n").as_bytes()).expect("it reads");
        clients.push(client);
    }
    for client in &mut clients {
        assert_eq!(client.ask(b"", "\r\n"), "+OK\r\n");
    }
    // All of them once more, at once.
    for (number, client) in clients.iter_mut().enumerate().rev() {
        client.0.write_all(format!("GETDEL k{number}\r\n").as_bytes()).expect("it reads");
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let text = number.to_string();
        assert_eq!(client.ask(b"", &format!("\r\n{text}\r\n")), format!("${}\r\n{text}\r\n", text.len()));
    }
    let info = clients[0].ask(b"INFO\r\n", "# Keyspace\r\n\r\n");
    let number = |name: &str| -> usize {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no {name} in {info}"))
    };
    let kept = number("mem_clients_normal") / COUNT;
    println!("{COUNT} connections in {:?}, {kept} bytes each", begun.elapsed());
    assert!(number("connected_clients") == COUNT && number("evicted_clients") == 0 && kept < 512, "{info}");
    drop(clients);
    assert_eq!(server.end(), Some(0));
}
