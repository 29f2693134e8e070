//! What a strict run took and has to give back, as the rows of helpers and kfuncs say: the VM itself only knows its own.

use std::collections::BTreeMap;

use kiln_isa::Reg;
use kiln_platform::{Helper, Kfunc, KfuncFlag, KfuncMeaning, ReturnKind};

/// Bytes of an object that a program makes, at most: a page.
const MAX_OBJECT_BYTES: u64 = 4096;

/// References and sections that a run holds.
#[derive(Debug, Default)]
pub(super) struct References {
    /// The function that gave each reference, by its address.
    held: BTreeMap<u64, &'static str>,
    /// The function that was just called, if its result is a reference unless it is null.
    called: Option<&'static str>,
    /// RCU sections, and sections without preemption, that are open.
    sections: u32,
}

impl References {
    /// Notes a call of a helper.
    pub(super) fn helper(&mut self, helper: &'static Helper, returns: ReturnKind) {
        let is_reference = helper.acquires && !matches!(returns, ReturnKind::Integer | ReturnKind::Void);
        self.called = is_reference.then_some(helper.name);
    }

    /// Notes a call of a kfunc.
    pub(super) fn kfunc(&mut self, kfunc: &'static Kfunc, registers: &[u64; Reg::COUNT]) {
        use KfuncMeaning::{AddToList, AddToTree, BeginRcu, DisablePreemption, EnablePreemption, EndRcu};
        let adds = matches!(kfunc.meaning, AddToList | AddToTree);
        if adds || kfunc.has(KfuncFlag::Release) {
            registers[1..6].iter().for_each(|address| self.released_at(*address));
        }
        match kfunc.meaning {
            BeginRcu | DisablePreemption => self.sections += 1,
            EndRcu | EnablePreemption => self.sections = self.sections.saturating_sub(1),
            _ => {}
        }
        self.called = kfunc.has(KfuncFlag::Acquire).then_some(kfunc.name);
    }

    /// Notes what the last call returned.
    pub(super) fn returned(&mut self, value: u64) {
        if let Some(name) = self.called.take().filter(|_| value != 0) {
            self.held.insert(value, name);
        }
    }

    /// Notes that a reference was given back.
    pub(super) fn released(&mut self, address: u64) {
        self.held.remove(&address);
    }

    /// Notes that an object was given back by an address inside of it, as nodes of lists are.
    fn released_at(&mut self, address: u64) {
        let least = address.saturating_sub(MAX_OBJECT_BYTES - 1);
        let nearest = self.held.range(least..=address).next_back().map(|(begin, _)| *begin);
        if let Some(begin) = nearest {
            self.released(begin);
        }
    }

    /// What is held, in words; `None` if nothing is.
    pub(super) fn words(&self) -> Option<String> {
        match self.held.values().next() {
            Some(name) => Some(format!("what {name} returned is still held")),
            None => (self.sections > 0).then(|| "a section is still open".to_owned()),
        }
    }
}
