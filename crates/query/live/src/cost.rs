//! What a split costs an event, before it runs.
//!
//! Generated programs have no loops, so a walk from their end gives the time of each way through them:
//!
//! ```text
//!   least      the event is not wanted: the first condition fails
//!   expected   each condition fails in seven of eight cases if it is an equality, else in one of two
//!   most       the event is wanted, and every call does what it does for such an event
//! ```
//!
//! The prices are those of a cost model ([`kiln_superopt::CostModel`]): the instructions, the helpers by map type, the
//! tracepoint itself, and what user space does with a record. `kiln doctor --calibrate` measures them.

use std::collections::HashMap;
use std::iter::Sum;
use std::ops::{Add, Mul};

use kiln_isa::{CallTarget, Insn, JumpOp, Reg, Source};
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
    /// Nanoseconds that the program takes, as the kernel counts them.
    pub program_ns: Time,
    /// Nanoseconds that the tracepoint takes to call it.
    pub hook_ns: f64,
    /// Nanoseconds that user space takes for the records.
    pub reader_ns: Time,
}

impl Estimate {
    /// Nanoseconds in all.
    pub fn total(&self) -> Time {
        self.program_ns + self.reader_ns + Time::always(self.hook_ns)
    }
}

/// What a program of a query costs an event of its hook, where one event in `sample` begins a row.
pub fn estimate(object: &Object, program: &Program, hook: &Hook, sample: u32, model: &CostModel) -> Estimate {
    let nodes = &object.functions[program.entry.0 as usize].nodes;
    let part = match hook {
        Hook::Typed(_) | Hook::Datagram { .. } | Hook::Kernel { .. } => EventPart::TypedHook,
        // A uprobe costs more; the model has no price for it.
        Hook::Record { .. } | Hook::Function { .. } | Hook::Clock { .. } => EventPart::RecordHook,
    };
    let places = calls(object, nodes);
    let time = |node: &Node, place: &Place| match node.insn {
        Insn::Call(CallTarget::Helper(id)) => {
            model.helper(id, place.map) + u64::from(place.record) * model.event(EventPart::RingByte)
        }
        _ => model.picoseconds(&node.insn),
    };
    let reader = |_: &Node, place: &Place| if place.record > 0 { model.event(EventPart::Reader) } else { 0 };
    Estimate {
        program_ns: walk(nodes, &places, sample, &time),
        hook_ns: ns(model.event(part)),
        reader_ns: walk(nodes, &places, sample, &reader),
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
}

/// The generator writes a call's operands right before it, so the last ones count.
fn calls(object: &Object, nodes: &[Node]) -> Vec<Place> {
    let (mut map, mut bytes, mut after) = (None, 0, None);
    let mut places = Vec::with_capacity(nodes.len());
    for node in nodes {
        let mut record = 0;
        match (node.insn, node.reference) {
            (_, Reference::Map(id)) => map = object.maps.get(id.0 as usize).map(|map| map.map_type),
            (Insn::Alu { dst: Reg::R3, src: Source::Imm(value), .. }, _) => bytes = value.max(0) as u32,
            (Insn::Call(CallTarget::Helper(id)), _) => {
                after = Helper::by_id(id).map(|helper| helper.name);
                record = if after == Some("ringbuf_output") { bytes } else { 0 };
            }
            _ => {}
        }
        places.push(Place { map, record, after });
    }
    places
}

/// How likely a branch is taken, and whether that depends on the conditions of the query. Dice and the state of maps do
/// not.
fn taken(insn: &Insn, place: &Place, sample: u32) -> (f64, bool) {
    let Insn::Branch { op, dst, .. } = insn else { return (0.0, false) };
    let sampled = 1.0 / f64::from(sample);
    let part = match (op, place.after) {
        // The entry is there, and there is room for a new one. Only beginnings in the sample are stored.
        (JumpOp::Eq, Some("map_lookup_elem")) if *dst == Reg::R0 => match place.map {
            Some(MapType::Hash) => 1.0 - sampled,
            _ => 0.0,
        },
        (JumpOp::Eq, Some("map_update_elem" | "ringbuf_output")) if *dst == Reg::R0 => 1.0,
        (_, Some("ringbuf_query")) => 0.0,
        (JumpOp::Gt, Some(SAMPLER)) => 1.0 - sampled,
        (JumpOp::Eq, _) => return (0.125, true),
        (JumpOp::Ne, _) => return (0.875, true),
        _ => return (0.5, true),
    };
    (part, false)
}

/// The time of all ways from the beginning to an end.
fn walk(nodes: &[Node], places: &[Place], sample: u32, price: &dyn Fn(&Node, &Place) -> u64) -> Time {
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
            (insn @ Insn::Branch { .. }, Some(target)) => {
                let (part, depends) = taken(insn, &places[index], sample);
                let mixed = |taken: f64, next: f64| part * taken + (1.0 - part) * next;
                let either = |taken: f64, next: f64, best: fn(f64, f64) -> f64| match depends {
                    true => best(taken, next),
                    false => mixed(taken, next),
                };
                Time {
                    least: either(target.least, next.least, f64::min),
                    expected: mixed(target.expected, next.expected),
                    most: either(target.most, next.most, f64::max),
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
        let model = "machine x86-64\ninsn move 1\ninsn branch 1\ninsn jump 0\ninsn exit 1\ninsn wide 1\ninsn alu 1\n\
                     helper map_lookup_elem on percpu_hash 20\nhelper map_lookup_elem on hash 10\n\
                     helper ringbuf_output on ringbuf 50\nevent typed-hook 7\nevent ring-byte 0.1\nevent reader 200\n";
        let model = CostModel::parse(model).expect("a model");
        let object = kiln_program::text::parse(text).expect("a program");
        estimate(&object, &object.programs[0], &Hook::Typed("sys_enter".to_owned()), sample, &model)
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
    fn records_cost_their_bytes_and_their_reader() {
        let program = "; map ring ringbuf entries 4096\n; program raw_tracepoint\n; function main\n\
                       *(u64 *)(r10 - 8) = 1\nif r1 > 5 goto out\nr1 = map[ring]\nr2 = r10\nr2 += -8\nr3 = 8\nr4 = 0\n\
                       call ringbuf_output\nout:\nr0 = 0\nexit\n";
        let estimate = of(program);
        assert_eq!(estimate.reader_ns, Time { least: 0.0, expected: 100.0, most: 200.0 });
        assert!((estimate.program_ns.most - estimate.program_ns.least - 50.8 - 5.0).abs() < 0.01, "{estimate:?}");
    }
}
