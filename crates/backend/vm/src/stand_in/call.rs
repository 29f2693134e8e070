//! Calls of functions that the VM lacks: only their prototypes are known.
//!
//! ```text
//!   r0 = bpf_get_stack(ctx, buffer, 64, 0)
//!
//!   lot      = mix(seed, "get_stack", bytes that it may read, calls before it that may change anything)
//!   buffer   = 64 bytes from lot                        what the prototype lets it write, and nothing else
//!   r0       = a number from lot: 0 more often than not
//! ```
//!
//! A call is the same function in both forms of a program, and no program can rely on what it computes. The optimizer
//! treats calls in the same way, so a correct rewrite is correct for any such function. Calls that may change anything
//! are recorded with their inputs: both forms must make the same ones in the same order. Other calls may be removed if
//! their results are dead, or made once instead of twice.

use kiln_platform::{ArgKind, DynptrUse, Effect, Helper, Kfunc, KfuncFlag, Prototype, ReturnKind};
use kiln_program::btf::{Btf, Kind as BtfKind, Qualifier, TypeId};
use kiln_program::interpret::Fault;

use super::made_up::{mix, pointer};
use crate::map::index_of_handle;
use crate::state::State;

/// Bytes of one argument at most.
const MOST_BYTES: u64 = 1 << 16;
/// Bytes of a `bpf_dynptr`.
const DYNPTR_BYTES: u64 = 16;
/// Bytes of a string that a call reads at most.
const MOST_STRING_BYTES: u64 = 512;

/// How a call uses an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// It is a number, or an object's address, which stands for the object.
    Number,
    /// It has no input value: the context, a callback.
    Ignored,
    /// It points to so many bytes.
    Memory { bytes: u64, reads: bool, writes: bool },
    /// It points to text.
    Text,
}

/// What a call gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Gives {
    /// A number of so many bits.
    Number { bits: u32 },
    /// True or false.
    Truth,
    /// The address of an object, or null.
    Object { nullable: bool },
}

impl Gives {
    /// The result for a hash.
    pub(super) fn value(self, lot: u64) -> u64 {
        let more = mix(&[lot, 3]);
        match self {
            Gives::Truth => lot & 1,
            Gives::Object { nullable: true } if lot % 4 == 0 => 0,
            Gives::Object { .. } => pointer(more),
            Gives::Number { bits } => {
                let number = match lot % 8 {
                    0..=3 => 0,
                    4 => ((more % 134) as i64 + 1).wrapping_neg() as u64,
                    5 | 6 => more % 256,
                    _ => more,
                };
                if bits < 64 { number & ((1 << bits) - 1) } else { number }
            }
        }
    }
}

/// The called function, by its prototype.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// The helper's number, or a number made of the kfunc's name.
    pub name: u64,
    pub roles: [Role; 5],
    pub gives: Gives,
    pub effect: Effect,
}

/// A helper's shape in a call with these arguments.
pub(super) fn helper(state: &State, helper: &Helper, prototype: &Prototype, arguments: [u64; 5]) -> Shape {
    let map = prototype.args.iter().position(|kind| *kind == ArgKind::ConstMapPtr);
    let map = map.and_then(|at| index_of_handle(arguments[at])).and_then(|index| state.maps.get(index));
    let map = map.map(|map| &map.definition);
    let mut roles = [Role::Ignored; 5];
    for (at, kind) in prototype.args.iter().enumerate().take(5) {
        let kind = map.map_or(*kind, |map| kind.with_map(map.map_type));
        let memory = |bytes: u64, reads, writes| Role::Memory { bytes: bytes.min(MOST_BYTES), reads, writes };
        let (key, value) = map.map_or((0, 0), |map| (map.key_size.into(), map.value_size.into()));
        roles[at] = match kind {
            ArgKind::MapKey => memory(key, true, false),
            ArgKind::MapValue | ArgKind::MapValueOrNull => memory(value, true, false),
            ArgKind::UninitMapValue => memory(value, false, true),
            ArgKind::Memory(used) => memory(arguments.get(at + 1).copied().unwrap_or(0), used.reads, used.writes),
            ArgKind::FixedMemory { size, memory: used, .. } => memory(size.into(), used.reads, used.writes),
            ArgKind::Dynptr(DynptrUse::Any | DynptrUse::ReleasesRingBuffer) => memory(DYNPTR_BYTES, true, false),
            ArgKind::Dynptr(_) => memory(DYNPTR_BYTES, false, true),
            ArgKind::ConstString => Role::Text,
            ArgKind::Context | ArgKind::ContextOrNull | ArgKind::StackOrNull | ArgKind::Callback => Role::Ignored,
            _ => Role::Number,
        };
    }
    Shape { name: helper.id.into(), roles, gives: gives(prototype.returns), effect: helper.effect }
}

fn gives(returns: ReturnKind) -> Gives {
    match returns {
        ReturnKind::Integer | ReturnKind::Void => Gives::Number { bits: 64 },
        ReturnKind::MapValue => Gives::Object { nullable: false },
        ReturnKind::PercpuVariable { nullable } | ReturnKind::BtfId { nullable, .. } => Gives::Object { nullable },
        _ => Gives::Object { nullable: true },
    }
}

/// A kfunc's shape, but for the sizes that arguments say.
#[derive(Clone, Debug)]
pub(super) struct KfuncShape {
    shape: Shape,
    /// Arguments whose size is the next one.
    sized: [bool; 5],
}

impl KfuncShape {
    /// What the kernel's types say of a kfunc; `None` where they do not have it.
    pub(super) fn of(name: &str, types: &Btf) -> Option<KfuncShape> {
        let function = types.find(name, |kind| matches!(kind, BtfKind::Function { .. }))?;
        let &BtfKind::Function { prototype, .. } = types.kind(function) else { return None };
        let &BtfKind::Prototype { result, .. } = types.kind(prototype) else { return None };
        let parameters = types.parameters(prototype);
        let (mut roles, mut sized) = ([Role::Ignored; 5], [false; 5]);
        for (at, parameter) in parameters.iter().enumerate().take(5) {
            let next = parameters.get(at + 1).map_or("", |next| types.text(next.name));
            sized[at] = next.ends_with("__sz") || next.ends_with("__szk");
            roles[at] = role(types, types.text(parameter.name), parameter.type_id, sized[at]);
        }
        let name = mix(&[name.len() as u64]).wrapping_add(name.bytes().fold(0, |all, byte| mix(&[all, byte.into()])));
        let gives = kfunc_gives(types, result, types.name(function));
        Some(KfuncShape { shape: Shape { name, roles, gives, effect: Effect::Any }, sized })
    }

    /// The shape of a call with these arguments.
    pub(super) fn with(&self, arguments: [u64; 5]) -> Shape {
        let mut shape = self.shape;
        for at in (0..4).filter(|at| self.sized[*at]) {
            if let Role::Memory { bytes, .. } = &mut shape.roles[at] {
                *bytes = u64::from(arguments[at + 1] as u32).min(MOST_BYTES);
            }
        }
        shape
    }
}

/// What a kfunc does with an argument of this name and type.
fn role(types: &Btf, name: &str, id: TypeId, sized: bool) -> Role {
    let Some(&BtfKind::Pointer { target }) = types.resolve(id).map(|id| types.kind(id)) else { return Role::Number };
    let pointee = types.resolve(target).unwrap_or(TypeId::VOID);
    if name.ends_with("__str") {
        return Role::Text;
    }
    if name.ends_with("__prog") || name.ends_with("__ign") || matches!(types.kind(pointee), BtfKind::Prototype { .. }) {
        return Role::Ignored;
    }
    let bytes = if sized { Some(0) } else { types.size_of(pointee).filter(|_| pointee != TypeId::VOID) };
    match bytes {
        Some(bytes) => Role::Memory { bytes: bytes.min(MOST_BYTES), reads: true, writes: !is_const(types, target) },
        None => Role::Number,
    }
}

fn is_const(types: &Btf, mut id: TypeId) -> bool {
    while let BtfKind::Qualifier { target, qualifier } = types.kind(id) {
        if *qualifier == Qualifier::Const {
            return true;
        }
        id = *target;
    }
    false
}

fn kfunc_gives(types: &Btf, result: TypeId, name: &str) -> Gives {
    let nullable = || {
        let row = Kfunc::by_name(name);
        row.is_none_or(|row| row.has(KfuncFlag::RetNull) || row.has(KfuncFlag::IteratorNext))
    };
    match types.resolve(result).map(|id| types.kind(id)) {
        Some(BtfKind::Pointer { .. }) => Gives::Object { nullable: nullable() },
        Some(BtfKind::Int { boolean: true, .. }) => Gives::Truth,
        Some(BtfKind::Int { size, .. } | BtfKind::Enum { size, .. }) if *size < 8 => Gives::Number { bits: 8 * size },
        _ => Gives::Number { bits: 64 },
    }
}

/// The calls of one run.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Those that may change anything, with what they read.
    record: Vec<u8>,
    changes: u64,
}

impl Calls {
    pub(super) fn begin(&mut self) {
        self.record.clear();
        self.changes = 0;
    }

    pub(super) fn take_record(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.record)
    }

    /// Hash of the seed, the function, its inputs and, unless it is `ResultOnly`, how many earlier calls may change
    /// anything. Records a call that may change anything.
    pub(super) fn lot(&mut self, seed: u64, shape: &Shape, inputs: &[u8]) -> u64 {
        let words = inputs.chunks(8).map(|chunk| chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        let inputs_mixed = words.fold(inputs.len() as u64, |all, word| mix(&[all, word]));
        let before = match shape.effect {
            Effect::ResultOnly => 0,
            _ => self.changes,
        };
        if shape.effect.is_lasting() {
            self.changes += 1;
            self.record.extend(shape.name.to_le_bytes());
            self.record.extend((inputs.len() as u32).to_le_bytes());
            self.record.extend(inputs);
        }
        mix(&[seed, 4, shape.name, inputs_mixed, before])
    }
}

/// The bytes of a call's inputs, argument by argument.
pub(super) fn inputs(
    shape: &Shape,
    arguments: [u64; 5],
    mut byte: impl FnMut(u64) -> Result<u8, Fault>,
) -> Result<Vec<u8>, Fault> {
    let mut inputs = Vec::new();
    for (role, argument) in shape.roles.iter().zip(arguments) {
        match *role {
            Role::Ignored => {}
            Role::Number => inputs.extend(argument.to_le_bytes()),
            Role::Memory { bytes, reads: true, .. } if argument != 0 => {
                for at in 0..bytes {
                    inputs.push(byte(argument.wrapping_add(at))?);
                }
            }
            Role::Memory { .. } => inputs.push(u8::from(argument == 0)),
            Role::Text => {
                for at in 0..MOST_STRING_BYTES {
                    match byte(argument.wrapping_add(at))? {
                        0 => break,
                        character => inputs.push(character),
                    }
                }
            }
        }
    }
    Ok(inputs)
}
