//! Dynptrs: memory whose size is known only at run time, behind a handle that lives on the program's stack.
//!
//! ```text
//!   bpf_ringbuf_reserve_dynptr(&map, n, 0, r10-16)   r10-16: dynptr 7 (ring buffer), reference 6
//!   r0 = bpf_dynptr_data(r10-16, 0, 8)               r0: 8 bytes or null, a slice of 7, standing on 6
//!   bpf_dynptr_clone(r10-16, r10-32)                 r10-32: dynptr 9, reference 6
//!   bpf_ringbuf_submit_dynptr(r10-16, 0)             gone: 6, both dynptrs, the slice
//! ```
//!
//! The sixteen bytes are the kernel's: they may not be read, and overwriting them destroys the dynptr and its slices,
//! which is refused where something would be lost that must be given back. A dynptr that another function holds
//! (a global function's argument, `bpf_user_ringbuf_drain`'s callback) is a register of its own kind: it may be used,
//! not changed.

use kiln_isa::Reg;
use kiln_platform::Feature;
use kiln_platform::limits::DYNPTR_BYTES;

use crate::error::{Step, refuse, reject};
use crate::options::Options;
use crate::path::{Findings, Path};
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::stack::slot_of;
use crate::state::{Byte, DynptrKind, Holds, Kind, ObjectKind, Register, Slot, StackObject, State};

/// A dynptr that an argument names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Dynptr {
    pub kind: DynptrKind,
    pub id: u32,
    pub reference: u32,
    /// Where it is on the stack: frame and index of its lowest slot; `None` for one that is only borrowed.
    pub place: Option<(usize, usize)>,
}

impl DynptrKind {
    /// What the kernel calls it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            DynptrKind::Local => "local",
            DynptrKind::RingBuffer => "ringbuf",
            DynptrKind::Skb => "skb",
            DynptrKind::Xdp => "xdp",
            DynptrKind::SkbMeta => "skb_meta",
            DynptrKind::File => "file",
        }
    }

    /// Whether it must be given back.
    pub(crate) const fn is_resource(self) -> bool {
        matches!(self, DynptrKind::RingBuffer | DynptrKind::File)
    }

    /// Whether its memory is the packet's.
    pub(crate) const fn of_packet(self) -> bool {
        matches!(self, DynptrKind::Skb | DynptrKind::Xdp | DynptrKind::SkbMeta)
    }
}

impl Path<'_> {
    /// A borrowed dynptr, as callbacks and global functions get one.
    pub(crate) fn borrowed_dynptr(&mut self) -> Register {
        Register { id: self.fresh_id(), ..Register::pointer(Holds::Dynptr(DynptrKind::Local)) }
    }

    /// The initialized dynptr that a register points to.
    pub(crate) fn expect_dynptr(&mut self, reg: Reg) -> Step<Dynptr> {
        let register = self.read(reg)?;
        let number = reg.number();
        if let Holds::Dynptr(kind) = register.holds {
            if register.fixed_offset() != Some(0) {
                return refuse(
                    Reason::DynptrMisuse,
                    Case::DynptrMoved,
                    format!("r{number}: the dynptr pointer was moved"),
                );
            }
            return Ok(Dynptr { kind, id: register.id, reference: register.reference, place: None });
        }
        let (frame, lowest) = register.object_place(reg, DYNPTR_BYTES, Reason::DynptrMisuse)?;
        let (index, _) = slot_of(lowest);
        let stack = &self.state.frames[frame].stack;
        let part = |index: usize, part: u8| match stack.slot(index).object {
            Some(StackObject { kind: ObjectKind::Dynptr(kind), part: found, id, reference }) if found == part => {
                Some((kind, id, reference))
            }
            _ => None,
        };
        match (part(index, 0), part(index.wrapping_sub(1), 1)) {
            (Some(first), Some(second)) if first == second => {
                let (kind, id, reference) = first;
                self.findings.use_object(&self.state, self.at, frame, lowest, DYNPTR_BYTES)?;
                Ok(Dynptr { kind, id, reference, place: Some((frame, index)) })
            }
            _ => {
                let message = format!("r{number} does not point to an initialized dynptr");
                refuse(Reason::DynptrMisuse, Case::NoDynptr, message)
            }
        }
    }

    /// Makes the sixteen bytes that a register points to a dynptr, on a reference of another one where there is one.
    pub(crate) fn make_dynptr(&mut self, reg: Reg, kind: DynptrKind, reference: u32) -> Step<()> {
        let register = self.read(reg)?;
        if register.kind() == Kind::Dynptr {
            let message = format!("r{}: a dynptr is made in memory of the stack, not in a borrowed one", reg.number());
            return reject(Reason::DynptrMisuse, message);
        }
        let (frame, lowest) = register.object_place(reg, DYNPTR_BYTES, Reason::DynptrMisuse)?;
        let (index, _) = slot_of(lowest);
        self.state.destroy_dynptr_at(&mut self.findings, self.options, frame, index)?;
        self.state.destroy_dynptr_at(&mut self.findings, self.options, frame, index - 1)?;
        let reference = match kind {
            kind if kind.is_resource() && reference == 0 => self.acquire(),
            _ => reference,
        };
        let object = StackObject { kind: ObjectKind::Dynptr(kind), part: 0, id: self.fresh_id(), reference };
        self.place_object(frame, lowest, DYNPTR_BYTES, object, true)
    }

    /// Returns a pointer to a dynptr's memory, as `bpf_dynptr_data` and `bpf_dynptr_slice` do.
    pub(crate) fn slice_of(&mut self, dynptr: &Dynptr, bytes: u32) -> Register {
        let memory = Register::pointer(Holds::Memory(bytes)).or_null(self.fresh_id());
        Register { owner: dynptr.id, reference: dynptr.reference, in_packet: dynptr.kind.of_packet(), ..memory }
    }
}

impl State {
    /// A dynptr whose slot is about to be overwritten is gone, and its slices with it.
    pub(crate) fn destroy_dynptr_at(
        &mut self,
        findings: &mut Findings,
        options: &Options,
        frame: usize,
        index: usize,
    ) -> Step<()> {
        let slot = self.frames[frame].stack.slot(index);
        let Some(StackObject { kind: ObjectKind::Dynptr(kind), part, id, reference }) = slot.object else {
            return Ok(());
        };
        let spare = options.kernel_has(Feature::ClonedDynptrs) && self.has_another_dynptr(reference, id);
        if kind.is_resource() && !spare {
            let message = "a dynptr that must be submitted or discarded is overwritten";
            return refuse(Reason::DynptrMisuse, Case::DynptrOverwritten, message);
        }
        let first = index + usize::from(part);
        for index in [first, first - 1] {
            *self.frames[frame].stack.slot_mut(index) = Slot::INVALID;
            findings.liveness.write(frame, 1 << index);
        }
        self.forget_slices(options.stale_pointer(), |owner| owner == id);
        Ok(())
    }

    /// Whether a dynptr other than `id` stands for the resource, so that it can still be given back.
    fn has_another_dynptr(&self, reference: u32, id: u32) -> bool {
        let objects = self.frames.iter().flat_map(|frame| frame.stack.slots()).filter_map(|slot| slot.object);
        let mut dynptrs = objects.filter(|object| matches!(object.kind, ObjectKind::Dynptr(_)));
        dynptrs.any(|object| object.reference == reference && object.id != id)
    }

    /// Checks that memory which a helper fills contains no dynptr: it could be one that the helper also takes.
    pub(crate) fn check_no_dynptr(&self, frame: usize, lowest: i32, length: i32) -> Step<()> {
        let stack = &self.frames[frame].stack;
        let is_dynptr = |at: &i32| {
            let object = stack.slot(slot_of(*at).0).object;
            object.is_some_and(|object| matches!(object.kind, ObjectKind::Dynptr(_)))
        };
        match (lowest..lowest + length).find(is_dynptr) {
            Some(at) => {
                let message = format!("a helper may write to the dynptr at r10{at:+}");
                refuse(Reason::DynptrMisuse, Case::DynptrWritten { at }, message)
            }
            None => Ok(()),
        }
    }

    /// Makes slices stale whose dynptr was borrowed by a function that has returned.
    pub(crate) fn forget_orphaned_slices(&mut self, stale: Register) {
        let mut alive: Vec<u32> = Vec::new();
        for frame in &self.frames {
            alive.extend(frame.stack.slots().iter().filter_map(|slot| slot.object).map(|object| object.id));
            let borrowed = |register: &&Register| register.kind() == Kind::Dynptr;
            alive.extend(frame.registers.iter().filter(borrowed).map(|register| register.id));
            let spilled = frame.stack.slots().iter().filter(|slot| slot.bytes[0] == Byte::Spill);
            alive.extend(spilled.map(|slot| &slot.register).filter(borrowed).map(|register| register.id));
        }
        self.forget_slices(stale, |owner| !alive.contains(&owner));
    }
}
