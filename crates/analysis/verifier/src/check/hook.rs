//! Rules of the hook that a program is put on: whether it may be, what it may call, what it may return.

use std::rc::Rc;

use kiln_platform::{
    AttachType, ProgramType, hook_refuses, is_disabled_lsm_hook, is_sleepable_lsm_hook, iterator_allows,
    member_refuses, section_program_type,
};
use kiln_program::btf::{Kind as BtfKind, TypeId};

use crate::error::{Fault, Step, reject, unsupported};
use crate::path::Path;
use crate::reason::Reason;
use crate::types::WITHOUT_TYPES;
use crate::types::hook::{Hook, HookReturn, find_hook, lsm_range};

impl Path<'_> {
    /// The hook that the program names, found in the kernel's types.
    pub(crate) fn hook(&self) -> Step<Rc<Hook>> {
        if let Some(hook) = self.hook.get() {
            return Ok(Rc::clone(hook));
        }
        let hook = find_hook(&self.types, self.code.program, self.program_type)?;
        Ok(Rc::clone(self.hook.get_or_init(|| Rc::new(hook))))
    }

    /// Whether programs on this hook may call a helper that the others of their type may, or may not.
    pub(crate) fn hook_allows(&self, helper: &str, others_may: bool) -> bool {
        if self.program_type == ProgramType::StructOps {
            return others_may && !self.hook().is_ok_and(|hook| member_refuses(&hook.name, helper));
        }
        if !matches!(self.program_type, ProgramType::Tracing | ProgramType::Lsm) {
            return others_may;
        }
        let iterator = self.code.program.attach_type == Some(AttachType::TraceIter);
        match self.hook() {
            Ok(hook) if others_may => !hook_refuses(self.program_type, iterator, &hook.name, helper),
            Ok(hook) => iterator && iterator_allows(&hook.name, helper),
            Err(_) => others_may,
        }
    }

    /// Rules of the hook that hold whatever the program does.
    pub(crate) fn check_hook(&self) -> Step<()> {
        let program = self.code.program;
        let described = section_program_type(&program.section).is_some_and(|rule| rule.target_by_btf);
        let described = described || self.program_type == ProgramType::StructOps;
        if !described || self.program_type == ProgramType::Ext || self.types.kernel.is_none() {
            return Ok(());
        }
        let hook = match self.hook() {
            Ok(hook) => hook,
            Err(fault) if matches!(*fault, Fault::Unsupported(_)) => return Ok(()),
            Err(fault) => return Err(fault),
        };
        if !matches!(self.program_type, ProgramType::Lsm | ProgramType::StructOps) {
            return Ok(());
        }
        if !self.is_gpl() {
            let name = self.program_type.name();
            return reject(Reason::GplOnly, format!("{name} programs must have a GPL-compatible license"));
        }
        if self.program_type == ProgramType::StructOps {
            return Ok(());
        }
        if is_disabled_lsm_hook(&hook.name) {
            return reject(Reason::KernelLacks, format!("programs may not be attached to the LSM hook {}", hook.name));
        }
        if program.sleepable && !is_sleepable_lsm_hook(&hook.name) {
            return reject(Reason::KernelLacks, format!("programs on the LSM hook {} may not sleep", hook.name));
        }
        Ok(())
    }

    /// What the hook lets the program return.
    pub(crate) fn hook_return(&self) -> Step<HookReturn> {
        let hook = self.hook()?;
        let Some(types) = self.types.kernel.as_deref() else { return unsupported(WITHOUT_TYPES) };
        let void = matches!(*types.kind(hook.prototype), BtfKind::Prototype { result: TypeId::VOID, .. });
        Ok(match (self.program_type, self.code.program.attach_type) {
            (ProgramType::Lsm, Some(AttachType::LsmCgroup)) if void => HookReturn::Range(1, 1),
            (ProgramType::Lsm, Some(AttachType::LsmCgroup)) => HookReturn::Range(0, 1),
            (ProgramType::Lsm, _) if void => HookReturn::Nothing,
            (ProgramType::Lsm, _) => lsm_range(&hook.name),
            _ if void => HookReturn::Nothing,
            _ => HookReturn::Any,
        })
    }
}
