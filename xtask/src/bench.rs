//! `cargo xtask bench`: compares the VM's JIT with the kernel's on the programs of `bench/programs`.
//!
//! Each program is compiled with clang 19 and passed to `kiln bench`, which runs both on the same bytecode,
//! interleaved. It prints one row per program and, for each kind of program, the geometric mean of the ratios with
//! their spread:
//!
//! ```text
//!   program          VM ns (quartiles)      kernel ns (quartiles)    VM/kernel
//!   alu_chain        107.1 (107.0-107.1)    121.0 (121.0-121.0)      0.88
//!   pure: geomean 0.95, quartiles 0.90-1.02, 42 programs
//! ```
//!
//! `cargo xtask bench verifier` compares the two verifiers instead (`bench/examples/verifier_bench.rs`), and
//! `cargo xtask bench optimizer` the programs of the corpora before and after (`bench/examples/optimizer_bench.rs`),
//! and `cargo xtask bench equiv` says how questions of equivalence are settled (`bench/examples/equiv_bench.rs`).
//! `cargo xtask bench evidence` replays the certificates of the corpora (`bench/examples/evidence_bench.rs`).
//! `cargo xtask bench repair` repairs what `scripts/variants` made (`bench/examples/repair_bench.rs`).
//! `cargo xtask bench scale` measures how the optimizer's time and memory grow with size
//! (`bench/examples/scale`).
//! `cargo xtask bench heap` measures heaps beside native C (`bench/examples/heap_bench.rs`).
//! `cargo xtask bench pool` measures the pool's stores (`bench/examples/pool_bench.rs`).
//! `cargo xtask bench kv` measures `kiln kv` beside memcached, Redis and other stores in the kernel (`bench/examples/kv_bench`).
//! `cargo xtask bench congestion` measures connections of congestion control policies beside the kernel's algorithms
//! (`bench/examples/congestion_bench`).
//! `cargo xtask bench dispatch` measures request servers under dispatch policies (`bench/examples/dispatch_bench`).
//! `cargo xtask bench query` measures queries beside C by hand and bpftrace (`bench/examples/query_bench`).
//! `cargo xtask bench native [NAME...] [--format json]` compares the kernel's JIT and the VM's, without and with native
//! operations, on the pure programs (`bench/examples/native_bench.rs`).
//! `cargo xtask bench peers [NAME...]` compares other runtimes on the same programs (`bench-compare`).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::command::{Failure, root, run as run_command, script, target_dir};
use crate::demo::built_kiln;

/// A row of `bench/programs/programs.toml`.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    name: String,
    kind: String,
}

/// The program that only returns.
const EMPTY: &str = "xdp_pass";

/// Benchmarks that are examples: the argument, the package, the example, and what it does.
const EXAMPLES: [(&str, &str, &str, &str); 12] = [
    ("heap", "kiln-bench", "heap_bench", "measuring heaps"),
    ("query", "kiln-bench", "query_bench", "measuring queries"),
    ("pool", "kiln-bench", "pool_bench", "measuring pools"),
    ("kv", "kiln-bench", "kv_bench", "measuring the key-value store"),
    ("verifier", "kiln-bench", "verifier_bench", "comparing the verifiers"),
    ("optimizer", "kiln-bench", "optimizer_bench", "measuring the optimizer"),
    ("equiv", "kiln-bench", "equiv_bench", "measuring the equivalence checker"),
    ("scale", "kiln-bench", "scale", "measuring growth"),
    ("dispatch", "kiln-bench", "dispatch_bench", "measuring dispatch"),
    ("congestion", "kiln-bench", "congestion_bench", "measuring congestion control"),
    ("evidence", "kiln-bench", "evidence_bench", "replaying certificates"),
    ("repair", "kiln-bench", "repair_bench", "measuring repairs"),
];

/// `cargo xtask bench`: all programs, or those whose names begin with one of the arguments.
///
/// # Errors
/// Returns a failure if a program does not compile or `kiln bench` fails.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    if let [first, rest @ ..] = arguments
        && let Some((_, package, example, what)) = EXAMPLES.iter().find(|(name, ..)| first == name)
    {
        let mut command = crate::command::cargo();
        command.args(["run", "--quiet", "--release", "--package", package, "--example", example, "--"]);
        if first == "repair" {
            // The variants are a corpus of their own.
            let set =
                std::env::var_os("KILN_VARIANTS_DIR").map_or_else(|| target_dir().join("variants"), PathBuf::from);
            command.env("KILN_CORPUS_DIR", set);
        }
        return run_command(command.args(rest), what);
    }
    if let [first, rest @ ..] = arguments
        && first == "native"
    {
        return native(rest);
    }
    if let [first, rest @ ..] = arguments
        && first == "peers"
    {
        return peers(rest);
    }
    if let Some(flag) = arguments.iter().find(|argument| argument.starts_with('-')) {
        return Err(Failure::usage(format!("unknown argument '{flag}' (known: names of programs)")));
    }
    run_command(&mut script("setup"), "scripts/setup")?;
    let mut programs = listed()?;
    programs.retain(|program| is_wanted(&program.name, arguments));
    if programs.is_empty() {
        return Err(Failure::usage("no program of bench/programs has such a name"));
    }
    let kiln = built_kiln(&["--release"])?;
    let objects = programs.iter().map(|program| compile(&program.name)).collect::<Result<Vec<_>, _>>()?;
    let rows = measure(&kiln, &objects)?;
    print!("{}", report(&programs, &rows));
    Ok(())
}

/// `cargo xtask bench native`, on all pure programs or those whose names begin with one of the arguments.
fn native(arguments: &[String]) -> Result<(), Failure> {
    let (names, format) = match arguments {
        [names @ .., flag, format] if flag == "--format" => (names, &[flag.clone(), format.clone()][..]),
        names => (names, &[][..]),
    };
    if let Some(flag) = names.iter().find(|argument| argument.starts_with('-')) {
        return Err(Failure::usage(format!("unknown argument '{flag}' (known: names of programs, --format json)")));
    }
    let mut programs = listed()?;
    // The empty program, which times are net of, is always there.
    programs.retain(|program| program.kind == "pure" && (program.name == EMPTY || is_wanted(&program.name, names)));
    let objects = programs.iter().map(|program| compile(&program.name)).collect::<Result<Vec<_>, _>>()?;
    let mut command = crate::command::cargo();
    command.args(["run", "--quiet", "--release", "--package", "kiln-bench", "--example", "native_bench", "--"]);
    run_command(command.args(objects).args(format), "measuring native operations")
}

/// `cargo xtask bench peers`, on all pure programs or those whose names begin with one of the arguments.
fn peers(names: &[String]) -> Result<(), Failure> {
    let mut programs = listed()?;
    programs.retain(|program| program.kind == "pure" && is_wanted(&program.name, names));
    // Version 2 is the last one that all peers run.
    let objects = programs.iter().map(|program| compile_for(&program.name, "v2", "peers"));
    let objects = objects.collect::<Result<Vec<_>, _>>()?;
    let mut command = crate::command::cargo();
    command.args(["run", "--quiet", "--release", "--manifest-path"]).arg(root().join("bench-compare/Cargo.toml"));
    command.arg("--target-dir").arg(target_dir()).arg("--");
    run_command(command.args(objects), "measuring peers")
}

/// Whether a program's name begins with one of these; with none, all are wanted.
fn is_wanted(name: &str, beginnings: &[String]) -> bool {
    beginnings.is_empty() || beginnings.iter().any(|wanted| name.starts_with(wanted.as_str()))
}

/// The rows of `bench/programs`.
fn listed() -> Result<Vec<Program>, Failure> {
    let list = std::fs::read_to_string(root().join("bench/programs/programs.toml"));
    programs(&list.map_err(|error| Failure::usage(format!("bench/programs: {error}")))?)
}

fn programs(text: &str) -> Result<Vec<Program>, Failure> {
    let table: toml::Table = text.parse().map_err(|error| Failure::usage(format!("programs.toml: {error}")))?;
    let rows = table.get("program").and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let word = |row: &toml::Value, key: &str| row.get(key).and_then(toml::Value::as_str).unwrap_or_default().to_owned();
    Ok(rows.iter().map(|row| Program { name: word(row, "name"), kind: word(row, "kind") }).collect())
}

fn compile(name: &str) -> Result<PathBuf, Failure> {
    compile_for(name, "v3", "bench")
}

/// Compiles a program for a version of the instruction set, into a folder of `target`.
fn compile_for(name: &str, version: &str, folder: &str) -> Result<PathBuf, Failure> {
    let out = target_dir().join(folder);
    std::fs::create_dir_all(&out).map_err(|error| Failure::usage(format!("{}: {error}", out.display())))?;
    let object = out.join(format!("{name}.o"));
    let mut clang = Command::new("clang-19");
    clang.args(["-O2", "-g", "-target", "bpf", "-Wall", "-c"]).arg(format!("-mcpu={version}"));
    // The headers of this architecture (asm/types.h), which clang does not look for when the target is bpf.
    clang.arg(format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH));
    clang.arg(root().join(format!("bench/programs/{name}.bpf.c"))).arg("-o").arg(&object);
    run_command(&mut clang, &format!("compiling {name}"))?;
    Ok(object)
}

fn measure(kiln: &Path, objects: &[PathBuf]) -> Result<Vec<Value>, Failure> {
    let mut command = Command::new(kiln);
    // Both sides run the same bytecode, without optimization.
    command.args(["bench", "--format", "json", "--budget", "0"]).args(objects);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| Failure::usage(format!("kiln bench does not start: {error}")))?;
    if !output.status.success() {
        return Err(Failure::failed(format!("kiln bench failed ({})", output.status)));
    }
    let rows: Value = serde_json::from_slice(&output.stdout).map_err(|error| Failure::failed(error.to_string()))?;
    Ok(rows.as_array().cloned().unwrap_or_default())
}

fn report(programs: &[Program], rows: &[Value]) -> String {
    let time = |timing: &Value| match timing["median_ns"].as_f64() {
        Some(median) => {
            let [low, high] = ["low_ns", "high_ns"].map(|key| timing[key].as_f64().unwrap_or(median));
            format!("{median:.1} ({low:.1}-{high:.1})")
        }
        None => "-".to_owned(),
    };
    let mut text = format!("{:18} {:22} {:22} VM/kernel\n", "program", "VM ns (quartiles)", "kernel ns (quartiles)");
    let mut kinds: Vec<(&str, Vec<f64>)> = Vec::new();
    for row in rows {
        let name = row["program"].as_str().unwrap_or_default();
        let ratio = row["vm_to_kernel"].as_f64();
        let (vm, kernel) = (time(&row["vm"]["before"]), time(&row["kernel"]["before"]));
        let note = row["note"].as_str().unwrap_or_default();
        let shown = ratio.map_or(note.to_owned(), |ratio| format!("{ratio:.2}"));
        text += &format!("{name:18} {vm:22} {kernel:22} {shown}\n");
        let kind = programs.iter().find(|program| program.name == name).map_or("other", |program| &program.kind);
        if !kinds.iter().any(|(known, _)| *known == kind) {
            kinds.push((kind, Vec::new()));
        }
        if let (Some(ratio), Some((_, ratios))) = (ratio, kinds.iter_mut().find(|(known, _)| *known == kind)) {
            ratios.push(ratio);
        }
    }
    for (kind, mut ratios) in kinds.into_iter().filter(|(_, ratios)| !ratios.is_empty()) {
        ratios.sort_by(f64::total_cmp);
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        let at = |share: f64| ratios[((ratios.len() - 1) as f64 * share).round() as usize];
        let (low, high, least, most) = (at(0.25), at(0.75), at(0.0), at(1.0));
        text += &format!("{kind}: geomean {mean:.2}, quartiles {low:.2}-{high:.2}, {least:.2} to {most:.2}");
        text += &format!(", {} programs\n", ratios.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ratios_are_averaged_by_kind() {
        let list = programs("[[program]]\nname = \"a\"\nkind = \"pure\"\n[[program]]\nname = \"b\"\nkind = \"maps\"\n");
        let list = list.unwrap();
        let row = |name: &str, ratio: f64| {
            let timing = json!({"median_ns": 10.0, "low_ns": 9.0, "high_ns": 11.0});
            json!({"program": name, "vm": {"before": timing}, "kernel": {"before": timing}, "vm_to_kernel": ratio})
        };
        let text = report(&list, &[row("a", 0.5), row("a", 2.0), row("b", 3.0)]);
        assert!(text.contains("pure: geomean 1.00, quartiles 0.50-2.00, 0.50 to 2.00, 2 programs"), "{text}");
        assert!(text.contains("maps: geomean 3.00"), "{text}");
    }

    #[test]
    fn the_list_and_the_sources_are_the_same() {
        let folder = root().join("bench/programs");
        let listed = programs(&std::fs::read_to_string(folder.join("programs.toml")).unwrap()).unwrap();
        let mut listed: Vec<String> = listed.into_iter().map(|program| program.name).collect();
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut sources: Vec<String> = names.filter_map(|name| Some(name.strip_suffix(".bpf.c")?.to_owned())).collect();
        listed.sort();
        sources.sort();
        assert_eq!(listed, sources);
    }
}
