//! Compiled programs for `perf`: whose code an address is in, and its bytes.
//!
//! `perf report` knows code of executables by their files. Code that a process makes for itself has none, so processes say
//! where it is, in one of two files that belong to the process:
//!
//! ```text
//!   /tmp/perf-PID.map     7f3a10000000 4a2 kiln:filter                  while the process runs: names only
//!   FOLDER/jit-PID.dump   header, then a record for each program        for `perf inject --jit`: bytes and source lines
//! ```
//!
//! The formats are those of `tools/perf/Documentation/jit-interface.txt` and `jitdump-specification.txt` in Linux.
//!
//! `/tmp` is everybody's folder, so a file is created new, never opened: somebody else's file or link under that name is an
//! error. A file that an earlier process of the same user and number left is replaced.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use kiln_jit::{Code, Part};
use kiln_program::{InsnId, Node, Object};

use crate::clock::{Timer, now_ns};

/// What is written for `perf` when a program is loaded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PerfFiles {
    /// `/tmp/perf-PID.map`: names and addresses.
    pub map: bool,
    /// `jit-PID.dump` in this folder: names, addresses, bytes and source lines. Programs must be recorded with
    /// `perf record -k mono`.
    pub dump: Option<PathBuf>,
}

/// A function's code.
struct Symbol {
    name: String,
    address: u64,
    bytes: Vec<u8>,
    /// Addresses, files and lines.
    lines: Vec<(u64, String, u32)>,
}

/// The files of this process, once they are there: programs of all VMs are in one file.
static MAP: Mutex<Option<File>> = Mutex::new(None);
static DUMP: Mutex<Option<Dump>> = Mutex::new(None);

struct Dump {
    file: File,
    /// Records so far: each needs a number of its own.
    records: u64,
}

impl PerfFiles {
    /// Whether anything is to be written.
    pub(crate) fn wanted(&self) -> bool {
        self.map || self.dump.is_some()
    }

    /// Writes what a program became, and where it is.
    ///
    /// # Errors
    /// What creating and writing a file reports; a file of somebody else under its name is
    /// [`io::ErrorKind::AlreadyExists`].
    pub(crate) fn write(&self, object: &Object, program: &str, code: &Code, start: u64) -> io::Result<()> {
        self.write_symbols(&symbols(object, program, code, start))
    }

    /// Writes what an optimizing compiler made of a program: one symbol for all of its functions.
    ///
    /// # Errors
    /// As [`PerfFiles::write`].
    #[cfg(feature = "native")]
    pub(crate) fn write_native(&self, program: &str, address: u64, bytes: Vec<u8>) -> io::Result<()> {
        let name = format!("kiln-native:{}", clean(program));
        self.write_symbols(&[Symbol { name, address, bytes, lines: Vec::new() }])
    }

    fn write_symbols(&self, symbols: &[Symbol]) -> io::Result<()> {
        let pid = std::process::id();
        if self.map {
            let mut map = MAP.lock().unwrap_or_else(PoisonError::into_inner);
            if map.is_none() {
                *map = Some(create(&PathBuf::from(format!("/tmp/perf-{pid}.map")))?);
            }
            let line = |symbol: &Symbol| format!("{:x} {:x} {}\n", symbol.address, symbol.bytes.len(), symbol.name);
            let lines: String = symbols.iter().map(line).collect();
            if let Some(file) = map.as_mut() {
                file.write_all(lines.as_bytes())?;
            }
        }
        if let Some(folder) = &self.dump {
            let mut dump = DUMP.lock().unwrap_or_else(PoisonError::into_inner);
            if dump.is_none() {
                *dump = Some(Dump::create(&folder.join(format!("jit-{pid}.dump")), pid)?);
            }
            if let Some(dump) = dump.as_mut() {
                symbols.iter().try_for_each(|symbol| dump.add(symbol, pid))?;
            }
        }
        Ok(())
    }
}

/// A name that one line can hold and `perf` can print: an object may name its programs anything.
fn clean(name: &str) -> String {
    /// The kernel's own symbols are shorter.
    const LONGEST: usize = 128;
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || "_.$".contains(letter) { letter } else { '_' };
    name.chars().take(LONGEST).map(plain).collect()
}

/// The functions of a program. Padding belongs to what is before it.
fn symbols(object: &Object, program: &str, code: &Code, start: u64) -> Vec<Symbol> {
    let program = clean(program);
    let mut names = vec![format!("kiln:{program}")];
    let mut begins = vec![0];
    for span in &code.spans {
        let (id, end) = match span.part {
            Part::Prologue(id) if span.bytes.start > 0 => (id, ""),
            Part::Callback(id) => (id, ".callback"),
            _ => continue,
        };
        let function = object.functions.get(id.index()).map_or("?", |function| function.name.as_str());
        names.push(format!("kiln:{program}.{}{end}", clean(function)));
        begins.push(span.bytes.start);
    }
    let nodes = object.functions.iter().flat_map(|function| &function.nodes);
    let nodes: HashMap<InsnId, &Node> = nodes.map(|node| (node.id, node)).collect();
    let line = |id: &InsnId| object.line(nodes.get(id)?).filter(|line| line.line != 0);
    let ends = begins.iter().skip(1).copied().chain([code.bytes.len()]);
    let symbol = |((name, begin), end): ((String, &usize), usize)| {
        let spans = code.spans.iter().filter(|span| (*begin..end).contains(&span.bytes.start));
        let lines = spans.filter_map(|span| {
            let (Part::Insns(insns), false) = (&span.part, span.bytes.is_empty()) else { return None };
            let line = line(insns.first()?)?;
            Some((start + span.bytes.start as u64, line.file.replace('\0', "_"), line.line))
        });
        let bytes = code.bytes.get(*begin..end).unwrap_or_default().to_vec();
        Symbol { name, address: start + *begin as u64, bytes, lines: lines.collect() }
    };
    names.into_iter().zip(&begins).zip(ends).map(symbol).collect()
}

/// Creates a file that nobody but this user may read, and that was not there.
fn create(path: &Path) -> io::Result<File> {
    let new = || OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
    match new() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // What is examined and what is removed may be different files; removing follows no link, and creating
            // fails if there is a file again.
            let left = std::fs::symlink_metadata(path)?;
            // SAFETY: geteuid has no conditions.
            let own = left.is_file() && left.uid() == unsafe { libc::geteuid() };
            if !own {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            new()
        }
        result => result,
    }
}

/// `JiTD`, as a number in the byte order of the machine.
const MAGIC: u32 = 0x4a69_5444;
const HEADER_BYTES: u32 = 40;
/// Records: code, and the lines of the code in the next record.
const CODE_LOAD: u32 = 0;
const CODE_LINES: u32 = 2;
/// The head of any record: its kind, its length, when.
const RECORD_BYTES: usize = 16;

fn now() -> u64 {
    now_ns(Timer::Monotonic).unwrap_or(0)
}

impl Dump {
    fn create(path: &Path, pid: u32) -> io::Result<Dump> {
        /// The machine's number in ELF files.
        const MACHINE: u32 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
        let mut file = create(path)?;
        let mut header = Vec::new();
        for word in [MAGIC, 1, HEADER_BYTES, MACHINE, 0, pid] {
            header.extend(word.to_ne_bytes());
        }
        header.extend(now().to_ne_bytes());
        header.extend(0u64.to_ne_bytes());
        file.write_all(&header)?;
        announce(&file)?;
        Ok(Dump { file, records: 0 })
    }

    fn add(&mut self, symbol: &Symbol, pid: u32) -> io::Result<()> {
        if !symbol.lines.is_empty() {
            let mut body = Vec::new();
            body.extend(symbol.address.to_ne_bytes());
            body.extend((symbol.lines.len() as u64).to_ne_bytes());
            for (address, file, line) in &symbol.lines {
                body.extend(address.to_ne_bytes());
                body.extend(line.to_ne_bytes());
                body.extend(0u32.to_ne_bytes());
                body.extend(file.bytes().chain([0]));
            }
            self.record(CODE_LINES, &body)?;
        }
        // SAFETY: gettid has no conditions.
        #[cfg(target_os = "linux")]
        let thread = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        // Nothing else reads these files.
        #[cfg(not(target_os = "linux"))]
        let thread = pid;
        let mut body = Vec::new();
        body.extend(pid.to_ne_bytes());
        body.extend(thread.to_ne_bytes());
        for word in [symbol.address, symbol.address, symbol.bytes.len() as u64, self.records] {
            body.extend(word.to_ne_bytes());
        }
        body.extend(symbol.name.bytes().chain([0]));
        body.extend(&symbol.bytes);
        self.records += 1;
        self.record(CODE_LOAD, &body)
    }

    fn record(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let bytes = u32::try_from(RECORD_BYTES + body.len()).map_err(io::Error::other)?;
        let mut record = Vec::with_capacity(RECORD_BYTES + body.len());
        record.extend(kind.to_ne_bytes());
        record.extend(bytes.to_ne_bytes());
        record.extend(now().to_ne_bytes());
        record.extend(body);
        self.file.write_all(&record)
    }
}

/// Maps a page of the file executable, and never unmaps it: by the event of this mapping `perf record` finds the file.
fn announce(file: &File) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    const PAGE_BYTES: usize = 4096;
    let protection = libc::PROT_READ | libc::PROT_EXEC;
    // SAFETY: a new private mapping at an address of the kernel's choice touches no existing memory, and nobody reads or
    // runs it.
    let page =
        unsafe { libc::mmap(std::ptr::null_mut(), PAGE_BYTES, protection, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
    if page == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_word_of_plain_letters() {
        assert_eq!(clean("a b\n7f00 10 libc"), "a_b_7f00_10_libc");
        assert_eq!(clean(&"x".repeat(1000)).len(), 128);
    }

    #[test]
    #[cfg_attr(miri, ignore = "files")]
    fn links_are_not_followed_and_own_files_are_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let (target, path) = (folder.path().join("target"), folder.path().join("perf-1.map"));
        std::fs::write(&target, "kept").expect("a file");
        std::os::unix::fs::symlink(&target, &path).expect("a link");
        assert_eq!(create(&path).expect_err("a link").kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&target).expect("a file"), b"kept");
        std::fs::remove_file(&path).expect("a link");
        std::fs::hard_link(&target, &path).expect("another name");
        create(&path).expect("an own file is replaced").write_all(b"new").expect("written");
        assert_eq!(std::fs::read(&target).expect("a file"), b"kept");
        assert_eq!(std::fs::read(&path).expect("a file"), b"new");
        assert_eq!(std::fs::metadata(&path).expect("a file").mode() & 0o777, 0o600);
        std::fs::remove_file(&path).expect("removed");
        std::fs::create_dir(&path).expect("a folder");
        create(&path).expect_err("a folder is no file");
    }
}
