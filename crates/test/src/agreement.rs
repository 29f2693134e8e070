//! Compares Kiln's verdicts on programs of the corpora with a kernel's, and with the expectations of the programs'
//! authors.
//!
//! ```text
//!   object --- running kernel: bpf(2) ------- Says ---+
//!          |-- Linux 6.12 in a VM: recorded - Says ---+-- Compared: both accept | both reject | only kernel | only Kiln
//!          |-- Kiln, with that kernel's types  Says ---+             | unsupported | not asked
//!          +-- annotations: __success, __failure       the second witness
//! ```
//!
//! A program that cannot reach the running kernel's verifier (for example, because policy forbids LSM programs) is
//! compared with another kernel's verdict, if `scripts/other-kernel` has recorded one.

pub mod annotation;
pub mod own;
pub mod recorded;
pub mod report;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use kiln_driver::input::{possible_processors, running_kernel_types};
use kiln_driver::kernel::{Answer, ask};
use kiln_program::btf::Btf;
use kiln_program::{Object, Program};
use kiln_verifier::{Error, Options, Prepared, Reason};

use crate::corpus::CorpusObject;
use annotation::Expected;
use recorded::OtherKernel;

/// A verdict.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Says {
    /// It is safe.
    Accept,
    /// With Kiln's reason code or the kernel's line.
    Reject(String),
    /// Kiln lacks something, or the kernel was not asked.
    Nothing(String),
}

/// The result of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Column {
    /// Both accept.
    BothAccept,
    /// Both reject.
    BothReject,
    /// Kiln rejects what the kernel accepts.
    OnlyKernel,
    /// Kiln accepts what the kernel rejects.
    OnlyKiln,
    /// Kiln lacks something.
    Unsupported,
    /// The kernel's verifier did not see it.
    NotAsked,
}

impl Column {
    /// All of them, in the order of a table.
    pub const ALL: [Column; 6] = [
        Column::BothAccept,
        Column::BothReject,
        Column::OnlyKernel,
        Column::OnlyKiln,
        Column::Unsupported,
        Column::NotAsked,
    ];

    /// Its heading.
    pub const fn name(self) -> &'static str {
        match self {
            Column::BothAccept => "both accept",
            Column::BothReject => "both reject",
            Column::OnlyKernel => "only kernel",
            Column::OnlyKiln => "only Kiln",
            Column::Unsupported => "unsupported",
            Column::NotAsked => "not asked",
        }
    }
}

/// The verdicts on one program.
#[derive(Clone, Debug)]
pub struct Compared {
    /// `object.o:program`.
    pub name: String,
    /// Its type.
    pub program_type: &'static str,
    /// What Kiln says.
    pub kiln: Says,
    /// What the kernel says.
    pub kernel: Says,
    /// The author's expectation, if the program is annotated.
    pub expected: Option<Expected>,
}

impl Compared {
    /// How they compare.
    pub fn column(&self) -> Column {
        match (&self.kiln, &self.kernel) {
            (_, Says::Nothing(_)) => Column::NotAsked,
            (Says::Nothing(_), _) => Column::Unsupported,
            (Says::Accept, Says::Accept) => Column::BothAccept,
            (Says::Reject(_), Says::Reject(_)) => Column::BothReject,
            (Says::Reject(_), Says::Accept) => Column::OnlyKernel,
            (Says::Accept, Says::Reject(_)) => Column::OnlyKiln,
        }
    }

    /// Whether one accepts what the other rejects.
    pub fn disagrees(&self) -> bool {
        matches!(self.column(), Column::OnlyKernel | Column::OnlyKiln)
    }

    /// Kiln's verdict, in the form of `tests/verdicts.toml`.
    pub fn kiln_says(&self) -> String {
        match &self.kiln {
            Says::Accept => "accept".to_owned(),
            Says::Reject(code) => format!("reject {code}"),
            Says::Nothing(what) => what.clone(),
        }
    }
}

/// All comparisons: with the running kernel, and with another one where the running one could not be asked.
#[derive(Debug, Default)]
pub struct Comparisons {
    /// With the running kernel.
    pub running: Vec<Compared>,
    /// With the other kernel.
    pub other: Vec<Compared>,
}

fn kiln_verdict(object: &Prepared<'_>, program: &Program, options: &Options) -> Says {
    match object.verify(program, options) {
        Ok(_) => Says::Accept,
        Err(Error::Rejected(rejection)) => Says::Reject(rejection.reason.code().to_owned()),
        Err(Error::Unsupported { what, .. }) => Says::Nothing(what),
        Err(error) => Says::Nothing(error.to_string()),
    }
}

fn kernel_verdict(bytes: &[u8], object: &Object, program: &Program) -> Says {
    match ask(bytes, object, program, None) {
        Answer::Accept => Says::Accept,
        Answer::Reject(reason) => Says::Reject(reason),
        Answer::NotAsked(why) => Says::Nothing(why.class().to_owned()),
    }
}

fn resolve_core(object: &mut Object, types: &Btf) {
    let needed = object.functions.iter().flat_map(|function| &function.nodes).any(|node| node.core.is_some());
    if needed {
        // What cannot be resolved stays, as an instruction that is refused where it can be reached.
        let _ = kiln_elf::resolve_core(object, types);
    }
}

/// Compares the programs of one object.
fn compare(entry: &CorpusObject, types: Option<&Arc<Btf>>, other: Option<&OtherKernel>) -> Comparisons {
    let mut comparisons = Comparisons::default();
    let Ok(mut input) = entry.read() else { return comparisons };
    let bytes = std::mem::take(&mut input.bytes);
    let mut elsewhere = other.map(|_| input.object.clone());
    if let Some(types) = types {
        resolve_core(&mut input.object, types);
    }
    if let (Some(other), Some(object)) = (other, &mut elsewhere) {
        resolve_core(object, &other.types);
        kiln_elf::resolve_kconfig(object, &other.config);
    }
    input.resolve_kconfig();
    let options = Options {
        skip_facts: true,
        kernel_types: types.cloned(),
        processors: possible_processors(),
        ..Options::default()
    };
    let object = &input.object;
    let prepared = Prepared::new(object, &options);
    let elsewhere = other.zip(elsewhere.as_ref());
    let elsewhere = elsewhere.map(|(other, object)| (other, Prepared::new(object, &other.options())));
    let file = entry.file_name();
    for (index, program) in object.programs.iter().enumerate() {
        let Some(program_type) = program.program_type.filter(|_| !entry.leaves_out(&program.name)) else { continue };
        let compared = Compared {
            name: format!("{file}:{}", program.name),
            program_type: program_type.name(),
            kiln: kiln_verdict(&prepared, program, &options),
            kernel: kernel_verdict(&bytes, object, program),
            expected: annotation::expected(object, program),
        };
        if let (Column::NotAsked, Some((other, elsewhere))) = (compared.column(), &elsewhere)
            && let Some(kernel) = other.says(&entry.group, &compared.name)
        {
            let kiln = match kiln_verdict(elsewhere, &elsewhere.object().programs[index], &other.options()) {
                Says::Reject(code) if code == Reason::KernelLacks.code() && kernel == Says::Accept => {
                    Says::Nothing("the types of a kernel module".to_owned())
                }
                said => said,
            };
            comparisons.other.push(Compared { kiln, kernel, ..compared.clone() });
        }
        comparisons.running.push(compared);
    }
    comparisons
}

/// Compares all programs, on as many threads as there are processors.
pub fn compare_all(objects: &[CorpusObject], other: Option<&OtherKernel>) -> Comparisons {
    let types = running_kernel_types();
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Comparisons::default()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(entry) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let compared = compare(entry, types.as_ref(), other);
                    let mut all = results.lock().expect("no thread panics while it adds");
                    all.running.extend(compared.running);
                    all.other.extend(compared.other);
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no thread panics while it adds");
    results.running.sort_by(|a, b| a.name.cmp(&b.name));
    results.other.sort_by(|a, b| a.name.cmp(&b.name));
    results
}
