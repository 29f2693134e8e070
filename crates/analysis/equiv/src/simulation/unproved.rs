//! Why two functions were not proved to do the same.

use crate::window::state::Stop;

/// Why two functions were not proved to do the same.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unproved {
    /// They may differ. Says in what, and at which instruction.
    #[error("{0}")]
    Differs(String),
    /// The proof needs more paths, terms or solver steps than are allowed. Says which.
    #[error("{0}")]
    OutOfEffort(String),
    /// [`super::Question::stop`] ended it.
    #[error("it was to end")]
    Stopped,
    /// The functions do something that the proof does not model. Says what.
    #[error("{0}")]
    NotModelled(String),
}

impl Unproved {
    /// Why a path was not run. `which` names the path.
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
