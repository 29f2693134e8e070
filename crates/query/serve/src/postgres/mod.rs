//! The door for PostgreSQL's clients: psql, Grafana, drivers, BI tools.
//!
//! ```text
//!   connection --start-up, password (a time for both)--> Session --statement--> Answer: rows that are there, or
//!                                                                               a query of the service that runs
//! ```
//!
//! [`wire`] reads messages with limits; they are `pgwire`'s. [`session`] answers them by the simple and the extended
//! protocol. [`text`] tells statements from each other, [`answer`] runs them, [`catalog`] is what `\d` and others look for.
//!
//! There are up to [`MAX_SESSIONS`] sessions. Connections that have not given the password are counted for themselves, and a
//! further one takes the place of the oldest, so that idle connections keep nobody away.

mod answer;
mod catalog;
mod fault;
mod scram;
mod session;
mod settings;
mod text;
mod value;
mod wire;

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kiln_inspect::show::shown::Shown;
use kiln_program::Error;
use kiln_tls::Tls;
use pgwire::messages::response::SslResponse;
use pgwire::messages::startup::{
    Authentication, BackendKeyData, ParameterStatus, PasswordMessageFamily as Proof, SecretKey,
};
use pgwire::messages::{PgWireFrontendMessage as Asked, SslNegotiationMetaMessage as Negotiation};

use self::fault::Fault;
use self::session::Session;
use self::settings::{DURATION, SETTINGS, duration};
use self::wire::Wire;
use crate::address;
use crate::service::Service;
use crate::shared::locked;

/// Sessions at the same time.
pub const MAX_SESSIONS: usize = 64;
/// Connections at the same time that have not given the password.
const MAX_UNKNOWN: usize = 64;
/// How long a client may take to give its password.
const START_TIME: Duration = Duration::from_secs(10);
/// How long sessions may take to end with the service.
const END_TIME: Duration = Duration::from_millis(500);
/// How long to wait before accepting again after it failed.
const AGAIN: Duration = Duration::from_millis(200);

/// A listener that is open, and does not answer yet.
pub struct Door {
    listener: TcpListener,
    address: SocketAddr,
    key: String,
    verifier: scram::Verifier,
    tls: Option<Tls>,
}

impl Door {
    /// Opens one. Only addresses of this machine are taken unless `anywhere`; with TLS, only clients that encrypt.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where the address cannot be listened at.
    pub fn open(address: &str, anywhere: bool, tls: Option<&Tls>) -> Result<Door, Error> {
        let danger = if tls.is_some() { "a password is all that it asks for" } else { "rows are not encrypted" };
        let (listener, address, key) = address::listen(address, anywhere, danger)?;
        let verifier = scram::Verifier::new(&key)?;
        Ok(Door { listener, address, key, verifier, tls: tls.cloned() })
    }

    /// How clients connect, with the password.
    pub fn address(&self) -> Shown {
        let mode = if self.tls.is_some() { "?sslmode=require" } else { "" };
        format!("postgresql://kiln:{}@{}/kiln{mode}", self.key, self.address).into()
    }

    /// Answers clients from threads of its own, until what it returns is dropped.
    pub fn answer(self, service: &Arc<Service>) -> Answering {
        let shared = Arc::new(Shared {
            service: Arc::clone(service),
            verifier: self.verifier,
            tls: self.tls,
            connections: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let listener = Arc::new(self.listener);
        let own = (Arc::clone(&shared), Arc::clone(&listener));
        let thread = std::thread::spawn(move || accept(&own.0, &own.1));
        Answering { shared, listener, thread: Some(thread) }
    }
}

/// A door that answers.
pub struct Answering {
    shared: Arc<Shared>,
    listener: Arc<TcpListener>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // It fails where it was shut already.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        // Sessions see that their client says no more, tell it why, and end.
        let shut = |connection: &Connection| connection.stream.shutdown(Shutdown::Read);
        locked(&self.shared.connections).iter().map(shut).for_each(drop);
        let end = Instant::now() + END_TIME;
        while !locked(&self.shared.connections).is_empty() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        locked(&self.shared.connections).iter().for_each(Connection::shut);
        // It has nothing to say but that it ended.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Connection {
    number: i32,
    /// Who knows it may cancel what the session runs.
    secret: i32,
    stream: TcpStream,
    is_known: bool,
    cancelled: Arc<AtomicBool>,
}

impl Connection {
    fn shut(&self) {
        // It fails where the other end has gone.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

struct Shared {
    service: Arc<Service>,
    verifier: scram::Verifier,
    /// Without it, no client can encrypt; with it, every client has to.
    tls: Option<Tls>,
    /// The oldest first.
    connections: Mutex<Vec<Connection>>,
    is_over: AtomicBool,
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut number = 0i32;
    while !shared.is_over.load(Ordering::SeqCst) {
        let accepted = listener.accept().and_then(|(stream, _)| Ok((stream.try_clone()?, stream)));
        let (Ok((stream, own)), Ok(secret)) = (accepted, address::random::<4>()) else {
            if !shared.is_over.load(Ordering::SeqCst) {
                std::thread::sleep(AGAIN);
            }
            continue;
        };
        number = number.checked_add(1).unwrap_or(1);
        let cancelled = Arc::new(AtomicBool::new(false));
        let secret = i32::from_be_bytes(secret);
        let connection = Connection { number, secret, stream, is_known: false, cancelled: Arc::clone(&cancelled) };
        let mut connections = locked(&shared.connections);
        if connections.iter().filter(|other| !other.is_known).count() >= MAX_UNKNOWN
            && let Some(at) = connections.iter().position(|other| !other.is_known)
        {
            connections.remove(at).shut();
        }
        connections.push(connection);
        drop(connections);
        let shared_of_thread = Arc::clone(shared);
        let thread = std::thread::Builder::new().name("kiln-postgres".into()).stack_size(kiln_sql::STACK_BYTES);
        let thread = thread.spawn(move || {
            // A client that has gone away is no concern of the others.
            let _ = serve(&shared_of_thread, own, (number, secret), cancelled);
            locked(&shared_of_thread.connections).retain(|own| own.number != number);
        });
        // Where there are no threads left, the client finds the connection closed.
        if thread.is_err() {
            locked(&shared.connections).retain(|own| own.number != number);
        }
    }
}

/// Serves a client. One that goes away is told nothing; whatever else ends its session has a reason.
fn serve(shared: &Shared, stream: TcpStream, own: (i32, i32), cancelled: Arc<AtomicBool>) -> io::Result<()> {
    let mut wire = Wire::new(stream)?;
    let settings = match started(shared, &mut wire, own) {
        Ok(Some(settings)) => settings,
        Ok(None) => return Ok(()),
        Err(error) => return reason(shared, &error).map_or(Ok(()), |fault| wire.end(&fault)),
    };
    let mut session = Session::new(wire, Arc::clone(&shared.service), cancelled, settings);
    let ended = session.run();
    ended.or_else(|error| reason(shared, &error).map_or(Ok(()), |fault| session.end(&fault)))
}

/// Why a session ends; `None` if its client has gone.
fn reason(shared: &Shared, error: &io::Error) -> Option<Fault> {
    match error.kind() {
        _ if shared.is_over.load(Ordering::SeqCst) => Some(Fault::new("57P01", "`kiln serve` ends")),
        io::ErrorKind::InvalidData => Some(Fault::new("08P01", error.to_string())),
        io::ErrorKind::TimedOut => Some(Fault::new("08P01", "the rest of a message did not arrive in time")),
        _ => None,
    }
}

/// Begins a session: its settings; `None` where there is to be none.
fn started(shared: &Shared, wire: &mut Wire, own: (i32, i32)) -> io::Result<Option<BTreeMap<String, String>>> {
    let end = Some(Instant::now() + START_TIME);
    let startup = loop {
        match wire.read(end)? {
            Asked::SslNegotiation(Negotiation::PostgresSsl(_)) if shared.tls.is_some() && !wire.is_encrypted() => {
                wire.send(&SslResponse::Accept)?;
                wire.flush()?;
                wire.encrypt(shared.tls.as_ref())?;
            }
            // Clients that insist on what there is not end the connection.
            Asked::SslNegotiation(Negotiation::PostgresSsl(_) | Negotiation::PostgresGss(_)) => {
                wire.send(&SslResponse::Refuse)?;
                wire.flush()?;
            }
            Asked::CancelRequest(request) => {
                let connections = locked(&shared.connections);
                let asked = |one: &&Connection| {
                    one.number == request.pid && request.secret_key.as_i32() == Some(one.secret) && one.is_known
                };
                connections.iter().find(asked).inspect(|one| one.cancelled.store(true, Ordering::SeqCst));
                return Ok(None);
            }
            Asked::Startup(_) if shared.tls.is_some() && !wire.is_encrypted() => {
                let fault = Fault::new("28000", "this address asks for TLS: sslmode=require, or verify-full");
                return wire.end(&fault).map(|()| None);
            }
            Asked::Startup(startup) => break startup,
            _ => return wire.end(&Fault::new("08P01", "a session begins with a start-up message")).map(|()| None),
        }
    };
    if !is_proved(&shared.verifier, wire, end)? {
        let fault = Fault::new("28P01", "the password is wrong: `kiln serve` printed the address with it");
        return wire.end(&fault).map(|()| None);
    }
    let mut connections = locked(&shared.connections);
    let is_full = connections.iter().filter(|one| one.is_known).count() >= MAX_SESSIONS;
    if !is_full {
        connections.iter_mut().filter(|one| one.number == own.0).for_each(|one| one.is_known = true);
    }
    drop(connections);
    if is_full {
        return wire.end(&Fault::new("53300", format!("there are {MAX_SESSIONS} sessions already"))).map(|()| None);
    }
    wire.set_known();
    let settings = match settings(&startup.parameters) {
        Ok(settings) => settings,
        Err(fault) => return wire.end(&fault).map(|()| None),
    };
    wire.send(&Authentication::Ok)?;
    for (name, value) in SETTINGS {
        wire.send(&ParameterStatus::new((*name).to_owned(), (*value).to_owned()))?;
    }
    wire.send(&BackendKeyData::new(own.0, SecretKey::I32(own.1)))?;
    Ok(Some(settings))
}

/// Whether a client proves that it knows the password.
fn is_proved(verifier: &scram::Verifier, wire: &mut Wire, end: Option<Instant>) -> io::Result<bool> {
    wire.send(&Authentication::SASL(vec![scram::NAME.to_owned()]))?;
    wire.flush()?;
    let Asked::PasswordMessageFamily(Proof::Raw(first)) = wire.read(end)? else { return Ok(false) };
    let Some(first) = scram::first(&first) else { return Ok(false) };
    let begun = verifier.begin(first).map_err(|error| io::Error::other(error.to_string()))?;
    let Some((exchange, answer)) = begun else { return Ok(false) };
    wire.send(&Authentication::SASLContinue(answer.into()))?;
    wire.flush()?;
    let Asked::PasswordMessageFamily(Proof::Raw(last)) = wire.read(end)? else { return Ok(false) };
    let Some(proof) = exchange.end(&last) else { return Ok(false) };
    wire.send(&Authentication::SASLFinal(proof.into()))?;
    Ok(true)
}

/// The settings of a start-up message: `options=-c kiln.duration=5s`, and the client's name.
fn settings(parameters: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Fault> {
    let options = parameters.get("options").map(String::as_str).unwrap_or_default();
    let options = options.split("-c").filter_map(|option| option.trim().split_once('='));
    let own = parameters.iter().filter(|(name, _)| [DURATION, "application_name"].contains(&name.as_str()));
    let own = own.map(|(name, value)| (name.as_str(), value.as_str()));
    let settings: BTreeMap<String, String> =
        options.chain(own).take(16).map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    settings.get(DURATION).map(|text| duration(text)).transpose()?;
    Ok(settings)
}
