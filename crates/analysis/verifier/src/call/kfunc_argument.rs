//! Arguments of kernel functions, held to what their parameters ask for.

use kiln_isa::Reg;
use kiln_platform::limits::MAX_VARIABLE_SIZE;
use kiln_platform::{Feature, KfuncFlag};
use kiln_program::btf::TypeId;

use crate::call::callback::check_same_map;
use crate::call::checked::{KfuncCheck, Passed};
use crate::call::said::KfuncCall;
use crate::error::{About, Step, refuse, reject, unsupported};
use crate::path::Path;
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::{Kind, Register, Trust};
use crate::types::WITHOUT_TYPES;
use crate::types::parameters::{Argument, Taken};

impl<'p> KfuncCheck<'_, 'p> {
    /// Holds all arguments of a call to the prototype, in their order.
    pub(crate) fn all(path: &mut Path<'p>, call: &mut KfuncCall, taken: &[Taken]) -> Step<()> {
        if taken.len() > 5 {
            return unsupported(format!("{}: more than five arguments", call.kfunc.name));
        }
        let mut index = 0;
        while let Some(one) = taken.get(index) {
            let Some(reg) = Reg::new(index as u8 + 1) else { break };
            if one.argument == Argument::Nothing {
                let register = *path.state.register(reg);
                path.findings.expose_stack(&path.state, path.at, &register);
            } else {
                let register = path.read(reg)?;
                KfuncCheck { path, call, argument: Passed { reg, register, taken: one } }.hold().about(reg)?;
            }
            // The size is checked with its memory.
            index += if matches!(one.argument, Argument::Sized { .. }) { 2 } else { 1 };
        }
        if call.kfunc.has(KfuncFlag::Release) && call.released.is_none() && call.given_back == 0 {
            return reject(Reason::NotHeld, format!("{} asks for a reference that is held", call.kfunc.name));
        }
        Ok(())
    }

    /// The message that the argument must be something else.
    fn must_be(&self, expected: &str) -> String {
        let (number, kind) = (self.argument.reg.number(), self.argument.register.kind().name());
        format!("argument {number} of {} must be {expected}, r{number} is {kind}", self.call.kfunc.name)
    }

    fn wrong<T>(&self, expected: &str) -> Step<T> {
        reject(Reason::ArgumentType, self.must_be(expected))
    }

    fn hold(mut self) -> Step<()> {
        let Passed { reg, register, taken } = self.argument;
        let kfunc = self.call.kfunc;
        match taken.argument {
            Argument::Number { constant } => return self.number(constant),
            Argument::ResultBytes { read_only } => return self.result_bytes(read_only),
            _ => {}
        }
        let null = register.is_zero();
        let careful = self.call.trusted || kfunc.has(KfuncFlag::Rcu);
        if careful && (null || register.nullable) && !taken.nullable {
            return reject(Reason::PossiblyNull, self.must_be("a pointer that is not null"));
        }
        if register.owns() {
            self.call.reference = register.reference;
            if kfunc.has(KfuncFlag::Release) {
                self.call.released = Some(reg);
            }
        }
        let sized = matches!(taken.argument, Argument::Sized { .. });
        if null && taken.nullable && !sized {
            self.path.findings.mark_precise(&register);
            return Ok(());
        }
        self.pointer()
    }

    /// Pointers: to the context, maps, functions, strings, structures and memory.
    fn pointer(&mut self) -> Step<()> {
        let Passed { reg, register, taken } = self.argument;
        let typed =
            matches!(register.kind(), Kind::BtfId | Kind::Socket | Kind::SockCommon | Kind::TcpSock | Kind::Map);
        match &taken.argument {
            Argument::Context => {
                if !register.is_unmoved(Kind::Context) {
                    return self.wrong("the context, unmodified");
                }
                Ok(())
            }
            Argument::Map => self.map(),
            Argument::ConstantString => {
                self.path.code.check_constant_string(reg, &register, self.must_be("a constant string"))
            }
            Argument::Callback => {
                if !register.is_unmoved(Kind::Function) {
                    return self.wrong("a function of this program, unmodified");
                }
                self.call.callback = register.function();
                Ok(())
            }
            Argument::Structure { id, .. } if typed => self.structure(*id),
            Argument::Structure { plain: true, bytes: Some(bytes), .. } | Argument::Memory { bytes: Some(bytes) } => {
                self.memory(*bytes)
            }
            Argument::Structure { .. } => self.wrong("a structure of the kernel"),
            Argument::Memory { .. } => self.wrong("memory of a known size"),
            Argument::Sized { constant } => self.sized(*constant),
            _ => self.special(),
        }
    }

    /// Objects that the kernel watches over, which the files of those know.
    fn special(&mut self) -> Step<()> {
        let Passed { reg, register, taken } = self.argument;
        let (path, call) = (&mut *self.path, &mut *self.call);
        match &taken.argument {
            Argument::Allocated => path.types.check_allocated_argument(call, &register),
            Argument::Refcounted
                if register.fixed_offset() != Some(0) && path.options.kernel_has(Feature::WholeObjects) =>
            {
                let message = format!("{} takes the pointer to the object, not to a part of it", call.kfunc.name);
                reject(Reason::ArgumentType, message)
            }
            Argument::Refcounted => path.types.check_refcounted_argument(path.options, call, &register),
            Argument::Graph(kind) => {
                path.types.check_graph_argument(path.code, path.options, &path.state, call, &register, *kind)
            }
            Argument::Field(kind) => path.types.check_field_of_kfunc(path.code, call, &register, *kind),
            Argument::Dynptr { uninitialized } => self.dynptr_argument(*uninitialized),
            Argument::Iterator(structure) => self.iterator_argument(*structure),
            // Saved and restored with its lock or section.
            Argument::InterruptFlags => Ok(()),
            _ => unsupported(format!("the kernel function {}, argument {}", call.kfunc.name, reg.number())),
        }
    }

    fn map(&mut self) -> Step<()> {
        let Passed { reg, register, .. } = self.argument;
        if register.kind() == Kind::BtfId {
            let map = self.path.types.find_struct("bpf_map").unwrap_or(TypeId::VOID);
            return self.structure(map);
        }
        if register.kind() != Kind::Map {
            return self.wrong("a map");
        }
        if let Some(value) = &self.call.value {
            check_same_map(value, &register)?;
        }
        self.call.map = Some(register);
        check_trusted(self.call, reg, &register)
    }

    /// How many bytes the result points to.
    fn result_bytes(&mut self, read_only: bool) -> Step<()> {
        let register = self.argument.register;
        let bytes = register.scalar.as_constant().filter(|_| register.kind() == Kind::Scalar);
        let Some(bytes) = bytes.filter(|bytes| *bytes <= u64::from(u32::MAX)) else {
            let message = self.must_be("a constant size that fits 32 bits");
            return refuse(Reason::ArgumentSize, Case::NotConstant, message);
        };
        self.path.findings.mark_precise(&register);
        self.call.result_bytes = Some((bytes, read_only));
        Ok(())
    }

    fn number(&mut self, constant: bool) -> Step<()> {
        let register = self.argument.register;
        if register.kind() != Kind::Scalar {
            return self.wrong("a number");
        }
        if constant {
            let Some(value) = register.scalar.as_constant() else {
                return refuse(Reason::ArgumentSize, Case::NotConstant, self.must_be("a constant"));
            };
            self.path.findings.mark_precise(&register);
            self.call.constant = Some(value);
        }
        Ok(())
    }

    /// Pointers to kernel structures: as trusted as the kfunc asks, and of the right type.
    fn structure(&mut self, wanted: TypeId) -> Step<()> {
        let Passed { reg, register, .. } = self.argument;
        check_trusted(self.call, reg, &register)?;
        let flawed = register.nullable
            || register.trust.without(Trust::TRUSTED.with(Trust::ALLOCATED).with(Trust::NOT_OWNING)) != Trust::NONE;
        if register.kind() == Kind::BtfId && flawed && !register.trust.has(Trust::RCU) {
            return reject(Reason::NotTrusted, self.must_be("a pointer that may be relied on and is not null"));
        }
        let index = self.path.types.kernel_type(wanted);
        let (Some(wanted), Some(held)) =
            (self.path.types.pointed(index).cloned(), self.path.types.structure_of(&register))
        else {
            return unsupported(WITHOUT_TYPES);
        };
        let Some(offset) = register.fixed_offset() else {
            return reject(Reason::ArgumentType, self.must_be("a pointer at a constant offset"));
        };
        let releases = self.call.released == Some(reg);
        if releases && offset != 0 {
            return reject(Reason::NotHeld, self.must_be("the pointer as it was acquired, unmodified"));
        }
        let strictly = releases || is_no_cast_alias(&held.name, &wanted.name);
        let flexible = !register.trust.has(Trust::ALLOCATED);
        let projected = matches!((&*wanted.name, &*held.name), ("__sk_buff", "sk_buff") | ("xdp_md", "xdp_buff"));
        if projected || self.path.types.is_at(&held, offset, &wanted, strictly, flexible) {
            return Ok(());
        }
        reject(Reason::ArgumentType, self.must_be(&format!("a pointer to {}, not to {}", wanted.name, held.name)))
    }

    /// Memory that a kfunc may read and write.
    fn memory(&mut self, bytes: u64) -> Step<()> {
        let Passed { reg, register, .. } = self.argument;
        if register.is_zero() {
            self.path.findings.mark_precise(&register);
            return Ok(());
        }
        let register = &Register { nullable: false, ..register };
        let checked = self.path.check_shared_memory(reg, register, bytes);
        checked.unwrap_or_else(|| self.wrong(&format!("memory of {bytes} bytes")))
    }

    /// Memory, and its size in the next register.
    fn sized(&mut self, constant: bool) -> Step<()> {
        let Passed { reg, register, taken } = self.argument;
        let name = self.call.kfunc.name;
        let Some(next) = Reg::new(reg.number() + 1) else { return Ok(()) };
        let size = self.path.read(next)?;
        let complain = |case: Case, text: &str| {
            refuse(Reason::ArgumentSize, case, format!("{name}: the size in r{} {text}", next.number())).about(next)
        };
        if size.kind() != Kind::Scalar {
            return complain(Case::Plain, "must be a number");
        }
        if !(register.is_zero() && taken.optional) {
            if size.scalar.smin < 0 {
                return complain(Case::Negative, "may be negative");
            }
            if size.scalar.umax >= MAX_VARIABLE_SIZE {
                return complain(Case::Plain, "has no upper bound");
            }
            let most = size.scalar.umax;
            if register.is_zero() && most > 0 && !taken.nullable {
                return reject(Reason::PossiblyNull, self.must_be("memory, as its size is not 0"));
            }
            self.memory(most)?;
        }
        self.path.findings.mark_precise(&size);
        if constant {
            let Some(value) = size.scalar.as_constant() else {
                return complain(Case::NotConstant, "must be a constant");
            };
            self.call.constant = Some(value);
        }
        Ok(())
    }
}

/// Whether the pointer may be relied on as far as the kfunc asks.
fn check_trusted(call: &KfuncCall, reg: Reg, register: &Register) -> Step<()> {
    let kfunc = call.kfunc;
    if register.is_trusted() || !call.trusted && !kfunc.has(KfuncFlag::Rcu) {
        return Ok(());
    }
    if kfunc.has(KfuncFlag::Rcu) && register.trust.has(Trust::RCU) {
        return Ok(());
    }
    let wanted = if kfunc.has(KfuncFlag::Rcu) { "trusted, or protected by RCU" } else { "trusted or acquired" };
    reject(Reason::NotTrusted, format!("{}: the pointer in r{} must be {wanted}", kfunc.name, reg.number()))
}

/// Whether one name is the other with `___init` behind: structures in preparation are not cast to finished ones.
fn is_no_cast_alias(first: &str, second: &str) -> bool {
    let is = |long: &str, short: &str| long.strip_suffix("___init") == Some(short);
    is(first, second) || is(second, first)
}
