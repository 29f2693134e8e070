//! The story of a rejection: how the path that fails came to it.
//!
//! ```text
//!   explore  1. to the verdict, recording nothing
//!            2. again, each instruction knowing the one before it   -> the path that fails
//!            3. again, keeping the states along that path           -> what was known where
//!   follow   the offender back: copies, spills, calls, returns, to where it came from
//!   add      the branches taken since, and the calls that lead here
//! ```
//!
//! Exploring is deterministic, so all three end alike. If they do not, the story is left out, and nothing else is lost.

use kiln_isa::{CallTarget, Insn, Reg, Source};
use kiln_program::SourceLine;

use super::follow::{Follower, Place};
use super::names::Names;
use crate::code::Code;
use crate::error::Error;
use crate::explore::observe::{PathFinder, Snapshots, Visit};
use crate::explore::search::Explorer;
use crate::options::Options;
use crate::reason::Reason;
use crate::rejection::{Case, Part, Rejection, StoryStep};
use crate::state::{Kind, Register};

/// The most instructions of the path that are examined, from its end.
const MOST_VISITS: usize = 20_000;
/// The most branches in a story.
const MOST_BRANCHES: usize = 4;
/// The most steps in a story.
const MOST_STEPS: usize = 16;

/// The rejection with its story.
pub(crate) fn told(code: &Code<'_>, options: &Options, mut rejection: Box<Rejection>) -> Box<Rejection> {
    if rejection.reason == Reason::TooComplex {
        return rejection;
    }
    let Some(path) = failing_path(code, options, &rejection) else { return rejection };
    let names = Names::new(code, code.program_type);
    let story = Story { names: &names, path: &path, rejection: &rejection };
    let steps = story.steps();
    let help = story.help(&steps);
    rejection.wanted = story.wanted();
    rejection.story = steps;
    rejection.help = help.unwrap_or_else(|| rejection.reason.fix().to_owned());
    rejection
}

/// The end of the path that fails, the failing instruction last.
fn failing_path(code: &Code<'_>, options: &Options, rejection: &Rejection) -> Option<Vec<Visit>> {
    let options = Options { skip_facts: true, explain: false, ..options.clone() };
    let same = |result: Result<(), Error>| match result {
        Err(Error::Rejected(again)) => again.insn == rejection.insn && again.reason == rejection.reason,
        _ => false,
    };
    let mut finder = PathFinder::new();
    let mut explorer = Explorer::new(code, &options);
    if !same(explorer.run(&mut finder)) {
        return None;
    }
    let (wanted, _) = finder.path(MOST_VISITS);
    drop(finder);
    let mut snapshots = Snapshots::new(wanted);
    let mut explorer = Explorer::new(code, &options);
    if !same(explorer.run(&mut snapshots)) {
        return None;
    }
    let mut path = snapshots.visits;
    // A loop is found before its first instruction is carried out again.
    if path.last().is_none_or(|last| last.at != explorer.path.at) && !explorer.path.state.frames.is_empty() {
        path.push(Visit { at: explorer.path.at, state: explorer.path.state });
    }
    (!path.is_empty()).then_some(path)
}

/// What a story is made from.
pub(super) struct Story<'a> {
    pub names: &'a Names<'a>,
    pub path: &'a [Visit],
    pub rejection: &'a Rejection,
}

impl<'a> Story<'a> {
    /// The failing instruction, and what was known before it.
    pub(super) fn last(&self) -> &'a Visit {
        &self.path[self.path.len() - 1]
    }

    pub(super) fn insn(&self) -> Insn {
        self.names.code.op(self.last().at).node.insn
    }

    fn steps(&self) -> Vec<StoryStep> {
        let mut follower = Follower::new(self.names, self.path);
        let end = self.path.len() - 1;
        match self.rejection.reason {
            Reason::UnreleasedReference => self.acquired(&mut follower),
            Reason::LockDiscipline => self.locked(&mut follower),
            Reason::InfiniteLoop => self.turned(&mut follower),
            _ => {
                if let Some(place) = self.offender() {
                    follower.follow(place, end);
                }
                if let Some(place) = self.moved_pointer() {
                    follower.follow(place, end);
                }
            }
        }
        let origin = follower.origin;
        let mut steps = std::mem::take(&mut follower.found);
        if self.wants_branches() {
            self.add_branches(&follower, origin.unwrap_or(0), &mut steps);
        }
        self.add_calls(&follower, &mut steps);
        self.add_minor(std::mem::take(&mut follower.minor), &mut steps);
        steps.sort_by_key(|(at, _)| *at);
        // Iterations of a loop repeat the same steps.
        let mut told: Vec<StoryStep> = Vec::new();
        for (_, step) in steps {
            if !told.iter().any(|known| known.insn == step.insn && known.text == step.text) {
                told.push(step);
            }
        }
        let surplus = told.len().saturating_sub(MOST_STEPS);
        told.drain(..surplus);
        told
    }

    fn wants_branches(&self) -> bool {
        use Reason::*;
        !matches!(
            self.rejection.reason,
            HelperNotAllowed
                | GplOnly
                | MapHelperMismatch
                | BadInstruction
                | Unreachable
                | CallDepth
                | TooComplex
                | TooLarge
                | ContextAccess
                | Misaligned
                | ReadOnlyMemory
                | SpecialField
        )
    }

    /// The register at fault: where the cause says none, what the instruction accesses.
    pub(super) fn offending_register(&self) -> Option<Reg> {
        let named = self.rejection.cause.reg;
        match self.insn() {
            Insn::Load { address, .. } | Insn::LoadAcquire { address, .. } | Insn::Atomic { address, .. } => {
                named.or(Some(address.base))
            }
            Insn::Store { src: Source::Reg(src), .. } if self.rejection.cause.case == Case::PartOfPointer => Some(src),
            Insn::Store { address, src, .. } => match src {
                Source::Reg(_) if named.is_some() => named,
                _ => Some(address.base),
            },
            Insn::StoreRelease { address, .. } => named.or(Some(address.base)),
            Insn::Exit => Some(Reg::R0),
            Insn::Alu { dst, .. } | Insn::Neg { dst, .. } | Insn::Endian { dst, .. } => named.or(Some(dst)),
            _ => named,
        }
    }

    fn offender(&self) -> Option<Place> {
        let frame = self.last().state.frames.len() - 1;
        let reg = self.offending_register().filter(|reg| *reg != Reg::R10)?;
        let reg = self.number_added(reg).unwrap_or(reg);
        Some(Place::Register { frame, reg })
    }

    /// The number by which the instruction moves the pointer in a register: when it is at fault, it has the story.
    fn number_added(&self, reg: Reg) -> Option<Reg> {
        let Insn::Alu { src: Source::Reg(src), .. } = self.insn() else { return None };
        let state = &self.last().state;
        let moves = state.register(reg).is_pointer() && !state.register(src).is_pointer();
        (self.rejection.reason == Reason::UnboundedOffset && moves).then_some(src)
    }

    /// The pointer that a number at fault would move.
    fn moved_pointer(&self) -> Option<Place> {
        let reg = self.offending_register().filter(|reg| *reg != Reg::R10)?;
        self.number_added(reg)?;
        Some(Place::Register { frame: self.last().state.frames.len() - 1, reg })
    }

    pub(super) fn offending_value(&self) -> Option<Register> {
        Some(*self.last().state.register(self.offending_register()?))
    }

    /// Adds minor steps where nothing else marks their line.
    fn add_minor(&self, minor: Vec<(usize, StoryStep)>, steps: &mut Vec<(usize, StoryStep)>) {
        let same = |one: &Option<SourceLine>, other: &SourceLine| {
            one.as_ref().is_some_and(|one| one.line == other.line && one.file == other.file)
        };
        for (at, step) in minor {
            let is_marked = step.line.as_ref().is_some_and(|own| {
                same(&self.rejection.line, own) || steps.iter().any(|(_, known)| same(&known.line, own))
            });
            if !is_marked {
                steps.push((at, step));
            }
        }
    }

    /// Adds where the reference that is still held was acquired.
    fn acquired(&self, follower: &mut Follower<'_>) {
        let Some(held) = self.last().state.references.first().copied() else { return };
        let holds = |visit: &Visit| visit.state.references.iter().any(|other| other.id == held.id);
        let Some(first) = self.path.iter().position(holds) else { return };
        let at = first.saturating_sub(1);
        let op = self.names.code.op(self.path[at].at);
        let name = op.helper.map_or("the call".to_owned(), |helper| format!("bpf_{}", helper.name));
        let text = format!("{name} acquires a reference here, which every path must release");
        let step = follower.step(at, Part::Origin, text);
        follower.found.push((at, step));
        follower.origin = Some(at);
    }

    /// Adds where the lock that is still held was taken.
    fn locked(&self, follower: &mut Follower<'_>) {
        if self.last().state.locks.is_empty() {
            return;
        }
        let free = self.path.iter().rposition(|visit| visit.state.locks.is_empty());
        let Some(at) = free else { return };
        let step = follower.step(at, Part::Origin, "the lock is taken here".to_owned());
        follower.found.push((at, step));
        follower.origin = Some(at);
    }

    /// Describes one iteration of the loop that never ends.
    fn turned(&self, follower: &mut Follower<'_>) {
        let last = self.last();
        let end = self.path.len() - 1;
        let Some(begin) = self.path[..end].iter().rposition(|visit| visit.at == last.at) else { return };
        let mut told = Vec::new();
        for (at, visit) in self.path.iter().enumerate().take(end).skip(begin) {
            if let Insn::Branch { dst, src, .. } = self.names.code.op(visit.at).node.insn
                && told.len() < MOST_BRANCHES
            {
                let second = match src {
                    Source::Reg(src) => format!(" and {}", self.names.value(visit.state.register(src))),
                    Source::Imm(_) => String::new(),
                };
                let first = self.names.value(visit.state.register(dst));
                told.push((at, format!("decides with {first}{second}, the same on every turn")));
            }
        }
        for (at, text) in told {
            let aside = follower.lost.is_some_and(|lost| at < lost);
            let step = StoryStep { aside, ..follower.step(at, Part::Branch, text) };
            follower.found.push((at, step));
        }
        let step = follower.step(begin, Part::Origin, "the loop turns here without anything having changed".to_owned());
        follower.found.push((begin, step));
        follower.origin = Some(end);
    }

    /// The branches taken since the value came to be: the last ones, where there are many.
    fn add_branches(&self, follower: &Follower<'_>, origin: usize, steps: &mut Vec<(usize, StoryStep)>) {
        let mut added = 0;
        let mut seen = Vec::new();
        for at in (origin..self.path.len().saturating_sub(1)).rev() {
            let visit = &self.path[at];
            let op = self.names.code.op(visit.at);
            if seen.contains(&visit.at) || steps.iter().any(|(other, _)| *other == at) {
                continue;
            }
            let Some(mut text) = self.branch(at) else { continue };
            if self.compares_copy(at, follower.origin) {
                text.push_str("; a copy of the number is compared here, and the bound holds for the copy only");
            }
            seen.push(visit.at);
            let step = follower.step(at, Part::Branch, text);
            // Without a source line a branch says little.
            if step.line.is_none() && op.node.line.is_some() {
                continue;
            }
            steps.push((at, step));
            added += 1;
            if added == MOST_BRANCHES {
                return;
            }
        }
    }

    /// Whether a branch compares something that comes from where the offender, a number or moved by one, comes from.
    fn compares_copy(&self, at: usize, origin: Option<usize>) -> bool {
        use Reason::*;
        let bounds = matches!(self.rejection.reason, UnboundedOffset | MapValueBounds | MemoryBounds | ArgumentSize);
        let Insn::Branch { dst, .. } = self.names.code.op(self.path[at].at).node.insn else { return false };
        let state = &self.path[at].state;
        if !bounds || origin.is_none() || state.register(dst).kind() != Kind::Scalar {
            return false;
        }
        let mut follower = Follower::new(self.names, self.path);
        follower.follow(Place::Register { frame: state.frames.len() - 1, reg: dst }, at);
        follower.origin == origin
    }

    /// Describes the direction that the path took at a branch, unless the outcome was certain.
    fn branch(&self, at: usize) -> Option<String> {
        let visit = &self.path[at];
        let op = self.names.code.op(visit.at);
        let Insn::Branch { op: comparison, dst, src, .. } = op.node.insn else { return None };
        let next = self.path.get(at + 1)?;
        let taken = next.at == op.target;
        let first = visit.state.register(dst);
        let second = match src {
            Source::Reg(src) => *visit.state.register(src),
            Source::Imm(imm) => Register::constant(i64::from(imm) as u64),
        };
        let constant = |register: &Register| register.kind() == Kind::Scalar && register.scalar.as_constant().is_some();
        if constant(first) && constant(&second) {
            return None;
        }
        let operand = |register: &Register| match (register.kind(), register.scalar.as_constant()) {
            (Kind::Scalar, Some(value)) if value as i64 >= -4096 && (value as i64) < 1 << 20 => {
                (value as i64).to_string()
            }
            (Kind::Scalar, _) => "the number".to_owned(),
            _ => self.names.pointee(register),
        };
        let (first, second, comparison) = match comparison.row().swapped {
            Some(swapped) if constant(first) => (&second, *first, swapped),
            _ => (first, second, comparison),
        };
        let symbol = comparison.row().symbol;
        let holds = if taken { "holds" } else { "does not hold" };
        let code = self.names.code;
        let line = |at| code.object.line(code.op(at).node).filter(|line| line.line != 0);
        let to = match (line(visit.at), line(next.at)) {
            (Some(here), Some(there)) if here.line != there.line => format!(", on to line {}", there.line),
            _ => String::new(),
        };
        // Compilers turn other comparisons into these: `x > -1` is `x >= 0`.
        let sign = match (symbol, second.scalar.as_constant().filter(|_| constant(&second)).map(|value| value as i64)) {
            ("s<", Some(0)) | ("s<=", Some(-1)) => Some(taken),
            ("s>=", Some(0)) | ("s>", Some(-1)) => Some(!taken),
            _ => None,
        };
        if let Some(negative) = sign.filter(|_| first.kind() == Kind::Scalar) {
            let is = if negative { "is" } else { "is not" };
            return Some(format!("the path where {} {is} negative{to}", operand(first)));
        }
        let relation = format!("{} {symbol} {}", operand(first), operand(&second));
        Some(format!("the path where `{relation}` {holds}{to}"))
    }

    /// The calls that lead to the function that fails.
    fn add_calls(&self, follower: &Follower<'_>, steps: &mut Vec<(usize, StoryStep)>) {
        let frames = &self.last().state.frames;
        for (depth, frame) in frames.iter().enumerate().skip(1) {
            let at = self.path.iter().rposition(|visit| {
                visit.at == frame.call_site && visit.state.frames.len() == depth && self.is_call(visit)
            });
            let Some(at) = at else { continue };
            if steps.iter().any(|(other, _)| *other == at) {
                continue;
            }
            let name = self.names.code.functions[frame.function].name;
            steps.push((at, follower.step(at, Part::Call, format!("{name} is called here"))));
        }
    }

    fn is_call(&self, visit: &Visit) -> bool {
        matches!(self.names.code.op(visit.at).node.insn, Insn::Call(CallTarget::Subprogram(_) | CallTarget::Helper(_)))
    }
}
