//! `kiln check --flame-graph`: where the processed instructions of one or more programs went.
//!
//! ```text
//!   all
//!     a.o                           with several objects
//!       parse (xdp)                 the program
//!         a.c:12 parse(x)           the line of it that was processed, or called the next function
//!           parse                   a function
//! ```

use kiln_inspect::cost::{Cost, frame};
use kiln_program::Error;

use crate::flame_graph;

/// A program that was verified.
pub struct Verified<'a> {
    /// The object it is from, if there are several.
    pub object: Option<String>,
    /// The program.
    pub program: String,
    /// Where its processed instructions went.
    pub cost: &'a Cost,
}

/// Draws the flame graph of all programs under one root.
///
/// # Errors
/// Returns [`Error::Unsupported`] if it cannot be drawn.
pub fn graph(title: &str, programs: &[Verified<'_>]) -> Result<Vec<u8>, Error> {
    let mut stacks: Vec<(String, u64)> = Vec::new();
    for verified in programs {
        let object = verified.object.as_ref().map_or_else(String::new, |name| frame(name) + ";");
        let head = format!("{object}{};", frame(&verified.program));
        // The outermost function is the program itself.
        let inner = |stack: &str| stack.split_once(';').map_or("", |both| both.1).to_owned();
        let folded = verified.cost.folded.iter();
        stacks.extend(folded.map(|(stack, count)| (format!("{head}{}", inner(stack)), *count)));
    }
    flame_graph::draw(title, "instructions processed", stacks.into_iter())
}
