//! What verifying the extension costs, by Kiln's verifier as kernels of several releases.

use kiln_platform::{KernelVersion, Profile};
use kiln_verifier::{Options, Prepared};
use serde::Serialize;

use super::Failure;
use super::requests::compiled;

/// Instructions that a kernel's verifier may process.
pub const MOST: u64 = 300_000;
const RELEASES: [KernelVersion; 3] = [KernelVersion::new(6, 12), KernelVersion::new(6, 18), KernelVersion::NEWEST];

/// A program as one release verifies it.
#[derive(Serialize, Debug)]
pub struct Processed {
    /// Its name.
    pub program: String,
    /// The kernel's.
    pub release: String,
    /// Processed instructions.
    pub insns: u64,
}

/// Verifies the program that serves.
///
/// # Errors
/// Returns a failure if one is refused.
pub fn all() -> Result<Vec<Processed>, Failure> {
    let folder = tempfile::tempdir()?;
    let mut rows = Vec::new();
    let (_, object) = compiled("heap", &["-DHEAP"], folder.path())?;
    let object = kiln_vm::with_sized_maps(object);
    for release in RELEASES {
        let profile = Profile::of(release);
        let options = Options { skip_facts: true, profile, ..Options::default() };
        let prepared = Prepared::new(&object, &options);
        for program in object.programs.iter().filter(|program| program.name == "kv_memcached") {
            let verified = prepared.verify(program, &options).map_err(|error| error.to_string())?;
            rows.push(Processed {
                program: program.name.clone(),
                release: release.to_string(),
                insns: verified.statistics.processed_insns as u64,
            });
        }
    }
    Ok(rows)
}
