//! Addresses that are made again and again, kept in a register that the function does not use.
//!
//! ```text
//!   r1 = map[counts]     (2 slots)            r9 = map[counts]
//!   call ...                                  r1 = r9
//!   r1 = map[counts]                  -->     call ...
//!   call ...                                  r1 = r9
//!   r1 = map[counts]                          call ...
//!   call ...                                  r1 = r9; call ...
//! ```
//!
//! What is kept depends on nothing: an address that the loader puts there, a constant, or the frame pointer and a
//! constant. So it may be made once at the function's start, in a callee-saved register that nothing else writes.

use kiln_isa::{AluOp, Insn, Reg, RegSet, Source, Width};
use kiln_program::{Function, InsnId, Node, Object, Reference};

use crate::control_flow::Change;
use crate::demand;
use crate::edit;
use crate::evidence::Law;
use kiln_program::Cfg;

/// What is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Made {
    /// A `ld_imm64`: its number or reference.
    Wide(kiln_isa::Imm64, Reference),
    /// The frame pointer and a constant.
    Frame(i32),
}

/// One place where it is made: the positions of its instructions.
struct Place {
    made: Made,
    dst: Reg,
    positions: Vec<usize>,
}

/// Keeps the value whose reuse saves most; one a call.
pub fn keep_addresses(object: &mut Object, function: &mut Function, banned: &dyn Fn(InsnId) -> bool) -> Vec<Change> {
    let used: RegSet = function
        .nodes
        .iter()
        .flat_map(|node| node.insn.read().iter().chain(node.insn.written()).collect::<Vec<_>>())
        .collect();
    let callee_saved = [Reg::R9, Reg::R8, Reg::R7, Reg::R6];
    let Some(free) = callee_saved.into_iter().find(|reg| !used.contains(*reg)) else { return Vec::new() };
    let places = places(function);
    // In a loop a verifier would carry one more pointer into every comparison of states.
    if loops(function) {
        return Vec::new();
    }
    let places: Vec<Place> =
        places.into_iter().filter(|place| !banned(function.nodes[place.positions[0]].id)).collect();
    let count = |made: Made| places.iter().filter(|place| place.made == made).count();
    let Some(best) = places.iter().map(|place| place.made).max_by_key(|made| count(*made)) else { return Vec::new() };
    // Each place goes from two slots to one; making it takes two.
    if count(best) < 3 {
        return Vec::new();
    }
    let mut before: Vec<Node> = Vec::new();
    let mut after: Vec<Node> = Vec::new();
    let mut gone: Vec<InsnId> = Vec::new();
    for place in places.iter().filter(|place| place.made == best) {
        before.extend(place.positions.iter().map(|at| function.nodes[*at].clone()));
        let (last, first) = place.positions.split_last().expect("it is made somewhere");
        gone.extend(first.iter().map(|at| function.nodes[*at].id));
        let node = &mut function.nodes[*last];
        node.insn = Insn::mov(place.dst, free);
        node.reference = Reference::None;
        after.push(node.clone());
    }
    edit::delete(function, &gone.into_iter().collect());
    let made = match best {
        Made::Wide(imm, reference) => vec![object.new_node(Insn::LoadImm64 { dst: free, imm }, reference)],
        Made::Frame(offset) => {
            let add = Insn::Alu { op: AluOp::Add, width: Width::W64, dst: free, src: Source::Imm(offset) };
            vec![object.new_node(Insn::mov(free, Reg::R10), Reference::None), object.new_node(add, Reference::None)]
        }
    };
    let line = function.nodes.first().and_then(|node| node.line);
    let made: Vec<Node> = made.into_iter().map(|node| Node { line, ..node }).collect();
    after.splice(0..0, made.iter().cloned());
    function.nodes.splice(0..0, made);
    vec![Change::new(Law::KeptAddress, before, after)]
}

/// Whether some branch goes back.
fn loops(function: &Function) -> bool {
    let position: std::collections::HashMap<InsnId, usize> =
        function.nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect();
    let back =
        |(at, node): (usize, &Node)| node.target().and_then(|target| position.get(&target)).is_some_and(|to| *to <= at);
    function.nodes.iter().enumerate().any(back)
}

fn places(function: &Function) -> Vec<Place> {
    let cfg = Cfg::new(function);
    let ends = demand::at_block_ends(function, &cfg);
    let mut places = Vec::new();
    for (block, end) in cfg.blocks.iter().zip(ends) {
        let nodes = &function.nodes[block.range.clone()];
        let demand = demand::after_each(nodes, end);
        for (index, node) in nodes.iter().enumerate() {
            let at = block.range.start + index;
            match node.insn {
                _ if node.core.is_some() => {}
                Insn::LoadImm64 { dst, imm } => {
                    places.push(Place { made: Made::Wide(imm, node.reference), dst, positions: vec![at] });
                }
                Insn::Alu { op: AluOp::Add, width: Width::W64, dst, src: Source::Imm(offset) } => {
                    let copy = Insn::mov(dst, Reg::R10);
                    let first = index.checked_sub(1).filter(|first| nodes[*first].insn == copy);
                    if first.is_some() && demand[index].of(dst) > 0 && nodes[index - 1].core.is_none() {
                        places.push(Place { made: Made::Frame(offset), dst, positions: vec![at - 1, at] });
                    }
                }
                _ => {}
            }
        }
    }
    places
}
