//! (written next)
#![forbid(unsafe_code)]
