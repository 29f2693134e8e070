//! `kiln check` of many objects: verdicts that are kept, so that the next check of the same objects takes less time.
//!
//! ```text
//!   ~/.cache/kiln/verdicts.key      32 random bytes, which only their owner can read
//!   ~/.cache/kiln/verdicts/3f9c...  HMAC-SHA256 with this key | {"report": ..., "unknown": [...], "text": ...}
//! ```
//!
//! An entry's name is the SHA-256 of all that a verdict depends on: the object and its path, the flags, the kernel with
//! its types and configuration, and the executable itself. So nothing in the folder is ever out of date.
//!
//! A kept verdict says that a program is safe, so a forged one would be worth something. The folder may come with a
//! repository or from a build machine's store, and is untrusted: an entry counts only if its HMAC, which is also over its
//! name, was made with the user's key. Whatever is refused is checked again and replaced.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use hmac::{Hmac, Mac as _};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::reports::{Report, Result as Decided, Target, Wanted};
use crate::objects::Found;
use crate::target::Types;
use kiln_inspect::hex::hex;
use kiln_inspect::input::{self, RUNNING_KERNEL_TYPES};
use kiln_inspect::kernels::Kernel;
use kiln_inspect::{file, folders};
use kiln_program::Error;

/// The environment variable that names the folder, or says [`OFF`].
const VARIABLE: &str = "KILN_CACHE";
/// The value of [`VARIABLE`] with which nothing is kept.
const OFF: &str = "off";
/// The environment variable that gives the key, for machines that share a folder.
const KEY_VARIABLE: &str = "KILN_CACHE_KEY";
/// Letters of a key in [`KEY_VARIABLE`] at least.
const MIN_KEY_LETTERS: usize = 16;
/// Bytes of an HMAC, of a name, and of the key.
const HASH_BYTES: usize = 32;
/// Bytes of an entry at most.
const MAX_ENTRY_BYTES: u64 = 16 << 20;
/// Entries of a folder, and their bytes, from which on the oldest are removed.
const LIMITS: Limits = Limits { entries: 50_000, bytes: 256 << 20 };
/// How old the time of an entry may be before a use sets it.
const TOUCHED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// How the names of files begin that are not whole yet.
const UNFINISHED: &str = ".new";

#[derive(Clone, Copy)]
struct Limits {
    entries: usize,
    bytes: u64,
}

/// What is kept of one object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The report.
    pub report: Report,
    /// Names of types and programs that the object lacks.
    pub unknown: Vec<String>,
    /// The report's text form.
    pub text: String,
}

/// The name of an entry.
pub type Name = [u8; HASH_BYTES];

/// A folder of entries, opened for one question.
pub struct Cache {
    folder: PathBuf,
    key: [u8; HASH_BYTES],
    question: [u8; HASH_BYTES],
    written: AtomicBool,
    limits: Limits,
}

/// Where verdicts are kept.
#[derive(Clone, Copy, Debug, Default)]
pub enum Place<'a> {
    /// Where [`VARIABLE`] says, or else in the user's folder.
    #[default]
    Usual,
    /// In this folder.
    Folder(&'a Path),
    /// Nowhere.
    Nowhere,
}

impl Cache {
    /// Opens the cache for a question; `look` says how its answers are printed. `None` if they are not kept: those that ask
    /// the running kernel, and where there is no folder.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] if the folder was named and cannot be used, or the key in the environment is short.
    pub fn open(place: Place<'_>, wanted: &Wanted, look: &str) -> Result<Option<Cache>, Error> {
        let asks_the_kernel = wanted.with_kernel || wanted.profile || wanted.choice.kernels.contains(&Kernel::Running);
        let named = folders::named_by(VARIABLE);
        let named = match place {
            Place::Nowhere => return Ok(None),
            Place::Folder(folder) => Some(folder.to_owned()),
            Place::Usual if named.as_deref() == Some(Path::new(OFF)) => return Ok(None),
            Place::Usual => named,
        };
        let is_named = named.is_some();
        let Some(folder) = named.or_else(|| Some(folders::cache()?.join("verdicts"))) else { return Ok(None) };
        let Some(question) = question(wanted, look).filter(|_| !asks_the_kernel) else { return Ok(None) };
        let usable = make_folder(&folder).map_err(|error| Error::file(&folder, &error));
        match usable.and_then(|()| key()) {
            Ok(Some(key)) => Ok(Some(Cache { folder, key, question, written: false.into(), limits: LIMITS })),
            Ok(None) => Ok(None),
            Err(error) if is_named => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// The name of an object's entry.
    pub fn name(&self, found: &Found, bytes: &[u8]) -> Name {
        let path = found.path.as_os_str().as_encoded_bytes();
        hash(&[&self.question, path, &[u8::from(found.in_folder)], bytes])
    }

    /// What is kept under a name; `None` if there is nothing, or it was not made with the user's key.
    pub fn get(&self, name: &Name) -> Option<Entry> {
        let file = open_plain(&self.path(name))?;
        let data = file.metadata().ok().filter(|data| data.len() <= MAX_ENTRY_BYTES)?;
        let mut bytes = Vec::with_capacity(data.len() as usize);
        (&file).take(MAX_ENTRY_BYTES).read_to_end(&mut bytes).ok()?;
        let (code, body) = bytes.split_at_checked(HASH_BYTES)?;
        self.code(name, body).verify_slice(code).ok()?;
        let entry = serde_json::from_slice(body).ok()?;
        let now = SystemTime::now();
        if data.modified().is_ok_and(|time| now.duration_since(time).is_ok_and(|age| age > TOUCHED_AFTER)) {
            // The time says which entries are used. A folder that may only be read keeps its times.
            let _ = file.set_modified(now);
        }
        Some(entry)
    }

    /// Keeps an entry, unless its object could not be checked. What cannot be written is not kept.
    pub fn put(&self, name: &Name, entry: &Entry) {
        if matches!(entry.report.result, Decided::Failed { .. }) {
            return;
        }
        let Ok(body) = serde_json::to_vec(entry) else { return };
        if body.len() as u64 + HASH_BYTES as u64 > MAX_ENTRY_BYTES {
            return;
        }
        let write = || {
            let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.folder)?;
            file.write_all(&self.code(name, &body).finalize().into_bytes())?;
            file.write_all(&body)?;
            // Another run may write the same entry: each appears whole.
            file.persist(self.path(name)).map_err(|error| error.error)
        };
        if write().is_ok() {
            self.written.store(true, Ordering::Relaxed);
        }
    }

    /// Removes the entries that were not used for the longest time, if this run added some and there are too many.
    pub fn prune(&self) {
        if !self.written.load(Ordering::Relaxed) {
            return;
        }
        let Ok(files) = fs::read_dir(&self.folder) else { return };
        // Other files in the folder are not ours.
        let own = files.flatten().filter(|file| {
            let name = file.file_name().to_string_lossy().into_owned();
            let is_name = name.len() == 2 * HASH_BYTES && name.bytes().all(|letter| letter.is_ascii_hexdigit());
            is_name || name.starts_with(UNFINISHED)
        });
        let with_data = own.filter_map(|file| Some((file.metadata().ok().filter(fs::Metadata::is_file)?, file.path())));
        let mut entries: Vec<_> =
            with_data.filter_map(|(data, path)| Some((data.modified().ok()?, data.len(), path))).collect();
        let (mut count, mut bytes) = (entries.len(), entries.iter().map(|(_, bytes, _)| bytes).sum::<u64>());
        if count <= self.limits.entries && bytes <= self.limits.bytes {
            return;
        }
        entries.sort();
        // A quarter goes at once, so that not every run has to remove some.
        let enough = Limits { entries: self.limits.entries / 4 * 3, bytes: self.limits.bytes / 4 * 3 };
        for (_, size, path) in entries {
            if count <= enough.entries && bytes <= enough.bytes {
                return;
            }
            let _ = fs::remove_file(path);
            count -= 1;
            bytes -= size;
        }
    }

    fn path(&self, name: &Name) -> PathBuf {
        self.folder.join(hex(name))
    }

    /// The code of an entry. Its name is part of it, so that an entry cannot stand under the name of another.
    fn code(&self, name: &Name, body: &[u8]) -> Hmac<Sha256> {
        // A key of any length is one.
        let mut code = <Hmac<Sha256> as hmac::Mac>::new_from_slice(&self.key).expect("a key");
        code.update(name);
        code.update(body);
        code
    }
}

/// The hash of parts, in which each begins with its length.
fn hash(parts: &[&[u8]]) -> [u8; HASH_BYTES] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// The hash of what is asked about each object, and of who answers. `None` if that cannot be said.
fn question(wanted: &Wanted, look: &str) -> Option<[u8; HASH_BYTES]> {
    // Each field by name: a new one must be thought of here.
    let Wanted {
        types,
        programs,
        several,
        with_kernel: _,
        profile: _,
        unprivileged,
        choice,
        kernel_types,
        lint,
        settings,
        target,
    } = wanted;
    let words = format!("{types:?} {programs:?} {several} {unprivileged} {choice:?} {lint:?} {settings:?} {look}");
    let mut parts = vec![own_hash()?.to_vec(), words.into_bytes()];
    for path in ["/proc/sys/kernel/osrelease", RUNNING_KERNEL_TYPES] {
        parts.push(fs::read(path).unwrap_or_default());
    }
    parts.extend(input::running_kernel_config_bytes());
    if let Some(Target { input, function }) = target {
        parts.extend([input.bytes.clone(), format!("{function:?}").into_bytes()]);
    }
    match kernel_types {
        Types::Running => {}
        Types::File(path, _) => parts.push(file::read(path, input::MAX_FILE_BYTES).ok()?),
        Types::Hub(hub) => {
            for (release, path) in hub.files() {
                parts.push(release.to_string().into_bytes());
                parts.push(file::read(path, input::MAX_FILE_BYTES).ok()?);
            }
        }
    }
    Some(hash(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}

/// The hash of the executable: two builds of one version need not decide alike.
fn own_hash() -> Option<[u8; HASH_BYTES]> {
    static HASH: OnceLock<Option<[u8; HASH_BYTES]>> = OnceLock::new();
    let read = || {
        let mut hash = Sha256::new();
        std::io::copy(&mut fs::File::open(std::env::current_exe().ok()?).ok()?, &mut hash).ok()?;
        Some(hash.finalize().into())
    };
    *HASH.get_or_init(read)
}

fn make_folder(folder: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// A regular file, for reading: a pipe or a link under an entry's name is none.
fn open_plain(path: &Path) -> Option<fs::File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().is_ok_and(|data| data.is_file()).then_some(file)
}

/// The key: of the environment, or of the user's own file, which is made if there is none. `None` if there is no place for
/// one, or others than this user could have read or written it.
fn key() -> Result<Option<[u8; HASH_BYTES]>, Error> {
    if let Ok(text) = std::env::var(KEY_VARIABLE)
        && !text.is_empty()
    {
        if text.chars().count() < MIN_KEY_LETTERS {
            let message = format!("{KEY_VARIABLE} is a secret of at least {MIN_KEY_LETTERS} letters");
            return Err(Error::InvalidInput(message));
        }
        return Ok(Some(hash(&[text.as_bytes()])));
    }
    let Some(folder) = folders::cache() else { return Ok(None) };
    make_folder(&folder).map_err(|error| Error::file(&folder, &error))?;
    let path = folder.join("verdicts.key");
    if !path.exists() {
        let make = || {
            let mut key = [0; HASH_BYTES];
            fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
            let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&folder)?;
            file.write_all(&key)?;
            // If another run was first, its key is the one.
            let _ = file.persist_noclobber(&path);
            Ok(())
        };
        make().map_err(|error: std::io::Error| Error::file(&path, &error))?;
    }
    let read = || {
        let mut file = open_plain(&path)?;
        let data = file.metadata().ok()?;
        let is_own = data.uid() == rustix::process::geteuid().as_raw() && data.mode() & 0o077 == 0;
        let mut key = [0; HASH_BYTES];
        (is_own && data.len() == HASH_BYTES as u64).then_some(())?;
        file.read_exact(&mut key).ok()?;
        Some(key)
    };
    Ok(read())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(folder: &Path, limits: Limits) -> Cache {
        Cache {
            folder: folder.to_owned(),
            key: [7; HASH_BYTES],
            question: [0; HASH_BYTES],
            written: true.into(),
            limits,
        }
    }

    fn entry(text: &str) -> Entry {
        let result = Decided::Checked { kernel: "6.18".into(), types: "none".into(), programs: Vec::new() };
        let report = Report { object: "a.o".into(), compiled: None, result, findings: None, fixes: Vec::new() };
        Entry { report, unknown: Vec::new(), text: text.to_owned() }
    }

    #[test]
    fn an_entry_counts_with_the_users_key_and_under_its_own_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = cache(folder.path(), LIMITS);
        let [one, other] = [[1; HASH_BYTES], [2; HASH_BYTES]];
        own.put(&one, &entry("one"));
        assert_eq!(own.get(&one).expect("kept").text, "one");
        let whole = fs::read(own.path(&one)).expect("an entry");
        // A bit of each byte of the code and of what it is about.
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1 << (at % 8);
            fs::write(own.path(&one), changed).expect("an entry");
            assert!(own.get(&one).is_none(), "byte {at}");
        }
        for length in [0, 1, HASH_BYTES - 1, HASH_BYTES, whole.len() - 1] {
            fs::write(own.path(&one), &whole[..length]).expect("an entry");
            assert!(own.get(&one).is_none(), "{length} bytes");
        }
        fs::write(own.path(&other), &whole).expect("an entry");
        assert!(own.get(&other).is_none(), "it is another's");
        fs::write(own.path(&one), &whole).expect("an entry");
        let stranger = Cache { key: [8; HASH_BYTES], ..cache(folder.path(), LIMITS) };
        assert!(own.get(&one).is_some() && stranger.get(&one).is_none());
        std::os::unix::fs::symlink(own.path(&one), own.path(&[3; HASH_BYTES])).expect("a link");
        assert!(own.get(&[3; HASH_BYTES]).is_none() && own.get(&[4; HASH_BYTES]).is_none());
    }

    #[test]
    fn the_folder_has_a_size_and_other_files_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let limited = cache(folder.path(), Limits { entries: 8, bytes: 1 << 20 });
        fs::write(folder.path().join("notes.txt"), "mine").expect("a file");
        let named = |at: u8| [at; HASH_BYTES];
        for at in 0..9 {
            limited.put(&named(at), &entry("text"));
            let file = fs::File::open(limited.path(&named(at))).expect("an entry");
            file.set_modified(SystemTime::now() - Duration::from_secs(100 - u64::from(at))).expect("a time");
        }
        limited.prune();
        let kept: Vec<u8> = (0..9).filter(|at| limited.get(&named(*at)).is_some()).collect();
        assert_eq!(kept, [3, 4, 5, 6, 7, 8], "the oldest go");
        assert!(folder.path().join("notes.txt").exists());
        let small = cache(folder.path(), Limits { entries: 8, bytes: 1 });
        small.prune();
        assert!(small.get(&named(8)).is_none() && folder.path().join("notes.txt").exists());
    }

    #[test]
    fn an_object_that_could_not_be_checked_is_tried_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = cache(folder.path(), LIMITS);
        let error = super::super::reports::Failure::from(&Error::InvalidInput("cut off".to_owned()));
        let failed = Report { result: Decided::Failed { error }, ..entry("").report };
        own.put(&[1; HASH_BYTES], &Entry { report: failed, ..entry("") });
        assert!(own.get(&[1; HASH_BYTES]).is_none());
    }
}
