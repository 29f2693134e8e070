//! A concrete input on which a rejected program really goes wrong.
//!
//! ```text
//!   packets of real protocols, contexts, map entries
//!        |  run strictly (kiln_vm::stand_in): every pointer only reaches what it was made from
//!        |      wrong, at the rejected instruction: made smaller, and shown step by step
//!        |      new instructions ran, or two numbers that are compared came nearer to each other: kept
//!        +-- changed: numbers that the program compares with, other lengths, other results of helpers;
//!            a number that was compared becomes the other one, or one more or less, where the input has it
//! ```
//!
//! The search counts instructions and not time, so it finds the same each time. An input that is found is proof that the
//! program is unsafe; if none is found, nothing follows.

use std::collections::BTreeSet;
use std::sync::Arc;

use kiln_inspect::Input;
use kiln_inspect::hex::hex;
use kiln_inspect::show::shown::Shown;
use kiln_isa::{Insn, Source};
use kiln_platform::ProgramType;
use kiln_program::btf::Btf;
use kiln_program::{InsnId, Object, Program};
use kiln_verifier::{Reason, Rejection};
use kiln_vm::Clock;
use kiln_vm::stand_in::{Compared, Step, Stray, Strictly, Violation, World, Wrong};
use serde::Serialize;

use crate::kernel::takes_packet;
use crate::packets::{self, Random};

/// Runs of a search at most.
const MOST_RUNS: u32 = 12_000;
/// Instructions of all its runs.
const MOST_WORK: u64 = 6_000_000;
/// Instructions of a run, and of one that may be endless: the kernel explores a million.
const RUN_INSNS: u64 = 20_000;
const ENDLESS_INSNS: u64 = 1_000_000;
/// Inputs that are kept because they run something new.
const MOST_KEPT: usize = 64;
/// Runs for making an input smaller.
const SHRINKING: u32 = 200;
/// Bytes of a packet that is made longer.
const MOST_PACKET: usize = 512;
/// Bytes of a context without a packet.
const CONTEXT_BYTES: usize = 256;
/// Entries that maps are filled with.
const FILLED: u32 = 64;
/// Different numbers that maps are filled with.
const FILLINGS: u64 = 16;
/// Steps that a report shows.
const SHOWN_STEPS: usize = 16;

/// A run that goes wrong.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct Witness {
    /// What goes wrong, in a sentence.
    pub what: Shown,
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
struct Stimulus {
    packet: Vec<u8>,
    context: Option<Vec<u8>>,
    seed: u64,
    /// Which numbers the maps hold; 0 is what the object says.
    filling: u32,
}

/// An input that ran something new, and what its comparisons saw.
struct Kept {
    stimulus: Stimulus,
    compared: Vec<[u64; 2]>,
}

/// The kinds of mistake that a run shows, for each reason of the verifier that is about one; none for rules that no run
/// breaks.
fn kinds(reason: Reason) -> &'static [Wrong] {
    use Wrong::{Context, Endless, Held, Moved, Null, Number, Outside, ReadOnly, Released, Size, Unset, UnsetStack};
    match reason {
        Reason::PossiblyNull => &[Null],
        Reason::PacketBounds => &[Outside, Moved],
        Reason::MapValueBounds | Reason::MemoryBounds | Reason::StackBounds | Reason::UnboundedOffset => &[Outside],
        Reason::UninitializedRegister => &[Unset],
        Reason::UninitializedStack => &[UnsetStack],
        Reason::NotAPointer => &[Null, Number, Moved, Released, Outside],
        Reason::PointerArithmetic => &[Outside, Null],
        Reason::ArgumentType => &[Context, Null, Number, Outside, Moved, Released],
        Reason::ArgumentSize => &[Size, Outside],
        Reason::ReadOnlyMemory => &[ReadOnly],
        Reason::UnreleasedReference => &[Held],
        Reason::NotHeld => &[Released, Null],
        Reason::LockDiscipline | Reason::CriticalSection => &[Held],
        Reason::InfiniteLoop => &[Endless],
        _ => &[],
    }
}

/// Whether the verifier rejects an instruction that makes a pointer, and the access through it comes later.
fn comes_later(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::UnboundedOffset
            | Reason::PointerArithmetic
            | Reason::NotAPointer
            | Reason::UnreleasedReference
            | Reason::LockDiscipline
            | Reason::CriticalSection
    )
}

/// Searches for an input on which a rejected program goes wrong as the verifier fears. `go_on` ends the search by `false`.
pub fn find(
    input: &Input,
    program: &Program,
    rejection: &Rejection,
    go_on: &mut dyn FnMut() -> bool,
) -> Option<Witness> {
    let wanted = kinds(rejection.reason);
    if wanted.is_empty() {
        return None;
    }
    let budget = if wanted.contains(&Wrong::Endless) { ENDLESS_INSNS } else { RUN_INSNS };
    let mut search = Search::new(input, program, rejection, wanted, budget)?;
    let (found, violation) = search.run(go_on)?;
    // A run without an end takes too long to be tried often.
    let endless = violation.kind == Wrong::Endless;
    let smaller = if endless { found } else { search.shrink(found, &violation, go_on) };
    // Runs before it changed the maps, and the input alone has to do it.
    search.world = world(&search.object, search.types.clone(), budget)?;
    search.filling = 0;
    let seen = search.once(&smaller, SHOWN_STEPS)?;
    let violation = search.verdict(&seen)?;
    Some(search.shown(&smaller, &violation, &seen.steps))
}

struct Search<'s> {
    object: Object,
    program: &'s Program,
    program_type: ProgramType,
    at: InsnId,
    wanted: &'static [Wrong],
    later: bool,
    budget: u64,
    types: Option<Arc<Btf>>,
    world: World,
    /// What its maps hold, see [`Stimulus::filling`].
    filling: u32,
    random: Random,
    numbers: Vec<u64>,
    /// What kept inputs ran: instructions, and how near the sides of a branch were to each other, as a power of 2.
    reached: BTreeSet<(InsnId, Option<u32>)>,
    kept: Vec<Kept>,
    work: u64,
}

impl<'s> Search<'s> {
    fn new(
        input: &Input,
        program: &'s Program,
        rejection: &Rejection,
        wanted: &'static [Wrong],
        budget: u64,
    ) -> Option<Search<'s>> {
        let program_type = program.program_type?;
        let object = kiln_vm::with_sized_maps(input.object.clone());
        let numbers = numbers(&object, program);
        let (later, types) = (comes_later(rejection.reason), input.kernel_types.clone());
        let world = world(&object, types.clone(), budget)?;
        Some(Search {
            program,
            program_type,
            at: rejection.insn,
            wanted,
            later,
            budget,
            types,
            world,
            filling: 0,
            random: Random::new(0x7769_746e),
            numbers,
            reached: BTreeSet::new(),
            kept: Vec::new(),
            work: 0,
            object,
        })
    }

    fn run(&mut self, go_on: &mut dyn FnMut() -> bool) -> Option<(Stimulus, Violation)> {
        let mut fresh = packets::corpus(0x7769_746e, 64).into_iter();
        for round in 0..MOST_RUNS {
            if self.work >= MOST_WORK || round % 64 == 0 && !go_on() {
                return None;
            }
            let stimulus = match fresh.next() {
                Some(packet) => self.begin(packet),
                None if self.kept.is_empty() || self.random.below(8) == 0 => {
                    let packet = packets::corpus(self.random.next(), 8).swap_remove(self.random.below(8) as usize);
                    self.begin(packet)
                }
                None => self.changed(),
            };
            let seen = self.once(&stimulus, 0)?;
            if let Some(violation) = self.verdict(&seen) {
                return Some((stimulus, violation));
            }
            if matches!(seen.ended, Err(Stray::Excluded)) {
                continue;
            }
            for number in seen.compared.iter().flat_map(|own| own.sides) {
                if number < 1 << 32 && self.numbers.len() < 512 && !self.numbers.contains(&number) {
                    self.numbers.push(number);
                }
            }
            let before = self.reached.len();
            self.reached.extend(seen.reached.into_iter().map(|insn| (insn, None)));
            self.reached.extend(seen.compared.iter().map(nearness));
            if self.reached.len() > before || self.kept.is_empty() {
                if self.kept.len() == MOST_KEPT {
                    self.kept.remove(0);
                }
                let compared = seen.compared.into_iter().map(|own| own.sides).collect();
                self.kept.push(Kept { stimulus, compared });
            }
        }
        None
    }

    /// What a run shows, if it shows what is looked for.
    fn verdict(&self, seen: &Strictly) -> Option<Violation> {
        if self.wanted.contains(&Wrong::Endless) && matches!(seen.ended, Err(Stray::Endless)) {
            let text = format!("it has not ended after {} instructions", self.budget);
            return Some(Violation { insn: self.at, kind: Wrong::Endless, text });
        }
        let violation = seen.violation.clone()?;
        let here = violation.insn == self.at || self.later;
        (here && self.wanted.contains(&violation.kind)).then_some(violation)
    }

    fn once(&mut self, stimulus: &Stimulus, most_steps: usize) -> Option<Strictly> {
        if self.filling != stimulus.filling {
            if stimulus.filling == 0 {
                self.world = world(&self.object, self.types.clone(), self.budget)?;
            } else {
                fill(&self.object, &mut self.world, stimulus.filling);
            }
            self.filling = stimulus.filling;
        }
        let mut runs = self.world.strict_runs(&self.program.name).ok()?;
        let input = kiln_vm::Input { packet: &stimulus.packet, context: stimulus.context.as_deref(), repeat: 1 };
        let seen = runs.run_strictly(&input, stimulus.seed, most_steps);
        self.work += seen.executed + 200;
        Some(seen)
    }

    fn begin(&mut self, packet: Vec<u8>) -> Stimulus {
        let context = self.context(&packet);
        Stimulus { packet, context, seed: 1 + self.random.below(1 << 20), filling: self.filling() }
    }

    /// What the maps hold, seldom something else than before: to fill them takes longer than a run.
    fn filling(&mut self) -> u32 {
        match self.random.below(16) {
            0 => 0,
            1 => 1 + self.random.below(FILLINGS) as u32,
            _ => self.filling,
        }
    }

    /// A number as programs compare with.
    fn number(&mut self) -> u64 {
        const CORNERS: [u64; 8] = [0, 1, 2, u64::MAX, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 63];
        match self.random.below(8) {
            0 => CORNERS[self.random.below(CORNERS.len() as u64) as usize],
            1 => self.random.next(),
            2 => self.random.below(256),
            _ if self.numbers.is_empty() => self.random.below(16),
            _ => {
                let own = self.numbers[self.random.below(self.numbers.len() as u64) as usize];
                own.wrapping_add(self.random.pick(&[0, 0, 0, 1, u64::MAX, 2, 4]))
            }
        }
    }

    fn context(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        if !takes_packet(self.program_type) {
            let bytes = (self.program_type.context().size as usize).clamp(8, CONTEXT_BYTES);
            return Some((0..bytes.div_ceil(8)).flat_map(|_| self.number().to_le_bytes()).take(bytes).collect());
        }
        if self.program_type != ProgramType::Xdp || self.random.below(2) == 0 {
            return None;
        }
        // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex
        let words = [0, packet.len() as u32, 0, 1 + self.random.below(4) as u32, self.number() as u32, 0];
        Some(words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    /// A kept input with one or two changes.
    fn changed(&mut self) -> Stimulus {
        let from = self.random.below(self.kept.len() as u64) as usize;
        let mut own = self.kept[from].stimulus.clone();
        for _ in 0..=self.random.below(2) {
            let number = self.number();
            match self.random.below(14) {
                0 => own.seed = 1 + self.random.below(1 << 20),
                1 => own.filling = self.filling(),
                2 => {
                    let length = match self.random.below(2) {
                        0 => self.random.below(96) as usize,
                        _ => (number as usize).min(MOST_PACKET),
                    };
                    own.packet.resize(length.max(packets::MIN_PACKET_BYTES), number as u8);
                    own.context = self.context(&own.packet);
                }
                3..=5 if own.context.is_some() && self.program_type != ProgramType::Xdp => {
                    let context = own.context.as_mut().expect("there is one");
                    put(context, &mut self.random, number);
                }
                3 | 4 => own.context = self.context(&own.packet),
                10.. if !self.kept[from].compared.is_empty() => self.exchange(from, &mut own),
                _ => put(&mut own.packet, &mut self.random, number),
            }
        }
        own
    }

    /// Changes a number that was compared into the other one, or nearly, or into any other, where the input has it.
    fn exchange(&mut self, from: usize, own: &mut Stimulus) {
        let other = self.number();
        let mut sides = self.random.pick(&self.kept[from].compared);
        if self.random.below(2) == 0 {
            sides.reverse();
        }
        let near = sides[1].wrapping_add(self.random.pick(&[0, 1, u64::MAX]));
        let new = if self.random.below(4) == 0 { other } else { near };
        let bytes = match own.context.as_mut().filter(|_| self.random.below(2) == 0) {
            Some(context) => context,
            None => &mut own.packet,
        };
        replace(bytes, &mut self.random, [sides[0], new]);
    }

    /// Makes an input simpler as long as the same goes wrong.
    fn shrink(&mut self, found: Stimulus, violation: &Violation, go_on: &mut dyn FnMut() -> bool) -> Stimulus {
        const SIMPLER: [fn(&mut Stimulus); 3] = [|own| own.filling = 0, |own| own.context = None, |own| own.seed = 1];
        let mut best = found;
        let mut left = SHRINKING;
        for simpler in SIMPLER {
            let mut own = best.clone();
            simpler(&mut own);
            if go_on() && self.is_same(&own, violation, &mut left) {
                best = own;
            }
        }
        let mut length = best.packet.len();
        while length > packets::MIN_PACKET_BYTES && best.context.is_none() {
            length = (length / 2).max(packets::MIN_PACKET_BYTES);
            let own = Stimulus { packet: best.packet[..length].to_vec(), ..best.clone() };
            if !go_on() || !self.is_same(&own, violation, &mut left) {
                break;
            }
            best = own;
        }
        let mut width = best.packet.len().next_power_of_two() / 2;
        while width > 0 && go_on() {
            for at in (0..best.packet.len()).step_by(width) {
                let end = (at + width).min(best.packet.len());
                if best.packet[at..end].iter().all(|byte| *byte == 0) {
                    continue;
                }
                let mut own = best.clone();
                own.packet[at..end].fill(0);
                if self.is_same(&own, violation, &mut left) {
                    best = own;
                }
            }
            width /= 2;
        }
        best
    }

    /// Whether the same goes wrong on an input; `left` counts the runs that this may still take.
    fn is_same(&mut self, own: &Stimulus, violation: &Violation, left: &mut u32) -> bool {
        if *left == 0 || self.work >= 2 * MOST_WORK {
            return false;
        }
        *left -= 1;
        let now = self.once(own, 0).and_then(|seen| self.verdict(&seen));
        now.is_some_and(|now| now.kind == violation.kind && now.insn == violation.insn)
    }

    fn shown(&self, own: &Stimulus, violation: &Violation, steps: &[Step]) -> Witness {
        let place = |id: InsnId| {
            let functions = self.object.reachable_functions(self.program.entry);
            let found = functions.into_iter().map(|function| self.object.function(function));
            found.into_iter().find_map(|function| {
                let position = function.position(id)?;
                let slot: u32 = function.nodes[..position].iter().map(|node| node.insn.slots()).sum();
                Some((function, &function.nodes[position], slot))
            })
        };
        let line_of = |node: &kiln_program::Node| {
            let line = self.object.line(node)?;
            Some((Shown::from(format!("{}:{}", line.file, line.line)), Shown::from(line.text.trim())))
        };
        let step = |step: &Step| {
            let (function, node, slot) = place(step.insn)?;
            let value = |reg: kiln_isa::Reg| format!("{reg} = {:#x}", step.registers[reg.index()]);
            Some(ShownStep {
                function: function.name.as_str().into(),
                slot,
                text: node.insn.to_string(),
                place: line_of(node).map(|(place, _)| place),
                reads: node.insn.read().iter().map(value).collect(),
            })
        };
        let (function, slot, line) = match place(violation.insn) {
            Some((function, node, slot)) => (function.name.as_str(), slot, line_of(node)),
            None => ("", 0, None),
        };
        Witness {
            what: violation.text.as_str().into(),
            function: function.into(),
            slot,
            place: line.as_ref().map(|(place, _)| place.clone()),
            line: line.map(|(_, text)| text),
            packet: if takes_packet(self.program_type) { hex(&own.packet) } else { String::new() },
            context: own.context.as_deref().map(hex),
            filling: own.filling,
            seed: own.seed,
            executed: steps.last().map_or(0, |step| step.number as usize),
            steps: steps.iter().filter_map(step).collect(),
        }
    }
}

/// Maps as the object has them, and stand-ins for what the VM lacks.
fn world(object: &Object, types: Option<Arc<Btf>>, budget: u64) -> Option<World> {
    let surroundings = kiln_vm::Surroundings { clock: Clock::Fixed(1 << 40), ..Default::default() };
    World::new(object, kiln_vm::Options { budget, surroundings, ..Default::default() }, types).ok()
}

/// Writes a number somewhere, in 1, 2, 4 or 8 bytes and either order.
fn put(bytes: &mut [u8], random: &mut Random, number: u64) {
    let width = random.pick(&[1usize, 2, 4, 8]).min(bytes.len());
    if width == 0 {
        return;
    }
    let value = in_bytes(number, width, random.below(2) == 0);
    // Fields are aligned more often than not.
    let mut at = random.below((bytes.len() - width + 1) as u64) as usize;
    if random.below(4) > 0 {
        at -= at % width.min(2);
    }
    bytes[at..at + width].copy_from_slice(&value[..width]);
}

/// How near the sides of a branch came to each other.
fn nearness(compared: &Compared) -> (InsnId, Option<u32>) {
    let [left, right] = compared.sides;
    (compared.insn, Some(u64::BITS - left.abs_diff(right).leading_zeros()))
}

/// Writes a number where another one is, in 8, 4, 2 or 1 bytes and either order.
fn replace(bytes: &mut [u8], random: &mut Random, [old, new]: [u64; 2]) {
    let mut places = Vec::new();
    for width in [8, 4, 2, 1] {
        if old >> (8 * width - 1) >> 1 != 0 {
            break;
        }
        for little in [true, false] {
            let old = in_bytes(old, width, little);
            let found = bytes.windows(width).enumerate().filter(|(_, own)| *own == &old[..width]);
            places.extend(found.map(|(at, _)| (at, width, little)));
        }
        if !places.is_empty() && random.below(2) == 0 {
            break;
        }
    }
    if !places.is_empty() {
        let (at, width, little) = random.pick(&places);
        bytes[at..at + width].copy_from_slice(&in_bytes(new, width, little)[..width]);
    }
}

/// The lowest bytes of a number, in one of two orders.
fn in_bytes(number: u64, width: usize, little: bool) -> [u8; 8] {
    if little { number.to_le_bytes() } else { (number << (64 - 8 * width as u32)).to_be_bytes() }
}

/// The constants of a program's comparisons and masks.
fn numbers(object: &Object, program: &Program) -> Vec<u64> {
    let functions = object.reachable_functions(program.entry);
    let nodes = functions.iter().flat_map(|id| &object.function(*id).nodes);
    let constant = |insn: Insn| match insn {
        Insn::Branch { src: Source::Imm(value), .. } | Insn::Alu { src: Source::Imm(value), .. } => {
            Some(i64::from(value) as u64)
        }
        _ => None,
    };
    let found: BTreeSet<u64> = nodes.filter_map(|node| constant(node.insn)).collect();
    found.into_iter().take(256).collect()
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
