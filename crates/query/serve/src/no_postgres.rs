//! PostgreSQL's clients in a build without them.

use std::convert::Infallible;
use std::sync::Arc;

use kiln_inspect::show::shown::Shown;
use kiln_program::Error;
use kiln_tls::Tls;

use crate::service::Service;

/// A door that this build does not have.
pub struct Door(Infallible);

impl Door {
    /// Says what is missing.
    ///
    /// # Errors
    /// Always returns [`Error::Unsupported`].
    pub fn open(_: &str, _: bool, _: Option<&Tls>) -> Result<Door, Error> {
        let message = "this build has no door for PostgreSQL's clients: build kiln with the feature `postgres`";
        Err(Error::Unsupported(message.to_owned()))
    }

    /// How clients connect.
    pub fn address(&self) -> Shown {
        match self.0 {}
    }

    /// Answers clients.
    pub fn answer(self, _: &Arc<Service>) -> Infallible {
        self.0
    }
}
