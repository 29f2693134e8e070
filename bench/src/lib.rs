//! Benchmarks of Kiln's parts: `cargo xtask bench`.
//!
//! | measured | where |
//! |---|---|
//! | rejected programs repaired, beside variants that load | [`repairs`], `examples/repair_bench.rs` |
//! | programs before and after optimizing: slots, time, processed instructions, equality | [`gains`], `examples/optimizer_bench.rs` |
//! | how equivalence queries are settled | `examples/equiv_bench.rs` |
//! | certificates of the corpora, replayed | `examples/evidence_bench.rs` |
//! | our verifier and the kernel's | `examples/verifier_bench.rs`, `examples/processed_counts.rs` |
//! | native operations and the native tier, beside the kernel's JIT | [`repeated`], `examples/native_bench.rs` |
//! | native operations in Linux: instructions executed, bytes | [`candidate`], `examples/native_counts.rs` |
//! | heaps and native C | `examples/heap_bench.rs` |
//! | `kiln kv`, memcached, Redis and other stores in the kernel | `examples/kv_bench`, `kv_wire/run` |
//! | the pool's stores | `examples/pool_bench.rs` |
//! | queries, C by hand and bpftrace | `examples/query_bench` |
//! | how the optimizer's time and memory grow | `examples/scale` |
//! | congestion control policies and the kernel's algorithms | `examples/congestion_bench` |
//! | dispatch policies and the kernel's hash | `examples/dispatch_bench` |
//!
//! `programs/` and `heaps/` have the measured programs.
#![forbid(unsafe_code)]

pub mod bar;
pub mod candidate;
pub mod gains;
pub mod plot;
pub mod repairs;
pub mod repeated;

/// The least, the median and the greatest; not numbers where there are none.
pub fn spread(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let at = |at: usize| values.get(at).copied().unwrap_or(f64::NAN);
    [at(0), at(values.len() / 2), at(values.len().saturating_sub(1))]
}
