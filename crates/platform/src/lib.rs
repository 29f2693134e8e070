//! What a BPF program may touch, as data.
//!
//! A verifier, an optimizer and a runtime ask the same questions: which helpers may this program call, what are their
//! arguments and results, what is at offset 76 of its context, what may it return? The answers are facts about a
//! kernel, not logic. So they are flat tables here, one row each, with the kernel version that introduced it:
//!
//! ```text
//!   ProgramType --+-- context()      -> ContextLayout -- access(offset, width, write) -> FieldAccess
//!                 +-- return_rule()  -> ReturnRule
//!                 +-- packet_access()
//!   Helper -------+-- prototype_for(ProgramType) -> arguments, result, flags
//!                 +-- allowed_in(ProgramType)
//!   Kfunc --------+-- flags, allowed_in(ProgramType); its prototype is in the kernel's BTF
//!   MapType ------+-- rules on key, value and entries; which helpers take it; its flags
//!   section_program_type("xdp/foo") -> SectionRule
//! ```
//!
//! The tables describe Linux 6.18, and `tests/kernel.rs` compares them with a running 6.18.

#![forbid(unsafe_code)]

mod attach_type;
mod context;
mod helper;
mod hook;
mod kfunc;
mod kind;
pub mod limits;
mod map_definition;
mod map_type;
mod profile;
mod program_type;
mod return_rule;
mod rows;
mod section;
mod special_field;
mod version;

pub use attach_type::{AttachType, AttachTypes};
pub use context::{
    ContextAccess, ContextError, ContextLayout, FLOW_KEYS, Field, FieldAccess, FieldValue, ObjectLayout, Permission,
    SOCK_COMMON, SOCKET, TCP_SOCKET,
};
pub use helper::{
    ArgKind, Capability, Cost, DynptrUse, Effect, FIRST_OWN_HELPER, FilledBuffer, Fills, Follows, HELPER_COUNT, Helper,
    Memory, Prototype, ReturnKind, Stable, Variant, id as helper_id,
};
pub use hook::{
    IteratorArgument, IteratorTarget, RawTracepoint, WritableField, hook_refuses, is_boolean_lsm_hook,
    is_disabled_lsm_hook, is_never_traced, is_sleepable_device_hook, is_sleepable_lsm_hook, is_sleepable_tracepoint,
    is_unsupported_member, is_untrusted_lsm_hook, iterator_allows, iterator_target, member_refuses, never_returns,
    raw_tracepoint, writable_fields,
};
pub use kfunc::{DynptrSource, Kfunc, KfuncFlag, KfuncMeaning, Later};
pub use map_definition::MapDefinition;
pub use map_type::{LOAD_TIME_ENTRIES, Lookup, MapRules, MapType, MapTypes, SizeRule};
pub use profile::{Feature, Found, Lack, Profile};
pub use program_type::{PacketAccess, ProgramType, ProgramTypes, SOCKET_BUFFER};
pub use return_rule::{ReturnRule, TC_ACTIONS, XDP_ACTIONS, action_name};
pub use section::{SECTION_RULES, SectionRule, section_program_type};
pub use special_field::{SpecialField, SpecialType};
pub use version::KernelVersion;
