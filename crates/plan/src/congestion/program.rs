//! The programs of a policy, for the members of `tcp_congestion_ops`.
//!
//! ```text
//!   init           the variables' initial values
//!   cong_control   on each acknowledgement: read signals and variables to the frame, clauses, write back
//!   set_state      remembers a timeout
//!   ssthresh, undo_cwnd   what the kernel demands of every algorithm; they change nothing
//! ```
//!
//! R6 is the connection (`tcp_sock`), R7 the sample of the acknowledgement (`rate_sample`), R9 a 0 that no verifier knows. The connection's private data
//! (`icsk_ca_priv`) holds the timer's zero, whether there was a timeout, a 0 (see [`Writer`]), then the variables.

use std::collections::BTreeSet;

use kiln_isa::{AluOp, Insn, JumpOp, Reg, Size, Source};
use kiln_platform::{MapType, ProgramType};
use kiln_program::btf::Btf;
use kiln_program::{Function, FunctionId, Linkage, MapId, Node, Object, Program};

use super::{Place, Policy, Signal, Step};
use crate::generate::code::{Code, Label};
use crate::generate::expression::Writer;
use crate::generate::frame::Frame;
use crate::generate::layout::{Record, SlotKind, resolve};
use crate::generate::{Failure, add_map};
use crate::table::{Read, Scalar, Table};

/// The kernel structure that a policy becomes.
pub const STRUCTURE: &str = "tcp_congestion_ops";
/// Its members that are programs.
pub const MEMBERS: [&str; 5] = ["init", "cong_control", "set_state", "ssthresh", "undo_cwnd"];

/// `TCP_CA_Loss`, a state of a connection.
const LOSS: i32 = 4;
/// Segments of a window at least and at most.
const WINDOW_SEGMENTS: [i32; 2] = [2, 1 << 20];
/// Words of the private data before the variables: the timer's zero, whether there was a timeout, and a 0 that no
/// verifier knows.
const OWN_WORDS: usize = 3;
/// The word with the 0.
const ZERO_WORD: usize = 2;
/// `SK_PACING_NEEDED`.
const PACED: i32 = 1;

/// A policy's programs.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The programs, in the order of [`MEMBERS`].
    pub object: Object,
    /// Where reports come through, if there are any.
    pub ring: Option<MapId>,
    /// The variables in a report: each one's number, and its place in bytes.
    pub reported: Vec<(usize, u16)>,
}

/// Writes the programs of a policy for the kernel with these types.
///
/// # Errors
/// [`Failure::Kernel`] where the kernel lacks a field; [`Failure::Frame`] for too many intermediate values.
pub fn generate(policy: &Policy, types: &Btf) -> Result<Generated, Failure> {
    let mut used = BTreeSet::new();
    policy.expressions().for_each(|expr| expr.columns(&mut used));
    used.extend(Place::NAMED.into_iter().filter(|(place, ..)| policy.sets(*place)).map(|(place, ..)| place.column()));
    used.extend((0..policy.variables.len()).map(|variable| Place::Variable(variable).column()));
    used.insert(column_of(Signal::SegmentBytes));
    let slots = used.iter().map(|column| (Some(*column), SlotKind::Number(Scalar::unsigned(8)))).collect();
    let record = Record::new(slots, None);
    let reported = policy.variables.iter().enumerate().filter(|(_, variable)| variable.is_reported);
    let place = |variable: usize| record.slot(Some(Place::Variable(variable).column())).map_or(0, |slot| slot.offset);
    let reported = reported.map(|(variable, _)| (variable, place(variable))).collect();
    let frame = Frame::new(record, 0, 0, 0)?;
    let mut object = Object { name: "congestion".to_owned(), license: "GPL".to_owned(), ..Object::default() };
    let ring = policy.reports().then(|| add_map(&mut object, "reports", MapType::Ringbuf, [0, 0], 1 << 20));
    let table = policy.table();
    for member in MEMBERS {
        let code = Code::new(&mut object);
        let writing = Writing { code, policy, table: &table, used: &used, frame: &frame, types, ring };
        let nodes = writing.member(member)?;
        add_program(&mut object, member, nodes);
    }
    Ok(Generated { object, ring, reported })
}

fn add_program(object: &mut Object, member: &str, nodes: Vec<Node>) {
    let section = format!("struct_ops/{member}");
    let entry = FunctionId(object.functions.len() as u32);
    let (name, linkage) = (member.to_owned(), Linkage::Global);
    object.functions.push(Function { name: name.clone(), section: section.clone(), linkage, btf_id: 0, nodes });
    object.programs.push(Program {
        target: Some(format!("{STRUCTURE}.{member}")),
        ..Program::new(name, section, Some(ProgramType::StructOps), entry)
    });
}

fn column_of(signal: Signal) -> usize {
    Signal::ALL.iter().position(|(own, ..)| *own == signal).unwrap_or_default()
}

struct Writing<'w, 'o> {
    code: Code<'o>,
    policy: &'w Policy,
    table: &'w Table,
    used: &'w BTreeSet<usize>,
    frame: &'w Frame,
    types: &'w Btf,
    ring: Option<MapId>,
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
        let resolved = resolve(&read, self.types).map_err(Failure::Kernel)?;
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
        let initial = self.policy.variables.iter().map(|variable| variable.initial);
        for (word, value) in (1..).zip([0, 0].into_iter().chain(initial)) {
            let offset = self.word(word)?;
            self.code.constant(Reg::R1, value);
            self.code.store(Size::B8, Reg::R6, offset, Source::Reg(Reg::R1));
        }
        Ok(())
    }

    /// Remembers that the connection lost all that was on its way.
    fn state_changes(&mut self) -> Result<(), Failure> {
        let out = self.code.label();
        self.code.load(Size::B8, false, Reg::R1, Reg::R8, 8);
        self.code.alu(AluOp::And, Reg::R1, Source::Imm(0xff));
        self.code.branch(JumpOp::Ne, Reg::R1, Source::Imm(LOSS), out);
        let offset = self.word(1)?;
        self.code.push(Insn::mov_imm(Reg::R1, 1));
        self.code.store(Size::B8, Reg::R6, offset, Source::Reg(Reg::R1));
        self.code.bind(out);
        Ok(())
    }

    fn acknowledged(&mut self) -> Result<(), Failure> {
        self.code.load(Size::B8, false, Reg::R7, Reg::R8, 24);
        let zero = self.word(ZERO_WORD)?;
        self.code.load(Size::B8, false, Reg::R9, Reg::R6, zero);
        // The size of a segment comes first: others are computed with it.
        self.signal(Signal::SegmentBytes)?;
        self.keep(column_of(Signal::SegmentBytes))?;
        let signals = Signal::ALL.into_iter().map(|(signal, ..)| signal);
        for signal in signals.filter(|signal| *signal != Signal::SegmentBytes) {
            let column = column_of(signal);
            if self.used.contains(&column) {
                self.signal(signal)?;
                self.keep(column)?;
            }
        }
        self.places()?;
        let end = self.code.label();
        for clause in &self.policy.clauses {
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
        self.code.bind(end);
        self.write_back()
    }

    /// Multiplies R1 with the size of a segment.
    fn segments(&mut self) -> Result<(), Failure> {
        self.kept(Reg::R2, column_of(Signal::SegmentBytes))?;
        self.code.alu(AluOp::Mul, Reg::R1, Source::Reg(Reg::R2));
        Ok(())
    }

    /// Sets a number to 0 that is negative.
    fn not_negative(&mut self, register: Reg) {
        let fine = self.code.label();
        self.code.branch(JumpOp::Sge, register, Source::Imm(0), fine);
        self.code.push(Insn::mov_imm(register, 0));
        self.code.bind(fine);
    }

    /// Reads a signal into R1.
    fn signal(&mut self, signal: Signal) -> Result<(), Failure> {
        match signal {
            Signal::PacketsAcked => self.field(Reg::R1, Reg::R7, "rate_sample", "acked_sacked")?,
            Signal::BytesAcked => {
                self.field(Reg::R1, Reg::R7, "rate_sample", "acked_sacked")?;
                self.segments()?;
            }
            Signal::LostPackets => {
                self.field(Reg::R1, Reg::R7, "rate_sample", "losses")?;
                self.not_negative(Reg::R1);
            }
            Signal::EcnPackets => {
                self.field(Reg::R1, Reg::R7, "rate_sample", "delivered_ce")?;
                self.not_negative(Reg::R1);
            }
            Signal::Now => self.now(),
            Signal::Rtt => {
                let measured = self.code.label();
                self.field(Reg::R1, Reg::R7, "rate_sample", "rtt_us")?;
                self.code.branch(JumpOp::Sgt, Reg::R1, Source::Imm(0), measured);
                self.signal(Signal::SmoothedRtt)?;
                self.code.bind(measured);
            }
            Signal::SmoothedRtt => {
                self.field(Reg::R1, Reg::R6, "tcp_sock", "srtt_us")?;
                self.code.alu(AluOp::Rsh, Reg::R1, Source::Imm(3));
            }
            Signal::RateIncoming => {
                self.field(Reg::R1, Reg::R7, "rate_sample", "delivered")?;
                self.not_negative(Reg::R1);
                self.segments()?;
                self.code.alu(AluOp::Mul, Reg::R1, Source::Imm(1_000_000));
                self.field(Reg::R2, Reg::R7, "rate_sample", "interval_us")?;
                // A division by 0 is 0.
                self.not_negative(Reg::R2);
                self.code.alu(AluOp::Div, Reg::R1, Source::Reg(Reg::R2));
            }
            Signal::PacketsInFlight => {
                self.field(Reg::R1, Reg::R6, "tcp_sock", "packets_out")?;
                for (name, op) in [("retrans_out", AluOp::Add), ("sacked_out", AluOp::Sub), ("lost_out", AluOp::Sub)] {
                    self.field(Reg::R2, Reg::R6, "tcp_sock", name)?;
                    self.code.alu(op, Reg::R1, Source::Reg(Reg::R2));
                }
                self.not_negative(Reg::R1);
            }
            Signal::BytesInFlight => {
                self.signal(Signal::PacketsInFlight)?;
                self.segments()?;
            }
            Signal::SegmentBytes => self.field(Reg::R1, Reg::R6, "tcp_sock", "mss_cache")?,
            Signal::WasTimeout => {
                let offset = self.word(1)?;
                self.code.load(Size::B8, false, Reg::R1, Reg::R6, offset);
            }
        }
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
            let offset = self.word(1)?;
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

    /// Hands the frame's record to user space, and sets volatile variables to what they were at first.
    fn report(&mut self) -> Result<(), Failure> {
        if let Some(ring) = self.ring {
            self.code.frame_address(Reg::R2, self.frame.start());
            self.code.map(Reg::R1, ring);
            self.code.push(Insn::mov_imm(Reg::R3, self.frame.record.bytes.into()));
            self.code.push(Insn::mov_imm(Reg::R4, 0));
            self.code.call("ringbuf_output");
        }
        let volatile = self.policy.variables.iter().enumerate().filter(|(_, variable)| variable.is_volatile);
        for (number, variable) in volatile {
            self.code.constant(Reg::R1, variable.initial);
            self.keep(Place::Variable(number).column())?;
        }
        Ok(())
    }
}
