//! Base64 (RFC 4648) of keys that are no text.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn bits(letter: u8) -> Option<u32> {
    Some(
        match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        }
        .into(),
    )
}

/// The bytes of a text; `None` if it is no such text, or empty. Bits behind the last byte do not matter.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let (groups, rest) = text.as_chunks::<4>();
    if !rest.is_empty() || text.is_empty() {
        return None;
    }
    let mut bytes = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let padding = group.iter().rev().take_while(|letter| **letter == b'=').count();
        if padding > 2 || (padding > 0 && number + 1 < groups.len()) {
            return None;
        }
        let letters = group[..4 - padding].iter().try_fold(0, |word, letter| Some(word << 6 | bits(*letter)?))?;
        let word = letters << (6 * padding);
        bytes.extend_from_slice(&word.to_be_bytes()[1..4 - padding]);
    }
    Some(bytes)
}

/// Appends the text of bytes.
pub fn encode(bytes: &[u8], to: &mut Vec<u8>) {
    for part in bytes.chunks(3) {
        let byte = |at: usize| u32::from(part.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        let letter = |at: usize| LETTERS[(word >> (18 - 6 * at)) as usize & 63];
        let letters = part.len() + 1;
        to.extend((0..4).map(|at| if at < letters { letter(at) } else { b'=' }));
    }
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn texts_of_the_standard() {
        for (bytes, text) in [
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            let mut made = Vec::new();
            encode(bytes.as_bytes(), &mut made);
            assert_eq!(made, text.as_bytes());
            assert_eq!(decode(text.as_bytes()).as_deref(), Some(bytes.as_bytes()));
        }
        for wrong in ["", "Z", "Zg", "Zg=", "Zg==Zg==", "Z===", "====", "Zm9!"] {
            assert_eq!(decode(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
