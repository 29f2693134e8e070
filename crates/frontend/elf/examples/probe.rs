//! Reads, validates and rebuilds the objects named on the command line, and prints how long reading took.
fn main() {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path).unwrap();
        let t = std::time::Instant::now();
        match kiln_elf::read(&path, &bytes) {
            Ok(elf) => {
                let d = t.elapsed();
                if let Err(e) = kiln_program::validate(&elf.object) {
                    println!("INVALID {path} {e}");
                }
                println!("ok {path} {:?} progs {} funcs {}", d, elf.object.programs.len(), elf.object.functions.len());
                let w = elf.rebuild(&elf.object, false);
                match w {
                    Ok(w) => {
                        if w != bytes {
                            let at = w.iter().zip(&bytes).position(|(a, b)| a != b);
                            println!("DIFF {path} at {:?} len {} {}", at, w.len(), bytes.len());
                            std::fs::write("/tmp/diff.o", w).unwrap();
                        }
                    }
                    Err(e) => println!("WERR {path} {e}"),
                }
                let w = elf.rebuild(&elf.object, true).unwrap();
                let again = kiln_elf::read(&path, &w).unwrap();
                assert_eq!(again.object.functions.len(), elf.object.functions.len());
            }
            Err(e) => println!("ERR {e}"),
        }
    }
}
