//! The sockets that are a policy's executors: found by port, whichever processes have them.
//!
//! ```text
//!   udp:9000 --> /proc/.../net/udp, udp6: addresses, inodes --> /proc/PID/fd: process and descriptor of each
//!            --> pidfd_getfd: descriptors of our own, as long as the kernel is told of them
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use kiln_linux::ProcessSocket;
use kiln_plan::dispatch::{MAX_EXECUTORS, Transport};
use serde::Serialize;

use kiln_inspect::file;
use kiln_inspect::show::shown::Shown;
use kiln_program::Error;

/// Bytes of a list of sockets at most.
const MAX_LIST_BYTES: u64 = 64 << 20;
/// Bytes of a process's name at most.
const MAX_NAME_BYTES: u64 = 4096;

/// Sockets by what they speak and where they are bound: `udp:9000`, `tcp:198.51.100.1:80`, `udp:[::1]:5300-5303`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// What they speak.
    pub transport: Transport,
    /// Their address, if only one is wanted.
    pub address: Option<IpAddr>,
    /// The first and last port.
    pub ports: [u16; 2],
}

/// `9000`, `5300-5303`.
///
/// # Errors
/// A sentence.
pub fn ports(text: &str) -> Result<[u16; 2], String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    let both = port(first).zip(port(last)).filter(|(first, last)| first <= last);
    both.map(|(first, last)| [first, last]).ok_or_else(|| format!("`{text}` is no port such as 9000 or 9000-9003"))
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Wanted, String> {
        let wrong = || "sockets such as udp:9000, tcp:198.51.100.1:80 or udp:[::1]:5300-5303 are expected".to_owned();
        let (transport, bound) = text.split_once(':').ok_or_else(wrong)?;
        let transport = [Transport::Udp, Transport::Tcp].into_iter().find(|known| known.name() == transport);
        let (address, last) = match bound.rsplit_once(':') {
            None => (None, bound),
            Some((address, last)) => {
                let bare = address.strip_prefix('[').and_then(|address| address.strip_suffix(']'));
                let parsed = match bare {
                    Some(bare) => bare.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
                    None => address.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
                };
                (Some(parsed.ok_or_else(wrong)?), last)
            }
        };
        Ok(Wanted { transport: transport.ok_or_else(wrong)?, address, ports: ports(last)? })
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, last] = self.ports;
        write!(out, "{}:", self.transport.name())?;
        match self.address {
            Some(IpAddr::V6(address)) => write!(out, "[{address}]:")?,
            Some(address) => write!(out, "{address}:")?,
            None => {}
        }
        if first == last { write!(out, "{first}") } else { write!(out, "{first}-{last}") }
    }
}

/// A socket that was found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Found {
    /// Where it is bound.
    pub address: SocketAddr,
    /// The process that has it; the first one where several have.
    pub pid: u32,
    /// The process's name.
    pub process: Shown,
    /// Its descriptor there.
    pub descriptor: i32,
}

/// Executors of a policy, in the order of their numbers: by port, process and descriptor.
#[derive(Debug)]
pub struct Sockets {
    /// What was asked for.
    pub wanted: Wanted,
    /// What was found.
    pub found: Vec<Found>,
    pub(super) held: Vec<ProcessSocket>,
    /// The network namespace that they are in.
    pub(super) namespace: PathBuf,
}

impl Sockets {
    /// Finds sockets in this thread's network namespace, or those of one process.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where there are none, or too many; [`Error::Os`] where we may not ask for them.
    pub fn find(wanted: Wanted, process: Option<u32>) -> Result<Sockets, Error> {
        let proc = |rest: &str| match process {
            Some(pid) => PathBuf::from(format!("/proc/{pid}/{rest}")),
            None => PathBuf::from(format!("/proc/thread-self/{rest}")),
        };
        if let Some(pid) = process.filter(|_| !proc("").is_dir()) {
            return Err(Error::InvalidInput(format!("there is no process {pid}")));
        }
        let bound = bound(&wanted, &proc("net"))?;
        if bound.is_empty() {
            let (what, list) = match wanted.transport {
                Transport::Udp => ("is bound to", "ss -lnup"),
                Transport::Tcp => ("listens on", "ss -lntp"),
            };
            return Err(Error::InvalidInput(format!(
                "no socket {what} {wanted} here; `{list}` lists those that there are"
            )));
        }
        let mut found = owners(&bound, process);
        if found.is_empty() {
            // Without root, other users' processes have no descriptors to be seen.
            kiln_linux::running::require_kernel()?;
            let whose = process.map_or("no process here".to_owned(), |pid| format!("not process {pid}"));
            return Err(Error::InvalidInput(format!("sockets are on {wanted}, but {whose} has them")));
        }
        if found.len() > MAX_EXECUTORS as usize {
            let count = found.len();
            let message =
                format!("{count} sockets are on {wanted}, and a policy has {MAX_EXECUTORS} executors at most");
            return Err(Error::InvalidInput(message));
        }
        found.sort_by_key(|one| (one.address.port(), one.pid, one.descriptor));
        let held = found.iter().map(|one| ProcessSocket::new(one.pid, one.descriptor));
        let held = held.collect::<Result<_, _>>()?;
        Ok(Sockets { wanted, found, held, namespace: proc("ns/net") })
    }

    /// Whether all of them are closed.
    pub(super) fn are_closed(&self) -> bool {
        self.held.iter().all(|socket| socket.open().is_none())
    }
}

/// Where the wanted sockets are bound, by inode.
fn bound(wanted: &Wanted, folder: &Path) -> Result<BTreeMap<u64, SocketAddr>, Error> {
    let mut bound = BTreeMap::new();
    for version in ["", "6"] {
        let path = folder.join(format!("{}{version}", wanted.transport.name()));
        // A kernel without IPv6 has no second list.
        if version == "6" && !path.exists() {
            continue;
        }
        let list = file::text(&path, MAX_LIST_BYTES)?;
        bound.extend(list.lines().skip(1).filter_map(|line| listed(wanted, line)));
    }
    Ok(bound)
}

/// The inode and address of a line of `/proc/net/udp`, if it is a wanted socket that takes what comes from anywhere.
fn listed(wanted: &Wanted, line: &str) -> Option<(u64, SocketAddr)> {
    /// `TCP_CLOSE`, which unconnected sockets of UDP are in, and `TCP_LISTEN`.
    const UNCONNECTED: &str = "07";
    const LISTENING: &str = "0A";
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, local, _, state, _, _, _, _, _, inode, ..] = words[..] else { return None };
    let taken = match wanted.transport {
        Transport::Udp => UNCONNECTED,
        Transport::Tcp => LISTENING,
    };
    let (address, port) = local.split_once(':')?;
    let address = SocketAddr::new(in_hex(address)?, u16::from_str_radix(port, 16).ok()?);
    let is_wanted = state == taken
        && (wanted.ports[0]..=wanted.ports[1]).contains(&address.port())
        && wanted.address.is_none_or(|wanted| wanted == address.ip());
    is_wanted.then_some((inode.parse().ok()?, address))
}

/// An address as the kernel prints it: words of four bytes in the machine's order.
fn in_hex(text: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    match text.len() {
        8 => Some(IpAddr::from(word(0)?)),
        32 => {
            let words: Vec<[u8; 4]> = (0..4).map(|at| word(8 * at)).collect::<Option<_>>()?;
            Some(IpAddr::from(<[u8; 16]>::try_from(words.concat()).ok()?))
        }
        _ => None,
    }
}

/// The processes that have these sockets, or those that one process has: one row for each socket.
fn owners(bound: &BTreeMap<u64, SocketAddr>, process: Option<u32>) -> Vec<Found> {
    let numbers = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut numbers: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    };
    let mut left = bound.clone();
    let mut found = Vec::new();
    for pid in process.map_or_else(|| numbers(Path::new("/proc")), |pid| vec![pid]) {
        let folder = PathBuf::from(format!("/proc/{pid}/fd"));
        for descriptor in numbers(&folder) {
            let Ok(target) = std::fs::read_link(folder.join(descriptor.to_string())) else { continue };
            let inode = target.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
            let Some(address) = inode.and_then(|inode: u64| left.remove(&inode)) else { continue };
            let name = file::text(Path::new(&format!("/proc/{pid}/comm")), MAX_NAME_BYTES).unwrap_or_default();
            found.push(Found { address, pid, process: name.trim_end().into(), descriptor: descriptor as i32 });
        }
        if left.is_empty() {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_named_by_protocol_address_and_port() {
        for text in ["udp:9000", "tcp:198.51.100.1:80", "udp:[::1]:5300-5303", "tcp:1-65535"] {
            assert_eq!(text.parse::<Wanted>().map(|wanted| wanted.to_string()), Ok(text.to_owned()));
        }
        for wrong in ["", "9000", "udp", "udp:", "sctp:9", "udp:0", "udp:70000", "udp:9-8", "udp:::1:80", "udp:host:80"]
        {
            assert!(wrong.parse::<Wanted>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_of_the_kernel_are_read() {
        let row = |local: &str, state: &str| {
            format!("  12: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  0  0 4711 2 0 0")
        };
        let wanted: Wanted = "udp:9000".parse().unwrap();
        let of = |wanted: &Wanted, text: String| listed(wanted, &text).map(|(_, address)| address.to_string());
        if cfg!(target_endian = "little") {
            assert_eq!(of(&wanted, row("0100007F:2328", "07")), Some("127.0.0.1:9000".to_owned()));
            let six = "00000000000000000000000001000000:2328";
            assert_eq!(of(&wanted, row(six, "07")), Some("[::1]:9000".to_owned()));
            assert_eq!(of(&"udp:127.0.0.2:9000".parse().unwrap(), row("0100007F:2328", "07")), None);
        }
        // Another port; a connected socket; lines that are cut.
        assert_eq!(of(&wanted, row("0100007F:2329", "07")), None);
        assert_eq!(of(&wanted, row("0100007F:2328", "01")), None);
        for end in 0..row("0100007F:2328", "07").len() {
            let _ = listed(&wanted, &row("0100007F:2328", "07")[..end]);
        }
    }
}
