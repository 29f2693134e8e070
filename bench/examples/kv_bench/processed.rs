//! What verifying the extensions costs, by Kiln's verifier as kernels of several releases.

use kiln_platform::{KernelVersion, Profile};
use kiln_program::Object;
use kiln_verifier::{Options, Prepared};
use serde::Serialize;

use super::Failure;
use super::requests::{compiled, unsandboxed};

/// Instructions that a kernel's verifier may process.
pub const MOST: u64 = 300_000;
const RELEASES: [KernelVersion; 3] = [KernelVersion::new(6, 12), KernelVersion::new(6, 18), KernelVersion::NEWEST];
/// Of the extension for kernels without arenas.
const POOL_RELEASES: [KernelVersion; 3] =
    [KernelVersion::new(5, 15), KernelVersion::new(6, 1), KernelVersion::new(6, 18)];

/// A program as one release verifies it.
#[derive(Serialize, Debug, Clone)]
pub struct Processed {
    /// Its name.
    pub program: String,
    /// The kernel's.
    pub release: String,
    /// Processed instructions.
    pub insns: u64,
}

/// Verifies the programs that serve.
///
/// # Errors
/// Returns a failure if one is refused.
pub fn all() -> Result<Vec<Processed>, Failure> {
    let folder = tempfile::tempdir()?;
    let (_, heap) = compiled("heap", &["-DHEAP"], folder.path())?;
    let pool = unsandboxed("pool", "apps/kv/bpf/pool.bpf.c", &["-mcpu=v3"], folder.path())?.object;
    Ok([verified("heap", heap, RELEASES)?, verified("pool", pool, POOL_RELEASES)?].concat())
}

fn verified(store: &str, object: Object, releases: [KernelVersion; 3]) -> Result<Vec<Processed>, Failure> {
    let object = kiln_vm::with_sized_maps(object);
    let mut rows = Vec::new();
    for release in releases {
        let profile = Profile::of(release);
        let options = Options { skip_facts: true, profile, ..Options::default() };
        let prepared = Prepared::new(&object, &options);
        for program in object.programs.iter().filter(|program| program.name == "kv_memcached") {
            let verified = prepared.verify(program, &options).map_err(|error| error.to_string())?;
            rows.push(Processed {
                program: format!("{} on a {store}", program.name),
                release: release.to_string(),
                insns: verified.statistics.processed_insns as u64,
            });
        }
    }
    Ok(rows)
}
