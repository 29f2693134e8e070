//! Programs that grow from choices.
//!
//! [`wild`] uses any valid instructions in any order: most verdicts are "rejected", and it only tests that there is
//! one. [`tame`] grows programs that the verifier mostly accepts, because each of its statements is safe on its own:
//!
//! ```text
//!   r6 = context; r7 = data; r8 = data_end; if r7 + 64 > r8 goto out      N bytes of packet are there
//!   r0..r5 = numbers; stack slots -8..-64 = numbers
//!   statement*     arithmetic on r0..r5 | packet | stack | map value | branch forward | bounded loop | call
//!   out: r0 = mixture of r0..r5 and the stack; exit
//! ```
//!
//! Some statements are deliberately slightly wrong (an offset too large, a missing bounds check). Such a program should
//! be rejected. If it is accepted, it runs, and shows whether that was right.

use kiln_isa::{
    Address, AluOp, AtomicOp, ByteOrder, CallTarget, Imm64, Insn, JumpOp, PacketMode, Reg, Size, Source, Width, forms,
};
use kiln_platform::{MapType, ProgramType};
use kiln_program::{
    Extern, ExternKind, Function, FunctionId, InsnId, Linkage, Map, MapContents, MapId, Node, Object, Program,
    Reference,
};

use crate::choices::Choices;

/// Bytes of packet that a tame program checks for.
pub const PACKET_BYTES: usize = 64;
/// Entries of a tame program's map.
const ENTRIES: u32 = 4;
/// Bytes in a value of it.
const VALUE_BYTES: u32 = 32;
/// Stack slots of eight bytes that a tame program initializes.
const SLOTS: i16 = 8;
/// Statements at most.
const STATEMENTS: usize = 60;
/// Instructions of one function of a wild program at most.
const WILD_INSNS: usize = 60;

const NUMBERS: [Reg; 6] = [Reg::R0, Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5];

/// An object with one map and one program of this type, without functions yet.
fn frame(program_type: ProgramType) -> Object {
    Object {
        name: "fuzz".to_owned(),
        license: "GPL".to_owned(),
        programs: vec![Program::new("entry", program_type.name(), Some(program_type), FunctionId(0))],
        ..Object::default()
    }
}

fn map(name: &str, map_type: MapType, key_size: u32, value_size: u32, max_entries: u32) -> Map {
    Map {
        name: name.to_owned(),
        map_type,
        key_size,
        value_size,
        max_entries,
        flags: 0,
        extra: 0,
        pinned_by_name: false,
        key_btf: 0,
        value_btf: 0,
        inner: None,
        contents: MapContents::Empty,
    }
}

fn function(name: &str, linkage: Linkage, nodes: Vec<Node>) -> Function {
    let section = if linkage == Linkage::Static { ".text" } else { "xdp" };
    Function::new(name, section, linkage, nodes)
}

// ------------------------------------------------------------------------------------------------------------ wild

/// Any valid instructions in any order, with references that exist.
pub fn wild(choices: &mut Choices<'_>) -> Object {
    let mut object = frame(choices.pick(ProgramType::ALL));
    for index in 0..choices.below(3) {
        let map_type = choices.pick(MapType::ALL);
        let sizes = [0, 1, 4, 8, 16, 64, 4096];
        let (key, value, entries) = (choices.pick(&sizes), choices.pick(&sizes), choices.pick(&sizes));
        object.maps.push(map(&format!("map{index}"), map_type, key, value, entries));
    }
    let external = |kind| Extern { name: "external".to_owned(), kind, weak: true, btf_id: 0 };
    object.externs.push(external(choices.pick(&[ExternKind::Kfunc, ExternKind::Ksym, ExternKind::TypedKsym])));
    let functions = 1 + choices.below(3);
    for index in 0..functions {
        let mut nodes = Vec::new();
        for _ in 0..1 + choices.below(WILD_INSNS) {
            let (insn, reference) = wild_insn(choices, &object, functions);
            nodes.push(object.new_node(insn, reference));
        }
        if !matches!(nodes.last(), Some(Node { insn: Insn::Exit | Insn::Jump { .. }, .. })) {
            nodes.push(object.new_node(Insn::Exit, Reference::None));
        }
        let ids: Vec<InsnId> = nodes.iter().map(|node| node.id).collect();
        for node in &mut nodes {
            if matches!(node.reference, Reference::Branch(_)) {
                node.reference = Reference::Branch(choices.pick(&ids));
            }
        }
        let linkage = if index == 0 { Linkage::Global } else { choices.pick(&[Linkage::Static, Linkage::Global]) };
        object.functions.push(function(
            if index == 0 { "entry" } else { ["", "first", "second"][index] },
            linkage,
            nodes,
        ));
    }
    object
}

fn register(choices: &mut Choices<'_>) -> Reg {
    Reg::new(choices.below(Reg::COUNT) as u8).unwrap_or(Reg::R0)
}

fn wild_insn(choices: &mut Choices<'_>, object: &Object, functions: usize) -> (Insn, Reference) {
    // Most instructions are simple ones, or nothing is ever initialized.
    if choices.below(3) == 0 {
        let dst = register(choices);
        return (Insn::mov_imm(dst, choices.value() as i32), Reference::None);
    }
    let forms = forms::forms();
    let form = forms[choices.below(forms.len())].insn;
    let insn = with_operands(choices, form);
    let reference = match insn {
        Insn::Jump { .. } | Insn::Branch { .. } | Insn::MayGoto { .. } => Reference::Branch(InsnId(0)),
        Insn::Call(CallTarget::Subprogram(_)) => Reference::Function(FunctionId(choices.below(functions) as u32)),
        Insn::Call(CallTarget::Kfunc { .. }) => Reference::Extern(kiln_program::ExternId(0)),
        Insn::LoadImm64 { .. } if choices.below(2) == 0 => match choices.below(4) {
            0 => Reference::Extern(kiln_program::ExternId(0)),
            1 => Reference::Function(FunctionId(choices.below(functions) as u32)),
            _ if object.maps.is_empty() => Reference::None,
            kind => {
                let map = MapId(choices.below(object.maps.len()) as u32);
                if kind == 2 {
                    Reference::Map(map)
                } else {
                    Reference::MapValue { map, offset: choices.value() as u32 }
                }
            }
        },
        _ => Reference::None,
    };
    let insn = if reference == Reference::None { insn } else { kiln_program::lower::without_encoded_reference(insn) };
    (insn, reference)
}

/// A form with operands of its own instead of the examples.
fn with_operands(choices: &mut Choices<'_>, form: Insn) -> Insn {
    let source = |choices: &mut Choices<'_>, src| match src {
        Source::Reg(_) => Source::Reg(register(choices)),
        Source::Imm(_) => Source::Imm(choices.value() as i32),
    };
    let place = |choices: &mut Choices<'_>| {
        let (base, offset) = (register(choices), choices.value() as i16);
        Address { base, offset: if base == Reg::R10 { -(offset & 0x1f8) } else { offset & 0xff } }
    };
    match form {
        Insn::Alu { op, width, src, .. } => Insn::Alu { op, width, dst: register(choices), src: source(choices, src) },
        Insn::Neg { width, .. } => Insn::Neg { width, dst: register(choices) },
        Insn::MoveSignExtend { width, from, .. } => {
            Insn::MoveSignExtend { width, from, dst: register(choices), src: register(choices) }
        }
        Insn::Endian { order, size, .. } => Insn::Endian { order, size, dst: register(choices) },
        Insn::LoadImm64 { imm, .. } => {
            let imm = if matches!(imm, Imm64::Value(_)) { Imm64::Value(choices.value()) } else { imm };
            Insn::LoadImm64 { dst: register(choices), imm }
        }
        Insn::Load { size, signed, .. } => Insn::Load { size, signed, dst: register(choices), address: place(choices) },
        Insn::Store { size, src, .. } => Insn::Store { size, address: place(choices), src: source(choices, src) },
        Insn::Atomic { op, fetch, size, .. } => {
            Insn::Atomic { op, fetch, size, address: place(choices), src: register(choices) }
        }
        Insn::LoadAcquire { size, .. } => Insn::LoadAcquire { size, dst: register(choices), address: place(choices) },
        Insn::StoreRelease { size, .. } => Insn::StoreRelease { size, address: place(choices), src: register(choices) },
        Insn::LoadPacket { mode, size, .. } => {
            let offset = choices.value() as i32;
            let mode = if mode == PacketMode::Absolute { mode } else { PacketMode::Indirect(register(choices)) };
            Insn::LoadPacket { mode, size, offset }
        }
        Insn::AddressSpaceCast { to, from, .. } => {
            Insn::AddressSpaceCast { dst: register(choices), src: register(choices), to, from }
        }
        Insn::Branch { op, width, src, .. } => {
            Insn::Branch { op, width, dst: register(choices), src: source(choices, src), offset: 0 }
        }
        Insn::Call(CallTarget::Helper(_)) => Insn::Call(CallTarget::Helper(choices.below(220) as u32)),
        Insn::Jump { long, .. } => Insn::Jump { offset: 0, long },
        other => other,
    }
}

// ------------------------------------------------------------------------------------------------------------ tame

/// A program that the verifier mostly accepts.
pub fn tame(choices: &mut Choices<'_>) -> Object {
    let mut object = frame(ProgramType::Xdp);
    object.maps.push(map("values", MapType::Array, 4, VALUE_BYTES, ENTRIES));
    let mut body = Body { object, nodes: Vec::new(), open: Vec::new(), calls: false };
    body.prologue(choices);
    for _ in 0..STATEMENTS {
        if choices.used_up() {
            break;
        }
        body.statement(choices);
        body.close(false);
    }
    body.close(true);
    body.finish(choices)
}

/// A program being grown.
struct Body {
    object: Object,
    nodes: Vec<Node>,
    /// Branches whose target comes after so many more statements.
    open: Vec<(usize, usize)>,
    /// Whether it calls the subprogram.
    calls: bool,
}

fn stack(offset: i16) -> Address {
    Address { base: Reg::R10, offset }
}

fn alu64(op: AluOp, dst: Reg, src: Source) -> Insn {
    Insn::Alu { op, width: Width::W64, dst, src }
}

/// Index of a branch to the end of the program, among the open branches.
const TO_END: usize = usize::MAX;

impl Body {
    fn put(&mut self, insn: Insn) {
        let node = self.object.new_node(insn, Reference::None);
        self.nodes.push(node);
    }

    /// A branch whose target is found later: after so many statements, or at the end.
    fn branch(&mut self, insn: Insn, statements: usize) {
        self.open.push((self.nodes.len(), statements));
        let node = self.object.new_node(insn, Reference::Branch(InsnId(0)));
        self.nodes.push(node);
    }

    fn branch_to(&mut self, insn: Insn, target: InsnId) {
        let node = self.object.new_node(insn, Reference::Branch(target));
        self.nodes.push(node);
    }

    /// A statement ends: branches that waited for it get the next instruction's id as their target.
    fn close(&mut self, all: bool) {
        let next = InsnId(self.object.next_insn);
        let nodes = &mut self.nodes;
        self.open.retain_mut(|(branch, statements)| {
            if *statements == TO_END && !all {
                return true;
            }
            if *statements == 0 || all {
                nodes[*branch].reference = Reference::Branch(next);
                return false;
            }
            *statements -= 1;
            true
        });
    }

    fn prologue(&mut self, choices: &mut Choices<'_>) {
        // What the end reads, in case the packet is too short.
        for reg in NUMBERS.into_iter().skip(2) {
            self.put(Insn::LoadImm64 { dst: reg, imm: Imm64::Value(choices.value()) });
        }
        for slot in 1..=SLOTS {
            self.put(Insn::Store {
                size: Size::B8,
                address: stack(-8 * slot),
                src: Source::Imm(choices.value() as i32),
            });
        }
        self.put(Insn::mov(Reg::R6, Reg::R1));
        let field = |offset| Address { base: Reg::R6, offset };
        self.put(Insn::Load { size: Size::B4, signed: false, dst: Reg::R7, address: field(0) });
        self.put(Insn::Load { size: Size::B4, signed: false, dst: Reg::R8, address: field(4) });
        for reg in [Reg::R0, Reg::R1] {
            self.put(Insn::LoadImm64 { dst: reg, imm: Imm64::Value(choices.value()) });
        }
        self.put(Insn::mov(Reg::R9, Reg::R7));
        self.put(alu64(AluOp::Add, Reg::R9, Source::Imm(PACKET_BYTES as i32)));
        let insn =
            Insn::Branch { op: JumpOp::Gt, width: Width::W64, dst: Reg::R9, src: Source::Reg(Reg::R8), offset: 0 };
        self.branch(insn, TO_END);
    }

    fn statement(&mut self, choices: &mut Choices<'_>) {
        match choices.below(20) {
            0..=5 => self.arithmetic(choices),
            6 => self.other_arithmetic(choices),
            7..=8 => self.packet(choices),
            9 => self.variable_packet(choices),
            10..=11 => self.own_stack(choices),
            12 => self.variable_stack(choices),
            13 => self.atomic(choices),
            14..=16 => self.condition(choices),
            17 => self.map_value(choices),
            18 => self.bounded_loop(choices),
            _ => self.call(choices),
        }
    }

    fn arithmetic(&mut self, choices: &mut Choices<'_>) {
        let (op, dst) = (choices.pick(AluOp::ALL), choices.pick(&NUMBERS));
        let width = choices.pick(&[Width::W64, Width::W32]);
        if choices.below(2) == 0 {
            return self.put(Insn::Alu { op, width, dst, src: Source::Reg(choices.pick(&NUMBERS)) });
        }
        let value = choices.value() as i32;
        // Constant shifts past the width and constant zero divisors are refused.
        let imm = match op {
            AluOp::Lsh | AluOp::Rsh | AluOp::Arsh => value & (width.bits() as i32 - 1),
            AluOp::Div | AluOp::Sdiv | AluOp::Mod | AluOp::Smod if value == 0 => 1,
            _ => value,
        };
        self.put(Insn::Alu { op, width, dst, src: Source::Imm(imm) });
    }

    fn other_arithmetic(&mut self, choices: &mut Choices<'_>) {
        let (dst, src) = (choices.pick(&NUMBERS), choices.pick(&NUMBERS));
        let width = choices.pick(&[Width::W64, Width::W32]);
        let insn = match choices.below(4) {
            0 => Insn::Neg { width, dst },
            1 => {
                let from = choices.pick(&[Size::B1, Size::B2, Size::B4]);
                let width = if from == Size::B4 { Width::W64 } else { width };
                Insn::MoveSignExtend { width, from, dst, src }
            }
            2 => {
                let order = choices.pick(&[ByteOrder::Little, ByteOrder::Big, ByteOrder::Swap]);
                Insn::Endian { order, size: choices.pick(&[Size::B2, Size::B4, Size::B8]), dst }
            }
            _ => Insn::LoadImm64 { dst, imm: Imm64::Value(choices.value()) },
        };
        self.put(insn);
    }

    /// An offset at which `size` bytes fit into `bytes`; rarely one at which they may not.
    fn offset(choices: &mut Choices<'_>, size: Size, bytes: usize) -> i16 {
        let room = bytes - size.bytes() as usize;
        if choices.one_in(32) { (room + choices.below(12)) as i16 } else { choices.below(room + 1) as i16 }
    }

    fn load_or_store(&mut self, choices: &mut Choices<'_>, size: Size, address: Address) {
        let (reg, imm) = (choices.pick(&NUMBERS), choices.value() as i32);
        match choices.below(4) {
            0 => self.put(Insn::Store { size, address, src: Source::Reg(reg) }),
            1 => self.put(Insn::Store { size, address, src: Source::Imm(imm) }),
            2 if size != Size::B8 => self.put(Insn::Load { size, signed: true, dst: reg, address }),
            _ => self.put(Insn::Load { size, signed: false, dst: reg, address }),
        }
    }

    fn packet(&mut self, choices: &mut Choices<'_>) {
        let size = choices.pick(&Size::ALL);
        let offset = Body::offset(choices, size, PACKET_BYTES);
        self.load_or_store(choices, size, Address { base: Reg::R7, offset });
    }

    /// `r9 = data + (number & mask)`; the access lies within what is checked unless the mask is left out.
    fn variable_packet(&mut self, choices: &mut Choices<'_>) {
        let (size, index) = (choices.pick(&Size::ALL), choices.pick(&NUMBERS));
        let mask = choices.pick(&[7, 15, 31]);
        if !choices.one_in(32) {
            self.put(alu64(AluOp::And, index, Source::Imm(mask)));
        }
        self.put(Insn::mov(Reg::R9, Reg::R7));
        self.put(alu64(AluOp::Add, Reg::R9, Source::Reg(index)));
        // The kernel learns the range of a variable pointer only from a check of that very pointer.
        let (checked, end) = (Reg::R9, Source::Reg(Reg::R8));
        self.put(alu64(AluOp::Add, checked, Source::Imm(size.bytes() as i32)));
        let insn = Insn::Branch { op: JumpOp::Gt, width: Width::W64, dst: checked, src: end, offset: 0 };
        if !choices.one_in(16) {
            self.branch(insn, 0);
        }
        let address = Address { base: Reg::R9, offset: -(size.bytes() as i16) };
        self.load_or_store(choices, size, address);
    }

    fn own_stack(&mut self, choices: &mut Choices<'_>) {
        let size = choices.pick(&Size::ALL);
        let bytes = 8 * SLOTS as usize;
        let offset = Body::offset(choices, size, bytes) / size.bytes() as i16 * size.bytes() as i16;
        self.load_or_store(choices, size, stack(offset - bytes as i16));
    }

    fn variable_stack(&mut self, choices: &mut Choices<'_>) {
        let index = choices.pick(&NUMBERS);
        self.put(alu64(AluOp::And, index, Source::Imm(choices.pick(&[7, 24, 31]))));
        self.put(Insn::mov(Reg::R9, Reg::R10));
        self.put(alu64(AluOp::Add, Reg::R9, Source::Reg(index)));
        let address = Address { base: Reg::R9, offset: Body::offset(choices, Size::B1, 33) - 64 };
        self.load_or_store(choices, Size::B1, address);
    }

    fn atomic(&mut self, choices: &mut Choices<'_>) {
        let (op, size) = (choices.pick(AtomicOp::ALL), choices.pick(&[Size::B8, Size::B4]));
        let fetch = op.row().always_fetch || choices.below(2) == 1;
        let bytes = 8 * SLOTS;
        let offset = Body::offset(choices, size, bytes as usize) / size.bytes() as i16 * size.bytes() as i16 - bytes;
        self.put(Insn::Atomic { op, fetch, size, address: stack(offset), src: choices.pick(&NUMBERS) });
    }

    fn condition(&mut self, choices: &mut Choices<'_>) {
        let (op, width) = (choices.pick(JumpOp::ALL), choices.pick(&[Width::W64, Width::W32]));
        let dst = choices.pick(&NUMBERS);
        let src = match choices.below(2) {
            0 => Source::Reg(choices.pick(&NUMBERS)),
            _ => Source::Imm(choices.value() as i32),
        };
        let statements = 1 + choices.below(5);
        self.branch(Insn::Branch { op, width, dst, src, offset: 0 }, statements);
    }

    /// Numbers again in the registers that a call destroyed.
    fn numbers_again(&mut self, choices: &mut Choices<'_>) {
        for (index, reg) in NUMBERS.into_iter().enumerate().skip(1) {
            match choices.below(3) {
                0 => self.put(Insn::mov_imm(reg, choices.value() as i32)),
                _ => {
                    let address = stack(-8 * (1 + index as i16));
                    self.put(Insn::Load { size: Size::B8, signed: false, dst: reg, address });
                }
            }
        }
    }

    fn map_value(&mut self, choices: &mut Choices<'_>) {
        let index = choices.pick(&NUMBERS);
        self.put(alu64(AluOp::And, index, Source::Imm(choices.pick(&[3, 7]))));
        self.put(Insn::Store { size: Size::B4, address: stack(-72), src: Source::Reg(index) });
        let node = self.object.new_node(Node::address_load(Reg::R1), Reference::Map(MapId(0)));
        self.nodes.push(node);
        self.put(Insn::mov(Reg::R2, Reg::R10));
        self.put(alu64(AluOp::Add, Reg::R2, Source::Imm(-72)));
        self.put(Insn::Call(CallTarget::Helper(1)));
        self.put(Insn::mov(Reg::R9, Reg::R0));
        self.numbers_again(choices);
        let null = Insn::Branch { op: JumpOp::Eq, width: Width::W64, dst: Reg::R9, src: Source::Imm(0), offset: 0 };
        self.put(Insn::mov_imm(Reg::R0, 0));
        if !choices.one_in(32) {
            self.branch(null, 0);
        }
        let mut bytes = VALUE_BYTES as usize;
        let size = choices.pick(&Size::ALL);
        if choices.below(2) == 1 {
            let index = choices.pick(&NUMBERS);
            self.put(alu64(AluOp::And, index, Source::Imm(15)));
            self.put(alu64(AluOp::Add, Reg::R9, Source::Reg(index)));
            bytes -= 15;
        }
        let offset = Body::offset(choices, size, bytes);
        self.load_or_store(choices, size, Address { base: Reg::R9, offset });
    }

    /// A counter on the stack, so that the body may use every register.
    fn bounded_loop(&mut self, choices: &mut Choices<'_>) {
        let counter = stack(-80);
        self.put(Insn::Store { size: Size::B8, address: counter, src: Source::Imm(0) });
        let begin = InsnId(self.object.next_insn);
        for _ in 0..1 + choices.below(3) {
            self.arithmetic(choices);
        }
        let (reg, turns) = (choices.pick(&NUMBERS), 1 + choices.below(8) as i32);
        self.put(Insn::Load { size: Size::B8, signed: false, dst: reg, address: counter });
        self.put(alu64(AluOp::Add, reg, Source::Imm(1)));
        self.put(Insn::Store { size: Size::B8, address: counter, src: Source::Reg(reg) });
        let insn = Insn::Branch { op: JumpOp::Lt, width: Width::W64, dst: reg, src: Source::Imm(turns), offset: 0 };
        self.branch_to(insn, begin);
    }

    fn call(&mut self, choices: &mut Choices<'_>) {
        self.calls = true;
        let node = self.object.new_node(Insn::Call(CallTarget::Subprogram(0)), Reference::Function(FunctionId(1)));
        self.nodes.push(node);
        self.numbers_again(choices);
    }

    /// R0 becomes a mixture of all numbers, so that every wrong one is visible; then the subprogram.
    fn finish(mut self, choices: &mut Choices<'_>) -> Object {
        for reg in NUMBERS.into_iter().skip(1) {
            self.put(alu64(AluOp::Mul, Reg::R0, Source::Imm(0x1003f)));
            self.put(alu64(AluOp::Xor, Reg::R0, Source::Reg(reg)));
        }
        for slot in 1..=SLOTS {
            self.put(Insn::Load { size: Size::B8, signed: false, dst: Reg::R1, address: stack(-8 * slot) });
            self.put(alu64(AluOp::Mul, Reg::R0, Source::Imm(0x1003f)));
            self.put(alu64(AluOp::Xor, Reg::R0, Source::Reg(Reg::R1)));
        }
        self.put(Insn::mov(Reg::R1, Reg::R0));
        self.put(alu64(AluOp::Rsh, Reg::R1, Source::Imm(32)));
        self.put(alu64(AluOp::Xor, Reg::R0, Source::Reg(Reg::R1)));
        self.put(Insn::Exit);
        let nodes = std::mem::take(&mut self.nodes);
        self.object.functions.push(function("entry", Linkage::Global, nodes));
        if self.calls {
            self.put(Insn::mov(Reg::R0, Reg::R1));
            for _ in 0..choices.below(6) {
                self.arithmetic_of_arguments(choices);
            }
            self.put(Insn::Exit);
            let nodes = std::mem::take(&mut self.nodes);
            self.object.functions.push(function("called", Linkage::Static, nodes));
        }
        self.object
    }

    fn arithmetic_of_arguments(&mut self, choices: &mut Choices<'_>) {
        let op = choices.pick(&[AluOp::Add, AluOp::Sub, AluOp::Mul, AluOp::Xor, AluOp::Or, AluOp::And]);
        let width = choices.pick(&[Width::W64, Width::W32]);
        self.put(Insn::Alu { op, width, dst: Reg::R0, src: Source::Reg(choices.pick(&NUMBERS)) });
    }
}
