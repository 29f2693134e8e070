//! Programs of the corpora as a start, converted so that `bpf(2)` accepts them without an object file: no BTF, no
//! source lines, CO-RE resolved for the running kernel, small maps.

use std::sync::OnceLock;

use kiln_driver::input::running_kernel_types;
use kiln_platform::{MapType, ProgramType};
use kiln_program::{ExternKind, FunctionId, MapContents, Object, Program, Reference};
use kiln_test::corpus;
use kiln_verifier::{Options, verify};

use crate::part::only;

/// A program of an object that has no other.
#[derive(Clone, Debug)]
pub struct Original {
    /// `object.o:program`.
    pub name: String,
    /// The object.
    pub object: Object,
    /// Its functions.
    pub functions: Vec<FunctionId>,
}

/// Maximum number of slots of a program: changes of a long one are mostly similar.
const MAX_SLOTS: u32 = 400;
/// Instructions that verifying one takes at most.
const MAX_PROCESSED: u64 = 4000;
/// Entries of a map at most.
const MAX_ENTRIES: u32 = 1024;

/// Programs of the corpora, read once.
pub fn originals() -> &'static [Original] {
    static ORIGINALS: OnceLock<Vec<Original>> = OnceLock::new();
    ORIGINALS.get_or_init(|| corpus::objects().iter().flat_map(of_object).collect())
}

fn of_object(entry: &corpus::CorpusObject) -> Vec<Original> {
    let Ok(mut input) = entry.read() else { return Vec::new() };
    let types = running_kernel_types();
    if let Some(types) = types.as_deref() {
        // An unresolved relocation becomes an instruction that is refused if it is reachable.
        let _ = kiln_elf::resolve_core(&mut input.object, types);
    }
    let file = entry.path.file_name().unwrap_or_default().to_string_lossy();
    let options = Options { skip_facts: true, kernel_types: types, ..Options::default() };
    let programs = input.object.programs.iter();
    programs
        .filter_map(|program| alone(&format!("{file}:{}", program.name), &input.object, program, &options))
        .collect()
}

/// The program and what it needs, if that can be loaded without an object file.
fn alone(name: &str, object: &Object, program: &Program, options: &Options) -> Option<Original> {
    if !takes_no_target(program.program_type?) || object.program_slots(program) > MAX_SLOTS {
        return None;
    }
    let functions = object.reachable_functions(program.entry);
    let nodes = || functions.iter().flat_map(|id| &object.function(*id).nodes);
    let resolvable = |reference: &Reference| match reference {
        Reference::Extern(id) => object.externs[id.index()].kind == ExternKind::Kfunc,
        Reference::Map(id) | Reference::MapValue { map: id, .. } => {
            let map = object.map(*id);
            map.map_type != MapType::StructOps
                && !matches!(map.contents, MapContents::Slots(_) | MapContents::StructOps(_) | MapContents::Kconfig(_))
        }
        _ => true,
    };
    if !nodes().all(|node| resolvable(&node.reference)) {
        return None;
    }
    let mut object = only(object, program, &functions);
    let functions: Vec<FunctionId> = (0..object.functions.len() as u32).map(FunctionId).collect();
    for function in &mut object.functions {
        function.btf_id = 0;
        for node in &mut function.nodes {
            (node.line, node.core) = (None, None);
        }
    }
    for map in &mut object.maps {
        (map.key_btf, map.value_btf) = (0, 0);
        if let Some(inner) = map.inner.as_deref_mut() {
            (inner.key_btf, inner.value_btf) = (0, 0);
        }
        if map.map_type != MapType::Ringbuf {
            map.max_entries = if map.max_entries == 0 { 64 } else { map.max_entries.min(MAX_ENTRIES) };
        }
    }
    let cheap = match verify(&object, &object.programs[0], options) {
        Ok(verified) => verified.statistics.processed_insns <= MAX_PROCESSED,
        Err(error) => matches!(error, kiln_verifier::Error::Rejected(_)),
    };
    cheap.then(|| Original { name: name.to_owned(), object, functions })
}

/// Types that load without naming what they attach to.
fn takes_no_target(program_type: ProgramType) -> bool {
    !matches!(
        program_type,
        ProgramType::Tracing | ProgramType::Lsm | ProgramType::Ext | ProgramType::StructOps | ProgramType::LircMode2
    )
}
