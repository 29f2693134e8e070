//! `cargo xtask dist`: what users install, in `target/dist`.
//!
//! ```text
//!   scripts/static-z3 ──> Z3's sources ─┐
//!                                       ├─> kiln: static, stripped ──> stage-MACHINE/usr/{bin,share/man,share/...}
//!   libelf.a, libz.a, libstdc++.a ──────┘            │                    ├─> kiln-VERSION-MACHINE-linux.tar.gz
//!                                                    │                    ├─> kiln_VERSION_ARCH.deb
//!                          kiln manual, completions ─┘                    ├─> kiln-ebpf-linux-CPU-VERSION.tgz, kiln-ebpf-VERSION.tgz (npm)
//!                                          maturin ──> the binary again ──┼─> kiln_ebpf-VERSION-py3-none-PLATFORM.whl
//!                                                                         └─> kiln-VERSION.cdx.json, kiln.rb, SHA256SUMS
//! ```
//!
//! glibc is linked in, too: Z3 and libelf of Debian are made for it. A static glibc cannot look up users or hosts by name,
//! which Kiln does not. `--binary FILE` packs a program that is there, for tests. `--machine aarch64` compiles for another
//! machine with Debian's cross compiler, and writes manual and completions by running the result under QEMU. `--other-systems`
//! packs `kiln-check`, the checker alone, for Windows and macOS.

mod build;
mod files;
mod machine;
mod others;
mod packages;
mod sbom;
mod wrappers;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{Failure, target_dir};
use files::{file_error, output_of, size};
use machine::Machine;

/// What was asked for.
struct Wanted {
    binary: Option<PathBuf>,
    output: PathBuf,
    solver: bool,
    other_systems: bool,
    machine: &'static Machine,
}

impl Wanted {
    fn parse(arguments: &[String]) -> Result<Wanted, Failure> {
        let output = target_dir().join("dist");
        let mut wanted =
            Wanted { binary: None, output, solver: true, other_systems: false, machine: Machine::find(None)? };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().ok_or_else(|| Failure::usage(format!("{argument} wants a value")));
            let path = |value: &String| {
                std::path::absolute(value).map_err(|error| Failure::usage(format!("{value}: {error}")))
            };
            match argument.as_str() {
                "--binary" => wanted.binary = Some(path(value()?)?),
                "--output" => wanted.output = path(value()?)?,
                "--machine" => wanted.machine = Machine::find(Some(value()?))?,
                "--without-solver" => wanted.solver = false,
                "--other-systems" => wanted.other_systems = true,
                other => {
                    let known = "--binary FILE, --output FOLDER, --machine NAME, --without-solver, --other-systems";
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
    let Wanted { machine, output, .. } = &wanted;
    std::fs::create_dir_all(output).map_err(file_error(output))?;
    if wanted.other_systems {
        others::pack(output)?;
        return list(output);
    }
    let (binary, features) = match &wanted.binary {
        Some(binary) => (binary.clone(), build::WITH_SOLVER),
        None => build::build(machine, wanted.solver)?,
    };
    let linking = linking(&binary)?;
    println!("{}: {} bytes, {linking}", binary.display(), size(&binary)?);
    if wanted.binary.is_none() && linking != Linking::Static {
        return Err(Failure::failed("the binary is not static"));
    }
    let stage = output.join(format!("stage-{}", machine.name));
    let _ = std::fs::remove_dir_all(&stage);
    packages::stage(machine, &binary, &stage)?;
    let sbom = sbom::write(features, output)?;
    std::fs::copy(&sbom, stage.join("usr/share/doc/kiln/sbom.cdx.json")).map_err(file_error(&sbom))?;
    packages::tarball(machine, &stage, output)?;
    packages::deb(machine, &stage, output, linking == Linking::Static)?;
    // A test's binary is large and unstripped: packing it again and again would take long.
    if wanted.binary.is_none() {
        wrappers::npm(machine, &stage, output)?;
        build::wheel(machine, features, output)?;
    }
    wrappers::formula(output)?;
    list(output)
}

/// Writes checksums, and lists all files with their sizes.
fn list(output: &Path) -> Result<(), Failure> {
    for file in packages::checksums(output)? {
        println!("{} ({} bytes)", file.display(), size(&file)?);
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

/// Whether a program asks for a loader, as every dynamically linked one does.
fn linking(binary: &Path) -> Result<Linking, Failure> {
    let headers = output_of(Command::new("readelf").args(["--program-headers", "--wide"]).arg(binary))?;
    let dynamic = String::from_utf8_lossy(&headers).contains("INTERP");
    Ok(if dynamic { Linking::Dynamic } else { Linking::Static })
}
