//! The commands.

use super::call::{Call, Served};
use super::{about, client, cluster, hashes, keys, sorted, strings};

/// A command.
pub struct Row {
    /// Its name, in lower case.
    pub name: &'static str,
    /// Words, with the name; at least so many if it is negative.
    pub arity: i64,
    /// What it is, in Redis' words.
    pub flags: &'static [&'static str],
    /// The first key, the last one, and the distance between keys.
    pub keys: [i64; 3],
    /// What it does.
    pub(super) serve: for<'a, 'c, 'h> fn(&'a mut Call<'c, 'h>) -> Served,
}

const READ: &[&str] = &["readonly", "fast"];
const SLOW: &[&str] = &["readonly"];
const WRITE: &[&str] = &["write", "denyoom", "fast"];
const LONGER: &[&str] = &["write", "denyoom"];
const CHANGE: &[&str] = &["write", "fast"];
const REMOVE: &[&str] = &["write"];
const TALK: &[&str] = &["noscript", "loading", "stale", "fast", "no_auth", "allow_busy"];
const ADMIN: &[&str] = &["admin", "noscript", "loading", "stale"];
const ABOUT: &[&str] = &["loading", "stale"];
const FAST: &[&str] = &["fast"];
const NONE: [i64; 3] = [0, 0, 0];
const ONE: [i64; 3] = [1, 1, 1];
const ALL: [i64; 3] = [1, -1, 1];

macro_rules! rows {
    ($($name:literal $arity:literal $flags:ident $keys:expr, $serve:path;)*) => {
        &[$(Row { name: $name, arity: $arity, flags: $flags, keys: $keys, serve: $serve }),*]
    };
}

/// All of them, by name.
pub const ROWS: &[Row] = rows! {
    "append" 3 WRITE ONE, strings::append;
    "asking" 1 FAST NONE, cluster::mode;
    "auth" -2 TALK NONE, client::auth;
    "bgrewriteaof" 1 ADMIN NONE, about::rewrite;
    "client" -2 ABOUT NONE, client::client;
    "cluster" -2 ABOUT NONE, cluster::cluster;
    "command" -1 ABOUT NONE, about::command;
    "config" -2 ADMIN NONE, about::config;
    "dbsize" 1 READ NONE, keys::dbsize;
    "decr" 2 WRITE ONE, strings::incr;
    "decrby" 3 WRITE ONE, strings::incrby;
    "del" -2 REMOVE ALL, keys::del;
    "echo" 2 FAST NONE, client::echo;
    "exists" -2 READ ALL, keys::exists;
    "expire" -3 CHANGE ONE, keys::expire;
    "expireat" -3 CHANGE ONE, keys::expire;
    "expiretime" 2 READ ONE, keys::ttl;
    "flushall" -1 REMOVE NONE, keys::flush;
    "flushdb" -1 REMOVE NONE, keys::flush;
    "get" 2 READ ONE, strings::get;
    "getdel" 2 CHANGE ONE, strings::getdel;
    "getex" -2 CHANGE ONE, strings::getex;
    "getrange" 4 SLOW ONE, strings::getrange;
    "getset" 3 WRITE ONE, strings::getset;
    "hdel" -3 CHANGE ONE, hashes::hdel;
    "hello" -1 TALK NONE, client::hello;
    "hexists" 3 READ ONE, hashes::hexists;
    "hget" 3 READ ONE, hashes::hget;
    "hgetall" 2 SLOW ONE, hashes::hgetall;
    "hincrby" 4 WRITE ONE, hashes::hincrby;
    "hincrbyfloat" 4 WRITE ONE, hashes::hincrbyfloat;
    "hkeys" 2 SLOW ONE, hashes::hkeys;
    "hlen" 2 READ ONE, hashes::hlen;
    "hmget" -3 READ ONE, hashes::hmget;
    "hmset" -4 WRITE ONE, hashes::hset;
    "hscan" -3 SLOW ONE, hashes::hscan;
    "hset" -4 WRITE ONE, hashes::hset;
    "hsetnx" 4 WRITE ONE, hashes::hsetnx;
    "hstrlen" 3 READ ONE, hashes::hstrlen;
    "hvals" 2 SLOW ONE, hashes::hvals;
    "incr" 2 WRITE ONE, strings::incr;
    "incrby" 3 WRITE ONE, strings::incrby;
    "incrbyfloat" 3 WRITE ONE, strings::incrbyfloat;
    "info" -1 ABOUT NONE, about::info;
    "keys" 2 SLOW NONE, keys::keys;
    "mget" -2 READ ALL, strings::mget;
    "mset" -3 LONGER [1, -1, 2], strings::mset;
    "persist" 2 CHANGE ONE, keys::persist;
    "pexpire" -3 CHANGE ONE, keys::expire;
    "pexpireat" -3 CHANGE ONE, keys::expire;
    "pexpiretime" 2 READ ONE, keys::ttl;
    "ping" -1 FAST NONE, client::ping;
    "psetex" 4 LONGER ONE, strings::setex;
    "pttl" 2 READ ONE, keys::ttl;
    "quit" -1 TALK NONE, client::quit;
    "readonly" 1 FAST NONE, cluster::mode;
    "readwrite" 1 FAST NONE, cluster::mode;
    "reset" 1 TALK NONE, client::reset;
    "scan" -2 SLOW NONE, keys::scan;
    "select" 2 FAST NONE, client::select;
    "set" -3 LONGER ONE, strings::set;
    "setex" 4 LONGER ONE, strings::setex;
    "setnx" 3 WRITE ONE, strings::setnx;
    "setrange" 4 LONGER ONE, strings::setrange;
    "strlen" 2 READ ONE, strings::strlen;
    "substr" 4 SLOW ONE, strings::getrange;
    "time" 1 FAST NONE, about::time;
    "touch" -2 READ ALL, keys::exists;
    "ttl" 2 READ ONE, keys::ttl;
    "type" 2 READ ONE, keys::type_of;
    "unlink" -2 CHANGE ALL, keys::del;
    "zadd" -4 WRITE ONE, sorted::zadd;
    "zcard" 2 READ ONE, sorted::zcard;
    "zcount" 4 READ ONE, sorted::zcount;
    "zincrby" 4 WRITE ONE, sorted::zincrby;
    "zlexcount" 4 READ ONE, sorted::zlexcount;
    "zmscore" -3 READ ONE, sorted::zmscore;
    "zpopmax" -2 CHANGE ONE, sorted::zpop;
    "zpopmin" -2 CHANGE ONE, sorted::zpop;
    "zrange" -4 SLOW ONE, sorted::zrange;
    "zrangebylex" -4 SLOW ONE, sorted::zrange;
    "zrangebyscore" -4 SLOW ONE, sorted::zrange;
    "zrank" 3 READ ONE, sorted::zrank;
    "zrem" -3 CHANGE ONE, sorted::zrem;
    "zremrangebylex" 4 REMOVE ONE, sorted::zremrange;
    "zremrangebyrank" 4 REMOVE ONE, sorted::zremrange;
    "zremrangebyscore" 4 REMOVE ONE, sorted::zremrange;
    "zrevrange" -4 SLOW ONE, sorted::zrange;
    "zrevrangebylex" -4 SLOW ONE, sorted::zrange;
    "zrevrangebyscore" -4 SLOW ONE, sorted::zrange;
    "zrevrank" 3 READ ONE, sorted::zrank;
    "zscore" 3 READ ONE, sorted::zscore;
};

/// The longest name.
const NAME_MOST: usize = 16;

/// The command of a name in any case.
pub fn row(name: &[u8]) -> Option<&'static Row> {
    let mut lower = [0; NAME_MOST];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    ROWS.binary_search_by(|row| row.name.as_bytes().cmp(lower)).ok().map(|at| &ROWS[at])
}

#[cfg(test)]
mod tests {
    use super::{NAME_MOST, ROWS, row};

    #[test]
    fn each_command_is_found() {
        assert!(ROWS.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(ROWS.iter().all(|row| row.name.len() <= NAME_MOST));
        assert!(row(b"GeT").is_some_and(|row| row.name == "get"));
        assert!(row(b"nothing").is_none() && row(b"").is_none());
    }
}
