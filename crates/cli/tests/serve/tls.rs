//! `kiln serve --tls-cert`: curl and psql, with right and wrong certificates, and clients that do not encrypt or do not end
//! their handshake.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::service::{Service, said, serve};

/// How long a handshake may take, and what a busy machine takes besides.
const HANDSHAKE: Duration = Duration::from_secs(40);
/// A client's first message of TLS, which promises 512 bytes.
const HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01";

fn openssl(folder: &Path, arguments: &str) -> bool {
    let run = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output();
    run.is_ok_and(|output| output.status.success())
}

/// A folder with a certificate that is its own authority, with another's, and with a client's below the first.
fn certificates() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().expect("a folder");
    let own = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj";
    let names = "-addext subjectAltName=IP:127.0.0.1,DNS:localhost";
    let below = "-addext basicConstraints=critical,CA:FALSE -CA cert -CAkey key";
    let made = openssl(folder.path(), &format!("{own} /CN=localhost {names} -keyout key -out cert"))
        && openssl(folder.path(), &format!("{own} /CN=other {names} -keyout other.key -out other"))
        && openssl(folder.path(), &format!("{own} /CN=client {below} -keyout client.key -out client"));
    if !made {
        println!("skipped: openssl makes no certificates here");
    }
    made.then_some(folder)
}

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("text").to_owned()
}

/// A service with certificates, and these arguments.
fn begin(folder: &tempfile::TempDir, arguments: &[&str]) -> Option<Service> {
    let (cert, key) = (path(folder, "cert"), path(folder, "key"));
    Service::begin(&[&["--tls-cert", &cert, "--tls-key", &key], arguments].concat())
}

/// What a client says; `None` where it is not installed.
fn client(program: &str, arguments: &[&str]) -> Option<Output> {
    let output = Command::new(program).args(arguments).output();
    output.inspect_err(|error| println!("skipped: {program}: {error}")).ok()
}

fn curl(service: &Service, arguments: &[&str]) -> Option<Output> {
    let key = format!("Authorization: Bearer {}", service.page.1);
    let url = format!("{}/queries", service.page.0);
    client("curl", &[&["--silent", "--show-error", "--max-time", "30", "-H", &key, &url], arguments].concat())
}

#[test]
fn the_page_is_encrypted() {
    let Some(folder) = certificates() else { return };
    let Some(service) = begin(&folder, &[]) else { return };
    assert!(service.page.0.starts_with("https://"), "{}", service.page.0);
    let (cert, other) = (path(&folder, "cert"), path(&folder, "other"));
    let Some(answer) = curl(&service, &["--cacert", &cert]) else { return };
    assert!(String::from_utf8_lossy(&answer.stdout).contains("\"queries\":[]"), "{}", said(&answer));
    for version in ["1.2", "1.3"] {
        let fixed = [&format!("--tlsv{version}")[..], "--tls-max", version, "--cacert", &cert];
        assert!(curl(&service, &fixed).is_some_and(|answer| answer.status.success()), "TLS {version}");
    }
    // A name that the certificate has is as good as an address.
    let named = service.page.0.replace("127.0.0.1", "localhost");
    assert!(client("curl", &["-sS", "--cacert", &cert, &named]).is_some_and(|answer| answer.status.success()));
    // An authority that has not signed it: curl's 60.
    assert!(curl(&service, &["--cacert", &other]).is_some_and(|answer| answer.status.code() == Some(60)));
    // What is not encrypted has no answer, and others go on.
    let plain = client("curl", &["-sS", "--max-time", "30", &service.page.0.replace("https:", "http:")]);
    assert!(plain.is_some_and(|answer| !answer.status.success() && answer.stdout.is_empty()));
    idle_handshakes_keep_nobody_away(&service, &["--cacert", &cert]);
    // The socket is not encrypted: its mode keeps others away.
    service.document(&["list"]);
}

fn idle_handshakes_keep_nobody_away(service: &Service, trust: &[&str]) {
    let address = service.page.0.strip_prefix("https://").expect("an address");
    let connect = |at: usize| {
        let mut stream = TcpStream::connect(address).expect("the page's door");
        stream.write_all(&HELLO[..at % (HELLO.len() + 1)]).expect("it is sent");
        stream
    };
    let idle: Vec<TcpStream> = (0..400).map(connect).collect();
    for _ in 0..3 {
        assert!(curl(service, trust).is_some_and(|answer| answer.status.success()));
    }
    drop(idle);
    // A byte now and then does not keep a handshake open.
    let (begun, mut slow) = (Instant::now(), connect(HELLO.len()));
    slow.set_read_timeout(Some(Duration::from_millis(500))).expect("a time");
    let is_open = |slow: &mut TcpStream| match slow.read(&mut [0; 64]) {
        Ok(count) => count > 0,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    };
    while is_open(&mut slow) && slow.write_all(b"\0").is_ok() {
        assert!(begun.elapsed() < HANDSHAKE, "it is still open");
    }
}

#[test]
fn clients_show_certificates_where_they_have_to() {
    let Some(folder) = certificates() else { return };
    let (cert, client, key) = (path(&folder, "cert"), path(&folder, "client"), path(&folder, "client.key"));
    let Some(service) = begin(&folder, &["--tls-client-ca", &cert]) else { return };
    let Some(without) = curl(&service, &["--cacert", &cert]) else { return };
    assert!(!without.status.success() && without.stdout.is_empty());
    let with = curl(&service, &["--cacert", &cert, "--cert", &client, "--key", &key]).expect("curl");
    assert!(with.status.success(), "{}", said(&with));
}

#[test]
fn sessions_of_postgresql_are_encrypted() {
    let Some(folder) = certificates() else { return };
    let Some(service) = begin(&folder, &["--postgres", "127.0.0.1:0"]) else { return };
    let url = service.line("PostgreSQL's clients: ");
    let (url, mode) = url.split_once('?').expect("a mode");
    assert_eq!(mode, "sslmode=require");
    let (cert, other) = (path(&folder, "cert"), path(&folder, "other"));
    let ask = |url: &str, mode: &str| {
        client(
            "psql",
            &[&format!("{url}?{mode}"), "--no-psqlrc", "-At", "-c", "SELECT 7; SELECT pid FROM forks LIMIT 0"],
        )
    };
    let named = url.replace("127.0.0.1", "localhost");
    for (url, mode) in [
        (url, "sslmode=require".to_owned()),
        (url, "sslmode=prefer".to_owned()),
        (url, format!("sslmode=verify-full&sslrootcert={cert}")),
        (&named, format!("sslmode=verify-full&sslrootcert={cert}")),
    ] {
        let Some(answer) = ask(url, &mode) else { return };
        assert_eq!(String::from_utf8_lossy(&answer.stdout), "7\n", "{mode}: {}", said(&answer));
    }
    for (mode, words) in [
        (format!("sslmode=verify-full&sslrootcert={other}"), "certificate verify failed"),
        ("sslmode=disable".to_owned(), "this address asks for TLS"),
    ] {
        let answer = ask(url, &mode).expect("psql");
        assert!(said(&answer).contains(words), "{mode}: {}", said(&answer));
    }
    // What came before the encryption that it was to be part of is not taken: somebody else may have sent it.
    let address = url.rsplit_once('@').and_then(|(_, address)| address.strip_suffix("/kiln")).expect("an address");
    let connect = |sent: &[u8]| {
        let mut stream = TcpStream::connect(address).expect("the door");
        stream.write_all(sent).expect("it is sent");
        stream
    };
    let encryption = b"\0\0\0\x08\x04\xd2\x16\x2f";
    let mut early = connect(&[&encryption[..], b"\0\0\0\x12\0\x03\0\0user\0x\0\0"].concat());
    let mut answer = Vec::new();
    // The connection may be reset, with bytes that nobody reads.
    let _ = early.read_to_end(&mut answer);
    assert!(answer.starts_with(b"S") && answer.ends_with(b"a message came before its encryption\0\0"), "{answer:?}");
    // Handshakes that do not go on keep nobody away.
    let idle: Vec<TcpStream> = (0..100).map(|_| connect(&[&encryption[..], HELLO].concat())).collect();
    assert_eq!(ask(url, mode).expect("psql").stdout, b"7\n");
    drop(idle);
}

#[test]
fn wrong_files_are_said() {
    let Some(folder) = certificates() else { return };
    let [cert, key, other] = ["cert", "key", "other.key"].map(|name| path(&folder, name));
    let (socket, none) = (path(&folder, "socket"), path(&folder, "none"));
    let listen = ["--listen", "127.0.0.1:0"];
    for (arguments, words) in [
        ([&listen[..], &["--tls-cert", &key, "--tls-key", &key]].concat(), "no certificate in PEM"),
        ([&listen[..], &["--tls-cert", &cert, "--tls-key", &other]].concat(), "certificate and key"),
        ([&listen[..], &["--tls-cert", &none, "--tls-key", &key]].concat(), "No such file"),
        ([&listen[..], &["--tls-cert", &cert]].concat(), "--tls-key"),
        (vec!["--tls-cert", &cert, "--tls-key", &key], "give one of them"),
    ] {
        let output = serve(&[&["--socket", &socket], &arguments[..]].concat()).output().expect("kiln runs");
        let said = said(&output);
        if said.contains("CAP_BPF") || output.status.code() == Some(3) {
            return println!("skipped: {said}");
        }
        assert!(output.status.code() == Some(2) && said.contains(words), "{arguments:?}: {said}");
    }
}
