//! `kiln check`: a verdict a program.

use std::time::Instant;

use kiln_elf::ElfObject;
use kiln_program::{Extern, ExternKind, Object, Program, Reference};
use kiln_verifier::Prepared;
use serde::{Deserialize, Serialize};

use crate::cost::Cost;
use crate::input::{self, Input};
use crate::sandboxed::{self, Sandboxed};
use crate::show::core_names;
use crate::show::diagnostic::{self, Diagnosis, Look};
use crate::show::place::Place;
use crate::show::shown::Shown;
use crate::show::word::{self, Word};

/// What was decided about one program.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checked {
    /// The program.
    pub program: Shown,
    /// Its section.
    pub section: Shown,
    /// Its type, where known.
    #[serde(default, deserialize_with = "word::read_optional")]
    pub program_type: Option<Word>,
    /// Slots, subprograms included.
    pub slots: u32,
    /// Our verdict.
    pub verdict: Verdict,
    /// Microseconds that took.
    pub micros: u64,
    /// The running kernel's verdict, where it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelVerdict>,
    /// Where the processed instructions went, where asked for, and always where there were too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Cost>,
    /// What the sandbox did to it, where it did something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandboxed: Option<Sandboxed>,
}

/// Our verdict.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// Safe to run.
    Accepted {
        /// Instructions processed over all paths.
        processed_insns: u64,
        /// Stack bytes of the deepest chain of calls; frames with a stack of their own do not count.
        stack_bytes: u32,
        /// The most that one function uses of its own frame, in bytes.
        frame_bytes: u32,
    },
    /// Not safe.
    Rejected {
        /// A stable code, such as `possibly-null`.
        code: String,
        /// The explanation as `kiln check` prints it, without colours.
        explanation: String,
        /// The rejection as data.
        #[serde(flatten)]
        diagnosis: Box<Diagnosis>,
    },
    /// It cannot be read, or cannot be what it says: malformed, it refers to what is defined nowhere, it is unlike the
    /// function that it replaces, or libbpf does not open or load its object.
    Invalid {
        /// What is wrong, and where.
        reason: Shown,
    },
    /// Kiln cannot tell.
    Unsupported {
        /// What it lacks, and where.
        reason: Shown,
    },
}

/// The kernel's verdict.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum KernelVerdict {
    /// It loads.
    Accepted {
        /// Instructions its verifier processed.
        processed_insns: u32,
    },
    /// It does not.
    Rejected {
        /// The reason it printed.
        reason: Shown,
    },
    /// It could not be asked: a call failed before its verifier saw the program.
    #[serde(rename = "not-asked")]
    NotAsked {
        /// The call that failed, with its `errno` in words.
        reason: Shown,
        /// The call's `errno`, where there is one.
        errno: Option<i32>,
    },
}

impl Verdict {
    /// Whether the program is accepted.
    pub fn is_accepted(&self) -> bool {
        matches!(self, Verdict::Accepted { .. })
    }

    /// The exit code that stands for it: 1 rejected, 2 invalid, 3 unsupported.
    pub fn exit_code(&self) -> u8 {
        match self {
            Verdict::Accepted { .. } => 0,
            Verdict::Rejected { .. } => 1,
            Verdict::Invalid { .. } => 2,
            Verdict::Unsupported { .. } => 3,
        }
    }
}

/// What to do about a program whose section does not say its type.
pub fn no_type(program: &Program) -> String {
    let Program { section, name, .. } = program;
    format!("the section name {section:?} says no program type: give one with --type {name}=TYPE")
}

/// Verifies one program as it would be loaded here.
pub fn verdict(object: &Prepared<'_>, program: &Program, options: &kiln_verifier::Options) -> Verdict {
    let verified = match program.program_type {
        Some(_) => object.verify(program, options),
        None => Err(kiln_verifier::Error::Invalid(no_type(program))),
    };
    let statistics = verified.map(|verified| verified.statistics).map_err(|error| match error {
        kiln_verifier::Error::Rejected(mut rejection) if rejection.reason == kiln_verifier::Reason::KernelLacks => {
            let types = options.kernel_types.as_deref();
            let help = types.and_then(|types| core_names::help_for_missing(object.object(), types, rejection.insn));
            rejection.help = help.unwrap_or(rejection.help);
            kiln_verifier::Error::Rejected(rejection)
        }
        error => error,
    });
    verdict_of(
        object.object(),
        program,
        statistics.map(|own| (own.processed_insns, [own.stack_bytes, own.frame_bytes])),
    )
}

/// Verifies a program of an input, unless it cannot stand for what it replaces. An accepted program of an object that
/// libbpf does not load is invalid.
pub(crate) fn verdict_in(
    input: &Input,
    object: &Prepared<'_>,
    program: &Program,
    options: &kiln_verifier::Options,
) -> Verdict {
    if let Some(why) = input.unlike.get(&program.name) {
        return Verdict::Invalid { reason: why.as_str().into() };
    }
    let refused = || {
        let whole = input.elf.as_ref().and_then(|elf| refusal(elf, object, options));
        whole.or_else(|| without_address(object.object(), program, options))
    };
    match verdict(object, program, options) {
        accepted @ Verdict::Accepted { .. } => {
            refused().map_or(accepted, |why| Verdict::Invalid { reason: why.into() })
        }
        other => other,
    }
}

/// A kernel variable that the program uses, and that the kernel has in its types and not in its symbols.
fn without_address(object: &Object, program: &Program, options: &kiln_verifier::Options) -> Option<String> {
    let functions = object.reachable_functions(program.entry);
    let mut named =
        functions.iter().flat_map(|id| &object.function(*id).nodes).filter_map(|node| match node.reference {
            Reference::Extern(id) => object.externs.get(id.index()),
            _ => None,
        });
    let types = options.kernel_types.as_ref();
    let lacking = |symbol: &&Extern| symbol.kind == ExternKind::TypedKsym && input::lacks_address(&symbol.name, types);
    let symbol = named.find(lacking)?;
    Some(format!("this kernel has {} in its types and not in its symbols (/proc/kallsyms)", symbol.name))
}

/// Returns why libbpf does not load the object, whatever its programs do; `None` if it does.
fn refusal(elf: &ElfObject, object: &Prepared<'_>, options: &kiln_verifier::Options) -> Option<String> {
    let unloaded = || {
        let config = input::config_of(options.kernel_types.as_ref());
        let value = config.and_then(|config| kiln_elf::refused_kconfig(object.object(), config));
        let why = value.or_else(|| object.refused_map(options))?;
        Some(format!("libbpf does not load the object: {why}"))
    };
    elf.refusal().map(str::to_owned).or_else(unloaded)
}

/// Makes the report of a program that was verified already, with its processed instructions and bytes of stack and of
/// its largest frame, or an error.
pub fn verdict_of(
    object: &Object,
    program: &Program,
    verified: Result<(u64, [u32; 2]), kiln_verifier::Error>,
) -> Verdict {
    use kiln_verifier::Error;
    if program.program_type.is_none() {
        return Verdict::Unsupported { reason: no_type(program).into() };
    }
    match verified {
        Ok((processed_insns, [stack_bytes, frame_bytes])) => {
            Verdict::Accepted { processed_insns, stack_bytes, frame_bytes }
        }
        Err(Error::Rejected(rejection)) => {
            let code = rejection.reason.code().to_owned();
            let diagnosis = Box::new(Diagnosis::new(object, &rejection));
            let explanation = diagnostic::render(object, &program.name, &code, &diagnosis, Look::default());
            Verdict::Rejected { code, explanation, diagnosis }
        }
        Err(Error::Unsupported { insn, what }) => {
            Verdict::Unsupported { reason: format!("not supported: {what}{}", site(object, insn)).into() }
        }
        Err(Error::Limit { insn, what }) => {
            Verdict::Unsupported { reason: format!("limit reached: {what}{}", site(object, insn)).into() }
        }
        Err(error) => Verdict::Unsupported { reason: error.to_string().into() },
    }
}

/// Where an instruction is, in brackets: its slot, as listings count.
fn site(object: &Object, insn: kiln_program::InsnId) -> String {
    let found = object.functions.iter().find_map(|function| {
        let at = function.nodes.iter().position(|node| node.id == insn)?;
        Some(Place::at(object, function, at))
    });
    found.map_or_else(String::new, |place| format!(" (slot {} of {})", place.slot, place.function.exact()))
}

/// Verifies programs of an input.
pub fn check(input: &Input, programs: &[&Program]) -> Vec<Checked> {
    let options = kiln_verifier::Options { explain: true, skip_facts: true, ..input.verifier_options() };
    let prepared = Prepared::new(&input.object, &options);
    let one = |program: &&Program| {
        let begun = Instant::now();
        let verdict = verdict_in(input, &prepared, program, &options);
        let micros = begun.elapsed().as_micros() as u64;
        Checked {
            program: program.name.as_str().into(),
            section: program.section.as_str().into(),
            program_type: program.program_type.map(|known| known.name()),
            slots: input.object.program_slots(program),
            verdict,
            micros,
            profile: None,
            sandboxed: sandboxed::sandboxed(&input.object, program, &options),
            kernel: None,
        }
    };
    let mut results: Vec<Checked> = programs.iter().map(one).collect();
    let too_complex = |checked: &Checked| match &checked.verdict {
        Verdict::Rejected { code, .. } => *code == kiln_verifier::Reason::TooComplex.code(),
        _ => false,
    };
    for (checked, program) in results.iter_mut().zip(programs).filter(|(checked, _)| too_complex(checked)) {
        checked.profile = profile(input, program);
    }
    results
}

/// Results for the programs of an input that cannot be read.
pub fn unreadable(input: &Input) -> Vec<Checked> {
    let one = |function: &kiln_elf::Unreadable| {
        let verdict = match crate::input::elf_error(&input.object.name, function.reason.clone()) {
            kiln_program::Error::Unsupported(reason) => Verdict::Unsupported { reason: reason.into() },
            other => Verdict::Invalid { reason: other.to_string().into() },
        };
        Checked {
            program: function.function.as_str().into(),
            section: function.section.as_str().into(),
            program_type: kiln_platform::section_program_type(&function.section).map(|rule| rule.program_type.name()),
            slots: function.slots,
            verdict,
            micros: 0,
            kernel: None,
            profile: None,
            sandboxed: None,
        }
    };
    input.unreadable().map(one).collect()
}

/// What verifying a program costs; `None` where that cannot be said.
pub fn profile(input: &Input, program: &Program) -> Option<Cost> {
    program.program_type?;
    let cost = kiln_verifier::cost(&input.object, program, &input.verifier_options()).ok()?;
    Some(Cost::new(&cost))
}

impl Checked {
    /// Whether Kiln and the kernel disagree. They do not where one of them gives no verdict, nor about what Kiln knows to
    /// be a bug of the kernel's verifier.
    pub fn disagrees(&self) -> bool {
        let ours = match &self.verdict {
            Verdict::Accepted { .. } => true,
            Verdict::Rejected { diagnosis, .. } if diagnosis.kernel_accepts => return false,
            Verdict::Rejected { .. } => false,
            Verdict::Unsupported { .. } | Verdict::Invalid { .. } => return false,
        };
        match &self.kernel {
            Some(KernelVerdict::Accepted { .. }) => !ours,
            Some(KernelVerdict::Rejected { .. }) => ours,
            Some(KernelVerdict::NotAsked { .. }) | None => false,
        }
    }
}
