//! `ZADD` and `ZINCRBY`.

use std::sync::atomic::Ordering;

use crate::object::{Edit, SortedSet, element_bytes};
use crate::redis::call::{Call, SYNTAX, Served};
use crate::redis::number::score;
use crate::redis::reply::Refusal;

/// The options of `ZADD`.
#[derive(Clone, Copy, Default)]
struct Wanted {
    absent: bool,
    present: bool,
    greater: bool,
    less: bool,
    changed: bool,
    increment: bool,
}

/// What became of a member.
#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    Added(f64),
    Changed(f64),
    Same(f64),
    Refused,
}

fn options<'w, 'c>(words: &'w [&'c [u8]]) -> Result<(Wanted, &'w [&'c [u8]]), Refusal> {
    let (mut wanted, mut rest) = (Wanted::default(), words);
    while let Some((option, behind)) = rest.split_first() {
        match &*option.to_ascii_lowercase() {
            b"nx" => wanted.absent = true,
            b"xx" => wanted.present = true,
            b"gt" => wanted.greater = true,
            b"lt" => wanted.less = true,
            b"ch" => wanted.changed = true,
            b"incr" => wanted.increment = true,
            _ => break,
        }
        rest = behind;
    }
    if rest.is_empty() || rest.len() % 2 != 0 {
        return Err(SYNTAX);
    }
    if wanted.absent && wanted.present {
        return Err("ERR XX and NX options at the same time are not compatible".into());
    }
    if (wanted.absent && (wanted.greater || wanted.less)) || (wanted.greater && wanted.less) {
        return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
    }
    if wanted.increment && rest.len() > 2 {
        return Err("ERR INCR option supports a single increment-element pair".into());
    }
    Ok((wanted, rest))
}

/// Sets a member's score, or adds to it.
fn set_one(set: &mut Edit<'_, SortedSet>, wanted: Wanted, score: f64, member: &[u8]) -> Result<Outcome, Refusal> {
    let old = set.score(member);
    let Some(old) = old else {
        if wanted.present {
            return Ok(Outcome::Refused);
        }
        set.set(member, score);
        return Ok(Outcome::Added(score));
    };
    if wanted.absent {
        return Ok(Outcome::Refused);
    }
    let new = if wanted.increment { old + score } else { score };
    if new.is_nan() {
        return Err("ERR resulting score is not a number (NaN)".into());
    }
    if (wanted.greater && new <= old) || (wanted.less && new >= old) {
        return Ok(Outcome::Refused);
    }
    set.set(member, new);
    Ok(if new == old { Outcome::Same(old) } else { Outcome::Changed(new) })
}

fn add(call: &mut Call<'_, '_>, wanted: Wanted, pairs: &[(f64, &[u8])]) -> Served {
    call.service.statistics.sets.fetch_add(1, Ordering::Relaxed);
    let more = pairs.iter().map(|(_, member)| element_bytes(member.len())).sum();
    let outcomes = call.service.store.extend(call.words[1], more, |set: &mut Edit<'_, SortedSet>| {
        pairs.iter().map(|(score, member)| set_one(set, wanted, *score, member)).collect::<Result<Vec<_>, _>>()
    })??;
    if wanted.increment {
        match outcomes.first() {
            Some(Outcome::Added(score) | Outcome::Changed(score) | Outcome::Same(score)) => call.reply.double(*score),
            _ => call.reply.null(),
        }
        return Ok(());
    }
    let is_counted = |outcome: &&Outcome| match outcome {
        Outcome::Added(_) => true,
        Outcome::Changed(_) => wanted.changed,
        Outcome::Same(_) | Outcome::Refused => false,
    };
    call.reply.integer(outcomes.iter().filter(is_counted).count() as i64);
    Ok(())
}

/// `ZADD`.
pub fn zadd(call: &mut Call<'_, '_>) -> Served {
    let words = call.words;
    let (wanted, pairs) = options(&words[2..])?;
    let pairs: Result<Vec<_>, Refusal> = pairs.chunks_exact(2).map(|pair| Ok((score(pair[0])?, pair[1]))).collect();
    add(call, wanted, &pairs?)
}

/// `ZINCRBY`.
pub fn zincrby(call: &mut Call<'_, '_>) -> Served {
    let pair = (score(call.words[2])?, call.words[3]);
    add(call, Wanted { increment: true, ..Wanted::default() }, &[pair])
}
