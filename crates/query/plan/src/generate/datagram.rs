//! Datagrams: their headers are copied into the frame before anything else is read; other packets are no events.
//!
//! ```text
//!   scratch +0                  +40                    +64        +72      +76
//!           40 bytes of IPv4    UDP header, 12 bytes   payload's  bytes    32 bits of the
//!           or IPv6             of what it carries     address    of it    other address
//! ```
//!
//! A packet's data may be in pages behind it. Only what is in the packet itself is read: the payload's bytes end there.
//! Headers of IPv6 between the first one and UDP are not followed.

use kiln_isa::{AluOp, Insn, JumpOp, Reg, Size, Source as Operand};

use super::code::{Code, Label};
use super::failure::Failure;
use super::frame::DATAGRAM_BYTES;
use super::layout::{Origin, behind, size};
use super::writing::Writing;
use crate::table::{Direction, Hook, Read};

/// Bytes of IPv4's first header with UDP's and 12 more, and of IPv6's.
const NETWORK_BYTES: i32 = 40;
/// Bytes of UDP's header and of the first 12 that it carries.
const USER_BYTES: i32 = 20;
/// Where all of it is in the scratch.
const USER: i16 = Read::SOURCE_PORT;
const PAYLOAD: i16 = 64;
const LENGTH: i16 = 72;
const OTHER: i16 = 76;
const _: () = assert!(OTHER as u16 + 4 == DATAGRAM_BYTES);
/// EtherTypes and the protocol's number.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const UDP: i32 = 17;

impl Writing<'_> {
    /// What the program's hook wants of packets.
    pub(super) fn datagram(&self) -> Option<(Direction, u16)> {
        let sides = self.query.table.sides();
        let (_, hook) = sides.into_iter().find(|(side, _)| *side == self.side)?;
        if let Hook::Datagram { direction, port, .. } = hook { Some((*direction, *port)) } else { None }
    }

    /// Copies the headers of a datagram, and exits if the packet is none or has another port. R8 is the packet, R9 the
    /// address of the header.
    pub(super) fn open_datagram(
        &self,
        code: &mut Code<'_>,
        direction: Direction,
        port: u16,
        out: Label,
    ) -> Result<(), Failure> {
        let at = self.frame.scratch;
        let (newer, common) = (code.label(), code.label());
        code.load(Size::B8, false, Reg::R8, Reg::R6, 0);
        let member = |code: &mut Code<'_>, to: Reg, name: &str| -> Result<(), Failure> {
            let member = [vec![("sk_buff".to_owned(), name.to_owned())]];
            let Origin::Hooks(types) = self.origin else { return Err(Failure::NotHere("a packet".to_owned())) };
            let found = behind(&member, types).map_err(Failure::Kernel)?;
            let far = || Failure::Kernel(format!("`sk_buff.{name}` is too far into its structure"));
            let offset = i16::try_from(found.offsets[0]).map_err(|_| far())?;
            code.load(size(found.scalar), false, to, Reg::R8, offset);
            Ok(())
        };
        // Since Linux 6.17 a loaded pointer to bytes is memory that takes no arithmetic; one that is copied is a number.
        let address = |code: &mut Code<'_>, name: &str| -> Result<(), Failure> {
            code.copy(Reg::R1, Reg::R8);
            self.behind(code, &[vec![("sk_buff".to_owned(), name.to_owned())]])
        };
        // Where the header begins, and where the packet's own data end.
        address(code, "data")?;
        code.store(Size::B8, Reg::R10, at + PAYLOAD, Operand::Reg(Reg::R1));
        match direction {
            Direction::From => code.copy(Reg::R9, Reg::R1),
            Direction::To => {
                address(code, "head")?;
                code.copy(Reg::R9, Reg::R1);
                member(code, Reg::R2, "network_header")?;
                code.alu(AluOp::Add, Reg::R9, Operand::Reg(Reg::R2));
            }
        }
        code.load(Size::B8, false, Reg::R1, Reg::R10, at + PAYLOAD);
        member(code, Reg::R2, "len")?;
        code.alu(AluOp::Add, Reg::R1, Operand::Reg(Reg::R2));
        member(code, Reg::R2, "data_len")?;
        code.alu(AluOp::Sub, Reg::R1, Operand::Reg(Reg::R2));
        code.store(Size::B8, Reg::R10, at + PAYLOAD, Operand::Reg(Reg::R1));
        self.copy_header(code, at, NETWORK_BYTES, out);

        member(code, Reg::R1, "protocol")?;
        code.branch(JumpOp::Eq, Reg::R1, Operand::Imm(IPV6.to_be().into()), newer);
        code.branch(JumpOp::Ne, Reg::R1, Operand::Imm(IPV4.to_be().into()), out);
        code.load(Size::B1, false, Reg::R1, Reg::R10, at + 9);
        code.branch(JumpOp::Ne, Reg::R1, Operand::Imm(UDP), out);
        // A later fragment has no header of UDP.
        code.load(Size::B2, false, Reg::R1, Reg::R10, at + 6);
        code.alu(AluOp::And, Reg::R1, Operand::Imm(0x1fff_u16.to_be().into()));
        code.branch(JumpOp::Ne, Reg::R1, Operand::Imm(0), out);
        code.load(Size::B1, false, Reg::R1, Reg::R10, at);
        code.alu(AluOp::And, Reg::R1, Operand::Imm(0xf));
        code.alu(AluOp::Lsh, Reg::R1, Operand::Imm(2));
        code.alu(AluOp::Add, Reg::R9, Operand::Reg(Reg::R1));
        let [v4, v6, ports] = match direction {
            Direction::To => [16, 36, Read::TARGET_PORT],
            Direction::From => [12, 20, Read::SOURCE_PORT],
        };
        code.load(Size::B4, false, Reg::R1, Reg::R10, at + v4);
        code.jump(common);
        code.bind(newer);
        code.load(Size::B1, false, Reg::R1, Reg::R10, at + 6);
        code.branch(JumpOp::Ne, Reg::R1, Operand::Imm(UDP), out);
        code.alu(AluOp::Add, Reg::R9, Operand::Imm(NETWORK_BYTES));
        code.load(Size::B4, false, Reg::R1, Reg::R10, at + v6);
        code.bind(common);
        code.store(Size::B4, Reg::R10, at + OTHER, Operand::Reg(Reg::R1));
        self.copy_header(code, at + USER, USER_BYTES, out);
        code.load(Size::B2, false, Reg::R1, Reg::R10, at + ports);
        code.branch(JumpOp::Ne, Reg::R1, Operand::Imm(port.to_be().into()), out);
        code.alu(AluOp::Add, Reg::R9, Operand::Imm(8));
        code.load(Size::B8, false, Reg::R1, Reg::R10, at + PAYLOAD);
        code.alu(AluOp::Sub, Reg::R1, Operand::Reg(Reg::R9));
        code.store(Size::B4, Reg::R10, at + LENGTH, Operand::Reg(Reg::R1));
        code.store(Size::B8, Reg::R10, at + PAYLOAD, Operand::Reg(Reg::R9));
        Ok(())
    }

    /// Copies bytes from R9 into the frame; exits if the packet ends before.
    fn copy_header(&self, code: &mut Code<'_>, to: i16, bytes: i32, out: Label) {
        code.load(Size::B8, false, Reg::R1, Reg::R10, self.frame.scratch + PAYLOAD);
        code.alu(AluOp::Sub, Reg::R1, Operand::Reg(Reg::R9));
        code.branch(JumpOp::Slt, Reg::R1, Operand::Imm(bytes), out);
        code.frame_address(Reg::R1, to);
        code.push(Insn::mov_imm(Reg::R2, bytes));
        code.copy(Reg::R3, Reg::R9);
        code.call("probe_read_kernel");
        code.branch(JumpOp::Ne, Reg::R0, Operand::Imm(0), out);
    }

    /// Makes [`Read::Conversation`] in R1.
    pub(super) fn conversation(&self, code: &mut Code<'_>) -> Result<(), Failure> {
        let at = self.frame.scratch;
        let (direction, _) = self.datagram().ok_or_else(|| Failure::NotHere("a datagram".to_owned()))?;
        let asker = if direction == Direction::To { Read::SOURCE_PORT } else { Read::TARGET_PORT };
        code.load(Size::B2, false, Reg::R1, Reg::R10, at + Read::CARRIED);
        code.load(Size::B2, false, Reg::R2, Reg::R10, at + asker);
        code.alu(AluOp::Lsh, Reg::R2, Operand::Imm(16));
        code.alu(AluOp::Or, Reg::R1, Operand::Reg(Reg::R2));
        code.load(Size::B4, false, Reg::R2, Reg::R10, at + OTHER);
        code.alu(AluOp::Lsh, Reg::R2, Operand::Imm(32));
        code.alu(AluOp::Or, Reg::R1, Operand::Reg(Reg::R2));
        Ok(())
    }

    /// Copies the first bytes of what a datagram carries, with zeros behind them.
    pub(super) fn payload(&self, code: &mut Code<'_>, at: i16, bytes: u16) {
        let fits = code.label();
        for word in 0..bytes as i16 / 8 {
            code.store(Size::B8, Reg::R10, at + 8 * word, Operand::Imm(0));
        }
        code.load(Size::B4, false, Reg::R2, Reg::R10, self.frame.scratch + LENGTH);
        code.branch(JumpOp::Le, Reg::R2, Operand::Imm(bytes.into()), fits);
        code.push(Insn::mov_imm(Reg::R2, bytes.into()));
        code.bind(fits);
        code.frame_address(Reg::R1, at);
        code.load(Size::B8, false, Reg::R3, Reg::R10, self.frame.scratch + PAYLOAD);
        code.call("probe_read_kernel");
    }
}
