//! Cancellation: a deadline per invocation, checked in every loop, and landing pads that release what is held.
//!
//! An invocation has one block of 24 bytes in the entry's stack frame. Subprograms get its address in an argument register that
//! they do not use, so that the loops of callees count against the same deadline:
//!
//! ```text
//!   +0   iterations so far, from an unknown start: every 1024th looks at the clock; a long one counts as several
//!   +8   the deadline in nanoseconds of bpf_ktime_get_ns, 0 until the first look
//!   +16  whether a callee was cancelled: its caller goes to a landing pad of its own, which releases what it holds
//! ```
//!
//! The iteration count starts with whatever the stack holds: with a known start, the verifier would explore every
//! iteration. `may_goto` is needed by the verifier too, and it bounds loops under a kernel lock, where nothing may be called: there
//! only the terminate word is read, which user space sets ([`counted`]).
//!
//! Global functions are verified on their own, so they get no address of another frame. They get the deadline itself, as one
//! more argument, and have a block of their own; their caller looks at the clock afterwards. A function with five arguments
//! already finds the deadline in a word of the CPU (`lent`). Programs that call such functions read the clock where they begin.
//!
//! A tail call gives the deadline to the next program (`tail`).
//!
//! The clock is also read before calls that may take long, and where a path took long ([`crate::slow`]).
//!
//! Reading order: `tick` (what a point does), `pad` and `release` (landing pads), `hide`, [`counted`].

mod canceller;
pub mod counted;
mod hide;
mod lent;
mod long;
mod pad;
mod release;
mod tail;
mod tick;

use std::collections::{BTreeMap, BTreeSet};

use kiln_isa::{AluOp, Insn, JumpOp, Reg, RegSet, Source, Width};
use kiln_platform::ProgramType;
use kiln_program::btf::{Btf, TypeId};
use kiln_program::{FunctionId, InsnId, Linkage, MapId, Node, Object, Reference};
use kiln_verifier::{Facts, Held, Section, Value};

use self::canceller::{BLOCK_SLOTS, Block, CANCELLED, Canceller, DEADLINE, PASSED, PASSED_BLOCK};
use self::tick::ITERATIONS;
use crate::callbacks::Callbacks;
use crate::error::Error;
use crate::evidence::Point;
use crate::frame::{frame_address, free_register, live_before, load, store};
use crate::loops;
use crate::options::{Options, Target};
use crate::probe::Probe;
use crate::rebuild::Edit;
use crate::slow::{self, Slow};
use crate::times::{self, Known, Times};

/// Which functions can be cancelled, and where they have the block.
pub(crate) struct Plan {
    blocks: BTreeMap<FunctionId, Block>,
    callbacks: BTreeSet<FunctionId>,
    passed: Callbacks,
    /// The word and counters that are shared with user space.
    shared: Option<MapId>,
    /// What takes time besides loops; nothing where the VM looks at its clock.
    slow: Slow,
    /// The section with slots for tail calls, in objects that make some.
    handovers: Option<MapId>,
    /// The section with a word of each CPU, in which deadlines are lent.
    words: Option<MapId>,
    /// Functions whose block is their own and whose deadline is set where they begin.
    early: BTreeSet<FunctionId>,
    /// Whether a point reads the clock.
    has_deadline: bool,
    /// Nanoseconds that a turn of each loop with a point takes at most.
    turns_ns: BTreeMap<InsnId, u64>,
    /// The object's types.
    types: Option<Btf>,
}

impl Plan {
    /// # Errors
    /// [`Error::Unsupported`] if it cannot be told which function a helper runs.
    pub(crate) fn new(object: &Object, probe: &Probe, options: &Options) -> Result<Plan, Error> {
        let target = options.target;
        let passed = Callbacks::of(object)?;
        let nodes = || object.functions.iter().flat_map(|function| &function.nodes);
        let callbacks: BTreeSet<FunctionId> = nodes()
            .filter_map(|node| match (node.insn, node.reference) {
                (Insn::LoadImm64 { .. }, Reference::Function(id)) => Some(id),
                _ => None,
            })
            .collect();
        let hands_over = tail::callers(object).next().is_some();
        let words = counted::section_with_handovers(object).filter(|_| target == Target::Linux);
        let handovers = words.filter(|_| hands_over);
        let mut turns_ns = BTreeMap::new();
        let slow = match target {
            Target::Linux => {
                let visits = &probe.visits(object, options)?;
                let slow = &slow::often_called(object, &passed, &probe.facts, !options.elide);
                let Probe { facts, points, bounded, .. } = probe;
                let most_ns = options.straight_ns();
                let (passed, hands_over) = (&passed, handovers.is_some());
                let times =
                    Times::of(Known { object, facts, passed, points, bounded, visits, slow, hands_over, most_ns });
                for (id, header) in points.iter().flat_map(|(id, own)| own.iter().map(|at| (*id, *at))) {
                    turns_ns.insert(header, times.turn_ns(id, header));
                }
                Slow::of(object, &times, slow)
            }
            Target::Vm => Slow::default(),
        };
        let mut cancelled: BTreeSet<FunctionId> =
            probe.points.iter().filter(|(_, points)| !points.is_empty()).map(|(id, _)| *id).collect();
        cancelled.extend(slow.looks.keys().chain(&slow.globals));
        if handovers.is_some() {
            cancelled.extend(tail::callers(object));
            cancelled.extend(object.programs.iter().map(|program| program.entry));
        }
        let all = || (0..object.functions.len()).map(|at| FunctionId(at as u32));
        let callees = |id: FunctionId| {
            object.function(id).nodes.iter().flat_map(|node| node.callee().into_iter().chain(passed.functions_of(node)))
        };
        // A call that may run one of several functions passes the block to all of them.
        let together = |cancelled: &BTreeSet<FunctionId>| -> Vec<FunctionId> {
            let sites = passed.sites.values().filter(|site| !site.functions.is_disjoint(cancelled));
            sites.flat_map(|site| site.functions.difference(cancelled).copied()).collect()
        };
        let mut grows = true;
        while grows {
            // A caller without loops only passes its callee's cancellation on.
            let mut more: Vec<_> =
                all().filter(|id| !cancelled.contains(id) && callees(*id).any(|to| cancelled.contains(&to))).collect();
            more.extend(together(&cancelled));
            grows = !more.is_empty();
            cancelled.extend(more);
        }
        let types = object.btf.as_deref().and_then(|bytes| Btf::parse(bytes).ok());
        let block = |id: FunctionId| {
            let function = object.function(id);
            let is_entry = object.programs.iter().any(|program| program.entry == id);
            if let Some(reg) = passed.passed_in.get(&id) {
                return Block::Through(*reg);
            }
            if is_entry || callbacks.contains(&id) {
                return Block::Own;
            }
            if function.linkage != Linkage::Static {
                return match types.as_ref().filter(|_| slow.globals.contains(&id)) {
                    Some(types) => {
                        // The kernel says which task runs to programs whose license fits its own.
                        from_caller_of_global(object, types, id, words.is_some() && object.has_gpl_license())
                    }
                    None => Block::Own,
                };
            }
            from_caller(object, id, probe)
        };
        let blocks: BTreeMap<_, _> = cancelled.iter().map(|id| (*id, block(*id))).collect();
        let is_given = |id: &FunctionId| matches!(blocks.get(id), Some(Block::Given(_) | Block::Lent));
        let own = blocks.iter().filter(|(_, block)| **block == Block::Own).map(|(id, _)| *id);
        let early: BTreeSet<_> = own.filter(|id| object.reachable_functions(*id).iter().any(is_given)).collect();
        let at_points = probe.points.values().flatten().any(|header| reads_clock(probe, *header, target));
        let has_deadline = at_points || !slow.looks.is_empty() || !slow.globals.is_empty() || handovers.is_some();
        let shared = counted::section(object);
        Ok(Plan { blocks, callbacks, passed, shared, slow, handovers, words, early, has_deadline, turns_ns, types })
    }

    /// The instructions of a function before which registers may be used: points and looks at the clock.
    pub(crate) fn places(&self, probe: &Probe, id: FunctionId) -> BTreeSet<InsnId> {
        let all = [probe.points.get(&id), self.slow.looks.get(&id)];
        all.into_iter().flatten().flatten().copied().collect()
    }

    /// The object's types, in which global functions take the deadline too.
    pub(crate) fn widened_types(&self, object: &Object) -> Option<Vec<u8>> {
        let bytes = object.btf.as_deref()?;
        let given = self.blocks.iter().filter(|(_, block)| matches!(block, Block::Given(_)));
        let functions: Vec<_> = given.map(|(id, _)| TypeId(object.function(*id).btf_id)).collect();
        let types = self.types.as_ref().filter(|_| !functions.is_empty())?;
        Some(types.with_parameter(bytes, &functions, "kiln_deadline"))
    }
}

/// Whether the point before a loop reads the clock. Nothing may be called under a lock, and the VM has a clock of its own.
/// Where no path leads, the kernel's verifier may still go: `may_goto` alone destroys no register.
fn reads_clock(probe: &Probe, header: InsnId, target: Target) -> bool {
    target == Target::Linux && times::may_look(&probe.facts, probe.stand_in(header))
}

/// How a global function gets the deadline: in the register of one more argument; if it has five, in a word of the CPU, where there
/// are such words.
fn from_caller_of_global(object: &Object, types: &Btf, id: FunctionId, has_words: bool) -> Block {
    let Some(count) = long::parameters(types, object.function(id).btf_id) else { return Block::Own };
    match RegSet::arguments(5).iter().nth(count) {
        Some(free) => Block::Given(free),
        None if has_words => Block::Lent,
        None => Block::Own,
    }
}

/// How a function gets its caller's block: in the last argument register that it does not read, or with the last argument.
fn from_caller(object: &Object, id: FunctionId, probe: &Probe) -> Block {
    const LAST: Reg = Reg::R5;
    let reached = object.function(id).nodes.first().and_then(|first| Some((first, probe.facts.at(first.id)?)));
    let Some((first, known)) = reached else { return Block::Own };
    // A call reads arguments that every caller gives, and no others.
    let given = || Reg::all().filter(|reg| known.registers[reg.index()] != Value::Uninit).collect();
    let live: RegSet = match first.insn {
        Insn::Call(_) => given(),
        insn => live_before(insn, known.live_after),
    };
    match RegSet::arguments(5).difference(live).iter().next_back() {
        Some(unused) => Block::From(unused),
        None if is_given(object, id, LAST, &probe.facts) => Block::Through(LAST),
        None => Block::Own,
    }
}

/// Whether every call of a function gives it an argument: a call before may have destroyed the register.
fn is_given(object: &Object, id: FunctionId, argument: Reg, facts: &Facts) -> bool {
    let mut calls = object.functions.iter().flat_map(|caller| &caller.nodes).filter(|node| node.callee() == Some(id));
    calls.all(|node| facts.at(node.id).is_some_and(|known| known.registers[argument.index()] != Value::Uninit))
}

/// Makes a function's loops cancellable; the points, the first of which has the number `number`.
pub(crate) fn insert(
    edit: &mut Edit<'_>,
    plan: &Plan,
    probe: &Probe,
    options: &Options,
    number: usize,
) -> Result<Vec<Point>, Error> {
    let Some(block) = plan.blocks.get(&edit.id).copied() else { return Ok(Vec::new()) };
    let mut at = edit.slot()?;
    let first = edit.function.nodes.first().and_then(|node| node.line);
    let is_entry = edit.object.programs.iter().any(|program| program.entry == edit.id);
    let (mut handed_over, mut lent) = (None, None);
    let enter = match block {
        Block::Own | Block::Given(_) | Block::Lent => {
            for _ in 1..BLOCK_SLOTS {
                at = edit.slot()?;
            }
            let mut enter = vec![store(Reg::R10, at + CANCELLED, 0)];
            if let Block::Given(reg) = block {
                enter.push(store(Reg::R10, at + DEADLINE, reg));
            } else if block == Block::Lent {
                lent = plan.words;
            } else if let Some(map) = plan.handovers.filter(|_| is_entry) {
                handed_over = Some(map);
            } else if plan.early.contains(&edit.id) {
                enter.extend(long::begin(edit, at, options)?);
            } else if plan.has_deadline {
                // It is 0, which the verifier does not know: it would explore all code twice, without a deadline and with one.
                let zero = Insn::Alu { op: AluOp::Xor, width: Width::W64, dst: Reg::R0, src: Source::Reg(Reg::R0) };
                enter.extend([load(Reg::R0, Reg::R10, at), zero, store(Reg::R10, at + DEADLINE, Reg::R0)]);
            }
            enter
        }
        Block::From(reg) => [store(Reg::R10, at, reg)].to_vec(),
        Block::Through(reg) => {
            [load(Reg::R0, reg, PASSED_BLOCK), store(Reg::R10, at, Reg::R0), load(reg, reg, PASSED)].to_vec()
        }
    };
    let mut enter = edit.nodes(enter, first);
    if let Some(map) = handed_over {
        enter.extend(tail::begin(edit, map, at, options)?);
    }
    if let Some(map) = lent {
        enter.extend(lent::begin(edit, map, at, options)?);
    }
    edit.enter_with(enter);
    let cancelled_return = cancelled_return(edit, plan, options)?;
    detach(edit, plan, options, cancelled_return);
    let (locks, shared) = (BTreeMap::new(), plan.shared);
    let counts_runs = options.detach_after.is_some();
    let pads = Vec::new();
    let own = matches!(block, Block::Own | Block::Given(_) | Block::Lent);
    let mut canceller = Canceller { edit, own, at, pads, locks, shared, counts_runs, cancelled_return };
    canceller.keep_locks(plan, probe)?;
    canceller.calls(plan, options)?;
    if let Some(looks) = plan.slow.looks.get(&canceller.edit.id) {
        canceller.looks(looks, plan.types.as_ref(), options)?;
    }
    if let Some(map) = plan.handovers {
        canceller.tail_calls(map, options)?;
    }
    let function = canceller.edit.function;
    let headers = probe.points.get(&canceller.edit.id);
    let mut points = Vec::new();
    for node in function.nodes.iter().filter(|node| headers.is_some_and(|own| own.contains(&node.id))) {
        points.push(canceller.point(node, plan, probe, options, number + points.len())?);
    }
    Ok(points)
}

/// In how many iterations of a loop the clock is read once, if each takes as long as it may.
fn iterations(object: &Object, id: FunctionId, header: InsnId, plan: &Plan, unseen_ns: u64) -> i32 {
    let (_, called) = loops::inside(object, id, header);
    if called.iter().any(|callee| plan.blocks.get(callee) == Some(&Block::Own)) {
        // It has a deadline of its own.
        return 1;
    }
    let turn_ns = plan.turns_ns.get(&header).copied().unwrap_or(0).max(1);
    let most = (unseen_ns / turn_ns).clamp(1, ITERATIONS as u64);
    1 << most.ilog2()
}

/// The return value of a cancelled function; for an entry, the hook's value for "continue as if there were no program". It is one
/// that the kernel takes.
///
/// # Errors
/// [`Error::Unsupported`] if the kernel does not take the value that the user chose.
fn cancelled_return(edit: &Edit<'_>, plan: &Plan, options: &Options) -> Result<i32, Error> {
    let allowed = edit.facts.results(edit.id);
    let program = edit.object.programs.iter().find(|program| program.entry == edit.id);
    let usual = match program {
        Some(program) => program.program_type.map_or(0, default_return),
        // Ends the helper's loop.
        None => i32::from(plan.callbacks.contains(&edit.id)),
    };
    let nearest = allowed.map_or(usual.into(), |(lowest, highest)| i64::from(usual).max(lowest).min(highest)) as i32;
    match (options.cancelled_return.filter(|_| program.is_some()), allowed) {
        (Some(chosen), Some((lowest, highest))) if !(lowest..=highest).contains(&chosen.into()) => Err(edit
            .unsupported(
                None,
                format!("a cancelled run cannot return {chosen}: the hook takes {lowest} to {highest}"),
            )),
        (chosen, _) => Ok(chosen.unwrap_or(nearest)),
    }
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
    fn calls(&mut self, plan: &Plan, options: &Options) -> Result<(), Error> {
        let mut passed = None;
        for node in &self.edit.function.nodes {
            let site = plan.passed.sites.get(&node.id);
            let callee = node.callee().or_else(|| site?.functions.first().copied());
            let pass = match callee.and_then(|callee| plan.blocks.get(&callee)) {
                None => continue,
                Some(Block::Own) => {
                    self.look_after(node, plan.has_deadline, options)?;
                    continue;
                }
                Some(Block::Given(reg)) => {
                    let given = self.deadline(*reg);
                    let given = self.edit.nodes(given, node.line);
                    self.edit.guard(node.id, given);
                    self.look_after(node, plan.has_deadline, options)?;
                    continue;
                }
                Some(Block::Lent) => {
                    if let Some(map) = plan.words {
                        self.lend(node, map)?;
                    }
                    self.look_after(node, plan.has_deadline, options)?;
                    continue;
                }
                Some(Block::From(reg)) => self.block_address(*reg),
                Some(Block::Through(reg)) => {
                    let argument = site.map_or(*reg, |site| site.argument);
                    let at = match passed {
                        Some(at) => at,
                        None => *passed.insert(self.edit.slot().and(self.edit.slot())?),
                    };
                    let mut pass = self.block_address(Reg::R0);
                    pass.extend([store(Reg::R10, at + PASSED_BLOCK, Reg::R0), store(Reg::R10, at + PASSED, argument)]);
                    pass.extend(frame_address(argument, at));
                    pass
                }
            };
            let pass = self.edit.nodes(pass, node.line);
            self.edit.guard(node.id, pass);
            let mut held = self.edit.facts.held(node.id).cloned().unwrap_or_default();
            for places in &mut held.places {
                places.registers = places.registers.difference(RegSet::CALLER_SAVED);
            }
            let pad = self.pad(node, &held)?;
            let look = match self.own {
                true => vec![load(Reg::R1, Reg::R10, self.at + CANCELLED)],
                false => vec![load(Reg::R1, Reg::R10, self.at), load(Reg::R1, Reg::R1, CANCELLED)],
            };
            let mut after = self.edit.nodes(look, node.line);
            after.push(self.branch(JumpOp::Ne, Reg::R1, Source::Imm(0), pad, node.line));
            self.edit.follow(node.id, after);
            if plan.handovers.is_some() && node.callee().is_some_and(|callee| self.may_go_on(callee)) {
                self.look_after(node, plan.has_deadline, options)?;
            }
        }
        Ok(())
    }

    /// Puts the block's address into a register.
    fn block_address(&self, reg: Reg) -> Vec<Insn> {
        match self.own {
            true => frame_address(reg, self.at).to_vec(),
            false => vec![load(reg, Reg::R10, self.at)],
        }
    }

    /// Stores the addresses of the kernel locks that are held at points and calls, before they are taken.
    fn keep_locks(&mut self, plan: &Plan, probe: &Probe) -> Result<(), Error> {
        let function = self.edit.function;
        let points = probe.points.get(&self.edit.id).into_iter().flatten();
        let points = points.map(|at| probe.stand_in(*at));
        let is_call = |node: &&Node| node.callee().is_some() || plan.passed.sites.contains_key(&node.id);
        let calls = function.nodes.iter().filter(is_call).map(|node| node.id);
        let held = points.chain(calls).filter_map(|at| probe.facts.held(at));
        let begun = held.flat_map(|held| &held.begun).filter(|begun| begun.what == Section::Lock);
        let taken: BTreeSet<InsnId> = begun.map(|begun| begun.insn).collect();
        for node in function.nodes.iter().filter(|node| taken.contains(&node.id)) {
            let slot = self.edit.slot()?;
            let keep = self.edit.nodes([store(Reg::R10, slot, Reg::R1)], node.line);
            self.edit.guard(node.id, keep);
            self.locks.insert(node.id, slot);
        }
        Ok(())
    }

    /// A cancellation point before the first instruction of a loop.
    fn point(
        &mut self,
        header: &Node,
        plan: &Plan,
        probe: &Probe,
        options: &Options,
        number: usize,
    ) -> Result<Point, Error> {
        let stand_in = probe.stand_in(header.id);
        let held = probe.facts.held(stand_in).cloned().unwrap_or_default();
        let live = self.edit.needed_after(stand_in, header.id);
        // Where no register that the loop needs is, there may be one that the landing pad needs.
        let released = self.registers_released(&held);
        let pad = self.pad(header, &held)?;
        let pad = self.counted(header, number, &held, pad)?;
        if waits_for_its_end(header)
            && let Some(reg) = free_register(released.union(RegSet::of(&[Reg::R10])))
        {
            // Of the branch, the kernel wants to see both ends.
            let mut nodes = self.edit.nodes([Insn::mov_imm(reg, 0)], header.line);
            nodes.push(self.branch(JumpOp::Eq, reg, Source::Imm(0), pad, header.line));
            self.edit.check(header.id, nodes);
            return Ok(self.told(header, number, &held, options));
        }
        let may_goto = self.edit.node(Insn::MayGoto { offset: 0 }, Reference::Branch(pad), header.line);
        let mut nodes = vec![may_goto];
        let (under_lock, forced) = (held.locks > 0, options.forced == Some(number));
        let hidden = if options.hide { self.hidden_numbers(header, stand_in, live, released)? } else { Vec::new() };
        let polls = under_lock && options.target == Target::Linux && options.forced.is_none();
        let polled = self.shared.filter(|_| forced || polls);
        match polled {
            Some(map) => nodes.extend(self.poll(header, live.union(released), pad, map)?),
            None if !reads_clock(probe, header.id, options.target) => {}
            None => {
                let (object, id) = (self.edit.object, self.edit.id);
                let iterations = iterations(object, id, header.id, plan, options.unseen_ns());
                let resume = hidden.first().map_or_else(|| self.edit.resume(header.id), |node| node.id);
                nodes.extend(self.tick(header, [live, released], [pad, resume], iterations, options)?);
            }
        }
        nodes.extend(hidden);
        if !options.hide && probe.forgetful.get(&self.edit.id).is_some_and(|own| own.contains(&header.id)) {
            let hidden = self.hidden_numbers(header, stand_in, live, released)?;
            self.edit.enter_loop_with(header.id, hidden);
        }
        self.edit.check(header.id, nodes);
        Ok(self.told(header, number, &held, options))
    }

    fn told(&self, header: &Node, number: usize, held: &Held, options: &Options) -> Point {
        let line = self.edit.object.line(header).map(|line| format!("{}:{}", line.file, line.line));
        let has_deadline = held.locks == 0 || options.target == Target::Vm;
        Point { insn: header.id.0, number, line, releases: self.releases(held), has_deadline }
    }
}

/// Whether a loop is a jump to itself. It would only wait for the end of its quantum, so it is cancelled at once.
fn waits_for_its_end(header: &Node) -> bool {
    matches!((header.insn, header.reference), (Insn::Jump { .. }, Reference::Branch(target)) if target == header.id)
}

/// A program that was cancelled too often returns at once.
fn detach(edit: &mut Edit<'_>, plan: &Plan, options: &Options, value: i32) {
    let (Some(most), Some(map)) = (options.detach_after, plan.shared) else { return };
    let (Some(first), true) =
        (edit.function.nodes.first(), edit.object.programs.iter().any(|program| program.entry == edit.id))
    else {
        return;
    };
    let line = first.line;
    let count = Reference::MapValue { map, offset: counted::RUNS };
    let mut nodes = vec![edit.node(Node::address_load(Reg::R0), count, line)];
    nodes.extend(edit.nodes([load(Reg::R0, Reg::R0, 0)], line));
    let most = Source::Imm(i32::try_from(most).unwrap_or(i32::MAX));
    let often = Insn::Branch { op: JumpOp::Ge, width: Width::W64, dst: Reg::R0, src: most, offset: 0 };
    let leave = edit.nodes([Insn::mov_imm(Reg::R0, value), Insn::Exit], line);
    nodes.push(edit.node(often, Reference::Branch(leave[0].id), line));
    edit.enter_with(nodes);
    edit.land(leave);
}
