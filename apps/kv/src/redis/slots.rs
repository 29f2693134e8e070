//! Redis Cluster's slots: a key has one of 16,384, and a file says which server has which.
//!
//! ```text
//!   127.0.0.1:7001 0-5460            a server and its slots
//!   127.0.0.1:7002 5461-10922
//!   127.0.0.1:7003 10923-16383       # what follows is not read
//! ```
//!
//! Servers do not talk to each other: each reads the file, and again when it has changed. Keys stay where they are.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use super::refusal::Refusal;

/// Slots.
pub const SLOTS: u16 = 16_384;
/// Servers that a file may name.
const NODES_MOST: usize = 1000;
/// Bytes of a file.
const FILE_MOST: u64 = 1 << 20;
/// No server.
const NOBODY: u16 = u16::MAX;

/// A server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Where it is.
    pub address: SocketAddr,
    /// Its name among all servers: 40 hexadecimal digits, made of its address.
    pub id: String,
    /// Its slots, in order.
    pub slots: Vec<RangeInclusive<u16>>,
}

/// Which server has which slots.
pub struct Layout {
    /// All servers.
    pub nodes: Vec<Node>,
    owners: Vec<u16>,
    /// Which of them this server is, if the file names it.
    pub own: Option<usize>,
}

/// The CRC of 16 bits that Redis Cluster uses: XMODEM's.
fn crc(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let mixed = crc ^ u16::from(*byte) << 8;
        (0..8).fold(mixed, |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 })
    })
}

/// A key's slot. If a part of the key is in braces, keys with the same part have the same slot.
pub fn slot(key: &[u8]) -> u16 {
    let begun = key.iter().position(|byte| *byte == b'{').map(|at| &key[at + 1..]);
    let part = begun.and_then(|rest| rest.iter().position(|byte| *byte == b'}').map(|end| &rest[..end]));
    crc(part.filter(|part| !part.is_empty()).unwrap_or(key)) % SLOTS
}

fn id(address: SocketAddr) -> String {
    (0..5).map(|number| format!("{:08x}", crc32fast::hash(format!("{number} {address}").as_bytes()))).collect()
}

fn slots(text: &str) -> Option<RangeInclusive<u16>> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (from.parse().ok()?, to.parse().ok()?);
    (from <= to && to < SLOTS).then_some(from..=to)
}

impl Layout {
    /// Reads a file's text for the server at an address.
    ///
    /// # Errors
    /// Returns the first line that is wrong, and why.
    pub fn read(text: &str, own: SocketAddr) -> Result<Layout, String> {
        let mut layout = Layout { nodes: Vec::new(), owners: vec![NOBODY; usize::from(SLOTS)], own: None };
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            layout.add(line).map_err(|why| format!("line {}: {why}", number + 1))?;
        }
        layout.own = layout.nodes.iter().position(|node| node.address == own);
        Ok(layout)
    }

    fn add(&mut self, line: &str) -> Result<(), String> {
        let mut words = line.split_whitespace();
        let Some(address) = words.next() else { return Ok(()) };
        let address: SocketAddr = address.parse().map_err(|_| format!("{address:?} is not ADDRESS:PORT"))?;
        if self.nodes.iter().any(|node| node.address == address) {
            return Err(format!("{address} is named twice"));
        }
        if self.nodes.len() >= NODES_MOST {
            return Err(format!("more than {NODES_MOST} servers"));
        }
        let mut node = Node { address, id: id(address), slots: Vec::new() };
        for word in words {
            let range = slots(word).ok_or_else(|| format!("{word:?} is not FIRST-LAST with slots below {SLOTS}"))?;
            for slot in range.clone() {
                if self.owners[usize::from(slot)] != NOBODY {
                    return Err(format!("slot {slot} has two servers"));
                }
                self.owners[usize::from(slot)] = self.nodes.len() as u16;
            }
            node.slots.push(range);
        }
        node.slots.sort_by_key(|range| *range.start());
        self.nodes.push(node);
        Ok(())
    }

    /// The server that has a slot.
    fn owner(&self, slot: u16) -> Option<usize> {
        self.owners.get(usize::from(slot)).filter(|owner| **owner != NOBODY).map(|owner| usize::from(*owner))
    }

    /// Slots that have a server.
    pub fn assigned(&self) -> usize {
        self.owners.iter().filter(|owner| **owner != NOBODY).count()
    }

    /// Whether this server serves a command with these keys.
    ///
    /// # Errors
    /// Returns Redis' words for keys of several slots, for another server's, and for those that no server has.
    pub fn admit<'k>(&self, mut keys: impl Iterator<Item = &'k [u8]>) -> Result<(), Refusal> {
        let Some(first) = keys.next().map(slot) else { return Ok(()) };
        let owner = self.owner(first).ok_or("CLUSTERDOWN Hash slot not served")?;
        if keys.any(|key| slot(key) != first) {
            return Err("CROSSSLOT Keys in request don't hash to the same slot".into());
        }
        if self.own == Some(owner) {
            Ok(())
        } else {
            Err(format!("MOVED {first} {}", self.nodes[owner].address).into())
        }
    }
}

/// What tells two states of a file apart.
type Stamp = (SystemTime, u64);

/// The file of a cluster, and what it said last.
pub struct Cluster {
    path: PathBuf,
    address: SocketAddr,
    layout: RwLock<Arc<Layout>>,
    stamp: Mutex<Option<Stamp>>,
    failure: Mutex<Option<String>>,
}

fn read(path: &Path, address: SocketAddr) -> Result<(Layout, Option<Stamp>), String> {
    let all = || -> io::Result<(String, Option<Stamp>)> {
        let file = File::open(path)?;
        let stamp = stamp(&file);
        let mut text = String::new();
        file.take(FILE_MOST + 1).read_to_string(&mut text)?;
        if text.len() as u64 > FILE_MOST {
            return Err(io::Error::other(format!("it has more than {FILE_MOST} bytes")));
        }
        Ok((text, stamp))
    };
    let (text, stamp) = all().map_err(|error| error.to_string())?;
    Ok((Layout::read(&text, address)?, stamp))
}

fn stamp(file: &File) -> Option<Stamp> {
    file.metadata().ok().and_then(|metadata| Some((metadata.modified().ok()?, metadata.len())))
}

impl Cluster {
    /// Reads the file of a cluster for the server at an address.
    ///
    /// # Errors
    /// Returns what is wrong with it. It has to name this server.
    pub fn open(path: &Path, address: SocketAddr) -> Result<Cluster, String> {
        let (layout, stamp) = read(path, address)?;
        if layout.own.is_none() {
            return Err(format!("no line is that of this server, {address}"));
        }
        Ok(Cluster {
            path: path.to_owned(),
            address,
            layout: RwLock::new(Arc::new(layout)),
            stamp: Mutex::new(stamp),
            failure: Mutex::default(),
        })
    }

    /// What the file says.
    pub fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.layout.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Why what the file says now does not count, if it does not.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the file again if it has changed. One that cannot be read leaves everything as it was.
    pub fn refresh(&self) {
        let now = File::open(&self.path).ok().and_then(|file| stamp(&file));
        if *self.stamp.lock().unwrap_or_else(PoisonError::into_inner) == now {
            return;
        }
        let failure = match read(&self.path, self.address) {
            Ok((layout, _)) => {
                *self.layout.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(layout);
                None
            }
            Err(why) => Some(why),
        };
        *self.stamp.lock().unwrap_or_else(PoisonError::into_inner) = now;
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> SocketAddr {
        ([127, 0, 0, 1], 7001).into()
    }

    #[test]
    fn keys_have_redis_slots() {
        // The check value of this CRC, and what the specification says of braces.
        assert_eq!(crc(b"123456789"), 0x31c3);
        for (key, like) in [("{user1000}.following", "user1000"), ("foo{bar}{zap}", "bar"), ("foo{{bar}}zap", "{bar")] {
            assert_eq!(slot(key.as_bytes()), slot(like.as_bytes()), "{key}");
        }
        assert_eq!(slot(b"foo{}{bar}"), crc(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot(b"a{b"), crc(b"a{b") % SLOTS);
    }

    #[test]
    fn files_are_read_or_refused() {
        let text = "# all\n127.0.0.1:7001 5 0-3 # mine\n\n[::1]:7002 4 6-16382\n";
        let layout = Layout::read(text, own()).expect("is right");
        assert_eq!((layout.own, layout.assigned(), layout.nodes[0].slots.len()), (Some(0), 16_383, 2));
        assert_eq!(layout.nodes[0].slots[0], 0..=3);
        assert!(layout.nodes.iter().all(|node| node.id.len() == 40) && layout.nodes[0].id != layout.nodes[1].id);
        for (text, why) in [
            ("a 1", "line 1: \"a\" is not ADDRESS:PORT"),
            ("127.0.0.1:1 0-16384", "line 1: \"0-16384\" is not FIRST-LAST with slots below 16384"),
            ("127.0.0.1:1 3-2", "line 1: \"3-2\" is not FIRST-LAST with slots below 16384"),
            ("127.0.0.1:1 3\n127.0.0.1:2 0-4", "line 2: slot 3 has two servers"),
            ("127.0.0.1:1\n127.0.0.1:1", "line 2: 127.0.0.1:1 is named twice"),
        ] {
            assert_eq!(Layout::read(text, own()).err().as_deref(), Some(why), "{text}");
        }
        let many: String = (0..=NODES_MOST).map(|number| format!("127.0.0.1:{}\n", number + 1)).collect();
        assert!(Layout::read(&many, own()).is_err_and(|why| why.ends_with("more than 1000 servers")));
    }

    #[test]
    fn a_file_that_gets_wrong_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cluster");
        std::fs::write(&path, "127.0.0.1:7002 0-9\n").expect("is written");
        assert!(Cluster::open(&path, own()).is_err_and(|why| why.contains("no line is that of this server")));
        std::fs::write(&path, "127.0.0.1:7001 0-9\n").expect("is written");
        let cluster = Cluster::open(&path, own()).expect("is right");
        std::fs::write(&path, "nonsense\n").expect("is written");
        cluster.refresh();
        assert!(cluster.failure().is_some_and(|why| why.starts_with("line 1")));
        assert_eq!(cluster.layout().assigned(), 10);
        std::fs::write(&path, "127.0.0.1:7001 0-19\n127.0.0.1:7002 20\n").expect("is written");
        cluster.refresh();
        assert_eq!((cluster.failure(), cluster.layout().assigned()), (None, 21));
    }
}
