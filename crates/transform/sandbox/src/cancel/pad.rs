//! Landing pads: what a cancelled function holds is given back, then it returns.
//!
//! ```text
//!   locks, the last one taken first         nothing else may be called before
//!   references, the last one first          sockets, records, iterators, dynptrs, objects
//!   interrupts on, preemption on, the RCU section ends
//!   tell the caller, r0 = ..., exit
//! ```
//!
//! The object table is the stack frame: a lock's address is stored there when it is taken, and a reference is where the
//! program keeps it.

use kiln_isa::{CallTarget, Insn, JumpOp, Reg, RegSet, Source};
use kiln_program::{InsnId, LineId, Node, Reference};
use kiln_verifier::{Begun, Held, Places, Section};

use super::canceller::{CANCELLED, Canceller};
use super::release::{self, Called, Release};
use crate::error::Error;
use crate::frame::{frame_address, load, store};

/// What a landing pad gives back, in the order of doing it.
struct Given {
    /// Puts the argument into R1, and another into R2.
    arguments: Vec<Insn>,
    /// R1 may be null, and then there is nothing to give back.
    nullable: bool,
    call: Node,
}

/// The lowest slot of a set: its offset from the frame pointer.
fn offset_of(slot: u32) -> i16 {
    -8 * (slot as i16 + 1)
}

/// The register from which a landing pad takes a reference; `None` if it takes it from the frame.
///
/// R0 is the last choice: after the call that acquired it, it is seldom live.
fn released_from(places: &Places) -> Option<Reg> {
    let kept = places.registers.difference(RegSet::CALLER_SAVED).iter().next();
    kept.or_else(|| places.registers.iter().next_back().filter(|_| places.slots == 0 && places.objects == 0))
}

impl Canceller<'_, '_> {
    fn own_node(&self, id: InsnId) -> Option<&Node> {
        self.edit.function.nodes.iter().find(|node| node.id == id)
    }

    fn acquired(&self, id: InsnId) -> Option<&Node> {
        self.edit.object.functions.iter().flat_map(|function| &function.nodes).find(|node| node.id == id)
    }

    /// The references of the current frame, the last one first, and how each is given back: a caller's is released by the caller.
    /// None is there for one that the function acquired and does not keep in the same place on all paths.
    fn own_references(&self, held: &Held) -> Vec<(Places, Option<Release>)> {
        let is_own = |(id, places): &(&InsnId, &Places)| {
            self.own_node(**id).is_some() || places.is_somewhere() && !self.is_borrowed(**id)
        };
        let own = held.references.iter().zip(&held.places).filter(is_own).rev();
        let release = |id: InsnId| self.acquired(id).and_then(|node| release::of(self.edit.object, node));
        own.map(|(id, places)| (*places, release(*id).filter(|_| places.is_somewhere()))).collect()
    }

    /// Whether the function only borrows what was acquired there: it is held when the function begins, and when it returns.
    fn is_borrowed(&self, acquired: InsnId) -> bool {
        let holds = |node: &Node| self.edit.facts.held(node.id).is_some_and(|held| held.references.contains(&acquired));
        let nodes = &self.edit.function.nodes;
        nodes.first().is_some_and(holds) && nodes.iter().any(|node| node.insn == Insn::Exit && holds(node))
    }

    /// The locks and sections that the current function began, the last one first.
    fn own_sections(&self, held: &Held) -> Vec<(Begun, Option<Release>)> {
        let own = held.begun.iter().rev().filter_map(|begun| Some((*begun, self.own_node(begun.insn)?)));
        own.map(|(begun, node)| (begun, release::of(self.edit.object, node))).collect()
    }

    /// The names of what gives back what is held, in that order.
    pub(super) fn releases(&self, held: &Held) -> Vec<String> {
        let sections = self.own_sections(held);
        let (locks, others): (Vec<_>, Vec<_>) = sections.iter().partition(|(begun, _)| begun.what == Section::Lock);
        let interrupts_of_lock =
            |begun: &Begun| locks.iter().any(|(lock, _)| lock.insn == begun.insn && begun.what != Section::Lock);
        let names = locks.iter().filter_map(|(_, release)| *release);
        let names = names.chain(self.own_references(held).into_iter().filter_map(|(_, release)| release));
        let others = others.iter().filter(|(begun, _)| !interrupts_of_lock(begun)).filter_map(|(_, release)| *release);
        names.chain(others).map(|release| release.name.to_owned()).collect()
    }

    /// Registers from which the landing pad takes what it gives back.
    pub(super) fn registers_released(&self, held: &Held) -> RegSet {
        self.own_references(held).iter().filter_map(|(places, _)| released_from(places)).collect()
    }

    /// The landing pad that gives back what is held; its first instruction.
    pub(super) fn pad(&mut self, at: &Node, held: &Held) -> Result<InsnId, Error> {
        if let Some((_, pad)) = self.pads.iter().find(|(known, _)| known == held) {
            return Ok(*pad);
        }
        self.edit.frame.begin_place();
        let line = at.line;
        let mut first = Vec::new();
        let mut given = Vec::new();
        for (begun, release) in self.own_sections(held) {
            if begun.what == Section::Lock {
                given.push(self.lock(at, &begun, release, held)?);
            }
        }
        for (places, release) in self.own_references(held) {
            given.push(self.reference(at, &places, release, &mut first)?);
        }
        for (begun, release) in self.own_sections(held) {
            let with_lock = held.begun.iter().any(|other| other.what == Section::Lock && other.insn == begun.insn);
            if begun.what != Section::Lock && !with_lock {
                given.push(self.section(at, &begun, release, held)?);
            }
        }
        let tail = self.leave(line);
        let mut next = tail[0].id;
        let mut parts = vec![tail];
        for Given { arguments, nullable, call } in given.into_iter().rev() {
            let mut part = self.edit.nodes(arguments, line);
            if nullable {
                part.push(self.branch(JumpOp::Eq, Reg::R1, Source::Imm(0), next, line));
            }
            part.push(call);
            next = part[0].id;
            parts.push(part);
        }
        first.extend(parts.into_iter().rev().flatten());
        let start = first[0].id;
        self.edit.land(first);
        self.pads.push((held.clone(), start));
        Ok(start)
    }

    /// How a lock is given back: its address was stored when it was taken.
    fn lock(&mut self, at: &Node, begun: &Begun, release: Option<Release>, held: &Held) -> Result<Given, Error> {
        let (release, slot) = match (release, self.locks.get(&begun.insn)) {
            (Some(release), Some(slot)) if !held.mixed => (release, *slot),
            _ => return Err(self.unreleased(at, "a kernel lock")),
        };
        let mut arguments = vec![load(Reg::R1, Reg::R10, slot)];
        let with = |other: &&Begun| other.what == Section::Interrupts && other.insn == begun.insn;
        if let Some(interrupts) = held.begun.iter().find(with) {
            let flags = interrupts.flags.filter(|slot| *slot < 64);
            let flags = flags.ok_or_else(|| self.unreleased(at, "a kernel lock and interrupt flags elsewhere"))?;
            arguments.extend(frame_address(Reg::R2, offset_of(flags)));
        }
        Ok(Given { arguments, nullable: false, call: self.call(at, release)? })
    }

    fn section(&mut self, at: &Node, begun: &Begun, release: Option<Release>, held: &Held) -> Result<Given, Error> {
        let Some(release) = release.filter(|_| !held.mixed) else {
            return Err(self.unreleased(at, "a critical section"));
        };
        let flags = begun.flags.filter(|slot| *slot < 64);
        let arguments = match begun.what {
            Section::Interrupts => {
                let flags = flags.ok_or_else(|| self.unreleased(at, "interrupt flags elsewhere"))?;
                frame_address(Reg::R1, offset_of(flags)).to_vec()
            }
            _ => Vec::new(),
        };
        Ok(Given { arguments, nullable: false, call: self.call(at, release)? })
    }

    fn reference(
        &mut self,
        at: &Node,
        places: &Places,
        release: Option<Release>,
        first: &mut Vec<Node>,
    ) -> Result<Given, Error> {
        let Some(release) = release else { return Err(self.unreleased(at, "a reference")) };
        let line = at.line;
        let mut arguments = match released_from(places) {
            None if places.objects != 0 => frame_address(Reg::R1, offset_of(places.objects.trailing_zeros())).to_vec(),
            None => vec![load(Reg::R1, Reg::R10, offset_of(places.slots.trailing_zeros()))],
            Some(kept) if !RegSet::CALLER_SAVED.contains(kept) => vec![Insn::mov(Reg::R1, kept)],
            Some(reg) => {
                // A call would destroy it, so it is saved in the frame until it is released.
                let slot = self.edit.shared_slot(at.id)?;
                first.extend(self.edit.nodes([store(Reg::R10, slot, reg)], line));
                vec![load(Reg::R1, Reg::R10, slot)]
            }
        };
        arguments.extend(release.zero.then_some(Insn::mov_imm(Reg::R2, 0)));
        Ok(Given { arguments, nullable: places.nullable, call: self.call(at, release)? })
    }

    fn unreleased(&self, at: &Node, what: &str) -> Error {
        let reason = format!("a loop holds {what} on some path that landing pads cannot release");
        self.edit.unsupported(Some(at.id), reason)
    }

    fn call(&mut self, at: &Node, release: Release) -> Result<Node, Error> {
        match release.call {
            Called::Helper(id) => Ok(self.edit.node(Insn::Call(CallTarget::Helper(id)), Reference::None, at.line)),
            Called::Kfunc(name) => {
                let like = release::call_like(self.edit.object, name);
                let missing = || format!("a loop would have to call {name}, which the object does not call itself");
                let (insn, reference) = like
                    .map(|node| (node.insn, node.reference))
                    .ok_or_else(|| self.edit.unsupported(Some(at.id), missing()))?;
                Ok(self.edit.node(insn, reference, at.line))
            }
        }
    }

    /// Tells the caller, and returns.
    fn leave(&mut self, line: Option<LineId>) -> Vec<Node> {
        let tell = match self.own {
            true => vec![],
            false => vec![load(Reg::R1, Reg::R10, self.at), store(Reg::R1, CANCELLED, 1)],
        };
        let leave = [Insn::mov_imm(Reg::R0, self.cancelled_return), Insn::Exit];
        self.edit.nodes(tell.into_iter().chain(leave), line)
    }
}
