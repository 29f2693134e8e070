//! Compares reading and CO-RE with libbpf: for every object of the corpus, our linked and relocated program equals what
//! libbpf would give to this kernel, instruction by instruction.

mod support;

use std::collections::HashMap;

use kiln_isa::Slot;
use kiln_linux::ObjectFile;
use kiln_program::btf::Btf;
use kiln_program::{ExternKind, Object, Reference, lower_program};

#[test]
fn programs_are_what_libbpf_would_load() {
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
        let mut object = elf.object.clone();
        let summary = kiln_elf::resolve_core(&mut object, &kernel);
        let mut names: Vec<_> = object.programs.iter().map(|program| program.name.as_str()).collect();
        let prepared = ObjectFile::open(&label, &bytes).and_then(|mut file| {
            file.only(&names)?;
            file.prepared_instructions(&names)
        });
        let expected = match prepared {
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
    // A poisoned `ld_imm64` takes two slots in libbpf's program and one in ours, so positions may differ.
    let poison = Slot { opcode: 0x85, imm: kiln_program::CoreRelocation::POISON_HELPER as i32, ..Slot::default() };
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
    let open: HashMap<_, _> = image.relocations.iter().map(|open| (open.slot, open.reference)).collect();
    for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        match open.get(&at) {
            Some(reference) if !drifted => {
                let second = expected.get(at + 1).map_or(0, |slot| slot.imm);
                let right = is_resolved(object, *reference, theirs, second);
                assert!(right, "{label}: {name}, slot {at}: {reference:?} is {theirs:?}, {second}");
            }
            // The second slot holds what the first one's relocation put there.
            None if !drifted && at > 0 && open.contains_key(&(at - 1)) && theirs.opcode == 0 => {}
            _ if drifted && (ours.opcode == 0x18 || ours.opcode == 0) => {}
            _ => assert_eq!(ours, theirs, "{label}: {name}, slot {at}"),
        }
    }
}

/// Whether libbpf resolved a reference correctly: source registers 1 to 3 of a `ld_imm64` mean map, byte in a map's
/// value and kernel variable; 2 of a call means kfunc.
fn is_resolved(object: &Object, reference: Reference, slot: &Slot, second: i32) -> bool {
    let is_load = slot.opcode == 0x18;
    match reference {
        Reference::Map(_) => is_load && slot.src == 1,
        Reference::MapValue { offset, .. } => is_load && slot.src == 2 && second == offset as i32,
        Reference::Extern(id) => match object.externs[id.index()].kind {
            ExternKind::Kconfig { offset, .. } => is_load && slot.src == 2 && second == offset as i32,
            // Weak ones that the kernel lacks are zero; calls of them are poisoned.
            ExternKind::Kfunc if !is_load => slot.src == 2 || object.externs[id.index()].weak,
            ExternKind::Kfunc | ExternKind::TypedKsym => is_load && (slot.src == 3 || slot.src == 0),
            ExternKind::Ksym => is_load && slot.src == 0,
        },
        Reference::Function(_) | Reference::Branch(_) | Reference::None => false,
    }
}
