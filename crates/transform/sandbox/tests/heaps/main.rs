//! Heap extensions from C source to answers: compiled by clang, sandboxed, run in the kernel.
//!
//! A model in Rust says what each operation gives; user space reads the structures through the heap and holds them to it.

mod list;
mod world;
