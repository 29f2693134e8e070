//! Loads, stores, atomics, 64-bit immediates.

use kiln_isa::{Address, AtomicOp, Imm64, Reg, Size, Source, Width};
use kiln_program::Reference;

use super::assembler::{Condition, Gpr, Op};
use super::function::FunctionCompiler;
use super::registers::{SCRATCH, gpr};
use crate::Error;

impl FunctionCompiler<'_, '_> {
    pub(super) fn load(&mut self, size: Size, signed: bool, dst: Reg, address: Address) {
        let (to, base, offset) = (gpr(dst), gpr(address.base), address.offset.into());
        if signed {
            self.code().load_signed(size, to, base, offset, SCRATCH[0]);
        } else {
            self.code().load(size, to, base, offset, SCRATCH[0]);
        }
    }

    pub(super) fn store(&mut self, size: Size, address: Address, src: Source) {
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

    pub(super) fn load_imm64(&mut self, at: usize, dst: Reg, imm: Imm64) -> Result<(), Error> {
        let symbols = self.shared.symbols;
        let to = gpr(dst);
        let value = match self.nodes[at].reference {
            Reference::Map(map) => symbols.map_address(map),
            Reference::MapValue { map, offset } => symbols.map_value_address(map, offset),
            Reference::Extern(symbol) => symbols.extern_address(symbol),
            Reference::Function(callback) => {
                let label = self.shared.callbacks.get(&callback).copied();
                let label = label.ok_or(Error::Malformed("a callback that does not exist"))?;
                self.code().load_address(to, label);
                return Ok(());
            }
            Reference::None | Reference::Branch(_) => match imm {
                Imm64::Value(value) => Some(value),
                other => return self.unsupported(at, format!("the unresolved address {other}")),
            },
        };
        match value {
            Some(value) => self.code().constant(to, value),
            None => return self.unresolved(at, format!("an address for {:?}", self.nodes[at].reference)),
        }
        Ok(())
    }

    /// An address in one register.
    pub(super) fn address(&mut self, address: Address) -> Gpr {
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
    pub(super) fn atomic(
        &mut self,
        at: usize,
        op: AtomicOp,
        fetch: bool,
        size: Size,
        address: Address,
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
