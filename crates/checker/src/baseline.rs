//! `kiln check --baseline FILE`: what was found before and is known, so that only what is new fails.
//!
//! The file is a document of `kiln check --format json`, as it was made when the project began to use Kiln. A problem is
//! known if the document has one of the same object, program, kernel and code: not of the same line, which moves.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::reports::{Report, worst};
use kiln_inspect::{Shown, file};
use kiln_program::Error;

/// Bytes of a document at most.
const MAX_BYTES: u64 = 256 << 20;

/// A problem: what stays the same of it while sources change, and the exit code that stands for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    /// Object, program, kernel and code.
    what: [String; 4],
    exit_code: u8,
}

/// The problems that are known.
#[derive(Clone, Debug, Default)]
pub struct Baseline(BTreeSet<Problem>);

impl Baseline {
    /// Reads a document of `kiln check --format json`.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] if it cannot be read or is none.
    pub fn read(path: &Path) -> Result<Baseline, Error> {
        let invalid = |why: String| {
            let advice = "a baseline is what kiln check --format json printed";
            Error::InvalidInput(format!("{}: {why}; {advice}", path.display()))
        };
        let document: Value =
            serde_json::from_slice(&file::read(path, MAX_BYTES)?).map_err(|error| invalid(error.to_string()))?;
        let objects = document["objects"].as_array().ok_or_else(|| invalid("it has no objects".to_owned()))?;
        Ok(Baseline(objects.iter().flat_map(problems).collect()))
    }

    /// What is new in an object's report, and what is known.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] if the report cannot be written as JSON.
    pub fn judge(&self, report: &Report) -> Result<Judged, Error> {
        let value = serde_json::to_value(report).map_err(|error| Error::InvalidInput(error.to_string()))?;
        Ok(self.judge_value(&value))
    }

    fn judge_value(&self, report: &Value) -> Judged {
        let (known, new): (Vec<Problem>, Vec<Problem>) =
            problems(report).into_iter().partition(|problem| self.0.contains(problem));
        let program = |problem: &Problem| problem.what[1].clone();
        let unsettled: BTreeSet<String> = new.iter().map(program).collect();
        Judged {
            exit_code: worst(new.iter().map(|problem| problem.exit_code)),
            known: known.len(),
            programs: known.iter().map(program).filter(|name| !unsettled.contains(name)).collect(),
        }
    }
}

/// An object's report beside the baseline.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// The exit code for what is new.
    pub exit_code: u8,
    /// The number of problems that are known.
    pub known: usize,
    /// The programs that have problems, all of them known.
    programs: BTreeSet<String>,
}

impl Judged {
    /// Whether a program has problems, all of them known.
    pub fn knows(&self, program: &Shown) -> bool {
        self.programs.contains(&program.to_string())
    }
}

/// The problems of one object of a document.
fn problems(object: &Value) -> Vec<Problem> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = text(&object["object"]);
    let problem = |program: &Value, kernel: &Value, code: &str, exit_code: u8| Problem {
        what: [name.clone(), text(program), text(kernel), code.to_owned()],
        exit_code,
    };
    let mut found = Vec::new();
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for row in array(&object["programs"]) {
        let verdicts = match row["verdicts"].as_array() {
            Some(verdicts) => array(&object["kernels"]).into_iter().zip(verdicts.clone()).collect(),
            None => vec![(Value::Null, row["verdict"].clone())],
        };
        for (kernel, verdict) in verdicts {
            let said = verdict["verdict"].as_str().unwrap_or_default();
            let exit_code = match said {
                "rejected" => 1,
                "invalid" => 2,
                "unsupported" => 3,
                _ => 0,
            };
            if exit_code > 0 {
                found.push(problem(&row["program"], &kernel, verdict["code"].as_str().unwrap_or(said), exit_code));
            }
            // A bug of the kernel's that is known is no disagreement.
            let other = row["kernel"]["verdict"].as_str().filter(|_| verdict["kernel_accepts"] != true);
            let other = other.unwrap_or(said);
            if other != said && [said, other].iter().all(|said| ["accepted", "rejected"].contains(said)) {
                found.push(problem(&row["program"], &kernel, "disagrees with the kernel", 1));
            }
        }
    }
    for finding in array(&object["findings"]) {
        if finding["denied"] == true {
            found.push(problem(&finding["program"], &Value::Null, &text(&finding["rule"]), 1));
        }
    }
    if let Some(code) = object["error"]["exit_code"].as_u64() {
        found.push(problem(&Value::Null, &Value::Null, &text(&object["error"]["kind"]), code as u8));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(name: &str, programs: Value) -> Value {
        json!({ "object": name, "programs": programs })
    }

    #[test]
    fn what_is_new_is_not_known() {
        let rejected =
            |code: &str, line: u32| json!({ "verdict": "rejected", "code": code, "place": { "line": line } });
        let program = |name: &str, verdict: Value| json!({ "program": name, "verdict": verdict });
        let before = object("a.o", json!([program("x", rejected("possibly-null", 3))]));
        let baseline = Baseline(problems(&before).into_iter().collect());
        let moved = object("a.o", json!([program("x", rejected("possibly-null", 9))]));
        assert!(baseline.judge_value(&moved).knows(&"x".into()));
        for new in [
            object("a.o", json!([program("x", rejected("packet-out-of-bounds", 3))])),
            object("a.o", json!([program("y", rejected("possibly-null", 3))])),
            object("b.o", json!([program("x", rejected("possibly-null", 3))])),
        ] {
            let judged = baseline.judge_value(&new);
            assert!(!judged.knows(&new["programs"][0]["program"].as_str().expect("a name").into()), "{new}");
        }
        let accepted = json!({ "verdict": "accepted" });
        assert!(problems(&object("a.o", json!([program("x", accepted.clone())]))).is_empty());
        let matrix = json!({ "object": "a.o", "kernels": ["5.15", "6.1"],
            "programs": [{ "program": "x", "verdicts": [rejected("too-complex", 1), accepted] }] });
        let [one] = &problems(&matrix)[..] else { panic!("one problem") };
        assert_eq!(one.what, ["a.o", "x", "5.15", "too-complex"].map(str::to_owned));
        let both = json!({ "program": "x", "verdict": { "verdict": "accepted" }, "kernel": { "verdict": "rejected" } });
        assert_eq!(problems(&object("a.o", json!([both])))[0].exit_code, 1);
        // What the kernel accepts by a known bug is rejected, and no disagreement.
        let [known, unknown] = [true, false].map(|accepts| {
            let verdict = json!({ "verdict": "rejected", "code": "possibly-null", "kernel_accepts": accepts });
            json!([{ "program": "x", "verdict": verdict, "kernel": { "verdict": "accepted" } }])
        });
        assert_eq!(problems(&object("a.o", known)).len(), 1);
        assert_eq!(problems(&object("a.o", unknown)).len(), 2);
        let failed = json!({ "object": "a.o", "error": { "kind": "invalid-input", "exit_code": 2 } });
        assert_eq!(problems(&failed)[0].exit_code, 2);
    }
}
