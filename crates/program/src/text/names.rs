//! The names that an object declares, for resolving what is written in instructions and directives.

use std::collections::HashMap;

use kiln_platform::Helper;

use super::words::unquote;
use crate::object::{ExternId, FunctionId, MapId, Object, Reference};

/// What a name in an instruction stands for.
pub(super) enum Resolved {
    Reference(Reference),
    Helper(u32),
}

/// Names to indices. A name that occurs twice is known, but does not resolve.
pub(super) struct Names {
    pub functions: HashMap<String, Vec<u32>>,
    pub maps: HashMap<String, Vec<u32>>,
    pub externs: HashMap<String, Vec<u32>>,
}

impl Names {
    pub fn of(object: &Object) -> Names {
        let index = |names: &mut dyn Iterator<Item = &String>| {
            let mut table: HashMap<String, Vec<u32>> = HashMap::new();
            for (index, name) in names.enumerate() {
                table.entry(name.clone()).or_default().push(index as u32);
            }
            table
        };
        Names {
            functions: index(&mut object.functions.iter().map(|function| &function.name)),
            maps: index(&mut object.maps.iter().map(|map| &map.name)),
            externs: index(&mut object.externs.iter().map(|symbol| &symbol.name)),
        }
    }

    pub fn callee(&self, name: &str) -> Result<Resolved, String> {
        if self.functions.contains_key(name) {
            let id = find(&self.functions, "function", name)?;
            return Ok(Resolved::Reference(Reference::Function(FunctionId(id))));
        }
        match Helper::by_name(name) {
            Some(helper) => Ok(Resolved::Helper(helper.id)),
            None => Err(format!("there is no function and no helper `{name}`")),
        }
    }

    pub fn named(&self, kind: &str, name: &str, offset: u32) -> Result<Resolved, String> {
        if offset != 0 && kind != "map_value" {
            return Err(format!("`{kind}[...]` takes no offset"));
        }
        let reference = match kind {
            "map" => Reference::Map(MapId(find(&self.maps, "map", name)?)),
            "map_value" => Reference::MapValue { map: MapId(find(&self.maps, "map", name)?), offset },
            "fn" => Reference::Function(FunctionId(find(&self.functions, "function", name)?)),
            "kfunc" | "extern" => Reference::Extern(ExternId(find(&self.externs, "extern", name)?)),
            "" if self.maps.contains_key(name) => Reference::Map(MapId(find(&self.maps, "map", name)?)),
            "" => Reference::Extern(ExternId(find(&self.externs, "map or extern", name)?)),
            _ => return Err(format!("`{kind}[...]` is unknown: map, map_value, fn, kfunc, extern")),
        };
        Ok(Resolved::Reference(reference))
    }
}

/// The index of what is written: a name, or `@` and a number.
pub(super) fn find(table: &HashMap<String, Vec<u32>>, what: &str, written: &str) -> Result<u32, String> {
    if let Some(index) = written.strip_prefix('@') {
        let count: usize = table.values().map(Vec::len).sum();
        return match index.parse() {
            Ok(index) if (index as usize) < count => Ok(index),
            _ => Err(format!("there is no {what} {written}")),
        };
    }
    let name = unquote(written).ok_or_else(|| format!("`{written}` is not a well-formed string"))?;
    match table.get(&name).map(Vec::as_slice) {
        Some([index]) => Ok(*index),
        Some(_) => Err(format!("there is more than one {what} `{name}`: write its index, as in @0")),
        None => Err(format!("there is no {what} `{name}`")),
    }
}
