//! Every form of an instruction, listed once for tests, the manual and conformance tables.
//!
//! A form is an operation with its width, size, source kind and signedness chosen, and with example operands in its
//! free fields: `w1 += w2` and `w1 += 0x7` are two forms, `w1 += w3` is another example of the first.

use crate::insn::{Address, ByteOrder, CallTarget, Imm64, Insn, PacketMode, Reg, Size, Source, Width};
use crate::table::{AluOp, AtomicOp, Group, IsaVersion, JumpOp};

/// One form with example operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Form {
    /// The form, its free fields filled with examples.
    pub insn: Insn,
    /// The conformance group or kernel version it belongs to.
    pub group: Group,
    /// LLVM's ISA version (`-mcpu=vN`) in which it appeared.
    pub version: IsaVersion,
    /// One sentence on what it does.
    pub doc: &'static str,
    /// Its meaning as written in the table, for forms that are rows there.
    pub meaning: &'static str,
}

const DST: Reg = Reg::R1;
const SRC: Reg = Reg::R2;
const IMM: i32 = 7;
const WIDTHS: [Width; 2] = [Width::W32, Width::W64];

/// All forms, in the order of the manual.
pub fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    arithmetic(&mut forms);
    moves(&mut forms);
    memory(&mut forms);
    atomics(&mut forms);
    control(&mut forms);
    forms
}

fn form(insn: Insn, doc: &'static str, meaning: &'static str) -> Form {
    Form { insn, group: group_of(&insn), version: version_of(&insn), doc, meaning }
}

fn sources() -> [Source; 2] {
    [Source::Reg(SRC), Source::Imm(IMM)]
}

fn address(base: Reg) -> Address {
    Address { base, offset: 8 }
}

fn arithmetic(forms: &mut Vec<Form>) {
    for op in AluOp::ALL.iter().copied() {
        for width in WIDTHS {
            for src in sources() {
                let row = op.row();
                forms.push(form(Insn::Alu { op, width, dst: DST, src }, row.doc, row.meaning));
            }
        }
    }
    for width in WIDTHS {
        forms.push(form(Insn::Neg { width, dst: DST }, "Negation, wrapping.", "0 - d"));
    }
}

fn moves(forms: &mut Vec<Form>) {
    for width in WIDTHS {
        for from in [Size::B1, Size::B2, Size::B4] {
            if from.bits() < width.bits() {
                let insn = Insn::MoveSignExtend { width, from, dst: DST, src: SRC };
                forms.push(form(insn, "Sign-extending move.", "sign_extend(truncate(s))"));
            }
        }
    }
    for (order, doc, meaning) in [
        (ByteOrder::Little, "Between host order and little endian: here, a truncation.", "truncate(d)"),
        (ByteOrder::Big, "Between host order and big endian: here, a swap.", "swap_bytes(truncate(d))"),
        (ByteOrder::Swap, "Unconditional byte swap.", "swap_bytes(truncate(d))"),
    ] {
        for size in [Size::B2, Size::B4, Size::B8] {
            forms.push(form(Insn::Endian { order, size, dst: DST }, doc, meaning));
        }
    }
    for (imm, doc) in [
        (Imm64::Value(0x1122_3344_5566_7788), "64-bit immediate; two slots."),
        (Imm64::MapFd { fd: 3, high: 0 }, "Address of a map, by file descriptor."),
        (Imm64::MapValueFd { fd: 3, offset: 4 }, "Address in a map's first value, by file descriptor."),
        (Imm64::VariableBtf { id: 5, fd: 0 }, "Address of a kernel variable, by BTF id."),
        (Imm64::Code { offset: 6, high: 0 }, "Address of a function, to be passed as a callback."),
        (Imm64::MapIndex { index: 1, high: 0 }, "Address of a map, by index into the load call's descriptors."),
        (Imm64::MapValueIndex { index: 1, offset: 4 }, "Address in a map's first value, by index."),
    ] {
        forms.push(form(Insn::LoadImm64 { dst: DST, imm }, doc, ""));
    }
    let insn = Insn::AddressSpaceCast { dst: DST, src: SRC, to: 0, from: 1 };
    forms.push(form(insn, "Converts an arena pointer between address spaces.", ""));
}

fn memory(forms: &mut Vec<Form>) {
    for signed in [false, true] {
        for size in Size::ALL {
            if signed && size == Size::B8 {
                continue;
            }
            let insn = Insn::Load { size, signed, dst: DST, address: address(SRC) };
            forms.push(form(insn, if signed { "Sign-extending load." } else { "Load, zero-extended." }, ""));
        }
    }
    for size in Size::ALL {
        for src in sources() {
            forms.push(form(Insn::Store { size, address: address(DST), src }, "Store.", ""));
        }
    }
    for mode in [PacketMode::Absolute, PacketMode::Indirect(SRC)] {
        for size in [Size::B1, Size::B2, Size::B4] {
            let offset = if mode == PacketMode::Absolute { IMM } else { 0 };
            let doc = "Packet load in network order; ends the program with 0 when out of bounds.";
            forms.push(form(Insn::LoadPacket { mode, size, offset }, doc, ""));
        }
    }
}

fn atomics(forms: &mut Vec<Form>) {
    for op in AtomicOp::ALL.iter().copied() {
        let row = op.row();
        for size in [Size::B4, Size::B8] {
            for fetch in [false, true] {
                if fetch || !row.always_fetch {
                    let insn = Insn::Atomic { op, fetch, size, address: address(DST), src: SRC };
                    forms.push(form(insn, row.doc, row.meaning));
                }
            }
        }
    }
    for size in Size::ALL {
        let insn = Insn::LoadAcquire { size, dst: DST, address: address(SRC) };
        forms.push(form(insn, "Load that later memory accesses do not pass.", ""));
        let insn = Insn::StoreRelease { size, address: address(DST), src: SRC };
        forms.push(form(insn, "Store that earlier memory accesses do not pass.", ""));
    }
}

fn control(forms: &mut Vec<Form>) {
    forms.push(form(Insn::Jump { offset: 3, long: false }, "Jump.", ""));
    forms.push(form(Insn::Jump { offset: 3, long: true }, "Jump with a 32-bit distance.", ""));
    let doc = "Jump to the instruction whose address the register holds.";
    forms.push(form(Insn::JumpIndirect { dst: DST }, doc, ""));
    for op in JumpOp::ALL.iter().copied() {
        for width in WIDTHS {
            for src in sources() {
                let insn = Insn::Branch { op, width, dst: DST, src, offset: 3 };
                forms.push(form(insn, op.row().doc, op.row().meaning));
            }
        }
    }
    forms.push(form(Insn::MayGoto { offset: 3 }, "Jump when the runtime's loop budget is spent.", ""));
    for (target, doc) in [
        (CallTarget::Helper(12), "Call of a helper by its number."),
        (CallTarget::Subprogram(5), "Call of a function of the program."),
        (CallTarget::Kfunc { id: 77, fd_index: 0 }, "Call of a kernel function by BTF id."),
    ] {
        forms.push(form(Insn::Call(target), doc, ""));
    }
    forms.push(form(Insn::Exit, "Returns R0.", ""));
}

/// The conformance group (RFC 9669 section 2.4) or kernel version of an instruction.
pub fn group_of(insn: &Insn) -> Group {
    let base = |wide: bool| if wide { Group::Base64 } else { Group::Base32 };
    match *insn {
        Insn::Alu { op, width, .. } if op.row().divmul => match width {
            Width::W32 => Group::Divmul32,
            Width::W64 => Group::Divmul64,
        },
        Insn::Alu { width, .. }
        | Insn::Neg { width, .. }
        | Insn::MoveSignExtend { width, .. }
        | Insn::Branch { width, .. } => base(width == Width::W64),
        Insn::Endian { size, .. } | Insn::Load { size, .. } | Insn::Store { size, .. } => base(size == Size::B8),
        Insn::LoadImm64 { .. } => Group::Base64,
        Insn::Atomic { size: Size::B8, .. } => Group::Atomic64,
        Insn::Atomic { .. } => Group::Atomic32,
        Insn::LoadAcquire { .. } | Insn::StoreRelease { .. } => Group::Linux614,
        Insn::JumpIndirect { .. } => Group::Linux619,
        Insn::LoadPacket { .. } => Group::Packet,
        Insn::AddressSpaceCast { .. } | Insn::MayGoto { .. } => Group::Linux69,
        // RFC 9669 section 4.3: all `CALL` and `JA` instructions are in base32; so is `EXIT` (its appendix A).
        Insn::Jump { .. } | Insn::Call(_) | Insn::Exit => Group::Base32,
    }
}

/// LLVM's ISA version in which an instruction appeared.
pub fn version_of(insn: &Insn) -> IsaVersion {
    match *insn {
        Insn::Alu { op, .. } => op.row().version,
        Insn::MoveSignExtend { .. }
        | Insn::Endian { order: ByteOrder::Swap, .. }
        | Insn::Load { signed: true, .. }
        | Insn::Jump { long: true, .. }
        | Insn::JumpIndirect { .. }
        | Insn::LoadAcquire { .. }
        | Insn::StoreRelease { .. } => 4,
        Insn::Branch { width: Width::W32, .. } => 3,
        Insn::Branch { op: JumpOp::Lt | JumpOp::Le | JumpOp::Slt | JumpOp::Sle, .. } => 2,
        // Before version 3 there was only the addition without fetch.
        Insn::Atomic { op: AtomicOp::Add, fetch: false, .. } => 1,
        Insn::Atomic { .. } => 3,
        _ => 1,
    }
}
