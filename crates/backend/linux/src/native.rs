//! Programs with records of native operations, for kernels with the patches in `kernel/`.
//!
//! libbpf does not know the table, and loads the program without it. Where the kernel takes records, the same
//! instructions are loaded again with them:
//!
//! ```text
//!   libbpf: relocations, maps, types, BPF_PROG_LOAD -+-> program
//!   marks of the object -> records ------------------+-> BPF_PROG_LOAD { ..., native_ops } -> the program that is used;
//!                                                         refused: the program above
//! ```
//!
//! A record is made of the instructions that are loaded, so a relocation that changes one leaves its mark out.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{LazyLock, Mutex, PoisonError};

use kiln_isa::operation::linux::Record;
use kiln_isa::{Insn, Reg, Slot};
use kiln_platform::ProgramType;
use kiln_program::{FunctionId, Object, Program};

use crate::elf::LoadedObject;
use crate::error::{Error, c_string};
use crate::image::{Loading, hook_id, kernel_name};
use crate::prog::Prog;

/// A record in the program that is loaded: the slot at which its region begins.
pub(crate) type Placed = (u32, Record);

/// `BPF_PROG_LOAD`'s attributes, with those of the patches at the end.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log: [u64; 2],
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
    /// From `attach_prog_fd` to `keyring_id`.
    unused: [u64; 7],
    native_ops: u64,
    native_op_cnt: u32,
    native_op_rec_size: u32,
}

const PROG_LOAD: i32 = 5;

/// A program loaded with records.
#[derive(Debug)]
pub struct NativeProgram {
    /// The program.
    pub prog: Prog,
    /// How many records it has.
    pub records: usize,
}

/// Loads slots with records and lines (`struct bpf_line_info`).
fn load(loading: &Loading<'_>, slots: &[Slot], lines: &[[u32; 4]], records: &[Placed]) -> Result<Prog, Error> {
    let bytes: Vec<u64> = slots.iter().map(|slot| u64::from_le_bytes(slot.to_bytes())).collect();
    let records: Vec<[u8; Record::BYTES]> = records.iter().map(|(slot, record)| record.to_bytes(*slot)).collect();
    let license = c_string(loading.license)?;
    let mut attributes = Attributes {
        prog_type: loading.program_type.number(),
        insn_cnt: bytes.len() as u32,
        insns: bytes.as_ptr() as u64,
        license: license.as_ptr() as u64,
        prog_flags: loading.flags,
        expected_attach_type: loading.attach,
        attach_btf_id: loading.hook,
        native_ops: records.as_ptr() as u64,
        native_op_cnt: records.len() as u32,
        native_op_rec_size: Record::BYTES as u32,
        ..Default::default()
    };
    for (place, byte) in attributes.prog_name.iter_mut().zip(kernel_name(loading.name).bytes()) {
        *place = byte;
    }
    if let Some((types, functions)) = loading.types.as_ref().filter(|(_, functions)| !functions.is_empty()) {
        attributes.prog_btf_fd = types.as_raw_fd() as u32;
        attributes.func_info_rec_size = size_of::<[u32; 2]>() as u32;
        attributes.func_info = functions.as_ptr() as u64;
        attributes.func_info_cnt = functions.len() as u32;
        attributes.line_info_rec_size = size_of::<[u32; 4]>() as u32;
        attributes.line_info = lines.as_ptr() as u64;
        attributes.line_info_cnt = lines.len() as u32;
    }
    // SAFETY: the kernel is told the size of the attributes; what they point to has the sizes beside it and outlives the
    // call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, PROG_LOAD, &attributes, size_of::<Attributes>()) };
    if fd < 0 {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        return Err(Error::Os { call: format!("loading program {} with native operations", loading.name), errno });
    }
    // SAFETY: the kernel just gave us this descriptor.
    Ok(Prog::new(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
}

/// Whether the running kernel takes records; asked once per process.
fn takes_records() -> bool {
    // No module provides this name: a kernel with the patches says so, others do not know the table.
    static TAKES_RECORDS: LazyLock<bool> = LazyLock::new(|| probe("kiln_probe") == Some(libc::ENOENT));
    *TAKES_RECORDS
}

/// Whether the running kernel takes records of an operation. Each name is asked for once per process.
pub fn has_operation(name: &'static str) -> bool {
    static KNOWN: LazyLock<Mutex<HashMap<&'static str, bool>>> = LazyLock::new(Mutex::default);
    let ask = || takes_records() && probe(name).is_some_and(|errno| errno != libc::ENOENT);
    *KNOWN.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_insert_with(ask)
}

/// The error of a program that is not the proof sequence that its record names.
fn probe(name: &'static str) -> Option<i32> {
    let loading = Loading {
        name: "kiln_probe",
        program_type: ProgramType::Xdp,
        attach: 0,
        hook: 0,
        flags: 0,
        license: "GPL",
        types: None,
    };
    let slots = kiln_isa::encoding::encode_all(&[Insn::mov_imm(Reg::R0, 0), Insn::Exit]);
    let record = Record { name, form: u16::MAX, variant: 0, operands: [0; 8] };
    load(&loading, &slots, &[], &[(0, record)]).err().and_then(|error| error.errno())
}

/// The records of an object's marks that lie in a program: `functions` are the functions in it and the slots at which they
/// begin. Marks whose instructions are not side by side, or not in the order of the proof sequence, have none.
pub(crate) fn records(object: &Object, slots: &[Slot], functions: &[(FunctionId, u32)]) -> Vec<Placed> {
    let mut records = Vec::new();
    for (id, begin) in functions {
        let Some(function) = object.functions.get(id.index()) else { continue };
        let mut slot = *begin as usize;
        for node in &function.nodes {
            let marks = object.operations.iter().filter(|mark| mark.members.first() == Some(&node.id));
            for mark in marks {
                let region = slots.get(slot..slot + mark.members.len()).unwrap_or_default();
                let insns: Option<Vec<Insn>> =
                    region.iter().map(|slot| kiln_isa::encoding::decode(std::slice::from_ref(slot)).ok()).collect();
                let record =
                    insns.and_then(|insns| Record::of(&mark.operation, usize::from(mark.form), &mark.operands, &insns));
                records.extend(record.map(|record| (slot as u32, record)));
            }
            slot += node.insn.slots() as usize;
        }
    }
    records.sort_by_key(|(slot, _)| *slot);
    records
}

impl LoadedObject {
    /// Loads a loaded program again, with records of the marks in `object`, which is the same file as read by Kiln.
    /// Returns `None` if no mark is of an operation that the kernel has, if the program depends on more than its file (a
    /// target, a slot in a structure), or if the kernel refuses the records.
    pub fn native_program(&self, object: &Object, program: &Program) -> Option<NativeProgram> {
        let program_type = program.program_type?;
        let depends_on_more = matches!(program_type, ProgramType::StructOps | ProgramType::Ext);
        if object.operations.is_empty() || depends_on_more || !takes_records() {
            return None;
        }
        let loaded = self.instructions(&program.name).ok()?;
        let named = |[_, id]: &[u32; 2]| object.functions.iter().position(|function| function.btf_id == *id);
        let mut functions: Vec<(FunctionId, u32)> = loaded
            .functions
            .iter()
            .skip(1)
            .filter_map(|info| Some((FunctionId(named(info)? as u32), info[0])))
            .collect();
        functions.push((program.entry, 0));
        let mut records = records(object, &loaded.slots, &functions);
        records.retain(|(_, record)| has_operation(record.name));
        if records.is_empty() {
            return None;
        }
        // SAFETY: libbpf keeps the descriptor of the types open as long as the object, which outlives the call.
        let types = loaded.types.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) });
        let loading = Loading {
            name: &program.name,
            program_type,
            attach: loaded.attach,
            hook: hook_id(program).ok()?,
            flags: loaded.flags | program.flags(),
            license: &object.license,
            types: types.map(|types| (types, loaded.functions)),
        };
        let prog = load(&loading, &loaded.slots, &loaded.lines, &records).ok()?;
        Some(NativeProgram { prog, records: records.len() })
    }
}

#[cfg(test)]
mod tests {
    use kiln_program::{Function, Linkage, Mark, Reference};

    use super::*;

    #[test]
    fn attributes_are_where_the_patches_have_them() {
        assert_eq!(std::mem::offset_of!(Attributes, attach_btf_id), 108);
        assert_eq!(std::mem::offset_of!(Attributes, native_ops), 168);
        assert_eq!(size_of::<Attributes>(), 184);
    }

    /// An object whose function is this text, all of it one mark of a rotation.
    fn rotation(text: &str) -> (Object, Vec<Slot>) {
        let insns: Vec<Insn> =
            text.split("; ").map(|line| kiln_isa::text::parse(line).expect("an instruction")).collect();
        let mut object = Object::default();
        let nodes: Vec<_> = insns.iter().map(|insn| object.new_node(*insn, Reference::None)).collect();
        let members = nodes.iter().map(|node| node.id).collect();
        object.functions.push(Function::new("example", "xdp", Linkage::Static, nodes));
        object.operations.push(Mark {
            operation: "rotate_left_64".into(),
            form: 0,
            operands: vec![2, 2, 4, 13],
            members,
        });
        (object, kiln_isa::encoding::encode_all(&insns))
    }

    #[test]
    fn only_what_is_loaded_has_a_record() {
        let (object, mut slots) = rotation("r4 = r2; r4 >>= 51; r2 <<= 13; r2 |= r4");
        let function = [(FunctionId(0), 0)];
        let found = records(&object, &slots, &function);
        let record = Record { name: "rotate_left_64", form: 0, variant: 0, operands: [2, 2, 4, 13, 0, 0, 0, 0] };
        assert_eq!(found, [(0, record)]);
        // A function that begins later; one that does not fit; an instruction that a relocation changed.
        let shifted: Vec<Slot> = slots.iter().cycle().take(2 * slots.len()).copied().collect();
        assert_eq!(records(&object, &shifted, &[(FunctionId(0), 4)]), [(4, record)]);
        assert_eq!(records(&object, &slots, &[(FunctionId(0), 1)]), []);
        slots[1].imm = 50;
        assert_eq!(records(&object, &slots, &function), []);
        let (object, slots) = rotation("r4 = r2; r2 <<= 13; r4 >>= 51; r2 |= r4");
        assert_eq!(records(&object, &slots, &function), []);
    }
}
