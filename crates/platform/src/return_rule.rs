//! Allowed return values: some hooks refuse a program that could return any other value.

use crate::{AttachType, ProgramType};

/// The rule for `r0` at the main program's `exit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReturnRule {
    /// Any number.
    AnyScalar,
    /// A number from `minimum` to `maximum`, both included.
    Range {
        /// Lowest value allowed.
        minimum: i32,
        /// Highest value allowed.
        maximum: i32,
    },
    /// It depends on the hook named when loading (an LSM hook, a `struct_ops` member, a replaced function).
    DependsOnHook,
}

const fn range(minimum: i32, maximum: i32) -> ReturnRule {
    ReturnRule::Range { minimum, maximum }
}

impl ProgramType {
    /// The rule for the return value. `attach` is the expected attach type, where one was named.
    pub const fn return_rule(self, attach: Option<AttachType>) -> ReturnRule {
        match self {
            ProgramType::CgroupSkb => match attach {
                Some(AttachType::CgroupInetEgress) => range(0, 3),
                _ => range(0, 1),
            },
            ProgramType::CgroupSockAddr => cgroup_address_rule(attach),
            ProgramType::Kprobe => match attach {
                Some(AttachType::TraceKprobeSession | AttachType::TraceUprobeSession) => range(0, 1),
                _ => ReturnRule::AnyScalar,
            },
            ProgramType::Tracing => match attach {
                Some(AttachType::TraceFentry | AttachType::TraceFexit | AttachType::TraceFsession) => range(0, 0),
                Some(AttachType::TraceIter) => range(0, 1),
                _ => ReturnRule::AnyScalar,
            },
            ProgramType::CgroupSock
            | ProgramType::SockOps
            | ProgramType::CgroupDevice
            | ProgramType::CgroupSysctl
            | ProgramType::CgroupSockopt
            | ProgramType::SkLookup
            | ProgramType::Netfilter => range(0, 1),
            ProgramType::Lsm | ProgramType::StructOps | ProgramType::Ext => ReturnRule::DependsOnHook,
            _ => ReturnRule::AnyScalar,
        }
    }
}

const fn cgroup_address_rule(attach: Option<AttachType>) -> ReturnRule {
    match attach {
        Some(AttachType::CgroupInet4Bind | AttachType::CgroupInet6Bind) => range(0, 3),
        Some(
            AttachType::CgroupUdp4Recvmsg
            | AttachType::CgroupUdp6Recvmsg
            | AttachType::CgroupUnixRecvmsg
            | AttachType::CgroupInet4Getpeername
            | AttachType::CgroupInet6Getpeername
            | AttachType::CgroupUnixGetpeername
            | AttachType::CgroupInet4Getsockname
            | AttachType::CgroupInet6Getsockname
            | AttachType::CgroupUnixGetsockname,
        ) => range(1, 1),
        _ => range(0, 1),
    }
}

/// XDP's verdicts, by number.
pub const XDP_ACTIONS: [&str; 5] = ["XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX", "XDP_REDIRECT"];

/// Traffic control's verdicts, by number from `TC_ACT_OK`; `TC_ACT_UNSPEC` is -1.
pub const TC_ACTIONS: [&str; 9] = [
    "TC_ACT_OK",
    "TC_ACT_RECLASSIFY",
    "TC_ACT_SHOT",
    "TC_ACT_PIPE",
    "TC_ACT_STOLEN",
    "TC_ACT_QUEUED",
    "TC_ACT_REPEAT",
    "TC_ACT_REDIRECT",
    "TC_ACT_TRAP",
];

/// The name of a return value, where the program type gives its values names.
///
/// ```
/// use kiln_platform::{ProgramType, action_name};
/// assert_eq!(action_name(ProgramType::Xdp, 2), Some("XDP_PASS"));
/// assert_eq!(action_name(ProgramType::SchedCls, -1), Some("TC_ACT_UNSPEC"));
/// assert_eq!(action_name(ProgramType::SocketFilter, 2), None);
/// ```
pub fn action_name(program_type: ProgramType, value: i32) -> Option<&'static str> {
    let names: &[&'static str] = match program_type {
        ProgramType::Xdp => &XDP_ACTIONS,
        ProgramType::SchedCls | ProgramType::SchedAct if value == -1 => {
            return Some("TC_ACT_UNSPEC");
        }
        ProgramType::SchedCls | ProgramType::SchedAct => &TC_ACTIONS,
        ProgramType::SkSkb | ProgramType::SkMsg | ProgramType::SkReuseport | ProgramType::SkLookup => {
            &["SK_DROP", "SK_PASS"]
        }
        ProgramType::Netfilter => &["NF_DROP", "NF_ACCEPT"],
        _ => &[],
    };
    names.get(usize::try_from(value).ok()?).copied()
}
