//! `ms`: a value that waits for its bytes, and how it is stored.

use std::sync::atomic::Ordering;

use super::answer::{self, bytes_of};
use super::flags::{self, BAD_FORMAT, Flags, Refused, WORDS_MOST};
use crate::protocol::number;
use crate::protocol::service::Service;
use crate::protocol::step::{Step, Waiting};
use crate::store::{Change, Found, VALUE_MOST, mark};

/// The largest size of a value that is a size at all.
const BYTES_MOST: u64 = i32::MAX as u64 - 2;

/// How a value is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
}

/// A value that waits for its bytes. The words are read again when it has come.
struct Set {
    key: Vec<u8>,
    words: Vec<Vec<u8>>,
    bytes: usize,
    mode: Mode,
}

/// Serves the line of `ms`.
pub fn line(service: &Service<'_>, words: &[&[u8]]) -> Result<Step, Refused> {
    if words.len() == 2 {
        return Err((BAD_FORMAT, Step::Done));
    }
    if words.len() >= WORDS_MOST {
        return Err(("CLIENT_ERROR options flags too long", Step::Done));
    }
    let bytes =
        number::unsigned(words[2]).filter(|bytes| *bytes <= BYTES_MOST).ok_or((BAD_FORMAT, Step::Done))? as usize;
    let skip = |error| (error, Step::Skip(bytes + 2));
    let flags = flags::read(words[1], &words[3..]).map_err(skip)?;
    let mode = match flags.mode {
        None | Some(b'S') => Mode::Set,
        Some(b'E') => Mode::Add,
        Some(b'R') => Mode::Replace,
        Some(b'A') => Mode::Append,
        Some(b'P') => Mode::Prepend,
        Some(_) => return Err(skip("CLIENT_ERROR invalid mode for ms M token")),
    };
    flags.opaque().map_err(skip)?;
    if bytes > VALUE_MOST {
        // What was there is not what the client wanted to be there.
        service.store.delete(&flags.key);
        return Err(skip("SERVER_ERROR object too large for cache"));
    }
    let words_kept = words[3..].iter().map(|word| word.to_vec()).collect();
    Ok(Step::Value(Box::new(Set { key: words[1].to_vec(), words: words_kept, bytes, mode })))
}

/// The value behind or before the old one; `None` for other modes.
fn joined(mode: Mode, found: &Found, value: &[u8]) -> Option<Vec<u8>> {
    match mode {
        Mode::Append => Some([found.value(), value].concat()),
        Mode::Prepend => Some([value, found.value()].concat()),
        Mode::Set | Mode::Add | Mode::Replace => None,
    }
}

fn change(mode: Mode, flags: &Flags<'_>, found: Option<&Found>, value: &[u8]) -> (Change, &'static str) {
    let mut marks = if flags.is_binary { mark::BINARY } else { 0 };
    let mut expires = flags.expires.unwrap_or(0);
    // Where a value is joined with another one, 0 is any version.
    let is_joined = matches!(mode, Mode::Append | Mode::Prepend);
    let is_versioned = mode != Mode::Add && flags.version.is_some_and(|version| version != 0 || !is_joined);
    match found {
        None if is_versioned && matches!(mode, Mode::Set | Mode::Replace) => return (Change::Keep, "NF"),
        None if matches!(mode, Mode::Replace | Mode::Append | Mode::Prepend) => return (Change::Keep, "NS"),
        Some(_) if mode == Mode::Add => return (Change::Keep, "NS"),
        Some(found) if is_versioned && flags.version != Some(found.version) => {
            let is_older = flags.version.is_some_and(|version| version != 0 && version < found.version);
            if !(flags.stale && is_older && matches!(mode, Mode::Set | Mode::Replace)) {
                return (Change::Keep, "EX");
            }
            // A value of an older version: better than none, and marked.
            marks |= mark::STALE | found.marks & mark::SENT;
            expires = found.expires;
        }
        _ => {}
    }
    if let Some(both) = found.and_then(|found| joined(mode, found, value)) {
        let (flags, expires) = found.map_or((0, 0), |found| (found.flags(), found.expires));
        if both.len() > VALUE_MOST {
            return (Change::Keep, "NS");
        }
        return (Change::Put { flags, expires, marks: 0, value: both }, "HD");
    }
    (Change::Put { flags: flags.client_flags, expires, marks, value: value.to_vec() }, "HD")
}

impl Waiting for Set {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn refuse(self: Box<Self>, output: &mut Vec<u8>) {
        output.extend_from_slice(b"CLIENT_ERROR bad data chunk\r\n");
    }

    fn store(self: Box<Self>, service: &Service<'_>, value: &[u8], output: &mut Vec<u8>) {
        let words: Vec<&[u8]> = self.words.iter().map(|word| &word[..]).collect();
        let Ok(flags) = flags::read(&self.key, &words) else { return };
        service.statistics.sets.fetch_add(1, Ordering::Relaxed);
        let mut version = 0;
        let outcome = service.store.update_versioned(&flags.key, |found, next_version| {
            version = next_version;
            change(self.mode, &flags, bytes_of(found), value)
        });
        match outcome {
            Ok("HD") if flags.is_quiet => {}
            Ok(code) => answer::with_version(code, &flags, Some(if code == "HD" { version } else { 0 }), output),
            Err(_) => {
                // As for `set`: the old value is not what the client believes to have stored.
                if self.mode == Mode::Set {
                    service.store.delete(&flags.key);
                }
                output.extend_from_slice(b"SERVER_ERROR out of memory storing object\r\n");
            }
        }
    }
}
