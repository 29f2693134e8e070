//! What Kiln says of one source: everything that an editor shows, made once after each save.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use kiln_driver::check::{Checked, Verdict};
use kiln_driver::commands::check::reports::{self, Report, Wanted};
use kiln_driver::diagnostic::Diagnosis;
use kiln_driver::dump::{self, Listing};
use kiln_driver::fix::{self, Fix};
use kiln_driver::kernels::Kernel;
use kiln_driver::objects::Found;
use kiln_driver::source::{self, Message};
use kiln_driver::target::{self, Choice, Types};
use kiln_driver::{Error, Input, Shown, check, lint};
use lsp_types::{
    CodeAction, CodeActionKind, CodeLens, Command, Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity,
    InlayHint, InlayHintLabel, Location, NumberOrString, Position, Range, TextEdit, Uri, WorkspaceEdit,
};
use serde_json::json;

use crate::place::{Lines, uri_of};

/// The command that checks a source on all kernels.
pub const CHECK: &str = "kiln.check";
/// The command that says what optimizing a program would bring.
pub const OPTIMIZE: &str = "kiln.optimize";
/// Instructions of a line that a hover shows.
const MOST_SHOWN: usize = 12;

/// What an editor shows of a source.
#[derive(Default)]
pub struct Look {
    /// Errors and warnings by file: those in headers, too.
    pub diagnostics: BTreeMap<PathBuf, Vec<Diagnostic>>,
    /// Beside lines that the verifier went over several times: how often.
    pub hints: Vec<InlayHint>,
    /// Above each program: its verdict, and what to do with it.
    pub lenses: Vec<CodeLens>,
    /// The edits for warnings; those for rejections come later, by [`Unfixed::actions`].
    pub actions: Vec<CodeAction>,
    /// What is rejected, if fixes may be sought.
    pub unfixed: Option<Box<Unfixed>>,
    /// What is known at a line, from 1, as Markdown.
    pub hovers: BTreeMap<u32, String>,
    /// Where the programs load, in a sentence, where several kernels were asked for.
    pub loads_on: Option<String>,
    /// The files that were read.
    pub read: Vec<PathBuf>,
    /// The object, if the source compiles and can be read.
    pub input: Option<Input>,
}

/// Rejections for which fixes may be sought. That takes longer than a look, so it is done once they are shown.
pub struct Unfixed {
    found: Found,
    report: Report,
    wanted: Wanted,
    /// The diagnostic of each rejected program.
    rejected: Vec<(Shown, Diagnostic)>,
    /// What the source and its headers became.
    object: Vec<u8>,
}

/// The fixes that were found for the last object of a source. They need not be sought, and nothing be compiled, while
/// the source and the object stay the same.
#[derive(Default)]
pub struct Known(BTreeMap<PathBuf, (Vec<u8>, Vec<u8>, Vec<Fix>)>);

impl Unfixed {
    /// Seeks the fixes, by compiling edited copies, and returns them as code actions.
    pub fn actions(&self, known: &mut Known) -> Vec<CodeAction> {
        let text = std::fs::read(&self.found.path).unwrap_or_default();
        let fixes = match known.0.get(&self.found.path) {
            Some((source, object, fixes)) if *source == text && *object == self.object => fixes.clone(),
            _ => {
                let fixes = fix::fixes(&self.found, &self.report, &self.wanted, fix::BUDGET);
                known.0.insert(self.found.path.clone(), (text, self.object.clone(), fixes.clone()));
                fixes
            }
        };
        let of = |own: &Fix| self.rejected.iter().find(|(program, _)| *program == own.program);
        fixes.iter().filter(|own| own.accepted).filter_map(|own| replace(own, &of(own)?.1)).collect()
    }
}

/// Whether a source has BPF programs: libbpf's way to mark one stands in it.
pub fn has_programs(text: &str) -> bool {
    text.contains("SEC(")
}

/// Compiles and checks a source, whose path is absolute, for the project's kernels or for those that are named.
///
/// # Errors
/// What [`source::compile`] and the project's file give; a source that does not compile or is rejected is no error.
pub fn look(path: &Path, kernels: Option<&[Kernel]>) -> Result<Look, Error> {
    let folder = path.parent().unwrap_or(path);
    let mut choice = target::choose_in(folder)?;
    if let Some(kernels) = kernels {
        choice = Choice { kernels: kernels.to_vec(), ..choice };
    }
    let mut compiled = source::compile(path)?;
    let (folder, lines, rejected) = (compiled.folder.clone(), BTreeMap::new(), Vec::new());
    let mut view = View { path, folder, lines, look: Look::default(), rejected };
    // A file that has nothing to be said of it loses what was said before.
    view.look.diagnostics.insert(path.to_owned(), Vec::new());
    view.look.read = std::mem::take(&mut compiled.how.read);
    compiled.messages.iter().for_each(|message| view.message(message));
    let Some(bytes) = compiled.object.take() else { return Ok(view.look) };
    let wanted = wanted(choice)?;
    let found = Found { path: path.to_owned(), below: path.to_owned(), in_folder: true };
    let object = bytes.clone();
    let outcome = reports::check_bytes(&found, None, Ok(bytes), &wanted);
    if let reports::Result::Failed { error } = &outcome.report.result {
        view.whole_file(&error.message, DiagnosticSeverity::ERROR);
    }
    if let Some(input) = outcome.input {
        view.report(&outcome.report, &input);
        view.look.input = Some(input);
    }
    let View { mut look, rejected, .. } = view;
    if !rejected.is_empty() {
        look.unfixed = Some(Box::new(Unfixed { found, report: outcome.report, wanted, rejected, object }));
    }
    Ok(look)
}

fn wanted(choice: Choice) -> Result<Wanted, Error> {
    Ok(Wanted {
        types: Vec::new(),
        programs: Vec::new(),
        several: false,
        with_kernel: false,
        profile: false,
        unprivileged: false,
        kernel_types: Types::open(choice.btf.as_deref())?,
        choice,
        lint: lint::Selection::new(true, &[], &[])?,
        settings: Vec::new(),
        target: None,
    })
}

/// A look in the making.
struct View<'a> {
    path: &'a Path,
    folder: PathBuf,
    lines: BTreeMap<PathBuf, Lines>,
    look: Look,
    rejected: Vec<(Shown, Diagnostic)>,
}

impl View<'_> {
    fn message(&mut self, message: &Message) {
        let severity = if message.error { DiagnosticSeverity::ERROR } else { DiagnosticSeverity::WARNING };
        let file = self.folder.join(&message.file);
        let range = self.lines(&file).range(message.line, Some(message.column));
        let diagnostic = diagnostic(range, severity, "clang", message.text.to_string());
        self.look.diagnostics.entry(file).or_default().push(diagnostic);
    }

    fn lines(&mut self, file: &Path) -> &Lines {
        self.lines.entry(file.to_owned()).or_insert_with(|| Lines::read(file))
    }

    /// What is about the source and not about a line of it.
    fn whole_file(&mut self, text: &Shown, severity: DiagnosticSeverity) {
        let diagnostic = diagnostic(Range::default(), severity, "kiln", text.to_string());
        self.look.diagnostics.entry(self.path.to_owned()).or_default().push(diagnostic);
    }

    fn report(&mut self, report: &Report, input: &Input) {
        if let reports::Result::Kernels(matrix) = &report.result {
            self.look.loads_on = Some(matrix.loads_on.clone());
        }
        let mut visits: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
        let verified = dump::Verified::new(input).ok();
        for checked in &report.verdicts() {
            let program = input.object.programs.iter().find(|program| checked.program == *program.name);
            let listing = program.map(|program| {
                let mut options = dump::Options::default();
                options.facts.clone_from(&verified);
                dump::listing(&input.object, program, options)
            });
            let line = listing.as_ref().and_then(|listing| self.first_line(listing));
            let line = line.or_else(|| self.lines(self.path).word(&checked.program.to_string())).unwrap_or(1);
            self.lens(checked, line);
            self.verdict(checked, line);
            listing.iter().for_each(|listing| self.facts(listing));
            let cost = program.and_then(|program| check::profile(input, program));
            for cost in cost.iter().flat_map(|cost| &cost.lines) {
                if cost.file.as_ref().is_some_and(|file| self.is_source(file)) {
                    let counts = visits.entry(cost.line as u32).or_default();
                    *counts = [counts[0].max(cost.visits), counts[1] + cost.processed_insns];
                }
            }
        }
        self.hints(&visits);
        report.findings.iter().flatten().for_each(|finding| self.finding(finding));
    }

    fn is_source(&self, file: &Shown) -> bool {
        self.folder.join(file.to_string()) == self.path
    }

    /// The line that a program begins at.
    fn first_line(&self, listing: &Listing) -> Option<u32> {
        let own = &listing.functions.first()?.instructions;
        own.iter().find(|line| line.file.as_ref().is_some_and(|file| self.is_source(file)))?.line
    }

    fn lens(&mut self, checked: &Checked, line: u32) {
        let uri = uri_of(self.path);
        let begin = self.lines(self.path).range(line, None).start;
        let title = match &checked.verdict {
            // A frame with a stack of its own is no part of the chain's.
            Verdict::Accepted { processed_insns, stack_bytes, frame_bytes } => {
                let (slots, stack_bytes) = (checked.slots, stack_bytes.max(frame_bytes));
                format!("accepted: {slots} slots, {processed_insns} processed, {stack_bytes} B of stack")
            }
            Verdict::Rejected { code, .. } => format!("rejected: {code}"),
            Verdict::Invalid { .. } => "cannot be read".to_owned(),
            Verdict::Unsupported { .. } => "no verdict".to_owned(),
        };
        let uri = uri.map_or(json!(null), |uri| json!(uri.as_str()));
        let check = Command { title, command: CHECK.to_owned(), arguments: Some(vec![uri.clone()]) };
        let program = json!(checked.program.to_string());
        let optimize = checked.verdict.is_accepted().then(|| Command {
            title: "optimize".to_owned(),
            command: OPTIMIZE.to_owned(),
            arguments: Some(vec![uri, program]),
        });
        let lenses = [Some(check), optimize].into_iter().flatten();
        let range = Range::new(begin, begin);
        self.look.lenses.extend(lenses.map(|command| CodeLens { range, command: Some(command), data: None }));
    }

    fn verdict(&mut self, checked: &Checked, line: u32) {
        match &checked.verdict {
            Verdict::Accepted { .. } => {}
            Verdict::Rejected { code, diagnosis, .. } => self.rejection(checked, code, diagnosis, line),
            Verdict::Invalid { reason } | Verdict::Unsupported { reason } => {
                let range = self.lines(self.path).range(line, None);
                let text = format!("{}: {reason}", checked.program);
                let diagnostic = diagnostic(range, DiagnosticSeverity::WARNING, "kiln", text);
                self.look.diagnostics.entry(self.path.to_owned()).or_default().push(diagnostic);
            }
        }
    }

    fn rejection(&mut self, checked: &Checked, code: &str, diagnosis: &Diagnosis, line: u32) {
        let place = &diagnosis.place;
        let (file, range) = self
            .place(place.file.as_ref(), place.line, place.column)
            .unwrap_or_else(|| (self.path.to_owned(), self.lines(self.path).range(line, None)));
        let text = format!("{}\nhelp: {}\n(program {})", diagnosis.message, diagnosis.help, checked.program);
        let mut rejected = diagnostic(range, DiagnosticSeverity::ERROR, "kiln", text);
        rejected.code = Some(NumberOrString::String(code.to_owned()));
        let steps = diagnosis.story.iter().filter_map(|step| {
            let (file, range) = self.place(step.place.file.as_ref(), step.place.line, step.place.column)?;
            let location = Location { uri: uri_of(&file)?, range };
            Some(DiagnosticRelatedInformation { location, message: step.text.to_string() })
        });
        rejected.related_information = Some(steps.collect());
        self.rejected.push((checked.program.clone(), rejected.clone()));
        self.look.diagnostics.entry(file).or_default().push(rejected);
    }

    /// A place in a file, if the object has it.
    fn place(&mut self, file: Option<&Shown>, line: Option<u32>, column: Option<u32>) -> Option<(PathBuf, Range)> {
        let file = self.folder.join(file?.to_string());
        let range = self.lines(&file).range(line?, column);
        Some((file, range))
    }

    /// What the verifier knows before each instruction, by line.
    fn facts(&mut self, listing: &Listing) {
        let mut by_line: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for line in listing.functions.iter().flat_map(|function| &function.instructions) {
            let (Some(file), Some(number)) = (&line.file, line.line) else { continue };
            if !self.is_source(file) {
                continue;
            }
            let facts = line.facts.as_ref().map_or(String::new(), |facts| format!("   ; {facts}"));
            by_line.entry(number).or_default().push(format!("{:>4}: {}{facts}", line.slot, line.text));
        }
        for (number, lines) in by_line {
            let text = self.look.hovers.entry(number).or_default();
            _ = write!(text, "**{}**\n```text\n", listing.program);
            lines.iter().take(MOST_SHOWN).for_each(|line| _ = writeln!(text, "{line}"));
            if lines.len() > MOST_SHOWN {
                _ = writeln!(text, "      and {} more", lines.len() - MOST_SHOWN);
            }
            text.push_str("```\n");
        }
    }

    fn hints(&mut self, visits: &BTreeMap<u32, [u64; 2]>) {
        for (line, [most, processed]) in visits.iter().filter(|(_, [most, _])| *most > 1) {
            let position: Position = self.lines(self.path).end(*line);
            self.look.hints.push(InlayHint {
                position,
                label: InlayHintLabel::String(format!("{most} times, {processed} processed")),
                kind: None,
                text_edits: None,
                tooltip: None,
                padding_left: Some(true),
                padding_right: None,
                data: None,
            });
        }
    }

    fn finding(&mut self, finding: &lint::Finding) {
        let place = finding.place.as_ref();
        let known = place.and_then(|place| self.place(place.file.as_ref(), place.line, place.column));
        let (file, range) = known.unwrap_or_else(|| (self.path.to_owned(), Range::default()));
        let text = format!("{}\nhelp: {}", finding.message, finding.help);
        let mut warning = diagnostic(range, DiagnosticSeverity::WARNING, "kiln", text);
        warning.code = Some(NumberOrString::String(finding.rule.to_owned()));
        if let (Some(uri), Some(line)) = (uri_of(&file), place.and_then(|place| place.line)) {
            let at = self.lines(&file).end(line);
            self.look.actions.push(allow(uri, at, finding.rule, &warning));
        }
        self.look.diagnostics.entry(file).or_default().push(warning);
    }
}

/// The edit of a source with which a program is accepted.
// The protocol's addresses have a cached part inside, which their order does not depend on.
#[allow(clippy::mutable_key_type)]
fn replace(own: &Fix, rejected: &Diagnostic) -> Option<CodeAction> {
    let begin = |line: u32| Position::new(line.saturating_sub(1), 0);
    let edit = |edit: &fix::Replacement| TextEdit {
        range: Range::new(begin(edit.line), begin(edit.line + edit.removed)),
        new_text: edit.inserted.clone(),
    };
    let edits: Vec<TextEdit> = own.edits.iter().map(edit).collect();
    let steps: Vec<String> = own.steps.iter().map(Shown::to_string).collect();
    let meaning = if own.safe { "" } else { " (changes what the program means)" };
    Some(CodeAction {
        title: format!("{}{meaning}", steps.join("; ")),
        kind: Some(CodeActionKind::QUICKFIX),
        diagnostics: Some(vec![rejected.clone()]),
        is_preferred: Some(own.safe),
        edit: Some(WorkspaceEdit { changes: Some([(uri_of(&own.path)?, edits)].into()), ..WorkspaceEdit::default() }),
        ..CodeAction::default()
    })
}

/// The edit that leaves a rule out for one line.
// The protocol's addresses have a cached part inside, which their order does not depend on.
#[allow(clippy::mutable_key_type)]
fn allow(uri: Uri, at: Position, rule: &str, warning: &Diagnostic) -> CodeAction {
    let edit = TextEdit { range: Range::new(at, at), new_text: format!(" // kiln: allow({rule})") };
    CodeAction {
        title: format!("Allow {rule} on this line"),
        kind: Some(CodeActionKind::QUICKFIX),
        diagnostics: Some(vec![warning.clone()]),
        edit: Some(WorkspaceEdit { changes: Some([(uri, vec![edit])].into()), ..WorkspaceEdit::default() }),
        ..CodeAction::default()
    }
}

fn diagnostic(range: Range, severity: DiagnosticSeverity, source: &str, message: String) -> Diagnostic {
    let source = Some(source.to_owned());
    Diagnostic { range, severity: Some(severity), source, message, ..Diagnostic::default() }
}
