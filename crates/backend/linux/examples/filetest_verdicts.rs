//! Compares the running kernel's verdicts on filetests with those that they state for its release (`; on: 7.3 accept`).
//!
//! ```text
//!   cargo build -p kiln-linux --example filetest_verdicts
//!   scripts/under-kernel 7.3 $PWD/target/debug/examples/filetest_verdicts 7.3 $PWD/tests/filetests/verifier
//! ```
//!
//! Prints each file whose verdict is another, and the number of those that agree. Fails if one disagrees.

use std::path::Path;
use std::process::ExitCode;

use kiln_program::text::{Annotation, parse_annotated};

/// What a file states for a release: whether the kernel accepts it.
fn stated(annotations: &[Annotation], release: &str) -> Option<bool> {
    let of_release = |own: &&Annotation| own.key == "on" && own.value.split(' ').next() == Some(release);
    Some(annotations.iter().find(of_release)?.value.ends_with(" accept"))
}

/// Whether the kernel says what a file states for a release; `None` if it states nothing.
fn agrees(path: &Path, release: &str) -> Result<Option<bool>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let parsed = parse_annotated(&text).map_err(|error| error.to_string())?;
    let Some(wanted) = stated(&parsed.annotations, release) else { return Ok(None) };
    let program = parsed.object.programs.first().ok_or("it has no program")?;
    let (accepted, said) = match kiln_linux::load_image(&parsed.object, program) {
        Ok(_) => (true, String::new()),
        Err(failure) => (false, failure.why()),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if accepted != wanted || std::env::var_os("ALL").is_some() {
        println!("{name}: {} {said}", if accepted { "accept" } else { "reject" });
    }
    Ok(Some(accepted == wanted))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [release, folder] = &arguments[..] else {
        eprintln!("usage: filetest_verdicts RELEASE FOLDER");
        return ExitCode::FAILURE;
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|own| own == "bpf"));
    paths.sort();
    let (mut same, mut others) = (0, 0);
    for path in paths {
        match agrees(&path, release) {
            Ok(None) => {}
            Ok(Some(true)) => same += 1,
            Ok(Some(false)) => others += 1,
            Err(why) => {
                println!("{}: {why}", path.display());
                others += 1;
            }
        }
    }
    println!("{same} agree, {others} do not");
    if others == 0 && same > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
