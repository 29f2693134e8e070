//! Rules that hold for the program as a whole, whether or not a path leads to what breaks them.

use std::collections::HashMap;

use kiln_platform::{Feature, MapDefinition, MapType};
use kiln_program::{Map, READ_ONLY_FLAG, Reference};

use crate::code::prepared::Prepared;
use crate::code::{Code, Position};
use crate::error::{Step, refuse, reject};
use crate::options::Options;
use crate::path::Path;
use crate::reason::Reason;
use crate::rejection::Case;

impl Path<'_> {
    /// Every map that some instruction names, whether or not a path leads to it.
    pub(crate) fn check_maps(&mut self) -> Step<()> {
        let mut only = HashMap::new();
        for (at, op) in self.code.ops.iter().enumerate() {
            if let Reference::Map(map) | Reference::MapValue { map, .. } = op.node.reference {
                self.at = at as Position;
                self.code.check_map_allowed(self.options, map.0)?;
                let Some(definition) = self.code.object.maps.get(map.index()) else { continue };
                if let Some(why) = self.code.prepared.refused_definition(self.options, map.0, definition) {
                    return reject(Reason::MapDefinition, why);
                }
                self.code.check_sleeping(self.options, definition)?;
                let of_type = *only.entry(definition.map_type).or_insert(map);
                if of_type != map && self.options.allows_one(definition.map_type) {
                    let message = format!("a program can use one {} only", definition.map_type);
                    return refuse(Reason::BadInstruction, Case::SecondMap { of: definition.map_type }, message);
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

/// A stack trace of 127 frames with build ids, as tools ask for. Programs cannot read it, so any size gives one verdict.
const STACK_TRACE_BYTES: u32 = 127 * 32;

impl Options {
    /// Whether a program may use only one map of the type.
    fn allows_one(&self, map_type: MapType) -> bool {
        match map_type {
            MapType::Arena => !self.several_arenas,
            MapType::CgroupStorage | MapType::PercpuCgroupStorage => true,
            _ => false,
        }
    }

    /// Sizes and flags with which the kernel makes a map. What the loader decides, or changes, is not checked: a number of
    /// entries of 0, sizes of ring buffers, depths of stack traces, structures of the kernel, and whether data sections can
    /// be mapped.
    fn refused_definition(&self, map: &Map) -> Option<String> {
        let rules = map.map_type.rules();
        let rounded = matches!(map.map_type, MapType::Ringbuf | MapType::UserRingbuf);
        let entries = if map.max_entries == 0 || rounded { rules.load_time_entries() } else { map.max_entries };
        let depth_left_open = map.map_type == MapType::StackTrace && map.value_size == 0;
        let definition = MapDefinition {
            map_type: map.map_type,
            key: map.key_size,
            value: if depth_left_open { STACK_TRACE_BYTES } else { map.value_size },
            entries,
            flags: if map.is_section() { map.flags & READ_ONLY_FLAG } else { map.flags },
            extra: map.extra,
        };
        match definition.refused(self.profile.version()) {
            Some(why) if map.map_type != MapType::StructOps => {
                Some(format!("the kernel makes no map {}: {why}", map.name))
            }
            _ => match map.inner.as_deref() {
                Some(inner) if !inner.map_type.allowed_in_maps() => {
                    Some(format!("the kernel makes no map {}: no map holds a {}", map.name, inner.map_type))
                }
                inner => inner.and_then(|inner| self.refused_definition(inner)),
            },
        }
    }
}

impl Prepared<'_> {
    /// Returns why the kernel does not make one of the object's maps, which loaders make whether or not a program uses it.
    /// `None` if it makes all of them.
    pub fn refused_map(&self, options: &Options) -> Option<String> {
        (0..).zip(&self.object.maps).find_map(|(at, map)| self.refused_definition(options, at, map))
    }

    /// Loaders make a map without types where the kernel refuses its types, but some maps have them or are not made.
    fn refused_definition(&self, options: &Options, at: u32, map: &Map) -> Option<String> {
        options.refused_definition(map).or_else(|| {
            let refused = self.records.get(at as usize).is_some_and(|record| record.refused);
            let why = match map.key_btf == 0 || map.value_btf == 0 {
                true => "its declaration gives no types of key and value",
                false if refused => "it refuses the type of the values",
                false => return None,
            };
            let (name, map_type) = (&map.name, map.map_type);
            let needs = map_type.rules().per_object;
            needs.then(|| format!("the kernel makes no map {name}: {why}, which {map_type} needs"))
        })
    }
}

impl<'a> Code<'a> {
    /// A program that may sleep uses no map whose elements may be freed meanwhile.
    fn check_sleeping(&self, options: &Options, map: &Map) -> Step<()> {
        let later = matches!(map.map_type, MapType::LpmTrie | MapType::ProgArray)
            && options.kernel_has(Feature::SleepingTriesAndTailCalls);
        if !self.program.sleepable || map.map_type.allowed_in_sleepable() || later {
            return Ok(());
        }
        let message = format!("the program may sleep, and {} is a {}", map.name, map.map_type);
        refuse(Reason::MapHelperMismatch, Case::Sleeps, message)
    }

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
