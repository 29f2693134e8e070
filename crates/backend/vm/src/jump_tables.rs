//! Jump tables: what programs read of them, and whose rules programs with them are held to.

use kiln_platform::{KernelVersion, Profile};
use kiln_program::JumpTable;

use crate::interface::Error;
use crate::map::UpdateFlag;
use crate::vm::Vm;

impl Vm {
    /// Fills in the jump tables: what an engine takes for the addresses of instructions. Nothing writes them later.
    pub(crate) fn fill_tables(&self) -> Result<(), Error> {
        for table in self.object.functions.iter().flat_map(|function| &function.tables) {
            let map = &self.shared.maps[table.map.index()];
            for (index, target) in (0u32..).zip(&table.targets) {
                let address = JumpTable::address(*target).to_ne_bytes();
                map.write(&index.to_ne_bytes(), &address, UpdateFlag::Any)
                    .map_err(|errno| Error::Operation { map: map.definition.name.clone(), errno })?;
            }
            map.freeze();
        }
        Ok(())
    }

    /// The kernel whose rules programs are held to: the one that the VM behaves like, or, for jump tables, the newest.
    pub(crate) fn profile(&self) -> Profile {
        let has_tables = self.object.functions.iter().any(|function| !function.tables.is_empty());
        if has_tables { Profile::of(KernelVersion::NEWEST) } else { Profile::default() }
    }
}
