//! What the tests of several protocols share.
#![allow(dead_code)] // Each test file uses a part of it.

pub mod linear;
pub mod redis;

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// As many rounds as `make fuzz-kv` asks for (`KILN_KV_TIMES`): a test does this many.
pub fn rounds(tested: usize) -> usize {
    std::env::var("KILN_KV_TIMES")
        .ok()
        .and_then(|times| times.parse::<usize>().ok())
        .map_or(tested, |times| tested * times)
}

/// Notes this process's resident memory once, and from then on refuses that it grows.
#[derive(Default)]
pub struct Memory(Option<u64>);

impl Memory {
    /// Looks at it.
    pub fn look(&mut self) {
        const MORE: u64 = 32 << 10;
        let text = std::fs::read_to_string("/proc/self/status").expect("its state");
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        let now: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        let first = *self.0.get_or_insert(now);
        assert!(now < first + MORE, "{now} KiB, and {first} at first");
    }
}

/// Numbers below a limit, the same in every run.
pub fn numbers() -> impl FnMut(usize) -> usize {
    let mut random = 0x2545_f491_4f6c_dd1du64;
    move |below| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) as usize % below
    }
}

/// A process that ends with this.
pub struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts somebody else's server on a free port, which stands for `PORT` in its arguments, and waits until it accepts. `None`
/// if it is not installed.
pub fn peer(program: &str, arguments: &[&str]) -> Option<(Ended, u16)> {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its number").port();
    let number = port.to_string();
    let arguments = arguments.iter().map(|word| if *word == "PORT" { &*number } else { *word });
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    let child = Ended(command.spawn().ok()?);
    let begun = Instant::now();
    while let Err(error) = TcpStream::connect(("127.0.0.1", port)) {
        assert!(begun.elapsed() < Duration::from_secs(10), "{program} does not answer: {error}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Some((child, port))
}
