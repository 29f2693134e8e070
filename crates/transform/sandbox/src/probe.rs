//! Asks the verifier which accesses go to the heap, what is live and held at each loop, and which loops need no
//! cancellation point.
//!
//! The program is explored as it will be after the transform, as far as safety goes: numbers used as addresses are heap
//! addresses, and each loop begins with `may_goto +0`, which changes nothing but tells the verifier that the loop may end at
//! any time. A loop that it can also explore to its end without that, within a budget, is bounded: it needs no cancellation point.

use std::collections::{BTreeMap, BTreeSet};

use kiln_isa::Insn;
use kiln_platform::{Helper, Kfunc, KfuncFlag};
use kiln_program::{FunctionId, InsnId, Node, Object, Reference};
use kiln_verifier::{Facts, Prepared};

use crate::callbacks::Callbacks;
use crate::error::Error;
use crate::loops::{self, Headers};
use crate::options::{Options, Target};
use crate::slow;
use crate::times::{Known, Times, Visits};

/// How many more instructions the verifier may process because one loop has no cancellation point. A loop whose iterations
/// all fit into this ends in about 100 us.
const UNROLLED_INSNS: u64 = 50_000;
/// The same for all loops of the object; tried in this order until the result verifies. The kernel's limit for a program is
/// 1,000,000. In the last try all loops have points.
const UNROLLED_IN_ALL: [Option<u64>; 4] = [Some(500_000), Some(UNROLLED_INSNS), Some(0), None];
/// How many instructions the tries of all loops without a cancellation point may process.
const TRIED_INSNS: u64 = 20_000_000;
/// Above this, a result with fewer unrolled loops is tried first: the kernel may process more than ours, and gives up at 1,000,000.
const LARGE_RESULT_INSNS: u64 = 500_000;
/// How often the result may be rewritten because a loop in it does not converge.
const REWRITES: usize = 16;

/// The result of exploring an object.
#[derive(Clone)]
pub struct Probe {
    /// What is known before each of the original instructions.
    pub facts: Facts,
    /// Loops that are to be cancellable.
    pub points: Headers,
    /// Loops that are not, because they are bounded.
    pub bounded: Headers,
    /// Loops among `points` whose numbers are hidden from the verifier where the loop is entered.
    pub forgetful: Headers,
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

/// Why exploring failed, and at which of the original instructions.
struct Failed {
    error: Error,
    place: Option<(FunctionId, InsnId)>,
    too_complex: bool,
}

impl Probe {
    /// The instruction before which `facts` say what is known at a loop.
    pub(crate) fn stand_in(&self, header: InsnId) -> InsnId {
        self.stand_ins.get(&header).copied().unwrap_or(header)
    }

    /// How often the verifier visits each instruction, if some loop has no point.
    ///
    /// # Errors
    /// If the object cannot be explored.
    pub(crate) fn visits(&self, object: &Object, options: &Options) -> Result<Visits, Error> {
        let mut visits = Visits::new();
        if self.bounded.values().all(BTreeSet::is_empty) {
            return Ok(visits);
        }
        let (probed, stand_ins) = with_points(object, &self.points);
        let verifier = exploring(&stand_ins, &self.forgetful, options);
        for program in &probed.programs {
            let counted = kiln_verifier::cost(&probed, program, &verifier);
            let failed = |source| Failed::new(object, &probed, source, false, &program.name).error;
            for cost in counted.map_err(failed)?.instructions {
                let most = visits.entry(cost.spot.insn).or_default();
                *most = cost.visits.max(*most);
            }
        }
        Ok(visits)
    }

    /// Explores every program of an object, and finds the loops that need no cancellation point.
    ///
    /// # Errors
    /// [`Error::Rejected`] for what is wrong besides heap accesses and loops.
    pub fn new(object: &Object, options: &Options) -> Result<Probe, Error> {
        let mut probe = Probe::of_all_loops(object, options)?;
        probe.leave_bounded_loops(object, options, UNROLLED_IN_ALL[0].unwrap_or(0))?;
        Ok(probe)
    }

    /// Explores every program of an object, with a cancellation point in each loop. If that is too much for the verifier, the
    /// numbers that a loop begins with are hidden, loop by loop. A loop that needs them has no point then.
    ///
    /// # Errors
    /// [`Error::Rejected`] for what is wrong besides heap accesses and loops.
    pub fn of_all_loops(object: &Object, options: &Options) -> Result<Probe, Error> {
        let callbacks = Callbacks::of(object)?;
        let mut points = Headers::new();
        for program in &object.programs {
            for id in object.reachable_functions(program.entry) {
                let own =
                    || loops::headers(object.function(id)).into_iter().chain(callbacks.begins(object, id)).collect();
                points.entry(id).or_insert_with(own);
            }
        }
        points.retain(|_, headers| !headers.is_empty());
        let (mut bounded, mut forgetful) = (Headers::new(), Headers::new());
        let mut last: Option<(FunctionId, InsnId)> = None;
        // Why a loop needs its numbers: the useful error if it cannot be explored with them either.
        let mut needed: Option<Error> = None;
        loop {
            let failed = match explore(object, &points, &forgetful, options) {
                Ok(Explored { facts, processed, stand_ins }) => {
                    return Ok(Probe { facts, points, bounded, forgetful, stand_ins, processed });
                }
                Err(failed) => failed,
            };
            let next = failed.place.filter(|_| failed.too_complex);
            match (next.and_then(|place| counting_loop(object, &points, &forgetful, place)), last) {
                (Some((function, header)), _) => {
                    forgetful.entry(function).or_default().insert(header);
                    last = Some((function, header));
                }
                (None, Some((function, header)))
                    if !failed.too_complex && !is_not_followed(object, function, header) =>
                {
                    forgetful.entry(function).or_default().remove(&header);
                    points.entry(function).or_default().remove(&header);
                    bounded.entry(function).or_default().insert(header);
                    needed = Some(failed.error);
                    last = None;
                }
                _ => return Err(needed.unwrap_or(failed.error)),
            }
        }
    }

    /// Takes the cancellation points away from loops that the verifier can explore to their end.
    fn leave_bounded_loops(&mut self, object: &Object, options: &Options, in_all: u64) -> Result<(), Error> {
        if !options.elide {
            return Ok(());
        }
        let callbacks = Callbacks::of(object)?;
        let all_points = self.clone();
        let limit = self.processed.saturating_add(in_all);
        let mut tried = 0;
        let all: Vec<_> = self.points.iter().flat_map(|(id, own)| own.iter().rev().map(move |at| (*id, *at))).collect();
        for (function, header) in all {
            if callbacks.begins(object, function) == Some(header) {
                if callbacks.is_short(object, function, &self.facts) {
                    self.points.entry(function).or_default().remove(&header);
                    self.bounded.entry(function).or_default().insert(header);
                }
                continue;
            }
            let ends_elsewhere =
                has_point_inside(object, &self.points, function, header) || is_not_followed(object, function, header);
            if tried >= TRIED_INSNS || ends_elsewhere {
                continue;
            }
            // A loop that no path reaches says nothing about its end, and the kernel may reach it.
            if self.stand_ins.get(&header).is_some_and(|stand_in| self.facts.at(*stand_in).is_none()) {
                continue;
            }
            let (mut points, mut forgetful) = (self.points.clone(), self.forgetful.clone());
            points.entry(function).or_default().remove(&header);
            forgetful.entry(function).or_default().remove(&header);
            let most = limit.min(self.processed.saturating_add(UNROLLED_INSNS));
            let Ok(without) = explore(object, &points, &forgetful, &options.within(most)) else {
                tried += most;
                continue;
            };
            tried += without.processed;
            if without.processed <= most {
                let Explored { facts, processed, stand_ins } = without;
                *self = Probe {
                    facts,
                    processed,
                    stand_ins,
                    points,
                    forgetful,
                    bounded: std::mem::take(&mut self.bounded),
                };
                self.bounded.entry(function).or_default().insert(header);
            }
        }
        if options.target == Target::Linux && !self.return_points(object, &callbacks, &all_points, options)? {
            *self = all_points;
        }
        Ok(())
    }

    /// Gives back the points of loops that may take long, although the verifier follows them to their end: the outermost ones first,
    /// because then a loop in them may be short. Returns whether the object can be explored with them.
    fn return_points(
        &mut self,
        object: &Object,
        callbacks: &Callbacks,
        all_points: &Probe,
        options: &Options,
    ) -> Result<bool, Error> {
        loop {
            let visits = self.visits(object, options)?;
            let slow = slow::often_called(object, callbacks, &self.facts, false);
            let Probe { facts, points, bounded, .. } = &*self;
            let most_ns = options.straight_ns();
            let (visits, slow, hands_over) = (&visits, &slow, false);
            let known = Known { object, facts, passed: callbacks, points, bounded, visits, slow, hands_over, most_ns };
            let times = Times::of(known);
            let taken = bounded.iter().flat_map(|(id, own)| own.iter().map(|header| (*id, *header)));
            let taken = taken.filter(|(id, header)| all_points.points.get(id).is_some_and(|own| own.contains(header)));
            let long: Vec<_> = taken.filter(|(id, header)| times.loop_ns(*id, *header) > most_ns / 2).collect();
            let is_inside = |(id, header): &(FunctionId, InsnId)| {
                long.iter().any(|(other, outer)| {
                    let (insns, called) = loops::inside(object, *other, *outer);
                    (other, outer) != (id, header) && (called.contains(id) || other == id && insns.contains(header))
                })
            };
            let outermost: Vec<_> = long.iter().filter(|at| !is_inside(at)).copied().collect();
            if outermost.is_empty() {
                return Ok(long.is_empty());
            }
            for (id, header) in outermost {
                self.bounded.entry(id).or_default().remove(&header);
                self.points.entry(id).or_default().insert(header);
                if all_points.forgetful.get(&id).is_some_and(|own| own.contains(&header)) {
                    self.forgetful.entry(id).or_default().insert(header);
                }
            }
            let Ok(again) = explore(object, &self.points, &self.forgetful, options) else { return Ok(false) };
            (self.facts, self.processed, self.stand_ins) = (again.facts, again.processed, again.stand_ins);
        }
    }
}

/// Rewrites an object with the result of exploring it, until the result verifies: counters that are exact only in the result are
/// hidden too, and fewer loops are left without a cancellation point. The first result that verifies, if all are large.
pub(crate) fn until_it_verifies(
    object: &Object,
    options: &Options,
    apply: impl Fn(&Probe) -> Result<crate::Rewrite, Error>,
) -> Result<crate::Rewrite, Error> {
    let (mut refused, mut large) = (None, None);
    for in_all in UNROLLED_IN_ALL {
        let mut probe = Probe::of_all_loops(object, options)?;
        if let Some(in_all) = in_all {
            probe.leave_bounded_loops(object, options, in_all)?;
        }
        for _ in 0..REWRITES {
            let rewrite = apply(&probe)?;
            let failed = match verify_result(object, &rewrite.object, options) {
                Ok(processed) if processed <= LARGE_RESULT_INSNS => return Ok(rewrite),
                Ok(_) => {
                    large.get_or_insert(rewrite);
                    break;
                }
                Err(failed) => failed,
            };
            let next = failed.place.filter(|_| failed.too_complex);
            let next = next.and_then(|place| counting_loop(object, &probe.points, &probe.forgetful, place));
            refused = Some(failed.error);
            let Some((function, header)) = next else { break };
            probe.forgetful.entry(function).or_default().insert(header);
            let Ok(again) = explore(object, &probe.points, &probe.forgetful, options) else { break };
            probe = Probe { facts: again.facts, processed: again.processed, stand_ins: again.stand_ins, ..probe };
        }
        if probe.bounded.values().all(BTreeSet::is_empty) {
            break;
        }
    }
    large.ok_or_else(|| {
        refused.unwrap_or_else(|| Error::Unsupported {
            function: object.name.clone(),
            insn: None,
            what: "the sandboxed object does not verify".to_owned(),
        })
    })
}

/// A loop with a cancellation point whose numbers are not hidden yet: the innermost one around an instruction where the
/// verifier gave up, in its function or around a call that leads to it. Else the last one before it, or any: the verifier may
/// have been on the way out of the loop.
fn counting_loop(
    object: &Object,
    points: &Headers,
    forgetful: &Headers,
    place: (FunctionId, InsnId),
) -> Option<(FunctionId, InsnId)> {
    let mut pending = vec![place];
    let mut seen = BTreeSet::new();
    while let Some((id, insn)) = pending.pop() {
        if !seen.insert((id, insn)) {
            continue;
        }
        let function = object.function(id);
        let Some(at) = function.nodes.iter().position(|node| node.id == insn) else { continue };
        let own = points.get(&id).into_iter().flatten();
        let known = |header: &&InsnId| forgetful.get(&id).is_some_and(|known| known.contains(*header));
        let around = own.filter(|header| !known(header)).map(|header| (loops::body(function, *header), *header));
        let innermost = around.filter(|(body, _)| body.contains(&at)).min_by_key(|(body, _)| body.len());
        if let Some((_, header)) = innermost {
            return Some((id, header));
        }
        for caller in (0..object.functions.len()).map(|at| FunctionId(at as u32)) {
            let calls = object.function(caller).nodes.iter().filter(|node| node.callee() == Some(id));
            pending.extend(calls.map(|node| (caller, node.id)));
        }
    }
    let hidden = |id: &FunctionId, header: &InsnId| forgetful.get(id).is_some_and(|known| known.contains(header));
    let left = points.iter().flat_map(|(id, own)| own.iter().map(|header| (*id, *header)));
    let left: Vec<_> = left.filter(|(id, header)| !hidden(id, header)).collect();
    left.iter().rev().find(|(id, header)| *id == place.0 && *header < place.1).or(left.first()).copied()
}

/// The original instruction that an instruction of a rewritten object belongs to: itself, the next original one or the last.
fn original(object: &Object, rewritten: &Object, insn: InsnId) -> Option<(FunctionId, InsnId)> {
    for (at, function) in rewritten.functions.iter().enumerate() {
        let Some(position) = function.nodes.iter().position(|node| node.id == insn) else { continue };
        let known: BTreeSet<InsnId> = object.functions.get(at)?.nodes.iter().map(|node| node.id).collect();
        // What is out of line follows the last one.
        let mut near = function.nodes[position..].iter().chain(function.nodes[..position].iter().rev());
        return Some((FunctionId(at as u32), near.find(|node| known.contains(&node.id))?.id));
    }
    None
}

impl Failed {
    fn new(
        object: &Object,
        rewritten: &Object,
        source: kiln_verifier::Error,
        is_result: bool,
        program: &str,
    ) -> Failed {
        let (place, too_complex) = match &source {
            kiln_verifier::Error::Rejected(rejection) => {
                (original(object, rewritten, rejection.insn), rejection.reason == kiln_verifier::Reason::TooComplex)
            }
            _ => (None, false),
        };
        let (program, source) = (program.to_owned(), Box::new(source));
        let error = if is_result { Error::Result { program, source } } else { Error::Rejected { program, source } };
        Failed { error, place, too_complex }
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

/// Whether the verifier does not follow a loop to its end although it accepts it: because of a `may_goto`, an iterator's next item
/// or a call that runs callbacks, in the loop or in a function that it calls. These end by bounds of the kernel's own, which are
/// far: 250 ms in each stack frame, or 8,388,608 items.
fn is_not_followed(object: &Object, id: FunctionId, header: InsnId) -> bool {
    let function = object.function(id);
    let own: Vec<&Node> = loops::body(function, header).into_iter().map(|at| &function.nodes[at]).collect();
    let callees: BTreeSet<FunctionId> =
        own.iter().filter_map(|node| node.callee()).flat_map(|callee| object.reachable_functions(callee)).collect();
    let called = callees.iter().flat_map(|callee| &object.function(*callee).nodes);
    own.iter().copied().chain(called).any(|node| match (node.insn, node.reference) {
        (Insn::MayGoto { .. }, _) => true,
        (Insn::Call(_), Reference::Extern(id)) => {
            let kfunc = object.externs.get(id.index()).and_then(|found| Kfunc::by_name(&found.name));
            kfunc.is_some_and(|kfunc| kfunc.has(KfuncFlag::IteratorNext))
        }
        _ => node.helper().and_then(Helper::by_id).is_some_and(Helper::runs_callback),
    })
}

/// An object with `may_goto` before the first instruction of each loop of `points`, and what stands for each.
fn with_points(object: &Object, points: &Headers) -> (Object, BTreeMap<InsnId, InsnId>) {
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
    (probed, stand_ins)
}

/// How an object with points is explored.
fn exploring(stand_ins: &BTreeMap<InsnId, InsnId>, forgetful: &Headers, options: &Options) -> kiln_verifier::Options {
    let hidden = forgetful.values().flatten().filter_map(|header| stand_ins.get(header).copied());
    kiln_verifier::Options { heap: true, skip_facts: false, forgetful: hidden.collect(), ..options.verifier.clone() }
}

fn explore(object: &Object, points: &Headers, forgetful: &Headers, options: &Options) -> Result<Explored, Box<Failed>> {
    let (probed, stand_ins) = with_points(object, points);
    let verifier = exploring(&stand_ins, forgetful, options);
    let prepared = Prepared::new(&probed, &verifier);
    // Joined one by one: programs that share large functions would each keep an account of those.
    let mut facts = Facts::default();
    let mut processed = 0;
    for program in &probed.programs {
        let verified = prepared
            .verify(program, &verifier)
            .map_err(|source| Box::new(Failed::new(object, &probed, source, false, &program.name)))?;
        processed += verified.statistics.processed_insns;
        facts.join(&verified.facts);
    }
    Ok(Explored { facts, processed, stand_ins })
}

/// Verifies a sandboxed object by the normal rules. Returns how many instructions the largest program takes.
fn verify_result(object: &Object, result: &Object, options: &Options) -> Result<u64, Box<Failed>> {
    let verifier = kiln_verifier::Options { skip_facts: true, explain: true, ..options.verifier.clone() };
    let prepared = Prepared::new(result, &verifier);
    let mut most = 0;
    for program in &result.programs {
        let verified = prepared
            .verify(program, &verifier)
            .map_err(|source| Box::new(Failed::new(object, result, source, true, &program.name)))?;
        most = most.max(verified.statistics.processed_insns);
    }
    Ok(most)
}
