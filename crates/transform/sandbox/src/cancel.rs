//! Cancellation: a deadline per invocation, checked in every loop, and landing pads that release what is held.
//!
//! An invocation has one block of 24 bytes in the entry's stack frame. Subprograms get its address in an argument register that
//! they do not use, so that the loops of callees count against the same deadline:
//!
//! ```text
//!   +0   iterations so far, from an unknown start: only every 1024th looks at the clock
//!   +8   the deadline in nanoseconds of bpf_ktime_get_ns, 0 until the first look
//!   +16  whether a callee was cancelled: its caller goes to a landing pad of its own, which releases what it holds
//! ```
//!
//! The iteration count starts with whatever the stack holds: with a known start, the verifier would explore every
//! iteration. `may_goto` is needed by the verifier too, and it bounds loops in which nothing may be called.

use std::collections::{BTreeMap, BTreeSet};

use kiln_isa::{Address, AluOp, CallTarget, Imm64, Insn, JumpOp, Reg, RegSet, Source, Width};
use kiln_platform::ProgramType;
use kiln_program::{FunctionId, InsnId, LineId, Linkage, Node, Object, Reference};
use kiln_verifier::{Held, Value};

use crate::error::Error;
use crate::evidence::Point;
use crate::frame::{free_register, load, store};
use crate::options::Options;
use crate::probe::Probe;
use crate::rebuild::Edit;

/// The clock is read once in this many iterations.
const ITERATIONS: i32 = 1024;
const KTIME_GET_NS: u32 = 5;
const DEADLINE: i16 = 8;
const CANCELLED: i16 = 16;
const BLOCK_SLOTS: usize = 3;

/// Helpers that acquire a reference, and the helper that releases it: number, name, and whether it takes flags.
const RELEASES: [(u32, u32, &str, bool); 4] = [
    (84, 86, "bpf_sk_release", false),
    (85, 86, "bpf_sk_release", false),
    (99, 86, "bpf_sk_release", false),
    (131, 133, "bpf_ringbuf_discard", true),
];

/// Where a function has the invocation's block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Block {
    /// In its own frame.
    Own,
    /// In its caller's, whose address comes in this register.
    From(Reg),
}

/// Which functions can be cancelled, and where they have the block.
pub(crate) struct Plan {
    blocks: BTreeMap<FunctionId, Block>,
    callbacks: BTreeSet<FunctionId>,
}

impl Plan {
    pub(crate) fn new(object: &Object, probe: &Probe, options: &Options) -> Plan {
        let _ = options;
        let mut cancelled: BTreeSet<FunctionId> =
            probe.points.iter().filter(|(_, points)| !points.is_empty()).map(|(id, _)| *id).collect();
        let all = || (0..object.functions.len()).map(|at| FunctionId(at as u32));
        let callees = |id: FunctionId| object.function(id).nodes.iter().filter_map(Node::callee);
        let mut grows = true;
        while grows {
            let callers: Vec<_> =
                all().filter(|id| !cancelled.contains(id) && callees(*id).any(|to| cancelled.contains(&to))).collect();
            grows = !callers.is_empty();
            // A caller without loops only passes its callee's cancellation on.
            cancelled.extend(callers);
        }
        let nodes = || object.functions.iter().flat_map(|function| &function.nodes);
        let callbacks: BTreeSet<FunctionId> = nodes()
            .filter_map(|node| match (node.insn, node.reference) {
                (Insn::LoadImm64 { .. }, Reference::Function(id)) => Some(id),
                _ => None,
            })
            .collect();
        let block = |id: FunctionId| {
            let function = object.function(id);
            let is_entry = object.programs.iter().any(|program| program.entry == id);
            if is_entry || callbacks.contains(&id) || function.linkage != Linkage::Static {
                return Block::Own;
            }
            unused_argument(object, id, probe).map_or(Block::Own, Block::From)
        };
        Plan { blocks: cancelled.iter().map(|id| (*id, block(*id))).collect(), callbacks }
    }
}

/// The last argument register that a function does not read.
fn unused_argument(object: &Object, id: FunctionId, probe: &Probe) -> Option<Reg> {
    let first = object.function(id).nodes.first()?;
    let known = probe.facts.at(first.id)?;
    let mut live = match first.insn {
        Insn::Call(_) => RegSet::ALL,
        insn => known.live_after.difference(insn.written().into_iter().collect()),
    };
    live = live.union(first.insn.read());
    RegSet::arguments(5).difference(live).iter().next_back()
}

/// One function being made cancellable.
struct Canceller<'e, 'a> {
    edit: &'e mut Edit<'a>,
    plan: &'e Plan,
    block: Block,
    /// The block's place in the own frame, or where the own frame keeps its address.
    at: i16,
    /// Landing pads by what they release.
    pads: Vec<(Held, InsnId)>,
    cancelled_return: i32,
}

/// Makes a function's loops cancellable.
pub(crate) fn insert(edit: &mut Edit<'_>, plan: &Plan, probe: &Probe, options: &Options) -> Result<Vec<Point>, Error> {
    let Some(block) = plan.blocks.get(&edit.id).copied() else { return Ok(Vec::new()) };
    let mut at = edit.slot()?;
    let first = edit.function.nodes.first().and_then(|node| node.line);
    let enter = match block {
        Block::Own => {
            for _ in 1..BLOCK_SLOTS {
                at = edit.slot()?;
            }
            [store(Reg::R10, at + DEADLINE, 0), store(Reg::R10, at + CANCELLED, 0)].to_vec()
        }
        Block::From(reg) => [store(Reg::R10, at, reg)].to_vec(),
    };
    let enter = edit.nodes(enter, first);
    edit.enter_with(enter);
    let cancelled_return = cancelled_return(edit.object, edit.id, plan, options);
    let mut canceller = Canceller { edit, plan, block, at, pads: Vec::new(), cancelled_return };
    canceller.calls()?;
    let function = canceller.edit.function;
    let own = probe.points.get(&canceller.edit.id);
    let mut points = Vec::new();
    for node in function.nodes.iter().filter(|node| own.is_some_and(|own| own.contains(&node.id))) {
        points.push(canceller.point(node, probe, options)?);
    }
    Ok(points)
}

/// The return value of a cancelled function; for an entry, the hook's value for "continue as if there were no program".
fn cancelled_return(object: &Object, id: FunctionId, plan: &Plan, options: &Options) -> i32 {
    if plan.callbacks.contains(&id) {
        // Ends the helper's loop.
        return 1;
    }
    let Some(program) = object.programs.iter().find(|program| program.entry == id) else { return 0 };
    options.cancelled_return.unwrap_or_else(|| program.program_type.map_or(0, default_return))
}

/// The return value of a cancelled program: packets pass, security hooks deny.
pub(crate) fn default_return(program_type: ProgramType) -> i32 {
    const XDP_PASS: i32 = 2;
    const EPERM: i32 = 1;
    match program_type {
        ProgramType::Xdp => XDP_PASS,
        // SK_PASS, NF_ACCEPT, and 1 for "allowed".
        ProgramType::SkSkb
        | ProgramType::SkMsg
        | ProgramType::SkLookup
        | ProgramType::SkReuseport
        | ProgramType::Netfilter
        | ProgramType::CgroupSkb
        | ProgramType::CgroupSock
        | ProgramType::CgroupSockAddr
        | ProgramType::CgroupSockopt
        | ProgramType::CgroupSysctl => 1,
        ProgramType::CgroupDevice => 0,
        ProgramType::Lsm => -EPERM,
        // TC_ACT_OK; tracing programs.
        _ => 0,
    }
}

impl Canceller<'_, '_> {
    /// Passes the block to callees that need it, and checks afterwards whether they were cancelled.
    fn calls(&mut self) -> Result<(), Error> {
        for node in &self.edit.function.nodes {
            let Some(Block::From(reg)) = node.callee().and_then(|callee| self.plan.blocks.get(&callee)) else {
                continue;
            };
            let pass = match self.block {
                Block::Own => vec![
                    Insn::mov(*reg, Reg::R10),
                    Insn::Alu { op: AluOp::Add, width: Width::W64, dst: *reg, src: Source::Imm(self.at.into()) },
                ],
                Block::From(_) => vec![load(*reg, Reg::R10, self.at)],
            };
            let pass = self.edit.nodes(pass, node.line);
            self.edit.guard(node.id, pass);
            let mut held = self.edit.facts.held(node.id).cloned().unwrap_or_default();
            for places in &mut held.places {
                places.registers = places.registers.difference(RegSet::CALLER_SAVED);
            }
            let pad = self.pad(node, &held)?;
            let look = match self.block {
                Block::Own => vec![load(Reg::R1, Reg::R10, self.at + CANCELLED)],
                Block::From(_) => vec![load(Reg::R1, Reg::R10, self.at), load(Reg::R1, Reg::R1, CANCELLED)],
            };
            let mut after = self.edit.nodes(look, node.line);
            after.push(self.branch(JumpOp::Ne, Reg::R1, Source::Imm(0), pad, node.line));
            self.edit.follow(node.id, after);
        }
        Ok(())
    }

    fn branch(&mut self, op: JumpOp, dst: Reg, src: Source, target: InsnId, line: Option<LineId>) -> Node {
        self.edit.node(Insn::Branch { op, width: Width::W64, dst, src, offset: 0 }, Reference::Branch(target), line)
    }

    fn jump(&mut self, target: InsnId, line: Option<LineId>) -> Node {
        self.edit.node(Insn::Jump { offset: 0, long: false }, Reference::Branch(target), line)
    }

    /// A cancellation point before the first instruction of a loop.
    fn point(&mut self, header: &Node, probe: &Probe, options: &Options) -> Result<Point, Error> {
        let stand_in = probe.stand_ins.get(&header.id).copied().unwrap_or(header.id);
        let held = probe.facts.held(stand_in).cloned().unwrap_or_default();
        if held.locks > 0 {
            return Err(self.edit.unsupported(
                Some(header.id),
                "a loop under a kernel lock (bpf_spin_lock, bpf_res_spin_lock) cannot be cancelled yet; bound it, or use kiln_spin_lock",
            ));
        }
        let live = self.edit.needed_after(stand_in, header.id);
        let pad = self.pad(header, &held)?;
        let may_goto = self.edit.node(Insn::MayGoto { offset: 0 }, Reference::Branch(pad), header.line);
        let mut nodes = vec![may_goto];
        nodes.extend(self.tick(header, live, pad, options)?);
        self.edit.check(header.id, nodes);
        if probe.forgetful.get(&self.edit.id).is_some_and(|own| own.contains(&header.id)) {
            self.hide_numbers(header, stand_in, live)?;
        }
        let line = self.edit.object.line(header).map(|line| format!("{}:{}", line.file, line.line));
        let releases = held.references.iter().rev().filter_map(|at| self.release(*at)).map(|found| found.2.to_owned());
        Ok(Point { insn: header.id.0, line, releases: releases.collect(), has_deadline: true })
    }

    /// Makes the numbers unknown to the verifier that change in a loop, where it is entered: `r ^= x; r ^= x` with an
    /// unknown `x`, the iteration count. With a known start, the verifier would explore every iteration.
    fn hide_numbers(&mut self, header: &Node, stand_in: InsnId, live: RegSet) -> Result<(), Error> {
        let (registers, slots) = self.changing_numbers(header, stand_in, live);
        if registers.is_empty() && slots.is_empty() {
            return Ok(());
        }
        self.edit.frame.begin_place();
        let mut busy = live.union(RegSet::of(&[Reg::R10]));
        let mut borrowed = Vec::new();
        let mut scratch = |this: &mut Self| -> Result<Reg, Error> {
            let taken = borrowed.iter().map(|(reg, _)| *reg).chain(registers.iter()).chain([Reg::R10]).collect();
            let none = || this.edit.unsupported(Some(header.id), "no register is free at a loop");
            let free = free_register(busy);
            let reg = free.or_else(|| free_register(taken)).ok_or_else(none)?;
            if free.is_none() {
                borrowed.push((reg, this.edit.shared_slot(header.id)?));
            }
            busy.insert(reg);
            Ok(reg)
        };
        let unknown = scratch(self)?;
        let value = if slots.is_empty() { unknown } else { scratch(self)? };
        let mut insns: Vec<Insn> = borrowed.iter().map(|(reg, slot)| store(Reg::R10, *slot, *reg)).collect();
        insns.push(load(unknown, Reg::R10, self.at));
        if let Block::From(_) = self.block {
            insns.push(load(unknown, unknown, 0));
        }
        let hide = |reg: Reg| {
            let xor = Insn::Alu { op: AluOp::Xor, width: Width::W64, dst: reg, src: Source::Reg(unknown) };
            [xor, xor]
        };
        insns.extend(registers.iter().flat_map(hide));
        for slot in slots {
            insns.push(load(value, Reg::R10, slot));
            insns.extend(hide(value));
            insns.push(store(Reg::R10, slot, value));
        }
        insns.extend(borrowed.iter().map(|(reg, slot)| load(*reg, Reg::R10, *slot)));
        let nodes = self.edit.nodes(insns, header.line);
        self.edit.enter_loop_with(header.id, nodes);
        Ok(())
    }

    /// The live registers and the stack slots with numbers that a loop changes.
    fn changing_numbers(&self, header: &Node, stand_in: InsnId, live: RegSet) -> (RegSet, Vec<i16>) {
        let function = self.edit.function;
        let Some(known) = self.edit.facts.at(stand_in) else { return (RegSet::EMPTY, Vec::new()) };
        let body = crate::loops::body(function, header.id);
        let inside = || body.iter().map(|at| function.nodes[*at].insn);
        let numbers = self.edit.numbers_before(header.id);
        let is_number = |reg: &Reg| match &known.registers[reg.index()] {
            Value::Unknown => numbers.contains(*reg),
            value => changes(value),
        };
        let registers = live.iter().filter(is_number).filter(|reg| inside().any(|insn| writes(&insn, *reg)));
        let is_stored = |slot: i16| {
            let place = Address { base: Reg::R10, offset: slot };
            inside().any(|insn| matches!(insn, Insn::Store { address, .. } if address == place))
        };
        let slots = known.stack.iter().filter(|(slot, value)| changes(value) && is_stored(**slot));
        (registers.collect(), slots.map(|(slot, _)| *slot).collect())
    }

    /// Counts an iteration, and at every 1024th jumps to the landing pad if the deadline has passed.
    fn tick(&mut self, header: &Node, live: RegSet, pad: InsnId, options: &Options) -> Result<Vec<Node>, Error> {
        self.edit.frame.begin_place();
        let line = header.line;
        let resume = self.edit.resume(header.id);
        let mut busy = live;
        busy.insert(Reg::R10);
        let mut borrowed = Vec::new();
        let mut scratch = |this: &mut Self, busy: &mut RegSet| -> Result<Reg, Error> {
            let reg = match free_register(*busy) {
                Some(reg) => reg,
                None => {
                    let taken: RegSet = borrowed.iter().map(|(reg, _)| *reg).collect();
                    let reg = free_register(taken.union(RegSet::of(&[Reg::R10]))).unwrap_or(Reg::R0);
                    borrowed.push((reg, this.edit.shared_slot(header.id)?));
                    reg
                }
            };
            busy.insert(reg);
            Ok(reg)
        };
        let counter = scratch(self, &mut busy)?;
        let base = match self.block {
            Block::Own => None,
            Block::From(_) => Some(scratch(self, &mut busy)?),
        };
        // Registers that a call destroys and the loop still needs, except those that are borrowed.
        let mut saved = Vec::new();
        for reg in live.intersection(RegSet::CALLER_SAVED).iter() {
            if !borrowed.iter().any(|(other, _)| *other == reg) {
                saved.push((reg, self.edit.shared_slot(header.id)?));
            }
        }
        let (home, offset) = base.map_or((Reg::R10, self.at), |base| (base, 0));
        let save = |registers: &[(Reg, i16)]| -> Vec<Insn> {
            registers.iter().map(|(reg, slot)| store(Reg::R10, *slot, *reg)).collect()
        };
        let restore = |registers: &[(Reg, i16)]| -> Vec<Insn> {
            registers.iter().map(|(reg, slot)| load(*reg, Reg::R10, *slot)).collect()
        };
        // The end first: every jump below leads forward to it.
        let mut end = self.edit.nodes(restore(&borrowed), line);
        let fast = end.first().map_or(resume, |node| node.id);
        let mut back = self.edit.nodes(restore(&saved), line);
        let slow_end = back.first().map_or(fast, |node| node.id);
        let expired = self.expired(&saved, &borrowed, pad, line);
        let mut nodes = self.edit.nodes(save(&borrowed), line);
        let fetch = base.map(|base| load(base, Reg::R10, self.at));
        let add = Insn::Alu { op: AluOp::Add, width: Width::W64, dst: counter, src: Source::Imm(1) };
        // The mask and the comparison are separate: otherwise the verifier would know the stored count's lower bits
        // after reading the clock, and explore the next 1023 iterations one by one.
        let mask = Insn::Alu { op: AluOp::And, width: Width::W64, dst: counter, src: Source::Imm(ITERATIONS - 1) };
        let count = [load(counter, home, offset), add, store(home, offset, counter), mask];
        nodes.extend(self.edit.nodes(fetch.into_iter().chain(count), line));
        nodes.push(self.branch(JumpOp::Ne, counter, Source::Imm(0), fast, line));
        nodes.extend(self.edit.nodes(save(&saved), line));
        nodes.extend(self.look_at_clock(expired, slow_end, options, line));
        nodes.append(&mut back);
        nodes.append(&mut end);
        Ok(nodes)
    }

    /// Reads the clock. The first time it sets the deadline. It jumps to `expired` if the deadline has passed, else to
    /// `on`, which follows.
    fn look_at_clock(&mut self, expired: InsnId, on: InsnId, options: &Options, line: Option<LineId>) -> Vec<Node> {
        let (fetch, home, offset) = match self.block {
            Block::Own => (None, Reg::R10, self.at),
            Block::From(_) => (Some(load(Reg::R2, Reg::R10, self.at)), Reg::R2, 0),
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
    fn expired(&mut self, saved: &[(Reg, i16)], borrowed: &[(Reg, i16)], pad: InsnId, line: Option<LineId>) -> InsnId {
        if saved.is_empty() && borrowed.is_empty() {
            return pad;
        }
        let restore: Vec<_> = saved.iter().chain(borrowed).map(|(reg, slot)| load(*reg, Reg::R10, *slot)).collect();
        let mut nodes = self.edit.nodes(restore, line);
        nodes.push(self.jump(pad, line));
        let first = nodes[0].id;
        self.edit.land(nodes);
        first
    }

    fn release(&self, acquired: InsnId) -> Option<&'static (u32, u32, &'static str, bool)> {
        let nodes = self.edit.object.functions.iter().flat_map(|function| &function.nodes);
        let helper = nodes.into_iter().find(|node| node.id == acquired)?.helper()?;
        RELEASES.iter().find(|row| row.0 == helper)
    }

    /// The landing pad that releases what is held, in reverse order of acquisition; its first instruction.
    fn pad(&mut self, at: &Node, held: &Held) -> Result<InsnId, Error> {
        if let Some((_, pad)) = self.pads.iter().find(|(known, _)| known == held) {
            return Ok(*pad);
        }
        self.edit.frame.begin_place();
        let line = at.line;
        let own: Vec<_> = held.references.iter().zip(&held.places).filter(|(_, places)| is_kept(places)).collect();
        let mut nodes = Vec::new();
        let mut releases = Vec::new();
        for (acquired, places) in own.iter().rev() {
            let Some((_, release, _, flags)) = self.release(**acquired) else {
                return Err(self
                    .edit
                    .unsupported(Some(at.id), "a loop holds a reference that landing pads cannot release yet"));
            };
            let from = match places.registers.difference(RegSet::CALLER_SAVED).iter().next() {
                Some(kept) => Insn::mov(Reg::R1, kept),
                None if places.slots != 0 => load(Reg::R1, Reg::R10, -8 * (places.slots.trailing_zeros() as i16 + 1)),
                None => {
                    // A call would destroy it, so it is saved in the frame until it is released.
                    let reg = places.registers.iter().next().unwrap_or(Reg::R0);
                    let slot = self.edit.shared_slot(at.id)?;
                    nodes.extend(self.edit.nodes([store(Reg::R10, slot, reg)], line));
                    load(Reg::R1, Reg::R10, slot)
                }
            };
            releases.push((from, *release, *flags, places.nullable));
        }
        let tail = self.leave(line);
        let mut next = tail[0].id;
        let mut parts = vec![tail];
        for (from, release, flags, nullable) in releases.into_iter().rev() {
            let mut part = self.edit.nodes([from], line);
            if nullable {
                part.push(self.branch(JumpOp::Eq, Reg::R1, Source::Imm(0), next, line));
            }
            let call = flags.then_some(Insn::mov_imm(Reg::R2, 0)).into_iter();
            part.extend(self.edit.nodes(call.chain([Insn::Call(CallTarget::Helper(release))]), line));
            next = part[0].id;
            parts.push(part);
        }
        nodes.extend(parts.into_iter().rev().flatten());
        let first = nodes[0].id;
        self.edit.land(nodes);
        self.pads.push((held.clone(), first));
        Ok(first)
    }

    /// Tells the caller, and returns.
    fn leave(&mut self, line: Option<LineId>) -> Vec<Node> {
        let tell = match self.block {
            Block::Own => vec![],
            Block::From(_) => vec![load(Reg::R1, Reg::R10, self.at), store(Reg::R1, CANCELLED, 1)],
        };
        let leave = [Insn::mov_imm(Reg::R0, self.cancelled_return), Insn::Exit];
        self.edit.nodes(tell.into_iter().chain(leave), line)
    }
}

/// Whether the current frame keeps a reference: a caller's is released by the caller.
fn is_kept(places: &kiln_verifier::Places) -> bool {
    places.slots != 0 || !places.registers.is_empty()
}

/// Whether a value is a number that is not the same in every iteration.
fn changes(value: &Value) -> bool {
    matches!(value, Value::Scalar(scalar) if scalar.umin != scalar.umax)
}

fn writes(insn: &Insn, reg: Reg) -> bool {
    matches!(insn, Insn::Call(_)) && RegSet::CALLER_SAVED.contains(reg) || insn.written() == Some(reg)
}
