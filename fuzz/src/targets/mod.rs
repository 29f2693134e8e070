//! The fuzz targets, one row each.

mod accepted;
mod bytes;
mod decodable;
mod hostile;
mod same;
mod target;
mod verdicts;

use kiln_program::text::listing;

use crate::choices::Choices;
use crate::composed::composed;
use crate::program::{tame, wild};
use crate::seeds;
use kiln_driver::packets::Random;

pub use target::{Depth, Target};

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "elf",
        tier: "bytes",
        what: "damaged object files are read or refused; what is read is valid and can be written again",
        weight: 2,
        seeds: || seeds::objects().to_vec(),
        input: bytes::damaged_object,
        check: bytes::elf,
        show: None,
        shrink: None,
    },
    Target {
        name: "btf",
        tier: "bytes",
        what: "damaged type sections are read or refused; every question about what was read has an answer",
        weight: 1,
        seeds: bytes::type_sections,
        input: bytes::damaged_types,
        check: bytes::btf,
        show: None,
        shrink: None,
    },
    Target {
        name: "decode",
        tier: "bytes",
        what: "slots decode or are refused; encoding and text lose nothing",
        weight: 1,
        seeds: Vec::new,
        input: bytes::slots,
        check: bytes::decode,
        show: None,
        shrink: None,
    },
    Target {
        name: "text",
        tier: "bytes",
        what: "damaged texts are parsed or refused; what is parsed prints and parses to the same",
        weight: 1,
        seeds: bytes::texts,
        input: bytes::damaged_text,
        check: bytes::text,
        show: None,
        shrink: None,
    },
    Target {
        name: "program",
        tier: "decodable",
        what: "any valid instructions: text and slots lose nothing, the verifier ends with a verdict",
        weight: 2,
        seeds: Vec::new,
        input: decisions,
        check: decodable::program,
        show: Some(|_, bytes| listing(&wild(&mut Choices::new(bytes)))),
        shrink: None,
    },
    Target {
        name: "run",
        tier: "accepted",
        what: "accepted programs never fault, states lie within the Facts, and VM, JIT and reference agree",
        weight: 3,
        seeds: Vec::new,
        input: decisions,
        check: accepted::run,
        show: Some(|_, bytes| listing(&tame(&mut Choices::new(bytes)))),
        shrink: None,
    },
    Target {
        name: "answers",
        tier: "accepted",
        what: "states of composed programs lie within the Facts whatever helpers answer, and VM and JIT agree",
        weight: 2,
        seeds: Vec::new,
        input: more_decisions,
        check: accepted::answers,
        show: Some(|_, bytes| listing(&composed(&mut Choices::new(bytes)).0)),
        shrink: None,
    },
    Target {
        name: "optimize",
        tier: "accepted",
        what: "an optimized program does what the original does, for every goal, in the VM and the kernel",
        weight: 3,
        seeds: Vec::new,
        input: more_decisions,
        check: accepted::optimize,
        show: Some(accepted::show_optimized),
        shrink: None,
    },
    Target {
        name: "numbers",
        tier: "accepted",
        what: "short programs of masks, copies, halves and spills do the same when optimized, for every goal",
        weight: 3,
        seeds: Vec::new,
        input: few_decisions,
        check: same::numbers,
        show: Some(same::show_numbers),
        shrink: Some(same::shrink_numbers),
    },
    Target {
        name: "c",
        tier: "accepted",
        what: "small C programs, compiled at -O0 to -Os for v1 to v4, do the same when optimized, for every goal",
        weight: 2,
        seeds: Vec::new,
        input: more_decisions,
        check: same::c,
        show: Some(same::show_c),
        shrink: Some(same::shrink_c),
    },
    Target {
        name: "kernel",
        tier: "accepted",
        what: "the kernel's test run does what the reference interpreter does (skipped without bpf(2))",
        weight: 1,
        seeds: Vec::new,
        input: decisions,
        check: accepted::kernel,
        show: Some(|_, bytes| listing(&tame(&mut Choices::new(bytes)))),
        shrink: None,
    },
    Target {
        name: "corpus",
        tier: "verdict",
        what: "Kiln's verdict about a slightly changed real program is the kernel's; accepted ones stay within the facts",
        weight: 0,
        seeds: || {
            crate::originals::originals();
            Vec::new()
        },
        input: decisions,
        check: verdicts::check_original,
        show: Some(verdicts::show_original),
        shrink: None,
    },
    Target {
        name: "grown",
        tier: "verdict",
        what: "the same for slightly changed programs that grew from nothing",
        weight: 0,
        seeds: Vec::new,
        input: decisions,
        check: verdicts::check_grown,
        show: Some(verdicts::show_grown),
        shrink: None,
    },
    Target {
        name: "names",
        tier: "hostile",
        what: "whatever objects call their parts, what people read hides nothing and has no line of a name's own",
        weight: 1,
        seeds: Vec::new,
        input: decisions,
        check: hostile::names,
        show: Some(|_, bytes| hostile::named(&mut Choices::new(bytes))),
        shrink: None,
    },
    Target {
        name: "nesting",
        tier: "hostile",
        what: "what nests or chains deep is refused, or gets through within the stack, 512 MiB and the time",
        weight: 1,
        seeds: Vec::new,
        input: decisions,
        check: hostile::nesting,
        show: Some(|_, bytes| hostile::nested(&mut Choices::new(bytes))),
        shrink: None,
    },
    Target {
        name: "shared",
        tier: "hostile",
        what: "programs that share functions are optimized within 512 MiB and the time",
        weight: 1,
        seeds: Vec::new,
        input: decisions,
        check: hostile::shared,
        show: Some(|_, bytes| hostile::sharing(&mut Choices::new(bytes))),
        shrink: None,
    },
];

/// The target of this name.
pub fn by_name(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Random decisions, for programs that grow from choices.
fn decisions(random: &mut Random, _: &[Vec<u8>]) -> Vec<u8> {
    let most = 16 << random.below(6);
    let length = 8 + random.below(most);
    random.bytes(length as usize)
}

/// Random decisions for short programs.
fn few_decisions(random: &mut Random, _: &[Vec<u8>]) -> Vec<u8> {
    let most = 64 << random.below(4);
    let length = 48 + random.below(most);
    random.bytes(length as usize)
}

/// The same for programs of idioms, each of which takes a dozen.
fn more_decisions(random: &mut Random, _: &[Vec<u8>]) -> Vec<u8> {
    let most = 128 << random.below(4);
    let length = 96 + random.below(most);
    random.bytes(length as usize)
}
