//! `cargo xtask dist`: what users install, in `target/dist`.
//!
//! ```text
//!   scripts/static-z3 ──> Z3's sources ─┐
//!                                       ├─> kiln: static, stripped ──> stage/usr/{bin,share/man,share/...}
//!   libelf.a, libz.a, libstdc++.a ──────┘            │                    ├─> kiln-VERSION-TARGET.tar.gz
//!                                                    │                    ├─> kiln_VERSION_ARCH.deb
//!                          kiln manual, completions ─┘                    └─> kiln-VERSION.cdx.json, SHA256SUMS
//! ```
//!
//! glibc is linked in, too: Z3 and libelf of Debian are made for it. A static glibc cannot look up users or hosts by name,
//! which Kiln does not. `--binary FILE` packs a program that is there, for tests.

mod packages;
mod sbom;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{Failure, cargo, root, run as run_command, script, target_dir};

/// The features of the binary, best first: with the solver, and without where Z3 cannot be built.
const WITH_SOLVER: &str = "static";
const WITHOUT_SOLVER: &str = "static-kernel";

/// What was asked for.
struct Wanted {
    binary: Option<PathBuf>,
    output: PathBuf,
    solver: bool,
}

impl Wanted {
    fn parse(arguments: &[String]) -> Result<Wanted, Failure> {
        let mut wanted = Wanted { binary: None, output: target_dir().join("dist"), solver: true };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut path = || {
                let value = rest.next().ok_or_else(|| Failure::usage(format!("{argument} wants a path")))?;
                std::path::absolute(value).map_err(|error| Failure::usage(format!("{value}: {error}")))
            };
            match argument.as_str() {
                "--binary" => wanted.binary = Some(path()?),
                "--output" => wanted.output = path()?,
                "--without-solver" => wanted.solver = false,
                other => {
                    let known = "--binary FILE, --output FOLDER, --without-solver";
                    return Err(Failure::usage(format!("unknown argument '{other}' (known: {known})")));
                }
            }
        }
        Ok(wanted)
    }
}

/// `cargo xtask dist`.
///
/// # Errors
/// Returns a failure if a step fails, with the step.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let wanted = Wanted::parse(arguments)?;
    let (binary, features) = match &wanted.binary {
        Some(binary) => (binary.clone(), WITH_SOLVER),
        None => build(wanted.solver)?,
    };
    let linking = linking(&binary)?;
    println!("{}: {} bytes, {linking}", binary.display(), size(&binary)?);
    if wanted.binary.is_none() && linking != Linking::Static {
        return Err(Failure::failed("the binary is not static"));
    }
    let stage = wanted.output.join("stage");
    let _ = std::fs::remove_dir_all(&stage);
    packages::stage(&binary, &stage)?;
    let mut files = vec![sbom::write(features, &wanted.output)?];
    std::fs::copy(&files[0], stage.join("usr/share/doc/kiln/sbom.cdx.json")).map_err(file_error(&files[0]))?;
    files.push(packages::tarball(&stage, &wanted.output)?);
    files.extend(packages::deb(&stage, &wanted.output, linking == Linking::Static)?);
    files.push(packages::checksums(&files, &wanted.output)?);
    for file in &files {
        println!("{} ({} bytes)", file.display(), size(file)?);
    }
    Ok(())
}

/// How a program is linked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Linking {
    Static,
    Dynamic,
}

impl std::fmt::Display for Linking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Linking::Static => "statically linked",
            Linking::Dynamic => "dynamically linked",
        })
    }
}

/// Asks `ldd`, which fails for what has no dynamic section and names a static PIE as such.
fn linking(binary: &Path) -> Result<Linking, Failure> {
    let output = Command::new("ldd").arg(binary).output();
    let output = output.map_err(|error| Failure::usage(format!("ldd does not start: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let is_static = text.contains("statically linked") || text.contains("not a dynamic executable");
    Ok(if is_static { Linking::Static } else { Linking::Dynamic })
}

/// Builds the static binary. Returns it and the features that it was built with.
fn build(solver: bool) -> Result<(PathBuf, &'static str), Failure> {
    let sources = if solver { z3_sources() } else { None };
    let features = if sources.is_some() { WITH_SOLVER } else { WITHOUT_SOLVER };
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    // A folder of its own: other flags would build everything again and again. Z3 stays there, too.
    let folder = target_dir().join("static");
    let libraries = folder.join("libraries");
    link_static_libraries(&libraries)?;
    let mut command = cargo();
    command.args(["build", "--locked", "--profile", "dist", "-p", "kiln-cli", "--no-default-features"]);
    command.args(["--features", features, "--target", &target, "--target-dir"]).arg(&folder);
    command.env("RUSTFLAGS", format!("-C target-feature=+crt-static -L native={}", libraries.display()));
    // The build script of z3-sys would name the shared library.
    command.env("CXXSTDLIB", "static=stdc++").env("PKG_CONFIG_ALL_STATIC", "1");
    if let Some(sources) = sources {
        command.env("Z3_SRC_SOURCE_DIR", sources);
    }
    run_command(&mut command, "cargo build")?;
    Ok((folder.join(target).join("dist/kiln"), features))
}

/// Z3's sources, of the version that Debian packages and the tests use; `None`, with the reason said, if there are none.
fn z3_sources() -> Option<PathBuf> {
    let folder = target_dir().join("static").join("z3-source");
    match script("static-z3").arg(&folder).status() {
        Ok(status) if status.success() => Some(folder.join("source")),
        _ => {
            println!("Z3 is left out (see above): the binary proves rewrites by normal forms only");
            None
        }
    }
}

/// Collects the static libraries of the compiler and Debian in a folder that has no shared ones beside them.
fn link_static_libraries(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(file_error(folder))?;
    for (library, package) in [("libstdc++.a", "g++"), ("libelf.a", "libelf-dev"), ("libz.a", "zlib1g-dev")] {
        let output = Command::new("gcc").arg(format!("-print-file-name={library}")).output();
        let output = output.map_err(|error| Failure::usage(format!("gcc does not start: {error}")))?;
        let found = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        if !found.is_absolute() {
            return Err(Failure::usage(format!("there is no {library}: apt-get install {package}")));
        }
        let to = folder.join(library);
        std::fs::copy(&found, &to).map_err(file_error(&to))?;
    }
    Ok(())
}

/// The version of the workspace's packages.
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

fn size(path: &Path) -> Result<u64, Failure> {
    Ok(std::fs::metadata(path).map_err(file_error(path))?.len())
}

fn file_error(path: &Path) -> impl Fn(std::io::Error) -> Failure + '_ {
    move |error| Failure::failed(format!("{}: {error}", path.display()))
}

/// What a command prints.
fn output_of(command: &mut Command) -> Result<Vec<u8>, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| Failure::usage(format!("{name} does not start: {error}")))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(Failure::failed(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

/// Whether a tool is there.
fn has(tool: impl AsRef<OsStr>) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// A file of the repository.
fn repository(path: &str) -> PathBuf {
    root().join(path)
}
