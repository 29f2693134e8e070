//! Random programs for differential tests, accepted by construction: straight arithmetic over initialized registers,
//! forward branches, stack slots written before they are read.

use kiln_driver::packets::Random;
use kiln_isa::{Address, AluOp, AtomicOp, ByteOrder, Imm64, Insn, JumpOp, Reg, Size, Source, Width};
use kiln_platform::ProgramType;
use kiln_program::{Function, FunctionId, InsnId, Linkage, Node, Object, Program, Reference};

/// Stack slots that the prologue initializes, eight bytes each.
const SLOTS: i16 = 4;

/// A program of this type with about `length` random instructions that any verifier accepts: every register is a
/// number from the start, memory is its own stack, and branches go forward.
pub fn arithmetic(random: &mut Random, program_type: ProgramType, length: usize) -> Object {
    let mut object = Object { license: "GPL".to_owned(), name: "generated".to_owned(), ..Object::default() };
    let mut nodes = Vec::new();
    for reg in (0..=9).filter_map(Reg::new) {
        let imm = Imm64::Value(corner(random));
        nodes.push(object.new_node(Insn::LoadImm64 { dst: reg, imm }, Reference::None));
    }
    store_slots(random, &mut object, &mut nodes, 0);
    let body = nodes.len();
    for _ in 0..length {
        let insn = random_insn(random, 0);
        nodes.push(object.new_node(insn, Reference::None));
    }
    let body = body..nodes.len();
    mix_into_result(&mut object, &mut nodes);
    connect_branches(random, &mut nodes, body);
    with_program(object, nodes, program_type)
}

/// An XDP program that checks the packet's length, computes with its bytes, and stores some back. R1 is the packet
/// pointer until the end.
pub fn packet_program(random: &mut Random, length: usize) -> Object {
    let mut object = Object { license: "GPL".to_owned(), name: "generated".to_owned(), ..Object::default() };
    let mut nodes = Vec::new();
    let checked = 8 + random.below(48) as i32;
    let field = |dst, offset| {
        let address = Address { base: Reg::R1, offset };
        Insn::Load { size: Size::B4, signed: false, dst, address }
    };
    let sum = Insn::Alu { op: AluOp::Add, width: Width::W64, dst: Reg::R3, src: Source::Imm(checked) };
    let check = Insn::Branch { op: JumpOp::Gt, width: Width::W64, dst: Reg::R3, src: Source::Reg(Reg::R2), offset: 0 };
    for insn in
        [field(Reg::R2, 4), field(Reg::R1, 0), Insn::mov(Reg::R3, Reg::R1), sum, Insn::mov_imm(Reg::R0, 1), check]
    {
        nodes.push(object.new_node(insn, Reference::None));
    }
    let bounds_check = nodes.len() - 1;
    for dst in (0..=9).filter(|number| *number != 1).filter_map(Reg::new) {
        let (size, address) = packet_bytes(random, checked);
        nodes.push(object.new_node(Insn::Load { size, signed: false, dst, address }, Reference::None));
    }
    store_slots(random, &mut object, &mut nodes, 2);
    let body = nodes.len();
    for _ in 0..length {
        let insn = match random.below(6) {
            0 => {
                let (size, address) = packet_bytes(random, checked);
                Insn::Load { size, signed: false, dst: register(random, 2), address }
            }
            1 => {
                let (size, address) = packet_bytes(random, checked);
                Insn::Store { size, address, src: Source::Reg(register(random, 2)) }
            }
            _ => random_insn(random, 2),
        };
        nodes.push(object.new_node(insn, Reference::None));
    }
    let body = body..nodes.len();
    mix_into_result(&mut object, &mut nodes);
    connect_branches(random, &mut nodes, body);
    let exit = nodes.last().expect("the result is mixed").id;
    nodes[bounds_check].reference = Reference::Branch(exit);
    with_program(object, nodes, ProgramType::Xdp)
}

fn packet_bytes(random: &mut Random, checked: i32) -> (Size, Address) {
    let size = Size::ALL[random.below(4) as usize];
    let offset = random.below((checked - size.bytes() as i32 + 1) as u64) as i16;
    (size, Address { base: Reg::R1, offset })
}

fn store_slots(random: &mut Random, object: &mut Object, nodes: &mut Vec<Node>, lowest: u8) {
    for slot in 1..=SLOTS {
        let address = Address { base: Reg::R10, offset: -8 * slot };
        let src = Source::Reg(register(random, lowest));
        nodes.push(object.new_node(Insn::Store { size: Size::B8, address, src }, Reference::None));
    }
}

fn with_program(mut object: Object, nodes: Vec<Node>, program_type: ProgramType) -> Object {
    object.functions.push(Function::new("generated", program_type.name(), Linkage::Global, nodes));
    object.programs.push(Program::new("generated", program_type.name(), Some(program_type), FunctionId(0)));
    object
}

/// R0 becomes a mixture of all registers and slots, so that every wrong result is visible.
fn mix_into_result(object: &mut Object, nodes: &mut Vec<Node>) {
    let mut put = |insn| nodes.push(object.new_node(insn, Reference::None));
    let alu = |op, dst, src| Insn::Alu { op, width: Width::W64, dst, src };
    for slot in 1..=SLOTS {
        let address = Address { base: Reg::R10, offset: -8 * slot };
        put(alu(AluOp::Mul, Reg::R0, Source::Imm(0x1003f)));
        put(Insn::Load { size: Size::B8, signed: false, dst: Reg::R1, address });
        put(alu(AluOp::Xor, Reg::R0, Source::Reg(Reg::R1)));
    }
    for reg in (2..=9).filter_map(Reg::new) {
        put(alu(AluOp::Mul, Reg::R0, Source::Imm(0x1003f)));
        put(alu(AluOp::Xor, Reg::R0, Source::Reg(reg)));
    }
    put(Insn::mov(Reg::R1, Reg::R0));
    put(alu(AluOp::Rsh, Reg::R1, Source::Imm(32)));
    put(alu(AluOp::Xor, Reg::R0, Source::Reg(Reg::R1)));
    put(Insn::Exit);
}

/// Gives every branch of the body a later target, at most a dozen instructions away and not after the body's end.
fn connect_branches(random: &mut Random, nodes: &mut [Node], body: std::ops::Range<usize>) {
    let ids: Vec<InsnId> = nodes.iter().map(|node| node.id).collect();
    for at in body.clone() {
        let node = &mut nodes[at];
        if matches!(node.insn, Insn::Branch { .. }) {
            let target = (at + 1 + random.below(12) as usize).min(body.end);
            node.reference = Reference::Branch(ids[target]);
        }
    }
}

/// An edge value, or any value.
pub fn corner(random: &mut Random) -> u64 {
    const CORNERS: [u64; 12] = [
        0,
        1,
        31,
        32,
        63,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        0x1_0000_0000,
        0x7fff_ffff_ffff_ffff,
        0x8000_0000_0000_0000,
        u64::MAX,
    ];
    match random.below(3) {
        0 => CORNERS[random.below(CORNERS.len() as u64) as usize],
        1 => random.next() >> random.below(64),
        _ => random.next(),
    }
}

/// A register from `lowest` up to R9.
fn register(random: &mut Random, lowest: u8) -> Reg {
    Reg::new(lowest + random.below(u64::from(10 - lowest)) as u8).expect("at most 9")
}

fn width(random: &mut Random) -> Width {
    if random.below(2) == 0 { Width::W32 } else { Width::W64 }
}

fn slot(random: &mut Random, size: Size) -> Address {
    let slots = u64::from(8 * SLOTS as u16) / u64::from(size.bytes());
    Address { base: Reg::R10, offset: -((random.below(slots) as i16 + 1) * size.bytes() as i16) }
}

fn random_insn(random: &mut Random, lowest: u8) -> Insn {
    let (dst, src) = (register(random, lowest), register(random, lowest));
    match random.below(16) {
        0..=6 => alu(random, dst, src),
        7 => Insn::Neg { width: width(random), dst },
        8 => sign_extension(random, dst, src),
        9 => {
            let order = [ByteOrder::Little, ByteOrder::Big, ByteOrder::Swap][random.below(3) as usize];
            Insn::Endian { order, size: [Size::B2, Size::B4, Size::B8][random.below(3) as usize], dst }
        }
        10 | 11 => {
            let size = Size::ALL[random.below(4) as usize];
            let signed = size != Size::B8 && random.below(3) == 0;
            Insn::Load { size, signed, dst, address: slot(random, size) }
        }
        12 | 13 => {
            let size = Size::ALL[random.below(4) as usize];
            let src = if random.below(2) == 0 { Source::Reg(src) } else { Source::Imm(random.next() as i32) };
            Insn::Store { size, address: slot(random, size), src }
        }
        14 => {
            // Compare-and-exchange writes R0 whatever its operand is.
            let count = if lowest == 0 { AtomicOp::ALL.len() } else { AtomicOp::ALL.len() - 1 };
            let op = AtomicOp::ALL[random.below(count as u64) as usize];
            let size = if random.below(2) == 0 { Size::B4 } else { Size::B8 };
            let fetch = op.row().always_fetch || random.below(2) == 0;
            Insn::Atomic { op, fetch, size, address: slot(random, size), src }
        }
        _ => {
            let op = JumpOp::ALL[random.below(JumpOp::ALL.len() as u64) as usize];
            let src = if random.below(2) == 0 { Source::Reg(src) } else { Source::Imm(corner(random) as i32) };
            Insn::Branch { op, width: width(random), dst, src, offset: 0 }
        }
    }
}

fn alu(random: &mut Random, dst: Reg, src: Reg) -> Insn {
    let op = AluOp::ALL[random.below(AluOp::ALL.len() as u64) as usize];
    let width = width(random);
    if random.below(2) == 0 {
        return Insn::Alu { op, width, dst, src: Source::Reg(src) };
    }
    // Constant shifts past the width and constant zero divisors are refused by the kernel.
    let imm = match op {
        AluOp::Lsh | AluOp::Rsh | AluOp::Arsh => random.below(width.bits().into()) as i32,
        AluOp::Div | AluOp::Sdiv | AluOp::Mod | AluOp::Smod => match corner(random) as i32 {
            0 => 1,
            divisor => divisor,
        },
        _ => corner(random) as i32,
    };
    Insn::Alu { op, width, dst, src: Source::Imm(imm) }
}

fn sign_extension(random: &mut Random, dst: Reg, src: Reg) -> Insn {
    let width = width(random);
    let sizes: &[Size] = if width == Width::W64 { &[Size::B1, Size::B2, Size::B4] } else { &[Size::B1, Size::B2] };
    Insn::MoveSignExtend { width, from: sizes[random.below(sizes.len() as u64) as usize], dst, src }
}
