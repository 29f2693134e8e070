//! The machines that binaries are built for, one row each, and what each kind of package calls them.

use std::path::PathBuf;
use std::process::Command;

use super::files::{file_error, has};
use crate::command::{Failure, root, script, target_dir};

/// A machine that binaries are built for.
pub struct Machine {
    /// As Rust and `uname -m` call it.
    pub name: &'static str,
    /// Debian's name.
    pub debian: &'static str,
    /// npm's name.
    pub npm: &'static str,
    /// The prefix of Debian's compilers, and of its libraries' folders.
    gnu: &'static str,
    /// Runs its programs on another machine.
    emulator: &'static str,
}

/// All of them.
const MACHINES: [Machine; 2] = [
    Machine { name: "x86_64", debian: "amd64", npm: "x64", gnu: "x86_64-linux-gnu", emulator: "qemu-x86_64-static" },
    Machine {
        name: "aarch64",
        debian: "arm64",
        npm: "arm64",
        gnu: "aarch64-linux-gnu",
        emulator: "qemu-aarch64-static",
    },
];

impl Machine {
    /// The machine of this name; without a name, the one that this runs on.
    ///
    /// # Errors
    /// Returns a failure if there is no row for it.
    pub fn find(name: Option<&str>) -> Result<&'static Machine, Failure> {
        let name = name.unwrap_or(std::env::consts::ARCH);
        let row = MACHINES.iter().find(|machine| [machine.name, machine.debian].contains(&name));
        row.ok_or_else(|| Failure::usage(format!("no binaries are built for '{name}' (known: x86_64, aarch64)")))
    }

    /// Whether it is the one that this runs on.
    pub fn is_here(&self) -> bool {
        self.name == std::env::consts::ARCH
    }

    /// Rust's target.
    pub fn target(&self) -> String {
        format!("{}-unknown-linux-gnu", self.name)
    }

    /// A command that starts a program made for it.
    pub fn start(&self, program: impl Into<PathBuf>) -> Command {
        let program = program.into();
        if self.is_here() {
            return Command::new(program);
        }
        let mut command = Command::new(self.emulator);
        command.arg(program);
        command
    }

    /// The C compiler for it.
    pub fn compiler(&self) -> String {
        if self.is_here() { "gcc".to_owned() } else { format!("{}-gcc", self.gnu) }
    }

    /// Tells cargo and the build scripts how to compile for it.
    ///
    /// # Errors
    /// Returns a failure with the package to install if a tool is missing.
    pub fn cross(&self, command: &mut Command) -> Result<(), Failure> {
        if self.is_here() {
            return Ok(());
        }
        for (tool, package) in [
            (self.compiler(), format!("gcc-{}", self.gnu)),
            (format!("{}-g++", self.gnu), format!("g++-{}", self.gnu)),
            (self.emulator.to_owned(), "qemu-user-static".to_owned()),
        ] {
            if !has(&tool) {
                return Err(Failure::usage(format!("{tool} is not there: apt-get install {package}")));
            }
        }
        let target = self.target();
        let upper = target.to_uppercase().replace('-', "_");
        command.env(format!("CARGO_TARGET_{upper}_LINKER"), self.compiler());
        command.env("PKG_CONFIG_ALLOW_CROSS", "1");
        Ok(())
    }

    /// The folder of Debian's static libraries for it; `None` where the compiler finds them by itself.
    ///
    /// # Errors
    /// Returns a failure if they cannot be fetched.
    pub fn libraries(&self) -> Result<Option<PathBuf>, Failure> {
        if self.is_here() {
            return Ok(None);
        }
        let folder = target_dir().join("static").join(format!("debian-{}", self.debian));
        let status = script("foreign-libraries").args([self.debian.as_ref(), folder.as_os_str()]).status();
        let status = status.map_err(file_error(&root().join("scripts/foreign-libraries")))?;
        match status.success() {
            true => Ok(Some(folder.join("usr/lib").join(self.gnu))),
            false => Err(Failure::failed("scripts/foreign-libraries failed (see above)")),
        }
    }
}
