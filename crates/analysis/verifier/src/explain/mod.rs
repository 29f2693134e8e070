//! Rejections explained: our message, the kernel's message and the story.
//!
//! ```text
//!   xdp_prog is rejected: possibly-null
//!     at instruction 7: r1 = *(u32 *)(r0 + 0)
//!     filter.c:31:  count = *value;
//!     r0 may be null: the result of map_lookup_elem was not compared with 0 on this path
//!     usually: test the pointer before using it: `if (!value) return XDP_PASS;`
//! ```
//!
//! Each [`Reason`] has a stable code and a row of text; the message says what was wrong here. With
//! [`crate::Options::explain`], the story says how the path came to it (see `story`), and what fixes this very case.

mod follow;
pub(crate) mod frames;
mod help;
mod kernel_names;
pub(crate) mod kernel_words;
mod names;
pub(crate) mod story;
mod wanted;

use kiln_isa::Insn;
use kiln_platform::Feature;

use crate::check::profile::needs;
use crate::code::{Code, Position};
use crate::error::{Error, Fault, Refused};
use crate::path::Path;
use crate::reason::Reason;
use crate::rejection::{Cause, Part, Rejection, StoryStep};

impl StoryStep {
    pub(crate) fn at(code: &Code<'_>, at: Position, part: Part, text: String) -> StoryStep {
        let op = code.op(at);
        let routine = &code.functions[op.function];
        StoryStep {
            insn: op.node.id,
            position: (routine.name.to_owned(), (at - routine.start) as usize),
            listing: op.node.insn.to_string(),
            // Line 0 is what compilers give to code that no line asked for.
            line: code.object.line(op.node).filter(|line| line.line != 0).cloned(),
            part,
            text,
            aside: false,
            loss: None,
        }
    }
}

/// A rejection at a position.
pub(crate) fn rejection(code: &Code<'_>, at: Position, reason: Reason, message: String) -> Rejection {
    let op = code.op(at);
    let routine = &code.functions[op.function];
    Rejection {
        program: code.program.name.clone(),
        insn: op.node.id,
        position: (routine.name.to_owned(), (at - routine.start) as usize),
        listing: op.node.insn.to_string(),
        line: code.object.line(op.node).cloned(),
        reason,
        message,
        kernel_message: None,
        story: Vec::new(),
        help: older_instruction(reason, &op.node.insn).unwrap_or_else(|| reason.fix().to_owned()),
        wanted: crate::rejection::Wanted::default(),
        cause: Cause::default(),
    }
}

/// What to write instead of an instruction that the kernel lacks: no test in the program guards one.
fn older_instruction(reason: Reason, insn: &Insn) -> Option<String> {
    if reason != Reason::KernelLacks {
        return None;
    }
    let instead = match needs(insn)? {
        Feature::CpuV4 => "compile with -mcpu=v3",
        Feature::HalfBranches | Feature::HalfArithmeticShifts => "compile with -mcpu=v2",
        Feature::FetchingAtomics => "take a lock, or add to a variable of each processor",
        Feature::MayGoto => "bound the loop by a constant",
        Feature::AcquireRelease => "use an atomic exchange or addition",
        Feature::AddressSpaceCast | Feature::IndirectJumps => "build another program for older kernels",
        _ => return None,
    };
    Some(format!("{instead}: the kernel refuses an instruction that it does not know even where no path leads to it"))
}

/// Turns a fault at the path's position into an error, with our message and the kernel's.
pub(crate) fn explained(path: &Path<'_>, fault: Fault) -> Error {
    let op = path.code.op(path.at);
    let refused = match fault {
        Fault::Unsupported(what) => return Error::Unsupported { insn: op.node.id, what },
        Fault::Limit(what) => return Error::Limit { insn: op.node.id, what },
        Fault::Rejected(refused) => refused,
    };
    let kernel_message = kernel_words::message(path, &refused);
    let Refused { reason, message, cause } = refused;
    Error::Rejected(Box::new(Rejection { kernel_message, cause, ..rejection(path.code, path.at, reason, message) }))
}
