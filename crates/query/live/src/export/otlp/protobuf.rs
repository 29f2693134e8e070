//! OTLP's documents as Protocol Buffers: their JSON, encoded by a table of the fields that Kiln writes.
//!
//! ```text
//!   {"asInt": "7"}  --field 6, eight bytes-->  31 07 00 00 00 00 00 00 00
//! ```
//!
//! The fields: <https://github.com/open-telemetry/opentelemetry-proto>. Their JSON has enumerations as numbers, and 64-bit integers
//! as text.

use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::Value as Json;

/// A field's name in JSON, its number, and how it is written.
type Field = (&'static str, u32, Kind);

/// How a field is written.
pub enum Kind {
    Text,
    /// A bool, an enumeration, or an integer whose bits are written as they are.
    Plain,
    /// An integer whose sign is its lowest bit (`sint32`).
    Zigzag,
    /// An integer of eight bytes.
    Fixed,
    Double,
    /// Many integers as one value.
    Packed,
    Message(&'static [Field]),
}

/// `ExportMetricsServiceRequest`.
pub const METRICS: &Message = &[("resourceMetrics", 1, Kind::Message(RESOURCE_METRICS))];
/// `ExportLogsServiceRequest`.
pub const LOGS: &Message = &[("resourceLogs", 1, Kind::Message(RESOURCE_LOGS))];

/// The fields of a message.
pub type Message = [Field];

const RESOURCE_METRICS: &Message =
    &[("resource", 1, Kind::Message(RESOURCE)), ("scopeMetrics", 2, Kind::Message(SCOPE_METRICS))];
const RESOURCE_LOGS: &Message =
    &[("resource", 1, Kind::Message(RESOURCE)), ("scopeLogs", 2, Kind::Message(SCOPE_LOGS))];
const RESOURCE: &Message = &[("attributes", 1, Kind::Message(KEY_VALUE))];
const SCOPE_METRICS: &Message = &[("scope", 1, Kind::Message(SCOPE)), ("metrics", 2, Kind::Message(METRIC))];
const SCOPE_LOGS: &Message = &[("scope", 1, Kind::Message(SCOPE)), ("logRecords", 2, Kind::Message(LOG_RECORD))];
const SCOPE: &Message = &[("name", 1, Kind::Text), ("version", 2, Kind::Text)];
const KEY_VALUE: &Message = &[("key", 1, Kind::Text), ("value", 2, Kind::Message(ANY_VALUE))];
const ANY_VALUE: &Message = &[
    ("stringValue", 1, Kind::Text),
    ("boolValue", 2, Kind::Plain),
    ("intValue", 3, Kind::Plain),
    ("doubleValue", 4, Kind::Double),
];
const METRIC: &Message = &[
    ("name", 1, Kind::Text),
    ("unit", 3, Kind::Text),
    ("gauge", 5, Kind::Message(&[("dataPoints", 1, Kind::Message(NUMBER))])),
    ("sum", 7, Kind::Message(SUM)),
    ("exponentialHistogram", 10, Kind::Message(EXPONENTIAL)),
];
const SUM: &Message = &[
    ("dataPoints", 1, Kind::Message(NUMBER)),
    ("aggregationTemporality", 2, Kind::Plain),
    ("isMonotonic", 3, Kind::Plain),
];
const EXPONENTIAL: &Message =
    &[("dataPoints", 1, Kind::Message(EXPONENTIAL_POINT)), ("aggregationTemporality", 2, Kind::Plain)];
const NUMBER: &Message = &[
    ("startTimeUnixNano", 2, Kind::Fixed),
    ("timeUnixNano", 3, Kind::Fixed),
    ("asDouble", 4, Kind::Double),
    ("asInt", 6, Kind::Fixed),
    ("attributes", 7, Kind::Message(KEY_VALUE)),
];
const EXPONENTIAL_POINT: &Message = &[
    ("attributes", 1, Kind::Message(KEY_VALUE)),
    ("startTimeUnixNano", 2, Kind::Fixed),
    ("timeUnixNano", 3, Kind::Fixed),
    ("count", 4, Kind::Fixed),
    ("sum", 5, Kind::Double),
    ("scale", 6, Kind::Zigzag),
    ("zeroCount", 7, Kind::Fixed),
    ("positive", 8, Kind::Message(BUCKETS)),
];
const BUCKETS: &Message = &[("offset", 1, Kind::Zigzag), ("bucketCounts", 2, Kind::Packed)];
const LOG_RECORD: &Message = &[
    ("timeUnixNano", 1, Kind::Fixed),
    ("severityNumber", 2, Kind::Plain),
    ("body", 5, Kind::Message(ANY_VALUE)),
    ("attributes", 6, Kind::Message(KEY_VALUE)),
    ("observedTimeUnixNano", 11, Kind::Fixed),
    ("eventName", 12, Kind::Text),
];

/// Encodes a message.
///
/// # Errors
/// Returns a sentence that names a field which the table does not have, or has as another kind.
pub fn encode(message: &Message, json: &Json) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let fields = json.as_object().ok_or("a message is no object")?;
    for (name, value) in fields {
        let field = message.iter().find(|field| field.0 == name);
        let (_, number, kind) = field.ok_or_else(|| format!("the field `{name}` is not known"))?;
        let written = match (kind, value) {
            (Kind::Packed, _) => write(&mut bytes, *number, kind, value),
            (_, Json::Array(all)) => all.iter().try_for_each(|one| write(&mut bytes, *number, kind, one)),
            _ => write(&mut bytes, *number, kind, value),
        };
        written.map_err(|why| why.unwrap_or_else(|| format!("the field `{name}` is not {value}")))?;
    }
    Ok(bytes)
}

/// Writes a field. The error is of a message inside; without one the value does not fit its kind.
fn write(bytes: &mut Vec<u8>, number: u32, kind: &Kind, value: &Json) -> Result<(), Option<String>> {
    match kind {
        Kind::Text => put(bytes, number, value.as_str().ok_or(None)?.as_bytes()),
        Kind::Plain => {
            encode_key(number, WireType::Varint, bytes);
            encode_varint(integer(value).ok_or(None)?, bytes);
        }
        Kind::Zigzag => {
            let value = i32::try_from(value.as_i64().ok_or(None)?).map_err(|_| None)?;
            encode_key(number, WireType::Varint, bytes);
            encode_varint(u64::from((value.wrapping_shl(1) ^ (value >> 31)).cast_unsigned()), bytes);
        }
        Kind::Fixed => {
            encode_key(number, WireType::SixtyFourBit, bytes);
            bytes.extend(integer(value).ok_or(None)?.to_le_bytes());
        }
        Kind::Double => {
            encode_key(number, WireType::SixtyFourBit, bytes);
            bytes.extend(value.as_f64().ok_or(None)?.to_le_bytes());
        }
        Kind::Packed => {
            let mut all = Vec::new();
            for one in value.as_array().ok_or(None)? {
                encode_varint(integer(one).ok_or(None)?, &mut all);
            }
            put(bytes, number, &all);
        }
        Kind::Message(fields) => put(bytes, number, &encode(fields, value).map_err(Some)?),
    }
    Ok(())
}

/// Writes a field that has a length.
fn put(bytes: &mut Vec<u8>, number: u32, value: &[u8]) {
    encode_key(number, WireType::LengthDelimited, bytes);
    encode_varint(value.len() as u64, bytes);
    bytes.extend(value);
}

/// The bits of an integer of 64 bits.
fn integer(value: &Json) -> Option<u64> {
    match value {
        Json::Bool(value) => Some((*value).into()),
        Json::String(text) => text.parse().ok().or_else(|| Some(text.parse::<i64>().ok()?.cast_unsigned())),
        value => value.as_u64().or_else(|| Some(value.as_i64()?.cast_unsigned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_has_its_bytes() {
        let of = |fields: &Message, json: Json| encode(fields, &json).expect("it is known");
        assert_eq!(of(SCOPE, json!({"name": "a", "version": ""})), b"\x0a\x01a\x12\x00");
        assert_eq!(of(ANY_VALUE, json!({"boolValue": true})), [0x10, 1]);
        assert_eq!(of(ANY_VALUE, json!({"intValue": "300"})), [0x18, 0xac, 2]);
        let minus = [&[0x18][..], &[0xff; 9], &[1]].concat();
        assert_eq!(of(ANY_VALUE, json!({"intValue": "-1"})), minus);
        assert_eq!(of(ANY_VALUE, json!({"doubleValue": 1.0})), [0x21, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
        assert_eq!(of(NUMBER, json!({"asInt": "-2"})), [0x31, 0xfe, 255, 255, 255, 255, 255, 255, 255]);
        for (value, byte) in [(0, 0), (-1, 1), (1, 2), (-64, 127)] {
            assert_eq!(of(BUCKETS, json!({"offset": value})), [8, byte], "{value}");
        }
        assert_eq!(of(BUCKETS, json!({"bucketCounts": ["1", "128"]})), [0x12, 3, 1, 0x80, 1]);
        assert_eq!(of(BUCKETS, json!({"bucketCounts": []})), [0x12, 0]);
        let two = json!({"attributes": [{"key": "a"}, {"key": "b"}]});
        assert_eq!(of(RESOURCE, two), b"\x0a\x03\x0a\x01a\x0a\x03\x0a\x01b");
    }

    #[test]
    fn what_the_table_does_not_have_is_an_error() {
        for (json, wanted) in [
            (json!({"scop": 1}), "`scop` is not known"),
            (json!({"resource": {"attributes": [{"key": 7}]}}), "`key` is not 7"),
            (json!({"resource": 1}), "no object"),
        ] {
            let error = encode(RESOURCE_LOGS, &json).expect_err("it is refused");
            assert!(error.contains(wanted), "{error}");
        }
    }
}
