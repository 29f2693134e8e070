//! Why two functions were not proved to do the same.

use crate::window::state::Stop;

/// Why two functions were not proved to do the same.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unproved {
    /// They may differ: in what, and before or at which instruction.
    #[error("{0}")]
    Differs(String),
    /// The proof takes more paths, terms or solver steps than are allowed: which.
    #[error("{0}")]
    OutOfEffort(String),
    /// [`super::Question::stop`] ended it.
    #[error("it was to end")]
    Stopped,
    /// What the functions do there has no meaning in this proof: what.
    #[error("{0}")]
    NotModelled(String),
}

impl Unproved {
    /// Why a path was not run, with which one it is.
    pub(crate) fn of(path: &str, stop: &Stop) -> Unproved {
        let text = format!("{path}: {stop}");
        match stop {
            Stop::Limit => Unproved::OutOfEffort(text),
            Stop::Uninitialised(_) => Unproved::Differs(text),
            Stop::FramePointer | Stop::Unsupported(_) => Unproved::NotModelled(text),
        }
    }

    pub(crate) fn differs(text: impl Into<String>) -> Unproved {
        Unproved::Differs(text.into())
    }

    pub(crate) fn not_modelled(text: impl Into<String>) -> Unproved {
        Unproved::NotModelled(text.into())
    }
}
