//! Probes the features of the running kernel.
//!
//! A feature exists if a program or map that needs it loads, whatever the release: distributions backport features and
//! disable others. Nothing stays loaded. `None` means that the kernel gave no answer: if it fails with `EPERM`, its policy
//! or the caller's privilege refused, which does not say that the kernel lacks the feature.

use kiln_isa::{Insn, Reg};
use kiln_platform::{Helper, MapType, ProgramType};

use crate::image::{Loading, load_slots};

/// Whether programs of this type load.
pub fn program_type(program_type: ProgramType) -> Option<bool> {
    crate::log::begin();
    forget_errno();
    // SAFETY: a number and no options.
    answer(unsafe { libbpf_sys::libbpf_probe_bpf_prog_type(program_type.number(), std::ptr::null()) })
}

/// Whether maps of this type can be made.
pub fn map_type(map_type: MapType) -> Option<bool> {
    crate::log::begin();
    forget_errno();
    // SAFETY: a number and no options.
    answer(unsafe { libbpf_sys::libbpf_probe_bpf_map_type(map_type.number(), std::ptr::null()) })
}

/// Whether programs of this type may call a helper; `None` if that depends on the hook.
pub fn helper(program_type: ProgramType, helper: &Helper) -> Option<bool> {
    if helper.attach_rules.iter().any(|(ruled, _)| *ruled == program_type) {
        return None;
    }
    crate::log::begin();
    forget_errno();
    // SAFETY: two numbers and no options.
    let has = unsafe { libbpf_sys::libbpf_probe_bpf_helper(program_type.number(), helper.id as _, std::ptr::null()) };
    answer(has).filter(|has| *has || !names_its_hook(program_type))
}

/// Whether programs of this type are loaded for a hook. libbpf's probe names none, which the kernel takes for
/// `BPF_CGROUP_INET_INGRESS`, whose programs may call less (`cgroup_common_func_proto`): a no says nothing then.
fn names_its_hook(program_type: ProgramType) -> bool {
    use ProgramType::*;
    matches!(program_type, CgroupSock | CgroupDevice | CgroupSockAddr | CgroupSysctl | CgroupSockopt)
}

/// Whether a traffic control program of these instructions, which end with `r0` set, loads.
pub fn instructions(insns: &[Insn]) -> Option<bool> {
    let loading = Loading {
        name: "kiln_probe",
        program_type: ProgramType::SchedCls,
        attach: 0,
        hook: 0,
        flags: 0,
        license: "GPL",
        types: None,
    };
    let loads = |insns: &[Insn]| match load_slots(&loading, &kiln_isa::encoding::encode_all(insns), 0) {
        Ok(_) => Some(true),
        Err(failure) if failure.error.errno() == Some(libc::EPERM) => None,
        Err(_) => Some(false),
    };
    let end = [Insn::mov_imm(Reg::R0, 0), Insn::Exit];
    match loads(&end) {
        Some(true) => loads(&[insns, &end].concat()),
        Some(false) | None => None,
    }
}

/// What libbpf's probe says. It answers no where a load fails with `EPERM` (and yes, of a helper), so that the number is
/// looked at, too.
fn answer(result: i32) -> Option<bool> {
    match result {
        _ if std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM) => None,
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// Forgets the number of an earlier failure, which a probe that succeeds would leave as it is.
fn forget_errno() {
    // SAFETY: the location is this thread's own, and valid as long as the thread is.
    unsafe { *libc::__errno_location() = 0 };
}
