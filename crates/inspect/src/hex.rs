//! Bytes as hexadecimal digits.

use kiln_program::Error;

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes from hexadecimal; blanks and colons between bytes are skipped.
///
/// # Errors
/// [`Error::InvalidInput`] with the place of what is not a hexadecimal byte.
pub fn from_hex(text: &str) -> Result<Vec<u8>, Error> {
    let digits: Vec<u32> = text
        .char_indices()
        .filter(|(_, c)| !c.is_whitespace() && *c != ':')
        .map(|(at, c)| {
            c.to_digit(16).ok_or_else(|| Error::InvalidInput(format!("character {at}, {c:?}, is no hexadecimal digit")))
        })
        .collect::<Result<_, _>>()?;
    if digits.len() % 2 != 0 {
        return Err(Error::InvalidInput("the hexadecimal digits end within a byte".to_owned()));
    }
    Ok(digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
}
