//! What is fuzzed: Kiln, or Kiln with a canary bug in it.
//!
//! A fuzzer that finds nothing may be testing nothing. So each oracle has a *canary*: a small bug of the kind that the
//! oracle detects, wrapped around the real function. A test (`tests/canaries.rs`) requires that each canary is found
//! within seconds; `kiln-fuzz run --canary NAME` shows how.
//!
//! ```text
//!   Subject { decode: encoding::decode, .. }                      Kiln
//!   Subject { decode: panics_on_call, ..Subject::default() }      Kiln with the canary "decode-panics"
//! ```

use std::time::Duration;

use kiln_driver::input::{self, running_kernel_types};
use kiln_driver::{check, diagnostic, dump, flame};
use kiln_elf::ElfObject;
use kiln_isa::{AluOp, DecodeError, Insn, Slot, Source, Width};
use kiln_program::btf::{Btf, BtfError};
use kiln_program::text::TextError;
use kiln_program::{Function, Image, LowerError, Object, Program};
use kiln_superopt::{Options as OptimizerOptions, Rewrite};
use kiln_verifier::{Error, Facts, Options, Reason, Value};

use crate::usage::{SLOW, processor_time};
use crate::wrong_rewrites;

/// How verification ended.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Safe; what is known before each instruction.
    Accepted(Facts),
    /// Unsafe: the reason's code and the message.
    Refused(String),
    /// No answer: why.
    Unanswered(String),
}

/// The functions under test.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Slots to an instruction.
    pub decode: fn(&[Slot]) -> Result<Insn, DecodeError>,
    /// A file to an object.
    pub read: fn(&[u8]) -> Result<ElfObject, kiln_elf::Error>,
    /// An unchanged object to a file.
    pub write: fn(&ElfObject) -> Result<Vec<u8>, kiln_elf::Error>,
    /// Bytes to types.
    pub parse_btf: fn(&[u8]) -> Result<Btf, BtfError>,
    /// Text to an object.
    pub parse: fn(&str) -> Result<Object, TextError>,
    /// All text about an object for people: what it is, and the text.
    pub show: fn(&Object) -> Vec<(&'static str, String)>,
    /// An object to text.
    pub print: fn(&Object) -> String,
    /// A function to slots.
    pub lower: fn(&Function) -> Result<Image, LowerError>,
    /// A program to a verdict.
    pub verify: fn(&Object, &Program) -> Verdict,
    /// What the interpreter is given for a program.
    pub interpreted: fn(&Object) -> Object,
    /// What the JIT is given for a program.
    pub compiled: fn(&Object) -> Object,
    /// What the kernel is given for a program.
    pub in_kernel: fn(&Object) -> Object,
    /// A better program.
    pub optimize: fn(&Object, &OptimizerOptions) -> Rewrite,
}

impl Default for Subject {
    /// Kiln as it is.
    fn default() -> Subject {
        Subject {
            decode: kiln_isa::decode,
            read: |bytes| kiln_elf::read("fuzz.o", bytes),
            write: |read| read.write(&read.object),
            parse_btf: Btf::parse,
            parse: kiln_program::text::parse,
            show,
            print: kiln_program::text::print,
            lower: kiln_program::lower_function,
            verify,
            interpreted: Object::clone,
            compiled: Object::clone,
            in_kernel: Object::clone,
            optimize,
        }
    }
}

fn verify(object: &Object, program: &Program) -> Verdict {
    let options = Options { kernel_types: running_kernel_types(), ..Options::default() };
    match kiln_verifier::verify(object, program, &options) {
        Ok(verified) => Verdict::Accepted(verified.facts),
        Err(Error::Rejected(rejection)) => {
            Verdict::Refused(format!("{}: {}", rejection.reason.code(), rejection.message))
        }
        Err(error) => Verdict::Unanswered(error.to_string()),
    }
}

fn optimize(object: &Object, options: &OptimizerOptions) -> Rewrite {
    kiln_superopt::optimize(object, options, &mut ())
}

fn show(object: &Object) -> Vec<(&'static str, String)> {
    let none = Vec::<String>::new();
    let input = input::of_object(object.clone());
    let mut shown = vec![("maps", dump::maps(object)), ("text", kiln_program::text::print(object))];
    shown.extend(input.select(&["x".to_owned()]).err().map(|error| ("error", error.to_string())));
    for checked in check::check(&input, &input.select(&none).unwrap_or_default()) {
        shown.push(("name", format!("accepted {} ({})", checked.program, checked.section)));
        if let check::Verdict::Rejected { code, diagnosis, .. } = &checked.verdict {
            shown.push((
                "rejection",
                diagnostic::render(object, checked.program.exact(), code, diagnosis, diagnostic::Look::default()),
            ));
        }
    }
    for program in &object.programs {
        shown.push(("listing", dump::program(object, program, dump::Options::default())));
        let cost = check::profile(&input, program);
        let graph = cost.and_then(|cost| {
            let verified =
                flame::Verified { object: Some(object.name.clone()), program: program.name.clone(), cost: &cost };
            flame::graph(&program.name, &[verified]).ok()
        });
        shown.extend(graph.map(|svg| ("flame graph", String::from_utf8_lossy(&svg).into_owned())));
    }
    shown
}

/// A bug to be found.
#[derive(Debug)]
pub struct Canary {
    /// Its name.
    pub name: &'static str,
    /// The target that must find it.
    pub target: &'static str,
    /// What is wrong.
    pub what: &'static str,
    /// Kiln with it.
    pub subject: fn() -> Subject,
    /// Whether finding it takes `bpf(2)`.
    pub needs_kernel: bool,
}

/// At least one canary per oracle.
pub const CANARIES: &[Canary] = &[
    Canary {
        name: "decode-panics",
        target: "decode",
        what: "the decoder panics on one pseudo source of ld_imm64",
        subject: || Subject { decode: decode_panics, ..Subject::default() },
        needs_kernel: false,
    },
    Canary {
        name: "decode-forgets-a-field",
        target: "decode",
        what: "the decoder drops the offset of sign-extending loads",
        subject: || Subject { decode: decode_forgets, ..Subject::default() },
        needs_kernel: false,
    },
    Canary {
        name: "elf-trusts-an-offset",
        target: "elf",
        what: "the section headers' offset is used without a check",
        subject: || Subject { read: read_trusts, ..Subject::default() },
        needs_kernel: false,
    },
    Canary {
        name: "elf-writes-a-wrong-byte",
        target: "elf",
        what: "writing an object changes a byte of it",
        subject: || Subject { write: write_changes, ..Subject::default() },
        needs_kernel: false,
    },
    Canary {
        name: "btf-trusts-a-length",
        target: "btf",
        what: "the length of the string section is used without a check",
        subject: || Subject { parse_btf: btf_trusts, ..Subject::default() },
        needs_kernel: false,
    },
    Canary {
        name: "text-loses-a-sign",
        target: "text",
        what: "the printer writes negative offsets as positive ones",
        subject: || Subject { print: print_loses_sign, ..Subject::default() },
        needs_kernel: false,
    },
    Canary {
        name: "lower-loses-a-half",
        target: "program",
        what: "laying out drops the upper half of 64-bit immediates",
        subject: || Subject { lower: lower_loses_half, ..Subject::default() },
        needs_kernel: false,
    },
    Canary {
        name: "verifier-hangs",
        target: "program",
        what: "the verifier takes too long over one instruction",
        subject: || Subject { verify: verify_hangs, ..Subject::default() },
        needs_kernel: false,
    },
    Canary {
        name: "verifier-forgets-bounds",
        target: "run",
        what: "the verifier accepts packet accesses without a bounds check",
        subject: || Subject { verify: verify_forgets_bounds, ..Subject::default() },
        needs_kernel: false,
    },
    Canary {
        name: "verdict-forgets-null",
        target: "corpus",
        what: "the verifier accepts pointers that may be null",
        subject: || Subject { verify: verify_forgets_null, ..Subject::default() },
        needs_kernel: true,
    },
    Canary {
        name: "verdict-forgets-bounds",
        target: "grown",
        what: "the verifier accepts packet accesses without a bounds check",
        subject: || Subject { verify: verify_forgets_bounds, ..Subject::default() },
        needs_kernel: true,
    },
    Canary {
        name: "facts-too-narrow",
        target: "run",
        what: "the greatest value of a range is left out of the facts",
        subject: || Subject { verify: verify_narrows, ..Subject::default() },
        needs_kernel: false,
    },
    Canary {
        name: "facts-too-narrow-for-answers",
        target: "answers",
        what: "the greatest value of a range is left out of the facts",
        subject: || Subject { verify: verify_narrows, ..Subject::default() },
        needs_kernel: false,
    },
    Canary {
        name: "liveness-forgets-a-register",
        target: "run",
        what: "r3 is taken for dead everywhere",
        subject: || Subject { verify: verify_forgets_live, ..Subject::default() },
        needs_kernel: false,
    },
    Canary {
        name: "interpreter-shifts-wrong",
        target: "run",
        what: "the interpreter shifts 32-bit values arithmetically",
        subject: || Subject { interpreted: shifts_wrong, ..Subject::default() },
        needs_kernel: false,
    },
    Canary {
        name: "jit-compares-wrong",
        target: "run",
        what: "the JIT compares signed where it should compare unsigned",
        subject: || Subject { compiled: compares_wrong, ..Subject::default() },
        needs_kernel: false,
    },
    Canary {
        name: "optimizer-drops-zero-extension",
        target: "optimize",
        what: "the optimizer replaces a 32-bit move by a 64-bit one",
        subject: || Subject { optimize: drops_zero_extension, ..Subject::default() },
        needs_kernel: false,
    },
    Canary {
        name: "optimizer-trusts-a-stale-fact",
        target: "numbers",
        what: "an instruction goes that nothing reads, and a mask of a copy by facts that it made true",
        subject: || Subject { optimize: trusts_stale_fact, ..Subject::default() },
        needs_kernel: false,
    },
    Canary {
        name: "optimizer-drops-both-masks",
        target: "numbers",
        what: "a mask goes because a copy is masked again, and that one because the first was there",
        subject: || Subject { optimize: drops_both_masks, ..Subject::default() },
        needs_kernel: false,
    },
    Canary {
        name: "optimizer-drops-both-masks-of-c",
        target: "c",
        what: "the same, in what clang makes of C",
        subject: || Subject { optimize: drops_both_masks, ..Subject::default() },
        needs_kernel: false,
    },
    Canary {
        name: "kernel-disagrees",
        target: "kernel",
        what: "the kernel is handed another comparison than the interpreter",
        subject: || Subject { in_kernel: compares_wrong, ..Subject::default() },
        needs_kernel: true,
    },
    Canary {
        name: "a-name-is-printed-raw",
        target: "names",
        what: "one line is printed with the program's name as it is",
        subject: || Subject { show: show_raw, ..Subject::default() },
        needs_kernel: false,
    },
    Canary {
        name: "nesting-is-counted-again",
        target: "nesting",
        what: "each level of a nesting is counted from the first",
        subject: || Subject { parse: parse_counts_again, ..Subject::default() },
        needs_kernel: false,
    },
    Canary {
        name: "shared-facts-are-kept-for-each",
        target: "shared",
        what: "each program keeps 16 MiB of its own about what it shares",
        subject: || Subject { optimize: optimize_keeps, ..Subject::default() },
        needs_kernel: false,
    },
];

fn decode_panics(slots: &[Slot]) -> Result<Insn, DecodeError> {
    let insn = kiln_isa::decode(slots)?;
    if let Insn::LoadImm64 { imm: kiln_isa::Imm64::VariableBtf { .. }, .. } = insn {
        panic!("canary: a pseudo source that was not thought of");
    }
    Ok(insn)
}

fn decode_forgets(slots: &[Slot]) -> Result<Insn, DecodeError> {
    let mut insn = kiln_isa::decode(slots)?;
    if let Insn::Load { signed: true, address, .. } = &mut insn {
        address.offset = 0;
    }
    Ok(insn)
}

fn number(bytes: &[u8], at: usize, width: usize) -> usize {
    bytes.iter().skip(at).take(width).rev().fold(0, |value, byte| value << 8 | usize::from(*byte))
}

fn read_trusts(bytes: &[u8]) -> Result<ElfObject, kiln_elf::Error> {
    // `e_shoff`, in a file that has a header at all.
    if bytes.len() >= 64 && bytes.starts_with(b"\x7fELF") {
        let headers = &bytes[number(bytes, 40, 8)..];
        std::hint::black_box(headers.len());
    }
    kiln_elf::read("fuzz.o", bytes)
}

fn write_changes(read: &ElfObject) -> Result<Vec<u8>, kiln_elf::Error> {
    let mut bytes = read.write(&read.object)?;
    if let Some(byte) = bytes.last_mut() {
        *byte ^= 1;
    }
    Ok(bytes)
}

fn btf_trusts(bytes: &[u8]) -> Result<Btf, BtfError> {
    if bytes.len() >= 24 {
        let strings = &bytes[24..][number(bytes, 16, 4)..];
        std::hint::black_box(strings.len());
    }
    Btf::parse(bytes)
}

fn print_loses_sign(object: &Object) -> String {
    kiln_program::text::print(object).replace("(r10 - 0x", "(r10 + 0x")
}

fn lower_loses_half(function: &Function) -> Result<Image, LowerError> {
    let mut image = kiln_program::lower_function(function)?;
    for at in 1..image.slots.len() {
        if image.slots[at].opcode == 0 {
            image.slots[at].imm = 0;
        }
    }
    Ok(image)
}

fn verify_hangs(object: &Object, program: &Program) -> Verdict {
    let casts = |insn: &Insn| matches!(insn, Insn::AddressSpaceCast { .. });
    if object.functions.iter().flat_map(|function| &function.nodes).any(|node| casts(&node.insn)) {
        let begun = processor_time();
        while processor_time() < begun + SLOW + Duration::from_millis(100) {}
    }
    verify(object, program)
}

fn verify_forgets_bounds(object: &Object, program: &Program) -> Verdict {
    accepts_all_the_same(object, program, Reason::PacketBounds)
}

fn verify_forgets_null(object: &Object, program: &Program) -> Verdict {
    accepts_all_the_same(object, program, Reason::PossiblyNull)
}

fn accepts_all_the_same(object: &Object, program: &Program, reason: Reason) -> Verdict {
    match verify(object, program) {
        Verdict::Refused(why) if why.starts_with(reason.code()) => Verdict::Accepted(Facts::default()),
        verdict => verdict,
    }
}

fn verify_narrows(object: &Object, program: &Program) -> Verdict {
    let Verdict::Accepted(facts) = verify(object, program) else { return Verdict::Refused(String::new()) };
    let mut narrowed = Facts::default();
    for (insn, known) in facts.iter() {
        let mut known = known.clone();
        for value in &mut known.registers {
            if let Value::Scalar(scalar) = value
                && scalar.umin < scalar.umax
            {
                scalar.umax -= 1;
            }
        }
        narrowed.set(insn, known);
    }
    Verdict::Accepted(narrowed)
}

fn verify_forgets_live(object: &Object, program: &Program) -> Verdict {
    let Verdict::Accepted(facts) = verify(object, program) else { return Verdict::Refused(String::new()) };
    let mut fewer = Facts::default();
    for (insn, known) in facts.iter() {
        let mut known = known.clone();
        known.live_after.remove(kiln_isa::Reg::R3);
        fewer.set(insn, known);
    }
    Verdict::Accepted(fewer)
}

/// The object with each instruction changed.
fn with_each(object: &Object, change: impl Fn(&mut Insn)) -> Object {
    let mut object = object.clone();
    for node in object.functions.iter_mut().flat_map(|function| &mut function.nodes) {
        change(&mut node.insn);
    }
    object
}

fn shifts_wrong(object: &Object) -> Object {
    with_each(object, |insn| {
        if let Insn::Alu { op: op @ AluOp::Rsh, width: Width::W32, .. } = insn {
            *op = AluOp::Arsh;
        }
    })
}

fn compares_wrong(object: &Object) -> Object {
    use kiln_isa::JumpOp;
    with_each(object, |insn| {
        if let Insn::Branch { op, .. } = insn {
            *op = match *op {
                JumpOp::Gt => JumpOp::Sgt,
                JumpOp::Lt => JumpOp::Slt,
                other => other,
            };
        }
    })
}

fn trusts_stale_fact(object: &Object, options: &OptimizerOptions) -> Rewrite {
    optimize_changed(object, options, wrong_rewrites::stale_fact)
}

fn drops_both_masks(object: &Object, options: &OptimizerOptions) -> Rewrite {
    optimize_changed(object, options, wrong_rewrites::mutual_masks)
}

fn optimize_changed(object: &Object, options: &OptimizerOptions, change: fn(&Object, &Facts) -> Object) -> Rewrite {
    match verify(object, &object.programs[0]) {
        Verdict::Accepted(facts) => optimize(&change(object, &facts), options),
        Verdict::Refused(_) | Verdict::Unanswered(_) => optimize(object, options),
    }
}

fn drops_zero_extension(object: &Object, options: &OptimizerOptions) -> Rewrite {
    let rewrite = optimize(object, options);
    let object = with_each(&rewrite.object, |insn| {
        if let Insn::Alu { op: AluOp::Mov, width, src: Source::Reg(_), .. } = insn {
            *width = Width::W64;
        }
    });
    Rewrite { object, ..rewrite }
}

fn show_raw(object: &Object) -> Vec<(&'static str, String)> {
    object.programs.iter().map(|program| ("name", format!("accepted {}", program.name))).collect()
}

fn parse_counts_again(text: &str) -> Result<Object, TextError> {
    let levels = text.lines().filter(|line| line.starts_with("; inner") || line.contains("call f")).count();
    // As often as the square of the levels, and no longer than it takes to be noticed.
    let counted = (1024 * levels as u64 * levels as u64).min(24 << 30);
    for number in 0..counted {
        std::hint::black_box(number);
    }
    kiln_program::text::parse(text)
}

fn optimize_keeps(object: &Object, options: &OptimizerOptions) -> Rewrite {
    let kept: Vec<Vec<u8>> = object.programs.iter().map(|_| vec![1; 16 << 20]).collect();
    std::hint::black_box(&kept);
    optimize(object, options)
}
