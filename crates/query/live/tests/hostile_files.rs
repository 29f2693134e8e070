//! Files that say anything of their probes and functions: a program's bytes are damaged where these are written.

use std::ops::Range;
use std::path::Path;
use std::process::Command;

use kiln_live::files::read_all;
use object::{Object as _, ObjectSection as _};

/// Damaged files of each kind.
const FILES: usize = 2_000;
/// Where most of the damage is.
const SECTIONS: [&str; 8] = [
    ".note.stapsdt",
    ".debug_info",
    ".debug_abbrev",
    ".debug_str",
    ".debug_aranges",
    ".debug_rnglists",
    ".symtab",
    ".strtab",
];

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % count.max(1)
    }
}

/// Compilers and what tells the programs apart that they make. `sys/sdt.h` is the same for all processors.
const KINDS: [(&str, &str); 5] = [
    ("gcc", "-gdwarf-5"),
    ("gcc", "-gdwarf-4"),
    ("gcc", "-gz"),
    ("gcc", "-flto"),
    ("aarch64-linux-gnu-gcc", "-idirafter/usr/include/x86_64-linux-gnu"),
];

/// A program with probes, parameters and debug information. `None` where it cannot be compiled.
fn compiled(folder: &Path, (compiler, flag): (&str, &str)) -> Option<Vec<u8>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../driver/tests/query/probed/probed.c");
    let program = folder.join("program");
    let output = Command::new(compiler).args(["-O2", "-g", flag, "-o"]).arg(&program).arg(source).output();
    match output {
        Ok(output) if output.status.success() => std::fs::read(program).ok(),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("sys/sdt.h"), "{said}");
            println!("skipped: no sys/sdt.h (systemtap-sdt-dev)");
            None
        }
        Err(error) => {
            println!("skipped: {compiler}: {error}");
            None
        }
    }
}

/// The places of the file's headers and of what is read of it.
fn places(bytes: &[u8]) -> Vec<Range<usize>> {
    let elf = object::File::parse(bytes).expect("a program");
    let range = |name: &&str| elf.section_by_name(name).and_then(|section| section.file_range());
    let table = bytes.len() - 64 * elf.sections().count().min(bytes.len() / 64);
    let sections = SECTIONS.iter().filter_map(range).map(|(start, size)| start as usize..(start + size) as usize);
    sections.chain([0..64, 64..64 + 56 * 13, table..bytes.len()]).collect()
}

#[test]
fn damaged_programs_are_read_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut numbers = Numbers(1);
    for kind in KINDS {
        let Some(whole) = compiled(folder.path(), kind) else { continue };
        let all = read_all(&whole);
        // Three places of probes, and on x86-64 the parameters of three functions that are in registers.
        let is_x86_64 = cfg!(target_arch = "x86_64") && kind.0 == "gcc";
        assert!(all >= 3 + if is_x86_64 { 10 } else { 0 }, "{kind:?}: {all}");
        let places = places(&whole);
        let mut fewer = 0;
        for _ in 0..FILES {
            let mut bytes = whole.clone();
            for _ in 0..=numbers.below(4) {
                let place = &places[numbers.below(places.len())];
                let at = place.start + numbers.below(place.len());
                let Some(byte) = bytes.get_mut(at) else { continue };
                *byte = [*byte ^ (1 << numbers.below(8)), 0, 0xff, numbers.below(256) as u8][numbers.below(4)];
            }
            if numbers.below(16) == 0 {
                bytes.truncate(numbers.below(bytes.len()));
            }
            fewer += usize::from(read_all(&bytes) < all);
        }
        assert!(fewer > FILES / 40, "{kind:?}: {fewer} of {FILES} were damaged where they are read");
    }
}
