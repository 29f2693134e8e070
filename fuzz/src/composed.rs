//! Programs composed of fragments as compilers write them.
//!
//! [`crate::program::tame`] mixes single instructions, which seldom meet what a pass looks for. Here a statement is a
//! whole idiom, and later ones work on what earlier ones left:
//!
//! ```text
//!   r6 = context; r7 = data; r8 = data_end; one check of 64 bytes, or several that grow
//!   r0..r5 = numbers; stack: -8..-64 numbers, -72 a key, -88 a map value, -120 a buffer, -128 and -136 spilled pointers
//!   fragment*    bytes put together | a lookup, twice | a buffer that a helper fills, or fails to | a subprogram that is
//!                given a stack address | a callback | a loop | an arm that sets a constant | ... ([`FRAGMENTS`])
//!   r0 = mixture of some numbers; out: exit
//! ```
//!
//! Nothing depends on an address or a clock, and nothing is read that was not written, so two runs of one program on
//! one packet are equal: whatever differs between original and optimized program is wrong.

use std::fmt::Write as _;

use kiln_program::Object;
use kiln_program::text::parse;

use crate::choices::Choices;

/// Bytes of packet that a program makes sure of.
pub const PACKET_BYTES: usize = 64;
/// Fragments at most.
const MOST_FRAGMENTS: usize = 40;
/// Subprograms and callbacks at most.
const MOST_FUNCTIONS: usize = 5;

/// An idiom: its name, how often it is chosen relative to the others, what writes it.
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

/// The names of all fragments, for who counts them.
pub fn fragments() -> impl Iterator<Item = &'static str> {
    FRAGMENTS.iter().map(|fragment| fragment.name)
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
const TYPES: &str = "\
; btf 9feb0100180000000000000008010000080100006b000000000000000000000202000000010000000100000404000000
; btf 05000000030000000000000009000000000000010400000020000000000000000100000d050000000100000001000000
; btf 160000000000000104000000200000011a0000000100000c04000000000000000000000200000000000000000200000d
; btf 090000002b00000003000000010000000700000031000000000000010800000040000001360000000000000c08000000
; btf 410000000000000101000000080000010000000000000003000000000b0000000d000000040000004600000000000001
; btf 04000000200000005a0000000000000e0c00000001000000630000000100000f040000000e0000000000000004000000
; btf 00637478006c656e00756e7369676e656420696e7400696e740070726f67007463002e2f6e6f6e652e6300696e646578
; btf 006c6f6e6700626f6479002e746578740063686172005f5f41525241595f53495a455f545950455f5f005f6c6963656e
; btf 7365006c6963656e736500
";

const COMPARISONS: [&str; 11] = ["==", "!=", ">", ">=", "<", "<=", "s>", "s>=", "s<", "s<=", "&"];
const SIZES: [u8; 4] = [8, 16, 32, 64];

/// A program, and the fragments it is of.
pub fn composed(choices: &mut Choices<'_>) -> (Object, Vec<&'static str>) {
    let (text, used) = text(choices);
    let object = parse(&text).unwrap_or_else(|error| panic!("a composed program does not parse: {error}\n{text}"));
    (object, used)
}

fn text(choices: &mut Choices<'_>) -> (String, Vec<&'static str>) {
    let mut composer =
        Composer { choices, code: String::new(), functions: Vec::new(), open: Vec::new(), labels: 0, callbacks: 0 };
    let mut used = Vec::new();
    composer.prologue();
    let weights: usize = FRAGMENTS.iter().map(|fragment| fragment.weight).sum();
    while used.len() < MOST_FRAGMENTS && !composer.choices.used_up() {
        let mut at = composer.choices.below(weights);
        let chosen = FRAGMENTS.iter().find(|fragment| {
            let here = at < fragment.weight;
            at = at.saturating_sub(fragment.weight);
            here
        });
        let fragment = chosen.unwrap_or(&FRAGMENTS[0]);
        (fragment.write)(&mut composer);
        used.push(fragment.name);
        composer.close(false);
    }
    composer.close(true);
    composer.epilogue();
    (composer.finish(), used)
}

/// A program being written.
struct Composer<'a, 'b> {
    choices: &'a mut Choices<'b>,
    code: String,
    /// Static functions: their bodies.
    functions: Vec<String>,
    /// Labels that stand behind so many more fragments.
    open: Vec<(usize, usize)>,
    labels: usize,
    callbacks: usize,
}

macro_rules! put {
    ($composer:expr, $($text:tt)*) => {{
        let line = format!($($text)*);
        let _ = writeln!($composer.code, "  {line}");
    }};
}

/// `w` or `r` for what a load of so many bits gives.
fn view(bits: u8) -> char {
    if bits == 64 { 'r' } else { 'w' }
}

impl Composer<'_, '_> {
    fn below(&mut self, bound: usize) -> usize {
        self.choices.below(bound)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        self.choices.pick(from)
    }

    /// One of the registers that hold numbers.
    fn number(&mut self) -> usize {
        self.below(6)
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

    /// A label that stands behind some fragments to come.
    fn later(&mut self) -> usize {
        let (label, fragments) = (self.label(), self.below(5));
        self.open.push((label, fragments));
        label
    }

    /// A fragment ends: labels that waited for it stand here.
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
        64 - bytes * self.below(64 / bytes)
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

    /// Numbers again in the registers that a call takes; `from` is the first.
    fn numbers_again(&mut self, from: usize) {
        for n in from..6 {
            match self.below(4) {
                0 => put!(self, "w{n} = {}", self.immediate()),
                1 => put!(self, "r{n} = {}", self.immediate()),
                2 => put!(self, "w{n} = *(u8 *)(r7 + {})", n * 3),
                _ => put!(self, "r{n} = *(u64 *)(r10 - {})", 8 * (1 + n)),
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
        let mut text = String::from(MAPS);
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

    fn arithmetic(&mut self) {
        for _ in 0..1 + self.below(3) {
            let (dst, src, view) = (self.number(), self.number(), self.pick(&['r', 'w']));
            let bits = if view == 'r' { 64 } else { 32 };
            let value = self.immediate();
            let op = self.pick(&[
                "=", "+=", "-=", "*=", "&=", "|=", "^=", "=", "+=", "&=", "<<=", ">>=", "s>>=", "/=", "%=", "s/=",
                "s%=",
            ]);
            let by_register = self.below(2) == 0;
            match op {
                _ if by_register => put!(self, "{view}{dst} {op} {view}{src}"),
                "<<=" | ">>=" | "s>>=" => put!(self, "{view}{dst} {op} {}", value & (bits - 1)),
                "/=" | "%=" | "s/=" | "s%=" if value == 0 => put!(self, "{view}{dst} {op} 4"),
                _ => put!(self, "{view}{dst} {op} {value}"),
            }
        }
    }

    fn shift_pair(&mut self) {
        let (n, other, amount) = (self.number(), self.number(), self.pick(&[32, 32, 48, 56, 24, 8]));
        let back = if self.below(6) == 0 { self.pick(&[32, 48, 24]) } else { amount };
        let right = self.pick(&[">>=", "s>>="]);
        if self.below(2) == 0 {
            put!(self, "r{n} = r{other}");
        }
        put!(self, "r{n} <<= {amount}");
        put!(self, "r{n} {right} {back}");
    }

    fn byte_order(&mut self) {
        let n = self.number();
        let order = self.pick(&["be16", "be32", "be64", "le16", "le32", "bswap16", "bswap32", "bswap64"]);
        put!(self, "r{n} = {order} r{n}");
    }

    fn sign_extension(&mut self) {
        let (n, other) = (self.number(), self.number());
        match self.below(3) {
            0 => put!(self, "w{n} = (s{})w{other}", self.pick(&[8, 16])),
            1 => put!(self, "{0}{n} = -{0}{n}", self.pick(&['r', 'w'])),
            _ => put!(self, "r{n} = (s{})r{other}", self.pick(&[8, 16, 32])),
        }
    }

    fn packet_access(&mut self) {
        let bits = self.pick(&SIZES);
        let at = self.place(bits, PACKET_BYTES);
        self.access("r7", at, bits);
    }

    /// Bytes or half words, shifted and joined: a wider load, if nothing is amiss.
    fn bytes_put_together(&mut self) {
        let (low, high, bits) = (self.number(), self.number(), self.pick(&[8u8, 8, 16]));
        let width = usize::from(bits / 8);
        let at = self.below(40);
        let gap = if self.below(6) == 0 { width + 1 } else { width };
        let (shift, join) = (if self.below(6) == 0 { bits - 1 } else { bits }, self.pick(&["|=", "+=", "^="]));
        let (base, at, next) = match self.below(3) {
            0 => ("r10 - ", 64 - at, 64 - at - gap),
            _ => ("r7 + ", at, at + gap),
        };
        put!(self, "w{low} = *(u{bits} *)({base}{at})");
        put!(self, "w{high} = *(u{bits} *)({base}{next})");
        if self.below(4) == 0 {
            put!(self, "r{low} <<= {shift}");
        } else {
            put!(self, "r{high} <<= {shift}");
        }
        put!(self, "r{low} {join} r{high}");
    }

    fn fields_exchanged(&mut self) {
        let at = self.below(8);
        let places = [at, at + 4, at + 6, at + 10];
        for (n, (bits, place)) in [32, 16, 32, 16].into_iter().zip(places).enumerate() {
            put!(self, "w{} = *(u{bits} *)(r7 + {place})", n + 1);
        }
        for (n, (bits, place)) in [32, 16, 32, 16].into_iter().zip([at + 6, at + 10, at, at + 4]).enumerate() {
            put!(self, "*(u{bits} *)(r7 + {place}) = w{}", n + 1);
        }
    }

    /// Bytes copied piece by piece, from packet to stack, or back, or within.
    fn copied_block(&mut self) {
        let (n, bits, pieces) = (self.number(), self.pick(&SIZES), 2 + self.below(3));
        let width = usize::from(bits / 8);
        let (from, to) = (self.below(32), self.below(32));
        let stack = self.below(3);
        for piece in 0..pieces {
            let (from, to) = (from + piece * width, to + piece * width);
            let (from, to) = match stack {
                0 => (format!("r7 + {from}"), format!("r10 - {}", 64 - to)),
                1 => (format!("r10 - {}", 64 - from), format!("r7 + {to}")),
                _ => (format!("r7 + {from}"), format!("r7 + {to}")),
            };
            put!(self, "{}{n} = *(u{bits} *)({from})", view(bits));
            put!(self, "*(u{bits} *)({to}) = {}{n}", view(bits));
        }
    }

    /// A packet pointer with a variable part, checked, then read or written at several places.
    fn variable_packet(&mut self) {
        let (n, mask, length) = (self.number(), self.pick(&[3, 7, 15, 60]), 1 + self.below(12));
        put!(self, "{}{n} &= {mask}", self.pick(&['r', 'w']));
        put!(self, "r9 = r7");
        put!(self, "r9 += r{n}");
        let check = self.below(3);
        match check {
            0 => {
                put!(self, "r9 += {length}");
                put!(self, "if r9 > r8 goto out");
            }
            _ => {
                let skip = self.later();
                // Where it may be skipped, r5 is the number it was not.
                put!(self, "r5 = r9");
                put!(self, "r5 += {length}");
                let after = self.label();
                put!(self, "if r5 <= r8 goto L{after}");
                put!(self, "r5 = {}", self.immediate());
                put!(self, "goto L{skip}");
                self.here(after);
                put!(self, "r5 = {}", self.immediate());
            }
        }
        for _ in 0..1 + self.below(3) {
            let most = *[64u8, 32, 16, 8].iter().find(|bits| usize::from(**bits / 8) <= length).unwrap_or(&8);
            let bits = self.pick(&[8, most]);
            let at = self.place(bits, length);
            if check == 0 {
                let n = self.number();
                put!(self, "{}{n} = *(u{bits} *)(r9 - {})", view(bits), length - at);
            } else {
                self.access("r9", at, bits);
            }
        }
    }

    /// The packet is asked for more bytes than before.
    fn another_check(&mut self) {
        let more = self.pick(&[65, 72, 80, 100]);
        if self.below(2) == 0 {
            put!(self, "r0 = {}", self.below(4));
        }
        put!(self, "r9 = r7");
        put!(self, "r9 += {more}");
        put!(self, "if r9 > r8 goto out");
        let bits = self.pick(&SIZES);
        let at = self.place(bits, more);
        self.access("r7", at, bits);
    }

    fn stack_access(&mut self) {
        for _ in 0..1 + self.below(3) {
            let (n, bits) = (self.number(), self.pick(&SIZES));
            let at = self.slot(bits);
            match self.below(6) {
                0 | 1 => put!(self, "*(u{bits} *)(r10 - {at}) = {}", self.immediate()),
                2 | 3 => put!(self, "*(u{bits} *)(r10 - {at}) = {}{n}", view(bits)),
                4 if bits != 64 => put!(self, "r{n} = *(s{bits} *)(r10 - {at})"),
                _ => put!(self, "{}{n} = *(u{bits} *)(r10 - {at})", view(bits)),
            }
        }
    }

    /// Slots cleared or given constants one after the other, some in part again.
    fn cleared_frame(&mut self) {
        let first = 1 + self.below(5);
        let value = self.pick(&[0, 0, 0, -1, 7]);
        let from_register = self.below(3) == 0;
        if from_register {
            put!(self, "{}1 = {value}", self.pick(&['r', 'w']));
        }
        for slot in (first..first + 3).rev() {
            if from_register {
                put!(self, "*(u64 *)(r10 - {}) = r1", 8 * slot);
            } else {
                put!(self, "*(u64 *)(r10 - {}) = {value}", 8 * slot);
            }
        }
        for _ in 0..self.below(3) {
            let (n, bits) = (self.number(), self.pick(&[8, 16, 32]));
            let at = self.slot(bits);
            put!(self, "*(u{bits} *)(r10 - {at}) = {}", if n == 0 { "0".to_owned() } else { format!("w{n}") });
        }
    }

    fn variable_stack(&mut self) {
        let (n, bits) = (self.number(), self.pick(&SIZES));
        put!(self, "r{n} &= {}", self.pick(&[8, 24, 31, 3]));
        put!(self, "r9 = r10");
        put!(self, "r9 += -64");
        put!(self, "r9 += r{n}");
        let (at, bits) = (self.place(bits, 64 - 31), if self.below(2) == 0 { 8 } else { bits });
        self.access("r9", at, bits);
    }

    /// Every atomic operation, on the stack or on a map's value.
    fn atomic(&mut self) {
        let (bits, n) = (self.pick(&[64, 32]), self.number());
        let (view, suffix) = if bits == 64 { ('r', "_64") } else { ('w', "32_32") };
        let place = if self.below(4) == 0 {
            put!(self, "r9 = map_value[.data] + {}", 8 * self.below(3));
            format!("r9 + {}", if bits == 64 { 0 } else { 4 * self.below(2) })
        } else {
            format!("r10 - {}", self.slot(bits))
        };
        match self.below(10) {
            0..=3 => put!(self, "lock *(u{bits} *)({place}) {} {view}{n}", self.pick(&["+=", "&=", "|=", "^="])),
            4..=6 => {
                let op = self.pick(&["add", "and", "or", "xor"]);
                put!(self, "{view}{n} = atomic_fetch_{op}((u{bits} *)({place}), {view}{n})");
            }
            7 => put!(self, "{view}{n} = xchg{suffix}({place}, {view}{n})"),
            _ => put!(self, "{view}0 = cmpxchg{suffix}({place}, {view}0, {view}{n})"),
        }
    }

    fn comparison(&mut self) -> String {
        let (n, view, op) = (self.number(), self.pick(&['r', 'w']), self.pick(&COMPARISONS));
        match self.below(3) {
            0 => format!("{view}{n} {op} {view}{}", self.number()),
            _ => format!("{view}{n} {op} {}", self.immediate()),
        }
    }

    fn condition(&mut self) {
        let (comparison, target) = (self.comparison(), self.later());
        match self.below(8) {
            0 => put!(self, "if {comparison} goto out"),
            _ => put!(self, "if {comparison} goto L{target}"),
        }
    }

    /// Two arms that give a register something, or one that does.
    fn diamond(&mut self) {
        let (comparison, n, view) = (self.comparison(), self.number(), self.pick(&['r', 'w']));
        let (arm, join) = (self.label(), self.label());
        let both = self.below(3);
        if both == 0 {
            put!(self, "{view}{n} = {}", self.immediate());
        }
        put!(self, "if {comparison} goto L{arm}");
        if both != 0 {
            put!(self, "{view}{n} = {}", self.pick(&[0, 1, 1, 7]));
        }
        if self.below(3) == 0 {
            self.stack_access();
        }
        put!(self, "goto L{join}");
        self.here(arm);
        put!(self, "{view}{n} = {}", self.pick(&[0, 1, 0, 9]));
        if self.below(3) == 0 {
            self.arithmetic();
        }
        self.here(join);
    }

    /// A comparison whose answer is known on one of the ways to it.
    fn condition_again(&mut self) {
        let (n, view, op) = (self.number(), self.pick(&['r', 'w']), self.pick(&COMPARISONS));
        let (value, other) = (self.immediate(), self.number());
        let (first, second) = (self.label(), self.later());
        let again = if self.below(3) == 0 { self.immediate() } else { value };
        let view_again = if self.below(4) == 0 { self.pick(&['r', 'w']) } else { view };
        let op_again = if self.below(3) == 0 { self.pick(&COMPARISONS) } else { op };
        put!(self, "if {view}{n} {op} {value} goto L{first}");
        put!(self, "{view}{other} = {}", self.immediate());
        if self.below(2) == 0 {
            self.stack_access();
        }
        self.here(first);
        put!(self, "if {view_again}{n} {op_again} {again} goto L{second}");
    }

    fn masked_condition(&mut self) {
        let (n, copy, mask) = (self.number(), self.number(), self.immediate());
        let target = self.later();
        put!(self, "r{copy} = r{n}");
        put!(self, "{}{copy} &= {mask}", self.pick(&['r', 'w']));
        put!(self, "if {}{copy} {} 0 goto L{target}", self.pick(&['r', 'w']), self.pick(&["==", "!="]));
    }

    /// Several ways give a register the same constant, and one another.
    fn constants_on_the_ways(&mut self) {
        let (n, value, join) = (self.number(), self.below(4), self.label());
        for _ in 0..2 + self.below(2) {
            put!(self, "r{n} = {value}");
            put!(self, "if {} goto L{join}", self.comparison());
            if self.below(2) == 0 {
                self.packet_access();
            }
        }
        put!(self, "r{n} = {}", self.immediate());
        self.here(join);
    }

    fn context_field(&mut self) {
        let n = self.number();
        put!(self, "w{n} = *(u32 *)(r6 + {})", self.pick(&[12, 16]));
    }

    fn key(&mut self) {
        match self.below(4) {
            0 => {
                let n = self.number();
                put!(self, "w{n} &= {}", self.pick(&[3, 7]));
                put!(self, "*(u32 *)(r10 - 72) = w{n}");
            }
            1 => {
                put!(self, "w1 = 0");
                put!(self, "*(u32 *)(r10 - 72) = w1");
            }
            _ => put!(self, "*(u32 *)(r10 - 72) = {}", self.below(5)),
        }
    }

    /// R0 is what a map has for the key.
    fn look_up(&mut self, map: &str) {
        put!(self, "r1 = map[{map}]");
        put!(self, "r2 = r10");
        put!(self, "r2 += -72");
        put!(self, "call map_lookup_elem");
    }

    fn lookup(&mut self) {
        let (map, bytes) = self.pick(&[("values", 32), ("table", 16)]);
        self.key();
        self.look_up(map);
        let missing = self.label();
        put!(self, "r9 = r0");
        put!(self, "r0 = 0");
        self.numbers_again(1);
        put!(self, "if r9 == 0 goto {}", if self.below(3) == 0 { "out".to_owned() } else { format!("L{missing}") });
        if self.below(3) == 0 {
            put!(self, "r1 = *(u64 *)(r9 + 0)");
            put!(self, "r1 {} {}", self.pick(&["+=", "|=", "&=", "^="]), self.immediate());
            put!(self, "*(u64 *)(r9 + 0) = r1");
        }
        for _ in 0..1 + self.below(3) {
            let bits = self.pick(&SIZES);
            let at = self.place(bits, bytes);
            self.access("r9", at, bits);
        }
        if self.below(3) == 0 {
            let found = self.label();
            put!(self, "goto L{found}");
            self.here(missing);
            put!(self, "*(u64 *)(r10 - 88) = {}", self.immediate());
            put!(self, "r0 = {}", self.immediate());
            self.open.push((found, 0));
        } else {
            self.here(missing);
        }
    }

    /// The same key again, with something between.
    fn lookup_twice(&mut self) {
        let map = self.pick(&["values", "table"]);
        let (missing, gone) = (self.label(), self.label());
        self.key();
        self.look_up(map);
        put!(self, "r9 = r0");
        put!(self, "r0 = 0");
        self.numbers_again(1);
        put!(self, "if r9 == 0 goto L{missing}");
        put!(self, "*(u64 *)(r9 + 8) = {}", self.immediate());
        match self.below(4) {
            0 => self.key(),
            1 => {
                put!(self, "r1 = map[{map}]");
                put!(self, "r2 = r10");
                put!(self, "r2 += -72");
                put!(self, "call map_delete_elem");
            }
            _ => {}
        }
        self.look_up(map);
        put!(self, "r5 = r0");
        put!(self, "r0 = 0");
        put!(self, "if r5 == 0 goto L{gone}");
        put!(self, "*(u64 *)(r5 + 8) = {}", self.immediate());
        put!(self, "r0 = *(u64 *)(r9 + 8)");
        self.here(gone);
        self.numbers_again(1);
        self.here(missing);
    }

    fn table_update(&mut self) {
        let (map, bytes) = self.pick(&[("table", 16), ("table", 16), ("values", 32)]);
        self.key();
        let value = if bytes == 16 { 88 } else { 64 };
        if bytes == 16 {
            let n = self.number();
            put!(self, "*(u64 *)(r10 - 88) = {}", self.immediate());
            put!(self, "*(u64 *)(r10 - 80) = r{n}");
        }
        put!(self, "r1 = map[{map}]");
        put!(self, "r2 = r10");
        put!(self, "r2 += -72");
        if self.below(4) == 0 {
            put!(self, "call map_delete_elem");
        } else {
            put!(self, "r3 = r10");
            put!(self, "r3 += -{value}");
            put!(self, "r4 = {}", self.pick(&[0, 0, 1, 2]));
            put!(self, "call map_update_elem");
        }
        self.numbers_again(1);
    }

    /// A buffer that a helper fills if the packet has the bytes, and leaves alone if not.
    fn buffer_filled(&mut self) {
        let (bytes, first) = (self.pick(&[4, 8, 16, 20, 32]), self.pick(&[0, 0, 14, 60, 100]));
        for slot in (0..4).rev() {
            put!(self, "*(u64 *)(r10 - {}) = {}", 96 + 8 * slot, self.pick(&[0, 0, 0, -1]));
        }
        match self.below(3) {
            0 => {
                let n = self.number();
                put!(self, "w2 = w{n}");
                put!(self, "w2 &= 127");
            }
            _ => put!(self, "r2 = {first}"),
        }
        put!(self, "r1 = r6");
        put!(self, "r3 = r10");
        put!(self, "r3 += -120");
        put!(self, "w4 = {bytes}");
        put!(self, "call xdp_load_bytes");
        let failed = self.label();
        let asked = self.below(5);
        if asked < 2 {
            put!(self, "if {}0 {} 0 goto out", self.pick(&['r', 'w']), self.pick(&["!=", "s<"]));
            self.numbers_again(1);
        } else {
            for n in 1..6 {
                put!(self, "w{n} = {}", self.immediate());
            }
            if asked < 4 {
                put!(self, "if {}0 {} 0 goto L{failed}", self.pick(&['r', 'w']), self.pick(&["!=", "s<"]));
            }
        }
        for _ in 0..1 + self.below(3) {
            let (n, bits) = (self.number(), self.pick(&SIZES));
            let width = usize::from(bits / 8);
            let at = 120 - width * self.below(32 / width);
            put!(self, "{}{n} = *(u{bits} *)(r10 - {at})", view(bits));
        }
        self.here(failed);
        if self.below(4) == 0 {
            let n = self.number();
            put!(self, "r{n} = *(u64 *)(r10 - {})", self.pick(&[120, 112, 96]));
        }
    }

    fn buffer_stored(&mut self) {
        put!(self, "r1 = r6");
        put!(self, "r2 = {}", self.pick(&[0, 6, 40, 90]));
        put!(self, "r3 = r10");
        put!(self, "r3 += -{}", 64 - 8 * self.below(5));
        put!(self, "r4 = {}", self.pick(&[4, 8, 14, 24]));
        put!(self, "call xdp_store_bytes");
        self.numbers_again(1);
    }

    fn checksum(&mut self) {
        put!(self, "r1 = r10");
        put!(self, "r1 += -{}", 64 - 8 * self.below(4));
        put!(self, "r2 = {}", self.pick(&[4, 8, 20, 32]));
        put!(self, "r3 = r10");
        put!(self, "r3 += -{}", 64 - 8 * self.below(4));
        put!(self, "r4 = {}", self.pick(&[4, 8, 16]));
        put!(self, "w5 = {}", self.immediate());
        put!(self, "call csum_diff");
        self.numbers_again(1);
    }

    fn read_only_data(&mut self) {
        let twice = self.below(2);
        for _ in 0..=twice {
            let (n, bits) = (self.number(), self.pick(&SIZES));
            let (first, at) = (4 * self.below(4), self.place(bits, 9));
            put!(self, "r9 = map_value[.rodata] + {first}");
            if self.below(3) == 0 {
                let index = self.number();
                put!(self, "r{index} &= 7");
                put!(self, "r9 += r{index}");
            }
            put!(self, "{}{n} = *(u{bits} *)(r9 + {at})", view(bits));
        }
    }

    fn shared_data(&mut self) {
        put!(self, "r9 = map_value[.data] + {}", 4 * self.below(3));
        for _ in 0..1 + self.below(4) {
            let bits = self.pick(&SIZES);
            let at = self.place(bits, 20);
            self.access("r9", at, bits);
        }
    }

    /// A pointer kept on the stack while something happens.
    fn spilled_pointer(&mut self) {
        let (slot, pointer) = self.pick(&[(128, "r7"), (136, "r6"), (128, "r10")]);
        put!(self, "*(u64 *)(r10 - {slot}) = {pointer}");
        match self.below(3) {
            0 => self.stack_access(),
            1 => self.checksum(),
            _ => self.arithmetic(),
        }
        put!(self, "r9 = *(u64 *)(r10 - {slot})");
        let n = self.number();
        match pointer {
            "r7" => {
                let bits = self.pick(&SIZES);
                let at = self.place(bits, PACKET_BYTES);
                self.access("r9", at, bits);
            }
            "r6" => put!(self, "w{n} = *(u32 *)(r9 + 16)"),
            _ => put!(self, "r{n} = *(u64 *)(r9 - {})", 8 * (1 + self.below(8))),
        }
    }

    /// A static function that is given the address of some slots and two numbers; an old one or a new one.
    fn called(&mut self) {
        let index = self.below(self.functions.len() + 2);
        let index = match index.checked_sub(self.functions.len()) {
            Some(_) if self.functions.len() < MOST_FUNCTIONS => {
                let body = self.body(false);
                self.functions.push(body);
                self.functions.len() - 1
            }
            _ if self.functions.is_empty() => return,
            _ => index.min(self.functions.len() - 1),
        };
        put!(self, "r1 = r10");
        put!(self, "r1 += -{}", 64 - 8 * self.below(5));
        put!(self, "r2 = {}", self.immediate());
        match self.below(3) {
            0 => put!(self, "r3 = *(u64 *)(r10 - 16)"),
            1 => put!(self, "w3 = *(u8 *)(r7 + 9)"),
            _ => put!(self, "w3 = {}", self.immediate()),
        }
        put!(self, "r4 = 0");
        put!(self, "call f{index}");
        self.numbers_again(1);
    }

    /// What a static function does with r1 (24 bytes of somebody's stack), r2 and r3; a callback has them in r2, r1.
    fn body(&mut self, callback: bool) -> String {
        let outer = std::mem::take(&mut self.code);
        if callback {
            put!(self, "r3 = r1");
            put!(self, "r1 = r2");
            put!(self, "w2 = 3");
        }
        put!(self, "r0 = {}", self.pick(&[0, 1]));
        let leave = self.label();
        let own = 8 * (1 + self.below(3));
        put!(self, "*(u64 *)(r10 - {own}) = {}", self.immediate());
        for _ in 0..1 + self.below(6) {
            let (bits, at) = (self.pick(&SIZES), 8 * self.below(3));
            let number = self.pick(&["2", "3", "4"]);
            match self.below(9) {
                0 => put!(self, "r{number} = *(u64 *)(r1 + {at})"),
                1 => put!(self, "{}4 = *(u{bits} *)(r1 + {at})", view(bits)),
                2 => put!(self, "*(u{bits} *)(r1 + {at}) = {}3", view(bits)),
                3 => put!(self, "*(u64 *)(r10 - {own}) = r3"),
                4 => put!(self, "r{} = *(u64 *)(r10 - {own})", self.pick(&[2, 3])),
                5 => put!(self, "r3 {} {}", self.pick(&["+=", "^=", "*="]), self.immediate()),
                6 => put!(self, "w2 {} w3", self.pick(&["+=", "^=", "&="])),
                7 => put!(self, "r{} += r2", self.pick(&[2, 3])),
                _ => put!(
                    self,
                    "if r{} {} {} goto L{leave}",
                    self.pick(&[2, 3]),
                    self.pick(&COMPARISONS),
                    self.immediate()
                ),
            }
            if number == "4" {
                put!(self, "r4 = {}", self.below(9));
                put!(self, "*(u64 *)(r1 + {at}) = r4");
            }
        }
        if !callback {
            put!(self, "r0 {} r3", self.pick(&["=", "+=", "^="]));
            put!(self, "r0 += r2");
            if self.below(2) == 0 {
                put!(self, "r4 = *(u64 *)(r10 - {own})");
                put!(self, "r0 ^= r4");
            }
        }
        self.here(leave);
        put!(self, "exit");
        std::mem::replace(&mut self.code, outer)
    }

    fn callback(&mut self) {
        if self.functions.len() >= MOST_FUNCTIONS {
            return;
        }
        let body = self.body(true);
        self.functions.push(body);
        self.callbacks += 1;
        put!(self, "w1 = {}", self.below(6));
        put!(self, "r2 = fn[f{}]", self.functions.len() - 1);
        put!(self, "r3 = r10");
        put!(self, "r3 += -{}", 64 - 8 * self.below(5));
        put!(self, "r4 = 0");
        put!(self, "call loop");
        self.numbers_again(1);
    }

    /// A loop that ends, its counter in a register or on the stack.
    fn bounded_loop(&mut self) {
        let (again, turns) = (self.label(), 1 + self.below(7));
        let on_stack = self.below(3) == 0;
        put!(self, "{}", if on_stack { "*(u64 *)(r10 - 144) = 0" } else { "r9 = 0" });
        self.here(again);
        match self.below(4) {
            0 if !on_stack => {
                put!(self, "r5 = r7");
                put!(self, "r5 += r9");
                put!(self, "r4 = *(u8 *)(r5 + 0)");
                put!(self, "w5 = w4");
                put!(self, "r0 += r4");
            }
            1 => self.stack_access(),
            2 => self.packet_access(),
            _ => self.arithmetic(),
        }
        if on_stack {
            put!(self, "r5 = *(u64 *)(r10 - 144)");
            put!(self, "r5 += 1");
            put!(self, "*(u64 *)(r10 - 144) = r5");
            put!(self, "if r5 {} {turns} goto L{again}", self.pick(&["<", "!="]));
        } else {
            put!(self, "r9 += 1");
            put!(self, "if r9 {} {turns} goto L{again}", self.pick(&["<", "!="]));
        }
    }

    /// A loop that the kernel may leave, and leaves itself before that.
    fn may_goto_loop(&mut self) {
        let (again, end) = (self.label(), self.label());
        put!(self, "r9 = {}", self.below(3));
        self.here(again);
        put!(self, "may_goto L{end}");
        self.arithmetic();
        put!(self, "r9 += 1");
        put!(self, "if r9 < {} goto L{again}", 1 + self.below(6));
        self.here(end);
    }

    /// Nothing is there to call: it goes on.
    fn tail_call(&mut self) {
        put!(self, "r1 = r6");
        put!(self, "r2 = map[jumps]");
        put!(self, "r3 = {}", self.below(3));
        put!(self, "call tail_call");
        put!(self, "r0 = {}", self.immediate());
        self.numbers_again(1);
    }
}
