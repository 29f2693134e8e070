//! The reference interpreter on a few bytes of memory: every kind of instruction, calls, callbacks, tail calls, traps.

use kiln_isa::{Reg, Size};
use kiln_program::interpret::{Fault, HelperResult};
use kiln_program::text::parse;
use kiln_program::{Environment, ExternId, FunctionId, InsnId, Interpreter, MapId, Node, Object, Outcome, Trap};

/// Addresses: 512 bytes of stack per frame, one byte array in R1, one map value.
const STACK: u64 = 0x1000;
const DATA: u64 = 0x10_0000;
const MAP_VALUE: u64 = 0x20_0000;
const MAP: u64 = 0x30_0000;

/// Instructions of a run. Miri takes about a millisecond for each.
const BUDGET: u64 = if cfg!(miri) { 200 } else { 10_000 };

struct Bytes {
    stack: Vec<u8>,
    data: Vec<u8>,
    value: [u8; 16],
    packet: Vec<u8>,
    /// Frame depth and R10 at each instruction.
    seen: Vec<(InsnId, usize, u64)>,
    callback_results: Vec<u64>,
}

impl Bytes {
    fn new(data: &[u8]) -> Bytes {
        let packet = vec![0xde, 0xad, 0xbe, 0xef];
        let (data, seen, callback_results) = (data.to_vec(), Vec::new(), Vec::new());
        Bytes { stack: vec![0; 8 * 512], data, value: [0; 16], packet, seen, callback_results }
    }

    fn slice(&mut self, address: u64, size: Size) -> Result<&mut [u8], Fault> {
        let bytes = u64::from(size.bytes());
        for (start, memory) in
            [(STACK, &mut self.stack[..]), (DATA, &mut self.data[..]), (MAP_VALUE, &mut self.value[..])]
        {
            let offset = address.wrapping_sub(start) as usize;
            if address >= start && offset.saturating_add(bytes as usize) <= memory.len() {
                return Ok(&mut memory[offset..offset + bytes as usize]);
            }
        }
        Err(Fault::Memory { address, bytes })
    }
}

impl Environment for Bytes {
    fn load(&mut self, address: u64, size: Size) -> Result<u64, Fault> {
        let mut value = [0; 8];
        value[..size.bytes() as usize].copy_from_slice(self.slice(address, size)?);
        Ok(u64::from_le_bytes(value))
    }
    fn store(&mut self, address: u64, size: Size, value: u64) -> Result<(), Fault> {
        self.slice(address, size)?.copy_from_slice(&value.to_le_bytes()[..size.bytes() as usize]);
        Ok(())
    }
    fn call_helper(&mut self, helper: u32, arguments: [u64; 5]) -> Result<HelperResult, Fault> {
        match helper {
            1000 => Ok(HelperResult::Value(arguments.iter().sum())),
            1001 => Ok(HelperResult::TailCall(FunctionId(arguments[1] as u32))),
            // Calls the function in R2 until it has been called R1 times.
            1002 if (self.callback_results.len() as u64) < arguments[0] => Ok(HelperResult::Callback {
                function: FunctionId(arguments[1] as u32),
                arguments: [self.callback_results.len() as u64, arguments[2], 0, 0, 0],
            }),
            1002 => Ok(HelperResult::Value(self.callback_results.iter().sum())),
            other => Err(Fault::Unsupported(format!("helper {other}"))),
        }
    }
    fn call_kfunc(&mut self, function: ExternId, arguments: [u64; 5]) -> Result<u64, Fault> {
        Ok(u64::from(function.0) + arguments[0])
    }
    fn map_address(&mut self, map: MapId) -> Result<u64, Fault> {
        Ok(MAP + u64::from(map.0))
    }
    fn map_value_address(&mut self, _map: MapId, offset: u32) -> Result<u64, Fault> {
        Ok(MAP_VALUE + u64::from(offset))
    }
    fn extern_address(&mut self, symbol: ExternId) -> Result<u64, Fault> {
        Ok(0x5000 + u64::from(symbol.0))
    }
    fn frame_pointer(&mut self, depth: usize) -> Result<u64, Fault> {
        Ok(STACK + 512 * (depth as u64 + 1))
    }
    fn load_packet(&mut self, offset: i64, size: Size) -> Result<Option<u64>, Fault> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = self.packet.get(start..start.saturating_add(size.bytes() as usize));
        Ok(bytes.map(|bytes| bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))))
    }
    fn callback_result(&mut self, value: u64) {
        self.callback_results.push(value);
    }
    fn before(&mut self, node: &Node, depth: usize, registers: &mut [u64; Reg::COUNT]) {
        self.seen.push((node.id, depth, registers[10]));
    }
}

fn run_with(text: &str, environment: &mut Bytes, budget: u64) -> Result<Outcome, Trap> {
    let object: Object = parse(text).unwrap();
    kiln_program::validate(&object).unwrap();
    Interpreter::new(&object).run(FunctionId(0), DATA, environment, budget)
}

fn run(text: &str) -> Result<u64, Trap> {
    let mut environment = Bytes::new(&[0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88]);
    run_with(text, &mut environment, BUDGET).map(|outcome| outcome.value)
}

#[track_caller]
fn gives(text: &str, value: u64) {
    assert_eq!(run(&format!("{text}\nexit")), Ok(value), "{text}");
}

#[test]
fn arithmetic_and_extension() {
    gives("r0 = -1\nw0 += 1", 0);
    gives("r0 = -1\nw0 = w0", 0xffff_ffff);
    gives("w0 = -5", 0xffff_fffb);
    gives("r0 = -5", (-5_i64) as u64);
    gives("r0 = 0x80 ll\nr0 = (s8)r0", 0xffff_ffff_ffff_ff80);
    gives("r0 = 0x80\nw0 = (s8)w0", 0xffff_ff80);
    gives("r0 = 7\nr0 = -r0", (-7_i64) as u64);
    gives("r0 = 7\nw0 = -w0", 0xffff_fff9);
    gives("r0 = 0x1122334455667788 ll\nr0 = be64 r0", 0x8877_6655_4433_2211);
    gives("r0 = 0x1122334455667788 ll\nr0 = be16 r0", 0x8877);
    gives("r0 = 0x1122334455667788 ll\nr0 = le32 r0", 0x5566_7788);
    gives("r0 = 0x1122334455667788 ll\nr0 = bswap32 r0", 0x8877_6655);
    gives("r0 = -8\nr0 s/= 3", (-2_i64) as u64);
    gives("r0 = -8\nw0 s%= 3", 0xffff_fffe);
    gives("r0 = 10\nr1 = 0\nr0 /= r1", 0);
    gives("r0 = 10\nr1 = 0\nr0 %= r1", 10);
}

#[test]
fn memory() {
    gives("r0 = *(u16 *)(r1 + 1)", 0x8382);
    gives("r0 = *(s16 *)(r1 + 1)", 0xffff_ffff_ffff_8382);
    gives("r0 = *(u64 *)(r1 + 0)", 0x8887_8685_8483_8281);
    gives("*(u64 *)(r10 - 8) = -2\nr0 = *(u32 *)(r10 - 4)", 0xffff_ffff);
    gives("r2 = 0x1234\n*(u8 *)(r10 - 1) = r2\nr0 = *(u8 *)(r10 - 1)", 0x34);
    gives("r2 = 0x1234\nstore_release((u16 *)(r10 - 2), r2)\nr0 = load_acquire((u16 *)(r10 - 2))", 0x1234);
    let fault = Fault::Memory { address: DATA + 5, bytes: 4 };
    assert_eq!(run("r0 = *(u32 *)(r1 + 5)\nexit"), Err(Trap::Fault { insn: InsnId(0), fault }));
}

#[test]
fn atomics() {
    let start = "*(u64 *)(r10 - 8) = 5\nr2 = 3\n";
    let stored = "\nr0 = *(u64 *)(r10 - 8)";
    for (insn, memory, register) in [
        ("lock *(u64 *)(r10 - 8) += r2", 8, 3),
        ("lock *(u64 *)(r10 - 8) |= r2", 7, 3),
        ("lock *(u64 *)(r10 - 8) &= r2", 1, 3),
        ("lock *(u64 *)(r10 - 8) ^= r2", 6, 3),
        ("r2 = atomic_fetch_add((u64 *)(r10 - 8), r2)", 8, 5),
        ("r2 = xchg_64(r10 - 8, r2)", 3, 5),
    ] {
        gives(&format!("{start}{insn}{stored}"), memory);
        gives(&format!("{start}{insn}\nr0 = r2"), register);
    }
    gives(&format!("{start}r0 = 5\nr0 = cmpxchg_64(r10 - 8, r0, r2){stored}"), 3);
    gives(&format!("{start}r0 = 4\nr0 = cmpxchg_64(r10 - 8, r0, r2){stored}"), 5);
    gives(&format!("{start}r0 = 4\nr0 = cmpxchg_64(r10 - 8, r0, r2)"), 5);
    // 32 bits: compared and returned zero-extended, the upper half of memory untouched.
    let narrow = "r3 = 0x1122334400000005 ll\n*(u64 *)(r10 - 8) = r3\nr2 = -1\nr0 = 0x9900000005 ll\n";
    gives(&format!("{narrow}w0 = cmpxchg32_32(r10 - 8, w0, w2)"), 5);
    gives(&format!("{narrow}w0 = cmpxchg32_32(r10 - 8, w0, w2){stored}"), 0x1122_3344_ffff_ffff);
}

#[test]
fn branches() {
    gives("r0 = 0\nr1 = 5\nagain: r0 += r1\nr1 += -1\nif r1 != 0 goto again", 15);
    gives("r0 = 1\nr1 = -1\nif w1 s< 0 goto +1\nr0 = 2", 1);
    gives("r0 = 1\nr1 = 0x1ffffffff ll\nif w1 == -1 goto +1\nr0 = 2", 1);
    gives("r0 = 1\nr1 = 0xffffffff ll\nif r1 == -1 goto +1\nr0 = 2", 2);
    gives("r0 = 1\nr1 = 6\nif r1 & 9 goto +1\nr0 = 2", 2);
    gives("r0 = 1\nmay_goto +1\nr0 = 2", 2);
    gives("r0 = 1\ngotol +1\nr0 = 2", 1);
}

#[test]
fn packet_loads() {
    gives("r6 = r1\nr0 = *(u16 *)skb[1]", 0xadbe);
    gives("r6 = r1\nr2 = 3\nr0 = *(u8 *)skb[r2]", 0xef);
    // Out of bounds: the program ends with 0.
    gives("r6 = r1\nr0 = *(u32 *)skb[1]\nr0 = 7", 0);
}

#[test]
fn addresses() {
    let maps = "; map m array key 4 value 16 entries 1\n; map n array key 4 value 16 entries 1\n; extern e ksym\n";
    gives(&format!("{maps}r0 = map[n]"), MAP + 1);
    gives(&format!("{maps}r1 = map_value[m] + 8\n*(u32 *)(r1 + 4) = 9\nr0 = *(u64 *)(r1 + 0)"), 9 << 32);
    gives(&format!("{maps}r0 = extern[e]"), 0x5000);
    let unresolved = run("r0 = map[fd:3]\nexit");
    assert!(matches!(unresolved, Err(Trap::Fault { fault: Fault::Unsupported(_), .. })), "{unresolved:?}");
}

#[test]
fn calls_save_registers_and_give_each_frame_its_stack() {
    let text = "
        r6 = 10
        *(u64 *)(r10 - 8) = 100
        r1 = 1
        r2 = 2
        call callee
        r1 = *(u64 *)(r10 - 8)
        r0 += r1
        r0 += r6
        exit
        ; function callee
        r6 = 77
        *(u64 *)(r10 - 8) = 1000
        r0 = r1
        r0 += r2
        exit";
    let mut environment = Bytes::new(&[]);
    let outcome = run_with(text, &mut environment, 100).unwrap();
    assert_eq!(outcome, Outcome { value: 113, instructions: 14 });
    let callee = environment.seen[5];
    assert_eq!((callee.1, callee.2), (1, STACK + 2 * 512));
    assert_eq!(environment.seen[10].1, 0);
    assert_eq!(environment.seen[10].2, STACK + 512);
}

#[test]
fn helpers_callbacks_and_tail_calls() {
    gives("r1 = 1\nr2 = 2\nr3 = 3\nr4 = 4\nr5 = 5\ncall 1000", 15);
    gives("; extern f kfunc\nr1 = 5\ncall kfunc[f]", 5);
    let looping = "
        r6 = 3
        r1 = 4
        r2 = fn[body]
        r3 = r10
        *(u64 *)(r10 - 8) = 0
        r4 = 0
        call 1002
        r1 = *(u64 *)(r10 - 8)
        r0 *= 10
        r0 += r1
        r0 += r6
        exit
        ; function body
        r6 = 99
        r3 = *(u64 *)(r2 - 8)
        r3 += 1
        *(u64 *)(r2 - 8) = r3
        r0 = r1
        exit";
    // Results 0 + 1 + 2 + 3, four stores to the caller's stack, R6 kept.
    assert_eq!(run(looping), Ok(60 + 4 + 3));
    let tail = "
        r1 = 7
        r2 = 1
        call 1001
        r0 = 5
        exit
        ; function other
        r0 = r1
        exit";
    assert_eq!(run(tail), Ok(7));
}

#[test]
fn traps() {
    assert_eq!(run("a: goto a\nexit"), Err(Trap::Budget { budget: BUDGET }));
    assert_eq!(run("r0 = 0\ncall main\nexit"), Err(Trap::Depth { insn: InsnId(1) }));
    assert!(matches!(run("call 4242\nexit"), Err(Trap::Fault { insn: InsnId(0), fault: Fault::Unsupported(_) })));
    let unfinished = parse("r0 = 0").unwrap();
    let trap = Interpreter::new(&unfinished).run(FunctionId(0), 0, &mut Bytes::new(&[]), 10);
    assert!(matches!(trap, Err(Trap::Malformed(_))));
    let trap = Interpreter::new(&unfinished).run(FunctionId(7), 0, &mut Bytes::new(&[]), 10);
    assert!(matches!(trap, Err(Trap::Malformed(_))), "a function that does not exist");
}

/// The budget counts callbacks too: a helper cannot escape it.
#[test]
fn callbacks_spend_the_budget() {
    let text = "r1 = 1000000\nr2 = fn[body]\ncall 1002\nexit\n; function body\nr0 = 0\nexit";
    assert_eq!(run_with(text, &mut Bytes::new(&[]), 500), Err(Trap::Budget { budget: 500 }));
}
