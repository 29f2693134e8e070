//! `kiln explain --log`: the log of a kernel's verifier, explained without the kernel and without the object.
//!
//! ```text
//!   libbpf: prog 'pick': -- BEGIN PROG LOAD LOG --                       the program
//!   ; return table->slots[index]; @ pick.c:28                            source of what follows
//!   15: (79) r1 = *(u64 *)(r1 +0)  ; R1=map_value(...)                   an instruction, and what it leaves
//!   R1 max value is outside of the allowed memory range                  the message --> reason, its meaning, its fix
//!   processed 15 insns (limit 1000000) ...
//!   Verification failed: ...  Reason: ...  Suggestion: ...               Linux 7.3 and later: the kernel's own account
//! ```
//!
//! Whoever pastes a log may have cut it, wrapped it in another loader's words, or mixed several programs. Lines that
//! mean nothing here are passed over; a log without any message of a verifier is an error.

use std::collections::BTreeMap;

use kiln_program::Error;
use kiln_verifier::Reason;
use serde::Serialize;

use super::kernel_messages::{BEFORE, ROWS};
use super::registers;
use crate::Shown;

/// Bytes of a log that are read: the kernel's longest are 32 MB.
pub const MAX_BYTES: u64 = 64 << 20;
/// Source lines of the way to the failure that are kept.
const WAY: usize = 8;
/// Messages before the last one that may say more than it.
const MESSAGES: usize = 16;

/// One program that a kernel refused, as its log tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LoggedRejection {
    /// The program's name, where the loader printed it.
    pub program: Option<Shown>,
    /// The kernel's message.
    pub message: Shown,
    /// The code of the reason, as Kiln's own verdicts have it; nothing if the message is not known.
    pub code: Option<&'static str>,
    /// What the reason means.
    pub meaning: Option<&'static str>,
    /// What usually fixes it.
    pub fix: Option<&'static str>,
    /// Number of the instruction at fault, in slots from the program's start.
    pub slot: Option<u32>,
    /// That instruction, in the kernel's syntax.
    pub instruction: Option<Shown>,
    /// The source line it was compiled from.
    pub source: Option<LoggedSource>,
    /// The registers that the message names, before the instruction.
    pub registers: Vec<LoggedRegister>,
    /// Source lines that the path came through, the last one last.
    pub way: Vec<LoggedSource>,
    /// What the kernel itself says of it (Linux 7.3 and later).
    pub account: Option<KernelAccount>,
}

/// A source line that the kernel printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoggedSource {
    /// Its text.
    pub text: Shown,
    /// `FILE:LINE`, which kernels before 6.11 do not print.
    pub place: Option<Shown>,
}

/// A register, as the log shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoggedRegister {
    /// `R1`.
    pub name: Shown,
    /// As the kernel printed it.
    pub state: Shown,
    /// The same in words.
    pub words: Shown,
}

/// The block that kernels since 7.3 print after their log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelAccount {
    /// Class and headline.
    pub headline: Shown,
    /// The reason, in two or three sentences.
    pub reason: Shown,
    /// What the kernel suggests.
    pub suggestion: Shown,
}

/// The rejections that a log tells of, one for each program.
///
/// # Errors
/// [`Error::InvalidInput`] if the text has no message of a verifier.
pub fn explain_log(text: &str) -> Result<Vec<LoggedRejection>, Error> {
    let mut reader = Reader::default();
    text.lines().for_each(|line| reader.line(line));
    reader.end_program();
    if reader.rejections.is_empty() {
        let why = "this is no log of a kernel's verifier that rejected a program; a log has lines such as \
                   `3: (71) r1 = *(u8 *)(r2 +0)` and ends in a message (libbpf prints it, bpftool with -d)";
        return Err(Error::InvalidInput(why.to_owned()));
    }
    Ok(reader.rejections)
}

/// What has been read of a log.
#[derive(Default)]
struct Reader {
    rejections: Vec<LoggedRejection>,
    /// The program that is being read.
    program: Option<String>,
    source: Option<LoggedSource>,
    way: Vec<LoggedSource>,
    /// The instruction read last, and the registers before it.
    slot: Option<u32>,
    instruction: Option<String>,
    before: BTreeMap<String, String>,
    registers: BTreeMap<String, String>,
    /// Lines since that instruction that are none.
    messages: Vec<String>,
    account: Option<KernelAccount>,
    /// The part of the account that goes on.
    part: Part,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Part {
    #[default]
    None,
    Reason,
    Suggestion,
}

/// Lines that say nothing of the program.
const STATISTICS: [&str; 7] =
    ["verification time", "stack depth", "max_states", "func#", "mark_precise", "old state", "cur state"];

impl Reader {
    fn line(&mut self, line: &str) {
        let line = line.trim().trim_start_matches("libbpf: ");
        let line = line.rsplit_once("Verifier output: ").map_or(line, |(_, log)| log);
        if let Some((before, _)) = line.split_once("-- BEGIN ") {
            self.end_program();
            self.program = before.split('\'').nth(1).map(str::to_owned);
        } else if line.starts_with("-- END ") || line.contains(": -- END ") {
            self.end_program();
        } else if let Some(headline) = line.strip_prefix("Verification failed:") {
            self.account = Some(KernelAccount { headline: headline.trim().into(), ..KernelAccount::default() });
        } else if self.account.is_some() {
            self.account_line(line);
        } else if let Some(source) = line.strip_prefix("; ") {
            self.source_line(source);
        } else if let Some((slot, rest)) = numbered(line) {
            self.numbered_line(slot, rest);
        } else if let Some((_, states)) = line.strip_prefix("from ").and_then(|rest| rest.split_once(": ")) {
            self.registers.clear();
            self.states(states);
        } else if line.starts_with("processed ") {
            // The end of a log whose loader prints no other.
            self.end_program();
        } else if !line.is_empty() && !STATISTICS.iter().any(|word| line.starts_with(word)) && !is_state(line) {
            if self.messages.len() == MESSAGES {
                self.messages.remove(0);
            }
            self.messages.push(line.to_owned());
        }
    }

    fn account_line(&mut self, line: &str) {
        let Some(account) = &mut self.account else { return };
        // `At:`, `Instruction context:` and `Causal path:` repeat what the log has.
        let (part, text) = match line.split_once(':') {
            Some(("Reason", text)) => (Part::Reason, text),
            Some(("Suggestion", text)) => (Part::Suggestion, text),
            Some(("At" | "Instruction context" | "Causal path", _)) => (Part::None, ""),
            _ => (self.part, line),
        };
        self.part = part;
        let text = text.trim();
        let target = match part {
            Part::Reason => &mut account.reason,
            Part::Suggestion => &mut account.suggestion,
            Part::None => return,
        };
        if !text.is_empty() {
            *target = format!("{} {text}", target.exact()).trim_start().into();
        }
    }

    fn source_line(&mut self, line: &str) {
        let (text, place) = match line.rsplit_once(" @ ") {
            Some((text, place)) => (text, Some(place.trim().into())),
            None => (line, None),
        };
        let source = LoggedSource { text: text.trim().into(), place };
        if self.way.last() != Some(&source) {
            if self.way.len() == WAY {
                self.way.remove(0);
            }
            self.way.push(source.clone());
        }
        self.source = Some(source);
    }

    /// `15: (79) r1 = ...  ; R1=...`, or the states alone.
    fn numbered_line(&mut self, slot: u32, rest: &str) {
        self.messages.clear();
        let Some((_, code)) = rest.strip_prefix('(').and_then(|rest| rest.split_once(") ")) else {
            return self.states(rest);
        };
        let (code, states) = code.split_once(';').unwrap_or((code, ""));
        self.slot = Some(slot);
        self.instruction = Some(code.trim().to_owned());
        self.before.clone_from(&self.registers);
        self.states(states);
    }

    /// `R1=ctx() R2_w=scalar(umax=5) fp-8=0`.
    fn states(&mut self, text: &str) {
        for token in tokens(text) {
            let Some((name, state)) = token.split_once('=') else { continue };
            let name = name.split('_').next().unwrap_or(name);
            if is_register(name) {
                self.registers.insert(name.to_owned(), state.to_owned());
            }
        }
    }

    /// Ends the program that is being read. One whose log has no message was accepted, or is not in the text.
    fn end_program(&mut self) {
        let read = std::mem::take(self);
        self.rejections = read.rejections;
        let known = read.messages.iter().enumerate().rev().find_map(|(at, message)| {
            let row = ROWS.iter().find(|row| row.fits(message))?;
            Some((at, row.1))
        });
        let (at, reason) = match known {
            Some((at, reason)) => (at, Some(reason)),
            // Without an instruction it may be any text.
            None if read.instruction.is_none() || read.messages.is_empty() => return,
            None => (read.messages.len() - 1, None),
        };
        let message = read.messages[at].clone();
        let before = read.messages[..at].iter().rev().find_map(|message| BEFORE.iter().find(|row| row.fits(message)));
        let named: Vec<LoggedRegister> = read
            .before
            .iter()
            .filter(|(name, _)| names(&message, name))
            .map(|(name, state)| logged(name, state))
            .collect();
        let reason = match (reason, before) {
            (Some(Reason::MemoryBounds), Some(row)) => Some(row.1),
            (Some(Reason::MemoryBounds), None) => Some(named.first().map_or(Reason::MemoryBounds, region)),
            (reason, _) => reason,
        };
        // A message that names another instruction speaks of that one: the checks before all paths do.
        let other = message.split_once(" insn ").and_then(|(_, rest)| rest.split(' ').next()?.parse::<u32>().ok());
        let other = other.filter(|slot| read.slot != Some(*slot) && read.instruction.is_none());
        self.rejections.push(LoggedRejection {
            program: read.program.map(Shown::from),
            code: reason.map(Reason::code),
            meaning: reason.map(|reason| reason.meaning().trim()),
            fix: reason.map(Reason::fix),
            slot: other.or(read.slot),
            instruction: read.instruction.map(Shown::from),
            source: read.source,
            registers: named,
            way: read.way,
            account: read.account,
            message: message.into(),
        });
    }
}

fn logged(name: &str, state: &str) -> LoggedRegister {
    LoggedRegister { name: name.into(), state: state.into(), words: registers::words(state).into() }
}

/// Which memory a register's address is in, by the kernel's name for it.
fn region(register: &LoggedRegister) -> Reason {
    let state = register.state.exact();
    match () {
        () if state.starts_with("map_value") => Reason::MapValueBounds,
        () if state.starts_with("pkt") => Reason::PacketBounds,
        () if state.starts_with("fp") => Reason::StackBounds,
        () => Reason::MemoryBounds,
    }
}

/// Whether the message names the register, and not a longer name that begins alike.
fn names(message: &str, register: &str) -> bool {
    let followed = |at: usize| message[at + register.len()..].starts_with(|letter: char| letter.is_ascii_digit());
    message.match_indices(register).any(|(at, _)| !followed(at))
}

/// `15: rest`.
fn numbered(line: &str) -> Option<(u32, &str)> {
    let (number, rest) = line.split_once(": ")?;
    Some((number.parse().ok()?, rest.trim_start()))
}

fn is_register(name: &str) -> bool {
    name.strip_prefix('R').is_some_and(|number| number.parse::<u8>().is_ok_and(|number| number <= 11))
}

/// Whether a line has the states of registers only.
fn is_state(line: &str) -> bool {
    let first = line.split([' ', '=']).next().unwrap_or_default();
    let first = first.split('_').next().unwrap_or_default();
    line.contains('=') && is_register(first) && line.split(' ').next().is_some_and(|token| token.contains('='))
        || line.starts_with("frame") && line.contains(": R")
}

/// Splits at spaces outside of brackets.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |letter| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        letter == ' ' && depth <= 0
    })
}
