//! Generated programs of any size, one family for each way in which programs grow.

use std::fmt::Write as _;

use kiln_program::Object;
use kiln_program::text::parse;

/// A family: its name, and the text of a program of about so many slots.
pub struct Family {
    pub name: &'static str,
    text: fn(usize) -> String,
}

/// All families.
pub const FAMILIES: [Family; 7] = [
    Family { name: "straight", text: straight },
    Family { name: "branches", text: branches },
    Family { name: "diamonds", text: diamonds },
    Family { name: "loops", text: loops },
    Family { name: "calls", text: calls },
    Family { name: "functions", text: functions },
    Family { name: "maps", text: maps },
];

impl Family {
    /// The family's program of about so many slots.
    ///
    /// # Panics
    /// If the generator is wrong.
    pub fn object(&self, slots: usize) -> Object {
        let text = (self.text)(slots);
        parse(&text).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}

const START: &str =
    " r2 = *(u32 *)(r1 + 4)\n r6 = *(u32 *)(r1 + 0)\n r0 = 1\n r3 = r6\n r3 += 64\n if r3 > r2 goto out\n";
const START_SLOTS: usize = 8;

/// Repeats a piece of so many slots, which depends on its number, in a program over 64 bytes of packet at r6.
fn repeated(slots: usize, piece_slots: usize, piece: impl Fn(&mut String, usize)) -> String {
    let mut text = format!("; program xdp\n{START} r7 = 0\n");
    for number in 0..(slots.saturating_sub(START_SLOTS + 2) / piece_slots).max(1) {
        piece(&mut text, number);
    }
    text + " w0 = w7\nout:\n exit\n"
}

/// No branch: loads, arithmetic with what compilers leave behind, and stores.
fn straight(slots: usize) -> String {
    repeated(slots, 8, |text, number| {
        let (at, to) = (number % 56, 8 * (number % 4 + 1));
        let _ = match number % 4 {
            0 => write!(
                text,
                " w1 = *(u8 *)(r6 + {at})\n w2 = *(u8 *)(r6 + {})\n r2 <<= 8\n r2 |= r1\n r3 = r2\n r3 <<= 32\n \
                 r3 >>= 32\n r7 += r3\n",
                at + 1
            ),
            1 => write!(
                text,
                " w1 = *(u32 *)(r6 + {at})\n r4 = r1\n r4 &= 255\n r5 = r4\n r5 += {number}\n r7 ^= r5\n \
                 *(u64 *)(r10 - {to}) = r7\n r7 += 3\n"
            ),
            2 => write!(
                text,
                " r1 = *(u64 *)(r6 + {at})\n r8 = r1\n r8 >>= 7\n w8 *= 31\n r9 = r8\n r9 ^= r7\n r7 = r9\n r7 += {at}\n"
            ),
            _ => write!(
                text,
                " r1 = {number}\n w2 = *(u16 *)(r6 + {at})\n r2 += r1\n *(u16 *)(r6 + {}) = w2\n r3 = 0\n r3 |= r2\n \
                 w3 = w3\n r7 -= r3\n",
                62 - number % 20
            ),
        };
    })
}

/// Checks, each of which may leave the program.
fn branches(slots: usize) -> String {
    repeated(slots, 4, |text, number| {
        let at = number % 56;
        let _ = match number % 3 {
            0 => {
                write!(text, " w2 = *(u8 *)(r6 + {at})\n r2 &= {}\n if r2 == 0 goto out\n r7 += 1\n", 1 + number % 127)
            }
            1 => write!(text, " w2 = *(u16 *)(r6 + {at})\n r7 += r2\n w3 = w2\n if w3 > {number} goto out\n"),
            _ => write!(text, " r2 = *(u64 *)(r6 + {at})\n r2 >>= 32\n if r2 == {number} goto out\n r7 ^= r2\n"),
        };
    })
}

/// Both ways of a branch, joined again.
fn diamonds(slots: usize) -> String {
    repeated(slots, 8, |text, number| {
        let at = number % 56;
        let _ = write!(
            text,
            " w2 = *(u8 *)(r6 + {at})\n w3 = *(u8 *)(r6 + {})\n if w2 > {} goto else{number}\n r3 <<= 2\n r7 += r3\n goto \
             end{number}\nelse{number}:\n r3 ^= 5\n r7 += r3\nend{number}:\n",
            at + 1,
            number % 200
        );
    })
}

/// Loops of four turns, one after the other.
fn loops(slots: usize) -> String {
    repeated(slots, 8, |text, number| {
        let _ = write!(
            text,
            " r8 = 0\nturn{number}:\n w2 = *(u8 *)(r6 + {})\n r3 = r2\n r3 <<= 1\n r7 += r3\n r8 += 1\n w4 = w8\n if w4 < \
             4 goto turn{number}\n",
            number % 56
        );
    })
}

/// Calls of helpers, whose results are used.
fn calls(slots: usize) -> String {
    repeated(slots, 6, |text, number| {
        let helper = if number % 2 == 0 { "get_prandom_u32" } else { "ktime_get_ns" };
        let _ = write!(
            text,
            " call {helper}\n r1 = r0\n r1 <<= 32\n r1 >>= 32\n r7 += r1\n *(u32 *)(r10 - {}) = w7\n",
            4 * (number % 8 + 1)
        );
    })
}

/// Static functions of about fifty slots, each called once from the program and once from the one before.
fn functions(slots: usize) -> String {
    const BODY: usize = 6;
    let count = (slots / (8 * BODY + 6)).max(1);
    let mut text = format!("; program xdp\n{START} r7 = 0\n");
    for number in 0..count {
        let _ = write!(text, " w1 = *(u8 *)(r6 + {})\n call part{number}\n w7 += w0\n", number % 56);
    }
    text += " w0 = w7\nout:\n exit\n";
    for number in 0..count {
        let _ = write!(text, "; function part{number} static\n w0 = w1\n");
        for turn in 0..BODY {
            let _ = write!(
                text,
                " r2 = r0\n r2 <<= 32\n r2 >>= 32\n if w2 > {} goto high{turn}\n w0 += {number}\n r3 = r2\n r0 ^= r3\nhigh{turn}:\n \
                 w0 *= 31\n",
                100 + turn
            );
        }
        text += " exit\n";
    }
    text
}

/// Lookups, each with its check for null.
fn maps(slots: usize) -> String {
    let text = repeated(slots, 12, |text, number| {
        let _ = write!(
            text,
            " w1 = {number}\n *(u32 *)(r10 - 4) = w1\n r2 = r10\n r2 += -4\n r1 = map[counts]\n call map_lookup_elem\n if r0 \
             == 0 goto none{number}\n r1 = *(u64 *)(r0 + 0)\n r1 += 1\n *(u64 *)(r0 + 0) = r1\nnone{number}:\n r7 += 1\n",
        );
    });
    text.replacen("; program xdp", "; map counts hash key 4 value 8 entries 64\n; program xdp", 1)
}
