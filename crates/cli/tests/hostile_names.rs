//! Names that forge output: whatever an object calls its parts, a reader sees one line for each, and nothing hidden.

use std::path::{Path, PathBuf};

use assert_cmd::Command;

/// A second verdict, an erased line, text read backwards, letters without a shape, markup of every output, a link.
const NAME: &str = "p\nq accepted\r\u{1b}[2K\u{1b}]0;t\u{7}\u{202e}\u{200b}\u{9b}31m\u{2028}<b>&amp;\"'](x);|`";

/// The same as a word of the text form.
fn quoted() -> String {
    format!("{NAME:?}")
}

/// A program whose every name is hostile; `body` is its code.
fn object(body: &str) -> String {
    let name = quoted();
    format!(
        "; object {name}
; map {name} hash key 4 value 8 entries 4
; extern {name} ksym weak
; program xdp name {name} section {name}
; line 1:3 \"../../../etc/\\n{}\" {name}
{body}
; function {name} static section {name}
; line 2:1 {name} {name}
  r0 = 1
  exit
",
        &name[1..name.len() - 1]
    )
}

/// Accepted, with something to rewrite, a loop to show in a profile, and a map.
const SAFE: &str = "  r1 = 1
  r0 = 1
  r0 += r1
  call fn[@1]
  r2 = map[@0]
  r3 = extern[@0]
  exit";

/// Reads the packet without a look at its end.
const UNSAFE: &str = "  r2 = *(u32 *)(r1 + 0)
  r0 = *(u8 *)(r2 + 0)
  call fn[@1]
  exit";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().expect("a temporary folder"));
        std::fs::write(folder.path("safe.bpf"), object(SAFE)).expect("a file");
        std::fs::write(folder.path("unsafe.bpf"), object(UNSAFE)).expect("a file");
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("a text")
    }

    /// Standard output and standard error of a command in the folder.
    fn run(&self, arguments: &[&str]) -> (String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        let output = command.args(arguments).current_dir(self.0.path()).output().expect("kiln runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
        (text(output.stdout), text(output.stderr))
    }
}

/// Whether people see all of a text: no character is hidden, and no line is a name's own.
fn assert_clean(what: &str, text: &str) {
    let hidden: Vec<char> =
        text.chars().filter(|letter| !kiln_driver::shown::is_visible(*letter) && !"\n\t".contains(*letter)).collect();
    assert!(hidden.is_empty(), "{what} has {hidden:?}:\n{text}");
    let forged = text.lines().find(|line| line.trim_start().starts_with("q accepted"));
    assert!(forged.is_none(), "{what} has the line {forged:?}:\n{text}");
}

#[test]
fn terminals_show_names_on_one_line() {
    let folder = Folder::new();
    let long = "x".repeat(100_000);
    for (arguments, expected) in [
        (&["check", "safe.bpf", "--profile"][..], r"accepted p\nq accepted\r\u{1b}[2K"),
        (&["check", "unsafe.bpf"], r"p\nq accepted"),
        (&["check", "unsafe.bpf", "--kernel", "5.15"], r"p\nq accepted"),
        (&["dump", "safe.bpf"], r"map p\nq accepted"),
        (&["dump", "safe.bpf", "--facts"], r"subprogram <p\nq accepted"),
        (&["optimize", "safe.bpf", "-o", "out.bpf", "-v", "--offline", "--budget", "1"], r"p\nq accepted"),
        (&["run", "safe.bpf", "--maps", "--packet", "000000000000000000000000000000"], "returned"),
        (&["bench", "safe.bpf", "--offline", "--budget", "1", "--samples", "1", "--repeat", "1"], r"p\nq accepted"),
        (&["check", "safe.bpf", "--program", NAME], "accepted"),
        (&["check", "safe.bpf", "--program", &long], r"there are: p\nq accepted"),
        (&["check", NAME], r"p\nq accepted"),
        (&["run", "unsafe.bpf", "--packet", "000000000000000000000000000000"], r"p\nq accepted"),
    ] {
        let (out, err) = folder.run(arguments);
        assert_clean(&format!("{arguments:.20?}"), &out);
        assert_clean(&format!("errors of {arguments:.20?}"), &err);
        assert!((out.clone() + &err).contains(expected), "{arguments:.20?}: no {expected}:\n{out}{err}");
        assert!(out.len() + err.len() < 20_000, "{arguments:.20?}: {} bytes", out.len() + err.len());
    }
}

/// Names of files are input, too, and so are the names in evidence and rule files.
#[test]
fn other_files_cannot_forge_output_either() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("objects")).expect("a folder");
    std::fs::write(folder.path("objects").join("p\nq accepted\u{1b}[2K.o"), "no object").expect("a file");
    std::fs::write(folder.path("objects").join("safe.bpf"), object(SAFE)).expect("a file");
    let rules = format!("rule {}\n", NAME.replace('\n', "\u{85}"));
    std::fs::write(folder.path("bad.rules"), rules).expect("a file");
    std::fs::create_dir(folder.path("proofs")).expect("a folder");
    let arguments = ["optimize", "safe.bpf", "-o", "out.bpf", "--offline", "--budget", "2", "--evidence", "proofs"];
    folder.run(&arguments);
    for arguments in [
        &["learn", "objects", "-o", "new.rules", "--budget", "1"][..],
        &["optimize", "safe.bpf", "-o", "out.bpf", "--rules", "bad.rules"],
        &["optimize", "safe.bpf", "-o", "out.bpf", "--cost-model", "bad.rules"],
        &["verify-evidence", "proofs"],
    ] {
        let (out, err) = folder.run(arguments);
        assert_clean(&format!("{arguments:?}"), &(out + &err));
    }
}

/// A document says exactly what the object says, in characters that are all to be seen.
fn assert_exact(document: &str) {
    let hidden = document.chars().find(|letter| letter.is_control() && *letter != '\n');
    assert_eq!(hidden, None, "{document}");
    let parsed: serde_json::Value = serde_json::from_str(document).expect("JSON");
    assert!(has_string(&parsed, NAME), "{document}");
}

fn has_string(value: &serde_json::Value, wanted: &str) -> bool {
    match value {
        serde_json::Value::String(text) => text == wanted,
        serde_json::Value::Array(values) => values.iter().any(|value| has_string(value, wanted)),
        serde_json::Value::Object(fields) => fields.values().any(|value| has_string(value, wanted)),
        _ => false,
    }
}

#[test]
fn documents_keep_exact_names() {
    let folder = Folder::new();
    for arguments in [
        &["check", "safe.bpf", "--profile"][..],
        &["check", "unsafe.bpf"],
        &["dump", "safe.bpf", "--facts"],
        &["optimize", "safe.bpf", "-o", "out.bpf", "--offline", "--budget", "1"],
        &["run", "safe.bpf", "--maps", "--packet", "000000000000000000000000000000"],
    ] {
        let (out, _) = folder.run(&[arguments, &["--format", "json"]].concat());
        assert!(out.chars().all(|letter| kiln_driver::shown::is_visible(letter) || letter == '\n'), "{out}");
        assert_exact(&out);
    }
    // The text form is data too.
    let written = folder.read("out.bpf");
    assert_clean("the object", &written);
    assert!(written.contains(&quoted()), "{written}");
}

#[test]
fn sarif_names_files_by_uris_that_lead_nowhere_else() {
    let folder = Folder::new();
    let (out, _) = folder.run(&["check", "unsafe.bpf", "--format", "sarif"]);
    let log: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let mut uris = Vec::new();
    strings_of(&log, "uri", &mut uris);
    assert!(uris.len() > 2, "{out}");
    for uri in uris {
        let parts: Vec<&str> = uri.split('/').collect();
        assert!(!parts.contains(&"..") && !parts.contains(&"."), "{uri}");
        assert!(uri.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"'`|&;[]()".contains(&byte)), "{uri}");
    }
    let mut texts = Vec::new();
    strings_of(&log["runs"][0]["results"], "text", &mut texts);
    let messages: Vec<_> = texts.iter().filter(|text| text.contains(r"p\nq accepted")).collect();
    assert!(!messages.is_empty(), "{out}");
    for message in messages {
        assert!(!message.contains("](x)") || message.contains("\\]("), "a link: {message}");
    }
}

fn strings_of<'a>(value: &'a serde_json::Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        serde_json::Value::Array(values) => values.iter().for_each(|value| strings_of(value, key, found)),
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if name == key => found.push(text),
                    _ => strings_of(value, key, found),
                }
            }
        }
        _ => {}
    }
}

/// Reads a document to its end: every element is closed, every character may be in XML.
fn assert_well_formed(path: &Path) {
    let text = std::fs::read_to_string(path).expect("a text");
    assert_clean(&path.display().to_string(), &text);
    let mut reader = quick_xml::Reader::from_str(&text);
    let mut open = Vec::new();
    loop {
        match reader.read_event().unwrap_or_else(|error| panic!("{error} in {text}")) {
            quick_xml::events::Event::Start(start) => {
                start.attributes().for_each(|attribute| drop(attribute.expect("an attribute")));
                open.push(start.name().as_ref().to_vec());
            }
            quick_xml::events::Event::End(end) => assert_eq!(open.pop().as_deref(), Some(end.name().as_ref())),
            quick_xml::events::Event::Eof => break,
            _ => {}
        }
    }
    assert!(open.is_empty() && text.contains("q accepted"), "{text}");
}

#[test]
fn pictures_and_pages_are_well_formed() {
    let folder = Folder::new();
    folder.run(&["check", "safe.bpf", "--flame-graph", "graph.svg"]);
    assert_well_formed(&folder.path("graph.svg"));
    folder.run(&["optimize", "safe.bpf", "-o", "out.bpf", "--offline", "--budget", "1", "--report", "page.html"]);
    let page = folder.read("page.html");
    assert_clean("the page", &page);
    assert!(page.contains("q accepted") && !page.contains("<b>&amp;\""), "{page}");
}
