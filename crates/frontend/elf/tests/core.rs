//! CO-RE against libbpf: for every object of the corpus that has such relocations, what `resolve_core` makes of a
//! program is what libbpf would give to this kernel, instruction by instruction.

mod support;

use kiln_isa::Slot;
use kiln_linux::ObjectFile;
use kiln_program::btf::Btf;
use kiln_program::{Object, lower_program};

#[test]
fn resolves_as_libbpf_does() {
    let Ok(kernel) = std::fs::read("/sys/kernel/btf/vmlinux") else {
        println!("skipped: this kernel exports no BTF");
        return;
    };
    if let Err(error) = kiln_linux::available() {
        println!("skipped: {error}");
        return;
    }
    let kernel = Btf::parse(&kernel).unwrap();
    let (mut objects, mut programs, mut patched, mut poisoned) = (0, 0, 0, 0);
    for path in support::corpus() {
        let (label, bytes) = (support::label(&path), std::fs::read(&path).unwrap());
        let Ok(elf) = kiln_elf::read(&label, &bytes) else { continue };
        if elf.object.core.is_empty() {
            continue;
        }
        let mut object = elf.object.clone();
        let summary = kiln_elf::resolve_core(&mut object, &kernel);
        let mut names: Vec<_> = object.programs.iter().map(|program| program.name.as_str()).collect();
        let mut file = ObjectFile::open(&label, &bytes).unwrap();
        file.only(&names).unwrap();
        let expected = match file.prepared_instructions(&names) {
            Ok(expected) => expected,
            Err(failure) => {
                println!("skipped: libbpf does not take {label}: {}", last_line(&failure.messages));
                continue;
            }
        };
        let summary = summary.unwrap_or_else(|error| panic!("libbpf takes what we do not: {error}"));
        objects += 1;
        patched += summary.patched;
        poisoned += summary.poisoned.len();
        for (name, expected) in names.drain(..).zip(expected) {
            programs += 1;
            compare(&label, &object, name, &expected);
        }
    }
    println!("{objects} objects, {programs} programs, {patched} instructions patched, {poisoned} poisoned");
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default()
}

fn compare(label: &str, object: &Object, name: &str, expected: &[Slot]) {
    let image = lower_program(object, object.program(name).unwrap()).unwrap();
    // A poisoned `ld_imm64` takes two slots in libbpf's program and one in ours, so positions may drift apart.
    let poison = Slot { opcode: 0x85, imm: kiln_elf::POISON_HELPER as i32, ..Slot::default() };
    let mut theirs = Vec::new();
    for slot in expected {
        let is_poison = Slot { imm: poison.imm, ..*slot } == poison && slot.imm / 10_000 == poison.imm / 10_000;
        if !(is_poison && theirs.last() == Some(&poison)) {
            theirs.push(if is_poison { poison } else { *slot });
        }
    }
    let drifted = theirs.len() != expected.len();
    let mut ours = image.slots.clone();
    ours.dedup_by(|second, first| *second == poison && *first == poison);
    if drifted {
        // Distances differ: compare all but branches and calls.
        let anonymous = |slot: &Slot| if slot.opcode & 6 == 4 { Slot { offset: 0, imm: 0, ..*slot } } else { *slot };
        theirs.iter_mut().for_each(|slot| *slot = anonymous(slot));
        ours.iter_mut().for_each(|slot| *slot = anonymous(slot));
    }
    assert_eq!(ours.len(), theirs.len(), "{label}: {name} has another length");
    let open: std::collections::HashSet<_> = image.relocations.iter().map(|relocation| relocation.slot).collect();
    for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        let relocated = |at: usize| open.contains(&at);
        if !drifted && (relocated(at) || at > 0 && relocated(at - 1)) {
            continue;
        }
        if drifted && (ours.opcode == 0x18 || ours.opcode == 0) {
            continue;
        }
        assert_eq!(ours, theirs, "{label}: {name}, slot {at}");
    }
}
