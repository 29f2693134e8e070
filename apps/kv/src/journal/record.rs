//! Records: changes as Redis' commands, which leave the same state however often they are repeated.
//!
//! ```text
//!   *5\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n$4\r\nPXAT\r\n$13\r\n1790000000000\r\n
//! ```
//!
//! What only memcached's protocol knows of a value is in a comment before its `SET`, which Redis leaves out: `#M:flags marks`.

use crate::clock;
use crate::digits;

/// What begins the comment with a value's flags and marks.
pub const MARKS: &[u8] = b"#M:";
/// Words of the longest command about an object.
const WORDS_MOST: usize = 1024;
/// Bytes from which on such a command ends.
const BYTES_MANY: usize = 1 << 20;

fn word(to: &mut Vec<u8>, word: &[u8]) {
    to.push(b'$');
    digits::push(to, word.len() as u64);
    to.extend_from_slice(b"\r\n");
    to.extend_from_slice(word);
    to.extend_from_slice(b"\r\n");
}

fn count(to: &mut Vec<u8>, count: usize) {
    to.push(b'*');
    digits::push(to, count as u64);
    to.extend_from_slice(b"\r\n");
}

/// Appends a command.
pub fn command(to: &mut Vec<u8>, words: &[&[u8]]) {
    count(to, words.len());
    words.iter().for_each(|text| word(to, text));
}

/// A time of the store's clock as it is in commands: a date, of which Redis knows 63 bits.
fn time(at: u64) -> Vec<u8> {
    let mut text = Vec::with_capacity(20);
    digits::push(&mut text, clock::date(at));
    text
}

/// A string and all that is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Text<'t> {
    /// Its key.
    pub key: &'t [u8],
    /// Its bytes.
    pub value: &'t [u8],
    /// What memcached's clients say that it is.
    pub flags: u32,
    /// What memcached's meta commands know of it.
    pub marks: u32,
    /// When it ends, in milliseconds of the store's clock; 0: never.
    pub expires: u64,
}

impl Text<'_> {
    /// Appends the command that sets it.
    pub fn append(&self, to: &mut Vec<u8>) {
        if self.flags != 0 || self.marks != 0 {
            to.extend_from_slice(MARKS);
            digits::push(to, u64::from(self.flags));
            to.push(b' ');
            digits::push(to, u64::from(self.marks));
            to.extend_from_slice(b"\r\n");
        }
        match self.expires {
            0 => command(to, &[b"SET", self.key, self.value]),
            at => command(to, &[b"SET", self.key, self.value, b"PXAT", &time(at)]),
        }
    }
}

/// Appends the command that removes a key.
pub fn remove(to: &mut Vec<u8>, key: &[u8]) {
    command(to, &[b"DEL", key]);
}

/// Appends the command that sets when a key ends; 0: never.
pub fn expire(to: &mut Vec<u8>, key: &[u8], expires: u64) {
    match expires {
        0 => command(to, &[b"PERSIST", key]),
        at => command(to, &[b"PEXPIREAT", key, &time(at)]),
    }
}

/// Commands that change an object, of which several changes are one.
#[derive(Default)]
pub struct Changes {
    key: Vec<u8>,
    name: &'static [u8],
    /// Words of the command that is not complete, behind name and key.
    words: usize,
    open: Vec<u8>,
    done: Vec<u8>,
}

impl Changes {
    /// No change of a key's object.
    pub fn new(key: &[u8]) -> Changes {
        Changes { key: key.to_vec(), ..Changes::default() }
    }

    /// Adds a change: a command, and its words behind the key.
    pub fn add(&mut self, name: &'static [u8], words: &[&[u8]]) {
        if self.name != name || self.words + words.len() > WORDS_MOST || self.open.len() > BYTES_MANY {
            self.end();
            self.name = name;
        }
        self.words += words.len();
        words.iter().for_each(|text| word(&mut self.open, text));
    }

    fn end(&mut self) {
        if self.words > 0 {
            count(&mut self.done, self.words + 2);
            word(&mut self.done, self.name);
            word(&mut self.done, &self.key);
            self.done.append(&mut self.open);
            self.words = 0;
        }
    }

    /// The commands.
    pub fn finish(mut self) -> Vec<u8> {
        self.end();
        self.done
    }
}

/// A score as text that reads as the same number.
pub fn score(score: f64) -> Vec<u8> {
    format!("{score:?}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_one_kind_are_one_command() {
        let mut changes = Changes::new(b"k");
        changes.add(b"HSET", &[b"a", b"1"]);
        changes.add(b"HSET", &[b"b", b"2"]);
        changes.add(b"HDEL", &[b"a"]);
        let wanted = "*6\r\n$4\r\nHSET\r\n$1\r\nk\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n\
                      *3\r\n$4\r\nHDEL\r\n$1\r\nk\r\n$1\r\na\r\n";
        assert_eq!(String::from_utf8_lossy(&changes.finish()), wanted);
        assert!(Changes::new(b"k").finish().is_empty());
    }

    #[test]
    fn times_and_marks_are_beside_a_value() {
        let mut record = Vec::new();
        Text { key: b"k", value: b"v", flags: 7, marks: 0, expires: u64::MAX }.append(&mut record);
        let wanted = "#M:7 0\r\n*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n$4\r\nPXAT\r\n$19\r\n9223372036854775807\r\n";
        assert_eq!(String::from_utf8_lossy(&record), wanted);
    }
}
