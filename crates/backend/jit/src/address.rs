//! The addresses of the process that code needs.

use kiln_program::{ExternId, MapId, Object};

use crate::Symbols;

/// An address of the process that code needs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Address {
    /// What the map helpers accept as a map.
    Map(MapId),
    /// A byte of a map's first value.
    MapValue {
        /// The map.
        map: MapId,
        /// Bytes into the value.
        offset: u32,
    },
    /// The first value of a map with adjacent values, for lookups without a call.
    Array(MapId),
    /// A helper, as a [`crate::HelperEntry`].
    Helper(u32),
    /// A kernel symbol, or a kfunc as a [`crate::HelperEntry`].
    Extern(ExternId),
    /// The routine behind classic packet loads.
    PacketLoad,
    /// The arena's base.
    Arena,
    /// The routine to ask when the budget is spent.
    Refill,
}

impl Address {
    /// The address in this process; `None` if the runtime does not have it.
    pub(crate) fn resolve(self, symbols: &dyn Symbols) -> Option<u64> {
        match self {
            Address::Map(map) => symbols.map_address(map),
            Address::MapValue { map, offset } => symbols.map_value_address(map, offset),
            Address::Array(map) => symbols.array(map).map(|array| array.first),
            Address::Helper(helper) => symbols.helper_address(helper),
            Address::Extern(symbol) => symbols.extern_address(symbol),
            Address::PacketLoad => symbols.packet_load_address(),
            Address::Arena => symbols.arena().map(|arena| arena.base),
            Address::Refill => symbols.refill_address(),
        }
    }

    /// What it is, for whoever reads that the runtime lacks it.
    pub(crate) fn describe(self, object: &Object) -> String {
        let map = |id: MapId| object.maps.get(id.index()).map_or("?", |map| map.name.as_str());
        match self {
            Address::Map(id) => format!("map {}", map(id)),
            Address::MapValue { map: id, .. } | Address::Array(id) => format!("the values of map {}", map(id)),
            Address::Helper(helper) => format!("helper {helper}"),
            Address::Extern(id) => {
                format!("symbol {}", object.externs.get(id.index()).map_or("?", |symbol| symbol.name.as_str()))
            }
            Address::PacketLoad => "packet loads".to_owned(),
            Address::Arena => "an arena".to_owned(),
            Address::Refill => "more budget".to_owned(),
        }
    }
}
