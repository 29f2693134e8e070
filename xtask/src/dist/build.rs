//! Compiling the static binary, alone and once more for a wheel.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::files::{file_error, has, repository};
use super::machine::Machine;
use crate::command::{Failure, cargo, run as run_command, script, target_dir};

/// The features of the binary, best first: with the solver, and without where Z3 cannot be built.
pub const WITH_SOLVER: &str = "static,engine";
const WITHOUT_SOLVER: &str = "static-kernel,engine";

/// The folder of everything that is built for the static binary: other flags would build all of it again and again.
fn folder() -> PathBuf {
    target_dir().join("static")
}

/// Builds the static binary. Returns it and the features that it was built with.
///
/// # Errors
/// Returns a failure if a tool or a library is missing, or something does not compile.
pub fn build(machine: &Machine, solver: bool) -> Result<(PathBuf, &'static str), Failure> {
    let sources = if solver { z3_sources() } else { None };
    let features = if sources.is_some() { WITH_SOLVER } else { WITHOUT_SOLVER };
    let mut command = cargo();
    command.args(["build", "--locked", "--profile", "dist", "-p", "kiln-cli", "--no-default-features"]);
    command.args(["--features", features, "--target", &machine.target(), "--target-dir"]).arg(folder());
    settings(machine, &mut command)?;
    run_command(&mut command, "cargo build")?;
    Ok((folder().join(machine.target()).join("dist/kiln"), features))
}

/// Packs the binary as a wheel with maturin, which builds it with cargo: only what is its own is built again.
///
/// # Errors
/// Returns a failure if maturin is there and fails.
pub fn wheel(machine: &Machine, features: &str, output: &Path) -> Result<(), Failure> {
    if !has("maturin") {
        println!("no wheel: maturin is not installed (pip install maturin)");
        return Ok(());
    }
    let mut command = Command::new("maturin");
    command.current_dir(repository(".")).args(["build", "--profile", "dist", "--no-default-features"]);
    command.args(["--features", features, "--target", &machine.target(), "--target-dir"]).arg(folder());
    // Nothing is linked dynamically, so the oldest tag that pip knows will do.
    command.args(["--compatibility", "manylinux2014", "--out"]).arg(output);
    settings(machine, &mut command)?;
    run_command(&mut command, "maturin")
}

/// Tells cargo how to link everything in.
fn settings(machine: &Machine, command: &mut Command) -> Result<(), Failure> {
    let libraries = folder().join(format!("libraries-{}", machine.name));
    link_static_libraries(machine, &libraries)?;
    machine.cross(command)?;
    command.env("RUSTFLAGS", format!("-C target-feature=+crt-static -L native={}", libraries.display()));
    // The build script of z3-sys would name the shared library.
    command.env("CXXSTDLIB", "static=stdc++").env("PKG_CONFIG_ALL_STATIC", "1");
    command.env("Z3_SRC_SOURCE_DIR", folder().join("z3-source/source"));
    Ok(())
}

/// Z3's sources, of the version that Debian packages and the tests use; `None`, with the reason said, if there are none.
fn z3_sources() -> Option<PathBuf> {
    let folder = folder().join("z3-source");
    match script("static-z3").arg(&folder).status() {
        Ok(status) if status.success() => Some(folder.join("source")),
        _ => {
            println!("Z3 is left out (see above): the binary proves rewrites by normal forms only");
            None
        }
    }
}

/// Collects the static libraries of the compiler and Debian in a folder that has no shared ones beside them.
fn link_static_libraries(machine: &Machine, folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(file_error(folder))?;
    let debian = machine.libraries()?;
    for (library, package) in [("libstdc++.a", "g++"), ("libelf.a", "libelf-dev"), ("libz.a", "zlib1g-dev")] {
        let fetched = debian.as_ref().map(|debian| debian.join(library)).filter(|path| path.exists());
        let found = match fetched {
            Some(path) => path,
            None => asked(machine, library)?,
        };
        if !found.is_absolute() {
            return Err(Failure::usage(format!("there is no {library}: apt-get install {package}")));
        }
        let to = folder.join(library);
        std::fs::copy(&found, &to).map_err(file_error(&to))?;
    }
    Ok(())
}

/// Where the compiler finds a library; its mere name if it does not.
fn asked(machine: &Machine, library: &str) -> Result<PathBuf, Failure> {
    let output = Command::new(machine.compiler()).arg(format!("-print-file-name={library}")).output();
    let output = output.map_err(|error| Failure::usage(format!("{} does not start: {error}", machine.compiler())))?;
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}
