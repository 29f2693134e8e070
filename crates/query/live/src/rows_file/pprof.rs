//! Stacks as a profile that pprof reads: `profile.proto` of github.com/google/pprof, compressed with gzip.

use std::collections::HashMap;
use std::io::Read as _;

use flate2::Compression;
use flate2::read::GzEncoder;
use prost::Message;

use super::folded::Folded;

/// A profile. Texts are numbers: their places in `string_table`, whose first is empty.
#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
}

/// What is counted, and in which unit.
#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

/// A stack from the inside out.
#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

/// A frame. Its number is its function's.
#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
}

/// The unit of a column, from its name.
fn unit(counted: &str) -> &'static str {
    match counted.rsplit('_').next() {
        Some("ns") => "nanoseconds",
        Some("us") => "microseconds",
        Some("bytes") => "bytes",
        _ => "count",
    }
}

/// The file of stacks that were counted for so many nanoseconds.
pub fn of(folded: &Folded, duration_ns: u64) -> Vec<u8> {
    let texts = ["", folded.counted(), unit(folded.counted())].map(str::to_owned);
    let mut profile = Profile {
        sample_type: vec![ValueType { r#type: 1, unit: 2 }],
        string_table: texts.to_vec(),
        duration_nanos: clamped(duration_ns),
        ..Profile::default()
    };
    let mut known: HashMap<&str, u64> = HashMap::new();
    for (stack, weight) in folded.stacks() {
        let mut frames = Vec::new();
        for name in stack.split(';') {
            let next = known.len() as u64 + 1;
            let id = *known.entry(name).or_insert(next);
            if id == next {
                profile.function.push(Function { id, name: profile.string_table.len() as i64 });
                profile.location.push(Location { id, line: vec![Line { function_id: id }] });
                profile.string_table.push(name.to_owned());
            }
            frames.push(id);
        }
        frames.reverse();
        profile.sample.push(Sample { location_id: frames, value: vec![clamped(weight)] });
    }
    let mut file = Vec::new();
    GzEncoder::new(&profile.encode_to_vec()[..], Compression::default())
        .read_to_end(&mut file)
        .expect("memory is read");
    file
}

fn clamped(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use kiln_plan::{Row, Value};

    use super::*;
    use crate::session::ColumnHead;

    #[test]
    fn stacks_are_read_back() {
        let columns = [("ustack", "text"), ("total_ns", "u64")]
            .map(|(name, data_type)| ColumnHead { name: name.into(), data_type });
        let mut folded = Folded::new(&columns);
        for (stack, weight) in [("main;read", 5), ("main", 2), ("main;read", 1)] {
            folded
                .add(&Row { window: None, values: vec![Value::text(stack), Value::Uint(weight)] })
                .expect("it is counted");
        }
        let file = of(&folded, 1_000);
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&file[..]).read_to_end(&mut bytes).expect("gzip");
        let profile = Profile::decode(&bytes[..]).expect("a profile");
        let text = |at: i64| profile.string_table[at as usize].as_str();
        assert_eq!(
            (text(profile.sample_type[0].r#type), text(profile.sample_type[0].unit)),
            ("total_ns", "nanoseconds")
        );
        let names = |sample: &Sample| -> Vec<&str> {
            let function = |id: &u64| profile.function.iter().find(|function| function.id == *id).expect("a function");
            sample.location_id.iter().map(|id| text(function(id).name)).collect()
        };
        let stacks: Vec<_> = profile.sample.iter().map(|sample| (names(sample), sample.value[0])).collect();
        assert_eq!(stacks, [(vec!["main"], 2), (vec!["read", "main"], 6)]);
        assert_eq!(profile.duration_nanos, 1_000);
    }
}
