//! Indirect jumps: an address is read from a jump table, and jumped to.
//!
//! ```text
//!   r1 = map_value[T] + 0      a map of type insn_array: an address of 8 bytes for each entry
//!   r1 += r2                   r2 is a multiple of 8, below the table's size
//!   r1 = *(u64 *)(r1 + 0)      the address of an instruction; which entries it may be from is known
//!   gotox r1                   a path goes on at each instruction that these entries have
//! ```

use kiln_isa::Reg;
use kiln_platform::MapType;
use kiln_platform::limits::MAX_PENDING_BRANCHES;
use kiln_program::JumpTable;

use crate::code::{Code, Position};
use crate::domain::Tnum;
use crate::error::{About, Step, refuse, reject, unsupported};
use crate::path::{Next, Path};
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::{Holds, Register};

impl Code<'_> {
    /// Whether a pointer to a map's value points into a jump table.
    pub(super) fn is_jump_table(&self, base: &Register) -> bool {
        self.map_type_of(base) == Some(MapType::InsnArray)
    }

    /// Accesses of jump tables are aligned, as the kernel wants it of no other map.
    pub(super) fn check_table_alignment(&self, reg: Reg, base: &Register, offset: i64, bytes: u32) -> Step<()> {
        let fixed = i64::from(base.offset).wrapping_add(offset);
        let at = base.scalar.tnum.add(Tnum::constant(fixed as u64));
        if self.is_jump_table(base) && (at.value | at.mask) % u64::from(bytes) != 0 {
            let message =
                format!("r{}: {bytes} bytes of a jump table at an offset that may be misaligned", reg.number());
            return reject(Reason::Misaligned, message);
        }
        Ok(())
    }
}

/// What a load from a jump table gives, after the checks of its place.
pub(super) fn jump_address(base: &Register, offset: i64, bytes: u32) -> Step<Register> {
    let (Holds::MapValue(map), Ok(moved)) = (base.holds, i32::try_from(i64::from(base.offset) + offset)) else {
        return unsupported("a jump table inside another map");
    };
    if bytes != JumpTable::ENTRY_BYTES {
        let message = format!("{bytes} bytes are read from a jump table, whose entries have 8");
        return refuse(Reason::BadInstruction, Case::PartOfEntry { bytes }, message);
    }
    Ok(Register { holds: Holds::Insn(map), offset: moved, ..*base })
}

impl Path<'_> {
    /// A path for each target; the current one goes on at the last.
    pub(crate) fn jump_indirect(&mut self, dst: Reg) -> Step<Next> {
        let address = self.read(dst)?;
        let Holds::Insn(map) = address.holds else {
            let message = format!("r{} ({}) is not an address from a jump table", dst.number(), address.kind().name());
            return reject(Reason::BadInstruction, message).about(dst);
        };
        let targets = self.code.targets_in(self.at, map, &address);
        let Some((last, others)) = targets.as_deref().and_then(<[Position]>::split_last) else {
            return unsupported("an indirect jump by the table of another function, or one that user space fills");
        };
        if others.len() > MAX_PENDING_BRANCHES {
            let message = format!("the jump has more than {MAX_PENDING_BRANCHES} targets");
            return refuse(Reason::TooComplex, Case::Branches, message);
        }
        for target in others {
            self.push(self.state.clone(), *target);
        }
        Ok(Next::At(*last))
    }
}

impl Code<'_> {
    /// The instructions of the entries that an address may be from, in order. `None` if the current function has no such
    /// table.
    fn targets_in(&self, at: Position, map: u32, address: &Register) -> Option<Vec<Position>> {
        let function = self.functions.get(self.op(at).function)?;
        let table = self.object.function(function.id).tables.iter().find(|table| table.map.0 == map)?;
        let fixed = i64::from(address.offset);
        let lowest = address.scalar.smin.checked_add(fixed)?;
        let highest = i64::try_from(address.scalar.umax).ok()?.checked_add(fixed)?;
        let entry = |bytes: i64| usize::try_from(bytes / i64::from(JumpTable::ENTRY_BYTES)).ok();
        let entries = table.targets.get(entry(lowest)?..=entry(highest)?)?;
        let mut targets: Vec<Position> = entries.iter().filter_map(|id| self.position_in(function, *id)).collect();
        targets.sort_unstable();
        targets.dedup();
        Some(targets)
    }
}
