//! Short forms of `cargo xtask bench heap`, `bench pool` and `bench kv`: everything is compiled, sandboxed, loaded and run, and all places agree on
//! what operations find. Nothing here judges times.

#[allow(dead_code)]
#[path = "../examples/heap_bench.rs"]
mod heap_bench;
#[allow(dead_code)]
#[path = "../examples/pool_bench.rs"]
mod pool_bench;

#[allow(dead_code)]
#[path = "../examples/kv_bench.rs"]
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
    let effort = kv_bench::Effort { rounds: 1, requests: 500, fill: 2000 };
    let rows = kv_bench::all(effort).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(rows.len(), 4, "two commands, hot and cold");
    assert!(rows.iter().all(|row| row["heap_to_slots"].is_f64()), "{rows:?}");
}

#[test]
fn peers_are_measured() {
    if ["redis-server", "redis-benchmark"]
        .iter()
        .any(|name| std::process::Command::new(name).arg("--version").output().is_err())
    {
        println!("skipped: redis-server and redis-benchmark are not installed");
        return;
    }
    let effort = kv_bench::PeerEffort { rounds: 1, depths: [(1, 500), (16, 2000)] };
    let rows = kv_bench::peers(effort).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(rows.len(), 12, "six commands, alone and 16 at once");
    assert!(rows.iter().all(|row| row["kiln_to_redis"].as_f64().is_some_and(|ratio| ratio > 0.0)), "{rows:?}");
}
