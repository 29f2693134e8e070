//! The files of an installation, and the archives made of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::files::{file_error, has, output_of, repository, version, write};
use super::machine::Machine;
use crate::command::{Failure, run as run_command};

/// Shells, and where Debian looks for their completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/kiln"),
    ("zsh", "usr/share/zsh/vendor-completions/_kiln"),
    ("fish", "usr/share/fish/vendor_completions.d/kiln.fish"),
];

/// Documents that are installed.
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Lays out an installation below a folder. The manual and the completions are what the binary itself writes.
pub fn stage(machine: &Machine, binary: &Path, stage: &Path) -> Result<(), Failure> {
    let manual = stage.join("usr/share/man/man1");
    for folder in [&stage.join("usr/bin"), &stage.join("usr/share/doc/kiln"), &manual] {
        std::fs::create_dir_all(folder).map_err(file_error(folder))?;
    }
    let installed = stage.join("usr/bin/kiln");
    std::fs::copy(binary, &installed).map_err(file_error(binary))?;
    run_command(Command::new("chmod").arg("755").arg(&installed), "chmod")?;
    run_command(machine.start(&installed).arg("manual").arg(&manual), "kiln manual")?;
    for (shell, path) in COMPLETIONS {
        let script = output_of(machine.start(&installed).args(["completions", shell]))?;
        write(&stage.join(path), script)?;
    }
    for name in DOCUMENTS {
        let to = stage.join("usr/share/doc/kiln").join(name);
        std::fs::copy(repository(name), &to).map_err(file_error(&to))?;
    }
    Ok(())
}

/// An archive whose bytes depend on the files alone: sorted, owned by root, of one date.
pub fn tarball(machine: &Machine, stage: &Path, output: &Path) -> Result<(), Failure> {
    let file = output.join(format!("kiln-{}-{}-linux.tar.gz", version(), machine.name));
    archive(stage, "./usr", &format!("s,^\\./usr,kiln-{},", version()), &file)
}

/// Packs what is below a folder under names that `renamed`, an expression of sed, changes.
pub fn archive(folder: &Path, what: &str, renamed: &str, file: &Path) -> Result<(), Failure> {
    let tar = file.with_file_name("kiln.tar");
    let mut command = Command::new("tar");
    command.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "--mode=u+w,go-w", "-C"]);
    command.arg(folder).args(["--transform", renamed]).arg("-cf").arg(&tar).arg(what);
    run_command(&mut command, "tar")?;
    run_command(Command::new("gzip").args(["-9", "-n", "-f"]).arg(&tar), "gzip")?;
    let packed = file.with_file_name("kiln.tar.gz");
    std::fs::rename(&packed, file).map_err(file_error(&packed))
}

/// A Debian package; where `dpkg-deb` is not installed, that is said.
pub fn deb(machine: &Machine, stage: &Path, output: &Path, is_static: bool) -> Result<(), Failure> {
    if !has("dpkg-deb") {
        println!("no .deb: dpkg-deb is not installed (apt-get install dpkg)");
        return Ok(());
    }
    let architecture = machine.debian;
    let root = output.join("deb");
    let _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir_all(root.join("DEBIAN")).map_err(file_error(&root))?;
    run_command(Command::new("cp").arg("-a").arg(stage.join("usr")).arg(&root), "cp")?;
    // Debian's manual pages are compressed, and its copyright file has this name.
    run_command(Command::new("sh").arg("-c").arg("gzip -9 -n \"$0\"/usr/share/man/man1/*.1").arg(&root), "gzip")?;
    let documents = root.join("usr/share/doc/kiln");
    std::fs::copy(documents.join("LICENSE-MIT"), documents.join("copyright")).map_err(file_error(&documents))?;
    let needs = if is_static { "" } else { "Depends: libc6, libelf1, libz3-4, zlib1g\n" };
    let control = format!(
        "Package: kiln\nVersion: {}\nArchitecture: {architecture}\nMaintainer: The Kiln developers <kiln@localhost>\n\
         {needs}Recommends: clang-19\nSection: devel\nPriority: optional\n\
         Description: compiler and runtime for eBPF programs\n Verifies BPF object files offline and explains rejections, \
         writes smaller\n drop-in objects with evidence, and runs programs in an embedded VM.\n",
        version()
    );
    let path = root.join("DEBIAN/control");
    std::fs::write(&path, control).map_err(file_error(&path))?;
    let file = output.join(format!("kiln_{}_{architecture}.deb", version()));
    let mut command = Command::new("dpkg-deb");
    command.args(["--root-owner-group", "-Zxz", "--build"]).arg(&root).arg(&file);
    output_of(command.env("SOURCE_DATE_EPOCH", "0"))?;
    let _ = std::fs::remove_dir_all(&root);
    Ok(())
}

/// Writes `SHA256SUMS`, for `sha256sum --check`, of all files of a folder. Returns them and it.
pub fn checksums(output: &Path) -> Result<Vec<PathBuf>, Failure> {
    let file = output.join("SHA256SUMS");
    let entries = std::fs::read_dir(output).map_err(file_error(output))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.is_file() && *path != file);
    files.sort();
    let names = files.iter().filter_map(|path| path.file_name());
    write(&file, output_of(Command::new("sha256sum").current_dir(output).args(names))?)?;
    files.push(file);
    Ok(files)
}
