//! Errors as clients get them: with PostgreSQL's codes (SQLSTATE).

use kiln_program::Error;

/// An error of a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Its code.
    pub code: &'static str,
    /// One sentence.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// The byte of the statement where it is.
    pub at: Option<usize>,
}

impl Fault {
    /// An error without a place.
    pub fn new(code: &'static str, message: impl Into<String>) -> Fault {
        Fault { code, message: message.into(), hint: None, at: None }
    }

    /// The error of a statement that its client cancelled.
    pub fn cancelled() -> Fault {
        Fault::new("57014", "the query was cancelled")
    }

    /// The same error with what to do.
    #[must_use]
    pub fn hint(self, hint: &str) -> Fault {
        Fault { hint: Some(hint.to_owned()), ..self }
    }

    /// The fields of the message for clients; `text` is the statement, of which a place is given in characters.
    pub fn fields(&self, text: &str) -> Vec<(u8, String)> {
        let severity = "ERROR".to_owned();
        let mut fields = vec![(b'S', severity.clone()), (b'V', severity), (b'C', self.code.to_owned())];
        fields.push((b'M', without_zeros(&self.message)));
        fields.extend(self.hint.iter().map(|hint| (b'H', without_zeros(hint))));
        if let Some(before) = self.at.and_then(|at| text.get(..at)) {
            fields.push((b'P', (before.chars().count() + 1).to_string()));
        }
        fields
    }
}

fn without_zeros(text: &str) -> String {
    text.replace('\0', "")
}

impl From<kiln_sql::Error> for Fault {
    fn from(error: kiln_sql::Error) -> Fault {
        let message = &error.message;
        let code = match () {
            () if message.starts_with("there is no table") => "42P01",
            () if message.contains("has no column") || message.contains("has a column") => "42703",
            () if message.contains("no such function") || message.contains("is no function") => "42883",
            () if error.is_beyond => "0A000",
            () => "42601",
        };
        Fault { code, message: error.message, hint: error.help, at: error.at.map(|at| at.start) }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let code = match &error {
            Error::Limit(_) => "53400",
            Error::Unsupported(_) => "0A000",
            Error::Os { .. } => "58000",
            Error::InvalidInput(_) | Error::InvalidQuery(_) => "42601",
            _ => "XX000",
        };
        Fault::new(code, error.to_string())
    }
}
