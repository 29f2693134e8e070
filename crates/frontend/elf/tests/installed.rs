//! Every object that `xdp-tools` installs.

use std::path::PathBuf;

fn installed() -> Vec<PathBuf> {
    let Ok(folder) = std::fs::read_dir("/usr/lib/x86_64-linux-gnu/bpf") else { return Vec::new() };
    let files = folder.filter_map(|entry| Some(entry.ok()?.path()));
    files.filter(|path| path.extension().is_some_and(|ending| ending == "o")).collect()
}

#[test]
fn all_are_read_and_well_formed() {
    for path in installed() {
        let bytes = std::fs::read(&path).unwrap();
        let elf = kiln_elf::read(&path.display().to_string(), &bytes).unwrap();
        kiln_program::validate(&elf.object).unwrap();
        println!("{}: {:?}", path.display(), elf.object.programs);
    }
}
