//! Rules for loads, stores and addresses.

use kiln_isa::{Address, ByteOrder, Insn, Reg, Size, Source};
use kiln_platform::helper_id::MAP_LOOKUP_ELEM;
use kiln_program::Node;

use crate::rules::code::operands::{one_slot_move, with};
use crate::windows::region::{Region, ends, is_barrier, is_cut};
use crate::windows::trace::{Access, Lane, Root, Trace};

/// At a computation whose result is a sequence of bytes in memory: one load, with a swap if they descend.
pub fn one_load(region: &Region<'_>, trace: &Trace, at: usize) -> Vec<Vec<Node>> {
    let node = &region.nodes[at];
    if !matches!(node.insn, Insn::Alu { .. } | Insn::Endian { .. }) || node.core.is_some() {
        return Vec::new();
    }
    let Some(dst) = node.insn.written() else { return Vec::new() };
    let lanes = trace.word(at + 1, dst).lanes;
    let mut proposed = Vec::new();
    for size in Size::ALL.into_iter().rev() {
        let (value, above) = lanes.split_at(size.bytes() as usize);
        if above.iter().any(|lane| *lane != Lane::Constant(0)) {
            break;
        }
        if let Some((root, offset)) = trace.loaded_from(value)
            && let Some(address) = trace.address(at, root, offset)
        {
            proposed.push(with(region, at, Insn::Load { size, signed: false, dst, address }));
        }
        let descending: Vec<_> = value.iter().rev().copied().collect();
        if size != Size::B1
            && let Some((root, offset)) = trace.loaded_from(&descending)
            && let Some(address) = trace.address(at, root, offset)
            && let Lane::Of { definition, .. } = value[0]
        {
            // The load takes the place of one that it replaces, and the swap that of the last step.
            let mut nodes = with(region, at, Insn::Endian { order: ByteOrder::Big, size, dst });
            let mut load = nodes[definition].clone();
            load.insn = Insn::Load { size, signed: false, dst, address };
            nodes.insert(at, load);
            nodes.remove(definition);
            proposed.push(nodes);
        }
    }
    proposed
}

/// At a store: with earlier ones beside or under it, one wider store.
pub fn one_store(region: &Region<'_>, trace: &Trace, at: usize) -> Vec<Vec<Node>> {
    let Some(last) = trace.access(at).filter(|access| access.stores) else { return Vec::new() };
    // A store may move past a call only if no other program sees the memory.
    let cut = if last.root == Root::Stack { is_cut } else { is_barrier };
    let begin = region.nodes[..at].iter().rposition(cut).map_or(0, |barrier| barrier + 1);
    let before = |access: &&Access| access.stores && access.root == last.root && access.at >= begin && access.at <= at;
    let stores: Vec<&Access> = trace.accesses.iter().filter(before).collect();
    let mut proposed = Vec::new();
    for size in Size::ALL.into_iter().rev().filter(|size| *size >= last.size) {
        let bytes = i64::from(size.bytes());
        let mut starts: Vec<i64> = stores.iter().map(|access| access.offset).collect();
        starts.sort_unstable();
        starts.dedup();
        for start in starts {
            let covers = start <= last.offset && last.offset + i64::from(last.size.bytes()) <= start + bytes;
            if !covers || last.root == Root::Stack && start.rem_euclid(bytes) != 0 {
                continue;
            }
            let inside = |access: &&&Access| {
                start <= access.offset && access.offset + i64::from(access.size.bytes()) <= start + bytes
            };
            let merged: Vec<&Access> = stores.iter().filter(inside).copied().collect();
            if merged.len() >= 2
                && !(last.root == Root::Stack && holds_array_key(region, trace, at, start, bytes))
                && let Some(lanes) = last_stored(&merged, start, size)
            {
                wide_stores(region, trace, &Merge { merged, at, size, start }, &lanes, &mut proposed);
            }
        }
    }
    proposed
}

/// At a store of eight known bytes that no immediate can make: two stores, of which the first takes the place of the
/// instruction that made the constant.
pub fn two_stores(region: &Region<'_>, trace: &Trace, at: usize) -> Vec<Vec<Node>> {
    let Insn::Store { size: Size::B8, address, src: Source::Reg(src) } = region.nodes[at].insn else {
        return Vec::new();
    };
    let word = trace.word(at, src);
    let (Some(value), Some(high)) = (word.as_constant(), address.offset.checked_add(4)) else { return Vec::new() };
    let made = region.nodes.get(word.definition).map(|node| node.insn);
    if !matches!(made, Some(Insn::LoadImm64 { dst, .. }) if dst == src) || region.nodes[at].core.is_some() {
        return Vec::new();
    }
    let half = |address: Address, value: u32| Insn::Store { size: Size::B4, address, src: Source::Imm(value as i32) };
    let mut nodes = with(region, at, half(Address { offset: high, ..address }, (value >> 32) as u32));
    let mut low = nodes[word.definition].clone();
    low.insn = half(address, value as u32);
    low.reference = kiln_program::Reference::None;
    nodes.insert(at, low);
    nodes.remove(word.definition);
    vec![nodes]
}

/// Whether the next call looks an array's element up by a key in these stack bytes. The kernel knows the key's value
/// only where it was stored by itself, and then that the lookup cannot fail.
fn holds_array_key(region: &Region<'_>, trace: &Trace, at: usize, start: i64, bytes: i64) -> bool {
    let Some(call) = (at..region.nodes.len()).find(|call| region.nodes[*call].helper() == Some(MAP_LOOKUP_ELEM)) else {
        return false;
    };
    let map = match region.nodes.get(trace.word(call, Reg::R1).definition).map(|node| node.reference) {
        Some(kiln_program::Reference::Map(map)) => region.object.map(map).map_type,
        _ => return false,
    };
    let key = trace.word(call, Reg::R2);
    let inside = key.root == Root::Stack && (start..start + bytes).contains(&key.offset);
    inside && bytes == 8 && map.rules().finds_every_key
}

/// What these stores leave in the bytes from `start`; `None` if one of them is not written.
fn last_stored(stores: &[&Access], start: i64, size: Size) -> Option<Vec<Lane>> {
    let mut lanes = vec![None; size.bytes() as usize];
    for access in stores {
        let from = (access.offset - start) as usize;
        for byte in 0..access.size.bytes() as usize {
            lanes[from + byte] = Some(access.lanes[byte]);
        }
    }
    lanes.into_iter().collect()
}

/// Stores that may be one.
struct Merge<'t> {
    merged: Vec<&'t Access>,
    at: usize,
    size: Size,
    start: i64,
}

fn wide_stores(region: &Region<'_>, trace: &Trace, merge: &Merge<'_>, lanes: &[Lane], proposed: &mut Vec<Vec<Node>>) {
    let size = merge.size;
    let root = merge.merged[0].root;
    // The wide store is at the place of the last or of the first.
    for at in [merge.at, merge.merged[0].at] {
        let Some(address) = trace.address(at, root, merge.start) else { continue };
        let mut propose = |store: Source, load: Option<(Insn, usize)>| {
            let mut nodes: Vec<(usize, Node)> = region.nodes.iter().cloned().enumerate().collect();
            nodes[at].1.insn = Insn::Store { size, address, src: store };
            if let Some((load, _)) = load {
                let mut node = nodes[load_of(lanes)].1.clone();
                node.insn = load;
                nodes.insert(at, (usize::MAX, node));
            }
            let gone = load.map(|(_, gone)| gone);
            let dropped = |position: usize| {
                position != at && merge.merged.iter().any(|access| access.at == position) || Some(position) == gone
            };
            proposed
                .push(nodes.into_iter().filter(|(position, _)| !dropped(*position)).map(|(_, node)| node).collect());
        };
        if let Some(imm) = as_immediate(lanes) {
            propose(Source::Imm(imm), None);
            continue;
        }
        if let Some(reg) = Reg::all().find(|reg| trace.word(at, *reg).lanes[..lanes.len()] == *lanes) {
            propose(Source::Reg(reg), None);
            continue;
        }
        // The bytes are also loaded side by side: a wide copy, loaded right before into the register that was stored
        // here.
        let Some((from, offset)) = trace.loaded_from(lanes) else { continue };
        let Insn::Store { src: Source::Reg(src), .. } = region.nodes[at].insn else { continue };
        let narrow = load_of(lanes);
        let Some(source) = trace.address(at, from, offset).filter(|_| narrow < region.nodes.len()) else { continue };
        let load = Insn::Load { size, signed: false, dst: src, address: source };
        propose(Source::Reg(src), Some((load, narrow)));
    }
}

/// The instruction that made the last of these bytes.
fn load_of(lanes: &[Lane]) -> usize {
    let definition = |lane: &Lane| match lane {
        Lane::Of { definition, .. } => Some(*definition),
        Lane::Constant(_) => None,
    };
    lanes.iter().filter_map(definition).max().unwrap_or(usize::MAX)
}

/// The bytes as a store's immediate.
fn as_immediate(lanes: &[Lane]) -> Option<i32> {
    let mut bytes = [0; 8];
    for (byte, lane) in bytes.iter_mut().zip(lanes) {
        let Lane::Constant(value) = lane else { return None };
        *byte = *value;
    }
    let value = u64::from_le_bytes(bytes);
    if lanes.len() == 8 { i32::try_from(value as i64).ok() } else { Some(value as u32 as i32) }
}

/// At a load: a copy of what an earlier load or store of the same bytes left in a register.
pub fn value_at_hand(region: &Region<'_>, trace: &Trace, at: usize) -> Vec<Vec<Node>> {
    let Insn::Load { size, signed: false, dst, .. } = region.nodes[at].insn else { return Vec::new() };
    let Some(load) = trace.access(at) else { return Vec::new() };
    let bytes = i64::from(size.bytes());
    let begin = region.nodes[..at].iter().rposition(is_cut).map_or(0, |barrier| barrier + 1);
    let same = |access: &&Access| {
        access.root == load.root
            && access.offset <= load.offset
            && load.offset + bytes <= access.offset + i64::from(access.size.bytes())
    };
    let earlier = trace.accesses.iter().rev().filter(|access| access.at >= begin && access.at < at);
    // Up to the last store that may have changed it.
    let mut candidates = Vec::new();
    for access in earlier {
        if same(&access) {
            candidates.push(access);
        }
        if access.stores && access.may_touch(load) {
            break;
        }
    }
    for access in candidates {
        let from = (load.offset - access.offset) as usize;
        let mut wanted = [Lane::Constant(0); 8];
        wanted[..bytes as usize].copy_from_slice(&access.lanes[from..from + bytes as usize]);
        let constant = crate::windows::trace::Word { lanes: wanted, ..*trace.word(at, dst) }.as_constant();
        if let Some(insn) = constant.and_then(|value| one_slot_move(dst, value)) {
            return vec![with(region, at, insn)];
        }
        if let Some(holder) = Reg::all().find(|reg| trace.word(at, *reg).lanes == wanted) {
            let mut nodes = with(region, at, Insn::mov(dst, holder));
            if holder == dst {
                nodes.remove(at);
            }
            return vec![nodes];
        }
        let low = Reg::all().find(|reg| trace.word(at, *reg).lanes[..bytes as usize] == wanted[..bytes as usize]);
        if let (Some(src), Size::B4) = (low, size) {
            let src = Source::Reg(src);
            let insn = Insn::Alu { op: kiln_isa::AluOp::Mov, width: kiln_isa::Width::W32, dst, src };
            return vec![with(region, at, insn)];
        }
    }
    Vec::new()
}

/// The access with another memory operand.
pub fn with_address(insn: &Insn, address: Address) -> Option<Insn> {
    Some(match *insn {
        Insn::Load { size, signed, dst, .. } => Insn::Load { size, signed, dst, address },
        Insn::Store { size, src, .. } => Insn::Store { size, address, src },
        Insn::Atomic { op, fetch, size, src, .. } => Insn::Atomic { op, fetch, size, address, src },
        _ => return None,
    })
}

/// At the last step of a derived pointer: all accesses through it go through what it was derived from.
pub fn direct_address(region: &Region<'_>, trace: &Trace, at: usize) -> Vec<Vec<Node>> {
    let (Insn::Alu { dst, .. } | Insn::LoadImm64 { dst, .. }) = region.nodes[at].insn else { return Vec::new() };
    let word = trace.word(at + 1, dst);
    if word.root == Root::Value(at) {
        return Vec::new();
    }
    let mut nodes = region.nodes.clone();
    let mut changed = false;
    for position in at + 1..nodes.len() {
        let insn = nodes[position].insn;
        if insn.address().is_some_and(|address| address.base == dst) && nodes[position].core.is_none() {
            let own = insn.address().expect("it has one");
            let target = word.offset + i64::from(own.offset);
            let other = other_address(trace, position, word.root, target, dst);
            let Some(insn) = other.and_then(|address| with_address(&insn, address)) else { break };
            nodes[position].insn = insn;
            changed = true;
        }
        if insn.written() == Some(dst) || ends(&nodes[position], &[dst]) {
            break;
        }
    }
    if changed { vec![nodes] } else { Vec::new() }
}

fn other_address(trace: &Trace, at: usize, root: Root, offset: i64, not: Reg) -> Option<Address> {
    Reg::all().rev().filter(|reg| *reg != not).find_map(|reg| {
        let word = trace.word(at, reg);
        let distance = (word.root == root).then(|| offset.checked_sub(word.offset))??;
        Some(Address { base: reg, offset: i16::try_from(distance).ok()? })
    })
}

/// At `r += constant`: the constant goes into the accesses that follow.
pub fn folded_offset(region: &Region<'_>, _: &Trace, at: usize) -> Vec<Vec<Node>> {
    use kiln_isa::{AluOp, Width};
    let Insn::Alu { op: AluOp::Add, width: Width::W64, dst, src: Source::Imm(more) } = region.nodes[at].insn else {
        return Vec::new();
    };
    let mut nodes = region.nodes.clone();
    for node in &mut nodes[at + 1..] {
        if ends(node, &[dst]) {
            break;
        }
        if let Some(address) = node.insn.address().filter(|address| address.base == dst) {
            let offset = i16::try_from(i32::from(address.offset).saturating_add(more)).ok();
            let insn = offset.and_then(|offset| with_address(&node.insn, Address { offset, ..address }));
            let Some(insn) = insn.filter(|_| node.core.is_none()) else { return Vec::new() };
            node.insn = insn;
        }
        // Further additions to it commute.
        let adds = matches!(node.insn, Insn::Alu { op: AluOp::Add, width: Width::W64, dst: own, src }
            if own == dst && src != Source::Reg(dst));
        if node.insn.written() == Some(dst) && !adds {
            break;
        }
    }
    nodes.remove(at);
    vec![nodes]
}

/// At the last of several copies from memory to memory: the same bytes, loaded and stored as widely as may be.
///
/// ```text
///   w1 = *(u16 *)(r6 + 0); *(u16 *)(r7 + 0) = w1             w1 = *(u32 *)(r6 + 0); *(u32 *)(r7 + 0) = w1
///   w1 = *(u16 *)(r6 + 2); *(u16 *)(r7 + 2) = w1      -->    w1 = *(u16 *)(r6 + 4); *(u16 *)(r7 + 4) = w1
///   w1 = *(u16 *)(r6 + 4); *(u16 *)(r7 + 4) = w1
/// ```
pub fn copied_block(region: &Region<'_>, trace: &Trace, at: usize) -> Vec<Vec<Node>> {
    let runs = copy_runs(region, at).into_iter();
    runs.filter_map(|run| Copied::read(region, trace, run)?.written(region, trace)).collect()
}

/// Runs that may be copies and end with the store at a position.
pub(super) fn copy_runs(region: &Region<'_>, at: usize) -> Vec<std::ops::Range<usize>> {
    let copies =
        |at: &usize| matches!(region.nodes[*at].insn, Insn::Load { .. } | Insn::Store { .. } | Insn::Alu { .. });
    let stores = |at: usize| matches!(region.nodes[at].insn, Insn::Store { .. });
    if !stores(at) || region.nodes.get(at + 1).is_some_and(|next| matches!(next.insn, Insn::Store { .. })) {
        return Vec::new();
    }
    let first = (0..=at).rev().take(LONGEST_COPY).take_while(copies).last().unwrap_or(at);
    // A shorter run may fit if the longer one begins with something else.
    let starts = (first..at).filter(|start| matches!(region.nodes[*start].insn, Insn::Load { .. }));
    starts.take(MAX_STARTS).map(|start| start..at + 1).collect()
}

/// Maximum number of instructions of a copy.
const LONGEST_COPY: usize = 40;
/// Places where a copy may begin that are tried.
const MAX_STARTS: usize = 12;

/// What memory holds after a run: each byte that it stores, and where that byte was before the run.
pub(super) struct Copied {
    pub run: std::ops::Range<usize>,
    pub bytes: std::collections::BTreeMap<(u8, i64), (Root, Origin)>,
    pub roots: Vec<Root>,
    /// Registers that the run loads and that are dead afterwards, then others that are free.
    pub free: Vec<Reg>,
}

/// Where a byte comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Memory(Root, i64),
    Constant(u8),
}

impl Copied {
    pub fn read(region: &Region<'_>, trace: &Trace, run: std::ops::Range<usize>) -> Option<Copied> {
        use std::collections::BTreeMap;
        let mut memory: BTreeMap<(u8, i64), (Root, Origin)> = BTreeMap::new();
        let mut loaded: BTreeMap<(usize, u8), Origin> = BTreeMap::new();
        let mut roots: Vec<Root> = Vec::new();
        let mut written = kiln_isa::RegSet::EMPTY;
        for at in run.clone() {
            let node = &region.nodes[at];
            if node.core.is_some() {
                return None;
            }
            written = written.union(node.insn.written().into_iter().collect());
            let Some(access) = trace.access(at) else { continue };
            let root = roots.iter().position(|root| *root == access.root).unwrap_or(roots.len());
            if root == roots.len() {
                roots.push(access.root);
            }
            for byte in 0..access.size.bytes() as i64 {
                let place = (root as u8, access.offset.wrapping_add(byte));
                if access.stores {
                    let from = match access.lanes[byte as usize] {
                        Lane::Constant(value) => Origin::Constant(value),
                        Lane::Of { definition, byte } => *loaded.get(&(definition, byte))?,
                    };
                    memory.insert(place, (access.root, from));
                } else {
                    let own = Origin::Memory(access.root, place.1);
                    let from = memory.get(&place).map_or(own, |known| known.1);
                    loaded.insert((at, byte as u8), from);
                    if let Lane::Of { definition, byte } = access.lanes[byte as usize] {
                        loaded.entry((definition, byte)).or_insert(from);
                    }
                }
            }
        }
        // The run must have no other effect.
        let after = region.afterwards().each(&region.nodes)[run.end - 1];
        if written.iter().any(|reg| after.of(reg) > 0) {
            return None;
        }
        let used: kiln_isa::RegSet =
            region.nodes[run.clone()].iter().flat_map(|node| node.insn.read().iter().collect::<Vec<_>>()).collect();
        let spare = Reg::all()
            .filter(|reg| *reg != Reg::R10 && after.of(*reg) == 0 && !used.contains(*reg) && !written.contains(*reg));
        let free = written.iter().chain(spare).collect();
        Some(Copied { run, bytes: memory, roots, free })
    }

    /// The stores that remain: first byte, size and source.
    fn chunks(&self) -> Vec<(Root, i64, Size, Origin)> {
        let mut chunks = Vec::new();
        let mut left = self.bytes.clone();
        while let Some((&(root, offset), _)) = left.first_key_value() {
            let fits = |size: &Size| {
                let bytes = i64::from(size.bytes());
                let own = self.roots[usize::from(root)];
                let aligned = |root: Root, offset: i64| root != Root::Stack || offset.rem_euclid(bytes) == 0;
                let Some((_, first)) = left.get(&(root, offset)) else { return false };
                let follows = |byte: i64| match (left.get(&(root, offset + byte)), first) {
                    (Some((_, Origin::Memory(from, at))), Origin::Memory(begin, start)) => {
                        from == begin && *at == start + byte
                    }
                    (Some((_, Origin::Constant(_))), Origin::Constant(_)) => true,
                    _ => false,
                };
                let source = match first {
                    Origin::Memory(from, at) => aligned(*from, *at),
                    Origin::Constant(_) => true,
                };
                aligned(own, offset)
                    && source
                    && (0..bytes).all(follows)
                    && self.constant(&left, root, offset, *size).is_some()
            };
            let size = Size::ALL.into_iter().rev().find(fits).unwrap_or(Size::B1);
            let source = left[&(root, offset)].1;
            chunks.push((self.roots[usize::from(root)], offset, size, source));
            for byte in 0..i64::from(size.bytes()) {
                left.remove(&(root, offset + byte));
            }
        }
        chunks
    }

    /// The immediate that stores these bytes; 0 if they are not constants, `None` if there is none.
    fn constant(
        &self,
        bytes: &std::collections::BTreeMap<(u8, i64), (Root, Origin)>,
        root: u8,
        offset: i64,
        size: Size,
    ) -> Option<i32> {
        let lanes: Option<Vec<Lane>> = (0..i64::from(size.bytes()))
            .map(|byte| match bytes.get(&(root, offset + byte))?.1 {
                Origin::Constant(value) => Some(Lane::Constant(value)),
                Origin::Memory(..) => None,
            })
            .collect();
        lanes.map_or(Some(0), |lanes| as_immediate(&lanes))
    }

    fn written(&self, region: &Region<'_>, trace: &Trace) -> Option<Vec<Node>> {
        let mut chunks = self.chunks();
        let mut free = self.free.clone();
        let mut made: Vec<Insn> = Vec::new();
        let mut held: Vec<(Root, i64, Size, Reg)> = Vec::new();
        let begin = self.run.start;
        let bytes = |size: Size| i64::from(size.bytes());
        while !chunks.is_empty() {
            let reads = |chunk: &(Root, i64, Size, Origin), root: Root, offset: i64, size: Size| match chunk.3 {
                Origin::Memory(from, at) => from == root && at < offset + bytes(size) && offset < at + bytes(chunk.2),
                Origin::Constant(_) => false,
            };
            let free_of_readers = |index: usize| {
                let (root, offset, size, _) = chunks[index];
                chunks.iter().enumerate().all(|(other, chunk)| other == index || !reads(chunk, root, offset, size))
            };
            let next = (0..chunks.len()).find(|index| free_of_readers(*index));
            let (root, offset, size, source) = chunks.remove(next.unwrap_or(0));
            let address = trace.address(begin, root, offset)?;
            match source {
                Origin::Constant(_) => {
                    let number = self.roots.iter().position(|own| *own == root)? as u8;
                    let src = Source::Imm(self.constant(&self.bytes, number, offset, size)?);
                    made.push(Insn::Store { size, address, src });
                }
                Origin::Memory(from, at) => {
                    let reg = (!free.is_empty()).then(|| free.remove(0))?;
                    let load = trace.address(begin, from, at)?;
                    made.push(Insn::Load { size, signed: false, dst: reg, address: load });
                    if next.is_some() {
                        made.push(Insn::Store { size, address, src: Source::Reg(reg) });
                        free.insert(0, reg);
                    } else {
                        held.push((root, offset, size, reg));
                    }
                }
            }
        }
        for (root, offset, size, reg) in held {
            made.push(Insn::Store { size, address: trace.address(begin, root, offset)?, src: Source::Reg(reg) });
        }
        let old = &region.nodes[self.run.clone()];
        if made.len() >= old.len() {
            return None;
        }
        // Each takes the place of one that it is like, so that it keeps a line of the source.
        let mut spare: Vec<&Node> = old.iter().collect();
        let mut nodes = region.nodes[..begin].to_vec();
        for insn in made {
            let loads = matches!(insn, Insn::Load { .. });
            let like = spare.iter().position(|node| matches!(node.insn, Insn::Load { .. }) == loads)?;
            nodes.push(Node { insn, reference: kiln_program::Reference::None, ..spare.remove(like).clone() });
        }
        nodes.extend_from_slice(&region.nodes[self.run.end..]);
        Some(nodes)
    }
}
