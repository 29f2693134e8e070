//! Compares original and optimized program in an environment of stand-ins ([`kiln_vm::stand_in`]).
//!
//! ```text
//!   original, with the verifier's facts --> inputs that no kernel could give, or that take too long: left out
//!   original, twice                     --> what it does
//!   optimized                           --> the same
//! ```
//!
//! Leaving an input out changes what maps hold at the next one, so the first step is repeated until nothing more is
//! left out. Then the optimized program must end on every input on which the original ends, with the same result.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};

use kiln_driver::kernel;
use kiln_driver::{Input, Object, Program, ProgramType, packets};
use kiln_verifier::Facts;
use kiln_vm::Clock;
use kiln_vm::stand_in::{Seen, Stray, World};

use super::{BATCH, CONTEXT_BYTES, Outcome, Random, Trace, fill_maps, judge, shortened, words};

/// Instructions of one run of the original; the optimized program has twice as many.
const MOST_INSNS: u64 = 50_000;
/// How often inputs are left out before the others are final.
const MOST_ROUNDS: usize = 8;
/// Inputs tried for each requested one.
const MOST_TRIES: usize = 8;
/// Bytes of a run that are stored; the rest is hashed.
const KEPT_BYTES: usize = 512;

/// One input: a packet, which hooks without one use as the bytes that their context points to, and a context.
struct Stimulus {
    packet: Vec<u8>,
    context: Option<Vec<u8>>,
}

/// The inputs of one program, and which of them are left out.
struct Comparison<'a> {
    program: &'a Program,
    facts: Option<Facts>,
    stimuli: Vec<Stimulus>,
    left_out: Vec<bool>,
    /// Why inputs were left out, and how many.
    reasons: BTreeMap<String, usize>,
}

/// Compares a program of two objects.
pub(super) fn compare(
    before: &Input,
    after: &Input,
    program: &Program,
    program_type: ProgramType,
    count: usize,
) -> Outcome {
    let facts = match world(before, &before.object, MOST_INSNS) {
        Ok(world) => world.facts(&program.name),
        Err(reason) => return Outcome::NotRun(reason),
    };
    let mut comparison = Comparison::new(program, facts, program_type, count);
    if let Err(reason) = comparison.settle(before, count) {
        return Outcome::NotRun(reason);
    }
    judge([(before, MOST_INSNS), (after, 2 * MOST_INSNS)], |(input, budget)| {
        let (trace, _) = comparison.trace(before, &input.object, budget)?;
        Ok(trace)
    })
}

/// A world for a program, at the addresses of this thread.
fn world(types: &Input, object: &Object, budget: u64) -> Result<World, String> {
    static THREADS: AtomicU32 = AtomicU32::new(0);
    thread_local!(static PLACE: Cell<u32> = Cell::new(THREADS.fetch_add(1, Ordering::Relaxed)));
    let surroundings = kiln_vm::Surroundings { clock: Clock::Fixed(1 << 40), ..Default::default() };
    let place = Some(PLACE.get());
    let options = kiln_vm::Options { budget, surroundings, place, ..Default::default() };
    let world = World::new(&kiln_vm::with_sized_maps(object.clone()), options, types.kernel_types.clone());
    world.map_err(|error| shortened(&error.to_string()))
}

impl<'a> Comparison<'a> {
    fn new(program: &'a Program, facts: Option<Facts>, program_type: ProgramType, count: usize) -> Comparison<'a> {
        let stimuli = stimuli(program_type, count + count / 8);
        let left_out = vec![false; stimuli.len()];
        Comparison { program, facts, stimuli, left_out, reasons: BTreeMap::new() }
    }

    fn taken(&self) -> usize {
        self.left_out.iter().filter(|out| !**out).count()
    }

    /// Leaves out inputs on which the original strays, until enough others are left.
    fn settle(&mut self, before: &Input, count: usize) -> Result<(), String> {
        let program_type = self.program.program_type.ok_or("it has no type")?;
        for _ in 0..MOST_ROUNDS {
            let (_, strays) = self.trace(before, &before.object, MOST_INSNS)?;
            let settled = strays.is_empty();
            for (at, reason) in strays {
                self.left_out[at] = true;
                *self.reasons.entry(reason).or_default() += 1;
            }
            let (taken, tried) = (self.taken(), self.stimuli.len());
            if taken == 0 {
                let most = self.reasons.iter().max_by_key(|(_, count)| **count);
                return Err(most.map_or("it takes none of the inputs".to_owned(), |(reason, _)| reason.clone()));
            }
            if taken >= count && settled {
                return Ok(());
            }
            let wanted = (tried + (count - taken.min(count)) * tried / taken * 5 / 4).min(MOST_TRIES * count);
            if settled && wanted == tried {
                return Ok(());
            }
            if wanted > tried {
                // The same ones, and more.
                self.stimuli = stimuli(program_type, wanted);
                self.left_out.resize(wanted, false);
            }
        }
        Err("what it is given does not settle".to_owned())
    }

    /// Runs a program on all inputs that are not left out. Also returns those on which it strayed.
    fn trace(&self, types: &Input, object: &Object, budget: u64) -> Result<(Trace, Vec<(usize, String)>), String> {
        let mut trace = Trace::default();
        let mut strays = Vec::new();
        let half = self.stimuli.len().div_ceil(2).max(1);
        for (part, stimuli) in self.stimuli.chunks(half).enumerate() {
            let mut world = world(types, object, budget)?;
            if part == 1 {
                fill_maps(object, |map, key, value| world.update(map, key, value));
            }
            for batch in stimuli.chunks(BATCH) {
                let mut runs = world
                    .runs(&self.program.name, self.facts.as_ref().filter(|_| std::ptr::eq(object, &types.object)))
                    .map_err(|error| shortened(&error.to_string()))?;
                for stimulus in batch {
                    let at = trace.runs.len();
                    if self.left_out[at] {
                        trace.runs.push(None);
                        continue;
                    }
                    let context = stimulus.context.as_deref();
                    let input = kiln_vm::Input { packet: &stimulus.packet, context, repeat: 1 };
                    let seen = runs.run(&input, at as u64 + 1);
                    trace.runs.push(seen.as_ref().ok().map(bytes));
                    strays.extend(seen.err().map(|stray| (at, reason(stray))));
                }
                trace.look(world.snapshot());
            }
        }
        Ok((trace, strays))
    }
}

fn reason(stray: Stray) -> String {
    match stray {
        Stray::Excluded => "no input that a kernel could give was found".to_owned(),
        Stray::Endless => format!("it takes more than {MOST_INSNS} instructions"),
        Stray::Lacks(what) => shortened(&what),
    }
}

/// Packets for hooks with packets, contexts for the others.
fn stimuli(program_type: ProgramType, count: usize) -> Vec<Stimulus> {
    let mut random = Random::new(0x7374_616e);
    let own_packet = kernel::takes_packet(program_type);
    let bytes = (program_type.context().size as usize).min(CONTEXT_BYTES);
    let context = |random: &mut Random| (!own_packet).then(|| words(random, bytes));
    let packets = packets::corpus(0x7374_616e, count);
    packets.into_iter().map(|packet| Stimulus { packet, context: context(&mut random) }).collect()
}

/// All that a run did, as bytes.
fn bytes(seen: &Seen) -> Vec<u8> {
    let output = format!("{:?}", seen.output);
    let written: Vec<u8> =
        seen.written.iter().flat_map(|(address, byte)| [&address.to_le_bytes()[..], &[*byte]].concat()).collect();
    let value = (seen.value as u32).to_le_bytes();
    let mut all = [&value[..], &seen.packet, &seen.context, output.as_bytes(), &seen.calls, &written].concat();
    if all.len() > KEPT_BYTES {
        let mut hasher = DefaultHasher::new();
        all.hash(&mut hasher);
        all.truncate(KEPT_BYTES);
        all.extend(hasher.finish().to_le_bytes());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads kernel memory, both ways, has a stack filled in, and sends a signal.
    const SIGNALS: &str = "; program kprobe name signals
  r6 = r1
  r1 = r10
  r1 += -8
  r2 = 8
  r3 = *(u64 *)(r6 + 112)
  r3 += 32
  call probe_read_kernel
  r7 = *(u64 *)(r10 - 8)
  r1 = r6
  r2 = r10
  r2 += -40
  r3 = 32
  r4 = 0
  call get_stack
  if r0 s< 0 goto out
  r1 = *(u32 *)(r10 - 40)
  r1 &= 31
  call send_signal
  r0 = r7
  exit
out:
  r0 = 0
  exit
";

    /// What only programs with types may do: loads and stores through pointers of the kernel.
    const FOLLOWS: &str = "; program raw_tracepoint name follows
  r2 = *(u64 *)(r1 + 0)
  r3 = *(u64 *)(r2 + 16)
  if r3 == 0 goto out
  w4 = *(u32 *)(r3 + 4)
  *(u32 *)(r2 + 8) = w4
  w5 = *(u8 *)(r3 + 6)
  w0 = w5
  exit
out:
  w0 = 1
  exit
";

    fn compared(before: &str, after: &str, count: usize) -> Outcome {
        let read = |text: &str| kiln_driver::input::parse("program.bpf", text.into(), &[]).expect("a program");
        let (before, after) = (read(before), read(after));
        let program = &before.object.programs[0];
        compare(&before, &after, program, program.program_type.expect("a type"), count)
    }

    #[test]
    fn an_equal_program_is_equal() {
        for (text, right, other) in [
            (SIGNALS, "  r2 = 8\n", "  r2 = 4\n  r2 <<= 1\n"),
            // Nobody looks at the result.
            (SIGNALS, "  r7 = *(u64 *)(r10 - 8)\n", "  r7 = *(u64 *)(r10 - 8)\n  call get_func_ip\n"),
            (FOLLOWS, "w5 = *(u8 *)(r3 + 6)", "w5 = w4\n  w5 >>= 16\n  w5 &= 0xff"),
        ] {
            assert!(text.contains(right));
            let outcome = compared(text, &text.replace(right, other), 400);
            assert!(matches!(outcome, Outcome::Equal { inputs: 400.., masked: 0 }), "{other}: {outcome:?}");
        }
    }

    #[test]
    fn wrong_programs_are_found() {
        for (text, right, wrong) in [
            (SIGNALS, "r3 += 32", "r3 += 40"),
            (SIGNALS, "r3 = 32", "r3 = 24"),
            (SIGNALS, "r1 &= 31", "r1 &= 15"),
            (SIGNALS, "r0 s< 0", "r0 s<= 0"),
            (SIGNALS, "call send_signal", "call send_signal_thread"),
            (SIGNALS, "r10 - 40", "r10 - 36"),
            (SIGNALS, "  call send_signal\n", "  r0 = 0\n"),
            (FOLLOWS, "(r2 + 8) = w4", "(r2 + 12) = w4"),
            (FOLLOWS, "(r3 + 6)", "(r3 + 7)"),
            (FOLLOWS, "if r3 == 0", "if r3 == 1"),
            (FOLLOWS, "  *(u32 *)(r2 + 8) = w4\n", ""),
        ] {
            assert!(text.contains(right));
            let outcome = compared(text, &text.replace(right, wrong), 400);
            assert!(matches!(outcome, Outcome::Different(_)), "{wrong}: {outcome:?}");
        }
    }

    #[test]
    fn what_never_ends_is_not_compared() {
        let endless = "; program raw_tracepoint name spins\nagain:\n  w0 = 1\n  goto again\n";
        assert!(matches!(compared(endless, endless, 4), Outcome::NotRun(reason) if reason.contains("more than")));
    }
}
