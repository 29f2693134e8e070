//! What the verifier learned, kept per instruction.
//!
//! A program is explored path by path; [`Facts`] keeps the join over all of them, so that a transform may rely on it
//! wherever the instruction runs:
//!
//! ```text
//!   7: r2 = *(u32 *)(r1 + 4)     r1 context+0    r10 stack+0    live after: r2 r6    stack live: -8..-4
//! ```
//!
//! Facts hold for every value that CO-RE relocations, kconfig, `.rodata` and map contents can take at load time
//! (see `Assumptions` in [`crate::Options`]): a drop-in object must stay right when the loader changes them.

pub(crate) mod record;
mod repair;

use std::collections::{BTreeMap, HashMap, HashSet};

use kiln_isa::{Reg, RegSet};
use kiln_program::{ById, FunctionId, InsnId, MapId};

use crate::domain::Scalar;

/// Bytes in a stack frame (kernel `MAX_BPF_STACK`).
pub const STACK_BYTES: usize = 512;

/// What a register or a stack slot may hold, over all paths.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Value {
    /// Never written on some path: not readable.
    Uninit,
    /// A number.
    Scalar(Scalar),
    /// A pointer of one known kind.
    Pointer(Pointer),
    /// Readable, but paths disagree about its kind, or nothing is known.
    Unknown,
}

impl Value {
    /// Whether it is no address in a frame of the program: a number, or a pointer to anything else. That a number is none is an
    /// assumption, for programs can make numbers of addresses.
    pub fn is_outside_frame(&self) -> bool {
        match self {
            Value::Scalar(_) => true,
            Value::Pointer(pointer) => !matches!(pointer.region, Region::Stack { .. }),
            Value::Uninit | Value::Unknown => false,
        }
    }
}

/// A pointer: what it points into, and how far.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pointer {
    /// What it points into.
    pub region: Region,
    /// Bytes from the start of the region (for [`Region::Stack`], from the frame pointer, so negative; for
    /// [`Region::Packet`] from the packet's start as the program last read it).
    pub offset: Scalar,
    /// May be null on some path.
    pub nullable: bool,
}

/// What a pointer points into.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Region {
    /// The program's context.
    Context,
    /// The stack of the call frame this many calls above the current one (0 is its own).
    Stack {
        /// Frames up.
        up: u32,
    },
    /// A map itself.
    Map(MapId),
    /// A value of a map.
    MapValue(MapId),
    /// Packet data.
    Packet,
    /// Packet metadata, before the data.
    PacketMeta,
    /// The end of the packet.
    PacketEnd,
    /// Anything else, by the kernel's name for it (`sock`, `ringbuf_mem`, `ptr_task_struct`, ...).
    Other(String),
}

/// How [`Region::Other`] calls structures typed by BTF: this, then the structure's name.
const KERNEL_STRUCTURE: &str = "ptr_";
/// How [`Region::Other`] calls an address that may be any.
const UNTRUSTED_MEMORY: &str = "untrusted_mem";

impl Region {
    /// Whether its bytes may be those of any other region too: structures of the kernel, such as the one behind the
    /// context, and addresses that nobody vouches for.
    pub fn may_be_any_other(&self) -> bool {
        matches!(self, Region::Other(name) if name.starts_with(KERNEL_STRUCTURE) || name == UNTRUSTED_MEMORY)
    }
}

/// What is known just before an instruction runs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct InsnFacts {
    /// R0 to R10.
    pub registers: [Value; Reg::COUNT],
    /// Eight-byte stack slots of the current frame that are known: key is the slot's lowest byte relative to the
    /// frame pointer (-8, -16, ...). Absent means nothing is known of it.
    pub stack: BTreeMap<i16, Value>,
    /// Bytes after the packet pointer's start proved readable on every path (0 when not checked).
    pub packet_bytes: u32,
    /// Registers that may be read after this instruction before they are overwritten.
    pub live_after: RegSet,
    /// Stack bytes of the current frame that may be read after this instruction (by it or by a callee or helper):
    /// bit `i` of the set speaks of the byte at frame pointer - 512 + i.
    pub stack_live_after: StackSet,
}

/// A set of bytes of one stack frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct StackSet([u64; STACK_BYTES / 64]);

impl StackSet {
    /// No byte.
    pub const EMPTY: StackSet = StackSet([0; STACK_BYTES / 64]);
    /// Every byte.
    pub const ALL: StackSet = StackSet([u64::MAX; STACK_BYTES / 64]);

    /// In this one and not in the other.
    pub fn difference(&self, other: &StackSet) -> StackSet {
        StackSet(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// The bytes, lowest offset (from the frame pointer, negative) first.
    pub fn iter(&self) -> impl Iterator<Item = i32> + '_ {
        (-(STACK_BYTES as i32)..0).filter(|offset| self.contains(*offset))
    }

    fn bit(offset: i32) -> Option<usize> {
        usize::try_from(offset + STACK_BYTES as i32).ok().filter(|bit| *bit < STACK_BYTES)
    }

    /// Whether the byte at frame pointer + `offset` (negative) is in; bytes outside the frame are not.
    pub fn contains(&self, offset: i32) -> bool {
        StackSet::bit(offset).is_some_and(|bit| self.0[bit / 64] >> (bit % 64) & 1 != 0)
    }

    /// Adds `bytes` bytes from frame pointer + `offset`; those outside the frame are ignored.
    pub fn insert(&mut self, offset: i32, bytes: u32) {
        for bit in (0..bytes as i32).filter_map(|byte| StackSet::bit(offset + byte)) {
            self.0[bit / 64] |= 1 << (bit % 64);
        }
    }

    /// Takes `bytes` bytes from frame pointer + `offset` out.
    pub fn remove(&mut self, offset: i32, bytes: u32) {
        for bit in (0..bytes as i32).filter_map(|byte| StackSet::bit(offset + byte)) {
            self.0[bit / 64] &= !(1 << (bit % 64));
        }
    }

    /// In either.
    pub fn union(&self, other: &StackSet) -> StackSet {
        StackSet(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

/// Facts of every instruction that some path reaches.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Boxed, so that a growing table moves little.
    insns: ById<Box<InsnFacts>>,
    held: HashMap<InsnId, Held>,
    in_arena: HashSet<InsnId>,
    unwritten: HashMap<InsnId, StackSet>,
    stack_bytes: HashMap<FunctionId, u32>,
    results: HashMap<FunctionId, (i64, i64)>,
}

/// Resources that some explored path holds just before an instruction. For people to read: a path that ended in a kept
/// state may hold as many acquired elsewhere.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Held {
    /// The calls that acquired the references, in the order in which some path acquired them.
    pub references: Vec<InsnId>,
    /// For each of `references`, where every path that holds it keeps it, and other paths have 0.
    pub places: Vec<Places>,
    /// The most locks held on any path.
    pub locks: usize,
    /// The calls that took the locks and began the sections, in that order; the first path's.
    pub begun: Vec<Begun>,
    /// Some path began others, or in another order.
    pub mixed: bool,
}

/// What must be ended besides references.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Section {
    /// A kernel lock.
    Lock,
    /// An RCU read section that the program began.
    Rcu,
    /// A section without preemption.
    Preemption,
    /// A section without interrupts.
    Interrupts,
}

/// A lock or section that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begun {
    /// What it is.
    pub what: Section,
    /// The call that began it.
    pub insn: InsnId,
    /// The stack slot of the current frame with the interrupt flags that it saved: `i` for frame pointer - 8 * (i + 1).
    pub flags: Option<u32>,
}

impl Held {
    /// Some path holds what was acquired there, in these places.
    pub fn add(&mut self, acquired: InsnId, places: Places) {
        match self.references.iter().position(|known| *known == acquired) {
            Some(at) => self.places[at] = self.places[at].common(places),
            None => {
                self.references.push(acquired);
                self.places.push(places);
            }
        }
    }

    /// Forgets the places of what another program does not hold: what that one has in these places is not known.
    fn forget_unless_in(&mut self, other: Option<&Held>) {
        for (acquired, places) in self.references.iter().zip(&mut self.places) {
            if !other.is_some_and(|other| other.references.contains(acquired)) {
                *places = Places::default();
            }
        }
    }
}

/// Where a reference is kept: registers and eight-byte stack slots of the current frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Places {
    /// Registers that hold it.
    pub registers: RegSet,
    /// Slots that hold it: bit `i` is the slot at frame pointer - 8 * (i + 1).
    pub slots: u64,
    /// The lowest slots of iterators and dynptrs that stand on it.
    pub objects: u64,
    /// Some path has not compared it with null yet, or does not hold it.
    pub nullable: bool,
}

impl Places {
    /// Whether the current frame keeps it.
    pub fn is_somewhere(&self) -> bool {
        self.slots != 0 || self.objects != 0 || !self.registers.is_empty()
    }

    /// Where both keep it.
    #[must_use]
    pub fn common(self, other: Places) -> Places {
        Places {
            registers: self.registers.intersection(other.registers),
            slots: self.slots & other.slots,
            objects: self.objects & other.objects,
            nullable: self.nullable || other.nullable,
        }
    }
}

impl Facts {
    /// What is known before an instruction; `None` when no path reaches it.
    pub fn at(&self, insn: InsnId) -> Option<&InsnFacts> {
        self.insns.get(&insn).map(|facts| &**facts)
    }

    /// Whether some path reaches the instruction.
    pub fn reached(&self, insn: InsnId) -> bool {
        self.insns.contains_key(&insn)
    }

    /// What may be held before an instruction; `None` for nothing.
    pub fn held(&self, insn: InsnId) -> Option<&Held> {
        self.held.get(&insn)
    }

    /// Whether the instruction accesses the program's arena, on every path that leads to it.
    pub fn in_arena(&self, insn: InsnId) -> bool {
        self.in_arena.contains(&insn)
    }

    /// The stack bytes that an instruction reads, itself or by the helper that it calls, although nothing on some
    /// explored path wrote them; `None` if there are none. For people to read: of paths that ended in a kept state, those
    /// of the kept state are known. The bytes are relative to the frame that they are in.
    pub fn unwritten(&self, insn: InsnId) -> Option<&StackSet> {
        self.unwritten.get(&insn)
    }

    /// Sets the stack bytes that an instruction reads unwritten.
    pub(crate) fn set_unwritten(&mut self, unwritten: impl Iterator<Item = (InsnId, StackSet)>) {
        self.unwritten = unwritten.collect();
    }

    /// How many bytes of a function's frame are used on some path, from the frame pointer down: by itself, by a function that it
    /// passes an address in its frame to, or by a helper.
    pub fn stack_bytes(&self, function: FunctionId) -> u32 {
        self.stack_bytes.get(&function).copied().unwrap_or(0)
    }

    /// Sets how many bytes of functions' frames are used.
    pub(crate) fn set_stack_bytes(&mut self, bytes: impl Iterator<Item = (FunctionId, u32)>) {
        self.stack_bytes = bytes.collect();
    }

    /// Returns the lowest and the highest result that a function may return to the hook or helper that runs it; `None` if
    /// it may return any.
    pub fn results(&self, function: FunctionId) -> Option<(i64, i64)> {
        self.results.get(&function).copied()
    }

    /// Sets the results that functions may return.
    pub(crate) fn set_results(&mut self, results: impl Iterator<Item = (FunctionId, (i64, i64))>) {
        self.results = results.collect();
    }

    /// Sets the instructions that access the arena.
    pub(crate) fn set_arena_accesses(&mut self, accesses: impl Iterator<Item = InsnId>) {
        self.in_arena = accesses.collect();
    }

    /// Sets what may be held before an instruction.
    pub fn hold(&mut self, insn: InsnId, held: Held) {
        self.held.insert(insn, held);
    }

    /// Sets what is known before an instruction.
    pub fn set(&mut self, insn: InsnId, facts: InsnFacts) {
        self.insns.insert(insn, Box::new(facts));
    }

    /// Joins what another program that shares functions with this one found: what holds for both.
    pub fn join(&mut self, other: &Facts) {
        self.in_arena.extend(&other.in_arena);
        for (id, bytes) in &other.stack_bytes {
            let own = self.stack_bytes.entry(*id).or_default();
            *own = (*own).max(*bytes);
        }
        for (id, (lowest, highest)) in &other.results {
            let own = self.results.entry(*id).or_insert((*lowest, *highest));
            *own = (own.0.max(*lowest), own.1.min(*highest));
        }
        for (id, bytes) in &other.unwritten {
            let own = self.unwritten.entry(*id).or_default();
            *own = own.union(bytes);
        }
        for (id, held) in &mut self.held {
            let theirs = other.held.get(id);
            if other.insns.contains_key(id) {
                held.mixed |= !held.begun.is_empty() && theirs.is_none();
                held.forget_unless_in(theirs);
            }
        }
        for (id, held) in &other.held {
            let known = self.insns.contains_key(id);
            let own = self.held.entry(*id).or_default();
            own.mixed |= held.mixed || known && own.begun != held.begun;
            if !known {
                own.begun.clone_from(&held.begun);
            }
            own.locks = own.locks.max(held.locks);
            let mut held = held.clone();
            if known {
                held.forget_unless_in(Some(own));
            }
            for (acquired, places) in held.references.iter().zip(&held.places) {
                own.add(*acquired, *places);
            }
        }
        for (id, facts) in &other.insns {
            match self.insns.get_mut(id) {
                None => {
                    self.insns.insert(*id, facts.clone());
                }
                Some(own) => own.join(facts),
            }
        }
    }

    /// How many instructions they speak of.
    pub fn len(&self) -> usize {
        self.insns.len()
    }

    /// Whether no path was explored.
    pub fn is_empty(&self) -> bool {
        self.insns.is_empty()
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (InsnId, &InsnFacts)> {
        self.insns.iter().map(|(id, facts)| (*id, &**facts))
    }
}

impl InsnFacts {
    /// What holds for both.
    pub fn join(&mut self, other: &InsnFacts) {
        for (own, theirs) in self.registers.iter_mut().zip(&other.registers) {
            *own = own.join(theirs);
        }
        self.stack.retain(|slot, value| match other.stack.get(slot) {
            Some(theirs) => {
                *value = value.join(theirs);
                !matches!(value, Value::Unknown | Value::Uninit)
            }
            None => false,
        });
        self.packet_bytes = self.packet_bytes.min(other.packet_bytes);
        self.live_after = self.live_after.union(other.live_after);
        self.stack_live_after = self.stack_live_after.union(&other.stack_live_after);
    }
}

impl Value {
    /// What holds for both.
    pub fn join(&self, other: &Value) -> Value {
        match (self, other) {
            (Value::Uninit, _) | (_, Value::Uninit) => Value::Uninit,
            (Value::Scalar(a), Value::Scalar(b)) => Value::Scalar(a.join(b)),
            (Value::Pointer(a), Value::Pointer(b)) if a.region == b.region => Value::Pointer(Pointer {
                region: a.region.clone(),
                offset: a.offset.join(&b.offset),
                nullable: a.nullable || b.nullable,
            }),
            (Value::Scalar(null), Value::Pointer(pointer)) | (Value::Pointer(pointer), Value::Scalar(null))
                if null.as_constant() == Some(0) =>
            {
                Value::Pointer(Pointer { nullable: true, ..pointer.clone() })
            }
            _ if self.may_be_any_address() && other.may_be_any_address() => Value::Pointer(Pointer {
                region: Region::Other(UNTRUSTED_MEMORY.to_owned()),
                offset: Scalar::of_width(64),
                nullable: true,
            }),
            _ => Value::Unknown,
        }
    }

    /// Whether it is a number or an address that may be any outside the program's frames.
    fn may_be_any_address(&self) -> bool {
        match self {
            Value::Scalar(_) => true,
            Value::Pointer(pointer) => pointer.region.may_be_any_other(),
            Value::Uninit | Value::Unknown => false,
        }
    }
}
