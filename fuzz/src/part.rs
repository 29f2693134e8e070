//! Parts of objects, which are objects again: one program alone, a program without some of its instructions.

use std::collections::{BTreeMap, BTreeSet};

use kiln_program::{FunctionId, InsnId, Object, Program, Reference};

/// The object with nothing but this program's functions and maps, without BTF and source lines.
pub(crate) fn only(object: &Object, program: &Program, functions: &[FunctionId]) -> Object {
    let used = |wanted: fn(&Reference) -> Option<u32>| -> Vec<u32> {
        let nodes = functions.iter().flat_map(|id| &object.function(*id).nodes);
        nodes.filter_map(|node| wanted(&node.reference)).collect::<BTreeSet<_>>().into_iter().collect()
    };
    let maps = used(|reference| match reference {
        Reference::Map(map) | Reference::MapValue { map, .. } => Some(map.0),
        _ => None,
    });
    let externs = used(|reference| if let Reference::Extern(id) = reference { Some(id.0) } else { None });
    let place = |all: &[u32], id: u32| all.iter().position(|known| *known == id).unwrap_or(0) as u32;
    let order: Vec<u32> = functions.iter().map(|id| id.0).collect();
    let mut own = Object {
        name: object.name.clone(),
        license: object.license.clone(),
        functions: functions.iter().map(|id| object.function(*id).clone()).collect(),
        programs: vec![Program { entry: FunctionId(0), ..program.clone() }],
        maps: maps.iter().map(|id| object.maps[*id as usize].clone()).collect(),
        externs: externs.iter().map(|id| object.externs[*id as usize].clone()).collect(),
        next_insn: object.next_insn,
        ..Object::default()
    };
    for node in own.functions.iter_mut().flat_map(|function| &mut function.nodes) {
        match &mut node.reference {
            Reference::Map(map) | Reference::MapValue { map, .. } => map.0 = place(&maps, map.0),
            Reference::Extern(id) => id.0 = place(&externs, id.0),
            Reference::Function(id) => id.0 = place(&order, id.0),
            Reference::None | Reference::Branch(_) => {}
        }
    }
    own
}

/// The object without some instructions, and without the functions and maps that only they referred to. Branches to them
/// go to what stands after them; `None` if nothing does.
pub(crate) fn without_nodes(object: &Object, gone: &BTreeSet<InsnId>) -> Option<Object> {
    let mut object = object.clone();
    for function in &mut object.functions {
        // From the end: what stands after each.
        let (mut next, mut heirs) = (None, BTreeMap::new());
        for node in function.nodes.iter().rev() {
            if gone.contains(&node.id) {
                heirs.insert(node.id, next);
            } else {
                next = Some(node.id);
            }
        }
        function.nodes.retain(|node| !gone.contains(&node.id));
        for node in &mut function.nodes {
            if let Reference::Branch(target) = &mut node.reference
                && let Some(heir) = heirs.get(target)
            {
                *target = (*heir)?;
            }
        }
    }
    let program = object.programs[0].clone();
    let functions = object.reachable_functions(program.entry);
    Some(only(&object, &program, &functions))
}
