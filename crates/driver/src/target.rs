//! Which kernels a command is about, and with which types: [`kiln_checker::target`], and what the running kernel says.

use kiln_inspect::input::running_kernel_types;
use kiln_inspect::kernels::{self, Kernel};
use kiln_linux::running;
use kiln_platform::Profile;
use kiln_program::{Error, Object};

pub use kiln_checker::target::*;

/// The profiles of the kernels asked for, oldest first, each once; the running one last, with what it says of the
/// object.
///
/// # Errors
/// [`Error::Unsupported`] where the running kernel does not say its release.
pub fn profiles(kernels: &[Kernel], object: &Object) -> Result<Vec<(String, Profile)>, Error> {
    kernels::profiles(kernels, || running::profile(&[object], running_kernel_types().as_deref()))
}

/// The profile of the oldest of these kernels, whose verifier knows the least.
///
/// # Errors
/// As [`profiles`].
pub fn oldest(kernels: &[Kernel], object: &Object) -> Result<Option<Profile>, Error> {
    let profiles = profiles(kernels, object)?.into_iter().map(|(_, profile)| profile);
    Ok(profiles.min_by_key(Profile::version))
}
