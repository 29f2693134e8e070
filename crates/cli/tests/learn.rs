//! `kiln learn` and `kiln optimize --rules` as their users meet them.

#[path = "command/world.rs"]
#[allow(dead_code)] // A part of it is for other tests.
mod world;

use predicates::prelude::*;
use predicates::str::contains;
use world::kiln;

/// A stored constant each, which no rule written by hand is about.
const STORES: [&str; 2] = [
    "; program xdp name one\n r6 = 7\n *(u16 *)(r10 - 2) = r6\n r0 = *(u16 *)(r10 - 2)\n exit\n",
    "; program xdp name two\n r3 = 9\n *(u16 *)(r10 - 8) = r3\n r0 = *(u16 *)(r10 - 8)\n exit\n",
];

fn corpus() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(folder.path().join("objects")).expect("a folder");
    for (at, text) in STORES.iter().enumerate() {
        std::fs::write(folder.path().join(format!("objects/{at}.bpf")), text).expect("a file");
    }
    folder
}

#[test]
fn what_is_learned_is_used_and_learned_once() {
    let folder = corpus();
    let (objects, rules) = (folder.path().join("objects"), folder.path().join("my.rules"));
    let learn = || {
        let mut command = kiln();
        command.arg("learn").arg(&objects).arg("-o").arg(&rules).args(["--budget", "60", "--jobs", "1"]);
        command
    };
    learn().assert().code(0).stdout(contains("new: mov-store16-as-store16").and(contains("in 2 objects")));
    let text = std::fs::read_to_string(&rules).expect("the rules");
    let rule = "  r1 = $a\n  *(u16 *)(r2 + @o) = w1\n=>\n  r1 = $a\n  *(u16 *)(r2 + @o) = $a\ndistinct r1 r2\n";
    assert!(text.contains(rule), "{text}");
    learn().assert().code(0).stdout(contains("0 new rules"));
    assert_eq!(std::fs::read_to_string(&rules).expect("the rules"), text);

    let output = folder.path().join("out.bpf");
    let mut optimize = kiln();
    optimize.arg("optimize").arg(objects.join("0.bpf")).arg("-o").arg(&output).args(["--offline", "--rules"]);
    optimize.arg(&rules).assert().code(0);
    let optimized = std::fs::read_to_string(&output).expect("the result");
    assert!(!optimized.contains("r6 ="), "{optimized}");
}

#[test]
fn bad_inputs_are_named() {
    let folder = corpus();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("empty")).expect("a folder");
    std::fs::write(path("no.rules"), "rule x\n  r1 += banana\n=>\n").expect("a file");
    std::fs::write(path("wrong.rules"), "rule halves\n  r1 /= 2\n=>\n  r1 s>>= 1\n").expect("a file");
    std::fs::write(path("noise.o"), "noise").expect("a file");
    let learn = |corpus: &str, output: &str| {
        let mut command = kiln();
        command.arg("learn").arg(path(corpus)).arg("-o").arg(path(output)).args(["--budget", "1"]);
        command.assert()
    };
    learn("missing", "a.rules").code(2).stderr(contains("No such file"));
    learn("empty", "a.rules").code(2).stderr(contains("no object files"));
    learn("noise.o", "a.rules").code(2).stderr(contains("not an ELF file"));
    learn("objects", "no.rules").code(2).stderr(contains("no.rules: line 2"));
    learn("objects", "nowhere/a.rules").code(2);
    assert!(!path("a.rules").exists());
    let optimize = |rules: &str| {
        let mut command = kiln();
        command
            .arg("optimize")
            .arg(path("objects/0.bpf"))
            .arg("-o")
            .arg(path("out.bpf"))
            .args(["--offline", "--rules"]);
        command.arg(path(rules)).assert()
    };
    optimize("absent.rules").code(2).stderr(contains("No such file"));
    optimize("no.rules").code(2).stderr(contains("line 2"));
    // Rules of others are proved before any is used.
    optimize("wrong.rules").code(2).stderr(contains("rule halves").and(contains("refuted")));
    assert!(!path("out.bpf").exists());
}
