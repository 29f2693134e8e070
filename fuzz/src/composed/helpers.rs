//! Calls of helpers: maps, buffers, checksums.

use std::fmt::Write as _;

use super::{Composer, SIZES, put, view};

impl Composer<'_, '_> {
    pub(super) fn key(&mut self) {
        match self.below(4) {
            0 => {
                let n = self.number();
                put!(self, "w{n} &= {}", self.pick(&[3, 7]));
                put!(self, "*(u32 *)(r10 - 72) = w{n}");
            }
            1 => {
                put!(self, "w1 = 0");
                put!(self, "*(u32 *)(r10 - 72) = w1");
            }
            _ => put!(self, "*(u32 *)(r10 - 72) = {}", self.below(5)),
        }
    }

    /// R0 is the map's value of the key.
    pub(super) fn look_up(&mut self, map: &str) {
        put!(self, "r1 = map[{map}]");
        put!(self, "r2 = r10");
        put!(self, "r2 += -72");
        put!(self, "call map_lookup_elem");
    }

    pub(super) fn lookup(&mut self) {
        let (map, bytes) = self.pick(&[("values", 32), ("table", 16)]);
        self.key();
        self.look_up(map);
        let missing = self.label();
        put!(self, "r9 = r0");
        put!(self, "r0 = 0");
        self.numbers_again(1);
        put!(self, "if r9 == 0 goto {}", if self.below(3) == 0 { "out".to_owned() } else { format!("L{missing}") });
        if self.below(3) == 0 {
            put!(self, "r1 = *(u64 *)(r9 + 0)");
            put!(self, "r1 {} {}", self.pick(&["+=", "|=", "&=", "^="]), self.immediate());
            put!(self, "*(u64 *)(r9 + 0) = r1");
        }
        for _ in 0..1 + self.below(3) {
            let bits = self.pick(&SIZES);
            let at = self.place(bits, bytes);
            self.access("r9", at, bits);
        }
        if self.below(3) == 0 {
            let found = self.label();
            put!(self, "goto L{found}");
            self.here(missing);
            put!(self, "*(u64 *)(r10 - 88) = {}", self.immediate());
            put!(self, "r0 = {}", self.immediate());
            self.open.push((found, 0));
        } else {
            self.here(missing);
        }
    }

    /// The same key again, with something between.
    pub(super) fn lookup_twice(&mut self) {
        let map = self.pick(&["values", "table"]);
        let (missing, gone) = (self.label(), self.label());
        self.key();
        self.look_up(map);
        put!(self, "r9 = r0");
        put!(self, "r0 = 0");
        self.numbers_again(1);
        put!(self, "if r9 == 0 goto L{missing}");
        put!(self, "*(u64 *)(r9 + 8) = {}", self.immediate());
        match self.below(4) {
            0 => self.key(),
            1 => {
                put!(self, "r1 = map[{map}]");
                put!(self, "r2 = r10");
                put!(self, "r2 += -72");
                put!(self, "call map_delete_elem");
            }
            _ => {}
        }
        self.look_up(map);
        put!(self, "r5 = r0");
        put!(self, "r0 = 0");
        put!(self, "if r5 == 0 goto L{gone}");
        put!(self, "*(u64 *)(r5 + 8) = {}", self.immediate());
        put!(self, "r0 = *(u64 *)(r9 + 8)");
        self.here(gone);
        self.numbers_again(1);
        self.here(missing);
    }

    pub(super) fn table_update(&mut self) {
        let (map, bytes) = self.pick(&[("table", 16), ("table", 16), ("values", 32)]);
        self.key();
        let value = if bytes == 16 { 88 } else { 64 };
        if bytes == 16 {
            let n = self.number();
            put!(self, "*(u64 *)(r10 - 88) = {}", self.immediate());
            put!(self, "*(u64 *)(r10 - 80) = r{n}");
        }
        put!(self, "r1 = map[{map}]");
        put!(self, "r2 = r10");
        put!(self, "r2 += -72");
        if self.below(4) == 0 {
            put!(self, "call map_delete_elem");
        } else {
            put!(self, "r3 = r10");
            put!(self, "r3 += -{value}");
            put!(self, "r4 = {}", self.pick(&[0, 0, 1, 2]));
            put!(self, "call map_update_elem");
        }
        self.numbers_again(1);
    }

    /// A buffer that a helper fills if the packet has the bytes, and does not change otherwise.
    pub(super) fn buffer_filled(&mut self) {
        let (bytes, first) = (self.pick(&[4, 8, 16, 20, 32]), self.pick(&[0, 0, 14, 60, 100]));
        for slot in (0..4).rev() {
            put!(self, "*(u64 *)(r10 - {}) = {}", 96 + 8 * slot, self.pick(&[0, 0, 0, -1]));
        }
        match self.below(3) {
            0 => {
                let n = self.number();
                put!(self, "w2 = w{n}");
                put!(self, "w2 &= 127");
            }
            _ => put!(self, "r2 = {first}"),
        }
        put!(self, "r1 = r6");
        put!(self, "r3 = r10");
        put!(self, "r3 += -120");
        put!(self, "w4 = {bytes}");
        put!(self, "call xdp_load_bytes");
        let failed = self.label();
        let asked = self.below(5);
        if asked < 2 {
            put!(self, "if {}0 {} 0 goto out", self.pick(&['r', 'w']), self.pick(&["!=", "s<"]));
            self.numbers_again(1);
        } else {
            for n in 1..6 {
                put!(self, "w{n} = {}", self.immediate());
            }
            if asked < 4 {
                put!(self, "if {}0 {} 0 goto L{failed}", self.pick(&['r', 'w']), self.pick(&["!=", "s<"]));
            }
        }
        for _ in 0..1 + self.below(3) {
            let (n, bits) = (self.number(), self.pick(&SIZES));
            let width = usize::from(bits / 8);
            let at = 120 - width * self.below(32 / width);
            put!(self, "{}{n} = *(u{bits} *)(r10 - {at})", view(bits));
        }
        self.here(failed);
        if self.below(4) == 0 {
            let n = self.number();
            put!(self, "r{n} = *(u64 *)(r10 - {})", self.pick(&[120, 112, 96]));
        }
    }

    pub(super) fn buffer_stored(&mut self) {
        put!(self, "r1 = r6");
        put!(self, "r2 = {}", self.pick(&[0, 6, 40, 90]));
        put!(self, "r3 = r10");
        put!(self, "r3 += -{}", 64 - 8 * self.below(5));
        put!(self, "r4 = {}", self.pick(&[4, 8, 14, 24]));
        put!(self, "call xdp_store_bytes");
        self.numbers_again(1);
    }

    pub(super) fn checksum(&mut self) {
        put!(self, "r1 = r10");
        put!(self, "r1 += -{}", 64 - 8 * self.below(4));
        put!(self, "r2 = {}", self.pick(&[4, 8, 20, 32]));
        put!(self, "r3 = r10");
        put!(self, "r3 += -{}", 64 - 8 * self.below(4));
        put!(self, "r4 = {}", self.pick(&[4, 8, 16]));
        put!(self, "w5 = {}", self.immediate());
        put!(self, "call csum_diff");
        self.numbers_again(1);
    }

    /// If there is nothing to call, the program continues.
    pub(super) fn tail_call(&mut self) {
        put!(self, "r1 = r6");
        put!(self, "r2 = map[jumps]");
        put!(self, "r3 = {}", self.below(3));
        put!(self, "call tail_call");
        put!(self, "r0 = {}", self.immediate());
        self.numbers_again(1);
    }
}
