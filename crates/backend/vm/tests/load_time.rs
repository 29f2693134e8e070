//! What a load costs, compared with its verification: a bound that a regression by a factor exceeds.
//!
//! `cargo run --release -p kiln-vm --example call_cost loads` prints the figures in microseconds.

use std::time::{Duration, Instant};

use kiln_program::Object;
use kiln_vm::{Options, Vm};

/// Samples, each of one load and one verification: the least of each counts, because other work only makes a sample longer.
const SAMPLES: usize = 60;

/// The program of `call_cost`: loads, tests and sums over a packet, in as many slots.
fn object(slots: usize) -> Object {
    let mut text = "; program xdp name sum\n r6 = *(u32 *)(r1 + 0)\n r7 = *(u32 *)(r1 + 4)\n r0 = 0\n r2 = r6\n r2 += 64\n if r2 > r7 goto done\n"
        .to_owned();
    for at in 0..(slots - 8) / 4 {
        text += &format!(
            " r3 = *(u8 *)(r6 + {})\n r3 <<= {}\n if r3 > {} goto done\n r0 += r3\n",
            at % 64,
            at % 8,
            40 + at
        );
    }
    kiln_program::text::parse(&(text + " r0 &= 3\ndone:\n exit\n")).expect("it parses")
}

/// The least times of a load and of a verification that gives the verdict alone.
fn times(object: &Object) -> [Duration; 2] {
    let verdict = kiln_verifier::Options { skip_facts: true, ..Default::default() };
    let mut least = [Duration::MAX; 2];
    for _ in 0..SAMPLES {
        let begun = Instant::now();
        let vm = Vm::open(object, "sum", Options::default()).expect("it loads");
        drop(vm);
        least[0] = least[0].min(begun.elapsed());
        let begun = Instant::now();
        kiln_verifier::verify(object, &object.programs[0], &verdict).expect("it is accepted");
        least[1] = least[1].min(begun.elapsed());
    }
    println!("a load takes {:?}, its verdict {:?}", least[0], least[1]);
    least
}

/// Verification, native operations, maps, code, and dropping all of it: about two verdicts.
#[test]
fn a_load_takes_few_verdicts() {
    let [load, verdict] = times(&object(100));
    assert!(load < 4 * verdict, "a load takes {load:?}, its verdict {verdict:?}");
}

/// Eight times the slots take about eight times as long, not the square of it.
#[test]
fn a_load_grows_with_the_program() {
    let [[short, _], [long, _]] = [100, 800].map(|slots| times(&object(slots)));
    assert!(long < 24 * short, "100 slots take {short:?}, 800 take {long:?}");
}
