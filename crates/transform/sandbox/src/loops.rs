//! Where loops begin: the targets of retreating edges. Every cycle of a function passes through one of them.

use std::collections::{BTreeMap, BTreeSet};

use kiln_program::{BlockId, Cfg, Function, FunctionId, InsnId, Object, Reference};

/// Where each function's loops are, by the first instruction.
pub(crate) type Headers = BTreeMap<FunctionId, BTreeSet<InsnId>>;

/// The first instructions of a function's loops.
pub fn headers(function: &Function) -> BTreeSet<InsnId> {
    let cfg = Cfg::new(function);
    retreating(&cfg).into_keys().map(|block| function.nodes[cfg.blocks[block.index()].range.start].id).collect()
}

/// The positions of the instructions in the loop that begins with `header`, inner loops included: those from which its end is
/// reached before its beginning.
pub fn body(function: &Function, header: InsnId) -> BTreeSet<usize> {
    let cfg = Cfg::new(function);
    let first = |block: BlockId| function.nodes[cfg.blocks[block.index()].range.start].id;
    let Some((start, ends)) = retreating(&cfg).into_iter().find(|(block, _)| first(*block) == header) else {
        return BTreeSet::new();
    };
    let mut inside = BTreeSet::from([start]);
    let mut waiting = ends;
    while let Some(block) = waiting.pop() {
        if inside.insert(block) {
            let leads_there = |from: &BlockId| cfg.blocks[from.index()].successors.contains(&block);
            waiting.extend((0..cfg.blocks.len()).map(|at| BlockId(at as u32)).filter(leads_there));
        }
    }
    inside.into_iter().flat_map(|block| cfg.blocks[block.index()].range.clone()).collect()
}

/// The positions of the instructions in any loop of a function.
pub fn insides(function: &Function) -> BTreeSet<usize> {
    headers(function).into_iter().flat_map(|header| body(function, header)).collect()
}

/// The instructions of a loop, or of a whole function that has none which begins with `header`; and the functions that they call
/// or have run.
pub(crate) fn inside(object: &Object, id: FunctionId, header: InsnId) -> (BTreeSet<InsnId>, BTreeSet<FunctionId>) {
    let function = object.function(id);
    let body = body(function, header);
    let own = function.nodes.iter().enumerate().filter(|(at, _)| body.is_empty() || body.contains(at));
    let (mut insns, mut called) = (BTreeSet::new(), BTreeSet::new());
    for (_, node) in own {
        insns.insert(node.id);
        if let Reference::Function(callee) = node.reference {
            called.extend(object.reachable_functions(callee));
        }
    }
    (insns, called)
}

/// The blocks that retreating edges lead to, and those that these edges come from.
fn retreating(cfg: &Cfg) -> BTreeMap<BlockId, Vec<BlockId>> {
    let mut headers: BTreeMap<BlockId, Vec<BlockId>> = BTreeMap::new();
    if cfg.blocks.is_empty() {
        return headers;
    }
    /// What depth-first search knows of a block.
    #[derive(Clone, Copy, PartialEq)]
    enum Visit {
        Unseen,
        Open,
        Done,
    }
    let mut visits = vec![Visit::Unseen; cfg.blocks.len()];
    let mut stack = vec![(BlockId(0), 0)];
    visits[0] = Visit::Open;
    while let Some((block, next)) = stack.pop() {
        match cfg.blocks[block.index()].successors.get(next) {
            Some(successor) => {
                stack.push((block, next + 1));
                match visits[successor.index()] {
                    Visit::Unseen => {
                        visits[successor.index()] = Visit::Open;
                        stack.push((*successor, 0));
                    }
                    Visit::Open => {
                        headers.entry(*successor).or_default().push(block);
                    }
                    Visit::Done => {}
                }
            }
            None => visits[block.index()] = Visit::Done,
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outer_loop_contains_the_inner_one() {
        let text = "; program xdp\n  r1 = 9\nouter:\n  r2 = 9\ninner:\n  r2 -= 1\n  if r2 != 0 goto inner\n  r1 -= 1\n  \
                    if r1 != 0 goto outer\n  r0 = 2\n  exit\n";
        let object = kiln_program::text::parse(text).expect("a program");
        let function = &object.functions[0];
        let headers: Vec<_> = headers(function).into_iter().collect();
        let [outer, inner] = headers[..] else { panic!("{headers:?}") };
        assert_eq!(body(function, outer), (1..6).collect());
        assert_eq!(body(function, inner), (2..4).collect());
        assert!(body(function, function.nodes[0].id).is_empty());
    }
}
