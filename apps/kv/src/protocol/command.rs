//! Lines of requests: what a client asks for, by the first word.

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use super::service::{Service, VERSION};
use super::step::{OUTPUT_MOST, Step};
use super::storing::{self, changed};
use super::{meta, number, program, stats};
use crate::store::{self, KEY_MOST, Outcome};

const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
const BAD_TIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";
const DELETE_USAGE: &[u8] = b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
const ERROR: &[u8] = b"ERROR\r\n";

/// Serves a line, of whose keys some are `answered`.
pub fn line(service: &Service<'_>, line: &[u8], answered: usize, output: &mut Vec<u8>) -> Step {
    // Text ends with a NUL, as in memcached: no key has one.
    let line = line.split(|byte| *byte == 0).next().unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect();
    let Some(first) = words.first() else {
        output.extend(ERROR);
        return Step::Done;
    };
    if may_change(&words)
        && let Err(why) = service.store.admit()
    {
        if words.last() != Some(&&b"noreply"[..]) {
            refuse(&why, output);
        }
        return Step::Done;
    }
    if let Some(step) = service.program.and_then(|owner| program::line(owner, &words, answered, output)) {
        return step;
    }
    match *first {
        b"get" | b"gets" => {
            return retrieve(service, &words[1..], None, first.ends_with(b"s"), answered, output);
        }
        b"gat" | b"gats" => match words.get(1).map(|text| number::expires(text)) {
            // As memcached does: of no keys, none is there.
            Some(Some(_)) if words.len() == 2 => output.extend(b"END\r\n"),
            Some(Some(expires)) => {
                return retrieve(service, &words[2..], Some(expires), first.ends_with(b"s"), answered, output);
            }
            Some(None) => output.extend(BAD_TIME),
            None => output.extend(ERROR),
        },
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => {
            return storing::line(service, &words, output);
        }
        b"mn" | b"mg" | b"ms" | b"md" | b"ma" | b"me" => return meta::line(service, &words, output),
        b"stats" => stats::line(service, &words, output),
        b"version" => output.extend(format!("VERSION {VERSION}\r\n").bytes()),
        b"quit" => return Step::Close,
        b"shutdown" => output.extend(b"ERROR: shutdown not enabled\r\n"),
        b"delete" | b"incr" | b"decr" | b"touch" | b"flush_all" | b"verbosity" => {
            // The last word of these may ask for silence. It is an argument nevertheless, unless it is after all others.
            // Of `delete`, the first one is the key, whatever it is.
            let first = if *first == b"delete" { 2 } else { 1 };
            let is_quiet = words.len() > first && words.last() == Some(&&b"noreply"[..]);
            match others(service, &words, is_quiet) {
                Ok(_) if is_quiet => {}
                Ok(answer) => output.extend(&*answer),
                Err(Unknown) => output.extend(ERROR),
            }
        }
        _ => output.extend(ERROR),
    }
    Step::Done
}

/// Whether a line may change the store. What waits for a value is asked again when it has come.
fn may_change(words: &[&[u8]]) -> bool {
    match words[0] {
        b"gat" | b"gats" | b"delete" | b"incr" | b"decr" | b"touch" | b"flush_all" | b"md" | b"ma" => true,
        b"mg" => words.iter().skip(2).any(|flag| matches!(flag.first(), Some(b'T' | b'N' | b'R'))),
        _ => false,
    }
}

/// Answers that the log cannot be written.
pub fn refuse(why: &str, output: &mut Vec<u8>) {
    output.extend(format!("SERVER_ERROR the log cannot be written: {}\r\n", why.replace(['\r', '\n'], " ")).bytes());
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

/// A line whose command does not have so many words.
struct Unknown;

type Answer = Cow<'static, [u8]>;

/// Serves a command whose last word may be `noreply`: its answer, which a quiet one does not send.
fn others(service: &Service<'_>, words: &[&[u8]], is_quiet: bool) -> Result<Answer, Unknown> {
    let key = words.get(1).copied().unwrap_or_default();
    // Without the word that asks for silence.
    let count = words.len() - usize::from(is_quiet);
    Ok(match (words[0], words.len()) {
        (b"delete", 2..=4) if count > 2 && !(count == 3 && words[2] == b"0") => DELETE_USAGE.into(),
        (b"delete", 2..=4) | (b"incr" | b"decr" | b"touch", 3..=4) if key.len() > KEY_MOST => BAD_FORMAT.into(),
        (b"delete", 2..=4) => delete(service, key).into(),
        (b"incr", 3..=4) => arithmetic(service, key, words[2], true),
        (b"decr", 3..=4) => arithmetic(service, key, words[2], false),
        (b"touch", 3..=4) => touch(service, key, words[2]).into(),
        (b"flush_all", 1..=3) => flush(service, if count > 1 { key } else { b"0" }).into(),
        (b"verbosity", 2..=3) if number::unsigned(key).is_none() => BAD_FORMAT.into(),
        (b"verbosity", 2..=3) => b"OK\r\n"[..].into(),
        _ => return Err(Unknown),
    })
}

fn delete(service: &Service<'_>, key: &[u8]) -> &'static [u8] {
    service.statistics.deletes.fetch_add(1, Ordering::Relaxed);
    if service.store.delete(key) { b"DELETED\r\n" } else { NOT_FOUND }
}

fn touch(service: &Service<'_>, key: &[u8], seconds: &[u8]) -> &'static [u8] {
    let Some(expires) = number::expires(seconds) else { return BAD_TIME };
    service.statistics.touches.fetch_add(1, Ordering::Relaxed);
    if service.store.get(key, Some(expires)).is_some() { b"TOUCHED\r\n" } else { NOT_FOUND }
}

fn flush(service: &Service<'_>, delay: &[u8]) -> &'static [u8] {
    let Some(at) = number::expires(delay) else { return BAD_TIME };
    service.statistics.flushes.fetch_add(1, Ordering::Relaxed);
    // The last one counts: it also stops one that waits.
    let waits = at > store::now();
    service.flush_at.store(if waits { at } else { 0 }, Ordering::Relaxed);
    if !waits {
        service.store.clear();
    }
    b"OK\r\n"
}

fn arithmetic(service: &Service<'_>, key: &[u8], delta: &[u8], up: bool) -> Answer {
    let Some(delta) = number::unsigned(delta) else {
        return b"CLIENT_ERROR invalid numeric delta argument\r\n"[..].into();
    };
    match changed(&service.store, key, |found| number::added(found, delta, up).ok_or(())) {
        Ok((Outcome::Stored, value)) => [value.trim_ascii_end(), b"\r\n"].concat().into(),
        Ok((Outcome::NotFound, _)) => NOT_FOUND.into(),
        Ok(_) => b"SERVER_ERROR out of memory in incr\r\n"[..].into(),
        Err(()) => b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"[..].into(),
    }
}
