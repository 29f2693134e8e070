//! Commands of keys, whatever their values are.

use super::call::{Call, SYNTAX, Served};
use super::glob;
use super::number::{cursor, integer, time};
use super::reply::Refusal;
use crate::clock;
use crate::object::Kind;

fn count(call: &mut Call<'_, '_>, is_counted: impl Fn(&Call<'_, '_>, &[u8]) -> bool) {
    let words = call.words;
    let number = words[1..].iter().filter(|key| is_counted(call, key)).count();
    call.reply.integer(number as i64);
}

/// `DEL`, `UNLINK`.
pub fn del(call: &mut Call<'_, '_>) -> Served {
    count(call, |call, key| call.service.store.delete(key));
    Ok(())
}

/// `EXISTS`, `TOUCH`.
pub fn exists(call: &mut Call<'_, '_>) -> Served {
    count(call, |call, key| call.service.store.retime(key, |old| (old, ())).is_some());
    Ok(())
}

/// `TYPE`.
pub fn type_of(call: &mut Call<'_, '_>) -> Served {
    let kind = call.service.store.kind(call.words[1]);
    call.reply.simple(kind.map_or("none", Kind::name));
    Ok(())
}

/// `EXPIRE`, `PEXPIRE`, `EXPIREAT`, `PEXPIREAT`.
pub fn expire(call: &mut Call<'_, '_>) -> Served {
    let name = call.name();
    let unit = if name.starts_with('p') { 1 } else { 1000 };
    let base = clock::origin(name.ends_with("at"));
    let (mut not_if_some, mut not_if_none, mut only_later, mut only_earlier) = (false, false, false, false);
    for option in &call.words[3..] {
        match &*option.to_ascii_lowercase() {
            b"nx" => not_if_some = true,
            b"xx" => not_if_none = true,
            b"gt" => only_later = true,
            b"lt" => only_earlier = true,
            _ => return Err(Refusal::about("ERR Unsupported option ", option, "")),
        }
    }
    if not_if_some && (not_if_none || only_later || only_earlier) {
        return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
    }
    if only_later && only_earlier {
        return Err("ERR GT and LT options at the same time are not compatible".into());
    }
    let at = time(integer(call.words[2])?, unit, base);
    let at = at.ok_or_else(|| format!("ERR invalid expire time in '{name}' command"))?;
    // 0 would be never.
    let new = at.max(1) as u64;
    let set = call.service.store.retime(call.words[1], |old| {
        let stays = match old {
            0 => not_if_none || only_later,
            old => not_if_some || (only_later && new <= old) || (only_earlier && new >= old),
        };
        if stays { (old, false) } else { (new, true) }
    });
    call.reply.integer(i64::from(set == Some(true)));
    Ok(())
}

/// `PERSIST`.
pub fn persist(call: &mut Call<'_, '_>) -> Served {
    let done = call.service.store.retime(call.words[1], |old| (0, old != 0));
    call.reply.integer(i64::from(done == Some(true)));
    Ok(())
}

/// `TTL`, `PTTL`, `EXPIRETIME`, `PEXPIRETIME`.
pub fn ttl(call: &mut Call<'_, '_>) -> Served {
    let name = call.name();
    let base = clock::origin(name.ends_with("time"));
    let number = match call.service.store.retime(call.words[1], |old| (old, old)) {
        None => -2,
        Some(0) => -1,
        Some(at) => {
            let milliseconds = (at.min(i64::MAX as u64) as i64).saturating_sub(base).max(0);
            if name.starts_with('p') { milliseconds } else { milliseconds.saturating_add(500) / 1000 }
        }
    };
    call.reply.integer(number);
    Ok(())
}

/// `DBSIZE`.
pub fn dbsize(call: &mut Call<'_, '_>) -> Served {
    call.reply.integer(call.service.store.items() as i64);
    Ok(())
}

/// `FLUSHALL`, `FLUSHDB`.
pub fn flush(call: &mut Call<'_, '_>) -> Served {
    match (call.words.len(), &*call.lower(1)) {
        (1, _) | (2, b"sync" | b"async") => {}
        _ => return Err(SYNTAX),
    }
    call.service.store.clear();
    call.reply.ok();
    Ok(())
}

/// `KEYS`.
pub fn keys(call: &mut Call<'_, '_>) -> Served {
    let (mut place, mut all) = (0, Vec::new());
    loop {
        let (next, met) = call.service.store.scan(place, usize::MAX, false);
        all.extend(met.into_iter().map(|(key, _)| key).filter(|key| glob::fits(call.words[1], key)));
        place = next;
        if place == 0 {
            break;
        }
    }
    call.reply.array(all.len());
    all.iter().for_each(|key| call.reply.bulk(key));
    Ok(())
}

/// `SCAN`.
pub fn scan(call: &mut Call<'_, '_>) -> Served {
    let place = cursor(call.words[1])?;
    let (mut pattern, mut count, mut wanted) = (&b"*"[..], 10, None);
    for option in call.words[2..].chunks(2) {
        match (&*option[0].to_ascii_lowercase(), option.get(1)) {
            (b"match", Some(text)) => pattern = text,
            (b"count", Some(text)) => {
                count = usize::try_from(integer(text)?).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
            }
            (b"type", Some(text)) => wanted = Some(*text),
            _ => return Err(SYNTAX),
        }
    }
    let (next, met) = call.service.store.scan(place, count, true);
    let is_wanted = |kind: Kind| wanted.is_none_or(|text| text.eq_ignore_ascii_case(kind.name().as_bytes()));
    let is_met = |(key, kind): &&(Vec<u8>, Kind)| is_wanted(*kind) && glob::fits(pattern, key);
    let met: Vec<&(Vec<u8>, Kind)> = met.iter().filter(is_met).collect();
    call.reply.array(2);
    call.reply.bulk(next.to_string().as_bytes());
    call.reply.array(met.len());
    met.iter().for_each(|(key, _)| call.reply.bulk(key));
    Ok(())
}
