//! The arguments of `kiln kv`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use kiln_driver::kv::{Kept, Sync};

use super::dispatch::Mode;
use super::tls::TlsArguments;

/// Shown below `kiln kv --help`.
pub const EXAMPLES: &str = "\
Examples:
  kiln kv memcached                   on 127.0.0.1:11211, without privilege
  kiln kv redis                       on 127.0.0.1:6379, for redis-cli
  kiln kv memcached --memory 1024 --threads 4
  kiln kv redis --data /var/lib/kv    what was stored is there after a restart
  kiln kv top 127.0.0.1:6379          what a server does, second by second
  kiln kv memcached --listen 10.0.0.2:11211 --xdp eth0
                                      get and set over UDP in XDP, all else
                                      behind sockets (root)

Ctrl-C ends the server; nothing stays attached, however it ends.";

/// `kiln kv`.
#[derive(Args, Debug)]
pub struct KvArguments {
    /// Which protocol.
    #[command(subcommand)]
    pub command: KvCommand,
}

/// The protocols.
#[derive(Subcommand, Debug)]
pub enum KvCommand {
    /// Serve memcached's text and meta protocol over TCP, and over UDP if asked for.
    #[command(after_help = EXAMPLES)]
    Memcached(MemcachedArguments),
    /// Show what a server does, second by second.
    Top(KvTopArguments),
    /// Serve Redis' protocol (RESP2 and RESP3): strings, hashes and sorted sets.
    #[command(after_help = EXAMPLES)]
    Redis(RedisArguments),
}

/// `kiln kv memcached`.
#[derive(Args, Debug)]
pub struct MemcachedArguments {
    /// Where to listen. There is no authentication: whoever reaches the address reads and writes.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:11211")]
    pub listen: SocketAddr,
    /// Serve datagrams, too. Replies are longer than requests, so other machines must not reach the address with forged senders.
    #[arg(long)]
    pub udp: bool,
    /// Serve get and set over UDP at this interface in XDP. Needs root, clang 19 and Linux 5.15; --listen is the interface's IPv4
    /// address.
    #[arg(long, value_name = "INTERFACE")]
    pub xdp: Option<String>,
    /// How to attach: in the driver, or behind it on interfaces whose driver has no XDP.
    #[arg(long, value_enum, default_value_t = Mode::Default, requires = "xdp")]
    pub mode: Mode,
    /// Where the program keeps what it serves: in a heap that user space shares, or in a pool's maps, with get, set and delete
    /// alone. Without it, in a heap if the kernel has arenas.
    #[arg(long, value_enum, value_name = "STORE", requires = "xdp")]
    pub store: Option<KvStore>,
    #[command(flatten)]
    pub memory: KvMemory,
}

/// Where a program keeps what it serves.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum KvStore {
    /// In a heap: Linux 6.12.
    Heap,
    /// In a pool's maps: Linux 5.15.
    Array,
}

impl From<KvStore> for Kept {
    fn from(store: KvStore) -> Kept {
        match store {
            KvStore::Heap => Kept::Heap,
            KvStore::Array => Kept::Array,
        }
    }
}

/// `kiln kv redis`.
#[derive(Args, Debug)]
pub struct RedisArguments {
    /// Where to listen. Without a password, whoever reaches the address reads and writes.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6379")]
    pub listen: SocketAddr,
    /// The file whose first line is the password that clients give with AUTH or HELLO.
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Serve as one of several servers, as Redis Cluster does: this file has a line ADDRESS FIRST-LAST for each, with its slots. It is
    /// read again when it changes.
    #[arg(long, value_name = "FILE")]
    pub cluster: Option<PathBuf>,
    #[command(flatten)]
    pub memory: KvMemory,
}

/// What a store has, whatever is spoken.
#[derive(Args, Debug)]
pub struct KvMemory {
    /// MiB of keys and values, 8 to 2048; beyond, what was not used lately is evicted.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(8..=2048))]
    pub memory: u64,
    /// MiB of requests and replies that all clients may have waiting; beyond, the client that has most is closed.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=65536))]
    pub client_memory: u64,
    /// Threads that serve sockets.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Answer Prometheus at this address, too, under /metrics.
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<SocketAddr>,
    /// Keep a log of all changes in this directory, in the format of Redis' append-only file, and begin with what it has.
    #[arg(long, value_name = "DIRECTORY")]
    pub data: Option<PathBuf>,
    /// When the disk has changes: before they are acknowledged, every second, or when the system writes them.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = SyncWhen::Second, requires = "data")]
    pub sync: SyncWhen,
    /// Cut a damaged log at its last good record, and keep a copy of the damaged file.
    #[arg(long, requires = "data")]
    pub repair: bool,
    /// What encrypts connections.
    #[command(flatten)]
    pub tls: TlsArguments,
}

/// When the disk has changes.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncWhen {
    /// Before they are acknowledged.
    Always,
    /// Once in a second.
    Second,
    /// When the system writes them.
    No,
}

impl From<SyncWhen> for Sync {
    fn from(when: SyncWhen) -> Sync {
        match when {
            SyncWhen::Always => Sync::Always,
            SyncWhen::Second => Sync::Second,
            SyncWhen::No => Sync::No,
        }
    }
}

/// `kiln kv top`.
#[derive(Args, Debug)]
pub struct KvTopArguments {
    /// The server: kiln kv, Redis or memcached, without TLS.
    #[arg(value_name = "ADDRESS", default_value = "127.0.0.1:6379")]
    pub address: SocketAddr,
    /// Show one row and end.
    #[arg(long)]
    pub once: bool,
    /// Seconds between two rows.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub every: Duration,
    /// The file whose first line is the server's password.
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

/// A time between two rows.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "no number of seconds".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) { Ok(Duration::from_secs_f64(seconds)) } else { Err("0.1 to 3600".to_owned()) }
}
