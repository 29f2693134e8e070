//! The pages that programs live in: code is never writable, data never executable, and nothing is next to data.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::ops::Range;

use kiln_isa::operation::Arch;
use kiln_vm::{Engine, Input, Options, Setting, Toolchain, Vm};

/// Writes where its stack, packet, context and map value are into the map.
const TEXT: &str = "\
; map places array key 4 value 32 entries 1
; program xdp name p
 r6 = r1
 *(u32 *)(r10 - 4) = 0
 r2 = r10
 r2 += -4
 r1 = map[places]
 call map_lookup_elem
 if r0 == 0 goto out
 *(u64 *)(r0 + 0) = r10
 r2 = *(u32 *)(r6 + 0)
 *(u64 *)(r0 + 8) = r2
 *(u64 *)(r0 + 16) = r6
 *(u64 *)(r0 + 24) = r0
out:
 r0 = 2
 exit
";

/// A mapping of this process: its addresses and what they may be used for, such as `rw-p`.
fn mappings() -> Vec<(Range<u64>, String)> {
    let text = std::fs::read_to_string("/proc/self/maps").expect("procfs");
    let mapping = |line: &str| {
        let (addresses, rest) = line.split_once(' ').expect("two fields");
        let (begin, end) = addresses.split_once('-').expect("a range");
        let address = |hex: &str| u64::from_str_radix(hex, 16).expect("an address");
        (address(begin)..address(end), rest[..4].to_owned())
    };
    text.lines().map(mapping).collect()
}

/// The mapping that an address is in.
fn around(mappings: &[(Range<u64>, String)], address: u64) -> Option<(Range<u64>, String)> {
    mappings.iter().find(|(range, _)| range.contains(&address)).cloned()
}

#[test]
fn code_is_not_writable_and_data_is_between_guard_pages() {
    let object = kiln_program::text::parse(TEXT).expect("it parses");
    for blind in [false, true] {
        let mut vm = Vm::new(&object, Options { blind, ..Options::default() }).expect("a VM");
        vm.load("p").expect("it is accepted");
        match Toolchain::new(Toolchain::CLANG) {
            Ok(toolchain) if blind => {
                // Clang's code is not blinded, so it is refused.
                vm.load_native("p", &toolchain, Setting::Fast).expect_err("no clang");
            }
            Ok(toolchain) => drop(vm.load_native("p", &toolchain, Setting::Fast).expect("native code")),
            Err(error) => println!("skipped: {error}"),
        }
        vm.run("p", &Input::packet(&[0; 64]), Engine::Jit).expect("a run");
        let mappings = mappings();
        for (range, allowed) in &mappings {
            assert!(!(allowed.contains('w') && allowed.contains('x')), "{range:x?} is {allowed}");
        }
        let code = vm.machine_code("p", Arch::X86_64).expect("code").address.expect("it runs here");
        assert_eq!(around(&mappings, code).expect("mapped").1, "r-xp");
        let map = vm.map("places").expect("the map");
        let value = vm.look_up(map, &[0; 4]).expect("a lookup").expect("an element");
        let places = value.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")));
        // The frame pointer is the end of the frame.
        for (place, what) in places.zip(["stack", "packet", "context", "map value"]) {
            let inside = if what == "stack" { place - 8 } else { place };
            let (range, allowed) = around(&mappings, inside).expect("mapped");
            assert_eq!(allowed, "rw-p", "{what}");
            // Frames of compiled code are on the thread's own stack.
            let neighbours = if what == "stack" { Vec::new() } else { vec![range.start - 1, range.end] };
            for neighbour in neighbours {
                let neighbour = around(&mappings, neighbour);
                assert!(neighbour.as_ref().is_none_or(|(_, allowed)| allowed == "---p"), "{what}: {neighbour:x?}");
            }
        }
    }
}
