//! How fast questions are answered: `cargo run --release --example throughput -p kiln-equiv`.
//!
//! Prints, for a few typical windows, the verdict, the median and the 95th percentile of a whole question, and how
//! many candidates a second the concrete tester rejects (only that with the argument `candidates`).

use std::collections::BTreeMap;
use std::time::Instant;

use kiln_equiv::concrete::{Code, Random};
use kiln_equiv::{Limits, Tester, Verdict, Window, check};
use kiln_isa::{AluOp, Insn, Reg, RegSet, Source, Width};
use kiln_program::{InsnId, Node, Object, Reference};
use kiln_verifier::{InsnFacts, Pointer, Region, Scalar, StackSet, Value};

const CASES: &[(&str, &str, &str, &str)] = &[
    ("store immediate", "", "w1 = 7; *(u32 *)(r10 - 8) = w1", "*(u32 *)(r10 - 8) = 7"),
    ("mask + shift", "1", "r1 &= 0xff00; r1 >>= 8", "r1 >>= 8; r1 &= 255"),
    ("zext pair", "1", "r1 <<= 32; r1 >>= 32", "w1 = w1"),
    ("x15", "1", "r1 = r2; r1 <<= 4; r1 -= r2", "r1 = r2; r1 *= 15"),
    (
        "six-instruction reassociation",
        "1",
        "r1 += r2; r1 += r3; r1 ^= r4; r1 *= 3; r1 += r5; r1 -= r2",
        "r3 += r2; r1 += r3; r1 ^= r4; r5 -= r2; r1 *= 3; r1 += r5",
    ),
    (
        "byte swap through memory",
        "1",
        "*(u32 *)(r10 - 8) = w2; r1 = *(u8 *)(r10 - 8); r1 <<= 8; r3 = *(u8 *)(r10 - 7); r1 |= r3; r1 <<= 8; \
         r3 = *(u8 *)(r10 - 6); r1 |= r3; r1 <<= 8; r3 = *(u8 *)(r10 - 5); r1 |= r3",
        "*(u32 *)(r10 - 8) = w2; r1 = r2; r1 = be32 r1",
    ),
    (
        "six-byte copy",
        "",
        "r1 = *(u8 *)(r2 + 0); *(u8 *)(r10 - 8) = w1; r1 = *(u8 *)(r2 + 1); *(u8 *)(r10 - 7) = w1; \
         r1 = *(u8 *)(r2 + 2); *(u8 *)(r10 - 6) = w1; r1 = *(u8 *)(r2 + 3); *(u8 *)(r10 - 5) = w1; \
         r1 = *(u16 *)(r2 + 4); *(u16 *)(r10 - 4) = w1",
        "r1 = *(u32 *)(r2 + 0); *(u32 *)(r10 - 8) = w1; r1 = *(u16 *)(r2 + 4); *(u16 *)(r10 - 4) = w1",
    ),
    (
        "checksum fold",
        "1",
        "w3 = w1; w3 >>= 16; w1 &= 0xffff; w1 += w3; w3 = w1; w3 >>= 16; w1 += w3; w1 ^= -1; w1 &= 0xffff",
        "r3 = r1; r3 <<= 32; r3 >>= 48; r1 &= 0xffff; r1 += r3; r3 = r1; r3 >>= 16; r1 += r3; r1 ^= 0xffff; r1 &= 0xffff",
    ),
    ("or is add", "1", "r3 = r1; r3 &= r2; r1 |= r2; r1 += r3", "r1 += r2"),
    (
        "absolute value",
        "1",
        "r1 s>>= 63; r2 ^= r1; r2 -= r1; r1 = r2",
        "r3 = r2; r1 s>>= 63; r3 += r1; r3 ^= r1; r1 = r3",
    ),
    ("or of and (solver)", "1", "r3 = r1; r3 |= r2; r1 ^= r2; r3 ^= r1; r1 = r3", "r1 &= r2"),
    ("wrong: sign", "1", "r1 <<= 32; r1 s>>= 32", "w1 = w1"),
];

fn nodes(text: &str) -> Vec<Node> {
    let insns = text.split(';').map(str::trim).filter(|line| !line.is_empty());
    let insns = insns.map(|line| kiln_isa::text::parse(line).expect("a listing"));
    insns.map(node).collect()
}

fn node(insn: Insn) -> Node {
    Node::new(InsnId(0), insn, Reference::None)
}

/// Numbers in all registers but R2, which points to the packet, and R10.
fn facts() -> InsnFacts {
    let mut registers = std::array::from_fn(|_| Value::Scalar(Scalar::UNKNOWN));
    let pointer = |region| Value::Pointer(Pointer { region, offset: Scalar::constant(0), nullable: false });
    registers[2] = pointer(Region::Packet);
    registers[10] = pointer(Region::Stack { up: 0 });
    InsnFacts {
        registers,
        stack: BTreeMap::new(),
        packet_bytes: 0,
        live_after: RegSet::ALL,
        stack_live_after: StackSet::ALL,
    }
}

fn main() {
    let object = Object::default();
    let facts = facts();
    if std::env::args().any(|argument| argument == "candidates") {
        return candidates(&object);
    }
    println!("{:32} {:>12} {:>10} {:>10} {:>10}", "window", "verdict", "median us", "95% us", "untested");
    for (name, live, before, after) in CASES {
        let (before, after) = (nodes(before), nodes(after));
        let window = Window {
            before: &before,
            after: &after,
            facts: (*name == "six-byte copy").then_some(&facts),
            live_after: live.split_whitespace().filter_map(|n| Reg::new(n.parse().ok()?)).collect(),
            stack_live_after: StackSet::ALL,
            exits: &[],
            object: &object,
        };
        let limits = Limits::default();
        let untested = Limits { tests: 0, ..Limits::default() };
        let mut times = Vec::new();
        let mut verdict = check(&window, &limits);
        for _ in 0..200 {
            let begin = Instant::now();
            verdict = check(&window, &limits);
            times.push(begin.elapsed().as_secs_f64() * 1e6);
        }
        let begin = Instant::now();
        for _ in 0..200 {
            check(&window, &untested);
        }
        let alone = begin.elapsed().as_secs_f64() * 1e6 / 200.0;
        times.sort_by(f64::total_cmp);
        let word = match &verdict {
            Verdict::Equal(proof) => format!("{:?}", proof.method).split(' ').next().unwrap_or_default().to_owned(),
            Verdict::Different(_) => "different".to_owned(),
            Verdict::Unknown(_) => "unknown".to_owned(),
        };
        println!("{name:32} {word:>12} {:>10.1} {:>10.1} {alone:>10.1}", times[100], times[190]);
    }
    candidates(&object);
}

/// Time that this thread has run, where the system tells: on a shared machine the clock says little.
fn busy_seconds(begin: Instant) -> f64 {
    let own = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = own.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| begin.elapsed().as_secs_f64(), |own| own / 1e9)
}

/// Random candidates of the original's length: one instruction is another one.
fn pool(before: &[Node]) -> Vec<Vec<Node>> {
    let mut random = Random::new(1);
    let mut one = || {
        let mut candidate = before.to_vec();
        let at = random.below(candidate.len() as u64) as usize;
        let reg = Reg::new(1 + random.below(3) as u8).unwrap_or(Reg::R1);
        let op = AluOp::ALL[random.below(AluOp::ALL.len() as u64) as usize];
        candidate[at].insn = Insn::Alu { op, width: Width::W64, dst: reg, src: Source::Imm(random.below(64) as i32) };
        candidate
    };
    (0..256).map(|_| one()).collect()
}

/// Candidates a second that are run, by one thread and by as many as there are processors.
fn candidates(object: &Object) {
    const WINDOWS: [(&str, &str); 2] = [
        ("arithmetic", "r1 = r2; r1 <<= 3; r1 += r3; r1 &= 255; r3 = r1; r3 ^= r2"),
        (
            "memory",
            "r1 = *(u32 *)(r10 - 8); r1 <<= 8; r2 = *(u8 *)(r10 - 4); r1 |= r2; *(u64 *)(r10 - 16) = r1; w3 = w1",
        ),
    ];
    for (name, text) in WINDOWS {
        let before = nodes(text);
        let window = Window {
            before: &before,
            after: &[],
            facts: None,
            live_after: RegSet::of(&[Reg::R3]),
            stack_live_after: StackSet::ALL,
            exits: &[],
            object,
        };
        let tester = Tester::new(&window, 24).expect("a window without calls");
        let pool = pool(&before);
        for threads in [1, std::thread::available_parallelism().map_or(1, usize::from)] {
            let rates = std::thread::scope(|scope| {
                let run = || scope.spawn(|| run(tester.clone(), &pool));
                let handles: Vec<_> = (0..threads).map(|_| run()).collect();
                handles.into_iter().map(|handle| handle.join().expect("no thread panics")).collect::<Vec<_>>()
            });
            let sum: f64 = rates.iter().sum();
            println!("tester, {name}, {threads} threads: {:.2} M candidates/s of 6 instructions", sum / 1e6);
        }
    }
}

fn run(mut tester: Tester, pool: &[Vec<Node>]) -> f64 {
    const ROUNDS: usize = 16_000;
    let decoded = |candidate: &Vec<Node>| {
        let mut code = Code::default();
        tester.decode(candidate, &mut code);
        code
    };
    let pool: Vec<Code> = pool.iter().map(decoded).collect();
    let begin = Instant::now();
    let before = busy_seconds(begin);
    let passed: usize =
        (0..ROUNDS).map(|_| pool.iter().filter(|candidate| tester.code_matches(candidate)).count()).sum();
    std::hint::black_box(passed);
    (ROUNDS * pool.len()) as f64 / (busy_seconds(begin) - before)
}
