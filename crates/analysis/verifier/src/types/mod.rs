//! Structures known by BTF: the kernel's, and those that programs allocate.
//!
//! ```text
//!   Register { holds: Structure(3), trust: TRUSTED }
//!                                  |
//!   Types:  [3] kernel type 812, struct task_struct        walk: what is at offset 40 of it?
//!           [4] program type 17, struct node
//! ```
//!
//! A register names a type by its place in [`Types`], so that registers stay small and two of one type compare equal.
//! `walk` answers what lies at an offset of a structure, `hook` what the program is attached to, `parameters` what kernel
//! functions ask for. Loads, stores and arguments are held to this elsewhere (`transfer`, `call`).

pub(crate) mod hook;
pub(crate) mod parameters;
#[cfg(test)]
mod tests;
pub(crate) mod walk;

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use kiln_program::btf::{Btf, Kind as BtfKind, TypeId};
use kiln_program::{Extern, ExternKind};

use crate::code::Code;
use crate::code::signature::{Signature, signatures};
use crate::objects::fields::Record;
use crate::options::Options;
use crate::types::hook::Hook;
use crate::types::parameters::Taken;
use crate::types::walk::type_at;

/// A type that some register points to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pointed {
    /// Of the kernel's BTF; otherwise of the program's.
    pub of_kernel: bool,
    /// Its number there; `void` where it is known by name only.
    pub id: TypeId,
    /// Its name.
    pub name: String,
}

/// The types that registers point to, and where their definitions are.
#[derive(Debug, Default)]
pub(crate) struct Types {
    pub kernel: Option<Arc<Btf>>,
    /// The program's own, where it has some that parse.
    pub program: Option<Arc<Btf>>,
    pointed: Vec<Pointed>,
    /// Signatures of global functions that are verified on their own.
    pub signatures: Vec<Option<Signature>>,
    /// What the program is attached to, once it was asked for.
    pub(crate) hook: OnceCell<Rc<Hook>>,
    /// What the parameters of each kernel function that was called ask for.
    pub(crate) parameters: HashMap<&'static str, Rc<[Taken]>>,
    /// Fields of the program's structures that are not plain memory.
    pub(crate) object_records: RefCell<HashMap<u32, Option<Arc<Record>>>>,
}

impl Types {
    /// The types of a program and of the kernel that it is verified for.
    pub(crate) fn of_program(code: &Code<'_>, options: &Options) -> Types {
        let btf = code.prepared.accepted_btf.clone();
        let signatures = signatures(code, btf.as_deref(), options);
        Types { signatures, ..Types::new(options.kernel_types.clone(), btf) }
    }

    pub(crate) fn new(kernel: Option<Arc<Btf>>, program: Option<Arc<Btf>>) -> Types {
        Types { kernel, program, ..Types::default() }
    }

    /// The index of a kernel structure by name; without the kernel's types it is known by name only.
    pub(crate) fn kernel_struct(&mut self, name: &str) -> u32 {
        let id = self.find_struct(name).unwrap_or(TypeId::VOID);
        self.index(Pointed { of_kernel: true, id, name: name.to_owned() })
    }

    /// The index of a type of the kernel.
    pub(crate) fn kernel_type(&mut self, id: TypeId) -> u32 {
        let name = self.kernel.as_deref().map_or("", |types| types.name(id)).to_owned();
        self.index(Pointed { of_kernel: true, id, name })
    }

    /// The index of a type of the program's.
    pub(crate) fn program_type(&mut self, id: TypeId) -> u32 {
        let name = self.program.as_deref().map_or("", |types| types.name(id)).to_owned();
        self.index(Pointed { of_kernel: false, id, name })
    }

    fn index(&mut self, wanted: Pointed) -> u32 {
        let known = self.pointed.iter().position(|known| {
            known.of_kernel == wanted.of_kernel && known.id == wanted.id && known.name == wanted.name
        });
        known.unwrap_or_else(|| {
            self.pointed.push(wanted);
            self.pointed.len() - 1
        }) as u32
    }

    pub(crate) fn pointed(&self, index: u32) -> Option<&Pointed> {
        self.pointed.get(index as usize)
    }

    /// The name of the type with this index.
    pub(crate) fn name(&self, index: u32) -> &str {
        self.pointed(index).map_or("", |pointed| &pointed.name)
    }

    /// The BTF that defines a type.
    pub(crate) fn definitions(&self, pointed: &Pointed) -> Option<&Btf> {
        if pointed.of_kernel { self.kernel.as_deref() } else { self.program.as_deref() }
    }

    /// A `struct` or `union` of the kernel.
    pub(crate) fn find_struct(&self, name: &str) -> Option<TypeId> {
        self.kernel.as_deref()?.find(name, |kind| matches!(kind, BtfKind::Composite { .. }))
    }

    /// A function of the kernel: its prototype.
    pub(crate) fn find_function(&self, name: &str) -> Option<TypeId> {
        let kernel = self.kernel.as_deref()?;
        let id = kernel.find(name, |kind| matches!(kind, BtfKind::Function { .. }))?;
        match kernel.kind(id) {
            BtfKind::Function { prototype, .. } => Some(*prototype),
            _ => None,
        }
    }
}

/// Levels of nesting looked into.
const MAX_NESTING: usize = 32;

impl Types {
    /// Whether `offset` bytes into `held` there is a `wanted`; `strictly`: it is one itself.
    pub(crate) fn is_at(&self, held: &Pointed, offset: i64, wanted: &Pointed, strictly: bool, flexible: bool) -> bool {
        let same = |id: TypeId| held.of_kernel == wanted.of_kernel && id == wanted.id;
        if offset == 0 && same(held.id) {
            return true;
        }
        let (Some(types), Ok(mut offset)) = (self.definitions(held), u32::try_from(offset)) else { return false };
        if strictly {
            return false;
        }
        let mut id = held.id;
        for _ in 0..MAX_NESTING {
            match type_at(types, id, offset, flexible) {
                Some(inner) if same(inner) => return true,
                Some(inner) => (id, offset) = (inner, 0),
                None => return false,
            }
        }
        false
    }
}

/// The kernel's function or variable that a symbol names.
pub(crate) fn find_symbol(kernel: &Btf, symbol: &Extern) -> Option<TypeId> {
    let function = symbol.kind == ExternKind::Kfunc;
    kernel.find(&symbol.name, |kind| match kind {
        BtfKind::Function { .. } => function,
        BtfKind::Variable { .. } => !function,
        _ => false,
    })
}

/// What is said where the kernel's types are needed and the caller gave none.
pub(crate) const WITHOUT_TYPES: &str = "kernel structures, without the kernel's types (its BTF was not given)";
