//! Dynptrs and iterators as arguments and results of calls.

use kiln_isa::Reg;
use kiln_platform::limits::MAX_STACK_BYTES;
use kiln_platform::{AttachType, DynptrSource, DynptrUse, Helper, KfuncFlag, KfuncMeaning, PacketAccess, ProgramType};
use kiln_program::btf::TypeId;

use crate::call::said::{Call, KfuncCall};
use crate::error::{Step, refuse, reject, unsupported};
use crate::objects::iterator::iterator_type;
use crate::path::Path;
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::{DynptrKind, Kind, Register};
use crate::types::WITHOUT_TYPES;

impl Path<'_> {
    pub(crate) fn dynptr_argument(&mut self, helper: &Helper, reg: Reg, how: DynptrUse, call: &mut Call) -> Step<()> {
        match how {
            DynptrUse::Any => {
                call.dynptr = Some(self.expect_dynptr(reg)?);
            }
            DynptrUse::MakesLocal => {
                self.make_dynptr(reg, DynptrKind::Local, 0)?;
            }
            DynptrUse::MakesRingBuffer => {
                self.make_dynptr(reg, DynptrKind::RingBuffer, 0)?;
            }
            DynptrUse::ReleasesRingBuffer => {
                let dynptr = self.expect_dynptr(reg)?;
                if dynptr.place.is_none() || dynptr.reference == 0 {
                    return reject(
                        Reason::NotHeld,
                        format!("{}: r{} is no dynptr that this program reserved", helper.name, reg.number()),
                    );
                }
                if dynptr.kind != DynptrKind::RingBuffer {
                    return reject(
                        Reason::ArgumentType,
                        format!("{} takes a ringbuf dynptr, r{} is {}", helper.name, reg.number(), dynptr.kind.name()),
                    );
                }
                call.released = Some(dynptr.reference);
            }
        }
        Ok(())
    }

    /// A dynptr argument of a kfunc: one to make where it is `uninitialized`.
    pub(crate) fn dynptr_kfunc_argument(&mut self, call: &mut KfuncCall, reg: Reg, uninitialized: bool) -> Step<()> {
        if !uninitialized {
            call.dynptr = Some(self.expect_dynptr(reg)?);
            return Ok(());
        }
        match (call.kfunc.meaning, call.dynptr) {
            (KfuncMeaning::MakeDynptr(DynptrSource::Skb), _) => self.make_dynptr(reg, DynptrKind::Skb, 0),
            (KfuncMeaning::MakeDynptr(DynptrSource::Xdp), _) => self.make_dynptr(reg, DynptrKind::Xdp, 0),
            (KfuncMeaning::MakeDynptr(DynptrSource::SkbMeta), _) => self.make_dynptr(reg, DynptrKind::SkbMeta, 0),
            (KfuncMeaning::CloneDynptr, Some(cloned)) => self.make_dynptr(reg, cloned.kind, cloned.reference),
            _ => unsupported(format!("the dynptr that {} makes", call.kfunc.name)),
        }
    }

    /// The result of `bpf_dynptr_slice` and `bpf_dynptr_slice_rdwr`.
    pub(crate) fn slice_result(&mut self, call: &KfuncCall) -> Step<Option<Register>> {
        let KfuncMeaning::Slice { writable } = call.kfunc.meaning else { return Ok(None) };
        let read_only = !writable;
        let (Some(dynptr), Some(bytes)) = (call.dynptr, call.constant) else { return Ok(None) };
        if !read_only && self.program_type.packet_access() != PacketAccess::ReadWrite {
            return refuse(
                Reason::ReadOnlyMemory,
                Case::PacketIsReadOnly,
                "programs of this type may not write to the packet",
            );
        }
        let Ok(bytes) = u32::try_from(bytes) else {
            return reject(Reason::ArgumentSize, "the size of a slice fits 32 bits");
        };
        self.alias_buffer(bytes);
        Ok(Some(Register { read_only, ..self.slice_of(&dynptr, bytes) }))
    }

    /// Where the memory is not in one piece, the slice is the buffer that was passed for that case.
    pub(crate) fn alias_buffer(&mut self, bytes: u32) {
        let buffer = *self.state.register(Reg::R3);
        if let (Kind::Stack, Some(accesses)) = (buffer.kind(), &mut self.accesses) {
            let function = self.state.frames[buffer.frame()].function;
            let all = (-(MAX_STACK_BYTES as i32), MAX_STACK_BYTES);
            let (lowest, bytes) = buffer.fixed_offset().map_or(all, |offset| (offset as i32, bytes));
            accesses.alias(function, lowest, bytes);
        }
    }

    /// The iterator argument of `bpf_iter_*_new`, `_next`, `_destroy` and whatever else takes one.
    pub(crate) fn iterator_argument(&mut self, call: &mut KfuncCall, reg: Reg, structure: TypeId) -> Step<()> {
        let name = call.kfunc.name;
        let Some(types) = self.types.kernel.clone() else { return unsupported(WITHOUT_TYPES) };
        let Some(kind) = iterator_type(&types, structure) else {
            return unsupported(format!("the iterator of {name}"));
        };
        if call.kfunc.has(KfuncFlag::IteratorNew) {
            if call.kfunc.meaning == KfuncMeaning::IterateCssTasks && !self.may_iterate_css_tasks() {
                return reject(
                    Reason::KfuncNotAllowed,
                    format!("{name} is for LSM programs, iterators and programs that may sleep"),
                );
            }
            return self.new_iterator(reg, kind, call.kfunc.has(KfuncFlag::RcuProtected));
        }
        let iterator = self.expect_iterator(reg, kind)?;
        call.reference = iterator.reference;
        call.iterator = Some(iterator);
        Ok(())
    }

    pub(crate) fn may_iterate_css_tasks(&self) -> bool {
        match self.program_type {
            ProgramType::Lsm => true,
            ProgramType::Tracing if self.code.program.attach_type == Some(AttachType::TraceIter) => true,
            _ => self.state.sleepable,
        }
    }
}
