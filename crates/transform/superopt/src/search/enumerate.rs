//! All short runs, one after the other, and none twice.
//!
//! ```text
//!   r1 <<= 32; r1 >>= 32; r1 += 5          inputs    r1 = 7, 0x1_0000_0000, ...
//!
//!   first    every instruction of the pool, run on all inputs at once; of two that leave the same state one is kept
//!   second   the same, from every state that was kept
//!   last     not guessed but solved: what is still wrong must be one register (or one place in memory), so its
//!            instruction writes that; and the number in it follows from one input: `r1 += t - a`, `r1 ^= t ^ a`, ...
//! ```
//!
//! States are told apart by what registers and memory hold on the inputs (observational equivalence): a run whose
//! state was met before, with as many instructions still to come, cannot lead anywhere new.

use std::collections::HashMap;

use kiln_equiv::Tester;
use kiln_equiv::concrete::{Case, Op, Registers, calculate};
use kiln_isa::{AluOp, Insn, Reg, Source, Width};
use kiln_program::Reference;

use super::pool::{Pool, is_legal};
use super::{Accept, Best, Outcome, Question, Search, Step};

/// Inputs on which states are told apart. What these let through is run on all of them.
const LANES: usize = 8;
/// States remembered at most: 16 bytes each.
const MOST_STATES: usize = 1 << 21;

/// Prefixes between two looks at the clock.
const LOOKS: u32 = 32;
/// Times that one length is tried again with new counterexamples.
const MOST_AGAIN: usize = 8;

/// Tries every run of one instruction, then of two, and so on.
#[derive(Clone, Copy, Debug)]
pub struct Enumerate {
    /// Instructions in a candidate at most.
    pub length: usize,
}

impl Search for Enumerate {
    fn find(&mut self, question: &Question<'_>, tester: &mut Tester, accept: &mut Accept<'_>) -> Outcome {
        self.find_in(&Pool::new(question), question, tester, accept)
    }
}

impl Enumerate {
    /// The same with a pool of one's own.
    pub fn find_in(
        &self,
        pool: &Pool,
        question: &Question<'_>,
        tester: &mut Tester,
        accept: &mut Accept<'_>,
    ) -> Outcome {
        let mut walk = Walk::new(question, pool, tester, accept);
        for length in 1..=self.length.min(question.window.before.len()) {
            for _ in 0..MOST_AGAIN {
                let inputs = walk.best.tester.len();
                if walk.best.outcome.complete && walk.cheapest * length as u64 <= walk.best.cost {
                    walk.seen.clear();
                    let registers = walk.begin.clone();
                    walk.extend(length, 0, &registers);
                }
                // What was learnt against candidates changes the numbers that are solved for.
                if walk.best.tester.len() == inputs {
                    break;
                }
                walk.take_lanes();
            }
        }
        walk.best.outcome
    }
}

type Lanes = Vec<Registers>;

struct Walk<'w, 'q> {
    best: Best<'w, 'q>,
    pool: &'w Pool,
    ops: Vec<(Op, u64)>,
    branches: Vec<(Op, u64)>,
    /// Which of them store.
    stores: Vec<usize>,
    /// Which of them write each register; not arithmetic with numbers, which are solved for.
    writers: [Vec<usize>; Reg::COUNT],
    cases: Vec<Case>,
    begin: Lanes,
    compared: [u64; 16],
    /// What leads to the state now.
    prefix: Vec<Step>,
    seen: HashMap<u64, u8>,
    /// What any instruction costs at least.
    cheapest: u64,
    /// Times that it was asked whether to go on.
    looks: u32,
}

/// What is wrong with a state.
struct Wrong {
    registers: u16,
    memory: bool,
}

impl Wrong {
    fn count(&self) -> usize {
        self.registers.count_ones() as usize + usize::from(self.memory)
    }
}

impl<'w, 'q> Walk<'w, 'q> {
    fn new(
        question: &'w Question<'q>,
        pool: &'w Pool,
        tester: &'w mut Tester,
        accept: &'w mut Accept<'q>,
    ) -> Walk<'w, 'q> {
        let decode = |step: &Step| (tester.op(&step.insn, step.reference), (question.cost)(&step.insn));
        let ops: Vec<_> = pool.insns.iter().map(decode).collect();
        let branches: Vec<_> = pool.branches.iter().map(decode).collect();
        let which = |wanted: &dyn Fn(&Insn) -> bool| -> Vec<usize> {
            pool.insns.iter().enumerate().filter(|(_, step)| wanted(&step.insn)).map(|(at, _)| at).collect()
        };
        let solved = |insn: &Insn| matches!(insn, Insn::Alu { src: Source::Imm(_), .. });
        let writes = |reg: usize, insn: &Insn| insn.written().is_some_and(|dst| dst.index() == reg) && !solved(insn);
        let mut walk = Walk {
            stores: which(&|insn| matches!(insn, Insn::Store { .. } | Insn::Atomic { .. } | Insn::StoreRelease { .. })),
            writers: std::array::from_fn(|reg| which(&|insn| writes(reg, insn))),
            begin: Lanes::new(),
            compared: *tester.compared(),
            cheapest: ops.iter().chain(&branches).map(|(_, cost)| *cost).min().unwrap_or(0),
            ops,
            branches,
            cases: Vec::new(),
            best: Best::new(question, tester, accept),
            pool,
            prefix: Vec::new(),
            seen: HashMap::new(),
            looks: 0,
        };
        walk.take_lanes();
        walk
    }

    /// The inputs that refute most, the newest first.
    fn take_lanes(&mut self) {
        self.cases = self.best.tester.cases().take(LANES).map(|case| case.clone()).collect();
        self.begin = self.cases.iter().map(Case::begin).collect();
    }

    /// Tries all runs of `left` more instructions.
    fn extend(&mut self, left: usize, cost: u64, registers: &Lanes) {
        if left == 1 {
            return self.finish(cost, registers);
        }
        for index in 0..self.ops.len() {
            let (op, own) = self.ops[index];
            if cost + own + self.cheapest * (left as u64 - 1) >= self.best.cost {
                continue;
            }
            if !self.goes_on() {
                return;
            }
            self.best.outcome.tried += 1;
            let marks: Vec<usize> = self.cases.iter_mut().map(|case| case.memory().undo.len()).collect();
            if let Some(after) = self.apply(&op, registers) {
                // A branch is the last, so one instruction less can put things right.
                let right = left - 1 - usize::from(!self.branches.is_empty());
                if self.wrong(&after).count() <= right && self.is_new(&after, left as u8 - 1) {
                    self.prefix.push(self.pool.insns[index]);
                    self.extend(left - 1, cost + own, &after);
                    self.prefix.pop();
                }
            }
            for (case, mark) in self.cases.iter_mut().zip(marks) {
                case.memory().restore(mark);
            }
        }
    }

    /// Whether there is work left to do, and, looked at now and then, time.
    fn goes_on(&mut self) -> bool {
        self.looks += 1;
        let best = &mut self.best;
        let over = best.outcome.is_at(best.question.bound) || self.looks % LOOKS == 0 && best.question.is_over();
        best.outcome.complete &= !over;
        best.outcome.complete
    }

    fn apply(&mut self, op: &Op, registers: &Lanes) -> Option<Lanes> {
        let mut after = registers.clone();
        let run = |(case, registers): (&mut Case, &mut Registers)| case.memory().step(op, registers).is_ok();
        self.cases.iter_mut().zip(&mut after).all(run).then_some(after)
    }

    fn wrong(&mut self, registers: &Lanes) -> Wrong {
        let mut wrong = Wrong { registers: 0, memory: false };
        for (case, registers) in self.cases.iter().zip(registers) {
            for (reg, value) in case.results() {
                let at = usize::from(*reg & 15);
                let same = (registers.values[at] ^ value) & self.compared[at] == 0;
                if !same || registers.readable >> at & 1 == 0 {
                    wrong.registers |= 1 << at;
                }
            }
            wrong.memory |= !case.memory_agrees();
        }
        wrong
    }

    /// Whether a state was not met before with as many instructions to come.
    fn is_new(&mut self, registers: &Lanes, left: u8) -> bool {
        let mut hash = 0u64;
        let mut mix = |value: u64| hash = (hash.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
        for (case, registers) in self.cases.iter_mut().zip(registers) {
            mix(registers.readable.into());
            self.pool.readable.iter().for_each(|reg| mix(registers.values[reg.index()]));
            case.memory().changes().for_each(|(at, value)| {
                mix(at as u64);
                mix(value);
            });
        }
        match self.seen.get_mut(&hash) {
            Some(before) if *before >= left => false,
            Some(before) => {
                *before = left;
                true
            }
            None => {
                if self.seen.len() < MOST_STATES {
                    self.seen.insert(hash, left);
                }
                true
            }
        }
    }

    /// Finds the last instruction.
    fn finish(&mut self, cost: u64, registers: &Lanes) {
        let wrong = self.wrong(registers);
        if !self.branches.is_empty() {
            if wrong.count() == 0 {
                (0..self.branches.len()).for_each(|index| self.try_branch(index, cost, registers));
            }
            return;
        }
        match (wrong.count(), wrong.memory) {
            (1, false) => self.finish_register(wrong.registers.trailing_zeros() as u8, cost, registers),
            // A store puts memory right; so do an atomic operation and what was lost with a register.
            (1, true) | (2, true) => {
                for at in 0..self.stores.len() {
                    self.try_op(self.stores[at], cost, registers);
                }
            }
            (0, _) => {
                // Nothing at all may be enough.
                let steps = self.prefix.clone();
                self.put(&steps);
            }
            _ => {}
        }
    }

    fn finish_register(&mut self, reg: u8, cost: u64, registers: &Lanes) {
        for at in 0..self.writers[usize::from(reg)].len() {
            self.try_op(self.writers[usize::from(reg)][at], cost, registers);
        }
        let Some(dst) = Reg::new(reg).filter(|dst| self.pool.writable.contains(dst)) else { return };
        for (op, width, imm) in self.solved(dst, registers) {
            let insn = Insn::Alu { op, width, dst, src: Source::Imm(imm) };
            let decoded = self.best.tester.op(&insn, Reference::None);
            let own = (self.best.question.cost)(&insn);
            self.best.outcome.tried += 1;
            if cost + own < self.best.cost && self.is_right_after(&decoded, registers) {
                let mut steps = self.prefix.clone();
                steps.push(Step { insn, reference: Reference::None });
                self.put(&steps);
            }
        }
    }

    /// Operations by a number that give a register its result on the first input, and perhaps on the others.
    fn solved(&self, dst: Reg, registers: &Lanes) -> Vec<(AluOp, Width, i32)> {
        let at = dst.index();
        let compared = self.compared[at];
        let lane = |(case, registers): (&Case, &Registers)| {
            let wanted = case.results().iter().find(|(reg, _)| usize::from(*reg) == at).map_or(0, |found| found.1);
            (registers.values[at], wanted & compared)
        };
        let lanes: Vec<(u64, u64)> = self.cases.iter().zip(registers).map(lane).collect();
        let (a, t) = lanes[0];
        let mut found = Vec::new();
        for width in [Width::W64, Width::W32] {
            let whole = if width == Width::W32 { u64::from(u32::MAX) } else { u64::MAX };
            let compared = compared & whole;
            // What is not compared is as in a number that is sign-extended from what is.
            let unused = compared.leading_zeros();
            let fitting = |value: u64| {
                let value = (value << unused) as i64 >> unused;
                i32::try_from(value).ok().or_else(|| (width == Width::W32).then_some(value as i32))
            };
            let both: u64 = lanes.iter().fold(0, |sum, (_, t)| sum | t);
            let lost = lanes.iter().fold(0, |sum, (a, t)| sum | a & !t);
            let gained = lanes.iter().fold(0, |sum, (a, t)| sum | t & !a);
            let mut numbers = vec![
                (AluOp::Mov, t),
                (AluOp::Add, t.wrapping_sub(a)),
                (AluOp::Xor, t ^ a),
                (AluOp::And, both & compared),
                (AluOp::And, !lost & compared),
                (AluOp::Or, gained & compared),
            ];
            if let Some(inverse) = inverse(lanes.iter().map(|(a, _)| *a).find(|a| a % 2 == 1)) {
                let odd = lanes.iter().find(|(a, _)| a % 2 == 1).map_or(0, |(_, t)| *t);
                numbers.push((AluOp::Mul, odd.wrapping_mul(inverse)));
            }
            found.extend(numbers.into_iter().filter_map(|(op, number)| Some((op, width, fitting(number)?))));
            for op in [AluOp::Lsh, AluOp::Rsh, AluOp::Arsh] {
                let amounts = 1..width.bits() as i32;
                let fits = |amount: &i32| {
                    lanes.iter().all(|(a, t)| (calculate(op, width, *a, *amount as u64) ^ t) & self.compared[at] == 0)
                };
                found.extend(amounts.filter(fits).map(|amount| (op, width, amount)));
            }
        }
        found
    }

    /// Whether one more instruction puts everything right on all lanes.
    fn is_right_after(&mut self, op: &Op, registers: &Lanes) -> bool {
        let compared = self.compared;
        self.cases.iter_mut().zip(registers).all(|(case, registers)| {
            let mut registers = *registers;
            let mark = case.memory().undo.len();
            let done = case.memory().step(op, &mut registers).is_ok();
            let same = |(reg, value): &(u8, u64)| {
                let at = usize::from(*reg & 15);
                registers.readable >> at & 1 == 1 && (registers.values[at] ^ value) & compared[at] == 0
            };
            let right = done && case.results().iter().all(same) && case.memory_agrees();
            case.memory().restore(mark);
            right
        })
    }

    fn try_op(&mut self, index: usize, cost: u64, registers: &Lanes) {
        let (op, own) = self.ops[index];
        self.best.outcome.tried += 1;
        if cost + own >= self.best.cost {
            return;
        }
        if self.is_right_after(&op, registers) {
            let mut steps = self.prefix.clone();
            steps.push(self.pool.insns[index]);
            self.put(&steps);
        }
    }

    fn try_branch(&mut self, index: usize, cost: u64, registers: &Lanes) {
        let (op, own) = self.branches[index];
        self.best.outcome.tried += 1;
        if cost + own >= self.best.cost {
            return;
        }
        let right = self.cases.iter_mut().zip(registers).all(|(case, registers)| {
            let taken = case.memory().step(&op, &mut { *registers });
            // The window's only branch leaves it where it is taken.
            taken == Ok(Some(!case.exits().is_empty()))
        });
        if right {
            let mut steps = self.prefix.clone();
            steps.push(self.pool.branches[index]);
            self.put(&steps);
        }
    }

    /// Puts a candidate that is right on the lanes to all inputs, and to the proof.
    fn put(&mut self, steps: &[Step]) {
        if is_legal(self.best.question, steps) {
            self.best.attempt(steps);
        }
    }
}

/// The number by which an odd one is multiplied to give one, modulo 2 to the 64.
fn inverse(odd: Option<u64>) -> Option<u64> {
    let odd = odd?;
    let step = |x: u64| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)));
    Some((0..6).fold(odd, |x, _| step(x)))
}
