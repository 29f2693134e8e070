//! Commands of hashes.

use std::sync::atomic::Ordering;

use super::call::{Call, SYNTAX, Served};
use super::glob;
use super::number::{cursor, decimal, float, integer};
use super::reply::Refusal;
use crate::digits;
use crate::object::{Edit, Fields, Typed as _, element_bytes};

/// Reads the hash of the command's key. `None` if there is none.
fn read<R>(call: &Call<'_, '_>, read: impl FnOnce(&Fields) -> R) -> Result<Option<R>, Refusal> {
    let found = call.service.store.inspect(call.words[1], read)?;
    call.service.statistics.gets.fetch_add(1, Ordering::Relaxed);
    call.service.statistics.hits.fetch_add(u64::from(found.is_some()), Ordering::Relaxed);
    Ok(found)
}

/// Changes the hash of the command's key, or a new one.
fn extend<R>(call: &Call<'_, '_>, change: impl FnMut(&mut Edit<'_, Fields>) -> R) -> Result<R, Refusal> {
    call.service.statistics.sets.fetch_add(1, Ordering::Relaxed);
    let more = call.words[2..].iter().map(|word| element_bytes(word.len())).sum();
    Ok(call.service.store.extend(call.words[1], more, change)?)
}

/// `HSET`, `HMSET`.
pub fn hset(call: &mut Call<'_, '_>) -> Served {
    if call.words.len() % 2 != 0 {
        return Err(format!("ERR wrong number of arguments for '{}' command", call.name()).into());
    }
    let pairs = call.words[2..].chunks_exact(2);
    let added = extend(call, |fields| pairs.clone().filter(|pair| fields.set(pair[0], pair[1])).count())?;
    if call.is_named("hmset") {
        call.reply.ok();
    } else {
        call.reply.integer(added as i64);
    }
    Ok(())
}

/// `HSETNX`.
pub fn hsetnx(call: &mut Call<'_, '_>) -> Served {
    let (field, value) = (call.words[2], call.words[3]);
    let is_set = extend(call, |fields| fields.get(field).is_none() && fields.set(field, value))?;
    call.reply.integer(i64::from(is_set));
    Ok(())
}

/// `HGET`.
pub fn hget(call: &mut Call<'_, '_>) -> Served {
    let field = call.words[2];
    let value = read(call, |fields| fields.get(field).map(<[u8]>::to_vec))?;
    call.reply.bulk_or_null(value.flatten().as_deref());
    Ok(())
}

/// `HMGET`.
pub fn hmget(call: &mut Call<'_, '_>) -> Served {
    let wanted = &call.words[2..];
    let values =
        read(call, |fields| -> Vec<_> { wanted.iter().map(|field| fields.get(field).map(<[u8]>::to_vec)).collect() })?;
    let values = values.unwrap_or_else(|| vec![None; wanted.len()]);
    call.reply.array(wanted.len());
    values.iter().for_each(|value| call.reply.bulk_or_null(value.as_deref()));
    Ok(())
}

/// `HGETALL`.
pub fn hgetall(call: &mut Call<'_, '_>) -> Served {
    let reply = &mut call.reply;
    let told = call.service.store.inspect(call.words[1], |fields: &Fields| {
        reply.map(fields.len());
        fields.iter().for_each(|(field, value)| {
            reply.bulk(field);
            reply.bulk(value);
        });
    })?;
    if told.is_none() {
        call.reply.map(0);
    }
    Ok(())
}

/// Answers with one half of all pairs.
fn halves(call: &mut Call<'_, '_>, half: impl for<'f> Fn((&'f [u8], &'f [u8])) -> &'f [u8]) -> Served {
    let reply = &mut call.reply;
    let told = call.service.store.inspect(call.words[1], |fields: &Fields| {
        reply.array(fields.len());
        fields.iter().for_each(|pair| reply.bulk(half(pair)));
    })?;
    if told.is_none() {
        call.reply.array(0);
    }
    Ok(())
}

/// `HKEYS`.
pub fn hkeys(call: &mut Call<'_, '_>) -> Served {
    halves(call, |(field, _)| field)
}

/// `HVALS`.
pub fn hvals(call: &mut Call<'_, '_>) -> Served {
    halves(call, |(_, value)| value)
}

/// `HDEL`.
pub fn hdel(call: &mut Call<'_, '_>) -> Served {
    let words = &call.words[2..];
    let removed = call.service.store.alter(call.words[1], |fields: &mut Edit<'_, Fields>| {
        words.iter().filter(|field| fields.remove(field)).count()
    })?;
    call.reply.integer(removed.unwrap_or(0) as i64);
    Ok(())
}

/// `HLEN`.
pub fn hlen(call: &mut Call<'_, '_>) -> Served {
    let count = read(call, Fields::len)?;
    call.reply.integer(count.unwrap_or(0) as i64);
    Ok(())
}

/// `HEXISTS`.
pub fn hexists(call: &mut Call<'_, '_>) -> Served {
    let field = call.words[2];
    let is_there = read(call, |fields| fields.get(field).is_some())?;
    call.reply.integer(i64::from(is_there == Some(true)));
    Ok(())
}

/// `HSTRLEN`.
pub fn hstrlen(call: &mut Call<'_, '_>) -> Served {
    let field = call.words[2];
    let bytes = read(call, |fields| fields.get(field).map_or(0, <[u8]>::len))?;
    call.reply.integer(bytes.unwrap_or(0) as i64);
    Ok(())
}

/// `HINCRBY`.
pub fn hincrby(call: &mut Call<'_, '_>) -> Served {
    let (field, delta) = (call.words[2], integer(call.words[3])?);
    let sum = extend(call, |fields| -> Result<i64, Refusal> {
        let old = fields.get(field).map_or(Ok(0), integer).map_err(|_| "ERR hash value is not an integer")?;
        let sum = old.checked_add(delta).ok_or("ERR increment or decrement would overflow")?;
        let mut text = Vec::new();
        digits::push_signed(&mut text, sum);
        fields.set(field, &text);
        Ok(sum)
    })?;
    call.reply.integer(sum?);
    Ok(())
}

/// `HINCRBYFLOAT`.
pub fn hincrbyfloat(call: &mut Call<'_, '_>) -> Served {
    let (field, delta) = (call.words[2], float(call.words[3])?);
    if delta.is_infinite() {
        return Err("ERR value is NaN or Infinity".into());
    }
    let text = extend(call, |fields| -> Result<Vec<u8>, Refusal> {
        let old = fields.get(field).map_or(Ok(0.0), float).map_err(|_| "ERR hash value is not a float")?;
        let text = decimal(old + delta).ok_or("ERR increment would produce NaN or Infinity")?.into_bytes();
        fields.set(field, &text);
        Ok(text)
    })?;
    call.reply.bulk(&text?);
    Ok(())
}

/// `HSCAN`.
pub fn hscan(call: &mut Call<'_, '_>) -> Served {
    let place = cursor(call.words[2])?;
    // As in Redis, wrong options of no key are not looked at.
    let Some((next, met)) = read(call, |fields| scan(fields, place, &call.words[3..]))?.transpose()? else {
        call.reply.array(2);
        call.reply.bulk(b"0");
        call.reply.array(0);
        return Ok(());
    };
    call.reply.array(2);
    call.reply.bulk(next.to_string().as_bytes());
    call.reply.array(2 * met.len());
    for (field, value) in met {
        call.reply.bulk(&field);
        call.reply.bulk(&value);
    }
    Ok(())
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// The next place of a scan, and what its options let through.
fn scan(fields: &Fields, place: u64, options: &[&[u8]]) -> Result<(u64, Pairs), Refusal> {
    let (mut pattern, mut count) = (&b"*"[..], 10);
    for option in options.chunks(2) {
        match (&*option[0].to_ascii_lowercase(), option.get(1)) {
            (b"match", Some(text)) => pattern = text,
            (b"count", Some(text)) => {
                count = usize::try_from(integer(text)?).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
            }
            _ => return Err(SYNTAX),
        }
    }
    let (next, met) = fields.scan(place, count);
    let met = met.filter(|(field, _)| glob::fits(pattern, field));
    Ok((next, met.map(|(field, value)| (field.to_vec(), value.to_vec())).collect()))
}
