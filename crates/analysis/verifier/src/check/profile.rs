//! What the kernel of the profile lacks, found before and during exploration.
//!
//! ```text
//!   before:  program type, attach type, sleeping, maps (type, special fields)
//!   during:  an instruction, a helper, a kernel function or a context field that only newer kernels have,
//!            and only where a path leads: code behind a check of the kernel's version stays good
//! ```
//!
//! Rules of the verifier that newer kernels relaxed are checked where they apply: `options.kernel_has(...)`.

use kiln_isa::{AluOp, AtomicOp, ByteOrder, CallTarget, Imm64, Insn, Width, forms};
use kiln_platform::{AttachType, Feature, FieldAccess, Helper, Kfunc, Lack, Profile, ProgramType};
use kiln_program::{ExternKind, Map, MapId, Program, Reference};

use crate::code::{Code, Position};
use crate::error::{Step, reject};
use crate::objects::fields::Record;
use crate::options::Options;
use crate::reason::Reason;

/// What an instruction needs, where not every kernel has it.
pub fn needs(insn: &Insn) -> Option<Feature> {
    needs_itself(insn).or_else(|| needs_version(insn))
}

/// The version of the instruction set that has it.
fn needs_version(insn: &Insn) -> Option<Feature> {
    (forms::version_of(insn) == 4).then_some(Feature::CpuV4)
}

/// Whether a kernel that lacks the instruction refuses it also where no path leads: by its opcode, or a field that it looks at
/// before it follows paths. It meets others, such as a sign-extending move, on paths only.
fn is_refused_anywhere(profile: &Profile, insn: &Insn) -> bool {
    match insn {
        Insn::MayGoto { .. }
        | Insn::JumpIndirect { .. }
        | Insn::LoadImm64 { imm: Imm64::Code { .. }, .. }
        | Insn::Alu { op: AluOp::Arsh, width: Width::W32, .. }
        | Insn::Branch { width: Width::W32, .. }
        | Insn::Endian { order: ByteOrder::Swap, .. }
        | Insn::Jump { long: true, .. }
        | Insn::Load { signed: true, .. } => true,
        Insn::LoadAcquire { size, .. } | Insn::StoreRelease { size, .. } if size.bytes() < 4 => true,
        Insn::Atomic { .. } | Insn::LoadAcquire { .. } | Insn::StoreRelease { .. } => {
            !profile.has(Feature::FetchingAtomics)
        }
        _ => false,
    }
}

/// The feature that an instruction is.
fn needs_itself(insn: &Insn) -> Option<Feature> {
    match insn {
        Insn::MayGoto { .. } => Some(Feature::MayGoto),
        Insn::JumpIndirect { .. } => Some(Feature::IndirectJumps),
        Insn::AddressSpaceCast { .. } => Some(Feature::AddressSpaceCast),
        Insn::LoadAcquire { .. } | Insn::StoreRelease { .. } => Some(Feature::AcquireRelease),
        Insn::Call(CallTarget::Kfunc { fd_index, .. }) if *fd_index != 0 => Some(Feature::ModuleKfuncs),
        Insn::Atomic { op, fetch, .. } if *op != AtomicOp::Add || *fetch => Some(Feature::FetchingAtomics),
        Insn::LoadImm64 { imm: Imm64::Code { .. }, .. } => Some(Feature::FunctionAddresses),
        Insn::Alu { op: AluOp::Arsh, width: Width::W32, .. } => Some(Feature::HalfArithmeticShifts),
        Insn::Branch { width: Width::W32, .. } => Some(Feature::HalfBranches),
        _ => None,
    }
}

/// What loading the program needs, whatever it does.
fn lacks_program(profile: &Profile, program: &Program, program_type: ProgramType) -> Option<Lack> {
    profile
        .lacks_program_type(program_type)
        .or_else(|| attached_at(program).and_then(|attach| profile.lacks_attach_type(attach)))
        .or_else(|| program.replaces.as_ref().and_then(|_| profile.lacks_program_type(ProgramType::Ext)))
        .or_else(|| sleeps(program, program_type).and_then(|feature| profile.lacks(feature)))
        .or_else(|| if program.frags { profile.lacks(Feature::XdpFragments) } else { None })
}

/// The program's attach type, unless it says what is so without it, too: kernels that do not know it ignore it then.
fn attached_at(program: &Program) -> Option<AttachType> {
    program.attach_type.filter(|attach| *attach != AttachType::SkReuseportSelect)
}

fn sleeps(program: &Program, program_type: ProgramType) -> Option<Feature> {
    if !program.sleepable {
        return None;
    }
    match program_type {
        ProgramType::Tracing if program.attach_type == Some(AttachType::TraceIter) => Some(Feature::SleepableIterators),
        ProgramType::Kprobe => Some(Feature::SleepableUprobes),
        ProgramType::Tracepoint | ProgramType::RawTracepoint => Some(Feature::SleepableTracepoints),
        ProgramType::Tracing if program.attach_type == Some(AttachType::TraceRawTp) => {
            Some(Feature::SleepableTracepoints)
        }
        ProgramType::StructOps => Some(Feature::SleepableStructOps),
        ProgramType::Tracing | ProgramType::Lsm => Some(Feature::SleepablePrograms),
        _ => None,
    }
}

/// What a map needs.
fn lacks_map(profile: &Profile, map: &Map, record: Option<&Record>) -> Option<Lack> {
    let name = |lack: Lack| Lack { what: format!("{} (map {})", lack.what, map.name), ..lack };
    let fields = record.into_iter().flat_map(|record| &record.fields);
    let mut features = fields.filter_map(|field| field.kind.needs());
    let lack = profile.lacks_map_type(map.map_type);
    lack.or_else(|| features.find_map(|feature| profile.lacks(feature))).map(name)
}

/// For each instruction, whether the profile's kernel does not have it; empty where it has them all.
pub(crate) fn newer_instructions(profile: &Profile, code: &Code<'_>) -> Vec<bool> {
    let lacks = |feature: Feature| !profile.has(feature);
    let old = lacks(Feature::CpuV4);
    let lacks = |insn: &Insn| match needs_itself(insn) {
        Some(feature) => lacks(feature),
        None => old && needs_version(insn).is_some(),
    };
    let newer: Vec<bool> = code.ops.iter().map(|op| lacks(&op.node.insn)).collect();
    if newer.contains(&true) { newer } else { Vec::new() }
}

impl Options {
    /// What the program cannot be loaded without and the profile's kernel does not have, with where it is asked for.
    pub(crate) fn lacks_before_exploring(&self, code: &Code<'_>) -> Option<(Position, Lack)> {
        let profile = &self.profile;
        if let Some(lack) = lacks_program(profile, code.program, code.program_type) {
            return Some((code.functions[0].start, lack));
        }
        if let Some(lack) = profile.lacks(Feature::Loops)
            && let Some(at) = code.back_edge()
        {
            return Some((at, lack));
        }
        if let Some(lack) = profile.lacks(Feature::LoopsByFalling)
            && let Some(at) = code.back_by_falling()
        {
            return Some((at, lack));
        }
        // Loaders make maps and look symbols up before the kernel gets the instructions.
        let insns = || {
            code.ops.iter().enumerate().find_map(|(at, op)| {
                let insn = is_refused_anywhere(profile, &op.node.insn).then_some(&op.node.insn)?;
                Some((at as Position, profile.lacks(needs(insn)?)?))
            })
        };
        let references = code.ops.iter().enumerate().find_map(|(at, op)| {
            let address = || profile.lacks(Feature::MapValueAddresses).map(|lack| (at as Position, lack));
            let per_cpu =
                |map: MapId| code.object.maps.get(map.index()).is_some_and(|map| map.map_type.rules().per_cpu);
            let lack = match op.node.reference {
                Reference::MapValue { .. } if address().is_some() => return address(),
                Reference::MapValue { map, .. } if per_cpu(map) => profile.lacks(Feature::PercpuVariables),
                Reference::Map(map) | Reference::MapValue { map, .. } => lacks_map(
                    profile,
                    code.object.maps.get(map.index())?,
                    code.prepared.records.get(map.index()).map(std::convert::AsRef::as_ref),
                ),
                Reference::Extern(id) => {
                    let symbol = code.object.externs.get(id.index()).filter(|symbol| !symbol.weak)?;
                    if matches!(symbol.kind, ExternKind::Kconfig { .. }) {
                        return address();
                    }
                    if symbol.kind == ExternKind::TypedKsym {
                        return profile.lacks(Feature::KernelVariables).map(|lack| (at as Position, lack));
                    }
                    Kfunc::at(&symbol.name, profile.version()).and_then(|kfunc| profile.lacks_kfunc(kfunc))
                }
                _ => None,
            };
            Some((at as Position, lack?))
        });
        references.or_else(insns)
    }

    /// Rejects the current instruction, which the profile's kernel does not have.
    pub(crate) fn reject_newer<T>(&self, code: &Code<'_>, at: Position) -> Step<T> {
        let insn = &code.op(at).node.insn;
        let lack = needs(insn).and_then(|feature| self.profile.lacks(feature));
        reject(Reason::KernelLacks, lack.map_or_else(|| format!("{insn} is newer"), |lack| lack.to_string()))
    }

    pub(crate) fn check_helper_in_profile(&self, code: &Code<'_>, helper: &Helper) -> Step<()> {
        let program = code.program;
        not_lacking(self.profile.lacks_helper(helper, code.program_type, program.attach_type))
    }

    pub(crate) fn check_kfunc_in_profile(&self, name: &str) -> Step<()> {
        not_lacking(Kfunc::at(name, self.profile.version()).and_then(|kfunc| self.profile.lacks_kfunc(kfunc)))
    }

    pub(crate) fn check_feature_in_profile(&self, feature: Feature) -> Step<()> {
        not_lacking(self.profile.lacks(feature))
    }

    pub(crate) fn check_field_in_profile(&self, code: &Code<'_>, access: &FieldAccess, write: bool) -> Step<()> {
        not_lacking(self.profile.lacks_field(access, code.program_type, write))
    }
}

fn not_lacking(lack: Option<Lack>) -> Step<()> {
    lack.map_or(Ok(()), |lack| reject(Reason::KernelLacks, lack.to_string()))
}
