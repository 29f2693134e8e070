//! Requests where a program in the kernel has the store: they are given to it one at a time, as if they came in datagrams.
//!
//! ```text
//!   get a b\r\n  -> "get a\r\n", "get b\r\n" --StoreProgram::ask--> "VALUE a ...END\r\n", "END\r\n" -> VALUE a ...END\r\n
//! ```

use super::service::StoreProgram;
use super::step::{OUTPUT_MOST, Step};

/// The longest key, as `apps/kv/bpf/pool.bpf.c` has it.
const KEY_MOST: usize = 64;
const END: &[u8] = b"END\r\n";
const LONG_KEY: &[u8] = b"SERVER_ERROR keys have at most 64 bytes in this store\r\n";
const NO_TIMES: &[u8] = b"SERVER_ERROR values have no times in this store\r\n";
/// The answer to what the program has not.
pub const MISSING: &[u8] = b"SERVER_ERROR this store has get, set, delete, stats and version alone\r\n";
const BUSY: &[u8] = b"SERVER_ERROR the store is busy\r\n";

fn asked(program: &dyn StoreProgram, request: &[u8]) -> Vec<u8> {
    program.ask(request).unwrap_or_else(|| BUSY.to_vec())
}

/// Serves a line, of whose keys some are `answered`; `None` if it does not need the store, or waits for a value.
pub fn line(program: &dyn StoreProgram, words: &[&[u8]], answered: usize, output: &mut Vec<u8>) -> Option<Step> {
    let is_quiet = words.last() == Some(&&b"noreply"[..]);
    let reply = match (words[0], words.len()) {
        (b"get", 2..) => return Some(retrieve(program, &words[1..], answered, output)),
        (b"delete", 2 | 3) if words.len() == 2 || is_quiet => match words[1] {
            key if key.len() > KEY_MOST => LONG_KEY.to_vec(),
            key => asked(program, &[b"delete ", key, b"\r\n"].concat()),
        },
        (b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" | b"stats" | b"version" | b"quit", _) => {
            return None;
        }
        _ => MISSING.to_vec(),
    };
    if !is_quiet {
        output.extend(reply);
    }
    Some(Step::Done)
}

fn retrieve(program: &dyn StoreProgram, keys: &[&[u8]], answered: usize, output: &mut Vec<u8>) -> Step {
    if keys.iter().any(|key| key.len() > KEY_MOST) {
        output.extend(LONG_KEY);
        return Step::Done;
    }
    for (at, key) in keys.iter().enumerate().skip(answered) {
        if output.len() >= OUTPUT_MOST {
            return Step::Keys(at);
        }
        let reply = asked(program, &[b"get ", *key, b"\r\n"].concat());
        let Some(found) = reply.strip_suffix(END) else {
            output.extend(reply);
            return Step::Done;
        };
        output.extend(found);
    }
    output.extend(END);
    Step::Done
}

/// Stores a value; the answer.
pub fn set(program: &dyn StoreProgram, key: &[u8], flags: u32, expires: u64, value: &[u8]) -> Vec<u8> {
    if key.len() > KEY_MOST {
        return LONG_KEY.to_vec();
    }
    let head = format!(" {flags} 0 {}\r\n", value.len());
    let stored = (expires == 0).then(|| program.ask(&[b"set ", key, head.as_bytes(), value, b"\r\n"].concat()));
    stored.flatten().unwrap_or_else(|| {
        // What was there is not what the client wanted to be there.
        program.ask(&[b"delete ", key, b"\r\n"].concat());
        if expires == 0 { b"SERVER_ERROR object too large for cache\r\n".to_vec() } else { NO_TIMES.to_vec() }
    })
}
