//! Refusals, which may repeat what was asked.

use std::borrow::Cow;

/// Why a command is refused: Redis' words, with the code before them. They may repeat any bytes of the request.
#[derive(Clone, Debug)]
pub struct Refusal(Cow<'static, [u8]>);

impl Refusal {
    /// The refusal with these words.
    pub const fn new(words: &'static str) -> Refusal {
        Refusal(Cow::Borrowed(words.as_bytes()))
    }

    /// The refusal that repeats a word of the request between `before` and `after`.
    pub fn about(before: &str, word: &[u8], after: &str) -> Refusal {
        Refusal::from([before.as_bytes(), shown(word, usize::MAX), after.as_bytes()].concat())
    }

    /// The words.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&'static str> for Refusal {
    fn from(words: &'static str) -> Refusal {
        Refusal::new(words)
    }
}

impl From<String> for Refusal {
    fn from(words: String) -> Refusal {
        Refusal::from(words.into_bytes())
    }
}

impl From<Vec<u8>> for Refusal {
    fn from(words: Vec<u8>) -> Refusal {
        Refusal(Cow::Owned(words))
    }
}

/// The part of a request's word that a refusal repeats: up to its first zero byte, and at most `most` bytes.
pub fn shown(word: &[u8], most: usize) -> &[u8] {
    let end = word.iter().position(|byte| *byte == 0).unwrap_or(word.len());
    &word[..end.min(most)]
}
