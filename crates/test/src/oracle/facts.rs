//! Every concrete state is among those that the verifier's facts allow.
//!
//! The reference interpreter runs in the bare environment, where every address says what it points into; before each
//! instruction its registers and stack slots are compared with the facts recorded there.

use kiln_isa::Reg;
use kiln_program::{Interpreter, Node, Object, Program, Trap};
use kiln_verifier::{Facts, Pointer, Region, Value};

use super::{Canary, Finding};
use crate::bare::{Bare, CONTEXT, MAP, STACK_BYTES, Watched, Witness};
use crate::engine::BUDGET;

/// Whether the facts hold in every state of a run on this packet. The canary: the largest signed value of a register is
/// one too small.
pub fn hold(object: &Object, program: &Program, facts: &Facts, packet: &[u8], canary: Canary) -> Finding {
    let bare = Bare::new(object, program.program_type, packet);
    let mut watched = Watched { bare, witness: Checker::new(facts, canary) };
    let outcome = Interpreter::new(object).run(program.entry, CONTEXT, &mut watched, BUDGET);
    if let Some(violation) = watched.witness.violation {
        return Finding::Broken(format!("{violation}\n{}", kiln_program::text::listing(object)));
    }
    match outcome {
        Ok(_) => Finding::Held,
        // The part that ran was checked.
        Err(Trap::Fault { fault: kiln_program::interpret::Fault::Unsupported(what), .. }) => {
            Finding::NotApplicable(what)
        }
        // The loop budget of `may_goto` is unlimited in the bare environment.
        Err(Trap::Budget { .. }) => Finding::NotApplicable("a long run".to_owned()),
        Err(trap) => Finding::Broken(format!("an accepted program traps: {trap}")),
    }
}

/// Compares states with facts, instruction by instruction.
pub struct Checker<'a> {
    facts: &'a Facts,
    canary: Canary,
    /// The first state that violates the facts.
    pub violation: Option<String>,
}

impl<'a> Checker<'a> {
    /// A checker before a run.
    pub fn new(facts: &'a Facts, canary: Canary) -> Checker<'a> {
        Checker { facts, canary, violation: None }
    }
}

impl Witness for Checker<'_> {
    fn before(&mut self, bare: &mut Bare, node: &Node, depth: usize, registers: &mut [u64; Reg::COUNT]) {
        if self.violation.is_some() {
            return;
        }
        let Some(facts) = self.facts.at(node.id) else {
            self.violation = Some(format!("instruction {} runs, though no path reaches it: {}", node.id.0, node.insn));
            return;
        };
        let at = || format!("before instruction {} (`{}`)", node.id.0, node.insn);
        for (reg, value) in Reg::all().zip(*registers) {
            if !self.allows(bare, depth, &facts.registers[reg.index()], value) {
                let allowed = &facts.registers[reg.index()];
                self.violation = Some(format!("{}: {reg} is {value:#x}, facts: {allowed:?}", at()));
                return;
            }
        }
        for (offset, allowed) in &facts.stack {
            let start = (STACK_BYTES as i32 + i32::from(*offset)) as usize;
            let Some(bytes) = bare.stack(depth).get(start..start + 8) else { continue };
            let value = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
            if !self.allows(bare, depth, allowed, value) {
                self.violation = Some(format!("{}: slot {offset} is {value:#x}, facts: {allowed:?}", at()));
                return;
            }
        }
        if u64::from(facts.packet_bytes) > bare.packet_end() - bare.packet_start() {
            self.violation = Some(format!("{}: facts promise {} packet bytes", at(), facts.packet_bytes));
        }
    }
}

impl Checker<'_> {
    fn allows(&self, bare: &Bare, depth: usize, value: &Value, concrete: u64) -> bool {
        match value {
            Value::Uninit | Value::Unknown => true,
            Value::Scalar(scalar) => {
                scalar.contains(concrete) && !(self.canary.is_present() && concrete as i64 == scalar.smax)
            }
            Value::Pointer(pointer) => pointer_allows(bare, depth, pointer, concrete),
        }
    }
}

fn pointer_allows(bare: &Bare, depth: usize, pointer: &Pointer, concrete: u64) -> bool {
    if pointer.nullable && concrete == 0 {
        return true;
    }
    let base = match &pointer.region {
        Region::Context => CONTEXT,
        Region::Stack { up } => match depth.checked_sub(*up as usize) {
            Some(depth) => Bare::frame(depth),
            None => return false,
        },
        Region::Packet => bare.packet_start(),
        Region::PacketEnd => bare.packet_end(),
        Region::Map(map) => MAP + u64::from(map.0),
        Region::MapValue(map) => {
            // Facts do not tell which value of an array it is: the offset must fit one of them.
            return bare
                .value_start(*map, concrete.wrapping_sub(pointer.offset.umin))
                .is_some_and(|start| pointer.offset.contains(concrete.wrapping_sub(start)))
                || pointer.offset.as_constant().is_none();
        }
        Region::PacketMeta | Region::Other(_) => return true,
    };
    pointer.offset.contains(concrete.wrapping_sub(base))
}
