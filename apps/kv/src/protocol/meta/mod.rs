//! The meta commands: `mg`, `ms`, `md`, `ma`, `mn`, `me`.
//!
//! ```text
//!   mg key t v     ->  VA 5 t60        ms key 5 T60 c   ->  waits for the value  ->  HD c17
//!                      hello
//! ```
//!
//! Each is one change of the store. Of memcached's flags, `l` is missing: an item does not know when it was used.

mod answer;
mod base64;
mod count;
mod flags;
mod get;
mod set;

use std::sync::atomic::Ordering;

use super::service::Service;
use super::step::Step;
use crate::store::{Change, Found, KEY_MOST, mark};
use answer::bytes_of;
use flags::{BAD_FORMAT, Flags, Refused, WORDS_MOST};

/// Serves a meta command.
pub fn line(service: &Service<'_>, words: &[&[u8]], output: &mut Vec<u8>) -> Step {
    let result = match (words[0], words.len()) {
        (b"mn", _) => {
            output.extend_from_slice(b"MN\r\n");
            Ok(Step::Done)
        }
        (b"me", 1) => Err((BAD_FORMAT, Step::Done)),
        (_, 1) => Err(("ERROR", Step::Done)),
        _ if words[1].len() > KEY_MOST => Err((BAD_FORMAT, Step::Done)),
        (b"me", _) => debug(service, words, output),
        (b"ms", _) => set::line(service, words),
        (command, _) => other(service, command, words, output),
    };
    result.unwrap_or_else(|(error, step)| {
        output.extend_from_slice(error.as_bytes());
        output.extend_from_slice(b"\r\n");
        step
    })
}

fn other(service: &Service<'_>, command: &[u8], words: &[&[u8]], output: &mut Vec<u8>) -> Result<Step, Refused> {
    let is_get = command == b"mg";
    if words.len() >= WORDS_MOST {
        let error =
            if is_get { "CLIENT_ERROR options flags are too long" } else { "CLIENT_ERROR options flags too long" };
        return Err((error, Step::Done));
    }
    let flags = flags::read(words[1], &words[2..]);
    let flags =
        flags.map_err(|error| (if is_get { error } else { "CLIENT_ERROR invalid or duplicate flag" }, Step::Done))?;
    if command != b"ma" {
        flags.opaque().map_err(|error| (error, Step::Done))?;
    }
    let served = match command {
        b"mg" => {
            get::get(service, &flags, output);
            Ok(())
        }
        b"md" => {
            delete(service, &flags, output);
            Ok(())
        }
        _ => count::count(service, &flags, output),
    };
    served.map(|()| Step::Done).map_err(|error| (error, Step::Done))
}

/// `md`.
fn delete(service: &Service<'_>, flags: &Flags<'_>, output: &mut Vec<u8>) {
    service.statistics.deletes.fetch_add(1, Ordering::Relaxed);
    let code = service.store.update(&flags.key, |found| match found {
        None => (Change::Keep, "NF"),
        Some(found) if flags.version.is_some_and(|version| version != found.version) => (Change::Keep, "EX"),
        Some(found) if flags.stale => {
            let marks = found.marks & !mark::SENT | mark::STALE;
            let expires = flags.expires.unwrap_or(found.expires);
            (Change::Mark { marks, expires, is_new_version: true }, "HD")
        }
        Some(_) => (Change::Remove, "HD"),
    });
    match code {
        Ok("HD") if flags.is_quiet => {}
        Ok(code) => answer::without_item(code, flags, output),
        Err(_) => output.extend_from_slice(b"SERVER_ERROR out of memory\r\n"),
    }
}

/// `me`: what is known of an item.
fn debug(service: &Service<'_>, words: &[&[u8]], output: &mut Vec<u8>) -> Result<Step, Refused> {
    // Only `b` counts, as the first flag.
    let flags: &[&[u8]] = if words.get(2) == Some(&&b"b"[..]) { &[b"b"] } else { &[] };
    let flags = flags::read(words[1], flags).map_err(|_| (BAD_FORMAT, Step::Done))?;
    let found = service.store.update(&flags.key, |found| (Change::Keep, bytes_of(found).cloned())).unwrap_or_default();
    let Some(found) = found else {
        output.extend_from_slice(b"EN\r\n");
        return Ok(Step::Done);
    };
    let seconds = answer::seconds_left(found.expires).map_or("-1".to_owned(), |seconds| seconds.to_string());
    let fetched = if found.marks & mark::FETCHED != 0 { "yes" } else { "no" };
    output.extend_from_slice(b"ME ");
    output.extend_from_slice(words[1]);
    let Found { version, text, .. } = &found;
    output.extend(format!(" exp={seconds} cas={version} fetch={fetched} size={}\r\n", text.len()).bytes());
    Ok(Step::Done)
}
