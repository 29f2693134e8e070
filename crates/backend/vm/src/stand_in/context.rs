//! Contexts by their tables: numbers from the input, and pointers to invented memory.
//!
//! ```text
//!   bpf_sockopt     sk       -> a made-up socket            level, optname ...  from the input
//!                   optval   -> the packet's first byte
//!                   optval_end -> behind its last byte
//!   u64 []          args[i]  -> three in four a made-up object, else a number from the input
//! ```

use kiln_platform::{FieldValue, ProgramType};

use super::made_up::{mix, pointer};
use crate::packet::Kind;
use crate::state::State;

/// Fills in what a hook's context points to; `bytes` is what its packet pointers lead to.
pub(super) fn fill(state: &mut State, program_type: ProgramType, seed: u64, bytes: &[u8]) {
    let (packet, memory) = (&mut state.packet, &mut state.memory);
    packet.touch_context();
    let own_packet = packet.kind() != Kind::None;
    let fields = program_type.context().fields;
    let holds = |wanted: FieldValue| fields.iter().any(|field| field.value == wanted);
    let range = match !own_packet && holds(FieldValue::PacketPointer) {
        true => packet.open(memory, bytes),
        false => 0..0,
    };
    for field in fields {
        let offset = field.offset as usize;
        let lot = mix(&[seed, 2, u64::from(field.offset)]);
        let maybe = if lot % 8 == 0 { 0 } else { pointer(lot) };
        let value = match field.value {
            FieldValue::FlowKeys => pointer(lot),
            _ if own_packet => continue,
            FieldValue::PacketPointer | FieldValue::PacketMeta => range.start,
            FieldValue::PacketEnd => range.end,
            FieldValue::Socket | FieldValue::TracepointBuffer | FieldValue::BtfId(_) => pointer(lot),
            FieldValue::SocketOrNull | FieldValue::SockCommonOrNull => maybe,
            FieldValue::TracedArgument if lot % 4 != 0 => pointer(mix(&[lot])),
            FieldValue::TracedArgument => continue,
            FieldValue::Scalar if takes_objects(program_type) => {
                for at in (0..field.size).step_by(8) {
                    let lot = mix(&[lot, u64::from(at)]);
                    if lot % 2 == 0 {
                        packet.put_in_context(memory, offset + at as usize, &pointer(lot).to_le_bytes());
                    }
                }
                continue;
            }
            FieldValue::Scalar => continue,
        };
        packet.put_in_context(memory, offset, &value.to_le_bytes()[..field.size.min(8) as usize]);
    }
}

/// Whether numbers in the context are addresses as often as not, which programs hand to `bpf_probe_read`.
fn takes_objects(program_type: ProgramType) -> bool {
    use ProgramType::{Kprobe, RawTracepoint, RawTracepointWritable};
    matches!(program_type, Kprobe | RawTracepoint | RawTracepointWritable)
}
