//! Stand-ins: the same for the same seed, and never against what the verifier says.

use kiln_isa::Reg;
use kiln_program::Object;
use kiln_verifier::{Scalar, Value};
use kiln_vm::stand_in::{Seen, Stray, World, Wrong};
use kiln_vm::{Input, Options};

/// Calls what the VM lacks, and returns what it gave.
const ASKS: &str = "; program kprobe name asks
  call get_func_ip
  exit
";

/// Follows a pointer into kernel memory, which no type vouches for.
const FOLLOWS: &str = "; program raw_tracepoint name follows
  r2 = *(u64 *)(r1 + 0)
  r0 = *(u64 *)(r2 + 16)
  if r2 == 0 goto out
  *(u64 *)(r2 + 24) = r0
out:
  exit
";

fn object(text: &str) -> Object {
    kiln_program::text::parse(text).expect("a program")
}

fn run(world: &mut World, name: &str, seed: u64) -> Result<Seen, Stray> {
    let context = [0u8; 96];
    world.runs(name, None).expect("a program").run(&Input::context(&context), seed)
}

#[test]
fn a_seed_says_it_all() {
    for (text, name) in [(ASKS, "asks"), (FOLLOWS, "follows")] {
        let object = object(text);
        let world = || World::new(&object, Options { place: Some(101), ..Options::default() }, None).expect("a world");
        let all = |mut world: World| (0..64).map(|seed| run(&mut world, name, seed)).collect::<Vec<_>>();
        let (first, second) = (all(world()), all(world()));
        assert_eq!(first, second);
        let values: std::collections::BTreeSet<u64> =
            first.iter().map(|seen| seen.as_ref().expect("it ends").value).collect();
        assert!(values.len() > 16, "{values:?}");
    }
}

#[test]
fn kernel_memory_that_is_written_is_seen() {
    let mut world = World::new(&object(FOLLOWS), Options::default(), None).expect("a world");
    let written = (0..64).filter(|seed| run(&mut world, "follows", *seed).is_ok_and(|seen| !seen.written.is_empty()));
    assert!(written.count() > 32);
}

#[test]
fn what_the_facts_exclude_is_no_run() {
    let mut world = World::new(&object(ASKS), Options::default(), None).expect("a world");
    let mut facts = world.facts("asks").expect("it is verified");
    let exit = world.object().functions[0].nodes[1].id;
    let mut known = facts.at(exit).expect("it is reached").clone();
    known.registers[Reg::R0.index()] = Value::Scalar(Scalar::constant(0));
    facts.set(exit, known);
    let context = [0u8; 96];
    let runs: Vec<_> = {
        let mut runs = world.runs("asks", Some(&facts)).expect("a program");
        (0..64).map(|seed| runs.run(&Input::context(&context), seed)).collect()
    };
    assert!(runs.contains(&Err(Stray::Excluded)));
    assert!(runs.iter().flatten().count() > 8);
    assert!(runs.iter().flatten().all(|seen| seen.value == 0));
}

#[test]
fn the_vm_itself_has_none() {
    let mut vm = kiln_vm::Vm::new(&object(ASKS), Options::default()).expect("a VM");
    assert!(matches!(vm.load("asks"), Err(kiln_vm::Error::Unsupported { .. })));
}

/// An iterator over bits reads memory: a store that it reads is seen.
#[test]
fn iterators_over_bits_see_what_is_stored() {
    let count = |word: u64| {
        let text = format!(
            "; extern bpf_iter_bits_new kfunc\n; extern bpf_iter_bits_next kfunc\n; extern bpf_iter_bits_destroy kfunc
             ; program kprobe name p
             r6 = 0\nr1 = {word} ll\n*(u64 *)(r10 - 24) = r1
             r1 = r10\nr1 += -16\nr2 = r10\nr2 += -24\nr3 = 1\ncall kfunc[bpf_iter_bits_new]
             again:\nr1 = r10\nr1 += -16\ncall kfunc[bpf_iter_bits_next]
             if r0 == 0 goto done\nr6 += 1\ngoto again
             done:\nr1 = r10\nr1 += -16\ncall kfunc[bpf_iter_bits_destroy]\nr0 = r6\nexit"
        );
        let mut world = World::new(&object(&text), Options::default(), None).expect("a world");
        run(&mut world, "p", 1).expect("a run").value
    };
    assert_eq!([count(0), count(0x8000_0000_0000_0001), count(u64::MAX)], [0, 2, 64]);
}

/// What goes wrong first in strict runs of a program.
fn wrong(text: &str) -> Option<(Wrong, String)> {
    let types = std::fs::read("/sys/kernel/btf/vmlinux").ok();
    let types = types.map(|bytes| kiln_program::btf::Btf::parse(&bytes).expect("the kernel's types").into());
    let mut world = World::new(&object(text), Options::default(), types).expect("a world");
    let mut runs = world.strict_runs("p").expect("a program");
    let context = [0u8; 96];
    let violation = (0..64).find_map(|seed| runs.run_strictly(&Input::context(&context), seed, 0).violation)?;
    Some((violation.kind, violation.text))
}

#[test]
fn a_lock_that_is_taken_twice_is_wrong_at_once() {
    let program = |between: &str| {
        format!(
            "; map values array key 4 value 16 entries 1\n; program kprobe name p\n\
             r6 = map_value[values] + 0\nr1 = r6\ncall spin_lock\n{between}r1 = r6\ncall spin_lock\n\
             r1 = r6\ncall spin_unlock\nr0 = 0\nexit"
        )
    };
    let (kind, text) = wrong(&program("")).expect("it waits for itself");
    assert!(kind == Wrong::Held && text.contains("waits for ever"), "{text}");
    assert_eq!(wrong(&program("r1 = r6\ncall spin_unlock\n")), None);
}

#[test]
fn what_kfuncs_give_has_to_be_given_back() {
    if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        eprintln!("skipped: this kernel has no types");
        return;
    }
    let program = |end: &str| {
        format!(
            "; extern bpf_rcu_read_lock kfunc\n; extern bpf_rcu_read_unlock kfunc\n; program kprobe name p\n\
             call kfunc[bpf_rcu_read_lock]\n{end}r0 = 0\nexit"
        )
    };
    let (kind, text) = wrong(&program("")).expect("the section is open");
    assert!(kind == Wrong::Held && text.contains("a section is still open"), "{text}");
    assert_eq!(wrong(&program("call kfunc[bpf_rcu_read_unlock]\n")), None);
    let task = |end: &str| {
        format!(
            "; extern bpf_task_from_pid kfunc\n; extern bpf_task_release kfunc\n; program tracing name p\n\
             r1 = 1\ncall kfunc[bpf_task_from_pid]\nif r0 == 0 goto out\nr1 = r0\n{end}out:\nr0 = 0\nexit"
        )
    };
    let (kind, text) = wrong(&task("")).expect("the task is held");
    assert!(kind == Wrong::Held && text.contains("bpf_task_from_pid returned is still held"), "{text}");
    assert_eq!(wrong(&task("call kfunc[bpf_task_release]\n")), None);
    let unchecked = task("call kfunc[bpf_task_release]\n").replace("if r0 == 0 goto out", "r2 = *(u64 *)(r0 + 64)");
    assert_eq!(wrong(&unchecked).map(|(kind, _)| kind), Some(Wrong::Null));
}

#[test]
fn strict_runs_are_of_many_processes() {
    let text = "; map values array key 4 value 64 entries 1\n; program kprobe name p\ncall get_current_pid_tgid\n\
                r0 >>= 32\nif r0 > 0x400000 goto never\nr1 = map_value[values] + 0\nr1 += r0\nr0 = *(u8 *)(r1 + 0)\n\
                r0 = 0\nexit\nnever:\nr0 = *(u8 *)(r10 - 1)\nexit";
    assert_eq!(wrong(text).map(|(kind, _)| kind), Some(Wrong::Outside));
}
