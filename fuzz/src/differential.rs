//! Compares a program with its optimized form: for each goal, on many inputs, on several engines.
//!
//! ```text
//!   constants of the program --> inputs --+--> original  --> returns, packets, maps --+
//!                                         +--> optimized --> returns, packets, maps --+--> equal, or a Difference
//! ```
//!
//! Inputs run one after the other on the same maps. If a single input on fresh maps shows the difference, the
//! [`Difference`] names that input.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use kiln_driver::packets::Random;
use kiln_isa::{Imm64, Insn, Source};
use kiln_program::Object;
use kiln_superopt::Options;
use kiln_superopt::search::NAME;
use kiln_superopt::{Goal, Rewrite};
use kiln_vm::{Engine, Entries, Input, Vm};

use crate::subject::Subject;

/// Maximum number of instructions of one run; generated programs need a few hundred.
const BUDGET: u64 = 100_000;
/// Inputs of one comparison.
const INPUTS: usize = 28;
/// Bytes of the shortest input that a generated program takes.
const BYTES: usize = 64;
/// Rules and laws that no optimizer run uses, so that fuzzing can continue after a known bug.
static LEFT_OUT: OnceLock<BTreeSet<String>> = OnceLock::new();

/// Switches rules and laws off in all optimizer runs of this process.
pub fn leave_out(names: BTreeSet<String>) {
    // Called once, before the first run.
    let _ = LEFT_OUT.set(names);
}

/// All goals.
pub const GOALS: [Goal; 4] = [Goal::Balanced, Goal::Size, Goal::Speed, Goal::Complexity];

/// Options of a comparison.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Goals to optimize for.
    pub goals: Vec<Goal>,
    /// Whether search runs too; it takes far longer than all passes.
    pub search: bool,
    /// Rules and laws that are not used, by name.
    pub without: BTreeSet<String>,
    /// LLVM's version of the instruction set that new instructions may be of.
    pub isa: u8,
    /// Whether the VM's interpreter runs them too, in addition to its JIT.
    pub interpreter: bool,
    /// Whether the kernel runs them too, if it loads the original.
    pub kernel: bool,
}

/// An optimized program that behaves differently.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The goal.
    pub goal: Goal,
    /// Where it ran.
    pub engine: &'static str,
    /// The single input that shows it; `None` if it takes several, one after the other.
    pub input: Option<Vec<u8>>,
    /// What differs, in one line.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "optimized for {}, {} differs: {}", self.goal.name(), self.engine, self.what)
    }
}

/// The return values and packets of runs, one after the other on the same maps.
type Trace = Vec<(u32, Vec<u8>)>;

/// What is in maps, by their names.
type Maps = BTreeMap<String, Entries>;

/// Everything observable of some runs.
type Seen = (Trace, Maps);

/// What the comparison of a program did.
#[derive(Clone, Debug, Default)]
pub struct Compared {
    /// Optimizer runs.
    pub optimized: u64,
    /// Those that changed something.
    pub changed: u64,
    /// Runs of programs in the kernel.
    pub in_kernel: u64,
    /// The results, one per goal.
    pub rewrites: Vec<Rewrite>,
}

/// Compares the first program of an object with its optimized form. `None` if it does not run.
///
/// # Errors
/// Returns the first difference.
pub fn compare(subject: &Subject, object: &Object, plan: &Plan) -> Option<Result<Compared, Difference>> {
    let inputs = inputs(object);
    let expected = in_vm(object, &inputs, Engine::Jit).ok()?;
    // Addresses and old stack contents differ here, so a program whose result depends on them is not compared.
    if elsewhere(object, &inputs).ok()? != expected {
        return None;
    }
    let mut compared = Compared::default();
    for goal in &plan.goals {
        let rewrite = (subject.optimize)(object, &options(*goal, plan));
        compared.optimized += 1;
        if rewrite.object != *object {
            compared.changed += 1;
            if let Some(difference) = differs(object, &rewrite.object, *goal, plan, &inputs, &expected, &mut compared) {
                return Some(Err(difference));
            }
        }
        compared.rewrites.push(rewrite);
    }
    Some(Ok(compared))
}

/// What the optimizer is told.
pub fn options(goal: Goal, plan: &Plan) -> Options {
    let mut without = plan.without.clone();
    without.extend(LEFT_OUT.get().into_iter().flatten().cloned());
    if !plan.search {
        without.insert(NAME.to_owned());
    }
    Options {
        goal,
        without,
        search: 1,
        isa: plan.isa,
        budget: Duration::from_secs(2),
        threads: 1,
        ..Options::default()
    }
}

fn differs(
    object: &Object,
    optimized: &Object,
    goal: Goal,
    plan: &Plan,
    inputs: &[Vec<u8>],
    expected: &Seen,
    compared: &mut Compared,
) -> Option<Difference> {
    let difference = |engine, what, input| Some(Difference { goal, engine, what, input });
    let engines = [(Engine::Jit, "JIT"), (Engine::Interpreter, "interpreter")];
    for (engine, name) in engines.into_iter().take(1 + usize::from(plan.interpreter)) {
        let ran = in_vm(optimized, inputs, engine);
        if ran.as_ref() == Ok(expected) {
            continue;
        }
        for input in inputs {
            let one = std::slice::from_ref(input);
            let (old, new) = (in_vm(object, one, engine), in_vm(optimized, one, engine));
            if let Some(what) = different(&old, &new) {
                return difference(name, what, Some(input.clone()));
            }
        }
        let what = different(&Ok(expected.clone()), &ran).unwrap_or_default();
        return difference(name, what, None);
    }
    if !plan.kernel {
        return None;
    }
    // If the kernel refuses the original, its verdict on the result does not count.
    let old = in_kernel(object, inputs).ok()?;
    let new = in_kernel(optimized, inputs);
    compared.in_kernel += 2 * inputs.len() as u64;
    match new {
        Err(error) => difference("kernel", format!("it fails: {error}"), None),
        Ok(new) => {
            let at = (0..old.len()).find(|at| old[*at] != new[*at])?;
            let (old, new) = ((vec![old[at].clone()], Maps::new()), (vec![new[at].clone()], Maps::new()));
            let what = different(&Ok(old), &Ok(new)).unwrap_or_default();
            difference("kernel", what, Some(inputs[at].clone()))
        }
    }
}

/// What differs, if anything.
fn different(old: &Result<Seen, String>, new: &Result<Seen, String>) -> Option<String> {
    let ((old, old_maps), (new, new_maps)) = match (old, new) {
        (Ok(old), Ok(new)) => (old, new),
        (Ok(_), Err(error)) => return Some(format!("it fails: {error}")),
        // What does not run before need not run after.
        (Err(_), _) => return None,
    };
    for ((old_value, old_packet), (new_value, new_packet)) in old.iter().zip(new) {
        if old_value != new_value {
            return Some(format!("returns {new_value:#x} instead of {old_value:#x}"));
        }
        if let Some(at) = (0..old_packet.len()).find(|at| old_packet.get(*at) != new_packet.get(*at)) {
            return Some(format!("byte {at} of the packet differs"));
        }
    }
    let name = old_maps.keys().find(|name| old_maps.get(*name) != new_maps.get(*name))?;
    Some(format!("map {name} differs"))
}

/// Inputs for a program: edges, its own constants, noise; of several lengths, one too short.
pub fn inputs(object: &Object) -> Vec<Vec<u8>> {
    let mut values: Vec<u64> =
        vec![0, 1, 2, 7, 8, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, u64::MAX, 1 << 31, 1 << 32, 1 << 63];
    values.extend([0x7fff_ffff, 0xffff_ffff, 0xff00_0000_0000, 0x0123_4567_89ab_cdef]);
    let nodes = object.functions.iter().flat_map(|function| &function.nodes);
    let constants: BTreeSet<u64> = nodes.filter_map(|node| constant(&node.insn)).collect();
    let edges = values.len();
    for constant in constants {
        values.extend([constant, constant.wrapping_add(1), constant.wrapping_sub(1), constant.swap_bytes()]);
    }
    // The same inputs for all programs with the same constants, so that a failing program can be shrunk.
    let mut random = Random::new(7);
    let mut inputs = vec![vec![0; BYTES], vec![0xff; BYTES], vec![1; BYTES], vec![0x80; BYTES + 1], vec![1; 14]];
    for index in inputs.len()..INPUTS {
        let length = [BYTES, BYTES, BYTES + 8, 110][index % 4];
        let from = if index % 3 == 0 { edges } else { values.len() };
        let mut input = random.bytes(length);
        if index % 4 != 3 {
            fill(&mut input, &values[..from], &mut random);
        }
        inputs.push(input);
    }
    inputs
}

/// Writes values of several widths over an input.
fn fill(input: &mut [u8], values: &[u64], random: &mut Random) {
    let mut at = 0;
    while at < input.len() {
        let width = [8, 8, 4, 2, 1][random.below(5) as usize].min(input.len() - at);
        let value = values[random.below(values.len() as u64) as usize];
        input[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        at += width;
    }
}

/// The number that an instruction holds.
fn constant(insn: &Insn) -> Option<u64> {
    match insn {
        Insn::Alu { src: Source::Imm(imm), .. }
        | Insn::Branch { src: Source::Imm(imm), .. }
        | Insn::Store { src: Source::Imm(imm), .. } => Some(i64::from(*imm) as u64),
        Insn::LoadImm64 { imm: Imm64::Value(value), .. } => Some(*value),
        _ => None,
    }
}

/// All runs in one VM, and the maps in the end.
///
/// # Errors
/// Returns the VM's error if it refuses the program or a run faults.
pub fn in_vm(object: &Object, inputs: &[Vec<u8>], engine: Engine) -> Result<Seen, String> {
    let options = kiln_vm::Options { budget: BUDGET, ..kiln_vm::Options::default() };
    runs(object, inputs, engine, options)
}

/// All runs in the interpreter, at other addresses and with old data on the stack.
fn elsewhere(object: &Object, inputs: &[Vec<u8>]) -> Result<Seen, String> {
    let options = kiln_vm::Options { budget: BUDGET, stack_fill: 0xa5, place: Some(3), ..kiln_vm::Options::default() };
    runs(object, inputs, Engine::Interpreter, options)
}

fn runs(object: &Object, inputs: &[Vec<u8>], engine: Engine, options: kiln_vm::Options) -> Result<Seen, String> {
    let mut vm = Vm::new(object, options).map_err(|error| error.to_string())?;
    let name = &object.programs[0].name;
    vm.load(name).map_err(|error| error.to_string())?;
    let mut run = |input: &Vec<u8>| {
        let ran = vm.run(name, &Input::packet(input), engine).map_err(|error| error.to_string())?;
        Ok::<_, String>((ran.value as u32, ran.packet))
    };
    let trace = inputs.iter().map(&mut run).collect::<Result<_, _>>()?;
    Ok((trace, vm.snapshot()))
}

/// All runs in the kernel, loaded once.
///
/// # Errors
/// Returns the kernel's error if it refuses the program or a run.
pub fn in_kernel(object: &Object, inputs: &[Vec<u8>]) -> Result<Trace, String> {
    let loaded = kiln_linux::load_image(object, &object.programs[0]).map_err(|failure| failure.why())?;
    let run = |packet: &Vec<u8>| {
        let input = kiln_linux::TestInput { packet: packet.clone(), context: Vec::new(), repeat: 1 };
        let ran = loaded.prog.test_run(&input).map_err(|error| error.to_string())?;
        Ok((ran.value, ran.packet))
    };
    inputs.iter().map(run).collect()
}
