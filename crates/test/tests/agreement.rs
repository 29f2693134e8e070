//! Our verdict beside the running kernel's, for every program of the corpora.
//!
//! ```text
//!                        both accept  both reject  only kernel  only Kiln  unsupported  not asked
//!   xdp                          122           59            0          0            3          2
//! ```
//!
//! A program that only one of the two accepts must be listed in `tests/verdicts.toml` with a reason; a listed one that
//! they agree about must go from there. What Kiln says `unsupported` to is counted aloud. *Not asked* are programs
//! that the verifier did not get to see, each with a reason (`kiln_driver::kernel::NotAsked`). With
//! `KILN_AGREEMENT_ROWS` set, every program is printed with both verdicts; `KILN_AGREEMENT_ONLY=dynptr,iters` compares
//! only objects whose path contains one of the words.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kiln_driver::input::{possible_processors, running_kernel_types};
use kiln_driver::kernel::{self, Answer};
use kiln_program::btf::Btf;
use kiln_program::{Object, Program};
use kiln_test::corpus::{self, CorpusObject};
use kiln_test::engine::kernel_available;
use kiln_test::verdicts::Verdicts;
use kiln_verifier::{Error, Options, verify};

/// What one of the two says.
#[derive(Clone, Debug)]
enum Says {
    Accept,
    /// With Kiln's reason code or the kernel's line.
    Reject(String),
    /// Kiln lacks something, or the kernel was not asked.
    Nothing(String),
}

/// What both say of one program.
#[derive(Debug)]
struct Compared {
    /// `object.o:program`.
    name: String,
    program_type: &'static str,
    kiln: Says,
    kernel: Says,
}

/// Columns of the table.
const COLUMNS: [&str; 6] = ["both accept", "both reject", "only kernel", "only Kiln", "unsupported", "not asked"];

impl Compared {
    fn column(&self) -> usize {
        match (&self.kiln, &self.kernel) {
            (_, Says::Nothing(_)) => 5,
            (Says::Nothing(_), _) => 4,
            (Says::Accept, Says::Accept) => 0,
            (Says::Reject(_), Says::Reject(_)) => 1,
            (Says::Reject(_), Says::Accept) => 2,
            (Says::Accept, Says::Reject(_)) => 3,
        }
    }

    /// As `tests/verdicts.toml` has it.
    fn kiln_says(&self) -> String {
        match &self.kiln {
            Says::Accept => "accept".to_owned(),
            Says::Reject(code) => format!("reject {code}"),
            Says::Nothing(what) => what.clone(),
        }
    }
}

fn kiln_verdict(object: &Object, program: &Program, vmlinux: Option<&Arc<Btf>>) -> Says {
    let processors = possible_processors();
    let options = Options { skip_facts: true, kernel_types: vmlinux.cloned(), processors, ..Options::default() };
    match verify(object, program, &options) {
        Ok(_) => Says::Accept,
        Err(Error::Rejected(rejection)) => Says::Reject(rejection.reason.code().to_owned()),
        Err(Error::Unsupported { what, .. }) => Says::Nothing(what),
        Err(error) => Says::Nothing(error.to_string()),
    }
}

fn kernel_verdict(bytes: &[u8], object: &Object, program: &Program) -> Says {
    match kernel::ask(bytes, object, program, None) {
        Answer::Accept => Says::Accept,
        Answer::Reject(reason) => Says::Reject(reason),
        Answer::NotAsked(why) => Says::Nothing(why.class().to_owned()),
    }
}

fn has_core(object: &Object) -> bool {
    object.functions.iter().flat_map(|function| &function.nodes).any(|node| node.core.is_some())
}

/// Compares the programs of one object.
fn compare(entry: &CorpusObject, vmlinux: Option<&Arc<Btf>>) -> Vec<Compared> {
    let Ok(mut input) = entry.read() else { return Vec::new() };
    let bytes = std::mem::take(&mut input.bytes);
    if let (Some(vmlinux), true) = (vmlinux, has_core(&input.object)) {
        // What cannot be resolved stays, as an instruction that is refused where it can be reached.
        let _ = kiln_elf::resolve_core(&mut input.object, vmlinux);
    }
    input.resolve_kconfig();
    let object = &input.object;
    let wanted = |program: &&Program| program.program_type.is_some() && !entry.leaves_out(&program.name);
    let file = entry.file_name();
    let compared = object.programs.iter().filter(wanted).map(|program| Compared {
        name: format!("{file}:{}", program.name),
        program_type: program.program_type.map_or("", |known| known.name()),
        kiln: kiln_verdict(object, program, vmlinux),
        kernel: kernel_verdict(&bytes, object, program),
    });
    compared.collect()
}

/// Compares all of them, on as many threads as there are processors.
fn compare_all(objects: &[CorpusObject], vmlinux: Option<&Arc<Btf>>) -> Vec<Compared> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(entry) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let compared = compare(entry, vmlinux);
                    results.lock().expect("no thread panics while it adds").extend(compared);
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no thread panics while it adds");
    results.sort_by(|a, b| a.name.cmp(&b.name));
    results
}

fn counted<'a>(what: impl Iterator<Item = &'a str>) -> Vec<(usize, &'a str)> {
    let mut counts = BTreeMap::<&str, usize>::new();
    what.for_each(|what| *counts.entry(what).or_default() += 1);
    let mut counts: Vec<_> = counts.into_iter().map(|(what, count)| (count, what)).collect();
    counts.sort_by(|a, b| b.cmp(a));
    counts
}

fn print_table(all: &[Compared]) {
    let mut rows = BTreeMap::<&str, [usize; COLUMNS.len()]>::new();
    for compared in all {
        rows.entry(compared.program_type).or_default()[compared.column()] += 1;
        rows.entry("~ all").or_default()[compared.column()] += 1;
    }
    let heading: String = COLUMNS.iter().map(|column| format!("{column:>13}")).collect();
    eprintln!("{:24}{heading}", "program type");
    for (program_type, counts) in &rows {
        let cells: String = counts.iter().map(|count| format!("{count:>13}")).collect();
        eprintln!("{:24}{cells}", program_type.trim_start_matches("~ "));
    }
}

fn print_reasons(all: &[Compared]) {
    let rejected = all.iter().filter_map(|compared| match &compared.kiln {
        Says::Reject(code) if compared.column() == 1 => Some(code.as_str()),
        _ => None,
    });
    eprintln!("\nrejected by both, by Kiln's reason:");
    counted(rejected).iter().for_each(|(count, code)| eprintln!("{count:6} {code}"));
    let unsupported = all.iter().filter_map(|compared| match (&compared.kiln, &compared.kernel) {
        (Says::Nothing(what), Says::Accept | Says::Reject(_)) => Some(what.as_str()),
        _ => None,
    });
    eprintln!("\nunsupported by Kiln:");
    counted(unsupported).iter().for_each(|(count, what)| eprintln!("{count:6} {what}"));
    let not_asked = all.iter().filter_map(|compared| match &compared.kernel {
        Says::Nothing(what) => Some(what.lines().next().unwrap_or_default()),
        _ => None,
    });
    eprintln!("\nnot asked of the kernel:");
    counted(not_asked).iter().for_each(|(count, what)| eprintln!("{count:6} {what}"));
    if std::env::var_os("KILN_AGREEMENT_ROWS").is_some() {
        for compared in all {
            eprintln!(
                "{:13} {} {:?} | {:?}",
                COLUMNS[compared.column()],
                compared.name,
                compared.kiln,
                compared.kernel
            );
        }
    }
}

/// What is wrong: disagreements that are not listed, and entries that no longer disagree.
fn findings(all: &[Compared], verdicts: &Verdicts) -> Vec<String> {
    let mut findings = Vec::new();
    for compared in all {
        let (name, kiln) = (&compared.name, compared.kiln_says());
        let disagrees = matches!(compared.column(), 2 | 3);
        match verdicts.of_program(name) {
            None if disagrees => {
                findings.push(format!("{name}: Kiln says `{kiln}`, the kernel says {:?}", compared.kernel));
            }
            Some(listed) if disagrees && listed.kiln != kiln => {
                findings.push(format!("{name}: Kiln says `{kiln}`, tests/verdicts.toml has `{}`", listed.kiln));
            }
            Some(listed) if disagrees => eprintln!("listed: {name}: {kiln}: {}", listed.reason),
            Some(listed) if compared.column() < 4 && !listed.depends_on_kernel => {
                findings.push(format!("{name}: Kiln and the kernel agree; take it out of tests/verdicts.toml"));
            }
            _ => {}
        }
    }
    findings
}

#[test]
fn verdicts_are_the_kernels() {
    if let Err(reason) = kernel_available() {
        eprintln!("skipped: kernel: {reason}");
        return;
    }
    let vmlinux = running_kernel_types();
    if vmlinux.is_none() {
        eprintln!("skipped: CO-RE against this kernel: its BTF cannot be read");
    }
    let mut objects = corpus::objects();
    objects.retain(|entry| entry.refused().is_none());
    if let Ok(only) = std::env::var("KILN_AGREEMENT_ONLY") {
        objects.retain(|entry| only.split(',').any(|word| entry.path.to_string_lossy().contains(word)));
    }
    let all = compare_all(&objects, vmlinux.as_ref());
    print_table(&all);
    print_reasons(&all);
    let verdicts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/verdicts.toml");
    let verdicts = Verdicts::read(&verdicts).expect("tests/verdicts.toml");
    let findings = findings(&all, &verdicts);
    assert!(findings.is_empty(), "{} programs:\n{}", findings.len(), findings.join("\n"));
}
