//! How runs look: what programs returned, and what maps and heaps hold afterwards.

use kiln_driver::heap::HeapState;
use kiln_driver::hex::hex;
use kiln_driver::replay::Replayed;
use kiln_driver::run::{MapState, Ran};
use kiln_driver::shown::Clean;

use super::{count, table};
use crate::say;

/// Entries of a map that text shows.
pub const MAP_ENTRIES_SHOWN: usize = 16;

/// What a run gave.
pub fn ran(ran: &Ran, packet: &[u8], maps: bool) {
    let action = ran.action.map_or(String::new(), |action| format!(" ({action})"));
    say!("returned {}{action}", ran.value);
    if packet.is_empty() && ran.packet.is_empty() {
        // A program without a packet.
    } else if ran.packet == packet {
        say!("packet unchanged, {} bytes", packet.len());
    } else {
        say!("packet {} bytes: {}", ran.packet.len(), hex(&ran.packet));
    }
    if let Some(fields) = &ran.socket_buffer {
        let cb: Vec<String> = fields.cb.iter().map(|word| format!("{word:#x}")).collect();
        let mut set = vec![format!("cb {}", cb.join(" "))];
        set.retain(|_| fields.cb != [0; 5]);
        set.extend((fields.mark != 0).then(|| format!("mark {:#x}", fields.mark)));
        set.extend((fields.priority != 0).then(|| format!("priority {:#x}", fields.priority)));
        set.extend((fields.tstamp != 0).then(|| format!("tstamp {}", fields.tstamp)));
        if !set.is_empty() {
            say!("socket buffer: {}", set.join(", "));
        }
    }
    let counted = ran.instructions.map_or(String::new(), |count| format!(", {count} instructions"));
    let code = ran.code.map_or(String::new(), |code| format!(", code: {code}"));
    let native = ran.native_operations.map_or(String::new(), |own| format!(", {}", count(own, "native operation")));
    say!("{}{counted}{code}{native}", time(ran.duration_ns, ran.around_ns));
    for line in &ran.printed {
        say!("printed: {}", Clean(line.exact().trim_end()));
    }
    for cancelled in &ran.cancelled {
        let runs = count(cancelled.runs as usize, "run");
        say!("cancelled: {runs} at {}", kiln_checker::print::cancellation_point(&cancelled.point));
    }
    if maps {
        map_states(&ran.maps, &ran.heaps);
    }
}

/// Nanoseconds of a run, net of what is around the program, where that is known; or why there are none.
fn time(duration_ns: f64, around_ns: Option<f64>) -> String {
    // Test runs of the kernel have 32 bits for the time, and some program types fill in nothing.
    if duration_ns == 0.0 {
        return "not timed: the kernel does not measure runs of this program type".to_owned();
    }
    if duration_ns == f64::from(u32::MAX) {
        return "4.29 s a run or more: the kernel measures no longer ones".to_owned();
    }
    let net = kiln_driver::empty::net(duration_ns, around_ns);
    let around = around_ns.map_or(String::new(), |around| format!(", and {around:.1} around the program"));
    format!("{net:.1} ns a run{around}")
}

/// What a replay of a capture gave.
pub fn replayed(replayed: &Replayed, maps: bool) {
    let rows: Vec<Vec<String>> = replayed
        .actions
        .iter()
        .map(|count| {
            let share = 100.0 * count.packets as f64 / replayed.packets.max(1) as f64;
            let action = count.action.map_or(String::new(), |action| format!(" ({action})"));
            vec![format!("{}{action}", count.value), count.packets.to_string(), format!("{share:.1}%")]
        })
        .collect();
    say!("{}", table(&["returned", "packets", "share"], &rows));
    let not_run = |packets: usize, what: &str| match packets {
        0 => String::new(),
        some => format!(", {some} {what} not run"),
    };
    let too_short = not_run(replayed.too_short, "without an Ethernet header");
    let too_long = not_run(replayed.too_long, "larger than a test run's buffer");
    say!("{} run, {} changed{too_short}{too_long}", count(replayed.packets, "packet"), replayed.changed);
    let counted = replayed.instructions.map_or(String::new(), |count| format!(", {count} instructions in all"));
    let code = replayed.code.map_or(String::new(), |code| format!(", code: {code}"));
    say!("{}{counted}{code}", time(replayed.duration_ns, replayed.around_ns));
    for line in replayed.printed.iter().take(PRINTED_SHOWN) {
        say!("printed: {}", Clean(line.exact().trim_end()));
    }
    if replayed.printed.len() > PRINTED_SHOWN {
        say!(
            "... and {} more (--format json shows all)",
            count(replayed.printed.len() - PRINTED_SHOWN, "printed line")
        );
    }
    if maps {
        map_states(&replayed.maps, &replayed.heaps);
    }
}

/// Lines of what programs print that a replay shows.
const PRINTED_SHOWN: usize = 20;

/// What maps and heaps hold.
fn map_states(maps: &[MapState], heaps: &[HeapState]) {
    for map in maps {
        let entries = if map.count == 1 { "entry" } else { "entries" };
        let zeros = if map.zeros > 0 { format!(", {} zero", map.zeros) } else { String::new() };
        say!("map {}: {} {entries}{zeros}", map.name, map.count);
        let shown = if map.typed.is_empty() { &map.entries } else { &map.typed };
        for (key, value) in shown {
            say!("  {key}: {value}");
        }
        if map.count > shown.len() {
            say!("  ... (--format json shows all)");
        }
    }
    for heap in heaps {
        match heap.resident_bytes {
            Some(resident) => say!("heap {}: takes {resident} of {} bytes", heap.name, heap.bytes),
            None => say!("heap {}: {} bytes", heap.name, heap.bytes),
        }
        let Some(accounts) = &heap.accounts else { continue };
        say!(
            "  {} bytes allocated, {} of {} never used, {} allocations failed, {} wrong frees",
            accounts.allocated_bytes,
            accounts.fresh_bytes,
            accounts.supplied_bytes,
            accounts.failures,
            accounts.bad_frees
        );
    }
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_that_the_kernel_does_not_give() {
        assert_eq!(time(681.0, Some(71.0)), "610.0 ns a run, and 71.0 around the program");
        assert!(time(0.0, Some(0.0)).starts_with("not timed"));
        assert!(time(4_294_967_295.0, Some(80.0)).starts_with("4.29 s a run or more"));
    }
}
