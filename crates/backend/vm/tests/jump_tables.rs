//! Jump tables on both engines: small ones, one of two hundred entries, and what user space may do to them.

use std::fmt::Write;

use kiln_program::MapId;
use kiln_program::text::parse;
use kiln_vm::{Engine, Input, Options, UpdateFlag, Vm};

const FILES: [&str; 3] = [
    include_str!("../../../../tests/filetests/verifier/jump-table-bytecode.bpf"),
    include_str!("../../../../tests/filetests/verifier/jump-table-in-both-functions.bpf"),
    include_str!("../../../../tests/filetests/verifier/jump-table-two-tables.bpf"),
];

fn vm(text: &str) -> Vm {
    let object = parse(text).expect("it parses");
    let mut vm = Vm::new(&object, Options::default()).expect("a VM");
    vm.load(&object.programs[0].name).expect("it is accepted");
    vm
}

fn run(vm: &mut Vm, packet: &[u8], engine: Engine) -> u64 {
    let name = vm.programs().next().expect("one is loaded").to_owned();
    vm.run(&name, &Input::packet(packet), engine).expect("it runs").value
}

#[test]
fn engines_agree() {
    for text in FILES {
        let mut vm = vm(text);
        let mut results = std::collections::BTreeSet::new();
        for number in 0..=u16::MAX >> 4 {
            let mut packet = [0; 64];
            packet[..4].copy_from_slice(&[number as u8, (number >> 4) as u8, (number >> 8) as u8, 1]);
            let interpreted = run(&mut vm, &packet, Engine::Interpreter);
            assert_eq!(run(&mut vm, &packet, Engine::Jit), interpreted, "{number:#x} of\n{text}");
            results.insert(interpreted);
        }
        assert!(results.len() > 1, "the packets pick other entries of\n{text}");
    }
}

/// A switch over a byte: the entry of each value below `count` is another block, in an order that is not the blocks'.
fn switch(count: usize) -> String {
    let order: Vec<usize> = (0..count).map(|at| (at * 77 + 5) % count).collect();
    let labels: String = order.iter().map(|block| format!(" b{block}")).collect();
    let mut text = format!(
        "; map T insn_array key 4 value 16 entries {count}\n; program xdp\n; table T{labels}\n r2 = *(u32 *)(r1 + 0)\n \
         r3 = *(u32 *)(r1 + 4)\n r4 = r2\n r4 += 1\n if r4 > r3 goto none\n r2 = *(u8 *)(r2 + 0)\n \
         if r2 >= {count} goto none\n r2 <<= 3\n r1 = map_value[T] + 0\n r1 += r2\n r1 = *(u64 *)(r1 + 0)\n gotox r1\n"
    );
    (0..count).for_each(|block| {
        let _ = write!(text, "b{block}:\n r0 = {block}\n exit\n");
    });
    text + "none:\n r0 = 1000\n exit\n"
}

#[test]
fn a_large_table_leads_to_each_of_its_targets() {
    let count = 200;
    let mut vm = vm(&switch(count));
    for engine in [Engine::Interpreter, Engine::Jit] {
        for byte in 0..=u8::MAX {
            let at = usize::from(byte);
            let wanted = if at < count { (at * 77 + 5) % count } else { 1000 };
            assert_eq!(run(&mut vm, &[byte; 64], engine), wanted as u64, "{byte} on {engine:?}");
        }
    }
}

#[test]
fn user_space_may_read_tables_only() {
    let vm = vm(FILES[0]);
    let map = MapId(0);
    let entry = vm.look_up(map, &0u32.to_ne_bytes()).expect("it may be read").expect("it is there");
    assert!(vm.update(map, &0u32.to_ne_bytes(), &entry, UpdateFlag::Any).is_err());
}
