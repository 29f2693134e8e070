//! Blocks: commands that were written at once, after a comment with their checksum. Redis leaves comments out.
//!
//! ```text
//!   #KILN:D 000000000000002a 0000001f 8d2c1f00 5b3e7a11\r\n      kind, number, bytes, CRC of the bytes, CRC of this line
//!   *3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n
//! ```
//!
//! The line has a checksum of its own, so that a block that is not complete is told from one whose size is damaged. Blocks are numbered,
//! so that a missing one is noticed. A block of kind `E` has no bytes and ends a base.

/// What a block begins with.
pub const PREFIX: &[u8] = b"#KILN:";

/// What a block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Commands.
    Data,
    /// The end of a base.
    End,
}

/// A block's line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// Its number.
    pub number: u64,
    /// Its bytes, without the line.
    pub bytes: u32,
    /// Their CRC.
    pub crc: u32,
}

impl Header {
    /// The line of a block.
    pub fn of(kind: Kind, number: u64, data: &[u8]) -> Header {
        Header { kind, number, bytes: data.len() as u32, crc: crc32fast::hash(data) }
    }

    /// The line's text.
    pub fn line(&self) -> Vec<u8> {
        let kind = if self.kind == Kind::Data { 'D' } else { 'E' };
        let covered = format!("#KILN:{kind} {:016x} {:08x} {:08x}", self.number, self.bytes, self.crc);
        format!("{covered} {:08x}\r\n", crc32fast::hash(covered.as_bytes())).into_bytes()
    }

    /// Reads a line; `None` if it is damaged.
    pub fn read(line: &[u8]) -> Option<Header> {
        let text = std::str::from_utf8(line).ok()?;
        let kind = match text.get(6..7)? {
            "D" => Kind::Data,
            "E" => Kind::End,
            _ => return None,
        };
        let hex = |from: usize, to: usize| u64::from_str_radix(text.get(from..to)?, 16).ok();
        let header = Header { kind, number: hex(8, 24)?, bytes: hex(25, 33)? as u32, crc: hex(34, 42)? as u32 };
        // The text is the one that is written, so nothing in it is overlooked.
        (header.line() == line).then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_changed_byte_of_a_line_is_noticed() {
        let header = Header::of(Kind::Data, 42, b"*1\r\n$4\r\nPING\r\n");
        let line = header.line();
        assert_eq!((line.len(), Header::read(&line)), (53, Some(header)));
        for at in 0..line.len() {
            for bit in 0..8 {
                let mut other = line.clone();
                other[at] ^= 1 << bit;
                assert_eq!(Header::read(&other), None, "byte {at}, bit {bit}");
            }
        }
        assert_eq!(Header::read(&line[..40]), None);
    }
}
