//! Requests of Redis' protocol: bytes to words.
//!
//! ```text
//!   *2\r\n$3\r\nGET\r\n$1\r\nk\r\n     an array of bulk strings
//!   GET "k"\r\n                        or a line
//! ```
//!
//! What has been read of an incomplete request is kept, so that bytes are looked at once. Its size is bounded, and nothing is
//! allocated because a client says that it will come.

use std::ops::Range;

use crate::protocol::KEPT_BYTES;

/// The longest line: of a request, or one that says how much comes.
const LINE_MOST: usize = 64 << 10;
/// The longest word, as Redis calls it `proto-max-bulk-len`; this is the least that Redis can be set to.
pub const WORD_MOST: usize = 1 << 20;
/// Words of one request.
const WORDS_MOST: i64 = 1 << 20;
/// Bytes of one request.
pub const REQUEST_MOST: usize = 16 << 20;
/// What clients may send before they have said the password.
const STRANGER: (i64, usize) = (10, 16 << 10);

/// Words of most requests: as many are kept without an allocation.
const FEW: usize = 8;

/// The words of a request.
pub enum Words<'r> {
    /// The first so many of these.
    Few([&'r [u8]; FEW], usize),
    /// More of them.
    Many(Vec<&'r [u8]>),
}

impl<'r> Words<'r> {
    /// Collects words whose count is known.
    fn collect(words: impl ExactSizeIterator<Item = &'r [u8]>) -> Words<'r> {
        let count = words.len();
        if count > FEW {
            return Words::Many(words.collect());
        }
        let mut few = [&[][..]; FEW];
        few.iter_mut().zip(words).for_each(|(place, word)| *place = word);
        Words::Few(few, count)
    }

    /// All of them.
    pub fn as_slice(&self) -> &[&'r [u8]] {
        match self {
            Words::Few(words, count) => &words[..*count],
            Words::Many(words) => words,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }
}

/// Why a connection ends.
pub type Broken = String;

/// Bytes that are not served yet.
#[derive(Default)]
pub struct Requests {
    input: Vec<u8>,
    /// Where the request begins.
    begin: usize,
    /// How far it has been read, from there.
    read: usize,
    /// Words of it that are missing, if it is an array.
    missing: Option<usize>,
    /// The size of the next word, if that is known.
    size: Option<usize>,
    words: Vec<Range<usize>>,
    /// Of lines: words that are not as they were sent.
    unquoted: Vec<Vec<u8>>,
}

impl Requests {
    /// Adds what has arrived.
    pub fn arrived(&mut self, bytes: &[u8]) {
        self.input.drain(..self.begin);
        self.begin = 0;
        self.input.extend_from_slice(bytes);
    }

    /// Bytes that are kept.
    pub fn kept(&self) -> usize {
        self.input.len() - self.begin
    }

    /// Bytes of memory that are taken for them.
    pub fn memory(&self) -> usize {
        self.input.capacity() + self.words.capacity() * size_of::<Range<usize>>()
    }

    /// The words of the next request, which [`Requests::done`] removes; `None` if it is not complete. It may have no words.
    ///
    /// # Errors
    /// Returns what Redis tells a client whose connection it closes.
    pub fn next(&mut self, is_stranger: bool) -> Result<Option<Words<'_>>, Broken> {
        match self.input.get(self.begin) {
            None => return Ok(None),
            Some(b'*') => {}
            Some(_) => return self.line(),
        }
        let all = &self.input[self.begin..];
        let mut missing = match self.missing {
            Some(missing) => missing,
            None => {
                let Some(line) = line_at(all, 1, "mbulk count")? else { return Ok(None) };
                let count = number(&all[line.clone()]).filter(|count| *count <= WORDS_MOST);
                let count = count.ok_or("invalid multibulk length")?;
                if is_stranger && count > STRANGER.0 {
                    return Err("unauthenticated multibulk length".to_owned());
                }
                self.read = line.end + 2;
                count.max(0) as usize
            }
        };
        while missing > 0 {
            self.missing = Some(missing);
            let size = match self.size {
                Some(size) => size,
                None => {
                    let Some(line) = line_at(all, self.read, "bulk count")? else { break };
                    match all[line.start] {
                        b'$' => {}
                        other => return Err(format!("expected '$', got '{}'", char::from(other))),
                    }
                    let size = number(&all[line.start + 1..line.end]).and_then(|size| usize::try_from(size).ok());
                    let size = size.filter(|size| *size <= WORD_MOST).ok_or("invalid bulk length")?;
                    if is_stranger && size > STRANGER.1 {
                        return Err("unauthenticated bulk length".to_owned());
                    }
                    self.read = line.end + 2;
                    size
                }
            };
            self.size = Some(size);
            if self.read + size + 2 > REQUEST_MOST {
                return Err("too big request".to_owned());
            }
            if all.len() < self.read + size + 2 {
                break;
            }
            self.words.push(self.read..self.read + size);
            self.read += size + 2;
            self.size = None;
            missing -= 1;
        }
        self.missing = Some(missing);
        Ok((missing == 0).then(|| Words::collect(self.words.iter().map(|word| &all[word.clone()]))))
    }

    fn line(&mut self) -> Result<Option<Words<'_>>, Broken> {
        let all = &self.input[self.begin..];
        // The line may have been returned before: a long reply is written in several turns.
        let known = all[..self.read].last() == Some(&b'\n');
        let from = self.read - usize::from(known);
        let Some(end) = all.iter().skip(from).position(|byte| *byte == b'\n').map(|at| at + from) else {
            self.read = all.len();
            return if all.len() > LINE_MOST { Err("too big inline request".to_owned()) } else { Ok(None) };
        };
        self.read = end + 1;
        let line = all[..end].strip_suffix(b"\r").unwrap_or(&all[..end]);
        self.unquoted = split(line).ok_or("unbalanced quotes in request")?;
        Ok(Some(Words::collect(self.unquoted.iter().map(|word| &word[..]))))
    }

    /// Removes the request that [`Requests::next`] has returned.
    pub fn done(&mut self) {
        self.begin += self.read;
        (self.read, self.missing, self.size) = (0, None, None);
        self.words.clear();
        self.words.shrink_to(KEPT_BYTES / size_of::<Range<usize>>());
        self.unquoted.clear();
        if self.begin == self.input.len() {
            self.input.clear();
            self.input.shrink_to(KEPT_BYTES);
            self.begin = 0;
        }
    }
}

/// The line from a place on; `None` if it is not complete, with at least one byte in it or behind it.
fn line_at(all: &[u8], from: usize, what: &str) -> Result<Option<Range<usize>>, Broken> {
    let rest = all.get(from..).unwrap_or_default();
    match rest.iter().take(LINE_MOST + 1).position(|byte| *byte == b'\r') {
        Some(at) if rest.len() > at + 1 => Ok(Some(from..from + at)),
        None if rest.len() > LINE_MOST => Err(format!("too big {what} string")),
        _ => Ok(None),
    }
}

/// A number as Redis prints it: no sign but `-`, no zeros before it.
pub fn number(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    // Of negative numbers, there is one more.
    digits.iter().try_fold(0i64, |number, byte| {
        let digit = i64::from(byte.wrapping_sub(b'0'));
        let more = number.checked_mul(10).filter(|_| digit <= 9)?;
        if is_negative { more.checked_sub(digit) } else { more.checked_add(digit) }
    })
}

fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// A line's words, of which some may be in quotes; `None` if a quote has no end.
fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = &rest[rest.iter().position(|byte| !is_space(byte) && *byte != 0).unwrap_or(rest.len())..];
        if rest.is_empty() {
            return Some(words);
        }
        let mut word = Vec::new();
        loop {
            match rest {
                [] | [0, ..] => break,
                [space, ..] if is_space(space) => break,
                [b'"', inner @ ..] => {
                    rest = quoted(inner, &mut word)?;
                    break;
                }
                [b'\'', inner @ ..] => {
                    rest = literal(inner, &mut word)?;
                    break;
                }
                [byte, next @ ..] => {
                    word.push(*byte);
                    rest = next;
                }
            }
        }
        words.push(word);
    }
}

/// Reads up to the closing quote, which a space or the end follows.
fn quoted<'l>(mut rest: &'l [u8], word: &mut Vec<u8>) -> Option<&'l [u8]> {
    let hex = |digit: &u8| char::from(*digit).to_digit(16);
    loop {
        rest = match rest {
            [b'\\', b'x', high, low, next @ ..] if hex(high).is_some() && hex(low).is_some() => {
                word.push((hex(high)? << 4 | hex(low)?) as u8);
                next
            }
            [b'\\', escaped, next @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                next
            }
            [b'"', next @ ..] => return ended(next),
            [byte, next @ ..] => {
                word.push(*byte);
                next
            }
            [] => return None,
        };
    }
}

fn literal<'l>(mut rest: &'l [u8], word: &mut Vec<u8>) -> Option<&'l [u8]> {
    loop {
        rest = match rest {
            [b'\\', b'\'', next @ ..] => {
                word.push(b'\'');
                next
            }
            [b'\'', next @ ..] => return ended(next),
            [byte, next @ ..] => {
                word.push(*byte);
                next
            }
            [] => return None,
        };
    }
}

fn ended(rest: &[u8]) -> Option<&[u8]> {
    rest.first().is_none_or(|byte| is_space(byte) || *byte == 0).then_some(rest)
}
