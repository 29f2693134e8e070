//! What the kernel cannot be asked: maps against simple models, the budget, what is refused.

use std::collections::BTreeMap;

use kiln_isa::{Insn, Reg};
use kiln_platform::{MapType, ProgramType};
use kiln_program::interpret::Trap;
use kiln_program::{Function, FunctionId, InsnId, Linkage, Node, Object, Program, Reference};
use kiln_vm::{Definition, Engine, Error, Input, Options, UpdateFlag, Vm};

fn definition(map_type: MapType, key_size: u32, value_size: u32, max_entries: u32) -> Definition {
    Definition {
        name: "map".to_owned(),
        map_type,
        key_size,
        value_size,
        max_entries,
        flags: 0,
        extra: 0,
        locks: Vec::new(),
    }
}

fn empty() -> Vm {
    Vm::new(&Object::default(), Options::default()).expect("a VM")
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn masked(bits: u32, address: u32) -> u32 {
    if bits == 0 { 0 } else { address >> (32 - bits) << (32 - bits) }
}

fn prefix_key(bits: u32, address: u32) -> Vec<u8> {
    [bits.to_ne_bytes(), address.to_be_bytes()].concat()
}

#[test]
fn the_longest_prefix_wins() {
    let mut vm = empty();
    let map = vm.create_map(definition(MapType::LpmTrie, 8, 4, 40)).expect("a map");
    let mut model = BTreeMap::<(u32, u32), u32>::new();
    let mut random = Random(42);
    for step in 0..4000 {
        let bits = random.below(33) as u32;
        let address = (random.below(4) << 30 | random.below(4) << 21 | random.below(4)) as u32;
        let entry = (bits, masked(bits, address));
        let key = prefix_key(bits, address);
        match random.below(3) {
            0 => assert_eq!(vm.delete(map, &key).is_ok(), model.remove(&entry).is_some()),
            1 => {
                let fits = model.contains_key(&entry) || model.len() < 40;
                assert_eq!(vm.update(map, &key, &u32::to_ne_bytes(step), UpdateFlag::Any).is_ok(), fits);
                if fits {
                    model.insert(entry, step);
                }
            }
            _ => {
                let expected = model
                    .iter()
                    .filter(|((have, prefix), _)| *have <= bits && *prefix == masked(*have, address))
                    .max_by_key(|((have, _), _)| *have)
                    .map(|(_, value)| value.to_ne_bytes().to_vec());
                assert_eq!(vm.look_up(map, &key).expect("a lookup"), expected, "step {step}");
            }
        }
        assert_eq!(vm.entries(map).expect("entries").len(), model.len());
    }
}

#[test]
fn hashes_do_what_a_map_does() {
    for key_size in [1, 3, 4, 7, 8, 12, 16, 17, 40] {
        let mut vm = empty();
        let map = vm.create_map(definition(MapType::Hash, key_size, 4, 50)).expect("a map");
        let mut model = BTreeMap::<Vec<u8>, Vec<u8>>::new();
        let mut random = Random(7);
        for step in 0u32..3000 {
            let mut key = vec![0; key_size as usize];
            let last = key.len() - 1;
            key[last] = random.below(9) as u8;
            key[last / 2] ^= random.below(9) as u8;
            match random.below(3) {
                0 => assert_eq!(vm.delete(map, &key).is_ok(), model.remove(&key).is_some()),
                _ => {
                    let fits = model.contains_key(&key) || model.len() < 50;
                    let value = step.to_ne_bytes();
                    assert_eq!(vm.update(map, &key, &value, UpdateFlag::Any).is_ok(), fits);
                    if fits {
                        model.insert(key, value.to_vec());
                    }
                }
            }
        }
        assert_eq!(vm.entries(map).expect("entries"), model.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn the_least_recently_used_entry_goes_first() {
    let mut vm = empty();
    let map = vm.create_map(definition(MapType::LruHash, 4, 4, 3)).expect("a map");
    for key in 0u32..5 {
        vm.update(map, &key.to_ne_bytes(), &key.to_ne_bytes(), UpdateFlag::Any).expect("never full");
    }
    let keys: Vec<_> = vm.entries(map).expect("entries").into_iter().map(|(key, _)| key[0]).collect();
    assert_eq!(keys, [2, 3, 4]);
}

#[test]
fn impossible_maps_are_refused() {
    let mut vm = empty();
    let refused = |result: Result<_, Error>| result.map(|_| ()).expect_err("refused").to_string();
    let huge = refused(vm.create_map(definition(MapType::Hash, 512, 4_000_000, 1 << 27)));
    assert!(huge.contains("the VM gives a map"), "{huge}");
    let arena = refused(vm.create_map(definition(MapType::Arena, 0, 0, 1 << 20)));
    assert!(arena.contains("the VM gives a map"), "{arena}");
    let storage = refused(vm.create_map(definition(MapType::TaskStorage, 4, 8, 0)));
    assert!(storage.contains("does not support"), "{storage}");
    let array = refused(vm.create_map(definition(MapType::Array, 8, 8, 1)));
    assert!(array.contains("a key size of 8"), "{array}");
}

/// `r0 = 0; goto -1`.
fn endless() -> Object {
    let node = |id, insn, reference| Node::new(InsnId(id), insn, reference);
    let nodes = vec![
        node(0, Insn::mov_imm(Reg::R0, 0), Reference::None),
        node(1, Insn::Jump { offset: 0, long: false }, Reference::Branch(InsnId(1))),
    ];
    let function = Function::new("endless", "xdp", Linkage::Global, nodes);
    let program = Program::new("endless", "xdp", Some(ProgramType::Xdp), FunctionId(0));
    Object { functions: vec![function], programs: vec![program], next_insn: 2, ..Object::default() }
}

#[test]
fn a_budget_ends_what_does_not_end() {
    let options = Options { budget: 100_000, ..Options::default() };
    let mut vm = Vm::new(&endless(), options).expect("a VM");
    // SAFETY: it jumps to itself and touches nothing.
    unsafe { vm.load_unverified("endless") }.expect("nothing is lacking");
    for engine in [Engine::Interpreter, Engine::Jit] {
        let stopped = vm.run("endless", &Input::packet(&[0; 64]), engine).expect_err("stopped");
        assert!(matches!(stopped, Error::Stopped { trap: Trap::Budget { budget: 100_000 }, .. }), "{stopped}");
        assert!(stopped.to_string().contains("instruction budget of 100000 spent"));
    }
}

#[test]
fn unsafe_programs_are_not_loaded() {
    let mut vm = Vm::new(&endless(), Options::default()).expect("a VM");
    assert!(matches!(vm.load("endless"), Err(Error::Rejected { .. })));
    assert!(matches!(vm.run("endless", &Input::packet(&[0; 64]), Engine::Jit), Err(Error::Missing { .. })));
}

#[test]
fn a_watched_run_tells_what_ran_and_what_was_missing() {
    let text = "; map flows hash key 4 value 8 entries 4\n; program xdp name p\n *(u32 *)(r10 - 4) = 7\n r2 = r10\n r2 += -4\n \
                r1 = map[flows]\n call map_lookup_elem\n if r0 == 0 goto out\n r0 = 1\n exit\nout:\n r0 = 2\n exit\n";
    let mut vm = Vm::new(&kiln_program::text::parse(text).expect("it parses"), Options::default()).expect("a VM");
    vm.load("p").expect("it loads");
    let flows = vm.map("flows").expect("the map");
    let packet = [0; 64];
    let (ran, observed) = vm.observe("p", &Input::packet(&packet).repeated(3)).expect("it runs");
    assert_eq!((ran.value, ran.instructions), (2, 24));
    assert_eq!(observed.missed, [(flows, vec![7, 0, 0, 0])]);
    assert_eq!((observed.runs.len(), observed.runs.values().sum::<u64>()), (8, 24));
    vm.update(flows, &[7, 0, 0, 0], &[0; 8], UpdateFlag::Any).expect("there is room");
    let (ran, observed) = vm.observe("p", &Input::packet(&packet)).expect("it runs");
    assert_eq!((ran.value, observed.missed.len()), (1, 0));
}

/// A budget beyond what compiled code counts is that much; what it took is still counted.
#[test]
fn the_largest_budget_is_one() {
    let object = kiln_program::text::parse("; program xdp name p\n  r0 = 2\n  exit\n").expect("it parses");
    let mut vm = Vm::new(&object, Options { budget: u64::MAX, ..Options::default() }).expect("a VM");
    vm.load("p").expect("it is accepted");
    for engine in [Engine::Interpreter, Engine::Jit] {
        let input = Input { repeat: 3, ..Input::packet(&[0; 64]) };
        let ran = vm.run("p", &input, engine).expect("a run");
        assert_eq!(ran.value, 2);
        assert!(ran.instructions < 100, "{engine:?}: {}", ran.instructions);
    }
}

/// The VM has no kernel objects to iterate over, and says so.
#[test]
fn iterators_over_kernel_objects_are_named() {
    let text = "; extern bpf_iter_task_new kfunc\n; program xdp name p\n call kfunc[bpf_iter_task_new]\n exit\n";
    let object = kiln_program::text::parse(text).expect("it parses");
    let mut vm = Vm::new(&object, Options::default()).expect("a VM");
    // SAFETY: it is not run.
    let refused = unsafe { vm.load_unverified("p") }.expect_err("the VM lacks it").to_string();
    assert!(refused.contains("kfunc bpf_iter_task_new, which goes over kernel objects: it has none"), "{refused}");
}
