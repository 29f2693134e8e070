//! What is known at one point of one path.
//!
//! ```text
//!   State
//!   ├─ frames[0]: entry      registers R0..R10, stack slots (shared until written; some are kernel objects)
//!   ├─ frames[1]: a callee   its R10 points to frame 1; pointers to frame 0 may be in its registers
//!   └─ references, lock,     what must be given back or left
//!      sections
//! ```

mod frames;
pub(crate) mod ids;
pub(crate) mod register;
mod sections;
pub(crate) mod stack;

pub(crate) use register::{AT_END, Added, BEYOND_END, DynptrKind, Holds, Kind, Register, Trust};
pub(crate) use stack::{Byte, IrqKeeper, IteratorState, ObjectKind, Protection, Slot, Stack, StackObject};

use kiln_isa::Reg;

use crate::code::Position;
use crate::facts::Section;
use frames::Frames;
pub(crate) use sections::{Begun, Sections};

/// One call frame.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub registers: [Register; Reg::COUNT],
    pub stack: Stack,
    /// Index into the code's functions.
    pub function: usize,
    /// The call that made it.
    pub call_site: Position,
    /// What called it.
    pub caller: Caller,
    /// How often a helper called in this frame has run its callback on this path.
    pub callback_turns: u32,
    /// Its function's instance for the chain of calls that leads here, in the table of live stack slots.
    pub instance: u32,
}

/// How a frame came to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Caller {
    /// A call, or the hook itself.
    Call,
    /// A helper that calls it any number of times, with this range of results allowed (inclusive).
    Callback { lowest: i64, highest: i64 },
    /// A helper that makes it run later, as a program of its own.
    Later { lowest: i64, highest: i64 },
}

/// A resource held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub id: u32,
    /// Where it was acquired.
    pub at: Position,
}

/// What kind of lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LockKind {
    /// `bpf_spin_lock`: one at a time.
    Spin,
    /// `bpf_res_spin_lock`: several, given up in the reverse order.
    Resilient,
    /// `bpf_res_spin_lock_irqsave`: a resilient lock, with interrupts off.
    ResilientIrq,
}

/// A lock held: of the map value or object that the pointer it was taken through points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HeldLock {
    pub kind: LockKind,
    /// What the pointer points to, and whether that is an inner map's value.
    pub allocation: (Holds, bool),
    /// The pointer's id: which value or object.
    pub id: u32,
}

/// What is known at one point of one path.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub frames: Frames,
    /// Resources held.
    pub references: Vec<Held>,
    /// Locks held, the last one taken last.
    pub locks: Vec<HeldLock>,
    /// Where the locks were taken and the sections begun, in that order.
    pub begun: Vec<Begun>,
    /// The path may sleep: the program does, or the callback it is in.
    pub sleepable: bool,
    /// Critical sections that it is in.
    pub sections: Sections,
    /// Whether the path began at a global function, which is verified on its own, and whether that returns a value.
    pub global: Option<bool>,
    /// Bytes from the packet's start known to be there.
    pub packet_bytes: u32,
    /// The last kept state this one comes from, 0 for none.
    pub parent: u32,
    /// Entries in the kernel's history of this path since then: arrivals, registers spilled and read back.
    pub history: u32,
    /// The last instruction carried out on this path, in the table of [`crate::path::Trail`].
    pub trail: u32,
    /// How often may_goto was taken to continue, on this path.
    pub may_goto_depth: u32,
    /// How often each nested callback was entered on this path.
    pub callback_depth: u32,
    /// How many callbacks that run later this path went through, each begun by the one before.
    pub later_entries: u32,
}

impl State {
    /// A lock or a section ends: the last of its kind.
    pub(crate) fn end(&mut self, what: Section) {
        if let Some(last) = self.begun.iter().rposition(|begun| begun.what == what) {
            self.begun.remove(last);
        }
    }

    pub(crate) fn frame(&self) -> &Frame {
        &self.frames[self.frames.len() - 1]
    }

    pub(crate) fn frame_mut(&mut self) -> &mut Frame {
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    pub(crate) fn register(&self, reg: Reg) -> &Register {
        &self.frame().registers[reg.index()]
    }

    pub(crate) fn set(&mut self, reg: Reg, value: Register) {
        self.frame_mut().registers[reg.index()] = value;
    }

    /// Changes every register and spilled register that the test picks.
    pub(crate) fn for_each_where(&mut self, wanted: impl Fn(&Register) -> bool, mut change: impl FnMut(&mut Register)) {
        self.frames.iter_mut().for_each(|frame| frame.for_each_where(&wanted, &mut change));
    }
}

impl Frame {
    /// Changes registers and spilled registers of this frame.
    pub(crate) fn for_each_where(
        &mut self,
        wanted: &impl Fn(&Register) -> bool,
        change: &mut impl FnMut(&mut Register),
    ) {
        self.registers.iter_mut().filter(|register| wanted(register)).for_each(&mut *change);
        self.stack.for_each_spilled_where(wanted, change);
    }

    pub(crate) fn new(function: usize, depth: usize, call_site: Position, caller: Caller, instance: u32) -> Frame {
        let mut registers = [Register::UNINIT; Reg::COUNT];
        registers[Reg::R10.index()] = Register::pointer(Holds::Stack(depth as u32));
        Frame { registers, stack: Stack::default(), function, call_site, caller, callback_turns: 0, instance }
    }
}
