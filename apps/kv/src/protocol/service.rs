//! What all sessions share: the store and counters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::store::{self, Store};

/// The version that clients are told: what this server behaves like, and its own name.
pub const VERSION: &str = concat!("1.6.18-kiln-", env!("CARGO_PKG_VERSION"));
/// Of the calls of [`Service::maintain`], those that look for what has expired.
const EXPIRED_EVERY: u64 = 200;

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
}

/// A store with what all its sessions share.
pub struct Service<'h> {
    /// The store.
    pub store: Store<'h>,
    /// Counters.
    pub statistics: Statistics,
    /// What clients of Redis' protocol have to know.
    pub(crate) password: Option<String>,
    /// When everything is to be flushed, in milliseconds since 1970; 0: no.
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
            statistics: Statistics::default(),
            password: None,
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

    /// Does what is due: time, room for programs, a flush that waits. To be called several times a second.
    pub fn maintain(&self) {
        self.store.tick();
        self.store.make_room_ahead();
        if self.turns.fetch_add(1, Ordering::Relaxed) % EXPIRED_EVERY == 0 {
            self.store.remove_expired();
        }
        let at = self.flush_at.load(Ordering::Relaxed);
        if at != 0 && at <= store::now() && self.flush_at.swap(0, Ordering::Relaxed) != 0 {
            self.store.clear();
        }
    }
}
