//! The words helper rows are written in.

use super::{ArgKind, Capability, Effect, Helper, Prototype, ReturnKind, Variant};
use crate::{AttachTypes, KernelVersion, ProgramType, ProgramTypes};

/// Begins a row. Until said otherwise: no arguments, an integer result, any effect, nobody may call it.
pub(super) const fn helper(id: u32, name: &'static str, major: u8, minor: u8) -> Helper {
    Helper {
        id,
        name,
        since: KernelVersion::new(major, minor),
        prototype: Prototype::new(&[], ReturnKind::Integer),
        variants: &[],
        allowed: ProgramTypes::NONE,
        attach_rules: &[],
        capability: Capability::None,
        effect: Effect::Any,
        changes_packet_data: false,
        acquires: false,
        casts_argument: false,
        fastcall: false,
    }
}

/// A prototype that holds for some program types only.
pub(super) const fn variant(program_types: ProgramTypes, prototype: Prototype) -> Variant {
    Variant { program_types, prototype }
}

impl Helper {
    pub(super) const fn args(mut self, args: &'static [ArgKind]) -> Self {
        self.prototype.args = args;
        self
    }

    pub(super) const fn returns(mut self, returns: ReturnKind) -> Self {
        self.prototype.returns = returns;
        self
    }

    pub(super) const fn gpl_only(mut self) -> Self {
        self.prototype.gpl_only = true;
        self
    }

    pub(super) const fn packet_memory(mut self) -> Self {
        self.prototype.packet_memory = true;
        self
    }

    pub(super) const fn might_sleep(mut self) -> Self {
        self.prototype.might_sleep = true;
        self
    }

    pub(super) const fn variants(mut self, variants: &'static [Variant]) -> Self {
        self.variants = variants;
        self
    }

    pub(super) const fn allowed(mut self, allowed: ProgramTypes) -> Self {
        self.allowed = allowed;
        self
    }

    pub(super) const fn attach_rules(mut self, rules: &'static [(ProgramType, AttachTypes)]) -> Self {
        self.attach_rules = rules;
        self
    }

    pub(super) const fn capability(mut self, capability: Capability) -> Self {
        self.capability = capability;
        self
    }

    pub(super) const fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    pub(super) const fn changes_packet_data(mut self) -> Self {
        self.changes_packet_data = true;
        self
    }

    pub(super) const fn acquires(mut self) -> Self {
        self.acquires = true;
        self
    }

    pub(super) const fn casts_argument(mut self) -> Self {
        self.casts_argument = true;
        self
    }

    pub(super) const fn fastcall(mut self) -> Self {
        self.fastcall = true;
        self
    }
}

impl Prototype {
    pub(super) const fn gpl_only(mut self) -> Self {
        self.gpl_only = true;
        self
    }

    pub(super) const fn packet_memory(mut self) -> Self {
        self.packet_memory = true;
        self
    }

    pub(super) const fn might_sleep(mut self) -> Self {
        self.might_sleep = true;
        self
    }
}
