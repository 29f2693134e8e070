//! Test objects, and a rewrite that moves every instruction without changing its meaning.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

use kiln_isa::Insn;
use kiln_program::{InsnId, Node, Object, Reference};

/// The objects that `xdp-tools` installs, and those that `scripts/corpus` built; prints a skip for missing ones.
pub fn corpus() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/corpus");
    let mut paths = Vec::new();
    for folder in ["xdp-tools", "samples-6.1", "selftests-6.12", "selftests-6.12-cpuv4"] {
        let mut found = objects_in(&root.join(folder));
        if folder == "xdp-tools" && found.is_empty() {
            found = objects_in(Path::new("/usr/lib/x86_64-linux-gnu/bpf"));
        }
        if found.is_empty() {
            println!("skipped: no objects of {folder}; `scripts/corpus` makes them");
        }
        paths.extend(found);
    }
    paths
}

/// The bytes of `tests/data/NAME.bpf.c`, compiled. Prints a skip and returns `None` if there is no clang.
pub fn compiled(name: &str) -> Option<Vec<u8>> {
    compiled_file(name, &Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{name}.bpf.c")))
}

/// The bytes of a source, compiled, as of [`compiled`].
pub fn compiled_text(name: &str, text: &str) -> Option<Vec<u8>> {
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.bpf.c"));
    std::fs::write(&source, text).unwrap();
    compiled_file(name, &source)
}

fn compiled_file(name: &str, source: &Path) -> Option<Vec<u8>> {
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{:?}.o", std::thread::current().id()));
    let mut clang = std::process::Command::new("clang-19");
    clang.args(["-target", "bpf", "-O2", "-g", "-c"]).arg(source).arg("-o").arg(&object);
    match clang.status() {
        Ok(status) => assert!(status.success()),
        Err(error) => {
            println!("skipped: clang-19: {error}");
            return None;
        }
    }
    Some(std::fs::read(&object).unwrap())
}

/// The objects of one part of the corpus.
pub fn part<'a>(paths: &'a [PathBuf], name: &str) -> Vec<&'a PathBuf> {
    let wanted = |path: &&PathBuf| path.components().any(|component| component.as_os_str() == name);
    paths.iter().filter(wanted).collect()
}

fn objects_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|ending| ending == "o")).collect();
    paths.sort();
    paths
}

/// Objects that no loader accepts: deliberate errors in bytecode, and map definitions from before BTF.
pub fn is_broken_on_purpose(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ["verifier_uninit.o", "verifier_cfg.o", "tcp_dumpstats_kern.o"].contains(&name.as_ref())
}

/// The file's name without folders.
pub fn label(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Inserts `goto +0` after every instruction that falls through.
pub fn with_jumps_to_next(object: &Object) -> Object {
    let mut new = object.clone();
    for index in 0..new.functions.len() {
        let old = std::mem::take(&mut new.functions[index].nodes);
        let mut nodes: Vec<Node> = Vec::new();
        for (position, node) in old.iter().enumerate() {
            let goes_on = node.insn.falls_through();
            nodes.push(node.clone());
            if let (true, Some(next)) = (goes_on, old.get(position + 1)) {
                let jump = Insn::Jump { offset: 0, long: false };
                nodes.push(new.new_node(jump, Reference::Branch(next.id)));
            }
        }
        new.functions[index].nodes = nodes;
    }
    new
}

/// Removes the jumps to the next instruction again, except those in `keep`.
pub fn without_jumps_to_next(object: &Object, keep: impl Fn(usize, InsnId) -> bool) -> Object {
    let mut new = object.clone();
    for (index, function) in new.functions.iter_mut().enumerate() {
        let next: Vec<_> = function.nodes.iter().skip(1).map(|node| node.id).collect();
        let mut position = 0;
        function.nodes.retain(|node| {
            position += 1;
            let to_next = node.target().is_some() && node.target() == next.get(position - 1).copied();
            !(to_next && matches!(node.insn, Insn::Jump { .. })) || keep(index, node.id)
        });
    }
    new
}
