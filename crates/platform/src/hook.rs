//! Rules for the arguments and return values of hooks that are not in the kernel's BTF.
//!
//! ```text
//!   tp_btf/kfree_skb       argument 3 (struct sock *) may be null
//!   iter/task              argument 1 (struct task_struct *) may be null, and is trusted
//!   lsm/inode_getsecurity  not to be attached to
//! ```

use crate::ProgramType;

/// A tracepoint with arguments that may be null or an error, contrary to their types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawTracepoint {
    /// Its name.
    pub name: &'static str,
    /// The arguments that may be null, counted from 0.
    pub nullable: &'static [usize],
    /// The arguments that may be an error instead of a pointer, and so count as numbers.
    pub errors: &'static [usize],
}

/// An argument of an iterator program that differs from its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IteratorArgument {
    /// A structure, or null.
    Nullable,
    /// A trusted structure, or null.
    TrustedNullable,
    /// Memory of an unknown size that may be read, or null.
    ReadOnlyBuffer,
    /// Memory of an unknown size, or null.
    Buffer,
}

/// The arguments of an iterator's programs, where they differ from its prototype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IteratorTarget {
    /// Its name, as in `SEC("iter/task")`.
    pub name: &'static str,
    /// Arguments by number, counted from 0.
    pub arguments: &'static [(usize, IteratorArgument)],
}

/// The tracepoint's row, where it has one.
pub fn raw_tracepoint(name: &str) -> Option<&'static RawTracepoint> {
    RAW_TRACEPOINTS.iter().find(|row| row.name == name)
}

/// The iterator of this name.
pub fn iterator_target(name: &str) -> Option<&'static IteratorTarget> {
    ITERATOR_TARGETS.iter().find(|row| row.name == name)
}

/// Whether an LSM hook takes no programs, because there is no rule for its return value.
pub fn is_disabled_lsm_hook(name: &str) -> bool {
    DISABLED_LSM_HOOKS.contains(&name)
}

/// Whether programs on an LSM hook may sleep.
pub fn is_sleepable_lsm_hook(name: &str) -> bool {
    SLEEPABLE_LSM_HOOKS.contains(&name)
}

/// Whether programs on an LSM hook may sleep in kernels with [`Feature::SleepableDeviceHooks`](crate::Feature).
pub fn is_sleepable_device_hook(name: &str) -> bool {
    matches!(name, "bdev_alloc_security" | "bdev_setintegrity")
}

/// Whether programs on a tracepoint may sleep: on those of system calls, which the kernel declares as able to fault.
pub fn is_sleepable_tracepoint(name: &str) -> bool {
    matches!(name, "sys_enter" | "sys_exit")
}

/// Whether no tracing program may be put on a function, because the code that calls the program needs it. Releases before
/// 5.14 take them.
pub fn is_never_traced(function: &str) -> bool {
    NEVER_TRACED.contains(&function)
}

/// Whether a function does not return, so that no program runs at its end. Releases before 6.15 take such programs, and
/// never call them.
pub fn never_returns(function: &str) -> bool {
    NEVER_RETURNING.contains(&function)
}

/// Whether the arguments of an LSM hook are untrusted, because it runs while they are created or freed.
pub fn is_untrusted_lsm_hook(name: &str) -> bool {
    UNTRUSTED_LSM_HOOKS.contains(&name)
}

/// Whether an LSM hook returns a truth value (1 or 0) instead of 0 or an error.
pub fn is_boolean_lsm_hook(name: &str) -> bool {
    BOOLEAN_LSM_HOOKS.contains(&name)
}

const fn tracepoint(name: &'static str, nullable: &'static [usize], errors: &'static [usize]) -> RawTracepoint {
    RawTracepoint { name, nullable, errors }
}

/// Tracepoints with arguments that may be null or errors.
const RAW_TRACEPOINTS: &[RawTracepoint] = &[
    tracepoint("afs_flock_ev", &[1], &[]),
    tracepoint("afs_make_fs_call", &[1], &[]),
    tracepoint("afs_make_fs_call1", &[1], &[]),
    tracepoint("afs_make_fs_call2", &[1], &[]),
    tracepoint("afs_make_fs_calli", &[1], &[]),
    tracepoint("afs_protocol_error", &[0], &[]),
    tracepoint("break_lease_block", &[1], &[]),
    tracepoint("break_lease_noblock", &[1], &[]),
    tracepoint("break_lease_unblock", &[1], &[]),
    tracepoint("cachefiles_io_error", &[0], &[]),
    tracepoint("cachefiles_lookup", &[0], &[2]),
    tracepoint("cachefiles_mark_active", &[0], &[]),
    tracepoint("cachefiles_mark_failed", &[0], &[]),
    tracepoint("cachefiles_mark_inactive", &[0], &[]),
    tracepoint("cachefiles_ondemand_close", &[0], &[]),
    tracepoint("cachefiles_ondemand_copen", &[0], &[]),
    tracepoint("cachefiles_ondemand_cread", &[0], &[]),
    tracepoint("cachefiles_ondemand_fd_release", &[0], &[]),
    tracepoint("cachefiles_ondemand_fd_write", &[0], &[]),
    tracepoint("cachefiles_ondemand_open", &[0], &[]),
    tracepoint("cachefiles_ondemand_read", &[0], &[]),
    tracepoint("cachefiles_prep_read", &[0], &[]),
    tracepoint("cachefiles_rename", &[0], &[]),
    tracepoint("cachefiles_unlink", &[0], &[]),
    tracepoint("cachefiles_vfs_error", &[0], &[]),
    tracepoint("device_pm_callback_start", &[1], &[]),
    tracepoint("ext4_mballoc_discard", &[1], &[]),
    tracepoint("ext4_mballoc_free", &[1], &[]),
    tracepoint("fcntl_setlk", &[1], &[]),
    tracepoint("fib_table_lookup", &[2], &[]),
    tracepoint("flock_lock_inode", &[1], &[]),
    tracepoint("folio_wait_writeback", &[1], &[]),
    tracepoint("generic_delete_lease", &[1], &[]),
    tracepoint("host1x_cdma_push_gather", &[4], &[]),
    tracepoint("hugetlbfs_alloc_inode", &[1], &[]),
    tracepoint("kfree_skb", &[3], &[]),
    tracepoint("locks_remove_posix", &[1], &[]),
    tracepoint("mm_collapse_huge_page_isolate", &[0], &[]),
    tracepoint("mm_khugepaged_collapse_file", &[1], &[]),
    tracepoint("mm_khugepaged_scan_file", &[1], &[]),
    tracepoint("mm_khugepaged_scan_pmd", &[1], &[]),
    tracepoint("mm_page_alloc", &[0], &[]),
    tracepoint("mm_page_alloc_zone_locked", &[0], &[]),
    tracepoint("mm_page_pcpu_drain", &[0], &[]),
    tracepoint("mr_integ_alloc", &[], &[3]),
    tracepoint("netfs_failure", &[1], &[]),
    tracepoint("posix_lock_inode", &[1], &[]),
    tracepoint("qdisc_dequeue", &[3], &[]),
    tracepoint("rxrpc_recvdata", &[0], &[]),
    tracepoint("rxrpc_resend", &[1], &[]),
    tracepoint("sched_pi_setprio", &[1], &[]),
    tracepoint("sched_process_wait", &[0], &[]),
    tracepoint("sched_stick_numa", &[2], &[]),
    tracepoint("sched_swap_numa", &[2], &[]),
    tracepoint("signal_deliver", &[], &[1]),
    tracepoint("signal_generate", &[], &[1]),
    tracepoint("tcp_send_reset", &[0, 1], &[]),
    tracepoint("tcp_sendmsg_locked", &[2], &[]),
    tracepoint("tegra_dma_tx_status", &[2], &[]),
    tracepoint("time_out_leases", &[1], &[]),
    tracepoint("tmigr_update_events", &[0], &[]),
    tracepoint("writeback_dirty_folio", &[1], &[]),
    tracepoint("xfs_blockgc_flush_all", &[0], &[]),
    tracepoint("xfs_blockgc_free_space", &[1], &[]),
    tracepoint("xfs_blockgc_start", &[0], &[]),
    tracepoint("xfs_blockgc_stop", &[0], &[]),
    tracepoint("xfs_blockgc_worker", &[0], &[]),
    tracepoint("xfs_btree_overlapped_query_range", &[2], &[]),
    tracepoint("xfs_btree_updkeys", &[2], &[]),
    tracepoint("xfs_defer_add_item", &[0], &[]),
    tracepoint("xfs_defer_cancel_item", &[0], &[]),
    tracepoint("xfs_defer_cancel_list", &[0], &[]),
    tracepoint("xfs_defer_create_intent", &[0], &[]),
    tracepoint("xfs_defer_finish_item", &[0], &[]),
    tracepoint("xfs_defer_isolate_paused", &[0], &[]),
    tracepoint("xfs_defer_item_pause", &[0], &[]),
    tracepoint("xfs_defer_item_unpause", &[0], &[]),
    tracepoint("xfs_defer_pending_abort", &[0], &[]),
    tracepoint("xfs_defer_pending_finish", &[0], &[]),
    tracepoint("xfs_defer_relog_intent", &[0], &[]),
    tracepoint("xfs_fs_sync_fs", &[0], &[]),
    tracepoint("xfs_inodegc_flush", &[0], &[]),
    tracepoint("xfs_inodegc_push", &[0], &[]),
    tracepoint("xfs_inodegc_queue", &[0], &[]),
    tracepoint("xfs_inodegc_start", &[0], &[]),
    tracepoint("xfs_inodegc_stop", &[0], &[]),
    tracepoint("xfs_inodegc_throttle", &[0], &[]),
    tracepoint("xfs_ioc_free_eofblocks", &[1], &[]),
    tracepoint("xfs_map_blocks_alloc", &[4], &[]),
    tracepoint("xfs_map_blocks_found", &[4], &[]),
    tracepoint("xprt_get_cong", &[1], &[]),
    tracepoint("xprt_put_cong", &[1], &[]),
    tracepoint("xprt_release_cong", &[1], &[]),
    tracepoint("xprt_reserve_cong", &[1], &[]),
    tracepoint("xs_stream_read_data", &[0], &[]),
];

const fn iterator(name: &'static str, arguments: &'static [(usize, IteratorArgument)]) -> IteratorTarget {
    IteratorTarget { name, arguments }
}

const ITERATOR_TARGETS: &[IteratorTarget] = {
    use IteratorArgument::*;
    &[
        iterator("bpf_link", &[(1, Nullable)]),
        iterator("bpf_map", &[(1, TrustedNullable)]),
        iterator("bpf_map_elem", &[(2, ReadOnlyBuffer), (3, Buffer)]),
        iterator("bpf_prog", &[(1, Nullable)]),
        iterator("bpf_sk_storage_map", &[(2, Nullable), (3, Buffer)]),
        iterator("cgroup", &[(1, TrustedNullable)]),
        iterator("dmabuf", &[(1, Nullable)]),
        iterator("ipv6_route", &[(1, Nullable)]),
        iterator("kmem_cache", &[(1, TrustedNullable)]),
        iterator("ksym", &[(1, Nullable)]),
        iterator("netlink", &[(1, Nullable)]),
        iterator("sockmap", &[(2, ReadOnlyBuffer), (3, Nullable)]),
        iterator("task", &[(1, TrustedNullable)]),
        iterator("task_file", &[(1, Nullable), (3, Nullable)]),
        iterator("task_vma", &[(1, Nullable), (2, Nullable)]),
        iterator("tcp", &[(1, TrustedNullable)]),
        iterator("udp", &[(1, TrustedNullable)]),
        iterator("unix", &[(1, Nullable)]),
    ]
};

const DISABLED_LSM_HOOKS: &[&str] = &[
    "audit_rule_match",
    "getprocattr",
    "getselfattr",
    "inode_copy_up_xattr",
    "inode_getsecurity",
    "inode_listsecurity",
    "inode_need_killpriv",
    "ismaclabel",
    "key_getsecurity",
    "setprocattr",
    "vm_enough_memory",
    "xfrm_decode_session",
];

const SLEEPABLE_LSM_HOOKS: &[&str] = &[
    "bpf",
    "bpf_map",
    "bpf_map_create",
    "bpf_map_free",
    "bpf_prog",
    "bpf_prog_load",
    "bpf_token_capable",
    "bpf_token_cmd",
    "bpf_token_create",
    "bpf_token_free",
    "bprm_check_security",
    "bprm_committed_creds",
    "bprm_committing_creds",
    "bprm_creds_for_exec",
    "bprm_creds_from_file",
    "capget",
    "capset",
    "cred_prepare",
    "current_getsecid_subj",
    "file_ioctl",
    "file_lock",
    "file_open",
    "file_post_open",
    "file_receive",
    "inode_create",
    "inode_free_security",
    "inode_getattr",
    "inode_getxattr",
    "inode_mknod",
    "inode_need_killpriv",
    "inode_post_setxattr",
    "inode_readlink",
    "inode_rename",
    "inode_rmdir",
    "inode_setattr",
    "inode_setxattr",
    "inode_symlink",
    "inode_unlink",
    "kernel_module_request",
    "kernel_read_file",
    "kernfs_init_security",
    "mmap_file",
    "netlink_send",
    "path_chmod",
    "path_chown",
    "path_link",
    "path_mkdir",
    "path_notify",
    "path_rename",
    "path_rmdir",
    "path_symlink",
    "path_truncate",
    "path_unlink",
    "release_secctx",
    "sb_alloc_security",
    "sb_eat_lsm_opts",
    "sb_kern_mount",
    "sb_mount",
    "sb_remount",
    "sb_set_mnt_opts",
    "sb_show_options",
    "sb_statfs",
    "sb_umount",
    "settime",
    "socket_accept",
    "socket_bind",
    "socket_connect",
    "socket_create",
    "socket_getpeername",
    "socket_getpeersec_dgram",
    "socket_getsockname",
    "socket_getsockopt",
    "socket_listen",
    "socket_post_create",
    "socket_recvmsg",
    "socket_sendmsg",
    "socket_shutdown",
    "socket_socketpair",
    "syslog",
    "task_alloc",
    "task_getsecid_obj",
    "task_prctl",
    "task_setscheduler",
    "userns_create",
];

const UNTRUSTED_LSM_HOOKS: &[&str] = &[
    "bdev_alloc_security",
    "bdev_free_security",
    "bpf_map_free",
    "bpf_prog_free",
    "file_alloc_security",
    "file_free_security",
    "sk_alloc_security",
    "sk_free_security",
    "task_free",
];

const BOOLEAN_LSM_HOOKS: &[&str] = &["audit_rule_known", "inode_xattr_skipcap", "xfrm_state_pol_flow_match"];
/// A field of a kernel structure that some programs may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WritableField {
    /// The structure that the pointer is to.
    pub structure: &'static str,
    /// The structure at its beginning that has the field.
    pub owner: &'static str,
    /// The field, with dots where it is nested; empty for all of the structure.
    pub field: &'static str,
    /// A structure and field that the field is another name of: only that part of it.
    pub part: Option<(&'static str, &'static str)>,
    /// Writes may begin anywhere in it, not only at its first byte.
    pub anywhere: bool,
}

/// The fields of kernel structures that programs of this type may write; for `struct_ops` programs, those in this
/// kernel structure.
pub fn writable_fields(program_type: ProgramType, struct_ops: Option<&str>) -> &'static [WritableField] {
    match (program_type, struct_ops) {
        (ProgramType::Xdp | ProgramType::SchedCls | ProgramType::SchedAct, _) => CONNTRACK_FIELDS,
        (ProgramType::StructOps, Some("tcp_congestion_ops")) => CONGESTION_CONTROL_FIELDS,
        (ProgramType::StructOps, Some("Qdisc_ops")) => QUEUE_FIELDS,
        (ProgramType::StructOps, Some("bpf_dummy_ops")) => DUMMY_FIELDS,
        (ProgramType::StructOps, Some("sched_ext_ops")) => SCHEDULER_FIELDS,
        _ => &[],
    }
}

/// Whether the kernel refuses programs for a member of one of its `struct_ops` structures.
pub fn is_unsupported_member(structure: &str, member: &str, sleepable: bool) -> bool {
    match structure {
        "tcp_congestion_ops" => member == "get_info",
        "bpf_dummy_ops" => sleepable && member != "test_sleepable",
        _ => false,
    }
}

/// Whether programs of an iterator may call a helper that other tracing programs may not.
pub fn iterator_allows(name: &str, helper: &str) -> bool {
    matches!(name, "tcp" | "unix") && matches!(helper, "setsockopt" | "getsockopt")
}

/// Functions in the kernel's `btf_id_deny`, which depends on its configuration.
const NEVER_TRACED: &[&str] = &[
    "___migrate_enable",
    "__rcu_read_lock",
    "__rcu_read_unlock",
    "migrate_disable",
    "migrate_enable",
    "preempt_count_add",
    "preempt_count_sub",
    "rcu_read_unlock_strict",
];

/// Functions in the kernel's `noreturn_deny`.
const NEVER_RETURNING: &[&str] = &[
    "__ia32_sys_exit",
    "__ia32_sys_exit_group",
    "__kunit_abort",
    "__module_put_and_kthread_exit",
    "__x64_sys_exit",
    "__x64_sys_exit_group",
    "do_exit",
    "do_group_exit",
    "kthread_complete_and_exit",
    "kthread_exit",
    "kunit_try_catch_throw",
    "make_task_dead",
];

/// Whether programs on a hook may not call a helper or kernel function that others of their type may. Walking a path,
/// measuring a file or sending is safe only if no lock is held that it needs.
pub fn hook_refuses(program_type: ProgramType, iterator: bool, hook: &str, helper: &str) -> bool {
    match helper {
        "d_path" if program_type == ProgramType::Lsm => !is_sleepable_lsm_hook(hook),
        "d_path" => program_type == ProgramType::Tracing && !iterator && !PATH_FUNCTIONS.contains(&hook),
        "bpf_ksock_acquire" | "bpf_ksock_release" | "bpf_ksock_send" => hook == "socket_sendmsg",
        "ima_inode_hash" | "ima_file_hash" => !is_sleepable_lsm_hook(hook),
        // They would call themselves.
        "sk_storage_get" | "sk_storage_delete" => {
            program_type == ProgramType::Tracing && !iterator && hook.starts_with("bpf_sk_storage")
        }
        _ => false,
    }
}

/// Functions in which a path may be walked.
const PATH_FUNCTIONS: &[&str] = &[
    "security_file_permission",
    "security_inode_getattr",
    "security_file_open",
    "security_path_truncate",
    "vfs_truncate",
    "vfs_fallocate",
    "dentry_open",
    "vfs_getattr",
    "filp_close",
];

/// Whether a `struct_ops` program may not call a helper that others may, for its member (`structure.member`): a
/// congestion control that is being released must not set options any more. The kernel's test structure has no helpers.
pub fn member_refuses(member: &str, helper: &str) -> bool {
    let queue = member.strip_prefix("Qdisc_ops.");
    match helper {
        "setsockopt" | "getsockopt" if member == "tcp_congestion_ops.release" => true,
        "bpf_skb_get_hash" | "bpf_kfree_skb" | "bpf_dynptr_from_skb" => queue.is_none(),
        "bpf_qdisc_skb_drop" => queue != Some("enqueue"),
        "bpf_qdisc_watchdog_schedule" => !matches!(queue, Some("enqueue" | "dequeue")),
        "bpf_qdisc_bstats_update" => queue != Some("dequeue"),
        _ => member.starts_with("bpf_dummy_ops."),
    }
}

const fn field(structure: &'static str, owner: &'static str, field: &'static str) -> WritableField {
    WritableField { structure, owner, field, part: None, anywhere: false }
}

impl WritableField {
    const fn anywhere(mut self) -> WritableField {
        self.anywhere = true;
        self
    }

    const fn part(mut self, structure: &'static str, field: &'static str) -> WritableField {
        self.part = Some((structure, field));
        self
    }
}

const CONNTRACK_FIELDS: &[WritableField] =
    &[field("nf_conn", "nf_conn", "mark"), field("nf_conn___init", "nf_conn", "mark")];

const CONGESTION_CONTROL_FIELDS: &[WritableField] = &[
    field("tcp_sock", "sock", "sk_pacing_rate"),
    field("tcp_sock", "sock", "sk_pacing_status"),
    field("tcp_sock", "inet_connection_sock", "icsk_ca_priv").anywhere(),
    field("tcp_sock", "inet_connection_sock", "icsk_ack.pending"),
    field("tcp_sock", "tcp_sock", "snd_cwnd"),
    field("tcp_sock", "tcp_sock", "snd_cwnd_cnt"),
    field("tcp_sock", "tcp_sock", "snd_cwnd_stamp"),
    field("tcp_sock", "tcp_sock", "snd_ssthresh"),
    field("tcp_sock", "tcp_sock", "ecn_flags"),
    field("tcp_sock", "tcp_sock", "app_limited"),
];

const QUEUE_FIELDS: &[WritableField] = &[
    field("Qdisc", "Qdisc", "limit"),
    field("Qdisc", "Qdisc", "q.qlen"),
    field("Qdisc", "Qdisc", "qstats").anywhere(),
    field("sk_buff", "sk_buff", "tstamp"),
    field("sk_buff", "sk_buff", "cb").part("qdisc_skb_cb", "data").anywhere(),
];

const DUMMY_FIELDS: &[WritableField] = &[field("bpf_dummy_ops_state", "bpf_dummy_ops_state", "").anywhere()];

const SCHEDULER_FIELDS: &[WritableField] = &[
    field("task_struct", "task_struct", "scx.slice").anywhere(),
    field("task_struct", "task_struct", "scx.dsq_vtime").anywhere(),
    field("task_struct", "task_struct", "scx.disallow").anywhere(),
];
