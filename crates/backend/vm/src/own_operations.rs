//! Operations that are not Kiln's own are tried before the VM uses them.
//!
//! Nobody has proved such a row's native code. So it is compared with the row's proof sequences, on operands at the limits
//! and at random. A trial is a program with one proof sequence:
//!
//! ```text
//!   registers and 256 bytes of stack from the packet ; the proof sequence ; registers and stack into the packet
//! ```
//!
//! The program has a mark, so the JIT compiles the proof sequence to native code, and the interpreter runs it as it is. Each
//! implementation is tried with each proof sequence, with several registers and numbers as operands. Native code for the
//! other machine, or for features that this processor lacks, is only checked against the table of machine instructions
//! ([`kiln_jit::check_operation`]).

use std::sync::{Mutex, PoisonError};

use kiln_isa::operation::{
    Binding, Condition, Exit, Form, Imm, Native, OperandKind, Operands, Operation, Registry, Template, table,
};
use kiln_isa::{Insn, JumpOp, Reg, RegSet};
use kiln_program::{InsnId, Mark, Object, Reference};

use crate::interface::{Engine, Error, Input, Lacking, Options};
use crate::machine_code::HERE;
use crate::vm::Vm;

/// Programs for each proof sequence and each implementation.
const TRIALS: usize = 12;
/// Inputs of each program.
const INPUTS: usize = 24;
/// Attempts to find operands that satisfy the conditions.
const ATTEMPTS: usize = 400;
/// The middle of the stack bytes that an operation with memory accesses, from the frame pointer.
const MIDDLE: i32 = -256;
/// Where registers and memory are in the packet.
const MEMORY_AT: usize = 128;
const MEMORY_WORDS: usize = 32;
const PACKET: usize = 512;

/// What has been tried in this process.
static TRIED: Mutex<Vec<(Operation, Result<(), String>)>> = Mutex::new(Vec::new());

/// Tries the operations that are not Kiln's own, unless they have been tried already.
pub(crate) fn check(registry: &Registry) -> Result<(), Error> {
    if registry.is(&Registry::BUILTIN) {
        return Ok(());
    }
    let is_own = |row: &Operation| table::OPERATIONS.iter().any(|own| std::ptr::eq(*own, row) || **own == *row);
    for row in registry.operations().filter(|row| !is_own(row)) {
        let known = |tried: &[(Operation, Result<(), String>)]| {
            tried.iter().find(|(known, _)| known == row).map(|(_, result)| result.clone())
        };
        let result = known(&TRIED.lock().unwrap_or_else(PoisonError::into_inner));
        let result = result.unwrap_or_else(|| {
            let result = try_operation(row);
            TRIED.lock().unwrap_or_else(PoisonError::into_inner).push((*row, result.clone()));
            result
        });
        result.map_err(|what| Error::NativeOperation { name: row.name, what })?;
    }
    Ok(())
}

fn try_operation(row: &'static Operation) -> Result<(), String> {
    kiln_jit::check_operation(row)?;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for form in row.forms {
        if binding(row, form, &[], &mut random, 0).is_none() {
            return Err(format!("no operands satisfy the conditions of proof sequence {}", form.name));
        }
    }
    for native in row.native.iter().filter(|native| HERE == Some(native.arch)) {
        let one: &'static [Native] = Box::leak(Box::new([*native]));
        let only: &'static Operation = Box::leak(Box::new(Operation { native: one, ..*row }));
        let registry = Registry::new(Box::leak(Box::new([only])));
        for (number, form) in only.forms.iter().enumerate() {
            for trial in 0..TRIALS {
                let Some(operands) = binding(only, form, native.when, &mut random, trial) else { continue };
                Trial { row: only, form, number, native, operands }.run(registry, &mut random)?;
            }
        }
    }
    Ok(())
}

/// Numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// A value of a register: at a limit, or any.
    fn value(&mut self, numbers: &[i32]) -> u64 {
        const LIMITS: [u64; 20] = [
            0,
            1,
            2,
            63,
            64,
            0x7f,
            0x80,
            0xff,
            0x8000,
            0xffff,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            1 << 32,
            i64::MAX as u64,
            i64::MIN as u64,
            u64::MAX,
            u64::MAX - 1,
            0xffff_ffff_0000_0000,
            0x0123_4567_89ab_cdef,
        ];
        match self.below(4) {
            0 => LIMITS[self.below(LIMITS.len() as u64) as usize],
            1 if !numbers.is_empty() => numbers[self.below(numbers.len() as u64) as usize] as u64,
            2 => self.next() >> self.below(64),
            _ => self.next(),
        }
    }
}

/// The positions of base registers and of offsets in a form.
fn places(form: &Form) -> (Vec<u8>, Vec<u8>) {
    let mut bases = Vec::new();
    let mut offsets = Vec::new();
    for template in form.code {
        if let Template::Load { base, offset, .. } | Template::Store { base, offset, .. } = *template {
            bases.push(base);
            if let Imm::Operand(index) | Imm::Sum(_, index) | Imm::Complement(_, index) = offset {
                offsets.push(index);
            }
        }
    }
    (bases, offsets)
}

/// Operands that a form and an implementation allow.
fn binding(row: &Operation, form: &Form, when: &[Condition], random: &mut Random, trial: usize) -> Option<Operands> {
    let (bases, offsets) = places(form);
    let conditions: Vec<Condition> = form.when.iter().chain(when).copied().collect();
    (0..ATTEMPTS).find_map(|_| {
        let mut values: Vec<i32> =
            row.operands.iter().map(|operand| any_operand(operand.kind, random, trial)).collect();
        for condition in conditions.iter().cycle().take(conditions.len() * 4) {
            satisfy(&mut values, *condition, random)?;
        }
        let is_frame = bases.iter().any(|base| values.get(usize::from(*base)) == Some(&10));
        for offset in &offsets {
            let near = 8 * (random.below(10) as i32) - 40;
            *values.get_mut(usize::from(*offset))? = if is_frame { MIDDLE + near } else { near };
        }
        let operands = Binding::of(&values).complete(row, form)?;
        when.iter().all(|condition| operands.satisfies(*condition)).then_some(operands)
    })
}

fn any_operand(kind: OperandKind, random: &mut Random, trial: usize) -> i32 {
    match kind {
        OperandKind::Result | OperandKind::Source | OperandKind::Temporary => random.below(10) as i32,
        OperandKind::Immediate { min, .. } if trial == 0 => min,
        OperandKind::Immediate { max, .. } if trial == 1 => max,
        OperandKind::Immediate { min, max } => {
            let range = (i64::from(max) - i64::from(min) + 1).max(1) as u64;
            let range = if random.below(2) == 0 { range } else { range.min(64) };
            let offset = random.below(range);
            (i64::from(min) + offset as i64) as i32
        }
        OperandKind::Comparison => {
            let named: Vec<i32> = JumpOp::ALL
                .iter()
                .map(|op| op.row())
                .filter(|row| row.negated.is_some())
                .map(|row| row.code.into())
                .collect();
            named[trial % named.len()]
        }
    }
}

/// Changes operands so that a condition holds.
fn satisfy(values: &mut [i32], condition: Condition, random: &mut Random) -> Option<()> {
    match condition {
        Condition::Same(left, right) => {
            let value = *values.get(usize::from(left))?;
            *values.get_mut(usize::from(right))? = value;
        }
        Condition::Differ(left, right) if values.get(usize::from(left))? == values.get(usize::from(right))? => {
            *values.get_mut(usize::from(right))? = random.below(10) as i32;
        }
        Condition::Is(index, reg) => *values.get_mut(usize::from(index))? = reg.into(),
        Condition::IsNot(index, reg) if *values.get(usize::from(index))? == i32::from(reg) => {
            *values.get_mut(usize::from(index))? = random.below(10) as i32;
        }
        Condition::Within(distance, of) => {
            let first = *values.get(usize::from(*of.first()?))?;
            for index in of.get(1..)? {
                let step = random.below(distance.unsigned_abs().into()) as i32;
                *values.get_mut(usize::from(*index))? = first.saturating_add(step);
            }
        }
        Condition::Differ(..) | Condition::IsNot(..) => {}
    }
    Some(())
}

/// One proof sequence with its operands, and one implementation.
struct Trial {
    row: &'static Operation,
    form: &'static Form,
    number: usize,
    native: &'static Native,
    operands: Operands,
}

impl Trial {
    /// Runs it on several inputs, with and without fusions.
    fn run(&self, registry: Registry, random: &mut Random) -> Result<(), String> {
        let object = self.object(random)?;
        kiln_program::operation::check(&object, &registry).map_err(|error| self.cannot(&error.to_string()))?;
        let cannot = |error: Error| self.cannot(&error.to_string());
        let vm = |fusions| {
            let options = Options { operations: registry, fusions, ..Options::default() };
            let mut vm = Vm::with_any_operations(object.clone(), options, Lacking::Refused).map_err(cannot)?;
            vm.load("trial").map_err(cannot)?;
            vm.compiled("trial").map_err(|what| self.cannot(&what))?;
            Ok::<_, String>(vm)
        };
        let vms = [vm(false)?, vm(true)?];
        let numbers: Vec<i32> = self.operands.values().to_vec();
        for _ in 0..INPUTS {
            let packet: Vec<u8> = (0..PACKET / 8).flat_map(|_| random.value(&numbers).to_le_bytes()).collect();
            let run = |vm: &Vm, engine| vm.run("trial", &Input::packet(&packet), engine).map_err(cannot);
            let expected = run(&vms[0], Engine::Interpreter)?;
            for vm in &vms {
                let found = run(vm, Engine::Jit)?;
                if (expected.value, &expected.packet) != (found.value, &found.packet) {
                    return Err(self.differs(&expected.packet, &found.packet));
                }
            }
        }
        Ok(())
    }

    fn cannot(&self, why: &str) -> String {
        format!("proof sequence {} with {} cannot be tried: {why}", self.form.name, self.operands_text())
    }

    fn differs(&self, expected: &[u8], found: &[u8]) -> String {
        let at = expected.iter().zip(found).position(|(left, right)| left != right).unwrap_or(0) / 8;
        let word = |bytes: &[u8]| {
            bytes.get(at * 8..at * 8 + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
        };
        let place = match at {
            0..=9 => format!("R{at}"),
            10 => "whether it leaves".to_owned(),
            _ => format!("memory at {:+}", (at * 8) as i32 - MEMORY_AT as i32 - MEMORY_WORDS as i32 * 4),
        };
        format!(
            "native code for {} differs from proof sequence {} with {}: {place} is {:#x}, not {:#x}",
            self.native.arch.name(),
            self.form.name,
            self.operands_text(),
            word(found),
            word(expected)
        )
    }

    fn operands_text(&self) -> String {
        let named = self.row.operands.iter().zip(self.operands.values());
        named.map(|(operand, value)| format!("{}={value}", operand.name)).collect::<Vec<_>>().join(" ")
    }

    /// The program, with a mark.
    fn object(&self, random: &mut Random) -> Result<Object, String> {
        let bases: RegSet = places(self.form).0.iter().map(|base| self.operands.reg(*base)).collect();
        let (before, after) = (self.before(bases), self.after(bases));
        let text = format!("; program xdp name trial\n{}\n{}\n", before.join("\n"), after.join("\n"));
        let mut object = kiln_program::text::parse(&text).map_err(|error| self.cannot(&error.to_string()))?;
        let at = before.len();
        let target = |object: &Object, at: usize| object.functions[0].nodes[at].id;
        // After the sequence: `end`, which is two instructions if there is `out`.
        let (end, out) = (target(&object, at), target(&object, at + if self.form.leaves() { 2 } else { 0 }));
        let mut members: Vec<InsnId> = Vec::new();
        let mut nodes = Vec::new();
        for template in self.form.code {
            let chosen = template.choice(random.below(template.choices() as u64) as usize);
            let insn = self.operands.instance(&chosen).ok_or_else(|| self.cannot("a number does not fit"))?;
            let reference = match (insn, *template) {
                (Insn::Branch { .. }, Template::Branch { to: Exit::Out, .. }) => Reference::Branch(out),
                (Insn::Branch { .. }, _) => Reference::Branch(end),
                _ => Reference::None,
            };
            let node = object.new_node(insn, reference);
            members.push(node.id);
            nodes.push(node);
        }
        object.functions[0].nodes.splice(at..at, nodes);
        let form = u8::try_from(self.number).map_err(|error| self.cannot(&error.to_string()))?;
        let operands = self.operands.values()[..self.row.operands.len()].to_vec();
        object.operations = vec![Mark { operation: self.row.name.to_owned(), form, operands, members }];
        Ok(object)
    }

    /// Registers and memory from the packet. A register that holds an address has one of the stack.
    fn before(&self, bases: RegSet) -> Vec<String> {
        let mut lines: Vec<String> = [
            "r2 = *(u32 *)(r1 + 4)".to_owned(),
            "r1 = *(u32 *)(r1 + 0)".to_owned(),
            "r3 = r1".to_owned(),
            format!("r3 += {PACKET}"),
            "if r3 > r2 goto fail".to_owned(),
            "*(u64 *)(r10 - 8) = r1".to_owned(),
        ]
        .into();
        for word in 0..MEMORY_WORDS {
            lines.push(format!("r3 = *(u64 *)(r1 + {})", MEMORY_AT + word * 8));
            lines.push(format!("*(u64 *)(r10 - {}) = r3", memory_below_frame(word)));
        }
        for reg in [0, 2, 3, 4, 5, 6, 7, 8, 9, 1] {
            if bases.contains(Reg::new(reg).unwrap_or(Reg::R0)) {
                lines.push(format!("r{reg} = r10"));
                lines.push(format!("r{reg} += {MIDDLE}"));
            } else {
                lines.push(format!("r{reg} = *(u64 *)(r1 + {})", reg * 8));
            }
        }
        lines
    }

    /// Registers and memory into the packet, except temporaries, which are dead, and addresses.
    fn after(&self, bases: RegSet) -> Vec<String> {
        let mut lines = Vec::new();
        if self.form.leaves() {
            lines.push("*(u64 *)(r10 - 16) = 0".to_owned());
            lines.push("goto both".to_owned());
            lines.push("*(u64 *)(r10 - 16) = 1".to_owned());
            lines.push("both:".to_owned());
        }
        let results: RegSet = self.row.results().map(|index| self.operands.reg(index)).collect();
        let dead = self.operands.temporaries(self.row, self.form);
        let is_kept = |reg: u8| {
            let reg = Reg::new(reg).unwrap_or(Reg::R0);
            !dead.contains(reg) && (!bases.contains(reg) || results.contains(reg))
        };
        let kept: Vec<u8> = (0..10).filter(|reg| is_kept(*reg)).collect();
        lines.extend(kept.iter().map(|reg| format!("*(u64 *)(r10 - {}) = r{reg}", 96 - u32::from(*reg) * 8)));
        lines.push("r1 = *(u64 *)(r10 - 8)".to_owned());
        let mut copy = |from: usize, to: usize| {
            lines.push(format!("r2 = *(u64 *)(r10 - {from})"));
            lines.push(format!("*(u64 *)(r1 + {to}) = r2"));
        };
        kept.iter().for_each(|reg| copy(96 - usize::from(*reg) * 8, usize::from(*reg) * 8));
        (0..MEMORY_WORDS).for_each(|word| copy(memory_below_frame(word), MEMORY_AT + word * 8));
        if self.form.leaves() {
            copy(16, 80);
        }
        lines.extend(["r0 = 2", "exit", "fail:", "r0 = 1", "exit"].map(str::to_owned));
        lines
    }
}

/// How far below the frame pointer a word of the memory is: its middle is at [`MIDDLE`].
const fn memory_below_frame(word: usize) -> usize {
    MIDDLE.unsigned_abs() as usize + MEMORY_WORDS * 4 - word * 8
}
