//! Jump tables of a rewritten object: where the instructions of their entries are now.

use std::collections::HashMap;

use kiln_program::{InsnId, Object};

use crate::code::SLOT_BYTES;
use crate::error::{Fault, Result};
use crate::layout::CodeLayout;
use crate::read::Sources;
use crate::tables::{ENTRY_BYTES, SECTION};

/// The section's bytes after a rewrite: an entry of a function's table is where its instruction is now.
pub(crate) fn entries(
    object: &Object,
    sources: &Sources,
    layouts: &HashMap<usize, CodeLayout>,
) -> Result<Option<(usize, Vec<u8>)>> {
    let Some(section) = sources.file.section_named(SECTION) else { return Ok(None) };
    let mut data = sources.file.data(section).to_vec();
    for (function, place) in object.functions.iter().zip(&sources.places) {
        let Some(layout) = layouts.get(&place.section).filter(|_| !function.tables.is_empty()) else { continue };
        let now: HashMap<InsnId, u64> = layout
            .nodes
            .iter()
            .map(|(slot, owner, position)| (object.functions[*owner].nodes[*position].id, *slot as u64 * SLOT_BYTES))
            .collect();
        for table in &function.tables {
            let Some((_, start)) = sources.maps.places.get(table.map.index()).copied().flatten() else { continue };
            for (target, at) in table.targets.iter().zip((start as usize..).step_by(ENTRY_BYTES as usize)) {
                let (Some(to), Some(entry)) = (now.get(target), data.get_mut(at..at + 8)) else {
                    let message = format!("function {} lost an instruction that a jump table has", function.name);
                    return Err(Fault::Mismatch { message });
                };
                entry.copy_from_slice(&to.to_le_bytes());
            }
        }
    }
    Ok(Some((section, data)))
}
