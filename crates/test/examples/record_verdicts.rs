//! The running kernel's verdict on every program of the corpora, a line each as it is known:
//!
//! ```text
//!   selftests-6.12/verifier_and.o:invalid_and_negative_range <TAB> reject <TAB> R0 max value is outside of the allowed memory range
//! ```
//!
//! `scripts/old-kernels` runs it under other kernels than this one, and `tests/old_kernels.rs` compares with what Kiln
//! says for those. With arguments, only objects whose name begins with one of them.

use kiln_driver::kernel;
use kiln_test::corpus;

fn main() {
    let prefixes: Vec<String> = std::env::args().skip(1).collect();
    for entry in corpus::objects() {
        let file = entry.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let wanted = prefixes.is_empty() || prefixes.iter().any(|prefix| file.starts_with(prefix.as_str()));
        if !wanted || entry.refused().is_some() {
            continue;
        }
        let Ok(input) = entry.read() else { continue };
        for program in &input.object.programs {
            if program.program_type.is_none() || entry.leaves_out(&program.name) {
                continue;
            }
            let (verdict, reason) = match kernel::load(&input.bytes, &input.object, program) {
                Ok(_) => ("accept", String::new()),
                Err(failure) => match failure.reason() {
                    Some(reason) => ("reject", reason.to_owned()),
                    None => ("nothing", failure.to_string()),
                },
            };
            println!("{}:{}\t{verdict}\t{}", entry.path.display(), program.name, reason.replace(['\n', '\t'], " "));
        }
    }
}
