//! Results of commands hold text from input as `Shown`, whose display is clean, and never as plain strings.

use std::path::Path;

/// The sources of what has results, below `crates/`.
const ROOMS: &[&str] =
    &["inspect/src", "checker/src", "driver/src", "query/live/src", "query/serve/src", "query/policy/src"];

/// Fields that hold text already laid out for a reader, or nothing from input; by file below `crates/`.
const PLAIN: &[(&str, &str)] = &[
    // Reasons of the kernel and of Kiln, as in profile.rs.
    ("driver/src/commands/doctor/calibrate.rs", "missing"),
    // Releases. Why a program does not fit, cleaned where it is said.
    ("checker/src/reports.rs", "by_kernel"),
    ("inspect/src/input.rs", "unlike"),
    // Names of frames, cleaned as they are made.
    ("inspect/src/cost.rs", "folded"),
    ("inspect/src/check.rs", "code"),
    ("inspect/src/check.rs", "explanation"),
    // What the user asked for; text already laid out.
    ("driver/src/commands/check/cache.rs", "unknown"),
    ("driver/src/commands/check/cache.rs", "text"),
    // A source as it is, and what is written into it: printed as a diff of clean lines. Titles become steps, which are clean.
    ("checker/src/sources.rs", "original"),
    ("checker/src/sources.rs", "text"),
    ("checker/src/sources.rs", "inserted"),
    // Text already laid out, as in cache.rs.
    ("checker/src/told.rs", "text"),
    ("checker/src/told.rs", "unknown"),
    // What the user asked for.
    ("checker/src/arguments.rs", "program"),
    ("checker/src/arguments.rs", "types"),
    ("checker/src/arguments.rs", "deny"),
    ("checker/src/arguments.rs", "allow"),
    ("driver/src/commands/check/fix/text.rs", "text"),
    ("driver/src/commands/check/fix/propose.rs", "title"),
    ("driver/src/commands/check/fix/propose.rs", "functions"),
    ("checker/src/reports.rs", "function"),
    ("checker/src/reports.rs", "programs"),
    ("checker/src/reports.rs", "settings"),
    ("checker/src/reports.rs", "types"),
    ("checker/src/reports.rs", "unknown"),
    ("driver/src/compare.rs", "maps"),
    // Words of compile commands, which are passed on or dropped; shown through `How`.
    ("driver/src/source.rs", "passed"),
    ("driver/src/source.rs", "command"),
    ("driver/src/source.rs", "arguments"),
    ("checker/src/target/mod.rs", "flags"),
    ("driver/src/commands/cc.rs", "arguments"),
    ("driver/src/commands/cc.rs", "clang"),
    ("driver/src/commands/doctor/machine.rs", "detail"),
    ("driver/src/commands/doctor/machine.rs", "mend"),
    ("driver/src/commands/doctor/machine.rs", "needed_for"),
    ("driver/src/commands/doctor/machine.rs", "what"),
    ("inspect/src/explain.rs", "*"),
    ("driver/src/commands/learn.rs", "text"),
    ("driver/src/commands/build.rs", "cpu"),
    ("inspect/src/ops.rs", "instructions"),
    // Names of theorems, from Kiln's own table.
    ("inspect/src/ops.rs", "proved_by"),
    ("driver/src/commands/optimize.rs", "programs"),
    // The names that were asked for; a register's own name and a line of Kiln's table of means.
    ("driver/src/commands/repair/mod.rs", "*"),
    // Instructions, registers and digits.
    ("driver/src/commands/repair/witness.rs", "*"),
    // What the user asked for.
    ("driver/src/commands/kv.rs", "*"),
    ("driver/src/profile.rs", "*"),
    ("inspect/src/kernels.rs", "loads_on"),
    // What the user asked for, and the names that are sent as they are.
    ("query/policy/src/congestion.rs", "values"),
    ("query/live/src/export/form.rs", "columns"),
    ("query/live/src/export/mod.rs", "otlp"),
    ("query/live/src/export/mod.rs", "prometheus"),
    ("query/live/src/export/form.rs", "table"),
    // On the way to `Exported`, which shows it.
    ("query/live/src/export/otlp.rs", "reason"),
    ("driver/src/commands/verify_evidence.rs", "solver"),
    // The keys are Kiln's own names of files: others are refused.
    ("driver/src/commands/verify_evidence.rs", "bound"),
    ("driver/src/commands/run/one.rs", "names"),
    // What a reader sent, which is compared and never shown; and a document, which its readers clean.
    ("query/live/src/http.rs", "*"),
    // Texts of PostgreSQL's protocol, for the client to show.
    ("query/serve/src/postgres/fault.rs", "*"),
    ("query/serve/src/postgres/text.rs", "*"),
    ("inspect/src/lint/mod.rs", "allowed"),
    ("inspect/src/lint/mod.rs", "denied"),
    ("driver/src/commands/check/flame.rs", "*"),
];

#[test]
fn results_have_no_plain_strings() {
    let mut plain = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("a folder");
    let mut paths: Vec<_> = ROOMS.iter().map(|room| root.join(room)).collect();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths.extend(std::fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
            continue;
        }
        let source = std::fs::read_to_string(&path).expect("a source file");
        let file = path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
        for line in source.lines().map(str::trim) {
            let field = line.trim_start_matches("pub ").split_once(": ").filter(|_| line.ends_with(','));
            let Some((name, kind)) = field.filter(|(_, kind)| kind.contains("String")) else { continue };
            let public = line.starts_with("pub ") || line == "reason: String," || line == "call: String,";
            if public && !PLAIN.iter().any(|(of, known)| *of == file && (*known == name || *known == "*")) {
                plain.push(format!("{file}: {name}: {kind}"));
            }
        }
    }
    assert!(plain.is_empty(), "use Shown, or add a row to PLAIN: {plain:#?}");
}
