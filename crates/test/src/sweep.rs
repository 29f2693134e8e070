//! The single-operation sweep: one operation on numbers of every kind, and what the kernel knows about the result.
//!
//! A program makes one or two numbers, does one operation, and uses the result as an offset into a map value. The value
//! is exactly as large as the result needs by our verifier, or one byte smaller. If both verifiers know the same about
//! the result, they agree on both programs. Otherwise only one of them accepts one of the programs.
//!
//! ```text
//!   call get_prandom_u32 ...            r6: what shape says, such as -10..50 with known low bits
//!   r6 <<= 3                            the operation
//!   r6 += -LOWEST                       the window: from the lowest value that we think possible
//!   r0 = map_value + r6; load           in a value of HIGHEST - LOWEST + 1 bytes: accepted; one less: refused
//! ```
//!
//! Programs are numbered: a number always gives the same program, and a stride through all numbers samples every kind.

use std::fmt::Write as _;

use kiln_isa::{Insn, Reg};
use kiln_linux::Loader;
use kiln_program::Object;
use kiln_verifier::{Error, Options, Value};

/// How the numbers that enter the operation are made, in the register `{r}` (`w` its lower half) from random ones.
const SHAPES: &[&[&str]] = &[
    &[],
    &["r{r} &= 7"],
    &["r{r} &= 0xff"],
    &["r{r} &= 0xf8"],
    &["r{r} &= 0xff", "r{r} += -10"],
    &["r{r} &= 63", "r{r} += -10"],
    &["r{r} &= 7", "r{r} = -r{r}"],
    &["r{r} &= 7", "r{r} <<= 61"],
    &["r{r} &= 0xff", "r{r} <<= 32"],
    &["r{r} &= 0xff", "r{r} <<= 24"],
    &["w{r} = w{r}"],
    &["w{r} &= 0xff", "w{r} += -10"],
    &["r{r} s>>= 63"],
    &["w{r} s>>= 31"],
    &["r{r} s>>= 56"],
    &["r{r} >>= 56"],
    &["w{r} s>>= 24"],
    &["w{r} >>= 20"],
    &["r{r} |= 1"],
    &["r{r} |= -8"],
    &["r{r} = 5"],
    &["r{r} = -5"],
    &["r{r} = 0"],
    &["w{r} = -1"],
    &["r{r} = 31"],
    &["r{r} = 32"],
    &["r{r} = 0x80000000 ll"],
    &["r{r} = 0x7fffffffffffffff ll"],
    &["r{r} = 0x123456780 ll"],
    &["if r{r} > 50 goto out"],
    &["if r{r} s> 50 goto out", "if r{r} s< -10 goto out"],
    &["if w{r} > 50 goto out"],
    &["if w{r} s> 50 goto out", "if w{r} s< -10 goto out"],
    &["if r{r} > 50 goto out", "if r{r} < 20 goto out", "r{r} &= -4"],
    &["if r{r} s> -3 goto out", "if r{r} s< -9 goto out"],
    &["r1 = 0x80000010 ll", "if r{r} > r1 goto out", "r1 = 0x7ffffff0 ll", "if r{r} < r1 goto out"],
    &["r1 = 0x100000010 ll", "if r{r} > r1 goto out", "r1 = 0xfffffff0 ll", "if r{r} < r1 goto out"],
    &["if r{r} & 0xf goto out"],
    &["if r{r} s< -0x8000 goto out", "if r{r} s> 0x7fff goto out"],
    &["if r{r} s< -128 goto out", "if r{r} s> 255 goto out"],
];

/// Operations that take constants, of a number in r6.
const WITH_CONSTANT: &[&str] = &["+=", "-=", "*=", "&=", "|=", "^=", "<<=", ">>=", "s>>=", "/=", "%=", "s/=", "s%="];
/// Comparisons.
const COMPARISONS: &[&str] = &["==", "!=", ">", ">=", "<", "<=", "s>", "s>=", "s<", "s<=", "&"];
/// Edge constants of operations.
const CONSTANTS: &[i64] = &[
    0,
    1,
    2,
    3,
    7,
    8,
    20,
    31,
    32,
    33,
    50,
    63,
    64,
    127,
    128,
    255,
    256,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    -1,
    -2,
    -8,
    -10,
    -128,
    -0x8000_0000,
];
/// Operations without a second operand.
const UNARY: &[&[&str]] = &[
    &["r6 = -r6"],
    &["w6 = -w6"],
    &["r6 = (s8)r6"],
    &["r6 = (s16)r6"],
    &["r6 = (s32)r6"],
    &["w6 = (s8)w6"],
    &["w6 = (s16)w6"],
    &["w6 = w6"],
    &["r7 = r6", "r6 = r7"],
    &["r6 = be16 r6"],
    &["r6 = be32 r6"],
    &["r6 = be64 r6"],
    &["r6 = le16 r6"],
    &["r6 = le32 r6"],
    &["r6 = bswap16 r6"],
    &["r6 = bswap32 r6"],
    &["r6 = bswap64 r6"],
    &["r7 = r6", "r6 s>>= 63", "r6 &= r7"],
];
/// Ways through the stack, of `r6`.
const STORES: &[&[&str]] = &[
    &["*(u64 *)(r10 - 8) = r6"],
    &["*(u32 *)(r10 - 8) = r6"],
    &["*(u16 *)(r10 - 8) = r6"],
    &["*(u8 *)(r10 - 8) = r6"],
    &["*(u32 *)(r10 - 4) = r6"],
    &["*(u64 *)(r10 - 8) = 0", "*(u32 *)(r10 - 8) = r6"],
    &["*(u64 *)(r10 - 8) = 0", "*(u8 *)(r10 - 5) = r6"],
    &["*(u64 *)(r10 - 8) = r6", "*(u8 *)(r10 - 1) = 0"],
    &["*(u64 *)(r10 - 8) = -1", "*(u16 *)(r10 - 4) = r6"],
    &["*(u64 *)(r10 - 8) = 0", "*(u64 *)(r10 - 16) = 0", "r7 &= 8", "r7 += r10", "*(u64 *)(r7 - 16) = 0"],
    &["*(u64 *)(r10 - 8) = r6", "*(u64 *)(r10 - 16) = 0", "r7 &= 8", "r7 += r10", "*(u64 *)(r7 - 16) = 0"],
    &["*(u32 *)(r10 - 8) = 0", "*(u32 *)(r10 - 4) = 0", "r7 &= 4", "r7 += r10", "*(u32 *)(r7 - 8) = 0"],
    &["*(u64 *)(r10 - 8) = 0", "lock *(u64 *)(r10 - 8) += r6"],
    &["*(u64 *)(r10 - 8) = r6", "r6 = 3", "r6 = atomic_fetch_add((u64 *)(r10 - 8), r6)"],
];
/// Loads of what was stored.
const LOADS: &[&[&str]] = &[
    &["r6 = *(u64 *)(r10 - 8)"],
    &["r6 = *(u32 *)(r10 - 8)"],
    &["r6 = *(u32 *)(r10 - 4)"],
    &["r6 = *(u16 *)(r10 - 8)"],
    &["r6 = *(u16 *)(r10 - 6)"],
    &["r6 = *(u8 *)(r10 - 8)"],
    &["r6 = *(u8 *)(r10 - 1)"],
    &["r6 = *(s32 *)(r10 - 8)"],
    &["r6 = *(s16 *)(r10 - 8)"],
    &["r6 = *(s8 *)(r10 - 8)"],
    &["r6 = *(s8 *)(r10 - 4)"],
    &["r9 &= 4", "r9 += r10", "r6 = *(u32 *)(r9 - 8)"],
    &["r9 &= 7", "r9 += r10", "r6 = *(u8 *)(r9 - 8)"],
    &["r9 &= 7", "r9 += r10", "r6 = *(u32 *)(r9 - 16)"],
];

/// The view of the result.
const VIEWS: &[&[&str]] =
    &[&[], &["w6 = w6"], &["r6 &= 7"], &["r6 >>= 32"], &["r6 <<= 32", "r6 s>>= 32"], &["r6 = r7"]];

/// One program: text without the use of the result, which [`Window`] adds.
#[derive(Clone, Debug)]
pub struct Case {
    lines: Vec<String>,
}

/// How the result is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// What the result is lowered by.
    pub lowest: i64,
    /// Bytes of the value that it is an offset into.
    pub bytes: u32,
}

/// How many programs there are, each with a few windows.
pub fn count() -> u64 {
    let operands = (CONSTANTS.len() + SHAPES.len()) as u64;
    let kinds = (WITH_CONSTANT.len() + COMPARISONS.len() * 2) as u64 * 2 * operands;
    let others = (UNARY.len() + STORES.len() * LOADS.len()) as u64;
    SHAPES.len() as u64 * (kinds + others) * VIEWS.len() as u64
}

/// The program of that number, below [`count`].
pub fn case(mut number: u64) -> Case {
    let mut choose = |of: usize| {
        let chosen = (number % of as u64) as usize;
        number /= of as u64;
        chosen
    };
    let view = VIEWS[choose(VIEWS.len())];
    let shape = SHAPES[choose(SHAPES.len())];
    let mut lines = made(6, shape);
    let operands = CONSTANTS.len() + SHAPES.len();
    let binary = (WITH_CONSTANT.len() + COMPARISONS.len() * 2) * 2 * operands;
    let unary = UNARY.len();
    let kind = choose(binary + unary + STORES.len() * LOADS.len());
    if kind < binary {
        binary_operation(&mut lines, kind);
    } else if kind < binary + unary {
        lines.extend(UNARY[kind - binary].iter().map(ToString::to_string));
    } else {
        let kind = kind - binary - unary;
        lines.extend(STORES[kind % STORES.len()].iter().map(ToString::to_string));
        lines.extend(LOADS[kind / STORES.len()].iter().map(ToString::to_string));
    }
    lines.extend(view.iter().map(ToString::to_string));
    Case { lines }
}

fn made(register: u32, shape: &[&str]) -> Vec<String> {
    shape.iter().map(|line| line.replace("{r}", &register.to_string())).collect()
}

fn binary_operation(lines: &mut Vec<String>, kind: usize) {
    let operands = CONSTANTS.len() + SHAPES.len();
    let (operand, kind) = (kind % operands, kind / operands);
    let (narrow, kind) = (kind % 2 == 1, kind / 2);
    let letter = if narrow { 'w' } else { 'r' };
    let second = match operand.checked_sub(CONSTANTS.len()) {
        None => CONSTANTS[operand].to_string(),
        Some(shape) => {
            lines.extend(made(7, SHAPES[shape]));
            format!("{letter}7")
        }
    };
    match kind.checked_sub(WITH_CONSTANT.len()) {
        None => lines.push(format!("{letter}6 {} {second}", WITH_CONSTANT[kind])),
        Some(kind) => {
            let comparison = COMPARISONS[kind / 2];
            if kind % 2 == 0 {
                lines.push(format!("if {letter}6 {comparison} {second} goto out"));
            } else {
                lines.push(format!("if {letter}6 {comparison} {second} goto on"));
                lines.push("goto out".to_owned());
                lines.push("on:".to_owned());
            }
        }
    }
}

impl Case {
    fn begun(&self, bytes: u32) -> String {
        let mut text = format!("; map bytes array key 4 value {bytes} entries 1\n; program socket_filter\n");
        for register in [9, 8, 7, 6] {
            let _ = writeln!(text, "  call ktime_get_ns\n  r{register} = r0");
        }
        for line in &self.lines {
            let _ = if line.ends_with(':') { writeln!(text, "{line}") } else { writeln!(text, "  {line}") };
        }
        text
    }

    /// The program without a use of the result.
    pub fn probe(&self) -> String {
        self.begun(1) + "  r1 = r6\nout:\n  r0 = 0\n  exit\n"
    }

    /// The program with a use of the result.
    pub fn text(&self, window: Window) -> String {
        let mut text = self.begun(window.bytes);
        let lowered = window.lowest.wrapping_neg();
        if i32::try_from(lowered).is_ok() {
            let _ = writeln!(text, "  r6 += {lowered}");
        } else {
            let _ = writeln!(text, "  r1 = {lowered:#x} ll\n  r6 += r1");
        }
        text += "  r0 = map_value[bytes]\n  r0 += r6\n  r0 = *(u8 *)(r0 + 0)\nout:\n  r0 = 0\n  exit\n";
        text
    }
}

/// The windows that a case is tried in: of a result from `lowest` to `highest`, all of it, and a byte less at each end.
pub fn windows(lowest: i64, highest: i64) -> Vec<Window> {
    let span = i128::from(highest) - i128::from(lowest);
    if span >= 1 << 20 {
        return vec![Window { lowest: 0, bytes: 1 << 16 }];
    }
    let bytes = span as u32 + 1;
    let mut windows = vec![Window { lowest, bytes }];
    if bytes > 1 {
        windows.push(Window { lowest, bytes: bytes - 1 });
        windows.push(Window { lowest: lowest + 1, bytes: bytes - 1 });
    }
    windows
}

/// Verdicts of both verifiers on programs, one after the other.
#[derive(Debug, Default)]
pub struct Sweep {
    loader: Loader,
    /// Programs that both were asked about.
    pub programs: u64,
    /// Those that both accept.
    pub accepted: u64,
    /// Programs that only one accepts.
    pub differences: Vec<Difference>,
}

/// A program that only one of the two accepts.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Its text.
    pub text: String,
    /// Kiln accepts it, the kernel does not.
    pub by_kiln: bool,
}

impl Sweep {
    /// Asks both verifiers about every window of a case, and about the case itself.
    ///
    /// # Panics
    /// Panics if a program of the sweep is malformed.
    pub fn compare(&mut self, case: &Case) {
        let probe = parsed(&case.probe());
        let (lowest, highest) = match verdict(&probe, false) {
            Ok(verified) => range(&probe, &verified).unwrap_or((0, 0)),
            Err(_) => (0, 0),
        };
        self.ask(case.probe());
        for window in windows(lowest, highest) {
            self.ask(case.text(window));
        }
    }

    fn ask(&mut self, text: String) {
        let object = parsed(&text);
        let ours = verdict(&object, true).is_ok();
        let theirs = self.loader.load(&object, &object.programs[0], false).is_ok();
        self.programs += 1;
        self.accepted += u64::from(ours && theirs);
        if ours != theirs {
            self.differences.push(Difference { text, by_kiln: ours });
        }
    }
}

fn parsed(text: &str) -> Object {
    kiln_program::text::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn verdict(object: &Object, skip_facts: bool) -> Result<kiln_verifier::Verified, Error> {
    kiln_verifier::verify(object, &object.programs[0], &Options { skip_facts, ..Options::default() })
}

/// The range of the result of a probe by our verifier.
fn range(probe: &Object, verified: &kiln_verifier::Verified) -> Option<(i64, i64)> {
    let nodes = &probe.function(probe.programs[0].entry).nodes;
    let at = nodes.iter().rev().find(|node| matches!(node.insn, Insn::Alu { dst: Reg::R1, .. }))?;
    match &verified.facts.at(at.id)?.registers[Reg::R6.index()] {
        Value::Scalar(scalar) => Some((scalar.smin, scalar.smax)),
        _ => None,
    }
}
