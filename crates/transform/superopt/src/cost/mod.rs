//! What programs cost, and which costs a goal minds.
//!
//! Three things can be saved, and they do not always go together. An atomic add for a load, an add and a store:
//!
//! ```text
//!   r1 = *(u64 *)(r0 + 0)                                                 slots       3 -> 1
//!   r1 += 1                        lock *(u64 *)(r0 + 0) += r2            time        ~2 -> ~5 ns
//!   *(u64 *)(r0 + 0) = r1                                                 processed   3 -> 1
//! ```
//!
//! So there is no one order of programs: a [`Goal`] says what may be given for what. Slots are counted, processed
//! instructions are our verifier's, and time is estimated: what [`CostModel`] says of each instruction, as often as
//! [`frequency`] says that it runs.
//!
//! [`Weight`] is the cost of a straight run, by which rules choose between two forms of it; [`Cost`] is that of a
//! program, by which the pipeline decides about a step.

pub mod frequency;
mod table;

use std::fmt;

use kiln_isa::{AluOp, CallTarget, Insn, Source, Width};
use kiln_program::Node;
use serde::Serialize;

pub use table::{BadModel, CostModel};

/// What to optimize for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// Fewest slots: it still has to load, but may run longer or take the verifier longer.
    Size,
    /// Least time, also where that takes more slots.
    Speed,
    /// Fewest instructions for the verifier to process, also where that takes more slots.
    Complexity,
    /// Fewer slots where neither time nor processed instructions get worse.
    #[default]
    Balanced,
}

impl Goal {
    /// All of them.
    pub const ALL: [Goal; 4] = [Goal::Size, Goal::Speed, Goal::Complexity, Goal::Balanced];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Goal::Size => "size",
            Goal::Speed => "speed",
            Goal::Complexity => "complexity",
            Goal::Balanced => "balanced",
        }
    }

    /// The goal of a name.
    pub fn from_name(name: &str) -> Option<Goal> {
        Goal::ALL.into_iter().find(|goal| goal.name() == name)
    }

    /// Whether more slots may be the price of what is sought.
    pub const fn may_grow(self) -> bool {
        matches!(self, Goal::Speed | Goal::Complexity)
    }

    /// Whether a run of one weight is better than a run of another.
    pub fn prefers(self, after: Weight, before: Weight) -> bool {
        let key = |weight: Weight| {
            let Weight { slots, insns, picoseconds, operands } = weight;
            match self {
                Goal::Size | Goal::Balanced => [slots, picoseconds, operands, insns],
                Goal::Speed => [picoseconds, slots, operands, insns],
                Goal::Complexity => [insns, slots, picoseconds, operands],
            }
        };
        let slower = after.picoseconds > before.picoseconds + before.picoseconds / NOISE + NOISE_PICOSECONDS;
        key(after) < key(before) && !(slower && self == Goal::Balanced)
    }

    /// Whether a program that costs `now`, and cost `before` when its optimization began, may come to cost `after`.
    ///
    /// # Errors
    /// What would be worse.
    pub fn allows(self, before: Cost, now: Cost, after: Cost, extra_insns: u64) -> Result<(), String> {
        if after.slots > now.slots && !self.may_grow() {
            return Err(format!("would grow from {} to {} slots", now.slots, after.slots));
        }
        if after.slots > before.slots + before.slots / MOST_GROWTH + LEAST_GROWTH {
            return Err(format!("would grow from {} to {} slots, beyond a quarter", before.slots, after.slots));
        }
        let minds_insns = self != Goal::Size;
        // What was gained is not given away again where it is what is sought.
        let insns = if self == Goal::Complexity { now.processed } else { before.processed };
        // As loaded, and for any values of variables that loaders set: no kernel counts the latter.
        let growths = [NOISE, ANY_LOAD_GROWTH];
        for ((before, after), growth) in insns.into_iter().zip(after.processed).zip(growths).filter(|_| minds_insns) {
            let allowed = if self == Goal::Complexity { before } else { before + before / growth + extra_insns };
            if after > allowed {
                return Err(format!("would take {after} processed instructions instead of {before}"));
            }
        }
        let minds_time = matches!(self, Goal::Speed | Goal::Balanced);
        let in_doubt = |picoseconds: u64| picoseconds + picoseconds / DOUBT + DOUBT_PICOSECONDS;
        let mut allowed = in_doubt(now.picoseconds);
        if self == Goal::Balanced {
            // Several steps together may not be slower than the original, either.
            allowed = allowed.min(in_doubt(before.picoseconds).max(now.picoseconds));
        }
        if minds_time && after.picoseconds > allowed {
            let ns = |picoseconds: u64| picoseconds as f64 / 1000.0;
            return Err(format!("would take {:.1} ns instead of {:.1}", ns(after.picoseconds), ns(now.picoseconds)));
        }
        let gains = match self {
            Goal::Speed => after.picoseconds < now.picoseconds,
            Goal::Complexity => after.processed < now.processed,
            Goal::Size | Goal::Balanced => true,
        };
        if after.slots > now.slots && !gains {
            return Err(format!("would grow from {} to {} slots and gain nothing", now.slots, after.slots));
        }
        Ok(())
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Our count for any values of variables that loaders set may grow by 1/`ANY_LOAD_GROWTH`. It only bounds what a load may
/// take: a kernel verifies one set of values, for which branches on them are decided.
const ANY_LOAD_GROWTH: u64 = 2;
/// A difference of less than 1/`NOISE` (1 %) is noise.
pub const NOISE: u64 = 100;
/// A difference of less than 0.1 ns is noise: no measurement shows it.
const NOISE_PICOSECONDS: u64 = 100;
/// A slowdown of up to 1/`DOUBT` (5 %) plus `DOUBT_PICOSECONDS` is ignored: it is an estimate. How often an instruction
/// runs is a guess, and another one where branches are retargeted.
const DOUBT: u64 = 20;
const DOUBT_PICOSECONDS: u64 = 300;
/// For speed, a program may grow by 1/`MOST_GROWTH` of its slots, or by `LEAST_GROWTH` slots if that is more.
const MOST_GROWTH: u32 = 4;
const LEAST_GROWTH: u32 = 16;

/// What a program costs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Cost {
    /// Slots, subprograms included.
    pub slots: u32,
    /// Estimated time of a run, in picoseconds.
    pub picoseconds: u64,
    /// Instructions our verifier processes: as loaded here, and for every load. 0 where it cannot tell.
    pub processed: [u64; 2],
}

/// What a straight run of instructions costs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Weight {
    /// Slots.
    pub slots: u64,
    /// Instructions.
    pub insns: u64,
    /// Estimated time of running through it once.
    pub picoseconds: u64,
    /// What its operands ask for, to choose between forms that are equal otherwise.
    pub operands: u64,
}

impl Weight {
    /// Weighs a run.
    pub fn of(nodes: &[Node], model: &CostModel) -> Weight {
        nodes.iter().map(|node| Weight::of_insn(&node.insn, model)).fold(Weight::default(), |sum, one| Weight {
            slots: sum.slots + one.slots,
            insns: sum.insns + one.insns,
            picoseconds: sum.picoseconds + one.picoseconds,
            operands: sum.operands + one.operands,
        })
    }

    /// Weighs one instruction.
    pub fn of_insn(insn: &Insn, model: &CostModel) -> Weight {
        Weight { slots: insn.slots().into(), insns: 1, picoseconds: model.picoseconds(insn), operands: operands(insn) }
    }
}

/// An immediate is a little better than a register that has to be kept free for it, and a comparison of 32 bits
/// better than one of 64: it asks less of what is compared.
fn operands(insn: &Insn) -> u64 {
    let source = |src: &Source| u64::from(src.reg().is_some());
    match insn {
        Insn::Alu { src, .. } | Insn::Store { src, .. } => source(src),
        Insn::Branch { width, src, .. } => source(src) + u64::from(*width == Width::W64),
        _ => 0,
    }
}

/// Kinds of things that have a row each in cost models.
macro_rules! rows {
    ($(#[doc = $about:literal])+ $kind:ident { $( $(#[doc = $doc:literal])+ $name:ident = $text:literal; )* }) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum $kind { $( $(#[doc = $doc])+ $name ),* }

        impl $kind {
            /// All of them.
            pub const ALL: &'static [$kind] = &[$( $kind::$name ),*];

            /// Its name in cost models.
            pub const fn name(self) -> &'static str {
                match self { $( $kind::$name => $text ),* }
            }
        }
    };
}

rows! {
    /// Parts of what an event costs that a query looks at, beside the instructions of its programs.
    EventPart {
    /// A tracepoint calls a program of type `tp_btf`, without the program's own time.
    TypedHook = "typed-hook";
    /// A tracepoint makes its record and calls a program, without the program's own time.
    RecordHook = "record-hook";
    /// A function of a process calls a program (a uprobe), without the program's own time.
    FunctionHook = "function-hook";
    /// A function of the kernel calls a program (`fentry`, `fexit`), without the program's own time.
    KernelHook = "kernel-hook";
    /// A processor's clock calls a program (a perf event), without the program's own time.
    ClockHook = "clock-hook";
    /// An empty program's own time at a tracepoint (`tp_btf`), as the kernel counts it: mostly its reading of the clock.
    TypedEntry = "typed-entry";
    /// The own time of an empty program that gets a tracepoint's record.
    RecordEntry = "record-entry";
    /// The own time of an empty program at a function of a process.
    FunctionEntry = "function-entry";
    /// The own time of an empty program at a function of the kernel.
    KernelEntry = "kernel-entry";
    /// The own time of an empty program at a processor's clock.
    ClockEntry = "clock-entry";
    /// One more byte in a record of the ring buffer.
    RingByte = "ring-byte";
    /// User space takes a record from the ring buffer, reads its columns, pairs and groups it.
    Reader = "reader";
    }
}

rows! {
    /// Instructions that cost the same.
    Class {
    /// A move of a register, or of a number into one.
    Move = "move";
    /// Addition, subtraction, logic, a shift by a number, negation, sign extension.
    Alu = "alu";
    /// A shift by a register.
    Shift = "shift";
    /// Multiplication.
    Multiply = "multiply";
    /// Division or remainder.
    Divide = "divide";
    /// A change of byte order.
    Endian = "endian";
    /// A number or address of 64 bits.
    Wide = "wide";
    /// A load, the time until its value is there.
    Load = "load";
    /// A store.
    Store = "store";
    /// An atomic operation, or a load or store in order.
    Atomic = "atomic";
    /// An unconditional jump.
    Jump = "jump";
    /// A conditional jump that is predicted and not taken; half of the time it is a jump as well.
    Branch = "branch";
    /// A call of a subprogram and the return from it.
    Call = "call";
    /// A call of a kernel function.
    Kfunc = "kfunc";
    /// A load from a packet by `ld_abs` or `ld_ind`.
    PacketLoad = "packet-load";
    /// The end of the program.
    Exit = "exit";
    }
}

impl Class {
    /// The class of an instruction; `None` for a helper, which has a row of its own.
    pub fn of(insn: &Insn) -> Option<Class> {
        Some(match insn {
            Insn::Alu { op: AluOp::Mov, .. } => Class::Move,
            Insn::Alu { op: AluOp::Mul, .. } => Class::Multiply,
            Insn::Alu { op: AluOp::Div | AluOp::Mod | AluOp::Sdiv | AluOp::Smod, .. } => Class::Divide,
            Insn::Alu { op: AluOp::Lsh | AluOp::Rsh | AluOp::Arsh, src: Source::Reg(_), .. } => Class::Shift,
            Insn::Alu { .. } | Insn::Neg { .. } | Insn::MoveSignExtend { .. } | Insn::AddressSpaceCast { .. } => {
                Class::Alu
            }
            Insn::Endian { .. } => Class::Endian,
            Insn::LoadImm64 { .. } => Class::Wide,
            Insn::Load { .. } => Class::Load,
            Insn::Store { .. } => Class::Store,
            Insn::Atomic { .. } | Insn::LoadAcquire { .. } | Insn::StoreRelease { .. } => Class::Atomic,
            Insn::LoadPacket { .. } => Class::PacketLoad,
            Insn::Jump { .. } => Class::Jump,
            Insn::Branch { .. } | Insn::JumpIndirect { .. } | Insn::MayGoto { .. } => Class::Branch,
            Insn::Call(CallTarget::Helper(_)) => return None,
            Insn::Call(CallTarget::Subprogram(_)) => Class::Call,
            Insn::Call(CallTarget::Kfunc { .. }) => Class::Kfunc,
            Insn::Exit => Class::Exit,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_for_any_load_only_bounds() {
        let cost = |here, anywhere| Cost { slots: 10, picoseconds: 1000, processed: [here, anywhere] };
        let allows = |goal: Goal, after| goal.allows(cost(20, 43), cost(20, 43), after, 1).is_ok();
        assert!(allows(Goal::Balanced, cost(19, 64)) && allows(Goal::Speed, cost(19, 64)));
        assert!(!allows(Goal::Balanced, cost(19, 66)) && !allows(Goal::Balanced, cost(22, 43)));
        assert!(!allows(Goal::Complexity, cost(19, 44)) && allows(Goal::Size, cost(40, 90)));
    }
}
