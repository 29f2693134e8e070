//! Checks the whole chain: each listing follows from the one before, and the last is the claimed one.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use kiln_isa::Insn;
use kiln_program::{Cfg, CoreRelocation, Function, FunctionId, Linkage, Node, Object, Reference, text, validate};

use crate::format::{Certificate, Proof};
use crate::prove::{Count, prove};
use crate::provenance::{Arguments, Provenance};
use crate::solver::Solver;
use crate::walk::{Step, Version};

/// Maximum number of stages of a chain.
pub const MAX_STAGES: usize = 4096;
/// Maximum size of a listing in bytes.
pub const MAX_LISTING: usize = 256 << 20;
/// Maximum size, in bytes, of the listings of all stages together. A stage of two lines expands to a listing as long as
/// the one before, and all are kept. An original larger than a quarter of this may have four stages.
pub const MAX_CHAIN: usize = 64 << 20;

/// The checker's assumptions, which it prints with every verdict.
pub const ASSUMPTIONS: [(&str, &str); 9] = [
    ("instructions", "the table of kiln-isa says what each instruction does"),
    (
        "memory-safe",
        "each listing is memory safe, as the kernel's verifier makes sure of the object that is loaded: an access stays in the memory that its pointer was made for, and an address in the frame is made from R10 by moves and sums",
    ),
    (
        "prototypes",
        "the tables of kiln-platform name all that a helper, and prototypes all that a kernel function, reads and writes, which helpers fill their buffer or only answer, and which kernel functions return a slice of a dynptr or of their third argument",
    ),
    (
        "layouts",
        "the tables of kiln-platform say which fields of a context are addresses; contexts of tracing programs are plain memory",
    ),
    ("first-element", "an array has a first element, and the element of a key stays where it is"),
    ("frozen", "the loader freezes .rodata and .kconfig, and two maps share no memory"),
    ("packets", "no packet lies in the last 4 GiB of the address space"),
    (
        "undisturbed",
        "between two meeting pairs no other processor or user space is told from its stores or sees ours half done",
    ),
    (
        "linkage",
        "whether a function is static decides how it is verified and who may replace it, not what its code does",
    ),
];

/// The result for one function of one stage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The stage, from 1.
    pub stage: usize,
    /// The function's number.
    pub function: u32,
    /// Its name.
    pub name: String,
    /// Meeting pairs that the certificate names.
    pub pairs: usize,
    /// The queries, or what is not proved.
    pub outcome: Result<Count, String>,
}

/// A chain whose listings are read and fit together; its functions are not proved yet.
pub struct Chain {
    objects: Vec<Object>,
    proofs: Vec<(usize, u32, Proof)>,
}

/// What [`same_code`] does not compare, and why.
pub const NOT_COMPARED: [(&str, &str); 3] = [
    ("debug information", "source lines, and sections that no loader reads: the kernel only shows them"),
    ("marks of native operations", "a loader without Kiln ignores them, and Kiln checks each when it reads one"),
    ("the object's name", "its file may be called anything"),
];

/// Checks that two objects are the same, apart from the ids of instructions and [`NOT_COMPARED`].
///
/// # Errors
/// Returns the first difference.
pub fn same_code(one: &Object, other: &Object) -> Result<(), String> {
    same_frame(one, other)?;
    for (own, theirs) in one.functions.iter().zip(&other.functions) {
        let (code, others) = (code(one, own), code(other, theirs));
        if code != others {
            let at = code.iter().zip(&others).take_while(|(one, other)| one == other).count();
            let text = |code: &[Word]| code.get(at).map_or("the end".to_owned(), |word| format!("`{}`", word.0));
            return Err(format!("{} differs at instruction {at}: {} against {}", own.name, text(&code), text(&others)));
        }
    }
    Ok(())
}

/// Checks that two objects differ in instructions and [`NOT_COMPARED`] only.
fn same_frame(one: &Object, other: &Object) -> Result<(), String> {
    let frames = [
        ("license", one.license == other.license),
        ("kernel version", one.kernel_version == other.kernel_version),
        ("types (BTF)", one.btf == other.btf),
        ("maps", one.maps == other.maps),
        ("programs", one.programs == other.programs),
        ("externs", one.externs == other.externs),
        ("functions", one.functions.len() == other.functions.len()),
    ];
    if let Some((what, _)) = frames.into_iter().find(|(_, same)| !same) {
        return Err(format!("they do not have the same {what}"));
    }
    let bare = |function: &Function| Function { nodes: Vec::new(), ..function.clone() };
    match one.functions.iter().zip(&other.functions).find(|(own, theirs)| bare(own) != bare(theirs)) {
        Some((own, _)) => Err(format!("{} has another name, section, linkage or type", own.name)),
        None => Ok(()),
    }
}

/// Makes the global functions static that are static in the next listing. A stage that does this changes no instruction,
/// and runs as before: a call leads to the same code. Weak functions stay, because another one may take their place.
fn make_static(object: &mut Object, next: &Object) -> bool {
    let both = object.functions.iter_mut().zip(&next.functions);
    let changed = both.filter(|(own, new)| (own.linkage, new.linkage) == (Linkage::Global, Linkage::Static));
    changed.map(|(own, _)| own.linkage = Linkage::Static).count() > 0
}

/// An instruction, what it refers to, and how it is relocated.
type Word = (Insn, Reference, Option<CoreRelocation>);

/// A function's code with positions for the numbers of branch targets.
fn code(object: &Object, function: &Function) -> Vec<Word> {
    let at: HashMap<_, _> = function.nodes.iter().zip(0..).map(|(node, at)| (node.id, at)).collect();
    let word = |node: &Node| {
        let reference = match node.reference {
            Reference::Branch(target) => {
                Reference::Branch(kiln_program::InsnId(at.get(&target).copied().unwrap_or(u32::MAX)))
            }
            other => other,
        };
        let core = node.core.and_then(|core| object.core.get(core.index()).cloned());
        let core = core.map(|core| CoreRelocation { access_offset: 0, ..core });
        (node.insn, reference, core)
    };
    function.nodes.iter().map(word).collect()
}

fn read(listing: &str) -> Result<Object, String> {
    if listing.len() > MAX_LISTING {
        return Err(format!("a listing has no more than {MAX_LISTING} bytes"));
    }
    let object = text::parse(listing).map_err(|error| error.to_string())?;
    validate(&object).map_err(|error| error.to_string())?;
    Ok(object)
}

/// The listing after each stage.
fn listings(original: &str, certificate: &Certificate) -> Result<Vec<String>, String> {
    let mut left = MAX_CHAIN.max(original.len().saturating_mul(4));
    let mut listings: Vec<String> = Vec::new();
    for (index, stage) in certificate.stages.iter().enumerate() {
        let broken = |why: String| format!("stage {}: {why}", index + 1);
        let listing = stage.apply(listings.last().map_or(original, String::as_str)).map_err(broken)?;
        left = left.checked_sub(listing.len()).ok_or_else(|| {
            broken(format!("the listings of a chain have no more than {MAX_CHAIN} bytes together (MAX_CHAIN)"))
        })?;
        listings.push(listing);
    }
    Ok(listings)
}

impl Chain {
    /// Reads the original listing and replays the differences of the certificate.
    ///
    /// # Errors
    /// Returns where the chain is broken: a listing that cannot be read, a changed function without a proof, a proof of
    /// an unchanged function.
    pub fn read(original: &str, certificate: Certificate, optimized: &str) -> Result<Chain, String> {
        if certificate.stages.len() > MAX_STAGES {
            return Err(format!("a chain has no more than {MAX_STAGES} stages"));
        }
        let listings = listings(original, &certificate)?;
        let mut chain =
            Chain { objects: vec![read(original).map_err(|why| format!("the original: {why}"))?], proofs: Vec::new() };
        for (index, (stage, listing)) in certificate.stages.into_iter().zip(listings).enumerate() {
            let broken = |why: String| format!("stage {}: {why}", index + 1);
            let after = read(&listing).map_err(broken)?;
            let mut before = chain.objects[index].clone();
            let relinked = make_static(&mut before, &after);
            let differs = |why| broken(format!("something else than instructions changed: {why}"));
            same_frame(&before, &after).map_err(differs)?;
            let mut proofs = stage.proofs;
            if before.core != after.core || relinked && !proofs.is_empty() {
                return Err(differs("relocations, or linkage and instructions at once".to_owned()));
            }
            for (number, (old, new)) in (0..).zip(before.functions.iter().zip(&after.functions)) {
                let changed = code(&before, old) != code(&after, new);
                match (changed, proofs.remove(&number)) {
                    (true, Some(proof)) => chain.proofs.push((index, number, proof)),
                    (true, None) => return Err(broken(format!("{} changed without a proof", old.name))),
                    (false, Some(_)) => return Err(broken(format!("a proof of {}, which did not change", old.name))),
                    (false, None) => {}
                }
            }
            if let Some(number) = proofs.keys().next() {
                return Err(broken(format!("a proof of function {number}, which there is not")));
            }
            chain.objects.push(after);
        }
        let claimed = read(optimized).map_err(|why| format!("the optimized listing: {why}"))?;
        same_code(chain.last(), &claimed)
            .map_err(|why| format!("the chain does not end at the optimized listing: {why}"))?;
        Ok(chain)
    }

    /// The original object.
    pub fn first(&self) -> &Object {
        &self.objects[0]
    }

    /// The optimized object.
    pub fn last(&self) -> &Object {
        self.objects.last().expect("a chain has a listing")
    }

    /// The number of functions and stages to prove.
    pub fn steps(&self) -> usize {
        self.proofs.len()
    }

    /// Proves every step, with one thread per solver. `progress` gets the number of finished steps, and returns whether
    /// to continue.
    pub fn prove<S: Solver + Send>(
        &self,
        solvers: Vec<S>,
        progress: &(dyn Fn(usize, usize) -> bool + Sync),
    ) -> Vec<Verdict> {
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let verdicts = Mutex::new(Vec::new());
        let arguments: Vec<Arguments> = self.objects.iter().map(Arguments::of).collect();
        let stop = || !progress(done.load(Ordering::Relaxed), self.proofs.len());
        let work = |mut solver: S| {
            while let Some(own) = self.proofs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let verdict = self.prove_one(own, &arguments[own.0], &mut solver, &stop);
                done.fetch_add(1, Ordering::Relaxed);
                verdicts.lock().expect("no thread panics with it").push(verdict);
            }
        };
        std::thread::scope(|scope| {
            for solver in solvers {
                scope.spawn(|| work(solver));
            }
        });
        let mut verdicts = verdicts.into_inner().expect("no thread panics with it");
        verdicts.sort_by_key(|verdict: &Verdict| (verdict.stage, verdict.function));
        verdicts
    }

    /// Proves the steps of some functions with one solver.
    pub fn prove_some(
        &self,
        functions: &dyn Fn(u32) -> bool,
        solver: &mut dyn Solver,
        stop: &dyn Fn() -> bool,
    ) -> Vec<Verdict> {
        let arguments: Vec<Arguments> = self.objects.iter().map(Arguments::of).collect();
        let steps = self.proofs.iter().filter(|(_, number, _)| functions(*number));
        steps.map(|own| self.prove_one(own, &arguments[own.0], solver, stop)).collect()
    }

    fn prove_one(
        &self,
        (stage, number, proof): &(usize, u32, Proof),
        arguments: &Arguments,
        solver: &mut dyn Solver,
        stop: &dyn Fn() -> bool,
    ) -> Verdict {
        let objects = [&self.objects[*stage], &self.objects[*stage + 1]];
        let functions = objects.map(|object| &object.functions[*number as usize]);
        let version = |function| {
            let provenance = Provenance::of(objects[0], FunctionId(*number), function, arguments);
            Version { function, cfg: Cfg::new(function), provenance }
        };
        let step =
            Step { versions: functions.map(version), pairs: &proof.pairs, left_out: &proof.left_out, callees: objects };
        let sound = |(old, new): &(u32, u32)| {
            [old, new].into_iter().zip(functions).all(|(at, function)| (*at as usize) < function.nodes.len())
        };
        let outcome = match proof.pairs.keys().find(|pair| !sound(pair)) {
            Some(pair) => Err(format!("there is no pair ({}, {})", pair.0, pair.1)),
            None => prove(&step, solver, stop).map_err(|(_, why)| why),
        };
        Verdict {
            stage: stage + 1,
            function: *number,
            name: functions[0].name.clone(),
            pairs: proof.pairs.len(),
            outcome,
        }
    }
}
