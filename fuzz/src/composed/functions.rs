//! Static functions and callbacks.

use std::fmt::Write as _;

use super::{COMPARISONS, Composer, MOST_FUNCTIONS, SIZES, put, view};

impl Composer<'_, '_> {
    /// A call of a static function, new or existing, with the address of some slots and two numbers.
    pub(super) fn called(&mut self) {
        let index = self.below(self.functions.len() + 2);
        let index = match index.checked_sub(self.functions.len()) {
            Some(_) if self.functions.len() < MOST_FUNCTIONS => {
                let body = self.body(false);
                self.functions.push(body);
                self.functions.len() - 1
            }
            _ if self.functions.is_empty() => return,
            _ => index.min(self.functions.len() - 1),
        };
        put!(self, "r1 = r10");
        put!(self, "r1 += -{}", 64 - 8 * self.below(5));
        put!(self, "r2 = {}", self.immediate());
        match self.below(3) {
            0 => put!(self, "r3 = *(u64 *)(r10 - 16)"),
            1 => put!(self, "w3 = *(u8 *)(r7 + 9)"),
            _ => put!(self, "w3 = {}", self.immediate()),
        }
        put!(self, "r4 = 0");
        put!(self, "call f{index}");
        self.numbers_again(1);
    }

    /// The body of a static function with r1 (24 bytes of a caller's stack), r2 and r3; a callback has them in r2, r1.
    pub(super) fn body(&mut self, callback: bool) -> String {
        let outer = std::mem::take(&mut self.code);
        if callback {
            put!(self, "r3 = r1");
            put!(self, "r1 = r2");
            put!(self, "w2 = 3");
        }
        put!(self, "r0 = {}", self.pick(&[0, 1]));
        let leave = self.label();
        let own = 8 * (1 + self.below(3));
        put!(self, "*(u64 *)(r10 - {own}) = {}", self.immediate());
        for _ in 0..1 + self.below(6) {
            let (bits, at) = (self.pick(&SIZES), 8 * self.below(3));
            let number = self.pick(&["2", "3", "4"]);
            match self.below(10) {
                0 => put!(self, "r{number} = *(u64 *)(r1 + {at})"),
                1 => put!(self, "{}4 = *(u{bits} *)(r1 + {at})", view(bits)),
                2 => put!(self, "*(u{bits} *)(r1 + {at}) = {}3", view(bits)),
                3 => put!(self, "*(u64 *)(r10 - {own}) = r3"),
                4 => put!(self, "r{} = *(u64 *)(r10 - {own})", self.pick(&[2, 3])),
                5 => put!(self, "r3 {} {}", self.pick(&["+=", "^=", "*="]), self.immediate()),
                6 => put!(self, "w2 {} w3", self.pick(&["+=", "^=", "&="])),
                7 => put!(self, "r{} += r2", self.pick(&[2, 3])),
                8 => {
                    put!(self, "r4 = {at}");
                    put!(self, "r4 += r1");
                    put!(self, "r{number} = *(u64 *)(r4 + 0)");
                }
                _ => put!(
                    self,
                    "if r{} {} {} goto L{leave}",
                    self.pick(&[2, 3]),
                    self.pick(&COMPARISONS),
                    self.immediate()
                ),
            }
            if number == "4" {
                put!(self, "r4 = {}", self.below(9));
                put!(self, "*(u64 *)(r1 + {at}) = r4");
            }
        }
        if !callback {
            put!(self, "r0 {} r3", self.pick(&["=", "+=", "^="]));
            put!(self, "r0 += r2");
            if self.below(2) == 0 {
                put!(self, "r4 = *(u64 *)(r10 - {own})");
                put!(self, "r0 ^= r4");
            }
        }
        self.here(leave);
        put!(self, "exit");
        std::mem::replace(&mut self.code, outer)
    }

    pub(super) fn callback(&mut self) {
        if self.functions.len() >= MOST_FUNCTIONS {
            return;
        }
        let body = self.body(true);
        self.functions.push(body);
        self.callbacks += 1;
        put!(self, "w1 = {}", self.below(6));
        put!(self, "r2 = fn[f{}]", self.functions.len() - 1);
        put!(self, "r3 = r10");
        put!(self, "r3 += -{}", 64 - 8 * self.below(5));
        put!(self, "r4 = 0");
        put!(self, "call loop");
        self.numbers_again(1);
    }
}
