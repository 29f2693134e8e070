//! The flags of meta commands: single letters, some with a token behind them.

use std::borrow::Cow;

use super::base64;
use crate::protocol::number;
use crate::protocol::step::Step;

/// Words of a command, from which on it has too many.
pub const WORDS_MOST: usize = 20;
/// memcached's words for what is no command.
pub const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
/// What went wrong, in memcached's words, and how the session goes on.
pub type Refused = (&'static str, Step);
/// The longest opaque token, with its letter.
const OPAQUE_MOST: usize = 32;
const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";

/// What the flags of a command say.
pub struct Flags<'w> {
    /// All of them, in the order in which they are answered.
    pub words: &'w [&'w [u8]],
    /// The key, decoded if it came in base64.
    pub key: Cow<'w, [u8]>,
    /// `b`: the key came in base64.
    pub is_binary: bool,
    /// `v`: the value is wanted.
    pub wants_value: bool,
    /// `q`: the usual answer is not wanted.
    pub is_quiet: bool,
    /// `u`: this is no use of the item.
    pub is_no_use: bool,
    /// `I`: an item of an older version is marked as stale instead.
    pub stale: bool,
    /// `T`: when the item ends from now on, as items say it.
    pub expires: Option<u64>,
    /// `N`: when an item ends that is made because there is none.
    pub vivify: Option<u64>,
    /// `R`: seconds that an item has to have left.
    pub recache_seconds: Option<u64>,
    /// `F`: what the client says that the value is.
    pub client_flags: u32,
    /// `C`: the version that the item has to have.
    pub version: Option<u64>,
    /// `M`: how to store or count.
    pub mode: Option<u8>,
    /// `J`: the first value of a counter.
    pub initial: u64,
    /// `D`: what is added or subtracted.
    pub delta: u64,
    /// `O` has more bytes than answers have room for. See [`Flags::opaque`].
    has_long_opaque: bool,
}

/// Reads the flags of a command with a key. memcached reads all tokens and tells the last error, unless it meets a flag twice or one
/// that it does not know.
///
/// # Errors
/// Returns memcached's words for what is wrong.
pub fn read<'w>(key: &'w [u8], words: &'w [&'w [u8]]) -> Result<Flags<'w>, &'static str> {
    let mut flags = Flags {
        words,
        key: key.into(),
        is_binary: false,
        wants_value: false,
        is_quiet: false,
        is_no_use: false,
        stale: false,
        expires: None,
        vivify: None,
        recache_seconds: None,
        client_flags: 0,
        version: None,
        mode: None,
        initial: 0,
        delta: 1,
        has_long_opaque: false,
    };
    let (mut seen, mut result) = (0u128, Ok(()));
    for word in words {
        let (letter, token) = (word[0], &word[1..]);
        if letter >= 127 || seen >> letter & 1 == 1 {
            return Err("CLIENT_ERROR duplicate flag");
        }
        seen |= 1 << letter;
        if let Err(error) = flags.one(letter, token)? {
            result = Err(error);
        }
    }
    result.map(|()| flags)
}

/// Notes a flag that has no token.
fn on(flag: &mut bool) -> Result<(), &'static str> {
    *flag = true;
    Ok(())
}

impl Flags<'_> {
    /// Checks the opaque token, which memcached looks at after all other flags.
    ///
    /// # Errors
    /// Returns memcached's words for a token that is too long.
    pub fn opaque(&self) -> Result<(), &'static str> {
        if self.has_long_opaque { Err("CLIENT_ERROR opaque token too long") } else { Ok(()) }
    }

    /// Reads one flag. An error in its token is the inner one.
    fn one(&mut self, letter: u8, token: &[u8]) -> Result<Result<(), &'static str>, &'static str> {
        let unsigned = |error| number::unsigned(token).ok_or(error);
        let time = || number::expires(token).ok_or(BAD_TOKEN);
        let outcome = match letter {
            b'b' => base64::decode(&self.key).ok_or("CLIENT_ERROR error decoding key").map(|key| {
                self.key = key.into();
                self.is_binary = true;
            }),
            b'N' => time().map(|at| self.vivify = Some(at)),
            b'T' => time().map(|at| self.expires = Some(at)),
            b'R' => {
                number::signed(token).ok_or(BAD_TOKEN).map(|seconds| self.recache_seconds = u64::try_from(seconds).ok())
            }
            b'O' => {
                self.has_long_opaque = token.len() >= OPAQUE_MOST;
                Ok(())
            }
            b'k' | b's' | b't' | b'c' | b'f' | b'h' => Ok(()),
            b'v' => on(&mut self.wants_value),
            b'q' => on(&mut self.is_quiet),
            b'u' => on(&mut self.is_no_use),
            b'I' => on(&mut self.stale),
            b'F' => unsigned("CLIENT_ERROR bad command line format").map(|flags| self.client_flags = flags as u32),
            b'C' => unsigned(BAD_TOKEN).map(|version| self.version = Some(version)),
            b'M' => match token {
                [mode] => {
                    self.mode = Some(*mode);
                    Ok(())
                }
                _ => Err("CLIENT_ERROR incorrect length for M token"),
            },
            b'J' => unsigned("CLIENT_ERROR invalid numeric initial value").map(|value| self.initial = value),
            b'D' => unsigned("CLIENT_ERROR invalid numeric delta value").map(|value| self.delta = value),
            _ => return Err("CLIENT_ERROR invalid flag"),
        };
        Ok(outcome)
    }
}
