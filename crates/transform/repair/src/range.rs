//! The widest range of a number with which the verifier accepts an instruction, by bisection.

use std::collections::BTreeSet;

use kiln_isa::{Insn, Source};
use kiln_program::Function;

/// A range of an unsigned number, ends included.
pub type Range = [i32; 2];

/// Numbers to begin with at most.
const MAX_SEEDS: usize = 12;

/// Returns numbers that may lie in a range: 0, 1, and the distances that the function itself adds and compares with.
pub fn seeds(function: &Function) -> Vec<i32> {
    let constant = |insn: Insn| match insn {
        Insn::Alu { src: Source::Imm(value), .. } | Insn::Branch { src: Source::Imm(value), .. } => {
            value.checked_abs().filter(|value| *value > 1)
        }
        _ => None,
    };
    let own: BTreeSet<i32> = function.nodes.iter().filter_map(|node| constant(node.insn)).collect();
    [0, 1].into_iter().chain(own).take(MAX_SEEDS).collect()
}

/// Returns the widest accepted range around a number: as low as possible, then as high as possible.
pub fn widest(seed: i32, accepts: &mut dyn FnMut(Range) -> bool) -> Option<Range> {
    if !accepts([seed, seed]) {
        return None;
    }
    let low = match seed == 0 || accepts([0, seed]) {
        true => 0,
        false => edge(seed, 0, &mut |low| accepts([low, seed])),
    };
    let high = match accepts([low, i32::MAX]) {
        true => i32::MAX,
        false => edge(seed, i32::MAX, &mut |high| accepts([low, high])),
    };
    Some([low, high])
}

/// Returns the last good number on the way from a good one to a bad one.
fn edge(good: i32, bad: i32, is_good: &mut dyn FnMut(i32) -> bool) -> i32 {
    let (mut good, mut bad) = (i64::from(good), i64::from(bad));
    while (good - bad).abs() > 1 {
        let middle = i64::midpoint(good, bad);
        match is_good(middle as i32) {
            true => good = middle,
            false => bad = middle,
        }
    }
    good as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_range_is_found_from_any_seed_in_it() {
        for [low, high] in [[0, 0], [0, 255], [1, 64], [48, 57], [3, i32::MAX]] {
            let mut accepts = |range: Range| low <= range[0] && range[1] <= high;
            assert_eq!(widest(low, &mut accepts), Some([low, high]));
            assert_eq!(widest(high, &mut accepts), Some([low, high]));
        }
        assert_eq!(widest(7, &mut |_| false), None);
    }
}
