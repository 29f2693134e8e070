//! Well-formedness of the IR, on which all later crates rely. It does not decide safety; the verifier does.

use std::collections::BTreeSet;

use kiln_isa::{CallTarget, Insn};
use kiln_platform::MapType;
use kiln_platform::limits::MAX_INNER_MAPS;

use crate::object::{
    Function, FunctionId, InsnId, Map, MapContents, MapId, Object, READ_ONLY_FLAG, Reference, WRITE_ONLY_FLAG,
};
use crate::shown::Clean;

/// Indirect jumps of a function times their targets: the edges of its control-flow graph, which analyses keep.
pub const MAX_INDIRECT_EDGES: usize = 1 << 22;

/// A violation of the rules for objects.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Invalid {
    /// A function without instructions.
    #[error("function {} is empty", Clean(function))]
    Empty {
        /// Its name.
        function: String,
    },
    /// An id used twice, or not below [`Object::next_insn`].
    #[error("instruction id {} is used twice or was never issued", id.0)]
    Id {
        /// The id.
        id: InsnId,
    },
    /// A branch to an instruction that its function does not have.
    #[error("function {}: instruction {position} branches to an instruction that does not exist", Clean(function))]
    Target {
        /// Function name.
        function: String,
        /// Node position.
        position: usize,
    },
    /// A reference that does not exist or does not fit the instruction.
    #[error("function {}: instruction {position} refers to nothing that exists or fits it", Clean(function))]
    Reference {
        /// Function name.
        function: String,
        /// Node position.
        position: usize,
    },
    /// A jump table that its map does not fit, or with an entry outside of its function.
    #[error("function {}: the jump table {table} {what}", Clean(function))]
    Table {
        /// Function name.
        function: String,
        /// Index of the table.
        table: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// The last instruction falls through.
    #[error("function {} runs past its end", Clean(function))]
    End {
        /// Its name.
        function: String,
    },
    /// A map's contents that do not suit the map.
    #[error("map {}: {what}", Clean(map))]
    Contents {
        /// Its name.
        map: String,
        /// What does not suit.
        what: &'static str,
    },
    /// A map of maps whose inner map holds maps too.
    #[error("map {} holds maps that hold maps, which neither libbpf nor the kernel takes", Clean(map))]
    Nesting {
        /// Its name.
        map: String,
    },
    /// A program whose entry does not exist.
    #[error("program {} has no entry function", Clean(program))]
    Entry {
        /// Its name.
        program: String,
    },
}

/// Checks that an object is well formed.
///
/// # Errors
/// Returns the first violation.
pub fn validate(object: &Object) -> Result<(), Invalid> {
    if let Some((map, what)) = object.maps.iter().find_map(|map| contents_fit(map).err().map(|what| (map, what))) {
        return Err(Invalid::Contents { map: map.name.clone(), what });
    }
    let mut ids = Vec::new();
    let mut table_maps = BTreeSet::new();
    for function in &object.functions {
        let name = || function.name.clone();
        let last = function.nodes.last().ok_or_else(|| Invalid::Empty { function: name() })?;
        if last.insn.falls_through() {
            return Err(Invalid::End { function: name() });
        }
        let first = ids.len();
        ids.extend(function.nodes.iter().map(|node| node.id));
        let own = &mut ids[first..];
        own.sort_unstable();
        let jumps = function.nodes.iter().filter(|node| matches!(node.insn, Insn::JumpIndirect { .. })).count();
        if jumps.saturating_mul(function.jump_targets().len()) > MAX_INDIRECT_EDGES {
            return Err(Invalid::Table {
                function: name(),
                table: 0,
                what: "has more targets than all jumps may have",
            });
        }
        if let Some((table, what)) = bad_table(object, function, own, &mut table_maps) {
            return Err(Invalid::Table { function: name(), table, what });
        }
        for (position, node) in function.nodes.iter().enumerate() {
            if node.id.0 >= object.next_insn {
                return Err(Invalid::Id { id: node.id });
            }
            if node.target().is_some_and(|target| own.binary_search(&target).is_err()) {
                return Err(Invalid::Target { function: name(), position });
            }
            if !reference_fits(object, &node.insn, node.reference) {
                return Err(Invalid::Reference { function: name(), position });
            }
        }
    }
    ids.sort_unstable();
    if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Invalid::Id { id: twice[0] });
    }
    let too_deep = |map: &&Map| {
        let levels = std::iter::successors(map.inner.as_deref(), |inner| inner.inner.as_deref());
        levels.take(MAX_INNER_MAPS + 1).count() > MAX_INNER_MAPS
    };
    if let Some(map) = object.maps.iter().find(too_deep) {
        return Err(Invalid::Nesting { map: map.name.clone() });
    }
    match object.programs.iter().find(|program| program.entry.index() >= object.functions.len()) {
        Some(program) => Err(Invalid::Entry { program: program.name.clone() }),
        None => Ok(()),
    }
}

/// The first jump table of a function that is not well formed, and what is wrong. `own` has the function's ids in order,
/// and `taken` the maps of the tables before.
fn bad_table(
    object: &Object,
    function: &Function,
    own: &[InsnId],
    taken: &mut BTreeSet<MapId>,
) -> Option<(usize, &'static str)> {
    function.tables.iter().enumerate().find_map(|(index, table)| {
        let map = object.maps.get(table.map.index()).filter(|map| map.map_type == MapType::InsnArray);
        let what = match map {
            None => "is no map of type insn_array",
            Some(_) if !taken.insert(table.map) => "has a map that is another's, too",
            Some(map) if map.max_entries as usize != table.targets.len() => "has not as many entries as its map",
            Some(map) if (map.key_size, map.value_size) != (4, 16) => "needs keys of 4 bytes and values of 16",
            Some(map) if map.flags & !READ_ONLY_FLAG != 0 || !matches!(map.contents, MapContents::Empty) => {
                "has a map with flags or contents"
            }
            Some(_) if table.targets.is_empty() => "is empty",
            Some(_) if table.targets.iter().any(|target| own.binary_search(target).is_err()) => {
                "leads to an instruction that the function does not have"
            }
            Some(_) => return None,
        };
        Some((index, what))
    })
}

/// Whether a map's contents suit its definition. Loads of constants are folded, so nothing may write a constant, and
/// the folded bytes must be those that the load reads. So the map must have one value, and programs must not be able to
/// change it.
fn contents_fit(map: &Map) -> Result<(), &'static str> {
    let bytes = match &map.contents {
        MapContents::ReadOnly(bytes) => bytes.len() as u64,
        MapContents::Kconfig(bytes) => u64::from(*bytes),
        _ => return template_is_empty(map),
    };
    if !map.is_read_only() || map.flags & WRITE_ONLY_FLAG != 0 {
        return Err("constants need a map that programs cannot write (flags 0x80, BPF_F_RDONLY_PROG)");
    }
    if map.map_type != MapType::Array || map.max_entries != 1 || map.key_size != 4 {
        return Err("constants need an array with 4-byte keys and one entry");
    }
    if bytes > u64::from(map.value_size) {
        return Err("its contents are longer than its value");
    }
    template_is_empty(map)
}

/// The inner maps made from a template do not get the template's contents.
fn template_is_empty(map: &Map) -> Result<(), &'static str> {
    let mut outer = map;
    while let Some(inner) = &outer.inner {
        if inner.is_constant() || matches!(inner.contents, MapContents::Data(_)) {
            return Err("the template of inner maps has contents");
        }
        outer = inner;
    }
    Ok(())
}

fn reference_fits(object: &Object, insn: &Insn, reference: Reference) -> bool {
    let function_exists = |id: FunctionId| id.index() < object.functions.len();
    match (insn, reference) {
        (Insn::Jump { .. } | Insn::Branch { .. } | Insn::MayGoto { .. }, reference) => {
            matches!(reference, Reference::Branch(_))
        }
        (Insn::LoadImm64 { .. }, Reference::Map(map) | Reference::MapValue { map, .. }) => {
            map.index() < object.maps.len()
        }
        (Insn::LoadImm64 { .. }, Reference::Function(id)) => function_exists(id),
        (Insn::LoadImm64 { .. }, Reference::Extern(id)) => id.index() < object.externs.len(),
        (Insn::Call(CallTarget::Subprogram(_)), Reference::Function(id)) => function_exists(id),
        (Insn::Call(CallTarget::Kfunc { .. }), Reference::Extern(id)) => id.index() < object.externs.len(),
        (Insn::Call(CallTarget::Subprogram(_)), _) => false,
        (_, reference) => reference == Reference::None,
    }
}
