//! `cargo xtask bench`: the VM's JIT beside the kernel's on the programs of `bench/programs`.
//!
//! Each program is compiled with clang 19 and handed to `kiln bench`, which runs both interleaved and prints one row a
//! program; what is compared and how is said there.

use std::path::PathBuf;
use std::process::Command;

use crate::command::{Failure, root, run as run_command, script, target_dir};
use crate::demo::release_kiln;

/// `cargo xtask bench`: all programs, or those whose names begin with one of the arguments.
///
/// # Errors
/// When a program does not compile or `kiln bench` fails.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    if let Some(flag) = arguments.iter().find(|argument| argument.starts_with('-')) {
        return Err(Failure::usage(format!("unknown argument '{flag}' (known: names of programs)")));
    }
    run_command(&mut script("setup"), "scripts/setup")?;
    let kiln = release_kiln()?;
    let objects = objects(arguments)?;
    if objects.is_empty() {
        return Err(Failure::usage("no program of bench/programs has such a name"));
    }
    run_command(Command::new(kiln).arg("bench").args(objects), "kiln bench")
}

/// Compiles the chosen programs, in the order of their names.
fn objects(names: &[String]) -> Result<Vec<PathBuf>, Failure> {
    let folder = root().join("bench/programs");
    let listing = std::fs::read_dir(&folder).map_err(|error| Failure::usage(format!("bench/programs: {error}")))?;
    let mut sources: Vec<PathBuf> = listing.filter_map(|entry| Some(entry.ok()?.path())).collect();
    sources.sort();
    let out = target_dir().join("bench");
    std::fs::create_dir_all(&out).map_err(|error| Failure::usage(format!("{}: {error}", out.display())))?;
    let mut objects = Vec::new();
    for source in sources {
        let name = source.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".bpf.c"));
        let Some(name) = name else { continue };
        if !names.is_empty() && !names.iter().any(|wanted| name.starts_with(wanted.as_str())) {
            continue;
        }
        let object = out.join(format!("{name}.o"));
        let mut clang = Command::new("clang-19");
        clang.args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-c"]);
        // The headers of this architecture (asm/types.h), which clang does not look for when the target is bpf.
        clang.arg(format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH));
        run_command(clang.arg(&source).arg("-o").arg(&object), &format!("compiling {name}"))?;
        objects.push(object);
    }
    Ok(objects)
}
