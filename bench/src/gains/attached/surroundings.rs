//! Private networks and cgroups, in which the test causes events that programs observe.
//!
//! ```text
//!   this thread's network namespace:
//!     frames --redirect--> ours ==(veth)== theirs: refuses every frame      xdp_redirect, xdp_devmap_xmit, xdp_exception
//!            --redirect--> an interface that is not there                   xdp_redirect_err
//!            --redirect--> a CPU's queue                                    xdp_cpumap_enqueue, xdp_cpumap_kthread
//!     connections over loopback, this process in a cgroup                   sock_ops
//!     sockets, this process in a cgroup                                     cgroup_sock
//! ```
//!
//! Everything is removed when its owner is dropped: interfaces with the namespace, attachments with their descriptors.

use std::io::Write as _;
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use kiln_linux::attach::XdpMode;
use kiln_linux::{Error, Link, LoadedImage, OwnCgroup, OwnNetwork, Prog};
use kiln_platform::AttachType;
use rustix::net::{AddressFamily, SocketType, ipproto, socket, sockopt};

/// The veth pair: numbers of an interface are free in a namespace of our own.
const OURS: u32 = 101;
const THEIRS: u32 = 102;
/// No interface's number.
const NOWHERE: u32 = 999;
/// Frames of a sample. Some tracepoints tell of sixteen at a time.
const FRAMES: u32 = 4096;
const FRAME: [u8; 64] = [0; 64];
/// What a CPU's queue holds; a multiple of what is passed to it at a time.
const QUEUE: u32 = 2048;
/// The port that the sock_ops programs of the kernel's samples watch.
const PORT: u16 = 55601;
/// Connections of a sample: each is some ten events.
const CONNECTIONS: usize = 50;
/// Sockets of a sample.
const SOCKETS: usize = 500;

/// Where frames are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// Our end of a veth pair.
    Neighbour,
    /// An interface that is not there.
    Nowhere,
    /// The queue of a CPU.
    Cpu,
}

/// Where frames are sent to make a tracepoint happen.
const TRACEPOINTS: [(&str, Destination); 6] = [
    ("xdp_redirect", Destination::Neighbour),
    ("xdp_devmap_xmit", Destination::Neighbour),
    ("xdp_exception", Destination::Neighbour),
    ("xdp_redirect_err", Destination::Nowhere),
    ("xdp_cpumap_enqueue", Destination::Cpu),
    ("xdp_cpumap_kthread", Destination::Cpu),
];

impl Destination {
    /// What makes a tracepoint happen, where that is known; its name stays with it.
    pub fn of(tracepoint: &str) -> Option<(&'static str, Destination)> {
        Destination::all().find(|(name, _)| *name == tracepoint)
    }

    /// All tracepoints that can be made to happen, and what does it.
    pub fn all() -> impl Iterator<Item = (&'static str, Destination)> {
        TRACEPOINTS.into_iter()
    }

    /// The program that sends frames there.
    fn sender(self) -> String {
        let interface = |number: u32| format!("; program xdp\n r1 = {number}\n r2 = 0\n call redirect\n exit\n");
        match self {
            Destination::Neighbour => interface(OURS),
            Destination::Nowhere => interface(NOWHERE),
            Destination::Cpu => "; map cpus cpumap key 4 value 4 entries 1\n; program xdp\n \
                                 r1 = map[cpus]\n r2 = 0\n r3 = 0\n call redirect_map\n exit\n"
                .to_owned(),
        }
    }
}

/// A network in which frames are redirected. Its interfaces end with the namespace, which is dropped last.
pub struct Frames {
    sender: LoadedImage,
    _refusal: Option<Link>,
    _network: OwnNetwork,
}

impl Frames {
    /// Makes the network.
    ///
    /// # Errors
    /// Returns what the kernel lacks or does not allow.
    pub fn to(destination: Destination) -> Result<Frames, Error> {
        let network = network()?;
        let mut refusal = None;
        if destination == Destination::Neighbour {
            let [ours, theirs] = [OURS, THEIRS].map(|number| number.to_string());
            let pair = ["ours", "index", &ours, "type", "veth", "peer", "name", "theirs", "index", &theirs];
            ip(&[&["link", "add"], &pair[..]].concat())?;
            ip(&["link", "set", "ours", "up"])?;
            ip(&["link", "set", "theirs", "up"])?;
            let refuses = super::loaded("; program xdp\n r0 = 0\n exit\n")?;
            refusal = Some(Link::xdp(&refuses.prog, THEIRS, XdpMode::Native)?);
        }
        let sender = super::loaded(&destination.sender())?;
        for cpus in sender.maps.values() {
            cpus.update(&0u32.to_le_bytes(), &QUEUE.to_le_bytes(), 0)?;
        }
        Ok(Frames { sender, _refusal: refusal, _network: network })
    }

    /// Sends frames. What is in a CPU's queue may still be there afterwards.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn send(&self) -> Result<(), Error> {
        self.sender.prog.send_frames(&FRAME, FRAMES)
    }
}

/// A cgroup of our own whose processes talk to one another.
pub struct Sockets {
    listener: TcpListener,
    _network: OwnNetwork,
    cgroup: OwnCgroup,
}

impl Sockets {
    /// Makes cgroup and network.
    ///
    /// # Errors
    /// Returns what the kernel lacks or does not allow.
    pub fn make() -> Result<Sockets, Error> {
        let network = network()?;
        let cgroup = OwnCgroup::enter()?;
        let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, PORT)).map_err(|error| failed("listening", &error))?;
        Ok(Sockets { listener, _network: network, cgroup })
    }

    /// Attaches a program to the cgroup.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn attach(&self, prog: &Prog, attach_type: AttachType) -> Result<Link, Error> {
        Link::cgroup(prog, self.cgroup.directory(), attach_type)
    }

    /// Connections that are made, used once and reset: a port is free again at once.
    ///
    /// # Errors
    /// What did not work.
    pub fn connect(&self) -> Result<(), Error> {
        for _ in 0..CONNECTIONS {
            let exchange = || -> std::io::Result<()> {
                let mut client = TcpStream::connect((Ipv6Addr::LOCALHOST, PORT))?;
                let (server, _) = self.listener.accept()?;
                client.write_all(&FRAME)?;
                sockopt::set_socket_linger(&client, Some(Duration::ZERO))?;
                drop((client, server));
                Ok(())
            };
            exchange().map_err(|error| failed("connecting", &error))?;
        }
        Ok(())
    }

    /// Opens sockets of several kinds. A program may refuse some; that is not an error.
    pub fn open(&self) {
        let kinds = [
            (AddressFamily::INET, SocketType::DGRAM, None),
            (AddressFamily::INET6, SocketType::DGRAM, None),
            (AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP)),
            (AddressFamily::INET6, SocketType::RAW, Some(ipproto::ICMPV6)),
        ];
        for (family, kind, protocol) in kinds.into_iter().cycle().take(SOCKETS) {
            let _ = socket(family, kind, protocol);
        }
    }
}

/// A namespace whose loopback interface is up.
fn network() -> Result<OwnNetwork, Error> {
    let network = OwnNetwork::enter()?;
    ip(&["link", "set", "lo", "up"])?;
    Ok(network)
}

/// Runs ip(8) in the network of this thread.
fn ip(arguments: &[&str]) -> Result<(), Error> {
    let output = Command::new("ip").args(arguments).output().map_err(|error| failed("ip", &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::InvalidInput(format!("ip {}: {}", arguments.join(" "), said.trim())))
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::InvalidInput(format!("{what}: {error}"))
}
