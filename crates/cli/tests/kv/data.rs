//! `kiln kv --data`: what a kill and a damaged file leave; `--tls-cert`; `kiln kv top`.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{Client, Server, lossy};

const ADDRESS: [&str; 2] = ["--listen", "127.0.0.1:0"];

pub fn start(protocol: &str, data: &Path, more: &[&str]) -> Result<Server, String> {
    let data = ["--data", data.to_str().expect("text")];
    Server::start_as(protocol, &[&ADDRESS[..], &data, more].concat()).map(|(server, _)| server)
}

/// Sets a key; whether it was acknowledged.
fn set(client: &mut Client, protocol: &str, key: &str) -> bool {
    let request = match protocol {
        "redis" => format!("SET {key} {key}\r\n"),
        _ => format!("set {key} 0 0 {}\r\n{key}\r\n", key.len()),
    };
    client.try_ask(request.as_bytes()).is_some_and(|reply| reply == "+OK\r\n" || reply == "STORED\r\n")
}

fn has(client: &mut Client, protocol: &str, key: &str) -> bool {
    let bytes = key.len();
    let (request, wanted, end) = match protocol {
        "redis" => (format!("GET {key}\r\nPING\r\n"), format!("${bytes}\r\n{key}\r\n+PONG\r\n"), "+PONG\r\n"),
        _ => (format!("get {key}\r\n"), format!("VALUE {key} 0 {bytes}\r\n{key}\r\nEND\r\n"), "END\r\n"),
    };
    client.ask(request.as_bytes(), end) == wanted
}

/// Kills a server under load, and starts it again: every write is there that was acknowledged so long before the kill.
fn killed(protocol: &str, sync: &str, runs: Duration, window: Duration) {
    let folder = tempfile::tempdir().expect("a folder");
    let server = start(protocol, folder.path(), &["--sync", sync]).expect("it starts");
    let (address, acknowledged) = (server.address(), Mutex::new(Vec::new()));
    let killed = std::thread::scope(|scope| {
        for thread in 0..3 {
            let (address, acknowledged) = (&address, &acknowledged);
            scope.spawn(move || {
                let mut client = Client::connect(address);
                for number in 0.. {
                    let key = format!("k{thread}-{number}");
                    if !set(&mut client, protocol, &key) {
                        break;
                    }
                    acknowledged.lock().expect("no panic").push((Instant::now(), key));
                }
            });
        }
        std::thread::sleep(runs);
        server.signal("KILL");
        Instant::now()
    });
    drop(server);
    let server = start(protocol, folder.path(), &[]).expect("it starts again");
    let mut client = Client::connect(&server.address());
    let acknowledged = acknowledged.into_inner().expect("no panic");
    let early: Vec<_> = acknowledged.iter().filter(|(at, _)| *at + window <= killed).collect();
    assert!(early.len() > 20, "{} of {}", early.len(), acknowledged.len());
    for (_, key) in early {
        assert!(has(&mut client, protocol, key), "{protocol}, {sync}: {key} is lost");
    }
    assert_eq!(server.end(), Some(0));
}

#[test]
fn a_kill_loses_no_more_than_the_window() {
    std::thread::scope(|scope| {
        for protocol in ["redis", "memcached"] {
            scope.spawn(move || killed(protocol, "always", Duration::from_millis(1500), Duration::ZERO));
            scope.spawn(move || killed(protocol, "second", Duration::from_millis(3500), Duration::from_secs(2)));
        }
    });
}

/// The last file of a log.
fn increment(data: &Path) -> PathBuf {
    let folder = data.join("appendonlydir");
    let text = std::fs::read_to_string(folder.join("appendonly.aof.manifest")).expect("is read");
    folder.join(text.lines().last().and_then(|line| line.split(' ').nth(1)).expect("a name"))
}

#[test]
fn a_damaged_log_is_refused_or_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = start("redis", folder.path(), &[]).expect("it starts");
    let second = start("redis", folder.path(), &[]).err().expect("one server has it");
    assert!(second.contains("in use by another server"), "{second}");
    let mut client = Client::connect(&server.address());
    assert_eq!(client.ask(b"SET first 1\r\nBGREWRITEAOF\r\n", "started\r\n").matches("+").count(), 2);
    std::thread::sleep(Duration::from_millis(200));
    assert!(set(&mut client, "redis", "kept"));
    std::thread::sleep(Duration::from_millis(100));
    assert!(set(&mut client, "redis", "lost"));
    assert_eq!(server.end(), Some(0));
    let path = increment(folder.path());
    let mut bytes = std::fs::read(&path).expect("is read");
    let at = bytes.len() - 3;
    bytes[at] ^= 1;
    std::fs::write(&path, &bytes).expect("is written");
    let refused = start("redis", folder.path(), &[]).err().expect("it is damaged");
    let name = path.file_name().expect("a name").to_str().expect("text");
    assert!(refused.contains(name) && refused.contains("is damaged at byte"), "{refused}");
    let server = start("redis", folder.path(), &["--repair"]).expect("it is cut");
    let mut client = Client::connect(&server.address());
    assert!(has(&mut client, "redis", "kept") && !has(&mut client, "redis", "lost"));
    assert_eq!(client.ask(b"GET first\r\n", "1\r\n"), "$1\r\n1\r\n");
}

#[test]
fn a_port_is_not_open_while_the_log_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(start("redis", folder.path(), &[]).expect("it starts"));
    // A log that takes some time, and is damaged at its end.
    let log = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n".repeat(200_000) + "*damaged\r\n";
    std::fs::write(increment(folder.path()), log).expect("is written");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
    let data = folder.path().to_owned();
    let starting = std::thread::spawn(move || {
        let arguments = ["--listen", &free.to_string(), "--data", data.to_str().expect("text")];
        Server::start_as("redis", &arguments).err()
    });
    while !starting.is_finished() {
        assert!(TcpStream::connect(free).is_err(), "a client waits for a server that will not serve");
        std::thread::sleep(Duration::from_millis(2));
    }
    let said = starting.join().expect("no panic").expect("it is damaged");
    assert!(said.contains("is damaged at byte 5400000"), "{said}");
}

#[test]
fn what_does_not_go_with_a_log_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = start("memcached", folder.path(), &["--xdp", "lo"]).err().expect("is refused");
    assert!(said.contains("would not reach the log"), "{said}");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("is written");
    let said = start("redis", &file, &[]).err().expect("is refused");
    assert!(said.contains("appendonlydir") && said.contains("directory"), "{said}");
}

fn openssl(folder: &Path, arguments: &str) -> bool {
    let run = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output();
    run.is_ok_and(|output| output.status.success())
}

#[test]
fn connections_are_encrypted() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost";
    let made = openssl(folder.path(), &format!("{own} -addext subjectAltName=IP:127.0.0.1 -keyout key -out cert"));
    if !made {
        return println!("skipped: openssl is not installed");
    }
    let named = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (cert, key) = (named("cert"), named("key"));
    let files = ["--tls-cert", &cert, "--tls-key", &key];
    let (server, begun) = Server::start_as("redis", &[&ADDRESS[..], &files].concat()).expect("it starts");
    let address = begun["address"].as_str().expect("an address").to_owned();
    let port = address.rsplit_once(':').expect("a port").1;
    // A long reply, of many records.
    let script = format!(
        "(printf 'SETRANGE k 999999 x\\r\\nGET k\\r\\nQUIT\\r\\n'; sleep 2) | \
         timeout 20 openssl s_client -quiet -verify_return_error -CAfile {cert} -connect {address} 2>/dev/null | wc -c"
    );
    let told = Command::new("sh").args(["-c", &script]).output().expect("sh");
    let wanted = ":1000000\r\n".len() + "$1000000\r\n\r\n".len() + 1_000_000 + "+OK\r\n".len();
    assert_eq!(lossy(&told.stdout).trim(), wanted.to_string());
    // What is not encrypted has no reply, and other clients go on.
    let mut plain = Client::connect(&address);
    assert!(plain.try_ask(b"PING\r\n").is_none_or(|reply| !reply.contains("PONG")));
    let mut command = Command::new("redis-cli");
    match command.args(["--tls", "--cacert", &cert, "-p", port, "STRLEN", "k"]).output() {
        Ok(output) if lossy(&output.stderr).contains("Unrecognized") => println!("skipped: redis-cli has no TLS"),
        Ok(output) => assert_eq!(lossy(&output.stdout), "1000000\n", "{}", lossy(&output.stderr)),
        Err(_) => println!("skipped: redis-cli is not installed"),
    }
    assert_eq!(server.end(), Some(0));
    // Clients have to show a certificate, which is not the authority's own.
    let client = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=client";
    let below = "-addext basicConstraints=critical,CA:FALSE -CA cert -CAkey key -keyout client.key -out client";
    assert!(openssl(folder.path(), &format!("{client} {below}")));
    let (client_cert, client_key) = (named("client"), named("client.key"));
    let asked = [&ADDRESS[..], &files, &["--tls-client-ca", &cert]].concat();
    let (server, begun) = Server::start_as("redis", &asked).expect("it starts");
    let address = begun["address"].as_str().expect("an address");
    let ask = |more: &str| {
        let client = format!("timeout 20 openssl s_client -quiet -CAfile {cert} -connect {address} {more} 2>/dev/null");
        let script = format!("(printf 'PING\\r\\nQUIT\\r\\n'; sleep 1) | {client}");
        lossy(&Command::new("sh").args(["-c", &script]).output().expect("sh").stdout)
    };
    assert_eq!(ask(""), "");
    assert_eq!(ask(&format!("-cert {client_cert} -key {client_key}")), "+PONG\r\n+OK\r\n");
    drop(server);
    let wrong = Server::start_as("redis", &[&ADDRESS[..], &["--tls-cert", &key, "--tls-key", &key]].concat());
    assert!(wrong.err().expect("no certificate").contains("no certificate in PEM"));
}

fn top(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    let output = command.args(["kv", "top", "--once", "--every", "0.5"]).args(arguments).output().expect("kiln");
    (output.status.code(), lossy(&output.stdout), lossy(&output.stderr))
}

#[test]
fn top_shows_what_a_server_does() {
    let folder = tempfile::tempdir().expect("a folder");
    for protocol in ["redis", "memcached"] {
        let server = start(protocol, &folder.path().join(protocol), &[]).expect("it starts");
        let address = server.address();
        let mut client = Client::connect(&address);
        assert!(set(&mut client, protocol, "k"));
        let rates = std::thread::scope(|scope| {
            let shown = scope.spawn(|| top(&[&address, "--format", "json"]));
            while !shown.is_finished() {
                assert!(has(&mut client, protocol, "k") && !has(&mut client, protocol, "none"));
            }
            shown.join().expect("it ends").1
        });
        let rates: serde_json::Value = serde_json::from_str(&rates).expect("JSON");
        assert!(rates["keys"] == 1 && rates["connections"] == 2, "{rates}");
        assert!(rates["commands_per_second"].as_f64().expect("a number") > 2.0, "{rates}");
        assert!((0.3..0.7).contains(&rates["hit_ratio"].as_f64().expect("a number")), "{rates}");
        assert!(rates["log_bytes"].as_u64().expect("a number") > 0, "{rates}");
        let (code, shown, _) = top(&[&address]);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(code == Some(0) && lines.len() == 2 && lines[0].contains("commands/s"), "{shown}");
        assert_eq!(lines[0].len(), lines[1].len());
    }
    let (code, _, said) = top(&["127.0.0.1:1"]);
    assert!(code != Some(0) && said.contains("asking 127.0.0.1:1"), "{said}");
}
