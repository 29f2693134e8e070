//! Commands and comments of a file, with their places. Nothing is allocated because a file says that it will come.

use std::io::{self, BufRead, Read as _};

/// The longest line.
const LINE_MOST: u64 = 1024;
/// Words of a command.
const WORDS_MOST: usize = 1 << 21;
/// Bytes of a word.
const WORD_MOST: usize = 512 << 20;

/// What is wrong with an input.
#[derive(Debug)]
pub enum Bad {
    /// It ends too early.
    Truncated,
    /// It is no log.
    Damaged(String),
    /// It cannot be read.
    Io(io::Error),
}

impl From<io::Error> for Bad {
    fn from(error: io::Error) -> Bad {
        Bad::Io(error)
    }
}

/// What is at a place.
#[derive(PartialEq, Eq, Debug)]
pub enum Entry {
    /// A comment, with its end of line.
    Comment(Vec<u8>),
    /// A command's words.
    Command(Vec<Vec<u8>>),
}

/// Bytes that are read.
pub struct Input<R> {
    inner: R,
    /// Bytes that were read.
    pub offset: u64,
}

impl<R: BufRead> Input<R> {
    /// Reads from the beginning.
    pub fn new(inner: R) -> Input<R> {
        Input { inner, offset: 0 }
    }

    /// A line with its end; `None` if there is nothing more.
    fn line(&mut self) -> Result<Option<Vec<u8>>, Bad> {
        let mut line = Vec::new();
        let bytes = self.inner.by_ref().take(LINE_MOST).read_until(b'\n', &mut line)?;
        self.offset += bytes as u64;
        match line.last() {
            None => Ok(None),
            Some(b'\n') => Ok(Some(line)),
            Some(_) if bytes as u64 == LINE_MOST => Err(Bad::Damaged("a line is too long".to_owned())),
            Some(_) => Err(Bad::Truncated),
        }
    }

    /// So many bytes.
    pub fn exact(&mut self, count: usize) -> Result<Vec<u8>, Bad> {
        let mut bytes = Vec::new();
        self.inner.by_ref().take(count as u64).read_to_end(&mut bytes)?;
        self.offset += bytes.len() as u64;
        if bytes.len() == count { Ok(bytes) } else { Err(Bad::Truncated) }
    }

    fn count(&mut self, kind: u8, most: usize) -> Result<usize, Bad> {
        let line = self.line()?.ok_or(Bad::Truncated)?;
        count_of(&line, kind, most)
    }

    /// What is next; `None` at the end.
    pub fn entry(&mut self) -> Result<Option<Entry>, Bad> {
        let Some(line) = self.line()? else { return Ok(None) };
        if line[0] == b'#' {
            return Ok(Some(Entry::Comment(line)));
        }
        let mut words = Vec::new();
        for _ in 0..count_of(&line, b'*', WORDS_MOST)? {
            let bytes = self.count(b'$', WORD_MOST)?;
            let mut word = self.exact(bytes + 2)?;
            if word.split_off(bytes) != b"\r\n" {
                return Err(Bad::Damaged("a word has another size than it says".to_owned()));
            }
            words.push(word);
        }
        Ok(Some(Entry::Command(words)))
    }
}

fn count_of(line: &[u8], kind: u8, most: usize) -> Result<usize, Bad> {
    let digits = line.strip_suffix(b"\r\n").and_then(|line| line.strip_prefix(&[kind]));
    let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_digit));
    let count = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    let count = count.filter(|count| *count <= most);
    count.ok_or_else(|| Bad::Damaged(format!("there is no {}", if kind == b'*' { "command" } else { "word" })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_comments_are_read() {
        let mut input = Input::new(&b"#TS:1\r\n*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n"[..]);
        assert_eq!(input.entry().expect("reads"), Some(Entry::Comment(b"#TS:1\r\n".to_vec())));
        assert_eq!(input.entry().expect("reads"), Some(Entry::Command(vec![b"DEL".to_vec(), b"k".to_vec()])));
        assert_eq!(input.entry().expect("reads"), None);
        assert_eq!(input.offset, 27);
    }

    #[test]
    fn what_is_cut_is_told_from_what_is_damaged() {
        let whole = b"*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n";
        for end in 1..whole.len() {
            assert!(matches!(Input::new(&whole[..end]).entry(), Err(Bad::Truncated)), "{end}");
        }
        for text in ["x\r\n", "*x\r\n", "*2\r\n*3\r\n", "*1\r\n$1\r\nkk\r\n", "*99999999\r\n", "\0\0\n"] {
            assert!(matches!(Input::new(text.as_bytes()).entry(), Err(Bad::Damaged(_))), "{text}");
        }
        assert!(matches!(Input::new(&[0; 4096][..]).entry(), Err(Bad::Damaged(_))));
    }
}
