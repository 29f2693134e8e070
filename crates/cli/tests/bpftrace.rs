//! Queries with a name say of one load what bpftrace's tools of the same name say, or, where those need kprobes or are
//! BCC's alone, bpftrace programs that print the same.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// In a process whose every call is seen: opens files and misses some, starts programs and threads that end in several ways,
/// sends and handles signals, syncs, sets its user, and makes sockets.
const LOAD: &str = r#"
import os, signal, socket, subprocess, sys, tempfile, threading
if os.fork():
    os.wait()
    sys.exit()
with tempfile.TemporaryDirectory() as folder:
    for number in range(20):
        open(f"{folder}/{number}", "w").close()
        try: open(f"{folder}/none {number}")
        except OSError: pass
    for _ in range(5): subprocess.run(["/bin/true"])
    for number in (0, 18, 0, 18): os.kill(os.getpid(), number)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    for _ in range(3): os.kill(os.getpid(), signal.SIGUSR1)
    for status in (0, 3, 7): subprocess.run(["/bin/sh", "-c", f"exit {status}"])
    subprocess.run(["/bin/sh", "-c", "kill -9 $$"])
    for thread in [threading.Thread(target=int) for _ in range(4)]:
        thread.start()
        thread.join()
    for backlog in (1, 5, 9):
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(backlog)
        try: listener.bind(("127.0.0.1", 0))
        except OSError: pass
    socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    try: os.kill(1 << 30, 0)
    except OSError: pass
    file = open(f"{folder}/sync", "w")
    for _ in range(3): os.fsync(file.fileno())
    os.fdatasync(file.fileno())
    for _ in range(3): os.setuid(os.getuid())
print(os.getpid())
"#;

/// A tool of bpftrace's and the query of the same name.
struct Tool {
    name: &'static str,
    /// What prints the same, after a header; without it, the tool that Debian's bpftrace brings.
    script: Option<&'static str>,
    /// The columns of the query that the tool shows, too.
    columns: &'static [&'static str],
    /// What a line of the tool's says in the order of these columns; the process first.
    line: fn(&[&str]) -> Option<Vec<String>>,
}

const TOOLS: [Tool; 11] = [
    Tool { name: "opensnoop", script: None, columns: &["pid", "ret", "path"], line: opened },
    Tool { name: "execsnoop", script: None, columns: &["pid", "filename"], line: |words| said(words, &[1, 2]) },
    Tool {
        name: "killsnoop",
        script: None,
        columns: &["pid", "signal", "target", "ret"],
        line: |words| said(words, &[1, 3, 4, 5]),
    },
    Tool { name: "syncsnoop", script: None, columns: &["pid", "name"], line: synced },
    Tool { name: "setuids", script: None, columns: &["pid", "name", "first", "ret"], line: user_set },
    Tool {
        name: "exitsnoop",
        script: Some(EXITS),
        columns: &["ppid", "status", "signal"],
        line: |words| said(words, &[0, 1, 2]),
    },
    Tool {
        name: "threadsnoop",
        script: Some(THREADS),
        columns: &["pid", "child_tid"],
        line: |words| said(words, &[0, 1]),
    },
    Tool { name: "sigsnoop", script: Some(SIGNALS), columns: &["pid", "signal"], line: |words| said(words, &[0, 1]) },
    Tool {
        name: "socksnoop",
        script: Some(SOCKETS),
        columns: &["pid", "family", "type", "protocol", "ret"],
        line: |words| said(words, &[0, 1, 2, 3, 4]),
    },
    Tool {
        name: "bindsnoop",
        script: Some(BINDS),
        columns: &["pid", "fd", "ret"],
        line: |words| said(words, &[0, 1, 2]),
    },
    Tool {
        name: "solisten",
        script: Some(LISTENERS),
        columns: &["pid", "fd", "backlog", "ret"],
        line: |words| said(words, &[0, 1, 2, 3]),
    },
];

const EXITS: &str = r#"tracepoint:sched:sched_process_exit /pid == tid/ {
    $task = (struct task_struct *)curtask;
    printf("%d %d %d\n", $task->real_parent->tgid, $task->exit_code >> 8, $task->exit_code & 127);
}"#;
const THREADS: &str = r#"tracepoint:sched:sched_process_fork { printf("%d %d\n", pid, args->child_pid); }"#;
const SIGNALS: &str = r#"tracepoint:signal:signal_deliver { printf("%d %d\n", pid, args->sig); }"#;
const SOCKETS: &str = r#"tracepoint:syscalls:sys_enter_socket {
    @family[tid] = args->family; @type[tid] = args->type; @protocol[tid] = args->protocol;
}
tracepoint:syscalls:sys_exit_socket /@family[tid]/ {
    printf("%d %d %d %d %d\n", pid, @family[tid], @type[tid], @protocol[tid], args->ret);
    delete(@family[tid]); delete(@type[tid]); delete(@protocol[tid]);
}"#;
const BINDS: &str = r#"tracepoint:syscalls:sys_enter_bind { @fd[tid] = args->fd + 1; }
tracepoint:syscalls:sys_exit_bind /@fd[tid]/ { printf("%d %d %d\n", pid, @fd[tid] - 1, args->ret); delete(@fd[tid]); }"#;
const LISTENERS: &str = r#"tracepoint:syscalls:sys_enter_listen { @fd[tid] = args->fd + 1; @backlog[tid] = args->backlog; }
tracepoint:syscalls:sys_exit_listen /@fd[tid]/ {
    printf("%d %d %d %d\n", pid, @fd[tid] - 1, @backlog[tid], args->ret);
    delete(@fd[tid]); delete(@backlog[tid]);
}"#;

fn said(words: &[&str], places: &[usize]) -> Option<Vec<String>> {
    places.iter().map(|place| words.get(*place).map(|word| (*word).to_owned())).collect()
}

fn opened(words: &[&str]) -> Option<Vec<String>> {
    let [pid, _, fd, error, path @ ..] = words else { return None };
    let ret = if *fd == "-1" { format!("-{error}") } else { (*fd).to_owned() };
    Some(vec![(*pid).to_owned(), ret, path.join(" ")])
}

fn synced(words: &[&str]) -> Option<Vec<String>> {
    let name = words.get(3)?.strip_prefix("tracepoint:syscalls:sys_enter_")?;
    Some(vec![words[1].to_owned(), name.to_owned()])
}

fn user_set(words: &[&str]) -> Option<Vec<String>> {
    let (uid, ret) = (words.get(5)?.strip_prefix("uid=")?, words.get(6)?);
    Some([words[1], words[4], uid, ret.trim_matches(['(', ')'])].map(str::to_owned).to_vec())
}

/// A tool that runs, with what it prints in a file.
struct Tracer {
    child: Child,
    output: std::path::PathBuf,
}

impl Tracer {
    /// In a mount namespace of its own with a tracefs, which not every machine has mounted.
    fn start(script: &Path, output: std::path::PathBuf) -> Tracer {
        let said = std::fs::File::create(&output).expect("the file is made");
        let run = "mount -t tracefs tracefs /sys/kernel/tracing 2>&-; exec bpftrace \"$0\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", run]).arg(script).stdin(Stdio::null());
        // As long as the texts that Kiln keeps.
        command.env("BPFTRACE_STRLEN", "128").stderr(said.try_clone().expect("a second handle"));
        command.stdout(said);
        Tracer { child: command.spawn().expect("it was found"), output }
    }

    fn said(&self) -> String {
        let mut text = String::new();
        let mut file = std::fs::File::open(&self.output).expect("it is there");
        file.read_to_string(&mut text).expect("it is text");
        text
    }

    /// Waits until it has printed its header, which it does when it is attached.
    fn waits(&mut self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) {
            let has_ended = self.child.try_wait().expect("it is ours").is_some();
            if has_ended || self.said().lines().any(|line| line.contains("PID")) {
                return !has_ended;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    }

    /// Lets it end by itself, so that it prints what it still has.
    fn end(mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
        self.child.wait().expect("it ends");
        self.said()
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // It has ended already, or the test has failed: nothing stays attached.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks the query for the load that it starts. Returns its rows, the columns that are wanted of each, and the load's process;
/// nothing where queries cannot run.
fn asked(tool: &Tool) -> Option<(Vec<Vec<String>>, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.args([
        "query",
        &format!("@{}", tool.name),
        "--format",
        "ndjson",
        "--",
        "/usr/bin/python3",
        "-I",
        "-S",
        "-c",
        LOAD,
    ]);
    let output = command.output().expect("kiln runs");
    let (text, messages) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(3) {
        println!("skipped: {messages}");
        return None;
    }
    assert!(output.status.success() && messages.contains("nothing lost"), "@{}: {messages}", tool.name);
    let (rows, own): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('{'));
    let value = |row: &serde_json::Value, column: &&str| match &row[*column] {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let row = |line: &str| {
        let row = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        tool.columns.iter().map(|column| value(&row, column)).collect()
    };
    Some((rows.into_iter().map(row).collect(), own.concat()))
}

#[test]
fn queries_say_what_the_tools_of_bpftrace_say() {
    let mut tracers = Vec::new();
    let folder = tempfile::tempdir().expect("a folder is made");
    for tool in &TOOLS {
        let mut script = Path::new("/usr/sbin").join(format!("{}.bt", tool.name));
        if !script.exists() && tool.script.is_none() {
            return println!("skipped: there is no {}", script.display());
        }
        if let Some(text) = tool.script {
            script = folder.path().join(format!("{}.bt", tool.name));
            std::fs::write(&script, format!("BEGIN {{ printf(\"PID\\n\"); }}\n{text}\n")).expect("it is written");
        }
        tracers.push(Tracer::start(&script, folder.path().join(tool.name)));
    }
    if !tracers.iter_mut().all(Tracer::waits) {
        return println!("skipped: bpftrace cannot attach its tools here");
    }
    for (tool, tracer) in TOOLS.iter().zip(tracers) {
        let answer = asked(tool);
        // bpftrace prints what waits in its buffers several times a second.
        std::thread::sleep(Duration::from_millis(500));
        let text = tracer.end();
        let Some((mut rows, pid)) = answer else { return };
        let lines = text.lines().filter_map(|line| (tool.line)(&line.split_whitespace().collect::<Vec<_>>()));
        // The load's own rows, and those of programs that it starts, whose numbers follow its own.
        let number = |pid: &str| pid.parse::<u32>().unwrap_or_default();
        let is_child =
            |row: &[String]| number(&row[0]) > number(&pid) && row.last().is_some_and(|last| last == "/bin/true");
        let is_own = |row: &Vec<String>| row[0] == pid || is_child(row);
        let mut lines: Vec<Vec<String>> = lines.filter(is_own).collect();
        rows.retain(is_own);
        lines.sort();
        rows.sort();
        if text.lines().any(|line| line.starts_with("Lost ")) {
            println!("skipped: {}.bt lost events on this busy machine", tool.name);
            continue;
        }
        assert!(lines.len() >= 3, "{}: {text}", tool.name);
        let at = rows.iter().zip(&lines).position(|(row, line)| row != line);
        let differ = at.map(|at| format!("{:?} and {:?}", rows[at], lines[at]));
        assert!(rows == lines, "@{}: {} rows and {} lines; {differ:?}", tool.name, rows.len(), lines.len());
    }
}
