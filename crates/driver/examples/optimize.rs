//! Writes a smaller drop-in object, each change with its reason. Without the solver, rules and laws still apply.
//!
//! ```text
//! cargo run -p kiln-driver --no-default-features --example optimize -- OBJECT OUTPUT
//! ```
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use kiln_driver::{Error, input, optimize, output};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(object), Some(smaller)) = (arguments.next(), arguments.next()) else {
        return Err(Error::InvalidInput("usage: optimize OBJECT OUTPUT".to_owned()));
    };
    let input = input::open(&object, &[])?;

    // The default takes ten seconds at most and lets only Kiln's verifier decide.
    let mut options = optimize::Options::default();
    options.budget = Duration::from_secs(5);
    // The last argument is asked between steps whether to go on; `()` always goes on.
    let outcome = optimize::optimize(&input, &options, &mut ())?;

    for program in &outcome.programs {
        println!("{}: {} slots -> {}", program.program, program.slots_before, program.slots_after);
    }
    // Evidence says, for each rewrite, by which rule or proof it is right.
    let mut rules: BTreeMap<String, usize> = BTreeMap::new();
    for evidence in &outcome.evidence {
        *rules.entry(evidence.because.name().to_owned()).or_default() += 1;
    }
    for (rule, count) in rules {
        println!("  {count} x {rule}");
    }
    // A new file replaces the old one at once; nobody sees half of it.
    output::write_whole(&smaller, &outcome.bytes)
}
