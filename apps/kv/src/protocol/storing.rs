//! Requests that store a value.

use std::sync::atomic::Ordering;

use super::service::Service;
use super::step::{Step, Waiting};
use super::{number, program};
use crate::store::{Change, Condition, Found, KEY_MOST, Outcome, Store, VALUE_MOST};

/// The largest size of a value that is a size at all.
const BYTES_MOST: u64 = i32::MAX as u64 - 2;

/// What a value is stored as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// As the key's value, on a condition.
    Whole(Condition),
    /// After the old value.
    Append,
    /// Before the old value.
    Prepend,
}

/// A request that waits for its value.
struct Storing {
    key: Vec<u8>,
    flags: u32,
    expires: u64,
    bytes: usize,
    mode: Mode,
    quiet: bool,
}

/// Words of `<command> key flags seconds bytes [version] [noreply]`.
pub fn line(service: &Service<'_>, words: &[&[u8]], output: &mut Vec<u8>) -> Step {
    let is_cas = words[0] == b"cas";
    let count = if is_cas { 6 } else { 5 };
    if words.len() != count && words.len() != count + 1 {
        output.extend(b"ERROR\r\n");
        return Step::Done;
    }
    let Some(storing) = read(words, is_cas) else {
        if words.last() != Some(&&b"noreply"[..]) {
            output.extend(b"CLIENT_ERROR bad command line format\r\n");
        }
        return Step::Done;
    };
    if storing.bytes > VALUE_MOST {
        // What was there is not what the client wanted to be there.
        if storing.mode == Mode::Whole(Condition::Any) {
            service.store.delete(&storing.key);
        }
        if !storing.quiet {
            output.extend(b"SERVER_ERROR object too large for cache\r\n");
        }
        return Step::Skip(storing.bytes.saturating_add(2));
    }
    Step::Value(Box::new(storing))
}

fn read(words: &[&[u8]], is_cas: bool) -> Option<Storing> {
    let mode = match words[0] {
        b"set" => Mode::Whole(Condition::Any),
        b"add" => Mode::Whole(Condition::Absent),
        b"replace" => Mode::Whole(Condition::Present),
        b"append" => Mode::Append,
        b"prepend" => Mode::Prepend,
        _ => Mode::Whole(Condition::Version(number::unsigned(words[5])?)),
    };
    Some(Storing {
        key: Some(words[1]).filter(|key| key.len() <= KEY_MOST)?.to_vec(),
        // Of more than 32 bits memcached keeps the lower ones too.
        flags: number::unsigned(words[2])? as u32,
        expires: number::expires(words[3])?,
        bytes: number::unsigned(words[4]).filter(|bytes| *bytes <= BYTES_MOST)? as usize,
        mode,
        quiet: words.get(if is_cas { 6 } else { 5 }).is_some_and(|word| *word == b"noreply"),
    })
}

impl Waiting for Storing {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn is_quiet(&self) -> bool {
        self.quiet
    }

    fn refuse(self: Box<Self>, output: &mut Vec<u8>) {
        if !self.quiet {
            output.extend(b"CLIENT_ERROR bad data chunk\r\n");
        }
    }

    fn store(self: Box<Self>, service: &Service<'_>, value: &[u8], output: &mut Vec<u8>) {
        if let Some(owner) = service.program {
            let answer = match self.mode {
                Mode::Whole(Condition::Any) => program::set(owner, &self.key, self.flags, self.expires, value),
                _ => program::MISSING.to_vec(),
            };
            if !self.quiet {
                output.extend(answer);
            }
            return;
        }
        service.statistics.sets.fetch_add(1, Ordering::Relaxed);
        let outcome = match self.mode {
            Mode::Whole(condition) => service.store.put(&self.key, self.flags, self.expires, value, condition),
            mode => joined(&service.store, &self.key, value, mode == Mode::Append),
        };
        if !self.quiet {
            output.extend(answer(self.mode, outcome));
        }
    }
}

fn answer(mode: Mode, outcome: Outcome) -> &'static [u8] {
    match (outcome, mode) {
        (Outcome::Stored, _) => b"STORED\r\n",
        (Outcome::Exists, Mode::Whole(Condition::Version(_))) => b"EXISTS\r\n",
        (Outcome::NotFound, Mode::Whole(Condition::Version(_))) => b"NOT_FOUND\r\n",
        (Outcome::Exists | Outcome::NotFound, _) => b"NOT_STORED\r\n",
        (Outcome::NoMemory, _) => b"SERVER_ERROR out of memory storing object\r\n",
    }
}

/// Replaces a key's value by what `change` makes of the old one. Flags and time stay, and the item's marks unless the value gets longer.
/// `Err` is what `change` refuses with.
pub fn changed<E>(
    store: &Store<'_>,
    key: &[u8],
    change: impl Fn(&Found) -> Result<Vec<u8>, E>,
) -> Result<(Outcome, Vec<u8>), E> {
    let result = store.update(key, |found| {
        let Some(found) = found else { return (Change::Keep, Ok((Outcome::NotFound, Vec::new()))) };
        match change(found) {
            Err(error) => (Change::Keep, Err(error)),
            Ok(value) => {
                let (flags, expires) = (found.flags(), found.expires);
                let put = Change::Put {
                    flags,
                    expires,
                    marks: if value.len() > found.value_bytes { 0 } else { found.marks },
                    value: value.clone(),
                };
                (put, Ok((Outcome::Stored, value)))
            }
        }
    });
    result.unwrap_or_else(|_| Ok((Outcome::NoMemory, Vec::new())))
}

fn joined(store: &Store<'_>, key: &[u8], value: &[u8], after: bool) -> Outcome {
    let join = |found: &Found| {
        let both = if after { [found.value(), value].concat() } else { [value, found.value()].concat() };
        if both.len() > VALUE_MOST { Err(()) } else { Ok(both) }
    };
    // What gets too long is not stored, like what is not there.
    changed(store, key, join).map_or(Outcome::NotFound, |(outcome, _)| outcome)
}
