//! The header is that of the sources, and a C program that uses all of it works, linked either way.

#[allow(dead_code, reason = "each test uses some of it")]
mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{first_of, root, succeeds, target};

/// C compilers, clang before others.
const C: [&str; 4] = ["clang-19", "clang", "gcc", "cc"];
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

/// The folder of the libraries. Cargo has built them, in all their forms, for this test, which depends on the crate. Alone they
/// need neither Z3 nor libbpf, which `crates/driver/tests/embedding.rs` checks.
fn libraries() -> PathBuf {
    target().join("deps")
}

/// What a program that includes the header may be compiled with.
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-pedantic", "-Werror"];

/// A compiler's command for a program with the header.
fn compile(compiler: &str, standard: &str) -> Command {
    let mut command = Command::new(compiler);
    command.arg(standard).args(WARNINGS).arg("-I").arg(root().join("crates/c-api/include"));
    command
}

/// Compiles a program, links it with a library and runs it.
fn run(compiler: &str, flags: &[&str], source: &Path, library: &str) -> Output {
    let (libraries, folder) = (libraries(), tempfile::tempdir().expect("a folder"));
    let program = folder.path().join("program");
    let mut command = compile(compiler, "-std=c11");
    command.args(flags).arg(source).arg(libraries.join(library)).arg("-o").arg(&program);
    // The bindings of Z3 name functions that Debian's lacks; nothing calls them.
    command.args(["-Wl,--gc-sections", "-pthread", "-ldl", "-lm", "-lz3", "-lelf", "-lz"]);
    command.arg(format!("-Wl,-rpath,{}", libraries.display()));
    succeeds(&mut command, library);
    Command::new(&program).current_dir(folder.path()).output().expect("the program runs")
}

/// What a program printed, which ended as it should.
fn printed(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn a_c_program_works_with_both_libraries() {
    let Some(compiler) = first_of(&C) else {
        eprintln!("skipped: there is no C compiler");
        return;
    };
    for library in ["libkiln_c.a", "libkiln_c.so"] {
        let said = printed(&run(compiler, &[], &root().join("tests/users/c/embed.c"), library));
        assert!(said.contains("all 14 parts"), "{library}: {said}");
    }
}

/// Every compiler that is there takes the header, in every standard that has its types.
#[test]
fn the_header_compiles_as_c_and_as_cpp() {
    let folder = tempfile::tempdir().expect("a folder");
    let languages = [
        (&["gcc", "clang-19", "clang"][..], "header.c", &["-std=c99", "-std=c11", "-std=c17"][..]),
        (&["g++", "clang++-19", "clang++"], "header.cpp", &["-std=c++11", "-std=c++20"]),
    ];
    for (compilers, name, standards) in languages {
        let source = folder.path().join(name);
        std::fs::write(&source, "#include \"kiln.h\"\nint main(void) { return kiln_last_error() == 0; }\n")
            .expect("a file");
        for compiler in compilers.iter().filter(|name| first_of(&[name]).is_some()) {
            for standard in standards {
                let mut command = compile(compiler, standard);
                succeeds(command.arg("-fsyntax-only").arg(&source), &format!("{compiler} {standard} {name}"));
            }
        }
    }
}

/// The memory of the C program and of the library, whose allocator is malloc, is watched: overflows, uses after `free`, leaks.
#[test]
fn a_c_program_works_under_address_sanitizer() {
    const SANITIZER: [&str; 2] = ["-fsanitize=address,undefined", "-g"];
    let folder = tempfile::tempdir().expect("a folder");
    let (probe, leak) = (folder.path().join("probe.c"), folder.path().join("leak.c"));
    std::fs::write(&probe, "int main(void) { return 0; }\n").expect("a file");
    let links = |compiler: &&&str| {
        let mut command = Command::new(compiler);
        command.args(SANITIZER).arg(&probe).arg("-o").arg(folder.path().join("probe"));
        command.output().is_ok_and(|output| output.status.success())
            && Command::new(folder.path().join("probe")).output().is_ok_and(|output| output.status.success())
    };
    let Some(compiler) = C.iter().find(links) else {
        eprintln!("skipped: no C compiler links AddressSanitizer");
        return;
    };
    let said = printed(&run(compiler, &SANITIZER, &root().join("tests/users/c/embed.c"), "libkiln_c.a"));
    assert!(said.contains("all 14 parts"), "{said}");
    // An object that is not freed is seen, so all that the program above made is freed.
    std::fs::write(&leak, LEAK).expect("a file");
    let leaks = run(compiler, &SANITIZER, &leak, "libkiln_c.a");
    let said = String::from_utf8_lossy(&leaks.stderr).into_owned();
    assert!(!leaks.status.success() && said.contains("LeakSanitizer"), "{said}");
}

/// A program that makes objects and forgets them: all but the last, whose address may still be in a register.
const LEAK: &str = r#"
#include "kiln.h"
static const char TEXT[] = "; program xdp name p\n r0 = 2\n exit\n";
static int make(void) {
    kiln_object *made = 0;
    return kiln_object_from_memory("p.bpf", TEXT, sizeof(TEXT) - 1, &made) != KILN_OK;
}
int main(void) { return make() + make() + make(); }
"#;

/// The program that the page for those who come from uBPF ports: its text is what runs.
#[test]
fn the_ported_program_works() {
    let Some(compiler) = first_of(&C) else {
        eprintln!("skipped: there is no C compiler");
        return;
    };
    let page = std::fs::read_to_string(root().join("docs/guide/coming-from.md")).expect("the page");
    let (_, rest) = page.split_once("```c\n").expect("a program in C");
    let (text, _) = rest.split_once("```").expect("its end");
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("order.c");
    std::fs::write(&source, text).expect("a file");
    assert_eq!(printed(&run(compiler, &[], &source, "libkiln_c.a")), "200 becomes 180\n");
}
