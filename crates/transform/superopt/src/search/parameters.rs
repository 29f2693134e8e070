//! What a Markov chain is set to: which proposals how often, and what errors and cost weigh.
//!
//! The rows are K2's five best settings (SIGCOMM '21, Table 8). K2 prints no inverse temperature; it is 1 here, so that
//! one more instruction is taken with a chance of `exp(-5)` in rows 1 to 4.

use kiln_equiv::concrete::Difference;

/// A kind of proposal (K2, section 3.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Another instruction in place of one: `r1 += 4` to `r4 = r2`.
    Instruction,
    /// Another operand of the same type: `r1 += 4` to `r1 += 10`.
    Operand,
    /// Nothing in place of an instruction.
    Nothing,
    /// Another width and another value, the same address: `r1 = *(u16 *)(r2 - 4)` to `r3 = *(u32 *)(r2 - 4)`.
    MemoryExchange1,
    /// Another width: `r1 = *(u16 *)(r2 - 4)` to `r1 = *(u32 *)(r2 - 4)`.
    MemoryExchange2,
    /// Other instructions in place of two that follow one another.
    Contiguous,
}

impl Kind {
    /// All of them, in the order of [`Parameters::chances`].
    pub const ALL: [Kind; 6] = [
        Kind::Instruction,
        Kind::Operand,
        Kind::Nothing,
        Kind::MemoryExchange1,
        Kind::MemoryExchange2,
        Kind::Contiguous,
    ];
}

/// One setting.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Parameters {
    /// Its number in K2's table.
    pub id: u32,
    /// How far outputs are from the original's.
    pub difference: Difference,
    /// Whether the difference is divided by the number of inputs.
    pub average: bool,
    /// Weight of the error (K2's alpha).
    pub error: f64,
    /// Weight of the cost, in plain instructions (K2's beta).
    pub performance: f64,
    /// Chances of the proposals, in the order of [`Kind::ALL`], in hundredths; they sum to 100.
    pub chances: [u32; 6],
    /// Inverse temperature: what a unit of cost weighs when a worse candidate is to be taken.
    pub inverse_temperature: f64,
}

const fn row(
    id: u32,
    difference: Difference,
    average: bool,
    [error, performance]: [f64; 2],
    chances: [u32; 6],
) -> Parameters {
    Parameters { id, difference, average, error, performance, chances, inverse_temperature: 1.0 }
}

/// All settings; a chain takes one.
pub const PARAMETERS: [Parameters; 5] = [
    //                       average  error perf   instruction operand nothing exchange1 exchange2 contiguous
    row(1, Difference::Absolute, false, [0.5, 5.0], [20, 40, 15, 20, 0, 5]),
    row(2, Difference::Bits, false, [0.5, 5.0], [17, 33, 15, 17, 0, 18]),
    row(3, Difference::Bits, false, [0.5, 5.0], [20, 40, 15, 20, 0, 5]),
    row(4, Difference::Absolute, false, [0.5, 5.0], [17, 33, 15, 0, 17, 18]),
    row(5, Difference::Absolute, true, [0.5, 1.5], [17, 33, 15, 0, 17, 18]),
];

impl Parameters {
    /// The kind of proposal for a number below 100.
    pub fn kind(&self, mut hundredth: u32) -> Kind {
        for (kind, chance) in Kind::ALL.into_iter().zip(self.chances) {
            if hundredth < chance {
                return kind;
            }
            hundredth -= chance;
        }
        Kind::Contiguous
    }

    /// The error of one input, for a distance from the original, of `inputs` in all.
    pub fn error_of(&self, distance: u64, inputs: usize) -> f64 {
        let distance_weight = if self.average { 1.0 / inputs.max(1) as f64 } else { 1.0 };
        // What is wrong at all counts one more, as in K2's first variant of `num_tests`.
        if distance == 0 { 0.0 } else { distance as f64 * distance_weight + 1.0 }
    }
}
