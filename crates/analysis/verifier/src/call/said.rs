//! What the arguments of one call said, and the call that acts on it.

use kiln_isa::Reg;
use kiln_platform::{Helper, Kfunc, Prototype};
use kiln_program::btf::TypeId;

use crate::objects::dynptr::Dynptr;
use crate::objects::fields::{Kptr, Root};
use crate::objects::iterator::Iterator;
use crate::path::Path;
use crate::state::Register;

/// What a helper's call does to the path, once its arguments are right.
pub(crate) struct HelperEffect<'c, 'p> {
    pub path: &'c mut Path<'p>,
    pub helper: &'static Helper,
    pub prototype: &'static Prototype,
    /// What the arguments said.
    pub call: &'c Call,
}

/// What a kernel function's call does to the path, once its arguments are right.
pub(crate) struct KfuncEffect<'c, 'p> {
    pub path: &'c mut Path<'p>,
    /// What the arguments said.
    pub call: &'c KfuncCall,
}

/// What the arguments of one call said.
#[derive(Default)]
pub(crate) struct Call {
    /// The map argument.
    pub map: Option<Register>,
    /// The kptr that is changed.
    pub kptr: Option<Kptr>,
    /// The map value whose timer is passed.
    pub owner: Option<Register>,
    /// The greatest size passed for a memory argument.
    pub most_bytes: u64,
    /// The constant size asked for.
    pub allocation: Option<u64>,
    /// The resource given up.
    pub released: Option<u32>,
    /// The resource that an argument stands on.
    pub reference: u32,
    /// The function passed.
    pub callback: Option<usize>,
    /// Stack bytes to be filled: frame, lowest, length.
    pub fills: Vec<(usize, i32, i32)>,
    /// Bytes of the key known to be this constant.
    pub key: Option<u64>,
    /// The dynptr that is used.
    pub dynptr: Option<Dynptr>,
}

/// What the arguments of one kfunc call said.
#[derive(Debug)]
pub(crate) struct KfuncCall {
    pub kfunc: &'static Kfunc,
    /// Its type in the kernel's BTF.
    pub prototype: TypeId,
    /// The resource that an argument stands on.
    pub reference: u32,
    /// The argument given up.
    pub released: Option<Reg>,
    /// The resource of the dynptr given up, 0 for none.
    pub given_back: u32,
    /// Its pointers must be trusted.
    pub trusted: bool,
    /// The constant among the arguments.
    pub constant: Option<u64>,
    /// The map argument.
    pub map: Option<Register>,
    /// The function passed.
    pub callback: Option<usize>,
    /// How many bytes the result points to, and whether they are read-only.
    pub result_bytes: Option<(u64, bool)>,
    /// The object among the arguments: its type's index.
    pub object: Option<u32>,
    /// That object is owned by the program.
    pub owning: bool,
    /// What the list or tree among the arguments holds.
    pub root: Option<Root>,
    /// The map value whose workqueue or the like is passed.
    pub value: Option<Register>,
    /// The dynptr that is used.
    pub dynptr: Option<Dynptr>,
    /// The iterator that is used.
    pub iterator: Option<Iterator>,
}
