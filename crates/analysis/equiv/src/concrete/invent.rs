//! Inputs that the facts allow, and the original's run on them, which invents what memory holds.

use std::collections::BTreeMap;

use kiln_isa::semantics::{Bits, Flow, Machine, MemoryOrder, execute};
use kiln_isa::{Address, AtomicOp, Imm64, Insn, Reg, RegSet, Size};
use kiln_program::Reference;
use kiln_verifier::{InsnFacts, Pointer, Region, Value};

use crate::concrete::input::{Input, Refusal};
use crate::concrete::random::Random;
use crate::window::machine::{Target, target};
use crate::window::question::Window;

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

impl Machine for Inventor<'_> {
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
        let old = self.load(address, size, MemoryOrder::Relaxed)?;
        let stored = if expected.is_none_or(|expected| expected == old) { op.apply(&old, &operand) } else { old };
        self.store(address, size, stored, MemoryOrder::Relaxed)?;
        Ok(old)
    }

    fn load_packet(&mut self, _: Option<Bits>, _: i32, _: Size) -> Result<Option<Bits>, Refusal> {
        Err(Refusal::Unsupported)
    }

    fn cast_address(&mut self, _: Bits, _: u16, _: u16) -> Result<Bits, Refusal> {
        Err(Refusal::Unsupported)
    }

    fn load_imm64(&mut self, imm: Imm64) -> Result<Bits, Refusal> {
        let value = match (self.reference, imm) {
            (Reference::None, Imm64::Value(value)) => value,
            (Reference::None, _) => return Err(Refusal::Unsupported),
            (reference, _) => self.input.reference(reference, self.random),
        };
        Ok(Bits::new(64, value))
    }

    fn load(&mut self, address: Address, size: Size, _: MemoryOrder) -> Result<Bits, Refusal> {
        let at = self.register(address.base)?.value().wrapping_add(address.offset as i64 as u64);
        self.accessed.push((at, size.bytes()));
        let bytes = (0..u64::from(size.bytes())).map(|byte| u64::from(self.byte(at.wrapping_add(byte))) << (8 * byte));
        let value = bytes.sum();
        Ok(Bits::new(size.bits(), value))
    }

    fn store(&mut self, address: Address, size: Size, value: Bits, _: MemoryOrder) -> Result<(), Refusal> {
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
pub(super) fn invent(window: &Window<'_>, random: &mut Random) -> Option<(Input, Vec<(u64, u64)>)> {
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
                    if crate::window::class::has_one_value(window.object, *map));

                if let (true, Region::MapValue(map)) = (single && !pointer.nullable, &pointer.region) {
                    let start = input.reference(Reference::MapValue { map: *map, offset: 0 }, random);
                    start.wrapping_add(random.scalar(&pointer.offset)?)
                } else {
                    starts.pointer(pointer, &mut input, random)?
                }
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

/// What the original did on an input.
pub(super) struct Done {
    /// The input, with what it asked for.
    pub input: Input,
    /// Registers afterwards.
    pub registers: [u64; Reg::COUNT],
    /// Which of them may be read.
    pub readable: RegSet,
    /// Bytes that it wrote.
    pub written: BTreeMap<u64, u8>,
    /// What it touched: address and bytes.
    pub accessed: Vec<(u64, u32)>,
    /// Where it was left.
    pub left: Target,
}

/// Runs the original on an input; `None` where it has no concrete meaning.
pub(super) fn run_original(window: &Window<'_>, mut input: Input, random: &mut Random) -> Option<Done> {
    for start in references(window) {
        input.reference(start, random);
    }
    let mut inventor = Inventor {
        registers: input.registers,
        readable: readable(window.facts),
        input: &mut input,
        written: BTreeMap::new(),
        random,
        reference: Reference::None,
        accessed: Vec::new(),
    };
    let (mut at, mut left) = (0, Target::End);
    while let Some(node) = window.before.get(at) {
        inventor.reference = node.reference;
        at = match execute(&node.insn, &mut inventor) {
            Ok(Flow::Next | Flow::Branch(false)) => at + 1,
            Ok(Flow::Branch(true)) => {
                let target = target(window.before, at, node).ok()?;
                match window.before.iter().position(|other| Target::Insn(other.id) == target) {
                    Some(inside) => inside,
                    None => {
                        left = target;
                        break;
                    }
                }
            }
            _ => return None,
        }
    }
    let Inventor { registers, readable, written, accessed, .. } = inventor;
    Some(Done { input, registers, readable, written, accessed, left })
}

/// What the window's `ld_imm64`s refer to, a map's value by its start.
pub(super) fn references(window: &Window<'_>) -> Vec<Reference> {
    let mut found = Vec::new();
    for node in window.before.iter().chain(window.after) {
        let start = match node.reference {
            Reference::MapValue { map, .. } => Reference::MapValue { map, offset: 0 },
            other => other,
        };
        if matches!(node.insn, Insn::LoadImm64 { .. }) && start != Reference::None && !found.contains(&start) {
            found.push(start);
        }
    }
    found
}
