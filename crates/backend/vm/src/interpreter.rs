//! The interpreter's view of the VM: every access is checked against [`crate::memory::Memory`].

use kiln_isa::{Reg, Size};
use kiln_program::interpret::{Environment, Fault, HelperResult};
use kiln_program::{ExternId, FunctionId, MapId, Node};

use crate::arena;
use crate::helper::{self, kfunc};
use crate::observe::Observed;
use crate::own;
use crate::state::{Reply, Stack, State};
use crate::symbols::Symbols;
use crate::trampoline::load_packet;

/// Bytes of one frame.
const FRAME_BYTES: u64 = Stack::FRAME_BYTES as u64;

/// What the interpreter runs on.
pub(crate) struct View<'v> {
    pub(crate) state: &'v mut State,
    pub(crate) symbols: &'v Symbols,
    /// What a frame holds when it is entered.
    pub(crate) stack_fill: u8,
    /// Who watches, if somebody does.
    pub(crate) observed: Option<&'v mut Observed>,
    /// What the present instruction accesses in the arena.
    pub(crate) arena_access: Option<arena::Access>,
    /// Instructions so far.
    pub(crate) executed: u64,
}

impl View<'_> {
    /// What the present instruction accesses in the arena, should it do so.
    fn arena_access(&self) -> Option<(arena::Place, arena::Access)> {
        Some((self.symbols.arena?, self.arena_access?))
    }

    /// Counts the helper that was just called.
    fn count_helper(&mut self) {
        let (bytes, spending) = (self.state.memory.take_passed(), &mut self.state.spending);
        spending.helper(bytes, spending.given().saturating_sub(self.executed));
    }
}

fn unknown(what: &str) -> Fault {
    Fault::Unsupported(what.to_owned())
}

impl Environment for View<'_> {
    fn load(&mut self, address: u64, size: Size) -> Result<u64, Fault> {
        if let Some((place, access)) = self.arena_access() {
            return Ok(access.load(place, size, &self.state.memory));
        }
        self.state.memory.load(address, size).ok_or(Fault::Memory { address, bytes: size.bytes().into() })
    }

    fn store(&mut self, address: u64, size: Size, value: u64) -> Result<(), Fault> {
        if let Some((place, access)) = self.arena_access() {
            if let Some(address) = access.address(place, size) {
                let _ = self.state.memory.store(address, size, value);
            }
            return Ok(());
        }
        self.state.memory.store(address, size, value).ok_or(Fault::Memory { address, bytes: size.bytes().into() })
    }

    fn update(&mut self, address: u64, size: Size, update: &mut dyn FnMut(u64) -> Option<u64>) -> Result<u64, Fault> {
        if let Some((place, access)) = self.arena_access() {
            let found = access.address(place, size);
            let old = found.and_then(|address| self.state.memory.update(address, size, update));
            return Ok(old.unwrap_or(access.unchanged));
        }
        self.state.memory.update(address, size, update).ok_or(Fault::Memory { address, bytes: size.bytes().into() })
    }

    fn cast_address(&mut self, value: u64, to: u16, _: u16) -> Result<u64, Fault> {
        let place = self.symbols.arena.ok_or_else(|| unknown("this arena"))?;
        Ok(arena::cast(place, value, to))
    }

    fn call_helper(&mut self, id: u32, arguments: [u64; 5]) -> Result<HelperResult, Fault> {
        self.state.memory.take_passed();
        let reply = match (helper::by_id(id), own::place(&self.symbols.own_helpers, id)) {
            (Some(function), _) => function(self.state, arguments),
            (None, Some(at)) => self.state.call_own(at, arguments),
            (None, None) => Err(Fault::Unsupported(helper::name(id))),
        };
        Ok(match reply? {
            Reply::Value(value) => {
                self.count_helper();
                if let Some(observed) = &mut self.observed {
                    observed.called(self.state, id, arguments, value);
                }
                HelperResult::Value(value)
            }
            Reply::TailCall(function) => HelperResult::TailCall(function),
            Reply::Call { function, arguments } => {
                HelperResult::Callback { function: FunctionId(function as u32), arguments }
            }
        })
    }

    fn callback_result(&mut self, value: u64) {
        if let Some(callback) = self.state.callbacks.last_mut() {
            callback.result = Some(value);
        }
    }

    fn call_kfunc(&mut self, function: ExternId, arguments: [u64; 5]) -> Result<u64, Fault> {
        let name = self.symbols.extern_name(function);
        let lacks = || Fault::Unsupported(format!("kfunc {name}"));
        self.state.memory.take_passed();
        let Reply::Value(value) = kfunc::by_name(name).ok_or_else(lacks)?(self.state, arguments)? else {
            return Err(lacks());
        };
        self.count_helper();
        Ok(value)
    }

    fn map_address(&mut self, map: MapId) -> Result<u64, Fault> {
        kiln_jit::Symbols::map_address(self.symbols, map).ok_or_else(|| unknown("this map"))
    }

    fn map_value_address(&mut self, map: MapId, offset: u32) -> Result<u64, Fault> {
        kiln_jit::Symbols::map_value_address(self.symbols, map, offset)
            .ok_or_else(|| unknown("the address of this map's value"))
    }

    fn extern_address(&mut self, symbol: ExternId) -> Result<u64, Fault> {
        kiln_jit::Symbols::extern_address(self.symbols, symbol)
            .ok_or_else(|| Fault::Unsupported(format!("kernel symbol {}", self.symbols.extern_name(symbol))))
    }

    fn frame_pointer(&mut self, depth: usize) -> Result<u64, Fault> {
        if depth >= Stack::MOST_FRAMES {
            return Err(unknown("this many frames"));
        }
        let stack = self.state.stack.ok_or_else(|| unknown("the stack"))?;
        Ok(self.state.memory.start(stack.frames) + (depth as u64 + 1) * FRAME_BYTES)
    }

    fn frame_begins(&mut self, depth: usize) {
        let bytes = FRAME_BYTES as usize;
        let Some(stack) = self.state.stack else { return };
        if let Some(frame) = self.state.memory.region_mut(stack.frames).chunks_exact_mut(bytes).nth(depth) {
            frame.fill(self.stack_fill);
        }
    }

    fn loops_end(&mut self) -> bool {
        self.state.spending.branches(self.executed)
    }

    fn before(&mut self, node: &Node, _: usize, registers: &mut [u64; Reg::COUNT]) {
        self.executed += 1;
        if let Some(place) = self.symbols.arena {
            let in_arena = self.symbols.accesses.contains(node.id);
            self.arena_access = in_arena.then(|| arena::Access::of(place, node, registers)).flatten();
        }
        if let Some(observed) = &mut self.observed {
            observed.count(node.id);
        }
    }

    fn load_packet(&mut self, offset: i64, size: Size) -> Result<Option<u64>, Fault> {
        Ok(load_packet(self.state, offset, size.bytes() as usize))
    }
}
