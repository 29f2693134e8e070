//! Forged results of calls that may read or write the caller's frame are refused, one for every row of the tables.
//!
//! The forged listings have no branch, so their certificates need no claim: they would pass if the checker took a call
//! for harmless. `crates/test/tests/frame_forgeries.rs` shows in the kernel that those that it can run are forgeries.

#[path = "frame/listings.rs"]
mod listings;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kiln_certificate::check::Chain;
use kiln_certificate::find;
use kiln_certificate::format::{Certificate, Proof, Stage};
use kiln_certificate::solver::{Answer, Process, Program, Solver};
use kiln_platform::{ArgKind, Helper, Kfunc, ProgramType};
use listings::Forgery;

/// One solver for all certificates.
struct Shared<'s>(&'s mut Process);

impl Solver for Shared<'_> {
    fn ask(&mut self, query: &str) -> Answer {
        self.0.ask(query)
    }
}

/// What the checker says of a listing that needs no claims.
fn says(forgery: &Forgery, after: &str, solver: &mut Process) -> Result<(), String> {
    let proof = Proof { pairs: BTreeMap::new(), left_out: BTreeSet::new() };
    let proofs = BTreeMap::from([(forgery.function, proof)]);
    let stages = vec![Stage { edits: find::difference(&forgery.before, after), proofs }];
    let chain = Chain::read(&forgery.before, Certificate::of(stages), after)
        .unwrap_or_else(|why| panic!("{}: {why}\n{}", forgery.what, forgery.before));
    chain.prove(vec![Shared(solver)], &|_, _| true).into_iter().try_for_each(|own| own.outcome.map(|_| ()))
}

fn refuses(forgeries: &[Forgery]) {
    let timeout = Duration::from_secs(60);
    let program = match Program::find(None, timeout) {
        Ok(program) => program,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let mut solver = Process::new(&program, timeout);
    let mut wrong = Vec::new();
    for forgery in forgeries {
        if let Err(why) = says(forgery, &forgery.harmless, &mut solver) {
            wrong.push(format!("{}: an honest change is refused: {why}", forgery.what));
        }
        match says(forgery, &forgery.after, &mut solver) {
            Ok(()) => wrong.push(format!("{}: a forgery is accepted", forgery.what)),
            Err(why) if why.contains("differ") => {}
            Err(why) => wrong.push(format!("{}: refused for another reason: {why}", forgery.what)),
        }
    }
    println!("{} forgeries", forgeries.len());
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), forgeries.len(), wrong.join("\n"));
}

/// A number in the frame is taken for not read by a call.
fn read(what: &str, head: &str, function: u32, call: &str) -> Forgery {
    let body = format!("r6 = r1\n{}\n{call}\nr0 = 0\nexit", listings::NUMBER);
    Forgery::new(format!("{what} reads"), head, function, &body, [listings::NUMBER, "*(u64 *)(r10 - 16) = 2"])
}

/// The arguments of a call, where one points to `r10 - 16`.
fn arguments(kinds: &[ArgKind], framed: usize) -> String {
    let mut text = String::new();
    for (index, kind) in kinds.iter().enumerate() {
        let register = index + 1;
        let value = match kind {
            _ if index == framed => match kind {
                ArgKind::FixedMemory { size, .. } if *size > 16 => {
                    format!("r10\nr{register} += -{}", size.next_multiple_of(8))
                }
                _ => format!("r10\nr{register} += -16"),
            },
            ArgKind::Context | ArgKind::ContextOrNull => "r6".to_owned(),
            ArgKind::ConstMapPtr => "map[table]".to_owned(),
            ArgKind::Callback => "fn[body]".to_owned(),
            ArgKind::Size { .. } | ArgKind::ConstAllocSize => "16".to_owned(),
            _ if kind.reads_memory() || kind.writes_memory() => "map_value[.data] + 0".to_owned(),
            _ => "0".to_owned(),
        };
        text += &format!("r{register} = {value}\n");
    }
    text
}

/// Every argument of every helper that may lead it, or a function that it calls back, to the frame.
fn helpers() -> Vec<Forgery> {
    let mut all = Vec::new();
    for helper in Helper::all() {
        let Some(kind) = ProgramType::ALL.iter().copied().find(|kind| helper.allowed_in(*kind)) else { continue };
        let head = format!(
            "; function body static section .text\n  r0 = 0\n  exit\n; program {} name prog\n; function prog global\n",
            kind.name()
        );
        let kinds = helper.prototype_for(kind).args;
        for (index, own) in kinds.iter().enumerate() {
            let opaque = matches!(own, ArgKind::StackOrNull | ArgKind::Dynptr(_));
            let call = format!("{}call {}", arguments(kinds, index), helper.name);
            let what = format!("{}, argument {}", helper.name, index + 1);
            if opaque || own.writes_memory() {
                all.push(listings::value(&what, &head, 1, &call));
            }
            if opaque || own.reads_memory() && *own != ArgKind::ConstString {
                all.push(read(&what, &head, 1, &call));
            }
            if helper.runs_callback() && opaque {
                all.push(listings::address(&what, &head, 1, &call));
            }
        }
    }
    all
}

/// Every kernel function, with a part of the frame as one of its arguments: no row states what it writes.
fn kernel_functions() -> Vec<Forgery> {
    let mut all = Vec::new();
    for (number, kfunc) in Kfunc::all().enumerate() {
        let head = format!("; extern {} kfunc\n; program sched_cls name prog\n", kfunc.name);
        let mut call = String::new();
        for index in 0..5 {
            let register = index + 1;
            let value = if index == number % 5 { format!("r10\nr{register} += -16") } else { "0".to_owned() };
            call += &format!("r{register} = {value}\n");
        }
        call += &format!("call kfunc[{}]", kfunc.name);
        let what = format!("{}, argument {}", kfunc.name, number % 5 + 1);
        all.extend([
            listings::value(&what, &head, 0, &call),
            read(&what, &head, 0, &call),
            listings::address(&what, &head, 0, &call),
        ]);
    }
    all
}

#[test]
fn functions_that_are_handed_the_frame_may_change_it() {
    refuses(&listings::functions());
}

#[test]
fn numbers_may_be_addresses_of_the_frame() {
    refuses(&listings::numbers());
}

#[test]
fn the_context_may_lie_in_a_callers_frame() {
    refuses(&listings::contexts());
}

#[test]
fn every_argument_of_a_helper_that_leads_to_the_frame_counts() {
    let forgeries = helpers();
    assert!(forgeries.len() > 100, "the table of helpers has more arguments in memory: {}", forgeries.len());
    refuses(&forgeries);
}

#[test]
fn every_kernel_function_may_change_the_frame_that_it_is_handed() {
    let forgeries = kernel_functions();
    assert!(forgeries.len() > 300, "the table has more kernel functions: {}", forgeries.len());
    refuses(&forgeries);
}
