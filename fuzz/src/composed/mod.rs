//! Programs composed of fragments of compiler output.
//!
//! [`crate::program::tame`] mixes single instructions, which rarely match what a pass looks for. Here a statement is a
//! whole idiom, and later ones use the results of earlier ones:
//!
//! ```text
//!   r6 = context; r7 = data; r8 = data_end; one check of 64 bytes, or several that grow
//!   r0..r5 = numbers; stack: -8..-64 numbers, -72 a key, -88 a map value, -120 a buffer, -128 and -136 spilled pointers
//!   fragment*    bytes put together | a lookup, twice | a buffer that a helper fills, or fails to | a subprogram that is
//!                given a stack address | a callback | a loop | an arm that sets a constant | ... ([`FRAGMENTS`])
//!   r0 = mixture of some numbers; out: exit
//! ```
//!
//! Nothing depends on an address or a clock, and everything that is read was written. So two runs of one program on one
//! packet are equal, and every difference between original and optimized program is a bug.

mod arithmetic;
mod branches;
mod functions;
mod helpers;
mod idioms;
mod memory;
mod scalars;
mod template;

use std::fmt::Write as _;

use kiln_program::Object;
use kiln_program::text::parse;

use crate::choices::Choices;
use idioms::IDIOMS;

pub use scalars::scalars;

/// Bytes of packet that a program checks for.
pub const PACKET_BYTES: usize = 64;
/// Fragments at most.
const MOST_FRAGMENTS: usize = 40;
/// Maximum number of subprograms and callbacks.
const MOST_FUNCTIONS: usize = 5;

/// An idiom: its name, its weight, and the function that writes it.
struct Fragment {
    name: &'static str,
    weight: usize,
    write: fn(&mut Composer<'_, '_>),
}

macro_rules! fragments {
    ($($name:ident $weight:literal;)*) => {
        const FRAGMENTS: &[Fragment] =
            &[$(Fragment { name: stringify!($name), weight: $weight, write: |composer| composer.$name() }),*];
    };
}

fragments! {
    arithmetic 10;
    shift_pair 3;
    byte_order 1;
    sign_extension 2;
    packet_access 4;
    bytes_put_together 3;
    fields_exchanged 1;
    copied_block 2;
    variable_packet 2;
    another_check 2;
    stack_access 5;
    cleared_frame 2;
    variable_stack 2;
    atomic 4;
    condition 6;
    diamond 3;
    condition_again 3;
    masked_condition 2;
    constants_on_the_ways 2;
    context_field 1;
    lookup 3;
    lookup_twice 2;
    table_update 2;
    buffer_filled 3;
    buffer_stored 1;
    checksum 1;
    read_only_data 2;
    shared_data 2;
    spilled_pointer 2;
    called 3;
    callback 1;
    bounded_loop 2;
    may_goto_loop 1;
    tail_call 1;
}

/// The names of all fragments, for statistics.
pub fn fragments() -> impl Iterator<Item = &'static str> {
    FRAGMENTS.iter().map(|fragment| fragment.name).chain(IDIOMS.iter().map(|idiom| idiom.name))
}

const MAPS: &str = "\
; license GPL
; map values array key 4 value 32 entries 4
; map table hash key 4 value 16 entries 8
; map .rodata array key 4 value 32 entries 1 flags 0x80 rodata 0102030405060708ff00ff0080000000112233445566778899aabbccddeeff01
; map .data array key 4 value 32 entries 1 data 000000000100000002000000ffffffff00000080ffffff7f0a0b0c0d0e0f1011
; map jumps prog_array key 4 value 4 entries 2
";

/// A function of XDP and a static one, as the kernel wants them of programs with callbacks.
const TYPES: &str = include_str!("../../../crates/certificate/tests/frame/types.bpf");

const COMPARISONS: [&str; 11] = ["==", "!=", ">", ">=", "<", "<=", "s>", "s>=", "s<", "s<=", "&"];
const SIZES: [u8; 4] = [8, 16, 32, 64];

/// A program, and its fragments.
pub fn composed(choices: &mut Choices<'_>) -> (Object, Vec<&'static str>) {
    let (text, used) = text(choices);
    let object = parse(&text).unwrap_or_else(|error| panic!("a composed program does not parse: {error}\n{text}"));
    (object, used)
}

fn text(choices: &mut Choices<'_>) -> (String, Vec<&'static str>) {
    let mut composer = Composer::new(choices);
    composer.prologue();
    let weights: usize = FRAGMENTS.iter().map(|fragment| fragment.weight).sum();
    while composer.used.len() < MOST_FRAGMENTS && !composer.choices.used_up() {
        let mut at = composer.choices.below(weights);
        let chosen = FRAGMENTS.iter().find(|fragment| {
            let here = at < fragment.weight;
            at = at.saturating_sub(fragment.weight);
            here
        });
        composer.write(chosen.unwrap_or(&FRAGMENTS[0]));
    }
    composer.close(true);
    composer.epilogue();
    let used = std::mem::take(&mut composer.used);
    (composer.finish(), used)
}

/// A program being written.
struct Composer<'a, 'b> {
    choices: &'a mut Choices<'b>,
    code: String,
    /// Static functions: their bodies.
    functions: Vec<String>,
    /// Open labels, each with the number of fragments before it.
    open: Vec<(usize, usize)>,
    labels: usize,
    callbacks: usize,
    /// Its fragments so far.
    used: Vec<&'static str>,
    /// The registers that hold numbers.
    registers: Vec<usize>,
    /// Slots of the frame that hold numbers, from the top.
    slots: usize,
    /// The idioms that it may use, and the sum of their weights.
    idioms: Vec<&'static template::Idiom>,
    /// Whether what is being written is a static function.
    in_function: bool,
}

macro_rules! put {
    ($composer:expr, $($text:tt)*) => {{
        let line = format!($($text)*);
        let _ = writeln!($composer.code, "  {line}");
    }};
}

use put;

/// `w` or `r` for what a load of so many bits gives.
fn view(bits: u8) -> char {
    if bits == 64 { 'r' } else { 'w' }
}

impl<'a, 'b> Composer<'a, 'b> {
    fn new(choices: &'a mut Choices<'b>) -> Composer<'a, 'b> {
        Composer {
            choices,
            code: String::new(),
            functions: Vec::new(),
            open: Vec::new(),
            labels: 0,
            callbacks: 0,
            used: Vec::new(),
            registers: (0..6).collect(),
            slots: 8,
            idioms: Vec::new(),
            in_function: false,
        }
    }
}

impl Composer<'_, '_> {
    /// Writes a fragment, and the labels that are due after it.
    fn write(&mut self, fragment: &Fragment) {
        self.used.push(fragment.name);
        (fragment.write)(self);
        self.close(false);
    }

    fn below(&mut self, bound: usize) -> usize {
        self.choices.below(bound)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        self.choices.pick(from)
    }

    /// One of the registers that hold numbers.
    fn number(&mut self) -> usize {
        self.registers[self.choices.below(self.registers.len())]
    }

    /// An immediate; often small, a mask or a corner.
    fn immediate(&mut self) -> i32 {
        match self.below(3) {
            0 => self.below(10) as i32,
            1 => self.pick(&[-1, 8, 16, 32, 0xff, 0xffff, 0x7fff_ffff, -128, 0x0800, i32::MIN, 0x00ff_0000, -256]),
            _ => self.choices.value() as i32,
        }
    }

    fn label(&mut self) -> usize {
        self.labels += 1;
        self.labels
    }

    fn here(&mut self, label: usize) {
        let _ = writeln!(self.code, "L{label}:");
    }

    /// A label after some later fragments.
    fn later(&mut self) -> usize {
        let (label, fragments) = (self.label(), self.below(5));
        self.open.push((label, fragments));
        label
    }

    /// A fragment ends: labels that are due are placed here.
    fn close(&mut self, all: bool) {
        let mut here = Vec::new();
        self.open.retain_mut(|(label, fragments)| {
            let closes = all || *fragments == 0;
            if closes {
                here.push(*label);
            }
            *fragments = fragments.saturating_sub(1);
            !closes
        });
        here.into_iter().for_each(|label| self.here(label));
    }

    /// An offset from the frame pointer at which `bits` lie within the slots of numbers.
    fn slot(&mut self, bits: u8) -> usize {
        let bytes = usize::from(bits / 8);
        let all = 8 * self.slots;
        all - bytes * self.below(all / bytes)
    }

    /// An offset into `bytes` at which `bits` fit, not always aligned.
    fn place(&mut self, bits: u8, bytes: usize) -> usize {
        let width = usize::from(bits / 8);
        let place = self.below(bytes - width + 1);
        if self.below(2) == 0 { place / width * width } else { place }
    }

    /// A load or store of one number at `base + offset`.
    fn access(&mut self, base: &str, offset: usize, bits: u8) {
        let n = self.number();
        match self.below(6) {
            0 => put!(self, "*(u{bits} *)({base} + {offset}) = {}", self.immediate()),
            1 | 2 => put!(self, "*(u{bits} *)({base} + {offset}) = {}{n}", view(bits)),
            3 if bits != 64 => put!(self, "r{n} = *(s{bits} *)({base} + {offset})"),
            _ => put!(self, "{}{n} = *(u{bits} *)({base} + {offset})", view(bits)),
        }
    }

    /// Sets the registers that a call destroys to numbers again; `from` is the first.
    fn numbers_again(&mut self, from: usize) {
        for n in from..6 {
            match self.below(4) {
                0 => put!(self, "w{n} = {}", self.immediate()),
                1 => put!(self, "r{n} = {}", self.immediate()),
                2 => put!(self, "w{n} = *(u8 *)(r7 + {})", n * 3),
                _ => put!(self, "r{n} = *(u64 *)(r10 - {})", 8 * (1 + n.min(self.slots - 1))),
            }
        }
    }

    fn prologue(&mut self) {
        let zero = self.below(3);
        put!(self, "r0 = {zero}");
        put!(self, "r6 = r1");
        put!(self, "r7 = *(u32 *)(r6 + 0)");
        put!(self, "r8 = *(u32 *)(r6 + 4)");
        let lengths: &[usize] = self.pick(&[&[64][..], &[14, 64], &[14, 34, 64], &[20, 24, 64]]);
        for (index, length) in lengths.iter().enumerate() {
            put!(self, "r9 = r7");
            put!(self, "r9 += {length}");
            put!(self, "if r9 > r8 goto out");
            if index + 1 < lengths.len() {
                let (bits, other) = (self.pick(&[8, 16]), self.below(3));
                let at = self.place(bits, *length);
                put!(self, "w4 = *(u{bits} *)(r7 + {at})");
                match other {
                    0 => put!(self, "if w4 == {} goto out", self.immediate()),
                    1 => put!(self, "w0 = w4"),
                    _ => {}
                }
            }
        }
        for slot in 1..=8 {
            match self.below(3) {
                0 => put!(self, "*(u64 *)(r10 - {}) = 0", 8 * slot),
                1 => put!(self, "*(u64 *)(r10 - {}) = {}", 8 * slot, self.immediate()),
                _ => {
                    put!(self, "r2 = *(u64 *)(r7 + {})", 6 * slot);
                    put!(self, "*(u64 *)(r10 - {}) = r2", 8 * slot);
                }
            }
        }
        for n in 0..6 {
            let bits = self.pick(&SIZES);
            match self.below(4) {
                0 => put!(self, "r{n} = 0x{:x} ll", self.choices.value()),
                1 => put!(self, "w{n} = {}", self.immediate()),
                _ => {
                    let at = self.place(bits, PACKET_BYTES);
                    put!(self, "{}{n} = *(u{bits} *)(r7 + {at})", view(bits));
                }
            }
        }
    }

    /// R0 becomes a mixture of some numbers and slots: the others are dead at the end.
    fn epilogue(&mut self) {
        let (registers, slots) = (self.below(64), self.below(256));
        for n in (1..6).filter(|n| registers >> n & 1 == 0) {
            put!(self, "r0 *= 0x1003f");
            put!(self, "r0 ^= r{n}");
        }
        for slot in (0..8).filter(|slot| slots >> slot & 1 == 0) {
            put!(self, "r1 = *(u64 *)(r10 - {})", 8 * (slot + 1));
            put!(self, "r0 *= 0x1003f");
            put!(self, "r0 ^= r1");
        }
        put!(self, "r1 = r0");
        put!(self, "r1 >>= 32");
        put!(self, "r0 ^= r1");
        let _ = writeln!(self.code, "out:");
        put!(self, "exit");
    }

    fn finish(self) -> String {
        let types = |number: usize| if self.callbacks > 0 { format!(" btf {number}") } else { String::new() };
        let used = |line: &&str| match line.strip_prefix("; map ").and_then(|map| map.split(' ').next()) {
            Some(map) => self.code.contains(&format!("[{map}]")),
            None => true,
        };
        let mut text: String = MAPS.lines().filter(used).flat_map(|line| [line, "\n"]).collect();
        let _ = writeln!(text, "; program xdp name entry\n; function entry global section xdp{}", types(6));
        text.push_str(&self.code);
        for (index, body) in self.functions.iter().enumerate() {
            let _ = writeln!(text, "; function f{index} static section .text{}", types(10));
            text.push_str(body);
        }
        if self.callbacks > 0 {
            text.push_str(TYPES);
        }
        text
    }
}
