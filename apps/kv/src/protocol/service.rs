//! What all sessions share: the store and counters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::redis::Cluster;
use crate::store::{self, Counters, Store};

/// The version that clients are told: what this server behaves like, and its own name.
pub const VERSION: &str = concat!("1.6.18-kiln-", env!("CARGO_PKG_VERSION"));
/// In so many calls of [`Service::maintain`], all buckets are searched for what has expired, unless there are millions.
const EXPIRED_PARTS: usize = 20;
/// Of the calls of [`Service::maintain`], those that look whether the file of the cluster has changed.
const CLUSTER_EVERY: u64 = 10;

/// Bytes of requests and replies that all clients may have waiting, unless [`Service::with_client_bytes`] says otherwise.
pub const CLIENT_BYTES: u64 = 64 << 20;

/// What a server counts, of all its sessions.
#[derive(Default, Debug)]
pub struct Statistics {
    /// Keys asked for by `get` and its like.
    pub gets: AtomicU64,
    /// Of these, those that were there.
    pub hits: AtomicU64,
    /// Values stored or refused.
    pub sets: AtomicU64,
    /// Keys touched.
    pub touches: AtomicU64,
    /// Keys deleted, or not there.
    pub deletes: AtomicU64,
    /// Commands of Redis' protocol.
    pub commands: AtomicU64,
    /// `flush_all`.
    pub flushes: AtomicU64,
    /// Connections now.
    pub connections: AtomicU64,
    /// Connections since the beginning.
    pub all_connections: AtomicU64,
    /// Bytes of memory that requests and replies of all connections take now.
    pub client_bytes: AtomicU64,
    /// Bytes that clients sent to the server.
    pub received: AtomicU64,
    /// Bytes that the server sent to clients.
    pub sent: AtomicU64,
    /// Connections that were closed because all together took too many bytes.
    pub shed: AtomicU64,
}

/// A program that has a store.
pub trait StoreProgram: Sync {
    /// The reply to a request; `None` if the program leaves it to user space.
    fn ask(&self, request: &[u8]) -> Option<Vec<u8>>;
    /// What its runs have done, at interfaces and for [`StoreProgram::ask`].
    fn counters(&self) -> Counters;
}

/// A store with what all its sessions share.
pub struct Service<'h> {
    /// The store.
    pub store: Store<'h>,
    /// The program that has the store of memcached's protocol instead.
    pub(crate) program: Option<&'h dyn StoreProgram>,
    /// Counters.
    pub statistics: Statistics,
    /// What clients of Redis' protocol have to know.
    pub(crate) password: Option<String>,
    /// Which server has which keys of Redis' protocol, if there are several.
    pub(crate) cluster: Option<Cluster>,
    /// Bytes that requests and replies of all connections may take. Beyond, the connection that takes most is closed.
    pub most_client_bytes: u64,
    /// When everything is to be flushed, in milliseconds of the store's clock; 0: no.
    pub(super) flush_at: AtomicU64,
    /// Calls of [`Service::maintain`].
    turns: AtomicU64,
    /// Clients of Redis' protocol since the beginning.
    pub(crate) clients: AtomicU64,
    pub(crate) begun: Instant,
}

impl<'h> Service<'h> {
    /// A service of a store.
    pub fn new(store: Store<'h>) -> Service<'h> {
        Service {
            store,
            program: None,
            statistics: Statistics::default(),
            password: None,
            cluster: None,
            most_client_bytes: CLIENT_BYTES,
            clients: AtomicU64::new(0),
            flush_at: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            begun: Instant::now(),
        }
    }

    /// The same, for clients of Redis' protocol that know a password.
    #[must_use]
    pub fn with_password(self, password: Option<String>) -> Service<'h> {
        Service { password, ..self }
    }

    /// The same, where a program has the store.
    #[must_use]
    pub fn with_program(self, program: Option<&'h dyn StoreProgram>) -> Service<'h> {
        Service { program, ..self }
    }

    /// What programs have done.
    pub(super) fn counters(&self) -> Counters {
        self.program.map_or_else(|| self.store.counters(), StoreProgram::counters)
    }

    /// The same, as one of several servers of Redis' protocol.
    #[must_use]
    pub fn with_cluster(self, cluster: Option<Cluster>) -> Service<'h> {
        Service { cluster, ..self }
    }

    /// The same, whose clients' requests and replies may take so many bytes together.
    #[must_use]
    pub fn with_client_bytes(self, most_client_bytes: u64) -> Service<'h> {
        Service { most_client_bytes, ..self }
    }

    /// Whether requests and replies of all connections take more than they may.
    pub fn is_crowded(&self) -> bool {
        self.statistics.client_bytes.load(Ordering::Relaxed) > self.most_client_bytes
    }

    /// Does what is due: time, room for programs, a flush that waits. To be called several times a second.
    pub fn maintain(&self) {
        self.store.tick();
        self.store.make_room_ahead();
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        self.store.remove_expired_part(EXPIRED_PARTS);
        if let Some(cluster) = self.cluster.as_ref().filter(|_| turn % CLUSTER_EVERY == 0) {
            cluster.refresh();
        }
        let at = self.flush_at.load(Ordering::Relaxed);
        if at != 0 && at <= store::now() && self.flush_at.swap(0, Ordering::Relaxed) != 0 {
            self.store.clear();
        }
    }
}
