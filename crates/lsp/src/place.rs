//! Places: between paths and addresses of the protocol, and between clang's columns (bytes, from 1) and the protocol's
//! (units of UTF-16, from 0).

use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use kiln_driver::{Error, file};
use lsp_types::{Position, Range, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// What stands for itself in the path of an address.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_').remove(b'~');

/// The path of a `file:` address.
pub fn path_of(uri: &Uri) -> Option<PathBuf> {
    let path = uri.as_str().strip_prefix("file://")?;
    let bytes: Vec<u8> = percent_decode_str(path).collect();
    bytes.starts_with(b"/").then(|| PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

/// The address of an absolute path.
pub fn uri_of(path: &Path) -> Option<Uri> {
    format!("file://{}", percent_encode(path.as_os_str().as_bytes(), PLAIN)).parse().ok()
}

/// Bytes of a source that is read, at most.
const MAX_SOURCE_BYTES: u64 = 64 << 20;

/// The text of a source.
///
/// # Errors
/// As [`file::check_regular`] and [`file::read`].
pub fn text_of(path: &Path) -> Result<String, Error> {
    file::check_regular(path)?;
    let bytes = file::read(path, MAX_SOURCE_BYTES)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The text of a file in lines, from which columns are counted.
#[derive(Default)]
pub struct Lines(Vec<String>);

impl Lines {
    /// The lines of a file; none if it cannot be read.
    pub fn read(path: &Path) -> Lines {
        Lines(text_of(path).unwrap_or_default().lines().map(str::to_owned).collect())
    }

    /// From a line and a column as clang counts them to the end of the code on that line. Without a column, the whole
    /// line without its indent.
    pub fn range(&self, line: u32, column: Option<u32>) -> Range {
        let number = line.saturating_sub(1);
        let text = self.0.get(number as usize).map_or("", String::as_str);
        let indent = text.len() - text.trim_start().len();
        let start = column.map_or(indent, |column| column.saturating_sub(1) as usize);
        let units =
            |bytes: usize| text.char_indices().take_while(|(at, _)| *at < bytes).map(|(_, c)| c.len_utf16()).sum();
        let [start, end]: [usize; 2] = [start, text.trim_end().len()].map(units);
        let position = |character: usize| Position { line: number, character: character as u32 };
        Range { start: position(start), end: position(end.max(start)) }
    }

    /// The end of a line, after its code.
    pub fn end(&self, line: u32) -> Position {
        self.range(line, None).end
    }

    /// The first line, from 1, that holds a text as a word.
    pub fn word(&self, word: &str) -> Option<u32> {
        let part = |c: char| c.is_alphanumeric() || c == '_';
        let whole = |line: &String| {
            line.match_indices(word)
                .any(|(at, _)| !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part))
        };
        self.0.iter().position(whole).map(|at| at as u32 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_paths_are_each_other() {
        let path = Path::new("/a b/ü%/x.bpf.c");
        let uri = uri_of(path).expect("an address");
        assert_eq!(uri.as_str(), "file:///a%20b/%C3%BC%25/x.bpf.c");
        assert_eq!(path_of(&uri).as_deref(), Some(path));
        assert!(path_of(&"untitled:x".parse().expect("an address")).is_none());
    }

    #[test]
    fn columns_are_counted_in_units() {
        let lines = Lines(vec!["\tint ä𝄞 = x; ".to_owned(), "int xy, x;".to_owned()]);
        // ä has two bytes and one unit, 𝄞 four bytes and two units.
        let range = lines.range(1, Some(15));
        assert_eq!((range.start.character, range.end.character), (11, 13));
        assert_eq!(lines.range(1, None).start.character, 1);
        assert_eq!(lines.range(9, Some(4)), Range::new(Position::new(8, 0), Position::new(8, 0)));
        assert_eq!(lines.word("x"), Some(1));
        assert_eq!(lines.word("xy"), Some(2));
    }
}
