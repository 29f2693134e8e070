//! A window's original, run on many inputs, ready to refute candidates.

use std::collections::BTreeMap;

use kiln_isa::semantics::mask;
use kiln_isa::{Insn, Reg};
use kiln_program::{Node, Reference};

use crate::concrete::code::{Code, Memory, Op, PADDING, READ, Registers, START, Segment, WRITE, word};
use crate::concrete::input::{Input, Refusal};
use crate::concrete::invent::{self, Done};
use crate::concrete::random::Random;
use crate::window::machine::Target;
use crate::window::question::Live;
use crate::window::question::Window;
use crate::window::verdict::Counterexample;

/// Bits of each register that are compared.
type Compared = [u64; 16];

/// What stands for a register or exit that is not there at all, in a distance.
const ABSENT: u64 = 64;

/// How far two values are apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Difference {
    /// Bits that differ.
    Bits,
    /// The numbers' distance, up to 32 bits.
    Absolute,
}

impl Difference {
    #[inline(always)]
    fn of(self, one: u64, other: u64) -> u64 {
        match self {
            Difference::Bits => (one ^ other).count_ones().into(),
            Difference::Absolute => one.abs_diff(other).min(u32::MAX.into()),
        }
    }
}

/// One input and what the original made of it.
#[derive(Clone, Debug)]
pub struct Case {
    input: Input,
    begin: Registers,
    memory: Memory,
    /// Live registers afterwards.
    results: Vec<(u8, u64)>,
    exits: Vec<u32>,
    /// Bytes afterwards, and which of them are read.
    wanted: Vec<u8>,
    live: Vec<u8>,
    /// Live bytes that are in none of `changed`.
    rest: Vec<u8>,
    /// Where each eight bytes begin in which the original wrote something live.
    changed: Vec<usize>,
}

impl Case {
    /// Registers before the window.
    pub fn begin(&self) -> Registers {
        self.begin
    }

    /// Memory, and what was done to it.
    pub fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Live registers after the original: number and value.
    pub fn results(&self) -> &[(u8, u64)] {
        &self.results
    }

    /// The branch by which the original left, if one was taken.
    pub fn exits(&self) -> &[u32] {
        &self.exits
    }

    /// Whether live memory is as the original leaves it.
    #[inline]
    pub fn memory_agrees(&self) -> bool {
        let same = |at: usize| self.wrong(at, &self.live) == 0;
        self.changed.iter().all(|at| same(*at)) && self.memory.undo.iter().all(|(at, ..)| same(*at))
    }

    #[inline(always)]
    fn wrong(&self, at: usize, which: &[u8]) -> u64 {
        (word(&self.memory.data, at) ^ word(&self.wanted, at)) & word(which, at)
    }

    #[inline]
    fn leaves_alike(&self) -> bool {
        // Mostly both are empty, and a comparison of slices is a call.
        self.memory.exits.len() == self.exits.len() && self.memory.exits.iter().eq(&self.exits)
    }

    #[inline]
    fn agrees(&self, registers: &Registers, compared: &Compared) -> bool {
        let same = |(reg, value): &(u8, u64)| {
            let reg = usize::from(*reg & 15);
            registers.readable >> reg & 1 == 1 && (registers.values[reg] ^ value) & compared[reg] == 0
        };
        self.results.iter().all(same) && self.leaves_alike() && self.memory_agrees()
    }

    #[inline]
    fn matches(&mut self, code: &Code, compared: &Compared) -> bool {
        let mut registers = self.begin;
        let equal = self.memory.run(code, &mut registers).is_ok() && self.agrees(&registers, compared);
        self.memory.restore(0);
        equal
    }

    /// How far a candidate's outputs are from the original's; `None` when it does what it may not.
    fn distance(&mut self, code: &Code, compared: &Compared, difference: Difference) -> Option<u64> {
        let mut registers = self.begin;
        let done = self.memory.run(code, &mut registers);
        let sum = done.is_ok().then(|| {
            let result = |(reg, value): &(u8, u64)| {
                let reg = usize::from(*reg & 15);
                match registers.readable >> reg & 1 {
                    0 => ABSENT,
                    _ => difference.of(registers.values[reg] & compared[reg], value & compared[reg]),
                }
            };
            let apart = |at: usize, which: &[u8]| {
                let mask = word(which, at);
                difference.of(word(&self.memory.data, at) & mask, word(&self.wanted, at) & mask)
            };
            let registers: u64 = self.results.iter().map(result).sum();
            let changed: u64 = self.changed.iter().map(|at| apart(*at, &self.live)).sum();
            let others: u64 = self.memory.undo.iter().map(|(at, ..)| apart(*at, &self.rest)).sum();
            registers + changed + others + if self.leaves_alike() { 0 } else { ABSENT }
        });
        self.memory.restore(0);
        sum
    }

    fn describe(&mut self, code: &Code, compared: &Compared) -> String {
        let mut registers = self.begin;
        let text = match self.memory.run(code, &mut registers) {
            Err(Refusal::Memory) => "the replacement touches memory that the original does not".to_owned(),
            Err(Refusal::Register) => "the replacement reads an uninitialised register or writes r10".to_owned(),
            Err(Refusal::Unsupported) => "the replacement holds what a window may not".to_owned(),
            Ok(()) if !self.leaves_alike() => "a branch goes the other way".to_owned(),
            Ok(()) => {
                let differs = |(reg, value): &&(u8, u64)| {
                    let reg = usize::from(*reg);
                    (registers.values[reg] ^ value) & compared[reg] != 0
                };
                match self.results.iter().find(differs) {
                    Some((reg, value)) => {
                        format!("r{reg} is {:#x} and was {value:#x}", registers.values[usize::from(*reg)])
                    }
                    None => "memory differs".to_owned(),
                }
            }
        };
        self.memory.restore(0);
        text
    }
}

/// A window's original, run on many inputs, ready to refute candidates.
#[derive(Clone, Debug)]
pub struct Tester {
    /// Boxed: they change places all the time.
    #[expect(clippy::vec_box)]
    cases: Vec<Box<Case>>,
    compared: Compared,
    references: Vec<Reference>,
    /// Where the original's branches leave to.
    exits: Vec<Reference>,
    code: Code,
    /// Inputs added since it was made.
    added: Vec<Case>,
}

impl Tester {
    /// Runs the original of a window (its `after` is not looked at) on `inputs` inputs. `None` when it holds
    /// instructions that have no concrete meaning here (calls), or when no input fits the facts.
    pub fn new(window: &Window<'_>, inputs: u32) -> Option<Tester> {
        let mut random = Random::new(0x6b69_6c6e);
        let branches = window.before.iter().filter(|node| matches!(node.insn, Insn::Branch { .. }));
        let mut tester = Tester {
            cases: Vec::with_capacity(inputs as usize),
            compared: [u64::MAX; 16],
            references: invent::references(window),
            exits: branches.map(|node| node.reference).collect(),
            code: Code::default(),
            added: Vec::new(),
        };
        for _ in 0..inputs.max(1) {
            if let Some((input, known)) = invent::invent(window, &mut random) {
                let done = invent::run_original(window, input, &mut random)?;
                // Memory does not wrap around.
                if !(done.input.memory.contains_key(&0) && done.input.memory.contains_key(&u64::MAX)) {
                    let case = tester.case(window, done, &known);
                    tester.cases.push(Box::new(case));
                }
            }
        }
        (!tester.cases.is_empty()).then_some(tester)
    }

    /// Adds an input, such as a counterexample of a solver. Whether it could be used.
    pub fn add(&mut self, window: &Window<'_>, input: &Input) -> bool {
        match invent::run_original(window, input.clone(), &mut Random::new(1)) {
            Some(done) => {
                let case = self.case(window, done, &[]);
                self.added.push(case.clone());
                self.cases.insert(0, Box::new(case));
                true
            }
            None => false,
        }
    }

    /// Adds an input with other numbers in its registers, such as those of a counterexample to another window, where the
    /// facts allow them. Whether one was added.
    pub fn add_registers(&mut self, window: &Window<'_>, registers: &[u64; Reg::COUNT]) -> bool {
        let Some(mut input) = self.inputs().next().cloned() else { return false };
        let mut changed = false;
        for (index, value) in registers.iter().enumerate() {
            let known = window.facts.map(|facts| &facts.registers[index]);
            if let Some(kiln_verifier::Value::Scalar(scalar)) = known
                && scalar.contains(*value)
            {
                changed |= input.registers[index] != *value;
                input.registers[index] = *value;
            }
        }
        changed && self.add(window, &input)
    }

    /// Takes in what was added to a tester that this one was cloned from; whether there was something.
    pub fn take_in(&mut self, other: &Tester) -> bool {
        let known = self.added.len();
        for case in other.added.iter().skip(known) {
            self.added.push(case.clone());
            self.cases.insert(0, Box::new(case.clone()));
        }
        self.added.len() > known
    }

    /// How many inputs are in use.
    pub fn len(&self) -> usize {
        self.cases.len()
    }

    /// Whether there is none; there always is one.
    pub fn is_empty(&self) -> bool {
        self.cases.is_empty()
    }

    /// Compares only the low bits of a register, 0 to 64: the rest is not read.
    pub fn compare_only(&mut self, reg: Reg, bits: u32) {
        self.compared[reg.index()] = if bits == 0 { 0 } else { mask(bits) };
    }

    /// Bits of each register that are compared.
    pub fn compared(&self) -> &[u64; 16] {
        &self.compared
    }

    /// The inputs in use, those that refute most first.
    pub fn inputs(&self) -> impl Iterator<Item = &Input> {
        self.cases.iter().map(|case| &case.input)
    }

    /// The same, with what the original made of them.
    pub fn cases(&mut self) -> impl ExactSizeIterator<Item = &mut Case> {
        self.cases.iter_mut().map(|case| &mut **case)
    }

    /// Decodes one instruction.
    pub fn op(&self, insn: &Insn, reference: Reference) -> Op {
        Op::new(insn, reference, &self.references)
    }

    /// Decodes a candidate.
    pub fn decode(&self, candidate: &[Node], code: &mut Code) {
        code.decode(candidate, &self.references, &self.exits);
    }

    /// Whether a candidate does what the original did on every input. A `false` is certain, a `true` is not.
    pub fn matches(&mut self, candidate: &[Node]) -> bool {
        self.first_difference(candidate).is_none()
    }

    /// The sum over all inputs of what `weigh` makes of a candidate's distance from the original. `None` when the
    /// candidate does what it may not, or as soon as the sum is more than `limit`; `weigh` gives no negative numbers.
    pub fn error(
        &mut self,
        code: &Code,
        difference: Difference,
        limit: f64,
        weigh: impl Fn(u64) -> f64,
    ) -> Option<f64> {
        let mut sum = 0.0;
        for at in 0..self.cases.len() {
            let distance = self.cases[at].distance(code, &self.compared, difference);
            sum += distance.map_or(f64::INFINITY, &weigh);
            if sum > limit || distance.is_none() {
                self.raise(at);
                return None;
            }
        }
        Some(sum)
    }

    /// The first input on which a candidate differs, and how.
    pub fn difference(&mut self, candidate: &[Node]) -> Option<Counterexample> {
        let at = self.first_difference(candidate)?;
        let mut code = std::mem::take(&mut self.code);
        self.decode(candidate, &mut code);
        let difference = self.cases[at].describe(&code, &self.compared);
        self.code = code;
        Some(Counterexample { input: self.cases[at].input.clone(), difference })
    }

    fn first_difference(&mut self, candidate: &[Node]) -> Option<usize> {
        let mut code = std::mem::take(&mut self.code);
        self.decode(candidate, &mut code);
        let compared = &self.compared;
        let at = self.cases.iter_mut().position(|case| !case.matches(&code, compared));
        self.code = code;
        at.map(|at| self.raise(at))
    }

    /// Moves an input towards the front, so that those that refute most come first; its new position.
    fn raise(&mut self, at: usize) -> usize {
        if at > 0 {
            self.cases.swap(at, at / 2);
        }
        at / 2
    }

    /// The number of the exit by which a run leaves; `None` if it is at the end.
    fn exit(&self, left: Target) -> Option<u32> {
        let numbered = |reference| self.exits.iter().position(|exit| *exit == reference).map(|at| at as u32);
        match left {
            Target::Start => Some(START),
            Target::Insn(id) => numbered(Reference::Branch(id)),
            Target::Somewhere => numbered(Reference::None),
            Target::End | Target::Return => None,
        }
    }

    /// Lays out what candidates need.
    fn case(&self, window: &Window<'_>, done: Done, known: &[(u64, u64)]) -> Case {
        let Done { mut input, registers, readable, written, accessed, left } = done;
        let after = Live::at(window, left);
        // The stack between the lowest byte in use and the frame pointer may serve as scratch.
        let frame = input.registers[Reg::R10.index()];
        let used = accessed.iter().map(|(at, _)| *at).chain(known.iter().map(|(at, _)| *at));
        let deepest = used.map(|at| frame.wrapping_sub(at)).filter(|depth| *depth <= 512).max().unwrap_or(0);
        for below in 1..=deepest {
            input.memory.entry(frame.wrapping_sub(below)).or_insert(0);
        }
        let (segments, data) = laid_out(&input.memory);
        let bytes = data.len() - PADDING;
        let index = |address: u64| {
            let segment = segments.iter().find(|segment| address.wrapping_sub(segment.base) < segment.bytes)?;
            Some(segment.start + address.wrapping_sub(segment.base) as usize)
        };
        let (mut may, mut live) = (vec![0; data.len()], vec![0; data.len()]);
        live[..bytes].fill(0xff);
        for (at, bytes) in accessed.iter().map(|(at, bytes)| (*at, u64::from(*bytes))).chain(known.iter().copied()) {
            for at in (0..bytes).filter_map(|byte| index(at.wrapping_add(byte))) {
                may[at] |= READ;
            }
        }
        for below in 1..=deepest {
            if let Some(at) = index(frame.wrapping_sub(below)) {
                may[at] |= WRITE;
                live[at] = if after.stack.contains(-(below as i32)) { 0xff } else { 0 };
            }
        }
        let (mut wanted, mut rest, mut changed) = (data.clone(), live.clone(), Vec::<usize>::new());
        for (address, value) in &written {
            let Some(at) = index(*address) else { continue };
            may[at] |= WRITE;
            wanted[at] = *value;
            if live[at] != 0 && changed.last().is_none_or(|last| at >= last + 8) {
                changed.push(at);
                rest[at..at + 8].fill(0);
            }
        }
        let references = self.references.iter();
        let address =
            |start: &Reference| input.references.iter().find(|(other, _)| other == start).map_or(0, |it| it.1);
        let addresses = references.map(address).collect();
        let set = |regs: kiln_isa::RegSet| regs.iter().fold(0, |set, reg| set | 1 << reg.number());
        let mut begin = Registers { values: [0; 16], readable: set(invent::readable(window.facts)) };
        begin.values[..Reg::COUNT].copy_from_slice(&input.registers);
        // A register of which only a part is read somewhere outside is left to the proof.
        let results = Reg::all().filter(|reg| after.bits[reg.index()] >= 64 && readable.contains(*reg));
        Case {
            begin,
            results: results.map(|reg| (reg.number(), registers[reg.index()])).collect(),
            exits: self.exit(left).into_iter().collect(),
            memory: Memory { segments, data, may, undo: Vec::new(), addresses, exits: Vec::new() },
            input,
            wanted,
            live,
            rest,
            changed,
        }
    }
}

/// Bytes one after another, and the runs of neighbours among them; at the end, padding.
fn laid_out(memory: &BTreeMap<u64, u8>) -> (Vec<Segment>, Vec<u8>) {
    let mut segments: Vec<Segment> = Vec::new();
    let mut data = Vec::with_capacity(memory.len() + PADDING);
    for (address, byte) in memory {
        match segments.last_mut() {
            Some(last) if last.base.wrapping_add(last.bytes) == *address => last.bytes += 1,
            _ => segments.push(Segment { base: *address, start: data.len(), bytes: 1 }),
        }
        data.push(*byte);
    }
    data.resize(data.len() + PADDING, 0);
    (segments, data)
}
