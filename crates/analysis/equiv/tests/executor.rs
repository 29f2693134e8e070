//! The executor that searches run candidates on (`concrete/code.rs`) against the table: every form of instruction, on
//! every pair of corner values, in registers and in memory.
//!
//! It restates the table for speed. What it does not take, it must refuse.

use kiln_equiv::concrete::{Memory, Op, Registers, Segment};
use kiln_isa::forms::forms;
use kiln_isa::semantics::{Bits, Flow, Machine, MemoryOrder, execute};
use kiln_isa::{Address, AtomicOp, Imm64, Insn, Reg, Size};
use kiln_program::Reference;

/// Where the memory is; accesses are at an offset of 8.
const BASE: u64 = 0x1000;
const BYTES: usize = 24;

/// Values where arithmetic changes: around zero, each width's sign and end, and bits all over.
const CORNERS: [u64; 14] =
    [0, 1, 7, 31, 32, 63, 0x7f, 0x80, 0xffff_8000, 0x7fff_ffff, 0x8000_0000, 0x0123_4567_89ab_cdef, 1 << 63, u64::MAX];

/// The table's meaning on plain numbers.
struct Table {
    registers: [u64; Reg::COUNT],
    data: [u8; BYTES],
}

impl Table {
    fn place(&self, address: Address, size: Size) -> Result<std::ops::Range<usize>, ()> {
        let at = self.registers[address.base.index()].wrapping_add(address.offset as i64 as u64).wrapping_sub(BASE);
        let inside = at < BYTES as u64 && at + u64::from(size.bytes()) <= BYTES as u64;
        if inside { Ok(at as usize..at as usize + size.bytes() as usize) } else { Err(()) }
    }
}

impl Machine for Table {
    type Value = Bits;
    type Error = ();

    fn register(&mut self, reg: Reg) -> Result<Bits, ()> {
        Ok(Bits::new(64, self.registers[reg.index()]))
    }

    fn set_register(&mut self, reg: Reg, value: Bits) -> Result<(), ()> {
        self.registers[reg.index()] = value.value();
        Ok(())
    }

    fn constant(&mut self, value: u64) -> Bits {
        Bits::new(64, value)
    }

    fn load_imm64(&mut self, imm: Imm64) -> Result<Bits, ()> {
        if let Imm64::Value(value) = imm { Ok(Bits::new(64, value)) } else { Err(()) }
    }

    fn load(&mut self, address: Address, size: Size, _: MemoryOrder) -> Result<Bits, ()> {
        let mut bytes = [0; 8];
        let place = self.place(address, size)?;
        bytes[..place.len()].copy_from_slice(&self.data[place]);
        Ok(Bits::new(size.bits(), u64::from_le_bytes(bytes)))
    }

    fn store(&mut self, address: Address, size: Size, value: Bits, _: MemoryOrder) -> Result<(), ()> {
        let place = self.place(address, size)?;
        let bytes = value.value().to_le_bytes();
        self.data[place.clone()].copy_from_slice(&bytes[..place.len()]);
        Ok(())
    }

    fn atomic(
        &mut self,
        op: AtomicOp,
        address: Address,
        size: Size,
        operand: Bits,
        expected: Option<Bits>,
    ) -> Result<Bits, ()> {
        let old = self.load(address, size, MemoryOrder::Relaxed)?;
        if expected.is_none_or(|expected| expected == old) {
            self.store(address, size, op.apply(&old, &operand), MemoryOrder::Relaxed)?;
        }
        Ok(old)
    }

    fn load_packet(&mut self, _: Option<Bits>, _: i32, _: Size) -> Result<Option<Bits>, ()> {
        Err(())
    }

    fn cast_address(&mut self, _: Bits, _: u16, _: u16) -> Result<Bits, ()> {
        Err(())
    }
}

/// What both made of one instruction: registers, memory, and whether a branch is taken; `None` where it is refused.
type Outcome = Option<([u64; Reg::COUNT], [u8; BYTES], Option<bool>)>;

fn by_table(insn: &Insn, registers: [u64; Reg::COUNT], data: [u8; BYTES]) -> Outcome {
    let mut table = Table { registers, data };
    let taken = match execute(insn, &mut table) {
        Ok(Flow::Next) => None,
        Ok(Flow::Branch(taken)) => Some(taken),
        _ => return None,
    };
    Some((table.registers, table.data, taken))
}

fn by_executor(insn: &Insn, registers: [u64; Reg::COUNT], data: [u8; BYTES]) -> Outcome {
    let mut memory = Memory::default();
    memory.segments.push(Segment { base: BASE, start: 0, bytes: BYTES as u64 });
    memory.data = data.into_iter().chain([0; 8]).collect();
    memory.may = [3; BYTES].into_iter().chain([0; 8]).collect();
    let mut own = Registers { values: [0; 16], readable: u16::MAX };
    own.values[..Reg::COUNT].copy_from_slice(&registers);
    let taken = memory.step(&Op::new(insn, Reference::None, &[]), &mut own).ok()?;
    let mut after = [0; Reg::COUNT];
    after.copy_from_slice(&own.values[..Reg::COUNT]);
    let mut bytes = [0; BYTES];
    bytes.copy_from_slice(&memory.data[..BYTES]);
    Some((after, bytes, taken))
}

#[test]
fn every_form_does_what_the_table_says() {
    let (mut compared, mut refused) = (0, Vec::new());
    for form in forms() {
        let mut taken_in = false;
        for (first, second) in CORNERS.iter().flat_map(|a| CORNERS.iter().map(move |b| (*a, *b))) {
            let mut registers = [0x5555; Reg::COUNT];
            (registers[0], registers[1], registers[2]) = (first, first, second);
            if let Some(address) = form.insn.address() {
                registers[address.base.index()] = BASE;
            }
            let mut data = [0x11; BYTES];
            data[8..16].copy_from_slice(&first.to_le_bytes());
            let Some(own) = by_executor(&form.insn, registers, data) else { continue };
            taken_in = true;
            compared += 1;
            assert_eq!(by_table(&form.insn, registers, data), Some(own), "{}: {first:#x}, {second:#x}", form.insn);
        }
        if !taken_in {
            refused.push(form.insn);
        }
    }
    assert!(compared > 100 * CORNERS.len() * CORNERS.len(), "only {compared} comparisons");
    // What only other executors run: references, packets, address spaces, and what leaves a window.
    let other = |insn: &Insn| {
        matches!(
            insn,
            Insn::LoadImm64 { .. }
                | Insn::LoadPacket { .. }
                | Insn::AddressSpaceCast { .. }
                | Insn::Jump { .. }
                | Insn::JumpIndirect { .. }
                | Insn::MayGoto { .. }
                | Insn::Call(_)
                | Insn::Exit
        )
    };
    let lacking: Vec<String> = refused.iter().filter(|insn| !other(insn)).map(ToString::to_string).collect();
    assert!(lacking.is_empty(), "not executed: {lacking:?}");
}
