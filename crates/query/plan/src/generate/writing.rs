//! What all operators of a program know.

use kiln_isa::{Insn, Reg};
use kiln_program::MapId;

use super::code::Code;
use super::frame::Frame;
use super::layout::Origin;
use super::plan::{GroupMap, Plan, Settings};
use crate::query::Query;
use crate::table::Side;

/// One program that is being written.
pub struct Writing<'a> {
    pub query: &'a Query,
    pub plan: &'a Plan,
    pub settings: &'a Settings,
    pub origin: Origin<'a>,
    pub side: Side,
    pub frame: &'a Frame,
    pub stacks: Option<MapId>,
}

/// The maps of a query.
pub struct Maps<'a> {
    pub counters: MapId,
    pub span: Option<MapId>,
    pub ring: Option<MapId>,
    pub starts: Option<MapId>,
    pub groups: Option<&'a GroupMap>,
}

impl Writing<'_> {
    /// Adds one to a counter of what was lost.
    pub(super) fn count(&self, code: &mut Code<'_>, maps: &Maps<'_>, counter: u32) {
        code.map_value(Reg::R1, maps.counters, 8 * counter);
        code.push(Insn::mov_imm(Reg::R2, 1));
        code.atomic_add(Reg::R1, 0, Reg::R2);
    }
}
