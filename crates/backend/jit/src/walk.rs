//! The walk over a function's instructions, for every target: which of a target's methods an instruction needs.
//!
//! ```text
//!   Compile: a run of instructions becomes code         x86-64, Arm
//!     Lower: an instruction                             x86-64, Arm, LLVM
//!       LowerArithmetic  LowerMemory  LowerControl      a file of each target
//!         Frame                                         its instructions, branches and addresses
//! ```
//!
//! A new instruction fails to compile here, a new operation of one in the targets' files.

use kiln_isa::{AluOp, ByteOrder, CallTarget, Imm64, Insn, JumpOp, PacketMode, Reg, Size, Source, Width};
use kiln_platform::helper_id::TAIL_CALL;
use kiln_program::{FunctionId, Node, Object, Reference};

use crate::address::Address;
use crate::shared::{Assembly, Shared};
use crate::targets::Targets;
use crate::{Error, Symbols};

/// A function that is being compiled.
pub(crate) trait Frame {
    /// Its instructions.
    fn nodes(&self) -> &[Node];
    /// Where its branches lead.
    fn targets(&self) -> &Targets;
    /// Its object.
    fn object(&self) -> &Object;
    /// The addresses of the process.
    fn symbols(&self) -> &dyn Symbols;

    /// Whether a branch's target is the next instruction anyway.
    fn falls_through(&self, at: usize) -> bool {
        self.targets().leads_to(at, at + 1)
    }

    /// Whether the instruction accesses the arena.
    fn in_arena(&self, at: usize) -> bool {
        self.symbols().in_arena(self.nodes()[at].id)
    }

    /// An address of this process.
    fn resolved(&self, at: usize, address: Address) -> Result<u64, Error> {
        address.resolve(self.symbols()).map_or_else(|| self.unresolved(at, address), Ok)
    }

    /// The function that an instruction calls.
    fn callee(&self, at: usize) -> Result<FunctionId, Error> {
        self.nodes()[at].callee().ok_or(Error::Malformed("a call without a callee"))
    }

    fn unsupported<T>(&self, at: usize, what: impl Into<String>) -> Result<T, Error> {
        Err(Error::Unsupported { insn: self.nodes()[at].id, what: what.into() })
    }

    fn unresolved<T>(&self, at: usize, address: Address) -> Result<T, Error> {
        Err(Error::Unresolved { insn: self.nodes()[at].id, what: address.describe(self.object()) })
    }
}

/// Arithmetic, moves, byte order.
pub(crate) trait LowerArithmetic: Frame {
    fn alu(&mut self, op: AluOp, width: Width, dst: Reg, src: Source);
    fn negate(&mut self, width: Width, dst: Reg);
    fn move_sign_extend(&mut self, width: Width, from: Size, dst: Reg, src: Reg);
    fn endian(&mut self, order: ByteOrder, size: Size, dst: Reg);
}

/// Accesses, casts of addresses, 64-bit immediates.
pub(crate) trait LowerMemory: Frame {
    /// A load, store or atomic operation.
    fn access(&mut self, at: usize, insn: Insn) -> Result<(), Error>;
    fn cast_address(&mut self, at: usize, dst: Reg, src: Reg, to: u16) -> Result<(), Error>;
    fn load_number(&mut self, dst: Reg, value: u64);
    fn load_address(&mut self, at: usize, dst: Reg, address: Address) -> Result<(), Error>;
    /// The address of the entry by which helpers call a function.
    fn load_callback(&mut self, dst: Reg, callback: FunctionId) -> Result<(), Error>;

    fn load_imm64(&mut self, at: usize, dst: Reg, imm: Imm64) -> Result<(), Error> {
        match self.nodes()[at].reference {
            Reference::Map(map) => self.load_address(at, dst, Address::Map(map)),
            Reference::MapValue { map, offset } => self.load_address(at, dst, Address::MapValue { map, offset }),
            Reference::Extern(symbol) => self.load_address(at, dst, Address::Extern(symbol)),
            Reference::Function(callback) => self.load_callback(dst, callback),
            Reference::None | Reference::Branch(_) => match imm {
                Imm64::Value(value) => {
                    self.load_number(dst, value);
                    Ok(())
                }
                other => self.unsupported(at, format!("the unresolved address {other}")),
            },
        }
    }
}

/// Branches, calls, classic packet loads.
pub(crate) trait LowerControl: Frame {
    fn jump(&mut self, at: usize) -> Result<(), Error>;
    /// Jumps to the target whose address the register holds. A number that is none of them, which no program that was
    /// verified has, ends the function with 0.
    fn jump_indirect(&mut self, dst: Reg);
    fn branch(&mut self, at: usize, op: JumpOp, width: Width, dst: Reg, src: Source) -> Result<(), Error>;
    fn may_goto(&mut self, at: usize) -> Result<(), Error>;
    fn exit(&mut self, at: usize);
    fn call_subprogram(&mut self, at: usize) -> Result<(), Error>;
    /// Calls a [`crate::HelperEntry`]: arguments are in place, the budget travels in memory.
    fn call_native(&mut self, at: usize, address: Address, may_stop: bool) -> Result<(), Error>;
    /// The helper returns the target's entry, or 0 on failure. On success the target runs in place of this frame.
    fn tail_call(&mut self, at: usize) -> Result<(), Error>;
    /// Calls the packet load routine; if it is out of bounds, the function exits with R0 = 0.
    fn load_packet(&mut self, at: usize, mode: PacketMode, size: Size, offset: i32) -> Result<(), Error>;

    fn call(&mut self, at: usize, target: CallTarget) -> Result<(), Error> {
        match target {
            CallTarget::Subprogram(_) => self.call_subprogram(at),
            CallTarget::Helper(TAIL_CALL) => self.tail_call(at),
            CallTarget::Helper(helper) => {
                let may_stop = self.symbols().helper_may_stop(helper);
                self.call_native(at, Address::Helper(helper), may_stop)
            }
            CallTarget::Kfunc { .. } => match self.nodes()[at].reference {
                Reference::Extern(symbol) => self.call_native(at, Address::Extern(symbol), true),
                _ => self.unsupported(at, "kfuncs by number"),
            },
        }
    }
}

/// The code of one instruction.
pub(crate) trait Lower: LowerArithmetic + LowerMemory + LowerControl {
    fn instruction(&mut self, at: usize) -> Result<(), Error> {
        match self.nodes()[at].insn {
            Insn::Alu { op, width, dst, src } => self.alu(op, width, dst, src),
            Insn::Neg { width, dst } => self.negate(width, dst),
            Insn::MoveSignExtend { width, from, dst, src } => self.move_sign_extend(width, from, dst, src),
            Insn::Endian { order, size, dst } => self.endian(order, size, dst),
            Insn::LoadImm64 { dst, imm } => self.load_imm64(at, dst, imm)?,
            insn @ (Insn::Load { .. }
            | Insn::Store { .. }
            | Insn::Atomic { .. }
            | Insn::LoadAcquire { .. }
            | Insn::StoreRelease { .. }) => self.access(at, insn)?,
            Insn::LoadPacket { mode, size, offset } => self.load_packet(at, mode, size, offset)?,
            Insn::AddressSpaceCast { dst, src, to, .. } => self.cast_address(at, dst, src, to)?,
            Insn::Jump { .. } => self.jump(at)?,
            Insn::JumpIndirect { dst } => self.jump_indirect(dst),
            Insn::Branch { op, width, dst, src, .. } => self.branch(at, op, width, dst, src)?,
            Insn::MayGoto { .. } => self.may_goto(at)?,
            Insn::Call(target) => self.call(at, target)?,
            Insn::Exit => self.exit(at),
        }
        Ok(())
    }
}

impl<T: LowerArithmetic + LowerMemory + LowerControl> Lower for T {}

type LabelOf<'a, C> = <<C as Compile<'a>>::Assembly as Assembly>::Label;

/// A function that becomes machine code.
pub(crate) trait Compile<'a>: Lower {
    type Assembly: Assembly + 'a;

    fn shared(&mut self) -> &mut Shared<'a, Self::Assembly>;
    fn function(&self) -> (FunctionId, &'a [Node]);
    /// Where the code of an instruction begins.
    fn label(&self, at: usize) -> LabelOf<'a, Self>;
    fn prologue(&mut self);
    /// The epilogue, after the last instruction.
    fn finish(&mut self);
    /// Subtracts a loop's length from the budget, at its header.
    fn loop_cost(&mut self, at: usize) -> Result<(), Error>;
    /// Compiles several instructions from `at` on together: a region, a lookup. Returns how many, 0 for none.
    fn together(&mut self, at: usize) -> Result<usize, Error>;
    /// Jumps if the lower half of a register compares so with a number.
    fn jump_if_number(&mut self, op: JumpOp, dst: Reg, number: u32, to: LabelOf<'a, Self>);
    /// Ends the function with 0 at a label.
    fn end_with_zero(&mut self, from: LabelOf<'a, Self>);
    /// Reads the budget that a program left that was called by a tail call.
    fn reload_budget(&mut self);
    /// Subtracts what a function cost from the budget that it left. Leaves the function if that is spent.
    fn spend_after_call(&mut self, cost: i32);
    /// Leaves the function if the budget is spent.
    fn leave_if_spent(&mut self);
    /// At a multiple of how many bytes an innermost loop begins.
    const LOOP_ALIGNMENT: usize;

    /// Compiles the function.
    ///
    /// # Errors
    /// Returns an error if an instruction has no code here, or if the runtime lacks an address that it names.
    fn compile(mut self) -> Result<(), Error>
    where
        Self: Sized,
    {
        let (id, nodes) = self.function();
        self.shared().begin_function(id)?;
        self.prologue();
        let mut at = 0;
        while at < nodes.len() {
            if self.targets().aligned_loop(at) {
                self.shared().align(Self::LOOP_ALIGNMENT);
            }
            let (label, is_target) = (self.label(at), self.targets().is_target(at));
            self.shared().begin_insns(label, is_target);
            self.loop_cost(at)?;
            let covered = match self.together(at)? {
                0 => self.instruction(at).map(|()| 1)?,
                covered => covered,
            };
            self.shared().end_insns(&nodes[at..at + covered]);
            at += covered;
        }
        self.finish();
        Ok(())
    }
}

/// Calls a function of the program.
pub(crate) fn call_function<'a, C: Compile<'a>>(code: &mut C, at: usize) -> Result<(), Error> {
    let callee = code.callee(at)?;
    let shared = code.shared();
    let label = shared.function_label(callee)?;
    shared.assembler.call(label);
    if !shared.plan.budget {
        return Ok(());
    }
    let (plan, metered) = (shared.plan.function(callee), shared.options.metered);
    if plan.may_tail_call {
        code.reload_budget();
    }
    match metered {
        true => code.spend_after_call(plan.cost),
        false => code.leave_if_spent(),
    }
    Ok(())
}

/// An indirect jump: the target is found among those of the function by halving them.
pub(crate) fn dispatch<'a, C: Compile<'a>>(code: &mut C, dst: Reg) {
    let targets: Vec<_> = code.targets().indirect.iter().map(|(address, at)| (*address, code.label(*at))).collect();
    let outside = code.shared().assembler.label();
    halve(code, dst, &targets, outside);
    code.end_with_zero(outside);
}

fn halve<'a, C: Compile<'a>>(code: &mut C, dst: Reg, targets: &[(u32, LabelOf<'a, C>)], outside: LabelOf<'a, C>) {
    match targets {
        [] => code.shared().assembler.jump(outside),
        [(address, target)] => {
            code.jump_if_number(JumpOp::Eq, dst, *address, *target);
            code.shared().assembler.jump(outside);
        }
        _ => {
            let (lower, upper) = targets.split_at(targets.len() / 2);
            let above = code.shared().assembler.label();
            code.jump_if_number(JumpOp::Ge, dst, upper[0].0, above);
            halve(code, dst, lower, outside);
            code.shared().assembler.bind(above);
            halve(code, dst, upper, outside);
        }
    }
}
