//! What holds for the whole program because some path showed it.

use std::cell::Cell;
use std::collections::HashMap;

use crate::code::{Code, Position};
use crate::facts::StackSet;
use crate::state::{Kind, Register};

/// How one instruction masks the pointer that it moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mask {
    pub negative: bool,
    pub constant: bool,
    pub into_pointer: bool,
    pub limit: u64,
}

/// What was found out of the program, on whatever path.
pub(crate) struct Noted {
    /// Global functions that were called; each is verified by itself. The flag says that the call is where the program may
    /// sleep, though by itself it may not.
    pub globals_called: Vec<(usize, bool)>,
    /// Functions that some path enters.
    pub entered: Vec<bool>,
    /// Functions whose address some path takes, and where the first one does.
    pub addresses: HashMap<usize, Position>,
    /// Functions that were passed to something that calls them.
    pub callbacks: Vec<bool>,
    /// Callbacks that run later, on a stack of their own.
    pub later_callbacks: Vec<bool>,
    /// What each function may return to what runs it, the lowest and the highest.
    pub results: Vec<Option<(i64, i64)>>,
    /// The kind of pointer each instruction accessed memory through.
    pub accessed: Vec<Kind>,
    /// Whether each arithmetic instruction moved an arena pointer or computed something else.
    pub computed: Vec<Kind>,
    /// The kinds of pointers that instructions accessed memory through, each once.
    pub kinds: Vec<Kind>,
    /// Bytes from the context's start that instructions access; `None` if a call gets the context.
    pub context_bytes: Option<u32>,
    /// The bytes that each function uses of its own frame.
    pub stack_bytes: Vec<u32>,
    /// The same without the spills and fills around calls.
    pub plain_stack_bytes: Vec<u32>,
    /// Whether some path may read stack bytes that it never wrote.
    pub reads_uninitialized_stack: bool,
    /// The stack bytes that an instruction reads although no store on some path wrote them.
    pub unwritten: HashMap<Position, StackSet>,
    /// How each instruction that moves a pointer masks it, of programs without privilege.
    pub masks: HashMap<Position, Mask>,
    /// Masks depend on numbers, so states are compared with them all.
    pub exact_numbers: bool,
    /// The map of each tail call.
    pub tail_call_maps: HashMap<Position, u32>,
    /// Whether anything was decided by what the loader may change.
    pub depends_on_load: Cell<bool>,
}

impl Noted {
    /// The bytes of its own frame that count in a chain of calls. An access among the spills around calls keeps them all.
    pub(crate) fn counted_stack_bytes(&self, code: &Code<'_>, function: usize) -> u32 {
        let without = code.functions[function].stack_without_spills;
        without.filter(|bytes| self.plain_stack_bytes[function] <= *bytes).unwrap_or(self.stack_bytes[function])
    }

    /// Whether a global function is called.
    pub(crate) fn calls_global(&self, function: usize) -> bool {
        self.globals_called.iter().any(|(called, _)| *called == function)
    }

    pub(crate) fn new(code: &Code<'_>) -> Noted {
        Noted {
            globals_called: Vec::new(),
            entered: vec![false; code.functions.len()],
            addresses: HashMap::new(),
            callbacks: vec![false; code.functions.len()],
            later_callbacks: vec![false; code.functions.len()],
            results: vec![None; code.functions.len()],
            accessed: vec![Kind::Uninit; code.ops.len()],
            computed: vec![Kind::Uninit; code.ops.len()],
            kinds: Vec::new(),
            context_bytes: Some(0),
            stack_bytes: vec![0; code.functions.len()],
            plain_stack_bytes: vec![0; code.functions.len()],
            reads_uninitialized_stack: false,
            unwritten: HashMap::new(),
            masks: HashMap::new(),
            exact_numbers: false,
            tail_call_maps: HashMap::new(),
            depends_on_load: Cell::new(false),
        }
    }

    /// Notes an access to the context, as many bytes behind a pointer to it.
    pub(crate) fn access_context(&mut self, base: &Register, offset: i64, bytes: u32) {
        let end = i64::try_from(base.scalar.umax).ok().and_then(|variable| {
            variable
                .checked_add(i64::from(base.offset) + offset + i64::from(bytes))
                .and_then(|end| u32::try_from(end).ok())
        });
        self.context_bytes = self.context_bytes.and_then(|known| Some(known.max(end?)));
    }

    /// Notes that what runs a function takes only these results.
    pub(crate) fn take_results(&mut self, function: usize, lowest: i64, highest: i64) {
        let known = self.results[function].get_or_insert((lowest, highest));
        *known = (known.0.max(lowest), known.1.min(highest));
    }
}
