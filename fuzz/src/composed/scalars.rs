//! Short programs of numbers: masks, copies, halves, spills, branches.
//!
//! ```text
//!   r6 = context; r7 = 64 bytes of packet; r8: counts turns; r9 = 32 bytes of a map
//!   two to six registers hold numbers, and one to three slots of the frame
//!   some of the idioms, again and again                       ([`super::idioms`])
//!   one number is returned, written into a map, or narrowed   (the others are dead)
//! ```
//!
//! A program of [`super::composed`] reads everything at its end, so little of it is dead. Here most of it is dead, and
//! few registers are reused often: passes can remove much, and one pass may rely on what another removes. Each program
//! uses a random selection of the idioms, so that combinations that are rare overall are frequent in some programs.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use kiln_program::Object;
use kiln_program::text::parse;

use super::idioms::IDIOMS;
use super::template::Idiom;
use super::{Composer, FRAGMENTS, Fragment, MOST_FUNCTIONS, PACKET_BYTES, SIZES, put, view};
use crate::choices::Choices;

/// Maximum number of idioms, without nested ones.
const MOST: usize = 14;
/// Maximum number of idioms of a static function.
const MOST_IN_FUNCTIONS: usize = 4;
/// Fragments that need numbers in few registers only, and after which R9 is set again.
const OTHERS: [&str; 4] = ["lookup", "buffer_filled", "atomic", "read_only_data"];

/// A short program of numbers, and its idioms.
pub fn scalars(choices: &mut Choices<'_>) -> (Object, Vec<&'static str>) {
    let mut composer = Composer::new(choices);
    composer.begin_scalars();
    for _ in 0..MOST {
        if composer.choices.used_up() {
            break;
        }
        composer.scalar_fragment();
    }
    composer.close(true);
    composer.end_scalars();
    let used = std::mem::take(&mut composer.used);
    let text = composer.finish();
    let object = parse(&text).unwrap_or_else(|error| panic!("a program of numbers does not parse: {error}\n{text}"));
    (object, used)
}

impl Composer<'_, '_> {
    fn begin_scalars(&mut self) {
        let swarm = self.below(256);
        let chosen = |idiom: &&Idiom| {
            let mut hasher = DefaultHasher::new();
            (swarm, idiom.name).hash(&mut hasher);
            swarm == 0 || hasher.finish() % 2 == 0
        };
        self.idioms = IDIOMS.iter().filter(chosen).collect();
        let (first, count) = (self.below(6), 2 + self.below(5));
        self.registers = (first..first + count).map(|register| register % 6).collect();
        self.slots = 1 + self.below(3);
        put!(self, "r0 = 0");
        put!(self, "r6 = r1");
        put!(self, "r7 = *(u32 *)(r6 + 0)");
        put!(self, "r8 = *(u32 *)(r6 + 4)");
        put!(self, "r9 = r7");
        put!(self, "r9 += {PACKET_BYTES}");
        put!(self, "if r9 > r8 goto out");
        put!(self, "r9 = map_value[.data] + 0");
        for slot in 1..=self.slots {
            if self.below(2) == 0 {
                put!(self, "*(u64 *)(r10 - {}) = {}", 8 * slot, self.immediate());
            } else {
                put!(self, "r1 = *(u64 *)(r7 + {})", 8 * slot);
                put!(self, "*(u64 *)(r10 - {}) = r1", 8 * slot);
            }
        }
        for n in self.registers.clone() {
            match self.below(5) {
                0 => put!(self, "r{n} = 0"),
                1 => put!(self, "{}{n} = {}", self.pick(&['r', 'w']), self.immediate()),
                _ => {
                    let bits = self.pick(&SIZES);
                    let base = self.pick(&["r7", "r7", "r9"]);
                    let at = self.place(bits, 32);
                    put!(self, "{}{n} = *(u{bits} *)({base} + {at})", view(bits));
                }
            }
        }
    }

    fn scalar_fragment(&mut self) {
        match self.below(24) {
            0 => self.called_with_numbers(),
            1 => {
                let name = self.pick(&OTHERS);
                let named = |fragment: &&Fragment| fragment.name == name;
                if let Some(fragment) = FRAGMENTS.iter().find(named) {
                    self.write(fragment);
                    put!(self, "r9 = map_value[.data] + 0");
                }
            }
            _ => {
                let idiom = self.chosen(0);
                self.expand(idiom, 0);
                self.close(false);
            }
        }
    }

    /// One of the idioms that this program is of, and that may be here.
    pub(super) fn chosen(&mut self, depth: usize) -> &'static Idiom {
        let in_function = self.in_function;
        // R8 counts the iterations of one loop only.
        let may = move |idiom: &&&Idiom| (!in_function || idiom.is_pure()) && (depth == 0 || idiom.name != "turns");
        let weights: usize = self.idioms.iter().filter(may).map(|idiom| idiom.weight).sum();
        let mut at = self.choices.below(weights.max(1));
        let chosen = self.idioms.iter().filter(may).find(|idiom| {
            let here = at < idiom.weight;
            at = at.saturating_sub(idiom.weight);
            here
        });
        chosen.copied().unwrap_or(&IDIOMS[0])
    }

    /// A call of a static function of numbers, new or existing.
    fn called_with_numbers(&mut self) {
        self.used.push("called_with_numbers");
        let new = self.functions.len() < MOST_FUNCTIONS && (self.functions.is_empty() || self.below(2) == 0);
        let index = if new {
            let body = self.function_of_numbers();
            self.functions.push(body);
            self.functions.len() - 1
        } else {
            self.below(self.functions.len())
        };
        for argument in 1..4 {
            match self.below(3) {
                0 => put!(self, "r{argument} = {}", self.immediate()),
                1 => put!(self, "w{argument} = *(u8 *)(r7 + {})", 5 * argument),
                _ => put!(self, "r{argument} = *(u64 *)(r7 + {})", 6 * argument),
            }
        }
        put!(self, "call f{index}");
        self.numbers_again(1);
    }

    fn function_of_numbers(&mut self) -> String {
        let outer = std::mem::take(&mut self.code);
        let registers = std::mem::replace(&mut self.registers, (0..4).collect());
        self.in_function = true;
        put!(self, "r0 = {}", self.pick(&["r1", "r2", "0", "1"]));
        put!(self, "r8 = 0");
        for _ in 0..1 + self.below(MOST_IN_FUNCTIONS) {
            let idiom = self.chosen(0);
            self.expand(idiom, 0);
        }
        put!(self, "{0}0 {1} {0}{2}", self.pick(&['r', 'w']), self.pick(&["=", "+=", "^="]), 1 + self.below(3));
        put!(self, "exit");
        self.in_function = false;
        self.registers = registers;
        std::mem::replace(&mut self.code, outer)
    }

    /// The result depends on one number, or a few.
    fn end_scalars(&mut self) {
        let (n, view) = (self.number(), self.pick(&['r', 'w']));
        match self.below(5) {
            0 | 1 => put!(self, "{view}0 = {view}{n}"),
            2 => {
                let bits = self.pick(&SIZES);
                put!(self, "*(u{bits} *)(r9 + 8) = {}{n}", super::view(bits));
                put!(self, "{view}0 = {view}{}", self.number());
            }
            3 => {
                put!(self, "r0 = r{n}");
                put!(self, "r0 >>= 32");
            }
            _ => {
                for n in self.registers.clone() {
                    put!(self, "r0 *= 0x1003f");
                    put!(self, "r0 ^= r{n}");
                }
                put!(self, "r1 = r0");
                put!(self, "r1 >>= 32");
                put!(self, "r0 ^= r1");
            }
        }
        self.code.push_str("out:\n");
        put!(self, "exit");
    }
}
