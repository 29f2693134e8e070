//! Random programs: pieces, and the whole around them.

use kiln_isa::{Address, AluOp, CallTarget, Imm64, Insn, JumpOp, Reg, Size, Source, Width};
use kiln_program::{Function, FunctionId, InsnId, Linkage, Node, Object, Reference};

pub const MEMORY_BYTES: usize = 512;
/// Registers are dumped to the last 80 bytes; random accesses stay below.
pub const DUMP: i16 = 432;
pub const CONTEXT: Address = Address { base: Reg::R10, offset: -8 };

/// A piece of a random program.
#[derive(Clone, Debug)]
pub enum Item {
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
pub struct Builder {
    object: Object,
}

impl Builder {
    fn new() -> Builder {
        Builder { object: Object { license: "GPL".into(), ..Object::default() } }
    }

    fn function(&mut self, nodes: Vec<Node>) -> FunctionId {
        let id = FunctionId(self.object.functions.len() as u32);
        self.object.functions.push(Function::new(format!("function{}", id.0), "xdp", Linkage::Static, nodes));
        id
    }

    fn node(&mut self, insn: Insn) -> Node {
        self.object.new_node(insn, Reference::None)
    }

    /// The branches of a native operation lead over one instruction after the last of them, where another one is. Those
    /// of a chain that ends with an inequality lead to the one instruction, all but the last.
    fn lead(&self, run: &mut [Node]) {
        let is_branch = |node: &Node| matches!(node.insn, Insn::Branch { .. });
        let Some(last) = run.iter().rposition(is_branch) else { return };
        let Some(out) = run.get(last + 2).map(|node| node.id) else { return };
        let skips = matches!(run[last].insn, Insn::Branch { op: JumpOp::Ne, .. });
        let end = run[last + 1].id;
        for (at, node) in run.iter_mut().enumerate().filter(|(_, node)| is_branch(node)) {
            node.reference = Reference::Branch(if skips && at < last { end } else { out });
        }
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
            if let Item::Run(_) = item {
                self.lead(&mut nodes[first..]);
            }
        }
    }
}

pub fn reg(number: u8) -> Reg {
    Reg::new(number).expect("a register number")
}

pub fn alu(op: AluOp, width: Width, dst: Reg, src: Source) -> Insn {
    Insn::Alu { op, width, dst, src }
}

pub fn branch(op: JumpOp, width: Width, dst: Reg, src: Source) -> Insn {
    Insn::Branch { op, width, dst, src, offset: 0 }
}

/// A plain load.
pub fn load(size: Size, dst: Reg, address: Address) -> Insn {
    Insn::Load { size, signed: false, dst, address }
}

pub fn store(size: Size, address: Address, src: Reg) -> Insn {
    Insn::Store { size, address, src: Source::Reg(src) }
}

pub fn constant(dst: Reg, value: u64) -> Insn {
    Insn::LoadImm64 { dst, imm: Imm64::Value(value) }
}

/// The whole program around some items, entry first.
pub fn program(items: &[Item], callee: Option<&[Item]>, registers: &[u64]) -> (Object, FunctionId) {
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
