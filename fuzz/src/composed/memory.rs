//! Packet, stack, context and data sections.

use std::fmt::Write as _;

use super::{Composer, PACKET_BYTES, SIZES, put, view};

impl Composer<'_, '_> {
    pub(super) fn packet_access(&mut self) {
        let bits = self.pick(&SIZES);
        let at = self.place(bits, PACKET_BYTES);
        self.access("r7", at, bits);
    }

    /// Bytes or half words, shifted and joined: a wider load if they fit together.
    pub(super) fn bytes_put_together(&mut self) {
        let (low, high, bits) = (self.number(), self.number(), self.pick(&[8u8, 8, 16]));
        let width = usize::from(bits / 8);
        let at = self.below(40);
        let gap = if self.below(6) == 0 { width + 1 } else { width };
        let (shift, join) = (if self.below(6) == 0 { bits - 1 } else { bits }, self.pick(&["|=", "+=", "^="]));
        let (base, at, next) = match self.below(3) {
            0 => ("r10 - ", 64 - at, 64 - at - gap),
            _ => ("r7 + ", at, at + gap),
        };
        put!(self, "w{low} = *(u{bits} *)({base}{at})");
        put!(self, "w{high} = *(u{bits} *)({base}{next})");
        if self.below(4) == 0 {
            put!(self, "r{low} <<= {shift}");
        } else {
            put!(self, "r{high} <<= {shift}");
        }
        put!(self, "r{low} {join} r{high}");
    }

    pub(super) fn fields_exchanged(&mut self) {
        let at = self.below(8);
        let places = [at, at + 4, at + 6, at + 10];
        for (n, (bits, place)) in [32, 16, 32, 16].into_iter().zip(places).enumerate() {
            put!(self, "w{} = *(u{bits} *)(r7 + {place})", n + 1);
        }
        for (n, (bits, place)) in [32, 16, 32, 16].into_iter().zip([at + 6, at + 10, at, at + 4]).enumerate() {
            put!(self, "*(u{bits} *)(r7 + {place}) = w{}", n + 1);
        }
    }

    /// Bytes copied piece by piece, from packet to stack, back, or within one of them.
    pub(super) fn copied_block(&mut self) {
        let (n, bits, pieces) = (self.number(), self.pick(&SIZES), 2 + self.below(3));
        let width = usize::from(bits / 8);
        let (from, to) = (self.below(32), self.below(32));
        let stack = self.below(3);
        for piece in 0..pieces {
            let (from, to) = (from + piece * width, to + piece * width);
            let (from, to) = match stack {
                0 => (format!("r7 + {from}"), format!("r10 - {}", 64 - to)),
                1 => (format!("r10 - {}", 64 - from), format!("r7 + {to}")),
                _ => (format!("r7 + {from}"), format!("r7 + {to}")),
            };
            put!(self, "{}{n} = *(u{bits} *)({from})", view(bits));
            put!(self, "*(u{bits} *)({to}) = {}{n}", view(bits));
        }
    }

    /// A packet pointer with a variable part, checked, then read or written at several places.
    pub(super) fn variable_packet(&mut self) {
        let (n, mask, length) = (self.number(), self.pick(&[3, 7, 15, 60]), 1 + self.below(12));
        put!(self, "{}{n} &= {mask}", self.pick(&['r', 'w']));
        put!(self, "r9 = r7");
        put!(self, "r9 += r{n}");
        let check = self.below(3);
        match check {
            0 => {
                put!(self, "r9 += {length}");
                put!(self, "if r9 > r8 goto out");
            }
            _ => {
                let skip = self.later();
                // Where it may be skipped, r5 is the number it was not.
                put!(self, "r5 = r9");
                put!(self, "r5 += {length}");
                let after = self.label();
                put!(self, "if r5 <= r8 goto L{after}");
                put!(self, "r5 = {}", self.immediate());
                put!(self, "goto L{skip}");
                self.here(after);
                put!(self, "r5 = {}", self.immediate());
            }
        }
        for _ in 0..1 + self.below(3) {
            let most = *[64u8, 32, 16, 8].iter().find(|bits| usize::from(**bits / 8) <= length).unwrap_or(&8);
            let bits = self.pick(&[8, most]);
            let at = self.place(bits, length);
            if check == 0 {
                let n = self.number();
                put!(self, "{}{n} = *(u{bits} *)(r9 - {})", view(bits), length - at);
            } else {
                self.access("r9", at, bits);
            }
        }
    }

    /// The packet is checked for more bytes than before.
    pub(super) fn another_check(&mut self) {
        let more = self.pick(&[65, 72, 80, 100]);
        if self.below(2) == 0 {
            put!(self, "r0 = {}", self.below(4));
        }
        put!(self, "r9 = r7");
        put!(self, "r9 += {more}");
        put!(self, "if r9 > r8 goto out");
        let bits = self.pick(&SIZES);
        let at = self.place(bits, more);
        self.access("r7", at, bits);
    }

    pub(super) fn stack_access(&mut self) {
        for _ in 0..1 + self.below(3) {
            let (n, bits) = (self.number(), self.pick(&SIZES));
            let at = self.slot(bits);
            match self.below(6) {
                0 | 1 => put!(self, "*(u{bits} *)(r10 - {at}) = {}", self.immediate()),
                2 | 3 => put!(self, "*(u{bits} *)(r10 - {at}) = {}{n}", view(bits)),
                4 if bits != 64 => put!(self, "r{n} = *(s{bits} *)(r10 - {at})"),
                _ => put!(self, "{}{n} = *(u{bits} *)(r10 - {at})", view(bits)),
            }
        }
    }

    /// Slots cleared or given constants one after the other, some in part again.
    pub(super) fn cleared_frame(&mut self) {
        let first = 1 + self.below(5);
        let value = self.pick(&[0, 0, 0, -1, 7]);
        let from_register = self.below(3) == 0;
        if from_register {
            put!(self, "{}1 = {value}", self.pick(&['r', 'w']));
        }
        for slot in (first..first + 3).rev() {
            if from_register {
                put!(self, "*(u64 *)(r10 - {}) = r1", 8 * slot);
            } else {
                put!(self, "*(u64 *)(r10 - {}) = {value}", 8 * slot);
            }
        }
        for _ in 0..self.below(3) {
            let (n, bits) = (self.number(), self.pick(&[8, 16, 32]));
            let at = self.slot(bits);
            put!(self, "*(u{bits} *)(r10 - {at}) = {}", if n == 0 { "0".to_owned() } else { format!("w{n}") });
        }
    }

    pub(super) fn variable_stack(&mut self) {
        let (n, bits) = (self.number(), self.pick(&SIZES));
        put!(self, "r{n} &= {}", self.pick(&[8, 24, 31, 3]));
        put!(self, "r9 = r10");
        put!(self, "r9 += -64");
        put!(self, "r9 += r{n}");
        let (at, bits) = (self.place(bits, 64 - 31), if self.below(2) == 0 { 8 } else { bits });
        self.access("r9", at, bits);
    }

    /// Every atomic operation, on the stack or on a map's value.
    pub(super) fn atomic(&mut self) {
        let (bits, n) = (self.pick(&[64, 32]), self.number());
        let (view, suffix) = if bits == 64 { ('r', "_64") } else { ('w', "32_32") };
        let place = if self.below(4) == 0 {
            put!(self, "r9 = map_value[.data] + {}", 8 * self.below(3));
            format!("r9 + {}", if bits == 64 { 0 } else { 4 * self.below(2) })
        } else {
            format!("r10 - {}", self.slot(bits))
        };
        match self.below(10) {
            0..=3 => put!(self, "lock *(u{bits} *)({place}) {} {view}{n}", self.pick(&["+=", "&=", "|=", "^="])),
            4..=6 => {
                let op = self.pick(&["add", "and", "or", "xor"]);
                put!(self, "{view}{n} = atomic_fetch_{op}((u{bits} *)({place}), {view}{n})");
            }
            7 => put!(self, "{view}{n} = xchg{suffix}({place}, {view}{n})"),
            _ => put!(self, "{view}0 = cmpxchg{suffix}({place}, {view}0, {view}{n})"),
        }
    }

    pub(super) fn context_field(&mut self) {
        let n = self.number();
        put!(self, "w{n} = *(u32 *)(r6 + {})", self.pick(&[12, 16]));
    }

    pub(super) fn read_only_data(&mut self) {
        let twice = self.below(2);
        for _ in 0..=twice {
            let (n, bits) = (self.number(), self.pick(&SIZES));
            let (first, at) = (4 * self.below(4), self.place(bits, 9));
            put!(self, "r9 = map_value[.rodata] + {first}");
            if self.below(3) == 0 {
                let index = self.number();
                put!(self, "r{index} &= 7");
                put!(self, "r9 += r{index}");
            }
            put!(self, "{}{n} = *(u{bits} *)(r9 + {at})", view(bits));
        }
    }

    pub(super) fn shared_data(&mut self) {
        put!(self, "r9 = map_value[.data] + {}", 4 * self.below(3));
        for _ in 0..1 + self.below(4) {
            let bits = self.pick(&SIZES);
            let at = self.place(bits, 20);
            self.access("r9", at, bits);
        }
    }

    /// A pointer saved on the stack during other code.
    pub(super) fn spilled_pointer(&mut self) {
        let (slot, pointer) = self.pick(&[(128, "r7"), (136, "r6"), (128, "r10")]);
        put!(self, "*(u64 *)(r10 - {slot}) = {pointer}");
        match self.below(3) {
            0 => self.stack_access(),
            1 => self.checksum(),
            _ => self.arithmetic(),
        }
        put!(self, "r9 = *(u64 *)(r10 - {slot})");
        let n = self.number();
        match pointer {
            "r7" => {
                let bits = self.pick(&SIZES);
                let at = self.place(bits, PACKET_BYTES);
                self.access("r9", at, bits);
            }
            "r6" => put!(self, "w{n} = *(u32 *)(r9 + 16)"),
            _ => put!(self, "r{n} = *(u64 *)(r9 - {})", 8 * (1 + self.below(8))),
        }
    }
}
