//! What a report says of a C source: how it was compiled, and edits that make its programs load. Who compiles C makes both.

use std::path::PathBuf;

use kiln_inspect::Shown;
use serde::Serialize;

/// The name of a file with the compiler's commands.
pub const DATABASE: &str = "compile_commands.json";

/// How a source was compiled.
#[derive(Clone, Debug, Serialize)]
pub struct How {
    /// The compiler.
    pub clang: Shown,
    /// The project's flags, which come after those of `kiln cc`.
    pub flags: Vec<Shown>,
    /// The file that gives them, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Shown>,
    /// What the compiler says, in lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<Shown>,
    /// The files that were read: the source and what it includes.
    #[serde(skip)]
    pub read: Vec<PathBuf>,
}

impl How {
    /// The compiler and the flags in words, such as `clang-19 -Iinclude (flags of kiln.toml)`.
    pub fn in_words(&self) -> String {
        let mut words = self.clang.to_string();
        for flag in &self.flags {
            words.push(' ');
            words.push_str(&flag.to_string());
        }
        match &self.from {
            Some(from) => format!("{words} (flags of {from})"),
            None => format!("{words} (the flags of kiln cc; no {DATABASE} or kiln.toml names others)"),
        }
    }
}

/// A change of a source, and what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Fix {
    /// The program that it is for.
    pub program: Shown,
    /// The steps, as orders.
    pub steps: Vec<Shown>,
    /// Whether the program is accepted with it.
    pub accepted: bool,
    /// The rejection that it leads to, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Shown>,
    /// Whether it only adds what the program lacks, such as a check. Other changes need a look: `--unsafe-fixes`.
    pub safe: bool,
    /// The file.
    pub file: Shown,
    /// The replacements, in the order of the file; they do not overlap.
    pub edits: Vec<Replacement>,
    /// The file as it was checked.
    #[serde(skip)]
    pub original: String,
    /// The file with the fix.
    #[serde(skip)]
    pub text: String,
    /// The file, as it can be opened.
    #[serde(skip)]
    pub path: PathBuf,
}

/// Lines that are replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replacement {
    /// The first line, from 1.
    pub line: u32,
    /// The number of lines that go.
    pub removed: u32,
    /// The lines that come, each with its end.
    pub inserted: String,
}

impl Fix {
    /// The change as lines with `-` and `+`, under their numbers.
    pub fn diff(&self) -> String {
        let lines: Vec<&str> = self.original.lines().collect();
        let mut text = String::new();
        for edit in &self.edits {
            let begin = edit.line as usize - 1;
            text.push_str(&format!("@@ line {} @@\n", edit.line));
            let own = lines.get(begin..(begin + edit.removed as usize).min(lines.len())).unwrap_or_default();
            own.iter().for_each(|line| text.push_str(&format!("-{line}\n")));
            edit.inserted.lines().for_each(|line| text.push_str(&format!("+{line}\n")));
        }
        text
    }
}
