//! Global functions with five arguments: the deadline is lent in a word of the CPU, because no register is left for it.
//!
//! ```text
//!   before the call           words of the CPU = { deadline, task }
//!   where the function begins the task is the running one: that deadline, and the words are free
//!                             else: now + quantum
//! ```
//!
//! What interrupts a run between the two takes its own words, if it lends any, and leaves them free. Another task that runs in between
//! leaves its own task there, or none. Then the function begins a quantum of its own; its caller's is over when that one is.
//!
//! The task is written first and read last. So a deadline that is taken is this run's, or a later one of what interrupted it. A function
//! is never cancelled earlier than its caller, which looks at the clock afterwards.

use kiln_isa::{AluOp, CallTarget, Imm64, Insn, JumpOp, Reg, RegSet, Source, Width};
use kiln_program::{InsnId, MapId, Node};

use super::canceller::{Canceller, DEADLINE, Kept};
use super::tail::{branch, entries};
use super::tick::KTIME_GET_NS;
use crate::error::Error;
use crate::frame::{load, store};
use crate::options::Options;
use crate::rebuild::Edit;

const GET_CURRENT_TASK: u32 = 35;
/// Words of a CPU that its entries for tail calls do not use: `lent` of the first and of the second one.
const LENT_DEADLINE: i16 = 24;
const TASK: i16 = 56;

/// The running task's address into a slot, and the address of the CPU's entries into R1.
fn task_and_entries(edit: &mut Edit<'_>, map: MapId, task: i16, like: &Node) -> Vec<Node> {
    let own = [Insn::Call(CallTarget::Helper(GET_CURRENT_TASK)), store(Reg::R10, task, Reg::R0)];
    let mut nodes = edit.nodes(own, like.line);
    nodes.extend(entries(edit, map, like));
    nodes.extend(edit.nodes([load(Reg::R2, Reg::R10, task)], like.line));
    nodes
}

/// Slots for the five arguments.
fn arguments(edit: &mut Edit<'_>, at: InsnId) -> Result<Vec<(Reg, Kept)>, Error> {
    RegSet::arguments(5).iter().map(|reg| Ok((reg, Kept::At(edit.shared_slot(at)?)))).collect()
}

/// Sets the deadline of a block at `at`, where a function with five arguments begins.
pub(super) fn begin(edit: &mut Edit<'_>, map: MapId, at: i16, options: &Options) -> Result<Vec<Node>, Error> {
    edit.frame.begin_place();
    let Some(first) = edit.function.nodes.first() else { return Ok(Vec::new()) };
    let line = first.line;
    let saved = arguments(edit, first.id)?;
    let task = edit.shared_slot(first.id)?;
    let mut set = vec![store(Reg::R10, at + DEADLINE, Reg::R0)];
    set.extend(saved.iter().map(|(reg, kept)| kept.restore(*reg)));
    let set = edit.nodes(set, line);
    let fresh = [
        Insn::Call(CallTarget::Helper(KTIME_GET_NS)),
        Insn::LoadImm64 { dst: Reg::R1, imm: Imm64::Value(options.quantum_ns) },
        Insn::Alu { op: AluOp::Add, width: Width::W64, dst: Reg::R0, src: Source::Reg(Reg::R1) },
    ];
    let fresh = edit.nodes(fresh, line);
    let mut nodes = edit.nodes(saved.iter().map(|(reg, kept)| kept.save(*reg)), line);
    nodes.extend(task_and_entries(edit, map, task, first));
    let take = [load(Reg::R0, Reg::R1, LENT_DEADLINE), load(Reg::R3, Reg::R1, TASK), store(Reg::R1, TASK, 0)];
    nodes.extend(edit.nodes(take, line));
    nodes.push(branch(edit, JumpOp::Eq, Reg::R3, Source::Reg(Reg::R2), &set[0]));
    nodes.extend(fresh);
    nodes.extend(set);
    Ok(nodes)
}

impl Canceller<'_, '_> {
    /// Lends the deadline to a function with five arguments.
    pub(super) fn lend(&mut self, call: &Node, map: MapId) -> Result<(), Error> {
        if self.edit.facts.at(call.id).is_none() {
            return Ok(());
        }
        self.edit.frame.begin_place();
        let saved = arguments(self.edit, call.id)?;
        let task = self.edit.shared_slot(call.id)?;
        let mut nodes = self.edit.nodes(saved.iter().map(|(reg, kept)| kept.save(*reg)), call.line);
        nodes.extend(task_and_entries(self.edit, map, task, call));
        let mut write = self.deadline(Reg::R3);
        write.extend([store(Reg::R1, TASK, Reg::R2), store(Reg::R1, LENT_DEADLINE, Reg::R3)]);
        write.extend(saved.iter().map(|(reg, kept)| kept.restore(*reg)));
        nodes.extend(self.edit.nodes(write, call.line));
        self.edit.guard(call.id, nodes);
        Ok(())
    }
}
