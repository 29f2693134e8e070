//! Instructions moved above a branch, where that saves slots.
//!
//! ```text
//!   shared head                          hoisted arm
//!   if r1 == 0 goto L                    if r1 == 0 goto L          w0 = 2
//!   r2 = r6             r2 = r6          r3 = 5                     if r1 == 0 goto out
//!   ...          -->    if r1 == 0 ...   ...                 -->    r3 = 5
//! L:                    ...            L:                           ...
//!   r2 = r6           L:                 w0 = 2
//!   ...                 ...              goto out
//! ```
//!
//! Both may run an instruction on a path that did not have it: only what computes a register, which the branch does not
//! read and the other side does not need.

use kiln_isa::{AluOp, Insn, Reg, RegSet};
use kiln_program::{BlockId, Cfg, Function, Ids, InsnId, Node, Reference};

use crate::edit;
use crate::flow::calls::Calls;
use crate::flow::demand::{self, Demand, only_computes};
use crate::laws::context::{Change, Context};
use crate::laws::control_flow::same;

/// Instructions of an arm that may be hoisted at most: each costs the other path.
const LONGEST_ARM: usize = 2;

/// A block that ends in a two-way branch.
struct Fork {
    /// Position of the branch.
    branch: usize,
    /// The block that follows it.
    falls: BlockId,
    /// The block that it jumps to.
    jumps: BlockId,
}

fn forks(function: &Function, cfg: &Cfg) -> Vec<Fork> {
    let mut forks = Vec::new();
    for block in &cfg.blocks {
        let branch = block.range.end - 1;
        let node = &function.nodes[branch];
        if let (Insn::Branch { .. }, [falls, jumps]) = (node.insn, &block.successors[..])
            && node.core.is_none()
        {
            forks.push(Fork { branch, falls: *falls, jumps: *jumps });
        }
    }
    forks
}

fn moved(node: &Node, id: InsnId) -> Node {
    Node { id, ..node.clone() }
}

/// Moves an instruction that both sides of a branch begin with above it; one a call.
///
/// A side may also begin with a branch of its own, one of whose sides begins with the instruction and whose other side
/// does not read the result.
pub fn share_heads(context: Context<'_>) -> Vec<Change> {
    let Context { object, function, calls, banned, .. } = context;
    let cfg = Cfg::new(function);
    let demands = Demands { function, cfg: &cfg, ends: demand::at_block_ends(function, &cfg, calls), calls };
    for fork in forks(function, &cfg) {
        let (falls, jumps) = (&cfg.blocks[fork.falls.index()], &cfg.blocks[fork.jumps.index()]);
        // A side of one instruction would leave an empty block: layout and tails see to those.
        let alone = falls.predecessors.len() == 1 && jumps.predecessors.len() == 1;
        let branch = &function.nodes[fork.branch];
        if banned(branch.id) || !alone {
            continue;
        }
        let heads = [demands.head(fork.falls), demands.head(fork.jumps)];
        let deeper = [demands.head_behind(fork.falls), demands.head_behind(fork.jumps)];
        let pairs = [(heads[0], heads[1]), (deeper[0], heads[1]), (heads[0], deeper[1])];
        let shared = pairs.into_iter().find_map(|(one, other)| {
            let (one, other) = (one?, other?);
            let free = one.insn.written().is_some_and(|reg| !branch.insn.read().contains(reg));
            (free && only_computes(&one.insn) && same(object, one, other)).then_some((one, other))
        });
        let Some((one, other)) = shared else { continue };
        let before = vec![branch.clone(), one.clone(), other.clone()];
        let (head, gone) = (one.clone(), [one.id, other.id]);
        let at = branch.id;
        let after = vec![head.clone(), branch.clone()];
        // The head's own id moves: branches to the branch must now go to the head.
        edit::delete(function, &Ids::from_iter(gone));
        let position = function.position(at).expect("the branch stays");
        function.nodes.insert(position, head.clone());
        retarget_except(function, at, head.id);
        return vec![Change::new(before, after)];
    }
    Vec::new()
}

/// What is read where blocks begin.
struct Demands<'f> {
    function: &'f Function,
    cfg: &'f Cfg,
    ends: Vec<Demand>,
    calls: &'f Calls,
}

impl<'f> Demands<'f> {
    fn begin(&self, block: BlockId) -> Demand {
        let mut demand: Demand = self.ends[block.index()];
        let nodes = &self.function.nodes[self.cfg.blocks[block.index()].range.clone()];
        nodes.iter().rev().for_each(|node| demand.step_back(node, self.calls));
        demand
    }

    fn head(&self, block: BlockId) -> Option<&'f Node> {
        self.function.nodes.get(self.cfg.blocks[block.index()].range.start)
    }

    /// What one side of a branch begins with that is a block by itself, if the branch and its other side do not read
    /// the result, and no loads are run that were not.
    fn head_behind(&self, block: BlockId) -> Option<&'f Node> {
        let own = &self.cfg.blocks[block.index()];
        let branch = self.head(block).filter(|node| matches!(node.insn, Insn::Branch { .. }) && node.core.is_none())?;
        let [falls, jumps] = own.successors[..] else { return None };
        if own.range.len() != 1 {
            return None;
        }
        [(falls, jumps), (jumps, falls)].into_iter().find_map(|(side, other)| {
            let head = self.head(side)?;
            let written = head.insn.written()?;
            let unread = !branch.insn.read().contains(written) && self.begin(other).of(written) == 0;
            let computed = !matches!(head.insn, Insn::Load { .. });
            (self.cfg.blocks[side.index()].predecessors.len() == 1 && unread && computed).then_some(head)
        })
    }
}

/// Moves an instruction that every path into a block runs last, or may run last, into the block; one a call.
///
/// ```text
///   r1 = map[ports]                        w2 = *(u8 *)(r0 + 0)
///   w2 = *(u8 *)(r0 + 0)                   goto L
///   goto L                                 ...
///   ...                             -->    r2 = 7
///   r2 = 7                               L:
///   r1 = map[ports]                        r1 = map[ports]
/// L:                                       r3 = 0
///   r3 = 0
/// ```
pub fn sink_tails(context: Context<'_>) -> Vec<Change> {
    let Context { object, function, banned, .. } = context;
    let cfg = Cfg::new(function);
    for block in cfg.blocks.iter().filter(|block| block.predecessors.len() > 1) {
        let first = function.nodes[block.range.start].id;
        let ways: Option<Vec<Vec<&Node>>> = block
            .predecessors
            .iter()
            .map(|from| {
                let own = &cfg.blocks[from.index()];
                (own.successors.len() == 1).then(|| sinkable(&function.nodes[own.range.clone()]))
            })
            .collect();
        let Some(ways) = ways.filter(|_| !banned(first)) else { continue };
        let found = ways[0].iter().find_map(|node| {
            let others = ways[1..].iter().map(|way| way.iter().copied().find(|other| same(object, node, other)));
            let all: Option<Vec<&Node>> = std::iter::once(Some(*node)).chain(others).collect();
            all
        });
        let Some(alike) = found else { continue };
        let before: Vec<Node> = alike.into_iter().cloned().collect();
        let sunk = before[0].clone();
        edit::delete(function, &before.iter().map(|node| node.id).collect());
        let Some(position) = function.position(first) else { return Vec::new() };
        retarget_except(function, first, sunk.id);
        function.nodes.insert(position, sunk.clone());
        return vec![Change::new(before, vec![sunk])];
    }
    Vec::new()
}

/// Instructions of a block that could as well be its last, a jump aside: those that only compute a register, on which
/// nothing behind them depends. Loads are not: a store behind them may change what they read.
fn sinkable(nodes: &[Node]) -> Vec<&Node> {
    let mut found = Vec::new();
    let (mut read, mut written) = (RegSet::EMPTY, RegSet::EMPTY);
    for node in nodes.iter().rev().filter(|node| !matches!(node.insn, Insn::Jump { .. })) {
        if matches!(node.insn, Insn::Call(_) | Insn::LoadPacket { .. }) {
            break;
        }
        let free = |reg: Reg| !read.contains(reg) && !written.contains(reg);
        let only = only_computes(&node.insn) && !matches!(node.insn, Insn::Load { .. });
        if only && node.insn.written().is_some_and(free) && node.insn.read().iter().all(|reg| !written.contains(reg)) {
            found.push(node);
        }
        read = read.union(node.insn.read());
        node.insn.written().into_iter().for_each(|reg| written.insert(reg));
    }
    found
}

/// Sends branches to `from` to `to`.
fn retarget_except(function: &mut Function, from: InsnId, to: InsnId) {
    edit::retarget(function, &[(from, to)].into_iter().collect());
}

/// Moves a short arm that only sets registers above its branch, which then goes where the arm went; one a call.
pub fn hoist_arms(context: Context<'_>) -> Vec<Change> {
    let Context { function, calls, banned, .. } = context;
    let cfg = Cfg::new(function);
    let ends = demand::at_block_ends(function, &cfg, calls);
    let begin = |block: BlockId| {
        let mut demand: Demand = ends[block.index()];
        function.nodes[cfg.blocks[block.index()].range.clone()]
            .iter()
            .rev()
            .for_each(|node| demand.step_back(node, calls));
        demand
    };
    let exits = function.nodes.iter().filter(|node| node.insn == Insn::Exit).map(|node| node.id);
    let exits: Vec<InsnId> = exits.take(2).collect();
    for fork in forks(function, &cfg) {
        let branch = &function.nodes[fork.branch];
        let Insn::Branch { op, width, dst, src, offset } = branch.insn else { continue };
        if banned(branch.id) {
            continue;
        }
        let read = branch.insn.read();
        let hoistable = |arm: BlockId, other: BlockId| -> Option<(Vec<Node>, InsnId)> {
            let block = &cfg.blocks[arm.index()];
            let nodes = &function.nodes[block.range.clone()];
            let (last, body) = nodes.split_last()?;
            let simple = (1..=LONGEST_ARM).contains(&body.len()) && body.iter().all(is_simple);
            if !simple || block.predecessors.len() != 1 {
                return None;
            }
            let goes = match last.insn {
                Insn::Jump { .. } => last.target()?,
                // Any other exit will do.
                Insn::Exit => exits.iter().copied().find(|id| *id != last.id)?,
                _ => return None,
            };
            let written: RegSet = body.iter().filter_map(|node| node.insn.written()).collect();
            let demand = begin(other);
            let dead = written.iter().all(|reg| demand.of(reg) == 0 && !read.contains(reg) && reg != Reg::R10);
            let inside = nodes.iter().any(|node| node.id == goes);
            (dead && !inside).then(|| (body.to_vec(), goes))
        };
        // The arm that is jumped to goes whole: it has one predecessor, so nothing falls into it.
        if let Some((body, goes)) = hoistable(fork.jumps, fork.falls) {
            let arm = cfg.blocks[fork.jumps.index()].range.clone();
            let change = hoist(function, fork.branch, arm, &body, branch.insn, goes);
            return vec![change];
        }
        // The arm that follows, if the other arm comes right after it.
        let after = cfg.blocks[fork.falls.index()].range.end;
        let adjacent = cfg.blocks[fork.jumps.index()].range.start == after;
        if let (Some((body, goes)), Some(negated), true) =
            (hoistable(fork.falls, fork.jumps), op.row().negated, adjacent)
        {
            let arm = cfg.blocks[fork.falls.index()].range.clone();
            let insn = Insn::Branch { op: negated, width, dst, src, offset };
            return vec![hoist(function, fork.branch, arm, &body, insn, goes)];
        }
    }
    Vec::new()
}

fn is_simple(node: &Node) -> bool {
    node.core.is_none() && matches!(node.insn, Insn::Alu { op: AluOp::Mov, .. } | Insn::LoadImm64 { .. })
}

fn hoist(
    function: &mut Function,
    branch: usize,
    arm: std::ops::Range<usize>,
    body: &[Node],
    insn: Insn,
    goes: InsnId,
) -> Change {
    let old = function.nodes[branch].clone();
    let mut before = vec![old.clone()];
    before.extend(function.nodes[arm.clone()].iter().cloned());
    let new = Node { insn, reference: Reference::Branch(goes), ..old.clone() };
    let gone: Ids = function.nodes[arm].iter().map(|node| node.id).collect();
    function.nodes[branch] = new.clone();
    function.nodes.retain(|node| !gone.contains(&node.id));
    let position = function.position(old.id).expect("the branch stays");
    let heads: Vec<Node> = body.iter().map(|node| moved(node, node.id)).collect();
    function.nodes.splice(position..position, heads.iter().cloned());
    retarget_except(function, old.id, heads[0].id);
    let mut after = heads;
    after.push(new);
    Change::new(before, after)
}
