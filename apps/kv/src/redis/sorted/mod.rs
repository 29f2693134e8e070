//! Commands of sorted sets: `add` changes scores, `range` reads and removes parts, and here is what asks for single members.

mod add;
mod limits;
mod range;

use super::call::{Call, SYNTAX, Served};
use super::reply::Refusal;
use crate::object::{Edit, SortedSet, Typed as _};
pub use add::{zadd, zincrby};
use limits::{Bounds, ByBytes, ByScore};
pub use range::{zrange, zremrange};

/// Reads the set of the command's key. `None` if there is none.
fn read<R>(call: &Call<'_, '_>, read: impl FnOnce(&SortedSet) -> R) -> Result<Option<R>, Refusal> {
    Ok(call.service.store.inspect(call.words[1], read)?)
}

/// `ZCARD`.
pub fn zcard(call: &mut Call<'_, '_>) -> Served {
    let count = read(call, SortedSet::len)?;
    call.reply.integer(count.unwrap_or(0) as i64);
    Ok(())
}

/// `ZSCORE`.
pub fn zscore(call: &mut Call<'_, '_>) -> Served {
    let member = call.words[2];
    match read(call, |set| set.score(member))?.flatten() {
        Some(score) => call.reply.double(score),
        None => call.reply.null(),
    }
    Ok(())
}

/// `ZMSCORE`.
pub fn zmscore(call: &mut Call<'_, '_>) -> Served {
    let members = &call.words[2..];
    let scores = read(call, |set| -> Vec<_> { members.iter().map(|member| set.score(member)).collect() })?;
    call.reply.array(members.len());
    for score in scores.unwrap_or_else(|| vec![None; members.len()]) {
        match score {
            Some(score) => call.reply.double(score),
            None => call.reply.null(),
        }
    }
    Ok(())
}

/// `ZRANK`, `ZREVRANK`.
pub fn zrank(call: &mut Call<'_, '_>) -> Served {
    let (member, is_reverse) = (call.words[2], call.is_named("zrevrank"));
    let rank = read(call, |set| {
        let (rank, _) = set.rank(member)?;
        Some(if is_reverse { set.len() - 1 - rank } else { rank })
    })?;
    match rank.flatten() {
        Some(rank) => call.reply.integer(rank as i64),
        None => call.reply.null(),
    }
    Ok(())
}

/// `ZREM`.
pub fn zrem(call: &mut Call<'_, '_>) -> Served {
    let members = &call.words[2..];
    let removed = call.service.store.alter(call.words[1], |set: &mut Edit<'_, SortedSet>| {
        members.iter().filter(|member| set.remove(member).is_some()).count()
    })?;
    call.reply.integer(removed.unwrap_or(0) as i64);
    Ok(())
}

/// Answers with how many members are within bounds.
fn count(call: &mut Call<'_, '_>, bounds: &impl Bounds) -> Served {
    let count = read(call, |set| bounds.ranks(set).len())?;
    call.reply.integer(count.unwrap_or(0) as i64);
    Ok(())
}

/// `ZCOUNT`.
pub fn zcount(call: &mut Call<'_, '_>) -> Served {
    let bounds = ByScore::read(call.words[2], call.words[3])?;
    count(call, &bounds)
}

/// `ZLEXCOUNT`.
pub fn zlexcount(call: &mut Call<'_, '_>) -> Served {
    let bounds = ByBytes::read(call.words[2], call.words[3])?;
    count(call, &bounds)
}

/// `ZPOPMIN`, `ZPOPMAX`.
pub fn zpop(call: &mut Call<'_, '_>) -> Served {
    const NOT_POSITIVE: &str = "ERR value is out of range, must be positive";
    let wanted = match call.words.len() {
        2 => None,
        3 => Some(super::number::integer(call.words[2]).ok().and_then(|count| usize::try_from(count).ok())),
        _ => return Err(SYNTAX),
    };
    let is_counted = wanted.is_some();
    let wanted = wanted.map_or(Ok(1), |count| count.ok_or(NOT_POSITIVE))?;
    let is_max = call.is_named("zpopmax");
    let popped = call.service.store.alter(call.words[1], |set: &mut Edit<'_, SortedSet>| {
        let mut popped = Vec::new();
        let count = wanted.min(set.len());
        let from = if is_max { set.len() - count } else { 0 };
        set.visit(from, from + count, is_max, &mut |member, score| popped.push((member.to_vec(), score)));
        for (member, _) in &popped {
            set.remove(member);
        }
        popped
    })?;
    let popped = popped.unwrap_or_default();
    let is_nested = call.reply.resp3 && is_counted;
    call.reply.array(if is_nested { popped.len() } else { 2 * popped.len() });
    for (member, score) in popped {
        if is_nested {
            call.reply.array(2);
        }
        call.reply.bulk(&member);
        call.reply.double(score);
    }
    Ok(())
}
