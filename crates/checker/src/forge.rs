//! What forges show beside a change, made of the SARIF log: commands of a GitHub workflow, which become annotations, and
//! GitLab's Code Quality report.
//!
//! ```text
//!   sarif::log --> results, notifications --> ::error file=src/a.c,line=7,title=possibly-null::handler: R1 may be null
//!                                         --> [{"check_name": "possibly-null", "location": {"path": "src/a.c", ...}}]
//! ```
//!
//! Results that a baseline knows are in the log, marked as unchanged, and are left out here.

use std::collections::BTreeSet;

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

/// The commands of a GitHub workflow, one per line.
pub fn github(log: &Value) -> String {
    let mut text = String::new();
    for note in notes(log) {
        let command = if note.level == "error" { "error" } else { "warning" };
        let mut properties = Vec::new();
        if let Some(path) = &note.path {
            properties.push(format!("file={}", property(path)));
            properties.push(format!("line={}", note.line));
        }
        if let Some(column) = note.column {
            properties.push(format!("col={column}"));
        }
        properties.push(format!("title={}", property(note.code)));
        text.push_str(&format!("::{command} {}::{}\n", properties.join(","), data(note.message)));
    }
    text
}

/// GitLab's Code Quality report: an array of issues. An issue that several objects share is there once.
pub fn gitlab(log: &Value) -> Value {
    let mut seen = BTreeSet::new();
    let mut issues = Vec::new();
    for note in notes(log) {
        let path = note.path.clone().unwrap_or_else(|| ".".to_owned());
        let fingerprint = crate::sarif::hash(&[note.fingerprint, &path]);
        if !seen.insert(fingerprint.clone()) {
            continue;
        }
        issues.push(json!({
            "description": note.message,
            "check_name": note.code,
            "fingerprint": fingerprint,
            "severity": if note.level == "error" { "major" } else { "minor" },
            "location": { "path": path, "lines": { "begin": note.line } },
        }));
    }
    issues.into()
}

/// What stands beside one line.
struct Note<'a> {
    level: &'a str,
    code: &'a str,
    message: &'a str,
    /// What tells it from others in the same file.
    fingerprint: &'a str,
    /// Relative to the current folder where it is below it.
    path: Option<String>,
    line: u64,
    column: Option<u64>,
}

/// The code of what Kiln could not check, which is no reason of a rejection.
const NOT_CHECKED: &str = "not-checked";

/// The results of a log, then its notifications.
fn notes(log: &Value) -> Vec<Note<'_>> {
    let run = &log["runs"][0];
    let results = elements(&run["results"]).filter(|result| result["baselineState"] != "unchanged");
    let notifications = elements(&run["invocations"][0]["toolExecutionNotifications"]);
    results.chain(notifications).map(note).collect()
}

fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn note(result: &Value) -> Note<'_> {
    let place = &result["locations"][0]["physicalLocation"];
    let message = result["message"]["text"].as_str().unwrap_or_default();
    Note {
        level: result["level"].as_str().unwrap_or("error"),
        code: result["ruleId"].as_str().unwrap_or(NOT_CHECKED),
        message,
        fingerprint: result["partialFingerprints"]["kilnRejection/v1"].as_str().unwrap_or(message),
        path: place["artifactLocation"]["uri"].as_str().map(path_of),
        line: place["region"]["startLine"].as_u64().unwrap_or(1),
        column: place["region"]["startColumn"].as_u64(),
    }
}

/// The path that a URI of the log stands for.
fn path_of(uri: &str) -> String {
    percent_decode_str(uri.strip_prefix("file://").unwrap_or(uri)).decode_utf8_lossy().into_owned()
}

/// The text of a command, in which line breaks would end it.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of a command, which commas and colons would end.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Value {
        let at = |uri: &str, line: u32| json!([{ "physicalLocation": { "artifactLocation": { "uri": uri }, "region": { "startLine": line } } }]);
        let known = json!({ "level": "error", "ruleId": "old", "baselineState": "unchanged",
            "message": { "text": "known" }, "locations": at("src/a.c", 1) });
        let new = json!({ "level": "error", "ruleId": "possibly-null", "baselineState": "new",
            "message": { "text": "50 %\n::error::b" }, "locations": at("src/a%2C%20b.c", 7),
            "partialFingerprints": { "kilnRejection/v1": "1" } });
        let failed = json!({ "level": "error", "message": { "text": "no file" } });
        json!({ "runs": [{
            "results": [known, new.clone(), new],
            "invocations": [{ "toolExecutionNotifications": [failed] }],
        }] })
    }

    #[test]
    fn a_message_cannot_be_a_command_of_its_own() {
        let expected = "::error file=src/a%2C b.c,line=7,title=possibly-null::50 %25%0A::error::b\n";
        let text = github(&log());
        assert_eq!(text, format!("{expected}{expected}::error title=not-checked::no file\n"));
    }

    #[test]
    fn an_issue_is_there_once_and_known_ones_are_not() {
        let report = gitlab(&log());
        let issues = report.as_array().expect("a list");
        let names: Vec<&str> = issues.iter().filter_map(|issue| issue["check_name"].as_str()).collect();
        assert_eq!(names, ["possibly-null", NOT_CHECKED]);
        assert_eq!(issues[0]["location"], json!({ "path": "src/a, b.c", "lines": { "begin": 7 } }));
        assert_ne!(issues[0]["fingerprint"], issues[1]["fingerprint"]);
    }
}
