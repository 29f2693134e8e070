//! What the kernel prints of calls: of helpers and functions, their arguments, and what may not be called.

use kiln_isa::{CallTarget, Insn};
use kiln_platform::{ArgKind, KfuncMeaning, helper_id};

use super::{Words, moved_pointer};
use crate::explain::kernel_names::{expected, type_name};
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::Kind;

/// The structure that timers are.
const TIMER: &str = "bpf_timer";

impl Words<'_> {
    /// The call's name and number, as the kernel prints them.
    pub(super) fn function(&self) -> Option<String> {
        let helper = self.path.code.op(self.path.at).helper?;
        Some(format!("bpf_{}#{}", helper.name, helper.id))
    }

    pub(super) fn in_callback(&self) -> Option<String> {
        let packet_load = matches!(self.insn, Insn::LoadPacket { .. });
        (self.cause.case == Case::InCallback).then(|| match packet_load {
            true => "cannot use BPF_LD_[ABS|IND] within callback".to_owned(),
            false => "cannot tail call within callback".to_owned(),
        })
    }

    /// For every wrong argument of a global function, the kernel's last message is the same.
    pub(super) fn global_call(&self, reason: Reason) -> Option<String> {
        let Insn::Call(CallTarget::Subprogram(_)) = self.insn else { return None };
        if matches!(reason, Reason::CallDepth | Reason::LockDiscipline) {
            return None;
        }
        let callee = self.path.code.op(self.path.at).callee?;
        let routine = &self.path.code.functions[callee];
        let is_checked = routine.global && routine.btf_id != 0;
        if reason == Reason::UninitializedRegister && !is_checked {
            return None;
        }
        let name = routine.name;
        let reg = self.reg()?.number();
        Some(match self.cause.case {
            Case::PacketMayChange => format!("R{reg} is a packet pointer, but func#{callee} may change packet data"),
            _ => format!("Caller passes invalid args into func#{callee} ('{name}')"),
        })
    }

    /// Whether the call writes through the argument.
    pub(super) fn argument_writes(&self) -> bool {
        let helper = self.path.code.op(self.path.at).helper;
        let kind = helper.and_then(|helper| {
            let prototype = helper.prototype_for(self.path.code.program_type);
            prototype.args.get(self.reg()?.index().checked_sub(1)?)
        });
        match kind {
            Some(ArgKind::Memory(memory) | ArgKind::FixedMemory { memory, .. }) => memory.writes,
            Some(ArgKind::UninitMapValue) => true,
            _ => false,
        }
    }

    pub(super) fn argument(&self) -> Option<String> {
        if self.cause.case == Case::Format {
            return Some("Invalid format string".to_owned());
        }
        if self.cause.case == Case::StorageFlags {
            return Some("get_local_storage() doesn't support non-zero flags".to_owned());
        }
        let (Insn::Call(_), false) = (self.insn, self.cause.case == Case::OtherMap) else { return None };
        let (reg, register) = (self.reg()?, self.register()?);
        let number = reg.number();
        let helper = self.path.code.op(self.path.at).helper?;
        let prototype = helper.prototype_for(self.path.code.program_type);
        let kind = *prototype.args.get(reg.index().checked_sub(1)?)?;
        if kind == ArgKind::ConstString && register.kind() == Kind::MapValue {
            return Some(if self.cause.case == Case::NotTerminated {
                "string is not zero-terminated".to_owned()
            } else {
                format!("R{number} does not point to a readonly map'")
            });
        }
        if let (ArgKind::Context | ArgKind::ContextOrNull, Kind::Context) | (ArgKind::Callback, Kind::Function) =
            (kind, register.kind())
        {
            return Some(moved_pointer(number, &register));
        }
        if self.cause.case == Case::NoPacketMemory {
            return Some("helper access to the packet is not allowed".to_owned());
        }
        if kind == ArgKind::Timer && register.kind() == Kind::MapValue && !register.nullable {
            let map = self.path.code.map_of(&register)?;
            let moved = register.fixed_offset()?;
            let record = self.path.types.record_of(self.path.code, &register);
            let field = record.as_ref().and_then(|record| {
                record.fields.iter().find(|field| field.kind.name() == TIMER).map(|field| field.offset)
            });
            return Some(match field {
                Some(at) => format!("off {moved} doesn't point to 'struct {TIMER}' that is at {at}"),
                None => format!("map '{}' has no valid {TIMER}", map.name),
            });
        }
        let expected = expected(kind)?;
        Some(format!("R{number} type={} expected={expected}", type_name(&register)))
    }

    pub(super) fn size(&self) -> Option<String> {
        if self.cause.case == Case::Format {
            return None;
        }
        let (reg, register) = (self.reg()?.number(), self.register()?);
        if register.kind() != Kind::Scalar {
            return Some(format!("R{reg} type={} expected=scalar", type_name(&register)));
        }
        let scalar = &register.scalar;
        Some(match self.cause.case {
            Case::NotConstant if matches!(self.insn, Insn::Call(CallTarget::Kfunc { .. })) => {
                format!("R{reg} must be a known constant")
            }
            Case::NotConstant => format!("R{reg} is not a known constant'"),
            Case::Negative => format!("R{reg} min value is negative, either use unsigned or 'var &= const'"),
            Case::Zero => format!("R{reg} invalid zero-sized read: u64=[{},{}]", scalar.umin, scalar.umax),
            _ => format!("R{reg} unbounded memory access, use 'var &= const' or 'if (var < const)'"),
        })
    }

    pub(super) fn helper(&self) -> Option<String> {
        let Insn::Call(CallTarget::Helper(number)) = self.insn else { return None };
        if self.cause.case == Case::Sleeps {
            return Some("helper call might sleep in a non-sleepable prog".to_owned());
        }
        match self.function() {
            Some(function) => Some(format!("program of this type cannot use helper {function}")),
            None => Some(format!("invalid func unknown#{number}")),
        }
    }

    pub(super) fn map_helper(&self) -> Option<String> {
        if self.cause.case == Case::Sleeps {
            return Some("Sleepable programs can only use array, hash, ringbuf and local storage maps".to_owned());
        }
        match self.path.code.op(self.path.at).helper?.id {
            helper_id::FOR_EACH_MAP_ELEM => return Some("callback function not allowed for map".to_owned()),
            helper_id::TAIL_CALL => return Some("expected prog array map for tail call".to_owned()),
            _ => {}
        }
        let frame = self.path.state.frames.last()?;
        let map = frame.registers[1..6].iter().find(|register| register.kind() == Kind::Map)?;
        let map_type = self.path.code.map_of(map)?.map_type;
        Some(format!("cannot pass map_type {} into func {}", map_type.number(), self.function()?))
    }

    /// How the kernel calls the end that is reached.
    pub(super) fn ending(&self) -> Option<&'static str> {
        Some(match self.insn {
            Insn::Exit if self.path.state.frames.len() == 1 => "BPF_EXIT instruction in main prog",
            Insn::Exit => "BPF_EXIT instruction in callback",
            Insn::LoadPacket { .. } => "BPF_LD_[ABS|IND]",
            Insn::Call(_) if self.throws() => "bpf_throw",
            Insn::Call(_) => "tail_call",
            _ => return None,
        })
    }

    pub(super) fn throws(&self) -> bool {
        self.path.code.op(self.path.at).kfunc_meaning() == Some(KfuncMeaning::Throw)
    }
}
