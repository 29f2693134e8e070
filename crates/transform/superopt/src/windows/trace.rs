//! What registers and memory hold along a run, byte by byte: where rules look for something to propose.
//!
//! ```text
//!   r1 = *(u8 *)(r6 + 0)        r1 = [a0 0 0 0 0 0 0 0]        a: loaded at packet + 0
//!   r2 = *(u8 *)(r6 + 1)        r2 = [b0 0 0 0 0 0 0 0]        b: loaded at packet + 1
//!   r2 <<= 8                    r2 = [0 b0 0 0 0 0 0 0]
//!   r2 |= r1                    r2 = [a0 b0 0 0 0 0 0 0]  =  two bytes at packet + 0, so one load gives it
//! ```
//!
//! Nothing here is trusted: a wrong guess makes a proposal that fails to be proved.

use kiln_isa::{Address, AluOp, ByteOrder, Imm64, Insn, Reg, RegSet, Size, Source, Width};
use kiln_program::{MapId, Reference};
use kiln_verifier::{Region as Kind, Value};

use crate::windows::region::Region;

/// One byte of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// A known byte.
    Constant(u8),
    /// A byte of what the instruction at a position computed (or of a register's first value, see [`INITIAL`]).
    Of {
        /// Position in the run.
        definition: usize,
        /// Which byte, from the lowest.
        byte: u8,
    },
}

/// Initial values are numbered downwards from the greatest number: `INITIAL` for register 0, one less for register 1.
pub const INITIAL: usize = usize::MAX;

/// What an address is relative to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Root {
    /// The value made at a position, or a first value.
    Value(usize),
    /// The frame pointer.
    Stack,
    /// The packet's start.
    Packet,
    /// The context.
    Context,
    /// The first byte of a data section.
    Section(MapId),
}

/// The kind of memory that an address points into, as far as known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// The frame, or another one.
    Stack,
    /// Packet data or metadata.
    Packet,
    /// The context.
    Context,
    /// Values of a map.
    MapValue(MapId),
    /// Not known.
    Unknown,
}

/// What a register holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// Where it was last written.
    pub definition: usize,
    /// As an address: relative to what.
    pub root: Root,
    /// As an address: bytes from there.
    pub offset: i64,
    /// As an address: into what.
    pub class: Class,
    /// As eight bytes.
    pub lanes: [Lane; 8],
}

impl Word {
    fn opaque(definition: usize) -> Word {
        let lanes = std::array::from_fn(|byte| Lane::Of { definition, byte: byte as u8 });
        Word { definition, root: Root::Value(definition), offset: 0, class: Class::Unknown, lanes }
    }

    fn of_lanes(definition: usize, lanes: [Lane; 8]) -> Word {
        Word { lanes, ..Word::opaque(definition) }
    }

    fn constant(definition: usize, value: u64) -> Word {
        Word::of_lanes(definition, value.to_le_bytes().map(Lane::Constant))
    }

    /// The value, where all bytes are known.
    pub fn as_constant(&self) -> Option<u64> {
        let mut bytes = [0; 8];
        for (byte, lane) in bytes.iter_mut().zip(self.lanes) {
            let Lane::Constant(value) = lane else { return None };
            *byte = value;
        }
        Some(u64::from_le_bytes(bytes))
    }
}

/// A memory access of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Position of the instruction.
    pub at: usize,
    /// Relative to what.
    pub root: Root,
    /// Bytes from there.
    pub offset: i64,
    /// How many bytes.
    pub size: Size,
    /// Into what.
    pub class: Class,
    /// Whether it stores.
    pub stores: bool,
    /// The bytes loaded or stored.
    pub lanes: [Lane; 8],
}

impl Access {
    /// Whether it may touch a byte of another access.
    pub fn may_touch(&self, other: &Access) -> bool {
        let (bytes, others) = (i64::from(self.size.bytes()), i64::from(other.size.bytes()));
        if self.root == other.root {
            self.offset < other.offset + others && other.offset < self.offset + bytes
        } else {
            self.class == other.class || self.class == Class::Unknown || other.class == Class::Unknown
        }
    }
}

/// A run, traced.
pub struct Trace {
    /// Registers before each instruction, and after the last.
    pub words: Vec<[Word; Reg::COUNT]>,
    /// Plain loads and stores, in order.
    pub accesses: Vec<Access>,
    /// Accesses before the last instruction that may change memory in ways not traced.
    since: usize,
}

impl Trace {
    /// Traces a run.
    pub fn new(region: &Region<'_>) -> Trace {
        let first = std::array::from_fn(|index| Word::opaque(INITIAL - index));
        let mut trace = Trace { words: vec![first], accesses: Vec::new(), since: 0 };
        for at in 0..region.nodes.len() {
            let mut words = trace.words[at];
            for reg in Reg::all() {
                root_by_facts(region, at, reg, &mut words[reg.index()]);
            }
            trace.words[at] = words;
            trace.step(region, at, &mut words);
            trace.words.push(words);
        }
        trace
    }

    /// What a register holds before the instruction at a position.
    pub fn word(&self, at: usize, reg: Reg) -> &Word {
        &self.words[at][reg.index()]
    }

    /// The load or store at a position.
    pub fn access(&self, at: usize) -> Option<&Access> {
        self.accesses.iter().find(|access| access.at == at)
    }

    /// A register and offset that name an address before the instruction at a position.
    pub fn address(&self, at: usize, root: Root, offset: i64) -> Option<Address> {
        let found = Reg::all().rev().find_map(|reg| {
            let word = self.word(at, reg);
            let distance = (word.root == root).then(|| offset.checked_sub(word.offset))??;
            Some(Address { base: reg, offset: i16::try_from(distance).ok()? })
        });
        found.or_else(|| {
            let offset = i16::try_from(offset).ok()?;
            (root == Root::Stack).then_some(Address { base: Reg::R10, offset })
        })
    }

    /// The place in memory that these bytes were loaded from, in ascending order.
    pub fn loaded_from(&self, lanes: &[Lane]) -> Option<(Root, i64)> {
        let place = |lane: &Lane| {
            let Lane::Of { definition, byte } = *lane else { return None };
            let access = self.access(definition).filter(|access| !access.stores)?;
            (u32::from(byte) < access.size.bytes()).then(|| (access.root, access.offset + i64::from(byte)))
        };
        let (root, first) = place(lanes.first()?)?;
        let ascending = lanes.iter().enumerate().all(|(at, lane)| place(lane) == Some((root, first + at as i64)));
        ascending.then_some((root, first))
    }

    // long: one arm for each form of instruction
    fn step(&mut self, region: &Region<'_>, at: usize, words: &mut [Word; Reg::COUNT]) {
        let node = &region.nodes[at];
        let known = node.core.is_none();
        let traced = matches!(node.insn, Insn::Store { .. }) && known;
        if !traced && !crate::flow::demand::only_computes(&node.insn) {
            self.since = self.accesses.len();
        }
        match node.insn {
            Insn::Alu { op, width, dst, src } if known => {
                let source = match src {
                    Source::Reg(reg) => words[reg.index()],
                    Source::Imm(imm) => Word::constant(at, i64::from(imm) as u64),
                };
                words[dst.index()] = alu(at, op, width, &words[dst.index()], &source);
            }
            Insn::Endian { order, size, dst } => {
                let bytes = size.bytes() as usize;
                let mut lanes = [Lane::Constant(0); 8];
                lanes[..bytes].copy_from_slice(&words[dst.index()].lanes[..bytes]);
                if order != ByteOrder::Little {
                    lanes[..bytes].reverse();
                }
                words[dst.index()] = Word::of_lanes(at, lanes);
            }
            Insn::LoadImm64 { dst, imm: Imm64::Value(value) } if known && node.reference == Reference::None => {
                words[dst.index()] = Word::constant(at, value);
            }
            Insn::LoadImm64 { dst, .. } => {
                let mut word = Word::opaque(at);
                if let (Reference::MapValue { map, offset }, true) = (node.reference, known) {
                    (word.root, word.offset, word.class) = (Root::Section(map), offset.into(), Class::MapValue(map));
                }
                words[dst.index()] = word;
            }
            Insn::Load { size, signed, dst, address } => {
                let mut word = Word::opaque(at);
                if !signed {
                    word.lanes[size.bytes() as usize..].fill(Lane::Constant(0));
                }
                if known {
                    self.access_at(at, words, address, size, false, word.lanes);
                    if let Some(earlier) = self.still_there().filter(|_| !signed) {
                        word.lanes[..size.bytes() as usize].copy_from_slice(&earlier);
                        self.accesses.last_mut().expect("it was just added").lanes = word.lanes;
                    }
                }
                words[dst.index()] = word;
            }
            Insn::Store { size, address, src } if known => {
                let lanes = match src {
                    Source::Reg(reg) => words[reg.index()].lanes,
                    Source::Imm(imm) => Word::constant(at, i64::from(imm) as u64).lanes,
                };
                self.access_at(at, words, address, size, true, lanes);
            }
            Insn::Call(_) | Insn::LoadPacket { .. } => {
                for reg in RegSet::CALLER_SAVED.iter() {
                    words[reg.index()] = Word::opaque(at);
                }
            }
            _ => {
                if let Some(dst) = node.insn.written() {
                    words[dst.index()] = Word::opaque(at);
                }
            }
        }
    }

    /// The bytes of the last access, a load, if an earlier access shows them and only the program changes that memory.
    fn still_there(&self) -> Option<Vec<Lane>> {
        let (load, earlier) = self.accesses.split_last()?;
        if !matches!(load.class, Class::Stack | Class::Packet | Class::Context) {
            return None;
        }
        let end = load.offset + i64::from(load.size.bytes());
        for access in earlier[self.since.min(earlier.len())..].iter().rev() {
            let covers = access.root == load.root
                && access.offset <= load.offset
                && end <= access.offset + i64::from(access.size.bytes());
            if covers {
                let from = (load.offset - access.offset) as usize;
                return Some(access.lanes[from..from + load.size.bytes() as usize].to_vec());
            }
            if access.stores && access.may_touch(load) {
                return None;
            }
        }
        None
    }

    fn access_at(
        &mut self,
        at: usize,
        words: &[Word; Reg::COUNT],
        address: Address,
        size: Size,
        stores: bool,
        lanes: [Lane; 8],
    ) {
        let base = &words[address.base.index()];
        let offset = base.offset.wrapping_add(address.offset.into());
        self.accesses.push(Access { at, root: base.root, offset, size, class: base.class, stores, lanes });
    }
}

/// Gives a register a known root if the facts know one.
fn root_by_facts(region: &Region<'_>, at: usize, reg: Reg, word: &mut Word) {
    if reg == Reg::R10 {
        (word.root, word.offset, word.class) = (Root::Stack, 0, Class::Stack);
        return;
    }
    let Some(value) = region.value(at, reg) else { return };
    match value {
        Value::Pointer(pointer) if !pointer.nullable => {
            word.class = match pointer.region {
                Kind::Stack { .. } => Class::Stack,
                Kind::Packet | Kind::PacketMeta => Class::Packet,
                Kind::Context => Class::Context,
                Kind::MapValue(map) => Class::MapValue(map),
                _ => Class::Unknown,
            };
            let root = match pointer.region {
                Kind::Stack { up: 0 } => Root::Stack,
                Kind::Packet => Root::Packet,
                Kind::Context => Root::Context,
                Kind::MapValue(map) if is_section(region, map) => Root::Section(map),
                _ => return,
            };
            if let Some(offset) = pointer.offset.as_constant() {
                (word.root, word.offset) = (root, offset as i64);
            }
        }
        Value::Scalar(scalar) => {
            for (byte, lane) in word.lanes.iter_mut().enumerate() {
                if scalar.tnum.mask >> (8 * byte) & 0xff == 0 {
                    *lane = Lane::Constant((scalar.tnum.value >> (8 * byte)) as u8);
                }
            }
        }
        _ => {}
    }
}

/// Whether a map is a data section, which has one value.
fn is_section(region: &Region<'_>, map: MapId) -> bool {
    region.object.map(map).is_section()
}

fn alu(at: usize, op: AluOp, width: Width, old: &Word, source: &Word) -> Word {
    let amount = source.as_constant();
    let offset = amount.filter(|_| width == Width::W64).map(|amount| amount as i64);
    let mut word = match (op, offset) {
        (AluOp::Mov, _) => Word { definition: at, ..*source },
        (AluOp::Add, Some(more)) => {
            Word { root: old.root, offset: old.offset.wrapping_add(more), class: old.class, ..Word::opaque(at) }
        }
        (AluOp::Sub, Some(less)) => {
            Word { root: old.root, offset: old.offset.wrapping_sub(less), class: old.class, ..Word::opaque(at) }
        }
        _ => Word::opaque(at),
    };
    if let Some(lanes) = lanes(op, width, old, source) {
        word.lanes = lanes;
    }
    if width == Width::W32 {
        word.lanes[4..].fill(Lane::Constant(0));
        (word.root, word.offset) = (Root::Value(at), 0);
    }
    word
}

/// The bytes of a result, if each is a byte of an operand or known.
fn lanes(op: AluOp, width: Width, old: &Word, source: &Word) -> Option<[Lane; 8]> {
    let bytes = width.bits() as usize / 8;
    let zero = Lane::Constant(0);
    let shift =
        || source.as_constant().map(|amount| amount as usize % width.bits() as usize).filter(|bits| bits % 8 == 0);
    let mut result = [zero; 8];
    match op {
        AluOp::Mov => result = source.lanes,
        AluOp::Lsh => {
            let by = shift()? / 8;
            result[by..bytes].copy_from_slice(&old.lanes[..bytes - by]);
        }
        AluOp::Rsh => {
            let by = shift()? / 8;
            result[..bytes - by].copy_from_slice(&old.lanes[by..bytes]);
        }
        AluOp::Or | AluOp::Xor | AluOp::Add => {
            for at in 0..8 {
                result[at] = match (old.lanes[at], source.lanes[at]) {
                    (lane, Lane::Constant(0)) | (Lane::Constant(0), lane) => lane,
                    _ => return None,
                };
            }
        }
        AluOp::And => {
            for at in 0..8 {
                result[at] = match (old.lanes[at], source.lanes[at]) {
                    (lane, Lane::Constant(0xff)) | (Lane::Constant(0xff), lane) => lane,
                    (_, Lane::Constant(0)) | (Lane::Constant(0), _) => zero,
                    _ => return None,
                };
            }
        }
        _ => return None,
    }
    Some(result)
}
