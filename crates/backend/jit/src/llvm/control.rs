//! Branches, calls, classic packet loads.

use kiln_isa::{Address as Operand, Insn, JumpOp, PacketMode, Reg, Size, Source, Width};
use kiln_platform::helper_id::{MAP_LOOKUP_ELEM, TAIL_CALL};
use kiln_program::Reference;

use super::builder::Value;
use super::function::{FunctionWriter, block};
use crate::Error;
use crate::address::Address;
use crate::walk::{Frame, LowerControl};

impl LowerControl for FunctionWriter<'_, '_> {
    fn jump(&mut self, at: usize) -> Result<(), Error> {
        let target = self.target(at)?;
        self.out.jump(&target);
        Ok(())
    }

    fn exit(&mut self, _: usize) {
        let value = self.register(Reg::R0);
        self.leave_with(&value);
    }

    fn call_native(&mut self, at: usize, address: Address, may_stop: bool) -> Result<(), Error> {
        if address == Address::Helper(MAP_LOOKUP_ELEM) && self.array_look_up(at)? {
            return Ok(());
        }
        let value = self.call_helper(at, address)?;
        if may_stop {
            self.leave_if_stopped();
        }
        self.set_register(Reg::R0, &value);
        Ok(())
    }

    fn branch(&mut self, at: usize, op: JumpOp, width: Width, dst: Reg, src: Source) -> Result<(), Error> {
        let (target, next) = (self.target(at)?, self.next(at));
        let bits = width.bits();
        let mut first = self.operand(width, Source::Reg(dst));
        let mut second = self.operand(width, src);
        let condition = match op {
            JumpOp::Eq => "eq",
            JumpOp::Ne | JumpOp::Set => "ne",
            JumpOp::Gt => "ugt",
            JumpOp::Ge => "uge",
            JumpOp::Lt => "ult",
            JumpOp::Le => "ule",
            JumpOp::Sgt => "sgt",
            JumpOp::Sge => "sge",
            JumpOp::Slt => "slt",
            JumpOp::Sle => "sle",
        };
        if op == JumpOp::Set {
            first = self.out.value(format_args!("and i{bits} {first}, {second}"));
            second = Value::from(0);
        }
        let holds = self.out.value(format_args!("icmp {condition} i{bits} {first}, {second}"));
        self.out.choose(&holds, &target, &next);
        Ok(())
    }

    fn jump_indirect(&mut self, dst: Reg) {
        let value = self.register(dst);
        let cases: String = self
            .targets
            .indirect
            .iter()
            .map(|(address, at)| format!(" i64 {address}, label %{}", block(*at)))
            .collect();
        self.out.line(format_args!("switch i64 {value}, label %leave [{cases} ]"));
    }

    fn may_goto(&mut self, at: usize) -> Result<(), Error> {
        // `loop_cost` has asked.
        if self.shared.plan.refills {
            let next = self.next(at);
            self.out.jump(&next);
            return Ok(());
        }
        let (target, next, turn) = (self.target(at)?, self.next(at), self.out.fresh());
        let left = self.out.value("load i64, ptr %turns");
        let none = self.out.value(format_args!("icmp eq i64 {left}, 0"));
        self.out.choose(&none, &target, &turn);
        self.out.begin(&turn);
        let left = self.out.value(format_args!("sub i64 {left}, 1"));
        self.out.line(format_args!("store i64 {left}, ptr %turns"));
        self.out.jump(&next);
        Ok(())
    }

    fn call_subprogram(&mut self, at: usize) -> Result<(), Error> {
        let callee = self.callee(at)?;
        if !self.shared.plan.order.contains(&callee) {
            return Err(Error::Malformed("a call of a function that does not exist"));
        }
        let arguments = self.arguments();
        let value = self.call_function(callee, &arguments);
        if self.counts() {
            let cost = self.shared.plan.function(callee).cost;
            self.spend(at, cost as u64, None)?;
        } else {
            self.leave_if_stopped();
        }
        self.set_register(Reg::R0, &value);
        Ok(())
    }

    fn tail_call(&mut self, at: usize) -> Result<(), Error> {
        let (found, failed) = (self.out.fresh(), self.out.fresh());
        let context = self.register(Reg::R1);
        let entry = self.call_helper(at, Address::Helper(TAIL_CALL))?;
        self.leave_if_stopped();
        let exists = self.out.value(format_args!("icmp ne i64 {entry}, 0"));
        self.out.choose(&exists, &found, &failed);
        self.out.begin(&found);
        self.write_back_budget();
        let entry = self.out.value(format_args!("inttoptr i64 {entry} to ptr"));
        let value = self.out.value(format_args!("call i64 {entry}(i64 {context}, ptr %runtime) #0"));
        self.reload_budget();
        self.leave_with(&value);
        self.out.begin(&failed);
        self.set_register(Reg::R0, &Value::from(0));
        Ok(())
    }

    fn load_packet(&mut self, at: usize, mode: PacketMode, size: Size, offset: i32) -> Result<(), Error> {
        let index = match mode {
            PacketMode::Absolute => Value::from(i64::from(offset) as u64),
            PacketMode::Indirect(register) => {
                let index = self.register(register);
                let index = self.narrow(32, index);
                let index = self.out.value(format_args!("add i32 {index}, {offset}"));
                self.out.value(format_args!("sext i32 {index} to i64"))
            }
        };
        let context = self.register(Reg::R6);
        let bytes = size.bytes();
        let arguments = format!("i64 {context}, i64 {index}, i64 {bytes}, i64 0, i64 0, ptr %runtime");
        let value = self.call_address(at, Address::PacketLoad, &arguments)?;
        let next = self.out.fresh();
        let outside = self.out.value(format_args!("icmp slt i64 {value}, 0"));
        self.out.line(format_args!("br i1 {outside}, label %leave, label %{next}"));
        self.out.begin(&next);
        self.set_register(Reg::R0, &value);
        Ok(())
    }
}

impl FunctionWriter<'_, '_> {
    fn call_helper(&mut self, at: usize, helper: Address) -> Result<Value, Error> {
        let arguments = self.arguments();
        self.call_address(at, helper, &arguments)
    }

    fn call_address(&mut self, at: usize, helper: Address, arguments: &str) -> Result<Value, Error> {
        let address = self.address(at, helper)?;
        let pointer = self.out.value(format_args!("inttoptr i64 {address} to ptr"));
        self.write_back_budget();
        let value = self.out.value(format_args!("call i64 {pointer}({arguments}) #0"));
        self.reload_budget();
        Ok(value)
    }

    fn arguments(&mut self) -> String {
        let registers = [Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5].map(|register| self.register(register));
        let arguments: Vec<String> = registers.iter().map(|value| format!("i64 {value}")).collect();
        format!("{}, ptr %runtime", arguments.join(", "))
    }

    /// A lookup in a plain array: the address of the value is computed in place. False where this is not one.
    fn array_look_up(&mut self, at: usize) -> Result<bool, Error> {
        let Some(before) = at.checked_sub(1).map(|before| &self.nodes[before]) else { return Ok(false) };
        let (Insn::LoadImm64 { dst: Reg::R1, .. }, Reference::Map(map)) = (before.insn, before.reference) else {
            return Ok(false);
        };
        let Some(array) = self.shared.symbols.array(map).filter(|_| self.follows_directly(at)) else {
            return Ok(false);
        };
        let (present, absent, done) = (self.out.fresh(), self.out.fresh(), self.out.fresh());
        let key = self.pointer(at, Operand { base: Reg::R2, offset: 0 });
        let how = if self.known_place(at).is_some() { "" } else { "volatile " };
        let index = self.out.value(format_args!("load {how}i32, ptr {key}, align 1"));
        let exists = self.out.value(format_args!("icmp ult i32 {index}, {}", array.entries as i32));
        self.out.choose(&exists, &present, &absent);
        self.out.begin(&present);
        let first = self.address(at, Address::Array(map))?;
        let index = self.widen(32, index);
        let offset = self.out.value(format_args!("mul i64 {index}, {}", array.stride_bytes));
        let value = self.out.value(format_args!("add i64 {first}, {offset}"));
        self.set_register(Reg::R0, &value);
        self.out.jump(&done);
        self.out.begin(&absent);
        self.set_register(Reg::R0, &Value::from(0));
        self.out.jump(&done);
        self.out.begin(&done);
        Ok(true)
    }
}
