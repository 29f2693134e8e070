//! What surrounds a verified program may not break what the verifier relied on: the shape of inner maps, the type of
//! programs in prog arrays, constants in frozen maps, sizes of keys and values.

use kiln_platform::MapType;
use kiln_vm::{Definition, Engine, Errno, Error, Input, Options, Socket, Surroundings, UpdateFlag, Vm};

fn vm(text: &str) -> Vm {
    Vm::new(&kiln_program::text::parse(text).expect("it parses"), Options::default()).expect("a VM")
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, expected: Errno) {
    match result {
        Err(Error::Operation { errno, .. }) => assert_eq!(errno, expected),
        other => panic!("{other:?} instead of {expected}"),
    }
}

fn like_template() -> Definition {
    Definition {
        name: "inner".to_owned(),
        map_type: MapType::Array,
        key_size: 4,
        value_size: 8,
        max_entries: 2,
        flags: 0,
        extra: 0,
        locks: Vec::new(),
    }
}

/// Writes the last eight bytes of what the template says a value is.
const MAP_IN_MAP: &str = "
; map outer array_of_maps key 4 value 4 entries 2
; inner template array key 4 value 8 entries 2
; program xdp name main
  *(u32 *)(r10 - 4) = 0
  r1 = map[outer]
  r2 = r10
  r2 += -4
  call map_lookup_elem
  if r0 == 0 goto out
  r1 = r0
  r2 = r10
  r2 += -4
  call map_lookup_elem
  if r0 == 0 goto out
  *(u64 *)(r0 + 0) = 7
out:
  r0 = 2
  exit
";

#[test]
fn inner_maps_are_like_their_template() {
    let mut vm = vm(MAP_IN_MAP);
    let outer = vm.map("outer").expect("the map");
    let unlike = [
        Definition { value_size: 4, ..like_template() },
        Definition { max_entries: 1, ..like_template() },
        Definition { flags: 1 << 7, ..like_template() },
        Definition { map_type: MapType::Hash, ..like_template() },
        Definition { map_type: MapType::Hash, key_size: 8, ..like_template() },
    ];
    for definition in unlike {
        let inner = vm.create_map(definition).expect("a map");
        refused(vm.set_inner_map(outer, &[0; 4], inner), Errno::EINVAL);
    }
    let inner = vm.create_map(like_template()).expect("a map");
    vm.set_inner_map(outer, &[0; 4], inner).expect("it is like the template");
    refused(vm.set_inner_map(outer, &[0; 8], inner), Errno::EINVAL);
    refused(vm.set_inner_map(outer, &2u32.to_ne_bytes(), inner), Errno::E2BIG);
    refused(vm.set_inner_map(inner, &[0; 4], inner), Errno::EINVAL);
    vm.load("main").expect("it is accepted");
    for engine in [Engine::Interpreter, Engine::Jit] {
        vm.update(inner, &[0; 4], &[0; 8], UpdateFlag::Any).expect("an update");
        vm.run("main", &Input::packet(&[0; 64]), engine).expect("a run");
        assert_eq!(vm.look_up(inner, &[0; 4]).expect("a lookup"), Some(7u64.to_ne_bytes().to_vec()));
    }
}

#[test]
fn sizes_are_the_definitions() {
    let mut vm = vm("; program xdp name main\nr0 = 2\nexit");
    for map_type in [MapType::Array, MapType::Hash, MapType::LruHash] {
        let map = vm.create_map(Definition { map_type, ..like_template() }).expect("a map");
        for (key, value) in [(3, 8), (5, 8), (0, 8), (4, 7), (4, 9), (4, 0)] {
            refused(vm.update(map, &vec![0; key], &vec![0; value], UpdateFlag::Any), Errno::EINVAL);
        }
        refused(vm.look_up(map, &[0; 3]), Errno::EINVAL);
        refused(vm.delete(map, &[0; 8]), Errno::EINVAL);
        vm.update(map, &[0; 4], &[1; 8], UpdateFlag::Any).expect("the right sizes");
    }
    let queue = vm.create_map(Definition { map_type: MapType::Queue, key_size: 0, ..like_template() }).expect("a map");
    refused(vm.update(queue, &[], &[0; 9], UpdateFlag::Any), Errno::EINVAL);
}

/// An XDP program and a classifier, each of which would go on in the other; the object itself fills one slot.
const TWO_TYPES: &str = "
; map jumps prog_array key 4 value 4 entries 2 slot 0=fn:classify
; program xdp name pass entry pass
; program sched_cls name classify entry classify
; function pass
  r2 = map[jumps]
  r3 = 0
  call tail_call
  r0 = 2
  exit
; function classify
  r0 = *(u32 *)(r1 + 0)
  r0 = 77
  exit
";

#[test]
fn tail_calls_stay_within_a_program_type() {
    let mut vm = vm(TWO_TYPES);
    let jumps = vm.map("jumps").expect("the map");
    vm.load("pass").expect("it is accepted");
    vm.load("classify").expect("it is accepted");
    for engine in [Engine::Interpreter, Engine::Jit] {
        let ran = vm.run("pass", &Input::packet(&[0; 64]), engine).expect("a run");
        assert_eq!(ran.value, 2, "the slot holds a program of another type: the call fails");
    }
    refused(vm.set_program(jumps, 1, "classify"), Errno::EINVAL);
    vm.set_program(jumps, 1, "pass").expect("the same type");
    refused(vm.set_program(jumps, 2, "pass"), Errno::E2BIG);
    assert!(matches!(vm.set_program(jumps, 0, "other"), Err(Error::Missing { .. })));
}

#[test]
fn frozen_maps_stay_as_they_were_verified() {
    let mut vm = vm("; map .rodata array key 4 value 8 entries 1 flags 0x80 rodata 0500000000000000
         ; program xdp name main
         r1 = map_value[.rodata] + 0
         r0 = *(u64 *)(r1 + 0)
         exit");
    let constants = vm.map(".rodata").expect("the map");
    vm.load("main").expect("it is accepted");
    refused(vm.update(constants, &[0; 4], &[9; 8], UpdateFlag::Any), Errno::EPERM);
    refused(vm.delete(constants, &[0; 4]), Errno::EPERM);
    for engine in [Engine::Interpreter, Engine::Jit] {
        assert_eq!(vm.run("main", &Input::packet(&[0; 64]), engine).expect("a run").value, 5);
    }
}

/// Loads of `.rodata` are folded to numbers. Were it writable through a lookup, what is behind the branch would run
/// although it was never verified.
const WRITES_CONSTANTS: &str = "
; map .rodata array key 4 value 8 entries 1 rodata 0000000000000000
; program xdp name p
  *(u32 *)(r10 - 4) = 0
  r1 = map[.rodata]
  r2 = r10
  r2 += -4
  call map_lookup_elem
  if r0 == 0 goto out
  *(u64 *)(r0 + 0) = 1
  r1 = map_value[.rodata] + 0
  r1 = *(u64 *)(r1 + 0)
  r0 = 77
  if r1 == 0 goto out
  r1 = 0x41414141 ll
  *(u64 *)(r1 + 0) = r1
out:
  exit
";

#[test]
fn constants_that_programs_may_write_are_refused() {
    let refused = |text: &str| {
        let object = kiln_program::text::parse(text).expect("it parses");
        assert!(kiln_program::validate(&object).is_err(), "{text}");
        assert!(matches!(Vm::new(&object, Options::default()), Err(Error::Invalid(_))), "{text}");
        let verified = kiln_verifier::verify(&object, &object.programs[0], &kiln_verifier::Options::default());
        assert!(verified.is_err(), "{text}");
    };
    refused(WRITES_CONSTANTS);
    let rest = "; program xdp name p\nr0 = 2\nexit";
    for map in [
        // Two values: the bytes of the first would be taken for the second's.
        "array key 4 value 8 entries 2 flags 0x80 rodata 0100000000000000",
        "array key 4 value 4 entries 1 flags 0x80 rodata 0100000000000000",
        "hash key 4 value 8 entries 1 flags 0x80 rodata 0100000000000000",
        "array key 4 value 8 entries 1 flags 0x180 rodata 0100000000000000",
        // The verifier would allow what the value does not have.
        "array key 4 value 4 entries 1 flags 0x80 kconfig 4096",
        "array key 4 value 8 entries 1 kconfig 8",
        "array_of_maps key 4 value 4 entries 1\n; inner template array key 4 value 4 entries 1 flags 0x80 rodata 61620000",
    ] {
        refused(&format!("; map constants {map}\n{rest}"));
    }
    let flagged = WRITES_CONSTANTS.replace("entries 1 rodata", "entries 1 flags 0x80 rodata");
    assert!(matches!(vm(&flagged).load("p"), Err(Error::Rejected { .. })));
}

/// A verifier of 32-bit offsets would take 2 GiB for -2 GiB.
#[test]
fn values_have_addresses_only_as_far_as_the_verifier_counts() {
    let text = "; map huge array key 4 value 0xfffffff0 entries 1
         ; program xdp name p
         r1 = map_value[huge] + 0x80000000
         r0 = *(u64 *)(r1 + 0)
         exit";
    let object = kiln_program::text::parse(text).expect("it parses");
    let verified = kiln_verifier::verify(&object, &object.programs[0], &kiln_verifier::Options::default());
    assert!(verified.expect_err("refused").to_string().contains("not allowed"));
}

/// The object fills a map of maps with a map that is not like the template.
#[test]
fn objects_with_inner_maps_unlike_the_template_are_refused() {
    let object = kiln_program::text::parse(
        "; map small array key 4 value 1 entries 2
         ; map outer array_of_maps key 4 value 4 entries 2 slot 0=map:small
         ; inner template array key 4 value 8 entries 2
         ; program xdp
         r0 = 2
         exit",
    );
    refused(Vm::new(&object.expect("it parses"), Options::default()).map(|_| ()), Errno::EINVAL);
}

/// Dynptrs and iterators that nobody has made: made-up addresses, kinds, records, copies. The interpreter runs them
/// without the verifier's word; they end in a fault, or find nothing.
#[test]
fn objects_on_the_stack_that_are_made_up_lead_nowhere() {
    let constants = "r3 = map_value[constants] + 0\n*(u64 *)(r10 - 16) = r3";
    let read = "r1 = r10\nr1 += -32\nr2 = 8\nr3 = r10\nr3 += -16\nr4 = 0\nr5 = 0\ncall dynptr_read";
    let write = "r1 = r10\nr1 += -16\nr2 = 0\nr3 = r10\nr3 += -8\nr4 = 8\nr5 = 0\ncall dynptr_write";
    let submit = "r1 = r10\nr1 += -16\nr2 = 0\ncall ringbuf_submit_dynptr";
    let copy = "r1 = r10\nr1 += -16\nr2 = 0\nr3 = r10\nr3 += -16\nr4 = 0\nr5 = 8\ncall kfunc[bpf_dynptr_copy]";
    let next = "r1 = r10\nr1 += -16\ncall kfunc[bpf_iter_bits_next]\nif r0 == 0 goto +1\nr0 -= r10";
    let destroy = "r1 = r10\nr1 += -16\ncall kfunc[bpf_iter_bits_destroy]\nr0 = 0";
    let address = "r3 = 0x414141414140 ll\n*(u64 *)(r10 - 16) = r3";
    let last = "r3 = -8\n*(u64 *)(r10 - 16) = r3";
    let size = |kind: u32, offset: u32| {
        format!("*(u32 *)(r10 - 8) = {:#x}\n*(u32 *)(r10 - 4) = {offset:#x}", kind << 28 | 0xff_ffff)
    };
    let faults = [
        (address, size(1, 0), read),
        (address, size(1, 0), write),
        (address, size(2, 0), submit),
        (address, size(1, 0), submit),
        (address, size(1, 0), copy),
        (last, size(1, 16), read),
        (constants, size(1, 0), write),
        (constants, size(2, 0), submit),
        // A socket buffer's bytes or metadata in a program that has none, and kinds that there are not.
        (address, size(3, 0), read),
        (address, size(5, 0), read),
        (address, size(0, 0), read),
        (address, size(6, 0), write),
    ];
    let run = |object: &str, bytes: &str, call: &str| {
        let mut vm = vm(&format!(
            "; map ring ringbuf entries 4096
             ; map constants array key 4 value 64 entries 1 flags 0x80 rodata {}
             ; extern bpf_dynptr_copy kfunc
             ; extern bpf_dynptr_from_skb kfunc
             ; extern bpf_iter_bits_next kfunc
             ; extern bpf_iter_bits_destroy kfunc
             ; program xdp name p
             {object}\n{bytes}\n{call}\nexit",
            "00".repeat(64)
        ));
        // SAFETY: only the interpreter runs it.
        unsafe { vm.load_unverified("p") }.expect("nothing is lacking");
        vm.run("p", &Input::packet(&[0; 64]), Engine::Interpreter).map(|ran| ran.value)
    };
    for (object, bytes, call) in faults {
        let stopped = run(object, &bytes, call);
        assert!(matches!(stopped, Err(Error::Stopped { .. })), "{stopped:?}\n{object}\n{bytes}\n{call}");
    }
    // An XDP program has no socket buffer, nor have tracing programs.
    let make = "r2 = 0\nr3 = r10\nr3 += -16\ncall kfunc[bpf_dynptr_from_skb]";
    let stopped = run(address, "", make).expect_err("there is none").to_string();
    assert!(stopped.contains("a packet that is not the program's own"), "{stopped}");
    // The packet is where the VM knows, whatever the address says, and not longer than it is.
    assert_eq!(run(address, &size(4, 0), read).expect("the packet's first bytes"), 0);
    assert_eq!(run(address, &size(4, 60), read).expect("an error"), Errno::EINVAL.value());
    // Iterators over copies that there are not.
    for (count, present) in [(u32::MAX, 0), (i32::MAX as u32, u32::MAX), (128, i32::MAX as u32 - 1), (64 * 511, 0)] {
        let bytes = format!("*(u32 *)(r10 - 8) = {count:#x}\n*(u32 *)(r10 - 4) = {present:#x}");
        run(address, &bytes, destroy).expect("nothing to give back");
        let found = run(address, &bytes, next).expect("an address or nothing");
        assert!(found == 0 || found as i64 == -4, "{found:#x}: the number is in the iterator");
    }
}

/// A run that its budget ends while it has a record: the VM drops the record, or the ring would stay full.
#[test]
fn a_stopped_run_gives_back_its_dynptr() {
    let reserve = "r1 = map[ring]\nr2 = 3000\nr3 = 0\nr4 = r10\nr4 += -16\ncall ringbuf_reserve_dynptr\nr6 = r0";
    let discard = "r1 = r10\nr1 += -16\nr2 = 0\ncall ringbuf_discard_dynptr\nr0 = r6\nexit";
    let mut vm = Vm::new(
        &kiln_program::text::parse(&format!(
            "; map ring ringbuf entries 4096
             ; program xdp name long entry long
             ; program xdp name short entry short
             ; function long\n{reserve}\nr7 = 1000\nagain:\nr7 += -1\nif r7 != 0 goto again\n{discard}
             ; function short\n{reserve}\n{discard}"
        ))
        .expect("it parses"),
        Options { budget: 100, ..Options::default() },
    )
    .expect("a VM");
    vm.load("long").expect("it is accepted");
    vm.load("short").expect("it is accepted");
    let ring = vm.map("ring").expect("the map");
    for engine in [Engine::Interpreter, Engine::Jit] {
        for _ in 0..3 {
            let stopped = vm.run("long", &Input::packet(&[0; 64]), engine);
            assert!(matches!(stopped, Err(Error::Stopped { .. })), "{engine:?}: {stopped:?}");
            assert!(vm.drain(ring).expect("reads").is_empty(), "{engine:?}: nothing was submitted");
            let ran = vm.run("short", &Input::packet(&[0; 64]), engine).expect("a run");
            assert_eq!(ran.value, 0, "{engine:?}: there is room");
            assert!(vm.drain(ring).expect("reads").is_empty(), "{engine:?}: nothing was submitted");
        }
    }
}

/// Programs that no verifier has seen leave what they took. The VM counts each kind, and the next run can take all of it.
#[test]
fn what_a_run_leaves_is_counted_and_given_back() {
    let stack = |bytes: u32| format!("r1 = r10\nr1 += -{bytes}");
    let taken = [
        "r1 = map_value[values] + 0\ncall spin_lock".to_owned(),
        "r1 = map_value[values] + 8\ncall kfunc[bpf_res_spin_lock]".to_owned(),
        "r1 = map_value[values] + 16\nr2 = r10\nr2 += -8\ncall kfunc[bpf_res_spin_lock_irqsave]".to_owned(),
        "r1 = map[ring]\nr2 = 1500\nr3 = 0\ncall ringbuf_reserve".to_owned(),
        "r1 = map[ring]\nr2 = 1500\nr3 = 0\nr4 = r10\nr4 += -24\ncall ringbuf_reserve_dynptr".to_owned(),
        format!("{}\nr2 = map_value[values] + 32\nr3 = 2\ncall kfunc[bpf_iter_bits_new]", stack(40)),
        "call kfunc[bpf_rcu_read_lock]".to_owned(),
        "call kfunc[bpf_preempt_disable]".to_owned(),
        format!("{}\ncall kfunc[bpf_local_irq_save]", stack(48)),
        "*(u64 *)(r10 - 64) = 0\n*(u64 *)(r10 - 56) = 0\nr2 = r10\nr2 += -64\nr3 = 12\nr4 = -1\nr5 = 0\ncall sk_lookup_udp"
            .to_owned(),
    ];
    let nowhere = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
    let sockets = vec![Socket { protocol: 17, local: nowhere, remote: None }];
    let text = format!(
        "; map ring ringbuf entries 4096
         ; map values array key 4 value 64 entries 1
         ; extern bpf_res_spin_lock kfunc
         ; extern bpf_res_spin_lock_irqsave kfunc
         ; extern bpf_iter_bits_new kfunc
         ; extern bpf_rcu_read_lock kfunc
         ; extern bpf_preempt_disable kfunc
         ; extern bpf_local_irq_save kfunc
         ; program xdp name p
         {}
         exit",
        taken.join("\n")
    );
    let object = kiln_program::text::parse(&text).expect("it parses");
    let surroundings = Surroundings { sockets, ..Surroundings::default() };
    let mut vm = Vm::new(&object, Options { surroundings, ..Options::default() }).expect("a VM");
    // SAFETY: only the interpreter runs it.
    unsafe { vm.load_unverified("p") }.expect("nothing is lacking");
    let ring = vm.map("ring").expect("the map");
    for _ in 0..4 {
        let ran = vm.run("p", &Input::packet(&[0; 64]), Engine::Interpreter).expect("a run");
        assert_eq!(ran.output.unreleased as usize, taken.len());
        assert!(vm.drain(ring).expect("reads").is_empty(), "the records were dropped");
    }
}

/// A load whose pointer is to one structure of the kernel or to another: the facts of the instruction say nothing, and the VM
/// has neither.
const TWO_STRUCTURES: &str = r#"
; program tracing section "tp_btf/sched_process_exec" attach trace_raw_tp name p
  r2 = *(u64 *)(r1 + 0)
  r3 = *(u64 *)(r1 + 8)
  r4 = *(u64 *)(r1 + 16)
  w3 = w3
  if r3 == 0 goto first
  r2 = r4
first:
  r0 = *(u64 *)(r2 + 0)
  r0 = 0
  exit
"#;

#[test]
fn structures_of_the_kernel_are_not_there() {
    let Ok(types) = std::fs::read("/sys/kernel/btf/vmlinux") else { return };
    let types = kiln_program::btf::Btf::parse(&types).expect("types");
    let options = Options { kernel_types: Some(std::sync::Arc::new(types)), ..Options::default() };
    for text in [TWO_STRUCTURES, &TWO_STRUCTURES.replace("  r2 = r4\n", "  r2 = r2\n")] {
        let mut vm = Vm::new(&kiln_program::text::parse(text).expect("it parses"), options.clone()).expect("a VM");
        match vm.load("p") {
            Err(Error::Unsupported { what, .. }) => assert!(what.contains("kernel's memory"), "{what}"),
            other => panic!("{other:?}"),
        }
    }
}
