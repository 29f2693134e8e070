//! What the bytes of a stack frame hold, and stores that are not needed for it.
//!
//! ```text
//!   *(u64 *)(r10 - 16) = 0               (gone: the three stores below write all of it)
//!   *(u64 *)(r10 - 8) = 0                *(u64 *)(r10 - 8) = 0
//!   w1 = *(u8 *)(r6 + 1)                 w1 = *(u8 *)(r6 + 1)
//!   *(u8 *)(r10 - 16) = w1               *(u32 *)(r10 - 16) = w1         the three bytes above it are zero in r1
//!   *(u32 *)(r10 - 12) = w2              *(u32 *)(r10 - 12) = w2
//!   *(u16 *)(r10 - 4) = 0                (gone: zero is what is there)
//! ```
//!
//! Compilers clear a structure whole and then fill it in, in other blocks often. Two things follow from what is known
//! of each byte on every way to a store: a store of what is there already may go ([`remove_repeated_stores`]), and a narrow
//! store of a number whose upper bytes are zero may write those too, where zeros are or nobody looks. When that covers
//! all that was left of an earlier store, the earlier one may go ([`cover_stores`]).

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use kiln_isa::{CallTarget, Insn, Reg, RegSet, Size, Source};
use kiln_platform::{ArgKind, Helper};
use kiln_program::{Cfg, Function, Ids, Node};
use kiln_verifier::{Facts, InsnFacts, Region, StackSet, Value};

use crate::edit;
use crate::laws::context::{Change, Context};
use crate::laws::dead_store_before_helper::{Place, place};

/// Bytes of a frame.
const BYTES: usize = kiln_platform::limits::MAX_STACK_BYTES as usize;

/// The bytes of the frame, from the lowest, where each is known on every way.
type Held = [Option<u8>; BYTES];

/// Removes stores of numbers that the frame already holds on every path.
pub fn remove_repeated_stores(context: Context<'_>) -> Vec<Change> {
    let facts = context.known();
    let Context { function, banned, .. } = context;
    let held = Frame::new(function, facts).held();
    let mut doomed = Ids::default();
    let mut changes = Vec::new();
    for (node, held) in function.nodes.iter().zip(held) {
        let (Some((start, bytes)), Some(held)) = (stored(node, facts), held) else { continue };
        let same = bytes.iter().enumerate().all(|(at, byte)| byte.is_some() && held[start + at] == *byte);
        if same && !banned(node.id) {
            doomed.insert(node.id);
            changes.push(Change::new(vec![node.clone()], Vec::new()));
        }
    }
    edit::delete(function, &doomed);
    changes
}

/// Widens stores so that an earlier store is overwritten before anybody reads it, and removes that; one a call.
pub fn cover_stores(context: Context<'_>) -> Vec<Change> {
    let facts = context.known();
    let Context { function, banned, .. } = context;
    let frame = Frame::new(function, facts);
    let wider = frame.wider();
    if wider.is_empty() {
        return Vec::new();
    }
    for covered in 0..function.nodes.len() {
        let node = &function.nodes[covered];
        let Some((start, bytes)) = stored(node, facts).filter(|_| !banned(node.id)) else { continue };
        let own = start..start + bytes.len();
        let touches = |wide: &Wider| wide.start < own.end && own.start < wide.end;
        if !wider.iter().any(touches) {
            continue;
        }
        let Some(chosen) = frame.covering(covered, &own, &wider).filter(|chosen| !chosen.is_empty()) else { continue };
        let mut before = vec![node.clone()];
        let mut after = Vec::new();
        for (at, insn) in chosen {
            before.push(function.nodes[at].clone());
            function.nodes[at].insn = insn;
            after.push(function.nodes[at].clone());
        }
        let doomed = Ids::from_iter([function.nodes[covered].id]);
        edit::delete(function, &doomed);
        return vec![Change::new(before, after)];
    }
    Vec::new()
}

/// Whether bytes of the frame are zero before an instruction, on every way there.
pub(crate) fn holds_zeros(function: &Function, facts: &Facts, at: usize, start: i32, bytes: u32) -> bool {
    let held = Frame::new(function, facts).held();
    let from = usize::try_from(start + BYTES as i32).ok().filter(|from| from + bytes as usize <= BYTES);
    match (&held[at], from) {
        (Some(held), Some(from)) => held[from..from + bytes as usize].iter().all(|byte| *byte == Some(0)),
        _ => false,
    }
}

/// A store that may write more.
struct Wider {
    at: usize,
    /// The bytes that it then writes.
    start: usize,
    end: usize,
    insn: Insn,
}

/// A function with what is known of its frame.
struct Frame<'a> {
    function: &'a Function,
    facts: &'a Facts,
    cfg: Cfg,
}

impl<'a> Frame<'a> {
    fn new(function: &'a Function, facts: &'a Facts) -> Frame<'a> {
        Frame { function, facts, cfg: Cfg::new(function) }
    }

    /// What the frame holds before each store and call; nothing where no path leads.
    fn held(&self) -> Vec<Option<Box<Held>>> {
        let blocks = &self.cfg.blocks;
        let mut begin: Vec<Option<Box<Held>>> = vec![None; blocks.len()];
        if let Some(first) = begin.first_mut() {
            *first = Some(Box::new([None; BYTES]));
        }
        let mut changed = true;
        while changed {
            changed = false;
            for block in self.cfg.reverse_postorder() {
                let Some(mut held) = begin[block.index()].clone() else { continue };
                let range = blocks[block.index()].range.clone();
                self.function.nodes[range].iter().for_each(|node| self.step(&mut held, node));
                for next in &blocks[block.index()].successors {
                    match &mut begin[next.index()] {
                        None => {
                            begin[next.index()] = Some(held.clone());
                            changed = true;
                        }
                        Some(known) => {
                            for (known, now) in known.iter_mut().zip(held.iter()) {
                                if known.is_some() && known != now {
                                    *known = None;
                                    changed = true;
                                }
                            }
                        }
                    }
                }
            }
        }
        let mut result = Vec::with_capacity(self.function.nodes.len());
        for (block, begin) in blocks.iter().zip(begin) {
            let mut held = begin;
            for node in &self.function.nodes[block.range.clone()] {
                result.push(held.clone().filter(|_| matches!(node.insn, Insn::Store { .. } | Insn::Call(_))));
                if let Some(held) = &mut held {
                    self.step(held, node);
                }
            }
        }
        result
    }

    fn step(&self, held: &mut Held, node: &Node) {
        if let Some((start, bytes)) = stored(node, self.facts) {
            held[start..start + bytes.len()].copy_from_slice(&bytes);
        } else if may_write_frame(node, self.facts) {
            held.fill(None);
        }
    }

    /// Every store that may write zeros above what it writes now, as widely as may be.
    fn wider(&self) -> Vec<Wider> {
        let mut found = Vec::new();
        for (at, (node, held)) in self.function.nodes.iter().zip(self.held()).enumerate() {
            let (Insn::Store { size, address, src }, Some(held)) = (node.insn, held) else { continue };
            let (Some((start, _)), Some(known)) = (stored(node, self.facts), self.facts.at(node.id)) else { continue };
            let narrow = start + size.bytes() as usize;
            for wide in Size::ALL.into_iter().rev().take_while(|wide| *wide > size) {
                let end = start + wide.bytes() as usize;
                let free = |byte: usize| held[byte] == Some(0) || !known.stack_live_after.contains(offset(byte));
                if start % wide.bytes() as usize != 0 || end > BYTES || !(narrow..end).all(free) {
                    continue;
                }
                if let Some(src) = zero_above(src, size, wide, known) {
                    found.push(Wider { at, start, end, insn: Insn::Store { size: wide, address, src } });
                    break;
                }
            }
        }
        found
    }

    /// The stores that have to write more so that nobody reads these bytes after the one at a position; `None` where
    /// somebody does even so.
    fn covering(&self, at: usize, bytes: &Range<usize>, wider: &[Wider]) -> Option<BTreeMap<usize, Insn>> {
        let mut chosen = BTreeMap::new();
        let mut pending = vec![(at + 1, bytes.clone().map(|byte| 1u8 << (byte - bytes.start)).sum::<u8>())];
        // Bytes already followed from a position.
        let mut seen = HashMap::<usize, u8>::new();
        let mask = |start: usize, end: usize| {
            bytes.clone().filter(|byte| (start..end).contains(byte)).map(|byte| 1u8 << (byte - bytes.start)).sum::<u8>()
        };
        while let Some((at, left)) = pending.pop() {
            let known = seen.entry(at).or_default();
            let mut left = left & !*known;
            *known |= left;
            let node = self.function.nodes.get(at)?;
            if left == 0 {
                continue;
            }
            match (stored(node, self.facts), place(node, self.facts)) {
                (Some((start, own)), _) => {
                    left &= !mask(start, start + own.len());
                    let wide = wider.iter().find(|wide| wide.at == at && left & mask(wide.start, wide.end) != 0);
                    if let Some(wide) = wide {
                        left &= !mask(wide.start, wide.end);
                        chosen.insert(at, wide.insn);
                    }
                }
                (None, Place::Elsewhere) => {}
                (None, Place::Frame(start, size)) if matches!(node.insn, Insn::Load { .. }) => {
                    let start = (start + BYTES as i32) as usize;
                    if left & mask(start, start + size as usize) != 0 {
                        return None;
                    }
                }
                _ if node.insn == Insn::Exit => continue,
                _ if matches!(node.insn, Insn::Jump { .. } | Insn::Branch { .. }) => {}
                _ => {
                    // The bytes that it reads were live before it. Bytes that are live after it may be read by another instruction.
                    if self.live_before(at).is_none_or(|live| {
                        bytes.clone().any(|byte| left & mask(byte, byte + 1) != 0 && live.contains(offset(byte)))
                    }) {
                        return None;
                    }
                    continue;
                }
            }
            let block = &self.cfg.blocks[self.cfg.block_of[at].index()];
            if at + 1 < block.range.end {
                pending.push((at + 1, left));
            } else {
                let next = block.successors.iter().map(|next| self.cfg.blocks[next.index()].range.start);
                pending.extend(next.map(|next| (next, left)));
            }
        }
        Some(chosen)
    }

    /// Bytes that may be read from an instruction on, in the program as it was verified.
    fn live_before(&self, at: usize) -> Option<StackSet> {
        let block = &self.cfg.blocks[self.cfg.block_of[at].index()];
        let after = |at: usize| self.facts.at(self.function.nodes[at].id).map(|known| known.stack_live_after);
        if at > block.range.start {
            return after(at - 1);
        }
        let previous = block.predecessors.iter().map(|block| after(self.cfg.blocks[block.index()].range.end - 1));
        previous.reduce(|a, b| Some(a?.union(&b?)))?
    }
}

/// A byte of the frame as an offset from the frame pointer.
fn offset(byte: usize) -> i32 {
    byte as i32 - BYTES as i32
}

/// A plain store to the frame: its first byte, and what it writes where that is known.
fn stored(node: &Node, facts: &Facts) -> Option<(usize, Vec<Option<u8>>)> {
    let Insn::Store { size, src, .. } = node.insn else { return None };
    let Place::Frame(start, _) = place(node, facts) else { return None };
    let start = usize::try_from(start + BYTES as i32).ok()?;
    let bytes = size.bytes() as usize;
    let known = |value: u64, unknown: u64| {
        (0..bytes).map(|at| (unknown >> (8 * at) & 0xff == 0).then_some((value >> (8 * at)) as u8)).collect()
    };
    let written = match src {
        Source::Imm(imm) => known(i64::from(imm) as u64, 0),
        Source::Reg(reg) => match &facts.at(node.id)?.registers[reg.index()] {
            Value::Scalar(scalar) => known(scalar.tnum.value, scalar.tnum.mask),
            _ => vec![None; bytes],
        },
    };
    (start + bytes <= BYTES).then_some((start, written))
}

/// Whether an instruction other than a plain store to the frame may change it.
fn may_write_frame(node: &Node, facts: &Facts) -> bool {
    let known = facts.at(node.id);
    let may_point_here = |reg: Reg| match known.map(|known| &known.registers[reg.index()]) {
        Some(Value::Scalar(_) | Value::Uninit) => false,
        Some(Value::Pointer(pointer)) => matches!(pointer.region, Region::Stack { .. }),
        _ => true,
    };
    match node.insn {
        Insn::Store { address, .. } => may_point_here(address.base),
        Insn::Call(CallTarget::Helper(id)) => match Helper::by_id(id) {
            None => true,
            Some(helper) => {
                let variants = helper.variants.iter().map(|variant| &variant.prototype);
                let mut prototypes = variants.chain([&helper.prototype]);
                prototypes.any(|prototype| {
                    let arguments = RegSet::arguments(5).iter().collect::<Vec<_>>();
                    let mut own = prototype.args.iter().zip(arguments);
                    own.any(|(kind, reg)| may_point_here(reg) && !only_reads(kind))
                })
            }
        },
        Insn::Call(_) => RegSet::arguments(5).iter().any(may_point_here),
        Insn::Atomic { address, .. } | Insn::StoreRelease { address, .. } => may_point_here(address.base),
        Insn::AddressSpaceCast { .. } => true,
        _ => false,
    }
}

/// Whether a helper leaves its arguments' memory unchanged. The kernel's prototypes do not always say so for plain memory.
fn only_reads(kind: &ArgKind) -> bool {
    matches!(kind, ArgKind::MapKey | ArgKind::MapValue | ArgKind::MapValueOrNull | ArgKind::ConstString)
}

/// What a wider store stores, where that is the number that the narrow one stores with zeros above it.
fn zero_above(src: Source, narrow: Size, wide: Size, known: &InsnFacts) -> Option<Source> {
    let mask = |size: Size| if size == Size::B8 { u64::MAX } else { (1u64 << size.bits()) - 1 };
    match src {
        Source::Imm(imm) => {
            let value = i64::from(imm) as u64 & mask(narrow);
            i32::try_from(value).ok().map(Source::Imm)
        }
        Source::Reg(reg) => match &known.registers[reg.index()] {
            Value::Scalar(scalar) => {
                let upper = (scalar.tnum.value | scalar.tnum.mask) & mask(wide) & !mask(narrow);
                (upper == 0).then_some(src)
            }
            _ => None,
        },
    }
}
