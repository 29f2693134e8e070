//! The built-in tables, one function each, and tables of any tracepoint.

mod build;
mod calls;
mod dns;
mod files;
mod functions;
mod probes;
mod sockets;

use kiln_program::btf::{Btf, Kind, TypeId};

use build::{argument, column, compares, derived, in_interrupts, member, only_at, pair, single, typed, with_stacks};

use crate::expr::BinaryOp;
use crate::programs::Known;
use crate::table::{Column, Hook, PATH_BYTES, Read, Scalar, Scan, Side, Source, Table};
use crate::value::DataType;

/// All built-in tables.
pub fn all() -> Vec<Table> {
    let own = vec![
        calls::syscalls(),
        sched_switches(),
        wakeups(),
        block_io(),
        page_faults(),
        sockets::tcp_states(),
        sockets::tcp_connects(),
        sockets::tcp_accepts(),
        sockets::tcp_closes(),
        sockets::tcp_connections(),
        sockets::tcp_retransmits(),
        signals(),
        irqs(),
        softirqs(),
        calls::file_opens(),
        runq(),
        on_cpu(),
        off_cpu(),
        forks(),
        execs(),
        exits(),
        packets_received(),
        packets_sent(),
        packet_drops(),
        timers(),
        lock_contention(),
        memory_pressure(),
        cgroup_reclaims(),
        oom_kills(),
        dns::dns(),
        files::file_reads(),
        files::file_writes(),
        files::http(),
        samples(HERTZ),
    ];
    own.into_iter().map(with_stacks).collect()
}

/// Why there is no table of a name that says what it would be of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// What is lacking.
    pub why: String,
    /// What can be written instead.
    pub help: &'static str,
}

/// Tables by pattern: what their names begin with, and what makes them of the rest.
const PATTERNS: [(&str, fn(&str, Known<'_>) -> Result<Table, Missing>); 4] = [
    (functions::FILE, functions::of_file),
    (functions::RETURNS, functions::returns_of_file),
    (functions::KERNEL, functions::of_kernel),
    (probes::PREFIX, probes::of),
];

/// The table of this name: `uprobe.FILE:FUNCTION`, `uretprobe.FILE:FUNCTION`, `usdt.FILE:PROVIDER:NAME`, `fn.FUNCTION`,
/// or as [`named`] has it, which may be `None`.
///
/// # Errors
/// Returns what is lacking if a file has no such probe, or the kernel's types have no such function.
pub fn find(name: &str, known: Known<'_>) -> Result<Option<Table>, Missing> {
    for (prefix, of) in PATTERNS {
        let is_of = name.get(..prefix.len()).is_some_and(|own| own.eq_ignore_ascii_case(prefix));
        if is_of {
            return of(&name[prefix.len()..], known).map(Some);
        }
    }
    Ok(named(name, known.types))
}

/// The table of this name: one of [`all`], one of a tracepoint whose record these types describe, or `samples_HERTZ`.
pub fn named(name: &str, types: Option<&Btf>) -> Option<Table> {
    if let Some(hertz) = name.to_lowercase().strip_prefix("samples_") {
        let hertz = hertz.parse().ok().filter(|hertz| (1..=MAX_HERTZ).contains(hertz))?;
        return Some(with_stacks(Table { name: name.to_lowercase(), ..samples(hertz) }));
    }
    let known = all().into_iter().find(|table| table.name.eq_ignore_ascii_case(name));
    known.or_else(|| {
        let mut words = name.split('.');
        match [words.next()?, words.next()?, words.next()?] {
            [kind, category, event] if kind.eq_ignore_ascii_case("tracepoint") && words.next().is_none() => {
                tracepoint(category, event, types?)
            }
            _ => None,
        }
    })
}

/// How often `samples` looks at a processor in a second: not a number that timers have, so that it is not always at the same
/// time as they.
const HERTZ: u32 = 99;
/// Maximum number of samples of a processor in a second.
const MAX_HERTZ: u32 = 10_000;

/// What runs on a processor, now and then.
fn samples(hertz: u32) -> Table {
    let about = format!("what a processor runs, {hertz} times a second; pid 0 is an idle processor");
    single("samples", &about, Hook::Clock { hertz }, Vec::new())
}

/// The kernel kills a process because memory is short. The columns `pid` and `comm` are of the thread that asked for memory.
fn oom_kills() -> Table {
    let structure = || "trace_event_raw_mark_victim".to_owned();
    let field = |name: &str| Read::Field { structure: structure(), name: name.to_owned() };
    let comm = Read::FieldText { structure: structure(), name: format!("{DATA_LOC}comm"), bytes: 16 };
    let own = vec![
        column("victim_pid", DataType::Uint, Side::Exit, field("pid"), "the process that is killed"),
        column("victim_comm", DataType::Text, Side::Exit, comm, "its name"),
        column("victim_uid", DataType::Uint, Side::Exit, field("uid"), "its user"),
        column("total_kb", DataType::Uint, Side::Exit, field("total_vm"), "its virtual memory, in KiB"),
        column("anon_kb", DataType::Uint, Side::Exit, field("anon_rss"), "its memory without a file, in KiB"),
        column("score_adj", DataType::Int, Side::Exit, field("oom_score_adj"), "its `oom_score_adj`"),
    ];
    let hook = Hook::Record { category: "oom".to_owned(), name: "mark_victim".to_owned() };
    single("oom_kills", "the kernel kills a process because memory is short", hook, own)
}

/// How long threads waited for a processor. Its columns are of the thread that waited, not of who woke it.
fn runq() -> Table {
    let woken = |name: &str| member(0, &[("task_struct", name)]);
    let keys = [woken("pid"), member(2, &[("task_struct", "pid")])];
    // A thread that was woken while it ran is not switched to.
    let scan = Scan::Pair {
        enter: typed("sched_wakeup"),
        exit: typed("sched_switch"),
        keys,
        counts: [None, None],
        endless: true,
    };
    let mut table = pair("runq", "a thread that was woken runs", scan, "wait_ns", Vec::new());
    let own = vec![
        column("pid", DataType::Uint, Side::Enter, woken("tgid"), "the process that waited"),
        column("tid", DataType::Uint, Side::Enter, woken("pid"), "the thread that waited"),
        column("prio", DataType::Int, Side::Enter, woken("prio"), "its priority"),
        column("cpu", DataType::Uint, Side::Exit, Read::Cpu, "the processor that it runs on"),
    ];
    let times = 2;
    let who = table.columns.len() - 1;
    table.columns.splice(times..who, own);
    let half = |skip: u8| Read::Part { index: 0, member: ("task_struct".to_owned(), "comm".to_owned()), skip };
    let halves = [0, 8].map(|skip| {
        let name = format!("comm_{skip}");
        let half = column(&name, DataType::Uint, Side::Enter, half(skip), "a half of its name");
        table.columns.push(Column { listed: false, ..half });
        table.columns.len() - 1
    });
    table.columns.push(derived("comm", DataType::Text, Source::Name(halves), "the name of the thread that waited"));
    table
}

/// How long threads ran at a time: from the switch to a thread to the one from it.
fn on_cpu() -> Table {
    let task = |index: u8, name: &str| member(index, &[("task_struct", name)]);
    let keys = [task(2, "pid"), task(1, "pid")];
    let about = "a thread ran, and its processor goes on to another";
    let mut table = pair("on_cpu", about, switches(keys), "run_ns", Vec::new());
    // Where it begins the thread before still runs.
    only_at(Side::Exit, &mut table, &["pid", "tid", "comm", "uid", "cgroup_id"]);
    not_idle(table)
}

/// Two switches of one thread.
fn switches(keys: [Read; 2]) -> Scan {
    let switch = || typed("sched_switch");
    Scan::Pair { enter: switch(), exit: switch(), keys, counts: [None, None], endless: true }
}

/// Leaves out the threads that run where nothing else does: all have the number 0.
fn not_idle(mut table: Table) -> Table {
    table.only = Some(compares(&table, "tid", BinaryOp::NotEqual, 0));
    table
}

/// How long threads did not run. Its stacks are those of a thread when it stopped.
fn off_cpu() -> Table {
    let task = |index: u8, name: &str| member(index, &[("task_struct", name)]);
    let keys = [task(1, "pid"), task(2, "pid")];
    let own =
        vec![column("state", DataType::Uint, Side::Enter, state_before(), "why it stopped; 0: it did not want to")];
    let mut table = pair("off_cpu", "a thread stopped running, and runs again", switches(keys), "off_ns", own);
    // Where it ends another thread still runs.
    only_at(Side::Enter, &mut table, &["pid", "tid"]);
    not_idle(table)
}

fn forks() -> Table {
    let task = |index: u8, name: &str| member(index, &[("task_struct", name)]);
    let own = vec![
        column("child_tid", DataType::Uint, Side::Exit, task(1, "pid"), "the new thread"),
        column("child_pid", DataType::Uint, Side::Exit, task(1, "tgid"), "its process; a thread has its parent's"),
    ];
    single("forks", "a process or thread is made", typed("sched_process_fork"), own)
}

fn execs() -> Table {
    let own = vec![
        column("old_tid", DataType::Uint, Side::Exit, argument(1, Scalar::unsigned(4)), "the thread before"),
        column(
            "ppid",
            DataType::Uint,
            Side::Exit,
            member(0, &[("task_struct", "real_parent"), ("task_struct", "tgid")]),
            "the parent process",
        ),
    ];
    let address = Box::new(member(2, &[("linux_binprm", "filename")]));
    let filename = Read::KernelText { address, bytes: PATH_BYTES };
    let mut own = own;
    own.push(column("filename", DataType::Text, Side::Exit, filename, "the program's path as it was asked for"));
    single("execs", "a process runs another program; `comm` is the new name", typed("sched_process_exec"), own)
}

fn exits() -> Table {
    let task = |name: &str| member(0, &[("task_struct", name)]);
    let own = vec![
        column("start_ts", DataType::Time, Side::Exit, task("start_time"), "when it began"),
        column("exit_code", DataType::Int, Side::Exit, task("exit_code"), "as wait() says it: 256 times the status"),
        column(
            "ppid",
            DataType::Uint,
            Side::Exit,
            member(0, &[("task_struct", "real_parent"), ("task_struct", "tgid")]),
            "the parent process",
        ),
    ];
    let mut table = single("exits", "a thread ends", typed("sched_process_exit"), own);
    let [ts, start] = ["ts", "start_ts"].map(|name| table.column(name).expect("it has both"));
    let about = "how long it lived, in nanoseconds";
    table.columns.push(derived("lifetime_ns", DataType::Uint, Source::Difference([ts, start]), about));
    table
}

/// Columns of a packet, which is an argument of its tracepoint.
fn packet(index: u8) -> Vec<Column> {
    let buffer = |name: &str| member(index, &[("sk_buff", name)]);
    vec![
        column("bytes", DataType::Uint, Side::Exit, buffer("len"), "its length"),
        column("protocol_be", DataType::Uint, Side::Exit, buffer("protocol"), "EtherType, in network order"),
    ]
}

fn packets_received() -> Table {
    let about = "a device hands a packet to the stack; pid and comm are by chance";
    in_interrupts(single("packets_received", about, typed("netif_receive_skb"), packet(0)))
}

fn packets_sent() -> Table {
    single("packets_sent", "a packet goes to a device's queue", typed("net_dev_queue"), packet(0))
}

fn packet_drops() -> Table {
    let mut own = packet(0);
    own.push(column("location", DataType::Uint, Side::Exit, Read::Address(1), "the kernel's address"));
    own.push(column("reason", DataType::Uint, Side::Exit, argument(2, Scalar::unsigned(4)), "SKB_DROP_REASON_*"));
    in_interrupts(single("packet_drops", "a packet is dropped", typed("kfree_skb"), own))
}

fn timers() -> Table {
    let own = vec![column("timer", DataType::Uint, Side::Enter, Read::Address(0), "the timer's address")];
    let scan = by_cpu("hrtimer_expire_entry", "hrtimer_expire_exit");
    in_interrupts(pair("timers", "a high-resolution timer's function that returned", scan, "duration_ns", own))
}

fn lock_contention() -> Table {
    let own = vec![
        column("lock", DataType::Uint, Side::Enter, Read::Address(0), "the lock's address"),
        column("flags", DataType::Uint, Side::Enter, argument(1, Scalar::unsigned(4)), "LCB_F_*: which kind"),
        column("ret", DataType::Int, Side::Exit, argument(1, Scalar::signed(4)), "0, or -errno"),
    ];
    let keys = [Read::Tid, Read::Tid];
    // An interrupt may wait for another lock in between.
    let scan = Scan::Pair {
        enter: typed("contention_begin"),
        exit: typed("contention_end"),
        keys,
        counts: [None, None],
        endless: true,
    };
    pair("lock_contention", "a thread waited for a lock in the kernel", scan, "wait_ns", own)
}

fn memory_pressure() -> Table {
    let about = "a thread had to free memory because the machine is short of it";
    reclaims("memory_pressure", about, "mm_vmscan_direct_reclaim")
}

fn cgroup_reclaims() -> Table {
    let about = "a thread had to free memory because a cgroup is at its limit";
    reclaims("cgroup_reclaims", about, "mm_vmscan_memcg_reclaim")
}

/// A thread that frees memory itself before it gets some. What its beginning says is in another order since Linux 7.
fn reclaims(name: &str, about: &str, tracepoint: &str) -> Table {
    let freed = argument(0, Scalar::unsigned(8));
    let own = vec![column("pages", DataType::Uint, Side::Exit, freed, "how many pages it freed")];
    let scan = Scan::Pair {
        enter: typed(&format!("{tracepoint}_begin")),
        exit: typed(&format!("{tracepoint}_end")),
        keys: [Read::Tid, Read::Tid],
        counts: [None, None],
        endless: false,
    };
    pair(name, about, scan, "wait_ns", own)
}

/// The state of the thread that stops at `sched_switch`. One that is preempted may have been about to sleep, but runs on.
fn state_before() -> Read {
    Read::Choice {
        by: Box::new(argument(0, Scalar::unsigned(1))),
        equals: 0,
        then: Box::new(argument(3, Scalar::unsigned(4))),
        otherwise: Box::new(Read::Constant(0)),
    }
}

fn sched_switches() -> Table {
    let task = |index: u8, name: &str| member(index, &[("task_struct", name)]);
    let own = vec![
        column("prev_tid", DataType::Uint, Side::Exit, task(1, "pid"), "the thread that stops running"),
        column("next_tid", DataType::Uint, Side::Exit, task(2, "pid"), "the thread that runs from now on"),
        column(
            "next_pid",
            DataType::Uint,
            Side::Exit,
            task(2, "tgid"),
            "the process of the thread that runs from now on",
        ),
        column("prev_state", DataType::Uint, Side::Exit, state_before(), "why it stops; 0: it did not want to"),
        column("preempt", DataType::Uint, Side::Exit, argument(0, Scalar::unsigned(1)), "1 if it was preempted"),
    ];
    single("sched_switches", "a processor goes from one thread to another", typed("sched_switch"), own)
}

fn wakeups() -> Table {
    let task = |name: &str| member(0, &[("task_struct", name)]);
    let own = vec![
        column("target_tid", DataType::Uint, Side::Exit, task("pid"), "the thread that is woken"),
        column("target_pid", DataType::Uint, Side::Exit, task("tgid"), "its process"),
        column("prio", DataType::Int, Side::Exit, task("prio"), "its priority"),
    ];
    single("wakeups", "a thread is woken", typed("sched_wakeup"), own)
}

fn block_io() -> Table {
    let request = |name: &str| member(0, &[("request", name)]);
    let own = vec![
        column("sector", DataType::Uint, Side::Enter, request("__sector"), "the first sector, of 512 bytes"),
        column("bytes", DataType::Uint, Side::Enter, request("__data_len"), "how much"),
        column("flags", DataType::Uint, Side::Enter, request("cmd_flags"), "operation and flags (REQ_OP_*, REQ_*)"),
        column("error", DataType::Uint, Side::Exit, argument(1, Scalar::unsigned(1)), "blk_status_t; 0: it succeeded"),
    ];
    let key = || argument(0, Scalar::unsigned(8));
    let scan = Scan::Pair {
        enter: typed("block_rq_issue"),
        exit: typed("block_rq_complete"),
        keys: [key(), key()],
        // A requeued request is issued again, and another may then have its address.
        counts: [None, None],
        endless: true,
    };
    let about = "a request that a block device was given and completed";
    let mut table = pair("block_io", about, scan, "service_ns", own);
    // The end happens in an interrupt.
    only_at(Side::Enter, &mut table, &["pid", "tid"]);
    table
}

fn page_faults() -> Table {
    let own = vec![
        column("address", DataType::Uint, Side::Exit, argument(0, Scalar::unsigned(8)), "the address that faulted"),
        column("ip", DataType::Uint, Side::Exit, member(1, &[("pt_regs", "ip")]), "the instruction"),
        column(
            "error_code",
            DataType::Uint,
            Side::Exit,
            argument(2, Scalar::unsigned(8)),
            "the processor's error code",
        ),
    ];
    single("page_faults", "a page fault in user space", typed("page_fault_user"), own)
}

fn signals() -> Table {
    let own = vec![column("signal", DataType::Int, Side::Exit, argument(0, Scalar::signed(4)), "its number")];
    single("signals", "a signal is delivered to the running thread", typed("signal_deliver"), own)
}

/// Pairs of events on one processor, of which one ends before the next begins.
fn by_cpu(enter: &str, exit: &str) -> Scan {
    let keys = [Read::Cpu, Read::Cpu];
    Scan::Pair { enter: typed(enter), exit: typed(exit), keys, counts: [None, None], endless: false }
}

fn irqs() -> Table {
    let own = vec![
        column("irq", DataType::Int, Side::Enter, argument(0, Scalar::signed(4)), "the interrupt's number"),
        column("handled", DataType::Int, Side::Exit, argument(2, Scalar::signed(4)), "1 if the handler knew it"),
    ];
    let scan = by_cpu("irq_handler_entry", "irq_handler_exit");
    in_interrupts(pair("irqs", "an interrupt's handler that returned", scan, "duration_ns", own))
}

fn softirqs() -> Table {
    let own = vec![column("vec", DataType::Uint, Side::Enter, argument(0, Scalar::unsigned(4)), "which: 3 is NET_RX")];
    let scan = by_cpu("softirq_entry", "softirq_exit");
    in_interrupts(pair("softirqs", "a softirq that was handled", scan, "duration_ns", own))
}

/// What the names of fields begin with that say where a text is in a tracepoint's record.
pub const DATA_LOC: &str = "__data_loc_";
/// Bytes of texts in a record of a tracepoint, all together: a program's frame has 512 bytes for a whole record.
const TEXT_BYTES: u16 = 256;
/// Maximum bytes of one of these texts, with the zero behind it.
const MAX_TEXT_BYTES: u16 = 64;

/// The table of a tracepoint, with a column for each number and text in its record.
fn tracepoint(category: &str, event: &str, types: &Btf) -> Option<Table> {
    let structure = format!("trace_event_raw_{event}");
    let id = types.find(&structure, |kind| matches!(kind, Kind::Composite { .. }))?;
    let members: Vec<(&str, TypeId)> =
        types.members(id).iter().map(|field| (types.text(field.name), field.type_id)).collect();
    let texts = members.iter().filter(|(name, type_id)| text_bytes(types, name, *type_id).is_some()).count();
    let most = (TEXT_BYTES / u16::try_from(texts.max(1)).ok()? / 8 * 8).min(MAX_TEXT_BYTES);
    let mut own = Vec::new();
    for (name, type_id) in members {
        let structure = structure.clone();
        let (data_type, what) = match (text_bytes(types, name, type_id), scalar(types, type_id)) {
            (Some(bytes), _) if most > 0 => {
                let bytes = bytes.min(most);
                (DataType::Text, Read::FieldText { structure, name: name.to_owned(), bytes })
            }
            (None, Some(scalar)) if !name.is_empty() && !name.starts_with("__data_loc") => {
                let data_type = if scalar.signed { DataType::Int } else { DataType::Uint };
                (data_type, Read::Field { structure, name: name.to_owned() })
            }
            _ => continue,
        };
        let name = name.strip_prefix(DATA_LOC).unwrap_or(name);
        // Columns that every table has keep their meaning.
        let taken = matches!(name, "ts" | "pid" | "tid" | "comm" | "uid" | "cgroup_id" | "cpu");
        let name = if taken { format!("{event}_{name}") } else { name.to_owned() };
        own.push(column(&name, data_type, Side::Exit, what, "as the tracepoint records it"));
    }
    let hook = Hook::Record { category: category.to_owned(), name: event.to_owned() };
    let name = format!("tracepoint.{category}.{event}");
    Some(with_stacks(single(&name, "the tracepoint happens", hook, own)))
}

/// The bytes of a text with the zero behind it, as a multiple of eight, if a field of a record is text: an array of
/// characters, or where a text is. A text elsewhere in the record may have any length.
fn text_bytes(types: &Btf, name: &str, id: TypeId) -> Option<u16> {
    if name.starts_with(DATA_LOC) {
        return Some(MAX_TEXT_BYTES);
    }
    let Kind::Array { element, count, .. } = types.kind(types.resolve(id)?) else { return None };
    let element = types.resolve(*element)?;
    let is_char = types.size_of(element) == Some(1) && types.name(element) == "char";
    let bytes = u16::try_from(*count).ok().filter(|bytes| is_char && *bytes > 1)?;
    Some(bytes.checked_next_multiple_of(8)?.min(MAX_TEXT_BYTES))
}

/// The size and sign of a type, if it is a number or a pointer.
pub fn scalar(types: &Btf, id: TypeId) -> Option<Scalar> {
    let id = types.resolve(id)?;
    let bytes = u8::try_from(types.size_of(id)?).ok().filter(|bytes| matches!(bytes, 1 | 2 | 4 | 8))?;
    match types.kind(id) {
        Kind::Int { signed, .. } | Kind::Enum { signed, .. } => Some(Scalar { bytes, signed: *signed }),
        Kind::Pointer { .. } => Some(Scalar::unsigned(8)),
        _ => None,
    }
}
