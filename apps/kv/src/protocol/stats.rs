//! `stats`.

use std::sync::atomic::{AtomicU64, Ordering};

use super::number;
use super::service::{Service, VERSION};
use crate::store;

/// Of memcached, which says so of one that is not below.
const SLAB_CLASSES: u64 = 64;

/// Serves `stats`, `stats reset`, `stats settings` and memcached's other statistics, which are empty here.
pub fn line(service: &Service<'_>, words: &[&[u8]], output: &mut Vec<u8>) {
    match words.get(1).copied() {
        None => general(service, output),
        Some(b"reset") => {
            let own = &service.statistics;
            let of_commands = [&own.gets, &own.hits, &own.sets, &own.touches, &own.deletes, &own.flushes];
            for counter in of_commands.into_iter().chain([&own.received, &own.sent]) {
                counter.store(0, Ordering::Relaxed);
            }
            return output.extend(b"RESET\r\n");
        }
        Some(b"settings") => {
            let rows = [("maxbytes", service.store.most_bytes()), ("item_size_max", store::VALUE_MOST as u64)];
            rows.into_iter().for_each(|(name, value)| row(output, name, value));
        }
        Some(b"items" | b"slabs" | b"sizes" | b"conns" | b"extstore") => {}
        Some(b"cachedump") => {
            let numbers: Vec<_> = words[2..].iter().take(2).map(|word| number::unsigned(word)).collect();
            let refusal = match numbers[..] {
                [Some(class), Some(_)] if class < SLAB_CLASSES => None,
                [Some(_), Some(_)] => Some("Illegal slab id"),
                [_, _] => Some("bad command line format"),
                _ => Some("bad command line"),
            };
            if let Some(why) = refusal {
                return output.extend(format!("CLIENT_ERROR {why}\r\n").bytes());
            }
        }
        Some(_) => return output.extend(b"ERROR\r\n"),
    }
    output.extend(b"END\r\n");
}

fn row(output: &mut Vec<u8>, name: &str, value: impl std::fmt::Display) {
    output.extend(format!("STAT {name} {value}\r\n").bytes());
}

fn general(service: &Service<'_>, output: &mut Vec<u8>) {
    let own = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (store, statistics, programs) = (&service.store, &service.statistics, service.counters());
    let (gets, hits) = (own(&statistics.gets) + programs.gets, own(&statistics.hits) + programs.hits);
    row(output, "pid", std::process::id());
    row(output, "version", VERSION);
    let rows = [
        ("uptime", service.begun.elapsed().as_secs()),
        ("time", crate::clock::wall() / 1000),
        ("pointer_size", 64),
        ("curr_connections", own(&statistics.connections)),
        ("total_connections", own(&statistics.all_connections)),
        ("client_bytes", own(&statistics.client_bytes)),
        ("clients_shed", own(&statistics.shed)),
        ("cmd_get", gets),
        ("cmd_set", own(&statistics.sets) + programs.sets),
        ("cmd_touch", own(&statistics.touches)),
        ("cmd_flush", own(&statistics.flushes)),
        ("get_hits", hits),
        ("get_misses", gets.saturating_sub(hits)),
        ("bytes_read", own(&statistics.received)),
        ("bytes_written", own(&statistics.sent)),
        ("delete_requests", own(&statistics.deletes)),
        ("limit_maxbytes", store.most_bytes()),
        ("bytes", store.bytes()),
        ("curr_items", store.items()),
        ("evictions", store.evicted()),
        ("xdp_gets", programs.gets),
        ("xdp_sets", programs.sets),
        ("xdp_passed", programs.passed),
    ];
    // Nobody counts the items of a program's store.
    let of_store = ["limit_maxbytes", "bytes", "curr_items", "evictions"];
    let known = rows.into_iter().filter(|(name, _)| service.program.is_none() || !of_store.contains(name));
    known.for_each(|(name, value)| row(output, name, value));
    if let Some(journal) = store.journal() {
        row(output, "log_bytes", journal.files.bytes());
        row(output, "log_failing", u8::from(journal.failure().is_some()));
    }
}
