//! The files of a server's encryption.

/// What a server needs for encrypted connections: the contents of PEM files.
#[derive(Clone)]
pub struct Files {
    /// The server's certificate, and those above it.
    pub certificates: Vec<u8>,
    /// Its key.
    pub key: Vec<u8>,
    /// What has to be above a client's certificate. Without it, clients show none.
    pub clients: Option<Vec<u8>>,
}
