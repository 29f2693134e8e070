//! A real editor as the client of `kiln lsp`: Neovim without a screen, with the settings of `editors/nvim`.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const SOURCE: &str = r#"#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 8); __type(key, int); __type(value, long); } m SEC(".maps");
SEC("xdp") int lookup(struct xdp_md *context) {
    int key = 1;
    long *value = bpf_map_lookup_elem(&m, &key);
    return *value;
}
char _license[] SEC("license") = "GPL";
"#;

/// Waits for diagnostics, writes them, mends the source, waits until they are gone, and leaves.
const SCRIPT: &str = r#"
local function wait(want)
  vim.wait(30000, function() return (#vim.diagnostic.get(0) > 0) == want end, 20)
  return vim.diagnostic.get(0)
end
local out = {}
for _, one in ipairs(wait(true)) do
  table.insert(out, string.format('%d:%d %s', one.lnum, one.col, one.message))
end
vim.cmd('%s/return \\*value/return value ? *value : 0/')
vim.cmd('write')
table.insert(out, 'left: ' .. #wait(false))
vim.fn.writefile(out, vim.env.KILN_TEST_OUT)
vim.cmd('qall!')
"#;

#[test]
fn neovim_shows_a_rejection_and_takes_it_back() {
    let missing = |tool: &str| {
        let error = Command::new(tool).arg("--version").output().err();
        error.inspect(|error| println!("skipped: {tool}: {error}")).is_some()
    };
    if missing("nvim") || missing(&kiln_driver::clang::name()) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name);
    std::fs::write(place("a.bpf.c"), SOURCE).expect("a file");
    std::fs::write(place("script.lua"), SCRIPT).expect("a file");
    let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../editors/nvim/kiln.lua");
    let mut editor = Command::new("nvim");
    editor.args(["--headless", "--clean", "-u"]).arg(&settings).arg(place("a.bpf.c"));
    editor.args(["-c", "set filetype=c", "-c"]).arg(format!("luafile {}", place("script.lua").display()));
    editor.env("KILN", env!("CARGO_BIN_EXE_kiln")).env("KILN_TEST_OUT", place("out")).env("HOME", folder.path());
    let mut running = editor.spawn().expect("Neovim runs");
    let begun = Instant::now();
    while running.try_wait().expect("it can be waited for").is_none() {
        if begun.elapsed() > Duration::from_secs(90) {
            running.kill().expect("it is killed");
            panic!("Neovim did not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = std::fs::read_to_string(place("out")).expect("what the editor showed");
    assert!(said.starts_with("6:11 r0 (map_value) may be null"), "{said}");
    assert!(said.ends_with("left: 0\n"), "{said}");
}

#[test]
fn the_first_answer_is_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.bpf.c"), SOURCE).expect("a file");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/editors/first_answer");
    let mut measure = Command::new("timeout");
    measure.args(["90", "python3"]).arg(script).arg(env!("CARGO_BIN_EXE_kiln")).arg(folder.path());
    let said = measure.output().expect("Python runs");
    let said = String::from_utf8_lossy(&said.stdout);
    assert!(said.contains("a.bpf.c: 1 diagnostics\nfirst answer: 1 sources, median "), "{said}");
}
