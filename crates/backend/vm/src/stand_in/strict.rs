//! A run in which every pointer may only reach what it was made from: shows an unsafe program going wrong.
//!
//! The VM's memory finds an access that leads nowhere, but not one that leads from one map value into the next. So each
//! register and each spilled word carries what it points into:
//!
//! ```text
//!   r0 = map_lookup_elem(table)      r0: a value of table, 128 bytes at 0x5000
//!   r1 <<= 3                         r1: a number
//!   r0 += r1                         r0: still that value of table
//!   r0 = *(u64 *)(r0 + 0)            0x5080 is outside of it: this is where the program goes wrong
//! ```
//!
//! Objects of the kernel, and what is read from them, are foreign: nothing is claimed about them. So what is found is
//! really wrong, and a program in which nothing is found need not be safe.

mod calls;
mod references;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use kiln_isa::{Address, AluOp, AtomicOp, Insn, Reg, Source, Width};
use kiln_platform::{FieldValue, Kfunc, ProgramType};
use kiln_program::{InsnId, MapId, Node, Reference};

use self::references::References;
use super::made_up::is_kernel;
use crate::state::State;

/// Bytes of one frame.
const FRAME_BYTES: u64 = kiln_platform::limits::MAX_STACK_BYTES as u64;

/// What went wrong in a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The instruction.
    pub insn: InsnId,
    /// The kind of mistake.
    pub kind: Wrong,
    /// What exactly, in a sentence.
    pub text: String,
}

/// A kind of mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// A register is read that was never written.
    Unset,
    /// Stack bytes are read that were never written.
    UnsetStack,
    /// Memory is accessed through 0.
    Null,
    /// Memory is accessed through a number.
    Number,
    /// Memory is accessed outside of what the pointer was made from.
    Outside,
    /// The packet may have moved since the pointer was made.
    Moved,
    /// What the pointer was made from was given back.
    Released,
    /// Memory is written that is read-only.
    ReadOnly,
    /// A size is 0 where that is not allowed, or no size of memory.
    Size,
    /// A call is given a context as plain memory: the kernel's has another layout.
    Context,
    /// Something is still held at the end.
    Held,
    /// The run does not end.
    Endless,
}

/// Comparisons of a run that are kept.
const MOST_COMPARED: usize = 256;

/// Two numbers that a branch compared: what inputs may be made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Compared {
    /// The branch.
    pub insn: InsnId,
    /// The numbers, of the width that the branch compares.
    pub sides: [u64; 2],
}

/// One step of a run: the registers before an instruction.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its number in the run, from 1.
    pub number: u64,
    /// The instruction.
    pub insn: InsnId,
    /// The number of calls that it is inside.
    pub depth: usize,
    /// The registers.
    pub registers: [u64; Reg::COUNT],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Thing {
    Stack,
    Context,
    Packet,
    Value(MapId),
    Record,
    Socket,
    Map,
}

/// What a pointer was made from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Origin {
    thing: Thing,
    start: u64,
    end: u64,
    /// How often the packet had moved.
    moves: u32,
}

/// What is known of a value besides its bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shadow {
    Unset,
    Number,
    Foreign,
    Pointer(Origin),
}

/// Where the shadow of a register comes from once its value is there.
#[derive(Clone, Copy, Debug)]
enum Pending {
    Nothing,
    /// This shadow, unless the value is 0.
    Object(Reg, Thing, u64),
    /// A pointer into a map's value, so many bytes behind its start.
    Direct(Reg, MapId, u64),
    /// A map itself.
    Map(Reg),
    /// An object of the kernel's, or null.
    Nullable(Reg),
    /// A word of a context.
    Field(Reg, FieldValue),
    /// A word of a map value or a kernel object.
    Word(Reg),
}

#[derive(Clone, Debug)]
struct Frame {
    registers: [Shadow; Reg::COUNT],
    pending: Pending,
}

/// The shadow of a run.
#[derive(Debug, Default)]
pub(super) struct Strict {
    frames: Vec<Frame>,
    /// Spilled words, by address.
    spilled: HashMap<u64, Shadow>,
    /// Stack bytes that were written.
    written: HashSet<u64>,
    released: HashSet<u64>,
    references: References,
    moves: u32,
    /// Whether a call pushed the frame that is about to begin.
    entering: bool,
    pub(super) violation: Option<Violation>,
    /// The instructions that ran.
    pub(super) reached: BTreeSet<InsnId>,
    /// The last steps, the latest first, at most `most_steps`.
    pub(super) steps: VecDeque<Step>,
    pub(super) most_steps: usize,
    pub(super) executed: u64,
    /// What comparisons saw, at most [`MOST_COMPARED`] of them.
    pub(super) compared: BTreeSet<Compared>,
}

impl Strict {
    pub(super) fn begin(&mut self) {
        let Strict { most_steps, .. } = *self;
        *self = Strict { most_steps, ..Strict::default() };
    }

    fn wrong(&mut self, node: &Node, kind: Wrong, text: String) {
        self.violation.get_or_insert(Violation { insn: node.id, kind, text });
    }

    /// A frame begins: by a call, for a callback, or again by a tail call.
    pub(super) fn frame_begins(&mut self, state: &State, depth: usize) {
        let Some(frames) = state.stack.map(|stack| stack.frames) else { return };
        let start = state.memory.start(frames) + depth as u64 * FRAME_BYTES;
        let end = start + FRAME_BYTES;
        self.written.retain(|address| !(start..end).contains(address));
        self.spilled.retain(|address, _| !(start..end).contains(address));
        if std::mem::take(&mut self.entering) {
            return;
        }
        let mut registers = [Shadow::Unset; Reg::COUNT];
        if depth == 0 || depth < self.frames.len() {
            let context = state.packet.context_addresses();
            let origin = Origin { thing: Thing::Context, start: context.start, end: context.end, moves: 0 };
            registers[1] = Shadow::Pointer(origin);
        } else {
            registers[1..6].fill(Shadow::Foreign);
        }
        registers[10] = stack(start, end);
        self.frames.truncate(depth);
        self.frames.push(Frame { registers, pending: Pending::Nothing });
    }

    /// Follows an instruction that is about to run; `kfunc` is the one that it calls, if it is known.
    pub(super) fn before(
        &mut self,
        state: &State,
        program_type: ProgramType,
        (node, kfunc): (&Node, Option<&'static Kfunc>),
        depth: usize,
        registers: &[u64; Reg::COUNT],
    ) {
        self.executed += 1;
        if self.violation.is_some() || depth >= self.frames.len() {
            return;
        }
        self.frames.truncate(depth + 1);
        self.settle(state, registers);
        self.reached.insert(node.id);
        if self.most_steps > 0 {
            self.steps.truncate(self.most_steps - 1);
            self.steps.push_front(Step { number: self.executed, insn: node.id, depth, registers: *registers });
        }
        if !matches!(node.insn, Insn::Call(_) | Insn::Exit) {
            for reg in node.insn.read().iter() {
                self.read(node, reg);
            }
        }
        match node.insn {
            Insn::Alu { op, width, dst, src } => self.alu(op, width, dst, src),
            Insn::Neg { dst, .. } | Insn::Endian { dst, .. } | Insn::MoveSignExtend { dst, .. } => {
                self.set(dst, Shadow::Number);
            }
            Insn::LoadImm64 { dst, .. } => self.constant(node, dst),
            Insn::AddressSpaceCast { dst, .. } => self.set(dst, Shadow::Foreign),
            Insn::Load { size, dst, address, .. } | Insn::LoadAcquire { size, dst, address } => {
                self.load(program_type, node, dst, address, size.bytes().into(), registers);
            }
            Insn::Store { size, address, src } => {
                let shadow = match src {
                    Source::Reg(reg) => self.get(reg),
                    Source::Imm(_) => Shadow::Number,
                };
                self.store(state, node, address, size.bytes().into(), shadow, registers);
            }
            Insn::StoreRelease { size, address, src } => {
                let shadow = self.get(src);
                self.store(state, node, address, size.bytes().into(), shadow, registers);
            }
            Insn::Atomic { op, fetch, size, address, src } => {
                self.store(state, node, address, size.bytes().into(), Shadow::Number, registers);
                match op {
                    AtomicOp::CompareExchange => self.set(Reg::R0, Shadow::Number),
                    _ if fetch => self.set(src, Shadow::Number),
                    _ => {}
                }
            }
            Insn::LoadPacket { .. } => self.called(Shadow::Number),
            Insn::Branch { width, dst, src, .. } => self.compare(node.id, width, [Source::Reg(dst), src], registers),
            Insn::Call(target) => self.call(state, program_type, (node, kfunc), target, registers),
            Insn::Exit => self.exit(state, node),
            Insn::Jump { .. } | Insn::JumpIndirect { .. } | Insn::MayGoto { .. } => {}
        }
    }

    fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a frame began")
    }

    fn get(&mut self, reg: Reg) -> Shadow {
        self.frame().registers[reg.index()]
    }

    fn set(&mut self, reg: Reg, shadow: Shadow) {
        self.frame().registers[reg.index()] = shadow;
    }

    fn read(&mut self, node: &Node, reg: Reg) {
        if self.get(reg) == Shadow::Unset {
            self.wrong(node, Wrong::Unset, format!("{reg} is read, and nothing was written to it"));
        }
    }

    /// What a call leaves: R1 to R5 are gone.
    fn called(&mut self, result: Shadow) {
        let frame = self.frame();
        frame.registers[1..6].fill(Shadow::Unset);
        frame.registers[0] = result;
    }

    /// The shadow of what the last instruction gave.
    fn settle(&mut self, state: &State, registers: &[u64; Reg::COUNT]) {
        let moves = self.moves;
        let pending = std::mem::replace(&mut self.frame().pending, Pending::Nothing);
        let value = |reg: Reg| registers[reg.index()];
        self.references.returned(value(Reg::R0));
        let (reg, shadow) = match pending {
            Pending::Nothing => return,
            Pending::Object(reg, ..) if value(reg) == 0 => (reg, Shadow::Number),
            Pending::Object(reg, thing, bytes) => {
                let start = value(reg);
                self.released.remove(&start);
                (reg, Shadow::Pointer(Origin { thing, start, end: start.saturating_add(bytes), moves }))
            }
            Pending::Direct(reg, map, offset) => {
                let start = value(reg).wrapping_sub(offset);
                let bytes = state.maps.get(map.index()).map_or(0, |map| map.definition.value_size.into());
                let origin = Origin { thing: Thing::Value(map), start, end: start.saturating_add(bytes), moves };
                (reg, if bytes == 0 { Shadow::Foreign } else { Shadow::Pointer(origin) })
            }
            Pending::Nullable(reg) if value(reg) == 0 => (reg, Shadow::Number),
            Pending::Nullable(reg) => (reg, Shadow::Foreign),
            Pending::Map(reg) => {
                let start = value(reg);
                (reg, Shadow::Pointer(Origin { thing: Thing::Map, start, end: start, moves }))
            }
            Pending::Field(reg, field) => (reg, self.field(state, field, value(reg))),
            Pending::Word(reg) if is_kernel(value(reg)) => (reg, Shadow::Foreign),
            Pending::Word(reg) => (reg, Shadow::Number),
        };
        self.set(reg, shadow);
    }

    fn field(&self, state: &State, field: FieldValue, value: u64) -> Shadow {
        let packet =
            |start: u64, end: u64| Shadow::Pointer(Origin { thing: Thing::Packet, start, end, moves: self.moves });
        let first = state.packet.address(0);
        let own = first..=first + state.packet.len() as u64;
        match field {
            FieldValue::Scalar => Shadow::Number,
            FieldValue::PacketPointer | FieldValue::PacketEnd if own.contains(&value) => {
                packet(*own.start(), *own.end())
            }
            FieldValue::PacketMeta if value <= first => packet(value, first),
            _ if value == 0 => Shadow::Number,
            FieldValue::TracedArgument if !is_kernel(value) => Shadow::Number,
            _ => Shadow::Foreign,
        }
    }

    fn alu(&mut self, op: AluOp, width: Width, dst: Reg, src: Source) {
        let right = match src {
            Source::Reg(reg) => self.get(reg),
            Source::Imm(_) => Shadow::Number,
        };
        let left = self.get(dst);
        let result = match (op, width) {
            (AluOp::Mov, Width::W64) => right,
            (_, Width::W32) => Shadow::Number,
            _ => match (left, right) {
                (Shadow::Pointer(_), Shadow::Pointer(_)) => Shadow::Number,
                (Shadow::Foreign, _) | (_, Shadow::Foreign) => Shadow::Foreign,
                (Shadow::Pointer(origin), _) | (_, Shadow::Pointer(origin)) => Shadow::Pointer(origin),
                _ => Shadow::Number,
            },
        };
        self.set(dst, result);
    }

    fn constant(&mut self, node: &Node, dst: Reg) {
        let shadow = match node.reference {
            Reference::MapValue { map, offset } => {
                self.frame().pending = Pending::Direct(dst, map, offset.into());
                Shadow::Foreign
            }
            Reference::Map(_) => {
                self.frame().pending = Pending::Map(dst);
                Shadow::Foreign
            }
            Reference::Function(_) | Reference::Extern(_) => Shadow::Foreign,
            _ => Shadow::Number,
        };
        self.set(dst, shadow);
    }

    /// Keeps what a branch compares. Addresses differ from run to run, so the distance of two addresses is kept. An address
    /// beside a number is not kept.
    fn compare(&mut self, insn: InsnId, width: Width, sides: [Source; 2], registers: &[u64; Reg::COUNT]) {
        let value = |side: Source| match side {
            Source::Imm(value) => i64::from(value) as u64,
            Source::Reg(reg) => registers[reg.index()],
        };
        let is_address = |side: Source| match side {
            Source::Imm(_) => false,
            Source::Reg(reg) => match self.get(reg) {
                Shadow::Pointer(_) => true,
                Shadow::Foreign => registers[reg.index()] > u32::MAX.into(),
                Shadow::Number | Shadow::Unset => false,
            },
        };
        let narrow = |value: u64| if width == Width::W32 { u64::from(value as u32) } else { value };
        let sides = match sides.map(is_address) {
            [false, false] => sides.map(|side| narrow(value(side))),
            [true, true] => [value(sides[0]).abs_diff(value(sides[1])), 0],
            _ => return,
        };
        if self.compared.len() < MOST_COMPARED {
            self.compared.insert(Compared { insn, sides });
        }
    }

    /// Whether `bytes` bytes at an address, which a register holds, may be accessed.
    fn check(&mut self, node: &Node, name: &str, shadow: Shadow, address: u64, bytes: u64) -> Option<Origin> {
        match shadow {
            Shadow::Unset => {
                self.wrong(node, Wrong::Unset, format!("{name} is used, and nothing was written to it"));
                None
            }
            Shadow::Number if address < 4096 => {
                let text = format!("{name} leads to address {address}: it is null");
                self.wrong(node, Wrong::Null, text);
                None
            }
            Shadow::Number => {
                let text = format!("{name} is the number {address:#x}, and no pointer");
                self.wrong(node, Wrong::Number, text);
                None
            }
            Shadow::Foreign => None,
            Shadow::Pointer(origin) => {
                let offset = address.wrapping_sub(origin.start) as i64;
                let (what, size) = (origin.words(), origin.end - origin.start);
                if origin.thing == Thing::Map {
                    // Fields of the kernel's structure may be read; `store` refuses the rest.
                } else if self.released.contains(&origin.start) && origin.thing != Thing::Packet {
                    self.wrong(node, Wrong::Released, format!("{name} points into {what} that was given back"));
                } else if origin.thing == Thing::Packet && origin.moves != self.moves {
                    let text = format!("{name} was made before a call that may have moved the packet");
                    self.wrong(node, Wrong::Moved, text);
                } else if address < origin.start || address.checked_add(bytes).is_none_or(|end| end > origin.end) {
                    let text = format!(
                        "{name} reaches bytes {offset} to {} of {what}, which has {size}",
                        offset.saturating_add(bytes as i64 - 1)
                    );
                    self.wrong(node, Wrong::Outside, text);
                }
                Some(origin)
            }
        }
    }

    /// The address that an instruction accesses, and what the pointer to it was made from, if that is known.
    fn reach(
        &mut self,
        node: &Node,
        address: Address,
        bytes: u64,
        registers: &[u64; Reg::COUNT],
    ) -> (u64, Option<Origin>) {
        let at = registers[address.base.index()].wrapping_add(address.offset as i64 as u64);
        let base = self.get(address.base);
        (at, self.check(node, &address.base.to_string(), base, at, bytes))
    }

    fn load(
        &mut self,
        program_type: ProgramType,
        node: &Node,
        dst: Reg,
        address: Address,
        bytes: u64,
        registers: &[u64; Reg::COUNT],
    ) {
        let (at, origin) = self.reach(node, address, bytes, registers);
        if self.violation.is_some() {
            return;
        }
        let (shadow, pending) = match origin.map(|origin| (origin.thing, origin)) {
            None => (Shadow::Foreign, Pending::Nothing),
            Some((Thing::Stack, _)) => {
                self.read_stack(node, at, bytes);
                let whole = bytes == 8 && at % 8 == 0;
                let word = self.spilled.get(&at).copied().filter(|_| whole);
                (word.unwrap_or(Shadow::Number), Pending::Nothing)
            }
            Some((Thing::Context, origin)) => {
                let field = program_type.context().field_at((at - origin.start) as u32);
                let value = field.map_or(FieldValue::Scalar, |field| field.value);
                (Shadow::Number, Pending::Field(dst, value))
            }
            Some((Thing::Value(_), _)) if bytes == 8 => (Shadow::Number, Pending::Word(dst)),
            Some((Thing::Socket | Thing::Map, _)) => (Shadow::Foreign, Pending::Nothing),
            Some(_) => (Shadow::Number, Pending::Nothing),
        };
        self.set(dst, shadow);
        self.frame().pending = pending;
    }

    fn read_stack(&mut self, node: &Node, at: u64, bytes: u64) {
        if let Some(missing) = (at..at + bytes).find(|byte| !self.written.contains(byte)) {
            let text = format!("byte {} of the {bytes} that are read from the stack was never written", missing - at);
            self.wrong(node, Wrong::UnsetStack, text);
        }
    }

    fn store(
        &mut self,
        state: &State,
        node: &Node,
        address: Address,
        bytes: u64,
        shadow: Shadow,
        registers: &[u64; Reg::COUNT],
    ) {
        let (at, origin) = self.reach(node, address, bytes, registers);
        if self.violation.is_none()
            && let Some(origin) = origin
        {
            self.write(state, node, origin, at, bytes);
            if origin.thing == Thing::Stack && bytes == 8 && at % 8 == 0 {
                self.spilled.insert(at, shadow);
            }
        }
    }

    /// Memory that is written, by an instruction or a call.
    fn write(&mut self, state: &State, node: &Node, origin: Origin, at: u64, bytes: u64) {
        match origin.thing {
            Thing::Stack => {
                for byte in at..at + bytes {
                    self.written.insert(byte);
                }
                self.spilled.retain(|word, _| *word + 8 <= at || at + bytes <= *word);
            }
            Thing::Map => {
                self.wrong(node, Wrong::Outside, format!("{bytes} bytes of a map itself are written, not of a value"));
            }
            Thing::Value(_) if !state.memory.is_open(at, bytes as usize, true) => {
                self.wrong(node, Wrong::ReadOnly, format!("{bytes} bytes of {} are written", origin.words()));
            }
            _ => {}
        }
    }
}

fn stack(start: u64, end: u64) -> Shadow {
    Shadow::Pointer(Origin { thing: Thing::Stack, start, end, moves: 0 })
}

impl Origin {
    fn words(self) -> String {
        match self.thing {
            Thing::Stack => "the stack frame".to_owned(),
            Thing::Context => "the context".to_owned(),
            Thing::Packet => "the packet".to_owned(),
            Thing::Value(map) => format!("a value of map {}", map.0),
            Thing::Record => "a record".to_owned(),
            Thing::Socket => "an object".to_owned(),
            Thing::Map => "a map".to_owned(),
        }
    }
}
