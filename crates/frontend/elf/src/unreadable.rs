//! Functions that cannot be read: an unknown opcode, a symbol that is defined nowhere, a branch that leaves its
//! function. Only programs that need such a function are refused.
//!
//! ```text
//!   xdp: good ------------------> read
//!        bad  (opcode 0x11)       left out: "opcode 0x11 is unknown"
//!        user --call--> bad       left out: "it needs bad: opcode 0x11 is unknown"
//! ```
//!
//! The bytes of such a function stay in the file unchanged. They move as one piece if the code before them changes its
//! size. So if such a function refers to other code, no size may change ([`pinned`]).

use std::collections::HashMap;

use kiln_isa::{CallTarget, Insn, Slot, decode};
use kiln_program::{Function, Reference};

use crate::code::{CodeReader, CodeSection, Place, Referents, SLOT_BYTES};
use crate::emit::is_for_debuggers;
use crate::error::{Error, Fault, Result};
use crate::externs::ExternTable;
use crate::file::ElfFile;
use crate::maps::MapTable;

/// A function that cannot be read, or that calls one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable {
    /// Its symbol.
    pub function: String,
    /// The section it is in. Functions outside of `.text` are programs.
    pub section: String,
    /// Its 8-byte slots.
    pub slots: u32,
    /// Why: [`Error::InvalidInput`] or [`Error::Unsupported`].
    pub reason: Error,
}

impl Unreadable {
    /// Whether it is a program, not a function that programs call.
    pub fn is_program(&self) -> bool {
        self.section != ".text"
    }
}

/// Removes functions that cannot be read from `places`, and returns the reason for each.
pub(crate) fn take_unreadable(
    file: &ElfFile,
    maps: &MapTable,
    externs: &ExternTable,
    places: &mut Vec<Place>,
) -> Result<Vec<(Place, Fault)>> {
    let mut faults = first_faults(file, maps, externs, places)?;
    if faults.iter().all(|(fault, _)| fault.is_none()) {
        return Ok(Vec::new());
    }
    spread_to_callers(file, places, &mut faults);
    let mut kept = Vec::new();
    let mut taken = Vec::new();
    for (place, (fault, _)) in places.drain(..).zip(faults) {
        match fault {
            Some(fault) => taken.push((place, fault)),
            None => kept.push(place),
        }
    }
    *places = kept;
    Ok(taken)
}

/// Why a function cannot be read, and the functions that it refers to.
type Reading = (Option<Fault>, Vec<usize>);

fn first_faults(file: &ElfFile, maps: &MapTable, externs: &ExternTable, places: &[Place]) -> Result<Vec<Reading>> {
    let referents = Referents::new(file, maps, externs, places);
    let mut reader = CodeReader::new(referents);
    let mut section: Option<(usize, CodeSection<'_>)> = None;
    let mut readings = Vec::with_capacity(places.len());
    for place in places {
        let code = match section.take() {
            Some((index, code)) if index == place.section => code,
            _ => CodeSection::new(file, place.section)?,
        };
        readings.push(match reader.function(&code, place) {
            Ok((function, _)) => (None, referred(&function)),
            Err(fault) => (Some(fault), Vec::new()),
        });
        section = Some((place.section, code));
    }
    Ok(readings)
}

fn referred(function: &Function) -> Vec<usize> {
    let targets = function.nodes.iter().filter_map(|node| match node.reference {
        Reference::Function(id) => Some(id.index()),
        _ => None,
    });
    targets.collect()
}

/// Marks functions that refer to an unreadable one as unreadable, transitively. Each reference is followed once.
fn spread_to_callers(file: &ElfFile, places: &[Place], readings: &mut [Reading]) {
    let mut callers: HashMap<usize, Vec<usize>> = HashMap::new();
    for (caller, (_, targets)) in readings.iter().enumerate() {
        for target in targets {
            callers.entry(*target).or_default().push(caller);
        }
    }
    let mut open: Vec<usize> = (0..readings.len()).filter(|index| readings[*index].0.is_some()).collect();
    // The error of every caller names the function whose own bytes are at fault.
    let mut causes: HashMap<usize, usize> = open.iter().map(|index| (*index, *index)).collect();
    while let Some(index) = open.pop() {
        let cause = causes[&index];
        let Some(fault) = readings[cause].0.clone() else { continue };
        let needed = &file.symbols[places[cause].symbol].name;
        for caller in callers.get(&index).into_iter().flatten() {
            if readings[*caller].0.is_none() {
                readings[*caller].0 = Some(fault.clone().needed(needed));
                causes.insert(*caller, cause);
                open.push(*caller);
            }
        }
    }
}

/// Whether the bytes at a place refer to other code, by a call or a relocation, or to sections that a rewrite removes.
/// Their meaning would change in a rewritten file.
pub(crate) fn pinned(file: &ElfFile, place: &Place) -> Result<bool> {
    let relocations = file.relocations_of(place.section)?;
    let relocated = relocations.values().any(|relocation| {
        let home = file.symbols[relocation.symbol as usize].section_index();
        (place.start..place.end).contains(&relocation.offset)
            && home.is_some_and(|home| {
                let section = &file.sections[home];
                section.is_code() || section.name == crate::tables::SECTION || is_for_debuggers(file, home)
            })
    });
    let bytes = &file.data(place.section)[place.start as usize..place.end as usize];
    let Some(slots) = Slot::parse_all(bytes) else { return Ok(true) };
    let by_distance = slots.iter().enumerate().any(|(index, slot)| {
        let at = place.start + index as u64 * SLOT_BYTES;
        !relocations.contains_key(&at) && matches!(decode(&[*slot]), Ok(Insn::Call(CallTarget::Subprogram(_))))
    });
    Ok(relocated || by_distance)
}
