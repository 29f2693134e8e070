//! How often each instruction runs, by the shape of the program alone.
//!
//! ```text
//!   entry                      1
//!   if r1 > r2 goto out        1         a side that leaves at once is a check that seldom fails: 1 in 8
//!   body                       7/8
//!   loop: ...                  7         a loop turns eight times
//!   out: exit                  1
//! ```
//!
//! Branches go either way as often, but for two kinds (measured by Ball and Larus in 1993 and used by compilers since):
//! those that leave and those that turn back. The numbers are round, not fitted; what they must do is stay put, so
//! that what a program costs before and after a rewrite is compared for the same runs. Were they computed anew from
//! what a rewrite left, a program would seem slower for having one check less: more runs would get past it. So
//! instructions keep the frequency they had in the original, and new ones get that of those around them:
//!
//! ```text
//!   1    r1 = 0                          1    r1 = 0
//!   1    if r2 > 7 goto out              1    r3 = 2       moved up to before a branch that runs each time
//!   7/8  r3 = 2                    -->   1    if r2 > 7 goto out
//!   7/8  goto next                       7/8  goto next
//! ```
//!
//! Where runs of equal instructions were made one, or one was copied, the ways that lead there say how often it runs: a
//! branch sends as large a share of its runs to where it jumps as it did in the original. So they do of a block that was
//! joined with one that ran more often:
//!
//! ```text
//!   1    if r3 > r2 goto out             1    if r3 > r2 goto drop
//!   7/8  call redirect                   7/8  call redirect
//!   7/8  r6 = r0                  -->    7/8  r0 = r6; exit            not 1: the eighth leaves by a copy
//!   1    out: r0 = r6; exit              1/8  drop: r0 = 1; exit
//! ```

use std::collections::{HashMap, HashSet};

use kiln_isa::{CallTarget, Insn, JumpOp};
use kiln_platform::limits::MAX_CALL_FRAMES;
use kiln_program::{Block, Cfg, Function, FunctionId, InsnId, Node, Object, Program, Reference};

use super::CostModel;

/// How often each instruction of the original runs, for one run of its function.
#[derive(Clone, Debug, Default)]
pub struct Frequencies {
    of: HashMap<InsnId, f64>,
    /// Which of them are branches or jumps.
    jumps: HashSet<InsnId>,
    /// Branches with two sides: what each asked, and the share of its runs that jump.
    branches: HashMap<InsnId, (JumpOp, f64)>,
}

/// Turns of a loop, and of a function that a helper calls back.
const TURNS: f64 = 8.0;
/// Runs in which a side that leaves is taken: one in so many.
const LEAVES: f64 = 8.0;
/// Times at most that flow goes round: what a loop of [`TURNS`] has left over is then below a hundredth.
const ROUNDS: usize = 40;
/// Change between rounds that counts as none.
const SETTLED: f64 = 1e-3;

impl Frequencies {
    /// Those of an object's functions as they are before anything is rewritten.
    pub fn of_original(object: &Object) -> Frequencies {
        let (mut of, mut branches) = (HashMap::new(), HashMap::new());
        for function in &object.functions {
            let cfg = Cfg::new(function);
            let blocks = flow(&cfg, |from| shares_by_shape(function, &cfg, from));
            for (block, frequency) in cfg.blocks.iter().zip(blocks) {
                of.extend(function.nodes[block.range.clone()].iter().map(|node| (node.id, frequency)));
            }
            for (from, block) in cfg.blocks.iter().enumerate() {
                let last = &function.nodes[block.range.end - 1];
                if let (Insn::Branch { op, .. }, [_, jumps]) = (last.insn, &shares_by_shape(function, &cfg, from)[..]) {
                    branches.insert(last.id, (op, *jumps));
                }
            }
        }
        let nodes = object.functions.iter().flat_map(|function| &function.nodes);
        let jumps = nodes
            .filter(|node| matches!(node.insn, Insn::Branch { .. } | Insn::Jump { .. }))
            .map(|node| node.id)
            .collect();
        Frequencies { of, jumps, branches }
    }

    /// How often each instruction of a function, perhaps rewritten, runs for one run of the function.
    pub fn of_nodes(&self, function: &Function, cfg: &Cfg) -> Vec<f64> {
        let mut nodes = vec![0.0; function.nodes.len()];
        let order = cfg.reverse_postorder();
        for block in order.iter().map(|block| &cfg.blocks[block.index()]) {
            // No instruction runs less often than a later one of its block.
            let mut most = 0.0f64;
            for at in block.range.clone().rev() {
                most = most.max(self.of.get(&function.nodes[at].id).copied().unwrap_or(0.0));
                nodes[at] = most;
            }
            let mut last = 0.0;
            for at in block.range.clone() {
                last = if nodes[at] == 0.0 { last } else { nodes[at] };
                nodes[at] = last;
            }
        }
        for index in order.into_iter().map(|block| block.index()) {
            let block = &cfg.blocks[index];
            let entry = if index == 0 { 1.0 } else { 0.0 };
            let (mut more, mut most, mut likely, mut shared) = (0.0, entry, entry, entry);
            for from in block.predecessors.iter().map(|from| &cfg.blocks[from.index()]) {
                let last = &function.nodes[from.range.end - 1];
                let there = nodes[from.range.end - 1];
                let share = self.share(last, from, index);
                // Only a jump that is new brings runs that came another way before. What a branch brings stays: if it
                // is decided now, or goes elsewhere, it was estimated wrongly and not made to go there more often.
                let new = matches!(last.insn, Insn::Jump { .. }) && !self.jumps.contains(&last.id);
                more += if new { there } else { 0.0 };
                most += there;
                likely += there * share.unwrap_or(1.0);
                shared += there * share.unwrap_or(1.0 / from.successors.len() as f64);
            }
            let now = nodes[block.range.start];
            if now == 0.0 {
                nodes[block.range.clone()].fill(shared);
            } else {
                // Joined with what ran more often, or begun by what was moved up: the ways that lead there tell.
                let first = self.of.get(&function.nodes[block.range.start].id).copied().unwrap_or(now);
                let most = if first < now { most.min(likely.max(first)) } else { most };
                let factor = (now + more).min(most) / now;
                nodes[block.range.clone()].iter_mut().for_each(|own| *own *= factor);
            }
        }
        nodes
    }

    /// The share of a block's runs that go on in another, where its branch is one of the original, though it may ask the
    /// opposite by now.
    fn share(&self, last: &Node, from: &Block, to: usize) -> Option<f64> {
        let (Insn::Branch { op, .. }, [falls, _]) = (last.insn, &from.successors[..]) else { return None };
        let (asked, jumping) = self.branches.get(&last.id)?;
        let jumps = falls.index() != to;
        let opposite = asked.row().negated == Some(op);
        Some(if jumps != opposite { *jumping } else { 1.0 - *jumping })
    }
}

/// How often a program's instructions take what time: the estimate of one run, in picoseconds.
pub fn estimate(object: &Object, program: &Program, frequencies: &Frequencies, model: &CostModel) -> u64 {
    let mut known = HashMap::new();
    function_time(object, (program.entry, 0), frequencies, model, &mut known).round() as u64
}

/// A function's time, with what it calls. Deeper calls than [`MAX_CALL_FRAMES`] do not load and count for nothing: an object
/// decides how deep they go.
fn function_time(
    object: &Object,
    (id, depth): (FunctionId, usize),
    frequencies: &Frequencies,
    model: &CostModel,
    known: &mut HashMap<FunctionId, f64>,
) -> f64 {
    if let Some(time) = known.get(&id) {
        return *time;
    }
    if depth >= MAX_CALL_FRAMES {
        return 0.0;
    }
    // A function that calls itself does not load. This only ends the counting.
    known.insert(id, 0.0);
    let function = object.function(id);
    let cfg = Cfg::new(function);
    let mut sum = 0.0;
    for (node, frequency) in function.nodes.iter().zip(frequencies.of_nodes(function, &cfg)) {
        let mut time = model.picoseconds(&node.insn) as f64;
        if let Reference::Function(callee) = node.reference {
            let turns = if matches!(node.insn, Insn::Call(CallTarget::Subprogram(_))) { 1.0 } else { TURNS };
            time += turns * function_time(object, (callee, depth + 1), frequencies, model, known);
        }
        sum += frequency * time;
    }
    known.insert(id, sum);
    sum
}

/// The frequency of each block when control is shared out from the entry on.
fn flow(cfg: &Cfg, shares: impl Fn(usize) -> Vec<f64>) -> Vec<f64> {
    let order = cfg.reverse_postorder();
    let mut place = vec![usize::MAX; cfg.blocks.len()];
    for (at, block) in order.iter().enumerate() {
        place[block.index()] = at;
    }
    let shares: Vec<Vec<f64>> = (0..cfg.blocks.len()).map(shares).collect();
    let turns_back = |from: usize, to: usize| place[to] <= place[from];
    let acyclic = !order
        .iter()
        .any(|block| cfg.blocks[block.index()].successors.iter().any(|next| turns_back(block.index(), next.index())));
    let mut frequency = vec![0.0; cfg.blocks.len()];
    for _ in 0..if acyclic { 1 } else { ROUNDS } {
        let mut moved = 0.0f64;
        for block in &order {
            let at = block.index();
            let entry = if at == 0 { 1.0 } else { 0.0 };
            let inflow: f64 = cfg.blocks[at]
                .predecessors
                .iter()
                .map(|from| {
                    let from = from.index();
                    let way = cfg.blocks[from].successors.iter().position(|next| next.index() == at);
                    way.map_or(0.0, |way| frequency[from] * shares[from][way])
                })
                .sum();
            let now = entry + inflow;
            moved = moved.max((now - frequency[at]).abs());
            frequency[at] = now;
        }
        if moved < SETTLED {
            break;
        }
    }
    frequency
}

/// The share of each successor of a block, fall-through first, by what the branch looks like.
fn shares_by_shape(function: &Function, cfg: &Cfg, from: usize) -> Vec<f64> {
    let [first, second] = cfg.blocks[from].successors[..] else {
        let count = cfg.blocks[from].successors.len();
        return vec![1.0 / count.max(1) as f64; count];
    };
    let back = |to: usize| to <= from;
    let leaves = |to: usize| leaves(function, cfg, to);
    let share = match ([first, second].map(|next| back(next.index())), [first, second].map(|next| leaves(next.index())))
    {
        ([true, false], _) => 1.0 - 1.0 / TURNS,
        ([false, true], _) => 1.0 / TURNS,
        (_, [true, false]) => 1.0 / LEAVES,
        (_, [false, true]) => 1.0 - 1.0 / LEAVES,
        _ => 0.5,
    };
    vec![share, 1.0 - share]
}

/// Whether a block only leaves: no calls, and an exit within two blocks.
fn leaves(function: &Function, cfg: &Cfg, block: usize) -> bool {
    let mut at = block;
    for _ in 0..2 {
        let nodes = &function.nodes[cfg.blocks[at].range.clone()];
        if nodes.iter().any(|node| matches!(node.insn, Insn::Call(_))) {
            return false;
        }
        if matches!(nodes.last().map(|node| node.insn), Some(Insn::Exit)) {
            return true;
        }
        match cfg.blocks[at].successors[..] {
            [next] => at = next.index(),
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Object {
        kiln_program::text::parse(&format!("; program xdp\n{text}")).expect("it parses")
    }

    fn frequency_of(object: &Object, frequencies: &Frequencies, at: usize) -> f64 {
        frequencies.of[&object.functions[0].nodes[at].id]
    }

    #[test]
    fn checks_seldom_fail_and_loops_turn() {
        let object = object(
            "w1 = 0\nif r1 s> 5 goto out\nw2 = 0\nturn:\nw2 += 1\nif w2 < 100 goto turn\nw0 = w2\nexit\nout:\nw0 = 1\nexit\n",
        );
        let frequencies = Frequencies::of_original(&object);
        assert_eq!(frequency_of(&object, &frequencies, 0), 1.0);
        assert_eq!(frequency_of(&object, &frequencies, 2), 0.875);
        let turns = frequency_of(&object, &frequencies, 3);
        assert!((6.8..=7.0).contains(&turns), "{turns}");
        assert_eq!(frequency_of(&object, &frequencies, 7), 0.125);
    }

    #[test]
    fn what_is_shared_runs_for_all_and_a_copy_for_one() {
        let text =
            "if r1 s> 5 goto other\nw1 = 2\nw1 *= 3\nw0 = w1\nexit\nother:\nw2 = 1\nw1 = 2\nw1 *= 3\nw0 = w1\nexit\n";
        let original = object(text);
        let frequencies = Frequencies::of_original(&original);
        let of = |object: &Object| {
            let function = &object.functions[0];
            frequencies.of_nodes(function, &Cfg::new(function))
        };
        assert_eq!(of(&original), [1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]);
        let mut shared = original.clone();
        let nodes = &mut shared.functions[0].nodes;
        let target = nodes[1].id;
        nodes.truncate(6);
        let jump = shared.new_node(Insn::Jump { offset: 0, long: false }, Reference::Branch(target));
        shared.functions[0].nodes.push(jump);
        assert_eq!(of(&shared), [1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5]);
    }

    #[test]
    fn a_copy_for_those_that_leave_takes_them_away() {
        let original = object(
            "w6 = 1\nif r1 s> 5 goto out\nr0 = 2\nw6 = 2\nif r1 s> 6 goto out\ncall ktime_get_ns\nr6 = r0\nout:\nw0 = w6\nexit\n",
        );
        let frequencies = Frequencies::of_original(&original);
        let mut copied = original.clone();
        let made = [Insn::mov_imm(kiln_isa::Reg::R0, 1), Insn::Exit].map(|insn| copied.new_node(insn, Reference::None));
        let nodes = &mut copied.functions[0].nodes;
        nodes[1].reference = Reference::Branch(made[0].id);
        nodes[4].reference = Reference::Branch(made[0].id);
        nodes.extend(made);
        let function = &copied.functions[0];
        let now = frequencies.of_nodes(function, &Cfg::new(function));
        let through = 0.875 * 0.875;
        assert_eq!(
            now,
            [1.0, 1.0, 0.875, 0.875, 0.875, through, through, through, through, 1.0 - through, 1.0 - through]
        );
    }

    #[test]
    fn one_check_less_makes_no_program_slower() {
        let original = object(
            "w1 = 0\nif r1 s> 5 goto out\nw0 = 7\nif r1 s> 6 goto out\nr0 += r1\nr0 *= 3\nr0 += 2\nexit\nout:\nw0 = 1\nexit\n",
        );
        let frequencies = Frequencies::of_original(&original);
        let model = CostModel::default();
        let time = |object: &Object| estimate(object, &object.programs[0], &frequencies, &model);
        let mut rewritten = original.clone();
        rewritten.functions[0].nodes.remove(3);
        assert!(time(&rewritten) < time(&original), "{} {}", time(&rewritten), time(&original));
    }
}
