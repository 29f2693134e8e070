//! The thread that writes the log, and rewrites it when it has grown.
//!
//! ```text
//!   journal -> take -> block -> last increment -> fsync        second by second, or block by block
//!   rewrite:  1. a new increment: changes go there from now on
//!             2. a second thread writes all keys to a new base, while others change them
//!             3. a manifest names the base and the new increment; what was there before is removed
//! ```
//!
//! The base has some changes of the new increment already, others not. Records say what is from then on, so that repeating the ones that
//! the base has, in their order, ends with the same state.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::block::{Header, Kind};
use super::directory::{Directory, Manifest};
use super::error::LogError;
use crate::journal::{Journal, Sync};
use crate::store::Store;

/// How often the disk has what is written, with [`Sync::Second`].
const SECOND: Duration = Duration::from_secs(1);
/// How soon a rewrite that is done is noticed.
const NOTICED: Duration = Duration::from_millis(50);
/// How long the thread waits before it writes again what could not be written.
const RETRY: Duration = Duration::from_millis(200);
/// How long it waits after a rewrite that failed.
const REWRITE_RETRY: Duration = Duration::from_secs(30);
/// The same, while changes are refused until one succeeds.
const BROKEN_RETRY: Duration = Duration::from_secs(2);
/// Bytes of a block of a base.
const BASE_BLOCK_BYTES: usize = 1 << 20;

/// What the thread has.
pub struct Writer {
    pub(super) directory: Directory,
    pub(super) manifest: Manifest,
    pub(super) journal: Arc<Journal>,
    /// The last increment.
    pub(super) file: File,
    /// Its bytes.
    pub(super) end: u64,
    /// The number of the next block.
    pub(super) number: u64,
    /// Bytes of increments from which on the log is rewritten, if the base is not larger.
    pub(super) rewrite_bytes: u64,
    /// Whether the disk may have lost what was written: only a rewrite helps.
    pub(super) is_broken: bool,
    pub(super) rewrite_after: Option<Instant>,
}

/// A rewrite that goes on.
struct Rewriting<'s> {
    thread: ScopedJoinHandle<'s, io::Result<u64>>,
    /// How many increments do not count any more when it is done.
    old: usize,
}

impl Writer {
    /// Writes what is recorded until the journal is closed, and everything that was recorded before.
    ///
    /// # Errors
    /// Returns an error if the last changes cannot be written.
    pub fn run(mut self, store: &Store<'_>) -> Result<(), LogError> {
        let stop = AtomicBool::new(false);
        let result = std::thread::scope(|scope| {
            let result = self.turns(scope, store, &stop);
            stop.store(true, Ordering::SeqCst);
            result
        });
        if let Err(error) = &result {
            // Nobody waits for what does not come.
            self.journal.fail(Some(error.to_string()));
        }
        result
    }

    fn turns<'s>(
        &mut self,
        scope: &'s Scope<'s, '_>,
        store: &'s Store<'_>,
        stop: &'s AtomicBool,
    ) -> Result<(), LogError> {
        let (mut rewriting, mut synced, mut is_dirty) = (None, Instant::now(), false);
        loop {
            let begun = Instant::now();
            let most = match (&rewriting, self.journal.sync()) {
                (Some(_), _) => NOTICED,
                (None, Sync::Second) if is_dirty => SECOND.saturating_sub(synced.elapsed()),
                _ => SECOND,
            };
            let taken = self.journal.take(most);
            if !taken.bytes.is_empty() {
                self.write(&taken.bytes)?;
                self.journal.written(taken.position);
                is_dirty = true;
            }
            self.journal.give_back(taken.bytes);
            let is_due = match self.journal.sync() {
                Sync::Always => true,
                Sync::Second => synced.elapsed() >= SECOND,
                Sync::No => false,
            };
            if is_dirty && (is_due || taken.is_closing) && !self.is_broken {
                self.sync(taken.position, begun);
                (synced, is_dirty) = (Instant::now(), false);
            }
            rewriting = self.rewrite_on(rewriting, taken.is_rewrite_asked, scope, store, stop);
            if taken.is_closing && self.journal.is_empty() {
                return self.journal.failure().map_or(Ok(()), |why| Err(self.failed(io::Error::other(why))));
            }
        }
    }

    fn failed(&self, error: io::Error) -> LogError {
        let name = self.manifest.increments.last().map_or("", |part| &part.name);
        LogError::Io { path: self.directory.at(name), doing: "writing", error }
    }

    /// Writes a block, and tries again until it is written.
    fn write(&mut self, data: &[u8]) -> Result<(), LogError> {
        let mut has_failed = false;
        loop {
            let Err(error) = self.try_write(data) else {
                if has_failed && !self.is_broken {
                    self.journal.fail(None);
                }
                return Ok(());
            };
            // What is there of a block would make the next one unreadable.
            let _ = self.file.set_len(self.end);
            let is_closing = self.journal.is_closing();
            let error = self.failed(error);
            self.journal.fail(Some(error.to_string()));
            if is_closing && has_failed {
                return Err(error);
            }
            has_failed = true;
            std::thread::sleep(RETRY);
        }
    }

    fn try_write(&mut self, data: &[u8]) -> io::Result<()> {
        let line = Header::of(Kind::Data, self.number, data).line();
        self.file.write_all_at(&line, self.end)?;
        self.file.write_all_at(data, self.end + line.len() as u64)?;
        self.end += (line.len() + data.len()) as u64;
        self.number += 1;
        self.journal.files.increment_bytes.fetch_add((line.len() + data.len()) as u64, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&mut self, position: u64, begun: Instant) {
        match self.file.sync_data() {
            Ok(()) => self.journal.synced(position, begun),
            Err(error) => {
                // The system may have dropped what it could not write, and say nothing the next time.
                self.is_broken = true;
                self.journal.fail(Some(self.failed(error).to_string()));
            }
        }
    }

    /// Begins a rewrite if it is time, or ends one that is done.
    fn rewrite_on<'s>(
        &mut self,
        rewriting: Option<Rewriting<'s>>,
        is_asked: bool,
        scope: &'s Scope<'s, '_>,
        store: &'s Store<'_>,
        stop: &'s AtomicBool,
    ) -> Option<Rewriting<'s>> {
        if let Some(rewriting) = rewriting {
            if !rewriting.thread.is_finished() {
                return Some(rewriting);
            }
            let made = rewriting.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let done = made.and_then(|bytes| self.finish(rewriting.old, bytes).map_err(io::Error::other));
            self.rewrite_after = done.is_err().then(|| self.next_rewrite());
            self.journal.files.is_rewriting.store(false, Ordering::Relaxed);
            return None;
        }
        let files = &self.journal.files;
        let grown = files.increment_bytes.load(Ordering::Relaxed);
        let has_grown = grown > self.rewrite_bytes && grown > files.base_bytes.load(Ordering::Relaxed);
        let may = self.rewrite_after.is_none_or(|after| after <= Instant::now());
        if !(is_asked || (may && (has_grown || self.is_broken))) || self.journal.is_closing() {
            return None;
        }
        if self.rotate().is_err() {
            self.rewrite_after = Some(self.next_rewrite());
            return None;
        }
        self.journal.files.is_rewriting.store(true, Ordering::Relaxed);
        let (path, number) = (self.directory.new_base(), self.number);
        let thread = scope.spawn(move || write_base(store, &path, number, stop));
        Some(Rewriting { thread, old: self.manifest.increments.len() - 1 })
    }

    /// When to rewrite again after a rewrite that failed.
    fn next_rewrite(&self) -> Instant {
        Instant::now() + if self.is_broken { BROKEN_RETRY } else { REWRITE_RETRY }
    }

    /// Has changes go to a new increment from now on.
    fn rotate(&mut self) -> Result<(), LogError> {
        if !self.is_broken {
            self.file.sync_data().map_err(|error| self.failed(error))?;
        }
        let last = self.manifest.increments.last().map_or(0, |part| part.number);
        let (part, file) = self.directory.new_increment(last + 1)?;
        let mut manifest = self.manifest.clone();
        manifest.increments.push(part);
        self.directory.replace(&manifest)?;
        (self.manifest, self.file, self.end) = (manifest, file, 0);
        Ok(())
    }

    /// Has a base that is made count, instead of the old one and `old` increments.
    fn finish(&mut self, old: usize, bytes: u64) -> Result<(), LogError> {
        let number = self.manifest.base.as_ref().map_or(0, |part| part.number) + 1;
        let base = self.directory.name_base(number)?;
        let manifest = Manifest { base: Some(base), increments: self.manifest.increments[old..].to_vec() };
        self.directory.replace(&manifest)?;
        let gone = std::mem::replace(&mut self.manifest, manifest);
        let increments = gone.increments.iter().take(old);
        self.directory.remove(gone.base.iter().chain(increments).map(|part| &*part.name));
        let files = &self.journal.files;
        files.base_bytes.store(bytes, Ordering::Relaxed);
        // There is one increment that counts: rewrites follow each other.
        files.increment_bytes.store(self.end, Ordering::Relaxed);
        files.rewrites.fetch_add(1, Ordering::Relaxed);
        if self.is_broken && self.file.sync_data().is_ok() {
            self.is_broken = false;
            self.journal.fail(None);
        }
        Ok(())
    }

    /// Rewrites the log at once: before anybody changes the store.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn rewrite_now(&mut self, store: &Store<'_>) -> Result<(), LogError> {
        self.rotate()?;
        let path = self.directory.new_base();
        let bytes = write_base(store, &path, self.number, &AtomicBool::new(false));
        self.finish(self.manifest.increments.len() - 1, bytes.map_err(LogError::io(&path, "writing"))?)
    }
}

/// Writes all keys to a file, and the number of the first block after it; its bytes.
fn write_base(store: &Store<'_>, path: &Path, next: u64, stop: &AtomicBool) -> io::Result<u64> {
    let (mut file, mut data, mut number, mut bytes) = (File::create(path)?, Vec::new(), 0, 0);
    for bucket in 0..store.buckets() {
        if stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        store.dump(bucket, &mut data);
        if data.len() >= BASE_BLOCK_BYTES || (bucket + 1 == store.buckets() && !data.is_empty()) {
            let line = Header::of(Kind::Data, number, &data).line();
            file.write_all(&line)?;
            file.write_all(&data)?;
            (number, bytes) = (number + 1, bytes + (line.len() + data.len()) as u64);
            data.clear();
        }
    }
    let line = Header::of(Kind::End, next, &[]).line();
    file.write_all(&line)?;
    file.sync_all()?;
    Ok(bytes + line.len() as u64)
}
