//! `kiln doctor --calibrate`: what the operators of queries cost on this machine.
//!
//! Instructions and helpers are measured by [`profile`]. This adds what only events show: what each kind of hook takes to
//! call a program ([`hooks`]), what a record's bytes cost, and what user space does with a record. Samples with and without
//! it are interleaved.
//!
//! The result is a cost model in a file of the user's, which `kiln query` reads to estimate what a plan will cost.

mod entries;
mod hooks;

pub use hooks::{Passing, passings};

use kiln_linux::{RingReader, TestInput};
use kiln_plan::execute::{Executor, Limits};
use kiln_plan::generate::layout::TAG_BYTES;
use kiln_plan::{Origin, Settings, Split, generate};
use kiln_platform::MapType;
use kiln_superopt::cost::EventPart;
use kiln_superopt::{CostModel, Stopwatch};

use crate::profile::{self, Profile};
use crate::timing::Timing;
use kiln_live::Session;
use kiln_live::cost::parts;
use kiln_live::live::loaded;
pub use kiln_live::model::{model, path};
use kiln_program::Error;

/// Samples of each measurement.
const SAMPLES: usize = 9;
/// Records a sample of user space's half.
const RECORDS: u32 = 50_000;
/// Records of one run, and runs of one sample, of what the ring buffer is measured with.
const OUTPUTS: [u32; 2] = [64, 8];
/// Their bytes, small and large.
const BYTES: [u32; 2] = [8, 256];

/// What was measured.
pub struct Calibration {
    /// Instructions and helpers.
    pub profile: Profile,
    /// Parts of an event, in picoseconds.
    pub events: Vec<(EventPart, u64)>,
    /// What `ringbuf_output` takes for eight bytes, in picoseconds.
    pub output: Option<u64>,
    /// What a hash map takes to store a new entry and to delete it, in picoseconds.
    pub entries: Option<[u64; 2]>,
    /// What was not measured, and why.
    pub missing: Vec<(&'static str, String)>,
}

impl Calibration {
    /// As a cost model's text, with the machine it is of.
    pub fn to_text(&self) -> String {
        let Profile { processor, kernel, .. } = &self.profile;
        format!("# Measured by `kiln doctor --calibrate`: {processor}, Linux {kernel}.\n{}", self.model().to_text())
    }

    /// The cost model: what was measured, and the rest from the table of this kind of machine.
    pub fn model(&self) -> CostModel {
        let mut model = self.profile.model();
        self.events.iter().for_each(|(part, picoseconds)| model.set_event(*part, *picoseconds));
        let [store, delete] = self.entries.map_or([None; 2], |both| both.map(Some));
        for (name, on, price) in [
            ("ringbuf_output", MapType::Ringbuf, self.output),
            ("map_update_elem", MapType::Hash, store),
            ("map_delete_elem", MapType::Hash, delete),
        ] {
            if let (Some(helper), Some(price)) = (kiln_platform::Helper::by_name(name), price) {
                model.set_helper_on(helper.id, on, price);
            }
        }
        model
    }
}

/// Measures in the running kernel. `step` gets the name of each measurement and returns whether to go on.
///
/// # Errors
/// [`Error::Unsupported`] when nothing could be measured at all, or it was ended.
pub fn calibrate(step: &mut dyn FnMut(String) -> bool) -> Result<Calibration, Error> {
    kiln_linux::running::require_kernel()?;
    let profile = profile::profile(true, step)?;
    let mut calibration = Calibration { profile, events: Vec::new(), output: None, entries: None, missing: Vec::new() };
    for passing in hooks::passings() {
        let parts = parts(&passing.hooks[0]);
        if !step(format!("what a {} costs", parts[0].name())) {
            return Err(Error::Unsupported("ended before it was measured".to_owned()));
        }
        match passing.measure() {
            Ok(times) => calibration.events.extend(parts.into_iter().zip(times.map(picoseconds))),
            Err(error) => calibration.missing.extend(parts.map(|part| (part.name(), error.to_string()))),
        }
    }
    match hooks::clock() {
        Ok(ns) => calibration.events.push((EventPart::ClockEntry, picoseconds(ns))),
        Err(error) => calibration.missing.push((EventPart::ClockEntry.name(), error.to_string())),
    }
    step("what a record costs".to_owned());
    match ring() {
        Ok([small, large]) => {
            let byte = (large - small).max(0.0) / f64::from(BYTES[1] - BYTES[0]);
            calibration.events.push((EventPart::RingByte, picoseconds(byte)));
            calibration.output = Some(picoseconds(small));
        }
        Err(error) => calibration.missing.push((EventPart::RingByte.name(), error.to_string())),
    }
    match entries::stored_and_deleted() {
        Ok(both) => calibration.entries = Some(both.map(picoseconds)),
        Err(error) => calibration.missing.push(("map_update_elem", error.to_string())),
    }
    match reader() {
        Ok(ns) => calibration.events.push((EventPart::Reader, picoseconds(ns))),
        Err(error) => calibration.missing.push((EventPart::Reader.name(), error.to_string())),
    }
    Ok(calibration)
}

fn picoseconds(ns: f64) -> u64 {
    (ns.max(0.0) * 1000.0).round() as u64
}

fn median(samples: Vec<f64>) -> f64 {
    Timing::of(samples).map_or(0.0, |timing| timing.median_ns)
}

/// Nanoseconds of `ringbuf_output`, for a small record and a large one.
fn ring() -> Result<[f64; 2], Error> {
    let text = |bytes: Option<u32>| {
        let clear: String = (1..=BYTES[1] / 8).map(|word| format!("*(u64 *)(r10 - {}) = 0\n", 8 * word)).collect();
        let operands =
            bytes.map(|bytes| format!("r1 = map[ring]\nr2 = r10\nr2 += -{}\nr3 = {bytes}\nr4 = 1\n", BYTES[1]));
        let body = operands.map_or_else(String::new, |operands| operands + "call ringbuf_output\n");
        let turns = OUTPUTS[0];
        format!(
            "; map ring ringbuf entries 4194304\n; program sched_cls\n; function main\n{clear}r1 = map[ring]\nr9 = 0\nturn:\n{body}\
             r9 += 1\nif r9 < {turns} goto turn\nr0 = 0\nexit\n"
        )
    };
    let sample = |images: &kiln_linux::LoadedImages| -> Result<f64, Error> {
        let input = TestInput { packet: vec![0; 64], context: Vec::new(), repeat: OUTPUTS[1] };
        let ran = images.progs[0].test_run(&input)?;
        // Make room again: a full ring buffer refuses records, which is faster.
        for map in images.maps.values() {
            RingReader::new(map)?.read(|_| ())?;
        }
        Ok(f64::from(ran.duration_ns) / f64::from(OUTPUTS[0]))
    };
    let none = loaded(&text(None))?;
    let [small, large] = BYTES.map(|bytes| loaded(&text(Some(bytes))));
    let (small, large) = (small?, large?);
    let mut samples = [Vec::new(), Vec::new()];
    for round in 0..=SAMPLES {
        let empty = sample(&none)?;
        for (samples, images) in samples.iter_mut().zip([&small, &large]) {
            let own = sample(images)? - empty;
            // The first round warms up.
            if round > 0 {
                samples.push(own);
            }
        }
    }
    Ok(samples.map(median))
}

/// Nanoseconds that user space takes for a record: of system calls' begins and ends, paired and grouped.
fn reader() -> Result<f64, Error> {
    let session = Session::new("SELECT pid, name, max(latency_ns) FROM syscalls GROUP BY pid, name")?;
    let generated = generate(session.query(), Split::Mvsf, Origin::Hooks(&session.types), &Settings::default());
    let generated = generated.map_err(|failure| Error::Unsupported(failure.to_string()))?;
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        let mut executor = Executor::new(session.query().clone(), &generated, Limits::default());
        let mut records: Vec<Vec<u8>> =
            generated.records.iter().map(|record| vec![0; usize::from(record.bytes)]).collect();
        let begun = Stopwatch::start();
        for turn in 0..RECORDS {
            let at = turn as usize % records.len();
            let (layout, bytes) = (&generated.records[at], &mut records[at]);
            if let (Some(tag), Some(place)) = (layout.tag, bytes.get_mut(..usize::from(TAG_BYTES))) {
                place.copy_from_slice(&tag.to_le_bytes());
            }
            executor.record(bytes);
        }
        samples.push(begun.elapsed().as_nanos() as f64 / f64::from(RECORDS));
    }
    Ok(median(samples))
}
