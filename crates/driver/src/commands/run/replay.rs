//! `kiln run` on a capture: every packet in turn, on the same maps.

use std::collections::BTreeMap;

use kiln_program::Program;
use serde::Serialize;

use super::one::{MEASURED_PACKETS, MapState, Maps, Place, Session, Stimulus, action, check_input};
use crate::heap::HeapState;
use crate::inputs::feed::Feed;
use crate::packets::MIN_PACKET_BYTES;
use kiln_inspect::input::Input;
use kiln_inspect::show::shown::Shown;
use kiln_program::Error;
/// What a program did with the packets of a capture, one after the other, on the same maps.
#[derive(Clone, Debug, Serialize)]
pub struct Replayed {
    /// Packets that were run.
    pub packets: usize,
    /// Packets that are shorter than an Ethernet header, and were not run.
    pub too_short: usize,
    /// Packets that do not fit the buffer of a test run, such as those that a network card joined, and were not run.
    pub too_long: usize,
    /// How often each value was returned, most often first.
    pub actions: Vec<ActionCount>,
    /// Packets that the program changed.
    pub changed: usize,
    /// On the native tier, which code ran: `jit`, or the name of clang's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// Nanoseconds a run, averaged, with what is around the program.
    pub duration_ns: f64,
    /// Nanoseconds that a program which only returns takes in the same place, on the first packet; `None` where it cannot be
    /// run.
    pub around_ns: Option<f64>,
    /// Instructions of all runs, where the place counts them.
    pub instructions: Option<u64>,
    /// What the program printed.
    pub printed: Vec<Shown>,
    /// What its maps hold afterwards.
    pub maps: Vec<MapState>,
    /// What the allocators of the object's heaps have given out.
    pub heaps: Vec<HeapState>,
    /// The packets as the program left them, without those that it dropped.
    #[serde(skip)]
    pub kept: Vec<Vec<u8>>,
}

/// How often a value was returned.
#[derive(Clone, Debug, Serialize)]
pub struct ActionCount {
    /// The value.
    pub value: u32,
    /// Its name, where the program type gives it one.
    pub action: Option<&'static str>,
    /// How many packets.
    pub packets: usize,
}

/// Bytes of a packet that every test run takes. Whether a longer one fits depends on the program type.
const ALWAYS_FIT: usize = 3520;
/// What the kernel's test run answers for a packet that does not fit.
const EINVAL: i32 = 22;

/// Lines that a replay keeps of what programs print.
const PRINTED_LINES: usize = 10_000;

/// Runs one program on every packet of a capture.
///
/// # Errors
/// As [`super::run_fed`]; the first packet whose run fails ends it.
pub fn replay(
    input: &Input,
    program: &Program,
    packets: &[Vec<u8>],
    stimulus: &Stimulus,
    place: Place,
    feed: &Feed,
    maps: &Maps,
) -> Result<Replayed, Error> {
    let long: Vec<&Vec<u8>> = packets.iter().filter(|packet| packet.len() >= MIN_PACKET_BYTES).collect();
    let Some(first) = long.first() else {
        return Err(Error::InvalidInput("the capture has no packet with an Ethernet header".to_owned()));
    };
    check_input(program, &Stimulus { packet: (*first).clone(), ..stimulus.clone() })?;
    let measured: Vec<&[u8]> = long.iter().take(MEASURED_PACKETS).map(|packet| &packet[..]).collect();
    let session = Session::open(input, program, stimulus, place, feed, &measured)?;
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    let (mut changed, mut duration_ns, mut instructions) = (0, 0.0, None);
    let (mut printed, mut kept, mut too_long) = (Vec::new(), Vec::new(), 0);
    for (at, packet) in packets.iter().enumerate().filter(|(_, packet)| packet.len() >= MIN_PACKET_BYTES) {
        let one = match session.run(&Stimulus { packet: packet.clone(), ..stimulus.clone() }) {
            Ok(one) => one,
            Err(Error::InvalidInput(_) | Error::Os { errno: EINVAL, .. }) if packet.len() > ALWAYS_FIT => {
                too_long += 1;
                continue;
            }
            Err(Error::Limit(text)) => return Err(Error::Limit(format!("packet {}: {text}", at + 1))),
            Err(Error::InvalidInput(text)) => return Err(Error::InvalidInput(format!("packet {}: {text}", at + 1))),
            Err(other) => return Err(other),
        };
        *counts.entry(one.value).or_default() += 1;
        changed += usize::from(one.packet != *packet);
        duration_ns += one.duration_ns;
        instructions = one.instructions.map_or(instructions, |count| Some(instructions.unwrap_or(0) + count));
        printed.extend(one.printed.into_iter().take(PRINTED_LINES - printed.len().min(PRINTED_LINES)));
        let dropped = matches!(action(program, one.value), Some("XDP_DROP" | "XDP_ABORTED" | "TC_ACT_SHOT"));
        if !dropped {
            kept.push(one.packet);
        }
    }
    let mut actions: Vec<ActionCount> = counts
        .into_iter()
        .map(|(value, packets)| ActionCount { value, action: action(program, value), packets })
        .collect();
    actions.sort_by_key(|count| std::cmp::Reverse(count.packets));
    Ok(Replayed {
        packets: long.len() - too_long,
        too_short: packets.len() - long.len(),
        too_long,
        actions,
        changed,
        duration_ns: duration_ns / (long.len() - too_long).max(1) as f64,
        around_ns: session.around_ns(&Stimulus { packet: (*first).clone(), ..stimulus.clone() }),
        instructions,
        code: session.code(),
        printed,
        maps: session.maps(maps)?,
        heaps: session.heaps(),
        kept,
    })
}
