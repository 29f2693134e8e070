//! `kiln check` on any number of objects: a report for each, and one summary.

use std::path::Path;
use std::sync::Arc;

use kiln_platform::{Profile, ProgramType};
use kiln_program::{Object, Program};
use serde::{Deserialize, Serialize};

use crate::objects::Found;
use crate::sources::{Fix, How};
use crate::target::{Choice, Types};
use kiln_inspect::check::{self, Checked, Verdict};
use kiln_inspect::input::{self, Input};
use kiln_inspect::kernels::KernelTypes;
use kiln_inspect::kernels::{self, Matrix};
use kiln_inspect::lint::{self, Finding};
use kiln_inspect::show::shown::{Shown, count};
use kiln_program::Error;

/// The version of the documents of `--format json`, which `docs/reference/schema` describes.
pub const SCHEMA: u32 = 1;

/// What is asked about each object.
#[derive(Debug)]
pub struct Wanted {
    /// The types of programs, by name; empty names stand for all without a type.
    pub types: Vec<(String, ProgramType)>,
    /// Only these programs; all if empty.
    pub programs: Vec<String>,
    /// Whether names of programs need not be in every object.
    pub several: bool,
    /// Whether to ask the running kernel, too.
    pub with_kernel: bool,
    /// Whether to say where the processed instructions went.
    pub profile: bool,
    /// Whether the rules are those for users without privilege.
    pub unprivileged: bool,
    /// The kernels that were named.
    pub choice: Choice,
    /// The types of kernels.
    pub kernel_types: Types,
    /// The rules of the lint that are wanted.
    pub lint: lint::Selection,
    /// Global variables that are set before the object is verified, as `NAME=VALUE`.
    pub settings: Vec<String>,
    /// What `freplace` programs stand for.
    pub target: Option<Target>,
}

/// A function that `freplace` programs stand for.
#[derive(Debug)]
pub struct Target {
    /// The object that has it.
    pub input: Arc<Input>,
    /// Its name; by default each program's section has it.
    pub function: Option<String>,
}

/// What a check asks of the system that it runs on, besides files.
pub trait System {
    /// Adds the running kernel's verdicts, see [`Wanted::with_kernel`].
    fn add_verdicts(&self, results: &mut [Checked], input: &Input, programs: &[&Program]);

    /// The profile of the running kernel for this object, which `--kernel running` asks for.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where no kernel says its release.
    fn profile(&self, object: &Object) -> std::result::Result<Profile, Error>;

    /// Sets global variables, see [`Wanted::settings`].
    ///
    /// # Errors
    /// [`Error::InvalidInput`] if the object has no such variable, or it cannot have the value.
    fn set_globals(&self, object: &mut Object, settings: &[String]) -> std::result::Result<(), Error>;
}

/// A check of files alone: what needs more is an error.
#[derive(Clone, Copy, Debug)]
pub struct FilesAlone;

impl System for FilesAlone {
    fn add_verdicts(&self, _results: &mut [Checked], _input: &Input, _programs: &[&Program]) {}

    fn profile(&self, _object: &Object) -> std::result::Result<Profile, Error> {
        Err(Error::Unsupported("the checker alone asks no kernel: name releases instead of `running`".to_owned()))
    }

    fn set_globals(&self, _object: &mut Object, _settings: &[String]) -> std::result::Result<(), Error> {
        Err(Error::Unsupported("the checker alone sets no variables".to_owned()))
    }
}

/// One object's part of the report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The object, as named or found.
    pub object: Shown,
    /// How a C source was compiled.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub compiled: Option<How>,
    /// What was decided.
    #[serde(flatten)]
    pub result: Result,
    /// The lint's warnings, where they were asked for and the object could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub findings: Option<Vec<Finding>>,
    /// Edits of the source that make rejected programs load, where they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty", skip_deserializing)]
    pub fixes: Vec<Fix>,
}

/// What was decided about the programs of an object.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Result {
    /// Verdicts for one kernel.
    Checked {
        /// The release whose rules the verdicts follow.
        kernel: Shown,
        /// The kernel types that they are about.
        types: Shown,
        /// A verdict for each program.
        programs: Vec<Checked>,
    },
    /// Verdicts for the kernels that were named.
    Kernels(Matrix),
    /// The object could not be checked.
    #[serde(skip_deserializing)]
    Failed {
        /// Why.
        error: Failure,
    },
}

/// An error as data.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// Its kind, see [`Error::kind`].
    pub kind: &'static str,
    /// What failed.
    pub message: Shown,
    /// The exit code that stands for it.
    pub exit_code: u8,
    /// The `errno` of a failed system call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Failure {
        let message = error.to_string().as_str().into();
        Failure { kind: error.kind(), message, exit_code: error.exit_code(), errno: error.errno() }
    }
}

/// An object's report, and what its text form is made from.
pub struct Outcome {
    /// The report.
    pub report: Report,
    /// The object, if it could be read.
    pub input: Option<Input>,
    /// Names of `types` and `programs` that the object lacks.
    pub unknown: Vec<String>,
}

/// Checks the bytes of an object.
pub fn check_bytes(
    found: &Found,
    compiled: Option<How>,
    bytes: std::result::Result<Vec<u8>, Error>,
    wanted: &Wanted,
    system: &dyn System,
) -> Outcome {
    let object: Shown = found.path.display().to_string().as_str().into();
    let mut unknown = Vec::new();
    match bytes.and_then(|bytes| checked(found, bytes, wanted, system, &mut unknown)) {
        Ok((input, result, findings)) => Outcome {
            report: Report { object, compiled, result, findings, fixes: Vec::new() },
            input: Some(input),
            unknown,
        },
        Err(error) => {
            let result = Result::Failed { error: Failure::from(&error) };
            Outcome {
                report: Report { object, compiled, result, findings: None, fixes: Vec::new() },
                input: None,
                unknown: Vec::new(),
            }
        }
    }
}

fn checked(
    found: &Found,
    bytes: Vec<u8>,
    wanted: &Wanted,
    system: &dyn System,
    unknown: &mut Vec<String>,
) -> std::result::Result<(Input, Result, Option<Vec<Finding>>), Error> {
    let mut input = open(&found.path, bytes, wanted, system, unknown)?;
    let several_kernels = wanted.asks_several_kernels();
    match &wanted.kernel_types {
        Types::File(path, types) if !several_kernels => input.resolve_for(path, types)?,
        Types::Running if !several_kernels => input.resolve_for_running_kernel()?,
        _ => {}
    }
    input.unprivileged = wanted.unprivileged;
    let names: Vec<String> = match wanted.several {
        false => wanted.programs.clone(),
        true => {
            let (own, others) = wanted.programs.iter().cloned().partition(|name| input.object.program(name).is_some());
            let others: Vec<String> = others;
            unknown.extend(others);
            own
        }
    };
    let none_here = names.is_empty() && !wanted.programs.is_empty();
    let programs = if none_here { Vec::new() } else { input.select(&names)? };
    let unreadable = if wanted.programs.is_empty() { check::unreadable(&input) } else { Vec::new() };
    let none_at_all = programs.is_empty() && unreadable.is_empty() && !none_here;
    if none_at_all && !found.in_folder && input.only_maps().is_none() {
        return Err(input.holds_no_programs());
    }
    let findings = wanted.lint.on.then(|| lint::lint(&input, &programs, &wanted.lint));
    let result = if several_kernels {
        let mut matrix = check_kernels(&input, &programs, wanted, system)?;
        matrix.add_unreadable(unreadable);
        Result::Kernels(matrix)
    } else {
        let mut results = check::check(&input, &programs);
        if wanted.with_kernel {
            system.add_verdicts(&mut results, &input, &programs);
        }
        if wanted.profile {
            for (result, program) in results.iter_mut().zip(&programs) {
                result.profile = check::profile(&input, program);
            }
        }
        results.extend(unreadable);
        let types = wanted.kernel_types.of(true, input::default_release())?.1;
        Result::Checked { kernel: input::default_release_in_words().into(), types, programs: results }
    };
    Ok((input, result, findings))
}

/// Verifies programs for the kernels that were named, or else for those that the types are of.
fn check_kernels(
    input: &Input,
    programs: &[&Program],
    wanted: &Wanted,
    system: &dyn System,
) -> std::result::Result<Matrix, Error> {
    let (choice, own) = (&wanted.choice, wanted.kernel_types.kernels());
    let kernels = if choice.kernels.is_empty() { &own } else { &choice.kernels };
    let profiles = kernels::profiles(kernels, || system.profile(&input.object))?;
    kernels::check(input, programs, &profiles, &wanted.kernel_types, choice.by.clone())
}

/// Opens an object. A type by program name may be about one object of several.
fn open(
    path: &Path,
    bytes: Vec<u8>,
    wanted: &Wanted,
    system: &dyn System,
    unknown: &mut Vec<String>,
) -> std::result::Result<Input, Error> {
    let types = if wanted.several { &[][..] } else { &wanted.types };
    let mut input = input::parse(&path.display().to_string(), bytes, types)?;
    if !wanted.settings.is_empty() {
        system.set_globals(&mut input.object, &wanted.settings)?;
    }
    if wanted.several {
        unknown.extend(input.set_types(&wanted.types).into_iter().map(str::to_owned));
    }
    if let Some(Target { input: target, function }) = &wanted.target {
        input.replace(Arc::clone(target), function.as_deref());
    }
    input.use_kernel_types();
    Ok(input)
}

impl Wanted {
    /// Whether the question is about kernels that were named, and not just about one set of types.
    pub fn asks_several_kernels(&self) -> bool {
        !self.choice.kernels.is_empty() || !self.kernel_types.kernels().is_empty()
    }
}

impl Report {
    /// The exit code: the worst of the verdicts, a rejection or a disagreement before what is invalid or unsupported.
    pub fn exit_code(&self) -> u8 {
        let codes: Vec<u8> = match &self.result {
            Result::Checked { programs, .. } => {
                programs.iter().map(|one| if one.disagrees() { 1 } else { one.verdict.exit_code() }).collect()
            }
            Result::Kernels(matrix) => {
                matrix.programs.iter().flat_map(|row| &row.verdicts).map(Verdict::exit_code).collect()
            }
            Result::Failed { error } => vec![error.exit_code],
        };
        let denied = self.findings.iter().flatten().any(|finding| finding.denied);
        worst(codes.into_iter().chain([u8::from(denied)]))
    }

    /// One verdict for each program; for several kernels, that of the oldest kernel which rejects it.
    pub fn verdicts(&self) -> Vec<Checked> {
        match &self.result {
            Result::Checked { programs, .. } => programs.clone(),
            Result::Kernels(matrix) => matrix.first_rejections(),
            Result::Failed { .. } => Vec::new(),
        }
    }
}

/// The exit code of several: 1 before 2 before 3, and 0 if all are 0.
pub fn worst(codes: impl IntoIterator<Item = u8>) -> u8 {
    codes.into_iter().filter(|code| *code > 0).min().unwrap_or(0)
}

/// Counts over all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Objects, with those that could not be checked.
    pub objects: usize,
    /// Objects that could not be checked.
    pub failed: usize,
    /// Files in folders that end in `.o` or `.elf` and are not for BPF.
    pub left_out: usize,
    /// BPF objects in folders for big-endian machines, which are left out.
    pub big_endian: usize,
    /// Programs.
    pub programs: usize,
    /// Programs that are accepted, on all kernels that were named.
    pub accepted: usize,
    /// Programs that are rejected, on one of them at least.
    pub rejected: usize,
    /// Programs that Kiln has no verdict on.
    pub unsupported: usize,
    /// Programs that cannot be read.
    pub invalid: usize,
    /// Programs on which Kiln and the kernel disagree.
    pub disagreements: usize,
    /// Warnings of the lint.
    pub warnings: usize,
    /// Objects whose verdicts were kept from an earlier run.
    pub cached: usize,
    /// Programs that each of several kernels accepts, in the order in which they were named.
    #[serde(skip)]
    pub by_kernel: Vec<(String, usize)>,
}

impl Summary {
    /// Counts one object.
    pub fn add(&mut self, report: &Report) {
        self.objects += 1;
        self.failed += usize::from(matches!(report.result, Result::Failed { .. }));
        self.warnings += report.findings.as_ref().map_or(0, Vec::len);
        if let Result::Checked { programs, .. } = &report.result {
            self.disagreements += programs.iter().filter(|one| one.disagrees()).count();
        }
        if let Result::Kernels(matrix) = &report.result {
            self.count_by_kernel(matrix);
        }
        let worst_of_row = |row: &kernels::Row| worst(row.verdicts.iter().map(Verdict::exit_code));
        let codes: Vec<u8> = match &report.result {
            Result::Checked { programs, .. } => programs.iter().map(|one| one.verdict.exit_code()).collect(),
            Result::Kernels(matrix) => matrix.programs.iter().map(worst_of_row).collect(),
            Result::Failed { .. } => Vec::new(),
        };
        self.programs += codes.len();
        for code in codes {
            match code {
                0 => self.accepted += 1,
                1 => self.rejected += 1,
                2 => self.invalid += 1,
                _ => self.unsupported += 1,
            }
        }
    }
}

impl Summary {
    fn count_by_kernel(&mut self, matrix: &Matrix) {
        for (index, kernel) in matrix.kernels.iter().map(ToString::to_string).enumerate() {
            let accepts = |row: &&kernels::Row| row.verdicts.get(index).is_some_and(|verdict| verdict.exit_code() == 0);
            let accepted = matrix.programs.iter().filter(accepts).count();
            match self.by_kernel.iter_mut().find(|(known, _)| *known == kernel) {
                Some((_, all)) => *all += accepted,
                None => self.by_kernel.push((kernel, accepted)),
            }
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}, {}: {} accepted",
            count(self.objects, "object"),
            count(self.programs, "program"),
            self.accepted
        )?;
        let others = [(self.rejected, "rejected"), (self.unsupported, "unsupported"), (self.invalid, "invalid")];
        for (number, what) in others.into_iter().filter(|(number, _)| *number > 0) {
            write!(f, ", {number} {what}")?;
        }
        if self.disagreements > 0 {
            write!(f, "; {} with the kernel", count(self.disagreements, "disagreement"))?;
        }
        if self.warnings > 0 {
            write!(f, "; {}", count(self.warnings, "warning"))?;
        }
        if self.failed > 0 {
            write!(f, "; {} could not be checked", count(self.failed, "object"))?;
        }
        if self.left_out > 0 {
            write!(f, "; {} not for BPF left out", count(self.left_out, "file"))?;
        }
        if self.big_endian > 0 {
            write!(f, "; {} left out", count(self.big_endian, "big-endian object"))?;
        }
        if self.cached > 0 {
            write!(f, "; {} from the cache", self.cached)?;
        }
        if self.by_kernel.len() > 1 {
            let each = self.by_kernel.iter().map(|(kernel, accepted)| format!("{accepted} on {kernel}"));
            write!(f, "; {}", each.collect::<Vec<_>>().join(", "))?;
        }
        Ok(())
    }
}

/// The document of `--format json`.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    /// [`SCHEMA`].
    pub schema: u32,
    /// A report for each object.
    pub objects: &'a [Report],
    /// Counts over all of them.
    pub summary: &'a Summary,
}
