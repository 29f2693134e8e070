//! What the functions of a program share: settings, and a table of addresses.

use std::collections::HashMap;

use kiln_program::{InsnId, Object};

use crate::address::Address;
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
