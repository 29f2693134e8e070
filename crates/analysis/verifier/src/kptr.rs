//! Kptrs: pointers to objects kept in map values, and the objects of the program's own types.

use kiln_isa::{Insn, Reg, Size};

use crate::error::{Step, reject, unsupported};
use crate::explain::Reason;
use crate::explore::Explorer;
use crate::fields::{FieldKind, Kptr, KptrClass};
use crate::state::{Kind, Register};

impl Explorer<'_> {
    /// The kptr that an access reads or writes, if it does.
    pub(crate) fn kptr_at(&self, reg: Reg, base: &Register, offset: i64, size: Size) -> Step<Option<Kptr>> {
        let Some(record) = self.record_of(base).filter(|record| record.has(is_kptr)) else { return Ok(None) };
        let fixed = i128::from(i64::from(base.offset)) + i128::from(offset);
        let start = i128::from(base.scalar.smin) + fixed;
        let end = i128::from(base.scalar.umax) + fixed + i128::from(size.bytes());
        let Some(field) = record.touched(start, end).filter(|field| is_kptr(field.kind)) else { return Ok(None) };
        let FieldKind::Kptr(kptr) = field.kind else { return Ok(None) };
        let plain = matches!(self.code.op(self.at).node.insn, Insn::Load { signed: false, .. } | Insn::Store { .. });
        let number = reg.number();
        if base.scalar.as_constant().is_none() {
            return reject(
                Reason::SpecialField,
                format!("r{number}: a kptr is accessed at an offset that is not constant"),
            );
        }
        if start != i128::from(field.offset) || size != Size::B8 {
            return reject(
                Reason::SpecialField,
                format!("r{number}: a kptr is accessed in part: all its 8 bytes must be"),
            );
        }
        if !plain {
            return reject(Reason::SpecialField, format!("r{number}: a kptr is accessed other than by load and store"));
        }
        Ok(Some(kptr))
    }

    pub(crate) fn load_kptr(&mut self, kptr: &Kptr) -> Step<Register> {
        unsupported(format!("{:?} kptrs in maps", kptr.class))
    }

    pub(crate) fn store_kptr(&mut self, kptr: &Kptr, value: &Register) -> Step<()> {
        if kptr.class != KptrClass::Untrusted {
            return reject(
                Reason::SpecialField,
                "a kptr that owns its object is stored to: exchange it with bpf_kptr_xchg",
            );
        }
        if value.is_zero() {
            self.mark_precise(value);
            return Ok(());
        }
        if value.kind != Kind::BtfId {
            return reject(Reason::SpecialField, format!("a {} is stored to a kptr", value.kind.name()));
        }
        unsupported("kptrs in maps")
    }
}

fn is_kptr(kind: FieldKind) -> bool {
    matches!(kind, FieldKind::Kptr(_))
}
