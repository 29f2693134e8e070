//! Starts other programs, and ends with the right exit code if one of them fails.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;

/// Why a task ends: a message and the exit code (1: something failed; 2: bad usage or set-up).
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    message: String,
}

impl Failure {
    /// Something that was checked does not hold.
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure { code: 1, message: message.into() }
    }

    /// Wrong arguments, or something that the task needs is missing.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { code: 2, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The folder that holds the workspace.
pub fn root() -> PathBuf {
    let mut path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    path.pop();
    path
}

/// Where cargo puts what it builds.
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(path) => root().join(path),
        None => root().join("target"),
    }
}

/// The cargo that runs this task, without what it says of this package: build scripts that look at it would run again, and
/// all that depends on them would be built again.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let own = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(own)) {
        command.env_remove(name);
    }
    command.current_dir(root());
    command
}

/// A script of `scripts/`.
pub fn script(name: &str) -> Command {
    let mut command = Command::new(root().join("scripts").join(name));
    command.current_dir(root());
    command
}

/// Runs a command to its end.
///
/// # Errors
/// Returns a failure if it does not start or its exit code is not 0.
pub fn run(command: &mut Command, what: &str) -> Result<(), Failure> {
    let status = command.status().map_err(|error| Failure::usage(format!("{what} does not start: {error}")))?;
    if status.success() { Ok(()) } else { Err(Failure::failed(format!("{what} failed ({status})"))) }
}

/// Refuses arguments that a task does not know; returns whether each known flag is there.
///
/// # Errors
/// The first unknown argument.
pub fn flags<const N: usize>(arguments: &[String], known: [&str; N]) -> Result<[bool; N], Failure> {
    if let Some(unknown) = arguments.iter().find(|argument| !known.contains(&argument.as_str())) {
        return Err(Failure::usage(format!("unknown argument '{unknown}' (known: {})", known.join(", "))));
    }
    Ok(known.map(|flag| arguments.iter().any(|argument| argument == flag)))
}
