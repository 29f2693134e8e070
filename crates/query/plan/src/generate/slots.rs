//! Slots of records: copied, and the gaps between them cleared.

use kiln_isa::{Reg, Size, Source as Operand};

use super::code::Code;
use super::layout::{Record, Slot, SlotKind, TAG_BYTES, size};

/// Copies a slot from an address to another, through R1.
pub fn copy_slot(code: &mut Code<'_>, slot: &Slot, (base, from): (Reg, i16), (target, to): (Reg, i16)) {
    match slot.kind {
        SlotKind::Number(scalar) => {
            code.load(size(scalar), false, Reg::R1, base, from);
            code.store(size(scalar), target, to, Operand::Reg(Reg::R1));
        }
        SlotKind::Command | SlotKind::Text | SlotKind::Short(_) | SlotKind::Bytes(_) => {
            for word in 0..slot.kind.bytes() as i16 / 8 {
                code.load(Size::B8, false, Reg::R1, base, from + 8 * word);
                code.store(Size::B8, target, to + 8 * word, Operand::Reg(Reg::R1));
            }
        }
    }
}

/// Clears the words of a record that its slots do not fill, so that nothing else of the frame is handed over.
pub fn clear_gaps(code: &mut Code<'_>, record: &Record, start: i16) {
    let mut filled = vec![0; usize::from(record.bytes / 8)];
    let tag = record.tag.map(|_| (0, TAG_BYTES));
    let slots = record.slots.iter().map(|slot| (slot.offset, slot.kind.bytes()));
    for (offset, bytes) in slots.chain(tag) {
        (offset..offset + bytes).for_each(|byte| filled[usize::from(byte / 8)] += 1);
    }
    for (word, _) in filled.iter().enumerate().filter(|(_, bytes)| **bytes < 8) {
        code.store(Size::B8, Reg::R10, start + 8 * word as i16, Operand::Imm(0));
    }
}
