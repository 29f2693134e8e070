//! A private network namespace and cgroup: attachments in them see no other traffic.
//!
//! ```text
//!   OwnNetwork::enter()   this thread has a network namespace with nothing but a loopback interface
//!   OwnCgroup::enter()    this process is in a new cgroup below the one that it was in
//! ```
//!
//! Dropping either returns to the original one. A network namespace ends with its last user, and so do all interfaces
//! made in it; the cgroup's directory is removed.

use std::fs::File;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The calling thread is in a network namespace of its own as long as this lives.
#[derive(Debug)]
pub struct OwnNetwork {
    home: File,
    /// Namespaces belong to threads: the thread that entered must leave.
    _same_thread: PhantomData<*const ()>,
}

impl OwnNetwork {
    /// Makes a namespace and enters it. Its loopback interface is down.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn enter() -> Result<OwnNetwork, Error> {
        let path = Path::new("/proc/thread-self/ns/net");
        let home = File::open(path).map_err(|error| Error::file("opening", path, &error))?;
        // SAFETY: what the flag names belongs to the calling thread alone, and no memory is concerned.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return Err(Error::last_os("making a network namespace"));
        }
        Ok(OwnNetwork { home, _same_thread: PhantomData })
    }
}

impl Drop for OwnNetwork {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open. It is the namespace the thread came from, so this does not fail.
        unsafe { libc::setns(self.home.as_raw_fd(), libc::CLONE_NEWNET) };
    }
}

/// This process is in a cgroup of its own as long as this lives.
#[derive(Debug)]
pub struct OwnCgroup {
    home: PathBuf,
    own: PathBuf,
}

impl OwnCgroup {
    /// Makes a cgroup below that of this process and moves the process there.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where cgroup2 is not mounted; [`Error::Os`].
    pub fn enter() -> Result<OwnCgroup, Error> {
        let missing = || Error::InvalidInput("cgroup2 is not mounted here".to_owned());
        let read = |path: &str| std::fs::read_to_string(path).map_err(|_| missing());
        let home = home(&read("/proc/self/mounts")?, &read("/proc/self/cgroup")?).ok_or_else(missing)?;
        let own = home.join(format!("kiln-{}", std::process::id()));
        std::fs::create_dir(&own).map_err(|error| Error::file("making", &own, &error))?;
        let cgroup = OwnCgroup { home, own };
        move_to(&cgroup.own).map_err(|error| Error::file("entering", &cgroup.own, &error))?;
        Ok(cgroup)
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.own
    }
}

impl Drop for OwnCgroup {
    fn drop(&mut self) {
        // Returning fails only if the original cgroup was removed.
        let _ = move_to(&self.home);
        let _ = std::fs::remove_dir(&self.own);
    }
}

/// The directory of this process's cgroup, by what is mounted and what the process is in.
fn home(mounts: &str, cgroups: &str) -> Option<PathBuf> {
    let mounted = mounts.lines().find_map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
        [_, place, "cgroup2", ..] => Some(place),
        _ => None,
    })?;
    let below = cgroups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(mounted).join(below))
}

fn move_to(cgroup: &Path) -> std::io::Result<()> {
    std::fs::write(cgroup.join("cgroup.procs"), std::process::id().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_of_a_process_is_found() {
        let mounts = "cgroup /cg/cpu cgroup rw,cpu 0 0\ncgroup2 /cg/unified cgroup2 rw 0 0\n";
        assert_eq!(home(mounts, "4:cpu:/x\n0::/a/b\n"), Some(PathBuf::from("/cg/unified/a/b")));
        assert_eq!(home(mounts, "0::/\n"), Some(PathBuf::from("/cg/unified")));
        assert_eq!(home("tmpfs /cg tmpfs rw 0 0\n", "0::/\n"), None);
    }
}
