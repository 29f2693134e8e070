//! Servers that other processes measure: this program with `--serve STORE [--at INTERFACE]`.
//!
//! `kiln` is `kiln kv memcached --xdp`, `redis` is `kiln kv redis` at a port of the loopback interface, all others are programs of
//! `bench/heaps/memcached.bpf.c`. Each prints a line of JSON when it serves, and ends with its input. The programs also print how
//! much memory they take, for each line of input.

use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use kiln_driver::heap::KernelHeap;
use kiln_driver::kv::{self, Protocol, XdpMode};
use kiln_sandbox::supply::{self, Memory as _};
use serde_json::json;

use super::requests::{HEAP, SERVED, Server};
use super::{Failure, beside};

/// Bytes of items of `kiln kv`: nothing is evicted.
const MOST_BYTES: u64 = 256 << 20;

/// A store in the kernel: its name, clang's arguments, and its maps; the heap if there are none.
struct Kind {
    name: &'static str,
    defines: &'static [&'static str],
    maps: &'static [&'static str],
}

/// Room for the contents of 65,536 objects of which one of four has 1,024 bytes, and for those that are being replaced.
const ROOM: &str = "-DKILN_POOL_BYTES=33554432u";
const ARRAY_MAPS: [&str; 5] =
    ["kiln_pool_objects", "kiln_pool_blocks", "kiln_pool_cpus", "kiln_pool_spare", "kiln_pool_fresh"];
const KINDS: [Kind; 4] = [
    Kind { name: "slots", defines: &["-DSLOTS", "-DKV_VALUE=1024"], maps: &["kv_slots"] },
    Kind { name: "kerby", defines: &["-DKILN_POOL_STORE=1", ROOM], maps: &["kiln_pool_objects", "kiln_pool_blocks"] },
    Kind { name: "array", defines: &["-DKILN_POOL_STORE=2", ROOM], maps: &ARRAY_MAPS },
    Kind { name: "arena", defines: &["-DKILN_POOL_STORE=3", ROOM], maps: &[] },
];

/// This program, also where it is part of a test; `None` if it is not built.
pub fn own() -> Option<PathBuf> {
    let this = std::env::current_exe().ok()?;
    let folder = this.parent()?;
    let own = if folder.ends_with("deps") { folder.parent()?.join("examples/kv_bench") } else { this };
    own.exists().then_some(own)
}

/// Serves until there is no more input.
///
/// # Errors
/// Returns a failure if there is no such store, or it does not load.
pub fn run(store: &str, interface: Option<String>) -> Result<(), Failure> {
    let loopback: SocketAddr = "127.0.0.1:0".parse()?;
    match store {
        "kiln" => sockets(Protocol::Memcached, SERVED.into(), Some(interface.ok_or("an interface is missing")?)),
        "redis" => sockets(Protocol::Redis, loopback, None),
        _ => programs(store, &interface.ok_or("an interface is missing")?),
    }
}

fn sockets(protocol: Protocol, listen: SocketAddr, interface: Option<String>) -> Result<(), Failure> {
    let (options, stop) = (beside::options(protocol, listen, interface, MOST_BYTES), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::io::stdin().lines().map_while(Result::ok).for_each(drop);
            stop.store(true, Ordering::SeqCst);
        });
        let begun = |begun: kv::Begun| println!("{}", json!({"address": begun.address, "processed": begun.processed}));
        Ok(kv::serve(&options, &stop, &begun).inspect_err(|error| {
            // The thread that reads would be waited for.
            eprintln!("error: {error}");
            std::process::exit(1);
        })?)
    })
}

fn programs(store: &str, interface: &str) -> Result<(), Failure> {
    let kind = KINDS.iter().find(|kind| kind.name == store).ok_or_else(|| format!("there is no store {store}"))?;
    let folder = tempfile::tempdir()?;
    let server = Server::load(kind.name, kind.defines, folder.path())?;
    let heap = KernelHeap(server.loaded.heap(HEAP)?);
    if kind.maps.is_empty() {
        supply::supply(&heap, server.variables, heap.bytes()).map_err(|error| format!("{error:?}"))?;
    } else {
        heap.populate(0, heap.bytes()).map_err(|error| format!("{error:?}"))?;
    }
    let index = std::fs::read_to_string(format!("/sys/class/net/{interface}/ifindex"))?.trim().parse()?;
    let program = server.loaded.program("wire")?;
    let _link = kiln_linux::Link::xdp(&program, index, XdpMode::Native)?;
    println!("{}", json!({"address": SERVED, "processed": program.info()?.verified_insns}));
    for _line in std::io::stdin().lines() {
        println!("{}", json!({"memory": memory(&server, kind)?}));
    }
    Ok(())
}

/// Bytes that a store takes.
fn memory(server: &Server, kind: &Kind) -> Result<u64, Failure> {
    if kind.maps.is_empty() {
        let accounts = supply::accounts(&KernelHeap(server.loaded.heap(HEAP)?)).ok_or("no allocator")?;
        return Ok(accounts.supplied_bytes - accounts.fresh_bytes);
    }
    let of = |name: &&str| -> Result<u64, Failure> {
        let map = server.loaded.map(name)?;
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", map.fd().as_raw_fd()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("memlock:")).ok_or("no memlock")?;
        Ok(line.trim().parse()?)
    };
    kind.maps.iter().map(of).sum()
}
