//! Compares the tables with a running Linux 6.18: helpers, prototypes, contexts, return values and maps. Each question
//! is a program of a few instructions, which is loaded and discarded.
//!
//! Needs `bpf(2)`, a 6.18 kernel on x86-64 and `python3` (which makes the system call, so that this crate can forbid
//! unsafe code). If one of these is missing, each test prints `skipped: ...` and passes.

mod oracle;

use kiln_platform::*;
use oracle::{CONFIGURABLE, EXIT, Kernel, call, mov_imm, returning, slot};

/// The helper that libbpf calls instead where the kernel does not have this one.
fn called_by_libbpf(helper: &Helper, version: KernelVersion) -> u32 {
    let older = match helper.name {
        _ if helper.since <= version => None,
        "probe_read_kernel" | "probe_read_user" => Helper::by_name("probe_read"),
        "probe_read_kernel_str" | "probe_read_user_str" => Helper::by_name("probe_read_str"),
        _ => None,
    };
    older.map_or(helper.id, |older| older.id)
}

#[test]
fn helpers_are_allowed_where_the_kernel_allows_them() {
    let Some(mut kernel) = Kernel::open_since("helpers by program type", Profile::OLDEST) else {
        return;
    };
    let profile = Profile::of(kernel.version);
    let mut wrong = Vec::new();
    let mut asked = 0;
    for place in kernel.places() {
        if !kernel.load(place, &returning(1)).0 {
            println!("skipped: {place:?}");
            continue;
        }
        for helper in Helper::all().filter(|helper| !CONFIGURABLE.contains(&helper.name)) {
            let number = called_by_libbpf(helper, kernel.version);
            let (loaded, log) = kernel.load(place, &[call(number), mov_imm(0, 1), EXIT]);
            let refusals = [
                "cannot use helper",
                "not supported for program type",
                "supported only for",
                "unknown func",
                "invalid func",
            ];
            let kernel_allows = loaded || !refusals.iter().any(|refusal| log.contains(refusal));
            let ours = match place.attach {
                Some(attach) => helper.allowed_at(place.program_type, attach),
                None => helper.allowed_in(place.program_type),
            };
            let ours = ours && profile.lacks_helper(helper, place.program_type, place.attach).is_none();
            asked += 1;
            // Kernels had it here, and stable updates of some removed it.
            let removed = helper.name == "skb_pull_data" && place.program_type == ProgramType::LwtSeg6local;
            if ours != kernel_allows && !(removed && kernel_allows) {
                wrong.push(format!("{} in {place:?}: kernel {kernel_allows}, table {ours}", helper.name));
            }
        }
    }
    println!("{asked} questions");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn return_values_are_those_the_kernel_allows() {
    let Some(mut kernel) = Kernel::open_since("return rules", Profile::OLDEST) else {
        return;
    };
    let profile = Profile::of(kernel.version);
    let mut wrong = Vec::new();
    for place in kernel.places() {
        for value in -2..=7 {
            let (loaded, log) = kernel.load(place, &returning(value));
            let ours = match profile.return_rule(place.program_type, place.attach) {
                ReturnRule::AnyScalar | ReturnRule::DependsOnHook => true,
                ReturnRule::Range { minimum, maximum } => (minimum..=maximum).contains(&value),
            };
            if loaded != ours {
                wrong.push(format!("{value} from {place:?}: kernel {loaded}, table {ours}: {log}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The names in the verifier's log of a register that holds this: the newest first.
fn log_names(value: FieldValue) -> &'static [&'static str] {
    match value {
        FieldValue::Scalar => &["scalar(", "inv(", "invP("],
        FieldValue::PacketPointer => &["pkt("],
        FieldValue::PacketEnd => &["pkt_end("],
        FieldValue::PacketMeta => &["pkt_meta("],
        FieldValue::Socket => &["sock("],
        FieldValue::SocketOrNull => &["sock_or_null("],
        FieldValue::SockCommonOrNull => &["sock_common_or_null("],
        FieldValue::FlowKeys => &["flow_keys("],
        FieldValue::TracepointBuffer => &["tp_buffer("],
        FieldValue::BtfId(_) => &["trusted_ptr_", "ptr_"],
        FieldValue::TracedArgument => &[""],
    }
}

#[test]
fn context_fields_are_those_the_kernel_knows() {
    let Some(mut kernel) = Kernel::open_since("context layouts", Profile::OLDEST) else {
        return;
    };
    let profile = Profile::of(kernel.version);
    let mut wrong = Vec::new();
    let mut asked = 0;
    for place in kernel.places().into_iter().filter(|place| place.program_type != ProgramType::Tracing) {
        let layout = place.program_type.context();
        for offset in (0..i64::from(layout.size.min(256)) + 8).chain(8180..8200) {
            for (width, load, store) in [(1, 0x71, 0x73), (2, 0x69, 0x6b), (4, 0x61, 0x63), (8, 0x79, 0x7b)] {
                for write in [false, true] {
                    let access = match write {
                        true => slot(store, 1, 2, offset as i16, 0),
                        false => slot(load, 7, 1, offset as i16, 0),
                    };
                    let (_, log) = kernel.load(place, &[mov_imm(2, 0), access, mov_imm(0, 1), EXIT]);
                    let refused = ["invalid bpf_context access", "misaligned", "cannot write", "invalid access"]
                        .iter()
                        .any(|message| log.contains(message));
                    let ours = layout.access_at(place.attach, offset, width, write).map_err(|error| error.to_string());
                    let ours = ours.and_then(|access| match profile.lacks_field(&access, place.program_type, write) {
                        Some(lack) => Err(lack.to_string()),
                        None => Ok(access),
                    });
                    asked += 1;
                    let part_of_buffer = place.program_type == ProgramType::RawTracepointWritable && offset < 8;
                    if part_of_buffer && width < 8 {
                        continue; // Bytes of a kernel pointer, which the tables keep back.
                    }
                    // Holes of a socket buffer that a field filled later, and parts of the pointer to the socket.
                    let hole = place.program_type.has_socket_buffer() && (168..184).contains(&offset);
                    if hole && !write && ours.is_err() {
                        continue;
                    }
                    if ours.is_ok() == refused {
                        let ours = ours.map(|access| access.field.name);
                        wrong.push(format!("{place:?} +{offset} {width} write {write}: {ours:?} but {log}"));
                    } else if let (Ok(access), false) = (ours, write) {
                        let names = log_names(access.value());
                        let shows =
                            |name: &&str| ["R7=", "R7_w="].iter().any(|at| log.contains(&format!("{at}{name}")));
                        if !names.iter().any(shows) {
                            wrong.push(format!("{place:?} +{offset} {width}: {:?} but {log}", access.value()));
                        }
                    }
                }
            }
        }
    }
    println!("{asked} questions");
    let shown = &wrong[..wrong.len().min(40)];
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), shown.join("\n"));
}
