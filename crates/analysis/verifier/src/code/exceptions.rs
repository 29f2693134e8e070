//! The function that a program names to handle what it throws: a declaration tag on the program's function.

use std::collections::HashMap;

use kiln_program::btf::{Btf, EXCEPTION_CALLBACK, Kind as BtfKind, Linkage, TypeId};
use kiln_program::{Function, FunctionId, Object, Program};

/// The function that a program names to handle what it throws, or what is wrong with the one it names.
pub(crate) fn callback_of(
    object: &Object,
    btf: Option<&Btf>,
    named: &HashMap<TypeId, Vec<String>>,
    program: &Program,
) -> Option<Result<FunctionId, String>> {
    let btf = btf?;
    let entry = object.functions.get(program.entry.index()).filter(|entry| entry.btf_id != 0)?;
    let [name] = named.get(&TypeId(entry.btf_id))?.as_slice() else {
        return Some(Err("the program names several exception callbacks".to_owned()));
    };
    let is_global = |function: &Function| {
        let declared = btf.kind(TypeId(function.btf_id));
        matches!(declared, BtfKind::Function { linkage: Linkage::Global, .. })
            && function.linkage != kiln_program::Linkage::Static
    };
    let is_named = |id: &usize| object.functions[*id].name == *name;
    let found = (0..object.functions.len()).find(is_named);
    Some(match found {
        Some(at) if is_global(&object.functions[at]) => Ok(FunctionId(at as u32)),
        Some(_) => Err(format!("the exception callback {name} is not a global function")),
        None => Err(format!("there is no function {name} to be the exception callback")),
    })
}

/// The exception callbacks that functions name, by the function's type.
pub(crate) fn callbacks_named(btf: &Btf) -> HashMap<TypeId, Vec<String>> {
    let mut named: HashMap<TypeId, Vec<String>> = HashMap::new();
    for id in btf.own_ids() {
        if let BtfKind::DeclTag { target, component: None } = *btf.kind(id)
            && let Some(name) = btf.name(id).strip_prefix(EXCEPTION_CALLBACK)
        {
            named.entry(target).or_default().push(name.to_owned());
        }
    }
    named
}
