//! Random programs, original and optimized, on random packets: the same return value and the same packet.

use std::collections::HashMap;
use std::fmt::Write as _;

use kiln_isa::Size;
use kiln_program::interpret::{Fault, HelperResult};
use kiln_program::text::{listing, parse};
use kiln_program::{Environment, ExternId, FunctionId, Interpreter, MapId, Object};
use kiln_superopt::{Options, Unverified, optimize};

const PACKET: u64 = 0x1_0000;
const CONTEXT: u64 = 0x2_0000;
const STACK_TOP: u64 = 0x3_0000;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// Flat memory with a packet, a context and a stack.
struct Memory {
    bytes: HashMap<u64, u8>,
}

impl Memory {
    fn new(packet: &[u8]) -> Memory {
        let mut memory = Memory { bytes: HashMap::new() };
        for (at, byte) in packet.iter().enumerate() {
            memory.bytes.insert(PACKET + at as u64, *byte);
        }
        for (at, value) in [PACKET, PACKET + packet.len() as u64].into_iter().enumerate() {
            let _ = memory.store(CONTEXT + 4 * at as u64, Size::B4, value);
        }
        memory
    }
}

impl Environment for Memory {
    fn load(&mut self, address: u64, size: Size) -> Result<u64, Fault> {
        let byte = |at: u64| self.bytes.get(&(address + at)).copied().unwrap_or(0xa5);
        Ok((0..u64::from(size.bytes())).fold(0, |value, at| value | u64::from(byte(at)) << (8 * at)))
    }
    fn store(&mut self, address: u64, size: Size, value: u64) -> Result<(), Fault> {
        for at in 0..u64::from(size.bytes()) {
            self.bytes.insert(address + at, (value >> (8 * at)) as u8);
        }
        Ok(())
    }
    fn call_helper(&mut self, _: u32, _: [u64; 5]) -> Result<HelperResult, Fault> {
        Ok(HelperResult::Value(self.bytes.len() as u64))
    }
    fn call_kfunc(&mut self, _: ExternId, _: [u64; 5]) -> Result<u64, Fault> {
        Err(Fault::Unsupported("kfuncs".to_owned()))
    }
    fn map_address(&mut self, _: MapId) -> Result<u64, Fault> {
        Err(Fault::Unsupported("maps".to_owned()))
    }
    fn map_value_address(&mut self, _: MapId, _: u32) -> Result<u64, Fault> {
        Err(Fault::Unsupported("maps".to_owned()))
    }
    fn extern_address(&mut self, _: ExternId) -> Result<u64, Fault> {
        Err(Fault::Unsupported("externs".to_owned()))
    }
    fn frame_pointer(&mut self, depth: usize) -> Result<u64, Fault> {
        Ok(STACK_TOP - 512 * depth as u64)
    }
    fn load_packet(&mut self, _: i64, _: Size) -> Result<Option<u64>, Fault> {
        Ok(None)
    }
}

/// A program that clears 32 bytes of stack, fills some of them in on one way or another, and looks at some.
fn frame(random: &mut Random) -> String {
    let mut text = String::from(
        "; program xdp\n w6 = *(u32 *)(r1 + 0)\n w2 = *(u32 *)(r1 + 4)\n r3 = r6\n r3 += 64\n if r3 > r2 goto out\n",
    );
    for slot in 1..=4 {
        let _ = writeln!(text, " *(u64 *)(r10 - {}) = {}", 8 * slot, random.pick(&["0", "0", "0", "7"]));
    }
    let place = |random: &mut Random, size: usize| 32 - size * random.below(32 / size);
    let store = |random: &mut Random, text: &mut String| {
        let (size, loaded) = (1 << random.below(4), random.pick(&["8", "8", "16", "32"]));
        let at = place(random, size);
        let _ = match random.below(3) {
            0 => writeln!(text, " *(u{} *)(r10 - {at}) = {}", 8 * size, random.pick(&["0", "0", "2", "-1"])),
            _ => {
                writeln!(text, " w2 = *(u{loaded} *)(r6 + {})\n *(u{} *)(r10 - {at}) = r2", random.below(40), 8 * size)
            }
        };
    };
    let load = |random: &mut Random, text: &mut String| {
        let size = 1 << random.below(4);
        let at = place(random, size);
        let _ = writeln!(text, " r3 = *(u{} *)(r10 - {at})\n r0 *= 31\n r0 ^= r3", 8 * size);
    };
    text.push_str(" r0 = 1\n");
    for part in 0..1 + random.below(3) {
        let _ = writeln!(text, " w4 = *(u8 *)(r6 + {part})\n if w4 > 100 goto else{part}");
        (0..random.below(5)).for_each(|_| store(random, &mut text));
        (0..random.below(2)).for_each(|_| load(random, &mut text));
        let _ = writeln!(text, " goto end{part}\nelse{part}:");
        (0..random.below(5)).for_each(|_| store(random, &mut text));
        let _ = writeln!(text, "end{part}:\n r0 += 3");
    }
    (0..1 + random.below(6)).for_each(|_| load(random, &mut text));
    text.push_str(" exit\nout:\n w0 = 0\n exit\n");
    text
}

/// A program over scalars in r0 to r5 and r7 to r9, 64 packet bytes at r6, and 32 bytes of stack.
// long: one arm for each kind of instruction
fn program(random: &mut Random) -> String {
    let mut text = String::from(
        "; program xdp\n w6 = *(u32 *)(r1 + 0)\n w2 = *(u32 *)(r1 + 4)\n r3 = r6\n r3 += 64\n if r3 > r2 goto out\n",
    );
    for slot in 1..=4 {
        let _ = writeln!(text, " *(u64 *)(r10 - {}) = {}", 8 * slot, random.below(300) as i64 - 150);
    }
    let scalars = ["0", "1", "2", "3", "4", "5", "7", "8", "9"];
    for reg in scalars {
        let size = random.pick(&["8", "16", "32", "64"]);
        let view = if size == "64" { 'r' } else { 'w' };
        let _ = writeln!(text, " {view}{reg} = *(u{size} *)(r6 + {})", random.below(56));
    }
    let length = 5 + random.below(40);
    let mut pending: Vec<usize> = Vec::new();
    for index in 0..length {
        pending.retain(|target| {
            if *target == index {
                let _ = writeln!(text, "L{target}_{index}:");
            }
            *target != index
        });
        let (reg, other) = (random.pick(&scalars), random.pick(&scalars));
        let constants = ["0", "1", "8", "-1", "255", "65535", "0x7fffffff", "-128", "4096"];
        let imm = random.pick(&constants);
        let w = random.pick(&["r", "w"]);
        let size = random.pick(&["8", "16", "32", "64"]);
        let view = if size == "64" { 'r' } else { 'w' };
        let bytes: usize = size.parse::<usize>().unwrap() / 8;
        let stack = 32 - bytes * random.below(32 / bytes);
        let packet = random.below(16 / bytes) * bytes;
        let _ = match random.below(16) {
            0 | 1 => writeln!(text, " {w}{reg} {} {imm}", random.pick(&["+=", "-=", "*=", "&=", "|=", "^="])),
            2 | 3 => writeln!(
                text,
                " {w}{reg} {} {w}{other}",
                random.pick(&["+=", "-=", "*=", "&=", "|=", "^=", "/=", "%="])
            ),
            4 => writeln!(text, " {w}{reg} {} {}", random.pick(&["<<=", ">>=", "s>>="]), 8 * random.below(4)),
            5 => {
                let amount = random.pick(&["32", "56", "48", "8"]);
                writeln!(text, " r{reg} <<= {amount}\n r{reg} {} {amount}", random.pick(&[">>=", "s>>="]))
            }
            6 => writeln!(text, " {w}{reg} = {imm}"),
            7 => writeln!(text, " {w}{reg} = {w}{other}"),
            8 => writeln!(text, " {view}{reg} = *(u{size} *)(r6 + {packet})"),
            9 => writeln!(text, " *(u{size} *)(r6 + {packet}) = {view}{reg}"),
            10 => writeln!(text, " {view}{reg} = *(u{size} *)(r10 - {stack})"),
            11 => writeln!(text, " *(u{size} *)(r10 - {stack}) = {view}{reg}"),
            12 => writeln!(text, " *(u{size} *)(r10 - {stack}) = {imm}"),
            13 => {
                let at = random.below(14);
                writeln!(
                    text,
                    " w{reg} = *(u8 *)(r6 + {at})\n w{other} = *(u8 *)(r6 + {})\n r{other} <<= 8\n r{other} |= r{reg}",
                    at + random.below(3)
                )
            }
            14 => writeln!(text, " r{reg} = {} r{reg}", random.pick(&["be16", "be32", "be64", "le16", "le32"])),
            _ => {
                let target = (index + 1 + random.below(6)).min(length - 1);
                if target > index && !pending.contains(&target) {
                    pending.push(target);
                    let op = random.pick(&["==", "!=", ">", "<", "s>", "s<=", "&", ">="]);
                    writeln!(text, " if {w}{reg} {op} {imm} goto L{target}_{target}")
                } else {
                    writeln!(text, " r{reg} ^= r{other}")
                }
            }
        };
    }
    for target in pending {
        let _ = writeln!(text, "L{target}_{target}:");
    }
    for reg in &scalars[1..] {
        let _ = writeln!(text, " r0 *= 31\n r0 ^= r{reg}");
    }
    for slot in 1..=4 {
        let _ = writeln!(text, " r1 = *(u64 *)(r10 - {})\n r0 *= 31\n r0 ^= r1", 8 * slot);
    }
    text.push_str(" exit\nout:\n w0 = 0\n exit\n");
    text
}

fn run(object: &Object, packet: &[u8]) -> (u64, Vec<u8>) {
    let mut memory = Memory::new(packet);
    let outcome = Interpreter::new(object).run(FunctionId(0), CONTEXT, &mut memory, 100_000).expect("it ends");
    let after = (0..packet.len() as u64).map(|at| memory.bytes[&(PACKET + at)]).collect();
    (outcome.value, after)
}

#[test]
fn random_programs_keep_their_meaning() {
    keep_their_meaning(120, 60, program);
}

#[test]
fn random_frames_keep_their_meaning() {
    keep_their_meaning(300, 150, frame);
}

/// Optimizes programs and runs both; at least so many must verify, and get smaller.
fn keep_their_meaning(count: usize, at_least: usize, program: fn(&mut Random) -> String) {
    let mut random = Random(1);
    let (mut verified, mut smaller) = (0, 0);
    for number in 0..count {
        let text = program(&mut random);
        let object = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let unverified = if number % 4 == 0 { Unverified::All } else { Unverified::None };
        let options = Options { unverified, search: 1, ..Options::default() };
        let rewrite = optimize(&object, &options, &mut ());
        if !rewrite.skipped.is_empty() {
            continue;
        }
        verified += 1;
        smaller += usize::from(rewrite.object.functions[0].slots() < object.functions[0].slots());
        for _ in 0..12 {
            let packet: Vec<u8> = (0..64).map(|_| [0, 1, 0xff, random.below(256) as u8][random.below(4)]).collect();
            let (before, after) = (run(&object, &packet), run(&rewrite.object, &packet));
            assert_eq!(before, after, "program {number} on {packet:?}\n{text}\nbecame\n{}", listing(&rewrite.object));
        }
        for short in [0, 20, 63] {
            let packet = vec![7; short];
            assert_eq!(run(&object, &packet), run(&rewrite.object, &packet));
        }
    }
    assert!(verified > at_least, "only {verified} programs verified");
    assert!(smaller > at_least, "only {smaller} programs got smaller");
}
