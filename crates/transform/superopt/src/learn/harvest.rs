//! Windows worth a search: small slices of dataflow, under canonical names, counted over a corpus.
//!
//! ```text
//!   r7 = r6                              r1 = r2       results: r1, whole
//!   r3 = *(u8 *)(r6 + 4)                 r1 <<= 32     inputs:  r2, anything
//!   r7 <<= 32             slice at r7    r1 >>= 32     here:    12 programs, 40 places
//!   r3 += 1                   -->
//!   r7 >>= 32
//! ```
//!
//! A slice is an instruction and some of those that made its operands, [`LONGEST`] at most, if they can be gathered in
//! one place ([`crate::rules::data::gather`]). Equal slices of different programs are one window.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use kiln_equiv::Limits;
use kiln_isa::{Address, AluOp, Imm64, Insn, Reg, RegSet, Source, Width};
use kiln_program::{Cfg, FunctionId, InsnId, Node, Object, Reference};
use kiln_verifier::{Facts, Value};

use crate::cost::{CostModel, Goal};
use crate::flow::calls::Calls;
use crate::flow::demand::{self, Demand, NOWHERE};
use crate::flow::possible;
use crate::rules::data::gather::may_gather;
use crate::windows::region::{Region, is_barrier};
use crate::windows::staleness::Staleness;
use crate::windows::trace::Trace;

/// Instructions in a slice at most.
const LONGEST: usize = 5;
/// Slices that end at one instruction, at most.
const SLICES: usize = 64;
/// Different windows at most: each takes some hundred bytes, and few are searched within any budget.
const MAX_WINDOWS: usize = 500_000;
/// Instructions in a run at most, as in [`crate::windows`].
const RUN: usize = 96;
/// Bounds of input registers that windows tell apart.
const BOUNDS: [u64; 5] = [1, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff];

/// A window under canonical names: registers in order of appearance from R1 on, the first memory offset zero.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sample {
    /// The instructions.
    pub insns: Vec<Insn>,
    /// Low bits of each register that are read afterwards: 0, 32 or 64.
    pub read: [u8; Reg::COUNT],
    /// Upper bounds of inputs: [`u64::MAX`] if nothing is known.
    pub bounds: [u64; Reg::COUNT],
    /// Whether the first instruction only says what a register is known to hold.
    pub known_constant: bool,
}

impl Sample {
    /// Demand after it.
    pub fn demand(&self) -> Demand {
        let mut demand = Demand::NONE;
        Reg::all().for_each(|reg| demand.read(reg, self.read[reg.index()].into()));
        demand
    }

    /// Registers that it writes.
    pub fn written(&self) -> RegSet {
        self.insns.iter().filter_map(Insn::written).collect()
    }

    /// A stable order: the listing, then what is known and read.
    pub fn key(&self) -> (String, [u8; Reg::COUNT], [u64; Reg::COUNT], bool) {
        let listing: Vec<String> = self.insns.iter().map(Insn::to_string).collect();
        (listing.join("; "), self.read, self.bounds, self.known_constant)
    }

    /// Its instructions as nodes of no program.
    pub fn nodes(&self) -> Vec<Node> {
        let node = |(at, insn): (usize, &Insn)| Node::new(InsnId(at as u32), *insn, Reference::None);
        self.insns.iter().enumerate().map(node).collect()
    }
}

/// Where windows were seen.
#[derive(Clone, Default, Debug)]
pub struct Seen {
    /// How often.
    pub places: u64,
    /// In which programs.
    pub programs: BTreeSet<String>,
}

/// All windows so far.
#[derive(Default)]
pub struct Harvest {
    windows: std::collections::HashMap<Sample, Seen>,
}

impl Harvest {
    /// Takes in one function, under the name of a program that runs it.
    pub fn function(&mut self, object: &Object, id: FunctionId, program: &str, facts: &Facts) {
        // Runs overlap; hashes of windows stand for them, since those of a large function take gigabytes.
        let mut once: HashSet<(u64, InsnId)> = HashSet::new();
        each_run(object, id, facts, &mut |region| {
            let trace = Trace::new(region);
            for at in 0..region.nodes.len() {
                for slice in slices(&region.nodes, at) {
                    for sample in samples(region, &trace, &slice) {
                        if once.insert((hash_of(&sample), region.nodes[at].id)) {
                            self.take(sample, program);
                        }
                    }
                }
            }
        });
    }

    /// Counts a window. Beyond [`MAX_WINDOWS`] only those that were seen before are.
    fn take(&mut self, sample: Sample, program: &str) {
        if self.windows.len() >= MAX_WINDOWS && !self.windows.contains_key(&sample) {
            return;
        }
        let seen = self.windows.entry(sample).or_default();
        seen.places += 1;
        if !seen.programs.contains(program) {
            seen.programs.insert(program.to_owned());
        }
    }

    /// The windows, those of most programs first.
    pub fn sorted(self) -> Vec<(Sample, Seen)> {
        let mut all: Vec<_> = self.windows.into_iter().collect();
        all.sort_by_cached_key(|(sample, seen)| {
            (std::cmp::Reverse((seen.programs.len(), seen.places)), sample.insns.len(), sample.key())
        });
        all
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.windows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }
}

fn hash_of(sample: &Sample) -> u64 {
    let mut hasher = DefaultHasher::new();
    sample.hash(&mut hasher);
    hasher.finish()
}

/// Goes over the straight runs of a function that some path reaches.
fn each_run(object: &Object, id: FunctionId, facts: &Facts, see: &mut dyn FnMut(&Region<'_>)) {
    let function = object.function(id);
    let cfg = Cfg::new(function);
    let calls = Calls::of(object);
    let ends = demand::at_block_ends(function, &cfg, &calls);
    let numbers = possible::loads_numbers(object, id);
    let begins = possible::at_block_begins(function, &cfg, numbers);
    let (limits, model) = (Limits::default(), CostModel::default());
    for (index, block) in cfg.blocks.iter().enumerate() {
        let mut possible = begins[index];
        for start in block.range.clone().step_by(RUN) {
            let run = start..(start + RUN).min(block.range.end);
            let nodes = function.nodes[run.clone()].to_vec();
            let mut end = ends[index];
            function.nodes[run.end..block.range.end].iter().rev().for_each(|node| end.step_back(node, &calls));
            let reached = nodes.iter().any(|node| facts.reached(node.id));
            let (mut stale, refuted) = (Staleness::default(), HashSet::new());
            let region = Region {
                object,
                calls: &calls,
                facts: Some(facts),
                context: None,
                nodes,
                end,
                exits: &NOWHERE,
                stale: &mut stale,
                limits: &limits,
                refuted: &refuted,
                newly_refuted: HashSet::new(),
                steps: Vec::new(),
                asked: 0,
                possible: (possible, numbers),
                isa: 3,
                model: &model,
                goal: Goal::Balanced,
            };
            if reached {
                see(&region);
            }
            region.nodes.iter().for_each(|node| possible::step(&mut possible, node, numbers));
        }
    }
}

/// Whether rules may hold an instruction.
fn is_plain(node: &Node) -> bool {
    let branches = matches!(node.insn, Insn::Branch { .. });
    let kind = match node.insn {
        Insn::Alu { .. }
        | Insn::Neg { .. }
        | Insn::MoveSignExtend { .. }
        | Insn::Endian { .. }
        | Insn::LoadImm64 { imm: Imm64::Value(_), .. }
        | Insn::Load { .. }
        | Insn::Store { .. } => true,
        _ => branches,
    };
    kind && node.core.is_none() && (branches || node.reference == Reference::None) && !is_barrier(node)
}

/// Sets of positions: one instruction and some of those that its operands come from.
fn slices(nodes: &[Node], at: usize) -> Vec<Vec<usize>> {
    if !is_plain(&nodes[at]) {
        return Vec::new();
    }
    let mut found: Vec<Vec<usize>> = vec![vec![at]];
    let mut next = 0;
    while next < found.len() && found.len() < SLICES {
        let slice = found[next].clone();
        next += 1;
        if slice.len() == LONGEST {
            continue;
        }
        let beside = |made: usize| {
            let mut larger = slice.clone();
            larger.push(made);
            larger.sort_unstable();
            larger
        };
        for member in &slice {
            let fresh = beside_in_memory(nodes, *member).filter(|other| !slice.contains(other)).map(beside);
            let fresh: Vec<_> = fresh.filter(|larger| !found.contains(larger)).collect();
            found.extend(fresh);
            for reg in nodes[*member].insn.read().iter() {
                let back = (0..*member).rev().take_while(|earlier| !is_barrier(&nodes[*earlier]));
                let Some(made) = back.into_iter().find(|earlier| nodes[*earlier].insn.written() == Some(reg)) else {
                    continue;
                };
                if !is_plain(&nodes[made]) || slice.contains(&made) {
                    continue;
                }
                let larger = beside(made);
                if !found.contains(&larger) {
                    found.push(larger);
                }
            }
        }
    }
    found
}

/// Earlier accesses of the same kind through the same register, at most eight bytes away.
fn beside_in_memory(nodes: &[Node], at: usize) -> impl Iterator<Item = usize> {
    let kind = |insn: &Insn| match *insn {
        Insn::Load { address, signed: false, .. } => Some((false, address)),
        Insn::Store { address, .. } => Some((true, address)),
        _ => None,
    };
    let own = kind(&nodes[at].insn);
    let back = (0..at).rev().take(NEAR).take_while(|earlier| !is_barrier(&nodes[*earlier]));
    back.filter(move |earlier| {
        let (Some((stores, place)), Some((other, elsewhere))) = (own, kind(&nodes[*earlier].insn)) else {
            return false;
        };
        let distance = (i32::from(place.offset) - i32::from(elsewhere.offset)).abs();
        stores == other && place.base == elsewhere.base && distance < 8 && is_plain(&nodes[*earlier])
    })
}

/// How far back two accesses still count as neighbours.
const NEAR: usize = 12;

/// The window of a slice under canonical names, if it may be gathered; with what is known of inputs and without.
fn samples(region: &Region<'_>, trace: &Trace, slice: &[usize]) -> Vec<Sample> {
    let nodes = &region.nodes;
    let place = slice.iter().rev().copied().find(|place| may_gather(region, trace, slice, *place));
    let Some(place) = place else { return Vec::new() };
    let rest = (place + 1..nodes.len()).rev().filter(|at| !slice.contains(at));
    let mut demand = region.end;
    rest.for_each(|at| demand.step_back(&nodes[at], region.calls));
    let mut insns: Vec<Insn> = slice.iter().map(|at| nodes[*at].insn).collect();
    let (mut inputs, mut written) = (RegSet::EMPTY, RegSet::EMPTY);
    for insn in &insns {
        inputs = inputs.union(insn.read().difference(written));
        written = written.union(insn.written().into_iter().collect());
    }
    let bases: RegSet = insns.iter().filter_map(|insn| Some(insn.address()?.base)).collect();
    let mut bounds = [u64::MAX; Reg::COUNT];
    let mut known = None;
    for reg in inputs.iter().filter(|reg| *reg != Reg::R10) {
        let reads = |at: &usize| nodes[*at].insn.read().contains(reg);
        let Some(first) = slice.iter().copied().find(reads) else { return Vec::new() };
        match &region.precondition(first).registers[reg.index()] {
            Value::Scalar(scalar) => {
                if let Some(value) = scalar.as_constant() {
                    let fits = i32::try_from(value as i64).ok();
                    known = known.or(fits.filter(|_| !written.contains(reg)).map(|imm| (reg, imm)));
                }
                let most = scalar.umax.min(scalar.tnum.value | scalar.tnum.mask);
                let bound = BOUNDS.into_iter().find(|bound| most <= *bound);
                bounds[reg.index()] = bound.unwrap_or(u64::MAX);
            }
            // Addresses may be bases; the kernel follows what is computed from them by its form.
            Value::Pointer(_) if !bases.contains(reg) => return Vec::new(),
            _ => {}
        }
    }
    if (inputs.contains(Reg::R10) && !bases.contains(Reg::R10)) || written.contains(Reg::R10) {
        return Vec::new();
    }
    let mut read = [0; Reg::COUNT];
    for reg in written.iter() {
        read[reg.index()] = match demand.of(reg) {
            0 => 0,
            1..=32 => 32,
            _ => 64,
        };
    }
    let mut found = Vec::new();
    if slice.len() > 1 || bounds.iter().any(|bound| *bound != u64::MAX) || nodes[slice[0]].insn.slots() > 1 {
        found.extend(canonical(&insns, &read, &bounds, false));
    }
    if let Some((reg, imm)) = known {
        let says = Insn::Alu { op: AluOp::Mov, width: Width::W64, dst: reg, src: Source::Imm(imm) };
        insns.insert(0, says);
        bounds[reg.index()] = u64::MAX;
        found.extend(canonical(&insns, &read, &bounds, true));
    }
    found
}

/// The same under canonical names; `None` where there are too many registers.
fn canonical(
    insns: &[Insn],
    read: &[u8; Reg::COUNT],
    bounds: &[u64; Reg::COUNT],
    known_constant: bool,
) -> Option<Sample> {
    let mut names: BTreeMap<Reg, Reg> = BTreeMap::new();
    let mut rename = |reg: Reg| {
        let fresh = names.len() as u8 + 1;
        if reg == Reg::R10 {
            return Reg::R10;
        }
        *names.entry(reg).or_insert_with(|| Reg::new(fresh).unwrap_or(Reg::R0))
    };
    let mut start: Option<i16> = None;
    let renamed = insns.iter().map(|insn| {
        let mut place = |address: Address, rename: &mut dyn FnMut(Reg) -> Reg| {
            let first = *start.get_or_insert(address.offset);
            Some(Address { base: rename(address.base), offset: address.offset.checked_sub(first)? })
        };
        let source = |src: Source, rename: &mut dyn FnMut(Reg) -> Reg| match src {
            Source::Reg(reg) => Source::Reg(rename(reg)),
            imm => imm,
        };
        Some(match *insn {
            Insn::Alu { op, width, dst, src } => {
                Insn::Alu { op, width, dst: rename(dst), src: source(src, &mut rename) }
            }
            Insn::Neg { width, dst } => Insn::Neg { width, dst: rename(dst) },
            Insn::MoveSignExtend { width, from, dst, src } => {
                Insn::MoveSignExtend { width, from, dst: rename(dst), src: rename(src) }
            }
            Insn::Endian { order, size, dst } => Insn::Endian { order, size, dst: rename(dst) },
            Insn::LoadImm64 { dst, imm } => Insn::LoadImm64 { dst: rename(dst), imm },
            Insn::Load { size, signed, dst, address } => {
                Insn::Load { size, signed, dst: rename(dst), address: place(address, &mut rename)? }
            }
            Insn::Store { size, address, src } => {
                Insn::Store { size, address: place(address, &mut rename)?, src: source(src, &mut rename) }
            }
            Insn::Branch { op, width, dst, src, .. } => {
                Insn::Branch { op, width, dst: rename(dst), src: source(src, &mut rename), offset: 0 }
            }
            _ => return None,
        })
    });
    let insns: Vec<Insn> = renamed.collect::<Option<_>>()?;
    if names.values().any(|name| *name == Reg::R0) {
        return None;
    }
    let mut sample = Sample { insns, read: [0; Reg::COUNT], bounds: [u64::MAX; Reg::COUNT], known_constant };
    for (old, new) in names {
        sample.read[new.index()] = read[old.index()];
        sample.bounds[new.index()] = bounds[old.index()];
    }
    Some(sample)
}
