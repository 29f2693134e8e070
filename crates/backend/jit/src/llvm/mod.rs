//! BPF as LLVM's text, for an optimizing compiler.
//!
//! ```text
//!   w0 = *(u32 *)(r1 + 4)      %v1 = load i64, ptr %r1
//!                              %v2 = add i64 %v1, 4
//!                              %v3 = inttoptr i64 %v2 to ptr
//!                              %v4 = load i32, ptr %v3, align 1
//!                              %v5 = zext i32 %v4 to i64
//!                              store i64 %v5, ptr %r0
//! ```
//!
//! Registers and the stack are local variables, which LLVM takes apart. The contract with the runtime is the one of this
//! crate, with these differences:
//! - Code refers to addresses of the process (maps, helpers) by their places in a table ([`table_symbol`]). So the text says
//!   nothing about the process, the result can be kept, and whoever loads it fills the table first ([`Module::resolve`]).
//! - Marks of native operations are not looked at: LLVM finds rotations and the like in the proof sequence.
//! - Functions of the program pass the budget on in a register; helpers find it in [`crate::Runtime`].
//! - A tail call is an ordinary call whose result is returned. There are at most 33 of them.
//!
//! Memory that another thread may change is accessed by `volatile` loads and stores: each is one access of the machine, as
//! the verifier assumed when it checked a loaded value once and believed it later.
//!
//! - `builder`: lines and names; `shared`: what functions share; `function`: one of them, its variables, its budget;
//! - `alu`, `memory`, `control`: the text of instructions.

mod alu;
mod builder;
mod control;
mod function;
mod memory;
mod shared;

use std::fmt::Write as _;

use kiln_program::{FunctionId, Object};

pub use crate::address::Address;
use crate::plan::Plan;
use crate::{Error, Symbols};
use function::FunctionWriter;
use shared::Shared;
pub use shared::{Aim, Place, Settings, entry_symbol, table_symbol};

/// A program as LLVM's text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Module {
    /// The text. It has no undefined symbols.
    pub text: String,
    /// What the words of the table are.
    pub addresses: Vec<Address>,
}

impl Module {
    /// The words of the table in this process.
    ///
    /// # Errors
    /// The first address that the runtime does not have.
    pub fn resolve(&self, symbols: &dyn Symbols) -> Result<Vec<u64>, Address> {
        self.addresses.iter().map(|address| address.resolve(symbols).ok_or(*address)).collect()
    }
}

/// A function with the calling convention of entries or callbacks, around one of the program. Functions of the program get the
/// budget as their last argument and return it beside their value, so that it stays in a register.
fn from_outside(head: &str, function: FunctionId, arguments: &str, counts: bool) -> String {
    let left = if counts { "load i64, ptr %runtime" } else { "add i64 0, 0" };
    let store = if counts { "store i64 %after, ptr %runtime\n  " } else { "" };
    format!(
        "{head} #0 {{\n  %before = {left}\n  \
           %both = call {{ i64, i64 }} @f{}({arguments}, i64 %before)\n  \
           %after = extractvalue {{ i64, i64 }} %both, 1\n  {store}\
           %value = extractvalue {{ i64, i64 }} %both, 0\n  \
           ret i64 %value\n}}\n\n",
        function.0
    )
}

/// Translates a program: its entry and every function that calls and callbacks reach.
///
/// # Errors
/// [`Error::Unsupported`] and [`Error::Unresolved`] with the instruction; [`Error::Malformed`] for an object that does not
/// validate.
pub fn translate(
    object: &Object,
    entry: FunctionId,
    symbols: &dyn Symbols,
    settings: &Settings<'_>,
) -> Result<Module, Error> {
    let plan = Plan::new(object, entry, symbols, settings.options, true)?;
    let mut shared = Shared { object, symbols, settings, plan: &plan, addresses: Vec::new() };
    let mut text = String::new();
    for id in &plan.order {
        text += &FunctionWriter::new(&mut shared, *id)?.write()?;
    }
    let words = shared.addresses.len().max(1);
    let (entry_symbol, table) = (entry_symbol(settings.name), table_symbol(settings.name));
    let mut module = format!("@{table} = externally_initialized global [{words} x i64] zeroinitializer, align 8\n\n");
    let counts = settings.options.metered && plan.budget;
    let parameters = "i64 %a1, i64 %a2, i64 %a3, i64 %a4, i64 %a5, ptr %runtime";
    let context = "i64 %context, i64 0, i64 0, i64 0, i64 0, ptr %runtime";
    let head = format!("define i64 @{entry_symbol}(i64 %context, ptr %runtime)");
    module += &from_outside(&head, entry, context, counts);
    for callback in &plan.callbacks {
        let head = format!("define internal i64 @c{}({parameters})", callback.0);
        module += &from_outside(&head, *callback, parameters, counts);
    }
    module += &text;
    for bits in [16, 32, 64] {
        let _ = writeln!(module, "declare i{bits} @llvm.bswap.i{bits}(i{bits})");
    }
    let aim = match settings.aim {
        Aim::Speed => "",
        Aim::Size => " minsize optsize",
    };
    // The budget is hardly ever spent.
    let likely = "!1 = !{!\"branch_weights\", i32 1, i32 1000000}";
    // Address 0 may be read by a program that checks it, and nothing may become a call of the C library.
    let _ = writeln!(
        module,
        "attributes #0 = {{ nounwind null_pointer_is_valid \"no-builtins\"{aim} }}\n!0 = !{{}}\n{likely}"
    );
    Ok(Module { text: module, addresses: shared.addresses })
}
