//! What is compared: C written by hand, bpftrace, two splits of ours, empty programs, and nothing.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kiln_driver::query::{Limits, Session, Settings, Split, live, plan};
use kiln_linux::{Link, LoadedObject, ObjectFile, RingReader};
use kiln_plan::table::Hook;

use crate::Failure;

/// A query of the paper's table 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Query {
    /// The slowest call of each process and system call, each second.
    Q1,
    /// The latency of every call.
    Q2,
}

impl Query {
    pub const ALL: [Query; 2] = [Query::Q1, Query::Q2];

    pub fn name(self) -> &'static str {
        match self {
            Query::Q1 => "Q1",
            Query::Q2 => "Q2",
        }
    }

    fn sql(self, pid: u32) -> String {
        match self {
            Query::Q1 => {
                format!(
                    "SELECT pid, name, max(latency_ns) FROM syscalls WHERE pid = {pid} GROUP BY pid, name WINDOW 1 s"
                )
            }
            Query::Q2 => format!("SELECT pid, nr, latency_ns FROM syscalls WHERE pid = {pid}"),
        }
    }

    fn source(self) -> &'static str {
        match self {
            Query::Q1 => "slowest",
            Query::Q2 => "latencies",
        }
    }

    fn bpftrace(self, pid: u32) -> String {
        let enter = format!("tracepoint:raw_syscalls:sys_enter /pid == {pid}/ {{ @start[tid] = nsecs; }}");
        let exit = "tracepoint:raw_syscalls:sys_exit /@start[tid]/";
        match self {
            Query::Q1 => format!(
                "{enter} {exit} {{ @most[pid, args->id] = max(nsecs - @start[tid]); delete(@start[tid]); }} \
                 interval:s:1 {{ print(@most); clear(@most); }}"
            ),
            Query::Q2 => format!(
                "{enter} {exit} {{ printf(\"%d %d %d\\n\", pid, args->id, nsecs - @start[tid]); delete(@start[tid]); }}"
            ),
        }
    }
}

/// Who answers it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Nobody: the load's own time varies.
    None,
    /// Programs at both hooks that do nothing.
    Empty,
    Hand,
    Bpftrace,
    Mvsf,
    Ours,
}

impl Kind {
    pub const ALL: [Kind; 6] = [Kind::None, Kind::Empty, Kind::Hand, Kind::Bpftrace, Kind::Mvsf, Kind::Ours];

    pub fn name(self) -> &'static str {
        match self {
            Kind::None => "none",
            Kind::Empty => "empty",
            Kind::Hand => "C",
            Kind::Bpftrace => "bpftrace",
            Kind::Mvsf => "mvsf",
            Kind::Ours => "ours",
        }
    }
}

/// What a tracer gave.
#[derive(Clone, Copy, Default)]
pub struct End {
    /// Rows, records, or lines.
    pub results: u64,
    /// Events that it says it lost.
    pub lost: u64,
}

/// A tracer that is attached.
pub enum Tracer {
    /// In threads of this process.
    Own { stop: Arc<AtomicBool>, thread: JoinHandle<Result<End, String>> },
    /// In one of its own.
    Other { child: Child, output: JoinHandle<End> },
}

impl Tracer {
    /// Attaches one; returns when it sees events.
    pub fn attach(kind: Kind, query: Query, pid: u32, folder: &Path) -> Result<Tracer, Failure> {
        match kind {
            Kind::None => empty(&[]),
            Kind::Empty => empty(&["sys_exit", "sys_enter"]),
            Kind::Hand => by_hand(query, pid, folder),
            Kind::Bpftrace => bpftrace(query, pid),
            Kind::Mvsf => ours(query, pid, Some(Split::Mvsf)),
            Kind::Ours => ours(query, pid, None),
        }
    }

    /// Detaches it.
    pub fn end(self) -> Result<End, Failure> {
        match self {
            Tracer::Own { stop, thread } => {
                stop.store(true, Ordering::SeqCst);
                Ok(thread.join().map_err(|_| "a tracer panicked")??)
            }
            Tracer::Other { mut child, output } => {
                let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status()?;
                if !interrupted.success() {
                    child.kill()?;
                }
                child.wait()?;
                output.join().map_err(|_| "the output's thread panicked".into())
            }
        }
    }
}

/// Runs a tracer in a thread, until it is told to stop. `body` calls its first argument when it is attached.
fn own(body: impl FnOnce(&dyn Fn(), &AtomicBool) -> Result<End, String> + Send + 'static) -> Result<Tracer, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let (attached, ready) = channel();
    // Who waits for it is there until it is told.
    let told = move || attached.send(()).unwrap_or_default();
    let thread = std::thread::spawn(move || body(&told, &stopped));
    match ready.recv() {
        Ok(()) => Ok(Tracer::Own { stop, thread }),
        Err(_) => match thread.join() {
            Ok(Err(why)) => Err(why.into()),
            _ => Err("a tracer ended before it began".into()),
        },
    }
}

/// Programs that do nothing at these hooks.
fn empty(hooks: &'static [&'static str]) -> Result<Tracer, Failure> {
    own(move |attached, stopped| {
        let at = |name: &&str| live::Nothing::at(&Hook::Typed((*name).to_owned())).map_err(|error| error.to_string());
        let _programs = hooks.iter().map(at).collect::<Result<Vec<_>, _>>()?;
        attached();
        while !stopped.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(End::default())
    })
}

fn ours(query: Query, pid: u32, split: Option<Split>) -> Result<Tracer, Failure> {
    own(move |attached, stopped| {
        let run = || {
            let session = Session::new(&query.sql(pid))?;
            let settings = Settings { except_pid: Some(std::process::id()), ..Settings::default() };
            let plan = plan::plan(&session, &settings, split)?;
            let told = AtomicBool::new(false);
            let stop = || {
                if !told.swap(true, Ordering::SeqCst) {
                    attached();
                }
                stopped.load(Ordering::SeqCst)
            };
            let limits = Limits::default();
            let watch = live::Watch {
                duration: None,
                stop: &stop,
                interrupt: Arc::default(),
                limits,
                measure: false,
                max_overhead: None,
                status: None,
            };
            live::run(&session, plan, &watch, &mut |_, _| {}, &mut |rows| {
                std::hint::black_box(rows);
                true
            })
        };
        let summary = run().map_err(|error| error.to_string())?;
        Ok(End { results: summary.rows, lost: summary.lost_in_all() })
    })
}

fn by_hand(query: Query, pid: u32, folder: &Path) -> Result<Tracer, Failure> {
    let path = folder.join(format!("{}.o", query.source()));
    if !path.exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let status = Command::new("clang-19")
            .args(["-target", "bpf", "-D__TARGET_ARCH_x86", "-O2", "-g", "-mcpu=v3", "-I/usr/include/x86_64-linux-gnu"])
            .arg(format!("-DWANTED_PID={pid}"))
            .arg("-c")
            .arg(root.join(format!("queries/{}.bpf.c", query.source())))
            .arg("-o")
            .arg(&path)
            .status()?;
        if !status.success() {
            return Err("clang-19 does not compile the program".into());
        }
    }
    let object = std::fs::read(&path)?;
    own(move |attached, stopped| {
        let run = || -> Result<End, Failure> {
            let loaded: LoadedObject =
                ObjectFile::open("query", &object)?.load().map_err(|failure| failure.to_string())?;
            let links = [
                Link::typed_tracepoint(&loaded.program("leave")?)?,
                Link::typed_tracepoint(&loaded.program("enter")?)?,
            ];
            attached();
            let mut end = End::default();
            match query {
                Query::Q1 => {
                    let slowest = loaded.map("slowest")?;
                    let mut window = Instant::now();
                    while !stopped.load(Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_millis(50));
                        if window.elapsed() >= Duration::from_secs(1) || stopped.load(Ordering::SeqCst) {
                            window = Instant::now();
                            for (key, value) in slowest.entries(usize::MAX)? {
                                end.results += u64::from(value.iter().any(|byte| *byte != 0));
                                slowest.delete(&key)?;
                            }
                        }
                    }
                }
                Query::Q2 => {
                    let mut ring = RingReader::new(&loaded.map("records")?)?;
                    let mut sum = 0u64;
                    let mut each = |record: &[u8]| sum = sum.wrapping_add(u64::from(record[8]));
                    while !stopped.load(Ordering::SeqCst) {
                        end.results += ring.wait(Duration::from_millis(50), &mut each)? as u64;
                        end.results += ring.read(&mut each)? as u64;
                    }
                    drop(links);
                    end.results += ring.read(&mut each)? as u64;
                    std::hint::black_box(sum);
                }
            }
            let lost = loaded.map("lost")?.lookup(&0u32.to_le_bytes())?.unwrap_or_default();
            end.lost = lost.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            Ok(end)
        };
        run().map_err(|failure| failure.to_string())
    })
}

fn bpftrace(query: Query, pid: u32) -> Result<Tracer, Failure> {
    let mut command = Command::new("bpftrace");
    command.args(["-e", &query.bpftrace(pid)]).stdin(Stdio::null());
    let missing = |error| format!("bpftrace: {error} (apt-get install bpftrace)");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(missing)?;
    let mut output = BufReader::new(child.stdout.take().ok_or("bpftrace has no output")?);
    let mut errors = child.stderr.take().ok_or("bpftrace has no errors")?;
    let mut line = String::new();
    // It says this before it attaches, which takes some milliseconds more.
    while !line.starts_with("Attaching") {
        line.clear();
        if output.read_line(&mut line)? == 0 {
            errors.read_to_string(&mut line)?;
            child.wait()?;
            return Err(format!("bpftrace: {line}").into());
        }
    }
    std::thread::sleep(Duration::from_millis(500));
    // What it says of losses goes to both.
    let said = std::thread::spawn(move || {
        BufReader::new(errors).lines().map_while(Result::ok).filter_map(|line| lost_in(&line)).sum::<u64>()
    });
    let output = std::thread::spawn(move || {
        let mut end = End::default();
        for line in output.lines().map_while(Result::ok).filter(|line| !line.is_empty()) {
            match lost_in(&line) {
                Some(lost) => end.lost += lost,
                None => end.results += 1,
            }
        }
        end.lost += said.join().unwrap_or_default();
        end
    });
    Ok(Tracer::Other { child, output })
}

/// `Lost 17 events`.
fn lost_in(line: &str) -> Option<u64> {
    line.strip_prefix("Lost ")?.split(' ').next()?.parse().ok()
}
