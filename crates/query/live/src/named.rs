//! Queries by name: `kiln query @runqlat` asks what BCC's tool of this name shows.

use kiln_sql::{Error, similar};

/// A query with a name.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// Its name, as in BCC and bpftrace where they have it.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// The query.
    pub sql: &'static str,
}

const fn row(name: &'static str, about: &'static str, sql: &'static str) -> Named {
    Named { name, about, sql }
}

/// All of them, by name.
#[rustfmt::skip]
pub const NAMED: &[Named] = &[
    row("bindsnoop", "addresses that sockets are bound to, by descriptor", "SELECT ts, comm, pid, args[0] AS fd, ret FROM syscalls WHERE name = 'bind'"),
    row("biolatency", "how long block requests take", "SELECT histogram(service_ns), p99(service_ns) FROM block_io"),
    row("biolatpcts", "how long block requests take, each second", "SELECT count(*) AS requests, p50(service_ns), p90(service_ns), p99(service_ns), max(service_ns) AS slowest_ns FROM block_io WINDOW 1 SECOND"),
    row("biosnoop", "block requests, one by one", "SELECT ts, comm, pid, sector, bytes, service_ns, error FROM block_io"),
    row("biostacks", "who makes block devices work longest, by stack", "SELECT comm, kstack, count(*) AS requests, sum(service_ns) AS total_ns FROM block_io GROUP BY comm, kstack ORDER BY total_ns DESC LIMIT 20"),
    row("biotop", "who asks block devices for most, each second", "SELECT comm, pid, count(*) AS requests, sum(bytes) AS bytes, max(service_ns) AS slowest_ns FROM block_io GROUP BY comm, pid ORDER BY bytes DESC LIMIT 20 WINDOW 1 SECOND"),
    row("bitesize", "sizes of block requests", "SELECT comm, histogram(bytes) FROM block_io GROUP BY comm"),
    row("bpfsnoop", "calls of bpf()", "SELECT ts, comm, pid, args[0] AS command, ret, latency_ns FROM syscalls WHERE name = 'bpf'"),
    row("cgrouptop", "whose processes run most, by cgroup and container, each second", "SELECT c.path, c.container, sum(run_ns) AS run_ns, count(*) AS runs FROM on_cpu o LEFT JOIN cgroups c ON c.id = o.cgroup_id GROUP BY c.path, c.container ORDER BY run_ns DESC LIMIT 20 WINDOW 1 SECOND"),
    row("cpudist", "how long threads run at a time", "SELECT histogram(run_ns), p50(run_ns), p99(run_ns) FROM on_cpu"),
    row("cputop", "who runs most, each second", "SELECT comm, pid, sum(run_ns) AS run_ns, count(*) AS runs, max(run_ns) AS longest_ns FROM on_cpu GROUP BY comm, pid ORDER BY run_ns DESC LIMIT 20 WINDOW 1 SECOND"),
    row("cpuwalk", "which processors work", "SELECT cpu, count(*) AS samples FROM samples WHERE pid > 0 GROUP BY cpu ORDER BY cpu"),
    row("dnstop", "names that are asked for most", "SELECT name, type, rcode, count(*) AS questions, max(latency_ns) AS slowest_ns FROM dns GROUP BY name, type, rcode ORDER BY questions DESC LIMIT 30"),
    row("drsnoop", "who had to free memory, and how long it took", "SELECT ts, comm, pid, wait_ns, pages FROM memory_pressure"),
    row("execsnoop", "programs that are started", "SELECT ts, comm, pid, ppid, uid, filename FROM execs"),
    row("exectop", "programs that are started most", "SELECT filename, count(*) AS starts FROM execs GROUP BY filename ORDER BY starts DESC LIMIT 30"),
    row("exitsnoop", "how processes end, and how long they lived", "SELECT ts, comm, pid, ppid, exit_code / 256 AS status, exit_code & 127 AS signal, lifetime_ns FROM exits WHERE pid = tid"),
    row("faultstacks", "where programs fault pages in, by stack", "SELECT comm, ustack, count(*) AS faults FROM page_faults GROUP BY comm, ustack ORDER BY faults DESC LIMIT 20"),
    row("filereads", "how long reads of files take, by program", "SELECT comm, count(*) AS reads, sum(ret) AS bytes, histogram(latency_ns) FROM file_reads GROUP BY comm"),
    row("fileslower", "reads and writes of files that took longer than 10 ms", "SELECT ts, comm, pid, 'R' AS kind, ret AS bytes, latency_ns, path FROM file_reads WHERE latency_ns > 10ms UNION ALL SELECT ts, comm, pid, 'W', ret, latency_ns, path FROM file_writes WHERE latency_ns > 10ms"),
    row("filetop", "who reads and writes most by system calls, each second", "SELECT comm, pid, name, count(*) AS calls, sum(ret) AS bytes FROM syscalls WHERE name IN ('read', 'pread64', 'write', 'pwrite64') AND ret > 0 GROUP BY comm, pid, name ORDER BY bytes DESC LIMIT 20 WINDOW 1 SECOND"),
    row("filewrites", "how long writes to files take, by program", "SELECT comm, count(*) AS writes, sum(ret) AS bytes, histogram(latency_ns) FROM file_writes GROUP BY comm"),
    row("futexctn", "waits for locks of programs", "SELECT comm, pid, count(*) AS waits, sum(latency_ns) AS total_ns, histogram(latency_ns) FROM syscalls WHERE name = 'futex' AND args[1] & 127 IN (0, 9) GROUP BY comm, pid ORDER BY total_ns DESC LIMIT 20"),
    row("gethostlatency", "names that are asked for, and how long the answer takes", "SELECT ts, comm, pid, name, type, rcode, answers, latency_ns FROM dns"),
    row("hardirqs", "time in interrupts", "SELECT irq, count(*) AS calls, sum(duration_ns) AS total_ns, max(duration_ns) AS longest_ns FROM irqs GROUP BY irq ORDER BY total_ns DESC"),
    row("httpsnoop", "first lines of HTTP in plain text", "SELECT ts, comm, pid, call, line, latency_ns FROM http"),
    row("killsnoop", "signals that are sent", "SELECT ts, comm, pid, args[0] AS target, args[1] AS signal, ret FROM syscalls WHERE name IN ('kill', 'tkill', 'tgkill')"),
    row("klockstat", "where threads wait for locks in the kernel", "SELECT kstack, count(*) AS waits, sum(wait_ns) AS total_ns, max(wait_ns) AS longest_ns FROM lock_contention GROUP BY kstack ORDER BY total_ns DESC LIMIT 20"),
    row("modsnoop", "kernel modules that are loaded and unloaded", "SELECT ts, comm, pid, name, ret FROM syscalls WHERE name IN ('init_module', 'finit_module', 'delete_module')"),
    row("mountsnoop", "file systems that are mounted", "SELECT ts, comm, pid, name, ret FROM syscalls WHERE name IN ('mount', 'umount2', 'move_mount', 'fsmount')"),
    row("naptime", "who sleeps, and for how long", "SELECT comm, name, count(*) AS naps, histogram(latency_ns) FROM syscalls WHERE name IN ('nanosleep', 'clock_nanosleep') GROUP BY comm, name"),
    row("netqtop", "packets that are sent, each second", "SELECT comm, count(*) AS packets, sum(bytes) AS bytes FROM packets_sent GROUP BY comm ORDER BY bytes DESC LIMIT 20 WINDOW 1 SECOND"),
    row("nssnoop", "namespaces that are made and entered", "SELECT ts, comm, pid, name, args[0] AS first, args[1] AS second, ret FROM syscalls WHERE name IN ('unshare', 'setns')"),
    row("offcpu", "where threads stop running, by stack", "SELECT kstack, count(*) AS times FROM sched_switches WHERE prev_state > 0 GROUP BY kstack ORDER BY times DESC LIMIT 20"),
    row("offcpudist", "how long threads do not run", "SELECT histogram(off_ns), p50(off_ns), p99(off_ns) FROM off_cpu"),
    row("offcputime", "why threads wait, and how long, by stack: lines of a flame graph", "SELECT comm, kstack, sum(off_ns) AS total_ns FROM off_cpu WHERE state > 0 GROUP BY comm, kstack ORDER BY total_ns DESC"),
    row("oomkill", "processes that are killed for memory", "SELECT ts, comm, pid, victim_comm, victim_pid, anon_kb, total_kb FROM oom_kills"),
    row("opensnoop", "files that are opened", "SELECT ts, comm, pid, path, ret FROM file_opens"),
    row("pagefaults", "page faults, by program", "SELECT comm, count(*) AS faults FROM page_faults GROUP BY comm ORDER BY faults DESC"),
    row("pidpersec", "processes and threads that are made, each second", "SELECT count(*) FROM forks WINDOW 1 SECOND"),
    row("pollsnoop", "who waits for descriptors, and how long", "SELECT comm, name, count(*) AS waits, sum(latency_ns) AS total_ns FROM syscalls WHERE name IN ('poll', 'ppoll', 'select', 'pselect6', 'epoll_wait', 'epoll_pwait', 'epoll_pwait2') GROUP BY comm, name ORDER BY total_ns DESC LIMIT 30"),
    row("profile", "what programs run, by stack: lines of a flame graph", "SELECT comm, ustack, count(*) AS samples FROM samples WHERE pid > 0 GROUP BY comm, ustack ORDER BY samples DESC"),
    row("profilekernel", "what the kernel runs, by stack: lines of a flame graph", "SELECT kstack, count(*) AS samples FROM samples WHERE pid > 0 GROUP BY kstack ORDER BY samples DESC"),
    row("ptracesnoop", "who looks into other processes", "SELECT ts, comm, pid, name, args[0] AS first, args[1] AS second, ret FROM syscalls WHERE name IN ('ptrace', 'process_vm_readv', 'process_vm_writev', 'pidfd_getfd')"),
    row("readtop", "files that are read most, each second", "SELECT comm, pid, path, count(*) AS reads, sum(ret) AS bytes FROM file_reads GROUP BY comm, pid, path ORDER BY bytes DESC LIMIT 20 WINDOW 1 SECOND"),
    row("runqlat", "how long threads wait for a processor", "SELECT histogram(wait_ns), p50(wait_ns), p99(wait_ns) FROM runq"),
    row("runqslower", "threads that waited longer than 10 ms for a processor", "SELECT ts, comm, pid, tid, cpu, wait_ns FROM runq WHERE wait_ns > 10ms"),
    row("runqtop", "who waits longest for a processor, each second", "SELECT comm, pid, count(*) AS waits, sum(wait_ns) AS total_ns, max(wait_ns) AS longest_ns FROM runq GROUP BY comm, pid ORDER BY total_ns DESC LIMIT 20 WINDOW 1 SECOND"),
    row("setuids", "who changes the user", "SELECT ts, comm, pid, uid, name, args[0] AS first, ret FROM syscalls WHERE name IN ('setuid', 'setresuid', 'setreuid', 'setfsuid')"),
    row("shmsnoop", "shared memory of System V", "SELECT ts, comm, pid, name, args[0] AS first, args[1] AS second, ret FROM syscalls WHERE name IN ('shmget', 'shmat', 'shmdt', 'shmctl')"),
    row("sigsnoop", "signals that are delivered", "SELECT ts, comm, pid, signal FROM signals"),
    row("socksnoop", "sockets that are made: family and type", "SELECT ts, comm, pid, args[0] AS family, args[1] AS type, args[2] AS protocol, ret FROM syscalls WHERE name IN ('socket', 'socketpair')"),
    row("softirqs", "time in softirqs", "SELECT vec, count(*) AS calls, sum(duration_ns) AS total_ns, max(duration_ns) AS longest_ns FROM softirqs GROUP BY vec ORDER BY total_ns DESC"),
    row("solisten", "sockets that begin to listen", "SELECT ts, comm, pid, args[0] AS fd, args[1] AS backlog, ret FROM syscalls WHERE name = 'listen'"),
    row("syncsnoop", "who waits for the disk to have it", "SELECT ts, comm, pid, name, latency_ns FROM syscalls WHERE name IN ('sync', 'fsync', 'fdatasync', 'syncfs', 'msync')"),
    row("syscount", "system calls by name, with their time and errors", "SELECT name, count(*) AS calls, sum(latency_ns) AS total_ns, sum(CASE WHEN ret BETWEEN -4095 AND -1 THEN 1 ELSE 0 END) AS errors FROM syscalls GROUP BY name ORDER BY calls DESC LIMIT 30"),
    row("syserrors", "system calls that fail, with the name of the error", "SELECT comm, s.name, n.name AS error, count(*) AS times FROM syscalls s LEFT JOIN errno n ON n.errno = -s.ret WHERE s.ret BETWEEN -4095 AND -1 GROUP BY comm, s.name, n.name ORDER BY times DESC LIMIT 30"),
    row("sysslower", "system calls that took longer than 10 ms", "SELECT ts, comm, pid, name, latency_ns FROM syscalls WHERE latency_ns > 10ms"),
    row("tcpaccept", "connections from elsewhere", "SELECT ts, saddr, sport, daddr, dport FROM tcp_accepts"),
    row("tcpconnect", "connections that are asked for", "SELECT ts, comm, pid, saddr, daddr, dport, state FROM tcp_connects"),
    row("tcpconnlat", "how long connections take to be established", "SELECT daddr, dport, count(*) AS connections, p50(latency_ns), p99(latency_ns) FROM tcp_connects WHERE state = 1 GROUP BY daddr, dport"),
    row("tcpdrop", "packets that are dropped, by place", "SELECT kstack, reason, count(*) AS packets FROM packet_drops GROUP BY kstack, reason ORDER BY packets DESC LIMIT 20"),
    row("tcplife", "how long connections lasted and what they carried", "SELECT ts, pid, comm, saddr, sport, daddr, dport, bytes_sent, bytes_received, duration_ns / 1000 AS duration_us FROM tcp_connections"),
    row("tcppeers", "who is talked to most, of connections that ended", "SELECT daddr, dport, count(*) AS connections, sum(bytes_sent) AS sent, sum(bytes_received) AS received FROM tcp_closes GROUP BY daddr, dport ORDER BY sent + received DESC LIMIT 30"),
    row("tcpretrans", "TCP segments that are sent again", "SELECT ts, saddr, sport, daddr, dport FROM tcp_retransmits"),
    row("tcprtt", "round trips of connections, when they end", "SELECT histogram(rtt_us), p50(rtt_us), p99(rtt_us) FROM tcp_closes"),
    row("tcpstates", "what becomes of connections", "SELECT ts, saddr, sport, daddr, dport, old, new FROM tcp_states"),
    row("threadsnoop", "threads and processes that are made", "SELECT ts, comm, pid, child_pid, child_tid FROM forks"),
    row("vfsstat", "calls that read, write, sync and open, each second", "SELECT count(*) FILTER (WHERE name IN ('read', 'pread64', 'readv')) AS reads, count(*) FILTER (WHERE name IN ('write', 'pwrite64', 'writev')) AS writes, count(*) FILTER (WHERE name IN ('fsync', 'fdatasync', 'sync')) AS syncs, count(*) FILTER (WHERE name IN ('open', 'openat', 'openat2', 'creat')) AS opens FROM syscalls WINDOW 1 SECOND"),
    row("wakeuptime", "who wakes others, by stack", "SELECT comm, kstack, count(*) AS wakeups FROM wakeups GROUP BY comm, kstack ORDER BY wakeups DESC LIMIT 20"),
    row("writetop", "files that are written most, each second", "SELECT comm, pid, path, count(*) AS writes, sum(ret) AS bytes FROM file_writes GROUP BY comm, pid, path ORDER BY bytes DESC LIMIT 20 WINDOW 1 SECOND"),
];

/// The query of a text: that with a name for `@name`, else the text itself.
///
/// # Errors
/// If there is no query of this name.
pub fn query(text: &str) -> Result<&str, Error> {
    let Some(name) = text.trim().strip_prefix('@') else { return Ok(text) };
    let found = NAMED.iter().find(|query| query.name.eq_ignore_ascii_case(name));
    found.map(|query| query.sql).ok_or_else(|| {
        let error = Error::new(format!("there is no query `@{name}`"));
        let close = similar(name, NAMED.iter().map(|query| query.name));
        error.help(close.unwrap_or_else(|| "`kiln query @` lists those there are".to_owned()))
    })
}
