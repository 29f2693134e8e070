//! Errors in a query, with their place.

use std::ops::Range;

use kiln_program::{Clean, clean};

/// An error in a query.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}{}", help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default())]
pub struct Error {
    /// One sentence.
    pub message: String,
    /// The place in bytes of the query, if it is known.
    pub at: Option<Range<usize>>,
    /// What was probably meant.
    pub help: Option<String>,
    /// Whether nothing is wrong with it but that Kiln's plans cannot express it: an SQL engine may.
    pub is_beyond: bool,
    /// Whether it is about what stands after `FROM`, which an SQL engine reads. What the engine's half says is wrong then counts.
    pub is_of_source: bool,
}

impl Error {
    /// An error without a place.
    pub fn new(message: impl Into<String>) -> Error {
        Error { message: message.into(), at: None, help: None, is_beyond: false, is_of_source: false }
    }

    /// An error about what Kiln's plans cannot express.
    pub fn beyond(message: impl Into<String>) -> Error {
        Error { is_beyond: true, ..Error::new(message) }
    }

    /// An error about what stands after `FROM`.
    pub fn of_source(message: impl Into<String>) -> Error {
        Error { is_of_source: true, ..Error::beyond(message) }
    }

    /// The same error with what to write instead.
    pub fn help(self, help: impl Into<String>) -> Error {
        Error { help: Some(help.into()), ..self }
    }

    /// The message, then the query with the place marked, on several lines for people, without hidden characters. All
    /// lines but the first begin with two spaces.
    pub fn shown(&self, sql: &str) -> String {
        let mut text = format!("error: {}\n", Clean(&self.message));
        if let Some(at) = &self.at {
            let start = sql[..at.start].rfind('\n').map_or(0, |before| before + 1);
            let end = sql[at.start..].find('\n').map_or(sql.len(), |more| at.start + more);
            let width = |text: &str| clean(text).chars().count();
            let marks = "^".repeat(width(&sql[at.start..at.end.clamp(at.start, end)]).max(1));
            text +=
                &format!("  | {}\n  | {}{marks}\n", Clean(&sql[start..end]), " ".repeat(width(&sql[start..at.start])));
        }
        if let Some(help) = &self.help {
            text += &format!("  = help: {}\n", Clean(help));
        }
        text
    }
}
