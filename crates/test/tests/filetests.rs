//! Runs `tests/filetests/<crate>/*.bpf`, one test per file; `BLESS=1` rewrites optimized listings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use kiln_test::boundary;
use kiln_test::filetest::Filetest;
use kiln_test::verdicts::Verdicts;
use libtest_mimic::{Arguments, Failed, Trial};

/// Why parts were skipped, and in how many files.
type Skips = Arc<Mutex<BTreeMap<String, usize>>>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let folder = tests.join("filetests");
    let files = Filetest::find(&folder).expect("the folder of filetests");
    let verdicts = Verdicts::read(&tests.join("verdicts.toml")).map(Arc::new);
    let skips = Skips::default();
    let mut trials = vec![verdicts_trial(&verdicts, &folder)];
    for path in files {
        let name = path.strip_prefix(&folder).unwrap_or(&path).display().to_string();
        let (folder, skips) = (folder.clone(), Arc::clone(&skips));
        let verdicts = verdicts.clone().unwrap_or_default();
        trials.push(Trial::test(name, move || one_file(&folder, &path, &verdicts, &skips)));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    for (reason, count) in skips.lock().expect("no trial panics while it counts").iter() {
        println!("skipped: {reason} ({count} filetests)");
    }
    conclusion.exit_code()
}

fn one_file(folder: &Path, path: &Path, verdicts: &Verdicts, skips: &Skips) -> Result<(), Failed> {
    let file = Filetest::read(folder, path)?;
    let parts = [
        boundary::round_trips(&file),
        boundary::verdict(&file, verdicts),
        boundary::kernel_verdict(&file),
        boundary::runs(&file),
        boundary::optimizes(&file, std::env::var_os("BLESS").is_some()),
    ];
    let mut failures = Vec::new();
    for part in parts {
        match part {
            Ok(skipped) => {
                let mut counts = skips.lock().expect("no trial panics while it counts");
                for reason in skipped {
                    *counts.entry(reason).or_default() += 1;
                }
            }
            Err(failure) => failures.push(failure),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

/// Every entry names a file that exists.
fn verdicts_trial(verdicts: &Result<Arc<Verdicts>, String>, folder: &Path) -> Trial {
    let (verdicts, folder): (_, PathBuf) = (verdicts.clone(), folder.to_owned());
    Trial::test("verdicts.toml", move || {
        for entry in &verdicts?.disagreement {
            if !folder.join(&entry.file).is_file() {
                return Err(format!("{} does not exist", entry.file).into());
            }
        }
        Ok(())
    })
}
