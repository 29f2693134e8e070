//! Numbers out of text, and comparing text.

use super::answer::{Answer, done, refuse, value};
use crate::errno::Errno;
use crate::state::State;
use kiln_program::interpret::Fault;

/// The number a text begins with: its magnitude, its sign, and the bytes it took with spaces and sign.
fn parse(text: &[u8], flags: u64) -> Result<(u64, bool, usize), Errno> {
    let mut base = match flags {
        0 | 8 | 10 | 16 => flags as u32,
        _ => return Err(Errno::EINVAL),
    };
    let spaces = text.iter().take_while(|byte| is_space(**byte)).count();
    let negative = text.get(spaces) == Some(&b'-');
    let start = spaces + usize::from(negative);
    let rest = text.get(start..).filter(|rest| !rest.is_empty()).ok_or(Errno::EINVAL)?;
    // The kernel copies the number to a buffer of 64 bytes first.
    let rest = &rest[..rest.len().min(63)];
    let hexadecimal = rest.first() == Some(&b'0') && matches!(rest.get(1), Some(b'x' | b'X'));
    if base == 0 {
        base = match (rest.first(), hexadecimal && rest.get(2).is_some_and(u8::is_ascii_hexdigit)) {
            (_, true) => 16,
            (Some(b'0'), _) => 8,
            _ => 10,
        };
    }
    let prefix = if base == 16 && hexadecimal { 2 } else { 0 };
    let mut number = 0u64;
    let mut digits = 0;
    for digit in rest[prefix..].iter().map_while(|byte| char::from(*byte).to_digit(base)) {
        number =
            number.checked_mul(base.into()).and_then(|number| number.checked_add(digit.into())).ok_or(Errno::ERANGE)?;
        digits += 1;
    }
    if digits == 0 {
        return Err(Errno::EINVAL);
    }
    Ok((number, negative, start + prefix + digits))
}

/// The C locale's spaces and the no-break space of Latin-1, as the kernel has it.
fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ' | 0xa0)
}

fn store(state: &mut State, to: u64, result: Result<(u64, usize), Errno>) -> Answer {
    let number = result.as_ref().map_or(0, |(number, _)| *number);
    state.write(to, &number.to_le_bytes())?;
    match result {
        Ok((_, taken)) => value(taken as u64),
        Err(errno) => refuse(errno),
    }
}

pub fn strtol(state: &mut State, [text, bytes, flags, to, _]: [u64; 5]) -> Answer {
    let parsed = parse(&state.bytes(text, bytes)?, flags).and_then(|(number, negative, taken)| {
        let signed = if negative { number.wrapping_neg() as i64 } else { number as i64 };
        let fits = if negative { signed <= 0 } else { signed >= 0 };
        if fits { Ok((signed as u64, taken)) } else { Err(Errno::ERANGE) }
    });
    store(state, to, parsed)
}

pub fn strtoul(state: &mut State, [text, bytes, flags, to, _]: [u64; 5]) -> Answer {
    let parsed = parse(&state.bytes(text, bytes)?, flags)
        .and_then(|(number, negative, taken)| if negative { Err(Errno::EINVAL) } else { Ok((number, taken)) });
    store(state, to, parsed)
}

/// The NUL-terminated text at an address, without the NUL, at most `limit` bytes.
pub fn c_string(state: &State, address: u64, limit: usize) -> Result<Vec<u8>, Fault> {
    let mut text = Vec::new();
    while text.len() < limit {
        match state.bytes(address + text.len() as u64, 1)?.first() {
            Some(0) | None => break,
            Some(byte) => text.push(*byte),
        }
    }
    Ok(text)
}

/// `bpf_strncmp`: negative, 0 or positive.
pub fn strncmp(state: &mut State, [one, bytes, other, ..]: [u64; 5]) -> Answer {
    let other = c_string(state, other, bytes as usize)?;
    let one = state.bytes(one, bytes)?;
    let at = |text: &[u8], index: usize| text.get(index).copied().unwrap_or(0);
    for index in 0..one.len() {
        let (a, b) = (at(&one, index), at(&other, index));
        if a != b {
            return value(if a < b { -1i64 as u64 } else { 1 });
        }
        if a == 0 {
            break;
        }
    }
    done(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed_as_the_kernel_does() {
        assert_eq!(parse(b" -0x1fz", 0), Ok((0x1f, true, 6)));
        assert_eq!(parse(b"017", 0), Ok((15, false, 3)));
        assert_eq!(parse(b"0x", 0), Ok((0, false, 1)));
        assert_eq!(parse(b"19", 8), Ok((1, false, 1)));
        assert_eq!(parse(b"9", 8), Err(Errno::EINVAL));
        assert_eq!(parse(b"", 0), Err(Errno::EINVAL));
        assert_eq!(parse(b"18446744073709551616", 10), Err(Errno::ERANGE));
        assert_eq!(parse(b"1", 3), Err(Errno::EINVAL));
    }
}
