//! Checks every program of an object as the kernel's verifier would, and says why one is rejected.
//!
//! ```text
//! cargo run -p kiln-driver --no-default-features --example check -- OBJECT
//! ```
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use kiln_driver::check::{self, Verdict};
use kiln_driver::{Error, input};

fn main() -> Result<ExitCode, Error> {
    let path = std::env::args_os().nth(1).map(PathBuf::from);
    let path = path.ok_or_else(|| Error::InvalidInput("usage: check OBJECT".to_owned()))?;
    // An ELF object or Kiln's text. The second argument gives programs types that their sections do not tell.
    let input = input::open(&path, &[])?;
    let mut code = 0;
    // Without names, `select` gives every program. `true` would add costs by source line.
    for checked in check::check(&input, &input.select(&[])?) {
        code = code.max(checked.verdict.exit_code());
        match &checked.verdict {
            Verdict::Accepted { processed_insns, .. } => {
                println!("{}: accepted, {processed_insns} instructions processed", checked.program);
            }
            // The code is stable, for scripts; the explanation shows source lines, for people.
            Verdict::Rejected { code, explanation, .. } => {
                println!("{}: rejected ({code})\n{explanation}", checked.program);
            }
            Verdict::Invalid { reason } => println!("{}: invalid: {reason}", checked.program),
            Verdict::Unsupported { reason } => println!("{}: not supported: {reason}", checked.program),
        }
    }
    Ok(ExitCode::from(code))
}
