//! The native tier in the VM: its limits, what it keeps, and how it takes over from the JIT.
#![cfg(target_arch = "x86_64")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use kiln_vm::{Engine, Error, Input, Options, Setting, Toolchain, Vm};

/// Counts packets in a map, in a loop that the verifier does not follow to its end.
const COUNTER: &str = "\
; map counts array key 4 value 8 entries 4
; program xdp name p
 *(u32 *)(r10 - 4) = 1
 r2 = r10
 r2 += -4
 r1 = map[counts]
 call map_lookup_elem
 if r0 == 0 goto out
 r6 = 0
again:
 may_goto out
 r1 = 1
 lock *(u64 *)(r0 + 0) += r1
 r6 += 1
 if r6 < 1000 goto again
out:
 r0 = 2
 exit
";

fn vm(text: &str, budget: u64) -> Vm {
    let object = kiln_program::text::parse(text).expect("it parses");
    let mut vm = Vm::new(&object, Options { budget, ..Options::default() }).expect("a VM");
    vm.load("p").expect("it is accepted");
    vm
}

/// The compiler, or a line that says that it is missing.
fn toolchain() -> Option<Toolchain> {
    Toolchain::new(Toolchain::CLANG).map_err(|error| println!("skipped: {error}")).ok()
}

fn count(vm: &Vm) -> u64 {
    let map = vm.map("counts").expect("the map");
    let value = vm.look_up(map, &1u32.to_ne_bytes()).expect("a lookup").expect("an element");
    u64::from_ne_bytes(value.try_into().expect("8 bytes"))
}

#[test]
fn code_runs_on_the_maps_of_the_vm() {
    let (Some(toolchain), vm) = (toolchain(), vm(COUNTER, 1 << 32)) else { return };
    let without = vm.run("p", &Input::packet(&[0; 64]), Engine::Native);
    assert!(matches!(without, Err(Error::Unsupported { .. })), "{without:?}");
    vm.load_native("p", &toolchain, Setting::Fast).expect("native code");
    let ran = vm.run("p", &Input::packet(&[0; 64]), Engine::Native).expect("a run");
    assert_eq!((ran.value, count(&vm)), (2, 1000));
    vm.run("p", &Input::packet(&[0; 64]), Engine::Interpreter).expect("a run");
    assert_eq!(count(&vm), 2000);
}

#[test]
fn the_budget_ends_a_run() {
    let Some(toolchain) = toolchain() else { return };
    for setting in Setting::ALL {
        let vm = vm(COUNTER, 500);
        vm.load_native("p", &toolchain, setting).expect("native code");
        let ran = vm.run("p", &Input::packet(&[0; 64]), Engine::Native).expect("its may_goto ends the loop");
        assert_eq!(ran.value, 2);
        assert!((1..500).contains(&count(&vm)), "{}", count(&vm));
    }
}

#[test]
fn the_jit_runs_until_native_code_is_there() {
    let (Some(toolchain), vm) = (toolchain(), vm(COUNTER, 1 << 32)) else { return };
    let handle = vm.program("p").expect("the program");
    let compiling = vm.load_native_later("p", &toolchain, Setting::Fast).expect("a thread");
    let (mut runs, begin) = (0, Instant::now());
    while !compiling.is_finished() && begin.elapsed() < Duration::from_secs(60) {
        assert_eq!(handle.run_input(&Input::packet(&[0; 64])).expect("a run"), 2);
        runs += 1;
    }
    let made = compiling.join().expect("no panic").expect("native code");
    assert!(made.code_bytes > 0);
    assert_eq!(handle.run_input(&Input::packet(&[0; 64])).expect("a run"), 2);
    assert_eq!(count(&vm), 1000 * (runs + 1));
}

#[test]
fn a_compiler_that_hangs_or_fails_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n[ \"$1\" = --version ] && exit 0\ncat >/dev/null\n{text}\n"))
            .expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
        Toolchain::new(path.to_str().expect("UTF-8")).expect("it runs")
    };
    let vm = vm(COUNTER, 1 << 32);
    let load = |toolchain: &Toolchain| vm.load_native("p", toolchain, Setting::Fast).expect_err("no code").to_string();
    let hangs = script("hangs", "exec sleep 100").limited(Duration::from_millis(200));
    let begin = Instant::now();
    assert!(load(&hangs).contains("has not compiled it"), "{}", load(&hangs));
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert!(load(&script("fails", "echo 'error: no' >&2; exit 1")).contains("error: no"));
    // What is no shared object, an empty one, and one with a foreign program in it.
    for text in ["echo rubbish", ":", "cat /bin/true"] {
        let writes = format!("while [ $# -gt 1 ]; do [ \"$1\" = -o ] && out=$2; shift; done; {text} >\"$out\"");
        assert!(load(&script("writes", &writes)).contains("the shared object"), "{text}");
    }
    assert!(Toolchain::new("no-such-compiler").is_err());
}

/// The only file in a folder.
fn only_file(folder: &Path) -> std::path::PathBuf {
    let mut files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let file = files.next().expect("a file");
    assert_eq!(files.next(), None);
    file
}

#[test]
fn kept_results_are_checked() {
    let Some(toolchain) = toolchain() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("kept");
    let load = |toolchain: &Toolchain| {
        let vm = vm(COUNTER, 1 << 32);
        vm.load_native("p", toolchain, Setting::Fast).expect("native code");
        assert_eq!(vm.run("p", &Input::packet(&[0; 64]), Engine::Native).expect("a run").value, 2);
    };
    let keeping = toolchain.clone().keeping(cache.clone());
    load(&keeping);
    let file = only_file(&cache);
    let whole = fs::read(&file).expect("a kept result");
    // Damaged, cut off, empty: made again.
    for damaged in [[&whole[..100], &[0xcc; 50], &whole[150..]].concat(), whole[..whole.len() / 2].to_vec(), Vec::new()]
    {
        fs::write(&file, damaged).expect("a write");
        load(&keeping);
        assert_eq!(fs::read(&file).expect("a kept result"), whole);
    }
    // A folder that others may write is neither read nor written.
    let open = folder.path().join("open");
    fs::create_dir(&open).expect("a folder");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("permissions");
    load(&toolchain.keeping(open.clone()));
    assert_eq!(fs::read_dir(&open).expect("a folder").count(), 0);
}

/// Of a switch over maps, LLVM made a table of pointers, which only a dynamic linker could fill.
const SWITCH: &str = "\
; map a array key 4 value 8 entries 1
; map b array key 4 value 8 entries 2
; map c hash key 4 value 8 entries 3
; map d hash key 4 value 8 entries 4
; map e hash key 4 value 8 entries 5
; program xdp name p
 r2 = *(u32 *)(r1 + 0)
 r3 = *(u32 *)(r1 + 4)
 r4 = r2
 r4 += 1
 if r4 > r3 goto none
 w6 = *(u8 *)(r2 + 0)
 *(u32 *)(r10 - 4) = 0
 *(u64 *)(r10 - 16) = 7
 if w6 == 0 goto first
 if w6 == 1 goto second
 if w6 == 2 goto third
 if w6 == 3 goto fourth
 if w6 != 4 goto none
 r1 = map[e]
 goto store
first:
 r1 = map[a]
 goto store
second:
 r1 = map[b]
 goto store
third:
 r1 = map[c]
 goto store
fourth:
 r1 = map[d]
store:
 r2 = r10
 r2 += -4
 r3 = r10
 r3 += -16
 r4 = 0
 call map_update_elem
none:
 r0 = 2
 exit
";

#[test]
fn a_switch_over_maps_needs_no_relocations() {
    let Some(toolchain) = toolchain() else { return };
    for setting in [Setting::Fast, Setting::Scalar, Setting::Size] {
        let vm = vm(SWITCH, 1 << 20);
        vm.load_native("p", &toolchain, setting).expect("it compiles");
        for (choice, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
            vm.run("p", &Input::packet(&[choice as u8; 64]), Engine::Native).expect("it runs");
            let map = vm.map(name).expect("the map");
            let value = vm.look_up(map, &[0; 4]).expect("a lookup");
            assert_eq!(value, Some(7u64.to_ne_bytes().to_vec()), "{setting:?}, map {name}");
        }
    }
}
