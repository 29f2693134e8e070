//! Verdicts against the reference interpreter: what is called equal runs the same on random inputs, and every
//! counterexample really is one.

mod common;

use std::collections::BTreeMap;

use common::{pointer, scalars};
use kiln_equiv::concrete::Random;
use kiln_equiv::{Input, Limits, Tester, Verdict, Window, check};
use kiln_isa::{Address, AluOp, AtomicOp, Imm64, Insn, Reg, RegSet, Size, Source, Width};
use kiln_program::interpret::Fault;
use kiln_program::interpret::HelperResult;
use kiln_program::{
    Environment, ExternId, Function, FunctionId, InsnId, Interpreter, Linkage, MapId, Node, Object, Program, Reference,
};
use kiln_verifier::{InsnFacts, Region, Scalar, StackSet, Value};

/// Memory by address; sees the last registers.
struct Memory {
    bytes: BTreeMap<u64, u8>,
    frame: u64,
    registers: [u64; Reg::COUNT],
}

impl Environment for Memory {
    fn load(&mut self, address: u64, size: Size) -> Result<u64, Fault> {
        let byte = |at: u64| self.bytes.get(&at).copied().ok_or(Fault::Memory { address: at, bytes: 1 });
        (0..u64::from(size.bytes()))
            .rev()
            .try_fold(0, |value, at| Ok(value << 8 | u64::from(byte(address.wrapping_add(at))?)))
    }
    fn store(&mut self, address: u64, size: Size, value: u64) -> Result<(), Fault> {
        for (at, byte) in value.to_le_bytes().into_iter().take(size.bytes() as usize).enumerate() {
            self.bytes.insert(address.wrapping_add(at as u64), byte);
        }
        Ok(())
    }
    fn call_helper(&mut self, _: u32, _: [u64; 5]) -> Result<HelperResult, Fault> {
        Err(Fault::Unsupported("helpers".to_owned()))
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
    fn frame_pointer(&mut self, _: usize) -> Result<u64, Fault> {
        Ok(self.frame)
    }
    fn load_packet(&mut self, _: i64, _: Size) -> Result<Option<u64>, Fault> {
        Ok(None)
    }
    fn before(&mut self, _: &Node, _: usize, registers: &mut [u64; Reg::COUNT]) {
        self.registers = *registers;
    }
}

fn node(insn: Insn) -> Node {
    Node::new(InsnId(0), insn, Reference::None)
}

/// Registers and memory after a window, run as a program of its own; `None` when it faults.
fn interpret(input: &Input, window: &[Node]) -> Option<([u64; Reg::COUNT], BTreeMap<u64, u8>)> {
    let mut nodes: Vec<Node> = Reg::all()
        .take(10)
        .map(|reg| node(Insn::LoadImm64 { dst: reg, imm: Imm64::Value(input.registers[reg.index()]) }))
        .collect();
    nodes.extend(window.iter().cloned());
    nodes.push(node(Insn::Exit));
    for (at, node) in nodes.iter_mut().enumerate() {
        node.id = InsnId(at as u32);
    }
    let object = Object {
        functions: vec![Function::new("window", "", Linkage::Global, nodes)],
        programs: Vec::<Program>::new(),
        ..Object::default()
    };
    let mut memory = Memory { bytes: input.memory.clone(), frame: input.registers[10], registers: [0; Reg::COUNT] };
    Interpreter::new(&object).run(FunctionId(0), 0, &mut memory, 1000).ok()?;
    Some((memory.registers, memory.bytes))
}

/// Whether two windows leave the same live registers and live memory.
fn same(input: &Input, before: &[Node], after: &[Node], live: RegSet, stack: &StackSet) -> bool {
    let Some((old, old_memory)) = interpret(input, before) else { panic!("the original faults") };
    let Some((new, new_memory)) = interpret(input, after) else { return false };
    let frame = input.registers[10];
    let byte = |memory: &BTreeMap<u64, u8>, at: &u64| memory.get(at).copied().or(input.memory.get(at).copied());
    let counts = |at: &&u64| match frame.wrapping_sub(**at) {
        below @ 1..=512 => stack.contains(-(below as i32)),
        _ => true,
    };
    live.iter().all(|reg| old[reg.index()] == new[reg.index()])
        && old_memory
            .keys()
            .chain(new_memory.keys())
            .filter(counts)
            .all(|at| byte(&old_memory, at) == byte(&new_memory, at))
}

fn reg(random: &mut Random) -> Reg {
    Reg::new(random.below(4) as u8).unwrap()
}

/// R5 points to the packet, R6 and R7 into values of one map, R10 to the stack.
fn address(random: &mut Random, size: Size) -> Address {
    let slot = random.below(2) as i16;
    match random.below(6) {
        0 => Address { base: Reg::new(5).unwrap(), offset: slot * 2 },
        1 => Address { base: Reg::new(6).unwrap(), offset: slot * 4 },
        2 => Address { base: Reg::new(7).unwrap(), offset: slot * 4 },
        _ => Address {
            base: Reg::R10,
            offset: -8 - 8 * slot + (random.below(u64::from(8 / size.bytes())) as i16) * size.bytes() as i16,
        },
    }
}

fn insn(random: &mut Random) -> Insn {
    let width = if random.below(2) == 0 { Width::W32 } else { Width::W64 };
    let size = Size::ALL[random.below(4) as usize];
    let imm = match random.below(4) {
        0 => random.below(4) as i32,
        1 => [8, 16, 24, 32, 56, 63][random.below(6) as usize],
        2 => [255, 0xffff, -1, i32::MIN, i32::MAX][random.below(5) as usize],
        _ => random.next() as i32,
    };
    let src = if random.below(2) == 0 { Source::Reg(reg(random)) } else { Source::Imm(imm) };
    match random.below(16) {
        0..=6 => {
            let op = AluOp::ALL[random.below(AluOp::ALL.len() as u64) as usize];
            Insn::Alu { op, width, dst: reg(random), src }
        }
        7 => Insn::Alu { op: AluOp::Mov, width, dst: reg(random), src },
        8 => Insn::Neg { width, dst: reg(random) },
        9 => {
            let order = kiln_isa::ByteOrder::Big;
            Insn::Endian { order, size: Size::ALL[1 + random.below(3) as usize], dst: reg(random) }
        }
        10 => Insn::MoveSignExtend {
            width,
            from: Size::ALL[random.below(2) as usize],
            dst: reg(random),
            src: reg(random),
        },
        11 | 12 => {
            let size = Size::ALL[random.below(4) as usize];
            Insn::Load { size, signed: false, dst: reg(random), address: address(random, size) }
        }
        13 if random.below(4) == 0 => {
            let address = Address { base: Reg::new(6 + random.below(2) as u8).unwrap(), offset: 0 };
            let (fetch, op) = (random.below(2) == 0, AtomicOp::Add);
            Insn::Atomic { op, fetch, size: Size::B8, address, src: reg(random) }
        }
        _ => Insn::Store { size, address: address(random, size), src },
    }
}

/// A change that often keeps the meaning: drop, swap, duplicate, change an operand.
fn mutate(random: &mut Random, nodes: &[Node]) -> Vec<Node> {
    let mut nodes = nodes.to_vec();
    for _ in 0..1 + random.below(2) {
        if nodes.is_empty() {
            break;
        }
        let at = random.below(nodes.len() as u64) as usize;
        match random.below(5) {
            0 => drop(nodes.remove(at)),
            1 if at + 1 < nodes.len() => nodes.swap(at, at + 1),
            2 => nodes[at].insn = insn(random),
            3 => {
                if let Insn::Alu { width, .. } = &mut nodes[at].insn {
                    *width = if *width == Width::W32 { Width::W64 } else { Width::W32 };
                }
            }
            _ => {
                if let Insn::Store { src, .. } | Insn::Alu { src, .. } = &mut nodes[at].insn {
                    *src = Source::Imm(random.below(2) as i32 - 1);
                }
            }
        }
    }
    nodes
}

fn facts(random: &mut Random) -> InsnFacts {
    let mut facts = scalars();
    facts.registers[5] = pointer(Region::Packet, 0);
    facts.registers[6] = pointer(Region::MapValue(MapId(0)), 0);
    facts.registers[7] = pointer(Region::MapValue(MapId(0)), 8);
    facts.packet_bytes = 16;
    if random.below(2) == 0 {
        facts.registers[2] = Value::Scalar(Scalar::constant(random.corner()));
        facts.stack.insert(-8, Value::Scalar(Scalar::constant(random.corner())));
        let small = kiln_verifier::Tnum { value: 0, mask: 0xff };
        let byte = Scalar {
            tnum: small,
            umax: 200,
            smin: 0,
            smax: 200,
            u32_max: 200,
            s32_min: 0,
            s32_max: 200,
            ..Scalar::UNKNOWN
        };
        facts.registers[3] = Value::Scalar(byte);
    }
    facts
}

#[test]
fn verdicts_hold_in_the_interpreter() {
    let mut random = Random::new(7);
    let (mut equal, mut different, mut unknown) = (0, 0, 0);
    for round in 0..4000 {
        let facts = facts(&mut random);
        let before: Vec<_> = (0..2 + random.below(5)).map(|_| node(insn(&mut random))).collect();
        let after = mutate(&mut random, &before);
        let live: RegSet = Reg::all().filter(|_| random.below(2) == 0).collect();
        let stack = if random.below(2) == 0 { StackSet::ALL } else { StackSet::EMPTY };
        let object = Object::default();
        let window = Window {
            before: &before,
            after: &after,
            facts: Some(&facts),
            live_after: live,
            stack_live_after: stack,
            exits: &[],
            object: &object,
        };
        // Few tests, so that wrong candidates reach the normal form and the solver.
        let limits = Limits { tests: u32::from(round % 4 == 0) * 8, solver_steps: 100_000, ..Limits::default() };
        let text = || {
            let list = |nodes: &[Node]| nodes.iter().map(|node| node.insn.to_string()).collect::<Vec<_>>().join("; ");
            format!("round {round}: {}  =>  {}  live {live:?}", list(&before), list(&after))
        };
        match check(&window, &limits) {
            Verdict::Equal(proof) => {
                equal += 1;
                let tester = Tester::new(&window, 24).expect("inputs");
                for input in tester.inputs() {
                    assert!(same(input, &before, &after, live, &stack), "{} {proof:?} {input:x?}", text());
                }
            }
            Verdict::Different(counterexample) => {
                different += 1;
                // A candidate that touches other memory differs without leaving a different state.
                let touches = counterexample.difference.contains("touches memory");
                let input = &counterexample.input;
                assert!(touches || !same(input, &before, &after, live, &stack), "{} {counterexample:x?}", text());
            }
            Verdict::Unknown(_) => unknown += 1,
        }
    }
    println!("{equal} equal, {different} different, {unknown} unknown");
    assert!(equal > 200 && different > 200, "{equal} equal, {different} different, {unknown} unknown");
}

/// The canary: a broken rule is caught, and what catches it is real.
#[test]
fn a_broken_rule_is_caught() {
    let text = "rule sign\n  w1 = $a\n  *(u64 *)(r10 - 8) = r1\n=>\n  *(u64 *)(r10 - 8) = $a\ndead r1\n";
    let rule = kiln_equiv::parse_rules(text).unwrap().remove(0);
    let verdict = kiln_equiv::prove_rule(&rule, &Limits { tests: 500, ..Limits::default() });
    let kiln_equiv::RuleVerdict::Refuted { before, after, counterexample } = verdict else {
        panic!("not refuted: {verdict}");
    };
    let nodes = |insns: &[Insn]| insns.iter().map(|insn| node(*insn)).collect::<Vec<_>>();
    let (before, after) = (nodes(&before), nodes(&after));
    assert!(!same(&counterexample.input, &before, &after, RegSet::EMPTY, &StackSet::ALL), "{counterexample:x?}");
}
