//! Malformed files: thousands of corrupted versions of real objects. A file that is read must be written and read
//! again. Every other file must give an error in time, without a panic.

mod support;

use std::time::{Duration, Instant};

use kiln_elf::Error;

/// Time for all mutations.
const BUDGET: Duration = Duration::from_secs(4);
/// Time for one file; reading takes about a millisecond.
const LIMIT: Duration = Duration::from_secs(20);

/// A small generator of reproducible numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Numbers that break careless arithmetic.
const NASTY: [u64; 12] =
    [0, 1, 3, 7, 8, 0x7f, 0xffff, 0x10000, 0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff_ffff_ffff, 0xffff_ffff_ffff_fff8];

/// Corrupts a file in one to four places.
fn mutate(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut broken = bytes.to_vec();
    // The file header, and the section headers that its bytes 40 to 48 say are at the end.
    let table = bytes.get(40..48).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap()) as usize);
    for _ in 0..1 + random.below(4) {
        if broken.is_empty() {
            break;
        }
        let at = match random.below(8) {
            0 => random.below(64),
            1 | 2 => table + random.below(broken.len().saturating_sub(table)),
            _ => random.below(broken.len()),
        };
        let at = at.min(broken.len() - 1);
        match random.below(6) {
            0 => broken[at] ^= 1 << random.below(8),
            1 => broken[at] = random.next() as u8,
            2 if random.below(8) == 0 => broken.truncate(at),
            _ => {
                let (size, at) = ([2, 4, 8][random.below(3)], at & !3);
                let number = NASTY[random.below(NASTY.len())].to_le_bytes();
                for (to, from) in broken.iter_mut().skip(at).zip(&number[..size]) {
                    *to = *from;
                }
            }
        }
    }
    broken
}

fn try_one(bytes: &[u8]) -> Result<(), Error> {
    let elf = kiln_elf::read("hostile", bytes)?;
    if kiln_program::validate(&elf.object).is_err() {
        return Ok(());
    }
    assert_eq!(elf.write(&elf.object)?, bytes);
    for object in [elf.object.clone(), support::with_jumps_to_next(&elf.object)] {
        // A file that can be read may still give an error when it is written.
        let Ok(written) = elf.rebuild(&object, true) else { continue };
        let again = kiln_elf::read("written", &written).unwrap_or_else(|error| panic!("written, not read: {error}"));
        assert_eq!(again.object.functions.len(), object.functions.len());
        for (new, old) in again.object.functions.iter().zip(&object.functions) {
            assert_eq!(new.nodes.len(), old.nodes.len());
        }
    }
    let mut resolved = elf.object.clone();
    let types = resolved.btf.clone().unwrap_or_default();
    if let Ok(types) = kiln_program::btf::Btf::parse(&types) {
        // The object's own corrupted types are used as the kernel's types.
        let _ = kiln_elf::resolve_core(&mut resolved, &types);
    }
    Ok(())
}

#[test]
fn mutated_objects_are_read_or_refused() {
    let paths = support::corpus();
    let names = ["xdpfilt_alw_all.o", "xdpdump_bpf.o", "xdp-dispatcher.o", "test_core_extern.o", "bpf_flow.o"];
    let wanted = |path: &&std::path::PathBuf| names.contains(&support::label(path).as_str());
    let mut seeds: Vec<_> = paths.iter().filter(wanted).map(|path| std::fs::read(path).unwrap()).collect();
    seeds.retain(|bytes| bytes.len() < 100_000);
    if seeds.is_empty() {
        return;
    }
    let seed = std::env::var("KILN_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let seconds = std::env::var("KILN_SECONDS").ok().and_then(|text| text.parse().ok()).map(Duration::from_secs);
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed);
    let begin = Instant::now();
    let (mut read, mut refused) = (0u32, 0u32);
    // Both results must occur, or the mutations test nothing.
    while begin.elapsed() < seconds.unwrap_or(BUDGET) || read <= 100 || refused <= 100 {
        let index = random.below(seeds.len());
        let broken = mutate(&seeds[index], &mut random);
        let start = Instant::now();
        let result = std::panic::catch_unwind(|| try_one(&broken));
        let place = std::env::temp_dir().join("kiln-elf-hostile.o");
        match result {
            Ok(Ok(())) => read += 1,
            Ok(Err(Error::InvalidInput { message, .. })) => {
                assert!(!message.is_empty());
                refused += 1;
            }
            Ok(Err(_)) => refused += 1,
            Err(_) => {
                std::fs::write(&place, &broken).unwrap();
                panic!("a panic; the file is kept as {}", place.display());
            }
        }
        if start.elapsed() > LIMIT {
            std::fs::write(&place, &broken).unwrap();
            panic!("{:?} for one file, which is kept as {}", start.elapsed(), place.display());
        }
    }
    println!("{read} read, {refused} refused in {:?}", begin.elapsed());
}

#[test]
fn truncated_objects_are_refused() {
    let paths = support::corpus();
    let Some(path) = paths.iter().find(|path| support::label(path) == "xdpdump_xdp.o") else { return };
    let bytes = std::fs::read(path).unwrap();
    for length in (0..bytes.len()).step_by(7) {
        assert!(kiln_elf::read("truncated", &bytes[..length]).is_err(), "{length} of {} bytes", bytes.len());
    }
}

/// The section headers of a file: where they begin, and the name offset of each.
fn section_names(bytes: &[u8]) -> (usize, Vec<u32>) {
    let table = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    let headers = bytes[table..].chunks_exact(64);
    (table, headers.map(|header| u32::from_le_bytes(header[..4].try_into().unwrap())).collect())
}

#[test]
fn a_second_section_of_a_name_that_means_one_is_refused() {
    let paths = support::corpus();
    let Some(path) = paths.iter().find(|path| support::label(path) == "xdpdump_xdp.o") else { return };
    let bytes = std::fs::read(path).unwrap();
    let (table, names) = section_names(&bytes);
    let mut refused = Vec::new();
    for name in &names {
        // The last section gets the name of another one.
        let mut doubled = bytes.clone();
        let last = table + 64 * (names.len() - 1);
        doubled[last..last + 4].copy_from_slice(&name.to_le_bytes());
        if let Err(Error::InvalidInput { section, message, .. }) = kiln_elf::read("doubled", &doubled)
            && message.contains("two sections of this name")
        {
            refused.push(section);
        }
    }
    refused.sort();
    assert_eq!(refused, [".BTF", ".BTF.ext", ".maps", "license"]);
}

#[test]
fn records_that_the_kernel_would_refuse_are_refused() {
    use object::{Object as _, ObjectSection as _};
    let paths = support::corpus();
    let Some(path) = paths.iter().find(|path| support::label(path) == "xdpdump_xdp.o") else { return };
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let start = file.section_by_name(".BTF.ext").unwrap().file_range().unwrap().0 as usize;
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let [functions, lines] = [8, 16].map(|at| start + word(start + 4) + word(start + at));
    let size = word(lines);
    // A part is its records' size, then a section's name and count, then records: offset, texts, line.
    let first = lines + 12;
    let patched = |at: usize, word: u32| {
        let mut bytes = bytes.clone();
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        kiln_elf::read("patched", &bytes).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(patched(first, 0), Ok(()), "the first is at 0 anyway");
    for (at, new, why) in [
        (first + size, 0, "not behind the one before it"),
        (first + 8, 0x00ff_ffff, "outside the string table"),
        (functions + 16, 1, "is no function"),
    ] {
        let refused = patched(at, new).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}
