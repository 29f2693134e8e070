//! Sockets: reads what their hooks know, and chooses a socket of a map.
//!
//! ```text
//!   sk_reuseport   the packet from the transport header on, and by its network header   reuseport_sockarray
//!   sk_lookup      addresses and ports in the context                                   sockmap
//! ```

use kiln_isa::{AluOp, ByteOrder, Insn, JumpOp, Reg, Size, Source};

use super::super::packet::{IPV4, IPV6, UDP_BYTES};
use super::super::{Field, PAYLOAD_WORDS, Transport};
use super::Writing;
use crate::generate::Failure;
use crate::generate::code::Label;

/// `SK_PASS`.
pub(super) const SK_PASS: i32 = 1;

/// `BPF_HDR_START_NET`: offsets are from the network header.
const FROM_NETWORK_HEADER: i32 = 1;
/// `BPF_SK_LOOKUP_F_NO_REUSEPORT`: the socket's group does not choose again.
const NO_REUSEPORT: i32 = 2;

/// Address families.
const AF_INET: i32 = 2;
const AF_INET6: i32 = 10;

/// Offsets in `struct sk_reuseport_md` and `struct bpf_sk_lookup`.
pub(super) mod context {
    /// The EtherType, two bytes in network order.
    pub const ETHER_TYPE: i16 = 20;
    /// The hash of addresses and ports.
    pub const HASH: i16 = 32;
    pub const FAMILY: i16 = 8;
    pub const PROTOCOL: i16 = 12;
    pub const REMOTE_IPV4: i16 = 16;
    /// The last eight of sixteen bytes.
    pub const REMOTE_IPV6_END: i16 = 28;
    /// Two bytes in network order.
    pub const REMOTE_PORT: i16 = 36;
    pub const LOCAL_IPV4: i16 = 40;
    /// As [`REMOTE_IPV6_END`].
    pub const LOCAL_IPV6_END: i16 = 52;
    /// Four bytes in the machine's order.
    pub const LOCAL_PORT: i16 = 60;
}

/// Offsets in IP headers: of the source, which the destination follows. Only the last eight bytes of IPv6's are read.
const IPV4_SOURCE: i32 = 12;
const IPV6_SOURCE_END: i32 = 16;

impl Writing<'_, '_> {
    /// Reads the fields of a packet for a group of sockets.
    pub(super) fn packet_fields(&mut self, transport: Transport, left: Label) -> Result<(), Failure> {
        self.constant(Field::Protocol, transport.number().into())?;
        if [Field::Version, Field::Source, Field::Destination].into_iter().any(|field| self.reads(field)) {
            let (ipv6, above) = (self.code.label(), self.code.label());
            self.code.load(Size::B4, false, Reg::R1, Reg::R6, context::ETHER_TYPE);
            self.code.push(Insn::Endian { order: ByteOrder::Big, size: Size::B2, dst: Reg::R1 });
            self.code.branch(JumpOp::Eq, Reg::R1, Source::Imm(IPV6.into()), ipv6);
            self.code.branch(JumpOp::Ne, Reg::R1, Source::Imm(IPV4.into()), left);
            self.constant(Field::Version, 4)?;
            self.address(Field::Source, IPV4_SOURCE, Size::B4)?;
            self.address(Field::Destination, IPV4_SOURCE + 4, Size::B4)?;
            self.code.jump(above);
            self.code.bind(ipv6);
            self.constant(Field::Version, 6)?;
            self.address(Field::Source, IPV6_SOURCE_END, Size::B8)?;
            self.address(Field::Destination, IPV6_SOURCE_END + 16, Size::B8)?;
            self.code.bind(above);
        }
        for (field, offset, size) in
            [(Field::SourcePort, 0, Size::B2), (Field::DestinationPort, 2, Size::B2), (Field::Header, 0, Size::B8)]
        {
            self.bytes_at(field, offset, size)?;
        }
        for word in 0..PAYLOAD_WORDS {
            self.bytes_at(Field::Payload(word), i32::from(UDP_BYTES) + 8 * i32::from(word), Size::B8)?;
        }
        Ok(())
    }

    /// Keeps an address of the IP header, if the policy reads it.
    fn address(&mut self, field: Field, offset: i32, size: Size) -> Result<(), Failure> {
        self.read(field, offset, size, Some(FROM_NETWORK_HEADER))
    }

    /// Keeps bytes from the transport header on, if the policy reads them.
    fn bytes_at(&mut self, field: Field, offset: i32, size: Size) -> Result<(), Failure> {
        self.read(field, offset, size, None)
    }

    /// Keeps a number in network order, if the policy reads it. The helper writes zeros where the packet is shorter.
    fn read(&mut self, field: Field, offset: i32, size: Size, from: Option<i32>) -> Result<(), Failure> {
        if !self.reads(field) {
            return Ok(());
        }
        let (place, _) = self.place(field)?;
        self.code.copy(Reg::R1, Reg::R6);
        self.code.push(Insn::mov_imm(Reg::R2, offset));
        self.code.frame_address(Reg::R3, place);
        self.code.push(Insn::mov_imm(Reg::R4, size.bytes() as i32));
        match from {
            Some(from) => {
                self.code.push(Insn::mov_imm(Reg::R5, from));
                self.code.call("skb_load_bytes_relative");
            }
            None => self.code.call("skb_load_bytes"),
        }
        self.code.load(size, false, Reg::R1, Reg::R10, place);
        self.code.push(Insn::Endian { order: ByteOrder::Big, size, dst: Reg::R1 });
        self.keep(field)
    }

    /// Reads the fields of a lookup. Those of other sockets than the policy's leave by `other`.
    pub(super) fn lookup_fields(
        &mut self,
        transport: Transport,
        [first, last]: [u16; 2],
        other: Label,
    ) -> Result<(), Failure> {
        self.code.load(Size::B4, false, Reg::R1, Reg::R6, context::PROTOCOL);
        self.code.branch(JumpOp::Ne, Reg::R1, Source::Imm(transport.number().into()), other);
        self.constant(Field::Protocol, transport.number().into())?;
        self.code.load(Size::B4, false, Reg::R1, Reg::R6, context::LOCAL_PORT);
        self.code.branch(JumpOp::Lt, Reg::R1, Source::Imm(first.into()), other);
        self.code.branch(JumpOp::Gt, Reg::R1, Source::Imm(last.into()), other);
        if self.reads(Field::DestinationPort) {
            self.keep(Field::DestinationPort)?;
        }
        self.field_at(Field::SourcePort, &[context::REMOTE_PORT], Size::B2)?;
        let (ipv6, done) = (self.code.label(), self.code.label());
        self.code.load(Size::B4, false, Reg::R1, Reg::R6, context::FAMILY);
        self.code.branch(JumpOp::Eq, Reg::R1, Source::Imm(AF_INET6), ipv6);
        self.code.branch(JumpOp::Ne, Reg::R1, Source::Imm(AF_INET), other);
        self.constant(Field::Version, 4)?;
        self.field_at(Field::Source, &[context::REMOTE_IPV4], Size::B4)?;
        self.field_at(Field::Destination, &[context::LOCAL_IPV4], Size::B4)?;
        self.code.jump(done);
        self.code.bind(ipv6);
        self.constant(Field::Version, 6)?;
        let words = |end: i16| [end, end + 4];
        self.field_at(Field::Source, &words(context::REMOTE_IPV6_END), Size::B4)?;
        self.field_at(Field::Destination, &words(context::LOCAL_IPV6_END), Size::B4)?;
        self.code.bind(done);
        Ok(())
    }

    /// Keeps a number that the context has in network order, in these words, if the policy reads it.
    fn field_at(&mut self, field: Field, words: &[i16], size: Size) -> Result<(), Failure> {
        if !self.reads(field) {
            return Ok(());
        }
        self.code.push(Insn::mov_imm(Reg::R2, 0));
        for offset in words {
            self.code.load(size, false, Reg::R1, Reg::R6, *offset);
            self.code.push(Insn::Endian { order: ByteOrder::Big, size, dst: Reg::R1 });
            self.code.alu(AluOp::Lsh, Reg::R2, Source::Imm(32));
            self.code.alu(AluOp::Or, Reg::R2, Source::Reg(Reg::R1));
        }
        self.code.copy(Reg::R1, Reg::R2);
        self.keep(field)
    }

    /// Gives the packet to the socket of the executor in R1, one of the group.
    pub(super) fn select(&mut self, left: Label) {
        self.code.store(Size::B4, Reg::R10, self.frame.pair_key, Source::Reg(Reg::R1));
        self.code.copy(Reg::R1, Reg::R6);
        self.code.map(Reg::R2, self.maps.targets);
        self.code.frame_address(Reg::R3, self.frame.pair_key);
        self.code.push(Insn::mov_imm(Reg::R4, 0));
        self.code.call("sk_select_reuseport");
        self.code.branch(JumpOp::Ne, Reg::R0, Source::Imm(0), left);
        self.chosen();
    }

    /// Gives the lookup the socket of the executor in R1.
    pub(super) fn assign(&mut self, left: Label) {
        self.code.store(Size::B4, Reg::R10, self.frame.pair_key, Source::Reg(Reg::R1));
        self.code.look_up(self.maps.targets, self.frame.pair_key);
        self.code.branch(JumpOp::Eq, Reg::R0, Source::Imm(0), left);
        self.code.copy(Reg::R7, Reg::R0);
        self.code.copy(Reg::R1, Reg::R6);
        self.code.copy(Reg::R2, Reg::R7);
        self.code.push(Insn::mov_imm(Reg::R3, NO_REUSEPORT));
        self.code.call("sk_assign");
        self.code.copy(Reg::R8, Reg::R0);
        self.code.copy(Reg::R1, Reg::R7);
        self.code.call("sk_release");
        self.code.branch(JumpOp::Ne, Reg::R8, Source::Imm(0), left);
        self.chosen();
    }

    /// Counts the packet for the executor whose number is in the frame, and ends.
    fn chosen(&mut self) {
        let counted = self.code.label();
        self.add_one(counted);
        self.code.bind(counted);
        self.code.push(Insn::mov_imm(Reg::R0, SK_PASS));
        self.code.push(Insn::Exit);
    }
}
