//! Rules that hold for the program as a whole, whether or not a path leads to what breaks them.

use kiln_platform::{MapDefinition, MapType};
use kiln_program::{Map, READ_ONLY_FLAG, Reference};

use crate::code::{Code, Position};
use crate::error::{Step, refuse, reject};
use crate::options::Options;
use crate::path::Path;
use crate::reason::Reason;
use crate::rejection::Case;

impl Path<'_> {
    /// Every map that some instruction names, whether or not a path leads to it.
    pub(crate) fn check_maps(&mut self) -> Step<()> {
        for (at, op) in self.code.ops.iter().enumerate() {
            if let Reference::Map(map) | Reference::MapValue { map, .. } = op.node.reference {
                self.at = at as Position;
                self.code.check_map_allowed(self.options, map.0)?;
                if let Some(map) = self.code.object.maps.get(map.index()) {
                    self.options.check_definition(map)?;
                }
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

impl Options {
    /// Sizes and flags with which the kernel makes a map. What the loader decides, or changes, is not checked: a number of
    /// entries of 0, sizes of ring buffers, structures of the kernel, and whether data sections can be mapped.
    fn check_definition(&self, map: &Map) -> Step<()> {
        let rules = map.map_type.rules();
        let rounded = matches!(map.map_type, MapType::Ringbuf | MapType::UserRingbuf);
        let entries = if map.max_entries == 0 || rounded { rules.load_time_entries() } else { map.max_entries };
        let definition = MapDefinition {
            map_type: map.map_type,
            key: map.key_size,
            value: map.value_size,
            entries,
            flags: if map.is_section() { map.flags & READ_ONLY_FLAG } else { map.flags },
            extra: map.extra,
        };
        match definition.refused(self.profile.version()) {
            Some(why) if map.map_type != MapType::StructOps => {
                reject(Reason::MapDefinition, format!("the kernel makes no map {}: {why}", map.name))
            }
            _ => map.inner.as_deref().map_or(Ok(()), |inner| self.check_definition(inner)),
        }
    }
}

impl<'a> Code<'a> {
    /// Maps with locks and timers are not for every program type.
    pub(crate) fn check_map_allowed(&self, options: &Options, map: u32) -> Step<()> {
        let Some(record) = self.prepared.records.get(map as usize) else { return Ok(()) };
        match record.fields.iter().find(|field| field.kind.is_refused_in(self.program_type, options)) {
            Some(field) => refuse(
                Reason::SpecialField,
                Case::Field { name: field.kind.name() },
                format!("{} programs cannot use maps with a {}", self.program_type.name(), field.kind.name()),
            ),
            None => Ok(()),
        }
    }
}
