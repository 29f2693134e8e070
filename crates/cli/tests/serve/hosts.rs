//! Three hosts, each a service in UTS and network namespaces of its own: a version of a query that one of them cannot bear
//! is withdrawn from all.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::service::{UNSUPPORTED, Work, said, serve};

/// What each host allows: `b` hardly anything, `c` few rows.
const HOSTS: [(&str, &[&str]); 3] = [
    ("a", &["--max-overhead", "90%", "--max-total-overhead", "100%"]),
    ("b", &["--max-overhead", "0.01%", "--max-total-overhead", "100%"]),
    ("c", &["--max-overhead", "90%", "--max-total-overhead", "100%", "--max-rows", "20000"]),
];
/// A query whose events do not come, and one whose events come all the time.
const RARE: &str = "SELECT pid, count(*) AS n FROM tcp_retransmits GROUP BY pid WINDOW 100 MS";
const FREQUENT: &str = "SELECT name, count(*) AS n FROM syscalls GROUP BY name WINDOW 100 MS";
const TIMEOUT: Duration = Duration::from_secs(60);

struct Hosts {
    services: Vec<Child>,
    folder: tempfile::TempDir,
}

impl Hosts {
    /// Begins the services; nothing where queries cannot run.
    fn begin() -> Option<Hosts> {
        let mut hosts = Hosts { services: Vec::new(), folder: tempfile::tempdir().expect("a folder") };
        for (name, limits) in HOSTS {
            let mut command = Command::new("unshare");
            command.args(["--uts", "--net", "sh", "-c", "hostname $0; exec \"$@\"", name]);
            command.arg(env!("CARGO_BIN_EXE_kiln")).arg("serve").args(limits).arg("--socket").arg(hosts.socket(name));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            hosts.services.push(command.spawn().expect("unshare is there"));
        }
        let begun = Instant::now();
        while hosts.ask(&["list"]).status.code() != Some(0) || hosts.versions().len() < HOSTS.len() {
            if let Some(status) = hosts.services[0].try_wait().expect("a child") {
                assert_eq!(status.code(), Some(UNSUPPORTED));
                println!("skipped: queries cannot run here");
                return None;
            }
            assert!(begun.elapsed() < TIMEOUT, "the hosts do not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(hosts)
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.sock"))
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        serve(arguments).arg("--socket").arg(self.folder.path()).output().expect("kiln runs")
    }

    /// Asks, and is answered with this exit code and these words.
    fn answers(&self, arguments: &[&str], code: i32, words: &str) {
        let output = self.ask(arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &said(&output);
        assert!(
            output.status.code() == Some(code) && text.contains(words),
            "{arguments:?}: {:?}: {text}",
            output.status
        );
    }

    fn listed(&self) -> Json {
        serde_json::from_slice(&self.ask(&["list", "--format", "json"]).stdout).unwrap_or_default()
    }

    /// Of each host the version of its query, the one that was withdrawn, and its state; 0 where there is none.
    fn versions(&self) -> Vec<(u64, u64, String)> {
        let listed = self.listed();
        let hosts = listed["hosts"].as_object().into_iter().flatten();
        let version = |json: &Json| json["version"].as_u64().unwrap_or_default();
        let of = |document: &Json| {
            let query = &document["queries"][0];
            let state = query["state"].as_str().unwrap_or_default().to_owned();
            (version(&query["query"]), version(&query["query"]["withdrawn"]), state)
        };
        hosts.map(|(_, document)| of(document)).collect()
    }

    fn all_run(&self, version: u64, withdrawn: u64) {
        let expected = vec![(version, withdrawn, "running".to_owned()); HOSTS.len()];
        assert_eq!(self.versions(), expected, "{}", self.listed());
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for service in &mut self.services {
            // It may have ended.
            let _ = service.kill();
            let _ = service.wait();
        }
    }
}

#[test]
fn a_version_that_one_host_cannot_bear_is_withdrawn_from_all() {
    let Some(mut hosts) = Hosts::begin() else { return };
    let _work = Work::begin();
    hosts.answers(&["install", "calls", RARE, "--trial", "1s"], 0, "version 1 of query `calls` runs on 3 hosts");
    hosts.all_run(1, 0);
    hosts.answers(&["install", "calls", RARE], 2, "there is a query `calls` already");

    let replace = |sql| ["install", "calls", sql, "--replace", "--trial", "30s"];
    hosts.answers(
        &replace(FREQUENT),
        1,
        "version 2 of `calls` was withdrawn from all hosts: host b: limit reached: its programs took",
    );
    hosts.all_run(1, 2);
    let listed = hosts.listed();
    for (host, document) in listed["hosts"].as_object().expect("hosts") {
        let query = &document["queries"][0]["query"];
        let reason = query["withdrawn"]["reason"].as_str().unwrap_or_default();
        assert!(query["sql"] == RARE && reason.contains("may take 0.01 %"), "{host}: {query}");
    }

    // What one host does not take at all is on none.
    let too_many = [&replace(RARE)[..], &["--rows", "30000"]].concat();
    hosts.answers(&too_many, 1, "`calls` was installed on no host: host c does not take it");
    hosts.answers(&["install", "more", RARE, "--rows", "30000"], 1, "installed on no host");
    let listed = hosts.listed();
    let count = |host: &str| listed["hosts"][host]["queries"].as_array().map(Vec::len);
    assert_eq!(["a", "b", "c"].map(count), [Some(1); 3], "{listed}");

    // By hand, after a good one.
    let good = ["install", "calls", RARE, "--replace", "--trial", "1s"];
    hosts.answers(&good, 0, "runs on 3 hosts");
    let version = hosts.versions()[0].0;
    hosts.all_run(version, 0);
    hosts.answers(&["rollback", "calls"], 0, &format!("version {version} of query `calls` was withdrawn"));
    hosts.all_run(1, version);

    // A host is lost while a version is watched, and then before one is installed.
    let watched = serve(&["install", "calls", RARE, "--replace", "--trial", "6s", "--socket"])
        .arg(hosts.folder.path())
        .spawn()
        .expect("kiln runs");
    let begun = Instant::now();
    while hosts.versions().iter().any(|(now, ..)| *now == 1) {
        assert!(begun.elapsed() < TIMEOUT);
    }
    hosts.services[2].kill().expect("it runs");
    let output = watched.wait_with_output().expect("it ends");
    assert!(output.status.success() && said(&output).contains("host c does not answer"), "{}", said(&output));
    hosts.answers(&["list"], 1, "host c: no service answers");
    hosts.answers(&good, 2, "nothing was installed: host c does not answer");
    hosts.answers(&["stop", "calls"], 1, "stopped on 2 of 3 hosts");
    hosts.answers(&["show", "calls"], 2, "name its socket");
}
