//! Operations with operands that may be exchanged, done in the register of the operand that is not needed any more.
//!
//! ```text
//!   r3 <<= 2                      r3 <<= 2
//!   r4 = r7                       r3 += r7
//!   r4 += r3                -->   *(u8 *)(r3 + 0) = 1
//!   *(u8 *)(r4 + 0) = 1
//! ```
//!
//! Compilers add an index to a copy of an address. Here the address is added to the index, and then copied where the sum
//! was wanted. [`register_coalescing`] spares that copy, if one of the two registers is free for the other's lifetime.

use kiln_isa::{AluOp, Insn, Reg, Source, Width};
use kiln_program::{Cfg, Function, Node};

use crate::flow::calls::Calls;
use crate::flow::demand;
use crate::laws::available_values;
use crate::laws::context::{Change, Context};
use crate::laws::register_coalescing::{self, LONGEST_TRIED};
use crate::laws::trial::Trial;

/// Maximum number of trials for one change.
const MAX_TRIALS: usize = 64;

/// A copy and an operation on it with another register that is dead afterwards.
struct Sum {
    /// Positions of the copy and the operation.
    copy: usize,
    at: usize,
    op: AluOp,
    width: Width,
    /// The register of the result.
    dst: Reg,
    /// The register that is copied, and the other operand.
    copied: Reg,
    other: Reg,
}

/// Exchanges the operands of one operation, if that makes the function smaller.
pub fn exchange_operands(context: Context<'_>) -> Vec<Change> {
    let Context { object, function, calls, banned, banned_by, .. } = context;
    if function.nodes.len() > LONGEST_TRIED {
        return Vec::new();
    }
    let sums = sums(function, calls);
    let mut sums = sums.into_iter().filter(|sum| !banned(function.nodes[sum.copy].id)).take(MAX_TRIALS).peekable();
    if sums.peek().is_none() {
        return Vec::new();
    }
    let original = function.clone();
    let trial = Trial::new(object, calls, &original);
    for sum in sums {
        let [at, result] = [sum.copy, sum.at].map(|place| original.nodes[place].id);
        let mut candidate = sum.exchanged(&original);
        available_values::use_available(object, &mut candidate, &|id| banned_by("available-value", id));
        register_coalescing::coalesce(object, &mut candidate, calls, &|id| id != result);
        if let Some((candidate, change)) = trial.gain(object, at, candidate) {
            *function = candidate;
            return vec![change];
        }
    }
    Vec::new()
}

/// All operations of a function whose operands may be exchanged.
fn sums(function: &Function, calls: &Calls) -> Vec<Sum> {
    let cfg = Cfg::new(function);
    let ends = demand::at_block_ends(function, &cfg, calls);
    let mut found = Vec::new();
    for (block, end) in cfg.blocks.iter().zip(ends) {
        let nodes = &function.nodes[block.range.clone()];
        let after = demand::after_each(nodes, end, calls);
        let own = (0..nodes.len()).filter_map(|copy| sum(nodes, copy, calls));
        let own = own.filter(|sum| after[sum.at].of(sum.other) == 0);
        let start = block.range.start;
        found.extend(own.map(|sum| Sum { copy: start + sum.copy, at: start + sum.at, ..sum }));
    }
    found
}

/// The operation on a copy, if the instructions between the two leave its operands alone.
fn sum(nodes: &[Node], copy: usize, calls: &Calls) -> Option<Sum> {
    let Insn::Alu { op: AluOp::Mov, width: whole, dst, src: Source::Reg(copied) } = nodes[copy].insn else {
        return None;
    };
    let touches = |node: &Node, reg: Reg| {
        demand::reads(node, reg, calls) || node.insn.written() == Some(reg) || matches!(node.insn, Insn::Call(_))
    };
    let at = (copy + 1..nodes.len()).find(|at| touches(&nodes[*at], dst))?;
    let Insn::Alu { op, width, dst: result, src: Source::Reg(other) } = nodes[at].insn else { return None };
    let commutes = matches!(op, AluOp::Add | AluOp::And | AluOp::Or | AluOp::Xor | AluOp::Mul);
    let is_plain = nodes[copy].core.is_none() && nodes[at].core.is_none() && (whole == Width::W64 || whole == width);
    let between = &nodes[copy + 1..at];
    let fits = commutes && is_plain && result == dst && ![dst, copied, Reg::R10].contains(&other);
    let free = fits && !between.iter().any(|node| touches(node, other));
    free.then_some(Sum { copy, at, op, width, dst, copied, other })
}

impl Sum {
    /// The function with the operation in the other operand's register, and its result copied.
    fn exchanged(&self, function: &Function) -> Function {
        let mut function = function.clone();
        let src = Source::Reg(self.copied);
        function.nodes[self.copy].insn = Insn::Alu { op: self.op, width: self.width, dst: self.other, src };
        function.nodes[self.at].insn = Insn::mov(self.dst, self.other);
        function
    }
}
