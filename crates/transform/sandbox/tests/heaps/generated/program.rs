//! Programs by their seed.

use std::fmt::Write as _;

/// Programs from this seed on also have the statements of [`super::wide`].
pub const WIDE: u64 = 1_000_000;

/// xorshift64.
pub struct Random(u64);

impl Random {
    pub fn of(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % bound
    }

    pub fn one_of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// A program in the making.
pub struct Generator {
    pub random: Random,
    pub text: String,
    labels: u32,
    pub pointers: Vec<u8>,
    pub numbers: Vec<u8>,
    /// Bytes of the stack in use.
    pub stack: u32,
    pub calls: bool,
    /// Whether a record or an iterator is held.
    pub holds: bool,
    pub wide: bool,
    /// Loops around the present place that it may leave or go on with: it holds what they hold.
    pub loops: Vec<Loop>,
}

/// A loop's labels.
#[derive(Clone, Copy)]
pub struct Loop {
    pub again: u32,
    pub out: u32,
}

/// Stack bytes for counters, iterators and what is kept.
pub const MOST_STACK: u32 = 160;
pub const SIZES: [&str; 4] = ["u8", "u16", "u32", "u64"];

impl Generator {
    pub fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "  {line}");
    }

    pub fn label(&mut self) -> u32 {
        self.labels += 1;
        self.labels
    }

    pub fn mark(&mut self, label: u32) {
        let _ = writeln!(self.text, "l{label}:");
    }

    /// `(uN *)(pointer + offset)`.
    pub fn place(&mut self, size: &str) -> String {
        let (pointer, offset) = (self.random.one_of(&self.pointers), self.random.below(64) as i32 * 8 - 64);
        let sign = if offset < 0 { '-' } else { '+' };
        format!("({size} *)(r{pointer} {sign} {})", offset.abs())
    }

    pub fn block(&mut self, depth: u32) {
        for _ in 0..=self.random.below(4) {
            self.statement(depth);
        }
    }

    pub fn statement(&mut self, depth: u32) {
        let (number, other) = (self.random.one_of(&self.numbers), self.random.one_of(&self.numbers));
        let (pointer, to) = (self.random.one_of(&self.pointers), self.random.one_of(&self.pointers));
        let size = self.random.one_of(&SIZES);
        let wide = self.random.one_of(&SIZES[2..]);
        if self.wide && self.random.below(2) == 0 {
            return self.wide_statement(depth);
        }
        match self.random.below(if depth == 0 { 9 } else { 17 }) {
            0 | 1 => {
                let place = self.place(size);
                self.line(&format!("r{number} = *{place}"));
            }
            2 => {
                let place = self.place(size);
                self.line(&format!("*{place} = r{number}"));
            }
            3 => {
                let place = self.place("u64");
                self.line(&format!("r{to} = *{place}"));
            }
            4 => {
                let step = 8 * self.random.below(6);
                self.line(&format!("r{pointer} += {step}"));
            }
            5 => {
                let mask = self.random.one_of(&[7, 63, 1023, 65535]);
                self.line(&format!("r{number} &= {mask}"));
                self.line(&format!("r{pointer} += r{number}"));
            }
            6 => {
                let place = self.place(wide);
                self.line(&format!("lock *{place} += r{number}"));
            }
            7 => {
                let op = self.random.one_of(&["+=", "-=", "^=", "*=", "|="]);
                self.line(&format!("r{number} {op} r{other}"));
            }
            8 => {
                let place = self.place("u64");
                self.line(&format!("*{place} = r{pointer}"));
            }
            9 | 10 => self.branch(depth, number, pointer, to),
            11 | 12 => self.walk(depth, pointer),
            13 => self.count(depth, number),
            14 | 15 => self.lock(depth, pointer),
            _ if self.calls => self.call(depth, number, pointer),
            _ => self.count(depth, number),
        }
    }

    /// Statements in a loop.
    pub fn body(&mut self, depth: u32, own: Loop) {
        self.loops.push(own);
        self.block(depth - 1);
        self.loops.pop();
    }

    /// A block that holds something which the loops around do not.
    pub fn held_block(&mut self, depth: u32) {
        let outside = std::mem::take(&mut self.loops);
        self.holds = true;
        self.block(depth - 1);
        self.holds = false;
        self.loops = outside;
    }

    fn branch(&mut self, depth: u32, number: u8, pointer: u8, to: u8) {
        let over = self.label();
        match self.random.below(3) {
            0 => self.line(&format!("if r{pointer} == 0 goto l{over}")),
            1 => self.line(&format!("if r{pointer} == r{to} goto l{over}")),
            _ => {
                let bound = self.random.below(1000);
                self.line(&format!("if r{number} > {bound} goto l{over}"));
            }
        }
        self.block(depth - 1);
        self.mark(over);
    }

    /// `while (pointer) { ...; pointer = pointer->next; }`
    fn walk(&mut self, depth: u32, pointer: u8) {
        let (again, out) = (self.label(), self.label());
        let next = 8 * self.random.below(8);
        self.mark(again);
        self.line(&format!("if r{pointer} == 0 goto l{out}"));
        self.body(depth, Loop { again, out });
        self.line(&format!("r{pointer} = *(u64 *)(r{pointer} + {next})"));
        self.line(&format!("goto l{again}"));
        self.mark(out);
    }

    /// A loop by a counter on the stack, up to a number that the verifier knows or not.
    fn count(&mut self, depth: u32, number: u8) {
        if self.stack >= MOST_STACK {
            return;
        }
        self.stack += 8;
        let (slot, again) = (self.stack, self.label());
        if self.random.below(3) == 0 {
            let times = 1 + self.random.below(6);
            self.line(&format!("r{number} = {times}"));
        } else {
            self.line(&format!("r{number} |= 1"));
        }
        self.line(&format!("*(u64 *)(r10 - {slot}) = r{number}"));
        self.mark(again);
        self.block(depth - 1);
        self.line(&format!("r{number} = *(u64 *)(r10 - {slot})"));
        self.line(&format!("r{number} -= 1"));
        self.line(&format!("*(u64 *)(r10 - {slot}) = r{number}"));
        self.line(&format!("if r{number} != 0 goto l{again}"));
    }

    /// A lock of the heap: waiting is a loop, and other statements run while it is held.
    fn lock(&mut self, depth: u32, pointer: u8) {
        let number = self.random.one_of(&self.numbers[1..]);
        let (again, offset) = (self.label(), 4 * self.random.below(64));
        self.mark(again);
        self.line("r0 = 0");
        self.line(&format!("r{number} = 1"));
        self.line(&format!("w0 = cmpxchg32_32(r{pointer} + {offset}, w0, w{number})"));
        self.line(&format!("if r0 != 0 goto l{again}"));
        self.block(depth - 1);
        self.line(&format!("*(u32 *)(r{pointer} + {offset}) = 0"));
    }

    /// A call of a function with a loop, or a record that is held meanwhile.
    fn call(&mut self, depth: u32, number: u8, pointer: u8) {
        if self.holds || self.stack >= MOST_STACK || self.random.below(2) == 0 {
            self.line(&format!("r1 = r{pointer}"));
            self.line(&format!("r2 = r{number}"));
            let callee = self.random.one_of(&["walk", "deep"]);
            self.line(&format!("call {callee}"));
            self.line(&format!("r{number} = r0"));
            return;
        }
        self.stack += 8;
        let (slot, out) = (self.stack, self.label());
        for line in ["r1 = map[events]", "r2 = 16", "r3 = 0", "call ringbuf_reserve"] {
            self.line(line);
        }
        self.line(&format!("if r0 == 0 goto l{out}"));
        self.line(&format!("*(u64 *)(r10 - {slot}) = r0"));
        self.held_block(depth);
        self.line(&format!("r1 = *(u64 *)(r10 - {slot})"));
        self.line("r2 = 0");
        self.line("call ringbuf_discard");
        self.mark(out);
    }
}

/// A program by its seed.
pub fn program(seed: u64) -> String {
    let mut random = Random::of(seed);
    let calls = random.below(2) == 0;
    let (pointers, numbers) = if calls { (vec![6, 7], vec![8, 9]) } else { (vec![1, 4, 6, 7, 8], vec![0, 3, 5, 9]) };
    let wide = seed >= WIDE;
    let (text, loops) = (String::new(), Vec::new());
    let mut generator =
        Generator { random, text, labels: 0, pointers, numbers, stack: 0, calls, holds: false, wide, loops };
    if wide {
        generator.declare();
    }
    for line in [
        "; map arena arena key 0 value 0 entries 16 flags 0x400 extra 0x100000000000",
        "; map events ringbuf entries 4096",
        "; program xdp",
        "; function main",
        "  r2 = *(u32 *)(r1 + 0)",
        "  r3 = *(u32 *)(r1 + 4)",
        "  r0 = r2",
        "  r0 += 64",
        "  if r0 > r3 goto bad",
    ] {
        let _ = writeln!(generator.text, "{line}");
    }
    if wide {
        generator.keep_packet();
    }
    let all = [generator.pointers.clone(), generator.numbers.clone()].concat();
    for (at, register) in all.iter().filter(|register| **register != 2).enumerate() {
        generator.line(&format!("r{register} = *(u64 *)(r2 + {})", at * 8 % 64));
    }
    generator.line("goto begin");
    generator.text.push_str("bad:\n  r0 = 1\n  exit\nbegin:\n");
    // Wide statements are longer.
    let depth = if wide { 2 } else { 3 };
    for _ in 0..2 + generator.random.below(5) {
        generator.statement(depth);
    }
    // Every register is needed at the end.
    let numbers = generator.numbers.clone();
    if calls {
        generator.line("r0 = r8");
    }
    for register in generator.pointers.clone().into_iter().chain(numbers) {
        if register != 0 {
            generator.line(&format!("r0 ^= r{register}"));
        }
    }
    generator.line("exit");
    if calls {
        generator.text.push_str(
            "; function walk\n  r0 = 0\nwalking:\n  if r1 == 0 goto walked\n  r3 = *(u64 *)(r1 + 8)\n  r0 += r3\n  \
             *(u32 *)(r1 + 16) = r2\n  r1 = *(u64 *)(r1 + 0)\n  goto walking\nwalked:\n  exit\n",
        );
    }
    if calls && generator.text.contains("call deep") {
        generator.text.push_str(
            "; function deep\n  r6 = r1\n  r7 = r2\n  r8 = 0\ndeeper:\n  if r6 == 0 goto deepest\n  r1 = *(u64 *)(r6 + 24)\n  \
             r2 = r7\n  call walk\n  r8 += r0\n  r6 = *(u64 *)(r6 + 0)\n  goto deeper\ndeepest:\n  r0 = r8\n  exit\n",
        );
    }
    if wide {
        generator.add_functions();
    }
    generator.text
}
