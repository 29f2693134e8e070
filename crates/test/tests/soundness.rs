//! The verifier's facts about real programs, whatever helpers, maps and constants give ([`kiln_test::havoc`]); for facts
//! that hold for any load, anything is in `.rodata`, too.
//!
//! `KILN_SOUNDNESS_PACKETS` says how many runs each program gets, for a longer look.

use kiln_driver::input::running_kernel_types;
use kiln_driver::packets::{self, Random};
use kiln_platform::ProgramType;
use kiln_program::btf::{Btf, Kind as BtfKind};
use kiln_program::{MapContents, Object};
use kiln_test::corpus;
use kiln_test::havoc::{Tally, check, is_array, noise};
use kiln_test::oracle::Canary;
use kiln_verifier::{Assumptions, Options, verify};

/// The object with random data, also read-only data if that may be anything. Every other seed keeps the data, so that
/// programs pass their own checks of whether to run.
fn with_noise(object: &Object, assumptions: Assumptions, seed: u64) -> Object {
    let mut object = object.clone();
    if seed % 2 == 0 {
        return object;
    }
    let mut random = Random::new(seed);
    for map in object.maps.iter_mut().filter(|map| is_array(map.map_type) && map.value_size < 1 << 16) {
        let size = map.value_size as usize;
        match &map.contents {
            MapContents::Empty | MapContents::Data(_) => map.contents = MapContents::Data(noise(&mut random, size)),
            MapContents::ReadOnly(_) if assumptions == Assumptions::AnyLoad => {
                map.contents = MapContents::ReadOnly(noise(&mut random, size));
            }
            _ => {}
        }
    }
    object
}

/// Program types whose contexts the bare environment has, or whose contexts are numbers only.
fn has_context(program_type: ProgramType) -> bool {
    use ProgramType::*;
    matches!(program_type, Xdp | SchedCls | SchedAct | SocketFilter | CgroupSkb | LwtIn | LwtOut | LwtXmit)
        || matches!(program_type, Kprobe | Tracepoint | PerfEvent | RawTracepoint)
}

/// Whether some value holds kernel pointers, which random data would forge.
fn holds_kernel_pointers(object: &Object) -> bool {
    let Some(btf) = object.btf.as_deref().and_then(|bytes| Btf::parse(bytes).ok()) else { return false };
    let is_tag = |id| matches!(btf.kind(id), BtfKind::TypeTag { .. });
    let mut tags = btf.own_ids().filter(|id| is_tag(*id));
    tags.any(|id| btf.name(id).contains("kptr"))
}

fn look_at_all(assumptions: Assumptions, canary: Canary, each: u64) -> (Tally, Vec<String>) {
    let packets = packets::corpus(23, each as usize);
    let (mut tally, mut broken) = (Tally::default(), Vec::new());
    for entry in corpus::objects() {
        let Ok(input) = entry.read() else { continue };
        let object = &input.object;
        if holds_kernel_pointers(object) {
            continue;
        }
        for program in object.programs.iter().filter(|program| program.program_type.is_some_and(has_context)) {
            let options = Options { assumptions, kernel_types: running_kernel_types(), ..Options::default() };
            let Ok(verified) = verify(object, program, &options) else { continue };
            tally.programs += 1;
            for (seed, packet) in packets.iter().enumerate() {
                let noisy = with_noise(object, assumptions, seed as u64 + 1);
                let checked = check(&noisy, program, &verified.facts, packet, seed as u64 + 1, canary, &mut tally);
                if let Err(what) = checked {
                    broken.push(format!("{} {}: seed {}: {what}", entry.path.display(), program.name, seed + 1));
                    break;
                }
            }
        }
    }
    (tally, broken)
}

#[track_caller]
fn holds(assumptions: Assumptions) {
    let packets = std::env::var("KILN_SOUNDNESS_PACKETS").ok().and_then(|count| count.parse().ok()).unwrap_or(8);
    let (tally, broken) = look_at_all(assumptions, Canary::Absent, packets);
    eprintln!("{assumptions:?}: {tally:?}");
    assert!(broken.is_empty(), "{} programs:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn facts_hold_as_loaded() {
    holds(Assumptions::AsLoaded);
}

#[test]
fn facts_hold_for_any_load() {
    holds(Assumptions::AnyLoad);
}

#[test]
fn a_wrong_fact_is_found() {
    if corpus::objects().is_empty() {
        return;
    }
    let (tally, broken) = look_at_all(Assumptions::AsLoaded, Canary::Present, 2);
    assert!(broken.len() as u64 * 4 > tally.programs, "{} of {} programs", broken.len(), tally.programs);
}
