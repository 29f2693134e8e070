//! The files of a log: Redis' directory of an append-only file.
//!
//! ```text
//!   DIRECTORY/appendonlydir/appendonly.aof.manifest       which of the others count, in order
//!                           appendonly.aof.3.base.aof     what the last rewrite has made
//!                           appendonly.aof.5.incr.aof     what was changed since
//! ```
//!
//! A manifest is replaced whole. What it does not name does not count.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::error::LogError;

const FOLDER: &str = "appendonlydir";
const MANIFEST: &str = "appendonly.aof.manifest";
const NEW_MANIFEST: &str = "temp-appendonly.aof.manifest";
const NEW_BASE: &str = "temp-rewriteaof-kiln.aof";
const MANIFEST_MOST: u64 = 1 << 20;

/// A file that the manifest names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Its name in the folder.
    pub name: String,
    /// Its number among its kind.
    pub number: u64,
}

/// Which files count.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Manifest {
    /// What the last rewrite has made.
    pub base: Option<Part>,
    /// What was changed since, in order.
    pub increments: Vec<Part>,
}

impl Manifest {
    fn text(&self) -> String {
        let bases = self.base.iter().map(|part| (part, 'b'));
        let all = bases.chain(self.increments.iter().map(|part| (part, 'i')));
        all.map(|(Part { name, number }, kind)| format!("file {name} seq {number} type {kind}\n")).collect()
    }

    /// Reads a manifest's text. The error is the place of the first line that is none.
    fn read(text: &str) -> Result<Manifest, u64> {
        let (mut manifest, mut offset) = (Manifest::default(), 0);
        for line in text.split_inclusive('\n') {
            manifest.add(line.trim()).ok_or(offset)?;
            offset += line.len() as u64;
        }
        let is_empty = manifest.base.is_none() && manifest.increments.is_empty();
        if is_empty { Err(0) } else { Ok(manifest) }
    }

    fn add(&mut self, line: &str) -> Option<()> {
        if line.is_empty() || line.starts_with('#') {
            return Some(());
        }
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let value = |name: &str| words.chunks(2).find(|pair| pair[0] == name).and_then(|pair| pair.get(1).copied());
        let (name, number, kind) = (value("file")?, value("seq")?.parse().ok()?, value("type")?);
        if name.contains(['/', '"', '\\']) || name.starts_with('.') || !name.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return None;
        }
        let part = Part { name: name.to_owned(), number };
        let is_next = self.increments.last().is_none_or(|last| last.number < number);
        match kind {
            "b" if self.base.is_none() => self.base = Some(part),
            "i" if is_next => self.increments.push(part),
            // What only waits for its removal.
            "h" => {}
            _ => return None,
        }
        Some(())
    }
}

/// The folder with the files. No other server has it while this is there.
pub struct Directory {
    path: PathBuf,
    /// Locked, and brought to the disk when names change.
    folder: File,
}

/// Opens a file for reading; a pipe, whose reader would wait, is refused.
pub fn open_regular(path: &Path) -> io::Result<File> {
    match fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::other("this is no file")),
    }
}

impl Drop for Directory {
    /// A child of another thread, which has not run its program yet, may still have the folder open.
    fn drop(&mut self) {
        let _ = flock(&self.folder, FlockOperation::Unlock);
    }
}

impl Directory {
    /// Opens a directory's folder, which is made if it is missing.
    ///
    /// # Errors
    /// Returns an error if it cannot be made, or another server has it.
    pub fn open(directory: &Path) -> Result<Directory, LogError> {
        let path = directory.join(FOLDER);
        fs::create_dir_all(&path).map_err(LogError::io(&path, "making"))?;
        let folder = File::open(&path).map_err(LogError::io(&path, "opening"))?;
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(LogError::InUse(directory.to_owned())),
            Err(error) => return Err(LogError::Io { path, doing: "locking", error: error.into() }),
        }
        if let Ok(parent) = File::open(directory) {
            parent.sync_all().map_err(LogError::io(directory, "bringing to the disk"))?;
        }
        Ok(Directory { path, folder })
    }

    /// Where a file is.
    pub fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The manifest; `None` if there is no log yet.
    ///
    /// # Errors
    /// Returns an error if it cannot be read or says what is none, or if there are files that it should name.
    pub fn manifest(&self) -> Result<Option<Manifest>, LogError> {
        let path = self.at(MANIFEST);
        let mut bytes = Vec::new();
        match open_regular(&path) {
            Ok(file) => {
                file.take(MANIFEST_MOST).read_to_end(&mut bytes).map_err(LogError::io(&path, "reading"))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.no_manifest(path).map(|()| None),
            Err(error) => return Err(LogError::Io { path, doing: "opening", error }),
        }
        let text = String::from_utf8(bytes).map_err(|error| error.utf8_error().valid_up_to() as u64);
        let what = "this is no manifest, and --repair makes none; say which files count, in order".to_owned();
        let refused = |offset| LogError::Unsupported { path, offset, what };
        text.and_then(|text| Manifest::read(&text)).map(Some).map_err(refused)
    }

    /// Without a manifest there must be no log, either.
    fn no_manifest(&self, path: PathBuf) -> Result<(), LogError> {
        let entries = fs::read_dir(&self.path).map_err(LogError::io(&self.path, "reading"))?;
        for entry in entries {
            let entry = entry.map_err(LogError::io(&self.path, "reading"))?;
            let (name, bytes) = (entry.file_name(), entry.metadata().map_or(0, |metadata| metadata.len()));
            let name = name.to_string_lossy();
            if bytes > 0 && name.ends_with(".aof") && !name.starts_with("temp-") {
                let what = format!("it is missing, but {name} is there");
                return Err(LogError::Unsupported { path, offset: 0, what });
            }
        }
        Ok(())
    }

    /// Replaces the manifest.
    ///
    /// # Errors
    /// Returns an error if it cannot be written. Then the old one counts.
    pub fn replace(&self, manifest: &Manifest) -> Result<(), LogError> {
        let (new, path) = (self.at(NEW_MANIFEST), self.at(MANIFEST));
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(manifest.text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            self.folder.sync_all()
        };
        write().map_err(LogError::io(&path, "writing"))
    }

    /// Makes an empty file for changes.
    ///
    /// # Errors
    /// Returns an error if it cannot be made.
    pub fn new_increment(&self, number: u64) -> Result<(Part, File), LogError> {
        let name = format!("appendonly.aof.{number}.incr.aof");
        let path = self.at(&name);
        let make = || {
            let file = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
            // No name of it is lost after its manifest is there.
            file.sync_all().and_then(|()| self.folder.sync_all()).map(|()| file)
        };
        make().map(|file| (Part { name, number }, file)).map_err(LogError::io(&path, "making"))
    }

    /// Where a base is made.
    pub fn new_base(&self) -> PathBuf {
        self.at(NEW_BASE)
    }

    /// Gives a base that is made its name.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    pub fn name_base(&self, number: u64) -> Result<Part, LogError> {
        let name = format!("appendonly.aof.{number}.base.aof");
        let named = fs::rename(self.new_base(), self.at(&name)).and_then(|()| self.folder.sync_all());
        named.map(|()| Part { name, number }).map_err(LogError::io(&self.path, "naming a file in"))
    }

    /// Removes files that do not count any more. One that stays takes room and does no harm.
    pub fn remove<'n>(&self, names: impl Iterator<Item = &'n str>) {
        names.for_each(|name| drop(fs::remove_file(self.at(name))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_read_and_written() {
        let part = |name: &str, number| Part { name: name.to_owned(), number };
        let manifest = Manifest {
            base: Some(part("appendonly.aof.3.base.aof", 3)),
            increments: vec![part("appendonly.aof.5.incr.aof", 5), part("appendonly.aof.6.incr.aof", 6)],
        };
        assert_eq!(Manifest::read(&manifest.text()), Ok(manifest));
        let line = "file a seq 1 type i\n";
        for (text, offset) in [
            ("", 0),
            ("file ../a seq 1 type i\n", 0),
            (&format!("{line}{line}"), 20),
            (&format!("{line}file b seq x type i"), 20),
            ("seq 1 type i", 0),
            ("file a seq 1 type b\nfile b seq 2 type b", 20),
            ("file", 0),
        ] {
            assert_eq!(Manifest::read(text), Err(offset), "{text}");
        }
    }

    #[test]
    fn two_servers_do_not_have_one_directory() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = Directory::open(folder.path()).expect("opens");
        assert!(matches!(Directory::open(folder.path()), Err(LogError::InUse(_))));
        assert_eq!(first.manifest().expect("none"), None);
        // As a child has it before it runs its program.
        let _inherited = first.folder.try_clone().expect("another descriptor");
        drop(first);
        let next = Directory::open(folder.path()).expect("opens");
        fs::write(next.at("appendonly.aof.1.incr.aof"), "*").expect("writes");
        assert!(matches!(next.manifest(), Err(LogError::Unsupported { .. })));
        for (bytes, place) in [(&b"file a seq 1 type i\nfile"[..], 20), (b"file a \xff", 7)] {
            fs::write(next.at(MANIFEST), bytes).expect("writes");
            let refused = next.manifest().map_err(|error| error.to_string()).expect_err("no manifest");
            assert!(refused.contains(&format!("byte {place}: this is no manifest")), "{refused}");
        }
    }
}
