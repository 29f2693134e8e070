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
    /// The release these tables describe, and were checked against.
    pub const DESCRIBED: KernelVersion = KernelVersion::new(6, 18);

    /// The release `major.minor`.
    pub const fn new(major: u8, minor: u8) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}
