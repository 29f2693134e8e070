//! Rules that hold for the program as a whole, whether or not a path leads to what breaks them.

use kiln_program::Reference;

use crate::code::{Code, Position};
use crate::error::{Step, refuse};
use crate::path::Path;
use crate::reason::Reason;
use crate::rejection::Case;

impl Path<'_> {
    /// Every map that some instruction names, whether or not a path leads to it.
    pub(crate) fn check_maps(&mut self) -> Step<()> {
        for (at, op) in self.code.ops.iter().enumerate() {
            if let Reference::Map(map) | Reference::MapValue { map, .. } = op.node.reference {
                self.at = at as Position;
                self.code.check_map_allowed(map.0)?;
            }
        }
        self.at = self.code.functions[0].start;
        Ok(())
    }

    /// Addresses of map values are checked where they stand, whether or not a path leads there.
    pub(crate) fn check_addresses(&mut self) -> Step<()> {
        for (at, op) in self.code.ops.iter().enumerate() {
            if let Reference::MapValue { map, offset } = op.node.reference {
                self.at = at as Position;
                self.code.value_address(map.0, offset)?;
            }
        }
        Ok(())
    }
}

impl<'a> Code<'a> {
    /// Maps with locks and timers are not for every program type.
    pub(crate) fn check_map_allowed(&self, map: u32) -> Step<()> {
        let Some(record) = self.prepared.records.get(map as usize) else { return Ok(()) };
        match record.fields.iter().find(|field| field.kind.is_refused_in(self.program_type)) {
            Some(field) => refuse(
                Reason::SpecialField,
                Case::Field { name: field.kind.name() },
                format!("{} programs cannot use maps with a {}", self.program_type.name(), field.kind.name()),
            ),
            None => Ok(()),
        }
    }
}
