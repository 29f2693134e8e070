//! Compares verdicts on a folder of the kernel's own test programs with what their authors expect.
//!
//! ```text
//!   cargo run --example expectations -- 7.2 target/kernels/7.2/btf/vmlinux FOLDER
//!
//!                  must load  must not  not said
//!   accepted             211         0      1503
//!   rejected               8       412        51       ... and below, the reasons by count
//! ```
//!
//! `__success` and `__failure` of the sources are declaration tags in the objects' BTF.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use kiln_driver::input;
use kiln_platform::{KernelVersion, Profile};
use kiln_program::btf::Btf;
use kiln_test::agreement::annotation::expected;
use kiln_verifier::{Error, Options, verify};

/// A program: its name, the author's word, ours, and the reason.
struct Row {
    program: String,
    column: &'static str,
    verdict: &'static str,
    why: String,
}

fn rows_of(path: &Path, options: &Options) -> Result<Vec<Row>, String> {
    let mut input = input::open(path, &[]).map_err(|error| error.to_string())?;
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let types = options.kernel_types.as_ref().expect("types");
    kiln_elf::resolve_core(&mut input.object, types).map_err(|error| error.to_string())?;
    kiln_elf::resolve_kconfig(&mut input.object, &input::release_config(options.profile.version()));
    let row = |program| {
        let (verdict, why) = match verify(&input.object, program, options) {
            Ok(_) => ("accepted", String::new()),
            Err(Error::Rejected(why)) => ("rejected", format!("{}: {}", why.reason.code(), why.message)),
            Err(error @ (Error::Unsupported { .. } | Error::Limit { .. })) => ("unsupported", error.to_string()),
            Err(error) => ("invalid", error.to_string()),
        };
        let column = match expected(&input.object, program) {
            Some(expected) if expected.success => "must load",
            Some(_) => "must not",
            None => "not said",
        };
        Row { program: format!("{file}:{}", program.name), column, verdict, why }
    };
    let mut rows: Vec<Row> = input.object.programs.iter().map(row).collect();
    for program in input.unreadable() {
        let name = format!("{file}:{}", program.function);
        rows.push(Row { program: name, column: "not said", verdict: "invalid", why: program.reason.to_string() });
    }
    Ok(rows)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [release, types, folder] = words.as_slice() else { panic!("expectations RELEASE BTF FOLDER") };
    let bytes = std::fs::read(types).expect("a BTF file");
    let options = Options {
        skip_facts: true,
        kernel_types: Some(Arc::new(Btf::parse(&bytes).expect("BTF"))),
        profile: Profile::of(release.parse::<KernelVersion>().expect("a release")),
        ..Options::default()
    };
    let mut paths: Vec<_> = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "o"));
    paths.sort();
    let (mut table, mut unreadable) = (BTreeMap::<(&str, &str), usize>::new(), 0);
    for path in &paths {
        match rows_of(path, &options) {
            Ok(rows) => {
                for row in rows {
                    *table.entry((row.verdict, row.column)).or_default() += 1;
                    println!("{}\t{}\t{}\t{}", row.column, row.verdict, row.program, row.why.replace('\n', " "));
                }
            }
            Err(why) => {
                unreadable += 1;
                println!("unreadable\t\t{}\t{why}", path.display());
            }
        }
    }
    eprintln!("{:12} {:>9} {:>9} {:>9}", "", "must load", "must not", "not said");
    for verdict in ["accepted", "rejected", "unsupported", "invalid"] {
        let of = |column| table.get(&(verdict, column)).copied().unwrap_or(0);
        eprintln!("{verdict:12} {:9} {:9} {:9}", of("must load"), of("must not"), of("not said"));
    }
    eprintln!("{} objects, {unreadable} unreadable", paths.len());
}
