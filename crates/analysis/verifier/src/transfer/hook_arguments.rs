//! The context of programs on hooks that the kernel's BTF describes: an array of the hook's arguments.
//!
//! ```text
//!   SEC("tp_btf/kfree_skb")     void (*)(void *, struct sk_buff *, void *, enum ..., struct sock *)
//!   r2 = *(u64 *)(r1 + 0)       a trusted pointer to sk_buff
//!   r2 = *(u64 *)(r1 + 16)      a number
//!   r2 = *(u64 *)(r1 + 24)      a trusted pointer to sock, or null
//! ```
//!
//! What a hook's prototype does not say (which arguments may be null, what may be returned) is in `kiln_platform`.

use kiln_platform::limits::MAX_TRACED_ARGUMENTS;
use kiln_platform::{AttachType, Feature, IteratorArgument};
use kiln_program::btf::{Btf, Kind as BtfKind, Parameter, TypeId};

use crate::code::Code;
use crate::domain::Scalar;
use crate::error::{Step, reject, unsupported};
use crate::path::Path;
use crate::reason::Reason;
use crate::state::{Holds, Register, Trust};
use crate::types::WITHOUT_TYPES;
use crate::types::hook::{Hook, HookReturn, argument_at, lsm_range};
use crate::types::walk::tag_trust;

impl Path<'_> {
    /// A load from the array of arguments.
    pub(crate) fn load_hook_argument(&mut self, at: i64, bytes: u32) -> Step<Register> {
        let refused =
            |why: String| reject(Reason::ContextAccess, format!("load of {bytes} bytes at argument byte {at}: {why}"));
        let limit = 8 * i64::from(MAX_TRACED_ARGUMENTS);
        if !(0..limit).contains(&at) || at % 8 != 0 {
            return refused("arguments are 8 bytes each, and are loaded from their first".to_owned());
        }
        let hook = self.types.hook(self.code)?;
        let Some(types) = self.types.kernel.clone() else { return unsupported(WITHOUT_TYPES) };
        let BtfKind::Prototype { result, .. } = *types.kind(hook.prototype) else {
            return unsupported("a hook that is no function");
        };
        let parameters = types.parameters(hook.prototype);
        let index = argument_at(&types, parameters, result, at as u64);
        let parameters = if hook.skips_first { parameters.get(1..).unwrap_or_default() } else { parameters };
        let unknown = Register::scalar(Scalar::of_width(8 * bytes));
        let Some(parameter) = parameters.get(index) else {
            let target = match *types.kind(types.resolve(result).unwrap_or(TypeId::VOID)) {
                BtfKind::Pointer { target } => Some(target),
                _ => None,
            };
            let traces_return =
                matches!(self.code.program.attach_type, Some(AttachType::TraceFexit | AttachType::TraceFsession));
            if let (true, true, Some(target)) = (index == parameters.len(), traces_return, target) {
                let returned = Parameter { name: 0, type_id: result };
                return self.pointer_argument(&types, &hook, index, &returned, target);
            }
            return match self.code.returned_value(&types, &hook, index == parameters.len(), result) {
                Some(Some((lowest, highest))) => {
                    Ok(Register::scalar(Scalar::signed_range(i64::from(lowest), i64::from(highest))))
                }
                Some(None) => Ok(unknown),
                None => refused(format!("{} has no argument {}", hook.name, index + 1)),
            };
        };
        let plain = types.resolve(parameter.type_id).unwrap_or(TypeId::VOID);
        let target = match *types.kind(plain) {
            BtfKind::Int { .. } | BtfKind::Enum { .. } | BtfKind::Composite { .. } => return Ok(unknown),
            BtfKind::Pointer { target } => target,
            _ => return refused(format!("argument {} is neither a number nor a pointer", index + 1)),
        };
        if bytes != 8 {
            return refused(format!("argument {} is a pointer of 8 bytes", index + 1));
        }
        self.pointer_argument(&types, &hook, index, parameter, target)
    }

    fn pointer_argument(
        &mut self,
        types: &Btf,
        hook: &Hook,
        index: usize,
        parameter: &Parameter,
        target: TypeId,
    ) -> Step<Register> {
        let special = hook
            .iterator
            .and_then(|iterator| iterator.arguments.iter().find(|(at, _)| *at == index).map(|(_, argument)| *argument));
        match special {
            Some(IteratorArgument::ReadOnlyBuffer) => {
                let buffer = Register { read_only: true, ..Register::pointer(Holds::Buffer) };
                return Ok(buffer.or_null(self.fresh_id()));
            }
            Some(IteratorArgument::Buffer) => {
                return Ok(Register::pointer(Holds::Buffer).or_null(self.fresh_id()));
            }
            _ => {}
        }
        let structure = types.resolve(target).unwrap_or(TypeId::VOID);
        match types.kind(structure) {
            // The verifier treats a pointer to an unknown type as a number, and a pointer to a number too.
            BtfKind::Void => return Ok(Register::UNKNOWN),
            BtfKind::Int { .. } if self.options.kernel_has(Feature::NumberPointers) => return Ok(Register::UNKNOWN),
            // The list that an enqueued packet is dropped to: the kernel has a structure of its own for it.
            BtfKind::Pointer { .. } if hook.name == "Qdisc_ops.enqueue" && index == 2 => {
                let list = Register::pointer(Holds::Structure(self.types.kernel_struct("bpf_sk_buff_ptr")));
                return Ok(list.trusted(Trust::TRUSTED));
            }
            BtfKind::Pointer { .. } if self.options.kernel_has(Feature::PointersAsNumbers) => {
                return Ok(Register::UNKNOWN);
            }
            BtfKind::Composite { .. } => {}
            _ => {
                return reject(
                    Reason::ContextAccess,
                    format!("argument {} of {} points to no structure", index + 1, hook.name),
                );
            }
        }
        if hook.tracepoint.is_some_and(|row| row.errors.contains(&index)) {
            return Ok(Register::UNKNOWN);
        }
        let mut trust = if hook.trusted { Trust::TRUSTED } else { Trust::NONE };
        let mark = types.parameters(hook.marks).get(index).filter(|_| hook.structure.is_some()).unwrap_or(parameter);
        let mut nullable = types.text(mark.name).ends_with("__nullable")
            || hook.tracepoint.is_some_and(|row| row.nullable.contains(&index));
        match special {
            Some(IteratorArgument::Nullable) => (trust, nullable) = (Trust::NONE, true),
            Some(IteratorArgument::TrustedNullable) => (trust, nullable) = (Trust::TRUSTED, true),
            _ => {}
        }
        if let BtfKind::TypeTag { .. } = types.kind(target) {
            trust = trust.with(tag_trust(types.name(target)).without(Trust::RCU));
        }
        let mut object = self.types.kernel_type(structure);
        if hook.structure.as_deref() == Some("tcp_congestion_ops") && types.name(structure) == "sock" {
            // A congestion control program sees the whole TCP socket.
            object = self.types.kernel_struct("tcp_sock");
        }
        let pointer = Register::pointer(Holds::Structure(object)).trusted(trust);
        Ok(if nullable { pointer.or_null(self.fresh_id()) } else { pointer })
    }
}

impl<'a> Code<'a> {
    /// Whether the value returned may be read behind the arguments, and its range where that is known.
    #[allow(clippy::option_option)]
    fn returned_value(&self, types: &Btf, hook: &Hook, behind: bool, result: TypeId) -> Option<Option<(i32, i32)>> {
        let plain = types.resolve(result).unwrap_or(TypeId::VOID);
        let number = matches!(types.kind(plain), BtfKind::Int { .. } | BtfKind::Enum { .. });
        match self.program.attach_type {
            _ if !behind => None,
            Some(AttachType::LsmMac) if number => match lsm_range(&hook.name) {
                HookReturn::Range(lowest, highest) => Some(Some((lowest, highest))),
                _ => Some(None),
            },
            Some(AttachType::LsmCgroup | AttachType::TraceFexit | AttachType::TraceFsession) if number => Some(None),
            Some(AttachType::ModifyReturn) if number => Some(None),
            _ => None,
        }
    }
}
