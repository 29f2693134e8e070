//! Immediates as numbers.

use kiln_isa::Width;

/// An immediate as the 64 bits a register holds after a move of it.
pub(crate) fn extended(width: Width, imm: i32) -> u64 {
    match width {
        Width::W32 => u64::from(imm as u32),
        Width::W64 => i64::from(imm) as u64,
    }
}

/// A product by a constant as a shift and a sum: `x * 33` is `(x << 5) + x`, `x * 31` is `(x << 5) - x`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ShiftedSum {
    pub shift: u8,
    /// Whether the product is a difference.
    pub difference: bool,
}

impl ShiftedSum {
    /// For constants above 2 that are next to a power of two.
    pub fn of(imm: i32) -> Option<ShiftedSum> {
        let number = u32::try_from(imm).ok().filter(|number| *number > 2)?;
        let next = |power: u32, difference| {
            power.is_power_of_two().then(|| ShiftedSum { shift: power.trailing_zeros() as u8, difference })
        };
        next(number - 1, false).or_else(|| next(number + 1, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_sums_of_a_shift() {
        let mut found = 0;
        for imm in (-70_000..70_000).chain([i32::MIN, i32::MAX, 0x4000_0001, 0x3fff_ffff]) {
            let Some(ShiftedSum { shift, difference }) = ShiftedSum::of(imm) else { continue };
            let shifted = 1i64 << shift;
            assert_eq!(if difference { shifted - 1 } else { shifted + 1 }, imm.into());
            assert!((1..32).contains(&shift), "{imm}");
            found += 1;
        }
        // Sums from 3 to 65537, differences from 7 to 65535, and three large ones.
        assert_eq!(found, 16 + 14 + 3);
    }
}
