//! The terminal in the README is what `kiln check` prints now: `docs/guide/check.svg`. `BLESS=1` writes it.
//!
//! ```text
//!   tests/mistakes/null-check-on-one-path.c --clang--> object --kiln check--> ANSI text --> SVG
//! ```

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "null-check-on-one-path.c";
/// Pixels of a column, of a line, and around the text.
const COLUMN: f64 = 8.4;
const LINE: usize = 20;
const MARGIN: usize = 16;

#[test]
fn the_picture_in_the_readme_is_what_is_printed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::copy(in_repository("tests/mistakes").join(SOURCE), folder.path().join(SOURCE)).expect("a copy");
    let mut clang = Command::new("clang-19");
    clang.current_dir(folder.path()).args([
        "-target",
        "bpf",
        "-mcpu=v3",
        "-O2",
        "-g",
        "-c",
        "-fdebug-compilation-dir=.",
    ]);
    clang.args(["-I/usr/include/x86_64-linux-gnu", "-I/usr/include/aarch64-linux-gnu", SOURCE, "-o", "prog.o"]);
    match clang.status() {
        Ok(status) => assert!(status.success(), "clang fails"),
        Err(error) => return eprintln!("skipped: clang-19: {error}"),
    }
    let mut kiln = Command::new(env!("CARGO_BIN_EXE_kiln"));
    let output =
        kiln.current_dir(folder.path()).args(["check", "prog.o", "--color", "always"]).output().expect("kiln runs");
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    // The first line names the running kernel.
    let (kernel, rest) = text.split_once('\n').expect("lines");
    assert!(kernel.starts_with("as Linux "), "{kernel}");
    let picture = drawn(&format!("\u{1b}[1m$ kiln check prog.o\u{1b}[0m\n{}", rest.trim_end()));
    let path = in_repository("docs/guide/check.svg");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &picture).expect("the picture can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == picture,
        "docs/guide/check.svg is not current: run `BLESS=1 cargo test -p kiln-cli --test picture`"
    );
}

#[test]
fn colours_become_classes_and_text_is_escaped() {
    let picture = drawn("\u{1b}[1m\u{1b}[91ma<b\u{1b}[0m c\n");
    assert!(picture.contains("<tspan class=\"bold red\">a&lt;b</tspan><tspan> c</tspan>"), "{picture}");
}

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A terminal's text as a picture.
fn drawn(text: &str) -> String {
    let lines: Vec<Vec<(String, String)>> = text.trim_end().lines().map(spans).collect();
    let columns = lines.iter().map(|line| line.iter().map(|(_, text)| text.chars().count()).sum()).max().unwrap_or(0);
    let (width, height) = (columns as f64 * COLUMN, lines.len() * LINE + 2 * MARGIN);
    let width = width as usize + 2 * MARGIN;
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" role=\"img\">\n\
         <title>What kiln check prints about a rejected program</title>\n<style>text{{font:14px monospace;fill:#d8dee9;\
         white-space:pre}}.bold{{font-weight:bold}}.red{{fill:#ff7b72}}.blue{{fill:#79c0ff}}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#161b22\"/>\n"
    );
    for (index, line) in lines.iter().enumerate() {
        let _ = write!(picture, "<text x=\"{MARGIN}\" y=\"{}\" xml:space=\"preserve\">", MARGIN + 15 + index * LINE);
        for (class, text) in line {
            let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let _ = write!(picture, "<tspan{class}>{text}</tspan>");
        }
        picture += "</text>\n";
    }
    picture + "</svg>\n"
}

/// The parts of a line, each with its classes.
fn spans(line: &str) -> Vec<(String, String)> {
    let (mut classes, mut spans) = (Vec::new(), Vec::new());
    for (index, part) in line.split("\u{1b}[").enumerate() {
        let text = match part.split_once('m').filter(|_| index > 0) {
            Some((code, text)) => {
                match code {
                    "0" => classes.clear(),
                    "1" => classes.push("bold"),
                    "91" => classes.push("red"),
                    "94" => classes.push("blue"),
                    code => panic!("a code without a class: {code}"),
                }
                text
            }
            None => part,
        };
        if !text.is_empty() {
            spans.push((classes.join(" "), text.to_owned()));
        }
    }
    spans
}
