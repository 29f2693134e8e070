//! The header is that of the sources, and a C program that uses all of it works, linked either way.

#[allow(dead_code, reason = "each test uses some of it")]
mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{cargo, first_of, root, succeeds, target};

const HEADER: &str = "crates/c-api/include/kiln.h";
const SOURCES: [&str; 5] = ["failure", "object", "check", "helper", "vm"];

/// What cbindgen makes of the sources.
fn header() -> String {
    let config = cbindgen::Config {
        language: cbindgen::Language::C,
        header: Some(
            "/* The C interface of Kiln. Written by cbindgen from crates/c-api: BLESS=1 cargo test -p kiln-c */"
                .to_owned(),
        ),
        include_guard: Some("KILN_H".to_owned()),
        sys_includes: ["stddef.h", "stdint.h"].map(str::to_owned).to_vec(),
        no_includes: true,
        cpp_compat: true,
        usize_is_size_t: true,
        style: cbindgen::Style::Both,
        // No function names it: kinds are numbers, so that any number can be checked.
        export: cbindgen::ExportConfig { include: vec!["kiln_argument_kind".to_owned()], ..Default::default() },
        documentation_style: cbindgen::DocumentationStyle::C99,
        ..cbindgen::Config::default()
    };
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(root().join(format!("crates/c-api/src/{source}.rs")));
    }
    let mut text = Vec::new();
    builder.generate().expect("cbindgen reads the sources").write(&mut text);
    // Links of Rust's documentation.
    String::from_utf8(text).expect("UTF-8").replace("[`", "`").replace("`]", "`")
}

#[test]
fn the_header_is_that_of_the_sources() {
    let (path, made) = (root().join(HEADER), header());
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &made).expect("the header can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "{HEADER} is not that of the sources: BLESS=1 cargo test -p kiln-c");
    // Every function that the sources export.
    let sources = SOURCES.map(|source| root().join(format!("crates/c-api/src/{source}.rs")));
    let exported: usize = sources.iter().map(|path| count(path, "#[unsafe(no_mangle)]")).sum();
    let declared = kept.matches(" kiln_").count();
    assert!(exported > 20 && declared > exported, "{exported} functions");
}

fn count(path: &Path, what: &str) -> usize {
    std::fs::read_to_string(path).expect("a source").matches(what).count()
}

/// Builds the libraries with the features that the workspace's tests ask for together: all but the libraries is there.
/// Alone they need neither Z3 nor libbpf, which `crates/driver/tests/embedding.rs` checks. Returns their folder.
fn build() -> PathBuf {
    let arguments = ["build", "--offline", "--quiet", "--workspace", "--lib", "--tests"];
    succeeds(cargo().args(arguments), "cargo");
    target()
}

#[test]
fn a_c_program_works_with_both_libraries() {
    let Some(compiler) = compiler() else {
        eprintln!("skipped: there is no C compiler");
        return;
    };
    let libraries = build();
    let folder = tempfile::tempdir().expect("a folder");
    for library in ["libkiln_c.a", "libkiln_c.so"] {
        let program = folder.path().join(library.replace('.', "-"));
        let mut compile = Command::new(compiler);
        compile.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(root().join("crates/c-api/include"));
        compile.arg(root().join("tests/users/c/embed.c")).arg(libraries.join(library)).arg("-o").arg(&program);
        // The bindings of Z3 name functions that Debian's lacks; nothing calls them.
        compile.args(["-Wl,--gc-sections", "-pthread", "-ldl", "-lm", "-lz3", "-lelf", "-lz"]);
        compile.arg(format!("-Wl,-rpath,{}", libraries.display()));
        let compiled = compile.output().expect("the compiler runs");
        assert!(compiled.status.success(), "{library}: {}", String::from_utf8_lossy(&compiled.stderr));
        let ran = Command::new(&program).current_dir(folder.path()).output().expect("the program runs");
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{library}: {said}{}", String::from_utf8_lossy(&ran.stderr));
        assert!(said.contains("all 14 parts"), "{library}: {said}");
    }
}
