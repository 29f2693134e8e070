//! What the object says of the kernel's functions and variables, beside what the kernel's types say: libbpf refuses an object
//! whose declarations differ.
//!
//! ```text
//!   extern int bpf_rcu_read_lock(int, int) __ksym;      the kernel's takes nothing
//!   struct bpf_dynptr; extern ...(struct bpf_dynptr *)  only declared, and a structure in the kernel
//!   extern const int runqueues __ksym;                  a structure in the kernel
//! ```

use kiln_program::btf::compat::Compare;
use kiln_program::btf::{Btf, Kind, TypeId};
use kiln_program::{Extern, ExternKind, Reference};

use crate::code::{Code, Position};
use crate::types::find_symbol;

/// Steps that comparing two types may take.
const STEP_LIMIT: u32 = 1 << 16;

impl Code<'_> {
    /// The first use of a kernel function or variable that is not what the object declares, and what is wrong.
    pub(crate) fn misdeclared(&self, kernel: &Btf) -> Option<(Position, String)> {
        let own = self.prepared.btf.as_deref()?;
        (0..).zip(&self.ops).find_map(|(at, op)| {
            let Reference::Extern(id) = op.node.reference else { return None };
            let symbol = self.object.externs.get(id.index()).filter(|symbol| !symbol.weak)?;
            Some((at, misdeclared(own, kernel, symbol)?))
        })
    }
}

/// What is wrong with the declaration of a symbol, if the kernel has the symbol.
fn misdeclared(own: &Btf, kernel: &Btf, symbol: &Extern) -> Option<String> {
    let declared = type_of(own, TypeId(symbol.btf_id), symbol.kind)?;
    let of_kernel = type_of(kernel, find_symbol(kernel, symbol)?, symbol.kind)?;
    let mut budget = STEP_LIMIT;
    let mut compare = Compare { local: own, target: kernel, budget: &mut budget };
    if compare.types_are_compatible(declared, of_kernel) != Ok(false) {
        return None;
    }
    let name = &symbol.name;
    let (takes, has) = (own.parameters(declared).len(), kernel.parameters(of_kernel).len());
    Some(if symbol.kind != ExternKind::Kfunc {
        format!("the kernel's variable {name} has another type than its declaration")
    } else if takes != has {
        format!("the kernel's function {name} takes {has} arguments, its declaration {takes}")
    } else {
        format!(
            "the kernel's function {name} has other types than its declaration (a structure that is only declared is another \
             type)"
        )
    })
}

/// The prototype of a function, or the type of a variable.
fn type_of(types: &Btf, id: TypeId, kind: ExternKind) -> Option<TypeId> {
    match (types.kind(id), kind) {
        (Kind::Function { prototype, .. }, ExternKind::Kfunc) => Some(*prototype),
        (Kind::Variable { target, .. }, ExternKind::TypedKsym) => Some(*target),
        _ => None,
    }
}
