//! What `kiln repair` does to programs that the kernel takes from one compiler and not from another.
//!
//! ```text
//!   a source, compiled in 64 ways (scripts/variants)
//!        |
//!   the kernel loads its program in some of them, rejects it in others
//!        |                                   |
//!        |                              kiln repair --> does the kernel load it now? is it proved?
//!        +--------- compared on 10,000 inputs ---------------+
//! ```
//!
//! Variants with the same instructions count once. A program that the kernel was not asked about (it lacks the hook, a
//! map cannot be made) says nothing, and neither does one that is rejected in every variant.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kiln_driver::kernel::{self, Answer};
use kiln_driver::repair::{self, Decision};
use kiln_driver::{Input, Object, Program, input};
use kiln_test::corpus::{self, CorpusObject};
use serde::Serialize;

use crate::gains::equality::{self, Equality, Outcome};
use crate::gains::in_parallel;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only sources whose path contains one of these; all when empty.
    pub names: Vec<String>,
    /// Threads. Times are those of a run with one.
    pub jobs: usize,
    /// Inputs on which a repaired program is compared with a variant that loads.
    pub inputs: usize,
    /// Time for one repair at most.
    pub budget: Duration,
    /// Where repaired objects are written, if they are wanted.
    pub keep: Option<PathBuf>,
}

/// What became of a rejected variant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// It is proved, and the kernel loads it.
    Proved,
    /// It is changed without a proof, and the kernel loads it.
    Guarded,
    /// It is as it was, or the kernel rejects the result.
    Rejected,
}

/// A rejected variant of a program.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The source.
    pub source: String,
    /// The program.
    pub program: String,
    /// The first of the variants with these instructions.
    pub variant: String,
    /// How many variants have them.
    pub count: usize,
    /// The variant that loads, and that the repaired one is compared with.
    pub sibling: String,
    /// Why the kernel rejects it.
    pub kernel: String,
    /// What became of it.
    pub fate: Fate,
    /// Why it is still rejected.
    pub reason: String,
    /// The changes: their names.
    pub changes: Vec<String>,
    /// Seconds that the repair took.
    pub seconds: f64,
    /// The comparison, where it loads.
    pub equality: Option<Equality>,
}

/// Everything that was measured.
#[derive(Debug, Default, Serialize)]
pub struct Measured {
    /// Sources looked at.
    pub sources: usize,
    /// Objects looked at.
    pub objects: usize,
    /// Programs that the kernel loads in one variant and rejects in another.
    pub programs: usize,
    /// Programs that the kernel rejects in every variant.
    pub never: usize,
    /// The rejected variants.
    pub rows: Vec<Row>,
    /// Objects that could not be read.
    pub failed: Vec<(String, String)>,
}

/// One variant of a program.
struct Variant {
    entry: CorpusObject,
    input: Arc<Input>,
    answer: Answer,
}

/// Measures all sources of the manifest that `options` choose.
pub fn measure(options: &Options) -> Measured {
    let mut sources: BTreeMap<String, Vec<CorpusObject>> = BTreeMap::new();
    for entry in corpus::objects() {
        let wanted = options.names.is_empty() || options.names.iter().any(|name| entry.source.contains(name.as_str()));
        if wanted && entry.refused().is_none() {
            sources.entry(format!("{}:{}", entry.group, entry.source)).or_default().push(entry);
        }
    }
    let sources: Vec<_> = sources.into_values().collect();
    let parts = in_parallel(options.jobs, &sources, |entries| {
        let part = one_source(entries, options);
        let repaired = part.rows.iter().filter(|row| row.fate != Fate::Rejected).count();
        eprintln!("{}: {} of {} repaired", entries[0].source, repaired, part.rows.len());
        part
    });
    let mut all = Measured { sources: sources.len(), ..Measured::default() };
    for part in parts {
        all.objects += part.objects;
        all.programs += part.programs;
        all.never += part.never;
        all.rows.extend(part.rows);
        all.failed.extend(part.failed);
    }
    all
}

fn one_source(entries: &[CorpusObject], options: &Options) -> Measured {
    let mut part = Measured { objects: entries.len(), ..Measured::default() };
    let mut programs: BTreeMap<String, Vec<Variant>> = BTreeMap::new();
    for entry in entries {
        let input = match entry.read() {
            Ok(input) => Arc::new(input),
            Err(error) => {
                part.failed.push((entry.path.display().to_string(), error.to_string()));
                continue;
            }
        };
        for program in input.object.programs.iter().filter(|program| !entry.leaves_out(&program.name)) {
            let answer = ask(&input, program);
            let variant = Variant { entry: entry.clone(), input: Arc::clone(&input), answer };
            programs.entry(program.name.clone()).or_default().push(variant);
        }
    }
    for (name, variants) in programs {
        let loading: Vec<&Variant> = variants.iter().filter(|own| own.answer == Answer::Accept).collect();
        let rejected = || variants.iter().filter(|own| matches!(own.answer, Answer::Reject(_)));
        if rejected().next().is_none() {
            continue;
        }
        if loading.is_empty() {
            part.never += 1;
            continue;
        }
        part.programs += 1;
        let mut by_code: HashMap<u64, (&Variant, usize)> = HashMap::new();
        let mut order = Vec::new();
        for own in rejected() {
            let code = code(&own.input.object, &name);
            by_code.entry(code).and_modify(|(_, count)| *count += 1).or_insert_with(|| {
                order.push(code);
                (own, 1)
            });
        }
        for code in order {
            let (own, count) = by_code[&code];
            part.rows.push(one_variant(own, count, &name, nearest(own, &loading), options));
        }
    }
    part
}

/// Asks the kernel, but not about programs that can stop the machine.
fn ask(input: &Input, program: &Program) -> Answer {
    let verdicts = kiln_driver::check::check(input, &[program]);
    if verdicts.iter().any(|own| kernel::verdict::is_dangerous(&own.verdict)) {
        return Answer::NotAsked(kernel::NotAsked::Other("it can stop the machine".to_owned()));
    }
    kernel::ask(&input.bytes, &input.object, program, None)
}

/// A hash of a program's instructions.
fn code(object: &Object, name: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    if let Some(program) = object.program(name) {
        for id in object.reachable_functions(program.entry) {
            for node in &object.function(id).nodes {
                format!("{:?} {:?}", node.insn, node.reference).hash(&mut hasher);
            }
        }
    }
    hasher.finish()
}

/// The loading variant that has most in common with a rejected one.
fn nearest<'v>(own: &Variant, loading: &[&'v Variant]) -> &'v Variant {
    let words = |variant: &Variant| variant.entry.variant.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mine = words(own);
    let common = |other: &&&Variant| words(other).iter().zip(&mine).filter(|(left, right)| left == right).count();
    loading.iter().rev().max_by_key(common).copied().unwrap_or(loading[0])
}

fn one_variant(own: &Variant, count: usize, name: &str, sibling: &Variant, options: &Options) -> Row {
    let mut row = Row {
        source: own.entry.source.clone(),
        program: name.to_owned(),
        variant: own.entry.variant.clone(),
        count,
        sibling: sibling.entry.variant.clone(),
        kernel: match &own.answer {
            Answer::Reject(reason) => reason.clone(),
            _ => String::new(),
        },
        fate: Fate::Rejected,
        reason: String::new(),
        changes: Vec::new(),
        seconds: 0.0,
        equality: None,
    };
    let mut search = repair::Options::default();
    search.programs = vec![name.to_owned()];
    search.budget = options.budget;
    let repaired = match repair::repair(&own.input, &search, &mut ()) {
        Ok(repaired) => repaired,
        Err(error) => {
            row.reason = error.to_string();
            return row;
        }
    };
    row.seconds = repaired.spent.as_secs_f64();
    let Some(account) = repaired.programs.first() else { return row };
    row.changes = account.changes.iter().map(|change| change.means.to_owned()).collect();
    row.fate = match account.decision {
        Decision::RepairedProved => Fate::Proved,
        Decision::RepairedGuarded => Fate::Guarded,
        Decision::Accepted => {
            row.reason = "Kiln's verifier accepts it as it is".to_owned();
            return row;
        }
        Decision::NotDecided | Decision::ReallyUnsafe | Decision::Forbidden => {
            let rejected = account.rejected.as_ref().map_or("", |what| what.exact());
            row.reason = format!("{rejected}: {}", account.reason.as_ref().map_or("", |what| what.exact()));
            return row;
        }
    };
    let after = Input {
        bytes: repaired.bytes,
        kernel_types: own.input.kernel_types.clone(),
        ..input::of_object(repaired.object)
    };
    if let Some(folder) = &options.keep {
        let file = format!("{}-{name}-{}.o", row.source.replace('/', "_"), row.variant.replace(' ', ""));
        let _ = std::fs::write(folder.join(file), &after.bytes);
    }
    let Some(program) = after.object.program(name) else { return row };
    match kernel::ask(&after.bytes, &after.object, program, None) {
        Answer::Accept => {}
        Answer::Reject(reason) => {
            row.fate = Fate::Rejected;
            row.reason = format!("the kernel still rejects it: {reason}");
            return row;
        }
        Answer::NotAsked(why) => {
            row.fate = Fate::Rejected;
            row.reason = format!("the kernel was not asked: {why}");
            return row;
        }
    }
    if let Some(other) = sibling.input.object.program(name).filter(|_| options.inputs > 0) {
        row.equality = Some(equality::compare(&sibling.input, &after, other, options.inputs));
    }
    row
}

impl Measured {
    /// The table, the reasons, and the bars, as text.
    pub fn text(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{} objects of {} sources; {} programs load in one variant and not in another, {} in none",
            self.objects, self.sources, self.programs, self.never
        );
        let mut table: BTreeMap<(&str, &str), Vec<&Row>> = BTreeMap::new();
        for row in &self.rows {
            table.entry((row.source.as_str(), row.program.as_str())).or_default().push(row);
        }
        let _ = writeln!(text, "\n{:<60} rejected  loads after  proved  median s", "program");
        for ((source, program), rows) in &table {
            let loads = rows.iter().filter(|row| row.fate != Fate::Rejected).count();
            let proved = rows.iter().filter(|row| row.fate == Fate::Proved).count();
            let [_, median, _] = crate::spread(rows.iter().map(|row| row.seconds));
            let file = source.rsplit('/').next().unwrap_or(source);
            let name = format!("{file}:{program}");
            let _ = writeln!(text, "{name:<60} {:>8}  {loads:>11}  {proved:>6}  {median:>8.2}", rows.len());
        }
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.fate == Fate::Rejected) {
            *reasons.entry(row.reason.as_str()).or_default() += 1;
        }
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let _ = writeln!(text, "\nstill rejected, by reason:");
        for (reason, count) in reasons {
            let _ = writeln!(text, "{count:>5}  {reason}");
        }
        self.bars(&mut text);
        text
    }

    fn bars(&self, text: &mut String) {
        use std::fmt::Write as _;
        let all = self.rows.len();
        let loads = self.rows.iter().filter(|row| row.fate != Fate::Rejected).count();
        let proved = self.rows.iter().filter(|row| row.fate == Fate::Proved).count();
        let share = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
        let _ = writeln!(text, "\nload after repair: {loads} of {all} ({:.1} %; bar 85 %)", share(loads, all));
        let _ = writeln!(text, "proved: {proved} of {loads} ({:.1} %; bar 90 %)", share(proved, loads));
        let mut programs: BTreeMap<(&str, &str), bool> = BTreeMap::new();
        for row in &self.rows {
            *programs.entry((row.source.as_str(), row.program.as_str())).or_insert(true) &= row.fate != Fate::Rejected;
        }
        let whole = programs.values().filter(|loads| **loads).count();
        let _ = writeln!(text, "programs all of whose variants load: {whole} of {}", programs.len());
        let (mut equal, mut different, mut not_run) = (0, Vec::new(), 0);
        for row in &self.rows {
            let Some(equality) = &row.equality else { continue };
            let outcomes = equality.outcomes();
            let found = outcomes.iter().find_map(|(place, outcome)| match outcome {
                Outcome::Different(what) => Some(format!("{place}: {what}")),
                _ => None,
            });
            match found {
                Some(what) => different.push(format!("{}:{} {}: {what}", row.source, row.program, row.variant)),
                None if outcomes.iter().any(|(_, outcome)| matches!(outcome, Outcome::Equal { .. })) => equal += 1,
                None => not_run += 1,
            }
        }
        let _ = writeln!(
            text,
            "compared with a variant that loads: {equal} equal, {} different, {not_run} not run",
            different.len()
        );
        different.iter().for_each(|what| {
            let _ = writeln!(text, "  {what}");
        });
        let [_, median, worst] = crate::spread(self.rows.iter().map(|row| row.seconds));
        let _ = writeln!(text, "seconds for a repair: median {median:.2} (bar 1), worst {worst:.2} (bar 60)");
        for (path, error) in &self.failed {
            let _ = writeln!(text, "not read: {path}: {error}");
        }
    }
}
