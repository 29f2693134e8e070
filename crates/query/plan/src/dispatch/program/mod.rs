//! The program of a policy: reads the fields, computes over the frame, and gives the packet to the executor.
//!
//! ```text
//!   xdp            packet.rs   frames in the driver        executors are processors of a cpumap
//!   sk_reuseport   socket.rs   packets of a port's group   executors are sockets of a reuseport_sockarray
//!   sk_lookup      socket.rs   lookups of a port           executors are sockets of a sockmap
//! ```
//!
//! R6 is the context. Branches lead forward only, and what is not decided leaves by one exit that lets the packet pass.

mod packet;
mod socket;

use kiln_isa::{AluOp, AtomicOp, Insn, JumpOp, Reg, Size, Source};
use kiln_platform::{AttachType, MapType};
use kiln_program::{Function, FunctionId, Linkage, MapId, Object, Program};

use super::{Field, Hook, Policy, table};
use crate::generate::code::{Code, Label};
use crate::generate::expression::Writer;
use crate::generate::frame::Frame;
use crate::generate::layout::{Record, SlotKind};
use crate::generate::{Failure, add_map};
use crate::table::Scalar;

/// A policy's program and maps.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The program, in the section of its hook.
    pub object: Object,
    /// What packets are given to. At XDP the bytes of a queue by the processor's number, else the socket of each executor.
    pub targets: MapId,
    /// At XDP, the processor of each executor: an array of 32-bit numbers.
    pub processors: Option<MapId>,
    /// How many packets each executor got, and behind them how many were left to the kernel: an array a processor.
    pub chosen: MapId,
}

/// Writes the program of a policy.
///
/// # Errors
/// [`Failure::Frame`] if the expression has too many intermediate values.
pub fn generate(policy: &Policy) -> Result<Generated, Failure> {
    let fields = policy.fields();
    let columns = Field::all().enumerate().filter(|(_, field)| fields.contains(field));
    let slots = columns.map(|(column, _)| (Some(column), SlotKind::Number(Scalar::unsigned(8)))).collect();
    // The place of a pair's key holds the key of a lookup.
    let frame = Frame::new(Record::new(slots, None), [8, 0, 0], 0)?;
    let mut object = Object { name: "dispatch".to_owned(), license: "GPL".to_owned(), ..Object::default() };
    let (map_type, entries, attach_type) = match policy.at {
        Hook::Xdp { processors } => (MapType::Cpumap, processors, AttachType::Xdp),
        Hook::Reuseport(_) => (MapType::ReuseportSockarray, policy.executors, AttachType::SkReuseportSelect),
        Hook::Lookup { .. } => (MapType::Sockmap, policy.executors, AttachType::SkLookup),
    };
    let targets = add_map(&mut object, "targets", map_type, [4, 4], entries);
    let chosen = add_map(&mut object, "chosen", MapType::PercpuArray, [4, 8], policy.executors + 1);
    let count = add_map(&mut object, "count", MapType::Array, [4, 8], 1);
    let is_xdp = matches!(policy.at, Hook::Xdp { .. });
    let processors = is_xdp.then(|| add_map(&mut object, "processors", MapType::Array, [4, 4], policy.executors));
    let maps = Maps { targets, chosen, count };
    let mut writing = Writing { code: Code::new(&mut object), policy, fields: &fields, frame: &frame, maps };
    writing.program(processors)?;
    let nodes = writing.code.finish();
    let (name, section) = ("schedule", policy.at.name());
    object.functions.push(Function::new(name, section, Linkage::Global, nodes));
    object.programs.push(Program {
        attach_type: Some(attach_type),
        ..Program::new(name, section, Some(policy.at.program_type()), FunctionId(0))
    });
    Ok(Generated { object, targets, processors, chosen })
}

/// Where `xdp_md` has the interface's number.
const INTERFACE_INDEX: i16 = 12;

#[derive(Clone, Copy)]
struct Maps {
    targets: MapId,
    chosen: MapId,
    count: MapId,
}

struct Writing<'w, 'o> {
    code: Code<'o>,
    policy: &'w Policy,
    fields: &'w [Field],
    frame: &'w Frame,
    maps: Maps,
}

impl Writing<'_, '_> {
    fn program(&mut self, processors: Option<MapId>) -> Result<(), Failure> {
        let (left, other) = (self.code.label(), self.code.label());
        self.code.copy(Reg::R6, Reg::R1);
        match self.policy.at {
            Hook::Xdp { .. } => self.frame_fields(left)?,
            Hook::Reuseport(transport) => self.packet_fields(transport, left)?,
            Hook::Lookup { transport, ports } => self.lookup_fields(transport, ports, other)?,
        }
        self.count(left)?;
        let table = table();
        self.unknown_zero();
        let writer = Writer { table: &table, frame: self.frame, unknown_zero: Some(Reg::R9) };
        writer.number(&mut self.code, &self.policy.chosen, 0)?;
        self.code.branch(JumpOp::Ge, Reg::R1, Source::Imm(self.policy.executors as i32), left);
        match (self.policy.at, processors) {
            (_, Some(processors)) => self.redirect(processors, left),
            (Hook::Reuseport(_), None) => self.select(left),
            (_, None) => self.assign(left),
        }
        self.code.bind(left);
        self.code.store(Size::B4, Reg::R10, self.frame.pair_key, Source::Imm(self.policy.executors as i32));
        self.add_one(other);
        self.code.bind(other);
        let pass = if matches!(self.policy.at, Hook::Xdp { .. }) { packet::XDP_PASS } else { socket::SK_PASS };
        self.code.push(Insn::mov_imm(Reg::R0, pass));
        self.code.push(Insn::Exit);
        Ok(())
    }

    fn reads(&self, field: Field) -> bool {
        self.fields.contains(&field)
    }

    /// Where a field is in the frame.
    fn place(&self, field: Field) -> Result<(i16, SlotKind), Failure> {
        let column = Field::all().position(|other| other == field).unwrap_or_default();
        self.frame.column(column)
    }

    /// Stores R1 as a field that the policy reads.
    fn keep(&mut self, field: Field) -> Result<(), Failure> {
        let (offset, _) = self.place(field)?;
        self.code.store(Size::B8, Reg::R10, offset, Source::Reg(Reg::R1));
        Ok(())
    }

    /// Keeps a constant, if the policy reads it.
    fn constant(&mut self, field: Field, value: i32) -> Result<(), Failure> {
        if self.reads(field) {
            self.code.push(Insn::mov_imm(Reg::R1, value));
            self.keep(field)?;
        }
        Ok(())
    }

    /// Reads and adds to the number of packets that the policy decided.
    fn count(&mut self, left: Label) -> Result<(), Failure> {
        if !self.reads(Field::Count) {
            return Ok(());
        }
        self.code.store(Size::B4, Reg::R10, self.frame.pair_key, Source::Imm(0));
        self.code.look_up(self.maps.count, self.frame.pair_key);
        self.code.branch(JumpOp::Eq, Reg::R0, Source::Imm(0), left);
        self.code.push(Insn::mov_imm(Reg::R1, 1));
        let address = kiln_isa::Address { base: Reg::R0, offset: 0 };
        self.code.push(Insn::Atomic { op: AtomicOp::Add, fetch: true, size: Size::B8, address, src: Reg::R1 });
        self.keep(Field::Count)
    }

    /// Makes R9 a zero that no verifier knows: a number, exclusive or itself.
    fn unknown_zero(&mut self) {
        let (size, number) = match self.policy.at {
            Hook::Xdp { .. } => (Size::B4, INTERFACE_INDEX),
            Hook::Reuseport(_) => (Size::B4, socket::context::HASH),
            Hook::Lookup { .. } => (Size::B2, socket::context::REMOTE_PORT),
        };
        self.code.load(size, false, Reg::R9, Reg::R6, number);
        self.code.copy(Reg::R1, Reg::R9);
        self.code.alu(AluOp::Lsh, Reg::R1, Source::Imm(32));
        self.code.alu(AluOp::Or, Reg::R9, Source::Reg(Reg::R1));
        self.code.copy(Reg::R1, Reg::R9);
        self.code.alu(AluOp::Xor, Reg::R9, Source::Reg(Reg::R1));
    }

    /// Adds one to the count whose key is in the frame.
    fn add_one(&mut self, absent: Label) {
        self.code.look_up(self.maps.chosen, self.frame.pair_key);
        self.code.branch(JumpOp::Eq, Reg::R0, Source::Imm(0), absent);
        self.code.load(Size::B8, false, Reg::R1, Reg::R0, 0);
        self.code.alu(AluOp::Add, Reg::R1, Source::Imm(1));
        self.code.store(Size::B8, Reg::R0, 0, Source::Reg(Reg::R1));
    }
}
