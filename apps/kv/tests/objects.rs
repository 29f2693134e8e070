//! Hashes and sorted sets, beside what Debian's redis-server answers if it is installed: random commands to both, all replies equal.

mod support;

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::time::Duration;

use kiln_kv::protocol::Service;
use kiln_kv::redis::Session;
use kiln_kv::store::{Condition, OWN_VARIABLE_BYTES, Outcome, Refused, Settings, Store, own_heap};

use support::redis::{ask, framed, redis_server, request, told};

const SETTINGS: Settings = Settings { buckets: 1 << 10, most_bytes: 16 << 20, served: None };
/// Random commands of one run.
const COMMANDS: usize = 12_000;

/// Has a store of this process.
fn with_service(test: impl FnOnce(&Service<'_>)) {
    let heap = own_heap(&SETTINGS);
    test(&Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store")));
}

/// Asks both servers, and compares. Returns the reply.
struct Both<'s, 'h> {
    session: Session<'s, 'h>,
    peer: TcpStream,
}

impl Both<'_, '_> {
    fn ask(&mut self, words: &[&[u8]]) -> String {
        let bytes = framed(words);
        let (own, wanted) = (ask(&mut self.session, &bytes), told(&mut self.peer, &bytes));
        assert_eq!(own, wanted, "{}", String::from_utf8_lossy(&bytes).replace("\r\n", " "));
        own
    }
}

/// Runs a test with both servers, unless the other one is not installed.
fn with_both(test: impl FnOnce(&mut Both<'_, '_>)) {
    let Some((_child, port)) = redis_server() else { return println!("skipped: redis-server is not installed") };
    let mut peer = TcpStream::connect(("127.0.0.1", port)).expect("it accepts");
    peer.set_read_timeout(Some(Duration::from_secs(5))).expect("a time limit");
    told(&mut peer, &request("FLUSHALL"));
    with_service(|service| test(&mut Both { session: Session::new(service), peer }));
}

/// Lines of commands, whose replies have to be equal.
const CONVERSATIONS: &[&str] = &[
    "HSET h a 1 b 2|HSET h a 3|HGET h a|HGET h x|HGET none x|HMGET h a x b|HMGET none a b|HGETALL h|HGETALL none|HKEYS h|HVALS h|HLEN h|HLEN none|HEXISTS h a|HEXISTS h x|HEXISTS none x|HSTRLEN h a|HSTRLEN h x|HDEL h x|HDEL h a x b|EXISTS h|TYPE h|HDEL none a|HSET h a|HSET h a 1 b|HMSET h a 1|HMSET h a|HGETALL h|HSETNX h a 2|HSETNX h c 3|HGETALL h|HGET h|HLEN",
    "HINCRBY h n 5|HINCRBY h n -7|HINCRBY h n x|HINCRBY h n 9223372036854775807|HINCRBY h n 9223372036854775807|HSET h s text|HINCRBY h s 1|HINCRBY none n x|EXISTS none|HINCRBYFLOAT h f 1.5|HINCRBYFLOAT h f 1e3|HINCRBYFLOAT h s 1|HINCRBYFLOAT h f x|HINCRBYFLOAT h f inf|HGETALL h|HSCAN h 0|HSCAN h 0 MATCH n*|HSCAN none 0|HSCAN h x|HSCAN h 0 COUNT 0|HSCAN h 0 FOO|HSCAN h 0 MATCH",
    "SET s text|HSET h a 1|ZADD z 1 a|HGET s a|HSET s a 1|HDEL s a|HGETALL s|HLEN z|HMGET z a|HSCAN z 0|HINCRBY s a 1|HINCRBY s a x|ZADD s 1 a|ZADD h 1 a|ZADD h x a|ZRANGE s 0 -1|ZRANGE h 0 -1|ZSCORE h a|ZRANK s a|ZREM s a|ZCARD h|ZCOUNT h 0 1|ZCOUNT h x 1|ZPOPMIN s|ZPOPMIN h 0|ZINCRBY s 1 a|GET h|GET z|GETSET h x|GETDEL z|GETEX h|APPEND h x|STRLEN z|INCR h|INCRBYFLOAT z 1|SETRANGE h 0 x|GETRANGE z 0 1|MGET s h z|SETNX h x|SET h x NX|SET h x GET|SET h x XX|GET h|TYPE h|TYPE z|TYPE s|MSET z 1|TYPE z|DBSIZE",
    "ZADD z 1 a 2 b 3 c|TYPE z|ZADD z NX 5 a 4 d|ZADD z XX 5 a 9 e|ZADD z CH 5 a 6 b 7 f|ZADD z GT 4 a 10 b|ZADD z LT 4 a 11 b|ZADD z GT CH 4 a 12 b 1 new|ZADD z LT CH 3 a 13 b|ZADD z XX GT CH 99 none 99 a|ZRANGE z 0 -1 WITHSCORES|ZADD z NX XX 1 a|ZADD z NX GT 1 a|ZADD z GT LT 1 a|ZADD z INCR 1 a 2 b|ZADD z INCR 1 a|ZADD z NX INCR 1 a|ZADD z XX INCR 1 none|ZADD z INCR 1 fresh|ZADD z GT INCR -5 a|ZADD z LT INCR -5 a|ZADD z x a|ZADD z 1|ZADD z 1 a 2|ZADD z NX|ZADD z nan a|ZADD z inf a -inf b +inf c|ZADD z INCR -inf a|ZINCRBY z -inf a|ZINCRBY z nan a|ZINCRBY z 1.5 fresh|ZINCRBY other 2 m|ZINCRBY other x m|ZRANGE z 0 -1 WITHSCORES|ZADD empty XX 1 a|EXISTS empty|ZADD z 1e400 a|ZADD z 1e-400 a|ZADD z -0 zero|ZSCORE z zero|ZADD z 0.1 tenth|ZSCORE z tenth|ZADD z 5. a .5 b +5 c 1e2 d|ZRANGE z 0 -1 WITHSCORES|ZADD z \"\" a|ZADD z \" 1\" a",
    "ZADD z 1 a 2 b 3 c 4 d 5 e|ZRANGE z 1 3|ZRANGE z -2 -1|ZRANGE z 3 1|ZRANGE z 9 10|ZRANGE z 0 -1 REV|ZRANGE z 0 1 REV WITHSCORES|ZRANGE z (1 4 BYSCORE|ZRANGE z 4 (1 BYSCORE REV|ZRANGE z 1 4 BYSCORE REV|ZRANGE z -inf +inf BYSCORE LIMIT 1 2|ZRANGE z -inf +inf BYSCORE LIMIT 1 -1 WITHSCORES|ZRANGE z -inf +inf BYSCORE LIMIT -1 2|ZRANGE z -inf +inf BYSCORE LIMIT 0 0|ZRANGE z -inf +inf BYSCORE LIMIT 9 1|ZRANGE z 0 -1 LIMIT 0 1|ZRANGE z 0 -1 LIMIT 0 -1|ZRANGE z 0 -1 LIMIT 1|ZRANGE z 0 -1 LIMIT x 1|ZRANGE z 0 -1 FOO|ZRANGE z 0 -1 BYSCORE BYLEX|ZRANGE z 0 -1 BYLEX|ZRANGE z x -1|ZRANGE z 0 x|ZRANGE z x 1 BYSCORE|ZRANGE z [a [c BYLEX|ZRANGE z [a [c BYLEX WITHSCORES|ZRANGE none 0 -1|ZRANGE none x -1|ZRANGEBYSCORE z 2 4|ZRANGEBYSCORE z (2 (4 WITHSCORES|ZRANGEBYSCORE z 2 4 LIMIT 1 1|ZRANGEBYSCORE z 4 2|ZRANGEBYSCORE z 2 4 REV|ZRANGEBYSCORE z 2 4 BYSCORE|ZREVRANGEBYSCORE z 4 2 WITHSCORES LIMIT 0 2|ZREVRANGE z 0 1 WITHSCORES|ZREVRANGE z 0 1 REV|ZCOUNT z 2 4|ZCOUNT z (2 +inf|ZCOUNT none 0 1|ZCOUNT z 4 2|ZCOUNT z ( 5|ZRANK z c|ZREVRANK z c|ZRANK z none|ZRANK none c|ZSCORE z none|ZSCORE none c|ZMSCORE z a none c|ZMSCORE none a b|ZCARD z|ZCARD none",
    "ZADD z 0 a 0 b 0 c 0 d|ZRANGEBYLEX z - +|ZRANGEBYLEX z [b (d|ZRANGEBYLEX z (b [d LIMIT 1 5|ZREVRANGEBYLEX z + -|ZREVRANGEBYLEX z [c [b|ZRANGEBYLEX z + -|ZRANGEBYLEX z b d|ZLEXCOUNT z [a [c|ZLEXCOUNT z - (c|ZRANGE z [c [b BYLEX REV LIMIT 0 1|ZREMRANGEBYLEX z [a (b|ZREMRANGEBYSCORE z 1 2|ZREMRANGEBYRANK z 0 0|ZRANGE z 0 -1|ZREMRANGEBYRANK z 0 -1|EXISTS z|ZREMRANGEBYSCORE z x 1|ZREMRANGEBYLEX z x 1|ZREMRANGEBYRANK z x 1",
    "ZADD z 1 a 2 b 3 c 4 d|ZPOPMIN z|ZPOPMAX z|ZPOPMIN z 0|ZPOPMIN z -1|ZPOPMIN z x|ZPOPMIN z 1 2|ZPOPMAX z 9|EXISTS z|ZPOPMIN z|ZPOPMIN z 2|ZPOPMAX none -1",
    "HELLO 3 AUTH default x|ZADD z 1.5 a 2 b inf c|ZRANGE z 0 -1 WITHSCORES|ZRANGEBYSCORE z 1 2 WITHSCORES|ZSCORE z a|ZSCORE z none|ZMSCORE z a none|ZINCRBY z 1 a|ZADD z XX INCR 1 none|ZADD z INCR 1 a|ZRANK z a|ZRANK z none|ZPOPMIN z|ZPOPMIN z 1|ZPOPMAX z 5|HSET h a 1 b 2|HGETALL h|HKEYS h|HVALS h|HMGET h a none|HGET h none|HGETALL none|HSCAN h 0|TYPE h",
    "ZADD z 1 a|EXPIRE z 100|TTL z|ZADD z 2 b|TTL z|PERSIST z|TTL z|EXPIRE z -1|EXISTS z|ZCARD z|HSET h a 1|PEXPIRE h 100000|HDEL h a|HSET h a 1|TTL h|SCAN 0 TYPE hash|SCAN 0 TYPE zset|SCAN 0 TYPE string|KEYS *|DEL h z|DBSIZE|TOUCH h|UNLINK h",
];

#[test]
fn redis_answers_the_same() {
    for conversation in CONVERSATIONS {
        with_both(|both| {
            for line in conversation.split('|') {
                // The version of the protocol changes, the number of the client is its own.
                let line = if line.starts_with("HELLO 3") { "HELLO 3" } else { line };
                let bytes = request(line);
                let own = ask(&mut both.session, &bytes);
                let wanted = told(&mut both.peer, &bytes);
                assert!(
                    own == wanted || line == "HELLO 3",
                    "{line} in {conversation}:\nown:    {own:?}\nwanted: {wanted:?}"
                );
            }
        });
    }
}

fn scores(next: &mut impl FnMut(usize) -> usize) -> String {
    match next(12) {
        0 => "inf".to_owned(),
        1 => "-inf".to_owned(),
        2 => format!("{}e{}", next(100), next(30)),
        3 | 4 => (next(1000) as f64 / 7.0).to_string(),
        5 => format!("-{}", 1 + next(20)),
        _ => next(20).to_string(),
    }
}

fn bounds(next: &mut impl FnMut(usize) -> usize) -> String {
    format!("{}{}", if next(3) == 0 { "(" } else { "" }, scores(next))
}

/// A random command of sorted sets, most of them right. Members are few, so that they meet.
fn sorted_command(next: &mut impl FnMut(usize) -> usize, members: usize) -> Vec<String> {
    let key = ["z", "y", "z", "z", "h", "s"][next(6)].to_owned();
    let member = |next: &mut dyn FnMut(usize) -> usize| format!("m{}", next(members));
    let rank = |next: &mut dyn FnMut(usize) -> usize| (next(2 * members + 4) as i64 - members as i64).to_string();
    let mut words = Vec::new();
    match next(24) {
        0..=8 => {
            words.extend(["ZADD".to_owned(), key]);
            for option in ["NX", "XX", "GT", "LT", "CH", "INCR"] {
                if next(9) == 0 {
                    words.push(option.to_owned());
                }
            }
            let count = if words.last().is_some_and(|word| word == "INCR") { 1 } else { 1 + next(6) };
            (0..count).for_each(|_| words.extend([scores(next), member(next)]));
        }
        9 => words.extend(["ZINCRBY".to_owned(), key, scores(next), member(next)]),
        10 | 11 => {
            words.extend(["ZREM".to_owned(), key]);
            (0..1 + next(5)).for_each(|_| words.push(member(next)));
        }
        12 => words.extend([["ZRANK", "ZREVRANK", "ZSCORE"][next(3)].to_owned(), key, member(next)]),
        13 => words.extend(["ZCOUNT".to_owned(), key, bounds(next), bounds(next)]),
        14 => words.extend(["ZCARD".to_owned(), key]),
        15 => words.extend([["ZPOPMIN", "ZPOPMAX"][next(2)].to_owned(), key, next(4).to_string()]),
        16 | 17 => {
            words.extend([["ZRANGE", "ZREVRANGE"][next(2)].to_owned(), key, rank(next), rank(next)]);
            if next(2) == 0 {
                words.push("WITHSCORES".to_owned());
            }
            if next(4) == 0 {
                words.push("REV".to_owned());
            }
        }
        18 | 19 => {
            let name = ["ZRANGEBYSCORE", "ZREVRANGEBYSCORE"][next(2)];
            words.extend([name.to_owned(), key, bounds(next), bounds(next)]);
            if next(2) == 0 {
                words.extend(["LIMIT".to_owned(), rank(next), rank(next)]);
            }
            if next(2) == 0 {
                words.push("WITHSCORES".to_owned());
            }
        }
        20 => {
            words.extend(["ZRANGE".to_owned(), key, bounds(next), bounds(next), "BYSCORE".to_owned()]);
            if next(2) == 0 {
                words.push("REV".to_owned());
            }
        }
        21 => words.extend(["ZREMRANGEBYRANK".to_owned(), key, rank(next), next(3).to_string()]),
        22 => words.extend(["ZMSCORE".to_owned(), key, member(next), member(next)]),
        _ => words.extend([["DEL", "TYPE", "TTL", "EXISTS", "GET"][next(5)].to_owned(), key]),
    }
    words
}

/// A random command of hashes. They stay small, so that Redis keeps their order.
fn hash_command(next: &mut impl FnMut(usize) -> usize) -> Vec<String> {
    let key = ["h", "g", "h", "h", "z", "s"][next(6)].to_owned();
    let field = |next: &mut dyn FnMut(usize) -> usize| format!("f{}", next(40));
    let value = |next: &mut dyn FnMut(usize) -> usize| match next(3) {
        0 => next(100).to_string(),
        1 => "x".repeat(next(60)),
        _ => format!("-{}", 1 + next(9)),
    };
    let mut words = Vec::new();
    match next(20) {
        0..=6 => {
            words.extend([["HSET", "HMSET"][next(2)].to_owned(), key]);
            (0..1 + next(5)).for_each(|_| words.extend([field(next), value(next)]));
        }
        7 => words.extend(["HSETNX".to_owned(), key, field(next), value(next)]),
        8..=10 => {
            words.extend([["HDEL", "HMGET"][next(2)].to_owned(), key]);
            (0..1 + next(6)).for_each(|_| words.push(field(next)));
        }
        11 | 12 => words.extend([["HGET", "HEXISTS", "HSTRLEN"][next(3)].to_owned(), key, field(next)]),
        13 | 14 => words.extend([["HGETALL", "HKEYS", "HVALS", "HLEN"][next(4)].to_owned(), key]),
        15 | 16 => words.extend(["HINCRBY".to_owned(), key, field(next), value(next)]),
        17 => words.extend(["HSCAN".to_owned(), key, "0".to_owned(), "COUNT".to_owned(), "100".to_owned()]),
        18 => words.extend([["SET", "APPEND", "SETNX", "GETSET"][next(4)].to_owned(), key, value(next)]),
        _ => words.extend([["DEL", "TYPE", "TTL", "PERSIST", "GET"][next(5)].to_owned(), key]),
    }
    words
}

fn random_commands(mut command: impl FnMut(&mut dyn FnMut(usize) -> usize) -> Vec<String>) {
    with_both(|both| {
        let mut next = support::numbers();
        let mut kinds = BTreeSet::new();
        for round in 0..COMMANDS {
            if round % 4000 == 2000 {
                told(&mut both.peer, &request("HELLO 3"));
                ask(&mut both.session, &request("HELLO 3"));
            }
            let words = command(&mut next);
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let reply = both.ask(&words);
            kinds.insert(reply.chars().next().expect("a reply"));
        }
        // Doubles, maps, numbers, strings, nothing and errors were all met.
        assert!(
            kinds.contains(&':') && kinds.contains(&'$') && kinds.contains(&'-') && kinds.contains(&'*'),
            "{kinds:?}"
        );
    });
}

#[test]
fn random_commands_of_sorted_sets_are_answered_alike() {
    random_commands(|mut next| sorted_command(&mut next, 30));
}

#[test]
fn random_commands_of_large_sorted_sets_are_answered_alike() {
    random_commands(|mut next| sorted_command(&mut next, 1500));
}

#[test]
fn random_commands_of_hashes_are_answered_alike() {
    random_commands(|mut next| hash_command(&mut next));
}

/// The elements of a reply, sorted: a large hash has no order.
fn sorted_lines(reply: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = reply.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_large_hash_has_all_its_fields() {
    with_both(|both| {
        let mut next = support::numbers();
        for _ in 0..6000 {
            let (field, value) = (format!("field{}", next(2000)), next(1000).to_string());
            match next(4) {
                0 => both.ask(&[b"HDEL", b"h", field.as_bytes()]),
                _ => both.ask(&[b"HSET", b"h", field.as_bytes(), value.as_bytes()]),
            };
        }
        for words in [&[&b"HGETALL"[..], b"h"], &[b"HKEYS", b"h"], &[b"HVALS", b"h"]] {
            let bytes = framed(words);
            let (own, wanted) = (ask(&mut both.session, &bytes), told(&mut both.peer, &bytes));
            assert_eq!(sorted_lines(&own), sorted_lines(&wanted));
        }
        let (mut cursor, mut met) = ("0".to_owned(), BTreeSet::new());
        loop {
            let reply = ask(&mut both.session, &framed(&[b"HSCAN", b"h", cursor.as_bytes(), b"MATCH", b"field*"]));
            let mut lines = reply.lines().filter(|line| !line.starts_with(['$', '*']));
            cursor = lines.next().expect("a cursor").to_owned();
            met.extend(lines.filter(|line| line.starts_with("field")).map(str::to_owned));
            if cursor == "0" {
                break;
            }
        }
        let count = both.ask(&[b"HLEN", b"h"]);
        assert_eq!(count, format!(":{}\r\n", met.len()));
    });
}

#[test]
fn objects_are_counted_evicted_and_expire() {
    let settings = Settings { buckets: 1 << 10, most_bytes: 8 << 20, served: None };
    let heap = own_heap(&settings);
    let service = Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &settings).expect("a store"));
    let store = &service.store;
    let mut session = Session::new(&service);
    let mut say = |line: &str| ask(&mut session, &request(line));
    assert_eq!(say("ZADD z 1 a 2 b"), ":2\r\n");
    assert_eq!(say("HSET h f v"), ":1\r\n");
    let before = store.bytes();
    assert_eq!(say(&format!("HSET h g {}", "v".repeat(1000))), ":1\r\n");
    assert!((1000..1500).contains(&(store.bytes() - before)), "{}", store.bytes() - before);
    assert_eq!(say("DEL h"), ":1\r\n");
    // Milliseconds count, and what is over is gone whoever asks.
    assert_eq!(say("PEXPIRE z 15"), ":1\r\n");
    std::thread::sleep(Duration::from_millis(25));
    assert_eq!(say("ZSCORE z a"), "$-1\r\n");
    assert_eq!((store.items(), store.bytes()), (0, 0));
    // Ten times as much as there is room for: others go.
    for number in 0..80 {
        let members: String = (0..5000).map(|member| format!(" {member} member{member}")).collect();
        assert_eq!(say(&format!("ZADD set{number}{members}")), ":5000\r\n", "{number}");
        assert!(store.bytes() <= settings.most_bytes, "{}", store.bytes());
    }
    assert!(store.evicted() > 50, "{}", store.evicted());
    assert_eq!(say("ZCARD set79"), ":5000\r\n", "the last one is there");
    // What needs more than there is leaves the rest.
    let huge = "x".repeat(1 << 20);
    let pairs: String = (0..9).map(|number| format!(" {number} {huge}")).collect();
    assert!(say(&format!("HSET h{pairs}")).starts_with("-OOM "));
    assert_eq!(say("ZCARD set79"), ":5000\r\n");
    // Strings take the place of objects, and the other way round.
    assert_eq!(say("SET set79 text"), "+OK\r\n");
    assert_eq!(say("GET set79"), "$4\r\ntext\r\n");
    assert_eq!(store.put(b"set78", 0, 0, b"text", Condition::Any), Outcome::Stored);
    store.clear();
    assert_eq!((store.items(), store.bytes()), (0, 0));
    let accounts = kiln_heap::supply::accounts(&heap).expect("an allocator");
    assert_eq!((accounts.allocated_bytes, accounts.bad_frees), (0, 0), "{accounts:?}");
}

#[test]
fn memory_that_a_set_has_had_is_counted_or_given_back() {
    with_service(|service| {
        let mut session = Session::new(service);
        for key in 0..50 {
            let members: String = (0..20_000).map(|member| format!(" {member} m{member}")).collect();
            ask(&mut session, &request(&format!("ZADD z{key}{members}")));
            ask(&mut session, &request(&format!("ZREMRANGEBYRANK z{key} 1 -1")));
            let fields: String = (0..20_000).map(|field| format!(" f{field} v")).collect();
            ask(&mut session, &request(&format!("HSET h{key}{fields}")));
            let fields: String = (1..20_000).map(|field| format!(" f{field}")).collect();
            ask(&mut session, &request(&format!("HDEL h{key}{fields}")));
        }
        assert_eq!(service.store.evicted(), 0);
        assert!(service.store.bytes() < 100 * (16 << 10), "{}", service.store.bytes());
    });
}

#[test]
fn threads_that_add_and_remove_lose_nothing() {
    use kiln_kv::object::{Edit, Fields, SortedSet};
    const ROUNDS: usize = 20_000;
    with_service(|service| {
        let store = &service.store;
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                scope.spawn(move || {
                    let own = [b'm', thread];
                    for round in 0..ROUNDS {
                        // The key comes and goes as the last one leaves.
                        let key: &[u8] = if round % 3 == 0 { b"one" } else { b"two" };
                        assert_eq!(
                            store.extend(key, 100, |set: &mut Edit<'_, SortedSet>| set.set(&own, 1.0)),
                            Ok(None)
                        );
                        assert_eq!(store.inspect(key, |set: &SortedSet| set.score(&own)), Ok(Some(Some(1.0))));
                        assert_eq!(store.inspect(key, |_: &Fields| ()), Err(Refused::OtherType));
                        assert_eq!(
                            store.alter(key, |set: &mut Edit<'_, SortedSet>| set.remove(&own)),
                            Ok(Some(Some(1.0)))
                        );
                    }
                });
            }
        });
        assert_eq!((store.items(), store.bytes()), (0, 0));
    });
}
