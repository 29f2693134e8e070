//! What is tried offline beside short arithmetic: fewer instructions, other comparisons, other accesses to memory.
//!
//! ```text
//!   r1 += -7                           if r1 == 8 goto out          Endings: other branches, with at most one
//!   if r1 == 1 goto out        -->     if r1 == 6 goto out          instruction before them
//!                                      if w1 s> -1 goto out   ...
//!
//!   w1 = *(u16 *)(r2 + 0)              w1 = *(u32 *)(r2 + 0)        Accesses: loads and stores of the same places,
//!   *(u16 *)(r3 + 0) = w1      -->     *(u32 *)(r3 + 0) = w1        of all sizes, byte swaps and moves
//!   w1 = *(u16 *)(r2 + 2) ...
//!
//!   r1 &= 0xff                 -->     (nothing)                    Fewer: every subset, in order
//! ```
//!
//! Offline there is time for all operands and all comparisons; what they have in common with the window is its memory
//! and where it goes.

use kiln_equiv::Tester;
use kiln_isa::semantics::{BitVec, Bits};
use kiln_isa::{Address, AluOp, ByteOrder, Imm64, Insn, JumpOp, Reg, RegSet, Size, Source, Width};
use kiln_program::{Node, Reference};

use crate::search::{Accept, Outcome, Question, Search, Step};

/// Tries the window without some of its instructions.
pub struct Fewer;

impl Search for Fewer {
    fn find(&mut self, question: &Question<'_>, tester: &mut Tester, accept: &mut Accept<'_>) -> Outcome {
        let nodes = question.window.before;
        let mut outcome = Outcome { complete: true, ..Outcome::default() };
        let mut bar = question.window_cost();
        for chosen in 0..(1_u32 << nodes.len().min(MOST)) - 1 {
            let kept = nodes.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1);
            let kept: Vec<Node> = kept.map(|(_, node)| node.clone()).collect();
            let cost = question.cost_of(kept.iter().map(Step::from));
            outcome.tried += 1;
            if cost < bar && tester.matches(&kept) {
                outcome.asked += 1;
                if accept(tester, &kept) {
                    bar = cost;
                }
            }
        }
        outcome
    }
}

/// Instructions of which subsets are tried.
const MOST: usize = 8;

/// Tries every comparison at the end.
pub struct Endings;

impl Search for Endings {
    fn find(&mut self, question: &Question<'_>, tester: &mut Tester, accept: &mut Accept<'_>) -> Outcome {
        let mut outcome = Outcome { complete: true, ..Outcome::default() };
        let Some((last, earlier)) = question.window.before.split_last() else { return outcome };
        let endings = endings(question, last);
        let mut bar = question.window_cost();
        let mut prefixes: Vec<Option<&Node>> = vec![None];
        prefixes.extend(earlier.iter().map(Some));
        for prefix in prefixes {
            for ending in &endings {
                if outcome.tried % 256 == 0 && question.is_over() {
                    outcome.complete = false;
                    return outcome;
                }
                outcome.tried += 1;
                let mut steps: Vec<Step> = prefix.into_iter().map(Step::from).collect();
                steps.push(Step { insn: *ending, reference: last.reference });
                let cost = question.cost_of(steps.iter().copied());
                if cost >= bar {
                    continue;
                }
                let nodes = question.nodes(&steps);
                if tester.matches(&nodes) {
                    outcome.asked += 1;
                    if accept(tester, &nodes) {
                        bar = cost;
                    }
                }
            }
        }
        outcome
    }
}

/// Instructions that may stand for the last one.
fn endings(question: &Question<'_>, last: &Node) -> Vec<Insn> {
    let insns = || question.window.before.iter().map(|node| node.insn);
    let registers: RegSet =
        insns().fold(RegSet::EMPTY, |set, insn| set.union(insn.read()).union(insn.written().into_iter().collect()));
    let mut operands: Vec<Source> = registers.iter().map(Source::Reg).collect();
    operands.extend(constants(question.window.before).into_iter().map(Source::Imm));
    match last.insn {
        Insn::Branch { .. } => {
            let widths = [Width::W64, Width::W32].into_iter();
            let forms = widths.flat_map(|width| JumpOp::ALL.iter().map(move |op| (width, *op)));
            let of = |(width, op): (Width, JumpOp)| {
                let operands = &operands;
                registers.iter().flat_map(move |dst| {
                    operands.iter().map(move |src| Insn::Branch { op, width, dst, src: *src, offset: 0 })
                })
            };
            forms.flat_map(of).collect()
        }
        _ => Vec::new(),
    }
}

/// Tries loads, stores, byte swaps and moves: all runs of one and two.
pub struct Accesses;

impl Search for Accesses {
    fn find(&mut self, question: &Question<'_>, tester: &mut Tester, accept: &mut Accept<'_>) -> Outcome {
        let mut outcome = Outcome { complete: true, ..Outcome::default() };
        let steps = accesses(question);
        let mut bar = question.window_cost();
        let mut attempt = |candidate: &[Insn], outcome: &mut Outcome| {
            outcome.tried += 1;
            let steps = candidate.iter().map(|insn| Step { insn: *insn, reference: Reference::None });
            let steps: Vec<Step> = steps.collect();
            let cost = question.cost_of(steps.iter().copied());
            if cost >= bar {
                return;
            }
            let nodes = question.nodes(&steps);
            if tester.matches(&nodes) {
                outcome.asked += 1;
                if accept(tester, &nodes) {
                    bar = cost;
                }
            }
        };
        steps.iter().for_each(|insn| attempt(&[*insn], &mut outcome));
        if question.window.before.len() > 2 {
            for first in &steps {
                if question.is_over() {
                    outcome.complete = false;
                    break;
                }
                for second in &steps {
                    attempt(&[*first, *second], &mut outcome);
                }
            }
        }
        outcome
    }
}

/// Accesses to the places of a window, of all sizes, with its registers and constants; and what swaps and moves.
fn accesses(question: &Question<'_>) -> Vec<Insn> {
    let before = question.window.before;
    let mut places: Vec<Address> = before.iter().filter_map(|node| node.insn.address()).collect();
    places.sort_by_key(|address| (address.base.index(), address.offset));
    places.dedup();
    // Addresses that the window computes: what it adds is part of the offset.
    let computed: Vec<Address> = places.iter().flat_map(|own| addresses(question, *own)).collect();
    places.extend(computed);
    places.sort_by_key(|address| (address.base.index(), address.offset));
    places.dedup();
    let written: Vec<Reg> = question.writable.iter().collect();
    let registers: RegSet = before
        .iter()
        .fold(RegSet::EMPTY, |set, node| set.union(node.insn.read()).union(node.insn.written().into_iter().collect()));
    let mut operands: Vec<Source> = registers.iter().map(Source::Reg).collect();
    operands.extend(stored_constants(before).into_iter().map(Source::Imm));
    let (stores, loads) = before.iter().fold((false, false), |(stores, loads), node| {
        (stores || matches!(node.insn, Insn::Store { .. }), loads || matches!(node.insn, Insn::Load { .. }))
    });
    let mut found = Vec::new();
    for size in Size::ALL {
        for address in &places {
            if loads {
                found.extend(written.iter().map(|dst| Insn::Load {
                    size,
                    signed: false,
                    dst: *dst,
                    address: *address,
                }));
            }
            if stores {
                found.extend(operands.iter().map(|src| Insn::Store { size, address: *address, src: *src }));
            }
        }
        if size != Size::B1 {
            found.extend(written.iter().map(|dst| Insn::Endian { order: ByteOrder::Big, size, dst: *dst }));
        }
    }
    for dst in &written {
        for src in registers.iter().filter(|src| src != dst && *src != Reg::R10) {
            for width in [Width::W64, Width::W32] {
                found.push(Insn::Alu { op: AluOp::Mov, width, dst: *dst, src: Source::Reg(src) });
            }
        }
    }
    found.truncate(MOST_ACCESSES);
    found
}

/// Instructions that pairs are made of at most.
const MOST_ACCESSES: usize = 600;

/// Constants of a window and what they make side by side.
fn stored_constants(before: &[Node]) -> Vec<i32> {
    let own: Vec<i64> = before
        .iter()
        .filter_map(|node| match node.insn {
            Insn::Alu { op: AluOp::Mov, src: Source::Imm(imm), .. } | Insn::Store { src: Source::Imm(imm), .. } => {
                Some(imm.into())
            }
            Insn::LoadImm64 { imm: Imm64::Value(value), .. } => Some(value as i64),
            _ => None,
        })
        .collect();
    let mut all = own.clone();
    for low in &own {
        for high in &own {
            all.extend([8, 16, 32].map(|bits| (low & ((1 << bits) - 1)) | high << bits));
        }
    }
    let mut all: Vec<i32> = all.into_iter().filter_map(|value| i32::try_from(value).ok()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Addresses from the registers that a window adds to, with what it adds as offsets.
fn addresses(question: &Question<'_>, own: Address) -> Vec<Address> {
    let mut found = Vec::new();
    for node in question.window.before {
        let Insn::Alu { op: AluOp::Mov | AluOp::Add, width: Width::W64, dst, src } = node.insn else { continue };
        let bases = [Some(dst), src.reg()].into_iter().flatten();
        let amounts: Vec<i32> = question
            .window
            .before
            .iter()
            .filter_map(|node| match node.insn {
                Insn::Alu { op: AluOp::Add, width: Width::W64, src: Source::Imm(imm), .. } => Some(imm),
                _ => None,
            })
            .collect();
        let amounts = amounts.into_iter().chain([0]).filter_map(|amount| i16::try_from(amount).ok());
        let offsets: Vec<i16> = amounts.filter_map(|amount| own.offset.checked_add(amount)).collect();
        found.extend(bases.flat_map(|base| offsets.iter().map(move |offset| Address { base, offset: *offset })));
    }
    found
}

/// Constants that a shorter run may need: those of the window, what they make together, and common ones.
fn constants(window: &[Node]) -> Vec<i32> {
    let own: Vec<i64> = window
        .iter()
        .filter_map(|node| match node.insn {
            Insn::Alu { src: Source::Imm(imm), .. } => Some(i64::from(imm)),
            Insn::LoadImm64 { imm: Imm64::Value(value), .. } => Some(value as i64),
            _ => None,
        })
        .collect();
    let mut all: Vec<i64> = vec![0, 1, -1, 8, 16, 24, 32, 48, 56, 0xff, 0xffff];
    for one in &own {
        all.extend([*one, one.wrapping_neg(), !one]);
        if (0..31).contains(one) {
            all.extend([1 << one, (1 << one) - 1, 32 - one, 64 - one]);
        }
        for other in &own {
            let (a, b) = (Bits::new(64, *one as u64), Bits::new(64, *other as u64));
            let made = [a.add(&b), a.sub(&b), a.and(&b), a.or(&b), a.xor(&b), a.mul(&b)];
            all.extend(made.map(|bits| bits.value() as i64));
            if (0..64).contains(other) {
                all.extend([one << other, one >> other]);
            }
        }
    }
    let mut all: Vec<i32> = all.into_iter().filter_map(|value| i32::try_from(value).ok()).collect();
    all.sort_unstable();
    all.dedup();
    all
}
