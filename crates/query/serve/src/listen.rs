//! The doors of a service: its socket, the address of its page, the address for PostgreSQL's clients.

use std::any::Any;
use std::fs::Permissions;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::address::listen;
use crate::answers::{Door, MAX_BODY, answer, refused};
use crate::postgres;
use crate::service::Service;
use kiln_inspect::show::shown::Shown;
use kiln_live::http::{Answer, Handler, Listener, Request, Server};
use kiln_program::Error;
use kiln_tls::Tls;

/// A door of a service.
struct Reception {
    door: Door,
    service: Arc<Service>,
}

impl Handler for Reception {
    /// Scripts, styles and data of the page come from its own address alone; nothing may frame it.
    const HEADERS: &'static [(&'static str, &'static str)] = &[
        (
            "Content-Security-Policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'",
        ),
        ("X-Content-Type-Options", "nosniff"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
    ];

    /// The page's door takes no bodies.
    fn max_body(&self) -> Option<usize> {
        (self.door == Door::Socket).then_some(MAX_BODY)
    }

    fn answer(&self, request: &Request) -> Answer {
        answer(&self.service, &self.door, request)
    }

    fn refused(&self, status: u16, why: &str) -> Answer {
        refused(status, if status == 413 { "limit" } else { "invalid-input" }, why)
    }
}

/// Addresses that a service is to answer at, beside its socket.
#[derive(Clone, Copy, Default)]
pub struct Addresses<'a> {
    /// The page's.
    pub page: Option<&'a str>,
    /// For PostgreSQL's clients.
    pub postgres: Option<&'a str>,
    /// Whether other machines may reach them.
    pub anywhere: bool,
    /// What encrypts both.
    pub tls: Option<&'a Tls>,
}

/// Listeners that are open, and do not answer yet.
pub struct Doors {
    socket: UnixListener,
    file: SocketFile,
    page: Option<(TcpListener, SocketAddr, String)>,
    tls: Option<Tls>,
    postgres: Option<postgres::Door>,
}

/// The file of a socket, removed when it is dropped unless it has become another's.
struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|file| file.ino() == self.inode) {
            // A file that is gone already is as good.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Doors {
    /// Opens the socket, and the addresses of the page and for PostgreSQL's clients if there are any.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where another service answers at the socket, where its path is another file's, and where
    /// an address cannot be listened at or, unless it may, can be reached from other machines.
    pub fn open(path: &Path, addresses: Addresses<'_>) -> Result<Doors, Error> {
        let Addresses { page, postgres, anywhere, tls } = addresses;
        // Refused before the socket is made, so that a bad flag leaves no file.
        let danger = if tls.is_some() { "a key is all that it asks for" } else { "the page is not encrypted" };
        let page = page.map(|address| listen(address, anywhere, danger)).transpose()?;
        let postgres = postgres.map(|address| postgres::Door::open(address, anywhere, tls)).transpose()?;
        let (socket, file) = socket(path)?;
        Ok(Doors { socket, file, page, tls: tls.cloned(), postgres })
    }

    /// The page's address with its key, which the browser does not send on.
    pub fn page(&self) -> Option<Shown> {
        let scheme = scheme(self.tls.as_ref());
        self.page.as_ref().map(|(_, address, key)| format!("{scheme}://{address}/#{key}").into())
    }

    /// How PostgreSQL's clients connect, with the password.
    pub fn postgres(&self) -> Option<Shown> {
        self.postgres.as_ref().map(postgres::Door::address)
    }

    /// Answers requests from threads of its own, until what it returns is dropped.
    pub fn answer(self, service: &Arc<Service>) -> Answering {
        let begin = |listener, door| Server::begin(listener, Reception { door, service: Arc::clone(service) });
        let mut doors = vec![begin(Listener::Unix(self.socket), Door::Socket)];
        if let Some((listener, address, key)) = self.page {
            let door = Door::Page { key, port: address.port(), scheme: scheme(self.tls.as_ref()) };
            let listener = match self.tls {
                None => Listener::Tcp(listener),
                Some(tls) => Listener::Tls(listener, tls),
            };
            doors.push(begin(listener, door));
        }
        let postgres = self.postgres.map(|door| door.answer(service));
        Answering { _doors: doors, _postgres: postgres.map(|door| Box::new(door) as Box<dyn Any>), _file: self.file }
    }
}

/// How the page's address begins.
fn scheme(tls: Option<&Tls>) -> &'static str {
    if tls.is_some() { "https" } else { "http" }
}

/// Doors that answer.
pub struct Answering {
    _doors: Vec<Server>,
    _postgres: Option<Box<dyn Any>>,
    _file: SocketFile,
}

/// Makes the socket; one that a service which has ended left is replaced.
fn socket(path: &Path) -> Result<(UnixListener, SocketFile), Error> {
    let shown = path.display();
    if let Ok(file) = std::fs::symlink_metadata(path) {
        if !file.file_type().is_socket() {
            return Err(Error::InvalidInput(format!("{shown} is there, and is not a socket; choose another --socket")));
        }
        if UnixStream::connect(path).is_ok() {
            let message = format!("another service answers at {shown}; stop it, or choose another --socket");
            return Err(Error::InvalidInput(message));
        }
        std::fs::remove_file(path).map_err(|error| Error::file(path, &error))?;
    }
    // Nobody else may connect, not even before the mode is set.
    let mask = rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO | rustix::fs::Mode::XUSR);
    let listener = UnixListener::bind(path);
    rustix::process::umask(mask);
    let failed = |error: std::io::Error| Error::file(path, &error);
    let listener = listener.map_err(failed)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
    let inode = std::fs::symlink_metadata(path).map_err(failed)?.ino();
    Ok((listener, SocketFile { path: path.to_owned(), inode }))
}
