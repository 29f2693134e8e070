//! Kiln's own words in results: program types, rules of the lint, parts of a story. A word that is read back is taken only
//! if Kiln has it, so that a result never holds text of somebody else's in a word's place.

use kiln_platform::ProgramType;
use kiln_verifier::Part;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::lint::rule;

/// One of Kiln's own words.
pub type Word = &'static str;

/// The word that Kiln has of a text, if it has one.
fn known(text: &str) -> Option<Word> {
    ProgramType::from_name(text)
        .map(ProgramType::name)
        .or_else(|| rule(text).map(|rule| rule.name))
        .or_else(|| Part::ALL.map(Part::name).into_iter().find(|name| *name == text))
}

/// Reads a word.
///
/// # Errors
/// The format's error if Kiln does not have it.
pub fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
    let text = String::deserialize(from)?;
    known(&text).ok_or_else(|| D::Error::custom(format!("{text:?} is not a word of Kiln's")))
}

/// Reads a word that may be missing.
///
/// # Errors
/// As [`read`].
pub fn read_optional<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Word>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    let word = |text: String| known(&text).ok_or_else(|| D::Error::custom(format!("{text:?} is not a word of Kiln's")));
    text.map(word).transpose()
}
