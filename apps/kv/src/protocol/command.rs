//! Lines of requests: what a client asks for, by the first word.

use std::sync::atomic::Ordering;

use super::service::{Service, VERSION};
use super::storing::{self, Step, changed};
use super::{meta, number, stats};
use crate::store::{Found, KEY_MOST, Outcome};

/// Bytes of output from which on nothing more is served.
pub const OUTPUT_MOST: usize = 1 << 20;
const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
const ERROR: &[u8] = b"ERROR\r\n";

/// Serves a line, of whose keys some are `answered`.
pub fn line(service: &Service<'_>, line: &[u8], answered: usize, output: &mut Vec<u8>) -> Step {
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect();
    let Some(first) = words.first() else {
        output.extend(ERROR);
        return Step::Done;
    };
    match *first {
        b"get" | b"gets" => {
            return retrieve(service, &words[1..], None, first.ends_with(b"s"), answered, output);
        }
        b"gat" | b"gats" => match words.get(1).map(|text| number::expires(&service.store, text)) {
            Some(Some(expires)) => {
                return retrieve(service, &words[2..], Some(expires), first.ends_with(b"s"), answered, output);
            }
            Some(None) => output.extend(b"CLIENT_ERROR invalid exptime argument\r\n"),
            None => output.extend(ERROR),
        },
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => {
            return storing::line(service, &words, output);
        }
        b"mn" | b"mg" | b"ms" | b"md" | b"ma" => return meta::line(service, &words, output),
        b"stats" => stats::line(service, &words, output),
        b"version" => output.extend(format!("VERSION {VERSION}\r\n").bytes()),
        b"quit" => return Step::Close,
        b"shutdown" => output.extend(b"ERROR: shutdown not enabled\r\n"),
        b"delete" | b"incr" | b"decr" | b"touch" | b"flush_all" | b"verbosity" => {
            // The last word of these may ask for silence.
            match words.split_last() {
                Some((last, rest)) if *last == b"noreply" => others(service, rest, &mut Vec::new()),
                _ => others(service, &words, output),
            }
        }
        _ => output.extend(ERROR),
    }
    Step::Done
}

fn retrieve(
    service: &Service<'_>,
    keys: &[&[u8]],
    expires: Option<u64>,
    versions: bool,
    answered: usize,
    output: &mut Vec<u8>,
) -> Step {
    if keys.is_empty() || keys.iter().any(|key| key.len() > KEY_MOST) {
        output.extend(if keys.is_empty() { ERROR } else { BAD_FORMAT });
        return Step::Done;
    }
    for (at, key) in keys.iter().enumerate().skip(answered) {
        if output.len() >= OUTPUT_MOST {
            return Step::Keys(at);
        }
        service.statistics.gets.fetch_add(1, Ordering::Relaxed);
        if expires.is_some() {
            service.statistics.touches.fetch_add(1, Ordering::Relaxed);
        }
        let Some(found) = service.store.get(key, expires) else { continue };
        service.statistics.hits.fetch_add(1, Ordering::Relaxed);
        output.extend(b"VALUE ");
        if versions {
            let value_at = found.text.len().saturating_sub(found.value_bytes + 2);
            let head = found.text[..value_at].strip_suffix(b"\r\n").unwrap_or_default();
            output.extend(head);
            output.extend(format!(" {}\r\n", found.version).bytes());
            output.extend(&found.text[value_at..]);
        } else {
            output.extend(&found.text);
        }
    }
    output.extend(b"END\r\n");
    Step::Done
}

fn others(service: &Service<'_>, words: &[&[u8]], output: &mut Vec<u8>) {
    let key = words.get(1).copied().unwrap_or_default();
    match (words[0], words.len()) {
        (b"delete" | b"incr" | b"decr" | b"touch", _) if key.len() > KEY_MOST => output.extend(BAD_FORMAT),
        (b"delete", 2) => output.extend(delete(service, key)),
        (b"delete", 3) if words[2] == b"0" => output.extend(delete(service, key)),
        (b"delete", 3..) => {
            output.extend(b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n");
        }
        (b"incr", 3) => arithmetic(service, key, words[2], true, output),
        (b"decr", 3) => arithmetic(service, key, words[2], false, output),
        (b"touch", 3) => output.extend(touch(service, key, words[2])),
        (b"flush_all", 1) => output.extend(flush(service, b"0")),
        (b"flush_all", 2) => output.extend(flush(service, key)),
        (b"verbosity", 2..) => output.extend(b"OK\r\n"),
        _ => output.extend(ERROR),
    }
}

fn delete(service: &Service<'_>, key: &[u8]) -> &'static [u8] {
    service.statistics.deletes.fetch_add(1, Ordering::Relaxed);
    if service.store.delete(key) { b"DELETED\r\n" } else { NOT_FOUND }
}

fn touch(service: &Service<'_>, key: &[u8], seconds: &[u8]) -> &'static [u8] {
    let Some(expires) = number::expires(&service.store, seconds) else {
        return b"CLIENT_ERROR invalid exptime argument\r\n";
    };
    service.statistics.touches.fetch_add(1, Ordering::Relaxed);
    if service.store.get(key, Some(expires)).is_some() { b"TOUCHED\r\n" } else { NOT_FOUND }
}

fn flush(service: &Service<'_>, delay: &[u8]) -> &'static [u8] {
    service.statistics.flushes.fetch_add(1, Ordering::Relaxed);
    match number::expires(&service.store, delay) {
        None => return b"CLIENT_ERROR bad command line format\r\n",
        Some(at) if at > service.store.seconds() => service.flush_at.store(at, Ordering::Relaxed),
        Some(_) => service.store.clear(),
    }
    b"OK\r\n"
}

/// What a value and a difference make; `None` if the value is no number.
pub fn added(found: &Found, delta: u64, up: bool) -> Option<Vec<u8>> {
    let text = found.value().trim_ascii_end();
    let old = number::unsigned(text)?;
    let new = if up { old.wrapping_add(delta) } else { old.saturating_sub(delta) };
    let mut new = new.to_string().into_bytes();
    // A shorter number keeps the value's length, as in memcached.
    new.resize(new.len().max(found.value_bytes), b' ');
    Some(new)
}

fn arithmetic(service: &Service<'_>, key: &[u8], delta: &[u8], up: bool, output: &mut Vec<u8>) {
    let Some(delta) = number::unsigned(delta) else {
        return output.extend(b"CLIENT_ERROR invalid numeric delta argument\r\n");
    };
    match changed(&service.store, key, |found| added(found, delta, up).ok_or(())) {
        Ok((Outcome::Stored, value)) => {
            output.extend(value.trim_ascii_end());
            output.extend(b"\r\n");
        }
        Ok((Outcome::NotFound, _)) => output.extend(NOT_FOUND),
        Ok(_) => output.extend(b"SERVER_ERROR out of memory in incr\r\n"),
        Err(()) => output.extend(b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
    }
}
