//! Standard output, which may close before we are done: `kiln dump prog.o | head`.
//!
//! What a reader no longer wants is dropped, and the command still ends with the exit code of what it found.

use std::borrow::Cow;
use std::io::{ErrorKind, Write};

use kiln_inspect::show::shown::{escaped_json, is_visible};

/// Writes text; colours disappear if the stream is not a terminal or `NO_COLOR` is set.
pub fn write(text: &str) {
    written(&mut anstream::stdout().lock(), &harmless(text));
}

/// Writes data as it is. A terminal would obey what is in it: programs alone may get it.
pub fn exact(text: &str) {
    written(&mut std::io::stdout().lock(), text);
}

fn written(stream: &mut dyn Write, text: &str) {
    if let Err(error) = stream.write_all(text.as_bytes()).and_then(|()| stream.flush())
        && error.kind() != ErrorKind::BrokenPipe
    {
        let error = kiln_inspect::Error::io("standard output", &error);
        anstream::eprintln!("error: {error}");
        std::process::exit(error.exit_code().into());
    }
}

/// The text without what no output of ours has: whatever is printed came through [`kiln_inspect::Shown`] before, and is
/// looked at once more here, where it leaves. Lines, tabs and colours stay.
fn harmless(text: &str) -> Cow<'_, str> {
    let plain = |letter: char| is_visible(letter) || matches!(letter, '\n' | '\t');
    if text.chars().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let colour = rest.strip_prefix("\u{1b}[").and_then(|rest| {
            let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != ';')?;
            rest[end..].starts_with('m').then_some("\u{1b}[".len() + end + 1)
        });
        let length = colour.unwrap_or(letter.len_utf8());
        match colour.is_some() || plain(letter) {
            true => kept.push_str(&rest[..length]),
            false => kept.extend(letter.escape_unicode()),
        }
        rest = &rest[length..];
    }
    Cow::Owned(kept)
}

/// Bytes of a document that are held back at most.
const PIECE_BYTES: usize = 64 << 10;

/// A JSON document on its way to standard output, see [`escaped_json`].
#[derive(Default)]
pub struct Document(String);

impl Document {
    /// Ends it with a line break.
    pub fn finish(mut self) {
        self.0.push('\n');
        write(&self.0);
    }
}

impl std::io::Write for Document {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.push_str(&escaped_json(std::str::from_utf8(bytes).map_err(std::io::Error::other)?));
        if self.0.len() > PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        write(&std::mem::take(&mut self.0));
        Ok(())
    }
}

/// `println!` that survives a closed pipe.
#[macro_export]
macro_rules! say {
    ($($arguments:tt)*) => {
        $crate::output::write(&format!("{}\n", format_args!($($arguments)*)))
    };
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn only_lines_and_colours_get_through() {
        assert_eq!(harmless("a\tb\n\u{1b}[1;31mred\u{1b}[0m µ±…\n"), "a\tb\n\u{1b}[1;31mred\u{1b}[0m µ±…\n");
        assert_eq!(harmless("a\r\u{1b}[2Kb\u{1b}]0;c\u{7}\u{202e}"), r"a\u{d}\u{1b}[2Kb\u{1b}]0;c\u{7}\u{202e}");
        assert_eq!(harmless("\u{1b}[999"), r"\u{1b}[999");
    }
}
