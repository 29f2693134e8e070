//! Calls and other events: what must be equal when both functions reach one, and what is equal after it.
//!
//! The effect of a call is unknown, but equal inputs have equal effects: the same arguments, and the same memory that
//! it may read. Prototypes of `kiln-platform` define what a helper reads and writes. If they do not, it is everything
//! that the program could pass.

use kiln_isa::semantics::BitVec;
use kiln_isa::{CallTarget, Insn, PacketMode, Reg, RegSet};
use kiln_platform::helper_id::MAP_LOOKUP_ELEM;
use kiln_platform::limits::MAX_STACK_BYTES;
use kiln_platform::{ArgKind, Effect, Fills, Follows, Helper, Prototype, Stable};
use kiln_program::btf::{Btf, Kind, TypeId};
use kiln_program::{Function, Linkage, Node, Object, Reference};

use crate::provenance::Class;
use crate::state::{Contents, State, World};
use crate::term::Term;

/// The old and the new function at an event.
pub struct Event<'e, 'a> {
    /// The positions of the event in both functions.
    pub world: &'e World<'a>,
    /// The event's instruction in the old function.
    pub node: &'e Node,
    /// The event's instruction in the new function. It differs only if a packet load splits its index differently.
    pub other: &'e Node,
    /// The classes of R1 to R5, by the old function's provenance.
    pub arguments: [Class; 5],
    /// Which of R1 to R5 some path of the old function has written: it reads no others.
    pub readable: RegSet,
    /// Number of earlier events on this path.
    pub number: u32,
    /// The new version of a function that is called.
    pub callees: [Option<&'e Function>; 2],
    /// Whether numbers may be addresses in this frame.
    pub leaks: bool,
}

/// Whether an instruction is an event.
pub fn is_event(insn: &Insn) -> bool {
    matches!(
        insn,
        Insn::Call(_) | Insn::Exit | Insn::LoadPacket { .. } | Insn::MayGoto { .. } | Insn::JumpIndirect { .. }
    )
}

/// A buffer in the frame that is an argument of a helper.
struct Buffer {
    from: i64,
    bytes: i64,
    reads: bool,
    writes: bool,
}

/// What a call may do to memory.
struct Reach {
    buffers: Vec<Buffer>,
    /// Whether it may read and write all of the frame.
    frame: bool,
    /// Whether it may write memory outside of the frame.
    writes_memory: bool,
    /// Whether it reads memory outside of the frame.
    reads_memory: bool,
}

impl<'a> Event<'_, 'a> {
    /// Returns what must be equal, and steps past the event.
    ///
    /// # Errors
    /// Returns why the two cannot be at the event together.
    pub fn pass(&self, old: &mut State<'a>, new: &mut State<'a>) -> Result<Vec<Term<'a>>, String> {
        let mut goals = Vec::new();
        let mut equal = |reg: Reg| {
            goals.push(BitVec::eq(&old.registers[reg.index()], &new.registers[reg.index()]));
        };
        match self.node.insn {
            Insn::Exit => {
                equal(Reg::R0);
                old.same_memory(self.world, new, &mut goals)?;
                return Ok(goals);
            }
            Insn::MayGoto { .. } => return Ok(goals),
            Insn::JumpIndirect { dst } => {
                equal(dst);
                return Ok(goals);
            }
            Insn::LoadPacket { .. } => {
                equal(Reg::R6);
                let index = |state: &State<'a>, node: &Node| packet_index(self.world, state, &node.insn);
                let (one, two) = (index(old, self.node), index(new, self.other));
                goals.push(BitVec::eq(&one.ok_or("no packet load")?, &two.ok_or("no packet load")?));
                old.same_memory(self.world, new, &mut goals)?;
            }
            Insn::Call(target) => {
                self.arguments_read(target).intersection(self.readable).iter().for_each(&mut equal);
                let reach = self.reach(target, [old, new]);
                if reach.reads_memory || reach.writes_memory {
                    old.same_memory(self.world, new, &mut goals)?;
                }
                self.frame(&reach, [old, new], &mut goals)?;
            }
            _ => return Err(format!("`{}` is no event", self.node.insn)),
        }
        let result = self.result(old);
        for (side, state) in [old, new].into_iter().enumerate() {
            self.return_to(state, &format!("lost_{}_{side}", self.number), result);
        }
        Ok(goals)
    }

    /// Caller-saved registers hold something unknown, and R0 the result.
    fn return_to(&self, state: &mut State<'a>, lost: &str, result: Term<'a>) {
        for reg in RegSet::CALLER_SAVED.iter() {
            state.registers[reg.index()] = self.world.arena.symbol(&format!("{lost}_{}", reg.number()), 64);
        }
        state.registers[0] = result;
        state.granted.extend(self.granted(result));
    }

    /// Steps past a call that only the old function makes.
    ///
    /// # Errors
    /// Returns why the call cannot be removed.
    pub fn leave_out(&self, old: &mut State<'a>) -> Result<(), String> {
        let helper = self.node.helper().and_then(Helper::by_id);
        let only_answers = helper.is_some_and(|helper| match helper.id {
            _ if helper.acquires || helper.changes_packet_data || helper.moves_on => false,
            MAP_LOOKUP_ELEM => self.map().is_some_and(|map| map.map_type.rules().forgets_lookups),
            _ => helper.effect == Effect::ResultOnly,
        });
        if !only_answers {
            return Err(format!("`{}` is left out, and does more than answer", self.node.insn));
        }
        let name = format!("unread_{}", self.number);
        let result = self.stable(old).unwrap_or_else(|| self.world.arena.symbol(&name, 64));
        self.return_to(old, &name, result);
        Ok(())
    }

    fn helper(&self) -> Option<(&'static Helper, &'static Prototype)> {
        let helper = self.node.helper().and_then(Helper::by_id)?;
        let mut found = self.world.types.iter().map(|own| Some(helper.prototype_for((*own)?)));
        let first = found.next()??;
        found.all(|other| other == Some(first)).then_some((helper, first))
    }

    fn map(&self) -> Option<&kiln_program::Map> {
        match self.arguments[0] {
            Class::Map(map) => self.world.object.maps.get(map.index()),
            _ => None,
        }
    }

    /// Argument registers that the call may read.
    fn arguments_read(&self, target: CallTarget) -> RegSet {
        let object = self.world.object;
        let declared = |id: u32| parameters(object, id).map_or(RegSet::arguments(5), RegSet::arguments);
        match (target, self.node.reference) {
            (CallTarget::Helper(id), _) => {
                RegSet::arguments(Helper::by_id(id).map_or(5, Helper::most_arguments).min(5))
            }
            (CallTarget::Subprogram(_), Reference::Function(id)) => match object.functions.get(id.index()) {
                Some(callee) if callee.linkage != Linkage::Static => declared(callee.btf_id),
                _ => self.callees.iter().fold(RegSet::EMPTY, |read, callee| {
                    read.union(callee.map_or(RegSet::arguments(5), crate::live::at_entry))
                }),
            },
            (CallTarget::Kfunc { .. }, Reference::Extern(id)) => {
                declared(object.externs.get(id.index()).map_or(0, |symbol| symbol.btf_id))
            }
            _ => RegSet::arguments(5),
        }
    }

    fn reach(&self, target: CallTarget, [old, new]: [&State<'a>; 2]) -> Reach {
        let local = self.leaks || self.arguments.iter().any(|class| class.may_be_frame());
        let everything = Reach { buffers: Vec::new(), frame: local, writes_memory: true, reads_memory: true };
        let CallTarget::Helper(_) = target else {
            // A function that gets no address of this frame cannot access it.
            let read = self.arguments_read(target);
            let handed = self.leaks || read.iter().any(|reg| self.arguments[reg.index() - 1].may_be_frame());
            return Reach { frame: handed, ..everything };
        };
        let Some((helper, prototype)) = self.helper() else { return everything };
        let mut reach = Reach {
            buffers: Vec::new(),
            frame: helper.effect == Effect::Any && local || helper.follows != Follows::Nothing && self.leaks,
            writes_memory: helper.effect > Effect::ChangesOutside || helper.changes_packet_data,
            reads_memory: helper.effect != Effect::ResultOnly,
        };
        for index in 0..helper.most_arguments().min(5) {
            let kind = prototype.args.get(index).copied().unwrap_or(ArgKind::Anything);
            let kind = self.map().map_or(kind, |map| kind.with_map(map.map_type));
            let value = old.registers[index + 1];
            let class = match self.world.frame_offset(value) {
                Some(offset) => Class::Frame(Some(offset)),
                None => self.arguments[index],
            };
            if matches!(kind, ArgKind::Callback | ArgKind::StackOrNull | ArgKind::Dynptr(_)) {
                reach.writes_memory = true;
                reach.frame |= local;
            }
            let writes = kind.writes_memory();
            let Class::Frame(Some(from)) = class else {
                // A number counts as an address only if the prototype declares it as one.
                reach.frame |= class.may_be_frame();
                reach.writes_memory |= writes;
                continue;
            };
            let follows = helper.follows == Follows::Memory;
            let bytes = self.size(kind, [old, new], index);
            match (kind.reads_memory() || writes, bytes) {
                (true, Some(bytes)) if !follows => {
                    reach.buffers.push(Buffer { from, bytes, reads: kind.reads_memory(), writes });
                }
                _ => reach.frame = true,
            }
        }
        reach
    }

    /// How many bytes a helper may access at an argument.
    fn size(&self, kind: ArgKind, [old, new]: [&State<'a>; 2], index: usize) -> Option<i64> {
        let bytes = match kind {
            ArgKind::MapKey => self.map()?.key_size,
            ArgKind::MapValue | ArgKind::MapValueOrNull | ArgKind::UninitMapValue => self.map()?.value_size,
            ArgKind::FixedMemory { size, .. } => size,
            ArgKind::Memory(_) => {
                let sizes = [old, new].map(|state| state.registers.get(index + 2).and_then(|size| size.as_constant()));
                u32::try_from(sizes[0].filter(|_| sizes[0] == sizes[1])?).ok()?
            }
            _ => return None,
        };
        (bytes <= MAX_STACK_BYTES).then_some(i64::from(bytes))
    }

    /// Requires that the bytes of the frame that the call reads are equal. The bytes that it writes are equal
    /// afterwards.
    fn frame(&self, reach: &Reach, [old, new]: [&mut State<'a>; 2], goals: &mut Vec<Term<'a>>) -> Result<(), String> {
        let world = self.world;
        if reach.frame {
            let places: std::collections::BTreeSet<i64> = old.written().chain(new.written()).collect();
            let differs = || "the frame was changed in another way before a call".to_owned();
            old.frame_contents.equal(&new.frame_contents, goals).ok_or_else(differs)?;
            let equal = |at: i64| BitVec::eq(&old.frame_byte(world, at), &new.frame_byte(world, at));
            goals.extend(places.into_iter().map(equal));
            for state in [&mut *old, &mut *new] {
                state.frame.clear();
                state.frame_contents = Contents::named(&format!("frame{}", self.number));
            }
        }
        let fills = self.helper().map_or(Fills::Unknown, |(helper, _)| helper.fills);
        let result = self.result(old);
        for buffer in &reach.buffers {
            for at in buffer.from..buffer.from + buffer.bytes {
                if buffer.reads {
                    goals.push(BitVec::eq(&old.frame_byte(world, at), &new.frame_byte(world, at)));
                }
                if !buffer.writes {
                    continue;
                }
                for state in [&mut *old, &mut *new] {
                    let left = state.frame_byte(world, at);
                    let place = at.unsigned_abs();
                    // Bytes that it does not write stay as they are.
                    let kept = world.arena.apply(&format!("buffer_{}_{place}_of", self.number), &[left], 8);
                    let written = world.arena.symbol(&format!("buffer_{}_{place}", self.number), 8);
                    let value = match fills {
                        Fills::Always => written,
                        Fills::OnSuccess => Term::ite(&result.is_zero(), &written, &kept),
                        Fills::Unknown => kept,
                    };
                    state.frame.insert(at, value);
                }
            }
        }
        if reach.writes_memory {
            for state in [old, new] {
                state.memory = Contents::named(&format!("memory{}", self.number));
                state.log.clear();
                state.ordered.clear();
                state.fields.clear();
                state.events = self.number + 1;
            }
        }
        Ok(())
    }

    fn result(&self, state: &State<'a>) -> Term<'a> {
        if let Insn::LoadPacket { size, .. } = self.node.insn {
            return self.world.arena.symbol(&format!("result_{}", self.number), size.bits()).zero_extend(64);
        }
        self.stable(state).unwrap_or_else(|| self.world.arena.symbol(&format!("result_{}", self.number), 64))
    }

    /// The result of a call that returns the same for the same arguments during a run.
    fn stable(&self, state: &State<'a>) -> Option<Term<'a>> {
        let (helper, prototype) = self.helper()?;
        let arena = self.world.arena;
        if helper.stable == Stable::Always {
            let arguments = &state.registers[1..=prototype.args.len().min(5)];
            return Some(arena.apply(&format!("helper_{}", helper.id), arguments, 64));
        }
        if helper.stable != Stable::InLastingElements {
            return None;
        }
        let map = self.map().filter(|map| map.map_type.rules().elements_stay)?;
        let offset = self.world.frame_offset(state.registers[2])?;
        let key = state.frame_bytes(self.world, offset, i64::from(map.key_size.min(8)).max(1));
        Some(arena.apply(&format!("element_{}", key.bits()), &[state.registers[1], key], 64))
    }

    /// The assumption about a result: the first element of an array exists.
    fn granted(&self, result: Term<'a>) -> Option<Term<'a>> {
        let is_lookup = self.helper().is_some_and(|(helper, _)| helper.id == MAP_LOOKUP_ELEM);
        let is_array = self.map().is_some_and(|map| map.map_type.rules().finds_every_key);
        (is_lookup && is_array).then_some(())?;
        let key = result.operand(1)?;
        let found = Term::not(&BitVec::eq(&result, &result.like(0)));
        Some(Term::not(&key.is_zero()).or(&found))
    }
}

/// Where in the packet a load begins: the kernel passes the sum to its helper as a 32-bit number.
fn packet_index<'a>(world: &World<'a>, state: &State<'a>, insn: &Insn) -> Option<Term<'a>> {
    let Insn::LoadPacket { mode, offset, .. } = *insn else { return None };
    let base = match mode {
        PacketMode::Absolute => world.arena.constant(32, 0),
        PacketMode::Indirect(reg) => state.registers[reg.index()].truncate(32),
    };
    Some(base.add(&base.like(u64::from(offset as u32))))
}

/// Whether two instructions load as many bytes from a packet.
pub fn are_packet_loads(one: &Insn, other: &Insn) -> bool {
    matches!((one, other), (Insn::LoadPacket { size: one, .. }, Insn::LoadPacket { size: other, .. }) if one == other)
}

/// Parameters of a function by its BTF id.
fn parameters(object: &Object, id: u32) -> Option<usize> {
    let types = Btf::parse(object.btf.as_deref()?).ok()?;
    let Kind::Function { prototype, .. } = *types.kind(TypeId(id)) else { return None };
    matches!(types.kind(prototype), Kind::Prototype { .. }).then(|| types.parameters(prototype).len().min(5))
}
