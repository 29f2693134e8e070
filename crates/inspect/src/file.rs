//! Input files: whole and of a size that can be read, or a clear error.
//!
//! ```text
//!   1 GiB, /dev/zero, an endless pipe --> as many bytes as are allowed, and one more --> refused
//! ```
//!
//! The size in a file's metadata can only cause a refusal, never a shorter read: special files say 0, and a file may
//! grow while it is read.

use std::io::Read;
use std::path::Path;

use kiln_program::Error;

/// The bytes of a file, or of standard input for `-`.
///
/// # Errors
/// [`Error::InvalidInput`] when it cannot be read, is a folder, or has more than `max_bytes`.
pub fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>, Error> {
    if path.is_dir() {
        return Err(Error::InvalidInput(format!("{} is a folder, not a file", path.display())));
    }
    let large = |bytes: u64| {
        let name = path.display();
        Error::InvalidInput(format!(
            "{name}: {bytes} bytes are more than the {max_bytes} that Kiln reads of such a file"
        ))
    };
    if let Some(data) = std::fs::metadata(path).ok().filter(|data| data.len() > max_bytes) {
        return Err(large(data.len()));
    }
    let mut bytes = Vec::new();
    let mut take = |from: &mut dyn Read| from.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes);
    let taken = if path == Path::new("-") {
        take(&mut std::io::stdin().lock())
    } else {
        std::fs::File::open(path).and_then(|mut file| take(&mut file))
    };
    match taken.map_err(|error| Error::file(path, &error))? as u64 {
        bytes if bytes > max_bytes => Err(large(bytes)),
        _ => Ok(bytes),
    }
}

/// Refuses what is no regular file: a reader would wait for a pipe's writer, and `/dev/zero` has no end.
///
/// # Errors
/// [`Error::InvalidInput`], also when there is no such file.
pub fn check_regular(path: &Path) -> Result<(), Error> {
    match path.is_file() {
        true => Ok(()),
        false => Err(Error::InvalidInput(format!("{} is not a regular file", path.display()))),
    }
}

/// Reads a file as text.
///
/// # Errors
/// As [`read`], and when it is no UTF-8.
pub fn text(path: &Path, max_bytes: u64) -> Result<String, Error> {
    let invalid = |_| Error::InvalidInput(format!("{}: not text", path.display()));
    String::from_utf8(read(path, max_bytes)?).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_refused_not_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [0xff; 8]).unwrap();
        assert_eq!(read(&path, 8).unwrap(), [0xff; 8]);
        assert!(read(&path, 7).unwrap_err().to_string().contains("8 bytes are more than the 7 "));
        assert!(text(&path, 8).unwrap_err().to_string().contains("not text"));
        assert!(
            read(Path::new("/dev/zero"), 100).unwrap_err().to_string().contains("101 bytes are more than the 100 ")
        );
        assert!(read(folder.path(), 100).unwrap_err().to_string().contains("is a folder"));
        assert!(read(&folder.path().join("none"), 100).unwrap_err().to_string().contains("none: "));
    }
}
