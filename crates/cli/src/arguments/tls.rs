//! What encrypts the connections of a server.

use std::path::PathBuf;

use clap::Args;
use kiln_driver::tls::{Files, Tls};
use kiln_driver::{Error, file};

/// Bytes that are read of a file with certificates or a key.
const MAX_PEM_FILE_BYTES: u64 = 4 << 20;

/// Flags of `kiln kv` and `kiln serve`.
#[derive(Args, Debug)]
pub struct TlsArguments {
    /// Encrypt connections with TLS: the PEM file with the server's certificate, and those above it.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The PEM file with the certificate's key.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Serve only clients with a certificate below one of this PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
}

impl TlsArguments {
    /// Reads the files; nothing if connections are not to be encrypted.
    ///
    /// # Errors
    /// What is wrong with a file, and [`Error::Unsupported`] in a build without TLS.
    pub fn read(&self) -> Result<Option<Tls>, Error> {
        let (Some(certificates), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let pem = |path: &PathBuf| file::text(path, MAX_PEM_FILE_BYTES).map(String::into_bytes);
        let clients = self.tls_client_ca.as_ref().map(pem).transpose()?;
        Tls::read(&Files { certificates: pem(certificates)?, key: pem(key)?, clients }).map(Some)
    }
}
