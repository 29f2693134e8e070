//! Helps that work: an edit of the source that makes a rejected program load, compiled and checked before it is shown.
//!
//! ```text
//!   rejection --propose--> edits --a copy of the source--> clang, same flags --> check
//!                                                                                  | accepted: this is the fix
//!                                                                                  | another rejection: go on from there
//!                                                                                  | the same: the next proposal
//! ```
//!
//! An edit may need another one after it. A place that was seen before is not edited again for the same reason. A fix is
//! [`Fix::accepted`] only if the program is accepted with all its edits, and no other program is rejected for them.

mod arguments;
mod checks;
mod elsewhere;
mod ends;
mod held;
mod hooks;
mod maps;
mod order;
mod parts;
mod propose;
mod registers;
mod rewritten;
mod rules;
mod stores;
mod text;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

pub use kiln_checker::sources::{Fix, Replacement};
use kiln_inspect::check::{Checked, Verdict};
use kiln_inspect::show::shown::Shown;
use kiln_verifier::Reason;

use self::propose::{Case, Proposal};
use self::text::{Edit, Source};
use super::reports::{self, Report, Wanted};
use crate::objects::Found;
use crate::source;
use kiln_program::Error;

/// Rejections that are removed one after the other at most.
const MAX_ROUNDS: usize = 8;
/// Edits that are tried for one rejection at most.
const MAX_TRIALS: usize = 24;
/// Edits that are tried for one program at most.
const MAX_WORK: usize = 96;
/// Edits of one rejection that lead to another one, and with which the search goes on.
const MAX_WAYS: usize = 4;
/// The time for the fixes of a source. Mostly [`MAX_WORK`] ends a search before.
pub const BUDGET: Duration = Duration::from_secs(60);
/// Bytes of a source that is edited at most.
const MAX_SOURCE_BYTES: u64 = 4 << 20;

/// Finds fixes for the rejected programs of a source.
pub fn fixes(found: &Found, report: &Report, wanted: &Wanted, budget: Duration) -> Vec<Fix> {
    if !source::is_source(&found.path) {
        return Vec::new();
    }
    let end = Instant::now() + budget;
    let verdicts = report.verdicts();
    let mut search = Search { found, wanted, end, functions: None };
    let rejected = verdicts.iter().filter(|own| !own.verdict.is_accepted());
    rejected.filter_map(|own| search.fix(own, &verdicts).ok().flatten()).collect()
}

struct Search<'a> {
    found: &'a Found,
    wanted: &'a Wanted,
    end: Instant,
    functions: Option<Vec<String>>,
}

/// What a source becomes.
struct Tried {
    text: String,
    title: String,
    safe: bool,
    verdict: Checked,
}

/// Edits one after the other, each of which leads to another rejection.
#[derive(Clone)]
struct Way {
    steps: Vec<Rc<Tried>>,
    /// How often it is not the first edit that led on.
    turns: usize,
    /// The places that it has come by.
    seen: BTreeSet<[String; 2]>,
    /// The edits that it has, with the text of the rejected line.
    done: BTreeSet<(String, String)>,
}

/// A rejected program, and how much is still tried for it.
struct Rejected<'a> {
    path: &'a Path,
    original: &'a str,
    verdict: &'a Checked,
    all: &'a [Checked],
    left: usize,
    tried: BTreeSet<String>,
}

impl Way {
    fn first(rejected: &Checked) -> Way {
        Way { steps: Vec::new(), turns: 0, seen: BTreeSet::from([place(rejected)]), done: BTreeSet::new() }
    }

    /// The same with one more step.
    fn with(&self, step: Tried, turns: usize, line: &str) -> Way {
        let mut way = self.clone();
        way.turns += turns;
        way.seen.insert(place(&step.verdict));
        way.done.insert((step.title.clone(), line.to_owned()));
        way.steps.push(Rc::new(step));
        way
    }
}

impl Search<'_> {
    /// The way with the fewest turns is followed first, to its end.
    fn fix(&mut self, rejected: &Checked, all: &[Checked]) -> Result<Option<Fix>, Error> {
        let path = std::fs::canonicalize(&self.found.path).map_err(|error| Error::file(&self.found.path, &error))?;
        let bytes = kiln_inspect::file::read(&path, MAX_SOURCE_BYTES)?;
        let Ok(original) = String::from_utf8(bytes) else { return Ok(None) };
        let tried = BTreeSet::from([original.clone()]);
        let mut program = Rejected { path: &path, original: &original, verdict: rejected, all, left: MAX_WORK, tried };
        let mut open = vec![Way::first(rejected)];
        let mut straight = None;
        let mut accepted = None;
        while let Some(at) = (0..open.len()).min_by_key(|at| (open[*at].turns, Reverse(open[*at].steps.len()))) {
            let way = open.swap_remove(at);
            if way.steps.len() < MAX_ROUNDS {
                let mut onward = self.onward(&way, &mut program);
                if onward
                    .last()
                    .is_some_and(|way| way.steps.last().is_some_and(|last| last.verdict.verdict.is_accepted()))
                {
                    accepted = onward.pop();
                    break;
                }
                open.extend(onward);
            }
            if way.turns == 0 {
                straight = Some(way);
            }
        }
        let steps = accepted.or(straight).map_or_else(Vec::new, |way| way.steps);
        Ok(self.report(rejected, path.clone(), original.clone(), &steps))
    }

    fn report(&self, rejected: &Checked, path: PathBuf, original: String, steps: &[Rc<Tried>]) -> Option<Fix> {
        let last = steps.last()?;
        let next = match &last.verdict.verdict {
            Verdict::Rejected { code, diagnosis, .. } => {
                let line = diagnosis.place.line.map_or(String::new(), |line| format!(" in line {line}"));
                Some(format!("{code}{line}: {}", diagnosis.message).into())
            }
            _ => None,
        };
        let text = with_line_ends_of(&original, &last.text);
        Some(Fix {
            program: rejected.program.clone(),
            steps: steps.iter().map(|step| step.title.as_str().into()).collect(),
            accepted: last.verdict.verdict.is_accepted(),
            next,
            safe: steps.iter().all(|step| step.safe),
            file: self.found.path.display().to_string().into(),
            edits: replacements(&original, &text),
            text,
            original,
            path,
        })
    }

    /// Tries the proposals for the end of a way. Returns the ways that go on to a place that this one has not come by; the
    /// last one ends in acceptance, if one does.
    fn onward(&mut self, way: &Way, program: &mut Rejected<'_>) -> Vec<Way> {
        let (text, current) = match way.steps.last() {
            Some(last) => (last.text.as_str(), &last.verdict),
            None => (program.original, program.verdict),
        };
        let source = Source::new(text.to_owned());
        let here = line(current);
        let all = self.proposals(&source, current).into_iter();
        let proposals = all
            .filter(|own| !way.done.contains(&(own.title.clone(), here.clone())))
            .filter(|own| !own.edits.iter().any(|edit| source.has(edit)));
        let mut found: Vec<Way> = Vec::new();
        for Proposal { title, edits, safe } in proposals.take(MAX_TRIALS) {
            if Instant::now() >= self.end || program.left == 0 {
                break;
            }
            let text = source.edited(&edits);
            if !program.tried.insert(text.clone()) {
                continue;
            }
            program.left -= 1;
            let Some(verdict) = self.check(program.path, &text, current, program.all) else { continue };
            let accepted = verdict.verdict.is_accepted();
            let leads_on = matches!(verdict.verdict, Verdict::Rejected { .. }) && !way.seen.contains(&place(&verdict));
            if accepted || leads_on && found.len() < MAX_WAYS {
                found.push(way.with(Tried { text, title, safe, verdict }, found.len(), &here));
            }
            if accepted {
                break;
            }
        }
        found
    }

    fn proposals(&mut self, source: &Source, current: &Checked) -> Vec<Proposal> {
        let Verdict::Rejected { code, diagnosis, .. } = &current.verdict else {
            let mut found: Vec<Proposal> = section(source, current).into_iter().collect();
            if matches!(current.verdict, Verdict::Invalid { .. }) {
                found.extend(rewritten::function_table(source));
                found.extend(registers::all_return(source));
            }
            return found;
        };
        let place = &diagnosis.place;
        let own =
            place.file.as_ref().and_then(|file| Path::new(file.exact()).file_name()) == self.found.path.file_name();
        let at = place.line.filter(|_| own).and_then(|line| source.offset(line, place.column.unwrap_or(1)));
        let Some(line) = at else {
            let case = Case {
                source,
                code,
                diagnosis,
                section: current.section.exact(),
                at: 0,
                statement: 0..0,
                functions: &[],
            };
            return maps::defined(&case);
        };
        let at = source.in_body(line);
        let statement = source.statement(at).filter(|_| at == line).map_or(at..at, |(own, _)| own);
        if self.functions.is_none() {
            self.functions = Some(kernel_functions());
        }
        let functions = self.functions.as_deref().unwrap_or_default();
        let case = Case { source, code, diagnosis, section: current.section.exact(), at, statement, functions };
        let mut found = proposals(&case);
        found.extend(elsewhere::proposals(&case));
        found
    }

    /// The verdict on the program in an edited source; `None` if it does not compile, or breaks another program.
    fn check(&self, path: &Path, text: &str, current: &Checked, all: &[Checked]) -> Option<Checked> {
        let compiled = source::compile_edited(path, Some(text)).ok()?;
        let outcome = reports::check_bytes(self.found, None, Ok(compiled.object?), self.wanted);
        let now = outcome.report.verdicts();
        let of = |name: &Shown| now.iter().find(|own| own.program == *name);
        let broken = all.iter().any(|before| {
            before.verdict.is_accepted() && of(&before.program).is_none_or(|own| !own.verdict.is_accepted())
        });
        of(&current.program).filter(|_| !broken).cloned()
    }
}

/// The proposals for a rejection.
fn proposals(case: &Case<'_>) -> Vec<Proposal> {
    let is = |reason: Reason| reason.code() == case.code;
    let mut found = Vec::new();
    // A pointer that a call made useless must not be read in another way.
    found.extend(rules::lost(case));
    if !found.is_empty() {
        return found;
    }
    if is(Reason::PossiblyNull) {
        found.extend(checks::null(case));
    } else if is(Reason::PacketBounds) {
        found.extend(checks::packet(case));
    } else if is(Reason::UnboundedOffset) {
        found.extend(checks::index(case));
        found.extend(checks::offset(case));
    } else if is(Reason::MapDefinition) {
        found.extend(maps::defined(case));
    } else if is(Reason::MapValueBounds) || is(Reason::StackBounds) || is(Reason::MemoryBounds) {
        found.extend(rules::widths(case));
        found.extend(checks::reserved(case));
        found.extend(checks::size(case));
        found.extend(checks::index(case));
        found.extend(checks::moved_in_array(case));
    } else if is(Reason::ArgumentSize) {
        found.extend(checks::reserved_at_most(case));
        found.extend(checks::size(case));
    } else {
        found.extend(rules::other(case));
    }
    found
}

/// What stays the same of a rejection while lines move: its code and its line's text.
fn place(checked: &Checked) -> [String; 2] {
    match &checked.verdict {
        Verdict::Rejected { code, diagnosis, .. } => {
            [code.clone(), format!("{} {}", line(checked), without_registers(diagnosis.message.exact()))]
        }
        _ => Default::default(),
    }
}

/// A message without the names of registers, which an edit may change.
fn without_registers(message: &str) -> String {
    let is_register = |word: &&str| {
        word.len() > 1 && word.starts_with('r') && word[1..].trim_end_matches([':', ',']).parse::<u8>().is_ok()
    };
    message.split(' ').filter(|word| !is_register(word)).collect::<Vec<_>>().join(" ")
}

/// The text of the rejected line.
fn line(checked: &Checked) -> String {
    match &checked.verdict {
        Verdict::Rejected { diagnosis, .. } => {
            let line = diagnosis.place.source.as_ref().unwrap_or(&diagnosis.place.listing);
            line.exact().trim().to_owned()
        }
        _ => String::new(),
    }
}

/// For a section that says no program type: the nearest that does.
fn section(source: &Source, current: &Checked) -> Option<Proposal> {
    let name = current.section.exact();
    let (word, hook) = name.split_once('/').map_or((name, None), |(word, hook)| (word, Some(hook)));
    let known = kiln_platform::SECTION_RULES.iter().map(|rule| rule.name.trim_end_matches('/'));
    let near = kiln_inspect::input::closest(word, known).filter(|near| *near != word)?;
    let near = hook.map_or_else(|| near.to_owned(), |hook| format!("{near}/{hook}"));
    let old = format!("SEC(\"{name}\")");
    let (at, _) = source.text.match_indices(&old).find(|(at, _)| source.code(*at..at + 3) == "SEC")?;
    let text = format!("SEC(\"{near}\")");
    Some(Proposal {
        title: format!("replace `{old}` by `{text}`"),
        edits: vec![Edit { range: at..at + old.len(), text }],
        safe: false,
    })
}

/// The names of functions in the running kernel's types.
fn kernel_functions() -> Vec<String> {
    let Some(types) = kiln_inspect::input::running_kernel_types() else { return Vec::new() };
    let functions = types.own_ids().filter(|id| matches!(types.kind(*id), kiln_program::btf::Kind::Function { .. }));
    functions.map(|id| types.name(id).to_owned()).filter(|name| name.starts_with("bpf_")).collect()
}

/// The next two lines, or as many as there are; `None` beyond the end.
fn next_lines<'a, 'text>(lines: &'a [&'text str], at: usize) -> Option<&'a [&'text str]> {
    lines.get(at..).map(|rest| &rest[..rest.len().min(2)])
}

/// A text with `\r\n` at the ends of its lines, if another one has them at all of its.
fn with_line_ends_of(original: &str, text: &str) -> String {
    let is_long = |line: &str| line.ends_with("\r\n") || !line.ends_with('\n');
    if !original.contains('\r') || !original.split_inclusive('\n').all(is_long) {
        return text.to_owned();
    }
    let long = |line: &str| if is_long(line) { line.to_owned() } else { line.replace('\n', "\r\n") };
    text.split_inclusive('\n').map(long).collect()
}

/// The lines in which two texts differ, as replacements of runs of lines.
fn replacements(old: &str, new: &str) -> Vec<Replacement> {
    let [before, after] = [old, new].map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
    let mut found = Vec::new();
    let (mut left, mut right) = (0, 0);
    while left < before.len() || right < after.len() {
        if left < before.len() && right < after.len() && before[left] == after[right] {
            (left, right) = (left + 1, right + 1);
            continue;
        }
        // The nearest place at which both go on alike.
        let reach = (before.len() - left) + (after.len() - right);
        let alike = |removed: usize, added: usize| {
            let old = next_lines(&before, left + removed);
            old.is_some() && old == next_lines(&after, right + added)
        };
        let place =
            (1..=reach).find_map(|sum| (0..=sum).map(|added| (sum - added, added)).find(|(r, a)| alike(*r, *a)));
        let (removed, added) = place.unwrap_or((before.len() - left, after.len() - right));
        let inserted = after[right..right + added].concat();
        found.push(Replacement { line: left as u32 + 1, removed: removed as u32, inserted });
        (left, right) = (left + removed, right + added);
    }
    found
}

/// Writes the file with a fix, if it still is what was checked.
///
/// # Errors
/// [`Error::InvalidInput`] if it changed meanwhile, and what writing gives.
pub fn write(fix: &Fix) -> Result<(), Error> {
    let now = kiln_inspect::file::read(&fix.path, MAX_SOURCE_BYTES)?;
    if now != fix.original.as_bytes() {
        return Err(Error::InvalidInput(format!("{}: it changed while it was checked", fix.path.display())));
    }
    crate::output::write_whole(&fix.path, fix.text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_are_the_lines_that_differ() {
        let old = "a\nb\nc\nd\n";
        let new = "a\nx\nb\nc\ne\nd\n";
        let found = replacements(old, new);
        let texts: Vec<(u32, u32, &str)> =
            found.iter().map(|own| (own.line, own.removed, own.inserted.as_str())).collect();
        assert_eq!(texts, [(2, 0, "x\n"), (4, 0, "e\n")]);
        assert_eq!(replacements("a\nb\n", "a\nc\n"), [Replacement { line: 2, removed: 1, inserted: "c\n".into() }]);
        assert!(replacements(old, old).is_empty());
    }

    #[test]
    fn lines_end_as_the_sources_do() {
        assert_eq!(with_line_ends_of("a\r\nb\r\n", "a\r\nx\nb\r\n"), "a\r\nx\r\nb\r\n");
        assert_eq!(with_line_ends_of("a\nb\r\n", "a\nx\nb\r\n"), "a\nx\nb\r\n");
    }
}
