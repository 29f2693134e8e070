//! Control groups and remote controls: sysctl, local storage, the return value so far, infrared.

use super::row::*;

/// The rows, in the order of their numbers.
pub(super) const HELPERS: &[Helper] = &[
    helper(17, "get_cgroup_classid", 4, 3)
        .cost(Cost::Constant)
        .variants(&[variant(any_of(&[LWT, TC]), Prototype::new(&[Context], ReturnKind::Integer))])
        .capability(Bpf)
        .effect(ReadsMemory)
        .allowed(ALL),
    helper(77, "rc_repeat", 4, 18).args(&[Context]).gpl_only().effect(ChangesAllButStack).allowed(LIRC_MODE2),
    helper(78, "rc_keydown", 4, 18)
        .args(&[Context, Anything, Anything, Anything])
        .gpl_only()
        .effect(ChangesAllButStack)
        .allowed(LIRC_MODE2),
    helper(81, "get_local_storage", 4, 19)
        .cost(Cost::Constant)
        .args(&[ConstMapPtr, Anything])
        .returns(ReturnKind::MapValue)
        .effect(ReadsMemory)
        .allowed(any_of(&[
            CGROUP_SKB,
            CGROUP_SOCK,
            SOCK_OPS,
            CGROUP_DEVICE,
            CGROUP_SOCK_ADDR,
            CGROUP_SYSCTL,
            CGROUP_SOCKOPT,
            LSM,
        ]))
        .attach_rules(&[(ProgramType::Lsm, LSM_CGROUP)]),
    helper(92, "rc_pointer_rel", 5, 0)
        .args(&[Context, Anything, Anything])
        .gpl_only()
        .effect(ChangesAllButStack)
        .allowed(LIRC_MODE2),
    helper(101, "sysctl_get_name", 5, 2)
        .args(&[Context, READ_WRITE, SIZE, Anything])
        .effect(WritesArguments)
        .allowed(CGROUP_SYSCTL),
    helper(102, "sysctl_get_current_value", 5, 2)
        .args(&[Context, WRITE_UNINIT, SIZE])
        .effect(WritesArguments)
        .allowed(CGROUP_SYSCTL),
    helper(103, "sysctl_get_new_value", 5, 2)
        .args(&[Context, WRITE_UNINIT, SIZE])
        .effect(WritesArguments)
        .allowed(CGROUP_SYSCTL),
    helper(104, "sysctl_set_new_value", 5, 2)
        .when_ignored("the value may be the old one")
        .args(&[Context, READ, SIZE])
        .effect(ChangesAllButStack)
        .allowed(CGROUP_SYSCTL),
    helper(186, "get_retval", 5, 18)
        .cost(Cost::Constant)
        .effect(ReadsMemory)
        .allowed(any_of(&[CGROUP_SOCK, CGROUP_DEVICE, CGROUP_SOCK_ADDR, CGROUP_SYSCTL, CGROUP_SOCKOPT, LSM]))
        .attach_rules(&[(ProgramType::CgroupSockAddr, ADDRESS_VERDICT), (ProgramType::Lsm, LSM_CGROUP)]),
    helper(187, "set_retval", 5, 18)
        .cost(Cost::Constant)
        .args(&[Anything])
        .effect(ChangesAllButStack)
        .allowed(any_of(&[CGROUP_SOCK, CGROUP_DEVICE, CGROUP_SOCK_ADDR, CGROUP_SYSCTL, CGROUP_SOCKOPT, LSM]))
        .attach_rules(&[(ProgramType::CgroupSockAddr, ADDRESS_VERDICT), (ProgramType::Lsm, LSM_CGROUP)]),
];
