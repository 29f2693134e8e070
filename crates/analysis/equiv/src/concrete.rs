//! Concrete runs: the cheap judge that refutes.
//!
//! ```text
//!   Tester::new(&window, 24)     runs `before` on 24 inputs that the facts allow; keeps the final states
//!   tester.matches(&candidate)   runs the candidate on them, worst input first; stops at the first difference
//! ```
//!
//! An [`Input`] is registers and bytes at plain addresses, so that the reference interpreter can replay it. What the
//! original reads is invented when it reads it. A candidate may then touch only those bytes (and what the facts say
//! is readable), and store only where the original stored, or on the stack.

use std::collections::BTreeMap;

use kiln_isa::semantics::{Bits, Flow, Machine, execute};
use kiln_isa::{Address, AtomicOp, Imm64, Insn, Reg, RegSet, Size};
use kiln_program::{Node, Reference};
use kiln_verifier::{InsnFacts, Pointer, Region, Scalar, StackSet, Value};

use crate::window::{Counterexample, Window};

/// A state before a window.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Input {
    /// R0 to R10.
    pub registers: [u64; Reg::COUNT],
    /// Bytes by address.
    pub memory: BTreeMap<u64, u8>,
    /// What `ld_imm64`s with references give.
    pub references: Vec<(Reference, u64)>,
}

/// A small deterministic generator (splitmix64): a run can be repeated.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// Below `limit`, which is not zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A number of the kind that breaks things: corners, small numbers, single bits, random ones.
    pub fn corner(&mut self) -> u64 {
        const CORNERS: [u64; 12] = [
            0,
            1,
            u64::MAX,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            0x1_0000_0000,
            i64::MAX as u64,
            i64::MIN as u64,
            0xffff_ffff_8000_0000,
            0xff,
            0x80,
        ];
        match self.below(8) {
            0 | 1 => CORNERS[self.below(CORNERS.len() as u64) as usize],
            2 => self.below(64),
            3 => 1 << self.below(64),
            4 => self.next() & 0xffff_ffff,
            _ => self.next(),
        }
    }

    /// A number that a scalar allows; `None` when none was found.
    pub fn scalar(&mut self, scalar: &Scalar) -> Option<u64> {
        let corners = [scalar.umin, scalar.umax, scalar.smin as u64, scalar.smax as u64];
        for attempt in 0..32 {
            let span = scalar.umax.wrapping_sub(scalar.umin).wrapping_add(1);
            let raw = match attempt {
                0 if self.below(3) == 0 => corners[self.below(4) as usize],
                _ if span != 0 && attempt % 2 == 0 => scalar.umin.wrapping_add(self.below(span)),
                _ => self.corner(),
            };
            let fitted = raw & scalar.tnum.mask | scalar.tnum.value;
            if let Some(value) = [raw, fitted].into_iter().find(|value| scalar.contains(*value)) {
                return Some(value);
            }
        }
        corners.into_iter().find(|value| scalar.contains(*value))
    }
}

/// Why a concrete run stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It touched memory that it may not.
    Memory,
    /// It read a register that may be uninitialised, or wrote R10.
    Register,
    /// It holds an instruction that has no concrete meaning here.
    Unsupported,
}

/// Sparse memory that invents what it is asked for; runs originals.
struct Inventor<'a> {
    registers: [u64; Reg::COUNT],
    readable: RegSet,
    input: &'a mut Input,
    written: BTreeMap<u64, u8>,
    random: &'a mut Random,
    reference: Reference,
    accessed: Vec<(u64, u32)>,
}

impl Inventor<'_> {
    fn byte(&mut self, address: u64) -> u8 {
        if let Some(value) = self.written.get(&address) {
            return *value;
        }
        let fresh = match self.random.below(4) {
            0 => 0,
            1 => 0xff,
            _ => self.random.next() as u8,
        };
        *self.input.memory.entry(address).or_insert(fresh)
    }
}

/// What both concrete machines have in common: registers and constants.
macro_rules! registers {
    () => {
        type Value = Bits;
        type Error = Refusal;

        fn register(&mut self, reg: Reg) -> Result<Bits, Refusal> {
            if !self.readable.contains(reg) {
                return Err(Refusal::Register);
            }
            Ok(Bits::new(64, self.registers[reg.index()]))
        }

        fn set_register(&mut self, reg: Reg, value: Bits) -> Result<(), Refusal> {
            if reg == Reg::R10 {
                return Err(Refusal::Register);
            }
            self.readable.insert(reg);
            self.registers[reg.index()] = value.value();
            Ok(())
        }

        fn constant(&mut self, value: u64) -> Bits {
            Bits::new(64, value)
        }

        fn atomic(
            &mut self,
            op: AtomicOp,
            address: Address,
            size: Size,
            operand: Bits,
            expected: Option<Bits>,
        ) -> Result<Bits, Refusal> {
            let old = self.load(address, size)?;
            let stored = if expected.is_none_or(|expected| expected == old) { op.apply(&old, &operand) } else { old };
            self.store(address, size, stored)?;
            Ok(old)
        }

        fn load_packet(&mut self, _: Option<Bits>, _: i32, _: Size) -> Result<Option<Bits>, Refusal> {
            Err(Refusal::Unsupported)
        }

        fn cast_address(&mut self, _: Bits, _: u16, _: u16) -> Result<Bits, Refusal> {
            Err(Refusal::Unsupported)
        }
    };
}

impl Machine for Inventor<'_> {
    registers!();

    fn load_imm64(&mut self, imm: Imm64) -> Result<Bits, Refusal> {
        let value = match (self.reference, imm) {
            (Reference::None, Imm64::Value(value)) => value,
            (Reference::None, _) => return Err(Refusal::Unsupported),
            (reference, _) => self.input.reference(reference, self.random),
        };
        Ok(Bits::new(64, value))
    }

    fn load(&mut self, address: Address, size: Size) -> Result<Bits, Refusal> {
        let at = self.register(address.base)?.value().wrapping_add(address.offset as i64 as u64);
        self.accessed.push((at, size.bytes()));
        let bytes = (0..u64::from(size.bytes())).map(|byte| u64::from(self.byte(at.wrapping_add(byte))) << (8 * byte));
        let value = bytes.sum();
        Ok(Bits::new(size.bits(), value))
    }

    fn store(&mut self, address: Address, size: Size, value: Bits) -> Result<(), Refusal> {
        let at = self.register(address.base)?.value().wrapping_add(address.offset as i64 as u64);
        self.accessed.push((at, size.bytes()));
        for byte in 0..size.bytes() {
            let here = at.wrapping_add(byte.into());
            // What was there matters: a candidate may leave it.
            self.byte(here);
            self.written.insert(here, (value.value() >> (8 * byte)) as u8);
        }
        Ok(())
    }
}

impl Input {
    /// The address of a reference, invented when first asked for. Places in one map value stay at their distances.
    fn reference(&mut self, reference: Reference, random: &mut Random) -> u64 {
        let (start, offset) = match reference {
            Reference::MapValue { map, offset } => (Reference::MapValue { map, offset: 0 }, u64::from(offset)),
            other => (other, 0),
        };
        let known = self.references.iter().find(|(other, _)| *other == start).map(|(_, address)| *address);
        let address = known.unwrap_or_else(|| {
            let fresh = region_start(random);
            self.references.push((start, fresh));
            fresh
        });
        address.wrapping_add(offset)
    }
}

/// Somewhere in the kernel's half, a multiple of 64, far from others.
fn region_start(random: &mut Random) -> u64 {
    0xffff_8000_0000_0000 | random.next() >> 20 << 6 | random.below(2) << 45
}

/// Starts of the regions that exist once.
struct Starts {
    context: u64,
    packet: u64,
    end: u64,
    meta: u64,
    frames: [u64; 8],
}

impl Starts {
    fn new(random: &mut Random) -> Starts {
        let packet = region_start(random);
        let frame = region_start(random);
        Starts {
            context: region_start(random),
            packet,
            end: packet + 64 + random.below(1400),
            meta: packet - 8,
            frames: std::array::from_fn(|up| frame + 512 * up as u64),
        }
    }

    fn pointer(&self, pointer: &Pointer, input: &mut Input, random: &mut Random) -> Option<u64> {
        if pointer.nullable && random.below(4) == 0 {
            return Some(0);
        }
        let offset = random.scalar(&pointer.offset)?;
        let start = match &pointer.region {
            Region::Context => self.context,
            Region::Stack { up } => *self.frames.get(*up as usize)?,
            Region::Map(map) => input.reference(Reference::Map(*map), random),
            // Values of one map may be the same value.
            Region::MapValue(map) => {
                let first = input.reference(Reference::MapValue { map: *map, offset: 0 }, random);
                first + 8 * random.below(2) * random.below(1 << 16)
            }
            Region::Packet => self.packet,
            Region::PacketMeta => self.meta,
            Region::PacketEnd => self.end,
            Region::Other(_) => region_start(random),
        };
        Some(start.wrapping_add(offset))
    }
}

/// Bytes that a candidate may read though the original does not, at most this many a region.
const KNOWN_READABLE: u64 = 256;

/// An input that the facts allow, and the bytes that the facts call readable; `None` when none was found.
fn invent(window: &Window<'_>, random: &mut Random) -> Option<(Input, Vec<(u64, u64)>)> {
    let mut input = Input::default();
    let starts = Starts::new(random);
    let mut known = Vec::new();
    let bases: RegSet = window.before.iter().filter_map(|node| Some(node.insn.address()?.base)).collect();
    for reg in Reg::all() {
        input.registers[reg.index()] = match window.facts.map(|facts| &facts.registers[reg.index()]) {
            _ if reg == Reg::R10 => starts.frames[0],
            None | Some(Value::Unknown) if bases.contains(reg) => region_start(random),
            None | Some(Value::Unknown | Value::Uninit) => random.corner(),
            Some(Value::Scalar(scalar)) => random.scalar(scalar)?,
            Some(Value::Pointer(pointer)) => {
                let single = matches!(&pointer.region, Region::MapValue(map)
                    if crate::memory::has_one_value(window.object, *map));
                let value = if let (true, Region::MapValue(map)) = (single && !pointer.nullable, &pointer.region) {
                    let start = input.reference(Reference::MapValue { map: *map, offset: 0 }, random);
                    start.wrapping_add(random.scalar(&pointer.offset)?)
                } else {
                    starts.pointer(pointer, &mut input, random)?
                };
                value
            }
        };
    }
    if let Some(facts) = window.facts {
        known.push((starts.packet, u64::from(facts.packet_bytes).min(KNOWN_READABLE)));
        invent_stack(facts, &starts, &mut input, &mut known, random)?;
    }
    for (start, bytes) in &known {
        for byte in 0..*bytes {
            let value = random.next() as u8;
            input.memory.entry(start.wrapping_add(byte)).or_insert(value);
        }
    }
    Some((input, known))
}

fn invent_stack(
    facts: &InsnFacts,
    starts: &Starts,
    input: &mut Input,
    known: &mut Vec<(u64, u64)>,
    random: &mut Random,
) -> Option<()> {
    // In order: a run can be repeated.
    let slots: BTreeMap<_, _> = facts.stack.iter().collect();
    for (offset, value) in slots {
        let address = starts.frames[0].wrapping_add(*offset as i64 as u64);
        let value = match value {
            Value::Uninit => continue,
            Value::Unknown => random.corner(),
            Value::Scalar(scalar) => random.scalar(scalar)?,
            Value::Pointer(pointer) => starts.pointer(pointer, input, random)?,
        };
        known.push((address, 8));
        for (byte, value) in value.to_le_bytes().into_iter().enumerate() {
            input.memory.insert(address.wrapping_add(byte as u64), value);
        }
    }
    Some(())
}

/// Registers that may be read at the start.
pub(crate) fn readable(facts: Option<&InsnFacts>) -> RegSet {
    let uninit = |reg: &Reg| facts.is_some_and(|facts| facts.registers[reg.index()] == Value::Uninit);
    Reg::all().filter(|reg| *reg == Reg::R10 || !uninit(reg)).collect()
}

/// Memory of a prepared case: a few runs of bytes.
#[derive(Clone, Debug)]
struct Segment {
    base: u64,
    start: usize,
    bytes: u64,
}

const READ: u8 = 1;
const WRITE: u8 = 2;

/// One input, what the original made of it, and room to run candidates in.
#[derive(Clone, Debug)]
struct Case {
    input: Input,
    segments: Vec<Segment>,
    /// Bytes at the start; restored after each run.
    memory: Vec<u8>,
    /// What a candidate may do with each byte.
    may: Vec<u8>,
    /// Live registers afterwards.
    registers: Vec<(Reg, u64)>,
    /// Branches out of the window: where they go and whether they are taken.
    exits: Vec<(Reference, bool)>,
    /// Bytes that the original left different or may have, if live: index and value.
    expected: Vec<(usize, u8)>,
    /// Whether each byte may be read afterwards.
    live: Vec<bool>,
}

/// Runs candidates.
struct Runner<'c> {
    registers: [u64; Reg::COUNT],
    readable: RegSet,
    segments: &'c [Segment],
    memory: &'c mut [u8],
    may: &'c mut [u8],
    references: &'c [(Reference, u64)],
    reference: Reference,
    /// Index, byte and permission before each byte written.
    undo: &'c mut Vec<(usize, u8, u8)>,
}

impl Runner<'_> {
    fn find(&self, at: u64, size: Size) -> Result<usize, Refusal> {
        let bytes = u64::from(size.bytes());
        for segment in self.segments {
            let inside = at.wrapping_sub(segment.base);
            if inside < segment.bytes && bytes <= segment.bytes - inside {
                return Ok(segment.start + inside as usize);
            }
        }
        Err(Refusal::Memory)
    }
}

impl Machine for Runner<'_> {
    registers!();

    fn load_imm64(&mut self, imm: Imm64) -> Result<Bits, Refusal> {
        let (start, offset) = match (self.reference, imm) {
            (Reference::None, Imm64::Value(value)) => return Ok(Bits::new(64, value)),
            (Reference::None, _) => return Err(Refusal::Unsupported),
            (Reference::MapValue { map, offset }, _) => (Reference::MapValue { map, offset: 0 }, u64::from(offset)),
            (other, _) => (other, 0),
        };
        let known = self.references.iter().find(|(reference, _)| *reference == start);
        let (_, address) = known.ok_or(Refusal::Unsupported)?;
        Ok(Bits::new(64, address.wrapping_add(offset)))
    }

    fn load(&mut self, address: Address, size: Size) -> Result<Bits, Refusal> {
        let at = self.register(address.base)?.value().wrapping_add(address.offset as i64 as u64);
        let from = self.find(at, size)?;
        let range = from..from + size.bytes() as usize;
        if self.may[range.clone()].iter().any(|may| may & READ == 0) {
            return Err(Refusal::Memory);
        }
        let value = self.memory[range].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        Ok(Bits::new(size.bits(), value))
    }

    fn store(&mut self, address: Address, size: Size, value: Bits) -> Result<(), Refusal> {
        let at = self.register(address.base)?.value().wrapping_add(address.offset as i64 as u64);
        let from = self.find(at, size)?;
        let bytes = size.bytes() as usize;
        if self.may[from..from + bytes].iter().any(|may| may & WRITE == 0) {
            return Err(Refusal::Memory);
        }
        for byte in 0..bytes {
            self.undo.push((from + byte, self.memory[from + byte], self.may[from + byte]));
            self.memory[from + byte] = (value.value() >> (8 * byte)) as u8;
            self.may[from + byte] |= READ;
        }
        Ok(())
    }
}

/// A window's original, run on many inputs, ready to refute candidates.
#[derive(Clone, Debug)]
pub struct Tester {
    cases: Vec<Case>,
    readable: RegSet,
    undo: Vec<(usize, u8, u8)>,
}

impl Tester {
    /// Runs the original of a window (its `after` is not looked at) on `inputs` inputs. `None` when it holds
    /// instructions that have no concrete meaning here (calls), or when no input fits the facts.
    pub fn new(window: &Window<'_>, inputs: u32) -> Option<Tester> {
        let mut random = Random(0x6b69_6c6e);
        let mut tester = Tester { cases: Vec::new(), readable: readable(window.facts), undo: Vec::with_capacity(64) };
        for _ in 0..inputs.max(1) {
            if let Some((input, known)) = invent(window, &mut random) {
                let case = case(window, input, &known, &mut random, tester.readable)?;
                // Memory does not wrap around.
                if !(case.input.memory.contains_key(&0) && case.input.memory.contains_key(&u64::MAX)) {
                    tester.cases.push(case);
                }
            }
        }
        (!tester.cases.is_empty()).then_some(tester)
    }

    /// Adds an input, such as a counterexample of a solver. Whether it could be used.
    pub fn add(&mut self, window: &Window<'_>, input: &Input) -> bool {
        let mut random = Random(1);
        match case(window, input.clone(), &[], &mut random, self.readable) {
            Some(case) => {
                self.cases.insert(0, case);
                true
            }
            None => false,
        }
    }

    /// The inputs in use.
    pub fn inputs(&self) -> impl Iterator<Item = &Input> {
        self.cases.iter().map(|case| &case.input)
    }

    /// Whether a candidate does what the original did on every input. A `false` is certain, a `true` is not.
    pub fn matches(&mut self, candidate: &[Node]) -> bool {
        self.first_difference(candidate).is_none()
    }

    /// The first input on which a candidate differs, and how.
    pub fn difference(&mut self, candidate: &[Node]) -> Option<Counterexample> {
        let at = self.first_difference(candidate)?;
        let (case, undo) = (&mut self.cases[at], &mut self.undo);
        let difference = case.describe(candidate, self.readable, undo);
        Some(Counterexample { input: case.input.clone(), difference })
    }

    /// The case's position; it moves one place towards the front, so that the inputs that refute most come first.
    fn first_difference(&mut self, candidate: &[Node]) -> Option<usize> {
        let (readable, undo) = (self.readable, &mut self.undo);
        let at = self.cases.iter_mut().position(|case| !case.matches(candidate, readable, undo))?;
        if at > 0 {
            self.cases.swap(at, at - 1);
        }
        Some(at.saturating_sub(1))
    }
}

impl Case {
    fn matches(&mut self, candidate: &[Node], readable: RegSet, undo: &mut Vec<(usize, u8, u8)>) -> bool {
        let result = self.run(candidate, readable, undo);
        let equal = result.is_ok_and(|(registers, readable, exits)| {
            self.registers.iter().all(|(reg, value)| readable.contains(*reg) && registers[reg.index()] == *value)
                && exits == self.exits
                && self.memory_matches(undo)
        });
        self.restore(undo);
        equal
    }

    fn memory_matches(&self, undo: &[(usize, u8, u8)]) -> bool {
        self.expected.iter().all(|(at, value)| self.memory[*at] == *value)
            && undo.iter().all(|(at, ..)| !self.live[*at] || self.is_expected(*at))
    }

    /// Whether a live byte is as the original leaves it.
    fn is_expected(&self, at: usize) -> bool {
        // Bytes that the original wrote have been compared; others must be as they were.
        self.expected.iter().any(|(expected, _)| *expected == at) || self.memory[at] == self.initial(at)
    }

    fn initial(&self, at: usize) -> u8 {
        let segment =
            self.segments.iter().find(|segment| at >= segment.start && at - segment.start < segment.bytes as usize);
        let address = segment.map_or(0, |segment| segment.base.wrapping_add((at - segment.start) as u64));
        self.input.memory.get(&address).copied().unwrap_or(0)
    }

    fn restore(&mut self, undo: &mut Vec<(usize, u8, u8)>) {
        while let Some((at, byte, may)) = undo.pop() {
            self.memory[at] = byte;
            self.may[at] = may;
        }
    }

    fn run(
        &mut self,
        candidate: &[Node],
        readable: RegSet,
        undo: &mut Vec<(usize, u8, u8)>,
    ) -> Result<([u64; Reg::COUNT], RegSet, Vec<(Reference, bool)>), Refusal> {
        let mut exits = Vec::new();
        let mut runner = Runner {
            registers: self.input.registers,
            readable,
            segments: &self.segments,
            memory: &mut self.memory,
            may: &mut self.may,
            references: &self.input.references,
            reference: Reference::None,
            undo,
        };
        let mut at = 0;
        while let Some(node) = candidate.get(at) {
            runner.reference = node.reference;
            at = match execute(&node.insn, &mut runner)? {
                Flow::Next => at + 1,
                Flow::Branch(taken) => branch(candidate, at, taken, &mut exits).ok_or(Refusal::Unsupported)?,
                _ => return Err(Refusal::Unsupported),
            }
        }
        Ok((runner.registers, runner.readable, exits))
    }

    fn describe(&mut self, candidate: &[Node], readable: RegSet, undo: &mut Vec<(usize, u8, u8)>) -> String {
        let result = self.run(candidate, readable, undo);
        let text = match result {
            Err(Refusal::Memory) => "the replacement touches memory that the original does not".to_owned(),
            Err(Refusal::Register) => "the replacement reads an uninitialised register or writes r10".to_owned(),
            Err(Refusal::Unsupported) => "the replacement holds what a window may not".to_owned(),
            Ok((_, _, exits)) if exits != self.exits => "a branch goes the other way".to_owned(),
            Ok((registers, ..)) => {
                let register = self.registers.iter().find(|(reg, value)| registers[reg.index()] != *value);
                match register {
                    Some((reg, value)) => {
                        format!("{reg} is {:#x} and was {value:#x}", registers[reg.index()])
                    }
                    None => "memory differs".to_owned(),
                }
            }
        };
        self.restore(undo);
        text
    }
}

/// Where a branch leads inside the window; one that leaves it is written down.
fn branch(nodes: &[Node], at: usize, taken: bool, exits: &mut Vec<(Reference, bool)>) -> Option<usize> {
    match nodes.iter().position(|target| Some(target.id) == nodes[at].target()) {
        Some(to) if to > at => Some(if taken { to } else { at + 1 }),
        Some(_) => None,
        None => {
            exits.push((nodes[at].reference, taken));
            Some(at + 1)
        }
    }
}

/// Runs the original on an input and lays out what candidates need.
fn case(
    window: &Window<'_>,
    mut input: Input,
    known: &[(u64, u64)],
    random: &mut Random,
    readable: RegSet,
) -> Option<Case> {
    for node in window.before.iter().chain(window.after) {
        if let (Insn::LoadImm64 { .. }, reference) = (node.insn, node.reference)
            && reference != Reference::None
        {
            input.reference(reference, random);
        }
    }
    let registers = input.registers;
    let mut inventor = Inventor {
        registers,
        readable,
        input: &mut input,
        written: BTreeMap::new(),
        random,
        reference: Reference::None,
        accessed: Vec::new(),
    };
    let (mut at, mut exits) = (0, Vec::new());
    while let Some(node) = window.before.get(at) {
        inventor.reference = node.reference;
        at = match execute(&node.insn, &mut inventor) {
            Ok(Flow::Next) => at + 1,
            Ok(Flow::Branch(taken)) => branch(window.before, at, taken, &mut exits)?,
            _ => return None,
        }
    }
    let (registers, readable) = (inventor.registers, inventor.readable);
    let written = std::mem::take(&mut inventor.written);
    let accessed = std::mem::take(&mut inventor.accessed);
    let live = window.live_after.iter().filter(|reg| readable.contains(*reg));
    let registers = live.map(|reg| (reg, registers[reg.index()])).collect();
    Some(Case { exits, ..lay_out(window, input, &written, &accessed, known, registers) })
}

fn lay_out(
    window: &Window<'_>,
    mut input: Input,
    written: &BTreeMap<u64, u8>,
    accessed: &[(u64, u32)],
    known: &[(u64, u64)],
    registers: Vec<(Reg, u64)>,
) -> Case {
    // The stack between the lowest byte in use and the frame pointer may serve as scratch.
    let frame = input.registers[Reg::R10.index()];
    let depth = |address: u64| frame.wrapping_sub(address);
    let used = accessed.iter().map(|(at, _)| *at).chain(known.iter().map(|(at, _)| *at));
    let deepest = used.map(depth).filter(|depth| *depth <= 512).max().unwrap_or(0);
    for below in 1..=deepest {
        input.memory.entry(frame.wrapping_sub(below)).or_insert(0);
    }
    let mut segments: Vec<Segment> = Vec::new();
    let mut memory = Vec::with_capacity(input.memory.len());
    for (address, byte) in &input.memory {
        match segments.last_mut() {
            Some(last) if last.base.wrapping_add(last.bytes) == *address => last.bytes += 1,
            _ => segments.push(Segment { base: *address, start: memory.len(), bytes: 1 }),
        }
        memory.push(*byte);
    }
    let index = |address: u64| {
        let segment = segments.iter().find(|segment| address.wrapping_sub(segment.base) < segment.bytes)?;
        Some(segment.start + address.wrapping_sub(segment.base) as usize)
    };
    let mut may = vec![0; memory.len()];
    let mut live = vec![true; memory.len()];
    for (at, bytes) in accessed.iter().map(|(at, bytes)| (*at, u64::from(*bytes))).chain(known.iter().copied()) {
        for at in (0..bytes).filter_map(|byte| index(at.wrapping_add(byte))) {
            may[at] |= READ;
        }
    }
    for below in 1..=deepest {
        if let Some(at) = index(frame.wrapping_sub(below)) {
            may[at] |= WRITE;
            live[at] = stack_contains(&window.stack_live_after, below);
        }
    }
    let mut expected = Vec::new();
    for (address, value) in written {
        if let Some(at) = index(*address) {
            may[at] |= WRITE;
            if live[at] {
                expected.push((at, *value));
            }
        }
    }
    Case { input, segments, memory, may, registers, exits: Vec::new(), expected, live }
}

fn stack_contains(set: &StackSet, below: u64) -> bool {
    set.contains(-(below as i32))
}
