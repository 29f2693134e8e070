//! One function: its variables, blocks, budget and exits.

use kiln_isa::{Insn, Reg};
use kiln_program::{FunctionId, Node, Object};

use super::builder::{Builder, Value};
use super::shared::{Place, Shared, table_symbol};
use crate::address::Address;
use crate::plan::{FunctionPlan, MAX_STACK_BYTES};
use crate::targets::{Targets, jump_targets};
use crate::walk::{Frame, Lower};
use crate::{Error, MAY_GOTO_LIMIT, Symbols};

/// A function that is being translated.
pub(super) struct FunctionWriter<'s, 'a> {
    pub shared: &'s mut Shared<'a>,
    pub out: Builder,
    pub nodes: &'a [Node],
    plan: &'a FunctionPlan,
    id: FunctionId,
    pub targets: Targets,
    /// What the budget is charged at each instruction.
    charges: Vec<Option<usize>>,
}

impl<'s, 'a> FunctionWriter<'s, 'a> {
    pub fn new(shared: &'s mut Shared<'a>, id: FunctionId) -> Result<Self, Error> {
        let function = shared.object.functions.get(id.index());
        let nodes = &function.ok_or(Error::Malformed("a function that does not exist"))?.nodes[..];
        let targets = Targets::of(nodes, &jump_targets(shared.object, id))?;
        let plan = shared.plan.function(id);
        let charges = targets.charges(nodes, shared.plan.refills);
        Ok(FunctionWriter { shared, out: Builder::default(), nodes, plan, id, targets, charges })
    }

    /// Translates the function.
    ///
    /// # Errors
    /// Returns an error if an instruction has no translation, or if the runtime lacks an address that it names.
    pub fn write(mut self) -> Result<String, Error> {
        self.begin();
        let mut open = true;
        for (at, node) in self.nodes.iter().enumerate() {
            // A block begins where control comes from elsewhere, and after one that has ended.
            if !self.follows_directly(at) || !open || at == 0 {
                if open {
                    self.out.jump(&block(at));
                }
                self.out.begin(&block(at));
            }
            self.loop_cost(at)?;
            self.instruction(at)?;
            open = goes_on(&node.insn);
        }
        if open {
            self.out.jump("leave");
        }
        self.out.begin("leave");
        self.leave_with(&Value::from(0));
        self.out.top("}\n");
        Ok(self.out.finish())
    }

    /// Declares the function and its variables.
    fn begin(&mut self) {
        let id = self.id.0;
        self.out.top(format_args!(
            "define internal {{ i64, i64 }} @f{id}(i64 %a1, i64 %a2, i64 %a3, i64 %a4, i64 %a5, ptr %runtime, i64 %left) #0 {{"
        ));
        self.out.begin("start");
        for register in 0..Reg::R10.number() {
            self.out.line(format_args!("%r{register} = alloca i64"));
        }
        for register in 1..=5 {
            self.out.line(format_args!("store i64 %a{register}, ptr %r{register}"));
        }
        if self.plan.frame {
            self.out.line(format_args!("%stack = alloca [{MAX_STACK_BYTES} x i8], align 16"));
            self.out.line(format_args!("%r10 = getelementptr i8, ptr %stack, i64 {MAX_STACK_BYTES}"));
        }
        let cleared = self.shared.settings.options.cleared_bytes.next_multiple_of(8).min(self.plan.stack_bytes as u32);
        for offset in (-(cleared as i32)..0).step_by(8) {
            let place = self.out.value(format_args!("getelementptr i8, ptr %r10, i64 {offset}"));
            self.out.line(format_args!("store i64 0, ptr {place}"));
        }
        if self.plan.may_goto_slot.is_some() {
            self.out.line(format_args!("%turns = alloca i64\n  store i64 {MAY_GOTO_LIMIT}, ptr %turns"));
        }
        if self.counts() {
            self.out.line("%budget = alloca i64\n  store i64 %left, ptr %budget");
        }
    }

    /// Whether instructions are counted.
    pub fn counts(&self) -> bool {
        self.shared.settings.options.metered && self.shared.plan.budget
    }

    /// Returns a value, and the budget that is left.
    pub fn leave_with(&mut self, value: &Value) {
        let left = self.budget_left();
        let both = self.out.value(format_args!("insertvalue {{ i64, i64 }} poison, i64 {value}, 0"));
        let both = self.out.value(format_args!("insertvalue {{ i64, i64 }} {both}, i64 {left}, 1"));
        self.out.line(format_args!("ret {{ i64, i64 }} {both}"));
    }

    /// The budget that is left, as a function of the program gets and returns it; 0 if it is not counted.
    fn budget_left(&mut self) -> Value {
        if self.counts() { self.out.value("load i64, ptr %budget") } else { Value::from(0) }
    }

    /// Calls a function of the program.
    pub fn call_function(&mut self, callee: FunctionId, arguments: &str) -> Value {
        let left = self.budget_left();
        let both = self.out.value(format_args!("call {{ i64, i64 }} @f{}({arguments}, i64 {left})", callee.0));
        if self.counts() {
            let left = self.out.value(format_args!("extractvalue {{ i64, i64 }} {both}, 1"));
            self.out.line(format_args!("store i64 {left}, ptr %budget"));
        }
        self.out.value(format_args!("extractvalue {{ i64, i64 }} {both}, 0"))
    }

    /// Writes the budget where helpers find it.
    pub fn write_back_budget(&mut self) {
        if self.counts() {
            let left = self.out.value("load i64, ptr %budget");
            self.out.line(format_args!("store i64 {left}, ptr %runtime"));
        }
    }

    /// Reads the budget that a helper or another program left.
    pub fn reload_budget(&mut self) {
        if self.counts() {
            let left = self.out.value("load i64, ptr %runtime");
            self.out.line(format_args!("store i64 {left}, ptr %budget"));
        }
    }

    /// Subtracts a loop's length from the budget, at its header. A `may_goto` there branches if the budget is spent.
    fn loop_cost(&mut self, at: usize) -> Result<(), Error> {
        let point = match self.nodes[at].insn {
            Insn::MayGoto { .. } if self.shared.plan.refills => Some(self.target(at)?),
            _ => None,
        };
        if let Some(length) = self.charges[at]
            && self.counts()
        {
            self.spend(at, length as u64, point)?;
        }
        Ok(())
    }

    /// Subtracts from the budget. If it is spent, asks for more, or leaves the function.
    pub fn spend(&mut self, at: usize, cost: u64, point: Option<String>) -> Result<(), Error> {
        let before = self.out.value("load i64, ptr %budget");
        let left = self.out.value(format_args!("sub i64 {before}, {cost}"));
        self.out.line(format_args!("store i64 {left}, ptr %budget"));
        if !self.shared.plan.refills {
            self.leave_if_negative(&left);
            return Ok(());
        }
        let (refill, next) = (self.out.fresh(), self.out.fresh());
        let spent = self.out.value(format_args!("icmp slt i64 {left}, 0"));
        self.out.line(format_args!("br i1 {spent}, label %{refill}, label %{next}, !prof !1"));
        self.out.begin(&refill);
        let routine = self.address(at, Address::Refill)?;
        let routine = self.out.value(format_args!("inttoptr i64 {routine} to ptr"));
        self.write_back_budget();
        let asks = i32::from(point.is_some());
        let answer = self.out.value(format_args!("call i64 {routine}(ptr %runtime, i64 {asks}) #0"));
        self.reload_budget();
        let left = self.out.value("load i64, ptr %budget");
        self.leave_if_negative(&left);
        match point {
            Some(point) => {
                let branches = self.out.value(format_args!("icmp ne i64 {answer}, 0"));
                self.out.choose(&branches, &point, &next);
            }
            None => self.out.jump(&next),
        }
        self.out.begin(&next);
        Ok(())
    }

    fn leave_if_negative(&mut self, left: &Value) {
        let next = self.out.fresh();
        let spent = self.out.value(format_args!("icmp slt i64 {left}, 0"));
        self.out.line(format_args!("br i1 {spent}, label %leave, label %{next}"));
        self.out.begin(&next);
    }

    /// After a call that may have stopped the run: leaves the function then.
    pub fn leave_if_stopped(&mut self) {
        if self.shared.plan.budget {
            let left = self.out.value("load i64, ptr %runtime");
            self.leave_if_negative(&left);
        }
    }

    pub fn register(&mut self, register: Reg) -> Value {
        match register {
            Reg::R10 => self.out.value("ptrtoint ptr %r10 to i64"),
            other => self.out.value(format_args!("load i64, ptr %r{}", other.number())),
        }
    }

    pub fn set_register(&mut self, register: Reg, value: &Value) {
        self.out.line(format_args!("store i64 {value}, ptr %r{}", register.number()));
    }

    /// An address of the process.
    pub fn address(&mut self, at: usize, address: Address) -> Result<Value, Error> {
        let Some(place) = self.shared.place(address) else {
            return self.unresolved(at, address);
        };
        let table = table_symbol(self.shared.settings.name);
        // LLVM must not know where the table is: of a switch over addresses it would make a table of pointers into this
        // one, which a dynamic linker would have to fill.
        let start = self.out.value(format_args!("call ptr asm \"\", \"=r,0\"(ptr @{table})"));
        let word = self.out.value(format_args!("getelementptr i64, ptr {start}, i64 {place}"));
        Ok(self.out.value(format_args!("load i64, ptr {word}, !invariant.load !0")))
    }

    /// The block of a branch's target.
    pub fn target(&self, at: usize) -> Result<String, Error> {
        self.targets.target(at).map(block)
    }

    /// The block of the next instruction, which begins one because this instruction ends its own.
    pub fn next(&self, at: usize) -> String {
        block(at + 1)
    }

    /// Whether control comes to an instruction only from the one before.
    pub fn follows_directly(&self, at: usize) -> bool {
        !self.targets.is_target(at)
    }

    /// What is known of the address that an instruction accesses.
    pub fn known_place(&self, at: usize) -> Option<Place> {
        self.shared.settings.places.get(&self.nodes[at].id).copied()
    }
}

impl Frame for FunctionWriter<'_, '_> {
    fn nodes(&self) -> &[Node] {
        self.nodes
    }

    fn targets(&self) -> &Targets {
        &self.targets
    }

    fn object(&self) -> &Object {
        self.shared.object
    }

    fn symbols(&self) -> &dyn Symbols {
        self.shared.symbols
    }
}

/// Whether the text of an instruction leaves its block open.
fn goes_on(insn: &Insn) -> bool {
    !matches!(
        insn,
        Insn::Jump { .. } | Insn::JumpIndirect { .. } | Insn::Branch { .. } | Insn::MayGoto { .. } | Insn::Exit
    )
}

/// The block that begins at an instruction.
pub(super) fn block(at: usize) -> String {
    format!("i{at}")
}
