//! All engines give the same result.

use kiln_isa::{AluOp, Insn};
use kiln_program::{Object, Program};

use super::{Canary, Finding};
use crate::engine::{Engine, NoRun, Ran, run};

/// Whether these engines return the same value and packet. The canary: all except the first use unsigned division for
/// signed.
pub fn agree(object: &Object, program: &Program, packet: &[u8], engines: &[Engine], canary: Canary) -> Finding {
    let broken = canary.is_present().then(|| unsigned_division(object));
    let mut first: Option<(Engine, Ran)> = None;
    for engine in engines.iter().copied() {
        let object = broken.as_ref().filter(|_| first.is_some()).unwrap_or(object);
        let ran = match run(engine, object, program, packet) {
            Ok(ran) => ran,
            Err(NoRun::Skipped(reason)) => return Finding::NotApplicable(reason),
            Err(NoRun::Failed(reason)) => {
                return Finding::Broken(format!("{}: {reason}\n{}", engine.name(), listing(object)));
            }
        };
        match &first {
            None => first = Some((engine, ran)),
            Some((_, wanted)) if ran == *wanted => {}
            Some((other, wanted)) => {
                let what = if ran.value == wanted.value {
                    "leave different packets".to_owned()
                } else {
                    format!("return {:#x} and {:#x}", wanted.value, ran.value)
                };
                let (one, two) = (other.name(), engine.name());
                return Finding::Broken(format!("{one} and {two} {what}\n{}", listing(object)));
            }
        }
    }
    Finding::Held
}

fn listing(object: &Object) -> String {
    kiln_program::text::listing(object)
}

fn unsigned_division(object: &Object) -> Object {
    let mut object = object.clone();
    for node in object.functions.iter_mut().flat_map(|function| &mut function.nodes) {
        if let Insn::Alu { op, .. } = &mut node.insn {
            *op = match *op {
                AluOp::Sdiv => AluOp::Div,
                AluOp::Smod => AluOp::Mod,
                other => other,
            };
        }
    }
    object
}
