//! Tail calls: the next program gets the deadline through an entry of the CPU, because nothing but the context is passed to it.
//!
//! ```text
//!   before a tail call      an entry that is free or old = { context, deadline + 1, now }
//!   where a program begins  an entry with its context, written a moment ago: the run goes on, with that deadline; the entry is free
//!                           else a run begins: now + quantum
//!   a tail call that fails  the entry is free
//! ```
//!
//! A program that interrupts this one has another context, so it begins a run of its own. It leaves this run's entry alone: each CPU
//! has four, as many as contexts that interrupt each other (task, softirq, hardirq, NMI).
//!
//! A tail call to a program of another object leaves an entry, and the next packet may have the same context's address a moment later.
//! So the six lowest bits of a deadline count its hand-overs: the kernel makes no more than 33 in a run, and an entry with more is old. The
//! next packets then lose 33 moments of their quantum at most.

use kiln_isa::{AluOp, CallTarget, Imm64, Insn, JumpOp, Reg, RegSet, Source, Width};
use kiln_platform::helper_id;
use kiln_program::{FunctionId, MapId, Node, Object, Reference};

use super::canceller::{Canceller, DEADLINE, Kept};
use super::counted::{HANDOVERS, MOST_POINTS};
use super::tick::KTIME_GET_NS;
use crate::error::Error;
use crate::frame::{load, store};
use crate::options::Options;
use crate::rebuild::Edit;

const GET_SMP_PROCESSOR_ID: u32 = 8;
/// CPUs that have entries of their own, `KILN_HANDOVERS`; and the bits of a CPU's bytes.
const CPUS: i32 = 64;
const CPU_BITS: i32 = 7;
/// Entries of a CPU, and their bytes.
const ENTRIES: usize = 4;
const ENTRY_BYTES: i32 = 32;
const CONTEXT: i16 = 0;
const DEADLINE_IN_ENTRY: i16 = 8;
const TIME: i16 = 16;
/// Nanoseconds between a tail call and the next program's begin. After that, the entry is one that a program of another object left.
const MOMENT_NS: i32 = 50_000;
/// The bits of a deadline that count hand-overs, and how many the kernel makes in a run.
const COUNT: i32 = 63;
const MOST_HANDOVERS: i32 = 33;

pub(super) fn is_tail_call(node: &Node) -> bool {
    node.helper() == Some(helper_id::TAIL_CALL)
}

/// The functions that make tail calls themselves.
pub(super) fn callers(object: &Object) -> impl Iterator<Item = FunctionId> {
    let calls = object.functions.iter().enumerate().filter(|(_, function)| function.nodes.iter().any(is_tail_call));
    calls.map(|(at, _)| FunctionId(at as u32))
}

fn alu(op: AluOp, dst: Reg, src: Source) -> Insn {
    Insn::Alu { op, width: Width::W64, dst, src }
}

fn ktime() -> Insn {
    Insn::Call(CallTarget::Helper(KTIME_GET_NS))
}

pub(super) fn branch(edit: &mut Edit<'_>, op: JumpOp, dst: Reg, src: Source, to: &Node) -> Node {
    let branch = Insn::Branch { op, width: Width::W64, dst, src, offset: 0 };
    edit.node(branch, Reference::Branch(to.id), to.line)
}

/// Puts the address of the CPU's entries into R1.
pub(super) fn entries(edit: &mut Edit<'_>, map: MapId, like: &Node) -> Vec<Node> {
    let number = [
        Insn::Call(CallTarget::Helper(GET_SMP_PROCESSOR_ID)),
        alu(AluOp::And, Reg::R0, Source::Imm(CPUS - 1)),
        alu(AluOp::Lsh, Reg::R0, Source::Imm(CPU_BITS)),
    ];
    let mut nodes = edit.nodes(number, like.line);
    let place = Reference::MapValue { map, offset: HANDOVERS };
    nodes.push(edit.node(Node::address_load(Reg::R1), place, like.line));
    nodes.extend(edit.nodes([alu(AluOp::Add, Reg::R1, Source::Reg(Reg::R0))], like.line));
    nodes
}

/// Sets the deadline of a block at `at`, where a program begins: the run's, if it came by a tail call.
pub(super) fn begin(edit: &mut Edit<'_>, map: MapId, at: i16, options: &Options) -> Result<Vec<Node>, Error> {
    edit.frame.begin_place();
    let Some(first) = edit.function.nodes.first() else { return Ok(Vec::new()) };
    let line = first.line;
    let (context, now) = (edit.shared_slot(first.id)?, edit.shared_slot(first.id)?);
    let set = edit.nodes([store(Reg::R10, at + DEADLINE, Reg::R0), load(Reg::R1, Reg::R10, context)], line);
    let quantum = Insn::LoadImm64 { dst: Reg::R1, imm: Imm64::Value(options.quantum_ns) };
    let add = alu(AluOp::Add, Reg::R0, Source::Reg(Reg::R1));
    let uncounted = alu(AluOp::And, Reg::R0, Source::Imm(!COUNT));
    let fresh = edit.nodes([load(Reg::R0, Reg::R10, now), quantum, add, uncounted], line);
    let jump = |edit: &mut Edit<'_>, to: &Node| {
        edit.node(Insn::Jump { offset: 0, long: false }, Reference::Branch(to.id), line)
    };
    let take = [
        store(Reg::R1, CONTEXT, 0),
        load(Reg::R0, Reg::R10, now),
        load(Reg::R2, Reg::R1, TIME),
        alu(AluOp::Sub, Reg::R0, Source::Reg(Reg::R2)),
    ];
    let mut found = edit.nodes(take, line);
    found.push(branch(edit, JumpOp::Gt, Reg::R0, Source::Imm(MOMENT_NS), &fresh[0]));
    let count = [
        load(Reg::R0, Reg::R1, DEADLINE_IN_ENTRY),
        Insn::mov(Reg::R1, Reg::R0),
        alu(AluOp::And, Reg::R1, Source::Imm(COUNT)),
    ];
    found.extend(edit.nodes(count, line));
    found.push(branch(edit, JumpOp::Gt, Reg::R1, Source::Imm(MOST_HANDOVERS), &fresh[0]));
    found.push(jump(edit, &set[0]));
    let mut nodes = edit.nodes([store(Reg::R10, context, Reg::R1), ktime(), store(Reg::R10, now, Reg::R0)], line);
    nodes.extend(entries(edit, map, first));
    nodes.extend(edit.nodes([load(Reg::R2, Reg::R10, context)], line));
    for entry in 0..ENTRIES {
        if entry > 0 {
            nodes.extend(edit.nodes([alu(AluOp::Add, Reg::R1, Source::Imm(ENTRY_BYTES))], line));
        }
        nodes.extend(edit.nodes([load(Reg::R0, Reg::R1, CONTEXT)], line));
        nodes.push(branch(edit, JumpOp::Eq, Reg::R0, Source::Reg(Reg::R2), &found[0]));
    }
    nodes.push(jump(edit, &fresh[0]));
    nodes.extend(found);
    nodes.extend(fresh);
    nodes.extend(set);
    Ok(nodes)
}

impl Canceller<'_, '_> {
    /// Gives the deadline to the next program at each tail call.
    pub(super) fn tail_calls(&mut self, map: MapId, options: &Options) -> Result<(), Error> {
        let function = self.edit.function;
        for node in function.nodes.iter().filter(|node| is_tail_call(node)) {
            if self.edit.facts.at(node.id).is_some() {
                self.hand_over(node, map, options)?;
            }
        }
        Ok(())
    }

    fn hand_over(&mut self, node: &Node, map: MapId, options: &Options) -> Result<(), Error> {
        let held = self.edit.facts.held(node.id).cloned().unwrap_or_default();
        let pad = self.pad(node, &held)?;
        let pad = self.counted(node, MOST_POINTS - 1, &held, pad)?;
        self.edit.frame.begin_place();
        let mut saved = Vec::new();
        for reg in RegSet::arguments(3).iter() {
            saved.push((reg, Kept::At(self.edit.shared_slot(node.id)?)));
        }
        let (now, entry) = (self.edit.shared_slot(node.id)?, self.edit.shared_slot(node.id)?);
        let line = node.line;
        let expired = self.expired(&saved, &[], pad, line);
        let write_time = self.edit.nodes([ktime(), store(Reg::R10, now, Reg::R0)], line);
        let save: Vec<_> = saved.iter().map(|(reg, kept)| kept.save(*reg)).collect();
        let mut nodes = self.edit.nodes(save, line);
        nodes.extend(self.look_at_clock(expired, write_time[0].id, options, line));
        nodes.extend(write_time);
        nodes.extend(entries(self.edit, map, node));
        nodes.extend(self.edit.nodes([saved[0].1.restore(Reg::R2), load(Reg::R3, Reg::R10, now)], line));
        let mut write = vec![store(Reg::R10, entry, Reg::R1), store(Reg::R1, TIME, Reg::R3)];
        write.extend(self.deadline(Reg::R4));
        write.push(alu(AluOp::Add, Reg::R4, Source::Imm(1)));
        write.extend([store(Reg::R1, DEADLINE_IN_ENTRY, Reg::R4), store(Reg::R1, CONTEXT, Reg::R2)]);
        write.extend(saved.iter().map(|(reg, kept)| kept.restore(*reg)));
        let write = self.edit.nodes(write, line);
        for _ in 1..ENTRIES {
            let edit = &mut *self.edit;
            nodes.extend(edit.nodes([load(Reg::R0, Reg::R1, CONTEXT)], line));
            nodes.push(branch(edit, JumpOp::Eq, Reg::R0, Source::Imm(0), &write[0]));
            nodes.push(branch(edit, JumpOp::Eq, Reg::R0, Source::Reg(Reg::R2), &write[0]));
            let age = [
                Insn::mov(Reg::R0, Reg::R3),
                load(Reg::R4, Reg::R1, TIME),
                alu(AluOp::Sub, Reg::R0, Source::Reg(Reg::R4)),
            ];
            nodes.extend(edit.nodes(age, line));
            nodes.push(branch(edit, JumpOp::Gt, Reg::R0, Source::Imm(MOMENT_NS), &write[0]));
            nodes.extend(edit.nodes([alu(AluOp::Add, Reg::R1, Source::Imm(ENTRY_BYTES))], line));
        }
        nodes.extend(write);
        self.edit.guard(node.id, nodes);
        let failed = self.edit.nodes([load(Reg::R1, Reg::R10, entry), store(Reg::R1, CONTEXT, 0)], line);
        self.edit.follow(node.id, failed);
        Ok(())
    }

    /// Whether a call may end in a program that a function it calls went on with.
    pub(super) fn may_go_on(&self, callee: FunctionId) -> bool {
        let functions = self.edit.object.reachable_functions(callee);
        functions.iter().any(|id| self.edit.object.function(*id).nodes.iter().any(is_tail_call))
    }
}
