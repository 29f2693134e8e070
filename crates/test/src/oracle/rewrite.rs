//! A program and its rewritten form do the same.

use kiln_isa::{AluOp, Insn, Size, Source, Width};
use kiln_program::{Object, Program};

use super::{Canary, Finding};
use crate::engine::{Engine, NoRun, run};

/// Whether both return the same values and packets, on one engine and these packets.
pub fn same(before: &Object, after: &Object, program: &Program, packets: &[Vec<u8>], engine: Engine) -> Finding {
    let Some(rewritten) = after.program(&program.name) else {
        return Finding::Broken(format!("program {} is gone", program.name));
    };
    let mut ran = 0;
    for packet in packets {
        let (old, new) = (run(engine, before, program, packet), run(engine, after, rewritten, packet));
        match (old, new) {
            (Ok(old), Ok(new)) if old == new => ran += 1,
            (Err(NoRun::Skipped(reason)), _) | (_, Err(NoRun::Skipped(reason))) => {
                return Finding::NotApplicable(reason);
            }
            // A program that does not run before need not run after.
            (Err(NoRun::Failed(_)), _) => {}
            (old, new) => {
                return Finding::Broken(format!(
                    "{}: {old:02x?} became {new:02x?} on {packet:02x?}\n{}\nrewritten:\n{}",
                    engine.name(),
                    kiln_program::text::listing(before),
                    kiln_program::text::listing(after)
                ));
            }
        }
    }
    if ran > 0 { Finding::Held } else { Finding::NotApplicable("it never runs".to_owned()) }
}

/// Optimizes the object. The canary adds a known bug of rule-based tools: a 32-bit constant stored as 64 bits loses its
/// zero-extension.
pub fn optimized(object: &Object, canary: Canary) -> Object {
    // The time is limited, because proofs of arithmetic that no compiler writes take long. The partial result must be
    // correct as well.
    let budget = std::time::Duration::from_secs(3);
    let options = kiln_superopt::Options { budget, search: 1, ..Default::default() };
    let mut after = kiln_superopt::optimize(object, &options, &mut ()).object;
    if canary.is_present() {
        after = object.clone();
        after.functions.iter_mut().for_each(|function| store_sign_extended(&mut function.nodes));
    }
    after
}

fn store_sign_extended(nodes: &mut [kiln_program::Node]) {
    for at in 1..nodes.len() {
        let Insn::Alu { op: AluOp::Mov, width: Width::W32, dst, src: Source::Imm(imm) } = nodes[at - 1].insn else {
            continue;
        };
        if let Insn::Store { size: Size::B8, src, .. } = &mut nodes[at].insn
            && *src == Source::Reg(dst)
        {
            *src = Source::Imm(imm);
        }
    }
}
