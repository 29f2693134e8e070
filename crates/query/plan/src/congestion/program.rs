//! The programs of a policy, for the members of `tcp_congestion_ops`.
//!
//! ```text
//!   init           the variables' initial values; a number for the connection, and a place for answers
//!   cong_control   on each acknowledgement: read signals and variables to the frame, answers, clauses, write back
//!   set_state      remembers a timeout
//!   ssthresh, undo_cwnd   what the kernel demands of every algorithm; they change nothing
//!   release        gives the place for answers back, where there is a part in user space
//! ```
//!
//! R6 is the connection (`tcp_sock`), R7 the sample of the acknowledgement (`rate_sample`), R8 the connection's place in
//! the map of answers, and R9 a 0 that no verifier knows. The connection's private data (`icsk_ca_priv`) holds the timer's
//! zero, whether there was a timeout and a 0 (see [`Writer`]), the connection's identity, then the variables.

mod signal;

use std::collections::BTreeSet;

use kiln_isa::{AluOp, AtomicOp, Insn, JumpOp, Reg, Size, Source};
use kiln_platform::{MapType, ProgramType};
use kiln_program::btf::Btf;
use kiln_program::{Function, FunctionId, Linkage, MapId, Node, Object, Program};

use super::policy::{Clause, Identity, Place, Policy, Signal, Step};
use super::user::{OWNER, PENDING, PLACES, TIME, UserPart};
use crate::generate::code::{Code, Label};
use crate::generate::expression::Writer;
use crate::generate::frame::Frame;
use crate::generate::layout::{Record, SlotKind, field, resolve};
use crate::generate::{Failure, add_map};
use crate::table::{Read, Scalar, Table};

/// The kernel structure that a policy becomes.
pub const STRUCTURE: &str = "tcp_congestion_ops";
/// Its members that are programs. The last one is for policies with a part in user space.
const MEMBERS: [&str; 6] = ["init", "cong_control", "set_state", "ssthresh", "undo_cwnd", "release"];
/// Bits of a connection's identity that are its place in the map of answers; the others are its number.
pub(super) const SLOT_BITS: u32 = 16;
/// The place of connections that have none: more than a map has ([`super::MAX_CONNECTIONS`]).
const NO_SLOT: i32 = 0xffff;
/// What a policy counts, eight bytes each, in this order.
pub const COUNTERS: [&str; 3] =
    ["connections", "reports that found the ring buffer full", "connections without room for a part in user space"];

/// `TCP_CA_Loss`, a state of a connection.
const LOSS: i32 = 4;
/// Segments of a window at least and at most.
const WINDOW_SEGMENTS: [i32; 2] = [2, 1 << 20];
/// Words of the private data before the variables: the timer's zero, whether there was a timeout, and the identity.
const OWN_WORDS: usize = 3;
/// The word that says whether there was a timeout, in its lower half; its upper half is a 0 that no verifier knows.
const TIMEOUT_WORD: usize = 1;
/// The word with the connection's identity.
const ID_WORD: usize = 2;
/// `AF_INET6`.
const IPV6: i32 = 10;
/// `SK_PACING_NEEDED`.
const PACED: i32 = 1;

/// A policy's programs.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The programs.
    pub object: Object,
    /// The member that each of them is.
    pub members: Vec<&'static str>,
    /// The layout of a report.
    pub record: Record,
    /// How many of the clauses at reports run in the kernel.
    pub in_kernel: usize,
    /// The others.
    pub user: Option<UserPart>,
    /// The maps.
    pub maps: Maps,
}

/// The maps of a policy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Maps {
    /// The ring buffer that reports come through, if there are any, and an array of [`COUNTERS`].
    pub reports: Option<(MapId, MapId)>,
    /// Answers of user space by place, and a stack of the places that no connection has, which user space fills at first.
    pub answers: Option<(MapId, MapId)>,
}

/// Writes the programs of a policy for the kernel with these types. The first `in_kernel` clauses at reports run in the kernel;
/// `connections` can have a part in user space at a time.
///
/// # Errors
/// [`Failure::Kernel`] where the kernel lacks a field; [`Failure::Frame`] for too many intermediate values.
pub fn generate(policy: &Policy, types: &Btf, in_kernel: usize, connections: u32) -> Result<Generated, Failure> {
    let mut used = BTreeSet::new();
    policy.expressions().for_each(|expr| expr.columns(&mut used));
    used.extend(Place::NAMED.into_iter().filter(|(place, ..)| policy.sets(*place)).map(|(place, ..)| place.column()));
    used.extend((0..policy.variables.len()).map(|variable| Place::Variable(variable).column()));
    used.insert(column_of(Signal::SegmentBytes));
    used.retain(|column| *column < Place::User(0).column());
    let identity = Identity::ALL.into_iter().filter(|_| policy.reports() > 0).map(Identity::column);
    let columns = used.iter().copied().chain(identity);
    let slots = columns.map(|column| (Some(column), SlotKind::Number(Scalar::unsigned(8)))).collect();
    let record = Record::new(slots, None);
    let frame = Frame::new(record.clone(), [0, 0, 0], 0)?;
    let user = UserPart::new(policy, in_kernel).filter(|_| policy.reports() > 0);
    let mut object = Object { name: "congestion".to_owned(), license: "GPL".to_owned(), ..Object::default() };
    let mut maps = Maps::default();
    if policy.reports() > 0 {
        let ring = add_map(&mut object, "reports", MapType::Ringbuf, [0, 0], 1 << 20);
        maps.reports =
            Some((ring, add_map(&mut object, "counters", MapType::Array, [4, 8 * COUNTERS.len() as u32], 1)));
    }
    if let Some(user) = &user {
        let answers = add_map(&mut object, "answers", MapType::Array, [4, user.answer_bytes()], connections);
        maps.answers = Some((answers, add_map(&mut object, "places", MapType::Stack, [0, 8], connections)));
    }
    let members: Vec<_> = MEMBERS.into_iter().filter(|member| *member != "release" || user.is_some()).collect();
    let (at_report, _) = policy.on_report.split_at(in_kernel.min(policy.on_report.len()));
    for member in &members {
        let code = Code::new(&mut object);
        let (table, user) = (&policy.table(), user.as_ref());
        let writing = Writing { code, policy, at_report, user, table, used: &used, frame: &frame, types, maps };
        let nodes = writing.member(member)?;
        add_program(&mut object, member, nodes);
    }
    Ok(Generated { object, members, record, in_kernel, user, maps })
}

fn add_program(object: &mut Object, member: &str, nodes: Vec<Node>) {
    let section = format!("struct_ops/{member}");
    let entry = FunctionId(object.functions.len() as u32);
    object.functions.push(Function::new(member, section.clone(), Linkage::Global, nodes));
    object.programs.push(Program {
        target: Some(format!("{STRUCTURE}.{member}")),
        ..Program::new(member, section, Some(ProgramType::StructOps), entry)
    });
}

fn column_of(signal: Signal) -> usize {
    Signal::ALL.iter().position(|(own, ..)| *own == signal).unwrap_or_default()
}

struct Writing<'w, 'o> {
    code: Code<'o>,
    policy: &'w Policy,
    /// The clauses at reports that run in the kernel.
    at_report: &'w [Clause],
    /// What runs in user space.
    user: Option<&'w UserPart>,
    table: &'w Table,
    used: &'w BTreeSet<usize>,
    frame: &'w Frame,
    types: &'w Btf,
    maps: Maps,
}

impl Writing<'_, '_> {
    fn member(mut self, member: &str) -> Result<Vec<Node>, Failure> {
        // The context is the member's arguments, eight bytes each.
        self.code.copy(Reg::R8, Reg::R1);
        self.code.load(Size::B8, false, Reg::R6, Reg::R8, 0);
        match member {
            "init" => self.init()?,
            "cong_control" => self.acknowledged()?,
            "set_state" => self.state_changes()?,
            "release" => self.release()?,
            "ssthresh" => self.field(Reg::R0, Reg::R6, "tcp_sock", "snd_ssthresh")?,
            _ => self.field(Reg::R0, Reg::R6, "tcp_sock", "snd_cwnd")?,
        }
        if !matches!(member, "ssthresh" | "undo_cwnd") {
            self.code.push(Insn::mov_imm(Reg::R0, 0));
        }
        self.code.push(Insn::Exit);
        Ok(self.code.finish())
    }

    fn offset(&self, structure: &str, name: &str) -> Result<(i16, Scalar), Failure> {
        let read = Read::Field { structure: structure.to_owned(), name: name.to_owned() };
        let needs = |why| Failure::Kernel(format!("the policy needs {why}"));
        let resolved = resolve(&read, self.types).map_err(needs)?;
        let far = || Failure::Kernel(format!("`{structure}.{name}` is too far from its structure's beginning"));
        let offset = resolved.offsets.first().and_then(|offset| i16::try_from(*offset).ok());
        Ok((offset.ok_or_else(far)?, resolved.scalar))
    }

    /// Loads a field of a kernel structure.
    fn field(&mut self, dst: Reg, base: Reg, structure: &str, name: &str) -> Result<(), Failure> {
        let (offset, scalar) = self.offset(structure, name)?;
        self.code.load(crate::generate::layout::size(scalar), scalar.signed, dst, base, offset);
        Ok(())
    }

    /// The offset of a word of the private data.
    fn word(&self, word: usize) -> Result<i16, Failure> {
        let read =
            self.types.find("inet_connection_sock", |kind| matches!(kind, kiln_program::btf::Kind::Composite { .. }));
        let lacks = || Failure::Kernel("this kernel has no `inet_connection_sock.icsk_ca_priv`".to_owned());
        let members = self.types.members(read.ok_or_else(lacks)?);
        let member = members.iter().find(|member| self.types.text(member.name) == "icsk_ca_priv").ok_or_else(lacks)?;
        i16::try_from(member.bit_offset / 8 + 8 * word as u32).map_err(|_| lacks())
    }

    /// Stores R1 in the frame.
    fn keep(&mut self, column: usize) -> Result<(), Failure> {
        let (offset, _) = self.frame.column(column)?;
        self.code.store(Size::B8, Reg::R10, offset, Source::Reg(Reg::R1));
        Ok(())
    }

    /// Loads what is in the frame.
    fn kept(&mut self, dst: Reg, column: usize) -> Result<(), Failure> {
        let (offset, _) = self.frame.column(column)?;
        self.code.load(Size::B8, false, dst, Reg::R10, offset);
        Ok(())
    }

    /// The clock in microseconds, in R1.
    fn now(&mut self) {
        self.code.call("ktime_get_ns");
        self.code.copy(Reg::R1, Reg::R0);
        self.code.alu(AluOp::Div, Reg::R1, Source::Imm(1000));
    }

    fn init(&mut self) -> Result<(), Failure> {
        self.now();
        let zero = self.word(0)?;
        self.code.store(Size::B8, Reg::R6, zero, Source::Reg(Reg::R1));
        let variables = self.policy.variables.iter().zip(OWN_WORDS..);
        for (word, value) in variables.map(|(variable, word)| (word, variable.initial)).chain([(TIMEOUT_WORD, 0)]) {
            let offset = self.word(word)?;
            self.code.constant(Reg::R1, value);
            self.code.store(Size::B8, Reg::R6, offset, Source::Reg(Reg::R1));
        }
        if self.maps.reports.is_some() {
            self.identify()?;
            let offset = self.word(ID_WORD)?;
            self.code.store(Size::B8, Reg::R6, offset, Source::Reg(Reg::R7));
        }
        Ok(())
    }

    /// Adds 1 to a counter, and leaves what it was in R2.
    fn count(&mut self, counter: i16) {
        if let Some((_, counters)) = self.maps.reports {
            self.code.map_value(Reg::R1, counters, 0);
            self.code.push(Insn::mov_imm(Reg::R2, 1));
            self.code.atomic_fetch(AtomicOp::Add, Reg::R1, 8 * counter, Reg::R2);
        }
    }

    /// The identity of a new connection, in R7: its number from 1 on, then its place in the map of answers.
    fn identify(&mut self) -> Result<(), Failure> {
        self.count(0);
        self.code.copy(Reg::R7, Reg::R2);
        self.code.alu(AluOp::Add, Reg::R7, Source::Imm(1));
        self.code.alu(AluOp::Lsh, Reg::R7, Source::Imm(SLOT_BITS as i32));
        let found = self.code.label();
        if let Some((_, places)) = self.maps.answers {
            let slot = self.frame.temporary(0)?;
            self.code.frame_address(Reg::R2, slot);
            self.code.map(Reg::R1, places);
            self.code.call("map_pop_elem");
            self.code.load(Size::B8, false, Reg::R1, Reg::R10, slot);
            self.code.branch(JumpOp::Eq, Reg::R0, Source::Imm(0), found);
            self.count(2);
        }
        self.code.push(Insn::mov_imm(Reg::R1, NO_SLOT));
        self.code.bind(found);
        self.code.alu(AluOp::And, Reg::R1, Source::Imm(NO_SLOT));
        self.code.alu(AluOp::Or, Reg::R7, Source::Reg(Reg::R1));
        Ok(())
    }

    /// Gives the connection's place in the map of answers back, once.
    fn release(&mut self) -> Result<(), Failure> {
        let Some((_, places)) = self.maps.answers else { return Ok(()) };
        let (id, out) = (self.word(ID_WORD)?, self.code.label());
        let slot = self.frame.temporary(0)?;
        self.code.load(Size::B8, false, Reg::R1, Reg::R6, id);
        self.code.branch(JumpOp::Eq, Reg::R1, Source::Imm(0), out);
        self.code.push(Insn::mov_imm(Reg::R2, 0));
        self.code.store(Size::B8, Reg::R6, id, Source::Reg(Reg::R2));
        self.code.alu(AluOp::And, Reg::R1, Source::Imm(NO_SLOT));
        self.code.branch(JumpOp::Eq, Reg::R1, Source::Imm(NO_SLOT), out);
        self.code.store(Size::B8, Reg::R10, slot, Source::Reg(Reg::R1));
        self.code.frame_address(Reg::R2, slot);
        self.code.map(Reg::R1, places);
        self.code.push(Insn::mov_imm(Reg::R3, 0));
        self.code.call("map_push_elem");
        self.code.bind(out);
        Ok(())
    }

    /// Remembers that the connection lost all that was on its way.
    fn state_changes(&mut self) -> Result<(), Failure> {
        let out = self.code.label();
        self.code.load(Size::B8, false, Reg::R1, Reg::R8, 8);
        self.code.alu(AluOp::And, Reg::R1, Source::Imm(0xff));
        self.code.branch(JumpOp::Ne, Reg::R1, Source::Imm(LOSS), out);
        let offset = self.word(TIMEOUT_WORD)?;
        self.code.push(Insn::mov_imm(Reg::R1, 1));
        self.code.store(Size::B8, Reg::R6, offset, Source::Reg(Reg::R1));
        self.code.bind(out);
        Ok(())
    }

    fn acknowledged(&mut self) -> Result<(), Failure> {
        self.code.load(Size::B8, false, Reg::R7, Reg::R8, 24);
        let zero = self.word(TIMEOUT_WORD)? + 4;
        self.code.load(Size::B4, false, Reg::R9, Reg::R6, zero);
        // The size of a segment comes first: others are computed with it.
        self.signal(Signal::SegmentBytes)?;
        self.keep(column_of(Signal::SegmentBytes))?;
        let signals = Signal::ALL.into_iter().map(|(signal, ..)| signal);
        for signal in signals.filter(|signal| !matches!(signal, Signal::SegmentBytes | Signal::Silent)) {
            let column = column_of(signal);
            if self.used.contains(&column) {
                self.signal(signal)?;
                self.keep(column)?;
            }
        }
        self.places()?;
        self.answered()?;
        if self.used.contains(&column_of(Signal::Silent)) {
            self.signal(Signal::Silent)?;
            self.keep(column_of(Signal::Silent))?;
        }
        let end = self.code.label();
        self.clauses(&self.policy.clauses, end)?;
        self.code.bind(end);
        self.write_back()
    }

    /// Carries clauses out, and goes to `end` behind the last one.
    fn clauses(&mut self, clauses: &[Clause], end: Label) -> Result<(), Failure> {
        for clause in clauses {
            let next = self.code.label();
            let writer = Writer { table: self.table, frame: self.frame, unknown_zero: Some(Reg::R9) };
            writer.branch(&mut self.code, &clause.when, false, next)?;
            for step in &clause.steps {
                match step {
                    Step::Assign(place, value) => {
                        writer.number(&mut self.code, value, 0)?;
                        self.keep(place.column())?;
                    }
                    Step::Report => self.report()?,
                }
            }
            if !clause.falls_through {
                self.code.jump(end);
            }
            self.code.bind(next);
        }
        Ok(())
    }

    /// Finds the connection's place in the map of answers, for R8 (0 without one), and carries out an answer that waits there.
    fn answered(&mut self) -> Result<(), Failure> {
        let (Some((answers, _)), Some(user)) = (self.maps.answers, self.user) else { return Ok(()) };
        let (own, out) = (self.code.label(), self.code.label());
        let (id, temporary) = (self.word(ID_WORD)?, self.frame.temporary(0)?);
        let at = |word: usize| 8 * word as i16;
        self.code.load(Size::B8, false, Reg::R1, Reg::R6, id);
        self.code.alu(AluOp::And, Reg::R1, Source::Imm(NO_SLOT));
        self.code.store(Size::B8, Reg::R10, temporary, Source::Reg(Reg::R1));
        self.code.look_up(answers, temporary);
        self.code.copy(Reg::R8, Reg::R0);
        self.code.branch(JumpOp::Eq, Reg::R8, Source::Imm(0), out);
        self.code.load(Size::B8, false, Reg::R1, Reg::R8, at(OWNER));
        self.code.load(Size::B8, false, Reg::R2, Reg::R6, id);
        self.code.branch(JumpOp::Eq, Reg::R1, Source::Reg(Reg::R2), own);
        self.code.push(Insn::mov_imm(Reg::R8, 0));
        self.code.jump(out);
        self.code.bind(own);
        // User space may write the next answer meanwhile: then it is carried out at the next acknowledgement.
        self.code.push(Insn::mov_imm(Reg::R1, 0));
        self.code.atomic_fetch(AtomicOp::Exchange, Reg::R8, at(PENDING), Reg::R1);
        self.code.branch(JumpOp::Eq, Reg::R1, Source::Imm(0), out);
        self.code.store(Size::B8, Reg::R10, temporary, Source::Reg(Reg::R1));
        self.now();
        self.code.store(Size::B8, Reg::R8, at(TIME), Source::Reg(Reg::R1));
        for (bit, place) in user.places.iter().enumerate() {
            let next = self.code.label();
            self.code.load(Size::B8, false, Reg::R1, Reg::R10, temporary);
            // As the columns that expressions read: a branch says nothing about what is in the frame.
            self.code.alu(AluOp::Add, Reg::R1, Source::Reg(Reg::R9));
            self.code.alu(AluOp::Rsh, Reg::R1, Source::Imm(bit as i32));
            self.code.alu(AluOp::And, Reg::R1, Source::Imm(1));
            self.code.branch(JumpOp::Eq, Reg::R1, Source::Imm(0), next);
            self.code.load(Size::B8, false, Reg::R1, Reg::R8, at(PLACES + bit));
            self.keep(place.column())?;
            self.code.bind(next);
        }
        self.code.bind(out);
        Ok(())
    }

    fn uses(&self, place: Place) -> bool {
        self.used.contains(&place.column())
    }

    /// Reads the window, the rate, the timer and the variables.
    fn places(&mut self) -> Result<(), Failure> {
        if self.uses(Place::Window) {
            self.field(Reg::R1, Reg::R6, "tcp_sock", "snd_cwnd")?;
            self.segments()?;
            self.keep(Place::Window.column())?;
        }
        if self.uses(Place::Rate) {
            self.field(Reg::R1, Reg::R6, "sock", "sk_pacing_rate")?;
            self.keep(Place::Rate.column())?;
        }
        if self.uses(Place::Timer) {
            self.now();
            self.minus_zero()?;
            self.keep(Place::Timer.column())?;
        }
        for variable in 0..self.policy.variables.len() {
            let offset = self.word(OWN_WORDS + variable)?;
            self.code.load(Size::B8, false, Reg::R1, Reg::R6, offset);
            self.keep(Place::Variable(variable).column())?;
        }
        Ok(())
    }

    /// Subtracts the timer's zero from R1.
    fn minus_zero(&mut self) -> Result<(), Failure> {
        let zero = self.word(0)?;
        self.code.load(Size::B8, false, Reg::R2, Reg::R6, zero);
        self.code.alu(AluOp::Sub, Reg::R1, Source::Reg(Reg::R2));
        Ok(())
    }

    /// Writes back what the policy sets.
    fn write_back(&mut self) -> Result<(), Failure> {
        for variable in 0..self.policy.variables.len() {
            let offset = self.word(OWN_WORDS + variable)?;
            self.kept(Reg::R1, Place::Variable(variable).column())?;
            self.code.store(Size::B8, Reg::R6, offset, Source::Reg(Reg::R1));
        }
        if self.used.contains(&column_of(Signal::WasTimeout)) {
            let offset = self.word(TIMEOUT_WORD)?;
            self.code.push(Insn::mov_imm(Reg::R1, 0));
            self.code.store(Size::B8, Reg::R6, offset, Source::Reg(Reg::R1));
        }
        if self.policy.sets(Place::Timer) {
            self.now();
            self.kept(Reg::R2, Place::Timer.column())?;
            self.code.alu(AluOp::Sub, Reg::R1, Source::Reg(Reg::R2));
            let zero = self.word(0)?;
            self.code.store(Size::B8, Reg::R6, zero, Source::Reg(Reg::R1));
        }
        if self.policy.sets(Place::Window) {
            self.kept(Reg::R1, Place::Window.column())?;
            self.kept(Reg::R2, column_of(Signal::SegmentBytes))?;
            self.code.alu(AluOp::Div, Reg::R1, Source::Reg(Reg::R2));
            let [least, most] = WINDOW_SEGMENTS;
            self.bounded(JumpOp::Ge, least);
            self.bounded(JumpOp::Le, most);
            let (offset, _) = self.offset("tcp_sock", "snd_cwnd")?;
            self.code.store(Size::B4, Reg::R6, offset, Source::Reg(Reg::R1));
        }
        if self.policy.sets(Place::Rate) {
            self.kept(Reg::R1, Place::Rate.column())?;
            let (offset, _) = self.offset("sock", "sk_pacing_rate")?;
            self.code.store(Size::B8, Reg::R6, offset, Source::Reg(Reg::R1));
            let (offset, _) = self.offset("sock", "sk_pacing_status")?;
            self.code.push(Insn::mov_imm(Reg::R1, PACED));
            self.code.store(Size::B4, Reg::R6, offset, Source::Reg(Reg::R1));
        }
        Ok(())
    }

    /// Replaces R1 by a bound unless the comparison with it holds.
    fn bounded(&mut self, holds: JumpOp, bound: i32) {
        let fine: Label = self.code.label();
        self.code.branch(holds, Reg::R1, Source::Imm(bound), fine);
        self.code.push(Insn::mov_imm(Reg::R1, bound));
        self.code.bind(fine);
    }

    /// Carries out what the kernel does at a report, and hands the frame's record to user space. Volatile variables then are
    /// what they were at first; where there was no room for the report, they go on to the next one.
    fn report(&mut self) -> Result<(), Failure> {
        let Some((ring, _)) = self.maps.reports else { return Ok(()) };
        self.identity()?;
        let decided = self.code.label();
        self.code.push(Insn::mov_imm(Reg::R1, 0));
        self.keep(Identity::Wanted.column())?;
        self.clauses(self.at_report, decided)?;
        if self.user.is_some() {
            self.code.push(Insn::mov_imm(Reg::R1, 1));
            self.keep(Identity::Wanted.column())?;
        }
        self.code.bind(decided);
        self.code.frame_address(Reg::R2, self.frame.start());
        self.code.map(Reg::R1, ring);
        self.code.push(Insn::mov_imm(Reg::R3, self.frame.record.bytes.into()));
        self.code.push(Insn::mov_imm(Reg::R4, 0));
        self.code.call("ringbuf_output");
        let (handed_over, end) = (self.code.label(), self.code.label());
        self.code.branch(JumpOp::Eq, Reg::R0, Source::Imm(0), handed_over);
        self.count(1);
        self.code.jump(end);
        self.code.bind(handed_over);
        let volatile = self.policy.variables.iter().enumerate().filter(|(_, variable)| variable.is_volatile);
        for (number, variable) in volatile {
            self.code.constant(Reg::R1, variable.initial);
            self.keep(Place::Variable(number).column())?;
        }
        self.code.bind(end);
        Ok(())
    }

    /// Stores in the frame which connection this is.
    fn identity(&mut self) -> Result<(), Failure> {
        let id = self.word(ID_WORD)?;
        self.code.load(Size::B8, false, Reg::R1, Reg::R6, id);
        self.keep(Identity::Id.column())?;
        self.field(Reg::R1, Reg::R6, "sock_common", "skc_family")?;
        for name in ["skc_dport", "skc_num"] {
            self.code.alu(AluOp::Lsh, Reg::R1, Source::Imm(16));
            self.field(Reg::R2, Reg::R6, "sock_common", name)?;
            self.code.alu(AluOp::Or, Reg::R1, Source::Reg(Reg::R2));
        }
        self.keep(Identity::Ports.column())?;
        let both = [
            ("skc_rcv_saddr", "skc_v6_rcv_saddr", [Identity::Local, Identity::LocalEnd]),
            ("skc_daddr", "skc_v6_daddr", [Identity::Remote, Identity::RemoteEnd]),
        ];
        for (four, six, words) in both {
            self.field(Reg::R1, Reg::R6, "sock_common", four)?;
            self.code.push(Insn::mov_imm(Reg::R2, 0));
            // Kernels without IPv6 do not have its addresses.
            if let Ok((offset, _)) = field("sock_common", six, self.types) {
                let offset = i16::try_from(offset).map_err(|_| Failure::Kernel(format!("`{six}` is too far away")))?;
                let end = self.code.label();
                self.field(Reg::R3, Reg::R6, "sock_common", "skc_family")?;
                self.code.branch(JumpOp::Ne, Reg::R3, Source::Imm(IPV6), end);
                self.code.load(Size::B8, false, Reg::R1, Reg::R6, offset);
                self.code.load(Size::B8, false, Reg::R2, Reg::R6, offset + 8);
                self.code.bind(end);
            }
            self.keep(words[0].column())?;
            self.code.copy(Reg::R1, Reg::R2);
            self.keep(words[1].column())?;
        }
        Ok(())
    }
}
