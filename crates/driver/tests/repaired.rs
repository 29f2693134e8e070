//! What `repair` calls proved has its proof, also where the solver's work was used up on the way.

use kiln_driver::{input, repair};

/// The index of a signed byte, other than a sign on each way: two changes are found, and one of them is needless.
const FOLDED: &str = "; map values array key 4 value 256 entries 1
; program xdp
  r8 = *(u32 *)(r1 + 0)
  r9 = *(u32 *)(r1 + 4)
  *(u32 *)(r10 - 4) = 0
  r2 = r10
  r2 += -4
  r1 = map[values]
  call map_lookup_elem
  if r0 == 0 goto out
  r1 = r8
  r1 += 8
  if r1 > r9 goto out
  r1 = *(u8 *)(r8 + 0)
  r1 <<= 56
  r1 s>>= 56
  r2 = r1
  r2 ^= -1
  if r1 s< 0 goto negative
  r1 |= 128
  r2 = r1
negative:
  r2 <<= 32
  r2 >>= 32
  r0 += r2
  r1 = *(u8 *)(r0 + 0)
  r1 += 1
  *(u8 *)(r0 + 0) = r1
out:
  r0 = 2
  exit
";

#[test]
fn what_is_proved_has_its_proof_however_little_may_be_asked() {
    let input = input::parse("folded.bpf", FOLDED.into(), &[]).expect("it is read");
    let mut proved = 0;
    // With some of these the last question, about a needless change, is refused.
    for steps in (16..=24).map(|part| part << 14) {
        let mut options = repair::Options::default();
        (options.ask_kernel, options.find_input) = (false, false);
        options.effort.steps = steps;
        let outcome = repair::repair(&input, &options, &mut ()).expect("an object");
        if outcome.programs[0].decision != repair::Decision::RepairedProved {
            continue;
        }
        let pairs = input.object.functions.iter().zip(&outcome.object.functions);
        let changed = pairs.filter(|(old, new)| old.nodes != new.nodes).count();
        assert_eq!((changed, outcome.proofs.len()), (1, 1), "{steps} steps");
        proved += 1;
    }
    assert!(proved > 0);
}
