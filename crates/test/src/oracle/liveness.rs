//! Values that are dead by the facts do not affect a run.
//!
//! After each instruction every register and stack byte that is not live is overwritten with noise. The result of the
//! run must not change.

use kiln_driver::packets::Random;
use kiln_isa::{Insn, Reg};
use kiln_program::{Interpreter, Node, Object, Outcome, Program, Trap};
use kiln_verifier::{Facts, StackSet};

use super::{Canary, Finding};
use crate::bare::{Bare, CONTEXT, STACK_BYTES, Watched, Witness};
use crate::engine::BUDGET;

/// Whether a run on this packet has the same result with all dead values overwritten. The canary: R7 always counts as
/// dead.
pub fn dead_is_dead(object: &Object, program: &Program, facts: &Facts, packet: &[u8], canary: Canary) -> Finding {
    let (plain, plain_packet) = run(object, program, packet, None);
    let spoiler = Spoiler::new(facts, canary);
    let (spoiled, spoiled_packet) = run(object, program, packet, Some(spoiler));
    let value = |outcome: Result<Outcome, Trap>| outcome.map(|outcome| outcome.value as u32);
    match (value(plain), value(spoiled)) {
        (Err(trap), _) => Finding::NotApplicable(trap.to_string()),
        (plain, spoiled) if plain == spoiled && plain_packet == spoiled_packet => Finding::Held,
        (plain, spoiled) => Finding::Broken(format!(
            "ends with {plain:x?}, with dead values spoiled with {spoiled:x?}\n{}",
            kiln_program::text::listing(object)
        )),
    }
}

fn run(
    object: &Object,
    program: &Program,
    packet: &[u8],
    spoiler: Option<Spoiler<'_>>,
) -> (Result<Outcome, Trap>, Vec<u8>) {
    let mut bare = Bare::new(object, program.program_type, packet);
    let interpreter = Interpreter::new(object);
    match spoiler {
        None => (interpreter.run(program.entry, CONTEXT, &mut bare, BUDGET), bare.packet),
        Some(witness) => {
            let mut watched = Watched { bare, witness };
            (interpreter.run(program.entry, CONTEXT, &mut watched, BUDGET), watched.bare.packet)
        }
    }
}

/// Overwrites dead values after each instruction.
pub struct Spoiler<'a> {
    facts: &'a Facts,
    canary: Canary,
    random: Random,
    /// The instruction before, and its frame.
    previous: Option<(Node, usize)>,
}

impl<'a> Spoiler<'a> {
    /// A spoiler before a run.
    pub fn new(facts: &'a Facts, canary: Canary) -> Spoiler<'a> {
        Spoiler { facts, canary, random: Random::new(0x5eed), previous: None }
    }
}

impl Witness for Spoiler<'_> {
    fn before(&mut self, bare: &mut Bare, node: &Node, depth: usize, registers: &mut [u64; Reg::COUNT]) {
        let previous = self.previous.replace((node.clone(), depth));
        let Some((previous, frame)) = previous else { return };
        // Calls and returns change frames, so liveness across them is known at their other end.
        if frame != depth || matches!(previous.insn, Insn::Call(_) | Insn::Exit) {
            return;
        }
        let Some(facts) = self.facts.at(previous.id) else { return };
        for reg in Reg::all().take(10) {
            let live = facts.live_after.contains(reg) && !(self.canary.is_present() && reg == Reg::R7);
            if !live {
                registers[reg.index()] = self.random.next();
            }
        }
        self.spoil_stack(bare, depth, &facts.stack_live_after);
    }
}

impl Spoiler<'_> {
    fn spoil_stack(&mut self, bare: &mut Bare, depth: usize, live: &StackSet) {
        for (index, byte) in bare.stack_mut(depth).iter_mut().enumerate() {
            if !live.contains(index as i32 - STACK_BYTES as i32) {
                *byte = self.random.next() as u8;
            }
        }
    }
}
