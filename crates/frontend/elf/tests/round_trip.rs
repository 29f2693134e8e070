//! Reading and writing every object of the corpus: unchanged, grown, and shrunk again.

mod support;

use kiln_elf::ElfObject;
use kiln_program::{Node, Object, lower_program, validate};

fn read(path: &std::path::Path) -> (Vec<u8>, Option<ElfObject>) {
    let bytes = std::fs::read(path).unwrap();
    let elf = match kiln_elf::read(&support::label(path), &bytes) {
        Ok(elf) => Some(elf),
        Err(error) if support::is_broken_on_purpose(path) => {
            println!("not read: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    };
    (bytes, elf)
}

#[test]
fn unchanged_objects_come_back_byte_for_byte() {
    for path in support::corpus() {
        let (bytes, Some(elf)) = read(&path) else { continue };
        validate(&elf.object).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for program in &elf.object.programs {
            lower_program(&elf.object, program).unwrap();
        }
        assert!(elf.write(&elf.object).unwrap() == bytes, "{}: the original was not handed back", path.display());
        // Writes every table anew, to test the writer itself.
        let rebuilt = elf.rebuild(&elf.object, false).unwrap();
        assert!(rebuilt == bytes, "{}: rebuilding changed the file", path.display());
    }
}

/// The meaning of a node, with ids resolved.
fn meaning(object: &Object, node: &Node) -> (String, Option<(u32, u32, u32, u32)>, Option<(u32, String, u32)>) {
    let line = object.line(node).map(|line| (line.file_offset, line.text_offset, line.line, line.column));
    let core = node.core.map(|id| &object.core[id.index()]);
    let core = core.map(|core| (core.type_id, core.access.clone(), core.kind));
    let reference = match node.reference {
        kiln_program::Reference::Branch(_) => "branch".to_owned(),
        other => format!("{other:?}"),
    };
    (format!("{:?} {reference}", node.insn), line, core)
}

#[test]
fn debug_info_and_relocations_follow_their_instructions() {
    for path in support::corpus() {
        let (_, Some(elf)) = read(&path) else { continue };
        let label = support::label(&path);
        let grown = support::with_jumps_to_next(&elf.object);
        validate(&grown).unwrap();
        let written = match elf.write(&grown) {
            Ok(written) => written,
            Err(kiln_elf::Error::Layout { function, cause, .. }) => {
                println!("skipped: {label}: {function}: {cause}");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let again = kiln_elf::read(&label, &written).unwrap();
        validate(&again.object).unwrap();
        assert_eq!(again.object.maps.len(), elf.object.maps.len());
        for (new, old) in again.object.functions.iter().zip(&grown.functions) {
            assert_eq!((&new.name, new.btf_id, new.nodes.len()), (&old.name, old.btf_id, old.nodes.len()), "{label}");
            let pairs = new.nodes.iter().zip(&old.nodes).filter(|(_, node)| node.id.0 < elf.object.next_insn);
            for (position, (new, old)) in pairs.enumerate() {
                let (new, old) = (meaning(&again.object, new), meaning(&grown, old));
                assert_eq!(new, old, "{label}: function {}, instruction {position}", old.0);
            }
        }
        shrink_back(&label, &elf, &again);
    }
}

/// Removing the jumps again gives the code and the debug records of the original.
fn shrink_back(label: &str, elf: &ElfObject, grown: &ElfObject) {
    let had = |function: usize, at: usize| {
        let nodes = &elf.object.functions[function].nodes;
        nodes.get(at + 1).is_some_and(|next| nodes[at].target() == Some(next.id))
    };
    if (0..elf.object.functions.len()).any(|index| {
        let nodes = &elf.object.functions[index].nodes;
        (0..nodes.len()).any(|at| had(index, at) && matches!(nodes[at].insn, kiln_isa::Insn::Jump { .. }))
    }) {
        println!("skipped: {label} has jumps to the next instruction of its own");
        return;
    }
    let shrunk = support::without_jumps_to_next(&grown.object, |_, _| false);
    let written = grown.write(&shrunk).unwrap();
    let stripped = elf.rebuild(&elf.object, true).unwrap();
    assert!(written == stripped, "{label}: growing and shrinking is not the original without DWARF");
}
