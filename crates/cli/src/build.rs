//! `kiln build`.

use kiln_driver::build::{self, Built};
use kiln_driver::compare::Comparison;

use crate::arguments::Format;
use crate::arguments::build::BuildArguments;
use crate::commands::{Code, open};
use crate::progress::Spinner;
use crate::{print, say};

/// Builds an object's programs, and prints what was built.
pub fn build(arguments: &BuildArguments, format: Format) -> Code {
    let input = open(&arguments.object.object, &arguments.object.types)?;
    let programs = input.select(&arguments.object.program)?;
    let options = build::Options {
        setting: arguments.native.setting(),
        cpu: arguments.cpu.clone(),
        folder: arguments.output.clone(),
    };
    let spinner = Spinner::new("building");
    let built = build::build(&input, &programs, &options, &mut |what| spinner.say(what.to_owned()));
    spinner.finish();
    let built = built?;
    match format {
        Format::Json => print::json(&built)?,
        _ => built.iter().for_each(print_one),
    }
    Ok(0)
}

fn print_one(built: &Built) {
    let compared = match &built.compared {
        Comparison::Equal(count) => format!("as the interpreter on {count} inputs"),
        Comparison::Nondeterministic(what) => format!("not compared: two runs of the interpreter differ ({what})"),
        Comparison::NotRun(why) | Comparison::Different(why) => format!("not compared: {why}"),
    };
    say!("{}: {}, {} bytes of code, {compared}", built.program, built.setting, built.code_bytes);
    let times: Vec<String> =
        built.times.iter().map(|own| format!("{} {:.1} ns", own.engine, own.time.median_ns)).collect();
    if !times.is_empty() {
        say!("  a run: {}", times.join(", "));
    }
    if built.is_slower_than_jit {
        say!("  the JIT's code is faster than what was built");
    }
    for address in &built.addresses {
        say!("  needs {address}");
    }
    for file in &built.files {
        say!("  {}", kiln_driver::shown::Clean(&file.display().to_string()));
    }
}
