//! A folder with the types of many kernels, in BTFHub's layout.
//!
//! ```text
//!   btfhub-archive/ubuntu/20.04/x86_64/5.15.0-91-generic.btf.tar.xz     as published
//!   custom/6.1.0-18-amd64.btf                                           unpacked, or made smaller with bpftool gen min_core_btf
//! ```
//!
//! Only names are read until a release is asked for. If several files are of one release, the newest update is taken, of
//! this machine's architecture where the folders name architectures.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use kiln_platform::{KernelVersion, Profile};
use kiln_program::btf::Btf;

use kiln_inspect::file;
use kiln_inspect::input::{MAX_FILE_BYTES, parse_types};
use kiln_program::Error;

/// Files and folders looked at in one folder of types. BTFHub's archive has some ten thousand.
const MAX_ENTRIES: usize = 200_000;
/// Folders within one another.
const MAX_DEPTH: usize = 8;
/// Names of architectures in BTFHub's layout, as folders.
const ARCHITECTURES: [&str; 4] = ["x86_64", "arm64", "aarch64", "s390x"];
const PLAIN: &str = ".btf";
const PACKED: &str = ".btf.tar.xz";

/// One file of types for each release.
#[derive(Clone, Debug)]
pub struct Hub {
    folder: PathBuf,
    files: BTreeMap<KernelVersion, PathBuf>,
    /// What was read already, by release.
    known: Arc<Mutex<BTreeMap<KernelVersion, Arc<Btf>>>>,
}

impl Hub {
    /// Looks for the files of a folder.
    ///
    /// # Errors
    /// Returns [`Error::InvalidInput`] if there is no file of a release that Kiln describes, or there are too many files.
    pub fn open(folder: &Path) -> Result<Hub, Error> {
        let mut found: BTreeMap<KernelVersion, (Vec<u64>, PathBuf)> = BTreeMap::new();
        let mut entries = 0;
        let mut folders = vec![(folder.to_owned(), 0)];
        while let Some((at, depth)) = folders.pop() {
            for entry in std::fs::read_dir(&at).map_err(|error| Error::file(&at, &error))? {
                let path = entry.map_err(|error| Error::file(&at, &error))?.path();
                entries += 1;
                if entries > MAX_ENTRIES {
                    let name = folder.display();
                    return Err(Error::InvalidInput(format!("{name} has more than {MAX_ENTRIES} files and folders")));
                }
                if path.is_dir() && !path.is_symlink() {
                    if depth < MAX_DEPTH && !is_of_another_machine(&path) {
                        folders.push((path, depth + 1));
                    }
                } else if let Some((version, update)) = release_of(&path)
                    && (Profile::OLDEST..=KernelVersion::NEWEST).contains(&version)
                {
                    let candidate = (update, path);
                    let newest = found.entry(version).or_insert_with(|| candidate.clone());
                    if candidate > *newest {
                        *newest = candidate;
                    }
                }
            }
        }
        if found.is_empty() {
            let (oldest, newest) = (Profile::OLDEST, KernelVersion::NEWEST);
            return Err(Error::InvalidInput(format!(
                "{} has no types of a kernel from {oldest} to {newest}: files such as 6.1.0-18-amd64.btf or ....btf.tar.xz",
                folder.display()
            )));
        }
        let files = found.into_iter().map(|(version, (_, path))| (version, path)).collect();
        Ok(Hub { folder: folder.to_owned(), files, known: Arc::default() })
    }

    /// The releases that there are types of, oldest first.
    pub fn releases(&self) -> impl Iterator<Item = KernelVersion> + '_ {
        self.files.keys().copied()
    }

    /// The files, by release.
    pub fn files(&self) -> impl Iterator<Item = (KernelVersion, &Path)> + '_ {
        self.files.iter().map(|(release, path)| (*release, path.as_path()))
    }

    /// The types of a release, and the file that they are from.
    ///
    /// # Errors
    /// Returns [`Error::InvalidInput`] if the folder has none of this release, or the file has no BTF.
    pub fn types(&self, release: KernelVersion) -> Result<(&Path, Arc<Btf>), Error> {
        let path = self.files.get(&release).ok_or_else(|| {
            let known: Vec<_> = self.releases().map(|known| known.to_string()).collect();
            let folder = self.folder.display();
            Error::InvalidInput(format!("{folder} has no types of Linux {release}; it has {}", known.join(", ")))
        })?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(types) = known.get(&release) {
            return Ok((path, types.clone()));
        }
        let bytes = file::read(path, MAX_FILE_BYTES)?;
        let bytes = if is_packed(path) { unpacked(path, &bytes)? } else { bytes };
        let types = parse_types(path, &bytes)?;
        known.insert(release, types.clone());
        Ok((path, types))
    }
}

/// Whether a folder's name is that of an architecture which is not this machine's.
fn is_of_another_machine(folder: &Path) -> bool {
    let own = match std::env::consts::ARCH {
        "aarch64" => ["arm64", "aarch64"],
        own => [own, own],
    };
    let name = folder.file_name().unwrap_or_default();
    ARCHITECTURES.iter().any(|known| *known == name) && !own.iter().any(|own| *own == name)
}

fn is_packed(path: &Path) -> bool {
    path.to_string_lossy().ends_with(PACKED)
}

/// The release that a file's name says, and all numbers of the name, by which updates are ordered.
fn release_of(path: &Path) -> Option<(KernelVersion, Vec<u64>)> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(PACKED).or_else(|| name.strip_suffix(PLAIN))?;
    // Some distributions' names begin with a word: `vmlinux-6.1.0`.
    let release = name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let numbers = release.split(|letter: char| !letter.is_ascii_digit()).filter_map(|part| part.parse().ok());
    Some((release.parse().ok()?, numbers.collect()))
}

/// The one file in a packed archive.
fn unpacked(path: &Path, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let invalid = |what: String| Error::InvalidInput(format!("{}: {what}", path.display()));
    let mut archive = Bounded(Vec::new());
    lzma_rs::xz_decompress(&mut &*bytes, &mut archive).map_err(|error| invalid(format!("not xz: {error:?}")))?;
    let mut archive = tar::Archive::new(archive.0.as_slice());
    for entry in archive.entries().map_err(|error| invalid(error.to_string()))? {
        let mut entry = entry.map_err(|error| invalid(error.to_string()))?;
        if entry.path_bytes().ends_with(PLAIN.as_bytes()) {
            let mut own = Vec::new();
            entry.read_to_end(&mut own).map_err(|error| invalid(error.to_string()))?;
            return Ok(own);
        }
    }
    Err(invalid("the archive has no .btf file".to_owned()))
}

/// Bytes, as many as a file of types may have.
struct Bounded(Vec<u8>);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() as u64 + bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(std::io::Error::other(format!("more than {MAX_FILE_BYTES} bytes unpacked")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_release_has_its_newest_file_of_this_machine() {
        let own = if std::env::consts::ARCH == "aarch64" { "arm64" } else { std::env::consts::ARCH };
        let other = if own == "x86_64" { "arm64" } else { "x86_64" };
        let folder = tempfile::tempdir().expect("a folder");
        let own_names = ["4.17.0-1.btf", "5.15.0-9-generic.btf.tar.xz", "5.15.0-91-generic.btf.tar.xz", "notes.txt"];
        for (machine, name) in own_names.iter().map(|name| (own, *name)).chain([(other, "6.1.0-1.btf")]) {
            let place = folder.path().join("ubuntu/20.04").join(machine);
            std::fs::create_dir_all(&place).expect("a folder");
            std::fs::write(place.join(name), b"nothing").expect("a file");
        }
        let hub = Hub::open(folder.path()).expect("a hub");
        assert_eq!(hub.releases().collect::<Vec<_>>(), [KernelVersion::new(5, 15)]);
        let error = hub.types(KernelVersion::new(5, 15)).expect_err("no xz").to_string();
        assert!(error.contains("5.15.0-91-generic.btf.tar.xz: not xz"), "{error}");
        let error = hub.types(KernelVersion::new(6, 1)).expect_err("no file").to_string();
        assert!(error.contains("no types of Linux 6.1; it has 5.15"), "{error}");
        assert!(Hub::open(&folder.path().join("ubuntu/20.04").join(other)).is_ok());
        let error = Hub::open(tempfile::tempdir().expect("a folder").path()).expect_err("empty").to_string();
        assert!(error.contains("no types of a kernel from 4.18 to 7.3"), "{error}");
    }
}
