//! `kiln cc`: clang with the flags that heaps need, then sandbox and optimize.
//!
//! It takes clang's command line, so that a Makefile needs one change: `make CLANG="kiln cc"`. What clang writes is changed in
//! place where it is a BPF object; anything else (`--version`, a preprocessed file) is left as it is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::error::Error;
use crate::{Input, input, optimize, output, sandbox};

/// The headers for extension authors, which `kiln cc` brings along.
const HEADERS: [(&str, &str); 7] = [
    ("kiln/heap.h", include_str!("../../../../bpf/include/kiln/heap.h")),
    ("kiln/malloc.h", include_str!("../../../../bpf/include/kiln/malloc.h")),
    ("kiln/hash.h", include_str!("../../../../bpf/include/kiln/hash.h")),
    ("kiln/list.h", include_str!("../../../../bpf/include/kiln/list.h")),
    ("kiln/rbtree.h", include_str!("../../../../bpf/include/kiln/rbtree.h")),
    ("kiln/skiplist.h", include_str!("../../../../bpf/include/kiln/skiplist.h")),
    ("kiln/sketch.h", include_str!("../../../../bpf/include/kiln/sketch.h")),
];

/// How to compile.
#[derive(Clone, Debug)]
pub struct Options {
    /// The compiler.
    pub clang: String,
    /// clang's arguments.
    pub arguments: Vec<String>,
    /// How to sandbox.
    pub sandbox: sandbox::Options,
    /// Seconds for the optimizer; 0 leaves it out.
    pub optimize: Duration,
}

/// What was made.
pub struct Compiled {
    /// clang's exit code.
    pub code: u8,
    /// The object, where clang wrote one, and what the sandbox did.
    pub object: Option<(PathBuf, sandbox::Outcome)>,
}

/// Compiles.
///
/// # Errors
/// [`Error::Os`] when clang cannot be run, else as [`sandbox::sandbox`] and [`optimize::optimize`].
pub fn compile(options: &Options) -> Result<Compiled, Error> {
    let headers = unpack_headers()?;
    let mut command = Command::new(&options.clang);
    command.args(flags(headers.path())).args(&options.arguments);
    let status = command.status().map_err(|error| Error::Os {
        call: options.clang.clone(),
        errno: error.raw_os_error().unwrap_or_default(),
        advice: "; install clang 19, or name another with KILN_CLANG".to_owned(),
    })?;
    let code = status.code().map_or(1, |code| u8::try_from(code).unwrap_or(1));
    let output = output_of(&options.arguments).filter(|path| status.success() && is_bpf(path));
    let Some(path) = output else { return Ok(Compiled { code, object: None }) };
    let mut read = input::open(&path, &[])?;
    read.use_kernel_types();
    let mut done = sandbox::sandbox(&read, &options.sandbox)?;
    if !options.optimize.is_zero() {
        done.bytes = optimized(&path, &done.bytes, options)?;
    }
    output::write_whole(&path, &done.bytes)?;
    Ok(Compiled { code, object: Some((path, done)) })
}

fn optimized(path: &Path, bytes: &[u8], options: &Options) -> Result<Vec<u8>, Error> {
    let mut read: Input = input::parse(&path.display().to_string(), bytes.to_vec(), &[])?;
    read.use_kernel_types();
    let settings = optimize::Options {
        budget: options.optimize,
        ask_kernel: options.sandbox.ask_kernel,
        ..optimize::Options::default()
    };
    Ok(optimize::optimize(&read, &settings, &mut ())?.bytes)
}

fn unpack_headers() -> Result<tempfile::TempDir, Error> {
    let os = |error: std::io::Error| Error::io("a temporary folder", &error);
    let folder = tempfile::Builder::new().prefix("kiln-include").tempdir().map_err(os)?;
    for (name, text) in HEADERS {
        let path = folder.path().join(name);
        path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(os)?;
        std::fs::write(path, text).map_err(os)?;
    }
    Ok(folder)
}

/// The flags before the user's own, which override them.
fn flags(headers: &Path) -> Vec<String> {
    let mut flags: Vec<String> =
        ["-target", "bpf", "-mcpu=v4", "-O2", "-g", "-mllvm", "-disable-loop-idiom-all"].map(str::to_owned).to_vec();
    flags.push(format!("-I{}", headers.display()));
    // Where Debian has <asm/types.h>, which clang does not look for when it compiles for BPF.
    let own = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    if Path::new(&own).is_dir() {
        flags.extend(["-idirafter".to_owned(), own]);
    }
    flags
}

/// The file that clang's arguments name, or that it would choose.
fn output_of(arguments: &[String]) -> Option<PathBuf> {
    let mut iterator = arguments.iter();
    while let Some(argument) = iterator.next() {
        if argument == "-o" {
            return iterator.next().map(PathBuf::from);
        }
        if let Some(path) = argument.strip_prefix("-o").filter(|rest| !rest.is_empty()) {
            return Some(PathBuf::from(path));
        }
    }
    let source = arguments.iter().rfind(|argument| argument.ends_with(".c"))?;
    arguments
        .contains(&"-c".to_owned())
        .then(|| Path::new(source).with_extension("o").file_name().map(PathBuf::from))?
}

/// Whether a file is an ELF object for BPF (`e_machine` 247).
fn is_bpf(path: &Path) -> bool {
    use std::io::Read as _;
    const EM_BPF: u16 = 247;
    let mut header = [0; 20];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut header));
    read.is_ok() && header.starts_with(b"\x7fELF") && u16::from_le_bytes([header[18], header[19]]) == EM_BPF
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clang_output_is_found() {
        let found = |line: &str| output_of(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(found("-c a.c -o b.o"), Some("b.o".into()));
        assert_eq!(found("-c a.c -ob.o"), Some("b.o".into()));
        assert_eq!(found("-c dir/a.bpf.c"), Some("a.bpf.o".into()));
        assert_eq!(found("-E a.c"), None);
        assert_eq!(found("--version"), None);
    }
}
