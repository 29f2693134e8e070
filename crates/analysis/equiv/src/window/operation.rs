//! Proves the rows of the operation table: every proof sequence has the operation's meaning.
//!
//! Both run symbolically from unknown registers: the sequence by the shared semantics, the meaning by its expression.
//! Every choice of a template, every immediate and every way to share registers between operands is a question of its
//! own. The normal form settles most questions, and the solver the others.

use std::convert::Infallible;

use kiln_isa::operation::{Binding, Form, OperandKind, Operands, Operation, Template};
use kiln_isa::semantics::{Machine, MemoryOrder, execute};
use kiln_isa::{Address, AtomicOp, Imm64, Insn, Reg, Size};

use crate::term::solver::{Answer, ask};
use crate::term::{Arena, Symbol, Term};

/// Limit of one question to the solver, in its steps: about ten seconds.
const QUESTION_STEPS: u32 = 25_000_000;
/// How many immediates of a larger range are tried: the first ones, and the last one.
const MOST_IMMEDIATES: i32 = 64;

/// An instance whose proof sequence is not shown to have the operation's meaning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disproof {
    /// The proof sequence's name.
    pub form: &'static str,
    /// The instructions.
    pub insns: Vec<Insn>,
    /// Values of the registers for which the two differ; `None` if the solver gave up.
    pub counterexample: Option<Vec<(String, u64)>>,
}

impl std::fmt::Display for Disproof {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let insns: Vec<String> = self.insns.iter().map(Insn::to_string).collect();
        write!(out, "{}: {}: ", self.form, insns.join(" ; "))?;
        match &self.counterexample {
            Some(values) => {
                let values: Vec<String> = values.iter().map(|(name, value)| format!("{name} = {value:#x}")).collect();
                write!(out, "not the operation's meaning with {}", values.join(", "))
            }
            None => out.write_str("the solver gave up"),
        }
    }
}

/// Proves that all proof sequences of an operation have its meaning; returns how many instances that took.
///
/// # Errors
/// Returns the first instance that is disproved, or that the solver gave up on.
pub fn prove(operation: &'static Operation) -> Result<usize, Disproof> {
    let mut instances = 0;
    for form in operation.forms {
        for operands in allowed_operands(operation, form) {
            for insns in choices(form, &operands) {
                instances += 1;
                prove_instance(operation, form, &operands, insns)?;
            }
        }
    }
    Ok(instances)
}

fn prove_instance(
    operation: &Operation,
    form: &'static Form,
    operands: &Operands,
    insns: Vec<Insn>,
) -> Result<(), Disproof> {
    let arena = Arena::new();
    let before = |reg: Reg| arena.symbol(Symbol::Register(reg), 64);
    let register = |index| before(operands.reg(index));
    let meaning = operation.meaning.evaluate(operands, &register, &|value| arena.constant(64, value));
    let mut state = State { arena: &arena, registers: Reg::all().map(before).collect() };
    for insn in &insns {
        let Ok(_) = execute(insn, &mut state);
    }
    let result = operation.result().map_or(Reg::R0, |index| operands.reg(index));
    let left = state.registers[result.index()];
    if left == meaning {
        return Ok(());
    }
    let counterexample = match ask(&arena, &[], &[(left.id(), meaning.id())], QUESTION_STEPS) {
        Answer::Equal => return Ok(()),
        Answer::Different(values) => {
            Some(values.into_iter().map(|(symbol, value)| (symbol.to_string(), value)).collect())
        }
        Answer::Unknown => None,
    };
    Err(Disproof { form: form.name, insns, counterexample })
}

/// All operands that a form allows, up to renaming of registers: each way in which registers may be shared.
fn allowed_operands(operation: &Operation, form: &Form) -> Vec<Operands> {
    let mut partial: Vec<Vec<i32>> = vec![Vec::new()];
    for operand in operation.operands {
        partial = partial.iter().flat_map(|values| extended(operation, values, operand.kind)).collect();
    }
    partial.iter().filter_map(|values| Binding::of(values).complete(operation, form)).collect()
}

fn extended(operation: &Operation, values: &[i32], kind: OperandKind) -> Vec<Vec<i32>> {
    let with = |value: i32| values.iter().copied().chain([value]).collect::<Vec<_>>();
    match kind {
        OperandKind::Immediate { min, max } => {
            let few = max.checked_sub(min).is_some_and(|span| span < MOST_IMMEDIATES);
            let end = if few { max } else { min.saturating_add(MOST_IMMEDIATES) };
            let last = (!few).then_some(max);
            (min..=end).chain(last).map(with).collect()
        }
        _ => {
            let registers = operation.operands.iter().zip(values);
            let used = registers.filter(|(operand, _)| !matches!(operand.kind, OperandKind::Immediate { .. }));
            let next = used.map(|(_, value)| value + 1).max().unwrap_or(0);
            (0..=next.min(9)).map(with).collect()
        }
    }
}

/// The instructions of a form, once for each combination of the templates' choices.
fn choices(form: &Form, operands: &Operands) -> Vec<Vec<Insn>> {
    let mut all: Vec<Vec<Insn>> = vec![Vec::new()];
    for template in form.code {
        let insns: Vec<Insn> =
            (0..template.choices()).filter_map(|number| instance(template, number, operands)).collect();
        all = all
            .iter()
            .flat_map(|before| insns.iter().map(|insn| before.iter().copied().chain([*insn]).collect()))
            .collect();
    }
    all
}

fn instance(template: &Template, number: usize, operands: &Operands) -> Option<Insn> {
    operands.instance(&template.choice(number))
}

/// Registers as terms. Proof sequences of the table touch nothing else.
struct State<'a> {
    arena: &'a Arena,
    registers: Vec<Term<'a>>,
}

impl<'a> Machine for State<'a> {
    type Value = Term<'a>;
    type Error = Infallible;

    fn register(&mut self, reg: Reg) -> Result<Term<'a>, Infallible> {
        Ok(self.registers[reg.index()])
    }
    fn set_register(&mut self, reg: Reg, value: Term<'a>) -> Result<(), Infallible> {
        self.registers[reg.index()] = value;
        Ok(())
    }
    fn constant(&mut self, value: u64) -> Term<'a> {
        self.arena.constant(64, value)
    }
    fn load_imm64(&mut self, _: Imm64) -> Result<Term<'a>, Infallible> {
        unreachable!("no template loads a 64-bit immediate")
    }
    fn load(&mut self, _: Address, _: Size, _: MemoryOrder) -> Result<Term<'a>, Infallible> {
        unreachable!("no template loads")
    }
    fn store(&mut self, _: Address, _: Size, _: Term<'a>, _: MemoryOrder) -> Result<(), Infallible> {
        unreachable!("no template stores")
    }
    fn atomic(
        &mut self,
        _: AtomicOp,
        _: Address,
        _: Size,
        _: Term<'a>,
        _: Option<Term<'a>>,
    ) -> Result<Term<'a>, Infallible> {
        unreachable!("no template is atomic")
    }
    fn load_packet(&mut self, _: Option<Term<'a>>, _: i32, _: Size) -> Result<Option<Term<'a>>, Infallible> {
        unreachable!("no template loads packets")
    }
    fn cast_address(&mut self, _: Term<'a>, _: u16, _: u16) -> Result<Term<'a>, Infallible> {
        unreachable!("no template casts addresses")
    }
}
