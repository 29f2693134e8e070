//! An environment whose helpers return seeded random results: the facts must hold for all of them.
//!
//! The bare environment has neither helpers nor hash maps, so most programs end early in it. Here each call returns a
//! random result that the prototype allows:
//!
//! ```text
//!   r0 = map_lookup_elem(r1, r2)     null, or a value with anything in it
//!   r0 = skb_load_bytes(r1..r4)      any number, and anything in the r4 bytes at r3
//! ```
//!
//! The seed decides all results, so a run can be repeated.

use kiln_driver::packets::Random;
use kiln_isa::{Reg, Size};
use kiln_platform::{ArgKind, Helper, MapType, ProgramType, Prototype, ReturnKind};
use kiln_program::interpret::{Fault, HelperResult};
use kiln_program::{Environment, ExternId, Interpreter, Node, Object, Program, Trap};
use kiln_verifier::Facts;

use crate::bare::{Bare, CONTEXT, MAP, MAP_STRIDE, MAP_VALUES, Witness};
use crate::oracle::Canary;
use crate::oracle::facts::Checker;
use crate::oracle::liveness::Spoiler;
use crate::stack_objects;

/// Where ring buffer records are.
const RECORDS: u64 = 0x7000_0000;
/// Maximum number of instructions in one run. Longer runs are cut off; that is not an error.
const BUDGET: u64 = 50_000;
/// Maximum number of bytes that a helper fills.
const MOST_BYTES: u64 = 1 << 16;

/// An environment whose helpers return seeded random results.
pub struct Havoc<'o, W> {
    bare: Bare,
    object: &'o Object,
    program_type: ProgramType,
    random: Random,
    /// One value of each map that the bare environment does not have.
    values: Vec<Vec<u8>>,
    record: Vec<u8>,
    witness: W,
    states: u64,
}

/// Whether maps of this type are what the bare environment has.
pub fn is_array(map_type: MapType) -> bool {
    matches!(map_type, MapType::Array | MapType::PercpuArray)
}

impl<'o, W: Witness> Havoc<'o, W> {
    /// The environment of one run on a packet; the seed decides its results.
    pub fn new(object: &'o Object, program_type: ProgramType, packet: &[u8], seed: u64, witness: W) -> Self {
        let bare = Bare::new(object, Some(program_type), packet);
        let size = |map: &kiln_program::Map| if is_array(map.map_type) { 0 } else { map.value_size as usize };
        let mut random = Random::new(seed);
        let values = object.maps.iter().map(|map| noise(&mut random, size(map).min(1 << 20))).collect();
        Havoc { bare, object, program_type, random, values, record: Vec::new(), witness, states: 0 }
    }

    /// The bytes of memory that only this environment has.
    fn own(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
        if let Some(at) = address.checked_sub(RECORDS).filter(|at| *at < MAP - RECORDS) {
            return self.record.get_mut(at as usize..)?.get_mut(..bytes);
        }
        let map = address.checked_sub(MAP_VALUES)? / MAP_STRIDE;
        let at = (address - MAP_VALUES) % MAP_STRIDE;
        self.values.get_mut(map as usize)?.get_mut(at as usize..)?.get_mut(..bytes)
    }

    fn fill(&mut self, address: u64, bytes: u64) -> Result<(), Fault> {
        for at in 0..bytes.min(MOST_BYTES) {
            let value = self.random.next();
            self.store(address + at, Size::B1, value & 0xff)?;
        }
        Ok(())
    }

    /// Anything in the memory that the helper may write.
    fn write_arguments(&mut self, helper: &Helper, prototype: &Prototype, arguments: [u64; 5]) -> Result<(), Fault> {
        let map = (arguments[0].wrapping_sub(MAP)) as usize;
        let value_size = self.object.maps.get(map).map_or(0, |map| map.value_size);
        for (index, kind) in prototype.args.iter().enumerate() {
            let bytes = match *kind {
                ArgKind::Memory(memory) if memory.writes => arguments.get(index + 1).copied().unwrap_or(0),
                ArgKind::FixedMemory { size, memory, .. } if memory.writes => size.into(),
                ArgKind::UninitMapValue => value_size.into(),
                ArgKind::Callback | ArgKind::Dynptr(_) | ArgKind::KptrDest | ArgKind::Timer => {
                    return Err(Fault::Unsupported("callbacks, dynptrs, kptrs".to_owned()));
                }
                _ => 0,
            };
            // Helpers that fail, or have less to give, may leave what was there; the kernel's documentation names those
            // that then write zeros.
            const ALWAYS: [&str; 4] = ["skb_load_bytes", "skb_load_bytes_relative", "probe_read", "probe_read_kernel"];
            let bytes = if ALWAYS.contains(&helper.name) { bytes } else { self.random.below(bytes + 1) };
            if arguments[index] != 0 {
                self.fill(arguments[index], bytes)?;
            }
        }
        Ok(())
    }

    fn number(&mut self, helper: &Helper) -> u64 {
        match (helper.name, self.random.below(4)) {
            ("get_smp_processor_id", lot) => lot,
            (name, _) if name.starts_with("probe_read") || name.contains("get_stack") || name == "get_task_stack" => 0,
            (_, 0) => 0,
            (_, 1) => -(self.random.below(200) as i64) as u64,
            (_, 2) => self.random.below(0x1_0000),
            _ => self.random.next(),
        }
    }

    fn result(&mut self, helper: &Helper, returns: ReturnKind, arguments: [u64; 5]) -> Result<u64, Fault> {
        Ok(match returns {
            ReturnKind::Integer | ReturnKind::Void => self.number(helper),
            ReturnKind::MapValueOrNull if self.random.below(4) > 0 => {
                let map = arguments[0].wrapping_sub(MAP);
                let known = self.values.get(map as usize).is_some_and(|value| !value.is_empty());
                let plain = self.object.maps.get(map as usize).is_some_and(|map| {
                    let lookup = map.map_type.rules().lookup;
                    matches!(lookup, kiln_platform::Lookup::Value | kiln_platform::Lookup::ReadOnlyValue)
                });
                if known && plain { MAP_VALUES + MAP_STRIDE * map } else { 0 }
            }
            ReturnKind::RingBufferMemoryOrNull if self.random.below(4) > 0 => {
                self.record = noise(&mut self.random, arguments[1].min(MOST_BYTES) as usize);
                RECORDS
            }
            ReturnKind::MapValueOrNull
            | ReturnKind::RingBufferMemoryOrNull
            | ReturnKind::SocketOrNull
            | ReturnKind::TcpSockOrNull
            | ReturnKind::SockCommonOrNull => 0,
            _ => return Err(Fault::Unsupported("kernel objects".to_owned())),
        })
    }
}

/// This many random bytes.
pub fn noise(random: &mut Random, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|_| random.next() as u8).collect()
}

impl<W: Witness> Environment for Havoc<'_, W> {
    fn load(&mut self, address: u64, size: Size) -> Result<u64, Fault> {
        match self.own(address, size.bytes() as usize) {
            Some(from) => Ok(from.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))),
            None if (MAP..MAP + 0x1_0000).contains(&address) => {
                Err(Fault::Unsupported("the kernel's own structures".to_owned()))
            }
            None => self.bare.load(address, size),
        }
    }

    fn store(&mut self, address: u64, size: Size, value: u64) -> Result<(), Fault> {
        match self.own(address, size.bytes() as usize) {
            Some(to) => {
                let bytes = to.len();
                to.copy_from_slice(&value.to_le_bytes()[..bytes]);
                Ok(())
            }
            None => self.bare.store(address, size, value),
        }
    }

    fn call_helper(&mut self, id: u32, arguments: [u64; 5]) -> Result<HelperResult, Fault> {
        let map = arguments[0].wrapping_sub(MAP) as usize;
        let helper = Helper::by_id(id).ok_or_else(|| Fault::Unsupported(format!("helper {id}")))?;
        let in_array = self.object.maps.get(map).is_some_and(|map| is_array(map.map_type));
        if helper.name == "map_lookup_elem" && in_array {
            return self.bare.call_helper(id, arguments);
        }
        if let Some(result) = stack_objects::call_helper(self, helper.name, arguments) {
            return result.map(HelperResult::Value);
        }
        let prototype = helper.prototype_for(self.program_type);
        self.write_arguments(helper, prototype, arguments)?;
        self.result(helper, prototype.returns, arguments).map(HelperResult::Value)
    }

    fn call_kfunc(&mut self, function: ExternId, arguments: [u64; 5]) -> Result<u64, Fault> {
        let name = &self.object.externs[function.index()].name;
        stack_objects::call_kfunc(self, name, arguments).unwrap_or_else(|| self.bare.call_kfunc(function, arguments))
    }

    crate::as_in_bare!();

    fn before(&mut self, node: &Node, depth: usize, registers: &mut [u64; Reg::COUNT]) {
        self.states += 1;
        self.witness.before(&mut self.bare, node, depth, registers);
    }
}

/// How a run ended, as far as programs that are compared must agree: the lower half of R0 and the packet.
type Ended = Result<(u32, Vec<u8>), Trap>;

fn run<'o, W: Witness>(program: &Program, mut havoc: Havoc<'o, W>) -> (Ended, Havoc<'o, W>) {
    let ended = Interpreter::new(havoc.object).run(program.entry, CONTEXT, &mut havoc, BUDGET);
    (ended.map(|outcome| (outcome.value as u32, havoc.bare.packet.clone())), havoc)
}

/// What was looked at.
#[derive(Default, Debug)]
pub struct Tally {
    /// Programs.
    pub programs: u64,
    /// Runs of them.
    pub runs: u64,
    /// Runs that went on to the program's end.
    pub to_the_end: u64,
    /// States before an instruction.
    pub states: u64,
}

/// One run with facts checked, and one with all dead values overwritten.
///
/// # Errors
/// Returns a state that is not within the facts, a trap, or a different result with dead values overwritten.
pub fn check(
    object: &Object,
    program: &Program,
    facts: &Facts,
    packet: &[u8],
    seed: u64,
    canary: Canary,
    tally: &mut Tally,
) -> Result<(), String> {
    let Some(program_type) = program.program_type else { return Ok(()) };
    let (plain, havoc) = run(program, Havoc::new(object, program_type, packet, seed, Checker::new(facts, canary)));
    tally.runs += 1;
    tally.states += havoc.states;
    if let Some(violation) = havoc.witness.violation {
        return Err(violation);
    }
    match &plain {
        Ok(_) => tally.to_the_end += 1,
        Err(Trap::Budget { .. } | Trap::Fault { fault: Fault::Unsupported(_), .. }) => return Ok(()),
        Err(trap) => return Err(format!("an accepted program traps: {trap}")),
    }
    let (spoiled, _) = run(program, Havoc::new(object, program_type, packet, seed, Spoiler::new(facts, canary)));
    if spoiled == plain { Ok(()) } else { Err(format!("ends with {plain:x?}, with dead values spoiled {spoiled:x?}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl Witness for Nobody {
        fn before(&mut self, _: &mut Bare, _: &Node, _: usize, _: &mut [u64; Reg::COUNT]) {}
    }

    /// Records, map values and what the bare environment has do not overlap.
    #[test]
    fn nothing_is_at_two_addresses() {
        let object = Object::default();
        let mut havoc = Havoc::new(&object, ProgramType::Xdp, &[0; 64], 1, Nobody);
        havoc.record = vec![7; 8];
        assert_eq!(havoc.load(RECORDS, Size::B1), Ok(7));
        assert!(havoc.load(RECORDS + 8, Size::B1).is_err());
        assert!(havoc.load(MAP_VALUES, Size::B1).is_err());
    }
}
