//! The arguments of `kiln dispatch`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum, ValueHint};
use kiln_driver::dispatch::XdpMode;
use kiln_driver::dispatch::sockets::{Wanted, ports};

use super::query::duration;

/// Shown below `kiln dispatch --help`.
pub const EXAMPLES: &str = "\
Examples:
  kiln dispatch 'schedule(packet): packet.count % executors' \\
      --interface eth0 --processors 0-3
  kiln dispatch 'schedule(packet): hash(udp.payload[0]) % executors' \\
      --interface eth0 --processors 0-3 --duration 10s
  kiln dispatch 'schedule(packet): hash(udp.payload[0]) % executors' \\
      --sockets udp:9000
  kiln dispatch 'schedule(packet): packet.count % N' \\
      --sockets tcp:8081-8084 --hook sk_lookup --ports 80
  kiln dispatch policy.kiln --processors 0-3
                                      its program, without loading it (no root)
  kiln dispatch policy.kiln --hook sk_lookup --executors 4
                                      the same, for sockets
  kiln dispatch policy.kiln --replay packets.pcap --executors 4
                                      where the packets of a capture would go
                                      (no root)
  kiln dispatch --fields              what a policy can read of a packet

Ctrl-C ends it; the interface, or the sockets, are then as they were.";

/// `kiln dispatch`.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("target").args(["interface", "sockets"])))]
pub struct DispatchArguments {
    /// The policy, as text that begins with `schedule(packet):`, or a file with it.
    #[arg(required_unless_present = "fields")]
    pub policy: Option<String>,
    /// Attach it to this interface (root).
    #[arg(long, value_name = "NAME", requires = "processors", conflicts_with = "replay")]
    pub interface: Option<String>,
    /// The processors that are its executors, such as 0-3 or 1,3.
    #[arg(long, value_name = "LIST", value_parser = processors, conflicts_with_all = ["executors", "sockets", "hook"])]
    pub processors: Option<Processors>,
    /// Attach it to the sockets that are bound here, which are its executors (root): `udp:9000`,
    /// `tcp:198.51.100.1:80`, `udp:[::1]:5300-5303`.
    #[arg(long, value_name = "SOCKETS", conflicts_with = "replay")]
    pub sockets: Option<Wanted>,
    /// Only the sockets of this process, in its network namespace.
    #[arg(long, value_name = "PID", requires = "sockets")]
    pub pid: Option<u32>,
    /// Where packets get their socket.
    #[arg(long, value_enum)]
    pub hook: Option<SocketHook>,
    /// The ports whose packets are dispatched at sk_lookup, such as 80 or 9000-9003; else those of the sockets.
    #[arg(long, value_name = "PORTS", value_parser = ports, requires = "hook")]
    pub ports: Option<[u16; 2]>,
    /// End after this long, such as 500ms, 10s or 5m.
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "target")]
    pub duration: Option<Duration>,
    /// How to attach: in the driver, or behind it on interfaces whose driver has no XDP.
    #[arg(long, value_enum, default_value_t = Mode::Default, requires = "interface")]
    pub mode: Mode,
    /// Say where the packets of a capture (pcap, pcapng) would go.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "executors")]
    pub replay: Option<PathBuf>,
    /// Executors for --replay or --hook; with --sockets, how many there must be.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub executors: Option<u32>,
    /// List the fields of a packet.
    #[arg(long, conflicts_with_all = ["policy", "interface", "processors", "sockets", "hook", "replay", "executors"])]
    pub fields: bool,
}

/// Where packets get their socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum SocketHook {
    /// Among the sockets that share an address and port (SO_REUSEPORT); the default.
    #[value(name = "sk_reuseport")]
    Reuseport,
    /// Where the socket of a port is looked for; the executors can be any sockets of the network namespace.
    #[value(name = "sk_lookup")]
    Lookup,
}

/// Where an XDP program is attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Mode {
    /// In the driver if it can, behind it otherwise.
    Default,
    /// In the driver.
    Native,
    /// Behind the driver.
    Generic,
}

impl From<Mode> for XdpMode {
    fn from(mode: Mode) -> XdpMode {
        match mode {
            Mode::Default => XdpMode::Default,
            Mode::Native => XdpMode::Native,
            Mode::Generic => XdpMode::Generic,
        }
    }
}

/// Numbers of processors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Processors(pub Vec<u32>);

/// Processors at most, and the greatest number of one.
const MAX_PROCESSORS: usize = 256;
const MAX_PROCESSOR: u32 = 8191;

/// `0-3`, `1,3`, `0-1,4-5`.
fn processors(text: &str) -> Result<Processors, String> {
    let wrong = || "processors such as 0-3 or 1,3 are expected".to_owned();
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|number| *number <= MAX_PROCESSOR);
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first).ok_or_else(wrong)?, number(last).ok_or_else(wrong)?);
        if first > last {
            return Err(wrong());
        }
        numbers.extend(first..=last);
    }
    if numbers.len() > MAX_PROCESSORS {
        return Err(format!("a policy has {MAX_PROCESSORS} executors at most"));
    }
    Ok(Processors(numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert_eq!(processors("0-2,7"), Ok(Processors(vec![0, 1, 2, 7])));
        for wrong in ["", "a", "3-1", "1-", "9999", "0-300"] {
            assert!(processors(wrong).is_err(), "{wrong}");
        }
    }
}
