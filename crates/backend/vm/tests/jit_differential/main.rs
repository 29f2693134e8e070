//! The JIT against the reference interpreter, on random programs.
//!
//! Every program runs twice on the same 512 bytes of memory, whose address both take as their context, and must end
//! with the same R0 and the same memory:
//!
//! ```text
//!   *(u64 *)(r10 - 8) = r1         where the memory is
//!   r0 = ... r9 = ...              interesting values; r9 counts loops down
//!   <random items>                 arithmetic, memory, atomics, branches both ways, a subprogram
//!   r1 = *(u64 *)(r10 - 8) ...     all registers into memory
//!   exit
//! ```
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

mod machines;
mod native;
mod program;
mod random;

use kiln_isa::{Address, AluOp, AtomicOp, CallTarget, Insn, Reg, Size, Source, Width};
use proptest::prelude::*;

use machines::agree;
use program::{CONTEXT, Item, alu, constant, load, program, reg};
use random::{any_item, any_memory, any_plain, any_run, registers};

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_agree(
        items in proptest::collection::vec(any_item(), 1..60),
        callee in proptest::collection::vec(any_item(), 1..20),
        registers in registers(),
    ) {
        let (object, entry) = program(&items, Some(&callee), &registers);
        agree(&object, entry);
    }

    #[test]
    fn single_instructions_agree(item in prop_oneof![
        any_plain().prop_map(Item::Plain), any_memory().prop_map(Item::Memory), any_run().prop_map(Item::Run),
    ], registers in registers()) {
        let (object, entry) = program(&[item], None, &registers);
        agree(&object, entry);
    }
}

/// Every ALU form on every pair of registers, with values that divide badly.
#[test]
fn every_arithmetic_form_agrees() {
    let values = [0, 1, 7, u64::MAX, i64::MIN as u64, 0x8000_0000, 0xffff_ffff, 0x1234_5678_9abc_def0, 63, 10];
    for op in AluOp::ALL {
        for width in [Width::W32, Width::W64] {
            for rotation in 0..values.len() {
                let mut items = Vec::new();
                let mut registers = values;
                registers.rotate_left(rotation);
                for dst in 0..9u8 {
                    for src in 0..10u8 {
                        items.push(Item::Plain(constant(reg(dst), registers[dst as usize])));
                        items.push(Item::Plain(alu(*op, width, reg(dst), Source::Reg(reg(src)))));
                    }
                    for imm in [0, 1, -1, 2, 3, 7, 10, 31, 32, 63, 64, 641, -3, 0xff, 0xffff, i32::MIN, i32::MAX] {
                        items.push(Item::Plain(constant(reg(dst), registers[dst as usize])));
                        items.push(Item::Plain(alu(*op, width, reg(dst), Source::Imm(imm))));
                    }
                }
                let (object, entry) = program(&items, None, &registers);
                agree(&object, entry);
            }
        }
    }
}

/// Division by every small constant and some large ones, at numbers around multiples.
#[test]
fn division_by_constants_agrees() {
    let large = [641, 1000, 1461, 3600, 6700417, 86400, 1_000_000_007, i32::MAX, i32::MAX - 1, 0x5555_5555];
    for divisor in (2..130).chain(large) {
        let mut items = Vec::new();
        for op in [AluOp::Div, AluOp::Mod, AluOp::Sdiv, AluOp::Smod] {
            for width in [Width::W32, Width::W64] {
                for number in [u64::MAX, i64::MAX as u64, u64::from(u32::MAX), 1 << 63, 12_345_678_901_234_567_890] {
                    for number in
                        [number, number / divisor as u64 * divisor as u64, number / divisor as u64 * divisor as u64 - 1]
                    {
                        items.push(Item::Plain(constant(Reg::R3, number)));
                        items.push(Item::Plain(alu(op, width, Reg::R3, Source::Imm(divisor))));
                        items.push(Item::Plain(alu(AluOp::Xor, Width::W64, Reg::R7, Source::Reg(Reg::R3))));
                        items.push(Item::Plain(alu(AluOp::Mul, Width::W64, Reg::R7, Source::Imm(31))));
                    }
                }
            }
        }
        let (object, entry) = program(&items, None, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        agree(&object, entry);
    }
}

/// Compare-and-exchange that succeeds: at random it hardly ever does.
#[test]
fn successful_exchanges_agree() {
    for size in [Size::B4, Size::B8] {
        for base in 1..9u8 {
            for src in 0..9u8 {
                let address = Address { base: reg(base), offset: 16 };
                let compare = Insn::Atomic { op: AtomicOp::CompareExchange, fetch: true, size, address, src: reg(src) };
                let items = [
                    Item::Run(vec![load(Size::B8, reg(base), CONTEXT), load(size, Reg::R0, address)]),
                    // Only the lower half is compared; the upper one must be cleared either way.
                    Item::Run(vec![
                        alu(AluOp::Mov, Width::W64, Reg::R9, Source::Imm(if size == Size::B4 { 1 } else { 0 })),
                        alu(AluOp::Lsh, Width::W64, Reg::R9, Source::Imm(40)),
                        alu(AluOp::Or, Width::W64, Reg::R0, Source::Reg(Reg::R9)),
                        compare,
                    ]),
                ];
                let (object, entry) = program(&items, None, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
                agree(&object, entry);
            }
        }
    }
}

/// Helpers see R1 to R5 and give R0; classic packet loads read or leave.
#[test]
fn helpers_and_packet_loads_agree() {
    for (offset, size) in [(0, Size::B1), (14, Size::B2), (60, Size::B4), (61, Size::B4), (-1, Size::B1)] {
        for mode in [kiln_isa::PacketMode::Absolute, kiln_isa::PacketMode::Indirect(Reg::R7)] {
            let items = [
                Item::Plain(Insn::Call(CallTarget::Helper(1))),
                Item::Plain(alu(AluOp::Mov, Width::W64, Reg::R8, Source::Reg(Reg::R0))),
                Item::Plain(Insn::LoadPacket { mode, size, offset }),
                Item::Plain(alu(AluOp::Add, Width::W64, Reg::R8, Source::Reg(Reg::R0))),
                // Calls destroy R1 to R5: give them known values.
                Item::Run((1..6).map(|number| constant(reg(number), 0)).collect()),
            ];
            let (object, entry) = program(&items, None, &[0, 1, 2, 3, 4, 5, 6, 1, 8, 9]);
            agree(&object, entry);
        }
    }
}
