//! What exploring a program cost, instruction by instruction: where the kernel's million goes.
//!
//! ```text
//!   for (i = 0; i < 64; i++)        visits  64 times each        turned: 64
//!       if (data[i] == c)           both ways 64 times           the paths that a fork makes are walked again below
//!           n++;
//! ```
//!
//! Visits are counted by call chain too, which is what a flame graph shows.

use std::collections::HashMap;

use kiln_isa::Insn;
use kiln_program::{InsnId, SourceLine};

use crate::code::{Code, Position};
use crate::explore::observe::{Moment, Observer};

/// What exploring cost.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    /// Instructions processed.
    pub processed_insns: u64,
    /// Instructions that may be processed.
    pub limit: u64,
    /// Every instruction that was visited, in the order of the code.
    pub instructions: Vec<InsnCost>,
    /// Backward jumps, most turns first.
    pub loops: Vec<LoopCost>,
    /// Instructions processed by call chain: (call site, ..., instruction) and how often.
    pub chains: Vec<(Vec<Spot>, u64)>,
}

/// A place in the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spot {
    /// The instruction.
    pub insn: InsnId,
    /// The function.
    pub function: String,
    /// Its slot in the function, from 0.
    pub slot: u32,
    /// The source line, where known.
    pub line: Option<SourceLine>,
}

/// What one instruction cost.
#[derive(Clone, Debug)]
pub struct InsnCost {
    /// Where.
    pub spot: Spot,
    /// How often it was processed.
    pub visits: u64,
    /// How often both outcomes were possible. Each time the rest of the program is followed once more, unless a kept state
    /// ends the path.
    pub forks: u64,
    /// How many states were kept here.
    pub states: u64,
}

/// What one loop cost.
#[derive(Clone, Debug)]
pub struct LoopCost {
    /// Its first instruction.
    pub head: Spot,
    /// The jump back.
    pub back: Spot,
    /// How often the jump back was processed.
    pub turns: u64,
    /// Instructions processed between the two.
    pub processed_insns: u64,
}

/// Counts.
pub(crate) struct Profiler {
    visits: Vec<u64>,
    forks: Vec<u64>,
    states: Vec<u64>,
    chains: HashMap<Vec<Position>, HashMap<Position, u64>>,
    chain: Vec<Position>,
    kept: u64,
    pending: usize,
    at: Position,
}

impl Profiler {
    pub(crate) fn new(code: &Code<'_>) -> Profiler {
        let zeros = || vec![0; code.ops.len()];
        Profiler {
            visits: zeros(),
            forks: zeros(),
            states: zeros(),
            chains: HashMap::new(),
            chain: Vec::new(),
            kept: 0,
            pending: 0,
            at: 0,
        }
    }

    pub(crate) fn finish(self, code: &Code<'_>, limit: u64) -> Cost {
        let slots = code.slots();
        let spot = |at: Position| spot(code, &slots, at);
        let visited = (0..code.ops.len()).filter(|at| self.visits[*at] > 0);
        let instructions: Vec<InsnCost> = visited
            .map(|at| InsnCost {
                spot: spot(at as Position),
                visits: self.visits[at],
                forks: self.forks[at],
                states: self.states[at],
            })
            .collect();
        let mut loops = Vec::new();
        for (at, op) in code.ops.iter().enumerate() {
            let jumps = matches!(op.node.insn, Insn::Jump { .. } | Insn::Branch { .. } | Insn::MayGoto { .. });
            let head = match op.node.insn {
                Insn::JumpIndirect { .. } => code.successors(at as Position).min().map_or(usize::MAX, |to| to as usize),
                _ if jumps => op.target as usize,
                _ => usize::MAX,
            };
            if head <= at && self.visits[at] > 1 && code.ops[head].function == op.function {
                let processed_insns = self.visits[head..=at].iter().sum();
                let (head, back) = (spot(head as Position), spot(at as Position));
                loops.push(LoopCost { head, back, turns: self.visits[at], processed_insns });
            }
        }
        loops.sort_by_key(|cost| std::cmp::Reverse(cost.processed_insns));
        let mut chains: Vec<(Vec<Spot>, u64)> = Vec::new();
        for (sites, counts) in &self.chains {
            let sites: Vec<Spot> = sites.iter().map(|site| spot(*site)).collect();
            for (at, count) in counts {
                let chain = sites.iter().cloned().chain([spot(*at)]).collect();
                chains.push((chain, *count));
            }
        }
        chains.sort_by_key(|(chain, _)| chain.iter().map(|spot| spot.insn).collect::<Vec<_>>());
        Cost { processed_insns: self.visits.iter().sum(), limit, instructions, loops, chains }
    }
}

impl Observer for Profiler {
    fn before(&mut self, moment: &Moment<'_, '_>) {
        let kept = moment.kept;
        self.states[moment.path.at as usize] += kept.saturating_sub(self.kept);
        self.kept = kept;
        self.pending = moment.pending;
        self.count(moment);
    }

    fn covered(&mut self, moment: &Moment<'_, '_>) {
        self.count(moment);
    }

    fn after(&mut self, moment: &Moment<'_, '_>) {
        if moment.pending > self.pending {
            self.forks[self.at as usize] += 1;
        }
    }
}

impl Profiler {
    /// Counts a visit, by call chain, too.
    fn count(&mut self, moment: &Moment<'_, '_>) {
        self.visits[moment.path.at as usize] += 1;
        let frames = &moment.path.state.frames;
        let same = self.chain.len() + 1 == frames.len()
            && self.chain.iter().zip(frames.iter().skip(1)).all(|(site, frame)| *site == frame.call_site);
        if !same {
            self.chain = frames.iter().skip(1).map(|frame| frame.call_site).collect();
        }
        match self.chains.get_mut(&self.chain) {
            Some(counts) => *counts.entry(moment.path.at).or_default() += 1,
            None => {
                self.chains.insert(self.chain.clone(), HashMap::from([(moment.path.at, 1)]));
            }
        }
        self.at = moment.path.at;
    }
}

fn spot(code: &Code<'_>, slots: &[u32], at: Position) -> Spot {
    let op = code.op(at);
    let routine = &code.functions[op.function];
    Spot {
        insn: op.node.id,
        function: routine.name.to_owned(),
        slot: slots[at as usize],
        line: code.object.line(op.node).filter(|line| line.line != 0).cloned(),
    }
}
