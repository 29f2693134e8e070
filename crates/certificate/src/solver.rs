//! A solver as a process that answers one query after another.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::term::{Arena, Term};

/// A solver's answer to a query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Nothing satisfies it.
    Unsat,
    /// Something does.
    Sat,
    /// It does not know, ran out of time, or printed something else.
    Unknown(String),
}

/// Answers queries in SMT-LIB 2.
pub trait Solver {
    /// Answers one query, which ends in `(check-sat)`.
    fn ask(&mut self, query: &str) -> Answer;

    /// Whether a goal follows from what is known: `unsat` if it does. The search for certificates has a shorter way.
    fn follows(&mut self, arena: &Arena, known: &[Term<'_>], goal: Term<'_>) -> Answer {
        self.ask(&arena.query(known, goal))
    }
}

/// Known solvers, the preferred one first: name, options that make them read from standard input, and the option for the
/// milliseconds of one query.
const KNOWN: &[(&str, &[&str], &str)] = &[
    ("cvc5", &["--lang=smt2", "--incremental", "--quiet"], "--tlimit-per="),
    ("bitwuzla", &["--lang", "smt2"], "--time-limit-per="),
    ("z3", &["-smt2", "-in"], "-t:"),
];
/// How much longer a solver may work by its own limit than this process waits for it. The limit is for solvers whose parent
/// was killed: they would work on an unfinished query for ever. After it, they find their input closed, and end.
const OWN_LIMIT: Duration = Duration::from_secs(1);
/// Maximum size of a line of an answer in bytes.
const MAX_LINE: u64 = 4096;
/// Maximum number of queries to one process, which remembers them and so takes memory.
const MAX_QUESTIONS: usize = 2000;

/// A command that solves.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    options: &'static [&'static str],
    /// The option for the milliseconds of one query.
    limit: Option<&'static str>,
    /// Name and version, as the solver prints them.
    pub version: String,
}

impl Program {
    /// The solver of that name or path, or the first known one that is installed. It must show that it distinguishes
    /// `sat` from `unsat`.
    ///
    /// # Errors
    /// Returns the solver that cannot be run or gives a wrong answer.
    pub fn find(wanted: Option<&str>, timeout: Duration) -> Result<Program, String> {
        let names: Vec<&str> = KNOWN.iter().map(|(name, ..)| *name).collect();
        let found = match wanted {
            Some(name) => Program::installed(name)
                .ok_or_else(|| format!("{name} cannot be run: name one of {} or a path", names.join(", ")))?,
            None => names
                .iter()
                .find_map(|name| Program::installed(name))
                .ok_or("no SMT solver is installed: apt-get install cvc5, or name one with --solver")?,
        };
        let mut process = Process::new(&found, timeout.max(Duration::from_secs(5)));
        // Twice a number is the number shifted by one, and is not always the number itself.
        for (other, expected) in [("(bvshl x #x01)", Answer::Unsat), ("x", Answer::Sat)] {
            let question = format!(
                "(set-logic QF_UFBV)\n(declare-fun x () (_ BitVec 8))\n\
                 (assert (distinct (bvadd x x) {other}))\n(check-sat)\n"
            );
            let answer = process.ask(&question);
            if answer != expected {
                return Err(format!("{} answers a simple question wrongly: {answer:?}", found.path.display()));
            }
        }
        Ok(found)
    }

    fn installed(name: &str) -> Option<Program> {
        let output = Command::new(name).arg("--version").stdin(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().find(|line| line.chars().any(|c| c.is_ascii_digit())).unwrap_or_default();
        let stem = Path::new(name).file_name()?.to_string_lossy().into_owned();
        let known = KNOWN.iter().find(|(known, ..)| *known == stem);
        let (options, limit) = known.map_or((&[][..], None), |(_, options, limit)| (*options, Some(*limit)));
        let line = line.find(&stem).map_or(line, |at| &line[at..]);
        Some(Program { path: name.into(), options, limit, version: line.chars().take(80).collect() })
    }
}

/// A running solver, which is restarted if it dies or is too slow.
pub struct Process {
    program: Program,
    timeout: Duration,
    running: Option<Running>,
}

struct Running {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    asked: usize,
}

impl Process {
    /// A solver with this time limit for each query.
    pub fn new(program: &Program, timeout: Duration) -> Process {
        Process { program: program.clone(), timeout, running: None }
    }

    fn start(&mut self) -> Result<&mut Running, String> {
        let path = self.program.path.display().to_string();
        if self.running.as_ref().is_some_and(|running| running.asked >= MAX_QUESTIONS) {
            self.stop();
        }
        if self.running.is_none() {
            let mut command = Command::new(&self.program.path);
            command.args(self.program.options);
            let limit = (self.timeout + OWN_LIMIT).as_millis();
            command.args(self.program.limit.map(|option| format!("{option}{limit}")));
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut child = command.spawn().map_err(|error| format!("{path}: {error}"))?;
            let (input, output) = (child.stdin.take(), child.stdout.take());
            let (Some(input), Some(output)) = (input, output) else { return Err(format!("{path}: no pipes")) };
            let (sender, lines) = channel();
            std::thread::spawn(move || {
                let mut output = BufReader::new(output);
                let mut line = Vec::new();
                while output.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                    if sender.send(String::from_utf8_lossy(&line).trim().to_owned()).is_err() {
                        return;
                    }
                    line.clear();
                }
            });
            self.running = Some(Running { child, input, lines, asked: 0 });
        }
        self.running.as_mut().ok_or(path)
    }

    fn stop(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }

    fn answer(&mut self, query: &str) -> Result<Answer, String> {
        let timeout = self.timeout;
        let running = self.start()?;
        running.asked += 1;
        let sent = running.input.write_all(format!("(reset)\n{query}").as_bytes());
        sent.and_then(|()| running.input.flush()).map_err(|error| error.to_string())?;
        let line = running.lines.recv_timeout(timeout).map_err(|_| format!("no answer in {timeout:?}"))?;
        match line.as_str() {
            "unsat" => Ok(Answer::Unsat),
            "sat" => Ok(Answer::Sat),
            "unknown" => Ok(Answer::Unknown("the solver does not know".to_owned())),
            other => Err(format!("the solver says {:?}", other.chars().take(200).collect::<String>())),
        }
    }
}

impl Solver for Process {
    fn ask(&mut self, query: &str) -> Answer {
        self.answer(query).unwrap_or_else(|why| {
            // It may still be working on this query.
            self.stop();
            Answer::Unknown(why)
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}
