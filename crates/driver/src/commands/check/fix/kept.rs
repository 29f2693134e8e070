//! Whether an edit leaves an access in the program that was rejected for its bounds.
//!
//! ```text
//!   if ((void *)(ip + 1) > data)       always true: clang leaves out what follows, and the verifier accepts the rest
//!       return XDP_PASS;
//!   if (tcp->dest == port) ...         the line that was rejected: the program has no instruction of it any more
//! ```

use std::collections::BTreeSet;

use kiln_inspect::check::{Checked, Verdict};
use kiln_program::Object;
use kiln_verifier::Reason;

/// Rejections that a check of bounds mends, after which the access is still there. Other mends may move what was rejected.
const ABOUT_BOUNDS: [Reason; 4] =
    [Reason::PacketBounds, Reason::MapValueBounds, Reason::MemoryBounds, Reason::UnboundedOffset];

/// Whether a program is rejected for the bounds of an access.
pub fn is_about_bounds(checked: &Checked) -> bool {
    matches!(&checked.verdict, Verdict::Rejected { code, .. } if ABOUT_BOUNDS.iter().any(|own| own.code() == *code))
}

/// Whether the program still has instructions of a line, if the edit leaves all such lines in the source.
pub fn keeps_line(object: &[u8], program: &str, line: &str, [before, after]: [&str; 2]) -> bool {
    let numbers = |text: &str| -> BTreeSet<u32> {
        (1..).zip(text.lines()).filter(|(_, own)| own.trim() == line).map(|(number, _)| number).collect()
    };
    let (before, after) = (numbers(before), numbers(after));
    if before.is_empty() || after.len() < before.len() {
        return true;
    }
    let Ok(read) = kiln_elf::read("edited", object) else { return false };
    !lines_of(&read.object, program).is_disjoint(&after)
}

/// The lines of the source that a program has instructions of, by number: their texts are those of the file on the disk.
fn lines_of(object: &Object, program: &str) -> BTreeSet<u32> {
    let entries = object.programs.iter().filter(|own| own.name == program).map(|own| own.entry);
    let functions = entries.flat_map(|entry| object.reachable_functions(entry));
    let nodes = functions.flat_map(|id| &object.function(id).nodes);
    nodes.filter_map(|node| object.line(node)).map(|line| line.line).collect()
}
