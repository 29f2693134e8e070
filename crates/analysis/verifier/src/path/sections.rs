//! Critical sections that a path is in, and what may not be done in one.

use crate::error::{Step, refuse, reject};
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::State;

impl State {
    /// Whether RCU pointers are valid here.
    pub(crate) fn in_rcu_section(&self) -> bool {
        let protects = self.sections.all_protect && self.sections.name().is_some();
        self.sections.rcu > 0 || protects || !self.locks.is_empty() || !self.sleepable
    }

    /// Checks that a call which may sleep is allowed here.
    pub(crate) fn check_may_sleep(&self, name: &str) -> Step<()> {
        if !self.sleepable {
            let message = format!("{name} may sleep, this program may not");
            return refuse(Reason::HelperNotAllowed, Case::Sleeps, message);
        }
        match self.sections.name() {
            Some(section) => reject(Reason::CriticalSection, format!("{name} may sleep, and is called in {section}")),
            None => Ok(()),
        }
    }

    /// Checks that no critical section is open when a path ends or leaves the program.
    pub(crate) fn check_sections_left(&self, when: &str) -> Step<()> {
        match self.sections.name() {
            Some(section) => reject(Reason::CriticalSection, format!("{when} in {section}")),
            None => Ok(()),
        }
    }
}
