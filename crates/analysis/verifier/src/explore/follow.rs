//! A run, followed: what the verifier says of the instructions that a run executed, with the run's own numbers.
//!
//! ```text
//!   the run     r0 = map_lookup_elem()   if r0 == 0 goto out   r1 = *(u32 *)(r0 + 0)   call send_signal
//!   registers   r0: 0x5000               goes on               r1: 7                   r1: 7
//!   the path    r0: a value or null      r0: a value           r1: any number -> 7     rejected: tc may not call it
//! ```
//!
//! Before each instruction, every number becomes that of the run, and a pointer that may be null is null or is not, as in
//! the run. Of the directions of a branch, the path takes the run's. So what is rejected here is what the run did, and not
//! what the verifier does not know. One thing stays unknown: how long a packet is.

use kiln_isa::{Insn, Reg};
use kiln_program::{InsnId, Program};

use super::search::Explorer;
use crate::code::prepared::Prepared;
use crate::code::{Code, Position};
use crate::error::Error;
use crate::explain::frames::too_deep;
use crate::options::Options;
use crate::path::Next;
use crate::rejection::Rejection;
use crate::state::{Kind, Register, State};

/// Ways that a path could go at one time. A run goes one way, and mostly its numbers tell which one.
const MOST_WAYS: usize = 16;

/// A step of a run: the registers before an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// The instruction.
    pub insn: InsnId,
    /// The number of calls that it is inside.
    pub depth: usize,
    /// The registers.
    pub registers: [u64; Reg::COUNT],
}

/// What became of following a run.
#[derive(Clone, Debug)]
pub enum Followed {
    /// Nothing is rejected.
    Whole,
    /// This step is rejected.
    Rejected(usize, Box<Rejection>),
    /// Before this step, the path is elsewhere, or other numbers are there: the kernel could not have made the run. A helper of
    /// the run returned what the kernel's never does.
    Apart(usize),
}

impl Prepared<'_> {
    /// Follows the run of a program.
    ///
    /// # Errors
    /// As [`Prepared::verify`], for what is found before the first instruction.
    pub fn follow(&self, program: &Program, options: &Options, run: &[Passed]) -> Result<Followed, Error> {
        let options = Options { skip_facts: true, explain: false, insns_left: None, ..options.clone() };
        let code = self.lay_out(program, &options)?;
        let mut follower = Follower { code: &code, explorer: Explorer::new(&code, &options) };
        let begun = follower.explorer.begin();
        follower.explorer.placed(begun)?;
        let mut whole = follower.along(run);
        if let Followed::Whole = whole {
            whole = follower.too_deep(run).unwrap_or(whole);
        }
        let globals = (1..code.functions.len()).filter(|at| code.is_verified_alone(*at));
        for function in globals.filter(|_| !matches!(whole, Followed::Rejected(..))).collect::<Vec<_>>() {
            if let Some(rejected) = follower.global(function, run) {
                return Ok(rejected);
            }
        }
        Ok(whole)
    }
}

/// A state, and the instruction that is next.
type Way = (State, Position);

struct Follower<'a> {
    code: &'a Code<'a>,
    explorer: Explorer<'a>,
}

impl Follower<'_> {
    /// Follows a run from the path's state. A rejection counts if every way that the run may have gone is rejected.
    fn along(&mut self, run: &[Passed]) -> Followed {
        let path = &mut self.explorer.path;
        let mut ways = vec![(std::mem::take(&mut path.state), path.at)];
        let mut alone = None;
        for (number, step) in run.iter().enumerate() {
            if alone.is_some_and(|depth| step.depth > depth) {
                continue;
            }
            ways = self.arrived(ways, step);
            alone = ways.first().filter(|(_, at)| self.code.calls_alone(*at)).map(|_| step.depth);
            if ways.is_empty() || ways.len() > MOST_WAYS {
                return Followed::Apart(number);
            }
            let mut next = Vec::new();
            let results: Vec<_> = ways.drain(..).map(|way| self.carried_out(way, &mut next)).collect();
            if results.iter().all(Result::is_err) {
                return match results.into_iter().next() {
                    Some(Err(Error::Rejected(rejection))) => Followed::Rejected(number, rejection),
                    _ => Followed::Apart(number),
                };
            }
            ways = next;
        }
        Followed::Whole
    }

    /// Follows the part of a run in a global function, which is verified alone.
    fn global(&mut self, function: usize, run: &[Passed]) -> Option<Followed> {
        let first = self.code.op(self.code.functions[function].start).node.id;
        let begin = run.iter().position(|step| step.insn == first)?;
        let inside = run[begin..].iter().take_while(|step| step.depth >= run[begin].depth).count();
        self.explorer.path.enter_global(function, false).ok()?;
        match self.along(&run[begin..begin + inside]) {
            Followed::Rejected(step, rejection) => Some(Followed::Rejected(begin + step, rejection)),
            Followed::Whole | Followed::Apart(_) => None,
        }
    }

    /// The run's functions take too much stack together.
    fn too_deep(&self, run: &[Passed]) -> Option<Followed> {
        let path = &self.explorer.path;
        let deep = path.findings.check_stack_depth(self.code, path.options).err()?;
        let first = self.code.op(self.code.functions[deep.function].start).node.id;
        let reached = run.iter().position(|step| step.insn == first && step.depth + 1 == deep.calls)?;
        Some(Followed::Rejected(reached, Box::new(too_deep(self.code, &deep))))
    }

    /// The ways that are where a step is, with its numbers.
    fn arrived(&mut self, ways: Vec<Way>, step: &Passed) -> Vec<Way> {
        let code = self.code;
        let here = |at: Position| code.op(at).node.id == step.insn;
        let mut found = Vec::new();
        for (state, at) in ways {
            if here(at) {
                found.push((state, at));
            } else if code.op(at).runs_callback() {
                // A callback ended. The run did not come back to the call, which runs it again or goes on.
                let mut next = Vec::new();
                let _ = self.carried_out((state, at), &mut next);
                found.extend(next.into_iter().filter(|(_, at)| here(*at)));
            }
        }
        found.retain_mut(|(state, _)| self.settle(state, &step.registers));
        found
    }

    /// Gives a state the numbers of a run; `false` if it is not the run's.
    fn settle(&self, state: &mut State, registers: &[u64; Reg::COUNT]) -> bool {
        for (index, value) in registers.iter().copied().enumerate().take(Reg::R10.index()) {
            let register = state.frame().registers[index];
            match register.kind() {
                Kind::Uninit => {}
                Kind::Scalar if !register.scalar.contains(value) => return false,
                Kind::Scalar => {
                    let known = Register { origin: register.origin, ..Register::constant(value) };
                    state.frame_mut().registers[index] = known;
                }
                _ if register.nullable => {
                    self.explorer.path.types.settle_null(self.code, state, &register, value == 0);
                }
                // An engine may give functions any addresses.
                Kind::Function => {}
                _ if value == 0 => return false,
                _ => {}
            }
        }
        true
    }

    /// Carries out one instruction; `next` gets where it may lead.
    fn carried_out(&mut self, (state, at): Way, next: &mut Vec<Way>) -> Result<(), Error> {
        let explorer = &mut self.explorer;
        explorer.path.resume(state, at);
        explorer.path.begin_instruction();
        let carried = explorer.carry_out();
        next.extend(explorer.pending.drain(..).map(|fork| (fork.state, fork.at)));
        explorer.path.forks.clear();
        match explorer.placed(carried)? {
            Next::At(at) | Next::Widened(at, _) => next.push((std::mem::take(&mut explorer.path.state), at)),
            Next::Done => {}
        }
        Ok(())
    }
}

impl Code<'_> {
    /// Whether an instruction calls such a function.
    fn calls_alone(&self, at: Position) -> bool {
        let op = self.op(at);
        matches!(op.node.insn, Insn::Call(_)) && op.callee.is_some_and(|callee| self.is_verified_alone(callee))
    }

    /// Whether a function is verified for any arguments, and its calls are not followed.
    fn is_verified_alone(&self, function: usize) -> bool {
        self.functions[function].global && self.functions[function].btf_id != 0
    }
}
