//! Where loops begin: the targets of retreating edges. Every cycle of a function passes through one of them.

use std::collections::BTreeSet;

use kiln_program::{BlockId, Cfg, Function, InsnId};

/// The first instructions of a function's loops.
pub fn headers(function: &Function) -> BTreeSet<InsnId> {
    let cfg = Cfg::new(function);
    let mut headers = BTreeSet::new();
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
                        headers.insert(function.nodes[cfg.blocks[successor.index()].range.start].id);
                    }
                    Visit::Done => {}
                }
            }
            None => visits[block.index()] = Visit::Done,
        }
    }
    headers
}
