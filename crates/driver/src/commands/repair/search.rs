//! The search for an input on which a rejected program goes wrong, or does what is forbidden.
//!
//! ```text
//!   packets of real protocols, contexts, map entries
//!        |  run strictly (kiln_vm::stand_in): every pointer only reaches what it was made from
//!        |      wrong, at the rejected instruction: made smaller, and shown step by step
//!        |      came there, and the verifier that follows this run rejects it (kiln_verifier::Passed): the same
//!        |      new instructions ran, or two numbers that are compared came nearer to each other: kept
//!        +-- changed: numbers that the program compares with, other lengths, other results of helpers;
//!            a number that was compared becomes the other one, or one more or less, where the input has it
//! ```
//!
//! The search counts instructions and not time, so it finds the same each time. An input that is found is proof that the
//! program is unsafe; if none is found, nothing follows.

use std::collections::BTreeSet;

use kiln_inspect::Input;
use kiln_isa::{Insn, Source};
use kiln_platform::ProgramType;
use kiln_program::{InsnId, Object, Program};
use kiln_verifier::{Followed, Passed, Prepared, Rejection};
use kiln_vm::stand_in::{Compared, Step, Stray, Strictly, Wrong};

use super::mistake::{Shows, comes_later, followed, kinds};
use super::witness::{ENDLESS_INSNS, RUN_INSNS, SHOWN_STEPS, Stage, Stimulus, Violation, Witness};
use crate::kernel::takes_packet;
use crate::packets::{self, Random};

/// Runs of a search at most.
const MOST_RUNS: u32 = 12_000;
/// Instructions of all its runs.
const MOST_WORK: u64 = 6_000_000;
/// Inputs that are kept because they run something new.
const MOST_KEPT: usize = 64;
/// Runs for making an input smaller.
const SHRINKING: u32 = 200;
/// Runs that come to the rejected instruction and that the verifier follows, and those that it follows at first, whatever
/// else they run.
const MOST_FOLLOWED: u32 = 64;
const FIRST_FOLLOWED: u32 = 8;
/// Bytes of a packet that is made longer.
const MOST_PACKET: usize = 512;
/// Bytes of a context without a packet.
const CONTEXT_BYTES: usize = 256;
/// Different numbers that maps are filled with.
const FILLINGS: u64 = 16;

/// An input that ran something new, and what its comparisons saw.
struct Kept {
    stimulus: Stimulus,
    compared: Vec<[u64; 2]>,
}

/// Searches for an input on which a rejected program goes wrong as the verifier fears, or does what it rejects. `go_on` ends
/// the search by `false`.
pub fn find(
    input: &Input,
    program: &Program,
    rejection: &Rejection,
    verifier: &kiln_verifier::Options,
    go_on: &mut dyn FnMut() -> bool,
) -> Option<Witness> {
    let wanted = kinds(rejection.reason);
    if wanted.is_empty() && followed(rejection.reason).is_none() {
        return None;
    }
    let budget = if wanted.contains(&Wrong::Endless) { ENDLESS_INSNS } else { RUN_INSNS };
    let mut search = Search::new(input, program, rejection, verifier, budget)?;
    let (found, shows) = search.run(go_on)?;
    // A run without an end takes too long to be tried often.
    let endless = shows == Shows::Wrong(Wrong::Endless);
    let smaller = if endless { found } else { search.shrink(found, shows, go_on) };
    // Runs before it changed the maps, and the input alone has to do it.
    search.stage.anew()?;
    let (violation, steps) = search.violation(&smaller, shows)?;
    Some(search.stage.shown(&smaller, &violation, &steps))
}

struct Search<'s> {
    stage: Stage<'s>,
    program_type: ProgramType,
    rejection: &'s Rejection,
    prepared: Prepared<'s>,
    verifier: &'s kiln_verifier::Options,
    /// How many runs the verifier may still follow.
    to_follow: u32,
    budget: u64,
    random: Random,
    numbers: Vec<u64>,
    /// What kept inputs ran: instructions, and how near the sides of a branch were to each other, as a power of 2.
    reached: BTreeSet<(InsnId, Option<u32>)>,
    kept: Vec<Kept>,
    work: u64,
}

impl<'s> Search<'s> {
    fn new(
        input: &'s Input,
        program: &'s Program,
        rejection: &'s Rejection,
        verifier: &'s kiln_verifier::Options,
        budget: u64,
    ) -> Option<Search<'s>> {
        let stage = Stage::new(input, program, budget)?;
        Some(Search {
            program_type: program.program_type?,
            rejection,
            prepared: Prepared::new(&input.object, verifier),
            verifier,
            to_follow: if followed(rejection.reason).is_some() { MOST_FOLLOWED } else { 0 },
            budget,
            random: Random::new(0x7769_746e),
            numbers: numbers(&stage.object, program),
            reached: BTreeSet::new(),
            kept: Vec::new(),
            work: 0,
            stage,
        })
    }

    /// A run that goes wrong is sought to the end, even if another one does what is forbidden.
    fn run(&mut self, go_on: &mut dyn FnMut() -> bool) -> Option<(Stimulus, Shows)> {
        let mut fresh = packets::corpus(0x7769_746e, 64).into_iter();
        let mut forbidden = None;
        for round in 0..MOST_RUNS {
            if self.work >= MOST_WORK || round % 64 == 0 && !go_on() {
                return forbidden;
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
                return Some((stimulus, violation.shows));
            }
            if matches!(seen.ended, Err(Stray::Excluded)) {
                continue;
            }
            for number in seen.compared.iter().flat_map(|own| own.sides) {
                if number < 1 << 32 && self.numbers.len() < 512 && !self.numbers.contains(&number) {
                    self.numbers.push(number);
                }
            }
            let came = seen.reached.contains(&self.rejection.insn);
            let before = self.reached.len();
            self.reached.extend(seen.reached.into_iter().map(|insn| (insn, None)));
            self.reached.extend(seen.compared.iter().map(nearness));
            let is_new = self.reached.len() > before || self.kept.is_empty();
            if came && self.to_follow > 0 && (is_new || self.to_follow > MOST_FOLLOWED - FIRST_FOLLOWED) {
                self.to_follow -= 1;
                let shows = Shows::Rejected(self.rejection.reason);
                if self.violation(&stimulus, shows).is_some() {
                    self.to_follow = 0;
                    let found = Some((stimulus.clone(), shows));
                    if kinds(self.rejection.reason).is_empty() {
                        return found;
                    }
                    forbidden = found;
                }
            }
            if is_new {
                if self.kept.len() == MOST_KEPT {
                    self.kept.remove(0);
                }
                let compared = seen.compared.into_iter().map(|own| own.sides).collect();
                self.kept.push(Kept { stimulus, compared });
            }
        }
        forbidden
    }

    /// What goes wrong in a run, if that is what is looked for.
    fn verdict(&self, seen: &Strictly) -> Option<Violation> {
        let (at, wanted) = (self.rejection.insn, kinds(self.rejection.reason));
        if wanted.contains(&Wrong::Endless) && matches!(seen.ended, Err(Stray::Endless)) {
            let text = format!("it has not ended after {} instructions", self.budget);
            return Some(Violation { insn: at, shows: Shows::Wrong(Wrong::Endless), text });
        }
        let kiln_vm::stand_in::Violation { insn, kind, text } = seen.violation.clone()?;
        let here = insn == at || comes_later(self.rejection.reason);
        (here && wanted.contains(&kind)).then_some(Violation { insn, shows: Shows::Wrong(kind), text })
    }

    /// What the verifier rejects of a run that it follows, and the number of the step; nothing unless it is the rejection that
    /// is looked for.
    fn rejected(&self, seen: &Strictly) -> Option<(Violation, usize)> {
        let passed = |step: &Step| Passed { insn: step.insn, depth: step.depth, registers: step.registers };
        let run: Vec<Passed> = seen.steps.iter().map(passed).collect();
        let followed = self.prepared.follow(self.stage.program, self.verifier, &run).ok()?;
        let Followed::Rejected(step, found) = followed else { return None };
        // A context is accessed at the right place, but the instruction does not say where that is.
        let same =
            found.insn == self.rejection.insn && found.reason == self.rejection.reason && found.moved_by().is_none();
        let shows = Shows::Rejected(found.reason);
        same.then_some((Violation { insn: found.insn, shows, text: found.message }, step))
    }

    /// Runs the program on an input that shows something; returns that, and the steps up to it.
    fn violation(&mut self, stimulus: &Stimulus, shows: Shows) -> Option<(Violation, Vec<Step>)> {
        let most_steps = match shows {
            Shows::Wrong(_) => SHOWN_STEPS,
            Shows::Rejected(_) => self.budget as usize,
        };
        let mut seen = self.once(stimulus, most_steps)?;
        let violation = match shows {
            Shows::Wrong(_) => self.verdict(&seen)?,
            Shows::Rejected(_) => {
                let (violation, step) = self.rejected(&seen)?;
                self.work += seen.executed;
                seen.steps.truncate(step + 1);
                violation
            }
        };
        (violation.shows == shows).then_some((violation, seen.steps))
    }

    fn once(&mut self, stimulus: &Stimulus, most_steps: usize) -> Option<Strictly> {
        let seen = self.stage.run(stimulus, most_steps)?;
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
            _ => self.stage.filling,
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
    fn shrink(&mut self, found: Stimulus, shows: Shows, go_on: &mut dyn FnMut() -> bool) -> Stimulus {
        const SIMPLER: [fn(&mut Stimulus); 3] = [|own| own.filling = 0, |own| own.context = None, |own| own.seed = 1];
        let mut best = found;
        let mut left = SHRINKING;
        for simpler in SIMPLER {
            let mut own = best.clone();
            simpler(&mut own);
            if go_on() && self.is_same(&own, shows, &mut left) {
                best = own;
            }
        }
        let mut length = best.packet.len();
        while length > packets::MIN_PACKET_BYTES && best.context.is_none() {
            length = (length / 2).max(packets::MIN_PACKET_BYTES);
            let own = Stimulus { packet: best.packet[..length].to_vec(), ..best.clone() };
            if !go_on() || !self.is_same(&own, shows, &mut left) {
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
                if self.is_same(&own, shows, &mut left) {
                    best = own;
                }
            }
            width /= 2;
        }
        best
    }

    /// Whether an input shows the same; `left` counts the runs that this may still take.
    fn is_same(&mut self, own: &Stimulus, shows: Shows, left: &mut u32) -> bool {
        if *left == 0 || self.work >= 2 * MOST_WORK {
            return false;
        }
        *left -= 1;
        match shows {
            Shows::Wrong(_) => {
                self.once(own, 0).and_then(|seen| self.verdict(&seen)).is_some_and(|now| now.shows == shows)
            }
            Shows::Rejected(_) => self.violation(own, shows).is_some(),
        }
    }
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
