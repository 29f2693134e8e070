//! `ma`: counters.

use super::answer::{self, Told, bytes_of};
use super::flags::Flags;
use crate::protocol::number::added;
use crate::protocol::service::Service;
use crate::store::{Change, Found, mark};

/// What became of a counter.
enum Outcome {
    /// Its text, without what is behind the number, what its item is, and when it expired before; `None` for a new item.
    Counted(Vec<u8>, Told, Option<u64>),
    /// Nothing was counted.
    Not(&'static str),
    NoNumber,
}

fn put(value: &[u8], told: &Told) -> Change {
    Change::Put { flags: told.flags, expires: told.expires, marks: told.marks, value: value.to_vec() }
}

fn change(flags: &Flags<'_>, is_up: bool, found: Option<&Found>, version: u64) -> (Change, Outcome) {
    let Some(found) = bytes_of(found) else {
        let Some(expires) = flags.vivify else { return (Change::Keep, Outcome::Not("NF")) };
        let value = flags.initial.to_string().into_bytes();
        // Of `T` and `N`, the last one counts.
        let last = flags.words.iter().rev().find(|word| matches!(word[0], b'T' | b'N'));
        let expires = if last.is_some_and(|word| word[0] == b'T') { flags.expires.unwrap_or(expires) } else { expires };
        let told = Told { value_bytes: value.len(), flags: 0, expires, version, marks: 0 };
        return (put(&value, &told), Outcome::Counted(value, told, None));
    };
    // As in memcached, a value without bytes is looked at first.
    if found.value_bytes == 0 {
        return (Change::Keep, Outcome::NoNumber);
    }
    if flags.version.is_some_and(|wanted| ![0, found.version].contains(&wanted)) {
        return (Change::Keep, Outcome::Not("EX"));
    }
    let Some(value) = added(found, flags.delta, is_up) else { return (Change::Keep, Outcome::NoNumber) };
    let told = Told {
        value_bytes: value.len(),
        flags: found.flags(),
        expires: flags.expires.unwrap_or(found.expires),
        version,
        // As in memcached, a longer number is a new item.
        marks: if value.len() > found.value_bytes { 0 } else { found.marks },
    };
    (put(&value, &told), Outcome::Counted(value.trim_ascii_end().to_vec(), told, Some(found.expires)))
}

/// Serves `ma`.
///
/// # Errors
/// Returns memcached's words for what is wrong.
pub fn count(service: &Service<'_>, flags: &Flags<'_>, output: &mut Vec<u8>) -> Result<(), &'static str> {
    let is_up = match flags.mode {
        None | Some(b'I' | b'+') => true,
        Some(b'D' | b'-') => false,
        Some(_) => return Err("CLIENT_ERROR invalid mode for ma M token"),
    };
    let outcome =
        service.store.update_versioned(&flags.key, |found, next_version| change(flags, is_up, found, next_version));
    match outcome.map_err(|_| "SERVER_ERROR out of memory")? {
        Outcome::NoNumber => Err("CLIENT_ERROR cannot increment or decrement non-numeric value"),
        // As in memcached, the number is another one by now.
        Outcome::Not(_) | Outcome::Counted(..) if flags.opaque().is_err() => flags.opaque(),
        Outcome::Not(code) => {
            answer::without_item(code, flags, output);
            Ok(())
        }
        Outcome::Counted(_, _, Some(_)) if flags.is_quiet => Ok(()),
        Outcome::Counted(value, mut told, before) => {
            answer::head(flags.wants_value.then_some(value.len()), output);
            // A flag before the new time tells the old one; a new item has none.
            let expires = std::mem::replace(&mut told.expires, before.unwrap_or(0));
            // The key as it was asked for.
            told.marks = if flags.is_binary { mark::BINARY } else { 0 };
            for word in flags.words {
                match word[0] {
                    b'T' => told.expires = expires,
                    b'N' if before.is_none() => told.expires = expires,
                    b'c' | b't' | b'k' | b'O' => answer::of_item(word, flags, &told, output),
                    _ => {}
                }
            }
            output.extend_from_slice(b"\r\n");
            if flags.wants_value {
                output.extend_from_slice(&value);
                output.extend_from_slice(b"\r\n");
            }
            Ok(())
        }
    }
}
