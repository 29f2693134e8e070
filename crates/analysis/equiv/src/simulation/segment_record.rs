//! Segments as data, from which their queries can be made again.

use kiln_isa::{Reg, RegSet};
use kiln_program::{Node, Object};
use kiln_verifier::{InsnFacts, Value};
use serde::{Deserialize, Serialize};

use crate::simulation::relation::Relation;
use crate::simulation::relation_record::RelationRecord;
use crate::simulation::segment::{End, Segment, Step};
use crate::window::record::{FactsRecord, NodeRecord, RecordError, ValueRecord, comment};

/// An instruction of a path, as data.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepRecord {
    /// The instruction.
    #[serde(flatten)]
    node: NodeRecord,
    /// For a branch: whether it is taken.
    taken: bool,
    /// See [`Step::open`].
    open: bool,
    /// For a load: the pointer that it loads, if the facts know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pointer: Option<ValueRecord>,
}

/// An [`End`] as data.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EndRecord {
    what: String,
    reads: Vec<u8>,
    overwrites: Vec<u8>,
    relation: Option<RelationRecord>,
    never: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    index: Option<[(u8, i32); 2]>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unread: Vec<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event: Option<NodeRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    numbers: Vec<u8>,
}

/// A segment as data, from which its query can be made again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SegmentRecord {
    before: Vec<StepRecord>,
    after: Vec<StepRecord>,
    facts: Option<FactsRecord>,
    start: RelationRecord,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    differs_unread: bool,
    end: EndRecord,
}

fn way<'f>(nodes: &'f [Node], known: &'f [Option<InsnFacts>], steps: &[StepRecord]) -> Vec<Step<'f>> {
    let nodes = nodes.iter().zip(known).zip(steps);
    let step = |((node, known), step): ((&'f Node, &'f Option<InsnFacts>), &StepRecord)| Step {
        node,
        taken: step.taken,
        open: step.open,
        behind: known.as_ref(),
    };
    nodes.map(step).collect()
}

fn set(numbers: &[u8]) -> Result<RegSet, RecordError> {
    let regs: Option<Vec<Reg>> = numbers.iter().map(|number| Reg::new(*number)).collect();
    regs.map(|regs| RegSet::of(&regs)).ok_or_else(|| RecordError::Number("no such register".to_owned()))
}

/// What is known after each step.
fn behind(nodes: &[Node], steps: &[StepRecord]) -> Vec<Option<InsnFacts>> {
    let known = |(node, step): (&Node, &StepRecord)| {
        let (pointer, dst) = (step.pointer.as_ref()?, node.insn.written()?);
        let registers = [(dst.number(), pointer.clone())].into();
        Some(FactsRecord { registers, ..FactsRecord::default() }.facts())
    };
    nodes.iter().zip(steps).map(known).collect()
}

impl SegmentRecord {
    /// The record of a segment and what must hold at its end.
    pub fn of(segment: &Segment<'_>, end: &End) -> SegmentRecord {
        let steps = |side: usize| {
            let record = |step: &Step<'_>| StepRecord {
                node: NodeRecord::of(segment.object, step.node),
                taken: step.taken,
                open: step.open,
                pointer: step.behind.and_then(|known| {
                    let dst = step.node.insn.written()?;
                    let value = &known.registers[dst.index()];
                    matches!(value, Value::Pointer(_)).then(|| ValueRecord::of(value)).flatten()
                }),
            };
            segment.ways[side].iter().map(record).collect()
        };
        SegmentRecord {
            before: steps(0),
            after: steps(1),
            facts: segment.facts.map(|facts| FactsRecord::of(facts, RegSet::ALL, true)),
            start: RelationRecord::of(segment.start),
            differs_unread: segment.differs_unread
                && !(segment.start.differ.is_empty() && segment.start.failed.is_empty()),
            end: EndRecord {
                what: end.what.clone(),
                reads: end.reads.iter().map(Reg::number).collect(),
                overwrites: end.overwrites.iter().map(Reg::number).collect(),
                relation: end.relation.as_ref().map(RelationRecord::of),
                never: end.never,
                index: end.index,
                unread: end.unread.iter().copied().collect(),
                event: segment.event.map(|(node, _)| NodeRecord::of(segment.object, node)),
                numbers: segment.event.iter().flat_map(|(_, numbers)| numbers.iter()).map(Reg::number).collect(),
            },
        }
    }

    /// The SMT-LIB query: `unsat` means that the segment is proved.
    ///
    /// # Errors
    /// Returns an error if the record does not describe a segment of this object.
    pub fn query(&self, object: &Object) -> Result<String, RecordError> {
        let nodes = |steps: &[StepRecord]| -> Result<Vec<Node>, RecordError> {
            steps.iter().map(|step| step.node.node(object)).collect()
        };
        let (old, new) = (nodes(&self.before)?, nodes(&self.after)?);
        let (old_known, new_known) = (behind(&old, &self.before), behind(&new, &self.after));
        let (old_way, new_way) = (way(&old, &old_known, &self.before), way(&new, &new_known, &self.after));
        let facts = self.facts.as_ref().map(FactsRecord::facts);
        let start = self.start.relation(object.maps.len()).map_err(RecordError::Number)?;
        let event = self.end.event.as_ref().map(|event| event.node(object)).transpose()?;
        let event = event.as_ref().map(|event| Ok((event, set(&self.end.numbers)?))).transpose()?;
        let segment = Segment {
            object,
            facts: facts.as_ref(),
            start: &start,
            differs_unread: self.differs_unread,
            ways: [&old_way, &new_way],
            event,
        };
        let query = segment.query(&self.end(object)?).map_err(|why| RecordError::NoQuery(why.to_string()))?;
        Ok(format!("{}{query}", self.heading(object, &start)))
    }

    fn end(&self, object: &Object) -> Result<End, RecordError> {
        let relation = self.end.relation.as_ref().map(|record| record.relation(object.maps.len()));
        Ok(End {
            what: self.end.what.clone(),
            reads: set(&self.end.reads)?,
            overwrites: set(&self.end.overwrites)?,
            relation: relation.transpose().map_err(RecordError::Number)?,
            never: self.end.never,
            index: self.end.index.filter(|index| index.iter().all(|(reg, _)| *reg < 11)),
            unread: self.end.unread.iter().copied().collect(),
        })
    }

    fn heading(&self, object: &Object, start: &Relation) -> String {
        let texts = |steps: &[StepRecord]| -> Vec<String> {
            let taken = |step: &StepRecord| if step.taken { " (taken)" } else { "" };
            steps.iter().map(|step| format!("{}{}", step.node.text, taken(step))).collect()
        };
        let mut text = String::from("; The new function does as the old one does on this way. unsat: it does.\n");
        comment(&mut text, "the old way", &texts(&self.before));
        comment(&mut text, "the new way", &texts(&self.after));
        comment(
            &mut text,
            "known of the old function",
            &self.facts.as_ref().map(|f| f.lines(object)).unwrap_or_default(),
        );
        comment(&mut text, "what holds where both begin", &start.lines());
        let end = if self.end.never { "they never go together".to_owned() } else { self.end.what.clone() };
        comment(&mut text, "where they end", &[end]);
        text
    }
}
