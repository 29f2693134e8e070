//! Jump tables: what is read of `.jumptables`, and where a rewrite says that instructions are.

mod support;

use kiln_elf::{ElfObject, Error};
use kiln_isa::Insn;
use kiln_platform::MapType;
use kiln_program::{Function, Object, Reference, validate};

fn function<'a>(object: &'a Object, name: &str) -> &'a Function {
    object.functions.iter().find(|function| function.name == name).unwrap_or_else(|| panic!("no function {name}"))
}

/// The positions of a function's table entries.
fn entries(object: &Object, name: &str) -> Vec<Vec<usize>> {
    let function = function(object, name);
    let positions = |table: &kiln_program::JumpTable| {
        table.targets.iter().map(|target| function.position(*target).expect("it is the function's")).collect()
    };
    function.tables.iter().map(positions).collect()
}

#[test]
fn tables_are_maps_of_instructions() {
    let Some(bytes) = support::compiled("tables") else { return };
    let ElfObject { object, .. } = kiln_elf::read("tables.o", &bytes).unwrap();
    validate(&object).unwrap();
    assert_eq!(entries(&object, "pick"), [[7, 9, 7]]);
    assert_eq!(entries(&object, "in_function"), [[8, 6]]);
    assert!(function(&object, "before").tables.is_empty());
    let tables: Vec<_> = object.maps.iter().filter(|map| map.map_type == MapType::InsnArray).collect();
    let shape: Vec<_> = tables.iter().map(|map| (map.name.as_str(), map.max_entries, map.value_size)).collect();
    assert_eq!(shape, [("small", 2, 16), ("large", 3, 16)]);
    let jumps = |name: &str| function(&object, name).jumps_indirectly();
    assert!(jumps("pick") && jumps("in_function") && !jumps("before"));
}

#[test]
fn entries_follow_their_instructions() {
    let Some(bytes) = support::compiled("tables") else { return };
    let elf = kiln_elf::read("tables.o", &bytes).unwrap();
    assert!(elf.write(&elf.object).unwrap() == bytes && elf.rebuild(&elf.object, false).unwrap() == bytes);
    let grown = support::with_jumps_to_next(&elf.object);
    let written = elf.write(&grown).unwrap();
    let again = kiln_elf::read("tables.o", &written).unwrap();
    assert!(again.unreadable.is_empty());
    for name in ["pick", "in_function"] {
        assert_ne!(entries(&grown, name), entries(&elf.object, name));
        assert_eq!(entries(&again.object, name), entries(&grown, name), "{name}");
    }
}

#[test]
fn an_entry_whose_instruction_is_gone_is_refused() {
    let Some(bytes) = support::compiled("tables") else { return };
    let elf = kiln_elf::read("tables.o", &bytes).unwrap();
    let mut object = elf.object.clone();
    let pick = object.functions.iter_mut().find(|function| function.name == "pick").unwrap();
    let target = pick.tables[0].targets[0];
    pick.nodes.retain(|node| node.id != target);
    assert!(validate(&object).is_err());
    assert!(matches!(elf.write(&object), Err(Error::Mismatch { .. })));
}

/// The file with the second entry of the table `large` changed.
fn with_entry(bytes: &[u8], value: u64) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    let entries = [8 * 8_u64, 10 * 8].map(u64::to_le_bytes).concat();
    let at = bytes.windows(16).position(|window| window == entries).expect("the entries are in the file");
    changed[at + 8..at + 16].copy_from_slice(&value.to_le_bytes());
    changed
}

#[test]
fn entries_outside_of_their_function_are_refused() {
    let Some(bytes) = support::compiled("tables") else { return };
    // Between two slots, the second slot of a `ld_imm64`, behind the function, far away.
    for value in [81, 4 * 8, 15 * 8, u64::MAX] {
        let elf = kiln_elf::read("tables.o", &with_entry(&bytes, value)).unwrap();
        let names: Vec<_> = elf.unreadable.iter().map(|own| own.function.as_str()).collect();
        assert_eq!(names, ["pick"], "{value:#x}");
    }
    let elf = kiln_elf::read("tables.o", &with_entry(&bytes, 0)).unwrap();
    assert_eq!(entries(&elf.object, "pick"), [[7, 0, 7]], "the function's first instruction is one of its own");
}

#[test]
fn an_indirect_jump_is_read_where_it_ends_a_function() {
    let Some(bytes) = support::compiled("tables") else { return };
    let ElfObject { object, .. } = kiln_elf::read("tables.o", &bytes).unwrap();
    let pick = function(&object, "pick");
    let jump = pick.nodes.iter().find(|node| matches!(node.insn, Insn::JumpIndirect { .. })).expect("it has one");
    assert_eq!((jump.insn.to_string().as_str(), jump.reference), ("gotox r1", Reference::None));
}
