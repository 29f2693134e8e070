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
];
/// The type of programs whose section names are of their own making: all of the demo's are for XDP.
const PROGRAM_TYPE: &str = "xdp";
/// With `--quick`: enough to see that everything works.
const QUICK: &[(&str, &str)] = &[("xdp-tools", "xdpfilt_dny_all"), ("samples-6.1", "xdp1")];

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
    bench.args(["bench", "--type", PROGRAM_TYPE]).args(shown.iter().map(|path| corpus().join(path)));
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

/// Paths of the wanted objects below the corpus, in the order they are wanted. What libbpf refuses, and what is loaded
/// as another type than the demo's, is left out.
fn chosen(manifest: &Value, wanted: &[(&str, &str)]) -> Vec<PathBuf> {
    let objects = manifest["objects"].as_array().map_or(&[][..], Vec::as_slice);
    let fits = |row: &Value| {
        let types = row["program_types"].as_object();
        row.get("refused").is_none() && types.is_none_or(|types| types.values().all(|name| name == PROGRAM_TYPE))
    };
    let mut shown = Vec::new();
    for (group, prefix) in wanted {
        for object in objects.iter().filter(|object| object["group"] == *group) {
            let path = object["path"].as_str().unwrap_or_default();
            let matches = path.rsplit('/').next().is_some_and(|name| name.starts_with(prefix));
            if matches && object["load"].as_array().is_none_or(|rows| rows.iter().all(fits)) {
                shown.push(PathBuf::from(path));
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_that_libbpf_refuses_or_that_are_of_another_type_are_left_out() {
        let manifest = json!({"objects": [
            {"group": "samples-6.1", "path": "samples-6.1/xdp1_kern.o", "load": []},
            {"group": "samples-6.1", "path": "samples-6.1/xdp_fwd_kern.o", "load": [{"program_types": {"xdp*": "xdp"}}]},
            {"group": "samples-6.1", "path": "samples-6.1/xdp2skb.o", "load": [{"program_types": {"tc": "sched_cls"}}]},
            {"group": "samples-6.1", "path": "samples-6.1/xdp1_old.o", "load": [{"refused": "x"}]},
            {"group": "other", "path": "other/xdp1_kern.o", "load": []},
        ]});
        let expected = ["samples-6.1/xdp1_kern.o", "samples-6.1/xdp_fwd_kern.o"].map(PathBuf::from);
        assert_eq!(chosen(&manifest, SHOWN), expected);
    }
}
