//! The user-space half of a statement, behind the halves of its scans.

use super::engine::{Asked, Engine};
use super::join::Joiner;
use super::stages::Stages;
use super::{Limits, Lost, Row};
use crate::flow::{EngineQuery, Flow, Source};

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
    Engine(Vec<Running>, Box<Asked>),
}

/// Makes an engine for a query; fails with a sentence.
pub type MakeEngine<'m> = &'m dyn Fn(&EngineQuery) -> Result<Box<dyn Engine>, String>;

/// Says that there is no engine.
///
/// # Errors
/// Always.
pub fn no_engine(_: &EngineQuery) -> Result<Box<dyn Engine>, String> {
    Err("this build of kiln has no SQL engine (feature `engine`)".to_owned())
}

impl Running {
    /// A statement without rows, with engines for what engines compute of it.
    ///
    /// # Errors
    /// Returns a sentence if an engine cannot be made, or refuses its query.
    pub fn new(flow: &Flow, limits: Limits, engines: MakeEngine<'_>) -> Result<Running, String> {
        Running::numbered(flow, limits, engines, &mut 0)
    }

    fn numbered(flow: &Flow, limits: Limits, engines: MakeEngine<'_>, scans: &mut usize) -> Result<Running, String> {
        let all = |flows: &mut dyn Iterator<Item = &Flow>, scans: &mut usize| {
            flows.map(|flow| Running::numbered(flow, limits, engines, scans)).collect::<Result<Vec<_>, String>>()
        };
        let node = match &flow.source {
            Source::Scan(_) => {
                *scans += 1;
                Node::Scan(*scans - 1)
            }
            Source::Union(parts) => Node::Union(all(&mut parts.iter(), scans)?),
            Source::Join(join) => {
                let sides = all(&mut join.sides.iter(), scans)?;
                let sides = sides.try_into().map_err(|_| "a join has two sides".to_owned())?;
                Node::Join(Box::new((sides, Joiner::new(join, limits))))
            }
            Source::Engine(query) => {
                let inputs = all(&mut query.inputs.iter().map(|input| &input.flow), scans)?;
                Node::Engine(inputs, Box::new(Asked::new(query, limits, engines(query)?)))
            }
        };
        Ok(Running { node, stages: Stages::new(&flow.stages, limits), late_ns: limits.late_ns })
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
            Node::Engine(inputs, asked) => {
                for (number, input) in inputs.iter_mut().enumerate() {
                    asked.add(number, input.pass(rows, now_ns, is_over));
                }
                asked.advance((!is_over).then(|| now_ns.saturating_sub(self.late_ns)))
            }
        };
        self.stages.pass(own, is_over)
    }

    /// Whether no further row will be shown.
    pub fn is_done(&self) -> bool {
        self.stages.is_done()
            || match &self.node {
                Node::Union(parts) => parts.iter().all(Running::is_done),
                Node::Scan(_) | Node::Join(_) | Node::Engine(..) => false,
            }
    }

    /// Why no further row will be right: an engine failed.
    pub fn failure(&self) -> Option<&str> {
        match &self.node {
            Node::Scan(_) => None,
            Node::Union(parts) => parts.iter().find_map(Running::failure),
            Node::Join(join) => join.0.iter().find_map(Running::failure),
            Node::Engine(inputs, asked) => asked.failure().or_else(|| inputs.iter().find_map(Running::failure)),
        }
    }

    /// Sentences about the groups that found no room so far.
    pub fn refused(&self) -> Vec<String> {
        let mut refused = self.stages.refused();
        let mut inner = |parts: &[Running]| refused.extend(parts.iter().flat_map(Running::refused));
        match &self.node {
            Node::Scan(_) => {}
            Node::Union(parts) | Node::Engine(parts, _) => inner(parts),
            Node::Join(join) => inner(&join.0),
        }
        refused
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
            Node::Engine(inputs, asked) => {
                inputs.iter().for_each(|input| lost.add(input.lost()));
                lost.add(asked.lost());
            }
        }
        lost
    }
}
