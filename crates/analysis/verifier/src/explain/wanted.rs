//! The numbers and names from which an edit of the source can be made.

use kiln_isa::{Insn, Reg};
use kiln_platform::ReturnRule;

use super::story::Story;
use crate::reason::Reason;
use crate::rejection::{Case, Wanted};
use crate::state::{Holds, Kind, Register};

impl Story<'_> {
    /// What would make the instruction acceptable.
    pub(super) fn wanted(&self) -> Wanted {
        let value = self.offending_value();
        Wanted {
            packet_bytes: value.and_then(|value| self.packet_bytes(&value)),
            elements: value.and_then(|value| self.elements(&value)),
            room: self.room(),
            argument: self.argument_at(),
            release: self.release_helper(),
            map: self.map_at(),
            returned: self.returned(),
        }
    }

    fn packet_bytes(&self, value: &Register) -> Option<(Option<i64>, i64)> {
        if !matches!(value.kind(), Kind::Packet | Kind::PacketMeta) {
            return None;
        }
        let bytes = match (self.access(), &self.rejection.cause.case) {
            (Some((offset, bytes)), _) => offset + bytes,
            (None, Case::Access { bytes }) => i64::try_from(*bytes).ok()?,
            _ => return None,
        };
        let from_start = value.scalar.as_constant().map(|_| i64::from(value.offset) + bytes);
        Some((from_start, bytes))
    }

    /// How many elements an index into a map value may choose from. They end with the value, or before a field such as a
    /// lock, which must not be reached either.
    pub(super) fn elements(&self, value: &Register) -> Option<i64> {
        let Holds::MapValue(map) = value.holds else { return None };
        let size = i64::try_from(self.names.map(value)?.direct_bytes()).ok()?;
        let (offset, bytes) = self.access()?;
        // Elements lie a power of two apart where the low bits of the variable part are known to be zero.
        let bits = (value.scalar.tnum.mask | value.scalar.tnum.value).trailing_zeros().min(12);
        let stride = 1_i64 << bits;
        let begin = i64::from(value.offset) + offset;
        let begin = if begin < 0 { begin.rem_euclid(stride) } else { begin };
        let record = self.names.code.prepared.record(map, value.inner);
        let special = record.into_iter().flat_map(|record| &record.fields).map(|field| i64::from(field.offset));
        let room = special.filter(|at| *at >= begin).fold(size, i64::min) - begin - bytes;
        (room >= 0).then_some(room / stride + 1)
    }

    /// Bytes after the pointer that a size is about: that of the argument before, or the offender itself.
    fn room(&self) -> Option<u64> {
        let register = self.offending_register()?;
        let before = Reg::new(register.number().checked_sub(1)?);
        let here = [before, Some(register)].into_iter().flatten().map(|reg| *self.last().state.register(reg));
        here.into_iter().find_map(|pointer| {
            let offset = pointer.fixed_offset()?;
            match pointer.kind() {
                Kind::Stack => u64::try_from(-offset).ok(),
                Kind::MapValue => self.names.map(&pointer)?.direct_bytes().checked_sub(u64::try_from(offset).ok()?),
                _ => None,
            }
        })
    }

    fn argument_at(&self) -> Option<(&'static str, usize)> {
        let helper = self.names.code.op(self.last().at).helper?;
        Some((helper.name, usize::from(self.offending_register()?.number()).checked_sub(1)?))
    }

    fn release_helper(&self) -> Option<&'static str> {
        let held = self.last().state.references.first()?;
        match self.names.code.op(held.at).helper?.name {
            "ringbuf_reserve" => Some("bpf_ringbuf_discard"),
            "sk_lookup_tcp" | "sk_lookup_udp" | "skc_lookup_tcp" => Some("bpf_sk_release"),
            _ => None,
        }
    }

    /// The map that the offender points into, or that a register of a call points to.
    fn map_at(&self) -> Option<String> {
        let state = &self.last().state;
        let passed = [Reg::R1, Reg::R2, Reg::R3, Reg::R4].map(|reg| *state.register(reg));
        let value = self.offending_value().filter(|value| value.kind() == Kind::MapValue);
        let map = value.into_iter().chain(passed.into_iter().filter(|register| register.kind() == Kind::Map)).next()?;
        Some(self.names.map(&map)?.name.clone())
    }

    fn returned(&self) -> Option<[i64; 2]> {
        if let Case::CallbackReturned { lowest, highest } = self.rejection.cause.case {
            return Some([lowest, highest]);
        }
        if self.rejection.reason != Reason::ReturnValue || !matches!(self.insn(), Insn::Exit) {
            return None;
        }
        match self.names.program_type.return_rule(self.names.code.program.attach_type) {
            ReturnRule::Range { minimum, maximum } => Some([minimum.into(), maximum.into()]),
            _ => None,
        }
    }
}
