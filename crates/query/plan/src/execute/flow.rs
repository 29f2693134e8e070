//! The user-space half of a statement, behind the halves of its scans.

use super::join::Joiner;
use super::stages::Stages;
use super::{Limits, Lost, Row};
use crate::flow::{Flow, Source};

/// A statement that runs.
pub struct Running {
    node: Node,
    stages: Stages,
    late_ns: u64,
}

enum Node {
    /// A scan, by its number.
    Scan(usize),
    Union(Vec<Running>),
    Join(Box<([Running; 2], Joiner)>),
}

impl Running {
    /// A statement without rows.
    pub fn new(flow: &Flow, limits: Limits) -> Running {
        Running::numbered(flow, limits, &mut 0)
    }

    fn numbered(flow: &Flow, limits: Limits, scans: &mut usize) -> Running {
        let node = match &flow.source {
            Source::Scan(_) => {
                *scans += 1;
                Node::Scan(*scans - 1)
            }
            Source::Union(parts) => {
                Node::Union(parts.iter().map(|part| Running::numbered(part, limits, scans)).collect())
            }
            Source::Join(join) => {
                let sides = join.sides.each_ref().map(|side| Running::numbered(side, limits, scans));
                Node::Join(Box::new((sides, Joiner::new(join, limits))))
            }
        };
        Running { node, stages: Stages::new(&flow.stages, limits), late_ns: limits.late_ns }
    }

    /// Passes the rows of each scan on, at a time of the monotonic clock; `is_over` says that there are no more. Returns
    /// the rows of the result that are ready.
    pub fn pass(&mut self, rows: &mut [Vec<Row>], now_ns: u64, is_over: bool) -> Vec<Row> {
        let own = match &mut self.node {
            Node::Scan(number) => std::mem::take(&mut rows[*number]),
            Node::Union(parts) => {
                let mut all: Vec<Row> = parts.iter_mut().flat_map(|part| part.pass(rows, now_ns, is_over)).collect();
                // The rows of a window stay together.
                all.sort_by_key(|row| row.window);
                all
            }
            Node::Join(join) => {
                let (sides, joiner) = &mut **join;
                for (number, side) in sides.iter_mut().enumerate() {
                    side.pass(rows, now_ns, is_over).into_iter().for_each(|row| joiner.add(number, row.values));
                }
                joiner.advance((!is_over).then(|| now_ns.saturating_sub(self.late_ns)))
            }
        };
        self.stages.pass(own, is_over)
    }

    /// Whether no further row will be shown.
    pub fn is_done(&self) -> bool {
        self.stages.is_done()
            || match &self.node {
                Node::Union(parts) => parts.iter().all(Running::is_done),
                Node::Scan(_) | Node::Join(_) => false,
            }
    }

    /// What was lost so far.
    pub fn lost(&self) -> Lost {
        let mut lost = self.stages.lost();
        match &self.node {
            Node::Scan(_) => {}
            Node::Union(parts) => parts.iter().for_each(|part| lost.add(part.lost())),
            Node::Join(join) => {
                join.0.iter().for_each(|side| lost.add(side.lost()));
                lost.add(join.1.lost());
            }
        }
        lost
    }
}
