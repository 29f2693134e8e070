//! Heap extensions from C source to results: compiled by clang, sandboxed, run in the kernel and in the VM.
//!
//! A model in Rust gives the expected result of each operation; user space reads the structures through the heap and
//! compares them with it.

mod allocator;
mod callbacks;
mod cancellation;
mod forced;
mod functions;
mod generated;
mod hostile;
mod list;
mod locks;
mod packet;
mod pool;
mod quantum;
mod races;
mod results;
mod structures;
mod tail_calls;
mod textbook;
mod user;
mod world;
