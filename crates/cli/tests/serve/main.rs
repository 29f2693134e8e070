//! `kiln serve`: queries over its socket, limits, doors, and what is left in the kernel when it ends.

mod hosts;
mod postgres;
mod receiver;
mod service;
mod tls;

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::Instant;

use receiver::Receiver;
use serde_json::Value as Json;
use service::{Service, Work, said, serve};

/// On a busy machine every table of system calls may cost more than the default allows.
const GENEROUS: [&str; 4] = ["--max-overhead", "90%", "--max-total-overhead", "100%"];
const FORKS: &str = "SELECT comm, count(*) AS n FROM forks GROUP BY comm WINDOW 100 MS";

#[test]
fn queries_are_installed_listed_shown_and_stopped() {
    let Some(mut service) = Service::begin(&GENEROUS) else { return };
    let mode = std::fs::metadata(&service.socket).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let _work = Work::begin();
    let installed = service.document(&["install", "forks", FORKS]);
    assert_eq!((&installed["state"], &installed["columns"][1]["measure"]), (&"running".into(), &true.into()));
    service.document(&["install", "rows", "SELECT pid, comm FROM forks"]);
    service.document(&["install", "few", "SELECT pid FROM forks LIMIT 2"]);
    let windows = |document: &Json| document["windows"].as_array().map_or(0, Vec::len);
    let shown = service.until("forks", |document| windows(document) >= 3);
    let rows = shown["windows"][1]["rows"].as_array().expect("rows");
    assert!(rows.iter().any(|row| row[0] == "<script>a=1" && row[1].as_u64() > Some(0)), "{shown}");
    service.until("rows", |document| windows(document) > 0);
    let few = service.until("few", |document| document["state"] == "ended");
    assert_eq!((&few["summary"]["rows"], &few["reason"]), (&2.into(), &Json::Null));
    // What was printed for people has the same rows, and a name cannot move a terminal.
    let text = service.ask(&["show", "forks"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("<script>a=1\t"), "{}", said(&text));
    assert!(said(&text).contains("nothing lost") && said(&text).contains("state: running"), "{}", said(&text));

    service.refuses(&["install", "forks", FORKS], 2, "there is a query `forks` already");
    service.refuses(&["install", "a b/../c", FORKS], 2, "cannot name a query");
    service.refuses(&["install", "bad", "SELECT nothing FROM forks"], 2, "nothing");
    service.refuses(&["install", "bad", "EXPLAIN SELECT pid FROM forks"], 2, "only queries that give rows");
    service.refuses(&["show", "nobody"], 2, "there is no query `nobody`");
    let listed = service.document(&["list"]);
    let names: Vec<_> =
        listed["queries"].as_array().expect("queries").iter().map(|one| &one["query"]["name"]).collect();
    assert_eq!(names, ["few", "forks", "rows"]);
    let stopped = service.document(&["stop", "forks"]);
    assert_eq!(stopped["state"], "ended");
    assert!(windows(&stopped) >= windows(&shown), "{stopped}");
    service.refuses(&["stop", "forks"], 2, "there is no query `forks`");

    let (code, said) = service.signal("-TERM");
    assert!(code == Some(0) && said.last().is_some_and(|line| line.contains("2 queries were stopped")), "{said:?}");
    assert!(!service.socket.exists(), "the socket is removed");
}

/// SQLite would take up to 10 s for the last window.
#[test]
fn a_stop_does_not_wait_for_a_long_answer() {
    let Some(service) = Service::begin(&GENEROUS) else { return };
    let _work = Work::begin();
    let product = "SELECT count(*) FROM errno a, errno b, errno c, errno d, errno e";
    service.document(&["install", "long", &format!("SELECT count(*), ({product}) FROM forks WINDOW 1 HOUR")]);
    service.until("long", |document| document["summary"]["events"].as_u64() > Some(0));
    let begun = Instant::now();
    let stopped = service.document(&["stop", "long"]);
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    let reason = stopped["reason"].as_str().unwrap_or_default();
    assert!(stopped["state"] == "ended" && reason.contains("which is missing"), "{stopped}");
}

#[test]
fn limits_refuse_with_a_sentence() {
    let arguments = ["--max-queries", "2", "--max-rows", "3000", "--rows", "1000", "--max-overhead", "50%"];
    let Some(service) = Service::begin(&arguments) else { return };
    service.refuses(&["install", "a", FORKS, "--rows", "3001"], 1, "all together may keep 3000 (--max-rows)");
    service.refuses(&["install", "a", FORKS, "--max-overhead", "60%"], 1, "one query may take");
    // That is wrong whatever the limits are.
    service.refuses(&["install", "a", FORKS, "--rows", "0"], 2, "at least one row");
    service.document(&["install", "a", FORKS]);
    service.refuses(&["install", "b", FORKS, "--rows", "2500"], 1, "queries keep 1000 already");
    // One that takes more than it may is ended, and the others go on.
    service.document(&["install", "b", "SELECT count(*) FROM syscalls WINDOW 100 MS", "--max-overhead", "0.0001%"]);
    let _work = Work::begin();
    let ended = service.until("b", |document| document["state"] != "running");
    let reason = ended["reason"].as_str().expect("a reason");
    assert!(ended["state"] == "refused" && reason.contains("may take 0.0001 %"), "{ended}");
    service.refuses(&["install", "c", FORKS], 1, "may have no more (--max-queries)");
    service.until("a", |document| document["state"] == "running" && document["last_window"].as_u64() > Some(1));
    // A client of another maker may say any version.
    for version in ["0", "9007199254740993", "18446744073709551615"] {
        let body = format!("{{\"sql\":\"{FORKS}\",\"version\":{version}}}");
        let mut stream = std::os::unix::net::UnixStream::connect(&service.socket).expect("it listens");
        let head =
            format!("PUT /queries/v HTTP/1.1\r\nHost: kiln\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        write!(stream, "{head}\r\n{body}").expect("it is sent");
        let answer = std::io::read_to_string(stream).expect("an answer");
        assert!(answer.contains("the versions of a query are 1 to 9007199254740992"), "{answer}");
    }
}

#[test]
fn all_queries_together_have_a_limit() {
    let arguments = ["--max-overhead", "90%", "--max-total-overhead", "0.0001%"];
    let Some(service) = Service::begin(&arguments) else { return };
    let _work = Work::begin();
    service.document(&["install", "a", "SELECT count(*) FROM forks WINDOW 100 MS"]);
    let ended = service.until("a", |document| document["state"] != "running");
    let reason = ended["reason"].as_str().expect("a reason");
    assert!(ended["state"] == "refused" && reason.starts_with("the programs of all queries took"), "{ended}");
}

#[test]
fn the_page_answers_only_its_own_readers() {
    let Some(mut service) = Service::begin(&[]) else { return };
    let host = format!("Host: {}\r\n", service.page.0.strip_prefix("http://").expect("an address"));
    let key = format!("Authorization: Bearer {}\r\n", service.page.1);
    let port = host.rsplit(':').next().expect("a port");
    let own = format!("{host}{key}");
    assert_eq!(service.raw("GET", "/", &host).0, 200);
    assert!(service.raw("GET", "/queries", &own).1.contains("\"queries\":[]"));
    for (method, path, headers, status, words) in [
        ("GET", "/queries", host.clone(), 401, "the key is missing"),
        ("GET", "/queries", format!("{host}Authorization: Bearer {}\r\n", &service.page.1[1..]), 401, "the key"),
        ("GET", "/queries", key.clone(), 403, "asked for by its address"),
        ("GET", "/queries", format!("Host: evil.example:{port}{key}"), 403, "asked for by its address"),
        ("GET", "/queries", format!("{own}Origin: http://evil.example\r\n"), 403, "another origin"),
        ("GET", "/queries", format!("{own}Origin: null\r\n"), 403, "another origin"),
        ("DELETE", "/queries/a", own.clone(), 403, "only answers GET"),
        ("PUT", "/queries/a", format!("{own}Content-Length: 2\r\n\r\n{{}}"), 403, "only answers GET"),
        ("OPTIONS", "/queries", own.clone(), 403, "only answers GET"),
        ("GET", "/../../etc/passwd", own.clone(), 404, "known are"),
    ] {
        let (got, body) = service.raw(method, path, &headers);
        assert!(got == status && body.contains(words), "{method} {path} {headers}: {got} {body}");
    }
    let local = format!("Host: localhost:{port}{key}");
    assert_eq!(service.raw("GET", "/queries", &local).0, 200);
    // Connections that say nothing, and readers that promise a body and never send it, hold up nobody.
    let address = service.page.0.strip_prefix("http://").expect("an address");
    let mut idle = Vec::new();
    for at in 0..400 {
        let mut stream = std::net::TcpStream::connect(address).expect("the page's door");
        if at % 2 == 0 {
            write!(stream, "GET /queries HTTP/1.1\r\n{own}Content-Length: 9\r\n").expect("it is sent");
        }
        idle.push(stream);
    }
    for _ in 0..10 {
        assert_eq!(service.raw("GET", "/queries", &own).0, 200);
    }
    service.document(&["list"]);
    assert_eq!(service.signal("-INT").0, Some(0));
}

#[test]
fn wrong_sockets_and_addresses_are_said() {
    let Some(service) = Service::begin(&[]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let file = path("file");
    std::fs::write(&file, "precious").expect("a file");
    let taken = service.socket.to_str().expect("text");
    let port = service.page.0.strip_prefix("http://").expect("an address");
    let free = path("free");
    for (arguments, words) in [
        (vec!["--socket", &file], "is there, and is not a socket"),
        (vec!["--socket", taken], "another service answers"),
        (vec!["--socket", "/proc/none/kiln.sock"], "No such file"),
        (vec!["--socket", &free, "--listen", port], "cannot be listened at"),
        (vec!["--socket", &free, "--listen", "nowhere"], "cannot be listened at"),
        (vec!["--socket", &free, "--listen", "0.0.0.0:0"], "--listen-anywhere"),
        (vec!["--socket", &free, "--postgres", "0.0.0.0:0"], "rows are not encrypted"),
        (vec!["--socket", &free, "--max-overhead", "2"], "a part of one processor such as 2%"),
        (vec!["--socket", &free, "list"], "no service answers at"),
        (vec!["--socket", &file, "list"], "no service answers at"),
        (vec!["--socket", &free, "--listen", "127.0.0.1:0", "list"], "are for the service itself"),
    ] {
        let output = serve(&arguments).output().expect("kiln runs");
        assert!(output.status.code() == Some(2) && said(&output).contains(words), "{arguments:?}: {}", said(&output));
    }
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "precious");
    assert!(!std::path::Path::new(&free).exists());
    // Services that die before they have answered, and something else.
    let ended = "ended the connection before its answer was whole";
    for (at, (answer, code, words)) in [
        ("", 3, ended),
        ("HTTP/1.1 200 OK\r\nConte", 3, ended),
        ("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{\"name\":", 3, ended),
        ("220 mail\r\n", 2, "is not a service of kiln"),
    ]
    .into_iter()
    .enumerate()
    {
        let dying = path(&format!("dying{at}"));
        let listener = UnixListener::bind(&dying).expect("a socket");
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            // All of the request, so that the end is no reset.
            let _ = stream.read(&mut [0; 4096]).expect("a request");
            stream.write_all(answer.as_bytes()).expect("it is sent");
        });
        let output = serve(&["--socket", &dying, "install", "a", "SELECT 1"]).output().expect("kiln runs");
        assert!(output.status.code() == Some(code) && said(&output).contains(words), "{answer}: {}", said(&output));
        served.join().expect("no panic");
    }
    // A socket that nobody answers at is taken over; the service's own is still answered.
    let stale = path("stale");
    drop(UnixListener::bind(&stale).expect("a socket"));
    let mut next = serve(&["--socket", &stale]).spawn().expect("kiln runs");
    let begun = Instant::now();
    while !serve(&["--socket", &stale, "list"]).output().expect("kiln runs").status.success() {
        assert!(begun.elapsed().as_secs() < 30, "it does not answer");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    next.kill().expect("it runs");
    next.wait().expect("it ends");
    service.document(&["list"]);
}

#[test]
fn rows_of_every_query_go_to_a_collector() {
    let receiver = Receiver::begin(200, "{}");
    let begun = Service::begin(&["--otlp", &receiver.url]);
    if let Some(service) = &begun {
        let _work = Work::begin();
        service.document(&["install", "counts", FORKS]);
        service.document(&["install", "rows", "SELECT ts, comm FROM forks"]);
        for name in ["counts", "rows"] {
            service.until(name, |document| document["last_window"].as_u64() > Some(1));
            let stopped = service.document(&["stop", name]);
            assert!(stopped["exported"]["delivered"].as_u64() > Some(0), "{stopped}");
        }
    }
    let mut sent = Vec::new();
    for (path, document) in receiver.end() {
        let [kind, things] = ["Metrics", "Logs"].map(|kind| &document[format!("resource{kind}")][0]);
        let resource = if kind.is_null() { things } else { kind };
        let attributes = resource["resource"]["attributes"].as_array().expect("attributes");
        let query = attributes.iter().find(|attribute| attribute["key"] == "kiln.query").expect("the query's name");
        assert!(attributes.iter().any(|own| own["key"] == "kiln.query.version" && own["value"]["stringValue"] == "1"));
        let all = [&resource["scopeMetrics"][0]["metrics"], &resource["scopeLogs"][0]["logRecords"]];
        if all.iter().any(|all| all.as_array().is_some_and(|all| !all.is_empty())) {
            sent.push((path, query["value"]["stringValue"].clone()));
        }
    }
    if begun.is_some() {
        for (path, name) in [("/v1/metrics", "counts"), ("/v1/logs", "rows")] {
            assert!(sent.iter().any(|(to, query)| to == path && query == name), "{name}: {sent:?}");
        }
    }
}

/// Whether the kernel has a program.
fn is_loaded(program: u32) -> bool {
    let output = Command::new("bpftool").args(["prog", "show", "id", &program.to_string()]).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn nothing_is_left_in_the_kernel_however_the_service_ends() {
    if !Command::new("bpftool").arg("version").output().is_ok_and(|output| output.status.success()) {
        return println!("skipped: no bpftool is installed");
    }
    for signal in ["-KILL", "-INT"] {
        let Some(mut service) = Service::begin(&GENEROUS) else { return };
        service.document(&["install", "calls", "SELECT name, count(*) FROM syscalls GROUP BY name WINDOW 1 S"]);
        service.document(&["install", "forks", FORKS]);
        let programs = service.programs();
        assert_eq!(programs.len(), 4, "three of the first query and one of the second");
        assert!(programs.iter().all(|program| is_loaded(*program)));
        let (code, _) = service.signal(signal);
        assert_eq!(code, (signal == "-INT").then_some(0));
        // The kernel frees what nobody holds after a grace period.
        let begun = Instant::now();
        while programs.iter().any(|program| is_loaded(*program)) {
            assert!(begun.elapsed().as_secs() < 10, "{signal}: programs are left");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// About as many queries as a service takes by default. Prints what they cost.
#[test]
#[ignore = "half a minute"]
fn two_hundred_queries_run_at_once() {
    let Some(mut service) = Service::begin(&[]) else { return };
    let _work = Work::begin();
    let tables = ["forks", "execs", "exits", "signals"];
    let begun = Instant::now();
    for at in 0..200 {
        let table = tables[at % tables.len()];
        let sql =
            format!("SELECT pid, count(*) AS n FROM {table} WHERE pid % 200 <> {at} GROUP BY pid WINDOW 1 SECOND");
        let output = service.ask(&["install", &format!("q{at}"), &sql]);
        assert!(output.status.success(), "{at}: {}", said(&output));
    }
    println!("200 queries were installed in {:.1} s", begun.elapsed().as_secs_f64());
    std::thread::sleep(std::time::Duration::from_secs(5));
    let cpu = |id: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("a process");
        let after = stat.rsplit(')').next().expect("fields");
        after.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("ticks") / 100.0).sum::<f64>()
    };
    let id = service.child.id();
    let (before, since) = (cpu(id), Instant::now());
    std::thread::sleep(std::time::Duration::from_secs(10));
    let own = (cpu(id) - before) / since.elapsed().as_secs_f64();
    let listed = service.document(&["list"]);
    let queries = listed["queries"].as_array().expect("queries");
    let running = queries.iter().filter(|one| one["state"] == "running").count();
    let with_rows = queries.iter().filter(|one| one["summary"]["rows"].as_u64() > Some(0)).count();
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("a process");
    let resident = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    println!(
        "{running} run, {with_rows} have rows; programs take {:.2} % and the service {:.2} % of one CPU; {resident}",
        100.0 * listed["share"].as_f64().unwrap_or_default(),
        100.0 * own
    );
    assert_eq!(running, 200);
    assert!(with_rows >= 150, "forks, execs and exits all occur: {with_rows}");
    let begun = Instant::now();
    let (code, _) = service.signal("-TERM");
    println!("the service ended in {:.1} s", begun.elapsed().as_secs_f64());
    assert_eq!(code, Some(0));
}
