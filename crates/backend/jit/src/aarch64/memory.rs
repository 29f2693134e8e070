//! Loads, stores, atomics, 64-bit immediates.

use kiln_isa::{Address as Operand, AtomicOp, Insn, Reg, Size, Source, Width};
use kiln_program::FunctionId;

use super::assembler::{Condition, Gpr, Op};
use super::function::FunctionCompiler;
use super::registers::{SCRATCH, gpr};
use crate::Error;
use crate::address::Address;
use crate::shared::Assembly as _;
use crate::walk::{Frame, LowerMemory};

impl LowerMemory for FunctionCompiler<'_, '_> {
    fn load_number(&mut self, dst: Reg, value: u64) {
        self.code().constant(gpr(dst), value);
    }

    fn load_address(&mut self, at: usize, dst: Reg, address: Address) -> Result<(), Error> {
        let value = self.resolved(at, address)?;
        self.code().constant(gpr(dst), value);
        Ok(())
    }

    fn load_callback(&mut self, dst: Reg, callback: FunctionId) -> Result<(), Error> {
        let label = self.shared.callback_label(callback)?;
        self.code().load_address(gpr(dst), label);
        Ok(())
    }

    fn access(&mut self, at: usize, insn: Insn) -> Result<(), Error> {
        match insn {
            Insn::Load { size, signed, dst, address } => self.load(size, signed, dst, address),
            Insn::Store { size, address, src } => self.store(size, address, src),
            Insn::Atomic { op, fetch, size, address, src } => self.atomic(at, op, fetch, size, address, src)?,
            Insn::LoadAcquire { size, dst, address } => {
                let place = self.address(address);
                self.code().load_acquire(size, gpr(dst), place);
            }
            Insn::StoreRelease { size, address, src } => {
                let place = self.address(address);
                self.code().store_release(size, gpr(src), place);
            }
            _ => return self.unsupported(at, "this access"),
        }
        Ok(())
    }

    fn cast_address(&mut self, at: usize, _: Reg, _: Reg, _: u16) -> Result<(), Error> {
        self.unsupported(at, "addr_space_cast")
    }
}

impl FunctionCompiler<'_, '_> {
    fn load(&mut self, size: Size, signed: bool, dst: Reg, address: Operand) {
        let (to, base, offset) = (gpr(dst), gpr(address.base), address.offset.into());
        if signed {
            self.code().load_signed(size, to, base, offset, SCRATCH[0]);
        } else {
            self.code().load(size, to, base, offset, SCRATCH[0]);
        }
    }

    fn store(&mut self, size: Size, address: Operand, src: Source) {
        let value = match src {
            Source::Reg(src) => gpr(src),
            Source::Imm(0) => Gpr::ZERO,
            Source::Imm(imm) => {
                self.code().constant(SCRATCH[1], i64::from(imm) as u64);
                SCRATCH[1]
            }
        };
        self.code().store(size, value, gpr(address.base), address.offset.into(), SCRATCH[0]);
    }

    /// An address in one register.
    fn address(&mut self, address: Operand) -> Gpr {
        let base = gpr(address.base);
        match i64::from(address.offset) {
            0 => return base,
            offset @ 0..4096 => self.code().add_imm(Width::W64, SCRATCH[0], base, offset as u32),
            offset @ -4095..0 => self.code().sub_imm(Width::W64, SCRATCH[0], base, -offset as u32),
            offset => {
                self.code().constant(SCRATCH[0], offset as u64);
                self.code().op(Op::Add, Width::W64, SCRATCH[0], base, SCRATCH[0]);
            }
        }
        SCRATCH[0]
    }

    /// A loop around an exclusive load and store.
    ///
    /// ```text
    ///   again: ldaxr old, [m] ; op new, old, src ; stlxr status, new, [m] ; cbnz status, again ; dmb ish
    /// ```
    fn atomic(
        &mut self,
        at: usize,
        op: AtomicOp,
        fetch: bool,
        size: Size,
        address: Operand,
        src: Reg,
    ) -> Result<(), Error> {
        let width = match size {
            Size::B4 => Width::W32,
            Size::B8 => Width::W64,
            Size::B1 | Size::B2 => return self.unsupported(at, "atomics of one or two bytes"),
        };
        let place = self.address(address);
        let [_, old, new, status] = SCRATCH;
        let operand = gpr(src);
        let (again, done) = (self.code().label(), self.code().label());
        self.code().bind(again);
        self.code().load_exclusive(size, old, place);
        let stored = match op {
            AtomicOp::Exchange => operand,
            AtomicOp::CompareExchange => {
                self.code().op(Op::Subs, width, Gpr::ZERO, old, gpr(Reg::R0));
                self.code().jump_if(Condition::NOT_EQUAL, done);
                operand
            }
            AtomicOp::Add | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor => {
                let machine = match op {
                    AtomicOp::Add => Op::Add,
                    AtomicOp::And => Op::And,
                    AtomicOp::Or => Op::Or,
                    _ => Op::Xor,
                };
                self.code().op(machine, width, new, old, operand);
                new
            }
        };
        self.code().store_exclusive(size, status, stored, place);
        self.code().jump_if_zero(Width::W32, status, false, again);
        self.code().bind(done);
        // Those that return something are barriers both ways.
        if fetch || op == AtomicOp::Exchange || op == AtomicOp::CompareExchange {
            self.code().barrier();
        }
        match op {
            AtomicOp::CompareExchange => self.code().mov(width, gpr(Reg::R0), old),
            _ if fetch => self.code().mov(width, operand, old),
            _ => {}
        }
        Ok(())
    }
}
