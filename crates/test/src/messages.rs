//! The page of messages: what Kiln and kernels say of the same rejected programs.
//!
//! ```text
//!   tests/{mistakes,helps}/*.c --clang--> object --> kiln check    its words, and the places that it marks
//!   target/corpus (selftests) ---------^                                |
//!   tests/kernel-words/7.3.jsonl    headline, reason, slot, events <----+--> docs/reference/messages.md
//!   tests/kernel-words/6.18.jsonl   the last message of the log    <----+
//! ```
//!
//! The kernels' words were recorded once (`scripts/other-kernel 7.3 --words`), so that the page depends on no kernel.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use kiln_driver::check::{Verdict, verdict};
use kiln_driver::{Input, input};
use kiln_verifier::Prepared;
use serde::Deserialize;

/// What a kernel said of a program, as it was recorded.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Words {
    /// `mistakes/packet-walk.o:walk`.
    pub program: String,
    /// The message.
    pub message: String,
    /// Class and headline of the account that 7.3 prints; empty where it prints none.
    pub headline: String,
    /// Its reason.
    pub reason: String,
    /// The slot that it is about.
    pub slot: Option<usize>,
    /// `file:line`, where the object has lines.
    pub place: Option<String>,
    /// What happened on the path.
    pub events: Vec<Event>,
    /// What it suggests.
    pub suggestion: String,
    /// Lines of the account.
    pub lines: usize,
}

/// One event of an account.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Event {
    slot: usize,
    place: Option<String>,
    text: String,
}

/// What Kiln says of a program.
#[derive(Clone, Debug)]
pub struct Ours {
    code: String,
    text: String,
    kernel_message: Option<String>,
    /// Slots and `file:line` that it marks, the rejection first.
    marks: Vec<(usize, Option<String>)>,
}

/// The kernels' words by program.
///
/// # Errors
/// A file that cannot be read, or is not what `scripts/other-kernel` writes.
pub fn recorded(series: &str) -> Result<BTreeMap<String, Words>, String> {
    let path = root().join(format!("tests/kernel-words/{series}.jsonl"));
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let rows = text.lines().map(|line| serde_json::from_str::<Words>(line).map_err(|error| error.to_string()));
    rows.map(|row| row.map(|row| (row.program.clone(), row))).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles the sources of a folder of `tests` into a folder; returns whether there is clang 19.
///
/// # Errors
/// What clang says.
pub fn compile(group: &str, into: &Path) -> Result<bool, String> {
    let folder = root().join("tests").join(group);
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let Some(name) = path.file_name().filter(|_| path.extension().is_some_and(|ending| ending == "c")) else {
            continue;
        };
        let object = into.join(name).with_extension("o");
        let include = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
        let mut command = Command::new("clang-19");
        command.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-w", "-fdebug-compilation-dir=.", &include, "-c"]);
        let Ok(ran) = command.arg(name).arg("-o").arg(&object).current_dir(&folder).output() else { return Ok(false) };
        if !ran.status.success() {
            return Err(format!("{}: {}", path.display(), String::from_utf8_lossy(&ran.stderr)));
        }
    }
    Ok(true)
}

/// What Kiln says of a program of an object; `None` where it does not reject it without a kernel's types.
fn ours(input: &Input, program: &str) -> Option<Ours> {
    let program = input.object.program(program)?;
    let options = kiln_verifier::Options { explain: true, ..input.verifier_options() };
    match verdict(&Prepared::new(&input.object, &options), program, &options) {
        Verdict::Rejected { code, explanation, diagnosis } => {
            let places = std::iter::once(&diagnosis.place).chain(diagnosis.story.iter().map(|step| &step.place));
            Some(Ours {
                code,
                text: explanation.trim_end().to_owned(),
                kernel_message: diagnosis.kernel_message.as_ref().map(|message| message.exact().to_owned()),
                marks: places
                    .map(|place| {
                        let file = place.file.as_ref().and_then(|file| file.exact().rsplit('/').next());
                        (place.slot, file.zip(place.line).map(|(file, line)| format!("{file}:{line}")))
                    })
                    .collect(),
            })
        }
        _ => None,
    }
}

/// What is counted over a group.
#[derive(Debug, Default)]
struct Counts {
    programs: usize,
    accounts: usize,
    same_place: usize,
    same_message: usize,
    events: BTreeMap<String, [usize; 2]>,
    our_lines: Vec<usize>,
    their_lines: Vec<usize>,
}

impl Ours {
    /// Whether a slot or line is marked. Selftests in assembly have one line for all.
    fn marks(&self, slot: Option<usize>, place: Option<&String>, by_line: bool) -> bool {
        let same = |(own, line): &(usize, Option<String>)| {
            Some(*own) == slot || by_line && place.is_some() && line.as_ref() == place
        };
        self.marks.iter().any(same)
    }
}

impl Counts {
    fn add(&mut self, ours: &Ours, words: &Words, by_line: bool) {
        self.programs += 1;
        self.our_lines.push(ours.text.lines().count());
        self.same_message += usize::from(ours.kernel_message.as_ref() == Some(&words.message));
        if words.headline.is_empty() {
            return;
        }
        self.accounts += 1;
        self.their_lines.push(words.lines);
        self.same_place += usize::from(ours.marks(words.slot, words.place.as_ref(), by_line));
        for event in &words.events {
            let kind = event.text.split(':').next().unwrap_or_default().to_owned();
            let [told, untold] = self.events.entry(kind).or_default();
            *if ours.marks(Some(event.slot), event.place.as_ref(), by_line) { told } else { untold } += 1;
        }
    }
}

fn median(numbers: &[usize]) -> usize {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

/// The page, and the longest of Kiln's texts in lines. `objects` says where a group's objects are.
pub fn page(new: &BTreeMap<String, Words>, old: &BTreeMap<String, Words>, objects: &Path) -> (String, usize) {
    let mut all = BTreeMap::<&str, Counts>::new();
    let (mut sections, mut none, mut untold) = (String::new(), Vec::new(), String::new());
    let mut read = None::<(&str, Option<Input>)>;
    for (name, words) in new {
        let Some((object, program)) = name.split_once(':') else { continue };
        let group = object.split('/').next().unwrap_or_default();
        if read.as_ref().is_none_or(|(known, _)| *known != object) {
            read = Some((object, input::open(&objects.join(object), &[]).ok()));
        }
        let input = read.as_ref().and_then(|(_, input)| input.as_ref());
        let Some(ours) = input.and_then(|input| ours(input, program)) else {
            none.push(format!("`{name}`"));
            continue;
        };
        let by_line = !group.starts_with("selftests");
        all.entry(group).or_default().add(&ours, words, by_line);
        if by_line {
            for event in &words.events {
                if !ours.marks(Some(event.slot), event.place.as_ref(), true) {
                    let _ = writeln!(
                        untold,
                        "| {} | {} | {} |",
                        short(name),
                        at(event.slot, event.place.as_ref()),
                        event.text
                    );
                }
            }
            section(&mut sections, name, &ours, words, old.get(name));
        }
    }
    let longest = all.values().flat_map(|counts| &counts.our_lines).max().copied().unwrap_or(0);
    (HEAD.to_owned() + &tables(&all, &none, &untold) + &sections, longest)
}

fn tables(all: &BTreeMap<&str, Counts>, none: &[String], untold: &str) -> String {
    let mut text = "| programs | rejected by both | 7.3 explains | Kiln marks its place | Kiln prints 7.3's message | \
                    lines of Kiln: median, most | lines of 7.3's block: median, most |\n|---|---|---|---|---|---|---|\n"
        .to_owned();
    let most = |numbers: &[usize]| numbers.iter().max().copied().unwrap_or(0);
    for (group, own) in all {
        let Counts { programs, accounts, same_place, same_message, our_lines, their_lines, .. } = own;
        let [ours, theirs] = [our_lines, their_lines].map(|lines| format!("{}, {}", median(lines), most(lines)));
        let row =
            format!("| {group} | {programs} | {accounts} | {same_place} | {same_message} | {ours} | {theirs} |\n");
        text.push_str(&row);
    }
    text.push_str("\n## What the kernel tells\n\nEach event of 7.3's causal paths, and whether Kiln marks its line (of selftests, its instruction).\n\n");
    text.push_str("| programs | event | Kiln marks it | Kiln does not |\n|---|---|---|---|\n");
    for (group, own) in all {
        for (kind, [told, untold]) in &own.events {
            let _ = writeln!(text, "| {group} | {kind} | {told} | {untold} |");
        }
    }
    text.push_str(UNTOLD);
    let _ = match untold {
        "" => writeln!(text, "Of `tests/helps` and `tests/mistakes`, Kiln marks the line of every event.\n"),
        _ => writeln!(text, "{LEFT}| program | place | what 7.3 says of it |\n|---|---|---|\n{untold}"),
    };
    if !none.is_empty() {
        let _ = write!(
            text,
            "7.3 rejects these, and Kiln does not without a kernel's types and with the rules of 6.18: {}.\n\n",
            none.join(", ")
        );
    }
    text
}

/// `mistakes/packet-walk.o:walk` as a title.
fn short(name: &str) -> String {
    name.split('/').next_back().unwrap_or(name).replace(".o:", ": ")
}

/// A place in words.
fn at(slot: usize, place: Option<&String>) -> String {
    place.map_or_else(|| format!("slot {slot}"), Clone::clone)
}

fn section(text: &mut String, name: &str, ours: &Ours, words: &Words, old: Option<&Words>) {
    let _ = write!(text, "## {}\n\n**Kiln** (`{}`)\n\n```text\n{}\n```\n\n", short(name), ours.code, ours.text);
    if let Some(old) = old {
        let _ = write!(text, "**Linux 6.18**\n\n```text\n{}\n```\n\n", old.message);
    }
    let _ = write!(text, "**Linux 7.3**\n\n```text\n{}\n", words.message);
    if !words.headline.is_empty() {
        let _ = writeln!(text, "Verification failed: {}\nReason: {}", words.headline, words.reason);
        if let Some(slot) = words.slot {
            let _ = writeln!(text, "At: {}", at(slot, words.place.as_ref()));
        }
        for event in &words.events {
            let _ = writeln!(text, "Causal path: {}: {}", at(event.slot, event.place.as_ref()), event.text);
        }
        if !words.suggestion.is_empty() {
            let _ = writeln!(text, "Suggestion: {}", words.suggestion);
        }
    }
    text.push_str("```\n\n");
}

const UNTOLD: &str = "
Kiln marks a branch, a change or a call only if the rejected value depends on it. 7.3 lists each of the path that it
still knows.

";

const LEFT: &str = "\
These are the events of `tests/helps` and `tests/mistakes` whose line Kiln does not mark:

";

/// The page's beginning.
const HEAD: &str = "\
# Messages, side by side

This page shows what Kiln, Linux 6.18 and Linux 7.3 say of the same rejected programs. Since 7.3 the kernel explains a
rejection after its log: source, reason, causal path. Kiln's text is all that `kiln check` prints of a rejection, without
a kernel's types and as 6.18. The programs are those of `tests/mistakes` and `tests/helps`, and the selftests of
`make corpus`, of which only the counts are here.

The kernels' words are data, recorded with `scripts/other-kernel 7.3 --words` (7.3.4 of Debian) and
`scripts/other-kernel running --words` (6.18). Of 7.3's block the page leaves out source lines and instructions around a
place. `cargo xtask messages` writes the page; a test fails if it is not current, or if a text of Kiln has 40 lines.

";
