//! Section names: how an object file says what its programs are.
//!
//! `SEC("xdp/devmap")` on a function makes the loader take it for an XDP program run from a device map. The names
//! follow libbpf. Some are complete, and some continue after a slash with the hook to attach to:
//!
//! ```text
//!   exact   "tcx/ingress"                     only that name
//!   open    "kprobe"       kprobe, kprobe/do_unlinkat
//! ```
//!
//! A leading `?` means that the program is not loaded unless asked for.
//!
//! ```
//! use kiln_platform::{AttachType, ProgramType, section_program_type};
//! let rule = section_program_type("tracepoint/syscalls/sys_enter_openat").unwrap();
//! assert_eq!(rule.program_type, ProgramType::Tracepoint);
//! assert_eq!(rule.hook("tracepoint/syscalls/sys_enter_openat"), Some("syscalls/sys_enter_openat"));
//! assert_eq!(section_program_type("xdp.frags/devmap").unwrap().attach_type, Some(AttachType::XdpDevmap));
//! assert!(section_program_type("license").is_none());
//! ```

use crate::rows::setters;
use crate::{AttachType, ProgramType};

/// The properties that a section name gives its programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionRule {
    /// The name, up to where the hook begins.
    pub name: &'static str,
    /// Whether `/hook` may follow.
    pub takes_hook: bool,
    /// The program type.
    pub program_type: ProgramType,
    /// The attach type to expect, where the name says one.
    pub attach_type: Option<AttachType>,
    /// Old kernels have no attach type here: a loader may omit it if the kernel refuses it.
    pub attach_type_optional: bool,
    /// The program may sleep (`BPF_F_SLEEPABLE`).
    pub sleepable: bool,
    /// The program takes XDP frames in fragments (`BPF_F_XDP_HAS_FRAGS`).
    pub frags: bool,
    /// The hook is found in the kernel's BTF.
    pub target_by_btf: bool,
}

impl SectionRule {
    /// The hook that a section of this rule names, if it names one.
    pub fn hook<'section>(&self, section: &'section str) -> Option<&'section str> {
        bare_name(section).strip_prefix(self.name)?.strip_prefix('/').filter(|hook| !hook.is_empty())
    }

    fn matches(&self, section: &str) -> bool {
        match section.strip_prefix(self.name) {
            Some("") => true,
            Some(rest) => self.takes_hook && rest.starts_with('/'),
            None => false,
        }
    }
}

/// The rule for a section name; none if programs do not live in a section of that name.
///
/// libbpf is strict about `xdp/anything` and `socket1`; loaders before 1.0 were not, and many objects still in use rely
/// on it. Such names get the rule of the longest known name in front of a separator or digit; [`SectionRule::matches_exactly`] tells them
/// apart.
pub fn section_program_type(section: &str) -> Option<&'static SectionRule> {
    let name = bare_name(section);
    let strict = SECTION_RULES.iter().find(|rule| rule.matches(name));
    strict.or_else(|| longest_legacy_rule(name))
}

impl SectionRule {
    /// Whether libbpf 1.0 and later take the section by this rule too.
    pub fn matches_exactly(&self, section: &str) -> bool {
        self.matches(bare_name(section))
    }
}

fn bare_name(section: &str) -> &str {
    section.strip_prefix('?').unwrap_or(section)
}

fn longest_legacy_rule(name: &str) -> Option<&'static SectionRule> {
    let continues = |rule: &&SectionRule| match name.strip_prefix(rule.name) {
        Some(rest) => rest.starts_with(|next: char| next == '/' || next == '_' || next.is_ascii_digit()),
        None => false,
    };
    SECTION_RULES.iter().filter(continues).max_by_key(|rule| rule.name.len())
}

const fn exact(name: &'static str, program_type: ProgramType) -> SectionRule {
    SectionRule {
        name,
        takes_hook: false,
        program_type,
        attach_type: None,
        attach_type_optional: false,
        sleepable: false,
        frags: false,
        target_by_btf: false,
    }
}

const fn open(name: &'static str, program_type: ProgramType) -> SectionRule {
    SectionRule { takes_hook: true, ..exact(name, program_type) }
}

setters! { SectionRule:
    attach(attach_type: AttachType) => attach_type = Some(attach_type);
    optional => attach_type_optional = true;
    sleepable => sleepable = true;
    frags => frags = true;
    target_by_btf => target_by_btf = true;
}

/// The rules. No two match one name.
pub const SECTION_RULES: &[SectionRule] = &[
    exact("socket", ProgramType::SocketFilter),
    exact("sk_reuseport/migrate", ProgramType::SkReuseport).attach(AttachType::SkReuseportSelectOrMigrate),
    exact("sk_reuseport", ProgramType::SkReuseport).attach(AttachType::SkReuseportSelect),
    open("kprobe", ProgramType::Kprobe),
    open("uprobe", ProgramType::Kprobe),
    open("uprobe.s", ProgramType::Kprobe).sleepable(),
    open("kretprobe", ProgramType::Kprobe),
    open("uretprobe", ProgramType::Kprobe),
    open("uretprobe.s", ProgramType::Kprobe).sleepable(),
    open("kprobe.multi", ProgramType::Kprobe).attach(AttachType::TraceKprobeMulti),
    open("kretprobe.multi", ProgramType::Kprobe).attach(AttachType::TraceKprobeMulti),
    open("kprobe.session", ProgramType::Kprobe).attach(AttachType::TraceKprobeSession),
    open("uprobe.session", ProgramType::Kprobe).attach(AttachType::TraceUprobeSession),
    open("uprobe.session.s", ProgramType::Kprobe).attach(AttachType::TraceUprobeSession).sleepable(),
    open("uprobe.multi", ProgramType::Kprobe).attach(AttachType::TraceUprobeMulti),
    open("uretprobe.multi", ProgramType::Kprobe).attach(AttachType::TraceUprobeMulti),
    open("uprobe.multi.s", ProgramType::Kprobe).attach(AttachType::TraceUprobeMulti).sleepable(),
    open("uretprobe.multi.s", ProgramType::Kprobe).attach(AttachType::TraceUprobeMulti).sleepable(),
    open("ksyscall", ProgramType::Kprobe),
    open("kretsyscall", ProgramType::Kprobe),
    open("usdt", ProgramType::Kprobe),
    open("usdt.s", ProgramType::Kprobe).sleepable(),
    exact("tc/ingress", ProgramType::SchedCls).attach(AttachType::TcxIngress),
    exact("tc/egress", ProgramType::SchedCls).attach(AttachType::TcxEgress),
    exact("tcx/ingress", ProgramType::SchedCls).attach(AttachType::TcxIngress),
    exact("tcx/egress", ProgramType::SchedCls).attach(AttachType::TcxEgress),
    exact("tc", ProgramType::SchedCls),
    exact("classifier", ProgramType::SchedCls),
    exact("action", ProgramType::SchedAct),
    exact("netkit/primary", ProgramType::SchedCls).attach(AttachType::NetkitPrimary),
    exact("netkit/peer", ProgramType::SchedCls).attach(AttachType::NetkitPeer),
    open("tracepoint", ProgramType::Tracepoint),
    open("tp", ProgramType::Tracepoint),
    open("raw_tracepoint", ProgramType::RawTracepoint),
    open("raw_tp", ProgramType::RawTracepoint),
    open("tracepoint.s", ProgramType::Tracepoint).sleepable(),
    open("tp.s", ProgramType::Tracepoint).sleepable(),
    open("raw_tracepoint.s", ProgramType::RawTracepoint).sleepable(),
    open("raw_tp.s", ProgramType::RawTracepoint).sleepable(),
    open("raw_tracepoint.w", ProgramType::RawTracepointWritable),
    open("raw_tp.w", ProgramType::RawTracepointWritable),
    open("tp_btf", ProgramType::Tracing).attach(AttachType::TraceRawTp).target_by_btf(),
    open("tp_btf.s", ProgramType::Tracing).attach(AttachType::TraceRawTp).sleepable().target_by_btf(),
    open("fsession", ProgramType::Tracing).attach(AttachType::TraceFsession).target_by_btf(),
    open("fsession.s", ProgramType::Tracing).attach(AttachType::TraceFsession).sleepable().target_by_btf(),
    open("fentry", ProgramType::Tracing).attach(AttachType::TraceFentry).target_by_btf(),
    open("fmod_ret", ProgramType::Tracing).attach(AttachType::ModifyReturn).target_by_btf(),
    open("fexit", ProgramType::Tracing).attach(AttachType::TraceFexit).target_by_btf(),
    open("fentry.s", ProgramType::Tracing).attach(AttachType::TraceFentry).sleepable().target_by_btf(),
    open("fmod_ret.s", ProgramType::Tracing).attach(AttachType::ModifyReturn).sleepable().target_by_btf(),
    open("fexit.s", ProgramType::Tracing).attach(AttachType::TraceFexit).sleepable().target_by_btf(),
    open("freplace", ProgramType::Ext).target_by_btf(),
    open("lsm", ProgramType::Lsm).attach(AttachType::LsmMac).target_by_btf(),
    open("lsm.s", ProgramType::Lsm).attach(AttachType::LsmMac).sleepable().target_by_btf(),
    open("lsm_cgroup", ProgramType::Lsm).attach(AttachType::LsmCgroup).target_by_btf(),
    open("iter", ProgramType::Tracing).attach(AttachType::TraceIter).target_by_btf(),
    open("iter.s", ProgramType::Tracing).attach(AttachType::TraceIter).sleepable().target_by_btf(),
    exact("syscall", ProgramType::Syscall).sleepable(),
    exact("xdp.frags/devmap", ProgramType::Xdp).attach(AttachType::XdpDevmap).frags(),
    exact("xdp/devmap", ProgramType::Xdp).attach(AttachType::XdpDevmap),
    exact("xdp.frags/cpumap", ProgramType::Xdp).attach(AttachType::XdpCpumap).frags(),
    exact("xdp/cpumap", ProgramType::Xdp).attach(AttachType::XdpCpumap),
    exact("xdp.frags", ProgramType::Xdp).attach(AttachType::Xdp).frags(),
    exact("xdp", ProgramType::Xdp).attach(AttachType::Xdp).optional(),
    exact("perf_event", ProgramType::PerfEvent),
    exact("lwt_in", ProgramType::LwtIn),
    exact("lwt_out", ProgramType::LwtOut),
    exact("lwt_xmit", ProgramType::LwtXmit),
    exact("lwt_seg6local", ProgramType::LwtSeg6local),
    exact("sockops", ProgramType::SockOps).attach(AttachType::CgroupSockOps).optional(),
    exact("sk_skb/stream_parser", ProgramType::SkSkb).attach(AttachType::SkSkbStreamParser).optional(),
    exact("sk_skb/stream_verdict", ProgramType::SkSkb).attach(AttachType::SkSkbStreamVerdict).optional(),
    exact("sk_skb/verdict", ProgramType::SkSkb).attach(AttachType::SkSkbVerdict).optional(),
    exact("sk_skb", ProgramType::SkSkb),
    exact("sk_msg", ProgramType::SkMsg).attach(AttachType::SkMsgVerdict).optional(),
    exact("lirc_mode2", ProgramType::LircMode2).attach(AttachType::LircMode2).optional(),
    exact("flow_dissector", ProgramType::FlowDissector).attach(AttachType::FlowDissector).optional(),
    exact("cgroup_skb/ingress", ProgramType::CgroupSkb).attach(AttachType::CgroupInetIngress).optional(),
    exact("cgroup_skb/egress", ProgramType::CgroupSkb).attach(AttachType::CgroupInetEgress).optional(),
    exact("cgroup/skb", ProgramType::CgroupSkb),
    exact("cgroup/sock_create", ProgramType::CgroupSock).attach(AttachType::CgroupInetSockCreate),
    exact("cgroup/sock_release", ProgramType::CgroupSock).attach(AttachType::CgroupInetSockRelease),
    exact("cgroup/sock", ProgramType::CgroupSock).attach(AttachType::CgroupInetSockCreate).optional(),
    exact("cgroup/post_bind4", ProgramType::CgroupSock).attach(AttachType::CgroupInet4PostBind),
    exact("cgroup/post_bind6", ProgramType::CgroupSock).attach(AttachType::CgroupInet6PostBind),
    exact("cgroup/bind4", ProgramType::CgroupSockAddr).attach(AttachType::CgroupInet4Bind),
    exact("cgroup/bind6", ProgramType::CgroupSockAddr).attach(AttachType::CgroupInet6Bind),
    exact("cgroup/connect4", ProgramType::CgroupSockAddr).attach(AttachType::CgroupInet4Connect),
    exact("cgroup/connect6", ProgramType::CgroupSockAddr).attach(AttachType::CgroupInet6Connect),
    exact("cgroup/connect_unix", ProgramType::CgroupSockAddr).attach(AttachType::CgroupUnixConnect),
    exact("cgroup/sendmsg4", ProgramType::CgroupSockAddr).attach(AttachType::CgroupUdp4Sendmsg),
    exact("cgroup/sendmsg6", ProgramType::CgroupSockAddr).attach(AttachType::CgroupUdp6Sendmsg),
    exact("cgroup/sendmsg_unix", ProgramType::CgroupSockAddr).attach(AttachType::CgroupUnixSendmsg),
    exact("cgroup/recvmsg4", ProgramType::CgroupSockAddr).attach(AttachType::CgroupUdp4Recvmsg),
    exact("cgroup/recvmsg6", ProgramType::CgroupSockAddr).attach(AttachType::CgroupUdp6Recvmsg),
    exact("cgroup/recvmsg_unix", ProgramType::CgroupSockAddr).attach(AttachType::CgroupUnixRecvmsg),
    exact("cgroup/getpeername4", ProgramType::CgroupSockAddr).attach(AttachType::CgroupInet4Getpeername),
    exact("cgroup/getpeername6", ProgramType::CgroupSockAddr).attach(AttachType::CgroupInet6Getpeername),
    exact("cgroup/getpeername_unix", ProgramType::CgroupSockAddr).attach(AttachType::CgroupUnixGetpeername),
    exact("cgroup/getsockname4", ProgramType::CgroupSockAddr).attach(AttachType::CgroupInet4Getsockname),
    exact("cgroup/getsockname6", ProgramType::CgroupSockAddr).attach(AttachType::CgroupInet6Getsockname),
    exact("cgroup/getsockname_unix", ProgramType::CgroupSockAddr).attach(AttachType::CgroupUnixGetsockname),
    exact("cgroup/sysctl", ProgramType::CgroupSysctl).attach(AttachType::CgroupSysctl),
    exact("cgroup/getsockopt", ProgramType::CgroupSockopt).attach(AttachType::CgroupGetsockopt),
    exact("cgroup/setsockopt", ProgramType::CgroupSockopt).attach(AttachType::CgroupSetsockopt),
    exact("cgroup/dev", ProgramType::CgroupDevice).attach(AttachType::CgroupDevice).optional(),
    open("struct_ops", ProgramType::StructOps),
    open("struct_ops.s", ProgramType::StructOps).sleepable(),
    exact("sk_lookup", ProgramType::SkLookup).attach(AttachType::SkLookup),
    exact("netfilter", ProgramType::Netfilter).attach(AttachType::Netfilter),
];
