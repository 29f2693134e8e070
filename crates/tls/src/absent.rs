//! Encrypted connections in a build without them.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::marker::PhantomData;

use kiln_program::Error;

use crate::files::Files;

/// What a server shows its clients: there is none in this build.
#[derive(Clone, Debug)]
pub struct Tls(Infallible);

impl Tls {
    /// Says what is missing.
    ///
    /// # Errors
    /// Always returns [`Error::Unsupported`].
    pub fn read(_: &Files) -> Result<Tls, Error> {
        Err(Error::Unsupported("this build has no TLS: the feature `tls` is off".to_owned()))
    }

    /// Encrypts a connection: never called.
    ///
    /// # Errors
    /// None, because it is never called.
    pub fn accept<S: Read + Write>(&self, _: S) -> io::Result<Secured<S>> {
        match self.0 {}
    }
}

/// A connection with TLS: there is none in this build.
pub struct Secured<S: Read + Write>(Infallible, PhantomData<S>);

impl<S: Read + Write> Secured<S> {
    /// Reads what a client said: never called.
    ///
    /// # Errors
    /// None, because it is never called.
    pub fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }

    /// Encrypts bytes: never called.
    ///
    /// # Errors
    /// None, because it is never called.
    pub fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match self.0 {}
    }

    /// Gives the stream what is encrypted: never called.
    ///
    /// # Errors
    /// None, because it is never called.
    pub fn flush(&mut self) -> io::Result<bool> {
        match self.0 {}
    }

    /// Says that no more follows: never called.
    pub fn end(&mut self) {
        match self.0 {}
    }

    /// The stream below: never called.
    pub fn stream(&mut self) -> &mut S {
        match self.0 {}
    }
}
