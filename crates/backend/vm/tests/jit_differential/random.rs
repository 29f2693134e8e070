//! Random pieces of programs.

use kiln_isa::operation::{Binding, Condition, OperandKind, Registry, Template};
use kiln_isa::{Address, AluOp, AtomicOp, ByteOrder, Insn, JumpOp, Reg, Size, Source, Width};
use proptest::prelude::*;

use super::program::{CONTEXT, DUMP, Item, alu, branch, constant, load, reg, store};

pub fn any_dst() -> impl Strategy<Value = Reg> {
    (0u8..=8).prop_map(reg)
}

pub fn any_src() -> impl Strategy<Value = Reg> {
    (0u8..=9).prop_map(reg)
}

pub fn any_width() -> impl Strategy<Value = Width> {
    prop_oneof![Just(Width::W32), Just(Width::W64)]
}

pub fn any_imm() -> impl Strategy<Value = i32> {
    let edges: Vec<i32> = vec![
        0,
        1,
        -1,
        2,
        3,
        5,
        7,
        8,
        9,
        10,
        13,
        24,
        31,
        32,
        33,
        48,
        56,
        63,
        64,
        100,
        127,
        128,
        -128,
        -129,
        255,
        256,
        641,
        1000,
        0xffff,
        0x10000,
        0x7fff_fffe,
        i32::MAX,
        i32::MIN,
        i32::MIN + 1,
        -2,
        -7,
    ];
    prop_oneof![3 => proptest::sample::select(edges), 1 => any::<i32>()]
}

pub fn any_value() -> impl Strategy<Value = u64> {
    let edges: Vec<u64> = vec![
        0,
        1,
        2,
        7,
        0x7f,
        0x80,
        0xff,
        0x7fff,
        0x8000,
        0xffff,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        0x1_0000_0000,
        i64::MAX as u64,
        i64::MIN as u64,
        u64::MAX,
        u64::MAX - 1,
        0xffff_ffff_0000_0000,
        0xffff_ffff_8000_0000,
        0x0123_4567_89ab_cdef,
        10,
        63,
        64,
    ];
    prop_oneof![2 => proptest::sample::select(edges), 1 => any::<u64>()]
}

pub fn any_source() -> impl Strategy<Value = Source> {
    prop_oneof![any_src().prop_map(Source::Reg), any_imm().prop_map(Source::Imm)]
}

pub fn any_size() -> impl Strategy<Value = Size> {
    proptest::sample::select(Size::ALL.to_vec())
}

pub fn any_alu_op() -> impl Strategy<Value = AluOp> {
    proptest::sample::select(AluOp::ALL.to_vec())
}

pub fn any_jump_op() -> impl Strategy<Value = JumpOp> {
    proptest::sample::select(JumpOp::ALL.to_vec())
}

pub fn any_alu() -> impl Strategy<Value = Insn> {
    (any_alu_op(), any_width(), any_dst(), any_source()).prop_map(|(op, width, dst, src)| Insn::Alu {
        op,
        width,
        dst,
        src,
    })
}

pub fn any_plain() -> impl Strategy<Value = Insn> {
    let orders = vec![ByteOrder::Little, ByteOrder::Big, ByteOrder::Swap];
    let wide = vec![Size::B2, Size::B4, Size::B8];
    prop_oneof![
        8 => any_alu(),
        1 => (any_width(), any_dst()).prop_map(|(width, dst)| Insn::Neg { width, dst }),
        1 => (any_width(), any_size(), any_dst(), any_src()).prop_map(|(width, from, dst, src)| {
            let from = match (width, from) {
                (_, Size::B1) => Size::B1,
                (Width::W64, Size::B4) => Size::B4,
                _ => Size::B2,
            };
            Insn::MoveSignExtend { width, from, dst, src }
        }),
        1 => (proptest::sample::select(orders), proptest::sample::select(wide), any_dst())
            .prop_map(|(order, size, dst)| Insn::Endian { order, size, dst }),
        1 => (any_dst(), any_value()).prop_map(|(dst, value)| constant(dst, value)),
    ]
}

pub fn any_memory() -> impl Strategy<Value = Insn> {
    // Accesses are aligned, as atomics must be; offsets stay below the register dump.
    let place = |size: Size, base: Reg, word: i16| Address { base, offset: word * size.bytes() as i16 };
    let word = || 0i16..(DUMP / 8);
    prop_oneof![
        2 => (any_size(), any::<bool>(), any_dst(), any_dst(), word()).prop_map(move |(size, signed, dst, base, word)| {
            Insn::Load { size, signed: signed && size != Size::B8, dst, address: place(size, base, word) }
        }),
        2 => (any_size(), any_dst(), any_source(), word()).prop_map(move |(size, base, src, word)| {
            Insn::Store { size, address: place(size, base, word), src }
        }),
        2 => (proptest::sample::select(AtomicOp::ALL.to_vec()), any::<bool>(), any::<bool>(), any_dst(), any_dst(), word())
            .prop_map(move |(op, fetch, wide, base, src, word)| {
                let size = if wide { Size::B8 } else { Size::B4 };
                let fetch = fetch || op.row().always_fetch;
                Insn::Atomic { op, fetch, size, address: place(size, base, word), src }
            }),
        1 => (any_size(), any_dst(), any_dst(), word()).prop_map(move |(size, dst, base, word)| {
            Insn::LoadAcquire { size, dst, address: place(size, base, word) }
        }),
        1 => (any_size(), any_dst(), any_src(), word()).prop_map(move |(size, base, src, word)| {
            Insn::StoreRelease { size, address: place(size, base, word), src }
        }),
    ]
}

/// Runs that the JIT may do at once, and near misses of them.
pub fn any_run() -> impl Strategy<Value = Vec<Insn>> {
    let shifts = prop_oneof![Just(AluOp::Rsh), Just(AluOp::Arsh)];
    let copies = (any_width(), any_dst(), any_src(), any_alu_op(), any_width(), any_source()).prop_map(
        |(first, dst, src, op, second, operand)| {
            vec![alu(AluOp::Mov, first, dst, Source::Reg(src)), alu(op, second, dst, operand)]
        },
    );
    let pairs = (any_width(), any_dst(), shifts, any_imm(), any_imm()).prop_map(|(width, dst, op, left, right)| {
        vec![alu(AluOp::Lsh, width, dst, Source::Imm(left)), alu(op, width, dst, Source::Imm(right))]
    });
    let same = (any_width(), any_dst(), any_dst(), 0i32..64, any::<bool>(), any_alu_op()).prop_map(
        |(width, first, second, left, flipped, op)| {
            let right = (width.bits() as i32 - left).rem_euclid(width.bits() as i32);
            let join = if flipped { AluOp::Or } else { op };
            vec![
                alu(AluOp::Mov, width, first, Source::Reg(second)),
                alu(AluOp::Lsh, width, first, Source::Imm(left)),
                alu(AluOp::Rsh, width, second, Source::Imm(right)),
                alu(join, width, first, Source::Reg(second)),
                alu(AluOp::Mov, Width::W64, second, Source::Imm(0)),
            ]
        },
    );
    let rotations = (any_width(), any_dst(), any_dst(), any_dst(), 1i32..64, any::<bool>(), any::<bool>()).prop_map(
        |(width, part, from, to, amount, left_first, kill)| {
            let amount = amount & (width.bits() as i32 - 1);
            let rest = width.bits() as i32 - amount;
            let ops = if left_first { (AluOp::Lsh, AluOp::Rsh) } else { (AluOp::Rsh, AluOp::Lsh) };
            let mut run = vec![
                alu(AluOp::Mov, Width::W64, part, Source::Reg(from)),
                alu(ops.0, width, part, Source::Imm(amount)),
                alu(AluOp::Mov, width, to, Source::Reg(from)),
                alu(ops.1, width, to, Source::Imm(rest)),
                alu(AluOp::Or, width, to, Source::Reg(part)),
            ];
            if kill {
                run.push(alu(AluOp::Mov, Width::W64, part, Source::Imm(0)));
            }
            run
        },
    );
    prop_oneof![copies, pairs, same, rotations, any_access(), any_operation(), any_scaled_access(), any_clearing()]
}

/// A proof sequence of a native operation, its temporaries dead afterwards.
pub fn any_operation() -> impl Strategy<Value = Vec<Insn>> {
    let values = proptest::array::uniform8((0i32..9, any::<i32>()));
    (any::<usize>(), any::<usize>(), values, any::<usize>()).prop_map(|(operation, form, values, chosen)| {
        let operations: Vec<_> = Registry::BUILTIN.operations().collect();
        let operation = operations[operation % operations.len()];
        let form = &operation.forms[form % operation.forms.len()];
        let mut values: Vec<i32> = operation
            .operands
            .iter()
            .zip(values)
            .map(|(operand, (reg, number))| match operand.kind {
                // Offsets of accesses stay inside the memory.
                OperandKind::Immediate { min, .. } if min == i16::MIN.into() => number.rem_euclid(100),
                // Numbers of a chain are near one another, and near what registers hold.
                OperandKind::Immediate { min: -0x7fff_ffff, .. } => number.rem_euclid(64) - 1,
                OperandKind::Immediate { min: i32::MIN, .. } => number,
                OperandKind::Immediate { min, max } => min + number.rem_euclid(max - min + 1),
                OperandKind::Comparison => {
                    let ops = JumpOp::ALL.iter().filter(|op| op.row().negated.is_some());
                    ops.map(|op| i32::from(op.row().code))
                        .cycle()
                        .nth(number.rem_euclid(10) as usize)
                        .expect("a comparison")
                }
                _ => reg,
            })
            .collect();
        // Registers that must differ get others, then those that must be one register become one.
        for _ in 0..9 {
            for condition in form.when {
                match *condition {
                    Condition::Same(left, right) => values[usize::from(right)] = values[usize::from(left)],
                    Condition::Differ(left, right) if values[usize::from(left)] == values[usize::from(right)] => {
                        values[usize::from(right)] = (values[usize::from(right)] + 1) % 9;
                    }
                    _ => {}
                }
            }
        }
        let Some(operands) = Binding::of(&values).complete(operation, form) else { return vec![constant(Reg::R0, 7)] };
        let code = operands.instantiate(form).expect("a proof sequence");
        let address = code.iter().find_map(Insn::address);
        let mut run: Vec<Insn> = address.map(|address| load(Size::B8, address.base, CONTEXT)).into_iter().collect();
        if let [.., Template::Branch { dst, .. }] = form.code {
            // Some with a bit above the lower half.
            run.push(constant(operands.reg(*dst), chosen as u64 % 66 | chosen as u64 >> 63 << 40));
        }
        run.extend(code);
        if run.iter().any(Insn::is_control) {
            let after = if form.leaves() { 2 } else { 1 };
            run.extend((0..after).map(|_| alu(AluOp::Add, Width::W64, Reg::R0, Source::Imm(1))));
        }
        let dead = operands.temporaries(operation, form);
        run.extend(dead.iter().map(|register| constant(register, 0)));
        run
    })
}

/// Adjacent stores of zero to the stack, upwards or downwards, and loads of what they leave there.
pub fn any_clearing() -> impl Strategy<Value = Vec<Insn>> {
    (2i16..9, 2i16..20, any::<bool>(), any_dst(), any_dst()).prop_map(|(words, lowest, down, zero, read)| {
        // The slot below the frame pointer is the program's own.
        let place = |word: i16| Address { base: Reg::R10, offset: -8 * (lowest + word) };
        let mut run = vec![constant(zero, 0)];
        let clears = (0..words).map(|word| store(Size::B8, place(if down { words - 1 - word } else { word }), zero));
        run.extend(clears);
        run.push(load(Size::B8, read, place(words / 2)));
        run
    })
}

/// An access by a base and an index of 2, 4 or 8 bytes.
pub fn any_scaled_access() -> impl Strategy<Value = Vec<Insn>> {
    let registers = (any_dst(), any_dst(), any_dst(), any_dst());
    (registers, 1i32..4, 0u64..12, 0i16..100, any_size(), any::<bool>(), any::<bool>()).prop_map(
        |((base, index, temporary, other), scale, number, offset, size, copied, stores)| {
            let mut run = vec![load(Size::B8, base, CONTEXT), constant(index, number)];
            let shifted = if copied { temporary } else { index };
            if base == shifted || base == index || (copied && index == temporary) {
                return run;
            }
            if copied {
                run.push(alu(AluOp::Mov, Width::W64, shifted, Source::Reg(index)));
            }
            run.push(alu(AluOp::Lsh, Width::W64, shifted, Source::Imm(scale)));
            run.push(alu(AluOp::Add, Width::W64, base, Source::Reg(shifted)));
            let address = Address { base, offset };
            run.push(if stores { store(size, address, other) } else { load(size, other, address) });
            let dead = [base, shifted].into_iter().filter(|register| stores || *register != other);
            run.extend(dead.map(|register| constant(register, 0)));
            run
        },
    )
}

/// An address computed from the memory's, an access, and something done with what was read.
pub fn any_access() -> impl Strategy<Value = Vec<Insn>> {
    let registers = (any_dst(), any_dst(), any_dst(), any_dst(), any_dst());
    let numbers = (0i32..100, 0i32..100, 0i16..100);
    let more = prop_oneof![
        (any_alu_op(), any_width(), any_dst(), any_dst()).prop_map(|(op, width, dst, src)| alu(
            op,
            width,
            dst,
            Source::Reg(src)
        )),
        (any_size(), any_dst()).prop_map(|(size, dst)| {
            let size = if size == Size::B1 { Size::B2 } else { size };
            Insn::Endian { order: ByteOrder::Big, size, dst }
        }),
    ];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (registers, numbers, any_size(), more, flags).prop_map(
        |(
            (base, index, place, value, other),
            (scaled, added, offset),
            size,
            more,
            (copied, indexed, constant_too, stored, kill),
        )| {
            let mut run = vec![load(Size::B8, base, CONTEXT)];
            let place = if copied { place } else { base };
            if indexed && index != base {
                run.push(constant(index, scaled as u64));
            }
            if copied {
                run.push(alu(AluOp::Mov, Width::W64, place, Source::Reg(base)));
            }
            if indexed && index != base && index != place {
                run.push(alu(AluOp::Add, Width::W64, place, Source::Reg(index)));
            }
            if constant_too {
                run.push(alu(AluOp::Add, Width::W64, place, Source::Imm(added)));
            }
            let address = Address { base: place, offset };
            if stored && value != place {
                run.push(store(size, address, value));
            } else {
                run.push(load(size, value, address));
                // An operation that uses the value up, most times.
                run.push(match more {
                    Insn::Alu { op, width, dst, .. } if other != value => alu(op, width, dst, Source::Reg(value)),
                    Insn::Endian { order, size, .. } => Insn::Endian { order, size, dst: value },
                    more => more,
                });
            }
            // Addresses are the same in both runs, so leaving them is fine; some are overwritten to be dead.
            if kill {
                run.push(constant(place, 1));
                run.push(constant(value, 2));
            }
            run
        },
    )
}

pub fn any_item() -> impl Strategy<Value = Item> {
    prop_oneof![
        8 => any_plain().prop_map(Item::Plain),
        4 => any_memory().prop_map(Item::Memory),
        3 => any_run().prop_map(Item::Run),
        3 => (any_jump_op(), any_width(), any_src(), any_source(), 0usize..6)
            .prop_map(|(op, width, dst, src, over)| Item::Branch(branch(op, width, dst, src), over)),
        1 => (0usize..4, any::<bool>())
            .prop_map(|(over, long)| Item::Branch(Insn::Jump { offset: 0, long }, over)),
        3 => any_tested_branch(),
        1 => (any_jump_op(), any_width(), any_src(), any_source(), 0usize..6)
            .prop_map(|(op, width, dst, src, over)| Item::Inverted(branch(op, width, dst, src), over)),
        1 => (0usize..64).prop_map(Item::Back),
        1 => Just(Item::Call),
    ]
}

pub fn any_tested_branch() -> impl Strategy<Value = Item> {
    let zero = prop_oneof![4 => Just(Source::Imm(0)), 1 => any_source()];
    let after_alu = (any_alu(), any_src(), any::<bool>(), any_width(), any_jump_op(), any_width(), zero, 0usize..6)
        .prop_map(|(insn, from, copied, width, op, compared, src, over)| {
            let dst = insn.written().expect("arithmetic writes a register");
            let copy = copied.then(|| alu(AluOp::Mov, width, dst, Source::Reg(from)));
            let insns = copy.into_iter().chain([insn]).collect();
            Item::TestedBranch(insns, branch(op, compared, dst, src), over)
        });
    let after_load =
        (any_access(), any_jump_op(), any_width(), 0i32..256, 0usize..6).prop_map(|(mut run, op, width, imm, over)| {
            // The branch tests what the run loads last, if it ends there.
            while !matches!(run.last(), None | Some(Insn::Load { .. })) {
                run.pop();
            }
            let dst = run.last().and_then(Insn::written).unwrap_or(Reg::R0);
            Item::TestedBranch(run, branch(op, width, dst, Source::Imm(imm)), over)
        });
    prop_oneof![after_alu, after_load]
}

pub fn registers() -> impl Strategy<Value = Vec<u64>> {
    (proptest::collection::vec(any_value(), 9), 1u64..6).prop_map(|(mut values, loops)| {
        values.push(loops);
        values
    })
}
