//! The queue between the store and the thread that writes the log: records of changes, in the order of the changes.
//!
//! ```text
//!   store, under the lock of a key's bucket -> record -> pending bytes -> take -> thread: write, fsync -> written, synced
//!   session, before a command that writes   -> admit: waits for room, refuses while the log cannot be written
//!   connection, before it sends replies     -> wait, with `--sync always`
//! ```
//!
//! A record never waits, because its caller holds a lock. The queue is bounded by [`Journal::admit`]: nobody begins a change while more
//! than [`PENDING_MOST`] bytes are pending. Positions count bytes since the beginning. They only grow, and only under the mutex.

pub mod record;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of records that may wait before changes do.
const PENDING_MOST: usize = 32 << 20;
/// Bytes of records from which on the thread is woken at once.
const PENDING_MANY: usize = 256 << 10;
/// How long a record may wait for the disk, with [`Sync::Second`], before changes wait, too.
const LAG_MOST: Duration = Duration::from_secs(2);
/// How long a change waits for room before it is refused.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of memory that are kept for the next records.
const KEPT_BYTES: usize = 1 << 20;

/// When what is written is brought to the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sync {
    /// Before a change is acknowledged.
    Always,
    /// Once in a second.
    Second,
    /// When the system does.
    No,
}

#[derive(Default)]
struct State {
    pending: Vec<u8>,
    /// Bytes of all records.
    appended: u64,
    /// Of these, the ones that a kill of the process does not lose.
    written: u64,
    /// Of these, the ones that a crash of the machine does not lose.
    synced: u64,
    /// When the first record came that is not on the disk.
    since: Option<Instant>,
    /// Why the log cannot be written.
    failed: Option<String>,
    is_closing: bool,
    is_rewrite_asked: bool,
}

/// What is known of the log's files.
#[derive(Default, Debug)]
pub struct Files {
    /// Bytes of the base: what the last rewrite has made.
    pub base_bytes: AtomicU64,
    /// Bytes of the changes since.
    pub increment_bytes: AtomicU64,
    /// Rewrites that are done.
    pub rewrites: AtomicU64,
    /// Whether one goes on.
    pub is_rewriting: AtomicBool,
}

impl Files {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.base_bytes.load(Ordering::Relaxed) + self.increment_bytes.load(Ordering::Relaxed)
    }
}

/// The queue.
pub struct Journal {
    sync: Sync,
    state: Mutex<State>,
    /// The thread waits for it.
    arrived: Condvar,
    /// Changes and connections wait for it.
    done: Condvar,
    /// Whether [`Journal::admit`] has to look.
    is_troubled: AtomicBool,
    /// As in the state, to be read without the mutex.
    appended: AtomicU64,
    synced: AtomicU64,
    /// What the thread tells of its files.
    pub files: Files,
}

/// What the thread gets.
pub struct Taken {
    /// Whole records.
    pub bytes: Vec<u8>,
    /// The position behind them.
    pub position: u64,
    /// Whether nothing more comes.
    pub is_closing: bool,
    /// Whether somebody has asked for a rewrite.
    pub is_rewrite_asked: bool,
}

impl Journal {
    /// An empty queue.
    pub fn new(sync: Sync) -> Journal {
        Journal {
            sync,
            state: Mutex::default(),
            arrived: Condvar::new(),
            done: Condvar::new(),
            is_troubled: AtomicBool::new(false),
            appended: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            files: Files::default(),
        }
    }

    /// When what is written is brought to the disk.
    pub fn sync(&self) -> Sync {
        self.sync
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends what `write` appends: whole records.
    pub fn record(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        let before = state.pending.len();
        write(&mut state.pending);
        let now = state.pending.len();
        state.appended += (now - before) as u64;
        self.appended.store(state.appended, Ordering::Release);
        if now > PENDING_MOST || self.lags(&state) {
            self.is_troubled.store(true, Ordering::Relaxed);
        }
        if now > before && state.since.is_none() {
            state.since = Some(Instant::now());
        }
        let is_woken = (before == 0 && now > 0) || (before < PENDING_MANY && now >= PENDING_MANY);
        drop(state);
        if is_woken {
            self.arrived.notify_one();
        }
    }

    fn lags(&self, state: &State) -> bool {
        self.sync == Sync::Second && state.since.is_some_and(|since| since.elapsed() > LAG_MOST)
    }

    /// Waits until there is room for a change.
    ///
    /// # Errors
    /// Returns why the log cannot be written. Then nothing may be changed: it would be lost.
    pub fn admit(&self) -> Result<(), String> {
        if self.is_troubled.load(Ordering::Relaxed) { self.admit_in_trouble() } else { Ok(()) }
    }

    #[cold]
    fn admit_in_trouble(&self) -> Result<(), String> {
        let (mut state, begun) = (self.state(), Instant::now());
        loop {
            if let Some(why) = &state.failed {
                return Err(why.clone());
            }
            if state.pending.len() <= PENDING_MOST && !self.lags(&state) {
                self.is_troubled.store(false, Ordering::Relaxed);
                return Ok(());
            }
            let Some(left) = PATIENCE.checked_sub(begun.elapsed()) else {
                return Err("the disk is too slow".to_owned());
            };
            state = self.done.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The position behind all records.
    pub fn position(&self) -> u64 {
        self.appended.load(Ordering::Acquire)
    }

    /// Whether replies to what was recorded before a position may be sent; with [`Sync::Always`] not before it is on the disk.
    pub fn is_safe(&self, position: u64) -> bool {
        self.sync != Sync::Always || self.synced.load(Ordering::Acquire) >= position
    }

    /// Waits until replies to what was recorded before a position may be sent; whether they may. They may not if the log fails.
    pub fn wait(&self, position: u64) -> bool {
        if self.is_safe(position) {
            return true;
        }
        let mut state = self.state();
        while state.synced < position {
            if state.failed.is_some() {
                return false;
            }
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// Has the log be rewritten.
    pub fn ask_for_rewrite(&self) {
        self.state().is_rewrite_asked = true;
        self.arrived.notify_one();
    }

    /// Has the thread end when everything is written.
    pub fn close(&self) {
        self.state().is_closing = true;
        self.arrived.notify_one();
    }

    /// Whether [`Journal::close`] was called.
    pub fn is_closing(&self) -> bool {
        self.state().is_closing
    }

    /// Whether nothing waits to be taken.
    pub fn is_empty(&self) -> bool {
        self.state().pending.is_empty()
    }

    /// Why the log cannot be written, if it cannot.
    pub fn failure(&self) -> Option<String> {
        self.state().failed.clone()
    }

    /// For the thread: waits for records, and takes them all. After `most` there may be none.
    pub fn take(&self, most: Duration) -> Taken {
        let mut state = self.state();
        if state.pending.is_empty() && !state.is_closing && !state.is_rewrite_asked {
            state = self.arrived.wait_timeout(state, most).unwrap_or_else(PoisonError::into_inner).0;
        }
        if self.sync != Sync::Always && !state.pending.is_empty() && !state.is_closing {
            // A few more of them are one write.
            let gathered = Duration::from_millis(1);
            let few = |state: &mut State| state.pending.len() < PENDING_MANY && !state.is_closing;
            let waited = self.arrived.wait_timeout_while(state, gathered, few);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let is_rewrite_asked = std::mem::take(&mut state.is_rewrite_asked);
        let bytes = std::mem::take(&mut state.pending);
        Taken { bytes, position: state.appended, is_closing: state.is_closing, is_rewrite_asked }
    }

    /// For the thread: gives memory back that [`Journal::take`] has given.
    pub fn give_back(&self, mut bytes: Vec<u8>) {
        let mut state = self.state();
        if state.pending.capacity() == 0 {
            bytes.clear();
            bytes.shrink_to(KEPT_BYTES);
            state.pending = bytes;
        }
    }

    /// For the thread: notes that everything before a position is written.
    pub fn written(&self, position: u64) {
        let mut state = self.state();
        state.written = state.written.max(position);
        if self.sync == Sync::No && state.written == state.appended {
            state.since = None;
        }
        drop(state);
        self.done.notify_all();
    }

    /// For the thread: notes that everything before a position is on the disk. Later records came after `begun`.
    pub fn synced(&self, position: u64, begun: Instant) {
        let mut state = self.state();
        state.synced = state.synced.max(position);
        self.synced.store(state.synced, Ordering::Release);
        state.since = (state.synced < state.appended).then_some(begun);
        drop(state);
        self.done.notify_all();
    }

    /// For the thread: notes why nothing can be written, or that it can.
    pub fn fail(&self, why: Option<String>) {
        let mut state = self.state();
        self.is_troubled.store(true, Ordering::Relaxed);
        state.failed = why;
        drop(state);
        self.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_refused_while_the_log_fails() {
        let journal = Journal::new(Sync::Always);
        journal.record(|to| to.extend_from_slice(b"abc"));
        assert!(journal.admit().is_ok() && !journal.is_safe(journal.position()));
        journal.fail(Some("no space".to_owned()));
        assert_eq!(journal.admit(), Err("no space".to_owned()));
        assert!(!journal.wait(journal.position()));
        journal.fail(None);
        let taken = journal.take(Duration::ZERO);
        assert_eq!((&taken.bytes[..], taken.position), (&b"abc"[..], 3));
        journal.synced(taken.position, Instant::now());
        assert!(journal.admit().is_ok() && journal.wait(3));
    }

    #[test]
    fn changes_wait_for_room() {
        let journal = Journal::new(Sync::No);
        journal.record(|to| to.resize(PENDING_MOST + 1, 0));
        std::thread::scope(|scope| {
            let admitted = scope.spawn(|| journal.admit());
            let taken = journal.take(Duration::ZERO);
            journal.written(taken.position);
            assert_eq!(admitted.join().expect("it ends"), Ok(()));
        });
    }

    #[test]
    fn positions_hold_with_many_threads() {
        const RECORDS: u64 = 2000;
        let journal = Journal::new(Sync::Always);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..RECORDS {
                        journal.record(|to| to.push(b'x'));
                        assert!(journal.wait(journal.position()));
                    }
                });
            }
            let mut all = 0;
            while all < 4 * RECORDS {
                let (begun, taken) = (Instant::now(), journal.take(Duration::from_millis(10)));
                all += taken.bytes.len() as u64;
                assert_eq!(taken.position, all);
                journal.give_back(taken.bytes);
                journal.written(taken.position);
                journal.synced(taken.position, begun);
            }
        });
        assert_eq!(journal.position(), 4 * RECORDS);
    }
}
