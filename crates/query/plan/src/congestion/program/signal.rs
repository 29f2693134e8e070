//! Reads what a policy can know at an acknowledgement.

use kiln_isa::{AluOp, Insn, JumpOp, Reg, Size, Source};

use super::{TIMEOUT_WORD, Writing, column_of};
use crate::congestion::policy::Signal;
use crate::congestion::user::TIME;
use crate::generate::Failure;

impl Writing<'_, '_> {
    /// Multiplies R1 with the size of a segment.
    pub(super) fn segments(&mut self) -> Result<(), Failure> {
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
    pub(super) fn signal(&mut self, signal: Signal) -> Result<(), Failure> {
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
                let offset = self.word(TIMEOUT_WORD)?;
                self.code.load(Size::B8, false, Reg::R1, Reg::R6, offset);
            }
            Signal::Silent => {
                let end = self.code.label();
                if self.user.is_some() {
                    let answered = self.code.label();
                    self.code.constant(Reg::R1, u64::MAX);
                    self.code.branch(JumpOp::Eq, Reg::R8, Source::Imm(0), end);
                    self.code.load(Size::B8, false, Reg::R2, Reg::R8, 8 * TIME as i16);
                    self.code.branch(JumpOp::Ne, Reg::R2, Source::Imm(0), answered);
                    self.code.jump(end);
                    self.code.bind(answered);
                    self.now();
                    self.code.load(Size::B8, false, Reg::R2, Reg::R8, 8 * TIME as i16);
                    self.code.alu(AluOp::Sub, Reg::R1, Source::Reg(Reg::R2));
                } else {
                    self.code.constant(Reg::R1, u64::MAX);
                }
                self.code.bind(end);
            }
        }
        Ok(())
    }
}
