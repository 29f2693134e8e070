//! A concrete input on which a rejected program really goes wrong, or does what is forbidden: how it is run, and shown.

use std::sync::Arc;

use kiln_inspect::Input;
use kiln_inspect::hex::hex;
use kiln_inspect::show::shown::Shown;
use kiln_program::btf::Btf;
use kiln_program::{Function, InsnId, Node, Object, Program};
use kiln_vm::Clock;
use kiln_vm::stand_in::{Step, Strictly, World};
use serde::Serialize;

use super::mistake::Shows;
use crate::kernel::takes_packet;
use crate::packets::Random;

/// Entries that maps are filled with.
const FILLED: u32 = 64;
/// Steps that a report shows.
pub const SHOWN_STEPS: usize = 16;
/// Instructions of a run, and of one that may be endless: the kernel explores a million.
pub const RUN_INSNS: u64 = 20_000;
pub const ENDLESS_INSNS: u64 = 1_000_000;

/// A run that goes wrong, or does what is forbidden.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct Witness {
    /// What goes wrong, in a sentence.
    pub what: Shown,
    /// The code of the rule that the run breaks, if it is forbidden and nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<&'static str>,
    /// The function.
    pub function: Shown,
    /// The slot of the instruction in it.
    pub slot: u32,
    /// The source line, `file:line`, where known: the line to mend is there or before it.
    pub place: Option<Shown>,
    /// The text of that line.
    pub line: Option<Shown>,
    /// The packet, in hexadecimal digits; empty for a hook without one.
    pub packet: String,
    /// The context, in hexadecimal digits, where it matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Which of the fixed sets of entries maps are filled with; 0: none, they hold what the object says.
    pub filling: u32,
    /// What decides the results of helpers that the VM lacks, and kernel memory.
    pub seed: u64,
    /// The number of instructions that ran.
    pub executed: usize,
    /// The last of them.
    pub steps: Vec<ShownStep>,
}

/// An instruction of a run.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct ShownStep {
    /// The function.
    pub function: Shown,
    /// The slot.
    pub slot: u32,
    /// The instruction.
    pub text: String,
    /// The source line, `file:line`, where known.
    pub place: Option<Shown>,
    /// The registers that it reads, with their values before it.
    pub reads: Vec<String>,
}

/// One input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stimulus {
    /// The packet; hooks without one ignore it.
    pub packet: Vec<u8>,
    /// The context, unless the packet says it all.
    pub context: Option<Vec<u8>>,
    /// See [`Witness::seed`].
    pub seed: u64,
    /// See [`Witness::filling`].
    pub filling: u32,
}

/// What a run shows, and where.
pub struct Violation {
    /// The instruction.
    pub insn: InsnId,
    /// What it shows.
    pub shows: Shows,
    /// What exactly, in a sentence.
    pub text: String,
}

/// A program, and a world in which it runs.
pub struct Stage<'s> {
    /// The program.
    pub program: &'s Program,
    /// Its object, with maps that have sizes.
    pub object: Object,
    /// What maps hold, see [`Stimulus::filling`].
    pub filling: u32,
    types: Option<Arc<Btf>>,
    world: World,
    budget: u64,
}

impl<'s> Stage<'s> {
    /// `budget`: instructions of a run at most.
    pub fn new(input: &Input, program: &'s Program, budget: u64) -> Option<Stage<'s>> {
        let object = kiln_vm::with_sized_maps(input.object.clone());
        let types = input.kernel_types.clone();
        let world = world(&object, types.clone(), budget)?;
        Some(Stage { program, object, filling: 0, types, world, budget })
    }

    /// Forgets what runs left in maps.
    pub fn anew(&mut self) -> Option<()> {
        self.world = world(&self.object, self.types.clone(), self.budget)?;
        self.filling = 0;
        Some(())
    }

    /// Runs the program on an input. The result has the last steps.
    pub fn run(&mut self, stimulus: &Stimulus, most_steps: usize) -> Option<Strictly> {
        if self.filling != stimulus.filling {
            if stimulus.filling == 0 {
                self.anew()?;
            } else {
                fill(&self.object, &mut self.world, stimulus.filling);
            }
            self.filling = stimulus.filling;
        }
        let mut runs = self.world.strict_runs(&self.program.name).ok()?;
        let input = kiln_vm::Input { packet: &stimulus.packet, context: stimulus.context.as_deref(), repeat: 1 };
        Some(runs.run_strictly(&input, stimulus.seed, most_steps))
    }

    /// Where an instruction is: its function, and its slot there.
    fn place(&self, id: InsnId) -> Option<(&Function, &Node, u32)> {
        let functions = self.object.reachable_functions(self.program.entry);
        let found = functions.into_iter().map(|function| self.object.function(function));
        found.into_iter().find_map(|function| {
            let position = function.position(id)?;
            let slot: u32 = function.nodes[..position].iter().map(|node| node.insn.slots()).sum();
            Some((function, &function.nodes[position], slot))
        })
    }

    fn line_of(&self, node: &Node) -> Option<(Shown, Shown)> {
        let line = self.object.line(node)?;
        Some((Shown::from(format!("{}:{}", line.file, line.line)), Shown::from(line.text.trim())))
    }

    fn step(&self, step: &Step) -> Option<ShownStep> {
        let (function, node, slot) = self.place(step.insn)?;
        let value = |reg: kiln_isa::Reg| format!("{reg} = {:#x}", step.registers[reg.index()]);
        Some(ShownStep {
            function: function.name.as_str().into(),
            slot,
            text: node.insn.to_string(),
            place: self.line_of(node).map(|(place, _)| place),
            reads: node.insn.read().iter().map(value).collect(),
        })
    }

    /// The report of a run that ends with the last of these steps.
    pub fn shown(&self, own: &Stimulus, violation: &Violation, steps: &[Step]) -> Witness {
        let (function, slot, line) = match self.place(violation.insn) {
            Some((function, node, slot)) => (function.name.as_str(), slot, self.line_of(node)),
            None => ("", 0, None),
        };
        let packet = self.program.program_type.is_some_and(takes_packet);
        let last = &steps[steps.len().saturating_sub(SHOWN_STEPS)..];
        Witness {
            what: violation.text.as_str().into(),
            rule: violation.shows.rule().map(kiln_verifier::Reason::code),
            function: function.into(),
            slot,
            place: line.as_ref().map(|(place, _)| place.clone()),
            line: line.map(|(_, text)| text),
            packet: if packet { hex(&own.packet) } else { String::new() },
            context: own.context.as_deref().map(hex),
            filling: own.filling,
            seed: own.seed,
            executed: steps.last().map_or(0, |step| step.number as usize),
            steps: last.iter().filter_map(|step| self.step(step)).collect(),
        }
    }
}

/// Runs a program of an object on an input, and returns the last of the first `executed` steps.
pub fn replay(input: &Input, program: &str, stimulus: &Stimulus, executed: usize) -> Option<Vec<ShownStep>> {
    let endless = executed as u64 >= RUN_INSNS;
    let (budget, kept) = if endless { (ENDLESS_INSNS, SHOWN_STEPS) } else { (RUN_INSNS, RUN_INSNS as usize) };
    let mut stage = Stage::new(input, input.object.program(program)?, budget)?;
    let mut steps = stage.run(stimulus, kept)?.steps;
    steps.truncate(executed);
    let last = &steps[steps.len().saturating_sub(SHOWN_STEPS)..];
    Some(last.iter().filter_map(|step| stage.step(step)).collect())
}

/// Maps as the object has them, and stand-ins for what the VM lacks.
fn world(object: &Object, types: Option<Arc<Btf>>, budget: u64) -> Option<World> {
    let surroundings = kiln_vm::Surroundings { clock: Clock::Fixed(1 << 40), ..Default::default() };
    World::new(object, kiln_vm::Options { budget, surroundings, ..Default::default() }, types).ok()
}

/// Fills maps of plain data: keys are small numbers, values small and large ones.
fn fill(object: &Object, world: &mut World, filling: u32) {
    let mut random = Random::new(0x6669_6c6c + u64::from(filling));
    for map in &object.maps {
        if !map.takes_any_entry() || map.value_size > 1 << 16 {
            continue;
        }
        for number in 0..FILLED.min(map.max_entries) {
            let mut key = vec![0; map.key_size as usize];
            let length = key.len().min(4);
            key[..length].copy_from_slice(&number.to_le_bytes()[..length]);
            let word = |random: &mut Random| match random.below(5) {
                0 => random.below(4),
                1 => random.below(256),
                2 => random.next(),
                // The upper half is small, too: a number that may be an address in the kernel is taken for one.
                3 => random.below(16) | random.below(1 << 12) << 32,
                _ => u64::MAX - random.below(64),
            };
            let words = (map.value_size as usize).div_ceil(8);
            let mut value: Vec<u8> = (0..words).flat_map(|_| word(&mut random).to_le_bytes()).collect();
            value.truncate(map.value_size as usize);
            // Arrays have fewer entries, and hash maps get full.
            let _ = world.update(&map.name, &key, &value);
        }
    }
}
