//! Reading a filetest: the program and what it expects.

use std::path::{Path, PathBuf};

use kiln_platform::KernelVersion;
use kiln_program::text::{Annotation, Parsed, parse_annotated};
use kiln_program::{InsnId, Object};

/// One file.
#[derive(Clone, Debug)]
pub struct Filetest {
    /// Where it is.
    pub path: PathBuf,
    /// `verifier/null-check.bpf`: its name in messages and in `verdicts.toml`.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Its program.
    pub object: Object,
    /// What it expects.
    pub expectations: Expectations,
}

/// What a file expects, from its directives.
#[derive(Clone, Debug, Default)]
pub struct Expectations {
    /// `; check: accept`, `; check: reject REASON`.
    pub check: Option<Check>,
    /// `; on: 5.15 reject REASON`: the verdict for the profile of another release.
    pub on: Vec<(KernelVersion, Check)>,
    /// `; kernel: TEXT`: text of the kernel's log when it rejects the program.
    pub kernel_says: Option<String>,
    /// `; error: REASON` beside an instruction.
    pub errors: Vec<(InsnId, String)>,
    /// `; run: packet ... => return ...`.
    pub runs: Vec<Run>,
    /// `; optimized: LINE`: the listing that the passes leave, without search, a line each.
    pub optimized: Vec<String>,
    /// Whether there are such lines, or an empty one that asks for them.
    pub wants_listing: bool,
    /// `; not-rewritten: TEXT`: no line of the optimized listing contains this, with and without search. Only text that
    /// no correct rewrite could print; use `run:` for what a run can show.
    pub not_rewritten: Vec<String>,
    /// `; keeps: N TEXT`: at least N lines of the optimized listing contain this. For example, no run can show that a
    /// value that others may change is still loaded twice.
    pub keeps: Vec<(usize, String)>,
    /// `; goal: GOAL`: the goal of the other expectations of the optimizer; balanced by default.
    pub goal: kiln_superopt::Goal,
    /// `; processed: N`: both verifiers process N instructions.
    pub processed: Option<u64>,
    /// `; saves: N`: the passes save at least N slots, without search.
    pub saves: Option<u32>,
    /// `; except: ENGINE: REASON`: this engine is left out.
    pub except: Vec<(String, String)>,
}

/// A verdict.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Check {
    /// The program loads.
    Accept,
    /// It does not, for the reason with this code.
    Reject(String),
}

/// One input and its result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// The line that states it.
    pub line: usize,
    /// The packet.
    pub packet: Vec<u8>,
    /// The lower half of R0.
    pub value: u32,
    /// The packet afterwards, where stated.
    pub packet_after: Option<Vec<u8>>,
}

/// The packet of runs that do not name one: long enough for the kernel's test run, and nothing in it.
pub const DEFAULT_PACKET_BYTES: usize = 64;

impl Filetest {
    /// Reads a file; `folder` is that of all filetests.
    ///
    /// # Errors
    /// What is wrong with it, with its name and line.
    pub fn read(folder: &Path, path: &Path) -> Result<Filetest, String> {
        let name = path.strip_prefix(folder).unwrap_or(path).to_string_lossy().replace('\\', "/");
        let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        let Parsed { mut object, annotations, .. } =
            parse_annotated(&text).map_err(|error| format!("{name}: {error}"))?;
        object.name.clone_from(&name);
        let mut expectations = Expectations::default();
        for annotation in annotations {
            let line = annotation.line;
            expectations.add(annotation).map_err(|error| format!("{name}: line {line}: {error}"))?;
        }
        Ok(Filetest { path: path.to_owned(), name, text, object, expectations })
    }

    /// All files below a folder, by name.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn find(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut pending = vec![folder.to_owned()];
        while let Some(next) = pending.pop() {
            for entry in std::fs::read_dir(next)? {
                let path = entry?.path();
                if path.is_dir() {
                    pending.push(path);
                } else if path.extension().is_some_and(|extension| extension == "bpf") {
                    found.push(path);
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// Writes the file again with these lines as its optimized listing.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn bless(&self, listing: &[String]) -> std::io::Result<()> {
        let kept = self.text.lines().filter(|line| !line.trim_start().starts_with("; optimized:"));
        let mut text = kept.collect::<Vec<_>>().join("\n");
        text.truncate(text.trim_end().len());
        text.push('\n');
        for line in listing {
            text.push_str(format!("; optimized: {line}").trim_end());
            text.push('\n');
        }
        std::fs::write(&self.path, text)
    }

    /// Why an engine is left out, if it is.
    pub fn exception(&self, engine: &str) -> Option<&str> {
        let found = self.expectations.except.iter().find(|(name, _)| name == engine);
        found.map(|(_, reason)| reason.as_str())
    }
}

impl Expectations {
    fn add(&mut self, annotation: Annotation) -> Result<(), String> {
        let Annotation { line, insn, key, value } = annotation;
        match (key.as_str(), insn) {
            ("error", Some(insn)) => self.errors.push((insn, value)),
            ("error", None) => return Err("`error:` stands beside an instruction".to_owned()),
            (_, Some(_)) => return Err(format!("`{key}:` has a line of its own")),
            ("check", _) if self.check.is_some() => return Err("`check:` is stated twice".to_owned()),
            ("check", _) => self.check = Some(parse_check(&value)?),
            ("on", _) => {
                let (release, check) =
                    value.split_once(' ').ok_or("expected `on: RELEASE accept` or `reject REASON`")?;
                self.on.push((release.parse()?, parse_check(check.trim())?));
            }
            ("kernel", _) => self.kernel_says = Some(value),
            // crates/transform/sandbox/tests/filetests.rs reads it.
            ("sandboxed", _) => {}
            ("run", _) => self.runs.push(parse_run(&value, line)?),
            ("optimized", _) => {
                self.wants_listing = true;
                if !value.is_empty() {
                    self.optimized.push(value);
                }
            }
            ("goal", _) => {
                self.goal = kiln_superopt::Goal::from_name(&value).ok_or_else(|| format!("`{value}` is no goal"))?;
            }
            ("not-rewritten", _) if !value.is_empty() => self.not_rewritten.push(value),
            ("keeps", _) => {
                let (count, text) = value.split_once(' ').ok_or("expected `keeps: N TEXT`")?;
                let count = count.parse().map_err(|_| format!("`{count}` is no number of lines"))?;
                self.keeps.push((count, text.trim().to_owned()));
            }
            ("processed", _) => {
                self.processed = Some(value.parse().map_err(|_| format!("`{value}` is no number of instructions"))?);
            }
            ("saves", _) => {
                self.saves = Some(value.parse().map_err(|_| format!("`{value}` is no number of slots"))?);
            }
            ("except", _) => {
                let (engine, reason) = value.split_once(':').ok_or("expected `except: ENGINE: REASON`")?;
                self.except.push((engine.trim().to_owned(), reason.trim().to_owned()));
            }
            _ => return Err(format!("`{key}:` is no expectation: {KEYS}")),
        }
        Ok(())
    }
}

const KEYS: &str =
    "check, on, kernel, error, run, optimized, not-rewritten, keeps, saves, processed, goal, except, sandboxed";

fn parse_check(value: &str) -> Result<Check, String> {
    match value.split_once(' ') {
        None if value == "accept" => Ok(Check::Accept),
        Some(("reject", reason)) => Ok(Check::Reject(reason.trim().to_owned())),
        _ => Err("expected `accept` or `reject REASON`".to_owned()),
    }
}

/// `[packet BYTES] => return N [packet BYTES]`.
fn parse_run(value: &str, line: usize) -> Result<Run, String> {
    let (input, output) = value.split_once("=>").ok_or("expected `=>` between input and output")?;
    let packet = match input.trim() {
        "" => vec![0; DEFAULT_PACKET_BYTES],
        input => packet_bytes(input.strip_prefix("packet").ok_or("expected `packet BYTES` before `=>`")?)?,
    };
    let output = output.trim().strip_prefix("return").ok_or("expected `return N` behind `=>`")?.trim();
    let (value, rest) = output.split_once(' ').unwrap_or((output, ""));
    let packet_after = match rest.trim() {
        "" => None,
        rest => Some(packet_bytes(rest.strip_prefix("packet").ok_or("expected `packet BYTES`")?)?),
    };
    Ok(Run { line, packet, value: parse_value(value)?, packet_after })
}

fn parse_value(text: &str) -> Result<u32, String> {
    let value = match (text.strip_prefix("0x"), text.strip_prefix('-')) {
        (Some(digits), _) => u32::from_str_radix(digits, 16).ok(),
        (None, Some(_)) => text.parse::<i32>().ok().map(|value| value as u32),
        (None, None) => text.parse().ok(),
    };
    value.ok_or_else(|| format!("`{text}` is no 32-bit value"))
}

/// `0102 ff*12 08`: hexadecimal bytes, groups of them repeated.
fn packet_bytes(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for group in text.split_whitespace() {
        let (digits, times) = group.split_once('*').unwrap_or((group, "1"));
        let times: usize = times.parse().map_err(|_| format!("`{times}` is no count"))?;
        let pairs: Option<Vec<u8>> =
            (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect();
        let pairs = pairs.ok_or_else(|| format!("`{digits}` is not hexadecimal bytes"))?;
        for _ in 0..times.min(1 << 16) {
            bytes.extend(&pairs);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_have_repetitions() {
        assert_eq!(packet_bytes("0102 ff*3 08"), Ok(vec![1, 2, 0xff, 0xff, 0xff, 8]));
        assert!(packet_bytes("010").is_err());
        assert!(packet_bytes("zz").is_err());
    }

    #[test]
    fn runs_state_value_and_packet() {
        let run = parse_run("packet 01 => return -1 packet 02", 3).unwrap();
        assert_eq!((run.packet, run.value, run.packet_after), (vec![1], u32::MAX, Some(vec![2])));
        assert_eq!(parse_run("=> return 0x10", 1).unwrap().packet.len(), DEFAULT_PACKET_BYTES);
        assert!(parse_run("return 1", 1).is_err());
    }
}
