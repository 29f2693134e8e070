//! Indirect jumps: what both functions do behind one is compared for every entry of their tables.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kiln_certificate::check::Chain;
use kiln_certificate::find;
use kiln_certificate::format::{Certificate, Proof, Stage};
use kiln_certificate::solver::{Process, Program};

/// A program that picks an entry by a byte of the packet's length, with its table.
const BEFORE: &str = "\
; license GPL
; map T insn_array key 4 value 16 entries 3
; program xdp name pick
; function pick global section xdp
; table T zero one two
; insn 1
  r2 = *(u32 *)(r1 + 16)
; insn 2
  r3 = 7
; insn 3
  r2 &= 1
; insn 4
  r2 <<= 3
; insn 5
  r1 = map_value[T] + 0x0
; insn 7
  r1 += r2
; insn 8
  r1 = *(u64 *)(r1 + 0x0)
; insn 9
  gotox r1
; insn 10
zero:
  r0 = r3
; insn 11
  exit
; insn 12
one:
  r0 = 0x1
; insn 13
  exit
; insn 14
two:
  r0 = 0x2
; insn 15
  exit
; next_insn 100
";

/// What the checker says of a rewrite without claims.
fn says(after: &str) -> Option<Result<(), String>> {
    let timeout = Duration::from_secs(60);
    let program = match Program::find(None, timeout) {
        Ok(program) => program,
        Err(why) => {
            eprintln!("skipped: {why}");
            return None;
        }
    };
    let proof = Proof { pairs: BTreeMap::new(), left_out: BTreeSet::new() };
    let stages = vec![Stage { edits: find::difference(BEFORE, after), proofs: BTreeMap::from([(0, proof)]) }];
    let chain = match Chain::read(BEFORE, Certificate::of(stages), after) {
        Ok(chain) => chain,
        Err(why) => return Some(Err(why)),
    };
    let verdicts = chain.prove(vec![Process::new(&program, timeout)], &|_, _| true);
    Some(verdicts.into_iter().try_for_each(|own| own.outcome.map(|_| ())))
}

fn changed(from: &str, to: &str) -> String {
    assert!(BEFORE.contains(from), "{from}");
    BEFORE.replacen(from, to, 1)
}

#[test]
fn an_honest_change_of_a_target_is_proved() {
    for (from, to) in [("r0 = 0x1", "w0 = 0x1"), ("r0 = r3", "r0 = 0x7"), ("r2 &= 1", "w2 &= 1")] {
        let Some(said) = says(&changed(from, to)) else { return };
        assert_eq!(said, Ok(()), "{from} -> {to}");
    }
}

#[test]
fn forged_targets_addresses_and_tables_are_refused() {
    for (from, to) in [
        // Another result of one target; what only one target reads; another entry; another range of entries.
        ("r0 = 0x2", "r0 = 0x3"),
        ("r3 = 7", "r3 = 8"),
        ("r1 = *(u64 *)(r1 + 0x0)", "r1 = *(u64 *)(r1 + 0x8)"),
        ("r2 &= 1", "r2 &= 3"),
        // The table itself, and an instruction that it leads to under another name.
        ("; table T zero one two", "; table T one zero two"),
        ("; insn 14\n", "; insn 99\n"),
    ] {
        let Some(said) = says(&changed(from, to)) else { return };
        assert!(said.is_err(), "{from} -> {to}");
    }
}
