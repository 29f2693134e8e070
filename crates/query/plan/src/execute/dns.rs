//! DNS messages, read from their first bytes (RFC 1035). They come from the network, so whatever is wrong in them gives null.

use crate::value::Value;

/// A part of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The name that is asked for, without the dot at its end; `.` for the root.
    Name,
    /// What is asked for: `A`, `AAAA`, `TYPE65280`.
    Type,
    /// How the question was answered: `NOERROR`, `NXDOMAIN`.
    Code,
    /// How many records answer it.
    Answers,
}

/// Bytes of a message's header, of one label, and of a whole name.
const HEADER_BYTES: usize = 12;
const LABEL_BYTES: u8 = 63;
const NAME_BYTES: usize = 255;

/// Types of records, by number.
const TYPES: &[(u16, &str)] = &[
    (1, "A"),
    (2, "NS"),
    (5, "CNAME"),
    (6, "SOA"),
    (12, "PTR"),
    (15, "MX"),
    (16, "TXT"),
    (28, "AAAA"),
    (33, "SRV"),
    (35, "NAPTR"),
    (43, "DS"),
    (46, "RRSIG"),
    (48, "DNSKEY"),
    (64, "SVCB"),
    (65, "HTTPS"),
    (252, "AXFR"),
    (255, "ANY"),
    (257, "CAA"),
];

/// Response codes, from 0.
const CODES: [&str; 11] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH",
    "NOTZONE",
];

/// A part of the message whose first bytes a text has, one character for each.
pub fn read(part: Part, text: &Value) -> Value {
    let Value::Text(text) = text else { return Value::Null };
    let bytes: Option<Vec<u8>> = text.chars().map(|byte| u8::try_from(byte).ok()).collect();
    bytes.and_then(|bytes| of(part, &bytes)).unwrap_or(Value::Null)
}

fn of(part: Part, bytes: &[u8]) -> Option<Value> {
    let word = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let questions = word(4)?;
    Some(match part {
        Part::Answers => Value::Uint(word(6)?.into()),
        Part::Code => {
            let code = word(2)? & 0xf;
            CODES.get(usize::from(code)).map_or_else(|| Value::text(&format!("RCODE{code}")), |name| Value::text(name))
        }
        _ if questions == 0 => return None,
        Part::Name => Value::text(&name(bytes)?.0),
        Part::Type => {
            let kind = word(name(bytes)?.1)?;
            let known = TYPES.iter().find(|(number, _)| *number == kind);
            known.map_or_else(|| Value::text(&format!("TYPE{kind}")), |(_, name)| Value::text(name))
        }
    })
}

/// The name of the first question, and where it ends. Bytes that are no graphic ASCII are written as `\ddd`, as zone files have
/// them.
fn name(bytes: &[u8]) -> Option<(String, usize)> {
    let mut name = String::new();
    let mut at = HEADER_BYTES;
    loop {
        let length = *bytes.get(at)?;
        at += 1;
        if length == 0 {
            break;
        }
        // The first name has nothing before it that it could refer to.
        if length > LABEL_BYTES || at + usize::from(length) > HEADER_BYTES + NAME_BYTES {
            return None;
        }
        let label = bytes.get(at..at + usize::from(length))?;
        at += usize::from(length);
        if !name.is_empty() {
            name.push('.');
        }
        for byte in label {
            match byte {
                b'.' | b'\\' => name.extend(['\\', char::from(*byte)]),
                _ if byte.is_ascii_graphic() => name.push(char::from(byte.to_ascii_lowercase())),
                _ => name.push_str(&format!("\\{byte:03}")),
            }
        }
    }
    if name.is_empty() {
        name.push('.');
    }
    Some((name, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &[u8], kind: u16, flags: u16, answers: u16) -> Value {
        let mut bytes = vec![0x12, 0x34];
        bytes.extend(flags.to_be_bytes());
        bytes.extend([0, 1]);
        bytes.extend(answers.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(name);
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 1]);
        Value::text(&bytes.into_iter().map(char::from).collect::<String>())
    }

    #[test]
    fn parts_of_messages_are_read() {
        let all = |message: &Value| [Part::Name, Part::Type, Part::Code, Part::Answers].map(|part| read(part, message));
        let example = message(b"\x03wWw\x07example\x03org\0", 28, 0x8183, 2);
        assert_eq!(
            all(&example),
            [Value::text("www.example.org"), Value::text("AAAA"), Value::text("NXDOMAIN"), Value::Uint(2)]
        );
        let root = message(b"\0", 65280, 0x800f, 0);
        assert_eq!(all(&root), [Value::text("."), Value::text("TYPE65280"), Value::text("RCODE15"), Value::Uint(0)]);
        assert_eq!(read(Part::Name, &message(b"\x04a.\xff\n\0", 1, 0, 0)), Value::text("a\\.\\255\\010"));
    }

    #[test]
    fn what_is_no_message_is_null() {
        // A label of 64 bytes, a reference, a name without an end.
        for name in [&b"\x40aaaa\0"[..], b"\xc0\x0c", b"\x3faa"] {
            let message = message(name, 1, 0, 0);
            assert_eq!([Part::Name, Part::Type].map(|part| read(part, &message)), [Value::Null, Value::Null]);
        }
        let long: Vec<u8> = (0..9).flat_map(|_| [&[31][..], &[b'a'; 31]].concat()).chain([0]).collect();
        assert_eq!(read(Part::Name, &message(&long, 1, 0, 0)), Value::Null);
        for text in ["", "short", "not bytes: \u{1f980}"] {
            let text = Value::text(text);
            assert_eq!(
                [Part::Name, Part::Code, Part::Answers].map(|part| read(part, &text)),
                [const { Value::Null }; 3]
            );
        }
        assert_eq!(read(Part::Name, &Value::Uint(3)), Value::Null);
    }
}
