//! The JIT against the reference interpreter, on random programs.
//!
//! Every program runs twice on the same 512 bytes of memory, whose address both take as their context, and must end
//! with the same R0 and the same memory:
//!
//! ```text
//!   *(u64 *)(r10 - 8) = r1         where the memory is
//!   r0 = ... r9 = ...              interesting values; r9 counts loops down
//!   <random items>                 arithmetic, memory, atomics, branches both ways, a subprogram
//!   r1 = *(u64 *)(r10 - 8) ...     all registers into memory
//!   exit
//! ```
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use kiln_isa::operation::Registry;
use kiln_isa::{Address, AluOp, AtomicOp, ByteOrder, CallTarget, Imm64, Insn, JumpOp, Reg, Size, Source, Width};
use kiln_jit::{Options, Runtime, Symbols};
use kiln_program::interpret::{Fault, HelperResult};
use kiln_program::{
    Environment, ExternId, Function, FunctionId, InsnId, Interpreter, Linkage, MapId, Node, Object, Reference,
};
use kiln_vm::exec::Program;
use proptest::prelude::*;

const MEMORY_BYTES: usize = 512;
/// Registers are dumped to the last 80 bytes; random accesses stay below.
const DUMP: i16 = 432;
const CONTEXT: Address = Address { base: Reg::R10, offset: -8 };
const BUDGET: u64 = 1_000_000;

// ---------------------------------------------------------------------------------------------------------------
// Building programs.

/// A piece of a random program.
#[derive(Clone, Debug)]
enum Item {
    /// One instruction.
    Plain(Insn),
    /// One that addresses memory; its base register is loaded with the memory's address first.
    Memory(Insn),
    /// Instructions that belong together, for the JIT to fuse.
    Run(Vec<Insn>),
    /// A branch over so many items.
    Branch(Insn, usize),
    /// An operation and a branch on its result.
    TestedBranch(Vec<Insn>, Insn, usize),
    /// A branch over a jump.
    Inverted(Insn, usize),
    /// A branch back to an item, as long as R9 lasts.
    Back(usize),
    /// A call of the subprogram.
    Call,
}

/// Appends nodes to a function, handing out ids.
struct Builder {
    object: Object,
}

impl Builder {
    fn new() -> Builder {
        Builder { object: Object { license: "GPL".into(), ..Object::default() } }
    }

    fn function(&mut self, nodes: Vec<Node>) -> FunctionId {
        let id = FunctionId(self.object.functions.len() as u32);
        self.object.functions.push(Function {
            name: format!("function{}", id.0),
            section: "xdp".into(),
            linkage: Linkage::Static,
            btf_id: 0,
            nodes,
        });
        id
    }

    fn node(&mut self, insn: Insn) -> Node {
        self.object.new_node(insn, Reference::None)
    }

    /// The nodes of some items. Branch targets are the first nodes of items; past the last item is `end`.
    fn items(&mut self, items: &[Item], callee: Option<FunctionId>, end: InsnId, nodes: &mut Vec<Node>) {
        let starts: Vec<InsnId> = items.iter().map(|_| self.object.fresh_insn()).collect();
        let target = |index: usize| Reference::Branch(starts.get(index).copied().unwrap_or(end));
        for (at, item) in items.iter().enumerate() {
            let plain = |insn: &Insn| (*insn, Reference::None);
            let insns = match item {
                Item::Plain(insn) => vec![plain(insn)],
                Item::Run(run) => run.iter().map(plain).collect(),
                Item::Memory(insn) => {
                    let base = insn.address().expect("it addresses memory").base;
                    vec![plain(&load(Size::B8, base, CONTEXT)), plain(insn)]
                }
                Item::Branch(insn, over) => vec![(*insn, target(at + 1 + over))],
                Item::TestedBranch(insns, test, over) => {
                    let branch = (*test, target(at + 1 + over));
                    insns.iter().map(plain).chain([branch]).collect()
                }
                Item::Inverted(branch, over) => {
                    let jump = Insn::Jump { offset: 0, long: false };
                    vec![(*branch, target(at + 1)), (jump, target(at + 1 + over))]
                }
                Item::Back(to) => vec![
                    plain(&alu(AluOp::Sub, Width::W64, Reg::R9, Source::Imm(1))),
                    (branch(JumpOp::Sgt, Width::W64, Reg::R9, Source::Imm(0)), target(*to % (at + 1))),
                ],
                Item::Call => {
                    let call = Insn::Call(CallTarget::Subprogram(0));
                    let call = callee.map(|callee| (call, Reference::Function(callee)));
                    // What a call destroys gets known values: verified programs do not read it.
                    let known = (1..6).map(|number| plain(&constant(reg(number), number.into())));
                    let memory = plain(&load(Size::B8, Reg::R1, CONTEXT));
                    std::iter::once(memory).chain(call).chain(known).collect()
                }
            };
            let first = nodes.len();
            nodes.extend(insns.into_iter().map(|(insn, reference)| self.object.new_node(insn, reference)));
            nodes[first].id = starts[at];
        }
    }
}

fn reg(number: u8) -> Reg {
    Reg::new(number).expect("a register number")
}

fn alu(op: AluOp, width: Width, dst: Reg, src: Source) -> Insn {
    Insn::Alu { op, width, dst, src }
}

fn branch(op: JumpOp, width: Width, dst: Reg, src: Source) -> Insn {
    Insn::Branch { op, width, dst, src, offset: 0 }
}

/// A plain load.
fn load(size: Size, dst: Reg, address: Address) -> Insn {
    Insn::Load { size, signed: false, dst, address }
}

fn store(size: Size, address: Address, src: Reg) -> Insn {
    Insn::Store { size, address, src: Source::Reg(src) }
}

fn constant(dst: Reg, value: u64) -> Insn {
    Insn::LoadImm64 { dst, imm: Imm64::Value(value) }
}

/// The whole program around some items, entry first.
fn program(items: &[Item], callee: Option<&[Item]>, registers: &[u64]) -> (Object, FunctionId) {
    let mut builder = Builder::new();
    let callee = callee.map(|items| {
        let mut nodes = vec![];
        let exit = builder.node(Insn::Exit);
        // R1 is where the memory is: callees keep it in their own frame.
        nodes.push(builder.node(store(Size::B8, CONTEXT, Reg::R1)));
        // No other register may be read before it is written.
        for number in (0..10).filter(|number| *number != 1) {
            nodes.push(builder.node(constant(reg(number), u64::MAX / 11 << (3 * number))));
        }
        nodes.push(builder.node(constant(Reg::R9, 3)));
        builder.items(items, None, exit.id, &mut nodes);
        nodes.push(exit);
        builder.function(nodes)
    });
    let mut nodes = vec![builder.node(store(Size::B8, CONTEXT, Reg::R1))];
    for (number, value) in registers.iter().enumerate() {
        nodes.push(builder.node(constant(reg(number as u8), *value)));
    }
    let mut end = vec![builder.node(store(Size::B8, Address { base: Reg::R10, offset: -16 }, Reg::R1))];
    end.push(builder.node(load(Size::B8, Reg::R1, CONTEXT)));
    for number in (0..10).filter(|number| *number != 1) {
        let place = Address { base: Reg::R1, offset: DUMP + 8 * i16::from(number) };
        end.push(builder.node(store(Size::B8, place, reg(number))));
    }
    end.push(builder.node(load(Size::B8, Reg::R2, Address { base: Reg::R10, offset: -16 })));
    end.push(builder.node(store(Size::B8, Address { base: Reg::R1, offset: DUMP + 8 }, Reg::R2)));
    end.push(builder.node(Insn::Exit));
    builder.items(items, callee, end[0].id, &mut nodes);
    nodes.extend(end);
    let entry = builder.function(nodes);
    (builder.object, entry)
}

// ---------------------------------------------------------------------------------------------------------------
// Running them.

type Memory = [u8; MEMORY_BYTES];

/// Real addresses for the memory, made-up ones for the stack.
struct ReferenceMachine {
    base: u64,
    memory: Memory,
    stack: Vec<u8>,
}

const STACK_BASE: u64 = 0x7000_0000_0000;
const FRAME_BYTES: usize = 512;

impl ReferenceMachine {
    fn place(&mut self, address: u64, size: Size) -> Result<&mut [u8], Fault> {
        let bytes = size.bytes() as usize;
        let inside = |base: u64, length: usize| {
            address.checked_sub(base).map(|at| at as usize).filter(|at| at.saturating_add(bytes) <= length)
        };
        let fault = Fault::Memory { address, bytes: bytes as u64 };
        if let Some(at) = inside(self.base, MEMORY_BYTES) {
            return Ok(&mut self.memory[at..at + bytes]);
        }
        let at = inside(STACK_BASE, self.stack.len()).ok_or(fault)?;
        Ok(&mut self.stack[at..at + bytes])
    }
}

impl Environment for ReferenceMachine {
    fn load(&mut self, address: u64, size: Size) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        let place = self.place(address, size)?;
        bytes[..place.len()].copy_from_slice(place);
        Ok(u64::from_le_bytes(bytes))
    }
    fn store(&mut self, address: u64, size: Size, value: u64) -> Result<(), Fault> {
        let place = self.place(address, size)?;
        let length = place.len();
        place.copy_from_slice(&value.to_le_bytes()[..length]);
        Ok(())
    }
    fn call_helper(&mut self, helper: u32, arguments: [u64; 5]) -> Result<HelperResult, Fault> {
        Ok(HelperResult::Value(mix(u64::from(helper), arguments)))
    }
    fn call_kfunc(&mut self, _: ExternId, _: [u64; 5]) -> Result<u64, Fault> {
        Err(Fault::Unsupported("kfuncs".into()))
    }
    fn map_address(&mut self, _: MapId) -> Result<u64, Fault> {
        Err(Fault::Unsupported("maps".into()))
    }
    fn map_value_address(&mut self, _: MapId, _: u32) -> Result<u64, Fault> {
        Err(Fault::Unsupported("maps".into()))
    }
    fn extern_address(&mut self, _: ExternId) -> Result<u64, Fault> {
        Err(Fault::Unsupported("externs".into()))
    }
    fn frame_pointer(&mut self, depth: usize) -> Result<u64, Fault> {
        let end = (depth + 1) * FRAME_BYTES;
        self.stack.resize(self.stack.len().max(end), 0);
        Ok(STACK_BASE + end as u64)
    }
    fn load_packet(&mut self, offset: i64, size: Size) -> Result<Option<u64>, Fault> {
        Ok(packet(offset, size))
    }
}

/// What the test's helpers compute.
fn mix(helper: u64, arguments: [u64; 5]) -> u64 {
    arguments.iter().fold(helper, |mixed, argument| mixed.rotate_left(7) ^ argument)
}

/// A packet of 64 bytes that count up.
fn packet(offset: i64, size: Size) -> Option<u64> {
    let bytes = i64::from(size.bytes());
    let inside = offset >= 0 && offset + bytes <= 64;
    inside.then(|| (offset..offset + bytes).fold(0, |value, byte| value << 8 | byte as u64))
}

extern "C" fn helper(r1: u64, r2: u64, r3: u64, r4: u64, r5: u64, runtime: *mut Runtime) -> u64 {
    let _ = runtime;
    mix(1, [r1, r2, r3, r4, r5])
}

extern "C" fn packet_load(_: u64, offset: u64, bytes: u64, _: u64, _: u64, _: *mut Runtime) -> u64 {
    let size = Size::from_bytes(bytes as u32).expect("a size");
    packet(offset as i64, size).unwrap_or(u64::MAX)
}

struct TestSymbols;

impl Symbols for TestSymbols {
    fn map_address(&self, _: MapId) -> Option<u64> {
        None
    }
    fn map_value_address(&self, _: MapId, _: u32) -> Option<u64> {
        None
    }
    fn helper_address(&self, number: u32) -> Option<u64> {
        (number == 1).then_some(helper as *const () as u64)
    }
    fn extern_address(&self, _: ExternId) -> Option<u64> {
        None
    }
    fn packet_load_address(&self) -> Option<u64> {
        Some(packet_load as *const () as u64)
    }
}

/// Every combination of options that this CPU can run, and the proof sequences in place of native operations.
fn all_options() -> Vec<Options> {
    #[cfg(target_arch = "x86_64")]
    let (bmi2, movbe) = (is_x86_feature_detected!("bmi2"), is_x86_feature_detected!("movbe"));
    #[cfg(not(target_arch = "x86_64"))]
    let (bmi2, movbe) = (false, false);
    let mut all = Vec::new();
    for metered in [true, false] {
        all.push(Options { metered, ..Options::default() });
        if bmi2 || movbe {
            let cleared_bytes = if metered { 512 } else { 0 };
            all.push(Options { bmi2, movbe, metered, cleared_bytes, ..Options::default() });
        }
    }
    all.push(Options { operations: Registry::EMPTY, ..Options::default() });
    all
}

/// Runs a program both ways and compares.
fn agree(object: &Object, entry: FunctionId) {
    let mut object = object.clone();
    kiln_idiom::annotate(&mut object, &Registry::BUILTIN);
    let object = &object;
    kiln_program::validate(object).expect("a valid program");
    let initial: Memory = std::array::from_fn(|at| (at * 37 + at / 8) as u8);
    let mut memory = Box::new(initial);
    let base = memory.as_mut_ptr() as u64;
    let mut reference = ReferenceMachine { base, memory: initial, stack: Vec::new() };
    let outcome = Interpreter::new(object).run(entry, base, &mut reference, BUDGET).expect("the reference runs");
    for options in all_options() {
        let code = kiln_jit::compile_here(object, entry, &TestSymbols, &options).expect("it compiles");
        assert_eq!(code.entry_offset, 0);
        let compiled = Program::new(&code.bytes).expect("executable memory");
        *memory = initial;
        let mut runtime = Runtime::new(BUDGET);
        // SAFETY: the generator makes programs that stay inside the memory at `base`.
        let value = unsafe { compiled.call(base, &mut runtime) };
        assert!(!runtime.stopped(), "{options:?}: stopped");
        assert_eq!(value, outcome.value, "R0, {options:?}\n{}", listing(object, &code));
        let registers = |memory: &Memory| {
            let words = memory[DUMP as usize..].chunks(8);
            words
                .map(|word| format!("{:#x}", u64::from_le_bytes(word.try_into().expect("8 bytes"))))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            registers(&memory),
            registers(&reference.memory),
            "registers, {options:?}\n{}",
            listing(object, &code)
        );
        assert_eq!(*memory, reference.memory, "memory, {options:?}\n{}", listing(object, &code));
    }
}

fn listing(object: &Object, code: &kiln_jit::Code) -> String {
    let mut text = String::new();
    for function in &object.functions {
        text += &format!("{}:\n", function.name);
        for (at, node) in function.nodes.iter().enumerate() {
            let target = node.target().and_then(|id| function.position(id));
            text += &format!("  {at}: {} {target:?}\n", node.insn);
        }
    }
    text + &code.bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
}

// ---------------------------------------------------------------------------------------------------------------
// Random items.

fn any_dst() -> impl Strategy<Value = Reg> {
    (0u8..=8).prop_map(reg)
}

fn any_src() -> impl Strategy<Value = Reg> {
    (0u8..=9).prop_map(reg)
}

fn any_width() -> impl Strategy<Value = Width> {
    prop_oneof![Just(Width::W32), Just(Width::W64)]
}

fn any_imm() -> impl Strategy<Value = i32> {
    let edges: Vec<i32> = vec![
        0,
        1,
        -1,
        2,
        3,
        5,
        7,
        8,
        9,
        10,
        13,
        24,
        31,
        32,
        33,
        48,
        56,
        63,
        64,
        100,
        127,
        128,
        -128,
        -129,
        255,
        256,
        641,
        1000,
        0xffff,
        0x10000,
        0x7fff_fffe,
        i32::MAX,
        i32::MIN,
        i32::MIN + 1,
        -2,
        -7,
    ];
    prop_oneof![3 => proptest::sample::select(edges), 1 => any::<i32>()]
}

fn any_value() -> impl Strategy<Value = u64> {
    let edges: Vec<u64> = vec![
        0,
        1,
        2,
        7,
        0x7f,
        0x80,
        0xff,
        0x7fff,
        0x8000,
        0xffff,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        0x1_0000_0000,
        i64::MAX as u64,
        i64::MIN as u64,
        u64::MAX,
        u64::MAX - 1,
        0xffff_ffff_0000_0000,
        0xffff_ffff_8000_0000,
        0x0123_4567_89ab_cdef,
        10,
        63,
        64,
    ];
    prop_oneof![2 => proptest::sample::select(edges), 1 => any::<u64>()]
}

fn any_source() -> impl Strategy<Value = Source> {
    prop_oneof![any_src().prop_map(Source::Reg), any_imm().prop_map(Source::Imm)]
}

fn any_size() -> impl Strategy<Value = Size> {
    proptest::sample::select(Size::ALL.to_vec())
}

fn any_alu_op() -> impl Strategy<Value = AluOp> {
    proptest::sample::select(AluOp::ALL.to_vec())
}

fn any_jump_op() -> impl Strategy<Value = JumpOp> {
    proptest::sample::select(JumpOp::ALL.to_vec())
}

fn any_alu() -> impl Strategy<Value = Insn> {
    (any_alu_op(), any_width(), any_dst(), any_source()).prop_map(|(op, width, dst, src)| Insn::Alu {
        op,
        width,
        dst,
        src,
    })
}

fn any_plain() -> impl Strategy<Value = Insn> {
    let orders = vec![ByteOrder::Little, ByteOrder::Big, ByteOrder::Swap];
    let wide = vec![Size::B2, Size::B4, Size::B8];
    prop_oneof![
        8 => any_alu(),
        1 => (any_width(), any_dst()).prop_map(|(width, dst)| Insn::Neg { width, dst }),
        1 => (any_width(), any_size(), any_dst(), any_src()).prop_map(|(width, from, dst, src)| {
            let from = match (width, from) {
                (_, Size::B1) => Size::B1,
                (Width::W64, Size::B4) => Size::B4,
                _ => Size::B2,
            };
            Insn::MoveSignExtend { width, from, dst, src }
        }),
        1 => (proptest::sample::select(orders), proptest::sample::select(wide), any_dst())
            .prop_map(|(order, size, dst)| Insn::Endian { order, size, dst }),
        1 => (any_dst(), any_value()).prop_map(|(dst, value)| constant(dst, value)),
    ]
}

fn any_memory() -> impl Strategy<Value = Insn> {
    // Accesses are aligned, as atomics must be; offsets stay below the register dump.
    let place = |size: Size, base: Reg, word: i16| Address { base, offset: word * size.bytes() as i16 };
    let word = || 0i16..(DUMP / 8);
    prop_oneof![
        2 => (any_size(), any::<bool>(), any_dst(), any_dst(), word()).prop_map(move |(size, signed, dst, base, word)| {
            Insn::Load { size, signed: signed && size != Size::B8, dst, address: place(size, base, word) }
        }),
        2 => (any_size(), any_dst(), any_source(), word()).prop_map(move |(size, base, src, word)| {
            Insn::Store { size, address: place(size, base, word), src }
        }),
        2 => (proptest::sample::select(AtomicOp::ALL.to_vec()), any::<bool>(), any::<bool>(), any_dst(), any_dst(), word())
            .prop_map(move |(op, fetch, wide, base, src, word)| {
                let size = if wide { Size::B8 } else { Size::B4 };
                let fetch = fetch || op.row().always_fetch;
                Insn::Atomic { op, fetch, size, address: place(size, base, word), src }
            }),
        1 => (any_size(), any_dst(), any_dst(), word()).prop_map(move |(size, dst, base, word)| {
            Insn::LoadAcquire { size, dst, address: place(size, base, word) }
        }),
        1 => (any_size(), any_dst(), any_src(), word()).prop_map(move |(size, base, src, word)| {
            Insn::StoreRelease { size, address: place(size, base, word), src }
        }),
    ]
}

/// Runs that the JIT may do at once, and near misses of them.
fn any_run() -> impl Strategy<Value = Vec<Insn>> {
    let shifts = prop_oneof![Just(AluOp::Rsh), Just(AluOp::Arsh)];
    let copies = (any_width(), any_dst(), any_src(), any_alu_op(), any_width(), any_source()).prop_map(
        |(first, dst, src, op, second, operand)| {
            vec![alu(AluOp::Mov, first, dst, Source::Reg(src)), alu(op, second, dst, operand)]
        },
    );
    let pairs = (any_width(), any_dst(), shifts, any_imm(), any_imm()).prop_map(|(width, dst, op, left, right)| {
        vec![alu(AluOp::Lsh, width, dst, Source::Imm(left)), alu(op, width, dst, Source::Imm(right))]
    });
    let same = (any_width(), any_dst(), any_dst(), 0i32..64, any::<bool>(), any_alu_op()).prop_map(
        |(width, first, second, left, flipped, op)| {
            let right = (width.bits() as i32 - left).rem_euclid(width.bits() as i32);
            let join = if flipped { AluOp::Or } else { op };
            vec![
                alu(AluOp::Mov, width, first, Source::Reg(second)),
                alu(AluOp::Lsh, width, first, Source::Imm(left)),
                alu(AluOp::Rsh, width, second, Source::Imm(right)),
                alu(join, width, first, Source::Reg(second)),
                alu(AluOp::Mov, Width::W64, second, Source::Imm(0)),
            ]
        },
    );
    let rotations = (any_width(), any_dst(), any_dst(), any_dst(), 1i32..64, any::<bool>(), any::<bool>()).prop_map(
        |(width, part, from, to, amount, left_first, kill)| {
            let amount = amount & (width.bits() as i32 - 1);
            let rest = width.bits() as i32 - amount;
            let ops = if left_first { (AluOp::Lsh, AluOp::Rsh) } else { (AluOp::Rsh, AluOp::Lsh) };
            let mut run = vec![
                alu(AluOp::Mov, Width::W64, part, Source::Reg(from)),
                alu(ops.0, width, part, Source::Imm(amount)),
                alu(AluOp::Mov, width, to, Source::Reg(from)),
                alu(ops.1, width, to, Source::Imm(rest)),
                alu(AluOp::Or, width, to, Source::Reg(part)),
            ];
            if kill {
                run.push(alu(AluOp::Mov, Width::W64, part, Source::Imm(0)));
            }
            run
        },
    );
    prop_oneof![copies, pairs, same, rotations, any_access()]
}

/// An address computed from the memory's, an access, and something done with what was read.
fn any_access() -> impl Strategy<Value = Vec<Insn>> {
    let registers = (any_dst(), any_dst(), any_dst(), any_dst(), any_dst());
    let numbers = (0i32..100, 0i32..100, 0i16..100);
    let more = prop_oneof![
        (any_alu_op(), any_width(), any_dst(), any_dst()).prop_map(|(op, width, dst, src)| alu(
            op,
            width,
            dst,
            Source::Reg(src)
        )),
        (any_size(), any_dst()).prop_map(|(size, dst)| {
            let size = if size == Size::B1 { Size::B2 } else { size };
            Insn::Endian { order: ByteOrder::Big, size, dst }
        }),
    ];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (registers, numbers, any_size(), more, flags).prop_map(
        |(
            (base, index, place, value, other),
            (scaled, added, offset),
            size,
            more,
            (copied, indexed, constant_too, stored, kill),
        )| {
            let mut run = vec![load(Size::B8, base, CONTEXT)];
            let place = if copied { place } else { base };
            if indexed && index != base {
                run.push(constant(index, scaled as u64));
            }
            if copied {
                run.push(alu(AluOp::Mov, Width::W64, place, Source::Reg(base)));
            }
            if indexed && index != base && index != place {
                run.push(alu(AluOp::Add, Width::W64, place, Source::Reg(index)));
            }
            if constant_too {
                run.push(alu(AluOp::Add, Width::W64, place, Source::Imm(added)));
            }
            let address = Address { base: place, offset };
            if stored && value != place {
                run.push(store(size, address, value));
            } else {
                run.push(load(size, value, address));
                // An operation that uses the value up, most times.
                run.push(match more {
                    Insn::Alu { op, width, dst, .. } if other != value => alu(op, width, dst, Source::Reg(value)),
                    Insn::Endian { order, size, .. } => Insn::Endian { order, size, dst: value },
                    more => more,
                });
            }
            // Addresses are the same in both runs, so leaving them is fine; some are overwritten to be dead.
            if kill {
                run.push(constant(place, 1));
                run.push(constant(value, 2));
            }
            run
        },
    )
}

fn any_item() -> impl Strategy<Value = Item> {
    prop_oneof![
        8 => any_plain().prop_map(Item::Plain),
        4 => any_memory().prop_map(Item::Memory),
        3 => any_run().prop_map(Item::Run),
        3 => (any_jump_op(), any_width(), any_src(), any_source(), 0usize..6)
            .prop_map(|(op, width, dst, src, over)| Item::Branch(branch(op, width, dst, src), over)),
        1 => (0usize..4, any::<bool>())
            .prop_map(|(over, long)| Item::Branch(Insn::Jump { offset: 0, long }, over)),
        3 => any_tested_branch(),
        1 => (any_jump_op(), any_width(), any_src(), any_source(), 0usize..6)
            .prop_map(|(op, width, dst, src, over)| Item::Inverted(branch(op, width, dst, src), over)),
        1 => (0usize..64).prop_map(Item::Back),
        1 => Just(Item::Call),
    ]
}

fn any_tested_branch() -> impl Strategy<Value = Item> {
    let zero = prop_oneof![4 => Just(Source::Imm(0)), 1 => any_source()];
    let after_alu = (any_alu(), any_src(), any::<bool>(), any_width(), any_jump_op(), any_width(), zero, 0usize..6)
        .prop_map(|(insn, from, copied, width, op, compared, src, over)| {
            let dst = insn.written().expect("arithmetic writes a register");
            let copy = copied.then(|| alu(AluOp::Mov, width, dst, Source::Reg(from)));
            let insns = copy.into_iter().chain([insn]).collect();
            Item::TestedBranch(insns, branch(op, compared, dst, src), over)
        });
    let after_load =
        (any_access(), any_jump_op(), any_width(), 0i32..256, 0usize..6).prop_map(|(mut run, op, width, imm, over)| {
            // The branch tests what the run loads last, if it ends there.
            while !matches!(run.last(), None | Some(Insn::Load { .. })) {
                run.pop();
            }
            let dst = run.last().and_then(Insn::written).unwrap_or(Reg::R0);
            Item::TestedBranch(run, branch(op, width, dst, Source::Imm(imm)), over)
        });
    prop_oneof![after_alu, after_load]
}

fn registers() -> impl Strategy<Value = Vec<u64>> {
    (proptest::collection::vec(any_value(), 9), 1u64..6).prop_map(|(mut values, loops)| {
        values.push(loops);
        values
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_agree(
        items in proptest::collection::vec(any_item(), 1..60),
        callee in proptest::collection::vec(any_item(), 1..20),
        registers in registers(),
    ) {
        let (object, entry) = program(&items, Some(&callee), &registers);
        agree(&object, entry);
    }

    #[test]
    fn single_instructions_agree(item in prop_oneof![
        any_plain().prop_map(Item::Plain), any_memory().prop_map(Item::Memory), any_run().prop_map(Item::Run),
    ], registers in registers()) {
        let (object, entry) = program(&[item], None, &registers);
        agree(&object, entry);
    }
}

/// Every ALU form on every pair of registers, with values that divide badly.
#[test]
fn every_arithmetic_form_agrees() {
    let values = [0, 1, 7, u64::MAX, i64::MIN as u64, 0x8000_0000, 0xffff_ffff, 0x1234_5678_9abc_def0, 63, 10];
    for op in AluOp::ALL {
        for width in [Width::W32, Width::W64] {
            for rotation in 0..values.len() {
                let mut items = Vec::new();
                let mut registers = values;
                registers.rotate_left(rotation);
                for dst in 0..9u8 {
                    for src in 0..10u8 {
                        items.push(Item::Plain(constant(reg(dst), registers[dst as usize])));
                        items.push(Item::Plain(alu(*op, width, reg(dst), Source::Reg(reg(src)))));
                    }
                    for imm in [0, 1, -1, 2, 3, 7, 10, 31, 32, 63, 64, 641, -3, 0xff, 0xffff, i32::MIN, i32::MAX] {
                        items.push(Item::Plain(constant(reg(dst), registers[dst as usize])));
                        items.push(Item::Plain(alu(*op, width, reg(dst), Source::Imm(imm))));
                    }
                }
                let (object, entry) = program(&items, None, &registers);
                agree(&object, entry);
            }
        }
    }
}

/// Division by every small constant and some large ones, at numbers around multiples.
#[test]
fn division_by_constants_agrees() {
    let large = [641, 1000, 1461, 3600, 6700417, 86400, 1_000_000_007, i32::MAX, i32::MAX - 1, 0x5555_5555];
    for divisor in (2..130).chain(large) {
        let mut items = Vec::new();
        for op in [AluOp::Div, AluOp::Mod, AluOp::Sdiv, AluOp::Smod] {
            for width in [Width::W32, Width::W64] {
                for number in [u64::MAX, i64::MAX as u64, u64::from(u32::MAX), 1 << 63, 12_345_678_901_234_567_890] {
                    for number in
                        [number, number / divisor as u64 * divisor as u64, number / divisor as u64 * divisor as u64 - 1]
                    {
                        items.push(Item::Plain(constant(Reg::R3, number)));
                        items.push(Item::Plain(alu(op, width, Reg::R3, Source::Imm(divisor))));
                        items.push(Item::Plain(alu(AluOp::Xor, Width::W64, Reg::R7, Source::Reg(Reg::R3))));
                        items.push(Item::Plain(alu(AluOp::Mul, Width::W64, Reg::R7, Source::Imm(31))));
                    }
                }
            }
        }
        let (object, entry) = program(&items, None, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        agree(&object, entry);
    }
}

/// Compare-and-exchange that succeeds: at random it hardly ever does.
#[test]
fn successful_exchanges_agree() {
    for size in [Size::B4, Size::B8] {
        for base in 1..9u8 {
            for src in 0..9u8 {
                let address = Address { base: reg(base), offset: 16 };
                let compare = Insn::Atomic { op: AtomicOp::CompareExchange, fetch: true, size, address, src: reg(src) };
                let items = [
                    Item::Run(vec![load(Size::B8, reg(base), CONTEXT), load(size, Reg::R0, address)]),
                    // Only the lower half is compared; the upper one must be cleared either way.
                    Item::Run(vec![
                        alu(AluOp::Mov, Width::W64, Reg::R9, Source::Imm(if size == Size::B4 { 1 } else { 0 })),
                        alu(AluOp::Lsh, Width::W64, Reg::R9, Source::Imm(40)),
                        alu(AluOp::Or, Width::W64, Reg::R0, Source::Reg(Reg::R9)),
                        compare,
                    ]),
                ];
                let (object, entry) = program(&items, None, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
                agree(&object, entry);
            }
        }
    }
}

/// Helpers see R1 to R5 and give R0; classic packet loads read or leave.
#[test]
fn helpers_and_packet_loads_agree() {
    for (offset, size) in [(0, Size::B1), (14, Size::B2), (60, Size::B4), (61, Size::B4), (-1, Size::B1)] {
        for mode in [kiln_isa::PacketMode::Absolute, kiln_isa::PacketMode::Indirect(Reg::R7)] {
            let items = [
                Item::Plain(Insn::Call(CallTarget::Helper(1))),
                Item::Plain(alu(AluOp::Mov, Width::W64, Reg::R8, Source::Reg(Reg::R0))),
                Item::Plain(Insn::LoadPacket { mode, size, offset }),
                Item::Plain(alu(AluOp::Add, Width::W64, Reg::R8, Source::Reg(Reg::R0))),
                // Calls destroy R1 to R5: give them known values.
                Item::Run((1..6).map(|number| constant(reg(number), 0)).collect()),
            ];
            let (object, entry) = program(&items, None, &[0, 1, 2, 3, 4, 5, 6, 1, 8, 9]);
            agree(&object, entry);
        }
    }
}
