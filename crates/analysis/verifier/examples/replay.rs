//! Private: our verdicts beside recorded kernel verdicts.
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kiln_program::btf::Btf;
use kiln_verifier::{Error, Options, verify};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rows = std::fs::read_to_string(arguments.next().unwrap()).unwrap();
    let only: Vec<String> = arguments.collect();
    let mut kernel: HashMap<String, String> = HashMap::new();
    for line in rows.lines() {
        let Some((left, right)) = line.rsplit_once(" | ") else { continue };
        let Some(name) = left.get(13..).and_then(|rest| rest.split_whitespace().next()) else { continue };
        if name.contains(".o:") {
            kernel.insert(name.to_owned(), right.to_owned());
        }
    }
    let vmlinux = Arc::new(Btf::parse(&std::fs::read("/sys/kernel/btf/vmlinux").unwrap()).unwrap());
    let mut files = Vec::new();
    let mut pending = vec![std::path::PathBuf::from("/work/corpus")];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|ext| ext == "o") {
                files.push(path);
            }
        }
    }
    files.sort();
    let mut seen = std::collections::HashSet::new();
    let mut table: BTreeMap<&str, [u32; 6]> = BTreeMap::new();
    let mut why: BTreeMap<String, u32> = BTreeMap::new();
    for path in files {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        if !only.is_empty() && !only.iter().any(|part| format!("{file}:").contains(part.as_str())) {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let Ok(mut elf) = kiln_elf::read(&file, &bytes) else { continue };
        let _ = kiln_elf::resolve_core(&mut elf.object, &vmlinux);
        for program in &elf.object.programs {
            let Some(kind) = program.program_type else { continue };
            let name = format!("{file}:{}", program.name);
            let Some(theirs) = kernel.get(&name) else { continue };
            if !seen.insert(format!("{name} {}", path.parent().unwrap().display())) {
                continue;
            }
            let options = Options { skip_facts: true, kernel_types: Some(vmlinux.clone()), ..Options::default() };
            let verdict = verify(&elf.object, program, &options);
            let (ours, text) = match &verdict {
                Ok(_) => (0, "Accept".to_owned()),
                Err(Error::Rejected(r)) => {
                    (1, format!("{}: {} | at {}+{} {}", r.reason, r.message, r.position.0, r.position.1, r.listing))
                }
                Err(error) => (2, error.to_string()),
            };
            let column = if theirs.starts_with("Nothing") {
                5
            } else {
                match (ours, theirs.starts_with("Accept")) {
                    (0, true) => 0,
                    (1, false) => 1,
                    (1, true) => 2,
                    (0, false) => 3,
                    _ => 4,
                }
            };
            table.entry(kind.name()).or_default()[column] += 1;
            table.entry("~all").or_default()[column] += 1;
            let word = ["both accept", "both reject", "ONLY KERNEL", "ONLY KILN", "unsupported", "not asked"][column];
            if column == 4 {
                *why.entry(text.split(" (instruction").next().unwrap_or("").to_owned()).or_default() += 1;
            }
            println!("{word:12} {name} [{}] {text} | {theirs}", program.section);
        }
    }
    println!("{:24} both ok, both no, only kernel, only kiln, unsupported, not asked", "");
    for (kind, counts) in table {
        println!("{kind:24} {counts:?}");
    }
    let mut why: Vec<_> = why.into_iter().map(|(text, count)| (count, text)).collect();
    why.sort();
    why.iter().rev().for_each(|(count, text)| println!("{count:5} {text}"));
}
