//! Loads and stores through pointers to structures.
//!
//! What a load gives depends on the pointer as much as on the field:
//!
//! ```text
//!   through            a field that the kernel lists as safe      any other pointer field
//!   TRUSTED            TRUSTED, or RCU in an RCU section          as the kernel's older sort in one, else UNTRUSTED
//!   RCU                the same                                   the same
//!   UNTRUSTED          UNTRUSTED                                  UNTRUSTED
//! ```

use std::ops::Range;

use kiln_isa::Reg;
use kiln_platform::{Feature, ProgramType, WritableField, writable_fields};
use kiln_program::btf::{Btf, Kind as BtfKind, TypeId};

use crate::code::Code;
use crate::domain::Scalar;
use crate::error::{Step, reject, unsupported};
use crate::options::Options;
use crate::path::Path;
use crate::reason::Reason;
use crate::state::{Holds, Register, State, Trust};
use crate::types::walk::{self, Found};
use crate::types::{Types, WITHOUT_TYPES};

/// How the kernel's BTF names the lists of fields that stay good as long as the structure does.
const SAFE_LISTS: [(&str, Safety); 4] = [
    ("__safe_trusted", Safety::Trusted { nullable: false }),
    ("__safe_trusted_or_null", Safety::Trusted { nullable: true }),
    ("__safe_rcu", Safety::Rcu { nullable: false }),
    ("__safe_rcu_or_null", Safety::Rcu { nullable: true }),
];

/// How good the pointer in a field of a trusted structure is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Safety {
    Trusted { nullable: bool },
    Rcu { nullable: bool },
}

impl Path<'_> {
    /// A load of `bytes` through a pointer to a structure.
    pub(crate) fn load_structure(&mut self, reg: Reg, base: &Register, offset: i64, bytes: u32) -> Step<Register> {
        self.types.check_structure_use(self.code, self.options, reg, base, false)?;
        let at = self.types.structure_offset(reg, base, offset)?;
        let pointed = self.types.pointed_definition(base)?;
        let local = base.trust.has(Trust::ALLOCATED);
        self.types.check_special_fields(self.code, base, offset, u64::from(bytes))?;
        let Some(types) = self.types.definitions(&pointed) else { return unsupported(WITHOUT_TYPES) };
        let found = match walk::access(types, pointed.id, at, bytes, !local) {
            Ok(found) => found,
            Err(why) => return reject(Reason::StructureAccess, format!("r{}: {why}", reg.number())),
        };
        let (target, field, trust) = match found {
            Found::Pointer { .. } if !pointed.of_kernel && !local => {
                return unsupported("pointers in untrusted objects of the program's own types");
            }
            Found::Address => return Ok(Register::UNTRUSTED_BYTES),
            _ if local => return Ok(Register::scalar(Scalar::of_width(8 * bytes))),
            Found::Number | Found::Structure(_) => return Ok(Register::scalar(Scalar::of_width(8 * bytes))),
            Found::Pointer { target, field, trust } => (target, field, trust),
        };
        let (trust, nullable) =
            match base.trust.has(Trust::UNTRUSTED) || self.options.kernel_has(Feature::WalksLoseTrust) {
                true => self.types.loaded_trust(&self.state, base, &pointed.name, &field, target, trust),
                false => (trust.without(Trust::TRUSTED).without(Trust::RCU), false),
            };
        let pointer = Register::pointer(Holds::Structure(self.types.kernel_type(target))).trusted(trust);
        Ok(if nullable { pointer.or_null(self.fresh_id()) } else { pointer })
    }
}

impl Types {
    /// The offset of an access through a pointer to a structure, from the structure's start.
    fn structure_offset(&self, reg: Reg, base: &Register, offset: i64) -> Step<u32> {
        let (number, name) = (reg.number(), self.name(base.type_index()));
        let Some(fixed) = base.fixed_offset() else {
            return reject(
                Reason::StructureAccess,
                format!("r{number} (pointer to {name}): the offset is not constant"),
            );
        };
        let at = fixed + offset;
        u32::try_from(at).or_else(|_| {
            reject(
                Reason::StructureAccess,
                format!("r{number} (pointer to {name}): the access begins {} bytes before it", -at),
            )
        })
    }

    /// Checks that a pointer to a structure may be used for loads, or for stores.
    fn check_structure_use(
        &self,
        code: &Code<'_>,
        options: &Options,
        reg: Reg,
        base: &Register,
        write: bool,
    ) -> Step<()> {
        let (number, name) = (reg.number(), self.name(base.type_index()));
        let of_kernel = self.pointed(base.type_index()).is_some_and(|pointed| pointed.of_kernel);
        if options.unprivileged {
            return reject(Reason::StructureAccess, format!("struct {name} may be accessed with CAP_PERFMON only"));
        }
        if of_kernel && !code.is_gpl() && options.kernel_has(Feature::StructuresNeedGpl) {
            return reject(
                Reason::GplOnly,
                format!("struct {name} of the kernel is for programs with a GPL-compatible license"),
            );
        }
        if base.trust.has(Trust::USER) {
            return reject(
                Reason::StructureAccess,
                format!("r{number} points to a {name} in user memory: copy it with bpf_probe_read_user"),
            );
        }
        if base.trust.has(Trust::PERCPU) {
            return reject(
                Reason::StructureAccess,
                format!("r{number} points to a per-CPU {name}: take a CPU's own with bpf_per_cpu_ptr"),
            );
        }
        let kept = base.owns() || base.trust.has(Trust::NOT_OWNING) || base.trust.has(Trust::RCU);
        let read = !write && base.trust.has(Trust::UNTRUSTED) && options.kernel_has(Feature::LoadsOfStaleObjects);
        if base.is_allocated() && !kept && !read {
            return reject(
                Reason::NotTrusted,
                format!("r{number} points to a {name} that nothing keeps alive any more"),
            );
        }
        if write && base.trust.has(Trust::UNTRUSTED) {
            return reject(Reason::StructureAccess, format!("r{number} (untrusted pointer to {name}) is read-only"));
        }
        Ok(())
    }

    /// How far a pointer read from a structure may be relied on, and whether it may be null.
    fn loaded_trust(
        &self,
        state: &State,
        base: &Register,
        structure: &str,
        field: &str,
        target: TypeId,
        found: Trust,
    ) -> (Trust, bool) {
        if base.trust.has(Trust::UNTRUSTED) {
            return (Trust::UNTRUSTED, false);
        }
        if !base.is_trusted() && !base.trust.has(Trust::RCU) {
            return (found.without(Trust::TRUSTED).without(Trust::RCU), false);
        }
        let safety = self.field_safety(structure, field, target);
        if let Some(Safety::Trusted { nullable }) = safety {
            return (found.with(Trust::TRUSTED), nullable);
        }
        if !state.in_rcu_section() || base.nullable {
            return (Trust::UNTRUSTED, false);
        }
        match safety {
            Some(Safety::Rcu { nullable: false }) => (found.with(Trust::RCU), false),
            Some(Safety::Rcu { nullable: true }) => (found.with(Trust::RCU).without(Trust::UNTRUSTED), true),
            _ if found.has(Trust::RCU) => (found, true),
            _ => (found.without(Trust::TRUSTED), false),
        }
    }

    /// Whether the kernel lists the field as one that stays good.
    fn field_safety(&self, structure: &str, field: &str, target: TypeId) -> Option<Safety> {
        let kernel = self.kernel.as_deref()?;
        SAFE_LISTS.iter().find_map(|(suffix, safety)| {
            let list = self.find_struct(&format!("{structure}{suffix}"))?;
            let listed = kernel.members(list).iter().any(|member| {
                let BtfKind::Pointer { target: of } = *kernel.kind(member.type_id) else { return false };
                kernel.text(member.name) == field && kernel.resolve(of) == Some(target)
            });
            listed.then_some(*safety)
        })
    }

    /// A store of `bytes` through a pointer to a structure.
    pub(crate) fn store_structure(
        &mut self,
        code: &Code<'_>,
        options: &Options,
        reg: Reg,
        base: &Register,
        offset: i64,
        bytes: u32,
    ) -> Step<()> {
        self.check_structure_use(code, options, reg, base, true)?;
        let at = self.structure_offset(reg, base, offset)?;
        let pointed = self.pointed_definition(base)?;
        if base.trust.has(Trust::ALLOCATED) {
            self.check_special_fields(code, base, offset, u64::from(bytes))?;
            let Some(types) = self.definitions(&pointed) else { return unsupported(WITHOUT_TYPES) };
            return match walk::access(types, pointed.id, at, bytes, false) {
                Ok(_) => Ok(()),
                Err(why) => reject(Reason::StructureAccess, format!("r{}: {why}", reg.number())),
            };
        }
        let Some(types) = self.kernel.as_deref() else { return unsupported(WITHOUT_TYPES) };
        let hook = if code.program_type == ProgramType::StructOps { Some(self.hook(code)?) } else { None };
        let fields = writable_fields(code.program_type, hook.as_ref().and_then(|hook| hook.structure.as_deref()));
        let allows = |field: &WritableField| {
            let range = field_range(types, field);
            let start = |range: &Range<u32>| range.start == at || field.anywhere && range.contains(&at);
            range.is_some_and(|range| start(&range) && at.saturating_add(bytes) <= range.end)
        };
        let mut of_structure = fields.iter().filter(|field| field.structure == pointed.name);
        if of_structure.any(allows) {
            return Ok(());
        }
        reject(
            Reason::StructureAccess,
            format!("r{}: struct {} of the kernel is read-only at offset {at}", reg.number(), pointed.name),
        )
    }

    /// The type a register points to, with its definition at hand.
    pub(crate) fn pointed_definition(&self, base: &Register) -> Step<crate::types::Pointed> {
        match self.pointed(base.type_index()) {
            Some(pointed) if pointed.id != TypeId::VOID => Ok(pointed.clone()),
            Some(pointed) if self.kernel.is_some() => {
                unsupported(format!("struct {}, which this kernel has not", pointed.name))
            }
            _ => unsupported(WITHOUT_TYPES),
        }
    }
}

/// The bytes of a field that programs may write.
fn field_range(types: &Btf, field: &WritableField) -> Option<Range<u32>> {
    let range = range_of(types, field.owner, field.field)?;
    let Some((structure, part)) = field.part else { return Some(range) };
    let part = range_of(types, structure, part)?;
    Some(range.start.checked_add(part.start)?..range.start.checked_add(part.end)?)
}

/// The bytes of a field of a structure of the kernel; of all of the structure where the name is empty.
fn range_of(types: &Btf, structure: &str, field: &str) -> Option<Range<u32>> {
    let mut id = types.find(structure, |kind| matches!(kind, BtfKind::Composite { .. }))?;
    let mut start = 0;
    for name in field.split('.').filter(|name| !name.is_empty()) {
        let member = types.members(id).iter().find(|member| types.text(member.name) == name)?;
        start += member.bit_offset / 8;
        id = types.resolve(member.type_id)?;
    }
    let size = u32::try_from(types.size_of(id)?).ok()?;
    Some(start..start.checked_add(size)?)
}
