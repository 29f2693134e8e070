//! The arguments of `kiln kv`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::dispatch::Mode;

/// Shown below `kiln kv --help`.
pub const EXAMPLES: &str = "\
Examples:
  kiln kv memcached                   on 127.0.0.1:11211, without privilege
  kiln kv redis                       on 127.0.0.1:6379, for redis-cli
  kiln kv memcached --memory 1024 --threads 4
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
    /// Serve get and set over UDP at this interface in XDP. Needs root, clang 19 and Linux 6.12; --listen is the interface's IPv4
    /// address.
    #[arg(long, value_name = "INTERFACE")]
    pub xdp: Option<String>,
    /// How to attach: in the driver, or behind it on interfaces whose driver has no XDP.
    #[arg(long, value_enum, default_value_t = Mode::Default, requires = "xdp")]
    pub mode: Mode,
    #[command(flatten)]
    pub memory: KvMemory,
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
    #[command(flatten)]
    pub memory: KvMemory,
}

/// What a store has, whatever is spoken.
#[derive(Args, Debug)]
pub struct KvMemory {
    /// MiB of keys and values, 8 to 2048; beyond, what was not used lately is evicted.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(8..=2048))]
    pub memory: u64,
    /// Threads that serve sockets.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Answer Prometheus at this address, too, under /metrics.
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<SocketAddr>,
}
