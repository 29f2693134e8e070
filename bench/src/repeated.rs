//! A program that runs itself several times.
//!
//! A test run in the kernel takes about 20 ns besides the program, and the processor does part of that at the same time
//! as the program's first and last instructions. So the time of an empty program cannot simply be taken off a short
//! one's: `divide` seemed to take 0.86 of its time in the kernel, and takes 1.00 of it when it runs sixteen times. What
//! is around the program matters less the longer it is:
//!
//! ```text
//!   again: r1 = context                    each exit:  sum += r0 ; zero = data - data_meta
//!          <the program>                               packet[zero & 56 ..][..8] ^= sum & zero
//!                                                      turns -= 1; if turns != 0 goto again
//!                                                      r0 = sum; exit
//! ```
//!
//! **A turn depends on the one before.** Otherwise a compiler may compute the result once for all turns, because they
//! read the same packet. So eight bytes of the packet are loaded, changed and stored, in a way that depends on the results
//! so far and on the distance of `data` from `data_meta`. That distance is zero, which no engine and no verifier knows:
//! the packet stays as it is, and every engine has to read it again. All engines run these instructions.
//!
//! The context, the turns and the sum are in the lowest bytes of the stack, which the program must not use.

use kiln_isa::{Address, AluOp, Insn, JumpOp, Reg, Size, Source, Width};
use kiln_platform::limits::MAX_STACK_BYTES;
use kiln_program::{FunctionId, InsnId, Node, Object, Reference};

/// Bytes below the frame pointer where the context is; the turns and the sum are above it.
const CONTEXT: i16 = -(MAX_STACK_BYTES as i16);
const TURNS: i16 = CONTEXT + 8;
const SUM: i16 = CONTEXT + 16;
/// The first byte that the program may use.
const FREE: i16 = CONTEXT + 24;

/// Fields of an XDP program's context.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const DATA_META: i16 = 8;

/// Makes an XDP function run itself `turns` times. False, and nothing is changed, if it uses all of its stack.
pub fn repeat(object: &mut Object, entry: FunctionId, turns: i32) -> bool {
    let Some(function) = object.functions.get(entry.index()) else { return false };
    if !function.nodes.iter().all(|node| leaves_room(&node.insn)) {
        return false;
    }
    let before = [
        store(CONTEXT, Source::Reg(Reg::R1)),
        store(TURNS, Source::Imm(turns)),
        store(SUM, Source::Imm(0)),
        load(Reg::R1, CONTEXT),
    ];
    let before = before.map(|insn| object.new_node(insn, Reference::None));
    let again = before[3].id;
    let after = after(object, again);
    let nodes = std::mem::take(&mut object.functions[entry.index()].nodes);
    let end = after[0].id;
    let body = nodes.into_iter().map(|node| leaving(node, end));
    object.functions[entry.index()].nodes = before.into_iter().chain(body).chain(after).collect();
    true
}

/// What stands behind the program: the result is added, the packet touched, the turn counted.
fn after(object: &mut Object, again: InsnId) -> Vec<Node> {
    let field = |dst, offset| {
        let address = Address { base: Reg::R1, offset };
        Insn::Load { size: Size::B4, signed: false, dst, address }
    };
    let bytes = Address { base: Reg::R2, offset: 0 };
    let mut nodes: Vec<Node> = [
        load(Reg::R2, SUM),
        alu(AluOp::Add, Reg::R0, Source::Reg(Reg::R2)),
        store(SUM, Source::Reg(Reg::R0)),
        load(Reg::R1, CONTEXT),
        field(Reg::R2, DATA),
        field(Reg::R3, DATA_END),
        field(Reg::R4, DATA_META),
        alu(AluOp::Mov, Reg::R5, Source::Reg(Reg::R2)),
        alu(AluOp::Sub, Reg::R5, Source::Reg(Reg::R4)),
        alu(AluOp::And, Reg::R0, Source::Reg(Reg::R5)),
        // From two addresses and not from the sum, whose value would then count for the verifier.
        alu(AluOp::And, Reg::R5, Source::Imm(56)),
        alu(AluOp::Add, Reg::R2, Source::Reg(Reg::R5)),
        alu(AluOp::Mov, Reg::R4, Source::Reg(Reg::R2)),
        alu(AluOp::Add, Reg::R4, Source::Imm(8)),
    ]
    .map(|insn| object.new_node(insn, Reference::None))
    .into();
    let count = object.new_node(load(Reg::R2, TURNS), Reference::None);
    nodes.push(object.new_node(branch(JumpOp::Gt, Reg::R4, Source::Reg(Reg::R3)), Reference::Branch(count.id)));
    let touch = [
        Insn::Load { size: Size::B8, signed: false, dst: Reg::R4, address: bytes },
        alu(AluOp::Xor, Reg::R4, Source::Reg(Reg::R0)),
        Insn::Store { size: Size::B8, address: bytes, src: Source::Reg(Reg::R4) },
    ];
    nodes.extend(touch.map(|insn| object.new_node(insn, Reference::None)));
    nodes.push(count);
    let turn = [alu(AluOp::Add, Reg::R2, Source::Imm(-1)), store(TURNS, Source::Reg(Reg::R2))];
    nodes.extend(turn.map(|insn| object.new_node(insn, Reference::None)));
    nodes.push(object.new_node(branch(JumpOp::Ne, Reg::R2, Source::Imm(0)), Reference::Branch(again)));
    nodes.extend([load(Reg::R0, SUM), Insn::Exit].map(|insn| object.new_node(insn, Reference::None)));
    nodes
}

fn alu(op: AluOp, dst: Reg, src: Source) -> Insn {
    Insn::Alu { op, width: Width::W64, dst, src }
}

fn branch(op: JumpOp, dst: Reg, src: Source) -> Insn {
    Insn::Branch { op, width: Width::W64, dst, src, offset: 0 }
}

/// An exit as a jump to where the turns are counted.
fn leaving(node: Node, to: InsnId) -> Node {
    match node.insn {
        Insn::Exit => Node { insn: Insn::Jump { offset: 0, long: false }, reference: Reference::Branch(to), ..node },
        _ => node,
    }
}

/// Whether an instruction does not reach into the lowest bytes of the stack, as far as can be seen from it alone. Tables on
/// the stack that reach there are found by comparing results.
fn leaves_room(insn: &Insn) -> bool {
    match *insn {
        Insn::Alu { op: AluOp::Add, src: Source::Imm(imm), .. } => {
            !(i32::from(CONTEXT)..i32::from(FREE)).contains(&imm)
        }
        insn => insn.address().is_none_or(|address| address.base != Reg::R10 || address.offset >= FREE),
    }
}

fn at(offset: i16) -> Address {
    Address { base: Reg::R10, offset }
}

fn store(offset: i16, src: Source) -> Insn {
    Insn::Store { size: Size::B8, address: at(offset), src }
}

fn load(dst: Reg, offset: i16) -> Insn {
    Insn::Load { size: Size::B8, signed: false, dst, address: at(offset) }
}

#[cfg(test)]
mod tests {
    use kiln_vm::{Engine, Input, Options, Vm};

    use super::*;

    #[test]
    fn a_program_runs_itself() {
        let text = "; program xdp name p\n r2 = *(u32 *)(r1 + 0)\n r3 = *(u32 *)(r1 + 4)\n r2 += 1\n if r2 > r3 goto out\n \
                    r2 += -1\n w0 = *(u8 *)(r2 + 0)\n w0 += 1\n *(u8 *)(r2 + 0) = r0\n exit\nout:\n r0 = 0\n exit\n";
        let mut object = kiln_program::text::parse(text).expect("it parses");
        assert!(repeat(&mut object, FunctionId(0), 8));
        let mut vm = Vm::new(&object, Options::default()).expect("a VM");
        vm.load("p").expect("it is accepted");
        for engine in [Engine::Interpreter, Engine::Jit] {
            let ran = vm.run("p", &Input::packet(&[5; 64]), engine).expect("a run");
            assert_eq!((ran.value, ran.packet[0]), ((6..14).sum(), 13), "{engine:?}");
        }
        let full = "; program xdp name p\n *(u64 *)(r10 - 512) = 1\n r0 = 0\n exit\n";
        assert!(!repeat(&mut kiln_program::text::parse(full).expect("it parses"), FunctionId(0), 8));
    }
}
