//! `kiln cc`: clang with the flags that heaps need, then sandbox and optimize.
//!
//! It takes clang's command line, so that a Makefile needs one change: `make CLANG="kiln cc"`. What clang writes is changed in
//! place where it is a BPF object; anything else (`--version`, a preprocessed file) is left as it is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::commands::{optimize, sandbox};
use crate::{clang, output};
use kiln_inspect::{Input, input};
use kiln_program::Error;

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
    /// The objects that clang wrote, and what the sandbox did to each.
    pub objects: Vec<(PathBuf, sandbox::Outcome)>,
}

/// Compiles. An object that cannot be sandboxed is removed, as compilers do with what they could not finish: `make` would
/// take it for done.
///
/// # Errors
/// [`Error::Os`] when clang cannot be run, [`Error::Unsupported`] for response files, else as [`sandbox::sandbox`] and
/// [`optimize::optimize`].
pub fn compile(options: &Options) -> Result<Compiled, Error> {
    if let Some(file) = options.arguments.iter().find(|argument| argument.starts_with('@')) {
        return Err(Error::Unsupported(format!("{file}: kiln cc does not read arguments from files")));
    }
    if links(&options.arguments) {
        let message = "kiln cc compiles and does not link: add -c, as in `kiln cc -c prog.bpf.c -o prog.o`";
        return Err(Error::InvalidInput(message.to_owned()));
    }
    let headers = clang::unpack_headers()?;
    let outputs = outputs_of(&options.arguments);
    if let Some(source) = outputs.iter().find(|output| is_source(output, &options.arguments)) {
        let name = crate::Shown::from(source.to_string_lossy().as_ref());
        return Err(Error::InvalidInput(format!("{name} is the source: name another file with -o")));
    }
    let before: Vec<_> = outputs.iter().map(|path| written(path)).collect();
    let mut command = Command::new(&options.clang);
    command.args(clang::flags(headers.path())).args(&options.arguments);
    let advice = "; install clang 19, or name another with KILN_CLANG";
    let status = command.status().map_err(|error| Error::machine(&options.clang, &error, advice))?;
    let code = status.code().map_or(1, |code| u8::try_from(code).unwrap_or(1));
    let mut compiled = Compiled { code, objects: Vec::new() };
    if !status.success() {
        return Ok(compiled);
    }
    let new = outputs.into_iter().zip(before).filter(|(path, before)| written(path) != *before && is_bpf(path));
    let new: Vec<PathBuf> = new.map(|(path, _)| path).collect();
    for path in &new {
        match finished(path, options) {
            Ok(outcome) => compiled.objects.push((path.clone(), outcome)),
            Err(error) => {
                let unfinished = &new[compiled.objects.len()..];
                unfinished.iter().for_each(|path| drop(std::fs::remove_file(path)));
                return Err(error);
            }
        }
    }
    Ok(compiled)
}

/// Sandboxes and optimizes an object in place.
fn finished(path: &Path, options: &Options) -> Result<sandbox::Outcome, Error> {
    let mut read = input::open(path, &[])?;
    read.use_kernel_types();
    let mut done = sandbox::sandbox(&read, &options.sandbox)?;
    if !options.optimize.is_zero() {
        done.bytes = optimized(path, &done.bytes, options)?;
    }
    output::write_whole(path, &done.bytes)?;
    Ok(done)
}

/// When a file was written, if it is one.
fn written(path: &Path) -> Option<std::time::SystemTime> {
    std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
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

/// Whether clang would compile C and then call a linker, of which there is none for BPF.
fn links(arguments: &[String]) -> bool {
    let stops = |argument: &String| {
        let whole = ["-c", "-S", "-E", "-r", "-fsyntax-only", "--compile", "--assemble", "--preprocess", "--analyze"];
        let begins = ["-M", "-print-", "-###", "--print-", "--version", "--help"];
        whole.contains(&argument.as_str()) || begins.iter().any(|begin| argument.starts_with(begin))
    };
    arguments.iter().any(|argument| argument.ends_with(".c")) && !arguments.iter().any(stops)
}

/// Whether the arguments name this file, perhaps in another way, as a C source.
fn is_source(output: &Path, arguments: &[String]) -> bool {
    let Ok(output) = std::fs::canonicalize(output) else { return false };
    let mut sources = arguments.iter().filter(|argument| argument.ends_with(".c"));
    sources.any(|source| std::fs::canonicalize(source).is_ok_and(|source| source == output))
}

/// The files that clang's arguments name, or that it would choose.
fn outputs_of(arguments: &[String]) -> Vec<PathBuf> {
    let mut iterator = arguments.iter();
    let mut named = None;
    while let Some(argument) = iterator.next() {
        let joined = argument.strip_prefix("--output=").or_else(|| argument.strip_prefix("-o"));
        named = match (argument.as_str(), joined) {
            ("-o" | "--output", _) => iterator.next().map(PathBuf::from),
            (_, Some(path)) => Some(PathBuf::from(path)),
            _ => continue,
        };
    }
    if named.is_some() || !arguments.iter().any(|argument| argument == "-c") {
        return named.into_iter().collect();
    }
    // One object for each source, in the current folder.
    let sources = arguments.iter().filter(|argument| !argument.starts_with('-'));
    sources.filter_map(|source| Path::new(source).with_extension("o").file_name().map(PathBuf::from)).collect()
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
    fn links_are_found() {
        let links = |text: &str| links(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(links("a.bpf.c -o a.o") && links("-O2 -g a.c"));
        assert!(!links("-c a.c") && !links("-E a.c") && !links("-MM a.c") && !links("--version") && !links("-v"));
    }

    #[test]
    fn clang_output_is_found() {
        let found = |line: &str| outputs_of(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for line in
            ["-c a.c -o b.o", "-c a.c -ob.o", "-c a.c --output b.o", "-c --output=b.o a.c", "-o a.o -c a.c -o b.o"]
        {
            assert_eq!(found(line), [PathBuf::from("b.o")], "{line}");
        }
        assert_eq!(found("-c dir/a.bpf.c"), [PathBuf::from("a.bpf.o")]);
        assert_eq!(found("-c a.c b.i"), [PathBuf::from("a.o"), "b.o".into()]);
        assert!(found("-E a.c").is_empty());
        assert!(found("--version").is_empty());
    }
}
