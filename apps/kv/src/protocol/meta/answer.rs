//! Answers of meta commands: what each flag asks for, in the order in which the flags came.

use super::base64;
use super::flags::Flags;
use crate::digits;
use crate::object::Kind;
use crate::store::{self, Found, mark};

/// An item as answers tell it.
#[derive(Clone, Copy)]
pub struct Told {
    /// The value's bytes.
    pub value_bytes: usize,
    /// What the client said that the value is.
    pub flags: u32,
    /// When it ends, in milliseconds of the store's clock; 0: never.
    pub expires: u64,
    /// The version.
    pub version: u64,
    /// Bits of [`mark`].
    pub marks: u32,
}

/// An item that is bytes: other values are none of memcached's.
pub fn bytes_of(found: Option<&Found>) -> Option<&Found> {
    found.filter(|found| found.kind == Kind::String)
}

/// Seconds that are left until a time, or `None` for never. A part of one counts as one.
pub fn seconds_left(expires: u64) -> Option<u64> {
    (expires != 0).then(|| expires.saturating_sub(store::now()).div_ceil(1000))
}

/// Appends ` k<key>`, in base64 if the key is no text.
fn key(key: &[u8], is_binary: bool, output: &mut Vec<u8>) {
    output.extend_from_slice(b" k");
    if is_binary {
        base64::encode(key, output);
        output.extend_from_slice(b" b");
    } else {
        output.extend_from_slice(key);
    }
}

fn numbered(letter: u8, number: u64, output: &mut Vec<u8>) {
    output.extend_from_slice(&[b' ', letter]);
    digits::push(output, number);
}

/// Appends what flags return without an item: key and opaque token. Then the line ends.
pub fn without_item(code: &str, flags: &Flags<'_>, output: &mut Vec<u8>) {
    with_version(code, flags, None, output);
}

/// Appends what flags return of an item that was stored: key, opaque token, and the version if there is one. Then the line ends.
pub fn with_version(code: &str, flags: &Flags<'_>, version: Option<u64>, output: &mut Vec<u8>) {
    output.extend_from_slice(code.as_bytes());
    for word in flags.words {
        match (word[0], version) {
            (b'k', _) => key(&flags.key, flags.is_binary, output),
            (b'c', Some(version)) => numbered(b'c', version, output),
            (b'O', _) => {
                output.push(b' ');
                output.extend_from_slice(word);
            }
            _ => {}
        }
    }
    output.extend_from_slice(b"\r\n");
}

/// Appends what a flag returns of an item.
pub fn of_item(word: &[u8], flags: &Flags<'_>, told: &Told, output: &mut Vec<u8>) {
    match word[0] {
        b's' => numbered(b's', told.value_bytes as u64, output),
        b'f' => numbered(b'f', u64::from(told.flags), output),
        b'c' => numbered(b'c', told.version, output),
        b'h' => numbered(b'h', u64::from(told.marks & mark::FETCHED != 0), output),
        b't' => match seconds_left(told.expires) {
            Some(seconds) => numbered(b't', seconds, output),
            None => output.extend_from_slice(b" t-1"),
        },
        b'k' => key(&flags.key, told.marks & mark::BINARY != 0, output),
        b'O' => {
            output.push(b' ');
            output.extend_from_slice(word);
        }
        _ => {}
    }
}

/// Appends `VA <bytes>` or `HD`.
pub fn head(value_bytes: Option<usize>, output: &mut Vec<u8>) {
    match value_bytes {
        Some(bytes) => {
            output.extend_from_slice(b"VA ");
            digits::push(output, bytes as u64);
        }
        None => output.extend_from_slice(b"HD"),
    }
}
