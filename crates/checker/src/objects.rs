//! Many objects: which files are meant, and work on several at a time.
//!
//! ```text
//!   build/ more/a.o --gather--> build/x.o, build/net/y.o, more/a.o     a folder's other files are counted, not read
//!                   --each----> on `jobs` threads; results in the order of the files
//! ```

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use kiln_program::Error;

/// Files and folders looked at below the folders of one command.
const MAX_ENTRIES: usize = 1_000_000;
/// Folders within one another.
const MAX_DEPTH: usize = 64;
/// Bytes of stack for a thread that verifies: as much as the main thread has, and room for deep programs.
pub const STACK_BYTES: usize = 16 << 20;

/// An object file that is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// Its path below the folder that was named, or its name.
    pub below: PathBuf,
    /// Whether only its folder was named, so that it need not hold programs.
    pub in_folder: bool,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// The objects: files in the order they were named, those of a folder sorted by path.
    pub objects: Vec<Found>,
    /// Files in folders that end in `.o` or `.elf` and are not for BPF.
    pub left_out: usize,
    /// BPF objects in folders for big-endian machines, as `bpf2go` writes one beside each object.
    pub big_endian: usize,
}

/// Finds the objects that are meant: each named file, and below each named folder BPF objects (`.o`,
/// `.elf`) and text (`.bpf`).
///
/// # Errors
/// Returns [`Error::InvalidInput`] if a folder cannot be read, or folders have too many files.
pub fn gather(paths: &[PathBuf]) -> Result<Gathered, Error> {
    let mut gathered = Gathered::default();
    let mut entries = 0;
    for named in paths {
        if !named.is_dir() {
            let below = named.file_name().map_or_else(|| named.clone(), PathBuf::from);
            gathered.objects.push(Found { path: named.clone(), below, in_folder: false });
            continue;
        }
        let mut files = Vec::new();
        let mut folders = vec![(named.clone(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            for entry in std::fs::read_dir(&folder).map_err(|error| Error::file(&folder, &error))? {
                let path = entry.map_err(|error| Error::file(&folder, &error))?.path();
                entries += 1;
                if entries > MAX_ENTRIES {
                    let name = named.display();
                    return Err(Error::InvalidInput(format!("{name} has more than {MAX_ENTRIES} files and folders")));
                }
                match path.is_dir() {
                    true if depth < MAX_DEPTH && !path.is_symlink() => folders.push((path, depth + 1)),
                    true => {}
                    false => files.push(path),
                }
            }
        }
        files.sort();
        for path in files {
            match kind(&path) {
                Kind::Object => {
                    let below = path.strip_prefix(named).unwrap_or(&path).to_owned();
                    gathered.objects.push(Found { path, below, in_folder: true });
                }
                Kind::OtherObject => gathered.left_out += 1,
                Kind::BigEndian => gathered.big_endian += 1,
                Kind::Other => {}
            }
        }
    }
    Ok(gathered)
}

/// Finds the objects that are meant, as [`gather`] does, and refuses to find none.
///
/// # Errors
/// As [`gather`], and [`Error::InvalidInput`] if there is no object.
pub fn gather_some(paths: &[PathBuf]) -> Result<Gathered, Error> {
    let gathered = gather(paths)?;
    if gathered.objects.is_empty() {
        return Err(Error::InvalidInput(
            "the folders hold no BPF objects for little-endian machines (.o, .elf, .bpf)".to_owned(),
        ));
    }
    Ok(gathered)
}

enum Kind {
    Object,
    OtherObject,
    BigEndian,
    Other,
}

/// What a file in a folder is, by its name and the machine that its header names. A file that cannot be read counts as
/// an object, so that reading it says why.
fn kind(path: &Path) -> Kind {
    const MACHINE_AT: usize = 18;
    const EM_BPF: [u8; 2] = 247u16.to_le_bytes();
    const EM_BPF_BIG: [u8; 2] = 247u16.to_be_bytes();
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("bpf") => return Kind::Object,
        Some("o" | "elf") => {}
        _ => return Kind::Other,
    }
    let mut head = [0; MACHINE_AT + 2];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    match (read, [head[MACHINE_AT], head[MACHINE_AT + 1]]) {
        (Ok(()), EM_BPF) | (Err(_), _) => Kind::Object,
        (Ok(()), EM_BPF_BIG) => Kind::BigEndian,
        (Ok(()), _) => Kind::OtherObject,
    }
}

/// Does work for each of `count` things on `jobs` threads and hands the results over in order, each as soon as it and
/// all before it are there. One job, or one thing, needs no thread.
pub fn each<T: Send>(count: usize, jobs: usize, work: impl Fn(usize) -> T + Sync, mut take: impl FnMut(usize, T)) {
    if jobs <= 1 || count <= 1 {
        return (0..count).for_each(|at| take(at, work(at)));
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        let mut threads = 0;
        for _ in 0..jobs.min(count) {
            let (send, next, work) = (send.clone(), &next, &work);
            let run = move || {
                loop {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    if at >= count || send.send((at, work(at))).is_err() {
                        return;
                    }
                }
            };
            threads +=
                usize::from(std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, run).is_ok());
        }
        drop(send);
        if threads == 0 {
            // No thread could be made: this one does the work.
            return (0..count).for_each(|at| take(at, work(at)));
        }
        let mut early = BTreeMap::new();
        let mut wanted = 0;
        for (at, result) in receive {
            early.insert(at, result);
            while let Some(result) = early.remove(&wanted) {
                take(wanted, result);
                wanted += 1;
            }
        }
    });
}

/// The number of jobs: as told, or one for each processor.
pub fn jobs(told: Option<u16>) -> usize {
    told.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_stand_for_their_objects() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(place("build/net")).expect("a folder");
        let header = |machine: u16| {
            let mut bytes = vec![0; 64];
            bytes[18..20].copy_from_slice(&machine.to_le_bytes());
            bytes
        };
        for (name, bytes) in [
            ("build/b.o", header(247)),
            ("build/a.bpf", Vec::new()),
            ("build/host.o", header(62)),
            ("build/net/short.o", vec![1]),
            ("build/net/aya.elf", header(247)),
            ("build/net/tool.elf", header(62)),
            ("build/net/x_bpfeb.o", header(247u16.swap_bytes())),
            ("build/notes.txt", Vec::new()),
            ("own.o", header(62)),
        ] {
            std::fs::write(place(name), bytes).expect("a file");
        }
        let gathered = gather(&[place("own.o"), place("build")]).expect("objects");
        let below: Vec<_> = gathered.objects.iter().map(|found| found.below.to_string_lossy().into_owned()).collect();
        assert_eq!(below, ["own.o", "a.bpf", "b.o", "net/aya.elf", "net/short.o"]);
        assert_eq!((gathered.left_out, gathered.big_endian), (2, 1));
        assert!(!gathered.objects[0].in_folder && gathered.objects[1].in_folder);
    }

    #[test]
    fn results_come_in_order_from_any_number_of_threads() {
        for jobs in [1, 2, 7] {
            let mut taken = Vec::new();
            let work = |at: usize| {
                std::thread::sleep(std::time::Duration::from_millis((at % 3) as u64));
                at * at
            };
            each(50, jobs, work, |at, result| taken.push((at, result)));
            assert_eq!(taken, (0..50).map(|at| (at, at * at)).collect::<Vec<_>>());
        }
    }
}
