//! The running kernel, reached through a pipe, and builders for small programs.

#![allow(dead_code)] // Each test file uses a part of it.

use kiln_platform::{AttachType as At, KernelVersion, MapType, ProgramType as Type};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The verifier behind a pipe.
pub struct Kernel {
    /// Its release.
    pub version: KernelVersion,
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// How a program is loaded: type, attach type, flags, BTF target.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub program_type: Type,
    pub attach: Option<At>,
    pub sleepable: bool,
    pub target: &'static str,
}

/// A map of each type that can be made without BTF, an inner map or a page of its own: type, key, value, entries, flags.
pub const TYPED_MAPS: &[(MapType, u32, u32, u32, u32)] = &[
    (MapType::Hash, 8, 8, 4, 0),
    (MapType::Array, 4, 8, 4, 0),
    (MapType::ProgArray, 4, 4, 4, 0),
    (MapType::PerfEventArray, 4, 4, 4, 0),
    (MapType::PercpuHash, 8, 8, 4, 0),
    (MapType::PercpuArray, 4, 8, 4, 0),
    (MapType::StackTrace, 4, 64, 4, 0),
    (MapType::CgroupArray, 4, 4, 4, 0),
    (MapType::LruHash, 8, 8, 4, 0),
    (MapType::LruPercpuHash, 8, 8, 4, 0),
    (MapType::LpmTrie, 8, 8, 4, 1),
    (MapType::Devmap, 4, 4, 4, 0),
    (MapType::Sockmap, 4, 4, 4, 0),
    (MapType::Cpumap, 4, 4, 2, 0),
    (MapType::Xskmap, 4, 4, 4, 0),
    (MapType::Sockhash, 8, 4, 4, 0),
    (MapType::CgroupStorage, 16, 8, 0, 0),
    (MapType::ReuseportSockarray, 4, 8, 4, 0),
    (MapType::PercpuCgroupStorage, 16, 8, 0, 0),
    (MapType::Queue, 0, 8, 4, 0),
    (MapType::Stack, 0, 8, 4, 0),
    (MapType::DevmapHash, 4, 4, 4, 0),
    (MapType::Ringbuf, 0, 0, 4096, 0),
    (MapType::BloomFilter, 0, 8, 4, 0),
    (MapType::UserRingbuf, 0, 0, 4096, 0),
];

impl Drop for Kernel {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Kernel {
    /// A kernel of the release that the tables describe, or `None` after saying why there is none.
    pub fn open(test: &str) -> Option<Kernel> {
        Kernel::open_since(test, KernelVersion::DESCRIBED)
    }

    /// A kernel of this release or a later one, up to what the tables describe.
    pub fn open_since(test: &str, oldest: KernelVersion) -> Option<Kernel> {
        match Kernel::start(oldest) {
            Ok(kernel) => Some(kernel),
            Err(reason) => {
                // Written to the stream directly, because the test harness hides the output of a passing test.
                let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
                None
            }
        }
    }

    fn start(oldest: KernelVersion) -> Result<Kernel, String> {
        // To ask a kernel that is older than the tables.
        let any = std::env::var_os("KILN_ANY_KERNEL").is_some();
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").map_err(|error| error.to_string())?;
        let version: KernelVersion = release.parse()?;
        if !any && (version < oldest || version > KernelVersion::DESCRIBED) {
            let described = KernelVersion::DESCRIBED;
            return Err(format!("this test is for {oldest} to {described}, this is {}", release.trim()));
        }
        if !cfg!(target_arch = "x86_64") {
            return Err("the register layout described is that of x86-64".into());
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ask_kernel.py");
        let mut process = Command::new("python3")
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("python3: {error}"))?;
        let commands = process.stdin.take().ok_or("no pipe")?;
        let answers = BufReader::new(process.stdout.take().ok_or("no pipe")?);
        let mut kernel = Kernel { version, process, commands, answers };
        let (loaded, log) = kernel.load(place(Type::SchedCls), &returning(0));
        if loaded { Ok(kernel) } else { Err(format!("bpf(2) is not allowed here: {log}")) }
    }

    /// The places that this release has.
    pub fn places(&self) -> Vec<Place> {
        let has = |place: &Place| {
            place.program_type.since() <= self.version && place.attach.is_none_or(|at| at.since() <= self.version)
        };
        places().into_iter().filter(has).collect()
    }

    pub fn ask(&mut self, command: &str) -> (bool, String) {
        writeln!(self.commands, "{command}").expect("the script reads commands");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the script answers");
        let (verdict, log) = answer.trim_end().split_once(' ').unwrap_or((answer.trim_end(), ""));
        assert!(matches!(verdict, "ok" | "no"), "the script answered {answer:?} to {command:?}");
        (verdict == "ok", log.to_owned())
    }

    /// Loads a program under a GPL-compatible license: whether the verifier took it, and its log.
    pub fn load(&mut self, place: Place, code: &[u64]) -> (bool, String) {
        self.load_licensed(place, "GPL", code)
    }

    /// Loads a program whose kfunc calls are of this kfunc.
    pub fn load_calling(&mut self, place: Place, kfunc: &str, code: &[u64]) -> (bool, String) {
        self.load_with(place, "GPL", code, kfunc)
    }

    pub fn load_licensed(&mut self, place: Place, license: &str, code: &[u64]) -> (bool, String) {
        self.load_with(place, license, code, "")
    }

    fn load_with(&mut self, place: Place, license: &str, code: &[u64], kfunc: &str) -> (bool, String) {
        let hex: String = code.iter().flat_map(|slot| slot.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect();
        let attach = place.attach.map_or(-1, |attach| i64::from(attach.number()));
        let flags = if place.sleepable { 1 << 4 } else { 0 };
        let number = place.program_type.number();
        self.ask(&format!("load {number} {attach} {flags} {license} {} {hex} {kfunc}", place.target))
    }

    /// Freezes the map, so that the verifier may rely on its values.
    pub fn freeze(&mut self, map: usize) {
        self.ask(&format!("freeze {map}"));
    }

    /// Creates a map; each, failed or not, takes the next number.
    pub fn create_map(&mut self, map_type: MapType, key: u32, value: u32, entries: u32, flags: u32) -> bool {
        self.ask(&format!("map {} {key} {value} {entries} {flags}", map_type.number())).0
    }
}

pub fn slot(opcode: u8, dst: u8, src: u8, offset: i16, imm: i32) -> u64 {
    u64::from(opcode) | u64::from(dst | src << 4) << 8 | u64::from(offset as u16) << 16 | u64::from(imm as u32) << 32
}

pub fn mov_imm(dst: u8, imm: i32) -> u64 {
    slot(0xb7, dst, 0, 0, imm)
}

pub fn mov_reg(dst: u8, src: u8) -> u64 {
    slot(0xbf, dst, src, 0, 0)
}

pub fn call(helper: u32) -> u64 {
    slot(0x85, 0, 0, 0, helper as i32)
}

/// A call of the kfunc that [`Kernel::load_calling`] names.
pub const CALL_KFUNC: u64 = 0x85 | 2 << 12;

pub const EXIT: u64 = 0x95;

pub fn returning(value: i32) -> Vec<u64> {
    vec![mov_imm(0, value), EXIT]
}

pub fn place(program_type: Type) -> Place {
    Place { program_type, attach: None, sleepable: program_type == Type::Syscall, target: "-" }
}

pub fn place_at(program_type: Type, attach: At) -> Place {
    Place { attach: Some(attach), ..place(program_type) }
}

/// Every place a stock kernel lets a test load to: all types and the attach types that make a difference.
// long: two lists of types
pub fn places() -> Vec<Place> {
    let plain = [
        Type::SocketFilter,
        Type::Kprobe,
        Type::SchedCls,
        Type::SchedAct,
        Type::Tracepoint,
        Type::PerfEvent,
        Type::LwtIn,
        Type::LwtOut,
        Type::LwtXmit,
        Type::SkSkb,
        Type::RawTracepoint,
        Type::LwtSeg6local,
        Type::RawTracepointWritable,
        Type::Syscall,
    ];
    let attached = [
        (Type::Kprobe, At::TraceKprobeMulti),
        (Type::Kprobe, At::TraceKprobeSession),
        (Type::Kprobe, At::TraceUprobeMulti),
        (Type::Xdp, At::Xdp),
        (Type::Xdp, At::XdpDevmap),
        (Type::Xdp, At::XdpCpumap),
        (Type::CgroupSkb, At::CgroupInetIngress),
        (Type::CgroupSkb, At::CgroupInetEgress),
        (Type::CgroupSock, At::CgroupInetSockCreate),
        (Type::CgroupSock, At::CgroupInetSockRelease),
        (Type::CgroupSock, At::CgroupInet4PostBind),
        (Type::CgroupSock, At::CgroupInet6PostBind),
        (Type::SockOps, At::CgroupSockOps),
        (Type::SkSkb, At::SkSkbStreamParser),
        (Type::SkSkb, At::SkSkbStreamVerdict),
        (Type::CgroupDevice, At::CgroupDevice),
        (Type::SkMsg, At::SkMsgVerdict),
        (Type::SkReuseport, At::SkReuseportSelect),
        (Type::SkReuseport, At::SkReuseportSelectOrMigrate),
        (Type::FlowDissector, At::FlowDissector),
        (Type::CgroupSysctl, At::CgroupSysctl),
        (Type::CgroupSockopt, At::CgroupGetsockopt),
        (Type::CgroupSockopt, At::CgroupSetsockopt),
        (Type::SkLookup, At::SkLookup),
        (Type::Netfilter, At::Netfilter),
        (Type::CgroupSockAddr, At::CgroupInet4Bind),
        (Type::CgroupSockAddr, At::CgroupInet6Bind),
        (Type::CgroupSockAddr, At::CgroupInet4Connect),
        (Type::CgroupSockAddr, At::CgroupInet6Connect),
        (Type::CgroupSockAddr, At::CgroupUdp4Sendmsg),
        (Type::CgroupSockAddr, At::CgroupUdp6Sendmsg),
        (Type::CgroupSockAddr, At::CgroupUdp4Recvmsg),
        (Type::CgroupSockAddr, At::CgroupUdp6Recvmsg),
        (Type::CgroupSockAddr, At::CgroupInet4Getpeername),
        (Type::CgroupSockAddr, At::CgroupInet6Getpeername),
        (Type::CgroupSockAddr, At::CgroupInet4Getsockname),
        (Type::CgroupSockAddr, At::CgroupInet6Getsockname),
        (Type::CgroupSockAddr, At::CgroupUnixConnect),
        (Type::CgroupSockAddr, At::CgroupUnixSendmsg),
        (Type::CgroupSockAddr, At::CgroupUnixRecvmsg),
        (Type::CgroupSockAddr, At::CgroupUnixGetpeername),
        (Type::CgroupSockAddr, At::CgroupUnixGetsockname),
    ];
    let traced = [
        Place { target: "typedef:btf_trace_sched_switch", ..place_at(Type::Tracing, At::TraceRawTp) },
        Place { target: "func:bpf_iter_task", ..place_at(Type::Tracing, At::TraceIter) },
        Place { target: "func:bpf_iter_task", sleepable: true, ..place_at(Type::Tracing, At::TraceIter) },
    ];
    let attached = attached.into_iter().map(|(program_type, attach)| place_at(program_type, attach));
    plain.into_iter().map(place).chain(attached).chain(traced).collect()
}

/// Helpers that a kernel may lack by configuration or lockdown, whatever the program type.
pub const CONFIGURABLE: [&str; 2] = ["probe_write_user", "override_return"];
