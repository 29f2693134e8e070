//! The text of an item: `key flags bytes\r\n<value>\r\n`.

use std::cell::RefCell;

use crate::digits;

/// The most bytes of memory that a thread keeps for the next text.
const KEPT_BYTES: usize = 64 << 10;

thread_local! {
    static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Makes the text of an item in memory that this thread uses again, and returns what `then` makes of it.
pub fn with<T>(key: &[u8], flags: u32, value: &[u8], then: impl FnOnce(&[u8]) -> T) -> T {
    let mut text = TEXT.take();
    text.extend_from_slice(key);
    text.push(b' ');
    digits::push(&mut text, u64::from(flags));
    text.push(b' ');
    digits::push(&mut text, value.len() as u64);
    text.extend_from_slice(b"\r\n");
    text.extend_from_slice(value);
    text.extend_from_slice(b"\r\n");
    let result = then(&text);
    text.clear();
    text.shrink_to(KEPT_BYTES);
    TEXT.replace(text);
    result
}

/// The flags in a text that begins with a key of `key_bytes` bytes.
pub fn flags(text: &[u8], key_bytes: usize) -> u32 {
    let rest = text.get(key_bytes + 1..).unwrap_or_default();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0u32, |number, digit| number.wrapping_mul(10).wrapping_add(u32::from(digit - b'0')))
}
