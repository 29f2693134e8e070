//! Numbers as the kernel's verifier knows them: a tristate number and four ranges.

/// A tristate number (kernel `kernel/bpf/tnum.c`): each bit is 0, 1 or unknown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tnum {
    /// Bits known to be 1.
    pub value: u64,
    /// Bits not known. Disjoint from `value`.
    pub mask: u64,
}

impl Tnum {
    /// Nothing known.
    pub const UNKNOWN: Tnum = Tnum { value: 0, mask: u64::MAX };

    /// Exactly this value.
    pub const fn constant(value: u64) -> Tnum {
        Tnum { value, mask: 0 }
    }

    /// Whether a value may be it.
    pub const fn contains(self, value: u64) -> bool {
        value & !self.mask == self.value
    }
}

/// What is known of a 64-bit number: known bits, and unsigned and signed ranges of all 64 and of the lower 32 bits
/// (inclusive). All six hold together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scalar {
    /// Known bits.
    pub tnum: Tnum,
    /// Least unsigned value.
    pub umin: u64,
    /// Greatest unsigned value.
    pub umax: u64,
    /// Least signed value.
    pub smin: i64,
    /// Greatest signed value.
    pub smax: i64,
    /// Least unsigned value of the lower half.
    pub u32_min: u32,
    /// Greatest unsigned value of the lower half.
    pub u32_max: u32,
    /// Least signed value of the lower half.
    pub s32_min: i32,
    /// Greatest signed value of the lower half.
    pub s32_max: i32,
}

impl Scalar {
    /// Nothing known.
    pub const UNKNOWN: Scalar = Scalar {
        tnum: Tnum::UNKNOWN,
        umin: 0,
        umax: u64::MAX,
        smin: i64::MIN,
        smax: i64::MAX,
        u32_min: 0,
        u32_max: u32::MAX,
        s32_min: i32::MIN,
        s32_max: i32::MAX,
    };

    /// Exactly this value.
    pub const fn constant(value: u64) -> Scalar {
        Scalar {
            tnum: Tnum::constant(value),
            umin: value,
            umax: value,
            smin: value as i64,
            smax: value as i64,
            u32_min: value as u32,
            u32_max: value as u32,
            s32_min: value as i32,
            s32_max: value as i32,
        }
    }

    /// The value, where only one is possible.
    pub const fn as_constant(&self) -> Option<u64> {
        if self.tnum.mask == 0 {
            Some(self.tnum.value)
        } else if self.umin == self.umax {
            Some(self.umin)
        } else {
            None
        }
    }

    /// Whether a value may be it.
    pub const fn contains(&self, value: u64) -> bool {
        let (low, signed, signed_low) = (value as u32, value as i64, value as i32);
        self.tnum.contains(value)
            && self.umin <= value
            && value <= self.umax
            && self.smin <= signed
            && signed <= self.smax
            && self.u32_min <= low
            && low <= self.u32_max
            && self.s32_min <= signed_low
            && signed_low <= self.s32_max
    }
}
