//! What clients are told of the server, and what they may set.

use std::time::Duration;

use super::fault::Fault;

/// What clients are told of the server. The version is the oldest whose catalogs psql still reads in a few tables.
pub const SETTINGS: &[(&str, &str)] = &[
    ("server_version", "9.4.0"),
    ("server_version_num", "90400"),
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
    ("integer_datetimes", "on"),
    ("standard_conforming_strings", "on"),
    ("is_superuser", "off"),
    ("session_authorization", "kiln"),
    ("transaction_isolation", "read committed"),
    ("transaction_read_only", "on"),
    ("default_transaction_read_only", "on"),
    ("search_path", "public"),
    ("max_identifier_length", "63"),
    ("statement_timeout", "0"),
    ("application_name", ""),
    ("extra_float_digits", "1"),
];

/// How long queries run.
pub const DURATION: &str = "kiln.duration";

/// A time such as `5s` or `500 ms`; `None` for 0, which is no end.
///
/// # Errors
/// Returns one for what is no time.
pub fn duration(text: &str) -> Result<Option<Duration>, Fault> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()));
    let unit_ns = if number == "0" { Some(0) } else { kiln_plan::value::unit_ns(unit.trim()) };
    let nanoseconds = unit_ns.and_then(|unit| number.parse::<u64>().ok()?.checked_mul(unit));
    let wrong = || Fault::new("22023", format!("`{text}` is no time")).hint("SET kiln.duration = '5s'");
    Ok(Some(nanoseconds.ok_or_else(wrong)?).filter(|time| *time > 0).map(Duration::from_nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("5s").ok(), Some(Some(Duration::from_secs(5))));
        assert_eq!(duration(" 250 ms ").ok(), Some(Some(Duration::from_millis(250))));
        assert_eq!(duration("0").ok(), Some(None));
        for wrong in ["", "5", "s", "-1s", "1 parsec", "99999999999999999999s", "999999999999999h"] {
            assert_eq!(duration(wrong).map_err(|fault| fault.code), Err("22023"), "{wrong}");
        }
    }
}
