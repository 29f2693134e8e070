//! Well-formedness of the IR: what every later room may take for granted. Not safety, which is the verifier's.

use kiln_isa::{CallTarget, Insn};

use crate::object::{FunctionId, InsnId, Object, Reference};

/// What is wrong with an object.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Invalid {
    /// A function without instructions.
    #[error("function {function} is empty")]
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
    #[error("function {function}: instruction {position} branches to an instruction that does not exist")]
    Target {
        /// Function name.
        function: String,
        /// Node position.
        position: usize,
    },
    /// A reference that does not exist or does not fit the instruction.
    #[error("function {function}: instruction {position} refers to nothing that exists or fits it")]
    Reference {
        /// Function name.
        function: String,
        /// Node position.
        position: usize,
    },
    /// The last instruction falls through.
    #[error("function {function} runs past its end")]
    End {
        /// Its name.
        function: String,
    },
    /// A program whose entry does not exist.
    #[error("program {program} has no entry function")]
    Entry {
        /// Its name.
        program: String,
    },
}

/// Checks that an object is well formed.
///
/// # Errors
/// The first thing that is not.
pub fn validate(object: &Object) -> Result<(), Invalid> {
    let mut ids = Vec::new();
    for function in &object.functions {
        let name = || function.name.clone();
        let last = function.nodes.last().ok_or_else(|| Invalid::Empty { function: name() })?;
        if !matches!(last.insn, Insn::Exit | Insn::Jump { .. }) {
            return Err(Invalid::End { function: name() });
        }
        let first = ids.len();
        ids.extend(function.nodes.iter().map(|node| node.id));
        let own = &mut ids[first..];
        own.sort_unstable();
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
    match object.programs.iter().find(|program| program.entry.index() >= object.functions.len()) {
        Some(program) => Err(Invalid::Entry { program: program.name.clone() }),
        None => Ok(()),
    }
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
