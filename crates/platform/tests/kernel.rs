//! The tables against a running Linux 6.18: what its verifier says of helpers, prototypes, contexts, return values and
//! maps must be what the tables say. Each question is a program of a few instructions, loaded and thrown away.
//!
//! Needs `bpf(2)`, a 6.18 kernel on x86-64 and `python3` (which makes the system call, so that this crate can forbid
//! unsafe code). Where one is missing, each test prints `skipped: ...` and passes.

use kiln_platform::*;
use kiln_platform::{AttachType as At, ProgramType as Type};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The verifier behind a pipe.
struct Kernel {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// Where a program is to be loaded: type, attach type, flags, BTF target.
#[derive(Clone, Copy, Debug)]
struct Place {
    program_type: ProgramType,
    attach: Option<AttachType>,
    sleepable: bool,
    target: &'static str,
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Kernel {
    /// A kernel that can be asked, or `None` after saying why not.
    fn open(test: &str) -> Option<Kernel> {
        match Kernel::start() {
            Ok(kernel) => Some(kernel),
            Err(reason) => {
                println!("skipped: {test}: {reason}");
                None
            }
        }
    }

    fn start() -> Result<Kernel, String> {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")
            .map_err(|error| error.to_string())?;
        if !release.starts_with(&format!("{}.", KernelVersion::DESCRIBED)) {
            return Err(format!(
                "the tables describe {}, this is {}",
                KernelVersion::DESCRIBED,
                release.trim()
            ));
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
        let mut kernel = Kernel {
            process,
            commands,
            answers,
        };
        let (loaded, log) = kernel.load(place(ProgramType::SchedCls), &returning(0));
        if loaded {
            Ok(kernel)
        } else {
            Err(format!("bpf(2) is not allowed here: {log}"))
        }
    }

    fn ask(&mut self, command: &str) -> (bool, String) {
        writeln!(self.commands, "{command}").expect("the script reads commands");
        let mut answer = String::new();
        self.answers
            .read_line(&mut answer)
            .expect("the script answers");
        let (verdict, log) = answer
            .trim_end()
            .split_once(' ')
            .unwrap_or((answer.trim_end(), ""));
        assert!(
            matches!(verdict, "ok" | "no"),
            "the script answered {answer:?} to {command:?}"
        );
        (verdict == "ok", log.to_owned())
    }

    fn load(&mut self, place: Place, code: &[u64]) -> (bool, String) {
        let hex: String = code
            .iter()
            .flat_map(|slot| slot.to_le_bytes())
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let attach = place.attach.map_or(-1, |attach| attach.number() as i64);
        let flags = if place.sleepable { 1 << 4 } else { 0 };
        self.ask(&format!(
            "load {} {attach} {flags} {} {hex}",
            place.program_type.number(),
            place.target
        ))
    }

    fn create_map(
        &mut self,
        map_type: MapType,
        key: u32,
        value: u32,
        entries: u32,
        flags: u32,
    ) -> bool {
        self.ask(&format!(
            "map {} {key} {value} {entries} {flags}",
            map_type.number()
        ))
        .0
    }
}

fn slot(opcode: u8, dst: u8, src: u8, offset: i16, imm: i32) -> u64 {
    u64::from(opcode)
        | u64::from(dst | src << 4) << 8
        | u64::from(offset as u16) << 16
        | u64::from(imm as u32) << 32
}

fn mov_imm(dst: u8, imm: i32) -> u64 {
    slot(0xb7, dst, 0, 0, imm)
}

fn mov_reg(dst: u8, src: u8) -> u64 {
    slot(0xbf, dst, src, 0, 0)
}

fn call(helper: u32) -> u64 {
    slot(0x85, 0, 0, 0, helper as i32)
}

const EXIT: u64 = 0x95;

fn returning(value: i32) -> Vec<u64> {
    vec![mov_imm(0, value), EXIT]
}

fn place(program_type: ProgramType) -> Place {
    Place {
        program_type,
        attach: None,
        sleepable: program_type == ProgramType::Syscall,
        target: "-",
    }
}

fn place_at(program_type: ProgramType, attach: AttachType) -> Place {
    Place {
        attach: Some(attach),
        ..place(program_type)
    }
}

/// Every place a stock kernel lets a test load to: all types and the attach types that make a difference.
fn places() -> Vec<Place> {
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
        Place {
            target: "typedef:btf_trace_sched_switch",
            ..place_at(Type::Tracing, At::TraceRawTp)
        },
        Place {
            target: "func:bpf_iter_task",
            ..place_at(Type::Tracing, At::TraceIter)
        },
        Place {
            target: "func:bpf_iter_task",
            sleepable: true,
            ..place_at(Type::Tracing, At::TraceIter)
        },
    ];
    let attached = attached
        .into_iter()
        .map(|(program_type, attach)| place_at(program_type, attach));
    plain
        .into_iter()
        .map(place)
        .chain(attached)
        .chain(traced)
        .collect()
}

/// Helpers that a kernel may lack by configuration or lockdown, whatever the program type.
const CONFIGURABLE: [&str; 2] = ["probe_write_user", "override_return"];

#[test]
fn helpers_are_allowed_where_the_kernel_allows_them() {
    let Some(mut kernel) = Kernel::open("helpers by program type") else {
        return;
    };
    let mut wrong = Vec::new();
    let mut asked = 0;
    for place in places() {
        for helper in Helper::all().filter(|helper| !CONFIGURABLE.contains(&helper.name)) {
            let (loaded, log) = kernel.load(place, &[call(helper.id), mov_imm(0, 1), EXIT]);
            let kernel_allows = loaded || !log.contains("cannot use helper");
            let ours = match place.attach {
                Some(attach) => helper.allowed_at(place.program_type, attach),
                None => helper.allowed_in(place.program_type),
            };
            asked += 1;
            if ours != kernel_allows {
                wrong.push(format!(
                    "{} in {place:?}: kernel {kernel_allows}, table {ours}",
                    helper.name
                ));
            }
        }
    }
    println!("{asked} questions");
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn return_values_are_those_the_kernel_allows() {
    let Some(mut kernel) = Kernel::open("return rules") else {
        return;
    };
    let mut wrong = Vec::new();
    for place in places() {
        for value in -2..=7 {
            let (loaded, log) = kernel.load(place, &returning(value));
            let ours = match place.program_type.return_rule(place.attach) {
                ReturnRule::AnyScalar | ReturnRule::DependsOnHook => true,
                ReturnRule::Range { minimum, maximum } => (minimum..=maximum).contains(&value),
            };
            if loaded != ours {
                wrong.push(format!(
                    "{value} from {place:?}: kernel {loaded}, table {ours}: {log}"
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// What the verifier's log calls a register that holds this.
fn log_name(value: FieldValue) -> &'static str {
    match value {
        FieldValue::Scalar => "scalar(",
        FieldValue::PacketPointer => "pkt(",
        FieldValue::PacketEnd => "pkt_end(",
        FieldValue::PacketMeta => "pkt_meta(",
        FieldValue::Socket => "sock(",
        FieldValue::SocketOrNull => "sock_or_null(",
        FieldValue::SockCommonOrNull => "sock_common_or_null(",
        FieldValue::FlowKeys => "flow_keys(",
        FieldValue::TracepointBuffer => "tp_buffer(",
        FieldValue::BtfId(_) => "trusted_ptr_",
        FieldValue::TracedArgument => "",
    }
}

#[test]
fn context_fields_are_those_the_kernel_knows() {
    let Some(mut kernel) = Kernel::open("context layouts") else {
        return;
    };
    let mut wrong = Vec::new();
    let mut asked = 0;
    for place in places()
        .into_iter()
        .filter(|place| place.program_type != ProgramType::Tracing)
    {
        let layout = place.program_type.context();
        for offset in (0..i64::from(layout.size.min(256)) + 8).chain(8180..8200) {
            for (width, load, store) in [
                (1, 0x71, 0x73),
                (2, 0x69, 0x6b),
                (4, 0x61, 0x63),
                (8, 0x79, 0x7b),
            ] {
                for write in [false, true] {
                    let access = match write {
                        true => slot(store, 1, 2, offset as i16, 0),
                        false => slot(load, 7, 1, offset as i16, 0),
                    };
                    let (_, log) =
                        kernel.load(place, &[mov_imm(2, 0), access, mov_imm(0, 1), EXIT]);
                    let refused = [
                        "invalid bpf_context access",
                        "misaligned",
                        "cannot write",
                        "invalid access",
                    ]
                    .iter()
                    .any(|message| log.contains(message));
                    let ours = layout.access_at(place.attach, offset, width, write);
                    asked += 1;
                    let part_of_buffer =
                        place.program_type == Type::RawTracepointWritable && offset < 8;
                    if part_of_buffer && width < 8 {
                        continue; // Bytes of a kernel pointer, which the tables keep back.
                    }
                    if ours.is_ok() == refused {
                        wrong.push(format!(
                            "{place:?} +{offset} {width} write {write}: {ours:?} but {log}"
                        ));
                    } else if let (Ok(access), false) = (ours, write) {
                        let name = format!("R7={}", log_name(access.value()));
                        let older = format!("R7_w={}", log_name(access.value()));
                        if !log.contains(&name) && !log.contains(&older) {
                            wrong.push(format!(
                                "{place:?} +{offset} {width}: {:?} but {log}",
                                access.value()
                            ));
                        }
                    }
                }
            }
        }
    }
    println!("{asked} questions");
    let shown = &wrong[..wrong.len().min(40)];
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        shown.join("\n")
    );
}
