//! Standard output, which may close before we are done: `kiln dump prog.o | head`.
//!
//! What a reader no longer wants is dropped, and the command still ends with the exit code of what it found.

use std::io::{ErrorKind, Write as _};

/// Writes text; colours disappear where the stream is no terminal or `NO_COLOR` is set.
pub fn write(text: &str) {
    let mut stream = anstream::stdout().lock();
    if let Err(error) = stream.write_all(text.as_bytes()).and_then(|()| stream.flush())
        && error.kind() != ErrorKind::BrokenPipe
    {
        anstream::eprintln!("error: standard output: {error}");
        std::process::exit(2);
    }
}

/// `println!` that survives a closed pipe.
#[macro_export]
macro_rules! say {
    ($($arguments:tt)*) => {
        $crate::output::write(&format!("{}\n", format_args!($($arguments)*)))
    };
}
