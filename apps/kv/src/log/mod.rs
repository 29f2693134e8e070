//! The log: an append-only file of all changes, in Redis' format, from which a server begins again.
//!
//! ```text
//!   store -> journal -> Writer (a thread) -> appendonlydir/appendonly.aof.1.incr.aof -> load -> store
//! ```
//!
//! Why it is as it is: `docs/decisions/0013-redis-log.md`.

mod block;
mod directory;
mod error;
mod input;
mod load;
mod writer;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::journal::Journal;
pub use crate::journal::Sync;
use crate::protocol::Service;
use directory::{Directory, Manifest};
pub use error::LogError;
use load::Loaded;
use writer::Writer;

/// Bytes of changes from which on the log is rewritten, as Redis' `auto-aof-rewrite-min-size`.
pub const REWRITE_BYTES: u64 = 64 << 20;

/// How to keep a log.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where. Redis' files are in a folder of it.
    pub directory: PathBuf,
    /// When changes are brought to the disk.
    pub sync: Sync,
    /// Whether what is damaged is cut off.
    pub repair: bool,
    /// Bytes of changes from which on the log is rewritten, if the base is not larger.
    pub rewrite_bytes: u64,
}

/// What a log said when it was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened {
    /// Commands in it.
    pub commands: u64,
    /// What was cut off, if something was: the file's name, where, and why.
    pub cut: Option<(String, u64, String)>,
}

/// A log that was read.
pub struct Log {
    writer: Writer,
    /// What it said.
    pub opened: Opened,
}

/// Ends the thread, also after a panic.
struct Closing<'j>(&'j Journal);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Log {
    /// Reads a log into a service's store, which is empty, and has the store record its changes from then on.
    ///
    /// # Errors
    /// Returns an error if another server has the directory, or if a file is damaged, cannot be read or not be written.
    pub fn open(settings: &Settings, service: &Service<'_>) -> Result<Log, LogError> {
        let directory = Directory::open(&settings.directory)?;
        let found = directory.manifest()?;
        // Before anything is in it, so that what the log has gets versions above all earlier ones.
        service.store.renew_versions();
        let (mut manifest, mut loaded) = (found.unwrap_or_default(), Ok(Loaded::default()));
        service.store.load_with(|| loaded = load::load(&directory, &mut manifest, service, settings.repair));
        let mut loaded = loaded?;
        let file = last_increment(&directory, &mut manifest, &mut loaded)?;
        let journal = Arc::new(Journal::new(settings.sync));
        journal.files.base_bytes.store(loaded.base_bytes, Ordering::Relaxed);
        journal.files.increment_bytes.store(loaded.increment_bytes, Ordering::Relaxed);
        let mut writer = Writer {
            directory,
            manifest,
            journal: Arc::clone(&journal),
            file,
            end: loaded.end,
            number: loaded.number,
            rewrite_bytes: settings.rewrite_bytes,
            is_broken: false,
            rewrite_after: None,
        };
        service.store.record_to(journal);
        service.store.remove_expired();
        if service.store.evicted() > 0 {
            // There is less memory than there was. The log has keys that the store has not.
            writer.rewrite_now(&service.store)?;
        }
        Ok(Log { writer, opened: Opened { commands: loaded.commands, cut: loaded.cut } })
    }

    /// Writes changes while `work` goes on, and then what is left.
    ///
    /// # Errors
    /// Returns an error if the last changes cannot be written.
    pub fn serve<T>(self, service: &Service<'_>, work: impl FnOnce() -> T) -> Result<T, LogError> {
        let journal = Arc::clone(&self.writer.journal);
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| self.writer.run(&service.store));
            let closing = Closing(&journal);
            let result = work();
            drop(closing);
            writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map(|()| result)
        })
    }
}

/// The file that changes are appended to, which is made if there is none.
fn last_increment(directory: &Directory, manifest: &mut Manifest, loaded: &mut Loaded) -> Result<File, LogError> {
    if loaded.cut.is_some() && !(manifest.base.is_none() && manifest.increments.is_empty()) {
        // Increments behind a cut do not count any more.
        directory.replace(manifest)?;
    }
    if let Some(part) = manifest.increments.last() {
        let path = directory.at(&part.name);
        return File::options().write(true).open(&path).map_err(LogError::io(&path, "opening"));
    }
    let number = 1 + manifest.base.as_ref().map_or(0, |part| part.number);
    let (part, file) = directory.new_increment(number)?;
    manifest.increments.push(part);
    loaded.end = 0;
    directory.replace(manifest)?;
    Ok(file)
}
