//! Loads, stores, atomics, 64-bit immediates.

use kiln_isa::{Address as Operand, AtomicOp, Insn, Reg, Size, Source};
use kiln_program::FunctionId;

use super::builder::Value;
use super::function::FunctionWriter;
use super::shared::Place;
use crate::Error;
use crate::address::Address;
use crate::walk::{Frame, LowerMemory};

impl LowerMemory for FunctionWriter<'_, '_> {
    fn load_number(&mut self, dst: Reg, value: u64) {
        self.set_register(dst, &Value::from(value));
    }

    fn load_address(&mut self, at: usize, dst: Reg, address: Address) -> Result<(), Error> {
        let value = self.address(at, address)?;
        self.set_register(dst, &value);
        Ok(())
    }

    fn load_callback(&mut self, dst: Reg, callback: FunctionId) -> Result<(), Error> {
        let value = self.out.value(format_args!("ptrtoint ptr @c{} to i64", callback.0));
        self.set_register(dst, &value);
        Ok(())
    }

    fn access(&mut self, at: usize, insn: Insn) -> Result<(), Error> {
        let operand = insn.address().ok_or(Error::Malformed("an access without address"))?;
        if self.in_arena(at) {
            return self.arena_access(at, &insn, operand);
        }
        let place = self.pointer(at, operand);
        let volatile = operand.base != Reg::R10 && self.known_place(at).is_none();
        self.access_at(at, &insn, &place, volatile)
    }

    /// The lower bits; for user space with the arena's base, and null stays null.
    fn cast_address(&mut self, at: usize, dst: Reg, src: Reg, to: u16) -> Result<(), Error> {
        let Some(arena) = self.shared.symbols.arena() else { return self.unresolved(at, Address::Arena) };
        let value = self.register(src);
        let low = self.out.value(format_args!("and i64 {value}, {}", arena.mask()));
        if to == 0 {
            self.set_register(dst, &low);
            return Ok(());
        }
        let base = self.address(at, Address::Arena)?;
        let with_base = self.out.value(format_args!("or i64 {low}, {base}"));
        let is_null = self.out.value(format_args!("icmp eq i64 {low}, 0"));
        let address = self.out.value(format_args!("select i1 {is_null}, i64 0, i64 {with_base}"));
        self.set_register(dst, &address);
        Ok(())
    }
}

impl FunctionWriter<'_, '_> {
    /// Where an instruction accesses memory, as a pointer. A pointer into the function's own frame is made from the frame
    /// and a distance: so LLVM knows what it can change, and keeps such a variable in a register where it may.
    pub(super) fn pointer(&mut self, at: usize, operand: Operand) -> Value {
        let Operand { base, offset } = operand;
        if base == Reg::R10 {
            return self.out.value(format_args!("getelementptr i8, ptr %r10, i64 {offset}"));
        }
        let address = self.register(base);
        let address = self.out.value(format_args!("add i64 {address}, {offset}"));
        if self.known_place(at) == Some(Place::OwnFrame) {
            let frame = self.register(Reg::R10);
            let distance = self.out.value(format_args!("sub i64 {address}, {frame}"));
            return self.out.value(format_args!("getelementptr i8, ptr %r10, i64 {distance}"));
        }
        self.out.value(format_args!("inttoptr i64 {address} to ptr"))
    }

    fn access_at(&mut self, at: usize, insn: &Insn, place: &Value, volatile: bool) -> Result<(), Error> {
        let how = if volatile { "volatile " } else { "" };
        match *insn {
            Insn::Load { size, signed, dst, .. } => {
                let bits = size.bits();
                let value = self.out.value(format_args!("load {how}i{bits}, ptr {place}, align 1"));
                let value = match signed {
                    true if bits < 64 => self.out.value(format_args!("sext i{bits} {value} to i64")),
                    _ => self.widen(bits, value),
                };
                self.set_register(dst, &value);
            }
            Insn::Store { size, src, .. } => {
                let value = self.stored(size, src);
                self.out.line(format_args!("store {how}i{} {value}, ptr {place}, align 1", size.bits()));
            }
            Insn::LoadAcquire { size, dst, .. } => {
                let (bits, bytes) = (size.bits(), size.bytes());
                let value = self.out.value(format_args!("load atomic i{bits}, ptr {place} acquire, align {bytes}"));
                let value = self.widen(bits, value);
                self.set_register(dst, &value);
            }
            Insn::StoreRelease { size, src, .. } => {
                let (bits, bytes) = (size.bits(), size.bytes());
                let value = self.stored(size, Source::Reg(src));
                self.out.line(format_args!("store atomic i{bits} {value}, ptr {place} release, align {bytes}"));
            }
            Insn::Atomic { op, fetch, size, src, .. } => self.atomic(at, op, fetch, size, place, src)?,
            _ => return self.unsupported(at, "this access"),
        }
        Ok(())
    }

    fn stored(&mut self, size: Size, src: Source) -> Value {
        match src {
            Source::Reg(src) => {
                let value = self.register(src);
                self.narrow(size.bits(), value)
            }
            Source::Imm(imm) => {
                // As a signed number of its size, which is how LLVM's text has it.
                let unused = 64 - size.bits();
                Value::from((i64::from(imm) << unused >> unused) as u64)
            }
        }
    }

    fn atomic(
        &mut self,
        at: usize,
        op: AtomicOp,
        fetch: bool,
        size: Size,
        place: &Value,
        src: Reg,
    ) -> Result<(), Error> {
        let bits = match size {
            Size::B4 | Size::B8 => size.bits(),
            Size::B1 | Size::B2 => return self.unsupported(at, "atomics of one or two bytes"),
        };
        let value = self.stored(size, Source::Reg(src));
        let name = match op {
            AtomicOp::CompareExchange => {
                let expected = self.stored(size, Source::Reg(Reg::R0));
                let exchange = format!("cmpxchg ptr {place}, i{bits} {expected}, i{bits} {value} seq_cst seq_cst");
                let both = self.out.value(exchange);
                let old = self.out.value(format_args!("extractvalue {{ i{bits}, i1 }} {both}, 0"));
                let old = self.widen(bits, old);
                self.set_register(Reg::R0, &old);
                return Ok(());
            }
            AtomicOp::Exchange => "xchg",
            AtomicOp::Add => "add",
            AtomicOp::Or => "or",
            AtomicOp::And => "and",
            AtomicOp::Xor => "xor",
        };
        let returns = fetch || op == AtomicOp::Exchange;
        let old = self.out.value(format_args!("atomicrmw {name} ptr {place}, i{bits} {value} seq_cst"));
        if returns {
            let old = self.widen(bits, old);
            self.set_register(src, &old);
        }
        Ok(())
    }

    /// An access to the arena: the base and the lower bits of the register. Outside the heap a load finds zeros, a store
    /// is dropped, and an atomic operation does not change its registers.
    fn arena_access(&mut self, at: usize, insn: &Insn, operand: Operand) -> Result<(), Error> {
        let Some(arena) = self.shared.symbols.arena() else { return self.unresolved(at, Address::Arena) };
        let size = accessed(insn);
        let last = arena.bytes.checked_sub(size.bytes().into()).ok_or(Error::Malformed("an arena of a few bytes"))?;
        let register = self.register(operand.base);
        let low = self.out.value(format_args!("and i64 {register}, {}", arena.mask()));
        let offset = self.out.value(format_args!("add i64 {low}, {}", operand.offset));
        if matches!(insn, Insn::Load { .. } | Insn::LoadAcquire { .. }) {
            let place = self.arena_place(at, &offset)?;
            return self.access_at(at, insn, &place, true);
        }
        let (inside, outside, done) = (self.out.fresh(), self.out.fresh(), self.out.fresh());
        // A negative offset is a large number here.
        let is_inside = self.out.value(format_args!("icmp ule i64 {offset}, {last}"));
        self.out.choose(&is_inside, &inside, &outside);

        self.out.begin(&inside);
        let place = self.arena_place(at, &offset)?;
        self.access_at(at, insn, &place, true)?;
        self.out.jump(&done);

        self.out.begin(&outside);
        // Of four bytes, the upper half is 0 as after any such operation.
        if let Insn::Atomic { size: Size::B4, op, fetch, src, .. } = *insn {
            let result = match op {
                AtomicOp::CompareExchange => Some(Reg::R0),
                _ => (fetch || op == AtomicOp::Exchange).then_some(src),
            };
            if let Some(result) = result {
                let value = self.register(result);
                let value = self.narrow(32, value);
                let value = self.widen(32, value);
                self.set_register(result, &value);
            }
        }
        self.out.jump(&done);
        self.out.begin(&done);
        Ok(())
    }

    fn arena_place(&mut self, at: usize, offset: &Value) -> Result<Value, Error> {
        let base = self.address(at, Address::Arena)?;
        let address = self.out.value(format_args!("add i64 {base}, {offset}"));
        Ok(self.out.value(format_args!("inttoptr i64 {address} to ptr")))
    }
}

/// How much an instruction accesses.
fn accessed(insn: &Insn) -> Size {
    match *insn {
        Insn::Load { size, .. }
        | Insn::Store { size, .. }
        | Insn::Atomic { size, .. }
        | Insn::LoadAcquire { size, .. }
        | Insn::StoreRelease { size, .. } => size,
        _ => Size::B8,
    }
}
