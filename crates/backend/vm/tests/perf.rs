//! What is written for `perf`: parsed, and compared with the code that runs.

#![cfg(target_arch = "x86_64")]

use std::path::Path;

use kiln_isa::operation::Arch;
use kiln_vm::{Options, PerfFiles, Vm};

const TEXT: &str = "\
; program xdp
; function \"main 7f00 40 malloc\"
  w1 = 1
  call twice
  w0 = 2
  exit
; function twice
  w0 = w1
  w0 += w1
  exit
";

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// The functions of a dump: name, address, bytes.
fn dumped(path: &Path) -> Vec<(String, u64, Vec<u8>)> {
    let bytes = std::fs::read(path).expect("a dump");
    assert_eq!((word(&bytes, 0), word(&bytes, 4)), (0x4a69_5444, 1), "magic number and version");
    let pid = std::process::id();
    assert_eq!((word(&bytes, 12), word(&bytes, 20)), (62, pid), "machine and process");
    let (mut at, mut functions) = (word(&bytes, 8) as usize, Vec::new());
    while at < bytes.len() {
        let (kind, length) = (word(&bytes, at), word(&bytes, at + 4) as usize);
        let record = &bytes[at..at + length];
        assert_eq!(kind, 0, "only code: these programs have no source lines");
        assert_eq!(word(record, 16), pid);
        assert_eq!(long(record, 24), long(record, 32), "address and virtual address");
        assert_eq!(long(record, 48), functions.len() as u64, "the number of the record");
        let code = record.len() - long(record, 40) as usize;
        let name = record[56..code].strip_suffix(&[0]).expect("a string");
        let name = String::from_utf8(name.to_vec()).expect("plain letters");
        functions.push((name, long(record, 24), record[code..].to_vec()));
        at += length;
    }
    functions
}

/// One test: the files are the process's.
#[test]
fn files_for_perf_name_the_code_that_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let object = kiln_program::text::parse(TEXT).expect("it parses");
    let name = object.programs[0].name.clone();
    let perf = PerfFiles { map: true, dump: Some(folder.path().to_owned()) };
    let mut vms = Vec::new();
    // Programs of several VMs are in one file.
    for _ in 0..2 {
        let mut vm = Vm::new(&object, Options { perf: perf.clone(), ..Options::default() }).expect("a VM");
        vm.load(&name).expect("it loads");
        vms.push(vm);
    }
    let pid = std::process::id();
    let map = format!("/tmp/perf-{pid}.map");
    let text = std::fs::read_to_string(&map).expect("a map");
    std::fs::remove_file(&map).expect("removed");
    let mapped = text.lines().map(|line| {
        let mut fields = line.split(' ');
        let mut hex = || u64::from_str_radix(fields.next().expect("a field"), 16).expect("a number");
        let (address, bytes) = (hex(), hex());
        let name = fields.next().expect("a name").to_owned();
        assert_eq!(fields.next(), None, "{line}");
        (name, address, bytes)
    });
    let mapped: Vec<_> = mapped.collect();
    let functions = dumped(&folder.path().join(format!("jit-{pid}.dump")));
    let short = |(name, address, bytes): &(String, u64, Vec<u8>)| (name.clone(), *address, bytes.len() as u64);
    assert_eq!(mapped, functions.iter().map(short).collect::<Vec<_>>());
    assert_eq!(functions.len(), 4);
    for (vm, functions) in vms.iter().zip(functions.chunks(2)) {
        let machine = vm.machine_code(&name, Arch::X86_64).expect("code");
        assert_eq!(functions[0].1, machine.address.expect("it runs here"));
        assert_eq!(functions[1].1, functions[0].1 + functions[0].2.len() as u64);
        assert_eq!(functions[0].0, "kiln:main_7f00_40_malloc");
        assert_eq!(functions[1].0, "kiln:main_7f00_40_malloc.twice");
        let bytes: Vec<u8> = functions.iter().flat_map(|(_, _, bytes)| bytes.clone()).collect();
        assert_eq!(bytes, machine.code.bytes);
    }
}
