//! What happens at a cancellation point: iterations are counted and the clock is read, or the terminate word.

use kiln_isa::{AluOp, CallTarget, Imm64, Insn, JumpOp, Reg, RegSet, Source, Width};
use kiln_program::{InsnId, LineId, MapId, Node, Reference};

use super::canceller::{Canceller, DEADLINE, Kept, Scratch};
use crate::error::Error;
use crate::frame::{free_register, load, store};
use crate::options::Options;

pub(super) const KTIME_GET_NS: u32 = 5;
/// So many iterations of a short loop have one look at the clock. The counter adds up the time of all loops: an iteration of a longer
/// one counts as several.
pub(super) const ITERATIONS: i32 = 1024;

impl Canceller<'_, '_> {
    /// Counts an iteration, and once in so many, a power of two, jumps to the landing pad if the deadline has passed. What follows these
    /// instructions begins with `resume`.
    pub(super) fn tick(
        &mut self,
        header: &Node,
        [live, released]: [RegSet; 2],
        [pad, resume]: [InsnId; 2],
        iterations: i32,
        options: &Options,
    ) -> Result<Vec<Node>, Error> {
        self.edit.frame.begin_place();
        let line = header.line;
        let mut scratch = Scratch::new(live, released);
        let counter = scratch.take(self.edit, header.id)?;
        let base = if self.own { None } else { Some(scratch.take(self.edit, header.id)?) };
        // Registers that a call destroys and the loop or the landing pad still needs, except those that are borrowed.
        let mut saved = Vec::new();
        for reg in live.union(released).intersection(RegSet::CALLER_SAVED).iter() {
            if !scratch.borrowed.iter().any(|(other, _)| *other == reg) {
                saved.push((reg, scratch.keep(self.edit, header.id)?));
            }
        }
        let borrowed = scratch.borrowed;
        let (home, offset) = base.map_or((Reg::R10, self.at), |base| (base, 0));
        let save =
            |registers: &[(Reg, Kept)]| -> Vec<Insn> { registers.iter().map(|(reg, kept)| kept.save(*reg)).collect() };
        let restore = |registers: &[(Reg, Kept)]| -> Vec<Insn> {
            registers.iter().map(|(reg, kept)| kept.restore(*reg)).collect()
        };
        // The end first: jumps lead to it.
        let mut end = self.edit.nodes(restore(&borrowed), line);
        let fast = end.first().map_or(resume, |node| node.id);
        let mut back = self.edit.nodes(restore(&saved), line);
        back.push(self.jump(fast, line));
        let slow_end = back[0].id;
        let expired = self.expired(&saved, &borrowed, pad, line);
        let mut nodes = self.edit.nodes(save(&borrowed), line);
        let fetch = base.map(|base| load(base, Reg::R10, self.at));
        // What is added divides what is counted to, so the bits of the mask are zero once each time around.
        let step = ITERATIONS / iterations;
        let add = Insn::Alu { op: AluOp::Add, width: Width::W64, dst: counter, src: Source::Imm(step) };
        // The mask and the comparison are separate: otherwise the verifier would know the stored count's lower bits
        // after reading the clock, and explore the next 1023 iterations one by one.
        let mask = Insn::Alu { op: AluOp::And, width: Width::W64, dst: counter, src: Source::Imm(ITERATIONS - step) };
        let count = [load(counter, home, offset), add, store(home, offset, counter), mask];
        nodes.extend(self.edit.nodes(fetch.into_iter().chain(count), line));
        // The clock is read out of line. The verifier explores what follows a branch first: then it knows the states without
        // what reading the clock leaves on the stack, and these cover the others.
        let mut slow = self.edit.nodes(save(&saved), line);
        slow.extend(self.look_at_clock(expired, slow_end, options, line));
        slow.append(&mut back);
        nodes.push(self.branch(JumpOp::Eq, counter, Source::Imm(0), slow[0].id, line));
        self.edit.land(slow);
        nodes.append(&mut end);
        Ok(nodes)
    }

    /// Jumps to the landing pad if the terminate word is set, where nothing may be called.
    pub(super) fn poll(&mut self, header: &Node, busy: RegSet, pad: InsnId, map: MapId) -> Result<Vec<Node>, Error> {
        self.edit.frame.begin_place();
        let line = header.line;
        let busy = busy.union(RegSet::of(&[Reg::R10]));
        let (reg, borrowed) = match free_register(busy) {
            Some(free) => (free, Vec::new()),
            None => (Reg::R0, vec![(Reg::R0, Kept::At(self.edit.shared_slot(header.id)?))]),
        };
        let expired = self.expired(&[], &borrowed, pad, line);
        let save = borrowed.iter().map(|(reg, kept)| kept.save(*reg));
        let mut nodes = self.edit.nodes(save, line);
        nodes.extend(self.look_at_word(reg, map, expired, line));
        let restore = borrowed.iter().map(|(reg, kept)| kept.restore(*reg));
        nodes.extend(self.edit.nodes(restore, line));
        Ok(nodes)
    }

    /// Reads the clock. The first time it sets the deadline. It jumps to `expired` if the deadline has passed, else to
    /// `on`, which follows.
    pub(super) fn look_at_clock(
        &mut self,
        expired: InsnId,
        on: InsnId,
        options: &Options,
        line: Option<LineId>,
    ) -> Vec<Node> {
        let (fetch, home, offset) = match self.own {
            true => (None, Reg::R10, self.at),
            false => (Some(load(Reg::R2, Reg::R10, self.at)), Reg::R2, 0),
        };
        let call = self.edit.node(Insn::Call(CallTarget::Helper(KTIME_GET_NS)), Reference::None, line);
        let deadline = fetch.into_iter().chain([load(Reg::R1, home, offset + DEADLINE)]);
        let deadline = self.edit.nodes(deadline, line);
        let compare = self.branch(JumpOp::Gt, Reg::R0, Source::Reg(Reg::R1), expired, line);
        let known = self.branch(JumpOp::Ne, Reg::R1, Source::Imm(0), compare.id, line);
        let first = [
            Insn::LoadImm64 { dst: Reg::R1, imm: Imm64::Value(options.quantum_ns) },
            Insn::Alu { op: AluOp::Add, width: Width::W64, dst: Reg::R0, src: Source::Reg(Reg::R1) },
            store(home, offset + DEADLINE, Reg::R0),
        ];
        let first = self.edit.nodes(first, line);
        let skip = self.jump(on, line);
        let mut nodes = vec![call];
        nodes.extend(deadline);
        nodes.push(known);
        nodes.extend(first);
        nodes.extend([skip, compare]);
        nodes
    }

    /// Where an expired deadline leads: registers as the landing pad expects them.
    pub(super) fn expired(
        &mut self,
        saved: &[(Reg, Kept)],
        borrowed: &[(Reg, Kept)],
        pad: InsnId,
        line: Option<LineId>,
    ) -> InsnId {
        if saved.is_empty() && borrowed.is_empty() {
            return pad;
        }
        let restore: Vec<_> = saved.iter().chain(borrowed).map(|(reg, kept)| kept.restore(*reg)).collect();
        let mut nodes = self.edit.nodes(restore, line);
        nodes.push(self.jump(pad, line));
        let first = nodes[0].id;
        self.edit.land(nodes);
        first
    }
}
