//! Strings of results that hold text from input: names, source lines, listings, messages about them.
//!
//! ```text
//!   "p\naccepted q"  --serialized-->  "p\naccepted q"    exact, escaped by JSON
//!                    --printed----->   p\naccepted q     one line, nothing hidden (`kiln_program::shown`)
//! ```
//!
//! A caller may forget to clean what it prints. So the results of this crate have no plain strings, which a test in this
//! file checks: `Display` gives the clean form, and [`Shown::exact`] is for lookups, comparisons and data.

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
    use std::path::Path;

    use super::*;

    /// Fields that hold text already laid out for a reader, or nothing from input; by file.
    const PLAIN: &[(&str, &str)] = &[
        // Reasons of the kernel and of Kiln, as in profile.rs.
        ("commands/calibrate.rs", "missing"),
        ("commands/check.rs", "code"),
        ("commands/check.rs", "explanation"),
        ("commands/check_objects.rs", "programs"),
        ("commands/check_objects.rs", "types"),
        ("commands/check_objects.rs", "unknown"),
        ("commands/compare.rs", "maps"),
        ("commands/compile.rs", "arguments"),
        ("commands/compile.rs", "clang"),
        ("commands/doctor.rs", "detail"),
        ("commands/doctor.rs", "mend"),
        ("commands/doctor.rs", "needed_for"),
        ("commands/doctor.rs", "what"),
        ("commands/explain.rs", "*"),
        ("error.rs", "call"),
        ("error.rs", "reason"),
        ("commands/learn.rs", "text"),
        ("commands/native.rs", "cpu"),
        ("commands/operations.rs", "instructions"),
        ("commands/optimize.rs", "programs"),
        ("commands/profile.rs", "*"),
        ("commands/profiles.rs", "loads_on"),
        // What the user asked for, and the names that are sent as they are.
        ("commands/congestion.rs", "values"),
        ("commands/query/export/mod.rs", "columns"),
        ("commands/query/export/mod.rs", "otlp"),
        ("commands/query/export/mod.rs", "prometheus"),
        ("commands/query/export/mod.rs", "table"),
        // On the way to `Exported`, which shows it.
        ("commands/query/export/otlp.rs", "reason"),
        ("commands/recheck.rs", "solver"),
        ("commands/run.rs", "names"),
        // What a reader sent, which is compared and never shown; and a document, which its readers clean.
        ("http.rs", "*"),
        ("lint/mod.rs", "allowed"),
        ("lint/mod.rs", "denied"),
        ("show/flame.rs", "*"),
    ];

    #[test]
    fn results_have_no_plain_strings() {
        let mut plain = Vec::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut paths = vec![root.clone()];
        while let Some(path) = paths.pop() {
            if path.is_dir() {
                paths.extend(std::fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
                continue;
            }
            let source = std::fs::read_to_string(&path).expect("a source file");
            let file = path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
            for line in source.lines().map(str::trim) {
                let field = line.trim_start_matches("pub ").split_once(": ").filter(|_| line.ends_with(','));
                let Some((name, kind)) = field.filter(|(_, kind)| kind.contains("String")) else { continue };
                let public = line.starts_with("pub ") || line == "reason: String," || line == "call: String,";
                if public && !PLAIN.iter().any(|(of, known)| *of == file && (*known == name || *known == "*")) {
                    plain.push(format!("{file}: {name}: {kind}"));
                }
            }
        }
        assert!(plain.is_empty(), "use Shown, or add a row to PLAIN: {plain:#?}");
    }

    #[test]
    fn what_is_printed_is_clean_and_what_is_data_is_exact() {
        let name = Shown::from("p\naccepted\u{202e}");
        assert_eq!(format!("[{name:<24}]"), r"[p\naccepted\u{202e}     ]");
        assert_eq!(serde_json::to_value(&name).unwrap(), "p\naccepted\u{202e}");
        assert!(name == "p\naccepted\u{202e}");
    }
}
