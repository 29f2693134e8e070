//! The reference interpreter: [`kiln_isa::semantics::execute`] on concrete values.
//!
//! It owns registers, call frames and the instruction budget. Memory, maps and helpers belong to an [`Environment`]. So
//! the VM, a test with a few bytes of memory, and the oracle that compares every concrete state with the verifier's
//! facts (through [`Environment::before`]) all run the same code.

use std::collections::HashMap;

use kiln_isa::semantics::{BitVec, Bits, Flow, Machine, MemoryOrder, execute};
use kiln_isa::{Address, AtomicOp, CallTarget, Imm64, Reg, Size};

use crate::object::{ExternId, FunctionId, InsnId, JumpTable, MapId, Node, Object, Reference};

/// Maximum number of call frames (kernel `MAX_CALL_FRAMES`).
pub const MAX_FRAMES: usize = 8;

/// The world of a running program outside its registers. Addresses are plain 64-bit numbers that the environment chose:
/// for map values, contexts, packets and [`Environment::frame_pointer`].
pub trait Environment {
    /// Reads `size` bytes, little-endian.
    fn load(&mut self, address: u64, size: Size) -> Result<u64, Fault>;
    /// Writes the lowest `size` bytes.
    fn store(&mut self, address: u64, size: Size, value: u64) -> Result<(), Fault>;
    /// Replaces a value in memory by the result of `update`, if there is one, atomically for other threads. Returns the
    /// old value. `update` may be called more than once.
    fn update(&mut self, address: u64, size: Size, update: &mut dyn FnMut(u64) -> Option<u64>) -> Result<u64, Fault> {
        let old = self.load(address, size)?;
        if let Some(new) = update(old) {
            self.store(address, size, new)?;
        }
        Ok(old)
    }
    /// Calls a helper with R1 to R5; returns R0.
    fn call_helper(&mut self, helper: u32, arguments: [u64; 5]) -> Result<HelperResult, Fault>;
    /// Calls a kfunc with R1 to R5; returns R0.
    fn call_kfunc(&mut self, function: ExternId, arguments: [u64; 5]) -> Result<u64, Fault>;
    /// The value of a `ld_imm64` of a map.
    fn map_address(&mut self, map: MapId) -> Result<u64, Fault>;
    /// The address of a byte in a map's first value.
    fn map_value_address(&mut self, map: MapId, offset: u32) -> Result<u64, Fault>;
    /// The address of an extern.
    fn extern_address(&mut self, symbol: ExternId) -> Result<u64, Fault>;
    /// The address of a function, to be passed to a helper as a callback.
    fn function_address(&mut self, function: FunctionId) -> Result<u64, Fault> {
        Ok(u64::from(function.0))
    }
    /// The frame pointer of frame number `depth` (0 is the entry's).
    fn frame_pointer(&mut self, depth: usize) -> Result<u64, Fault>;
    /// A function begins in frame number `depth`: the contents of that frame may be discarded.
    fn frame_begins(&mut self, depth: usize) {
        let _ = depth;
    }
    /// A classic packet load in network order; `None` when out of bounds.
    fn load_packet(&mut self, offset: i64, size: Size) -> Result<Option<u64>, Fault>;
    /// Whether the loop budget of `may_goto` is used up.
    fn loops_end(&mut self) -> bool {
        false
    }
    /// Converts a pointer between address spaces.
    fn cast_address(&mut self, value: u64, to: u16, from: u16) -> Result<u64, Fault> {
        let _ = (value, to, from);
        Err(Fault::Unsupported("address space casts".to_owned()))
    }
    /// Takes the R0 of a callback that [`HelperResult::Callback`] asked for.
    fn callback_result(&mut self, value: u64) {
        let _ = value;
    }
    /// Called before each instruction with its frame depth and registers. An oracle may observe them, or overwrite dead
    /// values.
    fn before(&mut self, node: &Node, depth: usize, registers: &mut [u64; Reg::COUNT]) {
        let _ = (node, depth, registers);
    }
}

/// The result of a helper call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HelperResult {
    /// Back to the caller with R0.
    Value(u64),
    /// A successful tail call: the run continues at the start of this function, with the context in R1 and a new stack.
    TailCall(FunctionId),
    /// The helper asks for a callback to be run with R1 to R5; it is then called again with the same arguments, through
    /// [`Environment::call_helper`], to continue. The callback's R0 is passed to [`Environment::callback_result`].
    Callback {
        /// The function.
        function: FunctionId,
        /// R1 to R5.
        arguments: [u64; 5],
    },
}

/// Why an environment refuses an access or a call.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// No memory there.
    #[error("invalid access of {bytes} bytes at {address:#x}")]
    Memory {
        /// The address.
        address: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// Something that Kiln lacks.
    #[error("not supported: {0}")]
    Unsupported(String),
}

/// Why a run stopped before its `exit`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Trap {
    /// The environment refused. With a verified program this is a bug, or something is unsupported.
    #[error("instruction {}: {fault}", insn.0)]
    Fault {
        /// Where.
        insn: InsnId,
        /// Why.
        fault: Fault,
    },
    /// The instruction budget ran out.
    #[error("instruction budget of {budget} spent")]
    Budget {
        /// The budget, in instructions.
        budget: u64,
    },
    /// More than [`MAX_FRAMES`] frames.
    #[error("instruction {}: call depth exceeds {MAX_FRAMES} frames", insn.0)]
    Depth {
        /// The call.
        insn: InsnId,
    },
    /// Control left a function without `exit`, or a call or branch has no target: the object is invalid.
    #[error("malformed program: {0}")]
    Malformed(&'static str),
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// R0 at `exit`.
    pub value: u64,
    /// Instructions run.
    pub instructions: u64,
}

/// A program ready to be interpreted, with the positions of all instructions looked up once.
pub struct Interpreter<'a> {
    object: &'a Object,
    positions: Vec<HashMap<InsnId, usize>>,
    /// Where the indirect jumps of each function may lead.
    targets: Vec<Vec<InsnId>>,
}

struct Frame {
    function: FunctionId,
    at: usize,
    saved: [u64; 4],
    /// The depth of the frame where the current program began. A tail call begins a new program, whose frames are
    /// counted separately.
    base: usize,
}

struct State<'e, E> {
    environment: &'e mut E,
    registers: [u64; Reg::COUNT],
    reference: Reference,
}

impl<'a> Interpreter<'a> {
    /// Prepares all functions of an object.
    pub fn new(object: &'a Object) -> Interpreter<'a> {
        let index =
            |function: &crate::Function| function.nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect();
        let targets = object.functions.iter().map(crate::Function::jump_targets).collect();
        Interpreter { object, positions: object.functions.iter().map(index).collect(), targets }
    }

    /// Runs from `entry` with R1 = `context` until its `exit`, for at most `budget` instructions.
    ///
    /// # Errors
    /// Returns a [`Trap`] with the instruction and the reason.
    pub fn run<E: Environment>(
        &self,
        entry: FunctionId,
        context: u64,
        environment: &mut E,
        budget: u64,
    ) -> Result<Outcome, Trap> {
        let mut used = 0;
        let value = self.call(entry, [context, 0, 0, 0, 0], 0, environment, budget, &mut used)?;
        Ok(Outcome { value, instructions: used })
    }

    /// Runs `entry` with its frames starting at `depth`. Nested callbacks use this.
    // long: one arm for each way that control goes on
    fn call<E: Environment>(
        &self,
        entry: FunctionId,
        arguments: [u64; 5],
        depth: usize,
        environment: &mut E,
        budget: u64,
        used: &mut u64,
    ) -> Result<u64, Trap> {
        let mut registers = [0; Reg::COUNT];
        registers[1..6].copy_from_slice(&arguments);
        let mut state = State { environment, registers, reference: Reference::None };
        let mut frames = vec![Frame { function: entry, at: 0, saved: [0; 4], base: 0 }];
        self.enter(&mut state, depth)?;
        loop {
            let top = depth + frames.len() - 1;
            let frame = frames.last_mut().ok_or(Trap::Malformed("no frame"))?;
            let function = self.object.functions.get(frame.function.index());
            let node = function
                .and_then(|function| function.nodes.get(frame.at))
                .ok_or(Trap::Malformed("control runs past the end of a function"))?;
            if *used >= budget {
                return Err(Trap::Budget { budget });
            }
            *used += 1;
            state.environment.before(node, top, &mut state.registers);
            state.reference = node.reference;
            let fault = |fault| Trap::Fault { insn: node.id, fault };
            match execute(&node.insn, &mut state).map_err(fault)? {
                Flow::Next | Flow::Branch(false) => frame.at += 1,
                Flow::MayGoto if !state.environment.loops_end() => frame.at += 1,
                Flow::Jump | Flow::Branch(true) | Flow::MayGoto => {
                    let target = node.target().ok_or(Trap::Malformed("a branch without target"))?;
                    let positions = &self.positions[frame.function.index()];
                    frame.at = *positions.get(&target).ok_or(Trap::Malformed("a branch leads nowhere"))?;
                }
                Flow::Indirect(reg) => {
                    let address = state.registers[reg.index()];
                    let target = self.indirect_target(frame.function, address);
                    frame.at = target.ok_or(Trap::Malformed("an indirect jump to what no table has"))?;
                }
                Flow::Exit => {
                    let done = frames.pop().ok_or(Trap::Malformed("no frame"))?;
                    if frames.is_empty() {
                        return Ok(state.registers[0]);
                    }
                    state.registers[6..10].copy_from_slice(&done.saved);
                    self.set_frame(&mut state, top - 1)?;
                }
                Flow::Call(CallTarget::Subprogram(_)) => {
                    let callee = node.callee().ok_or(Trap::Malformed("a call without a callee"))?;
                    frame.at += 1;
                    let mut saved = [0; 4];
                    saved.copy_from_slice(&state.registers[6..10]);
                    if top + 1 >= frame.base + MAX_FRAMES {
                        return Err(Trap::Depth { insn: node.id });
                    }
                    let base = frame.base;
                    frames.push(Frame { function: callee, at: 0, saved, base });
                    self.enter(&mut state, top + 1)?;
                }
                Flow::Call(CallTarget::Kfunc { .. }) => {
                    let Reference::Extern(symbol) = node.reference else {
                        return Err(fault(Fault::Unsupported("kfuncs by number".to_owned())));
                    };
                    let arguments = state.arguments();
                    state.registers[0] = state.environment.call_kfunc(symbol, arguments).map_err(fault)?;
                    frame.at += 1;
                }
                Flow::Call(CallTarget::Helper(helper)) => {
                    let arguments = state.arguments();
                    frame.at += 1;
                    loop {
                        match state.environment.call_helper(helper, arguments).map_err(fault)? {
                            HelperResult::Value(value) => {
                                state.registers[0] = value;
                                break;
                            }
                            HelperResult::TailCall(target) => {
                                // Only the frame that made the call is replaced; its caller, if any, stays.
                                frame.function = target;
                                frame.at = 0;
                                frame.base = top;
                                self.enter(&mut state, top)?;
                                state.registers[1] = arguments[0];
                                break;
                            }
                            HelperResult::Callback { function, arguments } => {
                                if top + 1 >= frame.base + MAX_FRAMES {
                                    return Err(Trap::Depth { insn: node.id });
                                }
                                let environment = &mut *state.environment;
                                let result = self.call(function, arguments, top + 1, environment, budget, used)?;
                                state.environment.callback_result(result);
                            }
                        }
                    }
                }
            }
        }
    }

    /// The position in a function of the instruction that one of its tables has under this address.
    fn indirect_target(&self, function: FunctionId, address: u64) -> Option<usize> {
        let targets = self.targets.get(function.index())?;
        let found = targets.binary_search_by_key(&address, |target| JumpTable::address(*target)).ok()?;
        self.positions.get(function.index())?.get(&targets[found]).copied()
    }

    fn enter<E: Environment>(&self, state: &mut State<'_, E>, depth: usize) -> Result<(), Trap> {
        state.environment.frame_begins(depth);
        self.set_frame(state, depth)
    }

    fn set_frame<E: Environment>(&self, state: &mut State<'_, E>, depth: usize) -> Result<(), Trap> {
        let pointer = state.environment.frame_pointer(depth);
        state.registers[10] = pointer.map_err(|_| Trap::Malformed("no stack for a frame"))?;
        Ok(())
    }
}

impl<E: Environment> State<'_, E> {
    fn arguments(&self) -> [u64; 5] {
        [self.registers[1], self.registers[2], self.registers[3], self.registers[4], self.registers[5]]
    }

    fn address(&self, address: Address) -> u64 {
        self.registers[address.base.index()].wrapping_add(address.offset as i64 as u64)
    }
}

impl<E: Environment> Machine for State<'_, E> {
    type Value = Bits;
    type Error = Fault;

    fn register(&mut self, reg: Reg) -> Result<Bits, Fault> {
        Ok(Bits::new(64, self.registers[reg.index()]))
    }

    fn set_register(&mut self, reg: Reg, value: Bits) -> Result<(), Fault> {
        self.registers[reg.index()] = value.value();
        Ok(())
    }

    fn constant(&mut self, value: u64) -> Bits {
        Bits::new(64, value)
    }

    fn load_imm64(&mut self, imm: Imm64) -> Result<Bits, Fault> {
        let value = match (self.reference, imm) {
            (Reference::Map(map), _) => self.environment.map_address(map)?,
            (Reference::MapValue { map, offset }, _) => self.environment.map_value_address(map, offset)?,
            (Reference::Function(function), _) => self.environment.function_address(function)?,
            (Reference::Extern(symbol), _) => self.environment.extern_address(symbol)?,
            (_, Imm64::Value(value)) => value,
            (_, other) => return Err(Fault::Unsupported(format!("the unresolved address {other}"))),
        };
        Ok(Bits::new(64, value))
    }

    fn load(&mut self, address: Address, size: Size, _: MemoryOrder) -> Result<Bits, Fault> {
        let at = self.address(address);
        Ok(Bits::new(size.bits(), self.environment.load(at, size)?))
    }

    fn store(&mut self, address: Address, size: Size, value: Bits, _: MemoryOrder) -> Result<(), Fault> {
        let at = self.address(address);
        self.environment.store(at, size, value.value())
    }

    fn atomic(
        &mut self,
        op: AtomicOp,
        address: Address,
        size: Size,
        operand: Bits,
        expected: Option<Bits>,
    ) -> Result<Bits, Fault> {
        let at = self.address(address);
        let bits = size.bits();
        let mut update = |old: u64| {
            let old = Bits::new(bits, old);
            expected.is_none_or(|expected| expected == old).then(|| op.apply(&old, &operand).value())
        };
        Ok(Bits::new(bits, self.environment.update(at, size, &mut update)?))
    }

    fn load_packet(&mut self, index: Option<Bits>, offset: i32, size: Size) -> Result<Option<Bits>, Fault> {
        // The kernel adds in 32 bits (`bpf_skb_load_helper_*`).
        let index = index.map_or(0, |index| index.value() as u32 as i32);
        let at = i64::from(index.wrapping_add(offset));
        let value = self.environment.load_packet(at, size)?;
        Ok(value.map(|value| Bits::new(64, value)))
    }

    fn cast_address(&mut self, value: Bits, to: u16, from: u16) -> Result<Bits, Fault> {
        let result = self.environment.cast_address(value.value(), to, from)?;
        Ok(value.like(result))
    }
}
