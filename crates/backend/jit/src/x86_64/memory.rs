//! Loads, stores, atomics, 64-bit immediates.

use kiln_isa::{Address, AtomicOp, Imm64, Reg, Size, Source, Width};
use kiln_program::Reference;

use super::assembler::{Arithmetic, Condition, Gpr, Memory};
use super::function::FunctionCompiler;
use super::{SCRATCH, SCRATCH2, gpr};
use crate::Error;

/// An address as a memory operand.
pub(super) fn memory(address: Address) -> Memory {
    Memory::at(gpr(address.base), address.offset.into())
}

impl FunctionCompiler<'_, '_> {
    pub(super) fn load(&mut self, size: Size, signed: bool, dst: Reg, address: Address) {
        if signed {
            self.code().sign_extend(size, Width::W64, gpr(dst), memory(address));
        } else {
            self.code().load(size, gpr(dst), memory(address));
        }
    }

    pub(super) fn store(&mut self, size: Size, address: Address, src: Source) {
        match src {
            Source::Reg(src) => self.code().store(size, memory(address), gpr(src)),
            Source::Imm(imm) => self.code().store_imm(size, memory(address), imm),
        }
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
        let (place, operand) = (memory(address), gpr(src));
        match (op, arithmetic(op)) {
            (AtomicOp::Exchange, _) => self.code().exchange(width, place, operand),
            (AtomicOp::CompareExchange, _) => {
                self.code().locked_compare_exchange(width, place, operand);
                // A 32-bit exchange that succeeds leaves rax alone; BPF clears its upper half.
                if width == Width::W32 {
                    self.code().mov(Width::W32, Gpr::RAX, Gpr::RAX);
                }
            }
            (AtomicOp::Add, _) if fetch => self.code().locked_exchange_add(width, place, operand),
            (_, Some(arithmetic)) if fetch => self.fetch_loop(arithmetic, width, place, operand),
            (_, Some(arithmetic)) => self.code().locked_arithmetic(arithmetic, width, place, operand),
            (_, None) => return self.unsupported(at, "this atomic operation"),
        }
        Ok(())
    }

    /// Fetching and, or and xor: a loop around compare-and-exchange, which needs rax.
    ///
    /// ```text
    ///   mov r10, rax ; mov rax, [m] ; again: mov r11, rax ; op r11, src ; lock cmpxchg [m], r11 ; jne again
    ///   mov src, rax ; mov rax, r10
    /// ```
    fn fetch_loop(&mut self, op: Arithmetic, width: Width, mut place: Memory, operand: Gpr) {
        let size = if width == Width::W64 { Size::B8 } else { Size::B4 };
        let again = self.code().label();
        self.code().mov(Width::W64, SCRATCH, Gpr::RAX);
        // What was in rax is now in the scratch register, address and operand alike.
        if place.base == Gpr::RAX {
            place.base = SCRATCH;
        }
        let source = if operand == Gpr::RAX { SCRATCH } else { operand };
        self.code().load(size, Gpr::RAX, place);
        self.code().bind(again);
        self.code().mov(width, SCRATCH2, Gpr::RAX);
        self.code().arithmetic(op, width, SCRATCH2, source);
        self.code().locked_compare_exchange(width, place, SCRATCH2);
        self.code().jump_if(Condition::NOT_EQUAL, again);
        if operand != Gpr::RAX {
            self.code().mov(width, operand, Gpr::RAX);
            self.code().mov(Width::W64, Gpr::RAX, SCRATCH);
        }
    }
}

/// The machine's operation, for those that have one.
fn arithmetic(op: AtomicOp) -> Option<Arithmetic> {
    match op {
        AtomicOp::Add => Some(Arithmetic::Add),
        AtomicOp::Or => Some(Arithmetic::Or),
        AtomicOp::And => Some(Arithmetic::And),
        AtomicOp::Xor => Some(Arithmetic::Xor),
        AtomicOp::Exchange | AtomicOp::CompareExchange => None,
    }
}
