//! Bytes read as decisions.
//!
//! A generator asks for choices; each is taken from the front of the input, and is zero once the input is used up. So
//! a shorter input is a smaller program, zero is the simplest alternative, and removing bytes minimizes.

/// Decisions that come from an input.
#[derive(Clone, Debug)]
pub struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    /// All of an input.
    pub const fn new(bytes: &'a [u8]) -> Choices<'a> {
        Choices { bytes }
    }

    /// Whether nothing is left.
    pub const fn used_up(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    /// The next `N` bytes as a number, least significant first.
    fn number<const N: usize>(&mut self) -> u64 {
        (0..N).fold(0, |value, at| value | u64::from(self.byte()) << (8 * at))
    }

    /// Less than `bound`, which is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        let value = if bound <= 256 { self.number::<1>() } else { self.number::<4>() };
        value as usize % bound.max(1)
    }

    /// Yes in one of `n` cases; no when used up.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Any number, often an edge value.
    pub fn value(&mut self) -> u64 {
        const CORNERS: [u64; 14] = [
            0,
            1,
            2,
            31,
            32,
            63,
            0x7f,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            0x1_0000_0000,
            0x7fff_ffff_ffff_ffff,
            0x8000_0000_0000_0000,
            u64::MAX,
        ];
        match self.below(4) {
            0 => u64::from(self.byte()),
            1 => self.pick(&CORNERS),
            2 => self.number::<4>() as i32 as i64 as u64,
            _ => self.number::<8>(),
        }
    }
}
