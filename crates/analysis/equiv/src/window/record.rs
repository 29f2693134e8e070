//! A question as data: evidence contains it, and its query can be made from it again.
//!
//! ```text
//!   Window  --of-->  WindowRecord  --serde-->  JSON  --serde-->  WindowRecord  --query-->  SMT-LIB 2 text
//! ```
//!
//! A record has everything that a query depends on, except the object's maps and program types: instructions as slots,
//! facts as numbers, and what is read afterwards. So a reader with the record and the object can make the query again
//! and compare it with the one in the file. Facts that the windows do not use are left out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kiln_isa::{Insn, Reg, RegSet, Slot, decode, encode};
use kiln_program::{CoreId, ExternId, FunctionId, InsnId, MapId, Node, Object, Reference};
use kiln_verifier::{InsnFacts, Pointer, Region, Scalar, StackSet, Tnum, Value};
use serde::{Deserialize, Serialize};

use crate::window::question::{Exit, Window};

/// An instruction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its id; branches name their targets by it.
    pub id: u32,
    /// Its text, with names for what it refers to.
    pub text: String,
    /// Its slots in hexadecimal, little-endian.
    pub code: String,
    /// What it refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refers: Option<ReferenceRecord>,
    /// The number of its CO-RE relocation in the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<u32>,
}

/// What an instruction refers to, by numbers in the object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReferenceRecord {
    /// A branch's target.
    Branch(u32),
    /// A map.
    Map(u32),
    /// A byte of a map's first value: map, offset.
    MapValue(u32, u32),
    /// A function.
    Function(u32),
    /// A kernel symbol.
    Extern(u32),
}

/// What is known of a scalar. Ranges are inclusive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ScalarRecord {
    /// Known bits.
    pub value: u64,
    /// Which bits are not known.
    pub unknown: u64,
    /// Range of all 64 bits, unsigned.
    pub unsigned: [u64; 2],
    /// Range of all 64 bits, signed.
    pub signed: [i64; 2],
    /// Range of the lower half, unsigned.
    pub unsigned_32: [u32; 2],
    /// Range of the lower half, signed.
    pub signed_32: [i32; 2],
}

/// What a register or stack slot may hold.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ValueRecord {
    /// It is not readable.
    Uninit,
    /// A number.
    Scalar(ScalarRecord),
    /// A pointer.
    Pointer {
        /// What it points into.
        region: RegionRecord,
        /// Bytes from the region's start.
        offset: ScalarRecord,
        /// Whether it may be null.
        nullable: bool,
    },
}

/// What a pointer points into.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegionRecord {
    /// The context.
    Context,
    /// The frame this many calls up.
    Stack(u32),
    /// A map itself.
    Map(u32),
    /// A value of a map.
    MapValue(u32),
    /// Packet data.
    Packet,
    /// Packet metadata.
    PacketMeta,
    /// The end of the packet.
    PacketEnd,
    /// Other memory, by the kernel's name for it.
    Other(String),
}

/// What is known before a window of what it uses. Nothing is assumed of anything else.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FactsRecord {
    /// Registers by number.
    pub registers: BTreeMap<u8, ValueRecord>,
    /// Eight-byte stack slots by their lowest byte's distance from the frame pointer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stack: BTreeMap<i16, ValueRecord>,
    /// Bytes of the packet that may be read.
    #[serde(default)]
    pub packet_bytes: u32,
}

/// What may be read where a branch leaves a window.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ExitRecord {
    /// The instruction there.
    pub target: u32,
    /// How many low bits of which registers.
    pub registers: BTreeMap<u8, u8>,
    /// Bytes of the frame, as ranges from the frame pointer, ends included.
    pub stack: Vec<[i32; 2]>,
}

/// A window: two runs of instructions, what is known before, and what is read after.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WindowRecord {
    /// The original instructions.
    pub before: Vec<NodeRecord>,
    /// What replaces them.
    pub after: Vec<NodeRecord>,
    /// What is known; absent: nothing.
    pub facts: Option<FactsRecord>,
    /// Registers read afterwards, by number, without those that neither window writes.
    pub live_registers: Vec<u8>,
    /// Bytes of the frame read afterwards, as ranges from the frame pointer, ends included.
    pub live_stack: Vec<[i32; 2]>,
    /// What is read after its exits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exits: Vec<ExitRecord>,
}

/// Why a record is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecordError {
    /// An instruction's slots are not one instruction.
    #[error("instruction {id}: {reason}")]
    Code {
        /// Which.
        id: u32,
        /// What is wrong.
        reason: String,
    },
    /// The text of an instruction is not that of its slots.
    #[error("instruction {id} is `{says}`, but its slots are `{is}`")]
    Text {
        /// Which.
        id: u32,
        /// Its text.
        says: String,
        /// What it should be.
        is: String,
    },
    /// A number that names nothing.
    #[error("{0}")]
    Number(String),
    /// The windows cannot be compared.
    #[error("{0}")]
    NoQuery(String),
}

/// An instruction with names for what it refers to; a branch's target by its id, which rewrites do not change.
pub fn listed(object: &Object, node: &Node) -> String {
    match node.target() {
        Some(target) => {
            let text = node.insn.to_string();
            format!("{}@{}", text.strip_suffix("+0x0").unwrap_or(&text), target.0)
        }
        None => kiln_program::text::node_text(object, node, &kiln_program::text::Labels::default()),
    }
}

impl NodeRecord {
    /// The record of an instruction.
    pub fn of(object: &Object, node: &Node) -> NodeRecord {
        let (first, second) = encode(&node.insn);
        let bytes = std::iter::once(first).chain(second).flat_map(Slot::to_bytes);
        NodeRecord {
            id: node.id.0,
            text: listed(object, node),
            code: bytes.map(|byte| format!("{byte:02x}")).collect(),
            refers: ReferenceRecord::of(node.reference),
            core: node.core.map(|core| core.0),
        }
    }

    /// The instruction.
    ///
    /// # Errors
    /// Returns an error for slots that are not an instruction, a text that does not match them, or a reference to
    /// something that the object does not have.
    pub fn node(&self, object: &Object) -> Result<Node, RecordError> {
        let wrong = |reason: String| RecordError::Code { id: self.id, reason };
        let digits = self.code.as_bytes();
        let bytes: Option<Vec<u8>> = (digits.len() <= 32 && digits.len() % 2 == 0)
            .then(|| digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()).collect())
            .flatten();
        let slots = bytes.and_then(|bytes| Slot::parse_all(&bytes));
        let slots = slots.ok_or_else(|| wrong("its code is no slots in hexadecimal".to_owned()))?;
        let insn = decode(&slots).map_err(|error| wrong(error.to_string()))?;
        if insn.slots() as usize != slots.len() {
            return Err(wrong("its code is more than one instruction".to_owned()));
        }
        let within = |what: &str, number: u32, count: usize| {
            let inside = (number as usize) < count;
            inside.then_some(()).ok_or_else(|| RecordError::Number(format!("the object has no {what} {number}")))
        };
        match self.refers {
            Some(ReferenceRecord::Map(map) | ReferenceRecord::MapValue(map, _)) => {
                within("map", map, object.maps.len())?;
            }
            Some(ReferenceRecord::Function(function)) => within("function", function, object.functions.len())?,
            Some(ReferenceRecord::Extern(symbol)) => within("extern", symbol, object.externs.len())?,
            Some(ReferenceRecord::Branch(_)) | None => {}
        }
        let reference = self.refers.map_or(Reference::None, ReferenceRecord::reference);
        if let Some(core) = self.core {
            within("CO-RE relocation", core, object.core.len())?;
        }
        let node = Node { id: InsnId(self.id), insn, reference, line: None, core: self.core.map(CoreId) };
        let is = listed(object, &node);
        if is != self.text {
            return Err(RecordError::Text { id: self.id, says: self.text.clone(), is });
        }
        Ok(node)
    }
}

impl ReferenceRecord {
    /// The record of an instruction's reference, if it has one.
    pub fn of(reference: Reference) -> Option<ReferenceRecord> {
        match reference {
            Reference::None => None,
            Reference::Branch(id) => Some(ReferenceRecord::Branch(id.0)),
            Reference::Map(map) => Some(ReferenceRecord::Map(map.0)),
            Reference::MapValue { map, offset } => Some(ReferenceRecord::MapValue(map.0, offset)),
            Reference::Function(function) => Some(ReferenceRecord::Function(function.0)),
            Reference::Extern(symbol) => Some(ReferenceRecord::Extern(symbol.0)),
        }
    }

    /// What it refers to.
    pub fn reference(self) -> Reference {
        match self {
            ReferenceRecord::Branch(id) => Reference::Branch(InsnId(id)),
            ReferenceRecord::Map(map) => Reference::Map(MapId(map)),
            ReferenceRecord::MapValue(map, offset) => Reference::MapValue { map: MapId(map), offset },
            ReferenceRecord::Function(function) => Reference::Function(FunctionId(function)),
            ReferenceRecord::Extern(symbol) => Reference::Extern(ExternId(symbol)),
        }
    }
}

/// The instructions of records.
///
/// # Errors
/// As [`NodeRecord::node`].
pub fn nodes(records: &[NodeRecord], object: &Object) -> Result<Vec<Node>, RecordError> {
    records.iter().map(|record| record.node(object)).collect()
}

impl ScalarRecord {
    fn of(scalar: &Scalar) -> ScalarRecord {
        ScalarRecord {
            value: scalar.tnum.value,
            unknown: scalar.tnum.mask,
            unsigned: [scalar.umin, scalar.umax],
            signed: [scalar.smin, scalar.smax],
            unsigned_32: [scalar.u32_min, scalar.u32_max],
            signed_32: [scalar.s32_min, scalar.s32_max],
        }
    }

    fn scalar(&self) -> Scalar {
        Scalar {
            tnum: Tnum { value: self.value & !self.unknown, mask: self.unknown },
            umin: self.unsigned[0],
            umax: self.unsigned[1],
            smin: self.signed[0],
            smax: self.signed[1],
            u32_min: self.unsigned_32[0],
            u32_max: self.unsigned_32[1],
            s32_min: self.signed_32[0],
            s32_max: self.signed_32[1],
        }
    }

    /// Such as `5`, `in 0..=255` or `in 0..=252, bits & 0x3 = 0x0`.
    fn text(&self) -> String {
        if self.unknown == 0 {
            return format!("{:#x}", self.value);
        }
        let mut parts = Vec::new();
        let full = |low: i128, high: i128, least: i128, most: i128| low == least && high == most;
        if !full(self.unsigned[0].into(), self.unsigned[1].into(), 0, u64::MAX.into()) {
            parts.push(format!("{:#x}..={:#x}", self.unsigned[0], self.unsigned[1]));
        }
        if !full(self.signed[0].into(), self.signed[1].into(), i64::MIN.into(), i64::MAX.into())
            && (self.signed[0] < 0
                || self.unsigned[0] as i64 != self.signed[0]
                || self.unsigned[1] as i64 != self.signed[1])
        {
            parts.push(format!("signed {}..={}", self.signed[0], self.signed[1]));
        }
        let [low, high] = self.unsigned_32;
        if (low, high) != (0, u32::MAX) && [u64::from(low), u64::from(high)] != self.unsigned {
            parts.push(format!("low half {low:#x}..={high:#x}"));
        }
        let [low, high] = self.signed_32;
        if (low, high) != (i32::MIN, i32::MAX) && (low < 0 || [low as u32, high as u32] != self.unsigned_32) {
            parts.push(format!("low half signed {low}..={high}"));
        }
        // Zeros above the greatest value follow from the range.
        let said = self.unsigned[1].checked_ilog2().map_or(0, |top| u64::MAX >> (63 - top));
        let known = !self.unknown & said;
        if known != 0 {
            parts.push(format!("bits {known:#x} are {:#x}", self.value & known));
        }
        if parts.is_empty() { "any number".to_owned() } else { format!("a number: {}", parts.join(", ")) }
    }
}

impl ValueRecord {
    /// The record of a value; `None` if nothing is known of it.
    pub fn of(value: &Value) -> Option<ValueRecord> {
        Some(match value {
            Value::Unknown => return None,
            Value::Uninit => ValueRecord::Uninit,
            Value::Scalar(scalar) => ValueRecord::Scalar(ScalarRecord::of(scalar)),
            Value::Pointer(Pointer { region, offset, nullable }) => {
                let region = match region {
                    Region::Context => RegionRecord::Context,
                    Region::Stack { up } => RegionRecord::Stack(*up),
                    Region::Map(map) => RegionRecord::Map(map.0),
                    Region::MapValue(map) => RegionRecord::MapValue(map.0),
                    Region::Packet => RegionRecord::Packet,
                    Region::PacketMeta => RegionRecord::PacketMeta,
                    Region::PacketEnd => RegionRecord::PacketEnd,
                    Region::Other(name) => RegionRecord::Other(name.clone()),
                };
                ValueRecord::Pointer { region, offset: ScalarRecord::of(offset), nullable: *nullable }
            }
        })
    }

    fn value(&self) -> Value {
        match self {
            ValueRecord::Uninit => Value::Uninit,
            ValueRecord::Scalar(scalar) => Value::Scalar(scalar.scalar()),
            ValueRecord::Pointer { region, offset, nullable } => {
                let region = match region {
                    RegionRecord::Context => Region::Context,
                    RegionRecord::Stack(up) => Region::Stack { up: *up },
                    RegionRecord::Map(map) => Region::Map(MapId(*map)),
                    RegionRecord::MapValue(map) => Region::MapValue(MapId(*map)),
                    RegionRecord::Packet => Region::Packet,
                    RegionRecord::PacketMeta => Region::PacketMeta,
                    RegionRecord::PacketEnd => Region::PacketEnd,
                    RegionRecord::Other(name) => Region::Other(name.clone()),
                };
                Value::Pointer(Pointer { region, offset: offset.scalar(), nullable: *nullable })
            }
        }
    }

    fn text(&self, object: &Object) -> String {
        let map = |number: u32| object.maps.get(number as usize).map_or("?", |map| map.name.as_str());
        match self {
            ValueRecord::Uninit => "not readable".to_owned(),
            ValueRecord::Scalar(scalar) => scalar.text(),
            ValueRecord::Pointer { region, offset, nullable } => {
                let region = match region {
                    RegionRecord::Context => "context".to_owned(),
                    RegionRecord::Stack(0) => "frame".to_owned(),
                    RegionRecord::Stack(up) => format!("frame {up} up"),
                    RegionRecord::Map(number) => format!("map {}", map(*number)),
                    RegionRecord::MapValue(number) => format!("value of {}", map(*number)),
                    RegionRecord::Packet => "packet".to_owned(),
                    RegionRecord::PacketMeta => "packet metadata".to_owned(),
                    RegionRecord::PacketEnd => "packet end".to_owned(),
                    RegionRecord::Other(name) => name.clone(),
                };
                let null = if *nullable { " or null" } else { "" };
                match offset.scalar().as_constant().map(|offset| offset as i64) {
                    Some(offset) => format!("{region} {offset:+}{null}"),
                    None => format!("{region} + {}{null}", offset.text()),
                }
            }
        }
    }
}

impl FactsRecord {
    /// The record of what is known of these registers and, if memory is accessed, of the rest.
    pub fn of(facts: &InsnFacts, used: RegSet, memory: bool) -> FactsRecord {
        let registers =
            used.iter().filter_map(|reg| Some((reg.number(), ValueRecord::of(&facts.registers[reg.index()])?)));
        let stack = facts.stack.iter().filter(|_| memory);
        FactsRecord {
            registers: registers.collect(),
            stack: stack.filter_map(|(offset, value)| Some((*offset, ValueRecord::of(value)?))).collect(),
            packet_bytes: if memory { facts.packet_bytes } else { 0 },
        }
    }

    /// The facts.
    pub fn facts(&self) -> InsnFacts {
        let value = |index| self.registers.get(&(index as u8)).map_or(Value::Unknown, ValueRecord::value);
        InsnFacts {
            registers: std::array::from_fn(value),
            stack: self.stack.iter().map(|(offset, value)| (*offset, value.value())).collect(),
            packet_bytes: self.packet_bytes,
            live_after: RegSet::ALL,
            stack_live_after: StackSet::ALL,
        }
    }

    /// The facts as text, one line each.
    pub fn lines(&self, object: &Object) -> Vec<String> {
        let registers = self.registers.iter().map(|(reg, value)| format!("r{reg}: {}", value.text(object)));
        let stack = self.stack.iter().map(|(offset, value)| format!("stack {offset}: {}", value.text(object)));
        let packet = (self.packet_bytes > 0).then(|| format!("the packet has {} bytes", self.packet_bytes));
        registers.chain(stack).chain(packet).collect()
    }
}

impl WindowRecord {
    /// The record of a window.
    pub fn of(window: &Window<'_>) -> WindowRecord {
        let nodes = || window.before.iter().chain(window.after);
        let record = |nodes: &[Node]| nodes.iter().map(|node| NodeRecord::of(window.object, node)).collect();
        let read = nodes().fold(RegSet::EMPTY, |read, node| read.union(node.insn.read()));
        let written: RegSet = nodes().filter_map(|node| node.insn.written()).collect();
        let calls = nodes().any(|node| matches!(node.insn, Insn::Call(_) | Insn::LoadPacket { .. }));
        let simple = |insn: &Insn| {
            matches!(insn, Insn::Alu { .. } | Insn::Neg { .. } | Insn::MoveSignExtend { .. } | Insn::Endian { .. })
                || matches!(insn, Insn::LoadImm64 { .. } | Insn::Branch { .. } | Insn::Jump { .. })
        };
        let memory = nodes().any(|node| !simple(&node.insn));
        let changed = |reg: &Reg| calls || written.contains(*reg);
        let used = if calls { RegSet::ALL } else { read.union(written) };
        let exit = |exit: &Exit| {
            let bits = Reg::all().filter(&changed).map(|reg| (reg.number(), exit.bits[reg.index()]));
            let stack = if memory { ranges(&exit.stack_live) } else { Vec::new() };
            ExitRecord { target: exit.target.0, registers: bits.filter(|(_, bits)| *bits > 0).collect(), stack }
        };
        WindowRecord {
            before: record(window.before),
            after: record(window.after),
            facts: window.facts.map(|facts| FactsRecord::of(facts, used, memory)),
            live_registers: window.live_after.iter().filter(changed).map(|reg| reg.number()).collect(),
            live_stack: if memory { ranges(&window.stack_live_after) } else { Vec::new() },
            exits: window.exits.iter().map(exit).collect(),
        }
    }

    /// Makes the window again and passes it to `ask`.
    ///
    /// # Errors
    /// Returns an error if the record is not a window of this object.
    pub fn with_window<R>(&self, object: &Object, ask: impl FnOnce(&Window<'_>) -> R) -> Result<R, RecordError> {
        let (before, after) = (nodes(&self.before, object)?, nodes(&self.after, object)?);
        let facts = self.facts.as_ref().map(FactsRecord::facts);
        let live: Option<Vec<Reg>> = self.live_registers.iter().map(|number| Reg::new(*number)).collect();
        let live = live.ok_or_else(|| RecordError::Number("there are registers 0 to 10".to_owned()))?;
        let exits: Vec<Exit> = self.exits.iter().map(ExitRecord::exit).collect();
        let window = Window {
            before: &before,
            after: &after,
            facts: facts.as_ref(),
            live_after: RegSet::of(&live),
            stack_live_after: stack_set(&self.live_stack),
            exits: &exits,
            object,
        };
        Ok(ask(&window))
    }

    /// What is read afterwards, in words.
    pub fn postcondition(&self) -> Vec<String> {
        let registers = self.live_registers.iter().map(|number| format!("r{number}"));
        let stack = |ranges: &[[i32; 2]]| {
            ranges.iter().map(|[first, last]| format!("stack {first}..={last}")).collect::<Vec<_>>()
        };
        let exits = self.exits.iter().map(|exit| {
            let registers = exit.registers.iter().map(|(reg, bits)| format!("r{reg}: {bits} bits"));
            let read: Vec<_> = registers.chain(stack(&exit.stack)).collect();
            format!("at @{}: {}", exit.target, if read.is_empty() { "nothing".to_owned() } else { read.join(", ") })
        });
        registers.chain(stack(&self.live_stack)).chain(exits).collect()
    }

    /// What is known before, in words.
    pub fn precondition(&self, object: &Object) -> Vec<String> {
        self.facts.as_ref().map(|facts| facts.lines(object)).unwrap_or_default()
    }

    pub(crate) fn heading(&self, object: &Object) -> String {
        let texts = |nodes: &[NodeRecord]| nodes.iter().map(|node| node.text.clone()).collect::<Vec<_>>();
        let mut text = String::from("; Is there a state in which these do not do the same? unsat: there is none.\n");
        comment(&mut text, "before", &texts(&self.before));
        comment(&mut text, "after", &texts(&self.after));
        comment(&mut text, "known at the start", &self.precondition(object));
        comment(&mut text, "read afterwards", &self.postcondition());
        text
    }
}

impl ExitRecord {
    fn exit(&self) -> Exit {
        let bits = std::array::from_fn(|reg| self.registers.get(&(reg as u8)).copied().unwrap_or(0).min(64));
        Exit { target: InsnId(self.target), bits, stack_live: stack_set(&self.stack) }
    }
}

/// The set of bytes in the ranges.
fn stack_set(ranges: &[[i32; 2]]) -> StackSet {
    let mut set = StackSet::EMPTY;
    for [first, last] in ranges {
        // Hostile numbers: a frame has 512 bytes.
        let (first, last) = ((*first).clamp(-512, 0), (*last).clamp(-513, -1));
        set.insert(first, u32::try_from(last - first + 1).unwrap_or(0));
    }
    set
}

/// Lines as comments under a heading.
pub(crate) fn comment(text: &mut String, heading: &str, lines: &[String]) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "; {heading}:{}", if lines.is_empty() { " nothing" } else { "" });
    for line in lines {
        let _ = writeln!(text, ";   {}", line.replace(|c: char| c.is_control(), "?"));
    }
}

/// The set as ranges, lowest first, ends included.
pub(crate) fn ranges(set: &StackSet) -> Vec<[i32; 2]> {
    let mut found: Vec<[i32; 2]> = Vec::new();
    for offset in set.iter() {
        match found.last_mut() {
            Some(last) if last[1] + 1 == offset => last[1] = offset,
            _ => found.push([offset, offset]),
        }
    }
    found
}
