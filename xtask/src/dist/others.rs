//! The checker alone, `kiln-check`, for Windows and macOS: a zip, and a tarball for each kind of machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::files::{file_error, output_of, repository, size, version};
use super::packages::archive;
use crate::command::{Failure, run as run_command, script};

/// What comes with the command.
const DOCUMENTS: [&str; 3] = ["LICENSE-APACHE", "LICENSE-MIT", "docs/guide/installing.md"];

/// Writes a folder into a zip whose bytes depend on the files alone.
const ZIP: &str = "\
import os, sys, zipfile
folder, file = sys.argv[1:]
with zipfile.ZipFile(file, 'w', zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
    for name in sorted(os.listdir(folder)):
        entry = zipfile.ZipInfo(os.path.basename(folder) + '/' + name)
        entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
        packed.writestr(entry, open(os.path.join(folder, name), 'rb').read())
";

/// Builds the command for each system, and packs it with its licenses.
///
/// # Errors
/// Returns a failure if a tool is missing (`scripts/setup --other-systems`), or something does not compile.
pub fn pack(output: &Path) -> Result<(), Failure> {
    let built = String::from_utf8_lossy(&output_of(script("other-systems").arg("--build"))?).into_owned();
    for (target, binary) in built.lines().filter_map(|line| line.split_once(' ')) {
        let binary = repository(binary);
        println!("{}: {} bytes", binary.display(), size(&binary)?);
        let machine = target.split('-').next().unwrap_or(target);
        let windows = target.contains("windows");
        let name = format!("kiln-check-{}-{machine}-{}", version(), if windows { "windows" } else { "macos" });
        let stage = staged(output, &name, &binary)?;
        match windows {
            true => zip(&stage, &output.join(format!("{name}.zip")))?,
            false => {
                let file = output.join(format!("{name}.tar.gz"));
                archive(output, &format!("./{name}"), "s,^\\./,,", &file)?;
            }
        }
        std::fs::remove_dir_all(&stage).map_err(file_error(&stage))?;
    }
    Ok(())
}

/// Lays the files of an archive out in a folder of its name.
fn staged(output: &Path, name: &str, binary: &Path) -> Result<PathBuf, Failure> {
    let stage = output.join(name);
    let _ = std::fs::remove_dir_all(&stage);
    std::fs::create_dir_all(&stage).map_err(file_error(&stage))?;
    for from in DOCUMENTS.iter().map(|path| repository(path)).chain([binary.to_owned()]) {
        let to = stage.join(from.file_name().unwrap_or_default());
        std::fs::copy(&from, &to).map_err(file_error(&from))?;
    }
    Ok(stage)
}

fn zip(stage: &Path, file: &Path) -> Result<(), Failure> {
    run_command(Command::new("python3").args(["-c", ZIP]).arg(stage).arg(file), "python3")
}
