//! A check as it is told: each object's text in their order, then a document, or the line that counts.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kiln_inspect::check::Checked;
use kiln_inspect::show::shown::count;
use kiln_inspect::{Error, Input, Shown};

use crate::baseline::{Baseline, Judged};
use crate::objects::Gathered;
use crate::print::{self, Format};
use crate::reports::{Document, Outcome, Report, Result as Decided, SCHEMA, Summary, worst};
use crate::{forge, output, sarif, say};

/// An object's report, and its text form, which was made where the object still was.
pub struct Told {
    /// The report.
    pub report: Report,
    /// Its text form; empty if it is not wanted.
    pub text: String,
    /// Names that were asked for and that the object lacks.
    pub unknown: Vec<String>,
    /// The report beside the baseline, if there is one.
    pub judged: Option<Result<Judged, Error>>,
    /// Whether it was kept from an earlier run.
    pub cached: bool,
}

/// Adds the text form, without what is known. `text` says whether it is wanted; with `true`, without what is accepted.
/// `helps` adds to the text of verdicts.
pub fn told(
    outcome: Outcome,
    text: Option<bool>,
    baseline: Option<&Baseline>,
    helps: impl FnOnce(&Input, &[Checked]) -> String,
) -> Told {
    let judged = baseline.map(|baseline| baseline.judge(&outcome.report));
    let known = judged.as_ref().and_then(|judged| judged.as_ref().ok());
    let mut shown = match (&outcome.report.result, &outcome.input, text) {
        (Decided::Checked { programs, .. }, Some(input), Some(quiet)) => {
            let programs = unknown(programs, known);
            print::checked(input, &programs, quiet) + &helps(input, &programs)
        }
        (Decided::Kernels(matrix), Some(input), Some(quiet)) => print::matrix(input, matrix, quiet),
        _ => String::new(),
    };
    if let (Some(maps), Some(false)) = (outcome.input.as_ref().and_then(Input::only_maps), text) {
        shown.push_str(&format!("{}\n", Shown::from(maps.as_str())));
    }
    if text.is_some() {
        outcome.report.fixes.iter().for_each(|own| shown.push_str(&print::fix(own)));
    }
    if let (Some(input), Some(findings), Some(_)) = (&outcome.input, &outcome.report.findings, text) {
        shown.push_str(&print::warnings(input, findings));
    }
    Told { report: outcome.report, text: shown, unknown: outcome.unknown, judged, cached: false }
}

/// The programs without those whose problems are known.
fn unknown<'a>(programs: &'a [Checked], judged: Option<&Judged>) -> Cow<'a, [Checked]> {
    match judged {
        Some(judged) => programs.iter().filter(|checked| !judged.knows(&checked.program)).cloned().collect(),
        None => Cow::Borrowed(programs),
    }
}

/// What was checked so far.
pub struct Checking {
    several: bool,
    quiet: bool,
    format: Format,
    /// The release of the kernel that runs here.
    running: Option<String>,
    said_kernels: bool,
    reports: Vec<Report>,
    /// The reports beside the baseline, if there is one.
    judged: Vec<Result<Judged, Error>>,
    summary: Summary,
    /// Objects that could be read.
    read: usize,
    /// Names that were asked for, with the number of objects that lack them.
    unknown: BTreeMap<String, usize>,
}

impl Checking {
    /// Begins to tell of objects, `quiet` without what is accepted. `running` is the release of the kernel that runs here.
    pub fn new(gathered: &Gathered, quiet: bool, format: Format, running: Option<String>) -> Checking {
        let summary = Summary { left_out: gathered.left_out, big_endian: gathered.big_endian, ..Summary::default() };
        Checking {
            several: gathered.objects.len() > 1,
            quiet,
            format,
            running,
            said_kernels: false,
            reports: Vec::new(),
            judged: Vec::new(),
            summary,
            read: 0,
            unknown: BTreeMap::new(),
        }
    }

    /// Whether text is wanted, and with `true` without what is accepted.
    pub fn text(&self) -> Option<bool> {
        self.format.has_text().then_some(self.quiet)
    }

    /// The reports of the objects.
    pub fn reports(&self) -> &[Report] {
        &self.reports
    }

    /// Takes the next object's report, and prints its text form.
    pub fn take(&mut self, told: Told) {
        let Told { report, text, unknown, judged, cached } = told;
        let has_text = self.format.has_text();
        self.summary.cached += usize::from(cached);
        self.judged.extend(judged);
        self.summary.add(&report);
        for name in unknown {
            *self.unknown.entry(name).or_default() += 1;
        }
        if let Some(how) = report.compiled.as_ref().filter(|_| has_text) {
            how.said.iter().for_each(|line| anstream::eprintln!("{line}"));
            if !self.quiet {
                anstream::eprintln!("compiled {} with {}", report.object, how.in_words());
            }
        }
        match &report.result {
            Decided::Failed { error } => {
                let named = error.message.to_string().contains(&report.object.to_string());
                let name = (!named).then_some(&report.object);
                print::failure(name, &error.message);
            }
            result => {
                self.read += 1;
                if has_text && !self.said_kernels && !self.quiet {
                    print::which_kernels(result, self.running.as_deref());
                    self.said_kernels = true;
                }
            }
        }
        if has_text && !text.is_empty() {
            if self.several {
                say!("{}:", report.object);
            }
            output::write(&text);
        }
        self.reports.push(report);
    }

    /// Refuses names that no object has.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the first of them.
    pub fn check_names(&self) -> Result<(), Error> {
        match self.unknown.iter().find(|(_, lacking)| **lacking == self.read) {
            Some((name, _)) => Err(Error::InvalidInput(format!("no object has a program {name}"))),
            None => Ok(()),
        }
    }

    /// Prints the document, or the line that counts. Returns the exit code.
    ///
    /// # Errors
    /// Returns an error if a document cannot be written.
    pub fn end(self, baseline: Option<&Baseline>) -> Result<u8, Error> {
        let log = || sarif::log(&std::env::current_dir().unwrap_or_default(), &self.reports, baseline);
        match self.format {
            Format::Json => {
                print::json(&Document { schema: SCHEMA, objects: &self.reports, summary: &self.summary })?;
            }
            Format::Sarif => print::json(&log())?,
            Format::Gitlab => print::json(&forge::gitlab(&log()))?,
            Format::Text | Format::Github => {
                if self.several || self.summary.failed == 0 {
                    say!("{}", self.summary);
                }
            }
        }
        if self.format == Format::Github {
            output::write(&forge::github(&log()));
        }
        if baseline.is_none() {
            return Ok(worst(self.reports.iter().map(Report::exit_code)));
        }
        let has_text = self.format.has_text();
        let judged = self.judged.into_iter().collect::<Result<Vec<_>, _>>()?;
        let known: usize = judged.iter().map(|judged| judged.known).sum();
        if has_text && known > 0 {
            say!("{} known from the baseline, not counted", count(known, "problem"));
        }
        Ok(worst(judged.iter().map(|judged| judged.exit_code)))
    }
}
