//! Memory without arrays: every access has a place, and every byte is a variable.
//!
//! An address is a sum; what is left of it without its constant is its *root*, so an access is `root + constant`:
//!
//! ```text
//!   *(u32 *)(r10 - 8)            root frame_0           offset -8
//!   r2 = r1; r2 += r3; *(u8 *)(r2 + 14)
//!                                root r1 + r3           offset 14    (class: what r1 points into)
//! ```
//!
//! Bytes of one root overlap exactly when their offsets do. Roots of different classes (stack, packet, context, each
//! map's values) never overlap. Two different roots of one class may overlap or not. As long as nothing is stored
//! through either, that does not matter; else the whole class is *logged*: its stores must be the same sequence in
//! both windows, and a load gives a value that depends on the log before it. That is sound without deciding any
//! aliasing, and proves less. Atomic operations and the context, whose accesses the kernel rewrites one by one, are
//! always logged.

use std::cell::RefCell;
use std::collections::BTreeMap;

use kiln_isa::semantics::{BitVec, mask};
use kiln_isa::{Insn, Reg};
use kiln_platform::{ContextAccess, FieldValue, ProgramType};
use kiln_program::{MapId, Node, Object, Reference};
use kiln_verifier::{InsnFacts, Pointer, Region, Scalar, Value};

use crate::term::{Arena, QuickMap, RegionStart, Shape, Symbol, Term, TermId};
use crate::window::class::{Class, Event, Log, Modes, Root, has_one_value};

/// What both windows share: the initial state, and the numbers of roots and histories.
pub struct World<'a> {
    /// Where terms live.
    pub arena: &'a Arena,
    /// The object.
    pub object: &'a Object,
    /// What is known at the start.
    pub facts: Option<&'a InsnFacts>,
    /// Which classes are logged.
    pub modes: Modes,
    roots: RefCell<Vec<Root>>,
    events: RefCell<(Vec<Event>, QuickMap<Event, Log>)>,
    pointers: RefCell<QuickMap<TermId, (Class, Option<i64>)>>,
    /// Every place found so far, in order.
    trace: RefCell<Vec<(u16, i64)>>,
    /// Places that another world found on the same windows. They are used instead of looking.
    script: RefCell<Option<std::vec::IntoIter<(u16, i64)>>>,
    /// Every history reached so far, in order, with what went in.
    log_trace: RefCell<Vec<(Log, Vec<TermId>)>>,
    /// Histories that another world reached on the same windows.
    log_script: RefCell<Option<std::vec::IntoIter<Log>>>,
    /// Every place with its address term.
    addresses: RefCell<Vec<(u16, i64, TermId)>>,
    /// Numbers of the paths through the windows, by their conditions.
    paths: RefCell<Vec<TermId>>,
    /// Everything else that was decided by looking at terms, in order.
    decisions: RefCell<Vec<Option<u64>>>,
    /// What another world on the same windows decided.
    decision_script: RefCell<Option<std::vec::IntoIter<Option<u64>>>>,
    /// What must be equal for those decisions to hold.
    claims: RefCell<Vec<(TermId, TermId)>>,
}

impl<'a> World<'a> {
    /// A world at its beginning.
    pub fn new(arena: &'a Arena, object: &'a Object, facts: Option<&'a InsnFacts>, modes: Modes) -> World<'a> {
        World {
            arena,
            object,
            facts,
            modes,
            roots: RefCell::default(),
            events: RefCell::default(),
            pointers: RefCell::default(),
            trace: RefCell::default(),
            script: RefCell::default(),
            log_trace: RefCell::default(),
            log_script: RefCell::default(),
            addresses: RefCell::default(),
            paths: RefCell::default(),
            decisions: RefCell::default(),
            decision_script: RefCell::default(),
            claims: RefCell::default(),
        }
    }

    /// Uses the places that another world found, because this world's arena does not normalize addresses.
    pub fn follow(&self, other: Option<&World<'_>>) {
        if let Some(other) = other {
            *self.roots.borrow_mut() = other.roots();
            *self.script.borrow_mut() = Some(other.trace.borrow().clone().into_iter());
            let logs: Vec<_> = other.log_trace.borrow().iter().map(|(log, _)| *log).collect();
            *self.log_script.borrow_mut() = Some(logs.into_iter());
            *self.decision_script.borrow_mut() = Some(other.decisions.borrow().clone().into_iter());
        }
    }

    /// Returns what `find` finds in a term, or what another world found at this point.
    fn decide(&self, find: impl FnOnce() -> Option<u64>) -> Option<u64> {
        let scripted = self.decision_script.borrow_mut().as_mut().and_then(Iterator::next);
        let found = scripted.unwrap_or_else(find);
        self.decisions.borrow_mut().push(found);
        found
    }

    fn claim(&self, a: TermId, b: TermId) {
        self.claims.borrow_mut().push((a, b));
    }

    /// The number of a path through the windows; 0: every path.
    pub fn path_number(&self, condition: Option<Term<'a>>) -> u32 {
        let Some(condition) = condition else { return 0 };
        let find = || self.paths.borrow().iter().position(|known| *known == condition.id());
        let number = self.decide(|| Some(find().unwrap_or(self.paths.borrow().len()) as u64)).unwrap_or(0) as usize;
        let known = self.paths.borrow().get(number).copied();
        match known {
            Some(known) => self.claim(known, condition.id()),
            None => self.paths.borrow_mut().push(condition.id()),
        }
        number as u32 + 1
    }

    /// The constant that a term is, if it is one.
    pub fn constant_of(&self, term: Term<'a>) -> Option<u64> {
        let found = self.decide(|| term.as_constant())?;
        self.claim(term.id(), term.like(found).id());
        Some(found)
    }

    /// The map that a term is the address of, if it is certain.
    pub fn map_of(&self, term: Term<'a>) -> Option<MapId> {
        let found = self.decide(|| match self.arena.shape(term.id()).0 {
            Shape::Symbol(Symbol::Reference(Reference::Map(map))) => Some(map.0.into()),
            _ => None,
        })?;
        let map = MapId(found as u32);
        self.claim(term.id(), self.reference(Reference::Map(map)).id());
        Some(map)
    }

    /// What an address points into; `None`: it is known to be a scalar.
    pub fn class_of_address(&self, term: Term<'a>) -> Option<Class> {
        const NUMBER: u64 = 0;
        const FRAME: u64 = 1;
        const ELSEWHERE: u64 = 2;
        let found = self.decide(|| {
            let address = match self.arena.shape(term.id()).0 {
                Shape::Sum(constant, _) if constant != 0 => term.sub(&term.like(constant)),
                _ => term,
            };
            let symbols = crate::term::smt::symbols(self.arena, &[address.id()]);
            let pointers: Vec<Class> = {
                let pointers = self.pointers.borrow();
                symbols.iter().filter_map(|(_, id)| pointers.get(id)).map(|known| known.0).collect()
            };
            Some(match self.class_of(address.id()).0 {
                Class::Unknown if pointers.is_empty() => NUMBER,
                Class::Unknown if !pointers.contains(&Class::Stack(0)) => ELSEWHERE,
                Class::Unknown | Class::Stack(0) => FRAME,
                _ => NUMBER,
            })
        });
        match found {
            Some(NUMBER) => None,
            Some(FRAME) => Some(Class::Stack(0)),
            _ => Some(Class::Unknown),
        }
    }

    /// What was assumed when following another world, as pairs that must be equal: addresses of one root have the
    /// assumed distances, and events with one number have equal operands.
    pub fn obligations(&self) -> Vec<(TermId, TermId)> {
        let mut pairs = Vec::new();
        let mut first_address: QuickMap<u16, (i64, TermId)> = QuickMap::default();
        for (root, offset, term) in self.addresses.borrow().iter() {
            match first_address.get(root) {
                None => {
                    first_address.insert(*root, (*offset, *term));
                }
                Some((from, first)) => {
                    let first = self.arena.term(*first);
                    let expected = first.add(&first.like(offset.wrapping_sub(*from) as u64));
                    pairs.push((expected.id(), *term));
                }
            }
        }
        let mut first_operands: QuickMap<Log, Vec<TermId>> = QuickMap::default();
        for (log, operands) in self.log_trace.borrow().iter() {
            let first = first_operands.entry(*log).or_insert_with(|| operands.clone());
            pairs.extend(first.iter().copied().zip(operands.iter().copied()));
        }
        pairs.extend(self.claims.borrow().iter().copied());
        pairs.retain(|(a, b)| a != b);
        pairs
    }

    /// The packet pointer that a four-byte load from the context returns, if it returns one: what the facts call the
    /// packet's start, or its successor after an event moved the packet.
    pub fn packet_pointer(&self, root: u16, offset: i64, moved: Log) -> Option<Term<'a>> {
        let at = u32::try_from(self.root(root).region_offset?.checked_add(offset)?).ok()?;
        let mut programs = self.object.programs.iter().map(|program| {
            let field = program.program_type?.context().field_at(at)?;
            (field.offset == at && field.size == 4).then_some(field.value)
        });
        let first = programs.next()??;
        if programs.any(|other| other != Some(first)) {
            return None;
        }
        let start = match first {
            FieldValue::PacketPointer => RegionStart::Packet,
            FieldValue::PacketEnd => RegionStart::PacketEnd,
            FieldValue::PacketMeta => RegionStart::PacketMeta,
            _ => return None,
        };
        let symbol = match moved {
            0 => Symbol::RegionStart(start),
            _ => Symbol::MovedRegion { start, log: moved },
        };
        Some(self.pointer_symbol(symbol, Class::Packet, Some(0)))
    }

    /// Whether the context is plain memory in all programs of the object, so that the kernel does not rewrite accesses.
    pub fn has_plain_context(&self) -> bool {
        let mut programs = self.object.programs.iter().map(|program| program.program_type);
        !self.object.programs.is_empty()
            && programs.all(|own| own.is_some_and(|own| own.context().access == ContextAccess::Memory))
    }

    /// Whether a load of four bytes from the context gives a pointer: the kernel makes it eight bytes wide.
    pub fn loads_pointer(&self, root: u16, offset: i64) -> bool {
        let root = self.root(root);
        let known = || {
            let at = u32::try_from(root.region_offset?.checked_add(offset)?).ok()?;
            let types: Vec<_> = self.object.programs.iter().map(|program| program.program_type).collect();
            let types: Option<Vec<_>> = types.into_iter().collect();
            let types = types.filter(|types| !types.is_empty()).unwrap_or_else(|| ProgramType::ALL.to_vec());
            let is_number = |program: &ProgramType| {
                let field = program.context().field_at(at);
                field.is_none_or(|field| field.value == FieldValue::Scalar)
            };
            Some(types.iter().all(is_number))
        };
        known() != Some(true)
    }

    /// What a register holds at the start; `None` when it may not be read.
    pub fn register(&self, reg: Reg) -> Option<Term<'a>> {
        if reg == Reg::R10 {
            return Some(self.pointer_symbol(Symbol::FramePointer(0), Class::Stack(0), Some(0)));
        }
        match self.facts.map(|facts| &facts.registers[reg.index()]) {
            None | Some(Value::Unknown) => Some(self.pointer_symbol(Symbol::Register(reg), Class::Unknown, None)),
            Some(Value::Uninit) => None,
            Some(value) => Some(self.initial(value, Symbol::Register(reg))),
        }
    }

    /// A value of which something is known; `symbol` names what is not.
    fn initial(&self, value: &Value, symbol: Symbol) -> Term<'a> {
        match value {
            Value::Scalar(scalar) => match scalar.as_constant() {
                Some(value) => self.arena.constant(64, value),
                None => self.known_bits(self.arena.symbol(symbol, 64), scalar.tnum.value, scalar.tnum.mask),
            },
            Value::Pointer(pointer) => self.initial_pointer(pointer, symbol),
            Value::Uninit | Value::Unknown => self.pointer_symbol(symbol, Class::Unknown, None),
        }
    }

    /// Conditions that hold at the start: what the facts say of scalars besides known bits.
    pub fn assumptions(&self) -> Vec<Term<'a>> {
        let Some(facts) = self.facts else { return Vec::new() };
        let mut all = Vec::new();
        for reg in Reg::all() {
            if let (Value::Scalar(scalar), Some(term)) = (&facts.registers[reg.index()], self.register(reg)) {
                self.assume(scalar, &term, &mut all);
            }
        }
        let is_frame = |root: &Root| root.class == Class::Stack(0) && root.region_offset == Some(0);
        let frame = self.roots.borrow().iter().position(is_frame);
        // Sorted, so that a query is always the same text.
        let stack: BTreeMap<_, _> = facts.stack.iter().collect();
        for (offset, value) in stack {
            if let (Value::Scalar(scalar), Some(frame)) = (value, frame) {
                let term = self.word(frame as u16, i64::from(*offset), 0);
                self.assume(scalar, &term, &mut all);
            }
        }
        all.retain(|term| term.as_constant() != Some(1));
        all
    }

    fn assume(&self, scalar: &Scalar, term: &Term<'a>, all: &mut Vec<Term<'a>>) {
        if scalar.as_constant().is_some() {
            return;
        }
        let low = term.truncate(32);
        let known = term.like(!scalar.tnum.mask);
        all.extend([
            BitVec::eq(&term.and(&known), &term.like(scalar.tnum.value)),
            term.like(scalar.umin).ule(term),
            term.ule(&term.like(scalar.umax)),
            term.like(scalar.smin as u64).sle(term),
            term.sle(&term.like(scalar.smax as u64)),
            low.like(scalar.u32_min.into()).ule(&low),
            low.ule(&low.like(scalar.u32_max.into())),
            low.like(scalar.s32_min as u32 as u64).sle(&low),
            low.sle(&low.like(scalar.s32_max as u32 as u64)),
        ]);
    }

    /// The term with the known bits in their places. Many scattered known bits are left to the solver.
    fn known_bits(&self, term: Term<'a>, value: u64, unknown: u64) -> Term<'a> {
        let changes = unknown ^ (unknown << 1);
        if unknown == u64::MAX || changes.count_ones() > 8 {
            return term;
        }
        let mut parts = Vec::new();
        let mut at = 0;
        while at < 64 {
            let rest = if unknown >> at & 1 == 1 { !(unknown >> at) } else { unknown >> at };
            let run = rest.trailing_zeros().min(64 - at);
            let part = if unknown >> at & 1 == 1 {
                term.extract(at, run)
            } else {
                self.arena.constant(run, value >> at & mask(run))
            };
            parts.push(part);
            at += run;
        }
        self.arena.concat(&parts)
    }

    fn initial_pointer(&self, pointer: &Pointer, symbol: Symbol) -> Term<'a> {
        let offset = pointer.offset.as_constant().map(|offset| offset as i64);
        let class = Class::of(&pointer.region);
        // A region that exists once has one start, which all pointers into it share.
        let start = match &pointer.region {
            Region::Context => Some(Symbol::RegionStart(RegionStart::Context)),
            Region::Packet => Some(Symbol::RegionStart(RegionStart::Packet)),
            Region::PacketMeta => Some(Symbol::RegionStart(RegionStart::PacketMeta)),
            Region::PacketEnd => Some(Symbol::RegionStart(RegionStart::PacketEnd)),
            Region::Stack { up } => Some(Symbol::FramePointer(*up)),
            Region::Map(map) => Some(Symbol::Reference(Reference::Map(*map))),
            Region::MapValue(map) if self.has_one_value(*map) => {
                Some(Symbol::Reference(Reference::MapValue { map: *map, offset: 0 }))
            }
            Region::MapValue(_) | Region::Other(_) => None,
        };
        match (start, offset) {
            (Some(start), Some(offset)) if !pointer.nullable => {
                let start = self.pointer_symbol(start, class, Some(0));
                start.add(&self.arena.constant(64, offset as u64))
            }
            _ => self.pointer_symbol(symbol, class, offset.filter(|_| !pointer.nullable)),
        }
    }

    /// Whether a map has exactly one value, at one address, whatever the loader does: a data section.
    fn has_one_value(&self, map: MapId) -> bool {
        has_one_value(self.object, map)
    }

    /// A variable that is a pointer.
    pub fn pointer_symbol(&self, symbol: Symbol, class: Class, region_offset: Option<i64>) -> Term<'a> {
        let term = self.arena.symbol(symbol, 64);
        self.pointers.borrow_mut().insert(term.id(), (class, region_offset));
        term
    }

    /// Records what a variable points into.
    pub fn learn(&self, term: TermId, value: &Value) {
        let is_symbol = || matches!(self.arena.shape(term).0, Shape::Symbol(_));
        if let Value::Pointer(pointer) = value
            && is_symbol()
        {
            let mut pointers = self.pointers.borrow_mut();
            let known = pointers.entry(term).or_insert((Class::Unknown, None));
            if known.0 == Class::Unknown {
                known.0 = Class::of(&pointer.region);
            }
        }
    }

    /// Records that a value is a scalar, so that its operands are not addresses.
    pub fn is_number(&self, term: Term<'a>) {
        let mut pointers = self.pointers.borrow_mut();
        for (_, symbol) in crate::term::smt::symbols(self.arena, &[term.id()]) {
            if pointers.get(&symbol).is_some_and(|known| known.0 == Class::Unknown) {
                pointers.remove(&symbol);
            }
        }
    }

    /// The address that a reference stands for.
    pub fn reference(&self, reference: Reference) -> Term<'a> {
        match reference {
            Reference::MapValue { map, offset } => {
                let start = Symbol::Reference(Reference::MapValue { map, offset: 0 });
                let start = self.pointer_symbol(start, Class::MapValue(map), Some(0));
                start.add(&self.arena.constant(64, offset.into()))
            }
            _ => self.pointer_symbol(Symbol::Reference(reference), Class::Other, None),
        }
    }

    /// Which root and offset an address is.
    pub fn place(&self, address: Term<'a>) -> (u16, i64) {
        let scripted = self.script.borrow_mut().as_mut().and_then(Iterator::next);
        let place = scripted.unwrap_or_else(|| self.find_place(address));
        self.trace.borrow_mut().push(place);
        self.addresses.borrow_mut().push((place.0, place.1, address.id()));
        place
    }

    fn find_place(&self, address: Term<'a>) -> (u16, i64) {
        let (root, offset) = match self.arena.shape(address.id()).0 {
            Shape::Sum(constant, _) if constant != 0 => (address.sub(&address.like(constant)), constant),
            Shape::Constant(value) => (address.like(0), value),
            _ => (address, 0),
        };
        let mut roots = self.roots.borrow_mut();
        let number = roots.iter().position(|known| known.term == root.id()).unwrap_or_else(|| {
            let (class, region_offset) = self.class_of(root.id());
            let start = Shape::Symbol(Symbol::RegionStart(RegionStart::Packet));
            let is_packet_start = self.arena.shape(root.id()).0 == start;
            roots.push(Root { term: root.id(), class, region_offset, is_packet_start });
            roots.len() - 1
        });
        (number as u16, offset as i64)
    }

    fn class_of(&self, root: TermId) -> (Class, Option<i64>) {
        let pointers = self.pointers.borrow();
        if let Some(known) = pointers.get(&root) {
            return *known;
        }
        let Shape::Sum(_, terms) = self.arena.shape(root).0 else { return (Class::Unknown, None) };
        // If one addend is a pointer, the verifier made sure that the others are scalars.
        let known = |(factor, id): &(u64, TermId)| {
            let class = pointers.get(id)?.0;
            (class != Class::Unknown).then_some((*factor, class))
        };
        let mut found = terms.iter().filter_map(known);
        match (found.next(), found.next()) {
            (Some((1, class)), None) => (class, None),
            _ => (Class::Unknown, None),
        }
    }

    /// Whether two terms are known to be addresses, or differ by a constant.
    pub fn are_addresses(&self, one: TermId, other: TermId) -> bool {
        let root = |term: TermId| match self.arena.shape(term).0 {
            Shape::Sum(constant, _) if constant != 0 => {
                let term = self.arena.term(term);
                term.sub(&term.like(constant)).id()
            }
            _ => term,
        };
        let roots = [root(one), root(other)];
        roots[0] == roots[1] || roots.iter().any(|root| self.class_of(*root).0 != Class::Unknown)
    }

    /// Whether a term is a packet address as a variable, without an added constant.
    pub fn is_packet_symbol(&self, term: TermId) -> bool {
        let symbol = matches!(self.arena.shape(term).0, Shape::Symbol(_));
        symbol && self.pointers.borrow().get(&term).is_some_and(|known| known.0 == Class::Packet)
    }

    /// Conditions for the packet addresses in these terms: no packet is in the last 4 GiB of the address space, where
    /// error codes are.
    pub fn packets_end(&self, terms: &[TermId]) -> Vec<TermId> {
        let symbols = crate::term::smt::symbols(self.arena, terms);
        let packets = symbols.iter().map(|(_, id)| *id).filter(|id| self.is_packet_symbol(*id));
        packets.map(|id| self.arena.term(id).ult(&self.arena.constant(64, 0xffff_ffff << 32)).id()).collect()
    }

    /// A root by its number.
    pub fn root(&self, number: u16) -> Root {
        self.roots.borrow()[usize::from(number)]
    }

    /// All roots met so far.
    pub fn roots(&self) -> Vec<Root> {
        self.roots.borrow().clone()
    }

    /// The history after one more event.
    pub fn record(&self, event: Event) -> Log {
        let operands = event.operands.clone();
        let scripted = self.log_script.borrow_mut().as_mut().and_then(Iterator::next);
        let log = scripted.unwrap_or_else(|| self.number_event(event));
        self.log_trace.borrow_mut().push((log, operands));
        log
    }

    fn number_event(&self, event: Event) -> Log {
        let mut events = self.events.borrow_mut();
        if let Some(log) = events.1.get(&event) {
            return *log;
        }
        events.0.push(event.clone());
        let log = events.0.len() as Log;
        events.1.insert(event, log);
        log
    }

    /// Eight bytes at a multiple of eight from a root, after a history.
    fn word(&self, root: u16, offset: i64, log: Log) -> Term<'a> {
        let symbol = Symbol::Word { root, offset, log };
        if log == 0 && self.root(root).class == Class::Stack(0) && self.root(root).region_offset == Some(0) {
            let slot = i16::try_from(offset).ok().and_then(|offset| self.facts?.stack.get(&offset));
            if let Some(value) = slot {
                return self.initial(value, symbol);
            }
        }
        self.pointer_symbol(symbol, Class::Unknown, None)
    }

    /// One byte, after a history of its class.
    pub fn byte(&self, root: u16, offset: i64, log: Log) -> Term<'a> {
        let begin = offset & !7;
        self.word(root, begin, log).extract(8 * (offset - begin) as u32, 8)
    }

    /// `bytes` bytes, after a history of their class.
    pub fn bytes(&self, root: u16, offset: i64, bytes: u32, log: Log) -> Term<'a> {
        let parts: Vec<_> = (0..i64::from(bytes)).map(|byte| self.byte(root, offset.wrapping_add(byte), log)).collect();
        self.arena.concat(&parts)
    }
}

/// The instruction with its registers zeroed, to compare everything else of two CO-RE instructions.
pub fn without_registers(node: &Node) -> Insn {
    let zero = Reg::R0;
    let source = |src| match src {
        kiln_isa::Source::Reg(_) => kiln_isa::Source::Reg(zero),
        imm => imm,
    };
    let at = |address: kiln_isa::Address| kiln_isa::Address { base: zero, ..address };
    match node.insn {
        Insn::Alu { op, width, src, .. } => Insn::Alu { op, width, dst: zero, src: source(src) },
        Insn::LoadImm64 { imm, .. } => Insn::LoadImm64 { dst: zero, imm },
        Insn::Load { size, signed, address, .. } => Insn::Load { size, signed, dst: zero, address: at(address) },
        Insn::Store { size, address, src } => Insn::Store { size, address: at(address), src: source(src) },
        other => other,
    }
}
