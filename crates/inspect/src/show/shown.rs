//! Strings of results that hold text from input: names, source lines, listings, messages about them.
//!
//! ```text
//!   "p\naccepted q"  --serialized-->  "p\naccepted q"    exact, escaped by JSON
//!                    --printed----->   p\naccepted q     one line, nothing hidden (`kiln_program::shown`)
//! ```
//!
//! A caller may forget to clean what it prints. So the results of commands have no plain strings, which a test of
//! `kiln-driver` checks: `Display` gives the clean form, and [`Shown::exact`] is for lookups, comparisons and data.

use std::fmt::{Display, Formatter};

pub use kiln_program::shown::{Clean, CleanLines, clean, is_visible};
use serde::{Deserialize, Serialize};

/// How many of something, with a plural that only needs an s: `1 object`, `2 objects`.
pub fn count(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

/// A string of a result: exact as data, clean where it is displayed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Shown(String);

impl Display for Shown {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        out.pad(&Clean(&self.0).to_string())
    }
}

impl<T: Into<String>> From<T> for Shown {
    fn from(text: T) -> Shown {
        Shown(text.into())
    }
}

impl PartialEq<str> for Shown {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Shown {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl Shown {
    /// The text as the input has it: to look names up, compare and serialize, never to print.
    pub fn exact(&self) -> &str {
        &self.0
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Strings as results have them.
    pub fn all(texts: impl IntoIterator<Item = String>) -> Vec<Shown> {
        texts.into_iter().map(Shown).collect()
    }
}

/// A JSON document, or a piece of one, in which invisible characters are escaped. A parser reads the same values, and a
/// terminal shows nothing else.
pub fn escaped_json(document: &str) -> String {
    let mut text = String::with_capacity(document.len());
    for letter in document.chars() {
        if is_visible(letter) || letter == '\n' {
            text.push(letter);
        } else {
            letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_clean_and_what_is_data_is_exact() {
        let name = Shown::from("p\naccepted\u{202e}");
        assert_eq!(format!("[{name:<24}]"), r"[p\naccepted\u{202e}     ]");
        assert_eq!(serde_json::to_value(&name).unwrap(), "p\naccepted\u{202e}");
        assert!(name == "p\naccepted\u{202e}");
    }
}
