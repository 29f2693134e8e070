//! Addresses that others of this machine can reach, and the keys that keep them away.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};

use kiln_program::Error;

/// Listens at an address, with a new key for who may ask. Only addresses of this machine are taken unless `anywhere`;
/// `danger` says why.
///
/// # Errors
/// [`Error::InvalidInput`] where it cannot be listened at, or others could reach it.
pub(crate) fn listen(address: &str, anywhere: bool, danger: &str) -> Result<(TcpListener, SocketAddr, String), Error> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::InvalidInput(format!("{address} cannot be listened at: {error}; an address is `127.0.0.1:9436`"))
    };
    let addresses: Vec<SocketAddr> = address.to_socket_addrs().map_err(|error| failed(&error))?.collect();
    if !anywhere && addresses.iter().any(|address| !address.ip().is_loopback()) {
        let message = format!(
            "{address} can be reached from other machines, and {danger}; use 127.0.0.1, or say --listen-anywhere"
        );
        return Err(Error::InvalidInput(message));
    }
    let listener = TcpListener::bind(&addresses[..]).map_err(|error| failed(&error))?;
    let bound = listener.local_addr().map_err(|error| failed(&error))?;
    let key = random::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((listener, bound, key))
}

/// Bytes that nobody can guess.
///
/// # Errors
/// [`Error::Os`] where the machine gives none.
pub(crate) fn random<const BYTES: usize>() -> Result<[u8; BYTES], Error> {
    let mut bytes = [0; BYTES];
    let mut source = std::fs::File::open("/dev/urandom").map_err(|error| Error::machine("/dev/urandom", &error, ""))?;
    source.read_exact(&mut bytes).map_err(|error| Error::machine("/dev/urandom", &error, ""))?;
    Ok(bytes)
}

/// Whether what a client gave is the key; as long for a wrong one as for the right one.
pub(crate) fn knows(key: &str, given: &str) -> bool {
    let differ = given.bytes().zip(key.bytes()).fold(0, |differ, (one, other)| differ | (one ^ other));
    given.len() == key.len() && differ == 0
}
