//! Variables and objects of the kernel that programs name: `__ksym` variables, per-CPU ones, the fields of maps.
//!
//! ```text
//!   extern const struct rq runqueues __ksym;    r1 = &runqueues          a per-CPU rq: not memory by itself
//!   bpf_per_cpu_ptr(&runqueues, 3)                                       CPU 3's rq, or null
//!   extern const int bpf_prog_active __ksym;    bpf_this_cpu_ptr(...)    4 bytes, read-only
//! ```

use kiln_isa::Reg;
use kiln_platform::Feature;
use kiln_program::Extern;
use kiln_program::btf::{Btf, Kind as BtfKind, TypeId};

use crate::error::{Step, reject, unsupported};
use crate::path::Path;
use crate::reason::Reason;
use crate::state::{Holds, Register, Trust};
use crate::types::{Types, WITHOUT_TYPES, find_symbol};

/// The kernel's section of per-CPU variables.
const PERCPU_SECTION: &str = ".data..percpu";

impl Path<'_> {
    /// The address of a kernel variable or function.
    pub(crate) fn kernel_symbol(&mut self, symbol: &Extern) -> Step<Register> {
        let Some(types) = self.types.kernel.clone() else {
            return unsupported(format!("the address of {}: {WITHOUT_TYPES}", symbol.name));
        };
        let Some(id) = find_symbol(&types, symbol) else {
            if symbol.weak {
                // The loader puts 0 there. Another kernel may have any value.
                return Ok(if self.any_load() { Register::UNKNOWN } else { Register::constant(0) });
            }
            return reject(Reason::KernelLacks, format!("this kernel has no {}, or not in its BTF", symbol.name));
        };
        if symbol.weak && self.any_load() {
            return unsupported(format!("{}, which another kernel may lack", symbol.name));
        }
        let BtfKind::Variable { target, .. } = *types.kind(id) else {
            return Ok(Register { read_only: true, ..Register::pointer(Holds::Memory(0)) });
        };
        let plain = types.resolve(target).unwrap_or(TypeId::VOID);
        let index = self.types.kernel_type(plain);
        let structure = matches!(types.kind(plain), BtfKind::Composite { .. });
        Ok(if is_percpu(&types, id) {
            Register::pointer(Holds::Structure(index)).trusted(Trust::PERCPU)
        } else if structure {
            Register::pointer(Holds::Structure(index))
        } else {
            read_only_bytes(&types, plain)
        })
    }

    /// A load from the kernel's structure of a map.
    pub(crate) fn load_map_field(&mut self, reg: Reg, base: &Register, offset: i64, bytes: u32) -> Step<Register> {
        let Some(map_type) = self.code.map_type_of(base) else {
            return unsupported("a map whose definition is not known");
        };
        self.options.check_feature_in_profile(Feature::MapStructures)?;
        let index = self.types.kernel_struct(map_type.rules().structure);
        let map = Register { holds: Holds::Structure(index), inner: false, trust: Trust::NONE, ..*base };
        self.load_structure(reg, &map, offset, bytes)
    }
}

impl Types {
    /// One CPU's own of a per-CPU variable.
    pub(crate) fn own_of_percpu(&mut self, variable: &Register) -> Step<Register> {
        if variable.trust.has(Trust::ALLOCATED) || variable.trust.has(Trust::RCU) {
            let trust = Trust::ALLOCATED.with(Trust::RCU);
            return Ok(Register::pointer(Holds::Structure(variable.type_index())).trusted(trust));
        }
        let pointed = self.pointed_definition(variable)?;
        let Some(types) = self.definitions(&pointed) else { return unsupported(WITHOUT_TYPES) };
        Ok(match types.kind(pointed.id) {
            BtfKind::Composite { .. } => Register::pointer(Holds::Structure(variable.type_index())),
            _ => read_only_bytes(types, pointed.id),
        })
    }
}

fn read_only_bytes(types: &Btf, id: TypeId) -> Register {
    let bytes = types.size_of(id).and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0);
    Register { read_only: true, ..Register::pointer(Holds::Memory(bytes)) }
}

fn is_percpu(types: &Btf, variable: TypeId) -> bool {
    let section = types.find(PERCPU_SECTION, |kind| matches!(kind, BtfKind::Section { .. }));
    section.is_some_and(|section| types.variables(section).iter().any(|known| known.type_id == variable))
}
