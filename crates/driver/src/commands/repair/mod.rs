//! `kiln repair`: a rejected program becomes one that loads, with the proof that it does the same.
//!
//! ```text
//!   read -> verify -> rejected? -> changes (kiln_repair), each accepted by our verifier and proved -> write
//!                        |                                              |                               |
//!                        |                    the certificate that verify-evidence replays      the kernel's verdict
//!                        +-> no such changes: an input on which it goes wrong (search)
//! ```

mod mistake;
mod search;
mod witness;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kiln_inspect::Input;
use kiln_inspect::check::{KernelVerdict, no_type};
use kiln_inspect::input::of_object;
use kiln_inspect::show::shown::Shown;
use kiln_platform::Profile;
use kiln_program::{Error, Node, Object, Program};
use kiln_repair::{Change, EndValue, Outcome as Search, Undecided, end_value};
use kiln_superopt::Progress;
use kiln_verifier::Rejection;
use serde::Serialize;

use crate::{evidence, kernel};

pub use search::find as find_input;
pub use witness::{ShownStep, Stimulus, Witness, replay};

/// The time for an object unless another one is set. [`Effort`] mostly ends a search before.
pub const DEFAULT_BUDGET: Duration = Duration::from_secs(60);

/// How much is tried for one program. It is work and not time, so that a busy machine decides the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Instructions that the verifier processes.
    pub insns: u64,
    /// Steps of the solver for one proof.
    pub proof_steps: u64,
    /// Steps of the solver for all proofs.
    pub steps: u64,
}

impl Effort {
    /// For `kiln repair`: about 20 seconds of the verifier on an idle machine, 10 for one proof, 40 for all proofs.
    pub const FULL: Effort = Effort { insns: 20_000_000, proof_steps: 25_000_000, steps: 100_000_000 };
    /// For a hint after a check: about 0.3 seconds.
    pub const TRIAL: Effort = Effort { insns: 200_000, proof_steps: 500_000, steps: 500_000 };
}

/// How to repair.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Options {
    /// The kernel that decides; by default the one of `kiln check`.
    pub profile: Option<Profile>,
    /// Programs to repair; all when empty.
    pub programs: Vec<String>,
    /// Time for the object at most.
    pub budget: Duration,
    /// Work for each program at most.
    pub effort: Effort,
    /// Whether the running kernel is asked about repaired programs, where it may be asked.
    pub ask_kernel: bool,
    /// Whether a check that ends the run is inserted where nothing can be proved.
    pub guards: Guards,
    /// Whether an input is sought on which a program that is not repaired goes wrong.
    pub find_input: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            profile: None,
            programs: Vec::new(),
            budget: DEFAULT_BUDGET,
            effort: Effort::FULL,
            ask_kernel: false,
            guards: Guards::None,
            find_input: true,
        }
    }
}

/// Checks that end the run in the states in which the original would be unsafe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guards {
    /// None.
    None,
    /// With the value of [`EndValue`]; none for a type that has no such value.
    ByType,
    /// With this value.
    Value(i32),
}

impl Guards {
    /// The value for a program, and what it means.
    fn of(self, program: &Program) -> Option<EndValue> {
        match self {
            Guards::None => None,
            Guards::ByType => program.program_type.and_then(end_value),
            Guards::Value(value) => Some(EndValue { value, meaning: "chosen with --guards" }),
        }
    }
}

/// How a guard ends the run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Guard {
    /// What the program returns.
    pub value: i32,
    /// What that means.
    pub meaning: &'static str,
}

/// What became of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// The verifier accepts it as it is.
    Accepted,
    /// The verifier accepts it now, and it is proved to do the same.
    RepairedProved,
    /// The verifier accepts it now. A check ends the run where the original would be unsafe; all else is proved to be the
    /// same.
    RepairedGuarded,
    /// It is rejected, as it was, and goes wrong on an input that was found.
    ReallyUnsafe,
    /// It is rejected, as it was. On an input that was found it does what a rule of the kernel's forbids.
    Forbidden,
    /// It is rejected, and as it was.
    NotDecided,
}

/// What was inserted into a program.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct Inserted {
    /// The function.
    pub function: Shown,
    /// The slot, in the original, of the instruction in front of which it was inserted.
    pub slot: u32,
    /// The source line, `file:line`, where known.
    pub place: Option<Shown>,
    /// The text of that line.
    pub line: Option<Shown>,
    /// The register, if the change is about one.
    pub register: Option<String>,
    /// The range that the verifier needs, ends included, if the change is about one.
    pub range: Option<[i32; 2]>,
    /// The name of the means.
    pub means: &'static str,
    /// What an author would write by hand before this line; `n` is the number.
    pub by_hand: String,
}

/// One program's row.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct Repaired {
    /// The program.
    pub program: Shown,
    /// What became of it.
    pub decision: Decision,
    /// How the original is rejected: the stable code, and the place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejected: Option<Shown>,
    /// What was inserted.
    pub changes: Vec<Inserted>,
    /// Why it was not decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Shown>,
    /// A change that the verifier would accept, and that is not proved to change nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unproved: Option<Inserted>,
    /// A run on which the program goes wrong or does what is forbidden, where one was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub witness: Option<Witness>,
    /// How the run ends where the original would be unsafe, if there are such checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guard>,
    /// The running kernel's verdict on the result, where it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelVerdict>,
}

impl Repaired {
    fn new(program: &Program, decision: Decision) -> Repaired {
        Repaired {
            program: program.name.as_str().into(),
            decision,
            rejected: None,
            changes: Vec::new(),
            reason: None,
            unproved: None,
            witness: None,
            guard: None,
            kernel: None,
        }
    }
}

/// A repaired object and the account of it.
#[non_exhaustive]
pub struct Outcome {
    /// The IR.
    pub object: Object,
    /// The file.
    pub bytes: Vec<u8>,
    /// Program by program.
    pub programs: Vec<Repaired>,
    /// What shows that each function that changed does what it did, by its number.
    pub proofs: evidence::Proofs,
    /// Whether the time was up, or Ctrl-C came.
    pub cut_short: bool,
    /// Time spent.
    pub spent: Duration,
}

impl Outcome {
    /// The exit code: 1 if a program is still rejected, by Kiln or by the running kernel.
    pub fn exit_code(&self) -> u8 {
        let bad = |own: &Repaired| {
            let refused = matches!(own.kernel, Some(KernelVerdict::Rejected { .. }));
            matches!(own.decision, Decision::NotDecided | Decision::ReallyUnsafe | Decision::Forbidden) || refused
        };
        u8::from(self.programs.iter().any(bad))
    }
}

/// Repairs an object.
///
/// # Errors
/// [`Error::InvalidInput`] when there is no such program, or the result cannot be written as an object file.
pub fn repair(input: &Input, options: &Options, progress: &mut dyn Progress) -> Result<Outcome, Error> {
    let begun = Instant::now();
    if let Some(elf) = &input.elf {
        elf.check_movable().map_err(|error| kiln_inspect::input::elf_error(&input.object.name, error))?;
    }
    let mut work = Work::new(input, options, progress, begun);
    let selected = input.select(&options.programs)?;
    // What needs no repair is known before the search for the first one begins.
    let accepted: Vec<bool> = selected.iter().map(|program| work.accepts(program)).collect();
    let mut waiting = accepted.iter().filter(|accepted| !**accepted).count() as u32;
    let mut programs = Vec::new();
    for (program, accepted) in selected.into_iter().zip(accepted) {
        if accepted {
            programs.push(Repaired::new(program, Decision::Accepted));
            continue;
        }
        work.share(begun + options.budget, waiting);
        waiting -= 1;
        programs.push(work.one(program));
    }
    let Work { object, proofs, cut_short, .. } = work;
    let bytes = match &input.elf {
        None => kiln_program::text::print(&object).into_bytes(),
        Some(elf) => elf.write(&object).map_err(|error| Error::InvalidInput(error.to_string()))?,
    };
    if options.ask_kernel && input.elf.is_some() && kiln_linux::available().is_ok() {
        let repaired =
            |own: &&mut Repaired| matches!(own.decision, Decision::RepairedProved | Decision::RepairedGuarded);
        for own in programs.iter_mut().filter(repaired) {
            let program = object.program(own.program.exact());
            own.kernel = program.map(|program| kernel::verdict::verdict(&bytes, &object, program));
        }
    }
    Ok(Outcome { object, bytes, programs, proofs, cut_short, spent: begun.elapsed() })
}

/// What a loader makes of an object here, if that is something else. One that cannot be resolved stays as it is.
fn as_loaded(input: &Input, object: &Object) -> Option<Object> {
    let loaded = kiln_inspect::input::as_loaded(object, input.kernel_types.as_ref()).ok()?;
    (loaded.functions != object.functions || loaded.maps != object.maps).then_some(loaded)
}

struct Work<'w> {
    input: &'w Input,
    verifier: kiln_verifier::Options,
    /// The object with all repairs so far.
    object: Object,
    /// What a loader makes of the original here, if that is something else: what is verified.
    loaded: Option<Input>,
    proofs: evidence::Proofs,
    progress: &'w mut dyn Progress,
    begun: Instant,
    end: Instant,
    cut_short: bool,
    guards: Guards,
    find_input: bool,
    effort: Effort,
    /// What is left of [`Effort::insns`] for the current program.
    insns_left: Arc<AtomicU64>,
}

impl<'w> Work<'w> {
    fn new(input: &'w Input, options: &Options, progress: &'w mut dyn Progress, begun: Instant) -> Work<'w> {
        let end = begun + options.budget;
        let own = input.verifier_options();
        let profile = options.profile.clone().unwrap_or(own.profile);
        // The kernel of this machine knows how many processors there may be; another one is for any machine.
        let processors = if options.profile.is_none() { kiln_inspect::input::possible_processors() } else { None };
        let verifier = kiln_verifier::Options { profile, processors, deadline: Some(end), ..own };
        let loaded = if options.profile.is_none() { as_loaded(input, &input.object) } else { None };
        let loaded = loaded.map(|object| Input { kernel_types: input.kernel_types.clone(), ..of_object(object) });
        // Marks are about the instructions that stand now.
        let object = Object { operations: Vec::new(), ..input.object.clone() };
        Work {
            input,
            verifier,
            object,
            loaded,
            proofs: evidence::Proofs::new(),
            progress,
            begun,
            end,
            cut_short: false,
            guards: options.guards,
            find_input: options.find_input,
            effort: options.effort,
            insns_left: Arc::default(),
        }
    }

    /// Whether a program is accepted as it is.
    fn accepts(&self, program: &Program) -> bool {
        program.program_type.is_some() && self.verifies(&self.object, program)
    }

    /// Whether a program is accepted as it is loaded.
    fn verifies(&self, object: &Object, program: &Program) -> bool {
        let loaded = self.loaded.as_ref().and_then(|_| as_loaded(self.input, object));
        kiln_verifier::verify(loaded.as_ref().unwrap_or(object), program, &self.verifier).is_ok()
    }

    /// Gives the next of some programs its share of the time that is left.
    fn share(&mut self, end: Instant, waiting: u32) {
        let now = Instant::now();
        self.end = now + end.saturating_duration_since(now) / waiting.max(1);
        self.verifier.deadline = Some(self.end);
    }

    fn one(&mut self, program: &Program) -> Repaired {
        let mut row = Repaired::new(program, Decision::NotDecided);
        if program.program_type.is_none() {
            row.reason = Some(no_type(program).into());
            return row;
        }
        let before = self.object.clone();
        self.insns_left = Arc::new(AtomicU64::new(self.effort.insns));
        let (search, proofs) = self.search(program);
        match search {
            Search::Accepted => row.decision = Decision::Accepted,
            Search::Repaired(object, changes) => {
                let guard = changes.iter().find_map(|change| change.ends_with);
                // Nothing proves that a guarded function does what the original does: it does not.
                let proofs = if guard.is_some() { Some(evidence::Proofs::new()) } else { proofs };
                match (self.harms(&object, program), proofs) {
                    (Some(other), _) => {
                        row.reason = Some(format!("the verifier rejects {other} with the changes").into());
                    }
                    (None, None) => row.reason = Some("nothing proves all changes together".into()),
                    (None, Some(proofs)) => {
                        let meaning = self.guards.of(program).map_or("", |own| own.meaning);
                        row.guard = guard.map(|value| Guard { value, meaning });
                        row.decision =
                            if guard.is_some() { Decision::RepairedGuarded } else { Decision::RepairedProved };
                        row.changes = changes.iter().map(|change| inserted(&before, change)).collect();
                        self.object = object;
                        self.proofs.extend(proofs);
                    }
                }
            }
            Search::Undecided(Undecided { rejection, reason, removed, unproved }) => {
                let removed = match removed {
                    0 => String::new(),
                    some => format!(" (after {some} removed before it)"),
                };
                row.witness = rejection.as_ref().and_then(|own| self.witness(program, own));
                if let Some(witness) = &row.witness {
                    row.decision = if witness.rule.is_some() { Decision::Forbidden } else { Decision::ReallyUnsafe };
                }
                row.rejected = rejection.map(|own| {
                    let place = own.line.as_ref().map_or_else(
                        || format!("instruction {} of {}", own.position.1, own.position.0),
                        |line| format!("{}:{}", line.file, line.line),
                    );
                    format!("{} at {place}", own.reason.code()).into()
                });
                let no_value = match self.guards {
                    Guards::ByType if self.guards.of(program).is_none() => {
                        "; no value ends every program of this type without harm, so --guards=VALUE has to name one"
                    }
                    _ => "",
                };
                let used_up = match self.insns_left.load(Ordering::Relaxed) {
                    _ if Instant::now() >= self.end => "; the time was up",
                    0 => "; the verifier's work for one program was used up",
                    _ => "",
                };
                row.reason = Some(format!("{reason}{removed}{no_value}{used_up}").into());
                row.unproved = unproved.as_ref().map(|change| inserted(&before, change));
            }
        }
        self.cut_short |= Instant::now() >= self.end;
        row
    }

    /// Searches for changes. Returns the proofs of the functions that changed, too, if they are proved as they are then.
    fn search(&mut self, program: &Program) -> (Search, Option<evidence::Proofs>) {
        let guard = self.guards.of(program).map(|own| own.value);
        let Work { input, verifier, object, loaded, progress, begun, end, cut_short, effort, insns_left, .. } = self;
        let (begun, end, slots) = (*begun, *end, evidence::slots(&input.object));
        let options = kiln_verifier::Options { insns_left: Some(Arc::clone(insns_left)), ..verifier.clone() };
        let load = |object: &Object| loaded.as_ref().and_then(|_| as_loaded(input, object));
        let verifier = kiln_repair::Verifier { options, loaded: &load };
        let go_on = std::cell::RefCell::new(|what: &'static str| {
            let on = progress.step(what, slots, begun.elapsed()) && Instant::now() < end;
            *cut_short |= !on;
            on && insns_left.load(Ordering::Relaxed) > 0
        });
        // What was proved, in order. The last question may be refused: then what was proved before it is kept.
        let mut proved: Vec<(Changed, evidence::Proofs)> = Vec::new();
        let mut left = effort.steps;
        let mut prove = |base: &Object, changed: &Object| {
            let time = end.saturating_duration_since(Instant::now());
            // What earlier repairs changed is proved already.
            let mut own = changed.clone();
            for (index, function) in own.functions.iter_mut().enumerate() {
                if function.nodes == object.functions[index].nodes {
                    function.nodes.clone_from(&input.object.functions[index].nodes);
                }
            }
            let mut step = || (go_on.borrow_mut())("proof");
            // What guards change is not to be proved: the rest is proved of the program with them.
            let mut from = input.object.clone();
            for (index, function) in base.functions.iter().enumerate() {
                if function.nodes != object.functions[index].nodes {
                    from.functions[index] = function.clone();
                }
            }
            // The code of a function that became static is the same.
            evidence::relink(&mut from, &own);
            let limits = evidence::Limits {
                time,
                clock: evidence::Clock::Wall,
                steps: left.min(effort.proof_steps),
                in_parts: false,
            };
            let (proofs, refused, spent) = evidence::certify(&from, &own, &[], limits, &mut step);
            left -= spent;
            if let Some(why) = refused.into_values().next() {
                return Err(why);
            }
            proved.push((changed_functions(object, changed), proofs));
            Ok(())
        };
        let search =
            kiln_repair::repair(object, program, &verifier, guard, &mut prove, &mut || (go_on.borrow_mut())("repair"));
        let proofs = match &search {
            Search::Repaired(repaired, _) => {
                let own = changed_functions(object, repaired);
                proved.into_iter().rev().find(|(of, _)| *of == own).map(|(_, proofs)| proofs)
            }
            _ => None,
        };
        (search, proofs)
    }

    /// An input on which a rejected program goes wrong.
    fn witness(&mut self, program: &Program, rejection: &Rejection) -> Option<Witness> {
        if !self.find_input {
            return None;
        }
        let (end, begun, slots) = (self.end, self.begun, evidence::slots(&self.input.object));
        let input = self.loaded.as_ref().unwrap_or(self.input);
        let program = input.object.program(&program.name)?;
        let mut go_on = || self.progress.step("input", slots, begun.elapsed()) && Instant::now() < end;
        search::find(input, program, rejection, &self.verifier, &mut go_on)
    }

    /// A program that was accepted and that a changed object's functions would break.
    fn harms(&self, changed: &Object, repaired: &Program) -> Option<Shown> {
        let reaches = |program: &Program| {
            let functions = self.object.reachable_functions(program.entry);
            functions.into_iter().any(|id| {
                let [old, new] = [&self.object, changed].map(|object| object.function(id));
                old.nodes != new.nodes || old.linkage != new.linkage
            })
        };
        let others = self.object.programs.iter().filter(|program| program.name != repaired.name && reaches(program));
        let mut broken =
            others.filter(|program| self.verifies(&self.object, program) && !self.verifies(changed, program));
        broken.next().map(|program| program.name.as_str().into())
    }
}

/// Functions that are not what they were, by their places, with their instructions.
type Changed = Vec<(usize, Vec<Node>)>;

fn changed_functions(before: &Object, after: &Object) -> Changed {
    let pairs = before.functions.iter().zip(&after.functions).enumerate();
    let changed = pairs.filter(|(_, (old, new))| old.nodes != new.nodes);
    changed.map(|(index, (_, new))| (index, new.nodes.clone())).collect()
}

/// A change as reports say it. `object` is the one before all changes of the program.
fn inserted(object: &Object, change: &Change) -> Inserted {
    let function = object.function(change.function);
    let position = function.position(change.before).unwrap_or(0);
    let [low, high] = change.range.map(|end| end.to_string());
    Inserted {
        function: function.name.as_str().into(),
        slot: function.nodes[..position].iter().map(|node| node.insn.slots()).sum(),
        place: change.line.as_ref().map(|line| format!("{}:{}", line.file, line.line).into()),
        line: change.line.as_ref().map(|line| line.text.trim()).filter(|text| !text.is_empty()).map(Into::into),
        register: change.means.has_register().then(|| format!("r{}", change.register.number())),
        range: change.means.has_range().then_some(change.range),
        means: change.means.name,
        by_hand: {
            let value = change.ends_with.unwrap_or_default().to_string();
            change.means.source.replace("LOW", &low).replace("HIGH", &high).replace("VALUE", &value)
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets the first search wait until its time is over.
    struct Slow(Duration);

    impl Progress for Slow {
        fn step(&mut self, _: &'static str, _: u32, _: Duration) -> bool {
            std::thread::sleep(std::mem::take(&mut self.0));
            true
        }
    }

    #[test]
    fn work_ends_a_search_and_the_report_says_so() {
        let text = "; program xdp section \"xdp\" name hard\n r1 = *(u32 *)(r1 + 0)\n r0 = *(u8 *)(r1 + 0)\n exit\n";
        let object = kiln_program::text::parse(text).expect("an object");
        let input = kiln_inspect::input::of_object(object);
        let effort = Effort { insns: 0, ..Effort::FULL };
        let options = Options { effort, find_input: false, ..Options::default() };
        let outcome = repair(&input, &options, &mut ()).expect("it is not repaired");
        let own = &outcome.programs[0];
        let reason = own.reason.as_ref().expect("a reason").exact();
        assert!(own.decision == Decision::NotDecided && reason.contains("used up"), "{reason}");
        assert!(!outcome.cut_short);
    }

    #[test]
    fn a_program_that_takes_long_leaves_the_others_their_time() {
        // The first reads beyond a packet's beginning without a check.
        let text = "; program xdp section \"xdp\" name hard\n r1 = *(u32 *)(r1 + 0)\n r0 = *(u8 *)(r1 + 0)\n exit\n\
                    ; program xdp section \"xdp\" name easy\n r0 = 2\n exit\n";
        let object = kiln_program::text::parse(text).expect("an object");
        let input = kiln_inspect::input::of_object(object);
        let budget = Duration::from_millis(500);
        let options = Options { budget, find_input: false, ..Options::default() };
        let outcome = repair(&input, &options, &mut Slow(2 * budget)).expect("it is repaired or not");
        let decisions: Vec<Decision> = outcome.programs.iter().map(|own| own.decision).collect();
        assert_eq!(decisions, [Decision::NotDecided, Decision::Accepted]);
    }
}
