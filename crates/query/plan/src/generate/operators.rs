//! The operators of one program: read, filter, output, store, group.
//!
//! R6 is the context. R7 is the running thread (`bpf_get_current_pid_tgid`), later the value of a map.

use std::collections::BTreeSet;

use kiln_isa::{AluOp, Insn, JumpOp, Reg, Size, Source as Operand};
use kiln_program::{MapId, Node, Object};

use super::code::{Code, Label, Marks, Odds};
use super::expression::Writer;
use super::failure::Failure;
use super::layout::{Origin, Slot, SlotKind, field, resolve, size};
use super::plan::{GroupMap, pair_key};
use super::slots::{clear_gaps, copy_slot};
use super::writing::{Maps, Writing};
use crate::query::Shape;
use crate::split::{KernelKey, Sign, State};
use crate::table::{Read, Scalar, Scan, Side, Source};
use crate::tables::DATA_LOC;

/// `BPF_RB_NO_WAKEUP` and `BPF_RB_FORCE_WAKEUP`.
const WAKE: [u64; 2] = [1, 2];
/// `BPF_F_USER_STACK`.
const USER_STACK: i32 = 1 << 8;
/// `BPF_RB_AVAIL_DATA`.
const AVAILABLE: u64 = 0;

impl Writing<'_> {
    /// The program's instructions, and what is known of its branches.
    pub fn program(&self, object: &mut Object, maps: &Maps<'_>) -> Result<(Vec<Node>, Marks), Failure> {
        let mut code = Code::new(object);
        let out = code.label();
        self.begin(&mut code, maps.span, out)?;
        match (maps.starts, self.side) {
            (Some(starts), Side::Enter) => {
                let fails = code.label();
                self.sample(&mut code, fails);
                self.clear_gaps(&mut code);
                self.read_and_decide(&mut code, 0, fails)?;
                self.remember(&mut code, maps, starts, out)?;
                code.bind(fails);
                self.forget(&mut code, starts);
            }
            (starts, side) => {
                self.clear_gaps(&mut code);
                match starts {
                    Some(starts) => self.find_beginning(&mut code, starts, out)?,
                    None => self.sample(&mut code, out),
                }
                self.read_and_decide(&mut code, usize::from(side != Side::Enter), out)?;
                match maps.groups {
                    Some(groups) => self.group(&mut code, maps, groups, out)?,
                    None => self.hand_over(&mut code, maps, out)?,
                }
            }
        }
        code.bind(out);
        code.push(Insn::mov_imm(Reg::R0, 0));
        code.push(Insn::Exit);
        let marks = code.take_marks();
        Ok((code.finish(), marks))
    }

    /// Saves the context and the running thread, exits if the event or the thread does not count, and saves the pair's key.
    fn begin(&self, code: &mut Code<'_>, span: Option<MapId>, out: Label) -> Result<(), Failure> {
        code.copy(Reg::R6, Reg::R1);
        if let Origin::Records(_) = self.origin {
            return self.begin_recorded(code);
        }
        if let Some(span) = span {
            self.leave_out_by_time(code, span, out);
        }
        code.call("get_current_pid_tgid");
        code.copy(Reg::R7, Reg::R0);
        if let (Some(pid), Some(process)) = (self.settings.except_pid, self.process()) {
            self.value(code, process)?;
            code.constant(Reg::R2, pid.into());
            code.branch(JumpOp::Eq, Reg::R1, Operand::Reg(Reg::R2), out);
            code.mark(Odds::Seldom);
        }
        if let Some((direction, port)) = self.datagram() {
            self.open_datagram(code, direction, port, out)?;
        }
        self.leave_out_others(code, out)?;
        if let Some(key) = pair_key(self.query, self.side) {
            self.value(code, key)?;
            code.store(Size::B8, Reg::R10, self.frame.pair_key, Operand::Reg(Reg::R1));
        }
        Ok(())
    }

    /// Exits at an event that does not count; see [`super::Generated::span`].
    fn leave_out_by_time(&self, code: &mut Code<'_>, span: MapId, out: Label) {
        let (ends, counts) = (code.label(), code.label());
        code.map_value(Reg::R1, span, 0);
        code.load(Size::B8, false, Reg::R7, Reg::R1, 0);
        code.branch(JumpOp::Eq, Reg::R7, Operand::Imm(0), counts);
        code.mark(Odds::Usual);
        code.call("ktime_get_ns");
        code.branch(JumpOp::Slt, Reg::R7, Operand::Imm(0), ends);
        code.branch(JumpOp::Lt, Reg::R0, Operand::Reg(Reg::R7), out);
        code.jump(counts);
        code.bind(ends);
        code.alu(AluOp::Add, Reg::R0, Operand::Reg(Reg::R7));
        code.branch(JumpOp::Sge, Reg::R0, Operand::Imm(0), out);
        code.bind(counts);
    }

    /// What this hook reads as the row's process; `None` where the running process has nothing to do with the row.
    fn process(&self) -> Option<&Read> {
        let table = &self.query.table;
        let Source::Read { at, what } = &table.columns[table.column("pid")?].source else { return None };
        (at.is_at(self.side) && !table.interrupts).then_some(what)
    }

    /// Exits but for one event in as many as are wanted.
    fn sample(&self, code: &mut Code<'_>, out: Label) {
        if self.settings.sample > 1 {
            code.call("get_prandom_u32");
            code.constant(Reg::R1, u64::from(u32::MAX / self.settings.sample));
            code.branch(JumpOp::Gt, Reg::R0, Operand::Reg(Reg::R1), out);
        }
    }

    /// Keeps the pair's key, which is in the context.
    fn begin_recorded(&self, code: &mut Code<'_>) -> Result<(), Failure> {
        let record = self.origin.record(&self.query.table, self.side).map_err(Failure::Kernel)?;
        if let Some(slot) = record.slot(None) {
            copy_slot(code, slot, (Reg::R6, slot.offset as i16), (Reg::R10, self.frame.pair_key));
        }
        Ok(())
    }

    /// Copies a column from the context.
    fn read_recorded(&self, code: &mut Code<'_>, column: usize, at: i16) -> Result<(), Failure> {
        let record = self.origin.record(&self.query.table, self.side).map_err(Failure::Kernel)?;
        let slot = record.slot(Some(column)).ok_or_else(|| Failure::NotHere(format!("column {column}")))?;
        copy_slot(code, slot, (Reg::R6, slot.offset as i16), (Reg::R10, at));
        Ok(())
    }

    /// Makes a number in R1.
    pub(super) fn value(&self, code: &mut Code<'_>, what: &Read) -> Result<(), Failure> {
        match what {
            Read::Time => self.helper(code, "ktime_get_ns"),
            Read::CgroupId => self.helper(code, "get_current_cgroup_id"),
            Read::Cpu => self.helper(code, "get_smp_processor_id"),
            Read::Uid => self.helper(code, "get_current_uid_gid"),
            Read::Tid => {
                code.copy(Reg::R1, Reg::R7);
                code.alu(AluOp::Lsh, Reg::R1, Operand::Imm(32));
                code.alu(AluOp::Rsh, Reg::R1, Operand::Imm(32));
            }
            Read::Pid => {
                code.copy(Reg::R1, Reg::R7);
                code.alu(AluOp::Rsh, Reg::R1, Operand::Imm(32));
            }
            Read::Command
            | Read::UserText { .. }
            | Read::KernelText { .. }
            | Read::FieldText { .. }
            | Read::Payload
            | Read::Address(_) => {
                return Err(Failure::NotHere("what is read into memory".to_owned()));
            }
            Read::Task => self.helper(code, "get_current_task"),
            Read::Header { offset, bytes } => {
                let size = size(Scalar::unsigned(*bytes));
                code.load(size, false, Reg::R1, Reg::R10, self.frame.scratch + offset);
            }
            Read::Conversation => self.conversation(code)?,
            Read::Behind { from, path } => {
                self.value(code, from)?;
                self.behind(code, path)?;
            }
            Read::Element(array, index) => self.element(code, array, index)?,
            Read::Packet(_) => return Err(Failure::NotHere("a packet".to_owned())),
            Read::Argument { index, path, .. } => {
                code.load(Size::B8, false, Reg::R1, Reg::R6, 8 * i16::from(*index));
                if !path.is_empty() {
                    self.follow(code, what, Reg::R1)?;
                }
            }
            Read::Field { .. } => self.follow(code, what, Reg::R6)?,
            Read::Part { index, .. } => {
                code.load(Size::B8, false, Reg::R1, Reg::R6, 8 * i16::from(*index));
                self.follow(code, what, Reg::R1)?;
            }
            Read::Stack { user } => {
                let stacks = self.stacks.ok_or_else(|| Failure::NotHere("a stack".to_owned()))?;
                code.copy(Reg::R1, Reg::R6);
                code.map(Reg::R2, stacks);
                code.push(Insn::mov_imm(Reg::R3, if *user { USER_STACK } else { 0 }));
                self.helper(code, "get_stackid");
                if *user {
                    // Addresses say nothing without their process: its number is the upper half.
                    let lost = code.label();
                    code.branch(JumpOp::Slt, Reg::R1, Operand::Imm(0), lost);
                    code.copy(Reg::R2, Reg::R7);
                    code.alu(AluOp::Rsh, Reg::R2, Operand::Imm(32));
                    code.alu(AluOp::Lsh, Reg::R2, Operand::Imm(32));
                    code.alu(AluOp::Or, Reg::R1, Operand::Reg(Reg::R2));
                    code.bind(lost);
                }
            }
            Read::Constant(value) => code.constant(Reg::R1, *value as u64),
            Read::UserNumber { .. } | Read::Cut { .. } | Read::Sum { .. } | Read::Cookie => {
                self.of_program(code, what)?;
            }
            Read::Absent(why) => return Err(Failure::Kernel(format!("a value needs {why}"))),
            Read::Choice { by, equals, then, otherwise } => {
                let (first, end) = (code.label(), code.label());
                self.value(code, by)?;
                code.branch(JumpOp::Eq, Reg::R1, Operand::Imm(*equals), first);
                self.value(code, otherwise)?;
                code.jump(end);
                code.bind(first);
                self.value(code, then)?;
                code.bind(end);
            }
        }
        Ok(())
    }

    /// Copies text from user or kernel memory into the frame, with zeros behind it.
    fn text(&self, code: &mut Code<'_>, what: &Read, at: i16, bytes: u16) -> Result<(), Failure> {
        for word in 0..bytes as i16 / 8 {
            code.store(Size::B8, Reg::R10, at + 8 * word, Operand::Imm(0));
        }
        let helper = match what {
            Read::UserText { address, .. } => {
                self.value(code, address)?;
                code.copy(Reg::R3, Reg::R1);
                "probe_read_user_str"
            }
            Read::KernelText { address, .. } => {
                self.value(code, address)?;
                code.copy(Reg::R3, Reg::R1);
                "probe_read_kernel_str"
            }
            Read::FieldText { structure, name, .. } => {
                self.field_text(code, structure, name)?;
                "probe_read_kernel_str"
            }
            _ => return Err(Failure::NotHere("text".to_owned())),
        };
        code.frame_address(Reg::R1, at);
        code.push(Insn::mov_imm(Reg::R2, bytes.into()));
        code.call(helper);
        Ok(())
    }

    /// Puts the address of a text in the tracepoint's record into R3.
    fn field_text(&self, code: &mut Code<'_>, structure: &str, name: &str) -> Result<(), Failure> {
        let Origin::Hooks(types) = self.origin else { return Err(Failure::NotHere("a hook's record".to_owned())) };
        let (offset, _) = field(structure, name, types).map_err(Failure::Kernel)?;
        let far = || Failure::Kernel(format!("a field is {offset} bytes into its record"));
        let offset = i16::try_from(offset).map_err(|_| far())?;
        code.copy(Reg::R3, Reg::R6);
        if name.starts_with(DATA_LOC) {
            // The field's lower half is where the text is in the record.
            code.load(Size::B4, false, Reg::R1, Reg::R6, offset);
            code.alu(AluOp::And, Reg::R1, Operand::Imm(0xffff));
            code.alu(AluOp::Add, Reg::R3, Operand::Reg(Reg::R1));
        } else {
            code.alu(AluOp::Add, Reg::R3, Operand::Imm(offset.into()));
        }
        Ok(())
    }

    pub(super) fn helper(&self, code: &mut Code<'_>, name: &str) {
        code.call(name);
        code.copy(Reg::R1, Reg::R0);
    }

    /// Loads what members lead to, from an address in a register, into R1.
    fn follow(&self, code: &mut Code<'_>, what: &Read, mut base: Reg) -> Result<(), Failure> {
        let Origin::Hooks(types) = self.origin else { return Err(Failure::NotHere("a hook's argument".to_owned())) };
        let resolved = resolve(what, types).map_err(Failure::Kernel)?;
        let last = resolved.offsets.len() - 1;
        for (at, offset) in resolved.offsets.iter().enumerate() {
            let far = || Failure::Kernel(format!("a member is {offset} bytes into its structure"));
            let offset = i16::try_from(*offset).map_err(|_| far())?;
            let scalar = if at == last { resolved.scalar } else { Scalar::unsigned(8) };
            code.load(size(scalar), false, Reg::R1, base, offset);
            base = Reg::R1;
        }
        Ok(())
    }

    /// Clears the record's gaps before the columns are written.
    fn clear_gaps(&self, code: &mut Code<'_>) {
        clear_gaps(code, &self.frame.record, self.frame.start());
    }

    /// Exits at an event that is not what a pair begins or ends with.
    fn leave_out_others(&self, code: &mut Code<'_>, out: Label) -> Result<(), Failure> {
        let Scan::Pair { counts, .. } = &self.query.table.scan else { return Ok(()) };
        let Some(counts) = &counts[usize::from(self.side != Side::Enter)] else { return Ok(()) };
        self.value(code, &counts.what)?;
        let is_one = if counts.are { code.label() } else { out };
        for value in &counts.values {
            code.branch(JumpOp::Eq, Reg::R1, Operand::Imm(*value), is_one);
            if !counts.are {
                code.mark(Odds::Seldom);
            }
        }
        if counts.are {
            code.jump(out);
            code.bind(is_one);
        }
        Ok(())
    }

    /// Reads the columns of this hook into the record, and exits unless all conditions of this hook hold. Each condition is
    /// decided as soon as its columns are read, so that an event that is not wanted costs no clock and no texts.
    fn read_and_decide(&self, code: &mut Code<'_>, index: usize, out: Label) -> Result<(), Failure> {
        let mut is_read = BTreeSet::new();
        for condition in &self.plan.conditions[index] {
            let mut columns = BTreeSet::new();
            condition.columns(&mut columns);
            let mut columns = self.query.table.read_for(columns);
            columns.retain(|column| is_read.insert(*column));
            self.read(code, |column| column.is_some_and(|column| columns.contains(&column)))?;
            self.writer().branch(code, condition, false, out)?;
        }
        self.read(code, |column| column.is_none_or(|column| !is_read.contains(&column)))?;
        if let Some(tag) = self.frame.record.tag {
            code.store(Size::B4, Reg::R10, self.frame.start(), Operand::Imm(tag as i32));
        }
        Ok(())
    }

    /// Reads some columns of this hook into the record; `None` is the pair's key.
    fn read(&self, code: &mut Code<'_>, wanted: impl Fn(Option<usize>) -> bool) -> Result<(), Failure> {
        let (record, start) = (&self.frame.record, self.frame.start());
        for slot in record.slots.iter().filter(|slot| wanted(slot.column)) {
            let at = start + slot.offset as i16;
            let Some(column) = slot.column else {
                code.load(Size::B8, false, Reg::R1, Reg::R10, self.frame.pair_key);
                code.store(Size::B8, Reg::R10, at, Operand::Reg(Reg::R1));
                continue;
            };
            let Source::Read { at: side, what } = &self.query.table.columns[column].source else { continue };
            let here = if self.side == Side::Enter { side.at_enter() } else { side.at_exit() };
            match slot.kind {
                _ if !here => {}
                _ if matches!(self.origin, Origin::Records(_)) => self.read_recorded(code, column, at)?,
                SlotKind::Command => {
                    code.frame_address(Reg::R1, at);
                    code.push(Insn::mov_imm(Reg::R2, slot.kind.bytes().into()));
                    code.call("get_current_comm");
                }
                SlotKind::Text | SlotKind::Short(_) => self.text(code, what, at, slot.kind.bytes())?,
                SlotKind::Bytes(bytes) => self.payload(code, at, bytes),
                SlotKind::Number(scalar) => match what {
                    Read::Address(index) => address(code, *index, at),
                    _ => {
                        self.value(code, what)?;
                        code.store(size(scalar), Reg::R10, at, Operand::Reg(Reg::R1));
                    }
                },
            }
        }
        Ok(())
    }

    fn writer(&self) -> Writer<'_> {
        Writer { table: &self.query.table, frame: self.frame, unknown_zero: None }
    }

    /// Outputs the record. User space is woken when enough bytes wait.
    fn hand_over(&self, code: &mut Code<'_>, maps: &Maps<'_>, out: Label) -> Result<(), Failure> {
        let ring = maps.ring.ok_or_else(|| Failure::NotHere("handing rows over".to_owned()))?;
        let wake = code.label();
        code.map(Reg::R1, ring);
        code.constant(Reg::R2, AVAILABLE);
        code.call("ringbuf_query");
        code.constant(Reg::R4, WAKE[1]);
        let enough = i32::try_from(self.settings.wake_bytes).unwrap_or(i32::MAX);
        code.branch(JumpOp::Ge, Reg::R0, Operand::Imm(enough), wake);
        code.constant(Reg::R4, WAKE[0]);
        code.bind(wake);
        code.map(Reg::R1, ring);
        code.frame_address(Reg::R2, self.frame.start());
        code.push(Insn::mov_imm(Reg::R3, self.frame.record.bytes.into()));
        code.call("ringbuf_output");
        code.branch(JumpOp::Eq, Reg::R0, Operand::Imm(0), out);
        self.count(code, maps, 0);
        Ok(())
    }

    /// Adds the row to its group.
    fn group(&self, code: &mut Code<'_>, maps: &Maps<'_>, map: &GroupMap, out: Label) -> Result<(), Failure> {
        self.group_key(code, map)?;
        let (fresh, update) = (code.label(), code.label());
        code.look_up(map.map, self.frame.group_key);
        code.branch(JumpOp::Eq, Reg::R0, Operand::Imm(0), fresh);
        code.copy(Reg::R8, Reg::R0);
        // If another processor made the group, this processor's value has no rows yet.
        code.load(Size::B8, false, Reg::R1, Reg::R8, 0);
        code.branch(JumpOp::Ne, Reg::R1, Operand::Imm(0), update);
        self.states(code, map, |code, at, state, sign| first_state(code, (Reg::R8, at), state, sign))?;
        code.constant(Reg::R1, 1);
        code.store(Size::B8, Reg::R8, 0, Operand::Reg(Reg::R1));
        code.jump(out);

        code.bind(update);
        code.alu(AluOp::Add, Reg::R1, Operand::Imm(1));
        code.store(Size::B8, Reg::R8, 0, Operand::Reg(Reg::R1));
        self.states(code, map, update_state)?;
        code.jump(out);

        code.bind(fresh);
        let place = self.frame.group_value;
        code.store(Size::B8, Reg::R10, place, Operand::Imm(1));
        self.states(code, map, |code, at, state, sign| first_state(code, (Reg::R10, place + at), state, sign))?;
        code.update(map.map, self.frame.group_key, place);
        code.branch(JumpOp::Eq, Reg::R0, Operand::Imm(0), out);
        self.count(code, maps, 2);
        Ok(())
    }

    fn group_key(&self, code: &mut Code<'_>, map: &GroupMap) -> Result<(), Failure> {
        let mut at = self.frame.group_key;
        if let Shape::Groups(groups) = &self.query.shape
            && let Some(window) = groups.window
        {
            let complete = self.query.table.complete().ok_or_else(|| Failure::NotHere("a window".to_owned()))?;
            let (complete, _) = self.frame.column(complete)?;
            code.load(Size::B8, false, Reg::R1, Reg::R10, complete);
            code.constant(Reg::R2, window.step_ns);
            code.alu(AluOp::Div, Reg::R1, Operand::Reg(Reg::R2));
            code.store(Size::B8, Reg::R10, at, Operand::Reg(Reg::R1));
            at += 8;
        }
        if at == self.frame.group_key && map.groups.keys.is_empty() {
            code.store(Size::B8, Reg::R10, at, Operand::Imm(0));
        }
        for key in &map.groups.keys {
            match key {
                KernelKey::Number(expr, _) => {
                    self.writer().number(code, expr, 0)?;
                    code.store(Size::B8, Reg::R10, at, Operand::Reg(Reg::R1));
                    at += 8;
                }
                KernelKey::Text(column) => {
                    let (from, kind) = self.frame.column(*column)?;
                    let slot = Slot { column: None, offset: 0, kind };
                    copy_slot(code, &slot, (Reg::R10, from), (Reg::R10, at));
                    at += kind.bytes() as i16;
                }
            }
        }
        Ok(())
    }

    /// For each state of each aggregate: makes the operand in R1, then what is said, with the state's offset.
    fn states(
        &self,
        code: &mut Code<'_>,
        map: &GroupMap,
        mut then: impl FnMut(&mut Code<'_>, i16, State, Sign),
    ) -> Result<(), Failure> {
        let mut at = 8;
        for aggregate in &map.groups.aggregates {
            for state in &aggregate.states {
                if let Some(of) = &aggregate.of {
                    self.writer().number(code, of, 0)?;
                }
                then(code, at, *state, aggregate.sign);
                at += 8;
            }
        }
        Ok(())
    }
}

/// Copies an argument that is an address into the frame, as a number.
fn address(code: &mut Code<'_>, index: u8, at: i16) {
    code.frame_address(Reg::R1, at);
    code.push(Insn::mov_imm(Reg::R2, 8));
    code.copy(Reg::R3, Reg::R6);
    code.alu(AluOp::Add, Reg::R3, Operand::Imm(8 * i32::from(index)));
    code.call("probe_read_kernel");
}

/// Makes R1, of a group's first row, a state.
fn first_state(code: &mut Code<'_>, (base, at): (Reg, i16), state: State, sign: Sign) {
    match (state, sign) {
        // The sign of the first summand.
        (State::High, Sign::Signed) => code.alu(AluOp::Arsh, Reg::R1, Operand::Imm(63)),
        (State::High, _) => code.push(Insn::mov_imm(Reg::R1, 0)),
        _ => {}
    }
    code.store(Size::B8, base, at, Operand::Reg(Reg::R1));
}

/// Joins R1 with a state in the map's value, which R8 has the address of.
fn update_state(code: &mut Code<'_>, at: i16, state: State, sign: Sign) {
    code.load(Size::B8, false, Reg::R2, Reg::R8, at);
    let keep = code.label();
    let signed = sign == Sign::Signed;
    match state {
        State::Sum => code.alu(AluOp::Add, Reg::R1, Operand::Reg(Reg::R2)),
        State::High => {
            // The lower half is below the summand if and only if it has wrapped.
            let (positive, whole) = (code.label(), code.label());
            if signed {
                code.branch(JumpOp::Sge, Reg::R1, Operand::Imm(0), positive);
                code.alu(AluOp::Sub, Reg::R2, Operand::Imm(1));
            }
            code.bind(positive);
            code.load(Size::B8, false, Reg::R3, Reg::R8, at - 8);
            code.branch(JumpOp::Ge, Reg::R3, Operand::Reg(Reg::R1), whole);
            code.alu(AluOp::Add, Reg::R2, Operand::Imm(1));
            code.bind(whole);
            code.copy(Reg::R1, Reg::R2);
        }
        State::Min => {
            let op = if signed { JumpOp::Sge } else { JumpOp::Ge };
            code.branch(op, Reg::R1, Operand::Reg(Reg::R2), keep);
        }
        State::Max => {
            let op = if signed { JumpOp::Sle } else { JumpOp::Le };
            code.branch(op, Reg::R1, Operand::Reg(Reg::R2), keep);
        }
    }
    code.store(Size::B8, Reg::R8, at, Operand::Reg(Reg::R1));
    code.bind(keep);
}
