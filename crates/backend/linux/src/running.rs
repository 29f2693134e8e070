//! The profile of the running kernel: its release, its types, and what it answers where it may be asked.
//!
//! ```text
//!   /proc/sys/kernel/osrelease     6.12.48-distribution: the tables as of 6.12
//!   /sys/kernel/btf                the functions that programs may call
//!   bpf(2), where allowed          helpers, map types, program types and instructions that the objects need
//! ```
//!
//! Only what the objects need is asked for, so that it takes milliseconds; nothing is kept.

use std::collections::BTreeSet;

use crate::probe;
use kiln_isa::{AluOp, CallTarget, Insn, Reg, Size, Source, Width};
use kiln_platform::{Feature, Found, Helper, KernelVersion, Kfunc, Profile};
use kiln_program::btf::{Btf, Kind};
use kiln_program::{ExternKind, Object};

use kiln_program::Error;

const RELEASE: &str = "/proc/sys/kernel/osrelease";
const TYPES: &str = "/sys/kernel/btf";

/// Says why the kernel cannot be asked, if it cannot.
///
/// # Errors
/// Returns [`Error::Os`] with the call that failed and what to do about it.
pub fn require_kernel() -> Result<(), Error> {
    crate::available().map_err(|error| match error {
        crate::Error::Os { call, errno } => {
            let advice = crate::advice(errno).to_owned();
            Error::Os { call: format!("the kernel cannot be asked: {call}"), errno, advice }
        }
        other => other.into(),
    })
}

/// The release of the kernel that runs here.
///
/// # Errors
/// [`Error::Os`] if it cannot be asked, [`Error::Unsupported`] if what it says is no release.
pub fn release() -> Result<KernelVersion, Error> {
    let text = std::fs::read_to_string(RELEASE).map_err(|error| Error::machine(RELEASE, &error, "; mount /proc"))?;
    text.trim().parse().map_err(Error::Unsupported)
}

/// The profile of the kernel that runs here, for these objects. Without privilege it is that of its release and of
/// `types`, which are its own, where they can be read.
///
/// # Errors
/// [`Error::Unsupported`] where the kernel does not say its release.
pub fn profile(objects: &[&Object], types: Option<&Btf>) -> Result<Profile, Error> {
    let mut found = Found::default();
    if let Some(types) = types {
        ask_types(objects, types, &mut found);
    }
    if crate::available().is_ok() {
        objects.iter().for_each(|object| ask_kernel(object, &mut found));
        for (feature, insns) in feature_probes() {
            if let Some(has) = probe::instructions(&insns) {
                found.features.insert(feature, has);
            }
        }
    }
    Ok(Profile::of_running(release()?, found))
}

/// Which of the kernel functions that the objects name exist. A module may have what the kernel itself does not, so
/// that only a kernel without modules says no.
fn ask_types(objects: &[&Object], types: &Btf, found: &mut Found) {
    let modules = std::fs::read_dir(TYPES).map_or(true, |entries| entries.count() > 1);
    let functions: BTreeSet<&str> = types
        .own_ids()
        .filter(|id| matches!(types.kind(*id), Kind::Function { .. }))
        .map(|id| types.name(id))
        .collect();
    let symbols = objects.iter().flat_map(|object| &object.externs).filter(|symbol| symbol.kind == ExternKind::Kfunc);
    for name in symbols.map(|symbol| symbol.name.as_str()).filter(|name| Kfunc::by_name(name).is_some()) {
        match functions.contains(name) {
            false if modules => {}
            known => drop(found.kfuncs.insert(name.to_owned(), known)),
        }
    }
}

fn ask_kernel(object: &Object, found: &mut Found) {
    for program in &object.programs {
        let Some(program_type) = program.program_type else { continue };
        let known = found.program_types.get(&program_type).copied();
        let loads = known.or_else(|| probe::program_type(program_type));
        if let Some(loads) = loads {
            found.program_types.insert(program_type, loads);
        }
        if loads == Some(false) {
            continue; // Asked for helpers of such programs, the kernel answers about something else.
        }
        for id in object.reachable_functions(program.entry) {
            for node in &object.function(id).nodes {
                let Insn::Call(CallTarget::Helper(number)) = node.insn else { continue };
                let Some(helper) = Helper::by_id(number).filter(|helper| helper.allowed_in(program_type)) else {
                    continue;
                };
                if !found.helpers.contains_key(&(number, program_type))
                    && let Some(has) = probe::helper(program_type, helper)
                {
                    found.helpers.insert((number, program_type), has);
                }
            }
        }
    }
    for map in &object.maps {
        if !found.map_types.contains_key(&map.map_type)
            && let Some(has) = probe::map_type(map.map_type)
        {
            found.map_types.insert(map.map_type, has);
        }
    }
}

/// Instructions that load where the kernel has the feature, and only there.
pub fn feature_probes() -> Vec<(Feature, Vec<Insn>)> {
    let stack = |offset| kiln_isa::Address { base: Reg::R10, offset };
    let store = Insn::Store { size: Size::B8, address: stack(-8), src: Source::Imm(0) };
    vec![
        (
            Feature::CpuV4,
            vec![
                Insn::mov_imm(Reg::R0, 6),
                Insn::Alu { op: AluOp::Sdiv, width: Width::W64, dst: Reg::R0, src: Source::Imm(3) },
            ],
        ),
        (Feature::MayGoto, vec![Insn::MayGoto { offset: 0 }]),
        (Feature::AcquireRelease, vec![store, Insn::LoadAcquire { size: Size::B8, dst: Reg::R0, address: stack(-8) }]),
        (
            Feature::UninitializedStackReads,
            vec![Insn::Load { size: Size::B8, signed: false, dst: Reg::R0, address: stack(-8) }],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use kiln_platform::helper_id;

    use super::*;

    /// The running kernel has what the tables say of its release, unless it is not to be asked.
    #[test]
    fn probes_answer_as_the_tables_say() {
        if let Err(reason) = crate::available() {
            eprintln!("skipped: {reason}");
            return;
        }
        let release = release().unwrap();
        let tables = Profile::of(release);
        for (feature, insns) in feature_probes() {
            assert_eq!(probe::instructions(&insns), Some(tables.has(feature)), "{feature:?} on {release}");
        }
        for map_type in kiln_platform::MapType::ALL {
            if let Some(has) = probe::map_type(*map_type) {
                assert!(!has || tables.lacks_map_type(*map_type).is_none(), "{map_type} on {release}");
            }
        }
        let types = kiln_platform::ProgramType::ALL.iter();
        for program_type in types.filter(|program_type| probe::program_type(**program_type) == Some(true)) {
            for helper in Helper::all().filter(|helper| helper.allowed_in(*program_type)) {
                let ours = tables.lacks_helper(helper, *program_type, None).is_none();
                match probe::helper(*program_type, helper) {
                    // What kernels may leave out by configuration.
                    None | Some(false)
                        if matches!(helper.id, helper_id::OVERRIDE_RETURN | helper_id::PROBE_WRITE_USER) => {}
                    Some(has) => assert_eq!(has, ours, "{} in {program_type} on {release}", helper.name),
                    None => {}
                }
            }
        }
    }
}
