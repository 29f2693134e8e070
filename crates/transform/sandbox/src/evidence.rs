//! A report of the changes, for people and programs.

use serde::Serialize;

/// What was done in one function.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Evidence {
    /// The function.
    pub function: String,
    /// Heap accesses, each of which needs a guard before it on every path.
    pub accesses: usize,
    /// Guards that were inserted.
    pub guards: usize,
    /// Guards among them of addresses that were just formed: loaded, returned or passed. KFlex's Table 3 leaves these out.
    pub new_pointers: usize,
    /// Accesses that need no guard of their own: an earlier guard of the same address covers them.
    pub elided_guards: usize,
    /// Loops that can be cancelled.
    pub points: Vec<Point>,
    /// Loops that the verifier explored to their end, so that nothing need cancel them.
    pub bounded_loops: usize,
    /// Slots before and after.
    pub slots: [u32; 2],
}

/// A cancellation point.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The loop's first instruction in the original object.
    pub insn: u32,
    /// Its number in the object, by which its cancelled runs are counted.
    pub number: usize,
    /// Source file and line, where known.
    pub line: Option<String>,
    /// The helpers that release what is held there, in that order.
    pub releases: Vec<String>,
    /// Whether the deadline is checked there. Under a kernel lock, only the terminate word is, and the kernel's own bound of
    /// 250 ms holds.
    pub has_deadline: bool,
}
