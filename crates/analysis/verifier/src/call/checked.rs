//! One argument of a call while it is checked: the path, what earlier arguments said, what is passed.
//!
//! `argument` and `kfunc_argument` check the kinds of a prototype. `structure` and `stack_object` check structures of the
//! kernel, dynptrs and iterators.

use kiln_isa::Reg;
use kiln_platform::{Helper, Prototype};

use crate::call::said::{Call, KfuncCall};
use crate::path::Path;
use crate::state::Register;
use crate::types::parameters::Taken;

/// One argument of a helper's call, to be held to what the prototype asks for.
pub(crate) struct Check<'c, 'p> {
    pub path: &'c mut Path<'p>,
    /// What the arguments said so far.
    pub call: &'c mut Call,
    pub argument: Argument<'c>,
}

/// Which argument it is, and what is passed.
#[derive(Clone, Copy)]
pub(crate) struct Argument<'c> {
    pub helper: &'c Helper,
    pub prototype: &'c Prototype,
    /// From 0.
    pub index: usize,
    pub reg: Reg,
    pub register: Register,
}

/// One argument of a kernel function's call.
pub(crate) struct KfuncCheck<'c, 'p> {
    pub path: &'c mut Path<'p>,
    /// What the arguments said so far.
    pub call: &'c mut KfuncCall,
    pub argument: Passed<'c>,
}

/// What is passed, and what is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Passed<'c> {
    pub reg: Reg,
    pub register: Register,
    pub taken: &'c Taken,
}
