//! Programs and libraries as files: what tables of probes need to know of them.

use std::collections::BTreeMap;
use std::path::Path;

use object::Object as _;
use object::read::elf::ElfFile64;

use kiln_plan::programs::{Parameter, Probe, Programs};
use kiln_program::Error;

use crate::elf::{is_of_this_machine, parsed, read};
use crate::{debug_files, functions, parameters, probes};

/// Reads the files of this machine.
pub struct Files;

impl Programs for Files {
    fn probes(&self, file: &str, provider: &str, name: &str) -> Result<Vec<Probe>, String> {
        let file = Path::new(file);
        let bytes = read(file).map_err(|error| error.to_string())?;
        let elf = parsed(file, &bytes).map_err(|error| error.to_string())?;
        if !is_of_this_machine(&elf) {
            let (other, own) = (elf.architecture(), std::env::consts::ARCH);
            return Err(format!("{}: it is for {other:?}, and this machine is {own}", file.display()));
        }
        probes::of(&elf, provider, name).map_err(|why| format!("{}: {why}", file.display()))
    }

    fn parameters(&self, file: &str, function: &str) -> Vec<Parameter> {
        let file = Path::new(file);
        // What cannot be read is an error where the function is looked for.
        let Ok(bytes) = read(file) else { return Vec::new() };
        let Ok(elf) = parsed(file, &bytes) else { return Vec::new() };
        // A compiler has changed the parameters of `function.constprop.0`.
        let address = functions::address(&elf, function).filter(|_| !function.contains('.'));
        let Some(address) = address else { return Vec::new() };
        let separate = debug_files::separate(file, &elf);
        match separate.as_deref().and_then(|bytes| ElfFile64::parse(bytes).ok()) {
            Some(separate) => parameters::of(&separate, address),
            None => parameters::of(&elf, address),
        }
    }
}

/// The static probes of a file, `PROVIDER:NAME`, each with the arguments that it has at all its places: whether they have
/// a sign.
///
/// # Errors
/// Returns [`Error::InvalidInput`] if it is no program or library.
pub fn listed(file: &Path) -> Result<BTreeMap<String, Vec<bool>>, Error> {
    let bytes = read(file)?;
    Ok(probes::listed(&parsed(file, &bytes)?))
}

/// Reads everything that [`Files`] reads, of a file of these bytes, and says how much of it there is: static probes, and
/// parameters of functions. For fuzzers.
pub fn read_all(bytes: &[u8]) -> usize {
    let Ok(elf) = ElfFile64::parse(bytes) else { return 0 };
    let probes: usize = probes::names(&elf)
        .iter()
        .filter_map(|(provider, name)| probes::of(&elf, provider, name).ok())
        .map(|all| all.len())
        .sum();
    let functions = functions::functions(&elf).take(64);
    let parameters: usize =
        functions.map(|symbol| parameters::of(&elf, object::ObjectSymbol::address(&symbol)).len()).sum();
    probes + parameters
}
