//! Runs an XDP program on packets in the embedded VM: load once, call often, read a map.
//!
//! ```text
//! cargo run --release -p kiln-driver --no-default-features --example run_packet
//! ```
#![forbid(unsafe_code)]

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use kiln_driver::bytecode;
use kiln_driver::vm::{Options, Vm};
use kiln_driver::{ProgramType, input};

/// Counts packets in a map and marks the first byte of each.
const PROGRAM: &str = "\
; map count array key 4 value 8 entries 1
; program xdp name count
  r6 = r1
  *(u32 *)(r10 - 4) = 0
  r1 = map[count]
  r2 = r10
  r2 += -4
  call map_lookup_elem
  if r0 == 0 goto done
  r1 = 1
  lock *(u64 *)(r0 + 0) += r1
  r1 = *(u32 *)(r6 + 0)
  r2 = *(u32 *)(r6 + 4)
  r3 = r1
  r3 += 1
  if r3 > r2 goto done
  *(u8 *)(r1 + 0) = 7
done:
  r0 = 2
  exit
";

fn main() -> Result<(), Box<dyn Error>> {
    // `input::open` reads an object file the same way.
    let input = input::parse("count.bpf", PROGRAM.into(), &[])?;
    // Verifies and compiles. A program that is not safe does not get further than this.
    let vm = Vm::open(&input.object, "count", Options::default())?;

    // The handle finds the program once. A run changes the packet in place.
    let count = vm.program("count")?;
    let mut packet = [0; 64];
    assert_eq!(count.run(&mut packet)?, 2);
    assert_eq!(packet[0], 7);

    let map = vm.map("count")?;
    assert_eq!(vm.look_up(map, &0u32.to_le_bytes())?, Some(1u64.to_le_bytes().to_vec()));
    println!("one packet counted, its first byte is {}", packet[0]);

    // Raw instructions, as `BPF_PROG_LOAD` takes them: r0 = 2; exit.
    let bytes = [0xb7, 0, 0, 0, 2, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
    let mut vm = Vm::new(&bytecode::object("pass", ProgramType::Xdp, &bytes, Vec::new())?, Options::default())?;
    vm.load("pass")?;
    let pass = vm.program("pass")?;
    assert_eq!(pass.run(&mut packet)?, 2);

    // Memory in place: a `syscall` program reads and writes all of its context. Here it doubles a number.
    let text =
        "; program syscall name double\n r2 = *(u64 *)(r1 + 0)\n r2 += r2\n *(u64 *)(r1 + 0) = r2\n r0 = 0\n exit\n";
    let mut doubling = Vm::new(&input::parse("double.bpf", text.into(), &[])?.object, Options::default())?;
    doubling.load("double")?;
    let mut memory = 21u64.to_le_bytes();
    doubling.program("double")?.run_context(&mut memory)?;
    assert_eq!(u64::from_le_bytes(memory), 42);

    // What a call costs. Only a release build says something.
    let calls = 2_000_000;
    let mut samples: Vec<f64> = Vec::new();
    for _ in 0..7 {
        let begun = Instant::now();
        for _ in 0..calls {
            black_box(pass.run(black_box(&mut packet))?);
        }
        samples.push(begun.elapsed().as_nanos() as f64 / f64::from(calls));
    }
    samples.sort_by(f64::total_cmp);
    println!("{:.1} ns a call with a packet of {} bytes", samples[samples.len() / 2], packet.len());
    Ok(())
}
