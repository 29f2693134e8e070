//! TLS 1.2 and 1.3, in user space.

use std::io::{self, Read, Write};
use std::sync::Arc;

use kiln_program::Error;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, ServerConnection};

use crate::files::Files;

/// What a server shows its clients, and asks of them.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// Returns [`Error::InvalidInput`] with what is wrong with them.
    pub fn read(files: &Files) -> Result<Tls, Error> {
        Tls::parse(&files.certificates, &files.key, files.clients.as_deref()).map_err(Error::InvalidInput)
    }

    fn parse(certificates: &[u8], key: &[u8], clients: Option<&[u8]>) -> Result<Tls, String> {
        let chain = every(certificates, "the certificate")?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the key: {error}"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| error.to_string())?;
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let roots = roots(pem, "the clients' authority")?;
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| error.to_string())?)
            }
        };
        let config = builder.with_single_cert(chain, key).map_err(|error| format!("certificate and key: {error}"))?;
        Ok(Tls(Arc::new(config)))
    }

    /// A connection that was accepted.
    ///
    /// # Errors
    /// Returns an error if there is no memory or no randomness.
    pub fn accept<S: Read + Write>(&self, stream: S) -> io::Result<Secured<S>> {
        let session = ServerConnection::new(Arc::clone(&self.0)).map_err(io::Error::other)?;
        Ok(Secured { stream, session })
    }
}

/// The certificates of a PEM file.
fn every(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| format!("{what}: {error}"))?;
    if read.is_empty() { Err(format!("{what}: no certificate in PEM")) } else { Ok(read) }
}

/// The authorities of a PEM file.
fn roots(pem: &[u8], what: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in every(pem, what)? {
        roots.add(certificate).map_err(|error| format!("{what}: {error}"))?;
    }
    Ok(roots)
}

/// What a client asks of servers: a certificate below one of the authorities in a PEM file.
///
/// # Errors
/// Returns [`Error::InvalidInput`] with what is wrong with the file.
pub fn client(authorities: &[u8]) -> Result<ClientConfig, Error> {
    let roots = roots(authorities, "the authorities").map_err(Error::InvalidInput)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| Error::InvalidInput(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// A connection with TLS.
pub struct Secured<S: Read + Write> {
    stream: S,
    session: ServerConnection,
}

impl<S: Read + Write> Secured<S> {
    /// Reads what clients have said, as [`io::Read::read`].
    ///
    /// # Errors
    /// Returns the stream's errors, and `InvalidData` if the client breaks TLS.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A client that ends without saying so has sent all that it sends, too.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                other => return other,
            }
            if self.session.read_tls(&mut self.stream)? == 0 {
                return Ok(0);
            }
            let processed = self.session.process_new_packets();
            // An alert, or the next step of a handshake.
            self.flush()?;
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }

    /// Encrypts as much as there is room for, as [`io::Write::write`].
    ///
    /// # Errors
    /// Returns the stream's errors; `WouldBlock` if nothing can be taken now.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let written = self.session.writer().write(bytes)?;
            let is_flushed = self.flush()?;
            if written > 0 || bytes.is_empty() {
                return Ok(written);
            }
            if !is_flushed || self.session.is_handshaking() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
    }

    /// Gives the stream what is encrypted; returns whether it has everything.
    ///
    /// # Errors
    /// Returns the stream's errors.
    pub fn flush(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.stream) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Says that no more follows, so that the client knows that nothing was cut off.
    pub fn end(&mut self) {
        self.session.send_close_notify();
        // A client that has gone does not need to know.
        let _ = self.flush();
    }

    /// The stream below.
    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }
}

impl<S: Read + Write> Drop for Secured<S> {
    fn drop(&mut self) {
        self.end();
    }
}
