//! Properties of the tables that need no kernel.

use kiln_platform::*;
use std::collections::BTreeSet;

#[test]
fn helper_numbers_are_dense_and_names_unique() {
    let ids: Vec<u32> = Helper::all().map(|helper| helper.id).collect();
    assert_eq!(ids, (1..HELPER_COUNT as u32).collect::<Vec<_>>());
    let names: BTreeSet<&str> = Helper::all().map(|helper| helper.name).collect();
    assert_eq!(names.len(), ids.len());
    for helper in Helper::all() {
        assert_eq!(Helper::by_id(helper.id).unwrap().name, helper.name);
        assert_eq!(Helper::by_name(helper.name).unwrap().id, helper.id);
    }
    assert!(
        Helper::by_id(0).is_none() && Helper::by_id(HELPER_COUNT as u32).is_none() && Helper::by_id(u32::MAX).is_none()
    );
}

#[test]
fn helper_versions_rise_with_the_numbers() {
    let mut newest = KernelVersion::new(3, 19);
    for helper in Helper::all() {
        assert!(helper.since >= newest, "{} is of {}, after one of {newest}", helper.name, helper.since);
        newest = helper.since;
        assert!(helper.since <= KernelVersion::NEWEST);
        let first_user = helper.allowed.iter().map(ProgramType::since).min();
        assert!(first_user.is_some_and(|user| user <= helper.since), "{} has no user in its first kernel", helper.name);
    }
}

#[test]
fn memory_arguments_come_with_their_sizes() {
    for helper in Helper::all() {
        let prototypes = helper.variants.iter().map(|variant| &variant.prototype).chain([&helper.prototype]);
        for prototype in prototypes {
            assert!(prototype.args.len() <= limits::MAX_ARGUMENTS, "{}", helper.name);
            for (index, kind) in prototype.args.iter().enumerate() {
                let next = prototype.args.get(index + 1);
                let sized = matches!(next, Some(ArgKind::Size { .. }));
                assert_eq!(matches!(kind, ArgKind::Memory(_)), sized, "{} argument {index}", helper.name);
                if matches!(kind, ArgKind::MapKey | ArgKind::MapValue | ArgKind::UninitMapValue) {
                    assert!(prototype.args[..index].contains(&ArgKind::ConstMapPtr), "{}", helper.name);
                }
            }
            let released = prototype.args.iter().filter(|kind| kind.releases()).count();
            assert!(released <= 1, "{} releases {released} references", helper.name);
        }
    }
}

#[test]
fn effects_agree_with_arguments() {
    for helper in Helper::all() {
        let writes = helper.prototype.args.iter().any(|kind| kind.writes_memory());
        let releases = helper.prototype.released_argument().is_some();
        match helper.effect {
            Effect::ResultOnly | Effect::ReadsMemory => {
                assert!(!writes && !releases && !helper.acquires, "{}", helper.name);
                assert!(!helper.changes_packet_data, "{}", helper.name);
                assert_ne!(helper.prototype.returns, ReturnKind::Void, "{} would do nothing", helper.name);
            }
            Effect::WritesArguments => {
                assert!(writes && !releases && !helper.acquires, "{}", helper.name);
                assert!(!helper.changes_packet_data, "{}", helper.name);
            }
            Effect::ChangesItsMap => {
                assert_eq!(helper.prototype.args.first(), Some(&ArgKind::ConstMapPtr), "{}", helper.name);
            }
            Effect::ChangesOutside | Effect::ChangesAllButStack | Effect::Any => {}
        }
        if helper.effect == Effect::ResultOnly {
            assert!(!helper.prototype.args.iter().any(|kind| kind.reads_memory()), "{}", helper.name);
        }
    }
}

#[test]
fn properties_agree_with_arguments() {
    for helper in Helper::all() {
        let name = helper.name;
        let mut args = helper.prototype.args.iter();
        assert_eq!(helper.fills != Fills::Unknown, helper.filled_buffer().is_some(), "{name} fills nothing");
        if let Some(filled) = helper.filled_buffer() {
            assert!(matches!(helper.prototype.args.get(filled.bytes), Some(ArgKind::Size { .. })), "{name}");
            assert!(helper.variants.is_empty(), "{name}: its buffer may be another argument");
        }
        if helper.follows == Follows::Numbers {
            assert!(args.any(|kind| *kind == ArgKind::Anything) || helper.reads_all_arguments, "{name}");
        }
        match helper.stable {
            Stable::Never => {}
            Stable::Always => assert_eq!(helper.effect, Effect::ResultOnly, "{name}"),
            Stable::InLastingElements => assert_eq!(helper.effect, Effect::ReadsMemory, "{name}"),
        }
        assert!(!helper.moves_on || helper.stable == Stable::Never, "{name}");
        assert!(helper.answer_bits == u64::MAX || helper.prototype.returns == ReturnKind::Integer, "{name}");
        // A helper that may change anything is never stable.
        assert!(helper.effect != Effect::Any || helper.stable == Stable::Never, "{name}");
    }
}

#[test]
fn variants_hold_for_allowed_types_and_do_not_overlap() {
    for helper in Helper::all() {
        let mut seen = ProgramTypes::NONE;
        for variant in helper.variants {
            for program_type in variant.program_types.iter() {
                assert!(helper.allowed_in(program_type), "{} in {program_type}", helper.name);
                assert!(!seen.contains(program_type), "{} in {program_type}", helper.name);
            }
            seen = seen.union(variant.program_types);
            assert_ne!(variant.prototype, helper.prototype, "{} varies by nothing", helper.name);
        }
        for (program_type, attach_types) in helper.attach_rules {
            assert!(helper.allowed_in(*program_type) && !attach_types.is_empty(), "{}", helper.name);
        }
    }
}

#[test]
fn context_fields_are_in_order_and_apart() {
    for program_type in ProgramType::ALL {
        let layout = program_type.context();
        assert_eq!(layout.program_type, *program_type);
        let mut end = 0;
        for field in layout.fields {
            assert!(field.offset >= end, "{program_type} {} overlaps", field.name);
            end = field.offset + field.size;
            assert!(end + field.padding <= layout.size, "{program_type} {} runs out", field.name);
            assert!(field.load.widths & !15 == 0 && field.store.widths & !15 == 0);
            assert!(field.since <= KernelVersion::NEWEST);
        }
    }
}

#[test]
fn context_accesses_outside_are_errors_and_never_panics() {
    for program_type in ProgramType::ALL {
        let layout = program_type.context();
        for offset in [i64::MIN, -8, -1, i64::from(layout.size), i64::from(u32::MAX), i64::MAX] {
            for width in [0, 1, 2, 3, 4, 8, 16, u32::MAX] {
                assert!(layout.access(offset, width, false).is_err(), "{program_type} {offset} {width}");
                assert!(layout.access(offset, width, true).is_err(), "{program_type} {offset} {width}");
            }
        }
    }
}

#[test]
fn numbers_and_names_go_both_ways() {
    for program_type in ProgramType::ALL {
        assert_eq!(ProgramType::from_number(program_type.number()), Some(*program_type));
        assert_eq!(ProgramType::from_name(program_type.name()), Some(*program_type));
    }
    for map_type in MapType::ALL {
        assert_eq!(MapType::from_number(map_type.number()), Some(*map_type));
        assert_eq!(MapType::from_name(map_type.name()), Some(*map_type));
    }
    for attach in AttachType::ALL {
        assert_eq!(AttachType::from_number(attach.number()), Some(*attach));
    }
    assert_eq!((ProgramType::ALL.len(), MapType::ALL.len(), AttachType::ALL.len()), (32, 35, 59));
    assert_eq!(ProgramType::from_number(0), None);
    assert_eq!(MapType::from_number(36), None);
}

#[test]
fn map_rules_name_helpers_that_exist_and_take_maps() {
    for map_type in MapType::ALL {
        for name in map_type.rules().helpers.unwrap_or_default() {
            let helper = Helper::by_name(name).unwrap_or_else(|| panic!("{map_type} names {name}"));
            assert!(map_type.allows_helper(helper) || *name == "kptr_xchg", "{map_type} and {name} disagree");
        }
    }
}

/// Section names in use, and what they are: program type, attach type, hook.
const SECTIONS: &[(&str, ProgramType, Option<AttachType>, Option<&str>)] = &[
    ("socket1", ProgramType::SocketFilter, None, None),
    ("xdp", ProgramType::Xdp, Some(AttachType::Xdp), None),
    ("xdp/devmap", ProgramType::Xdp, Some(AttachType::XdpDevmap), None),
    ("xdp_devmap/map_prog", ProgramType::Xdp, None, None),
    ("xdp.frags/cpumap", ProgramType::Xdp, Some(AttachType::XdpCpumap), None),
    ("tc", ProgramType::SchedCls, None, None),
    ("?tc", ProgramType::SchedCls, None, None),
    ("tcx/ingress", ProgramType::SchedCls, Some(AttachType::TcxIngress), None),
    ("classifier", ProgramType::SchedCls, None, None),
    ("action", ProgramType::SchedAct, None, None),
    ("socket", ProgramType::SocketFilter, None, None),
    ("cgroup_skb/egress", ProgramType::CgroupSkb, Some(AttachType::CgroupInetEgress), None),
    ("cgroup/skb", ProgramType::CgroupSkb, None, None),
    ("cgroup/connect4", ProgramType::CgroupSockAddr, Some(AttachType::CgroupInet4Connect), None),
    ("tp/sched/sched_switch", ProgramType::Tracepoint, None, Some("sched/sched_switch")),
    ("raw_tp/sys_enter", ProgramType::RawTracepoint, None, Some("sys_enter")),
    ("tp_btf/sched_switch", ProgramType::Tracing, Some(AttachType::TraceRawTp), Some("sched_switch")),
    ("kprobe/do_unlinkat", ProgramType::Kprobe, None, Some("do_unlinkat")),
    ("kprobe.multi/tcp_*", ProgramType::Kprobe, Some(AttachType::TraceKprobeMulti), Some("tcp_*")),
    ("lsm.s/bprm_committed_creds", ProgramType::Lsm, Some(AttachType::LsmMac), Some("bprm_committed_creds")),
    ("sk_skb/stream_verdict", ProgramType::SkSkb, Some(AttachType::SkSkbStreamVerdict), None),
    ("sk_reuseport/migrate", ProgramType::SkReuseport, Some(AttachType::SkReuseportSelectOrMigrate), None),
    ("struct_ops/dctcp_init", ProgramType::StructOps, None, Some("dctcp_init")),
    ("syscall", ProgramType::Syscall, None, None),
];

#[test]
fn section_names_mean_what_they_do_to_libbpf() {
    for (name, program_type, attach, hook) in SECTIONS {
        let rule = section_program_type(name).unwrap_or_else(|| panic!("{name} is a program section"));
        assert_eq!(rule.program_type, *program_type, "{name}");
        assert_eq!(rule.hook(name), *hook, "{name}");
        if attach.is_some() {
            assert_eq!(rule.attach_type, *attach, "{name}");
        }
    }
    for name in ["", "?", ".maps", "maps", "license", ".text", ".rodata", "version", "xd", "kprobes", "tcp"] {
        assert!(section_program_type(name).is_none(), "{name}");
    }
    assert!(section_program_type("fentry.s/f").unwrap().sleepable);
    assert!(section_program_type("xdp.frags").unwrap().frags);
    assert!(!section_program_type("xdp/foo").unwrap().matches_exactly("xdp/foo"));
}

/// How many helpers releases have, by the last one's number in the `bpf.h` of Linux 6.1 and 6.12, and of libbpf 0.5, 0.7
/// and 1.3, which carry those of 5.15, 5.17 and 6.6.
const HELPERS_BY_RELEASE: &[(KernelVersion, usize)] = &[
    (KernelVersion::new(5, 15), 175),
    (KernelVersion::new(6, 1), 209),
    (KernelVersion::new(6, 6), 211),
    (KernelVersion::new(6, 12), 211),
];

#[test]
fn releases_have_the_helpers_that_their_headers_number() {
    for (release, count) in HELPERS_BY_RELEASE {
        let profile = Profile::of(*release);
        // The first program type that got a helper got it in the helper's own release.
        let has = |helper: &&Helper| helper.allowed.iter().any(|of| profile.lacks_helper(helper, of, None).is_none());
        assert_eq!(Helper::all().filter(has).count(), *count, "{release}");
    }
}

#[test]
fn what_a_release_has_later_ones_have() {
    let releases: Vec<Profile> = (15..=19)
        .map(|minor| (5, minor))
        .chain((0..=19).map(|minor| (6, minor)))
        .chain((0..=KernelVersion::NEWEST.minor).map(|minor| (KernelVersion::NEWEST.major, minor)))
        .map(|(major, minor)| Profile::of(KernelVersion::new(major, minor)))
        .collect();
    for pair in releases.windows(2) {
        let [old, new] = pair else { unreachable!("windows of two") };
        for feature in Feature::ALL {
            let only_there = feature.also() == Some(old.version());
            assert!(new.has(*feature) || !old.has(*feature) || only_there, "{feature:?}");
            assert_eq!(new.has(*feature), new.lacks(*feature).is_none(), "{feature:?}");
        }
        for helper in Helper::all() {
            for program in helper.allowed.iter() {
                let lacks = |profile: &Profile| profile.lacks_helper(helper, program, None).is_some();
                assert!(lacks(old) || !lacks(new), "{} in {program} is in {old} and not in {new}", helper.name);
            }
        }
    }
    let newest = Profile::of(KernelVersion::NEWEST);
    assert!(Feature::ALL.iter().all(|feature| newest.has(*feature) && feature.since() > Profile::OLDEST));
    assert!(Kfunc::all().all(|kfunc| newest.lacks_kfunc(kfunc).is_none() == kfunc.until.is_none()));
}

#[test]
fn what_the_kernel_answered_counts_before_the_tables() {
    let redirect = Helper::by_name("redirect").unwrap();
    let found = Found {
        helpers: [((redirect.id, ProgramType::Xdp), false)].into(),
        features: [(Feature::MayGoto, true)].into(),
        ..Found::default()
    };
    let built_without = Profile::of_running(KernelVersion::new(6, 1), found);
    assert!(built_without.has(Feature::MayGoto) && !built_without.has(Feature::CpuV4));
    let lack = built_without.lacks_helper(redirect, ProgramType::Xdp, None).unwrap();
    assert_eq!(lack.to_string(), "the helper bpf_redirect is not in the running kernel, or not enabled there");
    assert!(built_without.lacks_helper(redirect, ProgramType::SchedCls, None).is_none());
}

#[test]
fn helpers_that_libbpf_replaces_are_as_old_as_their_replacement() {
    let read = Helper::by_name("probe_read_kernel").unwrap();
    let lacks = |profile: &Profile| profile.lacks_helper(read, ProgramType::Kprobe, None).is_some();
    assert!(read.since > Profile::OLDEST && !lacks(&Profile::of(Profile::OLDEST)));
    let found = Found { helpers: [((read.id, ProgramType::Kprobe), false)].into(), ..Found::default() };
    assert!(lacks(&Profile::of_running(KernelVersion::new(6, 18), found)), "a locked kernel gives it to nobody");
}

#[test]
fn kfuncs_that_changed_have_a_row_for_each_time() {
    let of = |major, minor| KernelVersion::new(major, minor);
    let at = |name, version| Kfunc::at(name, version).unwrap();
    assert!(at("bpf_arena_alloc_pages", of(6, 18)).has(KfuncFlag::Sleepable));
    assert!(!at("bpf_arena_alloc_pages", of(7, 0)).has(KfuncFlag::Sleepable));
    let removed = Profile::of(of(7, 2)).lacks_kfunc(at("bpf_wq_set_callback_impl", of(7, 2))).unwrap();
    assert_eq!(removed.to_string(), "the kernel function bpf_wq_set_callback_impl is no more in Linux 7.0 and later");
    for kfunc in Kfunc::all() {
        let others = Kfunc::all().filter(|other| other.name == kfunc.name && other.is_of(kfunc.since));
        assert_eq!(others.count(), 1, "{} has two rows for {}", kfunc.name, kfunc.since);
    }
}
