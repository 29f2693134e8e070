//! Critical sections that a path is in, and what may not be done in one.

use crate::error::{Step, refuse, reject};
use crate::path::Path;
use crate::reason::Reason;
use crate::rejection::Case;

impl Path<'_> {
    /// Whether RCU pointers are good here.
    pub(crate) fn in_rcu_section(&self) -> bool {
        self.state.sections.rcu || !self.state.locks.is_empty() || !self.state.sleepable
    }

    /// What is called may sleep.
    pub(crate) fn check_may_sleep(&self, name: &str) -> Step<()> {
        if !self.state.sleepable {
            let message = format!("{name} may sleep, this program may not");
            return refuse(Reason::HelperNotAllowed, Case::Sleeps, message);
        }
        match self.state.sections.name() {
            Some(section) => reject(Reason::CriticalSection, format!("{name} may sleep, and is called in {section}")),
            None => Ok(()),
        }
    }

    /// A path ends or leaves the program.
    pub(crate) fn check_sections_left(&self, when: &str) -> Step<()> {
        match self.state.sections.name() {
            Some(section) => reject(Reason::CriticalSection, format!("{when} in {section}")),
            None => Ok(()),
        }
    }
}
