//! Forged results of calls that may read or write the caller's frame: the kernel shows that they are forgeries, and the
//! optimizer's own proof refuses them like the checker of evidence (`crates/certificate/tests/frame.rs`).

#[path = "../../certificate/tests/frame/listings.rs"]
mod listings;

use kiln_equiv::helpers::Helpers;
use kiln_equiv::simulation::arguments::Arguments;
use kiln_equiv::simulation::{Question, simulate};
use kiln_program::{Object, text};
use kiln_test::engine::{Engine, NoRun, kernel_available, run};
use listings::Forgery;

/// The kernel does not take these: it fills no register with a part of an address, and the types of the listings name no
/// global function.
const NOT_LOADED: &[&str] = &["both halves of a spilled address", "a global function"];
/// What the optimizer's proof does not see: that a number is an address in the frame, at which a helper reads. With
/// `--evidence` the checker refuses it.
const NOT_SEEN: &[&str] = &["an address that was in a map", "a difference of addresses"];

fn object(listing: &str) -> Object {
    text::parse(listing).unwrap_or_else(|error| panic!("{error}\n{listing}"))
}

/// What the optimizer's proof says of a listing, with the facts that the verifier has of the one before.
fn simulated(forgery: &Forgery, after: &str) -> Result<(), String> {
    let (before, after) = (object(&forgery.before), object(after));
    let facts = kiln_verifier::verify(&before, &before.programs[0], &kiln_verifier::Options::default());
    let facts = facts.map_err(|why| format!("the verifier: {why}"))?.facts;
    let question = Question {
        object: &before,
        before: &before.functions[forgery.function as usize],
        after: &after.functions[forgery.function as usize],
        facts: Some(&facts),
        inlined: None,
        arguments: &Arguments::whole(),
        solver_steps: 250_000,
        keep_segments: false,
        quick: false,
        stop: &|| false,
        helpers: &Helpers::default(),
    };
    simulate(&question).map(|_| ()).map_err(|why| why.to_string())
}

/// What the kernel returns for a listing.
fn ran(listing: &str) -> Result<u32, String> {
    let object = object(listing);
    match run(Engine::Kernel, &object, &object.programs[0], &[0x11; 64]) {
        Ok(ran) => Ok(ran.value),
        Err(NoRun::Skipped(why) | NoRun::Failed(why)) => Err(why),
    }
}

#[test]
fn the_kernel_and_the_optimizers_proof_see_through_forgeries() {
    let all = [listings::functions(), listings::numbers(), listings::contexts()].concat();
    let asks = kernel_available().map_err(|why| eprintln!("skipped, in the kernel: {why}")).is_ok();
    let mut wrong = Vec::new();
    for forgery in all.iter().filter(|own| !NOT_LOADED.iter().any(|name| own.what.starts_with(name))) {
        if let Err(why) = simulated(forgery, &forgery.harmless) {
            wrong.push(format!("{}: an honest change is not proved: {why}", forgery.what));
        }
        if simulated(forgery, &forgery.after).is_ok() != NOT_SEEN.contains(&forgery.what.as_str()) {
            wrong.push(format!("{}: the optimizer's proof accepts it, or NOT_SEEN is wrong", forgery.what));
        }
        if asks {
            match (ran(&forgery.before), ran(&forgery.after)) {
                (Ok(before), Ok(after)) if before != after => {}
                (before, after) => wrong.push(format!("{}: it returns {before:?} and {after:?}", forgery.what)),
            }
        }
    }
    println!("{} forgeries", all.len());
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}
