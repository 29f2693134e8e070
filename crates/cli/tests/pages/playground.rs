//! The playground in a browser, from its file: the same verdicts as `kiln check`, and errors instead of dead pages.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::browser::{Browser, LOOKS};

/// The site, built once, if the Rust target for it is installed.
fn site() -> Option<PathBuf> {
    static SITE: LazyLock<Option<PathBuf>> = LazyLock::new(build);
    SITE.clone()
}

fn build() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let installed = Command::new("rustc").args(["--print", "target-libdir", "--target", "wasm32-wasip1"]).output();
    let installed = installed.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    if !installed.is_some_and(|folder| Path::new(folder.trim()).is_dir()) {
        eprintln!("skipped: Rust has no target wasm32-wasip1 (rustup target add wasm32-wasip1)");
        return None;
    }
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Users get it optimized, which takes two minutes of a processor longer and changes no verdict.
    command.env("CARGO_PROFILE_BROWSER_OPT_LEVEL", "0");
    let output = command.current_dir(&root).args(["xtask", "site"]).output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target folder");
    Some(target.join("site"))
}

/// What `kiln check` says of a file: exit code and, by program, verdict, code and explanation.
fn checked(file: &Path) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_kiln")).args(["check", "--format", "json"]).arg(file).output();
    let document: Value = serde_json::from_slice(&output.expect("kiln").stdout).expect("JSON");
    match document["objects"][0]["programs"].as_array() {
        Some(programs) => verdicts(programs),
        None => json!("error"),
    }
}

fn verdicts(programs: &[Value]) -> Value {
    let one = |program: &Value| json!([program["program"], program["slots"], program["verdict"]]);
    programs.iter().map(one).collect()
}

/// What the page says of a file: that of its answer, which is what it shows.
fn answered(browser: &mut Browser, name: &str) -> Value {
    browser.until(&format!("document.body.dataset.answered === '{name}'"));
    let shown = browser
        .value("[...document.querySelectorAll('#answer details.program')].map((program) => program.dataset.verdict)");
    let answer = browser.value("window.answer");
    match answer["programs"].as_array() {
        Some(programs) => {
            let said: Value = programs.iter().map(|program| program["verdict"]["verdict"].clone()).collect();
            assert_eq!(shown, said, "{name}");
            verdicts(programs)
        }
        None => {
            assert_eq!(browser.value("document.querySelectorAll('#answer .error').length"), 1, "{name}: {answer}");
            json!("error")
        }
    }
}

const ACCEPTED: &str =
    "; program xdp name first\n  r0 = 2\n  exit\n; program socket_filter name second\n  r0 = 0\n  exit\n";
const REJECTED: &str =
    "; program xdp name bad section \"</script><b>\"\n  r2 = *(u32 *)(r1 + 0)\n  r0 = *(u8 *)(r2 + 0)\n  exit\n";

#[test]
fn the_playground_gives_the_verdicts_of_the_command() {
    let Some(mut browser) = Browser::start() else { return };
    let Some(site) = site() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let page = site.join("playground.html");
    browser.look(LOOKS[0]);
    browser.open(&page);
    let path = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("a file");
        path
    };
    // Text is pasted.
    for text in [ACCEPTED, REJECTED] {
        let file = path("pasted.bpf", text.as_bytes());
        let set = json!(text).to_string();
        browser.value(&format!("delete document.body.dataset.answered, document.getElementById('text').value = {set}"));
        browser.value("document.getElementById('check').click()");
        assert_eq!(answered(&mut browser, "pasted.bpf"), checked(&file));
    }
    assert_eq!(browser.value("document.querySelectorAll('#answer b').length"), 0, "names are text");
    // Objects are dropped. Hostile ones give an error, and the page goes on.
    let garbage: Vec<u8> =
        b"\x7fELF\x02\x01\x01".iter().copied().chain((0..50_000u32).map(|at| (at * 7919 >> 5) as u8)).collect();
    let mut files = vec![path("garbage.o", &garbage), path("empty.o", b""), path("text.bpf", b"\xff\xfe")];
    files.push(path("huge.o", &vec![0x7f; 33 << 20]));
    files.push(path("good.bpf", ACCEPTED.as_bytes()));
    files.extend(object(folder.path()));
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        browser.value("delete document.body.dataset.answered");
        browser.choose_file("#file", &file);
        if name == "huge.o" {
            browser.until("/page takes/.test(document.getElementById('answer').textContent)");
            continue;
        }
        assert_eq!(answered(&mut browser, &name), checked(&file), "{name}");
    }
    // A file is dropped, not chosen.
    browser.value("delete document.body.dataset.answered");
    let text = json!(ACCEPTED).to_string();
    browser.value(&format!(
        "(() => {{ const dataTransfer = new DataTransfer(); dataTransfer.items.add(new File([{text}], 'dropped.bpf')); \
         dispatchEvent(new DragEvent('drop', {{dataTransfer, cancelable: true}})); }})()"
    ));
    let dropped = answered(&mut browser, "dropped.bpf");
    assert_eq!(dropped, checked(&path("dropped.bpf", ACCEPTED.as_bytes())));
    // A kernel's types decide what a relocation finds.
    if let Some((object, with, without)) = relocated(folder.path()) {
        let mut verdicts = Vec::new();
        browser.choose_file("#file", &object);
        answered(&mut browser, "relocated.o");
        for types in [with, without] {
            // What was checked before is checked again.
            browser.value("delete document.body.dataset.answered");
            browser.choose_file("#btf", &types);
            let answer = answered(&mut browser, "relocated.o");
            assert_eq!(answer, checked_for(&object, &types));
            verdicts.push(answer[0][2]["verdict"].clone());
        }
        assert_eq!(verdicts, ["rejected", "accepted"]);
    }
    assert_eq!(browser.complaints, Vec::<String>::new());
}

/// An object whose program is unsafe for kernels that have a field, types with that field, and types without it.
fn relocated(folder: &Path) -> Option<(PathBuf, PathBuf, PathBuf)> {
    let compile = |name: &str, source: &str| {
        std::fs::write(folder.join(format!("{name}.c")), source).expect("a file");
        let mut clang = Command::new("clang-19");
        clang.current_dir(folder).args([
            "-g",
            "-O2",
            "-target",
            "bpf",
            "-c",
            &format!("{name}.c"),
            "-o",
            &format!("{name}.o"),
        ]);
        clang.output().is_ok_and(|output| output.status.success()).then(|| folder.join(format!("{name}.o")))
    };
    let types = |name: &str, members: &str| {
        let object =
            compile(name, &format!("struct thing {{ {members} }}; struct thing *use(void) {{ return 0; }}\n"))?;
        let path = folder.join(format!("{name}.btf"));
        let dump = format!(".BTF={}", path.display());
        let status = Command::new("llvm-objcopy-19").args(["--dump-section", &dump]).arg(object).status();
        status.is_ok_and(|status| status.success()).then_some(path)
    };
    let object = compile(
        "relocated",
        "struct thing { int here; int there; } __attribute__((preserve_access_index));\n\
         __attribute__((section(\"xdp\"), used)) int reads(void *context) {\n\
         \tif (__builtin_preserve_field_info(((struct thing *)0)->there, 2)) return **(int **)context;\n\treturn 2;\n}\n",
    );
    let found = Some((object?, types("with", "int here; int there;")?, types("without", "int here;")?));
    if found.is_none() {
        eprintln!("skipped: clang-19 and llvm-objcopy-19 are not installed");
    }
    found
}

/// What `kiln check --btf` says of a file.
fn checked_for(file: &Path, types: &Path) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_kiln"))
        .args(["check", "--format", "json", "--btf"])
        .arg(types)
        .arg(file)
        .output();
    let document: Value = serde_json::from_slice(&output.expect("kiln").stdout).expect("JSON");
    verdicts(document["objects"][0]["programs"].as_array().expect("programs"))
}

/// An object of clang's, if it is installed.
fn object(folder: &Path) -> Option<PathBuf> {
    let source = "int first(void *context) { return *(volatile int *)context & 1; }\n\
                  __attribute__((section(\"xdp\"), used)) int main_program(void *context) { return 2; }\n\
                  __attribute__((section(\"xdp\"), used)) int reads(void *context) { return **(int **)context; }\n";
    std::fs::write(folder.join("a.c"), source).expect("a file");
    let mut clang = Command::new("clang-19");
    clang.current_dir(folder).args(["-g", "-O2", "-target", "bpf", "-c", "a.c", "-o", "a.o"]);
    if !clang.output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: clang-19 is not installed");
        return None;
    }
    Some(folder.join("a.o"))
}

#[test]
fn the_playground_is_readable_and_never_dies() {
    let Some(mut browser) = Browser::start() else { return };
    let Some(site) = site() else { return };
    for look in LOOKS {
        browser.look(look);
        browser.open(&site.join("playground.html"));
        browser.check_readable("the playground as it opens");
        browser.value("document.querySelector('button.example').click()");
        browser.until("document.querySelectorAll('#answer .row.fact').length > 0 && document.querySelector('#answer .story') !== null");
        browser.value("document.querySelectorAll('#answer details').forEach((details) => { details.open = true; })");
        browser.until("document.querySelectorAll('#answer .cost').length > 0");
        browser.picture("playground", look);
        // An accepted program is optimized.
        browser.value("document.querySelector('button.example[value=example-packet]').click()");
        browser.until("document.querySelector('#optimize') !== null");
        browser.value("document.querySelector('#optimize').click()");
        browser.until("document.querySelector('#answer .optimized') !== null");
        let slots = browser.value("window.optimized.programs[0].slots");
        assert!(slots[0].as_u64() > slots[1].as_u64(), "{slots}");
        browser.picture("playground-optimized", look);
        browser.check_readable("the playground with an answer");
    }
    browser.look(LOOKS[0]);
    browser.open(&site.join("playground.html"));
    // Work for hours is stopped; the page answers the next question.
    let endless = "; program xdp\n  r6 = 0\n  r7 = 0\nL1:\n  call get_prandom_u32\n  r7 += r0\n  r6 += 1\n  if r0 > 5 goto L2\n  r7 *= 3\nL2:\n  if r6 < 900000 goto L1\n  r0 = 2\n  exit\n";
    let large: String =
        std::iter::once("; program xdp\n".to_owned()).chain((0..400_000).map(|at| format!(" r1 = {at}\n"))).collect();
    for text in [endless.to_owned(), large, "; program xdp\n  r0 = 2\n  exit\n".to_owned()] {
        let set = json!(text).to_string();
        browser.value(&format!("delete document.body.dataset.answered, document.getElementById('text').value = {set}"));
        browser.value("document.getElementById('check').click()");
        browser.until("document.body.dataset.answered === 'pasted.bpf'");
        let answer =
            browser.value("[window.answer.error?.kind ?? null, window.answer.programs?.[0]?.verdict?.verdict ?? null]");
        assert!(answer != json!([null, null]), "an answer or an error");
    }
    assert_eq!(browser.value("window.answer.programs[0].verdict.verdict"), "accepted");
    assert_eq!(browser.complaints, Vec::<String>::new());
}
