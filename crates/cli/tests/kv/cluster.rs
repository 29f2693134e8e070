//! Several servers: Redis Cluster's slots, and memcached's clients that spread keys, with one server lost and replaced.

use std::collections::HashSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::{Client, Server, lossy, python};

/// Ports that are free now.
fn ports(count: usize) -> Vec<u16> {
    let bound: Vec<TcpListener> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    bound.iter().map(|listener| listener.local_addr().expect("its number").port()).collect()
}

fn layout(file: &Path, ports: &[u16]) {
    let slots = ["0-5460", "5461-10922", "10923-16383"];
    let lines: String = ports.iter().zip(slots).map(|(port, slots)| format!("127.0.0.1:{port} {slots}\n")).collect();
    let new = file.with_extension("new");
    std::fs::write(&new, lines).expect("is written");
    std::fs::rename(&new, file).expect("is renamed");
}

fn member(file: &Path, port: u16) -> Server {
    let listen = format!("127.0.0.1:{port}");
    let arguments = ["--listen", &listen, "--memory", "8", "--threads", "1", "--cluster", file.to_str().expect("text")];
    Server::start_as("redis", &arguments).expect("it starts").0
}

/// What redis-cli says, following redirections.
fn redis_cli(port: u16, words: &[&str]) -> Option<String> {
    let output = Command::new("redis-cli").args(["-c", "-p", &port.to_string()]).args(words).output().ok()?;
    Some(lossy(&output.stdout))
}

#[test]
fn clients_of_a_cluster_find_each_key_and_go_on_after_a_loss() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cluster");
    let ports = ports(4);
    layout(&file, &ports[..3]);
    let mut servers: Vec<Server> = ports[..3].iter().map(|port| member(&file, *port)).collect();
    let mut direct = Client::connect(&servers[0].address());
    assert_eq!(direct.ask(b"CLUSTER KEYSLOT foo\r\n", "\r\n"), ":12182\r\n");
    assert_eq!(direct.ask(b"SET foo 1\r\n", "\r\n"), format!("-MOVED 12182 127.0.0.1:{}\r\n", ports[2]));
    assert!(direct.ask(b"MSET foo 1 bar 2\r\n", "\r\n").starts_with("-CROSSSLOT "));
    if redis_cli(ports[0], &["PING"]).is_none() {
        return println!("skipped: redis-cli is not installed");
    }
    for key in ["foo", "bar", "hello", "{foo}x"] {
        assert!(redis_cli(ports[0], &["SET", key, key]).expect("redis-cli").contains("OK"), "{key}");
        assert!(redis_cli(ports[1], &["GET", key]).expect("redis-cli").contains(key), "{key}");
    }
    let check = Command::new("redis-cli").args(["--cluster", "check", &format!("127.0.0.1:{}", ports[0])]).output();
    let check = lossy(&check.expect("redis-cli").stdout);
    assert!(check.contains("[OK] All 16384 slots covered") && check.contains("[OK] 4 keys in 3 "), "{check}");
    // The first half of a script, the loss of the last server, its replacement at another address, the other half.
    let script = format!(
        "import os, sys, time\n\
         from redis.cluster import RedisCluster, ClusterNode\n\
         r = RedisCluster(startup_nodes=[ClusterNode('127.0.0.1', {}), ClusterNode('127.0.0.1', {})])\n\
         for n in range(600): assert r.set('k%d' % n, n)\n\
         assert all(r.get('k%d' % n) == str(n).encode() for n in range(600))\n\
         assert r.mset_nonatomic({{'a': 1, 'b': 2, 'c': 3}}) and r.mget_nonatomic('a', 'b', 'c') == [b'1', b'2', b'3']\n\
         assert r.zadd('{{z}}1', {{'m': 1}}) == 1 and r.dbsize(target_nodes=RedisCluster.PRIMARIES) > 600\n\
         p = r.pipeline()\n\
         for n in range(100): p.incr('p%d' % n)\n\
         assert p.execute() == [1] * 100\n\
         open('{}', 'w').close()\n\
         lost = kept = 0\n\
         deadline = time.time() + 30\n\
         while not os.path.exists('{}'): assert time.time() < deadline; time.sleep(0.02)\n\
         for n in range(600):\n\
         \x20   if r.get('k%d' % n) == str(n).encode(): kept += 1\n\
         \x20   else: lost += 1; assert r.set('k%d' % n, n) and r.get('k%d' % n) == str(n).encode()\n\
         print(kept, lost)\n",
        ports[0],
        ports[1],
        folder.path().join("stored").display(),
        folder.path().join("replaced").display(),
    );
    let told = std::thread::scope(|scope| {
        let client = scope.spawn(|| python("redis", &script));
        let begun = Instant::now();
        while !folder.path().join("stored").exists() && !client.is_finished() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the client does not go on");
            std::thread::sleep(Duration::from_millis(20));
        }
        servers.pop();
        layout(&file, &[ports[0], ports[1], ports[3]]);
        servers.push(member(&file, ports[3]));
        let wanted = format!("-MOVED 12182 127.0.0.1:{}\r\n", ports[3]);
        while direct.ask(b"GET foo\r\n", "\r\n") != wanted {
            assert!(begun.elapsed() < Duration::from_secs(60), "the file is not read again");
            std::thread::sleep(Duration::from_millis(50));
        }
        std::fs::write(folder.path().join("replaced"), "").expect("is written");
        client.join().expect("it ends")
    });
    if let Some(told) = told {
        let counts: Vec<usize> = told.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        // A third of all keys was in the one that is gone.
        assert!(counts.len() == 2 && counts[0] + counts[1] == 600 && (120..280).contains(&counts[1]), "{told}");
    }
}

#[test]
fn what_is_no_cluster_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cluster");
    for (text, why) in [
        ("127.0.0.1:1 0-16384", "line 1: \"0-16384\" is not FIRST-LAST"),
        ("127.0.0.1:1 0-16383", "no line is that of this server"),
    ] {
        std::fs::write(&file, text).expect("is written");
        let arguments = ["--listen", "127.0.0.1:0", "--cluster", file.to_str().expect("text")];
        let said = Server::start_as("redis", &arguments).err().expect("is refused");
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn keys_that_ketama_spreads_stay_where_they_are_after_a_loss() {
    let ports = ports(3);
    let start = |port: &u16| {
        let listen = format!("127.0.0.1:{port}");
        Server::start(&["--listen", &listen, "--memory", "8", "--threads", "1"]).expect("it starts").0
    };
    let mut servers: Vec<Server> = ports.iter().map(start).collect();
    let names: Vec<String> = ports.iter().map(|port| format!("'127.0.0.1:{port}'")).collect();
    let client = |names: &[String], work: &str| {
        let script = format!(
            "import pylibmc\n\
             c = pylibmc.Client([{}], behaviors={{'ketama': True}})\n{work}",
            names.join(", ")
        );
        python("pylibmc", &script)
    };
    let stored = client(&names, "for n in range(900): assert c.set('k%d' % n, str(n))\n");
    if stored.is_none() {
        return;
    }
    // Each server has its share.
    let items = |server: &Server| Client::connect(&server.address()).statistic("curr_items");
    let shares: Vec<u64> = servers.iter().map(items).collect();
    assert!(shares.iter().sum::<u64>() == 900 && shares.iter().all(|share| *share > 150), "{shares:?}");
    let had = "print(' '.join(str(n) for n in range(900) if c.get('k%d' % n) == str(n)))\n";
    let numbers = |told: String| told.split_whitespace().map(str::to_owned).collect::<HashSet<String>>();
    // Without the last one, its keys are missing, and all others are where they were.
    servers.pop();
    let left = numbers(client(&names[..2], had).expect("it is installed"));
    assert_eq!(left.len() as u64, shares[0] + shares[1]);
    // With an empty one in its place, the same keys are missing, and are stored again.
    servers.push(start(&ports[2]));
    assert_eq!(numbers(client(&names, had).expect("it is installed")), left);
    let again = "for n in range(900): assert c.get('k%d' % n) == str(n) or c.set('k%d' % n, str(n))\n";
    let told = client(&names, &format!("{again}{had}")).expect("it is installed");
    assert_eq!(numbers(told).len(), 900);
    assert_eq!(items(&servers[2]), shares[2]);
}
