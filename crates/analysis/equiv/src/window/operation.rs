//! Proves the rows of the operation table: every proof sequence has the operation's meaning.
//!
//! Both run symbolically from unknown registers: the sequence by the shared semantics, the meaning by its expression.
//! Every choice of a template, every immediate and every way to share registers between operands is a question of its
//! own. The normal form settles most questions, and the solver the others.

use std::cell::RefCell;
use std::convert::Infallible;

use kiln_isa::operation::{Binding, Effect, Exit, Form, OperandKind, Operands, Operation, Template};
use kiln_isa::semantics::{BitVec, Machine, MemoryOrder, execute};
use kiln_isa::{Address, AtomicOp, Imm64, Insn, JumpOp, Reg, Size, Source};

use crate::term::solver::{Answer, ask};
use crate::term::{Arena, Symbol, Term};

/// Limit of one question to the solver, in its steps: about ten seconds.
const QUESTION_STEPS: u32 = 25_000_000;
/// How many immediates of a larger range are tried: the first ones, and the last one.
const MOST_IMMEDIATES: i32 = 64;
/// What is tried for each of several immediates of larger ranges.
const FEW_IMMEDIATES: [i32; 2] = [-1, 31];

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
    let memory = Memory { arena: &arena, words: RefCell::new(Vec::new()) };
    let registers = Reg::all().map(before).collect();
    let mut state = State { memory: &memory, registers, stores: Vec::new(), is_clear: true };
    let code: Vec<_> = form.code.iter().zip(insns.iter().copied()).collect();
    let leaves = state.run(&code);
    let left = form.leaves().then_some(leaves);
    let Some(questions) = questions(operation, operands, &state, left, &before) else {
        return Err(Disproof { form: form.name, insns, counterexample: None });
    };
    let open: Vec<_> = questions.into_iter().filter(|(left, right)| left != right).collect();
    if open.is_empty() {
        return Ok(());
    }
    let open: Vec<_> = open.iter().map(|(left, right)| (left.id(), right.id())).collect();
    let counterexample = match ask(&arena, &[], &open, QUESTION_STEPS) {
        Answer::Equal => return Ok(()),
        Answer::Different(values) => {
            Some(values.into_iter().map(|(symbol, value)| (symbol.to_string(), value)).collect())
        }
        Answer::Unknown => None,
    };
    Err(Disproof { form: form.name, insns, counterexample })
}

/// What must be equal: what the sequence leaves in results and in memory and whether control `left`, and the operation's
/// effects. `None` if the sequence accesses other memory than the meaning.
fn questions<'a>(
    operation: &Operation,
    operands: &Operands,
    state: &State<'a>,
    mut left: Option<Term<'a>>,
    before: &impl Fn(Reg) -> Term<'a>,
) -> Option<Vec<(Term<'a>, Term<'a>)>> {
    let arena = state.memory.arena;
    let constant = |value| arena.constant(64, value);
    let register = |index| before(operands.reg(index));
    let loaded = state.memory.words.borrow().len();
    let read = RefCell::new(Vec::new());
    let memory = |size: Size, address| {
        read.borrow_mut().push((size, address));
        state.memory.word(size, address).zero_extend(64)
    };
    let (mut questions, mut results, mut stores) = (Vec::new(), Vec::new(), state.stores.clone());
    for effect in operation.effects {
        match *effect {
            Effect::Register(index, value) => {
                let value = value.evaluate(operands, &register, &constant, &memory);
                questions.push((state.registers[operands.reg(index).index()], value));
                results.push(index);
            }
            Effect::Leave(value) => {
                questions.push((left.take()?, value.evaluate(operands, &register, &constant, &memory)));
            }
            Effect::Memory(place, value) => {
                let value = value.evaluate(operands, &register, &constant, &memory);
                let address = register(place.base).add(&constant(operands.imm(place.offset) as u64));
                let is_same = |store: &Store<'_>| store.size == place.size && store.address(arena) == address;
                let store = stores.remove(stores.iter().position(is_same)?);
                questions.push((store.value, value.truncate(place.size.bits())));
            }
        }
    }
    // The meaning reads what the sequence reads, no more and no less, and says what becomes of each result and of control.
    let mut read = read.into_inner();
    read.sort_unstable_by_key(|(_, address)| address.id());
    read.dedup();
    let reads_the_same = read.len() == loaded && state.memory.words.borrow().len() == loaded;
    results.sort_unstable();
    let says_all = left.is_none() && operation.results().eq(results);
    (state.is_clear && stores.is_empty() && reads_the_same && says_all).then_some(questions)
}

/// All operands that a form allows, up to renaming of registers: each way in which registers may be shared.
fn allowed_operands(operation: &Operation, form: &Form) -> Vec<Operands> {
    let mut partial: Vec<Vec<i32>> = vec![Vec::new()];
    let is_large = |kind: OperandKind| matches!(kind, OperandKind::Immediate { min, max } if !is_small(min, max));
    let several = operation.operands.iter().filter(|operand| is_large(operand.kind)).count() > 1;
    for operand in operation.operands {
        let with = |values: &Vec<i32>| match operand.kind {
            kind if several && is_large(kind) => FEW_IMMEDIATES.map(|value| [&values[..], &[value]].concat()).to_vec(),
            kind => extended(operation, values, kind),
        };
        partial = partial.iter().flat_map(with).collect();
    }
    partial.iter().filter_map(|values| Binding::of(values).complete(operation, form)).collect()
}

/// Whether all immediates of a range are tried.
fn is_small(min: i32, max: i32) -> bool {
    max.checked_sub(min).is_some_and(|span| span < MOST_IMMEDIATES)
}

fn extended(operation: &Operation, values: &[i32], kind: OperandKind) -> Vec<Vec<i32>> {
    let with = |value: i32| values.iter().copied().chain([value]).collect::<Vec<_>>();
    match kind {
        OperandKind::Immediate { min, max } => {
            let few = is_small(min, max);
            let end = if few { max } else { min.saturating_add(MOST_IMMEDIATES) };
            let last = (!few).then_some(max);
            (min..=end).chain(last).map(with).collect()
        }
        OperandKind::Comparison => {
            let codes = JumpOp::ALL.iter().map(|op| op.row()).filter(|row| row.negated.is_some());
            codes.map(|row| with(row.code.into())).collect()
        }
        _ => {
            let registers = operation.operands.iter().zip(values);
            let used = registers.filter(|(operand, _)| {
                !matches!(operand.kind, OperandKind::Immediate { .. } | OperandKind::Comparison)
            });
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

/// Memory as it is before the sequence: nothing is known of it. Each place is a symbol of its own, which assumes less
/// than is true of places that overlap.
struct Memory<'a> {
    arena: &'a Arena,
    /// What is read.
    words: RefCell<Vec<(Size, Term<'a>)>>,
}

impl<'a> Memory<'a> {
    /// The bytes at an address.
    fn word(&self, size: Size, address: Term<'a>) -> Term<'a> {
        let mut words = self.words.borrow_mut();
        let known = words.iter().position(|word| *word == (size, address));
        let number = known.unwrap_or(words.len());
        if known.is_none() {
            words.push((size, address));
        }
        let word = Symbol::Word { root: 0, offset: number as i64, log: 0 };
        self.arena.symbol(word, 64).truncate(size.bits())
    }
}

/// Registers as terms, and the stores.
struct State<'a> {
    memory: &'a Memory<'a>,
    registers: Vec<Term<'a>>,
    stores: Vec<Store<'a>>,
    /// Whether what happens to memory is what the accesses say, in any order: no branch skips one, no load comes after a
    /// store, and stores are disjoint.
    is_clear: bool,
}

/// A store.
#[derive(Clone, Copy)]
struct Store<'a> {
    size: Size,
    base: Term<'a>,
    offset: i16,
    value: Term<'a>,
}

impl<'a> Store<'a> {
    fn address(&self, arena: &'a Arena) -> Term<'a> {
        self.base.add(&arena.constant(64, i64::from(self.offset) as u64))
    }

    /// Whether it ends before another one begins, both counted from one address.
    fn is_below(&self, other: &Store<'_>) -> bool {
        self.base == other.base && i64::from(self.offset) + i64::from(self.size.bytes()) <= other.offset.into()
    }
}

impl<'a> State<'a> {
    /// Runs a proof sequence. Returns 1 where control leaves by a branch that leads out, and 0 where not.
    fn run(&mut self, code: &[(&Template, Insn)]) -> Term<'a> {
        let Some(((template, insn), rest)) = code.split_first() else { return self.memory.arena.constant(64, 0) };
        let (Template::Branch { to, .. }, Insn::Branch { op, width, dst, src, .. }) = (template, *insn) else {
            let Ok(_) = execute(insn, self);
            return self.run(rest);
        };
        let side = |term: Term<'a>| term.truncate(width.bits());
        let left = side(self.registers[dst.index()]);
        let right = side(match src {
            Source::Reg(reg) => self.registers[reg.index()],
            Source::Imm(imm) => self.memory.arena.constant(64, i64::from(imm) as u64),
        });
        let holds = op.holds(&left, &right);
        let accesses = |state: &Self| state.stores.len() + state.memory.words.borrow().len();
        let (taken, before) = (self.registers.clone(), accesses(self));
        let leaves = self.run(rest);
        self.is_clear &= accesses(self) == before;
        for (after, taken) in self.registers.iter_mut().zip(taken) {
            *after = Term::ite(&holds, &taken, after);
        }
        let leaves_here = self.memory.arena.constant(64, u64::from(*to == Exit::Out));
        Term::ite(&holds, &leaves_here, &leaves)
    }
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
        self.memory.arena.constant(64, value)
    }
    fn load_imm64(&mut self, _: Imm64) -> Result<Term<'a>, Infallible> {
        unreachable!("no template loads a 64-bit immediate")
    }
    fn load(&mut self, address: Address, size: Size, _: MemoryOrder) -> Result<Term<'a>, Infallible> {
        self.is_clear &= self.stores.is_empty();
        let base = self.registers[address.base.index()];
        let offset = self.memory.arena.constant(64, i64::from(address.offset) as u64);
        Ok(self.memory.word(size, base.add(&offset)))
    }
    fn store(&mut self, address: Address, size: Size, value: Term<'a>, _: MemoryOrder) -> Result<(), Infallible> {
        let store = Store { size, base: self.registers[address.base.index()], offset: address.offset, value };
        self.is_clear &= self.stores.iter().all(|other| store.is_below(other) || other.is_below(&store));
        self.stores.push(store);
        Ok(())
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
