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
        let end = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let read = || {
            let (major, rest) = text.split_at(end(text));
            let rest = rest.strip_prefix('.')?;
            let (minor, rest) = rest.split_at(end(rest));
            let is_whole = rest.is_empty() || rest.starts_with(['.', '-', '+', '~', '_']);
            Some(Self::new(major.parse().ok()?, minor.parse().ok()?)).filter(|_| is_whole)
        };
        read().ok_or_else(|| format!("{text:?} is not a kernel version such as 6.12"))
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::KernelVersion;

    #[test]
    fn what_uname_prints_is_a_version_and_a_word_is_none() {
        for text in ["6.12", "6.12.48-amd64", "6.12-rc1", "6.12+deb13"] {
            assert_eq!(text.parse(), Ok(KernelVersion::new(6, 12)), "{text}");
        }
        for text in ["", "6", "6.", "6.12x", "6,12", "6.x", "v6.12", "300.1"] {
            assert!(text.parse::<KernelVersion>().is_err(), "{text}");
        }
    }
}
