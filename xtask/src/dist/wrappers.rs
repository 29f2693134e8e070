//! Packages of other package managers that carry the binary: npm's, and the formula for Homebrew.

use std::path::Path;
use std::process::Command;

use super::files::{file_error, has, output_of, repository, template, version, write};
use super::machine::Machine;
use crate::command::Failure;

/// The licenses that each package carries.
const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Packs npm's packages: one with the binary for this machine, and the one that people install, which brings the former.
///
/// # Errors
/// Returns a failure if a file cannot be written or `npm pack` fails.
pub fn npm(machine: &Machine, stage: &Path, output: &Path) -> Result<(), Failure> {
    if !has("npm") {
        println!("no packages for npm: npm is not installed (apt-get install npm)");
        return Ok(());
    }
    let platform = output.join("npm-platform");
    write(&platform.join("package.json"), template("npm/platform.json")?.replace("@CPU@", machine.npm))?;
    std::fs::create_dir_all(platform.join("bin")).map_err(file_error(&platform))?;
    std::fs::copy(stage.join("usr/bin/kiln"), platform.join("bin/kiln")).map_err(file_error(&platform))?;
    pack(&platform, output)?;
    let main = output.join("npm");
    write(&main.join("package.json"), template("npm/package.json")?)?;
    write(&main.join("bin/kiln.js"), template("npm/bin/kiln.js")?)?;
    std::fs::copy(repository("README.md"), main.join("README.md")).map_err(file_error(&main))?;
    pack(&main, output)
}

/// Packs a folder, and removes it.
fn pack(folder: &Path, output: &Path) -> Result<(), Failure> {
    for license in LICENSES {
        std::fs::copy(repository(license), folder.join(license)).map_err(file_error(folder))?;
    }
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", "--pack-destination"]).arg(output).current_dir(folder);
    // A program that is run is no occasion to look for a newer npm.
    output_of(npm.env("npm_config_update_notifier", "false"))?;
    std::fs::remove_dir_all(folder).map_err(file_error(folder))
}

/// Fills in the formula with the checksums of the tarballs, once both are there.
///
/// # Errors
/// Returns a failure if a file cannot be read or written.
pub fn formula(output: &Path) -> Result<(), Failure> {
    let mut text = template("kiln.rb")?;
    for (machine, place) in [("x86_64", "@SHA256_X86_64@"), ("aarch64", "@SHA256_AARCH64@")] {
        let tarball = output.join(format!("kiln-{}-{machine}-linux.tar.gz", version()));
        if !tarball.exists() {
            println!("no formula yet: there is no tarball for {machine} (--machine {machine})");
            return Ok(());
        }
        let sum = output_of(Command::new("sha256sum").arg(&tarball))?;
        let sum = String::from_utf8_lossy(&sum);
        text = text.replace(place, sum.split_whitespace().next().unwrap_or_default());
    }
    write(&output.join("kiln.rb"), text)
}
