//! A log that is read: its commands are served again.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;
use std::sync::atomic::Ordering;

use super::block::{Header, Kind, PREFIX};
use super::directory::{Directory, Manifest, open_regular};
use super::error::LogError;
use super::input::{Bad, Entry, Input};
use crate::clock;
use crate::journal::record::MARKS;
use crate::protocol::Service;
use crate::redis::Replay;
use crate::store::Change;

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 256 << 10;
/// What a file of Redis' other format begins with.
const RDB: &[u8] = b"REDIS";

/// What was read.
#[derive(Default, Debug)]
pub struct Loaded {
    /// Commands that were served again.
    pub commands: u64,
    /// What was cut off, if something was: the file's name, where, and why.
    pub cut: Option<(String, u64, String)>,
    /// Bytes of the base.
    pub base_bytes: u64,
    /// Bytes of all increments.
    pub increment_bytes: u64,
    /// Bytes of the last increment.
    pub end: u64,
    /// The number of the next block.
    pub number: u64,
}

/// How far a file was read.
struct Read {
    /// Where its good part ends.
    good: u64,
    /// What is wrong with the rest.
    bad: Option<Bad>,
}

struct Loader<'s, 'h> {
    replay: Replay<'s, 'h>,
    service: &'s Service<'h>,
    /// Flags and marks of the next value.
    marks: Option<(u32, u32)>,
    commands: u64,
    /// Where the command that is read begins in its file, or the block around it.
    at: u64,
    /// A transaction: where its `MULTI` is, and what came behind it. It is served with `EXEC`, or not at all.
    waiting: Option<(u64, Vec<Vec<Vec<u8>>>)>,
    /// The number of the next block, if that is known.
    number: Option<u64>,
    /// Whether the file's end was met.
    is_ended: bool,
}

/// Why a command is not served again.
struct Refused(String);

impl Loader<'_, '_> {
    fn comment(&mut self, line: &[u8]) {
        let Some(rest) = line.strip_prefix(MARKS).and_then(|rest| std::str::from_utf8(rest).ok()) else { return };
        let mut numbers = rest.split_ascii_whitespace().map(str::parse);
        if let (Some(Ok(flags)), Some(Ok(marks))) = (numbers.next(), numbers.next()) {
            self.marks = Some((flags, marks));
        }
    }

    fn command(&mut self, words: Vec<Vec<u8>>) -> Result<(), Refused> {
        let is = |name: &str| words.first().is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        match &mut self.waiting {
            None if is("multi") => self.waiting = Some((self.at, Vec::new())),
            None if is("exec") => {}
            None => return self.serve(&words),
            Some((_, whole)) if is("exec") => {
                let whole = std::mem::take(whole);
                self.waiting = None;
                return whole.iter().try_for_each(|words| self.serve(words));
            }
            Some((_, waiting)) => waiting.push(words),
        }
        Ok(())
    }

    fn serve(&mut self, words: &[Vec<u8>]) -> Result<(), Refused> {
        let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
        self.commands += 1;
        let marks = self.marks.take();
        if let (Some((flags, marks)), [name, key, value, rest @ ..]) = (marks, &words[..])
            && name.eq_ignore_ascii_case(b"set")
        {
            let date = rest.get(1).and_then(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
            let expires = date.map_or(0, |date| date.saturating_add_signed(clock::origin(true)).max(1));
            let put = || Change::Put { flags, expires, marks, value: value.to_vec() };
            return self.service.store.update(key, |_| (put(), ())).map_err(|_| Refused("no memory".to_owned()));
        }
        self.replay.apply(&words).map_err(Refused)
    }

    fn entries(&mut self, data: &[u8]) -> Result<Result<(), Bad>, Refused> {
        let mut input = Input::new(data);
        loop {
            match input.entry() {
                Ok(None) => return Ok(Ok(())),
                Ok(Some(Entry::Comment(line))) => self.comment(&line),
                Ok(Some(Entry::Command(words))) => self.command(words)?,
                Err(Bad::Truncated) => return Ok(Err(Bad::Damaged("a block ends within a command".to_owned()))),
                Err(bad) => return Ok(Err(bad)),
            }
        }
    }

    /// Reads a block behind its line.
    fn block<R: io::BufRead>(&mut self, line: &[u8], input: &mut Input<R>) -> Result<Result<(), Bad>, Refused> {
        let damaged = |what: &str| Ok(Err(Bad::Damaged(what.to_owned())));
        let Some(header) = Header::read(line) else { return damaged("the line of a block has a wrong checksum") };
        if header.kind == Kind::End {
            self.is_ended = true;
            self.number = Some(header.number);
            return Ok(Ok(()));
        }
        if let Some(number) = self.number.filter(|number| *number != header.number) {
            let what = format!("this is block {}, and block {number} is missing", header.number);
            return Ok(Err(Bad::Damaged(what)));
        }
        let data = match input.exact(header.bytes as usize) {
            Ok(data) => data,
            Err(bad) => return Ok(Err(bad)),
        };
        if crc32fast::hash(&data) != header.crc {
            return damaged("a block has a wrong checksum");
        }
        self.number = Some(header.number + 1);
        self.entries(&data)
    }

    fn file(&mut self, path: &Path) -> Result<Read, LogError> {
        let file = open_regular(path).map_err(LogError::io(path, "opening"))?;
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
        let refused = |offset, what| LogError::Unsupported { path: path.to_owned(), offset, what };
        if reader.fill_buf().map_err(LogError::io(path, "reading"))?.starts_with(RDB) {
            let what = "this is Redis' RDB format; have Redis rewrite it with aof-use-rdb-preamble no".to_owned();
            return Err(refused(0, what));
        }
        let mut input = Input::new(reader);
        loop {
            self.at = input.offset;
            let served = match input.entry() {
                Ok(None) if self.waiting.is_some() => Ok(Err(Bad::Truncated)),
                Ok(None) => return Ok(Read { good: self.at, bad: None }),
                Ok(Some(Entry::Comment(line))) if line.starts_with(PREFIX) => self.block(&line, &mut input),
                // What Redis writes outside of blocks is commands and times.
                Ok(Some(Entry::Comment(line))) if line.starts_with(b"#TS:") => Ok(Ok(())),
                Ok(Some(Entry::Comment(_))) => Ok(Err(Bad::Damaged("the line of a block is damaged".to_owned()))),
                Ok(Some(Entry::Command(words))) => self.command(words).map(Ok),
                Err(bad) => Ok(Err(bad)),
            };
            match served {
                Ok(Ok(())) => {}
                Ok(Err(Bad::Io(error))) => return Err(LogError::Io { path: path.to_owned(), doing: "reading", error }),
                Ok(Err(bad)) => {
                    let good = self.waiting.take().map_or(self.at, |(begun, _)| begun);
                    return Ok(Read { good, bad: Some(bad) });
                }
                Err(Refused(what)) => return Err(refused(self.at, what)),
            }
        }
    }
}

/// Reads all files of a manifest into a service's store. With `repair`, what is damaged is cut off, and the manifest is changed. What a
/// kill has left of a last block is cut off in any case: nobody was told that it is there.
///
/// # Errors
/// Returns an error if a file is damaged or cannot be read.
pub fn load(
    directory: &Directory,
    manifest: &mut Manifest,
    service: &Service<'_>,
    repair: bool,
) -> Result<Loaded, LogError> {
    let mut loader = Loader {
        replay: Replay::new(service),
        service,
        marks: None,
        commands: 0,
        at: 0,
        waiting: None,
        number: Some(0),
        is_ended: false,
    };
    let mut loaded = Loaded::default();
    if let Some(base) = &manifest.base {
        let path = directory.at(&base.name);
        let mut read = loader.file(&path)?;
        // Redis' own bases have neither blocks nor an end.
        let is_own = loader.number != Some(0) || loader.is_ended;
        if read.bad.is_none() && is_own && !loader.is_ended {
            read.bad = Some(Bad::Damaged("the end of the base is missing".to_owned()));
        }
        if !loader.is_ended {
            loader.number = None;
        }
        loaded.base_bytes = read.good;
        if let Some(bad) = read.bad {
            let rest = std::mem::take(&mut manifest.increments);
            cut(directory, &base.name, read.good, &bad, repair, &mut loaded)?;
            set_aside(directory, rest.iter().map(|part| &*part.name))?;
        }
    }
    for at in 0..manifest.increments.len() {
        let name = manifest.increments[at].name.clone();
        let read = loader.file(&directory.at(&name))?;
        (loaded.end, loaded.increment_bytes) = (read.good, loaded.increment_bytes + read.good);
        if let Some(bad) = read.bad {
            let is_last = at + 1 == manifest.increments.len();
            let is_killed = is_last && matches!(bad, Bad::Truncated);
            let rest = manifest.increments.split_off(at + 1);
            cut(directory, &name, read.good, &bad, repair || is_killed, &mut loaded)?;
            set_aside(directory, rest.iter().map(|part| &*part.name))?;
            break;
        }
    }
    loaded.commands = loader.commands;
    loaded.number = loader.number.unwrap_or(0);
    let counted = &service.statistics;
    for counter in [&counted.gets, &counted.hits, &counted.sets, &counted.deletes] {
        counter.store(0, Ordering::Relaxed);
    }
    Ok(loaded)
}

/// Cuts a file at the end of its good part, if that is allowed. With a repair there is a copy of it as it was.
fn cut(
    directory: &Directory,
    name: &str,
    good: u64,
    bad: &Bad,
    is_allowed: bool,
    loaded: &mut Loaded,
) -> Result<(), LogError> {
    let path = directory.at(name);
    let what = match bad {
        Bad::Damaged(what) => what.clone(),
        Bad::Truncated | Bad::Io(_) => "it ends within a command or a transaction".to_owned(),
    };
    if !is_allowed {
        return Err(LogError::Damaged { path, offset: good, what });
    }
    if matches!(bad, Bad::Damaged(_)) {
        let copy = directory.at(&format!("{name}.damaged"));
        fs::copy(&path, &copy).map_err(LogError::io(&copy, "writing"))?;
    }
    let cut = || {
        let file = File::options().write(true).open(&path)?;
        file.set_len(good)?;
        file.sync_all()
    };
    cut().map_err(LogError::io(&path, "cutting"))?;
    loaded.cut = Some((name.to_owned(), good, what));
    Ok(())
}

/// Renames files whose changes have lost what they followed.
fn set_aside<'n>(directory: &Directory, names: impl Iterator<Item = &'n str>) -> Result<(), LogError> {
    for name in names {
        let path = directory.at(name);
        fs::rename(&path, directory.at(&format!("{name}.damaged"))).map_err(LogError::io(&path, "renaming"))?;
    }
    Ok(())
}
