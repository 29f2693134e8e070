//! `kiln kv memcached --store array`: the program in XDP has the store, for kernels without arenas.
//!
//! ```text
//!   UDP -> interface ------------------------------------+--> program: get, set, delete --> a pool's maps
//!   TCP, UDP -> socket -> server --BPF_PROG_TEST_RUN-----+
//! ```
//!
//! The server has no store. It gives the program each request in a frame, as if it came from a network.

use std::net::{Ipv4Addr, SocketAddrV4};

use kiln_kv::POOL_EXTENSION;
use kiln_kv::protocol::StoreProgram;
use kiln_kv::store::Counters;
use kiln_linux::{MapHandle, ObjectFile, Prog, TestInput};
use kiln_program::Error;

use super::{Options, PROGRAM, not_compiled, temporary, unpacked};
use crate::clang;

/// Bytes of memory per object that the pool may have at once.
const BYTES_PER_OBJECT: u64 = 256;
/// Headers of Ethernet, IPv4 and UDP, and memcached's eight bytes.
const HEADER_BYTES: usize = 50;
const IP: usize = 14;
const XDP_TX: u32 = 3;
/// In the program's state: the counters of the first CPU, bytes of those of one, CPUs.
const COUNTERS: (usize, usize, usize) = (64, 64, 64);

/// The loaded extension. The kernel keeps its maps as long as its program.
pub struct PoolProgram {
    program: Prog,
    state: MapHandle,
    served: SocketAddrV4,
}

impl PoolProgram {
    /// Compiles and loads it, and lets it serve.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if clang does not compile it, [`Error::Rejected`] if the kernel refuses it.
    pub fn load(options: &Options, served: SocketAddrV4) -> Result<PoolProgram, Error> {
        let image = compiled(options)?;
        let object = ObjectFile::open("memcached", &image).and_then(ObjectFile::load);
        let object = object.map_err(|failure| Error::Rejected(failure.to_string()))?;
        let state = object.map_names().into_iter().find(|name| name.ends_with(".bss"));
        let state = object.map(&state.ok_or_else(|| Error::InvalidInput("the extension has no state".to_owned()))?)?;
        let mut begun = vec![0; state.value_bytes() as usize];
        begun[..2].copy_from_slice(&served.port().to_be_bytes());
        begun[8..12].copy_from_slice(&served.ip().octets());
        state.update(&0u32.to_ne_bytes(), &begun, 0)?;
        Ok(PoolProgram { program: object.program(PROGRAM)?, state, served })
    }

    /// The program.
    pub fn program(&self) -> &Prog {
        &self.program
    }

    /// A datagram from another machine that has a request's text.
    fn frame(&self, text: &[u8]) -> Vec<u8> {
        let bytes = HEADER_BYTES + text.len();
        let length = |from: usize| ((bytes - from) as u16).to_be_bytes();
        let from = Ipv4Addr::new(192, 0, 2, 1 + u8::from(self.served.ip().octets()[3] == 1));
        let (from_port, port) = (1 + u16::from(self.served.port() == 1), self.served.port());
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
        frame.extend(length(IP));
        frame.extend([0, 1, 0, 0, 64, 17, 0, 0]);
        frame.extend([from.octets(), self.served.ip().octets()].concat());
        frame.extend([from_port.to_be_bytes(), port.to_be_bytes(), length(34)].concat());
        frame.extend([0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
        frame.extend(text);
        frame
    }
}

impl StoreProgram for PoolProgram {
    fn ask(&self, request: &[u8]) -> Option<Vec<u8>> {
        let input = TestInput { packet: self.frame(request), ..TestInput::default() };
        let output = self.program.test_run(&input).ok().filter(|output| output.value == XDP_TX)?;
        let length = output.packet.get(IP + 2..IP + 4)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))?;
        Some(output.packet.get(HEADER_BYTES..IP + usize::from(length))?.to_vec())
    }

    fn counters(&self) -> Counters {
        let state = self.state.lookup(&0u32.to_ne_bytes()).ok().flatten().unwrap_or_default();
        let (first, bytes, count) = COUNTERS;
        let word = |at: usize| state.get(at..at + 8)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
        let sum = |field: usize| (0..count).filter_map(|cpu| word(first + cpu * bytes + 8 * field)).sum();
        Counters { gets: sum(0), hits: sum(1), sets: sum(2), passed: sum(3) }
    }
}

fn compiled(options: &Options) -> Result<Vec<u8>, Error> {
    let (folder, headers) = (unpacked(&POOL_EXTENSION)?, clang::unpack_headers()?);
    let path = folder.path().join("memcached.o");
    let mut command = std::process::Command::new(&options.clang);
    // What Linux 5.15 knows.
    command.args(clang::flags(headers.path())).args(["-mcpu=v3", "-c", "-o"]).arg(&path);
    command.arg(format!("-DKILN_POOL_BYTES={}u", options.most_bytes));
    command.arg(format!("-DKILN_POOL_OBJECTS={}", options.most_bytes / BYTES_PER_OBJECT));
    if cfg!(target_arch = "x86_64") {
        command.arg("-D__TARGET_ARCH_x86");
    }
    let advice = "; install clang 19, or name another with KILN_CLANG";
    let status = command.arg(folder.path().join(POOL_EXTENSION[0].0)).status();
    match status.map_err(|error| Error::machine(&options.clang, &error, advice))?.success() {
        true => std::fs::read(&path).map_err(temporary),
        false => Err(not_compiled(&options.clang)),
    }
}
