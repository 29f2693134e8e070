//! A key-value store that XDP programs and user space share: memcached's and Redis' protocols.
//!
//! ```text
//!   UDP -> interface -> XDP: get, set ---------+
//!                         | everything else    +--> one heap: buckets with locks, items
//!   TCP, UDP -> socket -> server: all commands-+
//! ```
//!
//! [`store`] is user space's side of the store, [`EXTENSION`] the programs'. [`protocol`] has memcached's requests, [`redis`]
//! Redis', [`server`] the sockets. There is no cache in front of a server: both change
//! the same items under the same locks. Without an extension the store is in memory of this process ([`store::own_heap`]).
#![forbid(unsafe_code)]

mod clock;
mod digits;
pub mod journal;
pub mod log;
pub mod object;
pub mod protocol;
pub mod redis;
pub mod server;
pub mod store;

/// The extension's sources, by file name. The program is `kv_memcached` in the first one.
pub const EXTENSION: [(&str, &str); 3] = [
    ("memcached.bpf.c", include_str!("../bpf/memcached.bpf.c")),
    ("store.h", include_str!("../bpf/store.h")),
    ("wire.h", include_str!("../bpf/wire.h")),
];

/// The sources of the extension that has a store of its own, for kernels without arenas; its program has the same name.
pub const POOL_EXTENSION: [(&str, &str); 2] =
    [("pool.bpf.c", include_str!("../bpf/pool.bpf.c")), ("wire.h", include_str!("../bpf/wire.h"))];
