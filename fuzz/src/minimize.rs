//! Shrinks a failing input while it still fails in the same way.

use std::time::{Duration, Instant};

/// Removes and zeroes ever smaller pieces as long as the rest still fails.
pub fn minimize(input: &[u8], time: Duration, mut fails: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let end = Instant::now() + time;
    let mut best = input.to_vec();
    let mut piece = best.len().next_power_of_two() / 2;
    while piece > 0 && Instant::now() < end {
        let mut smaller = false;
        let mut at = 0;
        while at < best.len() && Instant::now() < end {
            let last = (at + piece).min(best.len());
            let mut removed = best.clone();
            removed.drain(at..last);
            if fails(&removed) {
                (best, smaller) = (removed, true);
                continue;
            }
            if best[at..last].iter().any(|byte| *byte != 0) {
                let mut zeroed = best.clone();
                zeroed[at..last].fill(0);
                if fails(&zeroed) {
                    (best, smaller) = (zeroed, true);
                }
            }
            at = last;
        }
        if !smaller || piece > 1 {
            piece /= 2;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_byte_that_matters() {
        let mut input = vec![7; 300];
        input[123] = 0xee;
        let least = minimize(&input, Duration::from_secs(5), |bytes| bytes.contains(&0xee));
        assert_eq!(least, [0xee]);
    }
}
