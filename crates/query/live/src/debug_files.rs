//! Debug information (DWARF): in a program's file, compressed or not, or in a file of its own.
//!
//! ```text
//!   /usr/bin/x --build id ab12...--> /usr/lib/debug/.build-id/ab/12....debug        as packages have it
//!              --.gnu_debuglink----> x.debug, .debug/x.debug, /usr/lib/debug/usr/bin/x.debug
//! ```

use std::borrow::Cow;
use std::io::Read as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use flate2::read::ZlibDecoder;
use gimli::SectionId;
use object::read::elf::ElfFile64;
use object::{CompressionFormat, Object as _, ObjectSection as _};

use crate::elf;

/// Bytes of a file's compressed sections once they are decompressed, all together.
pub const MAX_UNPACKED_BYTES: u64 = 1 << 30;
/// Where packages put debug information.
const FOLDER: &str = "/usr/lib/debug";
/// Bytes of a build id; usually 20.
const BUILD_BYTES: RangeInclusive<usize> = 2..=64;
/// The sections that are read.
const SECTIONS: [SectionId; 9] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// A section of a file; empty if it has none that can be read. `room` is what further sections may have of
/// [`MAX_UNPACKED_BYTES`].
pub fn section<'d>(elf: &ElfFile64<'d>, id: SectionId, room: &mut u64) -> Cow<'d, [u8]> {
    let section = elf.section_by_name(id.name()).filter(|_| SECTIONS.contains(&id));
    let Some(Ok(data)) = section.map(|section| section.compressed_data()) else { return Cow::default() };
    match data.format {
        CompressionFormat::None => Cow::Borrowed(data.data),
        CompressionFormat::Zlib if data.uncompressed_size <= *room => {
            *room -= data.uncompressed_size;
            let mut bytes = Vec::new();
            let read = ZlibDecoder::new(data.data).take(data.uncompressed_size).read_to_end(&mut bytes);
            if read.is_ok() { Cow::Owned(bytes) } else { Cow::default() }
        }
        _ => Cow::default(),
    }
}

/// The bytes of the file that has the debug information of a program, if the program has none and there is such a file of
/// the same build.
pub fn separate(program: &Path, elf: &ElfFile64<'_>) -> Option<Vec<u8>> {
    if elf.section_by_name(SectionId::DebugInfo.name()).is_some() {
        return None;
    }
    let build = elf.build_id().ok().flatten().filter(|build| BUILD_BYTES.contains(&build.len()))?;
    let is_of_build =
        |bytes: &Vec<u8>| ElfFile64::parse(&**bytes).is_ok_and(|own: ElfFile64<'_>| own.build_id() == Ok(Some(build)));
    places(program, build, elf.gnu_debuglink().ok().flatten().map(|(name, _)| name))
        .iter()
        .filter_map(|place| elf::read(place).ok())
        .find(is_of_build)
}

/// Where it may be.
fn places(program: &Path, build: &[u8], link: Option<&[u8]>) -> Vec<PathBuf> {
    let digits: String = build.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = digits.split_at(2);
    let mut places = vec![Path::new(FOLDER).join(".build-id").join(first).join(format!("{rest}.debug"))];
    // A link is a name, not a path.
    let name = link.and_then(|name| std::str::from_utf8(name).ok()).filter(|name| !name.contains('/'));
    if let (Some(name), Some(folder)) = (name, program.parent()) {
        places.extend([folder.join(name), folder.join(".debug").join(name)]);
        places.push(Path::new(FOLDER).join(folder.strip_prefix("/").unwrap_or(folder)).join(name));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_names() {
        let of = |link: &[u8]| places(Path::new("/usr/bin/x"), &[0xab, 0x12, 0x0f], Some(link));
        let own = of(b"x.debug").iter().map(|place| place.display().to_string()).collect::<Vec<_>>();
        let wanted = ["/usr/bin/x.debug", "/usr/bin/.debug/x.debug", "/usr/lib/debug/usr/bin/x.debug"];
        assert_eq!(own, [&["/usr/lib/debug/.build-id/ab/120f.debug"][..], &wanted].concat());
        for link in [&b"../x.debug"[..], b"/etc/x", b"\xff"] {
            assert_eq!(of(link).len(), 1, "{link:?}");
        }
    }
}
