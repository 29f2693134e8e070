//! (written next)
fn main() {}
