//! Kernels that are named.

use predicates::str::contains;

use crate::world::{Folder, PASS, document, kiln};

/// Calls a helper of 6.1.
const NEWER: &str = "\
; program xdp
  call ktime_get_tai_ns
  r0 = 2
  exit
";

#[test]
fn kernels_are_compared_in_a_table() {
    let folder = Folder::with(&[("newer.bpf", NEWER.as_bytes()), ("pass.bpf", PASS.as_bytes())]);
    let check = |file: &str, kernel: &str| {
        let mut command = kiln();
        command.arg("check").arg(folder.path(file)).args(["--kernel", kernel]);
        command
    };
    check("newer.bpf", "all")
        .assert()
        .code(1)
        .stdout(contains("6.1 and up"))
        .stdout(contains("the helper bpf_ktime_get_tai_ns is in Linux 6.1 and later"));
    check("newer.bpf", "6.1,6.6").assert().code(0);
    check("pass.bpf", "all").assert().code(0).stdout(contains("all programs load on: 5.15 and up"));
    let release = kiln_driver::running::release().expect("a release").to_string();
    check("pass.bpf", "running").assert().stdout(contains(format!("as Linux {release} (running), ")));
    for bad in ["4.17", "7.9", "old"] {
        check("pass.bpf", bad).assert().code(2);
    }
    let document = document(check("newer.bpf", "5.15,6.18").args(["--format", "json"]));
    let document = &document["objects"][0];
    assert_eq!(document["kernels"], serde_json::json!(["5.15", "6.18"]));
    assert_eq!(document["programs"][0]["verdicts"][0]["code"], "kernel-lacks");
    assert_eq!(document["programs"][0]["verdicts"][1]["verdict"], "accepted");
    assert_eq!(document["programs"][0]["loads_on"], "6.18 and up");
}

#[test]
fn what_does_not_load_on_a_kernel_is_not_optimized_for_it() {
    let folder = Folder::with(&[("newer.bpf", NEWER.as_bytes()), ("pass.bpf", PASS.as_bytes())]);
    let optimize = |file: &str| {
        let mut command = kiln();
        command.arg("optimize").arg(folder.path(file)).arg("-o").arg(folder.path("out.bpf"));
        command.args(["--offline", "--kernel", "5.15"]);
        command
    };
    optimize("newer.bpf").assert().code(1).stdout(contains("left as it is: main"));
    optimize("pass.bpf").assert().code(0).stdout(contains("rewrites in"));
}
