//! A window, run symbolically on the shared semantics.
//!
//! A window has one entry, its first instruction, and is a region of the program. Branches inside it go forward, and
//! those that leave it are its exits. Every path through it is followed. Paths that meet are joined
//! ([`crate::window::path`]), and so are exits to one place. So the size of the result grows with the window, not with
//! the number of paths.

use kiln_isa::Reg;
use kiln_isa::semantics::{BitVec, Flow, execute};
use kiln_program::{InsnId, Node};

use crate::term::{QuickMap, Term, TermId};
use crate::window::calls::Call;
use crate::window::class::{Class, Log};
use crate::window::memory::World;
use crate::window::path::Path;
use crate::window::state::{Access, Holes, State, Stop};
use crate::window::way::TERMS;

/// Maximum number of instructions in a window.
pub const INSNS: usize = 256;

/// Where a window is left.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Target {
    /// After its last instruction.
    End,
    /// To its first instruction.
    Start,
    /// To an instruction outside.
    Insn(InsnId),
    /// To the one place that a rule's branch leads to.
    Somewhere,
    /// Out of the function.
    Return,
}

/// The state where a window is left for one target.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// To where.
    pub target: Target,
    /// The condition of leaving there; `None`: always.
    pub condition: Option<TermId>,
    /// Registers; `None`: not readable.
    pub registers: [Option<TermId>; Reg::COUNT],
    /// Bytes written, where their class is not logged.
    pub bytes: QuickMap<(u16, i64), TermId>,
    /// The history of each logged class.
    pub logs: QuickMap<Class, Log>,
    /// The history of memory that no other entry names.
    pub base: Log,
}

impl Outcome {
    /// The history of a class.
    pub fn log(&self, world: &World<'_>, class: Class) -> Log {
        let group = world.modes.group(class);
        let base = if matches!(group, Class::Stack(0) | Class::Context) { 0 } else { self.base };
        self.logs.get(&group).copied().unwrap_or(base)
    }
}

/// What a window does.
#[derive(Clone, Debug)]
pub struct Final {
    /// Where it is left and how, by target.
    pub outcomes: Vec<Outcome>,
    /// All accesses, in order.
    pub accesses: Vec<Access>,
    /// Own stack bytes that calls read or write.
    pub touched: Vec<Access>,
    /// Calls, in order, without those whose results never change.
    pub calls: Vec<Call>,
    /// Calls whose results never change, as events.
    pub stable_calls: Vec<Log>,
}

/// Runs a window from the initial state of `world`.
///
/// # Errors
/// A [`Stop`] where it cannot be followed.
pub fn run<'a>(world: &World<'a>, nodes: &[Node], holes: &Holes<'a>) -> Result<Final, Stop> {
    if nodes.len() > INSNS {
        return Err(Stop::Limit);
    }
    let mut state = State::new(world, holes, Path::new());
    // Paths that wait for their target: the target and the state.
    let mut waiting: Vec<(Target, Path<'a>)> = Vec::new();
    let mut current = Some(Path::new());
    for (at, node) in nodes.iter().enumerate() {
        if world.arena.len() > TERMS {
            return Err(Stop::Limit);
        }
        if at > 0 {
            current = arrive(world, current, &mut waiting, Target::Insn(node.id));
        }
        let Some(path) = current.take() else { continue };
        (state.path, state.node) = (path, Some(node));
        let flow = execute(&node.insn, &mut state)?;
        let mut path = std::mem::replace(&mut state.path, Path::new());
        let target = || target(nodes, at, node);
        match flow {
            Flow::Next => current = Some(path),
            Flow::Call(called) => {
                state.path = path;
                state.call(called)?;
                current = Some(std::mem::replace(&mut state.path, Path::new()));
            }
            Flow::Exit => waiting.push((Target::Return, path)),
            Flow::Jump => waiting.push((target()?, path)),
            Flow::Branch(taken) => {
                let target = target()?;
                if taken.as_constant() != Some(0) {
                    let mut jumps = path.clone();
                    jumps.conditions.push(taken);
                    waiting.push((target, jumps));
                }
                path.conditions.push(Term::not(&taken));
                current = (taken.as_constant() != Some(1)).then_some(path);
            }
            Flow::Indirect(_) | Flow::MayGoto => return Err(Stop::Unsupported(format!("`{}`", node.insn))),
        }
    }
    let mut outcomes = Vec::new();
    if let Some(path) = arrive(world, current, &mut waiting, Target::End) {
        outcomes.push(outcome(world, Target::End, path));
    }
    let mut targets: Vec<Target> = waiting.iter().map(|(target, _)| *target).collect();
    targets.sort_unstable();
    targets.dedup();
    for target in targets {
        let path = arrive(world, None, &mut waiting, target).expect("some way leads there");
        outcomes.push(outcome(world, target, path));
    }
    let State { accesses, touched, calls, stable_calls, .. } = state;
    Ok(Final { outcomes, accesses, touched, calls, stable_calls })
}

/// Where a branch of a window leads.
pub(crate) fn target(nodes: &[Node], at: usize, node: &Node) -> Result<Target, Stop> {
    if node.core.is_some() {
        return Err(Stop::Unsupported("a branch that the loader changes".to_owned()));
    }
    let Some(to) = node.target() else { return Ok(Target::Somewhere) };
    match nodes.iter().position(|other| other.id == to) {
        Some(0) => Ok(Target::Start),
        Some(inside) if inside <= at => Err(Stop::Unsupported("a branch back".to_owned())),
        _ => Ok(Target::Insn(to)),
    }
}

/// Joins the path that falls through with those that waited for this place.
fn arrive<'a>(
    world: &World<'a>,
    straight: Option<Path<'a>>,
    waiting: &mut Vec<(Target, Path<'a>)>,
    here: Target,
) -> Option<Path<'a>> {
    let mut arrived = straight;
    // The latest branch first: it has most in common with the path that falls through.
    for at in (0..waiting.len()).rev() {
        if waiting[at].0 == here {
            let jumped = waiting.remove(at).1;
            arrived = Some(match arrived {
                Some(straight) => jumped.join(straight, world),
                None => jumped,
            });
        }
    }
    arrived
}

fn outcome<'a>(world: &World<'a>, target: Target, path: Path<'a>) -> Outcome {
    let value = |index| Some(path.register(world, Reg::new(index as u8)?)?.id());
    Outcome {
        target,
        condition: path.condition().map(|condition| condition.id()),
        registers: std::array::from_fn(value),
        bytes: path.bytes.iter().map(|(place, written)| (*place, written.value)).collect(),
        base: path.base,
        logs: path.logs,
    }
}
