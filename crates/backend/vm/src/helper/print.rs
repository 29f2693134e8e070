//! Formatted text: `bpf_trace_printk`, `bpf_trace_vprintk`, `bpf_snprintf`.
//!
//! The kernel knows a few conversions only (`%d %i %u %x %X` with `l` or `ll`, `%c`, `%s`, `%p` and its kinds of
//! address, a width and the flags `0 + - space`), and refuses the rest with `EINVAL`, as is done here.

use std::borrow::Cow;

use super::answer::{Answer, refuse, value};
use super::text::c_string;
use crate::errno::Errno;
use crate::state::State;

/// Text kept of all runs since it was last taken.
const MAX_TRACE_BYTES: usize = 1 << 20;
/// The longest text one call makes.
const MAX_TEXT_BYTES: usize = 1023;
/// Arguments of the variadic forms at most.
const MAX_ARGUMENTS: u64 = 12;
/// The longest string an argument gives.
const MAX_STRING_BYTES: usize = 512;

/// One conversion of a format.
#[derive(Clone, Copy, Default)]
struct Conversion {
    zero: bool,
    plus: bool,
    minus: bool,
    space: bool,
    width: usize,
    long: bool,
    kind: u8,
    /// For `%p`: what follows it.
    address: [u8; 2],
}

struct Format<'f> {
    text: &'f [u8],
    at: usize,
}

impl Format<'_> {
    fn byte(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn ends_word(byte: u8) -> bool {
        byte == 0 || byte.is_ascii_whitespace() || byte.is_ascii_punctuation()
    }

    /// Reads the conversion after a `%`.
    fn conversion(&mut self) -> Result<Conversion, Errno> {
        let mut conversion = Conversion::default();
        loop {
            match self.byte(0) {
                b'0' => conversion.zero = true,
                b'+' => conversion.plus = true,
                b'-' => conversion.minus = true,
                b' ' => conversion.space = true,
                _ => break,
            }
            self.at += 1;
        }
        while self.byte(0).is_ascii_digit() {
            conversion.width = (conversion.width * 10 + usize::from(self.byte(0) - b'0')).min(MAX_TEXT_BYTES);
            self.at += 1;
        }
        while self.byte(0) == b'l' && !(conversion.long && self.text.get(self.at.wrapping_sub(2)) == Some(&b'l')) {
            conversion.long = true;
            self.at += 1;
        }
        conversion.kind = self.byte(0);
        self.at += 1;
        match conversion.kind {
            b'd' | b'i' | b'u' | b'x' | b'X' => Ok(conversion),
            b'c' if !conversion.long => Ok(conversion),
            b's' if !conversion.long && Format::ends_word(self.byte(0)) => Ok(conversion),
            b'p' if !conversion.long => self.address(conversion),
            _ => Err(Errno::EINVAL),
        }
    }

    fn address(&mut self, mut conversion: Conversion) -> Result<Conversion, Errno> {
        let (first, second) = (self.byte(0), self.byte(1));
        let length = match (first, second) {
            (b'k' | b'u', b's') => 2,
            (b'i' | b'I', b'4' | b'6') => 2,
            (b'K' | b'x' | b's' | b'S' | b'B', _) => 1,
            (first, _) if Format::ends_word(first) => return Ok(conversion),
            _ => return Err(Errno::EINVAL),
        };
        conversion.address = [first, if length == 2 { second } else { 0 }];
        self.at += length;
        Ok(conversion)
    }
}

/// The text that a format and arguments make.
fn format(state: &State, text: &[u8], arguments: &[u64]) -> Result<Vec<u8>, Errno> {
    let mut output = Vec::new();
    let mut format = Format { text, at: 0 };
    let mut arguments = arguments.iter();
    while format.at < text.len() {
        let byte = format.byte(0);
        format.at += 1;
        if byte.is_ascii() && !byte.is_ascii_graphic() && !matches!(byte, b' ' | b'\t'..=b'\r') {
            return Err(Errno::EINVAL);
        }
        match (byte, format.byte(0)) {
            (b'%', b'%') => {
                format.at += 1;
                output.push(b'%');
            }
            (b'%', _) => {
                let argument = *arguments.next().ok_or(Errno::EINVAL)?;
                let conversion = format.conversion()?;
                print(state, conversion, argument, &mut output);
            }
            (byte, _) => output.push(byte),
        }
    }
    output.truncate(MAX_TEXT_BYTES);
    Ok(output)
}

fn print(state: &State, conversion: Conversion, argument: u64, output: &mut Vec<u8>) {
    let (sign, digits) = match (conversion.kind, conversion.address) {
        (b'd' | b'i', _) => {
            let number = if conversion.long { argument as i64 } else { i64::from(argument as i32) };
            let sign = match (number < 0, conversion.plus, conversion.space) {
                (true, ..) => "-",
                (_, true, _) => "+",
                (.., true) => " ",
                _ => "",
            };
            (sign, number.unsigned_abs().to_string().into_bytes())
        }
        (b'u', _) => ("", unsigned(conversion, argument).to_string().into_bytes()),
        (b'x', _) => ("", format!("{:x}", unsigned(conversion, argument)).into_bytes()),
        (b'X', _) => ("", format!("{:X}", unsigned(conversion, argument)).into_bytes()),
        (b'c', _) => ("", vec![argument as u8]),
        (b's', _) | (_, [b'k' | b'u', b's']) => ("", string(state, argument)),
        (_, [b'i' | b'I', _]) => ("", internet_address(state, conversion.address, argument).into_bytes()),
        _ => ("", format!("{argument:016x}").into_bytes()),
    };
    let numeric = matches!(conversion.kind, b'd' | b'i' | b'u' | b'x' | b'X');
    let padding = conversion.width.saturating_sub(sign.len() + digits.len());
    let (spaces, zeros) = if conversion.zero && numeric && !conversion.minus { (0, padding) } else { (padding, 0) };
    let blank = |count| std::iter::repeat_n(b' ', count);
    if !conversion.minus {
        output.extend(blank(spaces));
    }
    output.extend_from_slice(sign.as_bytes());
    output.extend(std::iter::repeat_n(b'0', zeros));
    output.extend_from_slice(&digits);
    if conversion.minus {
        output.extend(blank(spaces));
    }
}

fn unsigned(conversion: Conversion, argument: u64) -> u64 {
    if conversion.long { argument } else { u64::from(argument as u32) }
}

/// The string at an address, empty where there is none.
fn string(state: &State, address: u64) -> Vec<u8> {
    c_string(state, address, MAX_STRING_BYTES).unwrap_or_default()
}

fn internet_address(state: &State, kind: [u8; 2], address: u64) -> String {
    let bytes = |count| state.bytes(address, count).map_or_else(|_| vec![0; count as usize], Cow::into_owned);
    match kind {
        [style, b'4'] => {
            let parts = bytes(4);
            let parts = parts.iter().map(|part| if style == b'i' { format!("{part:03}") } else { part.to_string() });
            parts.collect::<Vec<_>>().join(".")
        }
        [style, _] => {
            let parts = bytes(16);
            let parts = parts.chunks(2).map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]));
            parts.collect::<Vec<_>>().join(if style == b'I' { ":" } else { "" })
        }
    }
}

/// A format given with its size must end within it.
fn terminated(text: &[u8]) -> Result<&[u8], Errno> {
    text.iter().position(|byte| *byte == 0).map(|end| &text[..end]).ok_or(Errno::EINVAL)
}

fn trace(state: &mut State, text: &[u8]) {
    let room = MAX_TRACE_BYTES.saturating_sub(state.output.trace.len());
    let text = String::from_utf8_lossy(text);
    if text.len() <= room {
        state.output.trace.push_str(&text);
    }
}

fn print_to_trace(state: &mut State, text: u64, bytes: u64, arguments: &[u64]) -> Answer {
    let bytes = u64::from(bytes as u32);
    let text = terminated(&state.bytes(text, bytes)?).map(<[u8]>::to_vec);
    match text.and_then(|text| format(state, &text, arguments)) {
        Ok(text) => {
            trace(state, &text);
            value(text.len() as u64)
        }
        Err(errno) => refuse(errno),
    }
}

pub fn trace_printk(state: &mut State, [text, bytes, one, two, three]: [u64; 5]) -> Answer {
    print_to_trace(state, text, bytes, &[one, two, three])
}

/// The arguments that a program passes as an array of 64-bit words.
fn words(state: &State, address: u64, bytes: u64) -> Result<Result<Vec<u64>, Errno>, kiln_program::interpret::Fault> {
    let bytes = u64::from(bytes as u32);
    if bytes % 8 != 0 || bytes > 8 * MAX_ARGUMENTS || (bytes != 0 && address == 0) {
        return Ok(Err(Errno::EINVAL));
    }
    let bytes = state.bytes(address, bytes)?;
    let words = bytes.chunks_exact(8);
    Ok(Ok(words.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect()))
}

pub fn trace_vprintk(state: &mut State, [text, bytes, data, data_bytes, _]: [u64; 5]) -> Answer {
    match words(state, data, data_bytes)? {
        Ok(arguments) => print_to_trace(state, text, bytes, &arguments),
        Err(errno) => refuse(errno),
    }
}

/// `bpf_snprintf`: returns the length of the whole text with its NUL, however much of it fit.
pub fn snprintf(state: &mut State, [to, bytes, text, data, data_bytes]: [u64; 5]) -> Answer {
    let bytes = u64::from(bytes as u32);
    let arguments = match words(state, data, data_bytes)? {
        Ok(arguments) => arguments,
        Err(errno) => return refuse(errno),
    };
    let text = c_string(state, text, 4096)?;
    let mut text = match format(state, &text, &arguments) {
        Ok(text) => text,
        Err(errno) => return refuse(errno),
    };
    text.push(0);
    let length = text.len() as u64;
    let fits = text.len().min(bytes as usize);
    if let Some(last) = text[..fits].last_mut() {
        *last = 0;
    }
    state.write(to, &text[..fits])?;
    value(length)
}
