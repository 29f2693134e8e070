//! Compares our verdict with the running kernel's for unprivileged programs: socket filters and cgroup_skb.
//!
//! The test's threads drop their capabilities while they load. This only works if the kernel allows unprivileged
//! loading (`sysctl kernel.unprivileged_bpf_disabled=0`). Few systems do, so usually the test prints a skip.
//! Disagreements are listed in `tests/verdicts.toml` under `unprivileged object.o:program`.

use std::collections::BTreeMap;
use std::path::Path;

use kiln_driver::kernel::{Answer, ask};
use kiln_linux::without_privilege;
use kiln_test::corpus;
use kiln_test::verdicts::Verdicts;
use kiln_verifier::{Error, Options, verify};

const SWITCH: &str = "/proc/sys/kernel/unprivileged_bpf_disabled";

#[test]
fn verdicts_without_privilege_are_the_kernels() {
    if std::fs::read_to_string(SWITCH).map_or(true, |value| value.trim() != "0") {
        eprintln!("skipped: kernel: users without privilege may not load programs here ({SWITCH} is not 0)");
        return;
    }
    let verdicts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/verdicts.toml");
    let verdicts = Verdicts::read(&verdicts).expect("tests/verdicts.toml");
    let (mut counts, mut findings) = (BTreeMap::<&str, usize>::new(), Vec::new());
    for entry in corpus::objects().into_iter().filter(|entry| entry.refused().is_none()) {
        let Ok(mut input) = entry.read() else { continue };
        let bytes = std::mem::take(&mut input.bytes);
        let allowed = |program: &&kiln_program::Program| {
            program.program_type.is_some_and(kiln_driver::ProgramType::allowed_unprivileged)
        };
        for program in input.object.programs.iter().filter(allowed) {
            let name = format!("unprivileged {}:{}", entry.file_name(), program.name);
            let options = Options { unprivileged: true, skip_facts: true, ..Options::default() };
            let kiln = match verify(&input.object, program, &options) {
                Ok(_) => "accept".to_owned(),
                Err(Error::Rejected(rejection)) => format!("reject {}", rejection.reason.code()),
                Err(_) => "unsupported".to_owned(),
            };
            let kernel = without_privilege(|| ask(&bytes, &input.object, program, None)).expect("capabilities change");
            let column = match (kiln.as_str(), &kernel) {
                (_, Answer::NotAsked(_)) => "not asked",
                ("unsupported", _) => "unsupported",
                ("accept", Answer::Accept) => "both accept",
                ("accept", Answer::Reject(_)) => "only Kiln",
                (_, Answer::Accept) => "only kernel",
                _ => "both reject",
            };
            *counts.entry(column).or_default() += 1;
            let disagrees = column.starts_with("only");
            match verdicts.of_program(&name) {
                Some(listed) if disagrees && listed.kiln == kiln => {
                    eprintln!("listed: {name}: {kiln}: {}", listed.reason)
                }
                Some(_) if column != "not asked" => {
                    findings.push(format!("{name}: tests/verdicts.toml is out of date"))
                }
                None if disagrees => findings.push(format!("{name}: Kiln says `{kiln}`, the kernel {kernel:?}")),
                _ => {}
            }
            if std::env::var_os("KILN_AGREEMENT_ROWS").is_some() {
                eprintln!("{column:13} {name} {kiln} | {kernel:?}");
            }
        }
    }
    eprintln!("without privilege: {counts:?}");
    assert!(findings.is_empty(), "{} programs:\n{}", findings.len(), findings.join("\n"));
}
