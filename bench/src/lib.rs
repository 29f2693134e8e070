//! Benchmarks of Kiln's parts: `cargo xtask bench`.
//!
//! | measured | where |
//! |---|---|
//! | programs before and after optimizing: slots, time, processed instructions, equality | [`gains`], `examples/optimizer_bench.rs` |
//! | how equivalence queries are settled, with one technique switched off at a time | `examples/equiv_bench.rs` |
//! | certificates of the corpora, replayed | `examples/evidence_bench.rs` |
//! | our verifier and the kernel's | `examples/verifier_bench.rs`, `examples/processed_counts.rs` |
//! | native operations and the native tier, beside the kernel's JIT | [`repeated`], `examples/native_bench.rs` |
//! | heaps and native C | `examples/heap_bench.rs` |
//! | the pool's stores | `examples/pool_bench.rs` |
//! | queries, C by hand and bpftrace | `examples/query_bench` |
//! | how the optimizer's time and memory grow | `examples/scale` |
//! | congestion control policies and the kernel's algorithms | `examples/congestion_bench` |
//!
//! `programs/` and `heaps/` have the measured programs. The features `ablation` of `kiln-equiv` and `kiln-superopt` are
//! for this package alone: no product can switch a proof or a technique off.
#![forbid(unsafe_code)]

pub mod gains;
pub mod plot;
pub mod repeated;
