//! Random numbers that a seed decides (SplitMix64), so that whatever is made of them can be made again.

use kiln_verifier::Scalar;

/// The generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub const fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }

    /// That many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    /// A number of the kind that breaks things: corners, small numbers, single bits, random ones.
    pub fn corner(&mut self) -> u64 {
        const CORNERS: [u64; 12] = [
            0,
            1,
            u64::MAX,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            0x1_0000_0000,
            i64::MAX as u64,
            i64::MIN as u64,
            0xffff_ffff_8000_0000,
            0xff,
            0x80,
        ];
        match self.below(8) {
            0 | 1 => self.pick(&CORNERS),
            2 => self.below(64),
            3 => 1 << self.below(64),
            4 => self.next() & 0xffff_ffff,
            _ => self.next(),
        }
    }

    /// A number that a scalar allows; `None` when none was found.
    pub fn scalar(&mut self, scalar: &Scalar) -> Option<u64> {
        let corners = [scalar.umin, scalar.umax, scalar.smin as u64, scalar.smax as u64];
        for attempt in 0..32 {
            let span = scalar.umax.wrapping_sub(scalar.umin).wrapping_add(1);
            let raw = match attempt {
                0 if self.below(3) == 0 => self.pick(&corners),
                _ if span != 0 && attempt % 2 == 0 => scalar.umin.wrapping_add(self.below(span)),
                _ => self.corner(),
            };
            let fitted = raw & scalar.tnum.mask | scalar.tnum.value;
            if let Some(value) = [raw, fitted].into_iter().find(|value| scalar.contains(*value)) {
                return Some(value);
            }
        }
        corners.into_iter().find(|value| scalar.contains(*value))
    }
}
