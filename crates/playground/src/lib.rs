//! What the playground answers: verdicts, stories, listings with facts, complexity profiles and optimized programs, as
//! JSON.
//!
//! ```text
//!   request    {"name": "prog.o", "types": [["main", "xdp"]]}\n<the file's bytes>
//!              with "optimize": true, the answer is about the optimized object
//!              with "kernel_types": ["vmlinux.btf", 5000000], the last bytes are that kernel's BTF
//!   answer     {"kernel": "...", "programs": [{..as `kiln check --format json`.., "listing": {..}}]}
//!              {"programs": [{"program", "slots": [9, 7], "listing": {..}}], "rewrites": [{"rule", "before", ..}]}
//!              {"error": {"kind": "invalid-input", "message": "..."}}
//! ```
//!
//! A page has no kernel: verdicts follow the tables of the newest release that Kiln describes, and a kernel's types if a
//! file of them comes along. CO-RE relocations are then resolved as loading into that kernel would.
#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use kiln_inspect::check::{self, Checked};
use kiln_inspect::dump::{self, Listing};
use kiln_inspect::{Error, Input, Shown, input};
use kiln_platform::{KernelVersion, ProgramType};
use kiln_superopt::{Because, Evidence};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Bytes of a request's first line at most.
const MAX_HEAD: usize = 1 << 16;
/// Instructions that all listings of an answer may have: what a page can show.
const MAX_LISTED: usize = 60_000;
/// Time that optimizing may take: half of what the page waits.
const BUDGET: Duration = Duration::from_secs(10);

/// The first line of a request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    /// The file's name: text ends in `.bpf`.
    name: String,
    /// Program types by program name; an empty name stands for all programs whose section does not say one.
    #[serde(default)]
    types: Vec<(String, String)>,
    /// Whether the answer is the optimized object.
    #[serde(default)]
    optimize: bool,
    /// A file of kernel types: its name, and its bytes at the end of the request.
    #[serde(default)]
    kernel_types: Option<(String, usize)>,
}

/// One program's part of an answer.
#[derive(Serialize)]
struct Answered {
    #[serde(flatten)]
    checked: Checked,
    #[serde(skip_serializing_if = "Option::is_none")]
    listing: Option<Listing>,
}

/// Answers one request. Malformed requests and files are answered with an error.
pub fn answer(request: &[u8]) -> Value {
    answer_to(request)
        .unwrap_or_else(|error| json!({"error": {"kind": error.kind(), "message": Shown::from(error.to_string())}}))
}

fn answer_to(request: &[u8]) -> Result<Value, Error> {
    let invalid = |what: &str| Error::InvalidInput(format!("the request {what}"));
    let end =
        request.iter().take(MAX_HEAD).position(|byte| *byte == b'\n').ok_or_else(|| invalid("has no first line"))?;
    let (head, bytes) = (&request[..end], &request[end + 1..]);
    let head: Head = serde_json::from_slice(head).map_err(|error| invalid(&format!("is malformed: {error}")))?;
    let types = types(&head.types)?;
    let length = head.kernel_types.as_ref().map_or(0, |(_, length)| *length);
    let (bytes, btf) = bytes
        .len()
        .checked_sub(length)
        .and_then(|at| bytes.split_at_checked(at))
        .ok_or_else(|| invalid("is shorter than its kernel's types"))?;
    let mut input = input::parse(&head.name, bytes.to_vec(), &types)?;
    if input.object.programs.is_empty() && input.unreadable().next().is_none() {
        return Err(input.holds_no_programs());
    }
    let mut whose = "without a kernel's types".to_owned();
    if let Some((name, _)) = &head.kernel_types {
        let path = Path::new(name);
        input.resolve_for(path, &input::parse_types(path, btf)?)?;
        whose = format!("BTF of {name}");
    }
    if head.optimize {
        return Ok(optimized(&input));
    }
    let programs = programs(&input);
    let kernel = Shown::from(format!("Linux {}, {whose}", KernelVersion::DESCRIBED));
    Ok(json!({"object": Shown::from(input.object.name.as_str()), "kernel": kernel, "programs": programs}))
}

fn types(named: &[(String, String)]) -> Result<Vec<(String, ProgramType)>, Error> {
    let one = |(program, name): &(String, String)| {
        let known = ProgramType::ALL.iter().find(|known| known.name() == name);
        let known = known.ok_or_else(|| Error::InvalidInput(format!("{name} is not a program type")))?;
        Ok((program.clone(), *known))
    };
    named.iter().map(one).collect()
}

fn programs(input: &Input) -> Vec<Answered> {
    let all: Vec<_> = input.object.programs.iter().collect();
    let mut listed = 0;
    let verified = dump::Verified::new(input).ok();
    let read = check::check(input, &all).into_iter().zip(&all).map(|(mut checked, program)| {
        checked.profile = check::profile(input, program);
        let functions = input.object.reachable_functions(program.entry);
        listed += functions.into_iter().map(|id| input.object.function(id).nodes.len()).sum::<usize>();
        let mut options = dump::Options::default();
        (options.source, options.facts) = (true, verified.clone());
        let listing = (listed <= MAX_LISTED).then(|| dump::listing(&input.object, program, options));
        Answered { checked, listing }
    });
    let unreadable = check::unreadable(input).into_iter().map(|checked| Answered { checked, listing: None });
    read.chain(unreadable).collect()
}

/// Optimizes by rules and laws that normal forms and simulation prove: there is no solver.
fn optimized(input: &Input) -> Value {
    let options = kiln_superopt::Options {
        budget: BUDGET,
        kernel_types: input.kernel_types.clone(),
        threads: 1,
        search: 0,
        ..Default::default()
    };
    let rewrite = kiln_superopt::optimize(&input.object, &options, &mut ());
    let mut listed = 0;
    let pairs = input.object.programs.iter().zip(&rewrite.object.programs);
    let programs = pairs.map(|(old, new)| {
        let slots = [input.object.program_slots(old), rewrite.object.program_slots(new)];
        listed += slots[1] as usize;
        let listing = || dump::listing(&rewrite.object, new, dump::Options::default());
        json!({"program": Shown::from(new.name.as_str()), "slots": slots, "listing": (listed <= MAX_LISTED).then(listing)})
    });
    let programs: Vec<Value> = programs.collect();
    let rewrites: Vec<Value> = rewrite.evidence.iter().map(account).collect();
    json!({"programs": programs, "rewrites": rewrites, "cut_short": rewrite.cut_short})
}

/// What was changed, and why it may be.
fn account(one: &Evidence) -> Value {
    let why = match &one.because {
        Because::Law(law) => law.statement().trim().to_owned(),
        Because::Window { proved_by, .. } => match *proved_by {
            "normal-form" => "both have one normal form".to_owned(),
            "rule" => "the rule is proved for all operands".to_owned(),
            other => other.to_owned(),
        },
    };
    json!({
        "rule": Shown::from(one.because.name()), "function": Shown::from(one.function_name.as_str()), "why": why,
        "slots_saved": one.slots_saved, "before": one.before, "after": one.after,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(head: &str, file: &[u8]) -> Value {
        answer(&[head.as_bytes(), b"\n", file].concat())
    }

    #[test]
    fn a_program_is_checked_and_listed() {
        let answer = ask(r#"{"name": "a.bpf"}"#, b"; program xdp\n r0 = 2\n exit\n");
        let program = &answer["programs"][0];
        assert_eq!(program["verdict"]["verdict"], "accepted", "{answer}");
        assert_eq!(program["listing"]["functions"][0]["instructions"][0]["text"], "r0 = 0x2", "{answer}");
        assert_eq!(program["profile"]["processed_insns"], 2, "{answer}");
    }

    #[test]
    fn a_rejection_has_its_story() {
        let text = b"; program xdp\n r2 = *(u32 *)(r1 + 0)\n r0 = *(u8 *)(r2 + 0)\n exit\n";
        let answer = ask(r#"{"name": "a.bpf"}"#, text);
        let verdict = &answer["programs"][0]["verdict"];
        assert_eq!(verdict["verdict"], "rejected", "{answer}");
        assert!(verdict["explanation"].as_str().is_some_and(|story| story.contains("packet")), "{answer}");
    }

    #[test]
    fn a_program_is_optimized_without_a_solver() {
        let text = b"; program xdp\n r1 = 1\n r0 = 1\n r0 += r1\n exit\n";
        let answer = ask(r#"{"name": "a.bpf", "optimize": true}"#, text);
        assert_eq!(answer["programs"][0]["slots"], json!([4, 2]), "{answer}");
        assert_eq!(answer["programs"][0]["listing"]["functions"][0]["instructions"][0]["text"], "r0 = 0x2", "{answer}");
        assert!(answer["rewrites"].as_array().is_some_and(|rewrites| !rewrites.is_empty()), "{answer}");
    }

    #[test]
    fn garbage_is_an_error() {
        for (head, file) in [
            ("", &b""[..]),
            ("[", b""),
            (r#"{"name": "a.o", "other": 1}"#, b""),
            (r#"{"name": "a.o"}"#, b"\x7fELF garbage"),
            (r#"{"name": "a.bpf"}"#, b"\xff\xfe"),
            (r#"{"name": "a.bpf"}"#, b"; nothing\n"),
            (r#"{"name": "a.bpf", "kernel_types": ["a.btf", 30]}"#, b"; program xdp\n r0 = 2\n"),
            (r#"{"name": "a.bpf", "kernel_types": ["a.btf", 4]}"#, b"; program xdp\n r0 = 2\n exit\nnone"),
            (r#"{"name": "a.bpf", "types": [["", "no-such-type"]]}"#, b"; program xdp\n r0 = 2\n exit\n"),
        ] {
            let answer = ask(head, file);
            assert_eq!(answer["error"]["kind"], "invalid-input", "{head}: {answer}");
        }
        assert_eq!(answer(b"no line")["error"]["kind"], "invalid-input");
    }
}
