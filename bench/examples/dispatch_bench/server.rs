//! The executors: threads with a socket each, which share a port.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType};

use crate::Failure;
use crate::load::{GET, PORT, SCAN, Workload};

pub const EXECUTORS: usize = 4;

/// When this program began: latencies are differences of times since then.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

pub fn since_start() -> Duration {
    START.elapsed()
}

/// What an executor served.
#[derive(Default)]
pub struct Served {
    pub latencies_ns: Vec<u64>,
    /// GETs whose key was cached.
    pub hits: u64,
}

pub struct Servers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Served, std::io::Error>>>,
}

impl Servers {
    pub fn start(workload: &'static Workload) -> Result<Servers, Failure> {
        LazyLock::force(&START);
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for _ in 0..EXECUTORS {
            let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
            rustix::net::sockopt::set_socket_reuseport(&socket, true)?;
            rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 4 << 20)?;
            rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)))?;
            let socket = UdpSocket::from(socket);
            socket.set_read_timeout(Some(Duration::from_millis(100)))?;
            let stop = Arc::clone(&stop);
            threads.push(std::thread::spawn(move || serve(&socket, workload, &stop)));
        }
        Ok(Servers { stop, threads })
    }

    /// Lets the executors empty their queues and end.
    pub fn stop(self) -> Result<Vec<Served>, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        let served = self.threads.into_iter().map(|thread| Ok(thread.join().map_err(|_| "an executor panicked")??));
        served.collect()
    }
}

fn serve(socket: &UdpSocket, workload: &Workload, stop: &AtomicBool) -> Result<Served, std::io::Error> {
    let mut served = Served::default();
    let mut cache = Cache { room: workload.cache, used: HashMap::new(), now: 0 };
    let mut bytes = [0; 64];
    loop {
        match socket.recv(&mut bytes) {
            Ok(24) => {}
            Ok(_) => continue,
            // Nothing waits any more.
            Err(_) if stop.load(Ordering::Relaxed) => return Ok(served),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        }
        let word = |at: usize| bytes[at..at + 8].iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        let (key, kind, due_ns) = (word(0), word(8), word(16));
        let time = match kind {
            SCAN => workload.scan,
            _ if cache.holds(key) => workload.hit,
            _ => workload.miss,
        };
        if kind > SCAN {
            continue;
        }
        std::thread::sleep(time);
        served.hits += u64::from(kind == GET && workload.cache > 0 && time == workload.hit);
        served.latencies_ns.push((since_start().as_nanos() as u64).saturating_sub(due_ns));
    }
}

/// The keys that an executor used last.
struct Cache {
    room: usize,
    /// When each was used.
    used: HashMap<u64, u64>,
    now: u64,
}

impl Cache {
    /// Whether a key is there; it is from now on.
    fn holds(&mut self, key: u64) -> bool {
        self.now += 1;
        let held = self.used.insert(key, self.now).is_some();
        if self.used.len() > self.room
            && let Some(oldest) = self.used.iter().min_by_key(|(_, used)| **used).map(|(key, _)| *key)
        {
            self.used.remove(&oldest);
        }
        held
    }
}
