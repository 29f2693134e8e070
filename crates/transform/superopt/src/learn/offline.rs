//! What is tried offline, besides all short runs with the window's own places and numbers.
//!
//! ```text
//!   r2 += 4; w1 = *(u8 *)(r2 + 1)      w1 = *(u8 *)(r2 + 5)         places that the window computes
//!
//!   *(u8 *)(r1 + 0) = 7          -->   *(u16 *)(r1 + 0) = 0x907     numbers that its numbers make side by side
//!   *(u8 *)(r1 + 1) = 9
//!
//!   r1 &= 0xff                   -->   (nothing)                    every subset, in order: runs of any length
//! ```
//!
//! `optimize` has no time for these.

use kiln_equiv::Tester;
use kiln_isa::{Address, AluOp, Imm64, Insn, Source, Width};
use kiln_program::Node;

use crate::search::pool::Pool;
use crate::search::{Accept, Best, Outcome, Question, Search, Step};

/// Tries the window without some of its instructions.
pub struct Fewer;

impl Search for Fewer {
    fn find(&mut self, question: &Question<'_>, tester: &mut Tester, accept: &mut Accept<'_>) -> Outcome {
        let nodes = question.window.before;
        let mut best = Best::new(question, tester, accept);
        for chosen in 0..(1_u32 << nodes.len().min(MOST)) - 1 {
            let kept = nodes.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1);
            let kept: Vec<Step> = kept.map(|(_, node)| Step::from(node)).collect();
            best.outcome.tried += 1;
            best.attempt(&kept);
        }
        best.outcome
    }
}

/// Instructions of which subsets are tried.
const MOST: usize = 8;

/// What candidates are made of offline.
pub fn pool(question: &Question<'_>) -> Pool {
    let before = question.window.before;
    let own = before.iter().filter_map(|node| node.insn.address());
    let mut places: Vec<Address> = own.flat_map(|own| addresses(question, own)).collect();
    places.sort_by_key(|address| (address.base.index(), address.offset));
    places.dedup();
    Pool::with(question, &places, &stored_constants(before))
}

/// A window's constants, and the wider constants that two of them make side by side.
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
