//! XDP: reads a frame, and sends it to the processors of a `cpumap`.
//!
//! R6 is the context, R7 the part of the packet that is read next, R8 its end. Every access is behind a comparison with
//! the end.

use kiln_isa::{AluOp, ByteOrder, Insn, JumpOp, Reg, Size, Source};
use kiln_program::MapId;

use super::super::packet::{
    ETHERNET_BYTES, FRAGMENT, IPV4, IPV4_BYTES, IPV6, IPV6_BYTES, TCP, TCP_BYTES, UDP, UDP_BYTES,
};
use super::super::{Above, Field, PAYLOAD_WORDS};
use super::Writing;
use crate::generate::Failure;
use crate::generate::code::Label;

/// `XDP_PASS`.
pub(super) const XDP_PASS: i32 = 2;

impl Writing<'_, '_> {
    /// Reads the fields of a frame.
    pub(super) fn frame_fields(&mut self, left: Label) -> Result<(), Failure> {
        self.code.load(Size::B4, false, Reg::R7, Reg::R6, 0);
        self.code.load(Size::B4, false, Reg::R8, Reg::R6, 4);
        self.bytes()?;
        self.headers(left)
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

    /// Sends the packet to the executor in R1.
    pub(super) fn redirect(&mut self, processors: MapId, left: Label) {
        self.code.store(Size::B4, Reg::R10, self.frame.pair_key, Source::Reg(Reg::R1));
        self.code.look_up(processors, self.frame.pair_key);
        self.code.branch(JumpOp::Eq, Reg::R0, Source::Imm(0), left);
        self.code.load(Size::B4, false, Reg::R7, Reg::R0, 0);
        let counted = self.code.label();
        self.add_one(counted);
        self.code.bind(counted);
        self.code.map(Reg::R1, self.maps.targets);
        self.code.copy(Reg::R2, Reg::R7);
        self.code.push(Insn::mov_imm(Reg::R3, XDP_PASS));
        self.code.call("redirect_map");
        self.code.push(Insn::Exit);
    }
}
