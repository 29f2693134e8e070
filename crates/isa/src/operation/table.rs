//! Kiln's own operations: the rows of all families, in the order of recognition.

use super::row::Operation;
use super::{arithmetic, bits, chain, flag, hint, memory, pair, rotate, select};

const FAMILIES: [&[Operation]; 9] = [
    rotate::ROWS,
    arithmetic::ROWS,
    memory::ROWS,
    flag::ROWS,
    select::ROWS,
    chain::ROWS,
    bits::ROWS,
    pair::ROWS,
    hint::ROWS,
];

/// All rows. Where several match, the first is used.
pub const OPERATIONS: &[&Operation] = &ROWS;

/// The rows, at one address for all who compare where they are ([`Registry::is`](super::Registry::is)).
static ROWS: [&Operation; 56] = {
    let mut rows = [&rotate::ROWS[0]; 56];
    let (mut family, mut count) = (0, 0);
    while family < FAMILIES.len() {
        let mut at = 0;
        while at < FAMILIES[family].len() {
            rows[count] = &FAMILIES[family][at];
            (at, count) = (at + 1, count + 1);
        }
        family += 1;
    }
    assert!(count == rows.len(), "the number of rows");
    rows
};
