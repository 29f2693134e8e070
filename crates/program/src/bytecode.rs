//! An object of raw instructions, for programs that come in no ELF file.
//!
//! ```text
//!   slots:  0 1 2 3 4 | 5 6 7            call +2 at 2 and `ld_imm64` of code name where a function begins
//!           entry     | function_5       each function ends where the next one begins
//! ```
//!
//! A `ld_imm64` of a map names the map by its index in the list that the caller gives (`BPF_PSEUDO_MAP_FD`,
//! `BPF_PSEUDO_MAP_IDX` and their forms for values), because there are no descriptors yet.
//!
//! ```
//! use kiln_platform::ProgramType;
//! // r0 = 2; exit
//! let bytes = [0xb7, 0, 0, 0, 2, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
//! let object = kiln_program::bytecode::object("pass", ProgramType::Xdp, &bytes, Vec::new()).unwrap();
//! assert_eq!(object.functions[0].nodes.len(), 2);
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kiln_isa::encoding::{DecodeError, decode_all};
use kiln_isa::{CallTarget, Imm64, Insn, Slot};
use kiln_platform::ProgramType;

use crate::lower::without_encoded_reference;
use crate::object::{Function, FunctionId, InsnId, Linkage, Map, MapId, Node, Object, Program, Reference};
use crate::validate::{Invalid, validate};

/// Slots of one object. The kernel takes a million, and an id is 32 bits wide.
const MAX_SLOTS: usize = 1 << 24;

/// Why bytes are no program.
#[non_exhaustive]
#[derive(Clone, Debug, thiserror::Error)]
pub enum BytecodeError {
    /// Not a multiple of 8 bytes, none at all, or more than 2^24 instructions.
    #[error("{0} bytes are no instructions of 8 bytes each")]
    Size(usize),
    /// A slot that is no instruction.
    #[error("slot {slot}: {error}")]
    Decode {
        /// The slot's index.
        slot: usize,
        /// What is wrong.
        error: DecodeError,
    },
    /// A branch or call that leads to no instruction of its function.
    #[error("slot {slot}: {what}")]
    Target {
        /// The slot's index.
        slot: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// Functions that are not well formed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// Makes an object with one program of the instructions in `bytes`, little-endian as `BPF_PROG_LOAD` takes them. Its
/// license is GPL.
///
/// # Errors
/// Returns [`BytecodeError`] with the slot if the bytes are no well-formed program. Whether it is safe is the verifier's
/// question.
pub fn object(name: &str, program_type: ProgramType, bytes: &[u8], maps: Vec<Map>) -> Result<Object, BytecodeError> {
    let slots = Slot::parse_all(bytes).filter(|slots| !slots.is_empty() && slots.len() <= MAX_SLOTS);
    let slots = slots.ok_or(BytecodeError::Size(bytes.len()))?;
    let insns = decode_all(&slots).map_err(|(slot, error)| BytecodeError::Decode { slot, error })?;
    let reader = Reader::new(&insns, maps.len());
    let mut functions: Vec<Function> = Vec::with_capacity(reader.starts.len());
    for (index, (at, insn)) in insns.iter().enumerate() {
        if let Some(FunctionId(number)) = reader.starts.get(at) {
            let label = if *number == 0 { name.to_owned() } else { format!("function_{at}") };
            let linkage = if *number == 0 { Linkage::Global } else { Linkage::Static };
            functions.push(Function::new(label, name, linkage, Vec::new()));
        }
        let node = reader.node(InsnId(index as u32), *at, *insn)?;
        if let Some(function) = functions.last_mut() {
            function.nodes.push(node);
        }
    }
    let program = Program::new(name, program_type.to_string(), Some(program_type), FunctionId(0));
    let object = Object {
        name: name.to_owned(),
        license: "GPL".to_owned(),
        functions,
        programs: vec![program],
        maps,
        next_insn: insns.len() as u32,
        ..Object::default()
    };
    validate(&object)?;
    Ok(object)
}

/// What references of instructions are resolved by.
struct Reader {
    /// Instructions by slot.
    ids: HashMap<usize, InsnId>,
    /// Functions by their first slot.
    starts: BTreeMap<usize, FunctionId>,
    maps: usize,
}

impl Reader {
    fn new(insns: &[(usize, Insn)], maps: usize) -> Reader {
        let ids: HashMap<usize, InsnId> = insns.iter().zip(0..).map(|((at, _), id)| (*at, InsnId(id))).collect();
        let called = insns.iter().filter_map(|(at, insn)| called_slot(*at, insn));
        let starts: BTreeSet<usize> = called.filter(|slot| ids.contains_key(slot)).chain([0]).collect();
        Reader { ids, starts: starts.into_iter().zip((0..).map(FunctionId)).collect(), maps }
    }

    fn node(&self, id: InsnId, at: usize, insn: Insn) -> Result<Node, BytecodeError> {
        let wrong = |what| BytecodeError::Target { slot: at, what };
        let map = |index: i32| {
            let index = usize::try_from(index).ok().filter(|index| *index < self.maps);
            index.map(|index| MapId(index as u32)).ok_or(wrong("there is no map with this index"))
        };
        let reference = match insn {
            Insn::Jump { .. } | Insn::Branch { .. } | Insn::MayGoto { .. } => {
                let target =
                    slot_after(at, branch_distance(&insn)).filter(|slot| self.function(*slot) == self.function(at));
                let target = target.and_then(|slot| self.ids.get(&slot));
                Reference::Branch(
                    *target.ok_or(wrong("the branch leaves its function, or lands inside an instruction"))?,
                )
            }
            Insn::Call(CallTarget::Subprogram(_)) | Insn::LoadImm64 { imm: Imm64::Code { .. }, .. } => {
                let function = called_slot(at, &insn).and_then(|slot| self.starts.get(&slot));
                Reference::Function(*function.ok_or(wrong("it names no instruction of the program"))?)
            }
            Insn::LoadImm64 { imm: Imm64::MapFd { fd: index, .. } | Imm64::MapIndex { index, .. }, .. } => {
                Reference::Map(map(index)?)
            }
            Insn::LoadImm64 {
                imm: Imm64::MapValueFd { fd: index, offset } | Imm64::MapValueIndex { index, offset },
                ..
            } => {
                let offset = u32::try_from(offset).map_err(|_| wrong("the offset into the map's value is negative"))?;
                Reference::MapValue { map: map(index)?, offset }
            }
            _ => Reference::None,
        };
        let insn = if reference == Reference::None { insn } else { without_encoded_reference(insn) };
        Ok(Node::new(id, insn, reference))
    }

    /// The function that a slot belongs to.
    fn function(&self, slot: usize) -> Option<FunctionId> {
        self.starts.range(..=slot).next_back().map(|(_, id)| *id)
    }
}

fn slot_after(at: usize, distance: i64) -> Option<usize> {
    usize::try_from((at as i64 + 1).checked_add(distance)?).ok()
}

/// The slot where the function begins that an instruction calls or takes the address of.
fn called_slot(at: usize, insn: &Insn) -> Option<usize> {
    match *insn {
        Insn::Call(CallTarget::Subprogram(distance)) => slot_after(at, distance.into()),
        Insn::LoadImm64 { imm: Imm64::Code { offset, .. }, .. } => slot_after(at, offset.into()),
        _ => None,
    }
}

fn branch_distance(insn: &Insn) -> i64 {
    match *insn {
        Insn::Jump { offset, .. } => offset.into(),
        Insn::Branch { offset, .. } | Insn::MayGoto { offset } => offset.into(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(opcode: u8, dst: u8, src: u8, offset: i16, imm: i32) -> [u8; 8] {
        let [low, high] = offset.to_le_bytes();
        let [a, b, c, d] = imm.to_le_bytes();
        [opcode, src << 4 | dst, low, high, a, b, c, d]
    }

    fn read(slots: &[[u8; 8]]) -> Result<Object, BytecodeError> {
        object("p", ProgramType::Xdp, slots.as_flattened(), Vec::new())
    }

    #[test]
    fn functions_and_branches() {
        // call +2; if r0 == 0 goto +0; exit; r0 = 1; exit
        let slots = [
            slot(0x85, 0, 1, 0, 2),
            slot(0x15, 0, 0, 0, 0),
            slot(0x95, 0, 0, 0, 0),
            slot(0xb7, 0, 0, 0, 1),
            slot(0x95, 0, 0, 0, 0),
        ];
        let object = read(&slots).unwrap();
        let sizes: Vec<usize> = object.functions.iter().map(|function| function.nodes.len()).collect();
        assert_eq!(sizes, [3, 2]);
        assert_eq!(object.functions[0].nodes[0].reference, Reference::Function(FunctionId(1)));
        assert_eq!(object.functions[0].nodes[1].reference, Reference::Branch(InsnId(2)));
        let lowered = crate::lower_program(&object, &object.programs[0]).unwrap();
        assert_eq!(lowered.slots.len(), slots.len());
    }

    #[test]
    fn what_is_no_program() {
        let exit = slot(0x95, 0, 0, 0, 0);
        assert!(matches!(object("p", ProgramType::Xdp, &exit[..7], Vec::new()), Err(BytecodeError::Size(7))));
        assert!(matches!(read(&[]), Err(BytecodeError::Size(0))));
        assert!(matches!(read(&[[0xff; 8]]), Err(BytecodeError::Decode { slot: 0, .. })));
        // Past the end, far past the end, before the beginning, and a map that there is not.
        for bad in [
            slot(0x05, 0, 0, 1, 0),
            slot(0x05, 0, 0, i16::MAX, 0),
            slot(0x05, 0, 0, -2, 0),
            slot(0x85, 0, 1, 0, i32::MIN),
        ] {
            assert!(matches!(read(&[bad, exit]), Err(BytecodeError::Target { slot: 0, .. })), "{bad:?}");
        }
        let map = [slot(0x18, 1, 1, 0, 0), [0; 8], exit];
        assert!(matches!(read(&map), Err(BytecodeError::Target { slot: 0, .. })));
    }
}
