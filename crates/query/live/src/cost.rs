//! What a split costs an event, before it runs.
//!
//! Generated programs have no loops, so a walk from their end gives the time of each way through them:
//!
//! ```text
//!   least      the event is not wanted: the first condition of the query fails, or the event's beginning was not wanted
//!   expected   each condition fails in seven of eight cases if it is an equality, else in one of two
//!   most       the event is wanted, and every call does what it does for such an event
//! ```
//!
//! The prices are those of a cost model ([`kiln_superopt::CostModel`]): the instructions, the helpers by map type, an empty
//! program at each kind of hook, the hook itself, and what user space does with a record. `kiln doctor --calibrate` measures
//! them while the kernel counts, as it does for a query.
//!
//! Those prices are of hot caches. Where an event is rare, other work has evicted what its program needs:
//!
//! ```text
//!   a line of cache    what an empty program takes longer at a clock, which is rare (`clock-entry` - `typed-entry`)
//!   lines              1 for the program, 1 for 16 instructions, 1 for a helper, and for each map that is reached
//!   part of them       a half at an event in HALF_COLD_AFTER on each processor, fewer at more
//! ```

use std::collections::{HashMap, HashSet};
use std::iter::Sum;
use std::ops::{Add, Mul};

use kiln_isa::{CallTarget, Insn, JumpOp, Reg, Source};
use kiln_plan::Generated;
use kiln_plan::generate::code::Odds;
use kiln_plan::table::Hook;
use kiln_platform::{Helper, MapType};
use kiln_program::{Node, Object, Program, Reference};
use kiln_superopt::CostModel;
use kiln_superopt::cost::EventPart;
use serde::Serialize;

/// Nanoseconds of a run of a program.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct Time {
    /// Where the event is not wanted.
    pub least: f64,
    /// On average, with guessed conditions.
    pub expected: f64,
    /// Where the event is wanted.
    pub most: f64,
}

impl Time {
    /// The same whatever the event is.
    fn always(ns: f64) -> Time {
        Time { least: ns, expected: ns, most: ns }
    }
}

impl Add for Time {
    type Output = Time;

    fn add(self, other: Time) -> Time {
        Time { least: self.least + other.least, expected: self.expected + other.expected, most: self.most + other.most }
    }
}

impl Mul<f64> for Time {
    type Output = Time;

    fn mul(self, factor: f64) -> Time {
        Time { least: self.least * factor, expected: self.expected * factor, most: self.most * factor }
    }
}

impl Sum for Time {
    fn sum<I: Iterator<Item = Time>>(times: I) -> Time {
        times.fold(Time::default(), Add::add)
    }
}

/// What a program costs an event of its hook.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct Estimate {
    /// Nanoseconds that the program takes, as the kernel counts them: reading the clock for that is a large part.
    pub program_ns: Time,
    /// Nanoseconds that it takes longer if other work has the caches.
    pub cold_ns: Time,
    /// Nanoseconds that the hook takes to call it.
    pub hook_ns: f64,
    /// Nanoseconds that user space takes for the records.
    pub reader_ns: Time,
}

/// Seconds between two events on a processor after which half of what a program needs is no longer in the caches, as forks, execs
/// and exits show on a busy machine.
const HALF_COLD_AFTER: f64 = 3.5e-3;
/// Instructions whose code is a line of cache: 64 bytes, four an instruction.
const LINE_INSNS: u64 = 16;
/// Lines of cache that the first call with a map takes beside the helper's own: its head, a bucket, an element and its value,
/// each in another page; of other maps, the head and what is behind it.
const HASH_LINES: u64 = 5;
const MAP_LINES: u64 = 2;

impl Estimate {
    /// Nanoseconds in all, with hot caches.
    pub fn total(&self) -> Time {
        self.program_ns + self.reader_ns + Time::always(self.hook_ns)
    }

    /// Nanoseconds of the program, at so many events a second on each processor.
    pub fn program_at(&self, rate: f64) -> Time {
        self.program_ns + self.cold_at(rate)
    }

    /// Nanoseconds in all, at so many events a second on each processor.
    pub fn total_at(&self, rate: f64) -> Time {
        self.total() + self.cold_at(rate)
    }

    fn cold_at(&self, rate: f64) -> Time {
        self.cold_ns * (1.0 + rate * HALF_COLD_AFTER).recip()
    }
}

/// The parts of what an empty program costs at a hook: the hook's, and what the kernel counts as the program's.
pub fn parts(hook: &Hook) -> [EventPart; 2] {
    match hook {
        Hook::Typed(_) | Hook::Datagram { .. } => [EventPart::TypedHook, EventPart::TypedEntry],
        Hook::Record { .. } => [EventPart::RecordHook, EventPart::RecordEntry],
        Hook::Function { .. } | Hook::Probe { .. } => [EventPart::FunctionHook, EventPart::FunctionEntry],
        Hook::Kernel { .. } => [EventPart::KernelHook, EventPart::KernelEntry],
        Hook::Clock { .. } => [EventPart::ClockHook, EventPart::ClockEntry],
    }
}

/// What a program of a query costs an event of its hook.
pub fn estimate(generated: &Generated, program: &Program, hook: &Hook, model: &CostModel) -> Estimate {
    let object = &generated.object;
    let nodes = &object.functions[program.entry.0 as usize].nodes;
    let [own, entry] = parts(hook).map(|part| ns(model.event(part)));
    let places = calls(object, nodes);
    let time = |node: &Node, place: &Place| match node.insn {
        Insn::Call(CallTarget::Helper(id)) => {
            model.helper(id, place.map) + u64::from(place.record) * model.event(EventPart::RingByte)
        }
        _ => model.picoseconds(&node.insn),
    };
    let reader = |_: &Node, place: &Place| if place.record > 0 { model.event(EventPart::Reader) } else { 0 };
    let line = model.event(EventPart::ClockEntry).saturating_sub(model.event(EventPart::TypedEntry));
    let cold = |_: &Node, place: &Place| place.lines * line + line / LINE_INSNS;
    // An empty program at a clock is cold already.
    let own_line = if matches!(hook, Hook::Clock { .. }) { 0 } else { line };
    Estimate {
        program_ns: walk(generated, nodes, &places, &time) + Time::always(entry),
        cold_ns: walk(generated, nodes, &places, &cold) + Time::always(ns(own_line)),
        hook_ns: own,
        reader_ns: walk(generated, nodes, &places, &reader),
    }
}

/// What the generator chooses a sample with.
const SAMPLER: &str = "get_prandom_u32";

fn ns(picoseconds: u64) -> f64 {
    picoseconds as f64 / 1000.0
}

/// What is known at an instruction of a generated program.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The type of the map whose address was made last.
    map: Option<MapType>,
    /// Bytes of the record that this call hands over.
    record: u32,
    /// The helper that was called last.
    after: Option<&'static str>,
    /// Lines of cache that only this call takes.
    lines: u64,
}

/// The generator writes a call's operands right before it, so the last ones count.
fn calls(object: &Object, nodes: &[Node]) -> Vec<Place> {
    let (mut map, mut bytes, mut after) = (None, 0, None);
    let (mut unreached, mut reached) = (None, HashSet::new());
    let mut places = Vec::with_capacity(nodes.len());
    for node in nodes {
        let (mut record, mut lines) = (0, 0);
        match (node.insn, node.reference) {
            (_, Reference::Map(id)) => {
                map = object.maps.get(id.0 as usize).map(|map| map.map_type);
                unreached = reached.insert(id).then_some(map).flatten();
            }
            (Insn::Alu { dst: Reg::R3, src: Source::Imm(value), .. }, _) => bytes = value.max(0) as u32,
            (Insn::Call(CallTarget::Helper(id)), _) => {
                after = Helper::by_id(id).map(|helper| helper.name);
                record = if after == Some("ringbuf_output") { bytes } else { 0 };
                lines = 1 + match unreached.take() {
                    Some(MapType::Hash | MapType::PercpuHash) => HASH_LINES,
                    Some(_) => MAP_LINES,
                    None => 0,
                };
            }
            _ => {}
        }
        places.push(Place { map, record, after, lines });
    }
    places
}

/// How likely a branch is taken, and whether what the query drops and what it wants each take their own side. Dice and the
/// state of maps are the same for both, unless the map has the beginnings that were wanted.
fn taken(generated: &Generated, node: &Node, place: &Place) -> (f64, [bool; 2]) {
    let Insn::Branch { op, dst, .. } = node.insn else { return (0.0, [false; 2]) };
    let sampled = 1.0 / f64::from(generated.sample);
    let part = match (op, place.after, generated.marks.get(&node.id)) {
        (.., Some(Odds::Seldom)) => 0.0,
        (.., Some(Odds::Usual)) => 1.0,
        (.., Some(Odds::Unwanted)) => return (1.0 - sampled, [true, false]),
        // The entry is there, and there is room for a new one. Only beginnings in the sample are stored.
        (JumpOp::Eq, Some("map_lookup_elem"), _) if dst == Reg::R0 => match place.map {
            Some(MapType::Hash) => 1.0 - sampled,
            _ => 0.0,
        },
        (JumpOp::Eq, Some("map_update_elem" | "ringbuf_output"), _) if dst == Reg::R0 => 1.0,
        (_, Some("ringbuf_query"), _) => 0.0,
        (JumpOp::Gt, Some(SAMPLER), _) => 1.0 - sampled,
        (JumpOp::Eq, ..) => return (0.125, [true; 2]),
        (JumpOp::Ne, ..) => return (0.875, [true; 2]),
        _ => return (0.5, [true; 2]),
    };
    (part, [false; 2])
}

/// The time of all ways from the beginning to an end.
fn walk(generated: &Generated, nodes: &[Node], places: &[Place], price: &dyn Fn(&Node, &Place) -> u64) -> Time {
    let at: HashMap<_, _> = nodes.iter().enumerate().map(|(index, node)| (node.id, index)).collect();
    let mut times = vec![Time::default(); nodes.len() + 1];
    for (index, node) in nodes.iter().enumerate().rev() {
        let own = Time::always(ns(price(node, &places[index])));
        // Branches go forward; what does not would be a loop, which no generated program has.
        let target = match node.reference {
            Reference::Branch(id) => at.get(&id).copied().filter(|target| *target > index),
            _ => None,
        };
        let next = times[index + 1];
        let after = match (&node.insn, target.map(|target| times[target])) {
            (Insn::Exit, _) => Time::default(),
            (Insn::Jump { .. }, Some(target)) => target,
            (Insn::Branch { .. }, Some(target)) => {
                let (part, [drops, wants]) = taken(generated, node, &places[index]);
                let mixed = |taken: f64, next: f64| part * taken + (1.0 - part) * next;
                Time {
                    least: if drops { target.least.min(next.least) } else { mixed(target.least, next.least) },
                    expected: mixed(target.expected, next.expected),
                    most: if wants { target.most.max(next.most) } else { mixed(target.most, next.most) },
                }
            }
            _ => next,
        };
        times[index] = after + own;
    }
    times[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a program in the text form, at a typed hook: what it takes with a model of round prices.
    fn of(text: &str) -> Estimate {
        of_sample(text, 1)
    }

    fn of_sample(text: &str, sample: u32) -> Estimate {
        of_marked(text, sample, None)
    }

    fn of_text(model: &str, body: &str) -> Estimate {
        of_model(model, &format!("; program raw_tracepoint\n; function main\n{body}"), 1, None)
    }

    fn of_marked(text: &str, sample: u32, mark: Option<(usize, Odds)>) -> Estimate {
        let model = "machine x86-64\ninsn move 1\ninsn branch 1\ninsn jump 0\ninsn exit 1\ninsn wide 1\ninsn alu 1\n\
                     helper map_lookup_elem on percpu_hash 20\nhelper map_lookup_elem on hash 10\n\
                     helper ringbuf_output on ringbuf 50\nevent typed-hook 7\nevent typed-entry 0\n\
                     event ring-byte 0.1\nevent reader 200\n";
        of_model(model, text, sample, mark)
    }

    fn of_model(model: &str, text: &str, sample: u32, mark: Option<(usize, Odds)>) -> Estimate {
        let model = CostModel::parse(model).expect("a model");
        let object = kiln_program::text::parse(text).expect("a program");
        let generated = Generated {
            split: kiln_plan::Split::Mvsf,
            hooks: Vec::new(),
            span: None,
            sample,
            ring: None,
            records: Vec::new(),
            groups: None,
            stacks: None,
            counters: kiln_program::MapId(0),
            marks: mark
                .and_then(|(at, odds)| Some((object.functions[0].nodes.get(at)?.id, odds)))
                .into_iter()
                .collect(),
            object,
        };
        estimate(&generated, &generated.object.programs[0], &Hook::Typed("sys_enter".to_owned()), &model)
    }

    #[test]
    fn who_reads_is_seldom_and_what_was_not_wanted_is_the_least() {
        let own =
            "; program raw_tracepoint\n; function main\nif r1 == r2 goto out\nr2 = 1\nr3 = 1\nout:\nr0 = 0\nexit\n";
        let marked = |odds| of_marked(own, 1, Some((0, odds))).program_ns;
        assert_eq!(marked(Odds::Seldom), Time { least: 5.0, expected: 5.0, most: 5.0 });
        // Without a sample every beginning is taken to be there, but for what an event costs that is dropped.
        assert_eq!(marked(Odds::Unwanted), Time { least: 3.0, expected: 5.0, most: 5.0 });
    }

    #[test]
    fn every_kind_of_hook_counts_its_empty_program() {
        let entry = of_text("machine x86-64\nevent typed-entry 40\ninsn move 1\ninsn exit 1\n", "r0 = 0\nexit\n");
        assert_eq!(entry.program_ns, Time { least: 42.0, expected: 42.0, most: 42.0 });
    }

    #[test]
    fn a_sample_costs_its_part() {
        let program = "; program raw_tracepoint\n; function main\n\
                       r1 = 5\ncall get_prandom_u32\nr1 = 6\nif r0 > r1 goto out\nr2 = 1\nr3 = 1\nr4 = 1\nr5 = 1\n\
                       out:\nr0 = 0\nexit\n";
        let Time { least, expected, most } = of_sample(program, 4).program_ns;
        assert_eq!((least, expected), (most, most));
        // The helper has no row in this model: it costs what that of the machine says.
        let dice = CostModel::of_machine("x86-64").helper(7, None) as f64 / 1000.0;
        assert!((most - dice - 6.0).abs() < 0.01, "{most}");
    }

    #[test]
    fn a_condition_that_fails_is_the_least() {
        let program = "; program raw_tracepoint\n; function main\n\
                       if r1 != 5 goto out\nr2 = 1\nr3 = 1\nr4 = 1\nout:\nr0 = 0\nexit\n";
        let estimate = of(program);
        assert_eq!(estimate.program_ns, Time { least: 3.0, expected: 3.375, most: 6.0 });
        assert_eq!((estimate.hook_ns, estimate.total().most), (7.0, 13.0));
    }

    #[test]
    fn maps_of_each_type_have_a_price_and_are_found() {
        let program = |map: &str| {
            format!(
                "; map m {map} key 8 value 8 entries 4\n; program raw_tracepoint\n; function main\n\
                 *(u64 *)(r10 - 8) = 1\nr1 = map[m]\nr2 = r10\nr2 += -8\ncall map_lookup_elem\n\
                 if r0 == 0 goto out\nr2 = 1\nout:\nr0 = 0\nexit\n"
            )
        };
        let [hash, percpu] = ["hash", "percpu_hash"].map(|map| of(&program(map)).program_ns);
        assert_eq!(hash.least, hash.most);
        assert_eq!(percpu.most - hash.most, 10.0);
    }

    #[test]
    fn rare_events_cost_the_lines_of_cache_that_other_work_has() {
        let program = "; map m hash key 8 value 8 entries 4\n; program raw_tracepoint\n; function main\n\
                       *(u64 *)(r10 - 8) = 1\nr1 = map[m]\nr2 = r10\nr2 += -8\ncall map_lookup_elem\n\
                       r1 = map[m]\nr2 = r10\nr2 += -8\ncall map_delete_elem\nr0 = 0\nexit\n";
        let model = "machine x86-64\nevent typed-entry 40\nevent clock-entry 200\n";
        let estimate = of_model(model, program, 1, None);
        // The program, two helpers, the map once, and 11 instructions.
        let cold = 160.0 * (1.0 + 2.0 + 5.0 + 11.0 / 16.0);
        assert!((estimate.cold_ns.most - cold).abs() < 0.01, "{estimate:?}");
        assert_eq!(estimate.total_at(0.0).most, estimate.total().most + estimate.cold_ns.most);
        assert_eq!(estimate.total_at(1.0 / HALF_COLD_AFTER).most, estimate.total().most + estimate.cold_ns.most / 2.0);
    }

    #[test]
    fn records_cost_their_bytes_and_their_reader() {
        let program = "; map ring ringbuf entries 4096\n; program raw_tracepoint\n; function main\n\
                       *(u64 *)(r10 - 8) = 1\nif r1 > 5 goto out\nr1 = map[ring]\nr2 = r10\nr2 += -8\nr3 = 8\nr4 = 0\n\
                       call ringbuf_output\nout:\nr0 = 0\nexit\n";
        let estimate = of(program);
        assert_eq!(estimate.reader_ns, Time { least: 0.0, expected: 100.0, most: 200.0 });
        assert!((estimate.program_ns.most - estimate.program_ns.least - 50.8 - 5.0).abs() < 0.01, "{estimate:?}");
    }
}
