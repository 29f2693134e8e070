//! Which stack slots may still be read: the kernel's live-variable analysis of the stack (Linux 6.18).
//!
//! ```text
//!   chain of calls        instruction   frame   may read   must write   live before
//!   entry                 12            0                  fp-8         -
//!   entry                 13 call f     0       fp-8                    fp-8        <- from f's first instruction
//!   entry, 13: f          40            0       fp-8                    fp-8
//! ```
//!
//! Each function has an [`Instance`] for each chain of calls that leads to it. Exploring collects, for each of its
//! instructions and each frame, the slots that any visit read and the slots that every visit wrote. When a path ends or a
//! function returns, what is live before each instruction is computed over the control-flow graph, whatever path came
//! there. What a function's first instruction reads and writes of its callers' frames also holds for the call.
//!
//! A slot of a state is alive if it is live before the state's instruction, or, in the instance of an outer frame, after
//! the call that it waits for (before, where the call runs a callback: it is carried out again).

use std::collections::HashMap;

use kiln_platform::limits::MAX_CALL_FRAMES;

use crate::code::ends::End;
use crate::code::{Code, Position};
use crate::state::State;

/// Bytes that the table may take.
const MAX_TABLE_BYTES: usize = 256 << 20;

/// No instance: the caller of a function that nothing calls.
const NONE: u32 = u32::MAX;

/// Slots of one frame at one instruction, one bit each.
#[derive(Clone, Copy, Debug, Default)]
struct Masks {
    may_read: u64,
    must_write: u64,
    /// Written by the instruction and all that follow in the function.
    written_from_here: u64,
    live_before: u64,
}

/// A function at the end of one chain of calls.
#[derive(Debug)]
struct Instance {
    /// The caller's instance.
    outer: u32,
    /// The call in it.
    call_site: Position,
    start: Position,
    end: Position,
    /// Frames below its own.
    depth: usize,
    /// By frame; allocated when the frame is first accessed.
    frames: [Option<Box<[Masks]>>; MAX_CALL_FRAMES],
    /// Instructions whose writes are known, one bit each.
    write_known: Box<[u64]>,
    /// Something was learned since live slots were computed.
    updated: bool,
    /// A slot turned out not to be written by every visit.
    write_dropped: bool,
}

/// The table of a verification.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    instances: Vec<Instance>,
    /// By caller's instance, call and function.
    by_chain: HashMap<(u32, Position, usize), u32>,
    /// Slots that the current instruction wrote, by frame.
    written: [u64; MAX_CALL_FRAMES],
    bytes: usize,
}

impl Liveness {
    /// Bytes of the table, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the table has no room for more; what it says is not complete then.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes > MAX_TABLE_BYTES
    }

    /// The instance of a function that `outer` calls at `call_site`.
    pub(crate) fn callee(&mut self, code: &Code<'_>, outer: u32, call_site: Position, function: usize) -> u32 {
        let next = self.instances.len() as u32;
        let id = *self.by_chain.entry((outer, call_site, function)).or_insert(next);
        if id == next {
            let routine = &code.functions[function];
            let depth = self.instances.get(outer as usize).map_or(0, |outer| outer.depth + 1);
            let words = (routine.end - routine.start).div_ceil(u64::BITS) as usize;
            self.bytes += size_of::<Instance>() + size_of::<u64>() * words;
            self.instances.push(Instance {
                outer,
                call_site,
                start: routine.start,
                end: routine.end,
                depth: depth.min(MAX_CALL_FRAMES - 1),
                frames: Default::default(),
                write_known: vec![0; words].into(),
                updated: false,
                write_dropped: false,
            });
        }
        id
    }

    /// The instance of a function that nothing calls.
    pub(crate) fn root(&mut self, code: &Code<'_>, function: usize) -> u32 {
        self.callee(code, NONE, code.functions[function].start, function)
    }

    /// Another instruction begins: nothing is written yet.
    pub(crate) fn begin(&mut self) {
        self.written = [0; MAX_CALL_FRAMES];
    }

    /// The current instruction writes all of these slots of a frame.
    pub(crate) fn write(&mut self, frame: usize, slots: u64) {
        self.written[frame] |= slots;
    }

    /// The instruction at `at`, of this instance, may read these slots of a frame.
    pub(crate) fn read(&mut self, instance: u32, frame: usize, at: Position, slots: u64) {
        let own = &mut self.instances[instance as usize];
        let Some(masks) = own.masks(&mut self.bytes, frame, at) else { return };
        let read = masks.may_read | slots;
        let new = read != masks.may_read && read | masks.live_before != masks.live_before;
        masks.may_read = read;
        own.updated |= new;
    }

    /// The instruction at `at`, of this instance, is done: what it wrote is what every visit wrote.
    pub(crate) fn commit(&mut self, instance: u32, at: Position) {
        let written = self.written;
        let own = &mut self.instances[instance as usize];
        own.commit(&mut self.bytes, at, &written);
    }

    /// Computes what is live for the state's functions, the last one first: a path ends here, or a function returns.
    pub(crate) fn update(&mut self, code: &Code<'_>, state: &State) {
        for frame in state.frames.iter().rev() {
            let at = frame.instance as usize;
            if std::mem::take(&mut self.instances[at].updated) {
                self.instances[at].solve(code);
                self.tell_caller(at);
            }
        }
    }

    /// Copies what the function's first instruction reads and writes of its callers' frames to the call.
    fn tell_caller(&mut self, at: usize) {
        let Instance { outer, call_site, depth, .. } = self.instances[at];
        if outer == NONE {
            return;
        }
        let mut written = [0; MAX_CALL_FRAMES];
        for frame in 0..depth {
            let Some(first) = self.instances[at].frames[frame].as_ref().map(|masks| masks[0]) else { continue };
            written[frame] = first.written_from_here;
            self.read(outer, frame, call_site, first.live_before);
        }
        self.instances[outer as usize].commit(&mut self.bytes, call_site, &written);
    }

    /// The slots of each frame that are alive in a state at `at`.
    pub(crate) fn alive(&self, code: &Code<'_>, state: &State, at: Position) -> Vec<u64> {
        let last = state.frames.len() - 1;
        let before = |frame: usize, at: Position, of: usize| {
            let instance = &self.instances[state.frames[frame].instance as usize];
            instance.live_before(of, at)
        };
        let slots = |of: usize| {
            let outer = (of..last).map(|frame| {
                let site = state.frames[frame + 1].call_site;
                let again = code.ops.get(site as usize).is_some_and(|op| op.runs_callback());
                before(frame, if again { site } else { site + 1 }, of)
            });
            outer.fold(before(last, at, of), |all, slots| all | slots)
        };
        (0..=last).map(slots).collect()
    }
}

impl Instance {
    fn masks(&mut self, bytes: &mut usize, frame: usize, at: Position) -> Option<&mut Masks> {
        let count = (self.end - self.start) as usize;
        let slot = self.frames.get_mut(frame)?;
        if slot.is_none() {
            if *bytes > MAX_TABLE_BYTES {
                return None;
            }
            *bytes += count * size_of::<Masks>();
            *slot = Some(vec![Masks::default(); count].into());
        }
        slot.as_mut()?.get_mut(at.checked_sub(self.start)? as usize)
    }

    fn live_before(&self, frame: usize, at: Position) -> u64 {
        let masks = self.frames.get(frame).and_then(Option::as_ref);
        let own = at.checked_sub(self.start).and_then(|at| masks?.get(at as usize));
        own.map_or(0, |masks| masks.live_before)
    }

    fn commit(&mut self, bytes: &mut usize, at: Position, written: &[u64; MAX_CALL_FRAMES]) {
        let Some(index) = at.checked_sub(self.start).map(|index| index as usize) else { return };
        let Some(word) = self.write_known.get(index / 64) else { return };
        let known = word >> (index % 64) & 1 != 0;
        for (frame, slots) in written.iter().enumerate().take(self.depth + 1) {
            if *slots == 0 && !known {
                continue;
            }
            let Some(masks) = self.masks(bytes, frame, at) else { return };
            let before = masks.must_write;
            let now = if known { slots & before } else { *slots };
            masks.must_write = now;
            self.updated |= now != before;
            self.write_dropped |= before & !now != 0;
        }
        self.write_known[index / 64] |= 1 << (index % 64);
    }

    /// Computes live slots backward over the function until nothing changes.
    fn solve(&mut self, code: &Code<'_>) {
        let dropped = std::mem::take(&mut self.write_dropped);
        for masks in self.frames.iter_mut().flatten() {
            if dropped {
                masks.iter_mut().for_each(|one| one.written_from_here = 0);
            }
            let mut changed = true;
            while std::mem::take(&mut changed) {
                for index in (0..masks.len()).rev() {
                    changed |= solve_one(code, self.start, masks, index);
                }
            }
        }
    }
}

/// Computes one instruction from those that follow; whether it changed.
fn solve_one(code: &Code<'_>, start: Position, masks: &mut [Masks], index: usize) -> bool {
    let at = start + index as Position;
    // Where a tail call succeeds or a packet load fails, the function ends, and nothing that follows is written.
    let follows = if End::of(code.op(at)).is_some() { 0 } else { u64::MAX };
    let (mut live, mut written, mut last) = (0, follows, true);
    for next in code.successors(at) {
        let Some(next) = next.checked_sub(start).and_then(|next| masks.get(next as usize)) else { continue };
        live |= next.live_before;
        written &= next.written_from_here;
        last = false;
    }
    if last {
        return false;
    }
    let own = &mut masks[index];
    let new = Masks {
        live_before: live & !own.must_write | own.may_read,
        written_from_here: written | own.must_write,
        ..*own
    };
    let changed = (new.live_before, new.written_from_here) != (own.live_before, own.written_from_here);
    *own = new;
    changed
}
