//! What is known at the end of each segment, and the proof of every segment.

use std::collections::BTreeSet;

use kiln_isa::{Insn, Reg, RegSet};

use crate::helpers::LEAST_LARGE_ITEMS;
use crate::simulation::arrival::{Arrival, differing_bytes};
use crate::simulation::events::{effects, index};
use crate::simulation::explorer::{Edge, Explorer, Pair, To};
use crate::simulation::proof::{Meeting, Simulation};
use crate::simulation::relation::Relation;
use crate::simulation::relation_record::RelationRecord;
use crate::simulation::segment::{End, Proved};
use crate::simulation::segment_record::SegmentRecord;
use crate::simulation::unproved::Unproved;
use crate::term::Arena;
use crate::window::record::FactsRecord;

impl<'f> Explorer<'_, 'f> {
    /// What is known at the cuts after a segment.
    pub(super) fn arrivals(&self, pair: Pair, edge: &Edge<'f>) -> Result<Vec<(Pair, Arrival)>, Unproved> {
        let places = match edge.to {
            To::Nowhere => return Ok(Vec::new()),
            To::Cut(to) => vec![to],
            To::Event(at) => self.behind(at)?,
        };
        let arena = Arena::new();
        let segment = self.whole(pair, edge)?;
        let ran = segment.run(&arena)?;
        let holds: Vec<_> = ran.given.iter().chain(ran.conditions.iter().flatten()).copied().collect();
        let (overwrites, result) = match edge.to {
            To::Event((at, _)) => effects(&self.old.node(at)?.insn),
            _ => (RegSet::EMPTY, None),
        };
        let arrival = |to: Pair| {
            let arrival = Arrival::of(&ran.world, &ran.ends, &holds, overwrites);
            (to, arrival.with_result(&ran.world, result))
        };
        let arrivals: Vec<_> = places.into_iter().filter(|to| !self.is_before_changes(*to)).map(arrival).collect();
        if let To::Event((at, _)) = edge.to {
            let mut differ = differing_bytes(&ran.world, &ran.ends, &holds);
            differ.retain(|byte| ran.ends[0].uses.reads(i64::from(*byte)));
            // Terms with different forms may be equal. For bytes that are read the solver is asked, as the proof will
            // ask it.
            if !segment.bytes_agree(&ran, &differ, self.question.solver_steps) {
                self.may_differ_at(at, &differ)?;
            }
        }
        Ok(arrivals)
    }

    /// Checks that the old function reads none of these bytes of the frame from a place on.
    fn may_differ_at(&self, at: usize, bytes: &BTreeSet<i32>) -> Result<(), Unproved> {
        let node = self.old.node(at)?;
        if bytes.is_empty() || node.insn == Insn::Exit {
            return Ok(());
        }
        let live = self.stack_read_from(at);
        match bytes.iter().find(|byte| live.contains(**byte)) {
            Some(byte) => Err(Unproved::Differs(format!("stack byte {byte} differs before {}", self.what(node)))),
            None => Ok(()),
        }
    }

    /// Proves every segment.
    pub(super) fn prove(&self) -> Result<Simulation, Unproved> {
        let mut simulation = Simulation::default();
        let mut alikes = Vec::new();
        let all: Vec<_> = self.edges.iter().flat_map(|(pair, edges)| edges.iter().map(|edge| (*pair, edge))).collect();
        let prove = |(pair, edge): &(Pair, &Edge<'f>)| self.prove_edge(*pair, edge);
        for proved in self.question.helpers.each(&all, self.instructions(), LEAST_LARGE_ITEMS, prove, Result::is_err) {
            for (proved, record) in proved? {
                match proved {
                    None => simulation.identical += 1,
                    Some(Proved::Normalized) => simulation.normalized += 1,
                    Some(Proved::Smt) => simulation.smt += 1,
                }
                let kept = if proved.is_none() { &mut alikes } else { &mut simulation.segments };
                kept.extend(record);
            }
        }
        if self.question.keep_segments {
            simulation.meetings = self.meetings();
        }
        // If only unreachable instructions were removed, the segments that remain are all that can be shown.
        if simulation.segments.is_empty() {
            simulation.segments = alikes;
        }
        Ok(simulation)
    }

    /// Proves a segment for each place after it. Returns how, `None` for a segment that is alike in both functions, and
    /// the segment as data, if that is kept.
    #[expect(clippy::type_complexity, reason = "used once")]
    fn prove_edge(
        &self,
        pair: Pair,
        edge: &Edge<'f>,
    ) -> Result<Vec<(Option<Proved>, Option<SegmentRecord>)>, Unproved> {
        self.go_on()?;
        let prove = |end: End| {
            let segment = self.whole(pair, edge)?;
            let alike = segment.is_alike() && end.asks_identity();
            let proved = (!alike).then(|| segment.prove(&end, self.question.solver_steps)).transpose()?;
            Ok((proved, self.question.keep_segments.then(|| SegmentRecord::of(&segment, &end))))
        };
        self.ends(edge)?.into_iter().map(prove).collect()
    }

    /// The pairs of places that the proof uses, as data.
    fn meetings(&self) -> Vec<Meeting> {
        let meeting = |(pair, relation): (&Pair, &Relation)| {
            let [old, new] = [self.question.before.nodes.get(pair.0)?, self.question.after.nodes.get(pair.1)?];
            let facts = self.question.known(old.id).map(|facts| FactsRecord::of(facts, RegSet::ALL, true));
            Some(Meeting { at: [old.id, new.id], relation: RelationRecord::of(relation), facts })
        };
        self.relations.iter().filter_map(meeting).collect()
    }

    /// What must hold at the end of a segment, for each place after it.
    fn ends(&self, edge: &Edge<'f>) -> Result<Vec<End>, Unproved> {
        Ok(match edge.to {
            To::Nowhere => vec![End { never: true, what: "no way".to_owned(), ..End::default() }],
            To::Cut(to) => {
                let what = self.what(self.old.node(to.0)?);
                vec![End { what, relation: Some(self.relations[&to].clone()), ..End::default() }]
            }
            To::Event(at) => {
                let node = self.old.node(at.0)?;
                let (overwrites, _) = effects(&node.insn);
                let index = index(&node.insn, &self.new.node(at.1)?.insn);
                let mut reads = self.question.read_by(node);
                // The packet is always in R6. The operands of the index are compared separately.
                let apart = index.and_then(|[(old, _), _]| Reg::new(old)).filter(|old| *old != Reg::R6);
                apart.iter().for_each(|old| reads.remove(*old));
                let end = End { what: self.what(node), reads, overwrites, index, ..End::default() };
                let mut behind = self.behind(at)?;
                if behind.is_empty() {
                    vec![end]
                } else {
                    let with = |to: &Pair| {
                        let relation = self.relations[to].clone();
                        let mut unread: BTreeSet<i32> = relation.differ.union(&relation.failed).copied().collect();
                        if !unread.is_empty() {
                            let live = self.stack_read_from(at.0);
                            unread.retain(|byte| !live.contains(*byte));
                        }
                        End { relation: Some(relation), unread, ..end.clone() }
                    };
                    behind.retain(|to| !self.is_before_changes(*to));
                    behind.iter().map(with).collect()
                }
            }
        })
    }
}
