//! Dynptrs and iterators as arguments and results of calls.

use kiln_isa::Reg;
use kiln_platform::limits::MAX_STACK_BYTES;
use kiln_platform::{AttachType, DynptrSource, DynptrUse, KfuncFlag, KfuncMeaning, PacketAccess, ProgramType};
use kiln_program::btf::TypeId;

use crate::call::checked::{Check, KfuncCheck};
use crate::call::said::KfuncEffect;
use crate::code::Code;
use crate::error::{Step, refuse, reject, unsupported};
use crate::objects::iterator::iterator_type;
use crate::path::Findings;
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::{DynptrKind, Kind, Register, State};
use crate::types::WITHOUT_TYPES;

impl KfuncEffect<'_, '_> {
    /// The result of `bpf_dynptr_slice` and `bpf_dynptr_slice_rdwr`.
    pub(crate) fn slice_result(&mut self) -> Step<Option<Register>> {
        let KfuncEffect { call, .. } = *self;
        let KfuncMeaning::Slice { writable } = call.kfunc.meaning else { return Ok(None) };
        let read_only = !writable;
        let (Some(dynptr), Some(bytes)) = (call.dynptr, call.constant) else { return Ok(None) };
        if !read_only && self.path.code.program_type.packet_access() != PacketAccess::ReadWrite {
            return refuse(
                Reason::ReadOnlyMemory,
                Case::PacketIsReadOnly,
                "programs of this type may not write to the packet",
            );
        }
        let Ok(bytes) = u32::try_from(bytes) else {
            return reject(Reason::ArgumentSize, "the size of a slice fits 32 bits");
        };
        self.path.findings.alias_buffer(&self.path.state, bytes);
        Ok(Some(Register { read_only, sliced: true, ..self.path.slice_of(&dynptr, bytes) }))
    }
}

impl Findings {
    /// Notes that a slice may be the buffer that was passed: the kernel returns it if the memory is not in one piece.
    pub(crate) fn alias_buffer(&mut self, state: &State, bytes: u32) {
        let buffer = *state.register(Reg::R3);
        if let (Kind::Stack, Some(accesses)) = (buffer.kind(), &mut self.accesses) {
            let function = state.frames[buffer.frame()].function;
            let all = (-(MAX_STACK_BYTES as i32), MAX_STACK_BYTES);
            let (lowest, bytes) = buffer.fixed_offset().map_or(all, |offset| (offset as i32, bytes));
            accesses.alias(function, lowest, bytes);
        }
    }
}

impl<'a> Code<'a> {
    pub(crate) fn may_iterate_css_tasks(&self, state: &State) -> bool {
        match self.program_type {
            ProgramType::Lsm => true,
            ProgramType::Tracing if self.program.attach_type == Some(AttachType::TraceIter) => true,
            _ => state.sleepable,
        }
    }
}

impl Check<'_, '_> {
    pub(crate) fn dynptr_argument(&mut self, how: DynptrUse) -> Step<()> {
        let (helper, reg) = (self.argument.helper, self.argument.reg);
        match how {
            DynptrUse::Any => {
                self.call.dynptr = Some(self.path.expect_dynptr(reg)?);
            }
            DynptrUse::MakesLocal => {
                self.path.make_dynptr(reg, DynptrKind::Local, 0)?;
            }
            DynptrUse::MakesRingBuffer => {
                self.path.make_dynptr(reg, DynptrKind::RingBuffer, 0)?;
            }
            DynptrUse::ReleasesRingBuffer => {
                let dynptr = self.path.expect_dynptr(reg)?;
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
                self.call.released = Some(dynptr.reference);
            }
        }
        Ok(())
    }
}

impl KfuncCheck<'_, '_> {
    /// A dynptr argument of a kfunc: one to make where it is `uninitialized`.
    pub(crate) fn dynptr_argument(&mut self, uninitialized: bool) -> Step<()> {
        let reg = self.argument.reg;
        if !uninitialized {
            let dynptr = self.path.expect_dynptr(reg)?;
            self.call.dynptr = Some(dynptr);
            if self.call.kfunc.has(KfuncFlag::Release) {
                if dynptr.kind != DynptrKind::File {
                    let message = format!(
                        "{} takes a file dynptr, r{} is {}",
                        self.call.kfunc.name,
                        reg.number(),
                        dynptr.kind.name()
                    );
                    return reject(Reason::ArgumentType, message);
                }
                self.call.given_back = dynptr.reference;
            }
            return Ok(());
        }
        match (self.call.kfunc.meaning, self.call.dynptr) {
            (KfuncMeaning::MakeDynptr(DynptrSource::Skb), _) => self.path.make_dynptr(reg, DynptrKind::Skb, 0),
            (KfuncMeaning::MakeDynptr(DynptrSource::Xdp), _) => self.path.make_dynptr(reg, DynptrKind::Xdp, 0),
            (KfuncMeaning::MakeDynptr(DynptrSource::SkbMeta), _) => self.path.make_dynptr(reg, DynptrKind::SkbMeta, 0),
            (KfuncMeaning::MakeDynptr(DynptrSource::File), _) => self.path.make_dynptr(reg, DynptrKind::File, 0),
            (KfuncMeaning::CloneDynptr, Some(cloned)) => self.path.make_dynptr(reg, cloned.kind, cloned.reference),
            _ => unsupported(format!("the dynptr that {} makes", self.call.kfunc.name)),
        }
    }

    /// The iterator argument of `bpf_iter_*_new`, `_next`, `_destroy` and whatever else takes one.
    pub(crate) fn iterator_argument(&mut self, structure: TypeId) -> Step<()> {
        let reg = self.argument.reg;
        let name = self.call.kfunc.name;
        let Some(types) = self.path.types.kernel.clone() else { return unsupported(WITHOUT_TYPES) };
        let Some(kind) = iterator_type(&types, structure) else {
            return unsupported(format!("the iterator of {name}"));
        };
        if self.call.kfunc.has(KfuncFlag::IteratorNew) {
            if self.call.kfunc.meaning == KfuncMeaning::IterateCssTasks
                && !self.path.code.may_iterate_css_tasks(&self.path.state)
            {
                return reject(
                    Reason::KfuncNotAllowed,
                    format!("{name} is for LSM programs, iterators and programs that may sleep"),
                );
            }
            return self.path.new_iterator(reg, kind, self.call.kfunc.has(KfuncFlag::RcuProtected));
        }
        let iterator = self.path.expect_iterator(reg, kind)?;
        self.call.reference = iterator.reference;
        self.call.iterator = Some(iterator);
        Ok(())
    }
}
