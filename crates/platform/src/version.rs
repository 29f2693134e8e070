//! Kernel versions, so that a profile can say "loads on 5.15 and up".

use std::fmt;

/// A kernel release, `major.minor`. Stable point releases do not add features, so they are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelVersion {
    /// The 6 of 6.18.
    pub major: u8,
    /// The 18 of 6.18.
    pub minor: u8,
}

impl KernelVersion {
    /// The release whose rules apply where none is named.
    pub const DESCRIBED: KernelVersion = KernelVersion::new(6, 18);
    /// The newest release that the tables have rows of. Of newer kernels, only their own answers are known.
    pub const NEWEST: KernelVersion = KernelVersion::new(7, 3);

    /// The release `major.minor`.
    #[inline]
    pub const fn new(major: u8, minor: u8) -> Self {
        Self { major, minor }
    }
}

impl std::str::FromStr for KernelVersion {
    type Err = String;

    /// Reads `6.12`, and what `uname -r` prints: `6.12.48-amd64`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok(Self::new(major, minor)),
            _ => Err(format!("{text:?} is not a kernel version such as 6.12")),
        }
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}
