//! Measures the effect of the optimizer over the corpora: `cargo xtask bench optimizer`. See `kiln_bench::gains`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use kiln_bench::gains::{self, Options, proofs, report};
use kiln_superopt::Goal;

const USAGE: &str = "usage: cargo xtask bench optimizer [--only GROUP] [--goal G] [--budget S] [--jobs N] [--format json|table] [--no-time] [--evidence] [--inputs N [--canary]] [--write] [NAME...]
  --only GROUP   k2, xdp-tools, samples-6.1, selftests or cpuv4; repeatable, all by default
  --goal G       size, speed, complexity or balanced (default)
  --budget S     seconds to optimize one object at most (default: that of kiln optimize)
  --jobs N       threads that optimize (default 2); timing always has one
  --format F     a table (default), or JSON
  --no-time      leave run times out
  --evidence     have a second solver (cvc5) prove every rewrite again; fails where one is refuted
  --inputs N     run both forms of every program that changed on N inputs, in the kernel and the VM
  --canary       run programs that are wrong on purpose instead: the differences are what is found
  --write        write docs/measurements/superoptimizer-results.md too
  NAME           only programs whose `group/object.o:program` contains one of these
";

struct Arguments {
    options: Options,
    json: bool,
    write: bool,
}

fn arguments() -> Option<Arguments> {
    let options = Options { jobs: 2, time: true, ..Options::default() };
    let mut parsed = Arguments { options, json: false, write: false };
    let mut rest = std::env::args().skip(1);
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--only" => parsed.options.only.push(rest.next()?),
            "--goal" => parsed.options.goal = Goal::from_name(&rest.next()?)?,
            "--budget" => parsed.options.budget = Some(Duration::try_from_secs_f64(rest.next()?.parse().ok()?).ok()?),
            "--jobs" => parsed.options.jobs = rest.next()?.parse().ok().filter(|count| *count > 0)?,
            "--format" => {
                parsed.json = match rest.next()?.as_str() {
                    "json" => true,
                    "table" => false,
                    _ => return None,
                }
            }
            "--inputs" => parsed.options.inputs = rest.next()?.parse().ok()?,
            "--evidence" => parsed.options.evidence = true,
            "--canary" => parsed.options.canary = true,
            "--no-time" => parsed.options.time = false,
            "--write" => parsed.write = true,
            flag if flag.starts_with('-') => return None,
            _ => parsed.options.names.push(argument),
        }
    }
    Some(parsed)
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    if let Err(reason) = kiln_test::engine::kernel_available() {
        eprintln!("skipped: run times and processed instructions: {reason}");
    }
    let measured = gains::measure(&arguments.options);
    let text = report::markdown(&measured);
    if arguments.json {
        match serde_json::to_string_pretty(&measured) {
            Ok(json) => println!("{json}"),
            Err(error) => eprintln!("{error}"),
        }
    } else {
        print!("{text}");
    }
    if arguments.write {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/measurements/superoptimizer-results.md");
        if let Err(error) = std::fs::write(&path, report::document(&text)) {
            eprintln!("{}: {error}", path.display());
            return ExitCode::from(2);
        }
    }
    ExitCode::from(u8::from(proofs::is_refuted(&measured.evidence)))
}
