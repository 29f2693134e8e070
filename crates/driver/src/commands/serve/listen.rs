//! The doors of a service: its socket, and the address of its page. HTTP is [`tiny_http`]'s, as for Prometheus.

use std::fs::Permissions;
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tiny_http::{Header, Listener, Response, Server};

use super::answers::{Answer, Door, MAX_BODY, Request, answer};
use super::{Service, locked};
use crate::error::Error;
use crate::show::shown::Shown;

/// How long a reader of the page may take no bytes of its answer.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait before listening again after the listener failed, such as for want of descriptors.
const AGAIN: Duration = Duration::from_secs(1);

/// Headers of every answer. Scripts, styles and data of the page come from its own address alone; nothing may frame it.
const HEADERS: [(&str, &str); 6] = [
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

/// Listeners that are open, and do not answer yet.
pub struct Doors {
    socket: UnixListener,
    file: SocketFile,
    page: Option<(TcpListener, SocketAddr, String)>,
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
    /// Opens the socket, and the page's address if there is one. Only addresses of this machine are taken unless
    /// `anywhere`.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where another service answers at the socket, where its path is another file's, and where
    /// an address cannot be listened at.
    pub fn open(path: &Path, page: Option<&str>, anywhere: bool) -> Result<Doors, Error> {
        // Refused before the socket is made, so that a bad flag leaves no file.
        let page = page.map(|address| listen(address, anywhere)).transpose()?;
        let (socket, file) = socket(path)?;
        Ok(Doors { socket, file, page })
    }

    /// The page's address with its key, which the browser does not send on.
    pub fn page(&self) -> Option<Shown> {
        self.page.as_ref().map(|(_, address, key)| format!("http://{address}/#{key}").into())
    }

    /// Answers requests from threads of its own, until what it returns is dropped.
    pub fn answer(self, service: &Arc<Service>) -> Answering {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut doors = Vec::new();
        doors.push(Answerer::begin(Listener::from(self.socket), Door::Socket, service, &is_over));
        if let Some((listener, address, key)) = self.page {
            let door = Door::Page { key, port: address.port() };
            doors.push(Answerer::begin(Listener::from(listener), door, service, &is_over));
        }
        Answering { doors, is_over, _file: self.file }
    }
}

/// Doors that answer.
pub struct Answering {
    doors: Vec<Answerer>,
    is_over: Arc<AtomicBool>,
    _file: SocketFile,
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        for door in &mut self.doors {
            locked(&door.server).iter().for_each(|server| server.unblock());
            // It has nothing to say but that it ended.
            let _ = door.thread.take().map(JoinHandle::join);
        }
    }
}

/// One door that answers.
struct Answerer {
    thread: Option<JoinHandle<()>>,
    server: Arc<Mutex<Option<Arc<Server>>>>,
}

impl Answerer {
    fn begin(listener: Listener, door: Door, service: &Arc<Service>, is_over: &Arc<AtomicBool>) -> Answerer {
        let current = Arc::new(Mutex::new(None));
        let (shared, service, is_over) = (Arc::clone(&current), Arc::clone(service), Arc::clone(is_over));
        let thread = std::thread::spawn(move || {
            while !is_over.load(Ordering::SeqCst) {
                if let Some(server) = again(&listener) {
                    let server = Arc::new(server);
                    *locked(&shared) = Some(Arc::clone(&server));
                    serve(&server, &door, &service, &is_over);
                    *locked(&shared) = None;
                }
                if !is_over.load(Ordering::SeqCst) {
                    std::thread::sleep(AGAIN);
                }
            }
        });
        Answerer { thread: Some(thread), server: current }
    }
}

/// A server on a copy of a listener: `tiny_http` ends one when a connection cannot be accepted.
fn again(listener: &Listener) -> Option<Server> {
    let listener = match listener {
        Listener::Tcp(listener) => Listener::from(listener.try_clone().ok()?),
        Listener::Unix(listener) => Listener::from(listener.try_clone().ok()?),
    };
    Server::from_listener(listener, None).ok()
}

/// Answers until the server has failed or all is over. Each request has a thread, which nobody waits for: a reader may take
/// its answer slowly, or never send the body that it promised.
fn serve(server: &Server, door: &Door, service: &Arc<Service>, is_over: &AtomicBool) {
    // Whoever ends all looks at the server after saying so.
    while !is_over.load(Ordering::SeqCst) {
        let Ok(request) = server.recv() else { break };
        let (door, service) = (door.clone(), Arc::clone(service));
        // Where there are no threads left, the reader finds the connection closed.
        let _ = std::thread::Builder::new().spawn(move || respond(request, &door, &service));
    }
}

fn respond(mut request: tiny_http::Request, door: &Door, service: &Service) {
    let header = |header: &Header| (header.field.as_str().as_str().to_owned(), header.value.as_str().to_owned());
    let headers: Vec<_> = request.headers().iter().map(header).collect();
    let (method, url) = (request.method().to_string(), request.url().to_owned());
    let mut body = Vec::new();
    // The page's door takes no bodies.
    let is_read = matches!(door, Door::Page { .. })
        || request.as_reader().take(MAX_BODY as u64 + 1).read_to_end(&mut body).is_ok();
    let answer = if !is_read || body.len() > MAX_BODY {
        let body = format!("{{\"error\": {{\"kind\": \"limit\", \"message\": \"a body has up to {MAX_BODY} bytes\"}}}}\n");
        Answer { status: 413, content_type: "application/json", body }
    } else {
        answer(service, door, &Request { method: &method, url: &url, headers: &headers, body: &body })
    };
    let head = [("Content-Type", answer.content_type)].into_iter().chain(HEADERS);
    let head = head.filter_map(|(name, value)| Header::from_bytes(name, value).ok());
    let response = Response::from_string(answer.body).with_status_code(answer.status);
    // A reader that has gone away is no concern of the others.
    let _ = request.respond(head.fold(response, Response::with_header));
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

/// Listens at an address for the page.
fn listen(address: &str, anywhere: bool) -> Result<(TcpListener, SocketAddr, String), Error> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::InvalidInput(format!("{address} cannot be listened at: {error}; an address is `127.0.0.1:9436`"))
    };
    let addresses: Vec<SocketAddr> = address.to_socket_addrs().map_err(|error| failed(&error))?.collect();
    if !anywhere && addresses.iter().any(|address| !address.ip().is_loopback()) {
        let message = format!(
            "{address} can be reached from other machines, and the page is not encrypted; use 127.0.0.1, or say \
             --listen-anywhere"
        );
        return Err(Error::InvalidInput(message));
    }
    let listener = TcpListener::bind(&addresses[..]).map_err(|error| failed(&error))?;
    // Connections inherit it.
    let timeout = rustix::net::sockopt::Timeout::Send;
    rustix::net::sockopt::set_socket_timeout(&listener, timeout, Some(SEND_TIMEOUT)).map_err(|error| failed(&error))?;
    let bound = listener.local_addr().map_err(|error| failed(&error))?;
    Ok((listener, bound, key()?))
}

/// 128 bits that nobody can guess.
fn key() -> Result<String, Error> {
    let mut bytes = [0; 16];
    let mut source = std::fs::File::open("/dev/urandom").map_err(|error| Error::machine("/dev/urandom", &error, ""))?;
    source.read_exact(&mut bytes).map_err(|error| Error::machine("/dev/urandom", &error, ""))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
