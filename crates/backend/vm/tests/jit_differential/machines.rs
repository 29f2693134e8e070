//! The two machines that a program runs on, and the comparison of their results.

use std::collections::HashMap;

use kiln_isa::Size;
use kiln_isa::operation::Registry;
use kiln_jit::{Options, Runtime, Symbols, llvm};
use kiln_native::{Image, Setting, Toolchain};
use kiln_program::interpret::{Fault, HelperResult};
use kiln_program::{Environment, ExternId, FunctionId, Interpreter, MapId, Object};
use kiln_vm::exec::Program;

use super::program::{DUMP, MEMORY_BYTES};

const BUDGET: u64 = 1_000_000;

pub type Memory = [u8; MEMORY_BYTES];

/// Real addresses for the memory, made-up ones for the stack.
pub struct ReferenceMachine {
    base: u64,
    memory: Memory,
    stack: Vec<u8>,
}

pub const STACK_BASE: u64 = 0x7000_0000_0000;
pub const FRAME_BYTES: usize = 512;

impl ReferenceMachine {
    fn place(&mut self, address: u64, size: Size) -> Result<&mut [u8], Fault> {
        let bytes = size.bytes() as usize;
        let inside = |base: u64, length: usize| {
            address.checked_sub(base).map(|at| at as usize).filter(|at| at.saturating_add(bytes) <= length)
        };
        let fault = Fault::Memory { address, bytes: bytes as u64 };
        if let Some(at) = inside(self.base, MEMORY_BYTES) {
            return Ok(&mut self.memory[at..at + bytes]);
        }
        let at = inside(STACK_BASE, self.stack.len()).ok_or(fault)?;
        Ok(&mut self.stack[at..at + bytes])
    }
}

impl Environment for ReferenceMachine {
    fn load(&mut self, address: u64, size: Size) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        let place = self.place(address, size)?;
        bytes[..place.len()].copy_from_slice(place);
        Ok(u64::from_le_bytes(bytes))
    }
    fn store(&mut self, address: u64, size: Size, value: u64) -> Result<(), Fault> {
        let place = self.place(address, size)?;
        let length = place.len();
        place.copy_from_slice(&value.to_le_bytes()[..length]);
        Ok(())
    }
    fn call_helper(&mut self, helper: u32, arguments: [u64; 5]) -> Result<HelperResult, Fault> {
        Ok(HelperResult::Value(mix(u64::from(helper), arguments)))
    }
    fn call_kfunc(&mut self, _: ExternId, _: [u64; 5]) -> Result<u64, Fault> {
        Err(Fault::Unsupported("kfuncs".into()))
    }
    fn map_address(&mut self, _: MapId) -> Result<u64, Fault> {
        Err(Fault::Unsupported("maps".into()))
    }
    fn map_value_address(&mut self, _: MapId, _: u32) -> Result<u64, Fault> {
        Err(Fault::Unsupported("maps".into()))
    }
    fn extern_address(&mut self, _: ExternId) -> Result<u64, Fault> {
        Err(Fault::Unsupported("externs".into()))
    }
    fn frame_pointer(&mut self, depth: usize) -> Result<u64, Fault> {
        let end = (depth + 1) * FRAME_BYTES;
        self.stack.resize(self.stack.len().max(end), 0);
        Ok(STACK_BASE + end as u64)
    }
    fn load_packet(&mut self, offset: i64, size: Size) -> Result<Option<u64>, Fault> {
        Ok(packet(offset, size))
    }
}

/// What the test's helpers compute.
pub fn mix(helper: u64, arguments: [u64; 5]) -> u64 {
    arguments.iter().fold(helper, |mixed, argument| mixed.rotate_left(7) ^ argument)
}

/// A packet of 64 bytes that count up.
pub fn packet(offset: i64, size: Size) -> Option<u64> {
    let bytes = i64::from(size.bytes());
    let inside = offset >= 0 && offset + bytes <= 64;
    inside.then(|| (offset..offset + bytes).fold(0, |value, byte| value << 8 | byte as u64))
}

pub extern "C" fn helper(r1: u64, r2: u64, r3: u64, r4: u64, r5: u64, runtime: *mut Runtime) -> u64 {
    let _ = runtime;
    mix(1, [r1, r2, r3, r4, r5])
}

pub extern "C" fn packet_load(_: u64, offset: u64, bytes: u64, _: u64, _: u64, _: *mut Runtime) -> u64 {
    let size = Size::from_bytes(bytes as u32).expect("a size");
    packet(offset as i64, size).unwrap_or(u64::MAX)
}

pub struct TestSymbols;

impl Symbols for TestSymbols {
    fn helper_address(&self, number: u32) -> Option<u64> {
        (number == 1).then_some(helper as *const () as u64)
    }
    fn packet_load_address(&self) -> Option<u64> {
        Some(packet_load as *const () as u64)
    }
}

/// Every combination of options that this CPU can run, the proof sequences in place of native operations, and hidden
/// constants.
pub fn all_options(seed: u64) -> Vec<Options> {
    #[cfg(target_arch = "x86_64")]
    let (bmi1, bmi2, movbe) =
        (is_x86_feature_detected!("bmi1"), is_x86_feature_detected!("bmi2"), is_x86_feature_detected!("movbe"));
    #[cfg(not(target_arch = "x86_64"))]
    let (bmi1, bmi2, movbe) = (false, false, false);
    let mut all = Vec::new();
    for metered in [true, false] {
        all.push(Options { metered, ..Options::default() });
        if bmi2 || movbe {
            let cleared_bytes = if metered { 512 } else { 0 };
            all.push(Options { bmi1, bmi2, movbe, metered, cleared_bytes, ..Options::default() });
        }
    }
    all.push(Options { operations: Registry::EMPTY, ..Options::default() });
    all.push(Options { bmi1, bmi2, movbe, fusions: false, ..Options::default() });
    all.push(Options { bmi1, bmi2, movbe, blind: Some(seed), ..Options::default() });
    all.push(Options { metered: false, blind: Some(!seed), ..Options::default() });
    all
}

/// Runs a program both ways and compares.
pub fn agree(object: &Object, entry: FunctionId) {
    let mut object = object.clone();
    object.operations = kiln_idiom::recognize_where(&object, &Registry::BUILTIN, &|_| true);
    let object = &object;
    let mut machine = Machine::new(object, entry);
    for options in all_options(machine.expected) {
        let code = kiln_jit::compile_here(object, entry, &TestSymbols, &options).expect("it compiles");
        assert_eq!(code.entry_offset, 0);
        let compiled = Program::new(&code.bytes).expect("executable memory");
        machine.agrees(&compiled, || format!("{options:?}\n{}", listing(object, &code)));
    }
}

/// Runs a program in the interpreter and as an optimizing compiler's code, and compares. False without the compiler.
pub fn native_agrees(object: &Object, entry: FunctionId, setting: Setting, metered: bool) -> bool {
    let options = Options { metered, ..Options::default() };
    let aim = if setting == Setting::Size { llvm::Aim::Size } else { llvm::Aim::Speed };
    let settings = llvm::Settings { options: &options, places: &HashMap::new(), aim, name: "test" };
    let module = llvm::translate(object, entry, &TestSymbols, &settings).expect("a translation");
    let toolchain = match Toolchain::new(Toolchain::CLANG) {
        Ok(toolchain) => toolchain,
        Err(error) => {
            println!("skipped: {error}");
            return false;
        }
    };
    let file = toolchain.compile(&module.text, setting).unwrap_or_else(|error| panic!("{error}\n{}", module.text));
    let image = Image::read(&file, "test_entry", "test_addresses", module.addresses.len()).expect("an image");
    let bytes = image.with_table(&module.resolve(&TestSymbols).expect("addresses")).expect("a table");
    let compiled = Program::with_entry(&bytes, image.entry_offset).expect("executable memory");
    Machine::new(object, entry).agrees(&compiled, || format!("{setting:?}\n{}", module.text));
    true
}

/// The memory that code runs on, and what the interpreter leaves there.
struct Machine {
    initial: Memory,
    memory: Box<Memory>,
    expected: u64,
    reference: ReferenceMachine,
}

impl Machine {
    fn new(object: &Object, entry: FunctionId) -> Machine {
        kiln_program::validate(object).expect("a valid program");
        let initial: Memory = std::array::from_fn(|at| (at * 37 + at / 8) as u8);
        let mut memory = Box::new(initial);
        let base = memory.as_mut_ptr() as u64;
        let mut reference = ReferenceMachine { base, memory: initial, stack: Vec::new() };
        let outcome = Interpreter::new(object).run(entry, base, &mut reference, BUDGET).expect("the reference runs");
        Machine { initial, memory, expected: outcome.value, reference }
    }

    fn agrees(&mut self, compiled: &Program, what: impl Fn() -> String) {
        *self.memory = self.initial;
        let mut runtime = Runtime::new(BUDGET);
        // SAFETY: the generator makes programs that stay inside the memory at `base`.
        let value = unsafe { compiled.call(self.memory.as_mut_ptr() as u64, &mut runtime) };
        assert!(!runtime.stopped(), "stopped, {}", what());
        assert_eq!(value, self.expected, "R0, {}", what());
        let registers = |memory: &Memory| {
            let words = memory[DUMP as usize..].chunks(8);
            words
                .map(|word| format!("{:#x}", u64::from_le_bytes(word.try_into().expect("8 bytes"))))
                .collect::<Vec<_>>()
        };
        assert_eq!(registers(&self.memory), registers(&self.reference.memory), "registers, {}", what());
        assert_eq!(*self.memory, self.reference.memory, "memory, {}", what());
    }
}

pub fn listing(object: &Object, code: &kiln_jit::Code) -> String {
    let mut text = String::new();
    for function in &object.functions {
        text += &format!("{}:\n", function.name);
        for (at, node) in function.nodes.iter().enumerate() {
            let target = node.target().and_then(|id| function.position(id));
            text += &format!("  {at}: {} {target:?}\n", node.insn);
        }
    }
    text + &code.bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
}
