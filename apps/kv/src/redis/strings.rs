//! Commands of strings.

use std::sync::atomic::Ordering;

use super::call::{Call, FULL, SYNTAX, Served, WRONG_TYPE, string};
use super::number::{decimal, float, integer, time};
use super::reply::Refusal;
use crate::clock;
use crate::digits;
use crate::object::Kind;
use crate::protocol::OUTPUT_MOST;
use crate::store::{Change, Condition, Found, Outcome, VALUE_MOST};

const TOO_LONG: Refusal = Refusal::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

/// What memcached's clients see that a string is.
const FLAGS: u32 = 0;
/// Bytes of the longest number of 64 bits.
const NUMBER_MOST: usize = 20;

fn put(value: Vec<u8>, expires: u64) -> Change {
    Change::Put { flags: FLAGS, expires, marks: 0, value }
}

fn fits(value: &[u8]) -> Served {
    if value.len() > VALUE_MOST { Err(TOO_LONG) } else { Ok(()) }
}

/// Makes a string of what there is, if that is a string; its time stays.
fn changed<T>(
    call: &Call<'_, '_>,
    change: impl Fn(Option<&[u8]>) -> Result<(Option<Vec<u8>>, T), Refusal>,
) -> Result<T, Refusal> {
    call.service.statistics.sets.fetch_add(1, Ordering::Relaxed);
    let result = call.service.store.update(call.words[1], |found| {
        let made = found.map(string).transpose().and_then(&change);
        match made {
            Ok((None, result)) => (Change::Keep, Ok(result)),
            Ok((Some(new), _)) if new.len() > VALUE_MOST => (Change::Keep, Err(TOO_LONG)),
            Ok((Some(new), result)) => (put(new, found.map_or(0, |found| found.expires)), Ok(result)),
            Err(refusal) => (Change::Keep, Err(refusal)),
        }
    });
    result?
}

fn store_whole(
    call: &Call<'_, '_>,
    key: &[u8],
    value: &[u8],
    expires: u64,
    condition: Condition,
) -> Result<bool, Refusal> {
    fits(value)?;
    call.service.statistics.sets.fetch_add(1, Ordering::Relaxed);
    match call.service.store.put(key, FLAGS, expires, value, condition) {
        Outcome::Stored => Ok(true),
        Outcome::NoMemory => Err(FULL),
        Outcome::Exists | Outcome::NotFound => Ok(false),
    }
}

fn found(call: &Call<'_, '_>, key: &[u8]) -> Option<Found> {
    let found = call.service.store.get(key, None);
    call.service.statistics.gets.fetch_add(1, Ordering::Relaxed);
    call.service.statistics.hits.fetch_add(u64::from(found.is_some()), Ordering::Relaxed);
    found
}

/// Answers with a key's string, or with nothing if there is none, and says whether it was a string or nothing.
fn tell(call: &mut Call<'_, '_>, key: &[u8]) -> bool {
    let reply = &mut call.reply;
    let told = call.service.store.read(key, None, |item| {
        let is_string = item.kind() == Kind::String;
        if is_string {
            reply.value(item);
        }
        is_string
    });
    call.service.statistics.gets.fetch_add(1, Ordering::Relaxed);
    call.service.statistics.hits.fetch_add(u64::from(told.is_some()), Ordering::Relaxed);
    if told.is_none() {
        call.reply.null();
    }
    told != Some(false)
}

/// `GET`.
pub fn get(call: &mut Call<'_, '_>) -> Served {
    if tell(call, call.words[1]) { Ok(()) } else { Err(WRONG_TYPE) }
}

/// `MGET`.
pub fn mget(call: &mut Call<'_, '_>) -> Served {
    let words = call.words;
    let answered = std::mem::take(&mut call.client.answered);
    if answered == 0 {
        call.reply.array(words.len() - 1);
    }
    for (at, key) in words.iter().enumerate().skip(answered.max(1)) {
        if call.reply.output.len() >= OUTPUT_MOST {
            call.client.answered = at;
            return Ok(());
        }
        if !tell(call, key) {
            call.reply.null();
        }
    }
    Ok(())
}

/// What the options of `SET` and `GETEX` ask for.
#[derive(Default)]
struct Wanted {
    absent: bool,
    present: bool,
    get: bool,
    keep: bool,
    persist: bool,
    /// The option that says when, and its number.
    timed: Option<(Vec<u8>, Vec<u8>)>,
}

fn options(words: &[&[u8]], is_set: bool) -> Result<Wanted, Refusal> {
    let (mut wanted, mut rest) = (Wanted::default(), words);
    while let Some((option, behind)) = rest.split_first() {
        rest = behind;
        let option = option.to_ascii_lowercase();
        // The last one of a kind counts.
        let is_free = wanted.timed.as_ref().is_none_or(|(name, _)| *name == option) && !wanted.keep && !wanted.persist;
        match &*option {
            b"nx" if is_set && !wanted.present => wanted.absent = true,
            b"xx" if is_set && !wanted.absent => wanted.present = true,
            b"get" if is_set => wanted.get = true,
            b"keepttl" if is_set && wanted.timed.is_none() => wanted.keep = true,
            b"persist" if !is_set && wanted.timed.is_none() => wanted.persist = true,
            b"ex" | b"px" | b"exat" | b"pxat" if is_free && !rest.is_empty() => {
                wanted.timed = Some((option, rest[0].to_vec()));
                rest = &rest[1..];
            }
            _ => return Err(SYNTAX),
        }
    }
    Ok(wanted)
}

impl Wanted {
    /// When the value is to end, if that is said.
    fn expires(&self, call: &Call<'_, '_>) -> Result<Option<u64>, Refusal> {
        let Some((option, number)) = &self.timed else { return Ok(None) };
        let unit = if option[0] == b'p' { 1 } else { 1000 };
        expires(call, number, unit, option.ends_with(b"at")).map(Some)
    }
}

fn expires(call: &Call<'_, '_>, text: &[u8], unit: i64, is_date: bool) -> Result<u64, Refusal> {
    let number = integer(text)?;
    let at = Some(number).filter(|number| *number > 0).and_then(|number| time(number, unit, clock::origin(is_date)));
    // 0 would be never.
    at.map(|at| at.max(1) as u64).ok_or_else(|| format!("ERR invalid expire time in '{}' command", call.name()).into())
}

/// `SET`.
pub fn set(call: &mut Call<'_, '_>) -> Served {
    let (key, value) = (call.words[1], call.words[2]);
    let wanted = options(&call.words[3..], true)?;
    let expires = wanted.expires(call)?;
    fits(value)?;
    if !wanted.get && !wanted.keep {
        let condition = match (wanted.absent, wanted.present) {
            (true, _) => Condition::Absent,
            (_, true) => Condition::Present,
            _ => Condition::Any,
        };
        match store_whole(call, key, value, expires.unwrap_or(0), condition)? {
            true => call.reply.ok(),
            false => call.reply.null(),
        }
        return Ok(());
    }
    call.service.statistics.sets.fetch_add(1, Ordering::Relaxed);
    let old = call.service.store.update(key, |found| {
        let old = match found.map(string).transpose() {
            Err(refusal) if wanted.get => return (Change::Keep, Err(refusal)),
            old => old.unwrap_or_default().map(<[u8]>::to_vec),
        };
        if (wanted.absent && found.is_some()) || (wanted.present && found.is_none()) {
            return (Change::Keep, Ok((false, old)));
        }
        let kept = found.filter(|_| wanted.keep).map_or(0, |found| found.expires);
        (put(value.to_vec(), expires.unwrap_or(kept)), Ok((true, old)))
    })?;
    match old? {
        (_, old) if wanted.get => call.reply.bulk_or_null(old.as_deref()),
        (true, _) => call.reply.ok(),
        (false, _) => call.reply.null(),
    }
    Ok(())
}

/// `SETNX`.
pub fn setnx(call: &mut Call<'_, '_>) -> Served {
    let stored = store_whole(call, call.words[1], call.words[2], 0, Condition::Absent)?;
    call.reply.integer(i64::from(stored));
    Ok(())
}

/// `SETEX`, `PSETEX`.
pub fn setex(call: &mut Call<'_, '_>) -> Served {
    let unit = if call.name().starts_with('p') { 1 } else { 1000 };
    let expires = expires(call, call.words[2], unit, false)?;
    store_whole(call, call.words[1], call.words[3], expires, Condition::Any)?;
    call.reply.ok();
    Ok(())
}

/// `MSET`.
pub fn mset(call: &mut Call<'_, '_>) -> Served {
    if call.words.len() % 2 == 0 {
        return Err("ERR wrong number of arguments for 'mset' command".into());
    }
    for pair in call.words[1..].chunks_exact(2) {
        fits(pair[1])?;
    }
    for pair in call.words[1..].chunks_exact(2) {
        store_whole(call, pair[0], pair[1], 0, Condition::Any)?;
    }
    call.reply.ok();
    Ok(())
}

/// Changes a string, or what is not there, and answers with what it was.
fn exchange(call: &mut Call<'_, '_>, change: impl Fn() -> Change) -> Served {
    let old = call.service.store.update(call.words[1], |found| match found.map(string).transpose() {
        Ok(old) => (change(), Ok(old.map(<[u8]>::to_vec))),
        Err(refusal) => (Change::Keep, Err(refusal)),
    })?;
    call.reply.bulk_or_null(old?.as_deref());
    Ok(())
}

/// `GETSET`.
pub fn getset(call: &mut Call<'_, '_>) -> Served {
    let value = call.words[2];
    fits(value)?;
    exchange(call, || put(value.to_vec(), 0))
}

/// `GETDEL`.
pub fn getdel(call: &mut Call<'_, '_>) -> Served {
    exchange(call, || Change::Remove)
}

/// `GETEX`.
pub fn getex(call: &mut Call<'_, '_>) -> Served {
    let wanted = options(&call.words[2..], false)?;
    let found = found(call, call.words[1]);
    let value = found.as_ref().map(string).transpose()?;
    if found.is_some() {
        // As in Redis, a wrong time of no key is not looked at.
        let expires = wanted.expires(call)?;
        if wanted.persist || expires.is_some() {
            call.service.store.retime(call.words[1], |_| (expires.unwrap_or(0), ()));
        }
    }
    call.reply.bulk_or_null(value);
    Ok(())
}

/// `STRLEN`.
pub fn strlen(call: &mut Call<'_, '_>) -> Served {
    let found = found(call, call.words[1]);
    let bytes = found.as_ref().map(string).transpose()?.map_or(0, <[u8]>::len);
    call.reply.integer(bytes as i64);
    Ok(())
}

/// `APPEND`.
pub fn append(call: &mut Call<'_, '_>) -> Served {
    let bytes = changed(call, |old| {
        let new = [old.unwrap_or_default(), call.words[2]].concat();
        let bytes = new.len();
        Ok((Some(new), bytes))
    })?;
    call.reply.integer(bytes as i64);
    Ok(())
}

/// `SETRANGE`.
pub fn setrange(call: &mut Call<'_, '_>) -> Served {
    let (offset, part) = (integer(call.words[2])?, call.words[3]);
    let offset = usize::try_from(offset).map_err(|_| "ERR offset is out of range")?;
    let bytes = changed(call, |old| {
        let old = old.unwrap_or_default();
        if part.is_empty() {
            return Ok((None, old.len()));
        }
        let end = offset.checked_add(part.len()).filter(|end| *end <= VALUE_MOST).ok_or(TOO_LONG)?;
        let mut new = old.to_vec();
        new.resize(end.max(old.len()), 0);
        new[offset..end].copy_from_slice(part);
        let bytes = new.len();
        Ok((Some(new), bytes))
    })?;
    call.reply.integer(bytes as i64);
    Ok(())
}

/// `GETRANGE`, `SUBSTR`.
pub fn getrange(call: &mut Call<'_, '_>) -> Served {
    let (from, to) = (integer(call.words[2])?, integer(call.words[3])?);
    let found = found(call, call.words[1]);
    let value = found.as_ref().map(string).transpose()?.unwrap_or_default();
    let bytes = value.len() as i64;
    let place = |at: i64| if at < 0 { at.saturating_add(bytes).max(0) } else { at };
    let is_backward = from < 0 && to < 0 && from > to;
    let (from, to) = (place(from), place(to).min(bytes - 1));
    let is_empty = is_backward || from > to || bytes == 0;
    call.reply.bulk(if is_empty { b"" } else { &value[from as usize..=to as usize] });
    Ok(())
}

fn add(call: &mut Call<'_, '_>, delta: i64) -> Served {
    let sum = changed(call, |old| {
        let new = old.map_or(Ok(0), integer)?.checked_add(delta).ok_or("ERR increment or decrement would overflow")?;
        let mut text = Vec::with_capacity(NUMBER_MOST);
        digits::push_signed(&mut text, new);
        Ok((Some(text), new))
    })?;
    call.reply.integer(sum);
    Ok(())
}

/// `INCR`, `DECR`.
pub fn incr(call: &mut Call<'_, '_>) -> Served {
    add(call, if call.is_named("incr") { 1 } else { -1 })
}

/// `INCRBY`, `DECRBY`.
pub fn incrby(call: &mut Call<'_, '_>) -> Served {
    let delta = integer(call.words[2])?;
    if call.is_named("incrby") {
        return add(call, delta);
    }
    add(call, delta.checked_neg().ok_or("ERR decrement would overflow")?)
}

/// `INCRBYFLOAT`.
pub fn incrbyfloat(call: &mut Call<'_, '_>) -> Served {
    let delta = float(call.words[2]);
    let text = changed(call, |old| {
        let sum = old.map_or(Ok(0.0), float)? + delta.clone()?;
        let text = decimal(sum).ok_or("ERR increment would produce NaN or Infinity")?.into_bytes();
        Ok((Some(text.clone()), text))
    })?;
    call.reply.bulk(&text);
    Ok(())
}
