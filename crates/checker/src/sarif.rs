//! SARIF 2.1.0, for code review: rejections as annotations on source lines, each with its story as a code flow.
//!
//! ```text
//!   run.tool.driver.rules      one for each reason and each rule of the lint, with its meaning and its fix
//!   run.results                one for each rejected program: location, code flow, fingerprint, fixes that were checked;
//!                              one for each warning
//!   run.artifacts              one for each object: its programs, with their slots and processed instructions
//!   run.invocations            programs and objects that Kiln cannot judge, as notifications
//! ```
//!
//! There is one log for all objects of a command, and one even if the command fails: then `executionSuccessful` is false.
//!
//! Lines are those of the object's BTF. A file below the current folder is named relative to it (`%SRCROOT%`), as code
//! review services expect; any other by a `file:` URI.

use std::path::{Component, Path};

use kiln_program::clean;
use kiln_verifier::Reason;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::baseline::{Baseline, Judged};
use crate::reports::{self, Report};
use crate::sources::{Fix, Replacement};
use kiln_inspect::check::{Checked, Verdict};
use kiln_inspect::lint::{Finding, RULES, Rule};
use kiln_inspect::show::diagnostic::Diagnosis;
use kiln_inspect::show::place::Place;
use kiln_inspect::show::shown::Shown;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
/// Where the kernel's documentation explains what its verifier checks.
const HELP: &str = "https://docs.kernel.org/bpf/verifier.html";
/// The URI base for files below the current folder.
const ROOT: &str = "%SRCROOT%";

/// The log of one `kiln check`. `root` is the current folder. With a baseline, each result says whether it is new.
pub fn log(root: &Path, objects: &[Report], baseline: Option<&Baseline>) -> Value {
    let mut found = Vec::new();
    let mut notifications = Vec::new();
    let mut artifacts = Vec::new();
    for report in objects {
        let files = Files { object: Path::new(report.object.exact()), root };
        let own = files.location(report.object.exact());
        let verdicts = report.verdicts();
        let judged = baseline.and_then(|baseline| baseline.judge(report).ok());
        let state = |result: Value, program: &Shown| stated(result, judged.as_ref(), program);
        found.extend(
            verdicts
                .iter()
                .filter_map(|checked| Some(state(result(&files, checked, &report.fixes)?, &checked.program))),
        );
        let none = Shown::from("");
        let findings = report.findings.iter().flatten();
        found
            .extend(findings.map(|finding| state(warning(&files, finding), finding.program.as_ref().unwrap_or(&none))));
        notifications.extend(verdicts.iter().filter_map(notification));
        if let reports::Result::Failed { error } = &report.result {
            notifications.push(failure(error.message.exact(), Some(&own)));
        }
        let programs: Vec<Value> = verdicts.iter().map(counts).collect();
        artifacts.push(json!({"location": own, "roles": ["analysisTarget"], "properties": {"programs": programs}}));
    }
    let successful = !objects.iter().any(|report| matches!(report.result, reports::Result::Failed { .. }));
    let exit_code = reports::worst(objects.iter().map(Report::exit_code));
    document(root, successful, exit_code, &notifications, &artifacts, &found)
}

/// The result, with what the baseline says of its program.
fn stated(mut result: Value, judged: Option<&Judged>, program: &Shown) -> Value {
    if let Some(judged) = judged {
        result["baselineState"] = if judged.knows(program) { "unchanged" } else { "new" }.into();
    }
    result
}

/// The log of a command that failed as a whole.
pub fn failed(root: &Path, message: &str, exit_code: u8) -> Value {
    document(root, false, exit_code, &[failure(message, None)], &[], &[])
}

fn document(
    root: &Path,
    successful: bool,
    exit_code: u8,
    notifications: &[Value],
    artifacts: &[Value],
    results: &[Value],
) -> Value {
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "kiln",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": Reason::ALL.iter().map(|reason| rule(*reason)).chain(RULES.iter().map(lint_rule)).collect::<Vec<_>>(),
            }},
            "invocations": [{
                "executionSuccessful": successful,
                "exitCode": exit_code,
                "toolExecutionNotifications": notifications,
            }],
            "originalUriBaseIds": {ROOT: {"uri": format!("{}/", file_uri(root))}},
            "artifacts": artifacts,
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

/// A notification of what failed.
fn failure(text: &str, object: Option<&Value>) -> Value {
    let mut notification = json!({"level": "error", "message": message(text)});
    if let Some(object) = object {
        notification["locations"] = json!([{"physicalLocation": {"artifactLocation": object}}]);
    }
    notification
}

fn rule(reason: Reason) -> Value {
    let meaning = reason.meaning().trim();
    json!({
        "id": reason.code(),
        "helpUri": HELP,
        "shortDescription": {"text": meaning},
        "fullDescription": {"text": meaning},
        "help": {
            "text": format!("{meaning} Usually: {}.", reason.fix()),
            "markdown": format!("{meaning}\n\nUsually: {}.\n\n`kiln explain {}` has an example.", reason.fix(), reason.code()),
        },
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["bpf", "verifier"], "problem.severity": "error"},
    })
}

fn lint_rule(rule: &Rule) -> Value {
    json!({
        "id": rule.name,
        "helpUri": rule.about,
        "shortDescription": {"text": rule.sentence},
        "fullDescription": {"text": format!("{} {}", rule.sentence, rule.why)},
        "help": {
            "text": format!("{} Usually: {}.", rule.why, rule.fix),
            "markdown": format!("{}\n\nUsually: {}.\n\n`kiln explain {}` has an example.", rule.why, rule.fix, rule.name),
        },
        "defaultConfiguration": {"level": "warning"},
        "properties": {"tags": ["bpf", "lint"], "problem.severity": "warning"},
    })
}

fn warning(files: &Files<'_>, finding: &Finding) -> Value {
    let index = RULES.iter().position(|rule| rule.name == finding.rule).map(|at| Reason::ALL.len() + at);
    let program = finding.program.as_ref().map_or(String::new(), |program| format!("{program}: "));
    let location = match &finding.place {
        Some(place) => files.place(place, None),
        None => json!({
            "physicalLocation": {
                "artifactLocation": files.location(&files.object.to_string_lossy()), "region": {"startLine": 1},
            },
        }),
    };
    let (function, line) = finding.place.as_ref().map_or(("", finding.message.exact()), |place| {
        (place.function.exact(), place.source.as_ref().unwrap_or(&place.listing).exact())
    });
    let whose = finding.program.as_ref().map_or("", Shown::exact);
    json!({
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": if finding.denied { "error" } else { "warning" },
        "kind": "fail",
        "message": message(&format!("{program}{}. Help: {}", finding.message, finding.help)),
        "locations": [location],
        "partialFingerprints": {"kilnRejection/v1": hash(&[finding.rule, whose, function, line])},
    })
}

fn result(files: &Files<'_>, checked: &Checked, fixes: &[Fix]) -> Option<Value> {
    let Verdict::Rejected { code, diagnosis, .. } = &checked.verdict else { return None };
    let index = Reason::ALL.iter().position(|reason| reason.code() == code);
    let mut text = format!("{}: {}", checked.program, diagnosis.message);
    if let Some(kernel) = &diagnosis.kernel_message {
        text.push_str(&format!(" (the kernel: {kernel})"));
    }
    text.push_str(&format!(". Help: {}", diagnosis.help));
    let mut result = json!({
        "ruleId": code,
        "ruleIndex": index,
        "level": "error",
        "kind": "fail",
        "message": message(&text),
        "locations": [files.place(&diagnosis.place, None)],
        "partialFingerprints": {"kilnRejection/v1": fingerprint(code, checked, diagnosis)},
        "properties": {
            "program": checked.program,
            "section": checked.section,
            "programType": checked.program_type,
            "kernelMessage": diagnosis.kernel_message,
        },
    });
    if !diagnosis.story.is_empty() {
        let steps = diagnosis.story.iter().map(|step| (&step.place, &step.text));
        let steps = steps.chain([(&diagnosis.place, &diagnosis.message)]);
        let locations: Vec<Value> = steps
            .enumerate()
            .map(|(order, (place, text))| {
                json!({"location": files.place(place, Some(text.exact())), "executionOrder": order + 1})
            })
            .collect();
        result["codeFlows"] = json!([{"threadFlows": [{"locations": locations}]}]);
    }
    let fixes: Vec<Value> =
        fixes.iter().filter(|own| own.accepted && own.program == checked.program).map(|own| fix(files, own)).collect();
    if !fixes.is_empty() {
        result["fixes"] = json!(fixes);
    }
    Some(result)
}

/// An edit of the source with which the program is accepted.
fn fix(files: &Files<'_>, own: &Fix) -> Value {
    let steps: Vec<&str> = own.steps.iter().map(Shown::exact).collect();
    let replacements: Vec<Value> = own.edits.iter().map(replacement).collect();
    json!({
        "description": message(&steps.join("; ")),
        "artifactChanges": [{"artifactLocation": files.location(own.file.exact()), "replacements": replacements}],
        "properties": {"safe": own.safe},
    })
}

/// Whole lines: the region ends where the line after them begins, and is empty where lines only come.
fn replacement(own: &Replacement) -> Value {
    let region = json!({
        "startLine": own.line, "startColumn": 1, "endLine": own.line + own.removed, "endColumn": 1,
    });
    json!({"deletedRegion": region, "insertedContent": {"text": own.inserted}})
}

/// A program's counts, which are those of the text and of JSON.
fn counts(checked: &Checked) -> Value {
    let mut counts = json!({"program": checked.program, "slots": checked.slots});
    if let Verdict::Accepted { processed_insns, stack_bytes, frame_bytes } = checked.verdict {
        counts["processedInsns"] = json!(processed_insns);
        counts["stackBytes"] = json!(stack_bytes);
        counts["frameBytes"] = json!(frame_bytes);
    }
    counts
}

fn notification(checked: &Checked) -> Option<Value> {
    if checked.disagrees() {
        let text = format!("{}: Kiln and the kernel do not agree; please report this program", checked.program);
        return Some(json!({"level": "error", "message": message(&text)}));
    }
    let (Verdict::Unsupported { reason } | Verdict::Invalid { reason }) = &checked.verdict else { return None };
    Some(json!({"level": "warning", "message": message(&format!("{}: {reason}", checked.program))}))
}

/// What stays the same while lines above move: the reason, the program, and the text of the lines of the story.
fn fingerprint(code: &str, checked: &Checked, diagnosis: &Diagnosis) -> String {
    let line = diagnosis.place.source.as_ref().unwrap_or(&diagnosis.place.listing);
    hash(&[code, checked.program.exact(), diagnosis.place.function.exact(), line.exact()])
}

/// A hash of the parts without their white space.
pub(crate) fn hash(parts: &[&str]) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in parts.join("\0").bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    format!("{hash:016x}")
}

struct Files<'a> {
    object: &'a Path,
    root: &'a Path,
}

impl Files<'_> {
    fn place(&self, place: &Place, text: Option<&str>) -> Value {
        let physical = match (&place.file, place.line) {
            (Some(file), Some(line)) => {
                let mut region = json!({"startLine": line});
                if let Some(column) = place.column {
                    region["startColumn"] = json!(column);
                }
                if let Some(source) = &place.source {
                    region["snippet"] = json!({"text": source});
                }
                json!({"artifactLocation": self.location(file.exact()), "region": region})
            }
            // Without line records there is the object, whose first line is as good as any.
            _ => json!({
                "artifactLocation": self.location(&self.object.to_string_lossy()),
                "region": {"startLine": 1, "snippet": {"text": place.listing}},
            }),
        };
        let mut location = json!({
            "physicalLocation": physical,
            "logicalLocations": [{
                "name": place.function,
                "fullyQualifiedName": format!("{}@{}", place.function, place.slot),
                "kind": "function",
            }],
        });
        if let Some(text) = text {
            location["message"] = message(text);
        }
        location
    }

    /// A file below the root by its way from there, any other by its absolute one; never by a way that leads up.
    fn location(&self, file: &str) -> Value {
        let path = parts(&self.root.join(file));
        match path.strip_prefix(parts(self.root).as_slice()) {
            Some(below) if !below.is_empty() => json!({"uri": escaped(&below.join("/")), "uriBaseId": ROOT}),
            _ => json!({"uri": file_uri(&self.root.join(file))}),
        }
    }
}

/// The names on the way to a path, a drive's first, without `.` and `..`, which cannot lead above the root of the file
/// system.
fn parts(path: &Path) -> Vec<String> {
    path.components().fold(Vec::new(), |mut parts, part| {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
            Component::Prefix(drive) => parts.push(drive.as_os_str().to_string_lossy().into_owned()),
            Component::RootDir | Component::CurDir => {}
        }
        parts
    })
}

/// A message, in which SARIF would take `[text](target)` for a link.
fn message(text: &str) -> Value {
    let text = clean(text);
    let text = if text.contains("](") { text.replace('[', "\\[").replace(']', "\\]") } else { text };
    json!({"text": text})
}

fn file_uri(path: &Path) -> String {
    format!("file:///{}", escaped(&parts(path).join("/")))
}

/// Percent-encodes what a URI's path may not have.
fn escaped(path: &str) -> String {
    const PLAIN: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'+').remove(b'@');
    utf8_percent_encode(path, PLAIN).to_string()
}
