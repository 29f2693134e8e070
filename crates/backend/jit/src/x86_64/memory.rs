//! Loads, stores, atomics, 64-bit immediates.

use kiln_isa::{Address, AtomicOp, Insn, Reg, Size, Source, Width};
use kiln_program::FunctionId;

use super::assembler::Label;
use super::function::{ColdKind, FunctionCompiler};
use super::operand::{Arithmetic, Condition, Gpr, Memory};
use super::registers::{BASE, SCRATCH, SCRATCH2, gpr};
use crate::address::Address as Symbol;
use crate::shared::Assembly as _;
use crate::walk::{Frame, LowerMemory};
use crate::{Arena, Error};

/// An address as a memory operand.
pub(super) fn memory(address: Address) -> Memory {
    Memory::at(gpr(address.base), address.offset.into())
}

impl LowerMemory for FunctionCompiler<'_, '_> {
    fn load_number(&mut self, dst: Reg, value: u64) {
        self.code().constant(gpr(dst), value);
    }

    fn load_address(&mut self, at: usize, dst: Reg, address: Symbol) -> Result<(), Error> {
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
        if self.in_arena(at) {
            return self.arena_access(at, insn);
        }
        match insn {
            Insn::Load { size, signed, dst, address } => self.load(size, signed, dst, memory(address)),
            Insn::Store { size, address, src } => self.store(size, memory(address), src),
            Insn::Atomic { op, fetch, size, address, src } => {
                self.atomic(at, op, fetch, size, memory(address), src)?;
            }
            // x86 orders loads after loads and stores after everything: plain moves acquire and release.
            Insn::LoadAcquire { size, dst, address } => self.load(size, false, dst, memory(address)),
            Insn::StoreRelease { size, address, src } => self.store(size, memory(address), Source::Reg(src)),
            _ => return self.unsupported(at, "this access"),
        }
        Ok(())
    }

    /// The lower bits; for user space with the arena's base, and null stays null.
    fn cast_address(&mut self, at: usize, dst: Reg, src: Reg, to: u16) -> Result<(), Error> {
        let Some(arena) = self.shared.symbols.arena() else { return self.unresolved(at, Symbol::Arena) };
        let dst = gpr(dst);
        self.arena_offset(arena, dst, gpr(src));
        if to == 0 {
            return Ok(());
        }
        let null = self.code().label();
        self.code().constant_keeping_flags(SCRATCH, arena.base);
        self.code().test(Width::W64, dst, dst);
        self.code().jump_if(Condition::EQUAL, null);
        self.code().arithmetic(Arithmetic::Or, Width::W64, dst, SCRATCH);
        self.code().bind(null);
        Ok(())
    }
}

impl FunctionCompiler<'_, '_> {
    pub(super) fn load(&mut self, size: Size, signed: bool, dst: Reg, place: Memory) {
        if signed {
            self.code().sign_extend(size, Width::W64, gpr(dst), place);
        } else {
            self.code().load(size, gpr(dst), place);
        }
    }

    pub(super) fn store(&mut self, size: Size, place: Memory, src: Source) {
        match src {
            Source::Reg(src) => self.code().store(size, place, gpr(src)),
            Source::Imm(imm) if self.hides(imm) => {
                let mut place = place;
                // The offset of an access to the arena may be in the register that the constant goes to.
                if place.base == SCRATCH {
                    self.code().lea(Width::W64, SCRATCH2, place);
                    place = Memory::at(SCRATCH2, 0);
                }
                let hidden = self.hide(Width::W64, imm);
                self.code().store(size, place, hidden);
            }
            Source::Imm(imm) => self.code().store_imm(size, place, imm),
        }
    }

    pub(super) fn atomic(
        &mut self,
        at: usize,
        op: AtomicOp,
        fetch: bool,
        size: Size,
        place: Memory,
        src: Reg,
    ) -> Result<(), Error> {
        let width = match size {
            Size::B4 => Width::W32,
            Size::B8 => Width::W64,
            Size::B1 | Size::B2 => return self.unsupported(at, "atomics of one or two bytes"),
        };
        let operand = gpr(src);
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

    /// `dst` becomes the offset in the arena: the lower bits of `src`. Uses the second scratch register.
    fn arena_offset(&mut self, arena: Arena, dst: Gpr, src: Gpr) {
        if arena.bits == 32 {
            return self.code().mov(Width::W32, dst, src);
        }
        self.copy(Width::W64, dst, src);
        self.code().constant(SCRATCH2, arena.mask());
        self.code().arithmetic(Arithmetic::And, Width::W64, dst, SCRATCH2);
    }

    /// A cast of a register that only the access right after it reads: the access computes the offset in a scratch register. A
    /// processor need not execute a copy into another register, but it has to execute one of a register onto itself.
    pub(super) fn cast_and_access(&mut self, at: usize) -> Result<Option<usize>, Error> {
        let Insn::AddressSpaceCast { dst, src, to: 0, .. } = self.nodes[at].insn else { return Ok(None) };
        let next = at + 1;
        let Some(access) = self.nodes.get(next).map(|node| node.insn) else { return Ok(None) };
        let there = access.address().is_some_and(|address| address.base == dst) && self.in_arena(next);
        let stores_it = match access {
            Insn::Store { src, .. } => src.reg() == Some(dst),
            Insn::StoreRelease { src, .. } | Insn::Atomic { src, .. } => src == dst,
            _ => false,
        };
        let is_gone = access.written() == Some(dst) || !self.lives_after(next, dst);
        if dst != src || !there || stores_it || !is_gone || self.targets.is_target(next) {
            return Ok(None);
        }
        self.offsets[next].remove(dst);
        self.shared.begin_insn(self.nodes[next].id, self.labels[next]);
        self.current = next;
        self.arena_access(next, access)?;
        Ok(Some(2))
    }

    /// The arena address that a load accesses. Outside the heap there are zeros.
    ///
    /// ```text
    ///   mov r10d, reg    [r10 + rbp + offset]          (a mask for more than 32 bits)
    /// ```
    fn arena_place(&mut self, at: usize, address: Address) -> Result<Memory, Error> {
        let Some(arena) = self.shared.symbols.arena() else { return self.unresolved(at, Symbol::Arena) };
        let offset = self.offset_of(at, arena, address.base);
        Ok(self.in_heap(arena, offset, address.offset.into()))
    }

    /// The memory at an offset in the arena, which is in a register, and a number. It is the base register of the operand: an
    /// operand whose base is rbp is in the frame ([`Assembler::frame`](super::assembler::Assembler::frame)).
    fn in_heap(&mut self, arena: Arena, offset: Gpr, displacement: i32) -> Memory {
        let base = if self.shared.plan.base {
            BASE
        } else {
            self.code().constant(SCRATCH2, arena.base);
            SCRATCH2
        };
        Memory { base: offset, index: Some((base, 1)), displacement }
    }

    /// A machine register with the offset in the arena that a register holds: its own if it has been cast, else the first
    /// scratch register.
    fn offset_of(&mut self, at: usize, arena: Arena, register: Reg) -> Gpr {
        if self.offsets[at].contains(register) {
            return gpr(register);
        }
        self.arena_offset(arena, SCRATCH, gpr(register));
        SCRATCH
    }

    /// The arena address that an instruction changes, and the target if it is not completely in the heap.
    ///
    /// ```text
    ///   mov r10d, reg ; cmp r10, bytes - size - offset ; ja outside    [r10 + rbp + offset]
    ///   mov r10d, reg ; lea r10, [r10 + offset] ; cmp r10, bytes - size ; ja outside    [r10 + rbp]      (a negative offset)
    /// ```
    fn arena_operand(&mut self, at: usize, address: Address, size: Size) -> Result<(Memory, Label), Error> {
        let Some(arena) = self.shared.symbols.arena() else { return self.unresolved(at, Symbol::Arena) };
        let last = arena.bytes.checked_sub(size.bytes().into()).ok_or(Error::Malformed("an arena of a few bytes"))?;
        let outside = self.code().label();
        let mut offset = self.offset_of(at, arena, address.base);
        let ahead = u64::try_from(address.offset).ok().and_then(|ahead| last.checked_sub(ahead));
        let (last, displacement) = match ahead {
            Some(last) => (last, address.offset.into()),
            None => {
                // A negative sum is a large number here.
                self.code().lea(Width::W64, SCRATCH, Memory::at(offset, address.offset.into()));
                offset = SCRATCH;
                (last, 0)
            }
        };
        if let Ok(last) = i32::try_from(last) {
            self.code().arithmetic_imm(Arithmetic::Cmp, Width::W64, offset, last);
        } else {
            self.code().constant(SCRATCH2, last);
            self.code().arithmetic(Arithmetic::Cmp, Width::W64, offset, SCRATCH2);
        }
        self.code().jump_if(Condition::ABOVE, outside);
        Ok((self.in_heap(arena, offset, displacement), outside))
    }

    /// An access to the arena. Outside the heap a load finds zeros, a store is dropped, and an atomic operation does not
    /// change its registers.
    pub(super) fn arena_access(&mut self, at: usize, insn: Insn) -> Result<(), Error> {
        let (outside, kind) = match insn {
            Insn::Load { size, signed, dst, address } => {
                let place = self.arena_place(at, address)?;
                self.load(size, signed, dst, place);
                return Ok(());
            }
            Insn::LoadAcquire { size, dst, address } => {
                let place = self.arena_place(at, address)?;
                self.load(size, false, dst, place);
                return Ok(());
            }
            Insn::Store { size, address, src } => {
                let (place, outside) = self.arena_operand(at, address, size)?;
                self.store(size, place, src);
                (outside, ColdKind::Skip)
            }
            Insn::StoreRelease { size, address, src } => {
                let (place, outside) = self.arena_operand(at, address, size)?;
                self.store(size, place, Source::Reg(src));
                (outside, ColdKind::Skip)
            }
            Insn::Atomic { op, fetch, size, address, src } => {
                let needs_scratch = fetch && matches!(op, AtomicOp::And | AtomicOp::Or | AtomicOp::Xor);
                if needs_scratch {
                    return self.unsupported(at, "fetching and, or and xor in an arena");
                }
                let (place, outside) = self.arena_operand(at, address, size)?;
                self.atomic(at, op, fetch, size, place, src)?;
                let result = match op {
                    AtomicOp::CompareExchange => Some(Gpr::RAX),
                    _ => (fetch || op == AtomicOp::Exchange).then(|| gpr(src)),
                };
                // Of four bytes, the upper half is 0 as after any such operation.
                let kind = result.filter(|_| size == Size::B4).map_or(ColdKind::Skip, ColdKind::ZeroExtend);
                (outside, kind)
            }
            _ => return self.unsupported(at, "this access to an arena"),
        };
        let done = self.code().label();
        self.code().bind(done);
        self.rare(outside, Some(done), kind);
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
