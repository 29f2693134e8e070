//! Code that occurs twice and goes on at the same places: one of the two is kept.
//!
//! ```text
//!   if r2 == 0 goto old                          if r2 == 0 goto old
//!   r1 = *(u64 *)(r1 + 96)                       r1 = *(u64 *)(r1 + 96)
//!   call get_current_pid_tgid                    goto both
//!   if w0 != 7 goto out                        old:
//!   goto count                                   r1 = *(u64 *)(r1 + 104)
//! old:                                         both:
//!   r1 = *(u64 *)(r1 + 104)                      call get_current_pid_tgid
//!   call get_current_pid_tgid                    if w0 != 7 goto out
//!   if w0 != 7 goto out                        count:
//! count:
//! ```
//!
//! Two instructions are *equivalent* if they are equal and what follows them is equivalent. Each instruction gets the
//! number of its class, from the exits backwards, so that whole regions with branches and calls are found in one pass.
//! An edge back to the start of a loop has no class yet, and is equal only to edges to the same place. Of a class one
//! instruction is kept. Runs of others are removed, and branches to them go to the kept ones.

use std::collections::HashMap;
use std::ops::Range;

use kiln_isa::{CallTarget, Insn};
use kiln_platform::helper_id;
use kiln_program::{ById, Cfg, Function, Ids, InsnId, Node, Object, Reference};

use crate::edit;
use crate::laws::context::{Change, Context};

/// Merges equivalent code of a function, the longest runs first.
pub fn share_tails(context: Context<'_>) -> Vec<Change> {
    let Context { object, function, banned, most, .. } = context;
    let cfg = Cfg::new(function);
    share_tails_in(object, function, &cfg, (most, banned))
}

/// [`share_tails`], given the graph, how many changes there may be, and where there must be none.
pub(super) fn share_tails_in(
    object: &Object,
    function: &mut Function,
    cfg: &Cfg,
    (most, banned): (usize, &dyn Fn(InsnId) -> bool),
) -> Vec<Change> {
    let Some(classes) = Classes::of(object, function, cfg) else { return Vec::new() };
    let total = |runs: &Vec<Run>| runs.iter().map(|run| run.saved).sum::<u32>();
    let [first, last] = [false, true].map(|last| classes.runs(last, banned));
    let mut runs = if total(&last) > total(&first) { last } else { first };
    runs.sort_by_key(|run| (std::cmp::Reverse(run.saved), run.range.start));
    runs.truncate(most);
    let changes: Vec<Change> =
        runs.iter().map(|run| Change::new(run.nodes(function), run.jump.iter().cloned().collect())).collect();
    let heirs: ById<InsnId> = runs.iter().flat_map(|run| run.heirs.iter().copied()).collect();
    edit::retarget(function, &heirs);
    runs.sort_by_key(|run| std::cmp::Reverse(run.range.start));
    edit::replace_all(function, runs.into_iter().map(|run| (run.range, run.jump.into_iter().collect())).collect());
    changes
}

/// Where control goes on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Next {
    /// At an instruction of this class.
    Class(u32),
    /// At this position, whose class is not known: it is earlier in the function, or a place of its own.
    Position(usize),
}

/// What instructions of one class have in common: the instruction, what it refers to, its relocation, and what follows.
type Key = (Insn, Reference, Option<u32>, [Option<Next>; 2]);

/// The class of each instruction.
struct Classes<'a> {
    nodes: &'a [Node],
    /// The class by position; `None`: no path reaches it.
    of: Vec<Option<u32>>,
    /// How many there are.
    count: usize,
    /// Instructions that a branch or a jump table names.
    targets: Ids,
    /// Instructions that a jump table names: they stay.
    fixed: Ids,
}

/// Equivalent code that is not kept.
struct Run {
    range: Range<usize>,
    /// The jump in its place, if the instruction before falls into it.
    jump: Option<Node>,
    /// The kept instruction of each one that is removed.
    heirs: Vec<(InsnId, InsnId)>,
    saved: u32,
}

impl Run {
    fn nodes(&self, function: &Function) -> Vec<Node> {
        function.nodes[self.range.clone()].to_vec()
    }
}

impl<'a> Classes<'a> {
    /// The classes of a function; `None` if no two instructions are equivalent.
    fn of(object: &Object, function: &'a Function, cfg: &Cfg) -> Option<Classes<'a>> {
        let nodes = &function.nodes[..];
        let mut relocations = HashMap::new();
        let mut numbers: HashMap<Key, u32> = HashMap::with_capacity(nodes.len());
        let mut of: Vec<Option<u32>> = vec![None; nodes.len()];
        let mut repeated = false;
        for block in cfg.reverse_postorder().into_iter().rev() {
            for at in cfg.blocks[block.index()].range.clone().rev() {
                let node = &nodes[at];
                let next = |at: usize| of[at].map_or(Next::Position(at), Next::Class);
                let target = node.target().and_then(|id| cfg.position.get(&id)).map(|at| next(*at));
                if let (Insn::Jump { .. }, Some(Next::Class(class))) = (node.insn, target) {
                    of[at] = Some(class);
                    continue;
                }
                let own = stays_in_its_place(node).then_some(Next::Position(at));
                let falls = (node.insn.falls_through() && at + 1 < nodes.len()).then(|| next(at + 1));
                let relocation = node.core.map(|id| {
                    let core = &object.core[id.index()];
                    let number = relocations.len() as u32;
                    let key = (core.type_id, &core.access, core.access_offset, core.kind, core.keeps_width);
                    *relocations.entry(key).or_insert(number)
                });
                let reference = if node.target().is_some() { Reference::None } else { node.reference };
                let number = numbers.len() as u32;
                let class =
                    *numbers.entry((node.insn, reference, relocation, [own.or(falls), target])).or_insert(number);
                repeated |= class != number;
                of[at] = Some(class);
            }
        }
        let fixed = function.jump_targets().into_iter().collect();
        repeated.then(|| Classes { nodes, of, count: numbers.len(), targets: edit::targets(function), fixed })
    }

    /// The runs that need not be there, if the first or the last instruction of each class is kept.
    fn runs(&self, last: bool, banned: &dyn Fn(InsnId) -> bool) -> Vec<Run> {
        let mut kept: Vec<Option<usize>> = vec![None; self.count];
        let mut keep = |at: usize| {
            if let (Some(class), false) = (self.of[at], is_jump(&self.nodes[at])) {
                kept[class as usize].get_or_insert(at);
            }
        };
        // The entry stays, and so does what a jump table names.
        let stays = |at: &usize| *at == 0 || self.fixed.contains(&self.nodes[*at].id);
        (0..self.nodes.len()).filter(stays).for_each(&mut keep);
        match last {
            false => (0..self.nodes.len()).for_each(keep),
            true => (0..self.nodes.len()).rev().for_each(keep),
        }
        let heir = |at: usize| {
            let heir = kept[self.of[at]? as usize].filter(|heir| *heir != at)?;
            (!is_jump(&self.nodes[at]) && !stays(&at)).then_some(self.nodes[heir].id)
        };
        let mut runs = Vec::new();
        let mut at = 0;
        while at < self.nodes.len() {
            let heirs: Vec<_> = (at..self.nodes.len()).map_while(|at| Some((self.nodes[at].id, heir(at)?))).collect();
            let start = at;
            at += heirs.len().max(1);
            runs.extend(self.run(start, heirs).filter(|_| !banned(self.nodes[start].id)));
        }
        runs
    }

    /// The run of these instructions and a jump behind it, if removing it saves slots.
    fn run(&self, start: usize, heirs: Vec<(InsnId, InsnId)>) -> Option<Run> {
        let mut end = start + heirs.len();
        let (_, first) = heirs.first()?;
        let behind = self.nodes.get(end).filter(|node| is_jump(node) && !self.targets.contains(&node.id));
        end += usize::from(behind.is_some() && self.nodes[end - 1].insn.falls_through());
        let entered = self.nodes[start - 1].insn.falls_through();
        let jump = entered.then(|| {
            let insn = Insn::Jump { offset: 0, long: false };
            Node { insn, reference: Reference::Branch(*first), core: None, ..self.nodes[end - 1].clone() }
        });
        let slots: u32 = self.nodes[start..end].iter().map(|node| node.insn.slots()).sum();
        let saved = slots.checked_sub(u32::from(entered)).filter(|saved| *saved > 0)?;
        Some(Run { range: start..end, jump, heirs, saved })
    }
}

fn is_jump(node: &Node) -> bool {
    matches!(node.insn, Insn::Jump { .. })
}

/// Whether an instruction is equivalent to no other one. The kernel keeps a state for each call of a function and for each
/// `may_goto`. Of a call it keeps what the last path to it passed: which type `bpf_obj_new` makes, whether a pointer is one to
/// memory of each CPU. An indirect jump has many targets.
fn stays_in_its_place(node: &Node) -> bool {
    match node.insn {
        Insn::Call(CallTarget::Helper(id)) => matches!(id, helper_id::PER_CPU_PTR | helper_id::THIS_CPU_PTR),
        Insn::Call(CallTarget::Subprogram(_) | CallTarget::Kfunc { .. }) => true,
        Insn::MayGoto { .. } | Insn::JumpIndirect { .. } => true,
        _ => false,
    }
}
