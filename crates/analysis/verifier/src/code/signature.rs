//! What global functions take and give, by their BTF, and what they may do that their callers must know of.

use kiln_platform::{Feature, KfuncFlag, KfuncMeaning, ProgramType, helper_id};
use kiln_program::btf::{Btf, Kind as BtfKind, TypeId};

use crate::code::parameter::{Hook, Parameter, is_arena_pointer, parameter};
use crate::code::{Code, Op};
use crate::options::Options;

/// What a global function takes and gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signature {
    pub parameters: Vec<Parameter>,
    /// A number; the kernel refuses to call a function that returns none.
    pub returns_value: bool,
    /// Packet pointers are stale after a call.
    pub changes_packet: bool,
    /// It returns nothing.
    pub returns_nothing: bool,
    /// It may only be called where the program may sleep.
    pub may_sleep: bool,
    /// It may throw, which ends the program.
    pub may_throw: bool,
}

/// The signature of each function that is global and has BTF.
pub(crate) fn signatures(code: &Code<'_>, btf: Option<&Btf>, options: &Options) -> Vec<Option<Signature>> {
    let program_type = code.program_type;
    let all_tags = options.profile.has(Feature::ArgumentTags);
    let arena_types = options.profile.has(Feature::ArenaTypes);
    let hook = Hook { program_type, attach_type: code.program.attach_type, all_tags, arena_types };
    let effects = effects(code, program_type, options);
    let signature = |(at, routine): (usize, &crate::code::Routine<'_>)| {
        let replaces = at == 0 && code.program.replaces.is_some();
        if !routine.global && !replaces || routine.btf_id == 0 {
            return None;
        }
        let mut signature = signature(btf?, options.kernel_types.as_deref(), TypeId(routine.btf_id), hook)?;
        let Effects { changes_packet, may_sleep, may_throw } = effects[at];
        (signature.changes_packet, signature.may_sleep, signature.may_throw) = (changes_packet, may_sleep, may_throw);
        Some(signature)
    };
    code.functions.iter().enumerate().map(signature).collect()
}

fn signature(btf: &Btf, types: Option<&Btf>, function: TypeId, hook: Hook) -> Option<Signature> {
    let BtfKind::Function { prototype, .. } = *btf.kind(function) else { return None };
    let BtfKind::Prototype { result, .. } = *btf.kind(prototype) else { return None };
    let parameters = btf.parameters(prototype).iter().enumerate();
    let parameters = parameters.map(|(index, of)| parameter(btf, types, function, index, of.type_id, hook)).collect();
    let result = btf.resolve(result).unwrap_or(TypeId::VOID);
    let arena = hook.arena_types && is_arena_pointer(btf, result);
    let returns_value = arena || matches!(btf.kind(result), BtfKind::Int { .. } | BtfKind::Enum { .. });
    let returns_nothing = matches!(btf.kind(result), BtfKind::Void);
    let nothing = Signature::default();
    Some(Signature { parameters, returns_value, returns_nothing, ..nothing })
}

/// What a function may do that its callers must know of.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Effects {
    pub changes_packet: bool,
    pub may_sleep: bool,
    may_throw: bool,
}

/// The effects of each function, its own and those of functions it calls.
pub(crate) fn effects(code: &Code<'_>, program_type: ProgramType, options: &Options) -> Vec<Effects> {
    let traces = |op: &Op<'_>| op.helper.is_some_and(|helper| code.sleeps_where_it_may(options, helper));
    let mut known = vec![Effects::default(); code.functions.len()];
    let mut again = true;
    while again {
        again = false;
        let calls = |op: &&Op<'_>| op.callee.is_some() || op.helper.is_some() || op.kfunc.is_some();
        for op in code.ops.iter().filter(calls) {
            let callee = op.callee.map(|callee| known[callee]).unwrap_or_default();
            let before = known[op.function];
            let after = Effects {
                changes_packet: before.changes_packet || callee.changes_packet || changes_packet(op),
                may_sleep: before.may_sleep || callee.may_sleep || may_sleep(op, program_type) || traces(op),
                may_throw: before.may_throw || callee.may_throw || op.kfunc_meaning() == Some(KfuncMeaning::Throw),
            };
            if after != before {
                known[op.function] = after;
                again = true;
            }
        }
    }
    known
}

fn changes_packet(op: &Op<'_>) -> bool {
    op.helper.is_some_and(|helper| helper.changes_packet_data || helper.id == helper_id::TAIL_CALL)
        || op.kfunc_meaning() == Some(KfuncMeaning::MovePacket)
}

fn may_sleep(op: &Op<'_>, program_type: ProgramType) -> bool {
    op.helper.is_some_and(|helper| helper.prototype_for(program_type).might_sleep)
        || op.kfunc_row().is_some_and(|kfunc| kfunc.has(KfuncFlag::Sleepable))
}
