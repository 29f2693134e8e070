//! The program of a policy: XDP, to the processors of a `cpumap`.
//!
//! R6 is the context, R7 the part of the packet that is read next, R8 its end. Every access is behind a comparison with
//! the end, branches lead forward only, and what is not decided leaves by one exit, `XDP_PASS`.

use kiln_isa::{AluOp, AtomicOp, ByteOrder, Insn, JumpOp, Reg, Size, Source};
use kiln_platform::{AttachType, MapType, ProgramType};
use kiln_program::{Function, FunctionId, Linkage, MapId, Object, Program};

use super::packet::{ETHERNET_BYTES, FRAGMENT, IPV4, IPV4_BYTES, IPV6, IPV6_BYTES, TCP, TCP_BYTES, UDP, UDP_BYTES};
use super::{Above, Field, PAYLOAD_WORDS, Policy, table};
use crate::generate::code::{Code, Label};
use crate::generate::expression::Writer;
use crate::generate::frame::Frame;
use crate::generate::layout::{Record, SlotKind};
use crate::generate::{Failure, add_map};
use crate::table::Scalar;

/// `XDP_PASS`.
const XDP_PASS: i32 = 2;

/// Where `xdp_md` has the interface's number.
const INTERFACE_INDEX: i16 = 12;

/// A policy's program and maps.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The program, in the section `xdp`.
    pub object: Object,
    /// The processor of each executor, an array of 32-bit numbers.
    pub executors: MapId,
    /// What the kernel knows of the processors: the bytes of a queue by the processor's number.
    pub processors: MapId,
    /// How many packets each executor got, and behind them how many were left to the kernel: an array a processor.
    pub chosen: MapId,
}

/// Writes the program of a policy, for processors with numbers below `processors`.
///
/// # Errors
/// [`Failure::Frame`] if the expression has too many intermediate values.
pub fn generate(policy: &Policy, processors: u32) -> Result<Generated, Failure> {
    let fields = policy.fields();
    let columns = Field::all().enumerate().filter(|(_, field)| fields.contains(field));
    let slots = columns.map(|(column, _)| (Some(column), SlotKind::Number(Scalar::unsigned(8)))).collect();
    // The place of a pair's key holds the key of a lookup.
    let frame = Frame::new(Record::new(slots, None), 8, 0, 0)?;
    let mut object = Object { name: "dispatch".to_owned(), license: "GPL".to_owned(), ..Object::default() };
    let generated = |object| Generated { object, executors: MapId(0), processors: MapId(1), chosen: MapId(2) };
    add_map(&mut object, "executors", MapType::Array, [4, 4], policy.executors);
    add_map(&mut object, "processors", MapType::Cpumap, [4, 4], processors);
    add_map(&mut object, "chosen", MapType::PercpuArray, [4, 8], policy.executors + 1);
    let count = add_map(&mut object, "count", MapType::Array, [4, 8], 1);
    let maps = Maps { executors: MapId(0), processors: MapId(1), chosen: MapId(2), count };
    let mut writing = Writing { code: Code::new(&mut object), policy, fields: &fields, frame: &frame, maps };
    writing.program()?;
    let nodes = writing.code.finish();
    let (name, section) = ("schedule".to_owned(), "xdp".to_owned());
    let linkage = Linkage::Global;
    object.functions.push(Function { name: name.clone(), section: section.clone(), linkage, btf_id: 0, nodes });
    object.programs.push(Program {
        attach_type: Some(AttachType::Xdp),
        ..Program::new(name, section, Some(ProgramType::Xdp), FunctionId(0))
    });
    Ok(generated(object))
}

#[derive(Clone, Copy)]
struct Maps {
    executors: MapId,
    processors: MapId,
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
    fn program(&mut self) -> Result<(), Failure> {
        let left = self.code.label();
        self.code.copy(Reg::R6, Reg::R1);
        self.code.load(Size::B4, false, Reg::R7, Reg::R6, 0);
        self.code.load(Size::B4, false, Reg::R8, Reg::R6, 4);
        self.bytes()?;
        self.headers(left)?;
        self.count(left)?;
        let table = table();
        self.unknown_zero();
        let writer = Writer { table: &table, frame: self.frame, unknown_zero: Some(Reg::R9) };
        writer.number(&mut self.code, &self.policy.chosen, 0)?;
        self.code.branch(JumpOp::Ge, Reg::R1, Source::Imm(self.policy.executors as i32), left);
        self.redirect(left);
        self.code.bind(left);
        self.code.store(Size::B4, Reg::R10, self.frame.pair_key, Source::Imm(self.policy.executors as i32));
        let out = self.code.label();
        self.add_one(out);
        self.code.bind(out);
        self.code.push(Insn::mov_imm(Reg::R0, XDP_PASS));
        self.code.push(Insn::Exit);
        Ok(())
    }

    fn reads(&self, field: Field) -> bool {
        self.fields.contains(&field)
    }

    /// Stores R1 as a field, if the policy reads it.
    fn keep(&mut self, field: Field) -> Result<(), Failure> {
        let column = Field::all().position(|other| other == field).unwrap_or_default();
        let (offset, _) = self.frame.column(column)?;
        self.code.store(Size::B8, Reg::R10, offset, Source::Reg(Reg::R1));
        Ok(())
    }

    /// Loads a number in network order from the packet and keeps it, if the policy reads it.
    fn copy(&mut self, field: Field, size: Size, offset: u16) -> Result<(), Failure> {
        if self.reads(field) {
            self.number(Reg::R1, size, offset);
            self.keep(field)?;
        }
        Ok(())
    }

    /// Loads a number in network order from the packet.
    fn number(&mut self, dst: Reg, size: Size, offset: u16) {
        self.code.load(size, false, dst, Reg::R7, offset as i16);
        if size != Size::B1 {
            self.code.push(Insn::Endian { order: ByteOrder::Big, size, dst });
        }
    }

    /// Keeps a constant, if the policy reads it.
    fn constant(&mut self, field: Field, value: i32) -> Result<(), Failure> {
        if self.reads(field) {
            self.code.push(Insn::mov_imm(Reg::R1, value));
            self.keep(field)?;
        }
        Ok(())
    }

    /// Leaves unless this many bytes follow R7.
    fn there_are(&mut self, bytes: u16, left: Label) {
        self.code.copy(Reg::R1, Reg::R7);
        self.code.alu(AluOp::Add, Reg::R1, Source::Imm(bytes.into()));
        self.code.branch(JumpOp::Gt, Reg::R1, Source::Reg(Reg::R8), left);
    }

    fn bytes(&mut self) -> Result<(), Failure> {
        if self.reads(Field::Bytes) {
            self.code.copy(Reg::R1, Reg::R8);
            self.code.alu(AluOp::Sub, Reg::R1, Source::Reg(Reg::R7));
            self.keep(Field::Bytes)?;
        }
        Ok(())
    }

    /// Reads Ethernet, IP and what is above it. R9 is the protocol above IP.
    fn headers(&mut self, left: Label) -> Result<(), Failure> {
        let (ipv6, above) = (self.code.label(), self.code.label());
        self.there_are(ETHERNET_BYTES, left);
        self.number(Reg::R1, Size::B2, 12);
        self.code.alu(AluOp::Add, Reg::R7, Source::Imm(ETHERNET_BYTES.into()));
        self.code.copy(Reg::R2, Reg::R1);
        self.code.branch(JumpOp::Eq, Reg::R2, Source::Imm(IPV6.into()), ipv6);
        self.code.branch(JumpOp::Ne, Reg::R2, Source::Imm(IPV4.into()), left);
        self.ipv4(left)?;
        self.code.jump(above);
        self.code.bind(ipv6);
        self.ipv6(left)?;
        self.code.bind(above);
        if self.policy.above != Above::Ip {
            self.above_ip(left)?;
        }
        Ok(())
    }

    fn ipv4(&mut self, left: Label) -> Result<(), Failure> {
        self.there_are(IPV4_BYTES, left);
        self.constant(Field::Version, 4)?;
        self.copy(Field::Protocol, Size::B1, 9)?;
        self.copy(Field::Source, Size::B4, 12)?;
        self.copy(Field::Destination, Size::B4, 16)?;
        if self.policy.above != Above::Ip {
            self.number(Reg::R1, Size::B2, 6);
            self.code.alu(AluOp::And, Reg::R1, Source::Imm(FRAGMENT.into()));
            self.code.branch(JumpOp::Ne, Reg::R1, Source::Imm(0), left);
        }
        self.number(Reg::R9, Size::B1, 9);
        self.number(Reg::R1, Size::B1, 0);
        self.code.alu(AluOp::And, Reg::R1, Source::Imm(15));
        self.code.alu(AluOp::Lsh, Reg::R1, Source::Imm(2));
        self.code.branch(JumpOp::Lt, Reg::R1, Source::Imm(IPV4_BYTES.into()), left);
        self.code.alu(AluOp::Add, Reg::R7, Source::Reg(Reg::R1));
        Ok(())
    }

    fn ipv6(&mut self, left: Label) -> Result<(), Failure> {
        self.there_are(IPV6_BYTES, left);
        self.constant(Field::Version, 6)?;
        self.copy(Field::Protocol, Size::B1, 6)?;
        self.copy(Field::Source, Size::B8, 16)?;
        self.copy(Field::Destination, Size::B8, 32)?;
        self.number(Reg::R9, Size::B1, 6);
        self.code.alu(AluOp::Add, Reg::R7, Source::Imm(IPV6_BYTES.into()));
        Ok(())
    }

    /// Reads the header above IP and the payload.
    fn above_ip(&mut self, left: Label) -> Result<(), Failure> {
        self.there_are(UDP_BYTES, left);
        self.copy(Field::SourcePort, Size::B2, 0)?;
        self.copy(Field::DestinationPort, Size::B2, 2)?;
        self.copy(Field::Header, Size::B8, 0)?;
        let (tcp, payload) = (self.code.label(), self.code.label());
        match self.policy.above {
            Above::Udp => self.code.branch(JumpOp::Ne, Reg::R9, Source::Imm(UDP.into()), left),
            Above::Tcp => self.code.branch(JumpOp::Ne, Reg::R9, Source::Imm(TCP.into()), left),
            Above::Ports | Above::Ip => {
                self.code.branch(JumpOp::Eq, Reg::R9, Source::Imm(TCP.into()), tcp);
                self.code.branch(JumpOp::Ne, Reg::R9, Source::Imm(UDP.into()), left);
            }
        }
        if self.policy.above != Above::Tcp {
            self.code.alu(AluOp::Add, Reg::R7, Source::Imm(UDP_BYTES.into()));
            self.code.jump(payload);
        }
        if self.policy.above != Above::Udp {
            self.code.bind(tcp);
            self.there_are(TCP_BYTES, left);
            self.number(Reg::R1, Size::B1, 12);
            self.code.alu(AluOp::Rsh, Reg::R1, Source::Imm(4));
            self.code.alu(AluOp::Lsh, Reg::R1, Source::Imm(2));
            self.code.alu(AluOp::Add, Reg::R7, Source::Reg(Reg::R1));
        }
        self.code.bind(payload);
        for word in 0..PAYLOAD_WORDS {
            let field = Field::Payload(word);
            if !self.reads(field) {
                continue;
            }
            let past = self.code.label();
            self.code.push(Insn::mov_imm(Reg::R1, 0));
            self.keep(field)?;
            self.there_are(8 * (u16::from(word) + 1), past);
            self.copy(field, Size::B8, 8 * u16::from(word))?;
            self.code.bind(past);
        }
        Ok(())
    }

    /// Reads and adds to the number of packets that the policy decided.
    fn count(&mut self, left: Label) -> Result<(), Failure> {
        if !self.reads(Field::Count) {
            return Ok(());
        }
        self.code.store(Size::B4, Reg::R10, self.frame.pair_key, Source::Imm(0));
        self.code.frame_address(Reg::R2, self.frame.pair_key);
        self.code.map(Reg::R1, self.maps.count);
        self.code.call("map_lookup_elem");
        self.code.branch(JumpOp::Eq, Reg::R0, Source::Imm(0), left);
        self.code.push(Insn::mov_imm(Reg::R1, 1));
        let address = kiln_isa::Address { base: Reg::R0, offset: 0 };
        self.code.push(Insn::Atomic { op: AtomicOp::Add, fetch: true, size: Size::B8, address, src: Reg::R1 });
        self.keep(Field::Count)
    }

    /// Makes R9 a zero that no verifier knows: a number, exclusive or itself.
    fn unknown_zero(&mut self) {
        self.code.load(Size::B4, false, Reg::R9, Reg::R6, INTERFACE_INDEX);
        self.code.copy(Reg::R1, Reg::R9);
        self.code.alu(AluOp::Lsh, Reg::R1, Source::Imm(32));
        self.code.alu(AluOp::Or, Reg::R9, Source::Reg(Reg::R1));
        self.code.copy(Reg::R1, Reg::R9);
        self.code.alu(AluOp::Xor, Reg::R9, Source::Reg(Reg::R1));
    }

    /// Sends the packet to the executor in R1.
    fn redirect(&mut self, left: Label) {
        self.code.store(Size::B4, Reg::R10, self.frame.pair_key, Source::Reg(Reg::R1));
        self.code.frame_address(Reg::R2, self.frame.pair_key);
        self.code.map(Reg::R1, self.maps.executors);
        self.code.call("map_lookup_elem");
        self.code.branch(JumpOp::Eq, Reg::R0, Source::Imm(0), left);
        self.code.load(Size::B4, false, Reg::R7, Reg::R0, 0);
        let counted = self.code.label();
        self.add_one(counted);
        self.code.bind(counted);
        self.code.map(Reg::R1, self.maps.processors);
        self.code.copy(Reg::R2, Reg::R7);
        self.code.push(Insn::mov_imm(Reg::R3, XDP_PASS));
        self.code.call("redirect_map");
        self.code.push(Insn::Exit);
    }

    /// Adds one to the count whose key is in the frame.
    fn add_one(&mut self, absent: Label) {
        self.code.frame_address(Reg::R2, self.frame.pair_key);
        self.code.map(Reg::R1, self.maps.chosen);
        self.code.call("map_lookup_elem");
        self.code.branch(JumpOp::Eq, Reg::R0, Source::Imm(0), absent);
        self.code.load(Size::B8, false, Reg::R1, Reg::R0, 0);
        self.code.alu(AluOp::Add, Reg::R1, Source::Imm(1));
        self.code.store(Size::B8, Reg::R0, 0, Source::Reg(Reg::R1));
    }
}
