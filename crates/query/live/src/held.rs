//! A command that is started now and begins when it is told to, so that what looks at it sees all of it and nothing before.
//!
//! A shell stops itself, and becomes the command by `exec` once it is continued: its next system call is the command's
//! `execve`. Should this process end first, the kernel hangs up on the stopped shell, because nobody is left to continue it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use kiln_program::Error;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// A command, killed when this is dropped.
pub struct Held {
    child: Child,
    is_held: bool,
}

impl Held {
    /// Starts a command, which reads nothing.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] if there is none.
    pub fn begin(program: &str, arguments: &[String]) -> Result<Held, Error> {
        let failed = |error: std::io::Error| Error::InvalidInput(format!("{program}: {error}"));
        // The shell would try each folder of `PATH` by a call that is the command's already.
        let path = found(program).unwrap_or_else(|| PathBuf::from(program));
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "kill -STOP $$; exec \"$@\"", "sh"]).arg(path).args(arguments).stdin(Stdio::null());
        let held = Held { child: shell.spawn().map_err(failed)?, is_held: true };
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let pid = held.pid().ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
        rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), stopped)).map_err(|error| failed(error.into()))?;
        Ok(held)
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()).ok()?)
    }

    /// Whether the command has ended. The first time that this is asked, the command begins.
    pub fn is_over(&mut self) -> bool {
        if std::mem::take(&mut self.is_held)
            && let Some(pid) = self.pid()
        {
            // A command that cannot be told to begin is over already.
            let _ = kill_process(pid, Signal::CONT);
        }
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // One that is over needs neither.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The file of a program, by `PATH` unless it is a path.
fn found(program: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    if program.contains('/') {
        return None;
    }
    let is_program =
        |path: &Path| path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(program)).find(|path| is_program(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_begins_when_it_is_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("made");
        let path = file.to_str().expect("text").to_owned();
        let mut held = Held::begin("touch", &[path]).expect("there is a shell");
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!file.exists());
        while !held.is_over() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(file.exists());
        // One that is never asked for does not stay.
        let held = Held::begin("sleep", &["60".to_owned()]).expect("there is a shell");
        let pid = held.pid().expect("it has one");
        drop(held);
        assert!(rustix::process::test_kill_process(pid).is_err());
    }
}
