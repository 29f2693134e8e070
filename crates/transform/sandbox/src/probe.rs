//! Asks the verifier which accesses go to the heap, what is live and held at each loop, and which loops need no
//! cancellation point.
//!
//! The program is explored as it will be after the transform, as far as safety goes: numbers used as addresses are heap
//! addresses, and each loop begins with `may_goto +0`, which changes nothing but tells the verifier that the loop may end at
//! any time. A loop that it can also explore to its end without that, within a budget, is bounded: it needs no cancellation point.

use std::collections::{BTreeMap, BTreeSet};

use kiln_isa::Insn;
use kiln_program::{FunctionId, InsnId, Object, Reference};
use kiln_verifier::{Facts, Prepared};

use crate::error::Error;
use crate::loops;
use crate::options::Options;

/// Where each function's loops are, by the first instruction.
pub(crate) type Headers = BTreeMap<FunctionId, BTreeSet<InsnId>>;

/// How many more instructions the verifier may process in total because loops have no cancellation point. A loop whose
/// iterations all fit into this ends in about 100 us.
const UNROLLED_INSNS: u64 = 50_000;
/// Loops that are tried without a cancellation point.
const TRIES: usize = 64;

/// The result of exploring an object.
pub struct Probe {
    /// What is known before each of the original instructions.
    pub facts: Facts,
    /// Loops that are to be cancellable.
    pub points: Headers,
    /// Loops that are not, because they are bounded.
    pub bounded: Headers,
    /// For each loop that is to be cancellable, the instruction that stands for its cancellation point in `facts`.
    pub stand_ins: BTreeMap<InsnId, InsnId>,
    /// Instructions that the verifier processed for these facts.
    processed: u64,
}

struct Explored {
    facts: Facts,
    processed: u64,
    stand_ins: BTreeMap<InsnId, InsnId>,
}

impl Probe {
    /// Explores every program of an object.
    ///
    /// # Errors
    /// [`Error::Rejected`] for what is wrong besides heap accesses and loops.
    pub fn new(object: &Object, options: &Options) -> Result<Probe, Error> {
        let all = Probe::of_all_loops(object, options)?;
        let Probe { mut points, mut bounded, .. } = all;
        let mut explored = Explored { facts: all.facts, processed: all.processed, stand_ins: all.stand_ins };
        let limit = explored.processed.saturating_add(UNROLLED_INSNS);
        if options.elide {
            let all: Vec<_> = points.iter().flat_map(|(id, own)| own.iter().rev().map(move |at| (*id, *at))).collect();
            for (function, header) in all.into_iter().take(TRIES) {
                if has_point_inside(object, &points, function, header) {
                    continue;
                }
                let mut fewer = points.clone();
                fewer.entry(function).or_default().remove(&header);
                let Ok(without) = explore(object, &fewer, options) else { continue };
                if without.processed <= limit {
                    (points, explored) = (fewer, without);
                    bounded.entry(function).or_default().insert(header);
                }
            }
        }
        let Explored { facts, processed, stand_ins } = explored;
        Ok(Probe { facts, points, bounded, stand_ins, processed })
    }

    /// Explores every program of an object, with a cancellation point in each loop.
    ///
    /// # Errors
    /// [`Error::Rejected`] for what is wrong besides heap accesses and loops.
    pub fn of_all_loops(object: &Object, options: &Options) -> Result<Probe, Error> {
        let mut points = Headers::new();
        for program in &object.programs {
            for id in object.reachable_functions(program.entry) {
                points.entry(id).or_insert_with(|| loops::headers(object.function(id)));
            }
        }
        points.retain(|_, headers| !headers.is_empty());
        let Explored { facts, processed, stand_ins } = explore(object, &points, options)?;
        Ok(Probe { facts, points, bounded: Headers::new(), stand_ins, processed })
    }
}

/// Whether a loop contains the cancellation point of another one, also in a function that it calls. Then exploring it
/// does not prove that it ends, because the verifier stops at the other point.
fn has_point_inside(object: &Object, points: &Headers, id: FunctionId, header: InsnId) -> bool {
    let function = object.function(id);
    loops::body(function, header).into_iter().any(|at| {
        let node = &function.nodes[at];
        let called = node.callee().map(|callee| object.reachable_functions(callee)).unwrap_or_default();
        let has_points = |id: &FunctionId| points.get(id).is_some_and(|own| !own.is_empty());
        node.id != header && points.get(&id).is_some_and(|own| own.contains(&node.id)) || called.iter().any(has_points)
    })
}

fn explore(object: &Object, points: &Headers, options: &Options) -> Result<Explored, Error> {
    let mut probed = object.clone();
    let mut stand_ins = BTreeMap::new();
    for (id, headers) in points {
        let mut nodes = Vec::with_capacity(probed.functions[id.index()].nodes.len() + headers.len());
        for node in std::mem::take(&mut probed.functions[id.index()].nodes) {
            if headers.contains(&node.id) {
                let mut point = probed.new_node(Insn::MayGoto { offset: 0 }, Reference::Branch(node.id));
                point.line = node.line;
                stand_ins.insert(node.id, point.id);
                nodes.push(point);
            }
            nodes.push(node);
        }
        for node in &mut nodes {
            if let Reference::Branch(target) = node.reference
                && !matches!(node.insn, Insn::MayGoto { .. })
                && let Some(point) = stand_ins.get(&target)
            {
                node.reference = Reference::Branch(*point);
            }
        }
        probed.functions[id.index()].nodes = nodes;
    }
    let verifier = kiln_verifier::Options { heap: true, skip_facts: false, ..options.verifier.clone() };
    let prepared = Prepared::new(&probed, &verifier);
    // Joined one by one: programs that share large functions would each keep an account of those.
    let mut facts = Facts::default();
    let mut processed = 0;
    for program in &probed.programs {
        let verified = prepared
            .verify(program, &verifier)
            .map_err(|source| Error::Rejected { program: program.name.clone(), source: Box::new(source) })?;
        processed += verified.statistics.processed_insns;
        facts.join(&verified.facts);
    }
    Ok(Explored { facts, processed, stand_ins })
}

/// Verifies a sandboxed object by the normal rules.
///
/// # Errors
/// [`Error::Result`].
pub(crate) fn verify_result(object: &Object, options: &Options) -> Result<(), Error> {
    let verifier = kiln_verifier::Options { skip_facts: true, explain: true, ..options.verifier.clone() };
    let prepared = Prepared::new(object, &verifier);
    for program in &object.programs {
        prepared
            .verify(program, &verifier)
            .map_err(|source| Error::Result { program: program.name.clone(), source: Box::new(source) })?;
    }
    Ok(())
}
