//! Relations as data.

use std::collections::BTreeSet;

use kiln_isa::Reg;
use serde::{Deserialize, Serialize};

use crate::simulation::name::{Name, VARIABLES, new, old};
use crate::simulation::relation::Relation;

/// Bytes of a frame, and below it what [`super::inlined`] keeps there.
const FRAMES: std::ops::Range<i32> = -2048..0;

/// The relation as data.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RelationRecord {
    /// What R0 to R9 of the old function hold.
    before: Vec<Name>,
    /// What R0 to R9 of the new function hold.
    after: Vec<Name>,
    /// Registers that differ between the functions, and their equal bits.
    equal: Vec<(u8, u64)>,
    /// Registers of each function with zero bits, and these bits.
    #[serde(default, skip_serializing_if = "no_bits")]
    zero: [Vec<(u8, u64)>; 2],
    /// Bytes of the frame that may differ.
    differ: Vec<i32>,
    /// Bytes of the frame that may differ if R0 is not zero.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    failed: Vec<i32>,
    /// Bytes of the frame that hold a constant, for each function.
    #[serde(default)]
    held: [Vec<(i32, u8)>; 2],
    /// Whether R0 is the first element of an array.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    found: bool,
}

fn no_bits(sides: &[Vec<(u8, u64)>; 2]) -> bool {
    sides.iter().all(Vec::is_empty)
}

impl RelationRecord {
    /// The record of a relation.
    pub fn of(relation: &Relation) -> RelationRecord {
        let side = |from: usize| relation.names[from..from + Reg::COUNT - 1].to_vec();
        RelationRecord {
            before: side(0),
            after: side(Reg::COUNT),
            equal: Reg::all().filter_map(|reg| relation.partly_equal(reg)).collect(),
            zero: [old, new].map(|variable: fn(Reg) -> usize| {
                let bits = |reg: Reg| (reg.number(), relation.zero[variable(reg)]);
                let is_class = |reg: &Reg| matches!(relation.names[variable(*reg)], Name::Class(_));
                Reg::all().filter(is_class).map(bits).filter(|(_, bits)| *bits != 0).collect()
            }),
            differ: relation.differ.iter().copied().collect(),
            failed: relation.failed.iter().copied().collect(),
            held: [0, 1].map(|side: usize| relation.held[side].iter().map(|(at, value)| (*at, *value)).collect()),
            found: relation.found,
        }
    }

    /// The relation. Returns the reason if the record does not describe one.
    pub fn relation(&self, maps: usize) -> Result<Relation, String> {
        let mut names = [Name::Unreadable; VARIABLES];
        for (from, side) in [(0, &self.before), (Reg::COUNT, &self.after)] {
            if side.len() != Reg::COUNT - 1 {
                return Err("a relation speaks of R0 to R9".to_owned());
            }
            names[from..from + Reg::COUNT - 1].copy_from_slice(side);
        }
        let sound = |name: &Name| match name {
            Name::Frozen { map, bytes, .. } => (*map as usize) < maps && matches!(bytes, 1 | 2 | 4 | 8),
            Name::Class(class) => usize::from(*class) < VARIABLES,
            _ => true,
        };
        if !names.iter().all(sound) {
            return Err("a relation names what there is not".to_owned());
        }
        let mut equal = [0; Reg::COUNT];
        for (reg, bits) in &self.equal {
            *equal.get_mut(usize::from(*reg)).ok_or("there are registers 0 to 10")? = *bits;
        }
        let mut zero = [0; VARIABLES];
        for (side, known) in self.zero.iter().enumerate() {
            for (reg, bits) in known.iter().filter(|(reg, _)| usize::from(*reg) < Reg::COUNT) {
                zero[side * Reg::COUNT + usize::from(*reg)] = *bits;
            }
        }
        let bytes = |bytes: &[i32]| bytes.iter().copied().filter(|at| FRAMES.contains(at)).collect();
        let (differ, failed): (BTreeSet<i32>, BTreeSet<i32>) = (bytes(&self.differ), bytes(&self.failed));
        let held =
            [0, 1].map(|side: usize| self.held[side].iter().copied().filter(|(at, _)| FRAMES.contains(at)).collect());
        Ok(Relation { names, bits: equal, zero, differ, failed, held, found: self.found })
    }
}
