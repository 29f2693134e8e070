//! `kiln kv`: a key-value store behind sockets, and with an interface also in XDP, on one heap.
//!
//! ```text
//!   apps/kv's C --cc--> object --libbpf--> program, attached by a link --+
//!                                          arena, mapped here -----------+--> kiln_kv::Store
//!   sockets --> kiln_kv::Server -----------------------------------------+
//! ```
//!
//! Nothing is pinned: the kernel detaches the program when the process ends, however it ends.

mod pool;
mod top;

use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kiln_kv::EXTENSION;
use kiln_kv::log::{Log, LogError, REWRITE_BYTES, Settings as LogSettings};
pub use kiln_kv::log::{Opened, Sync};
use kiln_kv::protocol::{Service, StoreProgram};
use kiln_kv::redis::Cluster;
pub use kiln_kv::server::Protocol;
use kiln_kv::server::{self, Server};
use kiln_kv::store::layout::bucket;
use kiln_kv::store::{self, Heap, Settings, Store};
pub use kiln_linux::XdpMode;
use kiln_linux::{LoadedObject, ObjectFile, Prog};
use kiln_platform::MapType;
use kiln_program::Error;
use kiln_sandbox::supply::{self, NoMemory};
use kiln_tls::Tls;

use crate::commands::{cc, sandbox};
use crate::heap::KernelHeap;
pub use top::{Monitor, Rates};

const HEAP: &str = "kiln_heap_map";
const PROGRAM: &str = "kv_memcached";
/// Buckets per byte of items: one for every 256 bytes.
const BYTES_PER_BUCKET: u64 = 256;
/// What a heap has beside items and buckets.
const SPARE_BYTES: u64 = 8 << 20;
/// The most bytes of items: the heap has half as much again, and at most 4 GiB.
pub const MOST_BYTES: u64 = 2 << 30;
/// The fewest: room for the largest value, and for those that are being replaced.
pub const FEWEST_BYTES: u64 = 8 << 20;

/// Where a program keeps what it serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// In a heap that user space shares: Linux 6.12.
    Heap,
    /// In the array store of a pool: Linux 5.15.
    Array,
}

/// What is kept on the disk.
#[derive(Clone, Debug)]
pub struct Data {
    /// Where.
    pub directory: PathBuf,
    /// When changes are brought to the disk.
    pub sync: Sync,
    /// Whether what is damaged is cut off.
    pub repair: bool,
}

/// How to serve.
#[derive(Clone)]
pub struct Options {
    /// What is spoken.
    pub protocol: Protocol,
    /// What clients of Redis' protocol have to know.
    pub password: Option<String>,
    /// The file that says which server of Redis' protocol has which keys, if there are several.
    pub cluster: Option<PathBuf>,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Whether to serve datagrams, too.
    pub udp: bool,
    /// The interface where requests over UDP are served in XDP.
    pub interface: Option<String>,
    /// Where in the interface.
    pub mode: XdpMode,
    /// Where the program keeps what it serves; `None` chooses what the kernel has.
    pub kept: Option<Kept>,
    /// Bytes of all items; beyond, items are evicted.
    pub most_bytes: u64,
    /// Bytes of requests and replies that all clients may have waiting; beyond, the client that has most is closed.
    pub client_bytes: u64,
    /// Threads that serve sockets.
    pub threads: usize,
    /// Where Prometheus is answered, under `/metrics`.
    pub metrics: Option<SocketAddr>,
    /// What is kept on the disk, if something is.
    pub data: Option<Data>,
    /// What encrypts connections, if they are encrypted.
    pub tls: Option<Tls>,
    /// The C compiler.
    pub clang: String,
}

/// What a server says when it begins.
pub struct Begun {
    /// Where it listens.
    pub address: SocketAddr,
    /// Where Prometheus is answered, if it is.
    pub metrics: Option<SocketAddr>,
    /// Instructions that the kernel's verifier processed, if there is a program.
    pub processed: Option<u32>,
    /// What the log said, if there is one.
    pub log: Option<Opened>,
    /// What the user should know.
    pub warning: Option<String>,
}

impl Begun {
    fn new(server: &Server) -> Result<Begun, Error> {
        let (address, metrics) = (address(server)?, asked(server.metrics_address())?);
        Ok(Begun { address, metrics, processed: None, log: None, warning: None })
    }
}

/// Serves until `stop` is set.
///
/// # Errors
/// [`Error::InvalidInput`] for options that do not fit together, [`Error::Os`] if the address is in use, as [`cc::compile`] and
/// [`kiln_linux::ObjectFile::load`] with an interface.
pub fn serve(options: &Options, stop: &AtomicBool, begun: &dyn Fn(Begun)) -> Result<(), Error> {
    if !(FEWEST_BYTES..=MOST_BYTES).contains(&options.most_bytes) {
        let (fewest, most) = (FEWEST_BYTES >> 20, MOST_BYTES >> 20);
        return Err(Error::InvalidInput(format!("memory for items is {fewest} to {most} MiB")));
    }
    server::allow_files();
    let buckets = (options.most_bytes / BYTES_PER_BUCKET).next_power_of_two() as usize;
    let settings = Settings { buckets, most_bytes: options.most_bytes, served: None };
    match &options.interface {
        Some(interface) => with_program(options, settings, interface, stop, begun),
        None => {
            let server = bind(options)?;
            let heap = store::own_heap(&settings);
            let store = create(&heap, store::OWN_VARIABLE_BYTES, &settings)?;
            run(&server, store, None, options, stop, begun)
        }
    }
}

/// Serves datagrams at an interface in XDP.
fn with_program(
    options: &Options,
    settings: Settings,
    interface: &str,
    stop: &AtomicBool,
    begun: &dyn Fn(Begun),
) -> Result<(), Error> {
    if options.data.is_some() {
        let message = "--data does not go with --xdp: what the program in XDP stores would not reach the log";
        return Err(Error::InvalidInput(message.to_owned()));
    }
    if options.tls.is_some() {
        let message = "--tls-cert does not go with --xdp: requests over UDP are not encrypted";
        return Err(Error::InvalidInput(message.to_owned()));
    }
    let SocketAddr::V4(listen) = options.listen else {
        return Err(Error::InvalidInput("--xdp serves IPv4: --listen ADDRESS:PORT of the interface".to_owned()));
    };
    if listen.ip().is_unspecified() {
        let message = "--xdp needs the address that it serves: --listen ADDRESS:PORT of the interface";
        return Err(Error::InvalidInput(message.to_owned()));
    }
    crate::require_kernel()?;
    let index = kiln_policy::dispatch::index_of(interface)?;
    kiln_linux::Link::require_no_xdp(index)?;
    let server = bind(options)?;
    let address = address(&server)?;
    let served = SocketAddrV4::new(*listen.ip(), address.port());
    let attached = |store: Store<'_>, owner: Option<&dyn StoreProgram>, program: &Prog| {
        let link = kiln_linux::Link::xdp(program, index, options.mode)?;
        let (processed, warning) = (Some(program.info()?.verified_insns), veth_warning(interface, options.mode));
        let with_program = |said: Begun| begun(Begun { processed, warning: warning.clone(), ..said });
        let ended = run(&server, store, owner, options, stop, &with_program);
        drop(link);
        ended
    };
    if kept(options)? == Kept::Array {
        let pool = pool::PoolProgram::load(options, served)?;
        // What sessions share is there, and nothing is in it.
        let settings = Settings { buckets: 1, most_bytes: 0, served: None };
        let heap = store::own_heap(&settings);
        return attached(create(&heap, store::OWN_VARIABLE_BYTES, &settings)?, Some(&pool), pool.program());
    }
    let settings = Settings { served: Some(served), ..settings };
    let (loaded, variables) = load(options, &settings)?;
    let heap = KernelHeap(loaded.heap(HEAP)?);
    attached(create(&heap, variables, &settings)?, None, &loaded.program(PROGRAM)?)
}

/// Where the program keeps what it serves: as asked, or in a heap if the kernel has arenas.
fn kept(options: &Options) -> Result<Kept, Error> {
    let has_arenas = || kiln_linux::probe::map_type(MapType::Arena) != Some(false);
    let kept = options.kept.unwrap_or_else(|| if has_arenas() { Kept::Heap } else { Kept::Array });
    if kept == Kept::Array && options.metrics.is_some() {
        let message = "--metrics does not go with --store array: the server does not know what the program keeps";
        return Err(Error::InvalidInput(message.to_owned()));
    }
    Ok(kept)
}

/// What to know of an interface that drops what the program sends back, as far as its driver says so.
fn veth_warning(interface: &str, mode: XdpMode) -> Option<String> {
    let asked = std::process::Command::new("ip").args(["-d", "-o", "link", "show", "dev", interface]).output();
    let is_veth = asked.is_ok_and(|told| String::from_utf8_lossy(&told.stdout).contains(" veth "));
    (is_veth && mode != XdpMode::Generic).then(|| {
        let name = crate::Shown::from(interface);
        format!(
            "{name} is a veth: replies arrive only if the other end has an XDP program, too; --mode generic needs none"
        )
    })
}

fn bind(options: &Options) -> Result<Server, Error> {
    let udp = options.udp || options.interface.is_some();
    let server = Server::bind(options.listen, options.protocol, udp).map_err(listening(options.listen))?;
    let server = encrypted(server, options)?;
    match options.metrics {
        Some(metrics) => server.with_metrics(metrics).map_err(listening(metrics)),
        None => Ok(server),
    }
}

fn listening(at: SocketAddr) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::machine(&format!("listening at {at}"), &error, "")
}

fn address(server: &Server) -> Result<SocketAddr, Error> {
    asked(server.address())
}

fn asked<T>(address: std::io::Result<T>) -> Result<T, Error> {
    address.map_err(|error| Error::machine("asking for the socket's address", &error, ""))
}

fn create<'h>(heap: &'h Heap<'h>, variables: usize, settings: &Settings) -> Result<Store<'h>, Error> {
    Store::create(heap, variables, settings).map_err(|error| match error {
        NoMemory::Full => Error::Limit("the heap has no room for the buckets".to_owned()),
        NoMemory::Damaged(what) => Error::InvalidInput(what),
        NoMemory::Os { call, errno } => Error::Os { call, errno, advice: String::new() },
    })
}

fn encrypted(server: Server, options: &Options) -> Result<Server, Error> {
    let Some(tls) = &options.tls else { return Ok(server) };
    if options.udp {
        let message = "--udp does not go with --tls-cert: datagrams are not encrypted";
        return Err(Error::InvalidInput(message.to_owned()));
    }
    Ok(server.with_tls(tls.clone()))
}

fn run<'h>(
    server: &Server,
    store: Store<'h>,
    owner: Option<&'h dyn StoreProgram>,
    options: &Options,
    stop: &AtomicBool,
    begun: &dyn Fn(Begun),
) -> Result<(), Error> {
    let said = Begun::new(server)?;
    let cluster = options.cluster.as_ref().map(|path| {
        let wrong = |why| Error::InvalidInput(format!("{}: {why}", crate::Shown::from(path.display().to_string())));
        Cluster::open(path, said.address).map_err(wrong)
    });
    let service = Service::new(store).with_password(options.password.clone()).with_client_bytes(options.client_bytes);
    let service = service.with_cluster(cluster.transpose()?).with_program(owner);
    let serve = || {
        let served = server.run(&service, options.threads, stop);
        served.map_err(|error| Error::machine("waiting for sockets", &error, ""))
    };
    // Clients would wait for a server that reads its log, or refuses to.
    let listen = || server.listen().map_err(listening(options.listen));
    let Some(Data { directory, sync, repair }) = options.data.clone() else {
        listen()?;
        begun(said);
        return serve();
    };
    let settings = LogSettings { directory, sync, repair, rewrite_bytes: REWRITE_BYTES };
    let log = Log::open(&settings, &service).map_err(log_error)?;
    listen()?;
    begun(Begun { log: Some(log.opened.clone()), ..said });
    log.serve(&service, serve).map_err(log_error)?
}

fn log_error(error: LogError) -> Error {
    match error {
        LogError::Io { path, doing, error } => Error::machine(&format!("{doing} {}", path.display()), &error, ""),
        other => Error::InvalidInput(other.to_string()),
    }
}

fn temporary(error: std::io::Error) -> Error {
    Error::machine("a temporary folder", &error, "; name another with TMPDIR")
}

/// A folder with an extension's sources.
fn unpacked(sources: &[(&str, &str)]) -> Result<tempfile::TempDir, Error> {
    let folder = tempfile::tempdir().map_err(temporary)?;
    for (name, text) in sources {
        std::fs::write(folder.path().join(name), text).map_err(temporary)?;
    }
    Ok(folder)
}

/// Where clang did not make an object of it.
fn not_compiled(clang: &str) -> Error {
    Error::Unsupported(format!("{clang} does not compile the extension"))
}

/// The extension, compiled for this heap's size and loaded, and the bytes of its variables.
fn load(options: &Options, settings: &Settings) -> Result<(LoadedObject, usize), Error> {
    let folder = unpacked(&EXTENSION)?;
    let path = folder.path().join("memcached.o");
    let bytes = options.most_bytes / 2 * 3 + settings.buckets as u64 * bucket::ALL as u64 + SPARE_BYTES;
    let named = |name: &str| folder.path().join(name).display().to_string();
    let arguments = ["-c".to_owned(), named(EXTENSION[0].0), "-o".to_owned(), path.display().to_string()];
    let compiled = cc::compile(&cc::Options {
        clang: options.clang.clone(),
        arguments: [&[format!("-DKV_HEAP_BYTES={bytes}ull")], &arguments[..]].concat(),
        sandbox: sandbox::Options::default(),
        optimize: Duration::ZERO,
    })?;
    let object = compiled.objects.first().filter(|_| compiled.code == 0).map(|(_, outcome)| &outcome.object);
    let heap = object.and_then(|object| object.maps.iter().find(|map| map.name == HEAP));
    let heap = heap.ok_or_else(|| not_compiled(&options.clang))?;
    let variables = supply::variable_bytes(heap);
    let image = std::fs::read(&path).map_err(temporary)?;
    let loaded = ObjectFile::open("memcached", &image).and_then(ObjectFile::load);
    Ok((loaded.map_err(|failure| Error::Rejected(failure.to_string()))?, variables))
}
