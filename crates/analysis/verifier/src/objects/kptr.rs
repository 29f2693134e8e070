//! Kptrs: pointers to objects that are kept in map values and in other objects.
//!
//! ```text
//!   struct elem { struct task_struct __kptr *task; };
//!   old = bpf_kptr_xchg(&v->task, new)     new is owned by the map, old by the program
//!   t = v->task                            in an RCU section: good until its end, may be null
//! ```

use kiln_isa::{Insn, Reg, Size};

use crate::code::{Code, Position};
use crate::error::{Step, reject, unsupported};
use crate::objects::fields::{FieldKind, Kptr, KptrClass, Target};
use crate::path::{Findings, Path};
use crate::reason::Reason;
use crate::state::{Holds, Kind, Register, State, Trust};
use crate::types::{Types, WITHOUT_TYPES};

impl Path<'_> {
    /// Returns what a load of a kptr gives: in an RCU section a pointer that RCU protects, otherwise an untrusted one.
    pub(crate) fn load_kptr(&mut self, kptr: &Kptr) -> Step<Register> {
        let id = self.fresh_id();
        if kptr.class == KptrClass::User {
            return Ok(Register::pointer(Holds::Memory(self.types.bytes_of(kptr.target))).or_null(id));
        }
        let (index, protected, local) = match kptr.target {
            Target::Own(target) => (self.types.program_type(target), true, true),
            Target::Kernel(target) => {
                let index = self.types.kernel_type(target);
                (index, RCU_PROTECTED.contains(&self.types.name(index)), false)
            }
            Target::Unknown(_) => return unsupported(WITHOUT_TYPES),
        };
        let owned = matches!(kptr.class, KptrClass::Owned | KptrClass::Percpu);
        let trust = match (owned && protected && self.state.in_rcu_section(), kptr.class) {
            (false, _) => Trust::UNTRUSTED,
            (true, KptrClass::Percpu) => Trust::RCU.with(Trust::PERCPU),
            (true, _) if local && self.types.is_graph_node(index) => {
                Trust::RCU.with(Trust::ALLOCATED).with(Trust::NOT_OWNING)
            }
            (true, _) if local => Trust::RCU.with(Trust::ALLOCATED),
            (true, _) => Trust::RCU,
        };
        Ok(Register::pointer(Holds::Structure(index)).trusted(trust).or_null(id))
    }

    /// Returns the pointer that was in the kptr.
    pub(crate) fn taken_from_kptr(&mut self, kptr: &Kptr) -> Step<Register> {
        let pointer = match kptr.target {
            Target::Own(target) => {
                let index = self.types.program_type(target);
                let percpu = if kptr.class == KptrClass::Percpu { Trust::PERCPU } else { Trust::NONE };
                Register::pointer(Holds::Structure(index)).trusted(Trust::ALLOCATED.with(percpu))
            }
            Target::Kernel(target) => Register::pointer(Holds::Structure(self.types.kernel_type(target))),
            Target::Unknown(_) => return unsupported(WITHOUT_TYPES),
        };
        Ok(pointer.or_null(self.fresh_id()))
    }
}

impl Types {
    /// The kptr that an access reads or writes, if it does.
    pub(crate) fn kptr_at(
        &self,
        code: &Code<'_>,
        at: Position,
        reg: Reg,
        base: &Register,
        offset: i64,
        size: Size,
    ) -> Step<Option<Kptr>> {
        let Some(record) = self.record_of(code, base).filter(|record| record.has(is_kptr)) else { return Ok(None) };
        let fixed = i128::from(i64::from(base.offset)) + i128::from(offset);
        let start = i128::from(base.scalar.smin) + fixed;
        let end = i128::from(base.scalar.umax) + fixed + i128::from(size.bytes());
        let Some(field) = record.touched(start, end).filter(|field| is_kptr(field.kind)) else { return Ok(None) };
        let FieldKind::Kptr(kptr) = field.kind else { return Ok(None) };
        let plain = matches!(code.op(at).node.insn, Insn::Load { signed: false, .. } | Insn::Store { .. });
        let number = reg.number();
        if base.scalar.as_constant().is_none() {
            return reject(
                Reason::SpecialField,
                format!("r{number}: a kptr is accessed at an offset that is not constant"),
            );
        }
        if start != i128::from(field.offset) || size != Size::B8 {
            return reject(
                Reason::SpecialField,
                format!("r{number}: a kptr is accessed in part: all its 8 bytes must be"),
            );
        }
        if !plain {
            return reject(Reason::SpecialField, format!("r{number}: a kptr is accessed other than by load and store"));
        }
        Ok(Some(kptr))
    }

    fn bytes_of(&self, target: Target) -> u32 {
        let (Target::Own(id) | Target::Kernel(id) | Target::Unknown(id)) = target;
        let size = self.program.as_deref().and_then(|btf| btf.size_of(id));
        size.and_then(|size| u32::try_from(size).ok()).unwrap_or(0)
    }

    pub(crate) fn store_kptr(&mut self, findings: &mut Findings, kptr: &Kptr, value: &Register) -> Step<()> {
        if kptr.class == KptrClass::User {
            return reject(Reason::SpecialField, "a uptr is stored to: only user space sets it");
        }
        if kptr.class != KptrClass::Untrusted {
            return reject(
                Reason::SpecialField,
                "a kptr that owns its object is stored to: exchange it with bpf_kptr_xchg",
            );
        }
        if value.is_zero() {
            findings.mark_precise(value);
            return Ok(());
        }
        self.check_kptr_type(kptr, value)
    }

    /// Whether a pointer may be kept in a kptr.
    fn check_kptr_type(&mut self, kptr: &Kptr, value: &Register) -> Step<()> {
        let wrong = |text: &str| reject(Reason::SpecialField, format!("what is put into a kptr {text}"));
        if value.kind() != Kind::BtfId {
            return wrong(&format!("is {}, no pointer to a structure", value.kind().name()));
        }
        let index = match kptr.target {
            Target::Own(target) => self.program_type(target),
            Target::Kernel(target) => self.kernel_type(target),
            Target::Unknown(_) => return unsupported(WITHOUT_TYPES),
        };
        let (Some(held), Some(wanted)) = (self.pointed(value.type_index()), self.pointed(index)) else {
            return unsupported(WITHOUT_TYPES);
        };
        let allowed = match (held.of_kernel, kptr.class) {
            (true, KptrClass::Untrusted) => Trust::TRUSTED.with(Trust::RCU).with(Trust::UNTRUSTED),
            (true, _) => Trust::TRUSTED.with(Trust::RCU),
            (false, KptrClass::Percpu) => Trust::ALLOCATED.with(Trust::PERCPU),
            (false, _) => Trust::ALLOCATED,
        };
        if value.trust.without(allowed) != Trust::NONE {
            return wrong("cannot be relied on");
        }
        if value.trust.has(Trust::PERCPU) != (kptr.class == KptrClass::Percpu) {
            return wrong("is one object, not each CPU's, or the other way round");
        }
        let Some(offset) = value.fixed_offset().filter(|_| value.scalar.as_constant() == Some(0)) else {
            return wrong("has an offset that is not constant");
        };
        let strictly = kptr.class != KptrClass::Untrusted;
        if self.is_at(held, offset, wanted, strictly, !value.is_allocated()) {
            return Ok(());
        }
        wrong(&format!("points to struct {}, it holds struct {}", held.name, wanted.name))
    }

    /// The kptr that `bpf_kptr_xchg` changes. With `shared`, also in an object that a list or tree owns.
    pub(crate) fn check_kptr_slot(
        &mut self,
        code: &Code<'_>,
        register: &Register,
        shared: bool,
        message: String,
    ) -> Step<Kptr> {
        let in_value = register.kind() == Kind::MapValue && !register.nullable;
        let owned = register.trusted(register.trust.without(Trust::NOT_OWNING.with(Trust::RCU)));
        let shared = shared && register.trust.has(Trust::NOT_OWNING) && owned.is_plain_object();
        if !in_value && !register.is_plain_object() && !shared {
            return reject(Reason::ArgumentType, message);
        }
        let field = self.find_field(code, register, is_kptr, message.clone())?;
        match field.kind {
            FieldKind::Kptr(kptr) if matches!(kptr.class, KptrClass::Owned | KptrClass::Percpu) => Ok(kptr),
            _ => reject(Reason::ArgumentType, format!("{message}: that one owns nothing")),
        }
    }

    /// The object that goes into it.
    pub(crate) fn check_kptr_given(&mut self, kptr: &Kptr, register: &Register, message: String) -> Step<u32> {
        if register.nullable {
            return reject(Reason::PossiblyNull, format!("{message}, and not null"));
        }
        if register.kind() != Kind::BtfId {
            return reject(Reason::ArgumentType, message);
        }
        self.check_kptr_type(kptr, register)?;
        if !register.owns() {
            return reject(Reason::NotHeld, format!("{message}: it is not owned here"));
        }
        if register.fixed_offset() != Some(0) {
            return reject(Reason::NotHeld, format!("{message}, as it was acquired, unmodified"));
        }
        Ok(register.reference)
    }
}

impl State {
    /// The object given to a kptr: its other pointers are gone, or RCU protects it where it is each CPU's.
    pub(crate) fn give_to_kptr(&mut self, findings: &mut Findings, stale: Register, id: u32, by: &str) -> Step<()> {
        if self.in_rcu_section() {
            self.for_each_where(
                |register| register.reference == id && register.is_allocated() && register.trust.has(Trust::PERCPU),
                |register| {
                    register.reference = 0;
                    register.trust = register.trust.without(Trust::ALLOCATED).with(Trust::RCU);
                },
            );
        }
        self.release_reference(findings, stale, id, by)
    }
}

/// Kernel structures that stay while an RCU section lasts, so that a kptr to one may be used there.
const RCU_PROTECTED: [&str; 6] =
    ["task_struct", "cgroup", "bpf_cpumask", "bpf_crypto_ctx", "bpf_ksock", "prog_test_ref_kfunc"];

fn is_kptr(kind: FieldKind) -> bool {
    matches!(kind, FieldKind::Kptr(_))
}
