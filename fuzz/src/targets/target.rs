//! A row of the table of targets.

use kiln_driver::packets::Random;

use crate::subject::Subject;

/// How far an input got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// It was refused early: malformed, or rejected.
    Shallow,
    /// It got to what the target is about.
    Deep,
}

/// Something to fuzz.
#[derive(Debug)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Its tier: bytes, decodable, accepted, verdict or hostile.
    pub tier: &'static str,
    /// What holds for every input.
    pub what: &'static str,
    /// Its share of the time, relative to the others; without one it runs only when named.
    pub weight: u32,
    /// Good inputs; empty where inputs grow from nothing.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Makes an input.
    pub input: fn(&mut Random, &[Vec<u8>]) -> Vec<u8>,
    /// Tries an input: how far it got, or what went wrong.
    pub check: fn(&Subject, &[u8]) -> Result<Depth, String>,
    /// The program that an input stands for, as text.
    pub show: Option<fn(&Subject, &[u8]) -> String>,
    /// The program of a failing input, made smaller, as a filetest.
    pub shrink: Option<fn(&Subject, &[u8]) -> Option<String>>,
}

/// Turns a disagreement into a failure.
pub(super) fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}
