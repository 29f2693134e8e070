//! Idioms as text templates with holes.
//!
//! ```text
//!   "r{n1} = r{n2}; ?@; {v1}{n1} &= {m1}"   -->     r3 = r5
//!                                                   r5 += 17           (`@`: another idiom; `?`: one time in two)
//!                                                   w3 &= 255
//! ```
//!
//! A hole is a letter, which selects what may fill it ([`fill`]), and a digit. In one use of an idiom, the same hole
//! always has the same text. `;` ends a line.

use super::{COMPARISONS, Composer, PACKET_BYTES, SIZES, view};

/// Maximum nesting of idioms.
const MOST_NESTED: usize = 2;

/// An idiom: its name, its weight, its text.
#[derive(Debug)]
pub(super) struct Idiom {
    pub name: &'static str,
    pub weight: usize,
    pub text: &'static str,
}

impl Idiom {
    /// Whether it works on registers alone, so that a static function can do it.
    pub fn is_pure(&self) -> bool {
        !self.text.contains("(r") && !self.text.contains("{j") && !self.text.contains("r6")
    }
}

/// The texts of the holes in one use of an idiom.
type Filled = Vec<(String, String)>;

impl Composer<'_, '_> {
    /// Writes an idiom; returns the names of those that it holds.
    pub(super) fn expand(&mut self, idiom: &Idiom, depth: usize) {
        let mut filled = Filled::new();
        self.used.push(idiom.name);
        for line in idiom.text.split(';').map(str::trim) {
            let line = match line.strip_prefix('?') {
                Some(_) if self.below(2) == 0 => continue,
                Some(rest) => rest,
                None => line,
            };
            if line == "@" {
                if depth < MOST_NESTED {
                    let inner = self.chosen(depth + 1);
                    self.expand(inner, depth + 1);
                }
                continue;
            }
            let text = self.line(line, &mut filled);
            let indent = if text.ends_with(':') { "" } else { "  " };
            self.code.push_str(indent);
            self.code.push_str(&text);
            self.code.push('\n');
        }
    }

    /// A line with its holes filled.
    fn line(&mut self, line: &str, filled: &mut Filled) -> String {
        let mut text = String::new();
        let mut rest = line;
        while let Some((before, hole)) = rest.split_once('{') {
            let (name, after) = hole.split_once('}').unwrap_or((hole, ""));
            text.push_str(before);
            text.push_str(&self.filled(name, filled));
            rest = after;
        }
        text.push_str(rest);
        text
    }

    fn filled(&mut self, name: &str, filled: &mut Filled) -> String {
        if let Some((_, text)) = filled.iter().find(|(known, _)| known == name) {
            return text.clone();
        }
        let text = self.fill(name, filled);
        filled.push((name.to_owned(), text.clone()));
        text
    }

    /// The hole `z` with the digit of this one, as a number of bits.
    fn bits(&mut self, name: &str, filled: &mut Filled) -> u8 {
        let size = format!("z{}", &name[1..]);
        self.filled(&size, filled).parse().unwrap_or(64)
    }

    /// An offset of so many bits within eight bytes.
    fn within(&mut self, bits: u8) -> usize {
        let bytes = usize::from(bits / 8);
        bytes * self.below(8 / bytes)
    }

    /// Returns a text for a hole.
    fn fill(&mut self, name: &str, filled: &mut Filled) -> String {
        match name.as_bytes().first() {
            // A register, by its number.
            Some(b'n') => self.number().to_string(),
            // A view of a register.
            Some(b'v') => self.pick(&['r', 'w']).to_string(),
            // A mask, mostly of low bits.
            Some(b'm') => self.mask().to_string(),
            Some(b'i') => self.immediate().to_string(),
            // A divisor.
            Some(b'y') => match self.immediate() {
                0 => "7".to_owned(),
                other => other.to_string(),
            },
            // Shifts: of any view, by less than a half, by a half or more.
            Some(b't') => self.pick(&[1, 3, 8, 16, 24, 31, 4, 7]).to_string(),
            Some(b's') => self.pick(&[32, 32, 44, 48, 56, 63, 40, 33]).to_string(),
            // Operations with a register, and with a number.
            Some(b'o') => {
                self.pick(&["+=", "-=", "*=", "&=", "|=", "^=", "+=", "-=", "<<=", ">>=", "s>>=", "/="]).to_owned()
            }
            // Operations that zero does not change anything by.
            Some(b'w') => self.pick(&["+=", "-=", "|=", "^="]).to_owned(),
            Some(b'q') => self.pick(&["+=", "*=", "&=", "|=", "^=", "-="]).to_owned(),
            // A comparison, and what a view (of the same digit) is compared with.
            Some(b'c') => self.pick(&COMPARISONS).to_owned(),
            Some(b'a') => match self.below(3) {
                0 => {
                    let view = self.filled(&format!("v{}", &name[1..]), filled);
                    format!("{view}{}", self.number())
                }
                _ => self.immediate().to_string(),
            },
            Some(b'z' | b'x' | b'p' | b'k' | b'h' | b'd' | b'e') => self.fill_place(name, filled),
            // A label of its own; one that stands after some fragments to come.
            Some(b'l') => self.label().to_string(),
            Some(b'j') => self.later().to_string(),
            Some(b'b') => {
                self.pick(&["be16", "be32", "be64", "le16", "le32", "bswap16", "bswap32", "bswap64"]).to_owned()
            }
            // What a sign is extended from: to 64 bits, to 32.
            Some(b'g') => self.pick(&[8, 16, 32]).to_string(),
            Some(b'f') => self.pick(&[8, 16]).to_string(),
            // Turns of a loop.
            Some(b'u') => (2 + self.below(4)).to_string(),
            _ => panic!("no hole is called {name}"),
        }
    }

    /// What stands in a hole for a width in bits, the view that it takes, and places for it: packet, frame slot `k`, map
    /// data `d`.
    fn fill_place(&mut self, name: &str, filled: &mut Filled) -> String {
        match name.as_bytes().first() {
            Some(b'z') => self.pick(&SIZES).to_string(),
            Some(b'x') => view(self.bits(name, filled)).to_string(),
            Some(b'p') => {
                let bits = self.bits(name, filled);
                self.place(bits, PACKET_BYTES).to_string()
            }
            Some(b'k') => (8 * (1 + self.below(self.slots))).to_string(),
            Some(b'h') => {
                let (bits, slot) = (self.bits(name, filled), self.filled("k", filled));
                (slot.parse().unwrap_or(8) - self.within(bits)).to_string()
            }
            Some(b'd') => (8 * self.below(4)).to_string(),
            Some(b'e') => {
                let (bits, data) = (self.bits(name, filled), self.filled("d", filled));
                (data.parse().unwrap_or(0) + self.within(bits)).to_string()
            }
            _ => panic!("no hole is called {name}"),
        }
    }

    /// A mask of low bits, now and then another.
    fn mask(&mut self) -> i32 {
        match self.below(8) {
            0 => self.immediate(),
            1 => self.pick(&[-8, -256, 0xff00, i32::MIN, -1, 0x10, 0x80]),
            2 => 0x7fff_ffff,
            _ => self.pick(&[1, 3, 7, 0xf, 0x1f, 0x3f, 0xff, 0xffff]),
        }
    }
}
