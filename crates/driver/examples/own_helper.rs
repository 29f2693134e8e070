//! Gives programs a helper of one's own: the verifier checks calls of it like those of the kernel's.
//!
//! ```text
//! cargo run -p kiln-driver --no-default-features --example own_helper
//! ```
#![forbid(unsafe_code)]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kiln_driver::vm::{Options, OwnHelper, Vm};
use kiln_driver::{ArgKind, Helper, Memory, input};

/// `long checksum(const void *bytes, __u64 size)`. In C for clang:
/// `static long (*checksum)(const void *bytes, __u64 size) = (void *)65536;`
static CHECKSUM: Helper =
    Helper::own(65_536, "checksum", &[ArgKind::Memory(Memory::READ), ArgKind::Size { zero_allowed: false }]);

/// Sums eight bytes of its stack.
const PROGRAM: &str = "\
; program xdp name sum
  r1 = 0x0102030405060708 ll
  *(u64 *)(r10 - 8) = r1
  r1 = r10
  r1 += -8
  r2 = 8
  call 65536
  exit
";

/// The same with a size that leaves the stack.
const UNSAFE: &str = "; program xdp name sum\n r1 = r10\n r1 += -8\n r2 = 16\n call 65536\n exit\n";

fn options(calls: &Arc<AtomicU64>) -> Options {
    let calls = Arc::clone(calls);
    let checksum = OwnHelper::new(&CHECKSUM, move |call| {
        calls.fetch_add(1, Ordering::Relaxed);
        let [bytes, size, ..] = call.arguments;
        // The verifier has checked that the program owns these bytes; asking again is what makes this safe Rust.
        call.read(bytes, size as usize).map_or(0, |bytes| bytes.iter().map(|byte| u64::from(*byte)).sum())
    });
    Options { own_helpers: vec![checksum], ..Options::default() }
}

fn main() -> Result<(), Box<dyn Error>> {
    let calls = Arc::new(AtomicU64::new(0));
    let mut vm = Vm::new(&input::parse("sum.bpf", PROGRAM.into(), &[])?.object, options(&calls))?;
    vm.load("sum")?;
    assert_eq!(vm.program("sum")?.run(&mut [0; 64])?, 36);
    println!("the sum is 36, by {} call", calls.load(Ordering::Relaxed));

    let mut vm = Vm::new(&input::parse("unsafe.bpf", UNSAFE.into(), &[])?.object, options(&calls))?;
    let error = vm.load("sum").expect_err("16 bytes are not there");
    println!("{error}");
    Ok(())
}
