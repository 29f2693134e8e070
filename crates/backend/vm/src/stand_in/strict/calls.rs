//! Calls in a strict run: what a helper reads, writes and gives back, and what it returns.

use kiln_isa::{CallTarget, Reg};
use kiln_platform::{ArgKind, ContextAccess, Helper, Kfunc, KfuncFlag, Lookup, ProgramType, ReturnKind, helper_id};
use kiln_program::{MapId, Node};

use super::{FRAME_BYTES, Frame, Pending, Shadow, Strict, Thing, Wrong, stack};
use crate::map::index_of_handle;
use crate::state::State;

/// A size above this is never one of memory.
const MOST_BYTES: u64 = 1 << 29;
/// The registers of arguments.
const ARGUMENTS: [Reg; 5] = [Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5];

impl Strict {
    pub(super) fn call(
        &mut self,
        state: &State,
        program_type: ProgramType,
        (node, kfunc): (&Node, Option<&'static Kfunc>),
        target: CallTarget,
        registers: &[u64; Reg::COUNT],
    ) {
        match target {
            CallTarget::Subprogram(_) => {
                let mut own = [Shadow::Unset; Reg::COUNT];
                own[1..6].copy_from_slice(&self.frame().registers[1..6]);
                let start = registers[10];
                own[10] = stack(start, start + FRAME_BYTES);
                self.called(Shadow::Unset);
                self.frames.push(Frame { registers: own, pending: Pending::Nothing });
                self.entering = true;
            }
            CallTarget::Kfunc { .. } => {
                self.called(Shadow::Foreign);
                if let Some(kfunc) = kfunc {
                    self.references.kfunc(kfunc, registers);
                    if kfunc.has(KfuncFlag::RetNull) {
                        self.frame().pending = Pending::Nullable(Reg::R0);
                    }
                }
            }
            CallTarget::Helper(id) => match Helper::by_id(id) {
                Some(helper) => self.helper(state, program_type, node, helper, registers),
                None => self.called(Shadow::Foreign),
            },
        }
    }

    fn helper(
        &mut self,
        state: &State,
        program_type: ProgramType,
        node: &Node,
        helper: &'static Helper,
        registers: &[u64; Reg::COUNT],
    ) {
        let prototype = helper.prototype_for(program_type);
        let place = prototype.args.iter().position(|kind| *kind == ArgKind::ConstMapPtr);
        let index = place.and_then(|at| index_of_handle(registers[at + 1]));
        let map = index.and_then(|index| state.maps.get(index)).map(|map| &map.definition);
        let (key, value) = map.map_or((0, 0), |map| (u64::from(map.key_size), u64::from(map.value_size)));
        let mut allocated = 0;
        for (at, kind) in prototype.args.iter().enumerate().take(5) {
            let kind = map.map_or(*kind, |map| kind.with_map(map.map_type));
            let (number, reg) = (registers[at + 1], ARGUMENTS[at]);
            let shadow = self.get(reg);
            let size = registers.get(at + 2).copied().unwrap_or(0);
            let (bytes, reads, writes, nullable) = match kind {
                ArgKind::MapKey => (key, true, false, false),
                ArgKind::MapValue => (value, true, false, false),
                ArgKind::MapValueOrNull => (value, true, false, true),
                ArgKind::UninitMapValue => (value, false, true, false),
                ArgKind::Memory(used) => (size, used.reads, used.writes, used.nullable),
                ArgKind::FixedMemory { size, memory: used, .. } => {
                    (size.into(), used.reads, used.writes, used.nullable)
                }
                ArgKind::Size { zero_allowed } => {
                    self.size(node, reg, number, zero_allowed);
                    continue;
                }
                ArgKind::ConstAllocSize => {
                    allocated = number;
                    continue;
                }
                ArgKind::ReleasedRingBufferMemory | ArgKind::ReleasedBtfSockCommon => {
                    self.release(node, reg, shadow, number);
                    continue;
                }
                ArgKind::ReleasedBtfIdOrNull => {
                    self.references.released(number);
                    continue;
                }
                ArgKind::Anything => {
                    self.read(node, reg);
                    continue;
                }
                _ => continue,
            };
            if nullable && number == 0 || bytes == 0 || bytes > MOST_BYTES {
                continue;
            }
            let name = format!("argument {} of bpf_{}", at + 1, helper.name);
            if let Some(origin) = self.check(node, &name, shadow, number, bytes)
                && self.violation.is_none()
            {
                if origin.thing == Thing::Context && program_type.context().access == ContextAccess::Rewritten {
                    let text = format!("{name} is the context, and its {bytes} bytes are other fields in the kernel");
                    self.wrong(node, Wrong::Context, text);
                }
                if reads && origin.thing == Thing::Stack {
                    self.read_stack(node, number, bytes);
                }
                if writes {
                    self.write(state, node, origin, number, bytes);
                }
            }
        }
        if helper.id == helper_id::SPIN_LOCK && state.held.is_locked() {
            self.wrong(
                node,
                Wrong::Held,
                "a lock is taken, and one is held already: the run waits for ever".to_owned(),
            );
        }
        self.references.helper(helper, prototype.returns);
        self.moves += u32::from(helper.changes_packet_data);
        if !helper.fastcall {
            self.frame().registers[1..6].fill(Shadow::Unset);
        }
        let object = |thing, bytes| (Shadow::Number, Pending::Object(Reg::R0, thing, bytes));
        let (shadow, pending) = match prototype.returns {
            ReturnKind::Integer => (Shadow::Number, Pending::Nothing),
            ReturnKind::Void => (Shadow::Unset, Pending::Nothing),
            ReturnKind::MapValueOrNull | ReturnKind::MapValue => match (map, index) {
                (Some(map), Some(index)) if map.map_type.rules().lookup == Lookup::Value => {
                    object(Thing::Value(MapId(index as u32)), value)
                }
                _ => object(Thing::Socket, 1 << 20),
            },
            ReturnKind::RingBufferMemoryOrNull => object(Thing::Record, allocated),
            ReturnKind::DynptrMemoryOrNull => object(Thing::Record, registers[3]),
            _ => object(Thing::Socket, 1 << 20),
        };
        self.set(Reg::R0, shadow);
        self.frame().pending = pending;
    }

    fn size(&mut self, node: &Node, reg: Reg, number: u64, zero_allowed: bool) {
        self.read(node, reg);
        if number == 0 && !zero_allowed {
            self.wrong(node, Wrong::Size, format!("the size in {reg} is 0"));
        } else if number > MOST_BYTES {
            self.wrong(node, Wrong::Size, format!("the size in {reg} is {} ({number:#x})", number as i64));
        }
    }

    fn release(&mut self, node: &Node, reg: Reg, shadow: Shadow, number: u64) {
        match shadow {
            Shadow::Pointer(_) if self.released.contains(&number) => {
                self.wrong(node, Wrong::Released, format!("what {reg} points to is given back a second time"));
            }
            Shadow::Number if number == 0 => self.wrong(node, Wrong::Null, format!("{reg} is null, and is given back")),
            _ => {
                self.released.insert(number);
                self.references.released(number);
            }
        }
    }

    pub(super) fn exit(&mut self, state: &State, node: &Node) {
        self.read(node, Reg::R0);
        let result = self.get(Reg::R0);
        if self.frames.len() > 1 {
            self.frames.pop();
            // A callback's result is the helper's: what that gives is pending.
            if matches!(self.frame().pending, Pending::Nothing) {
                self.set(Reg::R0, result);
            }
        } else if let Some(text) = state.held.words().or_else(|| self.references.words()) {
            self.wrong(node, Wrong::Held, format!("the program ends, and {text}"));
        }
    }
}
