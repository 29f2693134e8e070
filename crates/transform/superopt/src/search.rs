//! What no rule knows: shorter runs found by trying them.
//!
//! A window is a few arithmetic instructions with one result. Candidates are run on the concrete inputs of
//! [`Tester`], which refuses nearly all of them in well under a microsecond; what it lets through is proved like any
//! other proposal:
//!
//! ```text
//!   r1 <<= 3             every r1 op r, r1 op constant      tester     solver
//!   r1 += 8       -->    ~700 of one instruction       -->  1..2  -->  equal: shorter
//!   r1 >>= 3             ~80,000 of two
//! ```
//!
//! [`Search`] is the seam: [`Enumerate`] tries all short candidates; a stochastic search over longer windows can take
//! its place without the pass noticing.

use std::time::Instant;

use kiln_equiv::Tester;
use kiln_isa::semantics::{BitVec, Bits};
use kiln_isa::{AluOp, ByteOrder, Imm64, Insn, Reg, RegSet, Size, Source, Width};
use kiln_program::{Node, Reference};

/// What is looked for: a shorter run with the same result in one register.
pub struct Question<'q> {
    /// The run now.
    pub window: &'q [Node],
    /// The register that is read afterwards.
    pub result: Reg,
    /// Registers whose values the run begins with.
    pub inputs: RegSet,
    /// When to give up.
    pub deadline: Instant,
}

/// A way to look for shorter runs.
pub trait Search {
    /// Finds a run that `tester` cannot tell from the window, of fewer slots, and not yet refused by `accept`, which
    /// is the proof. Returns how many candidates were tried.
    fn find(&mut self, question: &Question<'_>, tester: &mut Tester, accept: &mut dyn FnMut(&[Insn]) -> bool) -> u64;
}

/// Tries every run of one instruction, then every one of two.
pub struct Enumerate {
    /// Instructions in a candidate at most.
    pub length: usize,
}

impl Search for Enumerate {
    fn find(&mut self, question: &Question<'_>, tester: &mut Tester, accept: &mut dyn FnMut(&[Insn]) -> bool) -> u64 {
        let slots: u32 = question.window.iter().map(|node| node.insn.slots()).sum();
        let template = question.window.last().expect("a window has instructions");
        let node = |insn| Node { insn, reference: Reference::None, core: None, ..template.clone() };
        let steps = candidates(question);
        let mut tried = 0;
        if slots > 1 {
            for insn in &steps {
                tried += 1;
                if tester.matches(&[node(*insn)]) && accept(&[*insn]) {
                    return tried;
                }
            }
        }
        if slots > 2 && self.length > 1 {
            for first in &steps {
                if Instant::now() >= question.deadline {
                    return tried;
                }
                for second in &steps {
                    tried += 1;
                    // A second instruction that does not read the first's result makes the first dead.
                    let reads = second.read().contains(question.result);
                    if reads && tester.matches(&[node(*first), node(*second)]) && accept(&[*first, *second]) {
                        return tried;
                    }
                }
            }
        }
        tried
    }
}

/// Instructions that write the result.
fn candidates(question: &Question<'_>) -> Vec<Insn> {
    let dst = question.result;
    let mut operands: Vec<Source> = question.inputs.iter().map(Source::Reg).collect();
    operands.extend(constants(question.window).into_iter().map(Source::Imm));
    let mut found = Vec::new();
    for width in [Width::W64, Width::W32] {
        for op in AluOp::ALL {
            // Signed division and remainder are of version 4; division is dear.
            if matches!(op, AluOp::Sdiv | AluOp::Smod | AluOp::Div | AluOp::Mod) {
                continue;
            }
            for src in &operands {
                let shift = matches!(op, AluOp::Lsh | AluOp::Rsh | AluOp::Arsh);
                let fits = match src {
                    Source::Imm(imm) => !shift || (1..width.bits() as i32).contains(imm),
                    Source::Reg(_) => true,
                };
                if fits {
                    found.push(Insn::Alu { op: *op, width, dst, src: *src });
                }
            }
        }
        found.push(Insn::Neg { width, dst });
    }
    for size in [Size::B2, Size::B4, Size::B8] {
        found.push(Insn::Endian { order: ByteOrder::Big, size, dst });
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

/// Whether an instruction may be in a searched window.
pub fn is_arithmetic(node: &Node) -> bool {
    let plain = match node.insn {
        Insn::Alu { .. } | Insn::Neg { .. } | Insn::Endian { .. } | Insn::MoveSignExtend { .. } => true,
        Insn::LoadImm64 { .. } => node.reference == Reference::None,
        _ => false,
    };
    plain && node.core.is_none() && node.insn.written() != Some(Reg::R10)
}
