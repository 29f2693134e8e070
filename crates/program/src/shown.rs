//! Makes text from input safe to show: names, source lines, and messages with them.
//!
//! An object, a rule file or a folder of evidence may come from an attacker, and so may every name in it. Printed
//! unchanged, a name can hide a line, move the cursor, or forge a verdict:
//!
//! ```text
//!   "p\naccepted q (xdp)"      a second line             p\naccepted q (xdp)        one line, escaped
//!   "p\u{1b}[2K"               erases the line           p\u{1b}[2K
//!   "p\u{202e}detpecca"        is shown backwards        p\u{202e}detpecca
//!   a name of a megabyte       fills the screen          its first characters, `…`, its last ones
//! ```
//!
//! All code that shows text from input to people uses this module: [`Clean`] for one line, [`CleanLines`] for a message
//! that may have several. Data (`--format json`, `.bpf` text, object files) keeps exact names, in the escapes of its
//! own format.

use std::fmt::{Display, Formatter, Result, Write};

/// Maximum number of characters of a word; the middle of a longer one is omitted. The kernel's longest symbol has 512
/// (`KSYM_NAME_LEN`).
pub const MAX_WORD_CHARS: usize = 512;
/// Maximum number of characters of a line; the rest is omitted.
pub const MAX_LINE_CHARS: usize = 4096;
/// Maximum number of lines of a message.
pub const MAX_LINES: usize = 256;

/// The mark for omitted characters.
const ELLIPSIS: char = '…';
/// The prefix of the second and later lines of a message, so that they do not look like separate output.
const CONTINUED: &str = "\n  | ";

/// One line. Control characters, line breaks, invisible characters and characters that change the reading direction are
/// escaped as in Rust.
#[derive(Clone, Copy, Debug)]
pub struct Clean<'a>(pub &'a str);

/// A message of several lines, each shown as by [`Clean`]; all but the first are indented.
#[derive(Clone, Copy, Debug)]
pub struct CleanLines<'a>(pub &'a str);

/// One line as [`Clean`] shows it.
pub fn clean(text: &str) -> String {
    Clean(text).to_string()
}

/// Whether a character is shown unescaped: letters, digits, punctuation and the space are. Characters without a shape
/// (Unicode's control, format and unassigned characters, separators, combining marks) are not.
pub fn is_visible(letter: char) -> bool {
    match letter {
        ' '..='~' => true,
        // Invisible letters.
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{2800}' => false,
        _ => !letter.is_ascii() && letter.escape_debug().len() == 1,
    }
}

impl Display for Clean<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let mut left = MAX_LINE_CHARS;
        for word in self.0.split_inclusive(' ') {
            let count = word.chars().count();
            if count <= MAX_WORD_CHARS.min(left) {
                word.chars().try_for_each(|letter| show(out, letter))?;
                left -= count;
                continue;
            }
            let whole = MAX_WORD_CHARS.min(left);
            word.chars().take(whole * 3 / 4).try_for_each(|letter| show(out, letter))?;
            out.write_char(ELLIPSIS)?;
            if left <= MAX_WORD_CHARS {
                return Ok(());
            }
            word.chars().skip(count - whole / 8).try_for_each(|letter| show(out, letter))?;
            left -= whole;
        }
        Ok(())
    }
}

fn show(out: &mut Formatter<'_>, letter: char) -> Result {
    match letter {
        letter if is_visible(letter) => out.write_char(letter),
        // A line record's text is indented by tabs.
        '\t' => out.write_char(' '),
        '\n' | '\r' | '\0' => write!(out, "{}", letter.escape_debug()),
        letter => write!(out, "{}", letter.escape_unicode()),
    }
}

impl Display for CleanLines<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let mut lines = self.0.trim_end().split('\n');
        write!(out, "{}", Clean(lines.next().unwrap_or_default()))?;
        for (number, line) in lines.enumerate() {
            if number + 1 == MAX_LINES {
                return write!(out, "{CONTINUED}{ELLIPSIS}");
            }
            write!(out, "{CONTINUED}{}", Clean(line.trim_end_matches('\r')))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_shape_is_escaped() {
        assert_eq!(clean("p\naccepted q"), r"p\naccepted q");
        assert_eq!(clean("p\u{1b}[2K\u{9b}31m\r\0"), r"p\u{1b}[2K\u{9b}31m\r\0");
        let hidden =
            "\u{202e}\u{2066}\u{200b}\u{200d}\u{feff}\u{2028}\u{ad}\u{e0041}\u{3164}\u{7f}\u{301}\u{a0}\u{fffe}";
        assert!(hidden.chars().all(|letter| !is_visible(letter)), "{}", clean(hidden));
        assert!(clean(hidden).is_ascii(), "{}", clean(hidden));
        assert_eq!(clean("größe 名前 \"a\\b\"\t|"), "größe 名前 \"a\\b\" |");
    }

    #[test]
    fn what_is_long_is_cut() {
        let word = clean(&format!("no program {}; there are: p", "x".repeat(1 << 20)));
        assert!(word.starts_with("no program xxx") && word.ends_with("x; there are: p"), "{word}");
        assert!(word.chars().count() < MAX_WORD_CHARS + 40);
        let line = clean(&"word ".repeat(1 << 18));
        assert!(line.ends_with('…') && line.chars().count() <= MAX_LINE_CHARS + 1, "{}", line.len());
        assert_eq!(clean(&"é".repeat(MAX_WORD_CHARS)).chars().count(), MAX_WORD_CHARS);
    }

    #[test]
    fn further_lines_cannot_be_taken_for_output() {
        assert_eq!(CleanLines("refused:\nR1 !read_ok\r\n").to_string(), "refused:\n  | R1 !read_ok");
        let many = CleanLines(&"line\n".repeat(10_000)).to_string();
        assert_eq!(many.lines().count(), MAX_LINES + 1);
    }
}
