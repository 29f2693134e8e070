//! Branches, diamonds and loops.

use std::fmt::Write as _;

use super::{COMPARISONS, Composer, put};

impl Composer<'_, '_> {
    pub(super) fn comparison(&mut self) -> String {
        let (n, view, op) = (self.number(), self.pick(&['r', 'w']), self.pick(&COMPARISONS));
        match self.below(3) {
            0 => format!("{view}{n} {op} {view}{}", self.number()),
            _ => format!("{view}{n} {op} {}", self.immediate()),
        }
    }

    pub(super) fn condition(&mut self) {
        let (comparison, target) = (self.comparison(), self.later());
        match self.below(8) {
            0 => put!(self, "if {comparison} goto out"),
            _ => put!(self, "if {comparison} goto L{target}"),
        }
    }

    /// Two arms that give a register something, or one that does.
    pub(super) fn diamond(&mut self) {
        let (comparison, n, view) = (self.comparison(), self.number(), self.pick(&['r', 'w']));
        let (arm, join) = (self.label(), self.label());
        let both = self.below(3);
        if both == 0 {
            put!(self, "{view}{n} = {}", self.immediate());
        }
        put!(self, "if {comparison} goto L{arm}");
        if both != 0 {
            put!(self, "{view}{n} = {}", self.pick(&[0, 1, 1, 7]));
        }
        if self.below(3) == 0 {
            self.stack_access();
        }
        put!(self, "goto L{join}");
        self.here(arm);
        put!(self, "{view}{n} = {}", self.pick(&[0, 1, 0, 9]));
        if self.below(3) == 0 {
            self.arithmetic();
        }
        self.here(join);
    }

    /// A comparison whose result is known on one of the paths to it.
    pub(super) fn condition_again(&mut self) {
        let (n, view, op) = (self.number(), self.pick(&['r', 'w']), self.pick(&COMPARISONS));
        let (value, other) = (self.immediate(), self.number());
        let (first, second) = (self.label(), self.later());
        let again = if self.below(3) == 0 { self.immediate() } else { value };
        let view_again = if self.below(4) == 0 { self.pick(&['r', 'w']) } else { view };
        let op_again = if self.below(3) == 0 { self.pick(&COMPARISONS) } else { op };
        put!(self, "if {view}{n} {op} {value} goto L{first}");
        put!(self, "{view}{other} = {}", self.immediate());
        if self.below(2) == 0 {
            self.stack_access();
        }
        self.here(first);
        put!(self, "if {view_again}{n} {op_again} {again} goto L{second}");
    }

    pub(super) fn masked_condition(&mut self) {
        let (n, copy, mask) = (self.number(), self.number(), self.immediate());
        let target = self.later();
        put!(self, "r{copy} = r{n}");
        put!(self, "{}{copy} &= {mask}", self.pick(&['r', 'w']));
        put!(self, "if {}{copy} {} 0 goto L{target}", self.pick(&['r', 'w']), self.pick(&["==", "!="]));
    }

    /// Several paths give a register the same constant, and one path gives it another.
    pub(super) fn constants_on_the_ways(&mut self) {
        let (n, value, join) = (self.number(), self.below(4), self.label());
        for _ in 0..2 + self.below(2) {
            put!(self, "r{n} = {value}");
            put!(self, "if {} goto L{join}", self.comparison());
            if self.below(2) == 0 {
                self.packet_access();
            }
        }
        put!(self, "r{n} = {}", self.immediate());
        self.here(join);
    }

    /// A loop that ends, its counter in a register or on the stack.
    pub(super) fn bounded_loop(&mut self) {
        let (again, turns) = (self.label(), 1 + self.below(7));
        let on_stack = self.below(3) == 0;
        put!(self, "{}", if on_stack { "*(u64 *)(r10 - 144) = 0" } else { "r9 = 0" });
        self.here(again);
        match self.below(4) {
            0 if !on_stack => {
                put!(self, "r5 = r7");
                put!(self, "r5 += r9");
                put!(self, "r4 = *(u8 *)(r5 + 0)");
                put!(self, "w5 = w4");
                put!(self, "r0 += r4");
            }
            1 => self.stack_access(),
            2 => self.packet_access(),
            _ => self.arithmetic(),
        }
        if on_stack {
            put!(self, "r5 = *(u64 *)(r10 - 144)");
            put!(self, "r5 += 1");
            put!(self, "*(u64 *)(r10 - 144) = r5");
            put!(self, "if r5 {} {turns} goto L{again}", self.pick(&["<", "!="]));
        } else {
            put!(self, "r9 += 1");
            put!(self, "if r9 {} {turns} goto L{again}", self.pick(&["<", "!="]));
        }
    }

    /// A loop with `may_goto` that ends before the kernel leaves it.
    pub(super) fn may_goto_loop(&mut self) {
        let (again, end) = (self.label(), self.label());
        put!(self, "r9 = {}", self.below(3));
        self.here(again);
        put!(self, "may_goto L{end}");
        self.arithmetic();
        put!(self, "r9 += 1");
        put!(self, "if r9 < {} goto L{again}", 1 + self.below(6));
        self.here(end);
    }
}
