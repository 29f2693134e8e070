//! `cargo xtask demo`: the main job on real objects, as one table.
//!
//! The objects were built by others: those that Debian's `xdp-tools` installs, and kernel samples compiled by
//! `scripts/corpus`. Each program is verified, optimized, and run before and after, in the embedded VM and, where
//! `bpf(2)` is allowed, in the kernel; `kiln bench` does all of that and prints the table.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::command::{Failure, cargo, flags, run as run_command, script, target_dir};

/// Which objects are shown, by group and the beginning of the file's name.
const SHOWN: &[(&str, &str)] = &[
    ("xdp-tools", "xdpfilt_"),
    ("xdp-tools", "xdp_forward"),
    ("samples-6.1", "xdp1"),
    ("samples-6.1", "xdp2"),
    ("samples-6.1", "xdp_fwd"),
    ("samples-6.1", "xdp_router_ipv4"),
    ("samples-6.1", "xdp_tx_iptunnel"),
    ("samples-6.1", "xdp_adjust_tail"),
    ("samples-6.1", "sockex"),
];
/// With `--quick`: enough to see that everything works.
const QUICK: &[(&str, &str)] = &[("xdp-tools", "xdpfilt_dny_all"), ("samples-6.1", "xdp1")];

/// An object to show and the program types that its section names do not tell.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    path: PathBuf,
    types: Vec<String>,
}

/// `cargo xtask demo`.
///
/// # Errors
/// When the set-up, the build or a program fails.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let [quick] = flags(arguments, ["--quick"])?;
    run_command(&mut script("setup"), "scripts/setup")?;
    run_command(script("corpus").arg("core"), "scripts/corpus")?;
    let kiln = release_kiln()?;
    let shown = chosen(&manifest()?, if quick { QUICK } else { SHOWN });
    if shown.is_empty() {
        return Err(Failure::usage("the corpus has none of the demo's objects: see target/corpus/*/FAILED.txt"));
    }
    let mut bench = Command::new(kiln);
    bench.arg("bench");
    for object in &shown {
        bench.arg(corpus().join(&object.path));
        for program_type in &object.types {
            bench.args(["--type", program_type]);
        }
    }
    if quick {
        bench.args(["--budget", "1", "--samples", "3"]);
    }
    run_command(&mut bench, "kiln bench")
}

/// Builds `kiln` as users get it.
///
/// # Errors
/// When it does not build.
pub fn release_kiln() -> Result<PathBuf, Failure> {
    run_command(cargo().args(["build", "--release", "--package", "kiln-cli"]), "building kiln")?;
    Ok(target_dir().join("release").join("kiln"))
}

/// Where `scripts/corpus` puts objects.
fn corpus() -> PathBuf {
    match std::env::var_os("KILN_CORPUS_DIR") {
        Some(path) => PathBuf::from(path),
        None => crate::command::root().join("target/corpus"),
    }
}

fn manifest() -> Result<Value, Failure> {
    let path = corpus().join("manifest.json");
    let text = std::fs::read(&path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    serde_json::from_slice(&text).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

fn chosen(manifest: &Value, wanted: &[(&str, &str)]) -> Vec<Shown> {
    let objects = manifest["objects"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut shown = Vec::new();
    for (group, prefix) in wanted {
        for object in objects.iter().filter(|object| object["group"] == *group) {
            let path = text(&object["path"]);
            let matches = path.rsplit('/').next().is_some_and(|name| name.starts_with(prefix));
            let load = object["load"].as_array().map_or(&[][..], Vec::as_slice);
            if !matches || load.iter().any(|row| row.get("refused").is_some()) {
                continue;
            }
            let types = types(load, &object["programs"]);
            shown.push(Shown { path: PathBuf::from(path), types });
        }
    }
    shown
}

/// What `--type` needs to say: the recipe gives types by section, `kiln` takes them by program. A recipe that gives all
/// sections one type gives it to every program; no object of the demo has several.
fn types(load: &[Value], programs: &Value) -> Vec<String> {
    let given = load.iter().filter_map(|row| row["program_types"].as_object()).flatten();
    let mut names: Vec<&str> = given.filter_map(|(_, name)| name.as_str()).collect();
    names.dedup();
    let [name] = names[..] else { return Vec::new() };
    let programs = programs.as_array().map_or(&[][..], Vec::as_slice);
    programs.iter().filter_map(|program| Some(format!("{}={name}", program.as_str()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_come_with_their_types_and_without_the_refused() {
        let manifest = json!({"objects": [
            {"group": "samples-6.1", "path": "samples-6.1/xdp1_kern.o", "load": []},
            {"group": "samples-6.1", "path": "samples-6.1/sockex3_kern.o", "programs": ["main_prog"],
                "load": [{"program_types": {"socket*": "socket_filter"}, "reason": "x"}]},
            {"group": "samples-6.1", "path": "samples-6.1/sockex9_kern.o", "load": [{"refused": "x"}]},
        ]});
        let shown = chosen(&manifest, SHOWN);
        let paths: Vec<_> = shown.iter().map(|object| object.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["samples-6.1/xdp1_kern.o", "samples-6.1/sockex3_kern.o"]);
        assert_eq!(shown[1].types, ["main_prog=socket_filter"]);
    }
}
