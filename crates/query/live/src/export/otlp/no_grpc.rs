//! OTLP over gRPC in a build without it.

use std::convert::Infallible;
use std::time::Duration;

use kiln_program::Error;

use super::Failure;

/// A receiver: there is none in this build.
pub struct Channel(Infallible);

impl Channel {
    /// Says what is missing.
    ///
    /// # Errors
    /// Always returns [`Error::Unsupported`].
    pub fn new(url: &str, _: Duration) -> Result<Channel, Error> {
        Err(Error::Unsupported(format!("{url}: this build has no gRPC: the feature `grpc` is off")))
    }

    /// Calls a method: never called.
    ///
    /// # Errors
    /// None, because it is never called.
    pub fn call(&mut self, _: &str, _: &[u8]) -> Result<Vec<u8>, Failure> {
        match self.0 {}
    }
}
