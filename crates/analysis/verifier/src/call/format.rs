//! The format of `bpf_snprintf`, which the kernel reads when it verifies the call (`check_bpf_snprintf_call`).
//!
//! ```text
//!   "%s: %5d\n"    two values of 8 bytes each
//! ```

use kiln_isa::Reg;
use kiln_program::MapContents;

use crate::error::{Step, refuse};
use crate::path::Path;
use crate::reason::Reason;
use crate::rejection::Case;

/// Bytes of a value.
const VALUE_BYTES: u64 = 8;

impl Path<'_> {
    /// The format fits the values that are passed. The arguments themselves were checked before.
    pub(crate) fn check_format(&self) -> Step<()> {
        // The kernel takes the known bits of a size that is not constant, too.
        let bytes = self.state.register(Reg::R5).scalar.tnum.value;
        if !bytes.is_multiple_of(VALUE_BYTES) {
            let message = format!("argument 5 of snprintf: {bytes} bytes, and a value has {VALUE_BYTES}");
            return refuse(Reason::ArgumentSize, Case::Format, message);
        }
        let format = self.state.register(Reg::R3);
        let text = match (self.code.map_of(format).map(|map| &map.contents), format.fixed_offset()) {
            (Some(MapContents::ReadOnly(data)), Some(offset)) => {
                data.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default()
            }
            _ => return Ok(()),
        };
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        match faults(text, bytes / VALUE_BYTES) {
            None => Ok(()),
            Some(what) => refuse(Reason::ArgumentType, Case::Format, format!("argument 3 of snprintf: {what}")),
        }
    }
}

/// What is wrong with a format for this number of values.
fn faults(text: &[u8], values: u64) -> Option<String> {
    let (mut rest, mut conversions) = (text, 0);
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            if first.is_ascii() && !is_printed(*first) {
                return Some(format!("the format has the control character {first:#04x}"));
            }
            continue;
        }
        if let [b'%', after @ ..] = rest {
            rest = after;
            continue;
        }
        conversions += 1;
        if conversions > values {
            return Some(format!("the format has more conversions than values are passed ({values})"));
        }
        let Some(length) = conversion(rest) else {
            let shown: String =
                rest.iter().take(4).map(|byte| char::from(*byte).escape_default().to_string()).collect();
            return Some(format!("the kernel has no conversion `%{shown}`"));
        };
        rest = &rest[length..];
    }
    None
}

/// Bytes of a conversion behind its `%`, if the kernel knows it.
fn conversion(text: &[u8]) -> Option<usize> {
    let flags = text.iter().take_while(|byte| b"0+- ".contains(byte)).count();
    // What begins with another digit than 0 is a width.
    let width = text[flags..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let start = flags + width;
    let rest = &text[start..];
    // Behind a text or a plain pointer no word goes on.
    let ends = |at: usize| rest.get(at).is_none_or(|byte| is_space(*byte) || byte.is_ascii_punctuation());
    let length = match rest {
        [b'p', b'k' | b'u', b's', ..] => ends(3).then_some(3)?,
        [b'p', ..] if ends(1) => 1,
        [b'p', b'K' | b'x' | b's' | b'S' | b'B', ..] => 2,
        [b'p', b'i' | b'I', b'4' | b'6', ..] => 3,
        [b'p', ..] => return None,
        [b's', ..] => ends(1).then_some(1)?,
        [b'c', ..] => 1,
        _ => {
            let long = rest.iter().take(2).take_while(|byte| **byte == b'l').count();
            matches!(rest.get(long)?, b'i' | b'd' | b'u' | b'x' | b'X').then_some(long + 1)?
        }
    };
    Some(start + length)
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn is_printed(byte: u8) -> bool {
    byte.is_ascii_graphic() || is_space(byte)
}

#[cfg(test)]
mod tests {
    use super::faults;

    /// What Linux 6.18 said of each, with two values.
    #[test]
    fn formats_are_those_of_the_kernel() {
        let accepted = [
            "%d",
            "%d %d",
            "%s",
            "%5d",
            "%-05d",
            "%lld",
            "%p",
            "%pK",
            "%pi4",
            "%pI6",
            "%pB",
            "%pks",
            "%ps%d",
            "%p%d",
            "%p,",
            "%px",
            "%s,",
            "%s%d",
            "%c",
            "%cx",
            "%%",
            "%lx",
            "%lX",
            "%i %u",
            "\t\n",
            "ä",
            "% +d",
            "",
            "%+-0 12llu",
            "%p\n",
            "%pS",
            "%psx",
        ];
        let rejected =
            ["%d %d %d", "%llld", "%pi5", "%pkx", "%p%", "%sx", "%", "%l", "%z", "\u{1}", "%ä", "%10", "%hd", "%pISc"];
        for (formats, valid) in [(&accepted[..], true), (&rejected[..], false)] {
            for format in formats {
                assert_eq!(faults(format.as_bytes(), 2).is_none(), valid, "{format:?}");
            }
        }
    }
}
