//! `ZRANGE` and its elder forms, and the removal of ranges.

use std::ops::Range;

use super::limits::{Bounds, ByBytes, ByRank, ByScore};
use crate::object::{Edit, SortedSet};
use crate::redis::call::{Call, SYNTAX, Served};
use crate::redis::number::integer;
use crate::redis::reply::Refusal;

/// By what members are chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Bytes,
}

/// What a command asks for.
struct Wanted {
    by: By,
    is_reverse: bool,
    has_scores: bool,
    /// Members to leave out, and then how many at most; negative: all.
    limit: (i64, i64),
}

/// What a command's name says of its range, and whether its options may still say it.
fn of_name(name: &str) -> (By, bool, bool) {
    match name {
        "zrange" => (By::Rank, false, true),
        "zrevrange" => (By::Rank, true, false),
        "zrangebyscore" => (By::Score, false, false),
        "zrevrangebyscore" => (By::Score, true, false),
        "zrangebylex" => (By::Bytes, false, false),
        _ => (By::Bytes, true, false),
    }
}

fn options(call: &Call<'_, '_>) -> Result<Wanted, Refusal> {
    let (by, is_reverse, is_open) = of_name(&call.name());
    let mut wanted = Wanted { by, is_reverse, has_scores: false, limit: (0, -1) };
    let (mut chosen, mut rest) = (false, &call.words[4..]);
    while let Some((option, behind)) = rest.split_first() {
        rest = behind;
        match (&*option.to_ascii_lowercase(), behind) {
            (b"withscores", _) => wanted.has_scores = true,
            (b"limit", [offset, count, behind @ ..]) => {
                wanted.limit = (integer(offset)?, integer(count)?);
                rest = behind;
            }
            (b"rev", _) if is_open && !wanted.is_reverse => wanted.is_reverse = true,
            (b"byscore", _) if is_open && !chosen => (wanted.by, chosen) = (By::Score, true),
            (b"bylex", _) if is_open && !chosen => (wanted.by, chosen) = (By::Bytes, true),
            _ => return Err(SYNTAX),
        }
    }
    if wanted.by == By::Rank && wanted.limit.1 != -1 {
        return Err("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX".into());
    }
    if wanted.by == By::Bytes && wanted.has_scores {
        return Err("ERR syntax error, WITHSCORES not supported in combination with BYLEX".into());
    }
    Ok(wanted)
}

/// The part of a range of ranks that a limit leaves.
fn limited(ranks: Range<usize>, wanted: &Wanted) -> Range<usize> {
    let (offset, count) = wanted.limit;
    // As in Redis, a negative offset is beyond the end.
    let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(ranks.len());
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(ranks.len() - offset);
    if wanted.is_reverse {
        ranks.end - offset - count..ranks.end - offset
    } else {
        ranks.start + offset..ranks.start + offset + count
    }
}

fn answer(call: &mut Call<'_, '_>, wanted: &Wanted, bounds: &impl Bounds) -> Served {
    let reply = &mut call.reply;
    let is_nested = wanted.has_scores && reply.resp3;
    let told = call.service.store.inspect(call.words[1], |set: &SortedSet| {
        let ranks = limited(bounds.ranks(set), wanted);
        let each = if wanted.has_scores && !is_nested { 2 } else { 1 };
        reply.array(each * ranks.len());
        set.visit(ranks.start, ranks.end, wanted.is_reverse, &mut |member, score| {
            if is_nested {
                reply.array(2);
            }
            reply.bulk(member);
            if wanted.has_scores {
                reply.double(score);
            }
        });
    })?;
    if told.is_none() {
        call.reply.array(0);
    }
    Ok(())
}

/// `ZRANGE`, `ZREVRANGE`, `ZRANGEBYSCORE`, `ZREVRANGEBYSCORE`, `ZRANGEBYLEX`, `ZREVRANGEBYLEX`.
pub fn zrange(call: &mut Call<'_, '_>) -> Served {
    let wanted = options(call)?;
    let (first, second) = (call.words[2], call.words[3]);
    // Backwards, the greatest is said first.
    let (from, to) = if wanted.is_reverse { (second, first) } else { (first, second) };
    match wanted.by {
        By::Rank => {
            let (from, to) = (integer(first)?, integer(second)?);
            answer(call, &wanted, &ByRank { from, to, is_reverse: wanted.is_reverse })
        }
        By::Score => answer(call, &wanted, &ByScore::read(from, to)?),
        By::Bytes => answer(call, &wanted, &ByBytes::read(from, to)?),
    }
}

fn remove(call: &mut Call<'_, '_>, bounds: &impl Bounds) -> Served {
    let removed = call.service.store.alter(call.words[1], |set: &mut Edit<'_, SortedSet>| {
        let (ranks, mut members) = (bounds.ranks(set), Vec::new());
        set.visit(ranks.start, ranks.end, false, &mut |member, _| members.push(member.to_vec()));
        for member in &members {
            set.remove(member);
        }
        members.len()
    })?;
    call.reply.integer(removed.unwrap_or(0) as i64);
    Ok(())
}

/// `ZREMRANGEBYRANK`, `ZREMRANGEBYSCORE`, `ZREMRANGEBYLEX`.
pub fn zremrange(call: &mut Call<'_, '_>) -> Served {
    let (from, to) = (call.words[2], call.words[3]);
    if call.is_named("zremrangebyrank") {
        return remove(call, &ByRank { from: integer(from)?, to: integer(to)?, is_reverse: false });
    }
    if call.is_named("zremrangebyscore") {
        return remove(call, &ByScore::read(from, to)?);
    }
    remove(call, &ByBytes::read(from, to)?)
}
