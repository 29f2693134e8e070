//! Values that end a run early and do the least harm: what a guard returns where the program would be unsafe.
//!
//! A hook has a row only if one value is right whatever the program is for: it changes nothing, or it drops a packet where
//! somebody sees it. Hooks that decide whether something is allowed have none. There, 0 drops or forbids without a
//! trace, and 1 lets through what the program may be there to stop. Only its author knows which is worse.

use kiln_platform::ProgramType;

/// A value that ends a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndValue {
    /// What the program returns.
    pub value: i32,
    /// What the kernel does then.
    pub meaning: &'static str,
}

const OBSERVES: &str = "the event is not recorded; nothing else changes";

/// The rows.
const VALUES: &[(ProgramType, i32, &str)] = &[
    (ProgramType::Xdp, 0, "XDP_ABORTED: the packet is dropped, and the tracepoint xdp:xdp_exception tells of it"),
    (ProgramType::SchedCls, 2, "TC_ACT_SHOT: the packet is dropped and counted as such by the queueing discipline"),
    (ProgramType::SchedAct, 2, "TC_ACT_SHOT: the packet is dropped and counted as such by the action"),
    (ProgramType::SocketFilter, 0, "this socket does not get the packet, and its count of drops grows"),
    (ProgramType::LwtIn, 2, "BPF_DROP: the packet is dropped, with a reason that drop monitors see"),
    (ProgramType::LwtOut, 2, "BPF_DROP: the packet is dropped, with a reason that drop monitors see"),
    (ProgramType::LwtXmit, 2, "BPF_DROP: the packet is dropped, with a reason that drop monitors see"),
    (ProgramType::Kprobe, 0, OBSERVES),
    (ProgramType::Tracepoint, 0, OBSERVES),
    (ProgramType::RawTracepoint, 0, OBSERVES),
    (ProgramType::RawTracepointWritable, 0, OBSERVES),
    (ProgramType::PerfEvent, 0, OBSERVES),
    (ProgramType::Tracing, 0, OBSERVES),
];

/// Returns the value that ends a run with the least harm, or `None` where no value is right for every program of the type.
pub fn end_value(program_type: ProgramType) -> Option<EndValue> {
    let row = VALUES.iter().find(|(own, ..)| *own == program_type);
    row.map(|(_, value, meaning)| EndValue { value: *value, meaning })
}

#[cfg(test)]
mod tests {
    use kiln_platform::ReturnRule;

    use super::*;

    #[test]
    fn hooks_that_allow_or_forbid_have_no_value() {
        use ProgramType::{CgroupDevice, CgroupSkb, CgroupSock, CgroupSockAddr, Lsm, Netfilter, SkLookup, StructOps};
        for program_type in [CgroupDevice, CgroupSkb, CgroupSock, CgroupSockAddr, Lsm, Netfilter, SkLookup, StructOps] {
            assert_eq!(end_value(program_type), None, "{}", program_type.name());
        }
    }

    #[test]
    fn every_value_is_allowed_and_stands_once() {
        for (at, (program_type, value, _)) in VALUES.iter().enumerate() {
            assert!(VALUES[..at].iter().all(|(other, ..)| other != program_type));
            match program_type.return_rule(None) {
                ReturnRule::AnyScalar => {}
                ReturnRule::Range { minimum, maximum } => assert!((minimum..=maximum).contains(value)),
                ReturnRule::DependsOnHook => panic!("{}", program_type.name()),
            }
        }
    }
}
