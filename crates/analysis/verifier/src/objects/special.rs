//! Fields of map values and objects that only helpers may touch: found where a register points.

use std::sync::Arc;

use kiln_platform::SpecialType;

use crate::code::Code;
use crate::error::{Step, reject};
use crate::objects::fields::{Field, FieldKind, Record, Tables};
use crate::reason::Reason;
use crate::state::{Holds, Kind, Register};
use crate::types::Types;

impl Types {
    /// The special fields of what a register points to.
    pub(crate) fn record_of(&self, code: &Code<'_>, register: &Register) -> Option<Arc<Record>> {
        match register.holds {
            Holds::MapValue(map) => code.prepared.record(map, register.inner).cloned(),
            Holds::Structure(index) if register.is_allocated() => self.object_record(index),
            _ => None,
        }
    }

    /// A plain access does not touch special fields.
    pub(crate) fn check_special_fields(&self, code: &Code<'_>, base: &Register, offset: i64, bytes: u64) -> Step<()> {
        let Some(record) = self.record_of(code, base).filter(|record| !record.fields.is_empty()) else { return Ok(()) };
        let fixed = i128::from(i64::from(base.offset)) + i128::from(offset);
        let start = i128::from(base.scalar.smin) + fixed;
        let end = i128::from(base.scalar.umax) + fixed + i128::from(bytes);
        match record.touched(start, end) {
            Some(field) => reject(Reason::SpecialField, format!("the access overlaps the {} field", field.kind.name())),
            None => Ok(()),
        }
    }

    /// A field of this kind in a map value, exactly where the register points.
    pub(crate) fn check_field_argument(
        &self,
        code: &Code<'_>,
        register: &Register,
        kind: SpecialType,
        message: String,
    ) -> Step<()> {
        if register.kind() != Kind::MapValue || register.nullable {
            return reject(Reason::ArgumentType, message);
        }
        self.find_field(code, register, |found| found.is(kind), message).map(|_| ())
    }

    /// The field that a register points to.
    pub(crate) fn find_field(
        &self,
        code: &Code<'_>,
        register: &Register,
        wanted: impl Fn(FieldKind) -> bool,
        message: String,
    ) -> Step<Field> {
        let Some(fixed) = register.fixed_offset() else {
            return reject(Reason::ArgumentType, format!("{message}: its offset is not constant"));
        };
        match self.record_of(code, register).as_deref().and_then(|record| record.find(fixed, wanted)) {
            Some(field) => Ok(field.clone()),
            None => reject(Reason::ArgumentType, format!("{message}: there is none at offset {fixed}")),
        }
    }

    /// Whether a structure of the program can be in a list or tree.
    pub(crate) fn is_graph_node(&self, index: u32) -> bool {
        let node = |kind: FieldKind| kind.is(SpecialType::ListNode) || kind.is(SpecialType::TreeNode);
        self.object_record(index).is_some_and(|record| record.has(node))
    }

    /// The special fields of a structure of the program.
    pub(crate) fn object_record(&self, index: u32) -> Option<Arc<Record>> {
        let pointed = self.pointed(index).filter(|pointed| !pointed.of_kernel)?;
        let mut known = self.object_records.borrow_mut();
        let found = known.entry(pointed.id.0).or_insert_with(|| {
            // Objects of the program have had pointers since the tags of today.
            let tables = Tables { own: self.program.as_deref(), kernel: self.kernel.as_deref(), first_tags: false };
            Record::of_object(&tables, pointed.id).map(Arc::new)
        });
        found.clone()
    }

    pub(crate) fn is_refcounted(&self, index: u32) -> bool {
        self.object_record(index).is_some_and(|record| record.has(|kind| kind.is(SpecialType::Refcount)))
    }
}
