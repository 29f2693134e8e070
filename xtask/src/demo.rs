//! `cargo xtask demo`: optimizes and runs real objects, and prints one table.
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
    ("selftests-6.12", "test_l4lb."),
    ("selftests-6.12", "test_xdp."),
    ("selftests-6.12", "test_tc_tunnel"),
    ("selftests-6.12", "test_cls_redirect."),
];
/// With `--quick`: enough to see that everything works.
const QUICK: &[(&str, &str)] = &[("xdp-tools", "xdpfilt_dny_all"), ("samples-6.1", "xdp1")];

/// `cargo xtask demo`.
///
/// # Errors
/// Returns a failure if the set-up, the build or a program fails.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let [quick] = flags(arguments, ["--quick"])?;
    run_command(&mut script("setup"), "scripts/setup")?;
    run_command(script("corpus").arg("core"), "scripts/corpus")?;
    let kiln = built_kiln(&[])?;
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

/// Builds `kiln`: as the tests take it, which is there sooner, or with `--release`, as users get it.
///
/// # Errors
/// When it does not build.
pub fn built_kiln(profile: &[&str]) -> Result<PathBuf, Failure> {
    run_command(cargo().args(["build", "--package", "kiln-cli"]).args(profile), "building kiln")?;
    Ok(target_dir().join(if profile.is_empty() { "debug" } else { "release" }).join("kiln"))
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

/// An object to show.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    /// Its path below the corpus.
    path: PathBuf,
    /// `PROGRAM=TYPE` where section names do not tell.
    types: Vec<String>,
}

/// The wanted objects, in the order they are wanted, without those that libbpf refuses.
fn chosen(manifest: &Value, wanted: &[(&str, &str)]) -> Vec<Shown> {
    let objects = manifest["objects"].as_array().map_or(&[][..], Vec::as_slice);
    let mut shown = Vec::new();
    for (group, prefix) in wanted {
        for object in objects.iter().filter(|object| object["group"] == *group) {
            let path = object["path"].as_str().unwrap_or_default();
            let matches = path.rsplit('/').next().is_some_and(|name| name.starts_with(prefix));
            let rows = object["load"].as_array().map_or(&[][..], Vec::as_slice);
            if matches && rows.iter().all(|row| row.get("refused").is_none()) {
                shown.push(Shown { path: PathBuf::from(path), types: types(object, rows) });
            }
        }
    }
    shown
}

/// The types of an object's programs, where all its sections are of one type that their names do not tell.
fn types(object: &Value, rows: &[Value]) -> Vec<String> {
    let mut known = rows.iter().filter_map(|row| row["program_types"].as_object()).flat_map(|types| types.values());
    let (Some(Value::String(first)), true) = (known.next(), known.next().is_none()) else { return Vec::new() };
    let programs = object["programs"].as_array().map_or(&[][..], Vec::as_slice);
    programs.iter().filter_map(Value::as_str).map(|name| format!("{name}={first}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_that_libbpf_refuses_are_left_out_and_types_are_passed_on() {
        let manifest = json!({"objects": [
            {"group": "samples-6.1", "path": "samples-6.1/xdp1_kern.o", "programs": ["one"]},
            {"group": "samples-6.1", "path": "samples-6.1/xdp_fwd_kern.o", "programs": ["a", "b"],
             "load": [{"program_types": {"xdp*": "xdp"}}]},
            {"group": "samples-6.1", "path": "samples-6.1/xdp1_old.o", "load": [{"refused": "x"}]},
            {"group": "other", "path": "other/xdp1_kern.o", "load": []},
        ]});
        let expected = [
            Shown { path: "samples-6.1/xdp1_kern.o".into(), types: vec![] },
            Shown { path: "samples-6.1/xdp_fwd_kern.o".into(), types: vec!["a=xdp".into(), "b=xdp".into()] },
        ];
        assert_eq!(chosen(&manifest, SHOWN), expected);
    }
}
