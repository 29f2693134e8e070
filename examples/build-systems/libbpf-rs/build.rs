//! Compiles the program, verifies it, and writes the skeleton around the object.

use std::path::PathBuf;
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;

const SOURCE: &str = "src/count.bpf.c";

fn main() {
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo says where"));
    let object = out.join("count.bpf.o");
    let mut builder = SkeletonBuilder::new();
    builder.source(SOURCE).obj(&object).clang("clang-19").clang_args(["-I/usr/include/x86_64-linux-gnu"]);
    builder.build().expect("clang compiles the program");

    // A rejected program fails the build, with the explanation. `kiln optimize` could replace the object here, too.
    let verdict = Command::new("kiln").args(["check", "-q"]).arg(&object).output().expect("kiln is on PATH");
    let said = String::from_utf8_lossy(&verdict.stdout) + String::from_utf8_lossy(&verdict.stderr);
    assert!(verdict.status.success(), "kiln check:\n{said}");

    builder.generate(out.join("count.skel.rs")).expect("the skeleton is written");
    println!("cargo:rerun-if-changed={SOURCE}");
}
