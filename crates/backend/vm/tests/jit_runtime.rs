//! Compiled code and its runtime: budgets, stops, callbacks, tail calls, and how far branches reach.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use std::cell::Cell;

use kiln_isa::{Address, AluOp, CallTarget, Imm64, Insn, JumpOp, Reg, Size, Source, Width};
use kiln_jit::{HelperEntry, Options, Runtime, Symbols};
use kiln_program::{Function, FunctionId, Linkage, MapId, Node, Object, Reference};
use kiln_vm::exec::Program;

/// An instruction and what it refers to by position: a target in its function, or a function.
enum To {
    Nothing,
    Position(usize),
    Function(u32),
}

fn object(functions: Vec<Vec<(Insn, To)>>) -> Object {
    let mut object = Object::default();
    for (number, insns) in functions.into_iter().enumerate() {
        let first = object.next_insn;
        let nodes: Vec<Node> = insns
            .into_iter()
            .map(|(insn, to)| {
                let reference = match to {
                    To::Nothing => Reference::None,
                    To::Position(at) => Reference::Branch(kiln_program::InsnId(first + at as u32)),
                    To::Function(id) => Reference::Function(FunctionId(id)),
                };
                object.new_node(insn, reference)
            })
            .collect();
        object.functions.push(Function::new(format!("function{number}"), "xdp", Linkage::Static, nodes));
    }
    kiln_program::validate(&object).expect("a valid object");
    object
}

fn plain(insn: Insn) -> (Insn, To) {
    (insn, To::Nothing)
}

fn alu(op: AluOp, dst: Reg, src: Source) -> (Insn, To) {
    plain(Insn::Alu { op, width: Width::W64, dst, src })
}

fn set(dst: Reg, value: i32) -> (Insn, To) {
    alu(AluOp::Mov, dst, Source::Imm(value))
}

fn copy(dst: Reg, src: Reg) -> (Insn, To) {
    alu(AluOp::Mov, dst, Source::Reg(src))
}

fn add(dst: Reg, imm: i32) -> (Insn, To) {
    alu(AluOp::Add, dst, Source::Imm(imm))
}

fn goto(at: usize) -> (Insn, To) {
    (Insn::Jump { offset: 0, long: false }, To::Position(at))
}

fn helper(number: u32) -> (Insn, To) {
    plain(Insn::Call(CallTarget::Helper(number)))
}

fn subprogram(function: u32) -> (Insn, To) {
    (Insn::Call(CallTarget::Subprogram(0)), To::Function(function))
}

fn exit() -> (Insn, To) {
    plain(Insn::Exit)
}

fn store_context(offset: i16, src: Reg) -> (Insn, To) {
    let address = Address { base: Reg::R6, offset };
    plain(Insn::Store { size: Size::B8, address, src: Source::Reg(src) })
}

thread_local! {
    /// Where the tail call helper sends the run; 0 makes it fail.
    static TAIL: Cell<u64> = const { Cell::new(0) };
}

const REPEAT: u32 = 1;
const STOP: u32 = 2;
/// Never stops the run.
const QUIET: u32 = 3;
const TAIL_CALL: u32 = 12;

/// Calls back R1 times with (round, R3), and returns the sum of what came back.
extern "C" fn repeat(rounds: u64, callback: u64, data: u64, _: u64, _: u64, runtime: *mut Runtime) -> u64 {
    // SAFETY: the programs below pass the address of one of their functions, which the JIT made a `HelperEntry`.
    let callback: HelperEntry = unsafe { std::mem::transmute(callback as usize) };
    let mut sum = 0u64;
    for round in 0..rounds {
        sum = sum.wrapping_add(callback(round, data, 0, 0, 0, runtime));
        // SAFETY: compiled code passes the runtime that the run was entered with.
        if unsafe { (*runtime).stopped() } {
            return 0;
        }
    }
    sum
}

extern "C" fn stop(_: u64, _: u64, _: u64, _: u64, _: u64, runtime: *mut Runtime) -> u64 {
    // SAFETY: compiled code passes the runtime that the run was entered with.
    unsafe { (*runtime).stop(7) };
    1
}

extern "C" fn tail_call(_: u64, _: u64, _: u64, _: u64, _: u64, _: *mut Runtime) -> u64 {
    TAIL.get()
}

extern "C" fn quiet(_: u64, _: u64, _: u64, _: u64, _: u64, _: *mut Runtime) -> u64 {
    0
}

struct TestSymbols;

impl Symbols for TestSymbols {
    fn helper_address(&self, number: u32) -> Option<u64> {
        match number {
            REPEAT => Some(repeat as *const () as u64),
            STOP => Some(stop as *const () as u64),
            QUIET => Some(quiet as *const () as u64),
            TAIL_CALL => Some(tail_call as *const () as u64),
            _ => None,
        }
    }
    fn helper_may_stop(&self, number: u32) -> bool {
        number != QUIET
    }
}

fn compile(object: &Object, entry: u32) -> Program {
    compile_with(object, entry, &Options::default())
}

fn compile_with(object: &Object, entry: u32, options: &Options) -> Program {
    let code = kiln_jit::compile_here(object, FunctionId(entry), &TestSymbols, options);
    Program::load(&code.expect("it compiles")).expect("executable memory")
}

/// Runs function 0 with eight words of memory as its context.
fn run(object: &Object, budget: u64) -> (u64, [u64; 8], Runtime) {
    let mut memory = [0u64; 8];
    let mut runtime = Runtime::new(budget);
    // SAFETY: the test's program stays inside `memory`, and its helpers take the runtime for what it is.
    let value = unsafe { compile(object, 0).call(memory.as_mut_ptr() as u64, &mut runtime) };
    (value, memory, runtime)
}

#[test]
fn an_endless_loop_ends_with_the_budget() {
    let object = object(vec![vec![set(Reg::R0, 0), add(Reg::R0, 1), goto(1)]]);
    let (_, _, runtime) = run(&object, 1000);
    assert!(runtime.stopped());
    assert_eq!(runtime.trap, 0);
}

#[test]
fn the_budget_is_enough_for_what_it_pays() {
    // Two instructions a round, a hundred rounds.
    let counted = || {
        let branch = Insn::Branch { op: JumpOp::Ne, width: Width::W64, dst: Reg::R1, src: Source::Imm(0), offset: 0 };
        object(vec![vec![set(Reg::R0, 7), set(Reg::R1, 100), add(Reg::R1, -1), (branch, To::Position(2)), exit()]])
    };
    let (value, _, runtime) = run(&counted(), 200);
    assert!(!runtime.stopped());
    assert_eq!((value, runtime.budget), (7, 0));
    let (_, _, runtime) = run(&counted(), 199);
    assert!(runtime.stopped());
}

/// One function fills its frame, the next, in the same place, adds up its own without having written it.
#[test]
fn cleared_frames_show_nothing_of_what_was_there() {
    const WORDS: i16 = 16;
    let word = |index: i16| Address { base: Reg::R10, offset: -8 * (index + 1) };
    let fill = (0..WORDS).map(|index| plain(Insn::Store { size: Size::B8, address: word(index), src: Source::Imm(1) }));
    let read = (0..WORDS).flat_map(|index| {
        let load = plain(Insn::Load { size: Size::B8, signed: false, dst: Reg::R1, address: word(index) });
        [load, alu(AluOp::Add, Reg::R0, Source::Reg(Reg::R1))]
    });
    let fill = fill.chain([set(Reg::R0, 0), exit()]).collect();
    let read = [set(Reg::R0, 0)].into_iter().chain(read).chain([exit()]).collect();
    let object = object(vec![vec![subprogram(1), subprogram(2), exit()], fill, read]);
    let sum = |cleared_bytes| {
        let program = compile_with(&object, 0, &Options { cleared_bytes, ..Options::default() });
        // SAFETY: the program touches no memory but its stack.
        unsafe { program.call(0, &mut Runtime::new(1000)) }
    };
    assert_eq!(sum(512), 0);
    assert_eq!(sum(0), WORDS as u64, "both frames are in the same place");
}

#[test]
fn an_endless_loop_in_a_subprogram_ends_every_frame() {
    let entry = vec![copy(Reg::R6, Reg::R1), subprogram(1), set(Reg::R2, 1), store_context(0, Reg::R2), exit()];
    let middle = vec![copy(Reg::R9, Reg::R1), subprogram(2), store_context(8, Reg::R9), exit()];
    let object = object(vec![entry, middle, vec![set(Reg::R8, 3), goto(0)]]);
    let (_, memory, runtime) = run(&object, 100_000);
    assert!(runtime.stopped());
    assert_eq!(memory, [0; 8], "nothing after the calls ran");
}

#[test]
fn a_helper_stops_the_run() {
    let object = object(vec![vec![copy(Reg::R6, Reg::R1), helper(STOP), store_context(0, Reg::R0), exit()]]);
    let (_, memory, runtime) = run(&object, 100);
    assert!(runtime.stopped());
    assert_eq!((runtime.trap, memory[0]), (7, 0));
}

/// `repeat(10, callback, context)`, its sum stored and returned.
fn calling_back(callback: Vec<(Insn, To)>) -> Object {
    let address = Insn::LoadImm64 { dst: Reg::R2, imm: Imm64::Value(0) };
    let entry = vec![
        copy(Reg::R6, Reg::R1),
        copy(Reg::R3, Reg::R1),
        set(Reg::R1, 10),
        (address, To::Function(1)),
        helper(REPEAT),
        store_context(0, Reg::R0),
        exit(),
    ];
    object(vec![entry, callback])
}

#[test]
fn callbacks_run_and_keep_the_callers_registers() {
    let address = Address { base: Reg::R6, offset: 8 };
    let object = calling_back(vec![
        copy(Reg::R6, Reg::R2),
        plain(Insn::Load { size: Size::B8, signed: false, dst: Reg::R7, address }),
        add(Reg::R7, 1),
        store_context(8, Reg::R7),
        copy(Reg::R0, Reg::R1),
        alu(AluOp::Mul, Reg::R0, Source::Reg(Reg::R1)),
        exit(),
    ]);
    let (value, memory, runtime) = run(&object, 1000);
    assert!(!runtime.stopped());
    assert_eq!((value, memory[0], memory[1]), (285, 285, 10));
    // Seven instructions a round.
    assert_eq!(runtime.budget, 1000 - 70);
}

#[test]
fn a_callback_that_loops_forever_ends_the_run() {
    let (_, memory, runtime) = run(&calling_back(vec![set(Reg::R0, 0), goto(0)]), 1000);
    assert!(runtime.stopped());
    assert_eq!(memory[0], 0);
}

#[test]
fn rounds_of_a_callback_spend_the_budget() {
    let (_, memory, runtime) = run(&calling_back(vec![set(Reg::R0, 0), exit()]), 19);
    assert!(runtime.stopped());
    assert_eq!(memory[0], 0);
    let (_, _, runtime) = run(&calling_back(vec![set(Reg::R0, 0), exit()]), 20);
    assert!(!runtime.stopped());
}

/// A target that stores a mark in the context it got, changes every callee-saved register and returns 40.
fn target() -> Object {
    object(vec![vec![
        copy(Reg::R6, Reg::R1),
        set(Reg::R7, 99),
        set(Reg::R8, 99),
        set(Reg::R9, 99),
        store_context(0, Reg::R7),
        set(Reg::R0, 40),
        exit(),
    ]])
}

#[test]
fn a_tail_call_replaces_the_frame() {
    let target = target();
    let target = compile(&target, 0);
    let calling = object(vec![vec![
        copy(Reg::R6, Reg::R1),
        helper(TAIL_CALL),
        set(Reg::R2, 5),
        store_context(8, Reg::R2),
        set(Reg::R0, 1),
        exit(),
    ]]);
    TAIL.set(0);
    let (value, memory, _) = run(&calling, 100);
    assert_eq!((value, memory[0], memory[1]), (1, 0, 5), "a failed tail call goes on");
    TAIL.set(target.address());
    let (value, memory, _) = run(&calling, 100);
    assert_eq!((value, memory[0], memory[1]), (40, 99, 0));
}

#[test]
fn a_tail_call_in_a_subprogram_returns_to_its_caller() {
    let target = target();
    let target = compile(&target, 0);
    TAIL.set(target.address());
    let calling = object(vec![
        vec![
            copy(Reg::R6, Reg::R1),
            set(Reg::R7, 2),
            set(Reg::R8, 3),
            subprogram(1),
            alu(AluOp::Add, Reg::R0, Source::Reg(Reg::R7)),
            store_context(8, Reg::R8),
            exit(),
        ],
        vec![set(Reg::R7, 0), set(Reg::R9, 0), helper(TAIL_CALL), set(Reg::R0, 0), exit()],
    ]);
    let (value, memory, runtime) = run(&calling, 100);
    assert!(!runtime.stopped());
    assert_eq!((value, memory[0], memory[1]), (42, 99, 3));
    assert_eq!(runtime.budget, 95, "the subprogram's five instructions");
}

#[test]
fn may_goto_leaves_after_its_limit() {
    let object = object(vec![vec![
        set(Reg::R0, 0),
        (Insn::MayGoto { offset: 0 }, To::Position(4)),
        add(Reg::R0, 1),
        goto(1),
        exit(),
    ]]);
    let (value, _, runtime) = run(&object, 1 << 40);
    assert!(!runtime.stopped());
    assert_eq!(value, 8 << 20);
}

#[test]
fn the_budget_is_counted_across_tail_calls_in_subprograms() {
    let branch = Insn::Branch { op: JumpOp::Ne, width: Width::W64, dst: Reg::R2, src: Source::Imm(0), offset: 0 };
    let looping =
        object(vec![vec![set(Reg::R2, 3), add(Reg::R2, -1), (branch, To::Position(1)), set(Reg::R0, 0), exit()]]);
    let looping = compile(&looping, 0);
    TAIL.set(looping.address());
    let callee = vec![helper(TAIL_CALL), set(Reg::R0, 0), exit()];
    let calling = object(vec![vec![subprogram(1), subprogram(2), exit()], callee, vec![set(Reg::R0, 0), exit()]]);
    let (_, _, runtime) = run(&calling, 100);
    // Three rounds of two, the callee's three, the other's two.
    assert_eq!(runtime.budget, 100 - 6 - 3 - 2);
}

/// A target that does not keep the budget in its register must not lose it for those who do.
#[test]
fn the_budget_outlives_a_target_that_ignores_it() {
    let ignoring = object(vec![vec![helper(QUIET), exit()]]);
    let ignoring = compile(&ignoring, 0);
    TAIL.set(ignoring.address());
    let callee = vec![helper(TAIL_CALL), set(Reg::R0, 0), exit()];
    let (_, _, runtime) = run(&object(vec![vec![subprogram(1), exit()], callee]), 100);
    assert_eq!(runtime.budget, 97);
}

/// What a frame holds outlives what it calls, to its last byte.
#[test]
fn stack_frames_do_not_overlap() {
    for stack in [8, 16, 64, 104, 128, 136, 512i16] {
        let slot = |offset| Address { base: Reg::R10, offset };
        let write = |imm| {
            let at = move |offset| Insn::Store { size: Size::B8, address: slot(offset), src: Source::Imm(imm) };
            (1..=stack / 8).map(move |word| plain(at(-8 * word)))
        };
        let mut entry: Vec<_> = write(5).collect();
        entry.extend([set(Reg::R6, 0), subprogram(1)]);
        for word in 1..=stack / 8 {
            let load = Insn::Load { size: Size::B8, signed: false, dst: Reg::R1, address: slot(-8 * word) };
            entry.extend([plain(load), alu(AluOp::Add, Reg::R6, Source::Reg(Reg::R1))]);
        }
        entry.extend([copy(Reg::R0, Reg::R6), exit()]);
        let callee: Vec<_> = write(77).chain([set(Reg::R6, 3), subprogram(2), exit()]).collect();
        let leaf: Vec<_> = write(99).chain([set(Reg::R0, 0), exit()]).collect();
        let (value, _, runtime) = run(&object(vec![entry, callee, leaf]), 1 << 20);
        assert!(!runtime.stopped());
        assert_eq!(value, 5 * (stack as u64 / 8), "{stack} bytes");
    }
}

/// Branches both ways over every distance around where the short form ends.
#[test]
fn branches_reach() {
    for fillers in (0..80).chain([1000, 20_000]) {
        // r0 counts; the branch forward skips fillers that would spoil it, the one back runs three times.
        let end = 3 + fillers;
        let branch = |op, dst, imm| Insn::Branch { op, width: Width::W64, dst, src: Source::Imm(imm), offset: 0 };
        let mut insns = vec![set(Reg::R0, 0), add(Reg::R0, 1), (branch(JumpOp::Ne, Reg::R0, 0), To::Position(end))];
        insns.extend((0..fillers).map(|_| alu(AluOp::Or, Reg::R0, Source::Imm(64))));
        insns.push((branch(JumpOp::Lt, Reg::R0, 3), To::Position(1)));
        insns.push(exit());
        let (value, _, runtime) = run(&object(vec![insns]), 1 << 30);
        assert!(!runtime.stopped());
        assert_eq!(value, 3, "{fillers} instructions between");
    }
}

/// Helpers are called with the stack where the System V convention wants it, whatever the frame: code compiled by
/// rustc relies on it, and this helper looks.
#[test]
fn the_stack_is_aligned_at_calls() {
    /// Returns the stack pointer as it was before the call.
    // SAFETY: the body touches no register but the one for results, which the convention lets it change, and returns.
    #[unsafe(naked)]
    extern "C" fn stack_pointer(_: u64, _: u64, _: u64, _: u64, _: u64, _: *mut Runtime) -> u64 {
        #[cfg(target_arch = "x86_64")]
        core::arch::naked_asm!("lea rax, [rsp + 8]", "ret");
        #[cfg(target_arch = "aarch64")]
        core::arch::naked_asm!("mov x0, sp", "ret");
    }
    struct Looking;
    impl Symbols for Looking {
        fn helper_address(&self, _: u32) -> Option<u64> {
            Some(stack_pointer as *const () as u64)
        }
    }
    for saved in 0..5u8 {
        for stack in [0, 1, 8, 9, 16, 24, 100, 512] {
            for nested in [false, true] {
                let mut body: Vec<_> = (0..saved).map(|index| set(Reg::new(6 + index).unwrap_or(Reg::R9), 1)).collect();
                if stack > 0 {
                    let address = Address { base: Reg::R10, offset: -stack };
                    body.push(plain(Insn::Store { size: Size::B1, address, src: Source::Imm(0) }));
                }
                body.extend([helper(1), alu(AluOp::And, Reg::R0, Source::Imm(15)), exit()]);
                let functions =
                    if nested { vec![vec![set(Reg::R6, 0), subprogram(1), exit()], body] } else { vec![body] };
                let object = object(functions);
                let code = kiln_jit::compile_here(&object, FunctionId(0), &Looking, &Options::default());
                let program = Program::load(&code.expect("it compiles")).expect("executable memory");
                // SAFETY: the program touches no memory but its stack.
                let value = unsafe { program.call(0, &mut Runtime::new(1000)) };
                assert_eq!(value, 0, "{saved} saved, {stack} bytes of stack, nested: {nested}");
            }
        }
    }
}

/// Plain arrays are indexed without a call: the address of the value, or 0 past the end.
#[test]
fn arrays_are_indexed_in_place() {
    struct OneArray(kiln_jit::Array);
    impl Symbols for OneArray {
        fn array(&self, _: MapId) -> Option<kiln_jit::Array> {
            Some(self.0)
        }
    }
    let mut object = object(vec![vec![copy(Reg::R2, Reg::R1), plain(Node::address_load(Reg::R1)), helper(1), exit()]]);
    let maps = kiln_program::Map {
        name: "array".into(),
        map_type: kiln_platform::MapType::Array,
        key_size: 4,
        value_size: 8,
        max_entries: 8,
        flags: 0,
        extra: 0,
        pinned_by_name: false,
        key_btf: 0,
        value_btf: 0,
        inner: None,
        contents: Default::default(),
    };
    object.maps.push(maps);
    object.functions[0].nodes[1].reference = Reference::Map(MapId(0));
    for first in [0x1000, 0x7fff_1234_5000, 0xffff_8000_0000_0000u64] {
        for stride_bytes in [1, 2, 8, 24, 40, 4096] {
            for entries in [1, 100, 128, 1000, i32::MAX as u32] {
                let symbols = OneArray(kiln_jit::Array { first, stride_bytes, entries });
                let code = kiln_jit::compile_here(&object, FunctionId(0), &symbols, &Options::default());
                let program = Program::load(&code.expect("it compiles")).expect("executable memory");
                for index in [0, 1, entries - 1, entries, entries + 1, u32::MAX, 1 << 31] {
                    let key = index;
                    // SAFETY: the program reads the key, and copies it to its stack.
                    let found = unsafe { program.call(&raw const key as u64, &mut Runtime::new(100)) };
                    let value = first.wrapping_add(u64::from(index) * u64::from(stride_bytes));
                    assert_eq!(found, if index < entries { value } else { 0 }, "{index} of {entries}");
                }
            }
        }
    }
}
