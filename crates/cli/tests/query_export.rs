//! Results that leave the machine: what an OTLP receiver and Prometheus are given.

#[path = "serve/receiver.rs"]
mod receiver;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use receiver::Receiver;
use serde_json::Value as Json;

/// Exit code of what cannot run here.
const UNSUPPORTED: i32 = 3;
/// What is looked at: a shell whose children call the kernel now and then, for a second or two.
const WORK: &str = "i=0; while [ $i -lt 60 ]; do i=$((i+1)); cat /dev/null; sleep 0.02; done";
const GROUPS: &str = "SELECT name, count(*) AS n, max(latency_ns), histogram(latency_ns) FROM syscalls \
                      GROUP BY name WINDOW 200 MS";

fn kiln(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.arg("query").args(arguments).args(["--", "sh", "-c", WORK]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A receiver that answers everything with `status` and `answer`. Returns what it was sent while `run` ran: path and
/// document; and what was printed. Nothing where queries cannot run.
fn received(sql: &str, status: u16, answer: &'static str) -> Option<(Vec<(String, Json)>, String)> {
    let receiver = Receiver::begin(status, answer);
    let output = kiln(&[sql, "--otlp", &receiver.url]).output().expect("kiln runs");
    let documents = receiver.end();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(UNSUPPORTED) {
        println!("skipped: {said}");
        return None;
    }
    assert!(output.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    Some((documents, said))
}

fn number(json: &Json) -> u64 {
    json.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{json} is not an integer as text"))
}

#[test]
fn groups_are_metrics_and_windows_add_up() {
    let Some((documents, said)) = received(GROUPS, 200, "{}") else { return };
    let mut counted = 0;
    let mut in_histograms = 0;
    for (path, document) in &documents {
        assert_eq!(path, "/v1/metrics");
        let metrics = document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().expect("metrics");
        for metric in metrics {
            match metric["name"].as_str() {
                Some("kiln.syscalls.n") => {
                    assert_eq!(
                        (&metric["sum"]["aggregationTemporality"], &metric["sum"]["isMonotonic"]),
                        (&1.into(), &true.into())
                    );
                    for point in metric["sum"]["dataPoints"].as_array().expect("points") {
                        assert_eq!(point["attributes"][0]["key"], "name");
                        let length = number(&point["timeUnixNano"]) - number(&point["startTimeUnixNano"]);
                        assert!(length <= 200_000_000, "{length} ns");
                        counted += number(&point["asInt"]);
                    }
                }
                Some("kiln.syscalls.max_latency_ns") => assert_eq!(metric["unit"], "ns"),
                Some("kiln.syscalls.histogram_latency_ns") => {
                    for point in metric["exponentialHistogram"]["dataPoints"].as_array().expect("points") {
                        let buckets = point["positive"]["bucketCounts"].as_array().expect("buckets");
                        let inside = buckets.iter().map(number).sum::<u64>() + number(&point["zeroCount"]);
                        assert_eq!(inside, number(&point["count"]));
                        in_histograms += inside;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(counted > 300 && counted == in_histograms, "{counted} and {in_histograms}: {said}");
    assert!(said.contains("rows delivered") && said.contains("nothing lost"), "{said}");
}

#[test]
fn rows_are_log_records_and_losses_are_counted() {
    let sql = "SELECT ts, comm, ret FROM syscalls WHERE name = 'openat'";
    let Some((documents, said)) = received(sql, 200, "{}") else { return };
    let records: Vec<&Json> = documents
        .iter()
        .inspect(|(path, _)| assert_eq!(path, "/v1/logs"))
        .flat_map(|(_, document)| {
            document["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().expect("records")
        })
        .collect();
    let first = records.first().unwrap_or_else(|| panic!("there are no records: {said}"));
    assert!(said.contains(&format!("{} rows delivered", records.len())), "{said}");
    assert_eq!(first["attributes"][1]["key"], "comm");
    let since_epoch = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_nanos() as u64;
    let age = since_epoch.abs_diff(number(&first["timeUnixNano"]));
    assert!(age < 600_000_000_000, "{age} ns from now");

    let Some((_, said)) = received(sql, 400, "") else { return };
    assert!(said.contains("0 rows delivered") && said.contains("answers with status 400"), "{said}");
    let partial = r#"{"partialSuccess": {"rejectedLogRecords": "1", "errorMessage": "one too many"}}"#;
    let Some((_, said)) = received(sql, 200, partial) else { return };
    assert!(said.contains("rows that were not delivered: one too many"), "{said}");
}

/// What is printed, and how many documents a receiver gets that answers the first ones so.
fn begun(answer: impl Fn(usize) -> (u16, &'static str) + Send + 'static) -> Option<(Option<i32>, String, usize)> {
    let receiver = Receiver::answering(answer);
    let output = kiln(&[GROUPS, "--otlp", &receiver.url]).output().expect("kiln runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let documents = receiver.end().len();
    if output.status.code() == Some(UNSUPPORTED) {
        println!("skipped: {said}");
        return None;
    }
    Some((output.status.code(), said, documents))
}

#[test]
fn a_busy_receiver_is_asked_again() {
    let Some((code, said, documents)) = begun(|known| if known < 2 { (429, "") } else { (200, "{}") }) else { return };
    assert!(code == Some(0) && said.contains("nothing lost") && documents > 3, "{code:?}, {documents}: {said}");
    let Some((code, said, documents)) = begun(|_| (503, "")) else { return };
    assert!(code == Some(2) && said.contains("the OTLP receiver is busy, at 4 attempts"), "{code:?}: {said}");
    assert!(said.contains("status 503") && documents == 4, "{documents}: {said}");
}

#[test]
fn rows_go_to_no_other_address() {
    let other = Receiver::begin(200, "{}");
    let place: &'static str = other.url.clone().leak();
    for first in [302, 307, 308] {
        let Some((code, said, documents)) = begun(move |_| (first, place)) else { return };
        assert_eq!((code, documents), (Some(2), 1), "{said}");
        assert!(said.contains(&format!("status {first}, which refers to {place}: name the receiver")), "{said}");
    }
    // Later, too, rows are counted as lost.
    let Some((code, said, _)) = begun(move |known| if known == 0 { (200, "{}") } else { (302, place) }) else { return };
    assert!(code == Some(0) && said.contains("which refers to") && said.contains("0 rows delivered"), "{said}");
    assert_eq!(other.end().len(), 0);
}

#[test]
fn prometheus_reads_totals() {
    let mut child = kiln(&[GROUPS, "--prometheus", "127.0.0.1:0"]).spawn().expect("kiln runs");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let first = lines.next().and_then(Result::ok).unwrap_or_default();
    let Some(url) = first.strip_prefix("Prometheus is answered at ") else {
        let code = child.wait().expect("it ends").code();
        assert_eq!(code, Some(UNSUPPORTED), "{first}");
        return println!("skipped: {first}");
    };
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let mut before = 0;
    // Totals only grow. The query ends with its command, so at last nobody answers.
    while let Ok(mut answer) = agent.get(url).call() {
        let Ok(text) = answer.body_mut().read_to_string() else { break };
        let total = |line: &str| line.split(' ').next_back().and_then(|number| number.parse::<u64>().ok());
        let own = text.lines().filter(|line| line.starts_with("kiln_syscalls_n_total{")).filter_map(total);
        let now = own.sum::<u64>();
        assert!(now >= before, "{now} after {before}\n{text}");
        before = now;
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let said: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(child.wait().expect("it ends").success(), "{said:?}");
    assert!(before > 300, "{before}: {said:?}");
}

#[test]
fn what_cannot_be_sent_is_said_at_once() {
    for (arguments, expected) in [
        (["SELECT pid FROM syscalls", "--prometheus", "127.0.0.1:0"], "Prometheus reads aggregates of windows"),
        ([GROUPS, "--prometheus", "nowhere"], "cannot be listened at"),
        ([GROUPS, "--otlp", "http://127.0.0.1:1"], "no OTLP receiver answers there"),
        ([GROUPS, "--otlp", "https://127.0.0.1:4318"], "an OTLP receiver's address is like"),
        ([GROUPS, "--otlp", "grpc://127.0.0.1:1"], "no OTLP receiver answers there"),
        ([GROUPS, "--otlp", "grpcs://127.0.0.1:1"], "no OTLP receiver answers there"),
        ([GROUPS, "--otlp", "grpc://127.0.0.1:1/v1"], "a gRPC receiver's address is like"),
    ] {
        let output = kiln(&arguments).output().expect("kiln runs");
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(UNSUPPORTED) => println!("skipped: {said}"),
            code => assert!(code == Some(2) && said.contains(expected), "{code:?}: {said}"),
        }
    }
}

/// What a shell burns by its stacks, as a page and as a profile.
#[test]
fn stacks_are_a_flame_graph_and_a_profile() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let [svg, profile] = [path("stacks.svg"), path("stacks.pb.gz")];
    for (format, file) in [("flame-graph", &svg), ("pprof", &profile)] {
        let output = kiln(&["@profile", "--format", format, "--output", file]).output().expect("kiln runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() == Some(UNSUPPORTED) {
            println!("skipped: {said}");
            return;
        }
        assert!(output.status.success(), "{said}");
    }
    // No process has this name.
    let none = "SELECT comm, ustack, count(*) FROM samples WHERE comm = 'nobody/nobody' GROUP BY comm, ustack";
    let empty = path("empty.svg");
    let output = kiln(&[none, "--format", "flame-graph", "--output", &empty]).output().expect("kiln runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (file, word) in [(svg, "samples"), (empty, "No stacks")] {
        let svg = std::fs::read_to_string(file).expect("a text");
        assert!(svg.contains("<svg") && svg.contains(word), "{svg}");
        let mut reader = quick_xml::Reader::from_str(&svg);
        while !matches!(reader.read_event().expect("well-formed"), quick_xml::events::Event::Eof) {}
    }
    let Ok(read) = Command::new("go").args(["tool", "pprof", "-raw", &profile]).output() else { return };
    let raw = String::from_utf8_lossy(&read.stdout).into_owned();
    // The timer finds the shell, or the commands that it starts.
    let found = ["sh", "cat"].iter().any(|name| raw.contains(&format!(" {name} :")));
    assert!(read.status.success() && raw.contains("samples/count") && found, "{raw}");
}
