//! Prints what the running kernel says of rejected programs: one JSON object per line.
//!
//! ```text
//!   {"program":"mistakes/packet-walk.o:walk","log":"..."}
//! ```
//!
//! The argument is a folder with folders of objects. `scripts/other-kernel 7.3 --words` runs it in a virtual machine:
//! since 7.3 a log ends in the kernel's own account of the rejection, which `docs/reference/messages.md` compares with
//! Kiln's.

use std::path::Path;

use kiln_driver::{input, kernel};

/// Bytes of a log that are printed, its last ones.
const LAST_BYTES: usize = 16 << 10;

fn objects(folder: &Path) -> Vec<std::path::PathBuf> {
    let list = |folder: &Path| -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let mut found: Vec<_> = list(folder).iter().flat_map(|inner| list(inner)).collect();
    found.sort();
    found
}

fn main() {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    for path in objects(Path::new(&folder)) {
        let Ok(mut input) = input::open(&path, &[]) else { continue };
        let bytes = std::mem::take(&mut input.bytes);
        let name = path.strip_prefix(&folder).unwrap_or(&path).display();
        for program in input.object.programs.iter().filter(|program| program.program_type.is_some()) {
            let Err(failure) = kernel::load(&bytes, &input.object, program) else { continue };
            let log: String = failure.logs.iter().map(|log| log.log.as_str()).collect();
            let mut from = log.len().saturating_sub(LAST_BYTES);
            while !log.is_char_boundary(from) {
                from += 1;
            }
            let line = serde_json::json!({ "program": format!("{name}:{}", program.name), "log": &log[from..] });
            println!("{line}");
        }
    }
}
