//! What a check found.

use std::fmt;

/// One thing that is wrong.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, below the workspace's root.
    pub path: String,
    /// The line, from 1, where there is one.
    pub line: Option<usize>,
    /// What is wrong, for people.
    pub message: String,
}

impl Finding {
    /// About a file as a whole.
    pub fn file(path: &str, message: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line: None, message: message.into() }
    }

    /// About a line, from 1.
    pub fn line(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line: Some(line), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}
