//! The numbers that a program's references become: map handles, value addresses, helper entry points.

use std::sync::Arc;

use kiln_program::{ExternId, ExternKind, InsnId, MapContents, MapId, Object};

use crate::arena::{Accesses, Place};
use crate::budget;
use crate::helper;
use crate::map::{Map, Storage, handle};
use crate::own::{self, OwnHelper};
use crate::trampoline;

/// Addresses of one object's maps and externs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Symbols {
    maps: Vec<MapSymbol>,
    externs: Vec<ExternSymbol>,
    /// The object's arenas, if it has some.
    pub(crate) arena: Option<Place>,
    /// Which instructions of the loaded programs access them.
    pub(crate) accesses: Accesses,
    pub(crate) own_helpers: Arc<[OwnHelper]>,
}

#[derive(Clone, Debug)]
struct MapSymbol {
    value: Option<u64>,
    value_bytes: u64,
    array: Option<kiln_jit::Array>,
}

#[derive(Clone, Debug)]
struct ExternSymbol {
    name: String,
    address: Option<u64>,
}

impl Symbols {
    /// The object's maps are the first of `maps`, in the same order.
    pub(crate) fn new(object: &Object, maps: &[Arc<Map>], own_helpers: Arc<[OwnHelper]>) -> Symbols {
        // An address may lead anywhere into a jump table, and into the first value of another map.
        let direct_bytes = |at: usize| object.maps.get(at).map_or(0, kiln_program::Map::direct_bytes);
        let symbol = |(at, map): (usize, &Arc<Map>)| MapSymbol {
            value: map.direct_values().map(|(start, _)| start),
            value_bytes: map.direct_values().map_or(0, |(_, stride)| stride.max(direct_bytes(at))),
            array: map.direct_values().and_then(|(first, stride)| {
                let entries = map.definition.max_entries;
                Some(kiln_jit::Array { first, stride_bytes: u32::try_from(stride).ok()?, entries })
            }),
        };
        let arena = arena_of(maps.iter().map(Arc::as_ref));
        let mut symbols =
            Symbols { maps: maps.iter().enumerate().map(symbol).collect(), arena, own_helpers, ..Symbols::default() };
        symbols.place_arena_variables(object, maps);
        let externs = object.externs.iter().map(|symbol| ExternSymbol {
            name: symbol.name.clone(),
            address: match symbol.kind {
                ExternKind::Kconfig { map, offset } => symbols.value_address(map, offset),
                ExternKind::Kfunc => trampoline::kfunc_address(&symbol.name),
                ExternKind::TypedKsym | ExternKind::Ksym => None,
            }
            // What a weak symbol that the kernel lacks is.
            .or(symbol.weak.then_some(0)),
        });
        symbols.externs = externs.collect();
        symbols
    }

    fn place_arena_variables(&mut self, object: &Object, maps: &[Arc<Map>]) {
        for ((symbol, map), definition) in self.maps.iter_mut().zip(maps).zip(&object.maps) {
            let (Storage::Arena(arena), MapContents::Data(bytes)) = (map.storage(), &definition.contents) else {
                continue;
            };
            symbol.value = Some(arena.addresses().start + arena.data_offset(bytes.len()));
            symbol.value_bytes = bytes.len() as u64;
        }
    }

    fn value_address(&self, map: MapId, offset: u32) -> Option<u64> {
        let symbol = self.maps.get(map.index())?;
        if u64::from(offset) >= symbol.value_bytes {
            return None;
        }
        Some(symbol.value? + u64::from(offset))
    }

    /// Whether the VM or the embedder has this helper.
    pub(crate) fn has_helper(&self, id: u32) -> bool {
        helper::by_id(id).is_some() || own::place(&self.own_helpers, id).is_some()
    }

    pub(crate) fn extern_name(&self, symbol: ExternId) -> &str {
        self.externs.get(symbol.index()).map_or("?", |symbol| symbol.name.as_str())
    }
}

/// The place of the object's arenas, if it has some: all are side by side.
fn arena_of<'m>(mut maps: impl Iterator<Item = &'m Map>) -> Option<Place> {
    maps.find_map(|map| match map.storage() {
        Storage::Arena(arena) => Some(arena.place()),
        _ => None,
    })
}

impl kiln_jit::Symbols for Symbols {
    fn map_address(&self, map: MapId) -> Option<u64> {
        (map.index() < self.maps.len()).then(|| handle(map.0))
    }

    fn map_value_address(&self, map: MapId, offset: u32) -> Option<u64> {
        self.value_address(map, offset)
    }

    fn helper_address(&self, id: u32) -> Option<u64> {
        trampoline::address(id).or_else(|| trampoline::own_address(own::place(&self.own_helpers, id)?))
    }

    fn extern_address(&self, symbol: ExternId) -> Option<u64> {
        self.externs.get(symbol.index())?.address
    }

    fn array(&self, map: MapId) -> Option<kiln_jit::Array> {
        self.maps.get(map.index())?.array
    }

    fn arena(&self) -> Option<Place> {
        self.arena
    }

    fn in_arena(&self, insn: InsnId) -> bool {
        self.accesses.contains(insn)
    }

    fn helper_may_stop(&self, id: u32) -> bool {
        // Any helper may find that memory is not the program's; then the run must not go on.
        self.has_helper(id)
    }

    fn refill_address(&self) -> Option<u64> {
        budget::ASKS.then_some(budget::refill as *const () as u64)
    }

    fn packet_load_address(&self) -> Option<u64> {
        Some(trampoline::packet_load_entry as *const () as u64)
    }
}
