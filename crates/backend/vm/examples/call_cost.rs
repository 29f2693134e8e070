//! What a call and a load cost, with the parts that a caller can leave out.
//!
//! ```text
//! cargo run --release -p kiln-vm --example call_cost [packets|contexts|loads]
//! ```
//!
//! The best of many samples, in nanoseconds: other work on the machine only makes a sample longer.

use std::error::Error;
use std::hint::black_box;
use std::io::{ErrorKind, Write as _, stdout};
use std::time::Instant;

use kiln_program::Object;
use kiln_vm::{Input, Options, Vm};

const SAMPLES: usize = 200;
const CALLS: u32 = 20_000;
/// Slots of the program that is loaded.
const SLOTS: usize = 100;

fn best(count: u32, mut work: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let mut least = f64::INFINITY;
    for _ in 0..SAMPLES {
        let begun = Instant::now();
        for _ in 0..count {
            work()?;
        }
        least = least.min(begun.elapsed().as_nanos() as f64 / f64::from(count));
    }
    Ok(least)
}

/// Keeps the compiler from leaving out what made a value.
fn use_up<T>(value: T) -> Result<(), Box<dyn Error>> {
    drop(black_box(value));
    Ok(())
}

fn object(text: &str) -> Result<Object, Box<dyn Error>> {
    Ok(kiln_program::text::parse(text)?)
}

fn packets() -> Result<(), Box<dyn Error>> {
    let xdp = object("; program xdp name pass\n r0 = 2\n exit\n")?;
    let vm = Vm::open(&xdp, "pass", Options::default())?;
    let pass = vm.program("pass")?;
    for bytes in [64, 1500] {
        let mut packet = vec![0; bytes];
        let input = best(CALLS, || use_up(pass.run_input(&Input::packet(black_box(&packet)))?))?;
        writeln!(stdout(), "{input:8.1} ns  run_input, packet of {bytes} bytes: its changes are dropped")?;
        let run = best(CALLS, || use_up(pass.run(black_box(&mut packet))?))?;
        writeln!(stdout(), "{run:8.1} ns  run, packet of {bytes} bytes: copied in and back")?;
        let mut held = pass.hold()?;
        let run = best(CALLS, || use_up(held.run(black_box(&mut packet))?))?;
        writeln!(stdout(), "{run:8.1} ns  the same, of a held program: no lock")?;
    }
    let repeated = Input::packet(&[0; 64]).repeated(1000);
    let each = best(CALLS / 1000, || use_up(pass.run_input(&repeated)?))? / 1000.0;
    writeln!(stdout(), "{each:8.1} ns  each of 1000 repetitions in one run_input")?;
    Ok(())
}

fn contexts() -> Result<(), Box<dyn Error>> {
    let plain = object(
        "; program syscall name double\n r2 = *(u64 *)(r1 + 0)\n r2 += r2\n *(u64 *)(r1 + 0) = r2\n r0 = 0\n exit\n",
    )?;
    let vm = Vm::open(&plain, "double", Options::default())?;
    let double = vm.program("double")?;
    let mut memory = [1; 64];
    let run = best(CALLS, || use_up(double.run_context(black_box(&mut memory))?))?;
    writeln!(stdout(), "{run:8.1} ns  run_context, syscall program, 64 bytes borrowed")?;
    let mut held = double.hold()?;
    let run = best(CALLS, || use_up(held.run_context(black_box(&mut memory))?))?;
    writeln!(stdout(), "{run:8.1} ns  the same, of a held program: no lock")?;
    let run = best(CALLS, || use_up(held.run_input(&Input::context(black_box(&memory)))?))?;
    writeln!(stdout(), "{run:8.1} ns  run_input of a held program: 64 bytes copied, changes dropped")?;
    Ok(())
}

/// A program of [`SLOTS`] slots: a chain of loads, tests and sums over a packet.
fn program() -> String {
    let mut text = "; program xdp name sum\n r6 = *(u32 *)(r1 + 0)\n r7 = *(u32 *)(r1 + 4)\n r0 = 0\n r2 = r6\n r2 += 64\n if r2 > r7 goto done\n"
        .to_owned();
    for at in 0..(SLOTS - 8) / 4 {
        text += &format!(" r3 = *(u8 *)(r6 + {at})\n r3 <<= {}\n if r3 > {} goto done\n r0 += r3\n", at % 8, 40 + at);
    }
    text + " r0 &= 3\ndone:\n exit\n"
}

fn loads() -> Result<(), Box<dyn Error>> {
    let object = object(&program())?;
    let options = Options::default();
    let program = object.programs.first().ok_or("no program")?;
    let us = |ns: f64| ns / 1000.0;
    writeln!(stdout(), "{:8} slots", object.program_slots(program))?;
    let whole = best(10, || use_up(Vm::open(&object, "sum", Options::default())?))?;
    writeln!(stdout(), "{:8.1} us  Vm::open", us(whole))?;
    let mut packet = [0; 64];
    let called = best(10, || {
        let vm = Vm::open(&object, "sum", Options::default())?;
        use_up(vm.program("sum")?.run(black_box(&mut packet))?)
    })?;
    writeln!(stdout(), "{:8.1} us  the same, and a first call: stack and packet", us(called))?;
    let marks = best(10, || use_up(kiln_vm::prepare(object.clone(), &options)))?;
    writeln!(stdout(), "{:8.1} us  of it native operations (prepare)", us(marks))?;
    let maps = best(10, || use_up(Vm::new(&object, Options::default())?))?;
    writeln!(stdout(), "{:8.1} us  of it memory and maps (Vm::new)", us(maps))?;
    let verdict = kiln_verifier::Options { skip_facts: true, ..Default::default() };
    let verify = best(10, || use_up(kiln_verifier::verify(&object, program, &verdict)?))?;
    writeln!(stdout(), "{:8.1} us  of it verification: the verdict", us(verify))?;
    writeln!(
        stdout(),
        "{:8.1} us  of it the rest: admission, compiling, mapping code",
        us(whole - marks - maps - verify)
    )?;
    let facts = best(10, || use_up(kiln_verifier::verify(&object, program, &kiln_verifier::Options::default())?))?;
    writeln!(stdout(), "{:8.1} us  verification with facts, which a load does without", us(facts))?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let only = std::env::args().nth(1);
    let parts: [(&str, fn() -> Result<(), Box<dyn Error>>); 3] =
        [("packets", packets), ("contexts", contexts), ("loads", loads)];
    let mut wanted = parts.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name)).peekable();
    if wanted.peek().is_none() {
        return Err("the argument is packets, contexts or loads; without one, all are measured".into());
    }
    match wanted.try_for_each(|(_, part)| part()) {
        // Whoever reads the output has read enough.
        Err(error) if error.downcast_ref().is_some_and(|io: &std::io::Error| io.kind() == ErrorKind::BrokenPipe) => {
            Ok(())
        }
        result => result,
    }
}
