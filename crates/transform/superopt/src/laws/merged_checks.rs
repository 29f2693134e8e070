//! Checks of a packet's length that one check can do.
//!
//! ```text
//!   r2 = r7                           r2 = r7
//!   r2 += 14                          r2 += 34
//!   if r2 > r1 goto out        -->    if r2 > r1 goto out
//!   w3 = *(u16 *)(r7 + 12)            w3 = *(u16 *)(r7 + 12)
//!   if w3 != 8 goto out               if w3 != 8 goto out
//!   r2 = r7
//!   r2 += 34
//!   if r2 > r1 goto out
//! ```
//!
//! Both leave for the same place, and what is in between only computes, so that nobody can tell a packet that is too
//! short for the second from one that is too short for the first. The pointers must be of one packet, a constant
//! apart: packets are far shorter than the address space, so the larger sum is past the end wherever the smaller is.

use kiln_isa::{AluOp, Insn, JumpOp, Reg, RegSet, Source, Width};
use kiln_program::{BlockId, Cfg, Function, InsnId, Node};
use kiln_verifier::{Facts, Region, Value};

use crate::edit;
use crate::flow::calls::Calls;
use crate::flow::demand::{self, Demand, only_computes};
use crate::laws::context::{Change, Context};

/// Blocks between two checks at most.
const FARTHEST: usize = 8;

/// A value that nothing is known of, by its number, and a constant.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sum {
    root: u32,
    offset: i64,
}

/// Sums of all registers.
struct Sums {
    now: [Sum; Reg::COUNT],
    roots: u32,
}

impl Sums {
    fn new() -> Sums {
        Sums { now: std::array::from_fn(|at| Sum { root: at as u32, offset: 0 }), roots: Reg::COUNT as u32 }
    }

    fn of(&self, reg: Reg) -> Sum {
        self.now[reg.index()]
    }

    fn step(&mut self, node: &Node) {
        let Some(dst) = node.insn.written() else { return };
        let made = match node.insn {
            _ if node.core.is_some() => None,
            Insn::Alu { op: AluOp::Mov, width: Width::W64, src: Source::Reg(src), .. } => Some(self.of(src)),
            Insn::Alu { op: AluOp::Add, width: Width::W64, src: Source::Imm(imm), .. } => {
                let Sum { root, offset } = self.of(dst);
                offset.checked_add(i64::from(imm)).map(|offset| Sum { root, offset })
            }
            _ => None,
        };
        self.roots += 1;
        self.now[dst.index()] = made.unwrap_or(Sum { root: self.roots, offset: 0 });
    }
}

/// A branch taken when a packet pointer is past the packet's end.
#[derive(Clone, Copy)]
struct Check {
    at: usize,
    pointer: Reg,
    end: Reg,
    out: InsnId,
}

fn check(function: &Function, facts: &Facts, at: usize) -> Option<Check> {
    let node = &function.nodes[at];
    let Insn::Branch { op, width: Width::W64, dst, src: Source::Reg(src), .. } = node.insn else { return None };
    let (pointer, end) = match op {
        JumpOp::Gt => (dst, src),
        JumpOp::Lt => (src, dst),
        _ => return None,
    };
    let known = facts.at(node.id).filter(|_| node.core.is_none())?;
    let region = |reg: Reg| match &known.registers[reg.index()] {
        Value::Pointer(pointer) if !pointer.nullable => Some(&pointer.region),
        _ => None,
    };
    let is_check = region(pointer) == Some(&Region::Packet) && region(end) == Some(&Region::PacketEnd);
    is_check.then_some(Check { at, pointer, end, out: node.target()? })
}

/// Merges the first two checks for which that can be done.
pub fn merge_checks(context: Context<'_>) -> Vec<Change> {
    let facts = context.known();
    let Context { function, calls, banned, .. } = context;
    let cfg = Cfg::new(function);
    let ends = demand::at_block_ends(function, &cfg, calls);
    for (index, block) in cfg.blocks.iter().enumerate() {
        let Some(first) = check(function, facts, block.range.end - 1) else { continue };
        if banned(function.nodes[first.at].id) {
            continue;
        }
        let mut sums = Sums::new();
        function.nodes[block.range.clone()].iter().for_each(|node| sums.step(node));
        let (pointer, end) = (sums.of(first.pointer), sums.of(first.end));
        let Some(second) = second(function, &cfg, facts, first, &mut sums) else { continue };
        let Sum { root, offset } = sums.of(second.pointer);
        let between = &function.nodes[first.at + 1..second.at];
        if root != pointer.root
            || sums.of(second.end) != end
            || is_missed(function, &cfg, &ends, first.out, between, calls)
        {
            continue;
        }
        let more = offset - pointer.offset;
        let plan = if more <= 0 {
            Some(Plan::Nothing)
        } else {
            plan(function, block.range.start, ends[index], first, second, more)
        };
        if let Some(plan) = plan {
            return vec![merge(function, first, second, plan)];
        }
    }
    Vec::new()
}

/// The next check on the way that falls through from one, with the sums before it.
fn second(function: &Function, cfg: &Cfg, facts: &Facts, first: Check, sums: &mut Sums) -> Option<Check> {
    let next = cfg.block_of[first.at].index() + 1;
    for block in next..next + FARTHEST {
        let own = cfg.blocks.get(block)?;
        // The only way into it is falling through.
        if own.predecessors[..] != [BlockId(block as u32 - 1)] {
            return None;
        }
        let (last, body) = function.nodes[own.range.clone()].split_last()?;
        for node in body {
            if !only_computes(&node.insn) {
                return None;
            }
            sums.step(node);
        }
        match last.insn {
            Insn::Branch { .. } if last.target() == Some(first.out) => {
                if let Some(second) = check(function, facts, own.range.end - 1) {
                    return Some(second);
                }
            }
            _ if only_computes(&last.insn) => sums.step(last),
            _ => return None,
        }
    }
    None
}

/// Whether the code that both checks leave for reads what was computed between them.
fn is_missed(function: &Function, cfg: &Cfg, ends: &[Demand], out: InsnId, between: &[Node], calls: &Calls) -> bool {
    let block = cfg.block_of[cfg.position[&out]].index();
    let mut demand = ends[block];
    function.nodes[cfg.blocks[block].range.clone()].iter().rev().for_each(|node| demand.step_back(node, calls));
    between.iter().filter_map(|node| node.insn.written()).any(|reg| demand.of(reg) > 0)
}

/// How the first check comes to look at the second one's bytes.
enum Plan {
    /// It does.
    Nothing,
    /// The addition that makes its pointer adds that much.
    Add(usize, i32),
    /// The copy and the addition that make the second one's pointer come before it.
    Earlier(usize),
}

fn plan(function: &Function, begin: usize, end: Demand, first: Check, second: Check, more: i64) -> Option<Plan> {
    let touches = |node: &Node, reg: Reg| node.insn.written() == Some(reg) || node.insn.read().contains(reg);
    let made = (begin..first.at).rev().find(|at| touches(&function.nodes[*at], first.pointer));
    if let Some(at) = made
        && end.of(first.pointer) == 0
        && let Insn::Alu { op: AluOp::Add, width: Width::W64, dst, src: Source::Imm(imm) } = function.nodes[at].insn
        && dst == first.pointer
        && function.nodes[at].core.is_none()
    {
        let imm = i32::try_from(i64::from(imm) + more).ok()?;
        return Some(Plan::Add(at, imm));
    }
    // Otherwise the first pointer is needed as it is.
    let reg = second.pointer;
    let writes: Vec<usize> =
        (first.at + 1..second.at).filter(|at| function.nodes[*at].insn.written() == Some(reg)).collect();
    let [copy, add] = writes[..] else { return None };
    let (
        Insn::Alu { op: AluOp::Mov, width: Width::W64, src: Source::Reg(src), .. },
        Insn::Alu { op: AluOp::Add, width: Width::W64, src: Source::Imm(_), .. },
    ) = (function.nodes[copy].insn, function.nodes[add].insn)
    else {
        return None;
    };
    let between = &function.nodes[first.at + 1..copy];
    let plain = function.nodes[copy].core.is_none() && function.nodes[add].core.is_none();
    let same = between.iter().all(|node| node.insn.written() != Some(src));
    let operands = RegSet::of(&[first.pointer, first.end]);
    let free = end.of(reg) == 0 && !operands.contains(reg) && src != reg;
    (add == copy + 1 && plain && same && free).then_some(Plan::Earlier(copy))
}

fn merge(function: &mut Function, first: Check, second: Check, plan: Plan) -> Change {
    let at = function.nodes[first.at].id;
    let mut before = vec![function.nodes[second.at].clone()];
    let mut after = Vec::new();
    let gone = function.nodes[second.at].id;
    match plan {
        Plan::Nothing => {}
        Plan::Add(position, imm) => {
            let node = &mut function.nodes[position];
            before.push(node.clone());
            let Insn::Alu { op, width, dst, .. } = node.insn else { unreachable!("it was an addition") };
            node.insn = Insn::Alu { op, width, dst, src: Source::Imm(imm) };
            after.push(node.clone());
        }
        Plan::Earlier(copy) => {
            let node = &mut function.nodes[first.at];
            before.push(node.clone());
            if let Insn::Branch { dst, src, .. } = &mut node.insn {
                if *dst == first.pointer {
                    *dst = second.pointer;
                } else {
                    *src = Source::Reg(second.pointer);
                }
            }
            after.push(node.clone());
            let target = node.id;
            let made: Vec<Node> = function.nodes.drain(copy..copy + 2).collect();
            let head = made[0].id;
            function.nodes.splice(first.at..first.at, made);
            // Branches that led to the check alone now lead to the instructions that make its pointer.
            edit::retarget(function, &[(target, head)].into_iter().collect());
        }
    }
    edit::delete(function, &[gone].into_iter().collect());
    Change::at(at, before, after)
}
