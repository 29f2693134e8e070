//! Short forms of `cargo xtask bench heap`, `bench pool` and `bench kv`: everything is compiled, sandboxed, loaded and run, and all places agree on
//! what operations find. Nothing here judges times.

#[allow(dead_code)]
#[path = "../examples/heap_bench.rs"]
mod heap_bench;
#[allow(dead_code)]
#[path = "../examples/pool_bench.rs"]
mod pool_bench;

#[allow(dead_code)]
#[path = "../examples/kv_bench/main.rs"]
mod kv_bench;

#[test]
fn heaps_are_measured() {
    if std::process::Command::new("clang-19").arg("--version").output().is_err() {
        println!("skipped: clang-19 is not installed");
        return;
    }
    let effort = heap_bench::Effort {
        rounds: 1,
        elements: 512,
        operations: 512,
        latencies: 2,
        quanta_ms: &[0.1],
        in_tier: Some(&["hash"]),
    };
    let measured = heap_bench::all(&effort, None).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(measured.guards.len(), 12, "structures with a heap");
    assert_eq!((measured.operations.len(), measured.quanta.len()), (34, 1));
    for row in &measured.operations {
        assert!(row["vm_ns"].as_f64().is_some_and(|ns| ns > 0.0), "{row}");
    }
}

#[test]
fn pools_are_measured() {
    if let Err(error) = kiln_linux::available() {
        println!("skipped: the kernel: {error}");
        return;
    }
    let effort = pool_bench::Effort { rounds: 1, objects: 1024, operations: 64 };
    let (rows, shares) = pool_bench::all(effort).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(rows.len(), 9);
    for store in ["slot", "hash", "array", "arena"] {
        assert!(shares[store]["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{shares}");
        assert!(rows.iter().all(|row| row[store]["ns"].as_f64().is_some_and(|ns| ns > 0.0)), "{rows:?}");
    }
}

#[test]
fn requests_are_measured() {
    if let Err(error) = kiln_linux::available() {
        println!("skipped: the kernel: {error}");
        return;
    }
    let effort = kv_bench::requests::Effort { rounds: 1, requests: 500, fill: 2000 };
    let rows = kv_bench::requests::all(effort).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(rows.len(), 4, "two commands, hot and cold");
    assert!(rows.iter().all(|row| row["heap_to_slots"].is_f64()), "{rows:?}");
}

/// Whether programs are there.
fn are_installed(programs: &[&str]) -> bool {
    let is_missing = |name: &&&str| std::process::Command::new(name).arg("--version").output().is_err();
    let missing = programs.iter().find(is_missing);
    missing.iter().for_each(|name| println!("skipped: {name} is not installed"));
    missing.is_none()
}

fn are_measured(rows: &[serde_json::Value], count: usize) {
    assert_eq!(rows.len(), count, "each command, alone and 16 at once");
    for key in ["kiln_to_peer", "peer_cpu_ns"] {
        assert!(rows.iter().all(|row| row[key].as_f64().is_some_and(|number| number > 0.0)), "{rows:?}");
    }
}

#[test]
fn redis_and_kiln_are_measured() {
    if are_installed(&["redis-server", "redis-benchmark"]) {
        let effort = kv_bench::beside::Effort { rounds: 1, depths: [(1, 500), (16, 2000)] };
        are_measured(&kv_bench::redis::all(effort).unwrap_or_else(|error| panic!("{error}")), 12);
    }
}

#[test]
fn memcached_over_tcp_and_kiln_are_measured() {
    if are_installed(&["memcached", "gcc"]) {
        let effort = kv_bench::beside::Effort { rounds: 1, depths: [(1, 50), (16, 50)] };
        let tcp = kv_bench::tcp::all(effort).unwrap_or_else(|error| panic!("{error}"));
        are_measured(&tcp, 4);
        let found = kv_bench::bars::Found { tcp, ..kv_bench::bars::Found::default() };
        assert_eq!(found.bars().len(), 4, "get and set, alone and 16 at once");
    }
}

#[test]
fn the_extensions_verify_within_their_bar_on_all_kernels() {
    if std::process::Command::new("clang-19").arg("--version").output().is_err() {
        println!("skipped: clang-19 is not installed");
        return;
    }
    let rows = kv_bench::processed::all().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(rows.len(), 6, "two programs, three releases each");
    for kv_bench::processed::Processed { program, release, insns } in rows {
        println!("{program}, Linux {release}: {insns} of {}", kv_bench::processed::MOST);
        assert!((1000..=kv_bench::processed::MOST).contains(&insns), "{program}, Linux {release}: {insns}");
    }
}

/// Whether programs are there; and this benchmark, which has the servers.
fn has(programs: &[&str]) -> bool {
    if !are_installed(programs) {
        return false;
    }
    if kv_bench::serve::own().is_none() {
        println!("skipped: examples/kv_bench is not built");
        return false;
    }
    true
}

#[test]
fn memory_of_keys_is_measured() {
    if !has(&["memcached", "redis-server"]) {
        return;
    }
    let rows = kv_bench::memory::all(2000).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(rows.len(), 4, "three sizes and a mix");
}

#[test]
fn requests_over_a_veth_are_measured() {
    if let Err(error) = kiln_linux::available() {
        println!("skipped: the kernel: {error}");
        return;
    }
    if !has(&["memcached", "clang-19", "gcc", "ip", "ethtool"]) {
        return;
    }
    let effort = kv_bench::wire::Effort { rounds: 1, seconds: 0.05, keys: 512 };
    let found = kv_bench::wire::all(effort).unwrap_or_else(|error| panic!("{error}"));
    let rows = found["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 4 * 2 + 2 * 6, "{found}");
    assert!(rows.iter().all(|row| row["rate"].as_f64().is_some_and(|rate| rate > 0.0)), "{found}");
    let bars = kv_bench::bars::Found { wire: found, ..kv_bench::bars::Found::default() }.bars();
    assert_eq!(bars.len(), 4 + 2 + 2 + 2, "{bars:?}");
}
