//! Queries and recordings that forge output, or take time, memory or stack: `kiln query` ends with an answer or an error.

use std::path::PathBuf;
use std::process::{Command, Output};

/// A name of a thread and of a column: lines, colours, direction, markup, an end of a JSON string.
const NAME: &str = "q\naccepted\u{1b}[2K\u{202e}\",x";
/// Bytes of a thread's name (`TASK_COMM_LEN`).
const COMMAND_BYTES: u32 = 16;
/// Exit code of what Kiln lacks here: kernels without BTF.
const UNSUPPORTED: i32 = 3;

fn kiln(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kiln")).args(arguments).output().expect("kiln runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

/// A folder for recordings of the table of system calls, and the names of its columns. Nothing where the kernel has no BTF.
struct Recordings {
    folder: tempfile::TempDir,
    columns: Vec<String>,
}

impl Recordings {
    fn new() -> Option<Recordings> {
        let tables = kiln(&["tables", "syscalls", "--format", "json"]);
        if tables.status.code() == Some(UNSUPPORTED) {
            println!("skipped: the kernel has no types to plan queries with");
            return None;
        }
        let tables: serde_json::Value = serde_json::from_slice(&tables.stdout).expect("JSON");
        let columns = tables[0]["columns"].as_array().expect("columns");
        let columns = columns.iter().map(|column| column["name"].as_str().expect("a name").to_owned()).collect();
        Some(Recordings { folder: tempfile::tempdir().expect("a folder"), columns })
    }

    fn column(&self, name: &str) -> usize {
        self.columns.iter().position(|column| column == name).expect("a column")
    }

    /// A recording whose records are laid out as `layouts` says.
    fn write(&self, layouts: &serde_json::Value, records: &[&[u8]]) -> PathBuf {
        let header = serde_json::json!({
            "format": "kiln-events-1", "table": "syscalls", "columns": self.columns, "records": layouts,
        });
        let mut bytes = format!("{header}\n").into_bytes();
        for record in records {
            bytes.extend((record.len() as u32).to_le_bytes());
            bytes.extend(*record);
        }
        let path = self.folder.path().join("calls.kev");
        std::fs::write(&path, bytes).expect("a file");
        path
    }

    /// The name of one thread.
    fn of_name(&self, name: &[u8]) -> PathBuf {
        let slot = serde_json::json!({"column": self.column("comm"), "offset": 0, "kind": "Command"});
        let layout = serde_json::json!([{"tag": null, "slots": [slot], "bytes": COMMAND_BYTES}]);
        let mut record = name.to_vec();
        record.resize(COMMAND_BYTES as usize, 0);
        self.write(&layout, &[&record])
    }
}

/// No panic, no signal: an answer, or an error that says what is wrong with the input.
#[track_caller]
fn ends(output: &Output, codes: &[i32]) -> String {
    let said = text(&output.stdout) + &text(&output.stderr);
    let shown: String = said.chars().take(2000).collect();
    assert!(output.status.code().is_some_and(|code| codes.contains(&code)), "{}: {shown}", output.status);
    said
}

#[test]
fn queries_with_names_are_a_document() {
    let output = kiln(&["query", "@", "--format", "json"]);
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let all = all.as_array().expect("an array");
    let one = all.iter().find(|query| query["name"] == "runqlat").expect("it is listed");
    assert!(one["sql"].as_str().is_some_and(|sql| sql.contains("FROM runq")), "{one}");
    let lines = text(&kiln(&["query", "@", "--format", "ndjson"]).stdout);
    let first: serde_json::Value = lines.lines().next().and_then(|line| serde_json::from_str(line).ok()).expect("JSON");
    assert_eq!((lines.lines().count(), &first), (all.len(), &all[0]));
    assert_eq!(kiln(&["query", "@", "--format", "csv"]).status.code(), Some(2));
}

#[test]
fn small_fractions_are_not_zero() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("m.csv");
    std::fs::write(&file, "a,b\n1,10000\n1,30000\n").expect("a file");
    let lookup = format!("m={}", file.display());
    for (format, wanted) in [("csv", "\n0.00005,0.5\n"), ("lines", "\n5.000e-5\t0.500\n")] {
        let sql = "SELECT avg(a) / avg(b) AS r, avg(a) / 2 AS h FROM m";
        let said = ends(&kiln(&["query", sql, "--lookup", &lookup, "--format", format]), &[0]);
        assert!(said.contains(wanted), "{format}: {said}");
    }
}

#[test]
fn an_arrow_stream_is_the_whole_standard_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("m.csv"), "a,b\n1,one\n2,two\n").expect("a file");
    let lookup = format!("m={}", path("m.csv"));
    let query =
        |sql: &str, more: &[&str]| kiln(&[&["query", sql, "--lookup", &lookup, "--format", "arrow"], more].concat());
    let sql = "SELECT b, a FROM m ORDER BY a";
    let piped = query(sql, &[]);
    assert_eq!(piped.status.code(), Some(0), "{}", text(&piped.stderr));
    assert!(piped.stdout.starts_with(&[0xff; 4]) && piped.stdout.ends_with(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]));
    assert!(piped.stdout.windows(6).any(|bytes| bytes == b"onetwo"));
    let file = path("rows.arrow");
    let written = query(sql, &["--output", &file]);
    ends(&written, &[0]);
    assert_eq!((text(&written.stdout), std::fs::read(&file).expect("a file")), (String::new(), piped.stdout));
    let analyzed = format!("EXPLAIN ANALYZE {sql}");
    assert!(ends(&query(&analyzed, &[]), &[2]).contains("need --output FILE"));
    assert!(ends(&query(sql, &["--output", &path("none/rows.arrow")]), &[2]).contains("none/rows.arrow"));
    assert!(ends(&kiln(&["check", "--format", "arrow", "x.o"]), &[2]).contains("is for kiln query"));
}

#[test]
fn names_of_threads_and_columns_forge_nothing() {
    let Some(recordings) = Recordings::new() else { return };
    let path = recordings.of_name("q\naccept\u{1b}[m\u{202e}".as_bytes()).display().to_string();
    let sql = format!("SELECT comm AS \"{}\", count(*) FROM syscalls GROUP BY comm", NAME.replace('"', "\"\""));
    // A file of values has texts as they are, in quotes: a program reads it.
    let csv = ends(&kiln(&["query", &sql, "--replay", &path, "--format", "csv"]), &[0]);
    assert!(csv.contains("\n\"q\naccept\u{1b}[m\u{202e}\",1\n"), "{csv}");
    for format in ["text", "table", "lines", "json", "ndjson"] {
        let output = kiln(&["query", &sql, "--replay", &path, "--format", format]);
        let said = ends(&output, &[0]);
        let hidden = said.chars().find(|letter| !kiln_driver::shown::is_visible(*letter) && !"\n\t".contains(*letter));
        assert_eq!(hidden, None, "{format}: {said}");
        assert!(!said.lines().any(|line| line.starts_with("accept")), "{format}: {said}");
        if let "json" | "ndjson" = format {
            let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let row = if format == "json" { &document["rows"][0] } else { &document };
            assert_eq!(row[NAME], "q\naccept\u{1b}[m\u{202e}", "{format}: {said}");
        }
    }
}

#[test]
fn errors_in_queries_are_marked_and_forge_nothing() {
    let Some(_) = Recordings::new() else { return };
    let said = ends(&kiln(&["query", "SELECT latancy FROM syscalls"]), &[2]);
    assert!(said.contains("\n  | SELECT latancy FROM syscalls\n  |        ^^^^^^^\n"), "{said}");
    for sql in [format!("SELECT \"{NAME}\" FROM syscalls"), format!("SELECT pid FROM \"{NAME}\""), NAME.to_owned()] {
        let said = ends(&kiln(&["query", &sql]), &[2]);
        let hidden = said.chars().find(|letter| !kiln_driver::shown::is_visible(*letter) && *letter != '\n');
        assert_eq!(hidden, None, "{said}");
        assert!(!said.lines().any(|line| line.starts_with("accepted")), "{said}");
    }
    let said = ends(&kiln(&["tables", NAME]), &[2]);
    assert!(said.contains(r"q\naccepted\u{1b}[2K\u{202e}"), "{said}");
}

#[test]
fn recordings_that_lie_are_refused() {
    let Some(recordings) = Recordings::new() else { return };
    let layout = |column: i64, offset: u32, kind: serde_json::Value, bytes: u32| {
        let slot = serde_json::json!({"column": column, "offset": offset, "kind": kind});
        serde_json::json!([{"tag": null, "slots": [slot], "bytes": bytes}])
    };
    let number = |bytes: u32| serde_json::json!({"Number": {"bytes": bytes, "signed": true}});
    let replay = |path: &PathBuf, sql: &str| kiln(&["query", sql, "--replay", &path.display().to_string()]);
    let all = "SELECT * FROM syscalls";
    for wrong in [
        layout(0, 0, number(16), 16),
        layout(0, 0, number(0), 8),
        layout(0, 0, number(3), 8),
        layout(0, 0, number(8), 4),
        layout(0, 65535, number(8), 65535),
        layout(-1, 0, number(8), 8),
        layout(4096, 0, number(8), 8),
        serde_json::json!([]),
    ] {
        let path = recordings.write(&wrong, &[&[0xff; 16]]);
        ends(&replay(&path, all), &[2]);
    }
    // Text where a number belongs, and records that are shorter than they say.
    let path = recordings.write(&layout(0, 0, "Command".into(), COMMAND_BYTES), &[&[b'a'; 16], &[], &[0; 3]]);
    for sql in [
        all,
        "SELECT count(*), sum(pid), avg(latency_ns), quantile(pid, 0.5), histogram(start_ns) FROM syscalls",
        "SELECT name, count(*) FROM syscalls GROUP BY name WINDOW 1 ms EVERY 1 us",
        "SELECT pid FROM syscalls ORDER BY pid LIMIT 18446744073709551615",
        "SELECT pid FROM syscalls ORDER BY pid LIMIT 9223372036854775808",
    ] {
        ends(&replay(&path, sql), &[0, 2]);
    }
    for bytes in [vec![b'['; 1 << 21], vec![b'\n'], Vec::new(), vec![0xff; 4096]] {
        std::fs::write(&path, bytes).expect("a file");
        ends(&replay(&path, all), &[2]);
    }
    let whole = std::fs::read(recordings.of_name(&[b'a'; 16])).expect("a file");
    for length in (0..whole.len()).step_by(7) {
        std::fs::write(&path, &whole[..length]).expect("a file");
        ends(&replay(&path, all), &[0, 2]);
    }
    std::fs::write(&path, [&whole[..whole.len() - 20], &[0xff; 24]].concat()).expect("a file");
    assert!(ends(&replay(&path, all), &[2]).contains("longer than any"));
}

/// Windows that overlap a thousand times cost by the rows in them, not by the windows that are open.
#[test]
fn many_windows_are_open_at_once() {
    let Some(recordings) = Recordings::new() else { return };
    let slot = serde_json::json!({
        "column": recordings.column("end_ts"), "offset": 0, "kind": {"Number": {"bytes": 8, "signed": false}},
    });
    let layout = serde_json::json!([{"tag": null, "slots": [slot], "bytes": 8}]);
    let times: Vec<[u8; 8]> = (0..500u64).map(|row| (1_000_000_000 + row * 1_000_000).to_le_bytes()).collect();
    let records: Vec<&[u8]> = times.iter().map(|time| &time[..]).collect();
    let path = recordings.write(&layout, &records).display().to_string();
    let sql = "SELECT count(*) FROM syscalls WINDOW 1 SECOND EVERY 1 MS";
    let said = ends(&kiln(&["query", sql, "--replay", &path, "--format", "csv"]), &[0]);
    assert!(said.lines().count() > 1000, "{said}");
}

#[test]
fn without_root_it_is_said_what_is_needed_and_recordings_are_answered() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::os::unix::process::CommandExt as _;

    let Some(recordings) = Recordings::new() else { return };
    let path = recordings.of_name(b"sh");
    for (path, mode) in [(recordings.folder.path(), 0o755), (&*path, 0o644)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    }
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        if std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
            command.uid(65534).gid(65534);
        }
        command.args(arguments).output()
    };
    let sql = "SELECT comm, count(*) FROM syscalls GROUP BY comm";
    let live = match as_nobody(&["query", sql, "--duration", "1ms"]) {
        Err(error) => return println!("skipped: nobody else may run the command: {error}"),
        Ok(output) => output,
    };
    let said = ends(&live, &[3]);
    assert!(said.contains("the kernel cannot be asked") && said.contains("--replay"), "{said}");
    let replayed = as_nobody(&["query", sql, "--replay", &path.display().to_string(), "--format", "csv"]);
    assert_eq!(text(&replayed.expect("it runs").stdout), "comm,count(*)\nsh,1\n");
    for offline in [&["tables", "--check"][..], &["query", &format!("EXPLAIN {sql}")]] {
        ends(&as_nobody(offline).expect("it runs"), &[0]);
    }
    assert!(
        ends(&as_nobody(&["tables", "--check", "--with-kernel"]).expect("it runs"), &[3]).contains("cannot be asked")
    );
}

#[test]
fn a_tracepoint_that_the_kernel_lacks_is_named() {
    let Some(_) = Recordings::new() else { return };
    let said = ends(&kiln(&["query", "SELECT * FROM tracepoint.sched.sched_swich"]), &[2]);
    assert!(said.contains("`tracepoint.sched.sched_swich`"), "{said}");
}

#[test]
fn tables_are_checked_for_other_kernels() {
    let Some(_) = Recordings::new() else { return };
    let said = ends(&kiln(&["tables", "--check", "--kernel", "all"]), &[0]);
    let line = |begin: &str| {
        said.lines().map(str::trim_start).find(|line| line.starts_with(begin)).unwrap_or_default().to_owned()
    };
    assert_eq!(line("table ").split_whitespace().collect::<Vec<_>>(), ["table", "5.15", "6.1", "6.6", "6.12", "6.18"]);
    let cells = |table: &str| line(table).split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>().join(" ");
    assert_eq!(cells("lock_contention "), "no yes yes yes yes", "{said}");
    assert_eq!(cells("packet_drops "), "partly yes yes yes yes", "{said}");
    assert_eq!(cells("syscalls "), "yes yes yes yes yes", "{said}");
    assert!(said.contains("on 5.15: table `lock_contention` needs the tracepoint `contention_begin`"), "{said}");
    assert!(said.contains("it is in Linux 5.19 and later"), "{said}");
    // A table that was asked for by name has to be there.
    ends(&kiln(&["tables", "lock_contention", "--check", "--kernel", "5.15"]), &[1]);
    ends(&kiln(&["tables", "lock_contention", "--check", "--kernel", "6.1"]), &[0]);
    let output = kiln(&["tables", "--check", "--kernel", "5.15", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let tables = document[0]["tables"].as_array().expect("tables");
    let drops = tables.iter().find(|table| table["table"] == "packet_drops").expect("a table");
    assert_eq!(drops["columns"][0]["name"], "reason");
    ends(&kiln(&["tables", "--kernel", "6.1"]), &[2]);
    ends(&kiln(&["tables", "--check", "--kernel", "4.17"]), &[2]);
}
