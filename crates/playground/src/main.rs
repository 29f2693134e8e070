//! Reads one request from standard input and writes its answer to standard output.
//!
//! In a page this is a WASI program (`wasm32-wasip1`): the page's worker gives it both streams and a clock. So there is
//! no foreign interface, which would need unsafe code, no generated glue, and the same program runs in a shell.
#![forbid(unsafe_code)]

use std::io::{Read as _, Write as _};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut request = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut request);
    let answer = read.map(|_| kiln_playground::answer(&request));
    match answer.and_then(|answer| writeln!(std::io::stdout().lock(), "{answer}")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("playground: {error}");
            ExitCode::from(2)
        }
    }
}
