//! Numbers in registers.

use std::fmt::Write as _;

use super::{Composer, put};

impl Composer<'_, '_> {
    pub(super) fn arithmetic(&mut self) {
        for _ in 0..1 + self.below(3) {
            let (dst, src, view) = (self.number(), self.number(), self.pick(&['r', 'w']));
            let bits = if view == 'r' { 64 } else { 32 };
            let value = self.immediate();
            let op = self.pick(&[
                "=", "+=", "-=", "*=", "&=", "|=", "^=", "=", "+=", "&=", "<<=", ">>=", "s>>=", "/=", "%=", "s/=",
                "s%=",
            ]);
            let by_register = self.below(2) == 0;
            match op {
                _ if by_register => put!(self, "{view}{dst} {op} {view}{src}"),
                "<<=" | ">>=" | "s>>=" => put!(self, "{view}{dst} {op} {}", value & (bits - 1)),
                "/=" | "%=" | "s/=" | "s%=" if value == 0 => put!(self, "{view}{dst} {op} 4"),
                _ => put!(self, "{view}{dst} {op} {value}"),
            }
        }
    }

    pub(super) fn shift_pair(&mut self) {
        let (n, other, amount) = (self.number(), self.number(), self.pick(&[32, 32, 48, 56, 24, 8]));
        let back = if self.below(6) == 0 { self.pick(&[32, 48, 24]) } else { amount };
        let right = self.pick(&[">>=", "s>>="]);
        if self.below(2) == 0 {
            put!(self, "r{n} = r{other}");
        }
        put!(self, "r{n} <<= {amount}");
        put!(self, "r{n} {right} {back}");
    }

    pub(super) fn byte_order(&mut self) {
        let n = self.number();
        let order = self.pick(&["be16", "be32", "be64", "le16", "le32", "bswap16", "bswap32", "bswap64"]);
        put!(self, "r{n} = {order} r{n}");
    }

    pub(super) fn sign_extension(&mut self) {
        let (n, other) = (self.number(), self.number());
        match self.below(3) {
            0 => put!(self, "w{n} = (s{})w{other}", self.pick(&[8, 16])),
            1 => put!(self, "{0}{n} = -{0}{n}", self.pick(&['r', 'w'])),
            _ => put!(self, "r{n} = (s{})r{other}", self.pick(&[8, 16, 32])),
        }
    }
}
