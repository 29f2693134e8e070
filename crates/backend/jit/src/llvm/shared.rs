//! What the functions of a program share: settings, and the addresses of the process that code needs.

use std::collections::HashMap;

use kiln_program::{ExternId, InsnId, MapId, Object};

use crate::plan::Plan;
use crate::{Options, Symbols};

/// The symbol of the entry, an [`crate::Entry`], of a program with this name.
pub fn entry_symbol(name: &str) -> String {
    format!("{name}_entry")
}

/// The symbol of the table of addresses: as many 64-bit words as [`super::Module::addresses`] has elements, at least one.
pub fn table_symbol(name: &str) -> String {
    format!("{name}_addresses")
}

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
    pub(super) fn resolve(self, symbols: &dyn Symbols) -> Option<u64> {
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
}

/// What an address points to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// Memory that nobody else can change during a run: the context, the packet, frames of callers.
    Private,
    /// The function's own stack frame.
    OwnFrame,
}

/// What the compiler is to aim at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Aim {
    /// Speed.
    #[default]
    Speed,
    /// Few bytes of code.
    Size,
}

/// Choices of the caller. Of [`Options`], [`Options::metered`] and [`Options::cleared_bytes`] have a meaning here.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// As for the JITs.
    pub options: &'a Options,
    /// What is known of the address that an instruction accesses, or, for calls, of the address in R2. Where nothing is
    /// known, an access is `volatile`.
    pub places: &'a HashMap<InsnId, Place>,
    /// What to aim at.
    pub aim: Aim,
    /// What the symbols begin with: letters, digits and underscores, no digit first.
    pub name: &'a str,
}

/// What the functions of a program share.
pub(super) struct Shared<'a> {
    pub object: &'a Object,
    pub symbols: &'a dyn Symbols,
    pub settings: &'a Settings<'a>,
    pub plan: &'a Plan,
    pub addresses: Vec<Address>,
}

impl Shared<'_> {
    /// The place of an address in the table; `None` if the runtime does not have it.
    pub fn place(&mut self, address: Address) -> Option<usize> {
        address.resolve(self.symbols)?;
        let known = self.addresses.iter().position(|known| *known == address);
        Some(known.unwrap_or_else(|| {
            self.addresses.push(address);
            self.addresses.len() - 1
        }))
    }
}
