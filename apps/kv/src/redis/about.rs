//! What the server says of itself.

use std::sync::atomic::Ordering;

use super::call::{Call, Served, VERSION, unknown_subcommand};
use super::reply::Reply;
use super::table::{self, ROWS, Row};

/// `TIME`.
pub fn time(call: &mut Call<'_, '_>) -> Served {
    let now = crate::clock::wall();
    call.reply.array(2);
    call.reply.bulk((now / 1000).to_string().as_bytes());
    call.reply.bulk((now % 1000 * 1000).to_string().as_bytes());
    Ok(())
}

/// `INFO`.
pub fn info(call: &mut Call<'_, '_>) -> Served {
    let wanted: Vec<String> =
        call.words[1..].iter().map(|word| String::from_utf8_lossy(word).to_ascii_lowercase()).collect();
    let is_all = wanted.is_empty() || wanted.iter().any(|word| matches!(&**word, "all" | "default" | "everything"));
    let (store, counted) = (&call.service.store, &call.service.statistics);
    let own = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed).to_string();
    let misses = counted.gets.load(Ordering::Relaxed).saturating_sub(counted.hits.load(Ordering::Relaxed));
    let uptime = call.service.begun.elapsed().as_secs();
    let mode = if call.service.cluster.is_some() { "cluster" } else { "standalone" };
    let sections: [(&str, Vec<(&str, String)>); 8] = [
        (
            "Server",
            vec![
                ("redis_version", VERSION.to_owned()),
                ("kiln_version", env!("CARGO_PKG_VERSION").to_owned()),
                ("redis_mode", mode.to_owned()),
                ("arch_bits", usize::BITS.to_string()),
                ("process_id", std::process::id().to_string()),
                ("uptime_in_seconds", uptime.to_string()),
                ("uptime_in_days", (uptime / 86400).to_string()),
            ],
        ),
        ("Clients", vec![("connected_clients", own(&counted.connections))]),
        (
            "Memory",
            vec![
                ("used_memory", store.bytes().to_string()),
                ("maxmemory", store.most_bytes().to_string()),
                ("maxmemory_policy", "allkeys-lru".to_owned()),
                ("mem_clients_normal", own(&counted.client_bytes)),
            ],
        ),
        ("Persistence", persistence(call)),
        (
            "Stats",
            vec![
                ("total_connections_received", own(&counted.all_connections)),
                ("total_commands_processed", own(&counted.commands)),
                ("evicted_keys", store.evicted().to_string()),
                ("evicted_clients", own(&counted.shed)),
                ("keyspace_hits", own(&counted.hits)),
                ("keyspace_misses", misses.to_string()),
            ],
        ),
        ("Cluster", cluster(call)),
        ("Replication", vec![("role", "master".to_owned()), ("connected_slaves", "0".to_owned())]),
        (
            "Keyspace",
            Some(store.items())
                .filter(|items| *items > 0)
                // Keys that expire are not counted.
                .map(|items| ("db0", format!("keys={items},expires=0,avg_ttl=0")))
                .into_iter()
                .collect(),
        ),
    ];
    let mut text = String::new();
    for (title, rows) in sections {
        if is_all || wanted.contains(&title.to_ascii_lowercase()) {
            let gap = if text.is_empty() { "" } else { "\r\n" };
            text += &format!("{gap}# {title}\r\n");
            rows.iter().for_each(|(name, value)| text += &format!("{name}:{value}\r\n"));
        }
    }
    call.reply.text(&text);
    Ok(())
}

/// What is known of the cluster.
fn cluster(call: &Call<'_, '_>) -> Vec<(&'static str, String)> {
    let Some(cluster) = &call.service.cluster else { return vec![("cluster_enabled", "0".to_owned())] };
    let failure = cluster.failure().map(|why| ("cluster_file_error", why.replace(['\r', '\n'], " ")));
    std::iter::once(("cluster_enabled", "1".to_owned())).chain(failure).collect()
}

/// What is known of the log.
fn persistence(call: &Call<'_, '_>) -> Vec<(&'static str, String)> {
    let Some(journal) = call.service.store.journal() else { return vec![("aof_enabled", "0".to_owned())] };
    let files = &journal.files;
    vec![
        ("aof_enabled", "1".to_owned()),
        ("aof_rewrite_in_progress", u8::from(files.is_rewriting.load(Ordering::Relaxed)).to_string()),
        ("aof_rewrites", files.rewrites.load(Ordering::Relaxed).to_string()),
        ("aof_last_write_status", if journal.failure().is_some() { "err" } else { "ok" }.to_owned()),
        ("aof_current_size", files.bytes().to_string()),
        ("aof_base_size", files.base_bytes.load(Ordering::Relaxed).to_string()),
    ]
}

/// `BGREWRITEAOF`.
pub fn rewrite(call: &mut Call<'_, '_>) -> Served {
    let journal = call.service.store.journal().ok_or("ERR there is no log: the server was started without --data")?;
    if journal.files.is_rewriting.load(Ordering::Relaxed) {
        return Err("ERR Background append only file rewriting already in progress".into());
    }
    journal.ask_for_rewrite();
    call.reply.simple("Background append only file rewriting started");
    Ok(())
}

/// `CONFIG`: what clients look for before they begin.
pub fn config(call: &mut Call<'_, '_>) -> Served {
    if call.lower(1) != b"get" {
        return Err(unknown_subcommand(call));
    }
    if call.words.len() < 3 {
        return Err("ERR wrong number of arguments for 'config|get' command".into());
    }
    let known = [
        ("appendonly", if call.service.store.journal().is_some() { "yes" } else { "no" }.to_owned()),
        ("cluster-require-full-coverage", "no".to_owned()),
        ("databases", "1".to_owned()),
        ("maxmemory", call.service.store.most_bytes().to_string()),
        ("maxmemory-clients", call.service.most_client_bytes.to_string()),
        ("maxmemory-policy", "allkeys-lru".to_owned()),
        ("save", String::new()),
    ];
    let is_asked =
        |name: &str| call.words[2..].iter().any(|text| super::glob::fits(&text.to_ascii_lowercase(), name.as_bytes()));
    let asked: Vec<_> = known.iter().filter(|(name, _)| is_asked(name)).collect();
    call.reply.map(asked.len());
    for (name, value) in asked {
        call.reply.bulk(name.as_bytes());
        call.reply.bulk(value.as_bytes());
    }
    Ok(())
}

fn describe(reply: &mut Reply<'_>, row: &Row) {
    reply.array(10);
    reply.bulk(row.name.as_bytes());
    reply.integer(row.arity);
    reply.set(row.flags.len());
    row.flags.iter().for_each(|flag| reply.simple(flag));
    row.keys.iter().for_each(|place| reply.integer(*place));
    // Categories, tips, places of keys, subcommands.
    reply.set(0);
    (0..3).for_each(|_| reply.array(0));
}

/// `COMMAND`.
pub fn command(call: &mut Call<'_, '_>) -> Served {
    let words = call.words;
    match (&*call.lower(1), words.len()) {
        (_, 1) => {
            call.reply.array(ROWS.len());
            ROWS.iter().for_each(|row| describe(&mut call.reply, row));
        }
        (b"count", 2) => call.reply.integer(ROWS.len() as i64),
        (b"list", 2) => {
            call.reply.set(ROWS.len());
            ROWS.iter().for_each(|row| call.reply.bulk(row.name.as_bytes()));
        }
        (b"info", _) => {
            call.reply.array(words.len() - 2);
            for name in &words[2..] {
                match table::row(name) {
                    Some(row) => describe(&mut call.reply, row),
                    None => call.reply.null(),
                }
            }
        }
        (b"docs", _) => call.reply.map(0),
        (b"count", _) => return Err("ERR wrong number of arguments for 'command|count' command".into()),
        _ => return Err(unknown_subcommand(call)),
    }
    Ok(())
}
