//! Measures `kiln repair` on the set that `scripts/variants` makes: `cargo xtask bench repair`. See
//! `kiln_bench::repairs`.

use std::process::ExitCode;
use std::time::Duration;

use kiln_bench::repairs::{self, Options};

const USAGE: &str = "usage: cargo xtask bench repair [--jobs N] [--inputs N] [--budget S] [--keep DIRECTORY] [--format json|table] [NAME...]
  --jobs N          threads (default 1; with more, times are too long)
  --inputs N        inputs to compare a repaired program with a variant that loads (default 10000; 0: none)
  --budget S        seconds for one repair at most (default 60)
  --keep DIRECTORY  write repaired objects there
  --format F        a table (default), or JSON
  NAME              only sources whose path contains one of these
The set is target/variants, or KILN_VARIANTS_DIR; scripts/variants makes it.
";

fn arguments() -> Option<(Options, bool)> {
    let budget = kiln_driver::repair::DEFAULT_BUDGET;
    let mut options = Options { names: Vec::new(), jobs: 1, inputs: 10_000, budget, keep: None };
    let mut json = false;
    let mut rest = std::env::args().skip(1);
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--jobs" => options.jobs = rest.next()?.parse().ok().filter(|count| *count > 0)?,
            "--inputs" => options.inputs = rest.next()?.parse().ok()?,
            "--budget" => options.budget = Duration::try_from_secs_f64(rest.next()?.parse().ok()?).ok()?,
            "--keep" => options.keep = Some(rest.next()?.into()),
            "--format" => {
                json = match rest.next()?.as_str() {
                    "json" => true,
                    "table" => false,
                    _ => return None,
                }
            }
            flag if flag.starts_with('-') => return None,
            _ => options.names.push(argument),
        }
    }
    Some((options, json))
}

fn main() -> ExitCode {
    let Some((options, json)) = arguments() else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    if let Err(reason) = kiln_test::engine::kernel_available() {
        eprintln!("skipped: the kernel decides what the set is: {reason}");
        return ExitCode::from(3);
    }
    let measured = repairs::measure(&options);
    if measured.rows.is_empty() {
        eprintln!("no rejected variant in {}; scripts/variants makes the set", kiln_test::corpus::folder().display());
        return ExitCode::FAILURE;
    }
    match json {
        true => match serde_json::to_string_pretty(&measured) {
            Ok(json) => println!("{json}"),
            Err(error) => eprintln!("{error}"),
        },
        false => print!("{}", measured.text()),
    }
    ExitCode::SUCCESS
}
