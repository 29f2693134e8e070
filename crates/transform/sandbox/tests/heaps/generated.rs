//! Generated heap programs: whatever the transform emits, the kernel's verifier accepts.
//!
//! A program has pointers and numbers in registers, all from the packet at first. Its statements load, store, add atomically,
//! move pointers and follow them, branch, call functions that loop and call, hold a ring buffer record, take locks of the heap, and
//! loop: along pointers, or by counters on the stack. Programs without calls use all registers, so that guards and cancellation points must borrow some.

use std::fmt::Write as _;

use kiln_linux::TestInput;
use kiln_sandbox::{Error, Options, sandbox_for};

/// xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % bound
    }

    fn one_of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

struct Generator {
    random: Random,
    text: String,
    labels: u32,
    pointers: Vec<u8>,
    numbers: Vec<u8>,
    /// Bytes of the stack in use.
    stack: u32,
    calls: bool,
    holds: bool,
}

const SIZES: [&str; 4] = ["u8", "u16", "u32", "u64"];

impl Generator {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "  {line}");
    }

    fn label(&mut self) -> u32 {
        self.labels += 1;
        self.labels
    }

    fn mark(&mut self, label: u32) {
        let _ = writeln!(self.text, "l{label}:");
    }

    /// `(uN *)(pointer + offset)`.
    fn place(&mut self, size: &str) -> String {
        let (pointer, offset) = (self.random.one_of(&self.pointers), self.random.below(64) as i32 * 8 - 64);
        let sign = if offset < 0 { '-' } else { '+' };
        format!("({size} *)(r{pointer} {sign} {})", offset.abs())
    }

    fn block(&mut self, depth: u32) {
        for _ in 0..=self.random.below(4) {
            self.statement(depth);
        }
    }

    fn statement(&mut self, depth: u32) {
        let (number, other) = (self.random.one_of(&self.numbers), self.random.one_of(&self.numbers));
        let (pointer, to) = (self.random.one_of(&self.pointers), self.random.one_of(&self.pointers));
        let size = self.random.one_of(&SIZES);
        let wide = self.random.one_of(&SIZES[2..]);
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
        self.block(depth - 1);
        self.line(&format!("r{pointer} = *(u64 *)(r{pointer} + {next})"));
        self.line(&format!("goto l{again}"));
        self.mark(out);
    }

    /// A loop by a counter on the stack, up to a number that the verifier knows or not.
    fn count(&mut self, depth: u32, number: u8) {
        if self.stack >= 160 {
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
        if self.holds || self.stack >= 160 || self.random.below(2) == 0 {
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
        self.holds = true;
        self.block(depth - 1);
        self.holds = false;
        self.line(&format!("r1 = *(u64 *)(r10 - {slot})"));
        self.line("r2 = 0");
        self.line("call ringbuf_discard");
        self.mark(out);
    }
}

/// A program by its seed.
fn program(seed: u64) -> String {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let calls = random.below(2) == 0;
    let (pointers, numbers) = if calls { (vec![6, 7], vec![8, 9]) } else { (vec![1, 4, 6, 7, 8], vec![0, 3, 5, 9]) };
    let mut generator =
        Generator { random, text: String::new(), labels: 0, pointers, numbers, stack: 0, calls, holds: false };
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
    let all = [generator.pointers.clone(), generator.numbers.clone()].concat();
    for (at, register) in all.iter().filter(|register| **register != 2).enumerate() {
        generator.line(&format!("r{register} = *(u64 *)(r2 + {})", at * 8 % 64));
    }
    generator.line("goto begin");
    generator.text.push_str("bad:\n  r0 = 1\n  exit\nbegin:\n");
    for _ in 0..2 + generator.random.below(5) {
        generator.statement(3);
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
    generator.text
}

/// What became of the programs.
#[derive(Debug, Default)]
struct Tally {
    emitted: u32,
    /// Too much for a verifier, before or after the transform.
    too_complex: u32,
    /// Emitted with the numbers of loops hidden in every iteration, because the kernel's verifier gave up on the first result.
    hidden: u32,
    unsupported: Vec<String>,
    accesses: usize,
    guards: usize,
    new_pointers: usize,
    points: usize,
}

fn generate(first: u64, count: u64) {
    if let Err(error) = kiln_linux::available() {
        println!("skipped: the kernel: {error}");
        return;
    }
    let verifier = kiln_verifier::Options { most_insns: Some(400_000), ..Default::default() };
    let options = Options { quantum_ns: 100_000, verifier, ..Options::default() };
    let mut tally = Tally::default();
    for seed in first..first + count {
        let text = program(seed);
        let object = kiln_program::text::parse(&text).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
        let too_large = |object: &kiln_program::Object| {
            let failed = kiln_linux::load_image(object, &object.programs[0]).err();
            failed.is_some_and(|failure| failure.is_too_complex())
        };
        let mut hidden = false;
        let asked = sandbox_for(&object, &options, |object| {
            let large = too_large(object);
            hidden |= large;
            large
        });
        tally.hidden += u32::from(hidden && asked.is_ok());
        let rewrite = match asked {
            Ok(rewrite) => rewrite,
            Err(Error::Unsupported { what, .. }) => {
                tally.unsupported.push(what);
                continue;
            }
            Err(Error::Rejected { source, .. } | Error::Result { source, .. }) => {
                let complex = match &*source {
                    kiln_verifier::Error::Rejected(why) => why.reason == kiln_verifier::Reason::TooComplex,
                    other => matches!(other, kiln_verifier::Error::Limit { .. }),
                };
                assert!(complex, "seed {seed}: {source}\n{text}");
                tally.too_complex += 1;
                continue;
            }
        };
        tally.emitted += 1;
        for of in &rewrite.evidence {
            tally.accesses += of.accesses;
            tally.guards += of.guards;
            tally.new_pointers += of.new_pointers;
            tally.points += of.points.len();
        }
        let loaded = kiln_linux::load_image(&rewrite.object, &rewrite.object.programs[0]);
        let loaded = loaded.unwrap_or_else(|failure| {
            let said = failure.logs.last().map_or("", |log| &log.log[log.log.len().saturating_sub(2000)..]);
            panic!("seed {seed}: the kernel: {failure}\n{text}\n{said}")
        });
        let input = TestInput { packet: vec![0x5a; 64], ..TestInput::default() };
        loaded.prog.test_run(&input).expect("runs");
    }
    let (asked, kept) = (tally.accesses - tally.new_pointers, tally.guards - tally.new_pointers);
    println!(
        "{count} programs: {} emitted ({} at the second attempt), 0 of them refused by the kernel; {} too complex, {} unsupported {:?}; \
         {} heap accesses, {} guards of new pointers, of the other {asked} {} elided; {} cancellation points",
        tally.emitted,
        tally.hidden,
        tally.too_complex,
        tally.unsupported.len(),
        tally.unsupported.iter().collect::<std::collections::BTreeSet<_>>(),
        tally.accesses,
        tally.new_pointers,
        asked - kept,
        tally.points,
    );
    assert!(u64::from(tally.emitted) * 2 > count || count < 10, "most programs are emitted");
}

#[test]
fn the_kernel_accepts_what_is_emitted() {
    generate(1, 40);
}

/// Minutes; `KILN_GENERATED` says how many, `KILN_GENERATED_FIRST` with which seed to begin.
#[test]
#[ignore = "takes minutes"]
fn the_kernel_accepts_thousands() {
    let asked = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    generate(asked("KILN_GENERATED_FIRST").unwrap_or(1), asked("KILN_GENERATED").unwrap_or(3000));
}
