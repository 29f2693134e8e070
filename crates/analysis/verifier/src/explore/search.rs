//! The exploration: one path at a time, depth first, as the kernel does it.
//!
//! ```text
//!   pending: [(state, where)]        a branch with two possible outcomes pushes the taken side and goes on
//!   loop: enough seen here?          kept states of this position that cover the current one end the path
//!         step                       transfer and checks; a fault ends the verification
//!         end of path                take the next pending state
//! ```

use kiln_isa::Reg;
use kiln_platform::ProgramType;
use kiln_platform::limits::Limits;

use super::kept::Kept;
use super::observe::{Moment, Observer};
use super::step::is_jump;
use crate::check::profile::newer_instructions;
use crate::code::Code;
use crate::error::{Error, Step, TIME_IS_UP, WORK_IS_DONE, limit, refuse, reject, unsupported};
use crate::explain::explained;
use crate::facts::record::Recorder;
use crate::options::{Options, Statistics};
use crate::path::{Fork, Next, Path, Trail};
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::{Caller, Frame, Holds, Register};

/// Bytes that kept states and the origins of their numbers may take.
pub(crate) const MAX_STATE_BYTES: usize = 512 << 20;
/// Bytes that what is recorded for facts may take.
pub(crate) const MAX_FACT_BYTES: usize = 384 << 20;
/// States that a small program keeps, or has waiting: room for them is made at once.
pub(super) const FEW_STATES: usize = 32;
/// Processed instructions between two looks at the limits.
const BETWEEN_LIMITS: u64 = 256;

/// One verification: a path at a time, and what waits, was kept and was recorded.
pub(crate) struct Explorer<'a> {
    /// The path that is followed.
    pub path: Path<'a>,
    /// What waits to be explored, the state put aside last at the end.
    pub(super) pending: Vec<Fork>,
    pub(super) kept: Kept,
    /// What facts are made from, where they are wanted.
    pub recorder: Option<Recorder>,
    /// Which instructions the profile's kernel does not have; empty where it has them all.
    newer: Vec<bool>,
    /// Calls that run a callback are loops, whose turns are all explored before a state of one ends paths by what matters.
    pub(super) strict_callbacks: bool,
    limits: &'static Limits,
    pub(super) processed: u64,
    pub(super) jumps: u64,
}

impl<'a> Explorer<'a> {
    pub(crate) fn new(code: &'a Code<'a>, options: &'a Options) -> Explorer<'a> {
        Explorer {
            path: Path::new(code, options),
            pending: Vec::with_capacity(FEW_STATES),
            kept: Kept::new(code),
            recorder: (!options.skip_facts).then(|| Recorder::new(code.ops.len())),
            newer: newer_instructions(&options.profile, code),
            strict_callbacks: false,
            limits: options.profile.limits(),
            processed: 0,
            jumps: 0,
        }
    }

    /// Makes an explorer for which calls that run callbacks are loops.
    pub(crate) fn strict(code: &'a Code<'a>, options: &'a Options) -> Explorer<'a> {
        Explorer { strict_callbacks: true, ..Explorer::new(code, options) }
    }

    /// Explores the whole program.
    pub(crate) fn run(&mut self, observer: &mut impl Observer) -> Result<(), Error> {
        let begun = self.begin();
        self.placed(begun)?;
        self.explore(observer)?;
        self.path.findings.call_every_global(self.path.code, self.path.options);
        let mut next = 0;
        while let Some((function, asleep)) = self.path.findings.noted.globals_called.get(next).copied() {
            next += 1;
            self.path.at = self.path.code.functions[function].start;
            self.kept.next_root();
            let entered = self.path.enter_global(function, asleep);
            self.placed(entered)?;
            self.explore(observer)?;
        }
        Ok(())
    }

    /// The start of the program, and what is checked of it as a whole.
    pub(super) fn begin(&mut self) -> Step<()> {
        let path = &mut self.path;
        let code = path.code;
        if let Some(replaced) = &code.program.replaces {
            path.enter_replacement(replaced)?;
        } else if code.program_type == ProgramType::Ext {
            return unsupported("it replaces a function of another program, which `--replaces PROG.o` names");
        } else {
            let instance = path.findings.liveness.root(path.code, 0);
            let mut frame = Frame::new(0, 0, 0, Caller::Call, instance);
            frame.registers[Reg::R1.index()] = Register::pointer(Holds::Context);
            path.state = path.first_state(frame);
        }
        if !path.options.takes(BETWEEN_LIMITS) {
            return limit(WORK_IS_DONE);
        }
        path.check_addresses()?;
        path.at = path.code.functions[0].start;
        path.check_maps()?;
        path.types.check_hook(path.code, path.options)?;
        path.findings.begin_exceptions(path.code, &path.types)
    }

    /// A fault becomes an error at the path's position.
    pub(super) fn placed<T>(&self, step: Step<T>) -> Result<T, Error> {
        step.map_err(|fault| explained(&self.path, *fault))
    }

    fn moment(&self) -> Moment<'_, 'a> {
        Moment { path: &self.path, pending: self.pending.len(), kept: self.kept.total() }
    }

    fn explore(&mut self, observer: &mut impl Observer) -> Result<(), Error> {
        observer.started();
        loop {
            let walked = self.walk(observer);
            self.placed(walked)?;
            self.path.findings.liveness.update(self.path.code, &self.path.state);
            self.kept.path_ended(self.path.state.parent);
            let Some(Fork { state, at, .. }) = self.pending.pop() else { return Ok(()) };
            self.path.resume(state, at);
            observer.resumed();
            if self.processed > self.limits.processed {
                return self.placed(self.too_complex());
            }
        }
    }

    /// Follows the current path to its end.
    fn walk(&mut self, observer: &mut impl Observer) -> Step<()> {
        loop {
            self.processed += 1;
            self.path.begin_instruction();
            if self.path.options.most_insns.is_some_and(|most| self.processed > most) {
                return limit("the program takes more instructions than asked for (most_insns)".to_owned());
            }
            if self.processed > self.limits.processed {
                return self.too_complex();
            }
            if self.processed.is_multiple_of(BETWEEN_LIMITS) || self.path.findings.liveness.is_full() {
                self.check_limits()?;
            }
            if self.path.code.op(self.path.at).prune_point && self.is_covered()? {
                observer.covered(&self.moment());
                return Ok(());
            }
            if self.path.code.op(self.path.at).history_point {
                self.path.note_history();
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.visit(self.path.at, &self.path.state);
            }
            observer.before(&self.moment());
            let next = self.carry_out()?;
            observer.after(&self.moment());
            match next {
                Next::At(at) | Next::Widened(at, _) => self.path.at = at,
                Next::Done => return Ok(()),
            }
        }
    }

    /// Carries out one instruction, and takes what it puts aside.
    pub(super) fn carry_out(&mut self) -> Step<Next> {
        let at = self.path.at;
        if self.newer.get(at as usize) == Some(&true) {
            return self.path.options.reject_newer(self.path.code, self.path.at);
        }
        self.jumps += u64::from(is_jump(&self.path.code.op(at).node.insn));
        self.path.findings.liveness.begin();
        let instance = self.path.state.frames.last().map(|frame| frame.instance);
        let depth = self.path.state.frames.len();
        self.path.note_step();
        let next = self.path.step()?;
        self.mark_path()?;
        if !self.path.forks.is_empty() {
            self.take_forks()?;
        }
        if let Next::Widened(_, since) = next {
            let mut state = std::mem::take(&mut self.path.state);
            self.widen(&mut state, since);
            self.path.state = state;
        }
        // What a call writes is noted at the function that it calls.
        if let Some(instance) = instance.filter(|_| self.path.state.frames.len() == depth) {
            self.path.findings.liveness.commit(instance, at);
        }
        Ok(next)
    }

    /// Puts aside the other ways that the path could go.
    fn take_forks(&mut self) -> Step<()> {
        let mut forks = std::mem::take(&mut self.path.forks);
        let most = self.limits.pending;
        if self.pending.len() + forks.len() > most {
            return refuse(
                Reason::TooComplex,
                Case::Branches,
                format!("more than {most} branches wait to be explored"),
            );
        }
        for Fork { state, since, .. } in &mut forks {
            if let Some(since) = since.take() {
                self.widen(state, since);
            }
            self.kept.path_forked(state.parent);
        }
        self.pending.append(&mut forks);
        self.path.forks = forks;
        Ok(())
    }

    /// Whether the time for it, and the memory that it may keep, last for more.
    fn check_limits(&self) -> Step<()> {
        if self.path.options.time_is_up() {
            return limit(TIME_IS_UP);
        }
        if !self.path.options.takes(BETWEEN_LIMITS) {
            return limit(WORK_IS_DONE);
        }
        let findings = &self.path.findings;
        let trail = findings.trail.as_ref().map_or(0, Trail::bytes);
        if self.kept.bytes() + findings.origins.bytes() + findings.liveness.bytes() + trail > MAX_STATE_BYTES {
            let mib = MAX_STATE_BYTES >> 20;
            return limit(format!("the states to compare with take more than {mib} MiB (MAX_STATE_BYTES)"));
        }
        if self.recorder.as_ref().is_some_and(|recorder| recorder.bytes() > MAX_FACT_BYTES) {
            let mib = MAX_FACT_BYTES >> 20;
            return limit(format!("the facts of its instructions take more than {mib} MiB (MAX_FACT_BYTES)"));
        }
        Ok(())
    }

    fn too_complex<T>(&self) -> Step<T> {
        let most = self.limits.processed;
        reject(Reason::TooComplex, format!("more than {most} instructions explored"))
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let frame_bytes = self.path.findings.noted.stack_bytes.iter().copied().max().unwrap_or(0);
        Statistics {
            processed_insns: self.processed,
            peak_states: self.kept.peak(),
            total_states: self.kept.total(),
            stack_bytes: frame_bytes,
            frame_bytes,
        }
    }
}
