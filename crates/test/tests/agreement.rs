//! Compares our verdict with the kernel's for every program of the corpora.
//!
//! ```text
//!   | program type | both accept | both reject | only kernel | only Kiln | unsupported | not asked | agreement |
//!   | xdp          |         236 |          67 |           0 |         0 |           2 |         3 |    99.3 % |
//! ```
//!
//! A program that only one of the two accepts must be listed in `tests/verdicts.toml` with a reason; a listed one on
//! which they agree must be removed. Unsupported programs are counted and printed. *Not asked* are programs that did
//! not reach the verifier, each with a reason (`kiln_driver::kernel::NotAsked`). If another kernel was asked about them
//! (`scripts/other-kernel`), they are compared with its verdicts.
//!
//! With `KILN_AGREEMENT_ROWS` set, every program is printed with both verdicts; `KILN_AGREEMENT_ONLY=dynptr,iters`
//! compares only objects whose path contains one of the words. `BLESS=1` writes `docs/measurements/agreement.md`,
//! or its section about another compiler (`scripts/gcc-objects`).

use std::path::{Path, PathBuf};

use kiln_driver::input::running_kernel_types;
use kiln_test::agreement::recorded::OtherKernel;
use kiln_test::agreement::{Column, Compared, Comparisons, compare_all, own, report};
use kiln_test::corpus;
use kiln_test::engine::kernel_available;
use kiln_test::verdicts::Verdicts;

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Errors: disagreements that are not listed, and entries that no longer apply.
fn findings(all: &[Compared], verdicts: &Verdicts, prefix: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for compared in all {
        let (name, kiln) = (format!("{prefix}{}", compared.name), compared.kiln_says());
        let disagrees = compared.disagrees();
        match verdicts.of_program(&name) {
            None if disagrees => {
                findings.push(format!("{name}: Kiln says `{kiln}`, the kernel says {:?}", compared.kernel));
            }
            Some(listed) if disagrees && listed.kiln != kiln => {
                findings.push(format!("{name}: Kiln says `{kiln}`, tests/verdicts.toml has `{}`", listed.kiln));
            }
            Some(listed) if disagrees => eprintln!("listed: {name}: {kiln}: {}", listed.reason),
            Some(listed) if compared.column() < Column::Unsupported && !listed.depends_on_kernel => {
                findings.push(format!("{name}: Kiln and the kernel agree; take it out of tests/verdicts.toml"));
            }
            _ => {}
        }
    }
    findings
}

fn print_rows(all: &[Compared]) {
    if std::env::var_os("KILN_AGREEMENT_ROWS").is_some() {
        for compared in all {
            eprintln!("{:13} {} {:?} | {:?}", compared.column().name(), compared.name, compared.kiln, compared.kernel);
        }
    }
}

fn print_comparison(title: &str, all: &[Compared]) {
    eprintln!("\n{title}\n{}", report::matrix(all));
    eprintln!("rejected by both:\n{}", report::reasons(all));
    eprintln!("unsupported by Kiln:\n{}", report::why(all, Column::Unsupported));
    eprintln!("not asked of the kernel:\n{}", report::why(all, Column::NotAsked));
    print_rows(all);
}

/// Writes the page, or of objects of another compiler their section.
fn write_page(all: &Comparisons, verdicts: &Verdicts, other: Option<&OtherKernel>) {
    let running = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let path = in_repository("docs/measurements/agreement.md");
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let page = match corpus::compiler() {
        Some(compiler) => {
            let section = report::of_compiler(&all.running, verdicts, &compiler, running.trim());
            report::with_section(&before, report::COMPILER, &section)
        }
        None => {
            let page = report::page(all, verdicts, running.trim(), other.map(|other| other.release.as_str()));
            let kept = |page: String, heading| report::with_section(&page, heading, report::section(&before, heading));
            [report::COMPILER, report::RELEASES, report::TOOLS, own::HEADING].into_iter().fold(page, kept)
        }
    };
    std::fs::write(path, page).expect("docs/measurements/agreement.md can be written");
}

#[test]
fn verdicts_are_the_kernels() {
    if let Err(reason) = kernel_available() {
        eprintln!("skipped: kernel: {reason}");
        return;
    }
    if running_kernel_types().is_none() {
        eprintln!("skipped: CO-RE against this kernel: its BTF cannot be read");
    }
    let mut objects = corpus::objects();
    objects.retain(|entry| entry.refused().is_none());
    if let Ok(only) = std::env::var("KILN_AGREEMENT_ONLY") {
        objects.retain(|entry| only.split(',').any(|word| entry.path.to_string_lossy().contains(word)));
    }
    let other = OtherKernel::newest();
    if other.is_none() {
        eprintln!("skipped: another kernel: none was asked (scripts/other-kernel)");
    }
    let all = compare_all(&objects, other.as_ref());
    let verdicts = Verdicts::read(&in_repository("tests/verdicts.toml")).expect("tests/verdicts.toml");
    print_comparison("the running kernel", &all.running);
    let mut findings = findings(&all.running, &verdicts, "");
    if let Some(other) = &other {
        print_comparison(&format!("Linux {}, where the running kernel was not asked", other.release), &all.other);
        findings.extend(self::findings(&all.other, &verdicts, report::OTHER_PREFIX));
    }
    eprintln!("{}", report::annotations(&all.running));
    if std::env::var_os("BLESS").is_some() {
        write_page(&all, &verdicts, other.as_ref());
    }
    assert!(findings.is_empty(), "{} programs:\n{}", findings.len(), findings.join("\n"));
}
