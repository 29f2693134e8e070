//! Our verifier and the running kernel's give the same verdict on single operations with numbers of every kind.
//!
//! `cargo test -p kiln-test --test sweep` takes a sample; `-- --ignored` many more, as `KILN_SWEEP` says: the first
//! program, the stride and how many (`KILN_SWEEP=0,29,40000`).

use kiln_test::engine::kernel_available;
use kiln_test::sweep::{Sweep, case, count};

/// A stride that covers every kind of each choice, because it is coprime to the number of cases.
const STRIDE: u64 = 3_571;

fn sweep(first: u64, stride: u64, cases: u64) {
    if let Err(reason) = kernel_available() {
        eprintln!("skipped: kernel: {reason}");
        return;
    }
    let mut sweep = Sweep::default();
    for number in 0..cases {
        sweep.compare(&case((first + number * stride) % count()));
    }
    let Sweep { programs, accepted, differences, .. } = &sweep;
    println!("{cases} of {} cases, {programs} programs, {accepted} accepted by both", count());
    println!("{} differences", differences.len());
    for difference in differences.iter().take(10) {
        println!("only {} accepts\n{}", if difference.by_kiln { "Kiln" } else { "the kernel" }, difference.text);
    }
    assert!(differences.is_empty(), "the verdicts of {} programs differ", differences.len());
}

#[test]
fn a_sample() {
    sweep(0, STRIDE, 1_000);
}

#[test]
#[ignore = "long: 40,000 programs and more"]
fn many() {
    let wanted = std::env::var("KILN_SWEEP").unwrap_or_default();
    let mut numbers = wanted.split(',').map_while(|number| number.trim().parse().ok());
    let (first, stride) = (numbers.next().unwrap_or(7), numbers.next().unwrap_or(STRIDE));
    sweep(first, stride, numbers.next().unwrap_or(20_000));
}
