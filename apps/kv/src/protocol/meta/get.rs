//! `mg`: one item, what the client wants to know of it, and who makes it anew.

use std::sync::atomic::Ordering;

use super::answer::{self, Told, bytes_of, seconds_left};
use super::flags::Flags;
use crate::protocol::service::Service;
use crate::store::{Change, Found, mark};

/// What an item is before and after.
fn told(found: &Found) -> Told {
    let Found { value_bytes, expires, version, marks, .. } = *found;
    Told { value_bytes, flags: found.flags(), expires, version, marks }
}

/// Answers with an item, and changes its time and marks as the flags say, in their order.
fn with_item(flags: &Flags<'_>, mut told: Told, is_new: bool, output: &mut Vec<u8>) -> Told {
    let was_sent = told.marks & mark::SENT != 0;
    let is_stale = told.marks & mark::STALE != 0;
    // Whoever meets a stale item first wins: it is to make the value anew.
    let mut wins = is_stale && !was_sent;
    answer::head(flags.wants_value.then_some(told.value_bytes), output);
    for word in flags.words {
        match word[0] {
            b'T' => told.expires = flags.expires.unwrap_or(0),
            b'N' if is_new => {
                told.expires = flags.vivify.unwrap_or(0);
                wins = true;
            }
            b'R' if !is_new && !was_sent => {
                let left = seconds_left(told.expires);
                wins |= left.is_some_and(|left| flags.recache_seconds.is_some_and(|seconds| left < seconds));
            }
            _ => answer::of_item(word, flags, &told, output),
        }
    }
    if wins {
        told.marks |= mark::SENT;
    }
    for (is_so, letter) in [(was_sent, b'Z'), (is_stale, b'X'), (wins, b'W')] {
        if is_so {
            output.extend_from_slice(&[b' ', letter]);
        }
    }
    output.extend_from_slice(b"\r\n");
    told
}

/// Serves `mg`.
pub fn get(service: &Service<'_>, flags: &Flags<'_>, output: &mut Vec<u8>) {
    let statistics = &service.statistics;
    statistics.gets.fetch_add(1, Ordering::Relaxed);
    if flags.expires.is_some() {
        statistics.touches.fetch_add(1, Ordering::Relaxed);
    }
    let before = output.len();
    let used = if flags.is_no_use { 0 } else { mark::FETCHED };
    let outcome = service.store.update_versioned(&flags.key, |found, next_version| {
        output.truncate(before);
        let Some(found) = bytes_of(found) else {
            if flags.vivify.is_none() {
                return (Change::Keep, false);
            }
            // As in memcached, its key counts as text.
            let marks = 0;
            let new = Told { value_bytes: 0, flags: 0, expires: 0, version: next_version, marks };
            let Told { expires, marks, .. } = with_item(flags, new, true, output);
            if flags.wants_value {
                output.extend_from_slice(b"\r\n");
            }
            let marks = marks | used;
            return (Change::Put { flags: 0, expires, marks, value: Vec::new() }, false);
        };
        let after = with_item(flags, told(found), false, output);
        if flags.wants_value {
            output.extend_from_slice(found.value());
            output.extend_from_slice(b"\r\n");
        }
        (Change::Mark { expires: after.expires, marks: after.marks | used, is_new_version: false }, true)
    });
    match outcome {
        Ok(is_hit) => {
            statistics.hits.fetch_add(u64::from(is_hit), Ordering::Relaxed);
            if output.len() == before && !flags.is_quiet {
                answer::without_item("EN", flags, output);
            }
        }
        Err(_) => {
            output.truncate(before);
            output.extend_from_slice(b"SERVER_ERROR out of memory\r\n");
        }
    }
}
