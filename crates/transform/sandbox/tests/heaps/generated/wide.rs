//! More statements: narrow and signed numbers, pointers that are kept on the stack and in the packet, variables of the heap, tables,
//! loops that end in the middle, several locks, iterators, exceptions, and functions that hold, copy and throw.

use super::program::{Generator, Loop, MOST_STACK, SIZES};

/// What functions the statements call, and their code.
const FUNCTIONS: [(&str, &str); 4] = [
    // A block moves: words are copied to another place, of which the heap's variable is told.
    (
        "move",
        "  r0 = r1\n  r3 &= 31\n  r3 |= 1\nmoving:\n  r4 = *(u64 *)(r2 + 0)\n  *(u64 *)(r1 + 0) = r4\n  r2 += 8\n  r1 += 8\n  \
         r3 -= 1\n  if r3 s> 0 goto moving\n  r4 = map_value[arena] + 64\n  *(u64 *)(r4 + 0) = r0\n  exit\n",
    ),
    // It holds a record while it walks and calls.
    (
        "record",
        "  r6 = r1\n  r7 = r2\n  r1 = map[events]\n  r2 = 16\n  r3 = 0\n  call ringbuf_reserve\n  if r0 == 0 goto none\n  r8 = r0\n\
         recording:\n  if r6 == 0 goto recorded\n  r1 = r6\n  r2 = r7\n  call walk\n  *(u64 *)(r8 + 0) = r0\n  \
         r6 = *(u64 *)(r6 + 8)\n  goto recording\nrecorded:\n  r1 = r8\n  r2 = 0\n  call ringbuf_discard\nnone:\n  r0 = r7\n  \
         exit\n",
    ),
    // It throws in the middle of a loop.
    (
        "check",
        "  r6 = r1\nchecking:\n  if r6 == 0 goto checked\n  r1 = *(u64 *)(r6 + 16)\n  if r1 != 77 goto good\n  r1 = 2\n  \
         call kfunc[bpf_throw]\ngood:\n  r6 = *(u64 *)(r6 + 0)\n  goto checking\nchecked:\n  r0 = r2\n  exit\n",
    ),
    // Its argument is the end of a place in the caller's frame, below which it writes.
    (
        "fill",
        "  r0 = 0\nfilling:\n  if r2 == 0 goto filled\n  r3 = *(u64 *)(r2 + 8)\n  *(u64 *)(r1 - 16) = r3\n  r0 += r3\n  \
         r2 = *(u64 *)(r2 + 0)\n  goto filling\nfilled:\n  exit\n",
    ),
];

/// Where the packet's address is kept, which no other register has.
const PACKET: u32 = 8;

impl Generator {
    /// What the statements refer to.
    pub fn declare(&mut self) {
        for name in ["bpf_iter_num_new", "bpf_iter_num_next", "bpf_iter_num_destroy", "bpf_throw"] {
            self.text.push_str(&format!("; extern {name} kfunc\n"));
        }
        let table: String = (0..8u64).map(|at| format!("{:02x}00000000000000", at * 31)).collect();
        self.text.push_str(&format!("; map .rodata array key 4 value 64 entries 1 flags 0x80 rodata {table}\n"));
    }

    /// Keeps the packet's address, once it is known to have 64 bytes.
    pub fn keep_packet(&mut self) {
        self.line(&format!("*(u64 *)(r10 - {PACKET}) = r2"));
        self.stack = PACKET;
    }

    /// The functions that are called.
    pub fn add_functions(&mut self) {
        for (name, code) in FUNCTIONS {
            if self.text.contains(&format!("call {name}\n")) {
                self.text.push_str(&format!("; function {name}\n{code}"));
            }
        }
    }

    pub fn wide_statement(&mut self, depth: u32) {
        let (number, other) = (self.random.one_of(&self.numbers), self.random.one_of(&self.numbers));
        let (pointer, to) = (self.random.one_of(&self.pointers), self.random.one_of(&self.pointers));
        match self.random.below(if depth == 0 { 9 } else { 18 }) {
            0 => {
                let op = self.random.one_of(&["+=", "-=", "*=", "&=", "|=", "^="]);
                self.line(&format!("w{number} {op} w{other}"));
            }
            1 => {
                let op = self.random.one_of(&["s>>=", ">>=", "<<="]);
                let bits = self.random.below(32);
                self.line(&format!("{}{number} {op} {bits}", if bits % 2 == 0 { 'w' } else { 'r' }));
            }
            2 => {
                let from = self.random.one_of(&["s8", "s16", "s32"]);
                self.line(&format!("r{number} = ({from})r{other}"));
            }
            3 => self.signed_index(number, pointer),
            4 => {
                let place = self.place("u64");
                let signed = place.replace("u64", self.random.one_of(&["s8", "s16", "s32"]));
                self.line(&format!("r{number} = *{signed}"));
            }
            5 => self.keep(pointer, to),
            6 => {
                let at = 8 * self.random.below(8);
                self.line(&format!("r{to} = map_value[arena] + {at}"));
            }
            7 => {
                let op = self.random.one_of(&["s>", "s<=", "==", "<"]);
                let (over, bound) = (self.label(), self.random.below(200) as i32 - 100);
                self.line(&format!("if w{number} {op} {bound} goto l{over}"));
                self.line(&format!("r{number} += r{other}"));
                self.mark(over);
            }
            8 => self.table(number),
            9 | 10 => self.walk_with_exits(depth, number, pointer),
            11 => self.walk_at_least_once(depth, pointer),
            12 => self.two_locks(depth, pointer, to),
            13 => self.switch(depth, number),
            _ if !self.calls => self.walk_with_exits(depth, number, pointer),
            14 | 15 => self.iterate(depth, number),
            _ => self.call_more(number, pointer, to),
        }
    }

    /// `pointer[(int)number]`, also before it.
    fn signed_index(&mut self, number: u8, pointer: u8) {
        let bits = self.random.one_of(&[20, 24, 28]);
        for line in [
            format!("w{number} <<= {bits}"),
            format!("w{number} s>>= {bits}"),
            format!("r{number} = (s32)r{number}"),
            format!("r{number} <<= 3"),
            format!("r{pointer} += r{number}"),
        ] {
            self.line(&line);
        }
    }

    /// A pointer is kept on the stack or in the packet, and another one taken from there.
    fn keep(&mut self, pointer: u8, to: u8) {
        if self.stack < MOST_STACK && self.random.below(2) == 0 {
            self.stack += 8;
            let slot = self.stack;
            self.line(&format!("*(u64 *)(r10 - {slot}) = r{pointer}"));
            self.line(&format!("r{pointer} += 8"));
            self.line(&format!("r{to} = *(u64 *)(r10 - {slot})"));
            return;
        }
        // Of the registers for numbers; it has a number again afterwards.
        let packet = self.numbers[0];
        let at = 8 * self.random.below(8);
        self.line(&format!("r{packet} = *(u64 *)(r10 - {PACKET})"));
        self.line(&format!("*(u64 *)(r{packet} + {at}) = r{pointer}"));
        let at = 8 * self.random.below(8);
        self.line(&format!("r{to} = *(u64 *)(r{packet} + {at})"));
        self.line(&format!("r{packet} = *(u8 *)(r{packet} + 0)"));
    }

    /// A number from a table.
    fn table(&mut self, number: u8) {
        let from = self.random.one_of(&self.pointers);
        self.line(&format!("r{number} &= 7"));
        self.line(&format!("r{number} <<= 3"));
        self.line(&format!("r{from} = map_value[.rodata]"));
        self.line(&format!("r{from} += r{number}"));
        self.line(&format!("r{number} = *(u64 *)(r{from} + 0)"));
        self.line(&format!("r{from} = r{number}"));
    }

    /// A loop with several exits and several ways back, also of the loops around it.
    fn walk_with_exits(&mut self, depth: u32, number: u8, pointer: u8) {
        let own = Loop { again: self.label(), out: self.label() };
        let (next, bound) = (8 * self.random.below(8), self.random.below(1000));
        self.mark(own.again);
        self.line(&format!("if r{pointer} == 0 goto l{}", own.out));
        self.line(&format!("r{number} = *(u32 *)(r{pointer} + 8)"));
        self.line(&format!("if r{number} == {bound} goto l{}", own.out));
        self.body(depth, own);
        self.line(&format!("r{pointer} = *(u64 *)(r{pointer} + {next})"));
        let around = self.loops.clone();
        if !around.is_empty() {
            let outer = self.random.one_of(&around);
            let to = if self.random.below(2) == 0 { outer.out } else { outer.again };
            self.line(&format!("if r{number} s< {bound} goto l{to}"));
        }
        self.line(&format!("if w{number} > {bound} goto l{}", own.again));
        let size = self.random.one_of(&SIZES);
        self.line(&format!("*({size} *)(r{pointer} + 40) = r{number}"));
        self.line(&format!("goto l{}", own.again));
        self.mark(own.out);
    }

    /// `do { ...; } while (pointer = pointer->next);`
    fn walk_at_least_once(&mut self, depth: u32, pointer: u8) {
        let own = Loop { again: self.label(), out: self.label() };
        let next = 8 * self.random.below(8);
        self.mark(own.again);
        self.body(depth, own);
        self.line(&format!("r{pointer} = *(u64 *)(r{pointer} + {next})"));
        self.line(&format!("if r{pointer} != 0 goto l{}", own.again));
        self.mark(own.out);
    }

    /// Two locks of the heap at once, released in the order in which they were taken.
    fn two_locks(&mut self, depth: u32, pointer: u8, other: u8) {
        let number = self.random.one_of(&self.numbers[1..]);
        let places = [(pointer, 4 * self.random.below(16)), (other, 64 + 4 * self.random.below(16))];
        for (pointer, offset) in places {
            let again = self.label();
            self.mark(again);
            self.line("r0 = 0");
            self.line(&format!("r{number} = 1"));
            self.line(&format!("w0 = cmpxchg32_32(r{pointer} + {offset}, w0, w{number})"));
            self.line(&format!("if r0 != 0 goto l{again}"));
        }
        self.block(depth - 1);
        for (pointer, offset) in places {
            self.line(&format!("*(u32 *)(r{pointer} + {offset}) = 0"));
        }
    }

    /// A `switch`, one case of which falls through.
    fn switch(&mut self, depth: u32, number: u8) {
        let [one, two, end] = [self.label(), self.label(), self.label()];
        self.line(&format!("r{number} &= 3"));
        self.line(&format!("if r{number} == 1 goto l{one}"));
        self.line(&format!("if r{number} == 2 goto l{two}"));
        self.block(depth - 1);
        self.line(&format!("goto l{end}"));
        self.mark(one);
        self.statement(0);
        self.mark(two);
        self.statement(0);
        self.mark(end);
    }

    /// A loop over numbers by an iterator of the kernel's.
    fn iterate(&mut self, depth: u32, number: u8) {
        if self.holds || self.stack >= MOST_STACK {
            return self.statement(0);
        }
        self.stack += 8;
        let (slot, again, out) = (self.stack, self.label(), self.label());
        let iterator = [String::from("r1 = r10"), format!("r1 += -{slot}")];
        let first = self.random.below(4);
        let end = first + 1 + self.random.below(9);
        iterator.iter().for_each(|line| self.line(line));
        self.line(&format!("r2 = {first}"));
        self.line(&format!("r3 = {end}"));
        self.line("call kfunc[bpf_iter_num_new]");
        self.mark(again);
        iterator.iter().for_each(|line| self.line(line));
        self.line("call kfunc[bpf_iter_num_next]");
        self.line(&format!("if r0 == 0 goto l{out}"));
        self.line(&format!("r{number} = *(u32 *)(r0 + 0)"));
        let outside = std::mem::replace(&mut self.loops, vec![Loop { again, out }]);
        self.holds = true;
        self.block(depth - 1);
        self.holds = false;
        self.loops = outside;
        self.line(&format!("goto l{again}"));
        self.mark(out);
        iterator.iter().for_each(|line| self.line(line));
        self.line("call kfunc[bpf_iter_num_destroy]");
    }

    /// A call of a function that moves a block, holds a record, throws, or writes into this frame.
    fn call_more(&mut self, number: u8, pointer: u8, to: u8) {
        match self.random.below(4) {
            0 => {
                for line in [format!("r1 = r{to}"), format!("r2 = r{pointer}"), format!("r3 = r{number}")] {
                    self.line(&line);
                }
                self.line("call move");
                self.line(&format!("r{pointer} = r0"));
            }
            1 if !self.holds => {
                self.line(&format!("r1 = r{pointer}"));
                self.line(&format!("r2 = r{number}"));
                self.line("call check");
                self.line(&format!("r{number} = r0"));
            }
            2 if self.stack + 24 < MOST_STACK => {
                self.stack += 24;
                let end = self.stack - 16;
                self.line("r1 = r10");
                self.line(&format!("r1 += -{end}"));
                self.line(&format!("r2 = r{pointer}"));
                self.line("call fill");
                self.line(&format!("r{number} ^= r0"));
            }
            _ => {
                self.line(&format!("r1 = r{pointer}"));
                self.line(&format!("r2 = r{number}"));
                self.line("call record");
                self.line(&format!("r{number} = r0"));
            }
        }
    }
}
