//! Programs that the VM refuses although the verifier accepts them.
//!
//! The verifier decides that a program is safe in the kernel. Some of the kernel's memory does not exist in the VM: the
//! kernel's own structures, which a program may read through BTF-typed pointers, and sockets that a hook passes.
//! Compiled code would read them unchecked, so such a program must not run. The facts tell where pointers lead.
//!
//! ```text
//!   r2 = *(u64 *)(r1 + 16)     r1: ctx         fine
//!   r3 = *(u32 *)(r2 + 32)     r2: ptr_task_struct   refused: the VM has no kernel memory
//! ```

use kiln_isa::{Address, CallTarget, Insn};
use kiln_platform::{Kfunc, KfuncFlag, ProgramType};
use kiln_program::{FunctionId, InsnId, Object, Reference};
use kiln_verifier::{Facts, Region, Value};

use crate::arena;
use crate::helper;
use crate::packet::Kind;
use crate::symbols::Symbols;

/// Memory that helpers return, which the VM owns; `map_value` is a value of an inner map.
const OWN_MEMORY: &[&str] = &["mem", "ringbuf_mem", "map_key", "map_value", "mixed"];
/// Sockets in `struct bpf_sock`'s layout: that of a socket buffer, and those that lookups find.
const SOCKETS: &[&str] = &["sock", "sock_common", "tcp_sock", "xdp_sock"];

/// Names of lacking things in a refusal.
const MAX_NAMED: usize = 8;

/// Where and what.
pub(crate) type Refusal = (Option<InsnId>, String);

/// Whether the VM has this hook at all.
pub(crate) fn program_type(program_type: ProgramType) -> Result<(), Refusal> {
    let has_packets = Kind::of(program_type) != Kind::None && program_type != ProgramType::FlowDissector;
    let plain_context = matches!(
        program_type,
        ProgramType::Kprobe
            | ProgramType::Tracepoint
            | ProgramType::PerfEvent
            | ProgramType::RawTracepoint
            | ProgramType::Tracing
            | ProgramType::CgroupDevice
            | ProgramType::CgroupSock
            | ProgramType::CgroupSockAddr
            | ProgramType::Syscall
            | ProgramType::LircMode2
    );
    if has_packets || plain_context { Ok(()) } else { Err((None, format!("programs of type {program_type}"))) }
}

/// Finds calls and symbols that the VM lacks: all of them, and where the first one is.
pub(crate) fn calls(object: &Object, entry: FunctionId, symbols: &Symbols) -> Result<(), Refusal> {
    let (mut first, mut all) = (None, Vec::new());
    for id in object.reachable_functions(entry) {
        for node in &object.function(id).nodes {
            let lacks = match (node.insn, node.reference) {
                (Insn::Call(CallTarget::Helper(id)), _) => (!symbols.has_helper(id)).then(|| helper::name(id)),
                (Insn::Call(CallTarget::Kfunc { .. }), Reference::Extern(symbol)) => {
                    let name = symbols.extern_name(symbol);
                    helper::kfunc::by_name(name).is_none().then(|| lacking(name))
                }
                (Insn::Call(CallTarget::Kfunc { id, .. }), _) => Some(format!("kfunc {id}")),
                (Insn::LoadImm64 { .. }, Reference::Extern(symbol)) => {
                    let known = kiln_jit::Symbols::extern_address(symbols, symbol).is_some();
                    (!known).then(|| format!("kernel symbol {}", symbols.extern_name(symbol)))
                }
                _ => None,
            };
            if let Some(what) = lacks {
                first.get_or_insert(node.id);
                if all.len() < MAX_NAMED && !all.contains(&what) {
                    all.push(what);
                }
            }
        }
    }
    if all.is_empty() { Ok(()) } else { Err((first, all.join(", "))) }
}

/// What the VM lacks when it lacks a kernel function.
fn lacking(kfunc: &str) -> String {
    let flags = [KfuncFlag::IteratorNew, KfuncFlag::IteratorNext, KfuncFlag::IteratorDestroy];
    let iterates = Kfunc::by_name(kfunc).is_some_and(|row| flags.iter().any(|flag| row.has(*flag)));
    format!("kfunc {kfunc}{}", if iterates { ", which goes over kernel objects: it has none" } else { "" })
}

/// Whether some of the kinds of memory that a program accesses, as [`kiln_verifier::Verified::accessed`] names them, are not
/// the VM's: what is accessed then.
pub(crate) fn foreign_kind(program_type: ProgramType, accessed: &[&str]) -> Option<String> {
    let has_packets = Kind::of(program_type) != Kind::None;
    let own = |kind: &&str| {
        matches!(*kind, "ctx" | "fp" | "arena")
            || OWN_MEMORY.contains(kind)
            || has_packets && (matches!(*kind, "pkt" | "pkt_meta") || SOCKETS.contains(kind))
    };
    let foreign = accessed.iter().find(|kind| !own(kind));
    foreign.map(|kind| format!("access to the kernel's memory ({kind})"))
}

/// Finds the first access to memory that the VM does not have.
pub(crate) fn accesses(
    object: &Object,
    entry: FunctionId,
    program_type: ProgramType,
    facts: &Facts,
) -> Result<(), Refusal> {
    let kind = Kind::of(program_type);
    for id in object.reachable_functions(entry) {
        for node in &object.function(id).nodes {
            let (Some(address), Some(known)) = (accessed(&node.insn), facts.at(node.id)) else { continue };
            let Value::Pointer(pointer) = &known.registers[address.base.index()] else { continue };
            if let Some(what) = foreign(&pointer.region, kind) {
                return Err((Some(node.id), what));
            }
        }
    }
    Ok(())
}

fn accessed(insn: &Insn) -> Option<Address> {
    match *insn {
        Insn::Load { address, .. }
        | Insn::LoadAcquire { address, .. }
        | Insn::Store { address, .. }
        | Insn::StoreRelease { address, .. }
        | Insn::Atomic { address, .. } => Some(address),
        _ => None,
    }
}

/// Why a region is not the VM's, if it is not.
fn foreign(region: &Region, kind: Kind) -> Option<String> {
    match region {
        Region::Context | Region::Stack { .. } | Region::MapValue(_) => None,
        Region::Packet | Region::PacketMeta | Region::PacketEnd if kind != Kind::None => None,
        Region::Other(_) if arena::is_arena(region) => None,
        Region::Other(name) if OWN_MEMORY.contains(&name.as_str()) => None,
        Region::Other(name) if kind != Kind::None && SOCKETS.contains(&name.as_str()) => None,
        Region::Map(_) => Some("reading a map's own structure".to_owned()),
        Region::Other(name) => Some(format!("access to the kernel's memory ({name})")),
        Region::Packet | Region::PacketMeta | Region::PacketEnd => Some("packets of this hook".to_owned()),
    }
}
