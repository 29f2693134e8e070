//! The page of classic mistakes: small C programs, with the output of Kiln and others for each.
//!
//! ```text
//!   tests/mistakes/*.c --clang--> object --> kiln check   ours, first
//!                                       \--> the kernel   the end of its log
//!                       // prevail: 4.4 ------------------ what PREVAIL's documentation says it prints
//! ```
//!
//! A file begins with a sentence about the mistake, then `// check: reject CODE` (or `accept`). Objects are compiled
//! when the page is written or tested, and never committed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use kiln_driver::check::{Verdict, verdict};
use kiln_driver::{Input, input, kernel};
use kiln_verifier::Prepared;

/// The compiler for the page; another one may emit other instructions.
const CLANG: &str = "clang-19";
/// Lines of the kernel's log that the page shows.
const LOG_LINES: usize = 6;

/// One mistake.
#[derive(Clone, Debug)]
pub struct Mistake {
    /// The file's name without `.c`.
    pub name: String,
    /// The mistake, in a sentence.
    pub what: String,
    /// Our verdict: a reason's code, or `accept`.
    pub check: String,
    /// The section of PREVAIL's documentation with its message for this class of mistake.
    pub prevail: Option<String>,
    /// The C text without the lines above.
    pub code: String,
    path: PathBuf,
}

/// The message in this section of PREVAIL's `docs/llm-context.md` (version 1.0, 2026-02-10).
const PREVAIL: [(&str, &str); 7] = [
    ("4.1", "Invalid type (rN.type in {number, ctx, stack, packet, shared})"),
    ("4.2", "Upper bound must be at most packet_size (valid_access(rN.offset, width=W) for read/write)"),
    ("4.4", "Possible null access (valid_access(...) for read/write)"),
    ("4.5", "Only pointers can be dereferenced (valid_access(...))"),
    ("4.7", "Loop counter is too large (pc[N] < 100000)"),
    ("4.12", "Invalid type (rN.type in {ctx, stack, packet, shared})"),
    ("4.13", "Stack content is not numeric (valid_access(rN.offset, width=W) for read)"),
];

/// Where they are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/mistakes")
}

/// All of them, by name.
///
/// # Errors
/// A folder or file that cannot be read, or lacks its first lines.
pub fn all() -> Result<Vec<Mistake>, String> {
    let folder = folder();
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    paths.sort();
    paths.iter().map(|path| Mistake::read(path)).collect()
}

impl Mistake {
    fn read(path: &Path) -> Result<Mistake, String> {
        let complain = |what: &str| format!("{}: {what}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| complain(&error.to_string()))?;
        let mut lines = text.lines().peekable();
        let mut comment = |prefix: &str| {
            lines.next_if(|line| line.starts_with(prefix)).map(|line| line[prefix.len()..].trim().to_owned())
        };
        let what = comment("// ").ok_or_else(|| complain("the first line says what is wrong"))?;
        let check = comment("// check: ").ok_or_else(|| complain("the second line is `// check: ...`"))?;
        let prevail = comment("// prevail: ");
        let code = lines.collect::<Vec<_>>().join("\n");
        Ok(Mistake {
            name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            what,
            check: check.trim_start_matches("reject ").to_owned(),
            prevail,
            code: code.trim().to_owned(),
            path: path.to_owned(),
        })
    }

    /// Its object.
    ///
    /// # Errors
    /// What clang says.
    pub fn compile(&self, folder: &Path) -> Result<Input, String> {
        let object = folder.join(format!("{}.o", self.name));
        let source = self.path.file_name().unwrap_or_default();
        let output = Command::new(CLANG)
            .current_dir(self.path.parent().unwrap_or(Path::new(".")))
            .args([
                "-target",
                "bpf",
                "-mcpu=v3",
                "-O2",
                "-g",
                "-fdebug-compilation-dir=.",
                "-I/usr/include/x86_64-linux-gnu",
                "-c",
            ])
            .arg(source)
            .arg("-o")
            .arg(&object)
            .output()
            .map_err(|error| format!("{CLANG}: {error}"))?;
        if !output.status.success() {
            return Err(format!("{}: {}", self.name, String::from_utf8_lossy(&output.stderr)));
        }
        input::open(&object, &[]).map_err(|error| format!("{}: {error}", self.name))
    }

    /// Our verdict (a code, or `accept`) and our output.
    ///
    /// # Errors
    /// The object holds no program, or one that is not supported.
    pub fn ours(&self, input: &Input) -> Result<(String, String), String> {
        let program = input.object.programs.first().ok_or_else(|| format!("{}: no program", self.name))?;
        let options = kiln_verifier::Options { explain: true, ..input.verifier_options() };
        match verdict(&Prepared::new(&input.object, &options), program, &options) {
            Verdict::Accepted { .. } => Ok(("accept".to_owned(), "accepted".to_owned())),
            Verdict::Rejected { code, explanation, .. } => Ok((code, explanation.trim_end().to_owned())),
            Verdict::Unsupported { reason } | Verdict::Invalid { reason } => Err(format!("{}: {reason}", self.name)),
        }
    }

    /// The last lines of the kernel's log; `None` if it accepts the program.
    ///
    /// # Errors
    /// The kernel was not asked.
    pub fn kernels(&self, input: &Input) -> Result<Option<Vec<String>>, String> {
        let program = input.object.programs.first().ok_or_else(|| format!("{}: no program", self.name))?;
        let Err(failure) = kernel::load(&input.bytes, &input.object, program) else { return Ok(None) };
        let log = failure.logs.iter().map(|log| log.log.as_str()).collect::<String>();
        let statistics = |line: &str| {
            ["verification time", "stack depth", "processed ", "max_states", "insns processed"]
                .iter()
                .any(|word| line.starts_with(word))
        };
        let lines: Vec<String> = log
            .lines()
            .map(|line| without_addresses(line.trim_end()))
            .filter(|line| !line.is_empty() && !statistics(line))
            .collect();
        if lines.is_empty() {
            return Err(format!("{}: {failure}", self.name));
        }
        Ok(Some(lines[lines.len().saturating_sub(LOG_LINES)..].to_vec()))
    }

    /// The message of PREVAIL's documentation for this class.
    fn prevails(&self) -> Option<(&str, &'static str)> {
        let section = self.prevail.as_deref()?;
        PREVAIL.iter().find(|(number, _)| *number == section).map(|(_, message)| (section, *message))
    }

    /// Its section of the page. `kernel` is the text of the kernel's part.
    pub fn section(&self, ours: &str, kernel: &str) -> String {
        let mut text = format!("## {}\n\n{}\n\n```c\n{}\n```\n\n", title(&self.name), self.what, self.code);
        let _ = write!(text, "**Kiln**\n\n```text\n{ours}\n```\n\n{KERNEL}\n\n```text\n{kernel}\n```\n\n");
        match self.prevails() {
            Some((section, message)) => {
                let _ = write!(
                    text,
                    "**PREVAIL**, by its documentation (section {section}):\n\n```text\n{message}\n```\n\n"
                );
            }
            None => text.push_str("**PREVAIL**: its documentation names no message for this.\n\n"),
        }
        text
    }
}

/// Kernel addresses differ between loads.
fn without_addresses(line: &str) -> String {
    let mut words = line.split("0xffff8");
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |text, rest| {
        let end = rest.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(rest.len());
        format!("{text}0xffff...{}", &rest[end..])
    })
}

/// The line before the kernel's part.
pub const KERNEL: &str = "**The kernel** (6.18), the end of its log";

fn title(name: &str) -> String {
    let words = name.replace('-', " ");
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// The page's beginning.
pub const HEAD: &str = "\
# Classic mistakes, and the output of each verifier

This page has small programs that the kernel refuses. For each it shows the output of `kiln check`, then the end of the
kernel's log. `cargo xtask mistakes` writes it from `tests/mistakes/*.c` (clang 19, `-O2 -mcpu=v3`), and a test fails if
Kiln's output differs from it.

These are compared:

- **Kiln**: all of its output, offline and without privilege.
- **The kernel** (Linux 6.18): the last lines of its log at level 1; the whole log is a trace of registers. It needs root,
  and its verdict is only that of the running kernel.
- **PREVAIL**: it was not run, because no package registry that this project uses has a build of it (Debian, crates.io,
  PyPI; PyPI's package `prevail` is something else). The page quotes the message that PREVAIL's documentation has for the
  class of mistake (`docs/llm-context.md` of github.com/vbpf/prevail, version 1.0 of 2026-02-10), with registers and widths
  as placeholders. If the documentation has no message, nothing is quoted; PREVAIL may still reject the program.
- The load-time validators of user-space machines (rbpf, uBPF) were not run for this page.

";
