//! What may take long besides turns of a loop: the clock is read before slow helpers and after global functions.

use std::collections::BTreeSet;

use kiln_isa::{AluOp, CallTarget, Imm64, Insn, Reg, RegSet, Source, Width};
use kiln_platform::Helper;
use kiln_program::btf::{Btf, Kind, TypeId};
use kiln_program::{InsnId, Linkage, Node, Object, Reference};
use kiln_verifier::Value;

use super::canceller::{Canceller, DEADLINE, Kept};
use super::counted::MOST_POINTS;
use super::tick::KTIME_GET_NS;
use crate::costs;
use crate::error::Error;
use crate::frame::{live_before, load, store};
use crate::loops;
use crate::options::{Options, Target};
use crate::rebuild::Edit;

/// Sets the deadline of a block at `at`, where a function begins.
pub(super) fn begin(edit: &mut Edit<'_>, at: i16, options: &Options) -> Result<Vec<Insn>, Error> {
    edit.frame.begin_place();
    let known = edit.function.nodes.first().and_then(|first| edit.facts.at(first.id));
    let is_passed = |reg: &Reg| known.is_some_and(|known| known.registers[reg.index()] != Value::Uninit);
    let mut saved = Vec::new();
    for reg in RegSet::arguments(5).iter().filter(is_passed) {
        saved.push((reg, Kept::At(edit.shared_slot(InsnId(0))?)));
    }
    let mut begin: Vec<Insn> = saved.iter().map(|(reg, kept)| kept.save(*reg)).collect();
    begin.extend([
        Insn::Call(CallTarget::Helper(KTIME_GET_NS)),
        Insn::LoadImm64 { dst: Reg::R1, imm: Imm64::Value(options.quantum_ns) },
        Insn::Alu { op: AluOp::Add, width: Width::W64, dst: Reg::R0, src: Source::Reg(Reg::R1) },
        store(Reg::R10, at + DEADLINE, Reg::R0),
    ]);
    begin.extend(saved.iter().map(|(reg, kept)| kept.restore(*reg)));
    Ok(begin)
}

impl Canceller<'_, '_> {
    /// Puts the deadline into a register.
    pub(super) fn deadline(&self, reg: Reg) -> Vec<Insn> {
        match self.own {
            true => vec![load(reg, Reg::R10, self.at + DEADLINE)],
            false => vec![load(reg, Reg::R10, self.at), load(reg, reg, DEADLINE)],
        }
    }

    /// Reads the clock after a call of a function that has no part of this block.
    pub(super) fn look_after(&mut self, call: &Node, looks: bool, options: &Options) -> Result<(), Error> {
        let Some(known) = self.edit.facts.at(call.id) else { return Ok(()) };
        let mut held = self.edit.facts.held(call.id).cloned().unwrap_or_default();
        let is_later = call.callee().is_none();
        if options.target == Target::Vm || !looks || held.locks > 0 || is_later {
            return Ok(());
        }
        let has_result = known.live_after.contains(Reg::R0);
        for places in &mut held.places {
            places.registers = places.registers.difference(RegSet::CALLER_SAVED);
        }
        let pad = self.pad(call, &held)?;
        self.edit.frame.begin_place();
        let kept = Kept::At(self.edit.shared_slot(call.id)?);
        let end =
            self.edit.nodes([if has_result { kept.restore(Reg::R0) } else { Insn::mov_imm(Reg::R0, 0) }], call.line);
        let mut after = self.edit.nodes(has_result.then(|| kept.save(Reg::R0)), call.line);
        after.extend(self.look_at_clock(pad, end[0].id, options, call.line));
        after.extend(end);
        self.edit.follow(call.id, after);
        Ok(())
    }

    /// Reads the clock before instructions. Where a landing pad cannot release what is held, or the frame has no room, it is not
    /// read.
    pub(super) fn looks(
        &mut self,
        looks: &BTreeSet<InsnId>,
        types: Option<&Btf>,
        options: &Options,
    ) -> Result<(), Error> {
        let function = self.edit.function;
        let headers = loops::headers(function);
        for node in function.nodes.iter().filter(|node| looks.contains(&node.id)) {
            let begins_loop = headers.contains(&node.id) && !costs::is_slow(self.edit.object, node, self.edit.facts);
            let needed = self.needed_before(node, types);
            match self.look(node, needed, begins_loop, options) {
                Ok(()) | Err(Error::Unsupported { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The registers that an instruction or what follows it reads; of a call, the arguments.
    fn needed_before(&self, node: &Node, types: Option<&Btf>) -> RegSet {
        let (edit, written) = (&self.edit, self.edit.written_before(node.id));
        if let Insn::Call(_) = node.insn {
            let helper = node.helper().and_then(Helper::by_id).map(Helper::most_arguments);
            let count = helper.or_else(|| parameters_of(edit.object, types?, node)).unwrap_or(5);
            return RegSet::arguments(count).intersection(written).intersection(read_by_callee(edit, node));
        }
        let known = edit.facts.at(node.id);
        let has_value = |reg: &Reg| known.is_some_and(|known| known.registers[reg.index()] != Value::Uninit);
        let after = edit.needed_after(node.id, node.id);
        live_before(node.insn, after).iter().filter(|reg| written.contains(*reg) || has_value(reg)).collect()
    }

    fn look(&mut self, node: &Node, needed: RegSet, begins_loop: bool, options: &Options) -> Result<(), Error> {
        let held = self.edit.facts.held(node.id).cloned().unwrap_or_default();
        let released = self.registers_released(&held);
        self.edit.frame.begin_place();
        let needed = needed.union(released);
        let mut saved = Vec::new();
        for reg in needed.intersection(RegSet::CALLER_SAVED).iter() {
            saved.push((reg, Kept::At(self.edit.shared_slot(node.id)?)));
        }
        // Last, because the kernel refuses a pad that nothing leads to. It may use the slots again: it ends the function.
        let pad = self.pad(node, &held)?;
        let pad = self.counted(node, MOST_POINTS - 1, &held, pad).unwrap_or(pad);
        let expired = self.expired(&saved, &[], pad, node.line);
        let mut restore: Vec<_> = saved.iter().map(|(reg, kept)| kept.restore(*reg)).collect();
        if restore.is_empty() {
            restore.push(Insn::mov_imm(Reg::R0, 0));
        }
        let end = self.edit.nodes(restore, node.line);
        let on = end[0].id;
        let save: Vec<_> = saved.iter().map(|(reg, kept)| kept.save(*reg)).collect();
        let mut nodes = self.edit.nodes(save, node.line);
        nodes.extend(self.look_at_clock(expired, on, options, node.line));
        nodes.extend(end);
        match begins_loop {
            true => self.edit.enter_loop_with(node.id, nodes),
            false => self.edit.check(node.id, nodes),
        }
        Ok(())
    }
}

/// How many parameters a function has, by its type.
pub(super) fn parameters(types: &Btf, function: u32) -> Option<usize> {
    match types.kind(TypeId(function)) {
        Kind::Function { prototype, .. } => Some(types.parameters(*prototype).len()),
        _ => None,
    }
}

/// How many parameters the called function of the program or of the kernel has.
fn parameters_of(object: &Object, types: &Btf, call: &Node) -> Option<usize> {
    match call.reference {
        Reference::Function(id) => parameters(types, object.function(id).btf_id),
        Reference::Extern(id) => parameters(types, object.externs.get(id.index())?.btf_id),
        _ => None,
    }
}

/// The registers that a static function reads, which may be fewer than its source says; of other calls, any.
fn read_by_callee(edit: &Edit<'_>, call: &Node) -> RegSet {
    let callee = call.callee().map(|id| edit.object.function(id));
    let first = callee.filter(|callee| callee.linkage == Linkage::Static).and_then(|callee| callee.nodes.first());
    match first.and_then(|first| Some((first.insn, edit.facts.at(first.id)?))) {
        None | Some((Insn::Call(_), _)) => RegSet::ALL,
        Some((insn, known)) => live_before(insn, known.live_after),
    }
}
