//! Addresses of processes as functions of their programs and libraries.
//!
//! ```text
//!   process, address --/proc/PID/maps--> file, place in it --symbols of the file--> function
//! ```
//!
//! Files are opened through `/proc/PID/map_files`: the very files that are mapped, whatever has become of their paths. What a
//! process has mapped is kept, so that its stacks have names after it has ended.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::functions::Functions;

/// Processes, files and bytes of a file that are kept or read at most.
const MAX_PROCESSES: usize = 1 << 10;
const MAX_FILES: usize = 1 << 9;
const MAX_FILE_BYTES: u64 = 256 << 20;
/// Maximum bytes of what `/proc/PID/maps` says.
const MAX_MAPS_BYTES: u64 = 16 << 20;
/// What a process has mapped is read again for unknown addresses, but not more often than this.
const AGAIN: Duration = Duration::from_millis(500);

/// What processes have mapped.
#[derive(Debug, Default)]
pub struct Programs {
    processes: HashMap<u32, Process>,
    /// The functions of files, by device and inode.
    files: HashMap<(String, u64), Arc<Functions>>,
}

#[derive(Debug)]
struct Process {
    read: Instant,
    mappings: Vec<Mapping>,
}

/// Code of a file in a process's memory.
#[derive(Debug)]
struct Mapping {
    start: u64,
    end: u64,
    /// Where it begins in the file.
    place: u64,
    /// The file's name without its folders.
    name: String,
    functions: Arc<Functions>,
}

impl Programs {
    /// The function at an address of a process, or at so many bytes before it: its name, or else the file and the place in
    /// it, or else the address.
    pub fn name(&mut self, process: u32, address: u64, before: u64) -> String {
        let at = address.saturating_sub(before);
        if self.mapping(process, at).is_none() {
            self.read(process);
        }
        match self.mapping(process, at) {
            None => format!("{address:#x}"),
            Some(mapping) => {
                let place = at - mapping.start + mapping.place;
                let name = mapping.functions.at(place).map(ToOwned::to_owned);
                name.unwrap_or_else(|| format!("{}+{:#x}", mapping.name, place + before)).replace(';', ":")
            }
        }
    }

    fn mapping(&self, process: u32, address: u64) -> Option<&Mapping> {
        let mappings = &self.processes.get(&process)?.mappings;
        mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))
    }

    /// Reads what a process has mapped, unless that was done a moment ago. What is known stays if the process has ended.
    fn read(&mut self, process: u32) {
        if self.processes.get(&process).is_some_and(|known| known.read.elapsed() < AGAIN) {
            return;
        }
        if self.processes.len() >= MAX_PROCESSES {
            self.processes.clear();
        }
        if self.files.len() >= MAX_FILES {
            self.files.clear();
        }
        let mut text = String::new();
        let maps = File::open(format!("/proc/{process}/maps"));
        let is_read = maps.and_then(|file| file.take(MAX_MAPS_BYTES).read_to_string(&mut text)).is_ok();
        let mappings: Vec<Mapping> = text.lines().filter_map(|line| self.parsed(process, line)).collect();
        let known =
            self.processes.entry(process).or_insert_with(|| Process { read: Instant::now(), mappings: Vec::new() });
        known.read = Instant::now();
        if is_read && !mappings.is_empty() {
            known.mappings = mappings;
        }
    }

    /// `7f0000001000-7f0000002000 r-xp 00001000 fd:01 1234   /usr/lib/libc.so.6`
    fn parsed(&mut self, process: u32, line: &str) -> Option<Mapping> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).ok());
        let (start, end) = (start?, end?);
        if words.next()?.as_bytes().get(2) != Some(&b'x') {
            return None;
        }
        let place = u64::from_str_radix(words.next()?, 16).ok()?;
        let device = words.next()?.to_owned();
        let inode = words.next()?.parse().ok()?;
        let path = words.next().unwrap_or_default().trim_start();
        let name = path.rsplit('/').next().unwrap_or_default();
        let name = name.strip_suffix(" (deleted)").unwrap_or(name).to_owned();
        let functions = match (inode, self.files.get(&(device.clone(), inode))) {
            (_, Some(known)) => Arc::clone(known),
            (0, None) => Arc::default(),
            (inode, None) => {
                let functions = Arc::new(functions(process, start, end).unwrap_or_default());
                self.files.insert((device, inode), Arc::clone(&functions));
                functions
            }
        };
        (!name.is_empty()).then_some(Mapping { start, end, place, name, functions })
    }
}

/// The functions of the file that a process has mapped there.
fn functions(process: u32, start: u64, end: u64) -> Option<Functions> {
    let file = File::open(format!("/proc/{process}/map_files/{start:x}-{end:x}")).ok()?;
    let about = file.metadata().ok()?;
    if !about.is_file() || about.len() > MAX_FILE_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(Functions::of(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_process_have_names() {
        let own = std::process::id();
        let mut programs = Programs::default();
        let address = std::fs::read_to_string as fn(&'static str) -> std::io::Result<String> as usize as u64;
        let name = programs.name(own, address, 0);
        // Without privilege, files are not opened through a process.
        assert!(name.contains("read_to_string") || name.contains("+0x"), "{name}");
        assert_eq!(programs.name(own, 1, 0), "0x1");
        assert_eq!(programs.name(u32::MAX, 4096, 1), "0x1000");
        for line in ["", "-", "1-2", "zz-1 r-xp 0 0 0", "1-2 r-xp 0 0:0 x", "1-2 r-xp 0 0:0 0"] {
            assert!(programs.parsed(own, line).is_none(), "{line}");
        }
    }
}
