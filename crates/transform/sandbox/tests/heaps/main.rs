//! Heap extensions from C source to answers: compiled by clang, sandboxed, run in the kernel and in the VM.
//!
//! A model in Rust says what each operation gives; user space reads the structures through the heap and holds them to it.

mod allocator;
mod list;
mod locks;
mod structures;
mod world;
