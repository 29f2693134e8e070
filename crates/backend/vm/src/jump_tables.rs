//! Jump tables: what programs read of them, and whose rules programs with them are held to.

use kiln_platform::{KernelVersion, Profile};
use kiln_program::{JumpTable, Object};

use crate::errno::Errno;
use crate::map::{Map, UpdateFlag};

/// Fills in the jump tables: what an engine takes for the addresses of instructions. Nothing writes them later.
///
/// # Errors
/// Returns the name of the map that could not be written, and why.
pub(crate) fn fill<'m>(object: &Object, map: impl Fn(usize) -> &'m Map) -> Result<(), (String, Errno)> {
    for table in object.functions.iter().flat_map(|function| &function.tables) {
        let map = map(table.map.index());
        for (index, target) in (0u32..).zip(&table.targets) {
            let address = JumpTable::address(*target).to_ne_bytes();
            let written = map.write(&index.to_ne_bytes(), &address, UpdateFlag::Any);
            written.map_err(|errno| (map.definition.name.clone(), errno))?;
        }
        map.freeze();
    }
    Ok(())
}

/// The kernel whose rules programs are held to: the one that the VM behaves like, or, for jump tables, the newest.
pub(crate) fn profile(object: &Object) -> Profile {
    let has_tables = object.functions.iter().any(|function| !function.tables.is_empty());
    if has_tables { Profile::of(KernelVersion::NEWEST) } else { Profile::default() }
}
