//! Code with labels: bytes of instructions, and jumps whose length follows from their distance.
//!
//! x86 jumps have a short form (two bytes, within 127 bytes) and a long one (five or six). Which one fits depends on
//! the distance, which depends on the forms chosen in between. So the bytes are emitted once, without jumps, and what
//! has no fixed size is an [`Item`] between them:
//!
//! ```text
//!   bytes   85 ff | 8b 7f 04 | c3          items   (2, Jump je L)  (5, Bind L)
//! ```
//!
//! [`Assembler::finish`] starts with all jumps short and lengthens those that do not reach until none is left, then
//! writes everything out in one walk.

use super::operand::{Condition, Gpr};
use crate::blind::Keys;
use crate::shared::Assembly;

/// A place in the code, bound once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label(u32);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Jump { condition: Option<Condition>, target: Label, long: bool },
    Call(Label),
    LoadAddress { dst: Gpr, target: Label },
    Align(usize),
    Bind(Label),
}

/// Something without a fixed size, or a label, after so many bytes of fixed code.
#[derive(Clone, Copy, Debug)]
struct Item {
    at: usize,
    kind: Kind,
}

/// Collects code.
#[derive(Default)]
pub struct Assembler {
    /// Instructions of fixed size; `encoding` appends them.
    pub(super) bytes: Vec<u8>,
    items: Vec<Item>,
    labels: u32,
    /// What hides constants, if they are to be hidden.
    pub(super) keys: Option<Keys>,
    /// How far the frame pointer is above rsp, where rbp does not hold it: then an operand in memory whose base (not its index) is
    /// rbp is one in the frame, and is addressed from rsp.
    pub(super) frame: Option<i32>,
}

/// Finished code.
pub struct Assembled {
    pub bytes: Vec<u8>,
    offsets: Vec<usize>,
}

impl Assembled {
    /// Where a label ended up; 0 when it was never bound.
    pub fn offset(&self, label: Label) -> usize {
        self.offsets[label.0 as usize]
    }
}

/// Rounds of lengthening before all jumps are made long: a bound on hostile input, never met in practice.
const ROUNDS: usize = 24;

impl Assembly for Assembler {
    type Label = Label;

    fn reserve(&mut self, insns: usize) {
        self.bytes.reserve(4 * insns);
        self.items.reserve(insns);
    }

    fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }

    fn align(&mut self, alignment: usize) {
        self.item(Kind::Align(alignment));
    }

    fn bind(&mut self, label: Label) {
        self.item(Kind::Bind(label));
    }

    fn jump(&mut self, target: Label) {
        self.item(Kind::Jump { condition: None, target, long: false });
    }

    fn call(&mut self, target: Label) {
        self.item(Kind::Call(target));
    }
}

impl Assembler {
    /// An empty one, which hides constants if there is a seed.
    pub fn new(blind: Option<u64>) -> Assembler {
        Assembler { keys: blind.map(Keys::new), ..Assembler::default() }
    }

    /// Bytes of fixed code so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    fn item(&mut self, kind: Kind) {
        self.items.push(Item { at: self.bytes.len(), kind });
    }

    pub fn jump_if(&mut self, condition: Condition, target: Label) {
        self.item(Kind::Jump { condition: Some(condition), target, long: false });
    }

    /// `lea dst, [rip + target]`.
    pub fn load_address(&mut self, dst: Gpr, target: Label) {
        self.item(Kind::LoadAddress { dst, target });
    }

    /// Chooses the forms of jumps and writes the code.
    pub fn finish(mut self) -> Assembled {
        let mut offsets = vec![0; self.labels as usize];
        for round in 0.. {
            let end = self.place(&mut offsets);
            if !self.lengthen(&offsets, round >= ROUNDS) {
                return self.write(offsets, end);
            }
        }
        unreachable!("a round without a change ends the loop")
    }

    /// Computes where labels are with the forms as they stand; returns the total length.
    fn place(&self, offsets: &mut [usize]) -> usize {
        let mut added = 0;
        for item in &self.items {
            let at = item.at + added;
            if let Kind::Bind(label) = item.kind {
                offsets[label.0 as usize] = at;
            }
            added += item.kind.bytes(at);
        }
        self.bytes.len() + added
    }

    /// Makes jumps long that do not reach their target (or all of them). Returns whether any changed.
    fn lengthen(&mut self, offsets: &[usize], all: bool) -> bool {
        let (mut added, mut changed) = (0, false);
        for item in &mut self.items {
            let at = item.at + added;
            // The placement being checked is that of the forms before this round.
            added += item.kind.bytes(at);
            if let Kind::Jump { target, long: long @ false, .. } = &mut item.kind {
                let distance = offsets[target.0 as usize] as i64 - (at as i64 + 2);
                if all || i8::try_from(distance).is_err() {
                    (*long, changed) = (true, true);
                }
            }
        }
        changed
    }

    fn write(self, offsets: Vec<usize>, end: usize) -> Assembled {
        let mut out = Vec::with_capacity(end);
        let mut from = 0;
        for item in &self.items {
            out.extend_from_slice(&self.bytes[from..item.at]);
            from = item.at;
            let distance = |target: Label, size: usize, out: &Vec<u8>| {
                (offsets[target.0 as usize] as i64 - (out.len() + size) as i64) as i32
            };
            match item.kind {
                Kind::Bind(_) => {}
                Kind::Align(_) => {
                    let count = item.kind.bytes(out.len());
                    nops(&mut out, count);
                }
                Kind::Jump { condition, target, long: false } => {
                    let distance = distance(target, 2, &out) as i8;
                    out.push(condition.map_or(0xeb, |condition| 0x70 | condition.0));
                    out.push(distance as u8);
                }
                Kind::Jump { condition: None, target, long: true } => {
                    let distance = distance(target, 5, &out);
                    out.push(0xe9);
                    out.extend(distance.to_le_bytes());
                }
                Kind::Jump { condition: Some(condition), target, long: true } => {
                    let distance = distance(target, 6, &out);
                    out.extend([0x0f, 0x80 | condition.0]);
                    out.extend(distance.to_le_bytes());
                }
                Kind::Call(target) => {
                    let distance = distance(target, 5, &out);
                    out.push(0xe8);
                    out.extend(distance.to_le_bytes());
                }
                Kind::LoadAddress { dst, target } => {
                    let distance = distance(target, 7, &out);
                    out.extend([0x48 | u8::from(dst.high()) << 2, 0x8d, 0x05 | dst.low() << 3]);
                    out.extend(distance.to_le_bytes());
                }
            }
        }
        out.extend_from_slice(&self.bytes[from..]);
        Assembled { bytes: out, offsets }
    }
}

impl Kind {
    /// Its length in code when it begins at `at`.
    fn bytes(&self, at: usize) -> usize {
        match *self {
            Kind::Bind(_) => 0,
            Kind::Jump { long: false, .. } => 2,
            Kind::Jump { condition: None, .. } | Kind::Call(_) => 5,
            Kind::Jump { .. } => 6,
            Kind::LoadAddress { .. } => 7,
            Kind::Align(alignment) => at.wrapping_neg() & (alignment - 1),
        }
    }
}

/// The recommended multi-byte no-operations, by length from 1.
const NOPS: [&[u8]; 9] = [
    &[0x90],
    &[0x66, 0x90],
    &[0x0f, 0x1f, 0x00],
    &[0x0f, 0x1f, 0x40, 0x00],
    &[0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
    &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
];

/// Bytes of the longest instruction.
const LONGEST_NOP: usize = 15;

fn nops(out: &mut Vec<u8>, mut count: usize) {
    while count > 0 {
        // Prefixes make one longer, up to the longest instruction: a loop that begins with few of them is entered faster.
        let step = count.min(LONGEST_NOP);
        let prefixes = step.saturating_sub(NOPS.len());
        out.extend(std::iter::repeat_n(0x66, prefixes));
        out.extend_from_slice(NOPS[step - prefixes - 1]);
        count -= step;
    }
}
