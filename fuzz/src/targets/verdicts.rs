//! Tier "verdict": programs near the border between safe and unsafe, for Kiln's verifier and the kernel's.
//!
//! If only one of the two accepts a program, it is shrunk as long as they still disagree, and shown. Known
//! disagreements are rows of [`KNOWN`], each with its reason. Programs that both accept run, and every state is
//! compared with the facts.

use std::cell::RefCell;

use kiln_isa::{CallTarget, Insn, JumpOp, Source, Width};
use kiln_platform::ProgramType;
use kiln_program::{FunctionId, Object};
use kiln_test::oracle::{self, Canary, Finding};
use kiln_verifier::Facts;

use super::target::Depth;
use crate::change;
use crate::choices::Choices;
use crate::originals::originals;
use crate::program::tame;
use crate::subject::{Subject, Verdict};
use kiln_driver::packets::Random;

/// Which of the two accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Only {
    Kiln,
    Kernel,
}

/// A known disagreement.
struct Known {
    /// Who accepts.
    only: Only,
    /// Part of the other's reason.
    reason: &'static str,
    /// What must be so of an instruction of the program.
    holds: fn(&Insn) -> bool,
    /// Why it may be.
    #[allow(dead_code)]
    why: &'static str,
}

const fn known(only: Only, reason: &'static str, holds: fn(&Insn) -> bool, why: &'static str) -> Known {
    Known { only, reason, holds, why }
}

const KNOWN: &[Known] = &[
    known(Only::Kiln, "without BTF", |_| true, "programs are loaded without BTF here"),
    known(Only::Kiln, "missing btf func_info", |_| true, "programs are loaded without BTF here"),
    known(Only::Kiln, "verifier bug", |_| true, "the kernel's verifier gives up on a mistake of its own"),
    known(Only::Kiln, "cannot use helper bpf_override_return", |_| true, "this kernel is built without it"),
    known(Only::Kiln, "cannot use helper bpf_probe_write_user", |_| true, "this kernel is locked down"),
    known(Only::Kernel, "", reads_processor, "the kernel knows how many processors this machine has"),
    known(Only::Kernel, "", compares_half_with_zero, "the lower half of a pointer may be 0; the kernel thinks not"),
    known(Only::Kernel, "the frame of the main function", |_| true, "the kernel takes one frame for another"),
    known(
        Only::Kernel,
        "at tracepoint record+-",
        |_| true,
        "the kernel takes offsets below 0 in a tracepoint's record",
    ),
    known(Only::Kernel, "there is no room for", |_| true, "the kernel takes the frame pointer for the slot below it"),
];

fn reads_processor(insn: &Insn) -> bool {
    *insn == Insn::Call(CallTarget::Helper(8))
}

fn compares_half_with_zero(insn: &Insn) -> bool {
    matches!(insn, Insn::Branch { op: JumpOp::Eq | JumpOp::Ne, width: Width::W32, src: Source::Imm(0), .. })
}

impl Known {
    fn covers(&self, only: Only, reason: &str, object: &Object) -> bool {
        let mut nodes = object.functions.iter().flat_map(|function| &function.nodes);
        self.only == only && reason.contains(self.reason) && nodes.any(|node| (self.holds)(&node.insn))
    }
}

/// Changes of a program at most.
const MAX_CHANGES: usize = 4;
/// Tries to make a disagreement smaller.
const MAX_TRIES: usize = 400;

thread_local! {
    static LOADER: RefCell<kiln_linux::Loader> = RefCell::default();
}

fn kernel_accepts(object: &Object) -> bool {
    // Without a log it is quicker; most programs that fail here fail with Kiln too, and need no reason.
    LOADER.with_borrow_mut(|loader| loader.load(object, &object.programs[0], false).is_ok())
}

/// `None` if the kernel refused before its verifier saw the program.
fn kernel_reason(object: &Object) -> Option<String> {
    let failure = LOADER.with_borrow_mut(|loader| loader.load(object, &object.programs[0], true).err())?;
    failure.reason().map(str::to_owned)
}

/// The two verdicts on a program.
enum Compared {
    BothAccept(Facts),
    BothRefuse,
    /// Kiln has no answer, or the kernel's verifier was not asked.
    NotCompared,
    /// Which one accepts it, and the other's reason.
    Disagree(Only, String),
}

fn compare(subject: &Subject, object: &Object) -> Compared {
    let disagree = |only: Only, reason: String| {
        let known = KNOWN.iter().any(|known| known.covers(only, &reason, object));
        if known { Compared::NotCompared } else { Compared::Disagree(only, reason) }
    };
    match ((subject.verify)(object, &object.programs[0]), kernel_accepts(object)) {
        (Verdict::Unanswered(_), _) => Compared::NotCompared,
        (Verdict::Refused(_), false) => Compared::BothRefuse,
        (Verdict::Accepted(facts), true) => Compared::BothAccept(facts),
        (Verdict::Refused(code), true) => disagree(Only::Kernel, code),
        (Verdict::Accepted(_), false) => match kernel_reason(object) {
            Some(reason) => disagree(Only::Kiln, reason),
            None => Compared::NotCompared,
        },
    }
}

/// A reason without the details of one program, so that one bug is one finding.
fn kind(reason: &str) -> String {
    let mut text = String::new();
    for word in reason.split([' ', '\n', ',']) {
        let number = |word: &str| word.chars().any(|c| c.is_ascii_digit());
        text += if number(word) { "_ " } else { word };
        text += " ";
    }
    text.replace(": ", "; ")
}

fn shown(only: Only, reason: &str) -> String {
    match only {
        Only::Kiln => format!("only Kiln accepts, the kernel says '{}'", kind(reason)),
        Only::Kernel => format!("only the kernel accepts, Kiln says '{}'", kind(reason)),
    }
}

/// Removes what is not needed for the disagreement.
fn smaller(subject: &Subject, object: &Object, functions: &[FunctionId], wanted: &str) -> Object {
    let same = |object: &Object| {
        kiln_program::validate(object).is_ok()
            && matches!(compare(subject, object), Compared::Disagree(only, reason) if shown(only, &reason) == wanted)
    };
    let mut best = object.clone();
    let mut tries = 0;
    let mut again = true;
    while again && tries < MAX_TRIES {
        again = false;
        for function in functions {
            let mut at = best.function(*function).nodes.len();
            while at > 0 && tries < MAX_TRIES {
                at -= 1;
                let mut candidate = best.clone();
                change::remove(&mut candidate, *function, at);
                tries += 1;
                if candidate != best && same(&candidate) {
                    best = candidate;
                    again = true;
                }
            }
        }
    }
    best
}

/// Compares the two on a program, and runs it where both accept.
fn check(subject: &Subject, object: &Object, seed: u64) -> Result<Depth, String> {
    if kiln_program::validate(object).is_err() {
        return Ok(Depth::Shallow);
    }
    match compare(subject, object) {
        Compared::BothAccept(facts) => runs(object, &facts, seed).map(|()| Depth::Deep),
        Compared::BothRefuse | Compared::NotCompared => Ok(Depth::Shallow),
        Compared::Disagree(only, reason) => Err(format!("{}: {reason}", shown(only, &reason))),
    }
}

/// Runs an accepted program on some packets and compares every state with the facts.
fn runs(object: &Object, facts: &Facts, seed: u64) -> Result<(), String> {
    let program = &object.programs[0];
    // The bare environment has packets, but no flow keys.
    let runs = |kind: ProgramType| kind != ProgramType::FlowDissector && kiln_driver::kernel::takes_packet(kind);
    if !program.program_type.is_some_and(runs) {
        return Ok(());
    }
    let mut random = Random::new(seed);
    for length in [14, 64, 200] {
        let mut packet = random.bytes(length);
        packet.iter_mut().for_each(|byte| *byte &= if seed & 1 == 0 { 0xff } else { 3 });
        let held = oracle::facts::hold(object, program, facts, &packet, Canary::Absent);
        if let Finding::Broken(why) = held {
            return Err(format!("facts: {why}"));
        }
    }
    Ok(())
}

fn seed(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

fn changed(choices: &mut Choices<'_>, object: &mut Object, functions: &[FunctionId]) {
    for _ in 0..1 + choices.below(MAX_CHANGES) {
        change::change(choices, object, functions);
    }
}

/// A program to be compared, and the functions of it that count.
struct Candidate {
    object: Object,
    functions: Vec<FunctionId>,
    /// Where it comes from.
    from: &'static str,
}

/// A changed program of the corpora; nothing without corpora.
fn original(bytes: &[u8]) -> Option<Candidate> {
    let mut choices = Choices::new(bytes);
    let all = originals();
    let original = all.get(choices.below(all.len().max(257)) % all.len().max(1))?;
    let mut object = original.object.clone();
    changed(&mut choices, &mut object, &original.functions);
    Some(Candidate { object, functions: original.functions.clone(), from: &original.name })
}

/// A changed program that grew from nothing.
fn grown(bytes: &[u8]) -> Option<Candidate> {
    let (changes, grown) = bytes.split_at(bytes.len().min(64));
    let mut object = tame(&mut Choices::new(grown));
    let functions: Vec<FunctionId> = (0..object.functions.len() as u32).map(FunctionId).collect();
    changed(&mut Choices::new(changes), &mut object, &functions);
    Some(Candidate { object, functions, from: "nothing" })
}

fn check_candidate(subject: &Subject, bytes: &[u8], candidate: Option<Candidate>) -> Result<Depth, String> {
    match candidate {
        Some(Candidate { object, functions: _, from }) if kiln_test::engine::kernel_available().is_ok() => {
            check(subject, &object, seed(bytes)).map_err(|message| format!("{message}\nfrom {from}"))
        }
        _ => Ok(Depth::Shallow),
    }
}

/// The smallest program that the two disagree about in the same way.
fn show(subject: &Subject, candidate: Option<Candidate>) -> String {
    let Some(Candidate { object, functions, from }) = candidate else { return String::new() };
    let small = match compare(subject, &object) {
        Compared::Disagree(only, reason) => smaller(subject, &object, &functions, &shown(only, &reason)),
        _ => object,
    };
    let other = kernel_reason(&small).unwrap_or_default();
    format!("{}from {from}; the kernel: {other}", kiln_program::text::listing(&small))
}

pub fn check_original(subject: &Subject, bytes: &[u8]) -> Result<Depth, String> {
    check_candidate(subject, bytes, original(bytes))
}

pub fn show_original(subject: &Subject, bytes: &[u8]) -> String {
    show(subject, original(bytes))
}

pub fn check_grown(subject: &Subject, bytes: &[u8]) -> Result<Depth, String> {
    check_candidate(subject, bytes, grown(bytes))
}

pub fn show_grown(subject: &Subject, bytes: &[u8]) -> String {
    show(subject, grown(bytes))
}
